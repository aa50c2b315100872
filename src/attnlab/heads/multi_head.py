"""The layer: projections to queries, keys and values, attention in each head, a projection back.  Imports torch."""

from typing import Any

import torch
from torch import Tensor, nn

from attnlab.core import Attended, attention
from attnlab.heads import _is_count, merge, split

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Multi-head attention: W_o · concat over heads h of attention(W_q[h] query, W_k[h] key, W_v[h] value).

    d_model     the width of queries and outputs; each head gets d_head = d_model / n_heads features of it
    n_heads     the number of query heads
    n_kv_heads  the number of key and value heads; None means n_heads.  With fewer, neighbouring query heads share:
                4 heads over 2 read them in the order [0, 0, 1, 1].  1 is multi-query attention
    d_key       the width of the key inputs, d_value that of the value inputs; None means d_model
    bias        whether the four projections add a bias

    `W_q`, `W_k`, `W_v`, `W_o` are `nn.Linear`.  To head h belong block h of the *rows* of W_q's weight, and block h
    of the *columns* of W_o's.  Scores are scaled by 1/√d_head.  There is no dropout.

    Weights start as in torch's `nn.MultiheadAttention`, number for number after the same seed: W_q, W_k, W_v uniform
    within ±√(6 / (inputs + outputs)), taken together as one matrix with d_model + 2 · n_kv_heads · d_head outputs where
    all inputs have the width d_model, else each by itself; W_o uniform within ±1/√d_model; biases 0.

    Raises ValueError where n_heads does not divide d_model, or n_kv_heads does not divide n_heads.

    Vaswani et al. 2017, "Attention Is All You Need", arXiv 1706.03762.  One key head: Shazeer 2019, "Fast Transformer
    Decoding: One Write-Head is All You Need", arXiv 1911.02150.  Some: Ainslie et al. 2023, "GQA: Training Generalized
    Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv 2305.13245.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        d_key = d_model if d_key is None else d_key
        d_value = d_model if d_value is None else d_value
        sizes = {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_key": d_key, "d_value": d_value}
        for name, size in sizes.items():
            if not _is_count(size):
                raise ValueError(f"{name} must be a whole number of at least 1, but it is {size!r}.")
        if d_model % n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads, but d_model is {d_model} and n_heads {n_heads}.")
        if n_heads % n_kv_heads:
            raise ValueError(
                f"n_heads must be a multiple of n_kv_heads, but n_heads is {n_heads} and n_kv_heads {n_kv_heads}."
            )
        self.d_model, self.n_heads, self.n_kv_heads = d_model, n_heads, n_kv_heads
        self.d_head = d_model // n_heads
        d_kv = n_kv_heads * self.d_head
        # skip_init draws no random numbers: as in torch's own module, those of W_o come first.
        options = {"bias": bias, "device": torch.get_default_device()}
        self.W_q = nn.utils.skip_init(nn.Linear, d_model, d_model, **options)
        self.W_k = nn.utils.skip_init(nn.Linear, d_key, d_kv, **options)
        self.W_v = nn.utils.skip_init(nn.Linear, d_value, d_kv, **options)
        self.W_o = nn.Linear(d_model, d_model, **options)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        weights = [self.W_q.weight, self.W_k.weight, self.W_v.weight]
        if len({weight.shape[1] for weight in weights}) == 1:
            packed = nn.init.xavier_uniform_(torch.cat(weights))  # (d_model + 2 d_kv, d_model)
            for weight, rows in zip(weights, packed.split([len(weight) for weight in weights]), strict=True):
                weight.copy_(rows)
        else:
            for weight in weights:
                nn.init.xavier_uniform_(weight)
        for projection in (self.W_q, self.W_k, self.W_v, self.W_o):
            if projection.bias is not None:
                projection.bias.zero_()

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Attended:
        """Self-attention for a query alone, cross-attention with a key; the key is also the value unless one is given.

        query (B, n_q, d_model), key (B, n_k, d_key), value (B, n_k, d_value)
        → Attended(output (B, n_q, d_model), weights (B, n_heads, n_q, n_k))

        mask       bool, True = may attend, or float, added to the scores.  (n_q, n_k) is shared by all; a mask with
                   **three axes has one matrix a sample**, (B, n_q, n_k) or (B, 1, n_k), the same for all heads; four
                   axes are (B, n_heads, n_q, n_k).  Axes of length 1 broadcast
        is_causal  forbids the keys after the query, with the last query at the last key; with a mask, both must allow

        A query that may attend to no key has zero weights; its output is the bias of W_o.

        Raises ValueError for shapes that do not fit; TypeError for what is no tensor of floating-point numbers, for a
        value without a key and for masks that are neither bool nor float.
        """
        if key is None and value is not None:
            raise TypeError("value was given without a key: pass both, or neither for self-attention.")
        key = query if key is None else key
        value = key if value is None else value
        self._check(query, key, value)
        n_batch, n_q, n_k = len(query), query.shape[1], key.shape[1]
        if mask is not None:
            mask = _with_heads(mask, (n_batch, self.n_heads, n_q, n_k))  # (B or 1, n_heads or 1, n_q or 1, n_k or 1)

        q = split(self.W_q(query), self.n_heads)  # (B, n_heads, n_q, d_head)
        k = split(self.W_k(key), self.n_kv_heads)  # (B, n_kv_heads, n_k, d_head)
        v = split(self.W_v(value), self.n_kv_heads)  # (B, n_kv_heads, n_k, d_head)
        # Query heads that share a key head are neighbours: [0, 0, 1, 1], not [0, 1, 0, 1].
        group = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # (B, n_heads, n_k, d_head)
        output, weights = attention(q, k, v, mask, is_causal=is_causal)  # (B, n_heads, n_q, d_head), (…, n_q, n_k)
        return Attended(self.W_o(merge(output)), weights)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        inputs = {
            "query": (query, "n_q", self.W_q.in_features),
            "key": (key, "n_k", self.W_k.in_features),
            "value": (value, "n_k", self.W_v.in_features),
        }
        for name, (x, n, d) in inputs.items():
            if not isinstance(x, Tensor):
                raise TypeError(f"{name} is of type {type(x).__name__}, but this layer takes tensors: torch.as_tensor.")
            if x.ndim != 3 or x.shape[-1] != d:
                hint = "" if x.ndim != 2 or x.shape[-1] != d else f" A batch of one is {name}[None]."
                raise ValueError(
                    f"{name} must have shape (B, {n}, d) with d = {d}, but it has shape {tuple(x.shape)}.{hint}"
                )
            if not x.is_floating_point():
                raise TypeError(f"{name} must hold floating-point numbers, but it is {x.dtype}. A mask goes to mask=….")
        if not len(query) == len(key) == len(value) or key.shape[1] != value.shape[1]:
            shapes = ", ".join(f"{name} has shape {tuple(x.shape)}" for name, (x, *_) in inputs.items())
            raise ValueError(f"query, key and value must agree in B, key and value in n_k, but {shapes}.")

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}"

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A layer with copies of the weights of torch's `nn.MultiheadAttention`, on its device and in its dtype.

        The result takes the batch first, whatever `module.batch_first` is, and masks in the convention of this course
        (`attnlab.masks.to_torch_mha` translates them for the module).  Its weights are those of each head, which the
        module returns with average_attn_weights=False.

        Raises TypeError for what is no nn.MultiheadAttention or computes something else, ValueError for what this layer
        does not have: add_bias_kv, add_zero_attn, and dropout in training.  In eval mode, dropout does nothing; the
        result has none, also when trained.
        """
        if getattr(type(module), "forward", None) is not nn.MultiheadAttention.forward:
            raise TypeError(f"module must be a torch nn.MultiheadAttention, but it is a {type(module).__name__}.")
        if module.bias_k is not None:
            raise ValueError("module has add_bias_kv=True, a learned key and value for all, which this layer has not.")
        if module.add_zero_attn:
            raise ValueError("module has add_zero_attn=True, a key and value of zeros, which this layer has not.")
        if module.dropout > 0 and module.training:
            raise ValueError(
                f"module is in training with dropout = {module.dropout}, which this layer has not: call module.eval()."
            )
        packed = module.in_proj_weight
        apart = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        weights = apart if packed is None else packed.chunk(3)
        parameters: dict[str, Any] = {"W_o.weight": module.out_proj.weight}
        parameters |= {f"{name}.weight": weight for name, weight in zip(("W_q", "W_k", "W_v"), weights, strict=True)}
        has_bias = module.in_proj_bias is not None
        if has_bias:
            biases = (*module.in_proj_bias.chunk(3), module.out_proj.bias)
            parameters |= {f"{name}.bias": b for name, b in zip(("W_q", "W_k", "W_v", "W_o"), biases, strict=True)}
        with torch.device("meta"):  # shapes without numbers: nothing is drawn, and the session's random numbers stay
            layer = cls(module.embed_dim, module.num_heads, d_key=module.kdim, d_value=module.vdim, bias=has_bias)
        layer.load_state_dict({name: p.detach().clone() for name, p in parameters.items()}, assign=True)
        return layer.train(module.training)


def _with_heads(mask: Tensor, wanted: tuple[int, int, int, int]) -> Tensor:
    """The mask with an axis of heads, so that it broadcasts to (B, n_heads, n_q, n_k) and to nothing larger."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask is of type {type(mask).__name__}, but this layer takes tensors: torch.as_tensor(mask).")
    four = mask[:, None] if mask.ndim == 3 else mask
    if four.ndim > 4 or any(size not in (1, n) for size, n in zip(four.shape[::-1], wanted[::-1], strict=False)):
        raise ValueError(
            "mask must have shape (n_q, n_k), (B, n_q, n_k) with one matrix a sample, or (B, n_heads, n_q, n_k), "
            f"with 1 for an axis that is shared, but (B, n_heads, n_q, n_k) is {wanted} and mask has shape "
            f"{tuple(mask.shape)}."
        )
    return four
