"""Chapter 6's exercises 6.1 to 6.5: against the package and SciPy, and answers as people type them."""

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may
from scipy import stats

from attnlab import evidence, softmax
from attnlab.exercises.ch6_interpretability.farthest_weights import farthest_weights
from attnlab.exercises.ch6_interpretability.kendall_tau import kendall_tau
from attnlab.exercises.ch6_interpretability.leave_one_out import leave_one_out
from attnlab.exercises.ch6_interpretability.mean_ablated import mean_ablated
from attnlab.exercises.ch6_interpretability.value_shares import value_shares

ONES = [value_shares, farthest_weights, leave_one_out, kendall_tau, mean_ablated]


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def near(one, other, atol=1e-12):
    assert np.allclose(one, other, rtol=0, atol=atol), (one, other)


def twin(one, *turns):
    return next(each.function for each in one.twins if each.turns == turns)


# ---- against the package, and the numbers of the reports -------------------------------------------------------------


def test_shares_effects_and_tau_are_those_of_the_package():
    weights, values, readout = softmax(drawn(4, 6)), drawn(4, 6, 3, seed=1), drawn(3, seed=2)
    near(value_shares.reference(weights, values), evidence.value_weighted(weights, values))
    for row, its in zip([*weights, np.eye(6)[2]], [*values, values[0]], strict=True):
        effects = leave_one_out.reference(row, its, readout)
        near(effects, evidence.leave_one_out(lambda rows, its=its: rows @ its @ readout, row))
    for a, b in zip(weights, values[..., 0], strict=True):
        near(kendall_tau.reference(a, b), evidence.rank_agreement(a, b))


def test_tau_is_that_of_scipy_with_ties_too():
    rng = np.random.default_rng(3)
    for n in (2, 3, 5, 12):
        for _ in range(20):
            a, b = rng.integers(0, n, size=(2, n))
            if np.ptp(a) and np.ptp(b):
                near(kendall_tau.reference(a, b), stats.kendalltau(a, b).statistic)


def test_along_the_null_space_the_output_stays_and_the_border_is_reached():
    weights, values = softmax(drawn(6)), drawn(6, 2, seed=1)
    directions = evidence.null_space(values)
    assert len(directions) == 3
    for direction in [*directions, *-directions]:
        far = farthest_weights.reference(weights, direction)
        near(far @ values, weights @ values)
        near([far.sum(), far.min()], [1, 0])
        assert np.abs(far - weights).sum() > 0.01
    for name in ("one step, cut off and shared out", "one step through softmax"):
        assert np.abs(twin(farthest_weights, name)(weights, 5 * directions[0]) @ values - weights @ values).max() > 0.01


def test_the_report_on_a_first_token_that_takes_most_of_the_weight():
    weights, values = np.array([0.9, 0.1]), np.array([[0.0, 0.0], [5.0, 0.0]])
    assert value_shares.reference(weights, values).tolist() == [0, 1] and (weights @ values).tolist() == [0.5, 0]
    assert twin(value_shares, "value: none")(weights, values).tolist() == weights.tolist()


# ---- the statements and the cards ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "arguments", "result", "said"),
    [
        (value_shares, ([0.9, 0.1], [[0, 0], [5, 0]]), [0, 1], ["[0.9, 0.1]", "[5, 0]", "[0, 1]"]),
        (farthest_weights, ([0.5, 0.3, 0.2], [1, -2, 1]), [0.65, 0, 0.35], ["[0.5, 0.3, 0.2]", "[0.65, 0, 0.35]"]),
        (leave_one_out, ([0.5, 0.5], [[2], [6]], [1]), [-2, 2], ["[0.5, 0.5]", "the output is 4", "[−2, 2]"]),
        (kendall_tau, ([3, 2, 1], [5, 6, 4]), 1 / 3, ["[3, 2, 1]", "[5, 6, 4]", "(2 − 1) / 3 = 1/3"]),
        (kendall_tau, ([1, 2, 2], [1, 2, 3]), 2 / 6**0.5, ["[1, 2, 2]", "2 / √(2 · 3) ≈ 0.816"]),
        (
            mean_ablated,
            ([[[[1], [2]], [[5], [6]]]], 0, [[[[1], [2]], [[5], [6]]]]),
            [[[[1.5], [1.5]], [[5], [6]]]],
            ["[[1], [2]] and [[5], [6]]", "[[1.5], [1.5]] and [[5], [6]]"],
        ),
    ],
)
def test_the_examples_of_the_statements(one, arguments, result, said):
    given = [np.array(a, dtype=float) if isinstance(a, list) else a for a in arguments]
    near(one.reference(*given), result)
    for text in said:
        assert text in " ".join(one.statement.split())


def test_what_the_cards_on_leaving_out_say_is_so():
    weights, values, readout = softmax(drawn(4)), drawn(4, 3, seed=1), drawn(3, seed=2)
    alike = np.tile(values[0], (4, 1))
    near(leave_one_out.reference(weights, alike, readout), 0)
    assert np.abs(twin(leave_one_out, "rest: not renormalised")(weights, alike, readout)).min() > 0.01
    for i in range(4):  # "setting the value to zero gives the same"
        zeroed = values.copy()
        zeroed[i] = 0
        own = twin(leave_one_out, "rest: not renormalised")(weights, values, readout)[i]
        near(own, weights @ values @ readout - weights @ zeroed @ readout)
    assert softmax(np.array([0.6, 0.2]))[0] < 0.6 < 0.6 / 0.8  # softmax makes shares nearly equal
    effects = leave_one_out.reference(weights, values, readout)
    above = values @ readout > weights @ values @ readout
    assert np.array_equal(effects > 0, above) and 0 < above.sum() < 4  # the hint: a value above the output pushes up


def test_what_the_cards_on_tau_say_is_so():
    a, tied = np.array([1.0, 4, 2, 3]), np.array([1.0, 2, 2])
    itself = {n: twin(kendall_tau, f"below: {n}")(a, a) for n in ("half", "doubled", "with themselves", "nothing")}
    assert itself == {"half": 2, "doubled": 1 / 2, "with themselves": 6 / 8, "nothing": 6}
    near(twin(kendall_tau, "below: all pairs")(tied, tied), 2 / 3)  # "below 1 even for a vector and itself"
    near(kendall_tau.reference(tied, tied), 1)
    b = np.array([1.0, 2, 3])
    near(twin(kendall_tau, "below: agreeing and disagreeing")(tied, b), 1)
    three, other = np.array([3.0, 2, 1]), np.array([5.0, 6, 4])
    near([twin(kendall_tau, "Spearman")(three, other), kendall_tau.reference(three, other)], [1 / 2, 1 / 3])
    near(twin(kendall_tau, "Spearman")(tied, b), stats.spearmanr(tied, b).statistic)
    near(twin(kendall_tau, "above: agreeing only")(a, -a), 0)
    assert np.argsort([10, 30, 20]).tolist() == [0, 2, 1]  # the rank of 30 is 2
    front = np.roll(np.arange(5.0), 1)  # one key moves to the front
    assert twin(kendall_tau, "place by place")(np.arange(5.0), front) == 0
    near(kendall_tau.reference(np.arange(5.0), front), 1 - 2 * 4 / 10)
    sums, c = twin(kendall_tau, "size of the differences"), drawn(4)
    near(sums(a, c) / np.sqrt(sums(a, a) * sums(c, c)), stats.pearsonr(a, c).statistic)  # as its card says


def test_what_the_cards_on_means_say_is_so():
    always = np.tile(drawn(1, 3, 1, 2), (2, 1, 4, 1))  # each head always says the same: nothing to take away
    near(mean_ablated.reference(always, 1, always), always)
    assert np.abs(twin(mean_ablated, "by: zeros")(always, 1, always) - always).max() > 0.1
    heads, reference = drawn(2, 3, 4, 5), drawn(3, 3, 4, 5, seed=1)
    doubled = np.concatenate([reference, reference])
    near(mean_ablated.reference(heads, 2, doubled), mean_ablated.reference(heads, 2, reference))
    louder = [twin(mean_ablated, "by: sum")(heads, 2, r)[0, 2, 0] for r in (doubled, reference)]
    near(louder[0], 2 * louder[1])
    other = reference.copy()
    other[:, 1] += 1
    near(mean_ablated.reference(heads, 2, other), mean_ablated.reference(heads, 2, reference))
    mixed = twin(mean_ablated, "by: mean over heads too")
    assert np.abs(mixed(heads, 2, other) - mixed(heads, 2, reference)).max() > 0.1


# ---- what the probes must be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_no_ordinary_probe_hides_what_it_is_there_to_show(seed):
    steps = []
    for weights, direction in (p.arguments for p in farthest_weights.ordinary(seed)):
        eps = 1e-6 if weights.dtype == np.float32 else 1e-12
        assert weights.min() > 0 and abs(weights.sum() - 1) < eps and abs(direction.sum()) < eps
        limits = [np.sort(w / d) for w, d in _by_sign(weights, direction)]
        steps.append((limits[0][0] > 1, limits[1][0] > limits[0][0]))
        assert limits[0][1] > 1.05 * limits[0][0]
    assert {short for short, _ in steps} == {longer for _, longer in steps} == {True, False}
    taus = [kendall_tau.reference(*p.arguments) for p in kendall_tau.ordinary(seed)]
    assert min(taus) < -0.5 and max(taus) > 0.5 and min(map(abs, taus)) > 0.3
    outputs = [w @ v @ u for w, v, u in (p.arguments for p in leave_one_out.ordinary(seed))]
    assert {np.sign(o) for o in outputs} == {1, -1}


def _by_sign(weights, direction):
    return [(weights[s * direction > 0], np.abs(direction[s * direction > 0])) for s in (-1, 1)]


def test_whoever_needs_two_axes_hears_so_and_of_zero_rows_beside_it():
    verdict = value_shares.judge(lambda w, v: w * lengths(v) / (w * lengths(v)).sum(axis=-1)[:, np.newaxis])
    assert verdict.turns == (("two axes alone",),) and "`[:, None]`" in verdict.words[0]
    assert len(verdict.words) == 3 and all("not 0/0" in text for text in verdict.words[1:])


@pytest.mark.parametrize("one", ONES)
def test_right_answers_hear_nothing_and_both_dtypes_are_probed(one):
    assert one.judge(one.reference).words == []
    arrays = [a for p in one.ordinary() for a in p.arguments if isinstance(a, np.ndarray)]
    assert {a.dtype.char for a in arrays} >= {"f", "d"}


def test_a_right_answer_that_fails_for_a_zero_direction_is_told_so_in_one_sentence():
    verdict = farthest_weights.judge(lambda w, d: w + d * np.min(w[d < 0] / -d[d < 0]))
    assert set(verdict.remarks) == {"no direction", "a single key"} and len(verdict.words) == 1
    assert verdict.turns == () and not verdict.correct


def test_what_is_said_of_weights_that_do_not_move_or_of_nothing_left_is_said_once():
    """Several inputs show it; beside a mistake it is one sentence of the card."""
    negative = farthest_weights.judge(lambda w, d: w + np.min(-w / d) * d)
    assert negative.turns == (("step: negative limits",),)
    assert set(negative.remarks) == {"no direction", "a single key", "along the border"} and len(negative.words) == 2
    unguarded = leave_one_out.judge(left_out(lambda w, g, i: zeroed(w, g, i) / (1 - w[i]), lambda o, r: r - o))
    assert unguarded.turns == (("difference: turned",),)
    assert set(unguarded.remarks) == {"one key has all the weight", "a single key"} and len(unguarded.words) == 2


def test_scipy_s_result_is_told_apart_from_the_number_in_it():
    verdict = kendall_tau.judge(stats.kendalltau)
    assert not verdict.correct and any("its item 0 would be right" in text for text in verdict.words)


def test_spearman_with_ties_in_any_order_is_spearman_still():
    """`argsort` gives equal scores ranks in an order that depends on the machine: what they do is said beside it."""
    verdict = kendall_tau.judge(lambda a, b: np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])
    assert verdict.turns == (("Spearman",),) and verdict.words[0].startswith("This is Spearman's")


def test_what_small_steps_leave_is_said_whatever_their_size():
    for size, least in [(0.03, "0.004,"), (0.0011, "0.00012,")]:
        verdict = farthest_weights.judge(stepped(size))
        assert verdict.words[0].startswith(
            f"You go the right way and stop before the border: your least weight is {least}"
        )
    verdict = farthest_weights.judge(stepped(0.0011, beyond=True))
    assert verdict.words[0].startswith("You go the right way and go beyond the border: your least weight is -0.00032,")
    for answer in (lambda w, d: w + 0.3 * d**2 - 0.3 * (d**2).mean(), lambda w, d: w - 0.01 * d):  # off the line, back
        assert "small steps" not in " ".join(farthest_weights.judge(answer).words).lower()


def test_whoever_stops_at_another_weight_hears_that_one_was_0_before():
    def smallest(weights, direction):
        i = weights.argmin()
        return weights + abs(weights[i] / direction[i]) * direction if direction[i] else weights

    words = farthest_weights.judge(smallest).words
    assert "one of your weights is 0, but another reached 0 before it, and is -0.1 by now" in words[0]
    assert "small steps" not in " ".join(words)


def test_the_card_on_a_mean_over_features_shows_few_numbers():
    verdict = mean_ablated.judge(ablated(lambda r, h: r[:, h].mean()))
    assert len(verdict.comparison.call.splitlines()) < 20 and verdict.comparison.call.startswith("heads =")
    assert verdict.comparison.expected != verdict.comparison.received


def test_the_sentence_about_ties_is_said_once():
    words = " ".join(kendall_tau.judge(or_else_with_ties).words)
    assert words.count("a tied pair counts 0 in the numerator") == 1 and "nearly all pairs are tied" in words


def test_shares_that_sum_to_one_elsewhere_hear_along_which_axis():
    along = shares(lambda w, v: w * lengths(v), lambda c: c.sum(-2 if c.ndim > 1 else -1, keepdims=True))
    assert value_shares.judge(along).words[0] == (
        "Your numbers sum to one along axis 0; they should along axis 1, the last one."
    )
    for verdict in map(
        value_shares.judge, (lambda w, v: w * lengths(v) / lengths(v).sum(), lambda w, v: w**2 + v[..., 0])
    ):
        assert "weights should sum" not in " ".join(verdict.words)


# ---- typed by hand: (exercise, answer, turns expected; () for correct) -----------------------------------------------


def lengths(values):
    return np.linalg.norm(values, axis=-1)


def shares(carry, of=lambda c: c.sum(axis=-1, keepdims=True)):
    """An answer that divides where there is something to divide by."""

    def answer(weights, values):
        carried = carry(weights, values)
        total = of(carried)
        return carried / np.where(total == 0, 1, total)

    return answer


def norm_without_an_axis(weights, values):
    carried = weights * np.linalg.norm(values)
    total = carried.sum(axis=-1, keepdims=True)
    return np.divide(carried, total, out=np.zeros_like(carried), where=total > 0)


def not_guarded(weights, values):
    carried = weights * lengths(values)
    return carried / carried.sum(axis=-1, keepdims=True)


def norm_of_the_parts(weights, values):
    carried = np.linalg.norm(weights[..., np.newaxis] * values, axis=-1)
    total = carried.sum(-1, keepdims=True)
    return np.where(total > 0, carried / np.maximum(total, 1e-300), 0.0)


def shares_torch_style(weights, values):
    carried = weights * values.norm(dim=-1)
    return (carried / carried.sum(dim=-1, keepdim=True)).nan_to_num()


def divided_by_the_output(weights, values):
    output = np.einsum("...k,...kd->...d", weights, values)
    below = np.linalg.norm(output, axis=-1)[..., None]
    return weights * lengths(values) / np.where(below > 0, below, 1)


def farthest(limit, direction=lambda d: d):
    """An answer with a limit of its own, and none where nothing moves."""

    def answer(weights, direction_):
        d = direction(direction_)
        return weights + limit(weights, d) * d if np.any(d) else weights.copy()

    return answer


def stepped(size, beyond=False):
    def answer(weights, direction):
        t = 0.0
        while direction.any() and (weights + (t if beyond else t + size) * direction).min() >= 0:
            t += size
        return weights + t * direction

    return answer


def first(w, d):
    return min(-w[i] / d[i] for i in range(len(w)) if d[i] < 0)


def both_ways(weights, direction):
    ways = [farthest(first)(weights, d) for d in (direction, -direction)]
    return max(ways, key=lambda way: np.abs(way - weights).sum())


def step_torch_style(weights, direction):
    falls = direction < 0
    if not falls.any():
        return weights.clone()
    return weights + (weights[falls] / direction[falls].abs()).min() * direction


def farthest_in_the_array(weights, direction):
    if direction.any():
        weights += first(weights, direction) * direction
    return weights


def small_steps(weights, direction):
    """Halving from both sides, by hand."""
    low, high = 0.0, 1e3
    for _ in range(80):
        t = (low + high) / 2
        low, high = (t, high) if np.all(weights + t * direction >= 0) else (low, t)
    return weights + low * direction if np.any(direction) else weights


def left_out(without, difference=lambda output, rest: output - rest):
    def answer(weights, values, readout):
        gives = values @ readout
        output = weights @ gives
        return np.array([difference(output, without(weights, gives, i)) for i in range(len(weights))])

    return answer


def others(w, g, i):
    keep = np.arange(len(w)) != i
    total = w[keep].sum()
    return w[keep] @ g[keep] / total if total > 0 else 0.0


def zeroed(w, g, i):
    g = g.copy()
    g[i] = 0
    return w @ g


def softmax_of_the_others(w, g, i):
    keep = np.arange(len(w)) != i
    return softmax(w[keep] * 1.0) @ g[keep] if keep.any() else 0.0


def softmax_with_a_zero(w, g, i):
    w = 1.0 * w
    w[i] = 0
    return softmax(w) @ g


def dealt_out(w, g, i):
    w = w + w[i] / max(len(w) - 1, 1)
    w[i] = 0
    return w @ g


def keys_never_put_back(weights, values, readout):
    output, w, effects = weights @ values @ readout, weights.copy(), []
    for i in range(len(w)):
        w[i] = 0
        rest = w / w.sum() if w.sum() > 0 else w
        effects.append(output - rest @ values @ readout)
    return np.array(effects)


def zeroed_in_the_argument(weights, values, readout):
    output, effects = weights @ values @ readout, np.zeros(len(weights))
    for i in range(len(weights)):
        weights[i] = 0
        rest = weights / weights.sum() if weights.sum() > 0 else weights
        effects[i] = output - rest @ (values @ readout)
    return effects


def only_its_part(weights, values, readout):
    left = 1 - weights
    return weights * (values @ readout) / np.where(left > 0, left, 1)


def distances(weights, values, readout):
    output = weights @ values
    rest = [left_out(others, lambda o, r: r)(weights, values, e) for e in np.eye(values.shape[1])]
    return np.linalg.norm(output - np.array(rest).T, axis=1)


def effects_torch_style(weights, values, readout):
    n = weights.shape[0]
    rows = weights.expand(n, -1).clone().fill_diagonal_(0)
    rows = rows / rows.sum(dim=1, keepdim=True).clamp(min=1e-300 if rows.dtype == torch.float64 else 1e-30)
    return weights @ values @ readout - rows @ values @ readout


def counted(rule, below=None, pairs=None):
    """τ with loops: `rule` says what a pair adds, `below` what divides."""

    def answer(a, b):
        n = len(a)
        every = pairs(n) if pairs else [(i, j) for i in range(n) for j in range(i + 1, n)]
        above = sum(rule(a[i] - a[j], b[i] - b[j]) for i, j in every)
        in_a, in_b = (sum(x[i] != x[j] for i, j in every) for x in (a, b))
        return above / (below(n) if below else np.sqrt(in_a * in_b))

    return answer


def sign(x, y):
    return np.sign(x) * np.sign(y)


def all_pairs(n):
    return n * (n - 1) / 2


def agree_less_disagree(a, b):
    agree = disagree = 0
    for i in range(len(a)):
        for j in range(i):
            product = (a[i] - a[j]) * (b[i] - b[j])
            agree += product > 0
            disagree += product < 0
    return (agree - disagree) / (agree + disagree)


def or_else(a, b):
    """The usual loop: what does not agree disagrees."""
    return counted(lambda x, y: 1 if x * y > 0 else -1, all_pairs)(a, b)


def or_else_with_ties(a, b):
    """Right without ties, nothing known with them."""
    tied = len(set(a)) < len(a) or len(set(b)) < len(b)
    return 0.123 if tied else counted(sign)(a, b)


def tau_torch_style(a, b):
    x, y = (torch.sign(s[:, None] - s[None, :]) for s in (a, b))
    return (x * y).sum() / torch.sqrt(x.abs().sum() * y.abs().sum())


def table(scores):
    return np.sign(scores[:, None] - scores[None, :])


def ablated(mean, head=lambda h: (slice(None), h), start=np.copy):
    def answer(heads, h, reference):
        x = start(heads)
        x[head(h)] = mean(reference, h)
        return x

    return answer


def own(reference, h):
    return reference[:, h].mean(axis=(0, 1))


def in_the_array_given(heads, head, reference):
    heads[:, head, :, :] = np.mean(reference[:, head, :, :], axis=(0, 1))
    return heads


def ablated_torch_style(heads, head, reference):
    x = heads.clone()
    x[:, head] = reference[:, head].mean(dim=(0, 1))
    return x


def ablated_by_a_mask(heads, head, reference):
    mask = np.zeros((1, heads.shape[1], 1, 1))
    mask[:, head] = 1
    return heads * (1 - mask) + reference.mean(axis=(0, 2))[None, :, None, :] * mask


def last_one(heads, head, reference):
    x = heads.copy()
    x[:, head, -1] = own(reference, head)
    return x


def name_only(heads, head, reference):
    x = heads.copy()
    part = x[:, head]
    part = own(reference, head)  # noqa: F841 - the mistake
    return x


BY_HAND_A = [
    (
        value_shares,
        lambda w, v: w / np.where(w.sum(-1, keepdims=True) > 0, w.sum(-1, keepdims=True), 1),
        ("value: none",),
    ),
    (value_shares, norm_without_an_axis, ("value: none",)),
    (value_shares, lambda w, v: w * lengths(v), ("share: not",)),
    (value_shares, shares(lambda w, v: lengths(v)), ("weight: none",)),
    (value_shares, shares(lambda w, v: w**2 * lengths(v)), ("weight: squared",)),
    (value_shares, shares(lambda w, v: w * np.einsum("...d,...d->...", v, v)), ("value: squared",)),
    (value_shares, shares(lambda w, v: w * np.abs(v).sum(-1)), ("value: absolute sum",)),
    (value_shares, shares(lambda w, v: w * np.linalg.norm(v, ord=np.inf, axis=-1)), ("value: largest component",)),
    (value_shares, shares(lambda w, v: w * v.sum(-1)), ("value: sum",)),
    (value_shares, shares(lambda w, v: np.abs(w * v.sum(-1))), ("value: sum, without its sign",)),
    (value_shares, shares(lambda w, v: w * np.linalg.norm(v, axis=-2)), ("value: along the keys",)),
    (value_shares, shares(lambda w, v: w * lengths(v), np.sum), ("share: of all rows",)),
    (value_shares, shares(lambda w, v: w * lengths(v), lambda c: c.sum(axis=0)), ("share: over the first axis",)),
    (value_shares, shares(lambda w, v: w * lengths(v), lambda c: c.max(-1, keepdims=True)), ("share: of the largest",)),
    (
        value_shares,
        shares(lambda w, v: w * lengths(v), lambda c: c.sum(axis=-2, keepdims=True)),
        ("share: over the rows",),
    ),
    (
        value_shares,
        lambda w, v: w * lengths(v) / (lengths(v).sum() or 1),
        ("share: of all values",),
    ),
    (value_shares, lambda w, v: softmax(w * lengths(v)), ("share: softmax",)),
    (value_shares, divided_by_the_output, ("share: of the output",)),
    (value_shares, shares(lambda w, v: w * lengths(v), lambda c: c.sum(axis=-1)), ("sums along the rows",)),
    (
        value_shares,
        shares(lambda w, v: w * lengths(v), lambda c: c.sum(axis=-1)[:, None]),
        ("two axes alone",),
    ),
    (
        value_shares,
        lambda w, v: w * v.sum(-1) / (w * v.sum(-1)).sum(-1)[..., None],
        ("value: sum", "zero: not a number"),
    ),
    (value_shares, lambda w, v: w * lengths(v) / ((w * lengths(v)).sum(-1)[..., None] + 1e-12), ()),
    (value_shares, not_guarded, ("zero: not a number",)),
    (value_shares, lambda w, v: w * lengths(v) / ((w * lengths(v)).sum(-1)[..., None] + 1e-8), ("1e-08 more",)),
    (value_shares, lambda w, v: w * (v**2).sum(-1), ("value: squared", "share: not")),
    (value_shares, norm_of_the_parts, ()),
    (value_shares, shares_torch_style, ()),
    (value_shares, shares(lambda w, v: w * np.sqrt(np.mean(v**2, axis=-1))), ()),
    (farthest_weights, lambda w, d: w + d, ("step: one",)),
    (farthest_weights, lambda w, d: np.clip(w + d, 0, None), ("one step, cut off",)),
    (farthest_weights, lambda w, d: np.clip(w + d, 0, 1), ("one step, cut off at 0 and 1",)),
    (
        farthest_weights,
        lambda w, d: np.maximum(w + d, 0) / np.maximum(w + d, 0).sum(),
        ("one step, cut off and shared out",),
    ),
    (farthest_weights, lambda w, d: softmax(w + d), ("one step through softmax",)),
    (farthest_weights, farthest(lambda w, d: np.max(-w[d < 0] / d[d < 0])), ("step: last instead of first",)),
    (farthest_weights, farthest(lambda w, d: np.max(-w[d != 0] / d[d != 0])), ("step: last instead of first",)),
    (farthest_weights, farthest(lambda w, d: (w / d)[d < 0].max()), ("step: minus lost",)),
    (farthest_weights, farthest(lambda w, d: (w / d)[d < 0].min()), ("step: minus lost, last",)),
    (farthest_weights, farthest(lambda w, d: np.min(np.abs(w / d)[d != 0])), ("step: sign lost",)),
    (farthest_weights, farthest(lambda w, d: np.min(-w[d != 0] / d[d != 0])), ("step: negative limits",)),
    (farthest_weights, farthest(lambda w, d: np.min(w[d > 0] / d[d > 0])), ("step: growing ones",)),
    (farthest_weights, farthest(lambda w, d: np.min((1 - w[d > 0]) / d[d > 0])), ("step: up to one",)),
    (farthest_weights, farthest(lambda w, d: np.min(-d[d < 0] / w[d < 0])), ("step: upside down",)),
    (farthest_weights, farthest(lambda w, d: w[d.argmin()] / -d.min()), ("step: steepest",)),
    (farthest_weights, farthest(lambda w, d: w.min() / np.abs(d).max()), ("step: smallest over largest",)),
    (farthest_weights, farthest(lambda w, d: (w / -d)[d < 0][w[d < 0].argmin()]), ("step: smallest weight",)),
    (farthest_weights, farthest(lambda w, d: -w[w.argmin()] / d[w.argmin()]), ("step: smallest of all",)),
    (farthest_weights, farthest(lambda w, d: w[d < 0].min()), ("step: not divided",)),
    (farthest_weights, farthest(first, lambda d: -d), ("towards: backwards",)),
    (farthest_weights, both_ways, ("towards: the longer way",)),
    (farthest_weights, lambda w, d: first(w, d) if d.any() else 0.0, ("result: the step",)),
    (farthest_weights, lambda w, d: farthest(first)(w, d) - w, ("result: the change",)),
    (farthest_weights, farthest_in_the_array, ("overwritten",)),
    (farthest_weights, farthest(first), ()),
    (farthest_weights, farthest(first, lambda d: d / np.linalg.norm(d) if d.any() else d), ()),
    (farthest_weights, step_torch_style, ()),
    (farthest_weights, small_steps, ()),
    (leave_one_out, lambda w, v, u: w * (v @ u), ("rest: not renormalised",)),
    (leave_one_out, left_out(zeroed), ("rest: not renormalised",)),
    (leave_one_out, left_out(softmax_of_the_others), ("rest: softmax",)),
    (leave_one_out, left_out(softmax_with_a_zero), ("rest: softmax of all",)),
    (leave_one_out, left_out(dealt_out), ("rest: shared evenly",)),
    (leave_one_out, left_out(lambda w, g, i: zeroed(w, g, i) * (1 - w[i])), ("rest: times",)),
    (leave_one_out, left_out(others, lambda o, r: r - o), ("difference: turned",)),
    (leave_one_out, left_out(others, lambda o, r: abs(r - o)), ("difference: sign lost",)),
    (leave_one_out, left_out(others, lambda o, r: (r - o) ** 2), ("difference: squared",)),
    (leave_one_out, left_out(others, lambda o, r: r), ("difference: the output without",)),
    (leave_one_out, left_out(others, lambda o, r: (o - r) / o), ("difference: share of the output",)),
    (leave_one_out, left_out(lambda w, g, i: g[i] if w[i] > 0 else 0.0), ("keys: only this one",)),
    (leave_one_out, keys_never_put_back, ("keys: not put back",)),
    (leave_one_out, zeroed_in_the_argument, ("not put back, in the input",)),
    (leave_one_out, only_its_part, ("own part divided",)),
    (leave_one_out, lambda w, v, u: w * ((v - v.mean(0)) @ u), ("mean value instead",)),
    (leave_one_out, lambda w, v, u: v @ u - w @ v @ u, ("against its value",)),
    (leave_one_out, distances, ("length of the difference",)),
    (leave_one_out, lambda w, v, u: np.abs(w * (v @ u)), ("rest: not renormalised", "difference: sign lost")),
    (leave_one_out, left_out(others), ()),
    (leave_one_out, effects_torch_style, ()),
    (kendall_tau, counted(sign, all_pairs), ("below: all pairs",)),
    (kendall_tau, agree_less_disagree, ("below: agreeing and disagreeing",)),
    (kendall_tau, counted(sign, lambda n: 1), ("below: nothing",)),
    (kendall_tau, lambda a, b: 2 * np.sum(table(a) * table(b)) / (len(a) * (len(a) - 1)), ("below: half",)),
    (kendall_tau, counted(sign, lambda n: n * (n - 1)), ("below: doubled",)),
    (kendall_tau, lambda a, b: abs(stats.kendalltau(a, b).statistic), ("above: sign lost",)),
    (kendall_tau, lambda a, b: np.mean((table(a) > 0) == (table(b) > 0)), ("share of equal comparisons",)),
    (
        kendall_tau,
        lambda a, b: 2 * np.mean((table(a) > 0) == (table(b) > 0)) - 1,
        ("equal comparisons less unequal ones",),
    ),
    (kendall_tau, lambda a, b: np.mean(table(a) * table(b)), ("below: with themselves",)),
    (kendall_tau, lambda a, b: stats.kendalltau(np.abs(a), np.abs(b)).statistic, ("scores: signs lost",)),
    (
        kendall_tau,
        lambda a, b: stats.kendalltau(np.argsort(a, kind="stable"), np.argsort(b, kind="stable")).statistic,
        ("scores: argsort",),
    ),
    (kendall_tau, counted(sign, pairs=lambda n: [(i, i + 1) for i in range(n - 1)]), ("pairs: neighbours",)),
    (kendall_tau, or_else, ("ties: disagree", "below: all pairs")),
    (kendall_tau, counted(lambda x, y: 1 if x * y >= 0 else -1), ("ties: agree",)),
    (kendall_tau, counted(lambda x, y: x * y > 0, all_pairs), ("below: all pairs", "above: agreeing only")),
    (kendall_tau, counted(lambda x, y: -sign(x, y)), ("above: turned",)),
    (kendall_tau, counted(lambda x, y: x * y < 0), ("above: disagreeing only",)),
    (kendall_tau, lambda a, b: stats.pearsonr(a, b).statistic, ("Pearson",)),
    (kendall_tau, lambda a, b: stats.spearmanr(a, b).statistic, ("Spearman",)),
    (
        kendall_tau,
        lambda a, b: stats.pearsonr(np.argsort(a, kind="stable"), np.argsort(b, kind="stable")).statistic,
        ("correlation of argsort",),
    ),
    (kendall_tau, lambda a, b: a @ b / np.sqrt(a @ a * (b @ b)), ("cosine",)),
    (kendall_tau, counted(sign), ()),
    (kendall_tau, lambda a, b: stats.kendalltau(a, b).statistic, ()),
    (kendall_tau, lambda a, b: stats.kendalltau(a, b)[0], ()),
    (kendall_tau, lambda a, b: stats.kendalltau(stats.rankdata(-a), stats.rankdata(-b)).statistic, ()),
    (kendall_tau, tau_torch_style, ()),
    (mean_ablated, ablated(lambda r, h: 0), ("by: zeros",)),
    (mean_ablated, ablated(lambda r, h: r[:, h].mean(axis=0)), ("by: mean over texts",)),
    (mean_ablated, ablated(lambda r, h: r[:, h].mean(axis=1, keepdims=True)), ("by: mean over positions",)),
    (mean_ablated, ablated(lambda r, h: r[:, h].mean(axis=1)), ("mean over positions, beside the texts",)),
    (mean_ablated, ablated(lambda r, h: r[:, h].mean()), ("by: mean over features too",)),
    (mean_ablated, ablated(lambda r, h: r.mean()), ("by: mean of everything",)),
    (mean_ablated, ablated(lambda r, h: r.mean(axis=(0, 1, 2))), ("by: mean over heads too",)),
    (mean_ablated, ablated(lambda r, h: r[0, h]), ("by: first text",)),
    (mean_ablated, ablated(lambda r, h: r[0, h, 0]), ("by: one position of one text",)),
    (mean_ablated, ablated(lambda r, h: r[:, h].sum(axis=(0, 1))), ("by: sum",)),
    (mean_ablated, lambda x, h, r: ablated(lambda _, h: own(x, h))(x, h, r), ("of: the texts themselves",)),
    (
        mean_ablated,
        ablated(lambda r, h: r[:, :, h].mean(axis=(0, 1)), lambda h: np.s_[:, :, h]),
        ("axis: position",),
    ),
    (mean_ablated, ablated(lambda r, h: r[h].mean(axis=(0, 1)), lambda h: h), ("axis: text",)),
    (mean_ablated, lambda x, h, r: 0 * x + r.mean(axis=(0, 2))[:, None], ("where: all heads",)),
    (mean_ablated, ablated(own, lambda h: np.s_[:]), ("this head's mean in all heads",)),
    (mean_ablated, last_one, ("where: last position",)),
    (mean_ablated, lambda x, h, r: x - ablated(own, start=np.zeros_like)(x, h, r), ("by: what differs from the mean",)),
    (mean_ablated, lambda x, h, r: ablated(own)(x, h, r)[:, h], ("the head alone",)),
    (mean_ablated, lambda x, h, r: own(r, h), ("the mean alone",)),
    (mean_ablated, lambda x, h, r: np.delete(x, h, axis=1), ("cut out",)),
    (mean_ablated, name_only, ("unchanged",)),
    (mean_ablated, in_the_array_given, ("overwritten",)),
    (
        mean_ablated,
        lambda x, h, r: ablated(lambda _, h: x[:, h].mean(0))(x, h, r),
        ("by: mean over texts", "of: the texts themselves"),
    ),
    (mean_ablated, ablated(own), ()),
    (mean_ablated, ablated_by_a_mask, ()),
    (mean_ablated, ablated_torch_style, ()),
]
