"""Train the models of spelling to phonemes: five kinds, three seeds each; and two of them three times as long.

    python book/tools/train_spelling.py train FOLDER [RUN …]    RUN.npz for each; those that are there are kept
    python book/tools/train_spelling.py measure FOLDER          spelling.json and spelling_*.npz in attnlab/data

A RUN is named KIND-SEED, as fixed-0, or KIND-SEED-STEPS; without one, all are trained.

About two minutes a model on one core; several may be trained side by side.  On another processor, sums are rounded in
another order: the models differ in their last digits first, and after some hundred steps in some of the words they get
right.
"""

import statistics
import sys
from collections import Counter
from importlib.metadata import version
from itertools import product
from pathlib import Path

import torch
from records import DATA, rounded, write

from attnlab.data import pronunciations
from attnlab.models._stored import keep
from attnlab.models.spelling import KINDS, Pronouncer, restore
from attnlab.models.spelling_measures import (
    alignments,
    by_chance,
    diagonal,
    evaluate,
    moves,
    of_another_word,
    on_own_letters,
)
from attnlab.models.spelling_training import BATCH, STEPS, train

SEEDS = range(3)
LONGER = 6000  # steps: does the fixed context only need more time?
RUNS = [f"{kind}-{seed}" for seed, kind in product(SEEDS, KINDS)] + [f"{kind}-0-{LONGER}" for kind in KINDS[:2]]


def train_all(folder: Path, runs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = folder / f"{run}.npz"
        if not path.exists():
            kind, *numbers = run.split("-")
            model, losses = train(kind, *map(int, numbers), progress=True)
            keep(model, path)
            print(f"{run}: loss {sum(losses[-100:]) / 100:.3f} over the last hundred steps", flush=True)


def measured(model: Pronouncer, words: list) -> dict:
    """One model on these words, its weights rounded to float16 as they are stored.  Counts, by length, are exact."""
    found = evaluate(model, words)
    record = {
        "phoneme_error": round(found.all.phoneme_error, 4),
        "words_right": round(found.all.words_right, 4),
        "edits": [counts.edits for counts in found.by_length.values()],
        "right": [counts.right for counts in found.by_length.values()],
    }
    return record if model.kind == "fixed" else record | pointing(words, alignments(model, words))


def pointing(words: list, aligned: list) -> dict:
    """Where the weights point: forward or back from step to step, and how often at the letters of a consonant."""
    forward, _, back = moves(aligned)
    return rounded({"forward": forward, "back": back, "on_own_letters": on_own_letters(words, aligned)})


def baselines(words: list, trained: Pronouncer) -> dict:
    """What the numbers of `pointing` come to without a trained model that reads this very word."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = Pronouncer("additive").eval()
    n = [len(spelling) for spelling, phonemes in words for _ in phonemes[1:]]
    either_way = sum((k - 1) / (2 * k) for k in n) / len(n)
    chance = {"forward": either_way, "back": either_way, "on_own_letters": by_chance(words)}
    return {
        "a letter at random": rounded(chance),
        "additive, untrained": pointing(words, alignments(untrained, words)),
        "the diagonal": pointing(words, diagonal(words)),
        "additive, of another word": pointing(words, of_another_word(words, alignments(trained, words))),
    }


def as_the_test(words: list) -> list:
    """As many words of each length as the test has, 120 each of 4 to 13 letters, spread over the alphabetical list."""
    lengths = Counter(len(spelling) for spelling, _ in pronunciations().test)
    chosen = []
    for n, many in sorted(lengths.items()):
        of_length = [word for word in words if len(word[0]) == n]
        chosen += [of_length[i * len(of_length) // many] for i in range(many)]
    return chosen


def measure_all(folder: Path) -> None:
    words = pronunciations().test
    record = {
        "about": "Models of book/tools/train_spelling.py on the test words. Lists run over `lengths`.",
        "versions": {"torch": version("torch"), "numpy": version("numpy")},
        "training": {"words": len(pronunciations().train), "steps": STEPS, "batch": BATCH, "threads": 1},
    }
    kinds = {}
    for kind in KINDS:
        models = {seed: restore(kind, folder / f"{kind}-{seed}.npz") for seed in SEEDS}
        runs = [{"seed": seed} | measured(model, words) for seed, model in models.items()]
        (DATA / f"spelling_{kind}.npz").write_bytes((folder / f"{kind}-0.npz").read_bytes())
        if kind == "additive":
            record["baselines"] = baselines(words, models[0])
        over_seeds = {
            name: {"mean": round(statistics.mean(column), 4), "sd": round(statistics.stdev(column), 4)}
            for name in ("phoneme_error", "words_right")
            for column in [[run[name] for run in runs]]
        }
        kinds[kind] = {"parameters": sum(p.numel() for p in models[0].parameters())} | over_seeds | {"runs": runs}
    longer = {}
    for kind in KINDS[:2]:
        model = restore(kind, folder / f"{kind}-0-{LONGER}.npz")
        known = evaluate(model, as_the_test(pronunciations().train)).all  # words that it was trained on
        longer[kind] = measured(model, words) | rounded({"phoneme_error_on_training_words": known.phoneme_error})
    by_length = evaluate(models[0], words).by_length
    record["lengths"] = list(by_length)
    record["words"] = [counts.words for counts in by_length.values()]
    record["phonemes"] = [counts.phonemes for counts in by_length.values()]
    write(DATA / "spelling.json", record | {"kinds": kinds, "longer": {"steps": LONGER} | longer})
    for kind, row in kinds.items():
        print(f"{kind:9} {row['parameters']:7,} {row['phoneme_error']} {row['words_right']}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *runs]:
            train_all(Path(folder), runs or RUNS)
        case ["measure", folder]:
            measure_all(Path(folder))
        case _:
            sys.exit(__doc__)
