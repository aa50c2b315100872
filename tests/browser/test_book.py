"""The built book in a real browser: no request to another host, no complaint, narrow, dark, light, numbers right."""

import contextlib
import re
from pathlib import Path

import axe_playwright_python
import numpy as np
import pytest

import attnlab
from attnlab.figures._static.masking import SCORES, VALUES

PAGES = ["book/welcome", "book/how_to_use", "book/claims", "book/checker", "book/references", "search", "genindex"]
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
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")


@pytest.fixture(scope="module")
def served(serve, built_book):
    """The book over HTTP, from this machine."""
    return serve(built_book)


@pytest.fixture
def opened(browser, built_book):
    """opened("book/welcome", **context) → the page, with what it asked for and what it complained about."""
    with contextlib.ExitStack() as stack:

        def open_page(name, base=None, script=None, **options):
            context = stack.enter_context(contextlib.closing(browser.new_context(**options)))
            page = context.new_page()
            page.foreign, page.complaints, page.sizes = [], [], {}
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
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1] == PHONE["viewport"]["width"]
    quiet(page)


@pytest.mark.parametrize("name", ALL)
def test_axe_finds_nothing_in_either_theme(opened, name):
    page = opened(name, color_scheme="light", reduced_motion="reduce")  # or it would measure colours half way
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    page.emulate_media(color_scheme="dark")  # what changes with the theme is contrast
    page.wait_for_function("document.documentElement.dataset.theme == 'dark'")
    found += page.evaluate("axe.run({ resultTypes: ['violations'], runOnly: ['color-contrast'] })")["violations"]
    assert [f"{rule['id']}: {n['target']} {n['failureSummary']}" for rule in found for n in rule["nodes"]] == []


@pytest.mark.parametrize("name", [*CHAPTERS, "book/welcome"])
def test_weight(opened, served, name):
    """Uncompressed, without the pictures of the page. The stock page of this chapter weighs 3.5 MB in 28 requests."""
    page = opened(name, base=served)
    page.wait_for_load_state("networkidle")
    html = page.evaluate("fetch(location.href).then(r => r.text())")
    pictures = sum(map(len, re.findall(r"data:image/[^\"')]*", html)))
    pictures += sum(size for url, size in page.sizes.items() if re.search(r"\.(png|jpe?g|webp)$", url))
    weight = sum(page.sizes.values()) - pictures
    assert weight <= 1024 * 1024, sorted(page.sizes.items(), key=lambda item: -item[1])
    assert len(page.sizes) <= 30


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
    page.locator("attn-scoring").get_by_text("Gaussian", exact=True).click()
    for slider, value in (("q1", -1.5), ("q2", 2)):
        page.locator(f"attn-scoring input#{slider}").fill(str(value))
    keys = np.array([[3.0, 2.0], [1.0, 2.0], [-2.0, 1.0], [-1.0, -2.0], [0.5, 0.0]])
    weights = attnlab.softmax(attnlab.core.gaussian(np.array([-1.5, 2.0]), keys, 2**0.25))
    shown = page.locator("attn-scoring .card").inner_text()
    assert [w for w in weights if f"{100 * w:.1f} %" not in shown] == [] and "k₃ wins" in " ".join(shown.split())
    page.locator("attn-saturation input").first.press("Home")
    assert page.locator("attn-saturation").evaluate("el => el.state.power") == 0, "d = 1"
    cells = page.locator("attn-saturation tbody td").all_inner_texts()
    assert cells[0::2] == cells[1::2] and len(cells) == 10, "and √1 = 1: both columns agree"
    quiet(page)


def test_the_figure_of_chapter_3_is_painted_on(opened):
    page = opened(CHAPTERS[2])
    figure = page.locator("attn-masking")
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
    split = page.locator("attn-split-merge")
    assert "merged[1, 5] = b5" in " ".join(split.locator(".card").inner_text().split())
    split.get_by_text("no swap in merge", exact=True).click()
    assert "merged[2, 5] = b5" in " ".join(split.locator(".card").inner_text().split())  # in the row of token c
    heads = page.locator("attn-heads")
    heads.get_by_text("sink", exact=True).click()
    assert heads.evaluate("el => [el.state.layer, el.state.head]") == [2, 7]
    quiet(page)


@pytest.mark.parametrize("name", ["book/welcome", CHAPTERS[0]])
def test_moving_a_slider_gives_the_numbers_of_attnlab(opened, name):
    page = opened(name)
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


def test_the_switch_makes_page_and_figure_dark_and_a_reload_keeps_it(opened):
    page = opened("book/welcome", color_scheme="light")
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


# ---- search


def test_search_finds_a_word_from_a_folder_too(opened, served):
    for base in (None, served):
        page = opened("search", base=base)
        page.goto(page.url + "?q=temperature")
        page.locator("ul.search li a").first.wait_for(timeout=5000)
        quiet(page)


# ---- reading progress (claim S49)

CHAPTER = CHAPTERS[0]


@pytest.mark.parametrize("way", ["file", "http"])
def test_an_opened_chapter_gets_a_tick_that_stays_until_it_is_cleared(opened, served, way):
    page = opened("book/welcome", base=served if way == "http" else None)
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
    page.get_by_role("button", name="Forget what I have opened").click()
    assert page.locator(".opened-tick").count() == 0
    page.reload()
    assert page.locator(".opened-tick").count() == 0
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
    ],
    ids=["forbidden", "full", "not JSON", "not a list"],
)
def test_a_browser_that_stores_nothing_or_nonsense_still_shows_the_page(opened, broken):
    page = opened(CHAPTER, script=broken)
    assert page.locator(".bd-article h1").is_visible()
    assert page.locator("math").first.is_visible()
    quiet(page)
