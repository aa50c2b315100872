"""What the stills share: the picture with its colours, a plane with axes, numbers in words."""

from dataclasses import dataclass
from html import escape
from math import exp, inf
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


LIVE = "This picture moves where scripts run (in a notebook: trust it, or run its cells)."


def sigma(x):
    return 1 / (1 + exp(-x))


def number(x, digits=3):
    if x == inf:
        return "∞"
    text = f"{x:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def percent(x):
    return number(100 * x, 1) + " %"


def heading(x, title, line):
    return f"<text x='{x}' y='26' class='dim'>{title}</text><text x='{x}' y='46' class='b'>{line}</text>"


class Plane:
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
            f"<text x='{self.at(x, 0)[0]:.1f}' y='{bottom + 15}' class='dim m'>{number(x, 0)}</text>" for x in xs
        )
        labels += "".join(
            f"<text x='{left - 5}' y='{self.at(0, y)[1] + 4:.1f}' class='dim e'>{number(y, 1 if y % 1 else 0)}</text>"
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
