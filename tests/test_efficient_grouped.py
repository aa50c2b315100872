"""Grouped heads: against repeated heads, against torch, and by counting that no key or value is copied.

"A…" names a report in the collection of public bugs that the course teaches from; its right value is the test.
"""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name
from onnx_adapter import read
from test_onnx_judge import CASES, TOLERANCES
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab import attention, masks
from attnlab.efficient.cache import KVCache
from attnlab.efficient.grouped import grouped_attention, pool_heads, repeat_kv
from attnlab.heads import MultiHeadAttention, merge, split

B, H, N_Q, N_K, D_K, D_V = 2, 6, 4, 5, 3, 7
INF = math.inf

# Queries alone, without a batch, and more queries than keys, where the causal rule leaves rows empty.
SIZES = [(N_Q, N_K), (1, N_K), (N_K, N_K), (N_K, N_Q), (0, N_K), (N_Q, 0)]


def inputs(n_kv_heads, n_q=N_Q, n_k=N_K, batch=(B,)):
    rng = np.random.default_rng(0)
    shapes = [(*batch, H, n_q, D_K), (*batch, n_kv_heads, n_k, D_K), (*batch, n_kv_heads, n_k, D_V)]
    return [rng.normal(size=shape) for shape in shapes]


def repeated(query, key, value, *arguments, **options):
    """What grouped attention must equal: every head with a copy of its own."""
    group = query.shape[-3] // key.shape[-3]
    key, value = (np.repeat(np.asarray(x), group, axis=-3) for x in (key, value))
    return attention(np.asarray(query), key, value, *arguments, **options)


def check_both(ours, expected, atol=1e-12):
    check(ours.output, expected.output, atol)
    check(ours.weights, expected.weights, atol)


# --------------------------------------------------------------------------------------------------------------- copies


def test_repeat_kv_by_hand(array):
    """A68: the order of the heads is [0, 0, 1, 1], not [0, 1, 0, 1]."""
    heads = array([[[10, 11]], [[20, 21]]])  # (2 heads, 1 token, 2 features)
    check(repeat_kv(heads, 2), [[[10, 11]], [[10, 11]], [[20, 21]], [[20, 21]]], atol=0)
    assert repeat_kv(array([[[1]], [[2]]], "int64"), 2).tolist() == [[[1]], [[1]], [[2]], [[2]]]


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)])
def test_repeat_kv(array, batch, group):
    x = np.random.default_rng(0).normal(size=(*batch, 2, 4, 3))
    repeats = repeat_kv(array(x, "float32"), group)
    assert dtype_name(repeats) == "float32"
    check(repeats, np.repeat(x, group, axis=-3), atol=1e-6)


def test_repeat_kv_refuses(array):
    for group in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"group must be a whole number of at least 1, but it is {group!r}"):
            repeat_kv(array(np.zeros((2, 4, 3))), group)
    with pytest.raises(ValueError, match=r"\(\.\.\., n_kv_heads, n, d\).*shape \(4, 3\)"):
        repeat_kv(array(np.zeros((4, 3))), 2)


# ------------------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, H])
def test_equals_repeated_heads(array, n_kv_heads, n_q, n_k, is_causal):
    for batch in [(B,), ()]:
        numbers = inputs(n_kv_heads, n_q, n_k, batch)
        expected = repeated(*numbers, is_causal=is_causal)
        check_both(grouped_attention(*map(array, numbers), is_causal=is_causal), expected)
        expected = repeated(*numbers, scale=0.3, is_causal=is_causal)
        check_both(grouped_attention(*map(array, numbers), scale=0.3, is_causal=is_causal), expected)


MASKS = [(N_K,), (1, N_K), (N_Q, 1), (N_Q, N_K), (H, 1, N_K), (H, N_Q, N_K), (1, N_Q, N_K), (B, 1, 1, N_K)]
MASKS += [(B, 1, N_Q, N_K), (B, H, N_Q, N_K), (1, H, N_Q, 1), (3, 1, 1, N_Q, N_K), (1, 1, 1, 1), ()]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float64"])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_masks(array, shape, kind, is_causal):
    """Per head, per sample, per query, shared: each finds the heads that it is for, also where a row allows nothing."""
    rng = np.random.default_rng(1)
    mask = rng.random(shape) < 0.6
    mask = mask if kind == "bool" else np.where(mask, rng.normal(size=shape), -INF)
    for n_kv_heads in (1, 2, H):
        numbers = inputs(n_kv_heads)
        ours = grouped_attention(*map(array, numbers), array(mask, kind), is_causal=is_causal)
        check_both(ours, repeated(*numbers, mask, is_causal=is_causal))


@pytest.mark.parametrize("n_kv_heads", [1, 2, H])
@pytest.mark.parametrize("with_mask", [False, True])
def test_equals_torch(n_kv_heads, with_mask):
    query, key, value = map(torch.tensor, inputs(n_kv_heads))
    mask = torch.rand(B, H, N_Q, N_K) < 0.5 if with_mask else None
    mask = mask | (torch.arange(N_K) == 0) if with_mask else None
    theirs = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
    check(grouped_attention(query, key, value, mask).output, theirs, atol=1e-12)


def test_equals_the_layer():
    layer = MultiHeadAttention(12, 6, 2).double()
    x = torch.tensor(np.random.default_rng(0).normal(size=(B, N_K, 12)))
    q, k, v = split(layer.W_q(x), 6), split(layer.W_k(x), 2), split(layer.W_v(x), 2)
    ours, layers = grouped_attention(q, k, v, is_causal=True), layer(x, is_causal=True)
    check(layer.W_o(merge(ours.output)), layers.output.detach(), atol=1e-12)
    check(ours.weights, layers.weights.detach(), atol=1e-12)


def test_gradients():
    """A head's gradient is the sum over its group; rows that allow nothing add zero, not NaN."""
    grouped, plain = ([torch.tensor(x, requires_grad=True) for x in inputs(2, N_K, N_Q)] for _ in range(2))
    out = grouped_attention(*grouped, is_causal=True).output
    query, key, value = plain
    expected = attention(query, *(x.repeat_interleave(3, dim=1) for x in (key, value)), is_causal=True).output
    gradients = [torch.autograd.grad((x**2).sum(), leaves) for x, leaves in [(out, grouped), (expected, plain)]]
    for ours, theirs in zip(*gradients, strict=True):
        check(ours, theirs, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float16", 2e-3)])
def test_dtype(array, dtype, atol):
    numbers = [np.float16(x) for x in inputs(2)]
    ours = grouped_attention(*(array(x, dtype) for x in numbers), is_causal=True)
    assert dtype_name(ours.output) == dtype_name(ours.weights) == dtype
    check_both(ours, repeated(*map(np.float64, numbers), is_causal=True), atol)


def test_inputs_stay(array):
    before = [*inputs(2), np.random.default_rng(1).normal(size=(N_Q, N_K))]
    given = [array(x) for x in before]
    grouped_attention(*given, is_causal=True)
    for x, y in zip(given, before, strict=True):
        check(x, y, atol=0)


# ------------------------------------------------------------------------------------------------------- without copies


class Written(TorchDispatchMode):
    """Sizes in bytes of all new tensors, in the order in which operations return them; views are not among them."""

    def __init__(self):
        super().__init__()
        self.sizes, self.seen = [], set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
            if result.untyped_storage().data_ptr() not in known:
                self.sizes.append(result.untyped_storage().nbytes())
        return result


def written_by(function, *arguments, **options):
    with Written() as watch:
        function(*arguments, **options)
    return watch.sizes


def by_broadcasting(query, key, value):
    """The way that the docstring warns of: an axis of length 1 for the group."""
    query = query.unflatten(1, (key.shape[1], -1))  # (B, H_kv, group, n_q, d)
    return attention(query, key[:, :, None], value[:, :, None])


@pytest.mark.parametrize("n_q", [1, 2])
@pytest.mark.parametrize("with_mask", [False, True])
def test_no_copy_of_keys_and_values(n_q, with_mask):
    """n_k is so long, and d so wide, that one head's keys outweigh all scores: a copy could not hide."""
    n_k, d = 300, 128
    query, key, value = torch.randn(B, H, n_q, d), torch.randn(B, 2, n_k, d), torch.randn(B, 2, n_k, d)
    mask = torch.rand(B, 1, n_q, n_k) < 0.9 if with_mask else None
    one_copy, one_score_matrix = 4 * key.numel(), 4 * B * H * n_q * n_k
    assert one_score_matrix < one_copy / 10

    assert max(written_by(grouped_attention, query, key, value, mask, is_causal=True)) <= one_score_matrix
    assert max(written_by(lambda: attention(query, repeat_kv(key, 3), repeat_kv(value, 3)))) == 3 * one_copy
    assert max(written_by(by_broadcasting, query, key, value)) == 3 * one_copy


def test_no_copy_of_what_a_cache_holds():
    """Its arrays are the first part of longer ones, and stay in place."""
    cache = KVCache()
    cache.append(torch.randn(B, 2, 300, 128), torch.randn(B, 2, 300, 128))
    keys, values = cache.append(torch.randn(B, 2, 1, 128), torch.randn(B, 2, 1, 128))
    assert cache.capacity_bytes > cache.nbytes
    assert max(written_by(grouped_attention, torch.randn(B, H, 1, 128), keys, values)) <= 4 * B * H * 301


# ---------------------------------------------------------------------------------------------------------------- pools


def test_pool_heads_by_hand(array):
    """Neighbours are pooled, feature by feature: heads (0, 1) and (2, 3), never (0, 2)."""
    W = array([[0, 1], [2, 3], [10, 11], [12, 13], [20, 21], [22, 23], [50, 51], [52, 53]])  # 4 heads of width 2
    check(pool_heads(W, 4, 2), [[5, 6], [7, 8], [35, 36], [37, 38]], atol=0)
    check(pool_heads(W, 4, 1), [[20, 21], [22, 23]], atol=0)
    check(pool_heads(W, 4, 4), W, atol=0)
    check(pool_heads(W[:, 0], 4, 2), [5, 7, 35, 37], atol=0)  # a bias


def test_equal_heads_are_pooled_without_loss(array):
    rng = np.random.default_rng(0)
    kept = rng.normal(size=(2, 3, 5))  # 2 heads of width 3
    pooled = pool_heads(array(np.repeat(kept, 3, axis=0).reshape(18, 5), "float32"), 6, 2)
    assert dtype_name(pooled) == "float32"
    check(pooled, kept.reshape(6, 5), atol=1e-6)


def test_pooling_is_the_mean_of_the_keys(array):
    """Projections are linear: pooled weights give the mean of the keys that the heads of a group had."""
    rng = np.random.default_rng(0)
    W, x = rng.normal(size=(12, 8)), rng.normal(size=(5, 8))
    keys = (x @ W.T).reshape(5, 4, 3)  # (n, 4 heads, d_head)
    pooled = np.asarray(pool_heads(array(W), 4, 2))
    check((x @ pooled.T).reshape(5, 2, 3), keys.reshape(5, 2, 2, 3).mean(axis=2), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((5, 1), r"n_kv_heads is 5 and W has shape \(12, 8\)"), ((4, 3), "n_new is 3 and n_kv_heads is 4"),
     ((4, 8), "n_new is 8"), ((0, 1), "n_kv_heads must be a whole number"), ((4, 0), "n_new must be a whole number")],
)  # fmt: skip
def test_pool_heads_refuses(array, arguments, message):
    with pytest.raises(ValueError, match=message):
        pool_heads(array(np.zeros((12, 8))), *arguments)


# -------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(6, 4, 3), (4, 5, 3), (4, 5, 3)], r"multiple of it.*\(6, 4, 3\), key \(4, 5, 3\)"),
        ([(6, 4, 3), (2, 5, 3), (3, 5, 3)], r"same number H_kv.*key \(2, 5, 3\) and value \(3, 5, 3\)"),
        ([(6, 4, 3), (0, 5, 3), (0, 5, 3)], r"multiple of it.*key \(0, 5, 3\)"),
        ([(2, 4, 3), (5, 2, 3), (5, 2, 3)], r"Are the axes of heads and tokens exchanged\?"),
        ([(6, 4, 3), (5, 3), (5, 3)], r"query must have shape \(\.\.\., H, n_q, d_k\).*key \(5, 3\)"),
        ([(6, 4, 3), (2, 5, 4), (2, 5, 3)], "must agree in d_k"),
        ([(6, 4, 3), (2, 5, 3), (2, 4, 3)], r"one row for each of n_k = 5 keys.*\(2, 4, 3\)"),
        ([(2, 6, 4, 3), (3, 2, 5, 3), (3, 2, 5, 3)], r"but the last three must broadcast.*\(3, 2, 5, 3\)"),
    ],
)
def test_shapes_that_do_not_fit(array, shapes, message):
    with pytest.raises(ValueError, match=message):
        grouped_attention(*(array(np.zeros(shape)) for shape in shapes))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shape", [(2, N_Q, N_K), (3, 1, N_Q, N_K), (N_Q, N_K - 1), (2, N_K), (H * N_Q, N_K)], ids=str)
def test_masks_that_do_not_fit(array, shape, is_causal):
    """A mask for each *key* head is none for the query heads; one for folded rows is none either."""
    numbers = inputs(2)
    with pytest.raises(ValueError, match=r"A mask must broadcast to \(\.\.\., H, n_q, n_k\) = \(\.\.\., 6, 4, 5\)"):
        grouped_attention(*map(array, numbers), array(np.ones(shape), "bool"), is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_types_that_do_not_fit(array, is_causal):
    query, key, value = map(array, inputs(2))
    with pytest.raises(TypeError, match="A mask is bool"):
        grouped_attention(query, key, value, array(np.ones((N_Q, N_K)), "int64"), is_causal=is_causal)
    with pytest.raises(TypeError, match="one library"):
        grouped_attention(query, key, torch.ones(2, 5, 7) if isinstance(value, np.ndarray) else np.ones((2, 5, 7)))
    with pytest.raises(TypeError, match="mask is of type list"):
        grouped_attention(query, key, value, [[True]], is_causal=is_causal)


# ----------------------------------------------------------------------------------------------------- an outside judge

SHARED = [
    case
    for case in CASES.values()
    if set(read(case)[0]) <= {"Q", "K", "V", "attn_mask"} and set(read(case)[2]) <= {"scale", "is_causal"}
    if read(case)[0]["Q"].ndim == 4 and read(case)[0]["Q"].shape[1] > read(case)[0]["K"].shape[1]
]


def test_the_cases_of_onnx_are_there():
    assert len(SHARED) == 4
    assert all(read(case)[0]["Q"].shape[1] == 9 and read(case)[0]["K"].shape[1] == 3 for case in SHARED)


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case.name)
def test_onnx(case, array):
    """9 query heads over 3, without a cache.  There a causal mask is aligned top-left (see test_onnx_judge.py)."""
    given, expected, attributes = read(case)
    query, key, value = (array(given[name], "float32") for name in "QKV")
    mask = given.get("attn_mask", np.ones(1, dtype=bool))
    if attributes.pop("is_causal", 0):
        n_q, n_k = query.shape[-2], key.shape[-2]
        causal = masks.causal(n_q, n_k, align="top-left")
        mask = mask & causal if mask.dtype == bool else np.where(causal, mask, mask.dtype.type(-INF))
    ours = grouped_attention(query, key, value, array(mask, mask.dtype.name), **attributes)
    check(ours.output, expected["Y"], atol=TOLERANCES["float32"])
