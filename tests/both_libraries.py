"""Helpers of the core's tests: the same values in NumPy and in torch."""

import numpy as np
import torch


def to_numpy(values, dtype="float64"):
    return np.asarray(values, dtype=dtype)


def to_torch(values, dtype="float64"):
    return torch.tensor(np.asarray(values), dtype=getattr(torch, dtype))


def check(result, expected, atol=5e-5):
    """Same shape and values; four digits unless told, as in the public reports that some values come from."""
    result = np.asarray(result.detach() if isinstance(result, torch.Tensor) else result)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=0, atol=atol)


def dtype_name(result):
    return str(result.dtype).removeprefix("torch.")
