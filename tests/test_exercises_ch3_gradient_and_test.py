"""Exercises 3.5 and 3.10, which observe gradients and judge tests: answers as people type them."""

import numpy as np
import pytest
import torch

from attnlab import masks
from attnlab.exercises.ch3_matrix_and_masks.check_causal import check_causal
from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax
from attnlab.exercises.engine.judging import Answer, recognise
from attnlab.exercises.engine.proving import _as_answer

INF = float("inf")
BOTH = [masked_softmax, check_causal]


@pytest.mark.parametrize("one", BOTH, ids=lambda e: e.name)
def test_a_twin_handed_in_anew_is_judged_as_the_proof_judged_it(one):
    for i in range(0, len(one.twins), 3):
        answer = Answer(one, one.twins[i].function, seed=7)
        answer.run(60)
        assert recognise(answer) == recognise(_as_answer(one, i, 7))


# ---- 3.5, by hand: (answer, turns expected; () for correct) ----------------------------------------------------------


def empty_of(mask):
    return torch.isinf(mask).all(dim=1)


def where_before(scores, mask):
    total = scores + mask
    safe = torch.where(empty_of(mask)[:, None], torch.zeros_like(total), total)
    return torch.softmax(safe, dim=1) * ~empty_of(mask)[:, None]


def where_after(scores, mask):
    weights = torch.softmax(scores + mask, dim=1)
    return torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)


def slice_after(scores, mask):
    weights = torch.softmax(scores + mask, dim=1)
    weights = weights.clone()
    weights[empty_of(mask)] = 0
    return weights


def divided_where_possible(scores, mask):
    """The trap of `where`: both branches are differentiated, and 0/0 is one of them."""
    exps = torch.exp(scores - scores.amax(1, keepdim=True)) * (mask == 0)
    total = exps.sum(1, keepdim=True)
    return torch.where(total > 0, exps / total, 0.0)


def exponentials(scores, mask):
    exps = torch.exp(scores + mask)
    total = exps.sum(dim=1, keepdim=True)
    return exps / torch.where(total == 0, 1, total)


def only_filled_rows(scores, mask):
    rows = ~empty_of(mask)
    weights = torch.zeros_like(scores)
    weights[rows] = torch.softmax(scores[rows] + mask[rows], dim=-1)
    return weights


def through_numpy(scores, mask):
    total = scores.detach().numpy() + mask.numpy()
    exps = np.exp(total - np.maximum(total.max(axis=1, keepdims=True), -1e300))
    sums = exps.sum(axis=1, keepdims=True)
    return torch.from_numpy(exps / np.where(sums > 0, sums, 1))


def as_for_truth_values(scores, mask):
    """What is right for a mask of True and False, typed for one of numbers."""
    some = mask.any(dim=-1, keepdim=True)
    return torch.softmax(torch.where(some, scores + mask, 0.0), dim=-1) * some


def one_is_enough(scores, mask):
    empty = (mask == -INF).any(dim=1, keepdim=True)
    return torch.softmax((scores + mask).masked_fill(empty, 0), dim=1).masked_fill(empty, 0)


def without_gradients(scores, mask):
    with torch.no_grad():
        return where_before(scores, mask)


SOFTMAX = [
    (where_before, ()),
    (only_filled_rows, ()),
    (lambda s, m: torch.softmax(s.masked_fill(m == -INF, -INF), -1).nan_to_num(0.0), ()),
    (lambda s, m: torch.softmax(torch.where(m == 0, s, -INF), -1).nan_to_num(0.0), ()),
    (lambda s, m: where_before(s, m.where(~m.all(-1, True), -INF)), ()),  # all numbers are −∞, so all are true
    (lambda s, m: torch.exp(torch.log_softmax(s + m.clamp(min=-1e30), -1)) * (m == 0), ()),
    (lambda s, m: torch.softmax(s + m, -1), ("empty: NaN",)),
    (lambda s, m: torch.softmax(s, -1) * (m == 0) / (torch.softmax(s, -1) * (m == 0)).sum(-1, True), ("empty: NaN",)),
    (lambda s, m: torch.nan_to_num(torch.softmax(s + m, dim=-1)), ("empty: mended afterwards",)),
    (where_after, ("empty: mended afterwards",)),
    (slice_after, ("empty: mended afterwards",)),
    (divided_where_possible, ("empty: mended afterwards",)),
    (as_for_truth_values, ("some: of the numbers",)),
    (lambda s, m: torch.softmax(s + m, -1) * m.any(-1, True), ("some: of the numbers",)),
    (lambda s, m: torch.softmax(s + m, -1).masked_fill(~m.any(-1, True), 0), ("some: of the numbers",)),
    (lambda s, m: torch.softmax(s + m, -1).nan_to_num() * m.any(-1, True), ("some: of the numbers, cleaned",)),
    (one_is_enough, ("some: all",)),
    (lambda s, m: torch.softmax(s.masked_fill(m < 0, -1e9), -1), ("empty: shared equally",)),
    (lambda s, m: torch.softmax((s + m).clamp(min=torch.finfo(s.dtype).min), -1), ("empty: shared equally",)),
    (lambda s, m: torch.softmax(s + m.clamp(min=-1e4), -1), ("large number added",)),
    (lambda s, m: torch.softmax(s + (m != 0) * -1e9, -1), ("large number added",)),
    (lambda s, m: torch.softmax(s, -1) * (m == 0), ("place: after softmax",)),
    (lambda s, m: torch.softmax(s * (m == 0), -1) * (m == 0).any(-1, True), ("place: score 0",)),
    (lambda s, m: torch.softmax(s, -1) * ~empty_of(m)[:, None], ("place: ignored",)),
    (lambda s, m: torch.softmax(s.masked_fill(m == 0, -INF), -1), ("empty: NaN", "place: as truth values")),
    (lambda s, m: torch.softmax(s + m, 0), ("empty: NaN", "axis: queries")),
    (through_numpy, ("graph: cut",)),
    (without_gradients, ("graph: cut",)),
    (lambda s, m: where_before(s, m).data, ("graph: cut",)),
    (exponentials, ("overflow",)),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), SOFTMAX)
def test_masked_softmax_as_people_type_it(answer, expected):
    verdict = masked_softmax.judge(answer)
    if not expected:
        assert verdict.correct, str(verdict)
        return
    assert verdict.turns == (expected,) and verdict.remarks == (), str(verdict)
    only_gradient = expected[0] in ("empty: mended afterwards", "graph: cut")
    assert (verdict.words[0] == "The forward result is right; the gradient is not.") == only_gradient


def test_what_cleans_nan_away_is_accepted_and_told_that_it_hides_others():
    """Its gradient is right only because filling in writes 0 over a NaN; a NaN from elsewhere it swallows."""

    def filled(scores, mask):
        return scores.masked_fill(mask != 0, -INF).softmax(dim=-1)

    hiding = [
        masked_softmax.variants["stopped_by_masked_fill"],
        lambda s, m: torch.where(filled(s, m).isnan(), 0.0, filled(s, m)),
        lambda s, m: torch.where(m == 0, s, -INF).softmax(-1).nan_to_num(nan=0.0),
    ]
    others = [f for name, f in masked_softmax.variants.items() if name != "stopped_by_masked_fill"]
    for function in [*hiding, *others, masked_softmax.reference, where_before, only_filled_rows]:
        verdict = masked_softmax.judge(function)
        assert verdict.correct and any("by chance" in text for text in verdict.words) == (function in hiding)
    shown = [f(torch.tensor([[INF - INF, 1.0]]), torch.zeros(1, 2)).isnan().all() for f in (where_before, *hiding)]
    assert shown == [True, False, False, False]


def test_the_card_of_the_mended_row_shows_a_nan_against_a_zero():
    shown = masked_softmax.judge(where_after).comparison
    assert shown.expected.splitlines()[1].split() == ["[", "0.", "0.", "]]"]
    assert shown.received.splitlines()[1].split() == ["[", "nan", "nan]]"]


def test_what_the_card_of_the_mended_row_says_is_true():
    """One empty row makes a shared parameter NaN, though the loss looks at another row only (pytorch/pytorch#31829)."""
    mask = torch.tensor([[0.0, 0.0], [-INF, -INF]])
    for function, whole in ((where_after, False), (where_before, True)):
        shared = torch.ones(2, 2, requires_grad=True)
        function(torch.eye(2) @ shared, mask)[0].dot(torch.tensor([1.0, 2.0])).backward()
        assert bool(shared.grad.isfinite().all()) == whole


# ---- 3.10 ------------------------------------------------------------------------------------------------------------


def draw(n=6, d=4):
    return np.random.default_rng().normal(size=(3, n, d))


def prints_shape(attention):
    output = attention(*draw())
    print(output.shape)


def only_asks(attention):
    query, key, value = draw()
    before = attention(query, key, value)
    key[3:], value[3:] = 1, 1
    np.allclose(attention(query, key, value)[:3], before[:3])


def without_copy(attention):
    query, key, value = draw()
    changed = value
    changed[4:] += 5
    return np.allclose(attention(query, key, value)[:4], attention(query, key, changed)[:4])


def last_token(attention, equal=np.allclose):
    query, key, value = draw()
    before = attention(query, key, value)
    query[-1], key[-1], value[-1] = 2.0, 2.0, 2.0
    return equal(attention(query, key, value)[:-1], before[:-1])


def last_token_and_all_rows(attention):
    query, key, value = draw()
    before = attention(query, key, value)
    key[-1], value[-1] = 3.0, 3.0
    assert np.allclose(attention(query, key, value), before)


def changes_the_past(attention):
    query, key, value = draw()
    before = attention(query, key, value)
    key[:3], value[:3] = 1.5, 1.5
    assert np.allclose(attention(query, key, value)[3:], before[3:])


def half_and_half(attention):
    query, key, value = draw(8)
    before = attention(query, key, value)
    key[4:], value[4:] = draw(4)[:2]
    np.testing.assert_allclose(attention(query, key, value)[:4], before[:4], atol=1e-8)


def return_in_the_loop(attention):
    query, key, value = draw()
    before = attention(query, key, value)
    for t in range(1, 6):
        later_key, later_value = key.copy(), value.copy()
        later_key[t:], later_value[t:] = draw(6 - t)[:2]
        return np.allclose(attention(query, later_key, later_value)[:t], before[:t])


def each_cut(attention, n=6, poison=None, keys=True, values=True, equal=np.allclose):
    query, key, value = draw(n)
    before = attention(query, key, value)
    for t in range(1, n):
        later_key, later_value = key.copy(), value.copy()
        if keys:
            later_key[t:] = draw(n - t)[0] if poison is None else poison
        if values:
            later_value[t:] = draw(n - t)[1] if poison is None else poison
        if not equal(attention(query, later_key, later_value)[:t], before[:t]):
            raise AssertionError(f"it leaks from {t}")


def finds_leaks(attention):
    try:
        each_cut(attention)
    except AssertionError:
        return True
    return False


def weights_by_identity(attention):
    query, key, _ = draw(5)
    assert np.all(np.abs(attention(query, key, np.eye(5))[~masks.causal(5)]) < 1e-9)


def ones_as_values(attention):
    query, key, _ = draw()
    before = attention(query, key, np.ones((6, 2)))
    for t in range(1, 6):
        later = np.concatenate([key[:t], draw(6 - t)[0]])
        assert np.allclose(attention(query, later, np.ones((6, 2)))[:t], before[:t])


def beginnings(attention):
    query, key, value = draw(9)
    whole = attention(query, key, value)
    return all(np.allclose(attention(query[:t], key[:t], value[:t]), whole[:t]) for t in range(1, 9))


def by_derivative(attention):
    query, key, value = draw(7)
    before = attention(query, key, value)
    for t in range(1, 7):
        later_key, later_value = key.copy(), value.copy()
        later_key[t] += 0.1
        later_value[t] += 0.1
        assert np.abs(attention(query, later_key, later_value) - before)[:t].max() < 1e-6


def last_value(attention, n=6):
    query, key, value = draw(n)
    before = attention(query, key, value)
    other = value.copy()
    other[-1] += 1
    assert np.allclose(attention(query, key, other)[:-1], before[:-1])


NEVER_FAILS = (("shape only",), ("nothing asserted",), ("one array",))
CAUSAL = [
    (each_cut, ()),
    (beginnings, ()),
    (by_derivative, ()),
    (lambda a: each_cut(a, n=12), ()),
    (lambda a: each_cut(a, poison=1e4), ()),
    (prints_shape, NEVER_FAILS),
    (only_asks, NEVER_FAILS),
    (without_copy, NEVER_FAILS),
    (last_token_and_all_rows, (("all rows",),)),
    (changes_the_past, (("the past",),)),
    (last_token, (("cut: last",),)),
    (lambda a: last_token(a, np.array_equal), (("cut: last", "compare: exactly"),)),
    (last_value, (("cut: last", "changed: values"),)),
    (half_and_half, (("cut: middle",),)),
    (return_in_the_loop, (("cut: first",),)),
    (lambda a: each_cut(a, n=4), (("too few positions",),)),
    (lambda a: each_cut(a, n=3), (("too few positions",),)),
    (lambda a: each_cut(a, values=False), (("changed: keys",),)),
    (lambda a: each_cut(a, keys=False), (("changed: values",),)),
    (lambda a: each_cut(a, equal=np.array_equal), (("compare: exactly",),)),
    (lambda a: each_cut(a, equal=lambda x, y: (x == y).all()), (("compare: exactly",),)),
    (lambda a: each_cut(a, poison=np.nan), (("poison",),)),
    (lambda a: each_cut(a, poison=np.inf), (("poison",),)),
    (finds_leaks, (("turned round",),)),
    (weights_by_identity, (("triangle of weights",),)),
    (ones_as_values, (("equal values",),)),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), CAUSAL)
def test_check_causal_as_people_type_it(answer, expected):
    """Their numbers are drawn afresh each time, as theirs are."""
    verdict = check_causal.judge(answer)
    if not expected:
        assert verdict.correct, str(verdict)
        return
    assert verdict.turns == expected and verdict.remarks == (), str(verdict)


def test_all_four_that_the_last_value_of_a_short_text_lets_through_are_explained():
    verdict = check_causal.judge(lambda attention: last_value(attention, n=4))
    said = [word.split("*")[1] for word in verdict.words if word.startswith("Let through, ")]
    assert said == ["masked after softmax", "first two together", "keys standardised", "open where long"]
    assert verdict.comparison.call == "19 implementations, 4 of them misjudged"


def test_the_test_would_have_caught_the_inverted_mask():
    implementations = {probe.name: probe for probe in check_causal.ordinary()}
    turned = implementations["mask turned round"].arguments[0]
    query, key, value = np.zeros((3, 3)), np.zeros((3, 3)), np.eye(3)
    assert turned(query, key, value).tolist() == [[0, 0.5, 0.5], [0, 0, 1], [0, 0, 0]]  # rasbt/LLMs-from-scratch#1061
    with pytest.raises(AssertionError, match="a leak from 1 on"):
        check_causal.reference(turned)


def test_implementations_declared_causal_are_and_the_others_leak():
    """Judged here by derivatives, another way than the reference's: ∂ output[i] / ∂ input[j] for j > i."""
    for probe in [*check_causal.ordinary(), *check_causal.hard]:
        function, arrays = probe.arguments[0], np.random.default_rng(5).normal(size=(3, 6, 4))
        leak, before = 0.0, function(*arrays)
        for which in range(3):
            for j in range(1, 6):
                moved = arrays.copy()
                moved[which, j] += 1e-3
                leak = max(leak, np.abs(function(*moved) - before)[:j].max())
        assert (leak < 1e-9) == probe.correct, (probe.name, leak)
