"""Self-tests: one question at the end of a section, each choice with its own reason.

>>> from attnlab import selftests
>>> selftests.ask("ch1-copies")      # in a notebook the last line of a cell draws it; a terminal prints it
>>> selftests.ask("ch1-copies", 2)   # in a terminal: what choice 2 is worth, and why

A question is proved: its body asserts that the right choice holds and that the others do not, and a test runs it.
The HTML carries its whole script (each Colab output is a frame of its own) and, inside the element, question, choices
and reasons as folded text: what a page without scripts, an untrusted notebook and GitHub show instead.

Why not jupyterquiz (2.9.6 read): its questions exist in a script alone, so that nothing is left without one; a random
id changes the stored output at every run; the reason stands in one line for all choices, which no screen reader is told
of; and nothing is remembered but by a cell that is run again.
"""

import difflib
import html
import importlib
import itertools
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Choice", "Question", "ask", "question", "questions", "right", "script", "wrong"]

FORM = re.compile(r"ch([1-9])-[a-z0-9]+(?:-[a-z0-9]+)*")
VERDICTS = {True: "✓ Right.", False: "✗ Not right."}
_registered: dict[str, "Question"] = {}


@dataclass(frozen=True)
class Choice:
    """One answer that a reader can choose, and what is said then. Both texts may mark `code` and *emphasis*."""

    text: str
    reason: str
    right: bool

    @property
    def verdict(self) -> str:
        return VERDICTS[self.right]


def right(text: str, reason: str) -> Choice:
    """The choice that holds, and why."""
    return Choice(text, reason, True)


def wrong(text: str, reason: str) -> Choice:
    """A choice that does not hold, which thought leads there, and where it fails."""
    return Choice(text, reason, False)


class Answer(str):
    """A text that a notebook and a terminal show as it is."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


@dataclass(frozen=True, repr=False)
class Question:
    """A self-test. Notebooks show it by `_repr_html_`; `proof` raises AssertionError where the choices are false."""

    id: str
    section: str
    text: str
    choices: tuple[Choice, ...]
    proof: Callable[[], None]

    @property
    def chapter(self) -> int:
        return int(FORM.fullmatch(self.id)[1])

    def answer(self, number: int) -> Answer:
        """What choice `number`, counted from 1, is worth, and why."""
        if number not in range(1, len(self.choices) + 1):
            raise ValueError(f"choice = {number!r}: {self.id} has choices 1 to {len(self.choices)}")
        choice = self.choices[number - 1]
        return Answer(f"{choice.verdict} {_plain(choice.reason)}")

    def _repr_html_(self):
        place = 1 + [choice.right for choice in self.choices].index(True)
        # Sanitizers drop the script and the unknown tag; what is folded passes them.
        folded = "".join(
            f"<details><summary>{_inline(choice.text)}</summary>"
            f"<p><strong>{choice.verdict}</strong> {_inline(choice.reason)}</p></details>"
            for choice in self.choices
        )
        return (
            f"<script>{script()}</script>\n"
            f'<attn-selftest question="{self.id}" right="{place}" data-lm-suppress-shortcuts="true">'
            f"<p><strong>Check yourself</strong></p><p>{_inline(self.text)}</p>{folded}</attn-selftest>"
        )

    def __repr__(self):
        lines = ["Check yourself", _plain(self.text)]
        lines += [f"  {number}. {_plain(choice.text)}" for number, choice in enumerate(self.choices, 1)]
        return "\n".join([*lines, f"Your answer: selftests.ask({self.id!r}, NUMBER)"])


def question(id: str, *, section: str, text: str, choices: list[Choice]):
    """Register a self-test; the function below is its proof.

    id: "ch1-copies", unique in the book.  section: the heading, in the notebook of that chapter, to reread.
    Raises ValueError for an id of another form or that is taken, and without 3 or 4 choices of which one is right.
    """
    if not FORM.fullmatch(id):
        raise ValueError(f"id = {id!r}: must be ch, the chapter's number, and words in small letters: 'ch1-copies'")
    if not 3 <= len(choices) <= 4 or sum(choice.right for choice in choices) != 1:
        raise ValueError(f"{id}: must have 3 or 4 choices, exactly one of them right")

    def register(proof):
        if id in _registered and _origin(_registered[id].proof) != _origin(proof):
            raise ValueError(f"id = {id!r} is taken, by the question on {_registered[id].section!r}")
        _registered[id] = Question(id, section, text, tuple(choices), proof)
        return proof

    return register


def ask(id: str, choice: int | None = None):
    """The self-test of that id, or with a choice, counted from 1, what this choice is worth, and why."""
    if id not in _registered:
        _load(id)
    if id not in _registered:
        near = difflib.get_close_matches(str(id), [known.id for known in questions()], n=3, cutoff=0.4)
        raise ValueError(f"no self-test {id!r}" + f": did you mean {' or '.join(map(repr, near))}?" * bool(near))
    found = _registered[id]
    return found if choice is None else found.answer(choice)


def questions(chapter: int | None = None) -> list[Question]:
    """All self-tests, or those of a chapter, in the order of their modules."""
    _load(None if chapter is None else f"ch{chapter}-")
    return [found for found in _registered.values() if chapter in (None, found.chapter)]


def _load(id):
    """Import the module of the chapter that an id names; without one, or where there is none, all of them."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("ch"))
    named = [name for name in names if id and name.startswith(str(id).partition("-")[0] + "_")]
    for name in named or names:
        importlib.import_module(f"{__name__}.{name}")


def _origin(proof):
    return proof.__module__, proof.__code__.co_firstlineno


@cache
def script() -> str:
    """The JavaScript of the self-tests: one IIFE that defines their element, at most once a page."""
    source = files(__package__).joinpath("_element.js").read_text(encoding="utf-8")
    code = re.sub(r"(?m)^\s*(//.*\n\s*)*| // .*$", "", source)  # no comments, no indentation
    return f"(() => {{\n'use strict';\nif (customElements.get('attn-selftest')) return;\n{code}}})();\n"


def _inline(text: str) -> str:
    """Escaped text, with `code`, *emphasis*, low indices (d_k), high powers (e^s) and the apostrophes of print."""
    parts = html.escape(text, quote=False).split("`")
    words = []
    for part in parts[::2]:
        part = re.sub(r"(?<=[^\W\d_])'(?=[^\W\d_])|(?<=s)'(?!\w)|'(?=s\b)", "’", part)
        part = re.sub(r"(?<!\w)\*(\S|\S[^*]*\S)\*(?!\w)", r"<em>\1</em>", part)
        part = re.sub(r"(?<![^\W\d_])([^\W\d_])_(\w{1,3})\b", r"\1<sub>\2</sub>", part)
        words.append(re.sub(r"(?<=[\w)])\^(?:\(([^()]+)\)|(−?\w+))", r"<sup>\1\2</sup>", part))
    codes = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(part for pair in itertools.zip_longest(words, codes, fillvalue="") for part in pair)


def _plain(text: str) -> str:
    """The same for a terminal: the marks of emphasis go."""
    return re.sub(r"(?<!\w)\*(\S|\S[^*]*\S)\*(?!\w)", r"\1", text)
