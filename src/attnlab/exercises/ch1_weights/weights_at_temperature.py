"""Exercise 1.4: weights_at_temperature, and what people write instead."""

from dataclasses import replace

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT, NOT_NORMALISED, WORST_FIRST, shifted_exp
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.4",
    points=1,
    section="Temperature",
    statement=(
        "Turn scores into weights at a given temperature, which may be as low as 0.001 or as high as 1000. The\n"
        "scores may be whole numbers, and as large as 1000. You may use `softmax`. The scores [0, ln 2] give at\n"
        "temperature ½ the weights [1/5, 4/5]."
    ),
    hints=[
        "The temperature acts on the scores, before softmax.",
        "Divide by it: a high temperature makes scores alike, a low one drives them apart.",
    ],
)
def weights_at_temperature(scores, temperature):
    """Softmax of scores / temperature.

    scores (n_k,), temperature: a number above 0 → (n_k,)
    """
    return softmax(scores / temperature)


@weights_at_temperature.probes
def _(rng):
    cases = [(rng.normal(size=n) * 1.5, t) for n, t in [(5, 0.5), (3, 2.0), (6, 4.0)]]
    return [*cases, (cases[0][0].astype(np.float32), 3.0)]


_COLD = "At a temperature of 0.001 the answer is wrong: divide the scores by exactly T, and keep softmax stable."


@weights_at_temperature.hard_probes
def _():
    return {
        "very cold": Probe((np.array([0.0, 1.0, 2.0]), 0.001), _COLD),
        "cold and below zero": Probe((np.array([-1.0, -2.0, -3.0]), 0.001), _COLD),
        "cold and close": Probe((np.array([0.0, 0.001, 0.002]), 0.001), _COLD),
        "very hot": Probe(
            (np.array([0.0, 1000.0]), 1000.0),
            "At a temperature of 1000 it is wrong: divide by T first, then subtract the largest of what you have.",
        ),
        "a single key": Probe((np.array([2.0]), 0.5), "With a single key the weight is 1, in an array of shape (1,)."),
        "integers": Probe((np.array([1, 2, 4]), 2), INTEGERS, True),
    }


_COLD_OVERFLOW = Wrong(
    "At a low temperature the exponentials overflow: 2/0.001 is 2000. Subtract the largest score before `exp`.",
    hint="How large can scores / temperature become?",
)


@weights_at_temperature.choice_points(
    use={
        "times": Wrong(
            "The scores are multiplied by the temperature. Then *hot* means sharp; it should mean flat.",
            hint="At T = 10, should the weights be more alike or less?",
        ),
        "unused": Wrong(
            "The temperature has no effect: it is not used, or it cancels, as whatever multiplies all exponentials "
            "or is added to all scores does.",
            hint="Does T stand below every score, before `exp`?",
        ),
        "root": Wrong(
            "The scores are divided by √T instead of T.",
            hint="What do the scores 0 and 4 become at T = 4, and at T = 16?",
        ),
        "after": Wrong(
            "The temperature divides the weights after softmax. They no longer sum to 1; their ratios stay the same.",
            hint="What do your weights sum to?",
        ),
        "times after": Wrong(
            "The temperature multiplies the weights after softmax. They no longer sum to 1, and their ratios stay the "
            "same.",
            hint="What do your weights sum to?",
        ),
        "exponent": Wrong(
            "The weights are raised to the power T and divided by their sum. The power that belongs there is 1/T.",
            hint="At T = 10, should the weights be more alike or less?",
            same_as="use: times",
        ),
    },
    sign={"minus": replace(WORST_FIRST, hint="Which key should get the largest weight, at any temperature?")},
    normalise={"not": replace(NOT_NORMALISED, hint="What do your weights sum to?")},
    shift={"none": _COLD_OVERFLOW},
    storage={"like scores": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(
    scores,
    temperature,
    *,
    use="divide",
    sign="plus",
    normalise="once",
    shift="max",
    storage="floating",
    inputs="kept",
):
    factor = {"divide": 1 / temperature, "times": temperature, "root": temperature**-0.5, "exponent": temperature}
    logits = scores * factor.get(use, 1.0) * (1 if sign == "plus" else -1)
    exps = shifted_exp(logits, shift)
    weights = exps if normalise == "not" else exps / exps.sum()
    if use == "after":
        weights = weights / temperature
    elif use == "times after":
        weights = weights * temperature
    if inputs == "overwritten":
        scores /= temperature
    return weights.astype(scores.dtype) if storage == "like scores" else weights


@weights_at_temperature.mistake(
    "powers",
    "Softmax first, then the power 1/T and a division: the same on paper. But a weight that was rounded to 0 stays 0, "
    "however hot it gets, and a low T can round all of them to 0.",
    hint="What are the weights of the scores 0 and 1000, before and after your power at T = 1000?",
)
def _(scores, temperature):
    weights = softmax(scores * 1.0) ** (1 / temperature)
    return weights / weights.sum()


@weights_at_temperature.mistake(
    "powers, not divided",
    "The weights are raised to the power 1/T after softmax, and then no longer sum to 1. Divide the *scores* by T, "
    "before softmax, which makes shares of whatever scores it is given.",
    hint="What do your weights sum to?",
)
def _(scores, temperature):
    return softmax(scores * 1.0) ** (1 / temperature)


@weights_at_temperature.mistake(
    "above the bar alone",
    "The temperature stands in the exponentials above the fraction bar, but not in the sum below it. Divide the scores "
    "by T once, before softmax, and both are made of the same numbers.",
    hint="What do your weights sum to?",
)
def _(scores, temperature):
    cold, plain = scores / temperature, scores * 1.0
    return np.exp(cold - plain.max()) / np.exp(plain - plain.max()).sum()


@weights_at_temperature.mistake(
    "no softmax",
    "These are the scores divided by T. One step is missing: softmax makes shares of them.",
    hint="What do your weights sum to?",
)
def _(scores, temperature):
    return scores / temperature


@weights_at_temperature.mistake(
    "softmax twice",
    "Softmax is applied twice, once before the division and once after it. What is divided by T are the scores, not "
    "shares of them: the second softmax flattens what the first one has made.",
    hint="How far apart can two numbers lie that softmax has already been applied to?",
)
def _(scores, temperature):
    return softmax(softmax(scores * 1.0) / temperature)


@weights_at_temperature.variant
def inverse_temperature(scores, temperature):
    beta = 1 / temperature
    return softmax(np.array([beta * score for score in scores]))


@weights_at_temperature.variant
def shifted_by_hand(scores, temperature):
    exps = np.exp((scores - max(scores)) / temperature)
    return exps / sum(exps)
