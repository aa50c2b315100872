"""Heads: split and merge in both libraries; the layer against loops and invariants, and what it refuses.

Two samples, four heads, four queries, five keys, heads of width three.  "A…" names a report in the collection of public
bugs that the course teaches from; its right value is the test.
"""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name
from test_core_properties import attention_by_loop
from test_import import run
from torch import nn
from torch.nn import functional as F

from attnlab import invariants, masks
from attnlab.heads import MultiHeadAttention, merge, split

B, H, N_Q, N_K, D_HEAD = 2, 4, 4, 5, 3
D, D_KEY, D_VALUE = H * D_HEAD, 7, 9
INF = math.inf


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)


def filled(module):
    """Float64, and every parameter random: biases of 0 would hide what happens to them."""
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def layer_of(*arguments, **options):
    return filled(MultiHeadAttention(*(arguments or (D, H)), **options))


def inputs(n_q=N_Q, n_k=N_K, d_key=D, d_value=D):
    """Query, key and value (B, n, d) that collect gradients."""
    shapes = [(B, n_q, D), (B, n_k, d_key), (B, n_k, d_value)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def random_mask(*shape):
    """Half of the pairs are allowed, and at least one key for each query."""
    return (torch.rand(*shape) < 0.5) | torch.eye(*shape[-2:], dtype=torch.bool)


def as_float(allowed):
    return torch.where(allowed, torch.randn(allowed.shape, dtype=torch.float64), -INF)


# ------------------------------------------------------------------------------------------------------ split and merge


def test_split_by_hand(array):
    """A52: a head gets features, not tokens."""
    check(split(array([[1, 2], [3, 4]]), 2), [[[1], [3]], [[2], [4]]], atol=0)
    assert split(array([[1, 2], [3, 4]], "int64"), 2).tolist() == [[[1], [3]], [[2], [4]]]


def test_merge_by_hand(array):
    """A53: a token gets its features back, from all heads."""
    check(merge(array([[[0, 1], [2, 3]], [[4, 5], [6, 7]]])), [[0, 1, 4, 5], [2, 3, 6, 7]], atol=0)


@pytest.mark.parametrize("batch", [(), (2,), (2, 5), (0,)])
@pytest.mark.parametrize("n_heads", [1, 2, 3, 6])
def test_split_and_merge_undo_each_other(array, n_heads, batch):
    x = np.random.default_rng(0).normal(size=(*batch, 4, 6))
    heads = split(array(x, "float32"), n_heads)
    assert dtype_name(heads) == dtype_name(merge(heads)) == "float32"
    for h, start in enumerate(range(0, 6, 6 // n_heads)):
        check(heads[..., h, :, :], x[..., start : start + 6 // n_heads], atol=1e-6)
    check(merge(heads), x, atol=1e-6)


def test_a_reshape_alone_cuts_the_tokens(array):
    """A52: same shape, other numbers; and attention within a head then never leaves its tokens."""
    x = array(np.arange(24.0).reshape(4, 6))
    right, published = split(x, 2), x.reshape(2, 4, 3)
    assert right.shape == published.shape
    assert right[0].tolist() != published[0].tolist()
    assert {number // 6 for number in published[0].ravel().tolist()} == {0, 1}  # head 0 has the tokens 0 and 1 only
    assert {number // 6 for row in right[0].tolist() for number in row} == {0, 1, 2, 3}


def test_split_and_merge_name_the_shape(array):
    for shape, n_heads in [((2, 4, 10), 3), ((6,), 2), ((), 1), ((4, 2), 4)]:
        with pytest.raises(ValueError, match=r"\(\.\.\., n, d\) with d a multiple of n_heads") as error:
            split(array(np.zeros(shape)), n_heads)
        assert f"n_heads is {n_heads} and x has shape {shape}." in str(error.value)
    for n_heads in (0, -2, 2.0, True, None):
        with pytest.raises(ValueError, match=f"n_heads must be a whole number of at least 1, but it is {n_heads}"):
            split(array(np.zeros((4, 6))), n_heads)
    with pytest.raises(ValueError, match=r"\(\.\.\., n_heads, n, d_head\), but it has shape \(4, 6\)"):
        merge(array(np.zeros((4, 6))))
    for function in (merge, lambda x: split(x, 2)):
        with pytest.raises(TypeError, match=r"x is of type list.*pass np\.asarray\(x\)"):
            function([[[1.0, 2]]])


# -------------------------------------------------------------------------------------------------------- without torch


def test_split_loads_no_torch():
    code = """
import sys, numpy as np
from attnlab.heads import merge, split
import attnlab.heads
print(merge(split(np.eye(2), 2)).tolist(), "torch" in sys.modules)
print(attnlab.heads.MultiHeadAttention(4, 2).n_heads, "torch" in sys.modules)
from attnlab.heads import MultiHeadAttention
print(MultiHeadAttention is attnlab.heads.MultiHeadAttention, "MultiHeadAttention" in vars(attnlab.heads))
"""
    assert run(code).splitlines() == ["[[1.0, 0.0], [0.0, 1.0]] False", "2 True", "True True"]


def test_without_torch_the_layer_says_what_to_install():
    code = """
import sys, numpy as np
sys.modules["torch"] = None  # from here on, `import torch` raises ModuleNotFoundError
from attnlab.heads import split
print(split(np.eye(2), 2).tolist())
try:
    from attnlab.heads import MultiHeadAttention
except ModuleNotFoundError as error:
    print(error.name, "|", error)
"""
    first, second = run(code).splitlines()
    assert first == "[[[1.0], [0.0]], [[0.0], [1.0]]]"
    assert second.startswith(
        "torch | MultiHeadAttention is a torch module, and torch is not installed: pip install torch"
    )


def test_another_name_is_not_there():
    from attnlab import heads

    with pytest.raises(AttributeError, match=r"module 'attnlab\.heads' has no attribute 'MultiheadAttention'"):
        _ = heads.MultiheadAttention


# ---------------------------------------------------------------------------------------------------------------- masks


def test_a_mask_of_three_axes_is_one_a_sample():
    """Also where there are as many samples as heads, which an axis of heads would swallow."""
    layer = layer_of(D, B)
    query, key, value = inputs()
    mask = random_mask(B, N_Q, N_K)
    result = layer(query, key, value, mask)
    for b in range(B):
        alone = layer(query[b : b + 1], key[b : b + 1], value[b : b + 1], mask[b])
        torch.testing.assert_close(result.output[b], alone.output[0])
        assert torch.equal(result.weights[b] > 0, mask[b].expand(B, N_Q, N_K))
    assert not torch.equal(mask[0], mask[1])


def test_is_causal_is_bottom_right_and_both_must_allow():
    layer, (query, key, value) = layer_of(), inputs()
    causal = masks.causal(N_Q, N_K, like=query)
    assert causal[0].tolist() == [True, True, False, False, False]
    mask = random_mask(B, N_Q, N_K) | causal.logical_not()
    mask[:, :, 0] = True
    for given, expected in [(None, causal), (mask, mask & causal), (as_float(mask), None)]:
        result = layer(query, key, value, given, is_causal=True)
        expected = torch.where(causal, given, -INF) if expected is None else expected
        torch.testing.assert_close(result, layer(query, key, value, expected))
    assert (layer(query, key, value).output - result.output).abs().max() > 0.1


@pytest.mark.parametrize("n_kv_heads", [H, 2, 1])
@pytest.mark.parametrize("kind", [torch.bool, torch.float64])
def test_an_empty_row_is_the_bias_and_has_no_gradient(kind, n_kv_heads):
    layer, given = layer_of(D, H, n_kv_heads), inputs()
    mask = random_mask(B, N_Q, N_K)
    mask[1, 2] = False
    mask = mask if kind == torch.bool else masks.to_additive(mask, kind)
    result = layer(*given, mask)
    assert torch.equal(result.weights[1, :, 2], torch.zeros(H, N_K, dtype=torch.float64))
    torch.testing.assert_close(result.output[1, 2], layer.W_o.bias)

    parameters = [*given, *(p for name, p in layer.named_parameters() if name != "W_o.bias")]
    others = torch.ones(B, N_Q, 1, dtype=torch.float64)
    others[1, 2] = 0
    factors = torch.linspace(-1, 1, D, dtype=torch.float64)
    of_all = torch.autograd.grad((result.output * factors).sum(), parameters, retain_graph=True)
    of_others = torch.autograd.grad((result.output * factors * others).sum(), parameters)
    for one, other in zip(of_all, of_others, strict=True):
        torch.testing.assert_close(one, other)  # NaN would not be equal to anything
    assert of_all[0][1, 2].tolist() == [0.0] * D


# ------------------------------------------------------------------------------------------------- what heads are


def test_concatenate_and_project_is_a_sum_over_heads():
    """A55."""
    layer, (query, key, value) = layer_of(), inputs()
    result = layer(query, key, value)
    values = split(layer.W_v(value), H)
    total = layer.W_o.bias.expand(B, N_Q, D)
    for h in range(H):
        columns = layer.W_o.weight[:, h * D_HEAD : (h + 1) * D_HEAD]  # (d_model, d_head)
        total = total + result.weights[:, h] @ values[:, h] @ columns.T
    torch.testing.assert_close(result.output, total)


def test_heads_may_change_places_together_with_the_columns_of_the_output():
    layer, given = layer_of(), inputs()
    order = torch.tensor([2, 0, 3, 1])
    features = torch.arange(D).view(H, D_HEAD)[order].flatten()
    before = layer(*given)
    with torch.no_grad():
        for projection in (layer.W_q, layer.W_k, layer.W_v):
            projection.weight.copy_(projection.weight[features])
            projection.bias.copy_(projection.bias[features])
        halfway = layer(*given)
        layer.W_o.weight.copy_(layer.W_o.weight[:, features])
    after = layer(*given)
    assert (halfway.output - before.output).abs().max() > 0.1
    torch.testing.assert_close(after.output, before.output)
    torch.testing.assert_close(after.weights, before.weights[:, order])


def test_as_many_key_heads_as_query_heads_is_the_plain_layer():
    plain, grouped = layer_of(), layer_of(D, H, H)
    grouped.load_state_dict(plain.state_dict())
    given = inputs()
    for ours, theirs in zip(grouped(*given), plain(*given), strict=True):
        assert torch.equal(ours, theirs)
    assert plain.n_kv_heads == H


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(4, 4), (4, 2), (4, 1), (6, 3), (6, 2), (1, 1)])
@pytest.mark.parametrize("is_causal", [True, False])
def test_equals_an_explicit_loop(n_heads, n_kv_heads, is_causal):
    """A68, A6: head h reads key head h // (n_heads / n_kv_heads), and the scale is that of a head's width."""
    layer = layer_of(D, n_heads, n_kv_heads, d_key=D_KEY, d_value=D_VALUE)
    given, d_head = inputs(d_key=D_KEY, d_value=D_VALUE), D // n_heads
    mask = as_float(random_mask(B, n_heads, N_Q, N_K))
    result = layer(*given, mask, is_causal=is_causal)
    q, k, v = (
        projection(x).detach().numpy() for projection, x in zip((layer.W_q, layer.W_k, layer.W_v), given, strict=True)
    )
    assert k.shape[-1] == v.shape[-1] == n_kv_heads * d_head
    for b in range(B):
        concatenated = np.zeros((N_Q, D))
        for h in range(n_heads):
            own = slice(h * d_head, (h + 1) * d_head)
            g = h // (n_heads // n_kv_heads)
            shared = slice(g * d_head, (g + 1) * d_head)
            head = q[b][:, own], k[b][:, shared], v[b][:, shared], mask[b, h].numpy()
            concatenated[:, own], weights = attention_by_loop(*head, d_head**-0.5, is_causal)
            check(result.weights[b, h], weights, atol=1e-12)
        output = concatenated @ layer.W_o.weight.detach().numpy().T + layer.W_o.bias.detach().numpy()
        check(result.output[b], output, atol=1e-12)


def test_grouped_heads_equal_torchs_own():
    """torch's scaled_dot_product_attention has grouped heads too."""
    layer, (query, key, value) = layer_of(D, 4, 2), inputs()
    q, k, v = split(layer.W_q(query), 4), split(layer.W_k(key), 2), split(layer.W_v(value), 2)
    expected = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(layer(query, key, value).output, layer.W_o(merge(expected)))


def test_parameters_are_counted():
    """Heads cost nothing: 4 d² + 4 d, however many; fewer key heads cost less."""

    def count(*arguments, **options):
        return sum(parameter.numel() for parameter in MultiHeadAttention(*arguments, **options).parameters())

    assert {count(64, n_heads) for n_heads in (1, 2, 8, 64)} == {4 * 64 * 64 + 4 * 64} == {16640}
    assert count(64, 8, bias=False) == 16384
    assert count(64, 8, 2) == 2 * (64 * 64 + 64) + 2 * (64 * 16 + 16) == 10400
    assert count(64, 8, 1) == 2 * (64 * 64 + 64) + 2 * (64 * 8 + 8) == 9360
    assert count(64, 8, d_key=10, d_value=20, bias=False) == 2 * 64 * 64 + 64 * 10 + 64 * 20


def test_grouped_weights_start_within_the_bounds_of_one_packed_matrix():
    """6 / (inputs + outputs), where the outputs are those of W_q, W_k and W_v together."""
    layer = MultiHeadAttention(96, 12, 2)
    bound = math.sqrt(6 / (96 + 96 + 2 * 16))
    for name in ("W_q", "W_k", "W_v"):
        largest = getattr(layer, name).weight.abs().max().item()
        assert 0.98 * bound < largest <= bound
    assert 0.98 / math.sqrt(96) < layer.W_o.weight.abs().max().item() <= 1 / math.sqrt(96)
    assert not any(parameter.any() for name, parameter in layer.named_parameters() if name.endswith("bias"))


# ----------------------------------------------------------------------------------------------------------- invariants


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_layer_keeps_its_promises(dtype, n_kv_heads):
    layer = MultiHeadAttention(D, 4, n_kv_heads).to(dtype)
    settings = {"width": D, "like": torch.empty(0, dtype=dtype)}
    table = invariants.check_all(lambda x, mask: layer(x, mask=mask), **settings)
    assert all(table), table
    assert len(list(table)) == 4
    causal = invariants.poison_future(lambda x, mask: layer(x, is_causal=True), **settings)
    assert causal, causal


def test_its_heads_keep_all_promises():
    """With projections that change nothing, the layer is the attention of its heads: (B, 3, n, 7)."""
    layer = MultiHeadAttention(21, 3, d_key=18, bias=False)
    with torch.no_grad():
        for projection in (layer.W_q, layer.W_v, layer.W_o):
            projection.weight.copy_(torch.eye(21))
        layer.W_k.weight.copy_(torch.block_diag(*[torch.eye(7, 6)] * 3))  # keys are 6 wide: a seventh feature of 0

    def attention(query, key, value, mask):
        return split(layer(merge(F.pad(query, (0, 1))), merge(key), merge(value), mask).output, 3)

    table = invariants.check_all(attention, like=torch.empty(0))
    assert all(table), table
    assert len(list(table)) == 8


# ----------------------------------------------------------------------------------------- dtypes, inputs and messages


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_dtypes_are_kept(dtype, atol):
    exact, given = layer_of(D, H, 2), inputs()
    layer = MultiHeadAttention(D, H, 2).to(dtype)
    layer.load_state_dict(exact.state_dict())
    for mask in (random_mask(N_Q, N_K), as_float(random_mask(N_Q, N_K))):
        result, expected = layer(*(x.to(dtype) for x in given), mask), exact(*given, mask)
        assert result.output.dtype == result.weights.dtype == dtype
        for ours, theirs in zip(result, expected, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=atol)


def test_inputs_and_parameters_are_left_as_they_are():
    layer = layer_of(D, H, 2)
    given = [x.detach() for x in inputs()]
    for mask in (random_mask(B, N_Q, N_K), as_float(random_mask(B, H, N_Q, N_K))):
        before = [x.clone() for x in (*given, mask, *layer.parameters())]
        layer(*given, mask, is_causal=True)
        assert all(torch.equal(x, y) for x, y in zip((*given, mask, *layer.parameters()), before, strict=True))


def test_transforms_of_torch_see_through_it():
    """Several batches at once, and on devices without numbers."""
    layer, x = layer_of(D, H, 2), torch.randn(3, B, N_Q, D, dtype=torch.float64)
    together = torch.func.vmap(lambda one: layer(one, is_causal=True).output)(x)
    torch.testing.assert_close(together, torch.stack([layer(one, is_causal=True).output for one in x]))
    with torch.device("meta"):
        weights = MultiHeadAttention(D, H)(torch.empty(B, N_Q, D), is_causal=True).weights
    assert weights.device.type == "meta" and weights.shape == (B, H, N_Q, N_Q)


def test_key_and_value_stand_in_for_each_other():
    layer, (query, key, value) = layer_of(), inputs()
    for short, full in [((query,), (query, query, query)), ((query, key), (query, key, key))]:
        torch.testing.assert_close(layer(*short), layer(*full))
    assert (layer(query, key).output - layer(query, key, value).output).abs().max() > 0.1
    with pytest.raises(TypeError, match="value was given without a key"):
        layer(query, value=value)


SHAPES = {
    "query of another width": (((2, 4, 11),), r"query must have shape \(B, n_q, d\) with d = 12.*\(2, 4, 11\)\.$"),
    "no batch": (((4, 12),), r"query must have shape \(B, n_q, d\).*\(4, 12\)\. A batch of one is query\[None\]"),
    "heads already": (((2, 4, 4, 3),), r"query must have shape \(B, n_q, d\).*\(2, 4, 4, 3\)\.$"),
    "key of another width": (((2, 4, 12), (2, 5, 12)), r"key must have shape \(B, n_k, d\) with d = 7.*\(2, 5, 12\)"),
    "value of another width": (((2, 4, 12), (2, 5, 7)), r"value must have shape \(B, n_k, d\) with d = 9.*\(2, 5, 7\)"),
    "batch": (
        ((2, 4, 12), (1, 5, 7), (1, 5, 9)),
        r"agree in B.*query.*\(2, 4, 12\), key.*\(1, 5, 7\), value.*\(1, 5, 9\)",
    ),
    "batch of values": (((2, 4, 12), (2, 5, 7), (3, 5, 9)), r"agree in B.*\(2, 5, 7\), value has shape \(3, 5, 9\)"),
    "n_k": (((2, 4, 12), (2, 5, 7), (2, 4, 9)), r"key and value in n_k.*\(2, 5, 7\), value has shape \(2, 4, 9\)"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes_that_do_not_fit_are_named(case):
    shapes, words = SHAPES[case]
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(12, 4, d_key=7, d_value=9)(*map(torch.zeros, shapes))


@pytest.mark.parametrize(
    "shape", [(2, 5), (4, 4), (3, 4, 5), (4, 4, 5), (2, 5, 5), (8, 4, 5), (2, 2, 4, 5), (1, 2, 4, 4, 5), (4,)]
)
def test_a_mask_that_does_not_fit_is_named(shape):
    query, key, _ = inputs()
    with pytest.raises(ValueError, match=r"one matrix a sample.*n_k\) is \(2, 4, 4, 5\) and mask has shape") as error:
        layer_of()(query, key, mask=torch.ones(shape, dtype=torch.bool))
    assert str(error.value).endswith(f"mask has shape {shape}.")


def test_one_sample_does_not_become_two():
    x = torch.zeros(1, N_Q, D)
    with pytest.raises(ValueError, match=r"mask has shape \(2, 4, 4\)"):
        MultiHeadAttention(D, H)(x, mask=torch.ones(2, N_Q, N_Q, dtype=torch.bool))


def test_what_is_no_tensor_of_real_numbers_is_refused():
    layer, x = MultiHeadAttention(D, H), torch.zeros(B, N_Q, D)
    with pytest.raises(TypeError, match=r"query is of type ndarray, but this layer takes tensors"):
        layer(x.numpy())
    with pytest.raises(TypeError, match=r"mask is of type ndarray, but this layer takes tensors"):
        layer(x, mask=np.ones((N_Q, N_Q), dtype=bool))
    with pytest.raises(TypeError, match=r"key must hold floating-point numbers, but it is torch.bool. A mask goes to"):
        layer(x, torch.ones(B, N_Q, D, dtype=torch.bool))  # a mask in the place of the key
    with pytest.raises(TypeError, match=r"mask is bool.*or float.*int64.*mask == 1"):
        layer(x, mask=torch.ones(N_Q, N_Q, dtype=torch.int64))


def test_numbers_of_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"multiple of n_heads, but d_model is 10 and n_heads 3"):
        MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match=r"multiple of n_kv_heads, but n_heads is 4 and n_kv_heads 3"):
        MultiHeadAttention(12, 4, 3)
    with pytest.raises(ValueError, match=r"multiple of n_kv_heads, but n_heads is 2 and n_kv_heads 4"):
        MultiHeadAttention(12, 2, 4)
    for sizes, name in [((0, 1), "d_model"), ((4, 0), "n_heads"), ((4, 2, 0), "n_kv_heads"), ((4, 2.0), "n_heads")]:
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, but it is"):
            MultiHeadAttention(*sizes)
    with pytest.raises(ValueError, match="d_key must be a whole number of at least 1, but it is 0"):
        MultiHeadAttention(4, 2, d_key=0)


def test_it_says_what_it_is():
    assert "d_model=12, n_heads=4, n_kv_heads=2" in repr(MultiHeadAttention(12, 4, 2))
