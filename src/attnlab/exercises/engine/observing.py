"""What is asked of an answer, and the observations of it: nothing here knows what is expected.

A session observes and judges in one process. A classroom observes inside a sandbox, with this file and without any
reference, and judges outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .deadline import within
from .implementations import verdict_of
from .parts import Probe
from .running import Failure, Observation, observe, session_kept
from .tensors import differentiated, tensor_makers

# How code that was written for tensors answers to arrays. `x.repeat(n, 1)` names times to a tensor, and an axis to an
# array. `x.transpose(1, 2)` names two axes to a tensor; an array of three takes them for an order of all its axes, and
# says what stands here.
REFUSALS = {"TypeError", "AttributeError", "AxisError"}
REFUSED_AXES = "axes don't match array"
# What only code for tensors hears of an array: torch's functions want a Tensor, and its methods are no array's.
ASKS_FOR_TENSORS = re.compile(r"\bTensor\b|'numpy\.ndarray' object has no attribute")


@dataclass(frozen=True)
class Asked:
    """The calls that an exercise makes, and how it looks at them.

    ordinary, hard   its probes; of a probe count the arguments, `arrays_only` and `at_most`
    gradients        the positions of the arguments whose gradients are observed too
    test             whether the answer is a test, which accepts or refuses
    """

    ordinary: Sequence[Probe]
    hard: Sequence[Probe]
    gradients: tuple[int, ...] = ()
    test: bool = False

    def observed(self, function: Callable) -> Callable:
        """`function` as it is observed: as it is, differentiated, or as a test that accepts or refuses."""
        if self.gradients:
            return differentiated(function, self.gradients)
        return verdict_of(function) if self.test else function


class Observations:
    """What one function does on all probes that are asked, seen once.

    `ordinary` has one observation a probe. `hard` too, or none where no ordinary one gave a result; None where a probe
    is spared.
    """

    def __init__(self, asked: Asked, function: Callable) -> None:
        self.asked, self.function = asked, asked.observed(function)
        self.ordinary: list[Observation] = []
        self.hard: list[Observation | None] = []

    def run(self, seconds: float) -> bool:
        """Observe; False when time ran out (what was seen until then stays)."""
        with session_kept():
            return within(seconds, self._observe)

    def _observe(self) -> None:
        """Call it with arrays; where it refuses any of them, with tensors too. What gives more results counts.

        Code for tensors that gives none with either is told what went wrong with tensors.
        """
        self._try(_same)
        for tensor in [] if self.asked.gradients or self.asked.test else tensor_makers():
            refusals = [o.failure for o in self._shared() if o.failure and _refused(o.failure)]
            if not refusals:
                return
            before, given = (self.ordinary, self.hard), self._given()
            self._try(tensor)
            meant = not given and all(ASKS_FOR_TENSORS.search(failure.message) for failure in refusals)
            still = any(o.failure and _refused(o.failure) for o in self._shared())
            if self._given() <= given and not (meant and not still):
                self.ordinary, self.hard = before

    def _try(self, convert: Callable) -> None:
        self.ordinary, self.hard = [], []
        for probe in self.asked.ordinary:
            self.ordinary.append(observe(self.function, probe.arguments, convert))
        if any(o.array is not None for o in self.ordinary):
            for probe in self.asked.hard:
                spared = probe.arrays_only and convert is not _same
                seen = None if spared else observe(self.function, probe.arguments, convert, at_most=probe.at_most)
                self.hard.append(seen)

    def _shared(self) -> list[Observation]:
        """What it did on the probes that are for arrays and tensors alike."""
        hard = [o for probe, o in zip(self.asked.hard, self.hard, strict=False) if not probe.arrays_only]
        return [*self.ordinary, *hard]

    def _given(self) -> int:
        return sum(o.array is not None for o in self._shared())


def _refused(failure: Failure) -> bool:
    return failure.kind in REFUSALS or (failure.kind == "ValueError" and failure.message == REFUSED_AXES)


def _same(argument: object) -> object:
    return argument
