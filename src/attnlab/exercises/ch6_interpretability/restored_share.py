"""Exercise 6.9: restored_share, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.9",
    points=2,
    section="Heads of a language model",
    statement=(
        "How much of what a changed prompt destroyed does a patch bring back? The measure of a run is the logit of\n"
        "`answer` minus the logit of `other`. Return how far the patched run's measure lies above the corrupted\n"
        "run's, as a share of how far the clean run's does: 0 where the patch does nothing, 1 where it brings back\n"
        "everything, negative where it makes things worse. With two tokens, answer 0 and other 1, the logits [3, 0],\n"
        "[0, 1] and [1, 1] have the measures 3, −1 and 0; the share is (0 − (−1)) / (3 − (−1)) = 0.25."
    ),
    hints=[
        "First one number for each run: how far is the right answer ahead of the other?",
        "Those are three points on a line. Where does the way from corrupted to clean begin, how long is it, and how "
        "much of it has the patch gone?",
        "From the corrupted run's number to the patched one's, divided by from the corrupted one's to the clean one's.",
    ],
)
def restored_share(clean, corrupted, patched, answer, other):
    """Share of the clean − corrupted difference that a patch restores.

    clean, corrupted, patched (V,): logits of three runs
    answer, other: which tokens are compared → a number
    """
    top = clean[answer] - clean[other]
    floor = corrupted[answer] - corrupted[other]
    return (patched[answer] - patched[other] - floor) / (top - floor)


@restored_share.probes
def _(rng):
    cases = []
    for size, share in [(7, 0.35), (5, -0.4), (9, 1.3), (6, 0.7)]:
        runs = rng.normal(size=(3, size))
        answer, other = (int(i) for i in rng.permutation(size)[:2])
        top, floor = rng.uniform(2, 3), -rng.uniform(0.5, 1.5)
        measures = [top, floor, floor + (top - floor) * (share + rng.uniform(-0.1, 0.1))]
        for run, measure in zip(runs, measures, strict=True):
            run[answer] = run[other] + measure
        cases.append((*runs, answer, other))
    return [*cases, (*(run.astype(np.float32) for run in cases[0][:3]), *cases[0][3:])]


@restored_share.hard_probes
def _():
    clean, corrupted = np.array([2.0, 0.5, -1.0, 0.0]), np.array([-1.0, 0.25, 2.0, 0.5])
    middle = np.array([1.0, 3.0, -0.5, 0.0])
    return {
        "no effect": Probe((clean, corrupted, corrupted.copy(), 0, 2), "A patch that changes nothing restores 0."),
        "all brought back": Probe((clean, corrupted, clean.copy(), 0, 2), "A patch that undoes the change restores 1."),
        "other ahead": Probe(
            (clean, corrupted, middle, 2, 0),
            "The measure may fall from corrupted to clean; both differences are negative then, and so is no share.",
        ),
        "large logits": Probe(
            (clean + 900, corrupted - 900, middle, 0, 2),
            "A constant added to all logits of a run changes nothing: the difference of two of them stays.",
        ),
        "integers": Probe(
            (np.array([3, 0]), np.array([0, 1]), np.array([1, 1]), 0, 1), INTEGERS, arrays_only=True, advice=True
        ),
    }


_NOT_ZERO = "What does your function give for a patch that changes nothing?"
_NOT_ONE = "What does your function give for a patch that brings everything back?"
_TOKENS = Wrong(
    "The tokens are those of the example, 0 and 1, whatever `answer` and `other` are. Which two are compared is given: "
    "`clean[answer] - clean[other]`.",
    hint="Would your result change with `answer` or with `other`?",
)
_ONE_TURNED = Wrong(
    "In one of the three measures the two tokens are exchanged, so that runs are compared that were measured "
    "differently. (Exchanged in all three, the sign falls out of the share.)",
    hint="Which token's logit comes first in each of the three measures?",
)


@restored_share.choice_points(
    tokens={"0 and 1": _TOKENS},
    measure={
        "answer alone": Wrong(
            "The measure is the answer's logit or probability alone. All logits of a run may be shifted by a constant "
            "that changes nothing, and all probabilities by a third token: the *difference* of two says which of them "
            "is ahead.",
            hint="What does your share become if 5 is added to every logit of the patched run?",
        ),
        "other alone": Wrong(
            "The measure is that of the other token alone. The answer's minus the other's is asked for.",
            hint="Would your share change with the answer's logit?",
        ),
    },
    scale={
        "probabilities": Wrong(
            "The logits go through softmax first. A probability saturates: near 0 and 1 it hardly moves, and then "
            "equal steps of the logits become unequal shares. Stay with logits.",
            hint="By how much does a probability change when its logit goes from 8 to 9, and from 0 to 1?",
        ),
    },
    above={
        "what is missing": Wrong(
            "This is the share that is still *missing*, 1 minus the one asked for: you start from the clean run. "
            "Start from the corrupted one.",
            hint=_NOT_ZERO,
        ),
        "patched alone": Wrong(
            "The corrupted run's measure is not subtracted above the fraction bar: a patch that changes nothing would "
            "not get 0.",
            hint=_NOT_ZERO,
        ),
        "turned": Wrong(
            "The sign is turned round: one of the two differences begins at the wrong end. A patch that brings "
            "everything back gets 1.",
            hint="Does each of your two differences end with the corrupted run?",
        ),
    },
    below={
        "clean alone": Wrong(
            "It is divided by the clean run's measure. The whole way that a patch can go begins at the corrupted run: "
            "divide by clean minus corrupted.",
            hint=_NOT_ONE,
        ),
        "corrupted alone": Wrong(
            "It is divided by the corrupted run's measure. The whole way that a patch can go leads from there to the "
            "clean run: divide by clean minus corrupted.",
            hint=_NOT_ONE,
        ),
        "nothing": Wrong(
            "This is the difference itself, in logits. As a share it is divided by clean minus corrupted, and can be "
            "compared between prompts.",
            hint=_NOT_ONE,
        ),
    },
)
def _(
    clean,
    corrupted,
    patched,
    answer,
    other,
    *,
    tokens="given",
    measure="difference",
    scale="logits",
    above="patched − corrupted",
    below="clean − corrupted",
):
    given = answer, other

    def measured(run):
        answer, other = (0, 1) if tokens == "0 and 1" else given
        run = softmax(run * 1.0) if scale == "probabilities" else run
        alone = {"answer alone": run[answer], "other alone": run[other]}
        return alone.get(measure, run[answer] - run[other])

    top, floor, reached = measured(clean), measured(corrupted), measured(patched)
    gained = {"what is missing": top - reached, "patched alone": reached, "turned": floor - reached}
    way = {"clean alone": top, "corrupted alone": floor, "nothing": 1.0}
    return gained.get(above, reached - floor) / way.get(below, top - floor)


@restored_share.choice_points(
    size={
        "absolute": Wrong(
            "The sign is lost: a patch that makes things *worse* looks like one that helps.",
            hint="What does your function give where the patched run is worse than the corrupted one?",
        ),
        "clipped": Wrong(
            "The share is cut off at 0 and 1. A patch can make things worse, and it can overshoot: both are findings.",
            hint="What does your function give where the patched run is worse than the corrupted one?",
        ),
        "cut off at 0": Wrong(
            "A share below 0 is cut off there. A patch can make things worse, and by how much is a finding.",
            hint="What does your function give where the patched run is worse than the corrupted one?",
        ),
        "cut off at 1": Wrong(
            "A share above 1 is cut off there. A patch can overshoot, and by how much is a finding.",
            hint="What does your function give where the patched run is better than the clean one?",
        ),
        "percent": Wrong("This is in percent. A share of everything is 1.", hint="Where does the 100 come from?"),
    },
)
def _(clean, corrupted, patched, answer, other, *, size):
    share = restored_share.reference(clean, corrupted, patched, answer, other)
    return {
        "absolute": abs(share),
        "clipped": np.clip(share, 0, 1),
        "cut off at 0": max(share, 0.0),
        "cut off at 1": min(share, 1.0),
        "percent": 100 * share,
    }[size]


@restored_share.choice_points(
    exchanged={"in the patched run": _ONE_TURNED, "in the corrupted run": _ONE_TURNED, "in the clean run": _ONE_TURNED}
)
def _(clean, corrupted, patched, answer, other, *, exchanged):
    runs = {"clean": clean, "corrupted": corrupted, "patched": patched}
    sign = {name: -1 if name in exchanged else 1 for name in runs}
    top, floor, reached = (sign[name] * (run[answer] - run[other]) for name, run in runs.items())
    return (reached - floor) / (top - floor)


@restored_share.choice_points(
    brackets={
        "none": Wrong(
            "Both brackets are missing. A division comes before a subtraction: `p - k / c - k` is p − (k / c) − k. The "
            "two differences come first, each in brackets.",
            hint=_NOT_ZERO,
        ),
        "below alone": Wrong(
            "The brackets above the fraction bar are missing. A division comes before a subtraction: `p - k / (c - k)` "
            "divides k alone.",
            hint=_NOT_ZERO,
        ),
        "above alone": Wrong(
            "The brackets below the fraction bar are missing. A division comes before a subtraction: `(p - k) / c - k` "
            "divides by c alone, and then takes k off the quotient.",
            hint=_NOT_ZERO,
        ),
    }
)
def _(clean, corrupted, patched, answer, other, *, brackets):
    c, k, p = (run[answer] - run[other] for run in (clean, corrupted, patched))
    return {"none": p - k / c - k, "below alone": p - k / (c - k), "above alone": (p - k) / c - k}[brackets]


@restored_share.mistake(
    "ratio",
    "The measure is the answer's logit *divided* by the other's. A logit has no zero of its own, and may be negative: "
    "take the difference.",
    hint="What does your measure become when the other's logit passes through 0?",
)
def _(clean, corrupted, patched, answer, other):
    top, floor, reached = (run[answer] / run[other] for run in (clean, corrupted, patched))
    return (reached - floor) / (top - floor)


@restored_share.mistake(
    "every token",
    "You return a share for every token's logit. One number is asked for, of the difference of two.",
    hint="Have `answer` and `other` been used?",
)
def _(clean, corrupted, patched, answer, other):
    return (patched - corrupted) / (clean - corrupted)


@restored_share.mistake(
    "shares subtracted",
    "You compute a share for each of the two tokens and subtract these. First the difference of the logits, then its "
    "share: a difference of fractions with different denominators is something else.",
    hint="What does your function give for a patch that brings everything back?",
)
def _(clean, corrupted, patched, answer, other):
    share = (patched - corrupted) / (clean - corrupted)
    return share[answer] - share[other]


@restored_share.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(clean, corrupted, patched, answer, other):
    patched -= corrupted
    clean -= corrupted
    return (patched[answer] - patched[other]) / (clean[answer] - clean[other])


@restored_share.variant
def differences_first(clean, corrupted, patched, answer, other):
    gained, way = patched - corrupted, clean - corrupted  # (V,)
    return (gained[answer] - gained[other]) / (way[answer] - way[other])


@restored_share.variant
def in_the_other_order(clean, corrupted, patched, answer, other):
    top, floor, reached = (run[other] - run[answer] for run in (clean, corrupted, patched))
    return 1 - (reached - top) / (floor - top)


@restored_share.variant
def as_log_probabilities(clean, corrupted, patched, answer, other):
    runs = np.stack([clean, corrupted, patched])
    runs = runs - runs.max(axis=1, keepdims=True)
    logs = runs - np.log(np.exp(runs).sum(axis=1, keepdims=True))
    top, floor, reached = logs[:, answer] - logs[:, other]
    return (reached - floor) / (top - floor)
