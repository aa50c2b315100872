"""Exercise 1.8: attend_one_query, and what people write instead."""

from dataclasses import replace

import numpy as np

from attnlab import softmax

from ..common import HUGE, IN_PLACE, INTEGERS, LIKE_INPUT, OVERFLOW, SCALE, SHIFT_MEAN, WORST_FIRST, scaled, shifted_exp
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.8",
    points=3,
    section="Any number of pairs",
    statement=(
        "Attention for one query, from the inputs to the output. You may use `softmax`, and nothing else of\n"
        "`attnlab`. The inputs may be whole numbers, and scores may go into the thousands. With the query [1], the\n"
        "keys [0] and [ln 3] and the values [4, 0] and [0, 4] the output is [1, 3]."
    ),
    hints=[
        "Three steps, one line each: scores, weights, mixture. What does each take, and what does it give?",
        "Scores: dot products divided by √d_k. Weights: softmax. Output: the weights mix the *values*, not the keys.",
    ],
)
def attend_one_query(query, keys, values):
    """Attention for one query.

    query (d_k,), keys (n_k, d_k), values (n_k, d_v) → output (d_v,)
    """
    scores = keys @ query / query.shape[-1] ** 0.5
    weights = softmax(scores)
    return weights @ values


@attend_one_query.probes
def _(rng):
    sizes = [(5, 6, 7), (3, 4, 3), (6, 3, 5)]  # (n_k, d_k, d_v)
    cases = [(rng.normal(size=k) * 1.5, rng.normal(size=(n, k)), rng.normal(size=(n, v))) for n, k, v in sizes]
    return [*cases, tuple(a.astype(np.float32) for a in cases[0])]


@attend_one_query.hard_probes
def _():
    eye = np.eye(2)
    return {
        "huge scores": Probe((np.array([1500.0, 1501.0]), eye, np.array([[2.0, 0.0, 1.0], [0.0, 4.0, 1.0]])), HUGE),
        "one score far above": Probe(
            (np.array([4500.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.eye(3)),
            "One score far above the others still overflows: subtract the largest, not another one.",
        ),
        "the seed in integers": Probe((np.array([1, 0]), eye.astype(int), np.array([[2, 0], [0, 4]])), INTEGERS, True),
        "values of one component": Probe(
            (np.array([1.0, 2.0]), eye, np.array([[3.0], [1.0]])),
            "With d_v = 1 the output is still an array, of shape (1,).",
        ),
        "a single pair": Probe(
            (np.array([1.0, 2.0]), eye[:1], np.array([[3.0, -1.0]])), "With one pair the output is its value."
        ),
        "equal keys": Probe(
            (np.array([1.0, 2.0]), np.ones((2, 2)), np.array([[3.0, -1.0], [1.0, 1.0]])),
            "With equal keys the output is the mean of the values.",
        ),
    }


@attend_one_query.choice_points(
    scale={
        **SCALE,
        "by d_v": Wrong(
            "The scale is taken from the values' size d_v. Scores compare query and key: √d_k belongs there.",
            seen_in="juho-lee/set_transformer#18",
            hint="Do the values take part in the scores?",
        ),
    },
    sign={"minus": replace(WORST_FIRST, hint="Which weight does a key get that is equal to the query?")},
    mix={
        "keys": Wrong(
            "The weights mix the *keys*. Keys are for comparing; what is mixed is the values.",
            hint="How many components should the output have, d_k or d_v?",
        ),
        "weights only": Wrong(
            "These are the weights. One step is missing: let them mix the values.",
            hint="Has `values` been used?",
        ),
        "scores": Wrong(
            "The raw scores mix the values; softmax is missing, so the shares are no shares.",
            hint="What do the numbers that multiply the values sum to?",
        ),
        "winner": Wrong(
            "Only the best match's value comes back. Attention mixes: every value keeps its share.",
            hint="What happened to the second-best value?",
        ),
        "mean": Wrong(
            "All values get the same share: query and keys are not used.",
            hint="Would your result change with another query?",
        ),
        "no sum": Wrong(
            "The values are multiplied by their weights but not added up.",
            hint="How many vectors should come back?",
        ),
        "averaged": Wrong(
            "The weighted values are averaged instead of added: the result is n_k times too small, "
            "for the weights have divided already.",
            hint="What would the result be if all values were equal?",
        ),
        "softmaxed values": Wrong(
            "Softmax is applied to the values too. They are mixed as they are.",
            hint="With a single pair, should its value come back unchanged?",
        ),
    },
    normalise={
        "not": Wrong(
            "The exponentials are not divided by their sum, so the shares do not sum to 1.",
            hint="What do your weights sum to?",
        ),
        "scaled after": Wrong(
            "The weights are divided by √d_k after softmax, so they no longer sum to 1. It is the scores that are "
            "divided, before.",
            hint="What do your weights sum to?",
        ),
        "over one number": Wrong(
            "Every weight is 1, whatever the scores: softmax ran over an axis that holds a single number. "
            "It must run over the keys.",
            seen_in="PetrochukM/PyTorch-NLP#2",
            hint="Which axis of your scores counts the keys?",
        ),
        "twice": Wrong(
            "Softmax is applied twice, to the scores and to the weights: the second one flattens them.",
            hint="How far apart can two numbers lie that softmax has already been applied to?",
        ),
    },
    shift={"none": OVERFLOW, "mean": SHIFT_MEAN},
    storage={"like values": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(
    query,
    keys,
    values,
    *,
    scale="root",
    sign="plus",
    mix="values",
    normalise="once",
    shift="max",
    storage="floating",
    inputs="kept",
):
    product = keys @ query * (1 if sign == "plus" else -1)
    scores = product / np.sqrt(values.shape[-1]) if scale == "by d_v" else scaled(product, query, keys, scale)
    exps = shifted_exp(scores, shift)
    weights = exps if normalise == "not" else exps / exps.sum()
    if normalise == "twice":
        weights = softmax(weights)
    elif normalise == "over one number":
        weights = np.ones_like(weights)
    elif normalise == "scaled after":
        weights = weights / np.sqrt(query.shape[-1])
    if mix == "keys":
        values = keys
    elif mix == "softmaxed values":
        values = softmax(values * 1.0)
    elif mix == "scores":
        weights = scores
    elif mix == "winner":
        weights = (scores == scores.max()) / (scores == scores.max()).sum()
    elif mix == "mean":
        weights = np.full(len(keys), 1 / len(keys))
    parts = weights[:, None] * values
    if storage == "like values":
        parts = parts.astype(values.dtype)
    if inputs == "overwritten":
        query /= np.sqrt(query.shape[-1])
    if mix == "weights only":
        return weights
    if mix == "no sum":
        return parts
    return parts.mean(axis=0) if mix == "averaged" else parts.sum(axis=0)


@attend_one_query.mistake(
    "no softmax, no scale",
    "The plain dot products mix the values: scale and softmax are both missing.",
    hint="What do the numbers that multiply the values sum to?",
)
def _(query, keys, values):
    return (keys @ query) @ values


@attend_one_query.mistake(
    "no exponential",
    "The scores are divided by their sum, without `exp` (the scale then cancels). A score may be negative, and so may "
    "the sum: softmax takes exponentials first, which never are.",
    hint="What becomes of a negative score?",
)
def _(query, keys, values):
    scores = keys @ query
    return scores / scores.sum() @ values


@attend_one_query.mistake(
    "softmax last",
    "The raw scores mix the values, and softmax comes last, over the output's components. It belongs one step earlier: "
    "it makes weights of the scores, one for each key.",
    hint="Along which axis should the shares sum to 1, keys or components?",
)
def _(query, keys, values):
    return softmax(keys @ query / query.shape[-1] ** 0.5 @ values)


@attend_one_query.variant
def with_loops(query, keys, values):
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) / len(query) ** 0.5 for key in keys]
    exps = [np.exp(s - max(scores)) for s in scores]
    out = np.zeros(values.shape[1])
    for e, value in zip(exps, values, strict=True):
        out = out + e / sum(exps) * value
    return out


@attend_one_query.variant
def with_einsum(query, keys, values):
    exps = np.einsum("d,kd->k", query, keys) * query.shape[-1] ** -0.5
    exps = np.exp(exps - exps.max())
    return np.einsum("k,kv->v", exps, values) / exps.sum()


@attend_one_query.variant
def query_scaled_first(query, keys, values):
    return softmax(keys @ (query / np.sqrt(len(query)))) @ values
