"""Exercises chosen from the chapters, as one small notebook made from the chapters' own cells."""

from __future__ import annotations

import ast
import copy
import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnlab.exercises.engine import Exercise, OpenQuestion, exercises_of, questions_of

from ..assignments import chapter, look_up

WIDTH = 75  # of a code cell, as in the chapters

CODE = (
    "Write your code in place of the dots, run the cell, then run the check below it. A function gets NumPy arrays (or "
    "numbers, where its docstring says so) and returns an array, without changing its inputs. The check looks at what "
    "it *does*, not at how it is written; if it knows your mistake, it says which one it is. {hint} gives a hint, then "
    "the next. If your own cell ended in an error, the check still sees the function from before: mend the cell first."
)
WORDS = "An open question is answered in words, in the cell below it; a person reads them."


@functools.cache
def chapter_stems() -> dict[str, str]:
    """The chapters of the course, by number: {"1": "01_weights", …}."""
    modules = {str(number): chapter(str(number)) for number in range(1, 100)}
    names = {number: module.__name__.rsplit(".", 1)[1].split("_", 1)[1] for number, module in modules.items() if module}
    return {number: f"{int(number):02}_{name}" for number, name in names.items()}


def chapter_path(number: str, notebooks: Path) -> Path:
    """The notebook of a chapter: "1" → notebooks/01_weights.ipynb.

    Raises ValueError where there is no such chapter, FileNotFoundError where its notebook is not in the folder.
    """
    stems = chapter_stems()
    if number.lstrip("0") not in stems:
        raise ValueError(f"There is no chapter {number!r}. Give the number of one of these: {', '.join(stems)}.")
    path = notebooks / f"{stems[number.lstrip('0')]}.ipynb"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there. Give the folder of the course's chapters.")
    return path


def chapter_notebook(number: str, notebooks: Path) -> tuple[str, NotebookNode]:
    """A chapter's notebook as it is: the stem of its file, and what it holds.

    Raises ValueError where somebody has answered in it, or where it belongs to another version of the exercises: a
    handout must not show answers.
    """
    path = chapter_path(number, notebooks)
    notebook = nbformat.read(path, as_version=4)
    module = chapter(number.lstrip("0"))
    stubs = {each.number: each.stub for each in exercises_of(module)}
    there = {(cell.metadata.get("exercise"), cell.metadata.get("part")): cell for cell in notebook.cells}
    answers = {number: there.get((number, "answer")) for number in stubs}
    edited = [number for number, cell in answers.items() if cell is None or cell.source != stubs[number]]
    words = {each.number: there.get((each.number, "words")) for each in questions_of(module)}
    edited += [number for number, cell in words.items() if cell is None or "in place of this line" not in cell.source]
    if edited:
        raise ValueError(
            f"{path} is not the chapter as published with this attnlab: the answer cells of {', '.join(edited)} were "
            "edited or are missing, and a handout must not show answers. Give the folder of the untouched notebooks."
        )
    return path.stem, notebook


def exercises_notebook(
    title: str, numbers: Sequence[str], notebooks: Path, relinked: Callable[[str, str], str]
) -> NotebookNode:
    """A notebook with these exercises and open questions, in this order.

    title      its heading
    relinked   makes the text of a statement fit to leave its chapter: relinked(text, "01_weights")
    Raises ValueError for numbers that do not exist, and what `chapter_notebook` raises.
    """
    numbers = list(dict.fromkeys(numbers))
    exercises, questions = look_up(numbers)
    of_chapter = {number: number.split(".")[0] for number in numbers}
    chapters = {each: chapter_notebook(each, notebooks) for each in sorted(set(of_chapter.values()), key=int)}
    cells = [cell for number in numbers for cell in _cells(number, *chapters[of_chapter[number]], relinked)]
    whole = [notebook for _, notebook in chapters.values()]
    setup = merged_setup(
        [with_role(notebook, "setup") for notebook in whole],
        names=_words(cell for notebook in whole for cell in notebook.cells if "exercise" in cell.metadata)
        | _used(each for number in chapters for each in exercises_of(chapter(number))),
        packages=_words(cells) | _used(exercises),
    )
    head = [
        new_markdown_cell(f"# {title}\n\n{_how(exercises, questions)}", id="title"),
        new_code_cell(setup, id="setup", metadata={"role": "setup"}),
        new_code_cell(
            "\n".join(with_role(notebook, "exercises") for notebook in whole),
            id="exercises-import",
            metadata={"role": "exercises"},
        ),
    ]
    return new_notebook(cells=head + cells, metadata=copy.deepcopy(whole[0].metadata))


def _cells(
    number: str, stem: str, notebook: NotebookNode, relinked: Callable[[str, str], str]
) -> Iterator[NotebookNode]:
    """The cells of one exercise or question, without outputs."""
    for cell in notebook.cells:
        if cell.metadata.get("exercise") == number:
            cell = copy.deepcopy(cell)
            if cell.cell_type == "markdown":
                cell.source = relinked(cell.source, stem)
            else:
                cell.outputs, cell.execution_count = [], None
            yield cell


def _how(exercises: Sequence[Exercise], questions: Sequence[OpenQuestion]) -> str:
    """How to work on them."""
    hints = sorted({f"`{each.call.split('.')[0]}.NAME.hint()`" for each in exercises})
    listed = " or ".join([", ".join(hints[:-1]), hints[-1]] if len(hints) > 1 else hints)
    said = [CODE.format(hint=listed)] * bool(exercises) + [WORDS] * bool(questions)
    return "\n\n".join(textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in said)


def with_role(notebook: NotebookNode, role: str) -> str:
    """The sources of the cells with this role."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.metadata.get("role") == role)


def _words(cells: Iterable[NotebookNode]) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", "\n".join(cell.source for cell in cells)))


def _used(exercises: Iterable[Exercise]) -> set[str]:
    """The names that good answers use."""
    return {name for each in exercises for name in each.reference.__code__.co_names}


# ---- the setup cells of several chapters, as one ---------------------------------------------------------------------


def merged_setup(sources: Iterable[str], names: set[str], packages: set[str]) -> str:
    """One setup cell for several chapters' exercises, with nothing said twice, and without what only lessons need.

    names      what the exercises may use of attnlab: of `from attnlab import …`, these stay
    packages   what they may use besides: of the packages that one can be without (torch), these are asked for
    """
    nodes = [(node, _lines(source, node)) for source in sources for node in ast.parse(source).body]
    asked: dict[str, str] = {}  # the imports that may fail, by package; one that ends the notebook is the stronger
    taken: dict[str, set[str]] = {}  # module → the names imported from it
    for node, text in nodes:
        if isinstance(node, ast.Try):
            package = node.body[0].names[0].name
            if package in packages | {"attnlab"} and "raise" not in asked.get(package, ""):
                asked[package] = text
        elif isinstance(node, ast.ImportFrom):
            wanted = {each.name for each in node.names} & names
            taken[node.module] = taken.get(node.module, set()) | wanted
    imports = [text for node, text in nodes if isinstance(node, ast.Import)]
    bound = {*asked, *(name for text in imports for name in _bound(text)), *set().union(*taken.values())}
    settings = [text for node, text in nodes if isinstance(node, ast.Expr) and _needs(node) <= bound | {"print"}]
    settings.sort(key=lambda text: text.startswith("print("))  # what is printed comes last
    blocks = [
        asked.pop("attnlab"),
        "\n".join(dict.fromkeys(imports)),
        *asked.values(),
        "\n".join(_import(module, sorted(wanted)) for module, wanted in sorted(taken.items()) if wanted),
        "\n".join(dict.fromkeys(settings)),
    ]
    return "\n\n".join(block for block in blocks if block)


def _lines(source: str, node: ast.stmt) -> str:
    """A statement as it is written, with the comment behind it."""
    return "\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno])


def _bound(text: str) -> list[str]:
    (node,) = ast.parse(text).body
    return [each.asname or each.name.split(".")[0] for each in node.names]


def _needs(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"
