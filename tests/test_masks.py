"""Masks: what each builder allows, in both libraries, and what its translations mean to others."""

import numpy as np
import pytest
import torch
from both_libraries import check
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnlab import attention, masks

T, f = True, False
LIKE = {"numpy": np.empty(0), "torch": torch.empty(0)}

often = settings(max_examples=60, deadline=None, derandomize=True, database=None)
libraries = st.sampled_from(list(LIKE))
sizes = st.integers(0, 5)


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)


def check_numpy(mask, expected):
    assert type(mask) is np.ndarray
    assert mask.dtype == bool
    assert mask.shape == np.shape(expected)
    assert np.array_equal(mask, expected)


def check_like(mask, library, expected, shape):
    """A mask of that library, with the values of `expected`, which an empty list may hold."""
    if library == "torch":
        assert isinstance(mask, torch.Tensor)
        mask = mask.numpy()
    check_numpy(mask, np.asarray(expected, dtype=bool).reshape(shape))


# ------------------------------------------------------------------------------------------------------------- causal


def test_causal_square_allows_the_past_and_oneself():
    check_numpy(masks.causal(3), [[T, f, f], [T, T, f], [T, T, T]])


def test_causal_wide_is_aligned_bottom_right():
    check_numpy(masks.causal(2, 4), [[T, T, T, f], [T, T, T, T]])
    check_numpy(masks.causal(1, 4), [[T, T, T, T]])


def test_causal_tall_leaves_the_first_rows_empty():
    check_numpy(masks.causal(4, 2), [[f, f], [f, f], [T, f], [T, T]])


def test_causal_top_left():
    check_numpy(masks.causal(2, 4, align="top-left"), [[T, f, f, f], [T, T, f, f]])
    check_numpy(masks.causal(4, 2, align="top-left"), [[T, f], [T, T], [T, T], [T, T]])
    check_numpy(masks.causal(3, align="top-left"), masks.causal(3))


@pytest.mark.parametrize(("n_q", "n_k"), [(0, 0), (0, 3), (3, 0)])
def test_causal_of_nothing(n_q, n_k):
    check_numpy(masks.causal(n_q, n_k), np.zeros((n_q, n_k), dtype=bool))


@pytest.mark.parametrize("align", ["bottom-right", "top-left"])
def test_causal_like_torch_is_torch(align):
    like = torch.ones(1, dtype=torch.float16)
    mask = masks.causal(2, 4, align=align, like=like)
    assert mask.dtype == torch.bool
    assert mask.device == like.device
    check_numpy(mask.numpy(), masks.causal(2, 4, align=align))


def test_causal_follows_the_device():
    assert masks.causal(2, like=torch.ones(1, device="meta")).device.type == "meta"


def test_causal_takes_any_integer_type():
    check_numpy(masks.causal(np.int64(2), torch.tensor(3)), [[T, T, f], [T, T, T]])


def test_causal_errors():
    with pytest.raises(ValueError, match="n_q must not be negative, but it is -1"):
        masks.causal(-1)
    with pytest.raises(ValueError, match="n_k must not be negative, but it is -2"):
        masks.causal(2, -2)
    with pytest.raises(TypeError, match=r"n_q must be an integer, but it is 2\.0"):
        masks.causal(2.0)
    with pytest.raises(TypeError, match="n_q must be an integer, but it is True"):
        masks.causal(True)
    with pytest.raises(ValueError, match="'upper-left'"):
        masks.causal(2, align="upper-left")
    with pytest.raises(TypeError, match="like is of type list"):
        masks.causal(2, like=[1.0])


def test_causal_agrees_with_torch_bias_classes():
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    query, key, value = (
        torch.randn(2, 1, 3, 6).double(),
        torch.randn(2, 1, 5, 6).double(),
        torch.randn(2, 1, 5, 7).double(),
    )
    for align, theirs in [("bottom-right", causal_lower_right(3, 5)), ("top-left", causal_upper_left(3, 5))]:
        ours = attention(query, key, value, masks.causal(3, 5, align=align, like=query)).output
        torch.testing.assert_close(ours, F.scaled_dot_product_attention(query, key, value, attn_mask=theirs))


# ------------------------------------------------------------------------------------------------------------ padding


def test_padding_allows_the_first_keys_for_every_query():
    check_numpy(masks.padding([2, 0, 3], 3), [[[T, T, f]], [[f, f, f]], [[T, T, T]]])


def test_padding_keeps_the_shape_of_lengths():
    check_numpy(masks.padding(2, 3), [[T, T, f]])
    assert masks.padding([], 3).shape == (0, 1, 3)
    assert masks.padding(np.ones((2, 4), dtype=int), 3).shape == (2, 4, 1, 3)
    assert masks.padding([0, 0], 0).shape == (2, 1, 0)


def test_padding_follows_lengths_then_like():
    numpy_lengths, torch_lengths = np.array([1, 2]), torch.tensor([1, 2])
    expected = [[[T, f, f]], [[T, T, f]]]
    check_numpy(masks.padding(numpy_lengths, 3), expected)
    check_numpy(masks.padding(torch_lengths, 3, like=np.empty(0)), expected)
    for mask in (
        masks.padding(torch_lengths, 3),
        masks.padding(numpy_lengths, 3, like=torch.empty(0)),
        masks.padding([1, 2], 3, like=torch.empty(0)),
    ):
        assert isinstance(mask, torch.Tensor)
        check_numpy(mask.numpy(), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_padding_takes_small_and_unsigned_integers(dtype):
    check_numpy(masks.padding(np.array([1, 3], dtype=dtype), 300)[..., :4], [[[T, f, f, f]], [[T, T, T, f]]])


def test_padding_forbids_keys_not_queries():
    """A36: ids [5, 7, 0, 0] with equal scores: every row, those of the padding too, is [.5, .5, 0, 0]."""
    x = np.zeros((1, 4, 2))
    weights = attention(x, x, x, masks.padding([2], 4)).weights
    np.testing.assert_allclose(weights[0], [[0.5, 0.5, 0, 0]] * 4)


def test_padding_reaches_every_head():
    x = np.zeros((2, 3, 4, 5))  # (B, H, n, d)
    weights = attention(x, x, x, masks.padding(np.array([1, 2])[:, None], 4)).weights
    np.testing.assert_allclose(weights[0], np.broadcast_to([1.0, 0, 0, 0], (3, 4, 4)))
    np.testing.assert_allclose(weights[1], np.broadcast_to([0.5, 0.5, 0, 0], (3, 4, 4)))


def test_padding_combines_with_causal():
    """A44: T=3 with the last key padded."""
    x = np.zeros((3, 2))
    expected = [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]]
    both = masks.causal(3) & masks.padding(2, 3)
    np.testing.assert_allclose(attention(x, x, x, both).weights, expected)
    np.testing.assert_allclose(attention(x, x, x, masks.padding(2, 3), is_causal=True).weights, expected)


def test_padding_errors():
    with pytest.raises(ValueError, match="between 0 and n_k = 3, but 4 is among them"):
        masks.padding([1, 4], 3)
    with pytest.raises(ValueError, match="between 0 and n_k = 3, but -1 is among them"):
        masks.padding(torch.tensor([-1, 4]), 3)
    with pytest.raises(ValueError, match="but 4 is among them"):
        masks.padding(4, 3)
    with pytest.raises(TypeError, match=r"lengths must be integers.*float64"):
        masks.padding([1.0, 2.0], 3)
    with pytest.raises(TypeError, match=r"lengths must be integers.*bool"):
        masks.padding([True, False], 3)
    with pytest.raises(ValueError, match="n_k must not be negative"):
        masks.padding([0], -1)
    with pytest.raises(TypeError, match="n_k must be an integer"):
        masks.padding([0], 3.5)


# ------------------------------------------------------------------------------------------------------------- window


def test_window_counts_the_query_s_own_key():
    """A72: w=2, T=4: rows {0}, {0, 1}, {1, 2}, {2, 3}, 7 ones; counting w keys before one's own gives 9."""
    mask = masks.window(4, 2)
    check_numpy(mask, [[T, f, f, f], [T, T, f, f], [f, T, T, f], [f, f, T, T]])
    assert mask.sum() == 7
    assert masks.window(4, 3).sum() == 9


def test_window_is_aligned_bottom_right():
    check_numpy(masks.window(2, 2, 4), [[f, T, T, f], [f, f, T, T]])
    check_numpy(masks.window(1, 2, 4), [[f, f, T, T]])
    check_numpy(masks.window(4, 2, 2), [[f, f], [f, f], [T, f], [T, T]])


def test_window_of_size_one_is_oneself():
    check_numpy(masks.window(3, 1), np.eye(3, dtype=bool))
    check_numpy(masks.window(1, 1), [[T]])


@pytest.mark.parametrize("size", [5, 6, 7, 2**80])
def test_a_window_of_all_keys_is_causal(size):
    for n_q in (0, 2, 5, 7):
        check_numpy(masks.window(n_q, size, 5), masks.causal(n_q, 5))
    check_numpy(masks.window(5, size), masks.causal(5))


@often
@given(n_q=sizes, n_k=sizes, size=st.integers(1, 6), library=libraries)
def test_window_by_loop(n_q, n_k, size, library):
    own = [i + n_k - n_q for i in range(n_q)]
    expected = [[own_key - size < j <= own_key for j in range(n_k)] for own_key in own]
    check_like(masks.window(n_q, size, n_k, like=LIKE[library]), library, expected, (n_q, n_k))


def test_window_errors():
    with pytest.raises(ValueError, match=r"size must be at least 1.*own key, but it is 0"):
        masks.window(3, 0)
    with pytest.raises(ValueError, match="size must not be negative, but it is -1"):
        masks.window(3, -1)
    with pytest.raises(TypeError, match=r"size must be an integer, but it is 2\.0"):
        masks.window(3, 2.0)
    with pytest.raises(ValueError, match="n_q must not be negative"):
        masks.window(-3, 1)
    with pytest.raises(TypeError, match="n_k must be an integer, but it is '4'"):
        masks.window(3, 1, "4")


# --------------------------------------------------------------------------------------------------------------- band


def test_band_reaches_to_both_sides():
    check_numpy(masks.band(4, 1), [[T, T, f, f], [T, T, T, f], [f, T, T, T], [f, f, T, T]])
    check_numpy(masks.band(3, 0), np.eye(3, dtype=bool))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_band_as_wide_as_the_sequence_allows_everything(n):
    for radius in (n, n + 1, 2**80):
        check_numpy(masks.band(n, radius), np.ones((n, n), dtype=bool))
    assert not masks.band(4, 2).all()


@often
@given(n=sizes, radius=st.integers(0, 6), library=libraries)
def test_band_by_loop(n, radius, library):
    expected = [[abs(i - j) <= radius for j in range(n)] for i in range(n)]
    check_like(masks.band(n, radius, like=LIKE[library]), library, expected, (n, n))


@often
@given(n=sizes, radius=st.integers(0, 6))
def test_band_is_a_window_and_its_mirror_image(n, radius):
    window = masks.window(n, radius + 1)
    check_numpy(masks.band(n, radius), window | window.T)
    check_numpy(masks.band(n, radius) & masks.causal(n), window)


def test_band_errors():
    with pytest.raises(ValueError, match="radius must not be negative, but it is -1"):
        masks.band(3, -1)
    with pytest.raises(TypeError, match=r"radius must be an integer, but it is 0\.5"):
        masks.band(3, 0.5)
    with pytest.raises(ValueError, match="n must not be negative, but it is -3"):
        masks.band(-3, 1)
    with pytest.raises(TypeError, match="n must be an integer"):
        masks.band(None, 1)


# ------------------------------------------------------------------------------------------------- documents, blocks


def test_documents_allows_the_same_document_only():
    check_numpy(masks.documents([4, 4, 7]), [[T, T, f], [T, T, f], [f, f, T]])
    check_numpy(masks.documents([1, 0, 1]), [[T, f, T], [f, T, f], [T, f, T]])
    check_numpy(masks.documents([-1]), [[T]])


def test_documents_keeps_leading_axes():
    check_numpy(masks.documents([[0, 0], [0, 1]]), [[[T, T], [T, T]], [[T, f], [f, T]]])
    for shape in [(0,), (0, 3), (2, 0), (2, 4, 3)]:
        assert masks.documents(np.zeros(shape, dtype=int)).shape == (*shape, shape[-1])
    assert masks.documents([]).shape == (0, 0)


@often
@given(ids=st.lists(st.integers(-2, 2), max_size=5), library=libraries)
def test_documents_by_loop(ids, library):
    expected = [[one == other for other in ids] for one in ids]
    check_like(masks.documents(ids, like=LIKE[library]), library, expected, (len(ids), len(ids)))


def test_blocks_is_block_diagonal():
    check_numpy(masks.blocks([2, 1]), [[T, T, f], [T, T, f], [f, f, T]])
    check_numpy(masks.blocks([1, 1]), np.eye(2, dtype=bool))
    check_numpy(masks.blocks([3]), np.ones((3, 3), dtype=bool))


def test_blocks_of_nothing():
    for none in ([], [0], [0, 0]):
        assert masks.blocks(none).shape == (0, 0)
    check_numpy(masks.blocks([0, 1, 0, 2]), masks.blocks([1, 2]))


@often
@given(sizes=st.lists(st.integers(0, 3), max_size=4), library=libraries)
def test_blocks_by_loop(sizes, library):
    n = sum(sizes)
    expected, start = np.zeros((n, n), dtype=bool), 0
    for size in sizes:
        for i in range(start, start + size):
            for j in range(start, start + size):
                expected[i, j] = True
        start += size
    check_like(masks.blocks(sizes, like=LIKE[library]), library, expected, (n, n))


def test_documents_and_blocks_errors():
    with pytest.raises(ValueError, match=r"ids must have shape \(\.\.\., n\).* single number, 3"):
        masks.documents(3)
    with pytest.raises(TypeError, match=r"ids must be integers, the number of the document.*float64"):
        masks.documents([0.0, 1.0])
    with pytest.raises(TypeError, match=r"ids must be integers.*bool"):
        masks.documents(torch.tensor([True, False]))
    with pytest.raises(ValueError, match=r"ids must have one shape.*\[\[0\], \[0, 1\]\]"):
        masks.documents([[0], [0, 1]])
    with pytest.raises(ValueError, match="sizes must not be negative, but -2 is among them"):
        masks.blocks([1, -2])
    with pytest.raises(ValueError, match=r"sizes must have shape \(n_blocks,\).*\(\)"):
        masks.blocks(3)
    with pytest.raises(ValueError, match=r"sizes must have shape \(n_blocks,\).*\(1, 2\)"):
        masks.blocks([[1, 2]])
    with pytest.raises(TypeError, match=r"sizes must be integers, the number of tokens of each block.*float64"):
        masks.blocks([1.5])


# -------------------------------------------------------------------------------------------------------------- graph


def test_graph_pairs_are_query_and_key():
    check_numpy(masks.graph([(0, 2)], 3, self_loops=False), [[f, f, T], [f, f, f], [f, f, f]])
    check_numpy(masks.graph([(0, 2)], 3), [[T, f, T], [f, T, f], [f, f, T]])


def test_graph_without_edges():
    for edges in ([], np.zeros((0, 2), dtype=int), torch.zeros(0, 2, dtype=int)):
        check_numpy(masks.graph(edges, 2, like=np.empty(0)), np.eye(2, dtype=bool))
        check_numpy(masks.graph(edges, 2, self_loops=False, like=np.empty(0)), np.zeros((2, 2), dtype=bool))
    assert masks.graph([], 0).shape == (0, 0)
    check_numpy(masks.graph([], 1), [[T]])
    check_numpy(masks.graph([(0, 0)], 1, self_loops=False), [[T]])


def test_graph_takes_an_edge_twice_and_each_direction_by_itself():
    check_numpy(masks.graph([(0, 1), (0, 1)], 2, False), [[f, T], [f, f]])
    check_numpy(masks.graph([(0, 1), (1, 0)], 2, False), [[f, T], [T, f]])


@often
@given(data=st.data(), n=st.integers(1, 4), self_loops=st.booleans(), library=libraries)
def test_graph_by_loop(data, n, self_loops, library):
    nodes = st.integers(0, n - 1)
    edges = data.draw(st.lists(st.tuples(nodes, nodes), max_size=6))
    expected = [[(i, j) in edges or (self_loops and i == j) for j in range(n)] for i in range(n)]
    check_like(masks.graph(edges, n, self_loops, like=LIKE[library]), library, expected, (n, n))


def test_graph_errors():
    with pytest.raises(ValueError, match=r"from 0 to below n = 3, but \(0, 3\) is among them"):
        masks.graph([(0, 1), (0, 3)], 3)
    with pytest.raises(ValueError, match=r"but \(-1, 0\) is among them"):
        masks.graph(torch.tensor([[-1, 0]]), 3)
    with pytest.raises(ValueError, match=r"n = 0, but \(0, 0\) is among them"):
        masks.graph([(0, 0)], 0)
    with pytest.raises(ValueError, match=r"shape \(n_edges, 2\).*\(2, 3\)\. Is it transposed"):
        masks.graph([[0, 1, 2], [1, 2, 0]], 3)
    with pytest.raises(ValueError, match=r"shape \(n_edges, 2\).*it has shape \(2,\)\.$"):
        masks.graph([0, 1], 3)
    with pytest.raises(ValueError, match=r"edges must have one shape"):
        masks.graph([(0, 1), (2,)], 3)
    with pytest.raises(TypeError, match=r"edges must be integers, pairs \(query, key\) of positions.*float64"):
        masks.graph([(0.0, 1.0)], 3)
    with pytest.raises(TypeError, match=r"bool\. A boolean array \(n, n\) is a mask already"):
        masks.graph(np.eye(3, dtype=bool), 3)
    with pytest.raises(ValueError, match="n must not be negative"):
        masks.graph([], -1)
    with pytest.raises(TypeError, match="n must be an integer"):
        masks.graph([], 2.0)


# ------------------------------------------------------------------------------------------------ all of them, together

BUILDERS = {
    "window": lambda **like: masks.window(3, 2, **like),
    "band": lambda **like: masks.band(3, 1, **like),
    "documents": lambda **like: masks.documents([0, 0, 1], **like),
    "blocks": lambda **like: masks.blocks([2, 1], **like),
    "graph": lambda **like: masks.graph([(0, 2)], 3, **like),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_builders_follow_like(build):
    assert type(build()) is np.ndarray
    check_like(build(like=torch.ones(1, dtype=torch.float16)), "torch", build(), (3, 3))
    assert build(like=torch.ones(1, device="meta")).device.type == "meta"
    with pytest.raises(TypeError, match="like is of type list"):
        build(like=[1.0])


@pytest.mark.parametrize(
    ("build", "integers"),
    [
        (masks.documents, [[0, 0, 1], [3, 4, 3]]),
        (masks.blocks, [2, 0, 1]),
        (lambda edges, **like: masks.graph(edges, 3, **like), [[0, 2], [1, 0]]),
    ],
    ids=["documents", "blocks", "graph"],
)
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_builders_follow_an_array_of_integers_unless_told(build, integers, dtype):
    numpy_integers, expected = np.array(integers, dtype=dtype), build(integers)
    torch_integers = torch.tensor(integers, dtype=getattr(torch, dtype))
    check_numpy(build(numpy_integers), expected)
    check_numpy(build(torch_integers, like=np.empty(0)), expected)
    check_like(build(torch_integers), "torch", expected, expected.shape)
    check_like(build(numpy_integers, like=torch.empty(0)), "torch", expected, expected.shape)
    assert np.array_equal(numpy_integers, integers)
    assert torch_integers.tolist() == integers


def test_masks_combine_before_attention(array):
    """Equal scores: each row of weights is even over the keys that both masks allow."""
    x = array(np.zeros((4, 2)))
    packed = masks.documents([0, 0, 1, 1], like=x) & masks.causal(4, like=x)
    check(attention(x, x, x, packed).weights, [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]])
    with_sink = masks.window(4, 1, like=x) | (masks.causal(4, like=x) & masks.padding(1, 4, like=x))
    check(attention(x, x, x, with_sink).weights, [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0.5, 0, 0, 0.5]])
    padded = masks.band(4, 1, like=x) & masks.padding(2, 4, like=x)
    expected = [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]  # the last query is left without a key
    check(attention(x, x, x, padded).weights, expected)


def test_attention_in_blocks_is_attention_to_each_block(array):
    query, key, value = (array(np.random.default_rng(i).normal(size=(5, 3))) for i in range(3))
    whole = attention(query, key, value, masks.blocks([2, 3], like=query)).output
    parts = [attention(query[rows], key[rows], value[rows]).output for rows in (slice(0, 2), slice(2, 5))]
    check(whole, np.concatenate([np.asarray(part) for part in parts]), atol=1e-12)


def test_documents_reach_every_head():
    x = torch.randn(2, 3, 4, 5).double()  # (B, H, n, d)
    ids = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    mask = masks.documents(ids)[:, None] & masks.causal(4, like=x)  # (B, 1, n, n)
    theirs = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    torch.testing.assert_close(attention(x, x, x, mask).output, theirs)
    first = x[0, :, 2:]  # the second document of the first row, by itself
    torch.testing.assert_close(
        attention(x, x, x, mask).output[0, :, 2:], attention(first, first, first, is_causal=True)[0]
    )


# ------------------------------------------------------------------------------------------------------- translations


def test_to_additive_is_zero_or_minus_infinity():
    mask = masks.causal(2)
    additive = masks.to_additive(mask)
    assert additive.dtype == np.float64
    assert np.array_equal(additive, [[0, -np.inf], [0, 0]])
    assert masks.to_additive(mask, np.float16).dtype == np.float16
    assert np.array_equal(mask, [[T, f], [T, T]])


def test_to_additive_in_torch():
    mask = masks.causal(2, like=torch.empty(0))
    assert masks.to_additive(mask).dtype == torch.get_default_dtype()
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        additive = masks.to_additive(mask, dtype)
        assert additive.dtype == dtype
        assert torch.equal(additive, torch.tensor([[0, -torch.inf], [0, 0]], dtype=dtype))


def test_to_additive_means_the_same_to_attention_and_to_torch():
    query, key, value = (torch.randn(2, 3, 4, 5).double() for _ in range(3))
    mask = masks.causal(4, like=query) & masks.padding(torch.tensor([0, 3])[:, None], 4)
    expected = attention(query, key, value, mask)
    additive = masks.to_additive(mask, torch.float64)
    torch.testing.assert_close(attention(query, key, value, additive), expected, rtol=0, atol=0)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=additive)
    torch.testing.assert_close(theirs, expected.output)


def test_to_additive_errors():
    with pytest.raises(TypeError, match="float64: a float mask is additive already"):
        masks.to_additive(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="uint8: pass mask == 1"):
        masks.to_additive(np.ones((2, 2), dtype=np.uint8))
    with pytest.raises(TypeError, match="mask is of type list"):
        masks.to_additive([[True]])
    with pytest.raises(TypeError, match="real floating dtype"):
        masks.to_additive(masks.causal(2), int)
    with pytest.raises(TypeError, match=r"mask's library, but it is torch\.float32"):
        masks.to_additive(masks.causal(2), torch.float32)
    with pytest.raises(TypeError, match="mask's library"):
        masks.to_additive(masks.causal(2, like=torch.empty(0)), np.float32)


def test_to_torch_mha_is_true_where_forbidden():
    mask = masks.causal(2)
    check_numpy(masks.to_torch_mha(mask), [[f, T], [f, f]])
    check_numpy(mask, [[T, f], [T, T]])


def test_to_torch_mha_rejects_integers():
    """A43: ~ of uint8 [1, 0] is [254, 255], true everywhere."""
    with pytest.raises(TypeError, match="uint8"):
        masks.to_torch_mha(np.array([1, 0], dtype=np.uint8))


@torch.no_grad()
def test_to_torch_mha_is_what_multihead_attention_means():
    layer = torch.nn.MultiheadAttention(6, 1, batch_first=True, dtype=torch.float64)
    layer.in_proj_weight.copy_(torch.eye(6).repeat(3, 1))
    layer.out_proj.weight.copy_(torch.eye(6))
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    lengths = torch.tensor([2, 4])
    output, weights = layer(
        x,
        x,
        x,
        attn_mask=masks.to_torch_mha(masks.causal(4, like=x)),
        key_padding_mask=masks.to_torch_mha(masks.padding(lengths, 4))[:, 0],
    )
    ours = attention(x, x, x, masks.causal(4, like=x) & masks.padding(lengths, 4))
    torch.testing.assert_close(weights, ours.weights)
    torch.testing.assert_close(output, ours.output)
