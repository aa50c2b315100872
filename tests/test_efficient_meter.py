"""Bytes by counting: the naive softmax to the byte, views, what is freed, and what the backward pass keeps."""

import gc
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

from attnlab import attention
from attnlab.efficient import tiled_attention
from attnlab.efficient.meter import Memory, memory

H, N, D = 8, 1024, 64
SCORES, OUTPUT = 4 * H * N * N, 4 * H * N * D  # 33,554,432 and 2,097,152 bytes


def naive(query, key, value):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ value


def naive_in_one_line(query, key, value):
    return torch.softmax(query @ key.mT * query.shape[-1] ** -0.5, dim=-1) @ value


def inputs(n=N, h=H, requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(h, n, D, generator=generator).requires_grad_(requires_grad) for _ in range(3)]


def bytes_of(function, *args, **kwargs):
    return memory(function, *args, **kwargs)[:3]


# ----------------------------------------------------------------------------------------------------------- attention


def test_naive_attention():
    """S30: scores and weights are alive while the output is made.  Without a name, the scores are gone by then."""
    assert bytes_of(naive, *inputs()) == (69_206_016, 0, 0) == (2 * SCORES + OUTPUT, 0, 0)
    assert bytes_of(naive_in_one_line, *inputs()) == (2 * SCORES, 0, 0)


def test_saved_by_naive_attention():
    """The weights are kept, and the three inputs; neither softmax nor the product needs the scores again."""
    for function in (naive, naive_in_one_line):
        assert bytes_of(function, *inputs(requires_grad=True))[1:] == (SCORES, 3 * OUTPUT)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_tiled_attention_grows_with_n_only(requires_grad):
    """S31: twice the keys and queries add one output and one logsumexp of that length to the peak, not a score more."""
    one, two = (memory(tiled_attention, *inputs(n, requires_grad=requires_grad)) for n in (N // 2, N))
    per_query = 4 * H * (D + 1)
    assert two.peak - one.peak == per_query * N // 2
    assert two.peak < (2 * SCORES + OUTPUT) / 7
    saved = per_query if requires_grad else 0
    assert (one.saved, two.saved) == (saved * N // 2, saved * N)
    assert two.kept == (3 * OUTPUT if requires_grad else 0)


def test_tiles_set_the_rest():
    """Beside output and logsumexp, three tiles at once: scores, scores minus m, their exponentials; and small ones."""
    for block in (64, 128):
        peak = memory(tiled_attention, *inputs(), block_q=block, block_k=block).peak
        rest = peak - 4 * H * N * (D + 1)
        tile = 4 * H * block * block
        assert 3 * tile <= rest <= 3 * tile + 4 * 4 * H * block * D


def test_forward_and_backward():
    """Both passes of tiled attention together need no matrix of scores; after them, nothing is saved."""

    def step(function, query, key, value):
        function(query, key, value).sum().backward()

    naive_step, tiled_step = (memory(step, f, *inputs(requires_grad=True)) for f in (naive, tiled_attention))
    assert naive_step.peak >= 3 * SCORES
    assert tiled_step.peak < SCORES / 2 + 5 * OUTPUT
    assert (naive_step.saved, naive_step.kept) == (tiled_step.saved, tiled_step.kept) == (0, 0)


def test_a_mask_is_never_expanded():
    query, key, value = inputs(h=2)
    mask = torch.rand(N) < 0.5
    with_mask = memory(tiled_attention, query, key, value, mask=mask).peak
    assert with_mask - memory(tiled_attention, query, key, value).peak <= 2 * 4 * 2 * 256 * 256


# ------------------------------------------------------------------------------------------------ what counts, and when


def test_views_and_what_is_written_in_place_take_nothing():
    x = torch.zeros(10, 100)

    def function(x):
        parts = x.T[5:].reshape(-1, 5).split(10)
        x.add_(1).mul_(2)
        return [part.expand(3, *part.shape) for part in parts]

    # reshape of a transposed matrix copies: 95 · 10 numbers; everything else looks at them, or at x
    assert bytes_of(function, x) == (95 * 10 * 4, 0, 0)
    assert bytes_of(lambda x: x.view(-1)[3:].detach(), x) == (0, 0, 0)


def test_a_view_keeps_the_whole_alive():
    def function(x):
        part = (x + 1)[:1]
        return part, x * 2

    assert bytes_of(function, torch.zeros(100)).count(0) == 2
    assert memory(function, torch.zeros(100)).peak == 800


def test_what_is_freed_is_taken_off():
    def one_after_the_other(x):
        for _ in range(5):
            y = x + 1
            del y
        return x.sum()

    def all_at_once(x):
        return sum(y.sum() for y in [x + i for i in range(5)])

    x = torch.zeros(1000)
    assert bytes_of(one_after_the_other, x) == (4000, 0, 0)
    assert memory(all_at_once, x).peak == 5 * 4000 + 3 * 4  # the last sum: of the rest, of one, and both


def test_the_peak_is_not_the_end():
    result = memory(lambda x: (x.repeat(10) + 1).sum(), torch.zeros(100))
    assert result.peak == 2 * 4000  # the sum is made when one of the two is gone
    assert result.result == 1000
    assert isinstance(result, Memory)


def test_storages_that_grow():
    out = torch.empty(0)

    def function(x, out):
        torch.add(x, 1, out=out)
        inner = torch.empty(10)
        return torch.add(x, 1, out=inner.resize_(0))

    assert bytes_of(function, torch.zeros(100), out=out) == (800, 0, 0)
    assert bytes_of(lambda x, out: torch.add(x, 1, out=out), torch.zeros(100), out) == (0, 0, 0)


def test_new_tensors_count_and_dtypes_too():
    assert bytes_of(lambda x: (torch.tensor([1.0, 2, 3]), torch.ones(5), x.bool()), torch.zeros(7)) == (39, 0, 0)
    # what torch.tensor calls last; a second time it shows nothing new
    assert bytes_of(lambda x: torch.ops.aten.lift_fresh(torch.tensor([1.0, 2, 3])), torch.zeros(7)) == (12, 0, 0)


def test_inputs_may_be_nested_or_a_keyword():
    x = torch.zeros(100)
    assert bytes_of(lambda parts: torch.cat(parts["all"]), {"all": [x, x]}) == (800, 0, 0)
    assert bytes_of(lambda *, x: x + 1, x=x) == (400, 0, 0)


# ------------------------------------------------------------------------------------------ saved for the backward pass


def test_saved_apart_from_kept():
    x = torch.ones(100, requires_grad=True)
    assert bytes_of(lambda x: x + 1, x) == (400, 0, 0)
    assert bytes_of(lambda x: x * x, x) == (400, 0, 400)  # x once, though it is saved twice
    assert bytes_of(lambda x: x.exp(), x) == (400, 400, 0)  # its own result
    assert bytes_of(lambda x: x.exp().sin(), x) == (800, 400, 0)  # the result of exp, once for both
    assert bytes_of(lambda x: x.exp().sin(), x.detach()) == (800, 0, 0)


def test_parameters_of_a_module_are_kept_not_saved():
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
    result = memory(model, torch.ones(5, 10))
    assert result.saved == 5 * 20 * 4  # the result of tanh
    assert result.kept == (5 * 10 + 20) * 4  # the input, and the weights of the second layer


def test_a_graph_that_is_dropped_saves_nothing():
    x = torch.ones(100, requires_grad=True)
    assert bytes_of(lambda x: x.exp().sin().sum().item(), x) == (800 + 4, 0, 0)


def test_measuring_changes_neither_values_nor_gradients():
    measured, plain = inputs(64, 2, requires_grad=True), inputs(64, 2, requires_grad=True)
    result = memory(naive, *measured).result
    expected = naive(*plain)
    assert torch.equal(result, expected)
    result.square().sum().backward(), expected.square().sum().backward()
    assert all(torch.equal(x.grad, y.grad) for x, y in zip(measured, plain, strict=True))


def test_measuring_keeps_no_graph_alive():
    """A hook that returned the tensor itself would make a cycle with its own graph: memory would leak."""
    freed = []

    class Sign:
        def __del__(self):
            freed.append(True)

    def function(x):
        y = x.exp()
        y.grad_fn.metadata["sign"] = Sign()
        return y

    gc.disable()
    try:
        result = memory(function, torch.ones(3, requires_grad=True))
        assert not freed
        del result
        assert freed
    finally:
        gc.enable()


# --------------------------------------------------------------------------------------------------------------- NumPy


def test_numpy_is_steady_from_the_second_call_on():
    query, key, value = (np.random.default_rng(i).normal(size=(2, 256, 64)) for i in range(3))
    memory(attention, query, key, value)
    first, second = (memory(attention, query, key, value).peak for _ in range(2))
    assert abs(first - second) <= 1024
    scores = 2 * 256 * 256 * 8
    assert 3 * scores <= first < 4 * scores


def test_numpy_counts_arrays():
    def function(x):
        y = x * 2  # 80,000
        z = y[::2] + 1  # 40,000
        del y
        return z

    memory(function, np.zeros(10_000))
    peak, saved, kept, result = memory(function, np.zeros(10_000))
    assert 120_000 <= peak <= 120_000 + 1024
    assert (saved, kept) == (0, 0)
    np.testing.assert_array_equal(result, np.ones(5_000))


def test_tiled_attention_in_numpy_holds_no_matrix_of_scores():
    query, key, value = (np.random.default_rng(i).normal(size=(2048, 8)).astype("float32") for i in range(3))
    for _ in range(2):
        peak = memory(tiled_attention, query, key, value, block_q=64, block_k=64).peak
    assert peak < 4 * 2048 * 2048 / 80


def test_numpy_leaves_tracing_as_it_was():
    def fails(x):
        raise KeyError("a reason")

    x = np.zeros(3)
    with pytest.raises(KeyError, match="a reason"):
        memory(fails, x)
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        held = np.zeros(100_000)  # traced, and there before
        assert memory(np.copy, x).peak < 2048
        assert tracemalloc.is_tracing()
        assert held.nbytes <= tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_the_arguments_say_what_to_watch():
    with pytest.raises(TypeError, match="neither is among them"):
        memory(lambda: torch.zeros(3))
    with pytest.raises(TypeError, match="both are among them"):
        memory(lambda x, y: None, torch.zeros(3), [np.zeros(3)])
