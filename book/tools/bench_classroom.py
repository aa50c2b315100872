"""Time the grading of one class twice: by `nbgrader autograde`, and by `attnlab grade`.  Run by `make bench`.

    python book/tools/bench_classroom.py [--class-size 100] [--chapter 1]

Both grade the same folder, one after the other, on an idle machine: whole chapters as students hand them in, some
solved, some wrong, some untouched.  Both write their gradebook.  nbgrader runs each notebook from top to bottom, in one
process; attnlab runs what the answers need, in as many processes as there are cores.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook

from attnlab.classroom.assignments import Assignment, assignments
from attnlab.classroom.handout.handout import hand_out

NAME = "bench"
# What some students write in place of a part of the reference.
WRONG = {"np.sqrt(": "(", "axis=-1": "axis=0", ".max(": ".min(", " @ ": " * ", "np.where(": "np.add("}


def students(assignment: Assignment, size: int) -> dict[str, nbformat.NotebookNode]:
    """A class: of the answers about six in ten are right, two wrong and two untouched."""
    chance, found = random.Random(2017), {}
    exercises = {each.number: each for each in assignment.exercises}
    for number in range(size):
        notebook = copy.deepcopy(assignment.released)
        for cell in notebook.cells:
            luck = chance.random()
            if cell.metadata.get("part") != "answer" or luck < 0.2:
                continue
            cell.source = exercises[cell.metadata["exercise"]].solution_source
            for right, wrong in WRONG.items() if luck > 0.8 else ():
                cell.source = cell.source.replace(right, wrong)
        found[f"student-{number:04d}"] = notebook
    return found


def scores(course: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        return {each.student.id: each.score for each in gradebook.assignment_submissions(NAME)}


def timed(course: Path, *command: str) -> float:
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], cwd=course, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return time.perf_counter() - begun


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--class-size", type=int, default=100)
    asked.add_argument("--chapter", default="1")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "ours"), Path(folder, "theirs")
        ours.mkdir()
        hand_out(ours, NAME, chapter=given.chapter)
        (assignment,) = assignments(ours, NAME)
        for student, notebook in students(assignment, given.class_size).items():
            path = ours / "submitted" / student / NAME / f"{assignment.notebook}.ipynb"
            path.parent.mkdir(parents=True)
            nbformat.write(notebook, path)
        shutil.copytree(ours, theirs)
        times = {
            "nbgrader autograde": timed(theirs, "nbgrader", "autograde", NAME),
            "attnlab grade": timed(ours, "attnlab.classroom.app", "grade", NAME),
        }
        times["attnlab grade, again"] = timed(ours, "attnlab.classroom.app", "grade", NAME)
        differ = {student for student, score in scores(theirs).items() if scores(ours)[student] != score}
        print(f"{given.class_size} submissions of {assignment.notebook}, {os.cpu_count()} cores")
        for name, seconds in times.items():
            each, share = seconds / given.class_size, seconds / times["nbgrader autograde"]
            print(f"{name:22} {seconds:8.1f} s   {each:6.2f} s each   {share:6.3f}")
        print(f"scores that differ: {len(differ)} {sorted(differ)[:5]}")


if __name__ == "__main__":
    main()
