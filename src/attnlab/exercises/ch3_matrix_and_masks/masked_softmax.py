"""Exercise 3.5: masked_softmax, and what people write instead. Written with tensors' methods: nothing imports torch."""

import numpy as np

from ..common import OVERFLOW
from ..engine import Probe, Wrong, exercise

INF = float("inf")


@exercise(
    "3.5",
    points=3,
    section="A row with nothing to attend to",
    statement=(
        "In PyTorch: softmax along the keys, under an additive mask `M`, 0 where a query may attend and −∞ where\n"
        "not. A row that allows nothing gets the weights 0, and the gradient 0 with respect to its scores. The scores\n"
        "[0, ln 3, 5] under M = [0, 0, −∞] give the weights [¼, ¾, 0]. Weights *and* gradient are checked, so stay\n"
        "with tensors all the way. If you left out the part on derivatives, leave this out, too: no other exercise\n"
        "of this chapter needs PyTorch.\n"
        "\n"
        "`import torch` first, and use `torch.softmax`; `attnlab` has all of this, so leave it aside. What NumPy\n"
        "calls `np.where`, `.any(axis=-1)` and `keepdims=True`, torch calls `torch.where`, `.any(dim=-1)` and\n"
        "`keepdim=True`. `where` and `any` count every number but 0 as true, −∞ too."
    ),
    hints=[
        "Softmax of a row of −∞ is 0/0. Where does that NaN arise first: in the result, or before it? And which rows "
        "are empty? `M` holds numbers: ask `M == 0`, or `M == -torch.inf`, before you say `any` or `all`.",
        "The gradient goes back through every step, also through one whose result is thrown away afterwards. "
        "So the NaN must never arise: give an empty row harmless scores *before* softmax.",
        "Three steps: add the mask; put 0 for every key of an empty row, and take softmax; put 0 into that row again.",
    ],
    gradient_of=["scores"],
)
def masked_softmax(scores, M):
    """Softmax over the allowed keys, for tensors.

    scores (n_q, n_k); M (n_q, n_k), additive:
    0 = may attend, −∞ = may not → weights (n_q, n_k)
    """
    empty = M.isneginf().all(dim=-1, keepdim=True)  # (n_q, 1)
    # Before softmax: a NaN that arises there would stay in the gradient.
    scores = (scores + M).masked_fill(empty, 0.0)
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


@masked_softmax.probes
def _(rng):
    cases = []
    for shape in [(4, 5), (3, 4), (5, 3)]:
        allowed = np.ones(shape, dtype=bool)
        # Each row and each column allows something and forbids something, for a turned mask and another axis to show.
        while any(np.isin(allowed.mean(axis), (0, 1)).any() for axis in (0, 1)) or allowed.mean() == 0.5:
            allowed = rng.random(shape) < 0.6
        if shape == (3, 4):  # One row allows all, as the last of a causal mask. As truth values its zeros are false.
            allowed[rng.integers(3)] = True
        cases.append((rng.normal(size=shape) * 1.5, _numbers(allowed)))
    return [*cases, tuple(a.astype(np.float32) for a in cases[0])]


def _numbers(allowed):
    return np.where(allowed, 0.0, -INF)


_EMPTY = (
    "In a row that allows nothing, the weights are 0 and so is the gradient. With −∞ at every key softmax divides "
    "0 by 0; with a large negative number instead it shares the weight equally among keys that are forbidden."
)


@masked_softmax.hard_probes
def _():
    return {
        "a row that allows nothing": Probe((np.array([[0.5, -0.5], [1.0, 2.0]]), _numbers([[1, 1], [0, 0]])), _EMPTY),
        "no row allows anything": Probe(
            (np.array([[0.5, -0.5, 0.0], [1.0, 2.0, 0.5]]), _numbers([[0] * 3] * 2)), _EMPTY
        ),
        "everything allowed": Probe(
            (np.array([[0.5, -1.0, 2.0], [1.0, 0.0, 0.5]]), np.zeros((2, 3))),
            "With every key allowed this is plain softmax.",
        ),
        "one key allowed": Probe(
            (np.array([[0.5, -1.0, 2.0]]), _numbers([[0, 1, 0]])),
            "A single allowed key gets the weight 1, whatever its score.",
        ),
        "huge scores": Probe(
            (np.array([[1000.0, 1001.0, 5.0]]), _numbers([[1, 1, 0]])),
            "For scores around 1000 it fails: subtract the largest score before `exp`, or use `torch.softmax`.",
        ),
        "a low allowed score": Probe(
            (np.array([[-700.0, 0.0, -702.0]]), _numbers([[1, 0, 1]])),
            "Allowed keys with low scores lose to the forbidden one: its score must be −∞, not merely small.",
        ),
        "a high forbidden score": Probe(
            (np.array([[0.0, 1.0, 1000.0]]), _numbers([[1, 1, 0]])),
            "when a forbidden score lies far above the allowed ones, your answer is wrong or not a number. Only −∞, "
            "put in before `exp`, keeps such a key out.",
            advice=True,
        ),
        "a score that is not a number": Probe(
            (np.array([[np.nan, 1.0], [0.5, 2.0]]), np.zeros((2, 2))),
            "a NaN among the scores themselves, from an accident in an earlier layer, comes out as weights of 0, and "
            "nobody sees it: what cleans NaN from empty rows (`nan_to_num`, say) cleans every other away. And if there "
            "is something to clean in empty rows, your gradient is right by chance: filling in −∞ happens to write 0 "
            "over the NaN. Harmless scores in empty rows *before* softmax leave nothing to clean.",
            advice=True,
        ),
        "float16": Probe(
            tuple(a.astype(np.float16) for a in (np.array([[1.0, 2.0, 3.0]]), _numbers([[1, 1, 0]]))),
            "in float16 your answer fails. The smallest number there is −65504, so −1e9 cannot be written: take "
            '`float("-inf")`, or `torch.finfo(scores.dtype).min`.',
            advice=True,
        ),
    }


_OF_THE_NUMBERS = Wrong(
    "`any` is asked of the numbers themselves: `M.any(dim=-1)`. A number counts as true unless it is 0, so −∞ is true "
    "and 0, which *allows*, is false. A row that allows every key is taken for empty, and an empty row is not. Make "
    "truth values first: `(M == 0).any(dim=-1, keepdim=True)`.",
    hint="What is `torch.tensor([0.0, 0.0]).any()`, and what is it for two numbers −∞?",
)


@masked_softmax.choice_points(
    empty={
        "NaN": Wrong(
            "A row that allows nothing gives NaN: with −∞ at every key, softmax divides 0 by 0. So does masking after "
            "softmax and dividing by what remains. The course asks for weights 0 there.",
            seen_in="pytorch/pytorch#41508",
            hint="What is exp(−∞), and what is the sum of a row of such numbers?",
        ),
        "mended afterwards": Wrong(
            "The empty row is mended *after* softmax (`nan_to_num`, say, or `where`). That cleans the weights and "
            "leaves NaN in the gradient: going backward, softmax multiplies by the NaN that it gave before. One such "
            "row turns every shared parameter to NaN.",
            seen_in="pytorch/pytorch#31829",
            hint="Which scores could an empty row have, so that softmax gives numbers?",
        ),
        "shared equally": Wrong(
            "An empty row shares the weight equally: all its scores are the same number (−1e9, say, or 0), and softmax "
            "sees only differences. Nothing in that row may be attended to, so its weights are 0.",
            hint="What is softmax of [−1e9, −1e9]?",
        ),
    },
    some={
        "of the numbers": _OF_THE_NUMBERS,
        "of the numbers, cleaned": _OF_THE_NUMBERS,
        "all": Wrong(
            "A row counts as empty as soon as *one* key in it is forbidden: `any` and `all` are exchanged. Empty means "
            "that *all* entries are −∞, or that not *any* is 0.",
            hint="In which rows is `(M == -torch.inf).any(dim=-1)` true?",
        ),
    },
    place={
        "after softmax": Wrong(
            "The forbidden weights are set to 0 after softmax, and the rest no longer sums to 1. "
            "Exclude the keys before softmax.",
            seen_in="huggingface/pytorch-image-models#2236",
            hint="What do your rows sum to?",
        ),
        "score 0": Wrong(
            "A forbidden key has the score 0 (0 is filled in, or the scores are multiplied by 0 and 1), and e^0 = 1 "
            "is a share, not nothing.",
            seen_in="tebesu/CollaborativeMemoryNetwork#8",
            hint="Which score makes exp(score) zero?",
        ),
        "as truth values": Wrong(
            "The mask is read as truth values, and 0 taken for “no”: the forbidden keys share the weight. This mask is "
            "added, and adding 0 changes nothing: 0 means *allowed*.",
            seen_in="rasbt/LLMs-from-scratch#1061",
            hint="What becomes of a score to which 0 is added?",
        ),
        "ignored": Wrong("Within a row every key gets a share: the mask is not added to the scores."),
    },
    axis={
        "queries": Wrong(
            "Softmax runs along the queries: the columns sum to 1. Each query shares its weight among the keys, "
            "along the last axis.",
            seen_in="nerminnuraydogan/vision-transformer#1",
            hint="Which axis of `scores` counts the keys?",
        ),
        "all": Wrong(
            "Softmax runs over the whole table: all weights together sum to 1. Each query, each row, has a whole of "
            "its own to share.",
            hint="What does one row sum to?",
        ),
    },
    graph={
        "cut": Wrong(
            "No gradient arrives at `scores`: the result is cut off by `.detach()`, `.data`, `torch.no_grad()` or a "
            "way through NumPy. Nothing before this layer could learn.",
            hint="What is `requires_grad` of your result?",
        ),
    },
)
def _(scores, M, *, empty="kept out", some="of the allowed", place="before", axis="keys", graph="kept"):
    allowed = M.isneginf() if place == "as truth values" else M == 0
    nothing = ~(allowed.all if some == "all" else M.any if some != "of the allowed" else allowed.any)(-1, keepdim=True)
    if place == "before":
        scores = scores + M
    elif place == "score 0":
        scores = scores * allowed
    elif place == "as truth values":
        scores = scores.masked_fill(~allowed, -INF)
    if empty in ("kept out", "shared equally"):
        scores = scores.masked_fill(nothing, 0.0)
    if axis == "all":
        weights = scores.flatten().softmax(dim=0).reshape(scores.shape)
    else:
        weights = scores.softmax(dim=-1 if axis == "keys" else -2)
    if place == "after softmax":
        weights = weights * allowed
    if some == "of the numbers, cleaned":
        weights = weights.nan_to_num()
    if empty in ("kept out", "mended afterwards"):
        weights = weights.masked_fill(nothing, 0.0)
    return weights.detach() if graph == "cut" else weights


@masked_softmax.mistake(
    "large number added",
    "A large negative number is added in place of −∞. In an empty row it is added to every score, and softmax sees "
    "only differences: the forbidden keys share the weight as if nothing were masked.",
    hint="What is softmax of [1 − 1e9, 2 − 1e9]?",
)
def _(scores, M):
    return (scores + M.clamp(min=-1e9)).softmax(dim=-1)


@masked_softmax.mistake("overflow", OVERFLOW.text, seen_in=OVERFLOW.seen_in, hint=OVERFLOW.hint)
def _(scores, M):
    exps = scores.exp() * (M == 0)
    total = exps.sum(dim=-1, keepdim=True)
    return exps / total.where(total > 0, 1.0)


@masked_softmax.variant
def emptied_before(scores, M):
    some = (M == 0).any(dim=-1, keepdim=True)
    return (scores + M.where(some, 0.0)).softmax(dim=-1) * some


@masked_softmax.variant
def stopped_by_masked_fill(scores, M):
    """The NaN arises, but `masked_fill` writes 0 into the gradient of what it replaced: none of it passes."""
    return scores.masked_fill(M == -INF, -INF).softmax(dim=-1).nan_to_num()


@masked_softmax.variant
def by_hand(scores, M):
    total = scores + M
    largest = total.amax(dim=-1, keepdim=True).detach()  # a common shift changes nothing, so it needs no gradient
    exps = (total - largest.clamp(min=-1e30)).exp()
    sums = exps.sum(dim=-1, keepdim=True)
    return exps / sums.masked_fill(sums == 0, 1.0)


@masked_softmax.variant
def a_little_in_the_denominator(scores, M):
    largest = (scores + M).amax(dim=-1, keepdim=True).clamp(min=-1e4)
    exps = (scores.masked_fill(M < 0, -INF) - largest).exp()
    return exps / (exps.sum(dim=-1, keepdim=True) + 1e-9)


@masked_softmax.variant
def large_negative_and_zeros_after(scores, M):
    return (scores + M.clamp(min=-1e9)).softmax(dim=-1) * (M == 0)


@masked_softmax.variant
def row_by_row(scores, M):
    weights = scores * 0
    for i, allowed in enumerate(M == 0):
        if allowed.any():
            weights[i, allowed] = scores[i, allowed].softmax(dim=0)
    return weights
