"""Exercise 4.2: split_heads, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import INTERLEAVED_HINT, RESHAPE, numbered


@exercise(
    "4.2",
    points=2,
    section="All heads at once",
    statement=(
        "Cut the features of every token into heads: head 0 gets the first d / n_heads of them, head 1 the next. In\n"
        "the text there was one sentence; here is a batch of them, so that other axes change places. For a sentence\n"
        "of two tokens with the features [1, 2] and [3, 4] and two heads, head 0 has the tokens [1] and [3], and\n"
        "head 1 has [2] and [4]. `attnlab.heads.split` does this; write it yourself."
    ),
    hints=[
        "Entry [b, h, i, j] of the result is one feature of token i of sentence b. Which one, in terms of h and j?",
        "Cutting the last axis in two moves no number. In which order do the four axes then stand, and in which are "
        "they asked for?",
    ],
)
def split_heads(x, n_heads):
    """The features of every token, cut into heads.

    x (B, n, d) → (B, n_heads, n, d / n_heads)
    """
    B, n, d = x.shape
    by_token = x.reshape(B, n, n_heads, d // n_heads)
    return by_token.swapaxes(1, 2)


@split_heads.probes
def _(rng):
    # (B, n, d), n_heads. Equal sizes twice: there exchanged axes keep the shape. n a multiple of n_heads several times:
    # there one can cut the tokens. The smallest, which the card shows, has more tokens than heads: there a shape tells.
    sizes = [((1, 4, 4), 2), ((2, 2, 6), 2), ((3, 3, 9), 3), ((2, 3, 8), 4), ((2, 5, 6), 3)]
    cases = [(numbered(rng, *shape), n_heads) for shape, n_heads in sizes]
    return [*cases[:4], (cases[4][0].astype(np.float32), 3)]


@split_heads.hard_probes
def _():
    x = np.arange(12.0).reshape(1, 2, 6)
    return {
        "one head": Probe((x, 1), "With one head the tokens stay whole, and the axis of heads has length 1."),
        "as many heads as features": Probe((x, 6), "With n_heads = d each head is one feature wide: (B, d, n, 1)."),
        "one token": Probe((x[:, :1], 3), "With one token the result is still of shape (B, n_heads, 1, d / n_heads)."),
        "more sentences than tokens": Probe((x.reshape(3, 1, 4), 2), "Sentences stay apart, however short they are."),
    }


@split_heads.choice_points(
    cut={
        "reshape alone": Wrong(
            f"{RESHAPE} Head 0 has got the first *tokens*, with all their features, instead of the first features of "
            "all tokens.",
            seen_in="reczoo/FuxiCTR#30",
            hint="What does your function give for the tokens [1, 2] and [3, 4] and two heads?",
        ),
        "interleaved": Wrong(
            "The features are dealt out like cards: head 0 gets the features 0, n_heads, 2·n_heads, … It should get "
            "the first d / n_heads, which lie side by side.",
            hint=INTERLEAVED_HINT,
        ),
        "sizes exchanged": Wrong(
            "The numbers are exchanged: you make heads of *width* n_heads. There should be n_heads of them, each "
            "d / n_heads wide. Where both are the same number, nothing shows.",
            hint="How many heads does your result have for d = 8 and n_heads = 2?",
        ),
    },
    order={
        "tokens before heads": Wrong(
            "The axis of tokens still stands before that of heads. `@` works on the last two axes: in every token the "
            "*heads* would attend to each other, and no token to another.",
            seen_in="harvardnlp/annotated-transformer#118",
            hint="Which two axes should the product of queries and keys work on?",
        ),
        "features before tokens": Wrong(
            "Features stand before tokens, as in the keys of a product `queries @ keys`. Here a token is a row.",
            hint="Which axis should be the last, the one that a dot product sums over?",
        ),
        "heads before the batch": Wrong(
            "The axis of heads stands before that of the batch. A list of heads stacks them first: `np.stack(…, "
            "axis=1)` puts them second.",
            seen_in="lsdefine/attention-is-all-you-need-keras#36",
            hint="Which two axes should be the first two of the result?",
        ),
        "axes 0 and 1 exchanged": Wrong(
            "Axes 0 and 1 are exchanged, as in the text. There they were tokens and heads; here axis 0 is the batch, "
            "so sentences and tokens have changed places. Tokens and heads are axes 1 and 2.",
            hint="Which two of the axes (B, n, n_heads, d / n_heads) should change places?",
        ),
        "heads in the batch": Wrong(
            "Batch and heads have become one axis. Some implementations do that, with masks repeated to match; here "
            "they stay apart.",
            hint="How many axes should the result have?",
        ),
    },
)
def _(x, n_heads, *, cut="features", order="heads, tokens, features"):
    B, n, d = x.shape
    n_heads = d // n_heads if cut == "sizes exchanged" else n_heads
    sizes = {"b": B, "h": n_heads, "n": n, "f": d // n_heads}
    axes = {
        "tokens before heads": "bnhf",
        "features before tokens": "bhfn",
        "heads before the batch": "hbnf",
        "axes 0 and 1 exchanged": "nbhf",
        "heads in the batch": "bhnf",
    }.get(order, "bhnf")
    if cut == "reshape alone":
        heads = x.reshape([sizes[axis] for axis in axes])
    elif cut == "interleaved":
        heads = np.einsum(f"bnfh->{axes}", x.reshape(B, n, -1, n_heads))
    else:
        heads = np.einsum(f"bnhf->{axes}", x.reshape(B, n, n_heads, -1))
    return heads.reshape(-1, *heads.shape[2:]) if order == "heads in the batch" else heads


@split_heads.mistake(
    "tokens cut",
    "The *tokens* are dealt out to the heads: each head has a part of the sentence, with all features. Every head "
    "should see every token, and a part of its features.",
    hint="How many tokens should head 0 see?",
)
def _(x, n_heads):
    return np.stack(np.split(x, n_heads, axis=1), axis=1)


@split_heads.mistake(
    "heads in the batch, heads first",
    "Batch and heads have become one axis, with the heads outside: the first rows are head 0 of every sentence. Here "
    "batch and heads stay apart, the batch first.",
    hint="How many axes should the result have?",
)
def _(x, n_heads):
    return np.concatenate(np.split(x, n_heads, axis=-1))


@split_heads.mistake(
    "turned, then reshaped",
    "Tokens and features change places first, and then the array is reshaped. A reshape cuts the numbers in the order "
    "in which they are read, and after that swap the tokens of one feature are read first.",
    hint="Which axis has to be cut in two, and is it whole when you cut?",
)
def _(x, n_heads):
    B, n, d = x.shape
    return x.swapaxes(1, 2).reshape(B, n_heads, n, d // n_heads)


@split_heads.variant
def slices(x, n_heads):
    width = x.shape[-1] // n_heads
    return np.stack([x[:, :, h * width : (h + 1) * width] for h in range(n_heads)], axis=1)


@split_heads.variant
def features_first(x, n_heads):
    B, n, d = x.shape
    return np.transpose(x, (0, 2, 1)).reshape(B, n_heads, d // n_heads, n).transpose(0, 1, 3, 2)


@split_heads.variant
def with_loops(x, n_heads):
    B, n, d = x.shape
    heads = np.empty((B, n_heads, n, d // n_heads))
    for j in range(d):
        heads[:, j // (d // n_heads), :, j % (d // n_heads)] = x[:, :, j]
    return heads


@split_heads.variant
def numpy_split(x, n_heads):
    return np.array(np.split(x, n_heads, axis=-1)).transpose(1, 0, 2, 3)


@split_heads.variant
def einsum_after_reshape(x, n_heads):
    return np.einsum("bnhf->bhnf", x.reshape(*x.shape[:2], n_heads, -1))
