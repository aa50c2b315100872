"""What the cards show: the same as HTML and as text, escaped, with hints and solutions."""

import sys

import numpy as np

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch2_scoring as ch2
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine import exercise, exercises_of

attend, weights_of = ch1.attend_one_query, ch1.stable_softmax


def test_the_card_says_the_same_as_html_and_as_text():
    verdict = attend.judge(lambda q, k, v: softmax(k @ q) @ v)
    text, page = str(verdict), verdict._repr_html_()
    assert text.startswith("✗ A known mistake  (Exercise 1.8 · attend_one_query)")
    for part in ("not divided by √d_k", "Seen in the wild: mlc-ai/mlc-llm#3426", "Expected", "Your function gave"):
        assert part in text and part in page
    assert "<script" not in page and page == attend.judge(lambda q, k, v: softmax(k @ q) @ v)._repr_html_()


def in_order(text, *parts):
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_the_question_stands_between_the_diagnosis_and_the_numbers():
    unscaled = attend.judge(lambda q, k, v: softmax(k @ q) @ v)
    shape_only = ch3.check_causal.judge(lambda attention: True)
    unknown = weights_of.judge(lambda s: s**2)
    for verdict, parts in (
        (unscaled, ("not divided by √d_k", "Ask yourself: ", "Called with", "Seen in the wild")),
        (shape_only, ("looks at the shape alone", "Ask yourself: ", "Of 12 implementations", "Your test was given")),
        (unknown, (unknown.words[0][:20], "stable_softmax.hint()", "Called with")),
    ):
        assert in_order(str(verdict), *parts) and in_order(verdict._repr_html_(), *parts), parts
        assert str(verdict).count(verdict.hint) == 1


def test_the_question_stands_above_what_goes_beyond_the_diagnosis():
    def unscaled_and_broken(query, keys, values):
        return softmax(keys @ query) @ values if query.dtype.kind == "f" else None

    verdict = attend.judge(unscaled_and_broken)
    assert in_order(str(verdict), "not divided by √d_k", "Ask yourself: ", "And beyond that: ", "Called with")


def test_several_readings_are_a_list():
    verdict = ch3.check_causal.judge(lambda attention: True)
    readings = [line for line in str(verdict).splitlines() if line.startswith("  • ")]
    assert len(readings) == len(verdict.turns) == 3 and " — or: " not in str(verdict)
    assert verdict._repr_html_().count("text-indent:-.7em") == 3


def test_numbers_that_print_alike_are_told_apart():
    shown = ch2.entropy_of_weights.judge(lambda w: -(w * np.log(w + 1e-12)).sum(-1)).comparison
    alike, difference, digits = shown.received.splitlines()
    assert (alike, difference) == (shown.expected, "printed alike; largest difference 3e-12:")
    mine, expected = digits.split(", expected ")
    assert round((float(expected) - float(mine)) * 1e12) == 3
    assert "largest difference" not in str(ch2.entropy_of_weights.judge(lambda w: w.sum(-1) * 2))


def test_gradients_that_print_alike_are_told_apart():
    @exercise("9.5", points=1, section="Toys", statement="", hints=["Twice."], gradient_of=["x"])
    def doubled(x):
        return 2.0 * x

    doubled.probes(lambda rng: [(rng.normal(size=n),) for n in (3, 4)])
    shown = doubled.judge(lambda x: 2 * x + 3e-6 * (x - x.detach())).comparison
    assert shown.labels[2] == "Gradient through your function"
    assert shown.received.startswith(f"{shown.expected}\nprinted alike; largest difference 3e-06, at [2]:\n")


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
    @exercise("9.1", points=1, section="Toys", statement="Double it.", hints=["Twice."])
    def doubled(x):
        """x (n,) → (n,)"""
        return 2.0 * x

    doubled.hint()
    said = capsys.readouterr().out
    assert "Hint 1 of 1" in said and "That was the last hint; `ch9.doubled.solution()`" in said
    doubled.solution()
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
