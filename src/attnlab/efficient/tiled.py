"""Attention one tile at a time: the same result as `attnlab.attention`, and never n_q × n_k numbers at once.

The weights of a row need its largest score and the sum of its exponentials, and both need all scores of the row.  The
online softmax keeps a running version of each instead, and rescales what it has when a larger score comes.

Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", arXiv 1805.02867.  Tiles in fast memory, the
output among the running quantities, and gradients by recomputation: Dao et al. 2022, "FlashAttention: Fast and
Memory-Efficient Exact Attention with IO-Awareness", arXiv 2205.14135.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array

from attnlab._inputs import (
    Array,
    check_leading_axes,
    check_mask,
    check_same_width,
    check_values,
    namespace_of,
    number_like,
    prepare,
    shape_of,
)
from attnlab.core import _apply_mask, _forbid_unless, _rows, causal_rule
from attnlab.heads import _is_count

__all__ = ["OnlineSoftmax", "tiled_attention"]


class OnlineSoftmax:
    """softmax(scores) · values, with the keys coming in tiles, in any order and of any sizes.

    After the first `update`, over all keys j so far:

    m      (..., n_q, 1)    the largest score, -∞ where no key was allowed yet
    total  (..., n_q, 1)    ℓ = Σ exp(score_j - m): at least 1, or 0 where no key was allowed yet
    mixed  (..., n_q, d_v)  o = Σ exp(score_j - m) · value_j

    This is all it keeps: d_v + 2 numbers for each query, however many keys there were.
    """

    def __init__(self) -> None:
        self.m = self.total = self.mixed = None

    def update(self, scores: Array, values: Array) -> None:
        """Take in a tile of b keys: scores (..., n_q, b), -∞ where forbidden, and values (..., b, d_v).

        Raises ValueError for shapes that do not fit and for a tile without keys.
        """
        xp, scores, values = self._check(scores, values)

        m = xp.maximum(self.m, xp.max(scores, axis=-1, keepdims=True))  # (..., n_q, 1)
        shift = xp.where(m == -math.inf, xp.zeros_like(m), m)  # all forbidden so far: -∞ - (-∞) would be NaN
        rescale = xp.exp(self.m - shift)  # (..., n_q, 1)  from the old m to the new one; 0 at the first tile
        powers = xp.exp(scores - shift)  # (..., n_q, b)

        self.total = self.total * rescale + xp.sum(powers, axis=-1, keepdims=True)  # (..., n_q, 1)
        self.mixed = self.mixed * rescale + powers @ values  # (..., n_q, d_v)
        self.m = m

    def output(self) -> Array:
        """What softmax(scores) · values is for the keys so far: (..., n_q, d_v), zeros where none was allowed."""
        return self.mixed / self._total_or_one()

    def logsumexp(self) -> Array:
        """log Σ exp(score_j) over the keys so far: (..., n_q, 1), -∞ where none was allowed.

        One number for each query that brings back every weight: weight_j = exp(score_j - logsumexp).
        """
        total = self._total_or_one()
        return self.m + namespace_of(total=total).log(total)

    def _check(self, scores: Array, values: Array) -> tuple[Any, Array, Array]:
        xp, _, (scores, values) = prepare(scores=scores, values=values)
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(f"scores must have shape (..., n_q, b) with b of at least 1, not {shape_of(scores)}.")
        check_values("values", values, "scores", scores, n_k=scores.shape[-1])
        if self.m is None:
            like = {"dtype": scores.dtype, "device": device(scores)}
            self.m, self.total, self.mixed = (xp.asarray(number, **like) for number in (-math.inf, 0.0, 0.0))
        return xp, scores, values

    def _total_or_one(self) -> Array:
        if self.m is None:
            raise ValueError("There is no result before the first update(scores, values).")
        xp = namespace_of(total=self.total)
        return xp.where(self.total == 0, xp.ones_like(self.total), self.total)


def tiled_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    block_q: int = 256,
    block_k: int = 256,
) -> Array:
    """The output of `attnlab.attention`, from tiles of block_q × block_k scores that are dropped once used.

    query (..., n_q, d_k) or (d_k,), key (..., n_k, d_k), value (..., n_k, d_v) → output (..., n_q, d_v) or (..., d_v)

    mask, is_causal and scale are those of `attnlab.attention`, and so are the rules and the errors.  A mask is cut
    tile by tile, along the axes that it has.  With is_causal, tiles that lie after all their queries are not computed.

    Beside the result and one number a query, memory holds three tiles at a time, of all heads and samples at once;
    inputs that are not in the dtype to compute in are converted as a whole first.  There are as many multiplications
    as in full attention.  Sums run in another order, so results agree to rounding, not bit by bit.  Small tiles need
    less memory and more steps, each of which costs time of its own: with 256 × 256 that time is small.

    Torch's gradients compute the tiles again: saved for them are query, key, value, mask, output and the logsumexp of
    each query, nothing of size n_q × n_k.  They have no gradients in turn: create_graph=True is a RuntimeError.

    Raises what `attnlab.attention` raises, and ValueError for a block that is not a whole number of at least 1.
    """
    xp, dtype, (query, key, value) = prepare(query=query, key=key, value=value)
    check_same_width(query, key)
    check_values("value", value, "key", key, n_k=key.shape[-2])
    is_single, query = query.ndim == 1, _rows(query)
    for name, block in {"block_q": block_q, "block_k": block_k}.items():
        if not _is_count(block):
            raise ValueError(f"{name} must be a whole number of at least 1, but it is {block!r}.")
    _check_shapes(xp, query, key, value, mask)
    if mask is not None and xp.isdtype(mask.dtype, "real floating"):
        wide = xp.result_type(query.dtype, mask.dtype)  # what is finite in the mask stays finite
        query, key, value = (xp.astype(array, wide, copy=False) for array in (query, key, value))
    if scale is None:
        d_k = key.shape[-1]
        scale = 1 / math.sqrt(d_k) if d_k > 0 else 1.0
    scale = number_like(xp, "scale", scale, query)
    if not isinstance(scale, float):
        query, scale = query * scale, 1.0  # an array, perhaps learned: its gradient comes through the query

    tiling = Tiling(query.shape[-2], key.shape[-2], block_q, block_k, is_causal, scale)
    if is_numpy_array(query):
        output, _ = attend_by_tiles(query, key, value, mask, tiling)
    else:
        from attnlab.efficient._recomputed import Recomputed  # here, so that NumPy does without torch

        output = Recomputed.apply(query, key, value, mask, tiling)
    return xp.astype(output[..., 0, :] if is_single else output, dtype, copy=False)


def attend_by_tiles(
    query: Array, key: Array, value: Array, mask: Array | None, tiling: "Tiling"
) -> tuple[Array, Array]:
    """The output (..., n_q, d_v), and the logsumexp (..., n_q, 1) of the scores.

    The outer loop runs over the queries, so that each block of the output is finished before the next begins: the
    order of Dao 2023, "FlashAttention-2", arXiv 2307.08691.  (In the paper of 2022 the keys were outside.)
    """
    xp = namespace_of(query=query)
    n_q, d_v = query.shape[-2], value.shape[-1]
    leading = _leading_axes(query, key, mask)
    like = {"dtype": query.dtype, "device": device(query)}
    output = xp.zeros((*np.broadcast_shapes(leading, shape_of(value)[:-2]), n_q, d_v), **like)
    logsumexp = xp.full((*leading, n_q, 1), -math.inf, **like)
    for rows, blocks in tiling:
        state = OnlineSoftmax()
        for columns in blocks:
            state.update(tiling.scores(query, key, mask, rows, columns), value[..., columns, :])
        if blocks:  # else no key is allowed, and the zeros are right
            output[..., rows, :], logsumexp[..., rows, :] = state.output(), state.logsumexp()
    return output, logsumexp


@dataclass(frozen=True)
class Tiling:
    """How the n_q × n_k scores are cut, and how those of one tile are made."""

    n_q: int
    n_k: int
    block_q: int
    block_k: int
    is_causal: bool
    scale: float

    def __iter__(self) -> Iterator[tuple[slice, list[slice]]]:
        """Each block of queries, with the blocks of keys that it meets: the last of each may be smaller."""
        for first in range(0, self.n_q, self.block_q):
            end = min(first + self.block_q, self.n_q)
            n_seen = self.n_k  # by the last query of the block, which sees the most
            if self.is_causal:
                n_seen = max(end + self.n_k - self.n_q, 0)
            starts = range(0, n_seen, self.block_k)
            yield slice(first, end), [slice(start, min(start + self.block_k, n_seen)) for start in starts]

    def scores(self, query: Array, key: Array, mask: Array | None, rows: slice, columns: slice) -> Array:
        """The scores of one tile, (..., n_rows, n_columns), with -∞ where mask or is_causal forbid."""
        xp = namespace_of(query=query)
        scores = (query[..., rows, :] * self.scale) @ xp.matrix_transpose(key[..., columns, :])
        # Query i sees the keys up to i + offset, in the numbers of this tile.
        offset = self.n_k - self.n_q + rows.start - columns.start
        if self.is_causal and offset < scores.shape[-1] - 1:  # else its first query sees the whole tile
            allowed = causal_rule(xp, *scores.shape[-2:], offset, device(scores))
            scores = _forbid_unless(xp, allowed, scores)
        return scores if mask is None else _apply_mask(xp, scores, cut(mask, rows, columns))


def cut(mask: Array, rows: slice, columns: slice) -> Array:
    """The part of a mask that belongs to a tile.  An axis of length 1, shared by all queries or all keys, stays."""
    if mask.ndim > 0 and mask.shape[-1] > 1:
        mask = mask[..., columns]
    if mask.ndim > 1 and mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    return mask


def _check_shapes(xp: Any, query: Array, key: Array, value: Array, mask: Array | None) -> None:
    """Check the mask as a whole, as `attnlab.attention` does.  Only the shape of all scores exists here."""
    n_q, n_k = query.shape[-2], key.shape[-2]
    scores = np.broadcast_to(0.0, (*_leading_axes(query, key), n_q, n_k))  # a single number in memory
    if mask is not None:
        namespace_of(query=query, key=key, value=value, mask=mask)
        check_mask(xp, scores, mask)
        scores = np.broadcast_to(0.0, (*_leading_axes(query, key, mask), n_q, n_k))
    check_leading_axes(scores=scores, values=value)


def _leading_axes(*arrays: Array | None) -> tuple[int, ...]:
    return np.broadcast_shapes(*(shape_of(array)[:-2] for array in arrays if array is not None))
