"""No table that the classroom writes holds a cell that a spreadsheet would run."""

import csv
import io
import re
from dataclasses import replace

import pytest
from classroom_results import assignment, the_class
from hypothesis import given
from hypothesis import strategies as st

from attnlab.classroom.gradebook.grades import grades_csv
from attnlab.classroom.gradebook.marks import Marks
from attnlab.classroom.intake import shelf
from attnlab.classroom.intake.naming import Sender
from attnlab.classroom.pages.report import misunderstandings_csv
from attnlab.classroom.tables import as_text, bare, csv_of

SIGNS = ["=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫", "−"]
BEFORE = ["", " ", "  ", "\u00a0", "\u3000", "\ufeff", "\u200b", "\0", "\t", "\r", "\n"]
DANGEROUS = [f"{before}{sign}1" for before in BEFORE for sign in SIGNS] + ["\tx", "\rx", "\nx", "'=1"]
BLANK = "".join(BEFORE)
HARMLESS = ["", " ", "a;b", "a; 'b", "a\tb", '"a"', "ana", "7", "a=1", "a-b", "Zoë", "李", "(=1)", "#1", "…"]


def grades(name: str, folder) -> str:
    (result, *_) = the_class()
    return grades_csv(folder, [assignment()], [replace(result, student=name)], Marks({}, {}))


def misunderstandings(name: str, folder) -> str:
    return misunderstandings_csv(assignment(), [replace(each, student=name + each.student) for each in the_class()])


def names(name: str, folder) -> str:
    """Of every column, what comes from outside."""
    shelf.write_names(folder, "week1", [], [shelf.Row(name, Sender(name, name), name, name)])
    return shelf.table_of(folder, "week1").read_bytes().decode("utf-8-sig")


@pytest.mark.parametrize("table", [grades, misunderstandings, names])
def test_every_table_escapes_each_dangerous_beginning(table, tmp_path):
    for name in DANGEROUS:
        rows = list(csv.reader(io.StringIO(table(name, tmp_path), newline="")))
        cells = [part for row in rows for cell in row for part in [cell, *cell.split("; ")]]
        assert len(rows) > 1
        assert not [cell for cell in cells if dangerous(cell)]
        assert any(cell.startswith("'") for cell in cells)


def dangerous(cell: str) -> bool:
    return any(cell.startswith(f"{before}{sign}") for before in BEFORE for sign in SIGNS) or cell[:1] in set("\t\r\n")


@pytest.mark.parametrize("cell", DANGEROUS)
def test_what_begins_a_formula_is_marked(cell):
    assert as_text(cell).startswith("'")
    assert as_text(cell).replace("'", "") == cell.replace("'", "")


PARTING = [",", ";", "\t"]  # what spreadsheets part cells by, in one country or another


def cells_of(table: str) -> list[str]:
    """The cells of a table in every reading: with each parting character, and with quotes heeded or not."""
    heeded = [row for by in PARTING for row in csv.reader(io.StringIO(table, newline=""), delimiter=by)]
    unheeded = [re.split(f"[{by}\r\n]", table) for by in PARTING[1:]]  # a comma in a cell stands in quotes
    return [cell for row in heeded + unheeded for cell in row]


@pytest.mark.parametrize("border", [";", "\t", "\n", "\r", ';"', '; "', ";\u200b"])
def test_no_reading_of_the_names_finds_a_formula(tmp_path, border):
    file = f"ada{border}=HYPERLINK(1){border}=1+1;.ipynb"
    shelf.write_names(tmp_path, "week1", [], [shelf.Row("ada", Sender(file, file), file, file)])
    table = shelf.table_of(tmp_path, "week1").read_bytes().decode("utf-8-sig")
    assert "HYPERLINK" in table
    assert not [cell for cell in cells_of(table) if dangerous(cell)]
    (row,) = shelf.read_names(tmp_path, "week1")
    assert bare(as_text(file)) == file and row.sender == Sender(file, file).printable()


TEXTS = st.text(st.sampled_from(";\t\n\r\"',=+-@ a＝\u200b")) | st.text()


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=3))
def test_no_reading_of_a_table_finds_a_formula(rows):
    table = csv_of(rows)
    assert [tuple(map(bare, row)) for row in csv.reader(io.StringIO(table, newline=""))] == rows
    assert not [cell for cell in cells_of(table) if cell.strip(BLANK)[:1] in SIGNS]


@pytest.mark.parametrize("cell", HARMLESS)
def test_what_begins_none_stays(cell):
    assert as_text(cell) == cell


@given(st.text(st.sampled_from("'=+-@ ;\"\t\r\na＝")) | st.text())
def test_each_comes_back(cell):
    assert bare(as_text(cell)) == cell


def test_a_number_below_zero_stays_a_number():
    assert csv_of([["-1", -1, -0.5, ""]]) == "'-1,-1,-0.5,\n"
