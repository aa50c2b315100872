"""What the learner sees: one small card, as HTML in a notebook and as plain text in a terminal."""

from __future__ import annotations

import html
import itertools
import re
import sys
from dataclasses import dataclass, field

SYMBOL = {"correct": "✓", "recognised": "✗", "unrecognised": "✗", "internal": "!"}
SYMBOL |= dict.fromkeys(("untouched", "missing", "unavailable"), "○")
BULLET = "• "
COLOUR = {"✓": "#1a7f4b", "✗": "#c2410c", "○": "#64748b", "!": "#64748b", "?": "#2563eb", "→": "#2563eb"}


@dataclass(frozen=True)
class Comparison:
    """One call on which answer and reference differ, as text: the call, what was expected, what came.

    `labels` stand above the three.
    """

    call: str
    expected: str
    received: str
    labels: tuple[str, str, str] = ("Called with", "Expected", "Your function gave")


@dataclass(frozen=True)
class Verdict:
    """A judgement. `status` is correct, recognised, unrecognised, untouched, missing, unavailable or internal.

    `turns` are the names of the recognised wrong turns, one tuple a reading; `remarks` name the hard probes that fail
    beyond them. The hint stands below the diagnosis: the first `diagnosed` words, or all. Texts may mark code with
    backticks.
    """

    status: str
    title: str
    words: list[str] = field(default_factory=list)
    number: str = ""
    name: str = ""
    points: int = 0
    turns: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    comparison: Comparison | None = None
    hint: str = ""
    diagnosed: int | None = None
    seen_in: tuple[str, ...] = ()
    extras: list[str] = field(default_factory=list)

    @property
    def correct(self) -> bool:
        return self.status == "correct"

    @property
    def symbol(self) -> str:
        return SYMBOL[self.status]

    @property
    def heading(self) -> str:
        worth = f" · {self.points} point{'s' if self.points != 1 else ''}" if self.correct else ""
        return f"Exercise {self.number} · {self.name}{worth}"

    def __str__(self) -> str:
        lines = [f"{self.symbol} {self.title}  ({self.heading})"]
        lines += [f"  {text}" for text, _ in self._said()]
        if self.comparison:
            for label, text in self._rows():
                lines += [f"  {label}", *(f"    {line}" for line in text.splitlines())]
        lines += [f"  {text}" for text in self.extras]
        if self.seen_in:
            lines.append(f"  Seen in the wild: {', '.join(self.seen_in)}")
        return "\n".join(lines)

    def _said(self) -> list[tuple[str, str]]:
        """The words and the question, each with its style."""
        said = [(text, "padding-left:.7em;text-indent:-.7em" * text.startswith(BULLET)) for text in self.words]
        if self.hint:
            asks = f"Ask yourself: {self.hint}" if self.hint.endswith("?") else self.hint
            said.insert(len(said) if self.diagnosed is None else self.diagnosed, (asks, "font-style:italic"))
        return said

    def _rows(self) -> list[tuple[str, str]]:
        shown = self.comparison
        return list(zip(shown.labels, (shown.call, shown.expected, shown.received), strict=True))

    def _repr_html_(self) -> str:
        parts = [_paragraph(text, style) for text, style in self._said()]
        if self.comparison:
            call, *sides = (
                f'<div style="min-width:0"><div style="opacity:.75;font-size:.85em">{label}</div>{_code(text)}</div>'
                for label, text in self._rows()
            )
            columns = "repeat(auto-fit,minmax(min(100%,15em),1fr))"
            beside = f'<div style="display:grid;gap:.2em 1.2em;grid-template-columns:{columns}">{"".join(sides)}</div>'
            parts.append(call + beside)
        parts += [_paragraph(text) for text in self.extras]
        if self.seen_in:
            parts.append(_paragraph(f"Seen in the wild: {', '.join(self.seen_in)}", "opacity:.75;font-size:.85em"))
        return _card(self.symbol, self.title, self.heading, "".join(parts))


@dataclass(frozen=True)
class Note:
    """A hint or a solution: a card without a judgement.  Empty lines part the text into paragraphs."""

    title: str
    text: str = ""
    code: str = ""

    def __str__(self) -> str:
        return "\n".join(part for part in (f"{self._symbol} {self.title}", self.text, self.code) if part)

    @property
    def _symbol(self) -> str:
        return "→" if self.code else "?"

    def _repr_html_(self) -> str:
        said = [_paragraph(part) for part in self.text.split("\n\n") if part]
        body = "".join(said) + (_code(self.code) if self.code else "")
        return _card(self._symbol, self.title, "", body)


def _inline(text: str) -> str:
    """Escape text; set what stands between backticks as code, and between asterisks outside of code as emphasis."""
    parts = html.escape(text, quote=False).split("`")
    words = [re.sub(r"(?<!\w)\*(\S|\S[^*]*\S)\*(?!\w)", r"<em>\1</em>", part) for part in parts[::2]]
    codes = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(part for pair in itertools.zip_longest(words, codes, fillvalue="") for part in pair)


def _paragraph(text: str, style: str = "") -> str:
    return f'<p style="margin:.35em 0;{style}">{_inline(text)}</p>'


def _code(text: str) -> str:
    style = "margin:.1em 0 .4em;padding:.35em .6em;overflow-x:auto;background:rgba(127,127,127,.12);border-radius:4px"
    # A table keeps its columns and scrolls; a single line may be broken, but not inside a number.
    style += f";white-space:{'pre' if chr(10) in text else 'pre-wrap'};word-break:normal;overflow-wrap:anywhere"
    return f'<pre style="{style};color:inherit;font-size:.9em;line-height:1.35">{html.escape(text, quote=False)}</pre>'


def _card(symbol: str, title: str, heading: str, body: str) -> str:
    """Colours that work on a light and a dark ground; the symbol carries the meaning without them."""
    colour = COLOUR[symbol]
    frame = (
        f"border:1px solid rgba(127,127,127,.35);border-left:5px solid {colour};border-radius:6px;"
        "padding:.55em .9em;margin:.4em 0;max-width:46rem;line-height:1.45;font-family:system-ui,sans-serif"
    )
    badge = (
        f"display:inline-block;min-width:1.5em;height:1.5em;line-height:1.5em;text-align:center;border-radius:50%;"
        f"background:{colour};color:#fff;margin-right:.5em"
    )
    small = f'<span style="opacity:.75;font-size:.85em;margin-left:.6em">{_inline(heading)}</span>' if heading else ""
    head = f'<div><b><span style="{badge}">{symbol}</span>{_inline(title)}</b>{small}</div>'
    return f'<div class="attnlab-card" style="{frame}">{head}{body}</div>'


def show(card: Verdict | Note) -> None:
    """Display in a notebook, print elsewhere. IPython is used where the session runs in it, and never imported."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and shell.has_trait("kernel"):
        ipython.display.display({"text/plain": str(card), "text/html": card._repr_html_()}, raw=True)
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(str(card).encode(encoding, "replace").decode(encoding))  # a console that knows no ✓ gets a ?
