"""Asking a function: inputs in the wished library, its output as NumPy numbers, and what rounding may do to it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj

from attnlab._inputs import Array, namespace_of, shape_of
from attnlab.invariants._reports import Found, number

# No two sizes are equal that could be taken for each other.
BATCH, HEADS, N, D_K, D_V = 2, 3, 5, 6, 7


class Asked:
    """The function that is asked, `attention`, or a layer if it has a width; and the array that its inputs are like.

    Inputs are a list of NumPy arrays: query, key and value, or the x of a layer.
    """

    def __init__(self, function: Callable, like: Array | None, width: int | None = None) -> None:
        self.function, self.width = function, width
        self.like = np.empty(0, np.float32) if like is None else like
        self.xp = namespace_of(like=self.like)
        if not self.xp.isdtype(self.like.dtype, "real floating"):
            raise TypeError(f"like must be an array of a real floating dtype, but it is {self.like.dtype}.")
        self.finfo = self.xp.finfo(self.like.dtype)
        self.finite = np.empty(0)  # (B, n_q): which outputs were finite, the first time

    @property
    def is_layer(self) -> bool:
        return self.width is not None

    @property
    def row(self) -> str:
        """What an output belongs to."""
        return "token" if self.is_layer else "query"

    def draw(self, rng: np.random.Generator, n_q: int = N, n_k: int = N) -> list[np.ndarray]:
        """Independent numbers with mean 0 and standard deviation 1."""
        if self.is_layer:
            return [rng.normal(size=(BATCH, n_k, self.width))]
        return [rng.normal(size=(BATCH, HEADS, n, d)) for n, d in [(n_q, D_K), (n_k, D_K), (n_k, D_V)]]

    def __call__(self, inputs: Sequence[np.ndarray], mask: np.ndarray) -> np.ndarray:
        """The output, (B, H, n_q, d_v) or (B, n, width), for a mask (n_q, n_k) or (B, n_q or 1, n_k)."""
        if mask.ndim == 3 and not self.is_layer:
            mask = mask[:, None]  # (B, 1, n_q or 1, n_k), for all heads alike
        # Copies, all of them: a function may write into its inputs.
        given = [self._move(self.xp.astype(self.xp.asarray(x), self.like.dtype)) for x in inputs]
        names = ["x"] if self.is_layer else ["query", "key", "value"]
        shapes = ", ".join(f"{name} {x.shape}" for name, x in zip([*names, "mask"], [*inputs, mask], strict=True))
        try:
            with np.errstate(all="ignore"):  # NaN is looked for later, and told
                result = self.function(*given, self._move(mask.copy()))
        except Exception as error:
            error.add_note(f"attnlab.invariants gave it {shapes}.")
            raise
        return _numbers(result, (*inputs[0].shape[:-1], inputs[-1].shape[-1]), shapes)

    def twice(self, inputs: Sequence[np.ndarray], mask: np.ndarray, tolerance: float) -> np.ndarray:
        """The output, to compare others with, after making sure that asking again gives it again."""
        first, second = self(inputs, mask), self(inputs, mask)
        change = apart(first, second).max()
        if change > tolerance:
            raise ValueError(
                f"The same inputs gave outputs that are {number(change)} apart.  Invariants need a function without "
                "chance: is dropout still on?"
            )
        self.finite = ~np.isnan(apart(first, first))  # (B, n_q)
        return first

    def _move(self, array: Array) -> Array:
        return self.xp.asarray(array, device=device(self.like))

    def tolerance(self, wished: float | None, *inputs: Sequence[np.ndarray]) -> float:
        """The wished tolerance, or what rounding may do to any of these inputs."""
        if wished is not None:
            return wished
        tolerance = max(self._rounding(some) for some in inputs)
        if tolerance > 0.1:
            raise ValueError(
                f"Rounding alone may change an output by {number(tolerance)} in {self.like.dtype}, as much as content "
                "does: test in float32, or say which tolerance you accept."
            )
        return tolerance

    def _rounding(self, inputs: Sequence[np.ndarray]) -> float:
        """How far apart two correct outputs may be because they were rounded differently: worst case, to first order.

        With u = eps/2: the score of one key sums d_k products, so that its error is at most (d_k + 4) u P, where P
        is the largest Σ|q||k|/√d_k and the 4 leaves room for the inputs' own rounding, the scale and a sum of maxima.
        exp makes it a relative error, once in a weight's numerator and once in its denominator; the sums over the
        keys, in the denominator and in the output, add (n_k + 2) u each.  Two outputs: twice that, times the largest
        value.  For a layer, it is the bound of one attention of its own inputs.
        """
        query, key, value = inputs if len(inputs) == 3 else [inputs[0]] * 3
        n_k, d_k = key.shape[-2:]
        P = (np.abs(query) @ np.abs(key).swapaxes(-1, -2)).max() / math.sqrt(d_k)
        return float(self.finfo.eps * np.abs(value).max() * (2 * (d_k + 4) * P + 2 * (n_k + 2)))


def _numbers(result: Any, wanted: tuple[int, ...], given: str) -> np.ndarray:
    """The output as float64, whatever its library, dtype or device, with or without a gradient."""
    output = result[0] if isinstance(result, tuple | list) and result else result
    if not is_array_api_obj(output):
        raise TypeError(
            f"The function must return an array, or a tuple whose first item is one, but it returned "
            f"{type(output).__name__}."
        )
    if shape_of(output) != wanted:
        raise ValueError(f"For {given}, the output must have shape {wanted}, but it has shape {shape_of(output)}.")
    return np.asarray(output.tolist(), dtype=np.float64).reshape(wanted)


def apart(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The largest change of each query's output, over features and heads: (B, n_q).  NaN where it is not finite."""
    with np.errstate(invalid="ignore"):  # ∞ - ∞
        change = np.abs(after - before).max(-1)  # (B, H, n_q) or (B, n)
    change = np.where(np.isfinite(change), change, math.nan)
    return change if change.ndim == 2 else change.max(1)  # (B, n_q)


def largest(change: np.ndarray, key: int | None = None) -> Found:
    """The largest change of (B, n_q), and its query; NaN counts as larger than any number."""
    at = int(change.argmax())
    return Found() if change.flat[at] == 0 else Found(float(change.flat[at]), at % change.shape[-1], key)


def worst(found: Sequence[Found]) -> Found:
    return max(found, key=lambda one: math.inf if math.isnan(one.change) else one.change)
