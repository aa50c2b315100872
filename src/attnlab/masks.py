"""Masks: builders, and translations to other conventions.

A mask of this course is boolean and True where attention is **allowed**.  Masks combine with `&` (both must allow)
before they are translated: two additive masks that each hold the smallest number of a dtype overflow when added.

Builders return NumPy arrays; with `like=x` they return an array of the library and on the device of `x`:
`attention(q, k, v, masks.causal(n, like=q))` works for NumPy and for torch.
"""

import math
import operator
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj

from attnlab._inputs import Array, namespace_of
from attnlab.core import causal_rule

__all__ = ["causal", "padding", "to_additive", "to_torch_mha"]


def causal(n_q: int, n_k: int | None = None, *, align: str = "bottom-right", like: Array | None = None) -> Array:
    """Each query may attend to the keys up to its own position: bool (n_q, n_k).

    n_k is n_q unless given.  Where they differ, `align` says whose positions coincide:

    "bottom-right"  the last query and the last key, as when a new query meets keys that were cached before
    "top-left"      the first query and the first key, as in torch's `is_causal=True`

    Where there are more queries than keys, the first rows of a bottom-right mask allow nothing.

    Raises ValueError for negative sizes and other alignments, TypeError for sizes that are not integers.
    """
    n_q = _size("n_q", n_q)
    n_k = n_q if n_k is None else _size("n_k", n_k)
    offsets = {"bottom-right": n_k - n_q, "top-left": 0}
    if align not in offsets:
        raise ValueError(f'align must be "bottom-right" or "top-left", but it is {align!r}.')
    like = np.empty(0) if like is None else like
    return causal_rule(namespace_of(like=like), n_q, n_k, offsets[align], device(like))  # (n_q, n_k)


def padding(lengths: Any, n_k: int, *, like: Array | None = None) -> Array:
    """Every query may attend to the first `length` keys of its sequence: lengths (...) → bool (..., 1, n_k).

    The axis of length 1 is that of the queries: padding forbids **keys**, for all queries alike.  It fits query
    (B, n_q, d_k); with heads, (B, H, n_q, d_k), pass lengths[:, None].

    lengths is an integer, a list or an integer array; an array's library and device are followed unless `like` says
    otherwise.  Length 0 leaves a row that allows nothing.

    Raises ValueError for lengths below 0 or above n_k, TypeError for lengths that are not integers.
    """
    n_k = _size("n_k", n_k)
    if not is_array_api_obj(lengths):
        lengths = np.asarray(lengths, dtype=None if np.size(lengths) else int)
    if not namespace_of(lengths=lengths).isdtype(lengths.dtype, "integral"):
        raise TypeError(
            f"lengths must be integers, the number of real tokens of each sequence, but they are {lengths.dtype}. "
            "A boolean array that is True at the real tokens is a mask already: pass it as is_real[..., None, :]."
        )
    like = lengths if like is None else like
    xp = namespace_of(like=like)
    lengths = xp.asarray(lengths.tolist(), device=device(like))  # from either library to either
    outside = (lengths < 0) | (lengths > n_k)
    if xp.any(outside):
        raise ValueError(f"lengths must lie between 0 and n_k = {n_k}, but {int(lengths[outside][0])} is among them.")
    return xp.arange(n_k, device=device(like)) < lengths[..., None, None]  # (..., 1, n_k)


def to_additive(mask: Array, dtype: Any = None) -> Array:
    """The mask as numbers to add to the scores: 0 where it allows, -∞ where it forbids; same shape.

    dtype is a real floating dtype of the mask's library; None means that library's default (float64 for NumPy).
    An additive mask is **not** a mask of zeros and ones: adding 1 or 0 to a score forbids nothing.

    Raises TypeError for masks that are not boolean and for other dtypes.
    """
    xp = _boolean(mask)
    dtype = xp.asarray(0.0).dtype if dtype is None else dtype
    try:
        zero = xp.asarray(0.0, dtype=dtype, device=device(mask))
        is_float = xp.isdtype(zero.dtype, "real floating")
    except TypeError:
        is_float = False
    if not is_float:
        raise TypeError(f"dtype must be a real floating dtype of the mask's library, but it is {dtype!r}.")
    return xp.where(mask, zero, -math.inf * xp.ones_like(zero))


def to_torch_mha(mask: Array) -> Array:
    """The mask in the convention of torch's `nn.MultiheadAttention`: True = **forbidden**; same shape and library.

    Its `attn_mask` has shape (n_q, n_k) or (B · n_heads, n_q, n_k), and its `key_padding_mask` has shape (B, n_k),
    so that a mask of `padding` loses its axis of queries: to_torch_mha(padding(lengths, n_k))[:, 0].

    Raises TypeError for masks that are not boolean: `~` of an integer 1 is -2 (254 for uint8), which is still true.
    """
    _boolean(mask)
    return ~mask


def _boolean(mask: Array) -> Any:
    xp = namespace_of(mask=mask)
    if not xp.isdtype(mask.dtype, "bool"):
        hint = "a float mask is additive already" if xp.isdtype(mask.dtype, "real floating") else "pass mask == 1"
        raise TypeError(f"mask must be boolean, True = may attend, but its dtype is {mask.dtype}: {hint}.")
    return xp


def _size(name: str, size: Any) -> int:
    try:
        number = operator.index(size)
    except TypeError:
        number = None
    if number is None or isinstance(size, bool):
        raise TypeError(f"{name} must be an integer, but it is {size!r}.")
    if number < 0:
        raise ValueError(f"{name} must not be negative, but it is {number}.")
    return number
