"""Outside of the sandbox: lead a submission through it, and judge what its functions did there.

The sandbox tells what it is about to do.  Where it falls silent, or ends, that step is to blame: it is left out, and
the rest begins anew in a fresh process.  So one endless loop costs one exercise, and no more.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.exercises.engine import Exercise
from attnlab.exercises.engine.cards import Verdict
from attnlab.exercises.engine.implementations import ACCEPTED, REFUSED
from attnlab.exercises.engine.judging import Answer, verdict_on
from attnlab.exercises.engine.model import CHECK_SEED
from attnlab.exercises.engine.parts import Probe
from attnlab.exercises.engine.running import Observation

from . import border
from .answering import OTHER_CELLS, OUT_OF_MEMORY
from .border import BorderError
from .isolation import Limits
from .sandbox import Sandbox, SandboxError

if TYPE_CHECKING:
    from ..intake.submissions import Handed

GRACE = 2.0  # seconds more than the submission has, until it is ended from outside
ALL_STEPS = 12  # times the seconds of one step: what a whole submission may take
ENDLESS = "Is there a loop that never ends?"
USED_UP = "Other parts of the notebook used up its time."
OTHER_NAME = "Its cell defines"
LONGEST_SOURCE = 20_000  # characters of an answer that are kept
_judging = threading.Lock()  # output and warnings are caught for a whole process


@dataclass
class Told:
    """What came out of the sandbox, by exercise, and which steps had to be left out, with the reason."""

    exercises: dict[str, dict] = field(default_factory=dict)
    ended_exercises: dict[str, str] = field(default_factory=dict)
    ended_cells: dict[int, str] = field(default_factory=dict)
    faults: dict[int, tuple[str, str]] = field(default_factory=dict)
    given: dict[int, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """What is known of a submission: verdicts and the code they are on, by number; remarks on the whole of it."""

    verdicts: dict[str, Verdict]
    sources: dict[str, str]
    remarks: tuple[str, ...]


def judged(handed: Handed, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits) -> Judged:
    """Judge each exercise. SandboxError where the sandbox itself fails."""
    told = observed(handed, exercises, sandbox, limits) if handed.cells else Told()
    with _judging:
        verdicts = {each.number: _verdict(each, handed, told, limits) for each in exercises}
    remarks = [
        f"{number}: there is no function {verdict.name}. {verdict.words[0]}"
        for number, verdict in verdicts.items()
        if verdict.status == "missing" and verdict.words[0].startswith(OTHER_NAME)
    ]
    return Judged(verdicts, {each.number: _source(each, handed, told) for each in exercises}, tuple(remarks))


def _source(exercise: Exercise, handed: Handed, told: Told) -> str:
    """The code that was judged: of the cell whose function counted, or else of the answer's own."""
    place = told.exercises.get(exercise.number, {}).get("cell")
    if type(place) is int and 0 <= place < len(handed.cells):
        return handed.cells[place].source[:LONGEST_SOURCE]
    return "\n\n".join(c.source for c in handed.cells if c.answers == exercise.number)[:LONGEST_SOURCE]


# ---- the conversation -----------------------------------------------------------------------------------------------


def observed(handed: Handed, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits) -> Told:
    """Lead a submission through the sandbox, as often as it takes."""
    told, end = Told(), time.monotonic() + ALL_STEPS * limits.seconds
    work = {
        "cells": [{"source": c.source, "number": c.answers, "checks": c.checks} for c in handed.cells],
        "exercises": [_task(each) for each in exercises],
        "seconds": limits.seconds,
        "memory": limits.memory,
    }
    while True:
        settled = sorted({*told.exercises, *told.ended_exercises})
        work["skip"] = {"cells": sorted(told.ended_cells), "exercises": settled}
        if _once(work, exercises, sandbox, limits, told, end):
            return told
        if time.monotonic() > end:
            for each in exercises:
                if each.number not in told.exercises:
                    told.ended_exercises.setdefault(each.number, USED_UP)
            return told


def _once(work: dict, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits, told: Told, end: float) -> bool:
    """One process: what it tells goes to `told`, and the step that had to be ended, with the reason. True at the end.

    A process that ends after other exercises may do so for what they left: memory, threads, a damaged heap. Nobody is
    to blame, and the step begins anew, first in its process.
    """
    outside = {each.number: _implementations(each) for each in exercises if each.tests}
    step, steps, before = None, _steps(work), len(told.exercises)
    until = time.monotonic() + GRACE + limits.seconds
    with sandbox.start(limits) as channel:
        try:
            channel.settimeout(10)
            border.send(channel, work)
            while True:
                message = border.receive(channel, until)
                if message is None:
                    status = sandbox.end(2.0)
                    if len(told.exercises) > before:
                        return False
                    reason = _how_it_ended(status)
                    break
                if not isinstance(message, dict):
                    raise BorderError("no dict")
                if "done" in message:
                    sandbox.end(0)
                    return True
                if "at" in message:
                    step = _next(message["at"], steps)
                    until = min(time.monotonic() + _seconds(step, work, limits) + GRACE, end)
                elif "call" in message:
                    found = outside[step[1]][message["call"]] if step[0] == "exercise" else None
                    reply = border.answered(found, message["arguments"], message["named"])
                    channel.settimeout(10)
                    border.send(channel, reply)
                elif "faults" in message:
                    told.faults, told.given = _about_cells(message, len(work["cells"]))
                elif ("exercise", message["exercise"]) == step:
                    told.exercises[step[1]] = message
        except TimeoutError:
            in_time = time.monotonic() < end
            reason = f"It did not come to an end and was stopped. {ENDLESS}" if in_time else USED_UP
        except (BorderError, ConnectionError, KeyError, TypeError, ValueError, AttributeError) as error:
            words = str(error) if isinstance(error, BorderError) else type(error).__name__
            reason = f"It disturbed its own grading, or returned far too much: {words}."
    sandbox.end(0)
    if step is None:
        raise SandboxError("a submission's process ended before it began its work")
    kind, which = step
    (told.ended_exercises if kind == "exercise" else told.ended_cells)[which] = reason
    return False


def _steps(work: dict) -> Iterator[tuple[str, Any]]:
    """What is done, in this order: each cell is read, those that are needed are run, each exercise is asked.

    Who announced a step that is not its turn could call what belongs to another exercise.
    """
    skip = work["skip"]
    cells = [i for i in range(len(work["cells"])) if i not in skip["cells"]]
    yield from (("reading", i) for i in cells)
    yield from (("cell", i) for i in cells)
    yield from (("exercise", t["number"]) for t in work["exercises"] if t["number"] not in skip["exercises"])


def _next(said: Any, steps: Iterator[tuple[str, Any]]) -> tuple[str, Any]:
    kind, which = said
    for step in steps:
        if step == (kind, which) and type(which) is type(step[1]):
            return step
        if step[0] != "cell":  # of the cells, those that nothing needs are passed over
            break
    raise BorderError("a step that is not its turn")


def _about_cells(message: dict, cells: int) -> tuple[dict[int, tuple[str, str]], dict[int, list[str]]]:
    """Which cells failed, and the names that they give, of as many cells as there are."""
    faults, given = message["faults"], message["given"]
    if type(faults) is not list or type(given) is not dict or max(len(faults), len(given)) > cells:
        raise BorderError("more cells than there are")
    return (
        {i: (_cut(words), _cut(line)) for i, words, line in faults},
        {int(i): [_cut(name) for name in names[:50]] for i, names in given.items()},
    )


def _cut(text: Any) -> str:
    """The beginning of a text, and nothing of what is none: to write out an array may take for ever."""
    return text[: border.KEPT_TEXT] if type(text) is str else ""


def _seconds(step: tuple[str, Any], work: dict, limits: Limits) -> float:
    kind, which = step
    other = kind == "cell" and not work["cells"][which]["number"]
    return limits.seconds * (OTHER_CELLS if other else 1)


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "It closed the way out and did not end; it was stopped."
    if status == OUT_OF_MEMORY:
        return "It used up all the memory it may have. Is its result very large? Does something grow in every call?"
    if status < 0:
        name = {int(each): each.name for each in signal.Signals}.get(-status, f"signal {-status}")
        why = {"SIGKILL": "was killed, perhaps for the memory it took", "SIGSEGV": "crashed: a segmentation fault"}
        return f"Python itself {why.get(name, 'was ended')} ({name})."
    return f"It ended Python, with exit status {status}. A function gives its result back with `return`."


def _task(exercise: Exercise) -> dict:
    """What the sandbox is told of an exercise: its calls, and nothing of what is expected."""
    asked = exercise.asked()

    def probes(found: Sequence[Probe], tier: str) -> list[dict]:
        return [
            {
                "arguments": tuple({"implementation": f"{tier} {i}"} if callable(a) else a for a in probe.arguments),
                "arrays_only": probe.arrays_only,
                "at_most": probe.at_most,
            }
            for i, probe in enumerate(found)
        ]

    return {
        "number": exercise.number,
        "name": exercise.name,
        "ordinary": probes(asked.ordinary, "ordinary"),
        "hard": probes(asked.hard, "hard"),
        "gradients": list(asked.gradients),
        "test": asked.test,
    }


def _implementations(exercise: Exercise) -> dict[str, Any]:
    """The implementations that a test is tried on, new ones: some count their calls, and each submission is alone."""
    fresh = exercise.drawn_anew(CHECK_SEED)
    return {f"{tier} {i}": probe.arguments[0] for tier, found in fresh.items() for i, probe in enumerate(found)}


# ---- the verdict ----------------------------------------------------------------------------------------------------


def _verdict(exercise: Exercise, handed: Handed, told: Told, limits: Limits) -> Verdict:
    label, said = exercise.label, told.exercises.get(exercise.number)
    ended = told.ended_exercises.get(exercise.number)
    if ended and not said:
        return Verdict("unrecognised", "It did not finish", [ended], **label)
    if said is None:
        return _missing(exercise, handed, told)
    state = _cut(said.get("state"))
    if state == "missing":
        return _missing(exercise, handed, told)
    if state == "untouched":
        words = f"The body of `{exercise.name}` is as it was handed out."
        return Verdict("untouched", "Not attempted", [words], **label)
    if state == "no function":
        words = f"At the end of the notebook, the name means an object of type {_cut(said.get('kind'))[:100]}."
        return Verdict("missing", f"{exercise.name} is not a function", [words], **label)
    if state == "endless":
        words = f"It was still running after {limits.seconds:g} seconds and was stopped. {ENDLESS}"
        return Verdict("unrecognised", "It did not finish", [words], **label)
    if state == "unreadable":
        words = f"What it returned could not be looked at: {_cut(said.get('words'))[:300]}"
        return Verdict("unrecognised", "Not right yet", [words], **label)
    try:
        return verdict_on(believed(exercise, said))
    except Exception as error:
        if not isinstance(error, BorderError | KeyError):
            fault = f"{type(error).__name__}: {error}"
            words = f"A fault of the course ({fault}). Please report it; a person has to grade this."
            return Verdict("internal", "The checker itself failed", [words[:1000]], **label)
        words = f"What came back from grading it was not what a function does ({error})."
        return Verdict("unrecognised", "It disturbed its own grading", [words], **label)


def believed(exercise: Exercise, said: dict) -> Answer:
    """The answer whose observations these are. BorderError where they are not those that were asked for."""
    answer = Answer(exercise, exercise.reference, CHECK_SEED)
    for tier in ("ordinary", "hard"):
        probes, came = exercise.probes_of(tier, CHECK_SEED), said[tier]
        # Hard probes are asked unless no ordinary one gave a result; spared are those for arrays, and no others.
        none_given = tier == "hard" and not any(o is not None and o.array is not None for o in answer.ordinary)
        if not isinstance(came, list) or len(came) != (0 if none_given else len(probes)):
            raise BorderError("the number of observations")
        seen = [
            border.believed(each, len(probe.arguments), probe.at_most)
            for each, probe in zip(came, probes, strict=False)
        ]
        if any(o is None and not probe.arrays_only for o, probe in zip(seen, probes, strict=False)):
            raise BorderError("an observation is missing")
        if exercise.tests and not all(o.failure or _judges(o) for o in seen):
            raise BorderError("a test that neither accepts nor refuses")
        for o, probe in zip(seen, probes, strict=False):
            if o is not None and o.array is not None and not _fits(o, probe, exercise):
                raise BorderError("gradients of another shape")
        setattr(answer, tier, seen)
    return answer


def _judges(seen: Observation) -> bool:
    return seen.array is not None and seen.array.shape == () and float(seen.array) in (ACCEPTED, REFUSED)


def _fits(seen: Observation, probe: Probe, exercise: Exercise) -> bool:
    """Whether each gradient has the shape of what it was taken by."""
    shapes = [np.shape(probe.arguments[exercise.parameters.index(name)]) for name in exercise.gradient_of]
    return len(seen.gradients) == len(shapes) and all(
        gradient is None or gradient.shape == shape for gradient, shape in zip(seen.gradients, shapes, strict=True)
    )


def _missing(exercise: Exercise, handed: Handed, told: Told) -> Verdict:
    """There is no function of that name: perhaps since its cell failed, or has another name, or is gone."""
    label, name = exercise.label, exercise.name
    mine = [i for i, cell in enumerate(handed.cells) if cell.answers == exercise.number]
    for place in mine:
        if place in told.ended_cells:
            return Verdict("unrecognised", "The cell of the answer does not finish", [told.ended_cells[place]], **label)
        if place in told.faults:
            words, line = told.faults[place]
            said = f"Running it stops with `{words}`" + (f", at `{line}`." if line else ".")
            return Verdict("unrecognised", "The cell of the answer does not run", [said], **label)
    others = sorted({n for place in mine for n in told.given.get(place, [])} - {name})
    if others:
        listed = ", ".join(f"`{other}`" for other in others[:5])
        words = f"{OTHER_NAME} {listed}; the function has to be called `{name}`."
    elif mine:
        words = "The cell of the answer defines no function."
    elif handed.cells:
        words = "The notebook has no cell for this answer, and no other one defines the function."
    else:
        words = "No code could be read in what was handed in."
    return Verdict("missing", f"There is no function {name}", [words], **label)
