"""From observations to a verdict.

Two tiers. Ordinary probes decide *which* mistake: a twin is a candidate when it does the same on every ordinary probe,
with finite numbers on at least two. Hard probes are judged separately: they choose among the candidates, or add what
else is wrong ("no scale; and it overflows for large scores").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import describing
from .cards import Verdict
from .comparing import agree, precision, size
from .learner import untouched
from .running import TIME_LIMIT, Deadline, Observation, OutOfTime, observe, tensor_maker

if TYPE_CHECKING:
    from .model import Exercise

NEEDED_EVIDENCE = 2  # ordinary probes with finite numbers on which a twin must agree


@dataclass(frozen=True)
class Recognised:
    """What an answer is. `readings` are the sets of wrong turns that explain it ((): the reference); empty: unknown.

    `surplus` are the hard probes (by index) on which it does something that no reading explains.
    """

    readings: tuple[tuple[str, ...], ...]
    surplus: tuple[int, ...] = ()

    @property
    def correct(self) -> bool:
        return self.readings == ((),) and not self.surplus


class Answer:
    """The observations of one function on all probes of an exercise, made once."""

    def __init__(self, exercise: Exercise, function: Callable, seed: int) -> None:
        self.exercise, self.seed, self.function = exercise, seed, function
        self.ordinary: list[Observation] = []
        self.hard: list[Observation | None] = []
        self.tensors = False

    def run(self, seconds: float) -> bool:
        """Observe; False when time ran out (what was seen until then stays)."""
        with Deadline(seconds) as deadline:
            self._observe()
        return not deadline.fired

    def _observe(self) -> None:
        exercise = self.exercise
        convert = _same
        for probe in exercise.ordinary(self.seed):
            self.ordinary.append(observe(self.function, probe.arguments))
        if tensor := tensor_maker():
            refused = {"TypeError", "AttributeError"}
            if all(o.failure and o.failure.kind in refused for o in self.ordinary):
                as_tensors = [observe(self.function, p.arguments, tensor) for p in exercise.ordinary(self.seed)]
                if any(o.array is not None for o in as_tensors):
                    self.ordinary, self.tensors, convert = as_tensors, True, tensor
        if any(o.array is not None for o in self.ordinary):
            for probe in exercise.hard:
                spared = self.tensors and probe.arrays_only
                self.hard.append(None if spared else observe(self.function, probe.arguments, convert))

    def differences(self, index: int, tier: str) -> Iterator[int]:
        """The probes of a tier on which this answer and the twin `twins[index]` do not do the same.

        Probes that only give advice never count.
        """
        mine = self.hard if tier == "hard" else self.ordinary
        theirs = self.exercise.done_by(index, self.seed, tier)
        probes = self.exercise.probes_of(tier, self.seed)
        for i, (a, b) in enumerate(zip(theirs, mine, strict=False)):
            if b is not None and not probes[i].advice and not self._same(tier, i, a, b):
                yield i

    def advice(self) -> list[str]:
        """What a correct answer may still be told: remarks of the probes that only advise and on which it differs."""
        theirs = self.exercise.done_by(0, self.seed, "hard")
        told = [
            probe.remark
            for i, (probe, a, b) in enumerate(zip(self.exercise.hard, theirs, self.hard, strict=True))
            if probe.advice and b is not None and not self._same("hard", i, a, b)
        ]
        return list(dict.fromkeys(told))

    def _same(self, tier: str, i: int, theirs: Observation, mine: Observation) -> bool:
        probe = self.exercise.probes_of(tier, self.seed)[i]
        rtol = self.exercise.tolerances(self.seed, tier, precision(mine, probe.arguments))[i]
        return agree(theirs, mine, rtol)

    def possible(self, turns: int) -> list[int]:
        """The twins with that many wrong turns that do the same on every ordinary probe.

        A sieve first: their sums must be this answer's. Only what passes is compared in full.
        """
        probes, mine = self.exercise.ordinary(self.seed), np.array([o.total for o in self.ordinary])
        indices, theirs = self.exercise.totals(self.seed, turns)
        atol = np.zeros(len(probes))
        for i, (o, p) in enumerate(zip(self.ordinary, probes, strict=True)):
            if o.array is not None:
                rtol = self.exercise.tolerances(self.seed, "ordinary", precision(o, p.arguments))[i]
                atol[i] = 2 * rtol * o.array.size * size(o.array)
        with np.errstate(invalid="ignore"):
            same = (np.abs(theirs - mine) <= atol) | (theirs == mine)
        same |= np.isnan(theirs) & np.isnan(mine)
        passed = [indices[row] for row in np.flatnonzero(same.all(axis=1))]
        return [i for i in passed if not any(True for _ in self.differences(i, "ordinary"))]

    def evidence(self) -> int:
        return sum(o.finite for o in self.ordinary)


def _same(argument: object) -> object:
    return argument


def recognise(answer: Answer) -> Recognised:
    """Explain an answer with as few wrong turns as possible: none (the reference), one, then two."""
    if answer.evidence() < NEEDED_EVIDENCE:
        return Recognised(())
    twins, partly = answer.exercise.twins, {}
    for turns in (0, 1, 2):
        surplus = {i: tuple(answer.differences(i, "hard")) for i in answer.possible(turns)}
        if explained := [i for i in surplus if not surplus[i]]:
            return Recognised(tuple(twins[i].turns for i in explained))
        partly = partly or surplus
    # Nothing explains the hard probes too. What the simplest candidates all leave open is surely wrong.
    left = set.intersection(*map(set, partly.values())) if partly else ()
    return Recognised(tuple(twins[i].turns for i in partly), tuple(sorted(left)))


def judge(exercise: Exercise, function: Callable, seed: int, seconds: float = TIME_LIMIT) -> Verdict:
    """The verdict on `function`."""
    label = {"number": exercise.number, "name": exercise.name, "points": exercise.points}
    if untouched(function):
        words = f"Replace the dots in {exercise.name} with your code, run that cell, then this one."
        return Verdict("untouched", "Not attempted yet", [words], **label)
    answer = Answer(exercise, function, seed)
    try:
        in_time = answer.run(seconds)
    except OutOfTime:
        in_time = False
    except KeyboardInterrupt:
        return Verdict("unrecognised", "You stopped it", ["Nothing was judged. Run this cell to try again."], **label)
    if not in_time:
        return Verdict("unrecognised", "It did not finish", [describing.endless(seconds)], **label)
    recognised = recognise(answer)
    if recognised.correct:
        advice = [f"One thing more: {remark}" for remark in answer.advice()]
        return Verdict("correct", "Correct", advice, **label, extras=describing.extras(answer))
    return describing.verdict(answer, recognised, label)
