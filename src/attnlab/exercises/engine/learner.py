"""Find the learner's function, and see whether it has been begun at all."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

MISSING = object()


def find(name: str, depth: int) -> Any:
    """What `name` means to the caller `depth` frames up, or MISSING: in a notebook, what the other cells defined."""
    frame = sys._getframe(depth + 1)
    for scope in (frame.f_locals, frame.f_globals):
        if name in scope:
            return scope[name]
    return MISSING


def _does(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions that a function body does, without the housekeeping that differs between Python versions."""
    kept = []
    for step in dis.get_instructions(code):
        if step.opname in {"RESUME", "NOP", "CACHE", "PRECALL", "PUSH_NULL", "KW_NAMES", "NOT_TAKEN"}:
            continue
        kept.append((step.opname, None if isinstance(step.argval, CodeType) else step.argval))
    return kept


def untouched(function: Callable) -> bool:
    """True for a body that is only a docstring, `...`, `pass` or `raise NotImplementedError`, in any combination.

    Read from the compiled code, not the text: comments do not matter and no source file is needed.
    `return None` compiles to the same and counts as not begun.
    """
    try:
        code = function.__code__
    except AttributeError:
        return False
    steps = _does(code)
    if not steps:
        return False
    names = {value for op, value in steps if op in {"LOAD_GLOBAL", "LOAD_NAME"}}
    if names == {"NotImplementedError"}:
        allowed = {"LOAD_GLOBAL", "LOAD_CONST", "CALL", "RAISE_VARARGS"}
        return all(op in allowed for op, _ in steps)
    return all((op in {"LOAD_CONST", "RETURN_CONST"} and value is None) or op == "RETURN_VALUE" for op, value in steps)
