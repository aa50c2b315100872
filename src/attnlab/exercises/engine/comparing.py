"""When do two observations agree? The tolerance is what the reference itself loses in the answer's precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .running import Observation, observe


def cast(arguments: Sequence[Any], dtype: np.dtype) -> tuple[Any, ...]:
    """The same arguments with every floating array in `dtype`; integers, masks and plain numbers stay."""
    with np.errstate(over="ignore"):  # a hard probe may hold numbers that a small dtype cannot
        return tuple(a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arguments)


def precision(observation: Observation, arguments: Sequence[Any]) -> np.dtype:
    """The precision to judge by: the lowest floating type among the answer and what it was given.

    An answer may be stored in float64 and still carry only what float32 inputs left of it.
    """
    carried = [observation.array, *arguments]
    types = [a.dtype for a in carried if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    types += [observation.carries] if observation.carries else []
    return min(types, key=lambda dtype: dtype.itemsize, default=np.dtype(np.float64))


def size(numbers: np.ndarray) -> float:
    """The largest finite magnitude, at least 1: what a tolerance is relative to."""
    magnitudes = np.abs(numbers.astype(np.float64))
    return float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=1.0))


def tolerance(reference: Callable, arguments: Sequence[Any], dtype: np.dtype) -> float:
    """Error to grant an answer in `dtype`, relative to its size: eight times what the reference itself loses there.

    The loss is the larger of two: what rounding the inputs to `dtype` changes, and what moving them by one unit in the
    last place changes. A few last digits are added.
    """
    eps = float(np.finfo(dtype).eps)
    least = 4 * eps + 1e-12
    exact_inputs = cast(arguments, np.dtype(np.float64))
    exact = observe(reference, exact_inputs, watched=False).array
    if exact is None or exact.size == 0:
        return least
    moved = [a * (1 + eps) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in exact_inputs]
    lost = 0.0
    for inputs in (cast(arguments, dtype), moved):
        rough = observe(reference, inputs, watched=False).array
        if rough is not None and rough.shape == exact.shape:
            with np.errstate(all="ignore"):
                off = np.abs(exact - rough.astype(np.float64))
            lost = max(lost, float(np.max(off, where=np.isfinite(off), initial=0.0)))
    return 8 * lost / size(exact) + least


def agree(expected: Observation, received: Observation, rtol: float) -> bool:
    """True when both calls did the same: numbers, shape, and the same arguments left or modified.

    Whole numbers may come as integers or as floats (`keys @ query` of integers is right); truth values are no numbers.
    NaN equals NaN and each infinity itself. Two exceptions agree when they have the same type. The tolerance is
    relative to the largest of the expected numbers.
    """
    if expected.changed != received.changed:
        return False
    if expected.failure or received.failure:
        return bool(expected.failure and received.failure) and expected.failure.kind == received.failure.kind
    if expected.array is None or received.array is None:
        return False
    a, b = expected.array, received.array
    if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= rtol * size(a)
    return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())
