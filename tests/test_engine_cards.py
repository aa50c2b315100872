"""What the cards show: the same as HTML and as text, escaped, with hints and solutions."""

import sys

import numpy as np

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import exercise, exercises_of

attend, weights_of = ch1.attend_one_query, ch1.stable_softmax


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
