"""The pictures: what is drawn is what was given, and every axis has a name."""

import subprocess
import sys

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


def test_curves_are_drawn_named_and_told_apart_without_colour():
    x = np.linspace(1, 10, 5)
    plots.curves(x, {"a": x, "b": x**2}, x_label="n", y_label="cost", log_x=True)
    axes = plt.gca()
    assert labels(axes) == ("n", "cost") and axes.get_xscale() == "log"
    assert [line.get_ydata().tolist() for line in axes.lines] == [x.tolist(), (x**2).tolist()]
    assert len({line.get_linestyle() for line in axes.lines}) == 2
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
    assert drawn == {"values": values.tolist(), "outputs": outputs.tolist()}
    assert labels(axes) == ("component 1", "component 2")
    with pytest.raises(ValueError, match=r"points of the plane; got values \(2, 3\)"):
        plots.mixtures(np.ones((2, 3)), outputs)


def test_the_look_does_not_leak_into_the_session():
    before = matplotlib.rcParams.copy()
    plots.shares([1.0], ["k"])
    assert matplotlib.rcParams == before


def test_without_matplotlib_the_error_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; import attnlab.plots"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install matplotlib" in done.stderr
