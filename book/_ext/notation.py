"""```{notation} masks``` shows one group of the letters in notation.yml as a table."""

from pathlib import Path

import yaml
from course import CHAPTERS
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

COLUMNS = ("letter", "what it is", "in code", "shape", "Chinese", "chapter")
NAMES = list(CHAPTERS)


def letters(root: Path) -> dict[str, list[dict]]:
    """The groups of notation.yml, each a list of {letter, code, shape, says, zh, chapter}."""
    return yaml.safe_load((Path(root) / "book/notation.yml").read_text(encoding="utf8"))


def joined(parts: list[nodes.Node]) -> nodes.paragraph:
    line = nodes.paragraph("", "")
    for i, part in enumerate(parts):
        line += [nodes.Text(", "), part] if i else [part]
    return line


def table(header: tuple[str, ...], rows: list[list[nodes.Node]], classes=()) -> nodes.table:
    """A docutils table of ready cells."""
    heads = nodes.row("", *(nodes.entry("", nodes.paragraph("", words)) for words in header))
    body = [nodes.row("", *(nodes.entry("", cell) for cell in row)) for row in rows]
    columns = [nodes.colspec(colwidth=1) for _ in header]
    group = nodes.tgroup("", *columns, nodes.thead("", heads), nodes.tbody("", *body), cols=len(header))
    return nodes.table("", group, classes=["colwidths-auto", *classes])


class Notation(SphinxDirective):
    required_arguments = 1

    def run(self):
        self.env.note_dependency(f"{self.env.srcdir}/book/notation.yml")
        rows = [self.row(**row) for row in letters(self.env.srcdir)[self.arguments[0]]]
        return [table(COLUMNS, rows, ["notation"])]

    def row(self, letter, code, shape, says, zh, chapter):
        return [
            joined([nodes.math(latex, latex) for latex in letter]),
            nodes.paragraph("", says),
            joined([nodes.literal(name, name) for name in code]),
            joined([nodes.math(latex, latex) for latex in shape]),
            nodes.paragraph("", "", nodes.inline("", zh, classes=["language-zh"])),
            joined([self.chapter(number) for number in sorted(set(chapter))]),
        ]

    def chapter(self, number):
        uri = self.env.app.builder.get_relative_uri(self.env.docname, f"notebooks/{NAMES[number - 1]}")
        return nodes.reference("", str(number), refuri=uri, internal=True, reftitle=CHAPTERS[NAMES[number - 1]])


def setup(app):
    app.add_directive("notation", Notation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
