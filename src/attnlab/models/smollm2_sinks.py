"""The first token of a text, as the heads of SmolLM2 use it: its weight, its value, and what its absence costs.

Many heads give most of their weight to the first token, whatever it is: an attention sink (Xiao et al. 2024, "Efficient
Streaming Language Models with Attention Sinks", arXiv 2309.17453).  A weight says nothing of the value that it carries.

    found = smollm2_sinks.first_key(model, ids)                       weights, norms, shares, (30, 9) each
    sinks = found.weight > 0.5                                        (30, 9) bool
    with smollm2_sinks.without_keys(model, sinks, smollm2_sinks.key(0)):
        smollm2_heads.losses(model, ids)                              the first value counts as 0 in these heads

What was measured is part of `smollm2_heads.recorded()`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from attnlab.core import Attended
from attnlab.efficient import repeat_kv
from attnlab.evidence import captured, value_weighted
from attnlab.heads import merge, split
from attnlab.models.smollm2 import D_HEAD, D_MODEL, N_HEADS

if TYPE_CHECKING:
    from attnlab.models.smollm2 import SmolLM2

__all__ = ["FirstKey", "first_key", "heaviest", "key", "without_keys"]


class FirstKey(NamedTuple):
    """What the first token is to each head, (30, 9) each, means over texts and the queries after the first.

    weight   of the first token                      norm   of its value, divided by the mean norm of the other values
    after    the same two norms behind W_o           share  of Σ weight · ‖value behind W_o‖, the first token's
    added    (30, 9, 64): weight · value of the first token
    values   (B, 30, 9, 64): the value of the first token in each text
    """

    weight: Tensor
    norm: Tensor
    after: Tensor
    share: Tensor
    added: Tensor
    values: Tensor


@torch.no_grad()
def first_key(model: "SmolLM2", ids: Tensor) -> FirstKey:
    """ids (B, n) → FirstKey"""
    rows = []
    with ExitStack() as stack:
        seen = [stack.enter_context(captured(block.attention.W_v)) for block in model.blocks]
        layers = [weights for _, weights in model.layers(ids)]
    for block, one, weights in zip(model.blocks, seen, layers, strict=True):
        value = repeat_kv(split(one.outputs[0], model.n_kv_heads), N_HEADS // model.n_kv_heads)  # (B, 9, n, 64)
        after = value @ block.attention.W_o.weight.T.reshape(N_HEADS, D_HEAD, D_MODEL)  # (B, 9, n, 576)
        norm, norm_after = value.norm(dim=-1), after.norm(dim=-1)  # (B, 9, n)
        first = weights[:, :, 1:, 0]  # (B, 9, n − 1)
        rows.append(
            (
                first.mean(dim=(0, 2)),
                (norm[..., 0] / norm[..., 1:].mean(dim=-1)).mean(dim=0),
                (norm_after[..., 0] / norm_after[..., 1:].mean(dim=-1)).mean(dim=0),
                value_weighted(weights[:, :, 1:], after)[..., 0].mean(dim=(0, 2)),
                (first[..., None] * value[:, :, :1]).mean(dim=(0, 2)),
                value[:, :, 0],
            )
        )
    *means, values = zip(*rows, strict=True)
    return FirstKey(*map(torch.stack, means), torch.stack(values, dim=1))


def key(place: int) -> Callable[[Tensor], Tensor]:
    """For `without_keys`: the key at this position, for the queries after it."""

    def choose(weights: Tensor) -> Tensor:
        chosen = torch.zeros(weights.shape[-2:], dtype=torch.bool)
        chosen[place + 1 :, place] = True
        return chosen.expand(weights.shape)

    return choose


def heaviest(weights: Tensor) -> Tensor:
    """For `without_keys`: each query's key with the largest weight, the first token left out of account."""
    others = weights.clone()
    others[..., 0] = -1
    return torch.zeros_like(weights, dtype=torch.bool).scatter(-1, others.argmax(dim=-1, keepdim=True), True)


@contextmanager
def without_keys(
    model: "SmolLM2",
    heads: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    forbid: bool = False,
    value: Tensor | None = None,
    added: Tensor | None = None,
) -> Iterator["SmolLM2"]:
    """While the block lasts, what the chosen keys add to these heads is missing: their value counts as 0.

    heads   (30, 9) bool
    choose  weights (B, 9, n, n) → bool of that shape, True = missing: `key(0)`, `heaviest`
    forbid  True: the key is forbidden, and the other weights are divided by their sum
    value   (30, 9, 64), counts in place of the value: the weight stays as it is
    added   (30, 9, 64), the same for each query in place of weight · value

    The first query has only itself to look at, and keeps it.  Another one that has no key left gets 0.

    Raises ValueError for more than one of forbid, value and added.
    """
    if forbid + (value is not None) + (added is not None) > 1:
        raise ValueError("pass one of forbid, value and added: a key is not both forbidden and replaced.")
    chosen = {block.attention: layer for layer, block in enumerate(model.blocks) if heads[layer].any()}

    def missing(attention: nn.Module, given: tuple, attended: Attended) -> Attended:
        layer = chosen[attention]
        own = heads[layer][:, None, None]  # (9, 1, 1)
        values = repeat_kv(split(attention.W_v(given[0]), model.n_kv_heads), N_HEADS // model.n_kv_heads)
        lost = attended.weights * (choose(attended.weights) & own)  # (B, 9, n, n)
        lost[:, :, 0] = 0
        rest = attended.weights - lost
        if forbid:
            total = rest.sum(dim=-1, keepdim=True)
            rest = rest / total.where(total > 0, 1)
        moved = (rest - attended.weights) @ values  # (B, 9, n, 64)
        if value is not None:
            moved = moved + lost.sum(dim=-1, keepdim=True) * value[layer][:, None]
        if added is not None:
            moved[:, :, 1:] += own * added[layer][:, None]
        return Attended(attended.output + attention.W_o(merge(moved)), attended.weights)

    with ExitStack() as stack:
        for attention in chosen:  # the weights are needed too, which `edited` does not hand out
            stack.callback(attention.register_forward_hook(missing).remove)
        yield model
