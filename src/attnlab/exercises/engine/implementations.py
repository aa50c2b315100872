"""Exercises in which the learner writes a test: its arguments are implementations, what it does is accept or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .cards import Comparison
from .running import Observation, as_array

if TYPE_CHECKING:
    from .judging import Answer
    from .parts import Probe

    Judged = tuple[Probe, Observation]

ACCEPTED, REFUSED = 1.0, 0.0
SAYS = {True: "accepts", False: "refuses"}
SAID, LISTED = 3, 8  # remarks in words (a single one more is said too), and implementations in the comparison


class NoVerdict(Exception):
    """The test returned something that neither accepts nor refuses."""


NEITHER = NoVerdict.__name__


def verdict_of(function: Callable) -> Callable:
    """`function`, a test, with its verdict as a number. It refuses by AssertionError or False, accepts by None or True.

    Every other exception and every other result is a fault of the test.
    """

    def called(*arguments: Any) -> float:
        try:
            result = function(*arguments)
        except AssertionError:
            return REFUSED
        if result is None:
            return ACCEPTED
        truth = as_array(result)
        if truth is not None and truth.dtype.kind == "b" and truth.ndim == 0:
            return ACCEPTED if truth else REFUSED
        shape = f" of shape {truth.shape}" if truth is not None and truth.ndim else ""
        raise NoVerdict(f"it returned an object of type {type(result).__name__}{shape}")

    return called


def _judged(answer: Answer) -> list[Judged]:
    pairs = [*zip(answer.exercise.ordinary(answer.seed), answer.ordinary, strict=True)]
    pairs += zip(answer.exercise.hard, answer.hard, strict=False)  # a test that fails everywhere never meets them
    return [(probe, seen) for probe, seen in pairs if not probe.advice]


def _rightly(probe: Probe, seen: Observation) -> bool:
    return seen.array is not None and seen.array == (ACCEPTED if probe.correct else REFUSED)


def misjudged(answer: Answer) -> list[Judged]:
    """What the test judges wrongly: where it raises, one wrong refusal, leaks let through, the other wrong refusals.

    Within each kind in the order of declaration. Whoever demands too much learns it from the first refusal, which ten
    leaks would hide.
    """
    found = [(probe, seen) for probe, seen in _judged(answer) if not _rightly(probe, seen)]
    first = next((probe for probe, seen in found if probe.correct and not seen.failure), None)
    return sorted(found, key=lambda each: (not each[1].failure, each[0] is not first, each[0].correct))


def counted(answer: Answer) -> str:
    """How many of how many it judges rightly."""
    wrong, right = ([_rightly(p, seen) for p, seen in _judged(answer) if p.correct is kind] for kind in (False, True))
    return (
        f"Of {len(wrong)} implementations that should be refused, your test refuses {sum(wrong)}; "
        f"of {len(right)} that are right, it accepts {sum(right)}."
    )


def words(answer: Answer, found: list[Judged]) -> list[str]:
    """What slipped through, what was refused wrongly, and what raised: counted, and the most telling in words."""
    faults = [each for each in found if each[1].failure]
    said = _about_faults(faults) if faults else []
    if all(seen.failure for seen in answer.ordinary):  # it judges nothing: there is nothing to count
        return said
    said.append(counted(answer))
    for probe in explained(found):
        kind = "Refused, though right" if probe.correct else "Let through"
        said.append(f"{kind}, *{probe.name}*: {probe.remark}")
    if rest := len(found) - len(faults) - len(explained(found)):
        said.append(f"And {rest} more, named below.")
    return said


def explained(found: list[Judged]) -> list[Probe]:
    """Those misjudged implementations whose remarks are said."""
    probes = [probe for probe, seen in found if not seen.failure]
    return probes if len(probes) <= SAID + 1 else probes[:SAID]


def _about_faults(faults: list[Judged]) -> list[str]:
    probe, seen = faults[0]
    others = f", and on {len(faults) - 1} more" if len(faults) > 1 else ""
    if seen.failure.kind == NEITHER:
        return [
            f"Given *{probe.name}*{others}, {seen.failure.message}. A test refuses by raising AssertionError or "
            "returning False, and accepts by returning True or nothing at all. "
            "Many truth values make one with `.all()` or `np.allclose`."
        ]
    at = f" at `{seen.failure.line}`" if seen.failure.line else ""
    return [
        f"Given *{probe.name}*{others}, your test itself fails: {seen.failure.kind}{at}"
        + (f" ({seen.failure.message}). " if seen.failure.message else ". ")
        + "Only AssertionError and False count as a refusal; any other exception says that the test is at fault."
    ]


def comparison(answer: Answer, found: list[Judged]) -> Comparison:
    """Names and outcomes, one implementation a line."""
    given = sum(not probe.advice for probe in [*answer.exercise.ordinary(answer.seed), *answer.exercise.hard])
    shown, rest = found[:LISTED], [f"… and {len(found) - LISTED} more"] * (len(found) > LISTED)
    width = max(len(probe.name) for probe, _ in shown)
    lines = [(f"{probe.name:<{width}}  ", SAYS[probe.correct], _outcome(seen)) for probe, seen in shown]
    return Comparison(
        f"{given} implementations, {len(found)} of them misjudged",
        "\n".join([name + expected for name, expected, _ in lines] + rest),
        "\n".join([name + received for name, _, received in lines] + rest),
        labels=("Your test was given", "Expected", "Your test"),
    )


def _outcome(seen: Observation) -> str:
    if seen.failure:
        return "neither" if seen.failure.kind == NEITHER else seen.failure.kind
    return SAYS[bool(seen.array == ACCEPTED)]
