"""Open questions: a model answer and a rubric in place of a checker; a person grades them."""

import sys
from pathlib import Path

import pytest

from attnlab.exercises import ch6_interpretability as ch6
from attnlab.exercises.engine import OpenQuestion, exercises_of, questions_of

sys.path.append(str(Path(__file__).parents[1] / "book/tools"))

import notebooks as tool

QUESTIONS = questions_of(ch6)


def question(rubric, number="9.2"):
    return OpenQuestion(number, "why", section="Toys", statement="Why?", model_answer="One.\n\nTwo.", rubric=rubric)


def test_a_chapters_questions_follow_its_exercises():
    n = len(exercises_of(ch6))
    assert [q.number for q in QUESTIONS] == [f"6.{n + i}" for i in range(1, len(QUESTIONS) + 1)]
    assert len(QUESTIONS) == 2 and all(getattr(ch6, q.name) is q for q in QUESTIONS)


def test_the_points_are_those_of_the_rubric():
    assert question({"A reason.": 1, "Another.": 2}).points == 3


@pytest.mark.parametrize("rubric", [{}, {"A reason.": 0}, {"A reason.": 1.5}])
def test_a_rubric_without_points_is_refused(rubric):
    with pytest.raises(ValueError, match=r"question 9\.2 needs a rubric"):
        question(rubric)


def test_the_card_shows_answer_and_rubric_in_paragraphs(capsys):
    question({"A reason.": 1, "Another.": 2}).solution()
    said = capsys.readouterr().out
    assert said.startswith("? One good answer to question 9.2\nOne.\n\nTwo.\n\nHow it is read:")
    assert said.endswith("• A reason. (1 point)\n\n• Another. (2 points)\n")


def test_the_cells_are_words_that_a_person_grades():
    one = question({"A reason.": 3})
    statement, words, compare = tool.question_cells(one)
    assert statement.source.startswith("### Open question 9.2 · `why`\n\nWhy?") and "3 points" in statement.source
    assert words.cell_type == "markdown"
    assert words.metadata.nbgrader == {
        "grade": True,
        "grade_id": "ex-9-2-words",
        "locked": False,
        "points": 3,
        "schema_version": 3,
        "solution": True,
        "task": False,
    }
    assert compare.source.endswith("# ch9.why.solution()") and "nbgrader" not in compare.metadata
    assert "One." not in statement.source + words.source + compare.source
    answered = "\n".join(cell.source for cell in tool.answered_cells(one))
    assert "One.\n\nTwo." in answered and "- A reason. (3 points)" in answered
