"""Open questions: answered in words and read by a person.  A model answer and a rubric stand in place of a checker.

    believe_the_map = OpenQuestion(
        "6.11", "believe_the_map", points=4, section="A checklist", statement="…",
        model_answer="…", rubric={"Names an aim that could fail.": 1, "…": 3},
    )

In a chapter's notebook the answer is a Markdown cell, which nbgrader hands to a teacher.  Who learns alone compares
with `solution()` afterwards, line by line of the rubric.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from . import cards


class OpenQuestion:
    """A question without a reference function.

    number, name    as an exercise's; `name` is how the chapter's module calls it
    statement       the task, in Markdown
    model_answer    one good answer, in paragraphs
    rubric          what a reader looks for, and the points for each: {criterion: points}

    Raises ValueError for a rubric without criteria, and for points that are not whole and positive.
    """

    def __init__(
        self, number: str, name: str, *, section: str, statement: str, model_answer: str, rubric: Mapping[str, int]
    ) -> None:
        wrong = [points for points in rubric.values() if not isinstance(points, int) or points < 1]
        if not rubric or wrong:
            raise ValueError(
                f"question {number} needs a rubric with whole, positive points, but its points are "
                f"{list(rubric.values())}."
            )
        self.number, self.name, self.section = number, name, section
        self.statement, self.model_answer, self.rubric = statement, model_answer, dict(rubric)

    @property
    def points(self) -> int:
        return sum(self.rubric.values())

    @property
    def call(self) -> str:
        """How a chapter's notebook names this question: ch6.believe_the_map."""
        return f"ch{self.number.split('.')[0]}.{self.name}"

    @property
    def criteria(self) -> list[str]:
        """The rubric, one line a criterion, with its points."""
        return [f"{text} ({points} point{'s' if points != 1 else ''})" for text, points in self.rubric.items()]

    def solution(self) -> None:
        """Show the model answer and the rubric."""
        rubric = "\n\n".join(f"{cards.BULLET}{line}" for line in self.criteria)
        text = f"{self.model_answer}\n\nHow it is read:\n\n{rubric}"
        cards.show(cards.Note(f"One good answer to question {self.number}", text))

    def __repr__(self) -> str:
        return f"<question {self.number} {self.name}: .solution()>"


def questions_of(chapter: ModuleType) -> list[OpenQuestion]:
    """The open questions of a chapter's module, in the order of their numbers."""
    found = [q for q in vars(chapter).values() if isinstance(q, OpenQuestion)]
    return sorted(found, key=lambda q: [int(part) for part in q.number.split(".")])
