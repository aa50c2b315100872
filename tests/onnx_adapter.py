"""ONNX's `Attention` node in terms of this course, and the cases that the ONNX project ships with expected outputs.

The node does more than attention: it splits heads, repeats shared ones, keeps a cache, caps scores, and has a causal
alignment of its own.  All of that is done here, in NumPy, so that what is judged is `attnlab` and nothing else.
"""

import importlib
from unittest.mock import patch

import numpy as np
import torch
from onnx import helper
from onnx.backend.test.case import node

from attnlab import attend, attention, scaled_dot

INPUTS = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
OUTPUTS = ["Y", "present_key", "present_value", "qk_matmul_output"]


def collect(op_type):
    """The cases of one node, made by importing its module of `onnx`; the expanded forms of each are left out.

    Left alone, `collect_testcases` imports the modules of all nodes: some seconds, and warnings from other nodes.
    """

    def import_one(package):
        importlib.import_module(f"{package.__name__}.{op_type.lower()}")

    state = np.random.get_state()  # noqa: NPY002 — making the cases seeds NumPy's global generator
    try:
        with patch.object(node, "import_recursive", import_one):
            cases = node.collect_testcases(op_type)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    cases = [case for case in cases if case.model.graph.node[0].op_type == op_type]  # it returns earlier ones too
    return [case for case in cases if "expanded" not in case.name]


def read(case):
    """Inputs and expected outputs by the node's own names for them, and its attributes."""
    (call,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in call.attribute}
    return _named(INPUTS, call.input, inputs), _named(OUTPUTS, call.output, outputs), attributes


def _named(names, present, arrays):
    names = [name for name, given in zip(names, present, strict=False) if given]  # "" stands for one that is left out
    return dict(zip(names, arrays, strict=True))


def onnx_attention(
    library,
    Q,
    K,
    V,
    attn_mask=None,
    past_key=None,
    past_value=None,
    nonpad_kv_seqlen=None,
    *,
    is_causal=0,
    kv_num_heads=None,
    left_window_size=-1,
    q_num_heads=None,
    qk_matmul_output_mode=0,
    right_window_size=-1,
    scale=None,
    softcap=0.0,
    softmax_precision=1,
):
    """All four outputs of the node, computed by `attnlab` in one of the two libraries."""
    assert softmax_precision in (1, 11)  # float32, float64: attnlab computes in float32 at least
    is_3d = Q.ndim == 3
    if is_3d:
        Q, K, V = _split(Q, q_num_heads), _split(K, kv_num_heads), _split(V, kv_num_heads)  # (B, H, n, d)
    if past_key is not None:
        K, V = np.concatenate([past_key, K], axis=2), np.concatenate([past_value, V], axis=2)
    present_key, present_value = K, V
    shared_by = Q.shape[1] // K.shape[1]  # each head of keys serves so many neighbouring heads of queries
    K, V = np.repeat(K, shared_by, axis=1), np.repeat(V, shared_by, axis=1)

    n_past = 0 if past_key is None else past_key.shape[2]
    allowed = _allowed_positions(
        Q.shape[2], K.shape[2], n_past, nonpad_kv_seqlen, is_causal, left_window_size, right_window_size
    )
    mask = _combine(allowed, attn_mask)
    query, key, value = (_to_library(array, library) for array in (Q, K, V))

    scores = capped = scaled_dot(query, key, scale)  # (B, H, n_q, n_k)
    if softcap:
        xp = torch if library == "torch" else np
        capped = softcap * xp.tanh(scores / softcap)
        output, weights = attend(capped, value, _to_library(mask, library))
    else:
        output, weights = attention(query, key, value, _to_library(mask, library), scale=scale)

    scores, capped, weights, output = (_from_library(array) for array in (scores, capped, weights, output))
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype("float64")
    return {
        "Y": _merge(output) if is_3d else output,
        "present_key": present_key,
        "present_value": present_value,
        "qk_matmul_output": (scores, capped, capped + bias, weights)[qk_matmul_output_mode],
    }


def _allowed_positions(n_q, n_k, n_past, n_real, is_causal, left, right):
    """What causality, a window and padding allow: bool (n_q, n_k), or (B, 1, n_q, n_k) where lengths are given.

    Query i stands at position i + n_past, so that without a cache the *first* query meets the first key, whatever
    n_q and n_k.  With lengths instead of a cache, the last query meets the last real key.
    """
    offset = n_past if n_real is None else np.reshape(n_real, (-1, 1, 1, 1)) - n_q
    keys = np.arange(n_k)
    ahead = keys - (np.arange(n_q)[:, None] + offset)  # (n_q, n_k) or (B, 1, n_q, n_k)
    allowed = np.ones_like(ahead, dtype=bool)
    if is_causal:
        allowed &= ahead <= 0
    if left >= 0:
        allowed &= ahead >= -left
    if right >= 0:
        allowed &= ahead <= right
    if n_real is not None:
        allowed &= keys < np.reshape(n_real, (-1, 1, 1, 1))
    return allowed


def _combine(allowed, mask):
    """One mask, bool or float, out of both; a mask shorter than the keys forbids those that it does not mention."""
    if mask is None:
        return allowed
    forbidden = mask.dtype.type(False if mask.dtype == bool else -np.inf)
    missing = allowed.shape[-1] - mask.shape[-1]
    mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=forbidden)
    return np.where(allowed, mask, forbidden)


def _split(x, n_heads):
    """(B, n, H · d) → (B, H, n, d)"""
    return x.reshape(*x.shape[:2], n_heads, -1).swapaxes(1, 2)


def _merge(x):
    """(B, H, n, d) → (B, n, H · d)"""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _to_library(array, library):
    """Into NumPy or torch.  NumPy has no bfloat16 of its own: such arrays stay in float32 there."""
    is_bfloat16 = array.dtype.name == "bfloat16"
    array = array.astype("float32") if is_bfloat16 else array
    if library == "numpy":
        return array
    tensor = torch.tensor(array)
    return tensor.bfloat16() if is_bfloat16 else tensor


def _from_library(array):
    return array.double().numpy() if isinstance(array, torch.Tensor) else array.astype("float64")
