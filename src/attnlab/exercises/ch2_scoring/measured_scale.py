"""Exercise 2.6: measured_scale, and what people write instead."""

import numpy as np

from ..common import INTEGERS
from ..engine import Probe, Wrong, exercise
from ._words import paired


@exercise(
    "2.6",
    points=2,
    section="When the assumptions fail",
    statement=(
        "1/√d_k is the right scale for components that are independent, with mean 0 and variance 1. Do not\n"
        "assume: measure. Return the one factor that brings the dot products of all these queries with all\n"
        "these keys to standard deviation 1, as `np.std` measures it.\n"
        "The queries [1], [−1] and the key [2] have the dot products 2 and −2, so the factor is ½."
    ),
    hints=[
        "First the table of all dot products. Then one standard deviation for the whole table.",
        "If all numbers are multiplied by c, their standard deviation is multiplied by c as well. Which c makes it 1?",
    ],
)
def measured_scale(queries, keys):
    """The factor that gives all dot products standard deviation 1.

    queries (n_q, d_k), keys (n_k, d_k) → a number
    """
    return 1 / np.std(queries @ keys.T)


@measured_scale.probes
def _(rng):  # means away from 0, where a root mean square is no standard deviation
    sizes = [(4, 4, 6), (3, 3, 5), (4, 5, 3), (6, 2, 7)]  # (n_q, n_k, d_k)
    cases = [(rng.normal(size=(n_q, d)) + 0.8, rng.normal(size=(n_k, d)) * 1.5 + 0.5) for n_q, n_k, d in sizes]
    return [*cases, tuple(a.astype(np.float32) for a in cases[2])]


@measured_scale.hard_probes
def _():
    queries, keys = (
        np.array([[1, 0, 2], [0, 3, -1], [2, 2, 1], [1, -1, 0]]),
        np.array([[2, 1, 0], [1, -1, 1], [0, 2, -1]]),
    )
    return {
        "integers": Probe((queries, keys), INTEGERS, True, True),
        "one query": Probe(
            (queries[:1] / 2, keys / 2), "For a single query it is wrong: its scores have a spread too."
        ),
        "a large common part": Probe(
            (np.insert(queries, 0, 1e3, axis=1) * 1.0, np.insert(keys, 0, 1e3, axis=1) * 1.0),
            "where all dot products lie far from 0, the mean of the squares minus the square of the mean loses its "
            "digits. Subtract the mean first, as `np.std` does.",
            advice=True,
        ),
    }


@measured_scale.choice_points(
    spread={
        "root mean square": Wrong(
            "This is the root of the mean *square*. The standard deviation measures from the mean: subtract it first. "
            "The two agree only where the dot products have mean 0, and here they do not.",
            hint="How much do 10, 10 and 10 spread?",
        ),
        "variance": Wrong(
            "This uses the variance. Its root is the standard deviation.",
            hint="If all numbers are doubled, does the variance double?",
        ),
        "one less": Wrong(
            "The squares are divided by their number minus 1 (`ddof=1`, torch's default). That estimates the spread of "
            "further pairs; here it is the spread of these.",
            hint="What is the standard deviation of 2 and −2 in your code, 2 or 2.83?",
        ),
        "largest": Wrong(
            "The dot products are divided by the largest of them. That limits them to 1; their standard deviation is "
            "another number.",
            hint="What is the standard deviation after your scaling?",
        ),
        "mean size": Wrong(
            "This uses the mean of the absolute values. The standard deviation is the root of a mean of squares.",
            hint="What is the standard deviation after your scaling?",
        ),
    },
    over={
        "each query": Wrong(
            "The spread is measured for each query and then averaged. How far the queries differ from each other is "
            "lost: measure the whole table at once.",
            hint="Some queries score high with every key, some low. Does your spread see that?",
        ),
        "rows kept": Wrong(
            "There is one factor for each query. Asked for is one for the whole table.",
            hint="Over which axes does `np.std` go when you name none?",
        ),
    },
    pairs={
        "matching only": Wrong(
            "Query i meets key i only. All queries meet all keys: `queries @ keys.T` is the whole table.",
            hint="How many dot products do 3 queries and 4 keys have?",
        ),
    },
    result={
        "the spread": Wrong(
            "This is the standard deviation itself. The factor that brings it to 1 is its inverse.",
            hint="If the dot products spread by 10, should your factor be 10?",
        ),
        "the scores": Wrong(
            "These are the scaled dot products. Asked for is the factor, one number.",
            hint="How many numbers should come back?",
        ),
        "root of the inverse": Wrong(
            "A root too many: `np.std` is the root of the variance already.",
            hint="If all dot products are doubled, should your factor be halved?",
        ),
    },
)
def _(queries, keys, *, spread="std", over="table", pairs="all", result="factor"):
    dots = queries @ keys.T if pairs == "all" else paired((queries[:, None] * keys).sum(axis=-1), "matching only")
    axis = None if over == "table" else -1
    size = {
        "root mean square": lambda: np.sqrt((dots**2).mean(axis=axis)),
        "variance": lambda: dots.var(axis=axis),
        "one less": lambda: dots.std(axis=axis, ddof=1),
        "largest": lambda: np.abs(dots).max(axis=axis),
        "mean size": lambda: np.abs(dots).mean(axis=axis),
    }.get(spread, lambda: dots.std(axis=axis))()
    size = size.mean() if over == "each query" else size
    if result == "the scores":
        return dots / (size[..., None] if over == "rows kept" else size)
    return {"the spread": size, "root of the inverse": size**-0.5}.get(result, 1 / size)


@measured_scale.mistake(
    "root of d_k",
    "This is 1/√d_k, whatever the numbers are. It is the right factor where components are independent, with mean 0 "
    "and variance 1; these are not.",
    hint="Would your factor change if all keys were doubled?",
)
def _(queries, keys):
    return 1 / np.sqrt(keys.shape[-1])


@measured_scale.mistake(
    "spread of the components",
    "The spreads of the components are multiplied with each other and with √d_k. That is the theory for independent "
    "components with mean 0; measure the dot products themselves.",
    hint="Is there a dot product in your code?",
)
def _(queries, keys):
    return 1 / (np.std(queries) * np.std(keys) * np.sqrt(keys.shape[-1]))


@measured_scale.mistake(
    "scaled before",
    "The dot products are divided by √d_k before they are measured. The factor is to do all of the scaling.",
    hint="Multiply the plain dot products by your factor. What is their standard deviation?",
)
def _(queries, keys):
    return 1 / np.std(queries @ keys.T / np.sqrt(keys.shape[-1]))


@measured_scale.variant
def by_hand(queries, keys):
    dots = [float(query @ key) for query in queries for key in keys]
    mean = sum(dots) / len(dots)
    return (sum((dot - mean) ** 2 for dot in dots) / len(dots)) ** -0.5


@measured_scale.variant
def einsum(queries, keys):
    return np.var(np.einsum("qd,kd->qk", queries, keys)) ** -0.5


@measured_scale.variant
def in_single_precision(queries, keys):
    return 1 / np.std(queries.astype(np.float32) @ keys.astype(np.float32).T)
