"""Attention: scores from queries and keys, weights from scores, outputs from weights and values.

Each function is written once, for NumPy arrays and torch tensors alike, in the words of the array-API standard
(`xp` is the library that the inputs come from).  Gradients flow through torch.  The same rules hold everywhere:

- a boolean mask is True where attention is **allowed**; a float mask is added to the scores;
- a query that may attend to no key gets zero weights, a zero output and a zero gradient, never NaN;
- a causal mask lets the last query see the last key, also where there are fewer queries than keys;
- inputs are never modified;
- the result has the inputs' floating dtype; integers and booleans count as float64; float16 and bfloat16 are
  computed in float32 and rounded once, at the end.

NaN or infinity in a *value* that a mask forbids still spoils the output, because 0 · NaN is NaN.  In a forbidden *key*
it spoils the row under a float mask; under a boolean mask it spoils gradients only.  A score of +∞ has no softmax:
∞/∞ is NaN, in NumPy, SciPy and torch as here.
"""

import math
from numbers import Integral
from typing import Any, NamedTuple

from array_api_compat import device

from attnlab._inputs import (
    Array,
    check_leading_axes,
    check_mask,
    check_parameter,
    check_query_and_key,
    check_same_width,
    check_values,
    namespace_of,
    number_like,
    prepare,
    shape_of,
)

__all__ = ["Attended", "additive", "attend", "attention", "dot", "gaussian", "general", "scaled_dot", "softmax"]


class Attended(NamedTuple):
    """What attention returns: the `output` (..., n_q, d_v), and the `weights` (..., n_q, n_k) that mixed it."""

    output: Array
    weights: Array


# ------------------------------------------------------------------------------------------------ weights and outputs


def softmax(scores: Array, axis: int = -1) -> Array:
    """Weights in proportion to exp(scores): non-negative, summing to one along `axis`, the axis of the keys.

    Takes scores of any shape with at least one axis and returns the same shape and floating dtype.  Scores of any
    finite size get the right weights (NumPy may warn of overflow where two lie further apart than its largest number).
    Where all scores along the axis are -∞, all weights are zero.

    Raises ValueError for an axis that is not there, TypeError for anything but real arrays.
    """
    xp, dtype, (scores,) = prepare(scores=scores)
    if not isinstance(axis, Integral) or axis not in range(-scores.ndim, scores.ndim):
        raise ValueError(f"axis must be an axis of scores, which have shape {shape_of(scores)}, but it is {axis!r}.")
    if scores.shape[axis] == 0:
        return xp.astype(xp.exp(scores), dtype)  # no keys, no weights: another empty array, with a gradient

    # exp(s - c) / Σ exp(s - c) is the same for every c.  With c the largest score, nothing overflows.
    largest = xp.max(scores, axis=axis, keepdims=True)  # one for each query
    empty = largest == -math.inf
    # Here -∞ - (-∞) would be NaN.  Removed afterwards, it would stay in the gradient: it must never arise.
    shift = xp.where(empty, xp.zeros_like(largest), largest)
    powers = xp.exp(scores - shift)
    total = xp.sum(powers, axis=axis, keepdims=True)  # one for each query
    weights = powers / xp.where(empty, xp.ones_like(total), total)
    return xp.astype(weights, dtype, copy=False)


def attend(scores: Array, values: Array, mask: Array | None = None) -> Attended:
    """Mix the values with the weights softmax(scores), leaving out what the mask forbids.

    scores (..., n_q, n_k) or (n_k,), values (..., n_k, d_v)
    → Attended(output (..., n_q, d_v), weights (..., n_q, n_k)); both without the axis n_q for scores (n_k,)

    A mask broadcasts to (..., n_q, n_k): bool, True = may attend; float = added to the scores.  Its leading axes
    broadcast with those of scores and values.  Its dtype does not change the dtype of the result.

    Raises ValueError for shapes that do not fit; TypeError for lists, for NumPy mixed with torch, for complex numbers
    and for masks that are neither bool nor float.
    """
    xp, dtype, (scores, values) = prepare(scores=scores, values=values)
    if scores.ndim == 0:
        raise ValueError("scores must have shape (..., n_q, n_k) or (n_k,), but they have no axis: ().")
    check_values("values", values, "scores", scores, n_k=scores.shape[-1])
    rows = _rows(scores)  # (..., n_q, n_k)
    if mask is not None:
        namespace_of(scores=scores, values=values, mask=mask)
        rows = _apply_mask(xp, rows, mask)  # (..., n_q, n_k)
    check_leading_axes(scores=rows, values=values)

    weights = softmax(rows)  # (..., n_q, n_k)
    output = weights @ xp.astype(values, weights.dtype, copy=False)  # (..., n_q, d_v)
    if scores.ndim == 1:
        output, weights = output[..., 0, :], weights[..., 0, :]  # (..., d_v), (..., n_k)
    return Attended(xp.astype(output, dtype, copy=False), xp.astype(weights, dtype, copy=False))


def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Attended:
    """Scaled dot-product attention: softmax(query · keyᵀ · scale + mask) · value.

    query (..., n_q, d_k), key (..., n_k, d_k), value (..., n_k, d_v)
    → Attended(output (..., n_q, d_v), weights (..., n_q, n_k))

    A 1-D query (d_k,) counts as n_q = 1 and gives output (..., d_v), weights (..., n_k).  Leading axes broadcast.

    mask       broadcasts to (..., n_q, n_k): bool, True = may attend; float = added to the scores
    scale      multiplies the scores; None means 1/√d_k
    is_causal  forbids the keys after the query, with the last query at the last key; with a mask, both must allow

    Raises ValueError for shapes that do not fit; TypeError for lists, for NumPy mixed with torch, for complex numbers
    and for masks that are neither bool nor float.

    Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762.
    """
    xp, dtype, (query, key, value) = prepare(query=query, key=key, value=value)
    if mask is not None:
        namespace_of(query=query, key=key, value=value, mask=mask)
    check_same_width(query, key)
    check_values("value", value, "key", key, n_k=key.shape[-2])
    scores = scaled_dot(_rows(query), key, scale)  # (..., n_q, n_k)
    if is_causal:
        # What is -∞ here stays -∞ under any mask: mask and is_causal combine by AND.
        n_q, n_k = scores.shape[-2:]
        scores = _forbid_unless(xp, causal_rule(xp, n_q, n_k, n_k - n_q, device(scores)), scores)
    output, weights = attend(scores, value, mask)  # (..., n_q, d_v), (..., n_q, n_k)
    if query.ndim == 1:
        output, weights = output[..., 0, :], weights[..., 0, :]  # (..., d_v), (..., n_k)
    return Attended(xp.astype(output, dtype, copy=False), xp.astype(weights, dtype, copy=False))


# ------------------------------------------------------------------------------------------------------------- scores
# All of them take query (..., n_q, d_q) or (d_q,) and key (..., n_k, d_k), and return (..., n_q, n_k) or (..., n_k).


def dot(query: Array, key: Array) -> Array:
    """Dot-product scores q · k.

    query (..., n_q, d_k) or (d_k,), key (..., n_k, d_k) → (..., n_q, n_k) or (..., n_k).  ValueError if d_k differs.

    Luong, Pham, Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation", arXiv 1508.04025.
    """
    xp, dtype, (query, key) = prepare(query=query, key=key)
    check_same_width(query, key)
    scores = _rows(query) @ xp.matrix_transpose(key)  # (..., n_q, n_k)
    return _finish(xp, scores, query, dtype)


def scaled_dot(query: Array, key: Array, scale: float | None = None) -> Array:
    """Scaled dot-product scores q · k · scale, where the scale is 1/√d_k unless another is given.

    query (..., n_q, d_k) or (d_k,), key (..., n_k, d_k) → (..., n_q, n_k) or (..., n_k).  ValueError if d_k differs.

    Where components are independent with mean 0 and variance 1, q · k has variance d_k: the scale brings it back to 1
    and keeps the softmax away from saturation.  Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762.
    """
    xp, dtype, (query, key) = prepare(query=query, key=key)
    scores = dot(query, key)  # (..., n_q, n_k) or (..., n_k)
    if scale is None:
        d_k = key.shape[-1]
        scale = 1 / math.sqrt(d_k) if d_k > 0 else 1.0  # without features each score is 0, whatever the scale
    return xp.astype(scores * number_like(xp, "scale", scale, scores), dtype, copy=False)


def general(query: Array, key: Array, W: Array) -> Array:
    """Bilinear scores qᵀ W k, where query and key may have different widths.

    query (..., n_q, d_q) or (d_q,), key (..., n_k, d_k), W (d_q, d_k) → (..., n_q, n_k) or (..., n_k)

    Raises ValueError, naming the shapes, where W does not fit.  Luong, Pham, Manning 2015, arXiv 1508.04025.
    """
    xp, dtype, (query, key, W) = prepare(query=query, key=key, W=W)
    check_query_and_key(query, key)
    check_parameter("W", W, "(d_q, d_k)", (query.shape[-1], key.shape[-1]), query=query, key=key)
    scores = _rows(query) @ W @ xp.matrix_transpose(key)  # (..., n_q, n_k)
    return _finish(xp, scores, query, dtype)


def additive(query: Array, key: Array, W_q: Array, W_k: Array, v: Array) -> Array:
    """Additive scores vᵀ tanh(W_q q + W_k k): a network with one hidden layer of h units reads each pair.

    query (..., n_q, d_q) or (d_q,), key (..., n_k, d_k), W_q (h, d_q), W_k (h, d_k), v (h,)
    → (..., n_q, n_k) or (..., n_k).  The hidden layer holds n_q · n_k · h numbers at once.

    Raises ValueError, naming the shapes, where W_q, W_k or v do not fit.

    Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
    arXiv 1409.0473.
    """
    xp, dtype, (query, key, W_q, W_k, v) = prepare(query=query, key=key, W_q=W_q, W_k=W_k, v=v)
    check_query_and_key(query, key)
    if v.ndim != 1:
        raise ValueError(f"v must have shape (h,), one number for each hidden unit, but it has shape {shape_of(v)}.")
    check_parameter("W_q", W_q, "(h, d_q)", (v.shape[0], query.shape[-1]), v=v, query=query)
    check_parameter("W_k", W_k, "(h, d_k)", (v.shape[0], key.shape[-1]), v=v, key=key)
    from_query = _rows(query) @ xp.matrix_transpose(W_q)  # (..., n_q, h)
    from_key = key @ xp.matrix_transpose(W_k)  # (..., n_k, h)
    # Queries and keys need an axis each: added without, query i would meet key i only.
    hidden = xp.tanh(from_query[..., :, None, :] + from_key[..., None, :, :])  # (..., n_q, n_k, h)
    scores = hidden @ v  # (..., n_q, n_k)
    return _finish(xp, scores, query, dtype)


def gaussian(query: Array, key: Array, width: float) -> Array:
    """Gaussian scores -‖q - k‖² / (2 width²): with them, attention is Nadaraya-Watson kernel regression.

    query (..., n_q, d_k) or (d_k,), key (..., n_k, d_k) → (..., n_q, n_k) or (..., n_k).  The width, greater than 0,
    is in the units of query and key: a small one lets the nearest key win, a large one averages all keys.

    Raises ValueError where d_k differs or the width is not positive.

    Nadaraya 1964, "On Estimating Regression"; Watson 1964, "Smooth Regression Analysis".
    """
    xp, dtype, (query, key) = prepare(query=query, key=key)
    check_same_width(query, key)
    width = number_like(xp, "width", width, query)
    if not width > 0:
        raise ValueError(f"width must be greater than 0, but it is {width}.")
    apart = _rows(query)[..., :, None, :] - key[..., None, :, :]  # (..., n_q, n_k, d_k)
    scores = -xp.sum((apart / width) ** 2, axis=-1) / 2  # (..., n_q, n_k)
    return _finish(xp, scores, query, dtype)


def _rows(query: Array) -> Array:
    """A single query (or row of scores) is a matrix with one row."""
    return query[None, :] if query.ndim == 1 else query


def _finish(xp: Any, scores: Array, query: Array, dtype: Any) -> Array:
    if query.ndim == 1:
        scores = scores[..., 0, :]  # (..., n_k)
    return xp.astype(scores, dtype, copy=False)


# -------------------------------------------------------------------------------------------------------------- masks


def causal_rule(xp: Any, n_q: int, n_k: int, offset: int, place: Any) -> Array:
    """Query i may attend to key j where j <= i + offset: bool (n_q, n_k), from library `xp` on device `place`."""
    queries = xp.arange(n_q, device=place)[:, None]  # (n_q, 1)
    keys = xp.arange(n_k, device=place)  # (n_k,)
    return keys <= queries + offset  # (n_q, n_k)


def _apply_mask(xp: Any, scores: Array, mask: Array) -> Array:
    """Scores (..., n_q, n_k) under a mask: forbidden ones are -∞ where it is bool, it is added where it is float."""
    check_mask(xp, scores, mask)
    if xp.isdtype(mask.dtype, "bool"):
        return _forbid_unless(xp, mask, scores)
    # Added in the wider of the two dtypes, so that what is finite in the mask stays finite.
    wide = xp.result_type(scores.dtype, mask.dtype)
    return xp.astype(scores, wide, copy=False) + xp.astype(mask, wide, copy=False)


def _forbid_unless(xp: Any, allowed: Array, scores: Array) -> Array:
    forbidden = xp.asarray(-math.inf, dtype=scores.dtype, device=device(scores))
    return xp.where(allowed, scores, forbidden)
