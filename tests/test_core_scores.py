"""The scores, in both libraries.

"A…" names a report in the collection of public bugs that the course teaches from; its right value is the test.
"""

import math

import numpy as np
import pytest
from both_libraries import check

from attnlab import additive, attend, dot, gaussian, general

INF, NAN = math.inf, math.nan
LN3 = math.log(3)


# --------------------------------------------------------------------------------------------------------------- scores


def test_dot_and_general_values(array):
    query, key = array([[1, 2], [3, 4]]), array([[1, 0], [0, 1], [1, 1]])
    check(dot(query, key), [[1, 2, 3], [3, 4, 7]], atol=0)
    check(dot(query[0], key), [1, 2, 3], atol=0)
    W = array([[1, 0, 2], [0, 3, 0]])  # (d_q, d_k) = (2, 3)
    wide_key = array([[1, 1, 1], [0, 1, 0]])
    check(general(query, wide_key, W), [[9, 6], [21, 12]], atol=0)
    check(general(query[1], wide_key, W), [21, 12], atol=0)
    check(general(query, key, array(np.eye(2))), [[1, 2, 3], [3, 4, 7]], atol=0)


def test_additive_pairs_every_query_with_every_key(array):
    """A14: a grid (n_q, n_k), also where n_q = n_k.  A16: without projections it is Σ v tanh(q + k)."""
    eye = array(np.eye(2))
    check(additive(array([1, 0]), array([[0, 1]]), eye, eye, array([1, 1])), [1.5232])
    check(additive(array([1, 0]), array([[0, 1]]), eye, eye, array([1, -1])), [0])
    one = array([[1]])
    square = additive(array([[0], [1]]), array([[0], [2]]), one, one, array([1]))
    check(square, [[0, math.tanh(2)], [math.tanh(1), math.tanh(3)]], atol=1e-15)
    wide = additive(
        array(np.ones((1, 2, 3))), array(np.ones((1, 4, 3))), array(np.eye(3)), array(np.eye(3)), array([1] * 3)
    )
    check(wide, np.full((1, 2, 4), 3 * math.tanh(2)), atol=1e-15)


def test_additive_projects_queries_and_keys_apart(array):
    query, key = array([[1.0, 2]]), array([[3.0, 1, 2]])
    W_q, W_k, v = array([[0.1, 0.2], [0, 0.1]]), array([[0.1, 0, 0.1], [0, 0.3, 0]]), array([2.0, -1])
    check(additive(query, key, W_q, W_k, v), [[2 * math.tanh(1.0) - math.tanh(0.5)]], atol=1e-15)


def test_gaussian_values(array):
    query, key = array([[0, 0], [1, 1]]), array([[0, 0], [3, 4]])
    check(gaussian(query, key, 1), [[0, -12.5], [-1, -6.5]], atol=0)
    check(gaussian(query, key, 5), [[0, -0.5], [-0.04, -0.26]], atol=1e-15)
    check(gaussian(query[0], key, 5), [0, -0.5], atol=1e-15)
    check(gaussian(array([[2.0]]), array([[0.0]]), array(2.0)), [[-0.5]], atol=1e-15)


def test_gaussian_attention_is_kernel_regression(array):
    """Nadaraya-Watson by hand: ŷ(x) = Σ K(x - xᵢ) yᵢ / Σ K(x - xᵢ)."""
    x, xs, ys, width = 0.3, np.array([0.0, 0.5, 2.0]), np.array([1.0, 2.0, 3.0]), 0.7
    kernel = np.exp(-((x - xs) ** 2) / (2 * width**2))
    result = attend(gaussian(array([x]), array(xs[:, None]), width), array(ys[:, None]))
    check(result.output, [kernel @ ys / kernel.sum()], atol=1e-14)


def test_gaussian_of_far_points_does_not_cancel(array):
    """‖q‖² - 2 q · k + ‖k‖² would lose these digits."""
    check(gaussian(array([[1e8]]), array([[1e8 + 1]]), 1.0), [[-0.5]], atol=0)


def test_gaussian_with_a_tiny_width(array):
    """width² alone would underflow to 0, and 0/0 is NaN."""
    check(gaussian(array([[1.0]]), array([[1.0]]), 1e-200), [[0]], atol=0)


@pytest.mark.parametrize("width", [0, -1.0, NAN])
def test_gaussian_needs_a_positive_width(array, width):
    with pytest.raises(ValueError, match="width must be greater than 0, but it is"):
        gaussian(array([[1.0]]), array([[1.0]]), width)
