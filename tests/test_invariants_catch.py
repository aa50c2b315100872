"""Invariants catch the faults of the public reports, each by exactly the tests that can know: and layers that mix."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnlab import attention, invariants, masks, softmax

FLOAT32 = torch.empty(0)
OWN_CAUSAL = ("poison_padding", "permute_keys", "duplicate_keys")  # left out: it ignores the mask that it is given
SHORT = {
    "F": "poison_future",
    "P": "poison_padding",
    "k": "permute_keys",
    "2": "duplicate_keys",
    "s": "shift_scores",
    "c": "content_sensitivity",
    "b": "batch_independence",
    "i": "incremental_equals_full",
}


def scores_of(query, key):
    return query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5


def plain_softmax(scores):
    """Without a rule for an empty row: NaN."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def up_to(query, key, shift):
    """A causal mask whose diagonal is moved by `shift`."""
    n_q, n_k = query.shape[-2], key.shape[-2]
    return np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q + shift


def renormalised(query, key, value, mask):
    weights = softmax(scores_of(query, key)) * mask
    return weights / weights.sum(-1, keepdims=True) @ value


def no_maximum(query, key, value, mask):
    powers = np.exp(scores_of(query, key)) * mask
    return powers / powers.sum(-1, keepdims=True) @ value


def padding_as_rows(query, key, value, mask):
    is_padding = mask.ndim == 4 and mask.shape[-2] == 1
    return attention(query, key, value, mask.swapaxes(-1, -2) if is_padding else mask)


def tiled_masks(query, key, value, mask):
    """Batch and heads in one axis, item by item; the masks are repeated head by head."""
    B, H = query.shape[:2]
    mask = np.tile(np.broadcast_to(mask, (B, 1, *mask.shape[-2:]))[:, 0], (H, 1, 1))  # (H · B, n_q, n_k)
    output = attention(*(x.reshape(B * H, *x.shape[2:]) for x in (query, key, value)), mask).output
    return output.reshape(B, H, *output.shape[1:])


def blind(query, key, value, mask):
    """The parameter of the inner function wants 1 = keep, 0 = drop, and gets 0 = keep, -∞ = drop."""

    def library(keep):
        return softmax(scores_of(query, key) + (1 - keep) * -1e9) @ value

    return library(masks.to_additive(mask, query.dtype))


class Wrong(NamedTuple):
    function: Callable
    caught: str  # by the tests with these letters
    witness: tuple  # one of these tests, with the change, the query and the key that it reports
    like: Any = None
    leave_out: tuple = ()


def causal_by_itself(function, caught, witness, like=None):
    return Wrong(function, caught, witness, like, OWN_CAUSAL)


WRONG = {
    "A19 inverted": Wrong(lambda q, k, v, mask: attention(q, k, v, ~mask), "FPci", ("F", 3.53, 3, 4)),
    "A20 0/1 added": Wrong(lambda q, k, v, mask: attention(q, k, v, mask.astype(q.dtype)), "FPi", ("F", 1.23, 0, 3)),
    "A23 scores multiplied": Wrong(
        lambda q, k, v, mask: softmax(scores_of(q, k) * mask) @ v, "FPsi", ("s", 1.032, 3, None)
    ),
    "A24 after softmax": Wrong(lambda q, k, v, mask: softmax(scores_of(q, k)) * mask @ v, "FPi", ("F", 0.575, 3, 4)),
    "A24 renormalised": Wrong(renormalised, "FP", ("F", math.nan, 0, 1)),
    "A17 over queries": Wrong(
        lambda q, k, v, mask: softmax(np.where(mask, scores_of(q, k), -np.inf), axis=-2) @ v,
        "FP2sci",
        ("2", 3.89, 3, None),
    ),
    "A46 transposed weights": Wrong(
        lambda q, k, v, mask: attention(q, k, v, mask).weights.swapaxes(-1, -2) @ v, "FPk2ci", ("F", 4.40, 0, 1)
    ),
    "A33 own key blocked": causal_by_itself(
        lambda q, k, v, mask: attention(q, k, v, up_to(q, k, -1)), "c", ("c", 0.0, 0, 0)
    ),
    "A33 with NaN": causal_by_itself(
        lambda q, k, v, mask: plain_softmax(np.where(up_to(q, k, -1), scores_of(q, k), -np.inf)) @ v,
        "Fscbi",
        ("F", math.nan, 0, 1),
    ),
    "A33 with -1e9": causal_by_itself(
        lambda q, k, v, mask: plain_softmax(np.where(up_to(q, k, -1), scores_of(q, k), np.float32(-1e9))) @ v,
        "Fci",
        ("F", 1.161, 0, 1),
    ),
    "A62 top-left": causal_by_itself(
        lambda q, k, v, mask: sdpa(q, k, v, is_causal=True), "i", ("i", 2.98, 3, None), FLOAT32
    ),
    "A62 causal unless one query": causal_by_itself(
        lambda q, k, v, mask: sdpa(q, k, v, is_causal=q.shape[-2] > 1), "i", ("i", 2.98, 3, None), FLOAT32
    ),
    "A62 in the decode step": Wrong(
        lambda q, k, v, mask: sdpa(q, k, v, mask) if q.shape[-2] > 1 else sdpa(q, k, v, is_causal=True),
        "i",
        ("i", 2.98, 3, None),
        FLOAT32,
    ),
    "A36 padding as rows": Wrong(padding_as_rows, "P", ("P", 1.150, 2, 3)),
    "A49 masks tiled": Wrong(tiled_masks, "Pb", ("b", 1.50, 3, None)),
    "A56 batch mixed": Wrong(
        lambda q, k, v, mask: attention(q, k - k.mean(0), v - v.mean(0), mask), "b", ("b", 2.50, 1, None)
    ),
    "causal by one too many": causal_by_itself(
        lambda q, k, v, mask: attention(q, k, v, up_to(q, k, 1)), "Fi", ("F", 1.625, 0, 1)
    ),
    "one head without mask": Wrong(
        lambda q, k, v, mask: attention(q, k, v, mask | (np.arange(3) == 2)[:, None, None]), "FPi", ("F", 0.843, 1, 2)
    ),
    "query ignored": Wrong(lambda q, k, v, mask: attention(q * 0 + 1, k, v, mask), "c", ("c", 0.0, 1, None)),
    "one head blind": Wrong(
        lambda q, k, v, mask: attention(q * (np.arange(3) != 1)[:, None, None], k, v, mask), "c", ("c", 0.0, 1, 0)
    ),
    "a bias by the key's index": Wrong(
        lambda q, k, v, mask: softmax(np.where(mask, scores_of(q, k) + np.arange(k.shape[-2]) / 2, -np.inf)) @ v,
        "k",
        ("k", 1.354, 3, None),
    ),
    "mask ignored": Wrong(lambda q, k, v, mask: attention(q, k, v), "FPi", ("P", 1.150, 2, 3)),
    "no maximum subtracted": Wrong(no_maximum, "FP", ("P", math.nan, 0, 3)),
    # karpathy/minGPT#75: scores learned to lie below the fill, which then attends to the future.
    "filled with -1e4": Wrong(
        lambda q, k, v, mask: softmax(np.where(mask, scores_of(q, k), np.float32(-1e4))) @ v, "FP", ("F", 1.372, 2, 3)
    ),
    "-1e4 added": Wrong(
        lambda q, k, v, mask: softmax(scores_of(q, k) + np.where(mask, 0, np.float32(-1e4))) @ v,
        "FP",
        ("F", 3.2e6, 1, 3),
    ),
    "scale follows the number of keys": Wrong(
        lambda q, k, v, mask: attention(q, k, v, mask, scale=math.log(k.shape[-2])), "2i", ("2", 0.26, 3, None)
    ),
    "values ignored": Wrong(lambda q, k, v, mask: attention(q, k, v, mask).output * 0, "c", ("c", 0.0, 0, 0)),
    "blind in float32": Wrong(blind, "c", ("c", 0.0, 1, 0)),
    # Right to seven digits: a shift shows that the others are missing.
    "blind, in float64": Wrong(blind, "s", ("s", 9.15e-8, 1, None), np.empty(0)),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_fault_is_caught_by_the_tests_that_can_know(name):
    function, caught, (witness, change, query, key), like, leave_out = WRONG[name]
    table = invariants.check_all(function, like=like, leave_out=leave_out)
    assert table.broken == [SHORT[letter] for letter in SHORT if letter in caught]
    (report,) = (report for report in table if report.name == SHORT[witness])
    assert report.change == pytest.approx(change, rel=0.01, nan_ok=True)
    assert (report.query, report.key) == (query, key)


def test_a_fill_that_scores_can_outweigh_needs_huge_queries_to_show():
    report = invariants.poison_future(WRONG["filled with -1e4"].function)
    assert report.sentence == (
        "The output of query 2 changes by 1.4 with token 3, which it may not see, once all queries are huge (1e+06)."
    )


def test_the_blind_one_leaks_nothing_and_has_right_shapes_and_row_sums():
    """What makes it hard to see: uniform weights over exactly the keys that are allowed."""
    rng = np.random.default_rng(0)
    query, key = rng.normal(size=(2, 4, 6)).astype("float32")
    weights = blind(query, key, np.eye(4, dtype="float32"), masks.causal(4))
    np.testing.assert_allclose(weights, np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None], rtol=1e-7)
    right = attention(query.astype(float), key.astype(float), np.eye(4), masks.causal(4)).weights
    wide = blind(query.astype(float), key.astype(float), np.eye(4), masks.causal(4))
    assert 1e-9 < np.abs(wide - right).max() < 1e-6  # the spacing of float64 at 1e9 is 1.2e-7
    assert np.spacing(np.float32(1e9)) == 64


@pytest.mark.parametrize("shift", [1, -1])
def test_a_window_that_is_off_by_one(shift):
    """Too wide: poison finds it; too narrow: it is blind to the farthest key."""
    mask = masks.window(6, 3)

    def function(query, key, value, given):
        return attention(query, key, value, masks.window(query.shape[-2], 3 + shift, key.shape[-2]))

    wide, narrow = invariants.poison_forbidden(function, mask), invariants.content_sensitivity(function, mask)
    assert (wide.holds, narrow.holds) == (shift < 0, shift > 0)
    if shift > 0:
        assert wide.query - wide.key == 3
        assert 0.2 < wide.change < 5
    else:
        assert narrow.change == 0
        assert narrow.query - narrow.key == 2


# --------------------------------------------------------------------------------- layers: what a mask cannot undo


def batch_norm(training):
    norm = nn.BatchNorm1d(8).train(training)
    return lambda x, mask: norm(x.mT).mT


def convolution(left, right):
    conv = nn.Conv1d(8, 8, left + right + 1)
    return lambda x, mask: conv(F.pad(x.mT, (left, right))).mT


def self_attention(x, mask):
    return attention(x, x, x, mask).output


LAYERS = {
    "attention alone": (lambda: self_attention, ""),
    "batch norm, training": (lambda: batch_norm(True), "FPbi"),
    "batch norm, evaluation": (lambda: batch_norm(False), ""),
    "layer norm": (lambda: lambda x, mask: F.layer_norm(x, (8,)), ""),
    "centred convolution": (lambda: convolution(1, 1), "FPi"),
    "causal convolution": (lambda: convolution(2, 0), ""),
    "an earlier layer without mask": (lambda: lambda x, mask: self_attention(x, None), "FPi"),
    "an earlier layer with the mask": (lambda: self_attention, ""),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_premise_of_masking_is_that_nothing_upstream_mixes(name):
    """The attention is masked and right each time: what comes before it decides."""
    torch.manual_seed(0)
    build, caught = LAYERS[name]
    before = build()
    table = invariants.check_all(lambda x, mask: self_attention(before(x, mask), mask), width=8, like=FLOAT32)
    assert len(table) == 4
    assert table.broken == [SHORT[letter] for letter in "FPbi" if letter in caught]
    assert all(report.change > 0.05 for report in table if not report)


def test_amount_and_place_of_a_convolution():
    """y_t = x_t + x_{t+1}/2: token t is changed by token t + 1, by half of what that one changes."""
    seen = []

    def layer(x, mask):
        seen.append(x)
        return x + 0.5 * np.concatenate([x[:, 1:], 0 * x[:, :1]], axis=1)

    report = invariants.poison_future(layer, width=3)
    ordinary = [x for x in seen if np.abs(x).max() < 100]
    assert report.key == report.query + 1
    assert report.change == pytest.approx(max(np.abs(x - seen[0])[:, 1:].max() for x in ordinary) / 2, rel=1e-5)
    assert repr(report).splitlines()[0].startswith(f"✗ poison_future: The output of token {report.query} changes by ")
    assert invariants.check_all(layer, width=3).broken == [SHORT[letter] for letter in "FPi"]
    whole = invariants.incremental_equals_full(layer, width=3)
    assert whole.sentence.startswith(f"With only tokens 0 to {whole.query}, the output of token {whole.query} changes")


def test_padding_zeroed_before_a_convolution_is_another_matter_than_the_future():
    conv = convolution(1, 1)

    def layer(x, mask):
        return conv(x * mask[:, 0, :, None] if mask.ndim == 3 and mask.shape[1] == 1 else x, mask)

    torch.manual_seed(0)
    assert invariants.check_all(layer, width=8, like=FLOAT32).broken == ["poison_future", "incremental_equals_full"]


def test_layers_of_torch():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()

    def causal(x, mask):
        return layer(x, src_mask=~mask)

    assert invariants.poison_future(causal, width=8, like=FLOAT32)
    assert invariants.incremental_equals_full(causal, width=8, like=FLOAT32)
    assert invariants.poison_padding(lambda x, mask: layer(x, src_key_padding_mask=~mask[:, 0]), width=8, like=FLOAT32)
    assert not invariants.poison_padding(lambda x, mask: layer(x), width=8, like=FLOAT32)
    with pytest.raises(ValueError, match="dropout"):
        layer.train()
        invariants.poison_future(causal, width=8, like=FLOAT32)

    # (B, n, d) for a layer that wants (n, B, d): tokens of different items attend to each other.
    mixing = nn.MultiheadAttention(8, 2)
    table = invariants.check_all(lambda x, mask: mixing(x, x, x)[0], width=8, like=FLOAT32)
    assert table.broken == ["batch_independence"]
