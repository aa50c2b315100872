"""Results into nbgrader's gradebook, as if `nbgrader autograde` had run: its formgrader, export and feedback go on.

    with Recorder(course, assignments(course, "week1")) as recorder:
        for result in results:
            recorder.record(result, notebook_of(result))

What a teacher has entered stays: points given by hand, extra credit, comments.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..preprocessors import MendCells  # isort: skip - it says what to do where nbgrader is missing
from nbgrader.api import Grade, Gradebook, InvalidEntry, MissingEntry, Notebook, SubmittedAssignment
from nbgrader.converters import Autograde
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import compute_checksum, determine_grade, find_all_files, is_solution, is_task, parse_utc
from sqlalchemy.exc import SQLAlchemyError

from ..assignments import Assignment
from ..handout.releasing import configured, prepare, release
from ..results import Result
from .autograded import Released, autograded, grade_id

FOR_A_PERSON = ("internal", "unavailable")  # statuses that are no fault of the answer


class Recorder:
    """Records the results of one assignment, one after another and in one process; used in a `with` statement.

    course         nbgrader's course directory; its nbgrader_config.py counts
    assignments    the notebooks of the assignment

    Where nbgrader does not know the assignment yet, it is released from `source/` first.
    """

    def __init__(self, course: Path, assignments: Sequence[Assignment]) -> None:
        self.assignments = {each.notebook: each for each in assignments}
        (self.name,) = {each.name for each in assignments}  # they are of one assignment
        prepare(course)
        self.course, self.app = course, configured(course)
        self.coursedir = self.app.coursedir
        self.autograde = Autograde(coursedir=self.coursedir, config=self.app.config)

    def __enter__(self) -> Recorder:
        self.gradebook = Gradebook(self.coursedir.db_url, self.coursedir.course_id)
        try:
            if not all(map(self._is_released, self.assignments)):
                release(self.app, self.course, self.name)
            self.released = {stem: self._released(each) for stem, each in self.assignments.items()}
            self.names = {cell.id: cell.name for stem in self.assignments for cell in _marked(self._in_gradebook(stem))}
        except BaseException:
            self.gradebook.close()
            raise
        source = self._folder("source", ".")
        found = find_all_files(str(source), [*self.coursedir.ignore, "*.ipynb"])
        self.beside = {os.path.relpath(path, source): path for path in found}
        return self

    def __exit__(self, *_: object) -> None:
        self.gradebook.close()

    def record(self, result: Result, notebook: NotebookNode | None) -> None:
        """Write one result into the gradebook, and the notebook that shows it into `autograded/`.

        `notebook` is what was handed in, None where it is missing or cannot be read.  When this returns, the result is
        stored; recording it again changes nothing.

        Raises ValueError for a result of another assignment and for an id that cannot name a folder, RuntimeError where
        the gradebook cannot be written.
        """
        place = self._place(result)
        page = autograded(result, notebook, self.released[result.notebook])
        try:
            late = self._grade(result, page, place, read=notebook is not None)
            self.gradebook.db.commit()
        except (SQLAlchemyError, InvalidEntry) as error:
            self.gradebook.db.rollback()
            why = str(error).split("\n")[0]
            raise RuntimeError(
                f"The gradebook {self.coursedir.db_url} could not be written: {why}. If another program holds it, end "
                "that and grade again; if nbgrader was upgraded, run `nbgrader db upgrade` first."
            ) from error
        if late:
            resources = {"assignment": self.name, "notebook": result.notebook, "student": result.student}
            resources = {"nbgrader": resources | {"db_url": self.coursedir.db_url}}
            AssignLatePenalties(config=self.app.config).preprocess(NotebookNode(cells=[]), resources)
        # The notebook comes last: with it, a later run tells whether words were changed since a person read them.
        self._write(place, page, result.student)

    # ---- what is asked once ------------------------------------------------------------------------------------

    def _in_gradebook(self, stem: str) -> Notebook:
        return self.gradebook.find_notebook(stem, self.name)

    def _folder(self, step: str, student: str) -> Path:
        """The assignment's folder of one step of nbgrader's: "source", "release", "submitted" or "autograded"."""
        step = getattr(self.coursedir, f"{step}_directory")
        return Path(self.coursedir.format_path(step, student, self.name))

    def _is_released(self, stem: str) -> bool:
        with contextlib.suppress(MissingEntry):
            known = self._in_gradebook(stem).source_cells
            return bool(known) and (self._folder("release", ".") / f"{stem}.ipynb").exists()
        return False

    def _released(self, assignment: Assignment) -> Released:
        page = nbformat.read(self._folder("release", ".") / f"{assignment.notebook}.ipynb", as_version=4)
        marks = MendCells().released_marks(assignment.notebook, self.name, self.coursedir.db_url)
        return Released.of(assignment, page, marks, self._in_gradebook(assignment.notebook).source_cells)

    def _place(self, result: Result) -> Path:
        """Where the notebook of a result belongs."""
        if result.assignment != self.name or result.notebook not in self.released:
            came, known = f"{result.notebook} in {result.assignment}", f"{', '.join(self.released)} in {self.name}"
            raise ValueError(f"A result of {came} came; recorded here is {known}.")
        if Path(result.student).name != result.student or result.student in ("", ".", ".."):
            raise ValueError(f"{result.student!r} cannot be a student's id: it names their folder. Rename the folder.")
        return self._folder("autograded", result.student) / f"{result.notebook}.ipynb"

    # ---- grades ------------------------------------------------------------------------------------------------

    def _grade(self, result: Result, page: NotebookNode, place: Path, read: bool) -> bool:
        """Enter what the page's cells earn. Whether nbgrader's plug-in for late submissions is to be asked."""
        submission = self._submission(result.student)
        rows = self.gradebook.find_submission_notebook(result.notebook, self.name, result.student)
        cells = {grade_id(cell): cell for cell in page.cells if grade_id(cell)}
        for grade in rows.grades:
            cell = cells.get(self.names[grade.cell_id])
            score, waits = self._score(cell, result, read)
            _enter(grade, score, waits, cell, page, place)
        for comment in rows.comments:
            cell = cells.get(self.names[comment.cell_id])
            comment.auto_comment = "No response." if cell is None or _unanswered(cell) else None
        return submission.total_seconds_late > 0 or rows.late_submission_penalty is not None

    def _submission(self, student: str) -> SubmittedAssignment:
        timestamp = self._timestamp(student)
        changes = {"timestamp": timestamp} if timestamp else {}
        with self.gradebook.db.no_autoflush:  # nbgrader adds a submission's parts before the submission itself
            try:
                self.gradebook.find_student(student)
            except MissingEntry:
                self.gradebook.add_student(student)
            return self.gradebook.update_or_create_submission(self.name, student, **changes)

    def _timestamp(self, student: str) -> datetime | None:
        """When the work was handed in, as nbgrader's exchange wrote it; None where nothing can be read there."""
        path = self._folder("submitted", student) / "timestamp.txt"
        if path.is_symlink() or not path.is_file() or path.stat().st_size > 100:
            return None
        with contextlib.suppress(OSError, ValueError, OverflowError):
            return parse_utc(path.read_text("utf-8").strip())
        return None

    def _score(self, cell: NotebookNode | None, result: Result, read: bool) -> tuple[float | None, bool]:
        """The points, None where a person gives them, and whether a person has to look."""
        number = self.released[result.notebook].part("check").get(cell and grade_id(cell))
        if cell is None:
            return 0, False
        if number:
            verdict = result.verdicts.get(number)
            return determine_grade(cell)[0], verdict is not None and verdict.status in FOR_A_PERSON
        if not read or (is_solution(cell) and _unanswered(cell)):
            return 0, False
        return None, True  # words, and a teacher's own checks, which nobody has run

    # ---- the notebook ------------------------------------------------------------------------------------------

    def _write(self, place: Path, page: NotebookNode, student: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = dict(self.beside)
        if self._timestamp(student):
            beside["timestamp.txt"] = self._folder("submitted", student) / "timestamp.txt"
        for name, path in beside.items():
            (place.parent / name).parent.mkdir(parents=True, exist_ok=True)
            (place.parent / name).unlink(missing_ok=True)
            shutil.copyfile(path, place.parent / name)
        part = place.with_name(f".{place.name}.part")
        part.unlink(missing_ok=True)
        part.write_text(nbformat.writes(page) + "\n", encoding="utf-8", newline="\n")
        part.replace(place)
        self.autograde.set_permissions(self.name, student)


def _marked(notebook: Notebook) -> list:
    return [*notebook.grade_cells, *notebook.solution_cells, *notebook.task_cells]


def _enter(
    grade: Grade, score: float | None, waits: bool, cell: NotebookNode | None, page: NotebookNode, place: Path
) -> None:
    """Enter the points of a cell as nbgrader's SaveAutoGrades does: what a person has given stays.

    nbgrader asks that person to look again after every run; here only where the points or the work have changed.
    """
    rescored, grade.auto_score = grade.auto_score != score, score
    if grade.manual_score is None:
        grade.needs_manual_grade = waits
    elif rescored or _changed(cell, page, place):
        grade.needs_manual_grade = True


def _changed(cell: NotebookNode | None, page: NotebookNode, place: Path) -> bool:
    """Whether the work differs from what was recorded before: the words, or for a check all of the code."""
    try:
        before = nbformat.read(place, as_version=4)
    except (OSError, ValueError, nbformat.validator.NotebookValidationError):
        return True
    if cell is not None and is_solution(cell):
        return [cell.source] != [each.source for each in before.cells if grade_id(each) == grade_id(cell)]
    now, then = ([each.source for each in one.cells if each.cell_type == "code"] for one in (page, before))
    return now != then


def _unanswered(cell: NotebookNode) -> bool:
    """Whether a cell is as it was released, or empty; a task's text is always as released, and the answer elsewhere."""
    released = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
    return not is_task(cell) and (released or not cell.source.strip())
