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
