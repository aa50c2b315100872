"""`make colab`: what it reports. The whole run takes minutes, and a workflow does it; here are its parts."""

import json
import re
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import colab_stand_in as stand_in  # noqa: E402

COLAB = {"numpy": "2.1.3", "ipywidgets": "7.7.1"}
OURS = {"attnlab": "0.1.0", "array-api-compat": "1.16.0"}


def test_only_the_two_packages_may_be_added():
    assert stand_in.swapped(COLAB, COLAB | OURS) == []
    assert stand_in.swapped(COLAB, COLAB | OURS | {"numpy": "2.4.6"}) == ["numpy: 2.1.3 → 2.4.6"]
    assert stand_in.swapped(COLAB, COLAB | OURS | {"scipy": "1.17.1"}) == ["scipy: absent → 1.17.1"]
    assert stand_in.swapped(COLAB, OURS | {"numpy": "2.1.3"}) == ["ipywidgets: 7.7.1 → gone"]
    assert stand_in.swapped(COLAB, COLAB | {"attnlab": "0.1.0"}) == ["array-api-compat: not installed"]


def test_what_the_package_asks_for_is_satisfied_by_the_stand_in():
    """So pip has nothing to swap: what is asked for is added, or stands in requirements-colab.txt."""
    from packaging.requirements import Requirement

    text = (ROOT / "requirements-colab.txt").read_text(encoding="utf-8")
    versions = dict(re.findall(r"(?m)^([\w-]+)==(\S+)$", text))
    asked = re.search(r"(?m)^dependencies = (\[.*\])$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
    for requirement in map(Requirement, json.loads(asked)):
        if requirement.name not in stand_in.ADDED:
            assert requirement.specifier.contains(versions[requirement.name]), requirement
    assert {"numpy", "matplotlib", "ipywidgets", "ipython", "traitlets", "ipykernel", "scipy"} == set(versions)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A notebook at an address, run by the Python of the tests; pip is not asked: it would take attnlab away."""
    monkeypatch.setattr(stand_in, "take_away", lambda python: None)
    freezes = iter([COLAB, COLAB | OURS])
    monkeypatch.setattr(stand_in, "installed", lambda python: next(freezes))
    (tmp_path / "colab").mkdir()

    def run(*sources):
        cells = [
            {
                "id": f"c{n}",
                "cell_type": "code",
                "metadata": {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for n, source in enumerate(sources, 1)
        ]
        text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
        (tmp_path / "colab/small.ipynb").write_text(text, encoding="utf-8")
        with stand_in.served(tmp_path) as address:
            return stand_in.run(Path(sys.executable), address, "small")

    return run


def test_a_notebook_that_runs_is_fine(site):
    ran = site("import os\nassert os.listdir() == []", "1 + 1", "")
    assert ran.fine and ran.cells == 2


def test_a_cell_that_fails_is_named_and_the_rest_does_not_run(site):
    ran = site("x = 1", "y = x / 0", "z = 2")
    assert not ran.fine and ran.cells == 2
    assert ran.error == "cell c2: ZeroDivisionError: division by zero"


def test_a_warning_is_a_complaint(site):
    ran = site("import warnings; warnings.warn('old')")
    assert not ran.fine and ran.error == "" and "cell c1" in ran.complaints[0] and "old" in ran.complaints[0]


def test_files_are_served_from_this_machine(tmp_path):
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/a.whl", "w"):
        pass
    with stand_in.served(tmp_path) as address, urlopen(f"{address}/wheels/a.whl") as answer:
        assert address.startswith("http://127.0.0.1:")
        assert answer.read() == (tmp_path / "wheels/a.whl").read_bytes()
