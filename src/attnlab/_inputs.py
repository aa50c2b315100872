"""Reading the inputs: one library, one device, real numbers, shapes that fit.  Nothing here computes attention."""

from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj

Array = Any  # a NumPy array or a torch tensor


def namespace_of(**arrays: Array) -> Any:
    """The one library, and the one device, of all these arrays; TypeError or ValueError if there is no such thing."""
    for name, array in arrays.items():
        if isinstance(array, np.matrix | np.ma.MaskedArray):
            raise TypeError(f"{name} is a {type(array).__name__}, which has rules of its own: pass a plain array.")
        if not is_array_api_obj(array):
            raise TypeError(
                f"{name} is of type {type(array).__name__}, but attnlab works on NumPy arrays and torch tensors: "
                f"pass np.asarray({name}) or torch.as_tensor({name})."
            )
    libraries = {name: array_namespace(array) for name, array in arrays.items()}
    if len(set(libraries.values())) > 1:
        kinds = ", ".join(f"{name} from {xp.__name__.split('.')[-1]}" for name, xp in libraries.items())
        raise TypeError(
            f"Inputs must come from one library, but these are mixed: {kinds}. Convert with torch.as_tensor or "
            "np.asarray; the builders in attnlab.masks take like=query."
        )
    devices = {name: device(array) for name, array in arrays.items()}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} on {place}" for name, place in devices.items())
        raise ValueError(f"Inputs must be on one device, but these are apart: {places}. Move them with .to(device).")
    return libraries.popitem()[1]


def prepare(**arrays: Array) -> tuple[Any, Any, list[Array]]:
    """Check the inputs; return their library, the dtype of the result, and the inputs in the dtype to compute in."""
    xp = namespace_of(**arrays)
    dtypes = []
    for name, array in arrays.items():
        if xp.isdtype(array.dtype, ("bool", "integral")):
            dtypes.append(xp.float64)
        elif xp.isdtype(array.dtype, "real floating"):
            dtypes.append(array.dtype)
        else:
            raise TypeError(f"{name} must hold real numbers, but its dtype is {array.dtype}.")
    dtype = xp.result_type(*dtypes)
    wide = xp.result_type(dtype, xp.float32)  # float16 sums overflow and bfloat16 sums stall
    return xp, dtype, [xp.astype(array, wide, copy=False) for array in arrays.values()]


def number_like(xp: Any, name: str, number: Any, like: Array) -> Any:
    """A number, or an array that holds one number (and may be learned), that leaves the dtype of `like` alone."""
    if isinstance(number, Real) and not isinstance(number, bool):
        return float(number)
    if is_array_api_obj(number) and number.ndim == 0:
        prepare(**{name: number, "query": like})
        return xp.astype(number, like.dtype, copy=False)
    raise TypeError(f"{name} must be a number, but it is {number!r}.")


def shape_of(array: Array) -> tuple[int, ...]:
    return tuple(array.shape)


def check_query_and_key(query: Array, key: Array) -> None:
    if query.ndim < 1 or key.ndim < 2:
        raise ValueError(
            "query must have shape (..., n_q, d_k) or (d_k,) and key (..., n_k, d_k), "
            f"but query has shape {shape_of(query)} and key has shape {shape_of(key)}."
        )
    check_leading_axes(query=query, key=key)


def check_same_width(query: Array, key: Array) -> None:
    check_query_and_key(query, key)
    if query.shape[-1] != key.shape[-1]:
        hint = " Is the key transposed? Each row is one key." if query.shape[-1] == key.shape[-2] else ""
        raise ValueError(
            "query (..., n_q, d_k) and key (..., n_k, d_k) must agree in d_k, "
            f"but query has shape {shape_of(query)} and key has shape {shape_of(key)}.{hint}"
        )


def check_values(name: str, values: Array, other_name: str, other: Array, n_k: int) -> None:
    if values.ndim < 2 or values.shape[-2] != n_k:
        raise ValueError(
            f"{name} must have shape (..., n_k, d_v), one row for each of n_k = {n_k} keys, "
            f"but {other_name} has shape {shape_of(other)} and {name} has shape {shape_of(values)}."
        )


def check_parameter(name: str, parameter: Array, letters: str, wanted: tuple[int, int], **others: Array) -> None:
    if shape_of(parameter) != wanted:
        because = " and ".join(f"{other} has shape {shape_of(array)}" for other, array in others.items())
        hint = " Is it transposed?" if shape_of(parameter) == wanted[::-1] else ""
        raise ValueError(
            f"{name} must have shape {letters} = {wanted}, since {because}, "
            f"but it has shape {shape_of(parameter)}.{hint}"
        )


def check_mask(xp: Any, scores: Array, mask: Array) -> None:
    """A mask broadcasts to the scores (..., n_q, n_k), and is bool or float."""
    n_q, n_k = scores.shape[-2:]
    # A mask may be shared by all queries or by all keys; it must not turn one query or one key into several.
    fits = all(size in (1, n) for size, n in zip(shape_of(mask)[-2:][::-1], (n_k, n_q), strict=False))
    if not fits:
        raise ValueError(
            f"A mask must broadcast to (..., n_q, n_k) = (..., {n_q}, {n_k}), "
            f"but scores have shape {shape_of(scores)} and mask has shape {shape_of(mask)}."
        )
    check_leading_axes(scores=scores, mask=mask)
    if not xp.isdtype(mask.dtype, ("bool", "real floating")):
        raise TypeError(
            f"A mask is bool (True = may attend) or float (added to the scores), but this one is {mask.dtype}. "
            "If 1 means 'may attend', pass mask == 1."
        )


def check_leading_axes(**arrays: Array) -> None:
    """The axes before the last two are batch axes, and must broadcast."""
    try:
        np.broadcast_shapes(*(shape_of(array)[:-2] for array in arrays.values()))
    except ValueError:
        shapes = " and ".join(f"{name} has shape {shape_of(array)}" for name, array in arrays.items())
        raise ValueError(f"All axes but the last two must broadcast, but {shapes}.") from None
