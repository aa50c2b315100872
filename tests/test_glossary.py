"""Finding things: the glossary and its links, the notation, the map of the course, all made from the chapters."""

import importlib
import json
import pkgutil
import re
import shutil
import sys
from types import SimpleNamespace
from urllib.parse import urldefrag

import pytest
import yaml
from book_fixtures import ROOT
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.core import publish_doctree

import attnlab.exercises
from attnlab.exercises.engine import exercises_of, questions_of

sys.path.append(str(ROOT / "book/_ext"))

import course
import course_map
import glossary
import notation

TERMS = {term.anchor: term for term in glossary.terms(ROOT)}
NOT_RUNNING_TEXT = ["a", "h1", "h2", "h3", "h4", "code", "pre", "math", "thead", "figcaption", "svg"]


@pytest.fixture(scope="module")
def pages(built_book):
    names = [*course.chapters(ROOT), "book/glossary", "book/notation", "book/course_map"]
    return {name: BeautifulSoup((built_book / f"{name}.html").read_text("utf8"), "html.parser") for name in names}


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("solutions"))
    for name in ("_toc.yml", "book/glossary.yml", "book/course_map.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def rewrite(path, old, new):
    text = path.read_text("utf8")
    assert text.count(old) >= 1, old
    path.write_text(text.replace(old, new, 1), "utf8")


# ---- the glossary


def test_every_entry_has_its_chapter_its_heading_its_own_anchor_and_chinese():
    assert glossary.problems(ROOT) == []
    for term in TERMS.values():
        assert term.says.endswith((".", ".)")) and len(term.says) < 260, term.name
        known = term.name in ("Transformer", "FlashAttention")  # written so in Chinese, too
        assert all(known or re.search("[\u4e00-\u9fff]", words) for words in term.chinese), term.name


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("at: Temperature,", "at: Temperatures,", "has no heading “Temperatures”"),
        ("{term: query,", "{term: value,", "same anchor"),
        ("{term: query,", "{term: query, in: [2],", "leaves out the chapter"),
    ],
)
def test_an_entry_that_does_not_fit_is_reported(sources, old, new, told):
    rewrite(sources / "book/glossary.yml", old, new)
    assert any(told in text for text in glossary.problems(sources))


def test_every_term_is_linked_in_its_own_chapter_and_no_term_twice_on_a_page(pages):
    for docname in course.chapters(ROOT):
        linked = [urldefrag(a["href"])[1] for a in pages[docname].select("a.term")]
        assert len(linked) == len(set(linked)), docname
        assert {anchor for anchor, term in TERMS.items() if term.docname == docname} <= set(linked)
        assert all(docname in TERMS[anchor].uses for anchor in linked)


def test_a_link_says_what_the_glossary_says_and_stands_in_running_text(pages):
    anchors = {element["id"] for element in pages["book/glossary"].select("dt[id]")}
    for docname in course.chapters(ROOT):
        for link in pages[docname].select("a.term"):
            file, anchor = urldefrag(link["href"])
            assert file == "../book/glossary.html" and anchor in anchors
            assert link["title"] == TERMS[anchor].says
            assert not link.find_parent(NOT_RUNNING_TEXT), link
            assert not link.find_parent(class_=["cell", "claim-tags"]), link
            assert not link.find_parent("section", id=["exercises", "further-reading"]), link


def test_a_link_is_the_first_use(pages):
    """For terms that are one word in one form: nothing before the link, in running text, is that word."""
    seen = 0
    for docname in course.chapters(ROOT):
        article = BeautifulSoup(str(pages[docname].select_one("article")), "html.parser")
        for link in article.select("a.term"):
            link.string.replace_with(f"⟦{urldefrag(link['href'])[1]}⟧")
        for element in article.select("h1, h2, h3, code, pre, math, thead, .cell, script, a:not(.term), strong, em"):
            element.replace_with("◦")
        text = article.get_text()
        for term in TERMS.values():
            mark = f"⟦{term.anchor}⟧"
            if mark in text and term.docname != docname and re.fullmatch("[a-z]+", term.name):
                before = re.sub("⟦.*?⟧", "◦", text.partition(mark)[0])
                assert not re.search(rf"(?<![\w◦-] )\b{term.name}\b(?! ?[\w◦-])", before), (docname, term.name)
                seen += 1
    assert seen > 50


def test_the_page_is_alphabetical_and_marks_what_is_chinese(pages):
    page = pages["book/glossary"]
    entries = page.select("dl.course-glossary > dt")
    assert [entry["id"] for entry in entries] == list(TERMS)
    names = [term.name.casefold() for term in TERMS.values()]
    assert names == sorted(names)
    for entry, term in zip(entries, TERMS.values(), strict=True):
        assert entry.select_one("[lang=zh]").get_text() == "，".join(term.chinese)
        assert bool(entry.find("math")) == bool(term.symbol)
        where = entry.find_next("a", class_="introduced")["href"]
        file, anchor = urldefrag(where)
        assert file == f"../{term.docname}.html"
        assert not anchor or pages[term.docname].find(id=anchor).name == "section"


def test_the_chinese_index_leads_to_every_term_by_its_sound(pages):
    items = pages["book/glossary"].select("ul.chinese-index > li")
    shown = [(item.select_one("[lang=zh]").get_text(), item.a["href"]) for item in items]
    assert sorted(shown) == sorted((words, f"#{term.anchor}") for term in TERMS.values() for words in term.chinese)
    order = [words for words, _ in shown]
    pairs = [
        ("查询", "点积"),
        ("点积", "键"),
        ("键", "权重"),
        ("权重", "掩码"),
        ("交叉注意力", "卷积"),
        ("熵", "数据类型"),
    ]
    assert [pair for pair in pairs if order.index(pair[0]) > order.index(pair[1])] == []
    for character in "".join(order).translate(glossary.SOUNDS_LIKE):
        if "\u4e00" <= character <= "\u9fff":  # level 1 of GB 2312, which is sorted by sound, ends at D7F9
            assert character.encode("gb2312") <= b"\xd7\xf9", character


def first(text, forms=("mask", "causal mask", "query"), docname="notebooks/03_matrix_and_masks", **changes):
    """What is linked in a small page (reStructuredText), as (term, the words before it)."""
    known = []
    for form in forms:
        fields = {"forms": [form], "marked": [], "uses": {docname}, "docname": docname, "heading": None}
        known.append(glossary.Term(name=form, chinese=["词"], symbol=None, says="It is.", **fields | changes))
    doctree = publish_doctree(f"Title\n=====\n\nA first paragraph.\n\n{text}\n", settings_overrides={"report_level": 5})
    if not isinstance(doctree[0], nodes.section):
        doctree.children = [nodes.section("", *doctree.children)]
    glossary.join_texts(doctree)
    places = glossary.first_uses(doctree, docname, known)
    return {name: place[0].astext()[: place[1]][-8:] for name, place in places.items()}


@pytest.mark.parametrize(
    "text, found",
    [
        ("one mask, two masks", {"mask": "one "}),
        ("two queries", {"query": "two "}),
        ("Masks act", {"mask": ""}),
        ("a causal\nmask", {"causal mask": "a "}),
        ("a causal mask is a mask", {"causal mask": "a ", "mask": "sk is a "}),
        ("unmask, masked, mask-like, non-mask", {}),
        ("``mask`` and `mask <x.html>`_, a mask", {"mask": ", a "}),
        ("a *mask* here", {"mask": ""}),
        ("a mask, then a **mask** here", {"mask": ""}),
        ("**No mask here**", {}),
        ("*Every Good Mask*", {}),
        ("*About 60 minutes, one mask.*", {}),
    ],
)
def test_what_counts_as_the_first_use(text, found):
    assert first(text) == found


def test_bold_counts_only_where_the_term_is_introduced():
    text = "a mask, then a **mask** here"
    assert first(text, uses={"other"} | {"notebooks/03_matrix_and_masks"}, heading="Elsewhere") == {"mask": ""} | {
        "mask": "a "
    }


def test_a_term_that_its_chapter_never_uses_is_reported(monkeypatch, sources):
    told = []
    monkeypatch.setattr(glossary.logger, "warning", lambda text, *arguments, **_: told.append(text % arguments))
    builder = SimpleNamespace(get_relative_uri=lambda _, to: f"{to}.html")
    doctree = publish_doctree("Title\n=====\n\nA query.\n\nText.\n")
    glossary.link_first_uses(SimpleNamespace(srcdir=sources, builder=builder), doctree, "notebooks/01_weights")
    own = [term for term in TERMS.values() if term.docname == "notebooks/01_weights"]
    assert len(told) == len(own) - 1 and not any("“query”" in text for text in told)
    assert doctree.next_node(nodes.reference)["refuri"] == "book/glossary.html#query"


# ---- the notation


def chapter_text(number, kind):
    notebook = json.loads((ROOT / f"{glossary.DOCNAMES[number - 1]}.ipynb").read_text("utf8"))
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] in kind)


def stands_in(letter, number):
    formulas = re.findall(r"\$\$(.+?)\$\$|\$([^$]+?)\$", chapter_text(number, ("markdown",)), flags=re.S)
    after = r"(?![A-Za-z_'])" if len(letter) == 1 else r"(?![A-Za-z'])" if letter[-1].isalpha() else ""
    search = re.compile(rf"(?<![A-Za-z\\]){re.escape(letter)}{after}")
    return any(search.search(block or inline) for block, inline in formulas)


ROWS = [row for rows in notation.letters(ROOT).values() for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row["letter"]))
def test_every_letter_and_name_of_the_notation_page_is_in_use(row):
    chapters = row["chapter"]
    assert len(chapters) in (1, len(row["letter"]))
    where = chapters if len(chapters) > 1 else chapters * len(row["letter"])
    for letter, number in zip(row["letter"], where, strict=True):
        assert stands_in(letter, number), f"chapter {number} has no formula with {letter}"
    for name in row["code"]:
        text = "\n".join(chapter_text(number, ("code", "markdown")) for number in chapters)
        assert re.search(rf"\b{name}\b", text), f"chapters {chapters} never write {name}"


def test_the_search_for_a_letter_can_fail():
    assert not stands_in("Z", 1) and not stands_in(r"\tau", 2) and stands_in(r"\mathbf q", 1)


def test_the_notation_page_has_a_table_for_each_group_and_a_row_for_each_letter(pages):
    tables = pages["book/notation"].select("table.notation")
    assert [len(table.select("tbody tr")) for table in tables] == [len(r) for r in notation.letters(ROOT).values()]
    for row in pages["book/notation"].select("table.notation tbody tr"):
        assert row.math and row.select_one("td:nth-child(5) [lang=zh]").get_text()


def test_symbols_of_the_glossary_stand_in_a_formula_of_their_chapter():
    for term in TERMS.values():
        for letter in re.split(r",\\? ", term.symbol or ""):
            number = glossary.DOCNAMES.index(term.docname) + 1
            short = re.sub(r"\s+", " ", letter)
            if short and len(short) < 16:
                assert stands_in(short, number), f"{term.name}: chapter {number} has no {short}"


# ---- the map


@pytest.fixture(scope="module")
def known():
    return course_map.read(ROOT)


def test_the_map_counts_what_the_registry_has(known):
    names = [name for _, name, _ in pkgutil.iter_modules(attnlab.exercises.__path__) if name.startswith("ch")]
    assert len(names) == len(known) == 6
    for name in names:
        module = importlib.import_module(f"attnlab.exercises.{name}")
        asked = [*exercises_of(module), *questions_of(module)]
        chapter = known[int(name[2])]
        assert (chapter.exercises, chapter.points) == (len(asked), sum(one.points for one in asked))


def test_the_map_follows_the_notebooks(sources, known):
    path = sources / "notebooks/05_efficient_variants.ipynb"
    rewrite(path, "About three hours to read", "About two hours to read")
    rewrite(path, "three more for the", "four more for the")
    notebook = json.loads(path.read_text("utf8"))
    exercise = next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("points"))
    exercise["metadata"]["nbgrader"]["points"] += 10
    path.write_text(json.dumps(notebook), "utf8")
    changed = course_map.read(sources)[5]
    assert (changed.reading, changed.practice, changed.points) == (120, 240, known[5].points + 10)
    assert sum(changed.sections.values()) < sum(known[5].sections.values())


def test_needs_and_minutes_are_read_from_the_first_lines(known):
    assert course_map.minutes("*About 75 minutes to read and run, 20 more for the\nexercises. …*") == (75, 20)
    with pytest.raises(Exception, match="no “About"):
        course_map.minutes("*It takes a while.*")
    line = "You need: chapters [1](a.ipynb) to [3](b.ipynb) (of chapter 3 [the\nmasks](c.ipynb#d)) and PyTorch. Some"
    assert course_map.needed(line) == {1: "", 2: "", 3: "the masks"}
    assert course_map.runs_on(line, []) == "PyTorch"
    assert course_map.runs_on("You need: chapter 1. Some cells ask PyTorch.", ["import torch", "model.missing()"]) == (
        "NumPy; PyTorch for some cells; real models for some cells"
    )
    for number, chapter in known.items():
        assert all(needed < number for needed in chapter.needs)
        assert abs(sum(chapter.sections.values()) - chapter.reading) <= len(chapter.sections) / 2


def test_needs_in_words():
    assert course_map.needs_in_words({}) == ""
    assert course_map.needs_in_words({1: "", 2: ""}) == "1, 2"
    assert course_map.needs_in_words({1: "", 3: "", 4: "", 5: "", 6: "the masks"}) == "1, 3–5; 6 in part"
    assert course_map.needs_in_words({3: "the masks"}) == "3 in part"


def test_sections_that_the_map_names_exist_and_paths_keep_their_promise(sources):
    assert course_map.problems(ROOT) == []
    rewrite(sources / "book/course_map.yml", '"5 / Windows": [', '"5 / Doors": [')
    rewrite(
        sources / "book/course_map.yml",
        '"3 / All queries at once": [',
        '"3 / All queries at once": ["2 / Saturation", ',
    )
    told = course_map.problems(sources)
    assert "there is no “5 / Doors”" in told and any("does not ask for" in text for text in told)
    shutil.copy(ROOT / "book/course_map.yml", sources / "book/course_map.yml")
    rewrite(sources / "book/course_map.yml", "at_most: 120", "at_most: 30")
    assert [text for text in course_map.problems(sources) if "“Two hours” takes" in text]


def test_the_picture_has_a_link_for_each_chapter_and_an_arrow_for_each_need(pages, known):
    picture = pages["book/course_map"].select_one("svg.course-map")
    assert [a["href"] for a in picture.find_all("a")] == [f"../{docname}.html" for docname in course.chapters(ROOT)]
    arrows = course_map.arrows(known)
    assert {(1, 2, ""), (1, 3, ""), (2, 4, ""), (3, 4, ""), (4, 5, ""), (4, 6, "")} <= set(arrows)
    assert [part for start, end, part in arrows if (start, end) == (5, 6)] == ["the cache and the window"]
    assert len(picture.select("path.arrow")) == len(arrows) and len(picture.select("path.partly")) == 1
    words = " ".join(picture.get_text(" ").split())
    for chapter in known.values():
        assert f"{chapter.reading} min to read {chapter.practice} min, {chapter.exercises} exercises" in words
    spoken = " ".join(picture.find_all("a")[5]["aria-label"].split())
    numbers = f"{known[6].reading} min to read, {known[6].practice} min, {known[6].exercises} exercises"
    assert spoken.startswith(f"6 · What weights can explain, {numbers}, PyTorch")
    assert spoken.endswith(", needs 1–4; 5 in part")
    rows = {}
    for rect in picture.find_all("rect"):
        left = float(rect["x"])
        rows.setdefault(rect["y"], []).append((left, left + float(rect["width"])))
    outer = {(min(left for left, _ in row), max(right for _, right in row)) for row in rows.values()}
    assert len(outer) == 1, "every row of the picture is as wide as the others"


def test_the_tables_and_paths_of_the_map_show_the_same_numbers(pages, known):
    page = pages["book/course_map"]
    rows = [
        [cell.get_text(strip=True) for cell in row.select("td")] for row in page.select("table.chapter-table tbody tr")
    ]
    for row, chapter in zip(rows, known.values(), strict=False):
        assert row[0].endswith(chapter.runs_on)
        assert row[2:6] == [str(n) for n in (chapter.reading, chapter.practice, chapter.exercises, chapter.points)]
    assert rows[-1][4:6] == [str(sum(c.exercises for c in known.values())), str(sum(c.points for c in known.values()))]
    plan = yaml.safe_load((ROOT / "book/course_map.yml").read_text("utf8"))
    for path in plan["paths"]:
        section = page.find(id=nodes.make_id(path["name"]))
        assert f"About {course_map.path_minutes(known, path)} minutes." in section.get_text()
        steps = section.select("ul.path li")
        assert len(steps) == len(path["sections"])
        for step, name in zip(steps, path["sections"], strict=True):
            assert step.select_one(".minutes").get_text(strip=True) == f"{course_map.length(known, name)} min"
            number, heading = course_map.place(name)
            docname = known[number].docname
            file, anchor = urldefrag(step.a["href"])
            assert file == f"../{docname}.html" and (not heading or pages[docname].find("section", id=anchor))
