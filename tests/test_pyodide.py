"""Chapters 1 to 3 stay inside what a browser's Python, Pyodide, can run: NumPy, Matplotlib, pure Python.

Their cells are run from top to bottom where nothing else can be imported. What Pyodide lacks is taken from its page
"Pyodide Python compatibility": some modules are not there at all; others can be imported, and then do nothing.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ("01_weights", "02_scoring", "03_matrix_and_masks")

# Runs in a Python of its own. Cells come by stdin, as JSON; what failed goes out as JSON.
BROWSER = '''
import builtins, json, sys

GONE = {"curses", "dbm", "ensurepip", "idlelib", "lib2to3", "tkinter", "turtle", "turtledemo", "venv", "pwd"}
IDLE = {"multiprocessing", "socket", "socketserver", "subprocess", "ssl", "asyncio.subprocess"}
HERE = {"numpy", "matplotlib", "array_api_compat", "attnlab", "IPython", "mpl_toolkits"}
# What Matplotlib and IPython are made of: Pyodide has it, and no cell may import it.
BENEATH = {"contourpy", "cycler", "dateutil", "fontTools", "kiwisolver", "PIL", "packaging", "pyparsing", "six"}
BENEATH |= {"asttokens", "comm", "decorator", "executing", "jedi", "matplotlib_inline", "parso", "pexpect", "psutil"}
BENEATH |= {"prompt_toolkit", "ptyprocess", "pure_eval", "pygments", "stack_data", "traitlets", "typing_extensions"}
BENEATH |= {"wcwidth", "IPython_pygments_lexers", "ipython_pygments_lexers"}

def ours(name):
    return name in ("__main__", "cells") or name.partition(".")[0] == "attnlab"

class Refuse:
    """Pyodide has no such module."""
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names | HERE | BENEATH or top.startswith("_")
        if top in GONE or not known:
            raise ModuleNotFoundError(f"No module named {name!r} (in a browser)", name=name)

def importing(name, globals=None, locals=None, fromlist=(), level=0, original=builtins.__import__):
    if level == 0 and globals and ours(globals.get("__name__", "")):
        top = name.partition(".")[0]
        if name in IDLE or top in IDLE | BENEATH or top in GONE:
            raise ModuleNotFoundError(f"No module named {name!r} that works (in a browser)", name=name)
    return original(name, globals, locals, fromlist, level)

from traitlets.config import Config
settings = Config()
settings.HistoryManager.enabled = False
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(config=settings)
shell.colors = "NoColor"
for name in list(sys.modules):  # what was imported on the way must be asked for again
    if name.partition(".")[0] in {"torch", "scipy", "pandas"}:
        raise SystemExit(f"{name} is there before the first cell")
import _thread, threading
def none(*a, **k): raise RuntimeError("can't start new thread")
_thread.start_new_thread = threading._start_new_thread = none
if hasattr(_thread, "start_joinable_thread"):
    threading._start_joinable_thread = none
sys.meta_path.insert(0, Refuse())
builtins.__import__ = importing

wrong = []
shell.display_pub.publish = lambda *a, **k: None
shell.displayhook.write_format_data = lambda *a, **k: None
import io
real, sys.stdout = sys.stdout, io.StringIO()
shell.showtraceback = shell.showsyntaxerror = lambda *a, **k: None
for cell in json.load(sys.stdin):
    ran = shell.run_cell(cell["source"])
    problem = ran.error_before_exec or ran.error_in_exec
    if problem is not None:
        wrong.append([cell["id"], f"{type(problem).__name__}: {problem}"])
loaded = sorted({"torch", "scipy", "matplotlib"} & set(sys.modules))
json.dump({"wrong": wrong, "printed": sys.stdout.getvalue(), "loaded": loaded}, real)
'''


def in_a_browser(cells: list[dict]) -> dict:
    program = [sys.executable, "-X", "utf8", "-W", "ignore", "-c", BROWSER]
    done = subprocess.run(
        program, input=json.dumps(cells), capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def code(source: str) -> list[dict]:
    return [{"id": "it", "source": source}]


def cells_of(chapter: str) -> list[dict]:
    notebook = json.loads((ROOT / f"notebooks/{chapter}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [{"id": cell["id"], "source": "".join(cell["source"])} for cell in cells]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_cell_runs_in_a_browser(chapter):
    cells = cells_of(chapter)
    assert len(cells) > 20
    ran = in_a_browser(cells)
    assert ran["wrong"] == []
    assert ran["loaded"] == ["matplotlib"]


@pytest.mark.parametrize(
    "source",
    [
        "import torch",
        "import scipy.special",
        "import pandas",
        "import tkinter",
        "import subprocess",
        "from multiprocessing import Pool",
        "import socket",
        "import PIL",
        "import threading; threading.Thread(target=print).start()",
        "from attnlab import heads; heads.MultiHeadAttention",
    ],
)
def test_what_a_browser_lacks_is_refused(source):
    ((cell, words),) = in_a_browser(code(source))["wrong"]
    assert cell == "it" and re.search("No module named|can't start new thread|torch is not installed", words)


def test_cells_that_ask_pytorch_say_so_where_there_is_none():
    """In their own words, which a reader in a browser sees instead of the behaviour."""
    for chapter in CHAPTERS:
        for cell in cells_of(chapter):
            if "import torch" in cell["source"]:
                assert "PyTorch is not installed; this cell shows its behaviour only." in cell["source"], cell["id"]


def test_a_check_works_in_a_browser():
    answer = """
from attnlab.exercises import ch1_weights as ch1
def weighted_average(weights, values):
    return weights @ values
ch1.weighted_average.check()
"""
    ran = in_a_browser(code(answer))
    assert ran["wrong"] == []
    assert "✓" in ran["printed"], ran["printed"]
