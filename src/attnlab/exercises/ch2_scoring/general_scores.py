"""Exercise 2.1: general_scores, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise
from ._words import ONE_OF_EACH, ONE_QUERY, PAIRS, WEIGHTS_ALREADY, paired


@exercise(
    "2.1",
    points=1,
    section="The dot product, and a matrix in between",
    statement=(
        "Score every query against every key with a matrix in between: qᵀ W k. Queries and keys may have\n"
        "different widths, and may be whole numbers. With the query [1, 2], the key [3] and W = [[1], [10]] the\n"
        "only score is 1·1·3 + 2·10·3 = 63."
    ),
    hints=[
        "W turns a query of width d_q into a vector of width d_k, which can meet a key in a dot product.",
        "Write the shapes under each other: (n_q, d_q), (d_q, d_k), then (d_k, n_k). Which of the three is "
        "still to be transposed?",
    ],
)
def general_scores(queries, keys, W):
    """The scores qᵀ W k of all pairs.

    queries (n_q, d_q), keys (n_k, d_k), W (d_q, d_k) → (n_q, n_k)
    """
    return queries @ W @ keys.T


@general_scores.probes
def _(rng):  # square W, as many queries as keys: there Wᵀ and a missing grid raise no error; then unequal sizes
    sizes = [(4, 4, 3, 3), (5, 5, 4, 4), (4, 5, 3, 6), (5, 3, 6, 2)]  # (n_q, n_k, d_q, d_k)
    cases = [
        (rng.normal(size=(n_q, d_q)), rng.normal(size=(n_k, d_k)), rng.normal(size=(d_q, d_k)))
        for n_q, n_k, d_q, d_k in sizes
    ]
    return [*cases, tuple(a.astype(np.float32) for a in cases[2])]


@general_scores.hard_probes
def _():
    W = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])
    keys = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0], [2.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    return {
        "integers": Probe((np.array([[1, 2], [0, 3]]), np.array([[1, 2, 0], [0, -1, 3]]), W), INTEGERS, True),
        "one query": Probe((np.array([[1.0, 2.0]]), keys, W), ONE_QUERY),
        "one query and one key": Probe((np.array([[1.0, 2.0]]), keys[:1], W), ONE_OF_EACH),
    }


@general_scores.choice_points(
    matrix={
        "transposed": Wrong(
            "W is applied from the wrong side: this is qᵀ Wᵀ k. A square W raises no error, and W is hardly ever "
            "symmetric.",
            hint="Which axis of W has the length of a query, the first or the second?",
        ),
        "left out": Wrong(
            "W is not used: these are plain dot products, which need queries and keys of the same width.",
            hint="Would your scores change if every entry of W were doubled?",
        ),
        "twice": Wrong(
            "W is applied to the queries and to the keys: this is qᵀ W Wᵀ k. One of the two is enough, "
            "for the score has a single W in it.",
            hint="If W is doubled, does your score double?",
        ),
        "symmetrised": Wrong(
            "W is averaged with its transpose. The score may treat queries and keys differently: W stays as it is.",
            hint="Must the score of a and b be that of b and a?",
        ),
    },
    pairs={
        **PAIRS,
        "not summed": Wrong(
            "`*` multiplies component by component and adds nothing. A dot product also adds: use `@` with `keys.T`.",
            hint="What is the difference between `a * b` and `a @ b`?",
        ),
    },
    end={
        "by root of d_k": Wrong(
            "The scores are divided by √d_k. This score has no scale: W can hold any factor.",
            hint="Is there a root in qᵀ W k?",
        ),
        "by root of d_q": Wrong(
            "The scores are divided by √d_q. This score has no scale: W can hold any factor.",
            hint="Is there a root in qᵀ W k?",
        ),
        "softmax": WEIGHTS_ALREADY,
    },
)
def _(queries, keys, W, *, matrix="W", pairs="all", end="scores"):
    if matrix == "symmetrised":
        W = (W + W.T) / 2
    elif matrix == "transposed":
        W = W.T
    left = queries if matrix == "left out" else queries @ W
    right = keys @ W if matrix == "twice" else keys
    scores = paired(left @ right.T, pairs) if pairs != "not summed" else left * right
    if end == "softmax":
        scores = softmax(scores)
    elif end != "scores":
        scores = scores / np.sqrt((keys if end == "by root of d_k" else queries).shape[-1])
    return scores


@general_scores.mistake("like queries", LIKE_INPUT.text, hint=LIKE_INPUT.hint)
def _(queries, keys, W):
    return (queries @ W @ keys.T).astype(queries.dtype)


@general_scores.variant
def keys_first_then_turned(queries, keys, W):
    return (keys @ W.T @ queries.T).T


@general_scores.variant
def einsum(queries, keys, W):
    return np.einsum("qi,ij,kj->qk", queries, W, keys)


@general_scores.variant
def with_loops(queries, keys, W):
    scores = np.zeros((len(queries), len(keys)))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            scores[i, j] = sum(query[a] * W[a, b] * key[b] for a in range(len(query)) for b in range(len(key)))
    return scores


@general_scores.variant
def in_single_precision(queries, keys, W):
    queries, keys, W = (a.astype(np.float32) for a in (queries, keys, W))
    return queries @ (keys @ W.T).T
