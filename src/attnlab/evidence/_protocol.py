"""What the files of this room share: rows of weights that are checked, and `predict` that is asked."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlab._inputs import Array, prepare, shape_of

Predict = Callable[[Array], Array]  # r alternative rows of weights (r, n) → outputs (r,)

LARGEST_ERROR = 1e-2  # of a sum of weights: those that are kept in float16 or bfloat16 are still weights


def as_numpy(array: Array, name: str = "array") -> np.ndarray:
    """The numbers, in float64, without a gradient."""
    xp, _, (array,) = prepare(**{name: array})
    array = xp.astype(array, xp.float64)
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def plain(values: Any) -> np.ndarray:
    """Numbers or words as they are, in NumPy, without a gradient: of an array, of a list, of a list of tensors."""
    if isinstance(values, list | tuple):
        values = [plain(value)[()] if hasattr(value, "detach") else value for value in values]
    elif hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    return np.asarray(values)


def one_row(weights: Array) -> tuple[Any, Any, Array]:
    """The library, the dtype of the result, and weights (n,) in the dtype to compute in."""
    xp, dtype, (row,) = prepare(weights=weights)
    if row.ndim != 1 or row.shape[0] == 0:
        raise ValueError(
            "weights must have shape (n,) with n at least 1, the row of one query, "
            f"but they have shape {shape_of(row)}."
        )
    return xp, dtype, row


def check_weights(xp: Any, name: str, weights: Array, *, may_be_empty: bool = True) -> None:
    """Along the last axis weights are non-negative and sum to one; a row without an allowed key is all zero."""
    total = xp.sum(weights, axis=-1)
    right = (total > 1 - LARGEST_ERROR) & (total < 1 + LARGEST_ERROR)  # False where it is NaN
    if may_be_empty:
        right |= total == 0
    if not xp.all(right) or xp.any(weights < 0):
        smallest, total = as_numpy(weights).min(initial=np.inf), as_numpy(total)
        raise ValueError(
            f"{name} must be non-negative and sum to 1 along the last axis{', or be all 0' * may_be_empty}, but the "
            f"smallest of shape {shape_of(weights)} is {smallest:.4g} "
            f"and the sums lie between {total.min():.4g} and {total.max():.4g}."
        )


def divided_by_sum(xp: Any, rows: Array) -> Array:
    """Rows (..., n) that sum to one; those that sum to zero stay as they are."""
    total = xp.sum(rows, axis=-1, keepdims=True)
    return rows / xp.where(total == 0, xp.ones_like(total), total)


def outputs_of(predict: Predict, rows: Array) -> tuple[Any, Array]:
    """The dtype of predict(rows), and the r outputs (r,) in the dtype to compute in: rows (r, n)."""
    outputs = predict(rows)
    _, dtype, (_, outputs) = prepare(weights=rows[:, :0], **{"predict(weights)": outputs})
    if shape_of(outputs) != shape_of(rows)[:1]:
        raise ValueError(
            f"predict must return one number for each row of weights, shape ({rows.shape[0]},) for weights of shape "
            f"{shape_of(rows)}, but it returned shape {shape_of(outputs)}."
        )
    return dtype, outputs
