"""Sources given by mistake: the course directory, another assignment's, files of nobody.

Each is found before anything is brought in, and the error says what was found and what to give.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import naming
from .layouts import STEPS, Claim, Problem, is_notebook, opened
from .limits import Reader, Refused
from .reading import Unreadable, clean_cells
from .sources import Found, read_file, shown

SHOWN = 3  # files or problems that an error names
GIVE = "Give a folder or zip with submissions, or nothing for those in submitted/: attnlab grade {assignment}"
NAMES = (
    "Whose a file is, its name or folder says: STUDENT.ipynb, or STUDENT/{notebook}.ipynb in the folder that is given; "
    r"or a pattern does: --pattern 'hw-(?P<student>[^/]+)\.ipynb' reads ada from hw-ada.ipynb."
)


# ---- the course directory ------------------------------------------------------------------------------------------


def origin(source: Path, course: Path, assignment: str, pattern: str | None) -> Path | None:
    """What is to be brought in: the source; None for the course's own submitted/.

    ValueError for any other part of the course directory, and for a folder around it.
    """
    own, given, give = course.resolve(), source.resolve(), GIVE.format(assignment=assignment)
    if given in own.parents:
        raise ValueError(f"{source} holds this course directory itself. {give}")
    if given in (own, (course / "submitted").resolve()):
        if pattern:
            raise ValueError(
                f"{source} is in nbgrader's order already, submitted/STUDENT/{assignment}, and no pattern is used on "
                "it. Leave the pattern out, or give a folder outside of submitted/."
            )
        return None
    step, *below = given.relative_to(own).parts if given.is_relative_to(own) else [""]
    if step in STEPS - {"submitted"} and (course / step).is_dir():
        raise ValueError(f"{source} is a part of the course directory that holds no submissions as they came. {give}")
    if step == "submitted" and (course / "submitted" / below[0] / assignment).is_dir():
        raise ValueError(f"{source} lies in submitted/ already, all of which is graded by: attnlab grade {assignment}")
    return source


# ---- another assignment's ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Foreign:
    """A file of another assignment: that one's `notebook`, if the name tells, and the numbers of its exercises."""

    label: str
    notebook: str = ""
    numbers: frozenset[str] = frozenset()


@dataclass
class Expected:
    """What an assignment's notebooks are known by: their names, and the numbers of their exercises.

    `others` and `elsewhere` are as a `Layout` has them.
    """

    course: Path
    assignment: str
    notebooks: Collection[str]
    others: Collection[str]
    elsewhere: Mapping[str, Collection[str]]
    reader: Reader

    def check(self, claims: Iterable[Claim]) -> None:
        """ValueError where nothing is a notebook of the assignment, but something is known to be another file.

        What cannot be read may have been one; so may a notebook without a telling name, unless others tell.
        """
        own = self._handed_out().get(self.assignment, set())
        foreign, unknown, strange = [], False, []
        with self.reader.ahead():
            for claim in claims:
                self.reader.sender = claim.sender
                with contextlib.ExitStack() as stack:
                    for each in opened(claim, self.reader, stack):
                        kind = self._kind(each, own)
                        if kind == "own":
                            return
                        unknown |= kind == "unknown"
                        strange += [each.found.label] if kind == "strange" else []
                        foreign += [kind] if isinstance(kind, Foreign) else []
        if foreign or (strange and not unknown):
            raise ValueError(self._words(foreign, strange))

    def _kind(self, claim: Claim, own: set[str]) -> str | Foreign:
        """own, strange, unknown, or what tells that it is of another assignment."""
        other = is_notebook(claim.file) and naming.other_of(claim.file, self.notebooks, self.others, closeness=1)
        notebook = naming.notebook_of(claim.file, self.notebooks, self.others)
        named = notebook is not None and naming.match_of(claim.file, notebook).closeness > 0
        numbers = frozenset() if claim.found.refused or notebook is None else _numbers(claim.found)
        if own and numbers:
            return "own" if own & numbers else Foreign(claim.found.label, other or "", numbers)
        if other:
            return Foreign(claim.found.label, other)
        if claim.found.refused:
            return "own" if named else "unknown"
        return "strange" if notebook is None else "own" if named else "unknown"

    def _handed_out(self) -> dict[str, set[str]]:
        """assignment → the numbers of its exercises, as source/ holds them."""
        numbers: dict[str, set[str]] = {}
        for path in sorted((self.course / "source").glob("*/*.ipynb")):
            found = Found((path.name,), str(path), lambda path=path: read_file(path))
            numbers.setdefault(path.parent.name, set()).update(_numbers(found))
        return numbers

    def _words(self, foreign: list[Foreign], strange: list[str]) -> str:
        expected = " or ".join(f"{name}.ipynb" for name in self.notebooks)
        labels = sorted(each.label for each in foreign) or sorted(strange)
        more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
        listed = f"{', '.join(shown(each) for each in labels[:SHOWN])}{more}"
        said = f"No file is a notebook of {self.assignment} ({expected}), and nothing was brought in"
        if not foreign:
            return (
                f"{said}. Found: {listed}. Give the folder or zip with {self.assignment}'s notebooks. If these are "
                f"students' notebooks, they have to be called {expected}, or a pattern has to tell by its groups "
                "student and notebook."
            )
        numbers = sorted({number for each in foreign for number in each.numbers}, key=_order)
        holding = f", with exercises {', '.join(numbers[:SHOWN])}{' …' * (len(numbers) > SHOWN)}" if numbers else ""
        homes = self._homes(foreign, set(numbers))
        advice = f"Give {self.assignment}'s submissions"
        if homes:
            advice += f", or grade {homes[0]} from this source: attnlab grade {homes[0]}"
        where = " or ".join(homes) or "no assignment of this course directory"
        return f"{said}. Found of {where}{holding}: {listed}. {advice}."

    def _homes(self, foreign: list[Foreign], numbers: set[str]) -> list[str]:
        """The assignments whose notebooks these are, by name or by exercises."""
        stems = {each.notebook for each in foreign}
        named = {name for name, theirs in self.elsewhere.items() if stems.intersection(theirs)}
        held = {name for name, held in self._handed_out().items() if held & numbers}
        return sorted((named | held) - {self.assignment})


def _numbers(found: Found) -> frozenset[str]:
    """The exercises that a notebook's cells are marked with; none of a file that is no notebook."""
    try:
        cells, _ = clean_cells(found.read(), [])
    except (Refused, Unreadable):
        return frozenset()
    return frozenset(cell.metadata.exercise for cell in cells if "exercise" in cell.metadata)


def _order(number: str) -> list[int]:
    return [int(part) for part in number.split(".")]


# ---- nobody's ------------------------------------------------------------------------------------------------------


def of_nobody(
    source: Path | None, submitted: Path, assignment: str, notebooks: list[str], problems: list[Problem]
) -> ValueError:
    """What is wrong where there is not a single submission, neither in the source nor in submitted/."""
    names, said = NAMES.format(notebook=notebooks[0]), " ".join(str(each) for each in problems[:SHOWN])
    more = f" And {len(problems) - SHOWN} more files." if len(problems) > SHOWN else ""
    if source is None:
        there = any(submitted.iterdir()) if submitted.is_dir() else False
        held = f"holds nothing at submitted/STUDENT/{assignment}" if there else "is empty"
        advice = f"Give the folder or zip as it came: attnlab grade {assignment} FOLDER. It may not lie in submitted/."
        return ValueError(" ".join(filter(None, [f"submitted/ {held}, so there is nothing to grade.", said, advice])))
    if not problems:
        return ValueError(f"{source} holds no submission of {assignment}. Give a folder with submissions, or a zip.")
    return ValueError(f"No file of {source} could be given to a student. {said}{more} {names}")
