"""Whose file is it, and for which notebook?  Read from names, as learning platforms and people write them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from .sources import printable

LONGEST = 64  # characters of a student's id; nbgrader's column holds 128
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}  # Windows
ENDINGS = (".ipynb", ".ipynb.txt", ".ipynb.json")  # browsers add the last two

# What platforms call a student's file or folder. The names of students come first, so the leftmost match is the
# platform's own: nothing in the name of a student's file can move it.
MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<number>\d+))?_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<file>.*))?", re.S)
CANVAS = re.compile(r"(?P<name>.+?_(?:LATE_)?\d+)_(?:(?P<order>\d+)_)?(?P<file>.+)", re.S)
CANVAS_UNNAMED = re.compile(r"(?P<name>(?:LATE_)?anon_\w{5})_(?:(?P<order>\d+)_)?(?P<file>.+)", re.S)
BLACKBOARD = re.compile(
    r".+?_(?P<name>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|(?P<note>\.txt))", re.S
)
BRIGHTSPACE = re.compile(
    r"\d+-\d+ ?- ?(?P<name>.+?) ?- ?(?P<time>\w+ \d{1,2}, \d{4} \d{3,4} [AP]M)(?: ?- ?(?P<file>.+))?"
)


@dataclass(frozen=True, order=True)
class Sender:
    """Who handed something in: the name as the source writes it, and a number that tells two of one name apart."""

    name: str
    number: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.number})" if self.number else self.name

    def printable(self) -> Sender:
        """As a table can hold it: no two senders become one."""
        return Sender(printable(self.name), printable(self.number))


@dataclass(frozen=True)
class Said:
    """What one name says: the sender, the name of the student's own file ("" for a folder), and when it came.

    `attempt` grows from one attempt to the next, `order` within one; `time` is the platform's, or None; `late` where
    the platform marks it so.
    """

    sender: Sender
    file: str = ""
    attempt: str = ""
    order: int = 0
    time: datetime | None = None
    late: bool = False


def by_platform(name: str, notebooks: Collection[str] = ()) -> Said | None:
    """What the name of a file or folder says if Moodle, Blackboard, Brightspace or Canvas made it; else None."""
    if match := MOODLE.fullmatch(name):
        return Said(Sender(match["name"], match["number"] or ""), match["file"] or "")
    for pattern, writes in ((BLACKBOARD, "%Y-%m-%d-%H-%M-%S"), (BRIGHTSPACE, "%b %d, %Y %I%M %p")):
        if match := pattern.fullmatch(name):
            time = _time(match["time"], writes)
            attempt = time.isoformat() if time else match["time"]
            return Said(Sender(match["name"]), match["file"] or match.groupdict().get("note") or "", attempt, time=time)
    if match := CANVAS_UNNAMED.fullmatch(name) or CANVAS.fullmatch(name):
        typed = match["order"] is None and match["file"] in {"text.html", "link.html"}
        # ada_123456_01_weights.ipynb is no file of Canvas, but one that Ada named herself, with her number.
        own = stem_of(match["file"]) and not any(_fits(match["file"], one) for one in notebooks)
        if typed or (match["order"] is not None and not (own and any(_fits(name, one) for one in notebooks))):
            name = re.sub(r"(^|_)LATE_", r"\1", match["name"])
            order = int((match["order"] or "0")[:18])
            return Said(Sender(name), match["file"], order=order, late=name != match["name"])
    return None


def _time(text: str, writes: str) -> datetime | None:
    try:
        return datetime.strptime(text, writes)
    except ValueError:  # no such day, or a month in another language
        return None


# ---- students ------------------------------------------------------------------------------------------------------


def student_id(name: str) -> str:
    """A name as an id: a safe name for a folder in every system, which nbgrader's globs and lists take too.

    Letters of all scripts, digits, and ` . _ - @ '` inside; NFC, begins with a letter or digit, at most 64 characters.
    """
    letters = unicodedata.normalize("NFC", re.sub(r"[(),;\[\]]", " ", name))
    kept = (c if c in " ._-@'" or unicodedata.category(c)[0] in "LMN" else "_" for c in letters)
    text = re.sub(r" +", " ", re.sub(r"_+", "_", "".join(kept)))
    text = re.sub(r"^[\W_]+", "", text)[:LONGEST].rstrip(" ._-")
    while len(text.encode()) > 200:  # a folder's name holds 255 bytes
        text = text[:-1].rstrip(" ._-")
    if not text:
        return f"student-{_digest(name)}"
    return f"{text}_" if text.split(".")[0].casefold() in RESERVED else text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def ids_of(
    senders: Iterable[Sender], known: Mapping[Sender, str] | None = None, folders: Iterable[str] = ()
) -> dict[Sender, str]:
    """An id for every sender, no two alike (not even in upper and lower case), whatever their order.

    `known` senders keep theirs; `folders` are ids that are taken unless they are exactly the sender's own name. Of
    several with one name, each gets the platform's number, or else a digest of the name, at the end.
    """
    known, senders = dict(known or {}), sorted(set(senders))
    owners = {given.casefold(): sender for sender, given in known.items()}
    there = {folder.casefold(): folder for folder in folders}
    new = {sender: student_id(sender.name) for sender in senders if sender not in known}
    rivals = Counter(wish.casefold() for wish in new.values())
    exact = Counter(wish.casefold() for sender, wish in new.items() if sender == Sender(wish))
    numbered = Counter(f"{wish}-{sender.number}".casefold() for sender, wish in new.items())
    claimed = {*rivals, *owners}
    ids = {sender: known[sender] for sender in senders if sender in known}
    for sender, wish in new.items():
        key, longer = wish.casefold(), f"{wish}-{sender.number}"
        taken = not _same(owners[key], sender) if key in owners else there.get(key, wish) != wish
        if not taken and (rivals[key] == 1 or (sender == Sender(wish) and exact[key] == 1)):
            ids[sender] = wish
        elif student_id(longer) == longer and numbered[longer.casefold()] == 1 and longer.casefold() not in claimed:
            ids[sender] = longer
        else:
            ids[sender] = f"{wish}-{_digest(str(sender))}"
    return ids


def _same(one: Sender, other: Sender) -> bool:
    """One person, as far as names tell: a number that only one of them has tells nothing."""
    return one.name == other.name and (one.number == other.number or not (one.number and other.number))


# ---- notebooks -----------------------------------------------------------------------------------------------------

COPY = re.compile(r"[ _]?-[ _]?cop(?:y|ie)[ _]?\(?(\d*)\)?$|[ _]?\((\d+)\)$|-(\d+)$", re.I)
COPY_OF = re.compile(r"(?:^|(?<=[ _-]))(?:copy of|kopie von|c[oó]pi[ae] d[ei])[ _]", re.I)  # Google: Ada - Copy of a


def stem_of(file: str) -> str:
    """The name of a notebook's file without its ending; "" for every other file."""
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if file.casefold().endswith(ending):
            return file[: -len(ending)]
    return ""


def without_copies(stem: str) -> tuple[str, int]:
    """A stem without what programs add to the name of a copy, and the number of the copy: "a (2)" → ("a", 2)."""
    stem, number = COPY_OF.sub("", stem.strip()), 0
    while match := COPY.search(stem):
        stem, number = stem[: match.start()], max(number, int((match[1] or match[2] or match[3] or "1")[:9]))
    return stem, number


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", "_", unicodedata.normalize("NFC", text).casefold()).strip("_")


def _fits(file: str, notebook: str) -> bool:
    """Whether the notebook's name is in the file's. It does not begin or end inside of a number: 678901_weights."""
    wanted = _plain(notebook)
    before, after = r"(?<!\d)" * wanted[:1].isdigit(), r"(?!\d)" * wanted[-1:].isdigit()
    return re.search(before + re.escape(wanted) + after, _plain(stem_of(file) or file)) is not None


@dataclass(frozen=True, order=True)
class Match:
    """How a file's name fits a notebook's: 3 to the letter, 2 as a copy, 1 with more around it, 0 not at all."""

    closeness: int
    copy: int


def match_of(file: str, notebook: str) -> Match:
    stem = unicodedata.normalize("NFC", stem_of(file))
    if stem == notebook:
        return Match(3, 0)
    bare, copy = without_copies(stem)
    for text, number in ((stem, 0), (bare, copy)):  # a notebook may itself be called "part-1"
        if _plain(text) == _plain(notebook):
            return Match(2, number)
    return Match(1, copy) if _fits(file, notebook) else Match(0, copy)


def other_of(file: str, notebooks: Collection[str], others: Collection[str], closeness: int = 2) -> str | None:
    """Which of `others`, the notebooks of other assignments, a file is, to the letter or as a copy; or None.

    With `closeness` 1 also one with more around its name. What fits one of `notebooks` is to the letter one of others.
    """
    fits = {other: match_of(file, other).closeness for other in others}
    own = any(match_of(file, notebook).closeness for notebook in notebooks)
    found = [other for other in others if fits[other] >= (3 if own else closeness)]
    return max(found, key=lambda other: (fits[other], len(other), other), default=None)


def notebook_of(file: str, notebooks: Collection[str], others: Collection[str] = ()) -> str | None:
    """Which of an assignment's notebooks a file is meant to be. A single one takes every name that is no other's."""
    if not stem_of(file) or other_of(file, notebooks, others):
        return None
    fits = {notebook: match_of(file, notebook).closeness for notebook in notebooks}
    best = max(notebooks, key=lambda notebook: (fits[notebook], len(notebook)))
    return best if fits[best] or len(notebooks) == 1 else None


def sender_in(file: str, notebooks: Iterable[str], assignment: str) -> str:
    """The student whom the name of a file in a flat folder tells: "ada_01_weights.ipynb" → "ada"; "" for nobody.

    Numbers of copies are left out only behind a notebook's name: "s (1)" and "s (2)" may be two students.
    """
    stem = unicodedata.normalize("NFC", stem_of(file) or file.rpartition(".")[0] or file)
    for known in (*sorted(notebooks, key=len, reverse=True), assignment):
        words = r"[\s_]+".join(re.escape(word) for word in re.split(r"[\s_]+", known))
        if match := re.search(rf"(?<![^\W_]){words}(?![^\W_])", stem, re.I):
            before, after = COPY_OF.sub("", stem[: match.start()]), without_copies(stem[match.end() :])[0]
            stem = f"{before.strip(' _-.,')} {after.strip(' _-.,')}".strip()
    return re.sub(r"^\((.*)\)$", r"\1", stem).strip(" _-.,")
