"""Formulas become MathML while the book is built, so a page needs no script to show them and nothing flickers.

math-core translates LaTeX to MathML, which browsers lay out and screen readers read. A formula that it cannot translate
is a warning with file and formula, and fails the build under -W. The font is made by lean_pages.
"""

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)
CONVERTER = LatexToMathML(fancy_error=False)


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
    return {"parallel_read_safe": True, "parallel_write_safe": True}
