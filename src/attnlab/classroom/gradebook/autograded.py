"""What a teacher sees of a submission in formgrader: the student's notebook, mended, with our cards as its outputs.

nbgrader makes such a notebook by running it.  Here nothing is run: the released cells are restored as nbgrader restores
them, and each check cell gets the card of its verdict, and an error where the answer earns no points, so that nbgrader
reads the grade from it as from one of its own.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from nbformat import NotebookNode
from nbgrader.api import SourceCell
from nbgrader.preprocessors import OverwriteCells

from attnlab.exercises.engine.cards import Note, Verdict

from ..assignments import Assignment
from ..preprocessors import MendCells
from ..results import Result
from .harmless import harmless

OURS = ("exercise", "part", "role")  # what the course writes into a cell's metadata
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
NAMES = re.compile(r"[A-Za-z0-9_.-]+")  # of attachments: nbconvert looks for %20 where a space is
NOTE = "grading-note"  # the id of the cell at the top with what is to be said of a submission


@dataclass(frozen=True)
class Released:
    """A released notebook as nbgrader knows it, read once for a whole class.

    page      release/NAME/NOTEBOOK.ipynb
    marks     {grade id: nbgrader's metadata}
    rows      {grade id: its row in the gradebook}
    nothing   {"1.2": what is shown of that exercise where nothing could be judged}
    """

    page: NotebookNode
    marks: dict[str, NotebookNode]
    rows: dict[str, SimpleNamespace]
    nothing: dict[str, Verdict]

    @classmethod
    def of(cls, assignment: Assignment, page: NotebookNode, marks: dict, cells: Iterable[SourceCell]) -> Released:
        columns = ("name", "cell_type", "locked", "source", "checksum")
        rows = {cell.name: SimpleNamespace(**{name: getattr(cell, name) for name in columns}) for cell in cells}
        title = "There is nothing to judge"
        nothing = {each.number: Verdict("missing", title, **each.label) for each in assignment.exercises}
        return cls(page, marks, rows, nothing)

    def cells(self) -> dict[str, NotebookNode]:
        """{grade id: a copy of the released cell}, in the order of the notebook."""
        return {name: copy.deepcopy(cell) for cell in self.page.cells if (name := grade_id(cell)) in self.marks}

    def part(self, part: str) -> dict[str, str]:
        """{grade id: "1.2"} of all cells that are this part of an exercise."""
        cells = [cell for cell in self.page.cells if cell.metadata.get("part") == part]
        return {grade_id(cell): cell.metadata["exercise"] for cell in cells if grade_id(cell) in self.marks}

    # OverwriteCells asks these two for each cell of each submission.

    def find_source_cell(self, name: str, *_: str) -> SimpleNamespace:
        return self.rows[name]

    def find_graded_cell(self, name: str, *_: str) -> SimpleNamespace:
        return SimpleNamespace(max_score=self.marks[name].points)


class _Mend(MendCells):
    """MendCells with what the gradebook says, asked once for a class."""

    def __init__(self, released: Released) -> None:
        super().__init__()
        self.released = released

    def released_marks(self, **_: str) -> dict[str, NotebookNode]:
        return copy.deepcopy(self.released.marks)


class _Overwrite(OverwriteCells):
    """OverwriteCells with what the gradebook says, asked once for a class."""

    def __init__(self, released: Released) -> None:
        super().__init__()
        self.gradebook, self.notebook_id, self.assignment_id = released, "", ""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        return super(OverwriteCells, self).preprocess(nb, resources)


def grade_id(cell: NotebookNode) -> str | None:
    """nbgrader's name of a cell, or None."""
    mark = cell.metadata.get("nbgrader")
    name = mark.get("grade_id") if isinstance(mark, dict) else None
    return name if isinstance(name, str) else None


def autograded(result: Result, notebook: NotebookNode | None, released: Released) -> NotebookNode:
    """The notebook for autograded/STUDENT/NAME.

    `notebook` is what was handed in, and stays as it is; None where it cannot be read. In place of one that cannot be
    read stands the released one. It is valid whatever was handed in, and the same for the same result.
    """
    metadata = copy.deepcopy(released.page.metadata)
    page = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=[])
    given = released.page if notebook is None else notebook
    page.cells = [_plain(cell) for cell in given.get("cells", []) if isinstance(cell, dict)]
    page, resources = _Mend(released).preprocess(page, {"nbgrader": {}})
    page.cells = list(_restored(page.cells, released))
    _put_words(page.cells, result, released)
    page, resources = _Overwrite(released).preprocess(page, resources)
    _disarm(page.cells, released)
    _put_cards(page.cells, result, released)
    if result.remarks or notebook is None:
        page.cells.insert(0, _note(result, notebook is None))
    _name(page.cells, released)
    return page


def _plain(cell: NotebookNode) -> NotebookNode:
    """A cell of a submission without its outputs, and of its metadata only what the course and nbgrader wrote."""
    kind = cell["cell_type"] if cell.get("cell_type") in ("code", "markdown") else "raw"
    theirs = cell["metadata"] if isinstance(cell.get("metadata"), dict) else {}
    metadata = NotebookNode({name: theirs[name] for name in OURS if isinstance(theirs.get(name), str)})
    if mark := grade_id(NotebookNode(metadata=theirs)):
        metadata.nbgrader = NotebookNode(grade_id=mark)
    name = cell["id"] if isinstance(cell.get("id"), str) else ""
    plain = NotebookNode(id=name, cell_type=kind, metadata=metadata, source=_text(cell.get("source")))
    if kind == "code":
        plain |= {"outputs": [], "execution_count": None}
    elif pictures := _pictures(cell.get("attachments")):
        plain.attachments = pictures
    return plain


def _text(source: object) -> str:
    """A source as text that UTF-8 can hold: JSON can bring halves of a character."""
    joined = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
    return joined.encode("utf-8", "replace").decode("utf-8")


def _pictures(attachments: object) -> NotebookNode:
    """The pictures that were pasted into a cell, and nothing else that can be attached."""
    found = NotebookNode()
    named = attachments.items() if isinstance(attachments, dict) else ()
    for name, kinds in [(name, kinds) for name, kinds in named if NAMES.fullmatch(name)]:
        for kind, data in kinds.items() if isinstance(kinds, dict) else ():
            if kind in PICTURES and isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data):
                found[name] = NotebookNode({kind: data})
    return found


def _restored(cells: list[NotebookNode], released: Released) -> Iterator[NotebookNode]:
    """Every marked cell as it was released, with the student's source where it is theirs to write.

    Cells for points that were deleted come back at the end: a teacher grades in them.
    """
    ours = released.cells()
    for cell in cells:
        fresh = ours.pop(grade_id(cell), None)
        if fresh is None:
            yield cell
            continue
        fresh.metadata.nbgrader = cell.metadata.nbgrader
        if not released.rows[grade_id(fresh)].locked:
            fresh.source = cell.source
            if "attachments" in cell and fresh.cell_type == "markdown":
                fresh.attachments = cell.attachments
        yield fresh
    for name, fresh in ours.items():
        if released.marks[name].grade or released.marks[name].task:
            fresh.metadata.nbgrader = copy.deepcopy(released.marks[name])
            yield fresh


def _put_words(cells: list[NotebookNode], result: Result, released: Released) -> None:
    """Words that were found elsewhere than in their cell, where a teacher reads them."""
    numbers = released.part("words")
    for cell in cells:
        words = _text(result.words.get(numbers.get(grade_id(cell), ""))).strip()
        if words not in cell.source:
            cell.source = words


def _disarm(cells: list[NotebookNode], released: Released) -> None:
    """Take what is not ours of Markdown its power."""
    ours = {cell.source for cell in released.page.cells}
    for cell in cells:
        if cell.cell_type != "code" and cell.source not in ours:
            cell.source = harmless(cell.source, cell.get("attachments", ()))


def _put_cards(cells: list[NotebookNode], result: Result, released: Released) -> None:
    """The verdict of each exercise, as the output of its check cell."""
    numbers = released.part("check")
    for cell in cells:
        if number := numbers.get(grade_id(cell)):
            verdict = result.verdicts.get(number) or released.nothing.get(number)
            cell.outputs = _outputs(verdict) if verdict else cell.outputs


def _outputs(verdict: Verdict) -> list[NotebookNode]:
    data = NotebookNode({"text/html": _shown(verdict), "text/plain": _text(str(verdict))})
    card = NotebookNode(output_type="display_data", data=data, metadata=NotebookNode())
    if verdict.correct:
        return [card]
    title = _text(verdict.title)
    error = NotebookNode(output_type="error", ename="NotCorrect", evalue=title, traceback=[f"NotCorrect: {title}"])
    return [card, error]


def _shown(card: Verdict | Note) -> str:
    r"""A card as HTML in which MathJax finds no formulas: it quotes what an answer said, perhaps $\href{…}{…}$."""
    return f'<div class="tex2jax_ignore mathjax_ignore">{_text(card._repr_html_())}</div>'


def _note(result: Result, unread: bool) -> NotebookNode:
    instead = ["The notebook below is the released one: what was handed in cannot be shown."] if unread else []
    note = Note("About this submission", "\n\n".join([*result.remarks, *instead]))
    source = " ".join(_shown(note).split())  # an empty line would end the HTML
    return NotebookNode(id=NOTE, cell_type="markdown", metadata=NotebookNode(), source=source)


def _name(cells: list[NotebookNode], released: Released) -> None:
    """Ids that are valid, that occur once, and that are the same each time: the released ones, else by position."""
    marked = {grade_id(cell): cell.get("id") for cell in released.page.cells if grade_id(cell) in released.marks}
    free = {cell.get("id") for cell in released.page.cells} - {*marked.values()} | {NOTE}
    for number, cell in enumerate(cells):
        wanted = marked.get(grade_id(cell)) or cell.id
        cell.id = wanted if wanted and (wanted in free or grade_id(cell) in marked) else f"theirs-{number}"
        free.discard(wanted)
