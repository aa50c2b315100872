"""When do two observations agree? The tolerance is what the reference itself loses in the answer's precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .running import Observation, observe

# How NumPy and torch say that shapes do not fit: a wrong answer is the same mistake in both, and the two seldom use the
# same type. (AxisError is NumPy's for an axis that is not there; torch's is IndexError.)
MISFIT = frozenset({"ValueError", "RuntimeError", "IndexError", "AxisError"})


def cast(arguments: Sequence[Any], dtype: np.dtype) -> tuple[Any, ...]:
    """The same arguments with every floating array in `dtype`; integers, masks and plain numbers stay."""
    with np.errstate(over="ignore"):  # a hard probe may hold numbers that a small dtype cannot
        return tuple(a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arguments)


def precision(observation: Observation, arguments: Sequence[Any]) -> np.dtype:
    """The precision to judge by: the lowest floating type among the answer and what it was given.

    An answer may be stored in float64 and still carry only what float32 inputs left of it. One that is rounded further
    than its inputs is judged as float32: with half of the digits, wrong answers could not be told from right ones.
    """
    types = [a.dtype for a in arguments if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    if observation.array is not None and observation.array.dtype.kind == "f":
        types.append(max(observation.array.dtype, np.dtype(np.float32), key=lambda dtype: dtype.itemsize))
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
    exact = observe(reference, exact_inputs, watched=False)
    if exact.array is None or exact.array.size == 0:
        return least
    moved = [a * (1 + eps) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in exact_inputs]
    lost = 0.0
    for inputs in (cast(arguments, dtype), moved):
        rough = observe(reference, inputs, watched=False)
        for one, other in zip(exact.parts, rough.parts, strict=False):
            if one.shape == other.shape:
                with np.errstate(all="ignore"):
                    off = np.abs(one - other.astype(np.float64))
                lost = max(lost, float(np.max(off, where=np.isfinite(off), initial=0.0)) / size(one))
    return 8 * lost + least


def agree(expected: Observation, received: Observation, rtol: float) -> bool:
    """True when both calls did the same: numbers, shape, gradients, bytes, and the same arguments left or modified.

    Whole numbers may come as integers or as floats (`keys @ query` of integers is right); truth values are no numbers.
    NaN equals NaN and each infinity itself. Two exceptions agree when their classes have the same name (whose classes
    they are does not matter), or both may say that shapes do not fit. The tolerance is relative to the largest of the
    expected numbers. A gradient that does not arrive counts as zero, as in training. Of bytes it matters only whether
    they are too many, where both are counted.
    """
    if expected.changed != received.changed:
        return False
    if (expected.failure is None) != (received.failure is None):  # no name of a class may stand for "no exception"
        return False
    if expected.failure and received.failure:
        kinds = {expected.failure.kind, received.failure.kind}
        return len(kinds) == 1 or kinds <= MISFIT
    if expected.array is None or received.array is None:
        return False
    if None not in (expected.heavy, received.heavy) and expected.heavy != received.heavy:
        return False
    a, b = expected.array, received.array
    if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
        return False
    return _near(a, b, rtol) and all(
        _near(np.zeros_like(y) if x is None else x, np.zeros_like(x) if y is None else y, rtol)
        for x, y in zip(expected.gradients, received.gradients, strict=True)
        if x is not None or y is not None
    )


def _near(a: np.ndarray, b: np.ndarray, rtol: float) -> bool:
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = a == b
    if same.all():
        return True
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= rtol * size(a)
    return bool((near | same | (np.isnan(a) & np.isnan(b))).all())
