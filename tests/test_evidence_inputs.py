"""What every function of the room says to NaN, infinity, lists, empty arrays and tensors with a gradient: one table.

What is not finite is refused in words or comes out as NaN: never as a number, and never as the error of a library
below.  Where only the order counts, infinity is a number as others.
"""

import math

import numpy as np
import pytest
import torch

from attnlab import evidence

OUTPUTS = [0.0, 1.0, 4.0]


def predict(rows):
    return rows @ (torch.tensor(OUTPUTS).to(rows.dtype) if isinstance(rows, torch.Tensor) else np.array(OUTPUTS))


def like(x, values, dtype="float64"):
    """In the library of x; of a list in NumPy."""
    return torch.tensor(values, dtype=getattr(torch, dtype)) if isinstance(x, torch.Tensor) else np.array(values, dtype)


FUNCTIONS = {  # of x (3,): the result, as one array
    "leave_one_out": lambda x: evidence.leave_one_out(predict, x),
    "leave_one_out, raw": lambda x: evidence.leave_one_out(predict, x, renormalize=False),
    "permute": lambda x: evidence.permute(predict, x, 5),
    "permute, predict": lambda x: evidence.permute(lambda rows: x, like(x, [0.25, 0.75]), 2),
    "adversary": lambda x: evidence.adversary(predict, x, -9, 9).weights,
    "adversary, predict": lambda x: (
        evidence.adversary(lambda rows: rows @ x, like(x, [0.5, 0.25, 0.25]), -9, 9).weights
    ),
    "jensen_shannon": lambda x: evidence.jensen_shannon(x, like(x, [0.5, 0.25, 0.25])),
    "entropy": evidence.entropy,
    "null_space": lambda x: evidence.null_space(x[:, None]),
    "value_weighted, weights": lambda x: evidence.value_weighted(x, like(x, [[1.0], [2.0], [3.0]])),
    "value_weighted, values": lambda x: evidence.value_weighted(like(x, [0.5, 0.25, 0.25]), x[:, None]),
    "rank_agreement": lambda x: evidence.rank_agreement(x, like(x, [1.0, 3.0, 2.0])),
    "agreements": lambda x: evidence.agreements({"x": [x], "y": [like(x, [1.0, 3.0, 2.0])]})[1],
    "agreement_table": lambda x: evidence.agreement_table({"x": [x], "y": [like(x, [1.0, 3.0, 2.0])]})[1],
    "replace_each": lambda x: evidence.replace_each(lambda lists: x, ["a", "b"]),
    "pointing": lambda x: evidence.pointing(x, like(x, 0, "int64")),
    "baselines": lambda x: evidence.baselines(x)["uniform"],
    "task_check": lambda x: evidence.task_check(lambda rows: [1], x[None], [1])["own"],
    "task_check, answers": lambda x: evidence.task_check(lambda rows: [0.5, 0.3, 0.2], np.ones((3, 1)), x)["own"],
    "task_check, decide": lambda x: evidence.task_check(lambda rows: x, np.ones((3, 1)), [0.5, 0.3, 0.2])["own"],
    "spread": evidence.spread,
    "spread_of_pairs": evidence.spread_of_pairs,
    "spread_of_difference": lambda x: evidence.spread_of_difference(x, [1.0, 2.0, 3.0]),
    "spread_of_difference, pairs": lambda x: evidence.spread_of_difference([1.0, 2.0, 3.0], x),
    "restored": lambda x: evidence.restored(like(x, [1.0, 2.0, 3.0]), like(x, [2.0, 3.0, 4.0]), x),
}
OF_LISTS = {"spread", "spread_of_pairs", "spread_of_difference", "spread_of_difference, pairs"}
OF_LISTS |= {"task_check, answers", "task_check, decide"}
BY_PARTS = {"null_space", "value_weighted, values", "task_check", "adversary, predict"}  # x is cut, or multiplied
WHOLE = set(FUNCTIONS) - OF_LISTS - BY_PARTS
RANKS = {"rank_agreement", "agreements", "agreement_table"}  # only the order counts


def plain(result):
    return np.asarray(result.detach() if isinstance(result, torch.Tensor) else result, "float64")


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_finite_shows(array, name, wrong):
    x = array([0.5, wrong, 0.2])
    if name in RANKS and not math.isnan(wrong):
        assert np.isfinite(plain(FUNCTIONS[name](x))).all()
        return
    try:
        with np.errstate(invalid="ignore"):
            result = plain(FUNCTIONS[name](x))
    except (ValueError, TypeError) as error:
        assert type(error) in (ValueError, TypeError)  # a LinAlgError is a ValueError, too
        assert "must" in str(error) or "is NaN" in str(error)
    else:
        assert not np.isfinite(result).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_changes_no_number(name):
    x = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    np.testing.assert_array_equal(
        plain(FUNCTIONS[name](x.clone().requires_grad_())), plain(FUNCTIONS[name](x.numpy())), strict=True
    )


@pytest.mark.parametrize("name", sorted(OF_LISTS))
def test_lists_are_read(name):
    x = [0.5, 0.3, 0.2]
    np.testing.assert_array_equal(plain(FUNCTIONS[name](x)), plain(FUNCTIONS[name](np.array(x))), strict=True)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_lists_are_named(name):
    """There a list would be in doubt: of which library are the results?"""
    with pytest.raises(TypeError, match=r"is of type list, but attnlab works on NumPy arrays and torch tensors"):
        FUNCTIONS[name]([0.5, 0.3, 0.2])


@pytest.mark.parametrize("name", ["leave_one_out", "permute", "adversary", "pointing", "baselines", *sorted(OF_LISTS)])
def test_nothing_is_refused(array, name):
    with pytest.raises(ValueError, match=r"must .* \(0,\)"):
        FUNCTIONS[name](array([]))


def test_the_table_is_complete():
    called = {name.split(",")[0] for name in FUNCTIONS}
    elsewhere = {"captured", "edited", "gradient_x_input"} | {"Adversary", "Seen", "Spread"}
    assert called | elsewhere == set(evidence.__all__)
