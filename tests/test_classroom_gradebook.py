"""Results in nbgrader's world: its gradebook, formgrader, feedback and export work on them as on its own."""

import contextlib
import copy
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from classroom_grading import NAME, Course, a_copy, verdict, with_cells
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell
from nbgrader import nbgraderformat
from nbgrader.utils import determine_grade

from attnlab.classroom.assignments import assignments
from attnlab.classroom.gradebook.gradebook import Recorder
from attnlab.classroom.gradebook.grades import grades_csv
from attnlab.classroom.handout.handout import hand_out
from attnlab.classroom.results import Result
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises import ch6_interpretability as ch6

NUMBERS = ["1.1", "1.2", "1.3", "6.11"]
RIGHT = ("right", "right", "right")
UNSCALED = ("right", "scale: none", "right")
STUBS = ("stub", "stub", "stub")
WORDS, CHECK = "ex-6-11-words", "ex-1-2-check"
ANSWERS = {one.name: one.solution_source for one in (ch1.weighted_average, ch1.scaled_scores, ch1.stable_softmax)}
WITHOUT_SCALE = ANSWERS | {"scaled_scores": "def scaled_scores(query, keys):\n    return keys @ query"}
ESSAY = "I would take the word out and look."


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    """A course in which three exercises and a question were handed out; nobody has handed in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("settings")))
        root = tmp_path_factory.mktemp("handed_out") / "course"
        hand_out(root, NAME, numbers=NUMBERS)
        yield Course(root)


@pytest.fixture
def course(handed_out, tmp_path):
    return a_copy(handed_out, tmp_path / "course")


def earned(course, *points: float) -> dict[str, tuple]:
    """What `course.grades` says where nobody has entered points: the exercises' points, and 0 for no words."""
    checks = {f"ex-1-{i}-check": (each, None, False) for i, each in enumerate(points, 1)}
    return checks | {WORDS: (0, None, False)}


# ---- points ---------------------------------------------------------------------------------------------------------


def test_each_verdict_earns_its_points_and_no_others(course):
    full = [each.points for each in course.exercises]
    course.record(
        (course.result("right", *RIGHT), course.notebook(**ANSWERS)),
        (course.result("unscaled", *UNSCALED), course.notebook(**WITHOUT_SCALE)),
        (course.result("stubs", *STUBS), course.notebook()),
    )
    assert course.grades("right") == earned(course, *full)
    assert course.grades("unscaled") == earned(course, full[0], 0, full[2])
    assert course.grades("stubs") == earned(course, 0, 0, 0)
    assert course.score("unscaled") == full[0] + full[2]


def test_words_wait_for_a_person_and_no_words_for_nobody(course):
    course.record(
        (course.result("wrote", *RIGHT, words=ESSAY), course.notebook(words=ESSAY)),
        (course.result("silent", *RIGHT), course.notebook()),
        (course.result("emptied", *RIGHT), course.notebook(words=" \n")),
    )
    assert course.grades("wrote")[WORDS] == (None, None, True)
    assert course.grades("silent")[WORDS] == course.grades("emptied")[WORDS] == (0, None, False)
    assert course.comments("wrote")[WORDS] == (None, None)
    assert course.comments("silent")[WORDS] == course.comments("emptied")[WORDS] == ("No response.", None)


def test_what_nobody_could_judge_waits_for_a_person(course):
    result = course.result("unlucky", *RIGHT)
    faults = {"1.1": "internal", "1.2": "unavailable"}
    broken = {number: replace(result.verdicts[number], status=status) for number, status in faults.items()}
    course.record((replace(result, verdicts=result.verdicts | broken), course.notebook()))
    grades = course.grades("unlucky")
    assert [grades[f"ex-1-{i}-check"] for i in (1, 2, 3)] == [(0, None, True), (0, None, True), (2, None, False)]


def test_nbgrader_reads_the_same_points_from_the_notebook(course):
    course.record((course.result("ada", *UNSCALED, words=ESSAY), course.notebook(words=ESSAY, **WITHOUT_SCALE)))
    page = nbgraderformat.read(course.place("autograded", "ada"), as_version=4)  # refuses what it could not grade
    nbformat.validate(page)
    graded = [cell for cell in page.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    read = {cell.metadata.nbgrader.grade_id: determine_grade(cell)[0] for cell in graded}
    assert read == {name: points for name, (points, _, _) in course.grades("ada").items()}
    assert not os.access(course.place("autograded", "ada"), os.W_OK) or os.geteuid() == 0
    assert course.place("autograded", "ada").stat().st_mode & 0o777 == 0o444


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # of nbgrader's own run
def test_the_grades_are_those_of_nbgraders_own_autograde(course, tmp_path):
    """The same three notebooks, run in kernels by nbgrader, and judged and recorded by us."""
    work = {
        "solved": (RIGHT, course.notebook(words=ESSAY, **ANSWERS)),
        "unscaled": (UNSCALED, course.notebook(**WITHOUT_SCALE)),
        "untouched": (STUBS, course.notebook()),
    }
    theirs = a_copy(course, tmp_path / "theirs")
    for student, (_, notebook) in work.items():
        theirs.place("submitted", student).parent.mkdir(parents=True)
        nbformat.write(notebook, theirs.place("submitted", student))
        done = theirs.api().autograde(NAME, student)
        assert done["success"], done
    words = {"solved": ESSAY}
    pairs = [(course.result(one, *kinds, words=words.get(one, "")), book) for one, (kinds, book) in work.items()]
    course.record(*pairs)
    for student in work:
        assert course.grades(student) == theirs.grades(student)
        assert course.comments(student) == theirs.comments(student)
        ours, run = course.page(student), theirs.page(student)
        assert [(c.cell_type, c.source) for c in ours.cells] == [(c.cell_type, c.source) for c in run.cells]
        marks = [[cell.metadata.get("nbgrader") for cell in page.cells] for page in (ours, run)]
        assert marks[0] == marks[1]


# ---- a teacher's points ---------------------------------------------------------------------------------------------


def test_what_a_teacher_entered_survives_and_is_looked_at_again_only_after_changes(course):
    before = course.result("ada", *UNSCALED, words=ESSAY), course.notebook(words=ESSAY, **WITHOUT_SCALE)
    course.record(before)
    course.by_hand("ada", CHECK, 0.5, extra=0.25)
    course.by_hand("ada", WORDS, 3)
    with course.gradebook() as gradebook:
        gradebook.find_comment(WORDS, course.assignment.notebook, NAME, "ada").manual_comment = "Well seen."
        gradebook.db.commit()

    course.record(before)
    assert (course.grades("ada")[CHECK], course.grades("ada")[WORDS]) == ((0, 0.5, False), (None, 3, False))

    # the words stay, the code is mended
    course.record((course.result("ada", *RIGHT, words=ESSAY), course.notebook(words=ESSAY, **ANSWERS)))
    assert (course.grades("ada")[CHECK], course.grades("ada")[WORDS]) == ((1, 0.5, True), (None, 3, False))

    course.record((course.result("ada", *RIGHT, words="Else."), course.notebook(words="Else.", **ANSWERS)))
    assert course.grades("ada")[WORDS] == (None, 3, True)
    assert course.comments("ada")[WORDS] == (None, "Well seen.")
    with course.gradebook() as gradebook:
        assert gradebook.find_grade(CHECK, course.assignment.notebook, NAME, "ada").extra_credit == 0.25
    assert course.score("ada") == 1 + (0.5 + 0.25) + 2 + 3


def test_points_by_hand_are_looked_at_again_when_other_work_earns_the_same(course):
    course.record((course.result("ada", *UNSCALED), course.notebook(**WITHOUT_SCALE)))
    course.by_hand("ada", CHECK, 0.5)
    same = course.result("ada", *UNSCALED, words=ESSAY, remarks=("The file came twice.",))
    course.record((same, course.notebook(words=ESSAY, **WITHOUT_SCALE)))
    assert course.grades("ada")[CHECK] == (0, 0.5, False)
    other = WITHOUT_SCALE | {"scaled_scores": "def scaled_scores(query, keys):\n    return query @ keys.T"}
    course.record((course.result("ada", *UNSCALED), course.notebook(**other)))
    assert course.grades("ada")[CHECK] == (0, 0.5, True)


def test_words_are_read_again_where_the_notebook_of_before_is_lost(course):
    before = course.result("ada", *RIGHT, words=ESSAY), course.notebook(words=ESSAY)
    course.record(before)
    for lost in (lambda path: path.write_text("{"), Path.unlink):
        course.by_hand("ada", WORDS, 3)
        course.place("autograded", "ada").chmod(0o644)
        lost(course.place("autograded", "ada"))
        course.record(before)
        assert course.grades("ada")[WORDS] == (None, 3, True)


# ---- the notebook ---------------------------------------------------------------------------------------------------


def test_check_cells_show_our_cards_and_nothing_that_was_handed_in(course):
    forged = course.notebook(**WITHOUT_SCALE)
    for cell in forged.cells:
        if cell.metadata.get("part") == "check":
            cell.source = "pass"
            cell.metadata.nbgrader.update(points=100, locked=False)
        if cell.cell_type == "code":
            cell.outputs = [new_output("execute_result", data={"text/plain": "100"})]
    course.record((course.result("forger", *UNSCALED), forged))
    page = course.page("forger")
    checks = [cell for cell in page.cells if cell.metadata.get("part") == "check"]
    for exercise, cell in zip(course.exercises, checks, strict=True):
        said = course.result("forger", *UNSCALED).verdicts[exercise.number]
        assert cell.source == f"{exercise.call}.check()"
        assert cell.metadata.nbgrader.points == exercise.points
        shown = f'<div class="tex2jax_ignore mathjax_ignore">{said._repr_html_()}</div>'
        assert cell.outputs[0].data == {"text/html": shown, "text/plain": str(said)}
        assert [each.output_type for each in cell.outputs[1:]] == ["error"] * (not said.correct)
    assert not any(cell.get("outputs") for cell in page.cells if cell not in checks)
    assert course.score("forger") == 3


def test_what_is_missing_comes_back_and_what_is_copied_counts_once(course):
    torn = course.notebook(**ANSWERS)
    copied = copy.deepcopy(next(cell for cell in torn.cells if cell.id == CHECK))
    torn.cells = [cell for cell in torn.cells if cell.id not in ("ex-1-1-check", WORDS)] + [copied]
    other = {"grade": True, "grade_id": "of-another-course", "locked": True, "points": 5, "schema_version": 3}
    torn.cells.append(new_code_cell("1/0", metadata={"nbgrader": other | {"solution": False, "task": False}}))
    course.record((course.result("torn", *RIGHT, words=ESSAY), torn))
    nbgraderformat.read(course.place("autograded", "torn"), as_version=4)
    assert course.grades("torn") == earned(course, 1, 1, 2) | {WORDS: (None, None, True)}
    assert course.cell("torn", WORDS).source == ESSAY  # found elsewhere, shown where a teacher grades it
    assert course.cell("torn", "ex-1-1-check").outputs
    ids = [cell.id for cell in course.page("torn").cells]
    assert len(ids) == len(set(ids))


def test_odd_cells_are_shown_and_never_stop_anything(course):
    odd = course.notebook()
    odd.cells[0] = nbformat.from_dict({"cell_type": "heading", "source": ["# a", "\ud800"], "metadata": None})
    odd.cells[1] = nbformat.from_dict({"cell_type": 5, "source": 7, "metadata": {"nbgrader": "?", "exercise": [1]}})
    odd.cells += [None, nbformat.from_dict({"metadata": {"nbgrader": {"grade_id": {}}}, "attachments": {"a": 3}})]
    check = next(cell for cell in odd.cells if cell and cell.get("id") == CHECK)
    check.update(cell_type="markdown", attachments={"x": {"text/html": "<b>"}})
    odd.nbformat_minor = 0
    for cell in odd.cells[-2:]:
        if cell:
            cell.id = "grading-note"
    result = course.result("odd", *RIGHT, remarks=("Two cells are no cells.",))
    course.record((result, odd), (course.result("after", *RIGHT), course.notebook()))
    nbformat.validate(nbgraderformat.read(course.place("autograded", "odd"), as_version=4))
    assert course.cell("odd", CHECK).cell_type == "code"
    assert [cell.id for cell in course.page("odd").cells].count("grading-note") == 1
    assert course.grades("odd") == course.grades("after") == earned(course, 1, 1, 2)


def test_pasted_pictures_stay_and_other_attachments_do_not(course):
    text = "![mine](attachment:a.png) as drawn, ![b](attachment:b.png) and [a link](attachment:a.png)"
    notebook = course.notebook(words=text)
    cell = next(cell for cell in notebook.cells if cell.id == WORDS)
    cell.attachments = {
        "a.png": {"image/png": "aGVsbG8=", "text/html": "PGI+"},
        "b.png": {"image/png": '"><script>'},
        "c.svg": {"image/svg+xml": "PHN2Zz4="},
        "d e.png": {"image/png": "aGVsbG8="},
        "a.png) [b](javascript:alert(1)": {"image/png": "aGVsbG8="},
    }
    course.record((course.result("ada", *RIGHT, words=text), notebook))
    assert course.cell("ada", WORDS).attachments == {"a.png": {"image/png": "aGVsbG8="}}
    html, _ = HTMLExporter(template_name="basic").from_notebook_node(course.page("ada"))
    page = BeautifulSoup(html, "html.parser")
    assert [img["src"] for img in page.find_all("img")] == ["data:image/png;base64,aGVsbG8="]
    assert not [link for link in page.find_all("a") if link.get_text() == "a link"]


def test_a_file_that_is_no_notebook_gets_nothing_and_its_reason(course):
    remark = "The file is a <b>PDF</b>,\n\n[here](javascript:alert(1)).\r\r[x](y:z) Hand in the *notebook*."
    course.record((course.result("lost", remarks=(remark,)), None))
    assert course.grades("lost") == earned(course, 0, 0, 0)
    note, *rest = course.page("lost").cells
    shown = BeautifulSoup(markdown2html(note.source), "html.parser")
    assert "The file is a <b>PDF</b>," in shown.get_text() and "Hand in the notebook." in shown.get_text()
    assert not shown.find("a")
    assert [cell.source for cell in rest] == [cell.source for cell in course.notebook().cells]
    assert "There is nothing to judge" in course.cell("lost", CHECK).outputs[0].data["text/plain"]
    nbgraderformat.read(course.place("autograded", "lost"), as_version=4)


def test_remarks_on_a_readable_notebook_stand_above_it(course):
    course.record((course.result("ada", *RIGHT, remarks=("A cell was copied.",)), course.notebook()))
    assert "A cell was copied." in course.page("ada").cells[0].source
    course.record((course.result("ada", *RIGHT), course.notebook()))
    assert course.page("ada").cells[0].id == course.notebook().cells[0].id


def test_every_cell_that_a_student_wrote_is_made_harmless_and_none_of_ours(course):
    bad = "<script>alert(1)</script>"
    notebook = with_cells(course.notebook(words=bad), new_markdown_cell(bad), new_raw_cell(bad), new_code_cell(bad))
    course.record((course.result("mallory", *RIGHT, words=bad), notebook))
    cells = course.page("mallory").cells
    assert [cell.cell_type for cell in cells if bad in cell.source] == ["code"]
    released = {cell.id: cell.source for cell in course.notebook().cells if cell.id != WORDS}
    assert {cell.id: cell.source for cell in cells if cell.id in released} == released


# ---- again, in another order, interrupted ---------------------------------------------------------------------------


def test_the_same_results_again_or_in_another_order_leave_the_same(course, tmp_path):
    pairs = [
        (course.result("ada", *RIGHT, words=ESSAY), course.notebook(words=ESSAY, **ANSWERS)),
        (course.result("bob", *UNSCALED), course.notebook(**WITHOUT_SCALE)),
        (course.result("eve", remarks=("The file is empty.",)), None),
    ]
    other = a_copy(course, tmp_path / "other")
    given = copy.deepcopy(pairs)
    course.record(*pairs)
    other.record(*pairs[::-1])
    other.record(pairs[1], pairs[0], pairs[1], pairs[2])
    assert pairs == given  # what is handed in stays as it is
    for student in ("ada", "bob", "eve"):
        assert course.grades(student) == other.grades(student)
        assert course.comments(student) == other.comments(student)
        assert course.place("autograded", student).read_bytes() == other.place("autograded", student).read_bytes()
    files = {path.name for path in course.root.rglob("autograded/**/*") if path.is_file()}
    assert files == {f"{course.assignment.notebook}.ipynb"}
    results = [result for result, _ in pairs]
    tables = [
        grades_csv(one.root, [one.assignment], given) for one in (course, other) for given in (results, results[::-1])
    ]
    assert len(set(tables)) == 1


def test_what_was_recorded_before_an_interruption_is_stored(course):
    with pytest.raises(KeyboardInterrupt), Recorder(course.root, [course.assignment]) as recorder:
        recorder.record(course.result("ada", *RIGHT), course.notebook())
        raise KeyboardInterrupt
    assert course.score("ada") == 4
    assert course.place("autograded", "ada").exists()


def test_an_assignment_that_nbgrader_does_not_know_yet_is_released_first(course):
    (course.root / "gradebook.db").unlink()
    (course.root / "nbgrader_config.py").unlink()
    notebook = course.notebook()
    shutil.rmtree(course.root / "release")
    course.record((course.result("ada", *RIGHT), notebook))
    assert course.score("ada") == 4
    assert course.place("release").exists()


def test_two_notebooks_of_an_assignment_are_one_submission(course):
    hand_out(course.root, "more", numbers=["2.1"])
    shutil.copy(course.root / "source/more/more.ipynb", course.root / "source" / NAME)
    more, first = assignments(course.root, NAME)
    (extra,) = more.exercises
    results = [
        Result("ada", NAME, "more", "key", {extra.number: verdict(extra, "right")}),
        course.result("ada", *UNSCALED),
    ]
    with Recorder(course.root, [more, first]) as recorder:  # which sees that one of them was never released
        for result in results:
            recorder.record(result, None)
    assert course.score("ada") == 3 + extra.points
    (row,) = csv.DictReader(io.StringIO(grades_csv(course.root, [first, more], results)))
    assert (row["total"], row["max"]) == (f"{3 + extra.points}", f"{9 + extra.points}")
    title = f"{extra.number} {extra.name}"
    assert (row[title], row[f"{title}: verdict"]) == (str(extra.points), "right")
    assert list(row)[1:6] == [*(f"{one.number} {one.name}" for one in (*first.exercises, ch6.believe_the_map)), title]


def test_a_result_of_something_else_is_refused(course):
    result = course.result("ada", *RIGHT)
    with Recorder(course.root, [course.assignment]) as recorder:
        for other in (replace(result, assignment="week2"), replace(result, notebook="02_scoring")):
            with pytest.raises(ValueError, match=rf"came; recorded here is {course.assignment.notebook} in {NAME}"):
                recorder.record(other, None)
        for student in ("", "..", "a/b", "../../etc"):
            with pytest.raises(ValueError, match="cannot be a student's id"):
                recorder.record(replace(result, student=student), None)
    assert not (course.root / "autograded").exists()


def test_a_gradebook_that_cannot_be_written_is_named(course):
    with Recorder(course.root, [course.assignment]) as recorder:
        with course.gradebook() as gradebook:
            gradebook.db.connection().exec_driver_sql("DROP TABLE grade")
            gradebook.db.commit()
        with pytest.raises(RuntimeError, match=r"gradebook\.db could not be written: .*no such table"):
            recorder.record(course.result("ada", *RIGHT), course.notebook())


# ---- late work, and a teacher's own cells ---------------------------------------------------------------------------


def hand_in_at(course, student: str, text: str) -> None:
    folder = course.place("submitted", student).parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "timestamp.txt").write_text(text)


def test_late_work_gets_the_penalty_of_nbgraders_plugin(course):
    with (course.root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(NAME, duedate="2030-03-01 12:00:00 UTC")
    for student, when in {"early": "11:59:59", "late": "12:00:01"}.items():
        hand_in_at(course, student, f"2030-03-01 {when} UTC\n")
    hand_in_at(course, "odd", "half past nine\n")
    course.place("submitted", "linked").parent.mkdir(parents=True)
    (course.place("submitted", "linked").parent / "timestamp.txt").symlink_to(
        course.place("submitted", "late").parent / "timestamp.txt"
    )
    students = ("early", "late", "odd", "linked")
    course.record(*((course.result(student, *RIGHT), course.notebook()) for student in students))
    with course.gradebook() as gradebook:
        rows = {student: gradebook.find_submission(NAME, student) for student in students}
        assert {student: row.late_submission_penalty or 0 for student, row in rows.items()} == {
            "early": 0,
            "late": 4,
            "odd": 0,
            "linked": 0,
        }
    assert (course.place("autograded", "late").parent / "timestamp.txt").read_text() == "2030-03-01 12:00:01 UTC\n"
    assert not (course.place("autograded", "odd").parent / "timestamp.txt").exists()
    table = list(csv.DictReader(io.StringIO(grades_csv(course.root, [course.assignment], []))))
    assert {row["student"]: (row["late penalty"], row["total"]) for row in table}["late"] == ("4", "0")

    hand_in_at(course, "late", "2030-03-01 11:00:00 UTC\n")  # the clock was wrong
    course.record((course.result("late", *RIGHT), course.notebook()))
    with course.gradebook() as gradebook:
        assert not gradebook.find_submission(NAME, "late").late_submission_penalty


def test_a_teachers_own_cells_are_left_to_a_person(course):
    source = nbformat.read(course.place("source"), as_version=4)
    mark = {"grade": True, "locked": True, "points": 3, "schema_version": 3, "solution": False, "task": False}
    test = new_code_cell("assert mine()", metadata={"nbgrader": mark | {"grade_id": "own-test"}})
    task = mark | {"grade": False, "grade_id": "own-task", "task": True}
    source.cells += [test, new_markdown_cell("Draw it.", metadata={"nbgrader": task})]
    nbformat.write(source, course.place("source"))
    (course.place("source").parent / "data.csv").write_text("1,2\n")
    hand_out(course.root, NAME)
    course = Course(course.root)
    torn = course.notebook()
    torn.cells = torn.cells[:-1]
    course.record((course.result("ada", *RIGHT), torn), (course.result("lost"), None))
    assert {name: course.grades("ada")[name] for name in ("own-test", "own-task")} == {
        "own-test": (None, None, True),
        "own-task": (None, None, True),
    }
    assert course.cell("ada", "own-task").source == "Draw it."
    assert course.grades("lost")["own-test"] == course.grades("lost")["own-task"] == (0, None, False)
    assert (course.place("autograded", "ada").parent / "data.csv").read_text() == "1,2\n"
    course.by_hand("ada", "own-test", 3)
    row = next(csv.DictReader(io.StringIO(grades_csv(course.root, [course.assignment], []))))
    notebook = course.assignment.notebook
    assert (row[f"{notebook} own-test"], row[f"{notebook} own-task"], row["total"], row["max"]) == ("3", "", "7", "15")


# ---- nbgrader's own programs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded(handed_out, tmp_path_factory):
    """A class, recorded once, for what only reads."""
    course = a_copy(handed_out, tmp_path_factory.mktemp("graded") / "course")
    pairs = [
        (course.result("ada", *RIGHT, words=ESSAY), course.notebook(words=ESSAY, **ANSWERS)),
        (course.result("bob", *UNSCALED), course.notebook(**WITHOUT_SCALE)),
        (course.result("eve", remarks=("The file is empty.",)), None),
    ]
    for result, notebook in pairs:
        course.place("submitted", result.student).parent.mkdir(parents=True)
        nbformat.write(notebook or course.notebook(), course.place("submitted", result.student))
    course.record(*pairs)
    course.results = [result for result, _ in pairs]
    return course


SCORES = {"ada": 4, "bob": 3, "eve": 0}


def test_formgraders_views_have_the_scores(graded):
    api, notebook = graded.api(), graded.assignment.notebook
    submissions = {each["student"]: each for each in api.get_submissions(NAME)}
    assert {student: each["score"] for student, each in submissions.items()} == SCORES
    assert all(each["autograded"] and each["submitted"] for each in submissions.values())
    assert {student: each["needs_manual_grade"] for student, each in submissions.items()} == {
        "ada": True,
        "bob": False,
        "eve": False,
    }
    assert api.get_autograded_students(NAME) == set(SCORES)
    by_notebook = {each["student"]: each["score"] for each in api.get_notebook_submissions(NAME, notebook)}
    assert by_notebook == SCORES
    assert {each["student"]: each["failed_tests"] for each in api.get_notebook_submissions(NAME, notebook)} == {
        "ada": False,
        "bob": True,
        "eve": True,
    }
    for student, score in SCORES.items():
        (submission,) = api.get_student_submissions(student)
        assert (submission["score"], submission["max_score"]) == (score, 9)


def test_nbgrader_exports_the_same(graded, tmp_path):
    command = [sys.executable, "-m", "nbgrader", "export", f"--to={tmp_path / 'grades.csv'}"]
    done = subprocess.run(command, cwd=graded.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "grades.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["student_id"]: float(row["score"]) for row in rows} == SCORES
    ours = csv.DictReader(io.StringIO(grades_csv(graded.root, [graded.assignment], graded.results)))
    assert {row["student"]: (row["total"], row["max"]) for row in ours} == {
        row["student_id"]: (f"{float(row['score']):g}", f"{float(row['max_score']):g}") for row in rows
    }


def test_nbgraders_feedback_shows_our_cards(graded, tmp_path):
    course = a_copy(graded, tmp_path / "course")
    done = course.api().generate_feedback(NAME)
    assert done["success"], done
    page = BeautifulSoup(course.place("feedback", "bob", ".html").read_text("utf-8"), "html.parser")
    cards = [card.get_text() for card in page.select(".attnlab-card")]
    wrong = ch1.scaled_scores.wrong["scale: none"]
    assert len(cards) == 3 and wrong.text.replace("`", "") in cards[1]
    assert "Score: 3.0 / 9.0" in page.find("h4").get_text()
    lost = course.place("feedback", "eve", ".html").read_text("utf-8")
    assert "The file is empty." in lost


@pytest.fixture
def formgrader(graded, tmp_path):
    """A graded course, and `ask(path, **json)`, which asks formgrader running there; with json, it puts."""
    course, runtime = a_copy(graded, tmp_path / "course"), tmp_path / "runtime"
    runtime.mkdir()
    options = {"token": "secret", "port": "0", "open_browser": "False", "ip": "127.0.0.1", "allow_root": "True"}
    extension = "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}"
    command = [sys.executable, "-m", "jupyter_server", extension, f"--ServerApp.root_dir={course.root}"]
    command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(runtime)}
    with (runtime / "log.txt").open("wb") as log:
        server = subprocess.Popen(command, cwd=course.root, stdout=log, stderr=log, env=environment)
    address = None
    while address is None:
        assert server.poll() is None, (runtime / "log.txt").read_text()
        for path in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # it is being written
                address = json.loads(path.read_text())["url"]
        time.sleep(0.1)

    def ask(path: str, **content) -> str:
        body = json.dumps(content).encode() if content else None
        headers = {"Authorization": "token secret"}
        question = urllib.request.Request(f"{address}formgrader/{path}", body, headers, method="PUT" if body else "GET")
        with urllib.request.urlopen(question, timeout=60) as answer:
            return answer.read().decode()

    try:
        yield course, ask
    finally:
        server.terminate()
        server.wait(30)


def test_formgrader_serves_our_cards_and_keeps_what_a_teacher_enters(formgrader):
    course, ask = formgrader
    listed = json.loads(ask(f"api/submitted_notebooks/{NAME}/{course.assignment.notebook}"))
    found = {each["student"]: each["id"] for each in listed}
    page = BeautifulSoup(ask(f"submissions/{found['bob']}/"), "html.parser")
    cards = page.select(".attnlab-card")
    assert ["✓" in card.get_text() for card in cards] == [True, False, True]
    assert ch1.scaled_scores.wrong["scale: none"].text.replace("`", "") in cards[1].get_text()
    assert page.select(".nbgrader_cell .score")

    grades = {each["name"]: each for each in json.loads(ask(f"api/grades?submission_id={found['bob']}"))}
    assert grades[CHECK]["failed_tests"] and grades[CHECK]["auto_score"] == 0
    ask(f"api/grade/{grades[CHECK]['id']}", manual_score=0.5, extra_credit=None)
    course.record((course.result("bob", *UNSCALED), course.notebook(**WITHOUT_SCALE)))
    assert course.grades("bob")[CHECK] == (0, 0.5, False)
    ask(f"api/grade/{grades[CHECK]['id']}", manual_score=None, extra_credit=None)
    assert course.grades("bob")[CHECK] == (0, None, False)


# ---- the table ------------------------------------------------------------------------------------------------------


def test_the_table_says_it_all(graded):
    assert grades_csv(graded.root, [graded.assignment], graded.results) == (
        "student,1.1 weighted_average,1.2 scaled_scores,1.3 stable_softmax,6.11 believe_the_map,late penalty,total,max,"
        "1.1 weighted_average: verdict,1.2 scaled_scores: verdict,1.3 stable_softmax: verdict\n"
        "ada,1,1,2,,0,4,9,right,right,right\n"
        "bob,1,0,2,0,0,3,9,right,known mistake: scale: none,right\n"
        "eve,0,0,0,0,0,0,9,missing,missing,missing\n"
    )


def test_the_table_has_what_was_given_by_hand_and_every_verdict_in_words(course):
    kinds = {"1.1": "unrecognised", "1.2": "untouched", "1.3": "unavailable"}
    result = course.result("ada", *RIGHT, words=ESSAY)
    verdicts = {number: replace(result.verdicts[number], status=status) for number, status in kinds.items()}
    result = replace(result, verdicts=verdicts)
    either = replace(verdict(ch1.scaled_scores, "scale: none"), turns=(("a: b", "c: d"), ("e",)))
    other = course.result("bob", *RIGHT)
    other = replace(other, verdicts=other.verdicts | {"1.2": either})
    course.record((result, course.notebook(words=ESSAY)), (other, course.notebook()))
    course.by_hand("ada", WORDS, 2.5, extra=1)
    ada, bob = csv.DictReader(io.StringIO(grades_csv(course.root, [course.assignment], [other, result])))
    assert (ada[f"6.11 {ch6.believe_the_map.name}"], ada["total"]) == ("3.5", "3.5")
    words = [ada[f"{one.number} {one.name}: verdict"] for one in course.exercises]
    assert words == ["not recognised", "not attempted", "could not be judged"]
    assert bob["1.2 scaled_scores: verdict"] == "known mistake: a: b and c: d or e"


@pytest.mark.parametrize("student", ["=1+1", "+1", "-1", "@sum", " =x", "＝1"])
def test_no_id_is_a_formula(course, student):
    course.record((course.result(student, *RIGHT), course.notebook()))
    (row,) = csv.DictReader(io.StringIO(grades_csv(course.root, [course.assignment], [])))
    assert row["student"] == f"'{student}"
    assert row["1.1 weighted_average: verdict"] == "not graded"


def test_an_assignment_that_was_never_graded_has_no_table(course):
    with pytest.raises(ValueError, match="No such assignment: week2"):
        grades_csv(course.root, [replace(course.assignment, name="week2")], [])
