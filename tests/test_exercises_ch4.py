"""Chapter 4's exercises: what the chapter must have, and 4.1 to 4.4, answers as people type them.

The others: `test_exercises_ch4_layer.py` and `test_exercises_ch4_real.py`. The proof of the checker:
`test_exercises.py`, which runs every BY_HAND.
"""

import numpy as np
import pytest
import test_exercises_ch4_layer
import test_exercises_ch4_real
import torch  # here: the first import takes longer than a check may
from torch.nn import functional as F

from attnlab import attention, softmax
from attnlab.exercises import ch4_multi_head as ch4
from attnlab.exercises.ch4_multi_head.cross_attention import cross_attention
from attnlab.exercises.ch4_multi_head.merge_heads import merge_heads
from attnlab.exercises.ch4_multi_head.multi_head_attention import multi_head_attention
from attnlab.exercises.ch4_multi_head.split_heads import split_heads
from attnlab.exercises.engine import exercises_of
from attnlab.heads import MultiHeadAttention, merge, split

EXERCISES = exercises_of(ch4)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def twin(one, *turns):
    return next(each.function for each in one.twins if each.turns == turns)


def test_what_the_chapter_must_have():
    assert sum(e.points for e in EXERCISES) == 27
    assert len(EXERCISES) == 11
    assert {e.name for e in EXERCISES} == set(ch4.__all__)
    assert {e.name for e, *_ in BY_HAND} == set(ch4.__all__)
    for one in EXERCISES:
        kinds = {a.dtype.char for p in [*one.ordinary(), *one.hard] for a in p.arguments if isinstance(a, np.ndarray)}
        assert kinds.isdisjoint("fd") or {"f", "d"} <= kinds, one.name  # masks have no such choice


@pytest.mark.parametrize(("n_heads", "d_head"), [(1, 4), (4, 1), (2, 3), (3, 3)])
def test_split_merge_and_attention_agree_with_the_package(n_heads, d_head):
    d = n_heads * d_head
    x, n = drawn(2, 3, d), 3
    heads = split_heads.reference(x, n_heads)
    assert np.array_equal(heads, split(x, n_heads)) and heads.shape == (2, n_heads, n, d_head)
    assert np.array_equal(merge_heads.reference(heads), merge(heads))
    assert np.array_equal(merge_heads.reference(heads), x)
    matrices = drawn(4, d, d, seed=1)
    layer = MultiHeadAttention(d, n_heads, bias=False).double()
    with torch.no_grad():
        for projection, W in zip((layer.W_q, layer.W_k, layer.W_v, layer.W_o), matrices, strict=True):
            projection.weight.copy_(torch.from_numpy(W.T.copy()))
        expected = layer(torch.from_numpy(x)).output
    for sentence, by_layer in zip(x, expected, strict=True):
        mine = multi_head_attention.reference(sentence, *matrices, n_heads)
        assert np.allclose(mine, by_layer.numpy(), rtol=0, atol=1e-12)


def test_the_references_give_the_numbers_of_the_reports():
    assert split_heads.reference(np.array([[[1, 2], [3, 4]]]), 2).tolist() == [[[[1], [3]], [[2], [4]]]]
    assert twin(split_heads, "cut: reshape alone")(np.array([[[1, 2], [3, 4]]]), 2)[0, 0].tolist() == [[1], [2]]
    heads = np.arange(8).reshape(1, 2, 2, 2)
    assert merge_heads.reference(heads).tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    assert twin(merge_heads, "order: reshape alone")(heads).tolist() == [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    # A product of 16 and one of 0: divided by √16, the head's width, or by √64, the tokens'.
    asks, looked_up = np.ones((1, 64)), np.array([[1.0] * 64, [0.0] * 64])
    W = np.eye(64, 16)
    assert cross_attention.reference(asks, looked_up, W, W, W) == pytest.approx(0.9820, abs=5e-5)
    too_flat = twin(cross_attention, "scale: by the whole width")(asks, looked_up, W, W, W)
    assert too_flat == pytest.approx(0.8808, abs=5e-5)
    assert cross_attention.reference(drawn(2, 4), drawn(3, 4), *drawn(3, 4, 5)).shape == (2, 5)


def test_the_examples_of_the_statements():
    one, eye = np.ones((1, 1)), np.eye(2)
    across = cross_attention.reference(np.array([[0.0], [9.0]]), np.array([[1.0], [2.0], [6.0]]), one, one, one)
    assert across == pytest.approx(np.array([[3], [6]]), abs=1e-12)
    tokens = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    several = multi_head_attention.reference(tokens, eye, eye, eye, eye, 2)
    assert several == pytest.approx(np.array([[3, 3], [9, 3], [3, 9]]), abs=1e-12)
    assert "[[3], [6]]" in cross_attention.statement and "[[3, 3], [9, 3], [3, 9]]" in multi_head_attention.statement
    wide = attention(tokens, tokens, tokens).output
    assert np.abs(wide - several).max() > 2.9  # so that the example shows what heads change


def test_the_card_on_a_swap_that_was_forgotten_shows_another_shape_than_expected():
    """As many heads as tokens would hide it: the numbers too are then those of a bare reshape."""
    shown = split_heads.judge(lambda x, h: x.reshape(*x.shape[:2], h, -1)).comparison
    assert shown.expected.endswith("shape (1, 2, 4, 2)") and shown.received.endswith("shape (1, 4, 2, 2)")


def test_what_the_cards_say_of_heads_is_so():
    """A twin does what its words say: no token sees another; a head sees its own slice; no head has its own weights."""
    x, (W_q, W_k, W_v, _), eye, n_heads = drawn(3, 6), drawn(4, 6, 6, seed=1), np.eye(6), 2
    other_token, last_feature = x.copy(), x.copy()
    other_token[1:] += 1
    last_feature[:, -1] += 1

    def changed(function, given):
        before, after = (function(tokens, W_q, W_k, W_v, eye, n_heads) for tokens in (x, given))
        return np.abs(after - before)

    among_heads = twin(multi_head_attention, "cut: tokens before heads")
    assert changed(among_heads, other_token)[0].max() == 0
    assert changed(multi_head_attention.reference, other_token)[0].max() > 0.1
    own_slice = twin(multi_head_attention, "matrices: own slice")
    assert changed(own_slice, last_feature)[:, :3].max() == 0
    assert changed(multi_head_attention.reference, last_feature)[:, :3].max() > 0.1


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def tensors(*arrays):
    return (torch.as_tensor(a, dtype=torch.float64) for a in arrays)


def cross_torch_style(decoder, encoder, W_q, W_k, W_v):
    decoder, encoder, W_q, W_k, W_v = tensors(decoder, encoder, W_q, W_k, W_v)
    return F.scaled_dot_product_attention(decoder @ W_q, encoder @ W_k, encoder @ W_v)


def cross_with_linear(decoder, encoder, W_q, W_k, W_v):
    decoder, encoder, W_q, W_k, W_v = tensors(decoder, encoder, W_q, W_k, W_v)
    q, k, v = F.linear(decoder, W_q), F.linear(encoder, W_k), F.linear(encoder, W_v)
    return F.scaled_dot_product_attention(q, k, v)


def mixed(three):
    """An answer made of queries, keys and values."""
    return lambda *given: attention(*three(*given)).output


def divided_by(divisor, axis=-1):
    return lambda d, e, q, k, v: softmax(d @ q @ k.T @ e.T / divisor(d, k), axis=axis) @ e @ v


def with_divisor(divisor):
    """Cross-attention whose scores are divided by a number that queries and keys give."""

    def answer(decoder, encoder, W_q, W_k, W_v):
        q, k = decoder @ W_q, encoder @ W_k
        return softmax(q @ k.T / divisor(q, k)) @ (encoder @ W_v)

    return answer


def cross_loop(decoder, encoder, W_q, W_k, W_v):
    out = []
    for token in decoder:
        scores = encoder @ W_k @ (W_q.T @ token)
        out.append(softmax(scores / np.sqrt(W_q.shape[1])) @ encoder @ W_v)
    return np.array(out)


def without_softmax(d, e, W_q, W_k, W_v):
    return (d @ W_q) @ (e @ W_k).T / W_k.shape[1] ** 0.5 @ (e @ W_v)


def naive_softmax(d, e, W_q, W_k, W_v):
    exps = np.exp((d @ W_q) @ (e @ W_k).T / W_k.shape[1] ** 0.5)
    return exps / exps.sum(axis=1)[:, None] @ (e @ W_v)


def view_torch_style(x, n_heads):
    return x.view(x.shape[0], n_heads, -1, x.shape[2] // n_heads)


def view_and_transpose(x, n_heads):
    return x.view(x.size(0), x.size(1), n_heads, x.size(2) // n_heads).transpose(1, 2)


def exchanged_torch_style(x, n_heads):
    return torch.from_numpy(x).unflatten(-1, (n_heads, -1)).transpose(0, 1)


def permuted_for_scores(x, n_heads):
    return x.view(*x.shape[:2], n_heads, -1).permute(0, 2, 3, 1)


def split_by_list(x, n_heads):
    d_head = x.shape[-1] // n_heads
    return np.array([x[:, :, i : i + d_head] for i in range(0, x.shape[-1], d_head)])


def reshape_and_transpose(x, n_heads):
    return x.reshape(x.shape[0], x.shape[1], n_heads, x.shape[2] // n_heads).transpose(1, 2)


def joined(by_token, heads):
    return by_token.reshape(len(heads), heads.shape[2], -1)


def contiguous_view(heads):
    b, h, n, d = heads.shape
    return heads.transpose(1, 2).contiguous().view(b, n, h * d)


def tokens_then_batch(heads):
    return heads.transpose(2, 0, 1, 3).reshape(heads.shape[2], len(heads), -1)


def in_one_row(heads):
    return heads.view(heads.size(0), heads.size(2), -1)


def with_cut(cut, join, scale=None):
    """Batched multi-head attention with a way to cut into heads and a way to join them."""

    def answer(x, W_q, W_k, W_v, W_o, n_heads):
        n, d = x.shape
        q, k, v = (cut(x @ W, n, n_heads, d // n_heads) for W in (W_q, W_k, W_v))
        weights = softmax(q @ k.swapaxes(-2, -1) / np.sqrt(scale(d) if scale else q.shape[-1]))
        return join(weights @ v, n, d) @ W_o

    return answer


def cut_and_swap(z, n, h, d):
    return z.reshape(n, h, d).swapaxes(0, 1)


def cut_by_reshape(z, n, h, d):
    return z.reshape(h, n, d)


def cut_by_token(z, n, h, d):
    return z.reshape(n, h, d)


def swap_and_join(z, n, d):
    return z.swapaxes(0, 1).reshape(n, d)


def join_by_reshape(z, n, d):
    return z.reshape(n, d)


def loop_over_heads(head, join=np.hstack):
    """`head` gets the tokens, the four matrices, and the place of the head's features."""

    def answer(x, W_q, W_k, W_v, W_o, n_heads):
        d = x.shape[1] // n_heads
        return join([head(x, W_q, W_k, W_v, W_o, slice(h * d, h * d + d)) for h in range(n_heads)])

    return answer


def one_head(x, W_q, W_k, W_v, W_o, own):
    return attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own]).output


def one_head_through_its_rows(x, W_q, W_k, W_v, W_o, own):
    return one_head(x, W_q, W_k, W_v, W_o, own) @ W_o[own]


def one_head_through_its_columns(x, W_q, W_k, W_v, W_o, own):
    return one_head(x, W_q, W_k, W_v, W_o, own) @ W_o[:, own].T


def projected(answer):
    return lambda x, q, k, v, o, n_heads: answer(x, q, k, v, o, n_heads) @ o


def head_of_a_slice(x, W_q, W_k, W_v, W_o, own):
    x = x[:, own]
    return attention(x @ W_q[own, own], x @ W_k[own, own], x @ W_v[own, own]).output


def head_of_rows(x, W_q, W_k, W_v, W_o, own):
    return attention(x @ W_q[own].T, x @ W_k[own].T, x @ W_v[own].T).output


def head_that_mixes_keys(x, W_q, W_k, W_v, W_o, own):
    keys = x @ W_k[:, own]
    return attention(x @ W_q[:, own], keys, keys).output


def head_turned(x, W_q, W_k, W_v, W_o, own):
    scores = (x @ W_k[:, own]) @ (x @ W_q[:, own]).T
    return softmax(scores / np.sqrt(own.stop - own.start)) @ x @ W_v[:, own]


def every_nth_column(x, W_q, W_k, W_v, W_o, n_heads):
    heads = [attention(x @ W_q[:, h::n_heads], x @ W_k[:, h::n_heads], x @ W_v[:, h::n_heads]) for h in range(n_heads)]
    return np.hstack([h.output for h in heads]) @ W_o


def every_nth_row_too(x, W_q, W_k, W_v, W_o, n_heads):
    heads = [attention(x @ W_q[:, h::n_heads], x @ W_k[:, h::n_heads], x @ W_v[:, h::n_heads]) for h in range(n_heads)]
    return sum(h.output @ W_o[i::n_heads] for i, h in enumerate(heads))


def one_softmax_for_all(x, W_q, W_k, W_v, W_o, n_heads):
    x, W_q, W_k, W_v, W_o = tensors(x, W_q, W_k, W_v, W_o)
    q, k, v = (split(x @ W, n_heads) for W in (W_q, W_k, W_v))
    scores = torch.einsum("hqd,hkd->qhk", q, k) / q.shape[-1] ** 0.5
    weights = scores.flatten(1).softmax(dim=-1).view(scores.shape)
    return torch.einsum("qhk,hkd->qhd", weights, v).flatten(1) @ W_o


def same_weights_for_all(x, W_q, W_k, W_v, W_o, n_heads):
    weights = attention(*(split(x @ W, n_heads) for W in (W_q, W_k, W_v))).weights.mean(axis=0)
    return weights @ x @ W_v @ W_o


def with_linear(x, W_q, W_k, W_v, W_o, n_heads):
    x, W_q, W_k, W_v, W_o = tensors(x, W_q, W_k, W_v, W_o)
    q, k, v = (F.linear(x, W).view(len(x), n_heads, -1).transpose(0, 1) for W in (W_q, W_k, W_v))
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1), W_o)


def heads_torch_style(x, W_q, W_k, W_v, W_o, n_heads):
    x, W_q, W_k, W_v, W_o = tensors(x, W_q, W_k, W_v, W_o)
    q, k, v = ((x @ W).unflatten(1, (n_heads, -1)).transpose(0, 1) for W in (W_q, W_k, W_v))
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1) @ W_o


def torchs_own(x, W_q, W_k, W_v, W_o, n_heads):
    x, W_q, W_k, W_v, W_o = tensors(x, W_q, W_k, W_v, W_o)
    q = x[:, None]  # one sentence, with the sequence first
    packed, nothing = torch.cat([W_q.T, W_k.T, W_v.T]), (None, None, None, False, 0.0)
    output, _ = F.multi_head_attention_forward(q, q, q, len(W_o), n_heads, packed, *nothing, W_o.T, None)
    return output[:, 0]


def stored_in_zeros_like(x, W_q, W_k, W_v, W_o, n_heads):
    out, d = np.zeros_like(x), x.shape[1] // n_heads
    for h in range(n_heads):
        own = slice(h * d, h * d + d)
        out[:, own] = one_head(x, W_q, W_k, W_v, W_o, own)
    return out @ W_o


BY_HAND_HEADS = [
    (cross_attention, with_divisor(lambda q, k: len(q) ** 0.5), ("scale: by n_q",)),
    (cross_attention, with_divisor(lambda q, k: len(k) ** 0.5), ("scale: by n_k",)),
    (cross_attention, with_divisor(lambda q, k: 2 * k.shape[1]), ("scale: by 2 d_head",)),
    (cross_attention, with_divisor(lambda q, k: k.shape[1] ** -0.5), ("scale: times",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (e @ q, d @ k, d @ v)), ("sources: exchanged",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, d @ k, d @ v)), ("sources: decoder alone",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (e @ q, e @ k, e @ v)), ("sources: encoder alone",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, e @ k, d @ v)), ("sources: values from the decoder",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, d @ k, e @ v)), ("sources: keys from the decoder",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (e @ q, d @ k, e @ v)), ("sources: queries and keys exchanged",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (e @ k, d @ q, e @ v)), ("table: keys first",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ k, e @ q, e @ v)), ("matrices: W_q and W_k exchanged",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, e @ k, e @ k)), ("matrices: W_k for the values",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, e @ v, e @ k)), ("matrices: W_k and W_v exchanged",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, e @ q, e @ v)), ("matrices: W_q for the keys",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d @ q, e @ k, e)), ("matrices: values not projected",)),
    (cross_attention, mixed(lambda d, e, q, k, v: (d, e, e)), ("matrices: none",)),
    (cross_attention, lambda d, e, q, k, v: attention(d @ q, e @ k, e @ v).weights, ("mix: weights only",)),
    (cross_attention, lambda d, e, q, k, v: softmax(d @ q @ (e @ k).T) @ e @ v, ("scale: none",)),
    (cross_attention, divided_by(lambda d, k: d.shape[-1] ** 0.5), ("scale: by the whole width",)),
    (cross_attention, divided_by(lambda d, k: k.shape[-1]), ("scale: by d_head",)),
    (cross_attention, divided_by(lambda d, k: k.shape[-1] ** 0.5, axis=0), ("axis: queries",)),
    (cross_attention, lambda d, e, q, k, v: softmax(e @ q @ (d @ k).T) @ d @ v, ("sources: exchanged", "scale: none")),
    (cross_attention, cross_with_linear, ("matrices: transposed",)),
    (cross_attention, without_softmax, ("mix: scores",)),
    (cross_attention, naive_softmax, ("shift: none",)),
    (cross_attention, cross_torch_style, ()),
    (cross_attention, cross_loop, ()),
    (cross_attention, lambda d, e, q, k, v: attention(d @ q, e @ k, e).output @ v, ()),
    (split_heads, view_torch_style, ("cut: reshape alone",)),
    (split_heads, lambda x, h: x.reshape(len(x), h, x.shape[1], -1), ("cut: reshape alone",)),
    (
        split_heads,
        lambda x, h: x.reshape(len(x) * h, -1, x.shape[2] // h),
        ("cut: reshape alone", "order: heads in the batch"),
    ),
    (split_heads, lambda x, h: np.stack(np.split(x, h, axis=-1)), ("order: heads before the batch",)),
    (split_heads, lambda x, h: np.concatenate(np.split(x, h, axis=-1)), ("heads in the batch, heads first",)),
    (split_heads, split_by_list, ("order: heads before the batch",)),
    (split_heads, lambda x, h: x.reshape(*x.shape[:2], h, -1), ("order: tokens before heads",)),
    (split_heads, lambda x, h: x.reshape(*x.shape[:2], h, -1).swapaxes(0, 1), ("order: axes 0 and 1 exchanged",)),
    (split_heads, exchanged_torch_style, ("order: axes 0 and 1 exchanged",)),
    (split_heads, lambda x, h: np.stack([x[..., i::h] for i in range(h)], axis=1), ("cut: interleaved",)),
    (split_heads, lambda x, h: x.reshape(*x.shape[:2], -1, h).swapaxes(1, 2), ("cut: sizes exchanged",)),
    (split_heads, lambda x, h: np.stack(np.split(x, h, axis=1), axis=1), ("tokens cut",)),
    (split_heads, lambda x, h: x.swapaxes(1, 2).reshape(len(x), h, x.shape[1], -1), ("turned, then reshaped",)),
    (split_heads, permuted_for_scores, ("order: features before tokens",)),
    (split_heads, view_and_transpose, ()),
    (split_heads, lambda x, h: torch.stack(torch.as_tensor(x).chunk(h, dim=-1), dim=1), ()),
    (split_heads, lambda x, h: np.stack(np.split(x, h, axis=2), axis=1), ()),
    (split_heads, reshape_and_transpose, ()),
    (split_heads, lambda x, h: np.array([np.hsplit(sentence, h) for sentence in x]), ()),
    (merge_heads, lambda x: x.reshape(len(x), x.shape[2], -1), ("order: reshape alone",)),
    (merge_heads, in_one_row, ("order: reshape alone",)),
    (merge_heads, lambda x: x.transpose(0, 2, 3, 1).reshape(len(x), x.shape[2], -1), ("order: interleaved",)),
    (merge_heads, lambda x: joined(np.stack(list(x.swapaxes(0, 1)), axis=-1), x), ("order: interleaved",)),
    (merge_heads, lambda x: joined(x.swapaxes(-2, -1), x), ("order: tokens and features exchanged",)),
    (merge_heads, lambda x: joined(x.swapaxes(0, 1), x), ("order: batch and heads exchanged",)),
    (merge_heads, lambda x: x.transpose(0, 2, 1, 3), ("result: not joined",)),
    (merge_heads, lambda x: x.swapaxes(2, 3).reshape(len(x), -1, x.shape[2]), ("result: features before tokens",)),
    (merge_heads, lambda x: joined(x.swapaxes(1, 2), x).swapaxes(0, 1), ("result: tokens before the batch",)),
    (merge_heads, tokens_then_batch, ("result: tokens before the batch",)),
    (merge_heads, lambda x: np.concatenate(list(x), axis=-1), ("sentences joined",)),
    (merge_heads, lambda x: np.concatenate(list(x.swapaxes(0, 1)), axis=1), ("one after the other",)),
    (merge_heads, lambda x: sum(x[:, i] for i in range(x.shape[1])), ("added",)),
    (merge_heads, lambda x: x.mean(1), ("averaged",)),
    (merge_heads, contiguous_view, ()),
    (merge_heads, lambda x: x.transpose(1, 2).flatten(2), ()),
    (merge_heads, lambda x: np.dstack([x[:, i] for i in range(x.shape[1])]), ()),
    (merge_heads, lambda x: torch.cat(torch.as_tensor(x).unbind(1), dim=-1), ()),
    (multi_head_attention, with_cut(cut_and_swap, swap_and_join, scale=lambda d: d), ("scale: by the whole width",)),
    (multi_head_attention, with_cut(cut_and_swap, swap_and_join, scale=lambda d: 1), ("scale: none",)),
    (multi_head_attention, with_cut(cut_by_reshape, swap_and_join), ("cut: reshape alone",)),
    (multi_head_attention, with_cut(cut_and_swap, join_by_reshape), ("join: reshape alone",)),
    (multi_head_attention, with_cut(cut_by_reshape, join_by_reshape), ("cut: reshape alone", "join: reshape alone")),
    (multi_head_attention, with_cut(cut_by_token, join_by_reshape), ("cut: tokens before heads",)),
    (multi_head_attention, projected(loop_over_heads(head_of_a_slice)), ("matrices: own slice",)),
    (multi_head_attention, projected(loop_over_heads(head_of_rows)), ("matrices: transposed",)),
    (multi_head_attention, projected(loop_over_heads(head_that_mixes_keys)), ("matrices: W_k for the values",)),
    (multi_head_attention, projected(loop_over_heads(head_turned)), ("scores: exchanged",)),
    (multi_head_attention, loop_over_heads(one_head), ("output: left out",)),
    (multi_head_attention, loop_over_heads(one_head, join=sum), ("heads added",)),
    (multi_head_attention, loop_over_heads(one_head, join=lambda heads: np.mean(heads, axis=0)), ("heads averaged",)),
    (multi_head_attention, loop_over_heads(one_head_through_its_columns, join=sum), ("output: transposed",)),
    (multi_head_attention, lambda x, q, k, v, o, h: attention(x @ q, x @ k, x @ v).output @ o, ("cut: none",)),
    (multi_head_attention, every_nth_column, ("cut: interleaved",)),
    (multi_head_attention, every_nth_row_too, ("cut: interleaved", "join: interleaved")),
    (multi_head_attention, one_softmax_for_all, ("axis: heads and keys",)),
    (multi_head_attention, same_weights_for_all, ("mix: averaged weights",)),
    (multi_head_attention, with_linear, ("matrices: transposed", "output: transposed")),
    (multi_head_attention, stored_in_zeros_like, ("storage: like x",)),
    (multi_head_attention, with_cut(cut_and_swap, swap_and_join), ()),
    (multi_head_attention, projected(loop_over_heads(one_head)), ()),
    (multi_head_attention, loop_over_heads(one_head_through_its_rows, join=sum), ()),
    (multi_head_attention, heads_torch_style, ()),
    (multi_head_attention, torchs_own, ()),
]  # fmt: skip
BY_HAND = [*BY_HAND_HEADS, *test_exercises_ch4_layer.BY_HAND, *test_exercises_ch4_real.BY_HAND]


def test_integers_that_cut_off_fractions_and_a_mistake_are_both_named():
    def answer(x, W_q, W_k, W_v, W_o, n_heads):
        out, d = np.zeros_like(x), x.shape[1] // n_heads
        for h in range(n_heads):
            own = slice(h * d, h * d + d)
            scores = (x @ W_q[:, own]) @ (x @ W_k[:, own]).T / x.shape[1] ** 0.5
            out[:, own] = softmax(scores) @ x @ W_v[:, own]
        return out @ W_o

    verdict = multi_head_attention.judge(answer)
    assert verdict.turns == (("scale: by the whole width",),) and verdict.remarks == ("integers",)


def test_what_attention_returns_beside_its_output_is_told_apart():
    verdict = cross_attention.judge(lambda d, e, q, k, v: attention(d @ q, e @ k, e @ v))
    assert not verdict.correct and any("its item 0 would be right" in words for words in verdict.words)
