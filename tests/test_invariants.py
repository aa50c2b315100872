"""Invariants: right attentions pass in every form, and a report says what was asked, how much changed, and where."""

import math

import numpy as np
import pytest
import torch
from test_core_properties import attention_by_loop
from test_import import run
from torch.nn import functional as F

from attnlab import additive, attend, attention, gaussian, invariants, masks

FLOAT32, FLOAT64 = torch.empty(0), torch.empty(0, dtype=torch.float64)
LIKE = {
    "NumPy float32": None,
    "NumPy float64": np.empty(0),
    "torch float32": FLOAT32,
    "torch float64": FLOAT64,
}
OWN_CAUSAL = ("permute_keys", "duplicate_keys")
ALL = [
    "poison_future",
    "poison_padding",
    "permute_keys",
    "duplicate_keys",
    "shift_scores",
    "content_sensitivity",
    "batch_independence",
    "incremental_equals_full",
]


def by_loop(query, key, value, mask):
    allowed = np.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
    outputs = np.zeros((*query.shape[:-1], value.shape[-1]))
    for item in np.ndindex(*query.shape[:-2]):
        outputs[item] = attention_by_loop(*(x[item] for x in (query, key, value, allowed)), 6**-0.5, False)[0]
    return outputs


def tiled(query, key, value, mask):
    """Online softmax: keys two at a time, with a running maximum, sum and output."""
    largest = query.new_full((*query.shape[:-1], 1), -math.inf)
    total, output = torch.zeros_like(largest), query.new_zeros(*query.shape[:-1], value.shape[-1])
    for start in range(0, key.shape[-2], 2):
        tile = slice(start, start + 2)
        scores = query @ key[..., tile, :].mT / query.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask[..., tile], -math.inf)
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        safe = new.masked_fill(new == -math.inf, 0.0)
        old, powers = torch.exp(largest - safe), torch.exp(scores - safe)
        total = total * old + powers.sum(-1, keepdim=True)
        output = output * old + powers @ value[..., tile, :]
        largest = new
    return output / total


def filled(query, key, value, mask):
    """A large negative fill is right too, wherever a row has a key."""
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~mask, -1e9)
    return scores.softmax(-1) @ value


def with_gradients(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key.requires_grad_(), value, mask)


def unwrapped(report):
    """What is printed, on one line; printed lines fit a page."""
    assert max(map(len, str(report).splitlines())) <= 80
    return " ".join(str(report).split())


# ------------------------------------------------------------------------------------------------ right ones pass


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("like", LIKE.values(), ids=LIKE)
def test_the_courses_attention_passes(like, seed):
    table = invariants.check_all(attention, like=like, seed=seed)
    assert [report.name for report in table] == ALL
    assert table.broken == []
    assert all(report.change < report.tolerance / 10 for report in table if not report.must_change)
    assert all(report.change > 100 * report.tolerance for report in table if report.must_change)


@pytest.mark.parametrize("like", [FLOAT32, FLOAT64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    "function", [F.scaled_dot_product_attention, tiled, filled, with_gradients], ids=["SDPA", "tiled", "filled", "grad"]
)
def test_right_ones_in_torch_pass(function, like):
    assert invariants.check_all(function, like=like).broken == []


def test_a_slow_loop_passes():
    """It multiplies 0 · NaN as everybody does: reported, not decided."""
    table = invariants.check_all(by_loop)
    assert table.broken == []
    assert table[0].remark == "NaN or ∞ in a token spoils outputs that may not see it: reported, not decided."


def test_an_attention_that_leaves_forbidden_values_out_says_so():
    def careful(query, key, value, mask):
        rows = [
            attention(query[..., i : i + 1, :], key[..., seen, :], value[..., seen, :]).output
            for i, seen in enumerate(mask)
        ]
        return np.concatenate(rows, axis=-2)

    report = invariants.poison_future(careful)
    assert report
    assert report.remark == "NaN or ∞ in a token spoils no output that may not see it: reported, not decided."

    def refuses(query, key, value, mask):
        if np.isnan(key).any():
            raise FloatingPointError("NaN in the keys")
        return careful(query, key, value, mask)

    report = invariants.poison_future(refuses)
    assert report
    assert report.remark == (
        "NaN in a token makes the function raise FloatingPointError, ∞ spoils no output that may not see it: "
        "reported, not decided."
    )


def test_infinity_that_arrives_as_infinity_is_told_too():
    def function(query, key, value, mask):
        return value + np.where(np.isinf(value[..., -1:, :]), value[..., -1:, :], 0)

    report = invariants.poison_future(function)
    assert report
    assert report.remark == (
        "NaN in a token spoils no output that may not see it, ∞ spoils outputs that may not see it: "
        "reported, not decided."
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v, mask: attention(q, k, v, is_causal=True),
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, masks.causal(q.shape[-2], k.shape[-2], like=q)),
    ],
    ids=["attnlab", "SDPA"],
)
def test_one_that_is_causal_by_itself_passes_what_it_promises(function):
    assert invariants.check_all(function, like=FLOAT32, leave_out=OWN_CAUSAL).broken == []


def test_one_without_mask_passes_what_it_promises():
    without = ("poison_future", "poison_padding", "incremental_equals_full")
    table = invariants.check_all(lambda q, k, v, mask: attention(q, k, v), leave_out=without)
    assert [report.name for report in table] == [name for name in ALL if name not in without]
    assert table


def test_other_scores_promise_all_but_the_shift():
    rng = np.random.default_rng(0)
    W_q, W_k, v = rng.normal(size=(8, 6)), rng.normal(size=(8, 6)), rng.normal(size=8)
    for score in (lambda q, k: gaussian(q, k, 1.0), lambda q, k: additive(q, k, W_q, W_k, v)):

        def function(query, key, value, mask, score=score):
            return attend(score(query, key), value, mask)

        assert invariants.check_all(function).broken == ["shift_scores"]
        assert invariants.check_all(function, leave_out="shift_scores")


def test_windows_documents_and_graphs_with_their_own_mask():
    own_key_forbidden = ~np.eye(4, dtype=bool)  # then the query is not poisoned together with its key
    for mask in (masks.window(6, 3), masks.documents([0, 0, 1, 1, 0]), masks.graph([(0, 1)], 4), own_key_forbidden):

        def function(query, key, value, given, mask=mask):
            return attention(query, key, value, mask)

        assert invariants.poison_forbidden(function, mask)
        assert invariants.content_sensitivity(function, mask)
    wide = masks.causal(3, 5)  # rectangular, and from torch
    assert invariants.poison_forbidden(attention, torch.from_numpy(wide))
    assert invariants.content_sensitivity(F.scaled_dot_product_attention, wide, like=FLOAT32)


def test_half_precision_needs_a_tolerance():
    half = torch.empty(0, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"Rounding alone may change an output by 3 in torch.bfloat16"):
        invariants.check_all(attention, like=half)
    table = invariants.check_all(attention, like=half, tolerance=0.02, leave_out="content_sensitivity")
    assert table
    assert max(report.change for report in table) > 1e-3  # bfloat16 keeps three digits
    inverted = invariants.check_all(lambda q, k, v, mask: attention(q, k, v, ~mask), like=half, tolerance=0.02)
    assert inverted.broken == [ALL[0], ALL[1], ALL[5], ALL[7]]
    assert invariants.poison_future(attention, like=torch.empty(0, dtype=torch.float16), tolerance=0.01)


# ----------------------------------------------------------------------------------- what a report says is what was


def test_poison_future_reports_the_largest_change_and_where():
    """Query 1 gets a quarter of value 3; every call is written down, so that the change can be computed again."""
    calls = []

    def leaky(query, key, value, mask):
        output = value.copy()
        output[..., 1, :] += value[..., 3, :] / 4
        calls.append(value.astype(float))
        return output

    report = invariants.poison_future(leaky)
    assert not report.holds
    assert (report.query, report.key) == (1, 3)
    ordinary = [v for v in calls if np.abs(v).max() < 100 and not np.array_equal(v, calls[0])]
    expected = max(np.abs(v[..., 3, :] - calls[0][..., 3, :]).max() for v in ordinary) / 4
    assert report.change == pytest.approx(expected, rel=1e-6)
    assert 0.25 < report.change < 2
    assert unwrapped(report).split(" · ")[0] == (
        f"✗ poison_future: The output of query 1 changes by {report.change:.2g} with token 3, which it may not see."
    )


def test_poison_is_huge_where_an_ordinary_token_does_nothing():
    def saturating(query, key, value, mask):
        """Leaks what is beyond 1000, and nothing else."""
        beyond = np.where(np.abs(value) > 1000, value, 0).sum(-2, keepdims=True)
        return attention(query, key, value, mask).output + beyond

    report = invariants.poison_future(saturating)
    assert not report
    assert 1e6 < report.change < 1e7
    assert report.sentence.endswith("which it may not see, once that token is huge (1e+06).")


def test_a_mask_that_large_scores_outweigh_and_an_overflow_that_is_no_leak():
    def filled_with(number):
        def function(query, key, value, mask):
            scores = np.where(mask, query @ key.swapaxes(-1, -2) / 6**0.5, np.float32(number))
            powers = np.exp(scores)  # no maximum subtracted: ∞ / ∞ where scores are huge
            return powers / powers.sum(-1, keepdims=True) @ value

        return function

    assert invariants.poison_future(filled_with(-np.inf))
    assert invariants.poison_future(filled_with(-1e9))
    report = invariants.poison_future(filled_with(-20))
    assert report.sentence.endswith("which it may not see, once that token is huge (1e+06).")
    assert report.change > 1e-3


def test_a_small_leak_is_seen_and_rounding_is_not():
    def leaky(size):
        def function(query, key, value, mask):
            return attention(query, key, value, mask).output + size * value[..., -1:, :]

        return function

    assert invariants.poison_future(leaky(1e-3)).change == pytest.approx(3e-3, rel=0.7)
    for like in LIKE.values():
        assert not invariants.poison_future(leaky(1e-3), like=like)
        report = invariants.poison_future(attention, like=like)
        assert report.tolerance == pytest.approx(4.5e-5 if report.tolerance > 1e-10 else 8.4e-14, rel=0.02)
    assert not invariants.poison_future(leaky(1e-10), like=FLOAT64)  # far below what float32 resolves


def test_the_tolerance_may_be_given_and_the_seed_changes_the_question():
    def rough(query, key, value, mask):
        return attention(query.astype("float16"), key.astype("float16"), value, mask)

    assert invariants.check_all(rough).broken == ["shift_scores"]
    assert invariants.check_all(rough, tolerance=0.01, leave_out="content_sensitivity")
    # Shifted keys are larger, and so is what rounding does to their scores.
    assert invariants.shift_scores(attention).tolerance > 1.5 * invariants.poison_future(attention).tolerance
    changes = {invariants.permute_keys(attention, seed=seed).change for seed in range(5)}
    assert len(changes) > 1


def test_a_report_is_true_or_false_and_reads_as_a_sentence():
    report = invariants.permute_keys(attention)
    assert report
    assert repr(report) == str(report)
    assert unwrapped(report) == (
        f"✓ permute_keys: The order of the keys does not matter (largest change {report.change:.1e}, "
        "tolerance 4.3e-05)."
    )
    with pytest.raises(AttributeError):
        report.holds = False
    with pytest.raises(AssertionError):
        assert invariants.poison_future(lambda q, k, v, mask: attention(q, k, v))


def test_the_table_shows_what_is_broken():
    table = invariants.check_all(lambda q, k, v, mask: attention(q, k, v, ~mask), leave_out=ALL[2:5])
    assert not table
    assert repr(table).splitlines() == [
        "1 of 5 invariants hold      change  must be",
        "✗ poison_future                3.5  ≤ 4.5e-05",
        "  The output of query 3 changes by 3.5 with token 4, which it may not see.",
        "✗ poison_padding                 3  ≤ 4.5e-05",
        "  The output of query 2 changes by 3 with token 3, which it may not see.",
        "✗ content_sensitivity            0  > 8.1e-06",
        "  Query 0 is blind to value 0, which it may see: another value changes its",
        "  output by 0.",
        "✓ batch_independence             0  ≤ 4.5e-05",
        "✗ incremental_equals_full      3.8  ≤ 4.5e-05",
        "  With queries 0 and 1, on keys 0 to 1, the output of query 0 changes by 3.8,",
        "  compared with the whole.",
        "· poison_future, poison_padding: NaN or ∞ in a token spoils outputs that may not",
        "  see it: reported, not decided.",
    ]
    assert table[0].remark in unwrapped(table)


# ------------------------------------------------------------------------------------------------------- what it asks


def test_inputs_are_fresh_and_of_the_library_dtype_and_device_that_was_asked_for():
    seen = []

    def spoiling(query, key, value, mask):
        seen.append((type(query), query.dtype, value.dtype, mask.dtype))
        output = attention(query, key, value, mask).output
        for x in (query, key, value, mask):
            x[...] = 0  # a fault of its own, but no leak: the next call must not meet it
        return output

    assert invariants.check_all(spoiling)
    assert set(seen) == {(np.ndarray, np.dtype("float32"), np.dtype("float32"), np.dtype(bool))}
    seen.clear()
    assert invariants.check_all(spoiling, like=FLOAT64)
    assert set(seen) == {(torch.Tensor, torch.float64, torch.float64, torch.bool)}


def test_sizes_tell_the_axes_apart():
    shapes = set()

    def function(query, key, value, mask):
        shapes.add((query.shape, key.shape, value.shape, mask.shape))
        return attention(query, key, value, mask)

    invariants.check_all(function)
    whole = ((2, 3, 5, 6), (2, 3, 5, 6), (2, 3, 5, 7))
    assert {(*whole, (5, 5)), (*whole, (2, 1, 1, 5)), (*whole, (2, 1, 5, 5))} < shapes
    assert ((2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7), (4, 5)) in shapes  # n_q ≠ n_k
    assert ((2, 3, 2, 6), (2, 3, 4, 6), (2, 3, 4, 7), (2, 4)) in shapes  # two queries, as with a cache
    assert ((1, 3, 5, 6), (1, 3, 5, 6), (1, 3, 5, 7), (1, 1, 5, 5)) in shapes  # one item alone


def test_padded_queries_may_get_anything():
    def function(query, key, value, mask):
        output = attention(query, key, value, mask).output
        if mask.ndim == 4 and mask.shape[-2] == 1:  # the mask of padded keys: let padded queries see everything
            everything = attention(query, key, value).output
            return np.where(mask.swapaxes(-1, -2), output, np.nan * everything)
        return output

    assert invariants.poison_padding(function)


# ------------------------------------------------------------------------------------------------------------- errors


def test_results_of_a_wrong_kind_are_named():
    with pytest.raises(TypeError, match=r"must return an array, or a tuple whose first item is one, .* NoneType"):
        invariants.poison_future(lambda q, k, v, mask: None)
    wrong = (
        r"For query \(2, 3, 4, 6\), key \(2, 3, 5, 6\), value \(2, 3, 5, 7\), mask \(4, 5\), the output must have "
        r"shape \(2, 3, 4, 7\), but it has shape \(2, 3, 4, 5\)"
    )
    with pytest.raises(ValueError, match=wrong):
        invariants.permute_keys(lambda q, k, v, mask: attention(q, k, v, mask).weights)
    with pytest.raises(ValueError, match=r"For x \(2, 5, 8\), mask \(5, 5\), the output must have shape \(2, 5, 8\)"):
        invariants.poison_future(lambda x, mask: x[:, :1], width=8)


def test_exceptions_pass_through_with_the_shapes_and_become_rows_of_the_table():
    def square_only(query, key, value, mask):
        if query.shape[-2] != key.shape[-2]:
            raise NotImplementedError("n_q must\nbe n_k")
        return attention(query, key, value, mask)

    assert invariants.poison_future(square_only)
    with pytest.raises(NotImplementedError) as caught:
        invariants.permute_keys(square_only)
    given = "attnlab.invariants gave it query (2, 3, 4, 6), key (2, 3, 5, 6), value (2, 3, 5, 7), mask (4, 5)."
    assert caught.value.__notes__ == [given]
    table = invariants.check_all(square_only)
    assert table.broken == ["permute_keys", "duplicate_keys", "incremental_equals_full"]
    assert table[2].sentence == f"It raises NotImplementedError: n_q must be n_k {given}"
    assert f"✗ permute_keys {table[2].sentence} " in unwrapped(table)


def test_dropout_is_not_taken_for_a_leak():
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"The same inputs gave outputs .* apart.* is dropout still on\?"):
        invariants.poison_future(lambda *x: F.scaled_dot_product_attention(*x, dropout_p=0.5), like=FLOAT32)


def test_questions_that_test_nothing_are_refused():
    with pytest.raises(ValueError, match="forbids nothing"):
        invariants.poison_forbidden(attention, np.ones((4, 4), dtype=bool))
    with pytest.raises(ValueError, match="forbids nothing"):
        invariants.poison_forbidden(lambda x, mask: x, ~np.eye(4, dtype=bool), width=3)
    with pytest.raises(ValueError, match="allows nothing"):
        invariants.content_sensitivity(attention, np.zeros((4, 4), dtype=bool))
    with pytest.raises(ValueError, match=r"layer must have shape \(n, n\), but it has shape \(3, 4\)"):
        invariants.poison_forbidden(lambda x, mask: x, masks.causal(3, 4), width=3)
    for mask in (np.ones((4, 4)), np.ones((2, 4, 4), dtype=bool)):
        with pytest.raises(TypeError, match="mask must be boolean, True = may attend, of shape"):
            invariants.content_sensitivity(attention, mask)
    with pytest.raises(ValueError, match=r"leave_out takes names from poison_future, .*'poison_past'"):
        invariants.check_all(attention, leave_out=["poison_past"])
    for like in ([0.0], np.empty(0, dtype=int)):
        with pytest.raises(TypeError, match="like"):
            invariants.check_all(attention, like=like)


def test_the_room_is_light():
    code = """
import sys, attnlab
print("attnlab.invariants" in sys.modules)
from attnlab import invariants
print(bool(invariants.check_all(attnlab.attention)), [name for name in ("torch", "matplotlib") if name in sys.modules])
"""
    assert run(code).split("\n") == ["False", "True []"]
