"""Which cells an answer needs: read from the code alone, and enough of them."""

import ast

import nbformat
import pytest
from book_fixtures import ROOT

from attnlab.classroom.assignments import assignment
from attnlab.classroom.sandbox.cells import needed, python_of, read


@pytest.mark.parametrize(
    ("source", "takes", "gives"),
    [
        ("import numpy as np, os.path", set(), {"np", "os"}),
        ("from a import b as c, d", set(), {"c", "d"}),
        ("x = y + 1", {"y"}, {"x"}),
        ("x += 1", {"x"}, {"x"}),
        ("def f(a, b=c):\n    d = a + e\n    return [g + h for h in d]", {"c", "e", "g"}, {"f"}),
        ("def f():\n    global z\n    z = 1", set(), {"f", "z"}),
        ("class A(B):\n    c = d\n    def m(self):\n        return e", {"B", "d", "e"}, {"A"}),
        ("f = lambda a: a + b", {"b"}, {"f"}),
        ("for i in n:\n    s = i", {"n", "i"}, {"i", "s"}),
        ("with a as b:\n    pass", {"a"}, {"b"}),
        ("mask[0, 1] = True", {"mask"}, {"mask"}),
        ("layer.w.scale[2] = q", {"layer", "q"}, {"layer"}),
        ("@decorated\ndef f(a: hint) -> other: ...", {"decorated", "hint", "other"}, {"f"}),
        ("if (n := m) > n:\n    del k", {"m", "n", "k"}, {"n"}),
        ("def f():\n    def g():\n        return deep\n    return g", {"deep"}, {"f"}),
        ("await fetched", {"fetched"}, set()),
    ],
)
def test_names_are_read_from_the_code(source, takes, gives):
    code = read(source, "cell")
    assert code.fault is None
    assert takes <= code.takes
    assert gives <= code.gives
    assert not (code.takes - takes - gives), "a name that belongs to a function was taken for a global one"


def chosen(cells, wanted=(), names=()):
    return needed([read(source, "cell") for source in cells], wanted, names)


def test_what_is_needed_is_found_through_several_cells_and_nothing_else():
    cells = [
        "import numpy as np",
        "table = np.ones(3)",  # not needed
        "def helper(x):\n    return other(x)",
        "raise SystemExit('a lesson that takes minutes')",
        "def answer(x):\n    return helper(x)",
        "def other(x):\n    return np.sum(x) * factor",
        "factor = 1",
        "factor = 2",  # all that bind a name, in order: the last one counts, as in a notebook
    ]
    assert chosen(cells, [4]) == [0, 2, 4, 5, 6, 7]
    assert chosen(cells, names=["answer"]) == [0, 2, 4, 5, 6, 7]
    assert chosen(cells, names=["unknown"]) == []
    assert chosen([*cells, "from numpy import *"], names=["factor"]) == [6, 7, 8]


def test_what_a_statement_calls_for_its_effect_is_needed_unless_it_belongs_to_a_module():
    cells = [
        "import numpy as np\nsteps = []",
        "for each in (np.sin, np.cos):\n    steps.append(each)",
        "np.random.seed(0)",
        "last = steps[-1]",
        "def f(x):\n    steps.clear()",  # is not called
    ]
    assert chosen(cells, names=["steps"]) == [0, 1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1", "x = 1"),
        ("%%time\ny = 2", "y = 2"),
        ("%%timeit -n 1\n%matplotlib inline\ny = 2", "y = 2"),
        ("%%bash\nrm -rf nothing", ""),
        ("%%javascript\nalert(1)", ""),
        ("text = '''\n%%bash\n'''", "text = '''\n%%bash\n'''"),
        ("x = 7 \\\n  % 4", "x = 7 \\\n  % 4"),
    ],
)
def test_the_python_of_a_cell(source, expected):
    found = python_of(source)
    assert found.strip().split("\n")[-1] == expected.split("\n")[-1]
    ast.parse(found)


@pytest.mark.parametrize("source", ["!curl x\nx = 1", "%load_ext y\nx = 1", "files = !ls\nx = 1", "np.ones?\nx = 1"])
def test_what_ipython_adds_does_not_hide_the_rest(source):
    code = read(source, "cell")
    assert code.fault is None and "x" in code.gives


@pytest.mark.parametrize(
    "source", ["def f(:\n  pass", "  x = 1\n y = 2", "x = 1\0", "(" * 5000, "-" * 100_000 + "1", "x = '\ud800"]
)
def test_what_is_no_python_says_so_and_gives_no_names(source):
    code = read(source, "cell")
    assert code.fault is not None and code.fault.msg and not code.gives


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("0*.ipynb")), ids=lambda path: path.stem)
def test_a_solved_chapter_needs_little_of_its_lesson(path):
    """The references of every chapter run on the setup alone; what the lesson computes for minutes is left out."""
    lesson = assignment("any", path)
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    solved = {each.number: each.solution_source for each in lesson.exercises}
    codes, answers = [], []
    for i, cell in enumerate(cells):
        is_answer = cell.metadata.get("part") == "answer"
        answers += [i] * is_answer
        codes.append(read(solved[cell.metadata.exercise] if is_answer else cell.source, "cell"))
    assert len(answers) == len(lesson.exercises)
    rest = set(needed(codes, answers)) - set(answers)
    assert {i for i in rest if cells[i].metadata.get("role") != "setup"} == set()
    assert len(rest) == 1
