"""The live figure `rankings` in a real browser, and its numbers in Python."""

import itertools
import json
import re
from importlib.resources import files

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

from attnlab import evidence, figures

NAME, TAG = "rankings", "attn-rankings"
STORED = json.loads(files("attnlab").joinpath("data", "rankings.json").read_text("utf-8"))
TOKENS, MODELS = STORED["tokens"], STORED["models"]
NAMES = list(MODELS["bilstm"][0]["rankings"])
STATES = [
    {"token": token, "sentence": str(sentence), "model": model}
    for model, sentence in itertools.product(MODELS, range(len(TOKENS)))
    for token in range(len(TOKENS[sentence]) + 1)
]
EXTREMES = STATES
TAB_ORDER = ["INPUT"] * 3
STILL = ("this film is not bad just far too long", "p(good) =", "with all words", "random “")


def chance(logit):
    """p in the figure's words: neither 0 % nor 100 %."""
    p = 1 / (1 + np.exp(-logit))
    digits = next(digits for digits in range(9) if min(p, 1 - p) >= 10.0 ** -(digits + 1))
    return f"{100 * p:.{digits}f}\xa0%"


def test_rankings_compute_what_attnlab_computes(show):
    page = show(figures.rankings())
    code = "(el, states) => states.map((s) => el.constructor.compute({ ...el.state, ...s }))"
    for s, r in zip(STATES, page.locator(TAG).evaluate(code, STATES), strict=True):
        sentence, stored = int(s["sentence"]), MODELS[s["model"]][int(s["sentence"])]
        assert r["tokens"] == TOKENS[sentence] and list(r["rankings"]) == NAMES
        now = stored["without"][s["token"] - 1] if s["token"] else stored["logit"]
        assert (r["token"], r["now"]) == (s["token"], now)
        assert r["p_now"] == pytest.approx(1 / (1 + np.exp(-now)), abs=1e-12)
        for name, shares in stored["rankings"].items():
            found, judge = r["rankings"][name], stored["rankings"]["leave-one-out"]
            assert found["shares"] == shares and found["first"] == np.argmax(shares)
            tau = evidence.rank_agreement(np.array(shares), np.array(judge))
            assert found["tau"] == pytest.approx(tau, abs=1e-12)
            assert found["same"] + found["opposite"] == len(shares) * (len(shares) - 1) // 2


def shown(page):
    """The table as it is seen: a list of rows."""
    rows = page.locator(f"{TAG} tbody tr:visible").all_inner_texts()
    return [re.split(r"\s+", row.strip()) for row in rows]


@pytest.mark.parametrize("model", MODELS)
def test_the_table_shows_every_share_and_marks_the_first(show, model):
    page = show(figures.rankings(model=model))
    assert page.locator(f"{TAG} thead th").all_text_contents()[1:] == NAMES
    for sentence, tokens in enumerate(TOKENS):
        page.get_by_label(str(sentence + 1), exact=True).check(force=True)
        stored = MODELS[model][sentence]["rankings"]
        expected = [[f"{100 * stored[name][i]:.0f}" for name in NAMES] for i in range(len(tokens))]
        assert shown(page) == [[token, *row] for token, row in zip(tokens, expected, strict=True)]
        stars = page.locator(f"{TAG} tbody tr:visible").evaluate_all(
            "rows => rows.map((row) => [...row.cells].slice(1).map((cell) => "
            "getComputedStyle(cell.firstElementChild, '::before').content.includes('★')))"
        )
        first = [[np.argmax(stored[name]) == i for name in NAMES] for i in range(len(tokens))]
        assert stars == first, "a sign, not a colour alone"
        taus = page.locator(f"{TAG} tfoot td").all_inner_texts()
        for name, tau in zip(NAMES, taus, strict=True):
            by_attnlab = evidence.rank_agreement(np.array(stored[name]), np.array(stored["leave-one-out"]))
            assert tau == ("–" if name == "leave-one-out" else f"{by_attnlab:.2f}".replace("-", "−"))


def removed(page):
    return page.locator(f"{TAG} tr.gone").all_inner_texts()


def test_a_word_under_the_mouse_is_removed(show):
    page = show(figures.rankings())
    found = MODELS["bilstm"][0]
    assert written(page, NAME, "p") == chance(found["logit"]) and removed(page) == []
    assert written(page, NAME, "change") == " with all words"
    page.evaluate("addEventListener('attn-change', (e) => { window.told = e.detail })")
    for i in (4, 7):
        page.locator(f"{TAG} tbody tr").nth(i).hover()
        assert written(page, NAME, "p") == chance(found["without"][i]) and page.evaluate("told.token") == i + 1
        (row,) = removed(page)
        assert row.split()[0] == TOKENS[0][i] == written(page, NAME, "token")
        assert written(page, NAME, "without") == f" without “{TOKENS[0][i]}”"
        assert written(page, NAME, "change") == f", {chance(found['logit'])} with it"
        left = page.locator(TAG).evaluate("el => ['now', 'was'].map((name) => parseFloat(el.ref[name].style.left))")
        assert left == pytest.approx([50 + 50 * x / 14 for x in (found["without"][i], found["logit"])], abs=1e-3)
        sizes = [f"{100 * found['rankings'][name][i]:.0f}\xa0%" for name in ("leave-one-out", "attention")]
        assert written(page, NAME, "f1").endswith(f", {sizes[0]} of all")
        assert written(page, NAME, "seen") == f"; attention {sizes[1]}"


def test_removal_by_keyboard_and_what_is_spoken(show):
    page = show(figures.rankings(1))
    slider = page.get_by_role("slider", name="remove")
    found = MODELS["bilstm"][1]
    for i in range(3):
        slider.press("ArrowRight")
        assert written(page, NAME, "p") == chance(found["without"][i])
    first = ", ".join(f"{name} {TOKENS[1][np.argmax(row)]}" for name, row in found["rankings"].items())
    words = f"p(good) {chance(found['without'][2])} without “never”, {chance(found['logit'])} with it. First: {first}"
    assert slider.get_attribute("aria-valuetext") == "never"
    page.wait_for_function(f"document.querySelector('{TAG}').shadowRoot.querySelector('[role=status]').textContent")
    assert page.locator(f"{TAG} [role=status]").text_content() == words
    slider.press("Home")
    assert removed(page) == [] and written(page, NAME, "p") == chance(found["logit"])


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_removal_by_touch(show):
    page = show(figures.rankings())
    page.locator(f"{TAG} tbody tr").nth(3).tap()
    page.wait_for_function(f"document.querySelector('{TAG}').state.token === 4")
    assert written(page, NAME, "p") == chance(MODELS["bilstm"][0]["without"][3])
    page.locator(f"{TAG} tbody tr").nth(3).tap()
    page.wait_for_function(f"document.querySelector('{TAG}').state.token === 0")
    assert written(page, NAME, "change") == " with all words", "a second tap puts it back"


def test_the_mouse_looks_ahead_and_a_click_stays(show):
    page = show(figures.rankings(token=2))
    rows, out = page.locator(f"{TAG} tbody tr"), page.locator(f"{TAG} .caption")
    rows.nth(4).hover()
    rows.nth(5).hover()
    assert state(page, NAME)["token"] == 6
    out.hover()
    assert state(page, NAME)["token"] == 2, "as it was before the mouse came"
    rows.nth(4).click()
    rows.nth(5).hover()
    out.hover()
    assert state(page, NAME)["token"] == 5
    rows.nth(4).click()
    out.hover()
    assert state(page, NAME)["token"] == 0 and removed(page) == []
    rows.nth(4).hover()
    page.get_by_role("slider", name="remove").press("End")
    out.hover()
    assert state(page, NAME)["token"] == 9, "what the keys chose meanwhile stays"


def test_a_shorter_sentence_loses_its_last_word_at_most(show):
    page = show(figures.rankings(token=9))
    assert [row.split()[0] for row in removed(page)] == ["long"]
    page.evaluate("addEventListener('attn-change', (e) => { window.told = e.detail })")
    page.get_by_label("3", exact=True).check(force=True)
    assert [row.split()[0] for row in removed(page)] == ["moving"] and len(shown(page)) == 5
    assert page.evaluate("told.token") == state(page, NAME)["token"] == 5
    page.get_by_label("no context", exact=True).check(force=True)
    assert written(page, NAME, "p") == chance(MODELS["no context"][2]["without"][-1])
    assert state(page, NAME)["model"] == "no context" and "NaN" not in text(page, NAME)


def test_every_step_of_the_slider_removes_another_word(show):
    page = show(figures.rankings())
    slider = page.get_by_role("slider", name="remove")
    for sentence, tokens in enumerate(TOKENS):
        page.get_by_label(str(sentence + 1), exact=True).check(force=True)
        slider.press("End")
        said = []
        for _ in range(len(tokens) + 1):
            said.append(slider.get_attribute("aria-valuetext"))
            slider.press("ArrowLeft")
        assert said == [*reversed(tokens), "nothing"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sentence", range(len(TOKENS)))
def test_the_still_has_the_same_numbers(sentence, model):
    stored, tokens = MODELS[model][sentence], TOKENS[sentence]
    for token in range(len(tokens) + 1):
        static = figures.rankings(sentence, token, model).static
        now = stored["without"][token - 1] if token else stored["logit"]
        said = f"p(good) = {chance(now)}"
        firsts = ", ".join(f"{name} “{tokens[np.argmax(row)]}”" for name, row in stored["rankings"].items())
        for words in (static.caption, static.alt):
            assert said in words and f": {firsts}." in words and " ".join(tokens) in words
        assert said in static.text and static.text.count("* ") == len(NAMES)
        assert static.shapes.count(">–</text>") == 1, "leave-one-out with itself"
        for name, row in stored["rankings"].items():
            assert max(row) < 0.55, "a bar ends before its number"
            if name != "leave-one-out":
                judge = np.array(stored["rankings"]["leave-one-out"])
                tau = f"{evidence.rank_agreement(np.array(row), judge):.2f}".replace("-", "−")
                assert f"{name} {tau}" in static.caption
        rows = [line.replace("* ", "").split() for line in static.text.split("\n")[3:-1]]
        shares = zip(*stored["rankings"].values(), strict=True)
        assert rows == [[t, *(f"{100 * x:.0f}" for x in row)] for t, row in zip(tokens, shares, strict=True)]


def test_options_of_the_rankings():
    html = figures.rankings(2, np.int64(5), "no context")._repr_html_()
    assert '<attn-rankings token="5.0" sentence="2" model="no context" data-rankings=' in html
    assert "<attn-rankings data-rankings=" in figures.rankings()._repr_html_() and len(html.encode()) < 40_000
    for wrong, name in (
        ({"sentence": 4}, "sentence"),
        ({"sentence": 0.5}, "sentence"),
        ({"token": -1}, "token"),
        ({"sentence": 2, "token": 6}, "token"),
        ({"model": "lstm"}, "model"),
        ({"model": ["bilstm"]}, "model"),
    ):
        with pytest.raises(ValueError, match=f"^{name} = "):
            figures.rankings(**wrong)
