"""What arrays say of themselves: their numbers as text, and how wrong ones relate to the expected ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .comparing import size
from .running import as_array

LONGEST = 4_000  # characters of one array on a card


def value(given: Any) -> str:
    """An argument or a result as a card shows it."""
    if not isinstance(given, np.ndarray):
        return f"{given:.4g}" if isinstance(given, float) else str(given)
    plain, tiny = given, False
    if given.dtype.kind == "f":
        zeros = np.abs(given) < 5e-5  # what would print as 0. or -0.
        # Where all are that small they are written with exponents, unless rounding left them where zeros should be.
        tiny = zeros[np.isfinite(given)].all() and (np.abs(given[zeros]) > 1e-13).any()
        plain = np.where(zeros & (not tiny), given.dtype.type(0), given) + given.dtype.type(0)
    with np.printoptions(precision=4, suppress=not tiny, threshold=60, edgeitems=3, linewidth=64):
        shown = np.array2string(plain)
    if len(shown) > LONGEST:  # with many short axes, NumPy leaves nothing out
        shown = f"{shown[:LONGEST]}\n… {given.size:,} numbers"
    if given.ndim == 0:
        return shown
    kind = "" if given.dtype == np.float64 else f" {given.dtype}"
    joint = "\n" if given.ndim > 1 else " "
    return f"{shown}{joint}shape {given.shape}{kind}"


@np.errstate(all="ignore")  # differences of infinities
def unseen_difference(expected: np.ndarray | None, received: np.ndarray | None) -> str:
    """Two more lines where `value` prints both alike and they are not: the largest difference, its place, both numbers.

    It lies in a last digit that is not printed, or at a place that is left out of a long array.
    """
    if expected is None or received is None or expected.shape != received.shape:
        return ""
    a, b = expected.astype(np.float64), received.astype(np.float64)
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differ.any() or value(a) != value(b):
        return ""
    off = np.where(differ, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf), -1)
    place = np.unravel_index(np.argmax(off), off.shape)
    at = f", at [{', '.join(map(str, place))}]" if place else ""
    if expected.dtype.kind == "b" or not np.isfinite(off[place]):
        return f"\nnot shown{at}: {value(received[place])}, expected {value(expected[place])}"
    larger = max(abs(a[place]), abs(b[place]))
    digits = min(2 + max(0, int(np.ceil(np.log10(larger / off[place])))), 17)
    return (
        f"\nprinted alike; largest difference {off[place]:.1g}{at}:"
        f"\n{b[place]:.{digits}g}, expected {a[place]:.{digits}g}"
    )


def numbers(given: Any) -> np.ndarray | None:
    """The numbers in an array, a tensor or nested lists; None where there are other things."""
    try:
        array = as_array(given)
        array = np.asarray(given) if array is None else array  # truth values stay truth values
        return array if array.dtype.kind in "fiub" else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: torch, for a list of tensors
        return None


def in_a_row(items: list | tuple) -> np.ndarray | None:
    """All numbers of several items, in one array."""
    parts = [numbers(item) for item in items]
    return np.concatenate([part.ravel() for part in parts]) if parts and all(p is not None for p in parts) else None


@np.errstate(all="ignore")  # differences of the largest numbers
def about_numbers(expected: np.ndarray, received: np.ndarray, dtype: np.dtype) -> list[str]:
    """What is wrong with an array, the plainest first: its kind, its shape, its infinities, its numbers."""
    close = 1e-3 if dtype == np.float16 else 1e-5
    words = []
    truths = [a.dtype.kind == "b" for a in (expected, received)]
    if truths == [True, False]:
        words.append(f"Truth values (True/False) are expected; yours are numbers of type {received.dtype}.")
    elif truths == [False, True]:
        words.append("Numbers are expected; yours are truth values (True/False).")
    elif expected.dtype.kind == "f" and received.dtype.kind != "f":
        words.append(f"It returned numbers of type {received.dtype}; the fractions are lost.")
    if received.shape != expected.shape:
        words.append(f"Its shape is {received.shape}; expected {expected.shape}.")
        for name, other in (("Transposed", received.T), ("Without the axes of length 1", received.squeeze())):
            if other.shape == expected.shape and np.allclose(other, expected, atol=close):
                words.append(f"{name}, its values would be right.")
                return words
        return words
    if any(truths):
        differ = np.count_nonzero(received != expected)
        return words or [f"{differ} of {expected.size} truth values differ."]
    infinite = ~np.isfinite(expected)
    for kind, where, shown in (
        ("are", ~np.isfinite(received) & ~infinite, received),
        ("should be", infinite & ~np.isclose(received, expected, equal_nan=True), expected),
    ):
        if where.any():
            kinds = sorted({str(v).replace("-inf", "-∞").replace("inf", "∞") for v in shown[where]})
            words.append(f"{where.sum()} of {where.size} numbers {kind} {' and '.join(kinds)}.")
            return words
    return words + _relations(expected.astype(np.float64), received.astype(np.float64), close)


def _relations(expected: np.ndarray, received: np.ndarray, close: float) -> list[str]:
    """A constant factor or offset, another order, an axis that sums to one: relations worth naming.

    Both are infinite at the same places; what is said holds of the others.
    """
    finite, axes = np.isfinite(expected), range(expected.ndim)
    if not finite.all():
        expected, received, axes = expected[finite], received[finite], ()  # what is infinite has no sum
    off = np.abs(received - expected).max(initial=0)
    if off <= close * size(expected):
        return [f"Almost: the largest difference is {off:.1g}. Is something rounded or approximated?"]
    if expected.size < 2:
        return []
    sums = [axis for axis in axes if np.allclose(expected.sum(axis), 1, atol=close)]
    mine = [axis for axis in axes if np.allclose(received.sum(axis), 1, atol=close)]
    if sums and not mine:
        totals = received.sum(sums[-1])
        total = f"{totals:.4g}" if totals.ndim == 0 else value(totals)
        along = f" along {_axis(sums[-1], expected.ndim)}" if totals.ndim else ""
        return [f"The numbers of the result should sum to one{along}; on this input yours sum to {total}."]
    if sums and mine != sums:
        return [
            f"Your numbers sum to one along {_axis(mine[0], expected.ndim)}; "
            f"they should along {_axis(sums[-1], expected.ndim)}."
        ]
    safe = np.abs(expected) > 1e-9
    if safe.any() and np.all(np.abs(received[~safe]) < close):
        ratio = received[safe] / expected[safe]
        if np.ptp(ratio) <= close * max(1.0, np.abs(ratio).max()) and abs(ratio.flat[0] - 1) > close:
            return [f"On this input, every number is {ratio.flat[0]:.4g} times the expected one."]
    shift = received - expected
    if np.ptp(shift) < close and np.abs(shift).max() > close:
        return [f"On this input, every number is {shift.flat[0]:+.4g} off."]
    if np.allclose(np.sort(received, axis=None), np.sort(expected, axis=None), atol=close):
        return ["They are the right numbers in another order."]
    if sums and (received < -close).any():
        return ["Some of your numbers are negative."]
    if off <= 1e-2 * size(expected):
        return [f"Near, but the largest difference is {off:.1g}. Is something rounded, or held in half precision?"]
    return []


def _axis(axis: int, ndim: int) -> str:
    return f"axis {axis}" + ", the last one" * (axis == ndim - 1)
