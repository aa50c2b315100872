"""The judge outside: what a submission says of itself is taken for what it can be, in its turn and in its time."""

import contextlib
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import nbformat
import numpy as np
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from attnlab.classroom import course, grading
from attnlab.classroom.assignments import look_up
from attnlab.classroom.intake import submissions
from attnlab.classroom.sandbox import border, judging, sandbox
from attnlab.classroom.sandbox.border import BorderError
from attnlab.classroom.sandbox.isolation import Limits
from attnlab.classroom.sandbox.sandbox import Sandbox
from attnlab.exercises.engine.observing import Observations

SET_UP = "import numpy as np\nfrom attnlab import softmax, attention"


@pytest.fixture(scope="module")
def one():
    with Sandbox(["numpy", "torch", "attnlab"], bubblewrap=True) as sandbox:
        yield sandbox


def judged(one: Sandbox, answers: dict, others=(), limits=None, numbers=None) -> judging.Judged:
    """The judgement on a notebook with these answers, {number: source}, and other cells before them."""
    cells = [(None, source) for source in others] + list(answers.items())
    return of_cells(one, cells, numbers or answers, limits)


def of_cells(one: Sandbox, cells: list, numbers, limits=None) -> judging.Judged:
    """The judgement on cells in order: (None, source), (number, source) for an answer, (number, None) for its check."""
    found = [SimpleNamespace(source=SET_UP, answers=None, checks=False)]
    for number, source in cells:
        checks = source is None
        found.append(SimpleNamespace(source=source or "", answers=None if checks else number, checks=checks))
    exercises, _ = look_up([*numbers])
    return judging.judged(SimpleNamespace(cells=found, notebook=None), exercises, one, limits or Limits(seconds=3))


def solved(*numbers: str) -> dict[str, str]:
    return {each.number: each.solution_source for each in look_up([*numbers])[0]}


# ---- honest work -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "others"),
    [
        (
            {"1.2": "def scaled_scores(query, keys):\n    return helped(keys @ query, query)"},
            ["def helped(x, y):\n    return x / len(y) ** 0.5"],
        ),
        (
            {"1.2": "def scaled_scores(query, keys):\n    return keys @ query / root(query)"},
            ["%matplotlib inline\nroot = lambda q: np.sqrt(q.size)"],
        ),
        (
            {"1.2": "def scaled_scores(query, keys):\n    return steps[0](keys @ query, query)"},
            ["steps = []", "steps.append(lambda x, q: x / np.sqrt(q.size))"],
        ),
        ({"1.2": "scaled_scores = lambda query, keys: keys @ query / np.sqrt(query.size)"}, ["raise SystemExit"]),
        (
            {
                "1.2": "import torch\ndef scaled_scores(query, keys):\n"
                "    return torch.mv(keys, query) / len(query) ** 0.5"
            },
            [],
        ),
        ({"1.2": "%%time\ndef scaled_scores(query, keys):\n    return keys @ query / len(query) ** 0.5"}, ["!ls"]),
    ],
    ids=["helper", "magic", "filled", "lambda", "torch", "timed"],
)
def test_what_a_notebook_allows_is_right(one, answers, others):
    assert judged(one, answers, others).verdicts["1.2"].correct


def test_the_last_version_counts_that_is_no_stub_and_its_code_is_kept(one):
    right, stub = solved("1.2")["1.2"], look_up(["1.2"])[0][0].stub
    wrong = "def scaled_scores(query, keys):\n    return keys @ query"
    for sources, correct, shown in (
        ([right, stub], True, right),
        ([stub, right], True, right),
        ([right, wrong], False, wrong),
        ([wrong, right, stub], True, right),
        ([stub], False, stub),
    ):
        found = of_cells(one, [("1.2", each) for each in sources], ["1.2"])
        assert (found.verdicts["1.2"].correct, found.sources["1.2"]) == (correct, shown)


@pytest.mark.parametrize(
    ("above", "after", "later"),
    [
        ("def helped(x):\n    return x ** 0.5", "", "def helped(x, y):\n    return y"),
        ("helped = np.sqrt", "", "from numpy.linalg import norm as helped"),
        ("power = 0.5\ndef helped(x):\n    return x ** power", "", "power = 1"),
        ("import math\ndef helped(x):\n    return math.sqrt(x)", "", "math = 0"),
        ("how = {'power': 0.5}\ndef helped(x):\n    return x ** how['power']", "", "how = {'power': 1}"),
        ("def helped(x):\n    return x", "def helped(x):\n    return x ** 0.5", "helped = 1.0"),
        ("", "", "def helped(x):\n    return x ** 0.5"),
    ],
    ids=["function", "builtin", "number", "module", "dict", "mended before the check", "given at last"],
)
@pytest.mark.parametrize("number", [None, "1.3"], ids=["in the lesson", "in another answer"])
def test_a_helper_means_what_it_meant_where_the_answer_was_checked(one, above, after, later, number):
    answer = f"{above}\ndef scaled_scores(query, keys):\n    return keys @ query / helped(query.size)"
    others = solved("1.3", "1.4")
    cells = [("1.2", answer), (None, after), ("1.2", None), (number, later), *others.items()]
    found = of_cells(one, cells, ["1.2", "1.3", "1.4"]).verdicts
    assert {n: each.correct for n, each in found.items()} == {"1.2": True, "1.3": True, "1.4": True}


def test_an_answer_calls_another_as_it_is_in_the_end(one):
    right = solved("1.1", "1.2", "1.3")
    answer = (
        "def attend_one_query(query, keys, values):\n"
        "    return weighted_average(stable_softmax(scaled_scores(query, keys)), values)"
    )
    begun = {n: look_up([n])[0][0].stub for n in right}
    for first, last in ((begun, right), (right, begun)):  # handed out stubs change nothing
        cells = [*first.items(), ("1.8", answer), ("1.8", None), *last.items()]
        assert of_cells(one, cells, ["1.8", *right]).verdicts["1.8"].correct


def test_what_the_lesson_calls_so_is_no_answer(one):
    stub = look_up(["1.3"])[0][0].stub
    lesson = "def stable_softmax(scores):\n    return softmax(scores)"
    assert judged(one, {"1.3": stub}, [lesson]).verdicts["1.3"].status == "untouched"


def test_a_function_with_another_name_is_said_to_the_student_and_the_teacher(one):
    found = judged(one, {"1.2": "def my_scores(query, keys):\n    return keys @ query"})
    verdict = found.verdicts["1.2"]
    assert verdict.status == "missing" and "`my_scores`" in verdict.words[0] and "`scaled_scores`" in verdict.words[0]
    assert [each[:4] for each in found.remarks] == ["1.2:"] and "my_scores" in found.remarks[0]


@pytest.mark.parametrize(
    ("source", "title", "words"),
    [
        ("def scaled_scores(query, keys)\n    pass", "The cell of the answer does not run", "SyntaxError"),
        (
            "import no_such_module\ndef scaled_scores(query, keys):\n    return 1",
            "The cell of the answer does not run",
            "no_such_module",
        ),
        ("while True:\n    pass", "The cell of the answer does not run", "still running after"),
        ("import itertools\nsum(itertools.repeat(1))", "The cell of the answer does not finish", "loop"),
        ("scaled_scores = 3", "scaled_scores is not a function", "int"),
        ("", "There is no function scaled_scores", "defines no function"),
    ],
)
def test_what_went_wrong_with_a_cell_is_said(one, source, title, words):
    verdict = judged(one, {"1.2": source}, limits=Limits(seconds=1)).verdicts["1.2"]
    assert verdict.title == title and words in " ".join(verdict.words)


def test_large_cells_in_any_letters_are_taken(one):
    for letter in ("x", "é", "\n", "'", "\x01"):
        found = judged(one, solved("1.2"), ["# " + letter.join(["", "#"]) * 300_000], Limits(seconds=20))
        assert found.verdicts["1.2"].correct, repr(letter)


# ---- what an answer would like to be believed ----------------------------------------------------------------------

CHANNEL = """
import sys
def channel():
    frame = sys._getframe()
    while "channel" not in frame.f_locals: frame = frame.f_back
    return frame.f_locals["channel"]
from attnlab.classroom.sandbox import answering, border
"""


def test_an_exercise_cannot_call_what_belongs_to_another(one):
    fetch = CHANNEL + (
        "def leave_one_out(weights, values, readout):\n"
        "    border.send(channel(), {'at': ['exercise', '6.10']})\n"
        "    found = answering._Outside(channel(), 'ordinary 9')(weights, values, readout)\n"
        "    border.send(channel(), {'at': ['exercise', '6.3']})\n"
        "    return found"
    )
    verdict = judged(one, {"6.3": fetch}, numbers=["6.3", "6.10"]).verdicts["6.3"]
    assert not verdict.correct and "disturbed" in " ".join(verdict.words)


def test_gradients_that_are_none_are_no_gradients(one):
    answer = (
        "import torch\ndef masked_softmax(scores, allowed):\n"
        "    return torch.nan_to_num(scores.masked_fill(~allowed.bool(), -torch.inf).softmax(-1))"
    )
    honest = judged(one, {"3.5": answer}).verdicts["3.5"]
    assert not honest.correct
    for forged in ("[]", "[np.zeros((0, *d['array'].shape))]", "[np.zeros((7, 5, 3))]", "[np.zeros(1)] * 2"):
        told = (
            f"def told(seen, old=border.told):\n    d = old(seen)\n"
            f"    if d and d['array'] is not None: d['gradients'] = {forged}\n    return d\nborder.told = told\n"
        )
        verdict = judged(one, {"3.5": CHANNEL + told + answer}).verdicts["3.5"]
        assert not verdict.correct and verdict.status == "unrecognised", forged


def test_results_that_are_all_too_large_are_said_to_be(one):
    for large in ("np.zeros(10**6)", "np.empty((10**9, 0))", "np.zeros((1,) * 60)"):
        verdict = judged(one, {"1.1": f"def weighted_average(weights, values):\n    return {large}"}).verdicts["1.1"]
        assert "It raised ResultTooLarge" in verdict.words[0] and "bytes" in verdict.comparison.received, large


def test_an_exception_without_a_name_is_no_result(one):
    sly = (
        "class Sly(str):\n    __eq__ = lambda *a: True\n    __hash__ = lambda *a: 0\n    __getitem__ = lambda *a: ''\n"
    )
    for kind, name in (('""', "Exception"), ('Sly("Named")', "Named")):
        answer = (
            f"{sly}calls = []\ndef weighted_average(weights, values):\n    calls.append(1)\n"
            f"    if len(calls) > 2: raise type({kind}, (Exception,), {{}})\n    return weights @ values"
        )
        verdict = judged(one, {"1.1": answer}).verdicts["1.1"]
        assert not verdict.correct and f"It raised {name} at" in verdict.words[0]
    forged = (
        "def told(seen, old=border.told, calls=[]):\n    calls.append(1)\n    d = old(seen)\n"
        "    return d if len(calls) < 3 else d | {'array': None, 'failure': ['', '', '']}\nborder.told = told\n"
    )
    answer = CHANNEL + forged + "def weighted_average(weights, values):\n    return weights @ values"
    verdict = judged(one, {"1.1": answer}).verdicts["1.1"]
    assert not verdict.correct and "disturbed" in verdict.title


@pytest.mark.parametrize(
    "forged",
    [
        *("np.zeros(3)", "np.zeros(0)", "np.ones(1)", "np.array(0.5)", "np.array(np.nan)", "np.array(2)", "None"),
        *("np.empty((2, 0))", "np.ones((1, 1))"),
    ],
)
def test_a_verdict_of_a_test_is_one_of_two(one, forged):
    told = (
        f"def told(seen, old=border.told):\n    return old(seen) | {{'array': {forged}, 'failure': None}}\n"
        "border.told = told\n"
    )
    answer = CHANNEL + told + "def check_causal(attention):\n    return True"
    verdict = judged(one, {"3.10": answer}).verdicts["3.10"]
    assert verdict.status == "unrecognised" and "disturbed" in verdict.title


def test_a_test_that_calls_with_too_much_is_told_so(one):
    for given in ("np.empty((300, 0, 0))", "np.empty((10**8, 0))", "10**400"):
        answer = f"def check_causal(attention):\n    x = {given}\n    attention(x, x, x)"
        verdict = judged(one, {"3.10": answer}).verdicts["3.10"]
        assert not verdict.correct and "small inputs" in verdict.words[0], given


@pytest.mark.parametrize("state", [np.zeros(3), np.zeros(0), np.array(1), ["missing"], {}, 3])
def test_a_state_that_is_no_text_is_none(state):
    (exercise,), _ = look_up(["1.1"])
    handed = SimpleNamespace(cells=[], notebook=None)
    verdict = judging._verdict(exercise, handed, judging.Told({"1.1": {"state": state}}), Limits())
    assert verdict.title == "It disturbed its own grading"


def test_what_is_said_of_cells_is_words_about_as_many_as_there_are(one):
    right = "def weighted_average(weights, values):\n    {}\n    return weights @ values"
    for said in ("[[0, 'x', 'y']] * 50", "np.empty((10**6, 3, 0))", "{'0': 1}"):
        send = f"border.send(channel(), {{'faults': {said}, 'given': {{}}}})"
        verdict = judged(one, {"1.1": CHANNEL + right.format(send)}).verdicts["1.1"]
        assert "more cells than there are" in verdict.words[0], said
    axes = np.zeros((2,) * 20, dtype=np.uint8)  # as text it would have two million lines
    assert judging._about_cells({"faults": [[0, axes, "line"]], "given": {"0": [axes, "name"]}}, 1) == (
        {0: ("", "line")},
        {0: ["", "name"]},
    )


@pytest.mark.parametrize("kind", ["np.float16", "torch.bfloat16", "torch.float16"])
def test_rounding_hides_no_mistake(one, kind):
    cast = f"torch.from_numpy(found).to({kind})" if "torch" in kind else f"found.astype({kind})"
    answer = (
        "import torch\ndef attention_in_matrix_form(queries, keys, values):\n"
        "    scores = queries @ keys.T / np.sqrt(len(keys))\n    found = softmax(scores) @ values\n"
        f"    return {cast}"
    )
    assert not judged(one, {"3.1": answer}).verdicts["3.1"].correct


def test_implementations_take_numbers_and_arrays_alone():
    for odd in ([[1]] * 10, "text", {"a": 1}, None):
        reply = border.answered(lambda x: x, [odd], {})
        assert reply == {"result": None} if odd is None else reply["raised"][0] == "TypeError"


def test_a_test_that_passes_lists_calls_with_arrays(one):
    answer = solved("3.10")["3.10"].replace("attention(*inputs)", "attention(*inputs.tolist())")
    assert ".tolist()" in answer
    assert judged(one, {"3.10": answer}).verdicts["3.10"].correct


def test_the_whole_of_a_submission_has_an_end(one):
    slow = [f"from time import *\nsleep(1.2)\nx{i} = 1" for i in range(40)]
    begun = time.monotonic()
    found = judged(one, solved("1.1", "1.2"), slow, Limits(seconds=0.5))
    assert time.monotonic() - begun < judging.ALL_STEPS * 0.5 + 5
    assert {each.status for each in found.verdicts.values()} == {"unrecognised"}
    assert "used up its time" in found.verdicts["1.2"].words[0]


def test_who_is_at_work_when_the_time_of_all_is_up_is_not_said_to_be_endless(one):
    """The first answer ends Python again and again, so that the slow lesson runs three times."""
    slow = "import time\ndef waited(x):\n    time.sleep(x)\nfor _ in range(2):\n    time.sleep(1)\nready = True"
    ends = "import os\ndef {}(*arguments):\n    ready and os._exit(3)"
    waits = "def stable_softmax(scores):\n    ready and waited(0.2)\n    return softmax(scores)"
    answers = {
        "1.1": ends.format("weighted_average"),
        "1.2": ends.format("scaled_scores"),
        "1.3": waits,
    }
    verdicts = judged(one, answers, [slow], Limits(seconds=0.5)).verdicts
    assert "exit status 3" in verdicts["1.1"].words[0]
    assert verdicts["1.3"].words == [judging.USED_UP]


FILLS = "kept = []\ndef fill(pieces, size):\n    kept.extend(bytearray(size) for _ in range(pieces))"


@pytest.mark.parametrize(
    ("greedy", "words"),
    [
        ("kept or fill(400, 2**20)\n    return keys @ query / np.sqrt(query.size)", None),
        ("fill(90, 2**20)\n    return keys @ query / np.sqrt(query.size)", "MemoryError"),
        (
            "try:\n        fill(10**9, 1000)\n    except MemoryError:\n        fill(3, 9)\n    return keys",
            "used up all|MemoryError",
        ),
    ],
    ids=["kept", "grows", "nothing left"],
)
def test_memory_that_one_answer_takes_costs_no_other(one, greedy, words):
    modest = "def stable_softmax(scores):\n    np.ones(2**24)\n    return softmax(scores)"
    limits = Limits(seconds=3, memory=2**29)
    answers = {"1.2": f"def scaled_scores(query, keys):\n    {greedy}", "1.3": modest, **solved("1.4")}
    first, *others = judged(one, answers, [FILLS], limits).verdicts.values()
    assert [verdict.correct for verdict in others] == [True, True]
    assert first.correct if words is None else re.search(words, repr(first))


@pytest.mark.parametrize(
    "takes",
    [
        "torch.empty(3 * 2**28, dtype=torch.uint8)",
        "libc.free(libc.malloc(3 * 2**28) or os.abort())",  # as libraries in C end where there is no memory
    ],
    ids=["torch", "C"],
)
def test_who_finds_the_memory_of_others_gone_is_asked_again(one, takes):
    libc = "import ctypes, os, torch\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
    libc += "libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]"
    answers = {
        "1.2": "def scaled_scores(query, keys):\n    kept or fill(430, 2**20)\n"
        "    return keys @ query / len(query) ** 0.5",
        "1.3": f"def stable_softmax(scores):\n    {takes}\n    return softmax(scores)",
        **solved("1.4"),
    }
    found = judged(one, answers, [FILLS, libc], Limits(seconds=3, memory=2**30)).verdicts
    assert [each.correct for each in found.values()] == [True, True, True], found["1.3"].words


def test_a_copy_of_the_process_tells_nothing(one):
    answer = "import os\ndef weighted_average(weights, values):\n    os.fork()\n    return weights @ values"
    found = judged(one, {"1.1": answer} | solved("1.2", "1.3"))
    assert found.verdicts["1.2"].correct and found.verdicts["1.3"].correct


def test_a_fault_of_ours_accuses_nobody(monkeypatch):
    (exercise,), _ = look_up(["1.1"])
    seen = Observations(exercise.asked(), exercise.reference)
    assert seen.run(60)
    said = {
        "state": "observed",
        **{tier: [border.told(o) for o in getattr(seen, tier)] for tier in ("ordinary", "hard")},
    }
    told = judging.Told({"1.1": said})
    handed = SimpleNamespace(cells=[], notebook=None)
    assert judging._verdict(exercise, handed, told, Limits()).correct
    monkeypatch.setattr(judging, "verdict_on", lambda answer: 1 / 0)
    verdict = judging._verdict(exercise, handed, told, Limits())
    assert verdict.status == "internal" and "ZeroDivisionError" in verdict.words[0]
    said["hard"] = []
    assert judging._verdict(exercise, handed, told, Limits()).title == "It disturbed its own grading"


def test_steps_come_in_their_order():
    work = {
        "cells": [{}, {}, {}],
        "exercises": [{"number": "1.1"}, {"number": "1.2"}],
        "skip": {"cells": [1], "exercises": []},
    }

    def refused(*said):
        steps = judging._steps(work)
        try:
            for each in said:
                judging._next(each, steps)
        except BorderError:
            return True
        return False

    begins = [["reading", 0], ["reading", 2]]
    assert not refused(*begins, ["cell", 2], ["exercise", "1.1"], ["exercise", "1.2"])
    assert not refused(*begins, ["exercise", "1.1"])  # no cell was needed
    for wrong in (["cell", 1], ["exercise", "1.2"], ["reading", 0], ["exercise", "9.9"], ["cell", True], ["", 0]):
        assert refused(*begins, wrong), wrong
    assert refused(*begins, ["cell", 2], ["cell", 0])
    assert refused(*begins, ["exercise", "1.1"], ["exercise", "1.1"])


# ---- the machine -----------------------------------------------------------------------------------------------------


def test_a_class_folder_that_submissions_could_read_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(course, "shown", lambda: [tmp_path])
    for folder in (tmp_path, tmp_path / "class"):
        assert "class folder elsewhere" in course._fault(folder)
    assert "Make" not in course._fault(tmp_path.parent)


def test_a_setup_cell_with_magics_is_read():
    cell = new_code_cell(
        "%matplotlib inline\n!pip list\nimport numpy as np\nfrom attnlab import masks", metadata={"role": "setup"}
    )
    broken = new_code_cell("def (", metadata={"role": "setup"})
    assert grading._imported(new_notebook(cells=[cell, broken])) == ["numpy", "attnlab", "attnlab.masks"]


def test_references_of_every_copy_are_hidden(tmp_path, monkeypatch):
    other = tmp_path / "lib/python3.99/site-packages/attnlab/exercises/ch1_weights"
    compiled = other.with_name("__pycache__")
    for folder in (other, compiled):
        folder.mkdir(parents=True)
    monkeypatch.setattr(sandbox.sys, "base_prefix", str(tmp_path))
    hidden = sandbox.references()
    assert {other, compiled, sandbox.ROOM / "exercises/common.py"} <= {*hidden}
    ours = {path.name[:3] for path in hidden if path.parent == sandbox.ROOM / "exercises"}
    assert ours >= {"ch1", "ch2", "ch6", "com"}


ENDLESS = """
import sys
from attnlab.classroom import grading
from attnlab.classroom.assignments import look_up
from attnlab.classroom.intake.intake import Submission
from attnlab.classroom.sandbox.isolation import Limits
from pathlib import Path
if __name__ == "__main__":
    task = grading.Task(("1.2",), ("numpy",), Limits(seconds=60), True)
    with grading.ThisMachine(1) as run:
        list(run([(task, Submission("ada", "week1", "week1", Path("endless.ipynb")))]))
"""


def test_killed_it_leaves_nothing_running(tmp_path):
    cell = new_code_cell(
        "def scaled_scores(query, keys):\n    while True: pass", metadata={"exercise": "1.2", "part": "answer"}
    )
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "endless.ipynb")
    assert submissions.read((tmp_path / "endless.ipynb").read_bytes(), ["1.2"]).cells[0].answers == "1.2"
    (tmp_path / "endless.py").write_text(ENDLESS)
    main = subprocess.Popen([sys.executable, "endless.py"], cwd=tmp_path)
    whole = psutil.Process(main.pid)
    until, below = time.monotonic() + 60, []
    while not any(_at_work(each) for each in below):
        assert time.monotonic() < until, "the submission did not begin to run"
        time.sleep(0.1)
        below = whole.children(recursive=True)
    main.kill()
    main.wait()
    _, alive = psutil.wait_procs([each for each in below if not _said(each, "resource_tracker")], 20)
    assert [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []


def _said(process: psutil.Process, words: str) -> bool:
    try:
        return words in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def _at_work(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return _said(process, "attnlab.classroom.sandbox.worker") and process.cpu_times().user > 1
    return False


def test_two_runs_in_one_folder(tmp_path):
    with course.alone(tmp_path), pytest.raises(RuntimeError, match="another run"), course.alone(tmp_path):
        pass
    with course.alone(tmp_path):
        assert (tmp_path / ".attnlab.lock").exists()
