"""Run every Colab copy from top to bottom where the packages are Colab's: `make colab`.

    python book/tools/colab_stand_in.py .colab/bin/python dist/attnlab-….whl [NAME …]

The wheel and the copies are served from an address on this machine, which stands for the published site: a copy's own
first line installs the wheel. Each notebook starts as on Colab, in an empty folder, without attnlab. After it, nothing
may have changed but that attnlab and array-api-compat are there: to swap a package under a running kernel breaks it.

NAME, as in 01 or 01_weights, runs those alone.

The real models are not on Colab: the cells that need them say so, and the chapter runs on.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import nbformat
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

sys.path.append(str(Path(__file__).parent))

import colab
from serving import served

ADDED = {"attnlab", "array-api-compat"}
SECONDS_A_CELL = 600


class Ran(NamedTuple):
    """One notebook: how many cells ran, what they wrote to stderr, what stopped it, what it did to the packages."""

    name: str
    cells: int
    complaints: list[str]
    error: str
    swapped: list[str]
    seconds: float

    @property
    def fine(self) -> bool:
        return not (self.error or self.swapped or self.complaints)


def pip(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def installed(python: Path) -> dict[str, str]:
    return {each["name"].lower(): each["version"] for each in json.loads(pip(python, "list", "--format=json"))}


def take_away(python: Path) -> None:
    pip(python, "uninstall", "--quiet", "--yes", *sorted(ADDED))


def swapped(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What installing did beside adding the two packages: ["numpy: 2.1.3 → 2.4.6"]; and what it did not add."""
    told = [
        f"{name}: {before.get(name, 'absent')} → {after.get(name, 'gone')}"
        for name in sorted(before.keys() | after.keys())
        if name not in ADDED and before.get(name) != after.get(name)
    ]
    return told + [f"{name}: not installed" for name in sorted(ADDED - after.keys())]


def environment() -> dict[str, str]:
    """As it is, without what could lead Python to this repository or past the packages of the stand-in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "MPLBACKEND"}
    return kept | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # the kernel's debugger would warn


class Kernel(KernelManager):
    """IPython of the stand-in, whatever kernels this machine knows."""

    python = sys.executable

    @property
    def kernel_spec(self):
        argv = [str(self.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="stand-in", language="python")


def run(python: Path, address: str, name: str) -> Ran:
    start = time.monotonic()
    take_away(python)
    before = installed(python)
    with urlopen(f"{address}/colab/{name}.ipynb") as answer:
        notebook = nbformat.reads(answer.read().decode(), as_version=4)
    for cell in notebook.cells:  # what is stored must not be taken for what ran
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    kernels = type("Here", (Kernel,), {"python": python})
    error = ""
    with tempfile.TemporaryDirectory() as empty:
        client = NotebookClient(
            notebook, timeout=SECONDS_A_CELL, kernel_manager_class=kernels, resources={"metadata": {"path": empty}}
        )
        try:
            client.execute(env=environment())
        except CellExecutionError as problem:
            error = f"{last_cell(notebook)}: {problem.ename}: {problem.evalue}"
        except (DeadKernelError, TimeoutError) as problem:
            error = f"{last_cell(notebook)}: {str(problem).strip().splitlines()[-1]}"
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return Ran(
        name,
        cells=sum(cell.execution_count is not None for cell in code),
        complaints=[
            f"cell {cell['id']}: {output.text.strip()}"
            for cell in code
            for output in cell.outputs
            if output.output_type == "stream" and output.name == "stderr" and not installs(cell)
        ],
        error=error or ("" if all(cell.execution_count for cell in code) else "not every cell ran"),
        swapped=swapped(before, installed(python)),
        seconds=time.monotonic() - start,
    )


def last_cell(notebook) -> str:
    """The cell in which it stopped."""
    begun = [cell["id"] for cell in notebook.cells if cell.get("execution_count") or cell.get("outputs")]
    return f"cell {begun[-1]}" if begun else "before the first cell"


def installs(cell) -> bool:
    """pip's own remarks, on an index or on its version, are no complaint."""
    return cell.source.startswith("%pip install")


def main(python: Path, wheel: Path, names: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as address:
        site = Path(folder)
        (site / "wheels").mkdir()
        (site / "wheels" / wheel.name).write_bytes(wheel.read_bytes())
        copies = [path.stem for path in colab.write(site / "colab", address)]
        results = []
        try:
            for name in (copy for copy in copies if not names or copy.startswith(tuple(names))):
                ran = run(python, address, name)
                results.append(ran)
                print(f"{name}: {ran.cells} cells, {ran.seconds:.0f} s", "" if ran.fine else "FAILED", flush=True)
                for line in [ran.error, *ran.complaints, *ran.swapped]:
                    if line:
                        print("   ", line.replace("\n", "\n    "), flush=True)
        finally:
            take_away(python)
    return all(ran.fine for ran in results)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    # Not resolved: a link to the system's Python is what makes it the Python of its folder.
    sys.exit(not main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]), sys.argv[3:]))
