"""Training and measuring the models of `attnlab.models.defaults`: the same steps and the same data for every kind."""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from attnlab.models._fit import fit
from attnlab.models.defaults import PICTURES, READERS, DigitReader, StreamReader, draw, moved, pictures
from attnlab.models.spelling import one_thread

__all__ = ["LENGTHS", "RATES", "picture_counts", "stream_counts", "train_pictures", "train_stream"]

RATES = (1e-3, 3e-3, 1e-2)  # learning rates that are tried, for every kind alike
WARM_UP = 0.05  # of the steps: the rate rises to the full one, then falls in a straight line to 0
LARGEST_GRADIENT = 1.0

PICTURE_STEPS, PICTURE_BATCH = 200, 32
SIZES = (50, 300, 1200)  # how many pictures a model is trained on

STREAM_STEPS, STREAM_BATCH, TRAINED_LENGTH = 400, 16, 32
LENGTHS = (32, 64, 128, 256, 512)  # the answers to the last 16 tokens before each of them count
COUNTED, N_STREAMS = 16, 32


@one_thread()
def train_pictures(
    kind: str, n: int, seed: int, rate: float, *, steps: int = PICTURE_STEPS, labels: Tensor | None = None
) -> nn.Module:
    """A new model, trained on n of the 1200 pictures that are there to train on; the seed draws pictures and weights.

    labels  (1200,), in place of the right ones: for a test of what a model makes of labels that mean nothing
    """
    pixels, right = pictures()["train"]
    labels = right if labels is None else labels
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        chosen = torch.randperm(len(pixels))[:n]  # the same for all kinds
        model = DigitReader(kind)

        def batch() -> tuple[Tensor, Tensor]:
            some = chosen[torch.randint(n, (PICTURE_BATCH,))]
            return pixels[some], labels[some]

        return _trained(model, batch, steps, rate)


@one_thread()
def train_stream(kind: str, task: str, seed: int, rate: float, *, steps: int = STREAM_STEPS) -> nn.Module:
    """A new model, trained on new streams of 32 tokens at each step; all kinds see the same streams."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, random = StreamReader(kind), torch.Generator().manual_seed(seed)
        return _trained(model, lambda: draw(task, STREAM_BATCH, TRAINED_LENGTH, random), steps, rate)


def _trained(model: nn.Module, batch: Callable[[], tuple[Tensor, Tensor]], steps: int, rate: float) -> nn.Module:
    """Adam; gradients are cut to length 1."""

    def loss(step: int) -> Tensor:
        inputs, answers = batch()
        return nn.functional.cross_entropy(model(inputs).flatten(0, -2), answers.flatten())

    fit(
        model.parameters(),
        loss,
        steps,
        learning_rate=rate,
        n_warm_up=WARM_UP * steps,
        largest_gradient=LARGEST_GRADIENT,
    )
    return model.eval().requires_grad_(False)


# ------------------------------------------------------------------------------------------------------------ measures


def picture_counts(model: nn.Module, part: str = "test") -> dict[str, int]:
    """How many pictures of this part are read right: as they are, and moved by one pixel, to the left and the right."""
    pixels, labels = pictures()[part]
    right = _right(model, pixels, labels).sum().item()
    both = sum(_right(model, moved(pixels, step), labels).sum().item() for step in (-1, 1))
    return {"right": right, "moved": both}


def stream_counts(
    model: nn.Module,
    task: str,
    *,
    seed: int = 1000,
    lengths: Sequence[int] = LENGTHS,
    longest: int = max(LENGTHS),
    silent_after: int | None = None,
) -> list[int]:
    """Right answers among the 32 · 16 to the last 16 tokens before each length, in streams drawn `longest` tokens long.

    Fewer lengths read the beginning of the same streams: no model sees what comes later.
    """
    tokens, answers = (part[:, : max(lengths)] for part in _streams(task, seed, longest, silent_after=silent_after))
    right = _right(model, tokens, answers)  # (32, n)
    return [right[:, n - COUNTED : n].sum().item() for n in lengths]


@cache
def _streams(task: str, seed: int, n: int, *, silent_after: int | None) -> tuple[Tensor, Tensor]:
    return draw(task, N_STREAMS, n, torch.Generator().manual_seed(seed), silent_after=silent_after)


@one_thread()
@torch.no_grad()
def _right(model: nn.Module, inputs: Tensor, answers: Tensor) -> Tensor:
    # Few at a time: attention over 512 tokens, written plainly, takes 4 MiB a stream for each step of its softmax.
    few = 8 if isinstance(model, StreamReader) else len(inputs)
    found = torch.cat([model(part).argmax(dim=-1) for part in inputs.split(few)])
    return found == answers


def kinds_of(task: str) -> tuple[str, ...]:
    return tuple(PICTURES) if task == "pictures" else READERS
