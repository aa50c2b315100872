"""Wrong turns that occur in several exercises: one text, one place; and what their twins share."""

import numpy as np

from .engine import Wrong

OVERFLOW = Wrong(
    "The exponentials overflow: `exp(1000)` is infinite, and ∞/∞ is not a number. "
    "Subtract the largest score first; a common shift changes no weight.",
    seen_in="pyg-team/pytorch_geometric#53",
    hint="What does softmax give for [1000, 1001], and for [0, 1]?",
)
SHIFT_MEAN = Wrong(
    "You subtract something other than the largest score (the mean, say, or the smallest). The formula allows it, "
    "but the largest score can still overflow: subtract that one, and every exponent is at most zero.",
    hint="What remains of the scores 0, 0 and 3000 after your shift?",
)
IN_PLACE = Wrong(
    "Your function changes its inputs. Whoever calls it finds other numbers afterwards: make a new array.",
    hint="Is there a `-=`, `*=`, `/=` or an assignment into a slice of an argument?",
)
LIKE_INPUT = Wrong(
    "For integer inputs the result is stored in an integer array, which cuts off every fraction. "
    "Let the array be floating: `np.zeros(…)` without the input's dtype.",
    hint="What dtype does `np.zeros_like(x)` have when x holds integers?",
)
NOT_NORMALISED = Wrong("The exponentials are not divided by their sum, so they are no shares.")
WORST_FIRST = Wrong("The sign of the scores is turned round: the worst match gets the largest weight.")
HUGE = "For scores around 1000 the answer is wrong (often not a number): subtract the largest score before `exp`."
INTEGERS = "For whole numbers as inputs it fails, or cuts off fractions: is a result stored in an array of integers?"
SCALE = {
    "none": Wrong(
        "The scores are not divided by √d_k, so they spread too far and the weights are too sharp.",
        seen_in="mlc-ai/mlc-llm#3426",
        hint="What stands below the fraction bar in the formula for a score?",
    ),
    "times": Wrong(
        "The scores are multiplied by √d_k; they should be divided by it.",
        seen_in="esceptico/perceiver-io#9",
        hint="Should more components make the scores larger?",
    ),
    "by d": Wrong(
        "The scores are divided by d_k instead of √d_k, so the weights are too flat.",
        hint="Is there a root in the formula for a score?",
    ),
    "by n": Wrong(
        "The scores are divided by √n_k, the number of keys; d_k is the number of components of one key.",
        hint="Which axis of `keys` counts components?",
    ),
    "by 2 d": Wrong(
        "The scores are divided by 2·d_k. Python takes the power first: `d ** 1 / 2` is (d ** 1) / 2. "
        "Write `d ** 0.5` or `np.sqrt(d)`.",
        hint="What does Python print for `9 ** 1 / 2`?",
    ),
    "by root of 2": Wrong(
        "The scores are divided by √2. That is the example's number: there d_k is 2. In general it is √d_k.",
        hint="Where does the 2 come from?",
    ),
}


def shifted_exp(scores, shift="max"):
    """exp with the chosen shift; the largest of all scores is what some subtract where each row has its own."""
    if shift == "max":
        scores = scores - scores.max(axis=-1, keepdims=True)
    elif shift == "mean":
        scores = scores - scores.mean(axis=-1, keepdims=True)
    elif shift == "largest of all":
        scores = scores - scores.max()
    return np.exp(scores)


def scaled(product, query, keys, scale):
    d, n = keys.shape[-1], keys.shape[0]
    divisor = {"times": 1 / np.sqrt(d), "by d": d, "by n": np.sqrt(n), "by root of 2": np.sqrt(2), "by 2 d": 2 * d}
    return product if scale == "none" else product / divisor.get(scale, np.sqrt(d))


def query_and_keys(rng):
    """Unequal sizes, tall and wide, both dtypes; no probe where √d_k, d_k and √n_k coincide."""
    sizes = [(5, 6), (7, 3), (4, 9)]  # (n_k, d_k)
    pairs = [(rng.normal(size=d), rng.normal(size=(n, d))) for n, d in sizes]
    return [*pairs, tuple(a.astype(np.float32) for a in pairs[0])]
