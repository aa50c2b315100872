"""How a source is laid out: which of its files is whose.

A folder a student, with or without nbgrader's folder of the assignment in it; a flat folder; the zips of learning
platforms; each of them perhaps below one more folder.  Or as a teacher's own pattern says.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from . import naming
from .limits import Reader, Refused
from .naming import Said, Sender
from .sources import Found, in_zip, open_zip, shown

WRAPPERS = 3  # folders around everything that are looked through
COURSE = {"nbgrader_config.py", "gradebook.db"}  # files in a course directory, and its folders
STEPS = {"source", "release", "colab", "submitted", "autograded", "judged", "feedback", "reports"}
BESIDE = {"index.html", "names.csv"}  # platforms add the first, an earlier intake may have left the second
NOT_SUBMITTED = (
    "lies in a course directory, but not in its submitted/, and is not graded. If it has to be, give it alone"
)


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
class Order:
    """What tells nbgrader's order, SENDER/ASSIGNMENT/FILE, from folders that students made.

    nested   the senders with a folder of this assignment
    theirs   (sender, another assignment) where a notebook of that one lies in the sender's folder of its name
    """

    nested: frozenset[str] = frozenset()
    theirs: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Layout:
    """What the names of an assignment's files are read by.

    `others` are notebooks of other assignments, and `elsewhere` says which are whose; `title` is the stem of the
    source's own name.
    """

    assignment: str
    notebooks: Collection[str]
    others: Collection[str] = ()
    title: str = ""
    pattern: re.Pattern | None = None
    elsewhere: Mapping[str, Collection[str]] = field(default_factory=dict)

    def claims(self, found: list[Found]) -> tuple[list[Claim], list[Problem]]:
        """Every file with its sender, and a problem for every file without one.

        No notebook is left out without a word but those of a course directory outside of submitted/, and those in a
        sender's folder of another assignment.  ValueError for a course directory without submissions.
        """
        problems = [_problem(each, each.refused) for each in found if not each.parts]
        found = [each for each in found if each.parts]
        if self.pattern is None:
            found = self._unwrapped(found)
        found, beside = self._submitted(found)
        problems += beside
        order = self._order(found)
        claims = []
        for each in found:
            claim = self._matched(each) if self.pattern else self._claim(each, order)
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

    def _claim(self, found: Found, order: Order) -> Claim | str | None:
        top, *below = found.parts
        said = naming.by_platform(top, self.notebooks)
        if said:
            return Claim(found, said, found.parts[-1] if below else said.file)
        if not below:
            return self._flat(found, top)
        if len(below) > 1 and order.nested and self._is_elsewhere(below[0], below[-1]):
            if top in order.nested or (top, below[0]) in order.theirs or not (found.refused or is_work(below[-1])):
                return None  # the sender's work for another assignment
            return (
                f"lies in a folder called {below[0]}, as another assignment is, and is not graded. If it is for "
                f"{self.assignment}, rename the folder"
            )
        return Claim(found, Said(Sender(top)), found.parts[-1], exact=below[:-1] == [self.assignment])

    def _order(self, found: list[Found]) -> Order:
        nested, theirs = set(), set()
        for top, *below in (each.parts for each in found):
            if len(below) > 1 and not naming.by_platform(top, self.notebooks):
                if below[0] == self.assignment:
                    nested.add(top)
                elif naming.other_of(below[-1], (), self.elsewhere.get(below[0], ()), closeness=1):
                    theirs.add((top, below[0]))
        return Order(frozenset(nested), frozenset(theirs))

    def _is_elsewhere(self, folder: str, file: str) -> bool:
        """Whether a file in that folder is of another assignment: not one that is named like a notebook of this one."""
        stems = self.elsewhere.get(folder)
        if stems is None:
            return False
        ours = max((naming.match_of(file, each).closeness for each in self.notebooks), default=0)
        return ours <= max((naming.match_of(file, each).closeness for each in stems), default=0)

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

    # ---- a course directory ----------------------------------------------------------------------------------------

    def _submitted(self, found: list[Found]) -> tuple[list[Found], list[Problem]]:
        """The files below submitted/ as if they lay at the top, where it is nbgrader's and no student's folder.

        Of a course directory these alone: what its other folders hold is not handed in, and every other notebook is a
        problem.  What lies beside a mere submitted/ stays.  A file or folder that is only called like one of a course
        directory's changes nothing for the rest of a class.
        """
        inside = [each for each in found if each.parts[0] == "submitted" and len(each.parts) > 1]
        beside = [each for each in found if each.parts[0] != "submitted" or len(each.parts) == 1]
        tops = {each.parts[0] for each in found}
        marked = bool(tops & COURSE) or len(tops & STEPS) > 1
        works = [each for each in beside if is_work(each.parts[-1]) and not _of_course(each)]
        submitted = [each.parts for each in inside if is_work(each.parts[-1])]
        ordered = any(len(parts) > 3 and parts[2] in {self.assignment, *self.elsewhere} for parts in submitted)
        if marked and not works and not submitted:
            listed = ", ".join(sorted(tops & (COURSE | STEPS)))
            raise ValueError(
                f"The source is a course directory (it holds {listed}), and no notebook lies in its submitted/. "
                "Give a folder or zip with submissions alone."
            )
        if not ordered and (works or not inside):
            return found, []
        stripped = [replace(each, parts=each.parts[1:]) for each in inside]
        if marked:
            return stripped, [_problem(each, each.refused or NOT_SUBMITTED) for each in works]
        return (found if self.pattern else stripped + beside), []


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


def is_work(file: str) -> bool:
    """Whether a file may be what somebody handed in."""
    return is_notebook(file) or is_zip(file)


def _of_course(found: Found) -> bool:
    """Whether a file lies where a course directory has its own notebooks: source/ASSIGNMENT/, source/header.ipynb."""
    top, *below = found.parts
    return top in STEPS and (len(below) > 1 or below == ["header.ipynb"])


def _problem(found: Found, message: str) -> Problem:
    return Problem(None, shown(found.label), message)
