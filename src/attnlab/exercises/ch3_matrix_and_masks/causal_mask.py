"""Exercise 3.2: causal_mask, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import DIAGONAL_BLOCKED, KIND, LOOKAHEAD, POLARITY


@exercise(
    "3.2",
    points=1,
    section="Causal masks",
    statement=(
        "Which keys may each query attend to, if none may look into the future? Write the mask, True where a query\n"
        "may attend. A token may attend to itself. Where there are more keys than queries, the first keys were there\n"
        "before (a cache): the *last* query sees the *last* key. Where there are fewer, the first rows allow nothing.\n"
        "For 2 queries and 3 keys the rows are [1, 1, 0] and [1, 1, 1], as truth values."
    ),
    hints=[
        "The last query may see the last key, the one before it one key fewer. Which key is the last one for query i?",
        "Query i may see the keys up to i + n_k − n_q. `np.tril` has an argument `k` for that, and takes booleans.",
    ],
)
def causal_mask(n_q, n_k):
    """Causal mask for n_q queries, the last of n_k positions.

    n_q and n_k are integers → (n_q, n_k) of bool, True = may attend;
    the last query sees every key
    """
    query = np.arange(n_q)[:, None]  # (n_q, 1)
    key = np.arange(n_k)  # (n_k,)
    return key <= query + n_k - n_q


@causal_mask.probes
def _(rng):
    n = int(rng.integers(4, 7))
    # Square, wide, tall. One query and one key twice each, for additive masks: an answer that is never finite is not
    # recognised, and they are finite only where all is allowed, to one query bottom-right, to one key top-left.
    return [(n, n), (n - 2, n + 1), (1, n), (1, n + 2), (n, 1), (n + 2, 1)]


@causal_mask.hard_probes
def _():
    return {
        "one query, one key": Probe((1, 1), "One query and one key: a mask of shape (1, 1) that allows the pair."),
        "more queries": Probe(
            (5, 3), "With more queries than keys the first queries lie before all keys, and their rows allow nothing."
        ),
        "many more keys": Probe((2, 9), "With many more keys than queries, every query sees all that came before."),
    }


@causal_mask.choice_points(
    side={"future": LOOKAHEAD},
    polarity=POLARITY,
    diagonal={
        "blocked": DIAGONAL_BLOCKED,
        "one too far": Wrong(
            "Each query sees one key too many, the next one: the token that it is to predict.",
            hint="Which is the last key that the last query but one may see?",
        ),
    },
    align={
        "top-left": Wrong(
            "The *first* query is lined up with the first key. With a cache the first key is long past: the last query "
            "must see the last key, so the diagonal moves by n_k − n_q. Square masks do not show the difference.",
            seen_in="pytorch/pytorch#103082",
            hint="One new query and four cached keys: how many of them may it see?",
        ),
        "other way": Wrong(
            "The diagonal is moved the wrong way: by n_q − n_k instead of n_k − n_q.",
            hint="With more keys than queries, do the queries see more, or less?",
        ),
    },
    size={
        "n_q by n_q": Wrong(
            "The mask is square, n_q by n_q. It needs one column a key: (n_q, n_k).", hint="What is one column for?"
        ),
        "n_k by n_k": Wrong(
            "The mask is square, n_k by n_k. It needs one row a query: (n_q, n_k).", hint="What is one row for?"
        ),
        "exchanged": Wrong(
            "Rows and columns are exchanged: (n_k, n_q). Rows are queries, columns are keys, as in the scores.",
            hint="Which shape does `queries @ keys.T` have?",
        ),
    },
    kind={
        **KIND,
        "additive": Wrong(
            "This is the additive form, 0 and −∞, made to be added to the scores. The boolean mask is asked for, from "
            "which this one follows by `np.where`.",
            hint="What does the docstring say the mask is made of?",
        ),
    },
)
def _(
    n_q, n_k, *, align="bottom-right", diagonal="own", side="past", polarity="allowed", size="n_q by n_k", kind="bool"
):
    rows, columns = {"n_q by n_q": (n_q, n_q), "n_k by n_k": (n_k, n_k), "exchanged": (n_k, n_q)}.get(size, (n_q, n_k))
    offset = {"top-left": 0, "other way": rows - columns}.get(align, columns - rows)
    ahead = np.arange(columns) - np.arange(rows)[:, None] - offset
    reach = {"blocked": -1, "one too far": 1}.get(diagonal, 0)
    mask = ahead <= reach if side == "past" else -ahead <= reach
    mask = ~mask if polarity == "turned" else mask
    if kind == "additive":
        return np.where(mask, 0.0, -np.inf)
    return mask.astype(int) if kind == "numbers" else mask


@causal_mask.mistake(
    "upper triangle of ones",
    "Ones above the diagonal: three things at once. They mark what is *forbidden*, they are numbers, and they line up "
    "the first query with the first key instead of the last with the last.",
    hint="For one query and four keys, which mask is asked for, and which one do you return?",
)
def _(n_q, n_k):
    return np.triu(np.ones((n_q, n_k)), k=1)


_TOP_LEFT = (
    "The *first* query is lined up with the first key. With a cache the first key is long past: the last query must "
    "see the last key, so query i sees the keys up to i + n_k − n_q. "
)


@causal_mask.mistake(
    "top-left, off the table",
    _TOP_LEFT + "(With more queries than keys, your loop runs off the table.)",
    hint="One new query and four cached keys: how many of them may it see?",
)
def _(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


@causal_mask.mistake(
    "top-left, cut from a square",
    _TOP_LEFT + "(You cut the *first* n_q rows from a square of n_k rows. It is the last ones, and with more queries "
    "than keys there are too few.)",
    hint="One new query and four cached keys: how many of them may it see?",
)
def _(n_q, n_k):
    return np.tri(n_k, dtype=bool)[:n_q]


@causal_mask.mistake(
    "never moved back",
    "The diagonal moves by n_k − n_q only where that is above 0. With more queries than keys it is below, and has to "
    "be: the first queries lie before all keys, and their rows allow nothing.",
    hint="With three queries and one key, which of the queries comes after the key?",
)
def _(n_q, n_k):
    return np.tri(n_q, n_k, max(0, n_k - n_q), dtype=bool)


@causal_mask.mistake(
    "negative end",
    "With more queries than keys the first queries lie before all keys, and your slice ends at a negative number. "
    "Python counts that from the *right*: `row[:-1]` is all but the last key. Such a row allows nothing, so the end "
    "needs a `max(0, …)`.",
    hint="With 5 queries and 3 keys, where does the slice of the first query end, and what does it hold?",
)
def _(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i, row in enumerate(mask):
        row[: i + 1 + n_k - n_q] = True
    return mask


@causal_mask.mistake(
    "large negative numbers",
    "These are numbers to be added to the scores, with −1e9 for what is forbidden. The boolean mask is asked for.",
    hint="What does the docstring say the mask is made of?",
)
def _(n_q, n_k):
    return np.where(causal_mask.reference(n_q, n_k), 0.0, -1e9)


@causal_mask.variant
def lower_triangle(n_q, n_k):
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)


@causal_mask.variant
def not_the_upper_triangle(n_q, n_k):  # held to be off by one in reports (pytorch/tutorials#2250); it is the same mask
    return ~np.triu(np.ones((n_q, n_k), dtype=bool), k=1 + n_k - n_q)


@causal_mask.variant
def upper_triangle_is_zero(n_q, n_k):
    return np.triu(np.ones((n_q, n_k)), k=n_k - n_q + 1) == 0


@causal_mask.variant
def with_loops(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(n_k):
            mask[i, j] = n_k - 1 - j >= n_q - 1 - i  # at least as far from the end
    return mask


@causal_mask.variant
def last_rows_of_the_square(n_q, n_k):
    n = max(n_q, n_k)
    return np.tri(n, dtype=bool)[n - n_q :, n - n_k :]
