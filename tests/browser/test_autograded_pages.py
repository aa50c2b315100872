"""What nbgrader's formgrader and its feedback show of hostile submissions, in a real browser: nothing comes alive.

MathJax, which those pages load from afar, is not there: what it would read of the page is looked at instead.
"""

import copy
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
import pytest
from classroom_grading import NAME, Course, with_cells
from classroom_payloads import HREF, LIVE, NAMES, PAYLOADS, PNG, TAGS
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from nbgrader.converters import GenerateFeedback
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from attnlab.classroom.gradebook.autograded import Released, autograded
from attnlab.classroom.gradebook.gradebook import Recorder
from attnlab.classroom.handout.handout import hand_out
from attnlab.classroom.handout.releasing import configured
from attnlab.exercises.engine import Exercise

WORDS = "ex-6-11-words"
INNOCENT = "I think so."
# Of a page: what could act, and what MathJax reads, one text a line.
LOOK = r"""() => {
  const all = [...document.querySelectorAll('*')];
  const attributes = all.flatMap(one => [...one.attributes].map(each => [one.localName, each.name, each.value]));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const skipped = 'script, noscript, style, textarea, pre, code, .tex2jax_ignore';
  const texts = [];
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest(skipped)) texts.push(walker.currentNode.data);
  }
  const ids = all.map(one => one.id).filter(id => id && !id.startsWith('%E2%80%8B'));  // as our headings' are not
  return {
    scripts: [...document.scripts].map(one => one.src || one.textContent),
    events: attributes.filter(([, name]) => name.startsWith('on')),
    links: attributes.filter(([, name, value]) => /href$|^(form)?action$/.test(name) && !value.startsWith('#')),
    loads: attributes.filter(([, name]) => ['src', 'srcset', 'srcdoc', 'data', 'poster', 'background'].includes(name)),
    tags: [...new Set(all.map(one => one.localName))],
    fields: [...document.querySelectorAll('.score, .comment, .extra-credit, .tabbable')].map(one => one.id),
    taken: ids.filter((id, at) => ids.indexOf(id) !== at),
    cards: document.querySelectorAll('.attnlab-card').length,
    typeset: document.querySelectorAll('.attnlab-card:not(.tex2jax_ignore.mathjax_ignore *)').length,
    texts: texts.join('\n'),
  };
}"""
KINDS = ("formgrade", "feedback")


@dataclass
class Pages:
    """Pages of nbgrader, made as it makes them, of a course in which nobody has handed in."""

    course: Course
    released: Released
    exporters: dict[str, HTMLExporter]
    innocent: dict[str, dict] = field(default_factory=dict)  # what there is in the page of an innocent submission

    def autograded(self, text: str, names: tuple[str, ...] = ()) -> nbformat.NotebookNode:
        """Of a submission with this text wherever a student can put one, and with pictures of these names."""
        notebook = self.course.notebook(words=text)
        more = [new_markdown_cell(text), new_raw_cell(text), new_code_cell(f"# {text}\n'''{text}'''")]
        notebook = with_cells(notebook, *more, new_markdown_cell(INNOCENT, metadata={"nbgrader": {"grade_id": text}}))
        for cell in notebook.cells:
            if cell.metadata.get("part") == "answer":
                cell.source = f"# {text}"
            if cell.cell_type == "markdown" and cell.source == text:
                cell.attachments = {name: {"image/png": PNG} for name in names}
        result = self.course.result("mallory", words=text, remarks=(text, f"` {text} `"))
        verdicts = {each.number: verdict(each, text) for each in self.course.exercises}
        return autograded(replace(result, verdicts=verdicts), notebook, self.released)

    def html(self, kind: str, page: nbformat.NotebookNode) -> str:
        name = self.course.assignment.notebook
        resources = {  # as formgrader's handler and GetGrades give them
            "formgrade": {"assignment_id": NAME, "notebook_id": name, "submission_id": "7", "index": 0, "total": 1}
            | {"base_url": "", "student": "mallory", "first_name": None, "last_name": None, "notebook_path": name},
            "feedback": {"nbgrader": {"notebook": name, "score": 0, "max_score": 9, "late_penalty": 0}},
        }[kind]
        if kind == "feedback":
            page = copy.deepcopy(page)
            for cell in page.cells:
                cell.metadata.get("nbgrader", {}).update(score=0, points=1, comment=None)
        return self.exporters[kind].from_notebook_node(page, resources=resources)[0]


def verdict(exercise: Exercise, text: str):
    """The judgement of an answer that says this text."""

    def raises(*_):
        raise ValueError(f"` {text} ` and {text}")

    def gives(*_):
        return text

    return exercise.judge(gives if exercise.number == "1.3" else raises)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("settings")))
        root = tmp_path_factory.mktemp("pages") / "course"
        hand_out(root, NAME, numbers=["1.1", "1.2", "1.3", "6.11"])
        course = Course(root)
        with Recorder(root, [course.assignment]) as recorder:
            released = recorder.released[course.assignment.notebook]
        formgrade = Config()  # as FormgradeExtension sets it
        formgrade.HTMLExporter.template_name = "formgrade"
        formgrade.HTMLExporter.extra_template_basedirs = [handlers.template_path]
        feedback = GenerateFeedback(coursedir=configured(root).coursedir).config
        exporters = {"formgrade": HTMLExporter(config=formgrade), "feedback": HTMLExporter(config=feedback)}
        yield Pages(course, released, exporters)


@pytest.fixture
def look(pages, watched_page, tmp_path):
    """look("formgrade", page) → what there is in it, once it has loaded; at the end nothing has run."""
    dialogs = []
    watched_page.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

    def look(kind: str, page: nbformat.NotebookNode) -> dict:
        file = Path(tmp_path / f"{kind}.html")
        file.write_text(pages.html(kind, page), "utf-8")
        watched_page.page.goto(file.as_uri())
        return watched_page.page.evaluate(LOOK)

    for kind in KINDS:
        pages.innocent[kind] = pages.innocent.get(kind) or look(kind, pages.autograded(INNOCENT))
    yield look
    assert dialogs == []
    assert {re.sub(r"\?.*", "", each) for each in watched_page.requests} <= {
        "https://cdnjs.cloudflare.com/ajax/libs/mathjax/2.7.7/latest.js"
    }


def same_but_for_words(seen: dict, innocent: dict) -> None:
    """Beside words, a page has only what the page of an innocent submission has."""
    for part in ("scripts", "events", "links", "fields", "taken", "cards", "typeset"):
        assert seen[part] == innocent[part], part
    pictures = [each for each in seen["loads"] if each not in innocent["loads"]]
    assert all(each == ["img", "src", f"data:image/png;base64,{PNG}"] for each in pictures)
    assert set(seen["tags"]) <= {*innocent["tags"], *TAGS.split()}
    assert not set(LIVE.split()) & set(re.findall(r"\\([A-Za-z]+)", seen["texts"]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_innocent_page_is_nbgraders(pages, look, kind):
    """What the others are compared with, and what MathJax is told."""
    seen, html = pages.innocent[kind], pages.html(kind, pages.autograded(INNOCENT))
    assert (seen["cards"], seen["typeset"]) == (4, 0)
    assert seen["texts"].count(INNOCENT) == 4  # the words, and three cells that were added
    assert WORDS in seen["fields"] or kind == "feedback"
    assert all(not value or re.match(r"/formgrader/", value) for _, _, value in seen["links"])
    # It keeps out of elements of MathJax's own class, unless it is told otherwise.
    assert "tex2jax: {" in html and not re.search("ignoreClass|processClass|skipTags|ignoreHtmlClass", html)


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
def test_nothing_that_a_student_wrote_comes_alive(pages, look, text):
    page = pages.autograded(text, ("x.png",))
    for kind in KINDS:
        same_but_for_words(look(kind, page), pages.innocent[kind])


def test_no_name_of_a_picture_comes_alive(pages, look):
    """The name of a picture in front of another's: what follows the one is a link in the other's Markdown."""
    for name in NAMES:
        text = f"![p](attachment:{name}) [solution](javascript:alert(1)) ![p](attachment:x.png)"
        for kind in KINDS:
            seen = look(kind, pages.autograded(text, (name, "x.png")))
            same_but_for_words(seen, pages.innocent[kind])
            assert len([each for each in seen["loads"] if each[2].startswith("data:")]) >= 2  # it is shown


def test_what_a_card_quotes_is_there_and_is_no_formula(pages, look):
    text = f"` {HREF} `"
    for kind in KINDS:
        seen = look(kind, pages.autograded(text))
        assert seen["cards"] == 4 and "click" not in seen["texts"].replace("\u200bhref{javascript:alert(1)}{click}", "")
    assert pages.autograded(text).cells[0].source.count(HREF) == 2


def test_honest_words_read_well(pages, look, watched_page):
    text = (
        "# My view\n\nThe *query* asks, **not** the key; `w[i, j]` is small:\n\n- one\n- two\n\n"
        "$\\alpha_i < \\beta$ and\n\n$$\\frac{1}{\\sqrt{d}}$$\n\n![drawn](attachment:x.png)\n\n```python\nw @ v\n```"
    )
    for kind in KINDS:
        seen = look(kind, pages.autograded(text, ("x.png",)))
        cell = watched_page.page.locator(".nbgrader_cell .text_cell_render").last
        assert [cell.locator(tag).inner_text() for tag in ("em", "strong", "p code")] == ["query", "not", "w[i, j]"]
        assert cell.locator("li").all_inner_texts() == ["one", "two"]
        assert cell.locator("pre").inner_text().strip() == "w @ v"
        assert cell.locator("h1").inner_text().strip("\u200b¶") == "My view"
        assert cell.locator("img").evaluate("img => [img.alt, img.naturalWidth]") == ["drawn", 1]
        assert "$\\alpha_i < \\beta$" in seen["texts"] and "$$\\frac{1}{\\sqrt{d}}$$" in seen["texts"]
