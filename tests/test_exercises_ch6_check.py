"""Chapter 6's exercise 6.10, in which the learner writes a test: its implementations, and tests as people type them."""

import numpy as np
import pytest

from attnlab import evidence, softmax
from attnlab.exercises.ch6_interpretability._rankings import effects
from attnlab.exercises.ch6_interpretability.check_zero_influence import check_zero_influence


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def near(one, other, atol=1e-12):
    assert np.allclose(one, other, rtol=0, atol=atol), (one, other)


def twin(*turns):
    return next(each.function for each in check_zero_influence.twins if each.turns == turns)


def test_effects_are_those_of_the_package():
    weights, values, readout = softmax(drawn(5)), drawn(5, 3, seed=1), drawn(3, seed=2)
    near(effects(weights, values, readout), evidence.leave_one_out(lambda rows: rows @ values @ readout, weights))
    near(effects(np.eye(3)[0], values[:3], readout), [values[0] @ readout, 0, 0])  # nothing left: an output of 0


# ---- the implementations are what they are declared to be -----------------------------------------------------------


def cases_with_idle_keys():
    """Weights, values, readout and which keys change the output, computed by leaving rows out."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        weights, values, readout = rng.uniform(1, 3, size=7), rng.normal(size=(7, 3)), rng.normal(size=3)
        if seed:
            weights[2] = 0
        weights /= weights.sum()
        if seed > 1:
            others = np.delete(weights, 4) @ np.delete(values, 4, axis=0) / (1 - weights[4])
            values[4] = others + np.cross(readout, others)
        outputs = [
            np.delete(weights, i) @ np.delete(values, i, axis=0) @ readout / np.delete(weights, i).sum()
            for i in range(7)
        ]
        changes = weights @ values @ readout - outputs
        yield weights, values, readout, np.abs(changes) > 1e-9


def test_rankings_declared_right_meet_both_demands_and_the_others_break_one():
    for probe in [*check_zero_influence.ordinary(), *check_zero_influence.hard]:
        (importance,) = probe.arguments
        met = [
            np.array_equal(np.abs(importance(*arrays)) > 1e-6, changes) for *arrays, changes in cases_with_idle_keys()
        ]
        assert all(met) == probe.correct, (probe.name, met)


def test_what_is_needed_to_tell_rankings():
    """Each of the two kinds of idle keys, and the other direction of a value, finds what nothing else finds."""
    given = {p.name: p.arguments[0] for p in [*check_zero_influence.ordinary(), *check_zero_influence.hard]}
    told = {
        "keys: without weight": {"the weights", "weight times length of the value", "not renormalised", "values alone"},
        "keys: with the others' value": {"without the weight"},
        "value: the mixture": {"values alone"},
        "demand: zeros": {"all zeros", "kept above zero"},
    }
    for name, missed in told.items():
        for ranking in missed:
            twin(name)(given[ranking])  # accepts it
            with pytest.raises(AssertionError):
                check_zero_influence.reference(given[ranking])


def test_right_tests_hear_nothing_but_what_they_overlook():
    assert check_zero_influence.judge(check_zero_influence.reference).words == []
    verdict = check_zero_influence.judge(lambda importance: idle_and_busy(importance, bound=1e-10))
    assert verdict.correct and "a bound of 10⁻⁶ lets it pass" in verdict.words[0]
    verdict = check_zero_influence.judge(lambda importance: one_kind_at_a_time(importance))
    assert verdict.correct and "have inputs in which all keys matter" in verdict.words[0]


# ---- typed by hand: (exercise, answer, turns expected; () for correct) -----------------------------------------------


def drawn_keys(seed=0, n=6, d=4):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(1, 4, size=n)
    return weights / weights.sum(), rng.normal(size=(n, d)), rng.normal(size=d)


def idle(weights, values, readout, which=1, aside=True):
    """The value of one key made such that its removal changes nothing."""
    values = values.copy()
    values[which] = np.delete(weights, which) @ np.delete(values, which, 0) / (1 - weights[which])
    if aside:
        other = np.roll(readout, 1)
        values[which] += other - other @ readout / (readout @ readout) * readout
    return weights, values, readout


def idle_and_busy(importance, bound=1e-6, aside=True):
    for seed in range(9):
        assert (np.abs(importance(*drawn_keys(seed))) > bound).all()
        weights, values, readout = idle(*drawn_keys(seed), aside=aside)
        given = np.abs(importance(np.append(weights, 0), np.vstack([values, values[0] + 1]), readout))
        assert given[1] < bound and given[6] < bound and np.delete(given, [1, 6]).min() > bound


def compared(importance, same=lambda given, changes: (given < 1e-6) == (changes < 1e-6)):
    for seed in range(9):
        weights, values, readout = idle(*drawn_keys(seed))
        weights[3] = 0
        weights /= weights.sum()
        weights, values, readout = idle(weights, values, readout)
        changes = []
        for i in range(6):
            rest = np.delete(weights, i) / np.delete(weights, i).sum()
            changes.append(weights @ values @ readout - rest @ np.delete(values, i, axis=0) @ readout)
        given = importance(weights, values, readout)
        if not np.all(same(abs(given), np.abs(changes))):
            return False
    return True


def compared_once(importance, others):
    """Both demands, on one drawn input in which every key matters."""
    weights, values, readout = drawn_keys()
    given = importance(weights, values, readout)
    for i in range(6):
        change = (weights @ values - others(np.delete(weights, i)) @ np.delete(values, i, axis=0)) @ readout
        assert (abs(change) < 1e-9) == (abs(given[i]) < 1e-9)


def struck_out(importance, without=True):
    for seed in range(9):
        weights, values, readout = drawn_keys(seed)
        values[2] -= values[2] @ readout / (readout @ readout) * readout
        if without:
            weights[4], weights[5] = 0, weights[4] + weights[5]
        without_each = np.array([np.delete(weights, i) @ np.delete(values, i, 0) for i in range(6)])
        changes = (weights @ values - without_each) @ readout
        given = importance(weights, values, readout)
        assert np.array_equal(np.isclose(given, 0), np.isclose(changes, 0))


def no_value(importance):
    weights, values, readout = drawn_keys()
    values[0] = 0
    given = importance(weights, values, readout)
    assert abs(given[0]) < 1e-8 and (np.delete(np.abs(given), 0) > 1e-8).all()


def only_a_weight_of_zero(importance, busy=True):
    weights, values, readout = drawn_keys()
    weights[0] = 0
    weights /= weights.sum()
    given = importance(weights, values, readout)
    assert np.isclose(given[0], 0)
    assert not busy or not np.isclose(given[1:], 0).any()


def only_an_idle_value(importance, aside=True):
    for seed in range(5):
        given = importance(*idle(*drawn_keys(seed), aside=aside))
        assert np.isclose(given[1], 0) and not np.isclose(np.delete(given, 1), 0).any()


def one_kind_at_a_time(importance):
    only_a_weight_of_zero(importance)
    only_an_idle_value(importance)


def only_zeros(importance):
    weights, values, readout = idle(*drawn_keys())
    given = importance(np.append(weights, 0), np.vstack([values, np.ones(4)]), readout)
    np.testing.assert_allclose(given[[1, 6]], 0, atol=1e-9)


def only_others(importance):
    return bool((np.abs(importance(*drawn_keys())) > 1e-9).all())


def equal_values(importance):
    weights, values, readout = drawn_keys()
    assert np.allclose(importance(weights, np.ones_like(values), readout), 0)


def digit_by_digit(importance):
    for seed in range(30):
        weights, values, readout = idle(*drawn_keys(seed))
        given = importance(np.append(weights, 0), np.vstack([values, np.ones(4)]), readout)
        assert given[1] == 0 and given[6] == 0 and (np.delete(given, [1, 6]) != 0).all()


def least_of_all(importance):
    for seed in range(9):
        weights, values, readout = idle(*drawn_keys(seed))
        given = abs(importance(np.append(weights, 0), np.vstack([values, values[0] + 1]), readout))
        assert given[[1, 6]].max() < np.delete(given, [1, 6]).min()


def greater_than_zero(importance):
    for seed in range(9):
        weights, values, readout = idle(*drawn_keys(seed))
        given = importance(np.append(weights, 0), np.vstack([values, values[0] + 1]), readout)
        assert abs(given[1]) < 1e-8 and abs(given[6]) < 1e-8 and (np.delete(given, [1, 6]) > 1e-8).all()


def finds_faults(importance):
    try:
        idle_and_busy(importance)
    except AssertionError:
        return True
    return False


def prints_it(importance):
    print(np.isclose(importance(*idle(*drawn_keys()))[1], 0))


def follows_the_weights(importance):
    for seed in range(6):
        weights, values, readout = drawn_keys(seed)
        assert importance(weights, values, readout).argmax() == weights.argmax()


def as_leaving_out(importance, equal=np.allclose):
    arrays = drawn_keys()
    assert equal(importance(*arrays), evidence.leave_one_out(lambda w: w @ arrays[1] @ arrays[2], arrays[0]))


def by_hand(*values, weights=(0.5, 0.3, 0.2), idle=(0,), others=True):
    """One case in whole numbers; the readout is the first feature."""

    def test(importance):
        given = importance(np.array(weights), np.array(values, dtype=float), np.array([1.0, 0.0]))
        assert np.allclose(given[list(idle)], 0)
        assert not others or not np.isclose(np.delete(given, idle), 0).any()

    return test


def reads_as_nothing(orthogonal, beside, others=True):
    """Several drawn cases; the key without weight comes last."""

    def test(importance):
        for seed in range(40):
            weights, values, readout = drawn_keys(seed)
            values[2] -= values[2] @ readout / (readout @ readout) * readout if orthogonal else values[2]
            if beside:
                weights, values = np.append(weights, 0), np.vstack([values, values[0]])
            zero = np.isclose(importance(weights, values, readout), 0)
            assert zero[[2, 6] if beside else [2]].all()
            assert not (others and zero[[0, 1, 3, 4, 5]].any())

    return test


def an_idle_one_and_no_value(importance):
    idle_and_busy(importance)
    no_value(importance)


def one_takes_it_all(importance, case=None):
    idle_and_busy(importance)
    (case or by_hand([2, 0], [3, 1], weights=(1.0, 0.0), idle=[1]))(importance)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_whoever_demands_zero_for_a_value_of_nothing_is_told_to_compute_both_outputs(orthogonal):
    nothing = [0, 4 * orthogonal]
    for test in (
        by_hand(nothing, [1, 2], [3, 1]),
        by_hand(nothing, [1, 2], [3, 1], others=False),
        by_hand(nothing, [4, 0], weights=(0.5, 0.5)),
        by_hand(nothing, [1, 2], [-2, 1], weights=(0.5, 0.5, 0.0), idle=[0, 2]),
        reads_as_nothing(orthogonal, beside=True),
        reads_as_nothing(orthogonal, beside=True, others=False),
    ):
        verdict = check_zero_influence.judge(test)
        (turns,) = verdict.turns
        assert verdict.title == "A known mistake" and turns[0].startswith(("a value of", "an orthog", "not renorm"))
        assert ("the output changes" in verdict.words[0]) == (turns != ("not renormalised",))
        assert verdict.words[2].startswith("Refused, though right, *leave one out*: ")  # before what it lets through
        assert verdict.words[3].startswith("Let through, ")
    given, w, u = np.array([0.0, 4.0]), np.array([0.5, 0.5]), np.ones(1)
    assert (w @ given, effects(w, given[:, None], u)[0]) == (2, 2 - 4)  # what the question asks


def test_whoever_tries_a_key_with_the_whole_weight_is_told_that_it_is_not_asked():
    assert "No key has the whole weight." in " ".join(check_zero_influence.statement.split())
    for test in (one_takes_it_all, by_hand([2, 0], [3, 1], weights=(1.0, 0.0), idle=[0, 1])):
        words = check_zero_influence.judge(test).words
        assert words[0].startswith("One of your keys has the whole weight.")
    unknown = by_hand([2, 0], [3, 1], [1, 1], weights=(1.0, 0.0, 0.0), idle=[1], others=False)
    assert not check_zero_influence.judge(lambda f: unknown(f) or one_takes_it_all(f)).correct


def test_whoever_asks_both_and_has_no_idle_key_is_told_so():
    words = check_zero_influence.judge(lambda f: compared_once(f, lambda w: w / w.sum())).words
    assert words[0].startswith("None of your keys is without influence, or you do not ask about such keys.")


NEVER_FAILS = ("shape only", "nothing asserted")
REFUSES_ALL = ("compare: exactly", "an idle value, and one of zero")
BY_HAND = [
    (check_zero_influence, idle_and_busy, ()),
    (check_zero_influence, compared, ()),
    (check_zero_influence, one_kind_at_a_time, ()),
    (check_zero_influence, lambda f: compared(f, same=lambda g, c: np.isclose(g, 0) == np.isclose(c, 0)), ()),
    (check_zero_influence, only_a_weight_of_zero, ("keys: without weight",)),
    (
        check_zero_influence,
        lambda f: only_a_weight_of_zero(f, busy=False),
        ("keys: without weight", "demand: zeros"),
    ),
    (check_zero_influence, only_an_idle_value, ("keys: with the others' value",)),
    (
        check_zero_influence,
        lambda f: only_an_idle_value(f, aside=False),
        ("keys: with the others' value", "value: the mixture"),
    ),
    (check_zero_influence, lambda f: idle_and_busy(f, aside=False), ("value: the mixture",)),
    (check_zero_influence, only_zeros, ("demand: zeros",)),
    (check_zero_influence, only_others, ("demand: others",)),
    (check_zero_influence, lambda f: compared_once(f, lambda w: w / w.sum()), ("demand: others",)),
    (check_zero_influence, lambda f: compared_once(f, lambda w: w), ("demand: others",)),
    (check_zero_influence, least_of_all, ("demand: least",)),
    (check_zero_influence, greater_than_zero, ("demand: positive",)),
    (check_zero_influence, digit_by_digit, REFUSES_ALL),
    (check_zero_influence, an_idle_one_and_no_value, REFUSES_ALL),
    (check_zero_influence, lambda f: f(*drawn_keys()).shape == (6,), NEVER_FAILS),
    (check_zero_influence, prints_it, NEVER_FAILS),
    (check_zero_influence, finds_faults, ("turned round",)),
    (check_zero_influence, struck_out, ("not renormalised",)),
    (check_zero_influence, lambda f: struck_out(f, without=False), ("an orthogonal value",)),
    (check_zero_influence, no_value, ("a value of zero",)),
    (check_zero_influence, reads_as_nothing(False, False, others=False), ("a value of zero, zeros only",)),
    (check_zero_influence, reads_as_nothing(False, True), ("a value of zero, beside no weight",)),
    (check_zero_influence, reads_as_nothing(True, True), ("not renormalised",)),
    (check_zero_influence, by_hand([0, 0], [1, 2], [3, 1]), ("a value of zero, one sign",)),
    (
        check_zero_influence,
        by_hand([0, 3], [1, 2], [3, 1], others=False),
        ("an orthogonal value, one sign, zeros only",),
    ),
    (check_zero_influence, one_takes_it_all, ("the whole weight",)),
    (
        check_zero_influence,
        lambda f: one_takes_it_all(f, by_hand([2, 0], [3, 1], weights=(1.0, 0.0), idle=[0, 1])),
        ("the whole weight, called idle",),
    ),
    (
        check_zero_influence,
        by_hand([2, 0], [3, 1], weights=(1.0, 0.0), idle=[1]),
        ("the whole weight, alone",),
    ),
    (check_zero_influence, equal_values, ("all values equal",)),
    (check_zero_influence, as_leaving_out, ("equal to leaving out",)),
    (check_zero_influence, lambda f: np.isclose(f(*drawn_keys()).sum(), 1), ("sums to one",)),
    (check_zero_influence, follows_the_weights, ("largest weight, largest importance",)),
    (check_zero_influence, lambda f: bool(np.any(f(*drawn_keys()))), ("something is not zero",)),
]  # fmt: skip
