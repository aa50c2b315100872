"""Exercise 1.7: weight_derivatives, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import HUGE, IN_PLACE, INTEGERS, LIKE_INPUT, OVERFLOW, shifted_exp
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.7",
    points=2,
    section="Content addressing, and its gradient",
    statement=(
        "How does weight i answer when score j rises a little? Build the table of all these derivatives, by the\n"
        "formula (small steps are not exact enough). You may use `softmax`. The scores may be whole numbers, and as\n"
        "large as 1000. For the scores [0, 0] the table is [[¼, −¼], [−¼, ¼]]."
    ),
    hints=[
        "Two cases: the score that rises is the weight's own, or it is another one. What does each weight do?",
        "On the diagonal stands αᵢ(1 − αᵢ), which is αᵢ − αᵢαᵢ, everywhere else −αᵢαⱼ. What do the two have in common?",
        "`np.diag(w)` makes a diagonal table, `np.outer(w, w)` the table of all products.",
    ],
)
def weight_derivatives(scores):
    """How the weights answer to the scores.

    scores (n_k,) → (n_k, n_k): entry (i, j) is ∂αᵢ/∂sⱼ for α = softmax(s)
    """
    weights = softmax(scores)
    return np.diag(weights) - np.outer(weights, weights)


@weight_derivatives.probes
def _(rng):
    tables = [rng.normal(size=n) * 1.2 for n in (4, 3, 6)]
    return [*((t,) for t in tables), (tables[0].astype(np.float32),)]


@weight_derivatives.hard_probes
def _():
    return {
        "huge scores": Probe((np.array([1000.0, 1001.0, 999.0]),), HUGE),
        "one key": Probe((np.array([3.0]),), "With one key the weight is 1 whatever the score: its derivative is 0."),
        "integers": Probe((np.array([1, 2, 4]),), INTEGERS, True),
    }


@weight_derivatives.choice_points(
    cross={
        "left out": Wrong(
            "Only αᵢ stands on the diagonal. The product αᵢαⱼ is missing: raising one score also raises the sum "
            "that all weights are divided by.",
            hint="If one score rises, do the other weights stay?",
        ),
        "diagonal only": Wrong(
            "The diagonal αᵢ(1 − αᵢ) is right, but off it stand zeros. Raising one score lowers every other weight.",
            hint="The weights sum to 1. What must each column of derivatives sum to?",
        ),
        "added": Wrong(
            "The products αᵢαⱼ are added instead of subtracted.",
            hint="The weights sum to 1. What must each column of derivatives sum to?",
        ),
        "one on the diagonal": Wrong(
            "On the diagonal stands 1 − αᵢ² instead of αᵢ − αᵢ²: the derivative is αᵢ([i = j] − αⱼ), with αᵢ before "
            "the bracket.",
            hint="Multiply the bracket out. What remains where i = j?",
        ),
        "one minus": Wrong(
            "Every entry is αᵢ(1 − αⱼ). The 1 belongs to the diagonal only; off it stands −αᵢαⱼ.",
            hint="What is [i = j] when i and j differ?",
        ),
        "factor of the column": Wrong(
            "Off the diagonal stands −αⱼ² instead of −αᵢαⱼ: the factor before the bracket is αⱼ instead of αᵢ, or "
            "squares (`w * w`) stand where the table of all products should, `np.outer(w, w)`.",
            hint="Does NumPy multiply your factor along the rows or along the columns?",
        ),
        "column in the bracket": Wrong(
            "Off the diagonal stands −αᵢ² instead of −αᵢαⱼ: in both factors α runs down the rows. The α in the bracket "
            "is that of the column, αⱼ.",
            hint="Which of your two factors changes from column to column?",
        ),
        "one number": Wrong(
            "The same number is subtracted everywhere, Σ αᵢ²: of two vectors, `@` and `np.dot` make one number, with "
            "or without `.T`. The table of all products αᵢαⱼ is `np.outer(w, w)`.",
            hint="Which shape has `w @ w`?",
        ),
        "subtracted twice": Wrong(
            "On the diagonal αᵢ² is subtracted twice: αᵢ(1 − αᵢ) holds it already, and the table of products holds it "
            "again.",
            hint="What does your formula give where i = j, multiplied out?",
        ),
        "added off the diagonal": Wrong(
            "The diagonal is right; off it the sign is missing. Raising one score *lowers* every other weight: −αᵢαⱼ.",
            hint="The weights sum to 1. What must each column of derivatives sum to?",
        ),
        "1 − αᵢ on the diagonal": Wrong(
            "On the diagonal stands 1 − αᵢ. The factor αᵢ before the bracket is missing there: αᵢ(1 − αᵢ).",
            hint="The weights sum to 1. What must each column of derivatives sum to?",
        ),
        "alone": Wrong(
            "Only the products −αᵢαⱼ are there; αᵢ on the diagonal is missing.",
            hint="What is [i = j] on the diagonal?",
        ),
    },
    sign={
        "minus": Wrong(
            "The whole table has the wrong sign: raising a score should raise its own weight.",
            hint="Which sign should the diagonal have?",
        ),
    },
    of={
        "scores": Wrong(
            "The formula is applied to the scores themselves. α stands for the weights: softmax comes first.",
            hint="Do the α of your formula sum to one?",
        ),
        "sigmoid": Wrong(
            "These are the derivatives of a logistic function for each score; softmax lets them compete.",
            hint="What do your α sum to?",
        ),
    },
    shift={"none": OVERFLOW},
    storage={"like scores": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(scores, *, cross="subtracted", sign="plus", of="weights", shift="max", storage="floating", inputs="kept"):
    exps = shifted_exp(scores, shift)
    w = {"weights": exps / exps.sum(), "scores": scores * 1.0, "sigmoid": 1 / (1 + np.exp(-scores))}[of]
    products = np.outer(w, w)
    table = {
        "subtracted": np.diag(w) - products,
        "left out": np.diag(w),
        "diagonal only": np.diag(w * (1 - w)),
        "added": np.diag(w) + products,
        "one on the diagonal": np.eye(len(w)) - products,
        "one minus": w[:, None] * (1 - w),
        "factor of the column": w * (np.eye(len(w)) - w),
        "column in the bracket": w[:, None] * (np.eye(len(w)) - w[:, None]),
        "one number": np.diag(w) - w @ w,
        "subtracted twice": np.diag(w * (1 - w)) - products,
        "added off the diagonal": np.diag(w - 2 * w * w) + products,
        "1 − αᵢ on the diagonal": np.diag(1 - w + w * w) - products,
        "alone": -products,
    }[cross]
    if inputs == "overwritten":
        scores -= scores.max()
    table = table if sign == "plus" else -table
    return table.astype(scores.dtype) if storage == "like scores" else table


@weight_derivatives.mistake(
    "only the diagonal",
    "These are the derivatives of each weight by its own score, in a row. The table has an entry for every pair: "
    "raising score j also lowers weight i.",
    hint="If one score rises, do the other weights stay?",
)
def _(scores):
    weights = softmax(scores)
    return weights * (1 - weights)


@weight_derivatives.variant
def entry_by_entry(scores):
    w, n = softmax(scores), len(scores)
    return np.array([[w[i] * ((i == j) - w[j]) for j in range(n)] for i in range(n)])


@weight_derivatives.variant
def broadcast(scores):
    w = softmax(scores)
    return w[:, None] * (np.eye(len(w)) - w)
