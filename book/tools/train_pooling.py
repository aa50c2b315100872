"""Train small language models with 8, 4, 2 and 1 key and value heads; turn those with 8 into the others.

    python book/tools/train_pooling.py train FOLDER [RUN …]     RUN.npz for each; those that are there are kept
    python book/tools/train_pooling.py convert FOLDER [SEED …]  converted-SEED.json, from the run 8-SEED
    python book/tools/train_pooling.py gather FOLDER            pooling.json and pooling_*.npz in attnlab/data

A RUN is named HEADS-SEED, as 8-0; without one, all are trained.  Several may be trained side by side.

Forty seconds a model on one core, and half as long to convert it.  On another processor, sums are rounded in another
order, and the losses differ in their third digit.
"""

import json
import statistics
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path

from records import DATA, write

from attnlab.efficient import cost
from attnlab.models import pooling, snippets
from attnlab.models._stored import keep
from attnlab.models.pooling import (
    CONTEXT,
    N_HEADS,
    N_LAYERS,
    STEPS,
    WAYS,
    WIDTH,
    corpus,
    loss,
    ngram_loss,
    pooled,
    restore,
    train,
)

SEEDS = range(3)
HEADS = (8, 4, 2, 1)
LATER_STEPS = STEPS // 20  # after the pooling: a twentieth of the training, as in the paper
LATER_RATE = 3e-3  # the full rate loosens what was learnt: 8 heads, not pooled, lose .036 by these steps, here .005
LATER = 100  # added to the seed: what follows the pooling draws other windows than the training before it
RUNS = [f"{heads}-{seed}" for seed in SEEDS for heads in HEADS]


def train_all(folder: Path, runs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = folder / f"{run}.npz"
        if not path.exists():
            heads, seed = map(int, run.split("-"))
            model, losses = train(heads, corpus().train, seed)
            keep(model, path)
            print(f"{run}: loss {sum(losses[-100:]) / 100:.3f} over the last hundred steps", flush=True)


def convert(folder: Path, seed: int) -> None:
    """Losses of the model with 8 heads, of what it is turned into, and of both trained on."""
    whole, texts, rows = restore(N_HEADS, folder / f"{N_HEADS}-{seed}.npz"), corpus(), []
    for heads in HEADS:
        for way in WAYS if heads < N_HEADS else ("mean",):  # 8 heads for 8: the model itself, trained on as long
            model = pooled(whole, heads, way, seed)
            more = train(model, texts.train, seed + LATER, LATER_STEPS, LATER_RATE).model
            for steps, measured in {0: model, LATER_STEPS: more}.items():
                found = round(loss(measured, texts.test), 4)
                rows.append({"n_kv_heads": heads, "way": way, "seed": seed, "steps": steps, "loss": found})
                print(rows[-1], flush=True)
    (folder / f"converted-{seed}.json").write_text(json.dumps(rows), encoding="utf-8")


def gather(folder: Path) -> None:
    texts, from_scratch = corpus(), []
    for heads, seed in product(HEADS, SEEDS):
        path = folder / f"{heads}-{seed}.npz"
        found = round(loss(restore(heads, path), texts.test), 4)
        from_scratch.append({"n_kv_heads": heads, "seed": seed, "loss": found})
        if seed == 0 and heads in (1, 8):
            (DATA / f"pooling_{heads}.npz").write_bytes(path.read_bytes())
    record = {
        "about": "Mean -ln p of a letter of the test reviews: models of book/tools/train_pooling.py.",
        "versions": {"torch": version("torch").split("+")[0], "numpy": version("numpy")},
        "texts_sha256": snippets.SHA256["movie"],
        "letters": {"train": len(texts.train), "test": len(texts.test)},
        "training": {
            "steps": STEPS,
            "batch": pooling.BATCH,
            "learning_rate": pooling.LEARNING_RATE,
            "later": {"steps": LATER_STEPS, "learning_rate": LATER_RATE},
        },
        "ngram": {str(n): round(ngram_loss(*texts, n), 4) for n in (1, 2)},
        "parameters": {str(n): sum(p.numel() for p in pooling.CharLM(n).parameters()) for n in HEADS},
        "cache_bytes": {str(n): cache_bytes(n) for n in HEADS},
        "from_scratch": from_scratch,
        "converted": [
            row for seed in SEEDS for row in json.loads((folder / f"converted-{seed}.json").read_text("utf-8"))
        ],
    }
    write(DATA / "pooling.json", record)
    summary(record)


def cache_bytes(n_kv_heads: int) -> int:
    """Of a full context, in float16."""
    return cost.kv_cache_bytes(n_layers=N_LAYERS, n_kv_heads=n_kv_heads, d_head=WIDTH // N_HEADS, n_tokens=CONTEXT)


def summary(record: dict) -> None:
    for table in ("from_scratch", "converted"):
        runs: dict = {}
        for row in record[table]:
            runs.setdefault(tuple(row[name] for name in row if name not in ("seed", "loss")), []).append(row["loss"])
        for what, losses in runs.items():
            print(table, *what, f"{statistics.mean(losses):.3f} ± {statistics.stdev(losses):.3f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *runs]:
            train_all(Path(folder), runs or RUNS)
        case ["convert", folder, *seeds]:
            for seed in seeds or SEEDS:
                convert(Path(folder), int(seed))
        case ["gather", folder]:
            gather(Path(folder))
        case _:
            sys.exit(__doc__)
