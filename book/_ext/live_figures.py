"""Live figures and self-tests in pages: ```{live-figure} mixture```, and one copy of each script for the whole book.

A notebook's output carries its script, since in Colab each output is a page of its own. Here the script goes: the
element says where it lies, as a file that a browser keeps, and live.js asks for it when that comes near the view.
"""

import hashlib
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

CARRIED = re.compile(
    r"<script>\(\(\) => \{\s*'use strict';\s*if \(customElements\.get\('(attn-[\w-]+)'\)\) return;"
    r"(?:(?!</script>).)*</script>\s*<\1\b",
    re.DOTALL,
)
RIGHT_SO_FAR = '<p class="reading-progress" data-selftests="{}" hidden><span role="status"></span></p>'


class LiveFigure(SphinxDirective):
    required_arguments = 1

    def run(self):
        from attnlab import figures

        for part in Path(figures.__file__).parent.glob("*.*"):
            self.env.note_dependency(str(part))
        name = self.arguments[0]
        if not hasattr(figures, name):
            raise self.error(f"attnlab.figures has no figure called {name}")
        html = getattr(figures, name)()._repr_html_()
        return [nodes.raw("", f'<div class="live-figure">{html}</div>', format="html")]


def scripts() -> dict[str, tuple[str, str]]:
    """Element → its file under _static, and what stands in it."""
    from attnlab import figures, selftests

    found = {figures.tag(name): (f"figures/{name}.js", figures.script(name)) for name in figures.NAMES}
    return found | {"attn-selftest": ("selftest.js", selftests.script())}


def without_scripts(body: str, root: str) -> str:
    """A page's body with an address in place of each script. root: the way to _static, with a slash at its end."""
    known = scripts()

    def addressed(match):
        file, code = known[match[1]]
        version = hashlib.sha256(code.encode()).hexdigest()[:8]  # or a browser would keep the one of the last edition
        return f'<{match[1]} data-script="{root}{file}?v={version}"'

    return CARRIED.sub(addressed, body)


def lighten(app, pagename, templatename, context, doctree):
    if "data-lm-suppress-shortcuts" in context.get("body", ""):
        context["body"] = without_scripts(context["body"], context["pathto"]("_static/", 1))
        app.add_js_file("live.js", loading_method="defer")


def count_selftests(app, doctree, docname):
    """Under a chapter's Summary, the line that says how many of its self-tests are right; progress.js fills it."""
    shown = "".join(raw.astext() for raw in doctree.findall(nodes.raw))
    asked = re.findall(r'<attn-selftest question="([\w-]+)"', shown)
    for section in doctree.findall(nodes.section):
        if asked and section[0].astext() == "Summary":
            section.insert(1, nodes.raw("", RIGHT_SO_FAR.format(" ".join(asked)), format="html"))


def write_scripts(app, exception):
    if exception or app.builder.format != "html":
        return
    for file, code in scripts().values():
        path = Path(app.outdir, "_static", file)
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, encoding="utf8")


def setup(app):
    app.add_directive("live-figure", LiveFigure)
    app.connect("doctree-resolved", count_selftests)
    app.connect("html-page-context", lighten)
    app.connect("build-finished", write_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
