"""A submission's notebook is read whatever wrote it, and whatever it is; what is lost is said."""

import copy
import io
import json
import zipfile

import nbformat
import pytest
from book_fixtures import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode

from attnlab.classroom.intake.reading import LARGEST, MOST_CELLS
from attnlab.classroom.intake.submissions import MOST_REMARKS, read

RAW = (ROOT / "notebooks/01_weights.ipynb").read_bytes()
RELEASED = nbformat.reads(RAW.decode(), as_version=4)
WORDS = nbformat.read(ROOT / "notebooks/06_interpretability.ipynb", as_version=4)
NUMBERS = list(dict.fromkeys(cell.metadata.exercise for cell in RELEASED.cells if "exercise" in cell.metadata))
HINT = "*Your answer, in place of this line. A person reads it.*"
EARLIER = "*Your answer, in place of this line. A person reads it; a few sentences are enough.*"  # of older handouts


def as_bytes(notebook: dict, **how) -> bytes:
    return json.dumps(notebook, **{"ensure_ascii": False} | how).encode("utf-8", "surrogatepass")


def told(handed) -> list[tuple]:
    return [(cell.number, cell.part, cell.source) for cell in handed.cells]


def code_cell(source, number="1.2", part="answer", **more) -> dict:
    mark = f"ex-{number.replace('.', '-')}-{part}"
    metadata = {"exercise": number, "part": part, "nbgrader": {"grade_id": mark}}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": []} | more


def notebook_of(*cells, **more) -> dict:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)} | more


EXPECTED = [
    (cell.metadata.get("exercise"), cell.metadata.get("part"), cell.source)
    for cell in RELEASED.cells
    if cell.cell_type == "code"
]


# ---- programs that save notebooks ----------------------------------------------------------------------------------


def in_colab(notebook: dict) -> dict:
    """Colab writes format 4.0, puts ids into the metadata, and adds its own; the course's marks stay."""
    notebook |= {"nbformat_minor": 0}
    notebook["metadata"] = {
        "colab": {"provenance": [], "toc_visible": True},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}},
    }
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] |= {"id": cell.pop("id"), "outputId": f"{number:08x}-aaaa"}
        if cell["cell_type"] == "code":
            cell["metadata"] |= {"colab": {"base_uri": "https://localhost:8080/"}, "cellView": "form"}
    return notebook


def in_colab_without_marks(notebook: dict) -> dict:
    """Only Colab's own id is left: what it made of the cell's."""
    for cell in in_colab(notebook)["cells"]:
        cell["metadata"] = {"id": cell["metadata"]["id"]}
    return notebook


def in_vscode(notebook: dict) -> dict:
    """VS Code: sources as lists of lines, on Windows with CRLF, a language for each cell."""
    notebook |= {"nbformat_minor": 2}
    notebook["metadata"] = {
        "kernelspec": {"display_name": ".venv", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.12.1", "codemirror_mode": {"name": "ipython", "version": 3}},
        "orig_nbformat": 4,
        "vscode": {"interpreter": {"hash": "31f2aee4e71d21fbe5cf8b01ff0e069b9275f58929596ceb00d14d90e3e16cd6"}},
    }
    for cell in notebook["cells"]:
        del cell["id"]
        cell["source"] = [line.replace("\n", "\r\n") for line in cell["source"].splitlines(keepends=True)]
        cell["metadata"]["vscode"] = {"languageId": "python" if cell["cell_type"] == "code" else "markdown"}
    return notebook


def by_exercise_and_part(notebook: dict) -> dict:
    for cell in notebook["cells"]:
        cell["metadata"].pop("nbgrader", None)
        del cell["id"]
    return notebook


def by_ids_alone(notebook: dict) -> dict:
    for cell in notebook["cells"]:
        del cell["metadata"]
    return notebook


def in_format_3(notebook: dict) -> dict:
    """IPython before 2015: cells in a worksheet, code as `input`."""
    return nbformat.convert(nbformat.from_dict(notebook), 3)


def in_minor(minor: int):
    def saved(notebook: dict) -> dict:
        for cell in notebook["cells"] if minor < 5 else ():
            del cell["id"]
            cell["metadata"] |= {"collapsed": True, "scrolled": False}
        return notebook | {"nbformat_minor": minor}

    return saved


SAVED = {
    "colab": in_colab,
    "vscode": in_vscode,
    "format 3": in_format_3,
    "exercise and part": by_exercise_and_part,
} | {f"4.{minor}": in_minor(minor) for minor in range(6)}


@pytest.mark.parametrize("program", SAVED)
def test_a_notebook_reads_the_same_from_every_program(program):
    handed = read(as_bytes(SAVED[program](copy.deepcopy(RELEASED))), NUMBERS)
    assert told(handed) == EXPECTED
    assert handed.remarks == ()
    assert [cell.grade_id for cell in handed.cells if cell.part == "answer"] == [
        f"ex-{number.replace('.', '-')}-answer" for number in NUMBERS
    ]


@pytest.mark.parametrize("save", [in_colab_without_marks, by_ids_alone])
def test_ids_tell_the_exercises_where_the_marks_are_gone(save):
    handed = read(as_bytes(save(copy.deepcopy(RELEASED))), NUMBERS)
    assert told(handed) == EXPECTED
    assert handed.remarks == ()


def test_the_clean_copy_is_valid_keeps_the_marks_and_has_no_outputs():
    handed = read(RAW)
    nbformat.validate(handed.notebook)
    assert handed == read(RAW)
    assert [cell.source for cell in handed.notebook.cells] == [cell.source for cell in RELEASED.cells]
    assert [cell.id for cell in handed.notebook.cells] == [cell.id for cell in RELEASED.cells]
    for cell, released in zip(handed.notebook.cells, RELEASED.cells, strict=True):
        marks = {name: value for name, value in released.metadata.items() if name in ("exercise", "part", "role")}
        assert {name: cell.metadata.get(name) for name in marks} == marks
        assert cell.get("outputs", []) == []
        if "nbgrader" in released.metadata:
            assert cell.metadata.nbgrader == {"grade_id": released.metadata.nbgrader.grade_id}
    for cell in handed.cells:
        assert handed.notebook.cells[cell.index].source == cell.source


# ---- bytes ---------------------------------------------------------------------------------------------------------

ENCODED = {
    "utf-8 with a mark": RAW.decode().encode("utf-8-sig"),
    "utf-16": RAW.decode().encode("utf-16"),
    "utf-16 without a mark": RAW.decode().encode("utf-16-be"),
    "utf-32": RAW.decode().encode("utf-32"),
    "ascii": as_bytes(RELEASED, ensure_ascii=True),
    "windows line ends": RAW.replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_every_unicode_encoding_is_read_without_a_loss(encoding):
    handed = read(ENCODED[encoding], NUMBERS)
    assert told(handed) == EXPECTED
    assert handed.remarks == ()


def test_latin_1_is_read_and_said():
    handed = read(as_bytes(notebook_of(code_cell("x = 'Müller'"))).decode().encode("latin-1"))
    assert [cell.source for cell in handed.cells] == ["x = 'Müller'"]
    assert "not in UTF-8" in handed.remarks[0]


def test_one_bad_byte_spoils_no_other_letter():
    data = as_bytes(notebook_of(code_cell("x = 'Müller'"))).replace("ü".encode(), "ü".encode() + b"\xff")
    handed = read(data)
    assert [cell.source for cell in handed.cells] == ["x = 'Mü�ller'"]
    assert "not in UTF-8" in handed.remarks[0]


def a_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    return file.getvalue()


NO_NOTEBOOKS = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n\t ", "is empty"),
    "nulls": (b"\0" * 1000, "is empty"),
    "docx": (a_zip(), "an Office document"),
    "pdf": (b"%PDF-1.7\n...", "a PDF"),
    "web page": (b"\n<!DOCTYPE html>\n<html><body>{}</body></html>", "a web page"),
    "script": (b"import numpy as np\n\ndef f(x):\n    return x\n", "a script"),
    "jupytext": (b"# %%\nx = 1\n", "a script"),
    "prose": (b"Ich habe es nicht geschafft.", "is text"),
    "broken": (RAW.replace(b'"cells"', b'"cells', 1), "no valid JSON"),
    "cut off": (RAW[: len(RAW) // 2], "is cut off"),
    "cut off between cells": (RAW[: RAW.rindex(b'"cell_type"')], "is cut off"),
    "two in one": (RAW + RAW, "no valid JSON"),
    "merge": (b'{\n<<<<<<< HEAD\n "cells": [],\n=======\n>>>>>>> main\n}', "git merge"),
    "list": (b"[1, 2]", "no notebook"),
    "number": (b"1", "is JSON, but no notebook"),
    "without cells": (b'{"nbformat": 4}', "has no cells"),
    "cells of no list": (b'{"cells": {"0": {}}}', "has no cells"),
    "worksheets of no list": (b'{"worksheets": 3}', "has no cells"),
    "deep": (b'{"cells": ' + b"[" * 100_000, "nested too deep"),
    "deep and whole": (b'{"cells": ' + b'{"a":' * 90_000 + b"1" + b"}" * 90_001, "nested too deep"),
    "large": (b" " * (LARGEST + 1), "20 MB"),
    "not even text": (bytes(range(128, 256)) * 9, "no notebook"),
}


@pytest.mark.parametrize("kind", NO_NOTEBOOKS)
def test_what_is_no_notebook_is_called_what_it_is(kind):
    data, says = NO_NOTEBOOKS[kind]
    handed = read(data, ["1.1"])
    assert (handed.cells, handed.words, handed.notebook) == ((), {}, None)
    assert says in handed.remarks[-1]
    assert "hand" in handed.remarks[-1] or "Clear its outputs" in handed.remarks[-1]  # what to do


# ---- cells ---------------------------------------------------------------------------------------------------------

ODD = {
    "no dictionaries": ([3, None, code_cell("x"), []], ["x"], "Cell 1 is no cell (int)"),
    "source is a number": ([code_cell(7)], [""], "source of cell 1 is no text (int)"),
    "source is missing": ([{"cell_type": "code", "metadata": {}}], [""], None),
    "source with numbers": ([code_cell(["a\n", 3, "b"])], ["a\nb"], "lines that are no text"),
    "metadata is a list": ([code_cell("x", metadata=[1])], ["x"], "metadata of cell 1"),
    "metadata is missing": ([{"cell_type": "code", "source": "x"}], ["x"], None),
    "unknown kind": ([{"cell_type": "sql", "source": "select"}], [], "a kind that nobody knows"),
    "kind is a list": ([{"cell_type": [], "source": "x"}], [], "a kind that nobody knows"),
    "raw": ([{"cell_type": "raw", "source": "x", "metadata": {}}], [], None),
    "null characters": ([code_cell("x = '\0'")], ["x = '\0'"], "null characters"),
    "halves of characters": ([code_cell("x = '\ud800'")], ["x = '�'"], "halves of characters"),
    "old line ends": ([code_cell("a\rb\r\nc\n")], ["a\nb\nc\n"], None),
    "an answer turned into text": ([code_cell("x = 1", cell_type="markdown")], ["x = 1"], "turned into markdown"),
    "marks of no text": ([code_cell("x", metadata={"nbgrader": 3, "exercise": [], "part": {}})], ["x"], None),
    "ids of no text": ([code_cell("x", id={"a": 1})], ["x"], None),
    "magics": ([code_cell("%pip install x\n!ls\n%%time")], ["%pip install x\n!ls\n%%time"], None),
    "not a number": ([code_cell("x", outputs=[{"data": float("nan")}], execution_count=float("inf"))], ["x"], None),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_cells_stop_nothing(kind):
    cells, sources, says = ODD[kind]
    handed = read(as_bytes(notebook_of(*cells, code_cell("last", "1.3"))))
    assert [cell.source for cell in handed.cells] == [*sources, "last"]
    assert says is None or any(says in remark for remark in handed.remarks)
    assert says is not None or handed.remarks == ()
    nbformat.validate(handed.notebook)


def test_headings_and_html_of_format_3_are_markdown():
    cells = [{"cell_type": "heading", "level": 2, "source": "A"}, {"cell_type": "html", "source": ["<b>", "B</b>"]}]
    sheets = [{"cells": cells}, {"cells": [{"cell_type": "code", "input": ["x\n", "y"], "metadata": {}}]}, 7]
    handed = read(as_bytes({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": sheets}))
    assert [(cell.cell_type, cell.source) for cell in handed.notebook.cells] == [
        ("markdown", "## A"),
        ("markdown", "<b>B</b>"),
        ("code", "x\ny"),
    ]
    assert handed.remarks == ()
    nbformat.validate(handed.notebook)


def test_a_format_of_the_future_is_read_as_ours_and_said():
    handed = read(as_bytes(notebook_of(code_cell("x"), nbformat=6, nbformat_minor=1)))
    assert told(handed) == [("1.2", "answer", "x")]
    assert "format 6" in handed.remarks[0]


def test_numbers_that_python_would_not_convert_stop_nothing():
    data = as_bytes(notebook_of(code_cell("x", execution_count="N"))).replace(b'"N"', b"9" * 10_000)
    assert told(read(data)) == [("1.2", "answer", "x")]


def test_another_language_is_said():
    handed = read(as_bytes(notebook_of(code_cell("x"), metadata={"language_info": {"name": "R"}})))
    assert handed.remarks == ("The notebook is written for R; its cells are read as Python.",)


def test_nbgraders_mark_goes_before_the_others():
    moved = code_cell("x", id="ex-1-4-answer")
    moved["metadata"] |= {"exercise": "1.3", "part": "check"}
    assert told(read(as_bytes(notebook_of(moved)))) == [("1.2", "answer", "x")]


def test_a_mark_of_another_course_is_no_exercise():
    cell = {"cell_type": "code", "source": "x", "metadata": {"nbgrader": {"grade_id": "problem-1"}}}
    (found,) = read(as_bytes(notebook_of(cell))).cells
    assert (found.number, found.part, found.grade_id) == (None, None, "problem-1")


def test_copied_cells_are_all_kept_and_said():
    notebook = copy.deepcopy(RELEASED)
    place = next(i for i, cell in enumerate(notebook.cells) if cell.id == "ex-1-2-answer")
    notebook.cells.append(copy.deepcopy(notebook.cells[place]))
    notebook.cells[-1].source = "def scaled_scores(query, keys):\n    return 1"
    handed = read(as_bytes(notebook), NUMBERS)
    found = [cell for cell in handed.cells if (cell.number, cell.part) == ("1.2", "answer")]
    assert [cell.source for cell in found] == [notebook.cells[place].source, notebook.cells[-1].source]
    assert [remark for remark in handed.remarks if "1.2" in remark and "2 times" in remark]
    assert len({cell.id for cell in handed.notebook.cells}) == len(notebook.cells)


def test_a_missing_answer_is_said():
    notebook = copy.deepcopy(RELEASED)
    notebook.cells = [cell for cell in notebook.cells if cell.id != "ex-1-4-answer"]
    assert read(as_bytes(notebook), NUMBERS).remarks == ("The answer cell of 1.4 is missing.",)


def test_thousands_of_cells_and_remarks_are_cut():
    handed = read(as_bytes(notebook_of(*[3] * (MOST_CELLS + 7), code_cell("x"))))
    assert len(handed.remarks) == MOST_REMARKS + 1
    assert str(MOST_CELLS + 8) in handed.remarks[0]
    many = read(as_bytes(notebook_of(*[code_cell(str(n)) for n in range(MOST_CELLS + 7)])))
    assert [cell.source for cell in many.cells] == [str(n) for n in range(MOST_CELLS)]


# ---- words ---------------------------------------------------------------------------------------------------------

TEXTS = {
    HINT: "",
    EARLIER: "",
    f"{HINT}\n\nI would look.": "I would look.",
    f"{HINT} I would look.": "I would look.",
    "  I would *look*, and\n\nask.\n": "I would *look*, and\n\nask.",
    "": "",
    "\0I would look.": "I would look.",
}


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_what_stands_in_place_of_the_released_line(text):
    notebook = copy.deepcopy(WORDS)
    for cell in notebook.cells:
        if cell.id == "ex-6-11-words":
            cell.source = text
    assert read(as_bytes(notebook)).words == {"6.11": TEXTS[text], "6.12": ""}


def test_the_released_line_is_the_one_that_is_taken_away():
    released = [cell.source for cell in WORDS.cells if cell.metadata.get("part") == "words"]
    assert released == [HINT] * 2


def test_words_in_several_cells_or_in_a_cell_of_code_are_all_read():
    notebook = copy.deepcopy(WORDS)
    cells = [cell for cell in notebook.cells if cell.id == "ex-6-11-words"]
    copies = [NotebookNode(copy.deepcopy(cells[0]), source=text) for text in ("One.", "Two.", HINT, "One.")]
    copies[1].cell_type = "code"
    notebook.cells += copies
    handed = read(as_bytes(notebook), ["6.11", "6.13"])
    assert handed.words == {"6.11": "One.\n\nTwo.", "6.12": ""}
    assert "The answer to question 6.11 is there 2 times; all of it is read." in handed.remarks
    assert "The answer cell of 6.13 is missing." in handed.remarks


def test_pictures_in_words_are_kept_and_nothing_else():
    cell = code_cell("![](attachment:a.png)", "6.11", "words", cell_type="markdown")
    cell["attachments"] = {"a.png": {"image/png": "aGk="}, "b.html": {"text/html": "<script>"}, "c": 3}
    (kept,) = read(as_bytes(notebook_of(cell))).notebook.cells
    assert kept.attachments == {"a.png": {"image/png": "aGk="}}


# ---- anything ------------------------------------------------------------------------------------------------------

KEYS = ["cells", "worksheets", "metadata", "nbformat", "cell_type", "source", "input", "level", "id", "outputs"]
KEYS += ["nbgrader", "grade_id", "exercise", "part", "role", "kernelspec", "name", "attachments", "image/png"]
TEXT = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["code", "markdown", "heading", "answer", "words", "1.2", "ex-1-2-answer", "ex-1-2-words", "python", HINT, "\ud800"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | TEXT, inner, max_size=5),
    max_leaves=20,
)
CELLS = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6) | VALUES, max_size=5)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda data: RAW[:3000] + data + RAW[3000:]))
@settings(max_examples=150, deadline=None)
def test_no_bytes_stop_the_reading(data):
    handed = read(data, ["1.1"])
    assert handed.cells or handed.remarks


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), CELLS, st.sampled_from(["cells", "worksheets"]))
@settings(max_examples=200, deadline=None)
def test_no_json_stops_the_reading_and_what_comes_out_is_valid(notebook, cells, where):
    notebook[where] = cells if where == "cells" else [{"cells": cells}]
    handed = read(as_bytes(notebook, ensure_ascii=True), ["1.2"])
    nbformat.validate(handed.notebook)
    as_bytes(handed.notebook).decode("utf-8")  # can be stored and sent
    " ".join([*handed.remarks, *handed.words.values()]).encode("utf-8")
