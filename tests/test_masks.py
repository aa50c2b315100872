"""Masks: what each builder allows, in both libraries, and what its translations mean to others."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlab import attention, masks

T, f = True, False


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)


def check_numpy(mask, expected):
    assert type(mask) is np.ndarray
    assert mask.dtype == bool
    assert mask.shape == np.shape(expected)
    assert np.array_equal(mask, expected)


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
