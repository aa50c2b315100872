"""A class of forty with a known distribution: real verdicts on real twins, right answers, stubs and nonsense."""

import functools

import numpy as np
from nbformat.v4 import new_notebook

from attnlab.classroom.assignments import Assignment, look_up
from attnlab.classroom.results import Result
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine import Exercise
from attnlab.exercises.engine.cards import Verdict

NUMBERS = ["1.2", "1.4", "1.8", "3.1", "3.2", "3.3", "6.11"]
SITE = "https://book.example.org/attention/"
NOT_SCALED = ("scale: none",)
TIMES = ("use: times",)  # the same numbers as "use: exponent": an answer may be either
TURNED = ("sign: minus",)


def assignment(numbers: list[str] | None = None) -> Assignment:
    return Assignment("week1", "01_weights", *look_up(numbers or NUMBERS), new_notebook())


@functools.cache
def of_twin(exercise: Exercise, *turns: str) -> Verdict:
    """The verdict on the wrong twin with these turns; without turns, on the reference."""
    return exercise.judge(next(twin.function for twin in exercise.twins if set(twin.turns) == set(turns)))


def fails_for_zeros(query, keys):
    """Right on ordinary inputs."""
    scores = keys @ query / np.sqrt(len(query))
    return scores if query.any() else scores + np.nan


def fails_for_zeros_unscaled(query, keys):
    return keys @ query if query.any() else keys @ query + np.nan


def three_zeros(*_):
    return np.zeros(3)


def raises_html(*_):
    raise KeyError("<b>s07</b><img src=x onerror=alert(1)>")


def untouched(*_): ...


@functools.cache
def of(exercise: Exercise, function) -> Verdict:
    return exercise.judge(function)


def scaled_scores() -> list[Verdict | None]:
    """Exercise 1.2 for the 38 whose notebook can be read."""
    one = ch1.scaled_scores
    return [
        *[of_twin(one)] * 17,
        *[of_twin(one, *NOT_SCALED)] * 8,
        *[of_twin(one, *NOT_SCALED, *TURNED)] * 3,
        of_twin(one, *TURNED),
        of(one, fails_for_zeros_unscaled),
        *[of(one, fails_for_zeros)] * 2,
        *[of(one, three_zeros)] * 2,
        of(one, raises_html),
        *[of(one, untouched)] * 2,
        None,
    ]


def weights_at_temperature() -> list[Verdict]:
    one = ch1.weights_at_temperature
    wrong = [of_twin(one, *TIMES)] * 4 + [of_twin(one, "use: exponent")] * 3
    return wrong + [of_twin(one, *TIMES, *TURNED)] * 2 + [of_twin(one)] * 29


def attend_one_query() -> list[Verdict]:
    one = ch1.attend_one_query
    return [of_twin(one)] * 20 + [of_twin(one, *NOT_SCALED)] * 10 + [of(one, untouched)] * 8


def students(n: int = 40) -> list[str]:
    return [f"s{i:02}" for i in range(1, n + 1)]


def the_class() -> list[Result]:
    """s01 to s38 in the order of these lists; s39 and s40 handed in nothing that can be read."""
    judged = {
        "1.2": scaled_scores(),
        "1.4": weights_at_temperature(),
        "1.8": attend_one_query(),
        "3.1": [of_twin(ch3.attention_in_matrix_form)] * 38,
        "3.2": [of_twin(ch3.causal_mask)] * 38,
        "3.3": [of_twin(ch3.causal_and_padding)] * 36 + [of(ch3.causal_and_padding, untouched)] * 2,
    }
    results = []
    for i, student in enumerate(students(38)):
        verdicts = {number: column[i] for number, column in judged.items() if column[i]}
        remarks = ("The answer cell of exercise 1.2 was there twice; the last one counts.",) if i < 4 else ()
        results.append(Result(student, "week1", "01_weights", "", verdicts, {"6.11": "First " * (i % 2)}, remarks))
    broken = ("This is no notebook: it begins with “PK”.",)
    nothing = {number: Verdict("missing", f"There is no exercise {number}") for number in judged}
    results.append(Result("s39", "week1", "01_weights", verdicts=nothing, words={"6.11": ""}, remarks=broken))
    results.append(Result("s40", "week1", "01_weights", remarks=broken))
    return results
