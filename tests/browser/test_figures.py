"""The live figures in a real browser: numbers, hands, themes, and what they leave behind."""

import itertools
from math import log, sqrt

import numpy as np
import pytest
from conftest import NO_MOTION, PHONE

import attnlab
from attnlab import figures

TAGS = {"mixture": "attn-mixture", "sharpness": "attn-sharpness"}
DARK, LIGHT = "rgb(20, 24, 30)", "rgb(255, 255, 255)"
PHONE_320 = PHONE | {"viewport": {"width": 320, "height": 640}}


@pytest.fixture
def page_options(request):
    return NO_MOTION | getattr(request, "param", {})


@pytest.fixture
def show(watched_page, tmp_path):
    """show(html) opens it as a file; at the end nothing was requested and nothing went wrong."""

    def show(*parts, head=""):
        html = "\n".join(part if isinstance(part, str) else part._repr_html_() for part in parts)
        file = tmp_path / "page.html"
        viewport = '<meta name="viewport" content="width=device-width">'
        file.write_text(f'<!doctype html><html><head><meta charset="utf-8">{viewport}{head}</head>{html}', "utf-8")
        watched_page.page.goto(file.as_uri())
        return watched_page.page

    yield show
    assert watched_page.requests == []
    assert watched_page.errors == []


@pytest.fixture(params=figures.NAMES)
def name(request):
    return request.param


def figure(name, **options):
    return getattr(figures, name)(**options)


def text(page, name, which=0):
    """All the text of a figure, spaces evened out."""
    return " ".join(page.locator(TAGS[name]).nth(which).locator(".card").inner_text().split())


def state(page, name):
    return page.locator(TAGS[name]).evaluate("el => el.state")


def written(page, name, slot):
    return page.locator(f"{TAGS[name]} [data-t={slot}]").first.text_content()


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_mixture_shows_the_example_of_the_seed(show):
    shown = text(show(figures.mixture()), "mixture")
    for piece in (
        "67.0 %",
        "33.0 %",
        "O = [1.340, 1.321]",
        "score 0.707",
        "score 0.000",
        "q = [1.0, 0.0]",
        "α = [0.670",
    ):
        assert piece in shown


def test_sharpness_starts_from_the_same_example(show):
    shown = text(show(figures.sharpness()), "sharpness")
    for piece in ("67.0 %", "33.0 %", "Δ/T = 0.707", "ln n = 0.000", "σ(0.707 + 0.000) = 0.66976", "n/(n + 1) = 0.500"):
        assert piece in shown


def test_mixture_computes_what_attnlab_computes(show):
    page = show(figures.mixture())
    axis = [round(-3 + 0.4 * i, 10) for i in range(16)] + [-1000.0, 0.1 + 0.2, 1000.0]
    queries = np.array(list(itertools.product(axis, axis)))
    code = "qs => qs.map(([q1, q2]) => customElements.get('attn-mixture').compute({ q1, q2 }))"
    results = page.evaluate(code, queries.tolist())
    expected = attnlab.attention(queries, np.eye(2), np.array([[2.0, 0.0], [0.0, 4.0]]))
    assert len(results) == 361
    np.testing.assert_allclose([r["weights"] for r in results], expected.weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose([r["output"] for r in results], expected.output, rtol=0, atol=1e-12)
    np.testing.assert_allclose([r["scores"] for r in results], queries / sqrt(2), rtol=0, atol=1e-12)


def test_sharpness_computes_what_attnlab_computes(show):
    page = show(figures.sharpness())
    grid = itertools.product(
        (0.1, 0.25, 1.0, 3.16, 10.0), (-4.0, -1.3, 0.0, 2**-0.5, 4.0), (1, 2, 3, 10), (False, True)
    )
    states = [dict(zip(("temperature", "delta", "copies", "masked"), point, strict=True)) for point in grid]
    results = page.evaluate("s => s.map(customElements.get('attn-sharpness').compute)", states)
    assert len(results) == 200
    for s, r in zip(states, results, strict=True):
        scores = np.array([s["delta"]] * s["copies"] + [0.0]) / s["temperature"]
        if s["masked"]:
            scores[-1] = -np.inf
        weights = attnlab.softmax(scores)
        np.testing.assert_allclose(r["weights"], weights, rtol=0, atol=1e-12)
        assert r["total"] == pytest.approx(weights[:-1].sum(), abs=1e-12)
        if s["masked"]:
            assert r["weights"][-1] == 0 and r["total"] == 1, "exactly"
        else:
            logit = s["delta"] / s["temperature"] + log(s["copies"])
            assert r["logit"] == pytest.approx(logit, abs=1e-12), "T divides the scores, not ln n"


def test_moving_the_query_along_the_dotted_line_changes_no_weight(show):
    page = show(figures.mixture())
    code = """el => Array.from({ length: 41 }, (_, i) => {
      el.change({ q1: i / 10 - 1.5, q2: i / 10 - 2.5 });
      const shown = (slot) => el.shadowRoot.querySelector(`[data-t=${slot}]`).textContent;
      return ['p1', 'p2', 'o1', 'o2'].map(shown).join(' ');
    })"""
    shown = set(page.locator("attn-mixture").evaluate(code))
    assert shown == {"67.0 % 33.0 % 1.340 1.321"}


def test_presets_of_the_sharpness(show):
    page = show(figures.sharpness())
    presets = {"T = 0.1": "0.99915", "T = 10": "0.51767", "n = 3": "0.85884", "n = 10": "0.95301", "start": "0.66976"}
    for preset, total in presets.items():
        page.get_by_role("button", name=preset, exact=True).click()
        assert written(page, "sharpness", "total") == written(page, "sharpness", "tag") == total
        assert page.locator("attn-sharpness [aria-pressed=true]").all_text_contents() == [preset]


def test_presets_of_the_mixture(show):
    page = show(figures.mixture())
    for preset, weights, output in (
        ("[0, 0]", "50.0 % 50.0 %", "[1.000, 2.000]"),
        ("[0, 1]", "33.0 % 67.0 %", "[0.660, 2.679]"),
        ("[2, 1]", "67.0 % 33.0 %", "[1.340, 1.321]"),
    ):
        page.get_by_role("button", name=preset, exact=True).click()
        assert f"{written(page, 'mixture', 'p1')} {written(page, 'mixture', 'p2')}" == weights
        assert f"O = {output}" in text(page, "mixture")


def test_mask_gives_exactly_zero(show):
    page = show(figures.sharpness(copies=3))
    page.get_by_label("mask key 2").check()
    assert written(page, "sharpness", "other") == "0 % exactly"
    assert written(page, "sharpness", "total") == "1" and written(page, "sharpness", "ratio") == "∞"
    page.get_by_label("mask key 2").uncheck()
    assert written(page, "sharpness", "total") == "0.85884"


def test_a_rounded_weight_never_claims_to_be_zero_or_one(show):
    page = show(figures.sharpness(temperature=0.1, delta=4))
    assert written(page, "sharpness", "total") == "> 0.99999" and written(page, "sharpness", "other") == "< 0.1 %"
    page.locator("attn-sharpness").evaluate("el => el.change({ delta: -4 })")
    assert written(page, "sharpness", "total") == "< 0.00001" and written(page, "sharpness", "other") == "> 99.9 %"
    assert written(page, "sharpness", "tag").startswith("←")


# --- hands -----------------------------------------------------------------------------------------------------------


def test_slider_by_keyboard(show):
    page = show(figures.mixture())
    slider = page.get_by_role("slider", name="query q₁")
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    assert state(page, "mixture") == {"q1": 0, "q2": 0}
    assert written(page, "mixture", "p1") == "50.0 %"
    page.keyboard.press("End")
    assert state(page, "mixture")["q1"] == 3
    assert slider.get_attribute("aria-valuetext") == "3.0. Weights 89.3 % and 10.7 %. Output [1.786, 0.428]"


def test_slider_by_mouse(show):
    page = show(figures.sharpness())
    box = page.get_by_role("slider", name="copies").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    assert written(page, "sharpness", "total") == "0.95301"
    box = page.get_by_role("slider", name="temperature").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    assert state(page, "sharpness")["temperature"] == 0.1
    assert written(page, "sharpness", "temperature") == "0.100"


def place(page, q1, q2):
    """Where a query lies on the screen."""
    box = page.locator("attn-mixture .plot").first.bounding_box()
    return box["x"] + box["width"] * (q1 + 3.4) / 6.8, box["y"] + box["height"] * (3.4 - q2) / 6.8


def test_drag_by_mouse_keeps_the_grip_and_stays_in_the_plane(show):
    page = show(figures.mixture())
    x, y = place(page, 1, 0)
    page.mouse.move(x + 6, y - 5)
    page.mouse.down()
    page.mouse.move(x + 6, y - 5)
    assert state(page, "mixture") == {"q1": 1, "q2": 0}, "taking hold moves nothing"
    to_x, to_y = place(page, -2, 1.5)
    page.mouse.move(to_x + 6, to_y - 5, steps=5)
    assert state(page, "mixture") == {"q1": -2, "q2": 1.5}
    page.mouse.move(2, 2)
    assert state(page, "mixture") == {"q1": -3, "q2": 3}
    page.mouse.up()
    page.mouse.move(x, y)
    assert state(page, "mixture") == {"q1": -3, "q2": 3}, "let go"
    assert "98.6 %" in text(page, "mixture")


def test_click_in_the_plane_moves_the_query_there(show):
    page = show(figures.mixture())
    page.mouse.click(*place(page, 0, 2))
    assert state(page, "mixture") == {"q1": 0, "q2": 2}


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_drag_by_touch_and_scroll_beside_the_handle(show):
    page = show(figures.mixture(), "<div style='height:2000px'></div>")
    touch = page.context.new_cdp_session(page)

    def swipe(start, end):
        points = [(start[0] + (end[0] - start[0]) * t / 8, start[1] + (end[1] - start[1]) * t / 8) for t in range(9)]
        for kind, (x, y) in zip(["touchStart"] + ["touchMove"] * 8, points, strict=True):
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    page.touchscreen.tap(*place(page, 2, -1))
    page.wait_for_function("document.querySelector('attn-mixture').state.q1 === 2")
    page.wait_for_timeout(400)  # or Chromium takes the next touch for a double tap
    swipe(place(page, 2, -1), place(page, -1, -2))
    assert state(page, "mixture") == {"q1": -1, "q2": -2}
    assert page.evaluate("scrollY") == 0, "the handle keeps the finger to itself"
    page.wait_for_timeout(400)
    page.get_by_role("button", name="[0, 1]").tap()
    assert state(page, "mixture") == {"q1": 0, "q2": 1}
    page.wait_for_timeout(400)
    swipe(place(page, 2, 0.5), place(page, 2, 4))
    page.wait_for_function("scrollY > 20")
    assert state(page, "mixture") == {"q1": 0, "q2": 1}, "beside the handle the page scrolls"


def test_arrow_keys_move_the_tip_and_stay_in_the_figure(show):
    page = show(figures.mixture())
    page.evaluate("addEventListener('keydown', (e) => (window.heard ??= []).push(e.key))")
    handle = page.get_by_role("slider", name="tip of the query")
    handle.focus()
    for key in ("ArrowRight", "ArrowUp", "Shift+ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    assert state(page, "mixture") == {"q1": 0.9, "q2": 0.5}
    assert handle.get_attribute("aria-valuetext") == "Query [0.9, 0.5]. Weights 57.0 % and 43.0 %"
    page.keyboard.press("a")
    assert page.evaluate("heard.filter((key) => key !== 'Shift')") == ["a"], "a book turns its pages on arrow keys"
    host = page.locator("attn-mixture")
    assert host.get_attribute("data-lm-suppress-shortcuts") == "true", "and JupyterLab its cells"


def test_escape_gives_the_keys_back_to_the_notebook(show, name):
    page = show('<div class="jp-Cell" tabindex="-1">', figure(name), "</div>")
    page.get_by_role("slider").first.focus()
    assert page.evaluate("document.activeElement.tagName.toLowerCase()") == TAGS[name]
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "jp-Cell"


def test_everything_is_reached_by_tab(show, name):
    page = show(figure(name))
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("n => document.querySelector(n).shadowRoot.activeElement?.tagName", TAGS[name]))
    expected = {
        "mixture": ["DIV"] + ["INPUT"] * 2 + ["BUTTON"] * 4,
        "sharpness": ["INPUT"] * 3 + ["BUTTON"] * 5 + ["INPUT"],
    }[name]
    assert reached[: len(expected)] == expected and reached[len(expected)] is None


def test_the_summary_is_spoken_once_the_reader_stops(show):
    page = show(figures.mixture())
    live = page.locator("attn-mixture [role=status]")
    page.wait_for_timeout(900)
    assert live.text_content() == "", "silent at the start"
    code = """el => {
      window.spoken = 0;
      new MutationObserver(() => spoken++).observe(el, { subtree: true, characterData: true });
    }"""
    live.evaluate(code)
    page.locator("attn-mixture").evaluate("el => { for (let i = 1; i <= 5; i++) el.change({ q2: i / 10 }) }")
    page.wait_for_function("spoken")
    assert page.evaluate("spoken") == 1
    assert live.text_content() == "Weights 58.7 % and 41.3 %. Output [1.175, 1.650]"


@pytest.mark.parametrize("page_options", [{"reduced_motion": "no-preference"}], indirect=True)
def test_a_preset_glides_and_arrives(show):
    page = show(figures.mixture())
    page.evaluate("addEventListener('attn-change', (e) => (window.way ??= []).push(e.detail.weights[0]))")
    page.get_by_role("button", name="[0, 1]", exact=True).click()
    page.wait_for_function("document.querySelector('attn-mixture').state.q2 === 1")
    way = page.evaluate("way")
    assert len(way) > 1 and way == sorted(way, reverse=True), "through the weights between"
    assert state(page, "mixture") == {"q1": 0, "q2": 1}
    page.get_by_role("button", name="[2, 1]", exact=True).click()
    page.get_by_role("slider", name="query q₁").press("Home")
    page.wait_for_timeout(450)
    assert state(page, "mixture")["q1"] == -3, "a hand stops the glide"


# --- the page around it ----------------------------------------------------------------------------------------------


def test_a_change_is_told_to_the_page(show):
    page = show(figures.sharpness(), "<output></output>")
    page.evaluate("document.body.addEventListener('attn-change', (e) => { window.told = e.detail })")
    page.locator("attn-sharpness").evaluate("el => el.setAttribute('copies', 2)")
    assert page.evaluate("window.told") is None, "the page knows what it did itself"
    page.get_by_role("slider", name="copies").press("ArrowRight")
    told = page.evaluate("told")
    assert told["copies"] == 3 and told["total"] == pytest.approx(0.85884, abs=1e-5) and len(told["weights"]) == 4


def test_attributes_from_outside(show):
    page = show(figures.mixture(q1=0.5, q2=-2), figures.sharpness(temperature=10, masked=True))
    assert state(page, "mixture") == {"q1": 0.5, "q2": -2}
    assert state(page, "sharpness") == {"temperature": 10, "delta": sqrt(0.5), "copies": 1, "masked": True}
    host = page.locator("attn-mixture")
    for name, value, expected in (
        ("q1", "2", {"q1": 2, "q2": -2}),
        ("q2", "77", {"q1": 2, "q2": 3}),
        ("q1", "nonsense", {"q1": 1, "q2": 3}),
        ("preset", "[0, 1]", {"q1": 0, "q2": 1}),
        ("preset", "no such", {"q1": 0, "q2": 1}),
    ):
        host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [name, value])
        assert state(page, "mixture") == expected
    host.evaluate("el => el.removeAttribute('q1')")
    assert state(page, "mixture") == {"q1": 1, "q2": 1}
    assert page.get_by_role("slider", name="query q₁").input_value() == "1"
    other = page.locator("attn-sharpness")
    other.evaluate(
        "el => { el.removeAttribute('masked'); el.setAttribute('temperature', '0'); el.setAttribute('copies', '2.6') }"
    )
    assert state(page, "sharpness") == {"temperature": 0.1, "delta": sqrt(0.5), "copies": 3, "masked": False}


def test_updates_write_text_and_attributes_and_create_no_node(show, name):
    page = show(figure(name))
    counts = page.locator(TAGS[name]).evaluate("""async (el) => {
      let nodes = 0, texts = 0;
      const observer = new MutationObserver((all) => all.forEach((m) => m.type === 'childList' ? nodes++ : texts++));
      observer.observe(el.shadowRoot, { childList: true, characterData: true, subtree: true });
      const sliders = [...el.shadowRoot.querySelectorAll('input[type=range]')];
      for (let i = 0; i < 100; i++) {
        const s = sliders[i % sliders.length];
        s.value = +s.min + (s.max - s.min) * ((i * 37) % 100) / 100;
        s.dispatchEvent(new Event('input', { bubbles: true }));
      }
      await Promise.resolve();
      return [nodes, texts];
    }""")
    assert counts[0] == 0 and counts[1] > 300


def test_several_on_a_page_each_with_its_own_script(show):
    page = show(figures.mixture(), figures.mixture(0, 1), figures.sharpness(), figures.mixture()._repr_html_())
    page.get_by_role("slider", name="query q₁").nth(1).press("Home")
    assert [page.locator("attn-mixture").nth(i).evaluate("el => el.state.q1") for i in range(3)] == [1, -3, 1]
    assert "0.66976" in text(page, "sharpness")
    created = page.evaluate("Object.assign(document.createElement('attn-mixture'), {}).state")
    assert created == {"q1": 1, "q2": 0}


def test_moved_removed_and_put_back(show, name):
    page = show(figure(name), "<main></main>")
    result = page.locator(TAGS[name]).evaluate("""(el) => {
      const root = el.shadowRoot, card = root.querySelector('.card'), nodes = root.querySelectorAll('*').length;
      el.change(name = Object.fromEntries([Object.entries(el.state)[0].map((v, i) => i ? 2 : v)]));
      document.querySelector('main').append(el);
      el.remove();
      document.documentElement.dataset.theme = 'dark';
      return new Promise((done) => setTimeout(() => {
        const off = card.classList.contains('dark');
        document.body.append(el);
        const on = card.classList.contains('dark');
        const same = root === el.shadowRoot && root.querySelectorAll('*').length === nodes;
        done([off, on, same, Object.values(el.state)[0]]);
      }, 30));
    }""")
    assert result == [False, True, True, 2]


THEMES = [
    ("document.documentElement.dataset.theme = %r", "dark", "light"),  # pydata-sphinx-theme
    ("document.body.dataset.jpThemeLight = %r", "false", "true"),  # JupyterLab
    ("document.documentElement.setAttribute('theme', %r)", "dark", "light"),  # Colab
    ("document.body.dataset.vscodeThemeKind = %r", "vscode-dark", "vscode-light"),
    ("document.body.dataset.vscodeThemeKind = %r", "vscode-high-contrast", "vscode-high-contrast-light"),
]


def has_background(locator, colour):
    """Waits for it: the browser tells of a new scheme with its next frame."""
    from playwright.sync_api import expect  # here, so that a machine without Playwright skips these tests

    expect(locator).to_have_css("background-color", colour)


@pytest.mark.parametrize("page_options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_follows_the_theme_of_the_page_and_its_changes(show):
    page = show("<body>", figures.mixture())
    card = page.locator("attn-mixture .card")
    clear = "for (const el of [document.documentElement, document.body]) el.removeAttribute(el.getAttributeNames()[0])"
    for code, dark, light in THEMES:
        for value, colour in ((dark, DARK), (light, LIGHT), (dark, DARK)):
            page.evaluate(code % value)
            has_background(card, colour)
        page.evaluate(clear)


def test_otherwise_follows_the_system(show, name):
    page = show(figure(name))
    card = page.locator(f"{TAGS[name]} .card")
    for scheme, colour in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=scheme)
        has_background(card, colour)
    page.evaluate("document.documentElement.dataset.theme = 'auto'")
    page.emulate_media(color_scheme="dark")
    has_background(card, DARK)


def test_print_has_dark_ink_on_white_and_no_controls(show, name):
    page = show(figure(name), head="<script>document.documentElement.dataset.theme = 'dark'</script>")
    page.emulate_media(media="print")
    card = page.locator(f"{TAGS[name]} .card")
    assert card.evaluate("el => getComputedStyle(el).backgroundColor") == LIGHT
    assert not page.locator(f"{TAGS[name]} .controls").is_visible()
    assert page.locator(f"{TAGS[name]} .formula").is_visible()


@pytest.mark.parametrize("page_options", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_the_picture_and_the_numbers_stay(show, name):
    page = show(figure(name))
    image = page.locator(f"{TAGS[name]} img")
    assert image.is_visible() and image.bounding_box()["width"] > 500
    caption = page.locator(f"{TAGS[name]} figcaption").inner_text()
    assert ("[1.340, 1.321]" if name == "mixture" else "0.66976") in caption and "67.0 %" in caption


def test_with_scripts_the_fallback_is_hidden(show, name):
    page = show(figure(name))
    assert not page.locator(f"{TAGS[name]} img").is_visible()


def test_the_watch_sees_what_leaves_this_machine(watched_page, serve, tmp_path):
    (tmp_path / "index.html").write_text(
        "<img src='/here.svg'><img src='data:,'><img src='https://example.org/a.png'>"
        "<script>console.error('oh'); no()</script>"
    )
    (tmp_path / "here.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    watched_page.page.goto(serve(tmp_path))
    watched_page.page.wait_for_timeout(100)
    assert watched_page.requests == ["https://example.org/a.png"]
    assert "oh" in watched_page.errors and any("no is not defined" in error for error in watched_page.errors)


# --- the look --------------------------------------------------------------------------------------------------------

OVERLAPS = """(el, all) => {
  const root = el.shadowRoot, card = root.querySelector('.card'), edge = card.getBoundingClientRect();
  const labels = [...root.querySelectorAll('.mark, .disk, .xl, .yl, .slider label, .slider b, .h + *, .h, .key p > *')];
  return all.flatMap((values) => {
    el.change(values);
    const seen = labels.filter((n) => n.textContent.trim() && n.checkVisibility());
    const boxes = seen.map((n) => {
      const range = document.createRange();
      range.selectNodeContents(n);
      const { left, right, top, bottom } = (n.matches('.disk') ? n : range).getBoundingClientRect();
      return { what: n.textContent.trim(), left, right: right - 1, top: top + 2, bottom: bottom - 2 };
    });
    const bad = boxes.filter((a) => a.left < edge.left || a.right > edge.right || a.top < edge.top)
      .map((a) => `${a.what} is cut off`);
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      const apart = a.left >= b.right || b.left >= a.right || a.top >= b.bottom || b.top >= a.bottom;
      if (!apart) bad.push(`${a.what} | ${b.what}`);
    }));
    if (card.scrollWidth > Math.ceil(edge.width)) bad.push('wider than the card');
    return bad.map((what) => `${JSON.stringify(values)}: ${what}`);
  });
}"""

EXTREMES = {
    "mixture": [{"q1": a, "q2": b} for a in (-3, -1, -0.3, 0, 0.1, 1, 3) for b in (-3, -0.6, 0, 0.7, 1, 3)],
    "sharpness": [
        {"temperature": t, "delta": d, "copies": n, "masked": m}
        for t in (0.1, 0.5, 1, 10)
        for d in (-4, -0.75, 0, 0.7, 4)
        for n in (1, 3, 10)
        for m in (False, True)
    ],
}


@pytest.mark.parametrize(
    "page_options",
    [{"viewport": {"width": 1280, "height": 900}}, {"viewport": {"width": 640, "height": 900}}, PHONE, PHONE_320],
    ids=["desktop", "zoom200", "phone390", "phone320"],
    indirect=True,
)
def test_no_label_covers_another_at_any_value(show, name):
    page = show(figure(name))
    assert page.locator(TAGS[name]).evaluate(OVERLAPS, EXTREMES[name]) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page does not scroll sideways"


@pytest.mark.parametrize("page_options", [PHONE, PHONE_320], indirect=True)
def test_targets_are_large_enough_for_a_finger(show, name):
    page = show(figure(name))
    for target in page.locator(f"{TAGS[name]} :is(input[type=range], button, label.chip, [tabindex]:not(.out))").all():
        box = target.bounding_box()
        assert box["height"] >= 40 and box["width"] >= 40


@pytest.mark.parametrize("page_options", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"], indirect=True)
def test_axe_finds_nothing(show):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    style = "<title>figures</title><style>:root{color-scheme:light dark}</style>"
    page = show("<main><h1>figures</h1>", figures.mixture(), figures.sharpness(copies=3), "</main>", head=style)
    page.evaluate("document.documentElement.lang = 'en'")
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], n["target"], n["failureSummary"]) for v in found for n in v["nodes"]] == []
