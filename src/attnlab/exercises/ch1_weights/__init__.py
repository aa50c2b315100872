"""Exercises of chapter 1: from a weighted average to attention for one query. One file each."""

from .attend_one_query import attend_one_query
from .masked_weights import masked_weights
from .scaled_scores import scaled_scores
from .stable_softmax import stable_softmax
from .weight_derivatives import weight_derivatives
from .weight_of_copies import weight_of_copies
from .weighted_average import weighted_average
from .weights_at_temperature import weights_at_temperature

__all__ = [
    "attend_one_query",
    "masked_weights",
    "scaled_scores",
    "stable_softmax",
    "weight_derivatives",
    "weight_of_copies",
    "weighted_average",
    "weights_at_temperature",
]
