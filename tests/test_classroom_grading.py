"""A run over a class: the same results in any order, after an interruption, on a second run, and on a cluster."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import psutil
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook

from attnlab.classroom import app, course, grading
from attnlab.classroom.assignments import assignments
from attnlab.classroom.course import SOLVED, Unprotected, grade
from attnlab.classroom.handout.handout import hand_out
from attnlab.classroom.results import Result
from attnlab.classroom.sandbox import sandbox
from attnlab.classroom.sandbox.sandbox import SandboxError
from attnlab.exercises.engine import Exercise

NAME = "week1"
UNSCALED = "def scaled_scores(query, keys):\n    return keys @ query"
ANSWERS = {
    "ada": {"1.1": "solved", "1.2": "solved", "1.3": "solved"},
    "bo": {"1.1": "solved", "1.2": UNSCALED},
    "cy": {},
    "dora": {"1.1": "def weighted_average(weights, values):\n    raise KeyError('no')", "1.2": "solved"},
    "eve": {"1.2": "import os\nos._exit(1)", "1.3": "solved"},
    "finn": {"1.1": "solved", "1.2": "def scaled_scores(:", "1.3": "solved"},
}
POINTS = {"ada": 4, "bo": 1, "cy": 0, "dora": 1, "eve": 2, "finn": 3}  # 1 + 1 + 2


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory):
    root = tmp_path_factory.mktemp("handed-out")
    hand_out(root, NAME, numbers=["1.1", "1.2", "1.3"])
    (one,) = assignments(root, NAME)
    solved = {each.number: each.solution_source for each in one.exercises}
    for student, answers in ANSWERS.items():
        notebook = nbformat.read(root / "release" / NAME / f"{one.notebook}.ipynb", as_version=4)
        for cell in notebook.cells:
            answer = answers.get(cell.metadata.get("exercise"))
            if answer and cell.metadata.part == "answer":
                cell.source = solved[cell.metadata.exercise] if answer == "solved" else answer
        path = root / "submitted" / student / NAME / f"{one.notebook}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    return root


@pytest.fixture
def here(handed_out, tmp_path):
    """A course directory of its own, with six submissions that nobody has graded."""
    return Path(shutil.copytree(handed_out, tmp_path / "course"))


@pytest.fixture(scope="module")
def graded(handed_out, tmp_path_factory):
    """The same directory, graded once."""
    root = Path(shutil.copytree(handed_out, tmp_path_factory.mktemp("graded") / "course"))
    return root, grade(root, NAME, workers=2)


def files(root: Path) -> dict[str, str]:
    """All that a run writes, without the gradebook, whose rows have random ids."""
    found = [path for step in ("judged", "autograded", "feedback", "reports") for path in (root / step).rglob("*")]
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found if p.is_file()}


def scores(root: Path) -> dict[str, float]:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        return {each.student.id: each.score for each in gradebook.assignment_submissions(NAME)}


def points(results: list[Result]) -> dict[str, int]:
    return {each.student: each.points for each in results}


def test_everybody_gets_what_is_due_in_the_results_the_gradebook_and_the_pages(graded):
    root, outcome = graded
    assert points(outcome.results) == POINTS == scores(root)
    assert outcome.failed == [] and outcome.problems == []
    bo = outcome.results[1].verdicts["1.2"]
    assert bo.turns == (("scale: none",),)
    ended = outcome.results[4].verdicts["1.2"]
    assert ended.title == "The cell of the answer does not finish" and "exit status 1" in ended.words[0]
    syntax = outcome.results[5].verdicts["1.2"]
    assert syntax.title == "The cell of the answer does not run" and "SyntaxError" in syntax.words[0]
    for student in ANSWERS:
        page = (root / "feedback" / student / NAME).glob("*.html")
        assert [NAME in each.read_text("utf-8") for each in page] == [True]
    report = (root / "reports" / f"{NAME}.html").read_text("utf-8")
    assert "not divided by √d_k" in report and "bo" in report
    assert "bo" not in (root / "reports" / f"{NAME}-anonymous.html").read_text("utf-8").split()
    table = (root / "reports" / f"{NAME}-grades.csv").read_text("utf-8-sig").splitlines()
    assert [line.split(",")[0] for line in table[1:]] == sorted(ANSWERS)


def test_any_order_and_any_number_of_workers_give_the_same_files(graded, here, monkeypatch):
    root, _ = graded
    collect = course.collect

    def turned_round(*given, **named):
        collected = collect(*given, **named)
        return type(collected)(collected.submissions[::-1], collected.problems, collected.names)

    monkeypatch.setattr(course, "collect", turned_round)
    grade(here, NAME, workers=1)
    assert files(here) == files(root)
    assert scores(here) == scores(root)


def test_a_second_run_judges_nobody_and_changes_nothing(graded, monkeypatch):
    root, outcome = graded
    before = files(root)
    monkeypatch.setattr(grading.ThisMachine, "__call__", lambda self, work: pytest.fail(f"judged again: {work}"))
    assert grade(root, NAME).results == outcome.results
    assert files(root) == before


def test_only_what_changed_is_judged_again(graded, monkeypatch):
    root, _ = graded
    path = next((root / "submitted" / "cy" / NAME).glob("*.ipynb"))
    before, kept = files(root), path.read_bytes()
    call, judged = grading.ThisMachine.__call__, []

    def noted(self, work):
        judged.extend(submission.student for _, submission in work)
        return call(self, work)

    monkeypatch.setattr(grading.ThisMachine, "__call__", noted)
    path.write_bytes(kept.replace(b"...  # your code", b"return weights @ values", 1))
    outcome = grade(root, NAME)
    assert judged == ["cy"] and points(outcome.results)["cy"] == 1 and scores(root)["cy"] == 1
    path.write_bytes(kept)
    grade(root, NAME)
    assert judged == ["cy", "cy"] and files(root) == before


def test_an_interrupted_run_goes_on_where_it_stopped(graded, here, monkeypatch):
    root, _ = graded
    call, judged = grading.ThisMachine.__call__, []

    def noted(self, work):
        for each, result in call(self, work):
            judged.append(each[1].student)
            yield each, result

    def interrupted(pairs, **_):
        for i, pair in enumerate(pairs):
            if i == 3:
                raise KeyboardInterrupt
            yield pair

    monkeypatch.setattr(grading.ThisMachine, "__call__", noted)
    with pytest.raises(KeyboardInterrupt):
        grade(here, NAME, workers=1, progress=interrupted)
    stored = {path.parts[-3] for path in (here / "judged").glob(f"[!.]*/{NAME}/*.json")}
    assert 3 <= len(stored) < len(ANSWERS)
    grade(here, NAME, workers=1)
    again = Counter(judged)
    assert all(again[student] == 1 for student in stored), again
    assert files(here) == files(root) and scores(here) == POINTS


def test_a_half_written_result_is_no_result(graded):
    root, _ = graded
    before = files(root)
    path = next((root / "judged" / "bo" / NAME).glob("*.json"))
    path.write_text(path.read_text("utf-8")[:200], "utf-8")
    grade(root, NAME)
    assert files(root) == before


def test_a_process_of_ours_that_ends_loses_nothing(graded, here):
    root, _ = graded
    killed = []

    def one_is_killed(pairs, **_):
        for pair in pairs:
            yield pair
            if not killed:
                ours = [each for each in psutil.Process().children() if "spawn_main" in " ".join(each.cmdline())]
                killed.append(ours[0].pid)
                ours[0].send_signal(signal.SIGKILL)

    outcome = grade(here, NAME, workers=2, progress=one_is_killed)
    assert killed and points(outcome.results) == POINTS and outcome.failed == []
    assert files(here) == files(root)


def ends_its_judge(task, submission, data, key):
    """In place of `grade_one`: the system ends what judges two of the six, whenever it does."""
    if submission.student in ("bo", "eve"):
        os.kill(os.getpid(), signal.SIGKILL)
    return grading.grade_one(task, submission, data, key)


def test_a_submission_that_ends_its_judge_each_time_is_left_to_the_teacher_and_the_class_is_graded(here, monkeypatch):
    others = {student: due for student, due in POINTS.items() if student not in ("bo", "eve")}
    with monkeypatch.context() as patch:
        patch.setattr(grading, "grade_one", ends_its_judge)
        outcome = grade(here, NAME, workers=2)
    assert [student for student, _ in outcome.failed] == ["bo", "eve"]
    assert all(words.startswith("again and again") and "by hand" in words for _, words in outcome.failed)
    assert points(outcome.results) == others == scores(here)
    assert points(grade(here, NAME).results) == POINTS


@pytest.mark.parametrize("folder", ["/usr/share/class", "/lib/class", "/etc/fonts/class", f"{sys.prefix}/class"])
def test_no_class_lies_where_submissions_can_read(folder):
    assert "which submissions can read" in course._fault(Path(folder))


def test_points_given_by_hand_survive(graded, here):
    grade(here, NAME)
    with Gradebook(f"sqlite:///{here / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission(NAME, "dora").notebooks
        grade_of = {each.name: each for each in notebook.grades}
        grade_of["ex-1-1-check"].manual_score = 0.5
        gradebook.db.commit()
    path = next((here / "submitted" / "dora" / NAME).glob("*.ipynb"))
    path.write_bytes(path.read_bytes().replace(b"KeyError('no')", b"KeyError('yes')"))
    grade(here, NAME)
    assert scores(here) == POINTS | {"dora": 1.5}
    course.report(here, NAME, None)
    table = (here / "reports" / f"{NAME}-grades.csv").read_text("utf-8-sig")
    assert "dora,0.5,1,0," in table


def by_hand(root: Path, student: str) -> None:
    """What a teacher does in formgrader: points, extra credit and a comment for exercise 1.2."""
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as gradebook:
        (notebook,) = gradebook.find_submission(NAME, student).notebooks
        (grade_of,) = [each for each in notebook.grades if each.name == "ex-1-2-check"]
        grade_of.manual_score, grade_of.extra_credit, grade_of.needs_manual_grade = 0.5, 0.25, False
        (comment,) = [each for each in notebook.comments if each.name == "ex-1-2-answer"]
        comment.manual_comment = "Look at the <i>size</i>\nof the scores."
        gradebook.db.commit()


def page(root: Path, student: str) -> BeautifulSoup:
    (path,) = (root / "feedback" / student / NAME).glob("*.html")
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def test_what_was_given_by_hand_is_on_the_page_after_a_report_and_after_grading_again(graded, here):
    root, _ = graded
    shutil.copytree(root, here, dirs_exist_ok=True)
    before = files(here)
    by_hand(here, "bo")
    shown = []
    for again in (lambda: course.report(here, NAME, None), lambda: grade(here, NAME).written):
        assert again()[-1] == here / "feedback"
        one = page(here, "bo")
        assert "1.75 of 4 points" in one.header.get_text()
        assert one.select_one(".said").get_text() == "Look at the <i>size</i>\nof the scores."
        assert "0.5 of 1 point, given by hand" in one.get_text()
        assert "keys @ query" in one.select("pre.answer")[1].get_text()
        shown.append(files(here))
    assert shown[0] == shown[1]
    changed = {name.rpartition("/")[2] for name in before if before[name] != shown[0][name]}
    notebook = assignments(here, NAME)[0].notebook
    assert changed == {f"{notebook}.html", f"{NAME}-grades.csv", f"{NAME}.html", f"{NAME}-anonymous.html"}
    assert {name for name in before if before[name] != shown[0][name] and "feedback" in name} == {
        f"feedback/bo/{NAME}/{notebook}.html"
    }
    report = BeautifulSoup((here / "reports" / f"{NAME}.html").read_text("utf-8"), "html.parser")
    assert "As nbgrader’s gradebook had them" in report.get_text()


def test_a_page_written_anew_shows_the_answer_that_was_judged(graded, here):
    shutil.copytree(graded[0], here, dirs_exist_ok=True)
    before = files(here)
    path = next((here / "submitted" / "bo" / NAME).glob("*.ipynb"))
    path.write_bytes(path.read_bytes().replace(b"return keys @ query", b"return 2 * keys @ query"))
    course.report(here, NAME, None)
    assert files(here) == before
    grade(here, NAME)
    assert "return 2 * keys @ query" in page(here, "bo").get_text()


def test_a_report_without_the_recorded_notebook_has_verdicts_and_code_still(graded, here):
    shutil.copytree(graded[0], here, dirs_exist_ok=True)
    shutil.rmtree(here / "autograded" / "bo")
    course.report(here, NAME, None)
    assert "return keys @ query" in page(here, "bo").get_text()
    assert "1 of 4 points" in page(here, "bo").header.get_text() and len(page(here, "bo").select(".attnlab-card")) == 3


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_without_a_sandbox_nothing_runs_unless_somebody_says_so(here, monkeypatch, capsys):
    monkeypatch.setattr(course, "fault_of_bubblewrap", lambda: "bubblewrap is not installed.")
    with pytest.raises(Unprotected, match="not installed"):
        grade(here, NAME)
    assert not (here / "judged").exists()
    monkeypatch.chdir(here)
    assert app.main(["grade", NAME]) == 1
    assert "there is no sandbox" in capsys.readouterr().err
    assert not (here / "judged").exists()
    assert points(grade(here, NAME, unprotected=True).results) == POINTS


def test_references_that_fail_here_stop_the_run_before_anybody_loses_points(here, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(SandboxError, match="the solved notebook"):
        patch.setattr(Exercise, "solution_source", property(lambda self: self.stub))
        grade(here, NAME)
    assert not list((here / "judged").glob(f"[!.]*/{NAME}/*.json"))
    grade(here, NAME)


def test_a_fault_of_ours_is_told_and_costs_nobody_points(here, monkeypatch):
    def call(self, work):
        for each in work:
            failed = each[1].student == "bo"
            yield each, SandboxError("no memory") if failed else grading.grade_one(*grading.arguments(*each))

    monkeypatch.setattr(grading.ThisMachine, "__call__", call)
    try:
        outcome = grade(here, NAME)
    finally:
        grading.close()
    assert outcome.failed == [("bo", "SandboxError: no memory")]
    assert points(outcome.results) == {k: v for k, v in POINTS.items() if k != "bo"}
    monkeypatch.undo()
    assert points(grade(here, NAME).results) == POINTS


def test_the_solved_notebook_is_nobodys(graded):
    root, outcome = graded
    assert (root / "judged" / SOLVED / NAME).exists()
    assert SOLVED not in points(outcome.results) and SOLVED not in scores(root)


# ---- the command line -----------------------------------------------------------------------------------------------


def attnlab(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [str(Path(sys.executable).with_name("attnlab")), *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, encoding="utf-8")


def test_a_week_by_the_command_line(tmp_path, graded):
    done = attnlab(tmp_path, "handout", NAME, "--exercises", "1.1", "1.2", "1.3")
    assert done.returncode == 0, done.stderr
    shutil.copytree(graded[0] / "submitted", tmp_path / "came")
    done = attnlab(tmp_path, "grade", NAME, "came", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "6 graded, 0 failed, 1 without an answer" in done.stdout and "without an answer: cy" in done.stdout
    assert points(
        [Result.from_json(p.read_text("utf-8")) for p in (tmp_path / "judged").glob(f"[!.]*/{NAME}/*.json")]
    ) == (POINTS)
    by_hand(tmp_path, "bo")
    done = attnlab(tmp_path, "report", NAME, "--site", "https://book.example.org")
    assert "1.75 of 4 points" in page(tmp_path, "bo").header.get_text()
    assert done.returncode == 0 and "https://book.example.org" in (tmp_path / "reports" / f"{NAME}.html").read_text(
        "utf-8"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade", "unknown"], "Here are: week1"),
        (["grade", NAME, "not-there.zip"], "not-there.zip"),
        (["report", "unknown"], "unknown"),
        (["handout", "x", "--exercises", "9.9"], "9.9"),
        (["handout", "x", "--chapter", "9"], "9"),
        (["handout", "a/b", "--chapter", "1"], "a/b"),
        (["grade", NAME, "release", "--pattern", "("], "pattern"),
    ],
)
def test_a_wrong_command_says_what_to_do(here, arguments, words, monkeypatch, capsys):
    monkeypatch.chdir(here)
    assert app.main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("attnlab: ") and words in said and "Traceback" not in said


def test_without_the_extra_the_command_says_how_to_get_it(tmp_path):
    code = (
        "import sys\nclass Gone:\n    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] in ('nbgrader', 'safetensors', 'tqdm'): raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\nfrom attnlab.classroom.app import main\n"
        "print([main([command, 'x']) for command in ('grade', 'report', 'handout')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[1, 1, 1]", done.stderr
    assert done.stderr.count("is missing. The classroom needs more") == 3 and "Traceback" not in done.stderr


def test_protections_are_told(capsys):
    assert app.main(["protections"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(sandbox.protections())


def test_on_windows_a_report_is_written_and_grading_says_what_it_wants(graded, tmp_path):
    """As far as Windows can be played here: what it does not have is hidden."""
    root = shutil.copytree(graded[0], tmp_path / "course")
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['resource', 'fcntl', 'pyseccomp'])\n"
        "from attnlab.classroom import course\nfrom attnlab.classroom.app import main\nsys.platform = 'win32'\n"
        f"print([main(command) for command in (['report', '{NAME}'], ['protections'], ['grade', '{NAME}'])])"
    )
    report = root / "reports" / f"{NAME}.html"
    before = report.read_bytes()
    report.unlink()
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[0, 0, 1]", done.stdout + done.stderr
    assert report.read_bytes() == before
    assert "WSL 2" in done.stderr and "Traceback" not in done.stderr


# ---- a cluster ------------------------------------------------------------------------------------------------------

CLUSTER = """
import json, os, signal, sys
from pathlib import Path
from distributed import LocalCluster
from attnlab.classroom.course import grade

def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        killed = []

        def one_is_killed(pairs, **_):
            for pair in pairs:
                yield pair
                if not killed:
                    killed.append(cluster.workers[0].pid)
                    os.kill(killed[0], signal.SIGKILL)

        outcome = grade(Path(), "week1", scheduler=cluster.scheduler_address, progress=one_is_killed)
        print(json.dumps([killed != [], {each.student: each.points for each in outcome.results}, outcome.failed]))

if __name__ == "__main__":
    main()
"""


def test_a_cluster_of_two_that_loses_one_grades_everybody_once(graded, here):
    script = here.parent / "cluster.py"
    script.write_text(CLUSTER)
    done = subprocess.run([sys.executable, str(script)], cwd=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, POINTS, []]
    assert files(here) == files(graded[0]) and scores(here) == POINTS


ENDING = """
import json, os, signal
from pathlib import Path
import dask
from distributed import LocalCluster
from attnlab.classroom import cluster
from attnlab.classroom.course import grade

grade_one = cluster.grade_one

def ends_its_judge(task, submission, *rest):
    if submission.student == "bo":
        os.kill(os.getpid(), signal.SIGKILL)
    return grade_one(task, submission, *rest)

def main():
    dask.config.set({"distributed.scheduler.allowed-failures": 0})  # or it would be tried four times
    cluster.grade_one = ends_its_judge
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as one:
        outcome = grade(Path(), "week1", scheduler=one.scheduler_address)
        print(json.dumps([outcome.failed, {each.student: each.points for each in outcome.results}]))

if __name__ == "__main__":
    main()
"""


def test_a_cluster_leaves_to_the_teacher_what_ends_its_workers_and_grades_the_rest(here):
    script = here.parent / "ending.py"
    script.write_text(ENDING)
    done = subprocess.run([sys.executable, str(script)], cwd=here, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    failed, due = json.loads(done.stdout.splitlines()[-1])
    assert [student for student, _ in failed] == ["bo"] and failed[0][1].startswith("again and again")
    assert due == {student: number for student, number in POINTS.items() if student != "bo"}


def test_no_cluster_at_that_address(here, monkeypatch, capsys):
    monkeypatch.chdir(here)
    import distributed

    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: client(address, timeout=1))
    assert app.main(["grade", NAME, "--scheduler", "tcp://127.0.0.1:9"]) == 1
    assert "127.0.0.1:9" in capsys.readouterr().err


def test_no_sandbox_is_left_running():
    mine = psutil.Process()
    left = [
        each for each in mine.children(recursive=True) if "attnlab.classroom.sandbox.worker" in " ".join(each.cmdline())
    ]
    assert left == [], os.getpid()
