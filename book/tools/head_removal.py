"""What a sentence encoder loses with its heads: writes src/attnlab/data/head_removal.json (ten minutes on one core).

Each of MiniLM's 72 heads is removed alone; then more and more of them together, the least harmful on one half of the
texts first, judged on the other half, beside random orders and the reverse one.  What is asked of the embeddings, and
which texts it is asked of, stands in `attnlab.models.removal`.
"""

import hashlib
from functools import cached_property
from importlib.metadata import version

import numpy as np
import torch
from records import DATA, write
from scipy.optimize import minimize
from torch import nn

from attnlab.models import minilm, removal, snippets
from attnlab.models.removal import HEADS, Probe

RECORD = DATA / "head_removal.json"
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)
STEPS = tuple(range(0, 73, 6))
RANDOM_STEPS = (18, 36, 54)  # at 0 and at 72 all orders are the same
N_RANDOM = 20
REFITTED = {36: ("chosen", "reverse", 0, 1, 2), 60: ("chosen", 0, 1), 72: ("chosen",)}  # an int is a random order
BATCH = 64

PRODUCTS_SIZES = {"train": 1000, "judging": 300}


class Reader:
    """The embeddings of a part, (N, 384), without heads.  Texts of equal length share a batch: there is no padding."""

    def __init__(self, model, part):
        self.model, self.part = model, part
        rows = {}
        for row, encoding in enumerate(model.tokenizer.encode_batch(part.texts)):
            rows.setdefault(sum(encoding.attention_mask), []).append(row)
        self.batches = []
        for chosen in (same[i : i + BATCH] for _, same in sorted(rows.items()) for i in range(0, len(same), BATCH)):
            self.batches.append((chosen, *model.tokenize([part.texts[row] for row in chosen])))

    @torch.no_grad()
    def embed(self, removed=()):
        out = torch.empty(len(self.part.texts), 384)
        with self.model.without(removed):
            for rows, ids, is_real in self.batches:
                out[rows] = self.model(ids, is_real)
        return out.numpy()

    @cached_property
    def intact(self):
        """Those of the whole model, with which every removal is compared."""
        return self.embed()

    @torch.no_grad()
    def embed_without_each(self):
        """(72, N, 384): one head removed at a time.  What lies below its layer is computed once."""
        out = torch.empty(len(HEADS), len(self.part.texts), 384)
        for rows, ids, is_real in self.batches:
            below = [states for states, _ in self.model.layers(ids, is_real)]  # below[0] lies below layer 1
            for i, (layer, head) in enumerate(HEADS):
                with self.model.without([(layer, head)]):
                    if layer == 0:
                        out[i, rows] = self.model(ids, is_real)
                        continue
                    states = below[layer - 1]
                    for block in self.model.blocks[layer:]:
                        states, _ = block(states, mask=is_real[:, None, :])
                out[i, rows] = nn.functional.normalize(states.mean(dim=1), dim=-1)
        return out.numpy()


def objective(weights_and_bias, embeddings, labels, strength):
    """The penalised mean log-loss and its gradient (d + 1,).  The bias comes last and is not penalised."""
    weights, bias = weights_and_bias[:-1], weights_and_bias[-1]
    features = embeddings.shape[1] ** 0.5 * np.asarray(embeddings, np.float64)
    loss = Probe(weights, bias, strength).log_losses(embeddings, labels).mean() + strength / 2 * weights @ weights
    error = (1 / (1 + np.exp(-features @ weights - bias)) - labels) / len(labels)  # (N,)
    return loss, np.append(error @ features + strength * weights, error.sum())


def fit(embeddings, labels, strength):
    start = np.zeros(embeddings.shape[1] + 1)
    found = minimize(objective, start, (embeddings, labels, strength), method="L-BFGS-B", jac=True)
    if not found.success:
        raise RuntimeError(f"the probe was not fitted: {found.message}")
    return Probe(found.x[:-1].round(6).tolist(), round(float(found.x[-1]), 6), strength)


def move_threshold(probe, embeddings, labels):
    """The probe's own direction, with a factor and a bias fitted anew: does it look in the right place still?"""
    along = np.asarray(embeddings, np.float64) @ np.asarray(probe.weights)  # (N,)
    line = fit(along[:, None], labels, strength=0)
    weights = np.asarray(probe.weights) * line.weights[0] / embeddings.shape[1] ** 0.5
    return Probe(weights.round(6).tolist(), line.bias, probe.strength)


def fit_and_choose_strength(embeddings, labels):
    """The strength with the lowest log-loss on the last fifth, fitted on the other four; then a fit on everything."""
    n = len(labels) * 4 // 5
    tried = {
        strength: fit(embeddings[:n], labels[:n], strength).score(embeddings[n:], labels[n:]).log_loss
        for strength in STRENGTHS
    }
    print("log-loss on the last fifth of the train part, by strength:", {s: round(x, 3) for s, x in tried.items()})
    return fit(embeddings, labels, min(tried, key=tried.get)), {str(s): round(x, 4) for s, x in tried.items()}


def rounded(measured):
    return {"log_loss": round(measured.log_loss, 5), "accuracy": round(measured.accuracy, 4)}


def majority(part):
    return round(float(max(part.labels.mean(), 1 - part.labels.mean())), 4)


def singles(reader, probe):
    """Changes by removing one head, each (6, 12), and the standard error of the mean change over the texts."""
    before = probe.log_losses(reader.intact, reader.part.labels)  # (N,)
    after = np.array([probe.log_losses(x, reader.part.labels) for x in reader.embed_without_each()])  # (72, N)
    change, right = after - before, np.log(2)
    found = {
        "log_loss": change.mean(axis=1),
        "accuracy": (after < right).mean(axis=1) - (before < right).mean(),
        "standard_error": change.std(axis=1, ddof=1) / len(before) ** 0.5,
    }
    return {name: x.reshape(6, 12).round(6).tolist() for name, x in found.items()}


def curve(reader, probe, order, steps):
    """Without the first k heads of the order; the standard error is that of the mean change from the intact model."""
    intact = probe.log_losses(reader.intact, reader.part.labels)
    found = {"log_loss": [], "accuracy": [], "standard_error": []}
    for k in steps:
        losses = probe.log_losses(reader.embed(order[:k]), reader.part.labels)
        found["log_loss"].append(round(float(losses.mean()), 5))
        found["accuracy"].append(round(float((losses < np.log(2)).mean()), 4))
        found["standard_error"].append(round(float((losses - intact).std(ddof=1) / len(losses) ** 0.5), 5))
    return found


def random_curves(reader, probe, steps):
    curves = []
    for number in range(N_RANDOM):
        curves.append(curve(reader, probe, removal.random_order(number), steps))
        print(f"random order {number}:", curves[-1]["log_loss"], flush=True)
    return {name: [found[name] for found in curves] for name in curves[0]}


def only(found):
    return {name: value for name, (value,) in found.items()}


def digest(part):
    return hashlib.sha256("\n".join(part.texts).encode()).hexdigest()


def transfer(model, order):
    """The heads chosen on films, removed for reviews of products, which have a probe of their own."""
    given = removal.parts(model, *snippets.products(), PRODUCTS_SIZES)
    train, judging = Reader(model, given["train"]), Reader(model, given["judging"])
    probe, _ = fit_and_choose_strength(train.intact, train.part.labels)
    orders = {"chosen": order, "reverse": order[::-1]}
    return {
        "sizes": PRODUCTS_SIZES,
        "parts_sha256": {name: digest(part) for name, part in given.items()},
        "strength": probe.strength,
        "majority": majority(judging.part),
        "intact": rounded(probe.score(judging.intact, judging.part.labels)),
        "single": singles(judging, probe),
        "k": 36,
        **{name: only(curve(judging, probe, heads, (36,))) for name, heads in orders.items()},
        "random": {name: [x for (x,) in found] for name, found in random_curves(judging, probe, (36,)).items()},
    }


def run():
    torch.set_num_threads(1)
    model = minilm.load()
    given = removal.parts(model, *snippets.movies())
    readers = {name: Reader(model, part) for name, part in given.items()}
    train, choosing, judging = readers.values()
    probe, tried = fit_and_choose_strength(train.intact, train.part.labels)
    intact = {name: rounded(probe.score(r.intact, r.part.labels)) for name, r in readers.items()}
    print("intact:", intact, flush=True)
    single = {"choosing": singles(choosing, probe), "judging": singles(judging, probe)}
    order = [HEADS[i] for i in np.argsort(np.ravel(single["choosing"]["log_loss"]), kind="stable")]
    print("least harmful first:", order, flush=True)
    orders = {"chosen": order, "reverse": order[::-1]} | {i: removal.random_order(i) for i in range(N_RANDOM)}
    removed = {"k": STEPS} | {name: curve(judging, probe, orders[name], STEPS) for name in ("chosen", "reverse")}
    print(removed, flush=True)
    refitted = []
    for k, names in REFITTED.items():
        for name in names:
            heads = orders[name][:k]
            again = fit(train.embed(heads), train.part.labels, probe.strength)
            without = judging.embed(heads)
            moved = move_threshold(probe, train.embed(heads), train.part.labels)
            scores = [rounded(p.score(without, judging.part.labels)) for p in (probe, moved, again)]
            refitted.append({"order": name, "k": k} | dict(zip(("frozen", "moved", "refitted"), scores, strict=True)))
            print(refitted[-1], flush=True)
    return {
        "model": {"name": "all-MiniLM-L6-v2", "sha256": minilm.SHA256},
        "texts_sha256": {"movies": snippets.SHA256["movie"], "amazon": snippets.SHA256["amazon"]},
        "versions": {name: version(name).split("+")[0] for name in ("numpy", "scipy", "tokenizers", "torch")},
        "max_tokens": removal.MAX_TOKENS,
        "min_score": removal.MIN_SCORE,
        "seed": removal.SEED,
        "sizes": removal.SIZES,
        "parts_sha256": {name: digest(part) for name, part in given.items()},
        "strengths_tried": tried,
        "probe": probe._asdict(),
        "majority": {name: majority(part) for name, part in given.items()},
        "intact": intact,
        "single": single,
        "order": order,
        "removed": removed | {"random_k": RANDOM_STEPS, "random": random_curves(judging, probe, RANDOM_STEPS)},
        "refitted": refitted,
        "transfer": transfer(model, order),
    }


if __name__ == "__main__":
    write(RECORD, run())
