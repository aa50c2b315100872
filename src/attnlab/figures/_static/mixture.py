"""The still of `mixture`."""

from math import sqrt

from .drawing import LIVE, Plane, Static, heading, number, percent, sigma


def mixture(q1, q2):
    s1, s2 = q1 / sqrt(2), q2 / sqrt(2)
    a1 = sigma(s1 - s2)
    a2 = sigma(s2 - s1)
    o1, o2 = 2 * a1, 4 * a2
    query, output = f"[{number(q1, 1)}, {number(q2, 1)}]", f"[{number(o1)}, {number(o2)}]"

    key = Plane(36, 72, 170, -3.4, -3.4, 6.8)
    back, ahead = min(q1, q2) + 3.4, 3.4 - max(q1, q2)
    shapes = heading(20, "query", f"q = {query}") + key.grid((-2, 0, 2)) + key.components()
    shapes += key.path("dots", (q1 - back, q2 - back), (q1 + ahead, q2 + ahead))
    shapes += key.path("s1", (0, 0), (1, 0)) + key.path("s2 dash", (0, 0), (0, 1)) + key.path("", (0, 0), (q1, q2))
    shapes += key.text("k1 m b", 1, 0, "k₁", dy=-16 if q2 < 0 <= q1 else 26)
    shapes += key.text("k2 m b", 0, 1, "k₂", dx=22 if q1 < 0 <= q2 else -22, dy=5) + key.disk("ink", "inv", q1, q2, "q")

    shapes += heading(236, "weights", f"α = [{number(a1)}, {number(a2)}]")
    for i, (a, s, y) in enumerate(((a1, s1, 110), (a2, s2, 180)), 1):
        fill = ("k1", "hatch")[i - 1]
        shapes += (
            f"<text x='236' y='{y}' class='k{i} b'>k{'₁₂'[i - 1]} = {('[1, 0]', '[0, 1]')[i - 1]}</text>"
            f"<text x='396' y='{y}' class='e'>score {number(s)}</text>"
            f"<rect x='236' y='{y + 8}' width='{160 * a:.1f}' height='18' class='{fill}'/>"
            f"<path class='grid' d='M236 {y + 8}H396V{y + 26}H236Z'/>"
            f"<text x='396' y='{y + 42}' class='k{i} b e'>{percent(a)}</text>"
        )

    value = Plane(444, 72, 170, -0.5, -0.5, 4.9)
    shapes += heading(428, "output", f"O = {output}") + value.grid((0, 2, 4)) + value.components()
    shapes += (
        value.path("way", (2, 0), (0, 4)) + value.path("s1", (0, 0), (2, 0)) + value.path("s2 dash", (0, 0), (0, 4))
    )
    shapes += value.path("s1 wide", (0, 0), (o1, 0)) + value.path("s2 wide dash", (0, 0), (0, o2))
    shapes += value.path("dash", (o1, 0), (o1, o2), (0, o2)) + value.text("k1 b", 2, 0, "v₁ = [2, 0]", dx=17, dy=4)
    shapes += value.text("k2 b", 0, 4, "v₂ = [0, 4]", dx=17, dy=4) + value.disk("ring", "", o1, o2, "O")

    facts = f"weights {percent(a1)} and {percent(a2)}, output O = {output}"
    caption = (
        f"Query q = {query}: scores {number(s1)} and {number(s2)}, {facts}. Scores are q · kᵢ / √2; softmax turns "
        f"them into two weights that sum to 1; O = {number(a1)} · [2, 0] + {number(a2)} · [0, 4]. {LIVE}"
    )
    text = (
        f"attn-mixture   query q = {query}\n"
        f"  k₁ = [1, 0]   score {number(s1):>6}   weight {percent(a1):>6}   v₁ = [2, 0]\n"
        f"  k₂ = [0, 1]   score {number(s2):>6}   weight {percent(a2):>6}   v₂ = [0, 4]\n"
        f"  output O = {output}"
    )
    alt = f"The query {query} beside the keys [1, 0] and [0, 1]; {facts}, on the segment from v₁ to v₂."
    return Static(shapes, 282, alt, caption, text)
