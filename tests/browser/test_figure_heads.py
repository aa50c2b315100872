"""The live figure `heads` in a real browser."""

import base64
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from conftest import PHONE
from figure_page import text, written

from attnlab import figures

STORED = json.loads(files("attnlab").joinpath("data", "minilm_heads.json").read_text("utf-8"))["sentences"]
TOKENS = [sentence["tokens"] for sentence in STORED]
WEIGHTS = [  # (6, 12, n, n) each
    np.frombuffer(base64.b64decode(s["weights"]), np.uint8).reshape(6, 12, len(s["tokens"]), -1) / 255 for s in STORED
]
NAMES = ["previous token", "itself", "next token", "[CLS] or [SEP]", "entropy, nats"]

EXTREMES = [
    {"layer": layer, "head": head, "sentence": sentence}
    for sentence in "012"
    for layer, head in ((0, 2), (5, 11), (0, 3), (2, 7))
]
TAB_ORDER = ["DIV"] + ["INPUT"] * 4 + ["BUTTON"] * 3 + ["DIV"]
STILL = ("previous token 1.00 (0.11; 0.08)", "[CLS] or [SEP] 0.17 (0.55; 0.17)")


def measured(weights):
    """What the figure prints of heads (..., n, n), under its names, each of shape (...,)."""
    diagonal = lambda offset: np.diagonal(weights, offset, axis1=-2, axis2=-1).mean(-1)  # noqa: E731
    ends = (weights[..., 0] + weights[..., -1]).mean(-1)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1).mean(-1)
    return dict(zip(NAMES, (diagonal(-1), diagonal(0), diagonal(1), ends, entropy), strict=True))


def chosen(page):
    return page.locator("attn-heads").evaluate("({ state: s }) => [s.layer, s.head, +s.sentence, s.query]")


def table(page):
    return [[written(page, "heads", f"m{m}{column}") for column in range(3)] for m in range(5)]


def listed(page):
    """Tokens and numbers beside the picture, as they are seen."""
    return [line.split("\n") for line in page.locator("attn-heads .list div:visible").all_inner_texts()]


def query(page, i):
    return page.get_by_role("option").nth(i)


def test_heads_compute_what_numpy_computes(show):
    page = show(figures.heads())
    results = page.locator("attn-heads").evaluate("""el => [0, 1, 2].map((sentence) => [...Array(72).keys()].map((k) =>
      el.constructor.compute({ ...el.state, layer: Math.floor(k / 12), head: k % 12, sentence })))""")
    for found, weights in zip(results, WEIGHTS, strict=True):
        n = weights.shape[-1]
        expected, uniform = measured(weights), measured(np.full((n, n), 1 / n))
        for k, one in enumerate(found):
            np.testing.assert_array_equal(one["weights"], weights[divmod(k, 12)])
            assert list(one["measures"]) == NAMES
            for name, numbers in one["measures"].items():
                close = lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)  # noqa: E731
                close(numbers["here"], expected[name][divmod(k, 12)])
                close(numbers["mean"], expected[name].mean())
                close(numbers["uniform"], uniform[name])
                close(numbers["all"], expected[name].ravel())


def test_the_presets_are_the_heads_that_their_names_say(show):
    """Of the 72, on the mean of the three sentences: the most on the token before, on the ends, and the most even."""
    page = show(figures.heads(5, 5))
    means = {name: np.mean([measured(w)[name] for w in WEIGHTS], axis=0) for name in NAMES}
    for preset, name in (("previous token", NAMES[0]), ("sink", NAMES[3]), ("even", NAMES[4])):
        page.get_by_role("button", name=preset).click()
        assert tuple(chosen(page)[:2]) == np.unravel_index(means[name].argmax(), (6, 12))
        assert page.locator("attn-heads [aria-pressed=true]").all_text_contents() == [preset]


def test_every_number_has_its_baselines_beside_it(show):
    page = show(figures.heads())
    assert table(page) == [
        ["1.00", "0.11", "0.08"],
        ["0.08", "0.12", "0.08"],
        ["0.00", "0.06", "0.08"],
        ["0.17", "0.55", "0.17"],
        ["0.00", "1.42", "2.48"],
    ]
    shown = text(page, "heads")
    assert "mean weight on all 72 heads this head mean of 72 uniform previous token 1.00 0.11 0.08" in shown
    for words in ("Not shown: values", "need not move anything", "invite picking", "is a hypothesis"):
        assert words in shown
    page.get_by_role("button", name="sink").click()
    page.get_by_label("3", exact=True).check(force=True)
    assert table(page)[3] == ["0.91", "0.58", "0.20"]
    strips, expected = page.locator("attn-heads svg"), measured(WEIGHTS[2])
    assert strips.nth(3).get_attribute("aria-label") == "0.20 to 0.91"

    def ticks(strip, kind):
        return [float(x) for x in re.findall(r"M(\S+) 0V1", strips.nth(strip).locator(f".{kind}").get_attribute("d"))]

    np.testing.assert_allclose(ticks(3, "all"), expected[NAMES[3]].ravel(), rtol=0, atol=1e-9)
    assert ticks(3, "now") == pytest.approx([expected[NAMES[3]][2, 7]]) and ticks(3, "dash") == pytest.approx([0.2])
    assert ticks(4, "now") == pytest.approx([expected[NAMES[4]][2, 7] / np.log(10)]), "entropy: from 0 to ln n"


def test_a_pixel_is_a_weight(show):
    page = show(figures.heads(1, 4, 1))
    code = "c => [c.width, [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]]"
    for selector, k in ((".rows canvas", 16), (".row canvas >> nth=0", 0), (".row canvas >> nth=71", 71)):
        n, data = page.locator(f"attn-heads {selector}").evaluate(code)
        alpha = np.array(data).reshape(n, n, 4)[..., 3]
        assert n == 11
        np.testing.assert_allclose(alpha, 255 * np.sqrt(WEIGHTS[1][divmod(k, 12)]), rtol=0, atol=0.51)


def test_one_grid_of_heads_by_keyboard(show):
    page = show(figures.heads(), "<div style='height:3000px'></div>")
    page.evaluate("addEventListener('keydown', (e) => (window.heard ??= []).push(e.key))")
    page.keyboard.press("Tab")
    active = """() => { const root = document.querySelector('attn-heads').shadowRoot, { activeElement: grid } = root;
      return [grid.role, root.getElementById(grid.getAttribute('aria-activedescendant')).ariaLabel] }"""
    assert page.evaluate(active) == ["grid", "layer 0, head 2"]
    assert page.get_by_role("grid", name="heads, 6 layers by 12; arrow keys choose", exact=True).is_visible()
    for key, head in (
        ("ArrowDown", (1, 2)),
        ("ArrowDown", (2, 2)),
        ("ArrowLeft", (2, 1)),
        ("ArrowLeft", (2, 0)),
        ("ArrowLeft", (2, 0)),
        ("ArrowUp", (1, 0)),
        ("ArrowUp", (0, 0)),
        ("ArrowUp", (0, 0)),
        ("ArrowRight", (0, 1)),
        ("ArrowDown", (1, 1)),
    ):
        page.keyboard.press(key)
        assert tuple(chosen(page)[:2]) == head
    assert page.evaluate(active) == ["grid", "layer 1, head 1"]
    selected = page.locator("attn-heads [role=gridcell][aria-selected=true]")
    assert selected.count() == 1 and selected.get_attribute("aria-label") == "layer 1, head 1"
    page.wait_for_timeout(100)
    assert page.evaluate("[scrollY, heard]") == [0, ["Tab"]], "a book turns its pages on the arrow keys"
    page.get_by_role("slider", name="head").press("End")
    page.get_by_role("slider", name="layer").press("End")
    for key in ("ArrowRight", "ArrowDown"):
        page.get_by_role("grid").press(key)
    assert chosen(page) == [5, 11, 0, 3]
    page.keyboard.press("Control+Home")
    assert page.get_by_role("slider", name="layer").input_value() == "5"


def test_a_head_by_the_mouse(show):
    page = show(figures.heads())
    page.evaluate("addEventListener('attn-change', (e) => { window.told = e.detail })")
    page.get_by_role("gridcell", name="layer 3, head 7").click()
    assert chosen(page) == [3, 7, 0, 3] and page.evaluate("[told.layer, told.head]") == [3, 7]
    assert written(page, "heads", "layer") == "3" and written(page, "heads", "head") == "7"
    assert page.get_by_role("slider", name="head").input_value() == "7"
    assert table(page) == [
        [f"{x:.2f}" for x in (here[3, 7], here.mean(), uniform)]
        for here, uniform in zip(
            measured(WEIGHTS[0]).values(), measured(np.full((12, 12), 1 / 12)).values(), strict=True
        )
    ]
    page.get_by_role("columnheader", name="9").click()
    assert chosen(page)[:2] == [3, 7], "between the pictures nothing is chosen"


def test_the_weights_of_a_query_stand_beside_the_tokens(show):
    page = show(figures.heads(0, 3))
    numbers = lambda q: [f"{w:.2f}" for w in WEIGHTS[0][0, 3, q]]  # noqa: E731
    assert listed(page) == [list(pair) for pair in zip(TOKENS[0], numbers(3), strict=True)]
    assert written(page, "heads", "q") == "clock"
    query(page, 9).hover()
    assert listed(page) == [list(pair) for pair in zip(TOKENS[0], numbers(9), strict=True)]
    spoken = ",".join(f"{token} {w}" for token, w in zip(TOKENS[0], numbers(9), strict=True))
    assert query(page, 9).get_attribute("aria-label") == f"rang: {spoken}"
    assert query(page, 3).get_attribute("aria-label") is None and query(page, 3).inner_text() == "clock"
    rows = page.get_by_role("listbox")
    for key, q in (("ArrowDown", 10), ("ArrowDown", 11), ("ArrowDown", 11), ("ArrowUp", 10), ("ArrowLeft", 9)):
        rows.press(key)
        assert chosen(page)[3] == q and rows.get_attribute("aria-activedescendant") == f"q{q}"
        assert [one.get_attribute("aria-selected") for one in page.get_by_role("option").all()].index("true") == q
    width = page.locator("attn-heads .list div").nth(4).evaluate("el => el.style.getPropertyValue('--w')")
    assert float(width.rstrip("%")) == pytest.approx(100 * WEIGHTS[0][0, 3, 9, 4])
    assert chosen(page)[:2] == [0, 3], "looking at a query keeps the head"


def test_another_sentence_has_other_tokens(show):
    page = show(figures.heads(5, 6))
    page.get_by_role("listbox").press("ArrowUp")
    for _ in range(9):
        page.get_by_role("listbox").press("ArrowDown")
    assert chosen(page)[3] == 11
    for choice, sentence in (("3", 2), ("2", 1), ("1", 0)):
        page.get_by_label(choice, exact=True).check(force=True)
        tokens = TOKENS[sentence]
        for place in (".rows div", ".cols span", ".list div > span"):
            assert page.locator(f"attn-heads {place}:visible").all_inner_texts() == tokens
        assert page.get_by_role("option").count() == len(tokens)
        assert chosen(page)[2:] == [sentence, 9], "the query stays, or is the last"
        assert written(page, "heads", "q") == tokens[9]
        assert page.locator("attn-heads .row canvas").nth(40).evaluate("c => c.width") == len(tokens)
        picture = page.locator("attn-heads .rows canvas").bounding_box()
        last = page.locator("attn-heads .rows div:visible").last.bounding_box()
        ends = [box["y"] + box["height"] for box in (picture, last)]
        assert ends[0] == pytest.approx(ends[1], abs=0.1), "rows and picture end together"


def test_summary_of_a_head(show):
    page = show(figures.heads())
    page.get_by_role("button", name="sink").click()
    live = page.locator("attn-heads [role=status]")
    page.wait_for_function("document.querySelector('attn-heads').shadowRoot.querySelector('[role=status]').textContent")
    top = WEIGHTS[0][2, 7, 3].max()
    assert live.text_content() == f"Layer 2, head 7. Query clock looks most at [CLS], {top:.2f}"


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_heads_by_touch(show):
    page = show(figures.heads())
    page.get_by_role("gridcell", name="layer 4, head 9").tap()
    page.wait_for_function("document.querySelector('attn-heads').state.layer === 4")
    query(page, 6).tap()
    page.wait_for_function("document.querySelector('attn-heads').state.query === 6")
    assert chosen(page) == [4, 9, 0, 6] and written(page, "heads", "q") == "the"


@pytest.mark.parametrize("page_options", [{"color_scheme": "dark"}], indirect=True)
def test_pictures_are_light_on_dark_and_print_dark_on_white(show):
    page = show(figures.heads())
    canvas = page.locator("attn-heads .rows canvas")
    assert "invert" in canvas.evaluate("el => getComputedStyle(el).filter")
    page.emulate_media(media="print")
    assert canvas.evaluate("el => getComputedStyle(el).filter") == "none"


def test_two_copies_each_with_its_own_head(show):
    page = show(figures.heads(0, 2), figures.heads(2, 7, 1))
    page.get_by_role("button", name="even").first.click()
    page.get_by_label("3", exact=True).nth(1).check(force=True)
    states = "[...document.querySelectorAll('attn-heads')].map(({ state: s }) => [s.layer, s.head, s.sentence])"
    assert page.evaluate(states) == [[0, 3, "0"], [2, 7, "2"]]
    assert "neighbour" in text(page, "heads", 1) and "neighbour" not in text(page, "heads")


def test_an_element_that_is_there_before_its_script(show):
    """JupyterLab puts the HTML into the page first and runs the script in it afterwards."""
    page = show("<main></main>")
    page.evaluate(
        """html => {
      const main = document.querySelector('main');
      main.innerHTML = html;
      const old = main.querySelector('script'), script = document.createElement('script');
      script.textContent = old.textContent;
      old.replaceWith(script);
    }""",
        figures.heads(1, 8, 2)._repr_html_(),
    )
    assert chosen(page) == [1, 8, 2, 3] and listed(page)[7][0] == "##s"


def test_heads_as_attributes(show):
    page = show(figures.heads(4, 5, 2))
    host = page.locator("attn-heads")
    for name, value, expected in (
        ("layer", "9", [5, 5, 2]),
        ("head", "3.4", [5, 3, 2]),
        ("sentence", "1", [5, 3, 1]),
        ("sentence", "7", [5, 3, 0]),
        ("preset", "sink", [2, 7, 0]),
        ("head", "none", [2, 2, 0]),
    ):
        host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [name, value])
        assert chosen(page)[:3] == expected
