"""One page for one student: the answers, the cards that `check` shows, what a person has given, and the next step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from attnlab.exercises.engine import Exercise, OpenQuestion
from attnlab.exercises.engine.cards import Verdict

from ..assignments import Assignment
from ..gradebook.marks import Given, Mark, cells_of
from ..results import Result
from .pages import LONGEST_CODE, LONGEST_WORDS, Section, cut, first_sentence, render, section_of

NEXT_STEP = ("recognised", "unrecognised", "untouched", "missing")

# A cell, and what the gradebook holds of it. `most` is None where it is not graded: an answer that has a check.
Marked = tuple[str, Mark, float | None]


@dataclass(frozen=True)
class _Points:
    """What an exercise, a question or a teacher's own cell earned.

    earned     without extra credit; None while a person has still to say
    waits      whether a person has to look, or to look again
    """

    earned: float | None
    most: float
    extra: float = 0.0
    by_hand: bool = False
    waits: bool = False
    comments: tuple[str, ...] = ()

    @property
    def still(self) -> float:
        """The points that a person may yet give."""
        return self.most - (self.earned or 0.0) if self.waits and not self.by_hand else 0.0


@dataclass(frozen=True)
class _Row:
    """One exercise as the page shows it. `code` is "" where nothing was found or the answer cell is as handed out."""

    exercise: Exercise
    task: str
    section: Section
    verdict: Verdict
    code: str
    points: _Points

    @property
    def card(self) -> Markup:
        # Whoever has no mouse scrolls a wide table by the arrow keys, once it has the focus.
        return Markup(self.verdict._repr_html_().replace("<pre ", '<pre tabindex="0" '))

    @property
    def hint(self) -> str:
        return self.exercise.hints[0] if self.verdict.status in NEXT_STEP else ""


@dataclass(frozen=True)
class _Words:
    question: OpenQuestion
    task: str
    section: Section
    text: str
    points: _Points


def feedback_page(
    assignment: Assignment,
    result: Result,
    site: str | None = None,
    given: Given | None = None,
) -> str:
    """The page of one submission, as HTML: the same bytes for the same result and the same entries in the gradebook.

    site      where the book is published ("https://…"), for links to the sections to reread; None: no links
    given     what the gradebook holds: the points as they count now, comments, the late penalty; None: it shows the
              points of the judge alone

    It shows no reference solution. ValueError where `site` is no address.
    """
    parts, others = _by_exercise(assignment, given) if given else ({}, {})
    rows = [_row(each, result, parts.get(each.number, [])) for each in assignment.exercises]
    words = [_words(each, result, parts.get(each.number, [])) for each in assignment.questions]
    points = {row.exercise.number: row.points for row in rows} | {row.question.number: row.points for row in words}
    waiting = {name: each.still for name, each in (points | others).items() if each.still}
    return render(
        "feedback.html",
        site,
        assignment=assignment,
        result=result,
        rows=rows,
        words=words,
        others=others,
        given=given,
        waiting=waiting,
    )


def _row(exercise: Exercise, result: Result, marked: list[Marked]) -> _Row:
    nothing = Verdict(
        "missing", "No answer was found", [f"`{exercise.name}` is not in what you handed in."], **exercise.label
    )
    source = result.sources.get(exercise.number, "").strip("\n")
    code = "" if source.strip() == exercise.stub.strip() else cut(source, LONGEST_CODE)
    verdict = result.verdicts.get(exercise.number, nothing)
    points = _as_given(_Points(exercise.points if verdict.correct else 0, exercise.points), marked)
    return _Row(exercise, first_sentence(exercise), section_of(exercise), verdict, code, points)


def _words(question: OpenQuestion, result: Result, marked: list[Marked]) -> _Words:
    points = _as_given(_Points(None, question.points), marked)
    text = cut(result.words.get(question.number, ""), LONGEST_WORDS)
    return _Words(question, first_sentence(question), section_of(question), text, points)


# ---- what the gradebook holds ---------------------------------------------------------------------------------------


def _by_exercise(assignment: Assignment, given: Given) -> tuple[dict[str, list[Marked]], dict[str, _Points]]:
    """The cells of each exercise and question, and what a teacher has added: cells with points or a comment."""
    graded = {one.number: "check" for one in assignment.exercises}
    graded |= {one.number: "words" for one in assignment.questions}
    known, parts, others = cells_of(assignment), {}, {}
    for cell in [*(each for each in known if each in given.cells), *sorted(set(given.cells) - set(known))]:
        number, part = known.get(cell, (None, None))
        mark, most = given.cells[cell], given.worth.get(cell)
        if number in graded and (most is None or part == graded[number]):
            parts.setdefault(number, []).append((cell, mark, most))
        elif most is not None or mark.comment:
            others[cell] = _as_given(_Points(None, 0.0), [(cell, mark, most)])
    return parts, others


def _as_given(points: _Points, marked: list[Marked]) -> _Points:
    """The points that the gradebook has in place of these, and the comments on all of the cells."""
    for _, mark, most in marked:
        if most is not None:
            earned = None if mark.points is None else mark.points - mark.extra
            points = _Points(earned, most, mark.extra, mark.by_hand, mark.waits)
    comments = [cut(mark.comment, LONGEST_WORDS) for _, mark, _ in marked if mark.comment]
    return replace(points, comments=tuple(comments))
