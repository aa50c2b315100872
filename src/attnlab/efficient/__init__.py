"""Efficient variants: the same attention with less memory or less traffic, or another attention that is cheaper.

tiled_attention, OnlineSoftmax          softmax tile by tile: equal to full attention, never n × n numbers at once
KVCache                                 what a decoder keeps, so that no token is computed twice
grouped_attention, repeat_kv, pool_heads    fewer key and value heads than query heads
window_attention                        each query sees its last w keys, block by block
linear_attention, LinearState, elu_plus_one     another order of the products, and another function
cost                                    bytes and operations by formula, and the report that a measurement needs
meter                                   bytes as counted while a function runs
bench                                   what `make bench` recorded: times beside bytes and operations
ring                                    attention across machines, over torch.distributed

Importing this package imports none of its files, and not torch: each is loaded when a name of it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.efficient import bench, cost, meter, ring
    from attnlab.efficient.cache import KVCache
    from attnlab.efficient.grouped import grouped_attention, pool_heads, repeat_kv
    from attnlab.efficient.linear import LinearState, elu_plus_one, linear_attention
    from attnlab.efficient.tiled import OnlineSoftmax, tiled_attention
    from attnlab.efficient.window import window_attention

__all__ = [
    "KVCache",
    "LinearState",
    "OnlineSoftmax",
    "bench",
    "cost",
    "elu_plus_one",
    "grouped_attention",
    "linear_attention",
    "meter",
    "pool_heads",
    "repeat_kv",
    "ring",
    "tiled_attention",
    "window_attention",
]

_FILES = {
    "cache": ["KVCache"],
    "grouped": ["grouped_attention", "pool_heads", "repeat_kv"],
    "linear": ["LinearState", "elu_plus_one", "linear_attention"],
    "tiled": ["OnlineSoftmax", "tiled_attention"],
    "window": ["window_attention"],
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}
_SUBMODULES = ["bench", "cost", "meter", "ring"]


def __getattr__(name: str) -> Any:
    """Called for names that are not here yet."""
    if name not in _FILE_OF and name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_FILE_OF.get(name, name)}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"attnlab.efficient.{name} needs torch, which is not installed: pip install torch.", name="torch"
        ) from None
    found = module if name in _SUBMODULES else getattr(module, name)
    globals()[name] = found
    return found
