"""What a card says of an array that no mistake explains: its kind, its infinities, its numbers."""

import numpy as np
import pytest

from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises.engine.values import about_numbers, numbers, unseen_difference, value

INF = np.inf
TRUTHS, ADDITIVE = np.array([[True, False], [True, True]]), np.array([[0.0, -INF], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("expected", "received", "words"),
    [
        (TRUTHS, TRUTHS * 1, ["Truth values (True/False) are expected; yours are numbers of type int64."]),
        (TRUTHS, TRUTHS * 0.5, ["Truth values (True/False) are expected; yours are numbers of type float64."]),
        (
            TRUTHS,
            np.where(TRUTHS, 0.0, -INF),
            ["Truth values (True/False) are expected; yours are numbers of type float64."],
        ),
        (TRUTHS * 1, TRUTHS, ["Numbers are expected; yours are truth values (True/False)."]),
        (TRUTHS * 0.5, TRUTHS, ["Numbers are expected; yours are truth values (True/False)."]),
        (TRUTHS * 0.5, TRUTHS * 1, ["It returned numbers of type int64; the fractions are lost."]),
        (TRUTHS, TRUTHS & False, ["3 of 4 truth values differ."]),
        (TRUTHS, TRUTHS.T, ["2 of 4 truth values differ."]),
    ],
)
def test_truth_values_are_no_numbers(expected, received, words):
    assert about_numbers(expected, received, np.dtype(float))[:1] == words


def test_kind_and_shape_are_both_said():
    said = about_numbers(TRUTHS[:1], TRUTHS[:1].T * 1.0, np.dtype(float))
    assert said[0].startswith("Truth values") and said[1:] == [
        "Its shape is (2, 1); expected (1, 2).",
        "Transposed, its values would be right.",
    ]


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (np.where(np.isinf(ADDITIVE), -1e9, ADDITIVE), ["1 of 4 numbers should be -∞."]),
        (np.where(np.isinf(ADDITIVE), np.nan, ADDITIVE), ["1 of 4 numbers should be -∞."]),
        (-ADDITIVE, ["1 of 4 numbers should be -∞."]),
        (ADDITIVE.astype(np.float32) - np.array([[INF, 0], [0, 0]]), ["1 of 4 numbers are -∞."]),
        (ADDITIVE * 3, ["On this input, every number is 3 times the expected one."]),
        (ADDITIVE + 2, ["On this input, every number is +2 off."]),
        (ADDITIVE + 1e-7, ["Almost: the largest difference is 1e-07. Is something rounded or approximated?"]),
        (np.array([[2.0, -INF], [0.0, 1.0]]), ["They are the right numbers in another order."]),
        (np.array([[0.5, -INF], [0.25, 9.0]]), []),
    ],
)
def test_relations_hold_where_the_expected_numbers_are_finite(received, words):
    assert about_numbers(ADDITIVE, received, np.dtype(float)) == words


def test_nan_where_nan_is_expected_is_no_fault():
    said = about_numbers(np.array([np.nan, 1.0, 2.0]), np.array([np.nan, 2.0, 4.0]), np.dtype(float))
    assert said == ["On this input, every number is 2 times the expected one."]


def test_numbers_that_happen_to_sum_to_one_beside_an_infinity_are_no_weights():
    assert about_numbers(np.array([1.0, 0.0, -INF]), np.array([3.0, 1.5, -INF]), np.dtype(float)) == []


def test_the_largest_numbers_are_described_without_a_warning():
    assert about_numbers(np.array([1.7e308, 1.0]), np.array([-1.7e308, 1.0]), np.dtype(float)) == []


TABLE = np.arange(81.0).reshape(9, 9)  # too long to be printed in full
HIDDEN = np.arange(81).reshape(9, 9) == 40


@pytest.mark.parametrize(
    ("expected", "received", "said"),
    [
        (
            np.array(1.0698),
            np.array(1.0698 - 3e-9),
            "printed alike; largest difference 3e-09:\n1.069799997, expected 1.0698",
        ),
        (
            np.array([0.0, 1.0]),
            np.array([1e-9, 1.0 + 2e-6]),
            "printed alike; largest difference 2e-06, at [1]:\n1.000002, expected 1",
        ),
        (np.array([[0.0, -INF]]), np.array([[-1e-9, -INF]]), ""),
        (
            np.array([0.5, np.nan]),
            np.array([0.5 + 1e-7, np.nan], dtype=np.float32),
            "printed alike; largest difference 1e-07, at [0]:\n0.500000119, expected 0.5",
        ),
        (TABLE, TABLE + 0.5 * HIDDEN, "printed alike; largest difference 0.5, at [4, 4]:\n40.5, expected 40"),
        (TABLE, np.where(HIDDEN, np.nan, TABLE), "not shown, at [4, 4]: nan, expected 40"),
        (TABLE, np.where(HIDDEN, INF, TABLE), "not shown, at [4, 4]: inf, expected 40"),
        (TABLE > 50, (TABLE > 50) ^ HIDDEN, "not shown, at [4, 4]: True, expected False"),
        (np.array([1.0]), np.array([1.0002]), ""),  # it is printed
        (np.array([1.0]), np.array([1]), ""),  # there is none
        (np.array([1.0]), np.array([[1.0 + 1e-9]]), ""),
        (np.array([1.0]), None, ""),
        (TRUTHS, TRUTHS * 1.0, ""),
    ],
)
def test_a_difference_that_is_not_printed_is_said(expected, received, said):
    assert unseen_difference(expected, received) == (said and f"\n{said}")


def test_a_list_of_truth_values_is_told_how_to_become_an_array():
    words = ch3.causal_mask.judge(lambda n_q, n_k: ch3.causal_mask.reference(n_q, n_k).tolist()).words
    assert words[1] == "But its values would be right: return `np.array(…)` of it."
    ones = ch3.causal_mask.judge(lambda n_q, n_k: (1 * ch3.causal_mask.reference(n_q, n_k)).tolist()).words
    assert "right" not in " ".join(ones)


def test_numbers_are_taken_from_lists_as_they_are():
    assert numbers([[True, False]]).dtype == bool and numbers([1, 2]).dtype.kind == "i"
    assert numbers([1.0, None])[0] == 1.0 and numbers([[1], [1, 2]]) is None and numbers(["a"]) is None
    assert value(numbers([True])) == "[ True] shape (1,) bool"
