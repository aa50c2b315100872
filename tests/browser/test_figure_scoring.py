"""The live figure `scoring` in a real browser."""

import itertools
import re

import numpy as np
from figure_page import state, text, written

import attnlab
from attnlab import figures

KEYS = np.array([[3.0, 2.0], [1.0, 2.0], [-2.0, 1.0], [-1.0, -2.0], [0.5, 0.0]])
W_Q, W_K = np.array([[1.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]), np.array([[-1.0, 1.0], [-1.0, -1.0], [1.0, 0.0]])
SCORES = {
    "dot": lambda q: attnlab.dot(q, KEYS),
    "scaled_dot": lambda q: attnlab.scaled_dot(q, KEYS),
    "additive": lambda q: attnlab.additive(q, KEYS, W_Q, W_K, np.array([1.0, 2.0, 3.0])),
    "gaussian": lambda q: attnlab.gaussian(q, KEYS, 2**0.25),
}

EXTREMES = [
    {"q1": a, "q2": b, "score": score}
    for a, b in [(1, 1), (0, 0), (3, 3), (-3, 3), (-3, -3), (3, -3), (0, 1), *map(tuple, KEYS.tolist())]
    for score in SCORES
]
TAB_ORDER = ["DIV"] + ["INPUT"] * 3 + ["BUTTON"] * 4  # the scores are one stop: arrow keys go from one to the next
STILL = ("k₁ = [3, 2] has score 5.000 and weight 87.0 %", "k₁ wins")


def choose(page, words):
    page.get_by_role("radio", name=words, exact=True).check()


def test_the_score_decides_who_wins(show):
    page = show(figures.scoring())
    for words, who, weight in (
        ("dot", "k₁ wins", "87.0 %"),
        ("scaled dot", "k₁ wins", "76.8 %"),
        ("additive", "k₅ wins", "34.9 %"),
        ("Gaussian", "k₂ wins", "44.8 %"),
    ):
        choose(page, words)
        i = int("₁₂₃₄₅".index(who[1]))
        assert written(page, "scoring", "who") == who and written(page, "scoring", f"p{i}") == weight
        rows = page.locator("attn-scoring .key .win")
        assert rows.count() == 1 and weight in rows.text_content(), "bold, beside the colour"


def test_scoring_computes_what_attnlab_computes(show):
    page = show(figures.scoring())
    axis = [round(-3 + 0.4 * i, 10) for i in range(16)] + [0.1 + 0.2]
    queries = np.array(list(itertools.product(axis, axis)))
    code = "([qs, score]) => qs.map(([q1, q2]) => customElements.get('attn-scoring').compute({ q1, q2, score }))"
    for score, expected in SCORES.items():
        results = page.evaluate(code, [queries.tolist(), score])
        scores = expected(queries)
        assert len(results) == 289
        np.testing.assert_allclose([r["scores"] for r in results], scores, rtol=0, atol=1e-12)
        np.testing.assert_allclose([r["weights"] for r in results], attnlab.softmax(scores), rtol=0, atol=1e-12)
        ties = scores >= scores.max(axis=-1, keepdims=True) - 1e-9
        assert [r["winners"] for r in results] == [np.flatnonzero(row).tolist() for row in ties]


def test_what_the_caption_says_of_the_additive_score(show):
    page = show(figures.scoring(score="additive"))
    assert (
        page.locator("attn-scoring .notes .on")
        .inner_text()
        .endswith("At [1, 1] k₅ wins, neither long nor nearest; |s| < 6.")
    )
    longest, nearest = np.linalg.norm(KEYS, axis=1).argmax(), np.linalg.norm(KEYS - 1, axis=1).argmin()
    assert written(page, "scoring", "who") == "k₅ wins" and 4 not in (longest, nearest)
    code = "qs => qs.map(([q1, q2]) => customElements.get('attn-scoring').compute({ q1, q2, score: 'additive' }))"
    results = page.evaluate(code, list(itertools.product(np.linspace(-3, 3, 13).tolist(), repeat=2)))
    assert 5 < np.abs([r["scores"] for r in results]).max() < 6, "as near as that, and never there"


def test_the_small_numbers_and_the_dotted_lines_show_who_leads_where(show):
    page = show(figures.scoring())
    code = """el => [...el.shadowRoot.querySelectorAll('.plot i')].map(
      (i) => [parseFloat(i.style.left) / 100 * 6.8 - 3.4, 3.4 - parseFloat(i.style.top) / 100 * 6.8, +i.textContent])"""
    for score, expected in SCORES.items():
        page.locator("attn-scoring").evaluate("(el, score) => el.setAttribute('score', score)", score)
        numbers = np.array(page.locator("attn-scoring").evaluate(code))
        assert len(numbers) == 17
        np.testing.assert_array_equal(numbers[:, 2], expected(numbers[:, :2]).argmax(axis=-1) + 1)
        path = page.locator("attn-scoring .edge").get_attribute("d")
        points = np.array([p.split() for p in re.findall(r"M(\S+ \S+?)h0", path)], float)
        best = np.sort(expected(points), axis=-1)
        apart = best[:, -1] - best[:, -2]
        assert len(points) > 150 and np.quantile(apart, 0.95) < 0.01 and apart.max() < 0.2, "on a border two keys tie"
        away = np.linalg.norm(numbers[:, None, :2] - points, axis=-1)
        assert away.min() > 0.15, "no number stands on a border"


def test_dot_and_scaled_dot_have_the_same_winners_and_the_key_amid_the_others_has_none(show):
    page = show(figures.scoring())
    code = """el => ['dot', 'scaled_dot'].map((score) => [...Array(961)].map((_, i) => {
      el.change({ q1: Math.floor(i / 31) / 5 - 3, q2: i % 31 / 5 - 3, score });
      return el.shadowRoot.querySelector('[data-t=who]').textContent;
    }))"""
    dot, scaled = page.locator("attn-scoring").evaluate(code)
    assert dot == scaled and len(set(dot)) > 4
    assert [who for who in dot if "k₅" in who] == []


def test_keys_of_equal_norm_keep_their_ratios_under_the_gaussian(show):
    page = show(figures.scoring())
    for q, gap in (("[1, 1]", "2.828"), ("[0, 0]", "0.000"), ("q = k₂", "3.536"), ("q = k₅", "1.061")):
        page.get_by_role("button", name=q, exact=True).click()
        shown = []
        for words in ("scaled dot", "Gaussian", "dot"):
            choose(page, words)
            shown.append(written(page, "scoring", "gap"))
        assert shown[:2] == [gap, gap] and (shown[2] == gap) == (q == "[0, 0]")


def test_a_query_at_the_origin(show):
    page = show(figures.scoring(q1=0, q2=0))
    assert written(page, "scoring", "who") == "all five tie"
    assert [written(page, "scoring", f"p{i}") for i in range(5)] == ["20.0 %"] * 5
    choose(page, "Gaussian")
    assert [written(page, "scoring", f"p{i}") for i in range(5)] == ["0.7 %", "11.9 %", "11.9 %", "11.9 %", "63.7 %"]
    assert written(page, "scoring", "who") == "k₅ wins"
    page.locator("attn-scoring").evaluate("el => el.change({ q1: 0, q2: 1, score: 'dot' })")
    assert written(page, "scoring", "who") == "k₁, k₂ tie"


def test_presets_keep_the_score(show):
    page = show(figures.scoring(score="gaussian"))
    for preset, who in (("[0, 0]", "k₅ wins"), ("q = k₂", "k₂ wins"), ("q = k₅", "k₅ wins"), ("[1, 1]", "k₂ wins")):
        page.get_by_role("button", name=preset, exact=True).click()
        assert written(page, "scoring", "who") == who and state(page, "scoring")["score"] == "gaussian"
        assert page.locator("attn-scoring [aria-pressed=true]").all_text_contents() == [preset]


def test_the_score_by_keyboard(show):
    page = show(figures.scoring(), figures.scoring(score="additive"))
    page.evaluate("addEventListener('keydown', (e) => (window.heard ??= []).push(e.key))")
    page.get_by_role("slider", name="tip of the query").first.focus()
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    scores = page.locator("attn-scoring").evaluate_all("all => all.map((el) => el.state.score)")
    assert scores == ["gaussian", "additive"], "each figure has its own"
    assert page.evaluate("window.heard.includes('ArrowRight')") is False, "a book turns its pages on arrow keys"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    focused = "document.querySelector('attn-scoring').shadowRoot.activeElement.value"
    assert page.evaluate(focused) == "gaussian", "Tab comes back to the one chosen"


def test_the_score_is_named_ringed_and_filled(show):
    page = show(figures.scoring())
    group = page.get_by_role("radiogroup", name="score")
    assert [r.get_attribute("value") for r in group.get_by_role("radio").all()] == list(SCORES)
    choose(page, "additive")
    chips = group.locator("label").evaluate_all("all => all.map((l) => getComputedStyle(l).backgroundColor)")
    assert len(set(chips)) == 2 and chips.count(chips[2]) == 1
    page.keyboard.press("ArrowRight")
    rings = group.locator("label").evaluate_all("all => all.map((l) => getComputedStyle(l).outlineStyle)")
    assert rings == ["none", "none", "none", "solid"], "the ring of the keyboard is round the chip"


def test_the_score_from_outside_and_what_the_page_is_told(show):
    page = show(figures.scoring(-0.5, 2, "scaled_dot"))
    assert state(page, "scoring") == {"q1": -0.5, "q2": 2, "score": "scaled_dot"}
    host = page.locator("attn-scoring")
    for value, expected in (("gaussian", "gaussian"), ("constructor", "dot"), ("additive", "additive"), ("", "dot")):
        host.evaluate("(el, value) => el.setAttribute('score', value)", value)
        assert state(page, "scoring")["score"] == expected
        assert page.locator("attn-scoring :checked").get_attribute("value") == expected
    host.evaluate("el => { el.setAttribute('score', 'gaussian'); el.removeAttribute('score') }")
    assert state(page, "scoring")["score"] == "dot"
    page.evaluate("addEventListener('attn-change', (e) => { window.told = e.detail })")
    choose(page, "Gaussian")
    assert page.evaluate("[told.score, told.winners]") == ["gaussian", [1]]


def place(page, x, y):
    """Where a point of the plane lies on the screen."""
    box = page.locator("attn-scoring .plot").bounding_box()
    return box["x"] + box["width"] * (x + 3.4) / 6.8, box["y"] + box["height"] * (3.4 - y) / 6.8


def test_drag_and_a_click_on_a_key(show):
    page = show(figures.scoring(score="gaussian"))
    page.mouse.move(*place(page, 1, 1))
    page.mouse.down()
    page.mouse.move(*place(page, -1.8, 0.4), steps=4)
    page.mouse.up()
    assert state(page, "scoring") == {"q1": -1.8, "q2": 0.4, "score": "gaussian"}
    assert written(page, "scoring", "who") == "k₃ wins"
    page.mouse.click(*place(page, *KEYS[3]))
    assert state(page, "scoring") == {"q1": -1, "q2": -2, "score": "gaussian"}, "discs and letters let a click through"
    handle = page.get_by_role("slider", name="tip of the query")
    assert handle.get_attribute("aria-valuetext") == "Query [−1.0, −2.0]"


def test_a_disc_has_the_area_of_its_weight(show):
    page = show(figures.scoring(score="gaussian"))
    code = "all => all.map((el) => el.getBoundingClientRect()).map((box) => [box.width, box.height])"
    boxes = np.array(page.locator("attn-scoring .disc").evaluate_all(code))
    weights = attnlab.softmax(SCORES["gaussian"](np.array([1.0, 1.0])))
    np.testing.assert_allclose(boxes.prod(axis=-1), 32**2 * weights, rtol=0.02)
    assert "s = −‖q − k‖² / (2√2)" in text(page, "scoring")
