"""The still of `scoring`, and the numbers behind it."""

from math import exp, hypot, sqrt, tanh

from .drawing import LIVE, Plane, Static, heading, number, percent

KEYS = ((3, 2), (1, 2), (-2, 1), (-1, -2), (0.5, 0))  # long, three of equal norm, short
W_Q, W_K, V = ((1, 0), (-1, 1), (1, 0)), ((-1, 1), (-1, -1), (1, 0)), (1, 2, 3)


def times(a, b):
    return a[0] * b[0] + a[1] * b[1]


def additive(q, k):
    return sum(v * tanh(times(a, q) + times(b, k)) for v, a, b in zip(V, W_Q, W_K, strict=True))


def gaussian(q, k):
    return -(hypot(q[0] - k[0], q[1] - k[1]) ** 2) / (2 * sqrt(2))


SCORES = {  # formula, remark, and the score itself
    "dot": ("q · k", "Norm counts: long k₁ wins even where q lies on k₂; k₅, amid the others, nowhere.", times),
    "scaled_dot": (
        "q · k / √2",
        "The same keys win as with dot; weights are more even.",
        lambda q, k: times(q, k) / sqrt(2),
    ),
    "additive": (
        "v · tanh(W_q q + W_k k)",
        "W_q = [[1, 0], [−1, 1], [1, 0]], W_k = [[−1, 1], [−1, −1], [1, 0]], v = [1, 2, 3]. At [1, 1] k₅ wins, "
        "neither long nor nearest; |s| < 6.",
        additive,
    ),
    "gaussian": (
        "−‖q − k‖² / (2√2)",
        "The nearest key wins. Width² is √2: keys of equal norm keep the ratios of scaled dot.",
        gaussian,
    ),
}


def scores_at(score, q):
    return [SCORES[score][2](q, key) for key in KEYS]


def borders(score):
    """Points where another key takes the lead, on the lines of a grid."""
    grid = [i / 5 - 3.37 for i in range(34)]  # none of its lines lies on a border
    for x, y, (right, up) in ((x, y, way) for x in grid for y in grid for way in ((0.2, 0), (0, 0.2))):
        s, e = scores_at(score, (x, y)), scores_at(score, (x + right, y + up))
        i, j = s.index(max(s)), e.index(max(e))
        if i != j:
            t = (s[i] - s[j]) / (s[i] - s[j] + e[j] - e[i])
            yield x + t * right, y + t * up


def scoring(q1, q2, score):
    formula, remark, _ = SCORES[score]
    scores = scores_at(score, (q1, q2))
    top = max(scores)
    powers = [exp(s - top) for s in scores]
    weights = [power / sum(powers) for power in powers]
    winners = [f"k{'₁₂₃₄₅'[i]}" for i, s in enumerate(scores) if s > top - 1e-9]
    who = "all five tie" if len(winners) == 5 else ", ".join(winners) + (" tie" if len(winners) > 1 else " wins")
    query = f"[{number(q1, 1)}, {number(q2, 1)}]"
    gap = f"‖k₂‖ = ‖k₃‖: ln(α₂/α₃) = s₂ − s₃ = {number(scores[1] - scores[2])}"

    plane = Plane(36, 72, 220, -3.4, -3.4, 6.8)
    shapes = heading(20, "query", f"q = {query}") + plane.grid((-2, 0, 2)) + plane.components()
    points = "".join("M{:.1f} {:.1f}h1.5".format(*plane.at(*point)) for point in borders(score))
    shapes += f"<path d='{points}'/>" + heading(300, f"weights – score s = {formula}", who)
    rows, facts = "", []
    for i, (key, s, w) in enumerate(zip(KEYS, scores, weights, strict=True)):
        name = f"k{'₁₂₃₄₅'[i]}"
        place = "[" + ", ".join(f"{c:g}".replace("-", "−") for c in key) + "]"
        wins, (x, y), line = name in winners, plane.at(*key), 88 + 40 * i
        shapes += (
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{16 * sqrt(w):.1f}' class='{'k1' if wins else 'ring'}'/>"
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' class='ink'/>"
            + plane.text("m b", *key, name, dy=28 if q2 > key[1] else -20)
            + f"<text x='300' y='{line}' class='{'b' * wins}'>{name} = {place}</text>"
            f"<text x='500' y='{line}' class='e'>score {number(s)}</text>"
            f"<text x='616' y='{line}' class='e {'b' * wins}'>{percent(w)}</text>"
            f"<rect x='300' y='{line + 6}' width='{316 * w:.1f}' height='8' class='{'k1' if wins else 'ink'}'/>"
        )
        rows += f"  {name} = {place:<8}   score {number(s):>7}   weight {percent(w):>7}\n"
        facts.append(f"{name} = {place} has score {number(s)} and weight {percent(w)}")
    shapes += plane.disk("ink", "inv", q1, q2, "q")

    words = score.replace("_", " ").replace("gaussian", "Gaussian")
    caption = (
        f"Query q = {query}, {words} score s = {formula}: {', '.join(facts)}; {who}. {gap}. "
        f"On dotted lines another key takes the lead. {remark} {LIVE}"
    )
    text = f"attn-scoring   query q = {query}, {words} score s = {formula}\n{rows}  {who}\n  {gap}"
    alt = f"Five keys and the query {query} in a plane, {words} score: {', '.join(facts)}; {who}."
    return Static(shapes, 334, alt, caption, text)
