"""An exercise is a reference and its wrong twins.

    @exercise("1.2", points=2, section="The weights", statement="…", hints=["Which axis are the keys on?"])
    def attention_weights(query, keys):
        '''Weights of one query over the keys. query (d_k,), keys (n_k, d_k) → (n_k,)'''
        return softmax(keys @ query / np.sqrt(query.shape[-1]))

A twin is added because people make that mistake (`mistake`), or because it is one wrong turn at a choice point
(`choice_points`: single wrong turns and pairs of them are twins). `variant` adds correct code that must be accepted.

Some exercises observe more, or something else. A hard probe with `at_most` counts the bytes that a call holds. With
`gradient_of` the functions are written in torch, and gradients are compared beside values. With `implementations` they
are tests: each probe is an implementation to accept or refuse.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import array_api_compat.numpy  # noqa: F401 - loaded by the first softmax otherwise, in the midst of a check
import numpy as np
import numpy.random  # the same, for the probes

from . import cards, learner
from .comparing import tolerance
from .judging import judge
from .observing import Asked
from .parts import Implementation, Probe, Twin, Wrong
from .running import TIME_LIMIT, Observation, observe

# nbgrader says so before a kernel starts; an answer could take it away again, so it is read before any answer ran.
GRADED = bool(os.environ.get("NBGRADER_EXECUTION"))
CHECK_SEED = 2017  # ordinary probes of `check` are drawn once from this seed: a card shows the same numbers every time


class NotCorrect(AssertionError):
    """What `check` raises for nbgrader. A notebook shows its words alone: not our code, and no path of the grader's."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        lines = [textwrap.wrap(line, 80, subsequent_indent="  ") or [""] for line in str(self).splitlines()]
        return list(itertools.chain.from_iterable(lines))


class Exercise:
    """A reference with everything the checker knows about it. Made by `exercise`; used as `ch1.name.check()`."""

    def __init__(
        self,
        reference: Callable,
        number: str,
        points: int,
        section: str,
        statement: str,
        hints: Sequence[str],
        gradient_of: Sequence[str] = (),
    ) -> None:
        self.reference, self.number, self.points, self.section = reference, number, points, section
        self.statement, self.hints, self.name = statement, tuple(hints), reference.__name__
        self.gradient_of, self.tests = tuple(gradient_of), False
        self.wrong: dict[str, Wrong] = {}
        self.variants: dict[str, Callable] = {}
        self._twins: list[Twin] = []
        self._probes: Callable | None = None
        self._hard: Callable | None = None
        self._hints_given = 0

    # ---- declared by the author of a chapter -------------------------------------------------------------------

    def probes(self, function: Callable) -> Callable:
        """Ordinary inputs: `function(rng)` gives a list of argument tuples, of unequal sizes and both float dtypes."""
        self._probes = function
        return function

    def hard_probes(self, function: Callable) -> Callable:
        """Fixed inputs: `function()` gives {name: Probe(arguments, remark)}."""
        self._hard = function
        return function

    def implementations(self, function: Callable[..., dict[str, Implementation]]) -> Callable:
        """For an exercise that asks for a test: `function(rng)` gives {name: Implementation(…)}.

        The most telling first. They stand in place of probes and hard probes.
        """
        self.tests = True
        self._probes = lambda rng: [each.probe(name) for name, each in function(rng).items() if not each.hard]
        fixed = np.random.default_rng(CHECK_SEED)
        self._hard = lambda: {name: each.probe(name) for name, each in function(fixed).items() if each.hard}
        return function

    def mistake(self, name: str, text: str, *, seen_in: str = "", hint: str = "", same_as: str = "") -> Callable:
        """Add one wrong twin that belongs to no choice point."""

        def add(function: Callable) -> Callable:
            self._add_wrong(name, Wrong(text, seen_in, hint, same_as))
            self._twins.append(Twin((name,), function))
            return function

        return add

    def choice_points(self, **choices: dict[str, Wrong]) -> Callable:
        """`scale={"none": Wrong(…), …}`: the decorated function takes `scale=` and defaults to the right turn.

        Each wrong turn is a twin named "scale: none"; each pair of wrong turns at different points is one more.
        """

        def add(function: Callable) -> Callable:
            turns = [(point, turn) for point, wrong in choices.items() for turn in wrong]
            for point, turn in turns:
                self._add_wrong(f"{point}: {turn}", choices[point][turn])
            pairs = [(a, b) for a, b in itertools.combinations(turns, 2) if a[0] != b[0]]
            for taken in [(turn,) for turn in turns] + pairs:
                names = tuple(f"{point}: {turn}" for point, turn in taken)
                self._twins.append(Twin(names, functools.partial(function, **dict(taken))))
            return function

        return add

    def variant(self, function: Callable) -> Callable:
        """Add correct code in another form; the tests hold the checker to accepting it."""
        self.variants[function.__name__] = function
        return function

    def _add_wrong(self, name: str, wrong: Wrong) -> None:
        if name in self.wrong:
            raise ValueError(f"exercise {self.number} has a mistake {name!r} already; give this one another name")
        self.wrong[name] = wrong

    # ---- read by the checker ------------------------------------------------------------------------------------

    @property
    def label(self) -> dict[str, Any]:
        """What every verdict says of the exercise it judges."""
        return {"number": self.number, "name": self.name, "points": self.points}

    @property
    def call(self) -> str:
        """How a chapter's notebook names this exercise: ch1.scaled_scores."""
        return f"ch{self.number.split('.')[0]}.{self.name}"

    @functools.cached_property
    def twins(self) -> list[Twin]:
        """The reference first, then every wrong twin, single turns before pairs."""
        return [Twin((), self.reference), *sorted(self._twins, key=lambda twin: len(twin.turns))]

    @functools.cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.reference).parameters)

    def asked(self, seed: int = CHECK_SEED) -> Asked:
        """What is asked of an answer, without what is expected."""
        return Asked(self.ordinary(seed), self.hard, self._gradients, self.tests)

    def drawn_anew(self, seed: int = CHECK_SEED) -> dict[str, list[Probe]]:
        """The probes of each tier, made for this call alone: implementations may count how often they are called."""
        hard = self._hard() if self._hard else {}
        return {"ordinary": self._as_probes(self._probes(np.random.default_rng(seed))), "hard": [*hard.values()]}

    def observed(self, function: Callable) -> Callable:
        """`function` as this exercise observes it."""
        return Asked((), (), self._gradients, self.tests).observed(function)

    @functools.cached_property
    def _gradients(self) -> tuple[int, ...]:
        return tuple(self.parameters.index(name) for name in self.gradient_of)

    @functools.lru_cache(maxsize=4)  # noqa: B019 - exercises live as long as the session
    def ordinary(self, seed: int = CHECK_SEED) -> list[Probe]:
        return self._as_probes(self._probes(np.random.default_rng(seed)))

    @staticmethod
    def _as_probes(drawn: Sequence[Any]) -> list[Probe]:
        return [probe if isinstance(probe, Probe) else Probe(tuple(probe)) for probe in drawn]

    @functools.cached_property
    def hard(self) -> list[Probe]:
        return [replace(probe, name=name) for name, probe in (self._hard() if self._hard else {}).items()]

    @functools.lru_cache(maxsize=12)  # noqa: B019
    def marks(self, seed: int, turns: int) -> tuple[list[int], np.ndarray]:
        """Indices of the twins with that many wrong turns, and the mark of what each does on the first ordinary probe.

        Made for one number of turns at a time, and one probe: a right answer costs no twin, a wrong one little.
        """
        indices = [i for i, twin in enumerate(self.twins) if len(twin.turns) == turns]
        return indices, np.array([self.does(i, "ordinary", 0, seed).mark for i in indices])

    def probes_of(self, tier: str, seed: int) -> list[Probe]:
        return self.hard if tier == "hard" else self.ordinary(seed)

    @functools.lru_cache(maxsize=16)  # noqa: B019
    def tolerances(self, seed: int, tier: str, dtype: np.dtype) -> tuple[float, ...]:
        reference = self.observed(self.reference)
        return tuple(tolerance(reference, p.arguments, dtype) for p in self.probes_of(tier, seed))

    def does(self, index: int, tier: str, probe: int, seed: int) -> Observation:
        """What the twin `twins[index]` does on one probe; remembered. Hard probes are the same for every seed."""
        return self._hard_done(index, probe) if tier == "hard" else self._ordinary_done(index, probe, seed)

    @functools.cache  # noqa: B019
    def _hard_done(self, index: int, probe: int) -> Observation:
        function, hard = self.observed(self.twins[index].function), self.hard[probe]
        return observe(function, hard.arguments, watched=False, at_most=hard.at_most)

    @functools.lru_cache(maxsize=4096)  # noqa: B019
    def _ordinary_done(self, index: int, probe: int, seed: int) -> Observation:
        function = self.observed(self.twins[index].function)
        return observe(function, self.ordinary(seed)[probe].arguments, watched=False)

    # ---- said by the learner ------------------------------------------------------------------------------------

    def judge(self, function: Callable, seed: int = CHECK_SEED, seconds: float = TIME_LIMIT) -> cards.Verdict:
        """The verdict on `function`, without showing it."""
        return judge(self, function, seed, seconds)

    def check(self, function: Callable | None = None) -> None:
        """Judge your function and show one card. Without an argument it takes the function of this exercise's name.

        Never raises in a session; while nbgrader grades or validates, a wrong answer raises AssertionError.
        """
        if function is None:
            function = learner.find(self.name, depth=1)
        verdict = self._verdict(function)
        cards.show(verdict)
        if not verdict.correct and (GRADED or os.environ.get("NBGRADER_EXECUTION")):
            raise NotCorrect(str(verdict))

    def _verdict(self, function: Any) -> cards.Verdict:
        label = self.label
        if function is learner.MISSING or isinstance(function, Exercise):
            return cards.Verdict(
                "missing", f"There is no function {self.name} yet", ["Run the cell above, then this one."], **label
            )
        if not callable(function):
            kind = type(function).__name__
            return cards.Verdict(
                "missing",
                f"{self.name} is not a function",
                [f"The name now means an object of type {kind}. Run the cell above again, then this one."],
                **label,
            )
        try:
            return self.judge(function)
        except Exception as error:  # a fault of ours must not end a learner's session
            words = f"A fault of the course, not of your code ({type(error).__name__}: {error}). Please report it."
            return cards.Verdict("internal", "The checker itself failed", [words], **label)

    def hint(self) -> None:
        """Show the next hint; the last one stays, and says so."""
        number = min(self._hints_given, len(self.hints) - 1)
        self._hints_given += 1
        last = f" That was the last hint; `{self.call}.solution()` shows one good answer."
        text = self.hints[number] + (last if number == len(self.hints) - 1 else "")
        cards.show(cards.Note(f"Hint {number + 1} of {len(self.hints)}", text))

    def solution(self) -> None:
        """Show the reference."""
        cards.show(cards.Note(f"Solution of exercise {self.number}", code=self.solution_source))

    @property
    def solution_source(self) -> str:
        """The reference as a learner would write it: without the decorator."""
        lines = textwrap.dedent(inspect.getsource(self.reference)).splitlines()
        start = next(i for i, line in enumerate(lines) if line.startswith("def "))
        return "\n".join(lines[start:])

    @property
    def stub(self) -> str:
        """What the learner starts from: the signature and its docstring."""
        doc = inspect.getdoc(self.reference)
        doc = textwrap.indent(f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""', "    ")
        return f"def {self.name}{inspect.signature(self.reference)}:\n{doc}\n    ...  # your code"

    def __repr__(self) -> str:
        return f"<exercise {self.number} {self.name}: .check() .hint() .solution()>"


def exercise(
    number: str,
    *,
    points: int,
    section: str,
    statement: str,
    hints: Sequence[str],
    gradient_of: Sequence[str] = (),
) -> Callable[[Callable], Exercise]:
    """Make the decorated reference an `Exercise`.

    `section` is the heading to reread, `statement` the task in Markdown (its docstring gives the shapes). At least one
    hint. `gradient_of` names arguments: their gradients are compared too, and the functions are written in torch.
    """
    if not hints:
        raise ValueError(f"exercise {number} has no hint; give at least one question that helps")
    return lambda reference: Exercise(reference, number, points, section, statement, hints, gradient_of)
