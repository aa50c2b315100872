"""Code from outside: whatever a learner writes, the check describes it and the session is unharmed."""

import builtins
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine.running import KEPT_OUTPUT, observe, session_kept

attend, weights_of = ch1.attend_one_query, ch1.stable_softmax


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


def test_a_check_inside_the_checked_function_is_said_to_be_one(capsys):
    def stable_softmax(scores):
        weights = softmax(scores)
        weights_of.check(stable_softmax)
        return weights

    assert weights_of.judge(stable_softmax, seconds=2).correct
    card = weights_of.judge(stable_softmax).extras[0]
    assert "A check inside the checked function" in card
    capsys.readouterr()


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


def test_of_warnings_the_first_are_kept_and_of_each_the_beginning():
    def warns(scores):
        for n in range(1000):
            warnings.warn(f"{n} " + "x" * 10_000, stacklevel=1)
        return scores

    warned = observe(warns, (np.ones(2),)).warned
    assert len(warned) == 64 and warned[63].startswith("63 x") and {len(each) for each in warned} == {500}


def test_warnings_of_our_own_functions_are_dropped():
    """Under a filter that makes errors of warnings, a twin would become one that raises."""

    def warns(scores):
        warnings.warn("mind the gap", stacklevel=1)
        return np.array([np.mean([]), np.log(0.0), np.float32(1e38) * np.float32(10)])

    filters = list(warnings.filters)
    with np.errstate(all="raise"):
        seen = observe(warns, (np.ones(2),), watched=False)
    assert seen.failure is None and np.isnan(seen.array[0]) and seen.array[1:].tolist() == [-np.inf, np.inf]
    assert list(warnings.filters) == filters


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
        (lambda s: 3 * softmax(s), "The numbers of the result should sum to one; on this input yours sum to 3."),
        (lambda s: softmax(s) + 0.25, "on this input yours sum to 2.25"),
        (lambda s: softmax(s)[..., ::-1], "They are the right numbers in another order."),
        (lambda s: np.round(softmax(s)).astype(int), "numbers of type int"),
        (lambda s: s * np.nan, "numbers are nan"),
        (lambda s: softmax(s).round(6), "Almost: the largest difference is"),
        (lambda s: s**2, "The numbers of the result should sum to one"),
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
