"""Exercise 6.1: value_shares, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.1",
    points=1,
    section="What a weight carries",
    statement=(
        "A key adds its weight times its value to the output, and a large weight on a value near zero adds next to\n"
        "nothing. Compute the share of each key in what is carried: weight times length of the value, divided by the\n"
        "sum of these over the keys. The length is Euclidean. Where nothing is carried, because all values or all\n"
        "weights of a row are zero, all shares are 0. Batches work alike: any number of axes may come before. The\n"
        "weights [0.9, 0.1] and the values [0, 0] and [5, 0] give the shares [0, 1]."
    ),
    hints=[
        "Which axis of `values` counts features, and is gone once you have lengths? Then both have the shape (..., n).",
        "`np.linalg.norm` takes an `axis`, and `sum` takes `keepdims=True`, so that the sum of each row divides its "
        "row.",
        "0/0 is not a number. Where the sum is 0, divide by 1 instead: `np.where(total > 0, total, 1)`.",
    ],
)
def value_shares(weights, values):
    """Share of each key in what is carried: weight times ‖value‖.

    weights (..., n), values (..., n, d)
    → (..., n): rows sum to 1, or are 0 where nothing is carried
    """
    carried = weights * np.linalg.norm(values, axis=-1)  # (..., n)
    total = carried.sum(axis=-1, keepdims=True)
    return carried / np.where(total > 0, total, 1)


_LENGTHS = "`values` has one axis more than `weights`, the features. Which axis does your length, or your sum, remove?"


@value_shares.probes
def _(rng):
    # As many features as keys, three times, and as many rows as keys, once: there no wrong axis raises an error. In
    # single precision no sum of components is near 0, or answers that divide by it would lose their digits.
    small = np.array([0.5, 0.3, 0.2]), rng.permutation([[2.0, 0.0, 0.0], [-3.0, 4.0, 0.0], [1.0, -2.0, 2.0]])
    cases = [(_weights(rng, *s), 3 * rng.normal(size=(*s, d))) for *s, d in [(4, 4), (3, 3, 3), (2, 3, 5, 2)]]
    single = _weights(rng, 2, 5).astype(np.float32), rng.normal(2, 1, size=(2, 5, 3)).astype(np.float32)
    return [Probe(case, _LENGTHS) for case in [small, *cases, single]]


def _weights(rng, *shape):
    return softmax(1.2 * rng.normal(size=shape))


@value_shares.hard_probes
def _():
    weights, values = np.array([0.75, 0.25]), np.array([[0.0, 0.0], [6.0, 8.0]])
    rows = np.array([[0.25, 0.75], [0.0, 0.0]])
    nothing = "When all values of a row are zero nothing is carried: all shares are 0, not 0/0."
    return {
        "an empty sink": Probe((weights, values), "A key whose value is zero carries nothing, whatever its weight."),
        "all values zero": Probe((weights, 0 * values), nothing),
        "all values of one row zero": Probe((rows[[0, 0]], np.stack([values + 1, 0 * values])), nothing),
        "a row of zero weights": Probe(
            (rows, np.stack([values + 1, values + 1])),
            "A query that may attend to nothing has weights 0: all of its shares are 0, not 0/0.",
        ),
        "one key": Probe((np.array([1.0]), np.array([[3.0, -4.0]])), "A single key carries all: [1], of shape (1,)."),
        "integers": Probe((np.array([0, 1]), np.array([[1, 2], [-2, 2]])), INTEGERS, True, True),
    }


_LENGTH = "How long is the value [3, −4]?"


@value_shares.choice_points(
    value={
        "none": Wrong(
            "These are the weights again: the lengths of the values do not enter, or one length for all of them, "
            "which cancels (`np.linalg.norm` without an axis). A first token may take nine tenths of the weight and, "
            "with a value near zero, carry nothing.",
            seen_in="jessevig/bertviz#131",
            hint="What does a key add to the output if its value is zero?",
        ),
        "squared": Wrong(
            "The lengths are squared: the root is missing, and long values count too much. A key adds α·v to the "
            "output, and that is α·‖v‖ long.",
            hint=_LENGTH,
        ),
        "absolute sum": Wrong(
            "The length is taken as the sum of the absolute components. Asked for is the Euclidean one, the root of "
            "the sum of their squares.",
            hint=_LENGTH,
        ),
        "largest component": Wrong(
            "Of each value only the largest component counts. Asked for is its Euclidean length, in which all do.",
            hint=_LENGTH,
        ),
        "sum": Wrong(
            "The components of a value are added with their signs, and [3, −3] counts as nothing. Whatever its "
            "direction, a value carries its length.",
            hint="What do you get for the value [3, −3], and what is its length?",
        ),
        "sum, without its sign": Wrong(
            "The components of a value are added before the sign is taken off, and [3, −3] counts as nothing. Squares, "
            "or absolute values, come first.",
            hint="What do you get for the value [3, −3], and what is its length?",
        ),
        "along the keys": Wrong(
            "The lengths run along the keys: one for each *feature*. One is needed for each key, so the axis of "
            "features must go, the last one.",
            hint="Which axis of `values` (..., n, d) counts features?",
        ),
    },
    weight={
        "none": Wrong(
            "The weights do not enter: a long value counts even if nobody attends to it.",
            hint="What does a key with weight 0 add to the output?",
        ),
        "squared": Wrong(
            "The weights enter squared, so that large ones count too much. What a key adds is α·‖v‖ long.",
            hint="If a weight is doubled, by how much does what the key adds grow?",
        ),
    },
    share={
        "not": Wrong(
            "These are lengths, not shares: divide by their sum over the keys.",
            hint="What should the shares of one row sum to?",
        ),
        "of all rows": Wrong(
            "The sum runs over all rows together. Each row is a query of its own, whose shares sum to 1.",
            hint="Over which axes does `sum` go when you name none?",
        ),
        "over the first axis": Wrong(
            "The sum runs over the first axis, which counts keys only where there is a single row. Keys are on the "
            "last axis of `weights`.",
            hint="Which axis of your result sums to 1?",
        ),
        "over the rows": Wrong(
            "The sum runs over the rows, the axis before the last. Shares sum to 1 over the keys, the last axis of "
            "your result.",
            hint="Which axis of your result sums to 1?",
        ),
        "of the largest": Wrong(
            "Each row is divided by its largest entry, so the first in rank has 1. Shares sum to 1.",
            hint="What should the shares of one row sum to?",
        ),
        "softmax": Wrong(
            "Softmax makes the lengths sum to 1, and takes exponentials first: a key that carries nothing gets e⁰. "
            "Divide by the sum.",
            hint="Which share should a key have that carries nothing?",
        ),
        "of the values": Wrong(
            "The sum below is that of the lengths alone, without the weights. Shares sum to 1: divide by the sum of "
            "what stands above.",
            hint="What should the shares of one row sum to?",
        ),
        "of all values": Wrong(
            "You divide by one total: the lengths of all values of all rows, without the weights. Shares sum to 1 "
            "over the keys, the last axis of your result: divide by the sum of what stands above, row by row.",
            hint="What should the shares of one row sum to?",
        ),
        "of the output": Wrong(
            "You divide by the length of the *output*. Values point in different directions and partly cancel, so the "
            "output is shorter than what all keys carry together, and the shares sum to more than 1.",
            hint="How long is the output if two equal weights meet the values [1, 0] and [−1, 0]?",
        ),
    },
    zero={
        "not a number": Wrong(
            "Where nothing is carried, you divide 0 by 0, and that is not a number. All shares are 0 there.",
            hint="What is your result if all values are zero?",
        ),
    },
)
def _(weights, values, *, value="length", weight="once", share="of a row", zero="0"):
    axis = -2 if value == "along the keys" else -1
    lengths = {
        "none": lambda: np.ones(weights.shape),
        "squared": lambda: (values**2).sum(axis=-1),
        "absolute sum": lambda: np.abs(values).sum(axis=-1),
        "largest component": lambda: np.abs(values).max(axis=-1),
        "sum": lambda: values.sum(axis=-1),
        "sum, without its sign": lambda: np.abs(values.sum(axis=-1)),
    }.get(value, lambda: np.linalg.norm(values, axis=axis))()
    carried = {"none": np.ones(weights.shape), "squared": weights**2}.get(weight, weights) * lengths
    if share in ("not", "softmax"):
        return carried if share == "not" else softmax(carried)
    total = {
        "of all rows": lambda: carried.sum(),
        "over the first axis": lambda: carried.sum(axis=0),
        "over the rows": lambda: carried.sum(axis=-2, keepdims=True),  # raises for a single row
        "of the largest": lambda: carried.max(axis=-1, keepdims=True),
        "of the values": lambda: lengths.sum(axis=-1, keepdims=True),
        "of all values": lambda: lengths.sum(),
        "of the output": lambda: np.linalg.norm((weights[..., None] * values).sum(axis=-2), axis=-1, keepdims=True),
    }.get(share, lambda: carried.sum(axis=-1, keepdims=True))()
    return carried / (total if zero == "not a number" else np.where(total == 0, 1, total))


@value_shares.mistake(
    "sums along the rows",
    "The sums have lost their axis: of (n_q, n) they are (n_q,), and as divisors they meet the *keys*. `keepdims=True` "
    "keeps each sum beside its row. Where there are as many rows as keys no error says so.",
    hint="What do your rows sum to?",
)
def _(weights, values):
    carried = weights * np.linalg.norm(values, axis=-1)
    total = carried.sum(axis=-1)
    return carried / np.where(total > 0, total, 1)


@value_shares.mistake(
    "two axes alone",
    "`[:, None]` gives the sums their axis back where there are two axes, rows and keys: not for one row alone, and "
    "not for a batch. `keepdims=True`, or `[..., None]`, works for any number of axes.",
    hint="Which shape do the sums have for `weights` (n,), and which for `weights` (2, 3, n)?",
)
def _(weights, values):
    carried = weights * np.linalg.norm(values, axis=-1)
    total = carried.sum(axis=-1)[:, None]  # raises for a single row
    return carried / np.where(total > 0, total, 1)


@value_shares.mistake(
    "along the output",
    "This is how far each key's part points in the direction of the output, as a share of the output's length. It sums "
    "to 1, too, and it has a sign: another question. Asked for is how much each key carries, whatever its direction.",
    hint="Can your shares be negative?",
)
def _(weights, values):
    parts = weights[..., None] * values
    output = parts.sum(axis=-2, keepdims=True)
    along = (parts * output).sum(axis=-1)
    total = along.sum(axis=-1, keepdims=True)
    return along / np.where(total == 0, 1, total)


def _with_a_little_more(little):
    def shares(weights, values):
        carried = weights * np.linalg.norm(values, axis=-1)
        return carried / (carried.sum(axis=-1, keepdims=True) + little)

    value_shares.mistake(
        f"{little:g} more",
        "A small number is added to the sum below. That avoids 0/0, and makes every share a little too small: where "
        "the values are small, all of them. Change the sum only where it is 0.",
        hint="What do your shares sum to, exactly 1 or a little less?",
    )(shares)


for _little in (1e-6, 1e-8, 1e-9, 1e-10):
    _with_a_little_more(_little)


@value_shares.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights, values):
    weights *= np.linalg.norm(values, axis=-1)  # raises for integers
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


@value_shares.variant
def lengths_of_the_parts(weights, values):
    """‖αv‖ instead of α‖v‖: the same, since no weight is negative."""
    lengths = np.sqrt(((weights[..., None] * values) ** 2).sum(-1))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(lengths / lengths.sum(-1, keepdims=True))


@value_shares.variant
def root_mean_squares(weights, values):  # lengths divided by √d: that cancels
    carried = weights * np.sqrt(np.mean(np.square(values), axis=-1))
    total = np.sum(carried, axis=-1)[..., None]
    return np.divide(carried, total, out=np.zeros(carried.shape), where=total != 0)


@value_shares.variant
def row_by_row(weights, values):
    if weights.ndim > 1:
        return np.stack([row_by_row(*pair) for pair in zip(weights, values, strict=True)])
    carried = [w * sum(x**2 for x in v) ** 0.5 for w, v in zip(weights, values, strict=True)]
    return np.array([c / sum(carried) if sum(carried) else 0.0 for c in carried])


@value_shares.variant
def never_below_the_smallest_number(weights, values):
    carried = np.einsum("...k,...k->...k", weights, np.linalg.norm(values, axis=-1))
    return carried / np.maximum(carried.sum(axis=-1, keepdims=True), 1e-30)
