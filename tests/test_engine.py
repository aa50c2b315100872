"""The exercise engine: what it observes, how it judges, and that nothing a learner writes can hurt the session."""

import builtins
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import Probe, Wrong, exercise, exercises_of
from attnlab.exercises.engine.comparing import agree, tolerance
from attnlab.exercises.engine.judging import Answer, recognise
from attnlab.exercises.engine.learner import untouched
from attnlab.exercises.engine.running import KEPT_OUTPUT, Observation, as_array, observe, session_kept, within

QUERY, KEYS = np.array([1.0, 0.0]), np.eye(2)
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


# ---- code from outside ---------------------------------------------------------------------------------------------


def test_code_that_raises_gets_its_error_its_line_and_the_shapes():
    def wrong_way(query, keys, values):
        return softmax(query @ keys) @ values  # (d_k,) @ (n_k, d_k) does not fit

    verdict = attend.judge(wrong_way)
    assert verdict.status == "unrecognised"
    words = " ".join(verdict.words)
    assert "ValueError" in words and "`return softmax(query @ keys) @ values" in words
    assert "`query` (" in words and "`keys` (" in words
    assert "in a product `@`, the inner sizes differ: 4 and 3" in verdict.comparison.received


def test_the_line_shown_is_the_learners_even_where_attnlab_raised():
    def listed(query, keys, values):
        return softmax(list(query)) @ values

    assert "at `return softmax(list(query)) @ values`" in attend.judge(listed).words[0]


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, RecursionError, MemoryError, ZeroDivisionError])
def test_no_exception_leaves_the_check(error, capsys):
    def answer(scores):
        raise error("stop")

    weights_of.check(answer)
    assert error.__name__ in capsys.readouterr().out


def test_an_exception_that_cannot_print_itself(capsys):
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError

    def answer(scores):
        raise Broken

    weights_of.check(answer)
    assert "Broken" in capsys.readouterr().out


def test_megabytes_of_output_are_counted_and_cut(capsys):
    def chatty(scores):
        print("row\n" * 500_000)
        return softmax(scores)

    verdict = weights_of.judge(chatty)
    assert verdict.correct
    assert any("Your function printed text" in text and "begins: `row`" in text for text in verdict.extras)
    assert len(str(verdict)) < 1000 and capsys.readouterr().out == ""
    assert len(observe(chatty, (np.ones(3),)).printed) == KEPT_OUTPUT


@pytest.mark.parametrize("swallow", ["nothing", "exceptions", "everything"])
def test_an_endless_loop_is_stopped_and_the_session_lives_on(swallow):
    def endless(scores):
        while True:
            if swallow == "nothing":
                continue
            try:
                while True:
                    pass
            except swallowed:
                if swallow == "everything" and time.monotonic() > stop:
                    return scores

    swallowed = Exception if swallow == "exceptions" else BaseException
    stop = time.monotonic() + 1.0
    before = threading.active_count()
    verdict = weights_of.judge(endless, seconds=0.2)
    assert verdict.title == "It did not finish"
    for _ in range(100_000):  # no exception may still be on its way
        pass
    assert builtins.input is not None and weights_of.judge(softmax).correct
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_deadline_that_is_kept_leaves_no_trace_in_the_interpreter():
    """Taking back an exception that was never sent left CPython 3.11 spinning under a tracer."""
    code = """
        import sys
        from attnlab.exercises.engine.running import within
        def f():
            within(60, lambda: None)
            return sum(range(10))
        calls = 0
        def tracer(*_):
            global calls
            calls += 1
            if calls > 10_000: raise SystemExit("spinning")
            return tracer
        sys.setprofile(tracer); f(); f(); sys.setprofile(None)
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


def forever():
    while True:
        pass


def test_the_deadline_ends_only_its_own_work():
    def failing():
        raise KeyError

    assert not within(0.05, forever)
    assert within(5, lambda: None)
    with pytest.raises(KeyError):
        within(5, failing)


def test_a_check_inside_the_checked_function_is_said_to_be_one(capsys):
    def stable_softmax(scores):
        weights = softmax(scores)
        weights_of.check(stable_softmax)
        return weights

    assert weights_of.judge(stable_softmax, seconds=2).correct
    card = weights_of.judge(stable_softmax).extras[0]
    assert "A check inside the checked function" in card
    capsys.readouterr()


def test_an_outer_deadline_passes_through_an_inner_one():
    inner = []
    assert not within(0.05, lambda: inner.append(within(60, forever)))
    assert inner == []


def test_a_session_survives_a_deadline_at_any_moment():
    """OutOfTime may arrive while output and input are being put back."""
    kept = (sys.stdout, sys.stderr, builtins.input, list(warnings.filters), np.geterr())
    many = [weights_of.ordinary()[0]] * 20_000
    for _ in range(30):
        answer = Answer(weights_of, softmax, 1)
        answer.exercise = SimpleNamespace(ordinary=lambda seed: many, hard=[])
        answer.run(0.003)
        assert (sys.stdout, sys.stderr, builtins.input, list(warnings.filters), np.geterr()) == kept


def test_two_threads_check_one_after_the_other():
    from concurrent.futures import ThreadPoolExecutor

    kept = (sys.stdout, builtins.input)
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda _: weights_of.judge(softmax), range(40)))
    assert all(v.correct for v in verdicts) and (sys.stdout, builtins.input) == kept


def test_the_users_own_stop_is_no_failure(capsys):
    def stopped(scores):
        raise KeyboardInterrupt

    weights_of.check(stopped)
    assert "You stopped it" in capsys.readouterr().out


def test_input_is_refused_and_given_back():
    asked = builtins.input
    with session_kept():
        observation = observe(lambda scores: input("scores? "), (np.ones(2),))
    assert observation.failure.kind == "RuntimeError" and "input()" in observation.failure.message
    assert builtins.input is asked


def test_exit_does_not_end_a_kernel(monkeypatch):
    asked = []

    class Shell:
        def ask_exit(self):
            asked.append("the kernel was asked to end")

    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with session_kept():
        observation = observe(lambda scores: shell.ask_exit(), (np.ones(2),))
    assert observation.failure.kind == "SystemExit" and asked == []
    shell.ask_exit()
    assert len(asked) == 1


def test_settings_of_the_session_are_restored():
    def careless(scores):
        np.seterr(all="raise")
        warnings.simplefilter("error")
        sys.stdout.write("x")
        return scores

    before, filters, out = np.geterr(), list(warnings.filters), sys.stdout
    observe(careless, (np.ones(2),))
    assert np.geterr() == before and list(warnings.filters) == filters and sys.stdout is out


def test_warnings_are_caught_and_shown_but_do_not_fail():
    def warned(scores):
        warnings.warn("mind the gap", stacklevel=1)
        return softmax(scores)

    verdict = weights_of.judge(warned)
    assert verdict.correct and "mind the gap" in verdict.extras[0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda s: print(s), "It printed something and returned None."),
        (lambda s: [s].clear(), "Is the `return` missing?"),
        (lambda s: softmax(s).tolist(), "But its values would be right: return `np.array(…)` of it."),
        (lambda s: (s, softmax(s)), "But its item 1 would be right: return only that."),
        (lambda s: "weights", "an object of type str"),
        (lambda s: {"weights": s}, "an object of type dict"),
        (lambda s: iter(s), "an object of type"),
        (lambda s: softmax(s).astype(object), "an array of dtype object; expected real numbers"),
        (lambda s: softmax(s)[..., None], "Without the axes of length 1, its values would be right."),
        (lambda s: 3 * softmax(s), "The weights should sum to one; on this input yours sum to 3."),
        (lambda s: softmax(s) + 0.25, "on this input yours sum to 2.25"),
        (lambda s: softmax(s)[..., ::-1], "They are the right numbers in another order."),
        (lambda s: np.round(softmax(s)).astype(int), "numbers of type int"),
        (lambda s: s * np.nan, "numbers are nan"),
        (lambda s: softmax(s).round(6), "Almost: the largest difference is"),
        (lambda s: s**2, "The weights should sum to one"),
    ],
)  # fmt: skip
def test_what_the_values_say_when_no_mistake_fits(answer, words):
    verdict = weights_of.judge(answer)
    assert verdict.status == "unrecognised"
    assert words in " ".join(verdict.words)


def test_right_numbers_with_a_changed_input_are_not_called_wrong():
    def sorts(weights, values):
        result = weights @ values
        weights.sort()
        weights[0] = 0
        values[:] = 0
        return result

    words = ch1.weighted_average.judge(sorts).words
    assert words[0] == "It changes `weights`, `values`: work on a copy." and "order" not in " ".join(words)


def test_a_correct_answer_that_changes_its_input_is_told_so():
    def in_place(scores):
        scores -= scores.max(axis=-1, keepdims=True)
        return softmax(scores)

    verdict = weights_of.judge(in_place)
    assert verdict.turns == (("inputs: overwritten",),)


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
    assert ch1.weighted_average.judge(lambda w, v: torch.tensor(w).bfloat16() @ torch.tensor(v).bfloat16()).correct
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
    assert verdict.words[0].startswith("One thing more: when all allowed scores lie far below zero")
    assert ch1.masked_weights.judge(lambda s, a: softmax(np.where(a, s, -np.inf))).words == []
    rejected = ch1.masked_weights.judge(lambda s, a: softmax(np.where(a, s, -100.0)))
    assert not rejected.correct and rejected.remarks == ("a lower allowed score",)


def test_names_are_given_once_and_hints_are_owed():
    doubled = toy()
    with pytest.raises(ValueError, match="has a mistake 'safe: no' already"):
        doubled.mistake("safe: no", "Again.")(lambda x: x)
    with pytest.raises(ValueError, match="no hint"):
        exercise("9.2", points=1, section="Toys", statement="", hints=[])


# ---- what is shown -------------------------------------------------------------------------------------------------


def test_the_card_says_the_same_as_html_and_as_text():
    verdict = attend.judge(lambda q, k, v: softmax(k @ q) @ v)
    text, page = str(verdict), verdict._repr_html_()
    assert text.startswith("✗ A known mistake  (Exercise 1.8 · attend_one_query)")
    for part in ("not divided by √d_k", "Seen in the wild: mlc-ai/mlc-llm#3426", "Expected", "Your function gave"):
        assert part in text and part in page
    assert "<script" not in page and page == attend.judge(lambda q, k, v: softmax(k @ q) @ v)._repr_html_()


def test_code_and_emphasis_are_set_and_nothing_else():
    from attnlab.exercises.engine.cards import _inline

    assert _inline("`a * b * c` is *not* 2 * 3 * 4 <i>") == "<code>a * b * c</code> is <em>not</em> 2 * 3 * 4 &lt;i&gt;"


def test_what_a_learner_writes_is_escaped():
    def hostile(scores):
        print("<script>alert(1)</script>")
        raise ValueError("<img src=x onerror=alert(1)>")

    page = weights_of.judge(hostile)._repr_html_()
    assert "<script" not in page and "<img" not in page


def test_hints_come_in_turn_and_the_solution_is_the_reference(capsys):
    one = toy()
    one.hint()
    said = capsys.readouterr().out
    assert "Hint 1 of 1" in said and "That was the last hint; `ch9.doubled.solution()`" in said
    one.solution()
    assert "return 2.0 * x" in capsys.readouterr().out
    for each in exercises_of(ch1):
        scope = {"np": np, "softmax": softmax}
        exec(each.solution_source, scope)
        assert each.judge(scope[each.name]).correct, each.name


def test_the_calls_that_cards_name_are_those_of_the_notebook(capsys):
    assert "`ch1.stable_softmax.hint()` gives a hint." in str(weights_of.judge(lambda s: s**2))
    assert eval("ch1.stable_softmax") is weights_of


def test_a_console_that_knows_no_tick_gets_the_words(monkeypatch):
    import io

    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    weights_of.check(softmax)
    stream.flush()
    assert stream.buffer.getvalue().decode("cp1252").startswith("? Correct  (Exercise 1.3")


def test_what_was_printed_on_the_compared_input_is_quoted():
    def printing(query, keys):
        print(softmax(keys @ query / len(query) ** 0.5).shape)

    verdict = ch1.scaled_scores.judge(printing)
    assert verdict.comparison.received == "None" and "begins: `(7,)`" in verdict.extras[0]
    assert "shape (7,)" in verdict.comparison.expected
    assert weights_of.judge(lambda s: [1.0] * s.size).comparison.received.startswith("a list: [1.")


def test_a_fault_of_ours_does_not_end_the_session(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(ch1.stable_softmax, "judge", broken)
    ch1.stable_softmax.check(softmax)
    assert "The checker itself failed" in capsys.readouterr().out
