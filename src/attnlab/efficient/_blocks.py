"""Rows cut into blocks of equal length, with the filling in front: the last row is the last of its block."""

from typing import Any

from array_api_compat import device

from attnlab._inputs import Array, check_leading_axes, check_same_width, check_values, shape_of
from attnlab.heads import _is_count


def cut(xp: Any, x: Array, n_blocks: int, block: int) -> Array:
    """The last n_blocks · block rows, (..., n, d) → (..., n_blocks, block, d); zeros in front where there are fewer."""
    *batch, n, d = x.shape
    filling = max(n_blocks * block - n, 0)
    if filling:
        x = xp.concat([xp.zeros((*batch, filling, d), dtype=x.dtype, device=device(x)), x], axis=-2)
    return xp.reshape(x[..., n + filling - n_blocks * block :, :], (*batch, n_blocks, block, d))


def join(xp: Any, blocks: Array, n: int) -> Array:
    """The last n rows of the blocks, without the filling: (..., n_blocks, block, d) → (..., n, d)."""
    *batch, n_blocks, block, d = blocks.shape
    return xp.reshape(blocks, (*batch, n_blocks * block, d))[..., n_blocks * block - n :, :]


def check_inputs(query: Array, key: Array, value: Array, **counts: int) -> None:
    """Shapes (..., n_q, d_k), (..., n_k, d_k), (..., n_k, d_v) that fit, and whole numbers of at least 1."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            "query must have shape (..., n_q, d_k), key (..., n_k, d_k) and value (..., n_k, d_v), but query has shape "
            f"{shape_of(query)}, key {shape_of(key)} and value {shape_of(value)}."
        )
    check_same_width(query, key)
    check_values("value", value, "key", key, n_k=key.shape[-2])
    check_leading_axes(query=query, key=key, value=value)
    for name, number in counts.items():
        if not _is_count(number):
            raise ValueError(f"{name} must be a whole number of at least 1, but it is {number!r}.")
