"""The loop that trains: its rate, its cut of the gradient, and a bar of which nothing stays."""

import io
import sys

import numpy as np
import pytest
import torch
from IPython import display
from torch import nn

from attnlab.models import _fit
from attnlab.models._fit import fit


def path(gradients, learning_rate=0.1, **options):
    """Where parameters that start at 0 stand after each step: gradients (n_steps, p) → (n_steps + 1, p)

    One parameter for each column.
    """
    gradients = torch.as_tensor(gradients, dtype=torch.float64)
    parameters = [torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in gradients[0]]
    seen = []

    def loss(step):
        seen.append(torch.cat(parameters).tolist())
        return (torch.cat(parameters) * gradients[step]).sum()

    # A generator, as `model.parameters()` is.
    losses = fit((p for p in parameters), loss, len(gradients), learning_rate=learning_rate, **options)
    assert losses == [(torch.tensor(p, dtype=torch.float64) * g).sum() for p, g in zip(seen, gradients, strict=True)]
    return np.array([*seen, torch.cat(parameters).tolist()])


def adam(gradients, rates):
    """Kingma and Ba 2015, arXiv 1412.6980, algorithm 1, as it stands there."""
    m = v = p = np.zeros(gradients.shape[1])
    places = [p]
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        places.append(p)
    return np.array(places)


@pytest.mark.parametrize(
    ("n_warm_up", "shares"),
    [
        (4, [1 / 4, 2 / 4 * 7 / 8, 3 / 4 * 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        (2.5, [1 / 2.5, 2 / 2.5 * 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        (0, [1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
    ],
)
def test_the_rate_rises_to_the_full_one_and_falls_to_0(n_warm_up, shares):
    # Under a constant gradient, whatever its size, each step of Adam is as long as the rate.
    for size in (1.0, -250.0):
        moved = np.diff(path(np.full((8, 1), size), 0.3, n_warm_up=n_warm_up)[:, 0])
        np.testing.assert_allclose(moved, -0.3 * np.sign(size) * np.array(shares), rtol=1e-6)


def test_it_is_adam():
    gradients = np.random.default_rng(0).normal(size=(6, 3)) * [1, 10, 0.1]
    rates = [0.2 * min(1, (t + 1) / 2) * (1 - t / 6) for t in range(6)]
    np.testing.assert_allclose(path(gradients, 0.2, n_warm_up=2), adam(gradients, rates), rtol=1e-12)


def test_the_gradient_of_all_parameters_together_is_cut():
    # (30, 40) is 50 long: cut to 1 it is (0.6, 0.8), where shorter ones stay.
    long, short = [[30.0, 40.0], [0.6, 0.8], [0.3, 0.1]], [[0.6, 0.8], [0.6, 0.8], [0.3, 0.1]]
    cut = path(long, n_warm_up=0, largest_gradient=1.0)
    # torch adds 1e-6 to the length that it divides by.
    np.testing.assert_allclose(cut, path(short, n_warm_up=0), rtol=1e-6)
    np.testing.assert_allclose(cut, path(short, n_warm_up=0, largest_gradient=1.0), rtol=1e-6)
    assert np.abs(cut - path(long, n_warm_up=0)).max() > 0.01
    np.testing.assert_array_equal(path(long, n_warm_up=0), path(long, n_warm_up=0, largest_gradient=60.0))


def test_steps_are_counted_from_0_and_nothing_is_drawn():
    p, steps, before = nn.Parameter(torch.ones(2)), [], torch.random.get_rng_state()
    frozen = torch.ones(2)
    losses = fit([p, frozen], lambda step: steps.append(step) or (p * frozen).sum(), 5, learning_rate=1.0, n_warm_up=1)
    assert steps == [0, 1, 2, 3, 4] and losses[0] == 2 and all(isinstance(loss, float) for loss in losses)
    assert (frozen == 1).all() and torch.equal(torch.random.get_rng_state(), before)
    assert fit([p], None, 0, learning_rate=1.0, n_warm_up=0.0) == []


def test_it_takes_one_thread_and_gives_the_others_back():
    threads, during, p = torch.get_num_threads(), [], nn.Parameter(torch.ones(1))

    def loss(step):
        during.append(torch.get_num_threads())
        return p.sum() * (1 / (1 - step))

    try:
        torch.set_num_threads(2)
        with pytest.raises(ZeroDivisionError):
            fit([p], loss, 3, learning_rate=0.1, n_warm_up=0)
        assert during == [1, 1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


# -------------------------------------------------------------------------------------------------------------- the bar


def run(n_steps, stop_at=None, **options):
    p = nn.Parameter(torch.ones(1))

    def loss(step):
        if step == stop_at:
            raise KeyboardInterrupt
        return p.sum()

    fit([p], loss, n_steps, learning_rate=0.1, n_warm_up=0, **options)


def terminal(monkeypatch):
    shown = io.StringIO()
    shown.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


@pytest.fixture
def shown_in_notebook(monkeypatch):
    """What each display has shown, one list a display."""
    displays = []

    class Handle:
        def __init__(self, first):
            displays.append([first.data])
            self.update = lambda html: displays[-1].append(html.data)

    monkeypatch.setattr(_fit, "_in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", lambda first, display_id: Handle(first))
    return displays


def test_a_bar_in_a_terminal_says_the_name_and_wipes_itself(monkeypatch):
    shown = terminal(monkeypatch)
    run(2, name="reader, step")
    assert shown.getvalue() == "\rreader, step 1 of 2\rreader, step 2 of 2\r\033[K"


def test_a_bar_is_wiped_when_the_run_is_broken_off(shown_in_notebook, monkeypatch):
    shown = terminal(monkeypatch)
    for in_notebook in (True, False):
        monkeypatch.setattr(_fit, "_in_notebook", lambda value=in_notebook: value)
        # The traceback keeps the frames alive: a generator that cleans up when it is collected would be too late.
        with pytest.raises(KeyboardInterrupt) as kept:
            run(3, stop_at=1, name="step")
        assert kept.tb is not None
    assert shown_in_notebook[0][-1] == "" and shown.getvalue().endswith("2 of 3\r\033[K")


def test_a_bar_in_a_notebook_is_replaced_by_nothing(shown_in_notebook, monkeypatch):
    shown = terminal(monkeypatch)
    run(3, name="a < b, step")
    ((_, *bars, last),) = shown_in_notebook
    assert last == "" and len(bars) == 3 and 'max="3" value="3"' in bars[-1] and "a &lt; b, step 3 of 3" in bars[-1]
    assert shown.getvalue() == ""


def test_a_hundred_steps_are_shown_at_most(shown_in_notebook):
    run(300, name="step")
    assert len(shown_in_notebook[0]) == 1 + 100 + 1


def test_without_a_name_and_into_a_file_nothing_is_shown(shown_in_notebook, monkeypatch):
    shown = terminal(monkeypatch)
    run(3)
    monkeypatch.setattr(_fit, "_in_notebook", lambda: False)
    run(3)
    shown.isatty = lambda: False
    run(3, name="step")
    assert shown.getvalue() == "" and shown_in_notebook == []
