"""What a sentence encoder loses with its heads: recorded by `book/tools/head_removal.py`, and measured again here.

The task is a probe's: a logistic regression reads off an embedding of the intact model whether an opinion on a film is
good or bad.  Three parts of the snippets share no text: one trains the probe, one chooses which heads to remove, one
judges the choice.

    record = removal.recorded()                                       what was measured
    judging = removal.parts(model, *snippets.movies())["judging"]     texts and labels
    probe = removal.Probe(**record["probe"])                          the trained probe
    removal.measure(model, probe, judging, record["order"][:36])      mean log-loss and accuracy without 36 heads

Losses are in nats; a guess of one half costs ln 2 = .693.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnlab import data

if TYPE_CHECKING:
    from attnlab.models.minilm import MiniLM

__all__ = ["HEADS", "Measured", "Part", "Probe", "measure", "parts", "random_order", "recorded"]

Head = tuple[int, int]  # (layer, head), both counted from 0

HEADS: list[Head] = [(layer, head) for layer in range(6) for head in range(12)]
SIZES = {"train": 1500, "choosing": 500, "judging": 500}
MAX_TOKENS = 20  # with [CLS] and [SEP]: short texts, so that a hundred thousand of them are read in minutes
MIN_SCORE = 0.5  # of 4; an opinion that people place nearer to the middle is left out
SEED = 4


class Part(NamedTuple):
    """`texts`, a list of N; `labels` (N,), True where people's mean score is positive."""

    texts: list[str]
    labels: np.ndarray


class Measured(NamedTuple):
    """`log_loss`, the mean of −ln p(label), and `accuracy`, the share of texts whose label gets p > ½."""

    log_loss: float
    accuracy: float


class Probe(NamedTuple):
    """p(good) = σ(√d · embedding · weights + bias), for embeddings of length 1 with d features.

    √d gives a feature a mean square of 1.  The weights minimise the mean log-loss + strength / 2 · |weights|².
    """

    weights: Sequence[float]  # (d,)
    bias: float
    strength: float

    def log_losses(self, embeddings: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """−ln p(label) of each text: embeddings (N, d), labels (N,) → (N,).  p > ½ where it is below ln 2."""
        logits = len(self.weights) ** 0.5 * np.asarray(embeddings, np.float64) @ np.asarray(self.weights) + self.bias
        return np.logaddexp(0, np.where(labels, -logits, logits))

    def score(self, embeddings: np.ndarray, labels: np.ndarray) -> Measured:
        """embeddings (N, d), labels (N,) → mean log-loss and accuracy."""
        losses = self.log_losses(embeddings, labels)
        return Measured(float(losses.mean()), float((losses < np.log(2)).mean()))


def parts(model: "MiniLM", texts: Sequence[str], scores: np.ndarray, sizes: dict[str, int] = SIZES) -> dict[str, Part]:
    """Disjoint parts, drawn at random with a fixed seed from the texts that are short and not neutral.

    A text that occurs twice is taken once, with its last score.
    """
    once = sorted({text: i for i, text in enumerate(texts)}.values())
    lengths = [sum(encoding.attention_mask) for encoding in model.tokenizer.encode_batch(list(texts))]
    taken = np.array([i for i in once if lengths[i] <= MAX_TOKENS and abs(scores[i]) >= MIN_SCORE])
    if len(taken) < sum(sizes.values()):
        raise ValueError(f"sizes ask for {sum(sizes.values())} texts, but only {len(taken)} are short and not neutral.")
    drawn = np.random.default_rng(SEED).permutation(taken)
    ends = np.cumsum(list(sizes.values()))
    rows = zip(sizes, np.split(drawn[: ends[-1]], ends[:-1]), strict=True)
    return {name: Part([texts[i] for i in chosen], np.asarray(scores)[chosen] > 0) for name, chosen in rows}


def random_order(number: int) -> list[Head]:
    """All 72 heads in the random order of this number."""
    return [HEADS[i] for i in np.random.default_rng([SEED, number]).permutation(len(HEADS))]


def measure(model: "MiniLM", probe: Probe, part: Part, removed: Iterable[Head] = ()) -> Measured:
    """The probe's score on a part, read off the model without these heads."""
    with model.without(removed):
        return probe.score(model.encode(part.texts).numpy(), part.labels)


def recorded() -> dict:
    """What `book/tools/head_removal.py` wrote.  Each list over heads has shape (6, 12), unless it is an order.

    probe     arguments of `Probe`                      order     the heads, least harmful on the choosing part first
    intact    part → log_loss, accuracy                 majority  part → share of the more frequent label
    single    part → change of the mean log-loss and of the accuracy by removing one head
    removed   without k heads: chosen, reverse: (13,), at k; random: 20 orders at random_k, (20, 3)
    refitted  without k heads of an order (a number is that of a random one): the probe frozen; moved, its direction
              with a factor and a bias fitted anew; and refitted, all of it
    transfer  product reviews, with a probe of their own: single, and 36 heads removed that were chosen on the films

    A `standard_error` is that of the mean change of the log-loss from the intact model, text by text.
    """
    return data.recorded("head_removal.json")
