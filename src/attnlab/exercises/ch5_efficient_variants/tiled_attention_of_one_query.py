"""Exercise 5.2: tiled_attention_of_one_query, and what people write instead."""

import numpy as np

from ..common import INTEGERS, OVERFLOW, SCALE
from ..engine import Probe, Wrong, exercise
from ._words import RESCALE, TILE_S_OWN
from .online_update import online_update

MANY, BLOCK = 24_000, 400  # keys, and keys a tile, of the call whose bytes are counted
AT_MOST = 90_000  # less than half of what the scores of all keys take; a tile takes 15,000, with copies of it 45,000


@exercise(
    "5.2",
    points=3,
    section="Softmax, one tile at a time",
    statement=(
        "Attention of one query, tile by tile: `block` keys and their values at a time, in the last tile what is\n"
        "left. You may use `online_update` from exercise 5.1, or write the loop anew. No key is masked here. Scores\n"
        "may lie thousands above or below 0.\n"
        "\n"
        "This check counts bytes, too. Beside its inputs your function may hold numbers for a few tiles, but not for\n"
        f"all keys: called with {MANY:,} keys and a block of {BLOCK}, at most {AT_MOST:,} bytes at once. The scores\n"
        f"of all keys alone take {8 * MANY:,}. A slice costs nothing; a copy of all keys costs their size. Only what\n"
        "NumPy holds is counted, so stay with NumPy. With the query [1], the keys [0], [0] and [ln 2], the values\n"
        "[0], [4] and [8] and a block of 2, the output is [5]."
    ),
    hints=[
        "`for start in range(0, len(keys), block):` goes through the tiles; `keys[start : start + block]` stops at the "
        "end by itself, and so the last tile may be shorter.",
        "What must be remembered from tile to tile are three things: the largest score so far, the sum of "
        "exponentials, and the values summed with them. When the largest score rises, the two sums shrink.",
        "Where do as many numbers arise as there are keys? The scores of a tile are `keys[start : start + block] @ "
        "query`, divided by √d_k: compute them inside the loop, and divide by the sum once, after it.",
    ],
)
def tiled_attention_of_one_query(query, keys, values, block):
    """Scaled dot-product attention of one query, `block` keys at a time.

    query (d_k,), keys (n_k, d_k), values (n_k, d_v) → output (d_v,)
    """
    m, total, mixed = -np.inf, 0.0, np.zeros(values.shape[1])
    for start in range(0, len(keys), block):
        tile = slice(start, start + block)
        scores = keys[tile] @ query / np.sqrt(len(query))  # (block,)
        m_new = max(m, scores.max())
        old, exps = np.exp(m - m_new), np.exp(scores - m_new)
        total = total * old + exps.sum()
        mixed = mixed * old + exps @ values[tile]
        m = m_new
    return mixed / total


@tiled_attention_of_one_query.probes
def _(rng):
    # (n_k, d_k, d_v, block), and which of its scores, in order, the first key has. The largest then comes first in the
    # second tile, at the end, at the very beginning: only where the maximum rises does it matter what is rescaled.
    sizes = [(7, 3, 2, 3, 3), (10, 2, 3, 4, 0), (6, 5, 4, 2, 5), (5, 6, 3, 2, 2), (8, 7, 1, 3, 4)]
    cases = [_ordered(rng, *size) for size in sizes]
    *arrays, block = cases[4]
    return [*cases[:4], (*(a.astype(np.float32) for a in arrays), block)]


def _ordered(rng, n, d_k, d_v, block, first):
    query, keys, values = rng.normal(size=d_k), rng.normal(size=(n, d_k)), rng.normal(size=(n, d_v))
    scores = keys @ query
    if n % block == 0:  # all scores negative, and no tile to fill up: a maximum that begins at 0 shows, if not divided
        keys = keys - np.outer(np.full(n, 1 + scores.max()), query / (query @ query))
    return query, keys[np.roll(np.argsort(scores), -first)], values, block


@tiled_attention_of_one_query.hard_probes
def _():
    rng = np.random.default_rng(5)
    query, keys, values = np.array([1.0, -1.0]), rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    far = np.outer(np.arange(5.0), [500.0, -500.0])
    many = rng.normal(size=2), rng.normal(size=(MANY, 2)), rng.normal(size=(MANY, 2))
    whole = np.array([[1, 0], [0, 2], [1, 1], [2, 0]])
    return {
        "huge scores": Probe(
            (query, far + keys, values, 2),
            "For scores around 1000 the answer is wrong (often not a number): subtract the largest score so far before "
            "`exp`.",
        ),
        "far below zero": Probe(
            (query, keys - [2000.0, -2000.0], values, 2),
            "For scores far below zero the answer is wrong: the largest score so far begins at −∞, and every score is "
            "shifted by it before `exp`.",
        ),
        "one tile": Probe((query, keys, values, 8), "All keys may fit into one tile, with room to spare."),
        "tiles of one": Probe((query, keys, values, 1), "A tile may be a single key."),
        "one key": Probe((query, keys[:1], values[:1], 2), "With a single key the output is its value."),
        "integers": Probe((np.array([1, -1]), whole, whole, 3), INTEGERS, True, True),
        "many keys": Probe(
            (*many, BLOCK),
            "Somewhere the function holds numbers for all keys: their scores, or a copy of the inputs.",
            at_most=AT_MOST,
        ),
    }


_OF_OUTPUTS = {
    "averaged": lambda a: a.mean(axis=0),
    "added": lambda a: a.sum(axis=0),
    "last tile alone": lambda a: a[-1],
}
_TILE_ALONE = "Each tile is a whole of its own in your code, with weights that sum to 1. "


@tiled_attention_of_one_query.choice_points(
    tiles={
        "all at once": Wrong(
            "Somewhere the function makes as many numbers as there are keys: all scores before the first tile, say, or "
            "a copy of all keys or values (`np.pad` and `astype` copy, a slice does not). That is what tiles are meant "
            "to avoid: nothing may grow with n_k.",
            hint="Which array of yours becomes longer when there are more keys, and the block stays the same?",
        ),
        "last one lost": Wrong(
            "The keys of the last, shorter tile are lost: n_k // block counts only full tiles.",
            hint="With 7 keys in tiles of 3, which keys does your loop visit?",
        ),
        "last one filled up": Wrong(
            "The last tile is filled up with zeros, and they are counted: a key of zeros has the score 0, and exp(0) "
            "is a share. Leave the tile short, or give what fills it the score −∞.",
            seen_in="intel/sycl-tla#489",
            hint="Which score must a key have that gets no weight?",
        ),
    },
    merge={
        **RESCALE,
        "tile's own": TILE_S_OWN,
        "averaged": Wrong(
            f"{_TILE_ALONE}Their outputs are averaged, so a tile of bad matches counts as much as one of good ones. "
            "Add the sums and the exponentials of all tiles, and divide once.",
            hint="If all keys of one tile match badly, how much of it should be in the output?",
        ),
        "added": Wrong(
            f"{_TILE_ALONE}Their outputs are added up: the weights sum to the number of tiles. Add the sums and the "
            "exponentials of all tiles, and divide once.",
            hint="What do all your weights together sum to?",
        ),
        "last tile alone": Wrong(
            "The output is that of the last tile alone: each one overwrites what the others have left.",
            hint="Would your result change if the first value did?",
        ),
        "not divided": Wrong(
            "o is not divided by ℓ at the end, so the weights are no shares.",
            hint="What is the output when all values are 1?",
        ),
        "divided at each tile": Wrong(
            "o is divided by ℓ after each tile, and the next one is added to a mean instead of a sum. Divide once, "
            "after the last tile; or multiply by the old ℓ first.",
            hint="If o is a mean already, what is the next tile added to?",
        ),
    },
    scale={
        **{name: SCALE[name] for name in ("none", "by d", "by n")},
        "by the tile": Wrong(
            "The scores of a tile are divided by the root of how many keys it has: of a table `len` counts the rows. "
            "d_k is the number of components of one key.",
            hint="Which axis of a tile counts components?",
        ),
    },
    shift={
        "none": OVERFLOW,
        "from zero": Wrong(
            "The largest score so far begins at 0, or at another finite number, instead of −∞. If all scores lie far "
            "below that it stays there, every exponential is 0, and 0/0 is not a number.",
            seen_in="flashinfer-ai/flashinfer#4267",
            hint="Which m should stand before the first score, so that any score is larger?",
        ),
        "the first tile's": Wrong(
            "All scores are shifted by the largest one of the *first* tile. A far larger one in a later tile "
            "overflows.",
            hint="Which score may be shifted to something above 0?",
        ),
    },
)
def _(query, keys, values, block, *, tiles="one by one", merge="rescaled", scale="root", shift="running"):
    n, d = keys.shape
    divisor = {"none": 1.0, "by d": d, "by n": n**0.5}.get(scale, d**0.5)
    block = n if tiles == "all at once" else block
    m, total, mixed = 0.0 if shift in ("from zero", "none") else -np.inf, 0.0, np.zeros(values.shape[1])
    outputs = []
    for start in range(0, n // block * block if tiles == "last one lost" else n, block):
        scores, tile = keys[start : start + block] @ query, values[start : start + block]
        scores = scores / (len(tile) ** 0.5 if scale == "by the tile" else divisor)
        if tiles == "last one filled up":
            lacking = block - len(scores)
            scores, tile = np.pad(scores, (0, lacking)), np.pad(tile, ((0, lacking), (0, 0)))
        largest = scores.max()
        m_new = m if shift == "none" or (start and shift == "the first tile's") else max(m, largest)
        old, exps = np.exp(m - m_new), np.exp(scores - (largest if merge == "tile's own" else m_new))
        if merge in _OF_OUTPUTS:
            outputs.append(exps @ tile / exps.sum())
        total = (total if merge in ("total", "neither") else total * old) + exps.sum()
        mixed = mixed * (1.0 if merge in ("mixed", "neither") else old) + exps @ tile
        if merge == "divided at each tile":
            mixed = mixed / total
        m = m_new
    if merge in _OF_OUTPUTS:
        return _OF_OUTPUTS[merge](np.array(outputs))
    return mixed if "divided" in merge else mixed / total


@tiled_attention_of_one_query.mistake(
    "first tile alone",
    "This is the output of the first tile alone. A `return` that is indented too far ends the loop in its first round.",
    hint="Would your result change if the last value did?",
)
def _(query, keys, values, block):
    return tiled_attention_of_one_query.reference(query, keys[:block], values[:block], block)


@tiled_attention_of_one_query.mistake(
    "one key at a time",
    "The tiles overlap: the start moves on by one key, not by `block`, so that most keys are counted several times. "
    "`range` takes a step: `range(0, n_k, block)`.",
    hint="With 7 keys and a block of 3, how often is key 2 counted?",
)
def _(query, keys, values, block):
    m, total, mixed = -np.inf, 0.0, np.zeros(values.shape[1])
    for start in range(0, len(keys), block):
        tile = slice(start, start + block)
        counted = np.minimum(np.arange(len(keys[tile])) + start + 1, block)  # how often each of these keys is
        scores = keys[tile] @ query / np.sqrt(len(query)) + np.log(counted)
        m, total, *mixed = online_update.reference(m, total, np.array(mixed), scores, values[tile])
    return np.array(mixed) / total


@tiled_attention_of_one_query.mistake(
    "one key too few in a tile",
    "The last key of each tile is left out: a slice stops *before* its second bound, so that `keys[i : i + block]` are "
    "`block` keys already.",
    hint="How many entries has `[10, 11, 12][0:2]`?",
)
def _(query, keys, values, block):
    m, total, mixed = -np.inf, 0.0, np.zeros(values.shape[1])
    for start in range(0, len(keys), block):
        tile = slice(start, start + block - 1)
        scores = keys[tile] @ query / np.sqrt(len(query))  # of none, `max` raises
        m, total, *mixed = online_update.reference(m, total, np.array(mixed), scores, values[tile])
    return np.array(mixed) / total


@tiled_attention_of_one_query.variant
def lists_of_tiles(query, keys, values, block):
    """Every tile by itself, by its own maximum; all are brought to the largest one at the end."""
    states = []
    for K, V in zip(*(np.array_split(a, range(block, len(a), block)) for a in (keys, values)), strict=True):
        scores = K @ query / len(query) ** 0.5
        exps = np.exp(scores - scores.max())
        states.append((scores.max(), exps.sum(), exps @ V))
    m, total, mixed = (np.array(column) for column in zip(*states, strict=True))
    factors = np.exp(m - m.max())
    return factors @ mixed / (factors @ total)


@tiled_attention_of_one_query.variant
def logarithms(query, keys, values, block):
    lse, output = -np.inf, 0.0
    for i in range(0, len(keys), block):
        scores = keys[i : i + block].dot(query) / np.sqrt(query.size)
        new = np.logaddexp(lse, np.logaddexp.reduce(scores))
        output = output * np.exp(lse - new) + np.exp(scores - new) @ values[i : i + block]
        lse = new
    return output
