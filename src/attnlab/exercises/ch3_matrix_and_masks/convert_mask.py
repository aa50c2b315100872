"""Exercise 3.9: convert_mask, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise
from ._words import KIND


@exercise(
    "3.9",
    points=3,
    section="What libraries do with a mask",
    statement=(
        "One mask, four conventions. `allowed` is this course's mask, True = may attend. Write it as others want it:\n"
        "\n"
        '- `"sdpa"`, torch `F.scaled_dot_product_attention`: bool, True = may attend\n'
        '- `"mha"`, torch `nn.MultiheadAttention`: bool, True = forbidden\n'
        '- `"additive"`, to be added to the scores: 0.0 where allowed, −∞ where forbidden\n'
        '- `"keep"`, for functions that ask for ones and zeros: the numbers 1 = may attend and 0 = forbidden, not bool'
    ),
    hints=[
        "Write the four results for the mask [True, False] on paper first. Two of them are boolean.",
        "`~` turns a *boolean* mask round; `np.where(allowed, a, b)` makes numbers of it; `.astype(int)` makes ones "
        "and zeros (`.astype(float)` does as well).",
    ],
)
def convert_mask(allowed, convention):
    """The same mask in another convention.

    allowed (n_q, n_k) of bool, True = may attend;
    convention is "sdpa", "mha", "additive" or "keep" → (n_q, n_k)
    """
    if convention == "sdpa":
        return allowed
    if convention == "mha":
        return ~allowed
    if convention == "additive":
        return np.where(allowed, 0.0, -np.inf)
    return allowed.astype(np.int64)


@convert_mask.probes
def _(rng):
    cases = []
    for (n_q, n_k), convention in [((4, 2), "additive"), ((2, 3), "sdpa"), ((3, 4), "mha"), ((3, 3), "keep")]:
        allowed = np.zeros(n_q * n_k, dtype=bool)
        allowed[rng.permutation(n_q * n_k)[: n_q * n_k // 2 + 1]] = True
        cases.append((allowed.reshape(n_q, n_k), convention))
    return cases


@convert_mask.hard_probes
def _():
    everything, empty_row = np.ones((2, 3), dtype=bool), np.array([[True, False], [False, False]])
    return {
        "all allowed, additive": Probe(
            (everything, "additive"), "Where all is allowed the additive mask is 0 everywhere (0·∞ is not a number)."
        ),
        "an empty row, additive": Probe(
            (empty_row, "additive"), "A row that allows nothing is a row of −∞: say it, and leave it to the library."
        ),
        "an empty row, mha": Probe(
            (empty_row, "mha"), "A row that allows nothing stays a row that allows nothing, in every convention."
        ),
        "one pair": Probe((everything[:1, :1], "keep"), "A single pair: the shape is (1, 1)."),
    }


_NO_INFINITY = "A large finite number stands where −∞ is asked for. Most of the time softmax makes the same of both. "
_FINITE_WORDS = Wrong(
    _NO_INFINITY + "But float16 cannot hold it, and a row that allows nothing turns into the plain mean.",
    seen_in="facebookresearch/fairseq#3575",
    hint="What does softmax give for a row of −1e9s, and what for a row of −∞?",
)
_FINITE = {
    "-10000": Wrong(
        _NO_INFINITY + "But scores may be that large too, and −10000 hides faults: a row that allows nothing looks "
        "healthy.",
        seen_in="hyunwoongko/transformer#40",
        hint="What does softmax give for a row of −10000s, and what for a row of −∞?",
    ),
    "smallest float64": Wrong(
        _NO_INFINITY + "But two such masks added overflow to −∞ after all, and a row that allows nothing turns into "
        "the plain mean.",
        seen_in="huggingface/transformers#27114",
        hint="What is `np.finfo(float).min + np.finfo(float).min`?",
    ),
}
_FINITE |= {"-1e8": _FINITE_WORDS, "-1e10": _FINITE_WORDS, "smallest float32": _FINITE["smallest float64"]}
_FILL = {"plus infinity": np.inf, "-1e8": -1e8, "-1e9": -1e9, "-1e10": -1e10, "-10000": -1e4}
_FILL |= {f"smallest {kind}": float(np.finfo(kind).min) for kind in ("float64", "float32")}


def _numbers(convention, hint):
    return Wrong(f'For "{convention}": ' + KIND["numbers"].text, seen_in=KIND["numbers"].seen_in, hint=hint)


@convert_mask.choice_points(
    additive={
        "0 times ∞": Wrong(
            "Ones and zeros are multiplied by −∞. But 0·∞ is not a number: every allowed pair becomes NaN. Choose with "
            "`np.where` instead.",
            hint="What does `0 * -np.inf` give?",
        ),
        **_FINITE,
    }
)
@convert_mask.choice_points(
    mha={
        "bits": Wrong(
            "`~` met integers and turned their bits round: 1 becomes −2 and 0 becomes −1, which both count as true. "
            "Turn the boolean mask, before any conversion.",
            hint="What is `~1` in Python?",
        ),
        "bits of uint8": Wrong(
            "`~` met integers and turned their bits round: as uint8, 1 becomes 254 and 0 becomes 255, which both count "
            "as true. Turn the boolean mask, before any conversion.",
            seen_in="pytorch/pytorch#24180",
            hint="What is `~np.uint8(1)`?",
        ),
    }
)
@convert_mask.choice_points(
    sdpa={
        "turned": Wrong(
            'For "sdpa" the mask is turned round. Of the two boolean conventions of torch, this function keeps where '
            "the mask is True.",
            seen_in="rasbt/LLMs-from-scratch#1061",
            hint="In which of the two does True mean *may attend*?",
        ),
        "numbers": _numbers("sdpa", "Which dtype has your result, and which dtype is asked for?"),
    },
    mha={
        "turned": Wrong(
            'For "mha" the mask is turned round. `nn.MultiheadAttention` forbids where the mask is True.',
            seen_in="pytorch/pytorch#170404",
            hint="In which of torch's two conventions does True mean *forbidden*?",
        ),
        "numbers": _numbers("mha", "Of which dtype is `1 - allowed`, and of which `~allowed`?"),
    },
    additive={
        "turned": Wrong(
            "The additive mask is turned round: −∞ stands where attention is allowed.",
            hint="What is added to the score of an allowed pair?",
        ),
        "ones and zeros": Wrong(
            "Ones and zeros are *added* to the scores: an allowed pair gets a bonus of 1, and nothing is forbidden. "
            "Which number forbids when it is added?",
            seen_in="pytorch/pytorch#21518",
            hint="What is the weight of a key whose score is raised by 0?",
        ),
        "plus infinity": Wrong(
            "The forbidden pairs get +∞, which takes all the weight, or makes it NaN. It is −∞ that forbids.",
            seen_in="lucidrains/memory-compressed-attention#2",
            hint="What is exp(−∞), and what is exp(+∞)?",
        ),
        "-1e9": _FINITE_WORDS,
    },
    keep={
        "turned": Wrong('For "keep" the mask is turned round: 1 keeps.', hint="What does the name say that a 1 does?"),
        "bool": Wrong(
            'For "keep" your mask is boolean. That convention has the numbers 1 and 0, with which one may count and '
            "subtract; `1 - mask` is an error for booleans of torch.",
            seen_in="Eurus-Holmes/MNMT#4",
            hint="Which dtype should the result have?",
        ),
    },
)
def _(allowed, convention, *, sdpa="allowed", mha="forbidden", additive="-inf", keep="ones"):
    if convention == "sdpa":
        return {"turned": ~allowed, "numbers": allowed.astype(int)}.get(sdpa, allowed)
    if convention == "mha":
        whole = {"bits": ~allowed.astype(int), "bits of uint8": ~allowed.astype(np.uint8), "numbers": 1 - allowed}
        return {"turned": allowed, **whole}.get(mha, ~allowed)
    if convention == "keep":
        return {"turned": 1 - allowed, "bool": allowed}.get(keep, allowed.astype(int))
    if additive == "ones and zeros":
        return allowed.astype(float)
    if additive == "turned":
        return np.where(allowed, -np.inf, 0.0)
    if additive == "0 times ∞":
        return (1 - allowed) * -np.inf
    return np.where(allowed, 0.0, _FILL.get(additive, -np.inf))


@convert_mask.mistake(
    "read as forbidden",
    "Everything is turned round: you read `allowed` as True = forbidden. It is this course's mask, True = may attend.",
    seen_in="rasbt/LLMs-from-scratch#1061",
    hint="Which of the four conventions leaves the mask as it is?",
)
def _(allowed, convention):
    return convert_mask.reference(~allowed, convention)


@convert_mask.mistake(
    "torch's two exchanged",
    'The two conventions of torch are exchanged. In "sdpa" True allows, in "mha" True forbids: the same library, the '
    "same dtype, the opposite meaning.",
    seen_in="rasbt/LLMs-from-scratch#1061",
    hint="Which of the two leaves the mask as it is?",
)
def _(allowed, convention):
    return convert_mask.reference(~allowed if convention in ("sdpa", "mha") else allowed, convention)


@convert_mask.mistake(
    "never converted",
    "The mask comes back as it came, whatever is asked for. Only one of the four conventions is this course's own.",
    hint="Has `convention` been used?",
)
def _(allowed, convention):
    return allowed


@convert_mask.variant
def as_a_dictionary(allowed, convention):
    additive = np.zeros(allowed.shape)
    additive[~allowed] = -np.inf
    forms = {"sdpa": allowed, "mha": np.logical_not(allowed), "additive": additive, "keep": 1 * allowed}
    return forms[convention]


@convert_mask.variant
def by_logarithm(allowed, convention):
    with np.errstate(divide="ignore"):
        return {
            "sdpa": lambda: allowed.copy(),
            "mha": lambda: allowed == 0,
            "additive": lambda: np.log(allowed.astype(np.float32)),
            "keep": lambda: np.where(allowed, 1, 0),
        }[convention]()


@convert_mask.variant
def by_masked_array(allowed, convention):
    match convention:
        case "sdpa":
            return allowed & True
        case "mha":
            return allowed ^ True
        case "keep":
            return allowed.astype(float)
        case "additive":
            return np.ma.array(np.zeros(allowed.shape), mask=~allowed).filled(-np.inf)
