"""The figures where no script runs: a picture, a caption and a few lines of text, all in real numbers."""

from dataclasses import dataclass
from html import escape
from math import exp, inf, log, sqrt
from urllib.parse import quote

# Colours by class, so that the picture follows the system's theme; its own background keeps it legible on any page.
STYLE = """
svg{--bg:#fff;--ink:#1c2530;--dim:#5a6673;--line:#dfe4ea;--k1:#0a66b0;--k2:#b44a00;font:13px system-ui,sans-serif}
@media(prefers-color-scheme:dark){svg{--bg:#14181e;--ink:#e8edf3;--dim:#a3afbb;--line:#343c46;--k1:#6db5f7;--k2:#ffa45c}}
.bg{fill:var(--bg);stroke:var(--line)}text{fill:var(--ink)}.dim{fill:var(--dim);font-size:11px}.k1{fill:var(--k1)}
.k2{fill:var(--k2)}path{fill:none;stroke:var(--ink);stroke-width:1.5}.grid{stroke:var(--line)}.s1{stroke:var(--k1)}
.s2{stroke:var(--k2)}.dash{stroke-dasharray:4 3}.dots{stroke-dasharray:1 4}.wide{stroke-width:5}.way{stroke:var(--line);
stroke-width:5}.ink{fill:var(--ink)}.m{text-anchor:middle}.e{text-anchor:end}.b{font-weight:600}.inv{fill:var(--bg)}
.ring{fill:var(--bg);stroke:var(--ink);stroke-width:2}.hatch{fill:url(#h)}
""".replace("\n", "")
HATCH = (
    "<pattern id='h' width='5' height='5' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
    "<rect width='3.5' height='5' class='k2'/></pattern>"
)


@dataclass(frozen=True)
class Static:
    shapes: str
    height: int
    alt: str
    caption: str
    text: str

    def image(self):
        """The picture as one <img>: a data address, no request."""
        size = f"width='640' height='{self.height}'"
        svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' {size} viewBox='0 0 640 {self.height}'><style>{STYLE}</style>"
            f"{HATCH}<rect class='bg' x='.5' y='.5' width='639' height='{self.height - 1}' rx='8'/>{self.shapes}</svg>"
        )
        source = "data:image/svg+xml," + quote(svg, safe=" =:/'(),;{}+*@!-")
        return f'<img {size} style="max-width:100%;height:auto" alt="{escape(self.alt)}" src="{source}">'


def mixture(q1, q2):
    s1, s2 = q1 / sqrt(2), q2 / sqrt(2)
    a1 = _sigma(s1 - s2)
    a2 = _sigma(s2 - s1)
    o1, o2 = 2 * a1, 4 * a2
    query, output = f"[{_n(q1, 1)}, {_n(q2, 1)}]", f"[{_n(o1)}, {_n(o2)}]"

    key = _Plane(36, 72, 170, -3.4, -3.4, 6.8)
    back, ahead = min(q1, q2) + 3.4, 3.4 - max(q1, q2)
    shapes = _heading(20, "query", f"q = {query}") + key.grid((-2, 0, 2)) + key.components()
    shapes += key.path("dots", (q1 - back, q2 - back), (q1 + ahead, q2 + ahead))
    shapes += key.path("s1", (0, 0), (1, 0)) + key.path("s2 dash", (0, 0), (0, 1)) + key.path("", (0, 0), (q1, q2))
    shapes += key.text("k1 m b", 1, 0, "k₁", dy=-16 if q2 < 0 <= q1 else 26)
    shapes += key.text("k2 m b", 0, 1, "k₂", dx=22 if q1 < 0 <= q2 else -22, dy=5) + key.disk("ink", "inv", q1, q2, "q")

    shapes += _heading(236, "weights", f"α = [{_n(a1)}, {_n(a2)}]")
    for i, (a, s, y) in enumerate(((a1, s1, 110), (a2, s2, 180)), 1):
        fill = ("k1", "hatch")[i - 1]
        shapes += (
            f"<text x='236' y='{y}' class='k{i} b'>k{'₁₂'[i - 1]} = {('[1, 0]', '[0, 1]')[i - 1]}</text>"
            f"<text x='396' y='{y}' class='e'>score {_n(s)}</text>"
            f"<rect x='236' y='{y + 8}' width='{160 * a:.1f}' height='18' class='{fill}'/>"
            f"<path class='grid' d='M236 {y + 8}H396V{y + 26}H236Z'/>"
            f"<text x='396' y='{y + 42}' class='k{i} b e'>{_p(a)}</text>"
        )

    value = _Plane(444, 72, 170, -0.5, -0.5, 4.9)
    shapes += _heading(428, "output", f"O = {output}") + value.grid((0, 2, 4)) + value.components()
    shapes += (
        value.path("way", (2, 0), (0, 4)) + value.path("s1", (0, 0), (2, 0)) + value.path("s2 dash", (0, 0), (0, 4))
    )
    shapes += value.path("s1 wide", (0, 0), (o1, 0)) + value.path("s2 wide dash", (0, 0), (0, o2))
    shapes += value.path("dash", (o1, 0), (o1, o2), (0, o2)) + value.text("k1 b", 2, 0, "v₁ = [2, 0]", dx=17, dy=4)
    shapes += value.text("k2 b", 0, 4, "v₂ = [0, 4]", dx=17, dy=4) + value.disk("ring", "", o1, o2, "O")

    facts = f"weights {_p(a1)} and {_p(a2)}, output O = {output}"
    caption = (
        f"Query q = {query}: scores {_n(s1)} and {_n(s2)}, {facts}. Scores are q · kᵢ / √2; softmax turns them into "
        f"two weights that sum to 1; O = {_n(a1)} · [2, 0] + {_n(a2)} · [0, 4]. {LIVE}"
    )
    text = (
        f"attn-mixture   query q = {query}\n"
        f"  k₁ = [1, 0]   score {_n(s1):>6}   weight {_p(a1):>6}   v₁ = [2, 0]\n"
        f"  k₂ = [0, 1]   score {_n(s2):>6}   weight {_p(a2):>6}   v₂ = [0, 4]\n"
        f"  output O = {output}"
    )
    alt = f"The query {query} beside the keys [1, 0] and [0, 1]; {facts}, on the segment from v₁ to v₂."
    return Static(shapes, 282, alt, caption, text)


def sharpness(temperature, delta, copies, masked):
    ratio, extra = (inf if masked else delta / temperature), log(copies)
    total = _sigma(ratio + extra)
    other = 0.0 if masked else _sigma(-ratio - extra)
    each = total / copies
    total_, other_ = ("1", "exactly 0") if masked else (_n(total, 5), _p(other))

    plane = _Plane(150, 50, 440, -8, 0, 16, 180, 1)
    at = max(-8.0, min(8.0, ratio + extra))
    shapes = "<text x='20' y='28' class='dim'>total weight of key 1</text>"
    shapes += plane.grid((-8, -4, 0, 4, 8), (0, 0.5, 1), left=40)
    shapes += plane.path("", *((x / 4, _sigma(x / 4)) for x in range(-32, 33)))
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
    sum_ = f"σ({_n(ratio)} + {_n(extra)}) = {total_}"
    where = f"T = {temperature:g}, Δ = s₁ − s₂ = {_n(delta)}, {copies} {plural} of key 1" + ", key 2 masked" * masked
    facts = f"total weight of key 1 = σ(Δ/T + ln n) = {sum_}"
    caption = (
        f"{where}: {facts}; {_p(each)} for each copy, {other_} for key 2. T divides the scores, copies add ln n. "
        f"T → 0 is the hard maximum, T → ∞ the uniform mixture{'' if masked else ', n/(n + 1) for key 1'}. {LIVE}"
    )
    text = f"attn-sharpness   {where}\n  {facts}\n  each copy {_p(each)}, key 2 {other_}"
    alt = f"The weights as a stack beside the logistic curve. {where}: {facts}."
    return Static(shapes, 276, alt, caption, text)


LIVE = "This picture moves where scripts run (in a notebook: trust it, or run its cells)."


def _sigma(x):
    return 1 / (1 + exp(-x))


def _n(x, digits=3):
    if x == inf:
        return "∞"
    text = f"{x:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def _p(x):
    return _n(100 * x, 1) + " %"


def _heading(x, title, line):
    return f"<text x='{x}' y='26' class='dim'>{title}</text><text x='{x}' y='46' class='b'>{line}</text>"


class _Plane:
    """A rectangle of the picture with its own axes."""

    def __init__(self, left, top, width, x0, y0, span, height=None, y_span=None):
        self.left, self.top, self.width, self.height = left, top, width, height or width
        self.x0, self.y0, self.span, self.y_span = x0, y0, span, y_span or span

    def at(self, x, y):
        return (
            self.left + self.width * (x - self.x0) / self.span,
            self.top + self.height * (1 - (y - self.y0) / self.y_span),
        )

    def path(self, kind, *points):
        steps = "L".join("{:.1f} {:.1f}".format(*self.at(*point)) for point in points)
        return f"<path class='{kind}' d='M{steps}'/>"

    def text(self, kind, x, y, text, dx=0, dy=0):
        x, y = self.at(x, y)
        return f"<text x='{x + dx:.1f}' y='{y + dy:.1f}' class='{kind}'>{text}</text>"

    def disk(self, kind, ink, x, y, letter):
        x, y = self.at(x, y)
        circle = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='10' class='{kind}'/>"
        return circle + f"<text x='{x:.1f}' y='{y + 4:.1f}' class='m b {ink}'>{letter}</text>"

    def grid(self, xs, ys=None, left=None):
        ys, bottom, left = ys or xs, self.top + self.height, left or self.left
        lines = "".join(f"M{self.at(x, 0)[0]:.1f} {self.top}V{bottom}" for x in xs)
        lines += "".join(f"M{left} {self.at(0, y)[1]:.1f}H{self.left + self.width}" for y in ys)
        labels = "".join(
            f"<text x='{self.at(x, 0)[0]:.1f}' y='{bottom + 15}' class='dim m'>{_n(x, 0)}</text>" for x in xs
        )
        labels += "".join(
            f"<text x='{left - 5}' y='{self.at(0, y)[1] + 4:.1f}' class='dim e'>{_n(y, 1 if y % 1 else 0)}</text>"
            for y in ys
        )
        return f"<path class='grid' d='{lines}'/>{labels}"

    def components(self):
        """Axis names of a plane of vectors."""
        middle, bottom = self.left + self.width / 2, self.top + self.height
        return (
            f"<text x='{self.left}' y='{self.top - 5}' class='dim'>component 2</text>"
            f"<text x='{middle:g}' y='{bottom + 29}' class='dim m'>component 1</text>"
        )
