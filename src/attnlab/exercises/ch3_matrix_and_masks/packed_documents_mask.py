"""Exercise 3.4: packed_documents_mask, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import DIAGONAL_BLOCKED, EITHER, KIND, LOOKAHEAD, POLARITY


@exercise(
    "3.4",
    points=1,
    section="A small algebra of masks",
    statement=(
        "Several documents are packed into one row of tokens, and `ids` holds the number of each token's document. A\n"
        "token may attend to the tokens of its own document that are not later than itself. The numbers are names and\n"
        "no order, 0 is a name like any other, and the tokens of a document need not be neighbours: for the ids\n"
        "[0, 1, 0] the rows are [1, 0, 0], [0, 1, 0] and [1, 0, 1], as truth values."
    ),
    hints=[
        "Two conditions, joined with `&`: the same document, and not later.",
        "`ids[:, None] == ids` compares every token with every token.",
    ],
)
def packed_documents_mask(ids):
    """Causal mask that keeps documents apart.

    ids (n,) of integers, the document of each token
    → (n, n) of bool, True = may attend
    """
    same = ids[:, None] == ids  # (n, n)
    position = np.arange(len(ids))
    return same & (position <= position[:, None])


@packed_documents_mask.probes
def _(rng):
    # In each: a document that comes back, one that follows a larger number, and one called 0.
    patterns = [[0, 1, 0, 2, 2], [1, 0, 0, 1, 2, 1], [2, 2, 0, 1, 1, 0, 2], [1, 1, 0, 1]]
    return [(np.concatenate([rng.permutation(3)[pattern], rng.permutation(3)]),) for pattern in patterns]


@packed_documents_mask.hard_probes
def _():
    return {
        "one document": Probe((np.array([4, 4, 4]),), "One document alone: the causal mask is left."),
        "only strangers": Probe((np.array([3, 1, 2]),), "Each token alone in its document: it sees itself only."),
        "a single token": Probe((np.array([0]),), "A single token: a mask of shape (1, 1) that allows the pair."),
        "negative numbers": Probe(
            (np.array([-1, 5, -1, -1]),), "The ids are names: a negative one stands for a document as well."
        ),
    }


@packed_documents_mask.choice_points(
    same={
        "ignored": Wrong(
            "The ids are not used: tokens also see documents that have nothing to do with them.",
            hint="Has `ids` been used for more than its length?",
        ),
        "runs": Wrong(
            "A document that comes back counts as a new one: you compare runs of neighbours. What matters is the "
            "number alone.",
            hint="For [0, 1, 0], may the last token attend to the first?",
        ),
        "blocks": Wrong(
            "You build one block after the other from the sizes of the documents. That holds only where the tokens of "
            "a document are neighbours and the ids ascend.",
            hint="For [0, 1, 0], may the last token attend to the first?",
        ),
        "not larger": Wrong(
            "The ids are compared by `<=` or `>=`. They are names: only equal ones belong together. (Here a token also "
            "sees the documents with a smaller number.)",
            hint="Does it mean anything that one document's number is larger?",
        ),
        "not smaller": Wrong(
            "The ids are compared by `<=` or `>=`. They are names: only equal ones belong together. (Here a token also "
            "sees the documents with a larger number.)",
            hint="Does it mean anything that one document's number is larger?",
        ),
        "differs": Wrong(
            "The ids are compared the wrong way round: tokens see the *other* documents.",
            hint="May a token attend to itself?",
        ),
        "zero is padding": Wrong(
            "Document 0 is treated as padding. Some libraries do number documents from 1 and padding 0, but this "
            "exercise says that 0 is a name like any other.",
            hint="What does your mask allow for the ids [0, 0]?",
        ),
    },
    order={
        "both ways": Wrong(
            "The causal part is missing: tokens see later ones.",
            hint="May the first token of a document see its second?",
        ),
        "future": LOOKAHEAD,
        "diagonal blocked": DIAGONAL_BLOCKED,
    },
    combine={"or": EITHER},
    polarity=POLARITY,
    kind=KIND,
)
def _(ids, *, same="equal", order="past", combine="and", polarity="allowed", kind="bool"):
    if same == "runs":
        ids = np.cumsum(np.diff(ids, prepend=ids[0]) != 0)
    elif same == "blocks":
        ids = np.sort(ids)
    query, key = ids[:, None], ids
    together = {
        "ignored": (query == query) & (key == key),
        "not larger": key <= query,
        "not smaller": key >= query,
        "differs": key != query,
        "zero is padding": (key == query) & (key != 0),
    }.get(same, key == query)
    i, j = np.arange(len(ids))[:, None], np.arange(len(ids))
    by_position = {"both ways": j == j, "future": j >= i, "diagonal blocked": j < i}.get(order, j <= i)
    mask = together | by_position if combine == "or" else together & by_position
    mask = ~mask if polarity == "turned" else mask
    return mask.astype(int) if kind == "numbers" else mask


@packed_documents_mask.variant
def lower_triangle(ids):
    return np.tril(np.equal.outer(ids, ids))


@packed_documents_mask.variant
def with_loops(ids):
    n = len(ids)
    return np.array([[j <= i and ids[i] == ids[j] for j in range(n)] for i in range(n)])


@packed_documents_mask.variant
def document_by_document(ids):
    mask = np.zeros((len(ids), len(ids)), dtype=bool)
    for document in np.unique(ids):
        mask |= np.outer(ids == document, ids == document)
    return mask & ~np.triu(np.ones(mask.shape, dtype=bool), k=1)


@packed_documents_mask.variant
def by_distance(ids):
    return (np.abs(ids[:, None] - ids[None, :]) == 0) & np.tri(len(ids), dtype=bool)
