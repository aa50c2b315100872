"""What the pages of the classroom share: templates, places in the book, and text from outside made harmless.

A page is one file: no script, nothing loaded, and a policy in its head that forbids both.  Everything that comes from
outside (ids, code, messages, words) is escaped by the templates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jinja2
from docutils.nodes import make_id  # as the built book names its headings
from markupsafe import Markup, escape

from attnlab.exercises.engine import Exercise, OpenQuestion, cards

from ..assignments import chapter

# Numbers of characters that a page shows of one thing from outside: more is cut off, and the page says so.
LONGEST_CODE, LONGEST_WORDS, LONGEST_LINE, LONGEST_NAME = 20_000, 20_000, 300, 60
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # what HTML or UTF-8 has no place for
SYMBOLS = cards.SYMBOL | {"unrecognised": "?", "missing": "–", "unavailable": "!"}


@dataclass(frozen=True)
class Section:
    """A section of the book. `page` is the stem of its chapter's notebook."""

    page: str
    heading: str

    @property
    def chapter(self) -> int:
        return int(self.page.split("_")[0])

    def address(self, site: str | None) -> str:
        """Its address on the published book, or "" without one."""
        return f"{site.rstrip('/')}/notebooks/{self.page}.html#{make_id(self.heading)}" if site else ""


def section_of(exercise: Exercise | OpenQuestion) -> Section:
    """What to reread for an exercise."""
    number = exercise.number.split(".")[0]
    name = chapter(number).__name__.rsplit(".", 1)[-1].removeprefix(f"ch{number}_")
    return Section(f"{int(number):02}_{name}", exercise.section)


def first_sentence(exercise: Exercise | OpenQuestion) -> str:
    """The statement's beginning, as a reminder of the task."""
    paragraph = " ".join(exercise.statement.split("\n\n")[0].split())
    return re.split(r"(?<=[.?!]) ", paragraph, maxsplit=1)[0].replace("**", "*")


def cut(text: str, longest: int) -> str:
    """The text, or its beginning and how much more there is."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} characters more)"


def inline(text: str) -> Markup:
    """Escaped text in which backticks mark code, as on a card."""
    return Markup(cards._inline(text))


def breakable(name: str) -> Markup:
    """A name of an exercise, which may be broken after an underscore where a column is narrow."""
    return Markup(escape(name).replace("_", Markup("_<wbr>")))


def in_order(name: str) -> tuple[Any, ...]:
    """A key that sorts names as people do: s2 before s10."""
    parts = [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]
    return (parts, name)


def number(points: float) -> str:
    """Points as people write them: 2, 2.5, and 0.33 for a third."""
    return f"{round(points, 2):,.10g}"


def counted(count: float, thing: str) -> str:
    """ "1 point", "3 points"."""
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("attnlab.classroom.pages"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"inline": inline, "counted": counted, "cut": cut, "breakable": breakable, "number": number}


def render(template: str, site: str | None, **values: Any) -> str:
    """The page that a template makes. ValueError where `site` is no address."""
    if site and not re.match(r"https?://|file:", site):
        raise ValueError(f"The address of the published book begins with https://, but it is {site!r}.")
    page = _templates.get_template(template).render(site=site, symbols=SYMBOLS, **values)
    return _UNSEEN.sub("\ufffd", page)
