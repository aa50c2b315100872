"""The tables that a spreadsheet opens: no cell of them is run."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable

FORMULA = ("=", "+", "-", "@", "\N{MINUS SIGN}")  # what makes a spreadsheet compute a cell, wide and small forms too
BREAKS = ("\t", "\r", "\n")
MARK = "'"


def csv_of(rows: Iterable[Iterable[str | float]]) -> str:
    """The rows as CSV: numbers as they are, and each text `as_text`."""
    lines = []
    for row in rows:
        line = io.StringIO()
        cells = [as_text(cell) if isinstance(cell, str) else cell for cell in row]
        csv.writer(line, lineterminator="\r\n").writerow(cells)  # so that it quotes \r and \n in a cell
        lines.append(line.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def as_text(cell: str) -> str:
    """The cell as a spreadsheet shows it and does not run it: what could begin a formula has an apostrophe before it.

    Spaces and invisible characters at the beginning are looked through.  What begins with an apostrophe gets a second
    one, so that no two cells become one, and `bare` gives each back.
    """
    begins = unicodedata.normalize("NFKC", cell[_blank(cell) :][:1])
    return MARK + cell if cell.startswith((*BREAKS, MARK)) or begins.startswith(FORMULA) else cell


def bare(cell: str) -> str:
    """The cell before `as_text`."""
    return cell.removeprefix(MARK)


def _blank(cell: str) -> int:
    """How many characters at the beginning show nothing: spaces, controls, byte order marks."""
    return next((n for n, each in enumerate(cell) if unicodedata.category(each)[0] not in "ZC"), len(cell))
