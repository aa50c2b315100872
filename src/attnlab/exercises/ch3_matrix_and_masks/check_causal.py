"""Exercise 3.10: check_causal, a test that the learner writes, and the tests that people write instead."""

import numpy as np

from ..engine import Wrong, exercise
from ._implementations import implementations


@exercise(
    "3.10",
    points=3,
    section="Tests that any attention must pass",
    statement=(
        "Write the test that would have caught the inverted mask: `check_causal` is given a function and finds out\n"
        "whether it is causal. `attention(query, key, value)` takes arrays (n, d_k), (n, d_k), (n, d_v), for any n,\n"
        "and returns (n, d_v). If a later position can change an earlier output, raise `AssertionError` or return\n"
        "`False`; otherwise return nothing. Your test is tried on causal implementations of several kinds, which it\n"
        "must accept, and on others that leak, which it must refuse."
    ),
    hints=[
        "Call it twice: once as it is, once with another future. Which rows of the two outputs should agree?",
        "Where does the future begin? A leak may show for one place only, so try every one.",
        "For each t: copy the inputs, draw the positions from t on anew, and compare the outputs *before* t "
        "with `np.allclose`. Numbers that are right may differ in their last digits.",
    ],
)
def check_causal(attention):
    """Raise AssertionError if a later position changes an earlier output.

    attention: query (n, d_k), key (n, d_k), value (n, d_v) → (n, d_v)
    """
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(3, 6, 4))  # query, key, value, six rows each
    before = attention(*inputs)
    for t in range(1, 6):
        other = rng.normal(size=(3, 6, 4))  # another future, from t on
        other[:, :t] = inputs[:, :t]
        after = attention(*other)
        assert np.allclose(after[:t], before[:t]), f"a leak from {t} on"


check_causal.implementations(implementations)


# ---- tests that people write ----------------------------------------------------------------------------------------


_FIRST, _SECOND = np.random.default_rng(1).normal(size=(2, 3, 6, 4))  # each: query, key, value of six positions


def _renewed(arrays, rows):
    """Copies of the arrays, with other numbers in some rows."""
    other = [x.copy() for x in arrays]
    for x, y in zip(other, _SECOND, strict=False):
        x[rows] = y[: len(x)][rows]
    return other


@check_causal.choice_points(
    cut={
        "last": Wrong(
            "There is one cut: the last position is changed, say, or one beginning is computed alone. A leak among the "
            "earlier positions does not show: let the future begin at every position in turn.",
            hint="Could your test notice that position 0 sees position 1?",
        ),
        "middle": Wrong(
            "There is one cut, in the middle: the second half is changed and the first half compared. A leak *within* "
            "a half does not show. Let the future begin at every position in turn.",
            hint="Could your test notice that position 0 sees position 1?",
        ),
        "first": Wrong(
            "Only the first output is compared (or a `return` stands inside the loop and ends it in the first round). "
            "Later outputs have a future, too.",
            hint="Could your test notice that the last position but one sees the last?",
        ),
    },
    changed={
        "keys": Wrong(
            "Only keys are changed. The future can also enter through values, where something is computed over the "
            "whole sequence.",
            hint="What else does a later position bring along beside its key?",
        ),
        "values": Wrong(
            "Only values are changed. The weights stay what they are then, and a future that enters through keys does "
            "not show.",
            hint="What do the weights depend on?",
        ),
    },
    compare={
        "exactly": Wrong(
            "The outputs are compared with `==`, digit by digit. Sums that are added in another order differ in the "
            "last digits, and are as right: use `np.allclose`.",
            hint="What does Python say to `0.1 + 0.2 == 0.3`?",
        ),
    },
)
def _(attention, *, cut="every", changed="all", compare="closely"):
    arrays = _FIRST
    before = attention(*arrays)
    for t in {"every": range(1, 6), "last": [5], "middle": [3], "first": [1]}[cut]:
        other = _renewed(arrays, slice(t, None))
        if changed == "keys":
            other = [arrays[0], other[1], arrays[2]]
        elif changed == "values":
            other = [arrays[0], arrays[1], other[2]]
        after = attention(*other)
        assert (after[:t] == before[:t]).all() if compare == "exactly" else np.allclose(after[:t], before[:t])


@check_causal.mistake(
    "shape only",
    "Your test accepts everything, for it looks at the shape alone. A leak changes numbers, not shapes. In the "
    "bonus material of a well-known book an example had its mask turned round, and printed the shape alone.",
    seen_in="rasbt/LLMs-from-scratch#1061",
    hint="Which implementation that leaks has another shape?",
    same_as="nothing asserted",
)
def _(attention):
    query, key, value = _FIRST
    assert attention(query, key, value).shape == value.shape


@check_causal.mistake(
    "nothing asserted",
    "Your test accepts everything, for what it finds is lost: `np.allclose(…)` alone in a line gives a truth value to "
    "nobody, and what is printed nobody reads. Write `assert` before it, or return it.",
    hint="What does your function do where the outputs differ?",
    same_as="one array",
)
def _(attention):
    arrays = _FIRST
    np.allclose(attention(*_renewed(arrays, slice(3, None)))[:3], attention(*arrays)[:3])


@check_causal.mistake(
    "one array",
    "Your test accepts everything, for the two inputs that it compares are one and the same array: `other = key` makes "
    "no copy, and a change of `other` changes `key`. Write `key.copy()`.",
    hint="What does `other is key` say?",
    same_as="shape only",
)
def _(attention):
    query, key, value = _FIRST.copy()
    other = key
    other[3:] = 9.0
    assert np.allclose(attention(query, other, value)[:3], attention(query, key, value)[:3])


@check_causal.mistake(
    "turned round",
    "Your verdict is turned round: it accepts what leaks and refuses what is causal. An `assert` says what should be "
    "true, and a causal attention gives the *same* earlier outputs.",
    hint="Which value of your comparison is the good one?",
)
def _(attention):
    arrays = _FIRST
    before = attention(*arrays)
    after = {t: attention(*_renewed(arrays, slice(t, None))) for t in range(1, 6)}
    return not all(np.allclose(after[t][:t], before[:t]) for t in after)


@check_causal.mistake(
    "all rows",
    "Your test refuses everything, for it also compares outputs at the positions that it changed. Those may differ: "
    "only the rows *before* the change have to stay.",
    hint="May the last output depend on the last key?",
)
def _(attention):
    arrays = _FIRST
    assert np.allclose(attention(*_renewed(arrays, slice(3, None))), attention(*arrays))


@check_causal.mistake(
    "the past",
    "Your test asks the mirrored question: it changes the past, and demands that later outputs stay. Every causal "
    "attention is refused then, and the inverted mask accepted. Change the future, and compare what comes before.",
    hint="Which of two positions may influence the other, the earlier or the later?",
)
def _(attention):
    arrays = _FIRST
    assert np.allclose(attention(*_renewed(arrays, slice(0, 3)))[3:], attention(*arrays)[3:])


@check_causal.mistake(
    "poison",
    "NaN or infinity is put into the future. A weight of 0 does not keep it out, since 0 · NaN and 0 · ∞ are NaN: "
    "causal implementations are refused. Use other finite numbers.",
    hint="What is `0 * np.nan`?",
)
def _(attention):
    arrays = _FIRST
    before = attention(*arrays)
    for t in range(1, 6):
        other = [x.copy() for x in arrays]
        for x in other:
            x[t:] = np.nan
        assert np.allclose(attention(*other)[:t], before[:t])


@check_causal.mistake(
    "too few positions",
    "The sequence is too short. Some leaks begin only where a block or a buffer ends; take more positions.",
    hint="How many positions does your longest input have?",
)
def _(attention):
    arrays = _FIRST[:, :4]
    before = attention(*arrays)
    for t in range(1, 4):
        assert np.allclose(attention(*_renewed(arrays, slice(t, None)))[:t], before[:t])


@check_causal.mistake(
    "triangle of weights",
    "With the identity as values the output shows the weights, and you look whether they are 0 above the diagonal. "
    "That is clever, and not enough: later positions can set the *size* of the weights below it. Change the future and "
    "compare.",
    hint="Which keys does the sum below the fraction bar run over?",
)
def _(attention):
    query, key, _ = _FIRST
    assert np.allclose(np.triu(attention(query, key, np.eye(6)), 1), 0)


@check_causal.mistake(
    "equal values",
    "All values are equal, so every mixture of them is the same, whatever the weights. Nothing can show: draw the "
    "values at random, too.",
    hint="What is the mean of 1 and 1, with weights 0.2 and 0.8?",
)
def _(attention):
    query, key, _ = _FIRST
    value = np.ones((6, 4))
    before = attention(query, key, value)
    for t in range(1, 6):
        assert np.allclose(attention(query, _renewed([key], slice(t, None))[0], value)[:t], before[:t])


@check_causal.variant
def prefix_alone(attention):
    """The outputs of a beginning are the beginning of the outputs."""
    query, key, value = np.random.default_rng().normal(size=(3, 8, 3))
    whole = attention(query, key, value)
    for t in range(1, 8):
        np.testing.assert_allclose(attention(query[:t], key[:t], value[:t]), whole[:t], atol=1e-6)


@check_causal.variant
def one_position_at_a_time(attention):
    before = attention(*_FIRST)
    return all(np.allclose(attention(*_renewed(_FIRST, [t]))[:t], before[:t]) for t in range(6))


@check_causal.variant
def huge_numbers(attention):
    query, key, value = np.random.default_rng().normal(size=(3, 6, 4))
    before = attention(query, key, value)
    for t in range(1, 6):
        late_query, late_key, late_value = query.copy(), key.copy(), value.copy()
        late_query[t:], late_key[t:, ::2], late_value[t:] = -7, 1e6, -1e6
        if np.abs(attention(late_query, late_key, late_value)[:t] - before[:t]).max() > 1e-5:
            return np.bool_(False)
    return np.bool_(True)
