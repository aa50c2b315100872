"""Intervals over seeds: against SciPy's t-test, by leaving out runs one by one, and by counting how often they hold."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from attnlab.evidence import spread, spread_of_difference, spread_of_pairs


def of_each_run(table):
    """What a pair (i, j) has, in a table (..., n, n): for each run i the mean over the others, (..., n)"""
    n = table.shape[-1]
    return np.where(np.eye(n, dtype=bool), 0, table).sum(axis=-1) / (n - 1)


def test_spread_by_hand():
    """t with two degrees of freedom is 4.303 at 95 %, in every table."""
    found = spread([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.n) == (2, 1, 3)
    assert found.high - 2 == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    assert 2 - found.low == pytest.approx(found.high - 2)


def test_spread_is_scipys(array):
    for n, level in [(2, 0.95), (5, 0.95), (5, 0.8), (30, 0.99)]:
        values = np.random.default_rng(n).normal(3, 2, size=n)
        found = spread(array(values), level)
        expected = stats.ttest_1samp(values, 0).confidence_interval(level)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert (found.mean, found.sd) == pytest.approx(
            (values.mean(), np.sqrt(np.var(values) * n / (n - 1))), abs=1e-12
        )


def test_spread_covers_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(7, 3, size=(600, 4))
    found = [spread(values, 0.8) for values in draws]
    assert 0.76 < np.mean([of.low <= 7 <= of.high for of in found]) < 0.84


def test_spread_of_pairs_by_leaving_out_each_run():
    table = np.random.default_rng(4).normal(size=(6, 6))
    table = table + table.T
    pairs = [(i, j) for i in range(6) for j in range(i)]
    found = spread_of_pairs([np.mean([table[i, j] for j in range(6) if j != i]) for i in range(6)])
    without = [np.mean([table[i, j] for i, j in pairs if k not in (i, j)]) for k in range(6)]
    error = np.sqrt(5 / 6 * np.sum((without - np.mean(without)) ** 2))
    assert found.mean == pytest.approx(np.mean([table[i, j] for i, j in pairs]), abs=1e-12)
    assert found.sd == pytest.approx(error * np.sqrt(6), abs=1e-12)
    assert found.high - found.mean == pytest.approx(error * stats.t.ppf(0.975, 5), abs=1e-12)


def test_spread_of_pairs_covers_where_spread_is_too_narrow():
    """Each run has an effect of its own on all its pairs."""
    random, covered = np.random.default_rng(0), {spread: [], spread_of_pairs: []}
    for _ in range(600):
        effects, noise = random.normal(size=5), random.normal(size=(5, 5))
        table = effects[:, None] + effects + 0.2 * (noise + noise.T)
        np.fill_diagonal(table, 0)
        for function, rows in covered.items():
            of = function(table.sum(axis=1) / 4)
            rows.append(of.low <= 0 <= of.high)
    assert np.mean(covered[spread_of_pairs]) > 0.92 and np.mean(covered[spread]) < 0.75


def test_spread_of_pairs_is_wide_where_pairs_are_independent():
    """Never too narrow: with nothing of the runs in the pairs it covers more often than it says."""
    random, covered = np.random.default_rng(1), []
    for _ in range(400):
        noise = random.normal(size=(5, 5))
        table = noise + noise.T
        np.fill_diagonal(table, 0)
        of = spread_of_pairs(table.sum(axis=1) / 4)
        covered.append(of.low <= 0 <= of.high)
    assert np.mean(covered) > 0.96


def test_spread_of_pairs_refuses():
    for wrong in ([1.0, 2.0], [[1.0, 2.0, 3.0]]):
        with pytest.raises(ValueError, match="at least 3 runs"):
            spread_of_pairs(wrong)


def test_equal_runs_have_no_width():
    assert spread([0.5, 0.5, 0.5]) == (0.5, 0, 0.5, 0.5, 3)
    assert spread((1, 2)).mean == 1.5


def test_spread_refuses(array):
    for wrong in ([1.0], [], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="a single run has no spread"):
            spread(array(wrong))
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            spread([1.0, wrong])
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match=f"level must be between 0 and 1, but it is {level}"):
            spread([1.0, 2.0], level)


# -------------------------------------------------------------------------------------------------- runs against pairs


def test_difference_by_leaving_out_each_run(array):
    """Six runs, fifteen pairs: both means taken again without each run."""
    rng = np.random.default_rng(4)
    values, table = rng.normal(size=6), rng.normal(size=(6, 6))
    table = table + table.T
    found = spread_of_difference(array(values), array(of_each_run(table)), 0.9)
    pairs = [(i, j) for i in range(6) for j in range(i)]

    def difference(runs):
        kept = [table[i, j] for i, j in pairs if i in runs and j in runs]
        return np.mean([values[i] for i in runs]) - np.mean(kept)

    without = [difference(set(range(6)) - {k}) for k in range(6)]
    error = np.sqrt(5 / 6 * np.sum((without - np.mean(without)) ** 2))
    assert found.mean == pytest.approx(difference(set(range(6))), abs=1e-12)
    assert (found.sd, found.n) == (pytest.approx(error * np.sqrt(6), abs=1e-12), 6)
    assert found.high - found.mean == pytest.approx(error * stats.t.ppf(0.95, 5), abs=1e-12)
    assert found.mean - found.low == pytest.approx(found.high - found.mean, abs=1e-12)


def test_where_a_pair_is_the_mean_of_its_runs_it_is_the_spread_of_differences():
    for n in (3, 5, 12):
        a, b = np.random.default_rng(n).normal(size=(2, n))
        pairs = of_each_run((b[:, None] + b) / 2)
        assert spread_of_difference(a, pairs) == pytest.approx(spread(a - b), abs=1e-12)
        assert spread_of_difference(b, pairs) == pytest.approx((0, 0, 0, 0, n), abs=1e-12)


def test_with_one_side_constant_it_is_the_spread_of_the_other():
    values = np.random.default_rng(2).normal(size=5)
    of_runs, of_pairs = spread(values), spread_of_pairs(values)
    assert spread_of_difference(values, [0.25] * 5) == pytest.approx(
        (of_runs.mean - 0.25, of_runs.sd, of_runs.low - 0.25, of_runs.high - 0.25, 5), abs=1e-12
    )
    assert spread_of_difference([0.25] * 5, values) == pytest.approx(
        (0.25 - of_pairs.mean, of_pairs.sd, 0.25 - of_pairs.high, 0.25 - of_pairs.low, 5), abs=1e-12
    )


def coverage(interval, of_values, of_pairs, kernel, noise, truth=0.0, seed=0):
    """How often the interval holds the truth, of 2000 times five runs: each has a value of its own, as have its pairs.

    of_values, of_pairs   how much of what a run has is seen in its value, and in its pairs
    kernel                how much of a pair is of both its runs together: the product of what they have
    noise                 of what a pair has is its own
    """
    rng, covered = np.random.default_rng(seed), []
    for _ in range(2000):
        runs, own, pair = rng.normal(size=5), rng.normal(size=5), rng.normal(size=(5, 5))
        values = of_values * runs + 0.3 * own
        table = of_pairs * (runs[:, None] + runs) / 2 + kernel * runs[:, None] * runs + noise * (pair + pair.T)
        found = interval(values, of_each_run(table))
        covered.append(found.low <= truth <= found.high)
    return np.mean(covered)


@pytest.mark.parametrize(
    ("of_values", "of_pairs", "kernel", "noise"),
    [(1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0), (1, -1, 0, 0), (1, 0.5, 0, 0.05), (0.5, 1, 0.1, 0.05)],
)
def test_difference_covers_as_often_as_it_says(of_values, of_pairs, kernel, noise):
    """95 % of 2000 draws, up to two percentage points: four standard errors of the count."""
    assert coverage(spread_of_difference, of_values, of_pairs, kernel, noise) == pytest.approx(0.95, abs=0.02)


def test_what_else_one_might_do_is_wrong():
    """The differences run by run are too narrow; two intervals side by side are too wide where runs are odd twice."""

    def run_by_run(values, pairs):
        return spread(values - pairs)

    assert coverage(run_by_run, 0, 1, 0, 0) < 0.85
    values, table = np.random.default_rng(0).normal(size=5), np.random.default_rng(1).normal(size=(5, 5))
    pairs = of_each_run((values[:, None] + values) / 2 + 0.05 * (table + table.T))
    found, one, other = spread_of_difference(values, pairs), spread(values), spread_of_pairs(pairs)
    assert found.high - found.low < 0.3 * ((one.high - one.low) + (other.high - other.low)) / 2


def test_difference_is_wide_where_pairs_are_independent():
    """With nothing of the runs in the pairs it covers more often than it says."""
    assert coverage(spread_of_difference, 0, 0, 0, 1) > 0.96


def test_difference_refuses(array):
    with pytest.raises(ValueError, match=r"values has shape \(4,\) and pairs has shape \(3,\)"):
        spread_of_difference(array(np.ones(4)), array(np.ones(3)))
    for name, given in (("values", ([1.0, 2.0], [1.0] * 3)), ("pairs", ([1.0] * 3, [[1.0] * 3] * 3))):
        with pytest.raises(ValueError, match=f"{name} must have shape .* at least 3 runs"):
            spread_of_difference(*given)
    with pytest.raises(ValueError, match="pairs must be finite numbers"):
        spread_of_difference([1, 2, 3], [1, 2, math.nan])
    with pytest.raises(ValueError, match="level must be between 0 and 1, but it is 95"):
        spread_of_difference([1, 2, 3], [1, 2, 3], 95)


def test_lists_of_what_training_returns():
    """Losses that carry a gradient; what is no list of numbers is named."""
    losses = list(torch.tensor([1.0, 2.0, 3.0], requires_grad=True))
    assert spread(losses) == spread([1, 2, 3])
    assert spread_of_difference(losses, [loss.bfloat16() for loss in losses]).mean == 0
    for wrong in (["a", "b"], iter([1.0, 2.0]), None):
        with pytest.raises(TypeError, match=r"^values "):
            spread(wrong)
