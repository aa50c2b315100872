"""Words for a verdict: what was recognised, and where nothing was, what the values themselves say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import implementations
from .cards import BULLET, Comparison, Verdict
from .comparing import MISFIT, agree, precision
from .running import KEPT_OUTPUT, Observation
from .tensors import INSTALL
from .values import about_numbers, in_a_row, numbers, unseen_difference, value

if TYPE_CHECKING:
    from .judging import Answer, Recognised
    from .parts import Probe


class Difference(NamedTuple):
    """A call on which an answer is wrong: its probe, what the reference does and what the answer does.

    Where all values agree, `by` is the place of the gradient that does not; without one, it is the `bytes` that do not.
    `shows` are the recognised wrong turns that can be seen there.
    """

    probe: Probe
    expected: Observation
    received: Observation
    by: int | None = None
    shows: frozenset[str] = frozenset()
    bytes: bool = False


ONLY_GRADIENT = "The forward result is right; the gradient is not."
ONLY_BYTES = "All values are right, but too much is held in memory at once."
UNCOUNTED = (
    "your answer makes tensors, and this check counts the bytes of NumPy's arrays alone. How much yours holds at once "
    "was not seen."
)
# What torch's messages on gradients mean for the one who wrote the code.
TORCH_SAYS = {
    "leaf Variable that requires grad": (
        "It changes an argument in place, and torch refuses that where a gradient is wanted. Make a new tensor: "
        "`masked_fill` without the underscore, or `torch.where`, instead of an assignment into a slice."
    ),
    "modified by an inplace operation": (
        "A tensor that the gradient needs was overwritten. Make new tensors instead of changing one in place."
    ),
    "numpy() on Tensor that requires grad": (
        "NumPy carries no gradient. Stay with torch's own functions, or with the tensors' methods."
    ),
}


def verdict(answer: Answer, recognised: Recognised, label: dict[str, Any]) -> Verdict:
    """The verdict on an answer that is not correct."""
    exercise, wrong = answer.exercise, answer.exercise.wrong
    surplus = [exercise.hard[i] for i in recognised.surplus]
    misjudged = implementations.misjudged(answer) if exercise.tests else []
    turns = [reading for reading in recognised.readings if reading]
    found = None if exercise.tests else _clearest_difference(answer, turns)
    words, hint, seen = [], "", ()
    if turns:
        title = "A known mistake" if len(turns[0]) == 1 else "Two known mistakes at once"
        title = title if len(turns) == 1 else "One of these mistakes"
        shown = found.shows if found else frozenset()
        # The text begins with what the picture below it shows, and the question asks about that.
        ordered = [sorted(reading, key=lambda name: name not in shown) for reading in turns]
        texts = [[wrong[name].text for name in reading] for reading in ordered]
        if len(texts) == 1:
            words += [texts[0][0], *("And: " + text for text in texts[0][1:])]
        else:
            words += [BULLET + " And: ".join(text) for text in texts]
        asked = [wrong[name].hint for reading in ordered for name in reading if name in shown or not shown]
        hint = next(filter(None, asked), "")
        seen = tuple(wrong[name].seen_in for reading in turns for name in reading if wrong[name].seen_in)
    elif recognised.readings:
        title = "Nearly: some are misjudged" if exercise.tests else "Right on ordinary inputs, not on every input"
    else:
        title = "Not right yet"
        words += [] if exercise.tests else unrecognised(answer, found)
        hint = f"`{exercise.call}.hint()` gives a hint."
    diagnosed = len(words) if turns else None
    if exercise.tests:
        words += implementations.words(answer, misjudged)
        seen += tuple(probe.seen_in for probe in implementations.explained(misjudged) if probe.seen_in)
    else:
        told = dict.fromkeys(p.remark for p in sorted(surplus, key=lambda p: p is not found.probe))
        words += [("And beyond that: " if turns else "") + text for text in told]
    if found and (found.bytes or found.by is not None) and answer.values_right():
        words.insert(0, ONLY_BYTES if found.bytes else ONLY_GRADIENT)
        diagnosed = diagnosed and diagnosed + 1
    words += _about_bytes(answer, found)
    comparison = implementations.comparison(answer, misjudged) if misjudged else found and _comparison(answer, found)
    return Verdict(
        "recognised" if turns or recognised.surplus else "unrecognised",
        title,
        words,
        **label,
        turns=tuple(turns),
        remarks=tuple(probe.name for probe in surplus),
        comparison=comparison,
        hint=hint,
        diagnosed=diagnosed,
        seen_in=tuple(dict.fromkeys(seen)),
        extras=extras(answer, found),
    )


def _clearest_difference(answer: Answer, readings: list[tuple[str, ...]]) -> Difference | None:
    """The call to show: the one that shows most of the recognised wrong turns, and among those the easiest to read.

    Where values differ on some call of a tier, it is one of these; where only gradients do, the first of them is shown.
    A recognised mistake is shown, if it can be, where the printed digits differ, and be it on a call that only advises.
    """
    found, advising = [], []
    for tier, mine in (("ordinary", answer.ordinary), ("hard", answer.hard)):
        probes = answer.exercise.probes_of(tier, answer.seed)
        values = list(answer.differences(0, tier, forward=True))
        for i in values or answer.differences(0, tier):
            shows = frozenset().union(*(answer.shows(r, tier, i, forward=bool(values)) for r in readings))
            by = None if values else answer.wrong_gradient(tier, i)
            expected = answer.exercise.does(0, tier, i, answer.seed)
            held = not values and by is None
            difference = Difference(probes[i], expected, mine[i], by, shows, held)
            alike = bool(readings and values and _alike(expected, mine[i]))
            ease = (-len(shows), alike, tier == "hard", sum(np.size(a) for a in probes[i].arguments))
            found.append((ease, difference))
    if not found:
        return None
    (most, alike, *_), clearest = min(found, key=lambda each: each[0])
    if alike:
        for i, probe in enumerate(answer.exercise.hard):
            if probe.advice and (seen := answer.hard[i]) is not None:
                shows = frozenset().union(*(answer.shows(r, "hard", i, forward=True) for r in readings))
                expected = answer.exercise.does(0, "hard", i, answer.seed)
                if len(shows) >= -most and seen.array is not None and not _alike(expected, seen):
                    advising.append(Difference(probe, expected, seen, None, shows))
    return advising[0] if advising else clearest


def _alike(expected: Observation, received: Observation) -> bool:
    """True where both results are printed alike; they may differ in digits that are not shown."""
    if received.changed or expected.array is None or received.array is None:
        return False
    return value(expected.array.astype(np.float64)) == value(received.array.astype(np.float64))


def _comparison(answer: Answer, found: Difference) -> Comparison:
    names, probe = answer.exercise.parameters, found.probe
    given = [f"{name} ={_below(value(a))}" for name, a in zip(names, probe.arguments, strict=True)]
    if found.bytes:
        labels = ("Called with", "May hold at once", "Your function held at once")
        solution, held = (f"about {size:,} bytes" for size in (_rounded(found.expected), _rounded(found.received)))
        return Comparison("\n".join(given), f"{probe.at_most:,} bytes; the solution holds {solution}", held, labels)
    if found.by is None:
        sides = [_result(found.expected, names), _result(found.received, names)]
        if not found.received.changed:  # that is the difference then
            sides[1] += unseen_difference(found.expected.array, found.received.array)
        return Comparison("\n".join(given), *sides)
    given.append("loss = (result * cos([1, 2, 3, …])).sum()")
    sides = [o.gradients[found.by] for o in (found.expected, found.received)]
    shown = ["no gradient arrives" if side is None else value(side) for side in sides]
    shown[1] += unseen_difference(*sides)
    by = answer.exercise.gradient_of[found.by]
    labels = ("Called with", f"Expected gradient of the loss with respect to {by}", "Gradient through your function")
    return Comparison("\n".join(given), *shown, labels)


def _about_bytes(answer: Answer, found: Difference | None) -> list[str]:
    """The count, where it is too large and the card shows something else."""
    return [
        f"Called with *{probe.name}* it held about {_rounded(seen):,} bytes at once; {probe.at_most:,} are enough."
        for probe, seen in zip(answer.exercise.hard, answer.hard, strict=False)
        if seen and seen.heavy and not (found and found.bytes)
    ]


def _rounded(seen: Observation) -> int:
    """The bytes held, to the thousand: the rest differs from run to run."""
    return round(seen.held, -3)


def _below(text: str) -> str:
    """On the same line, or below when there are several lines, so that columns stay aligned."""
    return f"\n{text}" if "\n" in text else f" {text}"


def _result(seen: Observation, names: tuple[str, ...]) -> str:
    if seen.failure:
        return f"{seen.failure.kind}: {_plainly(seen.failure.message)}"
    text = value(seen.array) if seen.array is not None else _object(seen)
    if seen.changed:
        text += f"\nand {', '.join(names[i] for i in seen.changed)} changed"
    return text


def _object(seen: Observation) -> str:
    """What came where no array came: None, a list or range with its numbers, or the type alone."""
    if seen.returned == "NoneType":
        return "None"
    if isinstance(seen.raw, list | range) and (values := numbers(seen.raw)) is not None:
        return f"a {seen.returned}: {value(values)}"
    return f"an object of type {seen.returned}"


def _plainly(message: str) -> str:
    """NumPy's message on `@` speaks of gufuncs and core dimensions; say what it means."""
    found = re.search(r"matmul: .*\(size (\d+) is different from (\d+)\)", message)
    return f"in a product `@`, the inner sizes differ: {found[2]} and {found[1]}" if found else message


def endless(seconds: float) -> str:
    return (
        f"It was still running after {seconds:g} seconds and was stopped; your session is unharmed. "
        "Is there a loop whose condition never becomes false?"
    )


def without_torch(why: str) -> str:
    return (
        f"It is written in PyTorch, which cannot be imported here (`{why}`). Install it with `{INSTALL}`, restart the "
        "kernel and run the cells again. Your answer was not judged."
    )


def extras(answer: Answer, found: Difference | None = None) -> list[str]:
    """What the answer printed and which warnings it gave: worth knowing, no reason to fail."""
    seen = [o for o in [*answer.ordinary, *answer.hard] if o is not None]
    said = []
    # What it printed on the call that the card shows comes first.
    printing = [o for o in ([found.received] if found else []) + seen if o.printed_size]
    if printing:
        printed = printing[0]
        first = printed.printed.strip().splitlines()[0][:80] if printed.printed.strip() else ""
        size = sum(o.printed_size for o in seen)
        much = f", {size:,} characters in all" if size > KEPT_OUTPUT else ""
        said.append(f"Your function printed text{much}. It begins: `{first}`")
    warned = list(dict.fromkeys(w for o in seen for w in o.warned))
    if warned:
        said.append("Warnings while it ran: " + "; ".join(f"`{w[:100]}`" for w in warned[:3]))
    return said


# ---- no twin fits: let the values speak ----------------------------------------------------------------------------


def unrecognised(answer: Answer, found: Difference | None) -> list[str]:
    """What can be said about an answer that no twin explains, the most telling first."""
    if found is None:
        return ["It gave numbers on too few inputs to be judged."]
    probe, expected, received, by, *_ = found
    names = answer.exercise.parameters
    if by is not None:
        return _about_gradient(expected.gradients[by], received.gradients[by], answer.exercise.gradient_of[by])
    if received.failure:
        misfit = received.failure.kind in MISFIT
        return _about_failure(received, probe.arguments, names) + [probe.remark] * bool(misfit and probe.remark)
    if received.array is None:
        return _about_type(received, expected)
    words = []
    if received.changed:
        words.append(f"It changes {', '.join(f'`{names[i]}`' for i in received.changed)}: work on a copy.")
    shown = probe.says and not received.changed and _shaped(expected, received)
    if said := shown and probe.says(*probe.arguments, received.array):
        words.append(said)
    elif not (received.changed and agree(expected, replace(received, changed=expected.changed), 1e-9)):
        words += about_numbers(expected.array, received.array, precision(received, probe.arguments))
    if probe.name:
        words.append(probe.remark)
    wrong = len(list(answer.differences(0, "ordinary")))
    if 0 < wrong < len(answer.ordinary):
        words.append(f"It is right on {len(answer.ordinary) - wrong} of {len(answer.ordinary)} ordinary inputs.")
    return words or ["The values differ from the expected ones; compare them below."]


def _shaped(expected: Observation, received: Observation) -> bool:
    """True for finite numbers of the expected shape."""
    return received.finite and received.array.shape == expected.array.shape


def _about_failure(seen: Observation, arguments: tuple[Any, ...], names: tuple[str, ...]) -> list[str]:
    shapes = [f"`{n}` {a.shape}" for n, a in zip(names, arguments, strict=True) if isinstance(a, np.ndarray)]
    at = f" at `{seen.failure.line}`" if seen.failure.line else ""
    words = [f"It raised {seen.failure.kind}{at}. The inputs: {', '.join(shapes)}."]
    if seen.failure.kind == "NotImplementedError":
        words.append("Part of it is still to be written.")
    if seen.failure.kind == "SystemExit":
        words.append("A function gives its result back with `return`; it does not end the program.")
    return words + [said for part, said in TORCH_SAYS.items() if part in seen.failure.message][:1]


def _about_gradient(expected: np.ndarray, received: np.ndarray | None, name: str) -> list[str]:
    if received is None:
        return [
            f"No gradient arrives at `{name}`: the result is cut off from it, by `.detach()`, `.data`, "
            "`torch.no_grad()` or a way through NumPy. A layer like that would stop all learning before it."
        ]
    return about_numbers(expected, received, np.dtype(np.float32)) or ["The gradients differ; compare them below."]


def _about_type(seen: Observation, expected: Observation) -> list[str]:
    if seen.returned == "NoneType" and seen.printed_size:
        return ["It printed something and returned None. Give the result back with `return` instead of `print`."]
    if seen.returned == "NoneType":
        return ["It returned None. Is the `return` missing?"]
    if seen.returned == "ndarray":
        return [f"It returned an array of dtype {seen.raw.dtype}; expected real numbers."]
    wanted = f"an array of shape {expected.array.shape}" if expected.array is not None else "an array"
    words = [f"It returned an object of type {seen.returned}; expected {wanted}."]
    if isinstance(seen.raw, list | tuple | range) and expected.array is not None:
        tried = [
            ("its values", seen.raw, "return `np.array(…)` of it"),
            ("its numbers", in_a_row(seen.raw), "return them in one array, one after the other"),
            *((f"its item {i}", item, "return only that") for i, item in enumerate(seen.raw[:4])),
        ]
        for name, item, cure in tried:
            values = numbers(item)
            if values is not None and agree(replace(expected, gradients=()), Observation(array=values), 1e-6):
                words.append(f"But {name} would be right: {cure}.")
                break
    return words
