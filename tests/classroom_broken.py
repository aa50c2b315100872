"""A class of broken submissions: notebooks cut off, edited, moved, and saved by other programs; links; and zips.

Each is put where nbgrader expects the file; what must be said of it, and which exercises still earn their points.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import stat
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from classroom_class import EXERCISES, SOLVED, cell_of
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell


@dataclass(frozen=True)
class Broken:
    """A file that is not as it was released.

    hand_in   what to do: given the path of the file, the notebook all solved, and the notebook released
    says      a regular expression for what is shown: the remarks, and the verdict on the first exercise
    earns     the numbers of the exercises that earn their points
    """

    hand_in: Callable[[Path, NotebookNode, NotebookNode], None]
    says: str
    earns: frozenset[str] = frozenset()


ALL = frozenset(SOLVED)


def content(make: Callable[[NotebookNode], str | bytes], says: str = "", earns: Iterable[str] = ALL) -> Broken:
    """A file whose content `make` gives, from the solved notebook."""

    def hand_in(path: Path, solved: NotebookNode, released: NotebookNode) -> None:
        data = make(copy.deepcopy(solved))
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))

    return Broken(hand_in, says, frozenset(earns))


def edited(change: Callable[[NotebookNode], object], says: str = "", earns: Iterable[str] = ALL) -> Broken:
    """The solved notebook after `change`."""

    def made(notebook: NotebookNode) -> str:
        change(notebook)
        return json.dumps(notebook)

    return content(made, says, earns)


def placed(put: Callable[[Path], object], says: str) -> Broken:
    """Something else than a file of its own."""
    return Broken(lambda path, solved, released: put(path), says)


def text(notebook: NotebookNode) -> str:
    return json.dumps(notebook, ensure_ascii=False)


def without(notebook: NotebookNode, *parts: str, number: str | None = None) -> None:
    for part in parts:
        notebook.cells = [
            cell
            for cell in notebook.cells
            if cell.metadata.get("part") != part or number not in (None, cell.metadata.exercise)
        ]


def bare(notebook: NotebookNode, *, ids: bool = True, marks: bool = True, minor: int = 0) -> None:
    """Without ids, as before format 4.5, and without what nbgrader and the course wrote into the metadata."""
    notebook.nbformat_minor = minor
    for cell in notebook.cells:
        if ids:
            cell.pop("id", None)
        if marks:
            cell.metadata.clear()


def in_colab(notebook: NotebookNode) -> None:
    bare(notebook, marks=False)
    notebook.metadata = NotebookNode(
        colab={"provenance": []}, kernelspec={"name": "python3", "display_name": "Python 3"}
    )
    for n, cell in enumerate(notebook.cells):
        cell.metadata.update(id=f"a{n:011d}", outputId="x", colab={"base_uri": "https://localhost:8080/"})


def in_vscode(notebook: NotebookNode) -> None:
    for n, cell in enumerate(notebook.cells):
        cell.id, cell.metadata.vscode = f"{n:08x}", {"languageId": "python"}
        cell.source = cell.source.splitlines(keepends=True)
    notebook.metadata.language_info = {"name": "python", "version": "3.13.1", "codemirror_mode": {"name": "ipython"}}


def older(notebook: NotebookNode) -> str:
    """As Jupyter saved it before 2015: format 3, with a worksheet."""
    return nbformat.v3.writes_json(nbformat.convert(notebook, 3))


def copied(notebook: NotebookNode, released_first: bool) -> None:
    """A stub beside each answer, with the same marks: before it, or after it."""
    stubs = {each.number: each.stub for each in EXERCISES}
    for cell in [c for c in notebook.cells if c.metadata.get("part") == "answer"]:
        twin = NotebookNode(copy.deepcopy(cell), source=stubs[cell.metadata.exercise])
        notebook.cells.insert(notebook.cells.index(cell) + (not released_first), twin)


def renamed(notebook: NotebookNode) -> None:
    cell = cell_of(notebook, "1.1", "answer")
    cell.source = cell.source.replace("weighted_average", "my_average")


def moved(notebook: NotebookNode) -> None:
    """All answers in one new cell at the end; the released cells are as they were."""
    sources = [cell_of(notebook, each.number, "answer").source for each in EXERCISES]
    for each in EXERCISES:
        cell_of(notebook, each.number, "answer").source = each.stub
    notebook.cells.append(new_code_cell("\n\n".join(sources)))


def spoiled(notebook: NotebookNode, part: str, **changes: object) -> None:
    cell_of(notebook, "1.1", part).update(changes)


def set_all(notebook: NotebookNode, part: str, **changes: object) -> None:
    for cell in notebook.cells:
        if cell.metadata.get("part") == part:
            cell.update(changes)


def to_a_neighbour(path: Path) -> None:
    path.symlink_to(f"../../aa-solved/{path.parent.name}/{path.name}")


BUT_FIRST = ALL - {"1.1"}
OTHER = {"cells": [{"cell_type": "code", "source": "print(1)", "metadata": {}}], "metadata": {}, "nbformat": 4}

BROKEN = {
    "an empty file": content(lambda nb: b"", "is empty", ()),
    "cut off": content(lambda nb: text(nb)[:-700], "is cut off", ()),
    "a comma too many": content(lambda nb: text(nb).replace("[", "[,", 1), "no valid JSON", ()),
    "a list": content(lambda nb: "[]", "no notebook", ()),
    "null": content(lambda nb: "null", "no notebook|cut off|is text", ()),
    "an empty object": content(lambda nb: "{}", "no cells", ()),
    "brackets without end": content(lambda nb: "[" * 10**6, "nested", ()),
    "objects without end": content(lambda nb: '{"cells":' * 10**5, "nested", ()),
    "numbers without end": content(lambda nb: text(nb)[:-1] + f', "x": {"9" * 10**6}, "y": 1e999, "z": NaN}}'),
    "cells that are none": edited(lambda nb: nb.cells.__setitem__(slice(2, 5), [None, 7, "x"]), "is no cell"),
    "cells that are a dictionary": edited(lambda nb: nb.update(cells={"0": nb.cells}), "no cells", ()),
    "sources that are none": edited(lambda nb: spoiled(nb, "answer", source={"def": 1}), "is no text", BUT_FIRST),
    "metadata that is none": edited(lambda nb: spoiled(nb, "answer", metadata=[1]), "no dictionary"),
    "a kind of its own": edited(lambda nb: spoiled(nb, "answer", cell_type="magic"), "read as code again"),
    "an answer that is Markdown": edited(lambda nb: spoiled(nb, "answer", cell_type="markdown"), "read as code again"),
    "an answer that is raw": edited(lambda nb: spoiled(nb, "answer", cell_type="raw"), "read as code again"),
    "a Word document": content(lambda nb: b"PK\x03\x04" + b"\0" * 99, "Office", ()),
    "a PDF": content(lambda nb: b"%PDF-1.7\n", "PDF", ()),
    "a web page": content(lambda nb: "<!DOCTYPE html><html></html>", "web page", ()),
    "a script": content(lambda nb: "\n".join(SOLVED.values()), "script", ()),
    "compressed": content(lambda nb: gzip.compress(text(nb).encode()), "compressed", ()),
    "many cells": edited(lambda nb: nb.cells.extend([new_code_cell("")] * 6000), "left out"),
    "twenty megabytes": edited(lambda nb: nb.metadata.update(x="x" * 21_000_000), "MB", ()),
    "the 99th format": edited(lambda nb: nb.update(nbformat=99), "newer"),
    "a format that is a text": edited(lambda nb: nb.update(nbformat="four")),
    "no format": edited(lambda nb: nb.pop("nbformat")),
    "in UTF-16": content(lambda nb: text(nb).encode("utf-16")),
    "in UTF-8 with a mark": content(lambda nb: text(nb).encode("utf-8-sig")),
    "in the encoding of old Windows": content(lambda nb: text(nb).encode("cp1252", "replace"), "UTF-8"),
    "lines as on Windows": content(lambda nb: json.dumps(nb, indent=1).replace("\n", "\r\n")),
    "as Colab saves it": edited(in_colab),
    "as VS Code saves it": edited(in_vscode),
    "as Jupyter once saved it": content(older),
    "as Jupyter 4.0 saved it": edited(lambda nb: bare(nb, marks=False)),
    "all marks stripped": edited(bare),
    "its first answer deleted": edited(lambda nb: without(nb, "answer", number="1.1"), "no cell", BUT_FIRST),
    "its answers deleted": edited(lambda nb: without(nb, "answer"), "no cell", ()),
    "its checks deleted": edited(lambda nb: without(nb, "check")),
    "its checks edited": edited(lambda nb: set_all(nb, "check", source="pass")),
    "its checks endless": edited(lambda nb: set_all(nb, "check", source="while True: pass")),
    "its statements deleted": edited(lambda nb: without(nb, "statement")),
    "a function renamed": edited(renamed, "defines `my_average`", BUT_FIRST),
    "copies before the answers": edited(lambda nb: copied(nb, True)),
    "copies after the answers": edited(lambda nb: copied(nb, False)),
    "answers in another cell": edited(moved),
    "in reverse": edited(lambda nb: nb.cells.reverse()),
    "another course's": content(lambda nb: json.dumps(OTHER), "no cell", ()),
    "a link to a neighbour": placed(to_a_neighbour, "is a link"),
    "a link to a file of the system": placed(lambda path: path.symlink_to("/etc/passwd"), "is a link"),
    "a link to itself": placed(lambda path: path.symlink_to(path), "is a link"),
    "a link to nothing": placed(lambda path: path.symlink_to("nothing"), "is a link"),
    "a link without an end": placed(lambda path: path.symlink_to("/dev/zero"), "is a link"),
    "a pipe": placed(lambda path: os.mkfifo(path), "no ordinary file"),
    "a folder": placed(lambda path: path.mkdir(), "no ordinary file"),
    "nothing": placed(lambda path: None, "No 01_weights.ipynb was handed in"),
}  # fmt: skip


# ---- a zip -----------------------------------------------------------------------------------------------------------

IN_THE_ZIP = ("bomb", "link", "locked", "nested")  # students of whom nothing can be read


def hostile_zip(path: Path, folder: Path, outside: Path) -> None:
    """The submissions in `folder` as a zip, with members that name a place outside, and others that harm a reader."""
    name = next(folder.rglob("*.ipynb")).relative_to(folder)
    own = "/".join(name.parts[1:])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.rglob("*.ipynb")):
            archive.write(each, each.relative_to(folder).as_posix())
        for up in ("../", "../../", "x/../../", "..\\", f"{outside}/", f"x/{outside}/", "C:\\", "//server/share/"):
            archive.writestr(f"{up}evil.ipynb", "{}")
            archive.writestr(f"{up}beside.txt", "changed")
        archive.writestr(f"bomb/{own}", b" " * 200_000_000)
        archive.writestr(f"nested/{own}.zip", b"PK\x05\x06" + b"\0" * 18)
        link = zipfile.ZipInfo(f"link/{own}")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, str(outside / "beside.txt"))
        locked = zipfile.ZipInfo(f"locked/{own}")
        archive.writestr(locked, "{}")
        archive.getinfo(f"locked/{own}").flag_bits |= 1
