"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from .drawing import Static
from .mixture import mixture
from .sharpness import sharpness

__all__ = ["Static", "mixture", "sharpness"]
