"""A checklist for a claim about attention weights, a function for each line.

AIM           say first what the weights should do; count how often they do    pointing
BASELINE      count the same for weights that look at nothing                  baselines
INTERVENTION  change what is said to matter, and see whether the output moves  leave_one_out, replace_each, permute,
                                                                               adversary, edited
SEEDS         repeat with other seeds: a difference counts beside its spread  spread, spread_of_pairs,
                                                                               spread_of_difference
TASK          see what remains of the task without these weights               task_check

Uniform weights as a baseline and variance over seeds as a yardstick: Wiegreffe, Pinter 2019, "Attention is not not
Explanation", arXiv 1908.04626.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device

from attnlab._inputs import Array, namespace_of, prepare, shape_of
from attnlab.evidence._protocol import LARGEST_ERROR, as_numpy, check_weights, divided_by_sum, plain

__all__ = ["baselines", "pointing", "task_check"]


def pointing(weights: Array, targets: Array) -> float:
    """AIM: the share of rows whose largest weight is at its target.

    weights (..., n); targets: integers (...), one key a row, or bool (..., n), True for each key that is right

    Keys that share the largest weight share the point, so that uniform weights score what chance does.  A row of zeros
    looks nowhere and scores 0.

    Raises ValueError for shapes that do not fit, for a row with a weight that is not finite or with none from 0 up,
    for a target that is no key, and for a row without a right key: leave rows without a target out.
    """
    xp = namespace_of(weights=weights, targets=targets)
    _, _, (weights,) = prepare(weights=weights)
    if weights.ndim < 1 or 0 in shape_of(weights):
        raise ValueError(f"weights must have shape (..., n), at least one row and key, but have {shape_of(weights)}.")
    right = _right_keys(xp, weights, targets)  # (..., n)
    largest = xp.max(weights, axis=-1, keepdims=True)  # (..., 1)
    _check_rows(as_numpy(weights), as_numpy(largest)[..., 0])
    at_largest = (weights == largest) & (largest > 0)  # (..., n)
    share = _count(xp, at_largest & right) / np.maximum(_count(xp, at_largest), 1)  # (...,)
    return float(share.mean())


def baselines(weights: Array, mask: Array | None = None, seed: int = 0) -> dict[str, Array]:
    """BASELINE: three sets of weights that know less, each of the shape and dtype of weights (..., n).

    "uniform"      equal weights for all allowed keys
    "shuffled"     the weights of each row in another order: as sharp, but blind
    "by position"  the mean of the same row in the other examples (along the first axis), divided by its sum over the
                   allowed keys: what position alone predicts.  The row itself takes no part.  Where the others put no
                   weight on these keys, or where there are no others, it is uniform

    mask           bool, broadcasts to the weights, True = allowed.  Without one, all keys are allowed, and with padding
                   that is wrong.  A row without an allowed key stays zero

    Raises ValueError for shapes that do not fit, for what are no weights, and for weight on a forbidden key.
    """
    xp, dtype, (weights,) = prepare(weights=weights)
    if shape_of(weights)[-1:] in ((), (0,)):
        raise ValueError(f"weights must have shape (..., n) with n at least 1, but have {shape_of(weights)}.")
    check_weights(xp, "weights", weights)
    allowed = _allowed(xp, weights, mask)  # bool (..., n)
    uniform = _over_allowed(xp, xp.ones_like(weights), allowed)

    source = xp.asarray(_shuffled(as_numpy(allowed) > 0, seed), device=device(weights))  # flat indices (... · n,)
    shuffled = xp.reshape(xp.reshape(weights, (-1,))[source], shape_of(weights))

    if weights.ndim > 1:
        others = xp.sum(weights, axis=0, keepdims=True) - weights  # (..., n)
        others = _over_allowed(xp, xp.where(others > 0, others, xp.zeros_like(others)), allowed)
        silent = xp.sum(others, axis=-1, keepdims=True) == 0  # (..., 1)
        by_position = xp.where(silent, uniform, others)
    else:
        by_position = uniform
    found = {"uniform": uniform, "shuffled": shuffled, "by position": by_position}
    return {name: xp.astype(rows, dtype) for name, rows in found.items()}


def task_check(
    decide: Callable[[Array], Any], weights: Array, answers: Any, mask: Array | None = None, seed: int = 0
) -> dict[str, float]:
    """TASK: the accuracy with the model's own weights, and with each of `baselines` in their place.

    decide: weights (B, n), one row an example → the model's answers (B,); weights (B, n); answers (B,), the right ones
    → {"own": accuracy, "uniform": …, "shuffled": …, "by position": …}

    Answers are numbers, bool or words, arrays or lists: classes, not scores.  Labels that are kept as 0.0 and 1.0 are
    answers; a logit or a probability is none until it is compared, as in logit > 0.

    Where "own" is no higher than "uniform", the task can be done without these weights.  Where it is higher, a model
    that was trained with uniform weights may still be as good: that is the fairer test, and takes a training.

    Raises ValueError for shapes that do not fit and for answers that are NaN, and TypeError for scores in place of
    answers and for words that are compared with numbers.
    """
    namespace_of(weights=weights)
    if weights.ndim != 2:
        raise ValueError(
            f"weights must have shape (B, n), one row an example, but they have shape {shape_of(weights)}."
        )
    answers = plain(answers)
    if answers.shape != shape_of(weights)[:1] or not len(answers):
        raise ValueError(
            "answers must have shape (B,), one for each row of weights, with at least one row, "
            f"but answers has shape {answers.shape} and weights has shape {shape_of(weights)}."
        )
    if answers.dtype.kind == "f" and np.isnan(answers).any():
        raise ValueError("answers must not be NaN: leave examples without an answer out.")
    rows = {"own": weights, **baselines(weights, mask, seed)}
    return {name: _accuracy(plain(decide(given)), answers) for name, given in rows.items()}


# ------------------------------------------------------------------------------------------------------------- helpers


def _check_rows(weights: np.ndarray, largest: np.ndarray) -> None:
    """Weights (..., n), their largest (...,): a row of NaN would point nowhere, and count as one that points wrong."""
    wrong = ~(np.isfinite(weights).all(axis=-1) & (largest >= 0))
    if wrong.any():
        row = tuple(np.argwhere(wrong)[0])
        raise ValueError(
            "Each row of weights must be finite, and the largest of it at least 0, but "
            f"weights{''.join(f'[{i}]' for i in row)} is {weights[row]}."
        )


def _right_keys(xp: Any, weights: Array, targets: Array) -> Array:
    """bool (..., n), True where a key is right."""
    n = weights.shape[-1]
    if xp.isdtype(targets.dtype, "bool"):
        if shape_of(targets) != shape_of(weights):
            raise _no_targets(weights, targets)
        if not xp.all(xp.any(targets, axis=-1)):
            raise ValueError("Each row of targets must have a right key, but one has none: leave this row out.")
        return targets
    if not xp.isdtype(targets.dtype, "integral"):
        raise TypeError(f"targets must be integers or bool, but they are {targets.dtype}.")
    if shape_of(targets) != shape_of(weights)[:-1]:
        raise _no_targets(weights, targets)
    if xp.any((targets < 0) | (targets >= n)):
        raise ValueError(f"targets must be keys from 0 to {n - 1}: leave rows without a target out.")
    return xp.arange(n, device=device(weights)) == targets[..., None]


def _no_targets(weights: Array, targets: Array) -> ValueError:
    return ValueError(
        "targets must be integers of shape (...) or bool of shape (..., n) for weights (..., n), "
        f"but targets is {targets.dtype} of shape {shape_of(targets)} and weights has shape {shape_of(weights)}."
    )


def _count(xp: Any, true: Array) -> np.ndarray:
    return as_numpy(true).sum(axis=-1)


def _allowed(xp: Any, weights: Array, mask: Array | None) -> Array:
    if mask is None:
        return xp.ones(shape_of(weights), dtype=xp.bool, device=device(weights)) & (
            xp.sum(weights, axis=-1, keepdims=True) > 0
        )
    namespace_of(weights=weights, mask=mask)
    if not xp.isdtype(mask.dtype, "bool"):
        raise TypeError(f"mask must be bool, True = allowed, but it is {mask.dtype}.")
    try:
        fits = np.broadcast_shapes(shape_of(weights), shape_of(mask)) == shape_of(weights)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            "mask must broadcast to weights (..., n), "
            f"but mask has shape {shape_of(mask)} and weights has shape {shape_of(weights)}."
        )
    allowed = xp.broadcast_to(mask, shape_of(weights))
    if xp.any(xp.where(allowed, xp.zeros_like(weights), weights) > LARGEST_ERROR):
        raise ValueError("There is weight on a key that the mask forbids: True means allowed. Is the mask inverted?")
    return allowed


def _over_allowed(xp: Any, rows: Array, allowed: Array) -> Array:
    return divided_by_sum(xp, xp.where(allowed, rows, xp.zeros_like(rows)))


def _shuffled(allowed: np.ndarray, seed: int) -> np.ndarray:
    """Where each weight comes from, as an index into the flat array: within each row, among its allowed keys."""
    rows = allowed.reshape(-1, allowed.shape[-1])  # (rows, n)
    drawn = np.random.default_rng(seed).random(rows.shape)
    to = np.argsort(~rows, axis=-1, kind="stable")  # the allowed keys first, in order
    taken = np.argsort(np.where(rows, drawn, 2 + np.arange(rows.shape[-1])), axis=-1)  # the allowed first, at random
    source = np.empty(rows.shape, dtype=np.int64)
    np.put_along_axis(source, to, taken, axis=-1)
    return (source + rows.shape[-1] * np.arange(len(rows))[:, None]).reshape(-1)


def _accuracy(found: np.ndarray, answers: np.ndarray) -> float:
    if found.shape != answers.shape:
        raise ValueError(
            f"decide must return one answer a row, shape {answers.shape}, but it returned shape {found.shape}."
        )
    words = [array.dtype.kind in "US" for array in (found, answers)]
    # Among labels that are floats, too, a score is seen: it is neither one of them nor another whole number.
    scores = found.dtype.kind == "f" and (
        answers.dtype.kind != "f"
        or not (np.isin(found, answers) | np.isfinite(found) & (found == np.round(found))).all()
    )
    if scores or words[0] != words[1]:
        raise TypeError(
            f"decide must return answers such as {answers[0]}, not scores, "
            f"but it returned {found.dtype}, such as {found[0]}."
        )
    return float((found == answers).mean())
