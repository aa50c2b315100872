"""Chapter 3's exercises: answers as people type them. The proof of the checker: `test_exercises.py`."""

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may

from attnlab import masks, softmax
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine import exercises_of

EXERCISES = exercises_of(ch3)


def test_what_the_chapter_must_have():
    assert sum(e.points for e in EXERCISES) == 20
    assert len(EXERCISES) == 10
    assert {e.name for e in EXERCISES} == set(ch3.__all__)
    for one in EXERCISES:
        probes = [] if one.tests else [*one.ordinary(), *one.hard]
        kinds = {a.dtype.char for p in probes for a in p.arguments if isinstance(a, np.ndarray)}
        assert kinds.isdisjoint("fd") or {"f", "d"} <= kinds, one.name  # masks, ids and lengths have no such choice


def test_the_references_agree_with_the_package():
    for n_q, n_k in [(3, 3), (2, 5), (4, 2)]:
        assert np.array_equal(ch3.causal_mask.reference(n_q, n_k), masks.causal(n_q, n_k))
    lengths, ids = np.array([2, 0, 4]), np.array([7, 0, 7, 3])
    padded = masks.causal(4) & masks.padding(lengths, 4)
    assert np.array_equal(ch3.causal_and_padding.reference(lengths, 4), padded)
    assert np.array_equal(ch3.packed_documents_mask.reference(ids), masks.causal(4) & masks.documents(ids))
    assert np.array_equal(ch3.convert_mask.reference(padded[0], "additive"), masks.to_additive(padded[0]))
    assert np.array_equal(ch3.convert_mask.reference(padded[0], "mha"), masks.to_torch_mha(padded[0]))


def test_the_references_give_the_numbers_of_the_reports():
    """Field reports on padding: a mean of states, positions with padding in front, a loss that counted its padding."""
    states, real = np.array([[[1.0, 3.0], [3.0, 5.0], [9.0, 9.0]]]), np.array([[False, False, True, True, True]])
    assert ch3.masked_mean.reference(states, np.array([2])).tolist() == [[2.0, 4.0]]
    assert ch3.positions_of.reference(real).tolist() == [[0, 0, 0, 1, 2]]
    logits, labels = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 4.0]]), np.array([0, 1, 0])
    assert ch3.masked_loss.reference(logits, labels, np.arange(3) < 2) == pytest.approx(0.1269, abs=5e-5)
    assert ch3.masked_loss.reference(logits, labels, np.arange(3) < 3) == pytest.approx(1.4240, abs=5e-5)


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def attention_torch_style(queries, keys, values):
    q, k, v = (torch.as_tensor(x, dtype=torch.float64) for x in (queries, keys, values))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def attention_loop_over_queries(queries, keys, values):
    out = np.zeros((len(queries), values.shape[1]))
    for i in range(len(queries)):
        scores = np.array([queries[i] @ keys[j] for j in range(len(keys))]) / np.sqrt(queries.shape[1])
        weights = np.exp(scores - max(scores))
        for j in range(len(keys)):
            out[i] += weights[j] / weights.sum() * values[j]
    return out


def keepdims_missing(q, k, v):
    s = q @ k.T / np.sqrt(k.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1) @ v


def causal_torch_style(n_q, n_k):
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(diagonal=n_k - n_q)


def padding_torch_style(lengths, n):
    real = torch.arange(n) < torch.as_tensor(lengths)[:, None]
    return torch.tril(torch.ones(n, n)).bool() & real[:, None]


def causal_bool(n):
    return np.tril(np.ones((n, n), dtype=bool))


def real_tokens(lengths, n):
    return np.arange(n)[None, :] < lengths[:, None]


def documents_in_runs(ids):
    starts = np.concatenate([[0], np.cumsum(ids[1:] != ids[:-1])])
    return (starts[:, None] == starts) & causal_bool(len(ids))


def mean_loop_without_care(states, lengths):
    return np.array([s[:n].mean(axis=0) for s, n in zip(states, lengths, strict=True)])


def mean_loop_one_too_far(states, lengths):
    return np.array([s[: n + 1].mean(axis=0) for s, n in zip(states, lengths, strict=True)])


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def loss_of(log_probs, labels, is_real):
    losses = -log_probs[np.arange(len(labels)), labels]
    return losses[is_real].sum() / max(1, is_real.sum())


def loss_one_hot(logits, labels, is_real):
    wanted = (np.arange(logits.shape[1]) == labels[:, None]) & is_real[:, None]
    return -np.sum(log_softmax(logits), where=wanted) / max(np.sum(wanted), 1)


def loss_torch_style(logits, labels, is_real):
    each = torch.nn.functional.cross_entropy(
        torch.as_tensor(logits, dtype=torch.float64), torch.as_tensor(labels), reduction="none"
    )
    return each[torch.as_tensor(is_real)].sum() / max(is_real.sum(), 1)


def converter(sdpa, mha, additive, keep):
    """An answer made of four expressions."""
    forms = {"sdpa": sdpa, "mha": mha, "additive": additive, "keep": keep}
    return lambda allowed, convention: forms[convention](allowed)


def same(a):
    return a


def turned(a):
    return ~a


def infinite(a):
    return np.where(a, 0, -np.inf)


def ones(a):
    return a.astype(int)


def first_keys_in_a_loop(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


def rows_up_to_the_own_key(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        mask[i, : i + n_k - n_q + 1] = True
    return mask


def means_of_the_rest(states, lengths):
    return np.array([x[n:].mean(axis=0) for x, n in zip(states, lengths, strict=True)])


def places_less_padding(is_real):
    return np.arange(is_real.shape[1]) - (~is_real).sum(axis=1)[:, None]


BY_HAND = [
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / len(k.T) ** 0.5 @ v), ("softmax last",)),
    (ch3.causal_mask, first_keys_in_a_loop, ("top-left, off the table",)),
    (ch3.causal_mask, lambda n_q, n_k: np.tri(n_k, dtype=bool)[:n_q], ("top-left, cut from a square",)),
    (ch3.causal_mask, lambda n_q, n_k: np.tri(n_q, n_k, max(n_k - n_q, 0)) > 0, ("never moved back",)),
    (ch3.causal_mask, rows_up_to_the_own_key, ("negative end",)),
    (ch3.masked_mean, means_of_the_rest, ("mean_of: the padding, 0/0",)),
    (ch3.positions_of, lambda r: r.cumsum(axis=1), ("the running count",)),
    (ch3.positions_of, lambda r: places_less_padding(r) * r, ("padding_before: all of it",)),
    (ch3.positions_of, lambda r: np.maximum(places_less_padding(r), 0), ("padding_before: all of it, clipped",)),
    (
        ch3.masked_loss,
        lambda x, y, r: -log_softmax(x)[:, y][r].mean() if r.any() else 0.0,
        ("picked: a table of all labels",),
    ),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T) @ v, ("scale: none",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / v.shape[1] ** 0.5) @ v, ("scale: by d_v",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / q.shape[0] ** 0.5) @ v, ("scale: by n_q",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / len(k) ** 0.5) @ v, ("scale: by n",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / len(k.T) ** 0.5, axis=0) @ v, ("axis: queries",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / k.shape[1] ** 0.5).T @ v, ("mix: transposed",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(k @ q.T / k.shape[1] ** 0.5) @ v, ("roles exchanged",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q @ k.T / k.shape[1] ** 0.5), ("mix: weights only",)),
    (ch3.attention_in_matrix_form, lambda q, k, v: q @ k.T @ v, ("scale: none", "mix: scores")),
    (ch3.attention_in_matrix_form, lambda q, k, v: softmax(q.T @ k / k.shape[1] ** 0.5) @ v, ("components compared",)),
    (ch3.attention_in_matrix_form, keepdims_missing, ("axis: keepdims forgotten",)),
    (ch3.attention_in_matrix_form, attention_torch_style, ()),
    (ch3.attention_in_matrix_form, attention_loop_over_queries, ()),
    (ch3.causal_mask, lambda q, k: np.tril(np.ones((q, k), bool)), ("align: top-left",)),
    (ch3.causal_mask, lambda q, k: np.tril(np.ones((q, k)), k=k - q), ("kind: numbers",)),
    (ch3.causal_mask, lambda q, k: np.tril(np.ones((q, k))), ("align: top-left", "kind: numbers")),
    (ch3.causal_mask, lambda q, k: np.triu(np.ones((q, k), bool), k=k - q), ("side: future",)),
    (ch3.causal_mask, lambda q, k: np.triu(np.ones((q, k), bool), k=1 + k - q), ("polarity: turned",)),
    (ch3.causal_mask, lambda q, k: ~np.triu(np.ones((q, k), bool), k=k - q), ("diagonal: blocked",)),
    (ch3.causal_mask, lambda q, k: np.tril(np.ones((q, q), bool)), ("size: n_q by n_q",)),
    (ch3.causal_mask, lambda q, k: np.triu(np.full((q, k), -np.inf), 1), ("align: top-left", "kind: additive")),
    (ch3.causal_mask, lambda q, k: np.triu(np.ones((q, k)), k=1), ("upper triangle of ones",)),
    (ch3.causal_mask, lambda q, k: np.arange(k)[None, :] <= np.arange(k - q, k)[:, None], ()),
    (ch3.causal_mask, causal_torch_style, ()),
    (ch3.causal_and_padding, lambda s, n: np.broadcast_to(causal_bool(n), (len(s), n, n)), ("combine: only causal",)),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) | real_tokens(s, n)[:, None], ("combine: or",)),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) & real_tokens(s, n), ("no axis for the queries",)),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) & (np.arange(n) < s), ("no axis for the sentences",)),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) & ~real_tokens(s, n)[:, None], ("real: turned",)),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) & real_tokens(s + 1, n)[:, None], ("real: one too many",)),
    (
        ch3.causal_and_padding,
        lambda s, n: causal_bool(n) & real_tokens(s, n)[:, :, None],
        ("where: query rows", "where: rows and columns"),
    ),
    (ch3.causal_and_padding, lambda s, n: causal_bool(n) * real_tokens(s, n)[:, None], ()),
    (ch3.causal_and_padding, padding_torch_style, ()),
    (ch3.packed_documents_mask, lambda i: i[:, None] == i, ("order: both ways",)),
    (ch3.packed_documents_mask, lambda i: i[:, None] >= i, ("same: not larger", "order: both ways")),
    (ch3.packed_documents_mask, lambda i: np.tril(np.ones((len(i), len(i)), bool)), ("same: ignored",)),
    (ch3.packed_documents_mask, documents_in_runs, ("same: runs",)),
    (ch3.packed_documents_mask, lambda i: causal_bool(len(i)) & (i[:, None] >= i), ("same: not larger",)),
    (ch3.packed_documents_mask, lambda i: np.tril(i[:, None] == i, k=-1), ("order: diagonal blocked",)),
    (ch3.packed_documents_mask, lambda i: np.tril(i[:, None] == i) * 1.0, ("kind: numbers",)),
    (ch3.packed_documents_mask, lambda i: np.tril(i[:, None] == i[None, :]), ()),
    (ch3.packed_documents_mask, lambda i: np.tril(np.subtract.outer(i, i) == 0), ()),
    (ch3.masked_mean, lambda s, n: s.mean(axis=1), ("mean of all",)),
    (ch3.masked_mean, lambda s, n: s.sum(axis=1) / np.maximum(n, 1)[:, None], ("summed: all",)),
    (ch3.masked_mean, lambda s, n: np.where(real_tokens(n, s.shape[1])[..., None], s, 0).mean(1), ("divide: by n",)),
    (ch3.masked_mean, mean_loop_without_care, ("empty: 0/0",)),
    (ch3.masked_mean, lambda s, n: s[np.arange(len(n)), n - 1], ("last real token",)),
    (ch3.masked_mean, lambda s, n: s[:, 0], ("first token",)),
    (ch3.masked_mean, mean_loop_one_too_far, ("mean of one more",)),
    (ch3.masked_mean, lambda s, n: np.array([x[:m].sum(0) / max(m, 1) for x, m in zip(s, n, strict=True)]), ()),
    (ch3.masked_mean, lambda s, n: np.nan_to_num(mean_loop_without_care(s, n)), ()),
    (ch3.positions_of, lambda r: np.arange(r.shape[1])[None].repeat(len(r), axis=0), ("places: of all",)),
    (ch3.positions_of, lambda r: np.arange(r.shape[1]), ("places: in one row",)),
    (ch3.positions_of, lambda r: np.cumsum(r, axis=1) - 1, ("padding: counted on",)),
    (ch3.positions_of, lambda r: (np.cumsum(r, axis=1) - 1).clip(0), ("padding: clipped",)),
    (ch3.positions_of, lambda r: np.cumsum(r, axis=1) * r, ("count: from one",)),
    (ch3.positions_of, lambda r: np.cumsum(r, axis=1) * r - 1, ("padding: minus one",)),
    (ch3.positions_of, lambda r: np.where(r, np.cumsum(r, 1) - 1, 1), ("padding: one",)),
    (ch3.positions_of, lambda r: np.maximum(np.cumsum(r, axis=1) - 1, 0) * r, ()),
    (ch3.positions_of, lambda r: np.array([[row[:i].sum() * row[i] for i in range(len(row))] for row in r]), ()),
    (ch3.masked_loss, lambda x, y, r: loss_of(log_softmax(x), y, r | True), ("kept: all",)),
    (ch3.masked_loss, lambda x, y, r: loss_of(log_softmax(x), y, y != 0), ("kept: labels that are not 0",)),
    (ch3.masked_loss, lambda x, y, r: -log_softmax(x)[np.arange(len(y)), y][r].mean(), ("empty: 0/0",)),
    (ch3.masked_loss, lambda x, y, r: -(log_softmax(x)[np.arange(len(y)), y] * r).mean(), ("divide: by n",)),
    (ch3.masked_loss, lambda x, y, r: -loss_of(log_softmax(x), y, r), ("sign: plus",)),
    (ch3.masked_loss, lambda x, y, r: loss_of(np.log(softmax(x)), y, r), ("shift: log of softmax",)),
    (ch3.masked_loss, lambda x, y, r: loss_of(log_softmax(x) / np.log(2), y, r), ("measure: base 2",)),
    (ch3.masked_loss, lambda x, y, r: -log_softmax(x)[:, y].mean(), ("picked: a table with padding",)),
    (ch3.masked_loss, lambda x, y, r: loss_of(log_softmax(x), y, r), ()),
    (ch3.masked_loss, lambda x, y, r: loss_of(x - np.log(np.exp(x).sum(-1)), y, r), ("keepdims: forgotten, no shift",)),
    (ch3.masked_loss, loss_one_hot, ()),
    (ch3.masked_loss, loss_torch_style, ()),
    (ch3.convert_mask, lambda a, c: a, ("never converted",)),
    (ch3.convert_mask, converter(turned, same, infinite, ones), ("torch's two exchanged",)),
    (ch3.convert_mask, converter(same, same, infinite, ones), ("mha: turned",)),
    (ch3.convert_mask, converter(same, turned, lambda a: a.astype(float), ones), ("additive: ones and zeros",)),
    (ch3.convert_mask, converter(same, turned, lambda a: ~a * -np.inf, ones), ("additive: 0 times ∞",)),
    (ch3.convert_mask, converter(same, turned, lambda a: (1.0 - a) * -1e9, ones), ("additive: -1e9",)),
    (ch3.convert_mask, converter(same, lambda a: ~ones(a), infinite, ones), ("mha: bits",)),
    (ch3.convert_mask, converter(same, lambda a: 1 - a, infinite, same), ("mha: numbers", "keep: bool")),
    (ch3.convert_mask, converter(same, turned, infinite, same), ("keep: bool",)),
    (ch3.convert_mask, converter(same, turned, infinite, lambda a: a * 1), ()),
    (ch3.convert_mask, converter(same, turned, infinite, lambda a: a.astype(np.float32)), ()),
    (ch3.convert_mask, converter(np.array, np.logical_not, lambda a: np.where(~a, -np.inf, 0.0), ones), ()),
]  # fmt: skip


def test_a_mistake_on_ordinary_inputs_and_one_on_large_scores_are_both_named():
    def naive(q, k, v):
        return np.exp(q @ k.T) / np.exp(q @ k.T).sum(axis=1, keepdims=True) @ v

    verdict = ch3.attention_in_matrix_form.judge(naive)
    assert verdict.turns == (("scale: none",),) and verdict.remarks == ("huge scores",)


def test_where_a_transpose_fits_the_root_of_a_wrong_size_shows_beside_it():
    def transposed(divisor):
        return ch3.attention_in_matrix_form.judge(lambda q, k, v: softmax(q @ k.T / divisor(q, k, v)).T @ v).turns

    assert transposed(lambda q, k, v: k.shape[1]) == (("scale: by d", "mix: transposed"),)
    assert transposed(lambda q, k, v: v.shape[1] ** 0.5) == (("scale: by d_v", "mix: transposed"),)
    either = (("scale: by n", "mix: transposed"), ("scale: by n_q", "mix: transposed"))  # it fits where these are equal
    assert transposed(lambda q, k, v: len(q) ** 0.5) == transposed(lambda q, k, v: len(k) ** 0.5) == either


def test_what_is_right_on_paper_but_lets_broken_padding_in_is_accepted_and_told_so():
    def times_the_mask(s, n):
        return (s * real_tokens(n, s.shape[1])[..., None]).sum(axis=1) / np.maximum(n, 1)[:, None]

    verdict = ch3.masked_mean.judge(times_the_mask)
    assert verdict.correct and any("0·NaN" in text for text in verdict.words)
    verdict = ch3.masked_loss.judge(lambda x, y, r: loss_of(log_softmax(x), y, r))
    assert verdict.correct and any("−100" in text for text in verdict.words)
    for one in (ch3.masked_mean, ch3.masked_loss):
        assert one.judge(one.reference).words == []
