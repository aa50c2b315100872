"""Weight off the stylesheets: the theme brings rules for hundreds of classes that no page of this book shows.

A selector goes when it needs a class or an id that no page carries and no script mentions. What stands inside of
:not(), :is(), :where() and :has() is never counted against it. Scripts put names together ("bs-tooltip-" and a place),
so a part of a name that ends in a hyphen speaks for all names that begin with it.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import tinycss2

WORD = re.compile(r"[\w-]+")
ATTRIBUTE = re.compile(r'\s(?:class|id)="([^"]*)"')
INLINE = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
NESTED = {"media", "supports"}  # at-rules that hold rules


class Names:
    """The classes and ids that pages and scripts may show: `name in Names(pages, scripts)`."""

    def __init__(self, pages: Iterable[str], scripts: Iterable[str]) -> None:
        self.whole, self.parts = set(), set()
        for page in pages:
            self.whole.update(name for names in ATTRIBUTE.findall(page) for name in names.split())
            scripts = [*scripts, *INLINE.findall(page)]
        for script in scripts:
            self.whole.update(WORD.findall(script))
        self.parts = {name for name in self.whole if name.endswith("-") and len(name) > 2}

    def __contains__(self, name: str) -> bool:
        return name in self.whole or any(name.startswith(part) for part in self.parts)


def needed(selector: list) -> Iterator[str]:
    """The classes and ids that an element must have for the selector to match, as far as it names them directly."""
    for before, token in pairwise([None, *selector]):
        if token.type == "hash" or (token.type == "ident" and before == "."):
            yield token.value


def selectors(prelude: list) -> Iterator[list]:
    begin = 0
    for end, token in enumerate([*prelude, ","]):
        if token == ",":
            yield prelude[begin:end]
            begin = end + 1


def pruned(rules: list, names: Names) -> str:
    """The rules that can match, as CSS. ValueError for what is no CSS."""
    out = []
    for rule in rules:
        if rule.type == "error":
            raise ValueError(f"line {rule.source_line}: {rule.message}")
        if rule.type == "qualified-rule":
            kept = [one for one in selectors(rule.prelude) if all(name in names for name in needed(one))]
            if kept:
                text = ",".join(tinycss2.serialize(one).strip() for one in kept)
                out.append(f"{text}{{{tinycss2.serialize(rule.content)}}}")
        elif rule.type == "at-rule" and rule.content is not None and rule.lower_at_keyword in NESTED:
            if inner := pruned(parsed(rule.content), names):
                out.append(f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}")
        else:
            out.append(rule.serialize())
    return "".join(out)


def parsed(css: str | list) -> list:
    parse = tinycss2.parse_stylesheet if isinstance(css, str) else tinycss2.parse_rule_list
    return parse(css, skip_comments=True, skip_whitespace=True)


def prune_styles(out: Path, pages: list[str]) -> None:
    """Rewrite the stylesheets of the built book in place."""
    names = Names(pages, [path.read_text(encoding="utf8") for path in sorted(out.glob("_static/**/*.js"))])
    for path in sorted(out.glob("_static/**/*.css")):
        path.write_text(pruned(parsed(path.read_text(encoding="utf8")), names), encoding="utf8")
