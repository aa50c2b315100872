"""Handing out: chapters and chosen exercises as an assignment of nbgrader's and as Colab notebooks, no solutions."""

import ast
import copy
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
from handout_texts import sentences_of, squeezed, statements_of
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.api import Gradebook
from sqlalchemy.exc import SAWarning

import attnlab
from attnlab.classroom.assignments import assignments, chapter
from attnlab.classroom.handout.chosen import chapter_stems
from attnlab.classroom.handout.handout import chapters_folder, hand_out
from attnlab.classroom.handout.links import to_site, to_words
from attnlab.classroom.handout.releasing import CONFIG
from attnlab.exercises.engine import exercises_of, questions_of

ROOT = Path(__file__).resolve().parents[1]
SITE = "https://some.where/a-course"
WHEEL = "https://some.where/else/attnlab-0.1.0-py3-none-any.whl"
CHOSEN = ["4.1", "1.3", "6.11", "1.2"]

MODULES = {number: chapter(number) for number in chapter_stems()}
EXERCISES = [each for module in MODULES.values() for each in exercises_of(module)]
QUESTIONS = [each for module in MODULES.values() for each in questions_of(module)]
EVERY = [each.number for each in [*EXERCISES, *QUESTIONS]]
STEPS = ("source", "release", "colab")

# A link to another page, which a notebook that lies alone cannot follow.
RELATIVE = re.compile(r"\]\((?!https?:|#)")


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def prose_of(notebook: NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def text_of(notebook: NotebookNode) -> str:
    return "\n".join(cell.source for cell in notebook.cells)


def setup_of(notebook: NotebookNode) -> str:
    (cell,) = (cell for cell in notebook.cells if cell.metadata.get("role") == "setup")
    return cell.source


def own_exercise(name: str = "own") -> NotebookNode:
    """An exercise that a teacher adds in nbgrader's usual way."""
    mark = {"grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": True, "task": False}
    source = "def mine():\n    ### BEGIN SOLUTION\n    return 'the secret answer'\n    ### END SOLUTION"
    return new_code_cell(source, metadata={"nbgrader": mark})


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A few exercises without a site, all of them and every chapter with one."""
    course = tmp_path_factory.mktemp("courses") / "new"
    hand_out(course, "week1", numbers=CHOSEN)
    hand_out(course, "all", numbers=EVERY, site=f"{SITE}/")
    for number, stem in chapter_stems().items():
        hand_out(course, stem, chapter=number, site=SITE, wheel=WHEEL)
    return course


@pytest.fixture
def small(course, tmp_path) -> Path:
    """A copy of the course directory, to change."""
    return Path(shutil.copytree(course, tmp_path / "course"))


def handed_out(course: Path, *steps: str) -> list[Path]:
    return [path for step in steps or STEPS for path in sorted((course / step).glob("*/*.ipynb"))]


# ---- what is written -------------------------------------------------------------------------------------------------


def test_a_new_course_directory_gets_everything_and_says_what(tmp_path):
    written = hand_out(tmp_path, "week1", numbers=["1.2"])
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "nbgrader_config.py",
        "source/header.ipynb",
        "source/week1/week1.ipynb",
        "release/week1/week1.ipynb",
        "colab/week1/week1.ipynb",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        "colab",
        "gradebook.db",
        "nbgrader_config.py",
        "release",
        "source",
    }
    again = hand_out(tmp_path, "week1", numbers=["1.2"])
    assert [path.relative_to(tmp_path).parts[0] for path in again] == ["release", "colab"]


def test_all_notebooks_are_valid_and_their_cells_can_be_told_apart(course):
    paths = handed_out(course)
    assert len(paths) == 3 * (2 + len(MODULES))
    for path in paths:
        notebook = read(path)
        nbformat.validate(notebook)
        names = [cell.id for cell in notebook.cells]
        assert len(set(names)) == len(names), path


def test_chosen_exercises_stand_in_the_order_asked_with_the_chapters_own_cells(course):
    notebook = read(course / "source/week1/week1.ipynb")
    cells = [cell for cell in notebook.cells if "exercise" in cell.metadata]
    assert list(dict.fromkeys(cell.metadata.exercise for cell in cells)) == CHOSEN
    for number in CHOSEN:
        theirs = read(ROOT / f"notebooks/{chapter_stems()[number[0]]}.ipynb").cells
        theirs = [cell for cell in theirs if cell.metadata.get("exercise") == number]
        mine = [cell for cell in cells if cell.metadata.exercise == number]
        assert [(cell.id, cell.metadata) for cell in mine] == [(cell.id, cell.metadata) for cell in theirs]
        assert [cell.source for cell in mine[1:]] == [cell.source for cell in theirs[1:]]
    assert notebook.cells[0].source.startswith("# week1\n")
    hints = re.findall(r"`(ch\d)\.NAME\.hint\(\)`", notebook.cells[0].source)
    assert hints == ["ch1", "ch4"]  # question 6.11 has none


def test_grading_recognises_what_is_handed_out(course):
    (found,) = assignments(course, "week1")
    assert [each.number for each in found.exercises] == ["4.1", "1.3", "1.2"]
    assert [each.number for each in found.questions] == ["6.11"]
    released, copied = (read(course / step / "week1/week1.ipynb") for step in ("release", "colab"))
    for notebook in (released, copied):
        marks = {cell.metadata.get("exercise") for cell in notebook.cells}
        assert marks == {None, *CHOSEN}


def test_nbgrader_has_the_assignment_in_its_gradebook(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        points = {cell.name: cell.max_score for cell in gradebook.find_notebook("week1", "week1").grade_cells}
        known = {assignment.name for assignment in gradebook.assignments}
    by_number = {each.number: each.points for each in [*EXERCISES, *QUESTIONS]}
    assert points == {
        "ex-4-1-check": by_number["4.1"],
        "ex-1-3-check": by_number["1.3"],
        "ex-6-11-words": by_number["6.11"],
        "ex-1-2-check": by_number["1.2"],
    }
    assert known == {"week1", "all", *chapter_stems().values()}


def test_a_chapter_is_handed_out_as_it_is_but_for_links_to_other_chapters(course):
    for stem in chapter_stems().values():
        committed, source = read(ROOT / f"notebooks/{stem}.ipynb"), read(course / f"source/{stem}/{stem}.ipynb")
        assert source.metadata == committed.metadata
        for before, after in zip(committed.cells, source.cells, strict=True):
            if before.cell_type == "markdown":
                said = re.sub(rf"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\({SITE}/[^)]*\)", r"\1", after.source)
                assert to_words(said, stem) == to_words(before.source, stem)
                after.source = before.source
            assert after == before


def test_what_is_handed_out_again_is_the_same_to_the_byte(small):
    before = {path: path.read_bytes() for path in handed_out(small)}
    hand_out(small, "week1", numbers=CHOSEN)
    assert {path: path.read_bytes() for path in handed_out(small)} == before


# ---- nothing of a solution -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_nothing_of_a_solution_is_in_a_handout_of_exercises(course, step):
    for name in ("week1", "all"):
        text = text_of(read(course / step / name / f"{name}.ipynb"))
        for each in EXERCISES:
            assert [piece for piece in statements_of(each) if piece in text] == [], each.name
            assert each.solution_source not in text


@pytest.mark.parametrize("step", STEPS)
def test_nothing_of_a_solution_is_in_a_chapters_exercises(course, step):
    for number, stem in chapter_stems().items():
        cells = [cell for cell in read(course / step / f"{stem}/{stem}.ipynb").cells if "exercise" in cell.metadata]
        text = text_of(new_notebook(cells=cells))
        for each in exercises_of(MODULES[number]):
            assert [piece for piece in statements_of(each) if piece in text] == [], each.name
            assert text.count(f"def {each.name}(") == 1


def test_nothing_of_a_model_answer_is_in_any_handout(course):
    for path in handed_out(course):
        text = squeezed(text_of(read(path)))
        for each in QUESTIONS:
            assert [piece for piece in sentences_of(each) if piece in text] == [], path


def test_no_solved_cell_has_left_its_output(course):
    for path in handed_out(course):
        for cell in read(path).cells:
            outputs = cell.get("outputs", [])
            lesson = "source" in path.parts and "exercise" not in cell.metadata
            untouched = [each for each in outputs if "Not attempted yet" in each.get("data", {}).get("text/plain", "")]
            assert outputs == untouched or (lesson and path.stem in chapter_stems().values()), path
        if "colab" in path.parts:
            assert all(cell.execution_count is None for cell in read(path).cells if cell.cell_type == "code")


def test_notebooks_with_answers_in_them_are_not_handed_out(tmp_path):
    folder = Path(shutil.copytree(ROOT / "notebooks", tmp_path / "work"))
    path = folder / "01_weights.ipynb"
    solved = read(path)
    (answer,) = (cell for cell in solved.cells if cell.id == "ex-1-2-answer")
    answer.source = "def scaled_scores(query, keys):\n    return keys @ query"
    nbformat.write(solved, path)
    for asked in ({"chapter": "1"}, {"numbers": ["1.3"]}):
        with pytest.raises(ValueError, match=r"01_weights.*answer cells of 1\.2 were edited"):
            hand_out(tmp_path / "course", "week1", notebooks=folder, **asked)
    words = read(folder / "06_interpretability.ipynb")
    (cell,) = (cell for cell in words.cells if cell.id == "ex-6-12-words")
    cell.source = "(a) follows."
    nbformat.write(words, folder / "06_interpretability.ipynb")
    with pytest.raises(ValueError, match=r"answer cells of 6\.12 were edited"):
        hand_out(tmp_path / "course", "week1", numbers=["6.1"], notebooks=folder)
    assert not (tmp_path / "course").exists()


# ---- it runs ---------------------------------------------------------------------------------------------------------


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """All cells on a fresh kernel; an error in a cell ends it."""
    done = copy.deepcopy(notebook)
    NotebookClient(done, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return done


def cards_of(notebook: NotebookNode) -> dict[str, str]:
    """exercise → what its check says"""
    checks = [cell for cell in notebook.cells if cell.metadata.get("part") == "check"]
    return {cell.metadata.exercise: cell.outputs[0]["data"]["text/plain"] for cell in checks}


@pytest.mark.parametrize("step", STEPS)
def test_a_handout_runs_and_says_of_each_exercise_that_it_is_not_attempted(course, step, tmp_path):
    cards = cards_of(run(read(course / step / "week1/week1.ipynb"), tmp_path))
    assert list(cards) == ["4.1", "1.3", "1.2"]
    assert all("Not attempted yet" in said for said in cards.values()), cards


def test_the_setup_of_a_handout_is_enough_for_every_good_answer(course, tmp_path):
    notebook = read(course / "source/all/all.ipynb")
    for cell in notebook.cells:
        if cell.metadata.get("part") == "answer":
            (each,) = (each for each in EXERCISES if each.number == cell.metadata.exercise)
            cell.source = each.solution_source
    cards = cards_of(run(notebook, tmp_path))
    assert list(cards) == [each.number for each in EXERCISES]
    assert [number for number, said in cards.items() if not said.startswith("✓")] == []


# ---- the setup cell --------------------------------------------------------------------------------------------------


def test_the_setup_of_all_chapters_says_nothing_twice_and_nothing_of_the_lessons(course):
    setup = setup_of(read(course / "source/all/all.ipynb"))
    statements = [ast.unparse(each) for each in ast.parse(setup).body]
    assert len(set(statements)) == len(statements)
    modules = [each.module for each in ast.parse(setup).body if isinstance(each, ast.ImportFrom)]
    assert len(set(modules)) == len(modules)
    assert setup.count("import torch") == 1
    assert not re.search(r"\b(figures|plots|selftests|NO_TORCH)\b", setup)
    assert max(map(len, setup.splitlines())) <= 75  # ruff's limit for the cells of notebooks


def test_torch_is_asked_for_only_where_a_chosen_exercise_is_written_in_it(small):
    hand_out(small, "with", numbers=["3.5"])
    hand_out(small, "without", numbers=["3.1", "4.1"])
    assert "import torch" in setup_of(read(small / "source/with/with.ipynb"))
    assert "torch" not in setup_of(read(small / "source/without/without.ipynb"))


def test_colab_installs_the_wheel_by_its_address_and_nothing_by_name(course, small):
    for stem in chapter_stems().values():
        source = setup_of(read(course / f"source/{stem}/{stem}.ipynb"))
        assert setup_of(read(course / f"colab/{stem}/{stem}.ipynb")) == f"%pip install --quiet {WHEEL}\n{source}"
    address = f"{SITE}/wheels/attnlab-{attnlab.__version__}-py3-none-any.whl"
    assert setup_of(read(course / "colab/all/all.ipynb")).startswith(f"%pip install --quiet {address}\ntry:")
    for path in [*handed_out(course, "source", "release"), course / "colab/week1/week1.ipynb"]:
        assert "pip install --quiet" not in text_of(read(path))
    own = {"plain": "1 + 1", "asking": "from attnlab import softmax"}
    for name, source in own.items():
        nbformat.write(new_notebook(cells=[new_code_cell(source)]), small / f"source/week1/{name}.ipynb")
    hand_out(small, "week1", wheel=WHEEL)
    assert [cell.source for cell in read(small / "colab/week1/plain.ipynb").cells[1:]] == ["1 + 1"]
    assert setup_of(read(small / "colab/week1/asking.ipynb")) == f"%pip install --quiet {WHEEL}\n"


# ---- links -----------------------------------------------------------------------------------------------------------


def test_links_lead_to_the_site_or_are_words(course):
    without, site = (read(course / f"source/{name}/{name}.ipynb") for name in ("week1", "all"))
    said = {cell.id: cell.source for cell in without.cells}
    assert said["ex-1-2-statement"].endswith("*1 point · to reread:* “From query and keys to scores”")
    told = {cell.id: cell.source for cell in site.cells}
    page = f"{SITE}/notebooks/01_weights.html#from-query-and-keys-to-scores"
    assert told["ex-1-2-statement"].endswith(f"[“From query and keys to scores”]({page})")
    for notebook in (without, site):
        assert not RELATIVE.search(prose_of(notebook))


def test_a_chapter_keeps_links_to_itself_where_it_can_follow_them(course):
    for stem in chapter_stems().values():
        for step in STEPS:
            text = prose_of(read(course / step / f"{stem}/{stem}.ipynb"))
            others = re.findall(rf"\]\((?!https?:|#|{stem}\.ipynb)[^)]*\)", text)
            assert others == [], step
            assert bool(RELATIVE.search(text)) == (step != "colab")
            assert f"]({SITE}/notebooks/" in text


def test_a_teachers_own_links_stay(small):
    path = small / "source/week1/week1.ipynb"
    notebook = read(path)
    notebook.cells.append(new_markdown_cell("[rules](rules.md), [chapter 2](02_scoring.ipynb#saturation)", id="own"))
    nbformat.write(notebook, path)
    hand_out(small, "week1", site=SITE)
    page = f"{SITE}/notebooks/02_scoring.html#saturation"
    assert read(small / "colab/week1/week1.ipynb").cells[-1].source == f"[rules](rules.md), [chapter 2]({page})"


@pytest.mark.parametrize(
    "text, words",
    [
        ("see [chapter\n1](01_weights.ipynb#temperature).", "see chapter\n1."),
        ("[`a[0]`](01_weights.ipynb) and [b](../book/claims.md#S07)", "`a[0]` and b"),
        ("$x \\in [0, 1)$, [here](01_weights.ipynb)", "$x \\in [0, 1)$, here"),
        ("![a picture](figure.md)", "![a picture](figure.md)"),
        ("[there](https://arxiv.org/a.md), [below](#below)", "[there](https://arxiv.org/a.md), [below](#below)"),
    ],
)
def test_links_as_words(text, words):
    assert to_words(text, "notebooks/02_scoring") == words


def test_the_folder_of_the_chapters_may_have_any_name(tmp_path):
    folder = Path(shutil.copytree(ROOT / "notebooks", tmp_path / "their chapters"))
    hand_out(tmp_path / "course", "week1", numbers=["4.5"], notebooks=folder, site=SITE)
    expected = to_site(
        "".join(cell.source for cell in read(folder / "04_multi_head.ipynb").cells if cell.id == "ex-4-5-statement"),
        "notebooks/04_multi_head",
        SITE,
        ROOT.joinpath,
    )
    text = text_of(read(tmp_path / "course/source/week1/week1.ipynb"))
    assert expected in text and f"]({SITE}/notebooks/04_multi_head.html#" in expected


# ---- what a teacher has made stays -----------------------------------------------------------------------------------


def test_a_teachers_own_exercises_are_released_without_their_solutions(small):
    path = small / "source/week1/week1.ipynb"
    notebook = read(path)
    notebook.cells.append(own_exercise())
    nbformat.write(notebook, path)
    nbformat.write(new_notebook(cells=[own_exercise()]), small / "source/week1/more.ipynb")
    (small / "source/week1/data.csv").write_text("1,2\n", encoding="utf-8")
    mine = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"week1\.ipynb is there already, .* perhaps you edited it"):
        hand_out(small, "week1", numbers=CHOSEN)
    hand_out(small, "week1")
    assert path.read_bytes() == mine
    for step in ("release", "colab"):
        for stem in ("week1", "more"):
            text = text_of(read(small / step / f"week1/{stem}.ipynb"))
            assert "def mine():\n" in text and "raise NotImplementedError()" in text and "secret" not in text
    assert (small / "release/week1/data.csv").exists()
    hand_out(small, "week1", numbers=["1.2"], replace=True)
    assert "mine" not in text_of(read(path))


def test_running_the_cells_of_a_source_is_not_editing_it(small):
    path = small / "source/week1/week1.ipynb"
    nbformat.write(run(read(path), small), path)
    ran = path.read_bytes()
    hand_out(small, "week1", numbers=CHOSEN)
    assert path.read_bytes() == ran
    assert not any(cell.get("outputs") for cell in read(small / "colab/week1/week1.ipynb").cells)


def test_a_teachers_configuration_stays_and_one_that_empties_answers_is_refused(tmp_path):
    config = tmp_path / "nbgrader_config.py"
    config.write_text("c = get_config()\nc.CourseDirectory.course_id = 'mine'\n", encoding="utf-8")
    with pytest.raises(ValueError, match="nbgrader would empty the answer cells") as told:
        hand_out(tmp_path, "week1", numbers=["1.2"])
    assert {path.name for path in tmp_path.iterdir()} == {"nbgrader_config.py"}
    lines = "".join(f"{line.strip()}\n" for line in str(told.value).splitlines()[1:])
    mine = config.read_text(encoding="utf-8") + lines
    config.write_text(mine, encoding="utf-8")
    written = hand_out(tmp_path, "week1", numbers=["1.2"])
    assert [path.parent.parent.name for path in written] == list(STEPS)  # no header: the teacher's file asks for none
    assert config.read_text(encoding="utf-8") == mine
    assert "scaled_scores" in text_of(read(tmp_path / "release/week1/week1.ipynb"))


def test_the_header_stands_above_what_is_handed_out_and_can_be_edited(small):
    header = small / "source/header.ipynb"
    for step in ("release", "colab"):
        assert read(small / step / "week1/week1.ipynb").cells[0].source.startswith("**Before you hand this in.**")
    nbformat.write(new_notebook(cells=[new_markdown_cell("My own rules.")]), header)
    hand_out(small, "week1")
    assert read(small / "release/week1/week1.ipynb").cells[0].source == "My own rules."


def test_after_students_handed_in_nothing_changes(small):
    with Gradebook(f"sqlite:///{small / 'gradebook.db'}") as gradebook:
        gradebook.add_student("ada")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own making
            gradebook.add_submission("week1", "ada")
    hand_out(small, "week1", numbers=CHOSEN)  # the same again does no harm
    before = {path: path.read_bytes() for path in handed_out(small)}
    for asked in ({"numbers": ["1.2"], "replace": True}, {"chapter": "1"}):
        with pytest.raises(RuntimeError, match="hand out under another name"):
            hand_out(small, "week1", **asked)
        assert {path: path.read_bytes() for path in handed_out(small)} == before


def test_nbgraders_own_words_are_given_where_it_refuses(small):
    path = small / "source/week1/week1.ipynb"
    notebook = read(path)
    notebook.cells.append(own_exercise())
    notebook.cells[-1].source = "### BEGIN SOLUTION\n1"
    nbformat.write(notebook, path)
    before = (small / "release/week1/week1.ipynb").read_bytes()
    with pytest.raises(RuntimeError, match=r"nbgrader did not make .*week1: no end solution statement found"):
        hand_out(small, "week1")
    assert (small / "release/week1/week1.ipynb").read_bytes() == before


# ---- what was asked for wrongly --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a/b", "../a", ".a", "-a", "_", "a*", "a[1]", "a.", "a\n"])
def test_names_that_nbgrader_or_a_file_system_stumbles_over(tmp_path, name):
    with pytest.raises(ValueError, match="cannot name an assignment"):
        hand_out(tmp_path, name, numbers=["1.2"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["week?", "[a]", "a]", "[b", "a*b", "a%20b", "a%C3%BCb"])
def test_a_course_directory_that_nbgrader_would_take_for_another_is_refused(tmp_path, name):
    for course in (tmp_path / name, tmp_path / name / "below"):
        with pytest.raises(ValueError, match=f"Rename the folder {re.escape(repr(name))}, without"):
            hand_out(course, "week1", numbers=["1.2"])
    assert list(tmp_path.iterdir()) == []


def test_a_course_directory_is_refused_where_a_link_or_the_working_directory_hides_its_name(tmp_path, monkeypatch):
    (tmp_path / "what?").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "what?")
    monkeypatch.chdir(tmp_path / "what?")
    for course in (Path("."), tmp_path / "link"):
        with pytest.raises(ValueError, match=r"nbgrader cannot work in .*what\?: it reads the \? in"):
            hand_out(course, "week1", numbers=["1.2"])
    assert list((tmp_path / "what?").iterdir()) == []


def test_a_course_directory_may_have_any_other_name(tmp_path):
    course = tmp_path / "Kurs (2026) 50% #1 ü 注意 {a} $b & c; d" / "week 1"
    written = hand_out(course, "week1", numbers=["1.2"])
    assert (course / "gradebook.db").exists() and all(path.is_relative_to(course) for path in written)
    assert [path for path in tmp_path.rglob("*.db") if path.parent != course] == []


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"numbers": ["1.2", "1.99", "x"]}, r"no exercise 1\.99, x\. Numbers look like 1\.2"),
        ({"chapter": "7"}, "no chapter '7'. Give the number of one of these: 1, 2, 3, 4, 5, 6"),
        ({"chapter": "weights"}, "no chapter 'weights'"),
        ({"chapter": "1", "numbers": ["1.2"]}, "A chapter and exercises were asked for"),
        ({"chapter": "1", "wheel": "attnlab"}, "'attnlab' is no address"),
        ({"chapter": "1", "site": "some.where"}, "'some.where' is no address"),
        ({}, r"Nothing lies in .*week1 yet\. Name a chapter"),
    ],
)
def test_what_does_not_exist_is_named(tmp_path, asked, said):
    with pytest.raises(ValueError, match=said):
        hand_out(tmp_path, "week1", **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_chapter_may_be_written_with_a_nought_and_an_exercise_asked_for_twice(small):
    hand_out(small, "week1", chapter="01")
    hand_out(small, "week2", numbers=["1.2", "1.2"])
    for step in STEPS:  # one assignment may have several notebooks
        assert {path.stem for path in (small / step / "week1").glob("*.ipynb")} == {"week1", "01_weights"}
    assert text_of(read(small / "source/week2/week2.ipynb")).count("def scaled_scores") == 1


def test_where_the_chapters_are_not_found_it_says_where_to_get_them(tmp_path, monkeypatch):
    assert chapters_folder() == ROOT / "notebooks"
    with pytest.raises(FileNotFoundError, match=r"01_weights\.ipynb is not there"):
        hand_out(tmp_path, "week1", chapter="1", notebooks=tmp_path)
    monkeypatch.setattr(attnlab, "__file__", str(tmp_path / "lib/site-packages/attnlab/__init__.py"))
    with pytest.raises(FileNotFoundError, match=r"--notebooks COURSE/notebooks"):
        hand_out(tmp_path, "week1", chapter="1")
    assert list(tmp_path.iterdir()) == []


# ---- the configuration -----------------------------------------------------------------------------------------------


def test_the_configuration_at_the_root_is_the_one_that_a_course_gets(course):
    assert (ROOT / "nbgrader_config.py").read_text(encoding="utf-8") == CONFIG
    assert (course / "nbgrader_config.py").read_text(encoding="utf-8").startswith(CONFIG)


@pytest.mark.parametrize("missing", ["attnlab", "nbgrader"])
def test_the_configuration_ends_nbgrader_and_says_what_to_install(missing):
    """With a missing package nbgrader would go on by its own defaults, and empty the answer cells."""
    code = f"import sys; sys.modules[{missing!r}] = None; exec(open('nbgrader_config.py').read(), {{'__file__': 'x'}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert missing in done.stderr and "pip install 'COURSE[classroom]'" in done.stderr
    assert "Traceback" not in done.stderr
