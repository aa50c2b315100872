"""Exercise 1.5: weight_of_copies, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT
from ..engine import Hard, Wrong, exercise


@exercise(
    "1.5",
    points=1,
    section="Copies of a key",
    statement=(
        "There are two different keys. The first occurs `copies` times, the second once; the first scores\n"
        "`difference` higher. How much weight do the copies have together? Find the closed form first, on\n"
        "paper."
    ),
    hints=[
        "Write the two exponentials: n equal ones for the copies, one for the other key. Divide by e^(s₂).",
        "n·e^Δ is e^(Δ + ln n): a copy count acts like a bonus of ln n on the score.",
    ],
)
def weight_of_copies(difference, copies):
    """Total weight of a key that occurs `copies` times.

    difference: its score minus that of the one other key; copies ≥ 1;
    both are numbers, or arrays of one shape → the same shape
    """
    return 1 / (1 + np.exp(-(difference + np.log(copies))))


@weight_of_copies.probes
def _(rng):
    cases = [(rng.normal(size=n) * 1.5, rng.integers(2, 12, size=n)) for n in (5, 4, 6)]
    return [*cases, (cases[0][0].astype(np.float32), cases[0][1])]


@weight_of_copies.hard_probes
def _():
    return {
        "one copy": Hard((np.array([0.0, 1.0]), np.array([1, 1])), "With one copy it is the plain weight of two keys."),
        "integers": Hard((np.array([0, 1, -2]), np.array([2, 3, 4])), INTEGERS, True),
    }


@weight_of_copies.choice_points(
    bonus={
        "n": Wrong(
            "The number of copies is added to the score. What is added is its logarithm: n·e^Δ = e^(Δ + ln n).",
            hint="How do you write n·e^Δ as a single power of e?",
        ),
        "n - 1": Wrong("n − 1 is added to the score. What is added is ln n: n·e^Δ = e^(Δ + ln n)."),
        "factor": Wrong(
            "The score is multiplied by the number of copies. Copies multiply the *exponential*, not the score.",
            hint="With Δ = 0 and three copies of key 1: is its total ½?",
        ),
        "none": Wrong("The copies are not counted: this is the weight with a single copy."),
        "log2": Wrong("The logarithm has base 2; softmax uses e, so it must be the natural logarithm."),
    },
    share={
        "one copy": Wrong(
            "This is the weight of one copy. All copies together are asked for.",
            hint="How many keys share that weight?",
        ),
        "other key": Wrong("This is the weight of the other key; the copies have the rest."),
        "odds": Wrong("This is the ratio of the two weights (the odds), not a share: it can exceed 1."),
    },
    storage={"like difference": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(difference, copies, *, bonus="log", share="total", storage="floating", inputs="kept"):
    added = {"log": np.log(copies), "n": copies, "n - 1": copies - 1, "none": 0, "factor": 0, "log2": np.log2(copies)}
    logit = difference * (copies if bonus == "factor" else 1) + added[bonus]
    if share == "other key":
        logit = -logit
    result = np.exp(logit) if share == "odds" else 1 / (1 + np.exp(-logit))
    if share == "one copy":
        result = result / copies
    if inputs == "overwritten":
        difference += np.log(copies)
    return result.astype(difference.dtype) if storage == "like difference" else result


@weight_of_copies.mistake(
    "multiplied weight",
    "The weight of a single copy is multiplied by n. The sum below grows too: with many copies this exceeds 1.",
    hint="What does your formula give for ten copies and Δ = 2?",
)
def _(difference, copies):
    return copies / (1 + np.exp(-difference))


@weight_of_copies.mistake(
    "ratio of exponentials",
    "n·e^Δ is divided by e^Δ + 1: below stands only one copy. All n copies belong there as well.",
    hint="How many exponentials does the denominator add?",
    same_as="multiplied weight",
)
def _(difference, copies):
    return copies * np.exp(difference) / (np.exp(difference) + 1)


@weight_of_copies.variant
def fractions(difference, copies):
    shift = np.maximum(difference, 0)
    mine = copies * np.exp(difference - shift)
    return mine / (mine + np.exp(-shift))
