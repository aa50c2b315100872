"""Rankings of keys and tokens: closed forms, a masked torch layer, finite differences, pairs that are counted.

"A83" names a report in the collection of public bugs that the course teaches from.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name
from test_import import run
from torch import nn

from attnlab import evidence
from attnlab.evidence import (
    agreement_table,
    agreements,
    gradient_x_input,
    leave_one_out,
    rank_agreement,
    replace_each,
    value_weighted,
)

N, D = 6, 8


def row(n=N, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n))


class OwnLayer:
    """A model that the course did not make: torch's attention layer, a linear readout, and query 0 of one text.

    `predict` is the protocol: the weights of one head are replaced, all else is taken from the layer's parameters.
    """

    def __init__(self, n_heads=1, dtype=torch.float64):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.MultiheadAttention(D, n_heads, batch_first=True, dtype=dtype)
            nn.init.normal_(self.layer.in_proj_weight, std=0.3)
            nn.init.normal_(self.layer.in_proj_bias)
            nn.init.normal_(self.layer.out_proj.bias)
            self.x = torch.randn(1, N, D, dtype=dtype)  # (B, n, d)
            self.readout = torch.randn(D, dtype=dtype)
        self.layer.requires_grad_(False)
        self.n_heads = n_heads

    def output(self, **options):
        """What the layer itself says: a number."""
        return float(self.layer(self.x, self.x, self.x, **options)[0][0, 0] @ self.readout)

    def weights(self):
        """The layer's own weights of query 0: (n_heads, n)."""
        options = {"need_weights": True, "average_attn_weights": False}
        return self.layer(self.x, self.x, self.x, **options)[1][0, :, 0]

    def predict(self, weights):
        """weights of head 0 (r, n) → (r,)"""
        W_v, b_v = self.layer.in_proj_weight[-D:], self.layer.in_proj_bias[-D:]
        values = (self.x[0] @ W_v.T + b_v).unflatten(-1, (self.n_heads, -1)).transpose(0, 1)  # (n_heads, n, d_head)
        others = (self.weights()[1:, None] @ values[1:]).flatten()  # what the other heads say
        heads = torch.cat([weights @ values[0], others.expand(len(weights), -1)], dim=-1)  # (r, d)
        return self.layer.out_proj(heads) @ self.readout


# ----------------------------------------------------------------------------------------------------- weight × ‖value‖


def test_a_sink_that_carries_nothing(array):
    """A83: the first key has nine tenths of the weight and a value of length 0."""
    check(value_weighted(array([0.9, 0.1]), array([[0, 0], [5, 0]])), [0, 1], atol=0)
    check(value_weighted(array([0.5, 0.5]), array([[3, 4], [0, -15]])), [0.25, 0.75], atol=1e-15)


@pytest.mark.parametrize(
    ("of_weights", "of_values"),
    [((4,), (4, 3)), ((5, 4), (5, 4, 3)), ((2, 4), (4, 3)), ((2, 2, 4), (2, 4, 3)), ((6, 3, 3, 4), (3, 4, 3))],
    ids=str,
)
def test_value_weighted_pair_by_pair(array, of_weights, of_values):
    """(2, 2, 4) with (2, 4, 3): as many queries as heads, where a wrong broadcast has the right shape."""
    rng = np.random.default_rng(0)
    weights, values = rng.random(of_weights), rng.normal(size=of_values)
    expected = np.empty(of_weights)
    for place in np.ndindex(of_weights[:-1]):
        shared = place[:-1] if len(of_weights) >= len(of_values) else place
        of_row = values[shared[len(shared) - (len(of_values) - 2) :]]  # (n, d)
        carried = [w * math.hypot(*v) for w, v in zip(weights[place], of_row, strict=True)]
        expected[place] = np.array(carried) / sum(carried)
    check(value_weighted(array(weights), array(values)), expected, atol=1e-14)


def test_value_weighted_of_nothing_is_zero(array):
    check(value_weighted(array(np.zeros((2, 3))), array(np.ones((3, 2)))), np.zeros((2, 3)), atol=0)
    check(value_weighted(array([0.5, 0.5]), array(np.zeros((2, 2)))), [0, 0], atol=0)


@pytest.mark.parametrize(
    ("of_weights", "of_values"),
    [((4,), (3, 2)), ((4,), (4,)), ((), (4, 2)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (3, 4, 5))],
    ids=str,
)
def test_value_weighted_names_shapes(array, of_weights, of_values):
    with pytest.raises(ValueError, match=r"weights has shape .* and values has shape") as error:
        value_weighted(array(np.ones(of_weights)), array(np.ones(of_values)))
    assert str(of_weights) in str(error.value) and str(of_values) in str(error.value)


# -------------------------------------------------------------------------------------------------------- leave one out


def test_leave_one_out_by_hand(array):
    """Outputs 1, 2, 6 for the single keys, and a bias of 10 that no removal touches."""
    s, weights = array([1.0, 2.0, 6.0]), array([0.5, 0.25, 0.25])
    # .5 + .5 + 1.5 = 2.5; without the first (2 + 6) / 2, without the second (1 + 1 + 6) / 3, without the third 4 / 3
    check(leave_one_out(lambda w: w @ s + 10, weights), [-1.5, 2.5 - 8 / 3, 2.5 - 4 / 3], atol=1e-14)
    check(leave_one_out(lambda w: w @ s + 10, weights, renormalize=False), [0.5, 0.5, 1.5], atol=1e-14)


def test_leave_one_out_equals_a_masked_layer():
    """In a layer with one head, a masked key is a key left out: torch's softmax divides by the others' sum."""
    own = OwnLayer()
    assert float(own.predict(own.weights())[0]) == pytest.approx(own.output(), abs=1e-12)
    without = [own.output(key_padding_mask=torch.arange(N)[None] == i) for i in range(N)]
    check(leave_one_out(own.predict, own.weights()[0]), own.output() - np.array(without), atol=1e-12)


def test_leave_one_out_asks_once_and_the_given_row_itself(array):
    weights, asked = array(row().astype("float32"), "float32"), []

    def predict(rows):
        asked.append(np.asarray(rows))
        return rows[:, 0] ** 2  # not linear

    result = leave_one_out(predict, weights)
    ((given, *others),) = asked
    np.testing.assert_array_equal(given, row().astype("float32"))
    assert dtype_name(result) == "float32" and len(others) == N
    for i, other in enumerate(others):
        expected = np.where(np.arange(N) == i, 0, row()) / (1 - row()[i])
        check(other, expected, atol=1e-6)
    check(weights, row(), atol=1e-7)


def test_the_only_weight_leaves_zeros(array):
    """Its removal leaves no key: a row of zeros, for which this output is its bias."""
    asked = []

    def predict(rows):
        asked.append(np.asarray(rows))
        return rows @ array([3.0, 5.0, 7.0]) + 1

    check(leave_one_out(predict, array([0.0, 1.0, 0.0])), [0, 5, 0], atol=0)
    check(asked[0][2], [0, 0, 0], atol=0)
    check(leave_one_out(lambda w: w[:, 0] + 1, array([1.0])), [1], atol=0)
    check(leave_one_out(lambda w: w @ array([3.0, 5.0]) + 1, array([0.0, 0.0])), [0, 0], atol=0)


def test_a_tiny_rest_is_still_divided_by_its_sum(array):
    """1 − w loses what is left beside a weight of 1; the sum of the others does not."""
    s = array([0.0, 2.0, 4.0])
    check(leave_one_out(lambda w: w @ s, array([1.0, 1e-30, 1e-30])), [-3, 0, 0], atol=1e-15)


def test_leave_one_out_refuses(array):
    weights = array(row())
    with pytest.raises(ValueError, match=r"with n at least 1, the row of one query, but they have shape \(2, 3\)"):
        leave_one_out(lambda w: w[:, 0], array(np.ones((2, 3)) / 3))
    with pytest.raises(ValueError, match=r"non-negative and sum to 1 .* between 6 and 6"):
        leave_one_out(lambda w: w[:, 0], array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match=r"the smallest of shape \(2,\) is -0.5"):
        leave_one_out(lambda w: w[:, 0], array([1.5, -0.5]))
    with pytest.raises(ValueError, match=r"shape \(7,\) for weights of shape \(7, 6\), but it returned shape \(7, 1\)"):
        leave_one_out(lambda w: w[:, :1], weights)
    with pytest.raises(ValueError, match=r"but it returned shape \(\)"):
        leave_one_out(lambda w: w[0, 0], weights)
    with pytest.raises(TypeError, match=r"predict\(weights\) is of type list"):
        leave_one_out(lambda w: w[:, 0].tolist(), weights)
    with pytest.raises(TypeError, match="weights is of type list"):
        leave_one_out(lambda w: w[:, 0], [0.5, 0.5])
    # Without division no sum is asked for: sigmoid weights are as good.
    check(leave_one_out(lambda w: w[:, 0], array([1.0, 2.0]), renormalize=False), [1, 0], atol=0)


def test_libraries_are_not_mixed():
    with pytest.raises(TypeError, match=r"weights from numpy, predict\(weights\) from torch"):
        leave_one_out(lambda w: torch.as_tensor(w)[:, 0], row())


# ---------------------------------------------------------------------------------------------------------- replacement

WORTH = {"not": -3.0, "good": 2.0, "film": 0.5, "[MASK]": 0.0, "a": 0.25}
TOKENS = ["film", "not", "good", "good"]


def model_of_order(array):
    """Position (from 1) times worth: what is deleted also moves the others."""
    return lambda texts: array([sum((i + 1) * WORTH[t] for i, t in enumerate(text)) for text in texts])


def test_replace_each(array):
    predict = model_of_order(array)  # .5 − 6 + 6 + 8 = 8.5
    # deleted: −6, +4, and +6 … written out: [not good good] = −3 + 4 + 6, [film good good] = .5 + 4 + 6, …
    check(replace_each(predict, TOKENS), [8.5 - 7, 8.5 - 10.5, 8.5 - 0.5, 8.5 - 0.5], atol=1e-14)
    check(replace_each(predict, TOKENS, "[MASK]"), [0.5, -6, 6, 8], atol=1e-14)
    check(replace_each(predict, TOKENS, ["[MASK]"]), [0.5, -6, 6, 8], atol=1e-14)
    means = [0.5 - 0.125, -6 - 0.25, 6 - 0.375, 8 - 0.5]
    check(replace_each(predict, TOKENS, ["[MASK]", "a"]), means, atol=1e-14)


def test_replace_each_asks_once_and_changes_no_list(array):
    asked, tokens = [], list(TOKENS)

    def predict(texts):
        asked.append([list(text) for text in texts])
        for text in texts:
            text.append("spoiled")  # the model's own business
        return array(np.arange(len(texts)))

    result = replace_each(predict, tokens, ["a", "film"])
    assert tokens == TOKENS and len(asked) == 1 and asked[0][0] == TOKENS
    assert asked[0][3:5] == [["film", "a", "good", "good"], ["film", "film", "good", "good"]]
    check(result, [-1.5, -3.5, -5.5, -7.5], atol=0)


def test_replace_each_of_ids_and_of_one_token(array):
    predict = lambda texts: array([float(sum(text)) for text in texts])  # noqa: E731
    check(replace_each(predict, (5, 7), 0), [5, 7], atol=0)
    check(replace_each(predict, [5]), [5], atol=0)  # an empty list is left


def test_replacements_that_are_an_array_or_a_set(array):
    """Ids come as arrays: [5, 6] is two replacements, and not one token that is an array."""
    predict, means = lambda texts: array([float(sum(text)) for text in texts]), [1 - 5.5, 2 - 5.5]
    for tokens, two in [([1, 2], array([5, 6], "int64")), (array([1, 2], "int64"), [5, 6]), ((1, 2), {5, 6})]:
        check(replace_each(predict, tokens, two), means, atol=0)
    check(replace_each(predict, [1, 2], array(5, "int64")), [-4, -3], atol=0)  # an array of no axis is one id
    check(replace_each(predict, [1, 2], np.int64(5)), [-4, -3], atol=0)
    with pytest.raises(ValueError, match=r"tokens must have shape \(n,\), one id a token, but .* shape \(1, 2\)"):
        replace_each(predict, array([[1, 2]], "int64"))
    with pytest.raises(ValueError, match=r"replacement must have shape \(n,\), .* shape \(1, 2\)"):
        replace_each(predict, [1, 2], array([[5, 6]], "int64"))
    with pytest.raises(ValueError, match="replacement is an empty list"):
        replace_each(predict, [1, 2], array([], "int64"))


def test_replace_each_refuses(array):
    predict = model_of_order(array)
    with pytest.raises(ValueError, match="replacement is an empty list"):
        replace_each(predict, TOKENS, [])
    with pytest.raises(TypeError, match="a list of tokens, but it is one text"):
        replace_each(predict, "film not good")
    with pytest.raises(ValueError, match=r"shape \(5,\), but it returned shape \(4,\)"):
        replace_each(lambda texts: predict(texts)[1:], TOKENS)
    with pytest.raises(TypeError, match=r"predict_tokens\(lists\) is of type list"):
        replace_each(lambda texts: [0.0] * len(texts), TOKENS)


# ------------------------------------------------------------------------------------------------------------ gradients


def test_gradient_x_input_of_a_linear_function_is_each_part():
    x = torch.tensor([[1.0, 2.0], [-3.0, 0.5], [0.0, 4.0]])
    W = torch.tensor([[1.0, 1.0], [2.0, 4.0], [7.0, -1.0]])
    check(gradient_x_input(lambda z: (z * W).sum() + 5, x), [3, -4, -4], atol=0)


def test_gradient_x_input_by_finite_differences():
    """A network that is not linear, and that mixes the tokens: torch's layer, then tanh."""
    own = OwnLayer(n_heads=2)

    def function(x):
        return torch.tanh(own.layer(x[None], x[None], x[None])[0][0, 0] @ own.readout / 5)

    x, step = own.x[0], 1e-5
    expected = np.zeros(N)
    for i, j in itertools.product(range(N), range(D)):
        moved = torch.zeros_like(x)
        moved[i, j] = step
        expected[i] += float(x[i, j] * (function(x + moved) - function(x - moved)) / (2 * step))
    assert np.abs(expected).min() > 1e-3
    check(gradient_x_input(function, x), expected, atol=1e-8)


def test_gradient_x_input_leaves_the_model_alone():
    readout = nn.Linear(2, 1)
    x = torch.ones(3, 2, requires_grad=True)
    with torch.no_grad():  # a caller's habit
        result = gradient_x_input(lambda z: readout(z).sum(dim=0), x)  # shape (1,): one number
    check(result, [float(readout.weight.detach().sum())] * 3, atol=1e-6)
    assert readout.weight.grad is None and x.grad is None and not result.requires_grad

    x = torch.full((3, 2), 2.0)
    check(gradient_x_input(lambda z: z.square_().sum(), x), [16, 16, 16], atol=0)  # a function that works in place
    check(x, np.full((3, 2), 2), atol=0)


def test_gradient_x_input_refuses():
    x = torch.ones(3, 2)
    readout = nn.Linear(2, 1)
    for function in (lambda z: z.detach().sum(), lambda z: readout(x).sum(), lambda z: torch.tensor(1.0)):
        with pytest.raises(ValueError, match="No gradient arrives at the inputs"):
            gradient_x_input(function, x)
    with pytest.raises(ValueError, match=r"one number as a torch tensor, but it returned shape \(3,\)"):
        gradient_x_input(lambda z: z.sum(dim=-1), x)
    with pytest.raises(ValueError, match="but it returned float"):
        gradient_x_input(lambda z: float(z.detach().sum()), x)
    with pytest.raises(ValueError, match=r"\(n, d\), one row a token, but they have shape \(2, 3, 4\)"):
        gradient_x_input(lambda z: z.sum(), torch.ones(2, 3, 4))
    with pytest.raises(TypeError, match=r"torch.int64"):
        gradient_x_input(lambda z: z.sum(), torch.tensor([[1, 2]]))
    with pytest.raises(TypeError, match="ndarray"):
        gradient_x_input(lambda z: z.sum(), np.ones((2, 2)))


# ------------------------------------------------------------------------------------------------------------ agreement


def tau_b(a, b):
    """Kendall 1945, pair by pair."""
    pairs = [np.sign([a[i] - a[j], b[i] - b[j]]) for i, j in itertools.combinations(range(len(a)), 2)]
    total = sum(x * y for x, y in pairs)
    return total / math.sqrt(sum(x != 0 for x, _ in pairs) * sum(y != 0 for _, y in pairs))


def test_tau_by_hand(array):
    for a, b, expected in [
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 2, 3], [30, 20, 10], -1),
        ([1, 1, 2], [1, 2, 3], 2 / math.sqrt(2 * 3)),
        ([0, 0, 1, 1], [0, 1, 0, 1], 0),
    ]:
        assert rank_agreement(array(a), array(b)) == pytest.approx(expected, abs=1e-12)


def test_tau_with_ties_pair_by_pair(array):
    rng = np.random.default_rng(0)
    for n in (2, 3, 7, 20):
        for _ in range(5):
            a, b = rng.integers(5, size=(2, n))
            if np.ptp(a) and np.ptp(b):
                assert rank_agreement(array(a), array(b)) == pytest.approx(tau_b(a, b), abs=1e-12)


def test_no_order_no_agreement(array):
    for a, b in [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1], [1]), ([], [])]:
        assert math.isnan(rank_agreement(array(a), array(b)))
    with pytest.raises(ValueError, match="a has a score that is NaN"):
        rank_agreement(array([1, math.nan]), array([1, 2]))
    with pytest.raises(ValueError, match=r"a has shape \(2,\) and b has shape \(3,\)"):
        rank_agreement(array([1, 2]), array([1, 2, 3]))
    with pytest.raises(ValueError, match=r"b must have shape \(n,\).* shape \(1, 2\)"):
        rank_agreement(array([1, 2]), array([[1, 2]]))


def test_table_is_the_mean_over_examples(array):
    """Examples of unequal lengths; in the second, "flat" has no order; in none has "constant"."""
    rng = np.random.default_rng(1)
    lengths = [5, 4, 7]
    rankings = {name: [rng.normal(size=n) for n in lengths] for name in ("weights", "gradient", "flat")}
    rankings["flat"][1] = np.full(4, 0.25)
    rankings["constant"] = [np.zeros(n) for n in lengths]
    names, table = agreement_table({name: [array(x) for x in rows] for name, rows in rankings.items()})
    assert names == ["weights", "gradient", "flat", "constant"]
    of = dict(zip(names, rankings.values(), strict=True))
    assert table[0, 1] == pytest.approx(np.mean([tau_b(of["weights"][i], of["gradient"][i]) for i in range(3)]))
    assert table[0, 2] == pytest.approx(np.mean([tau_b(of["weights"][i], of["flat"][i]) for i in (0, 2)]))
    np.testing.assert_array_equal(table, table.T)
    np.testing.assert_array_equal(np.diagonal(table), [1, 1, 1, math.nan])
    assert np.isnan(table[3]).all()

    names, taus = agreements(rankings)
    assert taus.shape == (4, 4, 3)
    assert taus[1, 2, 2] == pytest.approx(tau_b(of["gradient"][2], of["flat"][2]))
    left_out = np.isnan(taus).sum(axis=-1)
    np.testing.assert_array_equal(left_out, [[0, 0, 1, 3], [0, 0, 1, 3], [1, 1, 1, 3], [3, 3, 3, 3]])


def test_table_refuses(array):
    one, two = array([1.0, 2.0]), array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"\{'a': 1, 'b': 2\}"):
        agreement_table({"a": [one], "b": [one, one]})
    for empty in ({}, {"a": []}):
        with pytest.raises(ValueError, match="at least 1"):
            agreement_table(empty)
    with pytest.raises(ValueError, match="of example 1 a has 2, b has 3"):
        agreement_table({"a": [one, one], "b": [one, two]})
    with pytest.raises(TypeError, match="rankings must be a dictionary, name → scores, but it is of type list"):
        agreement_table([[one]])
    with pytest.raises(ValueError, match=r"rankings\['a'\]\[0\] has a score that is NaN"):
        agreement_table({"a": [array([math.nan, 1.0])]})


# ------------------------------------------------------------------------------------------------------------- the room


def test_the_room_is_light():
    """Importing it loads neither torch nor SciPy; nor does what NumPy alone can answer."""
    code = """
import sys, numpy as np
from attnlab import evidence
w, s = np.array([.5, .3, .2]), np.array([1., 2., 4.])
evidence.leave_one_out(lambda rows: rows @ s, w)
evidence.adversary(lambda rows: rows @ s, w, 1.8, 2.0)
evidence.baselines(w[None])
print([name for name in ("torch", "scipy") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_what_is_missing_is_named():
    code = """
import sys
sys.modules["torch"] = sys.modules["scipy"] = None  # from here on, importing them raises ModuleNotFoundError
from attnlab import evidence
for name in ("gradient_x_input", "captured", "rank_agreement", "spread"):
    try:
        getattr(evidence, name)
    except ModuleNotFoundError as error:
        print(error.name, "|", error)
"""
    torch_, also_torch, scipy, also_scipy = run(code).splitlines()
    assert torch_ == "torch | attnlab.evidence.gradient_x_input needs torch, which is not installed: pip install torch."
    assert "captured needs torch" in also_torch
    assert scipy == "scipy | attnlab.evidence.rank_agreement needs scipy, which is not installed: pip install scipy."
    assert "spread needs scipy" in also_scipy


def test_all_names_are_there():
    assert {getattr(evidence, name).__name__ for name in evidence.__all__} == set(evidence.__all__)
    with pytest.raises(AttributeError, match="no attribute 'explain'"):
        _ = evidence.explain
