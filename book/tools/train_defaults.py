"""Train the models of chapter 5 in which attention meets a convolution and a recurrence.

    python book/tools/train_defaults.py train FOLDER [TASK …]   TASK.jsonl and the models of seed 0; what is there stays
    python book/tools/train_defaults.py measure FOLDER          defaults.json and defaults_*.npz in attnlab/data

A TASK is pictures, last, parity or majority; without one, all are trained.  Each learning rate is tried with seed 0 and
judged on data that no test sees; the best one counts for all seeds, for each kind (and stream) alone.  Ties go to the
lower rate.

About twelve minutes on one core in all; tasks may be trained side by side.  On another processor, sums are rounded in
another order: single answers differ, and in the runs that fail, many.
"""

import json
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

from records import DATA, write

from attnlab.models import defaults_training as training
from attnlab.models.defaults import (
    PICTURES,
    READERS,
    STREAMS,
    DigitReader,
    StreamReader,
    keep,
    mixing_products,
    pictures,
    restore,
    saved_bytes,
    state_bytes,
    step_products,
)
from attnlab.models.defaults_training import LENGTHS, RATES, SIZES, kinds_of, picture_counts, stream_counts

SEEDS = range(4)
CHOSEN_AT, CHOSEN_WITH = 1200, 2000  # pictures to choose a rate with; the seed of the streams to choose a rate with
STORED_AT = 300  # pictures of the stored models
STORED = {
    "pictures": [kind for kind in PICTURES if kind not in ("attention, offsets", "attention, no positions")],
    "last": ["recurrence", "attention, distance"],
    "parity": ["recurrence", "attention, distance"],
    "majority": ["recurrence", "attention, no positions"],
}
TASKS = ("pictures", *STREAMS)
SIDES = (8, 16, 32)


def train_all(folder: Path, task: str) -> None:
    """One line of TASK.jsonl for each run; those that are there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{task}.jsonl"
    done = read(path)
    for kind in kinds_of(task):
        for rate_is_chosen in (False, True):
            for run in runs(task, kind, chosen_rate(done, task, kind) if rate_is_chosen else None):
                if not any(same(run, line) for line in done):
                    done.append(run | one(folder, task, **run))
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(done[-1]) + "\n")
                    print(task, *done[-1].values(), flush=True)


def runs(task: str, kind: str, rate: float | None = None) -> list[dict]:
    """Those that choose the rate; with a rate, all that count."""
    sizes = [{"n": n} for n in SIZES] if task == "pictures" else [{}]
    if rate is None:
        return [{"kind": kind, "seed": 0, "rate": rate} | ({"n": CHOSEN_AT} if sizes[0] else {}) for rate in RATES]
    return [{"kind": kind, "seed": seed, "rate": rate} | size for seed in SEEDS for size in sizes]


def one(folder: Path, task: str, kind: str, seed: int, rate: float, n: int = 0) -> dict:
    """Train one model, round its weights to float16 as they are stored, and count its right answers."""
    path = model_path(folder, task, kind, seed, rate, n)
    if task == "pictures":
        keep({kind: training.train_pictures(kind, n, seed, rate)}, path)
        model = restore(task, kind, path)
        found = {"choose": picture_counts(model, "choose")["right"]}
        found |= {"learned": picture_counts(model, "train")["right"]} if n == len(pictures()["train"].labels) else {}
        return found | picture_counts(model)
    keep({kind: training.train_stream(kind, task, seed, rate)}, path)
    model = restore(task, kind, path)
    # Judged at the length of the training: no rate is chosen for what it does on longer streams.
    n = training.TRAINED_LENGTH
    found = {"choose": stream_counts(model, task, seed=CHOSEN_WITH, lengths=[n], longest=n)[0]}
    found["right"] = stream_counts(model, task)
    if task == "last":
        found["silence"] = stream_counts(model, task, silent_after=n)
    return found


def model_path(folder: Path, task: str, kind: str, seed: int, rate: float, n: int) -> Path:
    return folder / f"{task}-{kind}-{seed}-{rate}-{n}.npz"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def same(run: dict, line: dict) -> bool:
    return all(line[name] == value for name, value in run.items())


def chosen_rate(done: list[dict], task: str, kind: str) -> float:
    tried = [next(line for line in done if same(run, line)) for run in runs(task, kind)]
    return max(tried, key=lambda line: line["choose"])["rate"]


def measure_all(folder: Path) -> None:
    record = {
        "about": "Models of book/tools/train_defaults.py on data that no choice has seen. Counts of right answers.",
        "versions": {"torch": version("torch"), "numpy": version("numpy")},
        "training": {"rates": RATES, "threads": 1},
        "stored": {"size": STORED_AT} | STORED,
        "pictures": {
            "steps": training.PICTURE_STEPS,
            "batch": training.PICTURE_BATCH,
            "sizes": SIZES,
            "tested": len(pictures()["test"].labels),
            "kinds": {kind: summary(folder, "pictures", kind) for kind in PICTURES},
            "sides": SIDES,
            "mixing": {kind: mixing(kind) for kind in PICTURES},
        },
        "streams": {
            "steps": training.STREAM_STEPS,
            "batch": training.STREAM_BATCH,
            "trained_length": training.TRAINED_LENGTH,
            "lengths": LENGTHS,
            "tested": training.N_STREAMS * training.COUNTED,
            "tasks": {task: {kind: summary(folder, task, kind) for kind in READERS} for task in STREAMS},
            "bytes": {kind: [state_bytes(kind, n) for n in LENGTHS] for kind in READERS},
            "products": {kind: [step_products(kind, n) for n in LENGTHS] for kind in READERS},
        },
    }
    write(DATA / "defaults.json", record)


def summary(folder: Path, task: str, kind: str) -> dict:
    """All runs of one kind: the rates tried, and the right answers with the best of them, by size or by length."""
    done = read(folder / f"{task}.jsonl")
    rate = chosen_rate(done, task, kind)
    model = DigitReader(kind) if task == "pictures" else StreamReader(kind)
    counted = []
    for seed in SEEDS:
        wanted = [run for run in runs(task, kind, rate) if run["seed"] == seed]
        counted.append({"seed": seed} | counts([next(line for line in done if same(run, line)) for run in wanted]))
    total = len(pictures()["test"].labels) if task == "pictures" else training.N_STREAMS * training.COUNTED
    shares = [[count / total for count in column] for column in zip(*(run["right"] for run in counted), strict=True)]
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "tried": {str(line["rate"]): line["choose"] for run in runs(task, kind) for line in done if same(run, line)},
        "rate": rate,
        "mean": [round(statistics.mean(column), 4) for column in shares],
        "sd": [round(statistics.stdev(column), 4) for column in shares],
        "runs": counted,
    }


def counts(found: list[dict]) -> dict:
    """The runs of one seed: pictures have one a size, a stream has one with a list over the lengths."""
    if len(found) == 1:
        return {name: found[0][name] for name in ("right", "silence") if name in found[0]}
    lists = {name: [run[name] for run in found] for name in ("right", "moved")}
    return lists | {"learned": found[-1]["learned"]}  # of the largest size: all there are to train on


def mixing(kind: str) -> dict:
    """Of the mixing layer, for one picture of each side: multiplications, and bytes saved for the backward pass."""
    return {
        "products": [mixing_products(kind, side) for side in SIDES],
        "saved": [saved_bytes(kind, side) for side in SIDES],
    }


def store(folder: Path) -> None:
    """The models of seed 0, all kinds of a task in one file."""
    for task in TASKS:
        done, models = read(folder / f"{task}.jsonl"), {}
        for kind in STORED[task]:
            n = STORED_AT if task == "pictures" else 0
            models[kind] = restore(task, kind, model_path(folder, task, kind, 0, chosen_rate(done, task, kind), n))
        keep(models, DATA / f"defaults_{task}.npz")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *tasks]:
            for task in tasks or TASKS:
                train_all(Path(folder), task)
        case ["measure", folder]:
            measure_all(Path(folder))
            store(Path(folder))
        case _:
            sys.exit(__doc__)
