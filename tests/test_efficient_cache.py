"""The cache: every step against the full computation, and bytes by counting.

Reports A65 and A66 of the collection of public bugs that the course teaches from are about positions.
"""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch
from both_libraries import check
from onnx_adapter import read
from test_onnx_judge import CASES, TOLERANCES

from attnlab import attention
from attnlab.efficient.cache import KVCache
from attnlab.efficient.grouped import grouped_attention
from attnlab.heads import MultiHeadAttention, merge, split

N, H, H_KV, D_K, D_V = 23, 4, 2, 3, 5

# (window, n_sinks): none; one key; shorter than, as long as, and longer than the text; more sinks than window
WINDOWS = [(None, 0), (1, 0), (4, 0), (4, 2), (7, 3), (2, 5), (N, 0), (N + 5, 1)]

# A prompt, then tokens one by one; chunks of all sizes, longer than a window, empty, after the window is full.
SPLITS = [[1] * N, [5] + [1] * 18, [N], [12, 1, 1, 9], [1, 0, 2, 0, 10, 10], [3, 1, 2, 17]]

windows = pytest.mark.parametrize(("window", "n_sinks"), WINDOWS, ids=str)
splits = pytest.mark.parametrize("lengths", SPLITS, ids=str)


def pieces(lengths):
    ends = list(itertools.accumulate(lengths))
    return [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]


def allowed(window, n_sinks, n=N):
    """The rule, pair by pair: what a query at position i sees of a key at position j."""
    sees = [[j <= i and (window is None or i - j < window or j < n_sinks) for j in range(n)] for i in range(n)]
    return np.array(sees)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


# ---------------------------------------------------------------------------------------- equal to the full computation


@splits
@windows
def test_every_step_equals_full_attention(array, window, n_sinks, lengths):
    """One head, and grouped heads with a batch; in float64 to 1e-12, whatever the chunks."""
    for batch, heads, kv_heads in [((), (), ()), ((2,), (H,), (H_KV,))]:
        query, key, value = (
            array(numbers(*batch, *h, N, d)) for h, d in [(heads, D_K), (kv_heads, D_K), (kv_heads, D_V)]
        )
        attend = grouped_attention if heads else attention
        full = attend(query, key, value, array(allowed(window, n_sinks), "bool")).output
        cache = KVCache(window, n_sinks)
        for piece in pieces(lengths):
            assert cache.n_seen == piece.start
            keys, values = cache.append(key[..., piece, :], value[..., piece, :])
            output = attend(query[..., piece, :], keys, values, cache.mask()).output
            check(output, full[..., piece, :], atol=1e-12)
        assert cache.n_seen == N


@splits
@windows
def test_which_keys_are_there(array, window, n_sinks, lengths):
    """Each key is its own position, so that it shows whose it is; all that the rule allows are there, and once."""
    cache, sees = KVCache(window, n_sinks), allowed(window, n_sinks)
    for piece in pieces(lengths):
        new = array(np.arange(N)[piece, None])
        keys, values = cache.append(new, -new)
        positions, mask = cache.positions, np.asarray(cache.mask())
        check(keys[:, 0], positions, atol=0)
        check(values[:, 0], -positions, atol=0)
        assert len(set(positions)) == len(positions)
        for row, i in zip(mask, range(N)[piece], strict=True):
            assert sorted(positions[row]) == np.flatnonzero(sees[i]).tolist()
        if piece.stop - piece.start == 1:
            assert mask.all()  # a single query sees all that it gets
        assert len(cache) == (piece.stop if window is None else min(piece.stop, window + n_sinks))


def test_mask_of_the_last_queries(array):
    cache = KVCache(window=3)
    cache.append(array(numbers(5, D_K)), array(numbers(5, D_V)))
    cache.append(array(numbers(4, D_K)), array(numbers(4, D_V)))
    check(cache.mask(2), np.asarray(cache.mask())[-2:], atol=0)
    assert cache.mask(2).shape == (2, len(cache.positions))
    assert isinstance(cache.mask(), type(array([0.0])))


@pytest.mark.parametrize("window", [None, 5])
def test_a_decoder_layer(window):
    """The layer of chapter 4: a prompt, then token by token, with four query heads over two key heads."""
    layer = MultiHeadAttention(8, H, H_KV).double()
    x = torch.tensor(numbers(2, N, 8))
    with torch.no_grad():
        full = layer(x, mask=torch.tensor(allowed(window, 0))).output
        cache, outputs = KVCache(window), []
        for piece in pieces([6, *[1] * (N - 6)]):
            new = x[:, piece]
            keys, values = cache.append(split(layer.W_k(new), H_KV), split(layer.W_v(new), H_KV))
            attended = grouped_attention(split(layer.W_q(new), H), keys, values, cache.mask())
            outputs.append(layer.W_o(merge(attended.output)))
    check(torch.cat(outputs, dim=1), full, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ positions


def rotate(x, positions):
    """RoPE with one pair of features and θ = 1: (n, 2) turned by its position."""
    turned = (x[:, 0] + 1j * x[:, 1]) * np.exp(1j * np.asarray(positions))
    return np.stack([turned.real, turned.imag], axis=1)


def test_rotated_by_hand():
    """A66: a key at position 1, a query at 3: cos 2 = -0.4161.  Decoded "as position 0" it would be cos 1 = 0.5403."""
    cache, one = KVCache(), np.array([[1.0, 0.0]])
    cache.append(rotate(np.repeat(one, 3, axis=0), range(3)), np.zeros((3, 1)))
    assert cache.n_seen == 3
    query = rotate(one, [cache.n_seen])
    keys, _ = cache.append(query, np.zeros((1, 1)))
    check((query @ keys.T)[0, 1], -0.4161)


@windows
def test_prefill_equals_decode(window, n_sinks):
    """A65: after a prompt of 6, the next positions are 6, 7, 8, not 6, 12, 13."""
    query, key, value = numbers(N, 2), numbers(N, 2) + 1, numbers(N, D_V)
    turned_query, turned_key = rotate(query, range(N)), rotate(key, range(N))
    full = attention(turned_query, turned_key, value, allowed(window, n_sinks)).output
    cache, starts = KVCache(window, n_sinks), []
    for piece in pieces([6, *[1] * (N - 6)]):
        starts.append(cache.n_seen)
        at = cache.n_seen + np.arange(piece.stop - piece.start)
        keys, values = cache.append(rotate(key[piece], at), value[piece])
        check(attention(rotate(query[piece], at), keys, values, cache.mask()).output, full[piece], atol=1e-12)
    assert starts == [0, *range(6, N)]


# ---------------------------------------------------------------------------------------------------------------- bytes


@pytest.mark.parametrize(("dtype", "itemsize"), [("float64", 8), ("float32", 4), ("float16", 2)])
def test_bytes_in_use(array, dtype, itemsize):
    """2 · B · H_kv · n · d · itemsize: the number of query heads does not come into it."""
    cache = KVCache()
    assert cache.nbytes == cache.capacity_bytes == len(cache) == 0
    for n, length in [(6, 6), (7, 1), (12, 5)]:
        new = array(numbers(3, H_KV, length, D_K), dtype)
        cache.append(new, new)
        assert cache.nbytes == 2 * 3 * H_KV * n * D_K * itemsize
        assert len(cache) == n
    cache = KVCache()
    cache.append(array(numbers(7, D_K), dtype), array(numbers(7, D_V), dtype))
    assert cache.nbytes == 7 * (D_K + D_V) * itemsize


def test_appending_copies_in_proportion_to_the_tokens():
    """A token of 8 kB, 500 times: memory is allocated some 9 times, for fewer than 4n tokens in all."""
    token, n = np.ones((1, 1024)), 500
    cache, allocated, capacities = KVCache(), 0, [0]
    tracemalloc.start()
    try:
        for _ in range(n):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            cache.append(token, token[:, :1])
            _, peak = tracemalloc.get_traced_memory()
            allocated += peak - before
            if cache.capacity_bytes != capacities[-1]:
                capacities.append(cache.capacity_bytes)
    finally:
        tracemalloc.stop()
    assert allocated < 4 * n * token.nbytes
    assert len(capacities) - 1 <= 10
    assert cache.nbytes > cache.capacity_bytes / 2  # at most half of the places are free
    check(cache._keys[:n, 0], np.ones(n), atol=0)


def test_a_window_has_fixed_bytes():
    """Token after token goes to the same memory: nothing of a token's size is allocated."""
    token, window, n_sinks = np.ones((1, 4096)), 8, 2
    cache = KVCache(window, n_sinks)
    cache.append(token, token)
    assert cache.capacity_bytes == 2 * (window + n_sinks) * token.nbytes
    keys, _ = cache.append(token, token)
    address = keys.ctypes.data
    for _ in range(3 * window):
        tracemalloc.start()
        keys, _ = cache.append(token, token)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < token.nbytes
        assert keys.ctypes.data == address
    cache.append(np.ones((50, 4096)), np.ones((50, 4096)))
    assert cache.nbytes == cache.capacity_bytes == 2 * (window + n_sinks) * token.nbytes


# --------------------------------------------------------------------------------------------------- whose memory it is


def test_what_is_returned_stays(array):
    """Without a window: through appends with and without new memory."""
    cache, kept = KVCache(), []
    for i, length in enumerate([1, 1, 1, 1, 3, 1, 8, 1]):
        new = array(np.full((length, D_K), i))
        keys, values = cache.append(new, new + 0.5)
        kept.append((keys, values, keys.tolist(), values.tolist()))
    for keys, values, keys_then, values_then in kept:
        check(keys, keys_then, atol=0)
        check(values, values_then, atol=0)


def test_what_a_window_returned_is_overwritten(array):
    """As the docstring says, for single tokens.  A chunk that does not fit gets arrays of its own."""
    cache = KVCache(window=2)
    keys, _ = cache.append(array([[0.0], [1.0]]), array([[0.0], [1.0]]))
    cache.append(array([[2.0]]), array([[2.0]]))
    assert keys.tolist() == [[2.0], [1.0]]
    chunk, _ = cache.append(array([[3.0], [4.0], [5.0]]), array([[3.0], [4.0], [5.0]]))
    assert chunk.tolist() == [[2.0], [1.0], [3.0], [4.0], [5.0]]
    cache.append(array([[6.0]]), array([[6.0]]))
    assert chunk.tolist() == [[2.0], [1.0], [3.0], [4.0], [5.0]]


@pytest.mark.parametrize("window", [None, 3])
def test_inputs_are_copied(array, window):
    cache = KVCache(window)
    key, value = array([[1.0], [2.0]]), array([[3.0], [4.0]])
    cache.append(key, value)
    key[:], value[:] = 9.0, 9.0
    keys, values = cache.append(key[:1], value[:1])
    assert keys.tolist() == [[1.0], [2.0], [9.0]]
    assert values.tolist() == [[3.0], [4.0], [9.0]]
    assert key.tolist() == value.tolist() == [[9.0], [9.0]]
    cache.positions[:] = 7
    assert cache.positions.tolist() == [0, 1, 2]


# -------------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ((3, 2, 1, 3), (3, 2, 1, 5), r"key must have the shape \(2, 2, n_new, 3\).*shape \(3, 2, 1, 3\)"),
        ((2, 4, 1, 3), (2, 4, 1, 5), r"key must have the shape \(2, 2, n_new, 3\).*shape \(2, 4, 1, 3\)"),
        ((2, 1, 1, 3), (2, 1, 1, 5), r"key must have the shape \(2, 2, n_new, 3\).*shape \(2, 1, 1, 3\)"),
        ((2, 2, 1, 4), (2, 2, 1, 5), r"key must have the shape \(2, 2, n_new, 3\).*shape \(2, 2, 1, 4\)"),
        ((2, 2, 1, 3), (2, 2, 1, 1), r"value must have the shape \(2, 2, n_new, 5\).*shape \(2, 2, 1, 1\)"),
        ((2, 2, 1, 3), (2, 2, 2, 5), r"key has shape \(2, 2, 1, 3\) and value has shape \(2, 2, 2, 5\)"),
        ((3,), (5,), r"\(\.\.\., H_kv, n_new, d_k\).*key has shape \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit(array, window, key, value, message):
    """And a refused append changes nothing."""
    cache = KVCache(window)
    first = [array(numbers(2, 2, 6, d)) for d in (D_K, D_V)]
    cache.append(*first)
    before = cache.n_seen, len(cache), cache.nbytes, cache.positions.tolist()
    with pytest.raises(ValueError, match=message):
        cache.append(array(np.zeros(key)), array(np.zeros(value)))
    assert (cache.n_seen, len(cache), cache.nbytes, cache.positions.tolist()) == before
    new = [x[..., :1, :] for x in first]
    keys, _ = cache.append(*new)
    assert 0 not in np.asarray(keys)


def test_other_dtypes_and_libraries(array):
    cache = KVCache()
    cache.append(array(numbers(2, D_K), "float32"), array(numbers(2, D_V), "float32"))
    with pytest.raises(ValueError, match=r"dtype .*float32 of the first append, but .* dtype .*float64"):
        cache.append(array(numbers(2, D_K)), array(numbers(2, D_V)))
    other = torch.ones if isinstance(array([0.0]), np.ndarray) else np.ones
    with pytest.raises(TypeError, match=r"one library.*the cached keys from"):
        cache.append(other((2, D_K)), other((2, D_V)))
    with pytest.raises(TypeError, match="key is of type list"):
        cache.append([[1.0]], [[1.0]])


def test_gradients_are_refused():
    """A cache is written in place: the graph of an earlier step would be damaged, or silently cut."""
    new = torch.ones(2, D_K, requires_grad=True)
    with pytest.raises(ValueError, match=r"key requires a gradient.*torch\.no_grad"):
        KVCache().append(new * 1, new.detach())
    with pytest.raises(ValueError, match="value requires a gradient"):
        KVCache().append(new.detach(), new * 1)
    with torch.no_grad():
        KVCache().append(new * 1, new * 1)


def test_mask_before_the_append(array):
    cache = KVCache()
    with pytest.raises(ValueError, match=r"0 tokens, but n_new is 2\. Is it asked for before the append"):
        cache.mask(2)
    cache.append(array(numbers(1, D_K)), array(numbers(1, D_V)))
    for n_new in (2, -1):
        with pytest.raises(ValueError, match=f"had 1 tokens, but n_new is {n_new}"):
            cache.mask(n_new)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "window must be None or a whole number of at least 1, but it is 0"), ((2.0,), "window must be"),
     ((True,), "window must be"), ((3, -1), "n_sinks must be a whole number of at least 0"), ((3, 1.5), "n_sinks must"),
     ((None, 2), "n_sinks are kept beside a window")],
)  # fmt: skip
def test_arguments_that_are_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        KVCache(*arguments)


# ----------------------------------------------------------------------------------------------------- an outside judge

PAST = [
    case
    for case in CASES.values()
    if {"Q", "K", "V", "past_key", "past_value"} <= set(read(case)[0])
    if set(read(case)[2]) <= {"is_causal", "scale"} and read(case)[0]["Q"].ndim == 4
    if "qk_matmul_output" not in read(case)[1] and read(case)[0]["Q"].dtype == "float32"
]


def test_the_cases_of_onnx_are_there():
    assert len(PAST) == 6


@pytest.mark.parametrize("case", PAST, ids=lambda case: case.name)
def test_onnx(case, array):
    """Keys and values of the past, new ones, and what is present then: one append each."""
    given, expected, attributes = read(case)
    given = {name: array(x, x.dtype.name) for name, x in given.items()}
    cache = KVCache()
    cache.append(given["past_key"], given["past_value"])
    keys, values = cache.append(given["K"], given["V"])
    check(keys, expected["present_key"], atol=0)
    check(values, expected["present_value"], atol=0)
    ours = grouped_attention(given["Q"], keys, values, given.get("attn_mask"), **attributes)
    check(ours.output, expected["Y"], atol=TOLERANCES["float32"])
