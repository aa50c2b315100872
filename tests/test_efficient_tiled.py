"""Tiled attention is attention: values against slow loops, gradients against full attention's, tiles by counting.

"A…" names a report in the collection of public bugs that the course teaches from; its right value is the test.
"""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name, to_numpy, to_torch
from hypothesis import given
from hypothesis import strategies as st
from test_core_properties import expected_of, often, problems
from test_import import run
from torch.utils.flop_counter import FlopCounterMode

from attnlab import attention, invariants, masks
from attnlab.efficient import OnlineSoftmax, tiled_attention

INF, NAN = math.inf, math.nan
LN3 = math.log(3)
BLOCKS = [(1, 1), (2, 3), (4, 1), (3, 100)]  # n_q = 5, n_k = 7: ragged last tiles, and a tile beyond all keys
SIZES = [(5, 7), (7, 5), (6, 6), (1, 7), (7, 1)]


def inputs(n_q=5, n_k=7, seed=0):
    """query (2, 3, n_q, 6), key (3, n_k, 6), value (2, 1, n_k, 4): batch axes that broadcast."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, 3, n_q, 6)), rng.normal(size=(3, n_k, 6)), rng.normal(size=(2, 1, n_k, 4))


# ------------------------------------------------------------------------------------------------------ online softmax


def test_two_tiles_by_hand(array):
    """Scores 0, ln 3 and then ln 12: what stood relative to ln 3 is divided by 4."""
    state = OnlineSoftmax()
    state.update(array([[0, LN3]]), array([[1.0, 0], [0, 1]]))
    check(state.m, [[LN3]])
    check(state.total, [[4 / 3]])
    check(state.mixed, [[1 / 3, 1]])
    check(state.output(), [[0.25, 0.75]])
    state.update(array([[math.log(12)]]), array([[8.0, 8]]))
    check(state.m, [[math.log(12)]])
    check(state.total, [[4 / 12 + 1]])
    check(state.mixed, [[1 / 12 + 8, 3 / 12 + 8]])
    check(state.output(), [[97 / 16, 99 / 16]])
    check(state.logsumexp(), [[math.log(16)]])


def test_smaller_scores_rescale_nothing(array):
    state = OnlineSoftmax()
    state.update(array([[LN3]]), array([[4.0]]))
    state.update(array([[0]]), array([[8.0]]))
    check(state.m, [[LN3]])
    check(state.total, [[4 / 3]])
    check(state.output(), [[5]])


def test_a_first_tile_that_forbids_everything(array):
    """A77: starting at -∞, the difference -∞ - (-∞) must not arise.  Warnings are errors here."""
    state = OnlineSoftmax()
    state.update(array([[-INF, -INF]]), array([[7], [7]]))
    check(state.m, [[-INF]])
    check(state.total, [[0]])
    check(state.output(), [[0]])
    check(state.logsumexp(), [[-INF]])
    state.update(array([[0, LN3]]), array([[4], [8]]))
    check(state.output(), [[7]])
    state.update(array([[-INF]]), array([[100]]))
    check(state.output(), [[7]])
    check(state.logsumexp(), [[math.log(4)]])


def test_online_softmax_of_huge_scores(array):
    """From tile to tile the largest score climbs by 2e4, or falls."""
    for tiles in ([-1e4, 1e4], [1e4, -1e4]):
        state = OnlineSoftmax()
        for score in tiles:
            state.update(array([[score, score]]), array([[score], [score + 2]]))
        check(state.output(), [[1e4 + 1]])
        check(state.logsumexp(), [[1e4 + math.log(2)]])


def test_tiles_come_in_any_order(array):
    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(2, 3, 9)) * 20, rng.normal(size=(9, 4))
    expected = attention(scores, np.eye(9), values, scale=1.0).output
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        state = OnlineSoftmax()
        for tile in (np.split(np.arange(9), [2, 3])[i] for i in order):
            state.update(array(scores[..., tile]), array(values[tile]))
        check(state.output(), expected, atol=1e-13)
        assert tuple(state.m.shape) == tuple(state.total.shape) == tuple(state.logsumexp().shape) == (2, 3, 1)


def test_gradients_flow_through_online_softmax():
    """A tile of -∞, a row that stays empty, and a row with one key, whose total is 1 exactly."""
    rng = np.random.default_rng(0)
    scores, values = to_torch(rng.normal(size=(3, 6))).requires_grad_(), to_torch(rng.normal(size=(6, 2)))
    allowed = to_torch([[0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]], "bool")

    def output(scores, values):
        state = OnlineSoftmax()
        for columns in (slice(0, 2), slice(2, 3), slice(3, 6)):
            state.update(scores.where(allowed, -INF)[:, columns], values[columns])
        return state.output(), state.logsumexp()[[0, 2]]

    assert torch.autograd.gradcheck(output, (scores, values.requires_grad_()))
    gradient = torch.autograd.grad(output(scores, values)[0].sum(), scores)[0]
    assert gradient[1].tolist() == [0] * 6


def test_online_softmax_names_what_does_not_fit(array):
    state = OnlineSoftmax()
    for ask in (state.output, state.logsumexp):
        with pytest.raises(ValueError, match="no result before the first update"):
            ask()
    with pytest.raises(ValueError, match=r"scores has shape \(2, 3\) and values has shape \(4, 1\)"):
        state.update(array(np.zeros((2, 3))), array(np.zeros((4, 1))))
    with pytest.raises(ValueError, match=r"b of at least 1, not \(2, 0\)"):
        state.update(array(np.zeros((2, 0))), array(np.zeros((0, 1))))
    with pytest.raises(TypeError, match="list"):
        state.update([[1.0]], array([[1.0]]))


# -------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("array", [to_numpy, to_torch])
@often
@given(problem=problems(), blocks=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_equals_the_slow_loop(array, problem, blocks):
    """Sizes from 0 to 4, any batch axis shared, masks bool and float with shared axes, rows that allow nothing."""
    query, key, value, mask, scale, is_causal = problem
    mask = array(mask, "bool" if mask.dtype == bool else "float64")
    options = {"scale": scale, "is_causal": is_causal, "block_q": blocks[0], "block_k": blocks[1]}
    outputs, _ = expected_of(*problem)
    check(tiled_attention(array(query), array(key), array(value), mask=mask, **options), outputs, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_equals_full_attention(array, blocks, sizes, is_causal):
    query, key, value = (array(x) for x in inputs(*sizes))
    result = tiled_attention(query, key, value, is_causal=is_causal, block_q=blocks[0], block_k=blocks[1])
    check(result, attention(query, key, value, is_causal=is_causal).output, atol=1e-14)


MASK_SHAPES = [(), (7,), (1,), (1, 7), (5, 1), (5, 7), (3, 1, 7), (2, 1, 5, 7), (2, 3, 1, 1), (4, 1, 1, 5, 7)]


@pytest.mark.parametrize("kind", ["bool", "float64", "float32"])
@pytest.mark.parametrize("shape", MASK_SHAPES)
def test_masks_are_cut_along_the_axes_they_have(array, shape, kind):
    rng = np.random.default_rng(1)
    mask = rng.random(shape) < 0.6 if kind == "bool" else rng.normal(size=shape) * 3
    query, key, value, mask = *(array(x) for x in inputs()), array(mask, kind)
    for is_causal in (False, True):
        expected = attention(query, key, value, mask, is_causal=is_causal).output
        for block_q, block_k in BLOCKS:
            result = tiled_attention(
                query, key, value, mask=mask, is_causal=is_causal, block_q=block_q, block_k=block_k
            )
            check(result, expected, atol=1e-13)


def test_first_tiles_forbidden_and_rows_empty(array):
    """A77 inside of attention: padding on the left fills whole tiles; the last query may see nothing."""
    query, key, value = (array(x) for x in inputs())
    allowed = np.arange(7) >= 4  # (n_k,)
    mask = array(allowed & (np.arange(5) < 4)[:, None], "bool")  # (n_q, n_k)
    result = tiled_attention(query, key, value, mask=mask, block_q=2, block_k=2)
    check(result[..., :4, :], attention(query, key[..., 4:, :], value[..., 4:, :]).output[..., :4, :], atol=1e-14)
    check(result[..., 4, :], np.zeros((2, 3, 4)), atol=0)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_scores_of_ten_thousand(array, size):
    """A2: exp(1e4) is infinite; alone in a row or far above the others, the right weights are plain."""
    query, key = array([[size], [1.0]]), array([[1.0], [1.0], [-1.0], [1.0]])
    value = array(np.eye(4))
    same, other = ([1 / 3, 1 / 3, 0, 1 / 3], [0, 0, 1, 0])
    for block_k in (1, 2, 3):
        result = tiled_attention(query, key, value, scale=1.0, block_q=1, block_k=block_k)
        check(result[0], same if size > 0 else other, atol=1e-15)
        check(result, attention(query, key, value, scale=1.0).output, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_dtypes_are_those_of_attention(array, dtype):
    query, key, value = (array(x * 2, dtype) for x in inputs())
    before = [np.asarray(x).copy() for x in (query, key, value)]
    result = tiled_attention(query, key, value, block_q=2, block_k=3)
    expected = attention(query, key, value).output
    assert dtype_name(result) == dtype_name(expected)
    check(result, np.asarray(expected), atol={"float16": 2e-3, "float32": 5e-6}.get(dtype, 1e-14))
    for x, y in zip((query, key, value), before, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_half_precision_is_rounded_once():
    query, key, value = (to_torch(x, "bfloat16") for x in inputs(40, 50))
    result = tiled_attention(query, key, value, block_q=8, block_k=8)
    wide = tiled_attention(query.float(), key.float(), value.float(), block_q=8, block_k=8)
    assert result.dtype == torch.bfloat16
    assert torch.equal(result, wide.bfloat16())


def test_a_mask_of_a_wider_dtype_stays_finite(array):
    """-1e300 is finite in float64: with no other key, the weights are equal, not zero."""
    query, key, value = (array(x, "float32") for x in inputs())
    mask = array(np.full((5, 7), -1e300))
    result = tiled_attention(query, key, value, mask=mask, block_q=2, block_k=2)
    assert dtype_name(result) == "float32"
    check(result, attention(query, key, value, mask).output, atol=1e-6)


def test_a_single_query(array):
    query, key, value = (array(x) for x in inputs())
    mask = array(np.arange(7) != 3, "bool")
    for is_causal in (False, True):
        result = tiled_attention(query[0, 0, 1], key, value, mask=mask, is_causal=is_causal, block_k=2)
        assert tuple(result.shape) == (2, 3, 4)
        check(result, attention(query[0, 0, 1], key, value, mask, is_causal=is_causal).output, atol=1e-14)


def test_scale_as_a_number_and_as_an_array(array):
    query, key, value = (array(x) for x in inputs())
    for scale in (0.3, -2, array(0.3), array(0.0)):
        result = tiled_attention(query, key, value, scale=scale, block_q=2, block_k=2)
        check(result, attention(query, key, value, scale=scale).output, atol=1e-14)


@pytest.mark.parametrize("n", [33, 256])
@pytest.mark.parametrize("blocks", [(16, 16), (32, 8), (128, 128), (7, 64)])
@pytest.mark.parametrize("spread", [1, 8])
def test_as_close_to_the_exact_result_as_full_attention(array, n, blocks, spread):
    """A79: the claim is not bit-equality.  Over the cases here, the ratio of the two errors lies between .3 and 1.7."""
    rng = np.random.default_rng(n)
    exact = [rng.normal(size=(3, n, 64)).astype("float32").astype("float64") for _ in range(3)]
    exact[0] *= spread
    reference = attention(*(array(x) for x in exact)).output
    inputs = [array(x, "float32") for x in exact]
    full = attention(*inputs).output
    tiled = tiled_attention(*inputs, block_q=blocks[0], block_k=blocks[1])
    error_of_full, error = (np.abs(np.asarray(x) - np.asarray(reference)).max() for x in (full, tiled))
    assert 0 < error <= 3 * error_of_full


# --------------------------------------------------------------------------------------------------------------- tiles


def shapes_of_tiles(monkeypatch, *arguments, **options):
    shapes, update = [], OnlineSoftmax.update

    def counted(state, scores, values):
        shapes.append(tuple(scores.shape[-2:]))
        update(state, scores, values)

    monkeypatch.setattr(OnlineSoftmax, "update", counted)
    tiled_attention(*arguments, **options)
    return shapes


def test_every_tile_once(array, monkeypatch):
    query, key, value = (array(x) for x in inputs())
    assert shapes_of_tiles(monkeypatch, query, key, value, block_q=3, block_k=4) == [(3, 4), (3, 3), (2, 4), (2, 3)]


@pytest.mark.parametrize(
    ("sizes", "tiles"),
    [
        # blocks of 2 queries; the last of them sees this many keys, in blocks of 3
        ((6, 6), [(2, 2), (2, 3), (2, 1), (2, 3), (2, 3)]),  # 2, 4, 6
        ((4, 7), [(2, 3), (2, 2), (2, 3), (2, 3), (2, 1)]),  # 5, 7
        ((7, 3), [(2, 2), (1, 3)]),  # 0, 0, 2, 3: where no query of a block sees a key, nothing is computed
    ],
)
def test_causal_tiles_that_forbid_everything_are_not_computed(array, monkeypatch, sizes, tiles):
    query, key, value = (array(x) for x in inputs(*sizes))
    assert shapes_of_tiles(monkeypatch, query, key, value, is_causal=True, block_q=2, block_k=3) == tiles


def test_what_lies_in_a_skipped_tile_is_never_touched(array):
    """In a forbidden value NaN spoils a row, since 0 · NaN is NaN.  Here the tile is not read."""
    query, key, value = inputs(8, 8)
    key[..., 4:, :] = value[..., 4:, :] = NAN
    result = tiled_attention(array(query), array(key), array(value), is_causal=True, block_q=2, block_k=2)
    expected = attention(query[..., :4, :], key[..., :4, :], value[..., :4, :], is_causal=True).output
    check(result[..., :4, :], expected, atol=1e-14)


def count_operations(function):
    with FlopCounterMode(display=False) as counter:
        result = function()
    return result, counter.get_total_flops()


@pytest.mark.parametrize(("is_causal", "share"), [(False, 1), (True, 36 / 64)])
def test_operations(is_causal, share):
    """A81: tiling leaves 4 · n² · d as it is.  Causal: 36 of 8 × 8 tiles.  Recomputing costs 10 · n² · d, not 8."""
    n, d = 64, 16
    query, key, value = (torch.randn(2, n, d, requires_grad=True) for _ in range(3))
    options = {"is_causal": is_causal, "block_q": 8, "block_k": 8}
    output, n_forward = count_operations(lambda: tiled_attention(query, key, value, **options))
    assert n_forward == 2 * 4 * n * n * d * share
    _, n_backward = count_operations(lambda: output.sum().backward())
    assert n_backward == 2 * 10 * n * n * d * share


# ----------------------------------------------------------------------------------------------------------- gradients


def gradients_of(function, leaves, factors=None):
    output = function()
    factors = torch.randn(output.shape, generator=torch.manual_seed(3), dtype=torch.float64)
    return torch.autograd.grad((output * factors).sum(), leaves)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", *(f"float {shape}" for shape in MASK_SHAPES)])
def test_gradients_are_those_of_full_attention(kind, is_causal):
    """Of query, key, value that broadcast, of a learned scale, and of a float mask with any axes."""
    leaves = [to_torch(x).requires_grad_() for x in inputs()]
    leaves.append(torch.tensor(0.4, dtype=torch.float64, requires_grad=True))
    rng, mask = np.random.default_rng(2), None
    if kind == "bool":
        mask = to_torch(rng.random((2, 1, 5, 7)) < 0.5, "bool")
        mask[0, 0, 1] = False
    elif kind != "none":
        mask = to_torch(rng.normal(size=eval(kind.removeprefix("float ")))).requires_grad_()
        leaves.append(mask)
    query, key, value, scale = leaves[:4]
    expected = gradients_of(lambda: attention(*leaves[:3], mask, scale=scale, is_causal=is_causal).output, leaves)
    for block_q, block_k in BLOCKS:
        options = {"scale": scale, "is_causal": is_causal, "block_q": block_q, "block_k": block_k}
        results = gradients_of(lambda options=options: tiled_attention(query, key, value, mask=mask, **options), leaves)
        for result, gradient in zip(results, expected, strict=True):
            torch.testing.assert_close(result, gradient, rtol=0, atol=1e-13)


def test_gradcheck():
    query, key, value = (to_torch(x[..., :2]).requires_grad_() for x in inputs(3, 4))
    mask = to_torch([[0, -INF, 0.5, 1], [-INF] * 4, [-INF, -INF, -INF, 2]]).requires_grad_()

    def function(query, key, value, mask=None):
        return tiled_attention(query, key, value, mask=mask, is_causal=mask is None, block_q=2, block_k=3)

    assert torch.autograd.gradcheck(function, (query, key, value))
    assert torch.autograd.gradcheck(lambda *x: function(*x, mask), (query, key, value))


def test_an_empty_row_has_a_zero_gradient():
    query, key, value = (to_torch(x).requires_grad_() for x in inputs(5, 3))
    tiled_attention(query, key, value, is_causal=True, block_q=2, block_k=2).sum().backward()
    assert not query.grad[..., :2, :].any()  # the first two of five queries lie before all three keys
    assert query.grad[..., 3:, :].all()
    assert all(x.grad.isfinite().all() for x in (query, key, value))
    mask = torch.full((5, 3), -INF, dtype=torch.float64, requires_grad=True)
    for gradient in torch.autograd.grad(tiled_attention(query, key, value, mask=mask).sum(), (query, key, value, mask)):
        assert not gradient.any()


def test_gradients_keep_the_dtypes_of_the_inputs():
    """A mask wider than the inputs, and inputs wider than the mask."""
    for dtype, mask_dtype in [("float32", "float64"), ("float64", "float32"), ("bfloat16", "float16")]:
        leaves = [to_torch(x, dtype).requires_grad_() for x in inputs()]
        mask = torch.linspace(-1, 1, 7).to(getattr(torch, mask_dtype)).requires_grad_()
        output = tiled_attention(*leaves, mask=mask, block_q=2, block_k=2)
        assert output.dtype == leaves[0].dtype
        gradients = torch.autograd.grad(output.sum(), (*leaves, mask))
        full = torch.autograd.grad(attention(*leaves, mask).output.sum(), (*leaves, mask))
        tolerance = 0.2 if dtype == "bfloat16" else 1e-5
        for gradient, expected in zip(gradients, full, strict=True):
            assert gradient.dtype == expected.dtype
            torch.testing.assert_close(gradient, expected, rtol=0, atol=tolerance)


def test_gradients_without_keys_or_queries_are_zero():
    for sizes in ((5, 0), (0, 7)):
        query, key, value = (to_torch(x).requires_grad_() for x in inputs(*sizes))
        output = tiled_attention(query, key, value)
        assert tuple(output.shape) == (2, 3, sizes[0], 4)
        assert not output.any()
        output.sum().backward()
        assert not any(x.grad.any() for x in (query, key, value))


def test_only_some_inputs_need_a_gradient():
    query, key, value = (to_torch(x) for x in inputs())
    assert not tiled_attention(query, key, value).requires_grad
    key.requires_grad_()
    tiled_attention(query, key, value, block_k=2).sum().backward()
    expected = torch.autograd.grad(attention(query, key, value).output.sum(), key)[0]
    torch.testing.assert_close(key.grad, expected)
    assert query.grad is None


def test_the_gradient_has_no_gradient():
    """A penalty on the gradient would be a constant without a word: the error comes before."""
    query, key, value = (to_torch(x).requires_grad_() for x in inputs())
    for loss in (tiled_attention(query, key, value).sum(), tiled_attention(query, key, value).square().sum()):
        with pytest.raises(RuntimeError, match=r"gradient of tiled_attention has no gradient.*create_graph=True"):
            torch.autograd.grad(loss, query, create_graph=True)


# -------------------------------------------------------------------------------------------------------------- errors


def zeros(*shape):
    return lambda array: array(np.zeros(shape))


REFUSED = {
    "width": [zeros(5, 6), zeros(7, 4), zeros(7, 2)],
    "one query of another width": [zeros(6), zeros(7, 4), zeros(7, 2)],
    "number of values": [zeros(5, 6), zeros(7, 6), zeros(5, 2)],
    "a single key": [zeros(5, 6), zeros(6), zeros(7, 2)],
    "a number as query": [zeros(), zeros(7, 6), zeros(7, 2)],
    "batch of keys": [zeros(2, 5, 6), zeros(3, 7, 6), zeros(7, 2)],
    "batch of values": [zeros(2, 5, 6), zeros(7, 6), zeros(3, 7, 2)],
    "rows of the mask": [zeros(5, 6), zeros(7, 6), zeros(7, 2), zeros(4, 7)],
    "columns of the mask": [zeros(5, 6), zeros(7, 6), zeros(7, 2), zeros(5, 5)],
    "mask of more keys than one": [zeros(5, 6), zeros(1, 6), zeros(1, 2), zeros(5, 7)],
    "batch of the mask": [zeros(2, 5, 6), zeros(7, 6), zeros(7, 2), zeros(3, 5, 7)],
    "batch of mask and values": [zeros(5, 6), zeros(7, 6), zeros(2, 7, 2), zeros(3, 5, 7)],
    "integer mask": [zeros(5, 6), zeros(7, 6), zeros(7, 2), lambda array: array(np.ones((5, 7)), "int64")],
    "complex": [lambda array: array(np.ones((5, 6)), "complex64"), zeros(7, 6), zeros(7, 2)],
    "list": [lambda array: [[1.0] * 6], zeros(7, 6), zeros(7, 2)],
    "list as mask": [zeros(5, 6), zeros(7, 6), zeros(7, 2), lambda array: [True] * 7],
    "two libraries": [lambda array: torch.zeros(5, 6), lambda array: np.zeros((7, 6)), zeros(7, 2)],
    "mask of NumPy for tensors": [*[lambda array: torch.zeros(7, 6)] * 3, lambda array: np.ones(7, dtype=bool)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_attention_refuses_in_the_same_words(array, name):
    query, key, value, mask = (make(array) for make in [*REFUSED[name], lambda array: None][:4])
    with pytest.raises((ValueError, TypeError)) as expected:
        attention(query, key, value, mask)
    with pytest.raises(expected.type) as raised:
        tiled_attention(query, key, value, mask=mask, block_q=2, block_k=2)
    assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize("name", ["block_q", "block_k"])
@pytest.mark.parametrize("block", [0, -1, 2.0, True, None])
def test_refuses_blocks_that_are_no_numbers(array, name, block):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, but it is {block!r}"):
        tiled_attention(*(array(x) for x in inputs()), **{name: block})


# --------------------------------------------------------------------------------------------------------- the package


def test_the_package_is_light_and_works_without_torch():
    code = """
import sys, numpy as np
import attnlab.efficient
print(sorted(name for name in sys.modules if name.startswith("attnlab.efficient.")), "torch" in sys.modules)
sys.modules["torch"] = None  # from here on, `import torch` raises ImportError
from attnlab.efficient import tiled_attention
print(tiled_attention(np.array([1.0, 0.0]), np.eye(2), np.diag([2.0, 4.0]), block_k=1).round(5))
try:
    from attnlab.efficient import meter
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code).splitlines() == [
        "[] False",
        "[1.33952 1.32095]",
        "attnlab.efficient.meter needs torch, which is not installed: pip install torch.",
    ]


def test_names_of_the_package():
    from attnlab import efficient

    for name in efficient.__all__:
        assert getattr(efficient, name).__name__.rpartition(".")[-1] == name
    with pytest.raises(AttributeError, match=r"module 'attnlab\.efficient' has no attribute 'flash'"):
        efficient.flash  # noqa: B018


@pytest.mark.parametrize("array", [np.asarray, torch.as_tensor])
def test_passes_the_invariants(array):
    def tiled(query, key, value, mask):
        return tiled_attention(query, key, value, mask=mask, block_q=2, block_k=3)

    assert invariants.check_all(tiled, like=array(np.zeros(1, "float32"))).broken == []


def test_masks_of_the_course_fit():
    query, key, value = (to_torch(x) for x in inputs(7, 7))
    for mask in (masks.window(7, 3), masks.band(7, 2), masks.documents([0, 0, 1, 1, 1, 2, 2])):
        mask = torch.from_numpy(mask)
        result = tiled_attention(query, key, value, mask=mask, block_q=2, block_k=2)
        check(result, attention(query, key, value, mask).output, atol=1e-14)
