"""Text, question and the numbers of a card agree: what is named first can be seen in the call that is shown."""

import numpy as np
import pytest

from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch2_scoring as ch2
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine import Probe, Wrong, exercise
from attnlab.exercises.engine.describing import _clearest_difference
from attnlab.exercises.engine.judging import Answer


def toy():
    """Twice the last row of x. Which row cannot be seen where there is one; three hard inputs, the smallest last."""

    @exercise("9.4", points=1, section="Toys", statement="", hints=["Which row?"])
    def last_row_doubled(x):
        """x (n, d) → (d,)"""
        return 2.0 * x[-1]

    # The one row comes first and is the smallest; the smaller of the two that show which row comes last.
    last_row_doubled.probes(lambda rng: [(rng.normal(size=shape),) for shape in ((1, 2), (3, 4), (2, 3))])
    last_row_doubled.hard_probes(
        lambda: {
            "many columns": Probe((np.full((1, 9), -1.0),), "Many columns."),
            "huge": Probe((np.full((2, 2), 1e200),), "Huge."),
            "a column": Probe((np.array([[0.0]]),), "One number."),
        }
    )

    @last_row_doubled.choice_points(
        row={"first": Wrong("The first row.", hint="First?")},
        factor={"three": Wrong("Three.", hint="Three?"), "minus": Wrong("Sign.")},
        huge={"nan": Wrong("Not a number.", hint="Huge?")},
    )
    def _(x, *, row="last", factor="two", huge="fine"):
        y = x[0 if row == "first" else -1] * {"two": 2.0, "three": 3.0, "minus": -2.0}[factor]
        return np.where(np.abs(x[0]) > 1e100, np.nan, y) if huge == "nan" else y

    return last_row_doubled


def test_the_smallest_call_that_shows_both_mistakes_is_shown():
    both = toy().judge(lambda x: 3 * x[0])
    assert both.turns == (("row: first", "factor: three"),) and "shape (2, 3)" in both.comparison.call
    assert both.words == ["The first row.", "And: Three."] and both.hint == "First?"
    one = toy().judge(lambda x: 3 * x[-1])
    assert one.turns == (("factor: three",),) and "shape (1, 2)" in one.comparison.call


def test_where_no_call_shows_both_the_text_and_the_question_begin_with_the_one_in_the_picture():
    # Which sign is lost where all is NaN, and NaN is seen on no ordinary input.
    def huge_is_nan(factor):
        return lambda x: np.where(np.abs(x[0]) > 1e100, np.nan, factor * x[-1])

    three, minus = toy().judge(huge_is_nan(3)), toy().judge(huge_is_nan(-2))
    assert three.turns == (("factor: three", "huge: nan"),) and "shape (1, 2)" in three.comparison.call
    assert three.words == ["Three.", "And: Not a number."] and three.hint == "Three?"
    assert minus.words == ["Sign.", "And: Not a number."] and minus.hint == ""  # no question on what cannot be seen


def test_a_mistake_that_shows_only_beside_the_other_does_not_count():
    @exercise("9.7", points=1, section="Toys", statement="", hints=["Twice."])
    def doubled(x):
        return 2.0 * x

    doubled.probes(lambda rng: [(np.array([4.0]),), (np.array([4.0, 9.0]),)])

    @doubled.choice_points(factor={"three": Wrong("Three.")}, limit={"ten": Wrong("Cut at 10.")})
    def _(x, *, factor="two", limit="none"):
        return np.minimum(x * {"two": 2.0, "three": 3.0}[factor], 10 if limit == "ten" else np.inf)

    # 2 · 4 is below 10: that a right factor would be cut too can be seen beside 2 · 9 alone.
    assert "shape (2,)" in doubled.judge(lambda x: np.minimum(3 * x, 10)).comparison.call


def with_gradients():
    """2x, in torch. Where x is cut off can be seen in gradients alone; its two mistakes are declared first."""

    @exercise("9.6", points=1, section="Toys", statement="", hints=["Twice."], gradient_of=["x"])
    def doubled(x):
        return 2.0 * x

    doubled.probes(lambda rng: [(rng.normal(size=n),) for n in (3, 4)])

    @doubled.choice_points(cut={"off": Wrong("Cut off.", hint="Cut?")}, factor={"three": Wrong("Three.", hint="3?")})
    def _(x, *, cut="not", factor="two"):
        return (x.detach() if cut == "off" else x) * {"two": 2.0, "three": 3.0}[factor]

    return doubled


def test_what_only_gradients_show_is_told_last_where_values_are_shown():
    both = with_gradients().judge(lambda x: 3 * x.detach())
    assert both.turns == (("cut: off", "factor: three"),) and both.comparison.labels[1] == "Expected"
    assert both.words == ["Three.", "And: Cut off."] and both.hint == "3?"


def test_the_question_stands_below_the_diagnosis_of_a_gradient():
    lines = str(with_gradients().judge(lambda x: 2 * x.detach())).splitlines()
    said = ["The forward result is right; the gradient is not.", "Cut off.", "Ask yourself: Cut?", "Called with"]
    assert [line.strip() for line in lines[1:5]] == said


def test_the_remark_on_the_call_that_is_shown_comes_first():
    verdict = toy().judge(lambda x: 2 * x[-1] if 1 < x.shape[1] < 9 else 0 * x[-1] + 7)
    assert verdict.remarks == ("many columns", "a column") and "[[0.]]" in verdict.comparison.call
    assert verdict.words == ["One number.", "Many columns."]


@pytest.mark.parametrize(
    "answer",
    [
        lambda n_q, n_k: np.triu(np.ones((n_q, n_k), dtype=bool), 1),
        lambda n_q, n_k: np.tril(np.ones((n_q, n_k))),
    ],
)
def test_alignment_is_told_beside_a_mask_that_shows_it(answer):
    verdict = ch3.causal_mask.judge(answer)
    n_q, n_k = (int(line.split("=")[1]) for line in verdict.comparison.call.splitlines())
    told = [word.removeprefix("And: ") for word in verdict.words]
    assert len(told) == len(verdict.turns[0]) == 2 and n_q < n_k
    assert [word for word in told if word.startswith("The *first* query is lined up with the first key.")]


def test_a_mistake_in_another_convention_than_the_one_shown_is_told_last():
    wrong = {"mha": lambda a: a, "additive": lambda a: np.where(a, 0.0, -1e9)}
    verdict = ch3.convert_mask.judge(lambda a, c: wrong[c](a) if c in wrong else ch3.convert_mask.reference(a, c))
    assert verdict.comparison.call.endswith("convention = additive") and "−1e9" in verdict.hint
    assert verdict.words[0].startswith("A large finite number") and verdict.words[1].startswith('And: For "mha"')


@pytest.mark.parametrize(
    "one",
    [ch1.masked_weights, ch2.entropy_of_weights, ch3.causal_mask, ch3.convert_mask, ch3.masked_mean],
    ids=lambda e: e.name,
)
def test_every_pair_of_mistakes_begins_with_one_that_shows(one):
    single = {twin.turns: index for index, twin in enumerate(one.twins)}
    pairs = 0
    for twin in one.twins:
        verdict = one.judge(twin.function)
        if not verdict.turns or len(verdict.turns[0]) == 1:
            continue
        answer = Answer(one, twin.function, 2017)
        answer.run(5)
        probe = _clearest_difference(answer, list(verdict.turns)).probe
        tier = "hard" if probe.name else "ordinary"
        i = next(i for i, each in enumerate(one.probes_of(tier, 2017)) if each is probe)
        seen = getattr(answer, tier)[i]
        lead = verdict.words[0].removeprefix("• ").split(" And: ")[0]
        named = [name for reading in verdict.turns for name in reading if one.wrong[name].text == lead]
        shown = [not answer._same(0, tier, i, one.does(single[name,], tier, i, 2017)) for name in named]
        assert any(shown) and not answer._same(0, tier, i, seen), twin.turns
        pairs += 1
    assert pairs > 20


def test_what_a_probe_says_of_a_result_that_no_mistake_explains():
    """Asked with the arguments and finite numbers of the right shape alone; where it says nothing, the values speak."""

    @exercise("9.5", points=1, section="Toys", statement="", hints=["Twice."])
    def doubled(x):
        """x (n,) → (n,)"""
        return 2.0 * x

    def says(x, result):
        assert result.shape == x.shape and np.isfinite(result).all()
        return "Too small." if (np.abs(result) < np.abs(x)).all() else ""

    doubled.probes(lambda rng: [Probe((rng.uniform(1, 2, size=n),), says=says) for n in (3, 4)])
    doubled.mistake("halved", "Halved.")(lambda x: x / 2)
    heard = [doubled.judge(lambda x, by=by: x * by).words for by in (0.3, 0.7, 5)]
    assert heard == [["Too small."], ["Too small."], ["On this input, every number is 2.5 times the expected one."]]
    assert doubled.judge(lambda x: x / 2).words == ["Halved."]
    for answer in (lambda x: x[:1] / 9, lambda x: x * np.nan, lambda x: x.fill(1), lambda x: [0.1]):
        verdict = doubled.judge(answer)
        assert verdict.status == "unrecognised" and "Too small." not in verdict.words
