"""A checklist for a claim about attention weights, a function for each line.

AIM           say first what the weights should do; count how often they do    pointing
BASELINE      count the same for weights that look at nothing                  baselines
INTERVENTION  change what is said to matter, and see whether the output moves  leave_one_out, replace_each, permute,
                                                                               adversary, edited
SEEDS         repeat with other seeds: a difference counts beside its spread  spread, spread_of_pairs
TASK          see what remains of the task without these weights               task_check

Uniform weights as a baseline and variance over seeds as a yardstick: Wiegreffe, Pinter 2019, "Attention is not not
Explanation", arXiv 1908.04626.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from attnlab._inputs import Array, namespace_of, prepare, shape_of
from attnlab.evidence._protocol import LARGEST_ERROR, as_numpy, check_weights, divided_by_sum

__all__ = ["Spread", "baselines", "pointing", "spread", "spread_of_pairs", "task_check"]


class Spread(NamedTuple):
    """`mean` and standard deviation `sd` of `n` runs; `low` … `high`, the interval of the mean."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


def pointing(weights: Array, targets: Array) -> float:
    """AIM: the share of rows whose largest weight is at its target.

    weights (..., n); targets: integers (...), one key a row, or bool (..., n), True for each key that is right

    Keys that share the largest weight share the point, so that uniform weights score what chance does.  A row of zeros
    looks nowhere and scores 0.

    Raises ValueError for shapes that do not fit, for a target that is no key, and for a row without a right key: leave
    rows without a target out.
    """
    xp = namespace_of(weights=weights, targets=targets)
    _, _, (weights,) = prepare(weights=weights)
    if weights.ndim < 1 or 0 in shape_of(weights):
        raise ValueError(f"weights must have shape (..., n), at least one row and key, but have {shape_of(weights)}.")
    right = _right_keys(xp, weights, targets)  # (..., n)
    largest = xp.max(weights, axis=-1, keepdims=True)  # (..., 1)
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
    if weights.ndim < 1:
        raise ValueError("weights must have shape (..., n), but they have no axis: ().")
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


def spread(values: Sequence[float] | Array, level: float = 0.95) -> Spread:
    """SEEDS: the mean of a number over n runs, and the interval that holds the mean of all runs with this confidence.

    values (n,) or a list, n ≥ 2 → Spread(mean, sd, low, high, n): mean ± t · sd / √n, with t from Student's
    distribution with n − 1 degrees of freedom and sd with n − 1 in its denominator.

    Right where runs are independent and their numbers roughly normal.  To compare two models that were run with the
    same seeds, pass the differences.

    Raises ValueError for fewer than two runs, for values that are not finite, and for a level outside of 0 … 1.

    Student 1908, "The Probable Error of a Mean", Biometrika 6(1).
    """
    values = _runs(values, level, 2)
    return _student(float(values.mean()), float(values.std(ddof=1)), len(values), level)


def spread_of_pairs(values: Sequence[float] | Array, level: float = 0.95) -> Spread:
    """SEEDS: the same for a number that belongs to two runs, as how alike they are.

    values (n,) or a list, n ≥ 3: for each run, the mean over its pairs with the n − 1 others, of a number that is the
    same for (i, j) and (j, i).  Each pair is in two of the values, so that they are not independent, and `spread` of
    them is too narrow.  Here the interval is that of the jackknife: the mean is taken again without each run in turn.
    `sd` is √n times its standard error.  Where the pairs are nearly independent of their runs, it is too wide: that it
    contains 0 then says little.

    Raises ValueError for fewer than three runs, for values that are not finite, and for a level outside of 0 … 1.

    Tukey 1958, "Bias and Confidence in Not-quite Large Samples", The Annals of Mathematical Statistics 29.
    """
    values = _runs(values, level, 3)
    n, mean = len(values), values.mean()
    # The sum over all pairs is n (n − 1) mean / 2; the pairs of run k are (n − 1) values[k] of it.
    without = (n * mean - 2 * values) / (n - 2)
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return _student(float(mean), float(error) * n**0.5, n, level)


def _runs(values: Sequence[float] | Array, level: float, fewest: int) -> np.ndarray:
    values = as_numpy(np.asarray(values) if isinstance(values, list | tuple) else values)
    if values.ndim != 1 or len(values) < fewest:
        raise ValueError(
            f"values must have shape (n,), one number for each of at least {fewest} runs, but they have shape "
            f"{values.shape}: a single run has no spread."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"values must be finite numbers, but they are {values}.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, but it is {level!r}.")
    return values


def _student(mean: float, sd: float, n: int, level: float) -> Spread:
    from scipy import stats

    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * sd / n**0.5
    return Spread(mean, sd, mean - half, mean + half, n)


def task_check(
    decide: Callable[[Array], Any], weights: Array, answers: Any, mask: Array | None = None, seed: int = 0
) -> dict[str, float]:
    """TASK: the accuracy with the model's own weights, and with each of `baselines` in their place.

    decide: weights (B, n), one row an example → the model's answers (B,); weights (B, n); answers (B,), the right ones
    → {"own": accuracy, "uniform": …, "shuffled": …, "by position": …}

    Where "own" is no higher than "uniform", the task can be done without these weights.  Where it is higher, a model
    that was trained with uniform weights may still be as good: that is the fairer test, and takes a training.

    Raises ValueError for shapes that do not fit, and TypeError for scores in place of answers.
    """
    namespace_of(weights=weights)
    if weights.ndim != 2:
        raise ValueError(
            f"weights must have shape (B, n), one row an example, but they have shape {shape_of(weights)}."
        )
    answers = _plain(answers)
    if answers.shape != shape_of(weights)[:1] or not len(answers):
        raise ValueError(
            "answers must have shape (B,), one for each row of weights, with at least one row, "
            f"but answers has shape {answers.shape} and weights has shape {shape_of(weights)}."
        )
    rows = {"own": weights, **baselines(weights, mask, seed)}
    return {name: _accuracy(_plain(decide(given)), answers) for name, given in rows.items()}


# ------------------------------------------------------------------------------------------------------------- helpers


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


def _plain(answers: Any) -> np.ndarray:
    return np.asarray(answers.detach().cpu() if hasattr(answers, "detach") else answers)


def _accuracy(found: np.ndarray, answers: np.ndarray) -> float:
    if found.shape != answers.shape:
        raise ValueError(
            f"decide must return one answer a row, shape {answers.shape}, but it returned shape {found.shape}."
        )
    if found.dtype.kind == "f" and answers.dtype.kind != "f":
        raise TypeError(f"decide must return answers such as {answers[0]}, not scores, but it returned {found.dtype}.")
    return float((found == answers).mean())
