"""The checklist: counts by hand, baselines against loops, a task that is known."""

import math

import numpy as np
import pytest
import torch
from both_libraries import check, dtype_name
from test_evidence_ranking import OwnLayer

from attnlab import masks
from attnlab.evidence import baselines, pointing, task_check

B, N = 40, 6


def rows(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.5), size=shape[:-1])


def padded(lengths, n=N, seed=0):
    """Weights (B, n) and their mask: row i has lengths[i] allowed keys, the first ones."""
    mask = np.arange(n) < np.array(lengths)[:, None]
    weights = np.where(mask, rows(len(lengths), n, seed=seed), 0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total), mask


# ------------------------------------------------------------------------------------------------------------------ AIM


def test_pointing_by_hand(array):
    weights = array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]])
    assert pointing(weights, array([0, 1, 1, 0], "int64")) == 0.5
    assert pointing(weights[:3], array([0, 2, 0], "int32")) == pytest.approx(2 / 3)
    several = array([[1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]], "bool")
    assert pointing(weights, several) == 0.75
    assert pointing(weights[0], array(0, "int64")) == 1  # one row


def test_pointing_of_rows_with_more_axes(array):
    weights = rows(3, 4, N)
    targets = np.random.default_rng(1).integers(N, size=(3, 4))
    expected = np.mean([weights[i].argmax() == targets[i] for i in np.ndindex(3, 4)])
    assert 0 < expected < 1
    assert pointing(array(weights), array(targets, "int64")) == pytest.approx(expected)


def test_uniform_weights_point_as_chance_does(array):
    """The first of equal weights would make a key at the start a lucky guess."""
    uniform = array(np.full((5, 4), 0.25))
    assert pointing(uniform, array(np.zeros(5), "int64")) == 0.25
    assert pointing(uniform[:1], array([[1, 1, 1, 0]], "bool")) == 0.75
    tied = array([[0.4, 0.4, 0.2], [0.3, 0.3, 0.4]])
    assert pointing(tied, array([1, 2], "int64")) == 0.75
    # A row without an allowed key points nowhere, and not everywhere.
    assert pointing(array([[0.0, 0.0], [0.0, 1.0]]), array([1, 1], "int64")) == 0.5


def test_pointing_refuses(array):
    weights = array(rows(2, 3))
    for wrong, words in [
        ([[0, 1]], r"targets is .*int64 of shape \(1, 2\) and weights has shape \(2, 3\)"),
        ([0, 3], "keys from 0 to 2"),
        ([0, -100], "leave rows without a target out"),
    ]:
        with pytest.raises(ValueError, match=words):
            pointing(weights, array(wrong, "int64"))
    with pytest.raises(ValueError, match=r"bool of shape \(2,\)"):
        pointing(weights, array([True, False], "bool"))
    with pytest.raises(ValueError, match="one has none: leave this row out"):
        pointing(weights, array([[1, 0, 0], [0, 0, 0]], "bool"))
    with pytest.raises(TypeError, match="integers or bool"):
        pointing(weights, array([0.0, 1.0]))
    with pytest.raises(ValueError, match=r"at least one row and key, but have \(0, 3\)"):
        pointing(weights[:0], array([], "int64"))
    with pytest.raises(TypeError, match="mixed: weights from numpy, targets from torch"):
        pointing(np.asarray(weights), torch.tensor([0, 1]))


def test_pointing_names_the_row_that_points_nowhere_that_counts(array):
    """A NaN is larger than nothing: its row would score 0, as one that looks at the wrong key."""
    for wrong in (math.nan, math.inf, -math.inf):
        weights = np.full((2, 3, 4), 0.25)
        weights[1, 2, 3] = wrong
        with pytest.raises(ValueError, match=rf"at least 0, but weights\[1\]\[2\] is \[0.25 0.25 0.25 +{wrong}\]"):
            pointing(array(weights), array(np.zeros((2, 3)), "int64"))
        with pytest.raises(ValueError, match=rf"but weights is \[0.25 0.25 0.25 +{wrong}\]"):
            pointing(array(weights[1, 2]), array(3, "int64"))
    with pytest.raises(ValueError, match=r"but weights\[1\] is \[-1. -2.\]"):
        pointing(array([[0.0, 0.0], [-1.0, -2.0]]), array([0, 0], "int64"))
    # Rounding may leave a weight a little below 0, and deletions have signs: the largest is what points.
    assert pointing(array([[-0.5, 1.0], [1.0, -1e-17]]), array([1, 0], "int64")) == 1


# ------------------------------------------------------------------------------------------------------------- BASELINE


def test_baselines_row_by_row(array):
    """Rows of unequal lengths, one of them without any key."""
    lengths = [6, 3, 1, 5, 0, 2]
    weights, mask = padded(lengths)
    found = baselines(array(weights), array(mask, "bool"))
    assert list(found) == ["uniform", "shuffled", "by position"]
    found = {name: np.asarray(of_kind) for name, of_kind in found.items()}
    for i, length in enumerate(lengths):
        check(found["uniform"][i], np.where(mask[i], 1 / max(length, 1), 0), atol=1e-15)
        np.testing.assert_array_equal(found["shuffled"][i, length:], 0)
        np.testing.assert_array_equal(np.sort(found["shuffled"][i, :length]), np.sort(weights[i, :length]))
        others = np.mean([weights[j] for j in range(len(lengths)) if j != i], axis=0)
        expected = np.where(mask[i], others, 0)
        check(found["by position"][i], expected / (expected.sum() or 1), atol=1e-14)
    check(array(weights), padded(lengths)[0], atol=0)


def test_shuffled_rows_differ_and_follow_the_seed(array):
    """Each of the 24 orders of four keys occurs, as often as the others; the fifth key is forbidden."""
    weights = array(np.tile([0.4, 0.3, 0.2, 0.1, 0.0], (1200, 1)))
    mask = array([True, True, True, True, False], "bool")
    first, again, other = (np.asarray(baselines(weights, mask, seed)["shuffled"]) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any(axis=-1).mean() > 0.9
    orders, counts = np.unique(first, axis=0, return_counts=True)
    assert len(orders) == 24 and counts.min() > 20 and counts.max() < 85
    assert (first[:, 4] == 0).all()


def test_by_position_is_the_same_row_of_the_other_examples(array):
    """Examples × queries × keys: a query is compared with its own place elsewhere, not with its neighbours."""
    weights = rows(4, 3, N)
    found = np.asarray(baselines(array(weights))["by position"])
    for i in range(4):
        check(found[i], np.mean([weights[j] for j in range(4) if j != i], axis=0), atol=1e-14)


def test_a_row_tells_nothing_about_itself(array):
    """Only this row uses its last two keys, so that nothing but chance is left for them."""
    weights, mask = array([[1, 0, 0, 0], [0, 0, 0.9, 0.1]]), array([[1, 0, 0, 0], [0, 0, 1, 1]], "bool")
    check(baselines(weights, mask)["by position"], [[1, 0, 0, 0], [0, 0, 0.5, 0.5]], atol=0)
    check(baselines(array([[0.9, 0.1]]))["by position"], [[0.5, 0.5]], atol=0)
    check(baselines(array([0.9, 0.1]))["by position"], [0.5, 0.5], atol=0)


def test_masks_broadcast_and_dtypes_stay(array):
    weights = np.stack([np.tril(rows(4, 4, seed=i)) for i in range(3)]).astype("float32")
    weights /= weights.sum(axis=-1, keepdims=True)
    weights = array(weights, "float32")
    found = baselines(weights, masks.causal(4, like=weights))
    for of_kind in found.values():
        assert dtype_name(of_kind) == "float32"
        assert (np.triu(np.asarray(of_kind), 1) == 0).all()
        check(np.asarray(of_kind).sum(axis=-1), np.ones((3, 4)), atol=1e-6)
    check(found["uniform"][0, 2], [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-7)
    # Without a mask all keys are allowed, but a row of zeros stays one.
    for of_kind in baselines(array([[0.0, 0.0], [1.0, 0.0]])).values():
        check(of_kind[0], [0, 0], atol=0)


def test_baselines_refuse(array):
    weights, mask = padded([3, 2])
    with pytest.raises(ValueError, match="Is the mask inverted"):
        baselines(array(weights), array(~mask, "bool"))
    with pytest.raises(ValueError, match=r"mask has shape \(3, 6\) and weights has shape \(2, 6\)"):
        baselines(array(weights), array(np.ones((3, 6)), "bool"))
    with pytest.raises(ValueError, match=r"mask has shape \(4, 2, 6\)"):
        baselines(array(weights), array(np.ones((4, 2, 6)), "bool"))
    with pytest.raises(TypeError, match="mask must be bool"):
        baselines(array(weights), array(mask))
    with pytest.raises(ValueError, match="non-negative and sum to 1"):
        baselines(array(3 * weights))
    for empty in (1.0, [], np.ones((3, 0))):
        with pytest.raises(ValueError, match=r"shape \(\.\.\., n\) with n at least 1, but have \("):
            baselines(array(empty))
    with pytest.raises(TypeError, match="mixed"):
        baselines(weights, torch.as_tensor(mask))


# ----------------------------------------------------------------------------------------------------------------- TASK


def test_a_task_that_needs_its_weights(array):
    """Each row looks at one key, and its answer is the sign of this key's value: chance for weights that are blind."""
    rng = np.random.default_rng(0)
    values, at = rng.normal(size=(400, N)), rng.integers(N, size=400)
    weights, answers = np.eye(N)[at], values[np.arange(400), at] > 0
    asked = []

    def decide(rows):
        asked.append(np.asarray(rows))
        return (rows * array(values)).sum(axis=-1) > 0

    found = task_check(decide, array(weights), array(answers, "bool"))
    assert list(found) == ["own", "uniform", "shuffled", "by position"]
    assert found["own"] == 1
    # By independent sums: the mean of all values, a random value, the mean weighted by how often others look there.
    assert found["uniform"] == pytest.approx(np.mean((values.mean(axis=-1) > 0) == answers))
    counts = np.bincount(at, minlength=N)
    others = (counts - weights) * values
    assert found["by position"] == pytest.approx(np.mean((others.sum(axis=-1) > 0) == answers))
    assert 0.5 < found["shuffled"] < 0.66  # 1 / 6 look at the right key by chance, half of the others agree: .583
    np.testing.assert_array_equal(asked[0], weights)


def test_a_task_that_does_not(array):
    """Equal values under any weights; only the mask must be kept, since padding has another value."""
    weights, mask = padded([6, 4, 2, 5, 3])
    values = np.where(mask, 1.0, -100.0)

    def decide(rows):
        return ["good" if total > 0 else "bad" for total in np.asarray((rows * array(values)).sum(axis=-1))]

    assert task_check(decide, array(weights), ["good"] * 5, array(mask, "bool")) == {
        "own": 1,
        "uniform": 1,
        "shuffled": 1,
        "by position": 1,
    }
    assert task_check(decide, array(weights), ["good"] * 5)["uniform"] == 0.2


def test_task_check_of_a_readers_model():
    """Torch's layer: with its own weights it repeats its own decisions, with others it does not."""
    own = OwnLayer()
    texts = torch.as_tensor(np.random.default_rng(0).normal(size=(50, N, 8)))
    out, weights = own.layer(texts, texts, texts)
    logits = out[:, 0] @ own.readout
    answers = logits > logits.median()
    W_v, b_v = own.layer.in_proj_weight[-8:], own.layer.in_proj_bias[-8:]

    def decide(rows):
        mixed = (rows[:, None] @ (texts @ W_v.T + b_v))[:, 0]  # (B, d)
        return own.layer.out_proj(mixed) @ own.readout > logits.median()

    found = task_check(decide, weights[:, 0], answers)
    assert found["own"] == 1
    assert all(0.5 <= found[name] < 0.95 for name in ("uniform", "shuffled", "by position"))


def test_labels_that_are_floats(array):
    """As `attnlab.models` keeps them: decisions are compared with them; logits and probabilities are refused."""
    values, labels = array([3.0, -1.0, -3.0]), array([1.0, 0.0, 1.0])
    weights = array([[0.9, 0.1, 0.0], [0.1, 0.4, 0.5], [0.2, 0.8, 0.0]])  # logits 2.6, −1.6, −.2; uniform −⅓
    of_bool = task_check(lambda w: w @ values > 0, weights, labels)
    assert of_bool["own"] == pytest.approx(2 / 3) and of_bool["uniform"] == pytest.approx(1 / 3)
    assert task_check(lambda w: array(np.asarray(w @ values > 0), "float32"), weights, labels) == of_bool
    assert task_check(lambda w: [2.0, 2.0, 2.0], weights, labels)["own"] == 0  # a class that is never right
    assert task_check(lambda w: [0.5, 0.5, 1.5], weights, [0.5, 1.5, 1.5])["own"] == pytest.approx(2 / 3)
    for scores in (lambda w: w @ values, lambda w: 1 / (1 + 2.718 ** -(w @ values)), lambda w: w[:, 0] * math.nan):
        with pytest.raises(TypeError, match=r"answers such as 1\.0, not scores, but it returned float64, such as"):
            task_check(scores, weights, labels)


def test_answers_of_all_kinds(array):
    """Lists of tensors that carry a gradient, and dtypes that NumPy does not know, are read."""
    weights = torch.as_tensor(rows(2, 3))
    whole = torch.tensor([1.0, 0.0], requires_grad=True)
    for answers in (whole, list(whole), whole.bfloat16(), [1, 0]):
        assert task_check(lambda w, answers=answers: answers, weights, whole)["own"] == 1


def test_task_check_refuses(array):
    weights, answers = array(rows(3, 4)), array([0, 1, 1], "int64")
    with pytest.raises(TypeError, match="must return answers such as 0, not scores, but it returned float64, such as"):
        task_check(lambda w: w[:, 0], weights, answers)
    for words, numbers in ((["good"] * 3, answers), ([1, 0, 1], ["good", "bad", "good"])):
        with pytest.raises(TypeError, match="must return answers such as"):
            task_check(lambda w, words=words: words, weights, numbers)
    with pytest.raises(ValueError, match="answers must not be NaN: leave examples without an answer out"):
        task_check(lambda w: w[:, 0] > 0.5, weights, array([0.0, math.nan, 1.0]))
    with pytest.raises(ValueError, match=r"one answer a row, shape \(3,\), but it returned shape \(3, 4\)"):
        task_check(lambda w: w > 0.5, weights, answers)
    with pytest.raises(ValueError, match=r"answers has shape \(2,\) and weights has shape \(3, 4\)"):
        task_check(lambda w: w[:, 0] > 0.5, weights, answers[:2])
    with pytest.raises(ValueError, match=r"one row an example, but they have shape \(4,\)"):
        task_check(lambda w: w > 0.5, weights[0], answers)
    with pytest.raises(ValueError, match="at least one row"):
        task_check(lambda w: w[:, 0] > 0.5, weights[:0], answers[:0])
    with pytest.raises(TypeError, match="weights is of type list"):
        task_check(lambda w: w, [[1.0]], [1])
