"""The built book, for every test that reads it: `built_book` builds once a session, `build` builds a copy somewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("_config.yml", "_toc.yml", "pyproject.toml", "book", "notebooks")


def build(sources: Path, out: Path, **addresses) -> subprocess.CompletedProcess:
    """`jupyter-book build -W --keep-going` as `make book` runs it; REPOSITORY and SITE only when they are given."""
    environment = {name: value for name, value in os.environ.items() if name not in ("REPOSITORY", "SITE", "BRANCH")}
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command = [*program, "build", str(sources), "--path-output", str(out), "-W", "--keep-going"]
    return subprocess.run(command, env=environment | addresses, capture_output=True, text=True, timeout=300)


def copy_sources(to: Path) -> Path:
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(ROOT / name, to / name)
    return to


@pytest.fixture(scope="session")
def built_book(tmp_path_factory) -> Path:
    """The folder of the built pages; a build that warns fails here, with its own words."""
    out = tmp_path_factory.mktemp("book")
    result = build(ROOT, out)
    assert result.returncode == 0, result.stdout + result.stderr
    return out / "_build/html"
