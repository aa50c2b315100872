"""Words for a verdict: what was recognised, and where nothing was, what the values themselves say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .cards import Comparison, Verdict
from .comparing import agree, precision, size
from .running import KEPT_OUTPUT, Observation

if TYPE_CHECKING:
    from .judging import Answer, Recognised
    from .model import Probe

    Difference = tuple[Probe, Observation, Observation]


def verdict(answer: Answer, recognised: Recognised, label: dict[str, Any]) -> Verdict:
    """The verdict on an answer that is not correct."""
    found = _clearest_difference(answer)
    wrong, remarks = answer.exercise.wrong, tuple(answer.exercise.hard[i].name for i in recognised.surplus)
    words, hint, seen = [], "", ()
    turns = [reading for reading in recognised.readings if reading]
    if turns:
        title = "A known mistake" if len(turns[0]) == 1 else "Two known mistakes at once"
        title = title if len(turns) == 1 else "One of these mistakes"
        texts = [" And: ".join(wrong[name].text for name in reading) for reading in turns]
        words.append(texts[0] if len(texts) == 1 else "Either: " + " — or: ".join(texts))
        named = [wrong[name] for reading in turns for name in reading]
        hint = next((w.hint for w in named if w.hint), "")
        seen = tuple(dict.fromkeys(w.seen_in for w in named if w.seen_in))
    elif recognised.readings:
        title = "Right on ordinary inputs, not on every input"
    else:
        title = "Not right yet"
        words += unrecognised(answer, found)
        hint = f"`{answer.exercise.call}.hint()` gives a hint."
    for remark in dict.fromkeys(answer.exercise.hard[i].remark for i in recognised.surplus):
        words.append(("And beyond that: " if turns else "") + remark)
    return Verdict(
        "recognised" if turns or recognised.surplus else "unrecognised",
        title,
        words,
        **label,
        turns=tuple(turns),
        remarks=remarks,
        comparison=_comparison(answer.exercise.parameters, found) if found else None,
        hint=hint,
        seen_in=seen,
        extras=extras(answer, found),
    )


def _clearest_difference(answer: Answer) -> Difference | None:
    """The call to show: the probe, what the reference does on it, and what the answer does."""
    for tier, mine in (("ordinary", answer.ordinary), ("hard", answer.hard)):
        probes = answer.exercise.probes_of(tier, answer.seed)
        if wrong := list(answer.differences(0, tier)):
            i = min(wrong, key=lambda i: sum(np.size(a) for a in probes[i].arguments))  # the easiest to read
            return probes[i], answer.exercise.does(0, tier, i, answer.seed), mine[i]
    return None


def _comparison(names: tuple[str, ...], found: Difference) -> Comparison:
    probe, expected, received = found
    given = [f"{name} ={_below(_value(a))}" for name, a in zip(names, probe.arguments, strict=True)]
    return Comparison("\n".join(given), _result(expected, names), _result(received, names))


def _below(text: str) -> str:
    """On the same line, or below when there are several lines, so that columns stay aligned."""
    return f"\n{text}" if "\n" in text else f" {text}"


def _value(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    with np.printoptions(precision=4, suppress=True, threshold=60, edgeitems=3, linewidth=64):
        shown = np.array2string(value + 0.0 if value.dtype.kind == "f" else value)  # + 0.0: no "-0."
    if value.ndim == 0:
        return shown
    kind = "" if value.dtype == np.float64 else f" {value.dtype}"
    joint = "\n" if value.ndim > 1 else " "
    return f"{shown}{joint}shape {value.shape}{kind}"


def _result(seen: Observation, names: tuple[str, ...]) -> str:
    if seen.failure:
        return f"{seen.failure.kind}: {_plainly(seen.failure.message)}"
    text = _value(seen.array) if seen.array is not None else _object(seen)
    if seen.changed:
        text += f"\nand {', '.join(names[i] for i in seen.changed)} changed"
    return text


def _object(seen: Observation) -> str:
    """What came where no array came: None, a list with its numbers, or the type alone."""
    if seen.returned == "NoneType":
        return "None"
    if isinstance(seen.raw, list):
        try:
            return f"a list: {_value(np.asarray(seen.raw, dtype=np.float64))}"
        except (TypeError, ValueError):
            pass
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


def extras(answer: Answer, found: Difference | None = None) -> list[str]:
    """What the answer printed and which warnings it gave: worth knowing, no reason to fail."""
    seen = [o for o in [*answer.ordinary, *answer.hard] if o is not None]
    said = []
    # What it printed on the call that the card shows comes first.
    printing = [o for o in ([found[2]] if found else []) + seen if o.printed_size]
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
    probe, expected, received = found
    names = answer.exercise.parameters
    if received.failure:
        return _about_failure(received, probe.arguments, names)
    if received.array is None:
        return _about_type(received, expected)
    words = []
    if received.changed:
        words.append(f"It changes {', '.join(f'`{names[i]}`' for i in received.changed)}: work on a copy.")
    if not (received.changed and agree(expected, replace(received, changed=expected.changed), 1e-9)):
        words += _about_numbers(expected.array, received.array, precision(received, probe.arguments))
    if probe.name:
        words.append(probe.remark)
    wrong = len(list(answer.differences(0, "ordinary")))
    if 0 < wrong < len(answer.ordinary):
        words.append(f"It is right on {len(answer.ordinary) - wrong} of {len(answer.ordinary)} ordinary inputs.")
    return words or ["The values differ from the expected ones; compare them below."]


def _about_failure(seen: Observation, arguments: tuple[Any, ...], names: tuple[str, ...]) -> list[str]:
    shapes = [f"`{n}` {a.shape}" for n, a in zip(names, arguments, strict=True) if isinstance(a, np.ndarray)]
    at = f" at `{seen.failure.line}`" if seen.failure.line else ""
    words = [f"It raised {seen.failure.kind}{at}. The inputs: {', '.join(shapes)}."]
    if seen.failure.kind == "NotImplementedError":
        words.append("Part of it is still to be written.")
    if seen.failure.kind == "SystemExit":
        words.append("A function gives its result back with `return`; it does not end the program.")
    return words


def _about_type(seen: Observation, expected: Observation) -> list[str]:
    if seen.returned == "NoneType" and seen.printed_size:
        return ["It printed something and returned None. Give the result back with `return` instead of `print`."]
    if seen.returned == "NoneType":
        return ["It returned None. Is the `return` missing?"]
    if seen.returned == "ndarray":
        return [f"It returned an array of dtype {seen.raw.dtype}; expected real numbers."]
    wanted = f"an array of shape {expected.array.shape}" if expected.array is not None else "an array"
    words = [f"It returned an object of type {seen.returned}; expected {wanted}."]
    if isinstance(seen.raw, list | tuple) and expected.array is not None:
        for name, item in [("its values", seen.raw), *((f"its item {i}", item) for i, item in enumerate(seen.raw[:4]))]:
            try:
                values = np.asarray(item, dtype=np.float64)
            except (TypeError, ValueError):
                continue
            if agree(expected, Observation(array=values), 1e-6):
                cure = "return `np.array(…)` of it" if name == "its values" else "return only that"
                words.append(f"But {name} would be right: {cure}.")
                break
    return words


def _about_numbers(expected: np.ndarray, received: np.ndarray, dtype: np.dtype) -> list[str]:
    close = 1e-3 if dtype == np.float16 else 1e-5
    words = []
    if expected.dtype.kind == "f" and received.dtype.kind != "f":
        words.append(f"It returned numbers of type {received.dtype}; the fractions are lost.")
    if received.shape != expected.shape:
        words.append(f"Its shape is {received.shape}; expected {expected.shape}.")
        for name, other in (("Transposed", received.T), ("Without the axes of length 1", received.squeeze())):
            if other.shape == expected.shape and np.allclose(other, expected, atol=close):
                words.append(f"{name}, its values would be right.")
                return words
        return words
    bad = ~np.isfinite(received) & np.isfinite(expected)
    if bad.any():
        kinds = sorted({str(v).replace("-inf", "-∞").replace("inf", "∞") for v in received[bad]})
        words.append(f"{bad.sum()} of {bad.size} numbers are {' and '.join(kinds)}.")
        return words
    return words + _relations(expected.astype(np.float64), received.astype(np.float64), close)


def _relations(expected: np.ndarray, received: np.ndarray, close: float) -> list[str]:
    """A constant factor or offset, another order, an axis that sums to one: relations worth naming."""
    off = np.abs(received - expected).max(initial=0)
    if off <= close * size(expected):
        return [f"Almost: the largest difference is {off:.1g}. Is something rounded or approximated?"]
    if expected.size < 2:
        return []
    sums = [axis for axis in range(expected.ndim) if np.allclose(expected.sum(axis), 1, atol=close)]
    mine = [axis for axis in range(received.ndim) if np.allclose(received.sum(axis), 1, atol=close)]
    if sums and not mine:
        totals = received.sum(sums[-1])
        total = f"{totals:.4g}" if totals.ndim == 0 else _value(totals)
        return [f"The weights should sum to one; on this input yours sum to {total}."]
    if sums and mine != sums:
        return [f"Yours sum to one along axis {mine[0]}; they should along axis {sums[-1]}."]
    safe = np.abs(expected) > 1e-9
    if safe.any() and np.all(np.abs(received[~safe]) < close):
        ratio = received[safe] / expected[safe]
        if np.ptp(ratio) <= close * max(1.0, np.abs(ratio).max()) and abs(ratio.flat[0] - 1) > close:
            return [f"On this input, every number is {ratio.flat[0]:.4g} times the expected one."]
    shift = received - expected
    if np.ptp(shift) < close and np.abs(shift).max() > close:
        return [f"On this input, every number is {shift.flat[0]:+.4g} off."]
    if np.allclose(np.sort(received, axis=None), np.sort(expected, axis=None), atol=close):
        return ["They are the right numbers in another order."]
    return ["Some weights are negative."] if sums and (received < -close).any() else []
