"""The page Claims: every statement of the course with a link to the very cell that runs it.

claims.yml holds the words; a code cell says in its metadata which claims it runs: {"claim": "S07 S08"}.
`problems` lists what does not fit together; the build prints each as a warning, and so fails under -W.
"""

import json
from html import escape
from pathlib import Path
from typing import NamedTuple

import yaml
from course import CHAPTERS, chapters
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
PAGE = "book/claims"


class Cell(NamedTuple):
    docname: str
    number: int  # counted from 1, Markdown cells included
    kind: str
    claims: list[str]


def stated(root: Path) -> dict[str, list[dict]]:
    """The sections of claims.yml, each a list of {id, text, chapter or test}."""
    return yaml.safe_load((Path(root) / "book/claims.yml").read_text(encoding="utf8"))


def claiming_cells(root: Path) -> list[Cell]:
    found = []
    for docname in chapters(root):
        notebook = json.loads((Path(root) / f"{docname}.ipynb").read_text(encoding="utf8"))
        for number, cell in enumerate(notebook["cells"], 1):
            claims = cell["metadata"].get("claim", "").split()
            if claims:
                found.append(Cell(docname, number, cell["cell_type"], claims))
    return found


def problems(root: Path) -> list[tuple[str, str]]:
    """(docname, what is wrong) for every claim that is unknown, told twice, told elsewhere, or not run at all."""
    known = {claim["id"]: claim for section in stated(root).values() for claim in section}
    seen, wrong = {}, []
    for cell in claiming_cells(root):
        where = f"cell {cell.number}"
        if cell.kind != "code":
            wrong.append((cell.docname, f"{where} carries a claim but runs nothing: it is a {cell.kind} cell"))
        for claim in cell.claims:
            if claim not in known:
                wrong.append((cell.docname, f"{where} carries {claim}, which book/claims.yml does not know"))
            elif known[claim].get("chapter") != cell.docname.removeprefix("notebooks/"):
                wrong.append((cell.docname, f"{where} carries {claim}, which belongs elsewhere ({known[claim]})"))
            if claim in seen:
                text = f"{where} carries {claim} as {seen[claim]} does; a split cell may have copied it"
                wrong.append((cell.docname, text))
            seen.setdefault(claim, f"cell {cell.number} of {cell.docname}")
    for claim in known.values():
        docname = f"notebooks/{claim.get('chapter')}"
        if docname in chapters(root) and claim["id"] not in seen:
            wrong.append((docname, f"no cell carries claim {claim['id']}: {claim['text']}"))
    return wrong


class ClaimsDirective(SphinxDirective):
    """```{claims} weights``` lists one section of claims.yml."""

    required_arguments = 1

    def run(self):
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "book/claims.yml"))
        self.env.note_dependency(str(root / "_toc.yml"))  # a chapter that is new has claims
        for docname in chapters(root):
            self.env.note_dependency(str(root / f"{docname}.ipynb"))
        cells = {claim: cell for cell in claiming_cells(root) for claim in cell.claims}
        items = []
        for claim in stated(root)[self.arguments[0]]:
            text, _ = self.state.inline_text(claim["text"], self.lineno)
            line = nodes.paragraph("", "", nodes.strong("", claim["id"], classes=["claim-id"]), nodes.Text(" "), *text)
            line += [nodes.Text(" "), self.proof(claim, cells.get(claim["id"]))]
            items.append(nodes.list_item("", line, ids=[claim["id"]]))
        return [nodes.bullet_list("", *items, classes=["claims"])]

    def proof(self, claim, cell):
        if cell:
            address = self.env.app.builder.get_relative_uri(self.env.docname, cell.docname) + f"#claim-{claim['id']}"
            words = f"{CHAPTERS[claim['chapter']].split(' ')[0]}, cell {cell.number}"
            return nodes.reference("", f"run in chapter {words}", refuri=address, internal=True, classes=["claim-run"])
        words = f"proved by {claim['test']}, in a real browser" if "test" in claim else "to come in chapter "
        if "chapter" in claim:
            words += CHAPTERS[claim["chapter"]].split(" ")[0]
        return nodes.inline("", words, classes=["claim-proved" if "test" in claim else "claim-coming"])


def tag_cells(app, doctree, docname):
    """Put the number of the claim above the cell that runs it: an anchor, and a way back to the list."""
    texts = {claim["id"]: claim["text"] for section in stated(app.srcdir).values() for claim in section}
    page = app.builder.get_relative_uri(docname, PAGE)
    for cell in list(doctree.findall(nodes.container)):
        claims = cell.get("cell_metadata", {}).get("claim", "").split()
        if cell.get("nb_element") == "cell_code" and claims:
            links = "".join(
                f'<a class="claim-tag" id="claim-{claim}" href="{page}#{claim}" '
                f'title="{escape(texts.get(claim, ""))}"><span class="visually-hidden">Claim </span>{claim}</a>'
                for claim in claims
            )
            cell.parent.insert(
                cell.parent.index(cell), nodes.raw("", f'<p class="claim-tags">{links}</p>', format="html")
            )


def report(app, env):
    for docname, text in problems(app.srcdir):
        logger.warning(text, location=docname, type="claims")


def setup(app):
    app.add_directive("claims", ClaimsDirective)
    app.connect("env-check-consistency", report)
    app.connect("doctree-resolved", tag_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
