"""Two tasks on which attention is not the first thing to try, and the models that are compared on them.

Pictures: which digit do these 8 × 8 pixels show?  A pixel is a token.  One layer mixes the pixels, a feed-forward layer
follows, the largest of each 2 × 2 pixels goes to the ten classes.  Only the layer that mixes differs, and the width of
the feed-forward layer, which makes all models equally large.  `PICTURES` names the kinds: "convolution" (3 × 3 pixels,
the same weights everywhere: LeCun et al. 1989), five kinds of attention, and "alone", which mixes nothing.

Streams: an answer is due after every token.  `STREAMS` names the tasks, each with a state of a few bits that is enough:

"last"      the value that was written last (the flip-flop of Liu et al. 2023, arXiv 2306.00946, with three values)
"parity"    whether the number of ones so far is odd (Hahn 2020, arXiv 1906.06755, on why that is hard for attention)
"majority"  whether there were more ones than zeros so far

`READERS` names the kinds: "recurrence", a gated recurrent unit (Cho et al. 2014, arXiv 1406.1078), and two layers of
causal attention with three ways to tell positions: none but the mask, sinusoids (Vaswani et al. 2017, arXiv
1706.03762), and scores that fall with the distance (Press et al. 2022, "ALiBi", arXiv 2108.12409).
"""

import math
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnlab import data
from attnlab.data import digits
from attnlab.efficient.cost import kv_cache_bytes
from attnlab.efficient.meter import memory
from attnlab.heads import MultiHeadAttention

__all__ = ["PICTURES", "READERS", "STREAMS", "DigitReader", "Mixer", "StreamReader", "draw", "load", "mixing_products",
           "moved", "pictures", "recorded", "saved_bytes", "state_bytes", "step_products"]  # fmt: skip

N_HEADS = 4

# ------------------------------------------------------------------------------------------------------------ pictures

D_PICTURE = 16


class Kind(NamedTuple):
    """How a layer mixes pixels, and the width of the feed-forward layer that makes all models equally large.

    places   each pixel has a learned vector, added to it
    offsets  each displacement from query to key has a learned score a head, the same at all pixels
    near     a query may attend to the 3 × 3 pixels around its own, no others
    """

    hidden: int
    mixes: str = "attention"
    places: bool = False
    offsets: bool = False
    near: bool = False


PICTURES = {
    "convolution": Kind(24, "convolution"),
    "attention, near, offsets": Kind(60, near=True, offsets=True),
    "attention, near, places": Kind(30, near=True, places=True),
    "attention, offsets": Kind(34, offsets=True),
    "attention, places": Kind(30, places=True),
    "attention, no positions": Kind(61),
    "alone": Kind(63, "nothing", places=True),
}


class Mixer(nn.Module):
    """The layer that mixes side × side pixels: (B, side², d) → (B, side², d)"""

    def __init__(self, kind: str, side: int = 8, d: int = D_PICTURE) -> None:
        super().__init__()
        self.kind, self.side = PICTURES[kind], side
        if self.kind.mixes == "convolution":
            self.layer = nn.Conv2d(d, d, 3, padding=1)
        if self.kind.mixes == "attention":
            self.layer = MultiHeadAttention(d, N_HEADS)
            row, column = torch.arange(side**2) // side, torch.arange(side**2) % side
            down, across = row - row[:, None], column - column[:, None]  # from query to key, (n, n)
            self.near = (down.abs() <= 1) & (across.abs() <= 1)
            reach = 1 if self.kind.near else side - 1
            # Pixels out of reach get some offset too: the mask forbids them.
            self.offset = tuple(step.clamp(-reach, reach) + reach for step in (down, across))
            if self.kind.offsets:
                self.scores = nn.Parameter(torch.zeros(N_HEADS, 2 * reach + 1, 2 * reach + 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind.mixes == "nothing":
            return torch.zeros_like(x)
        if self.kind.mixes == "convolution":
            image = x.mT.unflatten(-1, (self.side, self.side))  # (B, d, side, side)
            return self.layer(image).flatten(2).mT
        return self.layer(x, mask=self._mask()).output

    def _mask(self) -> Tensor | None:
        near = self.near if self.kind.near else None  # (n, n)
        if not self.kind.offsets:
            return near
        scores = self.scores[:, *self.offset][None]  # (1, n_heads, n, n)
        return scores if near is None else scores.masked_fill(~near, -math.inf)


class DigitReader(nn.Module):
    """Pixels (B, 64) from 0 to 1 → scores of the ten classes (B, 10)"""

    def __init__(self, kind: str) -> None:
        super().__init__()
        d, hidden = D_PICTURE, PICTURES[kind].hidden
        self.embed = nn.Linear(1, d)
        self.places = nn.Parameter(0.5 * torch.randn(64, d)) if PICTURES[kind].places else None
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.mixer = Mixer(kind)
        self.feed_forward = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))
        self.classes = nn.Linear(16 * d, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.embed(pixels[..., None])  # (B, 64, d)
        if self.places is not None:
            x = x + self.places
        x = x + self.mixer(self.norms[0](x))
        x = x + self.feed_forward(self.norms[1](x))
        squares = self.norms[2](x).reshape(len(x), 4, 2, 4, 2, -1)  # 4 × 4 squares of 2 × 2 pixels
        return self.classes(squares.amax((2, 4)).flatten(1))


class Part(NamedTuple):
    """Some digits: `pixels` (N, 64) from 0 to 1, `labels` (N,)."""

    pixels: Tensor
    labels: Tensor


def pictures() -> dict[str, Part]:
    """The digits in the order of the source: 1200 to "train" on, 200 to "choose" settings, 397 to "test"."""
    images, labels = digits()
    pixels, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    cuts = {"train": slice(0, 1200), "choose": slice(1200, 1400), "test": slice(1400, None)}
    return {name: Part(pixels[cut], labels[cut]) for name, cut in cuts.items()}


def moved(pixels: Tensor, right: int) -> Tensor:
    """The pictures moved by so many pixels to the right, or to the left if negative; what comes in is white."""
    image = pixels.unflatten(-1, (8, 8))
    return nn.functional.pad(image, (right, -right)).flatten(-2)


def mixing_products(kind: str, side: int = 8) -> int:
    """Multiplications of the mixing layer for one picture of side × side pixels; near attention by pairs allowed."""
    n, d = side**2, D_PICTURE
    match PICTURES[kind]:
        case Kind(mixes="nothing"):
            return 0
        case Kind(mixes="convolution"):
            return n * 9 * d**2
        case Kind(near=near):
            pairs = (3 * side - 2) ** 2 if near else n**2
            return 4 * n * d**2 + 2 * pairs * d


def saved_bytes(kind: str, side: int = 8) -> int:
    """What norm and mixing layer save for the backward pass of one picture, weights not counted, as written here.

    The near kinds compute all pairs and forbid most: a mask saves no memory.
    """
    layer = nn.Sequential(nn.LayerNorm(D_PICTURE), Mixer(kind, side))
    return memory(layer, torch.ones(1, side**2, D_PICTURE)).saved


# ------------------------------------------------------------------------------------------------------------- streams

STREAMS = {"last": 1 / 3, "parity": 1 / 2, "majority": 1 / 2}  # task: share of right answers by chance
READERS = ("recurrence", "attention, no positions", "attention, sinusoids", "attention, distance")
D_STATE = 48  # of the recurrence
D_ATTENTION, N_LAYERS = 24, 2


def draw(
    task: str, n_streams: int, n: int, random: torch.Generator, *, silent_after: int | None = None
) -> tuple[Tensor, Tensor]:
    """Random streams of n tokens, and the right answer after each token: tokens (B, n), answers (B, n).

    "last": token 0 is no event, 1, 2 and 3 write the answers 0, 1 and 2; the first token writes, and one in ten of the
    others, until `silent_after`.  Other tasks: tokens and answers are 0 or 1.

    Raises ValueError for another task, and for silent_after where no token is silent.
    """
    if task not in STREAMS:
        raise ValueError(f"task must be one of {', '.join(STREAMS)}, but it is {task!r}.")
    shape = (n_streams, n)
    if task != "last":
        if silent_after is not None:
            raise ValueError(f'silent_after is for "last", whose token 0 is no event, not for {task!r}.')
        ones = torch.randint(2, shape, generator=random)
        return ones, ones.cumsum(1) % 2 if task == "parity" else (2 * ones.cumsum(1) > torch.arange(1, n + 1)).long()
    writes = torch.rand(shape, generator=random) < 0.1
    writes[:, 0] = True
    if silent_after is not None:
        writes[:, silent_after:] = False
    tokens = torch.randint(1, 4, shape, generator=random) * writes
    newest = (torch.arange(n) * writes).cummax(dim=1).values  # the place of the last write so far
    return tokens, tokens.gather(1, newest) - 1


class Layer(nn.Module):
    """A layer of causal attention and a feed-forward layer: (B, n, d) → (B, n, d)"""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.attention = MultiHeadAttention(d, N_HEADS)
        self.feed_forward = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.norms[0](x), mask=mask, is_causal=True).output
        return x + self.feed_forward(self.norms[1](x))


class StreamReader(nn.Module):
    """Tokens (B, n) → scores of the three answers after each of them (B, n, 3)"""

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind not in READERS:
            raise ValueError(f"kind must be one of {', '.join(READERS)}, but it is {kind!r}.")
        self.kind = kind
        d = D_STATE if kind == "recurrence" else D_ATTENTION
        self.embed = nn.Embedding(4, d)
        if kind == "recurrence":
            self.unit = nn.GRU(d, d, batch_first=True)
        else:
            self.layers = nn.ModuleList(Layer(d) for _ in range(N_LAYERS))
            self.norm = nn.LayerNorm(d)
        self.answers = nn.Linear(d, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)  # (B, n, d)
        if self.kind == "recurrence":
            return self.answers(self.unit(x)[0])
        n = tokens.shape[1]
        if self.kind == "attention, sinusoids":
            x = x + sinusoids(n)
        mask = falling(n) if self.kind == "attention, distance" else None
        for layer in self.layers:
            x = layer(x, mask)
        return self.answers(self.norm(x))


def sinusoids(n: int) -> Tensor:
    """(n, D_ATTENTION): sines and cosines of the position at falling frequencies."""
    angles = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, D_ATTENTION, 2) / D_ATTENTION)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def falling(n: int) -> Tensor:
    """-slope · distance, each head with a slope of its own, 1/2 the steepest: (1, n_heads, n, n)"""
    slopes = 2.0 ** -torch.arange(1, 2 * N_HEADS, 2)  # 1/2, 1/8, 1/32, 1/128
    distance = torch.arange(n)[:, None] - torch.arange(n)  # from query to key
    return -slopes[:, None, None] * distance[None, None]


def state_bytes(kind: str, n: int) -> int:
    """What a stream in progress must keep after n tokens, in float32: the state, or the cache of keys and values."""
    if kind == "recurrence":
        return 4 * D_STATE
    d_head = D_ATTENTION // N_HEADS
    return kv_cache_bytes(n_layers=N_LAYERS, n_kv_heads=N_HEADS, d_head=d_head, n_tokens=n, dtype="float32")


def step_products(kind: str, n: int) -> int:
    """Multiplications for token n and its answer, with all before it in the state or in the cache."""
    if kind == "recurrence":
        return 6 * D_STATE**2 + 3 * D_STATE
    d = D_ATTENTION
    return N_LAYERS * (12 * d**2 + 2 * n * d) + 3 * d


# -------------------------------------------------------------------------------------------------------------- stored


def recorded() -> dict[str, Any]:
    """The record of all runs by book/tools/train_defaults.py."""
    return data.recorded("defaults.json")


def load(task: str, kind: str) -> nn.Module:
    """The stored model of seed 0: task "pictures" with a kind of PICTURES, or a task of STREAMS with one of READERS.

    Weights are kept in float16 and computed with in float32; in eval mode, no gradients.  ValueError for others.
    """
    tasks = ("pictures", *STREAMS)
    if task not in tasks:
        raise ValueError(f"task must be one of {', '.join(tasks)}, but it is {task!r}.")
    kinds = tuple(PICTURES) if task == "pictures" else READERS
    if kind not in kinds:
        raise ValueError(f"kind must be one of {'; '.join(kinds)}, but it is {kind!r}.")
    with as_file(files("attnlab.data") / f"defaults_{task}.npz") as path:
        return restore(task, kind, path)


def keep(models: dict[str, nn.Module], path: Path) -> None:
    """Write the weights of these models, by kind, in float16."""
    arrays = {f"{kind}|{name}": p.detach() for kind, model in models.items() for name, p in model.state_dict().items()}
    np.savez_compressed(path, **{name: p.numpy().astype(np.float16) for name, p in arrays.items()})


def restore(task: str, kind: str, path: Path) -> nn.Module:
    """A model of this kind with the weights of a file by `keep`."""
    with torch.random.fork_rng(devices=[]):  # the session's random numbers stay
        model = DigitReader(kind) if task == "pictures" else StreamReader(kind)
    with np.load(path) as stored:
        named = [(name.split("|"), stored[name]) for name in stored]
    weights = {name: torch.from_numpy(array.astype(np.float32)) for (of, name), array in named if of == kind}
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)
