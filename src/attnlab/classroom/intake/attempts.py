"""Which of the files that one student sent for a notebook counts, as far as their names tell."""

from __future__ import annotations

from . import naming
from .layouts import Claim
from .sources import Found, shown

MOST = 5  # files that a sentence names


def ranked(files: list[Claim], notebook: str) -> list[Claim]:
    """The files, the one that counts first. The times of files tell nothing: unpacking and copying change them."""
    return sorted(files, key=lambda each: _rank(each, notebook), reverse=True)


def _rank(claim: Claim, notebook: str) -> tuple:
    """The later attempt; then the better name; then what came later within an attempt, as far as names tell."""
    match, found = naming.match_of(claim.file, notebook), claim.found
    exact = claim.exact and match.closeness == 3
    later = (claim.said.order, match.copy)
    return claim.said.attempt, exact, min(match.closeness, 2), later, match.closeness, *_by_chance(found)


def _by_chance(found: Found) -> tuple:
    """An order that is the same each time and means nothing, except for two members of one name: the later counts."""
    return -len(found.parts), found.label, found.place


def remark_on(taken: Claim, files: list[Claim], notebook: str) -> str:
    """What the student reads where several files came; "" for a single one."""
    others = [each for each in files if each is not taken]
    if not others:
        return ""
    why = _why(taken, _unordered(taken, others, notebook), notebook) or "the latest as far as names tell"
    return (
        f"{len(files)} files came for {notebook}: {shown(taken.found.label)} is graded, {why}, and not {_all(others)}."
    )


def doubt_on(taken: Claim, files: list[Claim], notebook: str) -> str:
    """What a teacher has to know where no attempt and no number of a copy says which file is the later; else ""."""
    rivals = _unordered(taken, [each for each in files if each is not taken], notebook)
    if not rivals:
        return ""
    return (
        f"is graded, and not {_all(rivals)}, of the same student: the file graded is {_why(taken, rivals, notebook)}; "
        "the times of files are not used. To choose, remove the other file from the source and grade again, or give "
        r"for the whole class a pattern that fits one of them, as in --pattern '(?P<student>[^/]+)/second\.ipynb'"
    )


def _unordered(taken: Claim, others: list[Claim], notebook: str) -> list[Claim]:
    """The files that something else than an attempt or the number of a copy puts behind the one taken."""
    best = _rank(taken, notebook)
    unordered = []
    for each in others:
        pairs = zip(best, _rank(each, notebook), strict=True)
        decides = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
        if decides not in (0, 3):  # the places of `attempt` and `later`
            unordered.append(each)
    return unordered


def _why(taken: Claim, rivals: list[Claim], notebook: str) -> str:
    """Why the file counts before its rivals; "" without rivals."""
    if not rivals:
        return ""
    mine = naming.match_of(taken.file, notebook).closeness
    if all(naming.match_of(each.file, notebook).closeness < mine for each in rivals):
        return f"the one named {'exactly ' * (mine == 3)}like the notebook"
    return "one of several whose names do not tell which is the latest"


def _all(files: list[Claim]) -> str:
    names = sorted(shown(each.found.label) for each in files)
    return f"{', '.join(names[:MOST])}{' …' * (len(names) > MOST)}"
