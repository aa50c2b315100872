"""A class of hostile and broken submissions is graded to the end, beside neighbours who notice nothing of it.

Nothing outside of the sandbox is read, changed, reached or left running: a secret stands in every place where an answer
may not look, hostile answers show in their messages what they found, and what may not change is compared afterwards.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from book_fixtures import ROOT
from classroom_broken import BROKEN, IN_THE_ZIP, hostile_zip
from classroom_class import (
    EXERCISES,
    KINDS,
    PRELUDE,
    REFERENCE,
    SECRET,
    SOLVED,
    UNHINDERED,
    answered,
    students,
)
from classroom_outside import Outside
from nbgrader.api import Gradebook

from attnlab.classroom.course import Graded, grade
from attnlab.classroom.handout.handout import hand_out
from attnlab.classroom.intake.intake import collect
from attnlab.classroom.results import Result
from attnlab.classroom.sandbox.isolation import Limits
from attnlab.classroom.sandbox.sandbox import fault_of_bubblewrap
from attnlab.exercises import ch1_weights as ch1

NAME, NOTEBOOK = "weights", "01_weights"
LIMITS = Limits(seconds=2.0, memory=2**29)
WORKERS = 4  # most of the time goes by in waiting
CLASS = students()
STUDENT = {kind.name: (student, number) for student in CLASS for number, kind in student.answers.items()}
BROKEN_ID = {name: f"broken-{i:02d}" for i, name in enumerate(BROKEN)}
UNSCALED = "def scaled_scores(query, keys):\n    return keys @ query"
NEIGHBOURS = {"aa-solved": {}, "mm-unscaled": {ch1.scaled_scores.number: UNSCALED}, "zz-solved": {}}
LARGEST = 200_000  # characters of one result, whatever an answer returned or printed


# ---- the class -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory, outside) -> Path:
    """A course directory with the assignment handed out, and three neighbours who have handed in."""
    root = tmp_path_factory.mktemp("made")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    hand_out(root, NAME, chapter="1", notebooks=ROOT / "notebooks")
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_student("aa-solved", last_name=outside.secret)
    for student, answers in NEIGHBOURS.items():
        answers = {number: f"# {outside.secret}\n{source}" for number, source in (SOLVED | answers).items()}
        write(answered(released(root), answers), place(root, student))
    return root


def released(root: Path) -> nbformat.NotebookNode:
    return nbformat.read(root / "release" / NAME / f"{NOTEBOOK}.ipynb", as_version=4)


def place(root: Path, student: str) -> Path:
    path = root / "submitted" / student / NAME / f"{NOTEBOOK}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(notebook: nbformat.NotebookNode, path: Path) -> None:
    path.write_text(json.dumps(notebook), "ascii")  # halves of characters too, which nbformat cannot write


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The teacher's machine."""
    assert fault_of_bubblewrap() == "", "hostile answers are run in a sandbox only: install bubblewrap"
    with (
        tempfile.TemporaryDirectory(prefix=".attnlab-", dir=Path.home()) as home,
        tempfile.NamedTemporaryFile(prefix="attnlab-canary-", dir="/tmp") as canary,
        pytest.MonkeyPatch.context() as patched,
    ):
        outside = Outside(tmp_path_factory.mktemp("course"), Path(home))
        patched.setenv("CLASSROOM_SECRET", outside.secret)
        for path in (outside.course / "canary.txt", outside.home / "notes.txt", Path(canary.name)):
            path.write_text(outside.secret)
        os.set_inheritable(canary.fileno(), True)
        with outside.listening():
            yield outside


@pytest.fixture(scope="module")
def graded(made, outside) -> Graded:
    """The class; what was outside before and after is in `outside`."""
    root = shutil.copytree(made, outside.course, dirs_exist_ok=True)
    solved = answered(released(root), SOLVED)
    for student in CLASS:
        write(student.notebook(released(root), outside.where), place(root, student.id))
    for name, broken in BROKEN.items():
        broken.hand_in(place(root, BROKEN_ID[name]), solved, released(root))
    outside.before, calls = outside.files(), len(outside.calls)
    outcome = grade(root, NAME, limits=LIMITS, workers=WORKERS)
    outside.after, outside.stayed, outside.called = outside.files(), outside.left(), outside.calls[calls:]
    return outcome


@pytest.fixture(scope="module")
def results(graded) -> dict[str, Result]:
    return of_students(graded)


@pytest.fixture(scope="module")
def alone(made, tmp_path_factory) -> dict[str, Result]:
    """The neighbours' results where nobody else handed in anything."""
    root = shutil.copytree(made, tmp_path_factory.mktemp("alone"), dirs_exist_ok=True)
    return of_students(grade(root, NAME, limits=LIMITS))


def of_students(outcome: Graded) -> dict[str, Result]:
    return {result.student: result for result in outcome.results}


def shown(result: Result, number: str) -> str:
    """What a verdict says, without the exercise's own words."""
    verdict = result.verdicts[number]
    received = [verdict.comparison.received] if verdict.comparison else []
    return "\n".join([verdict.title, *verdict.words, *received, *verdict.extras])


# ---- each one gets its message ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_hostile_answer_gets_its_message_and_no_points(results, kind):
    student, number = STUDENT[kind.name]
    verdict, said = results[student.id].verdicts[number], shown(results[student.id], number)
    assert UNHINDERED not in said, said
    assert re.search(kind.says, said, re.DOTALL), said
    assert verdict.correct in kind.earns(), said
    assert len(said) < LARGEST


@pytest.mark.parametrize("student", CLASS, ids=lambda student: student.id)
def test_the_other_answers_of_a_hostile_student_earn_their_points(results, alone, student):
    if not any("spoils" in kind.flags for kind in student.answers.values()):
        honest = alone["aa-solved"].verdicts
        others = {n: verdict for n, verdict in results[student.id].verdicts.items() if n not in student.answers}
        assert others == {number: honest[number] for number in others}, list(student.answers.values())


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gets_its_message_and_the_points_of_what_can_be_read(results, name):
    result, broken = results[BROKEN_ID[name]], BROKEN[name]
    said = "\n".join([*result.remarks, shown(result, "1.1")])
    assert re.search(broken.says, said), said
    assert {number for number, verdict in result.verdicts.items() if verdict.correct} == broken.earns, said


def test_everybody_has_a_result_a_page_and_a_line(graded, results, outside):
    assert graded.failed == []
    everybody = {*NEIGHBOURS, *BROKEN_ID.values(), *(student.id for student in CLASS)}
    assert set(results) == everybody
    grades = (outside.course / "reports" / f"{NAME}-grades.csv").read_text("utf-8-sig")
    for student in everybody:
        page = (outside.course / "feedback" / student / NAME / f"{NOTEBOOK}.html").read_text("utf-8")
        assert "<script>alert" not in page and "<img src=x" not in page
        assert re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", page) == [], student
        assert student in grades
    with Gradebook(f"sqlite:///{outside.course / 'gradebook.db'}") as gradebook:
        scores = {each.student.id: each.score for each in gradebook.find_assignment(NAME).submissions}
    assert scores == {student: result.points for student, result in results.items()}


# ---- and nobody else notices -----------------------------------------------------------------------------------------


def test_no_neighbour_notices(results, alone):
    assert set(alone) == set(NEIGHBOURS)
    assert {student: results[student].to_json() for student in alone} == {s: r.to_json() for s, r in alone.items()}
    points = sum(each.points for each in EXERCISES)
    lost = ch1.scaled_scores.points
    assert [alone[student].points for student in NEIGHBOURS] == [points, points - lost, points]


def test_nothing_outside_was_changed(results, outside):
    assert outside.after == outside.before
    with Gradebook(f"sqlite:///{outside.course / 'gradebook.db'}") as gradebook:
        assert gradebook.find_student("aa-solved").last_name == outside.secret


def test_nothing_was_left_running(results, outside):
    assert outside.stayed == []


def test_nobody_was_called(results, outside):
    assert outside.called == []


def test_no_secret_and_no_reference_is_shown(results):
    for student, result in results.items():
        told = dataclasses.replace(result, sources={})  # a student's own code may stand on the student's own page
        found = re.findall(f"{SECRET}[0-9a-f]{{32}}|{REFERENCE}", told.to_json())
        assert found == [], student


# ---- zips ------------------------------------------------------------------------------------------------------------


def test_a_hostile_zip_writes_nothing_outside_and_stops_nobody(tmp_path, made):
    handed_in = {path.relative_to(made / "submitted"): path.read_bytes() for path in made.glob("submitted/*/*/*.ipynb")}
    root = tmp_path / "course"
    root.mkdir()
    (tmp_path / "beside.txt").write_text("as it was")
    hostile_zip(tmp_path / "class.zip", made / "submitted", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path != root}
    collected = collect(tmp_path / "class.zip", root, NAME, [NOTEBOOK])
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path != root} == before
    assert len(handed_in) == len(NEIGHBOURS)
    for path, data in handed_in.items():
        assert (root / "submitted" / path).read_bytes() == data
    refused = {each.student: each for each in collected.submissions if each.path is None}
    assert set(IN_THE_ZIP) <= set(refused)
    assert all(each.problems for each in refused.values())
    assert not any(path.is_symlink() for path in root.rglob("*"))


# ---- what the tests themselves rely on -------------------------------------------------------------------------------


def run_outside(outside: Outside, code: str) -> str:
    """The last line of what a harmless hostile answer says where no sandbox holds it."""
    places = "\n".join(f"{name} = {value!r}" for name, value in outside.where.items())
    done = subprocess.run([sys.executable, "-c", f"{places}\n{code}"], capture_output=True, text=True, timeout=60)
    return done.stderr.strip().splitlines()[-1]


def test_a_hostile_answer_does_no_harm_outside_of_a_sandbox(outside):
    assert run_outside(outside, f"{PRELUDE}\nopen(CANARY, 'w')") == f"SystemError: {UNHINDERED}: this is no sandbox"


@pytest.mark.parametrize(
    "code",
    [
        "tell(below(COURSE))",
        "tell(below(HOME))",
        "tell([os.environ])",
        "tell([text_of('/proc/self/environ')])",
        "tell(memory_of('self'))",
        "tell([socket.create_connection(('127.0.0.1', PORT), 1).recv(99)])",
        "from attnlab.exercises import ch1_weights; tell([ch1_weights.weighted_average.wrong])",
    ],
)
def test_the_spies_would_find_something(outside, code):
    said = run_outside(outside, PRELUDE.removesuffix("in_a_sandbox()") + code)
    assert outside.secret in said or REFERENCE in said
