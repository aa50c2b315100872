"""A notebook's file from outside, made clean: from bytes to JSON, from JSON to cells in format 4.

Whatever the bytes are, there is either `Unreadable` or a list of cells that are valid, each with a remark for what was
lost on the way.  Time and memory are bounded by the size of the file, which is.
"""

from __future__ import annotations

import json
import re
from typing import Any

from nbformat import NotebookNode, current_nbformat

LARGEST = 20_000_000  # bytes of a notebook
MOST_CELLS = 5_000
_MARK = re.compile(r"ex-(\d{1,3})-(\d{1,3})-([a-z]{1,20})")
_NUMBER = re.compile(r"\d{1,3}\.\d{1,3}")
_PART = re.compile(r"[a-z-]{1,20}")
_PICTURE = re.compile(r"image/[a-z0-9.+-]{1,40}")
_GRADED = ("answer", "check", "words")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_NOTEBOOK = "Expected is the .ipynb file that Jupyter or Colab saves; hand that in."
_OTHER_KINDS = {
    b"PK\x03\x04": "a zip or an Office document",
    b"%PDF": "a PDF",
    b"\x1f\x8b": "a compressed file",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}


class Unreadable(Exception):
    """Why a file is no notebook, in words for its author."""


def clean_cells(data: bytes, remarks: list[str]) -> tuple[list[NotebookNode], NotebookNode]:
    """The cells of a notebook and its metadata. Adds to `remarks`; Unreadable where `data` is no notebook.

    A cell has a kind, a source, and of its metadata `exercise`, `part`, `role` and `nbgrader.grade_id`; no outputs.
    """
    try:
        content = _parsed(_decoded(data, remarks))
        return _cells(content, remarks), _about(content, remarks)
    except (RecursionError, MemoryError):
        raise Unreadable(f"The file is nested too deep for a notebook. {_NO_NOTEBOOK}") from None


# ---- from bytes to JSON --------------------------------------------------------------------------------------------


def _decoded(data: bytes, remarks: list[str]) -> str:
    if len(data) > LARGEST:
        size, most = len(data) / 1e6, LARGEST / 1e6
        raise Unreadable(f"The file has {size:.0f} MB, and at most {most:.0f} MB are read. Clear its outputs.")
    if not data.strip(b" \t\r\n\0"):
        raise Unreadable("The file is empty. Save the notebook, and hand it in again.")
    for start, kind in _OTHER_KINDS.items():
        if data.startswith(start):
            raise Unreadable(f"The file is {kind}, whatever its ending says. {_NO_NOTEBOOK}")
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass")
    except UnicodeDecodeError:
        remarks.append("The file is not in UTF-8: letters other than a to z may have become others.")
        damaged = not data.decode("utf-8", "ignore").isascii()  # what is UTF-8 elsewhere is no Latin-1
        return data.decode("utf-8" if damaged else "cp1252", "replace")


def _parsed(text: str) -> dict[str, Any]:
    text = text.lstrip("\ufeff")
    try:
        content = json.JSONDecoder(strict=False, parse_int=_whole).decode(text)  # with line ends inside of strings
    except ValueError as error:
        raise Unreadable(_why_no_json(text, error)) from None
    if not isinstance(content, dict):
        raise Unreadable(f"The file is JSON, but no notebook. {_NO_NOTEBOOK}")
    return content


def _whole(digits: str) -> int | float:
    """Numbers so long that Python would refuse to read them become floats."""
    return int(digits) if len(digits) < 300 else float(digits)


def _why_no_json(text: str, error: ValueError) -> str:
    if re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.M):
        return "The file holds the marks of a git merge (<<<<<<<). Resolve the conflict, and hand it in again."
    start = text.lstrip()[:2000]
    if re.match(r"<(!doctype|html|\?xml|!--)", start, re.I):
        return f"The file is a web page, whatever its ending says. {_NO_NOTEBOOK}"
    if not start.startswith(("{", "[")):
        script = re.search(r"^\s*(import|from|def|class|#|%)\b|^# %%|^#!", start, re.M)
        return f"The file is {'a script' if script else 'text'}, and no notebook. {_NO_NOTEBOOK}"
    where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "a number"
    cut = "Unterminated" in str(error) or getattr(error, "pos", 0) >= len(text.rstrip()) - 1
    what = "is cut off" if cut else "is no valid JSON"
    return (
        f"The file {what} ({where}), so nothing in it can be read. Save it in Jupyter or Colab, and hand it in again."
    )


# ---- from JSON to cells --------------------------------------------------------------------------------------------


def _cells(content: dict[str, Any], remarks: list[str]) -> list[NotebookNode]:
    """Clean cells: a known kind, a text as source, marks, and an id; of every format."""
    major = content.get("nbformat")
    if isinstance(content.get("cells"), list):
        found = content["cells"]
    elif isinstance(content.get("worksheets"), list):
        sheets = [sheet.get("cells") for sheet in content["worksheets"] if isinstance(sheet, dict)]
        found = [cell for cells in sheets if isinstance(cells, list) for cell in cells[:MOST_CELLS]]
    else:
        raise Unreadable(f"The file is JSON, but it has no cells, so it is no notebook. {_NO_NOTEBOOK}")
    if isinstance(major, int) and major > current_nbformat:
        remarks.append(f"The notebook is in format {major}, which is newer than this program: it is read as format 4.")
    if len(found) > MOST_CELLS:
        remarks.append(f"The notebook has {len(found)} cells; those past {MOST_CELLS} are left out.")
        found = found[:MOST_CELLS]
    cells = []
    for place, cell in enumerate(found, start=1):
        if isinstance(cell, dict):
            cells.append(_clean(cell, place, remarks))
        else:
            remarks.append(f"Cell {place} is no cell ({type(cell).__name__}), and is left out.")
    return cells


def _clean(cell: dict[str, Any], place: int, remarks: list[str]) -> NotebookNode:
    kind, metadata = cell.get("cell_type"), cell.get("metadata", {})
    if not isinstance(metadata, dict):
        remarks.append(f"The metadata of cell {place} is no dictionary, and is left out.")
        metadata = {}
    clean = NotebookNode(cell_type=kind, metadata=_marks(cell, metadata), id=cell.get("id") or metadata.get("id"))
    clean.source = _source(cell.get("source", cell.get("input", "")), place, remarks)
    if kind in ("heading", "html"):  # of format 3
        level = cell.get("level")
        clean.source = f"{'#' * level} {clean.source}" if isinstance(level, int) and 0 < level < 7 else clean.source
        clean.cell_type = "markdown"
    elif kind not in ("code", "markdown", "raw"):
        remarks.append(f"Cell {place} is of a kind that nobody knows, and counts as text.")
        clean.cell_type = "raw"
    _restore_kind(clean, remarks)
    if clean.cell_type == "code" and "\0" in clean.source:
        remarks.append(f"Cell {place} has null characters, and Python takes none.")
    elif clean.cell_type != "code":
        clean.source = clean.source.replace("\0", "")
    if clean.cell_type == "markdown" and (pictures := _pictures(cell.get("attachments"))):
        clean.attachments = pictures
    return clean


def _restore_kind(cell: NotebookNode, remarks: list[str]) -> None:
    """A key pressed by mistake makes text of code: a cell for an answer keeps the kind that it was handed out with."""
    kind = {"answer": "code", "words": "markdown"}.get(cell.metadata.get("part"), cell.cell_type)
    if kind != cell.cell_type:
        number = cell.metadata.exercise
        remarks.append(f"The answer cell of {number} was turned into {cell.cell_type}; it is read as {kind} again.")
        cell.cell_type = kind


def _source(source: Any, place: int, remarks: list[str]) -> str:
    """The text of a cell, on lines that end in \\n, without halves of characters."""
    if isinstance(source, list):
        lines = [line for line in source if isinstance(line, str)]
        if len(lines) < len(source):
            remarks.append(f"Cell {place} has lines that are no text; they are left out.")
        source = "".join(lines)
    elif not isinstance(source, str):
        remarks.append(f"The source of cell {place} is no text ({type(source).__name__}), and is left out.")
        source = ""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    if _SURROGATES.search(source):
        remarks.append(f"Cell {place} has halves of characters; each is now �.")
        source = _SURROGATES.sub("�", source)
    return source


def _marks(cell: dict[str, Any], metadata: dict[str, Any]) -> NotebookNode:
    """The metadata that says which exercise a cell belongs to, from wherever a program has put it."""
    nbgrader, number, part = metadata.get("nbgrader"), metadata.get("exercise"), metadata.get("part")
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    named = [each for each in (grade_id, cell.get("id"), metadata.get("id")) if isinstance(each, str)]
    found = [match for each in named if (match := _MARK.fullmatch(each))]
    written = isinstance(number, str) and isinstance(part, str) and _NUMBER.fullmatch(number) and _PART.fullmatch(part)
    if found and (found[0].string == grade_id or not written):
        number, part, written = f"{found[0][1]}.{found[0][2]}", found[0][3], True
    marks = NotebookNode({"exercise": number, "part": part} if written else {})
    if metadata.get("role") in ("setup", "exercises"):
        marks.role = metadata["role"]
    if written and not isinstance(grade_id, str) and part in _GRADED:
        grade_id = f"ex-{number.replace('.', '-')}-{part}"  # as Colab and copies lose it
    if isinstance(grade_id, str) and 0 < len(grade_id) <= 200:
        marks.nbgrader = NotebookNode(grade_id=_SURROGATES.sub("�", grade_id))
    return marks


def _pictures(attachments: Any) -> NotebookNode:
    """Pictures that were pasted into a cell: a person looks at them."""
    pictures = NotebookNode()
    for name, kinds in attachments.items() if isinstance(attachments, dict) else ():
        kinds = kinds.items() if isinstance(kinds, dict) else ()
        bundle = {kind: data for kind, data in kinds if _PICTURE.fullmatch(kind) and isinstance(data, str)}
        if bundle and not _SURROGATES.search(name + "".join(map("".join, bundle.items()))):
            pictures[name] = NotebookNode(bundle)
    return pictures


def _about(content: dict[str, Any], remarks: list[str]) -> NotebookNode:
    """The kernel and language of the notebook, as far as they are known."""
    metadata = content.get("metadata")
    kept = NotebookNode()
    for group, wanted in {"kernelspec": ("display_name", "name", "language"), "language_info": ("name",)}.items():
        found = metadata.get(group) if isinstance(metadata, dict) else None
        found = found if isinstance(found, dict) else {}
        texts = {key: found[key] for key in wanted if isinstance(found.get(key), str)}
        texts = {key: text for key, text in texts.items() if text.isprintable() and len(text) <= 100}
        if texts.keys() >= {"name"} and (group != "kernelspec" or "display_name" in texts):
            kept[group] = NotebookNode(texts)
    language = kept.get("language_info", {}).get("name") or kept.get("kernelspec", {}).get("language") or "python"
    if "python" not in language.lower():
        remarks.append(f"The notebook is written for {language}; its cells are read as Python.")
    return kept
