"""Exercise 1.2: scaled_scores, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT, SCALE, query_and_keys, scaled
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.2",
    points=1,
    section="From query and keys to scores",
    statement=(
        "Score one query against all keys: each dot product, divided by the root of the number of components.\n"
        "The inputs may be whole numbers. For the query [1, 0] and the keys [1, 0], [0, 1] the scores are 1/√2\n"
        "and 0."
    ),
    hints=[
        "The score of key i is the dot product of the query with row i of `keys`, divided by √d_k.",
        "`keys @ query` gives all dot products; d_k is `query.shape[-1]`.",
    ],
)
def scaled_scores(query, keys):
    """Scaled dot products of one query with all keys.

    query (d_k,), keys (n_k, d_k) → (n_k,)
    """
    return keys @ query / query.shape[-1] ** 0.5


scaled_scores.probes(query_and_keys)


@scaled_scores.hard_probes
def _():
    return {
        "integers": Probe((np.array([1, 0]), np.array([[1, 0], [0, 1], [3, 1]])), INTEGERS, True),
        "a single key": Probe(
            (np.array([1.0, 2.0, 2.0]), np.array([[1.0, 0.0, 1.0]])),
            "With a single key there is one score, of shape (1,).",
        ),
        "a zero query": Probe(
            (np.zeros(3), np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])), "For a query of zeros every score is 0."
        ),
    }


@scaled_scores.choice_points(
    scale=SCALE,
    sign={
        "minus": Wrong(
            "The sign is turned round: the best match gets the lowest score.",
            hint="What is the score of a key that is equal to the query?",
        ),
    },
    product={
        "cosine": Wrong(
            "Both vectors are divided by their lengths: that is the cosine. The dot product keeps the lengths, "
            "and the score of a longer key lies further from zero.",
            hint="Should a key that is twice as long get the same score?",
        ),
        "distance": Wrong(
            "This scores by the distance between query and key, not by their dot product. The two are sure to "
            "rank keys alike when all keys have the same length, and else they are not.",
            hint="What is the score of a key that is equal to the query, but ten times as long?",
        ),
        "softmax": Wrong(
            "These are the weights already. The scores are asked for: leave softmax to the next step.",
            hint="Do scores have to sum to one?",
        ),
        "not added": Wrong(
            "The components are multiplied in pairs, but not added up: a dot product is the *sum* of these products, "
            "one number for each key.",
            hint="How many scores does one key get?",
        ),
        "everything added": Wrong(
            "The products of *all* keys are added up, to a single number. Each key has a score of its own: add along "
            "its components alone, `axis=-1`.",
            hint="Which axis does `np.sum` add over when you name none?",
        ),
    },
    storage={"like query": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(query, keys, *, scale="root", sign="plus", product="dot", storage="floating", inputs="kept"):
    scores = keys @ query
    if product == "cosine":
        lengths = np.linalg.norm(keys, axis=-1) * np.linalg.norm(query)
        scores = np.divide(scores, lengths, out=np.zeros(len(keys)), where=lengths > 0)
    elif product == "not added":
        scores = keys * query
    elif product == "everything added":
        scores = np.sum(keys * query)
    elif product == "distance":
        scores = -np.linalg.norm(keys - query, axis=-1)
    scores = scaled(scores, query, keys, scale) * (1 if sign == "plus" else -1)
    if product == "softmax":
        scores = softmax(scores)
    if inputs == "overwritten":
        query /= np.sqrt(query.shape[-1])
    return scores.astype(query.dtype) if storage == "like query" else scores


@scaled_scores.mistake(
    "cosine, unscaled",
    "Both vectors are divided by their lengths: that is the cosine. The scaled dot product keeps the lengths "
    "and divides by √d_k only.",
    hint="Should a key that is twice as long get the same score?",
)
def _(query, keys):
    lengths = np.linalg.norm(keys, axis=-1) * np.linalg.norm(query)
    return np.divide(keys @ query, lengths, out=np.zeros(len(keys)), where=lengths > 0)


@scaled_scores.mistake(
    "by the query's length",
    "The dot products are divided by the length of the query as an arrow, the root of its summed squares. What belongs "
    "below the fraction bar is √d_k, where d_k only counts its components.",
    hint="Should a query that is twice as long get the same scores?",
)
def _(query, keys):
    length = np.linalg.norm(query)
    return keys @ query / length if length else np.zeros(len(keys))


@scaled_scores.variant
def query_first(query, keys):  # a report held this to be an error (getalp/Flaubert PR#45); it is the same number
    return keys @ (query / np.sqrt(query.shape[-1]))


@scaled_scores.variant
def summed(query, keys):
    return np.array([sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]) * len(query) ** -0.5
