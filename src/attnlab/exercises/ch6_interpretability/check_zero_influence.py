"""Exercise 6.10: check_zero_influence, a test that the learner writes, and the tests that people write instead."""

import functools
import itertools

import numpy as np

from ..engine import Wrong, exercise
from ._rankings import effects, implementations


@exercise(
    "6.10",
    points=3,
    section="A checklist",
    statement=(
        "Somebody hands you a way to rank keys, `importance(weights, values, readout)`, which gives a number for each\n"
        "key. The model's output is the number `weights @ values @ readout`. *Removing* a key means to leave it out\n"
        "and to divide the other weights by their sum, as if it had been masked. Test two demands: a key whose\n"
        "removal does *not* change the output gets 0, within rounding; a key whose removal changes it does *not* get\n"
        "0, and may get a number of any sign and unit. Find inputs that tell: weights that sum to 1, any values and\n"
        "readout. No key has the whole weight. Where a demand is broken, raise `AssertionError` or return `False`;\n"
        "otherwise return nothing. Your test is tried on rankings that meet both demands, which it must accept, and\n"
        "on others, which it must refuse."
    ),
    hints=[
        "Which keys can be removed without a trace? There are two kinds, and a key of each should be among your "
        "inputs.",
        "A key without weight is one kind. One of the other kind may have any weight: its value gives at the readout "
        "what the others give together. Must it be the same vector for that?",
        "Compute yourself what each removal changes and compare: is the importance 0 exactly where the change is? "
        "`(np.abs(given) < 1e-6) == (np.abs(changes) < 1e-6)`, for every key, with inputs drawn several times.",
    ],
)
def check_zero_influence(importance):
    """Raise AssertionError unless keys without influence alone get 0.

    importance: weights (n,), values (n, d), readout (d,) → (n,)
    """
    rng = np.random.default_rng(0)
    for case in range(5):
        weights = rng.uniform(1, 3, size=6)
        values = rng.normal(size=(6, 4))
        readout, aside = rng.normal(size=(2, 4))
        if case > 0:  # in the first one, every key matters
            weights[0] = 0
            others = weights[2:] @ values[2:] / weights[2:].sum()
            aside -= aside @ readout / (readout @ readout) * readout
            values[1] = others + aside  # alike at the readout
        weights /= weights.sum()
        changes = np.full(6, weights @ values @ readout)
        for i in range(6):
            rest = np.delete(weights, i) / (1 - weights[i])
            changes[i] -= rest @ np.delete(values, i, axis=0) @ readout
        zero = np.abs(importance(weights, values, readout)) < 1e-6
        assert np.array_equal(zero, np.abs(changes) < 1e-6), zero


check_zero_influence.implementations(implementations)


# ---- tests that people write ----------------------------------------------------------------------------------------


def _drawn(seed, n=6, d=4):
    """Weights, values, a readout, and a vector that is orthogonal to the readout."""
    rng = np.random.default_rng(seed)
    weights, values = rng.uniform(1, 3, size=n), rng.normal(size=(n, d))
    readout, aside = rng.normal(size=(2, d))
    return weights / weights.sum(), values, readout, aside - aside @ readout / (readout @ readout) * readout


@functools.cache
def _inputs(keys="both", value="beside the mixture"):
    """Five inputs: in each, key 0 has no weight, or key 1 the others' value, or both."""
    found = []
    for seed in range(5):
        weights, values, readout, aside = _drawn(seed)
        if keys != "with the others' value":
            weights[0] = 0
            weights /= weights.sum()
        if keys != "without weight":
            others = np.delete(weights, 1) @ np.delete(values, 1, axis=0) / (1 - weights[1])
            values[1] = others if value == "the mixture" else others + aside
        found.append((weights, values, readout))
    return found


@check_zero_influence.choice_points(
    keys={
        "without weight": Wrong(
            "Among your inputs, only a key with weight 0 has no influence. A key with much weight can be as idle: one "
            "that gives what the others give together. It is what tells influence from weight.",
            hint="When does a mean stay what it was as one of its numbers is left out?",
        ),
        "with the others' value": Wrong(
            "Among your inputs, no key has weight 0. It has no influence, whatever its value, and a ranking that knows "
            "values alone misses that.",
            hint="Which key can be removed without a trace, whatever its value?",
        ),
    },
    value={
        "the mixture": Wrong(
            "The key that gives what the others give has their very mixture as its value. The output sees only what "
            "the readout sees: let the value differ in a direction that is orthogonal to the readout. A ranking that "
            "never asks the readout shows then.",
            hint="Could a ranking pass your test that does not use `readout`?",
        ),
    },
    demand={
        "zeros": Wrong(
            "You only ask whether keys without influence get 0. A ranking of zeros passes. Ask of the others whether "
            "they get something else.",
            hint="Does your test refuse `lambda weights, values, readout: np.zeros(len(weights))`?",
        ),
        "others": Wrong(
            "None of your keys is without influence, or you do not ask about such keys. All that you ask is whether "
            "keys with influence get something other than 0, and the weights pass. Have keys without influence among "
            "your inputs, and ask whether they get 0.",
            hint="Does your test refuse a ranking that gives every key 1?",
        ),
        "least": Wrong(
            "You ask whether keys without influence get *less* than the others. What has no influence gets 0, and less "
            "is not 0: a softmax of the sizes of the changes passes.",
            hint="What would your test say if 1 were added to the size of every importance?",
        ),
        "positive": Wrong(
            "You demand that keys with influence get a *positive* number. Removing a key may raise the output or lower "
            "it, and a ranking may have a sign; the task allows any.",
            hint="What does leaving out give for a key that pulls the output down?",
        ),
    },
    compare={
        "exactly": Wrong(
            "Zeros are asked for with `==`, digit by digit. A difference of two sums comes out as 10⁻¹⁷ where it "
            "should be 0: use a small bound, or `np.isclose`.",
            hint="What does Python say to `0.1 + 0.2 - 0.3 == 0`?",
        ),
    },
)
def _(importance, *, keys="both", value="beside the mixture", demand="both", compare="closely"):
    silent = {"without weight": [0], "with the others' value": [1]}.get(keys, [0, 1])
    for inputs in _inputs(keys, value):
        given = importance(*inputs)
        zero = given == 0 if compare == "exactly" else np.abs(given) < 1e-6
        met, others = zero[silent].all(), np.delete(given, silent)
        others_met = not np.delete(zero, silent).any()
        if demand == "least":
            met = np.abs(given)[silent].max() < np.abs(others).min()
        elif demand == "positive":
            others_met = (others > 1e-6).all()
        assert (met or demand == "others") and (others_met or demand == "zeros")


@check_zero_influence.mistake(
    "shape only",
    "Your test accepts everything, for it looks at the shape alone, or at whether the numbers are finite.",
    hint="Which ranking that is wrong has another shape?",
    same_as="nothing asserted",
)
def _(importance):
    weights, values, readout, _ = _drawn(0)
    assert importance(weights, values, readout).shape == weights.shape


@check_zero_influence.mistake(
    "nothing asserted",
    "Your test accepts everything, for what it finds is lost: `np.isclose(…)` alone in a line gives a truth value to "
    "nobody. Write `assert` before it, or return it.",
    same_as="shape only",
)
def _(importance):
    for inputs in _inputs():
        np.isclose(importance(*inputs)[:2], 0).all()


@check_zero_influence.mistake(
    "turned round",
    "Your verdict is turned round: it accepts rankings that break a demand and refuses those that meet both. An "
    "`assert` says what should be true.",
    hint="Which value of your comparison is the good one?",
)
def _(importance):
    zeros = [np.abs(importance(*inputs)) < 1e-6 for inputs in _inputs()]
    return not all(np.array_equal(zero, [True, True, False, False, False, False]) for zero in zeros)


@check_zero_influence.mistake(
    "not renormalised",
    "You strike a key's term out and leave the other weights as they are, so they no longer sum to 1. Then a key "
    "counts as idle if its value is orthogonal to the readout, and rankings that meet the demands are refused. Here "
    "the others' weights are divided by their sum, as masking does.",
    hint="What do the weights sum to in your output without the key?",
)
def _(importance):
    for seed in range(5):
        weights, values, readout, aside = _drawn(seed)
        weights[0], values[1] = 0, aside
        weights /= weights.sum()
        changes = weights * (values @ readout)
        assert np.array_equal(np.abs(importance(weights, values, readout)) < 1e-6, np.abs(changes) < 1e-6)


_ADDS_NOTHING = {
    "a value of zero": "You demand 0 for a key whose *value* is zero. Such a key pulls the output towards 0: its "
    "removal makes the other weights larger, and the output changes. Compute both outputs.",
    "an orthogonal value": "You demand 0 for a key whose value is orthogonal to the readout, and reads as 0. It adds "
    "nothing to the sum, but it has weight: its removal makes the other weights larger, and the output changes. "
    "Compute both outputs. (Struck out without renormalising, it would be idle.)",
}
_MEAN = "Of the numbers 0 and 4 with weights ½ and ½, what is the mean, and what is it without the 0?"


def _demands_zero(value, beside=False, one_sign=False, zeros_only=False):
    """Demand 0 for key 1, with such a value, and where `beside`, for key 0, which has no weight.

    The other values read as numbers of either sign; with `one_sign` all read as 4, so those keys push the output up.
    `zeros_only` asks nothing of the other keys.
    """

    def test(importance):
        for seed in range(5):
            weights, values, readout, aside = _drawn(seed)
            if one_sign:
                values += (4 - values @ readout)[:, None] * readout / (readout @ readout)
            values[1] = 0 if value == "a value of zero" else aside
            if beside:
                weights[0] = 0
                weights /= weights.sum()
            idle = [0, 1] if beside else [1]
            given = np.abs(importance(weights, values, readout))
            assert given[idle].max() < 1e-6 and (zeros_only or np.delete(given, idle).min() > 1e-6)

    return test


for _value, _text in _ADDS_NOTHING.items():
    for _beside, _one_sign, _zeros_only in itertools.product((False, True), repeat=3):
        if _value == "an orthogonal value" and (_beside, _one_sign, _zeros_only) == (True, False, False):
            continue  # "not renormalised" is the same
        _name = _value + ", beside no weight" * _beside + ", one sign" * _one_sign + ", zeros only" * _zeros_only
        _more = " And ask of the other keys whether they get something else: zeros for all pass." * _zeros_only
        check_zero_influence.mistake(_name, _text + _more, hint=_MEAN)(
            _demands_zero(_value, _beside, _one_sign, _zeros_only)
        )


@check_zero_influence.mistake(
    "an idle value, and one of zero",
    "Your test refuses every ranking, right and wrong ones. So it does if you demand 0 for a key whose value reads as "
    "0 as well as for one that gives what the others give. The removal of the first makes the other weights larger, "
    "and the output changes: compute both outputs.",
    hint=_MEAN,
    same_as="compare: exactly",
)
def _(importance):
    _demands_zero("a value of zero")(importance)
    check_zero_influence.reference(importance)


_WHOLE = (
    "One of your keys has the whole weight. Its removal leaves nothing, and a division by a sum of 0: whether that "
    "changes the output is not defined, and right rankings differ there. Give at least two keys some weight."
)


def _whole_weight(matters, alone):
    def test(importance):
        if not alone:
            check_zero_influence.reference(importance)
        given = importance(np.array([1.0, 0.0]), np.array([[2.0, 1.0], [3.0, 0.0]]), np.array([1.0, 0.0]))
        assert np.array_equal(np.abs(given) > 1e-6, [matters, False])

    return test


for _matters, _alone in itertools.product((True, False), repeat=2):
    _name = "the whole weight" + ", called idle" * (not _matters) + ", alone" * _alone
    _more = " And let one of the keys with weight be idle: one that gives what the others give together." * _alone
    check_zero_influence.mistake(_name, _WHOLE + _more, hint="What is left without it?")(
        _whole_weight(_matters, _alone)
    )


@check_zero_influence.mistake(
    "all values equal",
    "All values are equal, so no key has any influence, and all must get 0. That is one demand of two: a ranking of "
    "zeros passes, and so does one that forgets the weights. Let some keys matter and some not.",
    hint="Does your test refuse `lambda weights, values, readout: np.zeros(len(weights))`?",
)
def _(importance):
    for seed in range(5):
        weights, values, readout, _ = _drawn(seed)
        assert np.allclose(importance(weights, np.tile(values[0], (6, 1)), readout), 0)


@check_zero_influence.mistake(
    "equal to leaving out",
    "You demand the numbers of leaving out themselves. A ranking may have another sign or unit, or come by another "
    "way: only *where* it is 0 is asked.",
    hint="What does your test say of a ranking that gives twice the change?",
)
def _(importance):
    for inputs in _inputs():
        assert np.allclose(importance(*inputs), effects(*inputs))


@check_zero_influence.mistake(
    "sums to one",
    "You demand that the numbers sum to 1. Weights do; an importance may have any unit, and a sum says nothing of the "
    "single key.",
    hint="What is the sum of the changes that leaving out makes?",
)
def _(importance):
    for inputs in _inputs():
        assert np.isclose(importance(*inputs).sum(), 1)


@check_zero_influence.mistake(
    "largest weight, largest importance",
    "You demand that the key with the largest weight is the most important one. Whether that is so is the question: "
    "its value may give what the others give.",
    hint="Which ranking passes your test whatever the values are?",
)
def _(importance):
    for inputs in _inputs():
        assert np.argmax(np.abs(importance(*inputs))) == np.argmax(inputs[0])


@check_zero_influence.mistake(
    "something is not zero",
    "You only ask whether *some* key gets a number other than 0. Ask it of every key whose removal changes the output, "
    "and ask of the others whether they get 0.",
    hint="Does your test refuse a ranking that gives every key 1?",
)
def _(importance):
    return bool(np.any([np.abs(importance(*inputs)).max() > 1e-6 for inputs in _inputs()]))


@check_zero_influence.variant
def a_case_by_hand(importance):
    """Values of 2, 1, 3, 9 at the readout; without the first, the output of 2 stays (0.25 · 1 + 0.25 · 3) / 0.5."""
    weights, readout = np.array([0.5, 0.25, 0.25, 0.0]), np.array([1.0, 0.0])
    values = np.array([[2.0, 5.0], [1.0, 0.0], [3.0, 0.0], [9.0, 9.0]])
    given = importance(weights, values, readout)
    assert np.isclose(given[[0, 3]], 0).all() and not np.isclose(given[[1, 2]], 0).any()


@check_zero_influence.variant
def one_kind_after_the_other(importance):
    rng = np.random.default_rng()
    for _ in range(10):
        weights, values, readout = rng.dirichlet(np.full(5, 9.0)), rng.normal(size=(5, 3)), np.eye(3)[0]
        if np.abs(effects(weights, values, readout)).min() < 1e-3:
            continue
        if (np.abs(importance(weights, values, readout)) < 1e-7).any():
            return False
        without = np.append(weights, 0), np.vstack([values, rng.normal(size=3)])
        idle = np.append(0.6 * weights, 0.4), np.vstack([values, [weights @ values @ readout, 7, 7]])
        for more in (without, idle):
            given = importance(*more, readout)
            if abs(given[5]) > 1e-7:
                return False
    return True


@check_zero_influence.variant
def what_each_removal_changes(importance):
    readout = np.array([2.0, 1.0])
    for values in ([[1, 0], [0, 2], [3, -1], [0, 0]], [[0, 4], [2, 0], [1, 1], [1, 3]]):
        for weights in ([0.25, 0.25, 0.25, 0.25], [0.5, 0, 0.25, 0.25], [0.2, 0.3, 0.3, 0.2]):
            arrays = np.array(weights), np.array(values, dtype=float), readout
            changes = effects(*arrays)
            np.testing.assert_array_equal(abs(importance(*arrays)) < 1e-8, abs(changes) < 1e-8)
