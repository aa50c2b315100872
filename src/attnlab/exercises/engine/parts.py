"""What the author of an exercise declares: wrong turns, probes, implementations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wrong:
    """One wrong turn: what went wrong, in words that teach; a public report where it was seen; a question that helps.

    `same_as` names another wrong turn that is the same function on every input: the card then lists both.
    """

    text: str
    seen_in: str = ""
    hint: str = ""
    same_as: str = ""


@dataclass(frozen=True)
class Twin:
    """A wrong function and the turns that lead to it. The reference is the twin with no turns."""

    turns: tuple[str, ...]
    function: Callable


@dataclass(frozen=True)
class Probe:
    """Arguments for one call. A hard probe also says with `remark` what a wrong answer on it means; it gets a `name`.
    The remark of an ordinary one is said where the answer stops there since shapes do not fit.

    `arrays_only` spares answers written in torch. With `advice` the answer stays correct and is told the remark: for
    inputs on which an answer that is right on paper may fail, and nobody asked for more. `correct` says of an
    implementation whether a test should accept it. `at_most` is the number of bytes that the call may hold at once,
    beside its arguments: set it far, three times and more, from what right and wrong answers need. `says` takes the
    arguments and a wrong result of the right shape that no twin explains, and says what the result shows, or "": that a
    search had too few tries, say, which gives other numbers to everybody.
    """

    arguments: tuple[Any, ...]
    remark: str = ""
    arrays_only: bool = False
    advice: bool = False
    name: str = ""
    seen_in: str = ""
    correct: bool | None = None
    at_most: int | None = None
    says: Callable[..., str] | None = None


@dataclass(frozen=True)
class Implementation:
    """What a test that the learner writes is tried on: a `correct` one must be accepted, any other refused.

    The `remark` says what a test that misjudges it has overlooked. A `hard` one does not take part in deciding *which*
    mistake a test makes; with `advice`, misjudging it is no mistake.
    """

    function: Callable
    remark: str
    correct: bool = False
    seen_in: str = ""
    hard: bool = False
    advice: bool = False

    def probe(self, name: str) -> Probe:
        return Probe((self.function,), self.remark, False, self.advice, name, self.seen_in, self.correct)
