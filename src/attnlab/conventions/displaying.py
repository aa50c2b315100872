"""What was measured, as data and on the page."""

import dataclasses
import html
import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata, resources

HEADINGS = ("call", "True means", "1.0 means", "empty row", "gradient", "causal flag", "masked NaN")
WIDTHS = (19, 9, 9, 8, 8, 8, 8)  # 75 with the spaces between them


@dataclass(frozen=True)
class Convention:
    """One call, and what came of it.  "error" where it raised, – where there is nothing to ask.

    true_means, one_means  of a boolean True, of a float 1.0 beside 0.0: "allowed", "forbidden", "added" (to the score),
                           "ignored", "other"
    empty_row              the output where every key is forbidden: "0", "NaN", "mean(V)", "as unmasked", "own token"
                           (nothing of the others), or its numbers
    gradient               with such a row present and a loss over all outputs that are finite: "finite", or the inputs
                           whose gradient holds a NaN, "none" where no gradient is kept
    causal                 its own causal flag for 2 queries and 4 keys: "top-left", "bottom-right", "ignored", "other"
    nan_in_masked          a NaN in a value that is forbidden to all: "spoils" the outputs, or is "harmless"
    notes                  the errors, each after the name of its column, and the warnings
    agreement              the largest difference from `attnlab.attention`, through a translation of `attnlab.masks`
    """

    call: str
    true_means: str
    one_means: str
    empty_row: str
    gradient: str
    causal: str
    nan_in_masked: str
    notes: tuple[str, ...] = ()
    agreement: float | None = None


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of what was measured, and the versions of what was called; as HTML, and as text of 75 columns."""

    rows: tuple[Convention, ...]
    versions: dict[str, str]
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [*_in_columns(HEADINGS), " ".join("-" * width for width in WIDTHS)]
        for row in self.rows:
            lines += _in_columns(_cells(row))
        for note in self._notes():
            lines += textwrap.wrap(note, 75)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(heading)}</th>' for heading in HEADINGS)
        body = ""
        for row in self.rows:
            name, *cells = map(html.escape, _cells(row))
            name = re.sub(r"(?<=[_.])(?=\w)", "<wbr>", name)  # a long name may break between its parts
            body += f'<tr><th scope="row" style="text-align:left">{name}</th>'  # JupyterLab aligns to the right
            body += "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
        notes = "".join(f"<p>{html.escape(note)}</p>\n" for note in self._notes())
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{notes}"

    def _notes(self) -> list[str]:
        notes = ["Called: " + ", ".join(f"{name} {version}" for name, version in self.versions.items()) + "."]
        compared = [row.agreement for row in self.rows if row.agreement is not None]
        if compared:
            notes.append(
                f"Given the same mask through attnlab.masks, {len(compared)} of these {len(self.rows)} calls return "
                f"what attnlab.attention returns, up to {max(compared):.0e}."
            )
        calls: dict[str, list[str]] = {}
        for row in self.rows:
            for note in row.notes:
                calls.setdefault(note, []).append(row.call)
        who = {note: "All" if len(names) == len(self.rows) > 1 else "; ".join(names) for note, names in calls.items()}
        return [*notes, *self.remarks, *(f"{names} — {note}" for note, names in who.items())]


def table(rows: Iterable[Convention], *libraries: str) -> Table:
    """These rows, with the versions of the installed libraries, given by name: table(rows, "numpy", "torch")."""
    return Table(tuple(rows), {name: metadata.version(name).split("+")[0] for name in libraries})


def recorded() -> Table:
    """What `make conventions` measured of libraries that this course does not install, with their versions."""
    text = resources.files("attnlab").joinpath("data/conventions.json").read_text(encoding="utf-8")
    record = json.loads(text)
    rows = tuple(Convention(**{**row, "notes": tuple(row["notes"])}) for row in record["rows"])
    return Table(rows, record["versions"], (f"Measured on {record['platform']}.", *record["remarks"]))


def _cells(row: Convention) -> list[str]:
    return [str(getattr(row, field.name)) for field in dataclasses.fields(row)[: len(HEADINGS)]]


def _in_columns(cells: Iterable[str]) -> list[str]:
    wrapped = [_wrap(cell, width) for cell, width in zip(cells, WIDTHS, strict=True)]
    height = max(map(len, wrapped))
    lines = zip(*(lines + [""] * (height - len(lines)) for lines in wrapped), strict=True)
    return [" ".join(map(str.ljust, line, WIDTHS)).rstrip() for line in lines]


def _wrap(cell: str, width: int) -> list[str]:
    """Lines of a width, broken at spaces; a longer word is broken between the parts of its name."""
    lines = [""]
    for word in cell.split():
        for i, part in enumerate([word] if len(word) <= width else re.split(r"(?<=[-_.(])(?=\w)", word)):
            longer = f"{lines[-1]} {part}" if i == 0 and lines[-1] else lines[-1] + part
            if len(longer) <= width or not lines[-1]:
                lines[-1] = longer
            else:
                lines.append(part)
    return lines
