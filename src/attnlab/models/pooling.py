"""Fewer key and value heads for a model that has many: what it does to the loss of a small language model.

`CharLM` writes film reviews letter by letter, with eight query heads a layer and as many key and value heads as it is
given.  `pooled` turns one with eight of them into one with fewer, and `train` trains one, or trains it on.

Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv
2305.13245, convert a model by the mean of neighbouring heads and train it on for a twentieth of its steps.  Theirs has
billions of weights.  This one has 76,000 and reads 64 letters: it shows the procedure, not the size of the effect.

The texts are `snippets.movies()`, which the course does not ship: see `snippets.missing()`.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab import data
from attnlab.efficient import pool_heads
from attnlab.heads import MultiHeadAttention
from attnlab.models import snippets
from attnlab.models._fit import fit
from attnlab.models._stored import restored
from attnlab.models.spelling import one_thread

__all__ = ["ALPHABET", "WAYS", "CharLM", "Corpus", "Trained", "corpus", "load", "loss", "ngram_loss", "pooled",
           "recorded", "train"]  # fmt: skip

ALPHABET = "\n !'(),.0123456789:;?_abcdefghijklmnopqrstuvwxyz"  # all else is written _
CONTEXT = 64  # letters
N_TEST = 40_000  # letters of the test: more would only take longer
WIDTH, N_HEADS, N_LAYERS = 64, 8, 2
WAYS = ("mean", "first", "random")

STEPS = 1200
BATCH = 16
LEARNING_RATE = 1e-2
WARM_UP = 0.05  # of the steps: the rate rises to the full one, then falls in a straight line to 0


# -------------------------------------------------------------------------------------------------------------- texts


class Corpus(NamedTuple):
    """Letters as numbers, two long rows of reviews that end in a line feed: `train` (N,) and `test` (M,)."""

    train: Tensor
    test: Tensor


def corpus(texts: Sequence[str] | None = None) -> Corpus:
    """Each review once, in small letters.  Every tenth is kept from the training; the first of these are the test.

    Takes `snippets.movies()` unless other texts are given, and raises what that raises.
    """
    texts = list(dict.fromkeys(snippets.movies().texts if texts is None else texts))
    train = [text for i, text in enumerate(texts) if i % 10]
    return Corpus(encode("\n".join(train)), encode("\n".join(texts[::10]))[:N_TEST])


def encode(text: str) -> Tensor:
    """The place of each letter in ALPHABET: (N,)"""
    place = {letter: i for i, letter in enumerate(ALPHABET)}
    return torch.tensor([place.get(letter, place["_"]) for letter in text.lower()])


def decode(ids: Tensor) -> str:
    return "".join(ALPHABET[i] for i in ids.tolist())


# -------------------------------------------------------------------------------------------------------------- model


class Block(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x)): (B, n, d) → (B, n, d)"""

    def __init__(self, n_kv_heads: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), MultiHeadAttention(WIDTH, N_HEADS, n_kv_heads, bias=False)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x), is_causal=True).output
        return x + self.network(self.norm_2(x))


class CharLM(nn.Module):
    """Scores of the next letter: ids (B, n), n at most CONTEXT → (B, n, len(ALPHABET)).

    Two layers of width 64, eight query heads of 8 features in each, and `n_kv_heads` key and value heads: 8 is
    multi-head, 1 multi-query attention, what lies between is grouped.

    Raises ValueError where n_kv_heads does not divide 8, and for more letters than CONTEXT.
    """

    def __init__(self, n_kv_heads: int = N_HEADS) -> None:
        super().__init__()
        self.n_kv_heads = n_kv_heads
        self.letters, self.positions = nn.Embedding(len(ALPHABET), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block(n_kv_heads) for _ in range(N_LAYERS)))
        self.norm, self.readout = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(ALPHABET))

    def forward(self, ids: Tensor) -> Tensor:
        n = ids.shape[1]
        if n > CONTEXT:
            raise ValueError(f"ids must hold at most {CONTEXT} letters a row, but they have shape {tuple(ids.shape)}.")
        x = self.letters(ids) + self.positions.weight[:n]  # (B, n, d)
        return self.readout(self.norm(self.blocks(x)))


def pooled(model: CharLM, n_kv_heads: int, way: str = "mean", seed: int = 0) -> CharLM:
    """A copy with fewer key and value heads.  The query heads and all other weights stay as they are.

    way   "mean" of the heads of each group; "first" of them; or "random", heads as they are before any training,
          drawn with the seed

    Raises ValueError for another way, and where n_kv_heads does not divide the model's own number.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, but it is {way!r}.")
    if not 1 <= n_kv_heads <= model.n_kv_heads or model.n_kv_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads must divide the model's {model.n_kv_heads}, but it is {n_kv_heads}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        new = CharLM(n_kv_heads)
    weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    for name, drawn in new.state_dict().items():
        if "W_k" in name or "W_v" in name:  # (n_kv_heads · d_head, d_model)
            by_group = weights[name].unflatten(0, (n_kv_heads, -1, WIDTH // N_HEADS))  # (groups, heads, d_head, d)
            weights[name] = {
                "mean": pool_heads(weights[name], model.n_kv_heads, n_kv_heads),
                "first": by_group[:, 0].flatten(0, 1),
                "random": drawn,
            }[way]
    new.load_state_dict(weights)
    return new.train(model.training)


# ----------------------------------------------------------------------------------------------------------- measures


@torch.no_grad()
@one_thread()
def loss(model: CharLM, ids: Tensor, batch: int = 64) -> float:
    """Mean −ln p of each letter but the first: ids (N,).  The model reads windows of CONTEXT letters, one by one.

    The letters that open a window are predicted from few others, as in training.  The last window may be shorter.
    """
    total, starts = 0.0, range(0, len(ids) - 1, CONTEXT)
    full = [start for start in starts if start + CONTEXT < len(ids)]
    groups = [full[i : i + batch] for i in range(0, len(full), batch)] + [[start] for start in starts[len(full) :]]
    for group in groups:
        windows = torch.stack([ids[start : start + CONTEXT + 1] for start in group])  # (B, n + 1)
        total += _cross_entropy(model, windows, "sum").item()
    return total / (len(ids) - 1)


def ngram_loss(train: Tensor, test: Tensor, n: int) -> float:
    """The same of a table that has counted: n = 1 each letter, n = 2 each letter after the one before.  One is added
    to every count, so that nothing is impossible.  ValueError for another n."""
    if n not in (1, 2):
        raise ValueError(f"n must be 1 or 2, but it is {n}.")
    v = len(ALPHABET)
    before = (lambda ids: ids[:-1]) if n == 2 else (lambda ids: torch.zeros_like(ids[:-1]))
    counts = torch.ones(v, v, dtype=torch.float64)
    counts.index_put_((before(train), train[1:]), torch.tensor(1.0, dtype=torch.float64), accumulate=True)
    log_p = counts.log() - counts.sum(dim=1, keepdim=True).log()  # (before, letter)
    return -log_p[before(test), test[1:]].mean().item()


def _cross_entropy(model: CharLM, windows: Tensor, reduction: str) -> Tensor:
    logits = model(windows[:, :-1])  # (B, n, V)
    return nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction=reduction)


# ----------------------------------------------------------------------------------------------------------- training


class Trained(NamedTuple):
    """The `model`, in eval mode, and its `losses`, one a step."""

    model: CharLM
    losses: list[float]


@one_thread()
def train(
    start: int | CharLM, ids: Tensor, seed: int = 0, steps: int = STEPS, learning_rate: float = LEARNING_RATE
) -> Trained:
    """A new model with `start` key and value heads, or a copy of the model `start` trained on, for so many steps.

    Each step reads 16 windows, which the seed draws from ids (N,).  Adam, its rate rising to learning_rate over the
    first twentieth of the steps, then falling in a straight line to 0; gradients are cut to length 1.  The same numbers
    at each call, on one machine; the session's random numbers are left as they are.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = deepcopy(start) if isinstance(start, CharLM) else CharLM(start)
        model.train().requires_grad_(True)

        def loss_of_step(step: int) -> Tensor:
            starts = torch.randint(len(ids) - CONTEXT, (BATCH, 1))
            return _cross_entropy(model, ids[starts + torch.arange(CONTEXT + 1)], "mean")

        losses = fit(
            model.parameters(),
            loss_of_step,
            steps,
            learning_rate=learning_rate,
            n_warm_up=math.ceil(WARM_UP * steps),
            largest_gradient=1.0,
        )
    return Trained(model.eval(), losses)


# -------------------------------------------------------------------------------------------------------- stored models


def load(n_kv_heads: int = N_HEADS) -> CharLM:
    """The stored model of seed 0 with 8 key and value heads, or with 1, trained so from the start; in eval mode."""
    if n_kv_heads not in (1, N_HEADS):
        raise ValueError(f"Models with 8 and with 1 key and value heads are stored, but none with {n_kv_heads}.")
    with as_file(files("attnlab.data") / f"pooling_{n_kv_heads}.npz") as path:
        return restore(n_kv_heads, path)


def recorded() -> dict:
    """What `book/tools/train_pooling.py` wrote, a row for each model that was measured:

    from_scratch   trained with so many key and value heads from the start
    converted      made from the one with 8 of the same seed, in one of the WAYS, and trained on for so many `steps`.
                   With 8 heads, it is the model itself, trained on as long
    ngram          what `ngram_loss` says of the same letters
    """
    return data.recorded("pooling.json")


def restore(n_kv_heads: int, path: Path) -> CharLM:
    """A model with the weights of a file by `keep`, to compute with in float32; no gradients."""
    return restored(lambda: CharLM(n_kv_heads), path)
