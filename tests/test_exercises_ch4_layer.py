"""Chapter 4's exercises on the layer and its weights: against torch, and answers as people type them.

The proof of the checker: `test_exercises.py`. BY_HAND is run there too, through `test_exercises_ch4`.
"""

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may

from attnlab import attention, softmax
from attnlab.exercises.ch4_multi_head.mask_for_torch import mask_for_torch
from attnlab.exercises.ch4_multi_head.other_basis import other_basis
from attnlab.exercises.ch4_multi_head.permute_heads import permute_heads
from attnlab.exercises.ch4_multi_head.sequence_first import sequence_first
from attnlab.heads import MultiHeadAttention
from attnlab.masks import to_torch_mha

ONES = [mask_for_torch, sequence_first, permute_heads, other_basis]


def torch_layer(d_model, n_heads, **options):
    layer = torch.nn.MultiheadAttention(d_model, n_heads, bias=False, dtype=torch.float64, **options)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.from_numpy(np.random.default_rng(3).normal(size=weight.shape)))
    return layer.eval()


def own_layer(W_q, W_k, W_v, W_o, n_heads):
    """The course's layer with these weights.  nn.Linear stores the transpose."""
    layer = MultiHeadAttention(len(W_q), n_heads, bias=False).double()
    with torch.no_grad():
        for name, W in {"W_q": W_q, "W_k": W_k, "W_v": W_v, "W_o": W_o}.items():
            getattr(layer, name).weight.copy_(torch.from_numpy(np.array(W)).T)
    return layer


# ---- the references, against the outside ---------------------------------------------------------------------------


@torch.no_grad()
def test_torchs_layer_reads_the_mask_of_the_reference_and_misreads_the_tiled_one():
    """Two samples, two heads: no error in the order [M0, M0, M1, M1], a large one in [M0, M1, M0, M1]."""
    layer, x = torch_layer(4, 2, batch_first=True), torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3, 4)))
    allowed = np.tri(3, dtype=bool) & np.array([[[True, True, True]], [[True, False, False]]])
    expected = MultiHeadAttention.from_torch(layer)(x, mask=torch.from_numpy(allowed)).output

    def error(mask, samples=slice(None)):
        inputs = x[samples]
        got, _ = layer(inputs, inputs, inputs, attn_mask=torch.from_numpy(mask), need_weights=False)
        return float((got - expected[samples]).abs().max())

    assert error(mask_for_torch.reference(allowed, 2)) < 1e-12
    assert error(~np.tile(allowed, (2, 1, 1))) > 0.1
    one = ~np.tile(allowed[1:], (2, 1, 1))  # a batch of one hides it
    assert error(one, slice(1, None)) < 1e-12


@pytest.mark.parametrize("size", [(1, 1, 2, 3), (2, 3, 3, 3), (3, 2, 1, 4)])
def test_the_mask_is_the_packages_own(size):
    n_samples, n_heads, n_q, n_k = size
    allowed = np.random.default_rng(5).random((n_samples, n_q, n_k)) < 0.5
    assert np.array_equal(mask_for_torch.reference(allowed, n_heads), to_torch_mha(allowed, n_heads))


@torch.no_grad()
@pytest.mark.parametrize("size", [(3, 2, 4), (3, 3, 4), (1, 2, 2), (4, 1, 2)])
def test_sequence_first_is_torchs_layer_without_projections(size):
    layer, x = torch_layer(size[-1], 1), np.random.default_rng(2).normal(size=size)
    eye = torch.eye(size[-1], dtype=torch.float64)
    layer.in_proj_weight.copy_(torch.cat([eye, eye, eye]))
    layer.out_proj.weight.copy_(eye)
    assert not layer.batch_first  # torch's default, which the exercise is about
    given = torch.from_numpy(x)
    assert np.allclose(layer(given, given, given)[0].numpy(), sequence_first.reference(x), rtol=0, atol=1e-12)
    changed = x.copy()
    changed[:, -1] += 1.0
    others = slice(None, -1)
    now, before = sequence_first.reference(changed), sequence_first.reference(x)
    assert np.array_equal(now[:, others], before[:, others]) and not np.allclose(now[:, -1], before[:, -1])


@torch.no_grad()
@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0, 3], [1, 0]])
def test_heads_come_in_the_order_that_was_asked_for_and_the_output_stays(order):
    rng, n_heads = np.random.default_rng(4), len(order)
    old = rng.normal(size=(4, 2 * n_heads, 2 * n_heads))
    new = permute_heads.reference(*old, np.array(order))
    x = torch.from_numpy(rng.normal(size=(2, 5, 2 * n_heads)))
    before, after = own_layer(*old, n_heads)(x), own_layer(*new, n_heads)(x)
    assert torch.allclose(after.output, before.output, rtol=0, atol=1e-12)
    assert torch.allclose(after.weights, before.weights[:, order], rtol=0, atol=1e-12)
    assert not torch.allclose(after.weights, before.weights, rtol=0, atol=1e-2)
    with_old_W_o = own_layer(*new[:3], old[3], n_heads)(x)
    assert float((with_old_W_o.output - before.output).abs().max()) > 0.1


def test_another_basis_changes_queries_and_keys_and_neither_weights_nor_output():
    rng = np.random.default_rng(6)
    x, values = rng.normal(size=(5, 4)), rng.normal(size=(5, 3))
    W_q, W_k, M = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), np.array([[2.0, 1.0], [0.5, -1.0]])
    new_W_q, new_W_k = other_basis.reference(W_q, W_k, M)
    before, after = attention(x @ W_q, x @ W_k, values), attention(x @ new_W_q, x @ new_W_k, values)
    assert np.allclose(x @ new_W_q, x @ W_q @ M, rtol=0, atol=1e-12)
    assert np.allclose(after.weights, before.weights, rtol=0, atol=1e-12)
    assert np.allclose(after.output, before.output, rtol=0, atol=1e-12)
    assert np.abs(x @ new_W_k - x @ W_k).max() > 0.1
    like_the_queries = attention(x @ new_W_q, x @ W_k @ M, values)
    assert np.abs(like_the_queries.weights - before.weights).max() > 0.1


@pytest.mark.parametrize(
    ("one", "statement", "result"),
    [
        (mask_for_torch, ([[[1, 1]], [[1, 0]]], 2), [[[0, 0]], [[0, 0]], [[0, 1]], [[0, 1]]]),
        (sequence_first, ([[[0], [3]], [[0], [3]]],), [[[0], [3]], [[0], [3]]]),
        (other_basis, ([[1, 2]], [[3, 1]], [[2, 0], [0, 4]]), [[[2, 8]], [[1.5, 0.25]]]),
    ],
)
def test_the_examples_of_the_statements(one, statement, result):
    kind = bool if one is mask_for_torch else float
    given = [np.array(a, dtype=kind) if isinstance(a, list) else a for a in statement]
    assert one.reference(*given).tolist() == np.array(result, dtype=kind).tolist()
    for number in result:  # each is printed there, as it stands here
        assert str(number) in " ".join(one.statement.split())


def test_the_example_of_permute_heads():
    rows = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    new = permute_heads.reference(rows, rows, rows, rows, np.array([2, 0, 1]))
    assert new[:3].tolist() == [[[3, 1, 2], [6, 4, 5], [9, 7, 8]]] * 3
    assert new[3].tolist() == [[7, 8, 9], [1, 2, 3], [4, 5, 6]]
    features = permute_heads.reference(*[np.arange(36).reshape(6, 6)] * 4, np.array([2, 0, 1]))[0, 0]
    assert features.tolist() == [4, 5, 0, 1, 2, 3] and str(features.tolist()) in permute_heads.hints[0]


# ---- what the probes must be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_no_ordinary_probe_hides_what_it_is_there_to_show(seed):
    batches = [p.arguments for p in mask_for_torch.ordinary(seed)]
    assert sum(allowed.all() for allowed, _ in batches) == 2  # evidence of masks that are infinite elsewhere
    for allowed, n_heads in batches[:-2]:
        assert len(allowed) > 1 and n_heads > 1 and len({one.sum() for one in allowed}) == len(allowed)
    for *_, order in (p.arguments for p in permute_heads.ordinary(seed)):
        assert sorted(order) == list(range(len(order))) and not np.array_equal(order[order], np.arange(len(order)))
    for _, _, M in (p.arguments for p in other_basis.ordinary(seed)):
        assert np.linalg.cond(M) < 5
        assert min(np.abs(M - M.T).max(), np.abs(M @ M.T - np.eye(len(M))).max()) > 1e-3


@pytest.mark.parametrize("one", ONES)
def test_silence_is_probed_and_both_dtypes_are(one):
    arrays = [a for p in one.ordinary() for a in p.arguments if isinstance(a, np.ndarray)]
    kinds = {a.dtype.char for a in arrays} & set("fd")
    assert kinds == (set() if one is mask_for_torch else {"f", "d"})
    square = {
        mask_for_torch: lambda allowed, n_heads: len(allowed) == n_heads,
        sequence_first: lambda x: x.shape[0] == x.shape[1],
        permute_heads: lambda *given: len(given[0]) == len(given[-1]) ** 2,
        other_basis: lambda W_q, W_k, M: W_q.shape == M.shape,
    }[one]
    assert {square(*p.arguments) for p in one.ordinary()} == {True, False}


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def mask_torch_style(allowed, n_heads):
    return torch.repeat_interleave(~torch.as_tensor(allowed), n_heads, dim=0)


def mask_torch_style_added(allowed, n_heads):
    forbidden = mask_torch_style(allowed, n_heads)
    return torch.zeros(forbidden.shape).masked_fill(forbidden, -torch.inf)


def mask_torch_style_repeated(allowed, n_heads):
    return (~torch.as_tensor(allowed)).repeat(n_heads, 1, 1)


def mask_expanded(allowed, n_heads):
    allowed = torch.as_tensor(allowed)
    b, q, k = allowed.shape
    return allowed.logical_not().unsqueeze(1).expand(b, n_heads, q, k).reshape(b * n_heads, q, k)


def mask_heads_before_samples(allowed, n_heads):
    b, q, k = allowed.shape
    return ~np.broadcast_to(allowed[None], (n_heads, b, q, k)).reshape(b * n_heads, q, k)


def mask_of_heads_last(allowed, n_heads):
    b, q, k = allowed.shape
    return ~np.broadcast_to(allowed[..., None], (b, q, k, n_heads)).reshape(b * n_heads, q, k)


def per_sample(f):
    """Apply a function of (n, d) to every sample, the sequence first."""
    return lambda x: np.stack([f(x[:, b]) for b in range(x.shape[1])], axis=1)


def plain(t):
    return softmax(t @ t.T / np.sqrt(t.shape[-1])) @ t


def batched(x):
    return softmax(x @ x.transpose(0, 2, 1) / np.sqrt(x.shape[2])) @ x


def turned_forth_and_back(x):
    samples = x.T
    return (softmax(samples @ samples.swapaxes(1, 2) / np.sqrt(x.shape[-1])) @ samples).T


def keys_turned(x):
    samples = x.swapaxes(0, 1)
    return (softmax(samples @ samples.T / np.sqrt(x.shape[-1])) @ samples).swapaxes(0, 1)


def by_attention(x):
    samples = x.swapaxes(0, 1)
    return attention(samples, samples, samples).output.swapaxes(0, 1)


def sdpa(x):
    samples = torch.as_tensor(x).transpose(0, 1)
    return torch.nn.functional.scaled_dot_product_attention(samples, samples, samples).transpose(0, 1)


def sdpa_as_it_came(x):
    x = torch.as_tensor(x)
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def flattened(x):
    return plain(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def stored_in_zeros_like(x):
    out = np.zeros_like(x)
    for b in range(x.shape[1]):
        out[:, b] = plain(x[:, b])
    return out


def without_a_shift(t):
    e = np.exp(t @ t.T / t.shape[-1] ** 0.5)
    return e / e.sum(axis=1, keepdims=True) @ t


def softmax_over_samples(x):
    weights = softmax(np.einsum("qbd,kbd->qkb", x, x) / x.shape[2] ** 0.5)
    return np.einsum("qkb,kbd->qbd", weights, x)


def heads_of(W, order, axis):
    return np.concatenate([np.split(W, len(order), axis=axis)[h] for h in order], axis=axis)


def three_and(projection, output):
    """An answer made of what it does to W_q, W_k, W_v and what it does to W_o."""
    return lambda q, k, v, o, order: np.stack([*(projection(W, order) for W in (q, k, v)), output(o, order)])


def columns(W, order):
    return heads_of(W, order, 1)


def rows(W, order):
    return heads_of(W, order, 0)


def same(W, order):
    return W


def inverse(order):
    return np.argsort(order)


def heads_put_where_the_order_says(W_q, W_k, W_v, W_o, order):
    d = len(W_o) // len(order)
    new = [np.empty_like(W) for W in (W_q, W_k, W_v, W_o)]
    for i, place in enumerate(order):
        old, to = slice(i * d, i * d + d), slice(place * d, place * d + d)
        for a, W in zip(new, (W_q, W_k, W_v), strict=False):
            a[:, to] = W[:, old]
        new[3][to] = W_o[old]
    return np.array(new)


def queries_alone(W_q, W_k, W_v, W_o, order):
    return np.stack([columns(W_q, order), W_k, W_v, rows(W_o, order)])


def strided(W_q, W_k, W_v, W_o, order):
    d, h = len(W_o), len(order)
    q, k, v = (W.reshape(d, d // h, h)[:, :, order].reshape(d, d) for W in (W_q, W_k, W_v))
    return np.stack([q, k, v, W_o.reshape(d // h, h, d)[:, order].reshape(d, d)])


def rolled_in_place(W_q, W_k, W_v, W_o, order):
    d = len(W_o) // len(order)
    for i, h in enumerate(order):
        for W in (W_q.T, W_k.T, W_v.T, W_o):
            W[i * d : (i + 1) * d] = W[h * d : (h + 1) * d]
    return np.stack([W_q, W_k, W_v, W_o])


def heads_torch_style(W_q, W_k, W_v, W_o, order):
    d, h = W_o.shape[0], len(order)
    moved = torch.arange(d).view(h, -1)[torch.as_tensor(order)].flatten()
    three = [torch.as_tensor(W).index_select(1, moved) for W in (W_q, W_k, W_v)]
    return torch.stack([*three, torch.as_tensor(W_o).index_select(0, moved)])


def basis_torch_style(W_q, W_k, M):
    W_q, W_k, M = (torch.as_tensor(a, dtype=torch.float64) for a in (W_q, W_k, M))
    return torch.stack([W_q @ M, torch.linalg.solve(M, W_k.mT).mT])


def basis_stored_like_the_weights(W_q, W_k, M):
    new = np.zeros((2, *W_q.shape), dtype=W_q.dtype)
    new[0], new[1] = W_q @ M, W_k @ inv(M).T
    return new


inv = np.linalg.inv

BY_HAND = [
    (mask_for_torch, lambda a, h: ~np.concatenate([a] * h), ("copies: whole batch",)),
    (mask_for_torch, lambda a, h: np.concatenate([a] * h), ("copies: whole batch", "polarity: not turned")),
    (mask_for_torch, lambda a, h: 1 - np.tile(a, (h, 1, 1)), ("copies: whole batch", "kind: numbers")),
    (mask_for_torch, lambda a, h: np.repeat(a, h, axis=0), ("polarity: not turned",)),
    (mask_for_torch, lambda a, h: 1.0 - np.repeat(a, h, axis=0), ("kind: numbers",)),
    (mask_for_torch, lambda a, h: ~a, ("copies: none",)),
    (mask_for_torch, lambda a, h: ~np.stack([a] * h, axis=1), ("copies: four axes",)),
    (mask_for_torch, lambda a, h: ~np.stack([a] * h), ("copies: four axes, heads first",)),
    (mask_for_torch, lambda a, h: ~np.repeat(a, h).reshape(-1, *a.shape[1:]), ("copies: entries",)),
    (mask_for_torch, lambda a, h: ~np.repeat(a, h, 1).reshape(-1, *a.shape[1:]), ("copies: rows",)),
    (mask_for_torch, lambda a, h: ~np.tile(a, h).reshape(-1, *a.shape[1:]), ("copies: rows",)),
    (mask_for_torch, lambda a, h: np.where(np.repeat(a, h, axis=0), 0, -np.inf), ("kind: 0 and −∞",)),
    (mask_for_torch, mask_torch_style_added, ("kind: 0 and −∞",)),
    (mask_for_torch, lambda a, h: ~np.repeat(a.astype(int), h, axis=0), ("bits turned",)),
    (mask_for_torch, mask_torch_style_repeated, ("copies: whole batch",)),
    (mask_for_torch, mask_heads_before_samples, ("copies: whole batch",)),
    (mask_for_torch, mask_of_heads_last, ("copies: entries",)),
    (mask_for_torch, mask_torch_style, ()),
    (mask_for_torch, mask_expanded, ()),
    (mask_for_torch, lambda a, h: np.stack([~a] * h, axis=1).reshape(-1, *a.shape[1:]), ()),
    (mask_for_torch, lambda a, h: np.array([np.logical_not(one) for one in a for _ in range(h)]), ()),
    (mask_for_torch, lambda a, h: np.kron(~a, np.ones((h, 1, 1), dtype=bool)), ()),
    (sequence_first, batched, ("batch: axis 0",)),
    (sequence_first, sdpa_as_it_came, ("batch: axis 0",)),
    (sequence_first, lambda x: batched(x.swapaxes(0, 1)), ("end: batch first",)),
    (sequence_first, lambda x: np.stack([plain(x[:, b]) for b in range(x.shape[1])]), ("end: batch first",)),
    (sequence_first, lambda x: batched(x.swapaxes(0, 1)).reshape(x.shape), ("end: reshaped",)),
    (
        sequence_first,
        lambda x: batched(x.reshape(x.shape[1], x.shape[0], -1)).reshape(x.shape),
        ("batch: reshaped", "end: reshaped"),
    ),
    (sequence_first, turned_forth_and_back, ("batch: all axes turned",)),
    (sequence_first, keys_turned, ("keys: all axes turned",)),
    (sequence_first, lambda x: softmax(x @ x.T / np.sqrt(x.shape[-1])) @ x, ("x times x.T",)),
    (sequence_first, lambda x: batched(x.swapaxes(0, 1)).T, ("end: all axes turned",)),
    (sequence_first, flattened, ("batch: all tokens together",)),
    (sequence_first, per_sample(lambda t: softmax(t @ t.T) @ t), ("scale: none",)),
    (sequence_first, per_sample(lambda t: softmax(t @ t.T / len(t) ** 0.5) @ t), ("scale: by n",)),
    (sequence_first, per_sample(lambda t: softmax(t @ t.T / len(t.T) ** 0.5, axis=0) @ t), ("axis: queries",)),
    (sequence_first, per_sample(lambda t: softmax(t @ t.T / len(t.T) ** 0.5).T @ t), ("axis: queries",)),
    (sequence_first, softmax_over_samples, ("axis: samples",)),
    (sequence_first, per_sample(without_a_shift), ("shift: none",)),
    (sequence_first, per_sample(plain), ()),
    (sequence_first, lambda x: batched(x.transpose(1, 0, 2)).transpose(1, 0, 2), ()),
    (sequence_first, sdpa, ()),
    (sequence_first, by_attention, ()),
    (permute_heads, three_and(columns, same), ("output: left alone",)),
    (permute_heads, three_and(columns, columns), ("output: columns",)),
    (permute_heads, three_and(columns, lambda W, order: rows(W, inverse(order))), ("output: inverse",)),
    (permute_heads, three_and(rows, rows), ("projections: rows",)),
    (permute_heads, three_and(rows, columns), ("output: columns", "projections: rows")),
    (permute_heads, three_and(same, rows), ("projections: left alone",)),
    (permute_heads, three_and(same, same), ("unchanged",)),
    (permute_heads, three_and(lambda W, i: W[:, i], lambda W, i: W[i]), ("blocks: single features",)),
    (permute_heads, queries_alone, ("projections: W_k and W_v left alone",)),
    (permute_heads, heads_put_where_the_order_says, ("direction: inverse",)),
    (permute_heads, strided, ("blocks: every n_heads-th feature",)),
    (permute_heads, rolled_in_place, ("read after writing, into the inputs",)),
    (permute_heads, three_and(columns, rows), ()),
    (permute_heads, heads_torch_style, ()),
    (other_basis, lambda q, k, M: np.stack([q @ M, k @ inv(M)]), ("keys: inverse",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, k @ M.T]), ("keys: transposed",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, k @ M]), ("keys: like the queries",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, k]), ("keys: unchanged",)),
    (other_basis, lambda q, k, M: np.stack([q, k]), ("unchanged",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, k @ (M**-1).T]), ("keys: inverse of each number",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, np.linalg.solve(M.T, k.T).T]), ("keys: inverse",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, k / M]), ("keys: divided",)),
    (other_basis, lambda q, k, M: np.stack([M @ q, inv(M) @ k]), ("keys: from the left", "queries: from the left")),
    (other_basis, lambda q, k, M: np.stack([q @ M.T, k @ inv(M)]), ("M transposed throughout",)),
    (other_basis, lambda q, k, M: np.stack([q @ inv(M).T, k @ M]), ("roles exchanged",)),
    (other_basis, lambda q, k, M: np.stack([q @ M, np.linalg.lstsq(M, k.T, rcond=None)[0].T]), ()),
    (other_basis, lambda q, k, M: np.array([q.dot(M), k.dot(inv(M.T))]), ()),
    (other_basis, basis_torch_style, ()),
]  # fmt: skip


def test_what_is_cut_off_for_whole_numbers_is_told_beside_the_right_answer():
    verdict = sequence_first.judge(stored_in_zeros_like)
    assert verdict.correct and any("whole numbers" in words for words in verdict.words)
    verdict = other_basis.judge(basis_stored_like_the_weights)
    assert verdict.correct and any("whole numbers" in words for words in verdict.words)
    for one in ONES:
        assert one.judge(one.reference).words == []


@pytest.mark.parametrize(
    ("one", "answer"),
    [
        (other_basis, lambda q, k, M: (q @ M, k @ inv(M).T)),
        (permute_heads, lambda q, k, v, o, i: [columns(q, i), columns(k, i), columns(v, i), rows(o, i)]),
    ],
)
def test_a_tuple_of_right_matrices_is_told_to_become_one_array(one, answer):
    verdict = one.judge(answer)
    assert not verdict.correct and any("its values would be right" in words for words in verdict.words)
