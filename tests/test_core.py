"""Weights, outputs and masks: the core's values and policies, one by one, in both libraries.

"A…" names a report in the collection of public bugs that the course teaches from; its right value is the test.
"""

import math

import numpy as np
import pytest
from both_libraries import check

from attnlab import Attended, additive, attend, attention, dot, gaussian, general, masks, scaled_dot, softmax

INF, NAN = math.inf, math.nan
LN3 = math.log(3)


# -------------------------------------------------------------------------------------------------------------- softmax


def test_softmax_runs_over_the_last_axis(array):
    """A1, A17: the axis of the keys, not of the batch or the queries."""
    check(softmax(array([[0.3, 2.1]])), [[0.1419, 0.8581]])
    check(softmax(array([[0, LN3], [0, 0]])), [[0.25, 0.75], [0.5, 0.5]])


def test_softmax_along_another_axis(array):
    scores = array([[[0, LN3], [0, 0]]])
    check(softmax(scores, axis=1), [[[0.5, 0.75], [0.5, 0.25]]])
    check(softmax(scores, axis=-2), [[[0.5, 0.75], [0.5, 0.25]]])
    check(softmax(scores, axis=0), [[[1, 1], [1, 1]]])
    check(softmax(array([0, LN3]), axis=0), [0.25, 0.75])


@pytest.mark.parametrize("size", [1e3, 1e4, 1e30, 1e300])
def test_softmax_of_huge_scores(array, size):
    """A2: without its largest score taken off, exp overflows."""
    check(softmax(array([size, size])), [0.5, 0.5])
    check(softmax(array([-size, -size])), [0.5, 0.5])
    check(softmax(array([-size, size])), [0, 1])


@pytest.mark.filterwarnings("ignore:overflow encountered in subtract:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_softmax_of_the_largest_numbers(array, dtype):
    """Their difference overflows to -∞, which is right: NumPy warns, the weights are exact."""
    largest = np.finfo(dtype).max
    check(softmax(array([largest, -largest], dtype)), [1, 0], atol=0)
    check(softmax(array([-largest, -largest], dtype)), [0.5, 0.5], atol=0)


def test_softmax_does_not_change_when_a_constant_is_added(array):
    """A2."""
    check(softmax(array([1000, 1001])), [0.26894142, 0.73105858], atol=1e-8)
    check(softmax(array([-1000, -999])), [0.26894142, 0.73105858], atol=1e-8)


def test_softmax_forbids_where_scores_are_minus_infinity(array):
    """A25, A29: a row that is only -∞ is a row of zeros, and leaves the other rows alone."""
    check(softmax(array([1, -INF])), [1, 0], atol=0)
    check(softmax(array([-INF, -INF])), [0, 0], atol=0)
    check(softmax(array([[-INF, -INF], [0, LN3]])), [[0, 0], [0.25, 0.75]])
    check(softmax(array([[-INF, 0], [-INF, LN3]]), axis=0), [[0, 0.25], [0, 0.75]])


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_softmax_of_plus_infinity_or_nan_is_a_nan_row(array):
    """A25: ∞/∞ has no value; NaN says so, in this row and in no other."""
    for bad in (INF, NAN):
        check(softmax(array([[1, bad], [0, LN3], [bad, -INF]])), [[NAN, NAN], [0.25, 0.75], [NAN, NAN]])


def test_softmax_warns_in_numpy_of_plus_infinity():
    with pytest.warns(RuntimeWarning, match="invalid value"):
        softmax(np.array([1, INF]))


def test_softmax_without_keys(array):
    assert softmax(array(np.zeros((3, 0)))).shape == (3, 0)
    assert softmax(array(np.zeros((0, 3)))).shape == (0, 3)
    assert softmax(array(np.zeros((0, 3))), axis=0).shape == (0, 3)


@pytest.mark.parametrize("axis", [1, -2, None, 0.0, "keys"])
def test_softmax_names_an_axis_that_is_not_there(array, axis):
    with pytest.raises(ValueError, match=r"scores, which have shape \(2,\), but it is"):
        softmax(array([1, 2]), axis=axis)


def test_softmax_of_a_single_number_has_no_axis(array):
    with pytest.raises(ValueError, match=r"shape \(\)"):
        softmax(array(1.0))


# --------------------------------------------------------------------------------------------------- attention, exactly


KEYS, VALUES = np.eye(2), np.array([[2.0, 0.0], [0.0, 4.0]])


@pytest.mark.parametrize(
    ("query", "weights", "output"),
    [
        ([1, 0], [0.66976155, 0.33023845], [1.33952, 1.32095]),
        ([0, 1], [0.33023845, 0.66976155], [0.66048, 2.67905]),
        ([2, 0], [0.8044, 0.1956], [1.6089, 0.7823]),
        ([0, 0], [0.5, 0.5], [1, 2]),
        ([7, 7], [0.5, 0.5], [1, 2]),
    ],
)
def test_the_first_example_of_the_course(array, query, weights, output):
    for as_rows in (False, True):
        q = [query] if as_rows else query
        result = attention(array(q), array(KEYS), array(VALUES))
        assert isinstance(result, Attended)
        check(result.weights, [weights] if as_rows else weights)
        check(result.output, [output] if as_rows else output)
        assert result.output is result[0]
        assert result.weights is result[1]


def test_the_scale_is_that_of_the_key_width(array):
    """A6, A10, A12: neither forgotten, nor taken from d_model or d_v."""
    check(softmax(scaled_dot(array([1.0] * 16), array([[1.0] * 16, [0.0] * 16]))), [0.9820, 0.0180])
    query, key = array([[1.0] * 64]), array([[1.0] * 64, [56 / 64] * 64])
    check(attention(query, key, array(np.eye(2))).weights, [[0.7311, 0.2689]])
    check(scaled_dot(array([1.0] * 4), array([[1.0] * 4])), [2.0], atol=1e-15)
    wide_values = array(np.ones((2, 16)))
    check(attention(array([[1.0] * 4]), array([[1.0] * 4, [0.0] * 4]), wide_values).weights, [[0.8808, 0.1192]])


def test_a_scale_multiplies(array):
    """A7: with d = 4 and q · k = 2 the score is 1, not 4."""
    query, key = array([[1.0, 1, 0, 0]]), array([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    check(scaled_dot(query, key), [[1, 0]], atol=1e-15)
    check(scaled_dot(query, key, scale=4**-0.5), [[1, 0]], atol=1e-15)
    check(scaled_dot(query, key, scale=LN3 / 2), [[LN3, 0]], atol=1e-15)
    check(attention(query, key, array(np.eye(2)), scale=LN3 / 2).weights, [[0.75, 0.25]])
    check(attention(query, key, array(np.eye(2)), scale=0).weights, [[0.5, 0.5]])
    check(attention(query, key, array(np.eye(2)), scale=array(LN3 / 2)).weights, [[0.75, 0.25]])


def test_scaling_the_query_first_is_the_same(array):
    """A11."""
    query, key = array([1.0, 0]), array([[1.0, 0]])
    check(dot(query / math.sqrt(2), key), [0.70710678], atol=1e-8)
    check(scaled_dot(query, key), [0.70710678], atol=1e-8)


def test_scores_of_a_key_bias_cancel(array):
    """A13: every score of a row grows by q · b, and the weights stay."""
    check(softmax(array([0.7071, 0])), [0.6698, 0.3302])
    check(softmax(array([3.7071, 3])), [0.6698, 0.3302])


def test_no_features_means_equal_scores(array):
    result = attention(array(np.ones((2, 0))), array(np.ones((4, 0))), array(np.eye(4)))
    check(result.weights, np.full((2, 4), 0.25))


def test_no_keys_means_zero(array):
    result = attention(array(np.ones((2, 3))), array(np.ones((0, 3))), array(np.ones((0, 5))))
    check(result.output, np.zeros((2, 5)), atol=0)
    assert result.weights.shape == (2, 0)
    single = attention(array(np.ones(3)), array(np.ones((0, 3))), array(np.ones((0, 5))), is_causal=True)
    check(single.output, np.zeros(5), atol=0)
    masked = attend(array(np.ones((2, 0))), array(np.ones((0, 5))), array(np.ones((2, 0)), "bool"))
    check(masked.output, np.zeros((2, 5)), atol=0)


def test_no_queries_and_no_batch(array):
    none = attention(array(np.ones((0, 3))), array(np.ones((4, 3))), array(np.ones((4, 5))), is_causal=True)
    assert none.output.shape == (0, 5)
    assert none.weights.shape == (0, 4)
    empty = attention(array(np.ones((0, 2, 3))), array(np.ones((0, 4, 3))), array(np.ones((0, 4, 5))))
    assert empty.output.shape == (0, 2, 5)
    assert empty.weights.shape == (0, 2, 4)


# ---------------------------------------------------------------------------------------------------------------- masks


def test_masked_keys_get_no_weight(array):
    """A23: multiplying scores by zero would leave .1244 on each masked key."""
    scores, mask = array([0.43, -0.21, 0.99, 0.32, -0.35, 0.04]), array([1, 1, 1, 0, 0, 0], "bool")
    check(attend(scores, array(np.eye(6)), mask).weights, [0.3051, 0.1609, 0.5341, 0, 0, 0])


def test_true_means_may_attend(array):
    """A19."""
    x, mask = array(np.zeros((3, 2))), array(np.tri(3), "bool")
    check(attention(x, x, array(np.eye(3)), mask).output, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])


def test_a_float_mask_is_added(array):
    """A20: zeros and ones forbid nothing; zeros and -∞ do."""
    x, ones = array(np.zeros((3, 2))), array(np.tri(3))
    check(attention(x, x, x, ones).weights[0], [0.5761, 0.2119, 0.2119])
    allowed = masks.causal(3, like=x)
    check(attention(x, x, x, masks.to_additive(allowed)).weights[0], [1, 0, 0], atol=0)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32", "complex64"])
def test_a_mask_of_another_dtype_is_refused(array, dtype):
    x = array(np.zeros((3, 2)))
    with pytest.raises(TypeError, match=rf"mask is bool.*or float.*{dtype}.*mask == 1"):
        attention(x, x, x, array(np.ones((3, 3)), dtype))


def test_an_empty_row_is_zero(array):
    """A29."""
    scores, values, mask = [[1, 2], [0, LN3]], [[7, 8, 9], [1, 2, 3]], [[0, 0], [1, 1]]
    additive_mask = np.where(np.array(mask, dtype=bool), 0.0, -INF)
    for result in (
        attend(array(scores), array(values), array(mask, "bool")),
        attend(array(scores), array(values), array(additive_mask)),
        attend(array([[-INF, -INF], [0, LN3]]), array(values)),
    ):
        check(result.weights, [[0, 0], [0.25, 0.75]])
        check(result.output, [[0, 0, 0], [2.5, 3.5, 4.5]])


def test_masking_before_the_softmax_survives_extreme_scores(array):
    """A24: weights masked afterwards and renormalised would be 0/0."""
    scores, mask = array([0, 0, 200], "float32"), array([1, 1, 0], "bool")
    check(attend(scores, array(np.eye(3), "float32"), mask).weights, [0.5, 0.5, 0], atol=0)


def test_a_mask_may_be_shared(array):
    """By all queries, by all keys, by the batch, or by everything."""
    scores, values = array(np.zeros((2, 3, 4))), array(np.ones((2, 4, 5)))
    some_keys = [1, 0, 1, 0]
    check(attend(scores, values, array(some_keys, "bool")).weights, np.broadcast_to([0.5, 0, 0.5, 0], (2, 3, 4)))
    some_queries = attend(scores, values, array([[1], [0], [1]], "bool")).weights
    check(some_queries, np.broadcast_to([[0.25], [0], [0.25]], (2, 3, 4)))
    one_of_the_batch = attend(scores, values, array([[[1]], [[0]]], "bool")).weights
    check(one_of_the_batch, np.broadcast_to([[[0.25]], [[0]]], (2, 3, 4)))
    check(attend(scores, values, array(True, "bool")).weights, np.full((2, 3, 4), 0.25))
    check(attend(scores, values, array(False, "bool")).output, np.zeros((2, 3, 5)))


def test_several_masks_for_one_input(array):
    """The mask's own batch axes are axes of the result: here each key is left out in turn."""
    query, key, value = array([[1.0, 0]]), array([[1.0, 0], [0, 1], [0, 0]]), array(np.eye(3))
    without_one = array(~np.eye(3, dtype=bool)[:, None, :], "bool")  # (3, 1, 3)
    result = attention(query, key, value, without_one)
    assert result.weights.shape == result.output.shape == (3, 1, 3)
    for i in range(3):
        check(result.weights[i, 0], attention(query[0], key, value, without_one[i, 0]).weights, atol=1e-15)


@pytest.mark.parametrize("shape", [(2, 3), (4, 3), (5, 3, 4), (4,), (1, 4), (2, 4, 3), (3, 4, 3, 1)])
def test_a_mask_that_does_not_fit_is_refused(array, shape):
    scores, values = array(np.zeros((2, 3, 4))), array(np.zeros((2, 4, 5)))
    mask = array(np.ones(shape), "bool")
    fits = shape in {(4,), (1, 4)}
    if fits:
        attend(scores, values, mask)
        return
    with pytest.raises(ValueError, match=r"\(2, 3, 4\)") as error:
        attend(scores, values, mask)
    assert f"mask has shape {shape}" in str(error.value)


def test_a_mask_never_adds_queries_or_keys(array):
    """Broadcasting alone would turn one query into five, or one key into four."""
    for n_q, n_k, shape in [(1, 4, (5, 4)), (3, 1, (3, 4))]:
        with pytest.raises(ValueError, match=rf"\(\.\.\., n_q, n_k\) = \(\.\.\., {n_q}, {n_k}\)"):
            attend(array(np.zeros((n_q, n_k))), array(np.zeros((n_k, 2))), array(np.ones(shape), "bool"))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_nan_and_infinity_behind_a_mask_still_spoil(array):
    """Stated, not wished for: 0 · NaN and 0 · ∞ are NaN.  Huge finite values do no harm."""
    query, mask = array([[1.0, 0]]), array([1, 1, 0], "bool")
    key, value = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[2.0], [4.0], [6.0]])
    clean = attention(query, array(key), array(value), mask)
    for poison in (NAN, INF):
        spoiled_value = array([[2.0], [4.0], [poison]])
        check(attention(query, array(key), spoiled_value, mask).output, [[NAN]])
    huge_value = attention(query, array(key), array([[2.0], [4.0], [1e300]]), mask)
    check(huge_value.output, np.asarray(clean.output), atol=0)
    spoiled_key = array([[1.0, 0], [0, 1], [NAN, NAN]])
    check(attention(query, spoiled_key, array(value), mask).weights, np.asarray(clean.weights), atol=0)


# --------------------------------------------------------------------------------------------------------------- causal


def test_is_causal_is_aligned_bottom_right(array):
    """A62: with a cache, the new query sees every key."""
    key = array(np.zeros((4, 2)))
    check(attention(key[:1], key, array(np.eye(4)), is_causal=True).output, [[0.25] * 4])
    two = attention(key[:2], key, array(np.eye(4)), is_causal=True)
    check(two.output, [[1 / 3, 1 / 3, 1 / 3, 0], [0.25] * 4])
    check(attention(key[0], key, array(np.eye(4)), is_causal=True).output, [0.25] * 4)


def test_is_causal_with_more_queries_than_keys(array):
    x = array(np.zeros((4, 2)))
    result = attention(x, x[:2], x[:2], is_causal=True)
    check(result.weights, [[0, 0], [0, 0], [1, 0], [0.5, 0.5]], atol=0)


def test_mask_and_is_causal_must_both_allow(array):
    x, mask = array(np.zeros((3, 2))), np.array([[1, 1, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
    expected = [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    check(attention(x, x, x, array(mask, "bool"), is_causal=True).weights, expected, atol=0)
    check(attention(x, x, x, array(np.where(mask, 0, -INF)), is_causal=True).weights, expected, atol=0)


def test_mask_and_is_causal_may_leave_an_empty_row(array):
    """Query 0 sees key 0 only, and the mask forbids it."""
    x, mask = array(np.zeros((2, 2))), np.array([[0, 1], [1, 1]], dtype=bool)
    for m in (array(mask, "bool"), array(np.where(mask, 0, -INF)), array([[-INF, -INF], [0, 0]])):
        check(attention(x, x, x, m, is_causal=True).weights, [[0, 0], [0.5, 0.5]], atol=0)


def test_a_large_bias_does_not_open_the_future(array):
    x = array(np.zeros((2, 2)))
    check(attention(x, x, x, array([[0, 1e300], [0, 0]]), is_causal=True).weights[0], [1, 0], atol=0)


# ---------------------------------------------------------------------------------------------------------------- batch


def test_a_single_query_of_a_batch_of_keys(array):
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=6), rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(3, 5, 7))
    lengths = [2, 4, 5]
    mask = masks.padding(lengths, 5, like=array(query))  # (3, 1, 5)
    result = attention(array(query), array(key), array(value), mask)
    assert result.output.shape == (2, 3, 7)
    assert result.weights.shape == (2, 3, 5)
    for b in range(2):
        for h in range(3):
            one = attention(array(query), array(key[b, h]), array(value[h]), mask[h, 0])
            check(result.output[b, h], np.asarray(one.output), atol=1e-14)
            check(result.weights[b, h], np.asarray(one.weights), atol=1e-14)


def test_values_may_have_a_batch_of_their_own(array):
    result = attend(array(np.zeros((3, 4))), array(np.ones((2, 4, 5))))
    assert result.weights.shape == (3, 4)
    assert result.output.shape == (2, 3, 5)


def test_arrays_need_not_be_contiguous(array):
    rng = np.random.default_rng(1)
    query, key, value = rng.normal(size=(6, 4)), rng.normal(size=(10, 6)), rng.normal(size=(7, 5))
    plain = attention(array(query.T.copy()), array(key[::2].copy()), array(value.T.copy()))
    strided = attention(array(query).T, array(key)[::2], array(value).T)
    check(strided.output, np.asarray(plain.output), atol=1e-14)
    read_only = np.broadcast_to(np.ones((1, 6)), (4, 6))
    check(attention(read_only, key, key).weights.sum(-1), np.ones(4), atol=1e-14)
    reversed_keys = attention(query.T, key[::-1], key[::-1])
    check(reversed_keys.output, attention(query.T, key, key).output, atol=1e-14)


def test_inputs_are_never_modified_nor_returned(array):
    rng = np.random.default_rng(2)
    inputs = [array(rng.normal(size=shape)) for shape in [(3, 4), (5, 4), (5, 4), (3, 5), (4, 4), (4,)]]
    before = [np.asarray(x).copy() for x in inputs]
    query, key, value, mask, W, v = inputs
    results = [softmax(mask), dot(query, key), scaled_dot(query, key, scale=1.0), general(query, key, W)]
    results += [additive(query, key, W, W, v), gaussian(query, key, 1.0), *attend(mask, value, mask)]
    results += [*attention(query, key, value, mask, is_causal=True), *attention(query, key, value, mask > 0)]
    results += [softmax(mask[:, :0]), *attend(mask[:, :1], value[:1])]
    for x, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(np.asarray(x), copy)
        for result in results:
            assert not np.shares_memory(np.asarray(result), np.asarray(x))
