"""Translations of masks: the same mask through each of torch's functions gives the attention of this course.

Two samples, three heads, four queries, five keys: a mask with its polarity, an axis or the order of samples and heads
wrong gives other numbers.  What other libraries return through these translations is in `attnlab.conventions`.
"""

import warnings
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnlab import attention, masks

B, H, N_Q, N_K, D = 2, 3, 4, 5, 4


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)


def random_mask(*shape):
    """Half of the pairs are allowed, and at least one key for each query."""
    return (torch.rand(*shape) < 0.5) | torch.eye(*shape[-2:], dtype=torch.bool)


def inputs(n_q=N_Q, n_k=N_K):
    """Query, key and value (B, H, n, D) in float64."""
    return [torch.randn(B, H, n, D, dtype=torch.float64) for n in (n_q, n_k, n_k)]


def merged(x):
    """(B, H, n, D) → (B, n, H · D), what a module with H heads gets."""
    return x.transpose(1, 2).flatten(-2)


KINDS = {
    "shared": lambda: random_mask(N_Q, N_K),
    "a sample": lambda: random_mask(B, N_Q, N_K),
    "a sample, one for all heads": lambda: random_mask(B, 1, N_Q, N_K),
    "a head, one for all samples": lambda: random_mask(1, H, N_Q, N_K),
    "a sample and head": lambda: random_mask(B, H, N_Q, N_K),
    "padding": lambda: masks.padding(torch.tensor([5, 2]), N_K),
    "padding with heads": lambda: masks.padding(torch.tensor([[5], [2]]), N_K),
    "causal": lambda: masks.causal(N_Q, N_K, like=torch.empty(0)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def with_own_axes(mask):
    """The mask on the axes (B, H, n_q, n_k), written without the function that is tested."""
    return mask.unsqueeze(1) if mask.ndim == 3 else mask


# -------------------------------------------------------------------------------------------- SDPA and flex_attention


@every_kind
def test_scaled_dot_product_attention(kind):
    (query, key, value), mask = inputs(), KINDS[kind]()
    expected = attention(query, key, value, with_own_axes(mask)).output
    four = masks.to_four_axes(mask)
    assert four.ndim == 4
    for translated in (four, masks.to_additive(four, torch.float64)):
        theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=translated)
        torch.testing.assert_close(theirs, expected)


def test_a_mask_of_a_sample_is_not_one_of_a_head():
    """Where there are as many samples as heads, torch takes (B, n_q, n_k) for (H, n_q, n_k) and says nothing."""
    query, key, value = (x[:, :B] for x in inputs())
    mask = random_mask(B, N_Q, N_K)
    untranslated = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    right = F.scaled_dot_product_attention(query, key, value, attn_mask=masks.to_four_axes(mask))
    assert (untranslated - right).abs().max() > 0.1
    torch.testing.assert_close(right[1, 0], attention(query[1, 0], key[1, 0], value[1, 0], mask[1]).output)


@every_kind
def test_flex_attention(kind):
    (query, key, value), mask = inputs(), KINDS[kind]()
    if mask.shape[-2] == 1:  # a rule is asked for each query: nothing broadcasts
        mask = mask.expand(*mask.shape[:-2], N_Q, N_K)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        block_mask = create_block_mask(masks.to_flex(mask), B, H, N_Q, N_K, device="cpu")
        theirs = flex_attention(query.float(), key.float(), value.float(), block_mask=block_mask)
    expected = attention(query, key, value, with_own_axes(mask)).output
    torch.testing.assert_close(theirs.double(), expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------- MultiheadAttention


def multihead(batch_first=True, n_heads=H):
    """A module whose projections change nothing: its heads get the parts of query, key and value."""
    width = n_heads * D
    layer = torch.nn.MultiheadAttention(width, n_heads, batch_first=batch_first, dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(width).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(width))
    return layer


PER_SAMPLE = ["a sample", "a sample, one for all heads", "a sample and head"]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["shared", "causal", *PER_SAMPLE])
def test_attn_mask_of_multihead_attention(kind, need_weights, is_training, batch_first):
    (query, key, value), mask = inputs(), KINDS[kind]()
    expected = attention(query, key, value, with_own_axes(mask))
    layer = multihead(batch_first).train(is_training)
    sequences = [merged(x) if batch_first else merged(x).transpose(0, 1) for x in (query, key, value)]
    translated = masks.to_torch_mha(mask, H if kind in PER_SAMPLE else None)
    for gradient in (True, False):
        with torch.set_grad_enabled(gradient):
            output, weights = layer(
                *sequences, attn_mask=translated, need_weights=need_weights, average_attn_weights=False
            )
        output = output if batch_first else output.transpose(0, 1)
        torch.testing.assert_close(output, merged(expected.output))
        if need_weights:
            torch.testing.assert_close(weights, expected.weights)


def test_order_of_samples_and_heads():
    """A49: [M0, M0, M1, M1], not [M0, M1, M0, M1]."""
    mask = random_mask(2, N_Q, N_K)
    assert torch.equal(masks.to_torch_mha(mask, 2), ~torch.stack([mask[0], mask[0], mask[1], mask[1]]))
    of_heads = random_mask(2, 2, N_Q, N_K)
    assert torch.equal(masks.to_torch_mha(of_heads, 2), ~torch.stack([*of_heads[0], *of_heads[1]]))

    query, key, value = (x[:, :2] for x in inputs())
    right, wrong = masks.to_torch_mha(mask, 2), ~mask.repeat(2, 1, 1)
    assert right.shape == wrong.shape
    sequences = [merged(x) for x in (query, key, value)]
    expected = merged(attention(query, key, value, mask[:, None]).output)
    layer = multihead(n_heads=2)
    torch.testing.assert_close(layer(*sequences, attn_mask=right)[0], expected)
    assert (layer(*sequences, attn_mask=wrong)[0] - expected).abs().max() > 0.1


# The fast path of torch is among these modes: eval, no gradient, no weights; and an even number of heads.
@pytest.mark.parametrize(("is_training", "gradient", "need_weights"), [*product([True, False], repeat=3)])
def test_padding_and_causal_of_multihead_attention(is_training, gradient, need_weights):
    x = torch.randn(B, 2, N_K, D, dtype=torch.float64)
    lengths = torch.tensor([5, 2])
    real, causal = masks.padding(lengths, N_K), masks.causal(N_K, like=x)
    layer, tokens = multihead(n_heads=2).train(is_training), merged(x)
    for mask, arguments in [
        (real[:, None], {"key_padding_mask": masks.to_torch_mha(real)[:, 0]}),
        (causal, {"attn_mask": masks.to_torch_mha(causal)}),
        (real & causal, {"attn_mask": masks.to_torch_mha(real & causal, 2)}),
        (
            (real & causal)[:, None],
            {"attn_mask": masks.to_torch_mha(causal), "key_padding_mask": masks.to_torch_mha(real)[:, 0]},
        ),
    ]:
        with torch.set_grad_enabled(gradient):
            output = layer(tokens, tokens, tokens, need_weights=need_weights, **arguments)[0]
        torch.testing.assert_close(output, merged(attention(x, x, x, with_own_axes(mask)).output))


# ------------------------------------------------------------------------------------------------- TransformerEncoder


def layer_by_hand(layer, x, mask):
    """The same layer, its attention by this course: x (B, n, d), mask (B, 1, n, n) → (B, n, d)"""
    inner = layer.self_attn
    parts = F.linear(x, inner.in_proj_weight, inner.in_proj_bias).chunk(3, dim=-1)
    query, key, value = (part.unflatten(-1, (inner.num_heads, -1)).transpose(1, 2) for part in parts)
    x = layer.norm1(x + inner.out_proj(merged(attention(query, key, value, mask).output)))
    return layer.norm2(x + layer.linear2(torch.relu(layer.linear1(x))))


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("is_causal", [True, False])
def test_transformer_encoder_layer(is_causal, is_fast):
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, dim_feedforward=6, dropout=0.0, batch_first=True, dtype=torch.float64
    )
    torch.nn.init.normal_(layer.self_attn.in_proj_weight)
    layer.train(not is_fast)
    x, lengths = torch.randn(B, N_K, 8, dtype=torch.float64), torch.tensor([5, 2])
    real, causal = masks.padding(lengths, N_K), masks.causal(N_K, like=x)
    with torch.set_grad_enabled(not is_fast):
        theirs = layer(
            x,
            src_mask=masks.to_torch_mha(causal) if is_causal else None,
            src_key_padding_mask=masks.to_torch_mha(real)[:, 0],
        )
        expected = layer_by_hand(layer, x, (real & causal if is_causal else real)[:, None])
    is_real = real[:, 0]
    torch.testing.assert_close(theirs[is_real], expected[is_real])


# ------------------------------------------------------------------------------------------------ shapes and messages


@pytest.mark.parametrize(
    ("shape", "four", "keras"),
    [
        ((4, 5), (1, 1, 4, 5), (1, 4, 5)),
        ((2, 4, 5), (2, 1, 4, 5), (2, 4, 5)),
        ((2, 1, 5), (2, 1, 1, 5), (2, 1, 5)),
        ((2, 1, 4, 5), (2, 1, 4, 5), (2, 4, 5)),
    ],
)
def test_axes_of_four_and_of_keras(shape, four, keras, array):
    mask = np.random.default_rng(0).random(shape) < 0.5
    given = array(mask, "bool")
    for translated, expected in ((masks.to_four_axes(given), four), (masks.to_keras(given), keras)):
        assert type(translated) is type(given)
        assert np.array_equal(np.asarray(translated), mask.reshape(expected)) and translated.shape == expected


def test_to_hugging_face(array):
    lengths = np.array([3, 0, 1])
    expected = [[1, 1, 1], [0, 0, 0], [1, 0, 0]]
    for lengths_given in (lengths, lengths[:, None]):
        mask = masks.to_hugging_face(masks.padding(array(lengths_given, "int64"), 3))
        assert str(mask.dtype).removeprefix("torch.") == "int64"
        assert np.asarray(mask).tolist() == expected
    left = array([[False, False, True]], "bool")[:, None]
    assert np.asarray(masks.to_hugging_face(left)).tolist() == [[0, 0, 1]]


def test_translations_in_numpy_are_those_in_torch():
    for kind in PER_SAMPLE:
        mask = KINDS[kind]()
        assert np.array_equal(masks.to_torch_mha(mask.numpy(), H), masks.to_torch_mha(mask, H).numpy())
        by_flex = masks.to_flex(mask.numpy())(*np.ix_(range(B), range(H), range(N_Q), range(N_K)))
        expected = with_own_axes(mask).expand(B, H, N_Q, N_K)
        assert np.array_equal(np.broadcast_to(by_flex, expected.shape), expected)


def test_the_mask_is_left_as_it_is():
    for kind, make in KINDS.items():
        mask = make()
        before = mask.clone()
        masks.to_four_axes(mask), masks.to_flex(mask), masks.to_additive(mask), masks.to_torch_mha(mask)
        if kind in PER_SAMPLE:
            masks.to_torch_mha(mask, H)
        assert torch.equal(mask, before)


@pytest.mark.parametrize("name", ["to_four_axes", "to_keras", "to_hugging_face", "to_flex", "to_torch_mha"])
def test_masks_that_are_not_boolean_are_refused(name):
    translate = getattr(masks, name)
    with pytest.raises(TypeError, match="uint8: pass mask == 1"):
        translate(np.ones((2, 1, 4), dtype=np.uint8))
    with pytest.raises(TypeError, match="a float mask is additive already"):
        translate(torch.zeros(2, 1, 4))


def test_shapes_that_do_not_fit_are_named():
    for shape in ((5,), (1, 2, 3, 4, 5)):
        for translate in (masks.to_four_axes, masks.to_flex, masks.to_keras):
            with pytest.raises(ValueError, match=rf"but it has shape \({shape[0]}"):
                translate(np.ones(shape, dtype=bool))
    with pytest.raises(ValueError, match=r"one mask for all heads, but this one has shape \(2, 3, 4, 5\)"):
        masks.to_keras(np.ones((2, 3, 4, 5), dtype=bool))
    for shape in ((4, 5), (2, 4, 5), (2, 3, 1, 5), (2, 1, 4, 5)):
        with pytest.raises(ValueError, match=r"the same for all queries and heads, but it has shape \("):
            masks.to_hugging_face(np.ones(shape, dtype=bool))
    for shape in ((4, 5), (2, 2, 4, 5), (1, 2, 3, 4, 5)):
        with pytest.raises(ValueError, match=r"but n_heads is 3 and mask has shape \("):
            masks.to_torch_mha(np.ones(shape, dtype=bool), 3)
