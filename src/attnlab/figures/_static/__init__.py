"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from .drawing import Static
from .heads import heads, heads_attribute
from .kv_cache import BITS, CARDS, MODELS, kv_cache, tables_attribute
from .masking import PRESETS, masking
from .mixture import mixture
from .null_space import VALUES, null_space
from .online_softmax import SETS, online_softmax
from .rankings import RANKED, rankings, rankings_attribute, tokens
from .saturation import saturation
from .scoring import SCORES, scoring
from .sharpness import sharpness
from .split_merge import WAYS, split_merge

__all__ = [
    "BITS",
    "CARDS",
    "MODELS",
    "PRESETS",
    "RANKED",
    "SCORES",
    "SETS",
    "VALUES",
    "WAYS",
    "Static",
    "heads",
    "heads_attribute",
    "kv_cache",
    "masking",
    "mixture",
    "null_space",
    "online_softmax",
    "rankings",
    "rankings_attribute",
    "saturation",
    "scoring",
    "sharpness",
    "split_merge",
    "tables_attribute",
    "tokens",
]
