"""nbgrader takes the notebooks as they are: released, handed in, graded and sent back by its real commands.

One course directory with the repository's nbgrader_config.py, one autograde run over a class of students. The commands
run as a teacher's do: from the course directory, in a venv that is not activated, without an exchange directory.
"""

import copy
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from book_fixtures import ROOT
from bs4 import BeautifulSoup
from handout_texts import sentences_of, squeezed, statements_of
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.api import Gradebook

from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import exercises_of, questions_of

sys.path.append(str(ROOT / "book/tools"))

from notebooks import chapters, registry

CHAPTERS = {path.stem: exercises_of(registry(path)) for path in chapters()}
QUESTIONS = {path.stem: questions_of(registry(path)) for path in chapters()}
FIRST = next(iter(CHAPTERS))
EXERCISES = CHAPTERS[FIRST]
SOLVED = {one: one.solution_source for one in EXERCISES}

# A teacher's own notebook in the same assignment, written in nbgrader's usual way.
OWN = "def mine():\n    ### BEGIN SOLUTION\n    return 'the secret answer'\n    ### END SOLUTION"

UNSCALED = "def scaled_scores(query, keys):\n    return keys @ query"

NOISY = """\
import logging, os, sys, warnings
logging.basicConfig(level=logging.DEBUG)
logging.debug("from the answer cell")
def weighted_average(weights, values, log=sys.stderr):
    warnings.warn("a warning")
    print("to stderr", file=sys.stderr)
    print("to the stderr of before", file=log)
    logging.debug("by a handler made before")
    os.write(2, b"past Python")
    return weights @ values
"""

# A check raises because of this variable.
OUT_OF_SIGHT = "import os\nos.environ.pop('NBGRADER_EXECUTION', None)"

# exit() ends a kernel a moment later; the loop waits for that moment
STUCK = {
    ch1.weighted_average: "def weighted_average(weights, values):\n    exit()",
    ch1.stable_softmax: "import sys\ndef stable_softmax(scores):\n    sys.exit(0)",
    ch1.scaled_scores: f"raise SystemExit\n{UNSCALED}",
    ch1.weights_at_temperature: "def weights_at_temperature(scores, temperature):\n    while True:\n        pass",
}


# ---- a class of students -------------------------------------------------------------------------------------------


def mark_of(exercise, part: str) -> str:
    """The id of an exercise's cell, which is also nbgrader's name for it."""
    return f"ex-{exercise.number.replace('.', '-')}-{part}"


def cell_of(notebook: NotebookNode, exercise, part: str) -> NotebookNode:
    mine = (exercise.number, part)
    return next(cell for cell in notebook.cells if (cell.metadata.get("exercise"), cell.metadata.get("part")) == mine)


def answered(released: NotebookNode, answers: dict) -> NotebookNode:
    notebook = copy.deepcopy(released)
    for exercise, source in answers.items():
        cell_of(notebook, exercise, "answer").source = source
    return notebook


def with_words(notebook: NotebookNode, chapter: str) -> NotebookNode:
    """Something written in place of each open question's line."""
    for question in QUESTIONS[chapter]:
        cell_of(notebook, question, "words").source = "I would take the word out and look."
    return notebook


def without_the_lesson(notebook: NotebookNode) -> NotebookNode:
    notebook.cells = [cell for cell in notebook.cells if {"exercise", "role"} & set(cell.metadata)]
    return notebook


def copied(cell: NotebookNode, **changes) -> NotebookNode:
    return NotebookNode(copy.deepcopy(cell), **changes)


def tampered(released: NotebookNode) -> NotebookNode:
    """Nothing solved, and every check made harmless in a way of its own."""
    notebook = answered(released, {ch1.weight_of_copies: "get_ipython().showtraceback = lambda *a, **k: None"})
    check = {one: cell_of(notebook, one, "check") for one in EXERCISES}
    check[ch1.weighted_average].source = "pass"
    check[ch1.stable_softmax].metadata.nbgrader.points = 100
    check[ch1.scaled_scores].update(source="pass", cell_type="markdown")
    del check[ch1.scaled_scores]["outputs"], check[ch1.scaled_scores]["execution_count"]
    check[ch1.weights_at_temperature].source = "pass"
    check[ch1.weights_at_temperature].metadata.nbgrader.update(grade=False, locked=False, solution=True)
    check[ch1.masked_weights].source = "pass"
    del check[ch1.masked_weights].metadata["nbgrader"]
    notebook.cells.append(copied(check[ch1.weight_derivatives], id="a-copy", source="pass"))
    check[ch1.attend_one_query].source = "pass"
    check[ch1.attend_one_query].metadata.nbgrader = NotebookNode(schema_version=1)
    return notebook


def unseen(released: NotebookNode) -> NotebookNode:
    """Nothing solved; the first cell of all hides from attnlab that nbgrader is grading."""
    notebook = answered(released, {})
    notebook.cells.insert(0, new_code_cell(OUT_OF_SIGHT))
    return notebook


def careless(released: NotebookNode) -> NotebookNode:
    """All solved; then cells deleted, split, copied, and one pasted from another course."""
    notebook = answered(released, SOLVED)
    notebook.cells.remove(cell_of(notebook, ch1.weighted_average, "check"))
    for part in ("answer", "check"):
        notebook.cells.remove(cell_of(notebook, ch1.stable_softmax, part))
    split = cell_of(notebook, ch1.scaled_scores, "answer")
    place = notebook.cells.index(split)
    notebook.cells.insert(place, copied(split, id="upper-half", source="import numpy as np"))
    notebook.cells.append(copied(cell_of(notebook, ch1.masked_weights, "check"), id="a-copy"))
    foreign = copied(cell_of(notebook, ch1.masked_weights, "check").metadata.nbgrader, grade_id="of-another-course")
    notebook.cells.append(new_code_cell("assert False", metadata={"nbgrader": foreign}))
    return notebook


def in_colab(released: NotebookNode) -> NotebookNode:
    """Noisy answers, one check deleted, and saved by a program that knows no cell ids and has another kernel."""
    notebook = answered(released, SOLVED | {ch1.weighted_average: NOISY})
    notebook.cells.remove(cell_of(notebook, ch1.attend_one_query, "check"))
    notebook.nbformat_minor = 0
    for cell in notebook.cells:
        del cell["id"]
    notebook.metadata = NotebookNode(colab={}, kernelspec={"name": "another-kernel", "display_name": "Python 3"})
    return notebook


def all_but(*wrong) -> set[str]:
    return {one.name for one in EXERCISES if one not in wrong}


# student → what they hand in, given the released chapter, and the exercises of chapter 1 that earn their points
STUDENTS = {
    "untouched": (lambda released: released, set()),
    "solved": (lambda released: answered(released, SOLVED), all_but()),
    "unscaled": (
        lambda released: answered(released, SOLVED | {ch1.scaled_scores: UNSCALED}),
        all_but(ch1.scaled_scores),
    ),
    "tampered": (tampered, set()),
    "unseen": (unseen, set()),
    "careless": (careless, all_but(ch1.stable_softmax)),
    "in_colab": (in_colab, all_but()),
    "stuck": (lambda released: answered(released, SOLVED | STUCK), all_but(*STUCK)),
}
WHOLE = {"untouched", "solved"}  # these hand in the lesson too; the others left it out


# ---- the commands --------------------------------------------------------------------------------------------------


class Course:
    """A teacher's course directory and the commands given in it."""

    name = "weights"  # of the assignment

    def __init__(self, root: Path, settings: Path) -> None:
        self.root, self.said, self.waiting, scripts = root, {}, {}, Path(sys.executable).parent
        path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder and Path(folder) != scripts]
        changes = {"PATH": os.pathsep.join(path), "JUPYTER_CONFIG_DIR": str(settings), "PYTHONUTF8": "1"}
        self.environment = os.environ | changes
        shutil.copy(ROOT / "nbgrader_config.py", root)

    def run(self, *arguments: str) -> str:
        """What a command says. It must succeed."""
        command = [sys.executable, "-m", "nbgrader", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        done = subprocess.run(command, cwd=self.root, env=self.environment, timeout=400, **pipes)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def place(self, step: str, student: str = ".", notebook: str = FIRST, suffix: str = ".ipynb") -> Path:
        path = self.root / step / student / self.name / f"{notebook}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, *where: str) -> NotebookNode:
        return nbformat.read(self.place(*where), as_version=4)

    def read_by_a_person(self, student: str) -> None:
        """Full points for every answer of this student that waits for a person."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            for notebook in gradebook.find_submission(self.name, student).notebooks:
                for grade in notebook.grades:
                    if grade.needs_manual_grade:
                        grade.manual_score, grade.needs_manual_grade = grade.max_score, False
            gradebook.db.commit()

    def grades(self) -> dict[str, dict[str, dict[str, tuple]]]:
        """student → chapter → exercise → (points, of how many, whether a person must look)"""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            return {
                handed_in.student.id: {
                    notebook.name: {
                        grade.name: (grade.auto_score, grade.max_score, grade.needs_manual_grade)
                        for grade in notebook.grades
                    }
                    for notebook in handed_in.notebooks
                }
                for handed_in in gradebook.find_assignment(self.name).submissions
            }


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Released, handed in, graded, one feedback page written; what the commands said is in `course.said`."""
    course = Course(tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("settings"))
    said = course.said
    for path in chapters():
        shutil.copy(path, course.place("source", notebook=path.stem))
    mark = {"grade": False, "grade_id": "own", "locked": False, "schema_version": 3, "solution": True, "task": False}
    own = new_notebook(cells=[new_code_cell(OWN, metadata={"nbgrader": mark})])
    nbformat.write(own, course.place("source", notebook="own"))
    course.run("generate_assignment", course.name)

    for student, (work, _) in STUDENTS.items():
        released = course.read("release")
        released = released if student in WHOLE else without_the_lesson(released)
        nbformat.write(work(released), course.place("submitted", student))
    for chapter, exercises in list(CHAPTERS.items())[1:]:
        for student, answers in {"untouched": {}, "solved": {one: one.solution_source for one in exercises}}.items():
            notebook = without_the_lesson(answered(course.read("release", ".", chapter), answers))
            notebook = with_words(notebook, chapter) if student == "solved" else notebook
            nbformat.write(notebook, course.place("submitted", student, chapter))

    with ThreadPoolExecutor(2) as pool:  # two things at a time, as on two cores
        grading = pool.submit(course.run, "autograde", course.name)
        said["validate untouched"] = course.run("validate", str(ROOT / f"notebooks/{FIRST}.ipynb"))
        said["validate solved"] = course.run("validate", str(course.place("submitted", "solved")))
        said["autograde"] = grading.result()
        course.waiting = course.grades()
        course.read_by_a_person("solved")
        exporting = pool.submit(course.run, "export")
        course.run("generate_feedback", course.name, "--student=unscaled")
        exporting.result()
    return course


# ---- what must hold ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_released_exercises_are_the_committed_ones(course, chapter):
    committed, released = course.read("source", ".", chapter), course.read("release", ".", chapter)
    assert [(c.id, c.cell_type, c.source) for c in released.cells] == [
        (c.id, c.cell_type, c.source) for c in committed.cells
    ]
    for one in CHAPTERS[chapter]:
        answer, check = cell_of(released, one, "answer"), cell_of(released, one, "check")
        assert answer.source == one.stub
        assert check.metadata.nbgrader.points == one.points
        assert check.metadata.deletable is False and check.metadata.editable is False
        assert answer.metadata.deletable is False and "editable" not in answer.metadata


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_of_a_solution_is_released(course, chapter):
    cells = course.read("release", ".", chapter).cells
    exercises = "\n".join(cell.source for cell in cells if "exercise" in cell.metadata)
    for one in CHAPTERS[chapter]:
        assert [text for text in statements_of(one) if text in exercises] == [], one.name
        assert [cell.id for cell in cells if f"def {one.name}(" in cell.source] == [mark_of(one, "answer")]
    assert not any(cell.get("outputs") for cell in cells)


def test_a_marked_solution_of_a_teachers_own_exercise_is_cleared(course):
    (cell,) = course.read("release", ".", "own").cells
    assert "secret" not in cell.source
    assert cell.source.startswith("def mine():") and "raise NotImplementedError()" in cell.source


@pytest.mark.parametrize("student", STUDENTS)
def test_every_exercise_gets_its_points_and_no_others(course, student):
    earned, grades = STUDENTS[student][1], course.grades()[student][FIRST]
    expected = {mark_of(one, "check"): (one.points * (one.name in earned), one.points, False) for one in EXERCISES}
    assert grades == expected


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_untouched_gets_nothing_and_the_references_get_everything(course, chapter):
    points = sum(one.points for one in CHAPTERS[chapter])
    for student, expected in {"untouched": 0, "solved": points}.items():
        scores = [course.waiting[student][chapter][mark_of(one, "check")] for one in CHAPTERS[chapter]]
        assert (sum(score for score, _, _ in scores), sum(most for _, most, _ in scores)) == (expected, points)
        assert len(course.waiting[student][chapter]) == len(CHAPTERS[chapter]) + len(QUESTIONS[chapter])


def test_words_wait_for_a_person_and_no_words_for_nobody(course):
    questions = [(chapter, one) for chapter, found in QUESTIONS.items() for one in found]
    assert len(questions) >= 2
    for chapter, one in questions:
        assert course.waiting["untouched"][chapter][mark_of(one, "words")] == (0, one.points, False)
        assert course.waiting["solved"][chapter][mark_of(one, "words")] == (None, one.points, True)
        assert course.grades()["solved"][chapter][mark_of(one, "words")][2] is False


def test_no_model_answer_is_released(course):
    for chapter, found in QUESTIONS.items():
        text = squeezed("\n".join(cell.source for cell in course.read("release", ".", chapter).cells))
        for one in found:
            assert [piece for piece in sentences_of(one) if piece in text] == [], one.name


def test_the_grades_are_exported(course):
    header, *lines = (course.root / "grades.csv").read_text("utf-8").splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    points = sum(one.points for found in (CHAPTERS, QUESTIONS) for every in found.values() for one in every)
    assert {(row["student_id"], float(row["max_score"])) for row in rows} == {(name, points) for name in STUDENTS}
    missing = {row["student_id"]: points - float(row["score"]) for row in rows}
    assert missing["solved"] == 0 and missing["untouched"] == points


def test_the_lesson_runs_while_grading_with_attnlab_in_the_kernel(course):
    for student in WHOLE:
        for cell in course.read("autograded", student).cells:
            failed = [output for output in cell.get("outputs", []) if output.output_type == "error"]
            assert bool(failed) == (student == "untouched" and cell.metadata.get("part") == "check"), cell.source


def test_checks_that_were_tampered_with_are_restored(course):
    cells = {}
    for cell in course.read("autograded", "tampered").cells:
        if mark := cell.metadata.get("nbgrader"):
            cells[mark.grade_id] = cell
    for one in EXERCISES:
        check = cells[mark_of(one, "check")]
        assert (check.cell_type, check.source) == ("code", f"ch1.{one.name}.check()")
        assert check.metadata.nbgrader.points == one.points and check.metadata.nbgrader.grade


def test_autograde_says_what_it_mended(course):
    said = course.said["autograde"]
    assert "| ERROR]" not in said  # what a kernel says while it ends looks otherwise
    assert said.count("is missing: it is added at the end") == 5  # tampered 2, careless 2, in_colab 1
    assert said.count("is a copy, or was not released") == 5  # tampered 2, careless 3


def test_validate_tells_the_untouched_from_the_solved(course):
    untouched, solved = course.said["validate untouched"], course.said["validate solved"]
    assert f"VALIDATION FAILED ON {len(EXERCISES)} CELL(S)!" in untouched
    assert untouched.count("Not attempted yet") == len(EXERCISES)
    assert "Success! Your notebook passes all the tests." in solved
    assert "FAILED" not in solved and "CHANGED" not in solved
    assert "model.py" not in untouched  # the words, whole, and nothing of how the checker raises them
    assert " ".join(untouched.split()).count("with your code, run that cell, then this one.") == len(EXERCISES)


def test_feedback_has_the_words_for_the_recognised_mistake(course):
    page = BeautifulSoup(course.place("feedback", "unscaled", suffix=".html").read_text("utf-8"), "html.parser")
    wrong = ch1.scaled_scores.wrong["scale: none"]
    cards = {card.find("b").get_text()[0]: card.get_text() for card in page.select(".attnlab-card")}
    assert set(cards) == {"✓", "✗"}
    assert ch1.scaled_scores.name in cards["✗"]
    assert wrong.text.replace("`", "") in cards["✗"] and wrong.hint.replace("`", "") in cards["✗"]
    assert str(ROOT) not in page.get_text()
    points = sum(one.points for one in EXERCISES)
    heading = page.find("h4").get_text()
    assert re.search(rf"Score: {points - ch1.scaled_scores.points}\.0 / {points}\.0", heading), heading


def test_no_exchange_is_needed_and_the_repository_stays_clean(course):
    assert {path.name for path in course.root.iterdir()} == {
        "autograded",
        "feedback",
        "gradebook.db",
        "grades.csv",
        "nbgrader_config.py",
        "release",
        "source",
        "submitted",
    }
    assert not (ROOT / "gradebook.db").exists()
