"""The live figure `sharpness` in a real browser."""

import itertools
from math import log

import numpy as np
import pytest
from figure_page import state, text, written

import attnlab
from attnlab import figures

EXTREMES = [
    {"temperature": t, "delta": d, "copies": n, "masked": m}
    for t in (0.1, 0.5, 1, 10)
    for d in (-4, -0.75, 0, 0.7, 4)
    for n in (1, 3, 10)
    for m in (False, True)
]
TAB_ORDER = ["INPUT"] * 3 + ["BUTTON"] * 5 + ["INPUT"]
STILL = ("0.66976", "67.0 %")


def test_sharpness_starts_from_the_same_example(show):
    shown = text(show(figures.sharpness()), "sharpness")
    for piece in ("67.0 %", "33.0 %", "Δ/T = 0.707", "ln n = 0.000", "σ(0.707 + 0.000) = 0.66976", "n/(n + 1) = 0.500"):
        assert piece in shown


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


def test_presets_of_the_sharpness(show):
    page = show(figures.sharpness())
    presets = {"T = 0.1": "0.99915", "T = 10": "0.51767", "n = 3": "0.85884", "n = 10": "0.95301", "start": "0.66976"}
    for preset, total in presets.items():
        page.get_by_role("button", name=preset, exact=True).click()
        assert written(page, "sharpness", "total") == written(page, "sharpness", "tag") == total
        assert page.locator("attn-sharpness [aria-pressed=true]").all_text_contents() == [preset]


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
