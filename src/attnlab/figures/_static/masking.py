"""The still of `masking`."""

from math import exp

from .drawing import LIVE, Static, number

SCORES = ((1, 2, 0, -1, 0), (0, 1, 3, 0, -1), (2, 0, 1, 2, 0), (-1, 1, 0, 2, 3), (1, 0, 2, -1, 1))
VALUES = (1, 2, 3, 4, 5)


def _preset(allows):
    return " ".join("".join("01"[allows(i, j)] for j in range(5)) for i in range(5))


# A mask as text, as in the attribute: a group for each query, 1 where it may attend to the key.
PRESETS = {
    "none": _preset(lambda i, j: True),
    "causal": _preset(lambda i, j: j <= i),
    "padding": _preset(lambda i, j: j < 3),
    "window": _preset(lambda i, j: i - 2 < j <= i),
    "block": _preset(lambda i, j: (i < 2) == (j < 2)),
    "off by one": _preset(lambda i, j: j < i),
}


def masking(mask, equal):
    allowed = [[digit == "1" for digit in row] for row in mask.split()]
    scores = [[0 if equal else s for s in row] for row in SCORES]
    weights = [_weights(*row) for row in zip(scores, allowed, strict=True)]
    outputs = [sum(w * v for w, v in zip(row, VALUES, strict=True)) for row in weights]
    empty = [f"q{'₁₂₃₄₅'[i]}" for i, row in enumerate(allowed) if not any(row)]

    shapes = "".join(_middle(77 + 90 * j, 24, f"k{'₁₂₃₄₅'[j]}", "dim") for j in range(5))
    shapes += _middle(512, 24, "Σ", "dim") + _middle(572, 24, "O", "dim")
    for i, (ok, s, w, o) in enumerate(zip(allowed, scores, weights, outputs, strict=True)):
        y = 34 + 46 * i
        shapes += _middle(18, y + 26, f"q{'₁₂₃₄₅'[i]}", "b")
        for j in range(5):
            x, height = 34 + 90 * j, 42 * w[j]
            if ok[j]:
                bar = f"<rect x='{x}' y='{y + 42 - height:.1f}' width='86' height='{height:.1f}'"
                shapes += f"{bar} class='k1' opacity='.3'/>"
            else:
                shapes += f"<path class='grid' d='{''.join(f'M{x + 14 * n} {y + 42}l16 -42' for n in range(6))}'/>"
            shapes += f"<path class='grid' d='M{x} {y}h86v42h-86z'/>"
            shapes += _middle(x + 43, y + 16, number(s[j], 0) if ok[j] else "−∞", "dim")
            if any(ok):
                shapes += _middle(x + 43, y + 33, _share(w[j]), "b")
        if not any(ok):
            shapes += _middle(257, y + 33, "nothing allowed: 0/0 in plain softmax; here zeros", "b")
        shapes += _middle(512, y + 26, number(sum(w), 0)) + _middle(572, y + 26, _output(ok, o), "b")
    shapes += _middle(18, 280, "v", "dim") + "".join(_middle(77 + 90 * j, 280, v, "dim") for j, v in enumerate(VALUES))

    results = ", ".join(_output(*row) for row in zip(allowed, outputs, strict=True))
    facts = f"mask {mask} (queries; 1 where a key is allowed)" + ", equal scores" * equal
    rule = f" For {', '.join(empty)} nothing is allowed: plain softmax is 0/0, here zeros." if empty else ""
    caption = (
        f"{facts[0].upper()}{facts[1:]}. In each cell the score above, the weight below. α = softmax(S + M), row by "
        f"row: M is 0 where a key is allowed and −∞ where not; the weight of −∞ is 0. Outputs O = [{results}] of the "
        f"values 1 to 5.{rule} {LIVE}"
    )
    lines = [f"attn-masking   {facts}"]
    for i, (ok, w, o) in enumerate(zip(allowed, weights, outputs, strict=True)):
        why = "" if any(ok) else "   nothing allowed: 0/0 in plain softmax; here zeros"
        lines.append(f"  q{'₁₂₃₄₅'[i]}   α = [{', '.join(f'{_share(x):>5}' for x in w)}]   O = {_output(ok, o)}{why}")
    alt = f"A grid of five queries and five keys; {facts}. Outputs O = [{results}].{rule}"
    return Static(shapes, 294, alt, caption, "\n".join(lines))


def _weights(scores, allowed):
    """Softmax over the allowed scores; zeros where nothing is allowed."""
    powers = [exp(s) if ok else 0 for s, ok in zip(scores, allowed, strict=True)]
    return [power / (sum(powers) or 1) for power in powers]


def _share(weight):
    return f"{weight:g}" if weight in (0, 1) else number(weight)  # 0 and 1 only where they are exact


def _output(allowed, output):
    return number(output) if any(allowed) else "0"


def _middle(x, y, text, kind=""):
    return f"<text x='{x}' y='{y}' class='m {kind}'>{text}</text>"
