"""Exercise 1.1: weighted_average, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.1",
    points=1,
    section="Two values and their shares",
    statement=(
        "Mix any number of values with given shares. Each row of `values` is one value; `weights[i]` is the\n"
        "share of row `i`. Values may be whole numbers. With the shares ½, ½ and the values [2, 0], [0, 4] the\n"
        "answer is [1, 2]."
    ),
    hints=[
        "Each value is a row of `values`. Its share is the number at the same place in `weights`.",
        "Multiply row i by weight i and add the rows. `weights @ values` says that in one product.",
    ],
)
def weighted_average(weights, values):
    """Mix the values.

    weights (n_k,), never negative, sum 1; values (n_k, d_v) → (d_v,)
    """
    return weights @ values


@weighted_average.probes
def _(rng):
    sizes = [(5, 7), (4, 4), (3, 6)]  # (n_k, d_v): square too, where a wrong axis raises no error
    pairs = [(softmax(rng.normal(size=n)), rng.normal(size=(n, d))) for n, d in sizes]
    return [*pairs, (softmax(rng.normal(size=4)), rng.normal(size=(4, 4))), tuple(a.astype("f4") for a in pairs[0])]


@weighted_average.hard_probes
def _():
    return {
        "a single value": Probe(
            (np.array([1.0]), np.array([[3.0, -1.0, 2.0]])), "A single value comes back unchanged."
        ),
        "values of one component": Probe(
            (np.array([0.5, 0.25, 0.25]), np.array([[1.0], [2.0], [4.0]])),
            "With d_v = 1 the result is still an array, of shape (1,).",
        ),
        "integer values": Probe((np.array([0.5, 0.25, 0.25]), np.array([[2, 0], [0, 4], [1, 1]])), INTEGERS, True),
    }


@weighted_average.choice_points(
    share={
        "equal": Wrong(
            "Every value gets the same share: this is the plain mean, and the weights are not used.",
            hint="Where do the weights enter?",
        ),
        "winner": Wrong(
            "Only the value with the largest weight comes back. Attention mixes: the others keep their shares.",
            hint="What happened to the second value?",
        ),
        "softmax again": Wrong(
            "The weights go through softmax once more. They are shares already: use them as they are.",
            hint="Do the weights that you were given sum to one?",
        ),
        "reversed": Wrong(
            "The shares are handed out in reverse order: weight i belongs to value i.",
            hint="Which share does your code give to the first value?",
        ),
    },
    axis={
        "components": Wrong(
            "The weights are matched with the components (columns) of the values instead of with the values (rows). "
            "For a square table no error says so.",
            hint="Each row of `values` is one value; does your product give row i the weight i?",
        ),
    },
    total={
        "mean": Wrong(
            "The weighted values are averaged instead of added, so the result is n_k times too small: "
            "the weights have divided already.",
            hint="What would the result be if all values were equal?",
        ),
        "over components": Wrong(
            "You add the components of each value instead of adding the values: one number for each value is left.",
            hint="How many components should the result have?",
        ),
        "no sum": Wrong(
            "The values are multiplied by their weights but not added up: one row for each value is left.",
            hint="How many vectors should come back?",
        ),
        "everything": Wrong(
            "Everything is added up, values *and* components: one number is left. `np.sum` without an axis does that. "
            "Only the values are added, so that every component keeps its own sum.",
            hint="How many components should the result have, and over which axis does your sum run?",
        ),
    },
    storage={"like values": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(weights, values, *, share="given", axis="values", total="sum", storage="floating", inputs="kept"):
    given = weights
    if share == "equal":
        weights = np.full_like(weights, 1 / len(weights))
    elif share == "winner":
        weights = (weights == weights.max()) * 1.0
    elif share == "softmax again":
        weights = softmax(weights)
    elif share == "reversed":
        weights = weights[::-1]
    parts = weights[:, None] * values if axis == "values" else weights * values
    if storage == "like values":
        parts = parts.astype(values.dtype)
    if inputs == "overwritten":
        values *= given[:, None]  # raises for integer values, as it does for whoever writes it
    if total == "no sum":
        return parts
    if axis == "components" and total == "sum" and storage == "floating":
        return values @ weights
    along = 0 if (axis == "values") != (total == "over components") else 1
    along = None if total == "everything" else along
    return parts.mean(axis=along) if total == "mean" else parts.sum(axis=along)


@weighted_average.mistake(
    "first two",
    "Only the first two values are mixed. There can be any number of them.",
    hint="Does your code know how many rows `values` has?",
)
def _(weights, values):
    return weights[0] * values[0] + weights[1] * values[1]


@weighted_average.mistake(
    "last one",
    "Only the last value is left, multiplied by its weight: what the rows before it gave is overwritten in each round. "
    "Add to it instead, `out = out + …` or `out += …`.",
    hint="Would your result change if the first value did?",
)
def _(weights, values):
    return weights[-1] * values[-1]


@weighted_average.mistake(
    "first one",
    "Only the first value comes back, multiplied by its weight. In a loop, a `return` that is indented too far ends it "
    "in the first round.",
    hint="How often does your loop run before it returns?",
)
def _(weights, values):
    return weights[0] * values[0]


@weighted_average.mistake(
    "elementwise",
    "`weights * values` multiplies column j by weight j, which works by accident for a square table. A weight belongs "
    "to a row, and the rows must be added afterwards.",
    hint="How does NumPy line up the shapes (n_k,) and (n_k, d_v)?",
)
def _(weights, values):
    return weights * values


@weighted_average.variant
def loop(weights, values):
    out = np.zeros(values.shape[1])
    for i in range(len(weights)):
        for j in range(values.shape[1]):
            out[j] += weights[i] * values[i, j]
    return out


@weighted_average.variant
def einsum(weights, values):
    return np.einsum("i,ij->j", weights, values)


@weighted_average.variant
def normalising(weights, values):
    return np.average(values, axis=0, weights=weights)
