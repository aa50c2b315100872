"""Other weights: the exact adversary against grids, random points and all vertices; divergences against SciPy.

Why two weights are enough, in short: the divergence from fixed weights is convex, the weights whose output stays in the
band are a polytope, so that the farthest point is a vertex; and with Σ w = 1 and one side of the band tight, a vertex
has n − 2 zeros.  The tests of `adversary` believe none of it: they ask every point of a grid, random points of all
kinds, and, for `all_vertices`, every system of tight constraints.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import torch
from both_libraries import check, dtype_name
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from test_evidence_ranking import OwnLayer

from attnlab import softmax
from attnlab.evidence import adversary, entropy, jensen_shannon, null_space, permute

INF, LN2 = math.inf, math.log(2)


def example(n, seed):
    """Weights, from sharp to flat, and the output of each single key: (n,), (n,)"""
    rng = np.random.default_rng([n, seed])
    return rng.dirichlet(np.full(n, [0.3, 1, 5][seed % 3])), rng.normal(size=n) * 3 + 1


def grid(n, steps):
    """All weights (r, n) that are multiples of 1 / steps."""
    cuts = np.array(list(itertools.combinations(range(steps + n - 1), n - 1)))
    edges = np.column_stack([np.full(len(cuts), -1), cuts, np.full(len(cuts), steps + n - 1)])
    return (np.diff(edges, axis=1) - 1) / steps


def divergences(p, points):
    """The entropy of the mean, less the mean entropy: points (r, n) → (r,)"""
    return scipy_entropy((p + points) / 2, axis=1) - (scipy_entropy(p, axis=-1) + scipy_entropy(points, axis=1)) / 2


def check_feasible(found, p, s, low, high):
    """The adversary is a point of the polytope, as far as it says: what is farther would be a contradiction."""
    w = np.asarray(found.weights)
    assert w.min() >= 0 and w.sum() == pytest.approx(1, abs=1e-12)
    assert low - 1e-9 <= s @ w <= high + 1e-9
    assert found.output == pytest.approx(s @ w, abs=1e-12)
    assert found.divergence == pytest.approx(jensenshannon(p, w) ** 2, abs=1e-12)


# ---------------------------------------------------------------------------------------------- the adversary is exact


@pytest.mark.parametrize("tolerance", [0.01, 0.3, 2.0])
@pytest.mark.parametrize(("n", "steps"), [(2, 2000), (3, 200), (4, 40)])
def test_no_point_of_a_grid_is_farther(array, n, steps, tolerance):
    points = grid(n, steps)
    for seed in range(6):
        p, s = example(n, seed)
        low, high = s @ p - tolerance, s @ p + tolerance
        outputs = array(s)
        found = adversary(lambda w, outputs=outputs: w @ outputs, array(p), low, high)
        check_feasible(found, p, s, low, high)
        inside = points[(points @ s >= low) & (points @ s <= high)]
        if len(inside):
            assert divergences(p, inside).max() <= found.divergence + 1e-12


@pytest.mark.parametrize("n", [5, 6, 8])
def test_no_random_point_is_farther(n):
    """Points of all kinds that lie in the band: from flat to nearly one-hot, and mixtures of two keys."""
    rng = np.random.default_rng(n)
    points = np.concatenate([rng.dirichlet(np.full(n, a), size=20_000) for a in (0.03, 0.1, 0.3, 1.0)])
    edges = np.zeros((40_000, n))  # two keys each
    i, share = rng.permuted(np.tile(np.arange(n), (40_000, 1)), axis=1)[:, :2], rng.random(40_000)
    edges[np.arange(40_000), i[:, 0]], edges[np.arange(40_000), i[:, 1]] = share, 1 - share
    points = np.concatenate([points, edges])
    n_pairs = 0
    for seed in range(6):
        p, s = example(n, seed)
        low, high = s @ p - 0.1, s @ p + 0.1
        found = adversary(lambda w, s=s: w @ s, p, low, high)
        check_feasible(found, p, s, low, high)
        inside = points[(points @ s >= low) & (points @ s <= high)]
        assert len(inside) > 500
        best = divergences(p, inside).max()
        assert found.divergence - 0.02 < best <= found.divergence + 1e-12
        n_pairs += (found.weights > 0).sum() == 2
    assert n_pairs >= 4  # single keys alone would not do


def all_vertices(s, low, high):
    """Every point where n − 1 of the constraints w_i ≥ 0, s · w ≥ low, s · w ≤ high are tight, beside Σ w = 1."""
    n = len(s)
    rows, sides = np.vstack([np.eye(n), s, s]), np.array([0.0] * n + [low, high])
    for tight in map(list, itertools.combinations(range(n + 2), n - 1)):
        A, b = np.vstack([np.ones(n), rows[tight]]), np.array([1.0, *sides[tight]])
        if np.linalg.matrix_rank(A) == n:
            w = np.linalg.solve(A, b)
            if w.min() > -1e-12 and low - 1e-9 <= s @ w <= high + 1e-9:
                yield w


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_the_farthest_of_all_vertices(n):
    for seed, tolerance in itertools.product(range(6), (0.0, 0.05, 1.0)):
        p, s = example(n, seed)
        low, high = s @ p - tolerance, s @ p + tolerance
        vertices = np.array(list(all_vertices(s, low, high)))
        assert (vertices > 1e-9).sum(axis=1).max() <= 2
        found = adversary(lambda w, s=s: w @ s, p, low, high)
        assert found.divergence == pytest.approx(divergences(p, np.maximum(vertices, 0)).max(), abs=1e-7)


def test_by_hand(array):
    """Outputs 0, 1, 2 and the weights .5, 0, .5, output 1: key 1 alone has the same output and no weight in common."""
    found = adversary(lambda w: w @ array([0.0, 1.0, 2.0]), array([0.5, 0.0, 0.5]), 1, 1)
    check(found.weights, [0, 1, 0], atol=0)
    assert found.divergence == pytest.approx(LN2, abs=1e-15) and found.output == 1
    # Without key 1 the output fixes the weights: nothing else is left than they themselves.
    found = adversary(lambda w: w @ array([0.0, 2.0]), array([0.25, 0.75]), 1.5, 1.5)
    check(found.weights, [0.25, 0.75], atol=1e-15)
    assert found.divergence == pytest.approx(0, abs=1e-15)


# ---------------------------------------------------------------------------------------------------------- its corners


def alone(p):
    """The divergence between p and all of the weight on one key, for each key."""
    return np.array([jensenshannon(p, one) ** 2 for one in np.eye(len(p))])


def test_equal_outputs_leave_every_single_key(array):
    """The farthest is the key with the smallest weight, whatever the band, even one of width 0 with rounding in it."""
    p = np.array([0.4, 0.25, 0.05, 0.3])
    for output in (0.0, 1.0, 0.1, -1e6):
        found = adversary(lambda w, o=output: w @ array(np.full(4, o)), array(p), output, output)
        check(found.weights, [0, 0, 1, 0], atol=0)
        assert found.divergence == pytest.approx(alone(p).max(), abs=1e-12)


def test_ties_and_one_key(array):
    found = adversary(lambda w: w @ array([3.0]) - 1, array([1.0]), 2, 2)
    check(found.weights, [1], atol=0)
    assert found.divergence == 0 and found.output == 2
    # Two keys share an output, two weights are equal: all sides of the band pass through single keys.
    found = adversary(lambda w: w @ array([1.0, 1.0, 5.0, 5.0]), array([0.25, 0.25, 0.25, 0.25]), 1, 5)
    assert (np.asarray(found.weights) == 1).sum() == 1
    assert found.divergence == pytest.approx(alone(np.full(4, 0.25)).max(), abs=1e-12)


def test_without_a_band_the_least_weight_wins(array):
    p, s = example(5, 1)
    for low, high in [(-INF, INF), (s.min(), s.max())]:
        found = adversary(lambda w: w @ array(s), array(p), low, high)
        check(found.weights, np.eye(5)[p.argmin()], atol=0)
    found = adversary(lambda w: w @ array(s), array(p), s @ p, INF)  # one side only
    assert found.output >= s @ p - 1e-12


def test_a_bias_is_part_of_each_output(array):
    """Affine, not only linear: with Σ w = 1 a bias belongs to every key."""
    p, s = example(6, 2)
    low, high = s @ p - 0.1, s @ p + 0.1
    without = adversary(lambda w: w @ array(s), array(p), low, high)
    shifted = adversary(lambda w: w @ array(s) + 40, array(p), low + 40, high + 40)
    check(shifted.weights, without.weights, atol=1e-12)
    assert shifted.output == pytest.approx(without.output + 40, abs=1e-12)


def test_outputs_that_are_equal_up_to_rounding(array):
    """.1 + .2 is not .3, and yet each of these keys alone has the output of both."""
    for p, farthest in [([0.4, 0.6], [1, 0]), ([0.6, 0.4], [0, 1])]:
        s = np.array([0.1 + 0.2, 0.3])
        found = adversary(lambda w, s=s: w @ array(s), array(p), s @ p, s @ p)
        check(found.weights, farthest, atol=0)


def test_a_sum_that_is_a_little_off(array):
    """Weights that were kept in few digits are divided by their sum, and the band is that of what they gave before."""
    p, s = example(5, 1)
    exact = adversary(lambda w: w @ array(s) + 9, array(p), s @ p + 8.9, s @ p + 9.1)
    found = adversary(lambda w: w @ array(s) + 9, array(1.005 * p), s @ p + 8.9, s @ p + 9.1)
    check(found.weights, exact.weights, atol=1e-12)
    assert found.divergence == pytest.approx(exact.divergence, abs=1e-12)
    found = adversary(lambda w: w @ array([2.0, 2.0]), array([0.603, 0.402]), 2.01, 2.01)
    check(found.weights, [0, 1], atol=0)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_numbers(array, dtype):
    """The weights as they are kept: their sum is off by rounding, and the band is that of the model's own output."""
    p, s = example(20, 1)
    kept, s = array(p, dtype), array(s, "float32")
    own = float((kept[None] @ array(s, dtype))[0])
    found = adversary(lambda w: w @ array(s, dtype), kept, own, own)
    assert dtype_name(found.weights) == dtype
    exact = adversary(lambda w: w @ np.asarray(s, "float64"), p, *([float(np.asarray(s, "float64") @ p)] * 2))
    assert found.divergence == pytest.approx(exact.divergence, abs={"float32": 1e-4, "float16": 0.02}[dtype])
    assert found.output == pytest.approx(own, abs={"float32": 1e-4, "float16": 0.02}[dtype])


def test_the_model_of_a_reader():
    """Torch's own layer, one of its two heads: the output stays, and the weights are nearly as far as can be."""
    own = OwnLayer(n_heads=2)
    weights = own.weights()[0].requires_grad_()
    logit = own.output()
    assert float(own.predict(own.weights()[:1])[0]) == pytest.approx(logit, abs=1e-12)
    found = adversary(own.predict, weights, logit - 0.01, logit + 0.01)
    assert isinstance(found.weights, torch.Tensor) and not found.weights.requires_grad
    assert abs(float(own.predict(found.weights[None])[0]) - logit) <= 0.01 + 1e-12
    assert found.divergence == pytest.approx(jensenshannon(weights.detach(), found.weights) ** 2, abs=1e-12)
    assert found.divergence > 0.3

    points = torch.as_tensor(np.random.default_rng(0).dirichlet(np.full(6, 0.15), size=50_000))
    inside = points[(own.predict(points) - logit).abs() <= 0.01].numpy()
    assert len(inside) > 100 and divergences(weights.detach().numpy(), inside).max() <= found.divergence


def test_only_what_is_affine(array):
    """A probability, a product, a layer after the mixture: none is; the message says what to pass."""
    p, s = example(5, 1)
    mixed = lambda w: w @ array(s)  # noqa: E731
    for predict in (
        lambda w: 1 / (1 + 2.7182818 ** -mixed(w)),
        lambda w: w[:, 0] * w[:, 1],
        lambda w: mixed(w).clip(float(s @ p)),
        lambda w: mixed(w) + (w[:, 2] == 1) * 0.1,
        lambda w: mixed(w) + ((w > 0).sum(axis=-1) == 2) * 0.1,  # seen at the answer itself only
    ):
        own = float(np.asarray(predict(array(p)[None]))[0])
        with pytest.raises(ValueError, match="Pass the logit, not the probability") as error:
            adversary(predict, array(p), own - 0.1, own + 0.1)
        assert "logit(p − ε) … logit(p + ε)" in str(error.value)


def test_the_advice_about_probabilities_is_right():
    """Within logit(p ± ε), probabilities differ by at most ε; and the sides of the band are reached."""
    sigmoid, logit = scipy.special.expit, scipy.special.logit
    eps = 0.05
    for seed in range(6):
        p, s = example(6, seed)
        own = sigmoid(s @ p)
        if not eps < own < 1 - eps:
            continue
        found = adversary(lambda w, s=s: w @ s, p, logit(own - eps), logit(own + eps))
        assert abs(sigmoid(found.output) - own) <= eps + 1e-12


def test_adversary_refuses(array):
    p, predict = array([0.5, 0.5]), lambda w: w @ array([0.0, 2.0])
    with pytest.raises(ValueError, match=r"own output must be in the band, but it is 1 and the band is 1.1 … 3"):
        adversary(predict, p, 1.1, 3)
    with pytest.raises(ValueError, match="own output must be in the band"):
        adversary(predict, p, -1, 0.999)
    with pytest.raises(ValueError, match=r"low must not be greater than high, but they are 2\.0 and 1\.0"):
        adversary(predict, p, 2, 1)
    with pytest.raises(ValueError, match="low must not be greater"):
        adversary(predict, p, math.nan, 1)
    for wrong in ([0.5, 0.6], [0.0, 0.0], [1.5, -0.5], [math.nan, 0.5]):
        with pytest.raises(ValueError, match="weights must be non-negative and sum to 1 along the last axis, but"):
            adversary(predict, array(wrong), 0, 2)
    with pytest.raises(ValueError, match=r"the row of one query, but they have shape \(1, 2\)"):
        adversary(predict, p[None], 0, 2)
    with pytest.raises(ValueError, match=r"but it returned shape \(11, 1\)"):
        adversary(lambda w: predict(w)[:, None], p, 0, 2)
    with pytest.raises(ValueError, match="must be linear, but for a constant, in the weights"):
        adversary(lambda w: predict(w) * math.nan, p, 0, 2)


def test_libraries_are_not_mixed():
    with pytest.raises(TypeError, match="weights from torch"):
        adversary(lambda w: w.numpy() @ np.ones(2), torch.tensor([0.5, 0.5]), 0, 2)
    with pytest.raises(TypeError, match="p from numpy, q from torch"):
        jensen_shannon(np.array([0.5, 0.5]), torch.tensor([0.5, 0.5]))


# ------------------------------------------------------------------------------------------------------------- shuffled


def test_permute_shuffles_each_row_anew(array):
    p, asked = np.array([0.4, 0.3, 0.2, 0.1]), []

    def predict(rows):
        asked.append(np.asarray(rows))
        return rows @ array([1.0, 10.0, 100.0, 1000.0])  # shows which weight is where

    change = permute(predict, array(p), n_draws=200, seed=3)
    ((given, *others),) = asked
    np.testing.assert_array_equal(given, p)
    np.testing.assert_array_equal(np.sort(others, axis=1), np.tile(np.sort(p), (200, 1)))
    check(change, np.array(others) @ [1, 10, 100, 1000] - p @ [1, 10, 100, 1000], atol=1e-9)
    # 24 orders, each as likely: among 200 draws all occur, and each weight is at each place 50 times or so.
    assert len({tuple(other) for other in others}) == 24
    counts = (np.array(others)[:, :, None] == p).sum(axis=0)
    assert counts.min() > 25 and counts.max() < 75


def test_permute_and_its_seed(array):
    p, s = array(example(7, 0)[0]), array(example(7, 0)[1])
    first, again, other = (np.asarray(permute(lambda w: w @ s, p, 10, seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert np.asarray(permute(lambda w: w @ s, p)).shape == (100,)
    check(permute(lambda w: w @ s + 3, array(np.full(7, 1 / 7)), 5), np.zeros(5), atol=1e-12)
    check(permute(lambda w: w @ array([2.0]), array([1.0]), 3), np.zeros(3), atol=0)


def test_permute_refuses(array):
    p = array([0.5, 0.5])
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"n_draws must be a whole number of at least 1, but it is {wrong}"):
            permute(lambda w: w[:, 0], p, wrong)
    with pytest.raises(ValueError, match=r"shape \(3,\) for weights of shape \(3, 2\), but it returned shape \(2,\)"):
        permute(lambda w: w[1:, 0], p, 2)


# --------------------------------------------------------------------------------------------- divergence and entropy


def test_jensen_shannon_is_scipys(array):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(5, 0.5), size=(3, 4)), rng.dirichlet(np.ones(5), size=(4,))
    q[0, 2:], q[1] = 0, [0, 0, 1, 0, 0]
    q /= q.sum(axis=-1, keepdims=True)
    expected = jensenshannon(p, np.broadcast_to(q, p.shape), axis=-1) ** 2
    check(jensen_shannon(array(p), array(q)), expected, atol=1e-14)
    check(jensen_shannon(array(q), array(p)), expected, atol=1e-14)


def test_jensen_shannon_at_its_ends(array):
    check(jensen_shannon(array([0.5, 0.5, 0, 0]), array([0, 0, 0.1, 0.9])), LN2, atol=1e-15)
    for seed in range(20):
        p = example(6, seed)[0]
        near = p[[1, 0, 2, 3, 4, 5]] * 1e-9 + p * (1 - 1e-9)
        assert float(jensen_shannon(array(p), array(p))) == 0
        assert 0 <= float(jensen_shannon(array(p), array(near))) < 1e-15
    check(jensen_shannon(array([0, 0]), array([0, 0])), 0, atol=0)
    tiny = jensen_shannon(array([1.0, 5e-324]), array([1.0, 0.0]))
    check(tiny, 0, atol=1e-300)


def test_entropy_is_scipys(array):
    p = np.random.default_rng(0).dirichlet(np.full(5, 0.5), size=(3, 4))
    p[0, 0] = [0, 1, 0, 0, 0]
    check(entropy(array(p)), scipy_entropy(p, axis=-1), atol=1e-14)
    check(entropy(array(np.full(8, 0.125))), math.log(8), atol=1e-15)
    for row in ([0, 1, 0], [0, 0, 0], [1]):
        assert math.copysign(1, float(entropy(array(row)))) == 1 and float(entropy(array(row))) == 0  # not -0


@pytest.mark.parametrize(
    "function", [lambda p: jensen_shannon(p, torch.tensor([0.5, 0.2, 0.3, 0.0]).double()), entropy]
)
def test_gradients(function):
    """Through a softmax, where a key is forbidden: finite, and that of finite differences elsewhere."""
    scores = torch.tensor([0.3, -1.0, 0.5, -INF], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(softmax(scores)), [scores])
    assert gradient[3] == 0
    for i in range(3):
        step = 1e-6 * torch.eye(4, dtype=torch.float64)[i]
        change = function(softmax(scores.detach() + step)) - function(softmax(scores.detach() - step))
        assert float(gradient[i]) == pytest.approx(float(change) / 2e-6, abs=1e-8)
    p = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    function(p).backward()
    assert torch.isfinite(p.grad).all()


def test_narrow_divergences_keep_their_dtype(array):
    p, q = np.array([[0.7, 0.2, 0.1]]), np.array([[0.1, 0.3, 0.6]])
    for dtype, atol in (("float16", 1e-3), ("float32", 1e-6)):
        for result, expected in [
            (jensen_shannon(array(p, dtype), array(q, dtype)), divergences(p, q)),
            (entropy(array(p, dtype)), scipy_entropy(p, axis=-1)),
        ]:
            assert dtype_name(result) == dtype
            check(result, expected, atol=atol)


def test_divergences_refuse(array):
    p = array([0.5, 0.5])
    for other in (array([1.0]), array(1.0), array([0.2, 0.3, 0.5])):
        with pytest.raises(ValueError, match=r"p has shape \(2,\) and q has shape"):
            jensen_shannon(p, other)
    with pytest.raises(ValueError, match=r"p has shape \(3, 2\) and q has shape \(2, 2\)"):
        jensen_shannon(array(np.full((3, 2), 0.5)), array(np.full((2, 2), 0.5)))
    with pytest.raises(ValueError, match=r"q must be non-negative and sum to 1 .*sums lie between 3 and 3"):
        jensen_shannon(p, array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"or be all 0, but the smallest of shape \(2,\) is -0.5"):
        entropy(array([1.5, -0.5]))
    with pytest.raises(ValueError, match="no axis"):
        entropy(array(1.0))


# ------------------------------------------------------------------------------------------------------ the null space


def projector(basis):
    basis = np.asarray(basis, "float64")
    return basis.T @ basis


@pytest.mark.parametrize(
    ("n", "d", "rank"),
    [(5, 2, 2), (6, 3, 1), (4, 7, 3), (4, 7, 2), (3, 2, 2), (1, 3, 0), (5, 0, 0), (4, 2, 0)],
    ids=str,
)
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-12, 0), (1e12, 0), (1, 1e6)])
def test_null_space_is_scipys(array, n, d, rank, scale, shift):
    """The space of SciPy, for which the ones and the values are one matrix; scale and shift change nothing."""
    rng = np.random.default_rng(n + d)
    values = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + rng.normal(size=d)  # one shift: rank counts
    constraints = np.vstack([np.ones(n), (values - values.mean(axis=0)).T])
    expected = scipy.linalg.null_space(constraints, rcond=1e-9).T
    basis = null_space(array(values * scale + shift))
    assert np.asarray(basis).shape == expected.shape == (max(n - 1 - rank, 0), n)
    check(projector(basis), projector(expected), atol=1e-6 if shift else 1e-10)
    check(np.asarray(basis) @ np.asarray(basis).T, np.eye(len(expected)), atol=1e-12)


def test_weights_move_without_effect(array):
    """From the inside of the simplex in each direction until a weight is 0: weights far apart, the same output."""
    rng = np.random.default_rng(2)
    p, values = rng.dirichlet(np.full(5, 5.0)), rng.normal(size=(5, 2))
    basis = np.asarray(null_space(array(values)))
    assert basis.shape == (2, 5)
    for z in (*basis, *-basis):
        furthest = min(w / -step for w, step in zip(p, z, strict=True) if step < 0)
        moved = p + furthest * z
        assert moved.min() == pytest.approx(0, abs=1e-15) and moved.sum() == pytest.approx(1, abs=1e-15)
        check(moved @ values, p @ values, atol=1e-15)
        assert jensenshannon(p, np.maximum(moved, 0)) ** 2 > 0.01


def test_null_space_of_float32(array):
    basis = null_space(array(np.random.default_rng(0).normal(size=(6, 2)), "float32"))
    assert dtype_name(basis) == "float32" and np.asarray(basis).shape == (3, 6)
    # Equal values, up to the last digit: the rank of rounding is none.
    values = 0.1 * (1 + 1e-7 * np.random.default_rng(0).integers(2, size=(6, 50)))
    basis = np.asarray(null_space(array(values, "float32")))
    assert basis.shape == (5, 6)
    check(basis.sum(axis=-1), np.zeros(5), atol=1e-6)


def test_null_space_refuses(array):
    for wrong in (np.ones(3), np.ones((2, 3, 4)), np.ones((0, 3))):
        with pytest.raises(ValueError, match=r"values must have shape \(n, d\) with n at least 1") as error:
            null_space(array(wrong))
        assert str(wrong.shape) in str(error.value)
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"values must be finite numbers, but those of key 2 are \["):
            null_space(array([[1, 2], [3, 4], [5, wrong], [wrong, 6]]))
