"""The week of the teaching guide, command by command, as it is printed there."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from book_fixtures import ROOT

from attnlab.classroom.assignments import assignments

GUIDE = (ROOT / "book/teaching_guide.md").read_text("utf-8")
COMMANDS = [
    line for block in re.findall(r"<!-- command -->\n```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()
]
CLASS = {"Ada Lovelace": "solved", "Bo O'Neill": "a mistake", "Cy": "untouched", "Zoë Müller": "no notebook"}


def attnlab(folder: Path, line: str) -> str:
    program, *arguments = line.split()
    assert program == "attnlab"
    command = [sys.executable, "-m", "attnlab.classroom.app", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, encoding="utf-8")
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def handed_in(folder: Path) -> None:
    """What Moodle gives on Friday."""
    (week,) = assignments(folder, "week1")
    release = folder / "release/week1" / f"{week.notebook}.ipynb"
    with zipfile.ZipFile(folder / "submissions.zip", "w") as archive:
        for number, (student, what) in enumerate(CLASS.items()):
            notebook = nbformat.read(release, as_version=4)
            answers = {} if what == "untouched" else {each.number: each.solution_source for each in week.exercises}
            if what == "a mistake":
                answers["1.6"] = (
                    "def masked_weights(scores, allowed):\n    return softmax(np.where(allowed, -np.inf, scores))"
                )
            for cell in notebook.cells:
                if cell.metadata.get("part") == "answer" and cell.metadata.exercise in answers:
                    cell.source = answers[cell.metadata.exercise]
            data = "no notebook" if what == "no notebook" else nbformat.writes(notebook)
            archive.writestr(f"{student}_{1000 + number}_assignsubmission_file_/{week.notebook}.ipynb", data)


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    """Every command of the guide in its order; on Friday the class has handed in."""
    folder, said = tmp_path_factory.mktemp("class"), {}
    for line in COMMANDS:
        if line.startswith("attnlab grade"):
            handed_in(folder)
        said[line] = attnlab(folder, line)
    return folder, said


def test_the_guide_has_the_commands_of_a_week(week):
    kinds = [line.split()[1] for line in COMMANDS]
    assert kinds == ["handout", "handout", "protections", "grade", "report"]
    assert all(week[1].values())


def test_what_the_guide_says_is_written_is_written(week):
    folder, said = week
    graded = next(text for line, text in said.items() if line.startswith("attnlab grade"))
    assert "4 graded, 0 failed, 2 without an answer" in graded
    named = re.findall(r"`((?:reports|submitted|feedback)/[^`]+)`", GUIDE[: GUIDE.index("## With nbgrader alone")])
    assert len(named) >= 5
    for path in named:
        found = list(folder.glob(path.replace("STUDENT", "*")))
        assert found, path
    assert len(list(folder.glob("feedback/*/week1/week1.html"))) == len(CLASS)


def test_the_report_names_the_mistake_and_its_section(week):
    report = (week[0] / "reports/week1.html").read_text("utf-8")
    anonymous = (week[0] / "reports/week1-anonymous.html").read_text("utf-8")
    assert "mask is turned round" in report and "mask is turned round" in anonymous
    assert "Bo O&#39;Neill" in report and "Bo O&#39;Neill" not in anonymous
