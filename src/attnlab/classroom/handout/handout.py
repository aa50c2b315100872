"""Hand out a chapter, or exercises chosen from several: as an assignment of nbgrader's, and as Colab notebooks.

A course directory is nbgrader's. `hand_out` writes `source/NAME/NOTEBOOK.ipynb`, lets nbgrader itself make
`release/NAME/…` and the entries of the gradebook, and turns what is released into `colab/NAME/…`.

What a teacher has made stays: cells and notebooks added in `source/NAME`, the settings in `nbgrader_config.py`.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

import attnlab

from .chosen import chapter_notebook, chapter_stems, exercises_notebook
from .links import installing, to_site, to_words, wheel_address
from .releasing import configured, kept, prepare, release

MARKS = ("role", "exercise", "part", "nbgrader")  # the metadata of cells that grading goes by


def hand_out(
    course: Path,
    name: str,
    *,
    chapter: str | None = None,
    numbers: Sequence[str] = (),
    notebooks: Path | None = None,
    site: str | None = None,
    wheel: str | None = None,
    replace: bool = False,
) -> list[Path]:
    """Make the assignment `name` in a course directory, and return what was written.

    chapter, numbers   a whole chapter ("1"), or exercises and open questions in this order (["1.2", "4.1"]); neither
                       of them: hand out what lies in source/NAME again, after you have edited it
    notebooks          the folder of the course's chapters; found by itself where attnlab is installed from its files
    site               where the book is published: links lead there, and Colab installs its wheel.  Without it, links
                       that would lead nowhere become plain words
    wheel              the address of another wheel of attnlab for Colab
    replace            overwrite a notebook in source/NAME that is not what would be written

    A name is letters, digits, `_`, `-` and `.`.  Further notebooks may be added to an assignment, until there is
    students' work on it in the gradebook.

    Raises ValueError for names and addresses that are none, for chapters and exercises that do not exist, for notebooks
    with answers in them, and for a configuration that would spoil the notebooks; FileNotFoundError where the chapters
    are not found; FileExistsError where a notebook in source/NAME would be overwritten; RuntimeError with nbgrader's
    words where it refuses.  Then no notebook is changed.
    """
    checked_name(name)
    for address in filter(None, (site, wheel)):
        if "://" not in address:  # pip would take `attnlab` for a name on its index, which may be somebody else's
            raise ValueError(f"{address!r} is no address. Give one with https:// before it.")
    site, folder = site and site.rstrip("/"), course / "source" / name
    if chapter is not None and numbers:
        raise ValueError("A chapter and exercises were asked for. Name one of them; each can be handed out by itself.")
    made = None
    if chapter is not None or numbers:
        notebooks = notebooks or chapters_folder()
        stem, made = _made(name, chapter, numbers, notebooks, site)
        source = folder / f"{stem}.ipynb"
        made = made if _differs(source, made, replace) else None
    elif not list(folder.glob("*.ipynb")):
        raise ValueError(f"Nothing lies in {folder} yet. Name a chapter (as in 1) or exercises (as in 1.2 4.1).")

    written = prepare(course)
    app = configured(course)
    with kept(source) if made else contextlib.nullcontext():
        if made:
            written.append(_write(source, made))
        released = release(app, course, name)
    wheel = wheel or (site and wheel_address(site, attnlab.__version__))
    folders = [each for each in (notebooks, folder) if each]
    copies = [_write(course / "colab" / name / path.name, _for_colab(path, folders, site, wheel)) for path in released]
    return [*written, *released, *copies]


def checked_name(name: str) -> str:
    """The name of an assignment. ValueError where nbgrader, a file system or an address would stumble over it."""
    if not re.fullmatch(r"[^\W_][\w.-]*", name) or name.endswith("."):
        raise ValueError(
            f"{name!r} cannot name an assignment. Use letters, digits, _, - and . (no blanks: it becomes a folder and "
            "part of an address), beginning with a letter or digit, as in: week1."
        )
    return name


def chapters_folder() -> Path:
    """Where the course's chapters lie, if attnlab is installed from its files. FileNotFoundError elsewhere."""
    folder = Path(attnlab.__file__).resolve().parents[2] / "notebooks"
    if not list(folder.glob("01_*.ipynb")):
        raise FileNotFoundError(
            "The chapters are not part of the installed package. Get the course's files and name their folder: "
            "--notebooks COURSE/notebooks."
        )
    return folder


# ---- the notebook in source ------------------------------------------------------------------------------------------


def _made(
    name: str, chapter: str | None, numbers: Sequence[str], notebooks: Path, site: str | None
) -> tuple[str, NotebookNode]:
    """The stem of the notebook to hand out, and what it holds."""
    relinked = functools.partial(_relinked, notebooks=notebooks, site=site)
    if chapter is None:
        return name, exercises_notebook(name, numbers, notebooks, relinked)
    stem, notebook = chapter_notebook(chapter, notebooks)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = relinked(cell.source, stem, own=False)
    return stem, notebook


def _relinked(text: str, stem: str, *, notebooks: Path, site: str | None, own: bool = True) -> str:
    """The text of a chapter's cell that may lie alone now: links lead to the site, or are words.

    Without `own`, links to the cell's own chapter stay as they are.
    """
    docname = f"notebooks/{stem}"
    return _changed(text, docname, [notebooks], site, lambda page: own or page != docname)


def _changed(text: str, docname: str, folders: Sequence[Path], site: str | None, which: Callable[[str], bool]) -> str:
    """Links as addresses on the site or as words; `folders` hold the chapters, whatever their names are."""

    def file(page: str) -> Path:
        first, _, rest = page.partition("/")
        places = [folder / rest if first == "notebooks" else folder.parent / page for folder in folders]
        return next((place for place in places if place.exists()), places[0])

    return to_site(text, docname, site, file, which) if site else to_words(text, docname, which)


def _differs(path: Path, notebook: NotebookNode, replace: bool) -> bool:
    """Whether the notebook is to be written. FileExistsError where it would overwrite another one."""
    if not path.exists():
        return True

    def content(notebook: NotebookNode) -> list:  # running or folding cells is not editing them
        return [(cell.cell_type, cell.source, *map(cell.metadata.get, MARKS)) for cell in notebook.cells]

    if content(nbformat.read(path, as_version=4)) == content(notebook):
        return False
    if not replace:
        raise FileExistsError(
            f"{path} is there already, and holds something else; perhaps you edited it. To hand out what it holds, "
            "name neither a chapter nor exercises; to overwrite it, --replace."
        )
    return True


def _write(path: Path, notebook: NotebookNode) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return path


# ---- the copy for Colab ----------------------------------------------------------------------------------------------


def _for_colab(path: Path, folders: Sequence[Path], site: str | None, wheel: str | None) -> NotebookNode:
    """A released notebook as Colab needs it: alone, and with a line that installs attnlab.

    nbgrader's marks stay in the cells' metadata, which Colab keeps: what is handed in from there can be graded too.
    """
    notebook = nbformat.read(path, as_version=4)
    chapters = {f"notebooks/{stem}" for stem in chapter_stems().values()}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _changed(cell.source, f"notebooks/{path.stem}", folders, site, chapters.__contains__)
    setup = [cell for cell in notebook.cells if cell.metadata.get("role") == "setup"]
    if wheel and not setup and any("attnlab" in cell.source for cell in notebook.cells):
        setup = [new_code_cell("", id="setup", metadata={"role": "setup"})]
        notebook.cells[:0] = setup
    for cell in setup[:1] if wheel else []:
        cell.source = installing(cell.source, wheel)
    return notebook
