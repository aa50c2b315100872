"""Gradients of tiled attention, from tiles of weights that are computed a second time.  Imports torch."""

from typing import Any

import torch
from torch import Tensor

from attnlab.efficient.tiled import Tiling, attend_by_tiles, cut

__all__ = ["Recomputed"]


class Recomputed(torch.autograd.Function):
    """`attend_by_tiles`, which keeps its inputs, the output and one number a query, and no weights."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, tiling: Tiling) -> Tensor:
        output, logsumexp = attend_by_tiles(query, key, value, mask, tiling)
        ctx.save_for_backward(query, key, value, mask, output, logsumexp)
        ctx.tiling = tiling
        return output

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor | None, ...]:
        """With P the weights and dP = dO · Vᵀ:  dV = Pᵀ · dO,  dS = P ∘ (dP - D),  dQ = dS · K,  dK = dSᵀ · Q.

        D = Σ P ∘ dP along each row is also Σ dO ∘ O, which needs no weights.
        """
        if torch.is_grad_enabled():  # torch's once_differentiable lets this pass where d_output is a constant
            raise RuntimeError(
                "The gradient of tiled_attention has no gradient of its own, which create_graph=True asks for. "
                "Take attnlab.attention there."
            )
        query, key, value, mask, output, logsumexp = ctx.saved_tensors
        tiling = ctx.tiling
        d_query, d_key, d_value = (torch.zeros_like(x) for x in (query, key, value))
        d_mask = torch.zeros_like(mask, dtype=query.dtype) if ctx.needs_input_grad[3] else None
        D = (d_output * output).sum(-1, keepdim=True)  # (..., n_q, 1)
        L = logsumexp.where(logsumexp > -torch.inf, 0.0)  # where nothing is allowed: -∞ - (-∞) would be NaN
        for rows, blocks in tiling:
            dO, D_rows, L_rows = (x[..., rows, :] for x in (d_output, D, L))
            for columns in blocks:
                P = (tiling.scores(query, key, mask, rows, columns) - L_rows).exp()  # (..., n_rows, n_columns)
                dP = dO @ value[..., columns, :].mT
                dS = P * (dP - D_rows)
                add(d_value[..., columns, :], P.mT @ dO)
                add(d_query[..., rows, :], dS @ key[..., columns, :] * tiling.scale)
                add(d_key[..., columns, :], dS.mT @ query[..., rows, :] * tiling.scale)
                if d_mask is not None:
                    add(cut(d_mask, rows, columns), dS)
        return d_query, d_key, d_value, d_mask, None


def add(total: Tensor, tile: Tensor) -> None:
    """Add to a view of the gradient.  What was broadcast in the forward pass is summed."""
    total += tile.sum_to_size(total.shape)
