"""Chapter 2's exercises: answers as people type them. The proof of the checker: `test_exercises.py`."""

import numpy as np
import pytest
import torch

from attnlab import softmax
from attnlab.exercises import ch2_scoring as ch2
from attnlab.exercises.engine import exercises_of

EXERCISES = exercises_of(ch2)


def test_what_the_chapter_must_have():
    assert sum(p.points for p in EXERCISES) == 13
    assert len(EXERCISES) == 7
    for one in EXERCISES:
        kinds = {a.dtype.char for p in [*one.ordinary(), *one.hard] for a in p.arguments if isinstance(a, np.ndarray)}
        assert {"f", "d"} <= kinds, one.name


def test_the_numbers_in_the_statements():
    def at(*rows):
        return np.array(rows, dtype=float)

    assert ch2.general_scores.reference(at([1, 2]), at([3]), at([1], [10])) == 63
    additive = ch2.additive_scores.reference(at([1, 0]), at([0, 1]), np.eye(2), np.eye(2), np.ones(2))
    assert additive.shape == (1, 1) and round(additive.item(), 3) == 1.523 == round(2 * np.tanh(1), 3)
    assert ch2.gaussian_scores.reference(at([0, 0]), at([3, 4]), 5) == -0.5
    half_way = ch2.kernel_regression.reference(at(1.5), at(1, 2), at(10, 30), 0.3)
    assert half_way == pytest.approx([20])
    assert round(ch2.entropy_of_weights.reference(at(0.5, 0.5)), 3) == 0.693
    assert ch2.entropy_of_weights.reference(at(1, 0)) == 0
    assert ch2.measured_scale.reference(at([1], [-1]), at([2])) == 0.5
    assert ch2.cosine_scores.reference(at([3, 4], [0, 0]), at([6, 8]), 0.5) == pytest.approx(at([2], [0]))


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def additive_grid(queries, keys, W_q, W_k, v):
    q = queries @ W_q.T
    k = keys @ W_k.T
    features = np.expand_dims(q, axis=1) + np.expand_dims(k, axis=0)
    return np.sum(np.tanh(features) * v, axis=-1)


def additive_without_grid(queries, keys, W_q, W_k, v):
    return np.tanh(queries @ W_q.T + keys @ W_k.T) @ v


def additive_over_keys_first(queries, keys, W_q, W_k, v):
    return np.array([[v @ np.tanh(W_q @ q + W_k @ k) for q in queries] for k in keys])


def additive_split(queries, keys, W_q, W_k, v):
    return (np.tanh(queries @ W_q.T) @ v)[:, None] + np.tanh(keys @ W_k.T) @ v


def additive_in_torch(queries, keys, W_q, W_k, v):
    q, k, W_q, W_k, v = (torch.as_tensor(x, dtype=torch.float64) for x in (queries, keys, W_q, W_k, v))
    hidden = torch.tanh(torch.nn.functional.linear(q, W_q).unsqueeze(1) + torch.nn.functional.linear(k, W_k))
    return hidden.matmul(v)


def gaussian_by_cdist(queries, keys, width):
    apart = torch.cdist(torch.tensor(queries, dtype=torch.float64), torch.tensor(keys, dtype=torch.float64))
    return -(apart**2) / (2 * width**2)


def gaussian_lost_axis(queries, keys, width):
    squares = np.sum(queries**2, axis=1) + np.sum(keys**2, axis=1) - 2 * queries.dot(keys.T)
    return -0.5 * squares / width**2


def gaussian_weights(queries, keys, width):
    s = np.array([[-np.sum((q - k) ** 2) / (2 * width**2) for k in keys] for q in queries])
    return np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)


def nadaraya_watson(x, x_known, y_known, width):
    k = np.exp(-((x[:, None] - x_known[None, :]) ** 2) / (2 * width**2))
    return (k * y_known).sum(axis=1) / k.sum(axis=1)


def regression_columns(x, x_known, y_known, width):
    w = np.exp(-((x_known[:, None] - x) ** 2) / (2 * width**2))
    return y_known @ (w / w.sum(axis=0))


def regression_lost_axis(x, x_known, y_known, width):
    k = np.exp(-((x[:, None] - x_known) ** 2) / (2 * width**2))
    return (k / k.sum(axis=1)) @ y_known


def regression_softmax_along_x(x, x_known, y_known, width):
    return softmax(-((x[:, None] - x_known) ** 2) / (2 * width**2), axis=0) @ y_known


def entropy_loop(weights):
    rows = np.atleast_2d(weights)
    out = []
    for row in rows:
        h = 0.0
        for w in row:
            if w != 0:
                h -= w * np.log(w)
        out.append(h)
    return out[0] if weights.ndim == 1 else np.array(out)


def entropy_of_positive(weights):
    w = weights[weights > 0]
    return -np.sum(w * np.log(w))


def entropy_in_torch(weights):
    return torch.special.entr(torch.as_tensor(weights, dtype=torch.float64)).sum(-1)


def scale_in_torch(queries, keys):
    q, k = (torch.as_tensor(x, dtype=torch.float64) for x in (queries, keys))
    return 1 / (q @ k.T).std()


def cosine_in_torch(queries, keys, temperature):
    q, k = (torch.as_tensor(x, dtype=torch.float64) for x in (queries, keys))
    return torch.nn.functional.cosine_similarity(q[:, None], k[None], dim=-1) / temperature


def cosine_unit(queries, keys, temperature):
    q = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    k = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    return q @ k.T / temperature


def cosine_divided_twice(queries, keys, temperature):
    return queries @ keys.T / np.linalg.norm(queries, axis=1) / np.linalg.norm(keys, axis=1) / temperature


def cosine_keys_first(queries, keys, temperature):
    lengths = np.linalg.norm(keys, axis=1)[:, None] * np.linalg.norm(queries, axis=1)
    return keys @ queries.T / np.where(lengths == 0, 1, lengths) / temperature


def cosine_in_place(queries, keys, temperature):
    for vectors in (queries, keys):
        for row in vectors:
            row /= np.sqrt(row @ row) or 1
    return queries @ keys.T / temperature


def cosine_lost_axis(queries, keys, temperature):
    return (queries / np.linalg.norm(queries, axis=1)) @ (keys / np.linalg.norm(keys, axis=1)).T / temperature


BY_HAND = [
    (ch2.general_scores, lambda q, k, W: q @ W.T @ k.T, ("matrix: transposed",)),
    (ch2.general_scores, lambda q, k, W: k @ W @ q.T, ("matrix: transposed", "pairs: keys first")),
    (ch2.general_scores, lambda q, k, W: k @ W.T @ q.T, ("pairs: keys first",)),
    (ch2.general_scores, lambda q, k, W: (q @ W * k).sum(axis=1), ("pairs: matching only",)),
    (ch2.general_scores, lambda q, k, W: q @ W * k, ("pairs: not summed",)),
    (ch2.general_scores, lambda q, k, W: q @ W @ k.T / np.sqrt(k.shape[1]), ("end: by root of d_k",)),
    (ch2.general_scores, lambda q, k, W: q @ W @ k.T / np.sqrt(q.shape[1]), ("end: by root of d_q",)),
    (ch2.general_scores, lambda q, k, W: q @ k.T, ("matrix: left out",)),
    (ch2.general_scores, lambda q, k, W: np.stack([k @ (W.T @ row) for row in q]), ()),
    (ch2.general_scores, lambda q, k, W: np.tensordot(np.dot(q, W), k, axes=(1, 1)), ()),
    (ch2.additive_scores, additive_grid, ()),
    (ch2.additive_scores, additive_in_torch, ()),
    (ch2.additive_scores, additive_without_grid, ("pairs: matching only",)),
    (ch2.additive_scores, additive_over_keys_first, ("pairs: keys first",)),
    (ch2.additive_scores, additive_split, ("tanh: each part",)),
    (ch2.additive_scores, lambda q, k, A, B, v: (q @ A.T @ v)[:, None] + k @ B.T @ v, ("tanh: none",)),
    (ch2.additive_scores, lambda q, k, A, B, v: np.tanh(q[:, None] + k).sum(-1), ("projection: none", "sum: left out")),
    (ch2.additive_scores, lambda q, k, A, B, v: np.tanh((q @ A)[:, None] + k @ B) @ v, ("projection: transposed",)),
    (ch2.gaussian_scores, gaussian_by_cdist, ()),
    (ch2.gaussian_scores, lambda q, k, w: -0.5 * np.square((q[:, None] - k) / w).sum(2), ()),
    (ch2.gaussian_scores, lambda q, k, w: -((q[:, None] - k) ** 2).sum(-1) / 2 * w**2, ("divisor: multiplied",)),
    (ch2.gaussian_scores, lambda q, k, w: -((q[:, None] - k) ** 2).sum(-1) / 2 / w, ("divisor: not squared",)),
    (ch2.gaussian_scores, lambda q, k, w: -((q - k) ** 2).sum(-1) / (2 * w**2), ("pairs: matching only",)),
    (ch2.gaussian_scores, lambda q, k, w: ((q[:, None] - k) ** 2).sum(-1) / (2 * w**2), ("sign: plus",)),
    (ch2.gaussian_scores, lambda q, k, w: -np.linalg.norm(q[:, None] - k, axis=-1) / (2 * w**2), ("distance: root",)),
    (ch2.gaussian_scores, lambda q, k, w: np.exp(-((q[:, None] - k) ** 2).sum(-1) / (2 * w**2)), ("end: exp",)),
    (ch2.gaussian_scores, gaussian_weights, ("end: softmax",)),
    (ch2.gaussian_scores, lambda q, k, w: (q @ k.T - (k**2).sum(1) / 2) / w**2, ("without the query",)),
    (ch2.gaussian_scores, gaussian_lost_axis, ("lost axis",)),
    (ch2.kernel_regression, nadaraya_watson, ("shift: none",)),
    (ch2.kernel_regression, regression_columns, ("shift: none",)),
    (ch2.kernel_regression, regression_lost_axis, ("normalise: keepdims forgotten", "shift: none")),
    (ch2.kernel_regression, regression_softmax_along_x, ("normalise: over x",)),
    (ch2.kernel_regression, lambda x, a, y, w: y[np.argmin(abs(x[:, None] - a), axis=1)], ("nearest",)),
    (ch2.kernel_regression, lambda x, a, y, w: np.interp(x, a, y), ("straight lines",)),
    (ch2.kernel_regression, lambda x, a, y, w: softmax(-((x[:, None] - a) ** 2) / (2 * w)) @ y,
     ("kernel: width not squared",)),
    (ch2.kernel_regression, lambda x, a, y, w: softmax(-((x[:, None] - a) ** 2) / 2 / w**2), ("mix: weights only",)),
    (ch2.kernel_regression, lambda x, a, y, w: np.array([softmax(-((t - a) / w) ** 2 / 2) @ y for t in x]), ()),
    (ch2.kernel_regression, lambda x, a, y, w: softmax(-(np.abs(x - a[:, None]).T ** 2) * 0.5 * w**-2.0) @ y, ()),
    (ch2.entropy_of_weights, entropy_loop, ()),
    (ch2.entropy_of_weights, entropy_in_torch, ()),
    (ch2.entropy_of_weights, lambda w: -(w * np.log(np.clip(w, 1e-12, 1))).sum(-1), ()),
    (ch2.entropy_of_weights, lambda w: -(w * np.log(w)).sum(axis=-1), ("zero: not a number",)),
    (ch2.entropy_of_weights, lambda w: -np.sum(w * np.log(w)), ("axis: all", "zero: not a number")),
    (ch2.entropy_of_weights, entropy_of_positive, ("axis: all",)),
    (ch2.entropy_of_weights, lambda w: -np.nansum(w * np.log2(w), axis=-1), ("log: base 2",)),
    (ch2.entropy_of_weights, lambda w: np.nansum(w * np.log(w), axis=-1), ("sign: plus",)),
    (ch2.entropy_of_weights, lambda w: -(w * np.log(w + 1e-9)).sum(-1), ("1e-09 added",)),
    (ch2.entropy_of_weights, lambda w: -(w * np.log(w + 1e-12)).sum(axis=-1), ("1e-12 added",)),
    (ch2.measured_scale, lambda q, k: np.std(q @ k.T), ("result: the spread",)),
    (ch2.measured_scale, lambda q, k: 1 / np.sqrt(q.shape[1]), ("root of d_k",)),
    (ch2.measured_scale, lambda q, k: 1 / np.var(q @ k.T), ("spread: variance",)),
    (ch2.measured_scale, lambda q, k: 1 / np.std(q @ k.T, axis=-1).mean(), ("over: each query",)),
    (ch2.measured_scale, lambda q, k: 1 / np.std((q * k).sum(1)), ("pairs: matching only",)),
    (ch2.measured_scale, lambda q, k: 1 / np.sqrt(np.mean((q @ k.T) ** 2)), ("spread: root mean square",)),
    (ch2.measured_scale, scale_in_torch, ("spread: one less",)),
    (ch2.measured_scale, lambda q, k: 1 / np.std(np.sum(q[:, None] * k, axis=2)), ()),
    (ch2.measured_scale, lambda q, k: np.var(k @ q.T) ** -0.5, ()),
    (ch2.cosine_scores, cosine_in_torch, ()),
    (ch2.cosine_scores, cosine_unit, ("zero: not a number",)),
    (ch2.cosine_scores, cosine_divided_twice, ("lengths: queries' without an axis",)),
    (ch2.cosine_scores, cosine_keys_first, ("pairs: keys first",)),
    (ch2.cosine_scores, lambda q, k, t: cosine_with_more_length(q, k, t), ("1e-09 added to each length",)),
    (ch2.cosine_scores, cosine_in_place, ("inputs: overwritten",)),
    (ch2.cosine_scores, cosine_lost_axis, ("lengths: keepdims forgotten",)),
    (ch2.cosine_scores, lambda q, k, t: q @ k.T / t, ("lengths: none",)),
    (ch2.cosine_scores, lambda q, k, t: q @ k.T / np.sqrt(q.shape[1]) / t, ("scaled dot products",)),
    (ch2.cosine_scores, lambda q, k, t: cosine_unit(q, k, 1) * t, ("heat: times", "zero: not a number")),
    (ch2.cosine_scores, lambda q, k, t: (q / np.linalg.norm(q)) @ (k / np.linalg.norm(k)).T / t,
     ("lengths: of the table",)),
]  # fmt: skip


def tanh_by_formula(queries, keys, W_q, W_k, v):
    x = (queries @ W_q.T)[:, None] + keys @ W_k.T
    return (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)) @ v


def gaussian_expanded(queries, keys, width):
    squares = (queries**2).sum(axis=1)[:, None] + (keys**2).sum(axis=1) - 2 * queries @ keys.T
    return -squares / (2 * width**2)


def scale_by_moments(queries, keys):
    dots = queries @ keys.T
    return 1 / np.sqrt((dots**2).mean() - dots.mean() ** 2)


def cosine_with_a_floor(queries, keys, temperature):
    lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(keys, axis=1))
    return queries @ keys.T / np.maximum(lengths, 1e-8) / temperature


ADVISED = [
    (ch2.additive_scores, tanh_by_formula, "huge inputs"),
    (ch2.gaussian_scores, gaussian_expanded, "far from zero"),
    (ch2.measured_scale, scale_by_moments, "a large common part"),
    (ch2.cosine_scores, cosine_with_a_floor, "short vectors"),
]


@pytest.mark.parametrize(("one", "answer", "probe"), ADVISED)
def test_an_answer_that_is_right_on_paper_is_accepted_and_told_where_it_fails(one, answer, probe):
    verdict, careful = one.judge(answer), one.judge(one.reference)
    assert verdict.correct and verdict.words == [f"One thing more: {p.remark}" for p in one.hard if p.name == probe]
    assert careful.correct and careful.words == []


def cosine_with_more_length(queries, keys, temperature):
    q = queries / (np.linalg.norm(queries, axis=1, keepdims=True) + 1e-9)
    k = keys / (np.linalg.norm(keys, axis=1, keepdims=True) + 1e-9)
    return q @ k.T / temperature


def test_a_little_more_is_shown_where_it_can_be_seen():
    """On ordinary inputs the wrong numbers are printed like the right ones."""
    shown = ch2.cosine_scores.judge(cosine_with_more_length).comparison
    assert "[ 3.e-07  4.e-07]" in shown.call and shown.expected.startswith("[[ 2. ")
    assert shown.received.startswith("[[ 1.994 ") and "printed alike" not in shown.received
    entropy = ch2.entropy_of_weights.judge(lambda w: -(w * np.log(w + 1e-9)).sum(-1))
    assert "a single weight of 1 gives −1e-09" in entropy.words[0]
    assert (entropy.comparison.call, entropy.comparison.expected) == ("weights = [1.] shape (1,)", "0.")
    assert entropy.comparison.received == "-1.e-09"


def test_careful_answers_get_no_advice():
    told = {f"{one.name}: {name}": one.judge(form).words for one in EXERCISES for name, form in one.variants.items()}
    assert [name for name, words in told.items() if words] == ["gaussian_scores: expanded"]


def test_what_a_right_looking_answer_forgets_is_said_beside_its_mistake():
    without_zeros = ch2.entropy_of_weights.judge(lambda w: -(w * np.log2(np.where(w > 0, w, 2))).sum(-1))
    assert without_zeros.turns == (("log: base 2",),) and without_zeros.remarks == ()
    flat = ch2.general_scores.judge(lambda q, k, W: np.squeeze(q @ W @ k.T))
    assert (
        flat.status == "recognised" and flat.turns == () and set(flat.remarks) == {"one query", "one query and one key"}
    )
    far = ch2.kernel_regression.judge(
        lambda x, a, y, w: np.nan_to_num(np.exp(-((x[:, None] - a) ** 2) / w**2) @ y
                                         / np.exp(-((x[:, None] - a) ** 2) / w**2).sum(axis=1))
    )  # fmt: skip
    assert far.turns == (("kernel: without 2",),) and far.remarks == ("far away",)
