"""Exercise 3.7: positions_of, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "3.7",
    points=1,
    section="Left padding, and positions",
    statement=(
        "Padding moves the tokens, but their positions must not move: the first real token of a sentence has position\n"
        "0, wherever it stands. Count the real tokens only, and give padding the position 0. For [0, 0, 1, 1, 1] (two\n"
        "tokens of padding, then three real ones) the positions are [0, 0, 0, 1, 2]. Padding may stand on either side."
    ),
    hints=[
        "The position of a real token is the number of real tokens before it.",
        "`np.cumsum(is_real, axis=-1)` counts the real tokens up to each place, its own included.",
    ],
)
def positions_of(is_real):
    """Positions that count real tokens only.

    is_real (B, n) of bool → (B, n) of integers, 0 for padding
    """
    before = np.cumsum(is_real, axis=-1) - 1
    return np.where(is_real, before, 0)


@positions_of.probes
def _(rng):
    # Padding on the right, on both sides and between, on the left. The first row begins with real tokens, and the last
    # with padding twice: a count that runs down the batch then shows.
    cases = []
    for n, rows in [(6, [0, 1, 2, 3]), (7, [0, 2, 3]), (5, [0, 1, 3]), (6, [0, 2, 3])]:
        right, both, hole, left = is_real = np.ones((4, n), dtype=bool)
        right[rng.integers(2, n - 1) :] = False
        both[[0, -1]] = False
        hole[[0, 2]] = False
        left[: rng.integers(2, n - 1)] = False
        cases.append((is_real[rows],))
    return cases


@positions_of.hard_probes
def _():
    return {
        "only padding": Probe(
            (np.array([[False, False, False], [True, True, True]]),), "A row of padding alone gets zeros."
        ),
        "no padding": Probe((np.ones((2, 4), dtype=bool),), "Without padding the positions are 0, 1, 2, …"),
        "one sentence": Probe(
            (np.array([[False, True, True]]),), "One sentence is a batch of one: the shape is (1, n)."
        ),
    }


@positions_of.choice_points(
    polarity={
        "turned": Wrong("The mask is turned round: you count the padding.", hint="Is True real here, or padding?")
    }
)
@positions_of.choice_points(
    count={
        "from one": Wrong(
            "The counting starts at 1. The first real token has position 0: subtract 1 from the running count.",
            hint="How many real tokens come before the first one?",
        ),
        "places": Wrong(
            "Real tokens get their place in the row, padding counted. A sentence with padding on the left is shifted.",
            hint="Which position has the first real token of [0, 0, 1, 1, 1]?",
        ),
        "backwards": Wrong(
            "You count from the end: the last real token gets 0.", hint="Which real token should have position 0?"
        ),
        "from the first real one": Wrong(
            "You count all places from the first real token on. Padding between two tokens is counted with them.",
            hint="Which positions belong to [1, 0, 1]?",
        ),
        "over the batch": Wrong(
            "The running count goes down the batch, from sentence to sentence. It must run along each row.",
            hint="Over which axis does `np.cumsum` run?",
        ),
        "over everything": Wrong(
            "The count goes on from one sentence to the next. It starts anew in each row: `axis=-1`.",
            hint="Over which axis does `np.cumsum` run when you name none?",
        ),
    },
    padding={
        "counted on": Wrong(
            "Padding keeps the running count minus 1: −1 on the left, the last position on the right. A position of "
            "−1 would fetch the *last* row of a table. Give padding 0.",
            hint="What stands in your result where `is_real` is False?",
        ),
        "clipped": Wrong(
            "Padding on the left gets 0, but padding on the right repeats the last position. Give all padding 0.",
            hint="Which positions belong to [1, 1, 0]?",
        ),
        "next": Wrong(
            "Padding gets the position that the next real token would have. Give all padding 0.",
            hint="Which positions belong to [1, 1, 0]?",
        ),
        "minus one": Wrong(
            "Padding gets −1, which as an index would fetch the *last* row of a table. Give padding 0.",
            hint="What stands in your result where `is_real` is False?",
        ),
        "one": Wrong(
            "Padding gets 1. Some libraries do that, since nobody reads it; here 0 is asked for.",
            hint="What stands in your result where `is_real` is False?",
        ),
    },
)
def _(is_real, *, count="before", padding="zero", polarity="real"):
    real = ~is_real if polarity == "turned" else is_real
    places = np.broadcast_to(np.arange(real.shape[-1]), real.shape)
    before = {
        "from one": lambda: np.cumsum(real, axis=-1),
        "places": lambda: places,
        "backwards": lambda: np.cumsum(real[:, ::-1], axis=-1)[:, ::-1] - 1,
        "from the first real one": lambda: places - real.argmax(axis=-1)[:, None],
        "over the batch": lambda: np.cumsum(real, axis=0) - 1,
        "over everything": lambda: np.cumsum(real).reshape(real.shape) - 1,
    }.get(count, lambda: np.cumsum(real, axis=-1) - 1)()
    if padding == "counted on":
        return before
    if padding == "clipped":
        return np.maximum(before, 0)
    return np.where(real, before, before + 1 if padding == "next" else {"minus one": -1, "one": 1}.get(padding, 0))


@positions_of.mistake(
    "the running count",
    "This is the running count as it stands. Real tokens are counted from 1 in it, where the first position is 0, and "
    "padding on the right repeats the last count. Subtract 1, and give padding 0.",
    hint="What stands in your result for [1, 1, 0]?",
)
def _(is_real):
    return np.cumsum(is_real, axis=-1)


_ALL_BEFORE = Wrong(
    "From each place you subtract the number of *all* padding of the row. That is right where all of it stands on the "
    "left; what stands behind a token does not count.",
    hint="Which positions belong to [1, 1, 0]?",
)


@positions_of.choice_points(padding_before={"all of it": _ALL_BEFORE, "all of it, clipped": _ALL_BEFORE})
def _(is_real, *, padding_before):
    places = np.arange(is_real.shape[-1]) - (~is_real).sum(axis=-1, keepdims=True)
    return np.maximum(places, 0) if padding_before == "all of it, clipped" else np.where(is_real, places, 0)


_PLACES = Wrong(
    "These are the places in the row: the mask is not used. With padding on the left every token is shifted, and the "
    "model answers as if the sentence began later.",
    seen_in="huggingface/transformers#21080",
    hint="Has `is_real` been used for more than its shape?",
)


@positions_of.choice_points(places={"of all": _PLACES, "in one row": _PLACES})
def _(is_real, *, places):
    row = np.arange(is_real.shape[-1])
    return row if places == "in one row" else row + np.zeros(is_real.shape)


@positions_of.variant
def count_times_mask(is_real):
    return (is_real.cumsum(-1) - 1) * is_real


@positions_of.variant
def with_loops(is_real):
    positions = np.zeros(is_real.shape, dtype=int)
    for b, row in enumerate(is_real):
        count = 0
        for i, real in enumerate(row):
            if real:
                positions[b, i] = count
                count += 1
    return positions


@positions_of.variant
def by_assignment(is_real):
    positions = np.zeros(is_real.shape)
    for row, real in zip(positions, is_real, strict=True):
        row[real] = np.arange(real.sum())
    return positions


@positions_of.variant
def as_a_product(is_real):  # how many real tokens lie strictly before: a product with the strict upper triangle
    n = is_real.shape[1]
    return is_real * (is_real.astype(int) @ np.triu(np.ones((n, n), dtype=int), k=1))
