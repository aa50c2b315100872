"""The still of `saturation`, and the numbers behind it: those of `saturation.js`, one for one."""

from functools import cache
from math import exp, log, sqrt

from .drawing import LIVE, Plane, Static, number

KEYS, DRAWS, MOST = 16, 64, 1024


def coordinate(draw, c, j):
    """Coordinate c of the query (j = 0) or of key j = 1 … 16: spread evenly over ±√3, so mean 0 and variance 1.

    Its place in the draw is hashed (the finalizer of MurmurHash3, Austin Appleby): a larger d adds to the same vectors.
    """
    h = (draw * MOST + c) * (KEYS + 1) + j
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return ((h ^ (h >> 16)) / 2**32 + 2**-33 - 0.5) * sqrt(12)


@cache
def scores(d, draw):
    """The 16 dot products q · k, where d is a power of two."""
    sums = scores(d // 2, draw) if d > 1 else (0.0,) * KEYS
    for c in range(d // 2, d):
        q = coordinate(draw, c, 0)
        sums = tuple(s + q * coordinate(draw, c, j) for j, s in enumerate(sums, 1))
    return sums


def softmax(row):
    powers = [exp(s - max(row)) for s in row]
    total = sum(powers)
    return [power / total for power in powers]


def measure(row):
    """Weights of a row of scores, the largest, their entropy in nats, the norm of diag α − ααᵀ."""
    weights = softmax(row)
    squares = ((a * ((i == j) - b)) ** 2 for i, a in enumerate(weights) for j, b in enumerate(weights))
    return {
        "weights": weights,
        "largest": max(weights),
        "entropy": sum(-w * log(w) for w in weights if w),
        "jacobian": sqrt(sum(squares)),
    }


@cache
def numbers(d, draw):
    """What the figure shows: {"scores", "deviation", "unscaled": {…}, "scaled": {…}}."""
    row = scores(d, draw)
    mean = sum(row) / KEYS
    found = {"scores": row, "deviation": sqrt(sum((s - mean) ** 2 for s in row) / KEYS)}
    for kind, scale in (("unscaled", 1), ("scaled", sqrt(d))):
        largest = [max(softmax([s / scale for s in scores(d, n)])) for n in range(1, DRAWS + 1)]
        found[kind] = measure([s / scale for s in row]) | {"all": largest, "mean": sum(largest) / DRAWS}
    return found


def small(x):
    return "< 0.001" if x < 5e-4 else number(x)


def part(x):
    return "> 0.999" if 1 - x < 5e-4 else number(x)


def saturation(d, draw):
    found, root = numbers(d, draw), sqrt(d)
    names = {"unscaled": "q·k", "scaled": "q·k/√d"}
    deviations = [number(found["deviation"] / scale, 2) for scale in (1, root)]
    rows = [("measured deviation", deviations)]
    for name, shown in (
        ("largest weight", lambda kind: part(kind["largest"])),
        ("entropy H, nats", lambda kind: small(kind["entropy"])),
        ("e^H of 16 keys", lambda kind: number(exp(kind["entropy"]), 2)),
        ("Jacobian norm ‖J‖", lambda kind: small(kind["jacobian"])),
        (f"largest, mean of {DRAWS} draws", lambda kind: part(kind["mean"])),
    ):
        rows.append((name, [shown(found[kind]) for kind in names]))

    shapes = ""
    for i, (kind, name) in enumerate(names.items()):
        plane, colour = Plane(44, 36 + 118 * i, 330, 0.5, 0, 20, 88, 1), f"k{2 - i}"
        shapes += f"<text x='44' y='{plane.top - 8}' class='dim'>{kind}: softmax({name})</text>"
        shapes += plane.grid((1, 4, 8, 12, 16) if i else (), (0, 0.5, 1))
        for key, weight in enumerate(found[kind]["weights"], 1):
            x, y = plane.at(key, weight)
            shapes += (
                f"<rect x='{x - 7:.1f}' y='{y:.1f}' width='14' height='{88 * weight:.1f}' "
                f"class='{colour if i else 'hatch'}'/>"
            )
        (left, _), (right, _) = plane.at(17.2, 0), plane.at(20.2, 0)
        ticks = "".join(f"M{left:.1f} {plane.at(0, largest)[1]:.1f}H{right:.1f}" for largest in found[kind]["all"])
        shapes += f"<path opacity='.4' d='{ticks}'/>"
        here = found[kind]["largest"]
        shapes += plane.path(f"s{2 - i} wide", (16.7, here), (20.5, here))
        shapes += f"<text x='374' y='{plane.top - 8}' class='dim e'>largest, mean {part(found[kind]['mean'])}</text>"
        x = 540 + 84 * i
        shapes += f"<text x='{x}' y='54' class='{colour} b e'>{name}</text>"
        for line, (_, values) in enumerate(rows[:5]):
            shapes += f"<text x='{x}' y='{84 + 30 * line}' class='{colour} e'>{values[i]}</text>"
    shapes += "<text x='176' y='270' class='dim m'>key</text>"
    shapes += f"<text x='374' y='270' class='dim e'>ticks: all {DRAWS} draws</text>"
    for line, (name, _) in enumerate(rows[:5]):
        shapes += f"<text x='396' y='{84 + 30 * line}' class='dim'>{name}</text>"

    where = f"d = {d}, draw {draw} of {DRAWS}"
    spread = f"the 16 dot products have standard deviation {deviations[0]} (√d = {number(root, 2)})"
    facts = "; ".join(f"{name} {values[0]} unscaled, {values[1]} scaled" for name, values in rows[1:])
    caption = (
        f"{where}: {spread}; {facts}. Coordinates: pseudo-random, uniform on ±√3 (mean 0, variance 1). "
        "J = diag α − ααᵀ is the Jacobian of softmax: where it nears 0, weights stop answering to scores. Dividing by "
        f"√d keeps the order of the keys and undoes the effect of d, as long as coordinates are independent. {LIVE}"
    )
    text = f"attn-saturation   {where}: one query, 16 keys; √d = {number(root, 2)}\n{'':30}{'q·k':>10}{'q·k/√d':>10}"
    text += "".join(f"\n  {name:<28}{values[0]:>10}{values[1]:>10}" for name, values in rows)
    alt = f"The weights of one query over 16 keys as bars, unscaled above scaled. {where}: {spread}; {facts}."
    return Static(shapes, 284, alt, caption, text)
