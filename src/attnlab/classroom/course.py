"""A run over a class: collect, judge, record, and write what a teacher and the students read.

All of it can be run again: what was done is found done, and what a teacher has entered by hand stays.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from . import grading
from .assignments import Assignment, assignments
from .cluster import Cluster
from .gradebook.gradebook import Recorder
from .gradebook.grades import grades_csv
from .gradebook.marks import Marks, marks_of
from .grading import Store, Task, Work, task_of
from .intake import submissions
from .intake.intake import Submission, collect
from .intake.layouts import Problem
from .pages.feedback import feedback_page
from .pages.report import class_report, misunderstandings_csv
from .results import Result
from .sandbox.isolation import Limits
from .sandbox.sandbox import SandboxError, fault_of_bubblewrap, shown

SOLVED = ".solved"  # in place of a student: the notebook with the references, which must earn all points
Progress = Callable[..., Iterable]  # wraps a loop, as tqdm does


def _silent(each: Iterable, **_: object) -> Iterable:
    return each


class Unprotected(Exception):
    """Submissions would run without a sandbox, and nobody said that they may."""


@dataclass
class Graded:
    """What a run came to.

    results     one a student and notebook, sorted
    failed      (student, words): what could not be graded through a fault of the course or this machine
    problems    what was refused at the intake
    written     the tables and reports, and the folder of the students' pages
    """

    results: list[Result] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)


def grade(
    course: Path,
    name: str,
    *,
    source: Path | None = None,
    pattern: str | None = None,
    limits: Limits | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    unprotected: bool = False,
    again: bool = False,
    site: str | None = None,
    progress: Progress = _silent,
) -> Graded:
    """Grade the assignment `name` of a course directory.

    source, pattern   where the submissions are, see `collect`; None: what lies in course/submitted
    workers           processes; as many as there are cores
    scheduler         the address of a Dask cluster, in place of this machine
    unprotected       run submissions with limits alone where there is no bubblewrap
    again             judge everybody anew, say after a time-out on a busy machine
    site              where the book is published, for links to its sections
    progress          wraps the loops over submissions and over pages, as tqdm does, with `total` and `desc`

    Unprotected where there is no sandbox; RuntimeError where another run is at work in this directory; SandboxError
    where the references themselves earn less than all points here; FileNotFoundError and ValueError as the assignment
    and the source are found wrong.
    """
    assigned = {each.notebook: each for each in assignments(course, name)}
    fault = "" if scheduler else _fault(course)  # a cluster's workers are asked themselves
    if fault and not (unprotected and sys.platform == "linux"):
        raise Unprotected(fault)
    limits, store = limits or Limits(), Store(course)
    tasks = {stem: task_of(each, limits, not (fault or (scheduler and unprotected))) for stem, each in assigned.items()}
    with alone(course), _runner(workers, scheduler) as run, Recorder(course, list(assigned.values())) as recorder:
        collected = collect(source, course, name, sorted(assigned), pattern)
        outcome = Graded(problems=collected.problems)
        work = [(tasks[each.notebook], each) for each in collected.submissions]
        for stem, each in assigned.items():
            _prove(each, tasks[stem], store, run)
        found = grading.graded(work, store, run, again)
        for (_, submission), result in progress(found, total=len(work), desc=name):
            if isinstance(result, Exception):
                kind = "" if isinstance(result, grading.ByHand) else f"{type(result).__name__}: "
                outcome.failed.append((submission.student, f"{kind}{result}"))
                continue
            _record(recorder, submission, result)
            outcome.results.append(result)
        outcome.results.sort(key=lambda each: (each.student, each.notebook))
        outcome.failed.sort()
        outcome.written = write_all(course, list(assigned.values()), outcome.results, site, progress)
    return outcome


def _fault(course: Path) -> str:
    """Why submissions to this course cannot be run in a sandbox here; an empty text where they can."""
    mine = course.resolve()
    within = [place for place in shown() if place.resolve() in (mine, *mine.parents)]
    if within:
        return (
            f"the class folder lies in {within[0]}, which submissions can read: programs, libraries and Python are "
            "there. Make the class folder elsewhere."
        )
    return fault_of_bubblewrap()


@contextlib.contextmanager
def alone(course: Path) -> Iterator[None]:
    """Nobody else grades in this directory meanwhile. RuntimeError where somebody does."""
    import fcntl  # not on Windows, where nothing is graded

    with open(course / ".attnlab.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                "another run of attnlab grade is at work in this folder; wait until it has ended"
            ) from None
        yield


def _runner(workers: int | None, scheduler: str | None) -> grading.ThisMachine | Cluster:
    if scheduler:
        return Cluster(scheduler)
    return grading.ThisMachine(workers or len(os.sched_getaffinity(0)))  # fewer than os.cpu_count() in a container


def _prove(assignment: Assignment, task: Task, store: Store, run: grading.Runner) -> None:
    """SandboxError unless the references earn all points on this machine: otherwise nobody's points mean anything."""
    solved = {each.number: each.solution_source for each in assignment.exercises}
    notebook = nbformat.from_dict(assignment.released)
    for cell in notebook.cells:
        if cell.metadata.get("part") == "answer":
            cell.source = solved[cell.metadata["exercise"]]
    path = store.path(Result(SOLVED, assignment.name, assignment.notebook)).with_suffix(".ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook), "utf-8")
    work: list[Work] = [(task, Submission(SOLVED, assignment.name, assignment.notebook, path))]
    for _, result in grading.graded(work, store, run):
        if isinstance(result, Exception):
            raise SandboxError(f"the solved notebook could not be graded: {result}") from result
        wrong = [f"{number}: {verdict}" for number, verdict in result.verdicts.items() if not verdict.correct]
        if wrong:
            store.path(result).unlink()
            raise SandboxError(
                "the solved notebook does not earn all points here, so no submission was graded. Is a package missing, "
                "or too little time or memory allowed?\n" + "\n".join(wrong)
            )


def _record(recorder: Recorder, submission: Submission, result: Result) -> None:
    data = grading.data_of(submission)
    recorder.record(result, submissions.read(data, list(result.verdicts)).notebook if data is not None else None)


# ---- what is read ---------------------------------------------------------------------------------------------------


def write_all(
    course: Path, assigned: list[Assignment], results: list[Result], site: str | None, progress: Progress = _silent
) -> list[Path]:
    """The students' pages, the class reports, and the tables, with the points that the gradebook holds now."""
    name = assigned[0].name
    marks = marks_of(course, name)
    by_notebook = {each.notebook: each for each in assigned}
    for each in progress(results, total=len(results), desc="pages"):
        page = course / "feedback" / each.student / name / f"{each.notebook}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = feedback_page(by_notebook[each.notebook], each, site, marks.given(each.student, each.notebook))
        page.write_text(text, "utf-8", newline="\n")
    return [*_write_reports(course, assigned, results, marks, site), course / "feedback"]


def _write_reports(
    course: Path, assigned: list[Assignment], results: list[Result], marks: Marks, site: str | None
) -> list[Path]:
    """The class report of each notebook, for the teacher and to be shown in class, and the tables."""
    name, folder = assigned[0].name, course / "reports"
    folder.mkdir(exist_ok=True)
    texts = {f"{name}-grades.csv": grades_csv(course, assigned, results, marks)}
    for each in assigned:
        mine = [result for result in results if result.notebook == each.notebook]
        stem = name if len(assigned) == 1 else f"{name}-{each.notebook}"

        def page_of(student: str, each: Assignment = each) -> str:
            return f"../feedback/{student}/{each.name}/{each.notebook}.html"

        texts[f"{stem}.html"] = class_report(each, mine, site, page_of=page_of, marks=marks)
        texts[f"{stem}-anonymous.html"] = class_report(each, mine, site, anonymous=True, marks=marks)
        texts[f"{stem}-mistakes.csv"] = misunderstandings_csv(each, mine)
    for file, text in texts.items():
        # A spreadsheet takes a table for Latin-1 unless it begins with a mark.
        (folder / file).write_text(text, "utf-8-sig" if file.endswith(".csv") else "utf-8", newline="\n")
    return [folder / file for file in texts]


def report(course: Path, name: str, site: str | None, progress: Progress = _silent) -> list[Path]:
    """Pages, reports and tables anew, say after points were given by hand. FileNotFoundError without results."""
    assigned, results = assignments(course, name), []
    for each in assigned:
        for path in sorted((course / "judged").glob(f"[!.]*/{name}/{each.notebook}.json")):
            results.append(Result.from_json(path.read_text("utf-8")))
    if not results:
        raise FileNotFoundError(f"Nothing has been graded for {name} yet: attnlab grade {name}")
    return write_all(course, assigned, results, site, progress)
