"""Exercises of chapter 6: what attention weights can and cannot explain. One file each; open questions share one."""

from .adversarial_weights import adversarial_weights
from .check_zero_influence import check_zero_influence
from .difference_over_seeds import difference_over_seeds
from .farthest_weights import farthest_weights
from .held_out_score import held_out_score
from .kendall_tau import kendall_tau
from .leave_one_out import leave_one_out
from .mean_ablated import mean_ablated
from .open_questions import believe_the_map, what_follows
from .restored_share import restored_share
from .value_shares import value_shares

__all__ = [
    "adversarial_weights",
    "believe_the_map",
    "check_zero_influence",
    "difference_over_seeds",
    "farthest_weights",
    "held_out_score",
    "kendall_tau",
    "leave_one_out",
    "mean_ablated",
    "restored_share",
    "value_shares",
    "what_follows",
]
