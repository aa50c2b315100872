"""Exercise 3.6: masked_mean, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise


@exercise(
    "3.6",
    points=2,
    section="Padding, followed to the end",
    statement=(
        "One vector for each sentence: the mean of the states of its real tokens. Sentences are padded at their end.\n"
        "Alone or in a batch, a sentence gets the same vector, however large the numbers in its padding are. A\n"
        "sentence without tokens gets zeros. States may be whole numbers. With the states [2], [4], [9] and the\n"
        "length 2 the vector is [3]."
    ),
    hints=[
        "Which tokens are real, (B, n)? Let only their states into the sum, and divide by how many there are.",
        "`np.where(real[..., None], states, 0).sum(axis=1)` is the sum, (B, d). Divide by "
        "`np.maximum(lengths, 1)[:, None]`, which is never zero.",
    ],
)
def masked_mean(states, lengths):
    """Mean over the real tokens of each sequence.

    states (B, n, d); lengths (B,) of integers, real tokens come first
    → (B, d); zeros where the length is 0
    """
    real = np.arange(states.shape[1]) < lengths[:, None]  # (B, n)
    total = np.where(real[..., None], states, 0).sum(axis=1)  # (B, d)
    return total / np.maximum(lengths, 1)[:, None]


@masked_mean.probes
def _(rng):
    # (B, n, d). As many sentences as components, twice: there a forgotten axis raises no error.
    sizes = [(2, 5, 3), (3, 4, 3), (2, 6, 2), (3, 5, 4)]
    cases = []
    for batch, n, d in sizes:  # unequal lengths below n: something is padded in every sentence
        lengths = rng.permutation(np.arange(1, n))[:batch]
        lengths[np.argmax(lengths)] = n - 1
        cases.append((rng.normal(size=(batch, n, d)), lengths))
    return [*cases[:3], (cases[3][0].astype(np.float32), cases[3][1])]


@masked_mean.hard_probes
def _():
    states = np.array([[[1.0, 3.0], [3.0, 5.0], [9.0, 9.0]], [[2.0, 0.0], [4.0, 1.0], [1.0, 5.0]]])
    broken = states.copy()
    broken[0, 2] = [np.nan, np.inf]
    return {
        "an empty sentence": Probe(
            (states, np.array([0, 2])), "A sentence of length 0 gets zeros; 0/0 is not a number."
        ),
        "no padding": Probe((states, np.array([3, 3])), "Without padding it is the plain mean over the tokens."),
        "a single sentence": Probe((states[:1], np.array([2])), "One sentence is a batch of one: the shape is (1, d)."),
        "huge padding": Probe(
            (np.where(states == 9.0, 1e100, states), np.array([2, 3])),
            "Huge numbers in the padding change the mean: keep them out of the sum, do not subtract them again.",
        ),
        "broken padding": Probe(
            (broken, np.array([2, 3])),
            "NaN or infinity in the padding comes through, since 0·NaN is NaN. Multiplying by the mask lets it in, "
            "`np.where` keeps it out.",
            advice=True,
        ),
        "integers": Probe((states.astype(int), np.array([2, 3])), INTEGERS, True),
    }


@masked_mean.choice_points(
    empty={
        "0/0": Wrong(
            "A sentence without tokens gets 0/0, not a number, which spreads to everything computed from the batch. "
            "Divide by `np.maximum(lengths, 1)`, or treat that case by itself.",
            hint="What is the mean of no vectors, and what does the task say it is here?",
        ),
        "a billionth added": Wrong(
            "A billionth is added to each length, against 0/0. That moves every mean a little, for the sake of the one "
            "case that needs it. `np.maximum(lengths, 1)` changes that case alone.",
            hint="What is 3 / (3 + 1e-9)?",
        ),
    },
    storage={"like states": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
@masked_mean.choice_points(
    summed={
        "all": Wrong(
            "The padding is summed as well. Attention has filled those positions with numbers like any others: leave "
            "them out of the sum.",
            hint="Which tokens enter your sum when the length is 1?",
        ),
        "padding": Wrong(
            "The mask is turned round: the padding is summed and the real tokens are left out.",
            hint="For length 2, which positions are summed?",
        ),
        "the last": Wrong(
            "The *last* tokens are summed, as for padding on the left. Here the real tokens come first.",
            hint="For length 2, which positions are real?",
        ),
        "one too many": Wrong(
            "One padded token enters the sum: `<=` where `<` is meant. Positions count from 0.",
            hint="For length 2, which positions are real?",
        ),
    },
    divide={
        "by n": Wrong(
            "The sum is divided by n, the padded length. A sentence's vector then shrinks when its batch mates are "
            "longer. Divide by the number of its real tokens.",
            hint="How many numbers did you add up?",
        ),
        "not": Wrong("This is the sum. For the mean, divide by the number of real tokens."),
        "by the total": Wrong(
            "All sums are divided by the number of real tokens in the whole batch. Each sentence has its own length.",
            hint="What does a sentence get when it comes alone, and when it comes with another?",
        ),
        "by the longest": Wrong(
            "All sums are divided by the length of the longest sentence. Each sentence has its own length.",
            hint="What does a sentence get when it comes alone, and when it comes with a longer one?",
        ),
        "axis forgotten": Wrong(
            "The lengths have no axis for the components. Where B is d, NumPy still divides, but each *component* by "
            "the length of another sentence: `lengths[:, None]`.",
            hint="Which shapes do the sums and the lengths have, and how does NumPy line them up?",
        ),
    },
)
def _(states, lengths, *, summed="real", divide="by length", empty="zeros", storage="floating", inputs="kept"):
    n, position, length = states.shape[1], np.arange(states.shape[1]), lengths[:, None]
    by_turn = {"all": position == position, "padding": position >= length, "one too many": position <= length}
    by_turn["the last"] = position >= n - length
    kept = by_turn.get(summed, position < length)
    total = np.where(kept[..., None], states, 0).sum(axis=1)
    count = {"0/0": length, "a billionth added": length + 1e-9}.get(empty, np.maximum(length, 1))
    by = {
        "by n": n,
        "not": 1,
        "by the total": lengths.sum(),
        "by the longest": lengths.max(),
        "axis forgotten": lengths,
    }
    mean = total / by.get(divide, count)
    if inputs == "overwritten":
        states[~np.broadcast_to(kept, states.shape[:2])] = 0
    return mean.astype(states.dtype) if storage == "like states" else mean


@masked_mean.mistake(
    "mean of all",
    "The mean runs over all positions, padding included, so that a sentence's vector depends on how long its batch "
    "mates are.",
    seen_in="huggingface/transformers#17463",
    hint="Has `lengths` been used?",
)
def _(states, lengths):
    return states.mean(axis=1)


@masked_mean.mistake(
    "mean of one more",
    "One padded token is counted with the real ones: `<=` where `<` is meant, or a slice that ends one too late. "
    "Positions count from 0.",
    hint="For length 2, which positions are real?",
)
def _(states, lengths):
    return masked_mean.reference(states, np.minimum(lengths + 1, states.shape[1]))


_OF_PADDING = Wrong(
    "The mask is turned round: this is the mean over the padding.",
    hint="For length 2, which positions enter your mean?",
)


@masked_mean.choice_points(mean_of={"the padding": _OF_PADDING, "the padding, 0/0": _OF_PADDING})
def _(states, lengths, *, mean_of):
    if mean_of == "the padding":
        return masked_mean.reference(states[:, ::-1], states.shape[1] - lengths)
    return np.array([tokens[length:].mean(axis=0) for tokens, length in zip(states, lengths, strict=True)])


@masked_mean.mistake(
    "one number for a sentence",
    "The mean runs over tokens *and* components, so that one number is left of each sentence: name the axis.",
    hint="Over which axes does `mean` run when you name none?",
)
def _(states, lengths):
    return masked_mean.reference(states, lengths).mean(axis=-1)


@masked_mean.mistake(
    "mean over the components",
    "The mean runs over the components of each token. What should disappear is the axis of the tokens, the second.",
    hint="Which axis counts the tokens, and which axis should be left beside the batch?",
)
def _(states, lengths):
    return states.mean(axis=-1)


@masked_mean.mistake(
    "mean over the batch",
    "The mean runs over the sentences. What should disappear is the axis of the tokens, the second.",
    hint="Which axis counts the tokens?",
)
def _(states, lengths):
    return states.mean(axis=0)


@masked_mean.mistake(
    "one mean for the batch",
    "The real tokens of all sentences go into a single mean. Each sentence gets a vector of its own, (B, d).",
    hint="How many vectors should come out?",
)
def _(states, lengths):
    return states[np.arange(states.shape[1]) < lengths[:, None]].mean(axis=0)


@masked_mean.mistake(
    "last real token",
    "You take the state of the last real token. That is another way to pool; the mean of all real tokens is asked for.",
    hint="Does the first token have any influence on your result?",
)
def _(states, lengths):
    return states[np.arange(len(states)), lengths - 1]


@masked_mean.mistake(
    "last position",
    "You take the last position, which is padding for every sentence but the longest. The mean of the real tokens is "
    "asked for.",
    hint="What stands at the last position of a short sentence?",
)
def _(states, lengths):
    return states[:, -1]


@masked_mean.mistake(
    "first token",
    "You take the state of the first token. That is another way to pool; the mean of all real tokens is asked for.",
    hint="Does the second token have any influence on your result?",
)
def _(states, lengths):
    return states[:, 0]


@masked_mean.mistake(
    "largest",
    "You take the largest real number of each component. That is another way to pool; the mean is asked for.",
    hint="Which operation joins the tokens?",
)
def _(states, lengths):
    real = np.arange(states.shape[1]) < lengths[:, None]
    return np.where(real[..., None], states, -np.inf).max(axis=1)


@masked_mean.variant
def times_the_mask(states, lengths):
    real = (np.arange(states.shape[1]) < lengths[:, None])[..., None]
    return (states * real).sum(axis=1) / np.clip(real.sum(axis=1), 1e-9, None)


@masked_mean.variant
def sentence_by_sentence(states, lengths):
    means = np.zeros((states.shape[0], states.shape[2]))
    for b, length in enumerate(lengths):
        if length > 0:
            means[b] = states[b, :length].mean(axis=0)
    return means


@masked_mean.variant
def as_attention(states, lengths):
    real = np.arange(states.shape[1]) < lengths[:, None]
    weights = real / np.maximum(real.sum(axis=1, keepdims=True), 1)  # uniform over the real tokens
    return np.einsum("bn,bnd->bd", weights, states)
