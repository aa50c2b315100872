"""Answers written in torch, where arrays are given: they are judged as their NumPy counterparts are."""

import numpy as np
import pytest
import torch

from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch2_scoring as ch2
from attnlab.exercises import ch3_matrix_and_masks as ch3
from attnlab.exercises import ch6_interpretability as ch6
from attnlab.exercises.engine import Probe, exercise
from attnlab.exercises.engine.comparing import agree
from attnlab.exercises.engine.running import Failure, Observation, observe
from attnlab.exercises.engine.tensors import tensor_makers

# ---- shapes that do not fit ----------------------------------------------------------------------------------------


def raising(kind):
    return Observation(failure=Failure(kind, ""))


def test_all_ways_to_say_that_shapes_do_not_fit_are_one():
    kinds = ["ValueError", "RuntimeError", "IndexError", "AxisError"]
    assert all(agree(raising(a), raising(b), 0) for a in kinds for b in kinds)
    for other in ("TypeError", "AttributeError", "KeyError", "RecursionError", "ZeroDivisionError"):
        assert not agree(raising("ValueError"), raising(other), 0) and not agree(raising(other), raising(kinds[1]), 0)
        assert agree(raising(other), raising(other), 0)
    result = Observation(array=np.ones(2))
    assert not agree(result, raising("ValueError"), 1) and not agree(raising("RuntimeError"), result, 1)


@pytest.mark.parametrize(
    ("in_numpy", "in_torch"),
    [
        (lambda a, b: a @ b, lambda a, b: torch.tensor(a) @ torch.tensor(b)),
        (lambda a, b: a + b, lambda a, b: torch.tensor(a) + torch.tensor(b)),
        (lambda a, b: a.reshape(5, 5), lambda a, b: torch.tensor(a).reshape(5, 5)),
        (lambda a, b: a.sum(2), lambda a, b: torch.tensor(a).sum(2)),
        (lambda a, b: a[np.ones(4, bool)], lambda a, b: torch.tensor(a)[torch.ones(4, dtype=bool)]),
        (lambda a, b: a[3], lambda a, b: torch.tensor(a)[3]),
        (lambda a, b: np.einsum("ij,jk", a, b), lambda a, b: torch.einsum("ij,jk", torch.tensor(a), torch.tensor(b))),
    ],
)
def test_both_libraries_mean_the_same_by_it(in_numpy, in_torch):
    given = np.ones((2, 3)), np.ones((2, 4))
    one, other = observe(in_numpy, given), observe(in_torch, given)
    assert one.failure and other.failure and agree(one, other, 0)


def additive_without_grid(queries, keys, W_q, W_k, v):
    q, k, W_q, W_k, v = (torch.as_tensor(x, dtype=torch.float64) for x in (queries, keys, W_q, W_k, v))
    return torch.tanh(q @ W_q.T + k @ W_k.T) @ v


def additive_without_grid_of_tensors(queries, keys, W_q, W_k, v):
    return torch.nn.functional.linear(queries, W_q).add(torch.nn.functional.linear(keys, W_k)).tanh() @ v


@pytest.mark.parametrize(
    ("one", "answer", "turn"),
    [
        (ch2.additive_scores, additive_without_grid, "pairs: matching only"),
        (ch2.additive_scores, additive_without_grid_of_tensors, "pairs: matching only"),
        (ch2.general_scores, lambda q, k, W: torch.tensor(q) @ torch.tensor(W).T @ torch.tensor(k).T, "transposed"),
        (ch2.general_scores, lambda q, k, W: torch.matmul(q, W.mT) @ k.mT, "transposed"),
    ],
)
def test_a_mistake_that_raises_for_unequal_sizes_is_recognised_in_torch(one, answer, turn):
    ((name,),) = one.judge(answer).turns
    assert name.endswith(turn)


# ---- what becomes a tensor -----------------------------------------------------------------------------------------


def test_only_arrays_become_tensors_and_then_plain_numbers_too():
    from_array, from_number = tensor_makers()
    array, others = np.ones(2, np.float32), [5, 2.5, True, "mha", None, np.bool_(True)]
    for convert in (from_array, from_number):
        assert convert(array).dtype == torch.float32
        assert all(convert(other) is other for other in others[2:])
    assert all(from_array(other) is other for other in others)
    made = [from_number(number) for number in (5, 2.5, np.float32(2.5))]
    assert [(float(t), t.dtype) for t in made[:2]] == [(5.0, torch.int64), (2.5, torch.float64)]
    assert isinstance(made[2], torch.Tensor)


def padding(lengths, n):
    real = torch.arange(n) < lengths.unsqueeze(1)
    return torch.ones(n, n, dtype=torch.bool).tril() & real[:, None]


def converted(allowed, convention):
    if convention == "additive":
        return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)
    return {"sdpa": lambda: allowed, "mha": lambda: ~allowed, "keep": lambda: allowed.long()}[convention]()


def repeated_rows(weights, values, readout):
    n = len(weights)
    rows = weights.repeat(n, 1) * (1 - torch.eye(n, dtype=weights.dtype))  # an array would take 1 for an axis
    rows = rows / rows.sum(-1, keepdim=True).clamp_min(1e-300)
    effect = values @ readout
    return weights @ effect - rows @ effect


def converted_wrongly(allowed, convention):
    return converted(allowed, {"sdpa": "mha", "mha": "sdpa"}.get(convention, convention))


@pytest.mark.parametrize(
    ("one", "answer", "turns"),
    [
        (ch3.causal_and_padding, padding, ()),
        (ch3.causal_and_padding, lambda lengths, n: ~padding(lengths, n), (("polarity: turned",),)),
        (ch3.convert_mask, converted, ()),
        (ch3.convert_mask, converted_wrongly, (("torch's two exchanged",),)),
        (ch1.weights_at_temperature, lambda s, T: torch.softmax(s / T, -1), ()),
        (ch6.leave_one_out, repeated_rows, ()),
        (ch1.weights_at_temperature, lambda s, T: torch.softmax(s / torch.sqrt(T), -1), (("use: root",),)),
        (ch1.weight_of_copies, lambda d, n: torch.sigmoid(d + torch.log(n)), ()),
        (ch1.weight_of_copies, lambda d, n: torch.sigmoid(d), (("bonus: none",),)),
    ],
)
def test_lengths_names_and_numbers_reach_torch_as_it_needs_them(one, answer, turns):
    verdict = one.judge(answer)
    assert verdict.turns == turns and verdict.correct == (not turns), str(verdict)


# ---- when tensors are tried ----------------------------------------------------------------------------------------


def toy():
    """Doubles what is not negative, and sums over an axis where there are two; made anew for each test."""

    @exercise("9.4", points=1, section="Toys", statement="", hints=["Twice."])
    def folded(x):
        """x (n,) or (m, n) → (n,)"""
        return np.maximum(2 * x, 0).sum(axis=0) if x.ndim == 2 else np.maximum(2 * x, 0)

    folded.probes(lambda rng: [(rng.normal(size=n) + 1,) for n in (3, 4, 5)])
    folded.hard_probes(
        lambda: {
            "table": Probe((np.ones((2, 3)),), "A table is summed."),
            "integers": Probe((np.array([1, 2]),), "Integers are numbers.", arrays_only=True),
        }
    )
    folded.mistake("once", "Not doubled.")(lambda x: folded.reference(x) / 2)
    return folded


def test_a_refusal_on_a_single_probe_is_enough():
    def on_the_longest(x):
        return (x * 2).clamp(min=0) if len(x) == 5 else np.maximum(x * 2, 0) if x.ndim == 1 else x.sum(0) * 2

    def on_a_table(x):
        return x.sum(dim=0) * 2 if x.ndim == 2 else (x * 2) * (x > 0)

    assert toy().judge(on_the_longest).correct and toy().judge(on_a_table).correct
    assert toy().judge(lambda x: on_a_table(x) / 2).turns == (("once",),)


def test_two_axes_exchanged_as_tensors_do_are_a_refusal():
    """`x.transpose(1, 2)` swaps two axes of a tensor; to an array of three it is a wrong order of all axes."""

    @exercise("9.5", points=1, section="Toys", statement="", hints=["Swap."])
    def swapped(x):
        """x (a, b, c) → (a, c, b)"""
        return x.swapaxes(1, 2)

    swapped.probes(lambda rng: [(rng.normal(size=(2, n, 3)),) for n in (3, 4, 5)])
    swapped.mistake("as it came", "Not swapped.")(lambda x: x)
    assert swapped.judge(lambda x: x.transpose(1, 2)).correct
    assert not swapped.judge(lambda x: x.transpose(0, 1)).correct
    # Another ValueError is the learner's own, and stands in the card.
    verdict = swapped.judge(lambda x: x.reshape(2, 7))
    assert "cannot reshape array" in verdict.comparison.received


def test_arrays_are_kept_where_tensors_give_no_more():
    """An answer for arrays that fails on one of them is judged, and quoted, as what it is."""

    def for_arrays(x):
        return (x * 2).clip(0) if x.ndim == 1 else x.missing

    verdict = toy().judge(for_arrays)
    assert verdict.remarks == ("table",) and verdict.turns == ()
    assert "'numpy.ndarray' object has no attribute 'missing'" in verdict.comparison.received


def test_an_answer_that_takes_every_array_never_meets_a_tensor():
    met = []

    def answer(x):
        met.append(type(x).__name__)
        return np.maximum(2 * x, 0)

    assert toy().judge(answer).remarks == ("table",)
    assert met == ["ndarray"] * 5
