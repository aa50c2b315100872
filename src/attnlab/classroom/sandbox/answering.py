"""Inside of the sandbox: run a submission's cells, call its functions, and tell what they did.

Nothing here knows what is expected, and nothing that is told here is believed outside before it has been checked.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import functools
import importlib.abc
import importlib.machinery
import inspect
import linecache
import os
import random
import socket
import sys
import traceback
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from attnlab.exercises.engine import learner
from attnlab.exercises.engine.deadline import within
from attnlab.exercises.engine.observing import Asked, Observations
from attnlab.exercises.engine.parts import Probe
from attnlab.exercises.engine.running import _Excerpt, _is_tensor, _message, as_array, type_name

from . import border, isolation
from .cells import Code, needed, read

REGISTRY = "attnlab.exercises.ch"  # the modules with the references; not to be had in here
OUT_OF_MEMORY = 86  # the exit status of a process that has used up its memory
OTHER_CELLS = 6  # cells that hold no answer may take that many times the seconds of one that does
PLAIN = (types.ModuleType, int, float, str, np.generic, list, tuple, dict, set)


class _Silent(types.ModuleType):
    """Stands where a chapter's exercises would be: `ch1.name.check()`, `.hint()`, `.solution()` do nothing."""

    def __getattr__(self, name: str) -> _Silent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Silent(name)

    def __call__(self, *_: object, **__: object) -> None:
        return None


class _Registry(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name.startswith(REGISTRY) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> _Silent:
        return _Silent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def answer(channel: socket.socket) -> None:
    """Take one piece of work from `channel`, do it and tell: the whole life of a process that runs a submission."""
    try:
        _work(channel)
    except MemoryError:  # what holds it may be anywhere: only a fresh process is fair to the exercises that follow
        os._exit(OUT_OF_MEMORY)


def _work(channel: socket.socket) -> None:
    work = border.receive(channel, trusted=True)
    tell = functools.partial(_tell, channel, os.getpid())
    seed()
    with contextlib.redirect_stdout(_Excerpt()), contextlib.redirect_stderr(_Excerpt()):
        (versions, scope), others = run_cells(tell, work), False
        begun = isolation.peak()
        for task in work["exercises"]:
            if task["number"] in work["skip"]["exercises"]:
                continue
            tell({"at": ["exercise", task["number"]]})
            said = _observed(channel, task, versions[task["name"]], scope, work["seconds"])
            full = any(each["failure"] and _of_memory(*each["failure"]) for each in _told(said))
            if full and others:
                raise MemoryError  # perhaps they took it: it is asked again, first in its process
            tell({"exercise": task["number"], **said})
            if full or isolation.peak() - begun > work["memory"] / 2:
                raise MemoryError  # what it took may be there still
            others = True
    tell({"done": True})


def _tell(channel: socket.socket, process: int, message: dict) -> None:
    """Send a message, unless this is a copy of the process that `os.fork()` in an answer has made."""
    if os.getpid() != process:
        os._exit(0)
    border.send(channel, message)


def seed() -> None:
    """Random numbers that nobody seeded are the same in every run."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what submissions use
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


# ---- cells ----------------------------------------------------------------------------------------------------------


def run_cells(tell: Callable[[dict], None], work: dict) -> tuple[dict[str, list], dict]:
    """What each asked name meant in turn, from the first cell of its exercise on, and the scope of all cells.

    Each meaning is (place of the cell, object, `_meanings` of other names where it was checked): a cell further down
    may give a helper's name to something else, and the answer was right before it.

    Told on the way: the cells that failed, each as [its place, "TypeError: …", the line], and which names the cells of
    answers give.
    """
    sys.meta_path.insert(0, _Registry())
    main = types.ModuleType("__main__")
    sys.modules["__main__"], scope = main, vars(main)
    scope |= {"__builtins__": builtins, "display": _nothing, "get_ipython": lambda: _Silent("shell")}
    skip, cells = work["skip"]["cells"], work["cells"]
    codes = []
    for index, cell in enumerate(cells):
        if index not in skip:
            tell({"at": ["reading", index]})
        codes.append(Code("") if index in skip else read(cell["source"], _file(index)))
    numbers = {task["name"]: task["number"] for task in work["exercises"]}
    answers = [index for index, cell in enumerate(cells) if cell["number"] and index not in skip]
    versions: dict[str, list] = {name: [] for name in numbers}
    faults, begun, unchecked, run = [], set(), [], set(needed(codes, answers, numbers))
    for index, cell in enumerate(cells):
        number = cell["number"]
        if number or cell["checks"]:
            now = _meanings(scope, numbers)
            for then in unchecked:
                then.update(now)
            unchecked = []
        if index not in run:
            continue
        tell({"at": ["cell", index]})
        before = {name: scope.get(name) for name in numbers}
        fault = _run(codes[index], _file(index), scope, work["seconds"] * (1 if number else OTHER_CELLS))
        if fault:
            faults.append([index, *fault])
        for name in versions:
            if numbers[name] == number and name not in begun:  # what the lesson called so is not the answer
                begun.add(name)
                versions[name] = []
            if name in scope and scope[name] is not before[name]:
                if versions[name] and _is_stub(scope[name]):  # a copy: other answers call what was there
                    scope[name] = versions[name][-1][1]
                    continue
                unchecked.append({})
                versions[name].append((index, scope[name], unchecked[-1]))
    given = {i: sorted(codes[i].gives)[: border.KEPT_ITEMS] for i in answers}
    tell({"faults": faults, "given": {str(i): [n[:100] for n in given[i]] for i in given}})
    last = _meanings(scope, numbers)
    return {name: [(i, found, last | then) for i, found, then in versions[name]] for name in versions}, scope


def _meanings(scope: dict, asked: Collection[str]) -> dict:
    """The functions, classes, modules, numbers and lists that names mean now. Of an asked name, the last one counts.

    No arrays: one that a later cell replaces would stay in memory.
    """
    return {
        name: value
        for name, value in scope.items()
        if name not in asked and (callable(value) or issubclass(type(value), PLAIN))
    }


def _file(index: int) -> str:
    return f"<cell {index + 1}>"


def _nothing(*_: object, **__: object) -> None:
    return None


def _run(code: Code, file: str, scope: dict, seconds: float) -> tuple[str, str] | None:
    """Run one cell; what went wrong in it, in words, and the line where it did."""
    if code.fault:
        line = (code.fault.text or "").strip()
        at = f" (line {code.fault.lineno})" if code.fault.lineno else ""
        return f"SyntaxError: {code.fault.msg}{at}"[: border.KEPT_TEXT], line[: border.KEPT_TEXT]
    failed: list[BaseException] = []

    def do() -> None:
        try:
            # The lines are kept where a traceback finds them.
            linecache.cache[file] = (len(code.source), None, code.source.splitlines(True), file)
            compiled = compile(code.source, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
            if compiled.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(compiled, scope))
            else:
                exec(compiled, scope)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            failed.append(error)

    if not within(seconds, do):
        return f"It was still running after {seconds:g} seconds and was stopped.", ""
    return _words(failed[0]) if failed else None


def _words(error: BaseException) -> tuple[str, str]:
    words = f"{type_name(error)}: {_message(error)}".removesuffix(": ")[: border.KEPT_TEXT]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<cell ")]
    return words, ((frames[-1].line or "").strip() if frames else "")[: border.KEPT_TEXT]


# ---- exercises ------------------------------------------------------------------------------------------------------


def _observed(channel: socket.socket, task: dict, versions: list, scope: dict, seconds: float) -> dict:
    """What the function of one exercise did: {"state": …}, the place of its cell, and its observations.

    Of several versions the last one counts that is no empty stub: a copy of the stub further down loses no points.
    """
    if not versions:
        return {"state": "missing"}
    begun = [each for each in versions if not _is_stub(each[1])]
    if not begun:
        return {"state": "untouched"}
    place, function, then = begun[-1]
    scope.update(then)
    return {"cell": place, **_seen(channel, task, function, seconds)}


def _is_stub(value: Any) -> bool:
    return callable(value) and learner.untouched(value)


def _told(said: dict) -> list[dict]:
    return [each for tier in ("ordinary", "hard") for each in said.get(tier, ()) if each]


def _of_memory(kind: str, words: str, _: str) -> bool:
    """Whether an exception says that memory ran out; torch and the system have words of their own for it."""
    return kind == "MemoryError" or "allocate memory" in words


def _seen(channel: socket.socket, task: dict, function: Any, seconds: float) -> dict:
    if not callable(function):
        return {"state": "no function", "kind": type_name(function)[:100]}
    asked = Asked(
        _probes(channel, task["ordinary"]), _probes(channel, task["hard"]), tuple(task["gradients"]), task["test"]
    )
    if asked.gradients:
        import torch  # noqa: F401 - its time does not count
    seen = Observations(asked, function)
    try:
        if not seen.run(seconds):
            return {"state": "endless"}
        ordinary, hard = ([border.told(o) for o in tier] for tier in (seen.ordinary, seen.hard))
        given = any(each["array"] is not None for each in ordinary)  # what is too large is told as a failure
        return {"state": "observed", "ordinary": ordinary, "hard": hard if given else []}
    except MemoryError:
        raise
    except Exception as error:  # what it returned cannot be looked at
        return {"state": "unreadable", "words": _words(error)[0]}


def _probes(channel: socket.socket, tasks: list[dict]) -> list[Probe]:
    return [
        Probe(
            tuple(_there(channel, argument) for argument in task["arguments"]),
            arrays_only=task["arrays_only"],
            at_most=task["at_most"],
        )
        for task in tasks
    ]


def _there(channel: socket.socket, argument: Any) -> Any:
    """An argument; an implementation stays outside, and what is passed here calls it there."""
    if not (isinstance(argument, dict) and "implementation" in argument):
        return argument
    return _Outside(channel, argument["implementation"])


class _Outside:
    """Calls an implementation that stays outside of the sandbox."""

    def __init__(self, channel: socket.socket, name: str) -> None:
        self._channel, self._name = channel, name

    def __deepcopy__(self, memo: object) -> _Outside:
        return self

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        passed = [_array_of(each) for each in arguments]
        border.send(
            self._channel,
            {"call": self._name, "arguments": passed, "named": {k: _array_of(v) for k, v in named.items()}},
        )
        reply = border.receive(self._channel, trusted=True)
        if "raised" in reply:
            kind, words = reply["raised"]
            raise _raised(kind, words)
        return reply["result"]


def _raised(kind: str, words: str) -> Exception:
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known(words)
    return RuntimeError(f"{kind}: {words}")


def _array_of(value: Any) -> Any:
    """A tensor or a list as an array; all else as it is."""
    if isinstance(value, list | tuple):
        return np.asarray(value)
    return as_array(value) if _is_tensor(value) else value
