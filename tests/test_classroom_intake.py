"""Submissions come into nbgrader's layout from every kind of source, and nothing in one reaches outside of it.

Every test that looks at the audit of a run sees each file that was opened: `opened`.
"""

import io
import itertools
import json
import os
import stat
import struct
import sys
import tempfile
import unicodedata
import warnings
import zipfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from attnlab.classroom.intake.intake import LATE, collect
from attnlab.classroom.intake.layouts import COURSE, STEPS, Layout
from attnlab.classroom.intake.limits import Limits
from attnlab.classroom.intake.naming import Sender, ids_of, student_id
from attnlab.classroom.intake.sources import Found

NB = "01_weights"
A, B, C = (f'{{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {{"of": "{x}"}}}}'.encode() for x in "abc")
SECRET = b"the neighbour's file, and nobody else's"
MOODLE, MORE = "Ana Li_123456_assignsubmission_file_", "Zoë Müller_123457_assignsubmission_file_"


# ---- sources -------------------------------------------------------------------------------------------------------


def zipped(*members: tuple, **how) -> bytes:
    """A zip of (name or ZipInfo, content)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, **how) as archive:
        for name, content in members:
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def flagged(archive: bytes, *, on: int = 0, off: int = 0) -> bytes:
    """The zip with other flags for all members, in both of their headers."""
    changed = bytearray(archive)
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = archive.find(mark)
        while at >= 0:
            (flags,) = struct.unpack_from("<H", changed, at + place)
            struct.pack_into("<H", changed, at + place, flags & ~off | on)
            at = archive.find(mark, at + 4)
    return bytes(changed)


def member(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


class Course:
    """A course directory beside a source, and a neighbour's folder that nobody may look into."""

    def __init__(self, root: Path) -> None:
        self.root, self.course, self.source = root, root / "course", root / "source"
        self.submitted = self.course / "submitted"
        for name, notebook in {"week1": NB, "week2": "02_scoring"}.items():
            place = self.course / "source" / name / f"{notebook}.ipynb"
            place.parent.mkdir(parents=True)
            place.write_bytes(A)
        self.outside = root / "outside"
        self.outside.mkdir()
        (self.outside / f"{NB}.ipynb").write_bytes(SECRET)

    def folder(self, files: dict[str, bytes]) -> Path:
        for name, content in files.items():
            place = self.source / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return self.source

    def zip(self, *members: tuple, name: str = "week1.zip") -> Path:
        return self.file(zipped(*members), name)

    def file(self, content: bytes, name: str = "week1.zip") -> Path:
        (self.root / name).write_bytes(content)
        return self.root / name

    def collect(self, source: Path | None, *notebooks: str, **how):
        return collect(source, self.course, "week1", list(notebooks) or [NB], **how)

    def files(self, of: Path | None = None) -> dict[str, bytes]:
        top = of or self.submitted
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def handed_in(self) -> dict[str, bytes]:
        return {name: data for name, data in self.files().items() if name.endswith((".ipynb", "~"))}


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


RECORDS: list[list[str]] = []


def _note(event: str, arguments: tuple) -> None:
    if RECORDS and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        RECORDS[-1].append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(_note)


@contextmanager
def confined(course: Course):
    """Within: no file outside of source and submissions is opened or changed, and no secret comes in."""
    before = {path: path.lstat().st_mtime_ns for path in course.root.rglob("*")}
    RECORDS.append([])
    try:
        yield
    finally:
        opened = RECORDS.pop()
    assert not [path for path in opened if path.startswith(str(course.outside)) or path == "/etc/passwd"]
    changed = [p for p in course.root.rglob("*") if not p.is_dir() and before.get(p) != p.lstat().st_mtime_ns]
    assert all(path.is_relative_to(course.submitted) for path in changed), changed
    assert not [name for name, data in course.files().items() if SECRET in data or b"root:" in data]
    assert not [path for path in course.submitted.rglob("*") if path.is_symlink()]


def told(collected) -> dict[str, str]:
    """student → all that is said of the submission."""
    return {one.student: " ".join(one.problems) for one in collected.submissions}


def graded(collected) -> dict[str, bytes | None]:
    return {one.student: one.path and one.path.read_bytes() for one in collected.submissions}


# ---- the layouts ---------------------------------------------------------------------------------------------------

LAYOUTS = {
    "nbgrader": (
        {f"ana/week1/{NB}.ipynb": A, f"bo/week1/{NB}.ipynb": B, "bo/week2/02_scoring.ipynb": C},
        ["ana", "bo"],
    ),
    "nbgrader, another week": ({f"ana/week1/{NB}.ipynb": A, "bo/week2/02_scoring.ipynb": C}, ["ana"]),
    "a folder a student": ({f"ana/{NB}.ipynb": A, f"bo/{NB}.ipynb": B}, ["ana", "bo"]),
    "one more folder around": ({f"class/ana/{NB}.ipynb": A, f"class/bo/{NB}.ipynb": B}, ["ana", "bo"]),
    "two more folders around": (
        {f"x/submitted/ana/week1/{NB}.ipynb": A, f"x/submitted/bo/week1/{NB}.ipynb": B},
        ["ana", "bo"],
    ),
    "one student": ({f"ana/week1/{NB}.ipynb": A}, ["ana"]),
    "a student's own folders": ({f"ana/my/work/{NB}.ipynb": A, f"bo/{NB}.ipynb": B}, ["ana", "bo"]),
    "flat": ({"ana.ipynb": A, "bo.ipynb": B}, ["ana", "bo"]),
    "flat, with the notebook": (
        {f"ana_{NB}.ipynb": A, f"{NB} - bo.ipynb": B, f"{NB}_cy-Copy1.ipynb": C},
        ["ana", "bo", "cy"],
    ),
    "google's": ({f"Ana Lee - {NB}.ipynb": A, f"Bo - Copy of {NB}.ipynb": B}, ["Ana Lee", "Bo"]),
    "flat, in a folder": ({"week1/ana.ipynb": A, "week1/bo.ipynb": B}, ["ana", "bo"]),
    "flat, with numbers": ({"s (1).ipynb": A, "s (2).ipynb": B, "t-1.ipynb": C}, ["s 1", "s 2", "t-1"]),
    "other spellings": (
        {"ana/01 Weights.IPYNB": A, f"bo/{NB}.ipynb.txt": B, "cy/homework.ipynb": C},
        ["ana", "bo", "cy"],
    ),
    "copies": ({f"ana/Copy of {NB}.ipynb": A, f"bo/{NB} (1).ipynb": B, f"cy/{NB}-Copy2.ipynb": C}, ["ana", "bo", "cy"]),
    "classroom of google": ({f"Ana Li - {NB}.ipynb": A, f"Bo Day - {NB}.ipynb": B}, ["Ana Li", "Bo Day"]),
    "moodle, folders": ({f"{MOODLE}/{NB}.ipynb": A, f"{MORE}/my/{NB}.ipynb": B}, ["Ana Li", "Zoë Müller"]),
    "moodle 4, folders": ({f"{MOODLE[:-1]}/{NB}.ipynb": A, f"{MORE[:-1]}/{NB}.ipynb": B}, ["Ana Li", "Zoë Müller"]),
    "moodle, flat": ({f"{MOODLE}{NB}.ipynb": A, f"{MORE}{NB} (1).ipynb": B}, ["Ana Li", "Zoë Müller"]),
    "moodle, groups": ({f"Group A_12_assignsubmission_file_/{NB}.ipynb": A}, ["Group A"]),
    "moodle, unpacked": ({f"week1/{MOODLE}/{NB}.ipynb": A, f"week1/{MORE}/{NB}.ipynb": B}, ["Ana Li", "Zoë Müller"]),
    "canvas": (
        {f"liana_12345_678901_{NB}.ipynb": A, f"dayb_LATE_12346_678902_{NB}-1.ipynb": B, "eve_9_10_hw.ipynb": C},
        ["liana_12345", "dayb_12346", "eve_9"],
    ),
    "canvas, numbers that end like a notebook's": (
        {"liana_12345_678901_weights.ipynb": A, "day_12346_101_weights.ipynb": B, f"eve_7_901_my {NB}.ipynb": C},
        ["liana_12345", "day_12346", "eve_7"],
    ),
    "flat, a number that goes on": ({f"ana_{NB}.ipynb": A, "bo_101_weights2.ipynb": B}, ["ana", "bo_101_weights2"]),
    "nbgrader, and folders of students' own": (
        {
            f"ana/week1/{NB}.ipynb": A,
            f"bo/homework/{NB}.ipynb": B,
            "cy/hw/solved.ipynb": C,
            "dee/week2/02_scoring.ipynb": A,
        },
        ["ana", "bo", "cy"],
    ),
    "moodle, and a folder that is not its own": (
        {f"{MOODLE}/week1/{NB}.ipynb": A, f"No 18/my/{NB}.ipynb": B, f"No 19/week1/{NB}.ipynb": C},
        ["Ana Li", "No 18", "No 19"],
    ),
    "beside the submissions": ({f"submitted/ana/week1/{NB}.ipynb": A, f"bo/{NB}.ipynb": B}, ["ana", "bo"]),
    "called like steps": (
        {f"source/{NB}.ipynb": A, f"feedback/{NB}.ipynb": B, f"submitted/{NB}.ipynb": C},
        ["source", "feedback", "submitted"],
    ),
    "called like one step": ({f"ana/{NB}.ipynb": A, f"submitted/{NB}.ipynb": B}, ["ana", "submitted"]),
    "canvas, anonymous": (
        {f"anon_aB3xY_678901_{NB}.ipynb": A, f"LATE_anon_Z9z9Z_678902_{NB}.ipynb": B},
        ["anon_aB3xY", "anon_Z9z9Z"],
    ),
    "named with a number": ({f"ana_123456_{NB}.ipynb": A, f"bo_123457_{NB}.ipynb": B}, ["ana_123456", "bo_123457"]),
    "blackboard": (
        {f"ch1_ana_attempt_2026-01-02-10-11-12_{NB}.ipynb": A, f"ch_1_bo_attempt_2026-01-02-10-11-12_{NB}.ipynb": B},
        ["ana", "bo"],
    ),
    "brightspace": ({f"1234-5678 - Ana Li - Jan 2, 2026 1011 AM/{NB}.ipynb": A, "index.html": b"<html>"}, ["Ana Li"]),
    "a zip a student": (
        {"ana.zip": zipped((f"{NB}.ipynb", A)), "bo_week1.zip": zipped((f"x/{NB}.ipynb", B))},
        ["ana", "bo"],
    ),
    "a zip in a folder a student": ({"ana/hw.zip": zipped(("hw.ipynb", A)), f"bo/{NB}.ipynb": B}, ["ana", "bo"]),
    "moodle, zips": (
        {f"{MOODLE}/hw.zip": zipped((f"deep/{NB}.ipynb", A)), f"{MORE}/{NB}.ipynb": B},
        ["Ana Li", "Zoë Müller"],
    ),
    "junk around": (
        {
            f"ana/{NB}.ipynb": A,
            f"ana/.ipynb_checkpoints/{NB}-checkpoint.ipynb": C,
            "ana/.DS_Store": b"\0",
            "ana/a.csv": b"",
        }
        | {f"__MACOSX/ana/._{NB}.ipynb": b"\0", f"bo/._{NB}.ipynb": b"\0", f"bo/{NB}.ipynb": B},
        ["ana", "bo"],
    ),
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_brought_into_nbgraders(course, layout, packed):
    files, students = LAYOUTS[layout]
    source = course.zip(*files.items(), name="download.zip") if packed else course.folder(files)
    with confined(course):
        collected = course.collect(source)
    assert collected.problems == []
    assert graded(collected) == dict(zip(students, (A, B, C), strict=False))
    assert {one.student: one.problems for one in collected.submissions} == {
        student: (LATE,) if student in {"dayb_12346", "anon_Z9z9Z"} else () for student in students
    }
    assert course.handed_in() == {f"{student}/week1/{NB}.ipynb": data for student, data in graded(collected).items()}
    api = NbGraderAPI(coursedir=CourseDirectory(root=str(course.course)))
    assert api.get_submitted_students("week1") == set(students)


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_each_student_gets_their_own_file(course, packed):
    files = {
        f"{MOODLE}/{NB}.ipynb": A,
        f"{MORE}/{NB}.ipynb": B,
        "Cy_3_assignsubmission_file_/x.zip": zipped(("x.ipynb", C)),
    }
    collected = course.collect(course.zip(*files.items()) if packed else course.folder(files))
    assert graded(collected) == {"Ana Li": A, "Zoë Müller": B, "Cy": C}
    assert collected.names == {"Ana Li": "Ana Li", "Zoë Müller": "Zoë Müller", "Cy": "Cy"}


def test_several_notebooks_of_an_assignment(course):
    files = {f"ana/{NB}.ipynb": A, "ana/extra (1).ipynb": B, f"bo/{NB}.ipynb": C, "cy/hw.ipynb": A}
    collected = course.collect(course.folder(files), NB, "extra")
    assert [(one.student, one.notebook, bool(one.path)) for one in collected.submissions] == [
        ("ana", NB, True), ("ana", "extra", True), ("bo", NB, True), ("bo", "extra", False), ("cy", NB, False),
        ("cy", "extra", False),
    ]  # fmt: skip
    assert "No extra.ipynb was handed in." in told(collected)["bo"]
    assert f"Call it {NB}.ipynb or extra.ipynb" in told(collected)["cy"]


def test_what_already_lies_there(course):
    for name, data in {f"ana/week1/{NB}.ipynb": A, "bo/week1/my homework.ipynb": B, "cy/week2/x.ipynb": C}.items():
        place = course.submitted / name
        place.parent.mkdir(parents=True)
        place.write_bytes(data)
    (course.submitted / "dee/week1").mkdir(parents=True)
    before = course.files()
    for source in (None, course.submitted, course.course):
        with confined(course):
            collected = course.collect(source)
        assert graded(collected) == {"ana": A, "bo": B, "dee": None}
        assert told(collected) == {
            "ana": "",
            "bo": "It was handed in under the name my homework.ipynb.",
            "dee": f"No {NB}.ipynb was handed in.",
        }
        assert course.files() == before


def test_one_notebook_as_source(course):
    collected = course.collect(course.file(A, f"ana_{NB}.ipynb"))
    assert graded(collected) == {"ana": A}


def test_a_folder_with_the_zip_of_a_platform(course):
    course.folder({"week1-download.zip": zipped((f"{MOODLE}/{NB}.ipynb", A), (f"{MORE}/{NB}.ipynb", B))})
    assert graded(course.collect(course.source)) == {"Ana Li": A, "Zoë Müller": B}


# ---- a pattern -----------------------------------------------------------------------------------------------------


def test_a_teachers_pattern_goes_before_the_guess(course):
    files = {"group7/hw-ana.ipynb": A, "group7/hw-bo.zip": zipped(("x.ipynb", B)), "group7/other.ipynb": C, "a.md": b""}
    collected = course.collect(course.folder(files), pattern=r"hw-(?P<student>\w+)")
    assert graded(collected) == {"ana": A, "bo": B}
    (problem,) = collected.problems
    assert (problem.student, problem.file) == (None, "group7/other.ipynb")
    assert "does not match the pattern" in problem.message


def test_a_pattern_may_name_the_notebook_and_uses_nbgraders_words(course):
    files = {"01-ana.ipynb": A, "02-ana.ipynb": B}
    pattern = r"(?P<notebook>\d+)-(?P<student>\w+)"
    collected = course.collect(course.folder(files), "01", "02", pattern=pattern)
    assert [(one.student, one.notebook, one.path.read_bytes()) for one in collected.submissions] == [
        ("ana", "01", A), ("ana", "02", B),
    ]  # fmt: skip
    pattern = pattern.replace("notebook", "file_id").replace("student", "student_id")
    assert course.collect(course.source, "01", "02", pattern=pattern) == collected


@pytest.mark.parametrize("pattern", ["(?P<student>", r"(\w+)", r"(?P<who>\w+)"])
def test_a_pattern_that_cannot_be_used(course, pattern):
    with pytest.raises(ValueError, match="pattern"):
        course.collect(course.folder({"a.ipynb": A}), pattern=pattern)


@pytest.mark.parametrize("name", ["../week1", "a/b", "", ".hidden", "a\\b"])
def test_names_that_are_paths(course, name):
    with pytest.raises(ValueError, match="is no name"):
        collect(None, course.course, name, [NB])
    with pytest.raises(ValueError, match="is no name"):
        collect(None, course.course, "week1", [name])


def test_a_source_that_is_not_there(course):
    with pytest.raises(FileNotFoundError, match="Give a folder"):
        course.collect(course.root / "nothing")


# ---- several files, several students -------------------------------------------------------------------------------

SEVERAL = {
    "blackboard": ({f"w_ana_attempt_2026-01-0{day}-10-11-12_{NB}.ipynb": data for day, data in ((3, B), (1, A))}, B),
    "blackboard, another name": (
        {f"w_ana_attempt_2026-01-03-10-11-12_{NB}.ipynb": A, "w_ana_attempt_2026-01-04-10-11-12_final.ipynb": B},
        B,
    ),
    "brightspace": (
        {
            f"12-34 - ana - Jan {day}, 2026 911 {half}/{NB}.ipynb": data
            for day, half, data in ((2, "AM", A), (2, "PM", B))
        },
        B,
    ),
    "canvas": ({f"ana_1_21_{NB}.ipynb": A, f"ana_1_22_{NB}-1.ipynb": B, "ana_1_23_notes.ipynb": C}, B),
    "downloads": ({f"ana/{NB}.ipynb": A, f"ana/{NB} (2).ipynb": B, f"ana/{NB} (1).ipynb": C}, B),
    "downloads past nine": ({f"ana/{NB} (10).ipynb": B, f"ana/{NB} (9).ipynb": A}, B),
    "nbgrader": ({f"ana/week1/{NB}.ipynb": B, f"ana/week1/{NB}-Copy1.ipynb": A}, B),
    "scratch": ({f"ana/{NB}.ipynb": B, "ana/scratch.ipynb": A}, B),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_the_latest_attempt_wins_and_the_others_are_named(course, kind):
    files, latest = SEVERAL[kind]
    for turn, order in enumerate(itertools.permutations(files)):
        source = course.zip(*((name, files[name]) for name in order), name=f"{turn}.zip")
        (one,) = course.collect(source).submissions
        assert one.path.read_bytes() == latest
        assert f"{len(files)} files came for {NB}" in one.problems[0]
        assert all(name in one.problems[0] for name in files)
        assert course.handed_in() == {f"{one.student}/week1/{NB}.ipynb": latest}


# two files of one student → the one that counts, and why; "" where their names tell the later one
DOUBTS = {
    "named like it": ((f"jan/{NB}.ipynb", f"jan/{NB}-second.ipynb"), f"jan/{NB}.ipynb", "exactly like the notebook"),
    "a copy of Colab's": ((f"jan/Copy of {NB}.ipynb", f"jan/{NB}.ipynb"), f"jan/{NB}.ipynb", "exactly like"),
    "almost named like it": (("jan/01 weights.ipynb", "jan/zz.ipynb"), "jan/01 weights.ipynb", "one named like the"),
    "other names": (("jan/final.ipynb", "jan/last.ipynb"), "jan/last.ipynb", "do not tell which is the latest"),
    "two folders": ((f"jan/a/{NB}.ipynb", f"jan/b/{NB}.ipynb"), f"jan/b/{NB}.ipynb", "do not tell which is"),
    "one attempt": (
        tuple(f"w_jan_attempt_2026-01-03-10-11-12_{name}.ipynb" for name in ("a", "b")),
        "w_jan_attempt_2026-01-03-10-11-12_b.ipynb",
        "do not tell which",
    ),
    "downloads": ((f"jan/{NB}.ipynb", f"jan/{NB} (1).ipynb"), f"jan/{NB} (1).ipynb", ""),
    "attempts": (
        tuple(f"w_jan_attempt_2026-01-0{day}-10-11-12_{name}.ipynb" for day, name in ((4, "a"), (3, "b"))),
        "w_jan_attempt_2026-01-04-10-11-12_a.ipynb",
        "",
    ),
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("kind", DOUBTS)
def test_a_teacher_is_told_where_names_do_not_tell_the_later_file(course, kind, packed):
    files, taken, why = DOUBTS[kind]
    (other,) = set(files) - {taken}
    for turn, order in enumerate((files, files[::-1])):
        contents = {name: name.encode() for name in (*order, f"bo/{NB}.ipynb")}
        source = course.zip(*contents.items(), name=f"{turn}.zip") if packed else course.folder(contents)
        for day, name in enumerate(() if packed else order):
            os.utime(course.source / name, (day * 86_400, day * 86_400))
        collected = course.collect(source)
        assert graded(collected)["jan"] == taken.encode()
        assert f"2 files came for {NB}: {taken} is graded" in told(collected)["jan"]
        assert why in told(collected)["jan"]
        assert bool(collected.problems) == bool(why)
        for problem in collected.problems:
            assert (problem.student, problem.file) == ("jan", taken)
            assert all(words in problem.message for words in (f"and not {other}", why, "times of files are not used"))
            assert "remove the other file" in problem.message and "--pattern '" in problem.message


def test_a_pattern_and_removing_the_other_file_choose(course):
    course.folder({f"jan/{NB}.ipynb": A, "jan/second.ipynb": B, "bo/second.ipynb": C})
    assert graded(course.collect(course.source)) == {"jan": A, "bo": C}
    (doubt,) = course.collect(course.source).problems
    pattern = doubt.message.partition("--pattern '")[2].rstrip("'")
    assert graded(course.collect(course.source, pattern=pattern)) == {"jan": B, "bo": C}
    (course.source / "jan/second.ipynb").unlink()
    assert graded(course.collect(course.source)) == {"jan": A, "bo": C}


def test_of_two_members_with_one_name_the_later_counts(course):
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zipped((f"ana/{NB}.ipynb", A), (f"ana/{NB}.ipynb", B))
    collected = course.collect(course.file(data))
    assert graded(collected) == {"ana": B}
    assert "2 files came" in told(collected)["ana"]
    assert "names do not tell" in collected.problems[0].message


def test_what_canvas_marks_as_late_is_said_in_later_runs_too(course):
    files = {
        f"dayb_LATE_7_8_{NB}.ipynb": A,
        f"liana_9_10_{NB}.ipynb": B,
        "eve_LATE_11_12_x.zip": zipped(("x.ipynb", C)),
    }
    said = {"dayb_7": LATE, "eve_11": LATE, "liana_9": ""}
    assert told(course.collect(course.zip(*files.items()))) == said
    assert told(course.collect(None)) == said
    with (course.submitted / "week1-names.csv").open(encoding="utf-8-sig") as table:
        assert [line.rstrip().rpartition(",")[2] for line in table] == ["late", "late", "late", ""]
    again = course.collect(course.zip((f"dayb_7_13_{NB}.ipynb", B), name="in time.zip"))
    assert told(again) == said | {"dayb_7": ""}


def test_an_earlier_attempt_counts_where_the_latest_is_refused(course):
    name = f"w_ana_attempt_2026-01-0{{}}-10-11-12_{NB}.ipynb"
    link = (member(name.format(2), stat.S_IFLNK | 0o777), str(course.outside / f"{NB}.ipynb"))
    source = course.zip((name.format(1), A), link)
    with confined(course):
        collected = course.collect(source)
    assert graded(collected) == {"ana": A}
    assert "is a link" in told(collected)["ana"]


def test_times_of_attempts_become_nbgraders(course):
    files = {f"w_ana_attempt_2026-01-03-10-11-12_{NB}.ipynb": A, f"w_bo_attempt_2026-02-31-10-11-12_{NB}.ipynb": B}
    course.collect(course.folder(files))
    assert (course.submitted / "ana/week1/timestamp.txt").read_text() == "2026-01-03 10:11:12"
    assert not (course.submitted / "bo/week1/timestamp.txt").exists()  # no such day


def test_nbgraders_own_times_come_along_and_no_others(course):
    files = {f"{name}/week1/{NB}.ipynb": A for name in ("ana", "bo", "cy")}
    files |= {"ana/week1/timestamp.txt": b"2026-01-02 10:00:00 UTC\n", "bo/week1/timestamp.txt": b"yesterday-ish"}
    files |= {"cy/week1/mine.zip": zipped(("timestamp.txt", "2020-01-01 00:00:00"))}
    collected = course.collect(course.folder(files))
    times = {name: data for name, data in course.files().items() if name.endswith("timestamp.txt")}
    assert times == {"ana/week1/timestamp.txt": b"2026-01-02 10:00:00 UTC"}
    assert "holds no time" in str(collected.problems[0])


def test_two_students_of_one_name_are_kept_apart_and_stay_so(course):
    one, two = (f"Ana Li_{number}_assignsubmission_file_/{NB}.ipynb" for number in (11, 12))
    late = f"Ana Li_13_assignsubmission_file_/{NB}.ipynb"
    collected = course.collect(course.zip((one, A), (two, B)))
    assert graded(collected) == {"Ana Li-11": A, "Ana Li-12": B}
    assert [problem.student for problem in collected.problems] == ["Ana Li-11", "Ana Li-12"]
    assert graded(course.collect(course.zip((two, B), name="second.zip"))) == {"Ana Li-11": A, "Ana Li-12": B}
    third = course.collect(course.zip((late, C), (one, A), name="third.zip"))
    assert graded(third) == {"Ana Li-11": A, "Ana Li-12": B, "Ana Li": C}
    table = (course.submitted / "week1-names.csv").read_text("utf-8-sig").splitlines()
    assert table[0] == "student,name,number,notebook,file,late"
    assert f"Ana Li-11,Ana Li,11,{NB},{one}," in table and f"Ana Li-12,Ana Li,12,{NB},{two}," in table


def test_a_second_student_of_the_name_that_came_first_overwrites_nothing(course):
    course.collect(course.zip((f"Ana Li_11_assignsubmission_file_/{NB}.ipynb", A)))
    collected = course.collect(course.zip((f"Ana Li_12_assignsubmission_file_/{NB}.ipynb", B), name="late.zip"))
    assert graded(collected) == {"Ana Li": A, "Ana Li-12": B}
    assert "shares the id" in str(collected.problems[0])


def test_names_that_differ_in_case_alone_are_kept_apart(course):
    source = course.zip((f"ada/{NB}.ipynb", A), (f"Ada/{NB}.ipynb", B))
    collected = course.collect(source)
    assert len({student.casefold() for student in graded(collected)}) == 2
    assert sorted(graded(collected).values()) == sorted([A, B])
    assert course.collect(source) == collected


def test_one_name_in_two_normal_forms_is_one_student(course):
    forms = [unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD")]
    assert forms[0] != forms[1]
    members = [(f"{name}/{NB}{copy}.ipynb", data) for name, copy, data in zip(forms, ("", " (1)"), (A, B), strict=True)]
    collected = course.collect(course.zip(*members, (f"ana/{NB}.ipynb", C)))
    assert graded(collected) == {forms[0]: B, "ana": C}


@pytest.mark.parametrize("mark", [True, False])
def test_names_of_zips_with_and_without_the_mark_for_utf_8(course, mark):
    data = zipped((f"Zoë Müller_1_assignsubmission_file_/{NB}.ipynb", A))
    source = course.file(data if mark else flagged(data, off=0x800))
    assert graded(course.collect(source)) == {"Zoë Müller": A}


def test_names_of_old_zips_are_in_cp437(course):
    data = zipped(("Zo__M_ller/01_weights.ipynb", A)).replace(b"Zo__M_ller", "Zoë Müller".encode("cp437"))
    assert graded(course.collect(course.file(data))) == {"Zoë Müller": A}


# ---- again and again -----------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(course):
    source = course.folder({f"ana/{NB}.ipynb": A, f"ana/{NB} (1).ipynb": B, "bo/x.docx": b"PK", f"cy/{NB}.ipynb": C})
    first = course.collect(source)
    before = course.files()
    times = {path: path.stat().st_mtime_ns for path in course.submitted.rglob("*.ipynb")}
    assert course.collect(source) == first
    assert course.files() == before
    assert {path: path.stat().st_mtime_ns for path in course.submitted.rglob("*.ipynb")} == times


def test_the_order_of_files_does_not_matter(tmp_path):
    files = {f"ana/{NB}.ipynb": A, f"ana/{NB} (1).ipynb": B, "Ana/x.ipynb": C, "..ana/x.ipynb": A, "bo/x.zip": zipped()}
    seen = []
    for turn, order in enumerate(itertools.permutations(files)):
        (tmp_path / str(turn)).mkdir()
        course = Course(tmp_path / str(turn))
        collected = course.collect(course.zip(*((name, files[name]) for name in order)))
        seen.append((told(collected), graded(collected), collected.problems, course.files()))
    assert all(each == seen[0] for each in seen)
    assert len(seen[0][0]) == 4


def test_replaced_files_stay_beside_the_new_ones(course):
    for turn, data in enumerate([A, B, C, C, A]):
        collected = course.collect(course.folder({f"ana/{NB}.ipynb": data}))
        assert graded(collected) == {"ana": data}
        assert bool(collected.problems) == (turn in (1, 2, 4))
    place = f"ana/week1/{NB}.ipynb"
    assert course.handed_in() == {place: A, f"{place}.~1~": A, f"{place}.~2~": B, f"{place}.~3~": C}
    assert graded(course.collect(None)) == {"ana": A}


def test_a_later_source_leaves_the_others_as_they_are(course):
    course.collect(course.zip((f"ana/{NB}.ipynb", A), (f"bo/{NB}.ipynb", B)))
    collected = course.collect(course.zip((f"bo/{NB}.ipynb", C), name="late.zip"))
    assert graded(collected) == {"ana": A, "bo": C}
    assert collected.names == {"bo": "bo"}
    assert (course.submitted / "week1-names.csv").read_text("utf-8-sig").count("ana/") == 1


def test_a_refused_file_leaves_the_one_before_and_says_so(course):
    course.collect(course.folder({f"ana/{NB}.ipynb": A}))
    collected = course.collect(course.zip((f"ana/{NB}.ipynb", b" " * 101)), limits=Limits(file=100))
    assert graded(collected) == {"ana": A}
    assert "is larger than 100 bytes" in told(collected)["ana"]
    assert "What is graded is the file that was handed in before." in told(collected)["ana"]


# ---- sources given by mistake --------------------------------------------------------------------------------------


def notebook_with(*numbers: str) -> bytes:
    cells = [{"cell_type": "code", "source": "", "metadata": {"exercise": each, "part": "answer"}} for each in numbers]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()


def refused(course: Course, source: Path | None, *notebooks: str, **how) -> str:
    """What is said of a source that is refused; nothing is written, and what lay in submitted/ stays."""
    before = course.files(course.root)
    folders = {path for path in course.root.rglob("*") if path.is_dir()}
    with pytest.raises(ValueError) as caught:
        course.collect(source, *notebooks, **how)
    assert course.files(course.root) == before
    assert {path for path in course.root.rglob("*") if path.is_dir()} == folders
    return str(caught.value)


NAMED = {
    "folders": "s{}/02_scoring.ipynb",
    "nbgrader": "s{}/week2/02_scoring.ipynb",
    "flat": "s{}_02_scoring.ipynb",
    "canvas": "s{0}_{0}_9_02_scoring-1.ipynb",
    "copies": "s{}/Copy of 02_scoring.ipynb",
}


@pytest.mark.parametrize("there", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("packed", ["folder", "zip", "zips"])
@pytest.mark.parametrize("layout", NAMED)
def test_the_archive_of_another_assignment_is_refused_before_anything_is_written(course, layout, packed, there):
    if there:
        course.collect(course.zip((f"s1/{NB}.ipynb", A), name="before.zip"))
    files = {NAMED[layout].format(n): B for n in range(1, 18)} | {"s3/notes.txt": b"", "s4/scratch.ipynb": A}
    if packed == "zips":
        files = {f"s{n}.zip": zipped(("02_scoring.ipynb", B)) for n in range(1, 18)}
    said = refused(course, course.folder(files) if packed == "folder" else course.zip(*files.items()))
    assert f"No file is a notebook of week1 ({NB}.ipynb)" in said
    assert "Found of week2: " in said and "and 14 more" in said
    assert said.endswith("Give week1's submissions, or grade week2 from this source: attnlab grade week2.")


def test_another_assignment_is_known_by_its_exercises_too(course):
    for name, numbers in {"week1": ("1.1", "1.2"), "week2": ("2.1", "2.10", "2.2")}.items():
        (place,) = (course.course / "source" / name).glob("*.ipynb")
        place.write_bytes(notebook_with(*numbers))
    wrong = {"ana.ipynb": notebook_with("2.1"), "bo/homework.ipynb": notebook_with("2.10", "2.2")}
    source = course.folder(wrong | {f"cy/{NB}.ipynb": notebook_with("2.1"), "dee/empty.ipynb": A})
    said = refused(course, source)
    assert f"Found of week2, with exercises 2.1, 2.2, 2.10: ana.ipynb, bo/homework.ipynb, cy/{NB}.ipynb." in said
    course.folder({"eve/x.ipynb": notebook_with("1.2", "2.1")})  # one that is of week1, and the class is graded
    assert set(graded(course.collect(source))) == {"ana", "bo", "cy", "dee", "eve"}


def test_exercises_of_no_assignment_here(course):
    (course.course / f"source/week1/{NB}.ipynb").write_bytes(notebook_with("1.1"))
    said = refused(course, course.folder({"ana/x.ipynb": notebook_with("7.3")}))
    assert "Found of no assignment of this course directory, with exercises 7.3: ana/x.ipynb." in said


def test_a_single_other_notebook_among_a_class_stops_nobody(course):
    files = {"ana/02_scoring.ipynb": A, "bo/Copy of 02_scoring.ipynb": A, f"cy/{NB}.ipynb": C, "dee/x.docx": b"PK"}
    collected = course.collect(course.folder(files))
    assert graded(collected) == {"ana": None, "bo": None, "cy": C, "dee": None}
    assert all("another assignment" in told(collected)[name] for name in ("ana", "bo"))


def test_a_source_without_any_notebook(course):
    said = refused(course, course.folder({"ana/hw.docx": b"PK", "bo/hw.zip": zipped(("hw.pdf", b"%PDF"))}))
    assert "Found: ana/hw.docx, bo/hw.zip → hw.pdf." in said and f"have to be called {NB}.ipynb" in said
    (course.source / "ana/hw.docx").rename(course.source / "ana/hw.ipynb")
    assert f"have to be called {NB}.ipynb or extra.ipynb" in refused(course, course.source, NB, "extra")
    assert graded(course.collect(course.source)) == {"ana": b"PK", "bo": None}


def test_what_cannot_be_read_may_have_been_a_notebook(course):
    collected = course.collect(course.zip(("ana/hw.zip", b"Rar!"), ("bo/hw.docx", b"PK")))
    assert graded(collected) == {"ana": None, "bo": None}


def test_the_look_ahead_counts_for_nothing(course):
    inner = zipped(("hw.ipynb", bytes(range(250)) * 8))
    source = course.zip(*((f"s{n}.zip", inner) for n in range(3)))
    limits = Limits(total=3 * (2_000 + len(inner)))
    assert all(one.path for one in course.collect(source, limits=limits).submissions)


FILES = {"nbgrader_config.py": b"", "gradebook.db": b"", f"release/week1/{NB}.ipynb": A, f"colab/week1/{NB}.ipynb": A}
FILES |= {"reports/week1.html": b"", "feedback/ana/week1/x.html": b"", f"autograded/ana/week1/{NB}.ipynb": A}
FILES |= {"judged/ana/week1/x.ipynb": A}


def made_course(course: Course) -> Course:
    for name, data in FILES.items():
        place = course.course / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return course


@pytest.mark.parametrize("part", [".", "..", "submitted", "submitted/ana", f"submitted/ana/week1/{NB}.ipynb"])
def test_the_course_directory_as_source(course, part, monkeypatch):
    made_course(course)
    monkeypatch.chdir(course.course)
    if not part.startswith("submitted"):
        said = refused(course, Path(part))
        assert "there is nothing to grade" in said if part == "." else "holds this course directory itself" in said
    place = course.submitted / f"ana/week1/{NB}.ipynb"
    place.parent.mkdir(parents=True)
    place.write_bytes(B)
    if part in {".", "submitted"}:
        assert graded(course.collect(Path(part))) == {"ana": B}
        assert "Leave the pattern out" in refused(course, Path(part), pattern="(?P<student>.+)")
    else:
        assert "attnlab grade week1" in refused(course, Path(part))


@pytest.mark.parametrize("below", ["", "week1", f"week1/{NB}.ipynb"])
@pytest.mark.parametrize("step", ["source", "release", "colab"])
def test_what_was_handed_out_as_source(course, step, below):
    source = made_course(course).course / step / below
    for how in ({}, {"pattern": r"(?P<student>\w+)\.ipynb"}):
        said = refused(course, source, **how)
        assert f"{source} is a part of the course directory" in said and said.endswith("attnlab grade week1")


@pytest.mark.parametrize("step", ["autograded", "feedback", "judged", "reports"])
def test_what_was_graded_as_source(course, step):
    made_course(course)
    (course.root / "link").symlink_to(course.course / step)
    for source in (course.course / step, course.root / "link"):
        assert "is a part of the course directory" in refused(course, source)


def test_a_download_that_lies_in_the_course_directory(course):
    data = zipped((f"ana/{NB}.ipynb", A), (f"bo/{NB}.ipynb", B))
    for place in ("week1.zip", "downloads/week1.zip", "submitted/week1.zip"):
        (course.course / place).parent.mkdir(exist_ok=True)
        (course.course / place).write_bytes(data)
        assert graded(course.collect(course.course / place)) == {"ana": A, "bo": B}


@pytest.mark.parametrize("around", ["", "course/"])
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_whole_course_directory_from_elsewhere(course, packed, around):
    files = {f"{around}{name}": data for name, data in (FILES | {f"source/week1/{NB}.ipynb": A}).items()}
    source = course.zip(*files.items(), name="c.zip") if packed else course.folder(files)
    for how in ({}, {"pattern": r"(?P<student>\w+)\.ipynb"} if not around else {}):
        assert "is a course directory (it holds autograded, colab, feedback" in refused(course, source, **how)
    files[f"{around}submitted/bo/week1/{NB}.ipynb"] = B
    source = course.zip(*files.items(), name="c.zip") if packed else course.folder(files)
    assert graded(course.collect(source)) == {"bo": B}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("name", ["gradebook.db", "nbgrader_config.py"])
@pytest.mark.parametrize("students", ["{}_01_weights.ipynb", "{}/01_weights.ipynb", "{}/week1/01_weights.ipynb"])
def test_a_file_called_like_one_of_a_course_directory_stops_nobody(course, students, name, packed):
    files = {students.format("ana"): A, students.format("bo"): B, name: b"x"}
    collected = course.collect(course.zip(*files.items()) if packed else course.folder(files))
    assert graded(collected) == {"ana": A, "bo": B}
    assert [(problem.student, problem.file) for problem in collected.problems] == [(None, name)]
    assert "is no notebook" in collected.problems[0].message


def test_a_notebook_beside_the_submissions_of_a_course_directory_is_named(course):
    files = FILES | {f"submitted/bo/week1/{NB}.ipynb": B, f"bob/{NB}.ipynb": A, "w.zip": b"", "source/header.ipynb": A}
    collected = course.collect(course.zip(*(files | {f"feedback/{NB}.ipynb": C}).items(), name="c.zip"))
    assert graded(collected) == {"bo": B}
    assert [problem.file for problem in collected.problems] == [f"bob/{NB}.ipynb", f"feedback/{NB}.ipynb", "w.zip"]
    assert all("lies in a course directory, but not in its submitted/" in each.message for each in collected.problems)


def test_a_folder_called_like_another_assignment(course):
    """Left out without a word is only what is another assignment's by more than its folder."""
    files = {
        f"ana/week1/{NB}.ipynb": A,
        "ana/week2/scratch.ipynb": C,  # ana has a folder for each
        "bo/week2/02_scoring.ipynb": C,
        "bo/week2/data.zip": C,
        f"cy/week2/{NB}.ipynb": B,  # named like the one that is graded
        "dee/week2/homework.ipynb": C,
        "dee/week2/notes.txt": C,
    }
    collected = course.collect(course.folder(files))
    assert graded(collected) == {"ana": A, "cy": B}
    (problem,) = collected.problems
    assert (problem.student, problem.file) == (None, "dee/week2/homework.ipynb")
    assert "is not graded. If it is for week1, rename the folder" in problem.message


NOBODY = {
    "a file": {"week1.ipynb": A},
    "its name": {f"{NB}.ipynb": A},
    "a folder": {f"hw/{NB}.ipynb": A, "hw/readme.txt": b""},
    "copies": {f"{NB} (1).ipynb": A, f"{NB} (2).ipynb": A},
}


@pytest.mark.parametrize("kind", NOBODY)
def test_files_of_nobody_are_refused_with_what_to_do(course, kind):
    course.folder(NOBODY[kind])
    sources = [course.source / next(iter(NOBODY[kind]))] if "file" in kind or "name" in kind else []
    for source in (*sources, course.source / "hw" if kind == "a folder" else course.source):
        said = refused(course, source)
        assert "could be given to a student" in said and "does not say whose it is" in said
        assert f"STUDENT.ipynb, or STUDENT/{NB}.ipynb" in said
    pattern = said.partition("--pattern '")[2].partition("'")[0]
    source = course.zip(("hw-ada.ipynb", A), ("hw-bo.ipynb", B), name="other.zip")
    assert graded(course.collect(source, pattern=pattern)) == {"ada": A, "bo": B}  # as the words promise


def test_another_assignments_notebook_of_nobody(course):
    assert "is the notebook of another assignment" in refused(course, course.file(A, "02_scoring.ipynb"))


def test_nothing_at_all(course):
    course.source.mkdir()
    assert "holds no submission of week1" in refused(course, course.source)
    assert "submitted/ is empty, so there is nothing to grade" in refused(course, None)
    course.submitted.mkdir()
    (course.submitted / f"ana_{NB}.ipynb").write_bytes(A)  # unpacked there by mistake
    assert "holds nothing at submitted/STUDENT/week1" in refused(course, None)


def test_files_of_nobody_leave_what_lay_there_and_say_so(course):
    course.collect(course.zip((f"ana/{NB}.ipynb", A)))
    collected = course.collect(course.file(B, f"{NB}.ipynb"))
    assert graded(collected) == {"ana": A}
    assert [problem.message.split(",")[0] for problem in collected.problems] == [
        "does not say whose it is. Put it into a folder with the student's name",
        "gives no student's file",
    ]


# ---- what is refused -----------------------------------------------------------------------------------------------

LINK, FIFO, DEVICE = stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o644
SIZE = 21_000_000


def bomb(top: str) -> bytes:
    return zipped((f"{top}/{NB}.ipynb", b"0" * SIZE))


# what may stand in every zip, below a folder → what is said
MEMBERS = {
    "link": (lambda top: zipped((member(f"{top}/{NB}.ipynb", LINK), "/etc/passwd")), "is a link"),
    "link to a neighbour": (lambda top: zipped((member(f"{top}/{NB}.ipynb", LINK), f"../bo/{NB}.ipynb")), "is a link"),
    "pipe": (lambda top: zipped((member(f"{top}/{NB}.ipynb", FIFO), "")), "a pipe or a device"),
    "device": (lambda top: zipped((member(f"{top}/{NB}.ipynb", DEVICE), "")), "a pipe or a device"),
    "encrypted": (lambda top: flagged(zipped((f"{top}/{NB}.ipynb", A)), on=1), "is encrypted"),
    "bomb": (bomb, "is larger than 20 MB"),
    "lying bomb": (lambda top: bomb(top).replace(struct.pack("<L", SIZE), struct.pack("<L", 100)), "is damaged"),
    "damaged": (lambda top: zipped((f"{top}/{NB}.ipynb", A)).replace(b"PK\3\4", b"PK\3\5"), "is damaged"),
    "null in the name": (
        lambda top: zipped((f"{top}/{NB}_.ipynb", A)).replace(b"_.ipynb", b"\0.ipynb"),
        "null character",
    ),
    "another method": (
        lambda top: zipped((f"{top}/{NB}.ipynb", A)).replace(b"\x08\0", b"\x63\0"),
        "an unusual method (number 99)",
    ),
    "another assignment": (lambda top: zipped((f"{top}/02_scoring.ipynb", A)), "the notebook of another assignment"),
    "no notebook": (lambda top: zipped((f"{top}/hw.docx", b"PK"), (f"{top}/hw.pdf", b"%PDF")), "are no notebooks"),
    "traversal": (lambda top: zipped((f"{top}/../../../outside/{NB}.ipynb", A)), "leads out of the archive"),
    "backslashes": (lambda top: zipped((f"{top}\\..\\..\\{NB}.ipynb", A)), "leads out of the archive"),
}

# what a student may pack → what is said
PACKED = MEMBERS | {
    "absolute": (lambda _: zipped((f"/tmp/{NB}.ipynb", A)), "absolute path"),
    "drive": (lambda _: zipped((f"C:\\{NB}.ipynb", A)), "absolute path"),
    "share": (lambda _: zipped((f"\\\\host\\share\\{NB}.ipynb", A)), "absolute path"),
    "traversal from the start": (lambda _: zipped((f"../../ana/week1/{NB}.ipynb", A)), "leads out of the archive"),
    "no zip": (lambda _: b"Rar!\x1a\x07\x00", "is no zip that can be opened"),
    "cut off": (lambda _: zipped((f"{NB}.ipynb", os.urandom(999)))[:500], "is no zip that can be opened"),
    "empty": (lambda _: zipped(), "is an empty zip"),
    "nothing": (lambda _: b"", "is no zip that can be opened"),
    "nested": (lambda _: zipped(("again.zip", zipped((f"{NB}.ipynb", A)))), "a zip inside of a zip"),
    "bad name": (lambda _: flagged(zipped(("e.ipynb", A)).replace(b"e.ipynb", b"\xe9.ipynb"), on=0x800), "no UTF-8"),
    "long name": (lambda _: zipped((f"{'a/' * 999}{NB}.ipynb", A)), "more than 1000 characters"),
    "many files": (
        lambda _: zipped(*((f"{n}.txt", "") for n in range(2_002)), (f"{NB}.ipynb", A)),
        "more than 2000 files",
    ),
    "large": (lambda _: os.urandom(20_000_001), "is larger than 20 MB"),
}


@pytest.mark.parametrize("around", [f"{MOODLE}/hw.zip", "Ana Li.zip", "Ana Li/hw.zip"])
@pytest.mark.parametrize("kind", PACKED)
def test_what_a_student_packs_reaches_nothing_and_stops_nobody(course, kind, around):
    data, says = PACKED[kind]
    source = course.zip((around, data(".")), (f"{MORE}/{NB}.ipynb", B), (f"Bo/{NB}.ipynb", C))
    with confined(course):
        collected = course.collect(source)
    assert graded(collected) == {"Ana Li": None, "Bo": C, "Zoë Müller": B}
    assert says in told(collected)["Ana Li"]
    assert {problem.student for problem in collected.problems} == {"Ana Li"}
    assert any(says in problem.message for problem in collected.problems)


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_same_in_the_zip_of_the_class(course, kind):
    data, says = MEMBERS[kind]
    source = course.file(data("ana"))
    if kind in {"another assignment", "no notebook"}:  # what is nobody's fault, but that of who gives the source
        with confined(course), pytest.raises(ValueError, match="No file is a notebook of week1"):
            course.collect(source)
        return
    with confined(course):
        collected = course.collect(source)
    assert graded(collected) == {"ana": None}
    assert says in told(collected)["ana"]


def test_a_whole_zip_with_members_of_every_kind(course):
    """The refused ones have a student where their path tells one, and all others are graded."""
    out, link, fifo = f"ana/../../outside/{NB}.ipynb", member(f"bo/{NB}.ipynb", LINK), member(f"cy/{NB}.ipynb", FIFO)
    source = course.zip((out, B), (link, "/etc/passwd"), (fifo, ""), (f"dee/{NB}.ipynb", A), (f"/tmp/{NB}.ipynb", C))
    with confined(course):
        collected = course.collect(source)
    assert graded(collected) == {"ana": None, "bo": None, "cy": None, "dee": A}
    assert [(problem.student, problem.file) for problem in collected.problems] == [
        (None, f"/tmp/{NB}.ipynb"), ("ana", out), ("bo", f"bo/{NB}.ipynb"), ("cy", f"cy/{NB}.ipynb"),
    ]  # fmt: skip
    assert (course.outside / f"{NB}.ipynb").read_bytes() == SECRET


@pytest.mark.parametrize("content", [b"", b"Rar!\x1a\x07\x00", zipped((f"ana/{NB}.ipynb", A))[:-30]])
def test_a_source_that_is_no_zip(course, content):
    with pytest.raises(ValueError, match=r"week1\.zip is no zip that can be opened .* Pack it again"):
        course.collect(course.file(content))
    assert not course.submitted.exists()


def test_links_pipes_and_large_files_in_a_folder(course):
    secret = course.outside / f"{NB}.ipynb"
    course.folder({f"ana/{NB}.ipynb": A, f"bo/{NB}.ipynb": b"x" * 101, "cy/x": b""})
    (course.source / f"cy/{NB}.ipynb").symlink_to(secret)
    (course.source / "dee").symlink_to(course.outside)
    (course.source / f"eve_{NB}.ipynb").symlink_to("/etc/passwd")
    (course.source / "fay").mkdir()
    os.mkfifo(course.source / f"fay/{NB}.ipynb")
    (course.source / "gus").mkdir()
    (course.source / f"gus/{NB}.ipynb").symlink_to("/dev/zero")
    (course.source / "hal").mkdir()
    (course.source / "hal/hw.zip").symlink_to(course.zip((f"{NB}.ipynb", B), name="outside/hw.zip"))
    with confined(course):
        collected = course.collect(course.source, limits=Limits(file=100))
    assert graded(collected) == {"ana": A} | dict.fromkeys(["bo", "cy", "dee", "eve", "fay", "gus", "hal"])
    said = told(collected)
    assert all("is a link" in said[name] for name in ("cy", "dee", "eve", "gus", "hal"))
    assert "a pipe or a device" in said["fay"] and "larger than 100 bytes" in said["bo"]


def test_links_in_the_course_are_not_followed(course):
    course.submitted.mkdir()
    (course.submitted / "ana").symlink_to(course.outside)
    (course.submitted / "bo/week1").mkdir(parents=True)
    (course.submitted / f"bo/week1/{NB}.ipynb").symlink_to(course.outside / f"{NB}.ipynb")
    (course.submitted / "cy").mkdir()
    (course.submitted / "cy/week1").symlink_to(course.outside)
    (course.submitted / "week1-names.csv").symlink_to(course.outside / f"{NB}.ipynb")
    source = course.folder({f"{name}/{NB}.ipynb": A for name in ("ana", "bo", "cy", "dee")})
    for origin in (None, source):
        collected = course.collect(origin)
        assert {one.student: one.path for one in collected.submissions if one.path} == (
            {"dee": course.submitted / f"dee/week1/{NB}.ipynb"} if origin else {}
        )
        assert {"bo", "cy"} <= {one.student for one in collected.submissions}
        assert {"bo", "cy"} <= {problem.student for problem in collected.problems}
    assert course.files(course.outside) == {f"{NB}.ipynb": SECRET}


def test_what_lies_in_the_place_of_a_file_or_folder_is_left_there(course):
    (course.submitted / f"ana/week1/{NB}.ipynb").mkdir(parents=True)
    (course.submitted / "bo").mkdir()
    (course.submitted / "bo/week1").write_bytes(C)
    (course.submitted / "cy/week1").mkdir(parents=True)
    (course.submitted / f"cy/week1/{NB}.ipynb").write_bytes(b"x" * 1000)
    (course.submitted / f"cy/week1/{NB}.ipynb.~1~").symlink_to(course.outside / f"{NB}.ipynb")
    collected = course.collect(course.zip(*((f"{name}/{NB}.ipynb", A) for name in ("ana", "bo", "cy"))))
    assert course.files(course.outside) == {f"{NB}.ipynb": SECRET}
    assert graded(collected) == {"ana": None, "bo": None, "cy": A}
    assert "no ordinary file" in told(collected)["ana"] and "cannot be made in submitted" in told(collected)["bo"]
    assert (course.submitted / "bo/week1").read_bytes() == C
    assert (course.submitted / f"cy/week1/{NB}.ipynb.~2~").read_bytes() == b"x" * 1000


def test_a_pipe_as_source_and_a_table_that_is_none(course):
    os.mkfifo(course.root / "week1.zip")
    with pytest.raises(ValueError, match="is no ordinary file"):
        course.collect(course.root / "week1.zip")
    course.submitted.mkdir(exist_ok=True)
    (course.submitted / "week1-names.csv").write_bytes(b"\xff\xfe\0,\n")
    assert graded(course.collect(course.folder({f"ana/{NB}.ipynb": A}))) == {"ana": A}
    assert (course.submitted / "week1-names.csv").read_text("utf-8-sig").startswith("student,name")


def test_a_disk_without_hard_links_keeps_the_earlier_file_too(course, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    for data in (A, B):
        course.collect(course.folder({f"ana/{NB}.ipynb": data}))
    assert course.handed_in() == {f"ana/week1/{NB}.ipynb": B, f"ana/week1/{NB}.ipynb.~1~": A}


def test_a_full_disk_is_said_and_leaves_the_file_before(course, monkeypatch):
    course.collect(course.folder({f"ana/{NB}.ipynb": A}))

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space"):  # of the table of names
            course.collect(course.folder({f"ana/{NB}.ipynb": B}))
    assert course.handed_in()[f"ana/week1/{NB}.ipynb"] == A
    assert graded(course.collect(course.source)) == {"ana": B}


def test_deep_folders_and_many_files(course):
    course.folder({f"ana/{'x/' * 30}{NB}.ipynb": A, f"bo/{NB}.ipynb": B})
    collected = course.collect(course.source)
    assert graded(collected) == {"ana": None, "bo": B}
    assert "deeper than 12 folders" in told(collected)["ana"]
    many = course.zip(*((f"s{n}/{NB}.ipynb", A) for n in range(20)), name="many.zip")
    collected = course.collect(many, limits=Limits(members=5))
    assert [problem.message.split(";")[0] for problem in collected.problems] == ["holds more than 5 files"]


def test_all_that_is_read_is_counted(course):
    source = course.zip(*((f"s{n}/{NB}.ipynb", bytes([n]) * 1000) for n in range(5)))
    collected = course.collect(source, limits=Limits(total=3_000))
    assert [bool(one.path) for one in collected.submissions] == [True, True, True, False, False]
    assert "the most that is read at once" in told(collected)["s4"]


def named_again(times: int, name: str, content: bytes) -> bytes:
    """A zip whose directory names its one member so often, each time with a wrong checksum."""
    whole = zipped((name, content), compresslevel=9)
    directory, end = whole.index(b"PK\1\2"), whole.index(b"PK\5\6")
    local, entry = bytearray(whole[:directory]), bytearray(whole[directory:end])
    for header, place in ((local, 14), (entry, 16)):
        struct.pack_into("<I", header, place, 1)
    sizes = struct.pack("<HHHHIIH", 0, 0, times, times, times * len(entry), len(local), 0)
    return bytes(local + entry * times) + b"PK\5\6" + sizes


@pytest.mark.parametrize("name", [f"{NB}.ipynb", "homework.ipynb"])  # the second is read before, to tell what it is
def test_what_one_student_packs_uses_up_only_that_students_share(course, name, monkeypatch):
    (course.course / f"source/week1/{NB}.ipynb").write_bytes(notebook_with("1.1"))
    unpacked, read = [], zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda *a: (unpacked.append(len(data := read(*a))), data)[1])
    packed = named_again(450, name, bytes(300_000))
    others = {f"{who}/{NB}.ipynb": data for who, data in {"bo": A, "cy": B, "dee": C}.items()}
    source = course.zip(("ana/hw.zip", packed), *others.items())
    limits = Limits(file=400_000, sender=1_000_000, total=500_000)
    collected = course.collect(source, limits=limits)
    assert graded(collected) == {"ana": None, "bo": A, "cy": B, "dee": C}
    assert 600_000 < sum(unpacked) < 2 * limits.sender + 2**17  # twice: when the source is looked at, and when taken
    said = [problem.message for problem in collected.problems if problem.student == "ana"]
    assert len(said) == 3 and {problem.student for problem in collected.problems} == {"ana"}
    for words in ("is damaged", "of one student's files, packed and unpacked, 1 MB are read", "10 could not be taken"):
        assert any(words in each for each in said)


def test_the_latest_attempt_is_read_before_the_share_is_used_up(course):
    attempts = [(f"hw_ana_attempt_2026-01-{day:02}-10-00-00_hw.zip", day) for day in range(1, 10)]
    contents = {day: bytes([day]) + os.urandom(900) for _, day in attempts}
    source = course.zip(*((name, zipped((f"{NB}.ipynb", contents[day]))) for name, day in attempts))
    collected = course.collect(source, limits=Limits(sender=8_000))
    assert graded(collected) == {"ana": contents[9]}
    assert any("of one student's files" in problem.message for problem in collected.problems)


def test_what_is_refused_does_not_count_for_the_class(course):
    broken = zipped((f"{NB}.ipynb", bytes(2_000))).replace(b"PK\3\4", b"PK\3\5")
    source = course.zip(("ana.zip", broken), (f"bo/{NB}.ipynb", b"x" * 1_500), (f"cy/{NB}.ipynb", b"x" * 1_500))
    collected = course.collect(source, limits=Limits(total=3_000))
    assert [bool(one.path) for one in collected.submissions] == [False, True, True]


def test_a_stream_that_unpacks_to_nothing_counts_as_long_as_it_is(course):
    empty, data = b"\0\0\0\xff\xff" * 10_000 + b"\1\0\0\xff\xff", io.BytesIO()  # blocks without content
    with zipfile.ZipFile(data, "w") as archive:  # stored, and then called packed
        archive.writestr(f"{NB}.ipynb", empty)
    packed = bytearray(data.getvalue())
    for mark, method, sizes in ((b"PK\3\4", 8, 14), (b"PK\1\2", 10, 16)):
        at = packed.index(mark)
        struct.pack_into("<H", packed, at + method, zipfile.ZIP_DEFLATED)
        struct.pack_into("<III", packed, at + sizes, 0, len(empty), 0)
    source = course.zip(("ana/hw.zip", bytes(packed)), (f"bo/{NB}.ipynb", B))
    assert graded(course.collect(source)) == {"ana": b"", "bo": B}
    course = Course(course.root / "again")
    collected = course.collect(source, limits=Limits(sender=90_000))
    assert graded(collected) == {"ana": None, "bo": B}
    assert "of one student's files" in told(collected)["ana"]


def test_odd_names_come_out_on_one_line_and_as_no_formula(course):
    names = ["=cmd|' /C calc'!A0", "a\nb\x1b[31m", "\u202eabc", "[x]*?", "'quoted"]
    collected = course.collect(course.zip(*((f"{name}/{NB}.ipynb", A) for name in names)))
    assert len(collected.submissions) == len(names)
    table = (course.submitted / "week1-names.csv").read_text("utf-8-sig")
    assert len(table.splitlines()) == len(names) + 1
    assert "\x1b" not in table and "\u202e" not in table and ",=" not in table
    assert course.collect(course.root / "week1.zip") == collected  # read back, they are the same students


def test_a_folder_name_that_is_no_utf_8(course):
    (course.submitted / os.fsdecode(b"an\xe9") / "week1").mkdir(parents=True)
    course.source.mkdir()
    os.mkdir(course.source / os.fsdecode(b"bo\xe9"))
    (course.source / os.fsdecode(b"bo\xe9") / f"{NB}.ipynb").write_bytes(A)
    collected = course.collect(course.source)
    assert graded(collected) == {"bo": A}
    assert "Rename the folder" in str(collected.problems[0])


# ---- ids -----------------------------------------------------------------------------------------------------------


@given(
    st.text() | st.sampled_from(["..", ".", "", "CON", "nul.txt", "a/b", "~", "-rf", "a" * 300, "李" * 300, "𐐀" * 300])
)
@settings(max_examples=300, deadline=None)
def test_every_name_gives_an_id_that_is_a_safe_folder(name):
    given_id = student_id(name)
    assert given_id and len(given_id) <= 65 and len(given_id.encode()) <= 201
    assert given_id == unicodedata.normalize("NFC", given_id) and given_id.isprintable()
    assert not set(given_id) & set('/\\:*?"<>|[]{},\0\n')
    assert given_id[0].isalnum() and given_id[-1] not in " ."
    assert student_id(given_id) == given_id
    assert (Path("/x") / given_id).parent == Path("/x")


@given(
    st.lists(
        st.builds(Sender, st.sampled_from(["a", "A", ".a", "a-1", "A-2", "b", "Å"]), st.sampled_from(["", "1", "2"])),
        max_size=9,
    )
)
@settings(max_examples=200, deadline=None)
def test_no_two_students_share_an_id_in_any_order(senders):
    ids = ids_of(senders)
    assert ids == ids_of(list(reversed(senders)))
    assert len({given_id.casefold() for given_id in ids.values()}) == len(set(senders))
    assert ids_of(senders, ids) == ids


# ---- nobody vanishes -----------------------------------------------------------------------------------------------

ELSEWHERE = {"week2": {"02_scoring"}, "week3": {"03_heads", NB}}
TOPS = ["ana", "bo", "week1", "week2", MOODLE, *sorted(STEPS), *sorted(COURSE), "No 18"]
FOLDERS = ["ana", "week1", "week2", "week3", "homework", "submitted", "source"]
WORKS = [f"{NB}.ipynb", "02_scoring.ipynb", "03_heads-Copy1.ipynb", "hw.ipynb", "week1.ipynb", "hw.zip", "a.txt"]
WORKS += ["gradebook.db", "header.ipynb", f"ana_1_2_{NB}.ipynb", "index.html", "week1-names.csv", "ana.ipynb"]
PATHS = st.builds(
    lambda top, folders, file: tuple(filter(None, (top, *folders, file))),
    st.sampled_from(["", *TOPS]),
    st.lists(st.sampled_from(FOLDERS), max_size=3),
    st.sampled_from(WORKS),
)
TREES = st.lists(PATHS, min_size=1, max_size=8, unique=True)
LAYOUT = Layout("week1", [NB], ["02_scoring", "03_heads"], "download", None, ELSEWHERE)


def files_at(paths: Iterable[tuple[str, ...]]) -> list[Found]:
    return [Found(path, "/".join(path), lambda: A) for path in paths]


def of_another_assignment(path: tuple[str, ...]) -> bool:
    """Whether a file lies in a folder of another assignment, and is not named like what is graded alone."""
    return "week3" in path[1:-1] or ("week2" in path[1:-1] and NB not in path[-1])


def of_the_course(path: tuple[str, ...]) -> bool:
    """Whether a file is one that a course directory has of its own."""
    return any(part in STEPS - {"submitted"} for part in path[:-2]) or path[-1] == "header.ipynb"


@given(TREES)
@settings(max_examples=500, deadline=None)
def test_no_notebook_is_left_out_without_a_word(paths):
    works = [path for path in paths if path[-1].endswith((".ipynb", ".zip"))]
    try:
        claims, problems = LAYOUT.claims(files_at(paths))
    except ValueError as error:
        assert "is a course directory" in str(error)
        assert all(of_the_course(path) for path in works)
        return
    named = {claim.found.label for claim in claims} | {problem.file for problem in problems}
    lost = [path for path in works if "/".join(path) not in named]
    for path in lost:
        ordered = any("week1" in other[1:-1] for other in paths)
        submitted = any("submitted" in other[:-1] for other in works)
        assert (ordered and of_another_assignment(path)) or (submitted and of_the_course(path)), path


MINE = st.lists(st.builds(lambda folders, file: (*folders, file), st.lists(st.sampled_from(FOLDERS), max_size=3),
                          st.sampled_from(WORKS)), max_size=5)  # fmt: skip


@given(MINE, st.lists(st.sampled_from(FOLDERS[4:]), max_size=2), st.sampled_from(WORKS[:4]))
@settings(max_examples=300, deadline=None)
def test_what_one_student_hands_in_changes_nothing_for_another(mine, folders, file):
    others = [("ana", f"{NB}.ipynb"), ("bo", *folders, file)]
    before, after = (
        [(claim.found.label, claim.said, claim.exact) for claim in LAYOUT.claims(files_at(paths))[0]]
        for paths in (others, [*others, *(("mallory", *path) for path in mine)])
    )
    assert [each for each in after if each[1].sender != Sender("mallory")] == before
    assert len(before) == 2


PIECES = st.sampled_from(
    ["..", ".", "", "/", "\\", "C:", "ana", f"{NB}.ipynb", "x.zip", "\0", MOODLE, "submitted", "week1"]
)
NAMES = st.lists(PIECES | st.text(max_size=5), min_size=1, max_size=6).map("/".join)


@given(st.lists(NAMES, min_size=1, max_size=4), st.booleans())
@settings(max_examples=120, deadline=None)
def test_no_name_of_a_member_leads_outside(names, packed):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two members of one name
        for name in names:
            info = zipfile.ZipInfo()
            info.filename = name.encode("utf-8", "replace").decode()
            archive.writestr(info, A)
    with tempfile.TemporaryDirectory() as folder:
        course = Course(Path(folder).resolve())
        with zipfile.ZipFile(file, "a") as archive:  # without anybody's notebook, the source would be refused
            archive.writestr(f"zoe/{NB}.ipynb", A)
        source = course.file(zipped(("bo.zip", file.getvalue())) if packed else file.getvalue())
        with confined(course):
            collected = course.collect(source)
        for path in course.files():
            student, *place = Path(path).parts
            assert path == "week1-names.csv" or (student in told(collected) and place == ["week1", f"{NB}.ipynb"])
        assert not packed or "bo" in told(collected)
