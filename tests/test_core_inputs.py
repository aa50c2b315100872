"""What goes in and what is refused: dtypes, libraries, devices, shapes, and the words of each error."""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name, to_numpy, to_torch

from attnlab import additive, attend, attention, dot, gaussian, general, scaled_dot, softmax

INF, NAN = math.inf, math.nan
LN3 = math.log(3)


# --------------------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floating_dtypes_are_kept(array, dtype):
    x = array([[1, 2], [3, 4], [5, 6]], dtype)
    W = array([[1, 2], [3, 4]], dtype)
    v = array([1, 2], dtype)
    results = [softmax(x), dot(x, x), scaled_dot(x, x), scaled_dot(x[0], x, scale=np.float64(0.1)), general(x, x, W)]
    results += [additive(x, x, W, W, v), gaussian(x, x, 2), *attend(x, W), *attention(x, x, x, is_causal=True)]
    assert {dtype_name(result) for result in results} == {dtype}


def test_bfloat16_is_kept():
    x = to_torch([[1, 2], [3, 4]], "bfloat16")
    for result in (softmax(x), scaled_dot(x, x), *attention(x, x, x)):
        assert result.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_count_as_float64(array, dtype):
    query, key, value = [[1, 0]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]
    result = attention(array(query, dtype), array(key, dtype), array(value, dtype))
    expected = attention(array(query), array(key), array(value))
    assert dtype_name(result.output) == dtype_name(result.weights) == "float64"
    check(result.output, expected.output, atol=0)
    check(result.weights, [[0.66976155, 0.33023845]], atol=1e-8)
    assert dtype_name(softmax(array([0, 1], dtype))) == "float64"


def test_mixed_dtypes_meet_in_the_wider(array):
    query, key, value = array([[1, 0]], "float32"), array(np.eye(2), "float64"), array(np.eye(2), "float32")
    assert dtype_name(attention(query, key, value).weights) == "float64"
    assert dtype_name(attention(query, array(np.eye(2), "float16"), value).weights) == "float32"
    assert dtype_name(attention(query, array(np.eye(2), "int64"), value).weights) == "float64"


@pytest.mark.parametrize("mask_dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_masks_dtype_does_not_change_the_result(array, dtype, mask_dtype):
    scores, values = array([[1, 2, 3]], dtype), array(np.eye(3), dtype)
    for mask in ([0, 1, -INF], [0, 1, -6e4]):
        result = attend(scores, values, array(mask, mask_dtype))
        assert dtype_name(result.output) == dtype_name(result.weights) == dtype
        check(result.weights, [[0.1192, 0.8808, 0]], atol=1e-3 if dtype == "float16" else 5e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_smallest_number_as_a_mask_stays_finite(array, dtype):
    """A row of finite mask values is not an empty row, whatever the dtype of the scores."""
    scores, smallest = array([[-2e4, -2e4]], dtype), np.finfo(np.float64).min
    check(attend(scores, array(np.eye(2), dtype), array([smallest, smallest])).weights, [[0.5, 0.5]])


def test_float16_is_computed_in_float32(array):
    """q · k is 64 · 60² = 230400, over float16's 65504; scaled it is 28800."""
    query, key = array(np.full((1, 64), 60.0), "float16"), array([[60.0] * 64, [59.0] * 64], "float16")
    weights = attention(query, key, key).weights
    assert dtype_name(weights) == "float16"
    check(weights, [[1, 0]], atol=0)
    check(scaled_dot(query, key), [[28800, 28320]], atol=0)


def test_float16_sum_over_many_keys(array):
    """The sum of 70000 ones is over float16's largest number; the weights are not zero."""
    weights = softmax(array(np.zeros(70000), "float16"))
    check(weights, np.full(70000, 1 / 70000), atol=1e-7)
    assert float(weights[0]) > 0


def test_float16_of_huge_scores(array):
    check(softmax(array([65504, 65504, -65504], "float16")), [0.5, 0.5, 0], atol=0)
    check(softmax(array([-INF, -INF], "float16")), [0, 0], atol=0)


def test_half_precision_is_rounded_once():
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        query, key, value = (torch.randn(2, 5, 16).to(dtype) for _ in range(3))
        exact = attention(query.double(), key.double(), value.double())
        for ours, theirs in zip(attention(query, key, value), exact, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-6)


# --------------------------------------------------------------------------------------------------------------- errors


SHAPE_ERRORS = {
    "d_k differs": (((4, 6), (5, 7), (5, 2)), ["(4, 6)", "(5, 7)", "agree in d_k"]),
    "key transposed": (((4, 6), (6, 5), (5, 2)), ["(4, 6)", "(6, 5)", "transposed"]),
    "key is a vector": (((4, 6), (6,), (5, 2)), ["(4, 6)", "(6,)", "(..., n_k, d_k)"]),
    "query is a number": (((), (5, 6), (5, 2)), ["()", "(5, 6)"]),
    "n_k differs": (((4, 6), (5, 6), (4, 2)), ["(5, 6)", "(4, 2)", "n_k = 5"]),
    "value is a vector": (((4, 6), (5, 6), (5,)), ["(5, 6)", "(5,)", "(..., n_k, d_v)"]),
    "query and key batches": (((2, 4, 6), (3, 5, 6), (3, 5, 2)), ["(2, 4, 6)", "(3, 5, 6)", "broadcast"]),
    "value batch": (((2, 4, 6), (2, 5, 6), (3, 5, 2)), ["(2, 4, 5)", "(3, 5, 2)", "broadcast"]),
}


@pytest.mark.parametrize("case", SHAPE_ERRORS)
def test_shapes_that_do_not_fit_are_both_named(array, case):
    shapes, expected = SHAPE_ERRORS[case]
    with pytest.raises(ValueError) as error:
        attention(*(array(np.ones(shape)) for shape in shapes))
    for words in expected:
        assert words in str(error.value)


def test_attend_names_both_shapes(array):
    for scores, values in [((3, 4), (3, 5)), ((3, 4), (4,)), ((4,), (3, 4)), ((2, 3, 4), (3, 4, 5))]:
        with pytest.raises(ValueError) as error:
            attend(array(np.ones(scores)), array(np.ones(values)))
        assert str(scores) in str(error.value)
        assert str(values) in str(error.value)
    with pytest.raises(ValueError, match="no axis"):
        attend(array(1.0), array([[1.0]]))


def test_scores_name_the_parameter_that_does_not_fit(array):
    query, key = array(np.ones((4, 2))), array(np.ones((5, 3)))
    W_q, W_k, v = array(np.ones((7, 2))), array(np.ones((7, 3))), array(np.ones(7))
    with pytest.raises(ValueError, match=r"W must have shape \(d_q, d_k\) = \(2, 3\).*has shape \(3, 2\).*transposed"):
        general(query, key, array(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"W must have shape.*\(4, 2\).*\(5, 3\).*it has shape \(2, 2\)\.$"):
        general(query, key, array(np.ones((2, 2))))
    with pytest.raises(ValueError, match=r"W_q must have shape \(h, d_q\) = \(7, 2\).*has shape \(2, 7\).*transposed"):
        additive(query, key, W_q.T, W_k, v)
    with pytest.raises(ValueError, match=r"W_k must have shape \(h, d_k\) = \(7, 3\).*has shape \(7, 2\)"):
        additive(query, key, W_q, W_q, v)
    with pytest.raises(ValueError, match=r"v must have shape \(h,\).*\(1, 7\)"):
        additive(query, key, W_q, W_k, v[None])
    for score in (dot, scaled_dot, lambda q, k: gaussian(q, k, 1.0)):
        with pytest.raises(ValueError, match=r"\(4, 2\).*\(5, 3\)"):
            score(query, key)


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("wrong", [[[1.0, 2], [3, 4]], None, 1.0, "text", ((1.0, 2), (3, 4))], ids=repr)
def test_what_is_not_an_array_is_refused(array, position, wrong):
    inputs = [array(np.ones((2, 2))) for _ in range(3)] + [array(np.ones((2, 2)), "bool")]
    inputs[position] = wrong
    if position == 3 and wrong is None:
        attention(*inputs)  # no mask
        return
    name = ("query", "key", "value", "mask")[position]
    with pytest.raises(TypeError, match=rf"{name} is of type {type(wrong).__name__}.*pass np\.asarray\({name}\)"):
        attention(*inputs)


@pytest.mark.parametrize("position", range(4))
def test_mixed_libraries_are_refused(array, position):
    other = to_torch if array is to_numpy else to_numpy
    inputs = [array(np.ones((2, 2))) for _ in range(3)] + [array(np.ones((2, 2)), "bool")]
    inputs[position] = other(np.ones((2, 2)), "bool" if position == 3 else "float64")
    with pytest.raises(TypeError, match=r"one library.*: query from (numpy|torch), key from"):
        attention(*inputs)
    with pytest.raises(TypeError, match="one library"):
        attend(array(np.ones((2, 2))), array(np.ones((2, 2))), other(np.ones((2, 2)), "bool"))


def test_two_devices_are_refused():
    x, elsewhere = torch.ones(2, 2), torch.ones(2, 2, device="meta")
    with pytest.raises(ValueError, match=r"one device.*key on meta"):
        dot(x, elsewhere)
    with pytest.raises(ValueError, match=r"one device.*mask on meta.*\.to\(device\)"):
        attention(x, x, x, elsewhere > 0)
    assert attention(elsewhere, elsewhere, elsewhere, is_causal=True).output.device.type == "meta"


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_array_subclasses_with_rules_of_their_own_are_refused():
    x = np.ones((2, 2))
    with pytest.raises(TypeError, match="query is a matrix"):
        attention(np.matrix(x), x, x)
    with pytest.raises(TypeError, match="scores is a MaskedArray"):
        softmax(np.ma.array(x, mask=x > 0))


def test_other_array_subclasses_are_welcome(tmp_path):
    stored = np.memmap(tmp_path / "keys", dtype="float32", mode="w+", shape=(3, 2))
    stored[:] = [[1, 0], [0, 1], [1, 1]]
    assert attention(stored[0], stored, stored).output.dtype == np.float32
    parameter = torch.nn.Parameter(torch.eye(2))
    assert attention(parameter, parameter, parameter).output.requires_grad


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_refused(array, dtype):
    x, z = array(np.ones((2, 2))), array(np.ones((2, 2)), dtype)
    for call in (lambda: softmax(z), lambda: attention(x, z, x), lambda: attend(x, z), lambda: general(x, x, z)):
        with pytest.raises(TypeError, match=f"must hold real numbers, but its dtype is .*{dtype}"):
            call()


@pytest.mark.parametrize("values", [np.array([["a"]]), np.array([[None]]), np.array([["2020-01-01"]], "datetime64[D]")])
def test_arrays_of_other_things_are_refused(values):
    with pytest.raises(TypeError, match="must hold real numbers"):
        softmax(values)


@pytest.mark.parametrize("scale", [True, "1", [0.5], 1j, np.ones(1)], ids=repr)
def test_a_scale_is_a_number(scale):
    x = np.ones((2, 2))
    with pytest.raises(TypeError, match="scale must be a number, but it is"):
        attention(x, x, x, scale=scale)


def test_a_scale_from_the_other_library_is_refused():
    x = np.ones((2, 2))
    with pytest.raises(TypeError, match=r"one library.*scale from torch"):
        attention(x, x, x, scale=torch.tensor(0.5))
