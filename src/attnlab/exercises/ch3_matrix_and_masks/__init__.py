"""Exercises of chapter 3: attention as matrices, and masks from their making to their consequences. One file each."""

from .attention_in_matrix_form import attention_in_matrix_form
from .causal_and_padding import causal_and_padding
from .causal_mask import causal_mask
from .check_causal import check_causal
from .convert_mask import convert_mask
from .masked_loss import masked_loss
from .masked_mean import masked_mean
from .masked_softmax import masked_softmax
from .packed_documents_mask import packed_documents_mask
from .positions_of import positions_of

__all__ = [
    "attention_in_matrix_form",
    "causal_and_padding",
    "causal_mask",
    "check_causal",
    "convert_mask",
    "masked_loss",
    "masked_mean",
    "masked_softmax",
    "packed_documents_mask",
    "positions_of",
]
