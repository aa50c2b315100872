"""The live figure `online_softmax` in a real browser."""

import itertools
from math import inf

import numpy as np
import pytest
from figure_page import state, text, written

import attnlab
from attnlab import figures
from attnlab.figures._static import SETS

NAME, TAG = "online_softmax", "attn-online-softmax"
STATES = [
    {"scores": scores, "tile": tile, "read": read, "forget": forget}
    for scores, tile, read, forget in itertools.product(SETS, range(1, 7), range(7), (False, True))
]
EXTREMES = [s for s in STATES if s["tile"] in (1, 4) and s["read"] in (0, 2, 6)]
TAB_ORDER = ["INPUT"] * 3 + ["BUTTON"] * 2 + ["INPUT"]
STILL = ("0.8808", "1.1353")


def test_online_softmax_computes_what_attnlab_computes(show):
    page = show(figures.online_softmax())
    states = [s for s in STATES if not s["forget"]]
    results = page.evaluate(f"s => s.map(customElements.get('{TAG}').compute)", states)
    assert len(results) == 168
    for s, r in zip(states, results, strict=True):
        seen = min(6, -(-s["read"] // s["tile"]) * s["tile"])
        assert r["seen"] == seen
        if seen == 0:
            assert (r["m"], r["total"], r["mixed"], r["output"]) == (-inf, 0, 0, 0)
            continue
        scores, values = np.array(SETS[s["scores"]][:seen], dtype=float), np.arange(seen)[:, None]
        whole = attnlab.attend(scores[None], values).output.item()
        assert r["output"] == pytest.approx(whole, abs=1e-12) and r["right"] == pytest.approx(whole, abs=1e-12)
        assert r["m"] == scores.max() and len(r["exps"]) == seen - r["begin"] <= s["tile"]
        if r["m"] > -inf:
            assert r["total"] == pytest.approx(np.exp(scores - r["m"]).sum(), abs=1e-12)


def test_a_forgotten_factor_is_wrong_where_a_later_tile_brings_a_larger_score(show):
    page = show(figures.online_softmax())
    states = [s for s in STATES if s["forget"] and s["read"] == 6]
    results = page.evaluate(f"s => s.map(customElements.get('{TAG}').compute)", states)
    for s, r in zip(states, results, strict=True):
        scores, tile = SETS[s["scores"]], s["tile"]
        tops = [max(scores[: j + tile]) for j in range(0, 6, tile)]
        first = next((top for top in tops if top > -inf), -inf)  # before it the sums are 0: nothing to rescale
        right = attnlab.softmax(np.array(scores, dtype=float)) @ np.arange(6)
        assert (r["output"] == pytest.approx(right, abs=1e-9)) == (tops[-1] == first), s


def test_the_steps_of_the_text(show):
    page = show(figures.online_softmax(read=0))
    assert written(page, NAME, "m") == "−∞" and "nothing read" in text(page, NAME)
    slider = page.get_by_role("slider", name="keys read")
    slider.press("ArrowRight")
    assert [written(page, NAME, slot) for slot in ("m", "total", "output")] == ["3", "1.1353", "0.8808"]
    slider.press("End")
    assert [written(page, NAME, slot) for slot in ("f1", "up", "f")] == [
        "m = max(3, 5, 1) = 5,  factor e",
        "3 − 5",
        " = 0.1353",
    ]
    assert written(page, NAME, "f2") == "ℓ = 1.5530 · 0.1353 + 1.0183 = 1.2285"
    assert written(page, NAME, "output") == written(page, NAME, "right") == "3.5382"
    page.get_by_label("forget the factor").check()
    assert written(page, NAME, "output") == "2.3244" and written(page, NAME, "right") == "3.5382"
    assert page.locator(f"{TAG} [ref=line]").get_attribute("aria-label").endswith("not equal.")


def test_a_first_tile_that_is_masked_is_no_nan(show):
    page = show(figures.online_softmax("masked", read=2))
    assert written(page, NAME, "output") == "0" and written(page, NAME, "right") == "undefined, kept at 0"
    assert "NaN" not in text(page, NAME) and "no factor yet" in text(page, NAME)
    page.get_by_role("button", name="all read", exact=True).click()
    page.wait_for_function(f"document.querySelector('{TAG}').state.read === 6")
    assert written(page, NAME, "output") == written(page, NAME, "right")


def test_a_click_on_a_key_reads_up_to_its_tile(show):
    page = show(figures.online_softmax(tile=4))
    page.locator(f"{TAG} .key").nth(4).click()
    assert state(page, NAME)["read"] == 5 and written(page, NAME, "read") == "6 of 6"
    fast = page.locator(f"{TAG} .key.fast [data-t^=s]").all_text_contents()
    assert fast == ["s = 5", "s = 1"], "the ragged last tile"
