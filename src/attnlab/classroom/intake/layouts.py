"""How a source is laid out: which of its files is whose.

A folder a student, with or without nbgrader's folder of the assignment in it; a flat folder; the zips of learning
platforms; each of them perhaps below one more folder.  Or as a teacher's own pattern says.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, replace

from . import naming
from .limits import Reader, Refused
from .naming import Said, Sender
from .sources import Found, in_zip, open_zip, shown

WRAPPERS = 3  # folders around everything that are looked through
COURSE = {"nbgrader_config.py", "gradebook.db"}  # files in a course directory, and its folders
STEPS = {"source", "release", "colab", "submitted", "autograded", "judged", "feedback", "reports"}
BESIDE = {"index.html", "names.csv"}  # platforms add the first, an earlier intake may have left the second


@dataclass(frozen=True)
class Problem:
    """Something that was refused. `student` is an id, or None where nobody can be told; `message` ends the sentence
    that `file` begins."""

    student: str | None
    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.file} {self.message}."


@dataclass(frozen=True)
class Claim:
    """A file, and whose it is. `file` is the student's own name for it; `exact`: it lies where nbgrader looks."""

    found: Found
    said: Said
    file: str
    exact: bool = False

    @property
    def sender(self) -> Sender:
        return self.said.sender


@dataclass(frozen=True)
class Layout:
    """What the names of an assignment's files are read by.

    `others` are notebooks of other assignments; `title` is the stem of the source's own name.
    """

    assignment: str
    notebooks: Collection[str]
    others: Collection[str] = ()
    title: str = ""
    pattern: re.Pattern | None = None

    def claims(self, found: list[Found]) -> tuple[list[Claim], list[Problem]]:
        """Every file with its sender, and a problem for every file without one.

        Of a whole course directory, submitted/ alone; ValueError where it has none.
        """
        problems = [_problem(each, each.refused) for each in found if not each.parts]
        found = [each for each in found if each.parts]
        if self.pattern is None:
            found = self._unwrapped(found)
        found = _submitted_alone(found)
        nested = any(len(each.parts) > 2 and each.parts[1] == self.assignment for each in found)
        claims = []
        for each in found:
            claim = self._matched(each) if self.pattern else self._claim(each, nested)
            if isinstance(claim, Claim):
                claims.append(claim)
            elif claim:
                problems.append(_problem(each, each.refused or claim))
        return claims, problems

    # ---- a teacher's pattern ---------------------------------------------------------------------------------------

    def _matched(self, found: Found) -> Claim | str | None:
        match = self.pattern.search("/".join(found.parts))
        given = match.groupdict() if match else {}
        student = given.get("student") or given.get("student_id")
        if not student and not is_notebook(found.parts[-1]) and not is_zip(found.parts[-1]):
            return None
        if not student:
            return "does not match the pattern, so nobody can be told. Widen the pattern, or rename the file"
        notebook = "" if is_zip(found.parts[-1]) else given.get("notebook") or given.get("file_id")
        file = f"{naming.stem_of(notebook) or notebook}.ipynb" if notebook else found.parts[-1]
        return Claim(found, Said(Sender(student), attempt=given.get("timestamp") or ""), file)

    # ---- the guess -------------------------------------------------------------------------------------------------

    def _claim(self, found: Found, nested: bool) -> Claim | str | None:
        top, *below = found.parts
        said = naming.by_platform(top, self.notebooks)
        if said:
            return Claim(found, said, found.parts[-1] if below else said.file)
        if not below:
            return self._flat(found, top)
        if nested and len(below) > 1 and below[0] != self.assignment:
            return None  # another assignment of the same course
        return Claim(found, Said(Sender(top)), found.parts[-1], exact=nested and below[:-1] == [self.assignment])

    def _flat(self, found: Found, file: str) -> Claim | str | None:
        if file.casefold() in BESIDE or file.endswith("-names.csv"):
            return None
        if not is_notebook(file) and not is_zip(file):
            return "is no notebook (.ipynb), and no zip. If it is a student's, ask for the notebook"
        name = naming.sender_in(file, [*self.notebooks, *self.others], self.assignment)
        if not name and naming.stem_of(file) in self.others:
            return "is the notebook of another assignment, and does not say whose it is"
        if not name:
            return "does not say whose it is. Put it into a folder with the student's name, or give a pattern"
        return Claim(found, Said(Sender(name)), file)

    def _unwrapped(self, found: list[Found]) -> list[Found]:
        """Without the folders that hold everything, and are no student."""
        for _ in range(WRAPPERS):
            tops = {each.parts[0] for each in found}
            if len(tops) != 1 or any(len(each.parts) == 1 for each in found) or not self._wraps(tops.pop(), found):
                break
            found = [replace(each, parts=each.parts[1:]) for each in found]
        return found

    def _wraps(self, top: str, found: list[Found]) -> bool:
        """Whether the only folder at the top is one around a class, and not one student's."""
        if naming.by_platform(top, self.notebooks):
            return False
        if top.casefold() in {self.assignment.casefold(), self.title.casefold(), "submitted"}:
            return True
        direct = {each.parts[1] for each in found if len(each.parts) == 2}
        files = {name for name in direct if is_notebook(name) or is_zip(name)}
        if any(naming.by_platform(name, self.notebooks) for name in direct):
            return True
        if files:
            own = any(naming.match_of(name, each).closeness > 1 for name in files for each in self.notebooks)
            return len(files) > 1 and not own
        return {each.parts[1] for each in found if len(each.parts) > 2} not in (set(), {self.assignment})


def _submitted_alone(found: list[Found]) -> list[Found]:
    """The files below submitted/ where all of them are a course directory; else all of them."""
    tops = {each.parts[0] for each in found}
    if not tops & COURSE and len(tops & STEPS) < 2:
        return found
    inside = [replace(each, parts=each.parts[1:]) for each in found if each.parts[0] == "submitted" and each.parts[1:]]
    if not inside:
        listed = ", ".join(sorted(tops & (COURSE | STEPS)))
        raise ValueError(
            f"The source is a course directory (it holds {listed}), and nothing lies in its submitted/. "
            "Give a folder or zip with submissions alone."
        )
    return inside


def opened(claim: Claim, reader: Reader, stack: contextlib.ExitStack) -> list[Claim]:
    """The claim, or what is in it if it is a zip, which stays open until `stack` ends."""
    if not is_zip(claim.file) or claim.found.refused:
        return [claim]
    try:
        reader.open_more()
        archive: zipfile.ZipFile = stack.enter_context(open_zip(claim.found.read()))
    except Refused as refused:
        return [replace(claim, found=claim.found.refusing(str(refused)))]
    inside = []
    for each in in_zip(archive, reader, claim.found.label):
        file = each.parts[-1] if each.parts else ""
        if is_zip(file) and not each.refused:
            each = each.refusing("is a zip inside of a zip, and is not opened. Pack the notebook itself")
        inside.append(Claim(each, claim.said, file))
    empty = replace(claim, found=claim.found.refusing("is an empty zip. Hand in the notebook"))
    return inside or [empty]


def compiled(pattern: str | None) -> re.Pattern | None:
    """A teacher's pattern. ValueError for one that cannot be used."""
    if pattern is None:
        return None
    try:
        made = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"The pattern {pattern!r} is no regular expression: {error}.") from None
    if not {"student", "student_id"} & set(made.groupindex):
        raise ValueError(f"The pattern {pattern!r} has no group for the student. Write one: (?P<student>[^/]+)")
    return made


def is_notebook(file: str) -> bool:
    return bool(naming.stem_of(file))


def is_zip(file: str) -> bool:
    return file.casefold().endswith(".zip")


def _problem(found: Found, message: str) -> Problem:
    return Problem(None, shown(found.label), message)
