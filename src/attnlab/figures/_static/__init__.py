"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from .drawing import Static
from .masking import PRESETS, masking
from .mixture import mixture
from .saturation import saturation
from .scoring import SCORES, scoring
from .sharpness import sharpness

__all__ = ["PRESETS", "SCORES", "Static", "masking", "mixture", "saturation", "scoring", "sharpness"]
