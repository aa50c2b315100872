"""The map of the course: a picture of what needs what, tables, and ways through, all made of the notebooks.

course_map.yml says which section needs which, and which sections make a path. Minutes, exercises, points, and what a
chapter runs on are read from its cells; a chapter's needs from its line “You need: …”.
"""

import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

import yaml
from course import CHAPTERS, chapters
from docutils import nodes
from notation import joined, table
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
PAGE = "book/course_map"
DOCNAMES = {f"notebooks/{name}": number for number, name in enumerate(CHAPTERS, 1)}
TITLES = dict(enumerate(CHAPTERS.values(), 1))
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
NOT_READ = {"Exercises", "Further reading"}  # their minutes are stated apart, or are none


class Chapter(NamedTuple):
    number: int
    docname: str
    reading: int  # minutes, as the chapter states them
    practice: int
    exercises: int
    points: int
    needs: dict[int, str]  # chapters, each with the part of it that is enough ("": all of it)
    runs_on: str
    sections: dict[str, int]  # each heading of the second level, with its minutes


def minutes(line: str) -> tuple[int, int]:
    """Of “About three hours to read and run, …, and two more for the exercises.”: (180, 120)."""
    found = re.search(r"About (\w+) (minutes|hours) to read.*?(\w+) more for the exercises", " ".join(line.split()))
    if not found:
        raise ExtensionError(f"no “About … minutes to read and run, … more for the exercises” in: {line[:80]}")
    factor = 60 if found[2] == "hours" else 1
    return tuple(int(NUMBERS.get(word, word)) * factor for word in (found[1], found[3]))


def needed(line: str) -> dict[int, str]:
    """Of “You need: chapters 1 to 3 (of chapter 3 the masks) and PyTorch.”: {1: "", 2: "", 3: "the masks"}."""
    line = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).split())
    found = re.search(r"You need: chapters? (\d)(?: to (\d))?", line)
    if not found:
        return {}
    parts = {int(number): part for number, part in re.findall(r"\(of chapter (\d) ([^)]+)\)", line)}
    return {number: parts.get(number, "") for number in range(int(found[1]), int(found[2] or found[1]) + 1)}


def runs_on(line: str, code: list[str]) -> str:
    """NumPy alone or PyTorch, as “You need: …” says, and what single cells ask."""
    if "PyTorch" in line.partition("You need:")[2].split(". ")[0]:
        words = "PyTorch"
    else:
        words = "NumPy; PyTorch for some cells" if re.search(r"\btorch\b", "\n".join(code)) else "NumPy"
    return words + ("; real models for some cells" if "missing()" in "\n".join(code) else "")


def section_minutes(cells: list[dict], reading: int) -> dict[str, int]:
    """The chapter's minutes, shared among its sections by the words of their text and code."""
    lengths, heading = {}, None
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and (found := re.search(r"^## (.+)$", source, flags=re.M)):
            heading = found[1]
        if heading not in NOT_READ:
            lengths[heading] = lengths.get(heading, 0) + len(re.findall(r"\w+", source))
    first = next(name for name in lengths if name)
    lengths[first] += lengths.pop(None)  # what stands before the first heading
    total = sum(lengths.values())
    return {name: max(1, round(reading * length / total)) for name, length in lengths.items()}


@cache
def _read(path: Path, changed: float) -> Chapter:
    docname = f"notebooks/{path.stem}"
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    title = "".join(cells[0]["source"])
    reading, practice = minutes(title)
    statements = {cell["metadata"]["exercise"] for cell in cells if cell["metadata"].get("part") == "statement"}
    points = sum(cell["metadata"].get("nbgrader", {}).get("points", 0) for cell in cells)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shares = section_minutes(cells, reading)
    counts = len(statements), points
    return Chapter(DOCNAMES[docname], docname, reading, practice, *counts, needed(title), runs_on(title, code), shares)


def read(root: Path) -> dict[int, Chapter]:
    """The chapters that are in _toc.yml, by number."""
    paths = [Path(root) / f"{docname}.ipynb" for docname in chapters(root)]
    found = [_read(path, path.stat().st_mtime) for path in paths]
    return {chapter.number: chapter for chapter in found}


def plan(root: Path) -> dict:
    return yaml.safe_load((Path(root) / f"{PAGE}.yml").read_text(encoding="utf8"))


def place(name: str) -> tuple[int, str]:
    """ "5 / Windows" → (5, "Windows"); "5" → (5, "")."""
    number, _, heading = name.partition(" / ")
    return int(number), heading


def length(known: dict[int, Chapter], name: str) -> int:
    number, heading = place(name)
    return known[number].sections[heading] if heading else known[number].reading


def path_minutes(known: dict[int, Chapter], path: dict) -> int:
    """The sum, to five minutes."""
    return 5 * round(sum(length(known, name) for name in path["sections"]) / 5)


def problems(root: Path) -> list[str]:
    """What course_map.yml says that the chapters do not."""
    known, course, wrong = read(root), plan(root), []
    named = [name for section, parts in course["needs"].items() for name in [section, *parts]]
    named += [name for path in course["paths"] for name in path["sections"]]
    for name in named:
        number, heading = place(name)
        if number not in known or (heading and heading not in known[number].sections):
            wrong.append(f"there is no “{name}”")
    for section, parts in course["needs"].items():
        for part in parts:
            if place(part)[0] not in known[place(section)[0]].needs:
                wrong.append(f"“{section}” needs “{part}”, a chapter that its own does not ask for in “You need”")
    if not wrong:
        for path in course["paths"]:
            if path_minutes(known, path) > path["at_most"]:
                wrong.append(f"“{path['name']}” takes {path_minutes(known, path)} minutes, not {path['at_most']}")
    return wrong


# ---- the picture

WIDTH, GAP, PAD, LINE = 320, 8, 12, 18
BOXES = WIDTH - 28  # the outer width of every row; right of it runs the arrow that goes past a row
TITLE, FACT = 8.6, 7.1  # the widths of a letter, generous: every system has its own font


def arrows(known: dict[int, Chapter]) -> list[tuple[int, int, str]]:
    """(from, to, part): what is needed and not already needed on the way."""
    found = []
    for chapter in known.values():
        for number, part in chapter.needs.items():
            whole = [n for n, p in chapter.needs.items() if not p and n != number]
            if not any(number in known[n].needs for n in whole):
                found.append((number, chapter.number, part))
    return found


def rows(known: dict[int, Chapter]) -> list[list[int]]:
    """Chapters side by side where neither needs the other."""
    depth = {}
    for number, chapter in known.items():
        depth[number] = max((depth[n] + 1 for n in chapter.needs), default=0)
    return [[n for n in known if depth[n] == level] for level in range(max(depth.values()) + 1)]


def needs_in_words(needs: dict[int, str]) -> str:
    """Of {1: "", 2: "", 3: "", 5: "the cache"}: “1–3; 5 in part”."""
    runs = []
    for number in (number for number, part in needs.items() if not part):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    whole = ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return "; ".join(filter(None, [whole, *(f"{number} in part" for number, part in needs.items() if part)]))


def wrapped(words: str, characters: int) -> list[str]:
    lines = [""]
    for word in words.split(" "):
        if lines[-1] and len(f"{lines[-1]} {word}") > characters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def picture(known: dict[int, Chapter], address) -> str:
    """The map as SVG with real text and links. Colours come from the page, so it follows the theme."""
    boxes, y, parts = {}, 2, []
    links = arrows(known)
    for row in rows(known):
        width = (BOXES - GAP * (len(row) - 1)) / len(row)
        texts = {}
        for number in row:
            chapter, room = known[number], width - 2 * PAD
            exercises = f"{chapter.exercises}\N{NO-BREAK SPACE}exercises"
            facts = [f"{chapter.reading} min to read", f"{chapter.practice} min, {exercises}"]
            facts.append(chapter.runs_on.replace("; ", ", "))
            lines = [line for fact in facts for line in wrapped(fact, int(room / FACT))]
            needs = needs_in_words(chapter.needs)
            spoken = ", ".join([TITLES[number], *facts, *(["needs " + needs] if needs else [])])
            texts[number] = wrapped(TITLES[number], int(room / TITLE)), lines, spoken
        height = max(len(title) + len(facts) for title, facts, _ in texts.values()) * LINE + 2 * PAD - 4
        for place_in_row, number in enumerate(row):
            boxes[number] = (2 + place_in_row * (width + GAP), y, width, height)
            parts.append(box(boxes[number], *texts[number], address(known[number].docname)))
        y += height + (56 if any(part for start, _, part in links if start in row) else 30)
    drawn = "".join([*(arrow(boxes, known, *link) for link in links), *parts])
    size = f"0 0 {WIDTH} {y - 26:g}"
    label = "Map of the course: six boxes, one for each chapter, and arrows to the chapters that need it"
    tip = 'id="map-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    drawn = f'<defs><marker {tip}><path d="M0 0 8 4 0 8z"/></marker></defs>{drawn}'
    return f'<svg class="course-map" viewBox="{size}" role="group" aria-label="{label}">{drawn}</svg>'


def box(frame, title, facts, spoken, address) -> str:
    """The lines that one sees, and, for those who hear them, a sentence with what the arrows say."""
    x, y, width, height = (f"{number:g}" for number in frame)
    top, inside = frame[1] + PAD + 11, frame[0] + PAD
    text = "".join(
        f'<text x="{inside:g}" y="{top + LINE * i:g}"{" class=title" if i < len(title) else ""}>{escape(line)}</text>'
        for i, line in enumerate([*title, *facts])
    )
    frame_ = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    return f'<a href="{address}" aria-label="{escape(spoken)}">{frame_}{text}</a>'


def arrow(boxes, known, start, end, part) -> str:
    """Straight down, or, past a row between, along the right edge."""
    (x, y, w, h), (x2, y2, w2, _) = boxes[start], boxes[end]
    between = [n for n, frame in boxes.items() if y + h < frame[1] and frame[1] + frame[3] < y2]
    if between:
        right = WIDTH - 14
        line = f"M{x + w:g} {y + h / 2:g}H{right}V{y2 + 30:g}H{x2 + w2 + 2:g}"
    else:
        middle = x + 3 * PAD if part else x2 + w2 / 2 if w2 < w else x + w / 2
        line = f"M{middle:g} {y + h:g}V{y2 - 2:g}"
    label = ""
    if part:
        label = f'<text x="{x + 4 * PAD:g}" y="{(y + h + y2) / 2 + 5:g}" class="part">{escape(part)}</text>'
    return f'<g aria-hidden="true"><path class="arrow{" partly" if part else ""}" d="{line}"/>{label}</g>'


# ---- the directives


class FromNotebooks(SphinxDirective):
    """What these show depends on every chapter."""

    def run(self):
        for docname in chapters(self.env.srcdir):
            self.env.note_dependency(f"{self.env.srcdir}/{docname}.ipynb")
        for file in (f"{PAGE}.yml", "_toc.yml"):
            self.env.note_dependency(f"{self.env.srcdir}/{file}")
        return self.show(read(self.env.srcdir), plan(self.env.srcdir))

    def address(self, docname):
        return self.env.app.builder.get_relative_uri(self.env.docname, docname)

    def link(self, known, name, words=None):
        number, heading = place(name)
        uri = self.address(known[number].docname) + (f"#{nodes.make_id(heading)}" if heading else "")
        return nodes.reference("", words or heading or TITLES[number], refuri=uri, internal=True)


class CourseMap(FromNotebooks):
    def show(self, known, course):
        return [nodes.raw("", picture(known, self.address), format="html")]


class ChapterTable(FromNotebooks):
    def show(self, known, course):
        lines = []
        for chapter in known.values():
            needs = needs_in_words(chapter.needs) or "–"
            facts = [needs, chapter.reading, chapter.practice, chapter.exercises, chapter.points]
            name = self.link(known, str(chapter.number))
            runs_on = nodes.inline("", chapter.runs_on, classes=["runs-on"])
            first = nodes.paragraph("", "", name, nodes.Text(" "), runs_on)
            lines.append([first, *(nodes.paragraph("", str(fact)) for fact in facts)])
        counted = [(c.reading, c.practice, c.exercises, c.points) for c in known.values()]
        whole = [sum(column) for column in zip(*counted, strict=True)]
        lines.append([nodes.paragraph("", str(fact)) for fact in ["all", "", *whole]])
        header = ("chapter", "needs", "read (min)", "exercises (min)", "exercises", "points")
        return [table(header, lines, ["chapter-table"])]


class SectionNeeds(FromNotebooks):
    def show(self, known, course):
        items = {}
        for section, parts in course["needs"].items():
            links = [self.link(known, part, f"{place(part)[0]} · {place(part)[1]}") for part in parts]
            line = nodes.paragraph("", "", self.link(known, section), nodes.Text(" needs "), *joined(links).children)
            items.setdefault(place(section)[0], []).append(nodes.list_item("", line))
        found = []
        for number, lines in items.items():
            found.append(nodes.paragraph("", "", nodes.strong("", TITLES[number])))
            found.append(nodes.bullet_list("", *lines))
        return found


class ReadingPaths(FromNotebooks):
    def show(self, known, course):
        found = []
        for path in course["paths"]:
            total = path_minutes(known, path)
            section = nodes.section("", nodes.title("", path["name"]), ids=[nodes.make_id(path["name"])])
            section += nodes.paragraph("", f"About {total} minutes. {path['for']}")
            section += nodes.bullet_list("", *(self.step(known, name) for name in path["sections"]), classes=["path"])
            found.append(section)
        return found

    def step(self, known, name):
        number, heading = place(name)
        words = f"{number} · {heading}" if heading else None
        time = nodes.inline("", f" {length(known, name)} min", classes=["minutes"])
        return nodes.list_item("", nodes.paragraph("", "", self.link(known, name, words), time))


def report(app, env):
    for text in problems(app.srcdir):
        logger.warning("course_map.yml: %s", text, location=PAGE, type="course_map")


def setup(app):
    app.add_directive("course-map", CourseMap)
    app.add_directive("chapter-table", ChapterTable)
    app.add_directive("section-needs", SectionNeeds)
    app.add_directive("reading-paths", ReadingPaths)
    app.connect("env-check-consistency", report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
