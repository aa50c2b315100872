"""Finding things in a real browser: from a term to its entry, by search in two languages, on the map."""

import re

import pytest

PAGES = ["glossary", "notation", "course_map"]
NARROW = {"viewport": {"width": 320, "height": 700}}
NO_SCRIPT = {"java_script_enabled": False}


@pytest.fixture
def opened(watched_page, built_book, serve):
    """opened("book/glossary", "http") → the page; at the end nothing was asked elsewhere and nothing complained."""

    def open_page(name, way="file"):
        base = built_book.as_uri() if way == "file" else serve(built_book)
        watched_page.page.goto(f"{base}/{name}", wait_until="load")
        return watched_page.page

    yield open_page
    assert watched_page.requests == []
    assert watched_page.errors == []


@pytest.mark.parametrize("way", ["file", "http"])
@pytest.mark.parametrize("words, anchor", [("掩码", "mask"), ("键值缓存", "kv-cache"), ("causal mask", "causal-mask")])
def test_the_search_finds_a_term_in_both_languages_and_lands_on_it(opened, way, words, anchor):
    page = opened(f"search.html?q={words}", way)
    found = page.locator(f"ul.search a[href*='glossary.html'][href$='#{anchor}']").first
    found.wait_for(timeout=10_000)
    assert page.locator("ul.search li a").first.get_attribute("href") == found.get_attribute("href")
    found.click()
    page.wait_for_url(re.compile(rf"glossary\.html.*#{anchor}$"))
    entry = page.locator(f"dt#{anchor}")
    assert entry.bounding_box()["y"] < page.viewport_size["height"]
    assert words in entry.inner_text() or words == "causal mask"
    background = "e => getComputedStyle(e).backgroundColor"
    assert entry.evaluate(background) != page.locator("dt").first.evaluate(background)


@pytest.mark.parametrize("way", ["file", "http"])
def test_a_term_in_a_chapter_leads_to_its_entry_and_back_to_where_it_is_introduced(opened, way):
    page = opened("notebooks/06_interpretability.html", way)
    page.locator("a.term", has_text="null space").click()
    page.wait_for_url(re.compile(r"book/glossary\.html#null-space$"))
    page.locator("dt#null-space + dd a.introduced").click()
    page.wait_for_url(re.compile(r"06_interpretability\.html#different-weights-one-output$"))


def test_a_term_is_quiet_until_it_has_the_focus(opened):
    page = opened("notebooks/01_weights.html")
    term = page.locator("a.term").first
    style = "e => { const s = getComputedStyle(e); return [s.color, s.textDecorationStyle, s.textDecorationLine]; }"
    ink = term.locator("xpath=..").evaluate("e => getComputedStyle(e).color")
    assert term.evaluate(style) == [ink, "dotted", "underline"]
    term.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert term.evaluate("e => e == document.activeElement && e.matches(':focus-visible')")
    assert term.evaluate(style)[0] != ink
    assert term.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"


@pytest.mark.parametrize("page_options", [NARROW], indirect=True, ids=["320"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_scrolls_sideways_on_the_narrowest_phone(opened, name):
    page = opened(f"book/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize(
    "page_options", [{"viewport": {"width": width, "height": 800}} for width in (1280, 390, 320)], indirect=True
)
@pytest.mark.parametrize("name", ["notation", "course_map", "checker"])
def test_no_table_hides_a_column(opened, name):
    page = opened(f"book/{name}.html")
    tables = page.evaluate(
        "[...document.querySelectorAll('.pst-scrollable-table-container')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert tables and max(tables) <= 0


@pytest.mark.parametrize("page_options", [NARROW], indirect=True, ids=["320"])
def test_the_picture_of_the_map_is_read_at_320_pixels(opened):
    page = opened("book/course_map.html")
    boxes = page.evaluate(
        """[...document.querySelectorAll('svg.course-map a')].map(a => {
             const frame = a.querySelector('rect').getBoundingClientRect();
             return [...a.querySelectorAll('text')].map(text => { const line = text.getBoundingClientRect();
               return [line.left - frame.left, frame.right - line.right,
                       line.top - frame.top, frame.bottom - line.bottom, line.height]; }); })"""
    )
    assert len(boxes) == 6
    for lines in boxes:
        for *inside, height in lines:
            assert min(inside) > 0 and height > 12


@pytest.mark.parametrize("page_options", [{"color_scheme": "dark"}], indirect=True, ids=["dark"])
def test_the_map_follows_the_theme(opened):
    page = opened("book/course_map.html")
    ink, box = page.evaluate(
        """['text', 'rect'].map(s => getComputedStyle(document.querySelector('svg.course-map ' + s)).fill)"""
    )
    assert all(int(n) > 150 for n in re.findall(r"\d+", ink)) and all(int(n) < 80 for n in re.findall(r"\d+", box))


def test_the_map_is_walked_with_the_keyboard(opened):
    page = opened("book/course_map.html")
    page.locator("svg.course-map a").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("2 · Scoring")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"02_scoring\.html"))


@pytest.mark.parametrize("page_options", [NO_SCRIPT], indirect=True, ids=["no script"])
def test_all_of_it_is_there_without_scripts(opened):
    page = opened("book/glossary.html")
    assert page.locator("dl.course-glossary > dt").count() > 90
    assert page.locator("ul.chinese-index li").first.is_visible()
    page = opened("book/course_map.html")
    assert page.locator("svg.course-map a").count() == 6 and page.locator("svg.course-map").is_visible()
    page = opened("search.html")
    assert not page.locator(".bd-search-container form").is_visible()
    for words, file in (("The index", "genindex.html"), ("the glossary", "book/glossary.html")):
        assert page.locator(".bd-search-container a", has_text=words).get_attribute("href") == file


def test_the_search_box_has_one_frame(opened):
    page = opened("book/glossary.html")
    page.wait_for_function("document.readyState == 'complete'")
    page.keyboard.press("Control+k")
    frames = page.evaluate(
        """[document.activeElement, document.activeElement.form].flatMap(e => { const s = getComputedStyle(e);
             return [s.outlineStyle, s.boxShadow]; }).filter(s => s != 'none')"""
    )
    assert frames == ["solid"]


@pytest.mark.parametrize("page_options", [{"viewport": {"width": 320, "height": 700}}], indirect=True, ids=["320"])
def test_no_line_begins_with_the_mark_after_a_formula(opened):
    page = opened("notebooks/03_matrix_and_masks.html")
    split = page.evaluate(
        """[...document.querySelectorAll('.bd-article p > .formula, .bd-article .unbroken > .formula')].filter(f => {
             const next = f.nextSibling;
             if (!next || next.nodeType != 3 || !/^[.,;:!?)]/.test(next.data)) return false;
             const range = document.createRange(); range.setStart(next, 0); range.setEnd(next, 1);
             return range.getBoundingClientRect().left < f.getBoundingClientRect().left; }).map(f => f.textContent)"""
    )
    assert split == [] and page.locator(".unbroken").count() > 20


def test_who_asks_for_less_motion_gets_none(opened):
    page = opened("book/glossary.html")
    moving = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(e =>
             getComputedStyle(e).transitionDuration.split(',').some(s => parseFloat(s))).map(e => e.className)"""
    )
    assert moving == []
