"""Train the classifiers of reviews and messages, and measure what their attention weights tell.

    python book/tools/train_classifiers.py train FOLDER [RUN …]    RUN.npz for each; those that are there are kept
    python book/tools/train_classifiers.py measure FOLDER          classifiers.json and classifier_*.npz in attnlab/data
    python book/tools/train_classifiers.py measure FOLDER movie bilstm       a part of it, which is kept in the folder

A RUN is named TEXTS-KIND-SEED, KIND one of

    bilstm, no_context          with their own attention
    bilstm@uniform, …           with uniform weights, in training as later
    no_context@bilstm           guided by the weights of the bilstm of the same seed, which stay as they are
    no_context@adversary        … by those of the adversary trained with strength GUIDE;  no_context@exact, by those of
                                the exact adversary of that bilstm, text by text
    no_context@exact_shuffled   … by the same weights in another order, as sharp and blind; also for the other guides
    adversary@0.3               trained against the bilstm of the same seed, with this strength

Less than ten seconds a model on one core, and two minutes for all measures of one.  On another processor, sums are
rounded in another order, and the models differ a little.
"""

import json
import sys
from functools import cache
from importlib.metadata import version
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
from records import DATA, write

from attnlab.evidence import agreement_table, rank_agreement, spread, spread_of_pairs
from attnlab.models import classifier_measures as measures
from attnlab.models._stored import keep
from attnlab.models.classifier import STORED, Classifier, restore
from attnlab.models.classifier_measures import RANKINGS, accuracy, draw_replacements
from attnlab.models.classifier_texts import NAMES, Part, corpus
from attnlab.models.classifier_training import (
    BATCH,
    STEPS,
    own_weights,
    predictions,
    train,
    train_adversary,
    uniform_weights,
)
from attnlab.models.spelling import one_thread

KINDS = ("bilstm", "no_context")
SEEDS = range(5)
STRENGTHS = (0, 0.03, 0.1, 0.3)
GUIDE = 0.3  # the strength of the adversary whose weights guide another model
BASES = [f"{name}-{kind}-{seed}" for seed, name, kind in product(SEEDS, NAMES, KINDS)]
UNIFORM = [f"{name}-{kind}@uniform-{seed}" for seed, name, kind in product(SEEDS, NAMES, KINDS)]
ADVERSARIES = [f"{name}-adversary@{s}-{seed}" for seed, name, s in product(SEEDS, NAMES, STRENGTHS)]
GUIDES = ("bilstm", "bilstm_shuffled", "adversary", "adversary_shuffled", "exact", "exact_shuffled")
GUIDED = [f"{name}-no_context@{guide}-{seed}" for seed, name, guide in product(SEEDS, NAMES, GUIDES)]
RUNS = BASES + UNIFORM + ADVERSARIES + GUIDED

N_MEASURED = 300  # texts, the first of the test part
N_SHARPNESS = 100  # of these, to delete words at each temperature
TEMPERATURES = (0.1, 0.3, 1, 3, 10)
TOLERANCES = (0.01, 0.03, 0.1, 0.3)  # of the exact adversary
N_STORED = 30  # for a test that computes a part again
BINS = (0, 0.25, 0.5, 0.75, 1)  # of the largest weight


# ----------------------------------------------------------------------------------------------------------- training


def train_all(folder: Path, runs: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        path = folder / f"{run}.npz"
        if not path.exists():
            model, losses = train_one(folder, run)
            keep(model, path)
            print(f"{run}: loss {sum(losses[-50:]) / 50:.3f} over the last fifty steps", flush=True)


def train_one(folder: Path, run: str):
    name, kind, seed = run.split("-")
    kind, _, guide = kind.partition("@")
    texts = corpus(name)
    if kind == "adversary":
        return train_adversary(restored(folder, f"{name}-bilstm-{seed}"), texts, float(guide), int(seed))
    weights = weights_of(folder, name, guide, seed, texts.train) if guide else None
    return train(kind.replace("_", " "), texts, int(seed), weights=weights)


def weights_of(folder: Path, name: str, guide: str, seed: str, part):
    """The weights that a model with this guide gets for the texts of a part."""
    if guide == "uniform":
        return uniform_weights(part)
    if guide.endswith("_shuffled"):
        return measures.shuffled(weights_of(folder, name, guide.removesuffix("_shuffled"), seed, part), int(seed))
    of = f"adversary@{GUIDE}" if guide == "adversary" else "bilstm"
    model = restored(folder, f"{name}-{of}-{seed}")
    return measures.exact_weights(model, part) if guide == "exact" else own_weights(model, part)


@cache
def restored(folder: Path, run: str) -> Classifier:
    _, kind, _ = run.split("-")
    return restore(kind.partition("@")[0].replace("_", " "), folder / f"{run}.npz")


# ---------------------------------------------------------------------------------------------------------- measuring


def over_seeds(values, spread=spread) -> dict:
    """The number of each seed, in their order, and the interval of the mean."""
    found = spread(np.array(list(values), dtype=float))
    return {
        "values": np.round(values, 4).tolist(),
        **{name: round(getattr(found, name), 4) for name in ("mean", "low", "high")},
    }


def to_the_others(n: int, function) -> dict:
    """function(seed, other), either way: for each of n seeds the mean over the others, and the jackknife's interval."""
    values = [float(np.mean([(function(i, j) + function(j, i)) / 2 for j in range(n) if j != i])) for i in range(n)]
    return over_seeds(values, spread_of_pairs)


def either_way(function):
    """For a function that is the same for (i, j) and (j, i): each pair is computed once."""
    known = cache(function)
    return lambda i, j: known(min(i, j), max(i, j))


def base_measures(folder: Path, name: str, kind: str) -> dict:
    """Of the models with their own attention: the same texts for all seeds."""
    test, part = corpus(name).test, corpus(name).test.first(N_MEASURED)
    models = [restored(folder, f"{name}-{kind}-{seed}") for seed in SEEDS]
    uniform = [restored(folder, f"{name}-{kind}@uniform-{seed}") for seed in SEEDS]
    flat, whole = uniform_weights(test), [own_weights(model, test) for model in models]
    blind = [measures.shuffled(rows, seed) for seed, rows in enumerate(whole)]
    replacements, scores = draw_replacements(corpus(name)), []
    for seed, model in enumerate(models):
        rows = [measures.rankings(model, ids, replacements, seed) for ids in part.ids]
        scores.append({ranking: [row[ranking] for row in rows] for ranking in RANKINGS})
    weights = [rows[:N_MEASURED] for rows in whole]
    p = [predictions(model, part).numpy().astype(float) for model in models]
    permuted = np.array([[np.median(abs(measures.permuted(model, ids))) for ids in part.ids] for model in models])
    found = {
        "accuracy": {
            "own weights": over_seeds([accuracy(model, test) for model in models]),
            "trained with uniform weights": over_seeds([accuracy(model, test, flat) for model in uniform]),
            "uniform weights put in": over_seeds([accuracy(model, test, flat) for model in models]),
            "shuffled weights put in": over_seeds(map_pairs(lambda m, rows: accuracy(m, test, rows), models, blind)),
        },
        "rankings": rankings_of(scores),
        "first": first_of(scores),
        "permutation": permutation_of(permuted, weights),
        "adversary": adversary_of(models, part, weights, p),
        "evenness": evenness_of(weights, scores, permuted),
    }
    return found | ({"plausibility": plausibility_of(part, scores, weights)} if name == "movie" else {})


def map_pairs(function, one, other) -> list:
    return [function(a, b) for a, b in zip(one, other, strict=True)]


def rankings_of(scores: list[dict]) -> dict:
    """Kendall's τ between each two rankings of a model, and between two seeds of the same ranking."""
    tables = [agreement_table(row)[1] for row in scores]
    columns = {name: [row[name] for row in scores] for name in RANKINGS}
    return {
        "pairs": {
            f"{RANKINGS[i]} | {RANKINGS[j]}": over_seeds([table[i, j] for table in tables])
            for i, j in combinations(range(len(RANKINGS)), 2)
        },
        "between seeds": {
            name: to_the_others(len(scores), either_way(lambda i, j, of=column: mean_agreement(of[i], of[j])))
            for name, column in columns.items()
        },
    }


def mean_agreement(one: list, other: list) -> float:
    return float(np.nanmean(map_pairs(rank_agreement, one, other)))


def first_of(scores: list[dict]) -> dict:
    """How often two rankings put the same word first."""
    attention, gradient, deletion = (
        [row[name] for row in scores] for name in ("attention", "gradient × input", "leave-one-out")
    )
    same, n = measures.same_top, len(scores)
    return {
        "attention, deletion": over_seeds(map_pairs(same, attention, deletion)),
        "a word at random, deletion": over_seeds([same([0 * row + 1 for row in rows], rows) for rows in deletion]),
        "gradient × input, deletion": over_seeds(map_pairs(same, gradient, deletion)),
        "attention of another seed, deletion": to_the_others(n, lambda i, j: same(attention[j], deletion[i])),
        "deletion of another seed, deletion": to_the_others(n, lambda i, j: same(deletion[j], deletion[i])),
        "attention of another seed, attention": to_the_others(n, lambda i, j: same(attention[j], attention[i])),
    }


def permutation_of(medians: np.ndarray, weights: list) -> dict:
    """medians (seeds, N): of |change of p| over the shuffles of a text.  Over the texts, the median again."""
    largest, bins = np.array([[float(row.max()) for row in rows] for rows in weights]), []
    for low, high in pairwise(BINS):
        inside = (largest > low) & (largest <= high)
        row = {"largest weight": [low, high], "texts": inside.sum(axis=1).tolist()}
        # Fewer than ten texts have no median worth a number.
        halves = [
            round(float(np.median(m[at])), 4) if at.sum() >= 10 else None for m, at in zip(medians, inside, strict=True)
        ]
        bins.append(row | {"median": halves})
    return {
        "median": over_seeds(np.median(medians, axis=1)),
        "above .1": over_seeds((medians > 0.1).mean(axis=1)),
        "bins": bins,
    }


def adversary_of(models: list, part: Part, weights: list, p: list) -> dict:
    """The exact adversary, and how far seeds lie apart."""
    curve, n = [], len(models)
    for tolerance in TOLERANCES:
        found = [[measures.exact_adversary(model, ids, tolerance) for ids in part.ids] for model in models]
        divergences = np.array([[each.divergence for each in rows] for rows in found])  # (seeds, N)
        outputs = [1 / (1 + np.exp([-each.output for each in rows])) for rows in found]
        row = {
            "divergence": over_seeds(divergences.mean(axis=1)),
            "near the limit": over_seeds((divergences > 0.9 * np.log(2)).mean(axis=1)),
            "change": over_seeds(map_pairs(lambda a, b: abs(a - b).mean(), outputs, p)),
        }
        curve.append({"tolerance": tolerance} | row)
    return {
        "curve": curve,
        "between seeds": {
            "divergence": to_the_others(n, either_way(lambda i, j: measures.apart(weights[i], weights[j]).mean())),
            "change": to_the_others(n, lambda i, j: abs(p[i] - p[j]).mean()),
            "same decision": to_the_others(n, lambda i, j: ((p[i] > 0.5) == (p[j] > 0.5)).mean()),
        },
        "to uniform": over_seeds([measures.apart(rows, uniform_weights(part)).mean() for rows in weights]),
    }


def evenness_of(weights: list, scores: list[dict], permuted: np.ndarray) -> dict:
    """Spearman's ρ over the texts: how even the weights are, and three things that they might foretell."""
    found = {"largest deletion": [], "shuffling": [], "attention, deletion": []}
    for rows, row, medians in zip(weights, scores, permuted, strict=True):
        even = [measures.evenness(each) for each in rows]
        agreed = map_pairs(rank_agreement, row["attention"], row["leave-one-out"])
        largest = [each.max() for each in row["leave-one-out"]]
        for name, numbers in zip(found, (largest, medians, agreed), strict=True):
            found[name].append(measures.over_texts(even, numbers))
    return {name: over_seeds(values) for name, values in found.items()}


def temperatures_of(folder: Path, name: str, kind: str) -> dict:
    models = [restored(folder, f"{name}-{kind}-{seed}") for seed in SEEDS]
    runs = [measures.sharpness(model, corpus(name).test, TEMPERATURES, N_SHARPNESS) for model in models]
    columns = {what: list(zip(*(run[what] for run in runs), strict=True)) for what in runs[0]}
    return {"temperatures": list(TEMPERATURES)} | {what: list(map(over_seeds, rows)) for what, rows in columns.items()}


def plausibility_of(part: Part, scores: list[dict], weights: list) -> dict:
    right = measures.rated(part)
    found = {name: [measures.plausibility(row[name], right) for row in scores] for name in RANKINGS}
    blind = [measures.shuffled(rows, seed) for seed, rows in enumerate(weights)]
    found["shuffled attention"] = [measures.plausibility([row.numpy() for row in rows], right) for rows in blind]
    table = {
        name: {what: over_seeds([run[what] for run in runs]) for what in ("share", "first")}
        for name, runs in found.items()
    }
    return table | {"uniform": round(found["attention"][0]["uniform"], 4)}


def trained_adversaries(folder: Path, name: str) -> list[dict]:
    """What they reach on the test part: weights far from those of the model they imitate, and other decisions."""
    part, rows = corpus(name).test.first(N_MEASURED), []
    for strength in STRENGTHS:
        found = {"divergence": [], "change": [], "same decision": [], "accuracy": []}
        for seed in SEEDS:
            base = restored(folder, f"{name}-bilstm-{seed}")
            model = restored(folder, f"{name}-adversary@{strength}-{seed}")
            one, other = predictions(base, part), predictions(model, part)
            found["divergence"].append(measures.apart(own_weights(base, part), own_weights(model, part)).mean())
            found["change"].append(float((one - other).abs().mean()))
            found["same decision"].append(float(((one > 0.5) == (other > 0.5)).double().mean()))
            found["accuracy"].append(accuracy(model, corpus(name).test))
        rows.append({"strength": strength} | {what: over_seeds(values) for what, values in found.items()})
    return rows


def guided(folder: Path, name: str) -> dict:
    """The accuracy of a model without context whose weights are its own, uniform, or those of another model."""
    test, found = corpus(name).test, {}
    for guide in ("", "uniform", *GUIDES):
        values = []
        for seed in SEEDS:
            weights = weights_of(folder, name, guide, seed, test) if guide else None
            model = restored(folder, f"{name}-no_context{'@' * bool(guide)}{guide}-{seed}")
            values.append(accuracy(model, test, weights))
        found[guide or "own"] = over_seeds(values)
    return found


def kept(function, folder: Path, name: str, kind: str) -> dict:
    """function(folder, name, kind), kept in the folder, since it takes minutes."""
    path = folder / f"{name}-{kind}-{function.__name__}.json"
    if not path.exists():
        path.write_text(json.dumps(function(folder, name, kind)), "utf-8")
        print(path.stem, flush=True)
    return json.loads(path.read_text("utf-8"))


def measure_bases(folder: Path, name: str, kind: str) -> dict:
    return kept(base_measures, folder, name, kind) | {"sharpness": kept(temperatures_of, folder, name, kind)}


def measure_all(folder: Path) -> None:
    record = {
        "about": "Models of book/tools/train_classifiers.py on texts of attnlab.models.classifier_texts. `values` are "
        "those of seeds 0, 1, …; `low` and `high` bound Student's 95% interval of their mean, and where a number "
        "belongs to two seeds the jackknife's.",
        "versions": {library: version(library) for library in ("torch", "numpy", "scipy")},
        "training": {"steps": STEPS, "batch": BATCH},
        "measured": {"texts": N_MEASURED, "texts for sharpness": N_SHARPNESS, "replacements": measures.N_REPLACEMENTS},
        "texts": {name: sizes(name) for name in NAMES},
    }
    for name in NAMES:
        record[name] = {}
        for kind in KINDS:
            record[name][kind.replace("_", " ")] = measure_bases(folder, name, kind)
        record[name] |= {"trained adversary": trained_adversaries(folder, name), "guide": guided(folder, name)}
    record["stored"] = {"texts": N_STORED, "strength": GUIDE}
    for name, kind in STORED:
        run = f"{name}-adversary@{GUIDE}-0" if kind == "adversary" else f"{name}-{kind.replace(' ', '_')}-0"
        record["stored"][f"{name} {kind}"] = stored_measures(folder, name, run)
        (DATA / f"classifier_{name}_{kind.replace(' ', '_')}.npz").write_bytes((folder / f"{run}.npz").read_bytes())
    write(DATA / "classifiers.json", record)


def stored_measures(folder: Path, name: str, run: str) -> dict:
    """On so few texts that a test computes them again.  `agreement` lists the pairs in the order of `rankings_of`."""
    part, model, replacements = (
        corpus(name).test.first(N_STORED),
        restored(folder, run),
        draw_replacements(corpus(name)),
    )
    rows = [measures.rankings(model, ids, replacements) for ids in part.ids]
    _, table = agreement_table({ranking: [row[ranking] for row in rows] for ranking in RANKINGS})
    found = {
        "agreement": np.round([table[i, j] for i, j in combinations(range(len(RANKINGS)), 2)], 4).tolist(),
        "shuffled": np.median([np.median(abs(measures.permuted(model, ids))) for ids in part.ids]),
        "adversary": np.mean([measures.exact_adversary(model, ids).divergence for ids in part.ids]),
        "from the base": measures.apart(
            own_weights(restored(folder, f"{name}-bilstm-0"), part), own_weights(model, part)
        ).mean(),
    }
    return {what: number if isinstance(number, list) else round(float(number), 4) for what, number in found.items()}


def sizes(name: str) -> dict:
    texts = corpus(name)
    return {
        **{part: len(getattr(texts, part).ids) for part in ("train", "validation", "test")},
        "label 1 in the test": round(float(texts.test.labels.mean()), 4),
        "words known": len(texts.vocabulary),
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", folder, *runs]:
            with one_thread():
                train_all(Path(folder), runs or RUNS)
        case ["measure", folder, name, kind]:
            with one_thread():
                measure_bases(Path(folder), name, kind)
        case ["measure", folder]:
            with one_thread():
                measure_all(Path(folder))
        case _:
            sys.exit(__doc__)
