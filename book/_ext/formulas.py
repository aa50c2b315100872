"""Formulas become MathML while the book is built, so a page needs no script to show them and nothing flickers.

math-core translates LaTeX to MathML, which browsers lay out and screen readers read. A formula that it cannot translate
is a warning with file and formula, and fails the build under -W. The font is made by lean_pages.
"""

import re

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)
CONVERTER = LatexToMathML(fancy_error=False)
# A browser may break the line between a formula and the mark that follows it.
MARK = re.compile(r"[.,;:!?)\]”’]+")


def mathml(node, display):
    latex = node.astext().strip()
    try:
        return CONVERTER.convert_with_local_state(latex, displaystyle=display)
    except LatexError as error:
        logger.warning("this formula cannot be shown: %s\n%s", latex, error, location=node, type="formulas")
        return f"<code>{nodes.Text(latex)}</code>"


def visit_inline(self, node):
    self.body.append(f'<span class="formula">{mathml(node, display=False)}</span>')
    raise nodes.SkipNode


def keep_marks(app, doctree, docname):
    """Put a formula and the mark right after it into one span that no line breaks."""
    for formula in list(doctree.findall(nodes.math)):
        parent = formula.parent
        place = parent.index(formula)
        after = parent[place + 1] if place + 1 < len(parent) else None
        if isinstance(after, nodes.Text) and (mark := MARK.match(after)):
            parent.children[place : place + 2] = []
            kept = nodes.inline("", "", formula, nodes.Text(mark[0]), classes=["unbroken"])
            rest = [nodes.Text(after[mark.end() :])] if mark.end() < len(after) else []
            parent.insert(place, [kept, *rest])


def visit_block(self, node):
    self.body.append(self.starttag(node, "div", "", CLASS="formula"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(mathml(node, display=True) + "</div>\n")
    raise nodes.SkipNode


def choose(app, config):
    config.html_math_renderer = "mathml"


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", choose)
    app.connect("doctree-resolved", keep_marks, priority=600)  # after the glossary, which reads whole lines of text
    return {"parallel_read_safe": True, "parallel_write_safe": True}
