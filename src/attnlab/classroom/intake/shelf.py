"""course/submitted: what lies there, and how a file is put there so that nothing is lost."""

from __future__ import annotations

import csv
import filecmp
import io
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..tables import bare, csv_of
from .layouts import is_notebook
from .limits import Limits, Refused, too_large
from .naming import Sender, match_of
from .sources import shown

COLUMNS = ("student", "name", "number", "notebook", "file", "late")
LINK = "is a link, and links are not followed. Put the folder or file itself there"


# ---- files ---------------------------------------------------------------------------------------------------------


def folder(submitted: Path, student: str, assignment: str, make: bool = True) -> Path:
    """submitted/STUDENT/ASSIGNMENT, made where it is missing. Refused where a link or a file is in its place."""
    place = submitted
    for name in (student, assignment):
        place = place / name
        if place.is_symlink():
            raise Refused(LINK)
        try:
            if make:
                place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"cannot be made in submitted: {error.strerror}") from None
        if not place.is_dir():
            raise Refused("is no folder. Move it away")
    return place


def store(place: Path, data: bytes, scratch: Path) -> str:
    """Write a file whole or not at all; `scratch` is a folder on the same disk.

    An earlier file with other contents stays beside it: its name is returned, "" where there was none.
    """
    if place.is_symlink() or (place.exists() and not place.is_file()):
        raise Refused("is not stored: what lies in its place is a link or no ordinary file. Move that away")
    try:
        if place.exists() and place.stat().st_size == len(data) and place.read_bytes() == data:
            return ""
        part = scratch / f".{os.getpid()}.part"
        part.unlink(missing_ok=True)
        with open(part, "xb") as file:
            file.write(data)
        kept = _kept(place) if place.exists() else ""
        os.replace(part, place)
    except OSError as error:
        raise Refused(f"cannot be stored: {error.strerror}") from None
    return kept


def _kept(place: Path) -> str:
    """Keep the file under a second name: 01_weights.ipynb.~1~, which nbgrader takes for no notebook."""
    for number in itertools.count(1):
        backup = place.with_name(f"{place.name}.~{number}~")
        if backup.is_symlink():
            continue
        if backup.exists():
            if filecmp.cmp(place, backup, shallow=False):
                return backup.name
            continue
        try:
            os.link(place, backup)
        except OSError:  # a disk without hard links
            shutil.copy2(place, backup)
        return backup.name
    raise AssertionError


# ---- what lies there -----------------------------------------------------------------------------------------------


def folders(submitted: Path) -> list[str]:
    """The names of the students' folders."""
    if not submitted.is_dir():
        return []
    with os.scandir(submitted) as listing:
        return sorted(each.name for each in listing if not each.name.startswith(".") and each.is_dir())


def students(submitted: Path, assignment: str) -> tuple[list[str], list[str]]:
    """Who handed in something for the assignment; and folders whose names are no ids."""
    there = [name for name in folders(submitted) if os.path.lexists(submitted / name / assignment)]
    good = [name for name in there if name.isprintable()]
    return good, [name for name in there if name not in good]


def look(submitted: Path, student: str, assignment: str, notebook: str, mine: Callable[[str], bool]) -> Path | None:
    """The student's file for a notebook: the one that nbgrader takes, or else one whose name is `mine`; or None."""
    place = folder(submitted, student, assignment, make=False)
    exact = place / f"{notebook}.ipynb"
    if os.path.lexists(exact):
        _readable(exact)
        return exact
    found = [each for each in sorted(place.iterdir()) if is_notebook(each.name) and mine(each.name)]
    found = [each for each in found if not each.is_symlink() and each.is_file()]
    best = max(found, key=lambda each: (match_of(each.name, notebook), each.name), default=None)
    if best:
        _readable(best)
    return best


def _readable(path: Path, limit: int = Limits.file) -> None:
    there = path.lstat()
    if stat.S_ISLNK(there.st_mode):
        raise Refused(LINK)
    if not stat.S_ISREG(there.st_mode):
        raise Refused("is no ordinary file. Put the notebook there")
    if there.st_size > limit:
        raise Refused(too_large(limit))
    if not os.access(path, os.R_OK):
        raise Refused("cannot be read: you have no permission to. Change its mode")


# ---- who was called what -------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Row:
    """One line of ASSIGNMENT-names.csv: the id, the sender as the source wrote it, and the file taken ("" for none).

    `late` where the platform marked the file so: it is known in later runs too, which see submitted/ alone.
    """

    student: str
    sender: Sender
    notebook: str
    file: str
    late: bool = False


def table_of(submitted: Path, assignment: str) -> Path:
    """It lies in submitted/ itself: nbgrader looks for folders there, two levels deep."""
    return submitted / f"{assignment}-names.csv"


def read_names(submitted: Path, assignment: str) -> list[Row]:
    """What an earlier intake wrote; nothing where there is none, or where it is no such table."""
    path = table_of(submitted, assignment)
    if path.is_symlink() or not path.is_file():
        return []
    try:
        lines = csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""))
        cells = [[bare(line.get(column) or "") for column in COLUMNS] for line in lines]
    except (OSError, ValueError, csv.Error):
        return []
    return [
        Row(student, Sender(name, number), notebook, file, bool(late))
        for student, name, number, notebook, file, late in cells
    ]


def write_names(submitted: Path, assignment: str, earlier: Iterable[Row], rows: Iterable[Row]) -> None:
    """The table, with the earlier lines of students who did not come this time. Spreadsheets open it as it is."""
    rows = list(rows)
    came = {row.student for row in rows}
    table = [COLUMNS]
    for row in sorted({*rows, *(row for row in earlier if row.student not in came)}):
        sender = row.sender.printable()
        table.append((row.student, sender.name, sender.number, row.notebook, shown(row.file), "late" * row.late))
    path = table_of(submitted, assignment)
    if rows and not path.is_symlink():
        part = submitted / f".{os.getpid()}.part"
        part.write_bytes(csv_of(table).encode("utf-8-sig", "replace"))  # with the mark that Excel needs
        os.replace(part, path)
