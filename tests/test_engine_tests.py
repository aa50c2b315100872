"""Exercises in which the learner writes a test: what counts as a verdict, how tests are judged, what the card lists."""

import numpy as np
import pytest

from attnlab.exercises.ch3_matrix_and_masks.check_causal import check_causal
from attnlab.exercises.engine import Implementation, exercise, prove
from attnlab.exercises.engine.implementations import ACCEPTED, LISTED, REFUSED, verdict_of
from attnlab.exercises.engine.running import observe


def toy(**more):
    """Is a function even, f(−x) = f(x)? Made anew for each test."""

    def check_even(function):
        """function: of x (n,) → (n,)"""
        x = np.array([0.5, 1.0, 2.0, 9.0])
        assert np.allclose(function(-x), function(x))

    one = exercise("9.3", points=2, section="Toys", statement="", hints=["Try −x."])(check_even)

    @one.implementations
    def _(rng):
        scale = rng.uniform(1, 2)
        return {
            "odd": Implementation(lambda x: scale * x, "a line through 0 changes its sign.", seen_in="a/b#1"),
            "even": Implementation(lambda x: scale * x**2, "x² has the same value at −x.", correct=True),
            "almost": Implementation(lambda x: scale * x**2 * (1 + 1e-12 * x), "only digits differ.", correct=True),
            "shifted": Implementation(lambda x: (x - 1) ** 2, "it is even about 1, not about 0."),
            "odd far out": Implementation(lambda x: np.where(abs(x) > 1.5, x, 1), "small numbers hide it.", hard=True),
            "constant": Implementation(lambda x: 0 * x + 1, "a constant is even.", correct=True, hard=True),
            "odd at 9": Implementation(lambda x: np.where(x == 9, 0, 1), "look at 9 as well.", hard=True, advice=True),
            **more,
        }

    @one.mistake("exactly", "Compared digit by digit.")
    def _(function):
        x = np.array([0.5, 1.0, 2.0])
        assert (function(-x) == function(x)).all()

    @one.mistake("turned", "The verdict is turned round.")
    def _(function):
        x = np.array([0.5, 1.0, 2.0])
        return not np.allclose(function(-x), function(x))

    return one


def near(function, x):
    return np.allclose(function(-x), function(x))


X = np.array([0.5, 1.0, 2.0])


# ---- what counts as a verdict --------------------------------------------------------------------------------------


def asserts(truth):
    assert truth


def raises(error):
    raise error


class Mine(AssertionError):
    pass


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        (lambda f: None, ACCEPTED),
        (lambda f: True, ACCEPTED),
        (lambda f: np.True_, ACCEPTED),
        (lambda f: np.array(True), ACCEPTED),
        (lambda f: asserts(True), ACCEPTED),
        (lambda f: False, REFUSED),
        (lambda f: np.False_, REFUSED),
        (lambda f: np.array(False), REFUSED),
        (lambda f: asserts(False), REFUSED),
        (lambda f: raises(Mine("leaks")), REFUSED),
        (lambda f: np.testing.assert_allclose(1, 2), REFUSED),
    ],
)
def test_what_accepts_and_what_refuses(test, verdict):
    assert observe(verdict_of(test), (np.exp,)).array == verdict


def test_a_tensor_of_one_truth_value_is_a_verdict():
    import torch

    assert observe(verdict_of(lambda f: torch.ones(2).eq(1).all()), (np.exp,)).array == ACCEPTED
    assert observe(verdict_of(lambda f: torch.ones(2).eq(0).all()), (np.exp,)).array == REFUSED


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        (lambda f: np.array([True, True]), "NoVerdict"),
        (lambda f: np.array([False]), "NoVerdict"),
        (lambda f: 1, "NoVerdict"),
        (lambda f: 0.0, "NoVerdict"),
        (lambda f: "passed", "NoVerdict"),
        (lambda f: f, "NoVerdict"),
        (lambda f: raises(ValueError("leaks")), "ValueError"),
        (lambda f: raises(SystemExit), "SystemExit"),
        (lambda f: f(), "TypeError"),
    ],
)
def test_everything_else_is_a_fault_of_the_test(test, kind):
    assert observe(verdict_of(test), (np.exp,)).failure.kind == kind


# ---- judging -------------------------------------------------------------------------------------------------------


def test_a_good_test_is_correct_however_it_is_written():
    assert toy().judge(lambda f: near(f, X)).correct
    assert toy().judge(lambda f: np.testing.assert_allclose(f(-X), f(X), rtol=1e-6)).correct
    drawn = np.random.default_rng().uniform(2, 3, size=9)
    assert toy().judge(lambda f: near(f, drawn)).correct


def test_misjudging_an_advised_implementation_is_told_and_no_mistake():
    assert toy().judge(lambda f: near(f, X)).words == ["One thing more: look at 9 as well."]
    assert toy().judge(lambda f: near(f, np.array([1.0, 2.0, 9.0]))).words == []


def test_a_wrong_test_is_recognised_by_its_verdicts_and_they_are_listed():
    verdict = toy().judge(lambda f: np.array_equal(f(-X), f(X)))
    assert verdict.turns == (("exactly",),) and verdict.title == "A known mistake"
    assert verdict.words == [
        "Compared digit by digit.",
        "Of 3 implementations that should be refused, your test refuses 3; of 3 that are right, it accepts 2.",
        "Refused, though right, *almost*: only digits differ.",
    ]
    shown = verdict.comparison
    assert shown.call == "6 implementations, 1 of them misjudged"
    assert (shown.expected, shown.received) == ("almost  accepts", "almost  refuses")
    for part in ("Your test was given", "almost  refuses"):
        assert part in str(verdict) and part in verdict._repr_html_()
    assert "<function" not in str(verdict) and "lambda" not in str(verdict)


def test_one_wrong_refusal_comes_first_then_leaks_and_the_report_is_cited():
    verdict = toy().judge(lambda f: not near(f, X))
    assert verdict.turns == (("turned",),) and verdict.seen_in == ("a/b#1",)
    assert verdict.words[1].startswith("Of 3 implementations that should be refused, your test refuses 0; of 3 that")
    assert [word.split("*")[1] for word in verdict.words[2:-1]] == ["even", "odd", "shifted"]
    assert verdict.words[-1] == "And 3 more, named below."
    assert verdict.words[2].startswith("Refused, though right, ") and verdict.words[3].startswith("Let through, ")
    assert [line.split("  ")[0] for line in verdict.comparison.received.splitlines()] == [
        *("even", "odd", "shifted", "odd far out"),
        *("almost", "constant"),
    ]


def test_a_single_one_more_is_explained_like_the_others():
    verdict = toy().judge(lambda f: np.ptp(f(X)) > 0)  # refuses the constant alone
    said = [word for word in verdict.words if word.startswith(("Refused, though right, ", "Let through, "))]
    assert len(verdict.comparison.received.splitlines()) == len(said) == 4
    assert "named below" not in str(verdict)


def test_what_only_hard_implementations_show():
    verdict = toy().judge(lambda f: near(f, X[:2]))
    assert verdict.title == "Nearly: some are misjudged" and verdict.status == "recognised" and verdict.turns == ()
    assert verdict.remarks == ("odd far out",) and "Let through, *odd far out*: small numbers hide it." in verdict.words


def test_a_test_that_no_twin_explains_is_still_told_what_slips_through():
    verdict = toy().judge(lambda f: f(X)[0] > 0.3)
    assert verdict.status == "unrecognised" and verdict.hint == "`ch9.check_even.hint()` gives a hint."
    assert verdict.words[1] == "Let through, *odd*: a line through 0 changes its sign."


def test_a_test_that_changes_its_array_sees_the_change_in_both_calls():
    def aliased(attention):
        query, key, value = np.random.default_rng(3).normal(size=(3, 5, 4))
        other = value
        other[3:] = 7
        assert np.allclose(attention(query, key, value)[:3], attention(query, key, other)[:3])

    assert ("one array",) in check_causal.judge(aliased).turns


def test_a_faulty_test_is_told_its_line_and_that_this_is_no_refusal():
    def unpacks(attention):
        query, key, value = np.ones((3, 5, 4))
        _, weights = attention(query, key, value)  # there are no weights
        assert np.triu(weights, 1).max() == 0

    verdict = check_causal.judge(unpacks)
    assert verdict.status == "unrecognised" and len(verdict.words) == 1
    assert "on 9 more" in verdict.words[0] and "ValueError at `_, weights = attention(" in verdict.words[0]
    assert "Only AssertionError and False count as a refusal" in verdict.words[0]
    assert verdict.comparison.received.splitlines()[0].split() == ["mask", "turned", "round", "ValueError"]
    assert verdict.comparison.received.splitlines()[-1] == f"… and {10 - LISTED} more"


def test_a_test_that_raises_another_error_on_purpose_is_told_which_one_counts():
    def shouts(function):
        if not near(function, X):
            raise ValueError("not even")

    verdict = toy().judge(shouts)
    assert not verdict.correct and "(not even)" in verdict.words[0] and "on 2 more" in verdict.words[0]
    assert "it accepts 3" in verdict.words[1]


def test_an_array_of_truth_values_is_told_how_to_become_one():
    verdict = toy().judge(lambda f: np.isclose(f(-X), f(X)))
    assert "it returned an object of type ndarray of shape (3,)" in verdict.words[0] and "`.all()`" in verdict.words[0]
    assert verdict.comparison.received.splitlines()[0].split() == ["odd", "neither"]


def test_a_test_that_does_not_end_is_stopped():
    def endless(function):
        while near(function, X) or True:
            pass

    assert toy().judge(endless, seconds=0.3).title == "It did not finish"


def test_a_stub_is_not_attempted_and_nbgrader_gets_an_error(monkeypatch, capsys):
    scope = {}
    exec(check_causal.stub, scope)
    assert check_causal.judge(scope["check_causal"]).status == "untouched"
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="One of these mistakes"):
        check_causal.check(lambda attention: True)
    check_causal.check(check_causal.reference)
    assert "✓ Correct" in capsys.readouterr().out


# ---- the proof -----------------------------------------------------------------------------------------------------


def test_the_proof_covers_tests():
    proof = prove(toy(), range(20))
    assert proof.failures == [] and proof.mistakes == 2


def test_the_proof_fails_where_the_reference_misjudges_an_implementation():
    wrong = Implementation(lambda x: x**4, "declared wrongly.")
    hard = Implementation(lambda x: x**4, "declared wrongly.", hard=True)
    for more, where in (({"fourth": wrong}, 3), ({"fourth hard": hard}, 3)):
        failures = prove(toy(**more), range(3)).failures
        assert [f for f in failures if "the reference misjudges fourth" in f] != [] and len(failures) == where
