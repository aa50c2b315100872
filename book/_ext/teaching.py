"""The teaching guide: ```{exercise-guide}``` and ```{syllabus} week```, and links to exercises and claims in its text.

What they show is in `teaching_data`. What does not fit together there is a warning, and fails under -W.
"""

from html import escape
from pathlib import Path
from typing import ClassVar

from claims import stated
from course_map import TITLES, FromNotebooks, length, place, read
from docutils import nodes
from docutils.parsers.rst import directives
from notation import joined, table
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from teaching_data import (
    about,
    anchor,
    chapter_of,
    exercise_minutes,
    facts_of_sections,
    first_sentence,
    problems,
    registry,
    registry_files,
    sections,
    teaching,
    usual,
)

logger = logging.getLogger(__name__)
PAGE = "book/teaching_guide"


def folded(summary: str, inside: list[nodes.Node], is_open=False) -> list[nodes.Node]:
    start = f"<details{' open' if is_open else ''}>\n<summary>{escape(summary)}</summary>"
    return [nodes.raw("", start, format="html"), *inside, nodes.raw("", "</details>", format="html")]


class FromRegistry(FromNotebooks):
    def run(self):
        for file in ["book/teaching.yml", *map(str, registry_files())]:
            self.env.note_dependency(str(Path(self.env.srcdir) / file))
        self.taught, self.asked = teaching(self.env.srcdir), registry()
        return super().run()

    def words(self, text: str) -> list[nodes.Node]:
        return self.state.inline_text(text, self.lineno)[0]

    def exercise(self, known, number: str, words: str = "") -> nodes.reference:
        one = self.asked[number]
        uri = f"{self.address(known[chapter_of(number)].docname)}#{anchor(one)}"
        return nodes.reference("", words or number, refuri=uri, internal=True, reftitle=one.name)


class ExerciseGuide(FromRegistry):
    """```{exercise-guide}``` is a table for each chapter."""

    def show(self, known, course):
        found = []
        for chapter in known.values():
            facts = f"{chapter.exercises} exercises, {chapter.points} points, {chapter.practice} min"
            mine = [number for number in self.asked if chapter_of(number) == chapter.number]
            rows = [self.row(known, self.asked[number]) for number in mine]
            header = ("exercise", "what it teaches", "usual mistakes")
            found += folded(f"{TITLES[chapter.number]}: {facts}", [table(header, rows, ["exercise-guide"])])
        return found

    def row(self, known, one):
        name = nodes.paragraph("", "", ids=[f"teaches-{one.number.replace('.', '-')}"])
        name += [self.exercise(known, one.number), nodes.Text(" "), nodes.literal(one.name, one.name)]
        minutes = self.taught["exercises"][one.number]["minutes"]
        points = f"{one.points} point{'s' if one.points != 1 else ''}"
        facts = nodes.paragraph("", f"{points}, {minutes} min", classes=["facts"])
        teaches = nodes.paragraph("", "", *self.teaches(known, one))
        return [nodes.container("", name, facts), teaches, self.mistakes(one)]

    def teaches(self, known, one):
        chapter = known[chapter_of(one.number)]
        uri = f"{self.address(chapter.docname)}#{nodes.make_id(one.section)}"
        section = nodes.reference("", one.section, refuri=uri, internal=True)
        says = self.words(self.taught["exercises"][one.number]["teaches"])
        return [*says, nodes.Text(" ("), section, nodes.Text(")")]

    def mistakes(self, one):
        if not hasattr(one, "wrong"):
            return nodes.paragraph("", "Read by a person, with a rubric and a model answer; no mistake is recognised.")
        items = []
        for name, wrong in usual(one):
            line = nodes.paragraph("", "", nodes.literal(name, name), nodes.Text(" — "))
            line += self.words(first_sentence(wrong.text))
            if wrong.seen_in:
                where, number = wrong.seen_in.split("#")
                uri = f"https://github.com/{where}/issues/{number}"
                report = nodes.reference("", f"#{number}", refuri=uri, internal=False, reftitle=wrong.seen_in)
                line += [nodes.Text(" ("), report, nodes.Text(")")]
            items.append(nodes.list_item("", line))
        return nodes.bullet_list("", *items)


class Syllabus(FromRegistry):
    """```{syllabus} week``` is one syllabus of teaching.yml, a folded part for each sitting."""

    required_arguments = 1
    option_spec: ClassVar = {"open": directives.flag}

    def show(self, known, course):
        found, self.figures = [], facts_of_sections(self.env.srcdir)
        for sitting in self.taught["syllabi"][self.arguments[0]]:
            inside = self.sitting(known, course, sitting)
            found += folded(self.summary(known, course, sitting), inside, "open" in self.options)
        return found

    def summary(self, known, course, sitting):
        parts = []
        if presented := sections(sitting, course):
            parts.append(f"about {about(known, presented)} of {sitting['lasts']} min are sections")
        if "read" in sitting:
            parts.append(f"about {about(known, sitting['read'])} min to read")
        for key, words in {"exercises": "exercises", "lab": "lab", "homework": "homework"}.items():
            if key in sitting:
                parts.append(f"{words} {exercise_minutes(self.taught, sitting[key])} min")
        return f"{sitting['name']}: {', '.join(parts)}"

    def sitting(self, known, course, sitting):
        found = []
        if presented := sections(sitting, course):
            found.append(nodes.bullet_list("", *(self.lesson(known, name) for name in presented), classes=["path"]))
        for key, label in (("read", "To read"), ("may_skip", "May be skipped")):
            if key in sitting:
                links = [self.link(known, name) for name in sitting[key]]
                found.append(self.line(f"{label} (about {about(known, sitting[key])} min)", links))
        keys = {"exercises": "Exercises", "lab": "Lab", "homework": "Homework", "may_skip_exercises": "More exercises"}
        for key, label in keys.items():
            if key in sitting:
                links = [self.exercise(known, number) for number in sitting[key]]
                found.append(self.line(f"{label} ({exercise_minutes(self.taught, sitting[key])} min)", links))
        if "note" in sitting:
            found.append(nodes.paragraph("", "", *self.words(sitting["note"])))
        return found

    def line(self, label, links):
        return nodes.paragraph("", "", nodes.strong("", label), nodes.Text(": "), *joined(links).children)

    def lesson(self, known, name):
        number, heading = place(name)
        time = nodes.inline("", f" {length(known, name)} min", classes=["minutes"])
        item = nodes.list_item("", nodes.paragraph("", "", self.link(known, name, f"{number} · {heading}"), time))
        lesson, figures = self.taught["lessons"][name], ", ".join(self.figures[name][1])
        for key, label in (("ask", "Ask"), ("drive", f"Figure {figures}"), ("skip", "Leave out")):
            if key in lesson:
                words = [nodes.emphasis("", f"{label}:"), nodes.Text(" "), *self.words(lesson[key])]
                item += nodes.paragraph("", "", *words, classes=["lesson"])
        return item


# ---- roles, for the text of the guide


class ExerciseLink(SphinxRole):
    """{exercise}`1.3` leads to the exercise in its chapter."""

    def run(self):
        asked, known = registry(), read(self.env.srcdir)
        if self.text not in asked:
            logger.warning("there is no exercise %s", self.text, location=self.get_source_info(), type="teaching")
            return [nodes.Text(self.text)], []
        docname = known[chapter_of(self.text)].docname
        uri = f"{self.env.app.builder.get_relative_uri(self.env.docname, docname)}#{anchor(asked[self.text])}"
        return [nodes.reference("", self.text, refuri=uri, internal=True, reftitle=asked[self.text].name)], []


class ClaimLink(SphinxRole):
    """{claim}`S07` leads to the claim on its page."""

    def run(self):
        known = {claim["id"] for section in stated(self.env.srcdir).values() for claim in section}
        if self.text not in known:
            logger.warning("there is no claim %s", self.text, location=self.get_source_info(), type="teaching")
        uri = f"{self.env.app.builder.get_relative_uri(self.env.docname, 'book/claims')}#{self.text}"
        return [nodes.reference("", self.text, refuri=uri, internal=True)], []


def report(app, env):
    for text in problems(app.srcdir):
        logger.warning("teaching.yml: %s", text, location=PAGE, type="teaching")


def setup(app):
    app.add_directive("exercise-guide", ExerciseGuide)
    app.add_directive("syllabus", Syllabus)
    app.add_role("exercise", ExerciseLink())
    app.add_role("claim", ClaimLink())
    app.connect("env-check-consistency", report)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
