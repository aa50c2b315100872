"""The still of `null_space`, and the numbers behind it."""

from math import log, sqrt

from .drawing import LIVE, Plane, Static, heading, number

VALUES = {"different": (1, 2, 4), "two equal": (1, 4, 4), "all equal": (3, 3, 3), "sink": (-2, 0, 2)}
CORNERS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def mixed(v, weights):
    return sum(x * w for x, w in zip(v, weights, strict=True))


def divergence(p, q):
    """Jensen–Shannon, in nats."""
    pairs = [*zip(p, q, strict=True), *zip(q, p, strict=True)]
    return sum(x * log(2 * x / (x + y)) / 2 for x, y in pairs if x)


def ends(v, output):
    """The corners of the set of all weights whose output this is: at most two weights of each are not zero."""
    found = []
    for i, j in ((0, 1), (1, 2), (2, 0)):
        if abs(output - v[i]) < 1e-8:
            found.append(CORNERS[i])
        elif v[i] != v[j] and 1e-9 < (t := (output - v[i]) / (v[j] - v[i])) < 1 - 1e-9:
            found.append(tuple((1 - t) * a + t * b for a, b in zip(CORNERS[i], CORNERS[j], strict=True)))
    return found


def null_space(values, weights):
    v = VALUES[values]
    output, o = mixed(v, weights), number(mixed(v, weights))
    line = ends(v, output)
    most = max(divergence(w, weights) for w in line)
    far = next(w for w in line if divergence(w, weights) > most - 1e-9)
    most, equal = number(most), values == "all equal"
    way = [number(x, 0) for x in (v[1] - v[2], v[2] - v[0], v[0] - v[1])]

    plane = Plane(36, 78, 210, -0.1, -0.08, 1.2, 178.5, 1.02)
    shapes = heading(16, "three weights, a point of the triangle", f"α = {_list(weights)}")
    shapes += plane.path("", *map(_at, (*CORNERS, CORNERS[0])))
    if not equal:
        for step in (0.2, 0.4, 0.6, 0.8):
            shapes += plane.path("grid", *map(_at, ends(v, min(v) + step * (max(v) - min(v)))))
        shapes += plane.path("s1 wide", *map(_at, line))
    for j, (corner, dy) in enumerate(zip(CORNERS, (20, -14, 20), strict=True), 1):
        shapes += plane.text("m dim", *_at(corner), f"key {j}", dy=dy)
    for w in line:
        x, y = plane.at(*_at(w))
        kind = "k1" if w == far else "ring"
        shapes += f"<path d='M{x - 7:.1f} {y:.1f}l7 -7 7 7 -7 7z'/>"
        shapes += f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' class='{kind}'/>"
    shapes += plane.disk("ink", "inv", *_at(weights), "α")

    shapes += heading(290, "output O = α₁v₁ + α₂v₂ + α₃v₃", f"O = {o}")
    for j, (x, w) in enumerate(zip(v, weights, strict=True)):
        y = 76 + 34 * j
        shapes += f"<text x='290' y='{y}'>v{'₁₂₃'[j]} = {number(x, 0)}</text>"
        shapes += f"<text x='616' y='{y}' class='e b'>α{'₁₂₃'[j]} = {number(w)}</text>"
        shapes += f"<rect x='290' y='{y + 6}' width='{326 * w:.1f}' height='10' class='k1'/>"
        shapes += f"<path class='grid' d='M290 {y + 6}H616V{y + 16}H290Z'/>"
    lines = (
        ("dim", "the same output, weights elsewhere:" if not equal else "every point has this output; corners:"),
        *(("b" if w == far else "", f"α = {_list(w)}{', the farthest' * (w == far)}") for w in line),
    )
    for k, (kind, words) in enumerate(lines):
        shapes += f"<text x='290' y='{190 + 20 * k}' class='{kind}'>{words}</text>"

    facts = (
        f"Weights {_list(weights)} over the values {', '.join(number(x, 0) for x in v)} have the output O = {o}. "
        f"Farthest weights with this output: {_list(far)}, Jensen–Shannon divergence {most} nats (at most 0.693)."
    )
    why = (
        "All values are equal: every point of the triangle has this output."
        if equal
        else f"The output stays along d = [{', '.join(way)}], which sums to 0 and whose product with v is 0."
    )
    caption = f"{facts} {why} No end of the line has three non-zero weights. {LIVE}"
    text = f"attn-null-space   values {', '.join(number(x, 0) for x in v)}\n"
    text += f"  weights   {_list(weights)}   output {o}\n  {why}\n"
    text += "\n".join(
        f"  the same  {_list(w)}   output {number(mixed(v, w))}   JSD {number(divergence(w, weights))}" for w in line
    )
    alt = f"A triangle whose points are three weights, with a line along which the output stays. {facts}"
    return Static(shapes, 290, alt, caption, text)


def _at(weights):
    """A point of the triangle: corner 1 at [0, 0], corner 3 at [1, 0], corner 2 above."""
    return weights[2] + weights[1] / 2, sqrt(0.75) * weights[1]


def _list(weights):
    return f"[{', '.join('01'[w > 0.5] if min(w, 1 - w) < 5e-4 else number(w) for w in weights)}]"
