"""What a class has understood, as plain data: who is right, and which misunderstanding how many have.

An answer is counted once in its exercise's tally.  A misunderstanding counts the answers that show it: two mistakes at
once count for each of them; a verdict with several readings ("either … or …") counts for one entry that lists them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from attnlab.exercises.engine import Exercise, Wrong
from attnlab.exercises.engine.cards import Verdict

from ..assignments import Assignment
from ..results import Result
from .pages import LONGEST_LINE, Section, cut, in_order, section_of

STATES = ("correct", "recognised", "unrecognised", "untouched", "missing", "unjudged")
MISTAKE, HARD = "mistake", "hard input"

# Where words quote the answer itself: at `a line` (a message).
_OWN = re.compile(
    r" at `(.*?)`(?=\. The inputs: )|, at `(.*?)`(?=\.$)|(?: at `(.*?)`)?(?: \(.*\))?(?=\. Only AssertionError )",
    re.DOTALL,
)

Readings = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Misunderstanding:
    """One wrong idea in one exercise, and who has it.

    kind        "mistake": a recognised wrong turn; "hard input": right on ordinary inputs, not on these
    readings    its words: one text; several where behaviour cannot tell them apart (then a reading may be two texts)
    turns       the names in `exercise.wrong`, or of the hard probes
    questions   the hints, as questions for the class
    students    their ids, in order, each once
    attempted   how many attempted the exercise at all
    """

    exercise: str
    name: str
    section: Section
    kind: str
    readings: Readings
    turns: tuple[str, ...]
    questions: tuple[str, ...]
    seen_in: tuple[str, ...]
    students: tuple[str, ...]
    attempted: int

    @property
    def count(self) -> int:
        return len(self.students)

    @property
    def share(self) -> float:
        """Of those who attempted the exercise."""
        return self.count / self.attempted

    @property
    def text(self) -> str:
        texts = [" And: ".join(reading) for reading in self.readings]
        return texts[0] if len(texts) == 1 else "Either: " + " Or: ".join(texts)

    @property
    def key(self) -> tuple:
        """The same for the same words, in any exercise."""
        return self.kind, frozenset(map(frozenset, self.readings))


@dataclass(frozen=True)
class Everywhere:
    """The same misunderstanding in several exercises. Each student is counted once in `students`."""

    found: tuple[Misunderstanding, ...]
    students: tuple[str, ...]

    @property
    def answers(self) -> int:
        return sum(each.count for each in self.found)


@dataclass(frozen=True)
class Tally:
    """One exercise: how many answers are in each of the STATES. Their sum is the number of submissions."""

    exercise: Exercise
    counts: dict[str, int]

    @property
    def attempted(self) -> int:
        return sum(self.counts[state] for state in STATES[:3])

    @property
    def recognised(self) -> int:
        return self.counts["recognised"]


@dataclass(frozen=True)
class Reteach:
    """A section of the book, the students with a wrong answer there, and what to ask the class."""

    section: Section
    exercises: tuple[str, ...]
    students: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Unknown:
    """Answers that nobody has a name for and that look alike: title, first words, who; one line of code as example."""

    exercise: str
    name: str
    title: str
    words: str
    students: tuple[str, ...]
    example: str = ""


@dataclass
class _Entry:
    readings: Readings
    wrongs: list[Wrong]
    turns: set[str] = field(default_factory=set)
    students: set[str] = field(default_factory=set)


def ordered(results: Iterable[Result]) -> list[Result]:
    """The results by student. ValueError where a student comes twice: each would count twice."""
    results = sorted(results, key=lambda result: in_order(result.student))
    twice = [one.student for one, other in itertools.pairwise(results) if one.student == other.student]
    if twice:
        raise ValueError(
            f"Several results of {', '.join(map(repr, twice[:5]))}. A report takes one result a student: make one "
            "report for each notebook, of the submissions that count."
        )
    return results


def state(result: Result, exercise: Exercise) -> str:
    """In which of the STATES an answer is."""
    verdict = result.verdicts.get(exercise.number)
    status = verdict.status if verdict else "missing"
    return status if status in STATES else "unjudged"


def tally(assignment: Assignment, results: list[Result]) -> list[Tally]:
    """Every exercise with its counts, in the assignment's order."""
    found = []
    for exercise in assignment.exercises:
        counts = Counter(state(result, exercise) for result in results)
        found.append(Tally(exercise, {each: counts[each] for each in STATES}))
    return found


def misunderstandings(assignment: Assignment, results: Iterable[Result]) -> list[Misunderstanding]:
    """Every misunderstanding that occurs, by exercise: first the mistakes, then the hard inputs, most frequent first.

    The same in whatever order the results come. ValueError where a student has several results.
    """
    results = ordered(results)
    found = []
    for each in tally(assignment, results):
        entries: dict[tuple, _Entry] = {}
        for result in results:
            if verdict := result.verdicts.get(each.exercise.number):
                for kind, turns, entry in _shown(each.exercise, verdict):
                    kept = entries.setdefault((kind, frozenset(map(frozenset, entry.readings))), entry)
                    kept.turns |= turns
                    kept.students.add(result.student)
        made = [_made(each, kind, entry) for (kind, _), entry in entries.items()]
        found += sorted(made, key=lambda one: (one.kind != MISTAKE, -one.count, one.text))
    return found


def _made(of: Tally, kind: str, entry: _Entry) -> Misunderstanding:
    exercise = of.exercise
    return Misunderstanding(
        exercise.number,
        exercise.name,
        section_of(exercise),
        kind,
        entry.readings,
        tuple(sorted(entry.turns)),
        tuple(dict.fromkeys(wrong.hint for wrong in entry.wrongs if wrong.hint)),
        tuple(dict.fromkeys(wrong.seen_in for wrong in entry.wrongs if wrong.seen_in)),
        tuple(sorted(entry.students, key=in_order)),
        of.attempted,
    )


def _shown(exercise: Exercise, verdict: Verdict) -> Iterable[tuple[str, set[str], _Entry]]:
    """What one answer shows: (kind, names of turns, the entry that it counts for)."""
    place = {wrong.text: i for i, wrong in enumerate(exercise.wrong.values())}
    named = {turn: exercise.wrong.get(turn, Wrong(turn)) for reading in verdict.turns for turn in reading}
    of_text = {wrong.text: wrong for wrong in named.values()}

    def entry(readings: Iterable[Iterable[str]]) -> tuple[str, set[str], _Entry]:
        rows = sorted(tuple(sorted(one, key=lambda text: place.get(text, 0))) for one in readings)
        rows.sort(key=lambda row: [place.get(text, 0) for text in row])
        texts = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
        turns = {turn for turn, wrong in named.items() if wrong.text in texts}
        return MISTAKE, turns, _Entry(tuple(rows), [of_text[text] for text in texts])

    if verdict.turns:
        readings = [frozenset(named[turn].text for turn in reading) for reading in verdict.turns]
        certain = frozenset.intersection(*readings)  # what every reading says is no "either … or …"
        yield from (entry([[text]]) for text in sorted(certain))
        open_ = {reading - certain for reading in readings}
        if frozenset() not in open_:
            yield entry(open_)
    if verdict.remarks:
        probes = {probe.name: probe for probe in exercise.hard}
        texts = defaultdict(set)
        for name in verdict.remarks:
            texts[probes[name].remark if name in probes else name].add(name)
        for text, names in texts.items():
            seen = next((probes[name].seen_in for name in sorted(names) if name in probes), "")
            yield HARD, names, _Entry(((text,),), [Wrong(text, seen)])


def everywhere(found: list[Misunderstanding]) -> list[Everywhere]:
    """The misunderstandings that occur in more than one exercise, most students first."""
    groups = defaultdict(list)
    for each in found:
        groups[each.key].append(each)
    several = [
        Everywhere(tuple(group), tuple(sorted({s for each in group for s in each.students}, key=in_order)))
        for group in groups.values()
        if len(group) > 1
    ]
    return sorted(several, key=lambda one: (-len(one.students), -one.answers, one.found[0].text))


def to_reteach(assignment: Assignment, results: list[Result], found: list[Misunderstanding]) -> list[Reteach]:
    """The sections where somebody had a wrong answer, most students first; then in the assignment's order."""
    places: dict[Section, list[Exercise]] = defaultdict(list)
    for exercise in assignment.exercises:
        places[section_of(exercise)].append(exercise)
    made = []
    for section, exercises in places.items():
        wrong = {e: [r.student for r in results if state(r, e) in ("recognised", "unrecognised")] for e in exercises}
        there = sorted((one for one in found if one.section == section), key=lambda one: -one.count)
        questions = dict.fromkeys(question for one in there for question in one.questions[:1])
        if any(wrong.values()):
            students = sorted(set().union(*wrong.values()), key=in_order)
            numbers = tuple(e.number for e in exercises if wrong[e])
            made.append(Reteach(section, numbers, tuple(students), tuple(questions)[:2]))
    return sorted(made, key=lambda one: -len(one.students))


def unknown(assignment: Assignment, results: list[Result]) -> list[Unknown]:
    """The answers that are wrong and not recognised, alike ones together; by exercise, most frequent first."""
    groups: dict[tuple, list[tuple[str, str]]] = defaultdict(list)
    for exercise, result in itertools.product(assignment.exercises, results):
        if state(result, exercise) == "unrecognised":
            verdict = result.verdicts[exercise.number]
            words, example = _without_code(verdict.words[0] if verdict.words else "")
            groups[exercise, cut(verdict.title, LONGEST_LINE), words].append((result.student, example))
    made = [
        Unknown(exercise.number, exercise.name, title, words, tuple(s for s, _ in group), _commonest(group))
        for (exercise, title, words), group in groups.items()
    ]
    place = {exercise.number: i for i, exercise in enumerate(assignment.exercises)}
    return sorted(made, key=lambda one: (place[one.exercise], -len(one.students), one.title, one.words))


def _without_code(words: str) -> tuple[str, str]:
    """The words without what is the answer's own (a line of code, a message), so that alike ones meet; and the line."""
    found = _OWN.search(words)
    if not found:
        return cut(words, LONGEST_LINE), ""
    line = next(filter(None, found.groups()), "")
    return cut(words[: found.start()] + words[found.end() :], LONGEST_LINE), cut(line, LONGEST_LINE)


def _commonest(group: list[tuple[str, str]]) -> str:
    counts = Counter(example for _, example in group if example)
    return min(counts, key=lambda example: (-counts[example], example), default="")


def unreadable(results: list[Result]) -> list[Result]:
    """Those who handed in nothing that could be read: no answer was found and no words, and something is said why."""
    return [
        result
        for result in results
        if not any(result.words.values()) and all(v.status == "missing" for v in result.verdicts.values())
    ]
