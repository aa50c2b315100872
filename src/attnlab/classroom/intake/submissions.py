"""One submission's notebook, read as text from outside: nothing of it is run, and nothing in it can stop the reading.

    handed = read(path.read_bytes(), ["1.1", "1.2", "6.11"])
    handed.cells, handed.words, handed.remarks

Notebooks come as Jupyter, Colab and VS Code save them, in every format since 3, edited by hand, cut off, or as
something else with the ending .ipynb.  Whatever is lost is said in a remark.  Magics stay as they are.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from nbformat import NotebookNode

from .reading import Unreadable, clean_cells

MOST_REMARKS = 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RELEASED = re.compile(r"^\*Your answer, in place of this line\.[^*\n]*\*", re.M)


@dataclass(frozen=True)
class Cell:
    """A code cell. `index` is its place among all cells of `Handed.notebook`.

    number, part   the exercise it belongs to, and as what: ("1.2", "answer"); None where nothing tells
    grade_id       nbgrader's name for it, or None
    """

    index: int
    source: str
    number: str | None = None
    part: str | None = None
    grade_id: str | None = None

    @property
    def answers(self) -> str | None:
        """The exercise that the cell is meant to answer, or None."""
        return self.number if self.part == "answer" else None

    @property
    def checks(self) -> bool:
        """Whether it is the cell in which a student checks an answer."""
        return self.part == "check"


@dataclass(frozen=True)
class Handed:
    """What a submission holds.

    cells      its code cells, in order; several of one exercise where a cell was copied
    words      question → what stands in its cell; "" where that is still the released line
    remarks    sentences on what was lost or is odd
    notebook   a clean copy in format 4: sources, marks and attached pictures, without outputs; None where the file is
               no notebook
    """

    cells: tuple[Cell, ...]
    words: dict[str, str]
    remarks: tuple[str, ...]
    notebook: NotebookNode | None


def read(data: bytes, numbers: Collection[str] = ()) -> Handed:
    """What `data`, the content of a file, holds. Never raises.

    `numbers` are the exercises and open questions that were handed out: a remark names each that has no cell.
    """
    remarks: list[str] = []
    try:
        cells, metadata = clean_cells(data, remarks)
    except Unreadable as error:
        return Handed((), {}, _few([*remarks, str(error)]), None)
    return _handed(cells, metadata, numbers, remarks)


def _few(remarks: list[str]) -> tuple[str, ...]:
    """Each once, and not thousands."""
    once = list(dict.fromkeys(remarks))
    left = len(once) - MOST_REMARKS
    return (*once[:MOST_REMARKS], f"{left} more remarks like these are left out.") if left > 0 else tuple(once)


# ---- from cells to answers -----------------------------------------------------------------------------------------


def _handed(cells: list[NotebookNode], metadata: NotebookNode, numbers: Collection[str], remarks: list[str]) -> Handed:
    taken: set[str] = set()
    code, words = [], {}
    for index, cell in enumerate(cells):
        _name(cell, index, taken)
        number, part = cell.metadata.get("exercise"), cell.metadata.get("part")
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            mark = cell.metadata.get("nbgrader", {}).get("grade_id")
            code.append(Cell(index, cell.source, number, part, mark))
        elif part == "words":
            words.setdefault(number, []).append(_RELEASED.sub("", cell.source).strip())
    answers = Counter(cell.number for cell in code if cell.part == "answer")
    for number, times in answers.items():
        if times > 1:
            remarks.append(
                f"The answer cell of exercise {number} is there {times} times; the last that is begun counts."
            )
    for number, texts in words.items():
        if len(written := [text for text in dict.fromkeys(texts) if text]) > 1:
            remarks.append(f"The answer to question {number} is there {len(written)} times; all of it is read.")
        words[number] = "\n\n".join(written)
    for number in numbers:
        if number not in answers and number not in words:
            remarks.append(f"The answer cell of {number} is missing.")
    notebook = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells)
    return Handed(tuple(code), words, _few(remarks), notebook)


def _name(cell: NotebookNode, index: int, taken: set[str]) -> None:
    """An id that format 4.5 allows, and that no cell before has; the same each time."""
    name = cell.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name in taken:
        names = (f"cell-{index}{'-again' * times}" for times in itertools.count())
        name = next(each for each in names if each not in taken)
    taken.add(name)
    cell.id = name
