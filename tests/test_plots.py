"""The pictures: what is drawn is what was given, and every axis has a name."""

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from attnlab import plots


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(axes):
    return axes.get_xlabel(), axes.get_ylabel()


def light(colour):
    """Relative luminance, as WCAG defines it. colour (..., 3) in sRGB, 0 to 1 → (...)"""
    colour = np.asarray(colour, dtype=np.float64)
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(a, b):
    bright, dim = np.maximum(light(a), light(b)), np.minimum(light(a), light(b))
    return (bright + 0.05) / (dim + 0.05)


PAPER = {"light": np.ones(3), "dark": np.array([0x14, 0x18, 0x1E]) / 255}
TURNED = np.array([[-0.574, 1.430, 0.144], [0.426, 0.430, 0.144], [0.426, 1.430, -0.856]])  # hue-rotate(180deg)


def on(theme, colour):
    """What a reader sees: the stylesheet turns pictures over for dark pages and lays them on the paper like light."""
    colour = np.asarray(matplotlib.colors.to_rgb(colour) if isinstance(colour, str) else colour)
    if theme == "light":
        return colour
    turned = np.clip((1 - colour) @ TURNED.T, 0, 1)
    return 1 - (1 - turned) * (1 - PAPER["dark"])


# Machado, Oliveira and Fernandes 2009, full severity; they act on linear light.
BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "grey": [[0.2126, 0.7152, 0.0722]] * 3,
}


def seen_by(eye, colour):
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(BLIND[eye]).T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("theme", PAPER)
def test_every_colour_stands_out_from_the_paper_of_both_themes(theme):
    assert contrast(on(theme, "white"), PAPER[theme]) == pytest.approx(1), "the picture has no frame of its own"
    for colour, least in [(plots.BLUE, 4.5), (plots.ORANGE, 4.5), (plots.GREY, 4.5), (plots.INK, 12)]:
        assert contrast(on(theme, colour), PAPER[theme]) >= least, colour
    assert {plots.LOOK["text.color"], plots.LOOK["axes.labelcolor"]} == {plots.INK}


@pytest.mark.parametrize("theme", PAPER)
@pytest.mark.parametrize("eye", BLIND)
def test_heat_maps_change_in_one_direction_for_every_eye(theme, eye):
    shown = matplotlib.colormaps[plots.STRENGTH](np.linspace(0, 0.8, 41))[:, :3]  # the part that heatmap uses
    steps = np.diff(light(seen_by(eye, on(theme, shown))))
    assert (steps < 0).all() if theme == "light" else (steps > 0).all()
    assert contrast(on(theme, shown[0]), on(theme, shown[-1])) > 5


@pytest.mark.parametrize("theme", PAPER)
def test_numbers_in_heat_maps_can_be_read_on_every_colour(theme):
    plots.heatmap({"w": np.array([[0, 1], [1e-3, 0.9]])})
    plots.heatmap({"w": np.linspace(0, 1, 8).reshape(2, 4)})
    for figure in map(plt.figure, plt.get_fignums()):
        axes = figure.axes[0]
        cells = axes.images[0].to_rgba(axes.images[0].get_array())[..., :3].reshape(-1, 3)
        for text, cell in zip(axes.texts, cells, strict=False):
            assert contrast(on(theme, text.get_color()), on(theme, cell)) >= 4.5, text


def test_curves_are_drawn_named_and_told_apart_without_colour():
    x = np.linspace(1, 10, 5)
    plots.curves(x, {"a": x, "b": x**2}, x_label="n", y_label="cost", log_x=True)
    axes = plt.gca()
    assert labels(axes) == ("n", "cost") and axes.get_xscale() == "log"
    assert [line.get_ydata().tolist() for line in axes.lines] == [x.tolist(), (x**2).tolist()]
    assert len({line.get_linestyle() for line in axes.lines}) == len({line.get_marker() for line in axes.lines}) == 2
    assert [text.get_text() for text in axes.get_legend().texts] == ["a", "b"]
    with pytest.raises(ValueError, match="at most 3 lines that can be told apart; got 4"):
        plots.curves(x, dict.fromkeys("abcd", x), x_label="n", y_label="cost")


def test_points_lie_under_the_curves():
    x = np.linspace(1, 10, 5)
    plots.curves(x, {"a": x}, x_label="n", y_label="cost", log_y=True, points=(x, 2 * x))
    axes = plt.gca()
    (points,) = axes.collections
    assert axes.get_yscale() == "log" and points.get_offsets().tolist() == np.stack([x, 2 * x], axis=1).tolist()
    assert points.get_zorder() < axes.lines[0].get_zorder()


def test_heatmap_writes_the_numbers_and_hatches_what_is_forbidden():
    weights, scores = np.array([[1.0, 0.0], [0.25, 0.75]]), np.array([[2.0, -np.inf], [-1.0, np.nan]])
    plots.heatmap({"weights": weights, "scores": scores}, allowed={"weights": np.array([[True, False], [True, True]])})
    left, right = plt.gcf().axes
    assert (left.get_title(), right.get_title()) == ("weights", "scores")
    assert labels(left) == labels(right) == ("Keys", "Queries")
    written = {tuple(text.get_position()): text.get_text() for text in left.texts}
    assert written == {(0, 0): "1.00", (0, 1): "0.25", (1, 1): "0.75"}, "x is the key, y the query"
    (hatched,) = left.patches
    assert hatched.get_hatch() and hatched.get_xy() == (0.5, -0.5)
    assert [text.get_text() for text in right.texts] == ["2.00", "−∞", "−1.00", "NaN"]
    image = left.images[0]
    assert image.get_array().tolist() == weights.tolist() and image.get_clim()[0] == 0
    assert left.get_ylim()[0] > left.get_ylim()[1], "the first query on top"
    for tables, words in (
        ({}, "one to four tables; got 0"),
        ({"a": np.ones(3)}, r"'a' has shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            plots.heatmap(tables)


def test_heatmap_names_rows_and_columns():
    names = ["attention", "random"]
    plots.heatmap({"a": np.eye(2), "b": np.eye(2)}, x_names=names, y_names={"a": names})
    left, right = plt.gcf().axes
    assert [t.get_text() for t in left.get_xticklabels()] == names == [t.get_text() for t in left.get_yticklabels()]
    assert [t.get_text() for t in right.get_yticklabels()] == ["0", "1"]
    with pytest.raises(ValueError, match=r"'a' has shape \(2, 2\), but y_names holds 3 names"):
        plots.heatmap({"a": np.eye(2)}, y_names="xyz")


@pytest.mark.parametrize(
    ("n", "shape", "places"),
    [(1, (3, 3), (1, 1)), (2, (3, 4), (1, 2)), (4, (12, 12), (2, 2)), (2, (6, 6), (2, 1)), (2, (9, 30), (2, 1))],
)
def test_tables_stand_where_a_phone_can_show_them(n, shape, places):
    plots.heatmap({str(i): np.ones(shape) for i in range(n)}, y_names=["replacement"] * 6 if shape == (6, 6) else None)
    figure = plt.gcf()
    assert figure.axes[0].get_gridspec().get_geometry() == places
    assert figure.get_figwidth() <= plots.WIDTH + 0.01


def test_words_of_every_picture_are_large_enough_on_a_phone():
    """A page of 360 px shows pictures 328 px wide."""
    x = np.linspace(0, 1, 30)
    plots.curves(x, {"a": x}, x_label="x", y_label="y")
    plots.shares([0.5, 0.5], ["a", "b"])
    plots.heatmap({"a": np.ones((6, 6)), "b": np.ones((6, 6))}, x_names=["leave-one-out"] * 6, y_names=["random"] * 6)
    plots.mixtures(np.eye(2), np.eye(2))
    plots.pair_grid(np.ones((3, 5)), np.ones((4, 5)))
    plots.images(np.ones((4, 64)), list("abcd"))
    for figure in map(plt.figure, plt.get_fignums()):
        shrunk = min(1, 328 / (figure.get_figwidth() * figure.dpi)) * figure.dpi / 72
        words = [t for t in figure.findobj(matplotlib.text.Text) if t.get_text()]
        assert min(t.get_fontsize() * shrunk for t in words) >= 9, "px"


def test_tables_of_weights_share_one_scale_and_a_large_one_writes_no_numbers():
    plots.heatmap({"a": np.eye(3), "b": np.eye(3) / 2})
    assert len({axes.images[0].get_clim() for axes in plt.gcf().axes}) == 1
    plots.heatmap({"a": np.eye(20)})
    assert not plt.gca().texts


def test_pair_grid_draws_the_sum_of_every_pair():
    from_query, from_key = np.array([[1.0, -2.0]]), np.array([[1.0, 1.0], [0.0, 3.0], [-3.0, 0.5]])
    plots.pair_grid(from_query, from_key)
    axes = plt.gca()
    squares = [patch for patch in axes.patches if patch.get_fill()]
    drawn = [from_query[0], *(one for key in from_key for one in (key, from_query[0] + key))]
    numbers = np.concatenate(drawn)
    assert len(squares) == numbers.size and len(axes.patches) - len(squares) == 3, "one frame for each pair"
    area = np.array([square.get_width() * square.get_height() for square in squares])
    np.testing.assert_allclose(area / area.max(), np.abs(numbers) / np.abs(numbers).max(), atol=1e-12)
    blue = [square.get_facecolor() == matplotlib.colors.to_rgba(plots.BLUE) for square in squares]
    assert blue == (numbers > 0).tolist() and len(axes.lines) == (numbers < 0).sum(), "below zero: crossed"
    assert labels(axes) == ("Keys: from_key (3, 2), in the top row", "Queries: from_query (1, 2)")
    with pytest.raises(ValueError, match=r"must agree in h, but they have shapes \(1, 2\) and \(1, 3\)"):
        plots.pair_grid(from_query, np.ones((1, 3)))


def test_images_are_square_and_named():
    plots.images(np.arange(8.0).reshape(2, 4), ["a", "b"])
    first, second = plt.gcf().axes
    assert (first.get_title(), second.get_title()) == ("a", "b")
    assert second.images[0].get_array().tolist() == [[4, 5], [6, 7]]
    with pytest.raises(ValueError, match=r"square pictures, one title each; got shape \(2, 3\) and 2 titles"):
        plots.images(np.ones((2, 3)), ["a", "b"])


def test_shares_are_bars_with_their_percentages():
    plots.shares([0.75, 0.25], ["k1", "k2"])
    axes = plt.gca()
    assert labels(axes) == ("Weight", "Keys")
    assert [bar.get_width() for bar in axes.patches] == [0.75, 0.25]
    assert [text.get_text() for text in axes.texts] == ["75.0 %", "25.0 %"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["k1", "k2"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first key on top
    with pytest.raises(ValueError, match=r"weights have shape \(2,\), but there are 3 keys"):
        plots.shares([0.5, 0.5], ["a", "b", "c"])


def test_mixtures_shows_the_values_and_the_outputs():
    values, outputs = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([[1.0, 2.0]])
    plots.mixtures(values, outputs)
    axes = plt.gca()
    drawn = {c.get_label(): c.get_offsets().tolist() for c in axes.collections}
    assert drawn == {"value $v_1$": [[2, 0]], "value $v_2$": [[0, 4]], "outputs": outputs.tolist()}
    colours = [matplotlib.colors.to_hex(c.get_facecolor()[0]) for c in axes.collections]
    assert colours == [plots.INK, plots.BLUE, plots.ORANGE], "as in the live figure"
    assert labels(axes) == ("Component 1", "Component 2")
    with pytest.raises(ValueError, match=r"points of the plane; got values \(2, 3\)"):
        plots.mixtures(np.ones((2, 3)), outputs)


def stored_pictures():
    for path in sorted((Path(__file__).parents[1] / "notebooks").glob("0*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf8"))["cells"]:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
                    yield pytest.param(alt, "".join(cell["source"]), id=f"{path.stem} {cell['id']}")


@pytest.mark.parametrize(("alt", "source"), list(stored_pictures()))
def test_what_a_picture_shows_is_said_for_both_themes_and_without_seeing_it(alt, source):
    words = set(re.findall(r"[\w']+", alt.lower()))
    assert len(words) >= 20, "say what is seen, not what it is about"
    turned_over = words & {"dark", "darker", "darkest", "pale", "paler", "white", "black", "bright", "brighter"}
    assert not turned_over, "a dark page turns the picture over: say strong, faint, filled, empty"
    if "plots.curves(" in source:
        assert {"solid", "dashed"} <= words, "name each line by what tells it apart without colour"


def test_the_look_does_not_leak_into_the_session():
    before = matplotlib.rcParams.copy()
    plots.shares([1.0], ["k"])
    assert matplotlib.rcParams == before


def test_without_matplotlib_the_error_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; import attnlab.plots"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install matplotlib" in done.stderr
