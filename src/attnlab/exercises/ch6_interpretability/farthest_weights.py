"""Exercise 6.2: farthest_weights, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.2",
    points=2,
    section="Different weights, one output",
    statement=(
        "Along a direction of the null space weights can move without moving the output. How far? Only until the\n"
        "first weight reaches 0: beyond, they are weights no longer. Return weights + t · direction with the largest\n"
        "t ≥ 0 for which no weight is negative. The direction sums to 0, so that the weights still sum to 1; where it\n"
        "is zero everywhere, return the weights as they are. From [0.5, 0.3, 0.2] along [1, −2, 1] the farthest\n"
        "weights are [0.65, 0, 0.35], with t = 0.15."
    ),
    hints=[
        "Which weights shrink on the way, and which grow? Only one kind sets a limit.",
        "A weight w that changes by d for each step reaches 0 at t = −w / d. Each weight that shrinks has such a t: "
        "which of them comes first?",
        "A mask, `shrinks = direction < 0`, picks them: `weights[shrinks]`. It may pick none, and `min` of nothing is "
        "an error.",
    ],
)
def farthest_weights(weights, direction):
    """The farthest weights along a direction that are still weights.

    weights (n,), none negative, sum 1; direction (n,), sum 0
    → (n,)
    """
    shrinks = direction < 0
    if not shrinks.any():
        return weights.copy()
    t = (weights[shrinks] / -direction[shrinks]).min()
    return weights + t * direction


@farthest_weights.probes
def _(rng):
    # The step t is given, now above 1 and now below: a step of 1 leaves the simplex, or stops short of its border.
    order = rng.permutation(4)
    small = np.array([0.05, 0.1, 0.25, 0.6])[order], np.array([-0.1, -0.4, -0.7, 1.2])[order]  # t = 0.25, for the card
    drawn = [(1.6, [0, 1], 0.3), (0.4, [1, 0], 0.65), (2.5, [1, 0], 0.3), (0.6, [0], 0.65)]
    cases = [_drawn(rng, *each) for each in drawn]
    single = tuple(a.astype(np.float32) for a in cases[3])
    return [Probe(case, says=_off_the_border) for case in [small, *cases[:3], single]]


def _off_the_border(weights, direction, found):
    """What small steps, of whatever size, leave: weights on the line, near its end."""
    moved = found - weights
    t = moved @ direction / (direction @ direction)
    least = found.min()
    if t <= 0 or np.abs(moved - t * direction).max() > 1e-5 or abs(least) < 1e-5:
        return ""
    if least < 0 and np.abs(found[direction < 0]).min() < 1e-6:
        return (
            f"You go the right way and too far: one of your weights is 0, but another reached 0 before it, and is "
            f"{least:.2g} by now. Each weight that shrinks is 0 at t = weight / −direction, and the *least* of these t "
            "is the limit."
        )
    stop = "stop before the border" if least > 0 else "go beyond the border"
    return (
        f"You go the right way and {stop}: your least weight is {least:.2g}, and should be 0. If you go in small "
        "steps, they do that. No search is needed: a weight that shrinks is 0 at t = weight / −direction."
    )


# Weights and how fast they change. The first to reach 0 is neither the smallest nor the fastest; the last one is the
# smallest in one group, the fastest in the other.
_GROUPS = [([0.1, 0.2, 0.6], [0.04, 0.2, 0.4]), ([0.1, 0.2, 0.6], [0.07, 0.2, 0.25])]


def _drawn(rng, t, groups, growing):
    """Weights and a direction along which they reach the border at t.

    `groups` are the kind of the shrinking weights and that of the growing ones, which are two alike if none is named.
    `growing` is the share of these: backwards the way is longer if it is large, shorter if it is small.
    """
    (w, d), (more, faster) = ([*map(_GROUPS.__getitem__, groups), ([1, 1], [1, 1])])[:2]
    w, d, more, faster = (np.array(a) * rng.uniform(0.95, 1.05, size=len(a)) for a in (w, d, more, faster))
    weights = np.concatenate([w / w.sum() * (1 - growing), more / more.sum() * growing])
    direction = np.concatenate([-d / d.sum(), faster / faster.sum()])
    order = rng.permutation(len(weights))
    return weights[order], direction[order] * (weights / -direction)[: len(d)].min() / t


@farthest_weights.hard_probes
def _():
    weights = np.array([0.5, 0.3, 0.2])
    still = (
        "A weight that does not move sets no limit, not even one that is 0: there 0/0 is not a number. If none moves, "
        "as with a single key, return the weights as they are."
    )
    return {
        "no direction": Probe((weights, np.zeros(3)), still),
        "a single key": Probe((np.array([1.0]), np.array([0.0])), still),
        "at the border": Probe(
            (np.array([0.6, 0.0, 0.4]), np.array([0.5, -1.0, 0.5])),
            "A weight that is 0 already and would shrink leaves no room: t is 0.",
        ),
        "along the border": Probe((np.array([0.6, 0.0, 0.3, 0.1]), np.array([1.0, 0.0, -1.0, 0.0])), still),
        "away from the border": Probe(
            (np.array([0.7, 0.0, 0.3]), np.array([-1.0, 2.0, -1.0])), "A weight of 0 that grows sets no limit."
        ),
        "two at once": Probe(
            (np.array([0.25, 0.25, 0.5]), np.array([-1.0, -1.0, 2.0])), "Two weights may reach 0 at once."
        ),
        "integers": Probe((np.array([1, 0, 0]), np.array([-2, 1, 1])), INTEGERS, True, True),
    }


_TRY = "Are all of your weights at least 0, and is one of them exactly 0?"


@farthest_weights.choice_points(
    step={
        "one": Wrong(
            "You go one step of the direction, whatever its length: now short of the border, now beyond it, where "
            "weights are negative.",
            hint=_TRY,
        ),
        "last instead of first": Wrong(
            "You go on until the *last* of the shrinking weights reaches 0. By then the others are negative: outside "
            "the simplex, where nothing is a weight. The first one sets the limit, `min`.",
            hint=_TRY,
        ),
        "sign lost": Wrong(
            "The growing weights set limits, too: the absolute value of weight / direction has lost the sign. A weight "
            "that grows never reaches 0.",
            hint="Which of your limits belong to weights that shrink?",
        ),
        "negative limits": Wrong(
            "For a weight that grows, −w / d is negative, and `min` takes one of these. So your t is negative, and you "
            "go against the direction. Let only the weights that shrink, with a direction below 0, set a limit.",
            hint="Is your t at least 0?",
        ),
        "growing ones": Wrong(
            "The limit is taken from the weights that *grow*. Those that shrink reach 0; these have a negative "
            "direction.",
            hint="At the end of your way, which weight is 0?",
        ),
        "up to one": Wrong(
            "You look for the first weight that reaches 1. When one is 1 all others are 0, so long before that one of "
            "these has become 0, and then negative.",
            hint=_TRY,
        ),
        "upside down": Wrong(
            "The ratio is upside down: direction / weight says how fast a weight shrinks for its size. The time until "
            "it is 0 is weight / −direction.",
            hint="A weight of 0.2 that loses 0.1 a step: after how many steps is it 0?",
        ),
        "minus lost": Wrong(
            "The minus sign is lost: weight / direction is negative for a weight that shrinks, and so is your t. You "
            "go backwards, by the right length. The limit is weight / −direction.",
            hint="Is your t at least 0?",
        ),
        "minus lost, last": Wrong(
            "The minus sign is lost: weight / direction is negative for a weight that shrinks, and so is your t; its "
            "`min` is the limit of the *last* weight. The limits are weight / −direction, and the least of these "
            "comes first.",
            hint="Is your t at least 0?",
        ),
        "steepest": Wrong(
            "The limit is taken from the weight that shrinks fastest. It may be a large one, which lasts longer than a "
            "small one that shrinks slowly.",
            hint="Which comes first, 0.5 losing 0.2 a step, or 0.1 losing 0.1?",
        ),
        "smallest weight": Wrong(
            "The limit is taken from the smallest of the shrinking weights. It may shrink slowly, and another one "
            "reaches 0 before it.",
            hint="Which comes first, 0.1 losing 0.01 a step, or 0.2 losing 0.1?",
        ),
        "smallest of all": Wrong(
            "The limit is taken from the smallest of all weights. It may grow: then its t is below 0, and you go "
            "backwards. It may shrink slowly: then another one reaches 0 before it. All that shrink set limits, and "
            "the least limit counts.",
            hint="Which comes first, 0.1 losing 0.01 a step, or 0.2 losing 0.1?",
        ),
        "not divided": Wrong(
            "Your t is the smallest of the shrinking weights itself. A step takes from each of them as much as its "
            "direction says, not 1: divide by that, and then take the smallest.",
            hint="A weight of 0.2 that loses 0.1 a step: after how many steps is it 0?",
        ),
        "smallest over largest": Wrong(
            "The smallest weight is divided by the largest change. No weight is negative after such a step, but it is "
            "shorter than it might be: those two need not belong to the same key.",
            hint=_TRY,
        ),
    },
    towards={
        "backwards": Wrong(
            "You go against the direction, t below 0. Asked for is the way along it; at its other end are other "
            "weights.",
            hint="Do the weights with a positive direction grow in your answer?",
        ),
        "the longer way": Wrong(
            "You try both ways and take the longer one. Asked for is the way along the direction, t ≥ 0.",
            hint="Do the weights with a positive direction grow in your answer?",
        ),
    },
    result={
        "the step": Wrong("This is t. The weights are asked for: weights + t · direction."),
        "the change": Wrong(
            "This is the change alone, t · direction. It sums to 0; add it to the weights.",
            hint="What should your result sum to?",
        ),
    },
)
def _(weights, direction, *, step="first", towards="along", result="weights"):
    if towards == "backwards":
        direction = -direction
    t = _step(weights, direction, step)
    if towards == "the longer way" and (back := _step(weights, -direction, step)) > t:
        t, direction = back, -direction
    return {"the step": t, "the change": t * direction}.get(result, weights + t * direction)


def _limit_of_the_smallest(weights, direction):
    i = weights.argmin()
    return -weights[i] / direction[i]


def _step(weights, direction, step):
    shrinks, grows = direction < 0, direction > 0
    if step == "one" or not shrinks.any():
        return 1.0 if step == "one" else 0.0
    size, limits = -direction[shrinks], weights[shrinks] / -direction[shrinks]
    return {
        "last instead of first": lambda: limits.max(),
        "sign lost": lambda: np.abs(weights[shrinks | grows] / direction[shrinks | grows]).min(),
        "negative limits": lambda: -(weights[grows] / direction[grows]).max(),
        "growing ones": lambda: (weights[grows] / direction[grows]).min(),
        "up to one": lambda: ((1 - weights[grows]) / direction[grows]).min(),
        "upside down": lambda: (size / weights[shrinks]).min(),
        "minus lost": lambda: -limits.min(),
        "minus lost, last": lambda: -limits.max(),
        "steepest": lambda: limits[size.argmax()],
        "smallest weight": lambda: limits[weights[shrinks].argmin()],
        "smallest of all": lambda: _limit_of_the_smallest(weights, direction),
        "not divided": lambda: weights[shrinks].min(),
        "smallest over largest": lambda: weights.min() / np.abs(direction).max(),
    }.get(step, lambda: limits.min())()


_OFF_THE_LINE = (
    "Cutting off at 0 leaves the line: what was cut off from one weight is missing in the sum, and the change is no "
    "longer a multiple of the direction, so the output moves. Stop where the first weight is 0 instead."
)
_SHARED_OUT = (
    "After one step negative weights are cut off at 0, and the rest is divided by its sum. That gives weights, but "
    "others: the change is no longer a multiple of the direction, so the output moves. Stop where the first weight is "
    "0 instead."
)
_MULTIPLE = "Is (your weights − weights) / direction the same number for each key?"


@farthest_weights.mistake("one step, cut off", _OFF_THE_LINE, hint=_MULTIPLE)
def _(weights, direction):
    return np.maximum(weights + direction, 0)


@farthest_weights.mistake("one step, cut off at 0 and 1", _OFF_THE_LINE, hint=_MULTIPLE)
def _(weights, direction):
    return np.clip(weights + direction, 0, 1)


@farthest_weights.mistake("one step, cut off and shared out", _SHARED_OUT, hint=_MULTIPLE)
def _(weights, direction):
    moved = np.maximum(weights + direction, 0)
    return moved / moved.sum()


@farthest_weights.mistake("one step, cut off at 0 and 1 and shared out", _SHARED_OUT, hint=_MULTIPLE)
def _(weights, direction):
    moved = np.clip(weights + direction, 0, 1)
    return moved / moved.sum()


@farthest_weights.mistake(
    "one step through softmax",
    "Softmax makes weights of any numbers, and of these it makes others: the change is no longer a multiple of the "
    "direction, so the output moves. Stop where the first weight is 0 instead.",
    hint=_MULTIPLE,
)
def _(weights, direction):
    return softmax(weights * 1.0 + direction)


@farthest_weights.mistake("last instead of first, cut off", _OFF_THE_LINE, hint=_MULTIPLE)
def _(weights, direction):
    return np.maximum(weights + _step(weights, direction, "last instead of first") * direction, 0)


@farthest_weights.mistake(
    "not moved",
    "These are the weights as they were. They have a way to go until the first one is 0.",
    hint="Is one of your weights exactly 0?",
)
def _(weights, direction):
    return weights.copy()


@farthest_weights.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights, direction):
    weights += _step(weights, direction, "first") * direction  # raises for integers
    return weights


@farthest_weights.variant
def infinite_limits(weights, direction):
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(direction < 0, -weights / direction, np.inf).min()
    return weights + (t if np.isfinite(t) else 0) * direction


@farthest_weights.variant
def key_by_key(weights, direction):
    limits = [-w / d for w, d in zip(weights, direction, strict=True) if d < 0]
    t = min(limits, default=0)
    return np.array([w + t * d for w, d in zip(weights, direction, strict=True)])


@farthest_weights.variant
def along_a_unit_vector(weights, direction):  # another length of the direction, another t, the same weights
    length = np.linalg.norm(direction)
    if length == 0:
        return weights
    unit = direction / length
    return weights + np.min(weights[unit < 0] / np.abs(unit[unit < 0])) * unit


@farthest_weights.variant
def by_bisection(weights, direction):
    if not direction.any():
        return weights
    low, high = 0.0, 2 / np.abs(direction).max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (weights + middle * direction).min() >= 0 else (low, middle)
    return weights + low * direction


@farthest_weights.variant
def no_weight_above_one_either(weights, direction):  # a limit that never comes first
    moves = direction != 0
    if not moves.any():
        return 1.0 * weights
    w, d = weights[moves], direction[moves]
    return np.maximum(weights + np.where(d < 0, -w / d, (1 - w) / d).min() * direction, 0)
