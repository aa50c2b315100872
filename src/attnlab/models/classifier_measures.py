"""What the attention weights of a `Classifier` tell: the experiments of two papers, one text or some hundred at a time.

    model, texts = load("movie", "bilstm"), corpus("movie")
    ids = texts.encode("A quiet, honest film that never quite comes together.")
    rankings(model, ids, draw_replacements(texts))       six rankings of its words, (n,) each
    permuted(model, ids)                                 how far p moves with shuffled weights, (100,)
    exact_adversary(model, ids)                          the farthest weights with the same p
    recorded()                                           all of it, over seeds

Jain and Wallace 2019, "Attention is not Explanation", arXiv 1902.10186, have the rankings, the shuffled weights and the
adversary; Wiegreffe and Pinter 2019, "Attention is not not Explanation", arXiv 1908.04626, the uniform weights, the
seeds, the trained adversary and the guide.  Both measure differences of outputs in probabilities.  Here what a word
does, when it is deleted or replaced, is measured in logits: near p = 1 the last digits of p would decide the order.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from attnlab import data, masks
from attnlab.evidence import (
    Adversary,
    adversary,
    baselines,
    entropy,
    gradient_x_input,
    jensen_shannon,
    permute,
    pointing,
    rank_agreement,
    replace_each,
    value_weighted,
)
from attnlab.models import snippets
from attnlab.models.classifier import Classifier
from attnlab.models.classifier_texts import UNKNOWN, Corpus, Part, padded, words
from attnlab.models.classifier_training import own_weights, predictions
from attnlab.models.spelling import one_thread

__all__ = [
    "RANKINGS", "accuracy", "apart", "deletions", "draw_replacements", "exact_adversary", "exact_weights", "permuted",
    "plausibility", "rankings", "rated", "recorded", "same_top", "sharpness", "shuffled",
]  # fmt: skip

RANKINGS = ("attention", "gradient × input", "leave-one-out", "value-weighted", "replacement", "random")
N_REPLACEMENTS = 10
TOLERANCE = 0.01  # of the probability, for the exact adversary
DIGITS = 5  # of logits that are ranked: words that differ by rounding alone are equal


def recorded() -> dict:
    """What `book/tools/train_classifiers.py` wrote; its key "about" says what stands where."""
    return data.recorded("classifiers.json")


def accuracy(model: Classifier, part: Part, weights: Sequence[Tensor] | None = None) -> float:
    """The share of texts that are on the right side of p = ½.  `weights`, a row a text, replace the model's own."""
    return float(((predictions(model, part, weights) > 0.5) == (part.labels > 0.5)).double().mean())


# ---------------------------------------------------------------------------------------------------------- one text


@one_thread()
def rankings(model: Classifier, ids: Tensor, replacements: Sequence[int], seed: int = 0) -> dict[str, np.ndarray]:
    """Six scores for each word of one text, ids (n,) → {name: (n,)}, the names in RANKINGS.  None is negative.

    attention         the weight
    gradient × input  |Σ embedding · ∂logit/∂embedding|
    leave-one-out     |what the logit loses when the word is deleted from the text|
    value-weighted    weight · ‖state‖, divided by the sum
    replacement       |what it loses, on average, with one of the `replacements` in the word's place|
    random            drawn with the seed
    """
    with torch.no_grad():
        states = model.states(ids[None])  # (1, n, d)
        weights = model.weigh(states, model.lengths(ids[None]))[0]  # (n,)
    ask = _logits_of_tokens(model)
    found = {
        "attention": weights,
        "gradient × input": gradient_x_input(
            lambda embedded: _logit_of_embeddings(model, embedded), model.embeddings(ids)
        ),
        "leave-one-out": replace_each(ask, ids.tolist()),
        "value-weighted": value_weighted(weights, states[0]),
        "replacement": replace_each(ask, ids.tolist(), list(replacements)),
        "random": np.random.default_rng([seed, *ids.tolist()]).random(len(ids)),
    }
    return {name: np.asarray(scores, dtype=np.float64).round(DIGITS).__abs__() for name, scores in found.items()}


@one_thread()
def deletions(model: Classifier, ids: Tensor, temperature: float = 1.0) -> np.ndarray:
    """What the logit loses without each word, signed: ids (n,) → (n,)"""
    return replace_each(_logits_of_tokens(model, temperature), ids.tolist()).numpy()


@one_thread()
def permuted(model: Classifier, ids: Tensor, n_draws: int = 100, seed: int = 0) -> np.ndarray:
    """How far the probability moves when the weights of one text are shuffled: ids (n,) → (n_draws,), signed."""
    logits = model.from_weights(ids)
    return permute(lambda weights: _sigmoid(logits(weights)), _row(model, ids), n_draws, seed)


@one_thread()
def exact_adversary(model: Classifier, ids: Tensor, tolerance: float = TOLERANCE) -> Adversary:
    """The weights farthest from the model's own on one text, ids (n,), that move p by at most the tolerance."""
    weights, logits = _row(model, ids), model.from_weights(ids)
    p = _sigmoid(logits(weights[None])[0])
    return adversary(logits, weights, _logit(p - tolerance), _logit(p + tolerance))


def draw_replacements(texts: Corpus, n: int = N_REPLACEMENTS, seed: int = 0) -> list[int]:
    """n ids drawn from all words of the training texts that have one: frequent words are drawn often."""
    known = torch.cat(texts.train.ids)
    known = known[known != UNKNOWN]
    return known[torch.from_numpy(np.random.default_rng(seed).integers(len(known), size=n))].tolist()


def _row(model: Classifier, ids: Tensor) -> np.ndarray:
    """The weights of one text in float64, their sum 1 to its last digit."""
    with torch.no_grad():
        weights = model.weights(ids[None])[0].double().numpy()
    return weights / weights.sum()


def _logits_of_tokens(model: Classifier, temperature: float = 1.0) -> Callable[[list[list[int]]], Tensor]:
    @torch.no_grad()
    def ask(lists: list[list[int]]) -> Tensor:
        ids = padded([torch.tensor(tokens) for tokens in lists])
        states = model.states(ids)
        return model.logits(states, model.weigh(states, model.lengths(ids), temperature))

    return ask


def _logit_of_embeddings(model: Classifier, embedded: Tensor) -> Tensor:
    """embedded (n, d_embedding) → one number, with a gradient."""
    lengths = torch.tensor([len(embedded)])
    states = model.read(embedded[None], lengths)
    return model.logits(states, model.weigh(states, lengths))


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def _logit(p: float) -> float:
    return math.log(p / (1 - p)) if 0 < p < 1 else math.copysign(math.inf, p - 0.5)


# --------------------------------------------------------------------------------------------------------- many texts


@one_thread()
def exact_weights(model: Classifier, part: Part, tolerance: float = TOLERANCE) -> list[Tensor]:
    """The weights of `exact_adversary` for each text: (n,)"""
    return [torch.from_numpy(exact_adversary(model, ids, tolerance).weights).float() for ids in part.ids]


def apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> np.ndarray:
    """The Jensen–Shannon divergence of two rows of weights for each of N texts, in nats: (N,)"""
    return jensen_shannon(padded(one).double(), padded(other).double()).numpy()


def shuffled(weights: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """The weights of each text (n,) in another order."""
    rows, lengths = padded(weights), [len(row) for row in weights]
    mask = masks.padding(torch.tensor(lengths), rows.shape[1], like=rows)[:, 0]  # (N, n)
    mixed = baselines(rows, mask, seed)["shuffled"]
    return [row[:n] for row, n in zip(mixed, lengths, strict=True)]


def same_top(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    """The share of texts on which two rankings put the same word first; words that share a first place share it."""
    rows = zip(one, other, strict=True)
    return float(np.mean([pointing(a, b == b.max()) for a, b in rows]))


@one_thread()
def sharpness(model: Classifier, part: Part, temperatures: Sequence[float], n_deleted: int) -> dict[str, list[float]]:
    """The scores divided by each temperature, all else as it is: lists over the temperatures.

    entropy      of the weights, divided by ln n: 1 is uniform.  A mean over texts, as all of these
    accuracy
    change       |of the probability|
    deletions    Kendall's τ between |deletions| with this temperature and with 1, on the first n_deleted texts
    """
    base, few = predictions(model, part), part.ids[:n_deleted]
    deleted = [np.abs(deletions(model, ids)).round(DIGITS) for ids in few]
    found = {"entropy": [], "accuracy": [], "change": [], "deletions": []}
    for temperature in temperatures:
        weights = own_weights(model, part, temperature)
        p = predictions(model, part, weights)
        again = [np.abs(deletions(model, ids, temperature)).round(DIGITS) for ids in few]
        found["entropy"].append(float(np.mean([evenness(row) for row in weights])))
        found["accuracy"].append(float(((p > 0.5) == (part.labels > 0.5)).double().mean()))
        found["change"].append(float((p - base).abs().mean()))
        found["deletions"].append(
            float(np.nanmean([rank_agreement(*both) for both in zip(deleted, again, strict=True)]))
        )
    return found


def evenness(weights: Tensor) -> float:
    """The entropy of weights (n,), divided by ln n, the largest it can have."""
    return float(entropy(weights)) / math.log(len(weights))


def over_texts(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's ρ of two numbers that each text has; a text where either is NaN is left out."""
    return float(stats.spearmanr(one, other, nan_policy="omit").statistic)


# -------------------------------------------------------------------------------------------------------- plausibility


def rated(part: Part) -> list[np.ndarray]:
    """For each text, which of its words ten people rated as positive or negative in `snippets.lexicon`: bool (n,)"""
    known = snippets.lexicon()
    return [np.array([word in known for word in words(text)]) for text in part.texts]


def plausibility(scores: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> dict[str, float]:
    """How much of a score (n,), not negative, falls on the words that people rated, bool (n,): means over texts.

    share    of the score, divided by its sum
    uniform  the share of such words, which is what a score has that is the same for all
    first    how often the word with the largest score is one of them

    Texts without such a word, and with no other, are left out.
    """
    chosen = [(row, at) for row, at in zip(scores, right, strict=True) if at.any() and not at.all() and row.sum() > 0]
    return {
        "share": float(np.mean([row[at].sum() / row.sum() for row, at in chosen])),
        "uniform": float(np.mean([at.mean() for _, at in chosen])),
        "first": float(np.mean([pointing(row, at) for row, at in chosen])),
    }
