"""The live figure `null_space` in a real browser, and its numbers in Python."""

import itertools

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

from attnlab import evidence, figures
from attnlab.figures._static import VALUES

NAME, TAG = "null_space", "attn-null-space"
START = (0.2, 0.6, 0.2)
SHARES = (0, 0.25, 0.4, 2 / 3, 1)
EXTREMES = [
    {"values": values, "along": along, "across": across}
    for values, along, across in itertools.product(VALUES, SHARES, (0, 1 / 3, 0.4, 0.75, 1))
]
TAB_ORDER = ["INPUT"] * 3 + ["BUTTON"] * 3
STILL = ("[0.200, 0.600, 0.200]", "O = 2.200", "[0.600, 0, 0.400]", "0.277 nats")


def computed(page, states, start=START):
    """compute(state) for each state."""
    code = f"([states, start]) => states.map((s) => customElements.get('{TAG}').compute({{ ...s, start }}))"
    return page.evaluate(code, [states, start])


def simplex(steps):
    """All weights in these steps: (m, 3)."""
    rows = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    return np.array(rows) / steps


@pytest.mark.parametrize("values", VALUES)
def test_along_the_line_the_output_stays_and_across_it_changes(show, values):
    page = show(figures.null_space())
    v, grid = np.array(VALUES[values], float), np.linspace(0, 1, 11)
    states = [{"values": values, "along": a, "across": b} for b in grid for a in grid]
    results = computed(page, states)
    weights = np.array([r["weights"] for r in results]).reshape(11, 11, 3)  # across, along, key
    outputs = np.array([r["output"] for r in results]).reshape(11, 11)
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(outputs, weights @ v, rtol=0, atol=1e-12)
    expected = v.min() + grid * (v.max() - v.min())
    np.testing.assert_allclose(outputs, np.repeat(expected[:, None], 11, axis=1), rtol=0, atol=1e-12)
    steps = np.diff(weights, axis=1)  # along: only directions of attnlab's null space
    basis = evidence.null_space(v[:, None])
    assert len(basis) == (2 if values == "all equal" else 1)
    np.testing.assert_allclose(steps @ basis.T @ basis, steps, rtol=0, atol=1e-12)
    assert np.abs(steps[5]).max() > 0.03, "and they do move"
    ends = weights[:, [0, -1]]
    assert ((ends > 1e-12).sum(-1) <= 2).all(), "the line goes to the rim on both sides"


@pytest.mark.parametrize("values", VALUES)
def test_the_farthest_end_is_the_adversary_of_attnlab(show, values):
    page = show(figures.null_space())
    v = np.array(VALUES[values], float)
    states = [s for s in EXTREMES if s["values"] == values]
    everywhere = simplex(40)
    for r in computed(page, states):
        weights, output = np.array(r["weights"]), r["output"]
        found = evidence.adversary(lambda rows: rows @ v, weights, output, output)
        assert r["most"] == pytest.approx(found.divergence, abs=1e-9)
        assert np.dot(r["farthest"], v) == pytest.approx(output, abs=1e-9)
        assert sum(w > 1e-12 for w in r["farthest"]) <= 2
        assert r["moved"] == pytest.approx(evidence.jensen_shannon(np.array(START), weights), abs=1e-12)
        assert r["changed"] == pytest.approx(output - v @ START, abs=1e-12)
        line = everywhere[np.abs(everywhere @ v - output) < 1e-9]  # and no weights of a grid are farther
        if len(line):
            assert evidence.jensen_shannon(weights, line).max() <= r["most"] + 1e-9


def test_moving_along_the_line_shows_one_output(show):
    page = show(figures.null_space())
    code = """el => Array.from({ length: 21 }, (_, i) => {
      el.change({ along: i / 20 });
      const shown = (slot) => el.shadowRoot.querySelector(`[data-t=${slot}]`).textContent;
      return [['output', 'changed', 'null'].map(shown).join(' '), parseFloat(el.ref.out.style.left)];
    })"""
    shown = page.locator(TAG).evaluate(code)
    assert {words for words, _ in shown} == {"2.200 as at the start Stays along d = [−2, 3, −1]: Σ dᵢ = Σ dᵢvᵢ = 0"}
    assert [left for _, left in shown] == pytest.approx([40] * 21, abs=1e-6)
    assert written(page, NAME, "a0") == "0.600" and written(page, NAME, "a1") == "0.000", "the other end"
    page.get_by_role("slider", name="across it").press("ArrowRight")
    assert written(page, NAME, "output") == "2.230" and written(page, NAME, "changed") == "+0.030 from the start"


def test_presets_of_the_null_space(show):
    page = show(figures.null_space())
    for preset, weights, divergence in (
        ("one end", "0.000 0.900 0.100", "JSD 0.093"),
        ("other end", "0.600 0.000 0.400", "JSD 0.277"),
        ("start", "0.200 0.600 0.200", "JSD 0.000"),
    ):
        page.get_by_role("button", name=preset, exact=True).click()
        assert " ".join(written(page, NAME, f"a{i}") for i in range(3)) == weights
        assert written(page, NAME, "along") == divergence and written(page, NAME, "output") == "2.200"
    assert written(page, NAME, "far") == "[0.600, 0, 0.400], JSD 0.277 from it"


def test_attributes_move_the_dot_as_the_controls_do(show):
    page = show(figures.null_space())
    for attribute, value, weights in (
        ("preset", "one end", (0, 0.9, 0.1)),
        ("preset", "start", START),
        ("along", "1", (0.6, 0, 0.4)),
        ("preset", "start", START),
    ):
        page.locator(TAG).evaluate("(el, [name, value]) => el.setAttribute(name, value)", [attribute, value])
        assert shown_weights(page) == pytest.approx(weights)
    other = figures.null_space(weights=(0.1, 0.5, 0.4))._repr_html_()
    for asked, weights in (
        ('preset="start"', (0.1, 0.5, 0.4)),
        ('preset="other end"', (0.433, 0, 0.567)),
        ('across="1"', (0, 0, 1)),
    ):
        page = show(other.replace(f"<{TAG} ", f"<{TAG} {asked} "))
        assert shown_weights(page) == pytest.approx(weights, abs=6e-4), "beside the weights of the start"


def test_other_values_keep_the_weights(show):
    page = show(figures.null_space(weights=(0.1, 0.5, 0.4)))
    for choice, output in (("two equal", "3.700"), ("all equal", "3.000"), ("sink", "0.600"), ("different", "2.700")):
        page.get_by_label(choice, exact=True).check(force=True)
        assert " ".join(written(page, NAME, f"a{i}") for i in range(3)) == "0.100 0.500 0.400"
        assert written(page, NAME, "output") == output and "as at the start" in text(page, NAME)
    page.get_by_label("all equal", exact=True).check(force=True)
    for slider in ("along the line", "across it"):
        page.get_by_role("slider", name=slider).press("End")
        assert written(page, NAME, "output") == "3.000"
    assert written(page, NAME, "a2") == "1.000" and "any d with" in text(page, NAME)


def place(page, weights):
    """Where weights lie on the screen."""
    box = page.locator(f"{TAG} .plot").bounding_box()
    x, y = weights[2] + weights[1] / 2, weights[1] * 0.75**0.5
    return box["x"] + box["width"] * (x + 0.1) / 1.2, box["y"] + box["height"] * (0.94 - y) / 1.02


def shown_weights(page):
    return [float(written(page, NAME, f"a{i}")) for i in range(3)]


def test_drag_by_mouse_keeps_the_grip_and_stays_in_the_triangle(show):
    page = show(figures.null_space())
    x, y = place(page, START)
    page.mouse.move(x + 6, y - 5)
    page.mouse.down()
    page.mouse.move(x + 6, y - 5)
    assert shown_weights(page) == pytest.approx(START, abs=2e-3), "taking hold moves nothing"
    to_x, to_y = place(page, (0.1, 0.2, 0.7))
    page.mouse.move(to_x + 6, to_y - 5, steps=5)
    assert shown_weights(page) == pytest.approx((0.1, 0.2, 0.7), abs=0.01)
    page.mouse.move(*place(page, (-0.4, -0.4, 1.8)))
    assert shown_weights(page) == pytest.approx((0, 0, 1), abs=0.01), "beyond a corner"
    to_x, to_y = place(page, (0.41, 0.29, 0.30))  # its output is 2.19
    page.mouse.move(to_x + 6, to_y - 5)
    assert written(page, NAME, "output") == "2.200", "near the line of the start it stays on it"
    page.mouse.up()
    page.mouse.move(x, y)
    assert shown_weights(page)[0] == pytest.approx(0.41, abs=0.02), "let go"


def test_start_is_pressed_where_the_dot_started(show):
    page = show(figures.null_space())
    pressed = page.locator(f"{TAG} [aria-pressed=true]")
    assert pressed.all_text_contents() == ["start"]
    page.get_by_role("button", name="one end").click()
    assert pressed.all_text_contents() == ["one end"]
    page.get_by_role("button", name="start").click()
    assert pressed.all_text_contents() == ["start"] and shown_weights(page) == pytest.approx(START)


def test_click_in_the_triangle_moves_the_dot_there(show):
    page = show(figures.null_space("sink"))
    page.mouse.click(*place(page, (0.6, 0.1, 0.3)))
    assert shown_weights(page) == pytest.approx((0.6, 0.1, 0.3), abs=0.01)
    assert float(written(page, NAME, "output").replace("−", "-")) == pytest.approx(-0.6, abs=0.02)


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_drag_by_touch(show):
    page = show(figures.null_space(), "<div style='height:2000px'></div>")
    touch = page.context.new_cdp_session(page)
    start, end = place(page, START), place(page, (0.2, 0.1, 0.7))
    points = [(start[0] + (end[0] - start[0]) * t / 8, start[1] + (end[1] - start[1]) * t / 8) for t in range(9)]
    for kind, (x, y) in zip(["touchStart"] + ["touchMove"] * 8, points, strict=True):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert shown_weights(page) == pytest.approx((0.2, 0.1, 0.7), abs=0.02)
    assert page.evaluate("scrollY") == 0, "the handle keeps the finger to itself"
    assert page.locator(f"{TAG} .card").bounding_box()["height"] < 700, "on one screen with its controls"


def test_slider_by_keyboard_and_what_is_spoken(show):
    page = show(figures.null_space())
    slider = page.get_by_role("slider", name="along the line")
    slider.press("End")
    assert state(page, NAME)["along"] == 1 and state(page, NAME)["across"] == pytest.approx(0.4, abs=1e-12)
    words = "Output 2.200, as at the start. Weights [0.600, 0, 0.400], JSD 0.277"
    assert slider.get_attribute("aria-valuetext") == "JSD 0.277"
    page.wait_for_function(f"document.querySelector('{TAG}').shadowRoot.querySelector('[role=status]').textContent")
    assert page.locator(f"{TAG} [role=status]").text_content() == words


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("weights", [START, (0, 0.5, 0.5), (1, 0, 0), (1 / 3, 1 / 3, 1 / 3)])
def test_the_still_and_the_page_say_the_same(show, values, weights):
    made = figures.null_space(values, weights=weights)
    page = show(made)
    output, far = written(page, NAME, "output"), written(page, NAME, "far")
    assert f"output O = {output}." in made.static.caption and f"output {output}\n" in made.static.text
    w, divergence = far.removesuffix(" from it").split(", JSD ")
    assert f"with this output: {w}, Jensen–Shannon divergence {divergence} nats" in made.static.caption
    assert shown_weights(page) == pytest.approx(weights, abs=6e-4)


def test_three_numbers_that_are_weights():
    assert "<attn-null-space data-lm" in figures.null_space()._repr_html_()
    html = figures.null_space("sink", weights=np.array([0.5, 0, 0.5]))._repr_html_()
    assert '<attn-null-space values="sink" data-weights="0.5 0.0 0.5" data-lm' in html
    for wrong in ((0.5, 0.5), (0.5, 0.6, 0.2), (1.2, -0.2, 0), (0.5, 0.5, float("nan"))):
        with pytest.raises(ValueError, match=r"^weights = "):
            figures.null_space(weights=wrong)
    with pytest.raises(ValueError, match=r"^values = "):
        figures.null_space("random")
