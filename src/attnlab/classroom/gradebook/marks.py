"""What the gradebook holds of an assignment: points, comments and late penalties, in a few queries for a whole class.

marks = marks_of(course, "week1")
given = marks.given("ada", "01_weights")
given.cells["ex-1-2-check"].points, given.total, given.most
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..preprocessors import Gradebook  # it says what to do where nbgrader is missing

from nbgrader.api import BaseCell, Comment, Grade, Notebook, SubmittedAssignment, SubmittedNotebook  # isort: skip

from ..assignments import Assignment
from ..handout.releasing import configured

# nbgrader's automatic comment on a cell that is as it was handed out. Our pages say that in words of their own, and an
# answer that stands in another cell is one.
NO_RESPONSE = "No response."


@dataclass(frozen=True, slots=True)
class Mark:
    """What the gradebook holds of one cell of one submission.

    points    as they count now, with the extra credit; None where nobody has given any yet, or there are none to give
    extra     the extra credit in them
    by_hand   whether a person gave them
    waits     whether a person has to look at the cell, or to look again
    comment   "" where there is none
    """

    points: float | None = None
    extra: float = 0.0
    by_hand: bool = False
    waits: bool = False
    comment: str = ""


@dataclass(frozen=True)
class Given:
    """What the gradebook holds of one student's notebook. Cells are called as nbgrader calls them.

    cells     {cell: Mark}
    worth     {graded cell: its maximum}
    points    in this notebook, before the late penalty
    others    in the assignment's other notebooks; None where this is the only one
    penalty, total, most    of the whole assignment: for handing in late, what nbgrader exports, and the maximum
    """

    cells: dict[str, Mark]
    worth: dict[str, float]
    points: float
    others: float | None
    penalty: float
    total: float
    most: float


@dataclass
class Sheet:
    """One student's notebook, as it is read: its cells, and the late penalty that nbgrader keeps for it."""

    cells: dict[str, Mark] = field(default_factory=dict)
    penalty: float = 0.0

    @property
    def points(self) -> float:
        """Before the penalty."""
        return math.fsum(mark.points or 0.0 for mark in self.cells.values())  # in whatever order the rows came

    @property
    def counts(self) -> float:
        """The points less the penalty: of an assignment of one notebook, what nbgrader exports."""
        return max(0.0, self.points - self.penalty)


@dataclass(frozen=True)
class Marks:
    """What the gradebook holds of one assignment.

    worth    {notebook: {graded cell: its maximum}}
    sheets   {(student, notebook): Sheet}
    """

    worth: dict[str, dict[str, float]]
    sheets: dict[tuple[str, str], Sheet]

    @property
    def students(self) -> set[str]:
        return {student for student, _ in self.sheets}

    @property
    def most(self) -> float:
        return math.fsum(most for cells in self.worth.values() for most in cells.values())

    def total(self, student: str) -> tuple[float, float]:
        """(what nbgrader exports, the late penalty that is taken off in it)"""
        sheets = [self.sheets[student, name] for name in self.worth if (student, name) in self.sheets]
        penalty = math.fsum(each.penalty for each in sheets)
        return max(0.0, math.fsum(each.points for each in sheets) - penalty), penalty

    def given(self, student: str, notebook: str) -> Given | None:
        """Of one student's notebook; None where the gradebook has none."""
        sheet = self.sheets.get((student, notebook))
        if sheet is None:
            return None
        others = [self.sheets.get((student, name), Sheet()).points for name in self.worth if name != notebook]
        total, penalty = self.total(student)
        rest = math.fsum(others) if others else None
        return Given(sheet.cells, self.worth[notebook], sheet.points, rest, penalty, total, self.most)


def cells_of(assignment: Assignment) -> dict[str, tuple[str | None, str | None]]:
    """{nbgrader's name of a cell: (the exercise, the part of it)}, in the order of the notebook.

    (None, None) stands for a cell that a teacher has added.
    """
    marked = [cell for cell in assignment.released.cells if "nbgrader" in cell.metadata]
    return {
        cell.metadata.nbgrader.grade_id: (cell.metadata.get("exercise"), cell.metadata.get("part")) for cell in marked
    }


def marks_of(course: Path, name: str) -> Marks:
    """What the gradebook of a course directory holds of the assignment `name` now.

    ValueError where nbgrader does not know the assignment.
    """
    coursedir = configured(course).coursedir
    with contextlib.closing(Gradebook(coursedir.db_url, coursedir.course_id)) as gradebook:
        assignment = gradebook.find_assignment(name)
        worth = {
            each.name: {cell.name: cell.max_score for cell in (*each.grade_cells, *each.task_cells)}
            for each in sorted(assignment.notebooks, key=lambda each: each.name)
        }
        sheets = _sheets(gradebook, assignment.id)
    return Marks(worth, sheets)


def _sheets(gradebook: Gradebook, assignment: str) -> dict[tuple[str, str], Sheet]:
    """One query for the notebooks, one for the points, one for the comments."""
    where = (SubmittedAssignment.student_id, Notebook.name)
    rows = _submitted(gradebook, assignment, *where, SubmittedNotebook.late_submission_penalty)
    sheets = {(student, notebook): Sheet(penalty=penalty or 0.0) for student, notebook, penalty in rows}
    columns = (Grade.score, Grade.auto_score, Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade)
    for student, notebook, cell, *grade in _of_cells(gradebook, assignment, Grade, *where, BaseCell.name, *columns):
        sheets[student, notebook].cells[cell] = _mark(*grade)
    columns = (Comment.manual_comment, Comment.auto_comment)
    commented = _of_cells(gradebook, assignment, Comment, *where, BaseCell.name, *columns)
    for student, notebook, cell, by_hand, automatic in commented.filter(Comment.comment.is_not(None)):
        text = by_hand if by_hand is not None else automatic.removeprefix(NO_RESPONSE)
        if text.strip():
            cells = sheets[student, notebook].cells
            cells[cell] = replace(cells.get(cell, Mark()), comment=text.strip())
    return sheets


def _mark(score: float, by_check: float | None, by_hand: float | None, extra: float | None, waits: bool) -> Mark:
    if by_check is None and by_hand is None:
        return Mark(waits=waits)  # nbgrader counts no extra credit before there are points
    return Mark(score, extra or 0.0, by_hand is not None, waits)


def _submitted(gradebook: Gradebook, assignment: str, *columns: Any) -> Any:
    """A query on what was handed in for an assignment."""
    return (
        gradebook.db.query(*columns)
        .select_from(SubmittedNotebook)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .filter(SubmittedAssignment.assignment_id == assignment)
    )


def _of_cells(gradebook: Gradebook, assignment: str, kind: type, *columns: Any) -> Any:
    """A query on the grades or the comments in it."""
    query = _submitted(gradebook, assignment, *columns).join(kind, kind.notebook_id == SubmittedNotebook.id)
    return query.join(BaseCell, BaseCell.id == kind.cell_id)
