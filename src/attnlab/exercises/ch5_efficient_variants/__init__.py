"""Exercises of chapter 5: attention that holds less, reads less or computes less. One file each."""

from .causal_linear_attention import causal_linear_attention
from .decode_positions import decode_positions
from .grouped_scores import grouped_scores
from .kv_cache_bytes import kv_cache_bytes
from .online_update import online_update
from .pooled_heads import pooled_heads
from .receptive_field import receptive_field
from .rolling_slots import rolling_slots
from .tiled_attention_of_one_query import tiled_attention_of_one_query
from .window_mask import window_mask

__all__ = [
    "causal_linear_attention",
    "decode_positions",
    "grouped_scores",
    "kv_cache_bytes",
    "online_update",
    "pooled_heads",
    "receptive_field",
    "rolling_slots",
    "tiled_attention_of_one_query",
    "window_mask",
]
