"""What must not stand in anything that students get: pieces of good answers, long enough to be recognised."""

import ast

from attnlab.exercises.engine import Exercise, OpenQuestion


def statements_of(exercise: Exercise) -> list[str]:
    """The statements of the reference, without its docstring: each as it is written, and in ast's form."""
    source = exercise.solution_source
    _, *body = ast.parse(source).body[0].body
    assert body, exercise.name
    return [text for each in body for text in (ast.unparse(each), ast.get_source_segment(source, each))]


def sentences_of(question: OpenQuestion) -> list[str]:
    """The sentences of the model answer and the lines of the rubric, with single blanks."""
    return [squeezed(text) for text in [*question.model_answer.split(". "), *question.rubric]]


def squeezed(text: str) -> str:
    """A text with single blanks, however its lines are broken."""
    return " ".join(text.split())
