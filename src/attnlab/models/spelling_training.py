"""Training a `Pronouncer`: the same words, order and steps for every kind of context, and a bar that leaves nothing."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from attnlab.data import pronunciations
from attnlab.models._fit import fit
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
    progress  show a bar while it runs, of which nothing stays
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
        order = _batches(words, seed)
        losses = fit(
            model.parameters(),
            lambda step: model.loss(next(order)),
            steps,
            learning_rate=LEARNING_RATE,
            n_warm_up=WARM_UP * steps,
            largest_gradient=LARGEST_GRADIENT,
            name="step" if progress else None,
        )
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
