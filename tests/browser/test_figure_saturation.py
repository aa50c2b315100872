"""The live figure `saturation` in a real browser, and its numbers in Python."""

import re
from importlib import import_module

import numpy as np
import pytest
from figure_page import state, text, written

import attnlab
from attnlab import figures

python = import_module("attnlab.figures._static.saturation")

EXTREMES = [{"power": power, "draw": draw} for power in range(11) for draw in (1, 7, 33, 64)]
TAB_ORDER = ["INPUT"] * 2
STILL = ("0.893", "0.273", "9.37", "Jacobian norm ‖J‖ 0.169")
POWERS = range(11)


@pytest.fixture(scope="module")
def vectors():
    """All coordinates once more, in NumPy: queries (64, 1, 1024) and keys (64, 16, 1024), one of each per draw."""
    place = (np.arange(1, 65)[:, None, None] * 1024 + np.arange(1024)) * 17 + np.arange(17)[:, None]  # (64, 17, 1024)
    h = place.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    coordinates = (h / 2**32 + 2**-33 - 0.5) * 12**0.5
    return coordinates[:, :1], coordinates[:, 1:]


def expected(vectors, d):
    """Scores (64, 16), and weights, largest weights, entropies and Jacobian norms of both kinds, by attnlab."""
    query, keys = (x[..., :d] for x in vectors)
    found = {"scores": attnlab.dot(query, keys)[:, 0]}
    for kind, scores in (("unscaled", found["scores"]), ("scaled", attnlab.scaled_dot(query, keys)[:, 0])):
        weights = attnlab.softmax(scores)
        logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        jacobians = np.eye(16) * weights[:, None] - weights[:, None] * weights[:, :, None]
        found[kind] = {
            "weights": weights,
            "largest": weights.max(-1),
            "entropy": -(weights * logs).sum(-1),
            "jacobian": np.linalg.norm(jacobians, axis=(1, 2)),
        }
    return found


def agrees(shown, by_attnlab, draw, mean_too=True):
    """What the figure says of a draw is what attnlab says of it."""
    close = {"rtol": 0, "atol": 1e-12}
    scores = by_attnlab["scores"][draw - 1]
    np.testing.assert_allclose(shown["scores"], scores, **close)
    np.testing.assert_allclose(shown["deviation"], scores.std(), **close)
    for kind in ("unscaled", "scaled"):
        for name, values in by_attnlab[kind].items():
            np.testing.assert_allclose(shown[kind][name], values[draw - 1], **close, err_msg=f"{kind} {name}")
        np.testing.assert_allclose(shown[kind]["all"], by_attnlab[kind]["largest"], **close)
        assert shown[kind]["mean"] == pytest.approx(by_attnlab[kind]["largest"].mean(), abs=1e-12)
        assert np.array_equal(np.argsort(shown[kind]["weights"]), np.argsort(scores)), "scaling keeps the order"


def test_saturation_computes_what_attnlab_computes(show, vectors):
    page = show(figures.saturation())
    states = [{"power": power, "draw": draw} for power in POWERS for draw in (1, 2, 7, 20, 33, 64)]
    results = page.evaluate("s => s.map(customElements.get('attn-saturation').compute)", states)
    assert len(results) == 66
    for s, r in zip(states, results, strict=True):
        assert r["d"] == 2 ** s["power"]
        agrees(r, expected(vectors, r["d"]), s["draw"])


@pytest.mark.parametrize("d", [1, 4, 64, 256])
def test_python_computes_the_same_saturation(vectors, d):
    for draw in (1, 7, 64):
        agrees(python.numbers(d, draw), expected(vectors, d), draw)


def test_coordinates_of_saturation_have_mean_0_variance_1_and_no_relation(vectors):
    both = np.concatenate(vectors, axis=1)
    assert abs(both.mean()) < 0.005 and abs(both.var() - 1) < 0.005 and abs(both).max() <= 3**0.5
    assert abs((both[:, :-1] * both[:, 1:]).mean()) < 0.005, "one vector says nothing about the next"
    assert abs((both[..., :-1] * both[..., 1:]).mean()) < 0.005, "nor one coordinate"
    assert abs((both[:-1] * both[1:]).mean()) < 0.005, "nor one draw"


# Means over many draws of normal coordinates: largest weight unscaled, Jacobian norm unscaled.  Scaled: .24 and .30.
@pytest.mark.parametrize(
    ("d", "largest", "jacobian"),
    [(4, 0.43, 0.32), (16, 0.68, 0.28), (64, 0.84, 0.18), (256, 0.92, 0.10), (1024, 0.96, 0.06)],
)
def test_the_64_draws_of_saturation_are_like_any_others(vectors, d, largest, jacobian):
    found = expected(vectors, d)
    assert (found["scores"] ** 2).mean() == pytest.approx(d, rel=0.1), "Var(q·k) = d"
    means = {kind: [found[kind][name].mean() for name in ("largest", "jacobian")] for kind in ("unscaled", "scaled")}
    assert means["unscaled"] == pytest.approx([largest, jacobian], abs=0.05)
    assert means["scaled"] == pytest.approx([0.24, 0.30], abs=0.02)


def test_saturation_starts_at_64_coordinates(show):
    shown = text(show(figures.saturation()), "saturation")
    for piece in (
        "expected: √Var(q·k) = √d = 8.00",
        "measured deviation 9.37 1.17",
        "largest weight 0.893 0.273",
        "entropy H, nats 0.393 2.186",
        "of 16 keys 1.48 8.90",
        "Jacobian norm ‖J‖ 0.169 0.338",
        "largest, mean 0.828",
        "largest, mean 0.239",
        "7 of 64",
    ):
        assert piece in shown


def test_one_coordinate_needs_no_scale(show):
    page = show(figures.saturation(d=1))
    for row in "slhej":
        assert written(page, "saturation", f"{row}0") == written(page, "saturation", f"{row}1")


def test_bars_and_ticks_of_saturation_are_the_weights(show):
    page = show(figures.saturation(d=256, draw=16))
    found = page.locator("attn-saturation").evaluate("""(el) => [0, 1].map((i) => ({
      bars: [...el.ref[`bars${i}`].children].map((bar) => bar.getBoundingClientRect().height),
      full: el.ref[`bars${i}`].getBoundingClientRect().height,
      all: el.ref[`all${i}`].getAttribute('d'), now: el.ref[`now${i}`].getAttribute('d') }))""")
    for kind, shown in zip(("unscaled", "scaled"), found, strict=True):
        numbers = python.numbers(256, 16)[kind]
        np.testing.assert_allclose(np.array(shown["bars"]) / shown["full"], numbers["weights"], atol=0.01)
        heights = [float(y) for y in re.findall(r" (\S+?)H", shown["all"])]
        np.testing.assert_allclose(heights, numbers["all"], rtol=0, atol=1e-12)
        assert float(re.search(r" (\S+?)H", shown["now"])[1]) == pytest.approx(numbers["largest"], abs=1e-12)


def test_saturation_by_keyboard(show):
    page = show(figures.saturation())
    d, draw = page.get_by_role("slider", name="dimension d"), page.get_by_role("slider", name="draw")
    d.press("ArrowRight")
    assert state(page, "saturation") == {"power": 7, "draw": 7}
    assert written(page, "saturation", "power") == "128" and written(page, "saturation", "root") == "11.31"
    d.press("End")
    values = python.numbers(1024, 7)
    assert written(page, "saturation", "l0") == "> 0.999", "a rounded weight never claims to be all"
    assert written(page, "saturation", "j0") == written(page, "saturation", "h0") == "< 0.001"
    assert written(page, "saturation", "l1") == f"{values['scaled']['largest']:.3f}"
    draw.press("ArrowLeft")
    assert state(page, "saturation") == {"power": 10, "draw": 6} and written(page, "saturation", "draw") == "6 of 64"
    assert draw.get_attribute("aria-valuetext") == "6 of 64"
    spoken = "document.querySelector('attn-saturation').shadowRoot.querySelector('[role=status]').textContent"
    page.wait_for_function(f"{spoken}.includes('0.240')")
    assert page.evaluate(spoken) == (
        "Unscaled: largest weight > 0.999, Jacobian norm < 0.001. Scaled: largest weight 0.240, Jacobian norm 0.327"
    )
    bars = page.get_by_role("img").first.get_attribute("aria-label")
    assert bars.count(",") == 16 and bars.count("> 0.999") == 1 and "1.000" not in bars


def test_saturation_by_mouse(show):
    page = show(figures.saturation())
    box = page.get_by_role("slider", name="dimension d").bounding_box()
    start, end, middle = box["x"] + 0.6 * box["width"], box["x"] + box["width"], box["y"] + box["height"] / 2
    page.mouse.move(start, middle)
    page.mouse.down()
    seen = []
    for x in np.linspace(start, end, 25):
        page.mouse.move(x, middle)
        seen.append(state(page, "saturation")["power"])
    page.mouse.up()
    assert seen == sorted(seen) and set(seen) == {6, 7, 8, 9, 10}, "it stops at every power of two"


def test_options_of_saturation():
    assert "<attn-saturation data-" in figures.saturation()._repr_html_()
    html = figures.saturation(np.int64(1), draw=2.0)._repr_html_()
    assert '<attn-saturation power="0.0" draw="2.0" data-' in html
    refused = ({"d": 3}, "d = 3"), ({"d": 0}, "d = 0"), ({"d": 2048}, "d = 2048"), ({"draw": 65}, "draw = 65")
    for options, words in (*refused, ({"draw": 1.5}, r"draw = 1\.5")):
        with pytest.raises(ValueError, match=f"^{words}: must "):
            figures.saturation(**options)


def test_the_terminal_prints_saturation():
    assert repr(figures.saturation()) == (
        "attn-saturation   d = 64, draw 7 of 64: one query, 16 keys; √d = 8.00\n"
        "                                     q·k    q·k/√d\n"
        "  measured deviation                9.37      1.17\n"
        "  largest weight                   0.893     0.273\n"
        "  entropy H, nats                  0.393     2.186\n"
        "  e^H of 16 keys                    1.48      8.90\n"
        "  Jacobian norm ‖J‖                0.169     0.338\n"
        "  largest, mean of 64 draws        0.828     0.239"
    )
