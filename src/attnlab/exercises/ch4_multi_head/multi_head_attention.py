"""Exercise 4.4: multi_head_attention, and what people write instead."""

import numpy as np

from attnlab import attention, softmax
from attnlab.heads import merge, split

from ..common import HUGE, INTEGERS, LIKE_INPUT, OVERFLOW
from ..engine import Probe, Wrong, exercise
from ._words import INTERLEAVED_HINT, RESHAPE, SCALE, W_TRANSPOSED, divisor, normalised


@exercise(
    "4.4",
    points=3,
    section="Concatenate and project is a sum",
    statement=(
        "Multi-head self-attention, from the tokens to the output, without a mask and without biases (nothing is\n"
        "added to the products). Matrices are (d_model, d_model) and multiply from the right, `x @ W`; head h owns\n"
        "the *columns* from h·d_head up to (h+1)·d_head of W_q, W_k and W_v, and the same *rows* of W_o. The text has\n"
        "it as a loop, as one call and as a sum: write one of them from memory. You may use `attnlab.softmax` or\n"
        "`attnlab.attention`; `attnlab.heads` has the rest, so leave it aside. The inputs may be whole numbers, and\n"
        "scores may go beyond 1000. With two heads, `np.eye(2)` for all four matrices, and the tokens [[0, 0],\n"
        "[9, 0], [0, 9]], the output is [[3, 3], [9, 3], [3, 9]]."
    ),
    hints=[
        "Cut into heads what has been projected, attend in every head, put the heads side by side. Which matrix is "
        "still left?",
        "A loop is as good: for each h, `cols = slice(h * d_head, (h + 1) * d_head)`, one head attends with "
        "`x @ W_q[:, cols]` and its two neighbours.",
        "What divides the scores is the root of the number of products in one score.",
    ],
)
def multi_head_attention(x, W_q, W_k, W_v, W_o, n_heads):
    """Multi-head self-attention.

    x (n, d_model), W_q, W_k, W_v, W_o (d_model, d_model)
    → output (n, d_model)
    """
    n, d_model = x.shape
    cut = (n, n_heads, d_model // n_heads)
    queries, keys, values = (  # (n_heads, n, d_head) each
        (x @ W).reshape(cut).swapaxes(0, 1) for W in (W_q, W_k, W_v)
    )
    heads = attention(queries, keys, values).output
    return heads.swapaxes(0, 1).reshape(n, d_model) @ W_o


@multi_head_attention.probes
def _(rng):
    # n, d_model, n_heads. In turn n, n_heads and d_head are all equal, n is n_heads, n is d_head, none is another.
    sizes = [(2, 4, 2), (3, 6, 3), (4, 8, 2), (5, 6, 2), (4, 8, 4)]
    cases = [
        (rng.normal(size=(n, d)), *(rng.normal(size=(d, d)) / d**0.25 for _ in range(4)), n_heads)
        for n, d, n_heads in sizes
    ]
    return [*cases[:4], (*(a.astype(np.float32) for a in cases[4][:-1]), 4)]


@multi_head_attention.hard_probes
def _():
    eye, x = np.eye(4), np.array([[1.0, 2.0, 0.0, -1.0], [0.0, 1.0, 3.0, 1.0], [2.0, 0.0, 1.0, 0.5]])
    W = np.array([[1, 0, 2, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 2, 0, 1]])
    whole = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 0]])
    return {
        "huge scores": Probe((40 * x, eye, eye, eye, eye[::-1], 2), HUGE),
        "integers": Probe((whole, W, W.T, W, W, 2), INTEGERS, True),
        "one head": Probe(
            (x, W / 2, W.T / 2, W / 2, eye[::-1], 1), "With one head this is plain attention, followed by W_o."
        ),
        "as many heads as features": Probe(
            (x, W / 2, W.T / 2, W / 2, eye[::-1], 4), "With n_heads = d_model each head is one feature wide."
        ),
        "one token": Probe((x[:1], eye, eye, W / 2, W / 2, 2), "With one token the output is x W_v W_o."),
    }


@multi_head_attention.choice_points(
    shift={"none": OVERFLOW},
    storage={"like x": LIKE_INPUT},
)
@multi_head_attention.choice_points(
    matrices={
        "own slice": Wrong(
            "The tokens are cut before they are projected, so that each head sees only its own slice of a token. "
            "Project first: every head reads the whole token, through columns of its own.",
            seen_in="MarcoMeter/episodic-transformer-memory-ppo#22",
            hint="Can head 0 react to the last feature of a token?",
        ),
        "transposed": Wrong(
            f"Each of W_q, W_k and W_v is {W_TRANSPOSED}", hint="Does head 0 own columns of W_q here, or rows?"
        ),
        "W_k for the values": Wrong(
            "The keys are mixed, or the values are made with W_k, which is the same. W_v has not been used.",
            seen_in="yflyzhang/AnnotatedTransformer#1",
            hint="Would your result change if W_v were doubled?",
        ),
        "values not projected": Wrong(
            "The tokens are mixed as they are: W_v has not been used.",
            hint="Would your result change if W_v were doubled?",
        ),
    },
    cut={
        "reshape alone": Wrong(
            f"{RESHAPE} In the split, head 0 has got the first *tokens*, with all their features.",
            seen_in="649453932/Chinese-Text-Classification-Pytorch#53",
            hint="Does every head see every token?",
        ),
        "interleaved": Wrong(
            "The split deals the features out like cards: head 0 gets the columns 0, n_heads, 2·n_heads, … It owns the "
            "first d_head, which lie side by side.",
            hint=INTERLEAVED_HINT,
        ),
        "tokens before heads": Wrong(
            "The axis of tokens stands before that of heads when queries meet keys. So in every token the *heads* "
            "attend to each other, and no token sees another.",
            seen_in="harvardnlp/annotated-transformer#118",
            hint="Would the output of token 0 change if token 1 did?",
        ),
        "sizes exchanged": Wrong(
            "The numbers are exchanged: you make heads of *width* n_heads. There should be n_heads of them, each "
            "d_model / n_heads wide. Where both are the same number, nothing shows.",
            hint="How many tables of weights should there be?",
        ),
        "none": Wrong(
            "This is one head of the full width: `n_heads` changes nothing.",
            hint="How many tables of weights should there be?",
        ),
    },
    scores={
        "exchanged": Wrong(
            "Queries and keys have changed places, or W_q and W_k, which is the same here: row i of the table holds "
            "what all others think of token i. All sizes fit, so nothing complains.",
            hint="Whose query should decide what mixes into row i?",
        ),
    },
    scale=SCALE,
    axis={
        "queries": Wrong(
            "Softmax runs along the queries: in each head the *columns* sum to 1. Each query shares its own weight out "
            "among the keys, so that each row sums to 1.",
            seen_in="nerminnuraydogan/vision-transformer#1",
            hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
        ),
        "heads": Wrong(
            "Softmax runs along the heads: they compete with each other for every pair of tokens. Each head shares out "
            "a weight of its own among the keys.",
            hint="Over which axis should the weights sum to 1?",
        ),
        "heads and keys": Wrong(
            "All heads share one softmax: the weights of a query sum to 1 over all heads together. Each head has a "
            "weight of 1 for itself.",
            seen_in="facebookresearch/detr#247",
            hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
        ),
    },
    mix={
        "averaged weights": Wrong(
            "The weights are averaged over the heads before they mix the values, so that all heads look the same way. "
            "What `nn.MultiheadAttention` *returns* is such an average; it is not what its heads do.",
            seen_in="pytorch/pytorch#34537",
            hint="If one head looks only left and another only right, what is left of that in the average?",
        ),
        "transposed": Wrong(
            "The tables of weights are transposed before they mix the values. Row i holds the weights of query i. All "
            "sizes fit, so nothing complains.",
            seen_in="heykeetae/Self-Attention-GAN#11",
            hint="Do the numbers that multiply the values for one query sum to 1?",
        ),
    },
    join={
        "reshape alone": Wrong(
            f"{RESHAPE} In the merge, a row holds one head of several tokens instead of all heads of one.",
            seen_in="jsbaan/transformer-from-scratch#6",
            hint="Which two axes should stand side by side before they become one?",
        ),
        "interleaved": Wrong(
            "The merge deals the features out like cards: the first of every head, then the second of every head. So "
            "they meet rows of W_o that belong to other heads.",
            hint="Which rows of W_o belong to head 0?",
        ),
    },
    output={
        "left out": Wrong(
            "The last step is missing: W_o has not been used, so that the heads stand side by side and never mix.",
            seen_in="Kyubyong/transformer#117",
            hint="Would your result change if W_o were doubled?",
        ),
        "transposed": Wrong(f"W_o is {W_TRANSPOSED}", hint="Does head 0 own rows of W_o here, or columns?"),
    },
)
def _(
    x,
    W_q,
    W_k,
    W_v,
    W_o,
    n_heads,
    *,
    matrices="right",
    cut="heads",
    scores="queries first",
    scale="root",
    axis="keys",
    mix="values",
    join="by token",
    output="projected",
    shift="max",
    storage="floating",
):
    n, d_model = x.shape
    n_heads = {"none": 1, "sizes exchanged": d_model // n_heads}.get(cut, n_heads)
    d_head = d_model // n_heads
    if matrices == "own slice":
        W_q, W_k, W_v = (W * np.kron(np.eye(n_heads), np.ones((d_head, d_head))) for W in (W_q, W_k, W_v))
    W_q, W_k, W_v = {
        "transposed": (W_q.T, W_k.T, W_v.T),
        "W_k for the values": (W_q, W_k, W_k),
        "values not projected": (W_q, W_k, np.eye(d_model)),
    }.get(matrices, (W_q, W_k, W_v))
    queries, keys, values = (_cut(x @ W, n_heads, cut) for W in (W_q, W_k, W_v))
    table = queries @ keys.swapaxes(-1, -2) / divisor(scale, d_model, d_head)
    table = table.swapaxes(-1, -2) if scores == "exchanged" else table
    over = {"queries": -2, "heads": 0, "heads and keys": (0, -1)}.get(axis, -1)  # the axes are heads, queries, keys
    weights = normalised(table, over, shift)
    if mix == "averaged weights":
        weights = weights.mean(axis=0, keepdims=True)
    elif mix == "transposed":
        weights = weights.swapaxes(-1, -2)
    heads = weights @ values
    if cut != "tokens before heads" and join != "reshape alone":
        heads = heads.swapaxes(0, 1)  # (n, n_heads, d_head)
    joined = (heads.swapaxes(1, 2) if join == "interleaved" else heads).reshape(n, d_model)
    joined = joined.astype(x.dtype) if storage == "like x" else joined
    return joined if output == "left out" else joined @ (W_o.T if output == "transposed" else W_o)


def _cut(x, n_heads, cut):
    n, d = x.shape
    if cut == "reshape alone":
        return x.reshape(n_heads, n, d // n_heads)
    if cut == "interleaved":
        return x.reshape(n, d // n_heads, n_heads).transpose(2, 0, 1)
    by_token = x.reshape(n, n_heads, d // n_heads)
    return by_token if cut == "tokens before heads" else by_token.swapaxes(0, 1)


def _heads(x, W_q, W_k, W_v, n_heads):
    return attention(*(split(x @ W, n_heads) for W in (W_q, W_k, W_v))).output  # (n_heads, n, d_head)


@multi_head_attention.mistake(
    "heads averaged",
    "The heads are averaged, and W_o has not been used. Each head has features of its own: they stand side by side, "
    "and W_o mixes them.",
    hint="How many numbers should a token have in the end?",
)
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return _heads(x, W_q, W_k, W_v, n_heads).mean(axis=0)


@multi_head_attention.mistake(
    "heads added",
    "The heads are added up as they are, and W_o has not been used. A sum is right where each head first goes through "
    "its own rows of W_o.",
    hint="How many numbers should a token have in the end?",
)
def _(x, W_q, W_k, W_v, W_o, n_heads):
    return _heads(x, W_q, W_k, W_v, n_heads).sum(axis=0)


@multi_head_attention.variant
def head_by_head(x, W_q, W_k, W_v, W_o, n_heads):
    d_head = x.shape[1] // n_heads
    found = []
    for h in range(n_heads):
        own = slice(h * d_head, (h + 1) * d_head)
        scores = (x @ W_q[:, own]) @ (x @ W_k[:, own]).T / d_head**0.5
        found.append(softmax(scores) @ (x @ W_v[:, own]))
    return np.concatenate(found, axis=1) @ W_o


@multi_head_attention.variant
def a_sum_over_heads(x, W_q, W_k, W_v, W_o, n_heads):
    """No concatenation: every head goes through its own rows of W_o. The same function (a report calls it a bug)."""
    columns = (np.split(W, n_heads, axis=1) for W in (W_q, W_k, W_v))
    own = zip(*columns, np.split(W_o, n_heads), strict=True)
    return sum(attention(x @ q, x @ k, x @ v).output @ o for q, k, v, o in own)


@multi_head_attention.variant
def with_einsum(x, W_q, W_k, W_v, W_o, n_heads):
    d, shape = len(W_q), (len(W_q), n_heads, -1)
    q, k, v = (np.einsum("td,dhf->htf", x, W.reshape(shape)) for W in (W_q, W_k, W_v))
    weights = softmax(np.einsum("hqf,hkf->hqk", q, k) * (d // n_heads) ** -0.5)
    return np.einsum("hqk,hkf,hfd->qd", weights, v, W_o.reshape(n_heads, -1, d))


@multi_head_attention.variant
def with_the_room_of_heads(x, W_q, W_k, W_v, W_o, n_heads):
    return merge(_heads(x, W_q, W_k, W_v, n_heads)) @ W_o


@multi_head_attention.variant
def one_matrix_for_each_head(x, W_q, W_k, W_v, W_o, n_heads):
    """No queries and no keys: a head is a bilinear form W_q[h] W_k[h]ᵀ, and a map W_v[h] W_o[h]."""
    width = len(W_q) // n_heads
    output = np.zeros(x.shape)
    for h in range(0, len(W_q), width):
        own = slice(h, h + width)
        scores = x @ (W_q[:, own] @ W_k[:, own].T) @ x.T / np.sqrt(width)
        output += softmax(scores) @ x @ (W_v[:, own] @ W_o[own])
    return output
