"""Linear attention: the weight of a pair is φ(q) · φ(k), so that the sum over keys can be taken before any query comes.

    output = Σ_j (φ(q) · φ(k_j)) v_j / Σ_j φ(q) · φ(k_j)  =  φ(q)ᵀ S / φ(q)ᵀ z
    with S = Σ_j φ(k_j) v_jᵀ  and  z = Σ_j φ(k_j)

S is a matrix (d_f, d_v) and z a vector (d_f,), for however many keys: the work grows with n, not n², and a decoder
keeps S and z instead of a cache.

It is **another function** than softmax attention, whose exp(q · k) no finite φ factorises.

Katharopoulos, Vyas, Pappas, Fleuret 2020, "Transformers are RNNs: Fast Autoregressive Transformers with Linear
Attention", arXiv 2006.16236.

The normaliser φ(q)ᵀ z is a sum of weights.  Where φ is positive it is positive, as softmax's is.  A φ with negative
features gives weights that cancel, and a sum near zero or below it: outputs far outside of the values, which are
returned as they are.  Only an exact zero divides nothing: with no key, or with features that are all zero, the output
is zero, never NaN.
"""

from collections.abc import Callable
from typing import Any

from array_api_compat import device

from attnlab._inputs import Array, check_leading_axes, check_values, namespace_of, prepare, shape_of
from attnlab.efficient._blocks import check_inputs, cut, join

__all__ = ["LinearState", "elu_plus_one", "linear_attention"]


def elu_plus_one(x: Array) -> Array:
    """The feature map of Katharopoulos et al.: x + 1 where x is positive, exp(x) elsewhere; greater than 0 everywhere.

    (Below -103 or so, exp(x) is too small for float32, and becomes 0.)  Same shape and dtype.
    """
    xp = namespace_of(x=x)
    zero = xp.zeros((), dtype=x.dtype, device=device(x))
    return xp.exp(xp.minimum(x, zero)) + xp.maximum(x, zero)  # exp of the negative part only: it cannot overflow


def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    feature_map: Callable[[Array], Array] = elu_plus_one,
    is_causal: bool = False,
    mask: Array | None = None,
    normalise: bool = True,
    chunk: int = 128,
) -> Array:
    """Attention with the weights φ(q) · φ(k) / Σ_j φ(q) · φ(k_j), without ever making them, in time that grows with n.

    query (..., n_q, d_k), key (..., n_k, d_k), value (..., n_k, d_v) → output (..., n_q, d_v)

    feature_map  φ, for query and key: (..., n, d_k) → (..., n, d_f), each row by itself
    is_causal    each query sees the keys up to its own position, with the last query at the last key
    mask         bool, True = may attend, **the same for all queries**: (..., 1, n_k), as `masks.padding` makes it.
                 Whatever differs from query to query would need the pairs that are never made
    normalise    False leaves the division out: φ(q)ᵀ S, as other linear layers do
    chunk        tokens of one chunk of the causal form.  It changes the speed, not the result

    Causal, the state before each chunk is kept, (n / chunk) · d_f · (d_v + 1) numbers, and chunk · n weights, those of
    pairs inside of a chunk.

    Raises ValueError for shapes that do not fit, TypeError for what are no arrays of real numbers, or of two libraries,
    and for a mask that is not bool.
    """
    xp, dtype, (query, key, value) = prepare(query=query, key=key, value=value)
    check_inputs(query, key, value, chunk=chunk)
    q, k = feature_map(query), feature_map(key)  # (..., n_q, d_f), (..., n_k, d_f)
    if mask is not None:
        k = _without_masked(xp, k, mask)
    if is_causal:
        mixed, total = _causal(xp, q, k, value, chunk)
    else:
        S, z = _sums(xp, k, value)
        mixed, total = q @ S, q @ z
    return xp.astype(_divide(xp, mixed, total) if normalise else mixed, dtype, copy=False)


def _causal(xp: Any, q: Array, k: Array, value: Array, chunk: int) -> tuple[Array, Array]:
    """Numerators (..., n_q, d_v) and denominators (..., n_q, 1) of features q (..., n_q, d_f) and k (..., n_k, d_f)."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    n_chunks = -(-n_q // chunk)
    n_before = max(n_k - n_chunks * chunk, 0)  # keys before the first chunk: all queries see them
    S, z = _sums(xp, k[..., :n_before, :], value[..., :n_before, :])
    q, k, value = (cut(xp, x, n_chunks, chunk) for x in (q, k, value))  # (..., n_chunks, chunk, d)
    added_S, added_z = _sums(xp, k, value)  # (..., n_chunks, d_f, d_v), (..., n_chunks, d_f, 1): what each chunk adds
    S, z = (_sums_before(xp, first, added) for first, added in ((S, added_S), (z, added_z)))
    inside = xp.tril(q @ xp.matrix_transpose(k))  # (..., n_chunks, chunk, chunk): weights inside of a chunk
    mixed = q @ S + inside @ value  # (..., n_chunks, chunk, d_v)
    total = q @ z + xp.sum(inside, axis=-1, keepdims=True)  # (..., n_chunks, chunk, 1)
    return join(xp, mixed, n_q), join(xp, total, n_q)


class LinearState:
    """The sums S and z over the keys so far, of fixed size however many they are: what a decoder keeps.

        state.update(key, value)    (..., n, d_k), (..., n, d_v)     any number of tokens at once
        state.read(query)           (..., n_q, d_k) → (..., n_q, d_v)     each query sees all keys so far

    Token by token, update then read, it is causal `linear_attention`: the layer is a recurrent network.  The sums are
    kept in float32 at least, and are new arrays after each update: gradients flow through them, and nothing that was
    read before changes.

    S (..., d_f, d_v) and z (..., d_f) are None before the first update.  feature_map and normalise are those of
    `linear_attention`.
    """

    def __init__(self, feature_map: Callable[[Array], Array] = elu_plus_one, *, normalise: bool = True) -> None:
        self.feature_map, self.normalise = feature_map, normalise
        self.n_seen = 0
        self.S: Array | None = None
        self.z: Array | None = None
        self._dtype: Any = None  # of the results: that of the keys and values

    def update(self, key: Array, value: Array) -> None:
        """S + Σ φ(k) vᵀ and z + Σ φ(k).  Raises ValueError, naming the shapes, for those that do not fit."""
        seen = {} if self.S is None else {"S": self.S}
        namespace_of(key=key, value=value, **seen)
        xp, dtype, (k, v) = prepare(key=key, value=value)
        if k.ndim < 2:
            raise ValueError(f"key must have shape (..., n, d_k), but it has shape {shape_of(k)}.")
        check_values("value", v, "key", k, n_k=k.shape[-2])
        check_leading_axes(key=k, value=v)
        S, z = _sums(xp, self.feature_map(k), v)  # (..., d_f, d_v), (..., d_f, 1)
        if self.S is not None:
            _check_state(S, self.S)
            S, z, dtype = self.S + S, self.z[..., None] + z, xp.result_type(self._dtype, dtype)
        self.S, self.z, self._dtype = S, z[..., 0], dtype
        self.n_seen += k.shape[-2]

    def read(self, query: Array) -> Array:
        """φ(q)ᵀ S / φ(q)ᵀ z: query (..., n_q, d_k) → output (..., n_q, d_v).

        Raises ValueError before the first update, and for a query that does not fit.
        """
        if self.S is None:
            raise ValueError("Nothing to read yet: the state gets its shape with the first update(key, value).")
        xp, dtype, _ = prepare(query=query)
        _, _, (query, S, z) = prepare(query=query, S=self.S, z=self.z)
        q = self.feature_map(query)  # (..., n_q, d_f)
        if q.ndim < 2 or q.shape[-1] != S.shape[-2]:
            raise ValueError(
                f"query must have shape (..., n_q, d_k), with d_f = {S.shape[-2]} features like the keys, "
                f"but it has shape {shape_of(query)}."
            )
        mixed, total = q @ S, q @ z[..., None]  # (..., n_q, d_v), (..., n_q, 1)
        output = _divide(xp, mixed, total) if self.normalise else mixed
        return xp.astype(output, xp.result_type(dtype, self._dtype), copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes of S and z: B · H · d_f · (d_v + 1) · itemsize, whatever has been seen."""
        return 0 if self.S is None else self.S.nbytes + self.z.nbytes


def _sums(xp: Any, k: Array, value: Array) -> tuple[Array, Array]:
    """S = Σ φ(k) vᵀ (..., d_f, d_v) and z = Σ φ(k), as a column (..., d_f, 1), of the features k (..., n, d_f)."""
    columns = xp.matrix_transpose(k)  # (..., d_f, n)
    return columns @ value, xp.sum(columns, axis=-1, keepdims=True)


def _sums_before(xp: Any, first: Array, added: Array) -> Array:
    """The sums before each chunk: first (..., d_f, d), added (..., n_chunks, d_f, d) → (..., n_chunks, d_f, d)."""
    return xp.cumulative_sum(xp.concat([first[..., None, :, :], added[..., :-1, :, :]], axis=-3), axis=-3)


def _divide(xp: Any, mixed: Array, total: Array) -> Array:
    return mixed / xp.where(total == 0, xp.ones_like(total), total)


def _without_masked(xp: Any, k: Array, mask: Array) -> Array:
    """The features (..., n_k, d_f), zero for the keys that the mask (..., 1, n_k) forbids."""
    namespace_of(key=k, mask=mask)
    if not xp.isdtype(mask.dtype, "bool"):
        raise TypeError(f"The mask of linear attention is bool, True = may attend, but this one is {mask.dtype}.")
    if mask.ndim < 2 or mask.shape[-2] != 1 or mask.shape[-1] not in (1, k.shape[-2]):
        raise ValueError(
            "The mask of linear attention is the same for all queries, (..., 1, n_k), "
            f"but n_k is {k.shape[-2]} and mask has shape {shape_of(mask)}."
        )
    check_leading_axes(key=k, mask=mask)
    return xp.where(xp.matrix_transpose(mask), k, xp.zeros_like(k))


def _check_state(new: Array, old: Array) -> None:
    if shape_of(new) != shape_of(old):
        raise ValueError(
            f"The state has S of shape (..., d_f, d_v) = {shape_of(old)}, "
            f"but this key and value would add one of shape {shape_of(new)}."
        )
