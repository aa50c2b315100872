"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from .drawing import Static
from .heads import heads, heads_attribute
from .kv_cache import BITS, CARDS, MODELS, kv_cache, tables_attribute
from .masking import PRESETS, masking
from .mixture import mixture
from .online_softmax import SETS, online_softmax
from .saturation import saturation
from .scoring import SCORES, scoring
from .sharpness import sharpness
from .split_merge import WAYS, split_merge

__all__ = [
    "BITS",
    "CARDS",
    "MODELS",
    "PRESETS",
    "SCORES",
    "SETS",
    "WAYS",
    "Static",
    "heads",
    "heads_attribute",
    "kv_cache",
    "masking",
    "mixture",
    "online_softmax",
    "saturation",
    "scoring",
    "sharpness",
    "split_merge",
    "tables_attribute",
]
