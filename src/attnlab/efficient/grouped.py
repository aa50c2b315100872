"""Grouped heads: fewer key and value heads than query heads, each shared by a group of neighbouring query heads.

With H query heads and H_kv key heads, query heads 0 … H/H_kv - 1 share key head 0, the next H/H_kv share key head 1:
4 heads over 2 read them in the order [0, 0, 1, 1].  H_kv = H is multi-head attention, H_kv = 1 multi-query attention
(Shazeer 2019, arXiv 1911.02150), what lies between is grouped-query attention (Ainslie et al. 2023, "GQA: Training
Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv 2305.13245).

It is no new score.  A cache of keys and values is smaller by the factor H/H_kv, and a decoder, which reads all of it
for each token, reads so much less: as long as nothing copies it back to the size of H heads on the way.
"""

import math
from typing import Any

import numpy as np
from array_api_compat import device

from attnlab._inputs import Array, check_same_width, check_values, namespace_of, prepare, shape_of
from attnlab.core import Attended, attention
from attnlab.heads import _is_count
from attnlab.masks import causal

__all__ = ["grouped_attention", "pool_heads", "repeat_kv"]


def repeat_kv(x: Array, group: int) -> Array:
    """Each head `group` times, copies side by side: (..., n_kv_heads, n, d) → (..., n_kv_heads · group, n, d).

    The order is [0, 0, 1, 1].  Copied as a whole, [0, 1, 0, 1] (`np.tile`, torch's `.repeat`), the shape is the same,
    and the first and last heads may even be right.

    It **copies** (unless group is 1): the result holds `group` times the bytes of x.  It is the plain way to say what
    is shared, and what `grouped_attention` is tested against.

    Raises ValueError, naming the shape, where x has fewer than three axes or group is below 1; TypeError for no array.
    """
    xp = namespace_of(x=x)
    shape = shape_of(x)
    if not _is_count(group):
        raise ValueError(f"group must be a whole number of at least 1, but it is {group!r}.")
    if len(shape) < 3:
        raise ValueError(f"x must have shape (..., n_kv_heads, n, d), but it has shape {shape}.")
    *batch, n_kv_heads, n, d = shape
    side_by_side = xp.broadcast_to(x[..., :, None, :, :], (*batch, n_kv_heads, group, n, d))
    return xp.reshape(side_by_side, (*batch, n_kv_heads * group, n, d))  # a copy: no strides count [0, 0, 1, 1]


def grouped_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Attended:
    """Attention in which each key head serves H/H_kv neighbouring query heads, and is read once for all of them.

    query (..., H, n_q, d_k), key (..., H_kv, n_k, d_k), value (..., H_kv, n_k, d_v)
    → Attended(output (..., H, n_q, d_v), weights (..., H, n_q, n_k))

    The same as attention(query, repeat_kv(key, H/H_kv), repeat_kv(value, H/H_kv), …), without the copies: the queries
    of a group stand one below the other, as rows of one matrix, and meet their key head in one product.  (To give the
    key an axis of length 1 for the group is no way out: torch's `@` writes broadcast keys out before it multiplies.)

    Keys and values are not copied where they are of one floating dtype, float32 or float64, have the batch axes of the
    query, and lie head by head in memory, as `KVCache` returns them.  The half formats are computed in float32, which
    is a copy; torch copies what `heads.split` has just cut from a batch of several.

    mask       broadcasts to (..., H, n_q, n_k): bool, True = may attend; float = added to the scores
    scale      multiplies the scores; None means 1/√d_k
    is_causal  forbids the keys after the query, with the last query at the last key; with a mask, both must allow

    Raises ValueError for shapes that do not fit, TypeError as `attention` does.
    """
    xp, dtype, (query, key, value) = prepare(query=query, key=key, value=value)
    _check(query, key, value)
    *batch, n_heads, n_q, d_k = query.shape
    n_kv_heads, n_k = key.shape[-3:-1]
    group = n_heads // n_kv_heads
    if mask is not None:
        namespace_of(query=query, key=key, value=value, mask=mask)
        _check_mask(mask, (*batch, n_heads, n_q, n_k))
    if is_causal:
        mask = _and_causal(xp, mask, causal(n_q, n_k, like=query))
    if mask is not None:
        mask = _fold_mask(xp, mask, n_heads, group, n_q)  # (..., H_kv or 1, group · n_q or 1, n_k or 1)

    rows = xp.reshape(query, (*batch, n_kv_heads, group * n_q, d_k))  # neighbouring heads, one below the other
    output, weights = attention(rows, key, value, mask, scale=scale)  # (..., H_kv, group · n_q, d_v), (…, n_k)
    output, weights = (
        xp.reshape(x, (*shape_of(x)[:-3], n_heads, n_q, x.shape[-1]))  # (..., H, n_q, d_v or n_k)
        for x in (output, weights)
    )
    return Attended(xp.astype(output, dtype, copy=False), xp.astype(weights, dtype, copy=False))


def pool_heads(W: Array, n_kv_heads: int, n_new: int) -> Array:
    """Fewer heads out of many: the mean of neighbouring heads' rows, (n_kv_heads · d_head, …) → (n_new · d_head, …).

    W is the weight of a key or value projection, (n_kv_heads · d_head, d_in), or its bias, (n_kv_heads · d_head,).  So
    a trained multi-head layer becomes a grouped one.  It computes something else then: the authors train it further,
    for 5% of the steps that it was trained before.  Ainslie et al. 2023, arXiv 2305.13245.

    Raises ValueError where n_kv_heads does not divide the rows, or n_new does not divide n_kv_heads; TypeError for what
    is no array of real numbers.
    """
    xp, dtype, (W,) = prepare(W=W)
    for name, number in {"n_kv_heads": n_kv_heads, "n_new": n_new}.items():
        if not _is_count(number):
            raise ValueError(f"{name} must be a whole number of at least 1, but it is {number!r}.")
    if W.ndim < 1 or W.shape[0] % n_kv_heads:
        raise ValueError(
            f"W must have shape (n_kv_heads · d_head, …), but n_kv_heads is {n_kv_heads} and W has shape {shape_of(W)}."
        )
    if n_kv_heads % n_new:
        raise ValueError(f"n_new must divide n_kv_heads, but n_new is {n_new} and n_kv_heads is {n_kv_heads}.")
    d_head, *rest = W.shape[0] // n_kv_heads, *W.shape[1:]
    by_group = xp.reshape(W, (n_new, n_kv_heads // n_new, d_head, *rest))
    pooled = xp.mean(by_group, axis=1)  # (n_new, d_head, …)
    return xp.astype(xp.reshape(pooled, (n_new * d_head, *rest)), dtype, copy=False)


def _and_causal(xp: Any, mask: Array | None, allowed: Array) -> Array:
    """The mask, where the causal rule `allowed` (n_q, n_k) allows too."""
    if mask is None:
        return allowed
    if xp.isdtype(mask.dtype, "bool"):
        return mask & allowed
    if xp.isdtype(mask.dtype, "real floating"):
        return xp.where(allowed, mask, xp.asarray(-math.inf, dtype=mask.dtype, device=device(mask)))
    return mask  # `attention` refuses it


def _fold_mask(xp: Any, mask: Array, n_heads: int, group: int, n_q: int) -> Array:
    """The mask for queries of a group one below the other: (..., H, n_q, n_k) → (..., H_kv, group · n_q, n_k).

    What all heads share is written out for one group, not for all heads; what all queries share too stays as it is.
    """
    *batch, heads, rows, n_k = (1,) * (3 - mask.ndim) + shape_of(mask)
    if heads == rows == 1:
        return mask
    heads = n_heads if heads > 1 else group
    mask = xp.broadcast_to(mask, (*batch, heads, n_q, n_k))
    return xp.reshape(mask, (*batch, heads // group, group * n_q, n_k))


def _check(query: Array, key: Array, value: Array) -> None:
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise ValueError(
            "query must have shape (..., H, n_q, d_k), key (..., H_kv, n_k, d_k) and value (..., H_kv, n_k, d_v), "
            f"but {_shapes(query, key, value)}."
        )
    n_heads, n_kv_heads = query.shape[-3], key.shape[-3]
    if n_kv_heads == 0 or n_heads % n_kv_heads or value.shape[-3] != n_kv_heads:
        hint = " Are the axes of heads and tokens exchanged?" if key.shape[-3] == value.shape[-3] > n_heads else ""
        raise ValueError(
            "key and value must have the same number H_kv of heads, and the query's H must be a multiple of it, "
            f"but {_shapes(query, key, value)}.{hint}"
        )
    try:
        np.broadcast_shapes(*(shape_of(x)[:-3] for x in (query, key, value)))
    except ValueError:
        raise ValueError(f"All axes but the last three must broadcast, but {_shapes(query, key, value)}.") from None
    check_same_width(query[..., :1, :, :], key[..., :1, :, :])
    check_values("value", value, "key", key, n_k=key.shape[-2])


def _shapes(query: Array, key: Array, value: Array) -> str:
    return f"query has shape {shape_of(query)}, key {shape_of(key)} and value {shape_of(value)}"


def _check_mask(mask: Array, wanted: tuple[int, ...]) -> None:
    pairs = zip(shape_of(mask)[::-1], wanted[::-1][:3], strict=False)
    try:
        fits = all(size in (1, n) for size, n in pairs)
        np.broadcast_shapes(shape_of(mask)[:-3], wanted[:-3])
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"A mask must broadcast to (..., H, n_q, n_k) = (..., {', '.join(map(str, wanted[-3:]))}), "
            f"but query has shape {(*wanted[:-1], '…')} and mask has shape {shape_of(mask)}."
        )
