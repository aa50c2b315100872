"""The live figure `masking` in a real browser."""

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

import attnlab
from attnlab import figures, masks
from attnlab.figures._static.masking import PRESETS, SCORES, VALUES

RANDOM = np.random.default_rng(0).random((300, 5, 5)) < np.linspace(0.1, 0.9, 300)[:, None, None]
EXTREMES = [
    {"mask": mask, "equal": equal}
    for mask in [*(preset.replace(" ", "") for preset in PRESETS.values()), "0" * 25, "0000011111" + "0" * 15]
    for equal in (False, True)
]
SPOKEN = "document.querySelector('attn-masking').shadowRoot.querySelector('[role=status]').textContent"
TAB_ORDER = ["DIV"] + ["BUTTON"] * 6 + ["INPUT"]
STILL = ("[1.000, 1.731, 1.579, 3.343, 2.955]", "10000 11000 11100 11110 11111")


def digits(mask):
    return "".join("01"[int(x)] for x in np.broadcast_to(mask, (5, 5)).ravel())


def mask_of(page):
    """The mask as rows of 0 and 1."""
    mask = state(page, "masking")["mask"]
    return " ".join(mask[i : i + 5] for i in range(0, 25, 5))


def row(page, i):
    """The weights that row i shows, its sum and its output."""
    cells = [written(page, "masking", f"w{5 * i + j}") for j in range(5)]
    return [*cells, written(page, "masking", f"t{i}"), written(page, "masking", f"o{i}")]


def cell(page, i, j):
    return page.locator("attn-masking .cell").nth(5 * i + j)


def middle(page, i, j):
    box = cell(page, i, j).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_masking_computes_what_attnlab_computes(show):
    page = show(figures.masking())
    allowed = [*(np.array(list(p.replace(" ", ""))).reshape(5, 5) == "1" for p in PRESETS.values()), *RANDOM]
    assert sum(not mask.any(axis=1).all() for mask in allowed) > 50, "empty rows among them"
    states = [{"mask": digits(mask), "equal": equal} for mask in allowed for equal in (False, True)]
    results = page.evaluate("s => s.map(customElements.get('attn-masking').compute)", states)
    assert len(results) == 612
    for s, r in zip(states, results, strict=True):
        mask = np.array(list(s["mask"])).reshape(5, 5) == "1"
        scores = np.zeros((5, 5)) if s["equal"] else np.array(SCORES, float)
        expected = attnlab.attend(scores, np.array(VALUES, float)[:, None], mask)
        np.testing.assert_array_equal(r["scores"], np.where(mask, scores, -np.inf))
        np.testing.assert_allclose(r["weights"], expected.weights, rtol=0, atol=1e-12)
        np.testing.assert_allclose(r["output"], expected.output[:, 0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(r["totals"], mask.any(axis=1), rtol=0, atol=1e-12)
        assert r["empty"] == (~mask.any(axis=1)).tolist()
        assert not np.array(r["weights"])[~mask].any(), "exactly zero"


BUILDERS = {
    "none": (np.ones((5, 5), bool), "2.162 2.882 2.672 4.397 2.955"),
    "causal": (masks.causal(5), "1.000 1.731 1.579 3.343 2.955"),
    "padding": (masks.padding(3, 5), "1.845 2.802 1.579 2.155 2.421"),
    "window": (masks.window(5, 2), "1.000 1.731 2.731 3.881 4.881"),
    "block": (masks.blocks([2, 3]), "1.731 1.731 3.845 4.670 3.554"),
    "off by one": (masks.causal(5) & ~np.eye(5, dtype=bool), "0 1.000 1.119 2.155 2.471"),
}


def test_presets_of_the_masking(show):
    page = show(figures.masking(mask=RANDOM[50]))
    assert set(BUILDERS) == set(PRESETS)
    assert page.locator("attn-masking [aria-pressed=true]").all_text_contents() == []
    for preset, (mask, outputs) in BUILDERS.items():
        page.get_by_role("button", name=preset, exact=True).click()
        assert state(page, "masking")["mask"] == digits(mask) == PRESETS[preset].replace(" ", "")
        assert " ".join(written(page, "masking", f"o{i}") for i in range(5)) == outputs
        assert page.locator("attn-masking [aria-pressed=true]").all_text_contents() == [preset]


def test_equal_scores_under_a_causal_mask(show):
    page = show(figures.masking())
    page.get_by_label("equal scores").check()
    assert row(page, 0) == ["1", "0", "0", "0", "0", "1", "1.000"]
    assert row(page, 1) == ["0.500", "0.500", "0", "0", "0", "1", "1.500"]
    assert row(page, 2) == ["0.333", "0.333", "0.333", "0", "0", "1", "2.000"]
    page.get_by_label("equal scores").uncheck()
    assert row(page, 2) == ["0.665", "0.090", "0.245", "0", "0", "1", "1.579"]


def test_an_empty_row_is_shown_as_what_it_is(show):
    page = show(figures.masking("off by one"))
    badges = page.locator("attn-masking .badge")
    assert [badge.is_visible() for badge in badges.all()] == [True, False, False, False, False]
    assert badges.first.inner_text() == "nothing allowed: 0/0 in plain softmax; here zeros"
    assert row(page, 0) == ["0", "0", "0", "0", "0", "0", "0"]
    cell(page, 0, 0).hover()
    shown = text(page, "masking")
    assert "q₁: S + M = [1, 2, 0, −1, 0] + [−∞, −∞, −∞, −∞, −∞]" in shown
    assert "softmax: α = 0/0; here [0, 0, 0, 0, 0] O = 0" in shown
    cell(page, 0, 4).click()
    assert not badges.first.is_visible() and row(page, 0) == ["0", "0", "0", "0", "1", "1", "5.000"]


def test_the_row_under_the_hand_is_spelled_out(show):
    page = show(figures.masking())
    assert "q₃: S + M = [2, 0, 1, 2, 0] + [0, 0, 0, −∞, −∞]" in text(page, "masking")
    cell(page, 1, 3).hover()
    shown = text(page, "masking")
    assert "q₂: S + M = [0, 1, 3, 0, −1] + [0, 0, −∞, −∞, −∞] softmax: α = [0.269, 0.731, 0, 0, 0]" in shown
    assert "O = 0.269·1 + 0.731·2 = 1.731" in shown
    assert mask_of(page) == PRESETS["causal"], "looking changes nothing"


def test_forbidding_a_key_keeps_the_ratios_and_the_other_rows(show):
    page = show(figures.masking("none"))
    before = [row(page, i) for i in range(5)]
    assert before[3] == ["0.012", "0.086", "0.032", "0.234", "0.636", "1", "4.397"]
    cell(page, 3, 4).click()
    assert row(page, 3) == ["0.032", "0.237", "0.087", "0.644", "0", "1", "3.343"]
    assert [row(page, i) for i in (0, 1, 2, 4)] == [before[i] for i in (0, 1, 2, 4)]
    assert cell(page, 3, 4).get_attribute("aria-label") == "query 4, key 5: score −∞, weight 0"
    assert cell(page, 3, 4).get_attribute("aria-selected") == "false"
    assert "repeating" in cell(page, 3, 4).evaluate("el => getComputedStyle(el).backgroundImage"), "hatched"
    assert "repeating" not in cell(page, 3, 3).evaluate("el => getComputedStyle(el).backgroundImage")


def test_a_drag_paints_with_what_the_first_cell_became(show):
    page = show(figures.masking())
    page.evaluate("window.told = 0; addEventListener('attn-change', () => told++)")
    page.mouse.move(*middle(page, 0, 1))
    page.mouse.down()
    page.mouse.move(*middle(page, 0, 4))  # one long step: a quick hand
    page.mouse.move(*middle(page, 4, 4), steps=3)
    assert "q₄: S + M" in text(page, "masking"), "the last row painted"
    page.mouse.up()
    assert mask_of(page) == "11111 11001 11101 11111 11111", "allowed stays allowed"
    assert page.evaluate("told") == 7
    page.mouse.move(*middle(page, 1, 1))
    assert mask_of(page) == "11111 11001 11101 11111 11111", "let go"
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.move(*middle(page, 1, 4))
    page.mouse.up()
    assert state(page, "masking")["mask"][5 + 1] == "0" and mask_of(page).split()[2:] == ["11101", "11111", "11111"]
    before = mask_of(page)
    cell(page, 2, 2).click(button="right")
    assert mask_of(page) == before


def test_painting_creates_no_node(show):
    page = show(figures.masking())
    page.locator("attn-masking").evaluate("""el => {
      window.nodes = window.texts = 0;
      new MutationObserver((all) => all.forEach((m) => m.type === 'childList' ? nodes++ : texts++))
        .observe(el.shadowRoot, { childList: true, characterData: true, subtree: true });
    }""")
    page.mouse.move(*middle(page, 4, 0))
    page.mouse.down()
    page.mouse.move(*middle(page, 0, 4), steps=10)
    page.mouse.up()
    assert page.evaluate("nodes") == 0 and page.evaluate("texts") > 20


def test_masking_by_keyboard(show):
    page = show(figures.masking(), "<div style='height:2000px'></div>")
    page.evaluate("addEventListener('keydown', (e) => (window.heard ??= []).push(e.key))")
    page.keyboard.press("Tab")
    focused = "document.querySelector('attn-masking').shadowRoot.activeElement.ariaLabel.split(':')[0]"
    assert page.evaluate(focused) == "query 1, key 1"
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowDown", "ArrowUp", "End", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(focused) == "query 2, key 5", "a row does not run on into the next"
    page.keyboard.press("Space")
    assert mask_of(page) == "10000 11001 11100 11110 11111" and "q₂: S + M" in text(page, "masking")
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == 0, "the space bar paints, and the page stays"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate(focused) == "query 1, key 1"
    assert mask_of(page) == "10000 01001 11100 11110 11111"
    assert page.evaluate("heard.filter((key) => /Arrow|Home|End/.test(key))") == [], "a book turns its pages on them"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(focused) == "query 2, key 1", "one Tab stop, and the place is kept"


def test_the_summary_speaks_of_the_row(show):
    page = show(figures.masking())
    cell(page, 1, 2).click()
    live = page.locator("attn-masking [role=status]")
    page.wait_for_function(SPOKEN)
    assert live.text_content() == "Query 2: weights 0.042, 0.114, 0.844, 0, 0. Output 2.802"
    page.get_by_role("button", name="off by one").click()
    cell(page, 0, 0).hover()
    page.wait_for_function(f"{SPOKEN}.includes('Query 1')")
    assert live.text_content() == "Query 1, nothing allowed: weights 0, 0, 0, 0, 0. Output 0"


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_masking_by_touch(show):
    page = show("<div style='height:120px'></div>", figures.masking(), "<div style='height:2000px'></div>")
    session = page.context.new_cdp_session(page)

    def swipe(start, end):
        touch = lambda kind, *points: session.send(  # noqa: E731
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )
        before = mask_of(page)
        touch("touchStart", start)
        assert mask_of(page) == before, "the finger may be about to scroll"
        for i in range(1, 6):
            touch("touchMove", tuple(a + (b - a) * i / 5 for a, b in zip(start, end, strict=True)))
        touch("touchEnd")

    page.touchscreen.tap(*middle(page, 0, 4))
    page.wait_for_function("document.querySelector('attn-masking').state.mask.startsWith('10001')")
    page.wait_for_timeout(400)  # or Chromium takes the next touch for a double tap
    swipe(middle(page, 4, 0), middle(page, 4, 3))
    assert mask_of(page) == "10001 11000 11100 11110 00001"
    assert page.evaluate("scrollY") == 0
    page.wait_for_timeout(400)
    swipe(middle(page, 4, 2), middle(page, 0, 2))
    page.wait_for_function("scrollY > 20")
    assert mask_of(page) == "10001 11000 11100 11110 00001", "up and down the page scrolls, and nothing is painted"


def test_masks_as_attributes(show):
    page = show(figures.masking(mask=masks.band(5, 1), equal=True))
    assert state(page, "masking") == {"equal": True, "mask": digits(masks.band(5, 1))}
    host = page.locator("attn-masking")
    for name, value, expected in (
        ("mask", "11111\n 00000  10101 00000 00001 ", "11111 00000 10101 00000 00001"),
        ("preset", "block", PRESETS["block"]),
        ("preset", "no such", PRESETS["block"]),
        ("mask", "1" * 25, PRESETS["none"]),
        ("mask", "1" * 24, PRESETS["causal"]),
        ("mask", "2" * 25, PRESETS["causal"]),
    ):
        host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [name, value])
        assert mask_of(page) == expected
    host.evaluate("el => { el.setAttribute('mask', '0'.repeat(25)); el.removeAttribute('mask') }")
    assert mask_of(page) == PRESETS["causal"]


def test_keys_that_are_the_pages_or_the_notebooks_paint_nothing(show):
    page = show(figures.masking("none"), "<div style='height:3000px'></div>")
    cell(page, 3, 0).focus()
    for key in ("Shift+Enter", "Control+Enter", "PageDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(100)
    assert mask_of(page) == " ".join(["11111"] * 5) and page.evaluate("scrollY") == 0
    page.keyboard.press("Enter")
    assert mask_of(page).split()[3] == "01111"
