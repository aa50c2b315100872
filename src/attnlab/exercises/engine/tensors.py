"""Tensors: answers written in torch, and gradients as part of what is observed. Importing this imports no torch."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

INSTALL = "pip install torch"


class WithGradients(NamedTuple):
    """What a differentiated function gives: its result, and a gradient for each argument that was asked for.

    A gradient is None where the result does not depend on the argument, as far as torch can see.
    """

    result: Any
    gradients: tuple[Any, ...]


def tensor_makers() -> list[Callable]:
    """Functions from arguments to tensors, if the session has imported torch. It is never imported for this.

    The first makes tensors of arrays alone: a length stays an int, and a name a string. The second makes them of plain
    numbers too, for answers like `torch.log(n)`.
    """
    if (torch := sys.modules.get("torch")) is None:
        return []

    def from_array(argument: Any) -> Any:
        return torch.from_numpy(argument) if isinstance(argument, np.ndarray) else argument

    def from_number(argument: Any) -> Any:
        if isinstance(argument, bool) or not isinstance(argument, int | float | np.number):
            return from_array(argument)
        return torch.tensor(argument, dtype=torch.float64 if isinstance(argument, float) else None)

    return [from_array, from_number]


@contextlib.contextmanager
def tensors_noted() -> Iterator[list[bool]]:
    """A list that is no longer empty once torch has computed with tensors; without torch it stays empty."""
    noted: list[bool] = []
    if (torch := sys.modules.get("torch")) is None:
        yield noted
        return

    class Noting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            noted[:] = [True]
            return function(*args, **(kwargs or {}))

    with Noting():
        yield noted


def torch_is_there() -> bool:
    """Whether torch could be imported, without importing it."""
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # what stands in its way, or in its place
        return False


def missing_torch() -> str:
    """Why torch cannot be imported, or an empty text where it can; then it is imported."""
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: a library that torch loads is missing
        return str(error) or type(error).__name__
    return ""


@contextlib.contextmanager
def _settled(torch: Any) -> Iterator[None]:
    """Gradients on, whatever the session has set; one thread, since tiny tensors only wait for a second one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)


def torch_settings() -> Callable[[], None]:
    """Reads the settings of torch that code may change, and gives a function that puts them back."""
    if (torch := sys.modules.get("torch")) is None:
        return lambda: None
    threads, gradients, dtype = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()

    def put_back() -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(dtype)

    return put_back


def differentiated(function: Callable, positions: Sequence[int]) -> Callable:
    """`function`, given tensors, and the gradient of its result with respect to the arguments at `positions`.

    The tensors share memory with the arrays, so that a change of them is seen. What is differentiated is a weighted
    sum of the result: with equal weights, softmax would have the gradient zero.
    """

    def called(*arguments: Any) -> WithGradients:
        import torch

        with _settled(torch):
            tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
            asked = [tensors[i].requires_grad_() for i in positions]
            result = function(*tensors)
            if not (isinstance(result, torch.Tensor) and result.requires_grad):
                return WithGradients(result, (None,) * len(asked))
            weights = torch.cos(torch.arange(1, result.numel() + 1, dtype=torch.float64)).reshape(result.shape)
            loss = (result * weights.to(result)).sum()  # one number: for several, torch first imports for a second
            return WithGradients(result, torch.autograd.grad(loss, asked, allow_unused=True))

    return called
