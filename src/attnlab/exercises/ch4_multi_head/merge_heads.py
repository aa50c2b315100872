"""Exercise 4.3: merge_heads, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import RESHAPE, numbered


@exercise(
    "4.3",
    points=2,
    section="All heads at once",
    statement=(
        "The way back from heads to tokens, whose code the text shows only in the form that goes wrong: what the\n"
        "heads found for a token stands side by side again, head 0 first. For a sentence of two tokens, if head 0\n"
        "has [0, 1] and [2, 3], and head 1 has [4, 5] and [6, 7], the tokens are [0, 1, 4, 5] and [2, 3, 6, 7].\n"
        "`attnlab.heads.merge` does this; write it yourself."
    ),
    hints=[
        "Entry [b, i, j] of the result comes from one head of token i of sentence b. From which, in terms of j?",
        "A reshape can join two axes that stand side by side, in the right order. Which two should be joined, and "
        "where do they stand?",
    ],
)
def merge_heads(heads):
    """The features of all heads side by side, token by token.

    heads (B, n_heads, n, d_head) → (B, n, n_heads · d_head)
    """
    B, n_heads, n, d_head = heads.shape
    by_token = heads.swapaxes(1, 2)  # (B, n, n_heads, d_head)
    return by_token.reshape(B, n, n_heads * d_head)


@merge_heads.probes
def _(rng):  # (B, n_heads, n, d_head): equal sizes twice, then unequal ones
    sizes = [(2, 2, 2, 2), (3, 3, 3, 3), (1, 2, 4, 3), (2, 3, 4, 2), (2, 4, 3, 5)]
    cases = [numbered(rng, *shape) for shape in sizes]
    return [*((a,) for a in cases[:4]), (cases[4].astype(np.float32),)]


@merge_heads.hard_probes
def _():
    heads = np.arange(12.0)
    return {
        "one head": Probe((heads.reshape(2, 1, 3, 2),), "With one head only its axis disappears: (B, n, d_head)."),
        "heads of one feature": Probe((heads.reshape(1, 3, 4, 1),), "With d_head = 1 each head gives one feature."),
        "one token": Probe((heads.reshape(2, 3, 1, 2),), "With one token the result has the shape (B, 1, d)."),
    }


@merge_heads.choice_points(
    order={
        "reshape alone": Wrong(
            f"{RESHAPE} A row of yours holds one head of several tokens, instead of all heads of one. A model has "
            "learned around it on an easy task, so that its training did not show it.",
            seen_in="jsbaan/transformer-from-scratch#6",
            hint="What does your function give for the heads [0, 1], [2, 3] and [4, 5], [6, 7]?",
        ),
        "interleaved": Wrong(
            "The features are dealt out like cards: the first of every head, then the second of every head. Each head "
            "should keep its features side by side.",
            hint="What stands after the first feature of head 0: the second of head 0, or the first of head 1?",
        ),
        "tokens and features exchanged": Wrong(
            "Tokens and features change places before the reshape. It is heads and tokens that have to, so that the "
            "heads of one token stand side by side.",
            hint="Which two axes should be neighbours, in which order, before they become one?",
        ),
        "batch and heads exchanged": Wrong(
            "Batch and heads change places before the reshape. It is heads and tokens that have to, so that the heads "
            "of one token stand side by side. As it is, sentences are mixed.",
            seen_in="gazelle93/Transformer-Various-Positional-Encoding#1",
            hint="Which two axes should be neighbours, in which order, before they become one?",
        ),
    },
    result={
        "not joined": Wrong(
            "Heads and features are still two axes. Join them: a token is one row of n_heads · d_head numbers.",
            hint="How many axes should the result have?",
        ),
        "features before tokens": Wrong(
            "Features stand before tokens: the shape is (B, d, n). A token is a row.",
            hint="Which axis should be the last?",
        ),
        "tokens before the batch": Wrong(
            "The axis of tokens stands before that of the batch: the shape is (n, B, d). Here the batch stays first. "
            "Where n is B no shape shows it.",
            hint="Which token of which sentence should stand at `result[0, 1]`?",
        ),
    },
)
def _(heads, *, order="by token", result="tokens"):
    B, n_heads, n, d_head = heads.shape
    by_token = {
        "reshape alone": lambda: heads,
        "tokens and features exchanged": lambda: heads.swapaxes(2, 3),
        "batch and heads exchanged": lambda: heads.swapaxes(0, 1),
    }.get(order, lambda: heads.swapaxes(1, 2))()
    by_token = by_token.reshape(B, n, n_heads, d_head)
    by_token = by_token.swapaxes(2, 3) if order == "interleaved" else by_token
    if result == "not joined":
        return by_token
    tokens = by_token.reshape(B, n, n_heads * d_head)
    exchanged = {"features before tokens": (1, 2), "tokens before the batch": (0, 1)}.get(result)
    return tokens.swapaxes(*exchanged) if exchanged else tokens


@merge_heads.mistake(
    "added",
    "The heads are added up. Each head has features of its own: they stand side by side, and W_o decides what of them "
    "is added.",
    hint="How many numbers should a token have in the end?",
)
def _(heads):
    return heads.sum(axis=1)


@merge_heads.mistake(
    "averaged",
    "The heads are averaged. Each head has features of its own: they stand side by side, and W_o decides what of them "
    "is added.",
    hint="How many numbers should a token have in the end?",
)
def _(heads):
    return heads.mean(axis=1)


@merge_heads.mistake(
    "sentences joined",
    "It is the sentences that stand side by side: a list of `heads` runs along axis 0, the batch. Axis 1 counts heads, "
    "`heads[:, h]` is one of them. Where B is n_heads no shape shows it.",
    hint="Of which shape is `heads[0]`, and does it hold one head or all heads?",
)
def _(heads):
    return np.concatenate(list(heads), axis=-1)


@merge_heads.mistake(
    "one after the other",
    "The heads stand one *after* the other, like a sentence n_heads times as long. They should stand side by side: "
    "join them along the features.",
    hint="How many tokens should a sentence have in the end?",
)
def _(heads):
    B, _, _, d_head = heads.shape
    return heads.reshape(B, -1, d_head)


@merge_heads.variant
def concatenated(heads):
    return np.concatenate([heads[:, h] for h in range(heads.shape[1])], axis=-1)


@merge_heads.variant
def transposed(heads):
    return np.transpose(heads, (0, 2, 1, 3)).reshape(heads.shape[0], heads.shape[2], -1)


@merge_heads.variant
def with_loops(heads):
    B, n_heads, n, d_head = heads.shape
    tokens = np.zeros((B, n, n_heads * d_head))
    for h in range(n_heads):
        tokens[:, :, h * d_head : (h + 1) * d_head] = heads[:, h]
    return tokens


@merge_heads.variant
def sentence_by_sentence(heads):
    return np.stack([np.hstack(list(sentence)) for sentence in heads])
