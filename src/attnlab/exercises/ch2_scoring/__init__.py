"""Exercises of chapter 2: scores, how far they spread, and what they cost a softmax. One file each."""

from .additive_scores import additive_scores
from .cosine_scores import cosine_scores
from .entropy_of_weights import entropy_of_weights
from .gaussian_scores import gaussian_scores
from .general_scores import general_scores
from .kernel_regression import kernel_regression
from .measured_scale import measured_scale

__all__ = [
    "additive_scores",
    "cosine_scores",
    "entropy_of_weights",
    "gaussian_scores",
    "general_scores",
    "kernel_regression",
    "measured_scale",
]
