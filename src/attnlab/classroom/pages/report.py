"""The class report, for the teacher: who is right, which misunderstanding how many have, and what to teach again."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from attnlab.exercises.engine import Exercise

from ..assignments import Assignment
from ..gradebook.marks import Marks
from ..results import Result
from ..tables import as_text, bare, csv_of
from .pages import LONGEST_LINE, LONGEST_NAME, cut, first_sentence, in_order, render, section_of
from .understanding import (
    HARD,
    MISTAKE,
    STATES,
    Misunderstanding,
    Tally,
    Unknown,
    everywhere,
    misunderstandings,
    ordered,
    tally,
    to_reteach,
    unknown,
    unreadable,
)

__all__ = ["class_report", "misunderstandings", "misunderstandings_csv"]

# How each state is called, and its symbol: a picture's second cue beside colour and pattern.
NAMES = {
    "correct": ("✓", "right"),
    "recognised": ("✗", "a recognised mistake"),
    "unrecognised": ("?", "wrong, not recognised"),
    "untouched": ("○", "not attempted"),
    "missing": ("–", "missing"),
    "unjudged": ("!", "could not be judged"),
}
COLUMNS = ["exercise", "name", "kind", "misunderstanding", "turns", "students", "attempted", "share", "question"]
COLUMNS += ["seen in", "chapter", "section"]
CAPS = (120, 80, 50, 30, 15, 8)  # ids shown in one list
ROOM_FOR_IDS = 500_000  # characters in all; the largest cap that stays below is taken
OPEN = 5  # lines of a list that are not folded
KINDS_OF_UNKNOWN, KINDS_OF_REMARKS = 30, 60  # lines of a list


def class_report(
    assignment: Assignment,
    results: Iterable[Result],
    site: str | None = None,
    *,
    anonymous: bool = False,
    page_of: Callable[[str], str] | None = None,
    marks: Marks | None = None,
) -> str:
    """The report on a class, as HTML: the same bytes for the same results, in whatever order they come.

    site        where the book is published ("https://…"), for links to its sections; None: no links
    anonymous   without ids of students and without their code, to be shown in class
    page_of     the address of a student's feedback page, seen from the report; None: no links
    marks       what the gradebook holds: the distribution and the median are of the points as they count now; None: of
                the judge's. All else counts verdicts.

    Lists of ids are folded, and cut off where they are long: the page stays below 1 MB for thousands of students.
    ValueError where a student has several results, and where `site` is no address.
    """
    results = ordered(results)
    tallies, found = tally(assignment, results), misunderstandings(assignment, results)
    unknowns, nothing = unknown(assignment, results), unreadable(results)
    reteach, remarks = to_reteach(assignment, results, found), _remarks(results)
    points = _points(assignment, results, marks)
    lists = [one.students for one in [*found, *unknowns]] + [who for _, who in remarks]
    return render(
        "report.html",
        site,
        assignment=assignment,
        names={one: NAMES[one] for one in STATES if one != "unjudged" or any(t.counts[one] for t in tallies)},
        n=len(results),
        tallies=tallies,
        parts=[_part(each, found) for each in tallies],
        everywhere=everywhere(found),
        reteach=reteach,
        unknown=[_worth_a_look(each.exercise, unknowns, results, anonymous) for each in tallies],
        unknown_answers=sum(each.counts["unrecognised"] for each in tallies),
        unreadable=nothing,
        remarks=remarks[:KINDS_OF_REMARKS],
        more_remarks=len(remarks) - KINDS_OF_REMARKS,
        points=points,
        words=[
            (each, sum(bool(r.words.get(each.number, "").strip()) for r in results)) for each in assignment.questions
        ],
        anonymous=anonymous,
        page_of=page_of,
        cap=_cap(lists, page_of),
        longest_name=LONGEST_NAME,
        open=OPEN,
        seen_address=seen_address,
    )


def _points(assignment: Assignment, results: list[Result], marks: Marks | None) -> dict[str, Any]:
    """The points of a class: as they count now where the gradebook has them, else as the judge gave them."""
    earned, most, waiting = [float(result.points) for result in results], float(assignment.points), 0
    if marks:
        sheets = [marks.sheets.get((each.student, each.notebook)) for each in results]
        earned = [
            float(each.points) if sheet is None else sheet.counts for each, sheet in zip(results, sheets, strict=True)
        ]
        waiting = sum(any(mark.waits for mark in sheet.cells.values()) for sheet in sheets if sheet)
        most = math.fsum(marks.worth.get(assignment.notebook, {}).values())
    return {
        "by_gradebook": marks is not None,
        "most": most,
        "median": statistics.median(earned) if earned else 0,
        "bins": points_in_bins(earned, most),
        "fractions": any(each % 1 for each in earned),
        "waiting": waiting,
    }


def points_in_bins(points: list[float], most: float) -> list[tuple[int, int, int]]:
    """The distribution of points: (from, to, number of submissions), at most 13 bins of one width.

    `most` is what can be earned; where extra credit brings more, there are bins for that.  A fraction counts where its
    whole number is.
    """
    top = math.floor(max([most, *points]))
    width = max(1, -(-(top + 1) // 13))
    counts = Counter(math.floor(each) // width for each in points)
    bins = range(top // width + 1)
    return [(i * width, min((i + 1) * width - 1, top), counts[i]) for i in bins]


def _part(of: Tally, found: list[Misunderstanding]) -> dict[str, Any]:
    """One exercise as the page shows it."""
    here = [each for each in found if each.exercise == of.exercise.number]
    return {
        "tally": of,
        "task": first_sentence(of.exercise),
        "section": section_of(of.exercise),
        "mistakes": [each for each in here if each.kind == MISTAKE],
        "hard": [each for each in here if each.kind == HARD],
    }


def _worth_a_look(
    exercise: Exercise, unknowns: list[Unknown], results: list[Result], anonymous: bool
) -> dict[str, Any]:
    """The answers to one exercise that nobody has a name for."""
    here = [each for each in unknowns if each.exercise == exercise.number]
    here = _nobodys(here, [result.student for result in results]) if anonymous else here
    shown, rest = here[:KINDS_OF_UNKNOWN], here[KINDS_OF_UNKNOWN:]
    return {"exercise": exercise, "shown": shown, "kinds": len(rest), "answers": sum(len(u.students) for u in rest)}


def _nobodys(unknowns: list[Unknown], ids: list[str]) -> list[Unknown]:
    """Without code, and without words that one student alone has (they may quote the answer) or that hold an id."""
    together: dict[tuple[str, str], Unknown] = {}
    for each in unknowns:
        told = len(each.students) > 1 and not any(one in each.words for one in ids)
        key = each.title, each.words if told else ""
        before = together[key].students if key in together else ()
        together[key] = replace(each, words=key[1], example="", students=before + each.students)
    return sorted(together.values(), key=lambda one: (-len(one.students), one.title, one.words))


def _remarks(results: list[Result]) -> list[tuple[str, tuple[str, ...]]]:
    """What was said of submissions, and of whose; most frequent first."""
    said = defaultdict(list)
    for result in results:
        for remark in dict.fromkeys(cut(each, LONGEST_LINE) for each in result.remarks):
            said[remark].append(result.student)
    return sorted(((text, tuple(who)) for text, who in said.items()), key=lambda each: (-len(each[1]), each[0]))


def _cap(lists: list[tuple[str, ...]], page_of: Callable[[str], str] | None) -> int:
    """How many ids one list may show, for all lists together to fit."""

    def room(cap: int) -> int:
        shown = [student for students in lists for student in students[:cap]]
        links = sum(len(page_of(student)) + 20 for student in shown) if page_of else 0
        return links + sum(min(len(student), LONGEST_NAME) + 2 for student in shown)

    return next((cap for cap in CAPS if room(cap) <= ROOM_FOR_IDS), CAPS[-1])


def seen_address(report: str) -> str:
    """Where a public report is: OWNER/NAME#12 is an issue or a pull request on GitHub."""
    place, _, number = report.partition("#")
    return f"https://github.com/{place}/issues/{number}" if number else ""


def misunderstandings_csv(assignment: Assignment, results: Iterable[Result], *, anonymous: bool = False) -> str:
    """`misunderstandings` as CSV, one line each, with all ids ("; " between them) unless `anonymous`.

    An id that a spreadsheet would take for a formula begins with an apostrophe: some part a line at semicolons.
    For a spreadsheet that guesses encodings, write it as "utf-8-sig".
    """
    table = [COLUMNS + ["who"] * (not anonymous)]
    for each in misunderstandings(assignment, results):
        row = [each.exercise, each.name, each.kind, each.text, "; ".join(each.turns), each.count, each.attempted]
        row += [f"{each.share:.3f}", " ".join(each.questions), "; ".join(each.seen_in)]
        row += [each.section.chapter, each.section.heading]
        who = bare("; ".join(as_text(student) for student in sorted(each.students, key=in_order)))
        table.append(row + [who] * (not anonymous))
    return csv_of(table)
