"""Exercises of chapter 4: heads, from who asks to what a head of a real model does. One file each."""

from .cross_attention import cross_attention
from .local_weights import local_weights
from .mask_for_torch import mask_for_torch
from .merge_heads import merge_heads
from .multi_head_attention import multi_head_attention
from .other_basis import other_basis
from .permute_heads import permute_heads
from .previous_token_score import previous_token_score
from .rotate import rotate
from .sequence_first import sequence_first
from .split_heads import split_heads

__all__ = [
    "cross_attention",
    "local_weights",
    "mask_for_torch",
    "merge_heads",
    "multi_head_attention",
    "other_basis",
    "permute_heads",
    "previous_token_score",
    "rotate",
    "sequence_first",
    "split_heads",
]
