"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from .drawing import Static
from .heads import heads, heads_attribute
from .masking import PRESETS, masking
from .mixture import mixture
from .saturation import saturation
from .scoring import SCORES, scoring
from .sharpness import sharpness
from .split_merge import WAYS, split_merge

__all__ = [
    "PRESETS",
    "SCORES",
    "WAYS",
    "Static",
    "heads",
    "heads_attribute",
    "masking",
    "mixture",
    "saturation",
    "scoring",
    "sharpness",
    "split_merge",
]
