"""Exercise 1.6: masked_weights, and what people write instead."""

from dataclasses import replace

import numpy as np

from attnlab import softmax

from ..common import HUGE, IN_PLACE, LIKE_INPUT, NOT_NORMALISED, OVERFLOW, shifted_exp
from ..engine import Probe, Wrong, exercise


@exercise(
    "1.6",
    points=2,
    section="A first look at masks",
    statement=(
        "Some keys may not be used. Give them the weight 0, and let the allowed ones share the whole. You may\n"
        "use `softmax`. At least one key is allowed. The scores may be whole numbers, and as far from 0 as 1000. Of\n"
        "the scores [0, ln 3, 5], the last one not allowed, the weights are [¼, ¾, 0]."
    ),
    hints=[
        "A forbidden key should get the weight 0. Which score gives that, given that exp(score) must be 0?",
        "`np.where(allowed, scores, -np.inf)` gives forbidden keys the score −∞; softmax does the rest.",
    ],
)
def masked_weights(scores, allowed):
    """Softmax over the allowed keys only.

    scores (n_k,); allowed (n_k,) of bool, True = may be used → (n_k,)
    """
    return softmax(np.where(allowed, scores, -np.inf))


@masked_weights.probes
def _(rng):
    cases = []
    for n, kept in [(5, 3), (6, 2), (4, 3)]:  # never half of the keys, so that a turned mask shows
        allowed = np.zeros(n, dtype=bool)
        allowed[rng.permutation(n)[:kept]] = True
        cases.append((rng.normal(size=n) * 1.5, allowed))
    cases.append((cases[0][0].astype(np.float32), cases[0][1]))
    return [Probe(case, says=_still_a_share) for case in cases]


def _still_a_share(scores, allowed, weights):
    """Said where the allowed keys have the right shares of what a forbidden one leaves them."""
    kept, rest = weights[allowed], weights[~allowed]
    if kept.min() <= 0 or rest.max() <= 0 or not np.allclose(kept / kept.sum(), softmax(scores[allowed]), rtol=1e-4):
        return ""
    place = np.argmax(np.where(allowed, 0, weights))
    score = scores[allowed][0] + np.log(weights[place] / kept[0])
    return (
        f"A forbidden key still has a weight: key {place} gets what a score of {score:.3g} would give it. Whatever "
        "number you fill in or subtract, its exponential is no 0; only the score −∞ gives exactly that."
    )


_ABOVE = (
    "where a forbidden score lies far above, all allowed weights round to 0, and you divide 0 by 0 (or its exponential "
    "is infinite). With −∞ in its place, before `exp`, neither happens."
)
_BELOW = (
    "where all allowed scores lie far below zero, your answer is wrong: whatever finite number stands for a forbidden "
    "score, an allowed one can lie below it. Only −∞, put in before `exp`, is below them all."
)
_WHOLE = (
    "For whole numbers as scores it fails, or cuts off fractions: an array of integers holds neither −∞ nor a weight. "
    "`scores.astype(float)` is a floating copy (of a tensor, `scores.double()`)."
)


@masked_weights.hard_probes
def _():
    return {
        "a high forbidden score": Probe(
            (np.array([0.0, 0.0, 1000.0]), np.array([True, True, False])), _ABOVE, advice=True
        ),
        "a low allowed score": Probe(
            (np.array([-60.0, 0.0, -62.0]), np.array([True, False, True])),
            "Allowed keys with low scores lose to the forbidden one: its score must be −∞, not merely small.",
        ),
        # The forbidden score is lower still: what fails for a high one is said above, and does not fail here.
        "a very low allowed score": Probe(
            (np.array([-20000.0, -20003.0]), np.array([True, False])), _BELOW, advice=True
        ),
        "a lower allowed score": Probe(
            (np.array([-700.0, 0.0, -702.0]), np.array([True, False, True])),
            "Allowed keys with low scores lose to the forbidden one: its score must be −∞, not merely small.",
        ),
        "a single key": Probe((np.array([2.0]), np.array([True])), "With a single key the weight is 1, of shape (1,)."),
        "huge scores": Probe((np.array([1000.0, 1001.0, 5.0]), np.array([True, True, False])), HUGE),
        "everything allowed": Probe(
            (np.array([0.5, -1.0, 2.0]), np.array([True] * 3)), "With every key allowed this is plain softmax."
        ),
        "one key allowed": Probe(
            (np.array([0.5, -1.0, 2.0]), np.array([False, True, False])), "A single allowed key gets the weight 1."
        ),
        "integers": Probe((np.array([1, 2, 3]), np.array([True, False, True])), _WHOLE, True),
    }


_TURNED = Wrong(
    "The mask is turned round: the forbidden keys share the weight. Here True means *allowed*; "
    "other libraries mean the opposite.",
    seen_in="rasbt/LLMs-from-scratch#1061",
    hint="What does True mean in `allowed`?",
)


@masked_weights.choice_points(
    polarity={"turned": _TURNED},
    where={
        "score 0": Wrong(
            "A forbidden key has the score 0 (the scores are multiplied by the mask, or 0 is filled in), and e^0 = 1 "
            "is a share, not nothing.",
            seen_in="tebesu/CollaborativeMemoryNetwork#8",
            hint="Which score makes exp(score) zero?",
        ),
        "after softmax": Wrong(
            "The forbidden weights are set to 0 after softmax, and the rest no longer sums to 1. "
            "Exclude the keys before softmax.",
            seen_in="huggingface/pytorch-image-models#2236",
            hint="What do your weights sum to?",
        ),
        "mask added": Wrong(
            "The mask itself is added to the scores (or its opposite subtracted): True counts as 1, so allowed keys "
            "get a small bonus and nothing is forbidden.",
            seen_in="pytorch/pytorch#21518",
            hint="What is 0.5 + True?",
        ),
        "small fill": Wrong(
            "The forbidden scores are set to −1: low, but e^(−1) is still a share. Only −∞ gives exactly 0.",
            hint="What is exp(−1)?",
        ),
        "dropped": Wrong(
            "The forbidden keys are cut out, so the answer is shorter than the scores. Every key keeps its place; "
            "a forbidden one has the weight 0.",
            hint="Which key does your second number belong to?",
        ),
        "ignored": Wrong("The mask is not used.", hint="Would your result change with `allowed`?"),
    },
    normalise={"not": replace(NOT_NORMALISED, hint="What do your weights sum to?")},
    shift={"none": OVERFLOW},
    storage={"like scores": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
def _(
    scores,
    allowed,
    *,
    polarity="allowed",
    where="before",
    normalise="once",
    shift="max",
    storage="floating",
    inputs="kept",
):
    def normalised(x):
        exps = shifted_exp(x, shift)
        if normalise == "not":
            return exps
        return softmax(x) if shift == "max" else exps / exps.sum()

    kept = allowed if polarity == "allowed" else ~allowed
    if inputs == "overwritten":
        scores[~kept] = -np.inf
    fill = -1.0 if where == "small fill" else -np.inf
    if where == "score 0":
        weights = normalised(scores * kept)
    elif where == "mask added":
        weights = normalised(scores + kept)
    elif where == "after softmax":
        weights = normalised(scores) * kept
    elif where == "ignored":
        weights = normalised(scores)
    elif where == "dropped":
        weights = normalised(scores[kept])
    else:
        weights = normalised(np.where(kept, scores, fill))
    return weights.astype(scores.dtype) if storage == "like scores" else weights


@masked_weights.mistake("turned, NaN where nothing is left", _TURNED.text, seen_in=_TURNED.seen_in, hint=_TURNED.hint)
def _(scores, allowed):
    """Where every key is allowed: attnlab's softmax of −∞ alone gives zeros; torch's, and most others, give NaN."""
    exps = shifted_exp(np.where(allowed, -np.inf, scores))
    return exps / exps.sum()


@masked_weights.variant
def only_the_allowed(scores, allowed):
    weights = np.zeros(scores.shape)
    weights[allowed] = softmax(scores[allowed] * 1.0)
    return weights


@masked_weights.variant
def large_negative(scores, allowed):  # −1e9 instead of −∞: the same while a key is allowed that scores far higher
    return softmax(np.where(allowed, scores, -1e9))


@masked_weights.variant
def renormalised_afterwards(scores, allowed):  # a report held this to be an error (abisee/pointer-generator#88)
    weights = softmax(scores * 1.0) * allowed
    return weights / weights.sum()


@masked_weights.variant
def exponentials_masked(scores, allowed):
    exps = np.exp(scores - scores[allowed].max()) * allowed
    return exps / exps.sum()


@masked_weights.variant
def added_mask(scores, allowed):
    return softmax(scores + np.where(allowed, 0.0, -np.inf))
