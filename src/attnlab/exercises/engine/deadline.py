"""A time limit for code from outside, which ends even an endless loop and never harms the session."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable
from types import FrameType

TICK = 0.05  # seconds between two looks at the work
IMPORTING = "<frozen importlib._bootstrap>"  # the file of the frames that stand below every import
STARTING = threading.Thread.start.__code__


class OutOfTime(BaseException):
    """Raised inside code that runs too long. A BaseException, so that `except Exception` does not swallow it."""


class _Watch:
    """Raises `OutOfTime` in a thread once `seconds` have passed, and again and again while it is at `work`.

    Again and again, because a bare `except:` inside a loop would swallow a single one. Only while the frame of the work
    is on the thread's stack: should anything go wrong, nothing is raised in whatever the thread does next. Never during
    an import, which would leave half a module behind for the whole session; nor does its time count: the first
    `import torch` alone may take longer than the limit.  Never while it starts a thread: until that one runs, CPython
    knows it by the ident of its parent and raises in it instead, and the parent waits for its first sign for ever.
    """

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.seconds, self.work, self.thread = seconds, work, threading.get_ident()
        self.fired, self.left, self.lock = False, threading.Event(), threading.Lock()
        self.frame: FrameType | None = None

    def do(self) -> None:
        self.frame = sys._getframe()
        self.work()

    def looked(self) -> tuple[bool, bool, bool]:
        """Is the thread at work? Is it importing something there? Starting a thread?"""
        frame, importing, starting = sys._current_frames().get(self.thread), False, False
        while frame is not None and frame is not self.frame:
            importing = importing or frame.f_code.co_filename == IMPORTING
            starting = starting or frame.f_code is STARTING
            frame = frame.f_back
        return frame is not None, importing, starting

    def run(self) -> None:
        remaining = self.seconds
        while not self.left.wait(min(TICK, remaining) if remaining > 0 else TICK):
            with self.lock:
                at_work, importing, starting = self.looked()
                if self.left.is_set() or (self.frame is not None and not at_work):
                    return
                remaining -= 0 if importing else TICK
                if at_work and not (importing or starting) and remaining <= 0:
                    self.fired = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(OutOfTime))


def within(seconds: float, work: Callable[[], None]) -> bool:
    """Do the work; stop it after `seconds`, imports not counted. True if it came to its end in time.

    It is stopped between Python bytecodes, on every system: an endless Python loop ends, a single endless call into C
    does not. Where no thread can be started there is no limit.
    """
    watch, finished, foreign = _Watch(seconds, work), False, None
    try:
        with contextlib.suppress(RuntimeError):  # a browser's Python starts no threads: there, no limit
            threading.Thread(target=watch.run, daemon=True).start()
        watch.do()
        finished = True
    except BaseException as error:  # whatever comes, the watch is ended first; then it passes through
        foreign = None if isinstance(error, OutOfTime) and watch.fired else error
    while True:
        try:
            with watch.lock:
                watch.left.set()
            # One may be on its way still: let it arrive here. Taking it back (with NULL) would leave CPython 3.11's
            # flag for pending exceptions set: every later call is slower, and under a tracer the program stands still.
            for _ in range(100 if watch.fired else 0):
                pass
            break
        except OutOfTime:
            finished = False
    watch.frame = None
    if foreign:
        raise foreign
    return finished and not watch.fired
