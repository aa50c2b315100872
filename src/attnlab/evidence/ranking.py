"""Rankings of the keys, or of the tokens, of one example, and how far two rankings agree.

Attention weights are one ranking.  The others here ask the values, the gradient, or the model itself, which answers
without a key, or with another token in its place.  They need not agree, and none is the truth: each answers a question
of its own.

Kendall's τ-b as a measure of agreement, and leave-one-out and gradients beside attention: Jain, Wallace 2019,
"Attention is not Explanation", arXiv 1902.10186.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import device

from attnlab._inputs import Array, prepare, shape_of
from attnlab.evidence._protocol import Predict, as_numpy, check_weights, divided_by_sum, one_row, outputs_of

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "agreement_table",
    "agreements",
    "gradient_x_input",
    "leave_one_out",
    "rank_agreement",
    "replace_each",
    "value_weighted",
]


# -------------------------------------------------------------------------------------------------------------- scores


def value_weighted(weights: Array, values: Array) -> Array:
    """How much each key adds to the output: weight × ‖value‖, divided by its sum over the keys.

    weights (..., n), values (..., n, d) → (..., n), a value for each key of each row.  As in `attnlab.attend`, weights
    (..., n_q, n) with as many axes as the values (..., n, d) are rows of n_q queries that share the values.

    A key with a value of length 0 adds nothing, whatever its weight.  Where all products are 0, so is the result.

    Raises ValueError, naming the shapes, where they do not fit.
    """
    xp, dtype, (weights, values) = prepare(weights=weights, values=values)
    given = shape_of(weights), shape_of(values)
    if values.ndim < 2 or weights.ndim < 1 or weights.shape[-1] != values.shape[-2]:
        raise _no_fit(*given)
    lengths = xp.linalg.vector_norm(values, axis=-1)  # (..., n)
    if weights.ndim < values.ndim and given[0] != shape_of(lengths):
        raise _no_fit(*given)
    if weights.ndim >= values.ndim:
        lengths = lengths[..., None, :]  # (..., 1, n): the queries share them
        try:
            fits = np.broadcast_shapes(given[0], shape_of(lengths)) == given[0]
        except ValueError:
            fits = False
        if not fits:
            raise _no_fit(*given)
    carried = weights * lengths  # (..., n)
    return xp.astype(divided_by_sum(xp, carried), dtype, copy=False)


def leave_one_out(predict: Predict, weights: Array, *, renormalize: bool = True) -> Array:
    """What the output loses with each key: predict(weights) − predict(weights without key i).

    predict: (r, n) → (r,); weights (n,) → (n,), signed: positive where the key raises the output.  The n rows without
    a key, and before them the row itself, go to predict in one call.

    The other weights are divided by their sum, so that they are weights again.  With renormalize=False they stay as
    they are: then all weights together are smaller, and the difference says also what that does.  A key that has all
    of the weight leaves a row of zeros, never NaN.

    Raises ValueError where shapes do not fit or, with renormalize, where the weights do not sum to one.
    """
    xp, dtype, row = one_row(weights)
    n = row.shape[0]
    without = xp.where(xp.eye(n, dtype=xp.bool, device=device(row)), xp.zeros_like(row), row)  # (n, n): i lacks key i
    if renormalize:
        check_weights(xp, "weights", row)
        without = divided_by_sum(xp, without)
    rows = xp.astype(xp.concat([row[None, :], without]), dtype, copy=False)  # (1 + n, n)
    of_output, outputs = outputs_of(predict, rows)
    return xp.astype(outputs[0] - outputs[1:], of_output, copy=False)


def replace_each(
    predict_tokens: Callable[[list[list[Any]]], Array], tokens: Sequence[Any], replacement: Any = None
) -> Array:
    """What the output loses with each token: the output of all tokens − the output without token i.

    predict_tokens: a list of m lists of tokens, not always of one length → m outputs (m,), NumPy or torch.  It is
    called once.  tokens, a list of n words or ids, or an array of ids (n,) → (n,), signed: positive where the token
    raises the output.

    replacement  None: token i is deleted, and the text is shorter; of a single token an empty list remains
                 a token: it takes the place of token i
                 a list of tokens, or an array of ids: the mean over the outputs with each of them in its place

    Raises ValueError for an empty list of replacements, for an array of more axes, and for outputs that are not one a
    list; TypeError for a text in place of tokens.
    """
    if isinstance(tokens, str):
        raise TypeError(f"tokens must be a list of tokens, but it is one text, {tokens!r}: pass the list of its words.")
    tokens = _listed("tokens", tokens)
    if replacement is None:
        middles: list[list[Any]] = [[]]
    else:
        is_one = isinstance(replacement, str | bytes) or not isinstance(replacement, Iterable)
        is_one = is_one or getattr(replacement, "ndim", 1) == 0  # a tensor of one id
        middles = [[other] for other in ([replacement] if is_one else _listed("replacement", replacement))]
    if not middles:
        raise ValueError("replacement is an empty list: pass at least one token, or None to delete.")
    texts = [tokens[:i] + middle + tokens[i + 1 :] for i in range(len(tokens)) for middle in middles]
    outputs = predict_tokens([list(tokens), *texts])
    xp, dtype, (outputs,) = prepare(**{"predict_tokens(lists)": outputs})
    if shape_of(outputs) != (1 + len(texts),):
        raise ValueError(
            f"predict_tokens must return one number for each list of tokens, shape ({1 + len(texts)},), "
            f"but it returned shape {shape_of(outputs)}."
        )
    replaced = xp.mean(xp.reshape(outputs[1:], (len(tokens), len(middles))), axis=1)  # (n,)
    return xp.astype(outputs[0] - replaced, dtype, copy=False)


def _listed(name: str, tokens: Any) -> list[Any]:
    if getattr(tokens, "ndim", 1) != 1:
        raise ValueError(f"{name} must have shape (n,), one id a token, but the array has shape {shape_of(tokens)}.")
    return list(tokens)


def gradient_x_input(function: "Callable[[Tensor], Tensor]", inputs: "Tensor") -> "Tensor":
    """Σ over features of input · gradient, one number for each of the n inputs, signed.

    function: a torch tensor (n, d), such as the embeddings of n tokens → one number; inputs (n, d) → (n,)

    For a function that is linear in the inputs, row i is what the function loses when input i becomes 0.  For any
    other it is only the slope at this point: the first term of what is lost.

    The gradients of the model's parameters are left alone, and the result carries none.

    Raises ValueError for another shape, for more than one number, and where no gradient arrives at the inputs.
    """
    import torch

    if not isinstance(inputs, torch.Tensor) or not inputs.is_floating_point():
        kind = inputs.dtype if isinstance(inputs, torch.Tensor) else type(inputs).__name__
        raise TypeError(f"inputs must be a torch tensor of floating numbers, such as embeddings, but it is {kind}.")
    if inputs.ndim != 2:
        raise ValueError(f"inputs must have shape (n, d), one row a token, but they have shape {shape_of(inputs)}.")
    with torch.enable_grad():
        x = inputs.detach().requires_grad_()
        output = function(x.clone())  # a copy: the function may work in place
        if not isinstance(output, torch.Tensor) or output.numel() != 1:
            what = f"shape {shape_of(output)}" if isinstance(output, torch.Tensor) else type(output).__name__
            raise ValueError(f"function must return one number as a torch tensor, but it returned {what}.")
        gradient = None
        if output.requires_grad:
            (gradient,) = torch.autograd.grad(output.reshape(()), [x], allow_unused=True)
    if gradient is None:
        raise ValueError(
            "No gradient arrives at the inputs: function does not use its argument, "
            "or cuts it off with .detach(), .data, .item() or torch.no_grad()."
        )
    return (x.detach() * gradient).sum(dim=-1)


# ----------------------------------------------------------------------------------------------------------- agreement


def rank_agreement(a: Array, b: Array) -> float:
    """Kendall's τ-b of two score vectors a (n,), b (n,): 1 for the same order, −1 for the reverse, 0 for no relation.

    Pairs in the same order minus pairs in opposite orders, divided by √(pairs not tied in a · pairs not tied in b).
    Where one of them is constant there is no order to agree with, and the result is NaN.

    Raises ValueError for shapes that differ and for scores that are NaN.
    """
    from scipy import stats

    a, b = _scores("a", a), _scores("b", b)
    if a.shape != b.shape:
        raise ValueError(f"a and b must have one shape (n,), but a has shape {a.shape} and b has shape {b.shape}.")
    if _is_constant(a) or _is_constant(b):
        return float("nan")
    return float(stats.kendalltau(a, b).statistic)


def agreements(rankings: Mapping[str, Sequence[Array]]) -> tuple[list[str], np.ndarray]:
    """τ-b between all pairs of k rankings, example by example: names (k), and a NumPy array (k, k, number of examples).

    rankings  name → the scores of example 1 (n₁,), of example 2 (n₂,), …, for all names the same examples

    NaN where one side is constant: np.isnan(taus).sum(axis=-1) counts these.

    Raises ValueError for different numbers of examples, and for an example whose scores differ in number.
    """
    if not isinstance(rankings, Mapping):
        raise TypeError(f"rankings must be a dictionary, name → scores, but it is of type {type(rankings).__name__}.")
    names = list(rankings)
    lengths = {name: len(rankings[name]) for name in names}
    if not names or len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(
            f"rankings must hold one number of examples under each name, at least 1, but it has {lengths}."
        )
    taus = np.ones((len(names), len(names), lengths[names[0]]))
    for example in range(taus.shape[-1]):
        scores = [_scores(f"rankings[{name!r}][{example}]", rankings[name][example]) for name in names]
        if len({len(row) for row in scores}) != 1:
            found = ", ".join(f"{name} has {len(row)}" for name, row in zip(names, scores, strict=True))
            raise ValueError(f"All rankings of one example must score the same keys, but of example {example} {found}.")
        for i, row in enumerate(scores):
            if _is_constant(row):
                taus[i, i, example] = np.nan
            for j in range(i):
                taus[i, j, example] = taus[j, i, example] = rank_agreement(row, scores[j])
    return names, taus


def agreement_table(rankings: Mapping[str, Sequence[Array]]) -> tuple[list[str], np.ndarray]:
    """Mean τ-b between all pairs of k rankings: their names (k), and a NumPy array (k, k) in the same order.

    rankings  name → the scores of example 1 (n₁,), of example 2 (n₂,), …, for all names the same examples

    An example where one side of a pair is constant is left out of the mean of this pair; `agreements` has each τ, and
    counts those.  A pair for which no example remains has NaN.
    """
    names, taus = agreements(rankings)
    counts = ~np.isnan(taus)  # (k, k, number of examples)
    total, number = np.where(counts, taus, 0).sum(axis=-1), counts.sum(axis=-1)
    return names, np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def _no_fit(weights: tuple[int, ...], values: tuple[int, ...]) -> ValueError:
    return ValueError(
        "values (..., n, d) need weights (..., n) with the same axes, or weights (..., n_q, n) as of n_q queries, "
        f"but weights has shape {weights} and values has shape {values}."
    )


def _scores(name: str, scores: Array) -> np.ndarray:
    scores = as_numpy(scores, name)
    if scores.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), one score for each key, but it has shape {scores.shape}.")
    if np.isnan(scores).any():
        raise ValueError(f"{name} has a score that is NaN: it has no rank.")
    return scores


def _is_constant(scores: np.ndarray) -> bool:
    return len(scores) < 2 or bool((scores == scores[0]).all())
