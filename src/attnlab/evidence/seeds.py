"""SEEDS, a line of the checklist: the mean of a number over runs, and the interval that says how well it is known.

Pairs of runs by the jackknife, leaving out one run at a time: Quenouille 1956, "Notes on Bias in Estimation",
Biometrika 43; Tukey 1958, "Bias and Confidence in Not-quite Large Samples", The Annals of Mathematical Statistics 29.
Its variance is on average not too small: Efron, Stein 1981, "The Jackknife Estimate of Variance", The Annals of
Statistics 9(3).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attnlab._inputs import Array
from attnlab.evidence._protocol import as_numpy, plain

__all__ = ["Spread", "spread", "spread_of_difference", "spread_of_pairs"]


class Spread(NamedTuple):
    """`mean` and standard deviation `sd` of `n` runs; `low` … `high`, the interval of the mean."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


def spread(values: Sequence[float] | Array, level: float = 0.95) -> Spread:
    """SEEDS: the mean of a number over n runs, and the interval that holds the mean of all runs with this confidence.

    values (n,) or a list, n ≥ 2 → Spread(mean, sd, low, high, n): mean ± t · sd / √n, with t from Student's
    distribution with n − 1 degrees of freedom and sd with n − 1 in its denominator.

    Right where runs are independent and their numbers roughly normal.  To compare two models that were run with the
    same seeds, pass the differences.

    Raises ValueError for fewer than two runs, for values that are not finite, and for a level outside of 0 … 1.

    Student 1908, "The Probable Error of a Mean", Biometrika 6(1).
    """
    values = _runs("values", values, 2)
    return _student(float(values.mean()), float(values.std(ddof=1)), len(values), level)


def spread_of_pairs(values: Sequence[float] | Array, level: float = 0.95) -> Spread:
    """SEEDS: the same for a number that belongs to two runs, as how alike they are.

    values (n,) or a list, n ≥ 3: for each run, the mean over its pairs with the n − 1 others, of a number that is the
    same for (i, j) and (j, i).  Each pair is in two of the values, so that they are not independent, and `spread` of
    them is too narrow.  Here the interval is that of the jackknife: the mean is taken again without each run in turn.
    `sd` is √n times its standard error.  Where the pairs are nearly independent of their runs, it is too wide: that it
    contains 0 then says little.

    Raises ValueError for fewer than three runs, for values that are not finite, and for a level outside of 0 … 1.
    """
    values = _runs("values", values, 3)
    return _jackknife(float(values.mean()), _without_each_of_pairs(values), level)


def spread_of_difference(
    values: Sequence[float] | Array, pairs: Sequence[float] | Array, level: float = 0.95
) -> Spread:
    """SEEDS: the mean of a number of each run, minus the mean of a number that belongs to two runs.

    values (n,) or a list, n ≥ 3: one number for each run
    pairs (n,) or a list: for the same runs in the same order, what `spread_of_pairs` takes: for each run, the mean over
    its pairs with the n − 1 others, of a number that is the same for (i, j) and (j, i)
    → Spread of mean(values) − mean(pairs)

    As in: how often attention and deletion have the same top word, minus how often the deletions of two seeds have.  A
    run that is odd is odd on both sides, which two intervals side by side do not know; and `spread` of values − pairs,
    run by run, counts less than half of what the pairs vary.  Here each run in turn is left out of both sides, and the
    interval is that of the jackknife.  `sd` is √n times its standard error.

    Where the number of a pair is the mean of two numbers that its runs have, this is `spread` of values minus these,
    exactly.  Where the pairs are nearly independent of their runs, it is too wide, as that of `spread_of_pairs`.

    Raises ValueError for fewer than three runs, for two lengths, for numbers that are not finite, and for a level
    outside of 0 … 1.
    """
    values, pairs = _runs("values", values, 3), _runs("pairs", pairs, 3)
    if values.shape != pairs.shape:
        raise ValueError(
            "values and pairs must have one number for each of the same runs, "
            f"but values has shape {values.shape} and pairs has shape {pairs.shape}."
        )
    n, total = len(values), values.sum()
    without = (total - values) / (n - 1) - _without_each_of_pairs(pairs)
    return _jackknife(float(values.mean() - pairs.mean()), without, level)


def _without_each_of_pairs(values: np.ndarray) -> np.ndarray:
    """The mean over all pairs without those of each run in turn, from the mean of each run's pairs: (n,) → (n,)"""
    n = len(values)
    # The sum over all pairs is n (n − 1) mean / 2; the pairs of run k are (n − 1) values[k] of it.
    return (n * values.mean() - 2 * values) / (n - 2)


def _jackknife(mean: float, without: np.ndarray, level: float) -> Spread:
    """The spread of `mean`, from what it is without each of n runs: (n,)"""
    n = len(without)
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return _student(mean, float(error) * n**0.5, n, level)


def _student(mean: float, sd: float, n: int, level: float) -> Spread:
    from scipy import stats

    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, but it is {level!r}.")
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * sd / n**0.5
    return Spread(mean, sd, mean - half, mean + half, n)


def _runs(name: str, values: Sequence[float] | Array, fewest: int) -> np.ndarray:
    values = as_numpy(plain(values) if isinstance(values, list | tuple) else values, name)
    if values.ndim != 1 or len(values) < fewest:
        raise ValueError(
            f"{name} must have shape (n,), one number for each of at least {fewest} runs, but they have shape "
            f"{values.shape}: a single run has no spread."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite numbers, but they are {values}.")
    return values
