"""Train the models of associative recall, four kinds with three seeds each; and "elu" in three other ways.

    python book/tools/train_recall.py train FOLDER [RUN …]      RUN.npz for each; those that are there are kept
    python book/tools/train_recall.py measure FOLDER            recall.json and recall_*.npz in attnlab/data

A RUN is named KIND-SEED, as elu-0, or elu-SEED-WAY: is it the training that keeps it from recalling more?  Without one,
all are trained.  Two minutes for all of them on one core.  On another processor, sums are rounded in another order, and
the accuracies differ in their second or third digit.
"""

import statistics
import sys
from importlib.metadata import version
from pathlib import Path

from records import DATA, write

from attnlab.models import recall
from attnlab.models._stored import keep
from attnlab.models.recall import KINDS, PAIRS, STEPS, Recaller, accuracy, guessing, restore, train

SEEDS = range(3)
ASKED = (*PAIRS, 128)  # the last is longer than any list of the training
WAYS = {"only_4": {"pairs": (4,)}, "only_64": {"pairs": (64,)}, "longer": {"steps": 3 * STEPS}}
RUNS = [f"{kind}-{seed}" for seed in SEEDS for kind in KINDS] + [f"elu-{seed}-{way}" for way in WAYS for seed in SEEDS]


def train_all(folder: Path, runs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = folder / f"{run}.npz"
        if not path.exists():
            kind, seed, *way = run.split("-")
            model, losses = train(kind, int(seed), **(WAYS[way[0]] if way else {}))
            keep(model, path)
            print(f"{run}: loss {sum(losses[-100:]) / 100:.3f} over the last hundred steps", flush=True)


def measured(models: list[Recaller]) -> dict:
    """One model a seed → shares of right answers: of each run, their mean and their standard deviation."""
    runs = [[round(accuracy(model, n), 4) for n in ASKED] for model in models]
    return {
        "mean": [round(statistics.mean(column), 4) for column in zip(*runs, strict=True)],
        "sd": [round(statistics.stdev(column), 4) for column in zip(*runs, strict=True)],
        "runs": runs,
    }


def measure_all(folder: Path) -> None:
    kinds = {}
    for kind in KINDS:
        models = [restore(kind, folder / f"{kind}-{seed}.npz") for seed in SEEDS]
        (DATA / f"recall_{kind}.npz").write_bytes((folder / f"{kind}-0.npz").read_bytes())
        kinds[kind] = {
            "parameters": sum(p.numel() for p in models[0].parameters()),
            "numbers_kept": [models[0].numbers_kept(n) for n in ASKED],
        } | measured(models)
    ways = {way: measured([restore("elu", folder / f"elu-{seed}-{way}.npz") for seed in SEEDS]) for way in WAYS}
    record = {
        "about": "Shares of right answers of the models of book/tools/train_recall.py. Lists run over `pairs`.",
        "versions": {"torch": version("torch").split("+")[0], "numpy": version("numpy")},
        "training": {
            "pairs": PAIRS,
            "steps": STEPS,
            "batch": recall.BATCH,
            "learning_rate": recall.LEARNING_RATE,
            "seeds": list(SEEDS),
        },
        "pairs": ASKED,
        "chance": 1 / recall.N_VALUES,
        "guessing": [round(guessing(n), 4) for n in ASKED],
        "kinds": kinds,
        "elu_trained_otherwise": ways,
    }
    write(DATA / "recall.json", record)
    for name, row in (kinds | ways).items():
        print(f"{name:8}", *(f"{m:.3f} ± {sd:.3f}" for m, sd in zip(row["mean"], row["sd"], strict=True)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *runs]:
            train_all(Path(folder), runs or RUNS)
        case ["measure", folder]:
            measure_all(Path(folder))
        case _:
            sys.exit(__doc__)
