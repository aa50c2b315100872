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
            "The factor before the bracket is αⱼ instead of αᵢ: off the diagonal stands −αⱼ² instead of −αᵢαⱼ.",
            hint="Does NumPy multiply your factor along the rows or along the columns?",
        ),
        "alone": Wrong("Only the products −αᵢαⱼ are there; αᵢ on the diagonal is missing."),
    },
    sign={"minus": Wrong("The whole table has the wrong sign: raising a score should raise its own weight.")},
    of={
        "scores": Wrong(
            "The formula is applied to the scores themselves. α stands for the weights: softmax comes first.",
            hint="Do the α of your formula sum to one?",
        ),
        "sigmoid": Wrong("These are the derivatives of a logistic function for each score; softmax lets them compete."),
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
