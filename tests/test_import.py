"""`import attnlab` is light: chapters 1 to 3 need NumPy and nothing else."""

import subprocess
import sys
from importlib.metadata import version

import attnlab
from attnlab import core


def run(code):
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_nothing_but_numpy_and_array_api_compat():
    code = """
import sys, numpy
before = set(sys.modules)
import attnlab
new = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(new))
"""
    assert run(code).split() == ["array_api_compat", "attnlab"]


def test_numpy_attention_loads_no_heavy_module():
    code = """
import sys, numpy as np, attnlab
x = np.eye(3)
attnlab.attention(x, x, x, attnlab.masks.causal(3), is_causal=True)
attnlab.masks.padding([1, 2], 3)
print([name for name in ("torch", "matplotlib", "IPython", "scipy", "pandas", "jax") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_works_where_torch_is_not_installed():
    code = """
import sys
sys.modules["torch"] = None  # from here on, `import torch` raises ImportError
import numpy as np, attnlab
print(attnlab.attention(np.array([1.0, 0.0]), np.eye(2), np.diag([2.0, 4.0])).output.round(5))
"""
    assert run(code) == "[1.33952 1.32095]"


def test_core_is_re_exported():
    for name in core.__all__:
        assert getattr(attnlab, name) is getattr(core, name)
    assert set(attnlab.__all__) == {*core.__all__, "masks"}
    assert attnlab.masks.causal(1).shape == (1, 1)


def test_version_is_that_of_the_distribution():
    assert attnlab.__version__ == version("attnlab")
