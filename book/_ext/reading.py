"""Reading progress: tells progress.js which chapters there are, and gives pages the line that shows and clears it."""

from course import chapters
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

LINE = """<p class="reading-progress" data-reading-progress hidden>
<span role="status" tabindex="-1"></span> <button type="button">Forget chapters and self-tests</button></p>
<noscript><p class="reading-progress">Reading progress needs scripts.</p></noscript>"""


class ReadingProgress(SphinxDirective):
    def run(self):
        return [nodes.raw("", LINE, format="html")]


def name_chapters(app, pagename, templatename, context, doctree):
    context["course_chapters"] = chapters(app.srcdir)


def setup(app):
    app.add_directive("reading-progress", ReadingProgress)
    app.connect("html-page-context", name_chapters)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
