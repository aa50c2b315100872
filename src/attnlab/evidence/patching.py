"""Interventions inside of a torch model: read what a module says, or let it say something else.  By forward hooks.

    with captured(layer) as seen:
        model(clean)
    with edited(layer, lambda output: seen.outputs[0]):      # activation patching
        patched = model(corrupted)
    restored(model(clean), model(corrupted), patched)

A module that the model never calls is never seen: torch.nn.MultiheadAttention reads the weights of its `out_proj`
itself.  `edited` says so.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from attnlab._inputs import namespace_of, shape_of

__all__ = ["Seen", "captured", "edited", "restored"]


class Seen(NamedTuple):
    """What a module got and gave, call by call: `inputs` and `outputs`, lists of detached copies."""

    inputs: list[Tensor]
    outputs: list[Tensor]


@contextmanager
def captured(module: nn.Module) -> Iterator[Seen]:
    """Keep the first input and the output of each call of the module, for as long as the `with` block lasts.

    The first input is the first tensor in the order of the parameters of the module's `forward`, however the caller
    orders and names them.  What is no tensor, such as None, is passed over; a list, tuple or dictionary is not, since
    it may hold the input.

    Of a module that returns a tuple, such as (output, weights), the first tensor is kept.  The copies stay after the
    block, whatever the model does with the originals.

    Raises TypeError where an input or an output is no tensor, and where which input is first cannot be known: several
    tensors under names that `forward` takes as **kwargs.
    """
    _check_module(module)
    seen = Seen([], [])

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        place, key = _first_input(module, args, kwargs)
        seen.inputs.append((args, kwargs)[place][key].detach().clone())

    def after(module: nn.Module, args: tuple, output: Any) -> None:
        seen.outputs.append(_first_output(module, output).detach().clone())

    handles = [module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def edited(module: nn.Module, function: Callable[[Tensor], Tensor], *, where: str = "output") -> Iterator[None]:
    """While the `with` block lasts, the module's output is function(output), or its first input function(input).

    Which input is the first says `captured`.

    where     "output" or "input"
    function  gets a copy, which it may change in place, and returns a tensor of the same shape.  Gradients flow.  Of a
              module that returns a tuple, such as (output, weights), the first tensor is edited

    Afterwards, also after an exception, the module is what it was.  Blocks may be nested: the outer one edits first.

    Raises ValueError for another shape, TypeError for what is no tensor, and RuntimeError at the end of a block in
    which the module was never called: nothing was edited then, and "no effect" would be a false result.
    """
    _check_module(module)
    if where not in ("output", "input"):
        raise ValueError(f"where must be 'output' or 'input', but it is {where!r}.")
    n_calls = 0

    def edit(tensor: Tensor) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        new = function(tensor.clone())
        if not isinstance(new, Tensor):
            raise TypeError(f"function must return a torch tensor, but it returned {type(new).__name__}.")
        if new.shape != tensor.shape:
            raise ValueError(
                f"function must return a tensor of the {where}'s shape, {tuple(tensor.shape)}, "
                f"but it returned shape {tuple(new.shape)}."
            )
        return new

    def before(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        place, key = _first_input(module, args, kwargs)
        new = edit((args, kwargs)[place][key])
        return ((*args[:key], new, *args[key + 1 :]), kwargs) if place == 0 else (args, {**kwargs, key: new})

    def after(module: nn.Module, args: tuple, output: Any) -> Any:
        new = edit(_first_output(module, output))
        if isinstance(output, Tensor):
            return new
        if hasattr(output, "_replace"):  # a named tuple
            return type(output)(new, *output[1:])
        return type(output)((new, *output[1:]))

    if where == "input":
        handle = module.register_forward_pre_hook(before, with_kwargs=True)
    else:
        handle = module.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()
    if n_calls == 0:
        raise RuntimeError(
            f"{type(module).__name__} was not called inside of the block, so that nothing was edited. Some modules use "
            "the weights of a part without calling it, as torch.nn.MultiheadAttention does with its out_proj: edit the "
            "module around it."
        )


def restored(clean: Any, corrupted: Any, patched: Any) -> Any:
    """The share of the difference that a patch brings back: (patched − corrupted) / (clean − corrupted).

    0: the output is still the corrupted one; 1: it is the clean one again; below 0 and above 1 occur.  Numbers, NumPy
    arrays or torch tensors, element by element.

    Raises ValueError where clean and corrupted are equal, since there is nothing to bring back, and for shapes that do
    not broadcast.
    """
    given = {"clean": clean, "corrupted": corrupted, "patched": patched}
    arrays = {name: array for name, array in given.items() if not isinstance(array, Real)}
    if arrays:
        namespace_of(**arrays)
        try:
            np.broadcast_shapes(*map(shape_of, arrays.values()))
        except ValueError:
            shapes = " and ".join(f"{name} has shape {shape_of(array)}" for name, array in arrays.items())
            raise ValueError(f"clean, corrupted and patched must broadcast, but {shapes}.") from None
    difference = clean - corrupted
    nothing = difference == 0
    if nothing if isinstance(nothing, bool) else nothing.any():
        raise ValueError(
            "clean and corrupted must differ, but they are equal: corrupt something that the output depends on."
        )
    return (patched - corrupted) / difference


def _check_module(module: Any) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, but it is of type {type(module).__name__}.")


def _first_input(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[int, Any]:
    """Where the first input is: (0, its index) for a positional one, (1, its name) for one that is named."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except ValueError:  # a traced module tells none
        parameters = ()
    order = [of.name for of in parameters if of.kind not in (of.VAR_POSITIONAL, of.VAR_KEYWORD)]
    named = sorted((name for name in kwargs if name in order), key=order.index)
    unnamed = [name for name in kwargs if name not in order]
    places = [*((0, i) for i in range(len(args))), *((1, name) for name in (*named, *unnamed))]
    for place, key in places:
        given = (args, kwargs)[place][key]
        if isinstance(given, Tensor):
            if key in unnamed and sum(isinstance(kwargs[name], Tensor) for name in unnamed) > 1:
                raise TypeError(
                    f"Which input of {type(module).__name__} is the first cannot be known: forward takes "
                    f"{', '.join(unnamed)} as **kwargs. Pass the first one by position."
                )
            return place, key
        if isinstance(given, list | tuple | dict):
            break
    raise TypeError(f"The first input of {type(module).__name__} is not a torch tensor.")


def _first_output(module: nn.Module, output: Any) -> Tensor:
    first = output[0] if isinstance(output, tuple | list) and output else output
    if not isinstance(first, Tensor):
        raise TypeError(f"{type(module).__name__} returns no torch tensor and no tuple that begins with one.")
    return first
