"""So that nbgrader takes the course's notebooks as they are: `configure(c)` in a course's nbgrader_config.py."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

try:
    from nbgrader.api import Gradebook
    from nbgrader.converters import Autograde, GenerateAssignment
    from nbgrader.nbgraderformat import SCHEMA_VERSION
    from nbgrader.preprocessors import ClearSolutions, DeduplicateIds, NbGraderPreprocessor
except ModuleNotFoundError as error:
    words = f"{error.name} is missing in {sys.executable}; install there: pip install 'nbgrader>=0.9.5,<0.10'"
    raise ModuleNotFoundError(words, name=error.name) from None
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

# What a kernel runs before the first cell of a submission. In a kernel `exit()` ends the kernel, and the whole
# submission would stay ungraded: now it fails like any other name. And the engine reads that it is being graded before
# an answer can take that away (see `engine.model`).
FIRST = ["del exit, quit", "import attnlab.exercises.engine; del attnlab"]


class ClearMarkedSolutions(ClearSolutions):
    """Clear what stands between BEGIN SOLUTION and END SOLUTION, and only that.

    The original also empties every answer cell without these marks: of our stubs not even the `def` would be left.
    """

    def preprocess_cell(self, cell, resources, cell_index):
        if self.begin_solution_delimeter in cell.source:
            return super().preprocess_cell(cell, resources, cell_index)
        return cell, resources


class MendCells(NbGraderPreprocessor):
    """Give every cell the mark (nbgrader's metadata) that it was released with: no odd submission stops the others.

    A copied or split cell carries its mark twice, and nbgrader then ends the grading of the whole class
    (jupyter/nbgrader#1083): the last one keeps it. A cell that was never released loses its mark. A check cell that
    was deleted comes back at the end (#1682). Edited marks are written anew; OverwriteCells then restores the sources.
    """

    def preprocess(self, nb, resources):
        marks = self.released_marks(**resources["nbgrader"])
        for cell in reversed(nb.cells):
            if "nbgrader" in cell.metadata:
                name = (cell.metadata.pop("nbgrader") or {}).get("grade_id")
                if name in marks:
                    cell.metadata["nbgrader"] = marks.pop(name)
                else:
                    self.log.warning("A cell marked %r is a copy, or was not released: it is not graded", name)
        for name, mark in marks.items():
            if mark["grade"] and mark["locked"]:
                self.log.warning("The check cell %r is missing: it is added at the end", name)
                cell = new_code_cell(metadata={"nbgrader": mark})
                if nb.nbformat_minor < 5:  # as Colab saves: cells had no id yet
                    del cell["id"]
                nb.cells.append(cell)
        return nb, resources

    def released_marks(self, notebook, assignment, db_url, **_):
        with Gradebook(db_url) as gradebook:
            released = gradebook.find_notebook(notebook, assignment)
            points = {cell.name: cell.max_score for cell in [*released.grade_cells, *released.task_cells]}
            kinds = {"grade": released.grade_cells, "solution": released.solution_cells, "task": released.task_cells}
            names = {kind: {cell.name for cell in cells} for kind, cells in kinds.items()}
            return {
                cell.name: NotebookNode(
                    {kind: cell.name in names[kind] for kind in kinds}
                    | ({"points": points[cell.name]} if cell.name in points else {}),
                    grade_id=cell.name,
                    locked=cell.locked,
                    schema_version=SCHEMA_VERSION,
                )
                for cell in released.source_cells
            }


def find_alembic() -> None:
    """Let nbgrader find alembic, which makes the gradebook.

    It calls this program by its bare name; where this Python's venv is not activated, that fails.
    """
    if shutil.which("alembic") is None:
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def configure(c: Any) -> None:
    """Set on nbgrader's config `c` what the course's notebooks need; what you set afterwards counts."""
    find_alembic()
    c.GenerateAssignment.preprocessors = [
        ClearMarkedSolutions if one is ClearSolutions else one for one in GenerateAssignment.preprocessors.default()
    ]
    c.Autograde.sanitize_preprocessors = [
        MendCells if one is DeduplicateIds else one for one in Autograde.sanitize_preprocessors.default()
    ]
    # A check says "wrong" by raising, and by nothing else: a warning or a line logged to stderr costs no points.
    c.IgnorePattern.enabled = True
    c.IgnorePattern.pattern = "^"
    c.Execute.timeout = 120  # seconds for one cell, for slow machines; a check itself gives up after five
    c.Execute.extra_arguments = [f"--InteractiveShellApp.exec_lines={FIRST}"]
