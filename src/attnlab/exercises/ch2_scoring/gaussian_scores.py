"""Exercise 2.3: gaussian_scores, and what people write instead."""

import numpy as np

from attnlab import softmax
from attnlab.core import gaussian

from ..common import IN_PLACE, INTEGERS, LIKE_INPUT
from ..engine import Probe, Wrong, exercise
from ._words import ONE_OF_EACH, ONE_QUERY, PAIRS, WEIGHTS_ALREADY, paired


@exercise(
    "2.3",
    points=2,
    section="Gaussian scoring: near means similar",
    statement=(
        "Score every query against every key by how near they are: −‖q − k‖² / (2·width²). The inputs may be\n"
        "whole numbers. The query [0, 0] and the key [3, 4] are 5 apart; at width 5 they score −½."
    ),
    hints=[
        "‖q − k‖² is the sum of the squared differences, component by component: 3² + 4² in the example.",
        "`queries[:, None, :] - keys` has the shape (n_q, n_k, d): the differences of every pair.",
    ],
)
def gaussian_scores(queries, keys, width):
    """The scores −‖q − k‖² / (2·width²) of all pairs.

    queries (n_q, d), keys (n_k, d), width: a number above 0
    → (n_q, n_k)
    """
    apart = queries[:, None, :] - keys  # (n_q, n_k, d)
    return -(apart**2).sum(axis=-1) / (2 * width**2)


@gaussian_scores.probes
def _(rng):  # no width at which width, width² and 2 coincide
    sizes = [(4, 4, 3, 1.7), (3, 3, 2, 0.6), (4, 5, 3, 1.3), (5, 2, 6, 2.6)]  # (n_q, n_k, d, width)
    cases = [(rng.normal(size=(n_q, d)), rng.normal(size=(n_k, d)), width) for n_q, n_k, d, width in sizes]
    return [*cases, (*(a.astype(np.float32) for a in cases[2][:2]), 0.8)]


@gaussian_scores.hard_probes
def _():
    queries, keys = np.array([[0, 0], [2, 1]]), np.array([[3, 4], [1, 0], [2, 2]])
    return {
        "integers": Probe((queries, keys, 2), INTEGERS, True),
        "one query": Probe((np.array([[0.5, 1.0]]), keys / 2, 1.5), ONE_QUERY),
        "one query and one key": Probe((np.array([[0.5, 1.0]]), keys[:1] / 2, 1.5), ONE_OF_EACH),
        "one component": Probe(
            (np.array([[0.5], [1.0]]), np.array([[2.0], [0.0], [-1.0]]), 1.5),
            "With vectors of one component the answer is still of shape (n_q, n_k).",
        ),
        "far from zero": Probe(
            (1e8 + queries / 4, 1e8 + keys / 4, 1.5),
            "for vectors near each other but far from zero, ‖q‖² − 2 q·k + ‖k‖² loses all digits: large numbers "
            "cancel. Subtracting first keeps them.",
            advice=True,
        ),
    }


@gaussian_scores.choice_points(
    sign={
        "plus": Wrong(
            "The minus is missing: the farther a key, the higher its score.",
            hint="Which key should get the highest score, the nearest or the farthest?",
        ),
    },
    distance={
        "root": Wrong(
            "The distance itself is used; the formula has its square.", hint="Is a root taken that should stay squared?"
        ),
        "absolute": Wrong(
            "The absolute differences are added up. ‖q − k‖² adds their squares.",
            hint="What is the squared length of [3, 4]?",
        ),
        "sum, then square": Wrong(
            "The differences are added first and squared afterwards: +1 and −1 cancel. Square first.",
            hint="How far apart are [1, 0] and [0, 1] in your code?",
        ),
        "mean": Wrong(
            "The squared differences are averaged; ‖q − k‖² is their sum.", hint="What is the squared length of [3, 4]?"
        ),
    },
    divisor={
        "not squared": Wrong(
            "The squared distance is divided by 2·width; the width is squared too, so that the units cancel.",
            hint="If all vectors and the width are doubled, should the scores change?",
        ),
        "multiplied": Wrong(
            "The scores are multiplied by width². In Python, `a / 2 * width**2` is (a / 2)·width²: put the divisor in "
            "brackets.",
            hint="What does Python print for `8 / 2 * 4`?",
        ),
        "without 2": Wrong(
            "The squared distance is divided by width²; the 2 is missing.", hint="What divides ‖q − k‖²?"
        ),
        "2 squared": Wrong(
            "The 2 is squared along with the width: (2·width)² is 4·width².", hint="What belongs under the square?"
        ),
        "not used": Wrong("The width is not used.", hint="Would your scores change with the width?"),
    },
    pairs=PAIRS,
    end={
        "exp": Wrong(
            "The exponential is taken already. The score is the exponent; `exp` is the business of softmax.",
            hint="Can your scores be negative?",
        ),
        "softmax": WEIGHTS_ALREADY,
    },
)
def _(queries, keys, width, *, sign="minus", distance="squared", divisor="2 width²", pairs="all", end="scores"):
    apart = paired(queries[:, None] - keys, pairs)
    squares = {
        "squared": lambda: (apart**2).sum(axis=-1),
        "root": lambda: np.sqrt((apart**2).sum(axis=-1)),
        "absolute": lambda: np.abs(apart).sum(axis=-1),
        "sum, then square": lambda: apart.sum(axis=-1) ** 2,
        "mean": lambda: (apart**2).mean(axis=-1),
    }[distance]()
    factor = {"not squared": 1 / width, "multiplied": width**2, "without 2": 2 / width**2, "2 squared": 0.5 / width**2}
    scores = -squares / 2 * factor.get(divisor, 1.0 if divisor == "not used" else 1 / width**2)
    scores = scores if sign == "minus" else -scores
    if end == "scores":
        return scores
    return np.exp(scores) if end == "exp" else softmax(scores)


@gaussian_scores.mistake(
    "log of a density",
    "This is the logarithm of a normal density, with ln(width·√(2π)) for each component. That part is the same for "
    "every key, so softmax cancels it and no weight changes; the score is only the part with the distance.",
    hint="What should a query score against a key that equals it?",
)
def _(queries, keys, width):
    squares = ((queries[:, None] - keys) ** 2).sum(axis=-1)
    return -squares / (2 * width**2) - queries.shape[-1] * np.log(width * np.sqrt(2 * np.pi))


@gaussian_scores.mistake(
    "over keys",
    "The sum runs over the wrong axis: it adds what belongs to different pairs. It runs over the components.",
    hint="Which axis of (n_q, n_k, d) should be gone at the end?",
)
def _(queries, keys, width):
    return -((queries[:, None] - keys) ** 2).sum(axis=1) / (2 * width**2)


@gaussian_scores.mistake(
    "not summed",
    "The squared differences are not added up: a pair has a number for each component. ‖q − k‖² is their sum.",
    hint="Which axis of (n_q, n_k, d) should be gone at the end?",
)
def _(queries, keys, width):
    return -((queries[:, None] - keys) ** 2) / (2 * width**2)


@gaussian_scores.mistake(
    "over everything",
    "`sum` without an axis adds up everything: a single number is left.",
    hint="Which axis of (n_q, n_k, d) should be gone at the end?",
)
def _(queries, keys, width):
    return -((queries[:, None] - keys) ** 2).sum() / (2 * width**2)


@gaussian_scores.mistake(
    "without the query",
    "In ‖q‖² − 2 q·k + ‖k‖² the part ‖q‖² is missing. It is the same for all keys, so softmax would cancel it and "
    "no weight changes. But the *score* is another number.",
    hint="What should a query score against a key that equals it?",
)
def _(queries, keys, width):
    return (2 * queries @ keys.T - (keys**2).sum(axis=-1)) / (2 * width**2)


@gaussian_scores.mistake(
    "lost axis",
    "In ‖q‖² − 2 q·k + ‖k‖² the ‖q‖² have the shape (n_q,). With as many queries as keys NumPy still adds, but along "
    "the *keys*: put in an axis, `[:, None]`.",
    hint="Does NumPy add an array of shape (n,) to the rows or to the columns of a table?",
)
def _(queries, keys, width):
    squares = (queries**2).sum(axis=-1) - 2 * queries @ keys.T + (keys**2).sum(axis=-1)
    return -squares / (2 * width**2)


@gaussian_scores.mistake(
    "cross term once",
    "‖q − k‖² is ‖q‖² − *2* q·k + ‖k‖²: the 2 is missing.",
    hint="What should a query score against a key that equals it?",
)
def _(queries, keys, width):
    squares = (queries**2).sum(axis=-1)[:, None] - queries @ keys.T + (keys**2).sum(axis=-1)
    return -squares / (2 * width**2)


@gaussian_scores.mistake(
    "sum of both",
    "This is ‖q + k‖²: query and key are added, or the term 2 q·k has the wrong sign.",
    hint="What should a query score against a key that equals it?",
)
def _(queries, keys, width):
    return -((queries[:, None] + keys) ** 2).sum(axis=-1) / (2 * width**2)


@gaussian_scores.mistake("like queries", LIKE_INPUT.text, hint=LIKE_INPUT.hint)
def _(queries, keys, width):
    return gaussian(queries, keys, width).astype(queries.dtype)


@gaussian_scores.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(queries, keys, width):
    queries /= width  # raises for integers, as it does for whoever writes it
    keys /= width
    return gaussian(queries, keys, 1.0)


@gaussian_scores.variant
def in_units_of_width(queries, keys, width):
    return -0.5 * (((queries[:, None] - keys[None]) / width) ** 2).sum(axis=2)


@gaussian_scores.variant
def norms(queries, keys, width):
    return -((np.linalg.norm(np.expand_dims(queries, 1) - keys, axis=-1) / width) ** 2) / 2


@gaussian_scores.variant
def expanded(queries, keys, width):  # right on paper; what it loses far from zero is advice
    squares = (queries**2).sum(axis=1, keepdims=True) - 2 * queries @ keys.T + (keys**2).sum(axis=1)
    return -squares / (2 * width * width)


@gaussian_scores.variant
def with_loops(queries, keys, width):
    scores = np.zeros((len(queries), len(keys)))
    for i in range(len(queries)):
        for j in range(len(keys)):
            scores[i, j] = -sum((a - b) ** 2 for a, b in zip(queries[i], keys[j], strict=True)) / 2 / width**2
    return scores


@gaussian_scores.variant
def in_single_precision(queries, keys, width):
    apart = queries.astype(np.float32)[:, None] - keys.astype(np.float32)
    return -np.einsum("qkd,qkd->qk", apart, apart) / np.float32(2 * width**2)
