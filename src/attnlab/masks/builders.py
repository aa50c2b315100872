"""Builders: which queries may attend to which keys, by position, by membership, by length."""

import operator
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj

from attnlab._inputs import Array, namespace_of, shape_of
from attnlab.core import causal_rule

__all__ = ["band", "blocks", "causal", "documents", "graph", "padding", "window"]


# ------------------------------------------------------------------------------------------------------- by position


def causal(n_q: int, n_k: int | None = None, *, align: str = "bottom-right", like: Array | None = None) -> Array:
    """Each query may attend to the keys up to its own position: bool (n_q, n_k).

    n_k is n_q unless given.  Where they differ, `align` says whose positions coincide:

    "bottom-right"  the last query and the last key, as when a new query meets keys that were cached before
    "top-left"      the first query and the first key, as in torch's `is_causal=True`

    Where there are more queries than keys, the first rows of a bottom-right mask allow nothing.

    Raises ValueError for negative sizes and other alignments, TypeError for sizes that are not integers.
    """
    n_q = _size("n_q", n_q)
    n_k = n_q if n_k is None else _size("n_k", n_k)
    offsets = {"bottom-right": n_k - n_q, "top-left": 0}
    if align not in offsets:
        raise ValueError(f'align must be "bottom-right" or "top-left", but it is {align!r}.')
    return _up_to(n_q, n_k, offsets[align], like)  # (n_q, n_k)


def window(n_q: int, size: int, n_k: int | None = None, *, like: Array | None = None) -> Array:
    """Each query may attend to the last `size` keys up to its own position, its own included: bool (n_q, n_k).

    n_k is n_q unless given; where they differ, the last query and the last key coincide, as in `causal`.  Size 1 is
    each query's own key, and a size of n_k or more is `causal(n_q, n_k)`.  Some libraries count the keys *before* the
    query's own instead: their window is smaller by one for the same reach.

    Raises ValueError for a size below 1 and for negative n_q or n_k, TypeError for what is not an integer.

    Child, Gray, Radford, Sutskever 2019, "Generating Long Sequences with Sparse Transformers", arXiv 1904.10509.
    """
    n_q = _size("n_q", n_q)
    n_k = n_q if n_k is None else _size("n_k", n_k)
    size = _size("size", size)
    if size == 0:
        raise ValueError("size must be at least 1, since a window counts the query's own key, but it is 0.")
    own = n_k - n_q
    return _up_to(n_q, n_k, own, like) & ~_up_to(n_q, n_k, own - min(size, n_k), like)  # (n_q, n_k)


def band(n: int, radius: int, *, like: Array | None = None) -> Array:
    """Each query may attend to the keys at most `radius` positions away, before or after: bool (n, n).

    Radius 0 is each query's own key; row i holds 2 · radius + 1 keys, fewer near the ends.  Longformer calls
    2 · radius its window size.

    Raises ValueError for negative numbers, TypeError for what is not an integer.

    Beltagy, Peters, Cohan 2020, "Longformer: The Long-Document Transformer", arXiv 2004.05150.
    """
    n = _size("n", n)
    radius = min(_size("radius", radius), n)
    return _up_to(n, n, radius, like) & ~_up_to(n, n, -radius - 1, like)  # (n, n)


# ----------------------------------------------------------------------------------------------------- by membership


def documents(ids: Any, *, like: Array | None = None) -> Array:
    """Each query may attend to the keys of its own document: ids (..., n) → bool (..., n, n).

    For several documents packed into one row: ids [0, 0, 1] are two tokens of one document and one of another.  The
    tokens of a document need not be neighbours.  With heads, (B, H, n, d_k), pass ids[:, None]; add `& causal(n)`
    where a token must not see later ones.

    ids is a list or an integer array.  Raises ValueError for a single number, TypeError for what is not an integer.

    Krell, Kosec, Perez, Fitzgibbon 2021, "Efficient Sequence Packing without Cross-contamination", arXiv 2107.02027.
    """
    ids, like = _integers("ids", ids, "the number of the document of each token", like)  # (..., n)
    if ids.ndim == 0:
        raise ValueError(f"ids must have shape (..., n), one for each token, but it is a single number, {ids}.")
    ids = _move(ids, like)
    return ids[..., :, None] == ids[..., None, :]  # (..., n, n)


def blocks(sizes: Any, *, like: Array | None = None) -> Array:
    """Each query may attend to the keys of its own block, the blocks lying one after the other: bool (n, n).

    sizes (n_blocks,) → n = the sum of the sizes.  It is block diagonal: blocks([2, 1]) is documents([0, 0, 1]).
    A block of size 0 adds nothing.

    sizes is a list or an integer array.  Raises ValueError for a negative size and for other shapes, TypeError for
    what is not an integer.

    Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", arXiv 1801.10198 (its local attention).
    """
    sizes, like = _integers("sizes", sizes, "the number of tokens of each block", like)
    if sizes.ndim != 1:
        raise ValueError(f"sizes must have shape (n_blocks,), one for each block, but it has shape {sizes.shape}.")
    if (sizes < 0).any():
        raise ValueError(f"sizes must not be negative, but {sizes[sizes < 0][0]} is among them.")
    return documents(np.repeat(np.arange(len(sizes)), sizes), like=like)  # (n, n)


def graph(edges: Any, n: int, self_loops: bool = True, *, like: Array | None = None) -> Array:
    """Query i may attend to key j where (i, j) is an edge: edges (n_edges, 2) → bool (n, n).

    Edges have a direction: (i, j) lets i attend to j, not j to i.  Pass both for an undirected graph.  With
    self_loops each node may attend to itself too; without, a node that no edge leaves is a row that allows nothing.

    edges is a list of pairs or an integer array.  Raises ValueError for other shapes, for a negative n and for nodes
    that are not in 0 … n - 1, TypeError for what is not an integer.

    Veličković et al. 2018, "Graph Attention Networks", arXiv 1710.10903.
    """
    n = _size("n", n)
    is_mask = " A boolean array (n, n) is a mask already."
    edges, like = _integers("edges", edges, "pairs (query, key) of positions", like, is_mask)
    if edges.shape == (0,):
        edges = edges.reshape(0, 2)  # the empty list
    if edges.ndim != 2 or edges.shape[1] != 2:
        hint = " Is it transposed? Each row is one edge." if edges.ndim == 2 and edges.shape[0] == 2 else ""
        raise ValueError(
            f"edges must have shape (n_edges, 2), one pair (query, key) a row, but it has shape {edges.shape}.{hint}"
        )
    outside = ((edges < 0) | (edges >= n)).any(axis=1)
    if outside.any():
        raise ValueError(
            f"edges must join positions from 0 to below n = {n}, but {tuple(edges[outside][0].tolist())} is among them."
        )
    allowed = np.eye(n, dtype=bool) & self_loops  # (n, n)
    allowed[edges[:, 0], edges[:, 1]] = True
    return _move(allowed, like)


def padding(lengths: Any, n_k: int, *, like: Array | None = None) -> Array:
    """Every query may attend to the first `length` keys of its sequence: lengths (...) → bool (..., 1, n_k).

    The axis of length 1 is that of the queries: padding forbids **keys**, for all queries alike.  It fits query
    (B, n_q, d_k); with heads, (B, H, n_q, d_k), pass lengths[:, None].

    lengths is an integer, a list or an integer array.  Length 0 leaves a row that allows nothing.

    Raises ValueError for lengths below 0 or above n_k, TypeError for lengths that are not integers.
    """
    n_k = _size("n_k", n_k)
    is_mask = " A boolean array that is True at the real tokens is a mask already: pass it as is_real[..., None, :]."
    lengths, like = _integers("lengths", lengths, "the number of real tokens of each sequence", like, is_mask)
    outside = (lengths < 0) | (lengths > n_k)
    if outside.any():
        raise ValueError(f"lengths must lie between 0 and n_k = {n_k}, but {lengths[outside][0]} is among them.")
    lengths = _move(lengths, like)
    return namespace_of(lengths=lengths).arange(n_k, device=device(lengths)) < lengths[..., None, None]  # (..., 1, n_k)


def _up_to(n_q: int, n_k: int, offset: int, like: Array | None) -> Array:
    """Query i may attend to the keys up to i + offset: bool (n_q, n_k).  All rules about positions are made of it."""
    like = np.empty(0) if like is None else like
    return causal_rule(namespace_of(like=like), n_q, n_k, offset, device(like))  # (n_q, n_k)


def _integers(name: str, values: Any, meaning: str, like: Array | None, hint: str = "") -> tuple[np.ndarray, Array]:
    """The integers `values`, a list or an array of either library, for NumPy to check; and the array to be like."""
    if not is_array_api_obj(values):
        try:
            values = np.asarray(values, dtype=None if np.size(values) else int)  # an empty list has no dtype of its own
        except ValueError:
            raise ValueError(f"{name} must have one shape, but its rows differ in length: {values!r}.") from None
    if not namespace_of(**{name: values}).isdtype(values.dtype, "integral"):
        raise TypeError(f"{name} must be integers, {meaning}, but they are {values.dtype}.{hint}")
    numbers = np.asarray(values.tolist(), dtype=np.int64).reshape(shape_of(values))
    return numbers, values if like is None else like


def _move(array: np.ndarray, like: Array) -> Array:
    return namespace_of(like=like).asarray(array, device=device(like))


def _size(name: str, size: Any) -> int:
    try:
        number = operator.index(size)
    except TypeError:
        number = None
    if number is None or isinstance(size, bool):
        raise TypeError(f"{name} must be an integer, but it is {size!r}.")
    if number < 0:
        raise ValueError(f"{name} must not be negative, but it is {number}.")
    return number
