"""Patching: what hooks see and change, on torch's own modules, against computations without a hook."""

import numpy as np
import pytest
import torch
from both_libraries import check
from test_evidence_ranking import OwnLayer
from torch import nn

from attnlab.evidence import captured, edited, restored
from attnlab.heads import MultiHeadAttention


class Network(nn.Module):
    """Two layers, of which the first is called twice."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.relu, self.last = nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.relu(self.first(self.first(x))))


def hooks(model):
    return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()]


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def x():
    return torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])


def no_grad(module, x):
    with torch.no_grad():
        return module(x)


# -------------------------------------------------------------------------------------------------------------- reading


def test_captured_call_by_call(network, x):
    with captured(network.first) as seen:
        output = network(x)
    once = no_grad(network.first, x)
    assert len(seen.inputs) == len(seen.outputs) == 2
    check(seen.inputs[0], x, atol=0)
    check(seen.inputs[1], once, atol=0)
    check(seen.outputs[0], once, atol=0)
    # A ReLU in place comes after; what was seen is what the layer said.
    twice = no_grad(network.first, once)
    assert (twice < 0).any()
    check(seen.outputs[1], twice, atol=0)
    check(output, no_grad(network, x), atol=0)
    assert not any(tensor.requires_grad for tensor in (*seen.inputs, *seen.outputs))
    network(x)
    assert len(seen.outputs) == 2 and set(hooks(network)) == {0}


def test_captured_inputs_are_copies(network, x):
    """A module that changes its own input in place: the input is kept as it came."""
    with captured(network.relu) as seen:
        network.relu(x)
    check(seen.inputs[0], [[1, -2, 0.5], [0, 3, 1]], atol=0)
    check(seen.outputs[0], [[1, 0, 0.5], [0, 3, 1]], atol=0)


def test_tuples_and_named_arguments():
    """Torch's attention, a recurrent layer and this course's own return tuples; some callers name the arguments."""
    own = OwnLayer()
    expected, weights = own.layer(own.x, own.x, own.x)
    with captured(own.layer) as seen:
        own.layer(query=own.x, key=own.x * 2, value=own.x * 3)
        own.layer(own.x, own.x, own.x)
    check(seen.inputs[0], own.x, atol=0)
    check(seen.outputs[1], expected, atol=0)

    with edited(own.layer, lambda out: out + 1):
        output, same = own.layer(own.x, own.x, own.x)
    check(output, expected + 1, atol=0)
    check(same, weights, atol=0)
    with edited(own.layer, lambda query: query * 2, where="input"):
        output, other = own.layer(query=own.x, key=own.x, value=own.x)
    twice = own.layer(own.x * 2, own.x, own.x)
    check(output, twice[0], atol=0)
    check(other, twice[1], atol=0)

    masked = {"key_padding_mask": torch.arange(6)[None] == 3}
    with edited(own.layer, lambda query: query * 2, where="input"):
        output, _ = own.layer(own.x, own.x, own.x, **masked)
    check(output, own.layer(own.x * 2, own.x, own.x, **masked)[0], atol=0)

    ours = MultiHeadAttention(8, 2).double().requires_grad_(False)
    with edited(ours, torch.zeros_like):
        attended = ours(own.x)
    check(attended.output, torch.zeros(1, 6, 8), atol=0)
    check(attended.weights, ours(own.x).weights, atol=0)

    recurrent = nn.LSTM(8, 4, batch_first=True).double().requires_grad_(False)
    with edited(recurrent, lambda states: -states):
        states, (last, _) = recurrent(own.x)
    check(states, -recurrent(own.x)[0], atol=0)
    check(last[0], recurrent(own.x)[0][:, -1], atol=0)


class Layer(nn.Module):
    """As layers of language models are called: with names, in an order of the caller's own."""

    def forward(self, hidden_states, mask=None, *, bias=None, **kwargs):
        out = hidden_states * 2 if mask is None else hidden_states * 2 * mask
        return (out if bias is None else out + bias,)


class Embeds(nn.Module):
    """Ids, or the embeddings themselves: what is not given is None, or not there."""

    def forward(self, input_ids=None, past=None, use_cache=False, mask=None, inputs_embeds=None, **kwargs):
        return inputs_embeds if input_ids is None else input_ids


class Wrapper(nn.Module):
    """As around a compiled or distributed module: forward has no names of its own."""

    def forward(self, *inputs, **kwargs):
        return Layer()(*inputs, **kwargs)[0]


class NoSignature(nn.Module):
    """As a traced module: Python cannot tell the parameters of what it calls."""

    forward = staticmethod(torch.clamp)


def first_of(module, *args, **kwargs):
    """What `captured` keeps; `edited` must have edited the same, and nothing else."""
    with captured(module) as seen:
        module(*args, **kwargs)
    got = []
    with edited(module, lambda first: got.append(first) or first, where="input"):
        module(*args, **kwargs)
    check(got[0], seen.inputs[0], atol=0)
    return seen.inputs[0]


def test_the_first_input_is_that_of_forward_not_of_the_caller(x):
    mask, bias = torch.zeros(2, 1), torch.full((2, 3), 7.0)
    layer, embeds = Layer(), Embeds()
    check(first_of(layer, mask=mask, hidden_states=x), x, atol=0)
    check(first_of(layer, bias=bias, extra=bias, mask=mask, hidden_states=x), x, atol=0)
    check(first_of(layer, x, extra=mask, mask=mask), x, atol=0)
    with edited(layer, lambda first: first + 1, where="input"):
        check(layer(bias=bias, mask=mask + 1, hidden_states=x)[0], (x + 1) * 2 + 7, atol=0)

    check(first_of(embeds, inputs_embeds=x, past=None, use_cache=True), x, atol=0)
    check(first_of(embeds, inputs_embeds=x, past=object()), x, atol=0)
    check(first_of(embeds, None, None, False, None, x), x, atol=0)
    with edited(embeds, lambda first: first + 1, where="input"):
        check(embeds(None, None, True, None, x), x + 1, atol=0)
    # Torch's own: the query, whatever comes first in the call.
    own = OwnLayer()
    with captured(own.layer) as seen:
        own.layer(attn_mask=torch.zeros(6, 6).double(), value=own.x * 3, key=own.x * 2, query=own.x)
    check(seen.inputs[0], own.x, atol=0)


def test_a_first_input_that_cannot_be_known_is_refused(x):
    for module, args, kwargs in [
        (Layer(), ([x],), {"mask": x}),  # a list may hold the input: the mask is not the first one
        (Embeds(), (), {"past": (x,), "inputs_embeds": x}),
        (Embeds(), (), {}),
    ]:
        with pytest.raises(TypeError, match=f"The first input of {type(module).__name__} is not a torch tensor"):
            first_of(module, *args, **kwargs)
    wrapper = Wrapper()
    with pytest.raises(TypeError, match=r"Wrapper is the first cannot be known: forward takes mask, hidden_states as"):
        first_of(wrapper, mask=x, hidden_states=x)
    with pytest.raises(TypeError, match="cannot be known"):
        first_of(wrapper, inputs=x, hidden_states=x)  # the name of *inputs is no name of an input
    check(first_of(wrapper, x, mask=x * 0), x, atol=0)
    check(first_of(wrapper, hidden_states=x, mask=None), x, atol=0)  # only one tensor: there is no doubt
    check(first_of(NoSignature(), x, min=torch.zeros(3)), x, atol=0)
    with pytest.raises(TypeError, match="NoSignature is the first cannot be known"):
        first_of(NoSignature(), min=torch.zeros(3), input=x)


# -------------------------------------------------------------------------------------------------------------- editing


def test_edited_output_and_input(network, x):
    """Against the same computation written out."""
    first, last = network.first, network.last
    with edited(network.relu, lambda hidden: hidden * 0 + 1):
        output = no_grad(network, x)
    check(output, no_grad(last, torch.ones(2, 3)), atol=0)
    with edited(last, lambda hidden: hidden * torch.tensor([1.0, 0.0, 2.0]), where="input"):
        output = no_grad(network, x)
    hidden = no_grad(first, no_grad(first, x)).relu() * torch.tensor([1.0, 0.0, 2.0])
    check(output, no_grad(last, hidden), atol=0)
    with edited(first, lambda out: out + 1):  # each call
        output = no_grad(network, x)
    check(output, no_grad(last, (no_grad(first, no_grad(first, x) + 1) + 1).relu()), atol=0)
    assert set(hooks(network)) == {0}


def test_the_model_is_itself_again_after_an_exception(network, x):
    before = no_grad(network, x)
    with pytest.raises(KeyError, match="mine"), edited(network.first, torch.zeros_like):
        raise KeyError("mine")
    with pytest.raises(ZeroDivisionError), edited(network.first, lambda out: 1 / 0, where="input"):
        network(x)
    with pytest.raises(KeyError, match="mine"), captured(network.first):
        raise KeyError("mine")
    assert set(hooks(network)) == {0}
    check(no_grad(network, x), before, atol=0)


def test_a_function_may_work_in_place(network, x):
    def mute(tensor):
        tensor[:, 0] = 0
        return tensor

    with edited(network.first, mute, where="input"):
        network(x)
    check(x, [[1, -2, 0.5], [0, 3, 1]], atol=0)
    with captured(network.first) as seen, edited(network.first, mute):
        once = no_grad(network.first, x)
    assert (once[:, 0] == 0).all() and (seen.outputs[0][:, 0] != 0).all()


def test_blocks_nest(network, x):
    plain = no_grad(network.first, x)
    with (
        edited(network.first, lambda out: out + 1),
        edited(network.first, lambda out: out * 10),
        captured(network.first) as seen,
    ):
        check(no_grad(network.first, x), (plain + 1) * 10, atol=1e-5)
    check(seen.outputs[0], (plain + 1) * 10, atol=1e-5)
    with edited(network.first, lambda given: given + 1, where="input"), captured(network.first) as seen:
        network.first(x)
    check(seen.inputs[0], x + 1, atol=0)


def test_gradients_flow_through_an_edit(network, x):
    scale = torch.tensor(2.0, requires_grad=True)
    with edited(network.last, lambda out: out * scale):
        network(x).sum().backward()
    assert float(scale.grad) == pytest.approx(float(no_grad(network, x).sum()), abs=1e-6)
    assert network.first.weight.grad.abs().sum() > 0


def test_what_was_not_called_was_not_edited(network, x):
    """Torch's attention reads the weights of its out_proj and never calls it: no effect would be a false result."""
    own = OwnLayer()
    with pytest.raises(RuntimeError, match="NonDynamicallyQuantizableLinear was not called inside of the block"):  # noqa: SIM117
        with edited(own.layer.out_proj, torch.zeros_like):
            own.output()
    with pytest.raises(RuntimeError, match="nothing was edited"), edited(network.last, torch.zeros_like):
        network.first(x)
    assert set(hooks(own.layer)) == set(hooks(network)) == {0}


def test_edited_refuses(network, x):
    for where, shape in (("output", r"\(2, 3\)"), ("input", r"\(2, 3\)")):
        words = f"the {where}'s shape, {shape}, but it returned shape \\(2, 2\\)"
        with pytest.raises(ValueError, match=words), edited(network.first, lambda out: out[:, :2], where=where):
            network(x)
    with pytest.raises(TypeError, match="returned NoneType"), edited(network.first, lambda out: None):
        network(x)
    with pytest.raises(TypeError, match="returned ndarray"), edited(network.first, lambda out: np.ones((2, 3))):
        network(x)
    with (
        pytest.raises(ValueError, match="'output' or 'input', but it is 'weights'"),
        edited(network, abs, where="weights"),
    ):
        pass
    for function in (captured, lambda module: edited(module, abs)):
        with (
            pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, but it is of type function"),
            function(no_grad),
        ):
            pass


def test_modules_without_tensors_are_refused():
    identity = nn.Identity()
    for block in (lambda: captured(identity), lambda: edited(identity, abs, where="input")):
        with pytest.raises(TypeError, match="The first input of Identity is not a torch tensor"), block():
            identity([torch.ones(2)])
    for result in ({"states": 1}, (), (None, torch.ones(2))):

        class Returns(nn.Module):
            def forward(self, x, result=result):
                return result

        module = Returns()
        for block in (captured(module), edited(module, abs)):
            with pytest.raises(TypeError, match="Returns returns no torch tensor and no tuple that begins"), block:
                module(torch.ones(2))


# ------------------------------------------------------------------------------------------------------ what comes back


def test_restored(array):
    assert restored(3.0, 1.0, 2.0) == 0.5
    assert restored(3, 1, 1) == 0 and restored(3, 1, 3) == 1 and restored(1, 3, 4) == -0.5
    check(restored(array([3.0, 0.0]), array([1.0, 4.0]), array([5.0, 3.0])), [2, 0.25], atol=0)
    check(restored(array(3.0), array(1.0), array([1.0, 2.5])), [0, 0.75], atol=0)
    for clean, corrupted in [(2.0, 2.0), (2, 2), (array(2.0), array(2.0)), (array([1.0, 2.0]), array([0.0, 2.0]))]:
        with pytest.raises(ValueError, match="clean and corrupted must differ"):
            restored(clean, corrupted, corrupted)
    with pytest.raises(ValueError, match=r"must broadcast, but clean has shape \(2,\) and patched has shape \(3,\)"):
        restored(array([1.0, 2.0]), 0.0, array([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="corrupted is of type list"):
        restored(array([1.0, 2.0]), [0.0, 1.0], 2.0)
    with pytest.raises(TypeError, match="mixed: clean from torch, patched from numpy"):
        restored(torch.ones(2), 0.0, np.ones(2))


def test_activation_patching(x):
    """A patch of everything restores everything, of nothing nothing; single units add up where all after is linear."""
    network = nn.Sequential(Network().first, nn.Tanh(), Network().last).requires_grad_(False)
    clean, corrupted = x[:1], x[1:]
    with captured(network[1]) as seen:
        network(clean)

    def share(units):
        def patch(hidden):
            hidden[:, units] = seen.outputs[0][:, units]
            return hidden

        with edited(network[1], patch):
            return float(restored(network_clean, network_corrupted, network(corrupted)))

    network_clean, network_corrupted = network(clean), network(corrupted)
    assert share([0, 1, 2]) == pytest.approx(1, abs=1e-6) and share([]) == 0
    single = [share([unit]) for unit in range(3)]
    assert sum(single) == pytest.approx(1, abs=1e-5)
    w = network[2].weight[0]
    hidden = torch.tanh(network[0](clean)) - torch.tanh(network[0](corrupted))
    check(single, (w * hidden / (network_clean - network_corrupted))[0], atol=1e-6)
