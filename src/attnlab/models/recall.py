"""Associative recall: a list of pairs of a key and a value, then a key from the list.  Which value stood beside it?

What a model must do here, language models do all the time: find what stood beside a name when it was last seen.  Arora
et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language Models", arXiv 2312.04927, ask for several
keys of a list, as here, and find that this tells attention from what has a fixed state.  In their sequences key and
value are two tokens, so that a model needs two layers; here a pair is one token, and one layer is enough.

All kinds of `Recaller` have the same weights to learn.  They differ in attention alone:

"softmax"   softmax(q · k / √d): keeps every key and value
"elu"       linear attention with elu(x) + 1, d features.  Katharopoulos et al. 2020, arXiv 2006.16236
"exp"       linear attention with exp(x), d features
"taylor"    linear attention with 1 + q · k / √d + (q · k)² / 2d as the kernel: 1 + d + d (d + 1) / 2 features.
            Arora et al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff",
            arXiv 2402.18668

`reading_errors` needs no training: it says what a state of a fixed size can give back at best.
"""

import math
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnlab import data
from attnlab.core import attention
from attnlab.efficient import elu_plus_one, linear_attention
from attnlab.models._fit import fit
from attnlab.models._stored import restored
from attnlab.models.spelling import one_thread

__all__ = ["FEATURES", "KINDS", "PAIRS", "Errors", "Lists", "Recaller", "Trained", "accuracy", "draw", "guessing",
           "load", "reading_errors", "recorded", "taylor", "train"]  # fmt: skip

N_KEYS, N_VALUES = 256, 32
N_ASKED = 16  # keys asked for in each list
PAIRS = (4, 8, 16, 32, 64)  # in the lists of the training, in turn

STEPS = 1000
BATCH = 64
LEARNING_RATE = 1e-2
WARM_UP = 0.05  # of the steps: the rate rises to the full one, then falls in a straight line to 0


# --------------------------------------------------------------------------------------------------------------- lists


class Lists(NamedTuple):
    """B lists: `keys` (B, P), no key twice; `values` (B, P); `asked` (B, Q), keys of the list; `answers` (B, Q)."""

    keys: Tensor
    values: Tensor
    asked: Tensor
    answers: Tensor


def draw(n_lists: int, n_pairs: int, random: torch.Generator, n_asked: int = N_ASKED) -> Lists:
    """Random lists: keys without, values and the asked with repetition.  ValueError for more pairs than keys."""
    if not 1 <= n_pairs <= N_KEYS:
        raise ValueError(f"n_pairs must be from 1 to {N_KEYS}, the number of keys, but it is {n_pairs}.")
    keys = torch.rand(n_lists, N_KEYS, generator=random).argsort(dim=-1)[:, :n_pairs]  # (B, P)
    values = torch.randint(N_VALUES, (n_lists, n_pairs), generator=random)
    places = torch.randint(n_pairs, (n_lists, n_asked), generator=random)  # (B, Q)
    return Lists(keys, values, keys.gather(1, places), values.gather(1, places))


def guessing(n_pairs: int) -> float:
    """Right answers of who knows the values of the list, but not which key has which: above chance, 1 / N_VALUES."""
    return 1 / n_pairs + (1 - 1 / n_pairs) / N_VALUES


# --------------------------------------------------------------------------------------------------------------- model


def taylor(x: Tensor) -> Tensor:
    """Features whose products are 1 + s + s² / 2, the beginning of exp(s), with s = q · k / √d.  Never negative.

    x (..., d) → (..., 1 + d + d (d + 1) / 2)
    """
    d = x.shape[-1]
    x = x / d**0.25
    i, j = torch.triu_indices(d, d)  # x_i x_j and x_j x_i are one feature, √2 times as long
    squares = x[..., i] * x[..., j] * torch.where(i == j, math.sqrt(0.5), 1.0)
    return torch.cat([torch.ones_like(x[..., :1]), x, squares], dim=-1)


FEATURES = {"elu": elu_plus_one, "exp": torch.exp, "taylor": taylor}
KINDS = ("softmax", *FEATURES)


class Recaller(nn.Module):
    """One layer with one head: the asked keys are the queries, the pairs are keys and values.

    kind     "softmax", "elu", "exp" or "taylor"
    width    of the embeddings, of which a pair's token is the sum
    d        of queries, keys and values

    No positions and no residual connection: what is known about the list comes through attention.

    Raises ValueError for another kind.
    """

    def __init__(self, kind: str, width: int = 32, d: int = 16) -> None:
        super().__init__()
        _check(kind)
        self.kind, self.d = kind, d
        self.keys, self.values = nn.Embedding(N_KEYS, width), nn.Embedding(N_VALUES, width)
        self.W_q, self.W_k, self.W_v = (nn.Linear(width, d, bias=False) for _ in range(3))
        self.readout = nn.Linear(d, N_VALUES)

    def forward(self, keys: Tensor, values: Tensor, asked: Tensor) -> Tensor:
        """Scores of the values: keys (B, P), values (B, P), asked (B, Q) → (B, Q, N_VALUES)"""
        return self.readout(self.attend(self.W_q(self.keys(asked)), *self.project(keys, values)))

    def project(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """What is kept of the pairs: keys (B, P), values (B, P) → (B, P, d), (B, P, d)"""
        pairs = self.keys(keys) + self.values(values)  # (B, P, width)
        return self.W_k(pairs), self.W_v(pairs)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """query (B, Q, d), key (B, P, d), value (B, P, d) → (B, Q, d)"""
        if self.kind == "softmax":
            return attention(query, key, value).output
        return linear_attention(query, key, value, feature_map=FEATURES[self.kind])

    def numbers_kept(self, n_pairs: int) -> int:
        """How many numbers must be kept of so many pairs: keys and values, or the state and its normaliser."""
        if self.kind == "softmax":
            return n_pairs * 2 * self.d
        n_features = FEATURES[self.kind](torch.zeros(self.d)).shape[-1]
        return n_features * (self.d + 1)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, but it is {kind!r}.")


@torch.no_grad()
@one_thread()
def accuracy(model: Recaller, n_pairs: int, n_lists: int = 500, seed: int = 1_000_000) -> float:
    """The share of right answers on fresh lists; chance is 1 / N_VALUES.  One seed draws the same lists for all."""
    lists = draw(n_lists, n_pairs, torch.Generator().manual_seed(seed))
    return _right(model, lists).float().mean().item()


def _right(model: Recaller, lists: Lists) -> Tensor:
    *given, answers = lists
    return model(*given).argmax(dim=-1) == answers  # (B, Q)


# ------------------------------------------------------------------------------------------------------------ training


class Trained(NamedTuple):
    """The `model`, in eval mode, and its `losses`, one a step."""

    model: Recaller
    losses: list[float]


@one_thread()
def train(kind: str, seed: int = 0, steps: int = STEPS, pairs: Sequence[int] = PAIRS) -> Trained:
    """A new model of this kind, trained on 64 fresh lists a step, whose numbers of pairs take turns.

    The same lists for every kind, and the same numbers at each call, on one machine; the session's random numbers are
    left as they are.  Adam, its learning rate rising over the first twentieth of the steps, then falling in a straight
    line to 0; gradients are cut to length 1.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, random = Recaller(kind).train(), torch.Generator().manual_seed(seed)

        def loss(step: int) -> Tensor:
            *given, answers = draw(BATCH, pairs[step % len(pairs)], random)
            return nn.functional.cross_entropy(model(*given).flatten(0, 1), answers.flatten())

        losses = fit(
            model.parameters(),
            loss,
            steps,
            learning_rate=LEARNING_RATE,
            n_warm_up=math.ceil(WARM_UP * steps),
            largest_gradient=1.0,
        )
    return Trained(model.eval().requires_grad_(False), losses)


# ------------------------------------------------------------------------------------------------------- stored models


def load(kind: str) -> Recaller:
    """The stored model of this kind, of seed 0, trained by book/tools/train_recall.py; in eval mode, no gradients.

    Its weights are kept in float16 and computed with in float32.  ValueError for another kind.
    """
    _check(kind)
    with as_file(files("attnlab.data") / f"recall_{kind}.npz") as path:
        return restore(kind, path)


def restore(kind: str, path: Path) -> Recaller:
    """A model with the weights of a file by `keep`."""
    return restored(lambda: Recaller(kind), path)


def recorded() -> dict:
    """What `book/tools/train_recall.py` wrote: shares of right answers, a list over `pairs` for each model."""
    return data.recorded("recall.json")


# ---------------------------------------------------------------------------------------------------- without training


class Errors(NamedTuple):
    """Mean squared errors of what is read, where the answer 0 has 1: from a `sum`, the `best` state, and `softmax`."""

    sum: float
    best: float
    softmax: float


def reading_errors(n_pairs: int, d: int, sharpness: float = 50.0, *, d_v: int = 64, seed: int = 0) -> Errors:
    """Write n_pairs random keys of length 1 in d dimensions, each with d_v random values ±1; then read at every key.

    sum       from the state Σ k vᵀ (d, d_v), as linear attention writes it (without features or normaliser).  The other
              keys are in the way: expected (n_pairs - 1) / d
    best      from the state (d, d_v) with the smallest error, whoever wrote it.  What is read has rank d at most:
              expected 1 - d / n_pairs, and 0 up to d pairs
    softmax   attention over all keys and values, scores multiplied by the sharpness
    """
    random = np.random.default_rng(seed)
    keys = random.standard_normal((n_pairs, d))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)  # (P, d)
    values = random.choice([-1.0, 1.0], (n_pairs, d_v))
    read = {
        "sum": keys @ (keys.T @ values),
        "best": keys @ np.linalg.lstsq(keys, values, rcond=None)[0],
        "softmax": attention(keys, keys, values, scale=sharpness).output,
    }
    return Errors(**{name: float(np.mean((output - values) ** 2)) for name, output in read.items()})
