"""Exercise 6.4: kendall_tau, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.4",
    points=2,
    section="Six rankings",
    statement=(
        "Do two rankings of the same keys agree? Take all pairs of keys, each pair once. A pair agrees if both score\n"
        "vectors put the same key of it first, and disagrees if they put different ones first. Kendall's τ is the\n"
        "number of agreeing pairs minus that of disagreeing ones, over the number of pairs: from 1, the same order,\n"
        "to −1, the opposite one. A pair with equal scores on one side, a tie, neither agrees nor disagrees, and the\n"
        "denominator allows for it: it is √(pairs not tied in `a` · pairs not tied in `b`). This is τ-b. The scores\n"
        "are compared as they are, with their signs, and neither vector is constant. [3, 2, 1] and [5, 6, 4] have τ =\n"
        "(2 − 1) / 3 = 1/3; [1, 2, 2] and [1, 2, 3] have τ = 2 / √(2 · 3) ≈ 0.816."
    ),
    hints=[
        "For keys i and j: what is the sign of (a[i] − a[j]) · (b[i] − b[j]) if the pair agrees, and if it disagrees?",
        "`np.sign(a[:, None] - a)` is a table of all pairs, each twice, with zeros for ties and on the diagonal. What "
        "do you get if you multiply two such tables and add up, and what if you square one and add up?",
        "Counting each pair twice, in the numerator and in the denominator, changes nothing.",
    ],
)
def kendall_tau(a, b):
    """Kendall's τ-b of two score vectors.

    a, b (n,), neither constant → a number from −1 to 1
    """
    in_a = np.sign(a[:, None] - a)  # (n, n): each pair twice, 0 for ties
    in_b = np.sign(b[:, None] - b)
    untied = (in_a**2).sum() * (in_b**2).sum()
    return (in_a * in_b).sum() / np.sqrt(untied)


# Ranks in b of the keys in the order of a: fixed, since there are few values that τ can have and chance would make
# wrong ones right. Now they agree, now they do not; τ is never 0, nor is it Spearman's coefficient.
_ORDERS = [
    [5, 6, 4, 2, 3, 0, 1],
    [2, 0, 1, 5, 3, 7, 4, 6],
    [8, 5, 7, 6, 3, 4, 1, 2, 0],
    [1, 3, 0, 2, 6, 4, 5],
]


@kendall_tau.probes
def _(rng):
    # One side as weights, which are never negative, or with signs on both sides: there it shows if these are lost.
    mixed = rng.permutation(4)
    small = np.array([-4.0, -1.0, 2.0, 5.0])[mixed], np.array([1.0, -9.0, 4.0, 3.0])[mixed]  # for the card
    *drawn, last = [_drawn(rng, order, positive=i == 1) for i, order in enumerate(_ORDERS)]
    return [small, *drawn, tuple(a.astype(np.float32) for a in last)]


def _drawn(rng, order, positive):
    """Two score vectors in such orders, their keys in any order."""
    n = len(order)
    a, b = np.sort(rng.normal(size=n)), np.sort(rng.normal(size=n))[order]
    mixed = rng.permutation(n)
    return (softmax(a) if positive else a)[mixed], b[mixed]


_TIED = (
    "Where scores are tied it is wrong: a tied pair counts 0 in the numerator, and in the denominator it is not among "
    "the pairs of the side on which it is tied."
)


@kendall_tau.hard_probes
def _():
    weights, effects = np.array([0.4, 0.2, 0.2, 0.1, 0.1]), np.array([1.5, 0.0, 2.0, -1.0, 0.5])
    falling = np.arange(6.0)[::-1].copy()
    return {
        "ties in a": Probe((weights, effects), _TIED),
        "ties in b": Probe((effects, weights), _TIED),
        "ties on both sides": Probe(
            (np.array([0.0, 0.0, 3.0, 1.0, 3.0, -2.0]), np.array([1.0, 1.0, 2.0, 2.0, 0.0, -1.0])), _TIED
        ),
        "many zeros": Probe(
            (np.array([0.0, 0.0, 0.0, 1.0, 0.0]), np.array([0.1, 0.0, 0.3, 0.2, 0.0])),
            "Effects are often exactly 0 for most keys, and nearly all pairs are tied then.",
        ),
        "the same order": Probe((falling, falling**3), "The same order gives 1, however far the scores are apart."),
        "the opposite order": Probe((falling, -falling), "The opposite order gives −1."),
        "two keys": Probe((np.array([0.3, 0.7]), np.array([2.0, 1.0])), "Two keys are a single pair: τ is 1 or −1."),
        "integers": Probe(
            (np.array([3, 1, 2, 2]), np.array([1, 4, 2, 3])), "For whole numbers as scores it fails.", True, True
        ),
    }


_PAIRS = "How many pairs are there among 4 keys, and how many did you look at?"
_TIE = "With the scores 2 and 2 on one side, which key does it put first?"


@kendall_tau.choice_points(
    scores={
        "signs lost": Wrong(
            "Absolute values are compared. A key that pushes the output down by 2 then ranks above one that pushes it "
            "up by 1; the scores are to be compared as they are, with their signs.",
            hint="Which is larger, −2 or 1?",
        ),
        "argsort": Wrong(
            "`argsort` gives the *keys* in their order, not the rank of each key. Put it in place of the scores and "
            "you compare names of keys. Scores need no ranks here; `argsort` twice would give them.",
            hint="What is `np.argsort([10, 30, 20])`, and which rank has the score 30?",
        ),
    },
    pairs={
        "neighbours": Wrong(
            "Only neighbours are compared, key i with key i + 1. All pairs count, near and far.",
            hint=_PAIRS,
        ),
        "with the first": Wrong(
            "Only pairs with key 0 are counted: a `return` inside the loop, or one loop where two are needed.",
            hint=_PAIRS,
        ),
    },
    ties={
        "agree": Wrong(
            "Tied pairs count as agreeing (`>= 0`, or `==` between two comparisons). They say nothing about the order, "
            "and count 0.",
            hint=_TIE,
        ),
        "disagree": Wrong(
            "Tied pairs count as disagreeing: they fall into the `else`. They say nothing about the order, and count "
            "0.",
            hint=_TIE,
        ),
    },
    below={
        "all pairs": Wrong(
            "You divide by all pairs, tied ones too. That is τ-a, and with ties it stays below 1 even for a vector and "
            "itself. Asked for is τ-b: its denominator does not count a tied pair on the side on which it is tied.",
            hint="What is your τ of [1, 2, 2] and [1, 2, 2]?",
        ),
        "agreeing and disagreeing": Wrong(
            "You divide by the number of pairs that agree or disagree, so a pair that is tied on one side only is gone "
            "from both. That is Goodman and Kruskal's γ. In τ-b such a pair still counts on the other side: "
            "√(pairs not tied in `a` · pairs not tied in `b`).",
            hint="How many pairs are not tied in `a`, and how many in `b`?",
        ),
        "without the root": Wrong(
            "You divide by the product of the two numbers of pairs. Take its root.",
            hint="What is your τ of a vector and itself?",
        ),
        "half": Wrong(
            "Your τ runs from −2 to 2: above the line each pair is counted twice, as (i, j) and (j, i), below it once.",
            hint="What is your τ of a vector and itself?",
        ),
        "doubled": Wrong(
            "Your τ runs from −½ to ½: the numerator counts each pair once, the denominator twice.",
            hint="What is your τ of a vector and itself?",
        ),
        "with themselves": Wrong(
            "You divide by n² (a mean over the whole table does that), which counts each key as a pair with itself. "
            "τ never reaches 1 then.",
            hint="What is your τ of a vector and itself?",
        ),
        "nothing": Wrong(
            "This is the difference of two counts, which grows with the number of keys. Divide it by the number of "
            "pairs.",
            hint="What is your τ of a vector and itself?",
        ),
    },
    above={
        "turned": Wrong(
            "The sign is turned round: disagreeing minus agreeing.",
            hint="What is your τ of a vector and itself?",
        ),
        "sign lost": Wrong(
            "The sign of τ is lost, and two opposite orders count as the same.",
            hint="What is your τ of a vector and its negative?",
        ),
        "agreeing only": Wrong(
            "This is the share of pairs that agree, from 0 to 1, and ½ for two rankings that have nothing to do with "
            "each other. τ subtracts the pairs that disagree, and is 0 there.",
            hint="What is your τ of a vector and its negative?",
        ),
        "disagreeing only": Wrong(
            "This is the share of pairs that disagree: a distance, 0 for the same order. τ is the share that agrees "
            "minus this.",
            hint="What is your τ of a vector and itself?",
        ),
    },
)
def _(a, b, *, scores="as they are", pairs="all", ties="0", below="untied", above="difference"):
    if scores != "as they are":
        a, b = (np.abs(x) if scores == "signs lost" else np.argsort(x, kind="stable") for x in (a, b))
    n = len(a)
    one, other = {
        "neighbours": lambda: (np.arange(n - 1), np.arange(1, n)),
        "with the first": lambda: (np.zeros(n - 1, dtype=int), np.arange(1, n)),
    }.get(pairs, lambda: np.triu_indices(n, 1))()
    in_a, in_b = np.sign(a[one] - a[other]), np.sign(b[one] - b[other])
    agree, disagree = (in_a * in_b > 0).sum(), (in_a * in_b < 0).sum()
    tied = len(one) - agree - disagree
    count = {
        "all pairs": len(one),
        "agreeing and disagreeing": agree + disagree,
        "without the root": np.count_nonzero(in_a) * np.count_nonzero(in_b),
        "half": len(one) / 2,
        "doubled": len(one) * 2,
        "with themselves": len(one) + n / 2,
        "nothing": 1,
    }.get(below, np.sqrt(np.count_nonzero(in_a) * np.count_nonzero(in_b)))
    agree, disagree = agree + tied * (ties == "agree"), disagree + tied * (ties == "disagree")
    turned = disagree - agree
    difference = {"turned": turned, "sign lost": abs(turned), "agreeing only": agree, "disagreeing only": disagree}
    return difference.get(above, -turned) / count


_OF_SCORES = "Would your result change if the largest score were ten times as large?"


@kendall_tau.mistake(
    "Pearson",
    "This is Pearson's correlation, which looks at the scores themselves: one very large score decides. τ looks at "
    "their order only.",
    hint=_OF_SCORES,
)
def _(a, b):
    return np.corrcoef(a, b)[0, 1]


@kendall_tau.mistake(
    "Spearman",
    "This is Spearman's coefficient, the correlation of the ranks. It looks at the order only, as τ does, but weighs a "
    "pair by how far apart its ranks are. Asked for are counts of pairs.",
    hint="What do you get for [3, 2, 1] and [5, 6, 4]: 1/2, or 1/3?",
)
def _(a, b):
    return np.corrcoef(_ranks(a), _ranks(b))[0, 1]


def _ranks(scores):
    """Ranks from 1, equal scores with the mean of theirs."""
    return (scores[:, None] > scores).sum(axis=1) + ((scores[:, None] == scores).sum(axis=1) + 1) / 2


@kendall_tau.mistake(
    "correlation of argsort",
    "`argsort` gives the *keys* in their order, not the rank of each key, and you correlate names of keys. Even with "
    "ranks, from `argsort` twice, it would be Spearman's coefficient; asked for are counts of pairs.",
    hint="What is `np.argsort([10, 30, 20])`, and which rank has the score 30?",
)
def _(a, b):
    return np.corrcoef(np.argsort(a, kind="stable"), np.argsort(b, kind="stable"))[0, 1]


@kendall_tau.mistake(
    "cosine",
    "This is the cosine of the two vectors. τ looks at the order of the scores only.",
    hint=_OF_SCORES,
)
def _(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


@kendall_tau.mistake(
    "place by place",
    "You count the places at which both orders have the same key. One key that moves to the front shifts all others, "
    "and hardly a place fits any more; pairs do not mind.",
    hint="Which pairs of keys change their order when the last key moves to the front?",
)
def _(a, b):
    return (np.argsort(a, kind="stable") == np.argsort(b, kind="stable")).mean()


_COMPARED = (
    "Two tables of comparisons are compared entry by entry: each pair is there twice, which does no harm, but the "
    "diagonal is there as well, where each key meets itself and always “agrees”, and so do ties. "
)


@kendall_tau.mistake(
    "share of equal comparisons",
    _COMPARED + "And the share of what agrees runs from 0 to 1; τ from −1 to 1.",
    hint="What is your τ of a vector and its negative?",
)
def _(a, b):
    return ((a[:, None] > a) == (b[:, None] > b)).mean()


@kendall_tau.mistake(
    "equal comparisons less unequal ones",
    _COMPARED + "Count only what is in a true order on both sides.",
    hint="What is your τ of a vector and its negative?",
)
def _(a, b):
    return 2 * ((a[:, None] > a) == (b[:, None] > b)).mean() - 1


@kendall_tau.mistake(
    "size of the differences",
    "The differences themselves are multiplied and added up, without their sign being taken: pairs that lie far apart "
    "decide, and what you get is a covariance (divided by the spreads, Pearson's correlation). Each pair counts 1 or "
    "−1.",
    hint=_OF_SCORES,
)
def _(a, b):
    n = len(a)
    return ((a[:, None] - a) * (b[:, None] - b)).sum() / (n * (n - 1))


@kendall_tau.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(a, b):
    tau = kendall_tau.reference(a, b)
    a.sort()
    b.sort()
    return tau


@kendall_tau.variant
def with_loops(a, b):
    above, untied_a, untied_b = 0, 0, 0
    for i in range(len(a)):
        for j in range(i):
            if a[i] != a[j] and b[i] != b[j]:
                above += 1 if (a[i] > a[j]) == (b[i] > b[j]) else -1
            untied_a += a[i] != a[j]
            untied_b += b[i] != b[j]
    return above / (untied_a * untied_b) ** 0.5


@kendall_tau.variant
def pairs_in_a_list(a, b):
    i, j = np.triu_indices(len(a), k=1)
    x, y = np.sign(a[i] - a[j]), np.sign(b[i] - b[j])
    return np.mean(x * y) / np.sqrt(np.mean(x * x) * np.mean(y * y))


@kendall_tau.variant
def cosine_of_two_tables(a, b):
    x, y = (np.sign(np.subtract.outer(scores, scores)).ravel() for scores in (a, b))
    return x @ y / (np.linalg.norm(x) * np.linalg.norm(y))


@kendall_tau.variant
def ties_by_group(a, b):
    """Kendall's own form: tied groups of t scores have t(t − 1)/2 pairs."""
    n = len(a)
    i, j = np.tril_indices(n, -1)
    product = (a[i] - a[j]) * (b[i] - b[j])
    groups = [np.unique(scores, return_counts=True)[1] for scores in (a, b)]
    t, u = (n * (n - 1) / 2 - (g * (g - 1) / 2).sum() for g in groups)
    return ((product > 0).sum() - (product < 0).sum()) / np.sqrt(t) / np.sqrt(u)
