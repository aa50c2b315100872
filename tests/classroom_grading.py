"""A course directory with an assignment handed out, students' notebooks, and results on them: for tests of grading."""

import copy
import functools
import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI

from attnlab.classroom.assignments import Assignment, assignments
from attnlab.classroom.gradebook.gradebook import Recorder
from attnlab.classroom.handout.releasing import configured
from attnlab.classroom.results import Result
from attnlab.exercises.engine import Exercise
from attnlab.exercises.engine.cards import Verdict

NAME = "week1"


@functools.cache
def verdict(exercise: Exercise, kind: str) -> Verdict:
    """The real verdict on the reference ("right"), on a stub ("stub"), or on the twin of that name."""
    if kind == "stub":
        return exercise.judge(lambda *_: ...)
    turns = () if kind == "right" else (kind,)
    return exercise.judge(next(twin.function for twin in exercise.twins if twin.turns == turns))


class Course:
    """A course directory, and the notebook of its only assignment."""

    def __init__(self, root: Path, name: str = NAME) -> None:
        self.root, self.name = root, name
        (self.assignment,) = assignments(root, name)
        self.url = f"sqlite:///{root.resolve() / 'gradebook.db'}"

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return self.assignment.exercises

    def place(self, step: str, student: str = ".", suffix: str = ".ipynb") -> Path:
        return self.root / step / student / self.name / f"{self.assignment.notebook}{suffix}"

    def page(self, student: str) -> NotebookNode:
        return nbformat.read(self.place("autograded", student), as_version=4)

    def cell(self, student: str, grade_id: str) -> NotebookNode:
        (cell,) = (c for c in self.page(student).cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
        return cell

    def notebook(self, words: str | None = None, **answers: str) -> NotebookNode:
        """A submission: the released notebook with answers by name, and words for every open question."""
        notebook = nbformat.read(self.place("release"), as_version=4)
        sources = {each.number: answers[each.name] for each in self.exercises if each.name in answers}
        for cell in notebook.cells:
            part, number = cell.metadata.get("part"), cell.metadata.get("exercise")
            if part == "answer" and number in sources:
                cell.source = sources[number]
            if part == "words" and words is not None:
                cell.source = words
        return notebook

    def result(self, student: str, *kinds: str, words: str = "", remarks: tuple[str, ...] = ()) -> Result:
        """A result with the verdicts of these kinds, one an exercise; without kinds, of a file that was not read."""
        verdicts = {one.number: verdict(one, kind) for one, kind in zip(self.exercises, kinds, strict=bool(kinds))}
        said = {each.number: words for each in self.assignment.questions}
        return Result(student, self.name, self.assignment.notebook, "key", verdicts, said, remarks)

    def record(self, *pairs: tuple[Result, NotebookNode | None]) -> None:
        with Recorder(self.root, [self.assignment]) as recorder:
            for result, notebook in pairs:
                recorder.record(result, notebook)

    def gradebook(self) -> Gradebook:
        return Gradebook(self.url)

    def grades(self, student: str) -> dict[str, tuple]:
        """cell → (points of the checks, points by hand, whether a person has to look)"""
        with self.gradebook() as gradebook:
            rows = gradebook.find_submission_notebook(self.assignment.notebook, self.name, student).grades
            return {row.name: (row.auto_score, row.manual_score, row.needs_manual_grade) for row in rows}

    def comments(self, student: str) -> dict[str, tuple]:
        with self.gradebook() as gradebook:
            rows = gradebook.find_submission_notebook(self.assignment.notebook, self.name, student).comments
            return {row.name: (row.auto_comment, row.manual_comment) for row in rows}

    def score(self, student: str) -> float:
        with self.gradebook() as gradebook:
            return gradebook.find_submission(self.name, student).score

    def by_hand(self, student: str, cell: str, points: float | None, extra: float | None = None) -> None:
        """What formgrader does when a teacher enters points."""
        with self.gradebook() as gradebook:
            grade = gradebook.find_grade(cell, self.assignment.notebook, self.name, student)
            grade.manual_score, grade.extra_credit, grade.needs_manual_grade = points, extra, False
            gradebook.db.commit()

    def comment(self, student: str, cell: str, text: str | None) -> None:
        """What formgrader does when a teacher writes a comment."""
        with self.gradebook() as gradebook:
            gradebook.find_comment(cell, self.assignment.notebook, self.name, student).manual_comment = text
            gradebook.db.commit()

    def late(self, student: str, penalty: float) -> None:
        with self.gradebook() as gradebook:
            row = gradebook.find_submission_notebook(self.assignment.notebook, self.name, student)
            row.late_submission_penalty = penalty
            gradebook.db.commit()

    def api(self) -> NbGraderAPI:
        app = configured(self.root)
        app.log.setLevel("CRITICAL")
        app.coursedir.assignment_id = self.name
        return NbGraderAPI(app.coursedir, parent=app)


def a_copy(course: Course, to: Path) -> Course:
    shutil.copytree(course.root, to)
    return Course(to, course.name)


def with_cells(notebook: NotebookNode, *more: NotebookNode) -> NotebookNode:
    changed = copy.deepcopy(notebook)
    changed.cells += more
    return changed


__all__ = ["NAME", "Assignment", "Course", "a_copy", "verdict", "with_cells"]
