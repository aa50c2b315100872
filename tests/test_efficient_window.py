"""The window in blocks: against attention under masks.window, and its bytes by counting."""

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name

from attnlab import attention, masks
from attnlab.efficient.meter import memory
from attnlab.efficient.window import window_attention

D_K, D_V = 3, 5


def inputs(n_q, n_k, batch=()):
    rng = np.random.default_rng(n_q + n_k)
    return [rng.normal(size=(*batch, n, d)) for n, d in [(n_q, D_K), (n_k, D_K), (n_k, D_V)]]


def masked(query, key, value, size, **options):
    return attention(
        query, key, value, masks.window(query.shape[-2], size, key.shape[-2], like=query), **options
    ).output


@pytest.mark.parametrize("n", [1, 2, 7, 12, 13])
def test_equals_attention_under_a_mask(array, n):
    """Every size from one key to more than there are; blocks that divide n and blocks that do not."""
    given = inputs(n, n)
    for size in range(1, n + 4):
        expected = masked(*given, size)
        for block in (1, 2, 3, 4, 5, n, 64):
            check(window_attention(*map(array, given), size, block=block), expected, atol=1e-12)


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 9), (4, 9), (9, 4), (9, 1), (3, 0), (0, 3), (0, 0)])
def test_the_last_query_meets_the_last_key(array, n_q, n_k):
    """With fewer queries than keys, as a cache has them; with more, the first see nothing: zeros."""
    given = inputs(n_q, n_k)
    for size in (1, 2, 5, 20):
        for block in (1, 2, 4, 64):
            check(window_attention(*map(array, given), size, block=block), masked(*given, size), atol=1e-12)


@pytest.mark.parametrize("batch", [(2,), (2, 3), (0,)])
def test_batch_and_heads(array, batch):
    given = inputs(11, 11, batch)
    check(window_attention(*map(array, given), 4, block=3), masked(*given, 4), atol=1e-12)
    query, key, value = given[0], *inputs(11, 11)[1:]  # keys and values that all share
    check(window_attention(*map(array, (query, key, value)), 4, block=3), masked(query, key, value, 4), atol=1e-12)


def test_scale(array):
    given = inputs(11, 11)
    for scale in (0.1, 2.0, np.float64(0.3)):
        expected = masked(*given, 4, scale=scale)
        check(window_attention(*map(array, given), 4, scale=float(scale), block=3), expected, atol=1e-12)


def test_size_is_keys_with_its_own(array):
    """Values are positions: with size 2, query 3 sees 2 and 3, and no less than half of each."""
    key, value = np.zeros((6, 1)), np.arange(6.0)[:, None]
    check(window_attention(*map(array, (key, key, value)), 2, block=4)[:, 0], [0, 0.5, 1.5, 2.5, 3.5, 4.5], atol=1e-12)


@pytest.mark.parametrize(("n_q", "n_k"), [(13, 13), (5, 13), (13, 5)])
def test_gradients(n_q, n_k):
    """A finite zero for queries without keys too."""
    for size, block in [(1, 4), (4, 3), (6, 64), (20, 4)]:
        gradients = []
        for function, options in [(window_attention, {"block": block}), (masked, {})]:
            leaves = [torch.tensor(x, requires_grad=True) for x in inputs(n_q, n_k)]
            output = function(*leaves, size, **options)
            gradients.append(torch.autograd.grad((output**3).sum(), leaves))
        for ours, theirs in zip(*gradients, strict=True):
            check(ours, theirs, atol=1e-12)


def test_large_scores_and_far_values(array):
    """Nothing from outside of a window gets in: neither a score of 10⁴ nor a value of 10³⁰."""
    query, key, value = inputs(20, 20)
    key[0], value[0] = 1e4 * np.sign(query[-1]), 1e30
    ours = np.asarray(window_attention(*map(array, (query, key, value)), 3, block=4))
    check(ours, masked(query, key, value, 3), atol=1e18)
    check(ours[3:], masked(query[1:], key[1:], value[1:], 3)[2:], atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float16", 2e-3)])
def test_dtype_and_inputs(array, dtype, atol):
    given = [np.float16(x) for x in inputs(13, 13)]
    ours = [array(x, dtype) for x in given]
    output = window_attention(*ours, 4, block=3)
    assert dtype_name(output) == dtype
    check(output, masked(*map(np.float64, given), 4), atol)
    for x, before in zip(ours, given, strict=True):
        check(x, before, atol=0)


# ---------------------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(("n_q", "n_k"), [(40, 40), (41, 17), (17, 41), (40, 0)])
@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_queries_that_are_taken_part_by_part(monkeypatch, array, n_q, n_k, size):
    monkeypatch.setattr("attnlab.efficient.window.PART", 6)
    query, key, value = map(array, inputs(n_q, n_k))
    check(window_attention(query, key, value, size, block=3), masked(query, key, value, size), atol=1e-12)


def test_gradients_part_by_part(monkeypatch):
    monkeypatch.setattr("attnlab.efficient.window.PART", 6)
    given = [torch.tensor(x, requires_grad=True) for x in inputs(29, 33)]
    ours = torch.autograd.grad(window_attention(*given, 4, block=3).square().sum(), given)
    theirs = torch.autograd.grad(masked(*given, 4).square().sum(), given)
    for a, b in zip(ours, theirs, strict=True):
        check(a, b, atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------- bytes


def peak(n, size=16, n_q=None):
    query, key, value = torch.randn(n_q or n, 8), torch.randn(n, 8), torch.randn(n, 8)
    return memory(window_attention, query, key, value, size).peak


def test_memory_grows_with_n():
    """What grows is the output, which is there twice while its parts are joined: 8 numbers of 4 bytes a token."""
    assert 0 < peak(16384) - peak(4096) <= 2 * (16384 - 4096) * 8 * 4
    assert peak(4096) < 4096 * 4096  # bytes: fewer than those of a mask of bools, let alone scores
    assert peak(4096, n_q=64) < peak(1024)  # few queries need few keys, however many there are


def test_memory_grows_with_n_in_numpy():
    def peak(n):
        x = np.ones((n, 8), dtype="float32")
        return memory(window_attention, x, x, x, 16).peak

    peak(64)
    assert 0 < peak(16384) - peak(4096) <= 2 * (16384 - 4096) * 8 * 4
    assert peak(4096) < 4096 * 4096


def test_saved_for_the_gradient_grows_with_n():
    def saved(n):
        leaves = [torch.randn(n, 8, requires_grad=True) for _ in range(3)]
        return memory(window_attention, *leaves, 16).saved

    assert saved(4096) == pytest.approx(4 * saved(1024), rel=0.02)


# -------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4, 3), (5, 2), (5, 3)], r"agree in d_k.*\(4, 3\).*\(5, 2\)"),
        ([(4, 3), (5, 3), (4, 3)], r"one row for each of n_k = 5 keys.*\(4, 3\)"),
        ([(3,), (5, 3), (5, 3)], r"query must have shape \(\.\.\., n_q, d_k\).*query has shape \(3,\)"),
        ([(2, 4, 3), (3, 5, 3), (3, 5, 3)], r"must broadcast.*\(2, 4, 3\).*\(3, 5, 3\)"),
    ],
)
def test_shapes_that_do_not_fit(array, shapes, message):
    with pytest.raises(ValueError, match=message):
        window_attention(*(array(np.zeros(shape)) for shape in shapes), 2)


def test_sizes_that_are_wrong(array):
    given = [array(x) for x in inputs(4, 4)]
    with pytest.raises(ValueError, match="size must be at least 1"):
        window_attention(*given, 0)
    with pytest.raises(TypeError, match=r"size must be an integer, but it is 2\.5"):
        window_attention(*given, 2.5)
    for block in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"block must be a whole number of at least 1, but it is {block}"):
            window_attention(*given, 2, block=block)
    with pytest.raises(ValueError, match="size must not be negative"):
        window_attention(*given, -3)
