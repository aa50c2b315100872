"""Exercise 6.6: adversarial_weights, and what people write instead."""

import itertools

import numpy as np

from ..common import IN_PLACE
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.6",
    points=3,
    section="Shuffled weights, and the worst ones",
    statement=(
        "How different may weights be without changing the prediction? The number scoreᵢ (gᵢ in the chapter) is what\n"
        "key i would give the logit with all the weight, so the logit is `weights @ scores`. Of all weights (none\n"
        "negative, their sum 1) whose logit lies between `low` and `high`, bounds included, find those farthest from\n"
        "the given ones: with the largest Jensen–Shannon divergence JSD(p, q) = ½ Σ pᵢ ln(pᵢ/mᵢ) + ½ Σ qᵢ ln(qᵢ/mᵢ),\n"
        "where m = (p + q)/2 and 0 · ln 0 is 0. The chapter proves that among them is a single key, or a pair with\n"
        "the logit `low` or `high`: try all of these. Such a pair is allowed even if rounding puts its logit 10⁻¹⁶\n"
        "beyond the bound. The logit of the given weights lies in the band, and scores differ from the bounds; two\n"
        "of them may be equal, and a bound may lie beyond all. For the weights [0.6, 0.3, 0.1], the scores [0, 1, 4]\n"
        "and the band from 0.5 to 0.9 the answer is [0.1, 0.9, 0]."
    ),
    hints=[
        "Two lists of candidates. Which single keys lie in the band? And which two keys can be mixed so that the logit "
        "is exactly `low`: where do their scores lie?",
        "A share t of key j and 1 − t of key i give the logit (1 − t) · scoreᵢ + t · scoreⱼ. Set that equal to the "
        "bound and solve for t. Which t are weights?",
        "If scoreᵢ < bound < scoreⱼ, t = (bound − scoreᵢ) / (scoreⱼ − scoreᵢ). Both orders of i and j, both bounds; do "
        "not test these for the band again, a rounding may throw them out. Then compute all divergences: "
        "`np.where(q > 0, q, 1)` inside a logarithm keeps 0 · ln 0 from becoming NaN.",
    ],
)
def adversarial_weights(weights, scores, low, high):
    """Weights farthest from the given ones with a logit in [low, high].

    weights, scores (n,); low and high are numbers → (n,)
    """
    n = len(weights)
    found = list(np.eye(n)[(low <= scores) & (scores <= high)])
    for bound in (low, high):
        for i, j in np.ndindex(n, n):
            if scores[i] < bound < scores[j]:
                t = (bound - scores[i]) / (scores[j] - scores[i])
                found.append((1 - t) * np.eye(n)[i] + t * np.eye(n)[j])
    found = np.array(found)

    def entropy(p):
        return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)

    # JSD(p, q) is H(m) − H(p) / 2 − H(q) / 2; H(p) is the same for all.
    mixed = entropy((weights + found) / 2)
    return found[np.argmax(mixed - entropy(found) / 2)]


# Found by search: on these, each wrong turn has a winner of its own, clearly ahead of what comes next to it. And where
# the farthest weights are a pair, shares and logits are exact in binary: code that holds pairs to the band, too, is
# right on paper, and no rounding makes it wrong here.
_CASES = [
    ([0.02, 0.33, 0.21, 0.44], [-3.0, -1.75, -2.0, -2.25], -2.625, -1.25),
    ([0.34, 0.03, 0.27, 0.36], [-1.5, 2.5, 2.25, 0.5], -0.375, 0.875),
    ([0.29, 0.1, 0.04, 0.27, 0.3], [-3.5, 2.25, 0.5, 0.25, -0.25], -1.75, -0.125),
    ([0.26, 0.15, 0.07, 0.02, 0.23, 0.27], [-3.25, 1.5, 0.75, -1.25, 2.25, 0.0], -0.75, 0.25),
    ([0.7, 0.3], [-1.0, 1.0], -0.5, 1.5),  # the only pair has no zero: its divergence is a number in any case
    ([0.49, 0.06, 0.08, 0.17, 0.2], [-3.0, -1.5, -1.25, 0.25, -2.5], -2.875, -1.75),  # so has each half of the JSD
]


@adversarial_weights.probes
def _(rng):
    cases = []
    for weights, scores, low, high in _CASES:
        # Other units and another zero of the logit leave the winner what it is, and so do other places of the keys.
        # The first two stay: mixed, they reach `low`, and so whoever tries pairs first begins with this one.
        unit, zero = rng.integers(4, 17) / 8, rng.integers(-8, 9) / 8
        order = np.array([0, 1, *rng.permutation(np.arange(2, len(weights)))])
        cases.append(
            (np.array(weights)[order], unit * np.array(scores)[order] + zero, unit * low + zero, unit * high + zero)
        )
    single = (*(a.astype(np.float32) for a in cases[1][:2]), *cases[1][2:])
    return [Probe(case, _NOTHING_TO_CHOOSE, says=_allowed) for case in [*cases, single]]


_NOTHING_TO_CHOOSE = (
    "Were there no candidates? Single keys in the band are some, and so are pairs on either bound. Were all "
    "divergences NaN? 0 · ln 0 is meant to be 0."
)


def _allowed(weights, scores, low, high, found):
    """What is behind a pair with a negative weight; and what may be behind allowed weights that are not the farthest:
    a random search, a grid, or a corner too few.
    """
    logit, small = found @ scores, 1e-5
    on_a_bound = min(abs(logit - low), abs(logit - high)) < small
    if found.min() < -small and np.count_nonzero(found) == 2 and on_a_bound:
        return _OUTSIDE.text
    if found.min() < -small or abs(found.sum() - 1) > small or not low - small < logit < high + small:
        return ""
    keys = np.count_nonzero(found > 0)
    if keys == 1 or (keys == 2 and min(logit - low, high - logit) < small):
        return (
            "Allowed, and a corner, but not the farthest one. That one is missing among your candidates, or its "
            "divergence is no number: 0 · ln 0 becomes NaN, and a comparison with NaN is always False."
        )
    return (
        "Allowed, perhaps close, but no corner: the farthest weights lie *on* a bound of the band or are a single key; "
        "they have at most two keys that are not zero. A random search or a grid comes near them and never gets there: "
        "try the corners alone."
    )


@adversarial_weights.hard_probes
def _():
    weights, scores = np.array([0.5, 0.1, 0.25, 0.15]), np.array([-1.0, 2.0, 0.5, 1.5])
    # Here a rounding decides, the other way round for shares computed the other way: so there are two of them.
    rounded = (
        "a pair that is placed on a bound may come out 10⁻¹⁶ beyond it. Held to the band like a single key, it is "
        "thrown out, and the farthest weights may be lost with it: hold single keys to the band, not pairs."
    )
    # Here, too, key 0 is out of the band and the first pair reaches a bound: whoever has NaN everywhere and keeps the
    # first candidate does the same whether single keys stand among the pairs or behind them.
    first = np.array([1, 0, 2, 3])
    return {
        "a bound beyond all scores": Probe(
            (weights[first], scores[first], -1.25, 1.0), "No pair reaches a bound beyond all scores."
        ),
        "two keys": Probe((weights[:2] / 0.6, scores[:2], -0.75, 2.5), "Of two keys one may take it all."),
        "a weight of zero": Probe(
            (np.array([0.6, 0.0, 0.25, 0.15]), np.array([-1.0, 2.5, 0.5, 1.5]), -0.5, 0.75),
            "A given weight may be 0; in the Jensen–Shannon divergence 0 · ln 0 is then 0, not NaN, and no term is "
            "infinite.",
        ),
        "equal scores": Probe(
            (weights, np.array([-1.0, 2.0, 2.0, 0.3]), -0.2, 0.4),
            "Two keys with the same score reach no bound: do not divide by the difference of their scores.",
        ),
        "large scores": Probe((weights, 1000 * scores, 0.0, 600.0), "Scores and bounds may be large; weights are not."),
        "rounded at low": Probe(
            (np.array([0.1, 0.4, 0.5]), np.array([-2.4, -0.2, -1.4]), -1.5, -0.5), rounded, advice=True
        ),
        "rounded at low, too": Probe(
            (np.array([0.1, 0.3, 0.6]), np.array([-1.1, 2.0, 1.7]), 1.3, 1.8), rounded, advice=True
        ),
    }


_MEASURE = "On which pairs of distributions do the two measures disagree on which is farther?"
_ONE_SUM = Wrong(
    "One of the two sums is missing. The Jensen–Shannon divergence has two, Σ pᵢ ln(pᵢ/mᵢ) of the given weights and "
    "Σ qᵢ ln(qᵢ/mᵢ) of the new ones, half of each; either alone may rank two candidates the other way round.",
    hint="Does your divergence stay what it is when its two distributions are exchanged?",
)
_OUTSIDE = Wrong(
    "Pairs are stretched beyond their keys: for a bound that does not lie between the two scores the solution has a "
    "negative weight. That is no distribution; leave such pairs out.",
    hint="Do two keys with the scores 1 and 2 have a mixture with the logit 3?",
)


@adversarial_weights.choice_points(
    candidates={
        "single keys": Wrong(
            "Where a single key lies in the band, pairs are not tried. A mixture of two keys, one below a bound and "
            "one above it, can lie exactly on the bound, and be farther away.",
            hint="Is a single key that is allowed always farther away than every pair?",
        ),
        "pairs": Wrong(
            "Only pairs are tried. A key whose score lies in the band may take all the weight.",
            hint="Which weights with one number that is not 0 are allowed?",
        ),
        "pairs at low": Wrong(
            "Pairs are placed on the lower bound alone. Those on the upper one are corners, too.",
            hint="At which logits may the farthest pair lie?",
        ),
        "pairs at high": Wrong(
            "Pairs are placed on the upper bound alone. Those on the lower one are corners, too.",
            hint="At which logits may the farthest pair lie?",
        ),
        "pairs at the logit": Wrong(
            "Pairs are placed where the logit stays exactly what it was. It may move inside the band, and the farthest "
            "pair lies on one of its bounds.",
            hint="Have `low` and `high` been used for the pairs?",
        ),
        "pairs in the middle": Wrong(
            "Pairs are placed in the middle of the band. The divergence is convex: between two keys it is largest at "
            "an end of what is allowed, where the logit is `low` or `high`.",
            hint="At which logits may the farthest pair lie?",
        ),
        "the logit alone": Wrong(
            "Only weights whose logit is exactly that of the given ones are tried: a band of width 0. The logit may "
            "move from `low` to `high`, and the farthest weights lie on a bound, or are a single key.",
            hint="Have `low` and `high` been used?",
        ),
        "outside": _OUTSIDE,
        "clipped": Wrong(
            "A share below 0 or above 1 is cut off there. What remains is a single key, whose logit is not the bound: "
            "it may lie outside the band. Leave such pairs out.",
            hint="What is the logit of a pair whose share you cut off?",
        ),
    },
    measure={
        "total variation": Wrong(
            "The distance is the sum of the absolute differences (total variation). It may rank two candidates the "
            "other way round: the Jensen–Shannon divergence is asked for.",
            hint=_MEASURE,
        ),
        "KL of the new ones": Wrong(
            "The divergence is Kullback and Leibler's, Σ qᵢ ln(qᵢ/pᵢ) of the new weights q from the given ones p. It "
            "asks above all for a key with a tiny weight. Jensen–Shannon's compares both with their mean.",
            hint="What stands below the fraction bar in each logarithm?",
        ),
        "first half": _ONE_SUM,
        "second half": _ONE_SUM,
        "least": Wrong(
            "The *smallest* divergence is taken: of all candidates this is the most similar one.",
            hint="Which way does your comparison point?",
        ),
    },
    band={
        "ignored": Wrong(
            "The band is not kept: the key with the least weight is always farthest away. Single keys must have a "
            "score between `low` and `high`.",
            hint="What is the logit of your answer?",
        ),
        "no lower end": Wrong(
            "Single keys are held to `high` alone. Their scores must not lie below `low`, either.",
            hint="What is the logit of your answer?",
        ),
        "no upper end": Wrong(
            "Single keys are held to `low` alone. Their scores must not lie above `high`, either.",
            hint="What is the logit of your answer?",
        ),
    },
    shares={
        "exchanged": Wrong(
            "The two shares of a pair are exchanged, so that its logit is not the bound. The nearer a key's score is "
            "to the bound, the more weight it gets.",
            hint="What is the logit of your answer?",
        ),
    },
)
def _(weights, scores, low, high, *, candidates="all", measure="JSD", band="both ends", shares="right"):
    logit = [weights @ scores]
    bounds = {
        "pairs at low": [low],
        "pairs at high": [high],
        "pairs at the logit": logit,
        "pairs in the middle": [(low + high) / 2],
        "the logit alone": logit,
    }
    over = band in ("ignored", "no lower end") or scores >= low
    under = band in ("ignored", "no upper end") or scores <= high
    found = np.eye(len(scores))[np.broadcast_to(over & under, scores.shape)]
    pairs = _pairs(scores, bounds.get(candidates, [low, high]), candidates, shares == "exchanged")
    if candidates != "single keys":
        found = pairs if candidates in ("pairs", "the logit alone") else np.concatenate([found, pairs])
    return _farthest(weights, found, _DISTANCES.get(measure, _divergence))


@adversarial_weights.choice_points(
    measure={
        "Euclidean": Wrong(
            "The distance is the Euclidean one, or another that the largest difference decides. It may rank two "
            "candidates the other way round: the Jensen–Shannon divergence is asked for.",
            hint=_MEASURE,
        ),
        "KL of the given ones": Wrong(
            "The divergence is Kullback and Leibler's, Σ pᵢ ln(pᵢ/qᵢ) of the given weights p from the new ones q. It "
            "is infinite as soon as one qᵢ is 0, and a small number in its place then decides. Jensen–Shannon's "
            "compares both with their mean, and is at most ln 2.",
            hint="What stands below the fraction bar in each logarithm?",
        ),
    },
)
def _(weights, scores, low, high, *, measure):
    singles = np.eye(len(scores))[(low <= scores) & (scores <= high)]
    return _farthest(weights, np.concatenate([singles, _pairs(scores, [low, high])]), _DISTANCES[measure])


def _pairs(scores, bounds, candidates="all", exchanged=False):
    """Mixtures of two keys with the logit of a bound, (…, n)."""
    i, j = np.triu_indices(len(scores), 1)
    apart = scores[i] != scores[j]
    i, j, found = i[apart], j[apart], []
    for bound in bounds:
        t = (bound - scores[i]) / (scores[j] - scores[i])
        t = np.clip(t, 0, 1) if candidates == "clipped" else t
        kept = np.ones_like(i, dtype=bool) if candidates == "outside" else (t >= 0) & (t <= 1)
        t = (1 - t if exchanged else t)[:, None]
        found.append(((1 - t) * np.eye(len(scores))[i] + t * np.eye(len(scores))[j])[kept])
    return np.concatenate(found)


def _kl(p, q):
    """Σ p ln(p/q) where p is positive; NaN where q then is not."""
    positive = p > 0
    logs = np.log(np.where(positive, p, 1) / np.where(positive, q, 1))
    return (np.where(positive, p, 0) * logs).sum(axis=-1)


def _divergence(p, q):
    return _kl(p, (p + q) / 2) / 2 + _kl(q, (p + q) / 2) / 2


def _farthest(weights, found, distance=_divergence):
    return found[np.nanargmax(distance(weights, found))]


_DISTANCES = {
    "total variation": lambda p, q: np.abs(p - q).sum(axis=-1),
    "Euclidean": lambda p, q: ((p - q) ** 2).sum(axis=-1),
    "KL of the new ones": lambda p, q: _kl(q, p + 1e-12),
    "KL of the given ones": lambda p, q: _kl(p, q + 1e-12),
    "first half": lambda p, q: _kl(p, (p + q) / 2),
    "second half": lambda p, q: _kl(q, (p + q) / 2),
    "least": lambda p, q: -_divergence(p, q),
}


@adversarial_weights.mistake("outside, cut off in the divergence", _OUTSIDE.text, hint=_OUTSIDE.hint)
def _(weights, scores, low, high):
    singles = np.eye(len(scores))[(low <= scores) & (scores <= high)]
    found = np.concatenate([singles, _pairs(scores, [low, high], "outside")])
    return found[np.argmax(_divergence(weights, np.maximum(found, 0)))]


@adversarial_weights.mistake(
    "outside, by the Euclidean distance",
    f"{_OUTSIDE.text} And the distance is the Euclidean one; the Jensen–Shannon divergence is asked for.",
    hint=_OUTSIDE.hint,
)
def _(weights, scores, low, high):
    singles = np.eye(len(scores))[(low <= scores) & (scores <= high)]
    found = np.concatenate([singles, _pairs(scores, [low, high], "outside")])
    return _farthest(weights, found, _DISTANCES["Euclidean"])


@adversarial_weights.mistake(
    "permutations",
    "The given weights are permuted. They are one set of numbers in another order; among *all* distributions in the "
    "band some are farther away.",
    hint="How many of your candidates have a weight of 0?",
)
def _(weights, scores, low, high):
    orders = np.array(list(itertools.permutations(range(len(weights)))))
    logits = weights[orders] @ scores
    return _farthest(weights, weights[orders[(low - 1e-9 <= logits) & (logits <= high + 1e-9)]])


@adversarial_weights.mistake(
    "halves",
    "Pairs get half the weight each, and those in the band are kept. The shares that put a pair *on* a bound are "
    "others: solve for them.",
    hint="Which share of key j gives the logit `high`?",
)
def _(weights, scores, low, high):
    halves = (np.eye(len(scores))[:, None] + np.eye(len(scores))) / 2  # the single keys on the diagonal
    return _farthest(weights, halves[(low <= halves @ scores) & (halves @ scores <= high)])


@adversarial_weights.mistake(
    "the divergence",
    "You return how far away the farthest weights are. The weights themselves are asked for.",
    hint="How many numbers should come out?",
)
def _(weights, scores, low, high):
    return _divergence(weights, adversarial_weights.reference(weights, scores, low, high))


_NAN = (
    "0 · ln 0 became NaN: the logarithm of 0 is −∞, and 0 · (−∞) is not a number. Weights with a zero among them then "
    "have no divergence, and a comparison with NaN is always False: "
)
_OF_ZERO = "What does NumPy give for `0 * np.log(0)`, and what for `np.nan > -1`?"


def _unguarded(weights, found):
    """The divergences as they stand in the statement, NaN where a weight is 0."""
    mean = (weights + found) / 2
    return ((weights * np.log(weights / mean)).sum(axis=-1) + (found * np.log(found / mean)).sum(axis=-1)) / 2


def _corners(scores, low, high, pairs_first):
    kinds = np.eye(len(scores))[(low <= scores) & (scores <= high)], _pairs(scores, [low, high])
    return np.concatenate(kinds[::-1] if pairs_first else kinds)


@adversarial_weights.mistake(
    "0 ln 0, the first single key",
    _NAN + "your largest is simply your first candidate, a single key. Leave terms with a weight of 0 out of the sums.",
    hint=_OF_ZERO,
)
def _(weights, scores, low, high):
    found = _corners(scores, low, high, pairs_first=False)
    return found[np.argmax(_unguarded(weights, found))]


@adversarial_weights.mistake(
    "0 ln 0, the first pair",
    _NAN + "your largest is simply your first candidate, a pair. Leave terms with a weight of 0 out of the sums.",
    hint=_OF_ZERO,
)
def _(weights, scores, low, high):
    found = _corners(scores, low, high, pairs_first=True)
    return found[max(range(len(found)), key=_unguarded(weights, found).__getitem__)]


@adversarial_weights.mistake(
    "0 ln 0, the first that is NaN",
    _NAN + "`argmax` gives the first NaN there is, here a pair. Leave terms with a weight of 0 out of the sums.",
    hint=_OF_ZERO,
)
def _(weights, scores, low, high):
    found = _corners(scores, low, high, pairs_first=True)
    return found[np.argmax(_unguarded(weights, found))]


@adversarial_weights.mistake(
    "0 ln 0, the given weights",
    _NAN + "no candidate is ever farther than the given weights, with which you begin. Leave terms with a weight of 0 "
    "out of the sums.",
    hint=_OF_ZERO,
)
def _(weights, scores, low, high):
    best, farthest = weights, -1
    for q in _corners(scores, low, high, pairs_first=False):
        if (far := _unguarded(weights, q)) > farthest:
            best, farthest = q, far
    return best


@adversarial_weights.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights, scores, low, high):
    weights[:] = adversarial_weights.reference(weights, scores, low, high)
    return weights


@adversarial_weights.variant
def one_candidate_at_a_time(weights, scores, low, high):
    def divergence(q):
        m = (weights + q) / 2
        return sum(x * np.log(x / y) for p in (weights, q) for x, y in zip(p, m, strict=True) if x > 0) / 2

    best, farthest = None, -1
    for i in range(len(scores)):
        for j in range(i, len(scores)):
            for bound in (low, high):
                q = np.zeros(len(scores))
                if i == j and low <= scores[i] <= high:
                    q[i] = 1
                elif min(scores[i], scores[j]) < bound < max(scores[i], scores[j]):
                    q[i] = (bound - scores[j]) / (scores[i] - scores[j])
                    q[j] = 1 - q[i]
                else:
                    continue
                if divergence(q) > farthest:
                    best, farthest = q, divergence(q)
    return best


@adversarial_weights.variant
def ends_of_edges(weights, scores, low, high):
    """Each edge of the simplex, cut to the part of it that lies in the band: the two ends of what is left."""
    found = []
    for i, j in itertools.combinations(range(len(scores)), 2):
        ends = [np.clip(bound, *sorted(scores[[i, j]])) for bound in (low, high)]
        for end in ends:
            if low - 1e-9 <= end <= high + 1e-9 and scores[i] != scores[j]:
                q = np.zeros(len(scores), dtype=scores.dtype)
                q[j] = (end - scores[i]) / (scores[j] - scores[i])
                q[i] = 1 - q[j]
                found.append(q)
            elif scores[i] == scores[j] and low <= scores[i] <= high:
                found += [np.eye(len(scores))[i], np.eye(len(scores))[j]]
    return max(found, key=lambda q: _divergence(weights, q))
