"""nbgrader's part of a handout: its configuration in a course directory, and its own `generate_assignment`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell, new_notebook

from ..preprocessors import ClearSolutions, GenerateAssignment, find_alembic

from nbgrader.apps.baseapp import NbGrader  # isort: skip - the line above says what to do where nbgrader is missing
from nbgrader.utils import capture_log  # isort: skip

# What a course directory gets. The file at the root of the course's repository holds the same.
CONFIG = '''\
"""So that nbgrader takes the course's notebooks as they are: copy this file into your course directory.

nbgrader reads it from there, or from the folder it is started in. Nothing here names a path or a machine.
"""

import sys

try:
    from attnlab.classroom.preprocessors import configure
except ModuleNotFoundError as error:
    sys.exit(
        f"{__file__}: {error}. nbgrader needs the course's package in its own Python, {sys.executable}: "
        "install it there with `pip install 'COURSE[classroom]'`, COURSE being the folder with the course's files."
    )

c = get_config()  # noqa: F821 - nbgrader puts it here
configure(c)
'''
HEADER = "source/header.ipynb"
HEADER_LINE = f"""
# The cells of this notebook come first in every notebook that is handed out: edit them, or delete this line.
c.IncludeHeaderFooter.header = "{HEADER}"
"""
UNFIT = re.compile(r"[?*\[\]]|%[0-9a-f]{2}", re.I)  # nbgrader searches by these, or cuts the gradebook's address
HANDING_IN = """\
**Before you hand this in.** Write your answers into the cells that are there, under the names that are there: grading
looks for them. You may add cells of your own, but please do not delete, copy or split the others. Restart the kernel,
run all cells, read what the checks say, save, and hand in this file."""


def prepare(course: Path) -> list[Path]:
    """Give a new course directory its configuration and a header, and return what was written: [] in a later call.

    ValueError for a directory whose path nbgrader would take for another one.
    """
    place = course.resolve()
    for folder in place.relative_to(place.anchor).parts:
        if unfit := UNFIT.search(folder):
            raise ValueError(
                f"nbgrader cannot work in {place}: it reads the {unfit[0]} in that path as something else than a name, "
                "and would look for notebooks, or write its gradebook, in another folder. Rename the folder "
                f"{folder!r}, without ?, *, [, ] and codes like %20, and try again."
            )
    config, header = course / "nbgrader_config.py", course / HEADER
    written = []
    if not config.exists():
        course.mkdir(parents=True, exist_ok=True)
        config.write_text(CONFIG + HEADER_LINE, encoding="utf-8")
        written.append(config)
    if HEADER_LINE in config.read_text(encoding="utf-8") and not header.exists():
        header.parent.mkdir(exist_ok=True)
        cells = [new_markdown_cell(HANDING_IN, id="handing-in")]
        header.write_text(nbformat.writes(new_notebook(cells=cells)) + "\n", encoding="utf-8")
        written.append(header)
    return written


def configured(course: Path) -> NbGrader:
    """nbgrader, as it runs in this course directory. ValueError where its configuration would spoil the notebooks."""
    find_alembic()
    app, path = NbGrader(), list(sys.path)
    try:
        with contextlib.chdir(course):  # it reads settings from there
            app.initialize([], root=os.getcwd())
    finally:
        sys.path[:] = path  # nbgrader puts the working directory there
    if ClearSolutions in GenerateAssignment(coursedir=app.coursedir, parent=app).preprocessors:
        raise ValueError(
            f"With {course / 'nbgrader_config.py'} nbgrader would empty the answer cells. The file is yours and stays "
            "as it is; please add to it, after `c = get_config()`:\n\n"
            "    from attnlab.classroom.preprocessors import configure\n\n    configure(c)\n"
        )
    return app


def release(app: NbGrader, course: Path, name: str) -> list[Path]:
    """Let nbgrader make release/NAME from source/NAME, and the gradebook's entries; return the notebooks.

    Raises RuntimeError with nbgrader's words where it refuses; what was released before is then there as before.
    """
    folder = course / "release" / name
    converter = GenerateAssignment(coursedir=app.coursedir, parent=app, force=True)
    app.coursedir.assignment_id = name
    with kept(folder), _unheard(app):
        done = capture_log(converter)
        if not done["success"]:
            raise RuntimeError(f"nbgrader did not make {folder}: {_why(done)}")
    return sorted(folder.glob("*.ipynb"))


def _why(done: dict) -> str:
    """What nbgrader's log says went wrong: the errors at the ends of its tracebacks."""
    text = done.get("log", "") + done["error"]
    errors = re.findall(r"^ *(?:[A-Za-z.]*\.)?(\w*(?:Error|Exception|Entry)): (.+)$", text, flags=re.MULTILINE)
    said = dict.fromkeys(f"{words} ({kind})" for kind, words in errors if "above traceback" not in words)
    why = "; ".join(said) or text.strip().splitlines()[-1]
    late = " Students' work is in the gradebook already: hand out under another name." * ("submissions" in why)
    return why + late


@contextlib.contextmanager
def kept(path: Path) -> Iterator[None]:
    """A file or folder that is as before, if what is done with it fails."""
    with tempfile.TemporaryDirectory() as safe:
        before = Path(safe) / path.name
        if path.exists():
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, before)
        try:
            yield
        except BaseException:
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            if before.exists():
                (shutil.copytree if before.is_dir() else shutil.copy2)(before, path)
            raise


@contextlib.contextmanager
def _unheard(app: NbGrader) -> Iterator[None]:
    """What nbgrader logs is captured; without this it would be written to the terminal too."""
    handlers, propagate = list(app.log.handlers), app.log.propagate
    app.log.handlers[:], app.log.propagate = [], False
    try:
        yield
    finally:
        app.log.handlers[:], app.log.propagate = handlers, propagate
