"""Training a `Classifier`: with its own attention, with weights that are given and stay, or against another model."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab.evidence import jensen_shannon
from attnlab.models._fit import fit
from attnlab.models.classifier import Classifier
from attnlab.models.classifier_texts import UNKNOWN, Corpus, Part, padded
from attnlab.models.spelling import one_thread

__all__ = ["Trained", "own_weights", "predictions", "train", "train_adversary", "uniform_weights"]

STEPS = 350  # about three times through the film reviews, six times through the messages
BATCH = 64
LEARNING_RATE = 1e-2
WARM_UP = 0.05  # of the steps: the rate rises to the full one, then falls in a straight line to 0
LARGEST_GRADIENT = 1.0
BATCHES_SORTED = 20  # so many are sorted by length together


class Trained(NamedTuple):
    """The `model`, in eval mode, without gradients, and its `losses`, one a step."""

    model: Classifier
    losses: list[float]


def train(
    kind: str,
    texts: Corpus,
    seed: int = 0,
    *,
    weights: Sequence[Tensor] | None = None,
    steps: int = STEPS,
    progress: bool = False,
    **options: float,
) -> Trained:
    """A new model of this kind, trained for so many steps of 64 texts: the same numbers at each call, on one machine.

    weights   None: the model learns its own.  Or a row (n,) for each training text, which replaces them and stays: with
              `uniform_weights` the context is the mean of the states; with `own_weights` another model guides this one
    options   widths and dropout of the `Classifier`

    The session's random numbers are left as they are.
    """
    part = texts.train

    def loss(model: Classifier, chosen: list[int]) -> Tensor:
        ids = padded([part.ids[i] for i in chosen])
        given = None if weights is None else padded([weights[i] for i in chosen])
        return nn.functional.binary_cross_entropy_with_logits(model(ids, given), part.labels[chosen])

    return _train(kind, texts, seed, loss, steps, kind if progress else None, options)


def train_adversary(
    base: Classifier, texts: Corpus, strength: float, seed: int = 0, *, steps: int = STEPS, **options: float
) -> Trained:
    """A model of the kind of `base` that learns to decide as base does, with other weights.  It never sees a label.

    Its loss is the mean cross-entropy of p against the p of base, less strength times the mean Jensen–Shannon
    divergence of its weights from those of base.  With the seed of base it starts from the same random numbers: what
    moves its weights away is the strength alone.

    Wiegreffe and Pinter 2019, "Attention is not not Explanation", arXiv 1908.04626, have mean |p − p of base| in place
    of the cross-entropy and the Kullback–Leibler divergence in place of ours.  The first is content with the more
    frequent answer: where seven of eight messages are no spam, it learned to say so of all.  The second has no upper
    bound; here the loss holds what is reported.
    """
    part = texts.train
    targets, far_from = predictions(base, part), own_weights(base, part)

    def loss(model: Classifier, chosen: list[int]) -> Tensor:
        ids = padded([part.ids[i] for i in chosen])
        states = model.states(ids)
        weights = model.weigh(states, model.lengths(ids))
        logits = model.logits(states, weights)
        apart = nn.functional.binary_cross_entropy_with_logits(logits, targets[chosen], reduction="none")
        return (apart - strength * jensen_shannon(weights, padded([far_from[i] for i in chosen]))).mean()

    return _train(base.kind, texts, seed, loss, steps, None, options)


def _train(kind, texts, seed, loss, steps, name, options) -> Trained:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Classifier(kind, len(texts.vocabulary) + UNKNOWN + 1, **options).train()
        batches = _batches(texts.train, seed)
        losses = fit(
            model.parameters(),
            lambda step: loss(model, next(batches)),
            steps,
            learning_rate=LEARNING_RATE,
            n_warm_up=WARM_UP * steps,
            largest_gradient=LARGEST_GRADIENT,
            name=name,
        )
    return Trained(model.eval().requires_grad_(False), losses)


def _batches(part: Part, seed: int) -> Iterator[list[int]]:
    """Batches without end, each of texts of about one length, which halves the time; their order is random."""
    random = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(part.ids), generator=random).tolist()
        batches = []
        for start in range(0, len(order), BATCH * BATCHES_SORTED):
            pool = sorted(order[start : start + BATCH * BATCHES_SORTED], key=lambda i: len(part.ids[i]))
            # The rest that fills no batch sits out this round.
            batches += [pool[i : i + BATCH] for i in range(0, len(pool) - BATCH + 1, BATCH)]
        for i in torch.randperm(len(batches), generator=random).tolist():
            yield batches[i]


# ---------------------------------------------------------------------------------------------- weights and predictions


def uniform_weights(part: Part) -> list[Tensor]:
    """1/n for each of the n words of each text."""
    return [torch.full((len(ids),), 1 / len(ids)) for ids in part.ids]


@torch.no_grad()
@one_thread()
def own_weights(model: Classifier, part: Part, temperature: float = 1.0) -> list[Tensor]:
    """The weights (n,) of a model over the words of each text."""
    return [
        row[: len(ids)]
        for chosen in _in_order(part)
        for row, ids in zip(model.weights(padded(chosen), temperature), chosen, strict=True)
    ]


@torch.no_grad()
@one_thread()
def predictions(model: Classifier, part: Part, weights: Sequence[Tensor] | None = None) -> Tensor:
    """p(label 1) for each text: (N,).  With `weights`, a row (n,) for each text, in place of the model's own."""
    parts, start = [], 0
    for chosen in _in_order(part):
        given = None if weights is None else padded(weights[start : start + len(chosen)])
        parts.append(torch.sigmoid(model(padded(chosen), given)))
        start += len(chosen)
    return torch.cat(parts)


def _in_order(part: Part, size: int = 256) -> list[list[Tensor]]:
    return [part.ids[i : i + size] for i in range(0, len(part.ids), size)]
