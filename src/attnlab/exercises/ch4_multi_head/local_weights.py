"""Exercise 4.10: local_weights, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS, NOT_NORMALISED, OVERFLOW, shifted_exp
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.10",
    points=3,
    section="Before the Transformer",
    statement=(
        "Luong, Pham and Manning (2015, section 3.2) let attention see a window of the source only (in the text, the\n"
        "paragraph on Luong's window). One query has a score for each position s = 0, 1, … and a centre p, a real\n"
        "number. Take the softmax over the keys with |s − p| ≤ D alone, then multiply each weight by\n"
        "exp(−(s − p)² / (2σ²)), where σ = D/2. Nothing is divided again, so the sum is mostly below one. A key\n"
        "outside gets exactly 0. If no key is inside, all weights are 0. Scores may go beyond 1000. Four scores of 0\n"
        "with p = 1 and D = 1 give e⁻²/3, 1/3, e⁻²/3, 0, which is 0.045, 0.333, 0.045, 0."
    ),
    hints=[
        "Three steps: the keys in the window, their softmax, the bell curve. How far is each key from the centre?",
        "What must a score be, so that its key gets exactly 0 and the others share the weight among them? "
        "`attnlab.softmax` gives zeros where all scores are like that; a softmax of your own may need that case by "
        "itself.",
    ],
)
def local_weights(scores, centre, radius):
    """Weights of one query around `centre`, after Luong et al. (local-p).

    scores (n_k,); centre: a real number p; radius: a number D above 0
    → (n_k,)
    """
    apart = np.arange(len(scores)) - centre
    inside = np.abs(apart) <= radius
    weights = softmax(np.where(inside, scores, -np.inf))
    return weights * np.exp(-(apart**2) / (2 * (radius / 2) ** 2))


@local_weights.probes
def _(rng):
    # (n_k, p, D): keys on both sides of the window, one of them at its very edge where p is whole; D is never 2, where
    # σ is σ², nor is p ever a key's position plus ½. The second window begins at 0.6: to cut that off makes it 0.
    sizes = [(7, 2.0, 1.0), (8, 3.6, 3.0), (9, 5.3, 1.5), (6, 3.0, 3.0)]
    cases = [(1.2 * rng.normal(size=n), centre, radius) for n, centre, radius in sizes]
    return [*cases, (rng.normal(size=10).astype(np.float32), 4.7, 3.5)]


@local_weights.hard_probes
def _():
    scores = np.array([0.5, -1.0, 2.0, 0.0, 1.5])
    return {
        "across the start": Probe(
            (scores, 0.4, 3.0),
            "Where the window reaches beyond the first key, the part outside is left away. A slice that begins at a "
            "negative number counts from the *end*.",
        ),
        "across the end": Probe(
            (scores, 4.2, 2.5), "Where the window reaches beyond the last key, the part outside is left away."
        ),
        "between two keys": Probe(
            (scores, 2.5, 0.5), "Halfway between two keys, both are at the same distance and both are in the window."
        ),
        "no key inside": Probe(
            (scores, 1.5, 0.25),
            "The window can be so narrow that it holds no key. All weights are 0 then: neither an error nor NaN.",
        ),
        "huge scores": Probe(
            (np.array([0.0, 999.0, 1000.0, 1001.0, 3000.0]), 2.0, 1.0),
            "For scores around 1000 the answer is wrong, though the largest of all lies outside: subtract the largest "
            "score *in the window* before `exp`.",
        ),
        "integers": Probe((np.array([1, 0, 2, 1]), 1, 3), INTEGERS, arrays_only=True, advice=True),
    }


_ROUNDED = Wrong(
    "The centre loses its fraction. p is a real number, and stays one: a model learns it, and a whole number has no "
    "slope to learn from.",
    hint="Do your weights change when p moves from 3.6 to 3.7?",
)


@local_weights.choice_points(
    empty={
        "0/0": Wrong(
            "A window without a key gives 0/0, not a number. Those weights are 0.",
            hint="What is the softmax of −∞ alone, and what does the task say it is here?",
        ),
        "shared equally": Wrong(
            "A window without a key leaves some weight: a large negative score like −1e9 for each key makes them all "
            "equal, and softmax shares equally. With −∞, and that case by itself, the weights are 0.",
            hint="What is the softmax of four scores of −1e9?",
        ),
        "an error": Wrong(
            "A window without a key raises an error: no numbers have no largest one. Those weights are 0.",
            hint="For p = 1.5 and D = ¼, how many scores has your window?",
        ),
    },
    shift={
        "none": OVERFLOW,
        "largest of all": Wrong(
            "You subtract the largest score of all keys. Where it lies outside the window, all exponentials inside may "
            "become 0, and 0/0 is not a number: take the largest in the window.",
            hint="What remains of the scores 0, 1 in the window when 3000 lies outside?",
        ),
    },
)
@local_weights.choice_points(
    window={
        "none": Wrong(
            "No key is left out: those beyond the window get little weight, but not 0, and they share in the softmax.",
            hint="What is the weight of a key with |s − p| > D?",
        ),
        "open": Wrong(
            "A key at the distance D exactly is left out: `<` where `<=` is meant.",
            hint="With p = 1 and D = 1, is key 0 in the window?",
        ),
        "as wide as D": Wrong(
            "The window is D wide in all. It reaches D to *each* side of the centre.",
            hint="With p = 1 and D = 1, is key 0 in the window?",
        ),
        "before only": Wrong(
            "Only keys up to the centre are in your window. It reaches to both sides.",
            hint="With p = 1 and D = 1, is key 2 in the window?",
        ),
        "one too early": Wrong(
            "The window begins one key too early where p − D is no whole number: `int` cuts 0.6 down to 0, and key 0 "
            "is farther from the centre than D.",
            hint="Which is the first whole number from 0.6 on?",
        ),
        "last one lost": Wrong(
            "The last key of the window is lost: a slice ends *before* its second number.",
            hint="Which elements has `scores[0:2]`?",
        ),
        "moved forward": Wrong(
            "The window is the slice from `int(p − D)` to `int(p + D)`. A slice ends before its second number, so the "
            "last key is lost; and where p − D is no whole number, `int` lets in one key too many in front.",
            hint="For p = 3.6 and D = 3, which keys are near enough, and which has your slice?",
        ),
        "from the end": Wrong(
            "Where the window reaches beyond the first key, the slice begins at a negative number; Python counts that "
            "from the *end*. Let it begin at 0 at least.",
            hint="Which elements of five has `x[-2:4]`?",
        ),
    },
    softmax={
        "of all keys": Wrong(
            "The softmax runs over all keys, and the window cuts the weights afterwards. The keys outside have then "
            "taken their share: leave them out of the softmax.",
            hint="What would a huge score outside the window do to your weights?",
        ),
        "with zeros": Wrong(
            "Outside the window the *scores* are 0. That is a score like any other, and exp(0) is 1: those keys still "
            "get weight. Leave them out, or give them −∞.",
            hint="Which score has the weight 0?",
        ),
    },
    bell={
        "none": Wrong(
            "The factor exp(−(s − p)² / (2σ²)) is missing: in your window all distances count the same.",
            hint="How does a key at the window's edge differ from one at its centre?",
        ),
        "σ is D": Wrong("The bell is too wide: σ is D. It should be D/2, so that the window reaches 2σ to each side."),
        "σ not squared": Wrong(
            "In the bell σ is not squared, or D/2 is taken for the variance. It is σ: the divisor 2σ² is D²/2.",
            hint="For D = 1, what stands below the fraction bar: 1 or ½?",
        ),
        "without 2": Wrong(
            "In the bell (s − p)² is divided by σ²; the 2 is missing. For D = 1 the divisor is ½.",
            hint="For D = 1, what stands below the fraction bar: ¼ or ½?",
        ),
        "2 squared": Wrong(
            "In the bell the 2 is squared along with σ: (2σ)² is 4σ².",
            hint="For D = 1, what stands below the fraction bar: 1 or ½?",
        ),
        "multiplied": Wrong(
            "In the bell (s − p)² is multiplied by σ². In Python, `a / 2 * b` is (a / 2)·b: put the 2·b in brackets.",
            hint="What does Python print for `8 / 2 * 4`?",
        ),
        "upside down": Wrong(
            "The minus in the exponent is missing: the farther from the centre, the larger the factor.",
            hint="Which factor should a key at the centre get, and can one be above 1?",
        ),
        "density": Wrong(
            "The bell is divided by σ√(2π), as a probability density is. Here its height is 1: a key at the centre "
            "keeps its weight.",
            hint="What is your factor for s = p?",
        ),
    },
    joined={
        "renormalised": Wrong(
            "Your weights sum to one again. Either you divide by their sum at the end, or the exponent "
            "−(s − p)² / (2σ²) is added to the scores before softmax, which comes to the same. The paper does neither: "
            "a window whose best key lies far from p gets little weight in all.",
            hint="What do the weights of the example sum to?",
        ),
        "times the scores": Wrong(
            "The scores are multiplied by the bell, before softmax. It multiplies the *weights*: a score of 0 would "
            "not feel it, and a negative one would rise.",
            hint="What happens in your code when all scores are 0?",
        ),
    },
    positions={
        "from 1": Wrong(
            "Your keys count from 1. Position 0 is the first: everything is shifted by one key.",
            hint="How far is the first key from p = 0?",
        ),
        "centre rounded": _ROUNDED,
        "centre cut off": _ROUNDED,
        "window rounded": Wrong(
            "The bell has its centre at p, but the window lies around p rounded. For p = 3.6 and D = 3 key 7 is too "
            "far away.",
            hint="For p = 3.6 and D = 3, which keys are near enough?",
        ),
    },
)
def _(scores, centre, radius, **taken):
    inside, apart = _window(len(scores), centre, radius, taken.get("window", ""), taken.get("positions", ""))
    bell = _bell(apart, radius, taken.get("bell", ""))
    if taken.get("joined") == "times the scores":
        scores, bell = scores * bell, np.ones_like(bell)
    kept = np.where(inside, scores, 0) if taken.get("softmax") == "with zeros" else scores
    summed = inside | ("softmax" in taken)
    weights = _softmax(kept, summed, taken.get("empty", ""), taken.get("shift", "max"))
    weights = np.where(inside, weights, 0) if taken.get("softmax") == "of all keys" else weights
    weights = weights * bell
    return weights / (weights.sum() or 1) if taken.get("joined") == "renormalised" else weights


def _softmax(scores, inside, empty, shift):
    if inside.any():
        kept = np.where(inside, scores, -np.inf)
        powers = np.exp(kept - scores.max()) if shift == "largest of all" else shifted_exp(kept, shift)
        return powers / powers.sum()
    if empty == "an error":
        raise ValueError("zero-size array has no maximum")
    return np.full(len(scores), {"0/0": np.nan, "shared equally": 1 / len(scores)}.get(empty, 0.0))


def _window(n_k, centre, radius, window, positions):
    """Which keys are inside (n_k,), and how far each is from the centre (n_k,)."""
    keys = np.arange(n_k) + (positions == "from 1")
    rounded = {"centre cut off": int(centre)}.get(positions, round(centre))
    apart = keys - (rounded if positions.startswith("centre") else centre)
    middle = rounded if "rounded" in positions or positions == "centre cut off" else centre
    start, end = middle - radius, middle + radius
    first = {"one too early": int(start), "moved forward": int(start), "as wide as D": middle - radius / 2}
    last = {"last one lost": int(end) - 1, "moved forward": int(end) - 1}
    last |= {"before only": middle, "as wide as D": middle + radius / 2}
    inside = (keys >= first.get(window, start)) & (keys <= last.get(window, end))
    if window == "open":
        inside &= (keys > start) & (keys < end)
    if window == "from the end":
        inside = np.zeros(n_k, dtype=bool)
        inside[int(np.ceil(start)) : int(np.floor(end)) + 1] = True
    return (inside | True if window == "none" else inside), apart


def _bell(apart, radius, bell):
    sigma = radius / 2
    if bell == "none":
        return np.ones(len(apart))
    divisor = {"σ is D": 2 * radius**2, "σ not squared": 2 * sigma, "without 2": sigma**2, "2 squared": 4 * sigma**2}
    divisor |= {"multiplied": 2 / sigma**2, "upside down": -2 * sigma**2}
    height = 1 / (sigma * np.sqrt(2 * np.pi)) if bell == "density" else 1
    return height * np.exp(-(apart**2) / divisor.get(bell, 2 * sigma**2))


@local_weights.mistake(
    "the window alone",
    "Only the keys in the window are left. The answer has one number for each key, 0 outside, so that it fits the "
    "values.",
    hint="How many weights do n_k values need?",
)
def _(scores, centre, radius):
    return local_weights.reference(scores, centre, radius)[np.abs(np.arange(len(scores)) - centre) <= radius]


@local_weights.mistake(
    "the bell alone",
    "This is the bell, cut at the window: the scores are not used.",
    hint="Would your weights change with the scores?",
)
def _(scores, centre, radius):
    inside, apart = _window(len(scores), centre, radius, "", "")
    return np.where(inside, _bell(apart, radius, ""), 0)


@local_weights.mistake("not normalised", NOT_NORMALISED.text, hint="What do four scores of 0 give in your code?")
def _(scores, centre, radius):
    inside, apart = _window(len(scores), centre, radius, "", "")
    return np.where(inside, np.exp(scores) * _bell(apart, radius, ""), 0)


@local_weights.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(scores, centre, radius):
    scores[np.abs(np.arange(len(scores)) - centre) > radius] = -np.inf  # raises for integers
    return local_weights.reference(scores, centre, radius)


@local_weights.variant
def by_a_slice(scores, centre, radius):
    first, last = max(0, int(np.ceil(centre - radius))), min(len(scores) - 1, int(np.floor(centre + radius)))
    weights = np.zeros(len(scores))
    if first <= last:
        weights[first : last + 1] = softmax(scores[first : last + 1])
    return weights * np.exp(-2 * ((np.arange(len(scores)) - centre) / radius) ** 2)


@local_weights.variant
def with_loops(scores, centre, radius):
    near = [s for s in range(len(scores)) if abs(s - centre) <= radius]
    largest = max((float(scores[s]) for s in near), default=0.0)
    total = sum(np.exp(scores[s] - largest) for s in near)
    weights = [0.0] * len(scores)
    for s in near:
        weights[s] = np.exp(scores[s] - largest) / total * np.exp(-((s - centre) ** 2) / (2 * (radius / 2) ** 2))
    return np.array(weights)


@local_weights.variant
def one_exponential(scores, centre, radius):  # score and bell in one exponent; the bell is left out of the sum
    apart = np.arange(len(scores)) - centre
    near = np.flatnonzero(np.abs(apart) <= radius)
    weights = np.zeros(len(scores))
    for s in near:
        weights[s] = np.exp(-2 * (apart[s] / radius) ** 2) / np.exp(scores[near] - scores[s]).sum()
    return weights
