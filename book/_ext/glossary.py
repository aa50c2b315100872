"""The glossary: its page, its Chinese index, and a link from the first use of every term in every chapter.

glossary.yml holds the words. The links are made while the book is built: notebooks stay plain Markdown. A term whose
heading does not exist, or which the running text of its own chapter never uses, is a warning, and fails under -W.
"""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import yaml
from course import CHAPTERS, chapters
from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
PAGE = "book/glossary"
DOCNAMES = [f"notebooks/{name}" for name in CHAPTERS]
# Not running text: links in them would be noise, or lie inside other links.
LEFT_OUT = (
    *(nodes.title, nodes.rubric, nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.math_block),
    *(nodes.raw, nodes.image, nodes.figure, nodes.caption, nodes.comment, nodes.thead, nodes.footnote),
)
SECTIONS_LEFT_OUT = {"exercises", "further-reading"}  # generated cells; names of papers
# GB 2312 lists the 3755 common characters by their sound. The rarer ones of this glossary stand beside a common one.
SOUNDS_LIKE = str.maketrans({"熵": "商", "詹": "占", "谛": "第", "幂": "密", "曼": "满"})


class Term(NamedTuple):
    name: str
    forms: list[str]  # the words under which it occurs
    marked: list[str]  # words that are the term in its own chapter, set in bold or italics
    uses: set[str]  # docnames of the chapters that use it
    chinese: list[str]
    symbol: str | None
    docname: str  # where it is introduced
    heading: str | None
    says: str

    @property
    def anchor(self) -> str:
        return nodes.make_id(self.name)

    @property
    def place(self) -> str:
        """The anchor of the heading under which it is introduced, with its #."""
        return f"#{nodes.make_id(self.heading)}" if self.heading else ""


def terms(root: Path) -> list[Term]:
    """All entries of glossary.yml, sorted as the page shows them."""
    found = []
    for entry in yaml.safe_load((Path(root) / f"{PAGE}.yml").read_text(encoding="utf8")):
        forms = entry.get("forms", [])
        forms = [form for form in forms if form != "~"] if "~" in forms else [entry["term"], *forms]
        uses = {DOCNAMES[number - 1] for number in entry.get("in", range(1, len(DOCNAMES) + 1))}
        where = DOCNAMES[entry["chapter"] - 1], entry.get("at")
        chinese, symbol = entry["zh"].split("；"), entry.get("symbol")
        marked = entry.get("marked", [])
        found.append(Term(entry["term"], forms, marked, uses, chinese, symbol, *where, entry["says"]))
    return sorted(found, key=lambda term: term.name.casefold())


def headings(root: Path, docname: str) -> set[str]:
    """The anchors of a chapter's headings."""
    cells = json.loads((Path(root) / f"{docname}.ipynb").read_text(encoding="utf8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return {nodes.make_id(heading) for heading in re.findall(r"^#+ (.+)$", text, flags=re.M)}


def problems(root: Path) -> list[str]:
    """What does not fit together in glossary.yml."""
    wrong, anchors, known = [], {}, {docname: headings(root, docname) for docname in chapters(root)}
    for term in terms(root):
        if term.anchor in anchors:
            wrong.append(f"“{term.name}” and “{anchors[term.anchor]}” would have the same anchor")
        anchors[term.anchor] = term.name
        if term.docname not in known:
            wrong.append(f"“{term.name}” belongs to {term.docname}, which is not in _toc.yml")
        elif term.place and term.place[1:] not in known[term.docname]:
            wrong.append(f"“{term.name}”: {term.docname} has no heading “{term.heading}”")
        if term.docname not in term.uses:
            wrong.append(f"“{term.name}”: `in` leaves out the chapter that introduces it")
    return wrong


# ---- links from first use


def pattern(form: str) -> str:
    """A form as it may stand in a text: on two lines, with a capital letter, with either apostrophe, in the plural."""
    first = f"[{form[0].upper()}{form[0]}]" if form[0].islower() else re.escape(form[0])
    rest = re.escape(form[1:]).replace("\\ ", r"\s+").replace("'", "[’']")
    if form.endswith("y"):
        return first + rest[:-1] + "(?:y|ies)"
    return first + rest + ("(?:s|es)?" if form[-1].isalpha() and not form.endswith("s") else "")


def expression(forms: list[str]) -> re.Pattern:
    """One group for each form; of several that begin at one place the longest wins. Whole words only."""
    longest_first = sorted(range(len(forms)), key=lambda i: -len(forms[i]))
    choices = "|".join(f"(?P<f{i}>{pattern(forms[i])})" for i in longest_first)
    return re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])")


def running_text(node: nodes.Node) -> Iterator[nodes.Text]:
    for child in node.children:
        if isinstance(child, nodes.Text):
            yield child
        elif not is_left_out(child):
            yield from running_text(child)


def is_left_out(node) -> bool:
    if isinstance(node, LEFT_OUT) or node.get("nb_element") == "cell_code":
        return True
    if isinstance(node, nodes.section):
        return bool(SECTIONS_LEFT_OUT & set(node["ids"]))
    return is_line_of_minutes(node) or is_name_of_a_paper(node)


def is_line_of_minutes(node) -> bool:
    """“About 60 minutes to read …”, in italics under the title."""
    alone = isinstance(node, nodes.paragraph) and len(node.children) == 1 and isinstance(node[0], nodes.emphasis)
    return alone and node.astext().startswith("About ")


def is_name_of_a_paper(node) -> bool:
    """In italics, as “Attention Is All You Need”: from a capital letter to a last word without a stop."""
    words = node.astext() if isinstance(node, nodes.emphasis) else ""
    return words[:1].isupper() and words[-1:].isalnum() and len(words.split()) > 2


def join_texts(doctree: nodes.document) -> None:
    """MyST writes a node for each line; a term may stand on two."""
    for parent in {id(text.parent): text.parent for text in doctree.findall(nodes.Text)}.values():
        if isinstance(parent, nodes.TextElement) and len(parent.children) > 1:
            joined = []
            for child in parent.children:
                if joined and isinstance(child, nodes.Text) and isinstance(joined[-1], nodes.Text):
                    child = nodes.Text(joined.pop() + child)
                joined.append(child)
            parent.children = []
            parent.extend(joined)


def in_own_section(text: nodes.Text, term: Term, docname: str) -> bool:
    section = text.parent
    while not isinstance(section, nodes.section):
        section = section.parent
    top = not isinstance(section.parent, nodes.section)
    return term.docname == docname and (term.place[1:] in section["ids"] if term.place else top)


def first_uses(doctree: nodes.document, docname: str, known: list[Term]) -> dict[str, tuple[nodes.Text, int, int]]:
    """{name of a term: (text, start, end)}: its first use, or where its own section has it in bold."""
    used = [term for term in known if docname in term.uses]
    owners = [(term, form) for term in used for form in term.forms]
    search = expression([form for _, form in owners])
    marked = {word: term for term in used if term.docname == docname for word in term.marked}
    first, bold = {}, {}
    for text in running_text(doctree):
        words = text.astext()
        alone = isinstance(text.parent, nodes.strong | nodes.emphasis) and len(text.parent.children) == 1
        strong = isinstance(text.parent, nodes.strong)
        bare = words.strip(" .:,")
        begin = words.find(bare)
        if alone and (term := marked.get(bare) or marked.get(bare.lower())):
            bold.setdefault(term.name, (text, begin, begin + len(bare)))
            continue
        for match in search.finditer(words):
            term = owners[int(match.lastgroup[1:])][0]
            whole = match.span() == (begin, begin + len(bare))
            if strong and not whole:
                continue
            first.setdefault(term.name, (text, *match.span()))
            if strong and in_own_section(text, term, docname):
                bold.setdefault(term.name, (text, *match.span()))
    return first | bold


def link_first_uses(app, doctree, docname):
    if docname not in chapters(app.srcdir):
        return
    known = terms(app.srcdir)
    join_texts(doctree)
    page = app.builder.get_relative_uri(docname, PAGE)
    places = first_uses(doctree, docname, known)
    for term in known:
        if term.docname == docname and term.name not in places:
            logger.warning("the running text never uses “%s” of the glossary", term.name, location=docname)
    by_name = {term.name: term for term in known}
    in_order = sorted(((*place, by_name[name]) for name, place in places.items()), key=lambda p: (id(p[0]), p[1]))
    for _, group in groupby(in_order, key=lambda place: id(place[0])):
        group = list(group)
        text, parts, done = group[0][0], [], 0
        words = text.astext()
        for _, start, end, term in group:
            uri = f"{page}#{term.anchor}"
            link = nodes.reference("", words[start:end], refuri=uri, internal=True, classes=["term"])
            link["reftitle"] = term.says
            parts += [nodes.Text(words[done:start]), link]
            done = end
        text.parent.replace(text, [part for part in [*parts, nodes.Text(words[done:])] if part.astext()])


# ---- the page


def curly(words: str) -> str:
    """With the apostrophes that the pages have: nobody else sets them in the index."""
    return words.replace("'", "’")


def chinese(words: str) -> nodes.inline:
    return nodes.inline("", words, classes=["language-zh"])  # docutils writes lang="zh"


class Glossary(SphinxDirective):
    """```{course-glossary}``` lists the terms by their letters."""

    def run(self):
        known = terms(self.env.srcdir)
        self.env.note_dependency(f"{self.env.srcdir}/{PAGE}.yml")
        entries = nodes.definition_list("", *map(self.entry, known), classes=["course-glossary"])
        index = addnodes.index(entries=[])
        for term in known:
            index["entries"] += [("single", curly(term.name), term.anchor, "main", None)]
            index["entries"] += [("single", words, term.anchor, "main", "中文") for words in term.chinese]
        return [self.letters(known), index, entries]

    def letters(self, known):
        """A line of letters, each a link to its first term."""
        line = nodes.paragraph("", "", classes=["letters"])
        for letter, group in groupby(known, key=lambda term: term.name[0].upper()):
            line += [nodes.reference("", letter, refuri=f"#{next(group).anchor}", internal=True), nodes.Text(" ")]
        return line

    def entry(self, term):
        name = nodes.term("", "", nodes.Text(term.name), nodes.Text(" "), ids=[term.anchor])
        name += chinese("，".join(term.chinese))
        if term.symbol:
            name += [nodes.Text(" "), nodes.math(term.symbol, term.symbol)]
        where = self.env.app.builder.get_relative_uri(self.env.docname, term.docname) + term.place
        chapter = CHAPTERS[term.docname.removeprefix("notebooks/")].split(" ")[0]
        words = f"chapter {chapter}" + (f", {term.heading}" if term.heading else "")
        text = nodes.paragraph("", "", nodes.Text(f"{term.says} "))
        text += nodes.reference("", words, refuri=where, internal=True, classes=["introduced"])
        return nodes.definition_list_item("", name, nodes.definition("", text))


def by_sound(words: str) -> bytes:
    return words.lower().translate(SOUNDS_LIKE).encode("gb18030")


class ChineseIndex(SphinxDirective):
    """```{chinese-index}``` leads from the Chinese terms, sorted by pinyin, to the English ones."""

    def run(self):
        rows = [(words, term) for term in terms(self.env.srcdir) for words in term.chinese]
        items = []
        for words, term in sorted(rows, key=lambda row: by_sound(row[0])):
            link = nodes.reference("", term.name, refuri=f"#{term.anchor}", internal=True)
            line = nodes.paragraph("", "", chinese(words), nodes.Text(" "), link)
            items.append(nodes.list_item("", line))
        return [nodes.bullet_list("", *items, classes=["chinese-index"])]


def report(app, env):
    for text in problems(app.srcdir):
        logger.warning(text, location=PAGE, type="glossary")


def depend(app, docname, source):
    """A chapter is built anew when the glossary changes."""
    if docname in DOCNAMES:
        app.env.note_dependency(f"{app.srcdir}/{PAGE}.yml")


def setup(app):
    app.add_directive("course-glossary", Glossary)
    app.add_directive("chinese-index", ChineseIndex)
    app.connect("source-read", depend)
    app.connect("env-check-consistency", report)
    app.connect("doctree-resolved", link_first_uses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
