"""Train the models of induction, four kinds with five seeds each, and measure what they do when something is changed.

    python book/tools/train_induction.py train FOLDER [RUN …]   RUN.npz for each; those that are there are kept
    python book/tools/train_induction.py measure FOLDER         induction.json and induction_*.npz in attnlab/data

A RUN is named KIND-SEED, as "one layer, fixed-0"; without one, all are trained.  Ten to twenty seconds a model with one
layer, twenty to forty with two, on one core.  On another processor, sums are rounded in another order, and the models
differ in their last digits first, and then in which heads they use.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from records import DATA, rounded, write

from attnlab.evidence import spread
from attnlab.models import induction
from attnlab.models._stored import keep
from attnlab.models.induction import (
    CHANGES,
    FIXED,
    KINDS,
    N_HEADS,
    OFFSETS,
    AttentionOnly,
    Head,
    accuracy,
    file_of,
    guessing,
    heads_above,
    induction_score,
    previous_token_score,
    restore,
    train,
    without_heads,
)

SEEDS = range(5)
STORED = ("two layers", "one layer", "one layer, fixed")
OTHERS = [offset for offset in OFFSETS if offset != FIXED]
RUNS = [f"{kind}-{seed}" for seed in SEEDS for kind in KINDS]
WAYS = ("zero", "mean")
N_ORDERS = 5
N_LISTS = 100  # with 11 answers each: where there are hundreds of numbers to measure
CHOOSING = 3_000_000  # the seed of the lists on which heads are chosen; the numbers are those of other lists

ABOUT = (
    f"Models of book/tools/train_induction.py on fresh lists; the offset is {FIXED} where no other is named. accuracy: "
    "share of right answers, a list over `offsets`. score, previous: mean weight on the answer and on the token just "
    "before, a list over heads for each layer. head: the one with the highest score on other lists; head_score: its "
    "score, a list over `offsets`. copied, matched: with that token replaced, how often the model says what stands at "
    "the place of the answer, and the weight of the head on it. removed: induction are the heads with a score of at "
    "least one half, on other lists; single is the accuracy over all offsets without one head; the others that without "
    f"the first k heads of a group, k from 1 to all, the mean of {N_ORDERS} random orders. over_seeds: mean, and "
    "Student's t interval of 95 percent."
)


def train_all(folder: Path, runs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = folder / f"{run}.npz"
        if not path.exists():
            kind, seed = run.split("-")
            model, losses = train(kind, int(seed))
            keep(model, path)
            print(f"{run}: loss {sum(losses[-20:]) / 20:.3f} over the last twenty steps", flush=True)


def measured(model: AttentionOnly, offsets: Sequence[int] = OFFSETS) -> dict:
    """What one model does on lists as they are, on changed ones, and at other offsets."""
    chosen = induction_score(model, FIXED, seed=CHOOSING)
    layer, head = divmod(chosen.argmax().item(), N_HEADS)
    return {
        "accuracy": [rounded(accuracy(model, offset)) for offset in offsets],
        "score": rounded(induction_score(model, FIXED).tolist()),
        "previous": rounded(previous_token_score(model).tolist()),
        "head": [layer, head],
        "head_score": [
            rounded(induction_score(model, offset, n_lists=N_LISTS)[layer, head].item()) for offset in offsets
        ],
    } | {
        what: {
            "says": rounded(accuracy(model, FIXED, what)),
            "weight": rounded(induction_score(model, FIXED, what)[layer, head].item()),
        }
        for what in CHANGES
    }


def removed(model: AttentionOnly, ways: Sequence[str] = WAYS, n_orders: int = N_ORDERS) -> dict:
    """The accuracy without one head, and without more and more of the induction heads or of the others."""
    heads = [(layer, head) for layer in range(len(model.layers)) for head in range(N_HEADS)]
    found = heads_above(induction_score(model, FIXED, seed=CHOOSING))
    groups = {"induction": found, "others": [head for head in heads if head not in found]}
    record = {"induction": found}
    for by in ways:
        single = np.array([without(model, [head], by) for head in heads]).reshape(-1, N_HEADS)
        record[by] = {"single": rounded(single.tolist())} | {
            name: curve(model, group, by, n_orders) for name, group in groups.items()
        }
    return record


def curve(model: AttentionOnly, heads: list[Head], by: str, n_orders: int) -> list[float]:
    """Without the first k heads of a random order, k from 1 on: the mean over the orders."""
    orders = [np.random.default_rng(number).permutation(len(heads)) for number in range(n_orders)]
    runs = []
    for order in orders:
        runs.append([without(model, [heads[i] for i in order[: k + 1]], by) for k in range(len(heads) - 1)])
    return [*rounded(np.mean(runs, axis=0).tolist()), rounded(without(model, heads, by))]  # all: in any order the same


def without(model: AttentionOnly, heads: list[Head], by: str) -> float:
    with without_heads(model, heads, by):
        return accuracy(model, OFFSETS, n_lists=N_LISTS)


def over_seeds(runs: list[dict]) -> dict:
    """Of the numbers that the chapter names, mean and interval."""
    at = list(OFFSETS).index(FIXED)
    others = [i for i in range(len(OFFSETS)) if i != at]
    columns = {
        "accuracy": [np.mean(run["accuracy"]) for run in runs],
        "accuracy, 18": [run["accuracy"][at] for run in runs],
        "accuracy, others": [np.mean(np.take(run["accuracy"], others)) for run in runs],
        "score, 18": [run["head_score"][at] for run in runs],
        "score, others": [np.mean(np.take(run["head_score"], others)) for run in runs],
    }
    for what in CHANGES:
        columns[f"{what}, says"] = [run[what]["says"] for run in runs]
        columns[f"{what}, weight"] = [run[what]["weight"] for run in runs]
    if "removed" in runs[0]:
        columns["induction heads"] = [len(run["removed"]["induction"]) for run in runs]
        for by in WAYS:
            singles = [single_removals(run["removed"], by) for run in runs]
            columns[f"without one induction head, {by}"] = [np.mean(one) for one, _ in singles]
            columns[f"without the worst one, {by}"] = [min(one) for one, _ in singles]
            columns[f"without one other head, {by}"] = [np.mean(other) for _, other in singles]
            columns[f"without all induction heads, {by}"] = [run["removed"][by]["induction"][-1] for run in runs]
    return {name: summary(column) for name, column in columns.items()}


def single_removals(found: dict, by: str) -> tuple[list[float], list[float]]:
    """The accuracies without one induction head, and without one other."""
    chosen = {tuple(head) for head in found["induction"]}
    one, other = [], []
    for layer, row in enumerate(found[by]["single"]):
        for head, right in enumerate(row):
            (one if (layer, head) in chosen else other).append(right)
    return one, other


def summary(column: Sequence[float]) -> dict:
    found = spread([float(number) for number in column])
    return {name: rounded(getattr(found, name)) for name in ("mean", "low", "high")}


def measure_all(folder: Path) -> None:
    kinds = {}
    for kind in KINDS:
        models = [restore(kind, folder / f"{kind}-{seed}.npz") for seed in SEEDS]
        runs = [measured(model) for model in models]
        if kind == "two layers":
            for run, model in zip(runs, models, strict=True):
                run["removed"] = removed(model)
        kinds[kind] = {
            "parameters": sum(p.numel() for p in models[0].parameters()),
            "over_seeds": over_seeds(runs),
            "runs": {str(seed): run for seed, run in zip(SEEDS, runs, strict=True)},
        }
        print(kind, *(f"  {name}: {found}" for name, found in kinds[kind]["over_seeds"].items()), sep="\n")
    for kind in STORED:
        (DATA / file_of(kind)).write_bytes((folder / f"{kind}-0.npz").read_bytes())
    record = {
        "about": ABOUT,
        "versions": {"torch": version("torch").split("+")[0], "numpy": version("numpy")},
        "training": {
            "steps": {kind: KINDS[kind].n_steps for kind in KINDS},
            "batch": induction.BATCH,
            "learning_rate": induction.LEARNING_RATE,
            "seeds": list(SEEDS),
        },
        "offsets": list(OFFSETS),
        "guessing": {
            "knows the list": rounded(guessing()),
            "knows the places, too": rounded(guessing(knows_places=True)),
        },
        "kinds": kinds,
    }
    write(DATA / "induction.json", record)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *runs]:
            train_all(Path(folder), runs or RUNS)
        case ["measure", folder]:
            measure_all(Path(folder))
        case _:
            sys.exit(__doc__)
