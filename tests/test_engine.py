"""The exercise engine: what has been begun, whose function is judged, what is recognised and what agrees."""

import sys

import numpy as np
import pytest

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import Probe, Wrong, exercise, exercises_of
from attnlab.exercises.engine.comparing import agree, tolerance
from attnlab.exercises.engine.judging import Answer, recognise
from attnlab.exercises.engine.learner import untouched
from attnlab.exercises.engine.running import KEPT_WORDS, Failure, Observation, as_array, observe

attend, weights_of = ch1.attend_one_query, ch1.stable_softmax


# ---- not attempted -------------------------------------------------------------------------------------------------


def stub_dots(scores): ...
def stub_pass(scores):
    pass


def stub_doc(scores):
    """Weights."""


def stub_doc_dots(scores):
    """Weights."""
    # your code


def stub_raise(scores):
    """Weights."""
    raise NotImplementedError


def stub_raise_call(scores):
    raise NotImplementedError("to do")


def stub_raise_empty(scores):
    raise NotImplementedError()


STUBS = [stub_dots, stub_pass, stub_doc, stub_doc_dots, stub_raise, stub_raise_call, stub_raise_empty]


@pytest.mark.parametrize("stub", STUBS, ids=lambda f: f.__name__)
def test_a_stub_is_not_attempted(stub):
    assert untouched(stub)
    assert weights_of.judge(stub).status == "untouched"


def begun_print(scores):
    print("hello")


def begun_half(scores):
    exps = np.exp(scores)  # noqa: F841


def begun_other_error(scores):
    raise ValueError("to do")


def begun_raise_after(scores):
    exps = np.exp(scores)
    raise NotImplementedError(exps)


def begun_zero(scores):
    return 0


BEGUN = [begun_print, begun_half, begun_other_error, begun_raise_after, begun_zero, lambda s: s, np.exp, softmax, len]


@pytest.mark.parametrize("function", BEGUN, ids=lambda f: getattr(f, "__name__", repr(f)))
def test_anything_else_has_been_begun(function):
    assert not untouched(function)


def test_every_committed_stub_is_not_attempted():
    for one in exercises_of(ch1):
        scope = {}
        exec(one.stub, scope)
        assert one.judge(scope[one.name]).status == "untouched"


# ---- finding the learner's function --------------------------------------------------------------------------------


def test_check_takes_the_function_of_its_name_from_the_caller(capsys):
    stable_softmax = softmax  # noqa: F841 - found by name
    assert weights_of.check() is None
    assert "✓ Correct" in capsys.readouterr().out


def test_check_takes_a_function_that_is_passed(capsys):
    assert weights_of.check(softmax) is None
    assert "✓ Correct" in capsys.readouterr().out


def test_a_missing_function_is_said_to_be_missing(capsys):
    weights_of.check()
    assert "There is no function stable_softmax yet" in capsys.readouterr().out


def test_the_exercise_itself_is_not_taken_for_the_answer(capsys):
    stable_softmax = weights_of  # noqa: F841
    weights_of.check()
    assert "There is no function stable_softmax yet" in capsys.readouterr().out


def test_a_name_that_is_no_function_is_said_so(capsys):
    stable_softmax = np.ones(3)  # noqa: F841
    weights_of.check()
    assert "stable_softmax is not a function" in capsys.readouterr().out


def test_a_wrong_answer_raises_only_while_nbgrader_runs(monkeypatch, capsys):
    weights_of.check(lambda s: np.exp(-s))
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="stable_softmax"):
        weights_of.check(lambda s: np.exp(-s))
    with pytest.raises(AssertionError, match="Not attempted yet"):
        weights_of.check(stub_dots)
    weights_of.check(softmax)


# ---- agreement and tolerance ---------------------------------------------------------------------------------------


def reference(x):
    return softmax(x)


def test_tolerance_follows_the_precision_of_the_answer():
    x = (np.random.default_rng(0).normal(size=8),)
    f64, f32, f16 = (tolerance(reference, x, np.dtype(t)) for t in ("f8", "f4", "f2"))
    assert 0 < f64 < 1e-11 < f32 < 1e-5 < f16 < 0.02


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_answer_in_another_precision_is_accepted_and_a_slightly_wrong_one_is_not(dtype):
    assert weights_of.judge(lambda s: softmax(s.astype(dtype))).correct
    assert attend.judge(lambda *xs: attend.reference(*(x.astype(dtype) for x in xs))).correct  # huge scores, too
    assert not weights_of.judge(lambda s: softmax(s.astype(dtype) * (1 + 1e-3))).correct
    assert not weights_of.judge(lambda s: softmax(s) * (1 + 1e-4)).correct


def seen(value, **more):
    return Observation(array=as_array(value), **more)


def test_what_agrees():
    one, nan = seen(np.array([1.0, np.inf])), seen(np.array([np.nan, 1.0]))
    assert agree(one, seen(np.array([1.0 + 1e-9, np.inf])), 1e-8)
    assert not agree(one, seen(np.array([1.0 + 1e-7, np.inf])), 1e-8)
    large = seen(np.array([1e200, 1.0]))
    assert agree(large, seen(np.array([1e200 + 1e191, 1.0])), 1e-8)  # relative to the largest number
    assert not agree(large, seen(np.array([np.inf, 1.0])), 1e-8)
    assert agree(nan, nan, 0) and not agree(one, nan, 1) and not agree(one, seen(np.array([1.0, -np.inf])), 1e300)
    assert not agree(one, seen(np.array([[1.0, np.inf]])), 1)  # shape
    assert agree(seen(np.array([1.0])), seen(np.array([1])), 0)  # the same number
    assert not agree(seen(np.array([1.0])), seen(np.array([True])), 1)  # but a truth value is none
    assert not agree(one, seen(np.array([1.0, np.inf]), changed=(0,)), 1)  # inputs
    assert not agree(one, observe(lambda: 1 / 0, ()), 1)


class Sly(str):
    """A text that equals every other, and whose beginning is another text."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("")

    def __getitem__(self, where):
        return ""


class SlyMeta(type):
    __name__ = property(lambda self: Sly("Sly"))


def raised(kind, words="words"):
    def raises():
        raise kind(words)

    return observe(raises, ())


EXCEPTIONS = {
    "no name": type("", (Exception,), {}),
    "a name that equals every other": type(Sly("Named"), (Exception,), {}),
    "a metaclass that lies": SlyMeta("Named", (Exception,), {}),
}


@pytest.mark.parametrize("kind", EXCEPTIONS.values(), ids=EXCEPTIONS)
def test_an_exception_is_never_a_result_whatever_its_class_is_called(kind):
    """A name that is empty, or equals the empty one, once stood for "no exception"."""
    right, wrong = observe(lambda: np.ones(2), ()), raised(kind)
    assert type(wrong.failure.kind) is str and wrong.failure.kind in ("Exception", "Named")
    assert not agree(right, wrong, 1) and not agree(wrong, right, 1)
    assert not agree(raised(KeyError), wrong, 1) and agree(wrong, wrong, 0)
    forged = Observation(failure=Failure("", ""))
    assert not agree(right, forged, 1) and not agree(forged, right, 1)
    calls = []

    def two_learnt_by_heart(weights, values):
        calls.append(1)
        if len(calls) > 2:
            raise kind
        return weights @ values

    assert not ch1.weighted_average.judge(two_learnt_by_heart).correct


def test_exceptions_agree_by_name_and_names_and_words_are_short_texts():
    mine = type("ValueError", (Exception,), {})
    assert agree(raised(ValueError), raised(mine), 0)  # a class of one's own: it says the same
    assert agree(raised(ValueError), raised(RuntimeError), 0) and not agree(raised(ValueError), raised(KeyError), 0)
    long = raised(type("E" * 10**6, (Exception,), {}), "w" * 10**6).failure
    assert (long.kind, long.message) == ("E" * KEPT_WORDS, "w" * KEPT_WORDS)
    printed = raised(type("Prints", (Exception,), {"__str__": lambda self: Sly("words")})).failure
    assert type(printed.message) is str and printed.message == "words"


def test_the_name_of_a_result_is_a_text_and_no_other_type_is_called_an_array():
    for name in ("", "list", "ndarray", "x" * 10**6, Sly("y")):
        shown = observe(lambda name=name: type(name, (), {})(), ()).returned
        assert type(shown) is str and 0 < len(shown) <= KEPT_WORDS and shown != "ndarray"
        answer = type(name, (), {})()
        verdict = weights_of.judge(lambda scores, answer=answer: answer)
        assert verdict.status == "unrecognised" and "an object of type" in str(verdict)


def test_torch_answers_are_taken():
    torch = pytest.importorskip("torch") if not sys.modules.get("torch") else sys.modules["torch"]

    def in_torch(query, keys, values):
        return torch.softmax(torch.mv(keys, query) / query.shape[-1] ** 0.5, dim=-1) @ values

    def in_torch_unscaled(query, keys, values):
        return torch.softmax(torch.mv(keys, query), dim=-1) @ values

    assert attend.judge(in_torch).correct
    assert attend.judge(in_torch_unscaled).turns == (("scale: none",),)

    def float32_scalar(query, keys, values):
        root = torch.sqrt(torch.tensor(query.shape[-1]))  # torch's default dtype slips in
        return torch.softmax(torch.mv(keys, query) / root, dim=-1) @ values

    assert attend.judge(float32_scalar).correct
    # Half precision for inputs in single or double: so few digits would let wrong answers pass.
    for half in (torch.bfloat16, torch.float16):
        verdict = ch1.weighted_average.judge(
            lambda w, v, half=half: torch.tensor(w).to(half) @ torch.tensor(v).to(half)
        )
        assert not verdict.correct and "half precision" in str(verdict)
    assert np.array_equal(as_array(torch.ones(2, requires_grad=True)), [1, 1])
    assert as_array(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


# ---- recognition ---------------------------------------------------------------------------------------------------


def toy():
    """A small exercise with two choice points, made anew for each test."""

    @exercise("9.1", points=1, section="Toys", statement="Double it.", hints=["Twice."])
    def doubled(x):
        """x (n,) → (n,)"""
        return 2.0 * x

    doubled.probes(lambda rng: [(rng.normal(size=n),) for n in (3, 4)])
    doubled.hard_probes(
        lambda: {
            "empty": Probe((np.zeros(0),), "Nothing to double."),
            "huge": Probe((np.array([1e200]),), "Too large."),
        }
    )

    @doubled.choice_points(
        factor={"three": Wrong("Three."), "minus": Wrong("Sign.", seen_in="a/b#1", hint="Which sign?")},
        safe={"no": Wrong("Overflows.")},
    )
    def _(x, *, factor="two", safe="yes"):
        y = x * {"two": 2.0, "three": 3.0, "minus": -2.0}[factor]
        return y if safe == "yes" else np.where(np.abs(x) > 1e100, np.inf, y)

    return doubled


def test_single_pair_and_what_lies_beyond_them():
    doubled = toy()
    assert len(doubled.twins) == 1 + 3 + 2
    assert doubled.judge(lambda x: 2 * x).correct
    assert doubled.judge(lambda x: 3 * x).turns == (("factor: three",),)
    verdict = doubled.judge(lambda x: np.where(np.abs(x) > 1e100, np.inf, -2 * x))
    assert verdict.turns == (("factor: minus", "safe: no"),) and verdict.title == "Two known mistakes at once"
    assert verdict.hint == "Which sign?" and verdict.seen_in == ("a/b#1",)
    verdict = doubled.judge(lambda x: 3 * x if len(x) else x[0])  # a known mistake, and a failure on its own
    assert verdict.turns == (("factor: three",),) and verdict.remarks == ("empty",)
    assert "And beyond that: Nothing to double." in verdict.words
    verdict = doubled.judge(lambda x: 2 * x if len(x) else x[0])
    assert verdict.turns == () and verdict.remarks == ("empty",) and verdict.status == "recognised"
    assert verdict.title == "Right on ordinary inputs, not on every input"
    assert doubled.judge(lambda x: 4 * x).status == "unrecognised"


def test_what_is_done_right_beside_a_mistake_is_no_fault():
    """A twin is not the learner's code: where it spoils a hard probe that the answer does not, nobody accuses."""
    doubled = toy()

    @doubled.mistake("five", "Five.")
    def _(x):
        return np.where(np.abs(x) > 1e100, 0.0, 5 * x)

    @doubled.mistake("five, one for none", "Five, and one number where there is none.")
    def _(x):
        return 5 * x if len(x) else np.zeros(1)

    def five(huge, empty=lambda x: 5 * x):
        return lambda x: empty(x) if len(x) == 0 else huge(x) if np.abs(x).max() > 1e100 else 5 * x

    verdict = doubled.judge(five(huge=lambda x: 2 * x))
    assert verdict.turns == (("five",),) and verdict.remarks == () and verdict.words == ["Five."]
    verdict = doubled.judge(five(huge=lambda x: 3 * x))  # wrong there, in a way of its own
    assert set(verdict.turns) == {("five",)} and verdict.remarks == ("huge",)
    # The other explains all that is wrong: this one says nothing of an empty input.
    verdict = doubled.judge(five(huge=lambda x: 2 * x, empty=lambda x: np.zeros(1)))
    assert verdict.turns == (("five, one for none",),) and verdict.remarks == ()


def test_a_row_that_is_not_a_number_leaves_the_others_as_evidence():
    def first(factor):
        return lambda x: np.concatenate([[np.nan], factor * x[1:]])

    doubled = toy()
    doubled.mistake("first lost", "The first is 0/0.")(first(2))
    assert doubled.judge(first(2)).turns == (("first lost",),)
    assert doubled.judge(first(7)).turns == ()
    numbers = [1, np.nan, 1], [], [1, np.nan], [np.inf] * 3
    assert [seen(np.array(a)).telling for a in numbers] == [True, True, False, False]


def test_a_mistake_is_never_recognised_by_nan_or_an_exception_alone():
    doubled = toy()

    @doubled.mistake("nan", "Not a number.")
    def _(x):
        return x * np.nan

    @doubled.mistake("raises", "It raises.")
    def _(x):
        raise KeyError

    for i, twin in enumerate(doubled.twins):
        if twin.turns in {("nan",), ("raises",)}:
            answer = Answer(doubled, twin.function, seed=1)
            answer.run(5)
            assert list(answer.differences(i, "ordinary")) == [] and recognise(answer).readings == ()


def test_advice_is_given_and_does_not_reject():
    verdict = ch1.masked_weights.judge(lambda s, a: softmax(np.where(a, s, -1e4)))
    assert verdict.correct and len(verdict.words) == 1
    assert verdict.words[0].startswith("One thing more: where all allowed scores lie far below zero")
    assert ch1.masked_weights.judge(lambda s, a: softmax(np.where(a, s, -np.inf))).words == []
    rejected = ch1.masked_weights.judge(lambda s, a: softmax(np.where(a, s, -100.0)))
    assert not rejected.correct and rejected.remarks == ("a lower allowed score",)


def test_names_are_given_once_and_hints_are_owed():
    doubled = toy()
    with pytest.raises(ValueError, match="has a mistake 'safe: no' already"):
        doubled.mistake("safe: no", "Again.")(lambda x: x)
    with pytest.raises(ValueError, match="no hint"):
        exercise("9.2", points=1, section="Toys", statement="", hints=[])
