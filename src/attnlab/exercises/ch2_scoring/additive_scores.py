"""Exercise 2.2: additive_scores, and what people write instead."""

from dataclasses import replace

import numpy as np

from attnlab import softmax
from attnlab.core import additive

from ..common import INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise
from ._words import ONE_OF_EACH, ONE_QUERY, PAIRS, WEIGHTS_ALREADY, paired


@exercise(
    "2.2",
    points=3,
    section="Additive scoring: a grid of pairs",
    statement=(
        "Score every query against every key with a small network: vᵀ tanh(W_q q + W_k k). Queries and keys may\n"
        "be whole numbers. When W_q and W_k change nothing (ones on the diagonal, zeros elsewhere) and v = [1, 1],\n"
        "the query [1, 0] and the key [0, 1] score tanh 1 + tanh 1 ≈ 1.523."
    ),
    hints=[
        "Project first: one row of h numbers for each query, one for each key. No loop is needed for that.",
        "Give queries and keys an axis each: shapes (n_q, 1, h) and (n_k, h) add up to (n_q, n_k, h), every pair once.",
        "`a[:, None, :]` puts in an axis of length 1. At the end, `hidden @ v` sums over the h units.",
    ],
)
def additive_scores(queries, keys, W_q, W_k, v):
    """The scores vᵀ tanh(W_q q + W_k k) of all pairs.

    queries (n_q, d_q), keys (n_k, d_k), W_q (h, d_q), W_k (h, d_k), v (h,)
    → (n_q, n_k)
    """
    from_queries = queries @ W_q.T  # (n_q, h)
    from_keys = keys @ W_k.T  # (n_k, h)
    hidden = np.tanh(from_queries[:, None, :] + from_keys)  # (n_q, n_k, h)
    return hidden @ v


@additive_scores.probes
def _(rng):  # equal sizes, where a missing grid or projection raises no error; then unequal ones
    sizes = [(4, 4, 3, 3, 3), (3, 3, 4, 4, 4), (4, 5, 3, 6, 2), (5, 2, 4, 3, 7)]  # (n_q, n_k, h, d_q, d_k)
    cases = [
        tuple(rng.normal(size=shape) for shape in [(n_q, d_q), (n_k, d_k), (h, d_q), (h, d_k), (h,)])
        for n_q, n_k, h, d_q, d_k in sizes
    ]
    return [*cases, tuple(a.astype(np.float32) for a in cases[2])]


@additive_scores.hard_probes
def _():
    W_q, W_k, v = (
        np.array([[0.5, -1.0], [1.0, 0.25]]),
        np.array([[1.0, 0.5, -1.0], [0.25, 0, 1.0]]),
        np.array([1.0, -2]),
    )
    queries, keys = np.array([[1.0, 2.0], [0.0, -1.0]]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [3.0, 1.0, -1.0]])
    return {
        "integers": Probe((queries.astype(int), keys.astype(int), W_q, W_k, v), INTEGERS, True),
        "one query": Probe((queries[:1], keys, W_q, W_k, v), ONE_QUERY),
        "one query and one key": Probe((queries[:1], keys[:1], W_q, W_k, v), ONE_OF_EACH),
        "one hidden unit": Probe(
            (queries, keys, W_q[:1], W_k[:1], v[:1]), "With one hidden unit the answer is still of shape (n_q, n_k)."
        ),
        "huge inputs": Probe(
            (1000 * queries, keys, W_q, W_k, v),
            "for inputs around 1000 your tanh is not a number. `np.tanh` gives 1 or −1 there.",
            advice=True,
        ),
    }


_ROW_CONSTANT = (
    "The score is then a part of the query plus a part of the key. Softmax over the keys cancels the query's part, so "
    "that all queries get the same weights."
)


@additive_scores.choice_points(
    pairs={
        "matching only": replace(PAIRS["matching only"], seen_in="sooftware/attentions#2"),
        "keys first": PAIRS["keys first"],
    },
    projection={
        "none": Wrong(
            "Queries and keys are added as they come: W_q and W_k are not used.",
            seen_in="tensorflow/tensorflow#43471",
            hint="What would you add if queries and keys had different widths?",
        ),
        "transposed": Wrong(
            "The projections are `queries @ W_q` and `keys @ W_k`: the matrices stand the wrong way round. W_q has a "
            "row for each hidden unit, so its transpose is needed. Square ones raise no error.",
            hint="Which axis of W_q has the length of a query?",
        ),
        "W_q twice": Wrong(
            "The keys are projected with W_q. They have a matrix of their own, W_k.", hint="Has `W_k` been used?"
        ),
    },
    tanh={
        "none": Wrong(f"The tanh is missing. {_ROW_CONSTANT}", hint="Do your weights depend on the query?"),
        "each part": Wrong(
            f"The tanh is taken of the two parts before they are added. {_ROW_CONSTANT}",
            hint="Can your score be written as f(q) + g(k)?",
        ),
        "after v": Wrong(
            "The tanh comes after v. It belongs inside, between the sum and v; as it is, no score leaves (−1, 1).",
            hint="Does tanh act on h numbers for each pair, or on one?",
        ),
        "logistic": Wrong("The logistic function 1/(1 + e^−x) stands in the place of tanh: it has no negative values."),
        "relu": Wrong("max(x, 0) stands in the place of tanh: it has no negative values and no upper limit."),
    },
    sum={
        "left out": Wrong(
            "The hidden units are added up without v: each counts alike.",
            hint="Has `v` been used?",
        ),
        "averaged": Wrong(
            "The products with v are averaged over the h units; the formula adds them.",
            hint="Is there a division in vᵀ tanh(…)?",
        ),
        "not summed": Wrong(
            "The hidden units are multiplied by v but not added up: `*` keeps the axis of h, `@` sums over it.",
            hint="How many numbers does one pair get?",
        ),
    },
)
def _(queries, keys, W_q, W_k, v, *, pairs="all", projection="own", tanh="inside", sum="with v"):
    if projection == "none":
        a, b = queries, keys
    elif projection == "transposed":
        a, b = queries @ W_q, keys @ W_k
    else:
        a, b = queries @ W_q.T, keys @ (W_q if projection == "W_q twice" else W_k).T
    if tanh == "each part":
        a, b = np.tanh(a), np.tanh(b)
    grid = a[:, None] + b
    if tanh == "inside":
        grid = np.tanh(grid)
    elif tanh == "logistic":
        grid = 1 / (1 + np.exp(-grid))
    elif tanh == "relu":
        grid = np.maximum(grid, 0)
    grid = paired(grid, pairs)
    if sum == "left out":
        scores = grid.sum(axis=-1)
    elif sum == "not summed":
        scores = grid * v
    else:
        scores = grid @ v / (len(v) if sum == "averaged" else 1)
    if tanh == "after v":
        scores = np.tanh(scores)
    return scores


@additive_scores.mistake(
    "multiplied",
    "The projected query and key are multiplied. This score is named after the sum of the two.",
    hint="What stands between W_q q and W_k k in the formula?",
)
def _(queries, keys, W_q, W_k, v):
    return np.tanh((queries @ W_q.T)[:, None] * (keys @ W_k.T)) @ v


@additive_scores.mistake(
    "by root of h",
    "The scores are divided by √h. This score has no scale: tanh keeps each unit within −1 and 1, and v can hold any "
    "factor.",
    hint="Is there a root in the formula?",
)
def _(queries, keys, W_q, W_k, v):
    return additive(queries, keys, W_q, W_k, v) / np.sqrt(len(v))


@additive_scores.mistake(
    "by root of d_k",
    "The scores are divided by √d_k. That belongs to the scaled dot product; this score has no scale.",
    hint="Is there a root in the formula?",
)
def _(queries, keys, W_q, W_k, v):
    return additive(queries, keys, W_q, W_k, v) / np.sqrt(keys.shape[-1])


@additive_scores.mistake("softmax", WEIGHTS_ALREADY.text, hint=WEIGHTS_ALREADY.hint)
def _(queries, keys, W_q, W_k, v):
    return softmax(additive(queries, keys, W_q, W_k, v))


@additive_scores.mistake("like queries", LIKE_INPUT.text, hint=LIKE_INPUT.hint)
def _(queries, keys, W_q, W_k, v):
    return additive(queries, keys, W_q, W_k, v).astype(queries.dtype)


@additive_scores.variant
def with_loops(queries, keys, W_q, W_k, v):
    return np.array([[v @ np.tanh(W_q @ query + W_k @ key) for key in keys] for query in queries])


@additive_scores.variant
def einsum(queries, keys, W_q, W_k, v):
    a, b = np.einsum("qd,hd->qh", queries, W_q), np.einsum("kd,hd->kh", keys, W_k)
    return np.einsum("h,qkh->qk", v, np.tanh(np.expand_dims(a, 1) + np.expand_dims(b, 0)))


@additive_scores.variant
def concatenated(queries, keys, W_q, W_k, v):  # the other way to write it: one matrix on query and key side by side
    n_q, n_k = len(queries), len(keys)
    pairs = np.hstack([np.repeat(queries, n_k, axis=0), np.tile(keys, (n_q, 1))])
    return (np.tanh(pairs @ np.hstack([W_q, W_k]).T) @ v).reshape(n_q, n_k)


@additive_scores.variant
def exponentials(queries, keys, W_q, W_k, v):  # tanh by hand, in the form that does not overflow
    x = (queries @ W_q.T)[:, None] + (keys @ W_k.T)[None]
    e = np.exp(-2 * np.abs(x))
    return (np.sign(x) * (1 - e) / (1 + e) * v).sum(axis=2)
