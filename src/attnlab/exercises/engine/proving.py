"""The proof of the checker: every twin is rejected, and recognised as itself and as no other, over many seeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType

from .implementations import ACCEPTED
from .judging import NEEDED_EVIDENCE, Answer, Recognised, recognise
from .model import Exercise, Twin


@dataclass
class Proof:
    """What was seen for one exercise. `failures` is empty when all is proved.

    mistakes     single wrong turns, each recognised as itself (or as one of its declared equals)
    pairs        pairs of wrong turns recognised as that pair
    merged       pairs that are the same function as one with fewer wrong turns, and explained as that
    harmless     pairs whose two wrongs make a right: the same as the reference on every input, and accepted
    numberless   pairs that give hardly any finite number: rejected, but never recognised by NaN alone
    """

    exercise: Exercise
    seeds: int
    mistakes: int = 0
    pairs: int = 0
    merged: int = 0
    harmless: int = 0
    numberless: int = 0
    variants: int = 0
    failures: list[str] = field(default_factory=list)


def exercises_of(chapter: ModuleType) -> list[Exercise]:
    """The exercises of a chapter's module, in the order of their numbers."""
    found = [e for e in vars(chapter).values() if isinstance(e, Exercise)]
    return sorted(found, key=lambda e: [int(part) for part in e.number.split(".")])


def prove(exercise: Exercise, seeds: range) -> Proof:
    """Run the checker on everything the exercise knows: its reference, its variants, every twin, for each seed."""
    proof = Proof(exercise, len(seeds), variants=len(exercise.variants))
    seen: dict[int, Counter] = {i: Counter() for i in range(len(exercise.twins))}
    for seed in seeds:
        for i in seen:
            seen[i][recognise(_as_answer(exercise, i, seed))] += 1
        for tier in ("ordinary", "hard"):
            for i, probe in enumerate(exercise.probes_of(tier, seed)):
                accepted = exercise.does(0, tier, i, seed).array == ACCEPTED
                if probe.correct not in (None, accepted):
                    proof.failures.append(f"seed {seed}: the reference misjudges {probe.name}")
        for name, variant in exercise.variants.items():
            answer = Answer(exercise, variant, seed)
            answer.run(60)
            if not recognise(answer).correct:
                proof.failures.append(f"seed {seed}: the correct variant {name} is rejected")
    for i, twin in enumerate(exercise.twins):
        numberless = all(_as_answer(exercise, i, seed).evidence() < NEEDED_EVIDENCE for seed in seeds)
        _judge_twin(proof, twin, seen[i], numberless)
    return proof


def _as_answer(exercise: Exercise, index: int, seed: int) -> Answer:
    """A twin handed in as an answer. Its observations are made once; a test holds this equal to running it anew."""
    answer = Answer(exercise, exercise.twins[index].function, seed)
    answer.ordinary = [exercise.does(index, "ordinary", i, seed) for i in range(len(exercise.ordinary(seed)))]
    answer.hard = [exercise.does(index, "hard", i, seed) for i in range(len(exercise.hard))]
    return answer


def _judge_twin(proof: Proof, twin: Twin, seen: Counter, numberless: bool) -> None:
    name = " + ".join(twin.turns) or "the reference"
    if len(seen) != 1:
        kinds = "; ".join(f"{count}×: {_words(r)}" for r, count in seen.most_common(4))
        proof.failures.append(f"{name}: not the same for every seed ({kinds})")
        return
    (recognised,) = seen
    if not twin.turns:
        if not recognised.correct:
            proof.failures.append("the reference is rejected")
        return
    if not recognised.readings and len(twin.turns) > 1 and numberless:
        proof.numberless += 1
    elif recognised.surplus or not recognised.readings:
        proof.failures.append(f"{name}: {_words(recognised)}")
    elif recognised.correct:
        if len(twin.turns) == 1:
            proof.failures.append(f"{name}: accepted as correct")
        proof.harmless += 1
    elif twin.turns in recognised.readings:
        others = [r for r in recognised.readings if r != twin.turns]
        if len(twin.turns) == 1 and not all(_declared(proof.exercise, twin.turns[0], *r) for r in others):
            proof.failures.append(f"{name}: cannot be told from {others}; declare same_as or change a probe")
        if len(twin.turns) == 1:
            proof.mistakes += 1
        else:
            proof.pairs += 1
    elif len(twin.turns) == 1:
        proof.failures.append(f"{name}: taken for {_words(recognised)}")
    else:
        proof.merged += 1


def _declared(exercise: Exercise, one: str, other: str) -> bool:
    return exercise.wrong[one].same_as == other or exercise.wrong[other].same_as == one


def _words(recognised: Recognised) -> str:
    if recognised.correct:
        return "correct"
    read = " or ".join(" + ".join(r) or "the reference" for r in recognised.readings) or "not recognised"
    return read + (f", beside the hard probes {recognised.surplus}" if recognised.surplus else "")


def table(proofs: list[Proof], kept: dict[str, list[int]] | None = None) -> str:
    """The proofs as a Markdown table, with the rows of an earlier table, by `rows_of`, in their places."""
    lines = [
        "| exercise | mistakes | pairs | merged | recognised | NaN | forms |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    found = (kept or {}) | {f"{p.exercise.number} `{p.exercise.name}`": _counts(p) for p in proofs}
    rows = sorted(found.items(), key=lambda row: [int(part) for part in row[0].split()[0].split(".")])
    rows.append(("together", [sum(column) for column in zip(*(counts for _, counts in rows), strict=True)]))
    for name, (mistakes, pairs, merged, wrong, numberless, forms) in rows:
        recognised = f"{mistakes + pairs + merged} of {wrong}"
        lines.append(f"| {name} | {mistakes} | {pairs} | {merged} | {recognised} | {numberless} | {forms} |")
    return "\n".join(lines)


def rows_of(text: str) -> dict[str, list[int]]:
    """The rows of a table by `table`, without the last, which adds them up: name → its six counts."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:-1]
    return {name: [int(count.split(" of ")[-1]) for count in counts] for name, *counts in rows}


def _counts(proof: Proof) -> list[int]:
    """mistakes, pairs, merged, all wrong twins, numberless, correct forms (the reference is one)."""
    wrong = len(proof.exercise.twins) - 1 - proof.harmless
    return [proof.mistakes, proof.pairs, proof.merged, wrong, proof.numberless, proof.variants + 1]
