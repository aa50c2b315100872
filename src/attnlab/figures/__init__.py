"""The live figures: one JavaScript file each, and this thin wrapper.

>>> from attnlab import figures
>>> figures.mixture()            # in a notebook the last line of a cell draws it; a terminal prints its numbers

A figure's HTML carries its whole script (each Colab output is a frame of its own) and, inside the element, a picture
and a caption with the same numbers: what a page without scripts, an untrusted notebook and GitHub show instead.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from attnlab.figures import _static

__all__ = ["NAMES", "Figure", "mixture", "script", "sharpness"]

NAMES = ("mixture", "sharpness")


@cache
def script(name):
    """The JavaScript of a figure: one IIFE that defines `<attn-NAME>`, at most once a page."""
    if name not in NAMES:
        raise ValueError(f"no figure {name!r}: there are {', '.join(NAMES)}")
    base, own = (files(__package__).joinpath(part).read_text(encoding="utf-8") for part in ("_base.js", f"{name}.js"))
    code = re.sub(r"(?m)^\s*(//.*\n\s*)*", "", base + own)  # no comment lines, no indentation
    return f"(() => {{\n'use strict';\nif (customElements.get('attn-{name}')) return;\n{code}}})();\n"


@dataclass(frozen=True, repr=False)
class Figure:
    """A live figure. Notebooks show it by `_repr_html_`; `print` gives its numbers."""

    name: str
    attributes: str
    static: _static.Static

    def _repr_html_(self):
        tag = f"attn-{self.name}"
        # Sanitizers drop the script, the unknown tag and any inline SVG; an <img> and a caption pass them.
        return (
            f"<script>{script(self.name)}</script>\n"
            f'<{tag}{self.attributes} data-lm-suppress-shortcuts="true"><figure style="margin:0">{self.static.image()}'
            f"<figcaption>{self.static.caption}</figcaption></figure></{tag}>"
        )

    def __repr__(self):
        return self.static.text


def mixture(q1=1, q2=0):
    """One query, two keys, two values: drag the query, and the output slides between the values.

    The example of chapter 1: k₁ = [1, 0], k₂ = [0, 1], v₁ = [2, 0], v₂ = [0, 4], scores divided by √2.
    q1, q2: components of the query at the start, from −3 to 3.
    """
    _check("q1", q1, -3, 3)
    _check("q2", q2, -3, 3)
    return Figure("mixture", _attributes(q1=(q1, 1), q2=(q2, 0)), _static.mixture(q1, q2))


def sharpness(temperature=1, delta=2**-0.5, copies=1, masked=False):
    """What changes a mixture without touching the query: temperature, score difference, repeated keys, a mask.

    The total weight of key 1, present `copies` times, beside key 2 is σ(delta/temperature + ln copies).
    temperature: from 0.1 to 10.  delta: score of key 1 minus score of key 2, from −4 to 4.  copies: 1 to 10.
    masked: whether key 2 is masked.
    """
    _check("temperature", temperature, 0.1, 10)
    _check("delta", delta, -4, 4)
    _check("copies", copies, 1, 10)
    if copies != int(copies):
        raise ValueError(f"copies = {copies}: must be a whole number")
    copies, masked = int(copies), bool(masked)
    temperature = float(f"{temperature:.3g}")  # as many digits as the figure shows
    attributes = _attributes(temperature=(temperature, 1), delta=(delta, 2**-0.5), copies=(copies, 1))
    return Figure("sharpness", attributes + " masked" * masked, _static.sharpness(temperature, delta, copies, masked))


def _check(name, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"{name} = {value}: must lie between {low} and {high}")


def _attributes(**options):
    return "".join(f' {name}="{float(value)!r}"' for name, (value, default) in options.items() if value != default)
