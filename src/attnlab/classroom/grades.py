"""The table of grades: nbgrader's points, and what the verdicts say, for a spreadsheet."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from .preprocessors import Gradebook  # it says what to do where nbgrader is missing

from nbgrader.api import Assignment as Known  # isort: skip
from nbgrader.api import BaseCell, Grade, Notebook, Student, SubmittedAssignment, SubmittedNotebook  # isort: skip

from attnlab.exercises.engine.cards import Verdict

from .assignments import Assignment
from .releasing import configured
from .results import Result

WORDS = {
    "correct": "right",
    "recognised": "known mistake",
    "unrecognised": "not recognised",
    "untouched": "not attempted",
    "missing": "missing",
    "unavailable": "could not be judged",
    "internal": "could not be judged",
}
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what makes a spreadsheet compute a cell

Where = tuple[str, str]  # a graded cell: the notebook, and nbgrader's name of the cell


def grades_csv(course: Path, assignments: Sequence[Assignment], results: Iterable[Result]) -> str:
    """All grades of an assignment as a table, as the gradebook has them now: points given by hand count.

    One line a student: the points of each exercise and question (empty where a person has still to read), the late
    penalty, the total that nbgrader exports, the maximum, and each verdict in words.  Lines are sorted by id, and a
    text that a spreadsheet would take for a formula begins with an apostrophe.

    Raises ValueError where nbgrader does not know the assignment.
    """
    (name,) = {each.name for each in assignments}
    coursedir = configured(course).coursedir
    with contextlib.closing(Gradebook(coursedir.db_url, coursedir.course_id)) as gradebook:
        most = gradebook.find_assignment(name).max_score
        points, totals = _points(gradebook, name), _totals(gradebook, name)
    judged = {(each.student, each.notebook): each for each in results}
    exercises = [(each.notebook, one) for each in assignments for one in each.exercises]
    columns = _columns(assignments, {where for earned in points.values() for where in earned})

    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    verdicts = [f"{one.number} {one.name}: verdict" for _, one in exercises]
    table.writerow(map(_safe, ["student", *columns.values(), "late penalty", "total", "max", *verdicts]))
    for student in sorted({*totals, *(student for student, _ in judged)}):
        earned, (score, penalty) = points.get(student, {}), totals.get(student, (0.0, 0.0))
        numbers = [*(earned.get(where) for where in columns), penalty, max(0.0, score - penalty), most]
        said = [_said(judged.get((student, notebook)), one.number) for notebook, one in exercises]
        table.writerow([_safe(student), *map(_number, numbers), *map(_safe, said)])
    return out.getvalue()


def _points(gradebook: Gradebook, name: str) -> dict[str, dict[Where, float | None]]:
    """{student: {cell: points}}, None where nobody has given any yet. One query, for a class of thousands."""
    rows = (
        gradebook.db.query(Student.id, Notebook.name, BaseCell.name, Grade.score, Grade.auto_score, Grade.manual_score)
        .select_from(Grade)
        .join(BaseCell, BaseCell.id == Grade.cell_id)
        .join(SubmittedNotebook, SubmittedNotebook.id == Grade.notebook_id)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .join(Known, Known.id == SubmittedAssignment.assignment_id)
        .join(Student, Student.id == SubmittedAssignment.student_id)
        .filter(Known.name == name)
    )
    found: dict[str, dict[Where, float | None]] = {}
    for student, notebook, cell, score, by_check, by_hand in rows:
        given = by_check is not None or by_hand is not None
        found.setdefault(student, {})[notebook, cell] = score if given else None
    return found


def _totals(gradebook: Gradebook, name: str) -> dict[str, tuple[float, float]]:
    """{student: (points, late penalty)}, as nbgrader adds them up."""
    columns = (SubmittedAssignment.student_id, SubmittedAssignment.score, SubmittedAssignment.late_submission_penalty)
    rows = gradebook.db.query(*columns).join(Known, Known.id == SubmittedAssignment.assignment_id)
    return {student: (score or 0.0, penalty or 0.0) for student, score, penalty in rows.filter(Known.name == name)}


def _columns(assignments: Sequence[Assignment], graded: set[Where]) -> dict[Where, str]:
    """The graded cells and their headings: exercises, questions, and what a teacher has added."""
    names = {}
    for each in assignments:
        headings = {one.number: f"{one.number} {one.name}" for one in (*each.exercises, *each.questions)}
        cells = {
            (cell.metadata.get("exercise"), cell.metadata.get("part")): (each.notebook, cell.metadata.nbgrader.grade_id)
            for cell in each.released.cells
            if "nbgrader" in cell.metadata
        }
        parts = [(one.number, "check") for one in each.exercises] + [(one.number, "words") for one in each.questions]
        names |= {cells[part]: headings[part[0]] for part in parts if part in cells}
    return names | {where: " ".join(where) for where in sorted(graded - set(names))}


def _said(result: Result | None, number: str) -> str:
    """The verdict on an exercise in words, with the turns of a known mistake; of several readings, all."""
    if result is None:
        return "not graded"
    verdict = result.verdicts.get(number, Verdict("missing", ""))
    turns = " or ".join(" and ".join(reading) for reading in verdict.turns)
    return f"{WORDS[verdict.status]}: {turns}" if turns else WORDS[verdict.status]


def _safe(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.10g}"
