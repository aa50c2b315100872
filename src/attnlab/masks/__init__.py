"""Masks: builders, and translations to other conventions.

A mask of this course is boolean and True where attention is **allowed**.  Masks combine with `&` (both must allow) and
`|` (one is enough) before they are translated: two additive masks that each hold the smallest number of a dtype
overflow when added.

Builders return NumPy arrays; with `like=x` they return an array of the library and on the device of `x`:
`attention(q, k, v, masks.causal(n, like=q))` works for NumPy and for torch.  Where a builder takes an array of
integers, that array's library and device are followed unless `like` says otherwise.
"""

from attnlab.masks.builders import band, blocks, causal, documents, graph, padding, window
from attnlab.masks.translations import (
    to_additive,
    to_flex,
    to_four_axes,
    to_hugging_face,
    to_keras,
    to_torch_mha,
)

__all__ = [
    "band",
    "blocks",
    "causal",
    "documents",
    "graph",
    "padding",
    "to_additive",
    "to_flex",
    "to_four_axes",
    "to_hugging_face",
    "to_keras",
    "to_torch_mha",
    "window",
]
