"""Outside of the sandbox: lead a submission through it, and judge what its functions did there.

The sandbox tells what it is about to do.  Where it falls silent, or ends, that step is to blame: it is left out, and
the rest begins anew in a fresh process.  So one endless loop costs one exercise, and no more.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnlab.exercises.engine import Exercise
from attnlab.exercises.engine.cards import Verdict
from attnlab.exercises.engine.judging import Answer, verdict_on
from attnlab.exercises.engine.model import CHECK_SEED
from attnlab.exercises.engine.parts import Probe

from . import border
from .answering import OTHER_CELLS
from .border import BorderError
from .isolation import Limits
from .sandbox import Sandbox, SandboxError

if TYPE_CHECKING:
    from .submissions import Handed

GRACE = 2.0  # seconds more than the submission has, until it is ended from outside
ALL_STEPS = 12  # times the seconds of one step: what all steps of a submission may take that had to be ended
ENDLESS = "Is there a loop that never ends?"
_judging = threading.Lock()  # output and warnings are caught for a whole process


@dataclass
class Told:
    """What came out of the sandbox, by exercise, and which steps had to be left out, with the reason."""

    exercises: dict[str, dict] = field(default_factory=dict)
    ended_exercises: dict[str, str] = field(default_factory=dict)
    ended_cells: dict[int, str] = field(default_factory=dict)
    faults: dict[int, tuple[str, str]] = field(default_factory=dict)
    given: dict[int, list[str]] = field(default_factory=dict)


def judged(handed: Handed, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits) -> dict[str, Verdict]:
    """The verdict on each exercise, by number. SandboxError where the sandbox itself fails."""
    if not handed.cells:
        return {each.number: _missing(each, handed, Told()) for each in exercises}
    told = observed(handed, exercises, sandbox, limits)
    with _judging:
        return {each.number: _verdict(each, handed, told, limits) for each in exercises}


# ---- the conversation -----------------------------------------------------------------------------------------------


def observed(handed: Handed, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits) -> Told:
    """Lead a submission through the sandbox, as often as it takes."""
    told, lost = Told(), 0.0
    work = {
        "cells": [{"source": cell.source, "number": cell.answers} for cell in handed.cells],
        "exercises": [_task(each) for each in exercises],
        "seconds": limits.seconds,
    }
    while True:
        settled = sorted({*told.exercises, *told.ended_exercises})
        work["skip"] = {"cells": sorted(told.ended_cells), "exercises": settled}
        began, (step, reason) = time.monotonic(), _once(work, exercises, sandbox, limits, told)
        if step is None:
            return told
        kind, which = step
        (told.ended_cells if kind == "cell" else told.ended_exercises)[which] = reason
        lost += time.monotonic() - began
        if lost > ALL_STEPS * limits.seconds:
            for each in exercises:
                if each.number not in told.exercises:
                    told.ended_exercises.setdefault(each.number, "Earlier parts of the notebook used up its time.")
            return told


def _once(
    work: dict, exercises: Sequence[Exercise], sandbox: Sandbox, limits: Limits, told: Told
) -> tuple[tuple[str, Any] | None, str]:
    """One process: what it tells goes to `told`. The step that had to be ended and why, or (None, "") at the end."""
    outside = {each.number: _implementations(each) for each in exercises if each.tests}
    by_number, step, until = {each.number: each for each in exercises}, None, time.monotonic() + 10
    with sandbox.start(limits) as channel:
        try:
            channel.settimeout(10)
            border.send(channel, work)
            while True:
                message = border.receive(channel, until)
                if message is None:
                    reason = _how_it_ended(sandbox.end(2.0))
                    break
                if not isinstance(message, dict):
                    raise BorderError("no dict")
                if "done" in message:
                    sandbox.end(0)
                    return None, ""
                if "at" in message:
                    step = _step(message["at"], work)
                    until = time.monotonic() + _seconds(step, work, limits) + GRACE
                elif "call" in message:
                    found = outside.get(step and step[1], {}).get(message["call"])
                    reply = border.answered(found, message["arguments"], message["named"])
                    channel.settimeout(10)
                    border.send(channel, reply)
                elif "faults" in message:
                    told.faults = {i: (str(words), str(line)) for i, words, line in message["faults"]}
                    told.given = {int(i): [str(n) for n in names] for i, names in message["given"].items()}
                elif (number := message.get("exercise")) in by_number and number not in told.exercises:
                    told.exercises[number] = message
        except TimeoutError:
            reason = f"It did not come to an end and was stopped. {ENDLESS}"
        except (BorderError, ConnectionError, KeyError, TypeError, ValueError, AttributeError) as error:
            words = str(error) if isinstance(error, BorderError) else type(error).__name__
            reason = f"It disturbed its own grading, or returned far too much: {words}."
    sandbox.end(0)
    if step is None:
        raise SandboxError("a submission's process ended before it began its work")
    return step, reason


def _step(said: Any, work: dict) -> tuple[str, Any]:
    kind, which = said
    known = range(len(work["cells"])) if kind == "cell" else [task["number"] for task in work["exercises"]]
    if kind not in ("cell", "exercise") or which not in known:
        raise BorderError("a step that is none")
    return kind, which


def _seconds(step: tuple[str, Any], work: dict, limits: Limits) -> float:
    kind, which = step
    other = kind == "cell" and not work["cells"][which]["number"]
    return limits.seconds * (OTHER_CELLS if other else 1)


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "It closed the way out and did not end; it was stopped."
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
    state = said.get("state")
    if state == "missing":
        return _missing(exercise, handed, told)
    if state == "untouched":
        words = f"The body of `{exercise.name}` is as it was handed out."
        return Verdict("untouched", "Not attempted", [words], **label)
    if state == "no function":
        words = f"At the end of the notebook, the name means an object of type {str(said.get('kind'))[:100]}."
        return Verdict("missing", f"{exercise.name} is not a function", [words], **label)
    if state == "endless":
        words = f"It was still running after {limits.seconds:g} seconds and was stopped. {ENDLESS}"
        return Verdict("unrecognised", "It did not finish", [words], **label)
    if state == "unreadable":
        words = f"What it returned could not be looked at: {str(said.get('words'))[:300]}"
        return Verdict("unrecognised", "Not right yet", [words], **label)
    try:
        return verdict_on(believed(exercise, said))
    except (BorderError, KeyError, TypeError) as error:
        words = f"What came back from grading it was not what a function returns ({error})."
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
        if any(o is not None and len(o.gradients) not in (0, len(exercise.gradient_of)) for o in seen):
            raise BorderError("the number of gradients")
        setattr(answer, tier, seen)
    return answer


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
        words = f"Its cell defines {listed}; the function has to be called `{name}`."
    elif mine:
        words = "The cell of the answer defines no function."
    else:
        words = "The notebook has no cell for this answer, and no other one defines the function."
    return Verdict("missing", f"There is no function {name}", [words], **label)
