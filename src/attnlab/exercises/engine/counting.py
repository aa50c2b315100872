"""How many bytes a call holds at most at once: NumPy's arrays and Python's own objects, which tracemalloc sees."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any


def held_by(function: Callable, arguments: Sequence[Any]) -> tuple[Any, int]:
    """The result of the call, and the most bytes that it held at once, beside its arguments; the result counts.

    Slices are views and cost nothing. What torch allocates is not seen.
    """
    put_back = tracing_settings()
    tracemalloc.start()  # does nothing where the session traces already
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        result = function(*arguments)
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        put_back()


def tracing_settings() -> Callable[[], None]:
    """Sees whether memory is traced, and gives a function that puts that back."""
    return (lambda: None) if tracemalloc.is_tracing() else tracemalloc.stop
