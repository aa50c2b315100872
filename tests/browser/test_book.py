"""The built book in a real browser: no request to another host, no complaint, narrow, dark, light, numbers right."""

import contextlib
import io
import re
import threading
from pathlib import Path

import axe_playwright_python
import matplotlib.pyplot as plt
import numpy as np
import pydata_sphinx_theme
import pytest
import sphinx_book_theme
from serving import Quiet

import attnlab
from attnlab import selftests
from attnlab.figures._static.masking import SCORES, VALUES

PAGES = [
    "book/welcome",
    "book/how_to_use",
    "book/course_map",
    "book/teaching_guide",
    "book/glossary",
    "book/notation",
    "book/claims",
    "book/checker",
    "book/references",
    "search",
    "genindex",
]
CHAPTERS = [
    "notebooks/01_weights",
    "notebooks/02_scoring",
    "notebooks/03_matrix_and_masks",
    "notebooks/04_multi_head",
    "notebooks/05_efficient_variants",
    "notebooks/06_interpretability",
]
SOLUTIONS = [name.replace("notebooks/", "notebooks/solutions/") for name in CHAPTERS]
ALL = PAGES + CHAPTERS + SOLUTIONS
# What a sheet says of the elements of this page: [number of its selectors that match one, those that the page lacks].
MET = """async ([css, file]) => {
  const split = text => text.split(/,(?![^(]*[)])/).map(one => one.trim());
  const selectors = rules => [...rules].flatMap(rule =>
    rule.selectorText ? split(rule.selectorText) : rule.cssRules && !rule.name ? selectors(rule.cssRules) : []);
  const state = /::?(before|after|hover|focus-visible|focus-within|focus|active|target|-webkit[a-z-]+|placeholder)/g;
  const matches = one => {
    try { return document.querySelector(one.replace(state, "") || "*"); } catch { return false; }
  };
  const full = new CSSStyleSheet();
  full.replaceSync(css);
  const address = [...document.querySelectorAll("link[rel=stylesheet]")].find(link => link.href.includes(file)).href;
  const kept = new CSSStyleSheet();
  kept.replaceSync(await fetch(address).then(answer => answer.text()));
  const there = new Set(selectors(kept.cssRules));
  const met = selectors(full.cssRules).filter(one => !/[.]fa-/.test(one) && matches(one));
  return [met.length, met.filter(one => !there.has(one))];
}"""
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")


@pytest.fixture(scope="module")
def served(serve, built_book):
    """The book over HTTP, from this machine.

    What a page remembers is tested here alone: now and then Chromium drops at a reload what a page that was opened
    from a folder has just stored, a page with a single line of script, too.
    """
    return serve(built_book)


@pytest.fixture
def opened(browser, built_book):
    """opened("book/welcome", **context) → the page, with what it asked for and what it complained about."""
    with contextlib.ExitStack() as stack:

        def open_page(name, base=None, script=None, **options):
            context = stack.enter_context(contextlib.closing(browser.new_context(**options)))
            page = context.new_page()
            page.foreign, page.complaints, page.sizes, page.asked = [], [], {}, []
            page.on("request", lambda request: page.asked.append(request.url))
            here = base or built_book.as_uri()

            def only_here(route):
                if route.request.url.startswith((here, "data:", "blob:")):
                    return route.continue_()
                page.foreign.append(route.request.url)
                return route.abort()

            page.route("**/*", only_here)
            page.on("console", lambda m: m.type in ("error", "warning") and page.complaints.append(m.text))
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on(
                "requestfailed", lambda r: "ABORTED" in r.failure or page.complaints.append(f"{r.failure}: {r.url}")
            )
            page.on("response", lambda r: page.sizes.update({r.url: len(r.body()) if r.ok else 0}))
            if script:
                page.add_init_script(script)
            page.goto(f"{here}/{name}.html", wait_until="load")
            return page

        yield open_page


STARTED = "selector => [...document.querySelectorAll(selector)].every(el => el.shadowRoot)"


def live(page, element):
    """Scroll to a figure and wait until its script has run."""
    host = page.locator(element).first
    host.scroll_into_view_if_needed()
    page.wait_for_function(STARTED, arg=element)
    return host


def everything_live(page):
    page.evaluate("for (const el of document.querySelectorAll('[data-script]')) el.dispatchEvent(new Event('focusin'))")
    page.wait_for_function(STARTED, arg="[data-script]")


def quiet(page):
    page.wait_for_timeout(100)
    assert page.foreign == []
    assert page.complaints == []


# ---- on every page


@pytest.mark.parametrize("name", [*ALL, "index"])
@pytest.mark.parametrize("way", ["file", "http"])
def test_no_request_leaves_the_host_and_nothing_complains(opened, served, way, name):
    quiet(opened(name, base=served if way == "http" else None))


@pytest.mark.parametrize("name", ALL)
def test_a_phone_shows_the_page_without_sideways_scrolling(opened, name):
    page = opened(name, **PHONE)
    everything_live(page)
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1] == PHONE["viewport"]["width"]
    quiet(page)


@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing_in_either_theme(opened, name):
    page = opened(name, color_scheme="light", reduced_motion="reduce")  # or it would measure colours half way
    everything_live(page)
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    page.emulate_media(color_scheme="dark")  # what changes with the theme is contrast
    page.wait_for_function("document.documentElement.dataset.theme == 'dark'")
    found += page.evaluate("axe.run({ resultTypes: ['violations'], runOnly: ['color-contrast'] })")["violations"]
    assert [f"{rule['id']}: {n['target']} {n['failureSummary']}" for rule in found for n in rule["nodes"]] == []


@pytest.mark.parametrize("name", ALL)
def test_weight(opened, served, name):
    """Uncompressed, without the pictures, with every figure started. `make bench` shows a stock build beside it."""
    page = opened(name, base=served)
    everything_live(page)
    page.wait_for_load_state("networkidle")
    html = page.evaluate("fetch(location.href).then(r => r.text())")
    pictures = sum(map(len, re.findall(r"data:image/[^\"')]*", html)))
    pictures += sum(size for url, size in page.sizes.items() if re.search(r"\.(png|jpe?g|webp)$", url))
    weight = sum(page.sizes.values()) - pictures
    assert weight <= (850 if name in CHAPTERS else 560) * 1024, sorted(page.sizes.items(), key=lambda item: -item[1])
    assert len(page.sizes) <= 34


@pytest.mark.parametrize("name", [page for page in ALL if page != "search"])
def test_no_script_stands_before_the_text(opened, served, name):
    """What a browser must have before it paints is the page and its styles; search alone needs its scripts in order."""
    page = opened(name, base=served)
    loaded = "performance.getEntriesByType('resource').filter(e => e.renderBlockingStatus === 'blocking')"
    blocking = page.evaluate(f"{loaded}.map(e => [e.name, e.decodedBodySize])")
    assert all(re.search(r"\.css(\?|$)", url) for url, _ in blocking), blocking
    assert 0 < len(blocking) <= 10 and sum(size for _, size in blocking) <= 240 * 1024, blocking


@pytest.mark.parametrize("name", ["book/welcome", "search", CHAPTERS[2], SOLUTIONS[5]])
def test_the_styles_kept_every_rule_that_an_element_of_the_page_meets(opened, served, name):
    """The stylesheets are cut down: a selector of the theme that matches something here must still be there."""
    page = opened(name, base=served)
    packages = [(pydata_sphinx_theme, "pydata-sphinx-theme.css"), (sphinx_book_theme, "sphinx-book-theme.css")]
    for package, file in packages:
        (source,) = Path(package.__file__).parent.rglob(f"static/styles/{file}")
        met, gone = page.evaluate(MET, [source.read_text("utf-8"), f"styles/{file}"])
        assert met > 20 and gone == []


# ---- figures


def texts(page, element):
    """The numbers that a figure shows, by name."""
    return page.evaluate(
        """name => Object.fromEntries([...document.querySelector(name).shadowRoot.querySelectorAll('[data-t]')]
           .map(e => [e.dataset.t, e.textContent]))""",
        element,
    )


def number(text):
    return float(text.replace("−", "-").removesuffix(" %"))


def test_the_figures_of_chapter_2_answer_as_attnlab_does(opened):
    page = opened(CHAPTERS[1])
    live(page, "attn-scoring").get_by_text("Gaussian", exact=True).click()
    for slider, value in (("q1", -1.5), ("q2", 2)):
        page.locator(f"attn-scoring input#{slider}").fill(str(value))
    keys = np.array([[3.0, 2.0], [1.0, 2.0], [-2.0, 1.0], [-1.0, -2.0], [0.5, 0.0]])
    weights = attnlab.softmax(attnlab.core.gaussian(np.array([-1.5, 2.0]), keys, 2**0.25))
    shown = page.locator("attn-scoring .card").inner_text()
    assert [w for w in weights if f"{100 * w:.1f} %" not in shown] == [] and "k₃ wins" in " ".join(shown.split())
    live(page, "attn-saturation").locator("input").first.press("Home")
    assert page.locator("attn-saturation").evaluate("el => el.state.power") == 0, "d = 1"
    cells = page.locator("attn-saturation tbody td").all_inner_texts()
    assert cells[0::2] == cells[1::2] and len(cells) == 10, "and √1 = 1: both columns agree"
    quiet(page)


def test_the_figure_of_chapter_3_is_painted_on(opened):
    page = opened(CHAPTERS[2])
    figure = live(page, "attn-masking")
    figure.get_by_role("button", name="none", exact=True).click()
    figure.locator(".cell").nth(3 * 5 + 4).click()  # query 4 may no longer see key 5
    shown = texts(page, "attn-masking")
    allowed = np.arange(5) < 4
    expected = attnlab.attend(np.array(SCORES[3], float), np.array(VALUES, float)[:, None], allowed)
    np.testing.assert_allclose([number(shown[f"w{15 + j}"]) for j in range(5)], expected.weights, atol=5e-4)
    assert number(shown["o3"]) == pytest.approx(expected.output[0], abs=5e-4)
    quiet(page)


def test_the_figures_of_chapter_4_follow_a_number_and_choose_a_head(opened):
    page = opened(CHAPTERS[3])
    split = live(page, "attn-split-merge")
    assert "merged[1, 5] = b5" in " ".join(split.locator(".card").inner_text().split())
    split.get_by_text("no swap in merge", exact=True).click()
    assert "merged[2, 5] = b5" in " ".join(split.locator(".card").inner_text().split())  # in the row of token c
    heads = live(page, "attn-heads")
    heads.get_by_text("sink", exact=True).click()
    assert heads.evaluate("el => [el.state.layer, el.state.head]") == [2, 7]
    quiet(page)


@pytest.mark.parametrize("name", ["book/welcome", CHAPTERS[0]])
def test_moving_a_slider_gives_the_numbers_of_attnlab(opened, name):
    page = opened(name)
    live(page, "attn-mixture")
    keys, values = np.eye(2), np.array([[2.0, 0.0], [0.0, 4.0]])
    for q1, q2 in [(1, 0), (0, 0), (0, 1), (-1.3, 2.4), (3, -3)]:
        for slider, value in (("q1", q1), ("q2", q2)):
            page.locator(f"attn-mixture input#{slider}").first.fill(str(value))
        output, weights = attnlab.attention(np.array([q1, q2], float), keys, values)
        shown = texts(page, "attn-mixture")
        assert [number(shown["a1"]), number(shown["a2"])] == pytest.approx(weights, abs=5.1e-4)
        assert [number(shown["o1"]), number(shown["o2"])] == pytest.approx(output, abs=5.1e-4)
        assert number(shown["p1"]) == pytest.approx(100 * weights[0], abs=5.1e-2)
    quiet(page)


def test_a_slider_obeys_the_arrow_keys_and_the_page_stays(opened):
    page = opened("book/welcome")
    slider = page.locator("attn-mixture input#q1").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "1.1"
    assert page.url.endswith("welcome.html")
    quiet(page)


def test_the_welcome_page_shows_the_moving_figure_before_any_text_asks_for_patience(opened):
    page = opened("book/welcome", viewport={"width": 1280, "height": 800})
    figure = page.locator("attn-mixture").bounding_box()
    assert figure["y"] < 300
    before = page.evaluate(
        """() => { const range = document.createRange(), article = document.querySelector('article h1');
           range.setStartBefore(article); range.setEndBefore(document.querySelector('attn-mixture'));
           return range.cloneContents().textContent.replace(/<script>.*/s, ''); }"""
    )
    assert len(re.sub(r"\(\(\) =>.*", "", before, flags=re.S).split()) < 40


def background(page, selector, inside=""):
    return page.evaluate(
        """([selector, inside]) => { const found = document.querySelector(selector);
           return getComputedStyle(inside ? found.shadowRoot.querySelector(inside) : found).backgroundColor; }""",
        [selector, inside],
    )


def test_the_switch_makes_page_and_figure_dark_and_a_reload_keeps_it(opened, served):
    page = opened("book/welcome", base=served, color_scheme="light")
    live(page, "attn-mixture")
    light = background(page, "body"), background(page, "attn-mixture", ".card")
    while page.evaluate("document.documentElement.dataset.mode") != "dark":
        page.locator(".theme-switch-button").first.click()
    dark = background(page, "body"), background(page, "attn-mixture", ".card")
    assert light == ("rgb(255, 255, 255)", "rgb(255, 255, 255)")
    assert all(max(map(int, re.findall(r"\d+", colour))) < 60 for colour in dark)
    page.reload()
    assert background(page, "body") == dark[0]
    quiet(page)


def test_paper_is_light_and_unfolded_and_the_screen_is_as_before_afterwards(opened):
    page = opened(CHAPTERS[0], color_scheme="dark")
    folded = page.locator(".bd-article details:not([open])").count()
    assert folded
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert background(page, "body") == "rgb(255, 255, 255)"
    assert page.locator(".bd-article details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert background(page, "body") != "rgb(255, 255, 255)"
    assert page.locator(".bd-article details:not([open])").count() == folded
    assert len(page.pdf()) > 50_000


# ---- the look


def pixels(page, locator):
    """What is seen of an element, (height, width, 3)."""
    locator.scroll_into_view_if_needed()
    return plt.imread(io.BytesIO(locator.screenshot()))[..., :3]


@pytest.mark.parametrize("name", CHAPTERS)
def test_plots_take_the_paper_of_the_dark_theme(opened, name):
    page = opened(name, color_scheme="dark", reduced_motion="reduce")
    plots = page.locator(".cell_output img[src*='_images/']")
    assert plots.count() > 0
    for plot in plots.all():
        shown = pixels(page, plot)
        corners = shown[[2, 2, -3, -3], [2, -3, 2, -3]]  # the page's own bar may lie over one
        np.testing.assert_allclose(np.median(corners, axis=0), np.array([0x14, 0x18, 0x1E]) / 255, atol=1.01 / 255)
        assert shown.max() > 0.85, "and its words are light"
        assert len(plot.get_attribute("alt")) > 60


def test_without_scripts_the_page_is_light_and_has_all_its_colours(opened):
    page = opened(CHAPTERS[0], java_script_enabled=False, color_scheme="dark")
    page.mouse.wheel(0, 900)
    for part in (".bd-header-article", "body"):
        top = plt.imread(io.BytesIO(page.locator(part).first.screenshot()))[..., :3]
        np.testing.assert_allclose(top[3, 3], 1, atol=0.01)
    code = plt.imread(io.BytesIO(page.locator("div.highlight pre").first.screenshot()))[..., :3]
    np.testing.assert_allclose(code[8, 8], np.array([0xF3, 0xF5, 0xF8]) / 255, atol=0.01)


def test_a_long_code_says_that_it_goes_on_and_is_reached_by_key(opened):
    page = opened(CHAPTERS[0], **PHONE)
    edges = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article div.highlight pre')].map(pre =>
           [pre.scrollWidth > pre.clientWidth, pre.tabIndex === 0, getComputedStyle(pre).backgroundImage !== 'none'])"""
    )
    assert {tuple(edge) for edge in edges} == {(True, True, True), (False, False, True)}
    box = page.locator(".bd-article div.highlight pre[tabindex]").first
    at_start = pixels(page, box)
    box.evaluate("pre => { pre.scrollLeft = pre.scrollWidth; }")
    at_end = pixels(page, box)
    right, left = np.s_[20:-4, -6:-3], np.s_[20:-4, 4:7]
    assert at_start[right].mean() < at_end[right].mean() - 0.03, "a shadow on the right until the end is reached"
    assert at_end[left].mean() < at_start[left].mean() - 0.03, "then on the left"


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_breaks_no_word_of_a_table_or_heading_and_leaves_no_sign_alone_on_a_line(opened, width):
    page = opened(CHAPTERS[5], **PHONE | {"viewport": {"width": width, "height": 740}})
    broken = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article :is(table, h2, h3) code .pre')].flatMap(code =>
           [...code.childNodes].filter(part => {
             const range = document.createRange(); range.selectNode(part);
             return part.nodeType === 3 && range.getClientRects().length > 1 && !/\\s/.test(part.data);
           }).map(part => part.data))"""
    )
    assert broken == []
    signs = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article .headerlink')].map(link => {
             const style = getComputedStyle(link);
             return style.display === 'none' || style.position === 'absolute'; })"""
    )
    assert len(signs) > 10 and all(signs)


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("name", ["book/teaching_guide", "book/how_to_use", CHAPTERS[2], SOLUTIONS[2]])
def test_a_line_of_text_ends_within_a_name_only_where_the_name_is_long_and_has_a_joint(opened, name, width):
    page = opened(name, viewport={"width": width, "height": 740})
    broken = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article :is(p, li) > code:not(table *) .pre')].flatMap(word => {
             const walk = document.createTreeWalker(word, NodeFilter.SHOW_TEXT), range = document.createRange();
             let seen = '', last = null, found = [];
             while (walk.nextNode()) for (let i = 0; i < walk.currentNode.length; i++) {
               range.setStart(walk.currentNode, i); range.setEnd(walk.currentNode, i + 1);
               const { top, width } = range.getBoundingClientRect();
               if (width && last !== null && top > last + 3) found.push([word.textContent, seen]);
               if (width) last = top;
               seen += range.toString();
             }
             return found; })"""
    )
    assert [(word, line) for word, line in broken if len(word) <= 24 or line[-1] not in "._/"] == []


def test_the_tick_stands_beside_the_longest_title_and_moves_nothing(opened):
    page = opened(CHAPTERS[5])
    link = page.locator(".bd-docs-nav li.current > a").first
    tick, line = link.locator(".opened-tick").bounding_box(), link.bounding_box()
    assert line["y"] <= tick["y"] and tick["y"] + tick["height"] <= line["y"] + line["height"] + 1
    assert tick["x"] >= 0 and tick["x"] + tick["width"] <= line["x"]
    heights = "() => [...document.querySelectorAll('.bd-docs-nav li > a')].map(a => a.offsetHeight)"
    with_ticks = page.evaluate(heights)
    ticked = "link => link.append(' ', document.querySelector('.opened-tick').cloneNode(true))"
    page.evaluate(f"document.querySelectorAll('.bd-docs-nav li > a').forEach({ticked})")
    everywhere = page.evaluate(heights)
    page.evaluate("document.querySelectorAll('.opened-tick').forEach(tick => tick.remove())")
    assert with_ticks == everywhere == page.evaluate(heights)
    first = page.evaluate(
        """() => { const range = document.createRange();
           range.selectNodeContents(document.querySelector('.bd-docs-nav li.current > a').firstChild);
           return range.getClientRects()[0].top; }"""
    )
    assert abs(first - tick["y"]) < 6, "on the first line"


@pytest.fixture
def slow(serve, built_book):
    """The address of the book, and an event: of a page only the first 150 kB come until it is set."""
    go = threading.Event()

    class Slow(Quiet):
        def copyfile(self, source, outputfile):
            if self.path.endswith(".html"):
                outputfile.write(source.read(150_000))
                go.wait(60)
            super().copyfile(source, outputfile)

    yield serve(built_book, Slow), go
    go.set()


SHIFTS = """window.shifts = 0; new PerformanceObserver(list => list.getEntries().forEach(e => { shifts += e.value; }))
    .observe({ type: 'layout-shift', buffered: true })"""


@pytest.mark.parametrize("width", [390, 1200, 1280, 1600])
def test_the_text_stays_where_it_is_while_the_rest_of_the_page_arrives(browser, slow, width):
    """The list of headings stands behind the text, in a column of its own: once it took that from the text."""
    places = """[...document.querySelectorAll('.bd-article :is(h1, p, div.cell)')].slice(0, 20)
        .map(e => e.getBoundingClientRect())"""
    address, go = slow
    with contextlib.closing(browser.new_context(viewport={"width": width, "height": 900})) as context:
        page = context.new_page()
        page.add_init_script(SHIFTS)
        go.set()
        page.goto(f"{address}/{CHAPTERS[0]}.html")  # then styles and fonts are there
        go.clear()
        page.goto(f"{address}/{CHAPTERS[5]}.html", wait_until="commit")
        page.locator(".bd-article div.cell").nth(8).wait_for(state="attached")
        frames = "new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)))"
        page.evaluate(frames)
        early, contents = page.evaluate(places), page.locator("#pst-page-toc-nav")
        assert contents.count() == 0
        go.set()
        page.locator(".bd-docs-nav .opened-tick").nth(1).wait_for(state="attached")
        page.wait_for_load_state("load")
        page.evaluate(frames)
        assert contents.count() == 1 and page.evaluate("matchMedia('(min-width: 1200px)').matches") == (width >= 1200)
        assert page.evaluate(places) == early and len(early) == 20
        assert page.evaluate("shifts") < 0.02


# ---- when figures and self-tests start


def asked_for(page):
    return sorted(re.findall(r"_static/((?:figures/\w+|selftest)\.js)", " ".join(page.asked)))


@pytest.mark.parametrize("way", ["file", "http"])
def test_a_script_is_asked_for_once_and_only_when_what_needs_it_comes_near(opened, served, way):
    page = opened(CHAPTERS[0], base=served if way == "http" else None)
    page.evaluate("new Promise(requestAnimationFrame)")
    assert asked_for(page) == [], "the first screen of chapter 1 needs none"
    assert page.locator("attn-mixture img").is_visible(), "the still picture is there"
    live(page, "attn-mixture")
    assert "figures/mixture.js" in asked_for(page) and "figures/sharpness.js" not in asked_for(page)
    page.locator("attn-mixture input#q1").press("Home")
    assert page.locator("attn-mixture").evaluate("el => el.state.q1") == -3
    everything_live(page)
    assert asked_for(page) == ["figures/mixture.js", "figures/sharpness.js", "selftest.js"]
    assert len(selftests.questions(1)) == page.locator("attn-selftest").count()
    quiet(page)


def test_the_keyboard_passes_by_no_figure_and_starts_it(opened):
    page = opened(CHAPTERS[0])
    page.evaluate("""() => { const link = document.createElement('button');
        document.querySelector('attn-sharpness').before(link); link.focus({ preventScroll: true }); }""")
    page.keyboard.press("Tab")
    inside = "document.activeElement.shadowRoot?.activeElement?.tagName"
    page.wait_for_function(inside)
    assert page.evaluate("document.activeElement.localName") == "attn-sharpness" and page.evaluate(inside) == "INPUT"
    assert page.locator("attn-sharpness[tabindex]").count() == 0
    quiet(page)


@pytest.mark.parametrize(
    "script",
    ["delete window.IntersectionObserver", "addEventListener('load', () => dispatchEvent(new Event('beforeprint')))"],
)
def test_without_an_observer_and_before_printing_everything_starts(opened, script):
    page = opened(CHAPTERS[0], script=script)
    page.wait_for_function(STARTED, arg="[data-script]")
    assert page.foreign == []  # the theme's own script complains without an observer


def test_a_script_that_does_not_arrive_leaves_the_still_picture(opened):
    page = opened("book/welcome", script="HTMLHeadElement.prototype.append = () => { window.refused = true }")
    page.wait_for_function("window.refused")
    assert page.locator("attn-mixture figcaption").is_visible()
    quiet(page)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("name", CHAPTERS)
def test_what_starts_takes_the_room_that_was_kept_for_it(opened, name, width):
    """Figures to a tenth of their height, as pages.css keeps it; self-tests to a line of text."""
    hold = "const append = HTMLHeadElement.prototype.append; HTMLHeadElement.prototype.append = function (el) {"
    hold += " (window.held ??= []).push(() => append.call(this, el)) }"
    page = opened(name, script=hold, viewport={"width": width, "height": 800})
    measure = """() => [...document.querySelectorAll('[data-script]')]
        .map(el => [el.getAttribute('question') ?? el.localName, el.getBoundingClientRect().height])"""
    page.evaluate("for (const el of document.querySelectorAll('[data-script]')) el.dispatchEvent(new Event('focusin'))")
    kept = page.evaluate(measure)
    page.evaluate("held.forEach(go => go())")
    page.wait_for_function(STARTED, arg="[data-script]")
    for (what, before), (_, after) in zip(kept, page.evaluate(measure), strict=True):
        assert after == pytest.approx(before, rel=0.1 if what.startswith("attn-") else 0, abs=24), what


# ---- formulas


def test_a_root_is_drawn_and_takes_no_more_room_than_it_needs(opened):
    """The font once lacked √, which no text contains, and the page said 2 for √2; then a gap followed each root."""
    page = opened("book/claims")
    root, inside, formula = page.evaluate(
        """() => { const root = document.querySelector('#S11 msqrt');
           return [root, root.firstElementChild, root.closest('math')].map(e => e.getBoundingClientRect()); }"""
    )
    assert inside["left"] - root["left"] > 6
    assert formula["right"] - inside["right"] < 2


def test_formulas_and_text_are_there_without_scripts(opened):
    page = opened("notebooks/01_weights", java_script_enabled=False)
    assert page.locator("math").count() > 5
    assert page.locator("math").first.bounding_box()["width"] > 5
    assert page.locator("attn-mixture figcaption").first.is_visible()


def test_on_paper_a_self_test_that_never_started_gives_nothing_away_above_its_last_line(opened):
    page = opened(CHAPTERS[0], script="Element.prototype.attachShadow = null; customElements.define = () => {}")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for asked in page.locator("attn-selftest").all():
        reasons = asked.locator("details > p:visible")
        assert reasons.count() == 1 and reasons.inner_text().startswith("✓ Right.")
        last = max(box["y"] for box in (one.bounding_box() for one in asked.locator("summary").all()))
        assert reasons.bounding_box()["y"] > last
    letter = "el => getComputedStyle(el, '::before').content"
    assert "upper-alpha" in page.locator("attn-selftest summary").first.evaluate(letter)


# ---- search


def test_search_finds_a_word_from_a_folder_too(opened, served):
    for base in (None, served):
        page = opened("search", base=base)
        page.goto(page.url + "?q=temperature")
        page.locator("ul.search li a").first.wait_for(timeout=5000)
        quiet(page)


@pytest.mark.parametrize("way", ["file", "http"])
def test_words_are_marked_in_the_article_that_a_hit_leads_to_and_nowhere_else(opened, served, way):
    base = served if way == "http" else None
    page = opened("search", base=base)
    page.goto(page.url + "?q=weights")
    address = page.url
    hit = page.locator("ul.search li a[href*='01_weights.html']").first
    hit.wait_for(timeout=5000)
    page.wait_for_load_state("networkidle")  # the extracts are there
    page.goto(hit.get_attribute("href"))
    page.locator(".highlighted").first.wait_for(timeout=5000)
    marked = page.locator(".highlighted")
    words = {text.lower() for text in marked.all_text_contents()}
    assert words == {"weights"} and page.locator(".bd-article .highlighted").count() == marked.count()
    assert page.locator(":is(svg, math, attn-selftest) .highlighted").count() == 0
    assert "highlight" not in page.url
    page.get_by_role("button", name="Hide search matches").click()
    assert marked.count() == 0 and page.locator(".highlight-link").count() == 0
    page.goto(address)
    hit.wait_for(timeout=5000)
    page.wait_for_load_state("networkidle")
    page.goto(page.url.replace("search.html?q=weights", f"{CHAPTERS[0]}.html"))  # not by a hit
    page.wait_for_timeout(100)
    assert marked.count() == 0 and page.locator(".highlight-link").count() == 0
    quiet(page)


def test_an_old_search_in_storage_marks_nothing(opened):
    page = opened(CHAPTERS[0], script="localStorage.setItem('sphinx_highlight_terms', 'weights')")
    page.wait_for_timeout(100)  # Sphinx marks after ten milliseconds
    assert page.locator(".highlighted, .highlight-link").count() == 0


def test_an_extract_is_text_of_the_article(opened, served):
    page = opened("search", base=served)
    text = """async ([address, anchor]) => Search.htmlToText(await (await fetch(address)).text(), anchor)"""
    whole = page.evaluate(text, [f"{CHAPTERS[0]}.html", ""])
    title = page.evaluate(
        """async address => new DOMParser().parseFromString(await (await fetch(address)).text(), 'text/html')
             .querySelector('.bd-article h1').firstChild.data""",
        f"{CHAPTERS[0]}.html",
    )
    assert whole.startswith(title) and "On this page" not in whole and "Skip to" not in whole
    assert "✓ Right." not in whole and "Check yourself" in whole
    assert page.evaluate(text, [f"{CHAPTERS[0]}.html", "#summary"]).startswith("Summary")
    page.goto(page.url + "?q=temperature")
    page.locator("ul.search p.context").first.wait_for(timeout=5000)
    assert not any("On this page" in one for one in page.locator("ul.search p.context").all_text_contents())
    quiet(page)


# ---- on this page


def test_on_a_phone_the_list_of_headings_closes_over_the_heading_that_was_tapped(opened):
    page = opened(CHAPTERS[0], **PHONE)
    sheet = page.locator("#pst-secondary-sidebar-modal")
    backdrop = """el => { const look = getComputedStyle(el, '::backdrop');
        return [look.backgroundColor, look.opacity] }"""
    page.locator("button.secondary-toggle").tap()
    looks = sheet.evaluate(backdrop)
    sheet.locator("a[href='#summary']").tap()
    page.wait_for_function("!document.getElementById('pst-secondary-sidebar-modal').open")
    page.wait_for_timeout(700)  # the theme scrolls smoothly
    top = page.locator("section#summary h2").bounding_box()["y"]
    assert 0 <= top < 250 and page.url.endswith("#summary")
    page.locator("button.primary-toggle").tap()
    assert page.locator("#pst-primary-sidebar-modal").evaluate(backdrop) == looks == ["rgb(0, 0, 0)", "0.5"]
    quiet(page)


def test_the_list_of_headings_follows_the_reader_and_leaves_the_page_alone(opened):
    page = opened(CHAPTERS[0], viewport={"width": 1400, "height": 420}, reduced_motion="reduce")
    page.add_style_tag(content="html { scroll-behavior: auto !important; }")
    shown = """id => { const box = document.querySelector('.bd-sidebar-secondary').getBoundingClientRect();
        const entry = document.querySelector('#pst-page-toc-nav a[aria-current]');
        const { top, bottom } = entry?.getBoundingClientRect() ?? {};
        return entry?.hash === '#' + id && box.top <= top && bottom <= box.bottom }"""
    assert page.locator(".bd-sidebar-secondary").evaluate("el => el.scrollHeight > 1.5 * el.clientHeight")
    for anchor in ("summary", "two-values-and-their-shares"):
        page.evaluate("id => document.getElementById(id).scrollIntoView()", anchor)
        before = page.evaluate("scrollY")
        page.wait_for_function(shown, arg=anchor, timeout=5000)
        assert page.evaluate("scrollY") == before
    quiet(page)


CURRENT = "() => document.querySelector('#pst-page-toc-nav a[aria-current]')?.hash ?? null"


def test_the_list_of_headings_marks_the_section_that_a_jump_ends_in(opened):
    page = opened(CHAPTERS[5], viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    assert page.evaluate(CURRENT) is None, "at the top there is no section yet"
    own, inside = page.evaluate(
        """() => { const tag = [...document.querySelectorAll('.bd-article a.claim-tag[id]')].find(tag =>
             tag.getBoundingClientRect().top - tag.closest('section').getBoundingClientRect().top > 700);
             return ['#' + tag.closest('section').id, '#' + tag.id]; }"""
    )
    marked = f"hash => ({CURRENT})() === hash"
    for hash, section in ((inside, own), ("#summary", "#summary"), (inside, own)):
        page.evaluate("hash => { location.hash = hash }", hash)
        page.wait_for_function(marked, arg=section, timeout=5000)
        assert page.locator("#pst-page-toc-nav a.active").evaluate_all("all => all.map(a => a.hash)") == [section]
    page.goto(page.url)  # and where the page is opened there
    page.reload()
    page.wait_for_function(marked, arg=own, timeout=5000)
    quiet(page)


def test_the_list_of_headings_follows_the_reader_upwards(opened):
    page = opened(CHAPTERS[5], viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    hashes = page.locator("#pst-page-toc-nav a").evaluate_all("all => all.map(a => a.hash)")
    before, after = hashes[-4], hashes[-3]
    marked = f"hash => ({CURRENT})() === hash"
    page.evaluate("hash => document.querySelector(hash).scrollIntoView()", after)
    page.wait_for_function(marked, arg=after, timeout=5000)
    page.mouse.move(600, 500)
    page.mouse.wheel(0, -400)  # the end of the section before, whose heading is out of sight
    page.wait_for_function(marked, arg=before, timeout=5000)
    assert page.locator(f"{before} :is(h2, h3)").first.bounding_box()["y"] < -100
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function(marked, arg=None, timeout=5000)
    quiet(page)


# ---- reading progress (claim S49)

CHAPTER = CHAPTERS[0]


def test_an_opened_chapter_gets_a_tick_that_stays_until_it_is_cleared(opened, served):
    page = opened("book/welcome", base=served)
    link = page.locator(".bd-docs-nav a", has_text=re.compile("Weights")).first
    assert page.locator(".opened-tick").count() == 0
    assert page.locator("[data-reading-progress]").inner_text().startswith("No chapter opened yet.")
    page.goto(page.url.replace("book/welcome", CHAPTER))
    assert "✓" in link.inner_text() and "(opened)" in link.text_content()
    page.goto(page.url.replace(CHAPTER, "book/welcome"))
    page.reload()
    assert "✓" in link.inner_text()
    assert page.locator("[data-reading-progress]").inner_text().startswith(f"Opened so far: 1 of {len(CHAPTERS)}.")
    assert page.locator(".chapter-map .opened-tick").count() == 1
    page.get_by_role("button", name="Forget chapters and self-tests").click()
    assert page.evaluate("document.activeElement.innerText") == "Forgotten: chapters and self-tests."
    assert page.evaluate("document.activeElement.getAttribute('role')") == "status"
    assert page.locator(".opened-tick").count() == 0
    page.reload()
    assert page.locator("[data-reading-progress]").inner_text().startswith("No chapter opened yet.")
    assert page.locator(".opened-tick").count() == 0
    quiet(page)


def test_right_answers_are_counted_and_forgotten_with_what_was_opened(opened, served):
    asked = selftests.questions(1)
    page = opened(CHAPTER, base=served)
    line = page.locator("[data-selftests]")
    assert line.inner_text().strip() == f"0 of {len(asked)} self-tests of this chapter right."
    assert line.evaluate("el => el.closest('section').querySelector('h2').firstChild.data") == "Summary"
    right = next(number for number, choice in enumerate(asked[0].choices) if choice.right)
    live(page, "attn-selftest").get_by_role("button").nth(right).click()
    assert line.inner_text().strip().startswith("1 of ")
    page.reload()
    assert line.inner_text().strip().startswith("1 of ")
    page.goto(page.url.replace(CHAPTER, "book/welcome"))
    assert "Self-tests right: 1." in page.locator("[data-reading-progress]").inner_text()
    page.get_by_role("button", name="Forget chapters and self-tests").click()
    assert "Self-tests" not in page.locator("[data-reading-progress]").inner_text()
    page.goto(page.url.replace("book/welcome", CHAPTER))
    assert line.inner_text().strip().startswith("0 of ")
    assert live(page, "attn-selftest").locator("[aria-pressed=true]").count() == 0
    quiet(page)


def test_reading_progress_stays_in_this_browser(opened, served):
    page = opened(CHAPTER, base=served)
    assert page.context.cookies() == []
    assert page.evaluate("Object.keys(localStorage).filter(key => key.startsWith('attention'))") == [
        "attention-measured.opened"
    ]
    assert page.evaluate("localStorage['attention-measured.opened']") == f'["{CHAPTER}"]'
    other = opened("book/welcome", base=served)  # another reader's browser
    assert other.locator(".opened-tick").count() == 0


@pytest.mark.parametrize(
    "broken",
    [
        "Object.defineProperty(window, 'localStorage', {configurable: true, get() { throw new DOMException('no'); }})",
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
        "localStorage.setItem('attention-measured.opened', '{not json')",
        "localStorage.setItem('attention-measured.opened', '7')",
        "localStorage.setItem('attention-measured.selftests', 'null')",
        "localStorage.setItem('attention-measured.selftests', '[null, 7]')",
    ],
    ids=["forbidden", "full", "not JSON", "not a list", "answers: null", "answers: a list"],
)
def test_a_browser_that_stores_nothing_or_nonsense_still_shows_the_page(opened, broken):
    page = opened(CHAPTER, script=broken)
    assert page.locator(".bd-article h1").is_visible()
    assert page.locator("math").first.is_visible()
    assert page.locator("[data-selftests]").inner_text().strip().startswith("0 of ")
    quiet(page)
