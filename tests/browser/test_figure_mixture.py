"""The live figure `mixture` in a real browser."""

import itertools
from math import sqrt

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

import attnlab
from attnlab import figures

# What the tests of every figure need to know: states with extreme labels, the order of the Tab key, words of the still.
EXTREMES = [{"q1": a, "q2": b} for a in (-3, -1, -0.3, 0, 0.1, 1, 3) for b in (-3, -0.6, 0, 0.7, 1, 3)]
TAB_ORDER = ["DIV"] + ["INPUT"] * 2 + ["BUTTON"] * 4
STILL = ("[1.340, 1.321]", "67.0 %")


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


def test_moving_the_query_along_the_dotted_line_changes_no_weight(show):
    page = show(figures.mixture())
    code = """el => Array.from({ length: 41 }, (_, i) => {
      el.change({ q1: i / 10 - 1.5, q2: i / 10 - 2.5 });
      const shown = (slot) => el.shadowRoot.querySelector(`[data-t=${slot}]`).textContent;
      return ['p1', 'p2', 'o1', 'o2'].map(shown).join(' ');
    })"""
    shown = set(page.locator("attn-mixture").evaluate(code))
    assert shown == {"67.0 % 33.0 % 1.340 1.321"}


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
    assert slider.get_attribute("aria-valuetext") == "3.0"


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
    assert handle.get_attribute("aria-valuetext") == "Query [0.9, 0.5]"
    page.keyboard.press("a")
    assert page.evaluate("heard.filter((key) => key !== 'Shift')") == ["a"], "a book turns its pages on arrow keys"
    host = page.locator("attn-mixture")
    assert host.get_attribute("data-lm-suppress-shortcuts") == "true", "and JupyterLab its cells"


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


@pytest.mark.parametrize("one", [figures.mixture(), figures.scoring()], ids=["mixture", "scoring"])
def test_the_page_does_not_run_away_under_the_handle(show, one):
    page = show("<div style='height:300px'></div>", one, "<div style='height:3000px'></div>")
    page.evaluate("scrollTo(0, 200)")
    page.get_by_role("slider", name="tip of the query").focus()
    before = page.evaluate("scrollY")
    for key in ("Home", "End", "PageUp", "PageDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == before
