"""Windows, block by block: each query sees its last `size` keys, and n × n numbers are never there at once.

A mask of `masks.window` says the same and saves nothing: all scores are computed, then most are thrown away.  Here the
queries are cut into blocks, and each block meets a short stretch of the keys.
"""

from typing import Any

from array_api_compat import device

from attnlab._inputs import Array, prepare
from attnlab.core import attention
from attnlab.efficient._blocks import check_inputs, cut, join
from attnlab.masks import window

__all__ = ["window_attention"]

PART = 1024  # queries: their stretches of keys and values, and their scores, are a few megabytes


def window_attention(
    query: Array, key: Array, value: Array, size: int, *, scale: float | None = None, block: int = 64
) -> Array:
    """Attention in which each query sees the last `size` keys up to its own position, its own included.

    query (..., n_q, d_k), key (..., n_k, d_k), value (..., n_k, d_v) → output (..., n_q, d_v)

    The same as attention(query, key, value, masks.window(n_q, size, n_k)).output, to rounding: where n_q and n_k
    differ, the last query and the last key coincide, and a query before the first key has a zero output.  There are no
    weights to return: as a matrix they would be n_q × n_k numbers, nearly all of them zero.

    size   keys in the window.  n_k or more is causal attention, and as much work
    scale  multiplies the scores; None means 1/√d_k
    block  queries that are computed together.  It changes speed and memory, not the result

    A block of b queries sees b + size - 1 keys: its own block of keys, and whole blocks before it for the rest.  That
    is fewer than size + 2b scores a query, and copies of the keys and values for size/b + 2 times their bytes, since
    stretches of neighbouring blocks overlap.  About a thousand queries are taken at a time (four windows, if that is
    more), so that what is copied is used while it is still in the processor's cache, and is then dropped: without
    gradients, what grows with n is the output, which is there twice while its parts are joined.

    Raises ValueError for shapes that do not fit and for a size or block below 1; TypeError as `attention` does.

    Child, Gray, Radford, Sutskever 2019, "Generating Long Sequences with Sparse Transformers", arXiv 1904.10509;
    Beltagy, Peters, Cohan 2020, "Longformer: The Long-Document Transformer", arXiv 2004.05150.
    """
    xp, dtype, (query, key, value) = prepare(query=query, key=key, value=value)
    check_inputs(query, key, value, block=block)
    window(0, size)  # it says what a size may be
    n_q, n_k = query.shape[-2], key.shape[-2]
    size = min(int(size), n_k + 1)  # more than all keys is all keys
    part = max(PART, 4 * size)  # queries taken at a time
    parts = []
    for start in range(0, n_q, part) or [0]:
        end = min(start + part, n_q)
        own, last = n_k - n_q + start, n_k - n_q + end  # the keys of the first query, and behind that of the last one
        near = slice(max(0, own - size + 1), max(0, last))
        rows = query[..., start:end, :]
        parts.append(_by_blocks(xp, rows, key[..., near, :], value[..., near, :], size, scale, block))
    output = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-2)
    return xp.astype(output, dtype, copy=False)  # (..., n_q, d_v)


def _by_blocks(xp: Any, query: Array, key: Array, value: Array, size: int, scale: Any, block: int) -> Array:
    """The same for a part of the queries, and the keys that they see."""
    n_q, n_k = query.shape[-2], key.shape[-2]
    block = min(block, max(n_q, size))  # no filling of short inputs
    n_blocks = -(-n_q // block)  # of queries
    n_before = -(-(min(size, n_k + 1) - 1) // block)  # blocks of keys that a query sees before its own block
    n_needed = (n_before + n_blocks) * block  # keys

    def stretches(x: Array) -> Array:
        """Keys, or values, for each block of queries: (..., n_k, d) → (..., n_blocks, n_before · block + block, d)."""
        blocks = cut(xp, x, n_before + n_blocks, block)  # (..., n_before + n_blocks, block, d)
        return xp.concat([blocks[..., i : i + n_blocks, :, :] for i in range(n_before + 1)], axis=-2)

    n_span = (n_before + 1) * block
    near = window(block, size, n_span, like=query)  # (block, n_span): the same in each block
    first = xp.arange(n_blocks, device=device(query)) * block + n_k - n_needed  # (n_blocks,): where its stretch begins
    is_key = first[:, None] + xp.arange(n_span, device=device(query)) >= 0  # (n_blocks, n_span): no filling
    mask = near & is_key[:, None, :]  # (n_blocks, block, n_span)
    output, _ = attention(cut(xp, query, n_blocks, block), stretches(key), stretches(value), mask, scale=scale)
    return join(xp, output, n_q)  # (..., n_q, d_v)
