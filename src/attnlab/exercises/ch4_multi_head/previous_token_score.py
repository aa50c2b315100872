"""Exercise 4.9: previous_token_score, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.9",
    points=2,
    section="A job that can be checked",
    statement=(
        "How much does each head look at the token just before? For each head, take the weight that a query gives to\n"
        "the key just before its own, and average it over the queries. The first token has none before it and does\n"
        "not count. In the text PyTorch did it in two lines; write it in NumPy, from memory. A head with the rows\n"
        "[1, 0, 0], [0.6, 0.4, 0], [0.1, 0.7, 0.2] scores (0.6 + 0.7) / 2 = 0.65."
    ),
    hints=[
        "In the row of query i, the weight wanted stands in column i − 1. How many rows have such a column?",
        "Those entries form a diagonal, and `np.diagonal` takes an `offset`. Which two of the three axes does it take "
        "if you name none, and which should it take?",
    ],
)
def previous_token_score(weights):
    """For each head, the mean weight of the key just before the query.

    weights (n_heads, n, n): head, query, key; n is at least 2
    → (n_heads,)
    """
    before = np.diagonal(weights, offset=-1, axis1=1, axis2=2)
    return before.mean(axis=-1)


@previous_token_score.probes
def _(rng):
    # (n_heads, n). As many heads as tokens, and as tokens but one: there an exchanged axis raises no error.
    sizes = [(3, 5), (4, 4), (3, 4), (2, 6)]
    scores = [1.5 * rng.normal(size=(heads, n, n)) for heads, n in sizes]
    for each in scores:
        each[0, 0, -1] = 12  # somewhere the first token looks at the last: to count it must always show
    cases = [softmax(each) for each in scores]
    return [*((w,) for w in cases), (cases[0].astype(np.float32),)]


@previous_token_score.hard_probes
def _():
    steady, fading = np.eye(4, k=-1, dtype=int), np.eye(4, dtype=int)
    steady[0, 0] = 1
    fading[1] = steady[1]
    return {
        "one head": Probe(
            (np.array([[[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.1, 0.7, 0.2]]]),),
            "One head gives an array with one number, of shape (1,).",
        ),
        "two tokens": Probe(
            (np.array([[[1.0, 0.0], [0.25, 0.75]], [[0.5, 0.5], [1.0, 0.0]]]),),
            "Of two tokens only the second has one before it.",
        ),
        "all or nothing": Probe(
            (1.0 * np.stack([steady, fading]),),
            "A head that always looks one back scores 1, one that does so once in three times ⅓.",
        ),
        "integers": Probe((np.stack([steady, fading]),), INTEGERS, arrays_only=True, advice=True),
    }


@previous_token_score.choice_points(
    key={
        "next": Wrong(
            "Read off is the diagonal *above* the main one: the weight that a query gives to the token just *after* "
            "it; or what a key gets from the query before it, rows and columns exchanged. Rows are queries.",
            hint="In a causal head, what stands above the main diagonal?",
        ),
        "itself": Wrong(
            "Read off is the main diagonal: the weight that a token gives to itself.",
            hint="Which column of row 3 belongs to the token before token 3?",
        ),
        "itself, but for the first": Wrong(
            "The first row is left out, as it should be; but what is averaged of the others is the weight that a token "
            "gives to itself.",
            hint="Which column of row 3 belongs to the token before token 3?",
        ),
        "any before": Wrong(
            "All weights below the main diagonal are added up: what a query gives to *any* earlier token. Only the one "
            "just before counts.",
            hint="How many weights of row 3 enter your sum?",
        ),
        "first to last": Wrong(
            "The first query counts too: column −1 of its row is, in Python, the *last* key. It has no token before it "
            "and does not count.",
            hint="What does Python fetch for `row[0 - 1]`?",
        ),
    },
    divide={
        "by n": Wrong(
            "The sum is divided by n, but only n − 1 queries have a token before them. A head that always looks one "
            "back would score less than 1.",
            hint="How many numbers did you add up?",
        ),
        "by n²": Wrong(
            "The mean runs over all n² entries, with zeros where the mask is zero. Divide the sum by the number of "
            "queries that count.",
            hint="What should a head score that always looks one back?",
        ),
        "not": Wrong("This is the sum. For the mean, divide by the number of queries that count."),
    },
    measure={
        "softmax again": Wrong(
            "The weights go through softmax once more, which flattens them. They are weights already.",
            hint="Do the rows that you were given sum to one?",
        ),
        "share of rows": Wrong(
            "You count how often the key just before gets the *largest* weight. The mean of the weights themselves is "
            "asked for: a weight of 0.51 and one of 0.99 differ.",
            hint="What becomes of the weights 0.6 and 0.7 in the example?",
        ),
        "largest": Wrong(
            "The largest of these weights is taken. One token can have it by chance; the mean tells what a head does.",
            hint="Which operation joins the queries of a head?",
        ),
    },
    heads={
        "mixed": Wrong(
            "One number for all heads: they are averaged, before or at the end. A head that looks back and one that "
            "does not become two half-hearted ones. Some libraries return weights averaged like that.",
            seen_in="pytorch/pytorch#34537",
            hint="What is the mean of a head that scores 1 and one that scores 0, and which head does that?",
        ),
        "averaged": Wrong(
            "The mean runs over the *heads*: one number for each query. It should run over the queries, and leave one "
            "for each head.",
            hint="Which axis counts the heads?",
        ),
    },
)
def _(weights, *, key="before", divide="by n − 1", measure="mean", heads="apart"):
    n = weights.shape[-1]
    if measure == "softmax again":
        weights = softmax(weights * 1.0)
    if measure == "share of rows":
        weights = 1.0 * (weights.argmax(axis=-1)[..., None] == np.arange(n))
    read = _read(weights, key)
    score = {"by n": read.sum(axis=-1) / n, "by n²": read.sum(axis=-1) / n**2, "not": read.sum(axis=-1)}.get(
        divide, read.mean(axis=-1)
    )
    score = read.max(axis=-1) if measure == "largest" else score
    return {"mixed": score.mean(), "averaged": read.mean(axis=0)}.get(heads, score)


def _read(weights, key):
    """What is read off of each head, (n_heads, the queries that count)."""
    every = np.arange(weights.shape[-1])
    later = every[1:]
    if key == "any before":
        return np.tril(weights, k=-1).sum(axis=-1)[:, 1:]
    queries, keys = {
        "next": (every[:-1], later),
        "itself": (every, every),
        "itself, but for the first": (later, later),
        "first to last": (every, every - 1),
    }.get(key, (later, later - 1))
    return weights[:, queries, keys]


@previous_token_score.mistake(
    "diagonal through the heads",
    "The diagonal runs through heads and queries: left alone, `diagonal` takes the *first two* axes. Name the two "
    "last ones, `axis1=1, axis2=2`.",
    hint="Which axes of (n_heads, n, n) are queries and keys, and which does your diagonal run through?",
)
def _(weights):
    return np.diagonal(weights, offset=-1).mean(axis=-1)


@previous_token_score.mistake(
    "diagonal through the heads, not averaged",
    "The diagonal runs through heads and queries, and its entries are not averaged. Left alone, `diagonal` takes the "
    "*first two* axes: name the two last ones, `axis1=1, axis2=2`.",
    hint="Which axes of (n_heads, n, n) are queries and keys, and which does your diagonal run through?",
)
def _(weights):
    return np.diagonal(weights, offset=-1)


@previous_token_score.mistake(
    "not averaged",
    "These are the weights themselves, one for each query. Average them: each head gets one number.",
    hint="How many numbers should a head get?",
)
def _(weights):
    return np.diagonal(weights, offset=-1, axis1=1, axis2=2)


@previous_token_score.mistake(
    "all but one row and column",
    "The first row and the last column are gone, as they should be, but all that is left is averaged. Only its "
    "diagonal counts.",
    hint="How many numbers enter your mean when a head has four tokens?",
)
def _(weights):
    return weights[:, 1:, :-1].mean(axis=(1, 2))


@previous_token_score.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights):
    n = weights.shape[-1]
    weights *= np.eye(n, k=-1)  # raises for integers
    return weights.sum(axis=(1, 2)) / (n - 1)


@previous_token_score.variant
def by_slices(weights):  # without the first query and the last key, the diagonal is the main one
    return np.einsum("hqq->h", weights[:, 1:, :-1]) / (weights.shape[-1] - 1)


@previous_token_score.variant
def with_loops(weights):
    scores = []
    for head in weights:
        scores.append(sum(head[i][i - 1] for i in range(1, len(head))) / (len(head) - 1))
    return np.array(scores)


@previous_token_score.variant
def under_a_mask(weights):
    n = weights.shape[-1]
    return np.where(np.eye(n, k=-1, dtype=bool), weights, 0).sum(axis=(-2, -1)) / (n - 1)


@previous_token_score.variant
def flattened(weights):  # in a flattened matrix the diagonal's entries are n + 1 apart
    heads, n, _ = weights.shape
    return weights.reshape(heads, -1)[:, n :: n + 1].mean(axis=1)
