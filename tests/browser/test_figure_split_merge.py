"""The live figure `split_merge` in a real browser."""

import itertools

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

from attnlab import figures, heads
from attnlab.figures._static import WAYS

NAME, TAG = "split_merge", "attn-split-merge"
X = np.arange(32).reshape(4, 8)  # each number is its own flat position
STATES = [
    {"token": token, "feature": feature, "n_heads": n_heads, "way": way}
    for token, feature, n_heads, way in itertools.product(range(4), range(8), "1248", WAYS)
]
EXTREMES = [s for s in STATES if (s["token"], s["feature"]) in ((0, 0), (1, 5), (3, 7))]
TAB_ORDER = ["DIV", "INPUT", "INPUT"]
STILL = ("b5", "x[1, 5] → heads[1, 1, 1] → merged[1, 5]", "features 4 to 7 of every token")
BOARDS = ("x", "heads", "merged", "x_row", "heads_row")


def arrays(n_heads, way):
    """x on its way: the heads (H, 4, d_head) and the merged array (4, 8), with or without the swaps of axes."""
    swap_in_split, swap_in_merge = way in ("right", "no swap in merge"), way in ("right", "no swap in split")
    split = heads.split(X, n_heads) if swap_in_split else X.reshape(n_heads, 4, 8 // n_heads)
    return split, heads.merge(split) if swap_in_merge else split.reshape(4, 8)


def names(numbers):
    return ["abcd"[number // 8] + str(number % 8) for number in np.ravel(numbers)]


def cell(page, board, k):
    return page.locator(f"{TAG} [ref={board}] .cell").nth(k)


def marked(page, kind, board):
    return page.locator(f"{TAG} [ref={board}] .cell.{kind}").all_text_contents()


def test_split_merge_computes_what_attnlab_computes(show):
    page = show(figures.split_merge())
    results = page.evaluate("s => s.map(customElements.get('attn-split-merge').compute)", STATES)
    assert len(results) == 512
    for s, r in zip(STATES, results, strict=True):
        split, merged = arrays(int(s["n_heads"]), s["way"])
        number = X[s["token"], s["feature"]]
        assert r["heads"] == split.ravel().tolist() and r["merged"] == merged.ravel().tolist()
        assert r["followed"] == number and r["d"] == split.shape[2]
        assert r["at"] == np.flatnonzero(split == number)[0]
        assert r["landed"] == np.flatnonzero(merged == number)[0]


@pytest.mark.parametrize("way", WAYS)
def test_every_stage_shows_its_numbers_and_marks_the_followed_one(show, way):
    page = show(figures.split_merge(2, 3, way=way))
    for n_heads in (1, 2, 4, 8):
        page.get_by_text(f"H = {n_heads}", exact=True).click()
        check_stages(page, n_heads, way)


def check_stages(page, n_heads, way):
    split, merged = arrays(n_heads, way)
    expected = {"x": X, "heads": np.hstack(list(split)), "merged": merged, "x_row": X, "heads_row": split}
    (h, i, c), (row, column) = np.argwhere(split == 19)[0], np.argwhere(merged == 19)[0]
    for board, numbers in expected.items():
        assert page.locator(f"{TAG} [ref={board}] .cell").all_text_contents() == names(numbers)
        assert marked(page, "now", board) == ["c3"]
        assert sorted(marked(page, "kin", board)) == sorted(names(split[h]))
    assert marked(page, "home", "merged") == ([] if merged[2, 3] == 19 else names(merged[2, 3]))
    shown = text(page, NAME)
    for words in (
        f"x (4, 8) x[2, 3] = c3 j 0 1 2 3 4 5 6 7 0 {' '.join(names(X[0]))} 1 b0",
        f"heads ({n_heads}, 4, {8 // n_heads}) heads[{h}, {i}, {c}] = c3 h {' '.join(map(str, range(n_heads)))} 0 a0",
        f"merged (4, 8) merged[{row}, {column}] = c3",
        "Flat x: position 8·i + j = 19",
        f"Flat heads: position {32 // n_heads}·h + {8 // n_heads}·i + c = {np.flatnonzero(split == 19)[0]}",
    ):
        assert words in shown


def test_the_marks_are_colour_and_outline(show):
    page = show(figures.split_merge(way="no swap in merge"))
    look = "el => { const s = getComputedStyle(el); return [s.outlineStyle, s.outlineWidth, s.boxShadow !== 'none'] }"
    assert page.locator(f"{TAG} [ref=merged] .now").evaluate(look)[:2] == ["solid", "2px"]
    assert page.locator(f"{TAG} [ref=merged] .home").evaluate(look)[:2] == ["dashed", "2px"]
    assert cell(page, "x", 4).evaluate(look)[2] and not cell(page, "x", 3).evaluate(look)[2], "the head is underlined"


def test_head_by_head_the_right_way_cuts_features_and_the_wrong_way_tokens(show):
    page = show(figures.split_merge())
    said = {}
    for n_heads, way in itertools.product("1248", WAYS):
        page.locator(TAG).evaluate("(el, s) => el.change(s)", {"n_heads": n_heads, "way": way})
        said[n_heads, way] = written(page, NAME, "note")
    again = "Row 1 of merged is token b again"
    assert {said["1", way] for way in WAYS} == {f"Head 0 holds all features of every token. {again}."}
    assert said["2", "right"] == f"Head 1 holds features 4 to 7 of every token. {again}."
    assert said["4", "right"] == f"Head 2 holds features 4 and 5 of every token. {again}."
    assert said["8", "right"] == f"Head 5 holds feature 5 of every token. {again}."
    assert said["2", "no swap"] == (
        f"Head 0 holds all features of tokens a and b, and no other token. {again}: a round trip shows no fault."
    )
    assert said["2", "no swap in split"] == (
        "Head 0 holds all features of tokens a and b, and no other token. "
        "Row 3 of merged should be token d, and holds features 4 to 7 of tokens b and d."
    )
    assert said["8", "no swap in split"] == (
        "Head 3 holds features 4 to 7 of token b, and no other token. "
        "Row 1 of merged should be token b, and holds features 1 and 5 of every token."
    )
    assert said["2", "no swap in merge"] == (
        "Head 1 holds features 4 to 7 of every token. "
        "Row 2 of merged should be token c, and holds features 4 to 7 of tokens a and b."
    )


def test_the_note_and_the_still_say_the_same_everywhere(show):
    page = show(figures.split_merge())
    code = (
        "(el, all) => all.map((s) => { el.change(s); return el.shadowRoot.querySelector('[data-t=note]').textContent })"
    )
    for s, note in zip(STATES, page.locator(TAG).evaluate(code, STATES), strict=True):
        still = figures.split_merge(**s | {"n_heads": int(s["n_heads"])}).static
        assert f" {note} A reshape" in still.caption and still.alt.endswith(note), s


def test_the_calculation_follows_the_way(show):
    page = show(figures.split_merge())
    shown = text(page, NAME)
    assert (
        "split x.reshape(4, 2, 4).swapaxes(0, 1): h = j // d_head = 5 // 4 = 1, c = j % d_head = 1 → heads[1, 1, 1]"
        " merge heads.swapaxes(0, 1).reshape(4, 8): j = h·d_head + c = 1·4 + 1 = 5 → merged[1, 5]"
    ) in shown.replace("\xa0", " ")
    page.get_by_text("no swap in split", exact=True).click()
    assert "split x.reshape(2, 4, 4): position 13 = 16·0 + 4·3 + 1 → heads[0, 3, 1]" in text(page, NAME)
    assert "j = h·d_head + c = 0·4 + 1 = 1 → merged[3, 1]" in text(page, NAME)
    page.get_by_text("no swap in merge", exact=True).click()
    assert "merge heads.reshape(4, 8): position 21 = 8·2 + 5 → merged[2, 5]" in text(page, NAME)


def sides(equation, **letters):
    """The values of `a = b = c`, with the letters given."""
    return {eval(side.replace("·", "*").removeprefix("position "), letters) for side in equation.split(" = ")}


def test_what_the_calculation_says_is_true_in_every_state(show):
    page = show(figures.split_merge())
    code = """(el, all) => all.map((s) => { el.change(s);
      return ['split', 'heads_at', 'into', 'merge', 'merged_at', 'back'].map((slot) =>
        el.shadowRoot.querySelector(`[data-t=${slot}]`).textContent.replaceAll('\\xa0', ' ')) })"""
    for s, said in zip(STATES, page.locator(TAG).evaluate(code, STATES), strict=True):
        split, merged = arrays(int(s["n_heads"]), s["way"])
        number, d_head = X[s["token"], s["feature"]], split.shape[2]
        at, landed = tuple(np.argwhere(split == number)[0]), tuple(np.argwhere(merged == number)[0])
        np.testing.assert_array_equal(eval(said[0].rstrip(":"), {"x": X}), split)
        np.testing.assert_array_equal(eval(said[3].rstrip(":"), {"heads": split}), merged)
        assert eval(said[1]) == at and eval(said[4]) == landed
        letters = {"h": at[0], "c": at[2], "d_head": d_head}
        for equation in said[2].split(", "):
            values = sides(equation.removeprefix("position "), j=s["feature"], **letters)
            assert len(values) == 1 and values <= {number, at[0], at[2]}, equation
        value = landed[1] if "swapaxes" in said[3] else np.flatnonzero(split == number)[0]
        assert sides(said[5], j=landed[1], **letters) == {value}, said[5]


def test_split_merge_by_keyboard(show):
    page = show(figures.split_merge(), "<div style='height:3000px'></div>")
    page.evaluate("addEventListener('keydown', (e) => (window.heard ??= []).push(e.key))")
    page.keyboard.press("Tab")
    for key, token, feature in (
        ("ArrowRight", 1, 6),
        ("ArrowUp", 0, 6),
        ("ArrowUp", 0, 6),
        ("End", 0, 7),
        ("ArrowRight", 0, 7),
        ("ArrowDown", 1, 7),
        ("Home", 1, 0),
        ("ArrowLeft", 1, 0),
        ("PageDown", 1, 0),
    ):
        page.keyboard.press(key)
        assert (state(page, NAME)["token"], state(page, NAME)["feature"]) == (token, feature), key
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == 0, "the keys move the number, and the page stays"
    board = page.get_by_role("slider", name="number of x")
    assert board.get_attribute("aria-valuenow") == "8"
    assert board.get_attribute("aria-valuetext") == "b0"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert state(page, NAME) == {"token": 1, "feature": 0, "n_heads": "4", "way": "no swap"}
    assert not page.evaluate("window.heard.some((key) => /Arrow|Home|Page/.test(key))")


def test_a_click_on_any_number_follows_it(show):
    page = show(figures.split_merge(n_heads=2, way="no swap in merge"))
    page.evaluate("addEventListener('attn-change', (e) => { window.told = e.detail })")
    split, merged = arrays(2, "no swap in merge")
    places = {"x": X, "heads": np.hstack(list(split)), "merged": merged, "x_row": X, "heads_row": split}
    for k, board in enumerate(BOARDS):
        place = 7 + 5 * k
        cell(page, board, place).click()
        number = np.ravel(places[board])[place]
        assert (state(page, NAME)["token"], state(page, NAME)["feature"]) == divmod(number, 8), board
    assert page.evaluate("told.at") == 27 and page.evaluate("told.heads") == split.ravel().tolist()


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_split_merge_by_touch(show):
    page = show(figures.split_merge(), "<div style='height:2000px'></div>")
    box = cell(page, "x", 22).bounding_box()
    assert box["width"] > 35, "x takes the whole width of a phone"
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"document.querySelector('{TAG}').state.token === 2")
    assert state(page, NAME)["feature"] == 6
    page.get_by_text("H = 8", exact=True).tap()
    assert state(page, NAME)["n_heads"] == "8" and "heads (8, 4, 1) heads[6, 2, 0] = c6" in text(page, NAME)
    assert page.locator(f"{TAG} .card").bounding_box()["height"] < 844, "no higher than the phone"


def test_the_summary_of_the_split_is_spoken(show):
    page = show(figures.split_merge())
    page.get_by_text("no swap", exact=True).click()
    live = page.locator(f"{TAG} [role=status]")
    page.wait_for_function(f"document.querySelector('{TAG}').shadowRoot.querySelector('[role=status]').textContent")
    assert live.text_content() == f"b5 is in heads[0, 3, 1] and in merged[1, 5]. {written(page, NAME, 'note')}"
    assert page.locator(f"{TAG} [ref=heads]").get_attribute("aria-label").startswith("heads: a0,a1,a2,a3,c0,")
    assert page.locator(f"{TAG} [ref=heads_row]").get_attribute("aria-label").startswith("heads, flat: a0,a1,a2,a3,a4,")


def test_split_merge_attributes(show):
    page = show(figures.split_merge(3, 0, 8, "no swap in merge"))
    assert state(page, NAME) == {"token": 3, "feature": 0, "n_heads": "8", "way": "no swap in merge"}
    host = page.locator(TAG)
    for name, value, expected in (
        ("token", "9", 3),
        ("token", "x", 1),
        ("n_heads", "4", "4"),
        ("n_heads", "3", "2"),
        ("way", "no swap", "no swap"),
        ("way", "wrong", "right"),
    ):
        host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [name, value])
        assert state(page, NAME)[name] == expected
