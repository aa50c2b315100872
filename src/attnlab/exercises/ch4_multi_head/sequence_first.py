"""Exercise 4.6: sequence_first, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import HUGE, INTEGERS, OVERFLOW
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.6",
    points=2,
    section="The layer, and PyTorch's",
    statement=(
        "By default, torch's `nn.MultiheadAttention` takes the **sequence first**: x (n, B, d), so that `x[i, b]`\n"
        "is token i of sample b. Write self-attention for such a batch, without projections and with one head:\n"
        "within each sample its own tokens are queries, keys and values, and scores are scaled by 1/√d. The result\n"
        "is sequence first too. Scores may go beyond 1000. You may use `attnlab.softmax` or `attnlab.attention`. Two\n"
        "tokens of two samples, x = [[[0], [3]], [[0], [3]]], give x itself: all tokens of sample 0 are [0], all of\n"
        "sample 1 are [3], and a mean of equal vectors is that vector."
    ),
    hints=[
        "Write it for one sample, `x[:, b]`, of shape (n, d). How do you put the results of all samples together?",
        "Without a loop: `@` works on the last two axes and goes through those before them. Which two axes have to be "
        "the last ones, and which comes before? `swapaxes` brings them there, and back.",
    ],
)
def sequence_first(x):
    """Self-attention within each sample, without projections.

    x (n, B, d), the sequence first: x[i, b] is token i of sample b
    → output (n, B, d)
    """
    samples = x.swapaxes(0, 1)  # (B, n, d)
    scores = samples @ samples.swapaxes(1, 2) / x.shape[-1] ** 0.5
    output = softmax(scores) @ samples  # (B, n, d)
    return output.swapaxes(0, 1)


@sequence_first.probes
def _(rng):
    # (n, B, d). All three equal, twice: there the batch may stand first and no shape shows it, and `x @ x.T` raises no
    # error.
    sizes = [(3, 3, 3), (4, 2, 3), (2, 3, 5), (4, 4, 4), (5, 3, 2)]
    cases = [1.5 * rng.normal(size=size) for size in sizes]
    return [*((x,) for x in cases[:4]), (cases[4].astype(np.float32),)]


@sequence_first.hard_probes
def _():
    pair = np.array([[[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [-2.0, 1.0]], [[0.0, 0.0], [0.5, 3.0]]])
    return {
        "a sample of zeros": Probe(
            (pair,), "A sample of zeros stays zeros, whatever its neighbour in the batch holds: samples never mix."
        ),
        "one sample": Probe((pair[:, 1:],), "One sample is a batch of one: the shape is (n, 1, d)."),
        "one token": Probe((pair[:1],), "With one token in each sample the output is that token, for every sample."),
        "huge scores": Probe((40 * pair,), HUGE),
        "integers": Probe((pair[:2].astype(int),), INTEGERS, arrays_only=True, advice=True),
    }


@sequence_first.choice_points(
    batch={
        "axis 0": Wrong(
            "Axis 0 is taken for the batch, but it counts *tokens*. So the samples attend to each other: what one "
            "sentence gets depends on its neighbours in the batch. The shape is right, so nothing complains.",
            seen_in="aipixel/AEMatter#3",
            hint="Change sample 1 of the input. Does your output for sample 0 change?",
        ),
        "all tokens together": Wrong(
            "The tokens of all samples form one sequence of n·B tokens, and each attends to all of them. Samples must "
            "not see each other.",
            hint="How many keys has one query here, n or n·B?",
        ),
        "reshaped": Wrong(
            "`reshape` to (B, n, d) does not exchange two axes: it cuts the same row of numbers anew, so that a "
            "“sample” holds tokens of several. Exchange the axes with `swapaxes` or `transpose`.",
            seen_in="rish-16/tokenlearner-pytorch#1",
            hint="Which tokens does `x.reshape(B, n, d)[0]` hold, and which are in `x[:, 0]`?",
        ),
        "all axes turned": Wrong(
            "`.T` turns *all* axes round: x.T is (d, B, n). So the samples attend to each other, once for every "
            "feature. Turned back with `.T` the shape is right, and nothing complains. `swapaxes(0, 1)` exchanges two.",
            hint="Of which shape is `x.T`, and which two of its axes does `@` work on?",
        ),
    },
    keys={
        "all axes turned": Wrong(
            "`.T` turns *all* axes of the keys round, so that the axis of the batch, which was first, comes last. "
            "Mostly that raises an error; where all three axes are equally long it does not, and samples mix. Two axes "
            "are to change places: `swapaxes(-2, -1)`.",
            hint="Of which shape is `a.T` for an array a of shape (2, 3, 4)?",
        ),
    },
    end={
        "batch first": Wrong(
            "The result has the batch first, (B, n, d). It was asked for as x came, (n, B, d). Where n is B no shape "
            "shows it, and the next layer takes samples for tokens.",
            hint="Which token and which sample should `output[0, 1]` belong to?",
        ),
        "reshaped": Wrong(
            "The result is brought to (n, B, d) by a `reshape`, which does not exchange axes: it cuts the same row of "
            "numbers anew, and tokens land in the wrong sample.",
            seen_in="rish-16/tokenlearner-pytorch#1",
            hint="What is the difference between `a.reshape(3, 2)` and `a.T` for an array of shape (2, 3)?",
        ),
        "all axes turned": Wrong(
            "The result is turned with `.T`, which turns *all* axes round: what stood last, now stands first. Only two "
            "are to change places: `swapaxes(0, 1)`.",
            hint="Of which shape is `a.T` for an array a of shape (2, 3, 4)?",
        ),
    },
    scale={
        "none": Wrong(
            "The scores are not divided by √d, so the weights are too sharp.",
            hint="What does the task say about the scores?",
        ),
        "times": Wrong(
            "The scores are multiplied by √d; they should be divided by it.",
            hint="Should more components make the scores larger?",
        ),
        "by d": Wrong(
            "The scores are divided by d instead of √d, so the weights are too flat.", hint="Is there a root in 1/√d?"
        ),
        "by n": Wrong(
            "The scores are divided by √n, the number of tokens. The scale is that of the last axis, d.",
            hint="Which axis of x counts the components of a token?",
        ),
        "by B": Wrong(
            "The scores are divided by √B, the number of samples. The scale is that of the last axis, d.",
            hint="Which axis of x counts the components of a token?",
        ),
    },
    axis={
        "queries": Wrong(
            "The weights of one query do not sum to 1: softmax runs along the queries (or the weights are transposed "
            "before they mix the tokens, which is the same here, where scores are symmetric). It runs along the keys, "
            "the last axis.",
            hint="Print the sums of the weights along their last axis. Should every entry be 1?",
        ),
        "samples": Wrong(
            "Softmax runs along axis 0 of the scores, which counts samples. It runs along the keys, the last axis.",
            hint="Which axes do the scores have, and which one counts keys?",
        ),
        "all": Wrong(
            "Softmax runs over all scores at once, so that they sum to 1 together instead of in each row.",
            hint="How much weight has one query to share out?",
        ),
    },
    mix={
        "weights only": Wrong(
            "These are the weights. One step is missing: let them mix the tokens.",
            hint="How many components should an output have?",
        ),
        "scores": Wrong(
            "The raw scores mix the tokens; softmax is missing, so the shares are no shares.",
            hint="What do the numbers that multiply the tokens of one sample sum to?",
        ),
        "x as it came": Wrong(
            "The weights are those of each sample, but what they mix is x as it came, with the sequence first. Where n "
            "is B no shape shows it. Queries, keys and values all need their axes exchanged.",
            hint="Of which sample is `x[0]`, and of which sample are your weights at index 0?",
        ),
    },
    shift={"none": OVERFLOW},
)
def _(x, *, batch="axis 1", keys="tokens", end="sequence first", scale="root", axis="keys", mix="tokens", shift="max"):
    n, n_samples, d = x.shape
    samples = {
        "axis 0": lambda: x,
        "all tokens together": lambda: x.reshape(1, n * n_samples, d),
        "reshaped": lambda: x.reshape(n_samples, n, d),
        "all axes turned": lambda: x.T,
    }.get(batch, lambda: x.swapaxes(0, 1))()
    divisor = {"none": 1, "times": d**-0.5, "by d": d, "by n": n**0.5, "by B": n_samples**0.5}.get(scale, d**0.5)
    scores = samples @ (samples.T if keys == "all axes turned" else samples.swapaxes(1, 2)) / divisor
    if mix == "scores":
        weights = scores
    elif axis == "all":
        weights = _softmax(scores.reshape(1, -1), -1, shift).reshape(scores.shape)
    else:
        weights = _softmax(scores, {"queries": 1, "samples": 0}.get(axis, -1), shift)
    output = weights if mix == "weights only" else weights @ (x if mix == "x as it came" else samples)
    if "all axes turned" in (batch, end):  # back again, or at the end alone
        return output.T
    if batch == "axis 0":  # tokens of the result stand first already
        return output if end == "sequence first" else output.swapaxes(0, 1)
    if batch == "all tokens together":
        output = output.reshape(n, n_samples, -1)
        return output if end == "sequence first" else output.swapaxes(0, 1)
    if end == "reshaped":
        return output.reshape(n, n_samples, -1)
    return output if end == "batch first" else output.swapaxes(0, 1)


def _softmax(scores, axis, shift):
    if shift == "max":
        return softmax(scores, axis=axis)
    exps = np.exp(scores)
    return exps / exps.sum(axis=axis, keepdims=True)


@sequence_first.mistake(
    "mean of the tokens",
    "Every token gets the plain mean of its sample, whatever the scores are. The weights come from the scores.",
    hint="May two tokens of one sample have different outputs?",
)
def _(x):
    return np.broadcast_to(x.mean(axis=0), x.shape)


@sequence_first.mistake(
    "x times x.T",
    "`.T` turns *all* axes of x round: x.T is (d, B, n). Mostly `x @ x.T` then raises an error; where n, B and d are "
    "equal it does not, and samples mix. Bring the batch to the front, then exchange the last two axes.",
    hint="Of which shape is `x.T`, and which axes of it does `@` work on?",
)
def _(x):
    return softmax(x @ x.T / x.shape[-1] ** 0.5) @ x


@sequence_first.variant
def sample_by_sample(x):
    output = np.zeros(x.shape)
    for b in range(x.shape[1]):
        tokens = x[:, b]
        output[:, b] = softmax(tokens @ tokens.T / np.sqrt(tokens.shape[1])) @ tokens
    return output


@sequence_first.variant
def with_einsum(x):
    scores = np.einsum("qbd,kbd->bqk", x, x) / np.sqrt(x.shape[2])
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bqk,kbd->qbd", exps / exps.sum(axis=-1, keepdims=True), x)


@sequence_first.variant
def stacked(x):
    samples = [x[:, b] / x.shape[-1] ** 0.25 for b in range(x.shape[1])]
    outputs = [softmax(one @ one.T) @ x[:, b] for b, one in enumerate(samples)]
    return np.stack(outputs, axis=1)


@sequence_first.variant
def one_long_sequence_with_a_mask(x):
    n, n_samples, d = x.shape
    tokens, sample = x.reshape(-1, d), np.tile(np.arange(n_samples), n)
    scores = np.where(sample[:, None] == sample, tokens @ tokens.T / np.sqrt(d), -np.inf)
    return (softmax(scores) @ tokens).reshape(x.shape)
