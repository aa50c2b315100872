"""The layer against torch's nn.MultiheadAttention with the same weights, in each mode for which torch has other code.

Two samples, four heads (an even number: with an odd one, torch never takes its fast path), four queries, five keys.
"""

from itertools import product

import pytest
import torch
from test_heads import D_KEY, D_VALUE, N_K, N_Q, B, D, H, as_float, filled, inputs, random_mask
from torch import nn

from attnlab import Attended, masks
from attnlab.heads import MultiHeadAttention


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)


def parts_of(module):
    """Torch's packed parameters, under the names of ours: (name, torch's parameter, its rows)."""
    names = ["W_q", "W_k", "W_v"]
    rows = [slice(h * D, (h + 1) * D) for h in range(3)]
    if module.in_proj_weight is None:
        apart = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
        yield from ((f"{name}.weight", p, slice(None)) for name, p in zip(names, apart, strict=True))
    else:
        yield from ((f"{name}.weight", module.in_proj_weight, r) for name, r in zip(names, rows, strict=True))
    yield "W_o.weight", module.out_proj.weight, slice(None)
    if module.in_proj_bias is not None:
        yield from ((f"{name}.bias", module.in_proj_bias, r) for name, r in zip(names, rows, strict=True))
        yield "W_o.bias", module.out_proj.bias, slice(None)


def with_own_axes(mask):
    return mask.unsqueeze(1) if mask.ndim == 3 else mask


def both_floats(mask):
    """A float mask of any axes for ours, and (B · H, n_q, n_k) of it for torch's."""
    return mask, {"attn_mask": with_own_axes(mask).expand(B, H, *mask.shape[-2:]).reshape(B * H, *mask.shape[-2:])}


def both(mask, n_heads=None):
    return mask, {"attn_mask": masks.to_torch_mha(mask, n_heads)}


def both_paddings(n_q, n_k):
    mask = masks.padding(torch.tensor([n_k, 2]), n_k)  # (B, 1, n_k)
    return mask, {"key_padding_mask": masks.to_torch_mha(mask)[:, 0]}


MASKS = {  # for (n_q, n_k): the mask of ours, and the arguments of torch's
    "none": lambda *n: (None, {}),
    "shared": lambda *n: both(random_mask(*n)),
    "causal": lambda *n: both(masks.causal(*n, like=torch.empty(0))),
    "a sample": lambda *n: both(random_mask(B, *n), H),
    "a sample, one for all heads": lambda *n: both(random_mask(B, 1, *n), H),
    "a sample and head": lambda *n: both(random_mask(B, H, *n), H),
    "padding": both_paddings,
    "float, shared": lambda *n: (mask := as_float(random_mask(*n)), {"attn_mask": mask}),
    "float, a sample": lambda *n: both_floats(as_float(random_mask(B, *n))),
    "float, a head": lambda *n: both_floats(as_float(random_mask(1, H, *n))),
    "float, a sample and head": lambda *n: both_floats(as_float(random_mask(B, H, *n))),
}
FORMS = {
    "self": {},
    "self, no bias": {"bias": False},
    "cross": {},
    "cross, no bias": {"bias": False},
    "widths": {"kdim": D_KEY, "vdim": D_VALUE},
    "widths, no bias": {"kdim": D_KEY, "vdim": D_VALUE, "bias": False},
    "width of keys": {"kdim": D_KEY},
}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", MASKS)
def test_equals_torch(kind, form, batch_first):
    """Outputs, weights and all gradients, for a module in training or not, that returns weights or not."""
    for is_training, need_weights in product([True, False], repeat=2):
        module = filled(nn.MultiheadAttention(D, H, batch_first=batch_first, **FORMS[form])).train(is_training)
        layer = MultiHeadAttention.from_torch(module)
        assert layer.training == is_training
        query, key, value = inputs(d_key=module.kdim, d_value=module.vdim)
        given = [query] if form.startswith("self") else [query, key, value]
        mask, arguments = MASKS[kind](N_Q, N_Q if len(given) == 1 else N_K)
        ours = layer(*given, mask=mask)
        assert isinstance(ours, Attended)

        theirs = [x.detach().clone().requires_grad_() for x in given]
        sequences = [x if batch_first else x.transpose(0, 1) for x in theirs] * (3 if len(given) == 1 else 1)
        output, weights = module(*sequences, need_weights=need_weights, average_attn_weights=False, **arguments)
        output = output if batch_first else output.transpose(0, 1)
        torch.testing.assert_close(ours.output, output)
        loss, their_loss = (torch.linspace(-1, 1, D, dtype=torch.float64) * x for x in (ours.output, output))
        loss, their_loss = loss.sum(), their_loss.sum()
        if need_weights:
            torch.testing.assert_close(ours.weights, weights)
            factors = torch.randn_like(weights)
            loss, their_loss = loss + (ours.weights * factors).sum(), their_loss + (weights * factors).sum()

        loss.backward(), their_loss.backward()
        for x, y in zip(given, theirs, strict=True):
            torch.testing.assert_close(x.grad, y.grad)
        named = dict(layer.named_parameters())
        for name, parameter, rows in parts_of(module):
            torch.testing.assert_close(named.pop(name).grad, parameter.grad[rows], msg=lambda m, name=name: name + m)
        assert not named
        with torch.no_grad():  # with these and self-attention, torch takes its fast path
            fast = module(*sequences, need_weights=need_weights, **arguments)[0]
        torch.testing.assert_close(layer(*given, mask=mask).output, fast if batch_first else fast.transpose(0, 1))


@pytest.mark.parametrize("form", ["self", "self, no bias", "widths", "width of keys"])
def test_starts_with_the_weights_of_torch(form):
    options = FORMS[form]
    torch.manual_seed(7)
    module = nn.MultiheadAttention(D, H, **options)
    after = torch.rand(1)
    torch.manual_seed(7)
    names = {"kdim": "d_key", "vdim": "d_value", "bias": "bias"}
    layer = MultiHeadAttention(D, H, **{names[name]: option for name, option in options.items()})
    assert torch.equal(torch.rand(1), after)
    state = layer.state_dict()
    for name, parameter, rows in parts_of(module):
        assert torch.equal(state.pop(name), parameter[rows]), name
    assert not state


def test_from_torch_copies_and_draws_nothing():
    module = nn.MultiheadAttention(D, H, dtype=torch.bfloat16)
    before, state = {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
    layer = MultiHeadAttention.from_torch(module)
    assert torch.equal(torch.get_rng_state(), state)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.bfloat16}
    assert all(parameter.requires_grad for parameter in layer.parameters())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1)
    assert all(torch.equal(parameter, before[name]) for name, parameter in module.state_dict().items())


def test_from_torch_refuses_what_this_layer_does_not_have():
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}=True.*which this layer has not"):
            MultiHeadAttention.from_torch(nn.MultiheadAttention(D, H, **options))
    module = nn.MultiheadAttention(D, H, dropout=0.5, batch_first=True)
    with pytest.raises(ValueError, match=r"in training with dropout = 0\.5.*call module\.eval\(\)"):
        MultiHeadAttention.from_torch(module)
    x = torch.randn(B, N_Q, D)
    torch.testing.assert_close(MultiHeadAttention.from_torch(module.eval())(x).output, module(x, x, x)[0])

    class Doubled(nn.MultiheadAttention):
        def forward(self, *arguments):
            return super().forward(*arguments)[0] * 2

    for other, name in [(Doubled(D, H), "Doubled"), (nn.Linear(D, D), "Linear"), (None, "NoneType")]:
        with pytest.raises(TypeError, match=f"must be a torch nn.MultiheadAttention, but it is a {name}"):
            MultiHeadAttention.from_torch(other)


def test_beside_an_empty_row_torch_agrees_on_the_others():
    module = filled(nn.MultiheadAttention(D, H, batch_first=True))
    query, key, value = inputs()
    mask = random_mask(B, N_Q, N_K)
    mask[1, 2] = False
    theirs, weights = module(query, key, value, attn_mask=masks.to_torch_mha(mask, H), average_attn_weights=False)
    ours = MultiHeadAttention.from_torch(module)(query, key, value, mask)
    assert theirs[1, 2].isnan().all()
    rows = mask.any(-1)  # (B, n_q)
    torch.testing.assert_close(ours.output[rows], theirs[rows])
    torch.testing.assert_close(ours.weights.transpose(1, 2)[rows], weights.transpose(1, 2)[rows])
