"""The table of grades: nbgrader's points, and what the verdicts say, for a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from attnlab.exercises.engine.cards import Verdict

from ..assignments import Assignment
from ..results import Result
from ..tables import csv_of
from .marks import Marks, cells_of, marks_of

WORDS = {
    "correct": "right",
    "recognised": "known mistake",
    "unrecognised": "not recognised",
    "untouched": "not attempted",
    "missing": "missing",
    "unavailable": "could not be judged",
    "internal": "could not be judged",
}

Where = tuple[str, str]  # a graded cell: the notebook, and nbgrader's name of the cell


def grades_csv(
    course: Path, assignments: Sequence[Assignment], results: Iterable[Result], marks: Marks | None = None
) -> str:
    """All grades of an assignment as a table, as the gradebook has them now: points given by hand count.

    One line a student: the points of each exercise and question (empty where a person has still to read), the late
    penalty, the total that nbgrader exports, the maximum, and each verdict in words.  Lines are sorted by id, and a
    text that a spreadsheet would take for a formula begins with an apostrophe.

    marks   what the gradebook holds, where that was read already
    Raises ValueError where nbgrader does not know the assignment.
    """
    (name,) = {each.name for each in assignments}
    marks = marks or marks_of(course, name)
    judged = {(each.student, each.notebook): each for each in results}
    exercises = [(each.notebook, one) for each in assignments for one in each.exercises]
    columns = _columns(assignments, marks)

    verdicts = [f"{one.number} {one.name}: verdict" for _, one in exercises]
    table = [["student", *columns.values(), "late penalty", "total", "max", *verdicts]]
    for student in sorted({*marks.students, *(student for student, _ in judged)}):
        total, penalty = marks.total(student)
        numbers = [*(_points(marks, student, *where) for where in columns), penalty, total, marks.most]
        said = [_said(judged.get((student, notebook)), one.number) for notebook, one in exercises]
        table.append([student, *map(_number, numbers), *said])
    return csv_of(table)


def _points(marks: Marks, student: str, notebook: str, cell: str) -> float | None:
    sheet = marks.sheets.get((student, notebook))
    mark = sheet and sheet.cells.get(cell)
    return mark.points if mark else None


def _columns(assignments: Sequence[Assignment], marks: Marks) -> dict[Where, str]:
    """The graded cells and their headings: exercises, questions, and what a teacher has added."""
    names = {}
    for each in assignments:
        headings = {one.number: f"{one.number} {one.name}" for one in (*each.exercises, *each.questions)}
        cells = {part: (each.notebook, cell) for cell, part in cells_of(each).items()}
        parts = [(one.number, "check") for one in each.exercises] + [(one.number, "words") for one in each.questions]
        names |= {cells[part]: headings[part[0]] for part in parts if part in cells}
    graded = {(notebook, cell) for notebook, cells in marks.worth.items() for cell in cells}
    return names | {where: " ".join(where) for where in sorted(graded - set(names))}


def _said(result: Result | None, number: str) -> str:
    """The verdict on an exercise in words, with the turns of a known mistake; of several readings, all."""
    if result is None:
        return "not graded"
    verdict = result.verdicts.get(number, Verdict("missing", ""))
    turns = " or ".join(" and ".join(reading) for reading in verdict.turns)
    return f"{WORDS[verdict.status]}: {turns}" if turns else WORDS[verdict.status]


def _number(number: float | None) -> float | str:
    """Ten digits of it, and no point where it is whole."""
    short = None if number is None else float(f"{number:.10g}")
    return "" if short is None else int(short) if short.is_integer() else short
