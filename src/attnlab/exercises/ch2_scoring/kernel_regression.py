"""Exercise 2.4: kernel_regression, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, NOT_NORMALISED
from ..engine import Probe, Wrong, exercise


@exercise(
    "2.4",
    points=2,
    section="Gaussian scoring: near means similar",
    statement=(
        "Predict y at new places x from known points (Nadaraya–Watson regression): each prediction is a\n"
        "weighted mean of all `y_known`, and the weights are the softmax of the Gaussian scores of its x. With\n"
        "two known points, half way between them, it is the mean of their y. However far x lies from all known\n"
        "points, the answer is a number. The inputs may be whole numbers. You may use `softmax`."
    ),
    hints=[
        "This is attention: x are the queries, `x_known` the keys, `y_known` the values. Scores, weights, mixture.",
        "`x[:, None] - x_known` is the table of differences, with a row for each x. Score: −difference² / (2·width²).",
        "`softmax` runs along the last axis, the known points. `weights @ y_known` mixes.",
    ],
)
def kernel_regression(x, x_known, y_known, width):
    """Predictions at x: weighted means of y_known, near points first.

    x (n,), x_known (m,), y_known (m,), width: a number above 0 → (n,)
    """
    scores = -((x[:, None] - x_known) ** 2) / (2 * width**2)  # (n, m)
    weights = softmax(scores)
    return weights @ y_known


@kernel_regression.probes
def _(rng):  # as many new as known points, where a wrong axis raises no error; then unequal numbers
    cases = [
        (rng.normal(size=n), np.sort(rng.normal(size=m)), rng.normal(size=m) * 2, width)
        for n, m, width in [(4, 4, 0.7), (5, 5, 1.3), (3, 6, 0.6), (6, 3, 1.7)]
    ]
    return [*cases, (*(a.astype(np.float32) for a in cases[2][:3]), 0.8)]


_FAR = (
    "For an x far from every known point the answer is wrong or not a number: all exponentials round to 0. Softmax "
    "subtracts the largest score first, and the nearest point keeps its weight."
)


@kernel_regression.hard_probes
def _():
    x_known, y_known = np.array([3.0, -1.0, 0.5]), np.array([2.0, -4.0, 1.0])
    return {
        "far away": Probe((np.array([0.0, 1000.0, -300.0]), x_known, y_known, 0.5), _FAR),
        "one known point": Probe(
            (np.array([0.0, 2.0]), x_known[:1], y_known[:1], 1.5), "With one known point every prediction is its y."
        ),
        "one x": Probe((np.array([0.25]), x_known, y_known, 1.5), "With one x the answer is an array of shape (1,)."),
        "integers": Probe((np.array([0, 2]), np.array([1, 3, 0]), np.array([5, -2, 1]), 2), INTEGERS, True),
    }


@kernel_regression.choice_points(
    normalise={
        "not": NOT_NORMALISED,
        "over x": Wrong(
            "The weights are normalised along the wrong axis: for each known point they sum to 1 over the x. For "
            "each x they must sum to 1 over the known points.",
            hint="Which axis of your table counts the known points?",
        ),
        "over everything": Wrong(
            "The exponentials are divided by the sum of the whole table. Each x divides by its own sum.",
            hint="What do the weights of one x sum to?",
        ),
        "keepdims forgotten": Wrong(
            "The sums have lost their axis. With as many new points as known ones NumPy still divides, but by the sum "
            "of the *wrong x*: add `keepdims=True`.",
            hint="Which shapes do the exponentials and their sums have, and how does NumPy line them up?",
        ),
        "by their number": Wrong(
            "The sum is divided by the number of known points instead of by the sum of the exponentials.",
            hint="If all `y_known` are 1, what should every prediction be?",
        ),
    },
    kernel={
        "width not squared": Wrong(
            "The squared difference is divided by 2·width; the width is squared too, so that the units cancel.",
            hint="If x, `x_known` and the width are doubled, should a prediction change?",
        ),
        "without 2": Wrong(
            "The squared difference is divided by width²; the 2 is missing.",
            hint="What divides the squared difference?",
        ),
        "times": Wrong(
            "The scores are multiplied by width²: a larger width makes the weights sharper. In Python, `a / 2 * "
            "width**2` is (a / 2)·width²: put the divisor in brackets.",
            hint="Should a larger width make the curve smoother or rougher?",
        ),
        "absolute": Wrong(
            "The score is −|difference| / width. The Gaussian score squares the difference.",
            hint="Is there a square in your score?",
        ),
    },
    sign={
        "plus": Wrong(
            "The minus is missing: the farthest known point gets the largest weight.",
            hint="Which known point should count most?",
        ),
    },
    shift={
        "none": Wrong(
            "Far from every known point all exponentials round to 0, and 0/0 is not a number. Subtract the largest "
            "score first, as `softmax` does; a common shift changes no weight.",
            hint="What is `np.exp(-1000.0)`?",
        ),
    },
    pairs={
        "turned": Wrong(
            "The table lies on its side: x and `x_known` have changed roles. With as many new points as known ones no "
            "error says so.",
            hint="Which of the two is asked about, and which is looked up?",
        ),
        "matching only": Wrong(
            "x number i meets known point i only. Every x meets every known point: that takes a table of differences.",
            hint="How many differences do 3 new and 6 known points have?",
        ),
    },
    mix={
        "weights only": Wrong(
            "These are the weights. One step is missing: let them mix `y_known`.", hint="Has `y_known` been used?"
        ),
        "no sum": Wrong(
            "The y are multiplied by their weights but not added up: one row for each x is left.",
            hint="How many numbers should come back for one x?",
        ),
    },
)
def _(x, x_known, y_known, width, *, normalise="each x", kernel="", sign="minus", shift="max", pairs="all", mix="sum"):
    if pairs == "matching only":
        apart = x - x_known
    else:
        apart = x_known[:, None] - x if pairs == "turned" else x[:, None] - x_known
    scores = {
        "width not squared": lambda: -(apart**2) / (2 * width),
        "without 2": lambda: -(apart**2) / width**2,
        "times": lambda: -(apart**2) / 2 * width**2,
        "absolute": lambda: -np.abs(apart) / width,
    }.get(kernel, lambda: -(apart**2) / (2 * width**2))()
    scores = scores if sign == "minus" else -scores
    over = {"over x": 0, "over everything": None}.get(normalise, -1)
    if shift == "max" and normalise not in ("not", "by their number"):
        scores = scores - scores.max(axis=over, keepdims=True)
    exps = np.exp(scores)
    if normalise == "by their number":
        weights = exps / len(x_known)
    else:
        weights = exps if normalise == "not" else exps / exps.sum(axis=over, keepdims=normalise != "keepdims forgotten")
    if mix == "weights only":
        return weights
    return weights * y_known if mix == "no sum" else weights @ y_known


@kernel_regression.mistake(
    "nearest",
    "Each x takes the y of its nearest known point. Here all known points have a share, the nearer the more.",
    hint="Does your prediction change when the width does?",
)
def _(x, x_known, y_known, width):
    return y_known[np.abs(x[:, None] - x_known).argmin(axis=-1)]


@kernel_regression.mistake(
    "straight lines",
    "`np.interp` joins the known points with straight lines. Here all known points have a share, the nearer the more.",
    hint="Does your prediction change when the width does?",
)
def _(x, x_known, y_known, width):
    return np.interp(x, x_known, y_known)


def _with_a_little_more(little):
    def regression(x, x_known, y_known, width):
        exps = np.exp(-((x[:, None] - x_known) ** 2) / (2 * width**2))
        return exps @ y_known / (exps.sum(axis=-1) + little)

    kernel_regression.mistake(
        f"{little:g} added",
        "A small number is added to the sum of the exponentials. That avoids 0/0, but draws every prediction a little "
        "towards 0, and far from all known points down to 0. Subtract the largest score instead: then no sum is 0.",
        hint="What does your function predict for x = 1000?",
    )(regression)


for _little in (1e-8, 1e-9, 1e-10):
    _with_a_little_more(_little)


@kernel_regression.mistake(
    "like x",
    "For whole numbers as x the predictions are stored in an array of integers, which cuts off every fraction. Let the "
    "array be floating: `np.zeros(len(x))`.",
    hint="What dtype does `np.zeros_like(x)` have when x holds integers?",
)
def _(x, x_known, y_known, width):
    return kernel_regression.reference(x, x_known, y_known, width).astype(x.dtype)


@kernel_regression.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(x, x_known, y_known, width):
    x /= width  # raises for integers, as it does for whoever writes it
    x_known /= width
    return kernel_regression.reference(x, x_known, y_known, 1.0)


@kernel_regression.variant
def one_by_one(x, x_known, y_known, width):
    predictions = np.zeros(len(x))
    for i, place in enumerate(x):
        weights = softmax(-0.5 * ((place - x_known) / width) ** 2)
        predictions[i] = sum(w * y for w, y in zip(weights, y_known, strict=True))
    return predictions


@kernel_regression.variant
def expanded(x, x_known, y_known, width):  # x² is the same for every key: softmax cancels it
    return softmax((np.outer(x, x_known) - x_known**2 / 2) / width**2) @ y_known


@kernel_regression.variant
def as_attention(x, x_known, y_known, width):
    scores = -np.square(np.subtract.outer(x, x_known)) / (2 * width**2)
    exps = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.average(np.broadcast_to(y_known, exps.shape), axis=1, weights=exps)


@kernel_regression.variant
def in_single_precision(x, x_known, y_known, width):
    x, x_known, y_known = (a.astype(np.float32) for a in (x, x_known, y_known))
    return softmax(-((x[:, None] - x_known) ** 2) / np.float32(2 * width**2)) @ y_known
