"""What a test found, as an object that is true or false and as a sentence."""

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

__all__ = ["Report", "Table"]


@dataclass(frozen=True, repr=False)
class Report:
    """What one test found.  It is true where the invariant holds, and prints as a sentence.

    change       of an output, absolute, where values have standard deviation 1: the largest of those that should be
                 none, or, where outputs must_change, the smallest.  NaN where an output is not finite, or is none
    tolerance    what rounding may change
    query, key   the positions where that was; None where nothing changed, or where it belongs to no one query or key
    remark       what NaN and ∞ did in forbidden content.  It decides nothing
    must_change  True for `content_sensitivity`: there, a change *below* the tolerance breaks the invariant
    """

    name: str
    holds: bool
    change: float
    tolerance: float
    query: int | None
    key: int | None
    sentence: str
    remark: str = ""
    must_change: bool = False

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = [f"{self._mark} {self.name}: {self.sentence}"]
        return "\n".join(map(_wrapped, [*lines, f"  · {self.remark}"] if self.remark else lines))

    @property
    def _mark(self) -> str:
        return "✓" if self.holds else "✗"


class Table(tuple):
    """The reports of `check_all`, in order.  It is true where all of them hold, and prints as a table."""

    def __bool__(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """The names of the invariants that do not hold."""
        return [report.name for report in self if not report]

    def __repr__(self) -> str:
        lines = [f"{f'{len(self) - len(self.broken)} of {len(self)} invariants hold':<26}{'change':>8}  must be"]
        remarks: dict[str, list[str]] = {}
        for report in self:
            row = f"{report._mark} {report.name:<24}"
            if not math.isnan(report.tolerance):
                sign = ">" if report.must_change else "≤"
                row += f"{number(report.change):>8}  {sign} {number(report.tolerance)}"
            lines += [row.rstrip()] if report else [row.rstrip(), _wrapped(f"  {report.sentence}")]
            if report.remark:
                remarks.setdefault(report.remark, []).append(report.name)
        return "\n".join(lines + [_wrapped(f"· {', '.join(names)}: {remark}") for remark, names in remarks.items()])


def _wrapped(text: str) -> str:
    """On lines that fit beside a notebook's margin, the further ones indented under the first word."""
    indent = " " * (len(text) - len(text.lstrip(" ")) + 2 * (text.lstrip()[0] in "✓✗·"))
    return textwrap.fill(text, 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class Found:
    """A change of an output, and where."""

    change: float = 0.0
    query: int | None = None
    key: int | None = None


def number(change: float) -> str:
    return f"{change:.2g}" if change == 0 or 0.01 <= change < 100 else f"{change:.1e}"


def describe(found: Found, finite: np.ndarray, bad: str) -> str:
    """The sentence of a broken invariant.  `bad` takes {query}, {key} and {changes}; finite (B, n_q) is the start."""
    if not math.isnan(found.change):
        changes = f"changes by {number(found.change)}"
    elif finite[:, found.query].all():
        changes = "becomes NaN or infinite"
    else:
        return f"The output at position {found.query} is NaN or infinite from the start."
    return bad.format(query=found.query, key=found.key, changes=changes)


def equality(
    name: str, found: Found, tolerance: float, finite: np.ndarray, claim: str, bad: str, remark: str = ""
) -> Report:
    """The report of outputs that should be equal: the claim where they are, else what is bad."""
    holds = bool(found.change <= tolerance)  # False for NaN
    if holds:
        sentence = f"{claim} (largest change {number(found.change)}, tolerance {number(tolerance)})."
    else:
        sentence = describe(found, finite, bad)
    return Report(name, holds, found.change, tolerance, found.query, found.key, sentence, remark)


def raised(name: str, error: Exception) -> Report:
    """The report of a function that raised an exception."""
    words: Iterable[str] = [f"It raises {type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
    return Report(name, False, math.nan, math.nan, None, None, " ".join(" ".join(words).split()))
