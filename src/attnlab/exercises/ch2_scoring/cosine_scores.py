"""Exercise 2.7: cosine_scores, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise
from ._words import ONE_OF_EACH, ONE_QUERY, PAIRS, WEIGHTS_ALREADY, paired


@exercise(
    "2.7",
    points=2,
    section="When two scores are the same",
    statement=(
        "Score every query against every key by the cosine of the angle between them, divided by a\n"
        "temperature. The lengths of the vectors do not count: [3, 4] and [6, 8] have the cosine 1, at\n"
        "temperature ½ the score 2. A vector of zeros has no direction: all its scores are 0. The inputs may be\n"
        "whole numbers."
    ),
    hints=[
        "The cosine is the dot product divided by the length of the query and by the length of the key.",
        "`np.linalg.norm(keys, axis=-1)` gives one length for each key, in the shape (n_k,). Which shape must the "
        "lengths of the queries have, to divide the rows of a table (n_q, n_k)?",
        "Where a length is 0, divide by 1 instead: the dot product is 0 there already.",
    ],
)
def cosine_scores(queries, keys, temperature):
    """Cosine of each query with each key, divided by the temperature.

    queries (n_q, d), keys (n_k, d), temperature: a number above 0
    → (n_q, n_k); the scores of a vector of zeros are 0
    """
    lengths_q = np.linalg.norm(queries, axis=-1)[:, None]  # (n_q, 1)
    lengths = lengths_q * np.linalg.norm(keys, axis=-1)  # (n_q, n_k)
    lengths = np.where(lengths > 0, lengths, 1)
    return queries @ keys.T / lengths / temperature


@cosine_scores.probes
def _(rng):  # n_q = n_k = d, where a lost axis raises no error; then unequal sizes
    sizes = [(4, 4, 4, 0.4), (3, 3, 3, 0.7), (4, 5, 3, 0.25), (5, 2, 6, 1.6)]  # (n_q, n_k, d, temperature)
    cases = [(rng.normal(size=(n_q, d)) * 2, rng.normal(size=(n_k, d)), t) for n_q, n_k, d, t in sizes]
    return [*cases, (*(a.astype(np.float32) for a in cases[2][:2]), 0.8)]


_ZERO = "A vector of zeros has the length 0, and 0/0 is not a number. Its scores are to be 0, all others as they are."


@cosine_scores.hard_probes
def _():
    queries, keys = np.array([[3, 4], [1, -1]]), np.array([[6, 8], [0, 2], [-1, 1]])
    return {
        "integers": Probe((queries, keys, 2), INTEGERS, True),
        "a query of zeros": Probe((np.array([[0.0, 0.0], [3.0, 4.0]]), keys * 1.0, 0.5), _ZERO),
        "a key of zeros": Probe((queries * 1.0, np.array([[0.0, 0.0], [0.5, 1.0], [2.0, 0.0]]), 0.5), _ZERO),
        "one query": Probe((queries[:1] * 0.5, keys * 0.5, 0.5), ONE_QUERY),
        "one query and one key": Probe((queries[:1] * 0.5, keys[1:2] * 0.5, 0.5), ONE_OF_EACH),
        "short vectors": Probe(
            (queries * 1e-7, keys * 1e-7, 0.5),
            "for very short vectors your cosines come out too small: the number that keeps you from dividing by 0 is "
            "larger than their lengths.",
            advice=True,
        ),
    }


@cosine_scores.choice_points(
    lengths={
        "of queries only": Wrong(
            "Only the queries are divided by their lengths. A long key still scores higher than a short one.",
            hint="What happens to a score when its key is doubled?",
        ),
        "of keys only": Wrong(
            "Only the keys are divided by their lengths. A long query still gets larger scores than a short one.",
            hint="What happens to a score when its query is doubled?",
        ),
        "none": Wrong(
            "Nothing is divided by the lengths: these are dot products.",
            hint="What happens to a score when its key is doubled?",
        ),
        "of columns": Wrong(
            "The lengths are taken along the wrong axis: of the columns, not of the vectors. A vector is a row, its "
            "components run along the last axis.",
            hint="How many lengths do 5 keys have?",
        ),
        "of the table": Wrong(
            "`np.linalg.norm` without an axis gives one length for the whole table. Each row has its own.",
            hint="How many lengths do 5 keys have?",
        ),
        "keepdims forgotten": Wrong(
            "The lengths have lost their axis. For a square table NumPy still divides, but each *column* by a length "
            "that belongs to a row: use `keepdims=True` or `[:, None]`.",
            hint="Which shapes do `queries` and its lengths have, and how does NumPy line them up?",
        ),
        "queries' without an axis": Wrong(
            "The dot products are divided by the lengths of the queries in the shape (n_q,). With as many queries as "
            "keys NumPy still divides, but each *column* by the length of a query: put in an axis, `[:, None]`.",
            hint="Does NumPy divide the rows or the columns of a table by an array of shape (n,)?",
        ),
        "squared": Wrong(
            "The root is missing: this divides by the squared lengths. A vector twice as long scores half as much.",
            hint="What is the length of [3, 4]?",
        ),
        "sums": Wrong(
            "The lengths are sums of absolute values (`ord=1`). The cosine belongs to the root of the sum of squares.",
            hint="What is the length of [3, 4], 5 or 7?",
        ),
    },
    heat={
        "times": Wrong(
            "The cosines are multiplied by the temperature. Then *hot* means sharp; it should mean flat.",
            hint="At a temperature of 10, should the scores differ more or less?",
        ),
        "not used": Wrong("The temperature is not used.", hint="Would your scores change with the temperature?"),
    },
    pairs=PAIRS,
    zero={
        "not a number": Wrong(
            "A vector of zeros has the length 0, and 0/0 is not a number. Its scores are to be 0: let the divisor be 1 "
            "there.",
            hint="What does NumPy say to `0.0 / np.float64(0.0)`?",
        ),
    },
    inputs={"overwritten": IN_PLACE},
)
def _(
    queries,
    keys,
    temperature,
    *,
    lengths="of both",
    heat="divided",
    pairs="all",
    zero="0",
    inputs="kept",
):
    q, k = (_divided(vectors, lengths, zero) for vectors in (queries, keys))
    if lengths in ("of keys only", "none"):
        q = queries
    if lengths in ("of queries only", "none"):
        k = keys
    scores = q @ k.T
    if lengths == "queries' without an axis":
        size = np.linalg.norm(queries, axis=-1)
        scores = queries @ k.T / (size if zero == "not a number" else np.where(size > 0, size, 1))
    scores = paired(scores, pairs)
    if inputs == "overwritten":
        queries /= np.linalg.norm(queries, axis=-1)[:, None]  # raises for integers, as it does for whoever writes it
        keys /= np.linalg.norm(keys, axis=-1)[:, None]
    return scores * {"times": temperature, "not used": 1}.get(heat, 1 / temperature)


def _divided(vectors, lengths, zero):
    axis = {"of columns": 0, "of the table": None}.get(lengths, -1)
    if lengths == "sums":
        size = np.abs(vectors).sum(axis=-1, keepdims=True)
    else:
        size = np.linalg.norm(vectors, axis=axis, keepdims=lengths != "keepdims forgotten")
    if lengths == "squared":
        size = size**2
    return vectors / (size if zero == "not a number" else np.where(size > 0, size, 1))


@cosine_scores.mistake(
    "minus",
    "The sign is turned round: the key that points the same way gets the lowest score.",
    hint="What is the cosine of an angle of 0?",
)
def _(queries, keys, temperature):
    return -cosine_scores.reference(queries, keys, temperature)


@cosine_scores.mistake(
    "distance",
    "This is 1 − cosine, a distance: it is small for what is alike. The score is the cosine.",
    hint="Which key should get the highest score, the one that points the same way or the one opposite?",
)
def _(queries, keys, temperature):
    return (1 - cosine_scores.reference(queries, keys, 1)) / temperature


@cosine_scores.mistake(
    "by root of d",
    "The cosines are also divided by √d. They lie between −1 and 1 for any d, so nothing is left for a root to "
    "correct; the temperature is the scale.",
    hint="What is the largest cosine for d = 64?",
)
def _(queries, keys, temperature):
    return cosine_scores.reference(queries, keys, temperature) / np.sqrt(keys.shape[-1])


@cosine_scores.mistake(
    "scaled dot products",
    "These are scaled dot products: divided by √d, and not by the lengths of the two vectors.",
    hint="What happens to a score when its key is doubled?",
)
def _(queries, keys, temperature):
    return queries @ keys.T / np.sqrt(keys.shape[-1]) / temperature


def _with_a_little_more(little, added_to):
    def cosine(queries, keys, temperature):
        each = little if added_to == "each length" else 0
        lengths_q = np.linalg.norm(queries, axis=-1)[:, None] + each
        lengths = lengths_q * (np.linalg.norm(keys, axis=-1) + each) + little - each
        return queries @ keys.T / lengths / temperature

    cosine_scores.mistake(
        f"{little:g} added to {added_to}",
        "A small number is added to the lengths. That avoids 0/0, but it makes every cosine a little too small, the "
        "more the shorter the vectors; the lengths should not count. Change the length 0 only, for example with "
        "`np.where`.",
        hint="What is the cosine of a vector with itself in your code: 1, or a little less?",
    )(cosine)


for _little in (1e-8, 1e-9, 1e-10):
    for _added_to in ("each length", "the product"):
        _with_a_little_more(_little, _added_to)


@cosine_scores.mistake("softmax", WEIGHTS_ALREADY.text, hint=WEIGHTS_ALREADY.hint)
def _(queries, keys, temperature):
    return softmax(cosine_scores.reference(queries, keys, temperature))


@cosine_scores.mistake("like queries", LIKE_INPUT.text, hint=LIKE_INPUT.hint)
def _(queries, keys, temperature):
    return cosine_scores.reference(queries, keys, temperature).astype(queries.dtype)


@cosine_scores.variant
def each_side_first(queries, keys, temperature):
    q, k = (v / np.maximum(np.sqrt((v**2).sum(axis=1, keepdims=True)), 1e-12) for v in (queries, keys))
    return q @ k.T / temperature


@cosine_scores.variant
def dividing_where(queries, keys, temperature):
    lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(keys, axis=1))
    dots = np.einsum("qd,kd->qk", queries, keys).astype(float)
    return np.divide(dots, lengths * temperature, out=np.zeros(lengths.shape), where=lengths > 0)


@cosine_scores.variant
def with_loops(queries, keys, temperature):
    scores = np.zeros((len(queries), len(keys)))
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            lengths = np.sqrt(sum(query**2)) * np.sqrt(sum(key**2))
            if lengths > 0:
                scores[i, j] = query @ key / lengths / temperature
    return scores


@cosine_scores.variant
def repaired(queries, keys, temperature):
    with np.errstate(all="ignore"):
        q, k = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (queries, keys))
        return np.nan_to_num(q @ k.T) / temperature
