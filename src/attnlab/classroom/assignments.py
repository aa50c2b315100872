"""An assignment: the notebook that is handed out, and what the registry knows of its exercises.

A course directory is nbgrader's: `source/NAME/NOTEBOOK.ipynb` is what is handed out, and its cells say which exercises
it holds.  Nothing else describes an assignment.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat import NotebookNode

import attnlab.exercises
from attnlab.exercises.engine import Exercise, OpenQuestion, exercises_of, questions_of


@dataclass(frozen=True)
class Assignment:
    """A notebook with exercises. `name` is the assignment's, `notebook` the stem of the file."""

    name: str
    notebook: str
    exercises: tuple[Exercise, ...]
    questions: tuple[OpenQuestion, ...]
    released: NotebookNode

    @property
    def points(self) -> int:
        """What its exercises are worth, open questions left out."""
        return sum(each.points for each in self.exercises)


@functools.cache
def chapter(number: str) -> ModuleType | None:
    """The registry of a chapter: "1" gives attnlab.exercises.ch1_weights; None where there is no such chapter."""
    names = [module.name for module in pkgutil.iter_modules(attnlab.exercises.__path__)]
    found = [name for name in names if name.startswith(f"ch{number}_")]
    return importlib.import_module(f"attnlab.exercises.{found[0]}") if found else None


def look_up(numbers: list[str]) -> tuple[tuple[Exercise, ...], tuple[OpenQuestion, ...]]:
    """The exercises and the open questions with these numbers, in this order. ValueError where there is none."""
    exercises, questions, unknown = [], [], []
    for number in numbers:
        module = chapter(number.split(".")[0])
        found = {each.number: each for each in exercises_of(module)} if module else {}
        asked = {each.number: each for each in questions_of(module)} if module else {}
        if number in found:
            exercises.append(found[number])
        elif number in asked:
            questions.append(asked[number])
        else:
            unknown.append(number)
    if unknown:
        raise ValueError(f"There is no exercise {', '.join(unknown)}. Numbers look like 1.2: chapter, then exercise.")
    return tuple(exercises), tuple(questions)


def assignment(name: str, path: Path) -> Assignment:
    """The assignment `name` whose notebook is at `path`."""
    released = nbformat.read(path, as_version=4)
    numbers = list(dict.fromkeys(cell.metadata["exercise"] for cell in released.cells if "exercise" in cell.metadata))
    if not numbers:
        raise ValueError(f"{path} has no exercise of this course; hand out a notebook that `attnlab handout` made.")
    return Assignment(name, path.stem, *look_up(numbers), released)


def assignments(course: Path, name: str) -> list[Assignment]:
    """The notebooks of the assignment `name` in a course directory. FileNotFoundError where there are none."""
    folder = course / "source" / name
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        there = sorted(path.name for path in (course / "source").glob("*/"))
        known = (
            f"Here are: {', '.join(there)}." if there else "Are you in the class folder? `attnlab handout` makes one."
        )
        raise FileNotFoundError(f"No notebook in {folder}. {known}")
    return [assignment(name, path) for path in paths]
