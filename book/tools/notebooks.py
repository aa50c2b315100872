"""Rewrite everything generated: exercise cells, solution notebooks, outputs, the proof table.

    python book/tools/notebooks.py          all chapters
    python book/tools/notebooks.py 01       one chapter

Sources: the prose and code cells of `notebooks/NN_*.ipynb`, and the registry `attnlab.exercises.chN_*`. From the
registry come the exercise cells of a chapter, its solutions notebook, and the table on the page "How the checker is
checked". Notebooks are executed on a fresh kernel and stored in one canonical form, so a second run changes nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import nbformat
from mdit_py_plugins.anchors.index import slugify  # as MyST makes the addresses of headings
from nbclient import NotebookClient
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import attnlab
from attnlab.exercises.engine import Exercise, OpenQuestion, exercises_of, prove, questions_of, rows_of, table

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS, SOLUTIONS = ROOT / "notebooks", ROOT / "notebooks" / "solutions"
PROOF = ROOT / "book" / "_generated" / "proof.md"
PROOF_SEEDS = range(200)


def chapters(only: str | None = None) -> list[Path]:
    """The chapters' notebooks, in order. ValueError where `only` ("01") names none."""
    found = sorted(p for p in NOTEBOOKS.glob("*.ipynb") if only is None or p.name.startswith(only))
    if not found:
        raise ValueError(f"no notebook begins with {only!r}; there are {[p.name for p in chapters()]}")
    return found


def registry(path: Path) -> ModuleType:
    """The exercises of a chapter: notebooks/01_weights.ipynb → attnlab.exercises.ch1_weights."""
    number, name = path.stem.split("_", 1)
    return importlib.import_module(f"attnlab.exercises.ch{int(number)}_{name}")


def guard(path: Path) -> str:
    """The beginning of a chapter's setup cell, which says what to do where attnlab is missing."""
    notebook = nbformat.read(path, as_version=4)
    setup = next(cell for cell in notebook.cells if cell.metadata.get("role") == "setup")
    return setup.source.split("\n\n")[0]


def imports(module: ModuleType) -> str:
    """The import lines that the solutions of a chapter need: NumPy, names of attnlab, the exercises."""
    references = [exercise.reference for exercise in exercises_of(module)]
    used = {name: f.__globals__[name] for f in references for name in f.__code__.co_names if name in f.__globals__}
    public = sorted(name for name, what in used.items() if getattr(attnlab, name, None) is what)
    if unknown := set(used) - set(public) - {"np"}:
        raise ValueError(f"the solutions use {sorted(unknown)}, which a learner cannot import from attnlab")
    package, name = module.__name__.rsplit(".", 1)
    names = f"from attnlab import {', '.join(public)}\n" if public else ""
    chapter = f"from {package} import {name} as {name.split('_')[0]}"
    return f'import numpy as np\n\n{names}{chapter}\n\nprint("attnlab", attnlab.__version__)'


# ---- cells from the registry --------------------------------------------------------------------------------------


def _id(exercise: Exercise | OpenQuestion, part: str) -> str:
    """The id of an exercise's cell, which is also nbgrader's name for it."""
    return f"ex-{exercise.number.replace('.', '-')}-{part}"


def _nbgrader(kind: str, exercise: Exercise | OpenQuestion) -> dict:
    """nbgrader's own metadata: an answer cell, a locked check cell with points, or words that a person grades."""
    graded = kind in {"check", "words"}
    data = {"grade": graded, "grade_id": _id(exercise, kind), "locked": kind == "check"}
    if graded:
        data["points"] = exercise.points
    return {**data, "schema_version": 3, "solution": kind != "check", "task": False}


def _cell(make, source: str, exercise: Exercise | OpenQuestion, part: str, **metadata) -> NotebookNode:
    cell = make(source, metadata={"exercise": exercise.number, "part": part, **metadata})
    cell.id = _id(exercise, part)
    return cell


def _statement(exercise: Exercise | OpenQuestion, level: str, folder: str = "") -> str:
    """The task, its points and the section to reread; `folder` is where the chapters lie, seen from the notebook."""
    section = f"“{exercise.section}”"
    for chapter in NOTEBOOKS.glob(f"{int(exercise.number.split('.')[0]):02}_*.ipynb"):
        section = f"[{section}]({folder}{chapter.name}#{slugify(exercise.section)})"
    kind = "Open question" if isinstance(exercise, OpenQuestion) else "Exercise"
    points = f"{exercise.points} point{'s' if exercise.points != 1 else ''}"
    return (
        f"{level} {kind} {exercise.number} · `{exercise.name}`\n\n{exercise.statement}\n\n"
        f"*{points} · to reread:* {section}"
    )


def chapter_cells(exercise: Exercise) -> list[NotebookNode]:
    """Statement, stub, check."""
    return [
        _cell(new_markdown_cell, _statement(exercise, "###"), exercise, "statement"),
        _cell(new_code_cell, exercise.stub, exercise, "answer", nbgrader=_nbgrader("answer", exercise)),
        _cell(new_code_cell, f"{exercise.call}.check()", exercise, "check", nbgrader=_nbgrader("check", exercise)),
    ]


def question_cells(question: OpenQuestion) -> list[NotebookNode]:
    """Question, a place for the answer, and the line that compares it."""
    words = "*Your answer, in place of this line. A person reads it.*"
    compare = f"# When you have written yours, take away the # and compare:\n# {question.call}.solution()"
    return [
        _cell(new_markdown_cell, _statement(question, "###"), question, "statement"),
        _cell(new_markdown_cell, words, question, "words", nbgrader=_nbgrader("words", question)),
        _cell(new_code_cell, compare, question, "compare"),
    ]


def answered_cells(question: OpenQuestion) -> list[NotebookNode]:
    """Question, one good answer, and how it is read."""
    rubric = "\n".join(f"- {line}" for line in question.criteria)
    answer = f"**One good answer.** {question.model_answer}\n\n**How it is read.**\n\n{rubric}"
    return [
        _cell(new_markdown_cell, _statement(question, "##", "../"), question, "statement"),
        _cell(new_markdown_cell, answer, question, "model-answer"),
    ]


def solution_cells(exercise: Exercise) -> list[NotebookNode]:
    """Statement, reference, its check, and the mistakes that the checker knows."""
    return [
        _cell(new_markdown_cell, _statement(exercise, "##", "../"), exercise, "statement"),
        _cell(new_code_cell, exercise.solution_source, exercise, "solution"),
        _cell(new_code_cell, f"{exercise.call}.check()", exercise, "check"),
        _cell(new_markdown_cell, _mistakes(exercise), exercise, "mistakes"),
    ]


def _mistakes(exercise: Exercise) -> str:
    reports: dict[str, list[str]] = {}  # several mistakes may share their words: these stand once
    for wrong in exercise.wrong.values():
        seen = reports.setdefault(f"- {wrong.text}" + (f" *{wrong.hint}*" if wrong.hint else ""), [])
        if wrong.seen_in and wrong.seen_in not in seen:
            seen.append(wrong.seen_in)
    items = []
    for text, seen in reports.items():
        links = [f"[{one}](https://github.com/{one.replace('#', '/issues/')})" for one in seen]
        items.append(text + (f" (seen in {', '.join(links)})" if links else ""))
    number = f"{len(exercise.wrong)} mistakes" + (f" of {len(items)} kinds" if len(items) < len(exercise.wrong) else "")
    summary = f"What people write instead ({number}, and pairs of them)"
    return f"<details>\n<summary>{summary}</summary>\n\n" + "\n".join(items) + "\n\n</details>"


def with_exercises(notebook: NotebookNode, module: ModuleType) -> NotebookNode:
    """The notebook with its exercise cells made anew, after the cell whose metadata says "role": "exercises"."""
    kept = [cell for cell in notebook.cells if "exercise" not in cell.metadata]
    places = [i for i, cell in enumerate(kept) if cell.metadata.get("role") == "exercises"]
    if len(places) != 1:
        raise ValueError(f'one cell should have the metadata "role": "exercises", not {len(places)}')
    made = [cell for exercise in exercises_of(module) for cell in chapter_cells(exercise)]
    made += [cell for question in questions_of(module) for cell in question_cells(question)]
    notebook.cells = [*kept[: places[0] + 1], *made, *kept[places[0] + 1 :]]
    return notebook


def solutions_notebook(path: Path, module: ModuleType) -> NotebookNode:
    """The solved exercises of the chapter at `path`."""
    chapter = int(path.stem[:2])
    title = (
        f"# Solutions of chapter {chapter}\n\n"
        "Each exercise with one good answer, its verdict, and the mistakes that the checker recognises. "
        "Your own answer may look quite different: the checker judges what code does, not how it is written.\n\n"
        "*This page is generated from the registry that the checker uses.*"
    )
    setup = new_code_cell(f"{guard(path)}\n\n{imports(module)}", metadata={"role": "setup"})
    setup.id = "setup"
    cells = [new_markdown_cell(title, id="title"), setup]
    cells += [cell for exercise in exercises_of(module) for cell in solution_cells(exercise)]
    cells += [cell for question in questions_of(module) for cell in answered_cells(question)]
    return new_notebook(cells=cells)


# ---- running and storing --------------------------------------------------------------------------------------------


def canonical(notebook: NotebookNode) -> NotebookNode:
    """Without what differs from run to run or machine to machine: times, widget state, versions of the kernel."""
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python", "pygments_lexer": "ipython3"},
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        for key in ("execution", "collapsed", "scrolled"):
            cell.metadata.pop(key, None)
    nbformat.validate(notebook)
    return notebook


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run all cells on a fresh kernel, from the notebooks' folder. An exception in a cell ends the run."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}}
    ).execute()
    # A loaded machine sends one cell's printing in several pieces; stored, it is one.
    return CoalesceStreamsPreprocessor().preprocess(notebook, {})[0]


def write(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = nbformat.writes(canonical(notebook)) + "\n"
    changed = not path.exists() or path.read_text(encoding="utf-8") != text
    path.write_text(text, encoding="utf-8")
    print(f"{'rewritten' if changed else 'unchanged'}: {path.relative_to(ROOT)}", flush=True)


def proof_text(modules: list[ModuleType], seeds: range = PROOF_SEEDS, kept: dict | None = None) -> str:
    """The table of proofs, with rows that are kept. RuntimeError that lists what failed: no false table is written."""
    proofs = [prove(exercise, seeds) for module in modules for exercise in exercises_of(module)]
    failures = [f"{p.exercise.number} {p.exercise.name}: {text}" for p in proofs for text in p.failures]
    if failures:
        raise RuntimeError("the checker does not hold:\n" + "\n".join(failures))
    return f"Seeds: {len(seeds)} for each line.\n\n{table(proofs, kept)}\n"


def main(only: str | None) -> None:
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # its warning would be stored as an output
    asked = chapters(only)
    for path in asked:
        notebook = nbformat.read(path, as_version=4)
        module = registry(path)
        write(execute(with_exercises(notebook, module)), path)
        write(execute(solutions_notebook(path, module)), SOLUTIONS / path.name)
    PROOF.parent.mkdir(parents=True, exist_ok=True)
    rows = rows_of(PROOF.read_text("utf-8")) if only and PROOF.exists() else {}
    kept, proved = {}, []
    for path in chapters():  # the proof of a chapter takes minutes: the others' rows stay, and a test proves them
        names = {f"{exercise.number} `{exercise.name}`" for exercise in exercises_of(registry(path))}
        if path in asked or not names <= set(rows):
            proved.append(path)
        else:
            kept |= {name: rows[name] for name in names}
    PROOF.write_text(proof_text([registry(path) for path in proved], kept=kept), encoding="utf-8")
    print(f"written: {PROOF.relative_to(ROOT)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chapter", nargs="?", help='the chapter\'s number, as in "01"; all chapters without it')
    try:
        main(parser.parse_args().chapter)
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))
