"""Run code from outside and write down what it did: an `Observation`, never an exception."""

from __future__ import annotations

import builtins
import contextlib
import copy
import io
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .counting import held_by, tracing_settings
from .deadline import OutOfTime
from .tensors import WithGradients, tensors_noted, torch_settings

TIME_LIMIT = 5.0  # seconds for all probes of one check together; the probes are tiny
PACKAGE = str(Path(__file__).resolve().parents[2])  # …/attnlab
KEPT_OUTPUT = 2_000  # characters of printed text that a card can show
KEPT_WORDS, KEPT_WARNINGS = 500, 64  # characters of one message or name, and how many different warnings


@dataclass(frozen=True)
class Failure:
    """An exception of the observed code: its type, message, and the line of that code which raised it."""

    kind: str
    message: str
    line: str = ""


@dataclass(frozen=True)
class Observation:
    """What one call did. Exactly one of `array` and `failure` is set, or neither: then `returned` is no array.

    array      the returned numbers as NumPy array (tensors detached and copied)
    returned   the name of the returned type, as the learner would write it
    raw        the returned object itself, for a closer description
    failure    the exception, if one was raised
    changed    positions of the arguments that the call modified
    printed    the first characters of what was printed, and `printed_size` how many there were
    warned     messages of the warnings it raised
    gradients  for each argument that an exercise differentiates by, its gradient; None where none arrives
    carries    the precision of the answer where its array does not show it
    held       the most bytes it held at once, and whether that is too `heavy`; None where nobody counts
    """

    array: np.ndarray | None = None
    returned: str = ""
    raw: Any = None
    failure: Failure | None = None
    changed: tuple[int, ...] = ()
    printed: str = ""
    printed_size: int = 0
    warned: tuple[str, ...] = ()
    carries: np.dtype | None = None
    gradients: tuple[np.ndarray | None, ...] = ()
    held: int | None = None
    heavy: bool | None = None

    @property
    def mark(self) -> float:
        """One number for all the numbers, by which to tell observations apart; NaN where there are none.

        A sum with unequal factors of size 1 at most: a plain sum would be 1 for all weights.
        """
        if self.array is None:
            return float("nan")
        with np.errstate(all="ignore"):
            return float(np.dot(self.array.ravel().astype(np.float64), np.cos(np.arange(self.array.size))))

    @property
    def finite(self) -> bool:
        """True when the call gave numbers, all of them finite."""
        return self.array is not None and all(np.isfinite(part).all() for part in self.parts)

    @property
    def telling(self) -> bool:
        """True for finite numbers, or more of them than others: a single row of 0/0 leaves the rest as evidence."""
        counted = sum(2 * np.isfinite(part).sum() - part.size for part in self.parts)
        return self.finite or (self.array is not None and bool(counted > 0))

    @property
    def parts(self) -> list[np.ndarray]:
        """All numbers of the observation: its array first, then the gradients that arrived."""
        return [part for part in (self.array, *self.gradients) if part is not None]


class _Excerpt(io.TextIOBase):
    """A stream that keeps the beginning of what is written and counts the rest: megabytes cost nothing."""

    def __init__(self) -> None:
        self.kept, self.size = "", 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        text = str(text)
        if self.size < KEPT_OUTPUT:
            self.kept += text[: KEPT_OUTPUT - self.size]
        self.size += len(text)
        return len(text)


def _exit(*_: object) -> None:
    raise SystemExit


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


@contextlib.contextmanager
def session_kept():
    """Refuse what would harm the session, and leave all as it was, whatever is interrupted in between.

    Refused are `input()`, which would wait for ever, and IPython's `exit()`. `_quiet` puts streams, warnings and
    settings back after each call, but `OutOfTime` may arrive while it does so.
    """

    def no_input(*_: object) -> str:
        raise RuntimeError("input() was called; a checked function gets everything from its arguments")

    asked, streams, shell = builtins.input, (sys.stdout, sys.stderr), _shell()
    put_torch_back, put_tracing_back = torch_settings(), tracing_settings()
    builtins.input = no_input
    if shell is not None:
        shell.ask_exit = _exit  # in a kernel, exit() asks the kernel to end, after the cell
    with warnings.catch_warnings(), np.errstate():
        try:
            yield
        finally:
            builtins.input, (sys.stdout, sys.stderr) = asked, streams
            put_torch_back()
            put_tracing_back()
            if shell is not None:
                vars(shell).pop("ask_exit", None)


@contextlib.contextmanager
def _quiet(output: _Excerpt):
    """Catch what is printed and warned."""
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(record=True) as caught,
        np.errstate(all="warn", under="ignore"),  # restored afterwards, whatever np.seterr the code calls
    ):
        warnings.simplefilter("always")
        yield caught


@contextlib.contextmanager
def _silent():
    """Drop the warnings of code that is ours."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield ()


def _precision(value: Any) -> np.dtype | None:
    """What a tensor's numbers can be trusted to. A float64 tensor often met a float32 scalar, torch's default."""
    return (
        np.dtype(np.float32) if str(getattr(value, "dtype", "")).startswith(("torch.float", "torch.bfloat")) else None
    )


def as_array(value: Any) -> np.ndarray | None:
    """The numbers in `value` as a NumPy array of its own, or None when `value` is not an array or a number."""
    if isinstance(value, np.ndarray | np.generic | int | float):
        array = np.array(value)
        return array if array.dtype.kind in "fiub" else None
    if _is_tensor(value):
        tensor = value.detach().cpu()
        return np.array((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())
    return None


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def type_name(value: Any) -> str:
    """The name of its class, never empty: a class from outside may have none, or a metaclass that lies about it."""
    kind = type(value)
    otherwise = "Exception" if issubclass(kind, BaseException) else "object"
    return _plain(type.__dict__["__name__"].__get__(kind)) or otherwise


def _plain(text: str) -> str:
    """The beginning of a text, as a text and nothing else: a class derived from `str` has slices of its own."""
    return str.__getitem__(text, slice(KEPT_WORDS))


def _message(error: BaseException) -> str:
    try:
        return _plain(str(error))
    except Exception:  # an exception class from outside may fail to print itself
        return ""


def _returned(result: Any) -> str:
    name = type_name(result)
    return f"{name} (not NumPy's)" if name == "ndarray" and not isinstance(result, np.ndarray) else name


def _where(error: BaseException) -> str:
    """The line of the learner's code that raised: the last frame that belongs to no library, nor to attnlab."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith(PACKAGE)]
    return (own[-1].line or "").strip() if own else ""


def observe(
    function: Callable,
    arguments: Sequence[Any],
    convert: Callable = lambda x: x,
    *,
    watched: bool = True,
    at_most: int | None = None,
) -> Observation:
    """Call `function` on copies of `arguments` and write down what happened.

    `convert` turns each argument into what the function expects (a tensor, for answers written in torch).
    Our own functions, which print nothing, need not be `watched`: that is quicker, and their warnings are dropped.
    With `at_most` its bytes are counted, unless it works with tensors: nobody here sees theirs. (What it holds beside
    them may be too much already.)
    `OutOfTime` and the user's own stop pass through; every other exception, SystemExit included, is written down.
    """
    given = copy.deepcopy(tuple(arguments))
    output, failure, result, gradients, held = _Excerpt(), None, None, (), None
    with _quiet(output) if watched else _silent() as caught:
        try:
            converted = [convert(a) for a in given]
            if at_most is None:
                result = function(*converted)
            else:
                with tensors_noted() as tensors:
                    result, held = held_by(function, converted)
                held = None if tensors and held <= at_most else held
            if isinstance(result, WithGradients):
                result, gradients = result
        except (OutOfTime, KeyboardInterrupt):
            raise
        except BaseException as error:
            failure = Failure(type_name(error), _message(error), _where(error))
        array = None if failure else as_array(result)
    changed = tuple(i for i, (a, b) in enumerate(zip(arguments, given, strict=True)) if not _same(a, b))
    held = None if _is_tensor(result) else held
    return Observation(
        array=array,
        carries=None if failure else _precision(result),
        returned="" if failure else _returned(result),
        raw=None if failure or array is not None else result,
        failure=failure,
        changed=changed,
        printed=output.kept,
        printed_size=output.size,
        warned=tuple(dict.fromkeys(_message(w.message) for w in caught))[:KEPT_WARNINGS],
        gradients=tuple(None if g is None else as_array(g) for g in gradients),
        held=held,
        heavy=None if held is None else held > at_most,
    )


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, np.ndarray):
        return before.shape == after.shape and before.dtype == after.dtype and before.tobytes() == after.tobytes()
    return before == after
