"""The still of `sharpness`."""

from math import inf, log

from .drawing import LIVE, Plane, Static, number, percent, sigma


def sharpness(temperature, delta, copies, masked):
    ratio, extra = (inf if masked else delta / temperature), log(copies)
    total = sigma(ratio + extra)
    other = 0.0 if masked else sigma(-ratio - extra)
    each = total / copies
    total_, other_ = ("1", "exactly 0") if masked else (number(total, 5), percent(other))

    plane = Plane(150, 50, 440, -8, 0, 16, 180, 1)
    at = max(-8.0, min(8.0, ratio + extra))
    shapes = "<text x='20' y='28' class='dim'>total weight of key 1</text>"
    shapes += plane.grid((-8, -4, 0, 4, 8), (0, 0.5, 1), left=40)
    shapes += plane.path("", *((x / 4, sigma(x / 4)) for x in range(-32, 33)))
    shapes += plane.path("dash", (-10, total), (at, total), (at, 0))
    for i in range(copies):
        height = 180 * each
        shapes += (
            f"<rect x='50' y='{230 - height * (i + 1):.1f}' width='46' height='{max(height - 1, 0.2):.1f}' class='k1'/>"
        )
    shapes += f"<rect x='50' y='50' width='46' height='{180 * other:.1f}' class='hatch'/>"
    x, y = plane.at(at, total)
    shapes += f"<circle cx='{x:.1f}' cy='{y:.1f}' r='7' class='k1'/>"
    shapes += f"<text x='{max(x - 10, 260):.1f}' y='{y - 12:.1f}' class='k1 b e'>{total_}</text>"
    shapes += "<text x='370' y='266' class='dim m'>Δ/T + ln n</text>"

    plural = "copy" if copies == 1 else "copies"
    sum_ = f"σ({number(ratio)} + {number(extra)}) = {total_}"
    where = (
        f"T = {temperature:g}, Δ = s₁ − s₂ = {number(delta)}, {copies} {plural} of key 1" + ", key 2 masked" * masked
    )
    facts = f"total weight of key 1 = σ(Δ/T + ln n) = {sum_}"
    caption = (
        f"{where}: {facts}; {percent(each)} for each copy, {other_} for key 2. T divides the scores, copies add ln n. "
        f"T → 0 is the hard maximum, T → ∞ the uniform mixture{'' if masked else ', n/(n + 1) for key 1'}. {LIVE}"
    )
    text = f"attn-sharpness   {where}\n  {facts}\n  each copy {percent(each)}, key 2 {other_}"
    alt = f"The weights as a stack beside the logistic curve. {where}: {facts}."
    return Static(shapes, 276, alt, caption, text)
