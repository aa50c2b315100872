"""Exercise 4.11: rotate, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.11",
    points=3,
    section="Positions, turned",
    statement=(
        "Rotary position embedding (Su et al. 2021): take the features of a token in pairs of neighbours, 2i and\n"
        "2i + 1 with i = 0, 1, …, and turn each pair in its plane, counter-clockwise, by the angle\n"
        "position · 10000^(−2i/d), in radians. At position 0 nothing turns. The text turned the pairs as complex\n"
        "numbers; do it without them, with sines and cosines.\n"
        "The key [1, 0] at position 1 becomes [cos 1, sin 1] = [0.5403, 0.8415], the query [1, 0] at position 3\n"
        "[cos 3, sin 3] = [−0.9900, 0.1411]. Their dot product is cos 2 = −0.4161: it depends on the distance alone.\n"
        "And [0, 1] at position 1 becomes [−sin 1, cos 1] = [−0.8415, 0.5403]."
    ),
    hints=[
        "Turned by the angle φ, the pair (a, b) becomes (a cos φ − b sin φ, a sin φ + b cos φ). Both new numbers need "
        "both old ones.",
        "How many angles has a token? `positions[:, None] * frequencies` has the shape (n, d/2), as have the first "
        "features of all pairs, `x[:, 0::2]`, and the second ones, `x[:, 1::2]`.",
        "To put the pairs together again, `np.stack` the first features and the second ones: along which axis, so that "
        "`reshape(x.shape)` makes neighbours of the two?",
    ],
)
def rotate(x, positions):
    """Each pair of neighbouring features, turned by an angle.

    x (n, d), d even; positions (n,) of integers
    → (n, d)
    """
    d = x.shape[-1]
    frequencies = 10000.0 ** (-np.arange(0, d, 2) / d)  # (d/2,)
    angles = positions[:, None] * frequencies  # (n, d/2)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[:, 0::2], x[:, 1::2]
    pairs = np.stack((a * cos - b * sin, a * sin + b * cos), axis=-1)
    return pairs.reshape(x.shape)


@rotate.probes
def _(rng):
    # (n, d). As many tokens as pairs, twice: there a forgotten axis raises no error. No position is its row.
    sizes = [(4, 6), (3, 6), (2, 4), (5, 8)]
    cases = [(rng.normal(size=(n, d)), rng.permutation(12)[:n] + 1) for n, d in sizes]
    return [*cases, (rng.normal(size=(6, 4)).astype(np.float32), rng.permutation(12)[:6] + 1)]


@rotate.hard_probes
def _():
    x = np.array([[1.0, 2.0, -1.0, 0.5], [0.5, -1.0, 2.0, 1.0], [3.0, 0.0, 1.0, -2.0]])
    return {
        "position 0": Probe((x, np.array([0, 0, 0])), "At position 0 every angle is 0: the vectors stay as they are."),
        "padding in front": Probe(
            (x, np.array([0, 0, 1])),
            "Padding makes several tokens share a position: each is turned by the one it is given.",
        ),
        "one token": Probe((x[:1], np.array([5])), "A token that comes alone is turned by *its* position."),
        "one pair": Probe((x[:, :2], np.array([3, 1, 2])), "Two features make one pair, turned by the position."),
        "integers": Probe(
            (np.array([[1, 0, 2, 1], [0, 1, 1, 3]]), np.array([1, 3])), INTEGERS, arrays_only=True, advice=True
        ),
        "far into a text": Probe(
            (x, np.array([100_000, 100_001, 131_071])),
            "at positions around 100 000, angles computed in float32 are wrong in the fourth decimal, and in "
            "bfloat16 by more than a full turn: the digits before the point use up those after it. Compute the angles "
            "in float64; x may keep its own precision.",
            advice=True,
        ),
    }


@rotate.choice_points(
    pairs={
        "halves": Wrong(
            "Feature i is paired with feature i + d/2. That is a convention, too, and a good one: GPT-NeoX and many "
            "models after it do so. It is the same turn for features in another order, and a model trained with one "
            "order needs that one. Here, as in the paper, neighbours are paired: 2i and 2i + 1.",
            seen_in="EleutherAI/gpt-neox#834",
            hint="Which feature turns together with feature 0?",
        ),
        "left apart": Wrong(
            "The pairs are turned rightly, but put together in another order: first features first, second ones after. "
            "As long as queries and keys share that order, no score notices; here a feature goes back to its place.",
            hint="Where in your result is feature 1?",
        ),
        "partner by halves": Wrong(
            "Two conventions are mixed. The angles come in the order of neighbours, θ₀, θ₀, θ₁, θ₁, …; the partners "
            "are d/2 apart, as in `rotate_half`. Two partners then turn by different angles: that is no rotation.",
            seen_in="raiyanyahya/how-to-train-your-gpt#6",
            hint="Which angle has feature 0 in your code, and which its partner?",
        ),
        "angles by halves": Wrong(
            "Two conventions are mixed. The partners are neighbours; the angles come in the order of halves, "
            "θ₀, θ₁, …, θ₀, θ₁, …. Two partners then turn by different angles: that is no rotation.",
            seen_in="facebookresearch/vjepa2#15",
            hint="Which angle has feature 0 in your code, and which its partner?",
        ),
    },
    turn={
        "backwards": Wrong(
            "The pairs are turned the other way: the angle has the wrong sign.",
            hint="What becomes of [1, 0] at position 1: has its second number the sign of sin 1?",
        ),
        "cos and sin exchanged": Wrong(
            "Cosine and sine have changed places.", hint="What does your function do at position 0?"
        ),
        "no minus": Wrong(
            "The minus is missing: a cos φ *minus* b sin φ. Without it the pair changes its length.",
            hint="How long is a vector before a rotation, and after it?",
        ),
        "one feature turned": Wrong(
            "The second feature of the pair is left out: (a cos φ, a sin φ) is where (a, 0) goes. But b turns as well, "
            "(0, b) goes to (−b sin φ, b cos φ), and the turned pair is the sum of both.",
            hint="What becomes of [0, 1] at position 1?",
        ),
        "half-turned": Wrong(
            "The second feature is computed from the first one *after* its turn. It was overwritten: keep the old one.",
            hint="Which value has `a` when you compute a sin φ + b cos φ?",
        ),
        "scaled": Wrong(
            "Each feature is multiplied by cos φ alone. In a rotation its partner comes in, with sin φ.",
            hint="What becomes of [1, 0] at position 1?",
        ),
        "scaled by both": Wrong(
            "The first feature is multiplied by cos φ, the second by sin φ. In a rotation both new numbers need both "
            "old ones.",
            hint="What becomes of [1, 0] at position 1, and what of [0, 1]?",
        ),
        "added": Wrong(
            "Sine and cosine are *added* to the features, as in the Transformer of 2017. Here the features are turned.",
            hint="What should [0, 0] become?",
        ),
        "added, cosine first": Wrong(
            "Cosine and sine are *added* to the features, much as in the Transformer of 2017 (there the sine comes "
            "first). Here the features are turned.",
            hint="What should [0, 0] become?",
        ),
    },
    position={
        "row": Wrong(
            "Every row is turned by its place in x, 0, 1, 2, …; `positions` is not used. With padding in front, with "
            "several texts in one row, or with a cache, a token's position is another.",
            seen_in="NVIDIA/Megatron-LM#453",
            hint="Has `positions` been used for more than its length?",
        ),
        "from 1": Wrong(
            "Every position is one too far. No score would notice, since a score depends on distances alone; the "
            "vectors themselves do.",
            hint="What does your function do at position 0?",
        ),
    },
    frequency={
        "i/d": Wrong(
            "The exponent is i/d; it should be 2i/d, or i/(d/2).",
            seen_in="rasbt/LLMs-from-scratch#410",
            hint="How does 2i/d grow with i, for d = 4?",
        ),
        "4i/d": Wrong(
            "The exponent is doubled twice: `np.arange(0, d, 2)` is 2i already.",
            hint="Which numbers has `2 * np.arange(0, d, 2)` for d = 4, and which should 2i be?",
        ),
        "(2i + 1)/d": Wrong(
            "The exponent is (2i + 1)/d. For the first pair it should be 0.",
            seen_in="stanford-cs336/assignment1-basics#22",
            hint="What is 2i for i = 0?",
        ),
        "from i = 1": Wrong(
            "The pairs count from 1, so that every angle is too small. The paper counts from 1, too, but its exponent "
            "is 2(i − 1)/d: the first pair turns by the position itself.",
            hint="By which angle should [1, 0] turn at position 1?",
        ),
        "up to the end": Wrong(
            "The exponents run from 0 to 1 inclusive, i / (d/2 − 1). They should stop one step before: 2i/d.",
            hint="What is 2i/d for the last pair when d = 4?",
        ),
        "growing": Wrong(
            "The minus in the exponent is missing: each pair turns faster than the one before, not slower.",
            seen_in="labmlai/annotated_deep_learning_paper_implementations#313",
            hint="Which pair should turn fastest, the first or the last?",
        ),
        "one for all": Wrong(
            "All pairs turn by the same angle, as with `2 * i // d`, which is 0 for each. Each pair has a frequency of "
            "its own: 1 for the first, less for the others.",
            hint="Where does i come into your angle?",
        ),
        "rounded": Wrong(
            "The exponent is a whole number, 0 for the first pair and −1 for all others: `//` rounds down, `/` does "
            "not.",
            hint="What is `-2 // 6` in Python, and what `-2 / 6`?",
        ),
        "base 1000": Wrong("The base is 1000; it should be 10000, with four zeros."),
        "in degrees": Wrong(
            "The angle is taken for degrees. It is in radians, which `np.cos` expects.",
            hint="What is `np.cos(np.pi)`?",
        ),
    },
)
def _(x, positions, *, pairs="", turn="", position="", frequency=""):
    d = x.shape[-1]
    angles = _angles(positions, d, position, frequency)
    features = np.arange(d)
    by_halves = pairs in ("halves", "angles by halves")
    angles = np.tile(angles, 2) if by_halves else np.repeat(angles, 2, axis=-1)  # (n, d)
    if pairs in ("halves", "partner by halves"):
        partner, second = (features + d // 2) % d, features >= d // 2
    else:
        partner, second = features ^ 1, features % 2 == 1
    result = _turned(x, np.cos(angles), np.sin(angles), partner, second, turn)
    return np.concatenate([result[:, 0::2], result[:, 1::2]], axis=-1) if pairs == "left apart" else result


def _turned(x, cos, sin, partner, second, turn):
    """x (n, d) with the cosine and sine of each feature, its partner, and which features are second in their pair."""
    if turn == "scaled":
        return x * cos
    if turn == "one feature turned":
        return np.where(second, x[:, partner] * sin, x * cos)
    if turn == "scaled by both":
        return x * np.where(second, sin, cos)
    if turn == "added":
        return x + np.where(second, cos, sin)
    if turn == "added, cosine first":
        return x + np.where(second, sin, cos)
    if turn == "cos and sin exchanged":
        cos, sin = sin, cos
    if turn == "backwards":
        sin = -sin
    first = x * cos + np.where(second | (turn == "no minus"), 1, -1) * x[:, partner] * sin
    if turn != "half-turned":
        return first
    return np.where(second, first[:, partner] * sin + x * cos, first)


def _angles(positions, d, position, frequency):
    """The angle of each token and pair, (n, d/2)."""
    i = np.arange(d // 2)
    exponents = {
        "i/d": i / d,
        "4i/d": 4 * i / d,
        "(2i + 1)/d": (2 * i + 1) / d,
        "from i = 1": 2 * (i + 1) / d,
        "up to the end": np.linspace(0, 1, d // 2),
        "growing": -2 * i / d,
        "one for all": 0.0 * i,
        "rounded": -(-2.0 * i // d),
    }.get(frequency, 2 * i / d)
    places = {"row": np.arange(len(positions)), "from 1": positions + 1}.get(position, positions)
    angles = places[:, None] * (1000.0 if frequency == "base 1000" else 10000.0) ** -exponents
    return np.deg2rad(angles) if frequency == "in degrees" else angles


@rotate.mistake(
    "not turned",
    "Your vectors come back as they were, as if every token stood at position 0. That happens when text is generated "
    "token by token and each is taken for a text of its own: its position is the number of tokens before it.",
    seen_in="Blaizzy/mlx-vlm#1983",
    hint="By which angle does your function turn a token at position 3?",
)
def _(x, positions):
    return x


@rotate.mistake(
    "added by halves",
    "Sines and cosines are *added* to the features, all sines first, as in some code for the Transformer of 2017. Here "
    "the features are turned, in pairs of neighbours.",
    hint="What should [0, 0] become?",
)
def _(x, positions):
    angles = _angles(positions, x.shape[-1], "", "")
    return x + np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@rotate.mistake(
    "lost axis",
    "The positions have no axis for the pairs. With as many tokens as pairs NumPy still multiplies, but gives each "
    "*pair* the position of another token: `positions[:, None]`.",
    hint="Which shapes do positions and frequencies have, and how does NumPy line them up?",
)
def _(x, positions):
    features = np.arange(x.shape[-1])
    angles = np.repeat(positions * 10000.0 ** (-features[0::2] / len(features)), 2)
    return _turned(x, np.cos(angles), np.sin(angles), features ^ 1, features % 2 == 1, "")


@rotate.mistake(
    "an angle for each feature",
    "Every feature has an angle of its own, with its number for 2i in the exponent. The two features of a pair turn by "
    "the same angle, or it is no rotation.",
    hint="How many different angles does a token of four features have?",
)
def _(x, positions):
    features = np.arange(x.shape[-1])
    angles = positions[:, None] * 10000.0 ** (-features / len(features))
    return _turned(x, np.cos(angles), np.sin(angles), features ^ 1, features % 2 == 1, "")


@rotate.mistake(
    "pairs kept",
    "The pairs are turned rightly and left as pairs, (n, d/2, 2). The result has the shape of x.",
    hint="Which shape should a token's vector have afterwards?",
)
def _(x, positions):
    return rotate.reference(x, positions).reshape(len(x), -1, 2)


@rotate.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(x, positions):
    x[:] = rotate.reference(x, positions)
    return x


@rotate.mistake(
    "overwritten half-way",
    "Your function changes x, and in doing so spoils its own result: the second feature of a pair is computed from the "
    "first one *after* its turn. Make a new array.",
    hint="Which value has `x[:, 0::2]` when you compute `x[:, 1::2]`?",
)
def _(x, positions):
    angles = _angles(positions, x.shape[-1], "", "")
    x[:, 0::2] = x[:, 0::2] * np.cos(angles) - x[:, 1::2] * np.sin(angles)
    x[:, 1::2] = x[:, 0::2] * np.sin(angles) + x[:, 1::2] * np.cos(angles)
    return x


@rotate.variant
def as_complex_numbers(x, positions):  # a + ib, times a number of length 1
    d = x.shape[-1]
    numbers = x[:, 0::2] + 1j * x[:, 1::2]
    numbers = numbers * np.exp(1j * np.outer(positions, 10000.0 ** (-2 * np.arange(d // 2) / d)))
    return np.stack((numbers.real, numbers.imag), axis=2).reshape(len(x), d)


@rotate.variant
def with_loops(x, positions):
    n, d = x.shape
    turned = np.zeros((n, d))
    for row in range(n):
        for i in range(d // 2):
            angle = positions[row] / 10000 ** (2 * i / d)
            a, b = x[row, 2 * i], x[row, 2 * i + 1]
            turned[row, 2 * i] = a * np.cos(angle) - b * np.sin(angle)
            turned[row, 2 * i + 1] = a * np.sin(angle) + b * np.cos(angle)
    return turned


@rotate.variant
def as_matrices(x, positions):  # one 2 × 2 matrix for each token and pair
    n, d = x.shape
    angles = np.einsum("n,i->ni", positions, 1 / 10000 ** (np.arange(0, d, 2) / d))
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]])
    return np.einsum("abni,nib->nia", turns, x.reshape(n, d // 2, 2)).reshape(n, d)


@rotate.variant
def with_partners(x, positions):  # x cos φ + (−b, a) sin φ, each angle twice
    d = x.shape[1]
    angles = np.repeat(positions[:, None] * np.exp(-np.log(10000) * np.arange(0, d, 2) / d), 2, axis=1)
    partners = np.empty(x.shape)
    partners[:, 0::2], partners[:, 1::2] = -x[:, 1::2], x[:, 0::2]
    return x * np.cos(angles) + partners * np.sin(angles)
