"""```{live-figure} mixture``` puts attnlab.figures.mixture() into a page: element, script and static picture."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


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


def setup(app):
    app.add_directive("live-figure", LiveFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
