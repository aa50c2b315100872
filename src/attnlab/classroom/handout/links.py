"""What a notebook needs that leaves its folder: links that still lead somewhere, and a line that installs attnlab."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from docutils.nodes import make_id
from mdit_py_plugins.anchors.index import slugify  # as MyST makes the addresses of headings

# The end of a link to another page of the book, as in [chapter 1](01_weights.ipynb#temperature), and the whole of it.
# Its words may hold one level of brackets; a picture is no link.
TARGET = r"\((?!\w+:|#)([^)#\s]+?)\.(md|ipynb)(#[^)\s]*)?\)"
LINK = re.compile(rf"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]{TARGET}")

Which = Callable[[str], bool]


def lines(source: str | list[str]) -> str:
    """The source of a cell, which a file may store in lines."""
    return source if isinstance(source, str) else "".join(source)


def wheel_address(site: str, version: str) -> str:
    """Where a published book keeps the wheel of attnlab."""
    return f"{site}/wheels/attnlab-{version}-py3-none-any.whl"


@cache
def anchors(path: Path) -> dict[str, str]:
    """The headings of a page: how a link in a source names each, and how the built page does."""
    text = path.read_text(encoding="utf8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join(lines(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    headings = [re.sub("[`*]", "", heading) for heading in re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)]
    return {slugify(heading): make_id(heading) for heading in headings}


def page(docname: str, target: str) -> str:
    """The page that a relative link leads to: ("notebooks/01_weights", "../book/claims") → "book/claims"."""
    return os.path.normpath(f"{os.path.dirname(docname)}/{target}").replace(os.sep, "/")


def to_site(text: str, docname: str, site: str, file: Callable[[str], Path], which: Which = lambda page: True) -> str:
    """Relative links of a Markdown cell, as addresses on the site.

    docname   the page that the cell comes from: "notebooks/01_weights"
    site      the address of the book, without a slash at its end
    file      where the source of a page lies: "notebooks/01_weights.ipynb" → a path; it may be missing
    which     the pages whose links are changed
    """

    def address(link: re.Match) -> str:
        path = page(docname, link[2])
        if not which(path):
            return link[0]
        source, anchor = file(f"{path}.{link[3]}"), (link[4] or "").removeprefix("#")
        known = anchors(source) if anchor and source.exists() else {}
        return f"[{link[1]}]({site}/{path}.html{'#' * bool(anchor)}{known.get(anchor, anchor)})"

    return LINK.sub(address, text)


def to_words(text: str, docname: str, which: Which = lambda page: True) -> str:
    """Relative links of a Markdown cell, as their words alone: without a site they would lead nowhere."""
    return LINK.sub(lambda link: link[1] if which(page(docname, link[2])) else link[0], text)


def installing(source: str, wheel: str) -> str:
    """The source of a setup cell that first installs attnlab, by the wheel's address.

    Never by name, since that name on a package index may one day be somebody else's.
    """
    return f"%pip install --quiet {wheel}\n{source}"
