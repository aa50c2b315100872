"""From observations to a verdict.

Two tiers. Ordinary probes decide *which* mistake: a twin is a candidate when it does the same on every ordinary probe,
with mostly finite numbers on at least two. Hard probes are judged separately: they choose among the candidates, or add
what else is wrong ("no scale; and it overflows for large scores").
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from . import describing
from .cards import Verdict
from .comparing import agree, precision, size
from .learner import untouched
from .observing import Observations
from .running import TIME_LIMIT, Observation
from .tensors import missing_torch, torch_is_there

if TYPE_CHECKING:
    from .model import Exercise

_ONE_AT_A_TIME = threading.RLock()  # output and settings belong to the whole process
_here = threading.local()
NEEDED_EVIDENCE = 2  # ordinary probes with mostly finite numbers on which a twin must agree


@dataclass(frozen=True)
class Recognised:
    """What an answer is. `readings` are the sets of wrong turns that explain it ((): the reference); empty: unknown.

    `surplus` are the hard probes (by index) on which it does something wrong that no reading explains.
    """

    readings: tuple[tuple[str, ...], ...]
    surplus: tuple[int, ...] = ()

    @property
    def correct(self) -> bool:
        return self.readings == ((),) and not self.surplus


class Answer(Observations):
    """A function's observations beside the exercise that knows what is expected."""

    def __init__(self, exercise: Exercise, function: Callable, seed: int) -> None:
        super().__init__(exercise.asked(seed), function)
        self.exercise, self.seed = exercise, seed

    def differences(self, index: int, tier: str, *, forward: bool = False) -> Iterator[int]:
        """The probes of a tier on which this answer and the twin `twins[index]` do not do the same.

        Probes that only give advice never count. With `forward`, gradients and bytes do not count either.
        """
        probes = self.exercise.probes_of(tier, self.seed)
        for i, mine in enumerate(self.hard if tier == "hard" else self.ordinary):
            if mine is not None and not probes[i].advice and not self._same(index, tier, i, mine, forward):
                yield i

    def shows(self, reading: tuple[str, ...], tier: str, i: int, *, forward: bool) -> set[str]:
        """The wrong turns of a reading that can be seen on one probe: each makes a difference, alone and to the rest.

        Alignment cannot be seen on a square mask, and no wrong scale where another mistake makes all numbers NaN.
        """
        does = {twin.turns: index for index, twin in enumerate(self.exercise.twins)}

        def differ(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
            seen = self.exercise.does(does[other], tier, i, self.seed)
            return not self._same(does[one], tier, i, seen, forward)

        rest = {turn: tuple(other for other in reading if other != turn) for turn in reading}
        return {turn for turn in reading if differ((), (turn,)) and differ(rest[turn], reading)}

    def values_right(self) -> bool:
        """True where no value differs from the reference's on any probe, gradients and bytes aside."""
        return not any(True for tier in ("ordinary", "hard") for _ in self.differences(0, tier, forward=True))

    def wrong_gradient(self, tier: str, i: int) -> int | None:
        """Which of the gradients on one probe differs from the reference's."""
        expected, mine = self.exercise.does(0, tier, i, self.seed), (self.hard if tier == "hard" else self.ordinary)[i]
        for by in range(len(expected.gradients)):
            one, other = (replace(o, gradients=o.gradients[by : by + 1]) for o in (expected, mine))
            if not agree(one, other, self._tolerance(tier, i, mine)):
                return by
        return None

    def advice(self) -> list[str]:
        """What a correct answer may still be told: remarks of the probes that only advise and on which it differs."""
        pairs = list(zip(self.exercise.hard, self.hard, strict=True))
        uncounted = any(p.at_most and o is not None and o.held is None for p, o in pairs)
        told = [
            probe.remark
            for i, (probe, mine) in enumerate(pairs)
            if probe.advice and mine is not None and not self._same(0, "hard", i, mine)
            if not (probe.arrays_only and uncounted)  # it works with tensors, whatever it was given
        ]
        return list(dict.fromkeys(told + [describing.UNCOUNTED] * uncounted))

    def _same(self, index: int, tier: str, i: int, mine: Observation, forward: bool = False) -> bool:
        twin, rtol = self.exercise.does(index, tier, i, self.seed), self._tolerance(tier, i, mine)
        if forward:
            twin, mine = (replace(o, gradients=(), heavy=None) for o in (twin, mine))
        return agree(twin, mine, rtol)

    def _tolerance(self, tier: str, i: int, mine: Observation) -> float:
        if self.exercise.tests:
            return 0.0
        dtype = precision(mine, self.exercise.probes_of(tier, self.seed)[i].arguments)
        seed = 0 if tier == "hard" else self.seed  # hard probes are the same for every seed
        return self.exercise.tolerances(seed, tier, dtype)[i]

    def possible(self, turns: int) -> list[int]:
        """The twins with that many wrong turns that do the same on every ordinary probe.

        A sieve first: their mark on the first probe must be this answer's. Only what passes is compared in full.
        """
        first = self.ordinary[0]
        indices, marks = self.exercise.marks(self.seed, turns)
        atol = 0.0
        if first.array is not None:
            atol = 2 * self._tolerance("ordinary", 0, first) * first.array.size * size(first.array)
        with np.errstate(invalid="ignore"):
            same = (np.abs(marks - first.mark) <= atol) | (marks == first.mark)
        same |= np.isnan(marks) & np.isnan(first.mark)
        passed = [indices[row] for row in np.flatnonzero(same)]
        return [i for i in passed if not any(True for _ in self.differences(i, "ordinary"))]

    def evidence(self) -> int:
        return sum(o.telling for o in self.ordinary)


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
    # Nothing explains the hard probes too. What is right there needs no explanation: code with the same wrong turn need
    # not fail wherever the twin does. Named are the twins that leave the least open; what all of these leave open, and
    # is wrong, is wrong beside them.
    wrong = set(answer.differences(0, "hard"))
    open_ = {i: (len(wrong.intersection(found)), len(found)) for i, found in partly.items()}
    nearest = [i for i in partly if open_[i] == min(open_.values())]
    left = wrong.intersection(*(partly[i] for i in nearest)) if nearest else ()
    return Recognised(tuple(twins[i].turns for i in nearest), tuple(sorted(left)))


def judge(exercise: Exercise, function: Callable, seed: int, seconds: float = TIME_LIMIT) -> Verdict:
    """The verdict on `function`."""
    label = exercise.label
    begun = not untouched(function)
    # A cell that begins with `import torch` fails where there is none, and leaves the gap: say so then too.
    if exercise.gradient_of and (begun or not torch_is_there()) and (why := missing_torch()):
        return Verdict("unavailable", "This exercise needs PyTorch", [describing.without_torch(why)], **label)
    if not begun:
        words = f"Replace the dots in {exercise.name} with your code, run that cell, then this one."
        return Verdict("untouched", "Not attempted yet", [words], **label)
    if getattr(_here, "judging", False):
        words = f"The function that is being checked calls a check itself. Move {exercise.call}.check() out of it."
        return Verdict("unrecognised", "A check inside the checked function", [words], **label)
    with _ONE_AT_A_TIME:
        _here.judging = True
        try:
            return _judge(Answer(exercise, function, seed), label, seconds)
        finally:
            _here.judging = False


def _judge(answer: Answer, label: dict, seconds: float) -> Verdict:
    try:
        in_time = answer.run(seconds)
    except KeyboardInterrupt:
        return Verdict("unrecognised", "You stopped it", ["Nothing was judged. Run this cell to try again."], **label)
    if not in_time:
        return Verdict("unrecognised", "It did not finish", [describing.endless(seconds)], **label)
    return verdict_on(answer)


def verdict_on(answer: Answer) -> Verdict:
    """The verdict on an answer that was observed to the end."""
    label, recognised = answer.exercise.label, recognise(answer)
    if recognised.correct:
        told = answer.advice()
        title = "Right on the inputs asked" if set(told) - {describing.UNCOUNTED} else "Correct"
        advice = [f"One thing more: {remark}" for remark in told]
        return Verdict("correct", title, advice, **label, extras=describing.extras(answer))
    return describing.verdict(answer, recognised, label)
