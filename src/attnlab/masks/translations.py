"""Translations: the same mask in the words of another library.  One function a foreign convention.

A mask of this course has shape (..., n_q, n_k) and True means **allowed**.  What others want instead:

    added to the scores, 0 and -∞                      `to_additive`      any library that adds
    True = forbidden, (n_q, n_k) or (B · H, n_q, n_k)  `to_torch_mha`     torch nn.MultiheadAttention, nn.Transformer…
    True = allowed, always four axes (B, H, n_q, n_k)  `to_four_axes`     torch SDPA, jax, flax, ONNX, onnxruntime
    True = allowed, no axis of heads, (B, n_q, n_k)    `to_keras`         keras MultiHeadAttention
    1 = keep, one number a token, (B, n_k)             `to_hugging_face`  transformers
    a function of four positions                       `to_flex`          torch flex_attention

A mask with two axes is the same for all samples and heads.  A mask with three axes has **one matrix a sample**,
(B, n_q, n_k): it fits a query (B, n_q, d_k) as it is, but beside a query (B, H, n_q, d_k) an API would take that B
for heads.  The translations put it where it belongs.  Each is tested against the library itself, and
`attnlab.conventions` shows by calls what each library does with what it gets.
"""

import math
from collections.abc import Callable
from typing import Any

from array_api_compat import device

from attnlab._inputs import Array, namespace_of, shape_of

__all__ = ["to_additive", "to_flex", "to_four_axes", "to_hugging_face", "to_keras", "to_torch_mha"]


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


def to_torch_mha(mask: Array, n_heads: int | None = None) -> Array:
    """The mask in the convention of torch's `nn.MultiheadAttention`: True = **forbidden**.

    Without n_heads, same shape: for its `attn_mask` (n_q, n_k), and for its `key_padding_mask` (B, n_k), where a mask
    of `padding` loses its axis of queries: to_torch_mha(padding(lengths, n_k))[:, 0].

    With n_heads, for an `attn_mask` of its own for each sample: (B, n_q, n_k) or (B, H, n_q, n_k) → (B · H, n_q, n_k).
    All heads of the first sample come first, then all heads of the second: [M0, M0, M1, M1].  Copied in the order
    [M0, M1, M0, M1], head 1 of sample 0 would use the mask of sample 1: same shape, no error, invisible for B = 1.

    n_q, n_k and B must be there in full, since that API broadcasts none of them.

    Raises TypeError for masks that are not boolean: `~` of an integer 1 is -2 (254 for uint8), which is still true.
    Raises ValueError where mask and n_heads do not fit.
    """
    xp = _boolean(mask)
    if n_heads is None:
        return ~mask
    shape = shape_of(mask)
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[1] not in (1, n_heads)):
        raise ValueError(
            f"With n_heads, mask must have shape (B, n_q, n_k) or (B, n_heads or 1, n_q, n_k), "
            f"but n_heads is {n_heads} and mask has shape {shape}."
        )
    n_batch, *_, n_q, n_k = shape
    each_head = xp.broadcast_to(to_four_axes(mask), (n_batch, n_heads, n_q, n_k))
    return ~xp.reshape(each_head, (n_batch * n_heads, n_q, n_k))


def to_four_axes(mask: Array) -> Array:
    """The mask with an axis for the samples and one for the heads, True = allowed: bool (B or 1, H or 1, n_q, n_k).

    (n_q, n_k) → (1, 1, n_q, n_k); (B, n_q, n_k) → (B, 1, n_q, n_k); four axes stay as they are.  Axes of length 1
    broadcast.  For torch's `F.scaled_dot_product_attention(attn_mask=…)` on queries (B, H, n_q, d_k), for
    `jax.nn.dot_product_attention(mask=…)` and flax's `dot_product_attention(mask=…)`, for ONNX's `Attention`.

    torch and ONNX accept (B, n_q, n_k) too, and take B for the heads: an error where B is neither 1 nor H, else
    silence.  jax wants exactly four axes.  What these APIs return for a row that allows nothing differs: see
    `attnlab.conventions`.

    Raises TypeError for masks that are not boolean, ValueError for fewer than two axes or more than four.
    """
    _boolean(mask)
    if mask.ndim not in (2, 3, 4):
        raise ValueError(
            f"mask must have shape (n_q, n_k), (B, n_q, n_k) or (B, H, n_q, n_k), but it has shape {shape_of(mask)}."
        )
    return {2: lambda: mask[None, None], 3: lambda: mask[:, None], 4: lambda: mask}[mask.ndim]()


def to_keras(mask: Array) -> Array:
    """The mask for keras' `MultiHeadAttention` (attention_mask=…), True = allowed: bool (B or 1, n_q or 1, n_k).

    That layer has one mask for all heads: (B, 1, n_q, n_k) loses the axis of heads, (n_q, n_k) gets one of samples.
    Its arguments `query_mask`, `value_mask`, `key_mask` are (B, n), also True = real; a causal mask for n_q ≠ n_k must
    come through here, since its own `use_causal_mask` is aligned top-left.

    Raises TypeError for masks that are not boolean, ValueError for one with several heads.
    """
    mask = to_four_axes(mask)
    if mask.shape[1] != 1:
        raise ValueError(f"keras has one mask for all heads, but this one has shape {shape_of(mask)}.")
    return mask[:, 0]


def to_hugging_face(mask: Array) -> Array:
    """A mask of `padding` as the `attention_mask` of a transformers model: int64 (B, n_k), 1 = keep, 0 = padding.

    (B, 1, n_k) or (B, 1, 1, n_k) → (B, n_k).  The models add what is causal by themselves.  It says which **keys** are
    real: the outputs at padding are numbers all the same, and a causal model with padding on the left needs
    `position_ids` too.  For any other mask pass four axes, as numbers:
    to_additive(to_four_axes(mask), dtype=model.dtype).

    Raises TypeError for masks that are not boolean, ValueError for those that differ between queries or heads.
    """
    xp = _boolean(mask)
    shape = shape_of(mask)
    if mask.ndim not in (3, 4) or set(shape[1:-1]) != {1}:
        raise ValueError(
            "mask must be one of padding, (B, 1, n_k) or (B, 1, 1, n_k), the same for all queries and heads, "
            f"but it has shape {shape}."
        )
    return xp.astype(xp.reshape(mask, (shape[0], shape[-1])), xp.int64)


def to_flex(mask: Array) -> Callable[[Array, Array, Array, Array], Array]:
    """The mask as a `mask_mod` of torch's flex_attention: a function (sample, head, query, key) → allowed.

    `create_block_mask(to_flex(mask), B, H, n_q, n_k, device=…)` makes of it what `flex_attention(block_mask=…)` takes.
    A rule written out, `lambda b, h, i, j: j <= i`, costs no memory and reads the same on every length; this one looks
    its answers up in a mask (torch, on the device of the query) that is there already.

    Raises TypeError for masks that are not boolean, ValueError for fewer than two axes or more than four.
    """
    mask = to_four_axes(mask)
    one_sample, one_head = mask.shape[0] == 1, mask.shape[1] == 1

    def mask_mod(sample: Array, head: Array, query: Array, key: Array) -> Array:
        return mask[0 if one_sample else sample, 0 if one_head else head, query, key]

    return mask_mod


def _boolean(mask: Array) -> Any:
    xp = namespace_of(mask=mask)
    if not xp.isdtype(mask.dtype, "bool"):
        hint = "a float mask is additive already" if xp.isdtype(mask.dtype, "real floating") else "pass mask == 1"
        raise TypeError(f"mask must be boolean, True = may attend, but its dtype is {mask.dtype}: {hint}.")
    return xp
