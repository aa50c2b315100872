"""The time limit: it ends every endless loop, never an import, and leaves the session as it was."""

import builtins
import contextlib
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab import softmax
from attnlab.exercises.ch1_weights import stable_softmax as weights_of
from attnlab.exercises.engine.deadline import within
from attnlab.exercises.engine.judging import Answer
from attnlab.exercises.engine.running import observe


@pytest.mark.parametrize("swallow", ["nothing", "exceptions", "everything"])
def test_an_endless_loop_is_stopped_and_the_session_lives_on(swallow):
    def endless(scores):
        while True:
            if swallow == "nothing":
                continue
            try:
                while True:
                    pass
            except swallowed:
                if swallow == "everything" and time.monotonic() > stop:
                    return scores

    swallowed = Exception if swallow == "exceptions" else BaseException
    stop = time.monotonic() + 1.0
    before = threading.active_count()
    verdict = weights_of.judge(endless, seconds=0.2)
    assert verdict.title == "It did not finish"
    for _ in range(100_000):  # no exception may still be on its way
        pass
    assert builtins.input is not None and weights_of.judge(softmax).correct
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_deadline_that_is_kept_leaves_no_trace_in_the_interpreter():
    """Taking back an exception that was never sent left CPython 3.11 spinning under a tracer."""
    code = """
        import sys
        from attnlab.exercises.engine.deadline import within
        def f():
            within(60, lambda: None)
            return sum(range(10))
        calls = 0
        def tracer(*_):
            global calls
            calls += 1
            if calls > 10_000: raise SystemExit("spinning")
            return tracer
        sys.setprofile(tracer); f(); f(); sys.setprofile(None)
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


def forever():
    while True:
        pass


def test_the_deadline_ends_only_its_own_work():
    def failing():
        raise KeyError

    assert not within(0.05, forever)
    assert within(5, lambda: None)
    with pytest.raises(KeyError):
        within(5, failing)


IMPORTS = {
    "statement": "def f(x):\n    import slow\n    return slow.twice(x)",
    "from": "def f(x):\n    from slow import twice\n    return twice(x)",
    "by name": "def f(x):\n    return __import__('importlib').import_module('slow').twice(x)",
    "in a helper": "def helper(x):\n    import slow\n    return slow.twice(x)\ndef f(x):\n    return helper(x)",
}
SLOW = """
import time
for _ in range(7):
    time.sleep(0.1)
def twice(x):
    time.sleep(0.12)  # within the limit, if the import does not count
    return 2 * x
"""


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A module `slow`, the import of which takes longer than the limits below."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("slow", None)


@pytest.mark.parametrize("kind", IMPORTS)
def test_an_import_is_never_interrupted_and_its_time_does_not_count(kind, slow):
    """Half a module would stay for the session: the next `import torch` found no `torch.softmax`, or crashed."""
    scope, seen = {}, []
    exec(IMPORTS[kind], scope)
    assert within(0.3, lambda: seen.append(observe(scope["f"], (np.ones(2),))))
    assert seen[0].array.tolist() == [2, 2]


@pytest.mark.parametrize("first", ["import", "loop"])
def test_an_endless_loop_beside_an_import_is_stopped_and_the_import_is_not(first, slow):
    def answer(scores):
        for loops in (first == "loop", False, False):  # more than once: a second OutOfTime may come before the import
            with contextlib.suppress(BaseException):
                if loops:
                    forever()
                import slow  # noqa: F401
        forever()

    assert weights_of.judge(answer, seconds=0.2).title == "It did not finish"
    assert sys.modules["slow"].twice(1) == 2


def test_an_import_that_fails_is_a_failure_of_the_function():
    def answer(scores):
        import no_such_module_anywhere

        return no_such_module_anywhere.softmax(scores)

    assert "ModuleNotFoundError at `import no_such_module_anywhere`" in weights_of.judge(answer).words[0]


def test_an_outer_deadline_passes_through_an_inner_one():
    inner = []
    assert not within(0.05, lambda: inner.append(within(60, forever)))
    assert inner == []


STARTING_THREADS = """
from threading import Thread
from attnlab.exercises.engine.deadline import within

def forever():
    Thread(target=int).start()
    while True:
        pass

for i in range(300):
    assert not within(i % 60 * 1e-5, forever)
"""


def test_a_deadline_while_a_thread_is_started_leaves_nobody_waiting():
    """In a process of its own: a thread that dies before its first sign would leave this one waiting for ever."""
    subprocess.run([sys.executable, "-c", STARTING_THREADS], check=True, timeout=120)


def test_a_session_survives_a_deadline_at_any_moment():
    """OutOfTime may arrive while output and input are being put back."""
    kept = (sys.stdout, sys.stderr, builtins.input, list(warnings.filters), np.geterr())
    many = [weights_of.ordinary()[0]] * 20_000
    for _ in range(30):
        answer = Answer(weights_of, softmax, 1)
        answer.exercise = SimpleNamespace(ordinary=lambda seed: many, hard=[])
        answer.run(0.003)
        assert (sys.stdout, sys.stderr, builtins.input, list(warnings.filters), np.geterr()) == kept


def test_without_threads_there_is_a_verdict_and_no_limit(monkeypatch):
    """As in a browser's Python, which is compiled without them."""

    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    assert within(0.01, lambda: done.append(time.sleep(0.1))) and done == [None]
    assert weights_of.judge(softmax).title == weights_of.judge(weights_of.reference).title
    with pytest.raises(RuntimeError, match="its own"):
        within(1, lambda: (_ for _ in ()).throw(RuntimeError("its own")))
