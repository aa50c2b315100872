"""Exercise 1.5: weight_of_copies, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, LIKE_INPUT
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.5",
    points=1,
    section="Copies of a key",
    statement=(
        "There are two different keys. The first occurs `copies` times, the second once; the first scores\n"
        "`difference` higher. How much weight do the copies have together? Find the closed form first, on\n"
        "paper, with n = `copies` and Δ = `difference`. Both may be arrays, also of whole numbers. With the\n"
        "difference 0 and 3 copies it is ¾."
    ),
    hints=[
        "Give the other key the score 0; then each copy has the score Δ. Write down the exponentials: n equal ones for "
        "the copies, one for the other key. Which share of their sum belongs to the copies?",
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
def _(rng):  # plain numbers, as in the chapter
    return [(float(rng.normal() * 1.5), int(n)) for n in rng.permutation(np.arange(2, 12))[:6]]


_ARRAYS = (
    "With arrays it fails, or cuts off fractions: use NumPy's `np.exp` and `np.log`, no `if` on the inputs and no list "
    "with an entry for each copy, and store the result in no array of integers."
)


@weight_of_copies.hard_probes
def _():
    difference, copies = np.array([0.5, -1.0, 2.0]), np.array([3.0, 10.0, 2.0])
    return {
        "one copy": Probe((0.7, 1), "With one copy it is the plain weight of two keys."),
        "arrays": Probe((difference, copies), _ARRAYS),
        "arrays of float32": Probe((difference.astype(np.float32), copies), _ARRAYS),
        "far above": Probe(
            (1000.0, 3),
            "for a difference of 1000 your formula gives ∞/∞. Written with exp(−…), it gives 1.",
            advice=True,
        ),
        "integers": Probe((np.array([0, 1, -2]), np.array([2, 3, 4])), _ARRAYS, True),
    }


@weight_of_copies.choice_points(
    bonus={
        "n": Wrong(
            "The number of copies is added to the score. What is added is its logarithm: n·e^Δ = e^(Δ + ln n).",
            hint="How do you write n·e^Δ as a single power of e?",
        ),
        "n - 1": Wrong(
            "n − 1 is added to the score. What is added is ln n: n·e^Δ = e^(Δ + ln n).",
            hint="How do you write n·e^Δ as a single power of e?",
        ),
        "factor": Wrong(
            "The score is multiplied by the number of copies. Copies multiply the *exponential*, not the score.",
            hint="With Δ = 0 and three copies of key 1: is its total ½?",
        ),
        "minus": Wrong(
            "More copies get *less* together: ln n is subtracted, or n multiplies e^(−Δ), which it should divide. A "
            "bonus is added.",
            hint="Should ten copies have more weight together than one?",
        ),
        "none": Wrong(
            "The number of copies has no effect: it is not used, or it cancels. This is the weight of a single copy.",
            hint="What does your formula give for Δ = 0 and 1 copy, and for Δ = 0 and 3 copies?",
        ),
        "log2": Wrong(
            "The logarithm has base 2; softmax uses e, so it must be the natural logarithm.",
            hint="Which number is `np.exp(np.log2(8))`?",
        ),
    },
    sign={
        "difference": Wrong(
            "The sign of the difference is turned round: the more it scores, the less it gets.",
            hint="What should a very large difference give?",
        ),
    },
    share={
        "one copy": Wrong(
            "This is the weight of one copy. All copies together are asked for.",
            hint="How many keys share that weight?",
        ),
        "other key": Wrong(
            "This is the weight of the other key; the copies have the rest.",
            hint="What should a very large difference give?",
        ),
        "odds": Wrong(
            "This is the ratio of the two weights (the odds), not a share: it can exceed 1.",
            hint="By which sum must n·e^Δ be divided?",
        ),
        "score": Wrong(
            "This is the score of all copies together, with their bonus. Their *share* is asked for: its exponential, "
            "divided by the sum of the exponentials.",
            hint="Can a share be negative?",
        ),
    },
    storage={"like difference": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(difference, copies, *, bonus="log", sign="plus", share="total", storage="floating", inputs="kept"):
    added = {"log": np.log(copies), "n": copies, "n - 1": copies - 1, "log2": np.log2(copies), "minus": -np.log(copies)}
    delta = difference if sign == "plus" else -difference
    logit = delta * (copies if bonus == "factor" else 1) + added.get(bonus, 0)
    if share == "other key":
        logit = -logit
    result = {"odds": np.exp(logit), "score": logit}.get(share, 1 / (1 + np.exp(-logit)))
    if share == "one copy":
        result = result / copies
    if inputs == "overwritten":
        difference += np.log(copies)
    return result.astype(difference.dtype) if storage == "like difference" and np.ndim(difference) else result


@weight_of_copies.mistake(
    "multiplied weight",
    "The weight that a single copy would have is multiplied by n: that is n·e^Δ divided by e^Δ + 1, with one copy "
    "below the fraction bar. All n copies belong there as well; without them the result can exceed 1.",
    hint="What does your formula give for ten copies and Δ = 2?",
)
def _(difference, copies):
    return copies / (1 + np.exp(-difference))


@weight_of_copies.mistake(
    "difference unused",
    "This is n/(n + 1), the share of the copies if all keys score alike: the difference has no effect.",
    hint="What should a very large difference give?",
)
def _(difference, copies):
    return copies / (copies + 1 + 0 * difference)


@weight_of_copies.mistake(
    "brackets missing",
    "Brackets are missing below the fraction bar. A division comes before a sum: `1 / 1 + e` is (1 / 1) + e.",
    hint="What does Python print for `1 / 1 + 1`?",
)
def _(difference, copies):
    return 1 + np.exp(-(difference + np.log(copies)))


@weight_of_copies.variant
def fractions(difference, copies):
    shift = np.maximum(difference, 0)
    mine = copies * np.exp(difference - shift)
    return mine / (mine + np.exp(-shift))
