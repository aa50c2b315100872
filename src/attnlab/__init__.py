"""attnlab — the helper package of the course *Attention, Measured*.

The functions of `attnlab.core` are here by their short names; `attnlab.masks` builds masks.  Both work on NumPy
arrays and torch tensors alike, and importing them loads neither torch nor matplotlib nor IPython.
"""

from attnlab import masks
from attnlab.core import Attended, additive, attend, attention, dot, gaussian, general, scaled_dot, softmax

__version__ = "0.1.0"

__all__ = [
    "Attended",
    "additive",
    "attend",
    "attention",
    "dot",
    "gaussian",
    "general",
    "masks",
    "scaled_dot",
    "softmax",
]
