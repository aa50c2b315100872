"""Copy the notebooks to a folder to work in, never overwriting: `python work_copies.py notebooks work`."""

import shutil
import sys
from pathlib import Path


def copy_new(source: Path, target: Path) -> list[Path]:
    """Copy each notebook of `source` that `target` does not have yet; return the copies that were made.

    A file that is already there holds somebody's answers: it is left exactly as it is.
    """
    made = []
    for notebook in sorted(source.glob("*.ipynb")):
        copy = target / notebook.name
        if not copy.exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(notebook, copy)
            made.append(copy)
    return made


if __name__ == "__main__":
    for path in copy_new(Path(sys.argv[1]), Path(sys.argv[2])):
        print(f"new copy: {path}")
