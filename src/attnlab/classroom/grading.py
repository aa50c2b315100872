"""Grade a class: every submission through the sandbox, on all cores, and again only what has changed.

What is found out about a submission is stored as soon as it is known, under a key of all that it depends on.  So a run
that was interrupted goes on where it stopped, and a second run finds everything done.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

from nbformat import NotebookNode

from .assignments import Assignment, look_up
from .intake import submissions
from .intake.intake import Submission
from .intake.sources import Refused, read_file
from .results import Result
from .sandbox.cells import python_of
from .sandbox.isolation import Limits, end_with_parent
from .sandbox.judging import judged
from .sandbox.sandbox import ROOM, Sandbox, SandboxError

ALWAYS = ("numpy", "numpy.random", "array_api_compat.numpy", "IPython.core.inputtransformer2")  # to import beforehand
_mine = threading.local()  # a sandbox stays warm for the thread that started it


@dataclass(frozen=True)
class Task:
    """What a judge needs beside a submission, as plain data: it may work in another process, or on another machine.

    numbers      of the exercises and the open questions
    modules      what the sandbox imports beforehand
    bubblewrap   whether submissions run in bubblewrap; without it, only limits protect
    """

    numbers: tuple[str, ...]
    modules: tuple[str, ...]
    limits: Limits
    bubblewrap: bool

    @functools.cached_property
    def digest(self) -> str:
        """Of what a verdict depends on beside the submission: the course's code, Python and its libraries, limits."""
        found = hashlib.sha256(json.dumps(asdict(self)).encode())
        for path in sorted(ROOM.rglob("*.py")):
            found.update(path.relative_to(ROOM).as_posix().encode() + path.read_bytes())
        found.update(sys.version.encode())
        for name in ("numpy", "scipy", "torch", "ipython", "safetensors"):
            try:
                found.update(importlib.metadata.version(name).encode())
            except importlib.metadata.PackageNotFoundError:
                found.update(b"none")
        return found.hexdigest()


def task_of(assignment: Assignment, limits: Limits, bubblewrap: bool) -> Task:
    numbers = tuple(each.number for each in (*assignment.exercises, *assignment.questions))
    needs_torch = any(each.gradient_of for each in assignment.exercises)
    modules = dict.fromkeys([*ALWAYS, *_imported(assignment.released), *["torch"] * needs_torch])
    return Task(numbers, tuple(modules), limits, bubblewrap)


def _imported(notebook: NotebookNode) -> list[str]:
    """The modules that a notebook's setup imports."""
    found = []
    for cell in notebook.cells:
        if cell.metadata.get("role") == "setup":
            with contextlib.suppress(SyntaxError):  # then the cell's own error says so, to everybody
                found += _modules(ast.parse(python_of(cell.source)))
    return found


def _modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{each.name}" for each in node.names))


# ---- one submission -------------------------------------------------------------------------------------------------


def key_of(task: Task, submission: Submission, data: bytes | None) -> str:
    found = hashlib.sha256(task.digest.encode())
    found.update(json.dumps([submission.student, submission.assignment, submission.notebook]).encode())
    found.update(json.dumps([data is None, *submission.problems]).encode() + (data or b""))
    return found.hexdigest()


def grade_one(task: Task, submission: Submission, data: bytes | None, key: str) -> Result:
    """The result of one submission, whose file's content is `data`.  SandboxError where the sandbox itself fails."""
    exercises, questions = look_up(list(task.numbers))
    handed = submissions.read(data, task.numbers) if data is not None else submissions.Handed((), {}, (), None)
    try:
        found = judged(handed, exercises, _sandbox(task), task.limits)
    except SandboxError:
        close()
        found = judged(handed, exercises, _sandbox(task), task.limits)
    return Result(
        student=submission.student,
        assignment=submission.assignment,
        notebook=submission.notebook,
        key=key,
        verdicts=found.verdicts,
        sources=found.sources,
        words={each.number: handed.words.get(each.number, "") for each in questions},
        remarks=(*submission.problems, *handed.remarks, *found.remarks),
    )


def _sandbox(task: Task) -> Sandbox:
    wanted = (task.modules, task.bubblewrap)
    if getattr(_mine, "for_", None) != wanted:
        close()
        _mine.sandbox, _mine.for_ = Sandbox(task.modules, bubblewrap=task.bubblewrap), wanted
    return _mine.sandbox


def close() -> None:
    """End the sandbox of this thread."""
    if getattr(_mine, "for_", None) is not None:
        _mine.sandbox.close()
        _mine.for_ = None


# ---- all of them ----------------------------------------------------------------------------------------------------

BREAKS = (
    "again and again, the process that judged it was ended by the system, perhaps for the memory that it takes. "
    "Its points are not known: please look at it by hand."
)
Work = tuple[Task, Submission]
Runner = Callable[[list[Work]], Iterable[tuple[Work, Result | Exception]]]


class ByHand(Exception):
    """A submission that cannot be judged here, in words for the teacher."""


def data_of(submission: Submission) -> bytes | None:
    """The content of a submission's file; None where there is none, or none that may be read."""
    try:
        return read_file(submission.path) if submission.path else None
    except Refused:  # exchanged for a link, say, since it was collected
        return None


def arguments(task: Task, submission: Submission) -> tuple[Task, Submission, bytes | None, str]:
    """What `grade_one` takes. Read when it is its turn: a large class does not fit into memory at once."""
    data = data_of(submission)
    return task, submission, data, key_of(task, submission, data)


class Store:
    """The results of a course, one file each: `judged/STUDENT/ASSIGNMENT/NOTEBOOK.json`."""

    def __init__(self, course: Path) -> None:
        self.course = course

    def path(self, submission: Submission | Result) -> Path:
        where = self.course / "judged" / submission.student / submission.assignment
        return where / f"{submission.notebook}.json"

    def read(self, submission: Submission, key: str) -> Result | None:
        """The stored result, if it has this key."""
        try:
            found = Result.from_json(self.path(submission).read_text("utf-8"))
        except (OSError, ValueError, KeyError, TypeError):  # none, or one of an older version
            return None
        return found if found.key == key else None

    def write(self, result: Result) -> None:
        """All or nothing, whenever the run is interrupted."""
        path = self.path(result)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.part")
        fresh.write_text(result.to_json(), "utf-8")
        os.replace(fresh, path)


def _begin() -> None:
    """What a process that grades does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that decides what to do about it
    end_with_parent()  # and its sandbox ends with it


class ThisMachine:
    """Runs work in processes of this machine, which stay until the end of the `with` statement."""

    def __init__(self, workers: int) -> None:
        self.workers, self._pool = workers, None

    def __enter__(self) -> ThisMachine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, work: list[Work]) -> Iterator[tuple[Work, Result | Exception]]:
        """Each piece of work with its result, or with what went wrong on our side, as they come.

        Where the system ends a process of ours, for its memory perhaps, nobody says for which piece it was: those that
        were at work go on one at a time, the first `suspects` of the queue. Which of them breaks it again is known.
        """
        queue, running, suspects = deque(work), {}, 0
        while queue or running:
            try:
                while queue and len(running) < (1 if suspects else 2 * self.workers):
                    future = self._processes().submit(grade_one, *arguments(*queue[0]))
                    running[future] = queue.popleft()  # not before: a pool that broke refuses, and nothing is lost
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        raise error
                    suspects = max(0, suspects - 1)
                    yield running.pop(future), error or future.result()
            except BrokenProcessPool:
                self._pool, lost = None, list(running.values())
                running.clear()
                if suspects and lost:
                    suspects -= 1
                    yield lost[0], ByHand(BREAKS)
                elif lost:
                    queue.extendleft(reversed(lost))
                    suspects = len(lost)

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # A fork would copy whatever state the caller has.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, context, _begin)
        return self._pool


def graded(
    work: Iterable[Work], store: Store, runner: Runner, again: bool = False
) -> Iterator[tuple[Work, Result | Exception]]:
    """All of the work: what is stored first, then what has to be done, which is stored as it comes.

    With `again`, all has to be done.
    """
    todo = []
    for each in work:
        *_, key = arguments(*each)
        known = None if again else store.read(each[1], key)
        if known is None:
            todo.append(each)
        else:
            yield each, known
    for each, result in runner(todo) if todo else ():
        if isinstance(result, Result):
            store.write(result)
        yield each, result
