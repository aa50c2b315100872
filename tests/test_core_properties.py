"""Properties over many inputs: against slow explicit loops, against torch's own attention, and in the gradients."""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, to_numpy, to_torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from torch.nn import functional as F

from attnlab import additive, attend, attention, dot, gaussian, general, scaled_dot, softmax

INF = math.inf
often = settings(max_examples=60, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 4)


# ------------------------------------------------------------------------------------------------------ slow and plain


def softmax_by_loop(scores):
    """Weights of one row, a list of numbers."""
    allowed = [score for score in scores if score > -INF]
    if not allowed:
        return [0.0 for _ in scores]
    powers = [math.exp(score - max(allowed)) for score in scores]
    return [power / sum(powers) for power in powers]


def attention_by_loop(query, key, value, mask, scale, is_causal):
    """One item of a batch: query (n_q, d_k), key (n_k, d_k), value (n_k, d_v), mask (n_q, n_k)."""
    n_q, n_k, d_v = len(query), len(key), value.shape[-1]
    output, weights = np.zeros((n_q, d_v)), np.zeros((n_q, n_k))
    for i in range(n_q):
        scores = []
        for j in range(n_k):
            score = sum(query[i, c] * key[j, c] for c in range(query.shape[-1])) * scale
            score += mask[i, j] if mask.dtype != bool else (0.0 if mask[i, j] else -INF)
            keys_after, queries_after = n_k - 1 - j, n_q - 1 - i
            scores.append(-INF if is_causal and keys_after < queries_after else score)
        weights[i] = softmax_by_loop(scores)
        for j in range(n_k):
            for c in range(d_v):
                output[i, c] += weights[i, j] * value[j, c]
    return output, weights


def random_mask(rng, shape, kind):
    """A quarter of the keys is forbidden, and of the rows of queries a fifth is empty."""
    allowed = rng.random(shape) < 0.75
    if len(shape) > 1:
        allowed &= rng.random((*shape[:-1], 1)) < 0.8
    return allowed if kind == "bool" else np.where(allowed, rng.normal(size=shape), -INF)


@st.composite
def problems(draw):
    """query, key, value, mask of unequal sizes, where any batch axis, and any axis of the mask, may be shared."""
    rng = np.random.default_rng(draw(seeds))
    n_q, n_k, d_k, d_v = draw(sizes), draw(sizes), draw(st.integers(1, 4)), draw(sizes)
    batches = draw(mutually_broadcastable_shapes(num_shapes=4, max_dims=2, max_side=3)).input_shapes
    rows, columns = draw(st.sampled_from([n_q, 1])), draw(st.sampled_from([n_k, 1]))
    spread = draw(st.sampled_from([1.0, 30.0]))
    query = rng.normal(size=(*batches[0], n_q, d_k)) * spread
    key, value = rng.normal(size=(*batches[1], n_k, d_k)), rng.normal(size=(*batches[2], n_k, d_v))
    mask = random_mask(rng, (*batches[3], rows, columns), draw(st.sampled_from(["bool", "float"])))
    scale = draw(st.sampled_from([None, 0.3, -1.0]))
    return query, key, value, mask, scale, draw(st.booleans())


def expected_of(query, key, value, mask, scale, is_causal):
    n_q, n_k = query.shape[-2], key.shape[-2]
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2], mask.shape[:-2])
    outputs, weights = np.zeros((*batch, n_q, value.shape[-1])), np.zeros((*batch, n_q, n_k))
    arrays = [np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (query, key, value)]
    masks = np.broadcast_to(mask, (*batch, n_q, n_k))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    for item in np.ndindex(*batch):
        outputs[item], weights[item] = attention_by_loop(*(x[item] for x in arrays), masks[item], scale, is_causal)
    return outputs, weights


@pytest.mark.parametrize("array", [to_numpy, to_torch])
@often
@given(problem=problems())
def test_attention_is_the_slow_loop(array, problem):
    query, key, value, mask, scale, is_causal = problem
    outputs, weights = expected_of(*problem)
    mask = array(mask, "bool" if mask.dtype == bool else "float64")
    result = attention(array(query), array(key), array(value), mask, scale=scale, is_causal=is_causal)
    check(result.output, outputs, atol=1e-12)
    # The weights have no batch axis that only the values have.
    np.testing.assert_allclose(np.broadcast_to(np.asarray(result.weights), weights.shape), weights, atol=1e-12)

    if not is_causal:
        again = attend(scaled_dot(array(query), array(key), scale), array(value), mask)
        check(again.output, outputs, atol=1e-12)


@pytest.mark.parametrize("array", [to_numpy, to_torch])
@often
@given(seed=seeds, shape=mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3), n_q=sizes, n_k=sizes)
def test_scores_are_the_slow_loop(array, seed, shape, n_q, n_k):
    rng = np.random.default_rng(seed)
    d_q, d_k, h = 2, 3, 5
    query, key = (
        rng.normal(size=(*shape.input_shapes[0], n_q, d_q)),
        rng.normal(size=(*shape.input_shapes[1], n_k, d_k)),
    )
    W, W_q, W_k, v = (rng.normal(size=size) for size in [(d_q, d_k), (h, d_q), (h, d_k), (h,)])
    same = rng.normal(size=(*shape.input_shapes[0], n_q, d_k))
    formulas = {
        "dot": (same, lambda q, k: q @ k, lambda q, k: dot(q, k)),
        "scaled_dot": (same, lambda q, k: q @ k / math.sqrt(d_k), lambda q, k: scaled_dot(q, k)),
        "gaussian": (same, lambda q, k: -((q - k) ** 2).sum() / (2 * 0.7**2), lambda q, k: gaussian(q, k, 0.7)),
        "general": (query, lambda q, k: q @ W @ k, lambda q, k: general(q, k, array(W))),
        "additive": (
            query,
            lambda q, k: v @ np.tanh(W_q @ q + W_k @ k),
            lambda q, k: additive(q, k, array(W_q), array(W_k), array(v)),
        ),
    }
    for queries, formula, ours in formulas.values():
        scores = np.zeros((*shape.result_shape, n_q, n_k))
        all_queries = np.broadcast_to(queries, (*shape.result_shape, *queries.shape[-2:]))
        all_keys = np.broadcast_to(key, (*shape.result_shape, *key.shape[-2:]))
        for *item, i, j in np.ndindex(*scores.shape):
            scores[*item, i, j] = formula(all_queries[*item, i], all_keys[*item, j])
        check(ours(array(queries), array(key)), scores, atol=1e-12)
        if n_q and queries.ndim == 2:
            check(ours(array(queries[0]), array(key)), scores[..., 0, :], atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ softmax


@pytest.mark.parametrize("array", [to_numpy, to_torch])
@often
@given(seed=seeds, constant=st.floats(-1e4, 1e4), spread=st.sampled_from([1.0, 1e2, 1e4]))
def test_softmax_sums_to_one_keeps_order_and_forgets_constants(array, seed, constant, spread):
    scores = np.random.default_rng(seed).normal(size=(3, 5)) * spread
    weights = np.asarray(softmax(array(scores)))
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-14)
    assert (np.diff(np.take_along_axis(weights, scores.argsort(-1), -1)) >= 0).all()
    # Adding the constant rounds each score to the spacing of the sum.
    check(softmax(array(scores + constant)), weights, atol=4 * np.spacing(abs(constant) + 5 * spread))
    check(softmax(array(scores).T, axis=0), weights.T, atol=1e-15)


@often
@given(seed=seeds, dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_softmax_is_torchs_softmax_in_every_dtype(seed, dtype):
    scores = torch.from_numpy(np.random.default_rng(seed).normal(size=(4, 50)) * 10).to(dtype)
    torch.testing.assert_close(softmax(scores), torch.softmax(scores, -1))


# ---------------------------------------------------------------------------------------------- torch's own attention


def outputs_and_gradients(function, inputs):
    inputs = [x.clone().requires_grad_() if x.dtype.is_floating_point else x for x in inputs]
    output = function(*inputs)
    towards = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    floats = [x for x in inputs if x.requires_grad]
    return output, torch.autograd.grad(output, floats, towards)


@often
@given(
    seed=seeds,
    kind=st.sampled_from(["bool", "float", None]),
    scale=st.sampled_from([None, 0.3]),
    mask_shape=st.sampled_from([(2, 3, 4, 5), (4, 5), (2, 1, 1, 5), (3, 4, 1)]),
)
def test_outputs_and_gradients_are_those_of_torch(seed, kind, scale, mask_shape):
    """Rows without any key too: torch's SDPA, like ours, gives zeros there."""
    rng = np.random.default_rng(seed)
    inputs = [torch.from_numpy(rng.normal(size=shape)) for shape in [(2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7)]]
    mask = (
        []
        if kind is None
        else [torch.from_numpy(np.broadcast_to(random_mask(rng, mask_shape, kind), (2, 3, 4, 5)).copy())]
    )
    ours = outputs_and_gradients(lambda *x: attention(*x, scale=scale).output, inputs + mask)
    theirs = outputs_and_gradients(lambda *x: F.scaled_dot_product_attention(*x, scale=scale), inputs + mask)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@often
@given(seed=seeds, n=st.integers(1, 6), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_square_is_causal_is_that_of_torch(seed, n, dtype):
    rng = np.random.default_rng(seed)
    inputs = [torch.from_numpy(rng.normal(size=(2, 2, n, d))).to(dtype) for d in (6, 6, 7)]
    ours = outputs_and_gradients(lambda *x: attention(*x, is_causal=True).output, inputs)
    theirs = outputs_and_gradients(lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=2e-6)


# ---------------------------------------------------------------------------------------------------------- gradients


def variables(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


BOOL_MASK = torch.tensor([[True, False, True], [False, False, False]])
FLOAT_MASK = torch.tensor([[0.5, -INF, 0.0], [-INF, -INF, -INF]], dtype=torch.float64)


@pytest.mark.parametrize("mask", [None, BOOL_MASK, FLOAT_MASK], ids=["none", "bool", "float"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_attention_are_the_slopes(mask, is_causal):
    inputs = variables((2, 2, 4), (2, 3, 4), (2, 3, 5))
    assert torch.autograd.gradcheck(lambda *x: attention(*x, mask, is_causal=is_causal), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: attention(*x, mask, is_causal=is_causal), inputs)


def test_gradients_of_every_score_are_the_slopes():
    query, key, other_key = variables((2, 3), (4, 3), (4, 5))
    W, W_q, W_k, v, number = variables((3, 5), (6, 3), (6, 5), (6,), ())
    assert torch.autograd.gradcheck(dot, (query, key))
    assert torch.autograd.gradcheck(scaled_dot, (query, key, number))
    assert torch.autograd.gradcheck(lambda q, k, w: gaussian(q, k, w.exp()), (query, key, number))
    assert torch.autograd.gradcheck(
        gaussian, (query, query.detach().clone().requires_grad_(), torch.tensor(2.0).double())
    )
    assert torch.autograd.gradcheck(general, (query, other_key, W))
    assert torch.autograd.gradcheck(additive, (query, other_key, W_q, W_k, v))


def test_gradients_where_the_largest_score_is_tied():
    scores = torch.tensor([[2.0, 2.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softmax, (scores,))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # used by torch's own jacfwd
def test_the_jacobian_of_softmax():
    """diag(w) - w wᵀ, also through torch.func."""
    scores = torch.tensor([0.1, 1.0, -2.0], dtype=torch.float64)
    weights = softmax(scores)
    expected = torch.diag(weights) - torch.outer(weights, weights)
    torch.testing.assert_close(torch.func.jacrev(softmax)(scores), expected)
    torch.testing.assert_close(torch.func.jacfwd(softmax)(scores), expected)


def test_vmap_is_the_batch():
    query, key, value = (x.detach() for x in variables((3, 2, 4), (3, 5, 4), (3, 5, 6)))
    mapped = torch.func.vmap(lambda q, k, v: attention(q, k, v, is_causal=True).output)(query, key, value)
    torch.testing.assert_close(mapped, attention(query, key, value, is_causal=True).output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("how", ["bool", "float", "scores", "causal"])
def test_an_empty_row_has_zero_gradient(how, dtype):
    """The row has none, and gives none to the keys and values that other rows share with it."""
    query, key, value = (x.detach().to(dtype).requires_grad_() for x in variables((2, 4), (2, 4), (2, 3)))
    allowed = torch.tensor([[False, False], [True, True]])
    if how == "bool":
        result = attention(query, key, value, allowed)
    elif how == "float":
        result = attention(query, key, value, torch.where(allowed, 0.0, -INF))
    elif how == "scores":
        result = attend(torch.where(allowed, scaled_dot(query, key), -INF), value)
    else:
        result = attention(query, key[:1], value[:1], is_causal=True)  # query 0 is before all keys
    (result.output.square().sum() + result.weights.square().sum()).backward()
    gradients = [query.grad, key.grad, value.grad]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not query.grad[0].any()

    alone = [x.detach().clone().requires_grad_() for x in (query, key, value)]
    n_k = 1 if how == "causal" else 2
    other = attention(alone[0][1:], alone[1][:n_k], alone[2][:n_k])
    (other.output.square().sum() + other.weights.square().sum()).backward()
    for ours, theirs in zip(gradients, (x.grad for x in alone), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=16 * torch.finfo(dtype).eps)


def test_an_empty_row_does_not_poison_a_shared_weight():
    """A31: the loss is on row 0 only; NaN cleaned away after the softmax would come back here."""
    scores = torch.tensor([[0.0, 0.0], [-INF, -INF]], requires_grad=True)
    softmax(scores)[0, 0].backward()
    assert scores.grad.tolist() == [[0.25, -0.25], [0, 0]]

    w = torch.tensor(0.5, requires_grad=True)
    mask = torch.tensor([[True, True], [False, False]])
    attend(w * torch.tensor([[2.0, 0.0], [5.0, 3.0]]), torch.eye(2), mask).weights[0, 0].backward()
    assert w.grad.item() == pytest.approx(0.3932, abs=5e-5)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
def test_no_step_backward_meets_nan():
    query, key, value = variables((2, 4), (3, 4), (3, 5))
    with torch.autograd.detect_anomaly(check_nan=True):
        attention(query, key, value, BOOL_MASK).output.sum().backward()
        attention(query, key, value, FLOAT_MASK, is_causal=True).output.sum().backward()


def test_a_key_bias_has_no_gradient():
    """A13: it adds the same number to each score of a row."""
    query, key, value, bias = variables((3, 4), (5, 4), (5, 2), (4,))
    attention(query, key + bias, value).output.square().sum().backward()
    assert query.grad.abs().max() > 1e-2
    torch.testing.assert_close(bias.grad, torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-15)


def test_without_keys_gradients_are_zero():
    query, key, value = variables((2, 4), (0, 4), (0, 5))
    attention(query, key, value, is_causal=True).output.sum().backward()
    assert query.grad.tolist() == torch.zeros(2, 4).tolist()
    assert value.grad.shape == (0, 5)


def test_an_additive_mask_can_be_learned():
    query, key, value, bias = variables((2, 4), (3, 4), (3, 5), (2, 3))
    assert torch.autograd.gradcheck(lambda b: attention(query, key, value, b).output, (bias,))
