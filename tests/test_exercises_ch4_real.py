"""Chapter 4's exercises on real heads, older attention and positions: against the outside, and as people type them.

The proof of the checker: `test_exercises.py`. BY_HAND is run there, through `test_exercises_ch4`.
"""

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from attnlab import softmax
from attnlab.exercises.ch4_multi_head.local_weights import local_weights
from attnlab.exercises.ch4_multi_head.previous_token_score import previous_token_score
from attnlab.exercises.ch4_multi_head.rotate import rotate

ONES = [previous_token_score, local_weights, rotate]
E2 = np.exp(-2)


def near(a, b, atol=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol, strict=True)


# ---- 4.9: heads made by hand ---------------------------------------------------------------------------------------


def test_heads_made_by_hand_get_the_scores_worked_out_on_paper():
    steady, itself = np.eye(4, k=-1), np.eye(4)
    steady[0, 0] = 1
    causal, ahead = np.tri(4) / np.arange(1, 5)[:, None], np.eye(4, k=1)
    heads = np.stack([steady, itself, causal, np.full((4, 4), 0.25), ahead, np.roll(itself, 1, axis=0)])
    thirds = (1 / 2 + 1 / 3 + 1 / 4) / 3  # the causal head that shares equally
    near(previous_token_score.reference(heads), np.array([1, 0, thirds, 0.25, 0, 1]))
    averaged = heads[:2].mean(axis=0, keepdims=True)  # what a layer returns unless it is asked for each head
    near(previous_token_score.reference(averaged), np.array([0.5]))


def test_the_first_query_and_the_order_of_heads_are_as_they_should_be():
    weights = softmax(np.random.default_rng(0).normal(size=(3, 5, 5)))
    score = previous_token_score.reference(weights)
    changed = weights.copy()
    changed[:, 0] = changed[:, 0, ::-1]
    assert np.array_equal(previous_token_score.reference(changed), score)
    assert np.array_equal(previous_token_score.reference(weights[[2, 0, 1]]), score[[2, 0, 1]])


# ---- 4.10: numbers worked out on paper -----------------------------------------------------------------------------


def test_local_weights_are_those_worked_out_on_paper():
    near(local_weights.reference(np.zeros(4), 1, 1), np.array([E2 / 3, 1 / 3, E2 / 3, 0]))
    # Shares of 10 in the window, keys 1 to 4; a key is ½ or 3/2 away, that is 2/3 σ or 2 σ.
    scores, inner = np.log([9.0, 2.0, 3.0, 1.0, 4.0, 9.0]), np.exp(-2 / 9)
    near(local_weights.reference(scores, 2.5, 1.5), np.array([0, 0.2 * E2, 0.3 * inner, 0.1 * inner, 0.4 * E2, 0]))
    assert local_weights.reference(scores, 2.5, 0.25).tolist() == [0] * 6
    huge = np.array([1000.0, 1000.0, 5000.0])  # the window begins before the first key, and the largest is outside
    near(local_weights.reference(huge, 0, 1), np.array([1 / 2, E2 / 2, 0]))


def test_a_bell_in_the_exponent_gives_the_renormalised_weights():
    """So the two are one wrong twin, and the card names both."""
    scores, apart = np.random.default_rng(1).normal(size=7), np.arange(7) - 2.6
    product = local_weights.reference(scores, 2.6, 3)
    in_the_exponent = softmax(np.where(np.abs(apart) <= 3, scores - apart**2 / (2 * 1.5**2), -np.inf))
    near(product / product.sum(), in_the_exponent)
    assert product.sum() < 0.9


def test_a_window_that_holds_everything_and_is_very_wide_leaves_plain_attention():
    scores = np.random.default_rng(2).normal(size=5)
    near(local_weights.reference(scores, 2.2, 1e9), softmax(scores))


# ---- 4.11: against ONNX, torch and the report ------------------------------------------------------------------------


def onnx_rotary(x, positions, interleaved):
    """ONNX's own implementation of RotaryEmbedding. (The numbers in its cases' tables are random, no cosines.)"""
    d, names = x.shape[1], ["x", "cos", "sin", "positions"]
    angles = np.arange(64)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    node = helper.make_node("RotaryEmbedding", names, ["y"], interleaved=interleaved)
    kinds = [TensorProto.FLOAT] * 3 + [TensorProto.INT64]
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "rotary", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    given = [x[None, None].astype("f"), np.cos(angles).astype("f"), np.sin(angles).astype("f"), positions[None]]
    return ReferenceEvaluator(model).run(None, dict(zip(names, given, strict=True)))[0][0, 0].astype(float)


@pytest.mark.parametrize("d", [2, 4, 8])
def test_rotate_is_onnxs_rotary_embedding_and_torchs_complex_product(d):
    x, positions = np.random.default_rng(d).normal(size=(5, d)), np.array([50, 0, 7, 7, 3])
    expected = rotate.reference(x, positions)
    near(onnx_rotary(x, positions, interleaved=1), expected, atol=2e-6)
    angles = torch.outer(torch.tensor(positions), 10000 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d))
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(torch.tensor(x).reshape(5, d // 2, 2))
    near(torch.view_as_real(pairs * turns).reshape(5, d).numpy(), expected)


def test_halves_are_the_same_turn_for_features_in_another_order():
    """What the card says of the other convention, against ONNX's other convention."""
    x, positions = np.random.default_rng(3).normal(size=(4, 6)), np.array([5, 2, 9, 0])
    halves = np.array([0, 2, 4, 1, 3, 5])  # where a feature of the halves stands among neighbours
    by_halves = onnx_rotary(x[:, halves], positions, interleaved=0)
    near(by_halves, rotate.reference(x, positions)[:, halves], atol=2e-6)
    verdict = rotate.judge(lambda x, positions: onnx_rotary(x, positions, interleaved=0).astype("f"))
    assert verdict.turns == (("pairs: halves",),)


def test_scores_depend_on_the_distance_alone():
    rng = np.random.default_rng(4)
    queries, keys, positions = rng.normal(size=(6, 8)), rng.normal(size=(6, 8)), rng.permutation(30)[:6]

    def scores(moved):
        return rotate.reference(queries, positions + moved) @ rotate.reference(keys, positions + moved).T

    near(scores(1000), scores(0), atol=1e-10)
    near(np.diag(scores(7)), (queries * keys).sum(axis=1), atol=1e-12)  # at distance 0 nothing turns
    still = rotate.reference(queries, positions) @ keys.T
    assert np.abs(still - scores(0)).max() > 0.5


def test_the_numbers_of_the_report_on_tokens_rotated_as_position_0():
    one = np.array([[1.0, 0.0]])
    key, query, as_position_0 = (rotate.reference(one, np.array([p]))[0] for p in (1, 3, 0))
    assert query @ key == pytest.approx(-0.4161, abs=5e-5)
    assert as_position_0 @ key == pytest.approx(0.5403, abs=5e-5)


# ---- what statements and probes must be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "given", "printed"),
    [
        (previous_token_score, [[[[1, 0, 0], [0.6, 0.4, 0], [0.1, 0.7, 0.2]]]], ["0.65."]),
        (local_weights, [[0, 0, 0, 0], 1, 1], ["0.045, 0.333, 0.045, 0."]),
        (
            rotate,
            [[[1, 0], [1, 0], [0, 1]], [1, 3, 1]],
            ["[0.5403, 0.8415]", "[−0.9900, 0.1411]", "[−0.8415, 0.5403]"],
        ),
    ],
)
def test_the_examples_of_the_statements(one, given, printed):
    result = one.reference(*(np.array(a) if isinstance(a, list) else a for a in given))
    for row, text in zip(np.atleast_2d(result), printed, strict=True):
        numbers = [float(n.strip("[].,")) for n in text.replace("−", "-").split()]
        near(row, np.array(numbers), atol=5e-4 if one is local_weights else 5e-5)
        assert text in " ".join(one.statement.split())


@pytest.mark.parametrize("one", ONES)
def test_silence_is_probed_and_both_dtypes_are(one):
    arrays = [a for p in one.ordinary() for a in p.arguments if isinstance(a, np.ndarray)]
    assert {a.dtype.char for a in arrays} >= {"f", "d"}
    silent = {
        previous_token_score: lambda weights: weights.shape[0] == weights.shape[1],
        local_weights: lambda scores, centre, radius: centre == round(centre) and radius == round(radius),
        rotate: lambda x, positions: 2 * x.shape[0] == x.shape[1],
    }[one]
    assert {silent(*p.arguments) for p in one.ordinary()} == {True, False}


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def heads_torch_style(weights):
    return torch.diagonal(torch.as_tensor(weights), offset=-1, dim1=-2, dim2=-1).mean(dim=-1)


def heads_torch_style_with_the_default_axes(weights):
    return torch.as_tensor(weights).diagonal(offset=-1).mean(dim=-1)


def loop_from_0(weights):
    n = weights.shape[1]
    return np.array([sum(head[i, i - 1] for i in range(n)) / n for head in weights])


def loop_divided_by_n(weights):
    n = weights.shape[1]
    return np.array([sum(head[i, i - 1] for i in range(1, n)) / n for head in weights])


def diagonal(weights, offset):
    return np.diagonal(weights, offset, 1, 2)


def own_softmax(scores):
    e = np.exp(scores - np.max(scores))
    return e / e.sum()


def around(scores, centre):
    return np.arange(len(scores)) - centre


def bell(apart, sigma):
    return np.exp(-(apart**2) / (2 * sigma**2))


def filled(fill, normalise=softmax):
    """An answer that fills the scores outside the window, and cuts nothing afterwards."""

    def answer(scores, centre, radius):
        apart = around(scores, centre)
        return normalise(np.where(abs(apart) <= radius, scores, fill)) * bell(apart, radius / 2)

    return answer


def sliced(first, last, normalise=softmax):
    """An answer that takes the slice from `first(p − D)` to `last(p + D)`."""

    def answer(scores, centre, radius):
        lo, hi = max(0, int(first(centre - radius))), min(len(scores), int(last(centre + radius)))
        weights = np.zeros(len(scores))
        weights[lo:hi] = normalise(scores[lo:hi])
        return weights * bell(around(scores, centre), radius / 2)

    return answer


def after(last):
    return np.floor(last) + 1


def local_torch_style(scores, centre, radius):
    scores = torch.as_tensor(scores, dtype=torch.float64)
    apart = torch.arange(len(scores)) - centre
    outside = apart.abs() > radius
    weights = torch.softmax(scores.masked_fill(outside, -torch.inf), dim=0).masked_fill(outside, 0.0)
    return weights * torch.exp(-(apart**2) / (2 * (radius / 2) ** 2))


def cut_afterwards(scores, centre, radius):
    apart = around(scores, centre)
    return softmax(scores) * (abs(apart) <= radius) * bell(apart, radius / 2)


def bell_in_the_scores(scores, centre, radius):
    apart = around(scores, centre)
    return softmax(np.where(abs(apart) <= radius, scores - 2 * apart**2 / radius**2, -np.inf))


def divided_again(scores, centre, radius):
    weights = cut_afterwards(scores, centre, radius)
    return weights / max(weights.sum(), 1e-300)


def around_whole_numbers(scores, centre, radius):
    return local_weights.reference(scores, round(centre), radius)


def with_sigma(sigma):
    def answer(scores, centre, radius):
        inside = abs(around(scores, centre)) <= radius
        return softmax(np.where(inside, scores, -np.inf)) * bell(around(scores, centre), sigma(radius))

    return answer


def angles(positions, d):
    return np.outer(positions, 1 / 10000 ** (np.arange(0, d, 2) / d))


def rotate_half(x):
    return np.concatenate([-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], axis=1)


def rotate_every_two(x):
    return np.stack([-x[:, 1::2], x[:, ::2]], axis=-1).reshape(x.shape)


def doubled(angle):
    return np.concatenate([angle, angle], axis=1)


def with_tables(partners, spread):
    def answer(x, positions):
        angle = spread(angles(positions, x.shape[1]))
        return x * np.cos(angle) + partners(x) * np.sin(angle)

    return answer


def twice(angle):
    return angle.repeat(2, axis=1)


def turned_pair_by_pair(angle_of, *, in_a_copy=False):
    def answer(x, positions):
        out, d = x.astype(float), x.shape[1]
        old = out if in_a_copy else x
        for row, position in enumerate(positions):
            for i in range(0, d, 2):
                phi = angle_of(row, position, i, d)
                out[row, i] = old[row, i] * np.cos(phi) - old[row, i + 1] * np.sin(phi)
                out[row, i + 1] = old[row, i] * np.sin(phi) + old[row, i + 1] * np.cos(phi)
        return out

    return answer


def first_features_alone(x, positions):
    phi, a = angles(positions, x.shape[1]), x[:, ::2]
    return np.stack([a * np.cos(phi), a * np.sin(phi)], axis=-1).reshape(x.shape)


def put_together_by_halves(x, positions):
    phi, a, b = angles(positions, x.shape[1]), x[:, ::2], x[:, 1::2]
    return np.hstack([a * np.cos(phi) - b * np.sin(phi), a * np.sin(phi) + b * np.cos(phi)])


def sinusoids_added(x, positions):
    table = np.zeros(x.shape)
    table[:, 0::2], table[:, 1::2] = np.sin(angles(positions, x.shape[1])), np.cos(angles(positions, x.shape[1]))
    return x + table


def interleaved(first, second):
    return lambda angle: np.stack([first(angle), second(angle)], axis=-1).reshape(len(angle), -1)


def assigned_into_x(x, positions):
    phi, old = angles(positions, x.shape[1]), x.copy()
    x[:, ::2] = old[:, ::2] * np.cos(phi) - old[:, 1::2] * np.sin(phi)
    x[:, 1::2] = old[:, ::2] * np.sin(phi) + old[:, 1::2] * np.cos(phi)
    return x


def rotary_torch_style(x, positions):
    x, positions = torch.as_tensor(x), torch.as_tensor(positions)
    n, d = x.shape
    turns = torch.polar(torch.ones(()), torch.outer(positions.float(), 10000.0 ** (-torch.arange(0, d, 2) / d)))
    return torch.view_as_real(torch.view_as_complex(x.float().reshape(n, -1, 2)) * turns).flatten(1)


BY_HAND = [
    (previous_token_score, lambda w: diagonal(w, 1).mean(axis=1), ("key: next",)),
    (previous_token_score, lambda w: diagonal(w.transpose(0, 2, 1), -1).mean(axis=1), ("key: next",)),
    (previous_token_score, lambda w: w[:, :-1, 1:].diagonal(0, 1, 2).mean(axis=1), ("key: next",)),
    (previous_token_score, lambda w: np.einsum("hii->h", w) / w.shape[1], ("key: itself",)),
    (previous_token_score, lambda w: diagonal(w[:, 1:, 1:], 0).mean(axis=1), ("key: itself, but for the first",)),
    (previous_token_score, lambda w: np.tril(w, -1).sum(axis=(1, 2)) / (w.shape[1] - 1), ("key: any before",)),
    (previous_token_score, loop_from_0, ("key: first to last",)),
    (previous_token_score, loop_divided_by_n, ("divide: by n",)),
    (previous_token_score, lambda w: (np.eye(w.shape[1], k=-1) * w).mean(axis=(1, 2)), ("divide: by n²",)),
    (previous_token_score, lambda w: np.trace(w, -1, 1, 2), ("divide: not",)),
    (previous_token_score, lambda w: diagonal(w, -1).mean(), ("heads: mixed",)),
    (previous_token_score, lambda w: np.diag(w.mean(axis=0), -1).mean(), ("heads: mixed",)),
    (previous_token_score, lambda w: diagonal(w, -1).mean(axis=0), ("heads: averaged",)),
    (previous_token_score, lambda w: np.diagonal(w, -1).mean(axis=-1), ("diagonal through the heads",)),
    (previous_token_score, heads_torch_style_with_the_default_axes, ("diagonal through the heads",)),
    (previous_token_score, lambda w: np.diagonal(w, -1), ("diagonal through the heads, not averaged",)),
    (previous_token_score, lambda w: diagonal(softmax(w), -1).mean(axis=1), ("measure: softmax again",)),
    (
        previous_token_score,
        lambda w: (w[:, 1:].argmax(-1) == np.arange(w.shape[1] - 1)).mean(axis=-1),
        ("measure: share of rows",),
    ),
    (previous_token_score, lambda w: diagonal(w, 1).sum(axis=1) / w.shape[1], ("key: next", "divide: by n")),
    (previous_token_score, lambda w: diagonal(w, -1), ("not averaged",)),
    (previous_token_score, lambda w: w[:, range(1, w.shape[1]), range(w.shape[1] - 1)].mean(1), ()),
    (previous_token_score, lambda w: np.trace(w[:, 1:, :-1], axis1=1, axis2=2) / (w.shape[2] - 1), ()),
    (previous_token_score, lambda w: np.average(diagonal(w, -1), axis=-1), ()),
    (previous_token_score, heads_torch_style, ()),
    (local_weights, cut_afterwards, ("softmax: of all keys",)),
    (local_weights, filled(0), ("softmax: with zeros",)),
    (local_weights, filled(-1e9), ("empty: shared equally",)),
    (local_weights, filled(-np.inf, own_softmax), ("empty: 0/0",)),
    (local_weights, filled(-np.inf, lambda s: np.exp(s) / max(np.exp(s).sum(), 1e-300)), ("shift: none",)),
    (local_weights, sliced(np.ceil, after, own_softmax), ("empty: an error",)),
    (local_weights, sliced(int, after), ("window: one too early",)),
    (local_weights, sliced(int, int), ("window: moved forward",)),
    (local_weights, sliced(np.ceil, np.floor), ("window: last one lost",)),
    (local_weights, bell_in_the_scores, ("joined: renormalised",)),
    (local_weights, divided_again, ("softmax: of all keys", "joined: renormalised")),
    (local_weights, around_whole_numbers, ("positions: centre rounded",)),
    (local_weights, lambda s, p, d: softmax(s) * bell(around(s, p), d / 2), ("window: none",)),
    (local_weights, lambda s, p, d: local_weights.reference(s, p - 1, d), ("positions: from 1",)),
    (local_weights, with_sigma(float), ("bell: σ is D",)),
    (local_weights, with_sigma(lambda d: (d / 2) ** 0.5), ("bell: σ not squared",)),
    (local_weights, with_sigma(lambda d: d / 2**1.5), ("bell: without 2",)),
    (local_weights, with_sigma(lambda d: 1e9), ("bell: none",)),
    (local_weights, lambda s, p, d: softmax(s) * bell(around(s, p), d), ("window: none", "bell: σ is D")),
    (local_weights, filled(-np.inf), ()),
    (local_weights, sliced(np.ceil, after), ()),
    (local_weights, local_torch_style, ()),
    (rotate, with_tables(rotate_half, doubled), ("pairs: halves",)),
    (rotate, with_tables(rotate_half, twice), ("pairs: partner by halves",)),
    (rotate, with_tables(rotate_every_two, doubled), ("pairs: angles by halves",)),
    (rotate, put_together_by_halves, ("pairs: left apart",)),
    (rotate, lambda x, p: rotate.reference(x, -p), ("turn: backwards",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p / 10000 ** (i / d), in_a_copy=True), ("turn: half-turned",)),
    (rotate, first_features_alone, ("turn: one feature turned",)),
    (rotate, lambda x, p: x * interleaved(np.cos, np.sin)(angles(p, x.shape[1])), ("turn: scaled by both",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: row / 10000 ** (i / d)), ("position: row",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: (p + 1) / 10000 ** (i / d)), ("position: from 1",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: 0), ("not turned",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p / 10000 ** (2 * i / d)), ("frequency: 4i/d",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p / 10000 ** (i // 2 / d)), ("frequency: i/d",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p / 10000 ** ((i + 1) / d)), ("frequency: (2i + 1)/d",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p), ("frequency: one for all",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p / 10000 ** (i // d)), ("frequency: one for all",)),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p * 10000.0 ** (-i // d)), ("frequency: rounded",)),
    (rotate, lambda x, p: rotate.reference(x, np.deg2rad(p)), ("frequency: in degrees",)),
    (rotate, sinusoids_added, ("turn: added",)),
    (rotate, lambda x, p: x + interleaved(np.cos, np.sin)(angles(p, x.shape[1])), ("turn: added, cosine first",)),
    (rotate, lambda x, p: x + np.hstack([f(angles(p, x.shape[1])) for f in (np.sin, np.cos)]), ("added by halves",)),
    (rotate, assigned_into_x, ("overwritten",)),
    (rotate, lambda x, p: x, ("not turned",)),
    (rotate, with_tables(rotate_every_two, twice), ()),
    (rotate, turned_pair_by_pair(lambda row, p, i, d: p * 10000.0 ** (-i / d)), ()),
    (rotate, rotary_torch_style, ()),
]  # fmt: skip


def test_a_mistake_on_ordinary_inputs_and_one_on_rare_ones_are_both_named():
    def divided(scores, centre, radius):
        weights = cut_afterwards(scores, centre, radius)
        return weights / weights.sum()

    verdict = local_weights.judge(divided)
    assert verdict.turns == (("joined: renormalised",),) and verdict.remarks == ("no key inside", "huge scores")


def test_angles_in_single_precision_are_right_and_told_what_they_lose_far_into_a_text():
    verdict = rotate.judge(rotary_torch_style)
    assert verdict.correct and any("fourth decimal" in words for words in verdict.words)
    for one in ONES:
        assert one.judge(one.reference).words == []
