"""Heads: one wide attention as several narrow ones that run side by side.

`split` cuts the features into heads and `merge` puts them together again, for NumPy arrays and torch tensors alike.
`MultiHeadAttention` is the layer around them, with weights to learn.  It is a torch module: asking for it imports
torch, and nothing else here does.
"""

from numbers import Integral
from typing import TYPE_CHECKING, Any

from attnlab._inputs import Array, namespace_of, shape_of

if TYPE_CHECKING:
    from attnlab.heads.multi_head import MultiHeadAttention

__all__ = ["MultiHeadAttention", "merge", "split"]


def split(x: Array, n_heads: int) -> Array:
    """Cut the features into heads: (..., n, d) → (..., n_heads, n, d / n_heads).

    Head 0 gets the first d / n_heads features of every token, head 1 the next.  The axes of tokens and heads then
    change places: a reshape to (..., n_heads, n, d / n_heads) alone has the same shape, but cuts the *tokens* into
    heads.  The result may share memory with x, and has its dtype.

    Raises ValueError, naming the shape, where x has fewer than two axes or n_heads does not divide d; TypeError for
    what is no array.
    """
    xp = namespace_of(x=x)
    shape = shape_of(x)
    if not _is_count(n_heads):
        raise ValueError(f"n_heads must be a whole number of at least 1, but it is {n_heads!r}.")
    if len(shape) < 2 or shape[-1] % n_heads:
        raise ValueError(
            "x must have shape (..., n, d) with d a multiple of n_heads, "
            f"but n_heads is {n_heads} and x has shape {shape}."
        )
    by_token = xp.reshape(x, (*shape[:-1], n_heads, shape[-1] // n_heads))  # (..., n, n_heads, d_head)
    return _swap(xp, by_token)  # (..., n_heads, n, d_head)


def merge(x: Array) -> Array:
    """Put the heads side by side again: (..., n_heads, n, d_head) → (..., n, n_heads · d_head), the inverse of `split`.

    The result may share memory with x, and has its dtype.

    Raises ValueError, naming the shape, where x has fewer than three axes; TypeError for what is no array.
    """
    xp = namespace_of(x=x)
    shape = shape_of(x)
    if len(shape) < 3:
        raise ValueError(f"x must have shape (..., n_heads, n, d_head), but it has shape {shape}.")
    *batch, n_heads, n, d_head = shape
    by_token = _swap(xp, x)  # (..., n, n_heads, d_head)
    return xp.reshape(by_token, (*batch, n, n_heads * d_head))


def _swap(xp: Any, x: Array) -> Array:
    """Tokens and heads change places.  (torch.func.vmap knows no moveaxis.)"""
    *batch, first, second, last = range(x.ndim)
    return xp.permute_dims(x, (*batch, second, first, last))


def _is_count(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool) and number >= 1


def __getattr__(name: str) -> Any:
    """Called for names that are not here yet: chapters 1 to 3 must not wait for torch."""
    if name != "MultiHeadAttention":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from attnlab.heads.multi_head import MultiHeadAttention
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "MultiHeadAttention is a torch module, and torch is not installed: pip install torch.  "
            "(split and merge work without it.)",
            name="torch",
        ) from None
    globals()[name] = MultiHeadAttention
    return MultiHeadAttention
