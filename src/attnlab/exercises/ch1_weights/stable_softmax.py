"""Exercise 1.3: stable_softmax, and what people write instead."""

import numpy as np

from ..common import HUGE, IN_PLACE, INTEGERS, LIKE_INPUT, OVERFLOW, SHIFT_MEAN, shifted_exp
from ..engine import Probe, Wrong, exercise

_SHRUNK = (
    "The shares are right but for a factor: each row sums to a little less than 1. Is a small number added to the sum, "
    "against a division by 0? It is not needed: the largest exponential is exp(0) = 1, so the sum is at least 1."
)
_LOG = Wrong(
    "This is the logarithm of softmax. The weights themselves are asked for: leave out the log.",
    hint="Can a share be negative?",
)


@exercise(
    "1.3",
    points=2,
    section="From scores to weights",
    statement=(
        "Write softmax yourself, from `np.exp`. It should work for one row of scores and for a table (each row on its\n"
        "own), for scores as far from 0 as 3000, above or below, and for whole numbers. A score of −∞ gets the weight\n"
        "0; every row has a score above that. The scores [0, ln 3] give the weights [¼, ¾]."
    ),
    hints=[
        "Three steps: subtract the largest score of each row, take `np.exp`, divide by the sum of each row.",
        "`keepdims=True` keeps the summed axis: a table of shape (3, 4) can be divided by sums of shape (3, 1).",
    ],
)
def stable_softmax(scores):
    """Softmax along the last axis: each row sums to 1.

    scores (n_k,) or (n_q, n_k) → weights of the same shape
    """
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


@stable_softmax.probes
def _(rng):
    shapes = [(5,), (4, 4), (3, 5), (6, 2), (3, 3)]  # square tables: there a wrong axis raises no error
    tables = [rng.normal(size=shape) * 1.5 for shape in shapes]
    return [Probe((t,), says=_shrunk) for t in [*tables, tables[1].astype(np.float32)]]


def _shrunk(scores, weights):
    """Said where weights are softmax times a factor just below 1."""
    sums = weights.sum(axis=-1, keepdims=True)
    right = np.allclose(weights / sums, stable_softmax.reference(scores), rtol=1e-6, atol=0)
    return _SHRUNK if right and (sums < 1).all() and (sums > 0.999).all() else ""


@stable_softmax.hard_probes
def _():
    return {
        "huge scores": Probe((np.array([1000.0, 1001.0]),), HUGE),
        "very negative scores": Probe(
            (np.array([-1000.0, -1001.0]),),
            "For scores around −1000 the answer is wrong: the largest score must become 0 before `exp`.",
        ),
        "far above the mean": Probe(
            (np.array([0.0, 0.0, 3000.0]),),
            "One score far above the others still overflows: subtract the largest, not another one.",
        ),
        "rows of different height": Probe(
            (np.array([[0.0, 1.0], [-2000.0, -2001.0]]),),
            "When one row lies far below another the answer is wrong: the largest score of *each row* must become 0 "
            "before `exp`.",
        ),
        "a score of −∞": Probe((np.array([0.0, -np.inf, 1.0]),), "A score of −∞ must get the weight 0."),
        "a table of one row": Probe(
            (np.array([[0.0, 1.0, -1.0]]),), "A table of one row must stay a table of one row."
        ),
        "a single key": Probe((np.array([2.0]),), "With a single key the weight is 1, in an array of shape (1,)."),
        "integers": Probe((np.array([[1, 2, 3], [3, 1, 1]]),), INTEGERS, True),
    }


_DIVIDED = Wrong(
    "The scores are divided by the largest one; it should be subtracted. A quotient changes how far the scores lie "
    "apart, and with that every weight; a difference does not.",
    hint="How far apart are the scores 2 and 4 after dividing by 4, and after subtracting 4?",
)


@stable_softmax.choice_points(
    axis={
        "first": Wrong(
            "The sum runs over the first axis. Each row is one query and must sum to 1; here the columns do.",
            seen_in="nerminnuraydogan/vision-transformer#1",
            hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
        ),
        "all": Wrong(
            "The sum runs over the whole table, so all rows together sum to 1 instead of each row.",
            hint="Which axis does `np.sum` add over when you name none?",
        ),
    },
    function={
        "no exp": Wrong(
            "There is no `exp`: negative scores stay negative, and shares cannot be.",
            hint="What happens to a negative score?",
        ),
        "power of 2": Wrong(
            "The base is 2 instead of e, so the weights are flatter than softmax's.",
            hint="By which factor does a weight grow when its score rises by 1?",
        ),
        "sigmoid": Wrong(
            "Each score goes through the logistic function on its own; a row then sums to anything. "
            "Softmax lets the scores compete.",
            hint="Does raising one score lower the other weights?",
        ),
    },
    sign={
        "minus": Wrong(
            "The sign of the scores is turned round: the worst match gets the largest weight.",
            hint="Which key should win, the one with the highest score or the lowest?",
        ),
    },
    divide={
        "not": Wrong(
            "Nothing is divided by the sum, so the numbers are no shares.", hint="What do the weights sum to?"
        ),
        "by largest": Wrong(
            "What you have is divided by its largest entry, so the best match always gets 1. Divide by the sum.",
            hint="What do the weights sum to?",
            same_as="divide: not",
        ),
        "log": _LOG,
    },
    shift={
        "none": OVERFLOW,
        "mean": SHIFT_MEAN,
        "largest of all": Wrong(
            "You subtract the largest score of the whole table. A row far below it loses all its exponentials to 0: "
            "subtract each row's own largest.",
            hint="What becomes of a row of −2000s beside a row of zeros?",
        ),
        "divided": _DIVIDED,
        "divided by largest of all": _DIVIDED,
    },
    storage={"like scores": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(
    scores, *, axis="last", function="exp", sign="plus", divide="sum", shift="max", storage="floating", inputs="kept"
):
    given, scores = scores, scores if sign == "plus" else -scores
    if function == "no exp":
        pass  # a common factor goes out again
    elif shift == "divided":
        scores = scores / scores.max(axis=-1, keepdims=True)
    elif shift == "divided by largest of all":
        scores = scores / scores.max()
    if function == "no exp":
        exps = scores * 1.0
    elif function == "power of 2":
        exps = shifted_exp(scores * np.log(2), shift)
    elif function == "sigmoid":
        exps = np.where(scores >= 0, 1, np.exp(-np.abs(scores))) / (1 + np.exp(-np.abs(scores)))
    else:
        exps = shifted_exp(scores, shift)
    over = {"last": -1, "first": 0, "all": None}[axis]
    if axis == "first" and shift == "max" and function == "exp":
        exps = np.exp(scores - scores.max(axis=0, keepdims=True))
    elif axis == "all" and shift == "max" and function == "exp":
        exps = np.exp(scores - scores.max())
    largest = exps.max(axis=over, keepdims=True)
    total = {"sum": exps.sum(axis=over, keepdims=True), "not": 1.0, "by largest": largest}
    weights = exps if function == "sigmoid" and divide == "sum" else exps / total.get(divide, total["sum"])
    if divide == "log":
        weights = np.log(weights)
    if inputs == "overwritten":
        given -= given.max(axis=-1, keepdims=True)
    return weights.astype(given.dtype) if storage == "like scores" else weights


@stable_softmax.mistake("log, no weight rounded to 0", _LOG.text, hint=_LOG.hint)
def _(scores):  # as `log_softmax` does it: where the logarithm of a weight would be −∞, it stays a number
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@stable_softmax.mistake(
    "sum over all",
    "The largest score is that of each row, but the sum runs over the whole table, so all rows together sum to 1 "
    "instead of each row.",
    hint="Which axis does a sum add over when you name none?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum()


@stable_softmax.mistake(
    "sum over the first axis",
    "The largest score is that of each row, but the sum runs over the first axis (Python's own `sum` does that, too): "
    "the columns sum to 1 instead of the rows.",
    hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=0)


@stable_softmax.mistake(
    "maximum over the first axis",
    "You subtract the largest score of each *column*. A shift changes no weight only if all scores of a row are "
    "shifted by the same number: take the maximum along the last axis, as the sum.",
    hint="How far apart are two scores of one row before your shift, and after it?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=0))
    return exps / exps.sum(axis=-1, keepdims=True)


@stable_softmax.mistake(
    "keepdims forgotten in the sum",
    "The sums have lost their axis. For a square table NumPy still divides, but by the sum of the *wrong row*: "
    "add `keepdims=True`.",
    hint="Which shapes do `exps` and the sum have, and how does NumPy line them up?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1)


@stable_softmax.mistake(
    "keepdims forgotten in the maximum",
    "The maxima have lost their axis. For a square table NumPy still subtracts, but the largest score of the "
    "*wrong row*: add `keepdims=True`.",
    hint="Which shapes do `scores` and the maximum have, and how does NumPy line them up?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=-1))
    return exps / exps.sum(axis=-1, keepdims=True)


@stable_softmax.mistake(
    "keepdims forgotten twice",
    "Maxima and sums have lost their axis. For a square table NumPy still computes, but with those of the "
    "*wrong row*: add `keepdims=True` to both.",
    hint="Which shapes do `scores` and the maximum have, and how does NumPy line them up?",
)
def _(scores):
    exps = np.exp(scores - scores.max(axis=-1))
    return exps / exps.sum(axis=-1)


@stable_softmax.variant
def logarithms(scores):
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.exp(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


@stable_softmax.variant
def row_by_row(scores):
    if scores.ndim == 1:
        exps = [np.exp(s - max(scores)) for s in scores]
        return np.array([e / sum(exps) for e in exps])
    return np.stack([row_by_row(row) for row in scores])
