"""Exercise 2.5: entropy_of_weights, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE
from ..engine import Probe, Wrong, exercise


@exercise(
    "2.5",
    points=1,
    section="Saturation",
    statement=(
        "How widely are weights spread? Compute their entropy −Σ αᵢ ln αᵢ, with the natural logarithm, for one\n"
        "row of weights or for each row of a table. A weight of 0 adds nothing: 0·ln 0 counts as 0, exactly, and\n"
        "nothing else is changed: the terms of all other weights stay as they are.\n"
        "Weights of 0 and 1 may come as integers. For the weights ½, ½ it is ln 2 ≈ 0.693, for 1, 0 it is 0."
    ),
    hints=[
        "Multiply each weight by its logarithm, add along the last axis, turn the sign.",
        "`np.log(0)` is −∞, and 0·(−∞) is not a number. `np.where(weights > 0, weights, 1)` is safe to take the "
        "logarithm of, since ln 1 = 0.",
    ],
)
def entropy_of_weights(weights):
    """Entropy of each row in nats; 0·ln 0 counts as 0.

    weights (n_k,) → a number; weights (n_q, n_k) → (n_q,)
    """
    safe = np.where(weights > 0, weights, 1)
    return -(weights * np.log(safe)).sum(axis=-1)


@entropy_of_weights.probes
def _(rng):  # square tables, where a wrong axis raises no error, and single rows
    tables = [softmax(rng.normal(size=shape) * 1.2) for shape in [(4, 4), (5,), (3, 5), (3,), (6, 2)]]
    return [*((t,) for t in tables), (tables[2].astype(np.float32),)]


_ZERO = "When a weight is 0 the answer is wrong or not a number: 0·ln 0 counts as 0, and no other weight is touched."


@entropy_of_weights.hard_probes
def _():
    return {
        "a weight of 0": Probe((np.array([0.5, 0.0, 0.25, 0.25]),), _ZERO),
        "zeros in a table": Probe((np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]),), _ZERO),
        "one key": Probe((np.array([1.0]),), "With one key there is nothing to spread: the entropy is 0."),
        "a table of one row": Probe(
            (np.array([[0.5, 0.25, 0.25]]),), "A table of one row gives an array of shape (1,)."
        ),
        "whole numbers": Probe(
            (np.array([[0, 1, 0], [1, 0, 0]]),), "Weights may come as the integers 0 and 1; it fails for those.", True
        ),
    }


@entropy_of_weights.choice_points(
    log={
        "base 2": Wrong(
            "The logarithm has base 2, so this is in bits. Asked for are nats: the natural logarithm, `np.log`.",
            hint="What is the entropy of ½, ½ in your code, 1 or 0.693?",
        ),
        "base 10": Wrong(
            "The logarithm has base 10. Asked for is the natural one, `np.log`.",
            hint="What is the entropy of ½, ½ in your code, 0.301 or 0.693?",
        ),
    },
    sign={
        "plus": Wrong(
            "The minus is missing. Logarithms of weights are negative; the entropy is not.",
            hint="Which sign has the logarithm of a number below 1?",
        ),
    },
    axis={
        "first": Wrong(
            "The sum runs over the first axis: it adds up the queries. Each row is one query with its own entropy.",
            hint="Which axis counts the keys?",
        ),
        "all": Wrong(
            "The sum runs over the whole table: one number for all rows together.",
            hint="Which axis does `sum` add over when you name none?",
        ),
    },
    total={
        "averaged": Wrong(
            "The terms are averaged, so the entropy is n_k times too small. They are added; the weights average.",
            hint="What is the entropy of ½, ½ in your code, 0.347 or 0.693?",
        ),
        "not summed": Wrong(
            "These are the terms of the sum, one for each weight. Add them along the last axis.",
            hint="How many numbers should one row give?",
        ),
    },
    terms={
        "logarithms only": Wrong(
            "The logarithms are added without the factor αᵢ before them: a tiny weight counts more than a large one.",
            hint="What happens to your sum when one weight goes to 0?",
        ),
        "softmax again": Wrong(
            "The weights go through softmax once more, which flattens them. They are shares already.",
            hint="Do the numbers that you were given sum to one?",
        ),
    },
    measure={
        "perplexity": Wrong(
            "This is e to the power of the entropy: the *number* of keys over which the weights spread. The exponent "
            "alone is asked for.",
            hint="What is your answer when one key has all the weight, 1 or 0?",
        ),
        "below uniform": Wrong(
            "This is ln n minus the entropy: how far the weights are from uniform. It rises when they sharpen; the "
            "entropy falls.",
            hint="What should equal weights give, 0 or ln n?",
        ),
        "share of ln n": Wrong(
            "The entropy is divided by its largest possible value ln n (and for one key that is 0/0). It is asked for "
            "as it is.",
            hint="What should four equal weights give, 1 or ln 4?",
        ),
    },
    zero={
        "not a number": Wrong(
            "A weight of 0 gives 0·(−∞), which is not a number. Let such a term be 0, its limit: for example with "
            "`np.where`, before the logarithm is taken.",
            hint="What does NumPy say to `0 * np.log(0)`?",
        ),
    },
)
def _(weights, *, log="natural", sign="minus", axis="last", total="sum", terms="w ln w", measure="", zero="0"):
    if terms == "softmax again":
        weights = softmax(weights * 1.0)
    logs = np.log(weights if zero != "0" else np.where(weights > 0, weights, 1))
    logs = logs / {"base 2": np.log(2), "base 10": np.log(10)}.get(log, 1)
    parts = logs if terms == "logarithms only" else weights * logs
    parts = parts if sign == "plus" else -parts
    over = {"first": 0, "all": None}.get(axis, -1)
    entropy = {"not summed": parts, "averaged": parts.mean(axis=over)}.get(total, parts.sum(axis=over))
    if measure == "":
        return entropy
    largest = np.log(weights.shape[-1]) / {"base 2": np.log(2), "base 10": np.log(10)}.get(log, 1)
    return {"perplexity": np.exp(entropy), "below uniform": largest - entropy, "share of ln n": entropy / largest}[
        measure
    ]


@entropy_of_weights.mistake(
    "Gini",
    "This is 1 − Σ αᵢ², another measure of spread. The entropy weighs each αᵢ with its logarithm.",
    hint="Is there a logarithm in your code?",
)
def _(weights):
    return 1 - (weights**2).sum(axis=-1)


def _with_a_little_more(little):
    def entropy(weights):
        return -(weights * np.log(weights + little)).sum(axis=-1)

    entropy_of_weights.mistake(
        f"{little:g} added",
        "A small number is added inside the logarithm. A weight of 0 does add 0 then, as it should. But the terms of "
        f"the weights that are not 0 come out a little wrong: a single weight of 1 gives −{little:g} instead of 0. "
        "Change the zeros only.",
        hint="Which weights meet your small number beside those that are 0?",
    )(entropy)


for _little in (1e-8, 1e-9, 1e-10, 1e-12):
    _with_a_little_more(_little)


@entropy_of_weights.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights):
    weights[weights == 0] = 1
    return -(weights * np.log(weights)).sum(axis=-1)


@entropy_of_weights.variant
def clipped(weights):  # 0 times a finite logarithm is 0
    return np.sum(weights * -np.log(np.maximum(weights, 1e-300)), axis=-1)


@entropy_of_weights.variant
def without_nan(weights):
    with np.errstate(all="ignore"):
        return -np.nansum(weights * np.log(weights), axis=-1)


@entropy_of_weights.variant
def with_loops(weights):
    if weights.ndim == 2:
        return np.array([with_loops(row) for row in weights])
    return sum(-w * np.log(w) for w in weights if w > 0)


@entropy_of_weights.variant
def bits_to_nats(weights):
    logs = np.zeros(weights.shape)
    np.log2(weights, out=logs, where=weights > 0)
    return -np.einsum("...k,...k->...", weights, logs) * np.log(2)
