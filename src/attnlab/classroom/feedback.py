"""One page for one student: the answers, the cards that `check` shows, and the next step."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from attnlab.exercises.engine import Exercise, OpenQuestion
from attnlab.exercises.engine.cards import Verdict

from .assignments import Assignment
from .pages import LONGEST_CODE, LONGEST_WORDS, Section, cut, first_sentence, render, section_of
from .results import Result

NEXT_STEP = ("recognised", "unrecognised", "untouched", "missing")


@dataclass(frozen=True)
class _Row:
    """One exercise as the page shows it. `code` is "" where nothing was found or the answer cell is as handed out."""

    exercise: Exercise
    task: str
    section: Section
    verdict: Verdict
    code: str

    @property
    def points(self) -> int:
        return self.exercise.points if self.verdict.correct else 0

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


def feedback_page(assignment: Assignment, result: Result, sources: dict[str, str], site: str | None = None) -> str:
    """The page of one submission, as HTML: the same bytes for the same result.

    sources   {"1.2": the source of the answer cell}; an exercise may be missing
    site      where the book is published ("https://…"), for links to the sections to reread; None: no links

    It shows no reference solution. ValueError where `site` is no address.
    """
    rows = [_row(exercise, result, sources) for exercise in assignment.exercises]
    words = [
        _Words(each, first_sentence(each), section_of(each), cut(result.words.get(each.number, ""), LONGEST_WORDS))
        for each in assignment.questions
    ]
    return render("feedback.html", site, assignment=assignment, result=result, rows=rows, words=words)


def _row(exercise: Exercise, result: Result, sources: dict[str, str]) -> _Row:
    nothing = Verdict(
        "missing", "No answer was found", [f"`{exercise.name}` is not in what you handed in."], **exercise.label
    )
    source = sources.get(exercise.number, "").strip("\n")
    code = "" if source.strip() == exercise.stub.strip() else cut(source, LONGEST_CODE)
    verdict = result.verdicts.get(exercise.number, nothing)
    return _Row(exercise, first_sentence(exercise), section_of(exercise), verdict, code)
