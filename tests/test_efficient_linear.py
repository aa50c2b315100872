"""Linear attention: against its own quadratic form, against its recurrent form, and against ONNX's cases.

"A…" names a report in the collection of public bugs that the course teaches from; its right value is the test.
"""

import importlib
from unittest.mock import patch

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name
from onnx import helper, numpy_helper
from onnx.backend.test.case import node

from attnlab import attention, masks
from attnlab.efficient.linear import LinearState, elu_plus_one, linear_attention
from attnlab.efficient.meter import memory
from attnlab.heads import merge, split

D_K, D_V = 3, 5


def inputs(n_q, n_k, batch=()):
    rng = np.random.default_rng(n_q + n_k)
    return [rng.normal(size=(*batch, n, d)) for n, d in [(n_q, D_K), (n_k, D_K), (n_k, D_V)]]


def signed(x):
    """A feature map with more features than there were, some of them negative."""
    return np.concatenate([x, x**3], axis=-1) if isinstance(x, np.ndarray) else torch.cat([x, x**3], dim=-1)


def identity(x):
    return x


def quadratic(query, key, value, allowed=1.0, feature_map=elu_plus_one):
    """All n_q × n_k weights, as the formula has them; a row without any is zero."""
    weights = feature_map(query) @ feature_map(key).swapaxes(-1, -2) * allowed
    total = weights.sum(-1, keepdims=True)
    return weights @ value / (total + (total == 0))


# ------------------------------------------------------------------------------------------------------------- features


def test_elu_plus_one(array):
    """1 and x + 1 from zero on, exp below; no overflow, and the slope 1 at zero, where both pieces meet."""
    check(elu_plus_one(array([-1.0, 0.0, 2.0, 1e4, -1e4])), [np.exp(-1), 1, 3, 10001, 0], atol=1e-12)
    assert dtype_name(elu_plus_one(array([1.0], "float32"))) == "float32"
    x = torch.tensor([-1.0, 0.0, 2.0, 1e4, -1e4], dtype=torch.float64, requires_grad=True)
    theirs = torch.nn.functional.elu(x) + 1
    check(elu_plus_one(x), theirs.detach(), atol=1e-12)
    check(*torch.autograd.grad(elu_plus_one(x).sum(), x), torch.autograd.grad(theirs.sum(), x)[0], atol=1e-12)


# ----------------------------------------------------------------------------------------------- equal to the quadratic


@pytest.mark.parametrize("feature_map", [elu_plus_one, signed])
@pytest.mark.parametrize(
    ("n_q", "n_k"), [(1, 1), (13, 13), (12, 12), (1, 9), (4, 9), (9, 4), (9, 1), (3, 0), (0, 3), (0, 0)]
)
def test_equals_its_quadratic_form(array, n_q, n_k, feature_map):
    """With fewer queries than keys too, and with more, where the first see nothing: zeros."""
    given = inputs(n_q, n_k)
    full, causal = (quadratic(*given, x, feature_map) for x in (1.0, masks.causal(n_q, n_k)))
    ours = [array(x) for x in given]
    size = max(np.abs(full).max(initial=1), np.abs(causal).max(initial=1))  # of signed weights, the sum may be small
    check(linear_attention(*ours, feature_map=feature_map), full, atol=1e-12 * size)
    for chunk in (1, 2, 3, 4, 12, 128):
        output = linear_attention(*ours, feature_map=feature_map, is_causal=True, chunk=chunk)
        check(output, causal, atol=1e-12 * size)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("batch", [(2,), (2, 3), (0,)])
def test_batch_and_heads(array, batch, is_causal):
    query, key, value = inputs(11, 11, batch)
    shared_key = inputs(11, 11)[1]
    for given in [(query, key, value), (query, shared_key, value)]:
        expected = quadratic(*given, masks.causal(11) if is_causal else 1.0)
        check(linear_attention(*map(array, given), is_causal=is_causal, chunk=4), expected, atol=1e-12)


@pytest.mark.parametrize("lengths", [[1] * 13, [5, 1, 1, 6], [0, 13]])
@pytest.mark.parametrize("feature_map", [elu_plus_one, signed])
def test_equals_the_state(array, feature_map, lengths):
    """Token by token it is the causal form; after a chunk, the last query has seen all of it."""
    query, key, value = map(array, inputs(13, 13, (2,)))
    full = linear_attention(query, key, value, feature_map=feature_map, is_causal=True, chunk=4)
    state, seen = LinearState(feature_map), 0
    for length in lengths:
        state.update(key[:, seen : seen + length], value[:, seen : seen + length])
        seen += length
        assert state.n_seen == seen
        if seen:
            check(state.read(query[:, seen - 1 : seen]), full[:, seen - 1 : seen], atol=1e-10)
    check(state.read(query), linear_attention(query, key, value, feature_map=feature_map), atol=1e-10)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("n_q", "n_k"), [(13, 13), (5, 13), (13, 5)])
def test_gradients(n_q, n_k, is_causal):
    """Also of zeros in the inputs, and finite where a query sees nothing."""
    allowed = masks.causal(n_q, n_k, like=torch.ones(1)) if is_causal else 1.0
    gradients = []
    for form in (lambda *x: linear_attention(*x, is_causal=is_causal, chunk=4), lambda *x: quadratic(*x, allowed)):
        leaves = [torch.tensor(x) for x in inputs(n_q, n_k)]
        leaves[0][1], leaves[1][2] = 0.0, 0.0
        leaves = [x.requires_grad_() for x in leaves]
        gradients.append(torch.autograd.grad((form(*leaves) ** 3).sum(), leaves))
    for ours, theirs in zip(*gradients, strict=True):
        check(ours, theirs, atol=1e-12)


def test_gradients_through_the_state():
    gradients = []
    for recurrent in (True, False):
        leaves = [torch.tensor(x, requires_grad=True) for x in inputs(6, 6)]
        query, key, value = leaves
        state, rows = LinearState(), []
        for t in range(6):
            state.update(key[t : t + 1], value[t : t + 1])
            rows.append(state.read(query[t : t + 1]))
        output = torch.cat(rows) if recurrent else linear_attention(*leaves, is_causal=True, chunk=4)
        gradients.append(torch.autograd.grad((output**3).sum(), leaves))
    for ours, theirs in zip(*gradients, strict=True):
        check(ours, theirs, atol=1e-12)


# ------------------------------------------------------------------------------------------------------ numbers by hand


def test_normaliser_by_hand(array):
    """A74: q = [1, 2], keys [1, 0] and [0, 1], values 10 and 20: 50/3.  Divided by the count of keys it would be 25."""
    query, key, value = array([[1.0, 2.0]]), array([[1.0, 0.0], [0.0, 1.0]]), array([[10.0], [20.0]])
    for options in ({}, {"is_causal": True}):
        check(linear_attention(query, key, value, feature_map=identity, **options), [[50 / 3]], atol=1e-12)
        ours = linear_attention(query, key, value, feature_map=identity, normalise=False, **options)
        check(ours, [[50]], atol=1e-12)
    state = LinearState(identity)
    state.update(key, value)
    check(state.S, [[10], [20]], atol=0)
    check(state.z, [1, 1], atol=0)
    check(state.read(query), [[50 / 3]], atol=1e-12)


def test_it_is_not_softmax_attention(array):
    """A76: q = [1, 0] and the identity for keys: 5/9 and 4/9, where softmax has .6698 and .3302."""
    query, key = array([[1.0, 0.0]]), array([[1.0, 0.0], [0.0, 1.0]])
    check(
        linear_attention(query, key, key), [[5 / 9, 4 / 9]], atol=1e-12
    )  # φ(q)ᵀφ(k) = [2, 1] · [2, 1], [2, 1] · [1, 2]
    check(attention(query, key, key).output, [[0.6698, 0.3302]])


def test_constant_values_come_back(array):
    """Weights of a positive feature map are positive and sum to one, so outputs lie between the values."""
    query, key, value = inputs(40, 40)
    output = np.asarray(linear_attention(*map(array, (query, key, np.ones_like(value))), is_causal=True, chunk=8))
    check(output, np.ones_like(value), atol=1e-12)
    output = np.asarray(linear_attention(*map(array, (query, key, value)), is_causal=True, chunk=8))
    assert (output <= value.max(axis=0) + 1e-12).all()
    assert (output >= value.min(axis=0) - 1e-12).all()


def test_a_normaliser_that_cancels(array):
    """Weights 1 and -0.99 sum to 0.01: values of 1 and 0 give 100.  It is returned as it is."""
    query, key, value = array([[1.0]]), array([[1.0], [-0.99]]), array([[1.0], [0.0]])
    check(linear_attention(query, key, value, feature_map=identity), [[100]], atol=1e-9)
    check(linear_attention(query, -key, value, feature_map=identity), [[100]], atol=1e-9)  # a negative sum


def test_a_normaliser_of_zero(array):
    """Features that underflow, or weights that cancel exactly: nothing is divided, no NaN and no warning arises."""
    far = array(np.full((4, D_K), -2000.0))
    for is_causal in (False, True):
        output = linear_attention(far, far, array(np.ones((4, 2))), is_causal=is_causal, chunk=2)
        check(output, np.zeros((4, 2)), atol=0)
    key, value = array([[1.0], [-1.0]]), array([[1.0], [0.0]])
    check(linear_attention(array([[3.0]]), key, value, feature_map=identity), [[3]], atol=0)


# ---------------------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("is_causal", [False, True])
def test_padding(array, is_causal):
    """Two samples of 9 and 4 keys, one without any.  What stands in the padding does not count, not even infinity."""
    query, key, value = inputs(9, 9, (3,))
    mask = masks.padding([9, 4, 0], 9)
    expected = quadratic(query, key, value, mask & masks.causal(9) if is_causal else mask)
    key[1, 4:] = np.inf
    ours = linear_attention(*map(array, (query, key, value)), mask=array(mask, "bool"), is_causal=is_causal, chunk=4)
    check(ours, expected, atol=1e-12)
    check(ours[2], np.zeros((9, D_V)), atol=0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_padding_are_zero(is_causal):
    query, key, value = (torch.tensor(x, requires_grad=True) for x in inputs(9, 9, (3,)))
    mask = masks.padding(torch.tensor([9, 4, 0]), 9)
    output = linear_attention(query, key, value, mask=mask, is_causal=is_causal, chunk=4)
    for gradient in torch.autograd.grad((output + output**2).sum(), (query, key, value)):
        assert gradient[0].abs().sum() > 0
        check(gradient[2], np.zeros_like(gradient[2]), atol=0)
        assert gradient.isfinite().all()


def test_masks_that_differ_between_queries_are_refused(array):
    given = [array(x) for x in inputs(4, 5)]
    for shape in [(4, 5), (5,), (1, 4), (4, 1)]:
        with pytest.raises(ValueError, match=r"same for all queries, \(\.\.\., 1, n_k\), but n_k is 5"):
            linear_attention(*given, mask=array(np.ones(shape), "bool"))
    with pytest.raises(TypeError, match=r"is bool, True = may attend, but this one is .*float64"):
        linear_attention(*given, mask=array(np.ones((1, 5))))
    with pytest.raises(ValueError, match=r"must broadcast.*\(3, 1, 5\)"):
        linear_attention(*(x[None].repeat(2, 0) if isinstance(x, np.ndarray) else x.expand(2, -1, -1) for x in given),
                         mask=array(np.ones((3, 1, 5)), "bool"))  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- bytes


def test_the_state_has_one_size(array):
    state = LinearState()
    assert state.nbytes == 0
    for n in (1, 50):
        state.update(array(np.ones((2, n, D_K)), "float32"), array(np.ones((2, n, D_V)), "float32"))
        assert state.nbytes == 2 * D_K * (D_V + 1) * 4


@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_with_n(is_causal):
    """Four times the tokens, four times the bytes, for the result and for the gradient."""

    def taken(n):
        leaves = [torch.randn(n, 8, requires_grad=True) for _ in range(3)]
        return memory(linear_attention, *leaves, is_causal=is_causal, chunk=32)

    small, large = taken(1024), taken(4096)
    assert large.peak == pytest.approx(4 * small.peak, rel=0.02)
    assert large.saved == pytest.approx(4 * small.saved, rel=0.02)
    assert large.peak < 4096 * 4096


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("float16", 3e-3)])
def test_dtype_and_inputs(array, dtype, atol):
    given = [np.float16(x) for x in inputs(13, 13)]
    ours = [array(x, dtype) for x in given]
    expected = quadratic(*map(np.float64, given), masks.causal(13))
    output = linear_attention(*ours, is_causal=True, chunk=4)
    assert dtype_name(output) == dtype
    check(output, expected, atol)
    state = LinearState()
    state.update(*ours[1:])
    assert dtype_name(state.S) == "float32"
    assert dtype_name(state.read(ours[0])) == dtype
    check(state.read(ours[0][-1:]), expected[-1:], atol)
    for x, before in zip(ours, given, strict=True):
        check(x, before, atol=0)


def test_what_was_kept_does_not_change(array):
    state = LinearState()
    state.update(*map(array, inputs(4, 4)[1:]))
    S, before = state.S, state.S.tolist()
    state.update(*map(array, inputs(4, 4)[1:]))
    assert S.tolist() == before != state.S.tolist()


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
        linear_attention(*(array(np.zeros(shape)) for shape in shapes))


def test_a_state_that_does_not_fit(array):
    state = LinearState()
    with pytest.raises(ValueError, match="Nothing to read yet"):
        state.read(array(np.ones((1, 3))))
    state.update(array(np.ones((2, 3))), array(np.ones((2, 5))))
    before = state.S.tolist(), state.z.tolist(), state.n_seen
    for key, value, message in [
        ((2, 4), (2, 5), r"S of shape \(\.\.\., d_f, d_v\) = \(3, 5\).*\(4, 5\)"),
        ((2, 3), (2, 1), r"= \(3, 5\), but .*\(3, 1\)"),
        ((7, 2, 3), (7, 2, 5), r"= \(3, 5\), but .*\(7, 3, 5\)"),
        ((2, 3), (1, 5), r"one row for each of n_k = 2 keys.*\(1, 5\)"),
        ((3,), (5,), r"key must have shape \(\.\.\., n, d_k\).*\(3,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            state.update(array(np.ones(key)), array(np.ones(value)))
    assert (state.S.tolist(), state.z.tolist(), state.n_seen) == before
    for query in [(1, 4), (3,)]:
        with pytest.raises(ValueError, match=r"query must have shape \(\.\.\., n_q, d_k\)"):
            state.read(array(np.ones(query)))


def test_chunks_that_are_wrong(array):
    for chunk in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"chunk must be a whole number of at least 1, but it is {chunk}"):
            linear_attention(*map(array, inputs(4, 4)), is_causal=True, chunk=chunk)


# ----------------------------------------------------------------------------------------------------- an outside judge


def collect():
    """ONNX's cases of its node `LinearAttention`, which are made when its module is imported for the first time."""
    name = f"{node.__name__}.linear_attention"
    state = np.random.get_state()  # noqa: NPY002 — making the cases seeds NumPy's global generator
    try:
        with patch.object(node, "import_recursive", lambda package: importlib.import_module(name)):
            cases = node.collect_testcases("LinearAttention")
    finally:
        np.random.set_state(state)  # noqa: NPY002
    calls = [(case, case.model.graph.node[0]) for case in cases]
    return [(case, call) for case, call in calls if call.op_type == "LinearAttention" and "expanded" not in case.name]


CASES = collect()
RULES = [{a.name: helper.get_attribute_value(a) for a in call.attribute}.get("update_rule") for _, call in CASES]
PLAIN = [pair for pair, rule in zip(CASES, RULES, strict=True) if rule == b"linear"]


def test_which_cases_of_onnx_apply():
    """Its node has no normaliser and no feature map.  Where its rule has a gate or a delta, it also forgets, which this
    state cannot: S is multiplied by a decay, or loses what the same key has stored before."""
    assert len(CASES) == 14
    assert sorted(case.name for case, _ in PLAIN) == [
        "test_linear_attention_linear",
        "test_linear_attention_linear_t1_no_past",
    ]
    assert {rule for rule in RULES if rule != b"linear"} == {b"gated", b"delta", None}  # None: gated_delta


@pytest.mark.parametrize(("case", "call"), PLAIN, ids=[case.name for case, _ in PLAIN])
@pytest.mark.parametrize("recurrent", [False, True])
def test_onnx(case, call, recurrent, array):
    """Four heads of width 8, packed: its output is qᵀ S / √8, its state S."""
    ((inputs, (expected, expected_state)),) = case.data_sets
    inputs = [numpy_helper.to_array(x) if hasattr(x, "raw_data") else x for x in inputs]
    query, key, value = (split(array(x, "float32"), 4) for x in inputs)  # (B, 4, T, 8)
    state = LinearState(identity, normalise=False)
    if recurrent:
        rows = []
        for t in range(query.shape[2]):
            state.update(key[:, :, t : t + 1], value[:, :, t : t + 1])
            rows.append(np.asarray(state.read(query[:, :, t : t + 1])))
        output = np.concatenate(rows, axis=2)
    else:
        state.update(key, value)
        options = {"feature_map": identity, "normalise": False, "is_causal": True, "chunk": 3}
        output = np.asarray(linear_attention(query, key, value, **options))
    check(merge(output) / np.sqrt(np.float32(8)), expected, atol=1e-6)
    check(state.S, expected_state, atol=1e-6)
