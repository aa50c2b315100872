"""The cache: keys and values of the tokens so far, kept, so that a decoder computes those of new tokens only.

For each new token a layer needs the keys and values of all tokens before it.  Where attention is causal, those of an
old token never change, so they are computed once and kept.  It is exact: each step is the last row of the whole.
"""

from typing import Any

import numpy as np
from array_api_compat import device

from attnlab._inputs import Array, namespace_of, shape_of
from attnlab.heads import _is_count

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of one layer, for NumPy arrays or torch tensors, that grow with each `append`.

        keys, values = cache.append(key, value)
        attention(query, keys, values, cache.mask()).output

    window   each query sees its last `window` keys, its own included; None means all of them
    n_sinks  the first tokens, that all later queries see beside their window: a softmax hands the weight that it has no
             use for to them, and a model gets worse when they are evicted (Xiao et al. 2024, "Efficient Streaming
             Language Models with Attention Sinks", arXiv 2309.17453)

    `n_seen` counts the tokens so far: it is the position of the next one.  Keys come with their position in them (RoPE
    and its like are applied **before** `append`, for the positions n_seen, n_seen + 1, …), and keep it.  A decoded
    token has length 1, not position 0.  (The paper above counts positions inside of the cache instead.)

    Without a window the memory is doubled when it is full: on the way to n tokens, fewer than 2n are copied again, and
    no more than half of the memory lies idle.  With a window there are window + n_sinks places from the first append
    on, and the token at position p takes the place of the one at p - window.

    It is for decoding: what it keeps has no gradient.  It copies what it is given, and does not sort, pad or reset.

    Raises ValueError for a window below 1, a negative n_sinks, and n_sinks without a window.
    """

    def __init__(self, window: int | None = None, n_sinks: int = 0) -> None:
        if window is not None and not _is_count(window):
            raise ValueError(f"window must be None or a whole number of at least 1, but it is {window!r}.")
        if n_sinks != 0 and not _is_count(n_sinks):
            raise ValueError(f"n_sinks must be a whole number of at least 0, but it is {n_sinks!r}.")
        if n_sinks and window is None:
            raise ValueError("n_sinks are kept beside a window: without one, every token is kept.")
        self.window, self.n_sinks = window, n_sinks
        self.n_seen = 0
        self._keys: Array | None = None  # (..., H_kv, places, d_k)
        self._values: Array | None = None  # (..., H_kv, places, d_v)
        self._position_at = np.empty(0, dtype=np.int64)  # (places,): whose key lies there
        self._returned = np.empty(0, dtype=np.int64)  # (n_k,): positions of the keys that the last append returned
        self._n_new = 0

    def append(self, key: Array, value: Array) -> tuple[Array, Array]:
        """Take up n_new tokens, and return what their queries may see: all that is kept, the new ones included.

        key (..., H_kv, n_new, d_k), value (..., H_kv, n_new, d_v) → keys (..., H_kv, n_k, d_k), values (…, n_k, d_v)

        All axes but that of the tokens, the dtypes, the library and the device are those of the first append.

        Without a window the keys lie in order, and what is returned stays as it is through later appends.  With one,
        **the order of the keys is that of their places** (`positions` tells whose they are; attention does not care),
        and what is returned holds until the next append, which overwrites it.  In both it shares the cache's memory:
        do not write to it.

        Of several new tokens, the first may see keys that the last may not.  Such a chunk gets all that any of them
        sees, n_k up to n_sinks + window + n_new, and `mask` tells them apart.

        Raises ValueError, naming the shapes, for what does not fit; the cache is then as it was before.
        """
        xp = self._check(key, value)
        n_new = key.shape[-2]
        new = np.arange(self.n_seen, self.n_seen + n_new)  # (n_new,) positions
        self._make_room(xp, key, value)
        kept = slice(len(self))
        old = self._keys[..., kept, :], self._values[..., kept, :], self._position_at[kept]
        fits = self.window is None or self.n_seen + n_new <= len(self._position_at)
        self.n_seen += n_new
        self._n_new = n_new
        if fits or n_new <= 1:  # no key that a new query may see gives way
            self._write(new, key, value)
            kept = slice(len(self))
            keys, values = self._keys[..., kept, :], self._values[..., kept, :]  # views
            self._returned = self._position_at[kept]
        else:
            keys = xp.concat([old[0], key], axis=-2)  # (..., H_kv, n_old + n_new, d_k)
            values = xp.concat([old[1], value], axis=-2)  # (..., H_kv, n_old + n_new, d_v)
            self._returned = np.concatenate([old[2], new])
            stays = np.flatnonzero((new < self.n_sinks) | (new >= self.n_seen - self.window))
            self._write(new[stays], key[..., stays, :], value[..., stays, :])
        return keys, values

    def mask(self, n_new: int | None = None) -> Array:
        """Which keys of the last append its queries may attend to: bool (n_new, n_k), True = may attend.

        It is causal, and holds the window and the sinks.  A number asks for the last n_new queries only.  Call it after
        `append`.  For one new token it is all True, and without a window it is what is_causal=True does.

        Raises ValueError for more queries than the last append had.
        """
        n_new = self._n_new if n_new is None else n_new
        if self._keys is None or n_new not in range(self._n_new + 1):
            raise ValueError(
                f"The mask is for the queries of the last append, which had {self._n_new} tokens, "
                f"but n_new is {n_new}. Is it asked for before the append?"
            )
        own = np.arange(self.n_seen - n_new, self.n_seen)[:, None]  # (n_new, 1) positions of the queries
        allowed = self._returned <= own  # (n_new, n_k)
        if self.window is not None:
            allowed &= (self._returned > own - self.window) | (self._returned < self.n_sinks)
        return namespace_of(keys=self._keys).asarray(allowed, device=device(self._keys))

    @property
    def positions(self) -> np.ndarray:
        """Positions of the keys that the last append returned, in their order: integers (n_k,), of NumPy."""
        return self._returned.copy()

    def __len__(self) -> int:
        """The number of tokens that are kept: n_seen, or window + n_sinks if that is fewer."""
        return self.n_seen if self.window is None else min(self.n_seen, self.window + self.n_sinks)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values that are kept: 2 · B · H_kv · len · d · itemsize, where d_k = d_v = d."""
        return self._bytes_of(len(self))

    @property
    def capacity_bytes(self) -> int:
        """Bytes that are allocated for keys and values: `nbytes`, and the places that are still free."""
        return self._bytes_of(len(self._position_at))

    def _bytes_of(self, n_tokens: int) -> int:
        n_places = len(self._position_at)
        return 0 if n_places == 0 else (self._keys.nbytes + self._values.nbytes) // n_places * n_tokens

    def _make_room(self, xp: Any, key: Array, value: Array) -> None:
        """Places for the new tokens: with a window as many as it will ever need, else at least twice those before."""
        n_places, needed = len(self._position_at), self.n_seen + key.shape[-2]
        if self.window is not None:
            wanted = self.window + self.n_sinks
        else:
            wanted = n_places if needed <= n_places else max(needed, 2 * n_places)
        if self._keys is not None and wanted == n_places:
            return
        self._keys = _longer(xp, self._keys, key, self.n_seen, wanted)
        self._values = _longer(xp, self._values, value, self.n_seen, wanted)
        free = np.empty(wanted - n_places, dtype=np.int64)
        self._position_at = np.concatenate([self._position_at, free])  # (wanted,)

    def _write(self, new: np.ndarray, key: Array, value: Array) -> None:
        """Put the tokens at positions `new` (n,) into their places: the sinks first, then round and round."""
        places = new
        if self.window is not None:
            places = np.where(new < self.n_sinks, new, self.n_sinks + (new - self.n_sinks) % self.window)
        self._keys[..., places, :] = key
        self._values[..., places, :] = value
        self._position_at[places] = new

    def _check(self, key: Array, value: Array) -> Any:
        kept = {} if self._keys is None else {"the cached keys": self._keys, "the cached values": self._values}
        xp = namespace_of(key=key, value=value, **kept)
        if min(key.ndim, value.ndim) < 2 or shape_of(key)[:-1] != shape_of(value)[:-1]:
            raise ValueError(
                "key must have shape (..., H_kv, n_new, d_k) and value (..., H_kv, n_new, d_v), "
                f"but key has shape {shape_of(key)} and value has shape {shape_of(value)}."
            )
        for name, x in {"key": key, "value": value}.items():
            if getattr(x, "requires_grad", False):
                raise ValueError(f"{name} requires a gradient, and a cache keeps none: decode under torch.no_grad().")
            cached = kept.get(f"the cached {name}s", x)
            wanted, found = ((*x.shape[:-2], "n_new", x.shape[-1]) for x in (cached, x))
            if wanted != found or cached.dtype != x.dtype:
                raise ValueError(
                    f"{name} must have the shape ({', '.join(map(str, wanted))}) and the dtype {cached.dtype} of the "
                    f"first append, but it has shape {shape_of(x)} and dtype {x.dtype}."
                )
        return xp


def _longer(xp: Any, old: Array | None, like: Array, n_used: int, n_places: int) -> Array:
    """A buffer with n_places tokens of the shape of `like`, the first n_used of which are those of the old one."""
    longer = xp.empty((*like.shape[:-2], n_places, like.shape[-1]), dtype=like.dtype, device=device(like))
    if old is not None:
        longer[..., :n_used, :] = old[..., :n_used, :]
    return longer
