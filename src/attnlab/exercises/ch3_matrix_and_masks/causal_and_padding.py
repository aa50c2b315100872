"""Exercise 3.3: causal_and_padding, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import DIAGONAL_BLOCKED, EITHER, KIND, LOOKAHEAD, POLARITY


@exercise(
    "3.3",
    points=2,
    section="A small algebra of masks",
    statement=(
        "A batch of sentences, each filled up at its end to n tokens. Write one mask for the batch: causal, and no\n"
        "token may attend to padding. For n = 3 and a sentence of length 2 the rows are [1, 0, 0], [1, 1, 0] and\n"
        "[1, 1, 0], as truth values: the padded query keeps its row, for its output is dropped later."
    ),
    hints=[
        "Write two masks and join them with `&`: one by position, one by length.",
        "`np.arange(n) < lengths[:, None]` says which tokens are real, (B, n). Padding forbids *keys*, the last axis: "
        "give it an axis of length 1 for the queries.",
    ],
)
def causal_and_padding(lengths, n):
    """Causal mask for a batch of sequences that are padded at the end.

    lengths (B,) of integers, the real tokens of each; n is an integer
    → (B, n, n) of bool, True = may attend; the last axis is the keys
    """
    position = np.arange(n)
    causal = position <= position[:, None]  # (n, n)
    real = position < lengths[:, None]  # (B, n)
    return causal & real[:, None, :]


@causal_and_padding.probes
def _(rng):
    # (B, n). As many sentences as tokens, twice: there a forgotten axis raises no error.
    sizes = [(2, 5), (3, 3), (4, 4), (3, 6)]
    cases = [(rng.permutation(np.arange(1, n + 1))[:batch], n) for batch, n in sizes]
    return [*cases[:1], (np.array([3, 2, 1]), 3), *cases[2:]]  # some orders of 1, 2, 3 hide which axis is forgotten


@causal_and_padding.hard_probes
def _():
    return {
        "an empty sentence": Probe(
            (np.array([0, 2]), 3), "A sentence of length 0 has no key at all: its whole table is False."
        ),
        "no padding": Probe((np.array([3, 3]), 3), "Without padding the causal mask is left, once for each sentence."),
        "a single sentence": Probe((np.array([2]), 4), "One sentence is a batch of one: the shape is (1, n, n)."),
    }


@causal_and_padding.choice_points(
    where={
        "query rows": Wrong(
            "The padding mask lies on the query rows, not on the key columns, and leaves the padded queries no key at "
            "all. Which keys exist is the same question for every query: `real[:, None, :]`. (Without the causal mask "
            "real tokens would now attend to padding.)",
            seen_in="hyunwoongko/transformer#40",
            hint="Which axis of your padding mask has length 1, that of the queries or that of the keys?",
        ),
        "rows and columns": Wrong(
            "The rows of padded queries are forbidden too. Such a row allows nothing, and plain softmax makes it NaN, "
            "which spreads. Padding forbids keys; the outputs of padded queries are dropped later, by the loss.",
            hint="What does softmax give for a row of −∞?",
            same_as="where: query rows",  # under a causal mask, whose real rows never reach the padding at the end
        ),
    },
    combine={
        "or": EITHER,
        "only causal": Wrong(
            "Only the causal mask is left. Real tokens do not notice here, for the padding lies in their future; the "
            "padded queries attend to it, and with padding in front every token would.",
            hint="In which rows do the causal mask and the one that is asked for differ?",
        ),
        "only padding": Wrong(
            "Only the padding mask is left: every token sees the future.", hint="May the first token see the second?"
        ),
    },
    causal={"future": LOOKAHEAD, "diagonal blocked": DIAGONAL_BLOCKED},
    real={
        "turned": Wrong(
            "The padding mask is turned round: it keeps the padding and forbids the real tokens.",
            hint="For length 2, are positions 0 and 1 real, or is the rest?",
        ),
        "one too many": Wrong(
            "One padded token counts as real: `<=` where `<` is meant. Positions count from 0, so that length 2 means "
            "the positions 0 and 1.",
            hint="For length 2, which positions are real?",
        ),
        "at the end": Wrong(
            "You keep the *last* tokens of each sentence, as for padding on the left. Here the padding is at the end.",
            hint="For length 2, which positions are real?",
        ),
    },
    polarity=POLARITY,
    kind=KIND,
)
def _(lengths, n, *, where="columns", combine="and", causal="past", real="start", polarity="allowed", kind="bool"):
    i, j, length = np.arange(n)[:, None], np.arange(n), lengths[:, None]
    by_position = {"future": j >= i, "diagonal blocked": j < i}.get(causal, j <= i)  # (n, n)
    by_length = {"turned": j >= length, "one too many": j <= length, "at the end": j >= n - length}
    kept = by_length.get(real, j < length)  # (B, n)
    columns, rows = kept[:, None, :], kept[:, :, None]
    padding = {"query rows": rows, "rows and columns": rows & columns}.get(where, columns)
    if combine == "or":
        mask = by_position | padding
    else:
        mask = (by_position | (combine == "only padding")) & (padding | (combine == "only causal"))
    mask = ~mask if polarity == "turned" else mask
    return mask.astype(int) if kind == "numbers" else mask


@causal_and_padding.mistake(
    "no axis for the queries",
    "The table of real tokens, (B, n), is joined with the causal mask, (n, n), as it is. Where B is n, NumPy lines the "
    "*sentences* up with the *queries* and says nothing. Give it an axis: `real[:, None, :]`.",
    hint="Which shape should the result have, and which axis of your padding mask counts sentences?",
)
def _(lengths, n):
    return np.tri(n, dtype=bool) & (np.arange(n) < lengths[:, None])


@causal_and_padding.mistake(
    "no axis for the sentences",
    "The positions are compared with the lengths one by one, position i with sentence i. Every sentence has to meet "
    "every position: `lengths[:, None]`.",
    hint="Which shapes have `np.arange(n)` and `lengths`, and which should their comparison have?",
)
def _(lengths, n):
    return np.tri(n, dtype=bool) & (np.arange(n) < lengths)


@causal_and_padding.variant
def with_loops(lengths, n):
    mask = np.zeros((len(lengths), n, n), dtype=bool)
    for b, length in enumerate(lengths):
        for i in range(n):
            mask[b, i, : min(i + 1, length)] = True
    return mask


@causal_and_padding.variant
def forbidden_first(lengths, n):
    future = np.triu(np.ones((n, n), dtype=bool), k=1)
    padded = np.arange(n)[None, :] >= np.asarray(lengths)[:, None]
    return ~(future[None] | padded[:, None])


@causal_and_padding.variant
def the_nearer_end(lengths, n):
    return np.arange(n) < np.minimum(np.arange(1, n + 1)[:, None], lengths[:, None, None])
