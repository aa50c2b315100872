"""Training a `Pronouncer`: the same words, order and steps for every kind of context, and a bar that leaves nothing."""

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from attnlab.data import pronunciations
from attnlab.models.spelling import Pronouncer, Word, one_thread

__all__ = ["STEPS", "Trained", "train"]

STEPS = 2000  # of the stored models: nearly thirteen times through the words
BATCH = 128
LEARNING_RATE = 3e-3
WARM_UP = 0.05  # of the steps: the rate rises to the full one
LARGEST_GRADIENT = 1.0
BATCHES_SORTED = 20  # so many are sorted by length together


class Trained(NamedTuple):
    """The `model`, in eval mode, and its `losses`, one a step."""

    model: Pronouncer
    losses: list[float]


@one_thread()
def train(
    kind: str,
    seed: int = 0,
    steps: int = STEPS,
    *,
    words: Sequence[Word] | None = None,
    progress: bool = False,
    **options: float,
) -> Trained:
    """A new model of this kind, trained for so many steps of 128 words: the same numbers at each call, on one machine.

    words     (spelling, phonemes) pairs; None means the training part of `attnlab.data.pronunciations()`
    progress  show a bar while it runs; in a notebook, what the cell has shown before is cleared with it
    options   width and dropout of the `Pronouncer`

    The session's random numbers are left as they are.  ValueError for an unknown kind and for fewer words than a batch.

    Adam, its learning rate rising over the first twentieth of the steps, then falling in a straight line to 0;
    gradients are cut to length 1.
    """
    words = pronunciations().train if words is None else words
    if len(words) < BATCH:
        raise ValueError(f"words must hold at least one batch of {BATCH}, but there are {len(words)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Pronouncer(kind, **options).train()
        optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        order, losses = _batches(words, seed), []
        for step in _with_bar(steps) if progress else range(steps):
            rising, falling = min(1, (step + 1) / (WARM_UP * steps)), 1 - step / steps
            optimiser.param_groups[0]["lr"] = LEARNING_RATE * rising * falling
            loss = model.loss(next(order))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
            optimiser.step()
            losses.append(loss.item())
    return Trained(model.eval(), losses)


def _batches(words: Sequence[Word], seed: int) -> Iterator[list[Word]]:
    """Batches without end, each of words of about one length, which halves the time; their order is random."""
    random = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(words), generator=random).tolist()
        batches = []
        for start in range(0, len(order), BATCH * BATCHES_SORTED):
            pool = order[start : start + BATCH * BATCHES_SORTED]
            pool.sort(key=lambda i: (len(words[i][0]), len(words[i][1])))
            # The rest that fills no batch sits out this round.
            batches += [pool[i : i + BATCH] for i in range(0, len(pool) - BATCH + 1, BATCH)]
        for i in torch.randperm(len(batches), generator=random).tolist():
            yield [words[j] for j in batches[i]]


def _with_bar(steps: int) -> Iterator[int]:
    """range(steps) with a bar in the notebook or the terminal, gone at the end."""
    every = max(1, steps // 100)
    if _in_notebook():
        from IPython.display import HTML, display

        bar = display(HTML("<progress>"), display_id=True)
        try:
            for step in range(steps):
                yield step
                if step % every == 0:
                    bar.update(HTML(f'<progress max="{steps}" value="{step + 1}" style="width: 60ex"></progress>'))
        finally:
            bar.update(HTML(""))  # the bar alone: what the cell has printed stays
    else:
        shown = sys.stderr.isatty()
        try:
            for step in range(steps):
                if shown and step % every == 0:
                    print(f"\rstep {step + 1} of {steps}", end="", file=sys.stderr, flush=True)
                yield step
        finally:
            if shown:
                print("\r\033[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this: then its shell has one."""
    if "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")
