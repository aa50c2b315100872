"""Exercise 5.1: online_update, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, OVERFLOW
from ..engine import Probe, Wrong, exercise
from ._words import ENTIRELY_MASKED, HALVED, RESCALE, TILE_S_OWN

INF = np.inf


@exercise(
    "5.1",
    points=3,
    section="Softmax, one tile at a time",
    statement=(
        "One query meets its keys tile by tile. Three things are kept: m, the largest score so far; ℓ (`total`), the\n"
        "sum of exp(score − m) over all keys so far; o (`mixed`), the values summed with those numbers as factors. At\n"
        "the start they are −∞, 0 and zeros. Take in one more tile, and return the new m, ℓ and o in one array:\n"
        "`np.array([m, total, *mixed])`. Leave the arrays that you are given as they are. Scores may lie thousands\n"
        "above or below 0.\n"
        "\n"
        "Scores of −∞ are masked keys. As long as every key so far is masked, m stays −∞ and ℓ and o stay 0. With\n"
        "m = 0, ℓ = 2, o = [6] the tile with the scores ln 2 and 0 and the values [3] and [9] gives\n"
        "[0.6931, 2.5, 10.5]."
    ),
    hints=[
        "First the new maximum, of m and the tile. What is summed already was shifted by the old one: by which factor "
        "does exp(score − m) change when m does?",
        "That factor is `np.exp(m - m_new)`. ℓ and o are both multiplied by it; then the tile is added, its scores "
        "shifted by m_new.",
        "−∞ − (−∞) is not a number. If the new maximum is −∞, shift by 0 instead; exp(−∞ − 0) is 0.",
    ],
)
def online_update(m, total, mixed, scores, values):
    """The running softmax of one query, after one more tile.

    m, total: numbers; mixed (d_v,); scores (b,), values (b, d_v)
    → (2 + d_v,): the new m, the new total, the new mixed
    """
    m_new = max(m, scores.max())
    # −∞ − (−∞) would be NaN. Any other shift is as good.
    shift = 0.0 if m_new == -np.inf else m_new
    old = np.exp(m - shift)  # 0 at the start
    exps = np.exp(scores - shift)  # (b,)
    total = total * old + exps.sum()
    mixed = mixed * old + exps @ values
    return np.array([m_new, total, *mixed])


@online_update.probes
def _(rng):
    # (keys before, b, d_v, how far the new scores lie above the old ones): the maximum rises, stays, is the first.
    sizes = [(3, 4, 2, 2.0), (4, 3, 3, -2.5), (0, 5, 2, 0.0), (6, 2, 4, 1.0), (2, 6, 3, -1.0), (5, 3, 1, 3.0)]
    cases = [_met(rng, *size) for size in sizes]
    cases[4][3][rng.integers(6)] = -INF  # a masked key among others
    m, total, *arrays = cases[3]
    return [*cases, (m, total, *(a.astype(np.float32) for a in arrays))]


def _met(rng, before, b, d_v, above):
    """A state after some keys, at least one of which was not the largest, and a tile."""
    scores, values = rng.normal(size=before + b), rng.normal(size=(before + b, d_v))
    scores[before:] += above - np.max(scores[before:]) + np.max(scores[:before], initial=0.0)
    m = float(np.max(scores[:before], initial=-INF))
    exps = np.exp(scores[:before] - m)
    return m, float(exps.sum()), exps @ values[:before], scores[before:], values[before:]


@online_update.hard_probes
def _():
    nothing, two = np.full(2, -INF), np.array([[7.0, 1.0], [7.0, -1.0]])
    return {
        "first tile all masked": Probe((-INF, 0.0, np.zeros(2), nothing, two), ENTIRELY_MASKED),
        "later tile all masked": Probe(
            (0.5, 2.0, np.array([1.0, -3.0]), nothing, two),
            "A tile that allows nothing changes nothing, if another was there before it.",
        ),
        "first tile half masked": Probe(
            (-INF, 0.0, np.zeros(2), np.array([-INF, 0.5]), two),
            "A masked key adds nothing, in the first tile too.",
        ),
        "huge scores": Probe(
            (1000.0, 1.5, np.array([1.0, 2.0]), np.array([999.0, 1001.0]), two),
            "For scores around 1000 the answer is wrong (often not a number): shift every score by the new maximum "
            "before `exp`.",
        ),
        "far below zero": Probe(
            (-2001.0, 1.5, np.array([1.0, 2.0]), np.array([-2000.0, -2002.0]), two),
            "For scores around −2000 the answer is wrong: the largest score so far must become 0 before `exp`.",
        ),
        "far above all before": Probe(
            (0.0, 1.5, np.array([1.0, 2.0]), np.array([3000.0, 2999.0]), two),
            "One score far above all before makes the old sums 0. It overflows where the factor is taken the wrong "
            "way round, or the scores are not shifted.",
        ),
        "one key": Probe(
            (0.5, 1.0, np.array([2.0]), np.array([0.25]), np.array([[4.0]])),
            "A tile of one key is a tile: the answer has the shape (2 + d_v,).",
        ),
    }


@online_update.choice_points(
    maximum={
        "of the tile": Wrong(
            "The new m is the largest score of this tile alone. It is the largest of *all* so far: in a tile of small "
            "scores m would fall, and the next exponentials of old keys could overflow.",
            hint="What should m be after a tile whose scores are all smaller than m?",
        ),
        "kept": Wrong(
            "m is not updated: the tile's scores are shifted by the old maximum, and one that is far larger overflows.",
            hint="Which score may be shifted to something above 0?",
        ),
        "tile's own": TILE_S_OWN,
        "not subtracted": OVERFLOW,
    },
    rescale={
        **RESCALE,
        "inverted": Wrong(
            "The factor is turned round: exp(m_new − m_old) is at least 1, and what was summed before *grows* when a "
            "larger score comes. It should shrink, by exp(m_old − m_new).",
            hint=HALVED,
        ),
    },
    join={
        "old lost": Wrong(
            "The state holds this tile alone: what was summed before is gone. Add the tile to it.",
            hint="Would your result change if `total` and `mixed` were doubled?",
        ),
        "tile normalised": Wrong(
            "The tile's exponentials are divided by their sum before they mix the values: a softmax of the tile. Its "
            "weights know nothing of the other tiles. Nothing is divided until the end.",
            hint="By which sum will o be divided, once all tiles are in?",
        ),
        "normalised": Wrong(
            "o is divided by ℓ at each tile, and the next tile would be added to a mean instead of a sum. Here o is "
            "the sum: it is divided once, after the last tile.",
            hint="If o is a mean already, what is the next tile added to?",
        ),
        "kept normalised": Wrong(
            "You take o for a mean: multiply it by the old ℓ, add the tile, divide by the new ℓ. That is a way to do "
            "it, but with one division and one product more a tile. Here o is the sum, not divided yet.",
            hint="In the example, ℓ is 2 and o is [6]. Is [6] the mean of the values so far, or their sum?",
        ),
    },
    empty={
        "NaN": Wrong(
            "A first tile that is masked from end to end gives NaN: m_old and m_new are both −∞, and −∞ − (−∞) is not "
            "a number. It never leaves the sums again.",
            seen_in="pytorch/pytorch#130014",
            hint="What does NumPy print for `-np.inf - (-np.inf)`?",
        ),
        "m becomes 0": Wrong(
            "After a first tile that is masked from end to end, m is 0. No score of 0 was seen: if those to come lie "
            "near −1000, every exp(score − 0) is 0. Shift by 0, but hand −∞ on as m.",
            seen_in="Dao-AILab/flash-attention#2082",
            hint="What is the largest score of keys that are all masked?",
        ),
    },
)
def _(m, total, mixed, scores, values, *, maximum="of all", rescale="both", join="added", empty="kept"):
    largest = scores.max()
    m_new = {"of the tile": largest, "kept": m}.get(maximum, max(m, largest))
    shift = 0.0 if m_new == -INF and empty != "NaN" else m_new
    old = np.exp(shift - m if rescale == "inverted" else m - shift)
    exps = np.exp(scores - shift)
    if maximum == "tile's own":
        exps = np.exp(scores - (largest if largest > -INF or empty == "NaN" else 0.0))
    elif maximum == "not subtracted":
        old, exps = 1.0, np.exp(scores)
    if join == "old lost":
        old = 0.0
    new_total = (total if rescale in ("total", "neither") else total * old) + exps.sum()
    factor = 1.0 if rescale in ("mixed", "neither") else old
    if join == "tile normalised":
        exps = exps / (exps.sum() or 1.0)
    elif join == "kept normalised":
        factor = factor * total
    mixed = mixed * factor + exps @ values
    if "normalised" in join and join != "tile normalised":
        mixed = mixed / (new_total or 1.0)
    return np.array([shift if empty == "m becomes 0" else m_new, new_total, *mixed])


_SHRUNK_TOO = (
    "The new tile shrinks, too: it is added first, and then all is multiplied by exp(m_old − m_new). The tile is "
    "shifted by the new maximum already; only what was summed before is multiplied."
)


@online_update.mistake("tile shrunk too", _SHRUNK_TOO, hint="By which maximum are the tile's exponentials shifted?")
def _(m, total, mixed, scores, values):
    m_new = max(m, scores.max())
    shift = 0.0 if m_new == -INF else m_new
    exps = np.exp(scores - shift)
    return np.array([m_new, *(np.array([total + exps.sum(), *(mixed + exps @ values)]) * np.exp(m - shift))])


_OF_NO_KEY = "(And in a tile whose keys are all masked that sum is 0, and 0/0 is not a number.)"


@online_update.mistake(
    "tile normalised, 0/0",
    "The tile's exponentials are divided by their sum before they mix the values: a softmax of the tile. Its "
    f"weights know nothing of the other tiles. Nothing is divided until the end. {_OF_NO_KEY}",
    hint="By which sum will o be divided, once all tiles are in?",
)
def _(m, total, mixed, scores, values):
    m_new = max(m, scores.max())
    shift = 0.0 if m_new == -INF else m_new
    old, exps = np.exp(m - shift), np.exp(scores - shift)
    return np.array([m_new, total * old + exps.sum(), *(mixed * old + exps / exps.sum() @ values)])


@online_update.mistake(
    "normalised, 0/0",
    "o is divided by ℓ at each tile, and the next tile would be added to a mean instead of a sum. Here o is the sum, "
    "divided once, after the last tile. (And while all keys are masked ℓ is 0, and 0/0 is not a number.)",
    hint="If o is a mean already, what is the next tile added to?",
)
def _(m, total, mixed, scores, values):
    m, total, *mixed = online_update.reference(m, total, mixed, scores, values)
    return np.array([m, total, *(np.array(mixed) / total)])


@online_update.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(m, total, mixed, scores, values):
    result = online_update.reference(m, total, mixed, scores, values)
    mixed[:] = result[2:]
    return result


@online_update.mistake(
    "normalised, without ℓ",
    "These are the new m and the output of all keys so far, o divided by ℓ. The next tile needs ℓ and the sum o: "
    "return m, ℓ and o, all three.",
    hint="From a mean alone, can you tell how many numbers went into it?",
)
def _(m, total, mixed, scores, values):
    m, total, *mixed = online_update.reference(m, total, mixed, scores, values)
    return np.array([m, *(np.array(mixed) / (total or 1.0))])


@online_update.variant
def cleaned(m, total, mixed, scores, values):  # exp of NaN is NaN: only a tile that is masked throughout makes one
    m_new = np.maximum(m, np.max(scores))
    factor, exps = np.nan_to_num(np.exp(m - m_new)), np.nan_to_num(np.exp(scores - m_new))
    return np.concatenate([[m_new, factor * total + np.sum(exps)], factor * mixed + np.einsum("b,bv->v", exps, values)])


@online_update.variant
def left_early(m, total, mixed, scores, values):
    if np.all(np.isneginf(scores)):
        return np.hstack([m, total, mixed])
    highest = max([m, *scores])
    shrunk, exps = np.exp(m - highest), np.exp(scores - highest)
    return np.hstack([highest, shrunk * total + exps.sum(), shrunk * mixed + (exps[:, None] * values).sum(axis=0)])


@online_update.variant
def key_by_key(m, total, mixed, scores, values):
    mixed = [float(o) for o in mixed]
    for score, value in zip(scores, values, strict=True):
        if score == -INF:
            continue
        higher = max(m, score)
        total = total * np.exp(m - higher) + np.exp(score - higher)
        mixed = [o * np.exp(m - higher) + np.exp(score - higher) * v for o, v in zip(mixed, value, strict=True)]
        m = higher
    return np.array([m, total, *mixed])


@online_update.variant
def two_states_merged(m, total, mixed, scores, values):
    """The tile gets a state of its own, by its own maximum; then both are brought to the larger one."""
    of_tile = scores.max()
    exps = np.exp(scores - (of_tile if np.isfinite(of_tile) else 0.0))
    both = np.array([m, of_tile])
    larger = both.max()
    a, b = np.exp(both - larger) if larger > -INF else np.zeros(2)
    return np.array([larger, a * total + b * exps.sum(), *(a * mixed + b * (exps @ values))])
