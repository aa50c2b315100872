"""The still of `online_softmax`."""

from math import exp, inf

from .drawing import LIVE, Static, number

SETS = {
    "text": (1, 3, 2, 0, 5, 1),
    "rising": (0, 1, 2, 3, 4, 5),
    "falling": (5, 4, 3, 2, 1, 0),
    "masked": (-inf, -inf, 2, 0, 5, 1),
}
N = 6  # the value of key j is j


def online_softmax(scores, tile, read, forget):
    all_scores = SETS[scores]
    m, total, mixed, begin = -inf, 0.0, 0.0, 0
    seen = min(N, -(-read // tile) * tile)
    for j in range(0, seen, tile):
        begin, part = j, all_scores[j : min(j + tile, N)]
        largest = max(m, *part)
        shift = 0 if largest == -inf else largest
        factor = 1 if forget and j else exp(m - shift)
        exps = [exp(s - shift) for s in part]
        total = total * factor + sum(exps)
        mixed = mixed * factor + sum(e * (j + k) for k, e in enumerate(exps))
        m = largest
    output = mixed / total if total else 0.0

    shapes = "<text x='16' y='26' class='dim'>keys in slow memory; the framed tile is in fast memory</text>"
    for j, score in enumerate(all_scores):
        x, fast = 16 + 102 * j, begin <= j < seen
        kind = "s1 wide" if fast else "grid"
        where = "in fast memory" if fast else "summed" if j < seen else "to come"
        shapes += f"<path class='{kind}' d='M{x} 38h96v66h-96z'/>"
        shapes += f"<text x='{x + 48}' y='60' class='m b'>s = {_short(score)}</text>"
        shapes += f"<text x='{x + 48}' y='79' class='m'>v = {j}</text>"
        shapes += f"<text x='{x + 48}' y='96' class='m dim'>{where}</text>"
    state = (("m, largest score", m), ("ℓ, sum", total), ("o, mixture", mixed), ("o/ℓ", output))
    for k, (name, value) in enumerate(state):
        shapes += f"<text x='{16 + 153 * k}' y='136' class='dim'>{name}</text>"
        shapes += f"<text x='{16 + 153 * k}' y='156' class='b'>{_short(value)}</text>"

    line = f"{seen} of {N} keys read: m = {_short(m)}, ℓ = {_short(total)}, o = {_short(mixed)}, o/ℓ = {_short(output)}"
    forgotten = " The factor that rescales the old sums is forgotten." if forget else ""
    caption = (
        f"Softmax over six keys, read in tiles of {tile}. {line}.{forgotten} "
        f"Between tiles only m, ℓ and o are kept. {LIVE}"
    )
    listed = "  ".join(_short(score) for score in all_scores)
    text = f"attn-online-softmax   tiles of {tile}{', factor forgotten' * forget}\n  scores {listed}\n  {line}"
    alt = f"Six keys with their scores, {listed}, of which tile after tile comes into fast memory. {line}.{forgotten}"
    return Static(shapes, 172, alt, caption, text)


def _short(x):
    return "−∞" if x == -inf else number(x, 0 if x == int(x) else 4)
