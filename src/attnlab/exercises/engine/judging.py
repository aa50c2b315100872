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
from .comparing import agree, precision
from .learner import untouched
from .running import TIME_LIMIT, Deadline, Observation, OutOfTime, loaded_torch, observe

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
        if torch := loaded_torch():
            refused = {"TypeError", "AttributeError"}
            if all(o.failure and o.failure.kind in refused for o in self.ordinary):
                as_tensors = [
                    observe(self.function, p.arguments, torch.from_numpy) for p in exercise.ordinary(self.seed)
                ]
                if any(o.array is not None for o in as_tensors):
                    self.ordinary, self.tensors, convert = as_tensors, True, torch.from_numpy
        if any(o.array is not None for o in self.ordinary):
            for probe in exercise.hard:
                spared = self.tensors and probe.arrays_only
                self.hard.append(None if spared else observe(self.function, probe.arguments, convert))

    def differences(self, index: int, tier: str) -> Iterator[int]:
        """The probes of a tier on which this answer and the twin `twins[index]` do not do the same."""
        mine = self.hard if tier == "hard" else self.ordinary
        theirs = self.exercise.done_by(index, self.seed, tier)
        probes = self.exercise.probes_of(tier, self.seed)
        for i, (a, b) in enumerate(zip(theirs, mine, strict=False)):
            if b is not None:
                atol = self.exercise.tolerances(self.seed, tier, precision(b, probes[i].arguments))[i]
                if not agree(a, b, atol):
                    yield i

    def possible(self) -> np.ndarray:
        """Indices of the twins whose sums on the ordinary probes are this answer's: only those are compared in full."""
        probes, mine = self.exercise.ordinary(self.seed), np.array([o.total for o in self.ordinary])
        theirs = self.exercise.totals(self.seed)
        atol = [
            self.exercise.tolerances(self.seed, "ordinary", precision(o, p.arguments))[i] * max(np.size(o.array), 1)
            for i, (o, p) in enumerate(zip(self.ordinary, probes, strict=True))
        ]
        with np.errstate(invalid="ignore"):
            same = (
                (np.abs(theirs - mine) <= np.array(atol) * (1 + np.abs(theirs)))
                | (theirs == mine)
                | (np.isnan(theirs) & np.isnan(mine))
            )
        return np.flatnonzero(same.all(axis=1))

    def evidence(self) -> int:
        return sum(o.finite for o in self.ordinary)


def _same(argument: object) -> object:
    return argument


def recognise(answer: Answer) -> Recognised:
    """Explain an answer with as few wrong turns as possible."""
    twins = answer.exercise.twins
    if answer.evidence() < NEEDED_EVIDENCE:
        return Recognised(())
    candidates = [i for i in answer.possible() if not any(True for _ in answer.differences(i, "ordinary"))]
    if not candidates:
        return Recognised(())
    surplus = {i: tuple(answer.differences(i, "hard")) for i in candidates}
    explained = [i for i in candidates if not surplus[i]] or candidates
    fewest = min(len(twins[i].turns) for i in explained)
    best = [i for i in explained if len(twins[i].turns) == fewest]
    left = surplus[best[0]]
    if left:  # several candidates, none explains the hard probes: what all of them leave open is what is surely wrong
        left = tuple(i for i in left if all(i in surplus[j] for j in best))
    return Recognised(tuple(twins[i].turns for i in best), left)


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
        return Verdict("correct", "Correct", [], **label, extras=describing.extras(answer))
    return describing.verdict(answer, recognised, label)
