"""The tables that a spreadsheet opens: no cell of them is run."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable

FORMULA = ("=", "+", "-", "@", "\N{MINUS SIGN}")  # what makes a spreadsheet compute a cell, wide and small forms too
BREAKS = ("\t", "\r", "\n")
BORDERS = re.compile(r"([;\t\r\n])")  # where a spreadsheet may part a cell: not everywhere are cells parted by commas
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

    The same holds behind each semicolon, tab and new line, which part cells in other readings of the table.  Spaces,
    invisible characters and quotes at a beginning are looked through.  What begins with an apostrophe gets a second
    one, so that no two cells become one, and `bare` gives each back.
    """
    first, *others = BORDERS.split(cell)
    marked = MARK + first if cell.startswith(BREAKS) else _marked(first)
    return marked + "".join(map(_marked, others))


def bare(cell: str) -> str:
    """The cell before `as_text`."""
    return "".join(part.removeprefix(MARK) for part in BORDERS.split(cell))


def _marked(part: str) -> str:
    begins = unicodedata.normalize("NFKC", part[_blank(part) :][:1])
    return MARK + part if part.startswith(MARK) or begins.startswith(FORMULA) else part


def _blank(part: str) -> int:
    """How many characters at the beginning show nothing (spaces, controls, byte order marks) or are quotes.

    A quote that stands in a cell may be one that opens a cell, where another character parts them.
    """
    shows = (n for n, each in enumerate(part) if unicodedata.category(each)[0] not in "ZC" and each != '"')
    return next(shows, len(part))
