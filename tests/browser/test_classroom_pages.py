"""The classroom's pages in a real browser: quiet, readable in both themes, on a phone and on paper."""

from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from classroom_results import NUMBERS, SITE, assignment, the_class
from nbformat.v4 import new_code_cell, new_notebook

from attnlab.classroom.gradebook.marks import Given, Mark
from attnlab.classroom.pages.feedback import feedback_page
from attnlab.classroom.pages.report import class_report

PHONE_360 = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
HTML = (
    "<script>document.title = 'taken'</script><img src=https://elsewhere.example/x onerror=\"document.title='taken'\">"
)
CODE = f"def f(x):\n    # {HTML}\n    return {' + '.join(map(str, range(80)))}"
ASSIGNMENT = assignment()


def results():
    """With a name, a remark and an id that would run, load or break the page."""
    first, *others, last = the_class()
    return [
        replace(first, student=HTML, remarks=(HTML,), words={"6.11": HTML + "word" * 200}),
        *others,
        replace(last, student="x" * 200),
    ]


def with_marks() -> str:
    """The page of somebody to whom a teacher has given points and comments, late, and in two notebooks."""
    parts = {"ex-1-2-answer": ("1.2", "answer"), "ex-1-2-check": ("1.2", "check"), "ex-6-11-words": ("6.11", "words")}
    released = new_notebook()
    for cell, (number, part) in parts.items():
        metadata = {"exercise": number, "part": part, "nbgrader": {"grade_id": cell}}
        released.cells.append(new_code_cell(metadata=metadata))
    said = f"{HTML}\n\n    an indented line\n{'word' * 100}"
    cells = {
        "ex-1-2-answer": Mark(comment=said),
        "ex-1-2-check": Mark(0.75, 0.25, by_hand=True, waits=True),
        "ex-6-11-words": Mark(4.0, 1.0, by_hand=True, comment=said),
        HTML: Mark(waits=True, comment=said),
    }
    worth = {"ex-1-2-check": 1.0, "ex-6-11-words": 5.0, HTML: 3.0}
    given = Given(cells, worth, points=4.75, others=2.0, penalty=1.5, total=5.25, most=12.0)
    return feedback_page(replace(ASSIGNMENT, released=released), answered(29), SITE, given)


def answered(which: int):
    return replace(results()[which], sources=dict.fromkeys(NUMBERS, CODE))


MAKE = {
    "feedback": lambda: feedback_page(ASSIGNMENT, answered(0), SITE),
    "feedback on nothing": lambda: feedback_page(ASSIGNMENT, results()[-1]),
    "feedback on mistakes": lambda: feedback_page(ASSIGNMENT, answered(29), SITE),
    "feedback with what was given": with_marks,
    "report": lambda: class_report(ASSIGNMENT, results(), SITE, page_of=lambda student: f"{student[:3]}.html"),
    "report without names": lambda: class_report(ASSIGNMENT, results(), anonymous=True),
}


@pytest.fixture(params=MAKE)
def opened(request, watched_page, tmp_path):
    """Each page as a file, opened; at the end nothing was requested, nothing went wrong, and nothing ran."""
    file = tmp_path / "page.html"
    file.write_text(MAKE[request.param](), "utf-8")
    page = watched_page.page
    page.goto(file.as_uri())
    title = page.title()
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    yield page
    assert title.startswith(("Feedback on week1", "Class report: week1")) and page.title() == title
    assert page.locator("script, img").count() == 0
    assert watched_page.requests == []
    assert watched_page.errors == []


def violations(page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("page_options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_axe_finds_nothing_in_either_theme(opened):
    assert violations(opened) == []


def test_the_themes_differ(opened):
    grounds = set()
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        grounds.add(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(255, 255, 255)", "rgb(20, 24, 30)"}


@pytest.mark.parametrize("page_options", [PHONE_360], indirect=True)
def test_a_phone_shows_the_page_without_sideways_scrolling(opened):
    assert opened.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    assert violations(opened) == []


def test_paper_is_white_and_cuts_no_code_off(opened):
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = "[...document.querySelectorAll('pre.answer')].filter(pre => pre.scrollWidth > pre.clientWidth).length"
    assert opened.evaluate(cut) == 0


@pytest.mark.parametrize("opened", ["report"], indirect=True)
def test_a_bar_is_as_long_as_the_numbers_beside_it_say(opened):
    row = opened.locator(".glance tbody tr").first
    numbers = [int(cell) for cell in row.locator("td").all_inner_texts()]
    assert numbers == [17, 15, 3, 2, 3]
    widths = row.locator(".bar i").evaluate_all("parts => parts.map(part => part.getBoundingClientRect().width)")
    whole = sum(widths)
    assert [round(40 * width / whole) for width in widths] == numbers


@pytest.mark.parametrize("opened", ["feedback with what was given"], indirect=True)
def test_a_comment_keeps_its_lines_and_is_text(opened):
    said = opened.locator(".comment .said")
    assert said.count() == 3
    for text in said.all_inner_texts():
        assert text.startswith(f"{HTML}\n\n    an indented line\nword")
