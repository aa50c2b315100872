"""Exercise 4.1: cross_attention, and what people write instead."""

import numpy as np

from attnlab import attention, softmax

from ..common import HUGE, INTEGERS, OVERFLOW
from ..engine import Probe, Wrong, exercise
from ._words import SCALE, W_TRANSPOSED, divisor, normalised


@exercise(
    "4.1",
    points=2,
    section="Who asks, and who is looked up",
    statement=(
        "Cross-attention, as in a translator: the encoder has read the source sentence, and every token that the\n"
        "decoder has written looks up in it what it needs. One head, no mask, no bias (nothing is added to the\n"
        "products); a matrix multiplies from the right, `x @ W`. In the text `look_up` left the work to `attention`.\n"
        "Write the formula itself this time, from memory: `attnlab.softmax` is all that it needs. Scores may go\n"
        "beyond 1000. With `[[1]]` for all three matrices, the decoder's tokens [[0], [9]] and the encoder's [[1],\n"
        "[2], [6]], the output is [[3], [6]]."
    ),
    hints=[
        "The output has a row for each token that asks; what is mixed in it comes from the tokens that are looked up.",
        "Three products first: one from the decoder, two from the encoder. The rest is attention as in chapter 3.",
    ],
)
def cross_attention(decoder, encoder, W_q, W_k, W_v):
    """Attention from the decoder's tokens to the encoder's.

    decoder (n_q, d), encoder (n_k, d), W_q, W_k, W_v (d, d_head)
    → output (n_q, d_head)
    """
    queries = decoder @ W_q  # (n_q, d_head)
    keys = encoder @ W_k  # (n_k, d_head)
    values = encoder @ W_v  # (n_k, d_head)
    return attention(queries, keys, values).output


@cross_attention.probes
def _(rng):
    # (n_q, n_k, d, d_head). As many queries as keys: there exchanged roles raise no error. d = d_head: there neither
    # does a transposed matrix. The smallest are of this kind, since the card shows the smallest that differs.
    sizes = [(2, 2, 3, 3), (3, 3, 2, 2), (3, 3, 4, 2), (3, 5, 6, 4), (5, 2, 4, 3)]
    cases = []
    for n_q, n_k, d, d_head in sizes:
        tokens = [rng.normal(size=(n, d)) for n in (n_q, n_k)]
        cases.append((*tokens, *(rng.normal(size=(d, d_head)) for _ in range(3))))
    return [*cases[:4], tuple(a.astype(np.float32) for a in cases[4])]


@cross_attention.hard_probes
def _():
    eye, encoder = np.eye(2), np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    whole = np.array([[1, 0], [0, 2]]), np.array([[1, 2], [0, 1], [2, 0]]), *(np.array([[1, 1], [0, 1]]),) * 3
    return {
        "huge scores": Probe((np.array([[1500.0, 1501.0], [-1500.0, 0.0]]), encoder, eye, eye, eye), HUGE),
        "integers": Probe(whole, INTEGERS, True, True),
        "one token asks": Probe(
            (np.array([[1.0, 2.0]]), encoder, eye, eye, 2 * eye),
            "With one token in the decoder the output is still a table, of shape (1, d_head).",
        ),
        "one token is looked up": Probe(
            (np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]]), encoder[:1], eye, eye, 2 * eye),
            "With one token in the encoder everybody gets its value.",
        ),
        "one feature": Probe(
            (np.array([[1.0, 2.0], [0.0, 1.0]]), encoder, eye[:, :1], eye[:, 1:], eye[:, :1]),
            "With d_head = 1 the output is still a table, of shape (n_q, 1).",
        ),
    }


@cross_attention.choice_points(shift={"none": OVERFLOW})
@cross_attention.choice_points(
    sources={
        "exchanged": Wrong(
            "The two sides are exchanged: the encoder's tokens ask and the decoder's are looked up. The one who asks "
            "gives the queries and gets a row of the output; here that is the decoder.",
            seen_in="rexrex9/nlp_torchtext#2",
            hint="Should there be an output for each token of the decoder, or for each of the encoder?",
        ),
        "decoder alone": Wrong(
            "This is self-attention in the decoder: the source sentence is not used at all, and the shape is still "
            "right.",
            seen_in="keitakurita/Practical_NLP_in_PyTorch#1",
            hint="Would your result change with another source sentence?",
        ),
        "encoder alone": Wrong(
            "This is self-attention in the encoder: nobody from the decoder asks.",
            hint="Would your result change with another decoder?",
        ),
        "values from the decoder": Wrong(
            "The values come from the decoder. A key and its value belong to the same token, the one that is looked "
            "up. Where n_q is n_k, nothing complains.",
            hint="If a weight is large for encoder token 2, whose value should come through?",
        ),
        "keys from the decoder": Wrong(
            "The keys come from the decoder. A key and its value belong to the same token, the one that is looked up. "
            "Where n_q is n_k, nothing complains.",
            hint="With whose keys should a token of the decoder compare itself?",
        ),
        "queries and keys exchanged": Wrong(
            "The queries come from the encoder and the keys from the decoder, while the values come from the encoder. "
            "Where n_q is n_k, nothing complains.",
            hint="Who asks, and who is looked up?",
        ),
    },
    matrices={
        "W_q and W_k exchanged": Wrong(
            "W_q and W_k are exchanged: whoever asks is projected by W_q, whoever is looked up by W_k.",
            hint="Which letter belongs to the decoder?",
        ),
        "W_k and W_v exchanged": Wrong(
            "W_k and W_v are exchanged: with keys one compares, and values are what is mixed.",
            hint="Which two of the three products meet in a score?",
        ),
        "W_k for the values": Wrong(
            "The keys are mixed, or the values are made with W_k, which is the same. W_v has not been used.",
            seen_in="yflyzhang/AnnotatedTransformer#1",
            hint="Would your result change if W_v were doubled?",
        ),
        "W_q for the keys": Wrong(
            "The keys are made with W_q. Queries and keys each have a matrix of their own.",
            hint="Would your result change if W_k were doubled?",
        ),
        "values not projected": Wrong(
            "The encoder's tokens are mixed as they are: W_v has not been used.",
            hint="How many components should a row of the output have, d or d_head?",
        ),
        "none": Wrong(
            "The tokens meet as they are: none of the three matrices has been used.",
            hint="Would your result change if a matrix were doubled?",
        ),
        "transposed": Wrong(f"Every matrix is {W_TRANSPOSED}", hint="Which axis of W has the length of a token?"),
    },
    scale={
        **SCALE,
        "by n_k": Wrong(
            "The scores are divided by √n_k, the root of how many tokens are looked up. What counts is d_head, the "
            "number of components of one key: of a table `len` counts the rows, and `shape[-1]` the components.",
            hint="Which axis of `keys` counts components?",
        ),
        "by n_q": Wrong(
            "The scores are divided by √n_q, the root of how many tokens ask. What counts is d_head, the number of "
            "components of one query. In chapter 1 `len(query)` was that, for a single query; of a table `len` counts "
            "the rows, and `shape[-1]` the components.",
            hint="Which axis of `queries` counts components?",
        ),
        "by 2 d_head": Wrong(
            "The scores are divided by 2·d_head. Python takes the power first: `d ** 1 / 2` is (d ** 1) / 2. Write "
            "`d ** 0.5` or `np.sqrt(d)`.",
            hint="What does Python print for `9 ** 1 / 2`?",
        ),
        "times": Wrong(
            "The scores are multiplied by √d_head; they should be divided by it.",
            hint="Should more components make the scores larger?",
        ),
    },
    table={
        "keys first": Wrong(
            "The table of scores lies on its side, one row a key, before softmax. A row belongs to the one who asks: "
            "`queries @ keys.T`. Where n_q is n_k, nothing complains.",
            hint="Should the table of scores have n_q rows or n_k rows?",
        ),
    },
    axis={
        "queries": Wrong(
            "Softmax runs along the queries: each *column* sums to 1, and the decoder's tokens compete for the "
            "encoder's. Each of them has a weight of 1 to share out, so that each row sums to 1.",
            seen_in="nerminnuraydogan/vision-transformer#1",
            hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
        ),
    },
    mix={
        "weights only": Wrong(
            "These are the weights. One step is missing: let them mix the values.", hint="Has W_v been used?"
        ),
        "transposed": Wrong(
            "The table of weights is transposed before it mixes the values. Row i holds the weights of query i. Where "
            "n_q is n_k, nothing complains.",
            seen_in="heykeetae/Self-Attention-GAN#11",
            hint="Do the numbers that multiply the values for one query sum to 1?",
        ),
        "scores": Wrong(
            "The raw scores mix the values; softmax is missing, so the shares are no shares.",
            hint="What do the numbers that multiply the values sum to?",
        ),
    },
)
def _(
    decoder,
    encoder,
    W_q,
    W_k,
    W_v,
    *,
    sources="right",
    matrices="right",
    scale="root",
    table="queries first",
    axis="keys",
    mix="values",
    shift="max",
):
    asks, looked_up, gives = {
        "exchanged": (encoder, decoder, decoder),
        "decoder alone": (decoder, decoder, decoder),
        "encoder alone": (encoder, encoder, encoder),
        "values from the decoder": (decoder, encoder, decoder),
        "keys from the decoder": (decoder, decoder, encoder),
        "queries and keys exchanged": (encoder, decoder, encoder),
    }.get(sources, (decoder, encoder, encoder))
    unit = np.eye(len(W_q))
    W_q, W_k, W_v = {
        "W_q and W_k exchanged": (W_k, W_q, W_v),
        "W_k and W_v exchanged": (W_q, W_v, W_k),
        "W_k for the values": (W_q, W_k, W_k),
        "W_q for the keys": (W_q, W_q, W_v),
        "values not projected": (W_q, W_k, unit),
        "none": (unit, unit, unit),
        "transposed": (W_q.T, W_k.T, W_v.T),
    }.get(matrices, (W_q, W_k, W_v))
    queries, keys, values = asks @ W_q, looked_up @ W_k, gives @ W_v
    n_q, n_k, d_head = len(queries), len(keys), keys.shape[-1]
    others = {"by n_k": n_k**0.5, "by n_q": n_q**0.5, "by 2 d_head": 2 * d_head, "times": d_head**-0.5}
    scores = queries @ keys.T / others.get(scale, divisor(scale, encoder.shape[-1], d_head))
    scores = scores.T if table == "keys first" else scores
    weights = normalised(scores, 0 if axis == "queries" else -1, shift)
    if mix == "weights only":
        return weights
    weights = scores if mix == "scores" else weights.T if mix == "transposed" else weights
    return weights @ values


@cross_attention.variant
def by_hand(decoder, encoder, W_q, W_k, W_v):
    scores = (decoder @ W_q) @ (encoder @ W_k).T / np.sqrt(W_k.shape[1])
    return softmax(scores) @ (encoder @ W_v)


@cross_attention.variant
def token_by_token(decoder, encoder, W_q, W_k, W_v):
    output = np.zeros((len(decoder), W_v.shape[1]))
    for i, asking in enumerate(decoder):
        scores = np.array([(asking @ W_q) @ (token @ W_k) for token in encoder]) / len(W_q.T) ** 0.5
        exps = np.exp(scores - scores.max())
        output[i] = sum(e * (token @ W_v) for e, token in zip(exps, encoder, strict=True)) / exps.sum()
    return output


@cross_attention.variant
def values_projected_last(decoder, encoder, W_q, W_k, W_v):
    """Mixing and projecting change places: (A x) W_v is A (x W_v). The scores through one matrix of rank d_head."""
    scores = np.einsum("qi,ij,kj->qk", decoder, W_q @ W_k.T / W_q.shape[-1] ** 0.5, encoder)
    return softmax(scores) @ encoder @ W_v
