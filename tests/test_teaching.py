"""The teaching guide: its tables and plans say what registry, chapters and map say, and its text names what exists."""

import json
import re
import shutil
import subprocess
import sys
from urllib.parse import urldefrag

import pytest
import yaml
from book_fixtures import ROOT
from bs4 import BeautifulSoup

sys.path.append(str(ROOT / "book/_ext"))

import course
import course_map
import teaching
import teaching_data

GUIDE = (ROOT / "book/teaching_guide.md").read_text("utf8")
ASKED = teaching_data.registry()
TAUGHT = teaching_data.teaching(ROOT)
SUBCOMMANDS = {"handout", "grade", "report", "protections"}


@pytest.fixture(scope="module")
def known():
    return course_map.read(ROOT)


@pytest.fixture(scope="module")
def page(built_book):
    return BeautifulSoup((built_book / "book/teaching_guide.html").read_text("utf8"), "html.parser")


@pytest.fixture
def sources(tmp_path):
    """What the guide is made of, to be changed."""
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("solutions"))
    for name in ("_toc.yml", "book/teaching.yml", "book/course_map.yml", "book/claims.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def told(sources, change):
    """The problems after `change` of teaching.yml."""
    path = sources / "book/teaching.yml"
    data = yaml.safe_load(path.read_text("utf8"))
    change(data)
    path.write_text(yaml.safe_dump(data, allow_unicode=True), "utf8")
    return teaching_data.problems(sources)


def words(element):
    return " ".join(element.get_text(" ").split())


# ---- what fits together, and what is noticed


def test_nothing_is_wrong_with_the_guide():
    assert teaching_data.problems(ROOT) == []


def week(data, number):
    return data["syllabi"]["half-term"][number - 1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["exercises"].pop("2.3"), "exercise 2.3 has no row"),
        (lambda d: d["exercises"].update({"7.1": {"minutes": 1, "teaches": "…"}}), "there is no exercise 7.1"),
        (lambda d: d["syllabi"]["week"][2]["exercises"].append("1.9"), "there is no exercise 1.9"),
        (lambda d: week(d, 1)["sections"].append("1 / Doors"), "there is no section “1 / Doors”"),
        (lambda d: d["exercises"]["1.1"].update(minutes=6), "exercises of chapter 1: 91 minutes, it states 90"),
        (lambda d: d["lessons"].pop("1 / The mixture"), "“1 / The mixture” is presented and has no lesson"),
        (lambda d: d["lessons"]["1 / Any number of pairs"].update(ask="?"), "has nothing to predict"),
        (lambda d: d["lessons"]["1 / Move the query"].pop("drive"), "shows ['mixture'], and its lesson says otherwise"),
        (lambda d: d["lessons"]["1 / The mixture"].update(drive="…"), "shows [], and its lesson says otherwise"),
        (lambda d: d["syllabi"]["lecture"][0].update(lasts=80), "lecture: The lecture takes 86 minutes, not 80"),
        (lambda d: d["syllabi"]["week"][2].update(lasts=50), "week: Lab takes 60 minutes, not 50"),
        (lambda d: d["lessons"]["2 / Saturation"].pop("skip"), "week: “2 / Saturation” builds on"),
        (lambda d: week(d, 4)["read"].remove("4 / Summary"), "half-term: “4 / Summary” has 0 places"),
        (lambda d: week(d, 4)["lab"].append("4.1"), "half-term: “4.1” has 2 places"),
    ],
)
def test_what_does_not_fit_is_named(sources, change, problem):
    assert [text for text in told(sources, change) if problem in text]


def page_of(sources, text):
    """A book of one page with our directives and roles: what the build says, and the page."""
    extensions = ["myst_parser", "teaching"]
    (sources / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'book/_ext')!r})\n{extensions=}\n")
    (sources / "index.md").write_text(text, "utf8")
    command = [sys.executable, "-m", "sphinx", "-b", "html", str(sources), str(sources / "out")]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf8", check=False)
    return done.stderr, BeautifulSoup((sources / "out/index.html").read_text("utf8"), "html.parser")


def test_the_build_names_exercises_and_claims_that_do_not_exist(sources):
    text = "# Page\n\n{exercise}`1.3` {exercise}`1.9` {claim}`S07` {claim}`S99`\n"
    said, page = page_of(sources, text)
    assert "there is no exercise 1.9" in said and "there is no claim S99" in said
    assert "1.3" not in said and "S07" not in said and "teaching.yml" not in said
    links = {a.get_text(): a["href"] for a in page.select("a.internal") if a.get_text() in ("1.3", "S07")}
    assert links == {"1.3": "notebooks/01_weights.html#exercise-1-3-stable-softmax", "S07": "book/claims.html#S07"}


def test_the_build_names_what_does_not_fit(sources):
    path = sources / "book/teaching.yml"
    path.write_text(path.read_text("utf8").replace('"1.1": {minutes: 5', '"1.1": {minutes: 50'), "utf8")
    said, _ = page_of(sources, "# Page\n")
    assert "teaching.yml: exercises of chapter 1: 135 minutes, it states 90" in said


def test_the_registry_is_read_without_torch():
    block = "import sys; sys.modules.update(dict.fromkeys(['torch', 'scipy', 'matplotlib', 'IPython'])); "
    code = block + "import teaching_data; print(*teaching_data.registry())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "book/_ext", capture_output=True, text=True)
    assert done.stdout.split() == list(ASKED), done.stderr


# ---- the table of exercises


def test_every_exercise_and_question_has_its_row_and_no_other(page, known):
    tables = page.select("table.exercise-guide")
    assert len(tables) == len(known)
    rows = [row for each in tables for row in each.select("tbody tr")]
    assert [row.a.get_text() for row in rows] == list(ASKED)
    for row, one in zip(rows, ASKED.values(), strict=True):
        name, teaches, mistakes = row.select("td")
        facts = f"{one.points} point{'s' * (one.points > 1)}, {TAUGHT['exercises'][one.number]['minutes']} min"
        assert (name.code.get_text(), name.select_one(".facts").get_text()) == (one.name, facts)
        assert words(teaches).endswith(f"( {one.section} )".replace("'", "’"))
        shown = [item.code.get_text() for item in mistakes.select("li")]
        usual = [name for name, _ in teaching_data.usual(one)] if hasattr(one, "wrong") else []
        assert shown == usual and len(usual) == 3 * hasattr(one, "wrong")
        assert all(item.p.contents[1].startswith(" — ") for item in mistakes.select("li")), "name and words are parted"


def test_mistakes_with_a_public_report_come_first_in_the_order_of_the_registry():
    for one in ASKED.values():
        if hasattr(one, "wrong"):
            shown = teaching_data.usual(one)
            seen = [bool(wrong.seen_in) for _, wrong in shown]
            assert seen == sorted(seen, reverse=True)
            assert sum(seen) == min(
                3, len({teaching_data.first_sentence(w.text) for w in one.wrong.values() if w.seen_in})
            )
            for part in (True, False):
                order = [list(one.wrong).index(name) for name, wrong in shown if bool(wrong.seen_in) is part]
                assert order == sorted(order)


def test_a_sentence_ends_where_the_next_one_begins():
    first = teaching_data.first_sentence
    assert first("Set to 0 (say, by `nan_to_num`) too late. Exclude it.") == "Set to 0 (say, by `nan_to_num`) too late."
    assert first("Write `d ** 0.5` or 1.5 times that.") == "Write `d ** 0.5` or 1.5 times that."
    assert first("It is missing. “Why?” you ask.") == "It is missing."


def test_every_link_to_a_section_or_an_exercise_has_its_anchor(page, built_book):
    ids, found = {}, 0
    for link in page.select("article a[href*='.html#']"):
        file, anchor = urldefrag(link["href"])
        path = (built_book / "book" / file).resolve()
        if path not in ids:
            ids[path] = {e["id"] for e in BeautifulSoup(path.read_text("utf8"), "html.parser").find_all(id=True)}
        assert anchor in ids[path], link
        found += 1
    assert found > 250


# ---- the plans


def test_minutes_of_the_plans_add_up(page, known):
    parts = [
        part for part in page.select("article details") if " min" in part.summary.get_text() and part.select("ul.path")
    ]
    sittings = [one for plan in TAUGHT["syllabi"].values() for one in plan if "sections" in one or "path" in one]
    assert [part.summary.get_text().split(":")[0] for part in parts] == [one["name"] for one in sittings]
    plan = course_map.plan(ROOT)
    for part, sitting in zip(parts, sittings, strict=True):
        minutes = [int(each.get_text().split()[0]) for each in part.select("ul.path .minutes")]
        names = teaching_data.sections(sitting, plan)
        assert minutes == [course_map.length(known, name) for name in names]
        rounded = 5 * round(sum(minutes) / 5)
        assert f"about {rounded} of {sitting['lasts']} min are sections" in part.summary.get_text()
        for label in ("Lab", "Homework"):
            if label.lower() in sitting:
                total = sum(TAUGHT["exercises"][number]["minutes"] for number in sitting[label.lower()])
                line = next(p for p in part.find_all("p") if p.get_text().startswith(f"{label} ("))
                assert line.get_text().startswith(f"{label} ({total} min): ")
                assert [a.get_text() for a in line.select("a")] == sitting[label.lower()]
                assert f"{label.lower()} {total} min" in part.summary.get_text()


def test_the_lecture_is_the_way_on_the_map(page, known):
    (way,) = [path for path in course_map.plan(ROOT)["paths"] if path["name"] == "A class of 90 minutes"]
    part = next(part for part in page.select("article details") if part.summary.get_text().startswith("The lecture:"))
    assert f"about {course_map.path_minutes(known, way)} of 90 min" in part.summary.get_text()
    assert f"*{way['name']}*" in GUIDE
    shown = [link.get_text() for link in part.select("ul.path li > p:first-child a")]
    assert shown == [f"{name.replace(' / ', ' · ')}" for name in way["sections"]]


# ---- the text


def commands():
    """Lines of the code blocks that are marked as commands."""
    blocks = re.findall(r"(?s)<!-- command -->\n```sh\n(.*?)```", GUIDE)
    return [line for block in blocks for line in block.splitlines()]


def test_commands_are_marked_and_name_what_exists():
    assert {line.split()[1] for line in commands()} == SUBCOMMANDS
    everywhere = re.findall(r"(?m)^attnlab .*$", GUIDE)
    assert everywhere == commands(), "a command that no test can find"
    (handed,) = [line for line in commands() if "--exercises" in line]
    asked = [number for sitting in TAUGHT["syllabi"]["week"] for number in sitting.get("exercises", [])]
    assert sorted(handed.split("--exercises ")[1].split()) == sorted(asked)
    (chapter,) = [line for line in commands() if "--chapter" in line]
    assert int(chapter.split("--chapter ")[1]) in range(1, len(course.CHAPTERS) + 1)


def test_commands_are_not_coloured_as_python(page):
    assert len(page.select("article div.highlight-sh")) >= 7 and page.select("article div.highlight-default") == []


def test_every_exercise_that_is_named_exists():
    named = set(re.findall(r"(?<![\d.])[1-9]\.\d{1,2}(?![\d.])(?! %)", GUIDE))
    assert len(named) > 10 and named <= set(ASKED)


def test_wrong_turns_that_are_named_exist():
    turns = re.findall(r"`([^`]+)`\s+of\s+\{exercise\}`(\d\.\d+)`", GUIDE)
    assert len(turns) == 4
    for turn, number in turns:
        assert turn in ASKED[number].wrong


def test_the_limits_of_points_stand_before_any_grading():
    limits, week, tables = (
        GUIDE.index(f"\n## {name}") for name in ("What points can say", "A week", "What each exercise")
    )
    assert GUIDE.index("Every solution of this course is public") in range(limits, week) and week < tables
    assert "grade" not in GUIDE[:limits]


def discussion():
    return GUIDE[GUIDE.index("## Questions to discuss") : GUIDE.index("## For every class")]


def test_each_chapter_has_questions_of_two_levels_with_a_folded_answer_that_names_its_sources():
    parts = re.split(r"(?m)^### (?=\d)", discussion())[1:]
    assert [part.splitlines()[0] for part in parts] == list(course.CHAPTERS.values())
    for part in parts:
        answers = re.findall(r"(?s)<details>\n<summary>An answer</summary>\n\n(.*?)\n\n</details>", part)
        assert part.count("**To begin.**") == part.count("**Further.**") == 1 and len(answers) == 2
        for answer in answers:
            assert re.search(r"\{claim\}`S\d\d`|\.ipynb#", answer), answer[:60]


def test_numbers_in_the_answers_are_printed_by_a_cell():
    printed = ""
    for docname in course.chapters(ROOT):
        for cell in json.loads((ROOT / f"{docname}.ipynb").read_text("utf8"))["cells"]:
            printed += "".join(t for out in cell.get("outputs", []) for t in out.get("text", [])) + "\n"
    text = re.sub(r"\{exercise\}`[\d.]+`|\]\([^)]*\)|\$[^$]*\$", "", discussion())
    shares = re.findall(r"(\d[\d.]*)\s%", text)
    others = re.findall(r"(?<![\d.])(\d+\.\d+|\d{3,})(?![\d.]*\s%)(?!\d)", text)
    assert len(shares) >= 8 and len(others) >= 6
    lost = [share for share in shares if not re.search(rf"(?<![\d.]){re.escape(share)}%", printed)]
    lost += [n for n in others if not re.search(rf"(?<![\d.]){re.escape(n)}(?![\d])", printed)]
    assert lost == []


def test_the_old_place_leads_here():
    text = (ROOT / "book/how_to_use.md").read_text("utf8")
    section = text[text.index("## Use it in class") :].split("\n## ")[0]
    assert "(teaching_guide.md)" in section and "autograde" not in text and "nbgrader autograde" in GUIDE


def test_the_page_comes_from_what_is_read_here():
    assert teaching.PAGE == "book/teaching_guide" and f"- file: {teaching.PAGE}\n" in (ROOT / "_toc.yml").read_text(
        "utf8"
    )
