"""The loop that trains the small models: Adam with a rate that rises and falls, and a bar that leaves nothing."""

import html
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnlab.models.spelling import one_thread

__all__ = ["fit"]


@one_thread()
def fit(
    parameters: Iterable[Tensor],
    loss_of_step: Callable[[int], Tensor],
    n_steps: int,
    *,
    learning_rate: float,
    n_warm_up: float,
    largest_gradient: float | None = None,
    name: str | None = None,
) -> list[float]:
    """Train the parameters where they stand, and return the losses, one a step.

    loss_of_step      takes the number of the step, from 0 on → the loss, a scalar; called once a step.  Whatever is
                      drawn at random is drawn there: nothing here draws, so seeds are the caller's
    n_warm_up         the learning rate rises in so many steps to the full one; need not be whole, and 0 is none.  All
                      the while it also falls in a straight line, to 0 after n_steps
    largest_gradient  the gradient of all parameters together is cut to this length; None leaves it
    name              what a bar says before "3 of 200" while this runs, and None for no bar.  It vanishes at the end,
                      also after an exception

    Adam, on one thread (`one_thread` says why), with torch's defaults for all but the rate.
    """
    parameters = list(parameters)  # a generator would be empty when it comes to the gradients
    optimiser, losses = torch.optim.Adam(parameters, lr=learning_rate), []
    with _bar(name, n_steps) as show:
        for step in range(n_steps):
            show(step)
            optimiser.param_groups[0]["lr"] = _rate(step, n_steps, learning_rate, n_warm_up)
            loss = loss_of_step(step)
            optimiser.zero_grad()
            loss.backward()
            if largest_gradient is not None:
                nn.utils.clip_grad_norm_(parameters, largest_gradient)
            optimiser.step()
            losses.append(loss.item())
    return losses


def _rate(step: int, n_steps: int, full: float, n_warm_up: float) -> float:
    rising = 1 if step + 1 >= n_warm_up else (step + 1) / n_warm_up
    # In this order: another one rounds otherwise, and the stored models would not come out again.
    return full * rising * (1 - step / n_steps)


@contextmanager
def _bar(name: str | None, n_steps: int) -> Iterator[Callable[[int], None]]:
    """Shows a hundred of the steps as they begin, in the notebook or the terminal; a file gets nothing."""
    every = max(1, n_steps // 100)
    if name is None or not (_in_notebook() or sys.stderr.isatty()):
        yield lambda step: None
    elif _in_notebook():
        from IPython.display import HTML, display

        bar = display(HTML("<progress>"), display_id=True)

        def show(step: int) -> None:
            if step % every == 0:
                drawn = f'<progress max="{n_steps}" value="{step + 1}" style="width: 60ex"></progress>'
                bar.update(HTML(f"{drawn} {html.escape(name)} {step + 1} of {n_steps}"))

        try:
            yield show
        finally:
            bar.update(HTML(""))  # the bar alone: what the cell has printed stays
    else:

        def show(step: int) -> None:
            if step % every == 0:
                print(f"\r{name} {step + 1} of {n_steps}", end="", file=sys.stderr, flush=True)

        try:
            yield show
        finally:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this: then its shell has one."""
    if "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")
