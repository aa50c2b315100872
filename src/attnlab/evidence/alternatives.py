"""Other weights for the same example: shuffled ones, the farthest ones with the same output, and their directions.

Shuffled and adversarial weights: Jain, Wallace 2019, "Attention is not Explanation", arXiv 1902.10186.  There the
adversary is searched for by gradient; here, for an output that is affine in the weights, it is exact.
"""

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from attnlab._inputs import Array, prepare, shape_of
from attnlab.evidence._protocol import Predict, as_numpy, check_weights, one_row, outputs_of

__all__ = ["Adversary", "adversary", "entropy", "jensen_shannon", "null_space", "permute"]

N_MIXTURES = 8  # on which `adversary` checks that predict is affine


class Adversary(NamedTuple):
    """`weights` (n,); their `divergence` from the given ones, in nats; and the `output` that predict has for them."""

    weights: Array
    divergence: float
    output: float


def permute(predict: Predict, weights: Array, n_draws: int = 100, seed: int = 0) -> Array:
    """How far the output moves when the weights are shuffled: predict(shuffled) − predict(weights), for each draw.

    predict: (r, n) → (r,); weights (n,) → (n_draws,), signed.  All rows go to predict in one call.

    Pass the weights of allowed keys only: shuffled over padding, a weight lands where the model cannot look.
    """
    xp, dtype, row = one_row(weights)
    if not isinstance(n_draws, Integral) or isinstance(n_draws, bool) or n_draws < 1:
        raise ValueError(f"n_draws must be a whole number of at least 1, but it is {n_draws!r}.")
    order = np.tile(np.arange(row.shape[0]), (int(n_draws) + 1, 1))  # (1 + n_draws, n): the row itself comes first
    np.random.default_rng(seed).permuted(order[1:], axis=1, out=order[1:])
    rows = row[xp.asarray(order, device=device(row))]  # (1 + n_draws, n)
    of_output, outputs = outputs_of(predict, xp.astype(rows, dtype, copy=False))
    return xp.astype(outputs[1:] - outputs[0], of_output, copy=False)


def adversary(predict: Predict, weights: Array, low: float, high: float) -> Adversary:
    """The weights farthest from `weights` by Jensen–Shannon divergence whose output stays in low … high.  Exact.

    predict: (r, n) → (r,), affine in the weights; weights (n,); low ≤ predict(weights) ≤ high
    → Adversary(weights (n,), divergence, output), the divergence in nats, at most ln 2 = .693

    **Why two weights are enough.**  Let s_i be the output where key i has all of the weight.  predict is affine, so the
    output of any weights w is Σ s_i w_i, and the allowed ones are the polytope {w ≥ 0, Σ w = 1, low ≤ s · w ≤ high}.
    The divergence from fixed weights is convex in w, and every point of a polytope is a mixture of its vertices: no
    point is farther than the farthest vertex.  At a vertex n independent constraints are tight: Σ w = 1, at most one
    side of the band (or both, where they are one), and for the rest some w_i = 0.  That leaves at most two non-zero
    weights: either all of the weight is on one key with s_i in the band, or two keys, one below a side of the band and
    one above it, are mixed so that the output lies on this side.  These are at most n + n²/2 candidates, and all of
    them are tried.

    Up to rounding: the output may miss the band by what predict itself rounds.  Gradients end here.

    Raises ValueError where the weights do not sum to one, where their own output is outside of the band, and where
    predict is not affine.  A probability is not: pass the logit.  For a probability p and a tolerance ε the band is
    logit(p − ε) … logit(p + ε).
    """
    xp, dtype, row = one_row(weights)
    check_weights(xp, "weights", row, may_be_empty=False)
    low, high = (float(side.detach() if hasattr(side, "detach") else side) for side in (low, high))
    if not low <= high:
        raise ValueError(f"low must not be greater than high, but they are {low} and {high}.")
    total = float(as_numpy(row).sum())
    p = as_numpy(row) / total  # (n,)
    n = len(p)

    one_hots = np.eye(n)
    mixtures = np.random.default_rng(0).dirichlet(np.ones(n), size=N_MIXTURES)
    rows = _like(row, np.concatenate([p[None], one_hots, mixtures]), dtype)  # (1 + n + N_MIXTURES, n)
    of_output, outputs = outputs_of(predict, rows)
    outputs, rows = as_numpy(outputs), as_numpy(rows)
    s = outputs[1 : n + 1]  # (n,)
    eps = max(float(xp.finfo(dtype).eps), float(xp.finfo(of_output).eps))
    rounding = eps * float(abs(s).max())
    tolerance = 1e-5 * float(np.ptp(s)) + 100 * rounding + eps
    _check_affine(outputs, rows @ s, tolerance)
    largest_error = 100 * rounding + abs(total - 1) * float(abs(s).max())
    if not low - largest_error <= outputs[0] <= high + largest_error:
        raise ValueError(
            f"The weights' own output must be in the band, but it is {outputs[0]:.6g} and the band is {low} … {high}."
        )

    own = float(s @ p)  # between the smallest and the largest s: some vertex reaches it
    low, high = min(low, own), max(high, own)
    found, divergence = _farthest_vertex(p, s, low, high, 10 * rounding)
    adversarial = _like(row, found, dtype)
    output = float(as_numpy(outputs_of(predict, adversarial[None, :])[1])[0])
    _check_affine(np.array([output]), np.array([found @ s]), tolerance)
    return Adversary(adversarial, divergence, output)


def jensen_shannon(p: Array, q: Array) -> Array:
    """Jensen–Shannon divergence between weights p (..., n) and q (..., n), in nats → (...,)

    ½ Σ p ln(p / m) + ½ Σ q ln(q / m) with m = (p + q) / 2: 0 where they are equal, ln 2 where no key has weight in
    both.  Leading axes broadcast.  Gradients flow; a key of weight 0 has gradient 0.

    Raises ValueError where n differs and where weights are negative or do not sum to one.  Two rows that are all zero,
    without an allowed key, have divergence 0.

    Lin 1991, "Divergence Measures Based on the Shannon Entropy", IEEE Transactions on Information Theory 37(1).
    """
    xp, dtype, (p, q) = prepare(p=p, q=q)
    if p.ndim < 1 or q.ndim < 1 or p.shape[-1] != q.shape[-1]:
        raise _different(p, q)
    try:
        np.broadcast_shapes(shape_of(p), shape_of(q))
    except ValueError:
        raise _different(p, q) from None
    check_weights(xp, "p", p)
    check_weights(xp, "q", q)
    total = xp.sum(_terms(xp, p, q), axis=-1)
    return xp.astype(xp.where(total < 0, xp.zeros_like(total), total), dtype, copy=False)  # -1e-17 is rounding


def entropy(weights: Array) -> Array:
    """−Σ w ln w in nats, weights (..., n) → (...,): 0 for one key, ln n for equal weights; 0 for a row of zeros.

    Gradients flow; a key of weight 0 has gradient 0.  Raises ValueError for what are no weights.
    """
    xp, dtype, (weights,) = prepare(weights=weights)
    if weights.ndim < 1:
        raise ValueError("weights must have shape (..., n), but they have no axis: ().")
    check_weights(xp, "weights", weights)
    some = xp.where(weights > 0, weights, xp.ones_like(weights))
    terms = -weights * xp.log(some)
    return xp.astype(xp.sum(terms, axis=-1), dtype, copy=False)


def null_space(values: Array) -> Array:
    """An orthonormal basis of the directions in which weights move without effect: values (n, d) → (k, n).

    Each row z sums to 0 and has z @ values = 0, so that weights + t z give the same output for every t; they are
    weights as long as none is negative.  k = n − 1 − the rank of the values less their mean: at least n − 1 − d.

    Rank is judged up to rounding, and any rotation of the basis is one, too.

    Raises ValueError for another shape, and for values that are not finite.
    """
    xp, dtype, _ = prepare(values=values)
    if values.ndim != 2 or values.shape[0] == 0:
        raise ValueError(f"values must have shape (n, d) with n at least 1, but they have shape {shape_of(values)}.")
    n, d = shape_of(values)
    rows = as_numpy(values)
    if not np.isfinite(rows).all():
        key = int(np.argwhere(~np.isfinite(rows))[0, 0])
        raise ValueError(f"values must be finite numbers, but those of key {key} are {rows[key]}.")
    size = np.abs(rows).max(initial=0.0) or 1.0
    constraints = np.concatenate([np.ones((1, n)), rows.T / size])  # (1 + d, n): the sum, and each feature
    _, sizes, directions = np.linalg.svd(constraints)  # (min(1 + d, n),), (n, n)
    rounding = max(n, 1 + d) * (np.finfo(float).eps * sizes[0] + float(xp.finfo(dtype).eps))  # here, and in the values
    rank = int((sizes > rounding).sum())
    return _like(values, directions[rank:], dtype)


def _farthest_vertex(p: np.ndarray, s: np.ndarray, low: float, high: float, slack: float) -> tuple[np.ndarray, float]:
    """All vertices of {w ≥ 0, Σ w = 1, low ≤ s · w ≤ high} are compared: p, s (n,) → the farthest (n,), divergence."""
    n = len(p)
    # Two keys i, j that are mixed so that the output is a side of the band; [side, i, j] with s_i below it, s_j above.
    sides = np.array([low, high])[:, None, None]
    apart = s[None, None, :] - s[None, :, None]  # (1, n, n)
    crosses = (s[None, :, None] < sides) & (sides < s[None, None, :])  # (2, n, n)
    share = np.divide(sides - s[None, :, None], apart, out=np.zeros((2, n, n)), where=crosses)  # of j
    untouched = (1 - p[:, None] - p[None, :]) * math.log(2) / 2  # (n, n): each p_k without a w_k adds ½ p_k ln 2
    pairs = untouched + _terms(np, p[:, None], 1 - share) + _terms(np, p, share)  # (2, n, n)
    # One key i with all of the weight, its output inside of the band.
    inside = (low - slack <= s) & (s <= high + slack)  # (n,)
    alone = (1 - p) * math.log(2) / 2 + _terms(np, p, np.ones(n))  # (n,)
    candidates = np.concatenate(
        [np.where(inside, alone, -np.inf), np.where(crosses, pairs, -np.inf).reshape(-1)]
    )  # (n + 2 n²,)
    best = int(np.argmax(candidates))
    found = np.zeros(n)
    if best < n:
        found[best] = 1
    else:
        side, i, j = np.unravel_index(best - n, share.shape)
        found[i], found[j] = 1 - share[side, i, j], share[side, i, j]
    return found, max(float(candidates[best]), 0.0)


def _terms(xp: Any, p: Array, q: Array) -> Array:
    """½ p ln(2p / (p + q)) + ½ q ln(2q / (p + q)), element by element; 0 · ln 0 is 0."""
    both = p + q
    both = xp.where(both > 0, both, xp.ones_like(both))
    # Where the argument would be 0 it is 1: there the factor is 0, and so must the gradient be.
    of_p = xp.where(p > 0, 2 * p / both, xp.ones_like(both))
    of_q = xp.where(q > 0, 2 * q / both, xp.ones_like(both))
    return (p * xp.log(of_p) + q * xp.log(of_q)) / 2


def _check_affine(outputs: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Outputs of mixtures are the mixtures of the outputs."""
    off = np.abs(outputs - expected)
    if not (off <= tolerance).all():  # also where it is NaN
        i = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        raise ValueError(
            "predict must be linear, but for a constant, in the weights: only then is the farthest point a vertex. For "
            f"a mixture of keys it returned {outputs[i]:.6g}, where the same mixture of its outputs for single keys is "
            f"{expected[i]:.6g}. Pass the logit, not the probability; for a probability p and tolerance ε the band is "
            "logit(p − ε) … logit(p + ε)."
        )


def _like(row: Array, rows: np.ndarray, dtype: Any) -> Array:
    return array_namespace(row).asarray(rows, dtype=dtype, device=device(row))


def _different(p: Array, q: Array) -> ValueError:
    return ValueError(
        "p and q must have shapes (..., n) that agree in n and broadcast, "
        f"but p has shape {shape_of(p)} and q has shape {shape_of(q)}."
    )
