"""A class of hostile answers: what each tries, and what must be said of it.

`tests/hostile/*.txt` are their tables: `=== name :: what is said :: flags`, then code; `@ level flags` holds for all
below it; what stands above the first `@` is for the reader.  Each answer stands in the place of one exercise of
chapter 1; whatever else its student hands in is solved.

None of them may ever be run outside of a sandbox: each begins by looking whether the course can be seen, and does no
harm then.  None takes all there is where nothing stops it: it gives up after a while and says `UNHINDERED`.
"""

from __future__ import annotations

import copy
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import Exercise, exercises_of

SECRET = "secret-of-the-class-"  # then 32 hexadecimal digits; stands wherever nobody may look
REFERENCE = "Every value gets the same share"  # stands in the module of the first exercise, and in no notebook
UNHINDERED = "UNHINDERED"

TABLES = Path(__file__).with_name("hostile")
PRELUDE = (TABLES / "prelude.txt").read_text("utf-8").rstrip()
EXERCISES = exercises_of(ch1)
SOLVED = {each.number: each.solution_source for each in EXERCISES}
A_STUDENT = 3  # hostile answers of one student, of those that disturb nothing else: the time of all is limited

# Names for regular expressions that many entries share.
SAID = {
    "endless": r"did not come to an end|was still running",
    "broken": r"does not run|does not finish",  # the cell
    "ended": r"did not come to an end|was still running|Python itself|ended Python|closed the way out|used up",
    "memory": r"raised MemoryError|Python itself|used up all the memory",
    "MemoryError": r"MemoryError|used up all the memory",
    "wrong": r"Not right|known mistake|disturbed|not finish|no function|does not run",
    "right": r"^Correct",
    "nothing": r"found nothing",
    "missing": r"no function",
}


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A hostile answer.

    name     what it tries
    says     a regular expression for what its verdict shows
    code     its code; `HONEST` there is the solved function, and `NAME` the name that is asked for
    level    "call": the body of the function; "cell": above the solved function, or with its own; "whole": the cell
    flags    alone: a student's only hostile answer, since it may disturb others
             spoils: it takes this student's other points too, as it would in any notebook
             right: it earns its points in the end; any: it may earn them or not
    """

    name: str
    says: str
    code: str
    level: str
    flags: frozenset[str]

    def cell(self, exercise: Exercise, where: dict[str, object]) -> str:
        """The answer cell of `exercise` with this in it. `where` gives values to the names in capitals."""
        honest, solved = f"honest_{exercise.name}", exercise.solution_source
        code = self.code.replace("HONEST", honest).replace("NAME", exercise.name)
        if self.level == "whole":
            return code.replace("COURSE", str(where["COURSE"]))
        parts = [f"{name} = {value!r}" for name, value in where.items()]
        parts += [PRELUDE, solved.replace(f"def {exercise.name}(", f"def {honest}(", 1)]
        if self.level == "call":
            tries = f"tries_{exercise.name}"
            parts.append(f"def {tries}(*arguments):\n{textwrap.indent(code, '    ')}")
            parts.append(f"def {exercise.name}(*arguments):\n    return once({tries}, arguments)")
        else:
            parts += [code] if "NAME" in self.code else [code, solved]
        return "\n\n".join(parts)

    def earns(self) -> set[bool]:
        """Whether its exercise may be correct."""
        return {True, False} if "any" in self.flags else {"right" in self.flags}


def table(path: Path) -> Iterable[Kind]:
    """The answers in a table. `@ level flags` holds for all that stand below it."""
    for part in re.split(r"^@ ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        always, entries = part.split("\n", 1)
        level, *flags = always.split()
        for entry in re.split(r"^=== ", entries, flags=re.MULTILINE)[1:]:
            head, code = entry.split("\n", 1)
            name, says, *own = (piece.strip() for piece in head.split("::"))
            flags_of_it = frozenset([*flags, *" ".join(own).split()])
            said = "|".join(SAID.get(piece, piece) for piece in says.split("|"))
            yield Kind(name, said, code.strip("\n"), level, flags_of_it)


def sources() -> Iterable[Kind]:
    """Sources that no table can hold: too deep, too long, or of characters that no file has."""
    odd = {
        "a hundred thousand brackets": ("(" * 100_000 + ")" * 100_000, "does not"),
        "a hundred thousand signs": ("x = " + "-" * 100_000 + "1", "does not"),
        "a hundred thousand blocks": ("".join(" " * n + "if 1:\n" for n in range(2_000)), "does not"),
        "a sum of a million terms": ("x = " + "+".join("1" * 200_000), "does not|no function"),
        "a line of ten megabytes": (f"x = '{'x' * 10_000_000}'", "no function"),
        "a comment of ten megabytes": (f"# {'x' * 10_000_000}", "no function"),
        "a number of a million digits": (f"x = {'9' * 1_000_000}", "does not"),
        "a null byte": ("def NAME(*arguments):\n    return '\0'", "does not"),
        "half of a character": ("def NAME(*arguments):\n    return '\ud800'", "does not|type str"),
        "a form feed and spaces that are none": ("\f\u00a0def NAME(*arguments):\n    return 3", "does not|no function"),
        "a name of a megabyte": (f"def {'x' * 10**6}(): pass", "no function"),
        "two thousand names": ("".join(f"def x{n}(): pass\n" for n in range(2_000)), "no function"),
    }
    for name, (code, says) in odd.items():
        yield Kind(name, says, code, "whole", frozenset(["alone"]))


KINDS = [kind for path in sorted(TABLES.glob("[0-9]*.txt")) for kind in table(path)] + list(sources())


@dataclass(frozen=True)
class Student:
    """One hostile student: the hostile answers by number; every other exercise is solved."""

    id: str
    answers: dict[str, Kind]

    def notebook(self, released: NotebookNode, where: dict[str, object]) -> NotebookNode:
        told = {each.number: self.answers[each.number].cell(each, where) for each in EXERCISES[: len(self.answers)]}
        return answered(released, SOLVED | told)


def students(kinds: Iterable[Kind] = tuple(KINDS)) -> list[Student]:
    """The class: those that may disturb others alone, the others a few at a time."""
    kinds, groups = list(kinds), []
    groups += [[kind] for kind in kinds if "alone" in kind.flags]
    quiet = [kind for kind in kinds if "alone" not in kind.flags]
    groups += [quiet[i : i + A_STUDENT] for i in range(0, len(quiet), A_STUDENT)]
    numbers = [each.number for each in EXERCISES]
    return [Student(f"hostile-{i:03d}", dict(zip(numbers, group, strict=False))) for i, group in enumerate(groups)]


# ---- notebooks -------------------------------------------------------------------------------------------------------


def cell_of(notebook: NotebookNode, number: str, part: str) -> NotebookNode:
    return next(c for c in notebook.cells if (c.metadata.get("exercise"), c.metadata.get("part")) == (number, part))


def answered(released: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    """The released notebook with these answers, by number."""
    notebook = copy.deepcopy(released)
    for number, source in answers.items():
        cell_of(notebook, number, "answer").source = source
    return notebook
