"""What crosses the border of the sandbox: words, numbers and arrays, never objects.

A message is JSON, with its arrays beside it, in safetensors' format: nothing that is read can run.  What comes out of
the sandbox was written by code from outside, so it is bounded, and checked piece by piece, before it is believed.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attnlab.exercises.engine.deadline import within
from attnlab.exercises.engine.running import KEPT_OUTPUT, KEPT_WARNINGS, KEPT_WORDS, Failure, Observation
from attnlab.exercises.engine.values import numbers

LARGEST, LARGEST_TEXT = 32 * 2**20, 2 * 2**20  # bytes of one message, and of what is not arrays in it
KEPT_BYTES = 2**20  # of one array that a function returns; what is asked for is a thousand times smaller
KEPT_TEXT, KEPT_ITEMS = KEPT_WORDS, KEPT_WARNINGS  # what the engine keeps crosses whole
MOST_ARRAYS, MOST_AXES, KEPT_ROWS = 5_000, 16, 4_000  # of one message, of an array, and of one that is read as a list
HEADER = 8  # bytes that tell the length


class BorderError(Exception):
    """What came is no message: too large, cut off, or not in the form that was agreed."""


# ---- messages -------------------------------------------------------------------------------------------------------


def pack(message: Any) -> bytes:
    """A message as bytes: dicts, lists, tuples, text, numbers, truth values, None, arrays."""
    arrays: dict[str, np.ndarray] = {}

    def out(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            name, array = str(len(arrays)), np.asarray(value)
            if array.dtype.kind not in "fiub":
                raise TypeError(f"an array of {array.dtype} cannot cross the border; numbers and truth values can")
            array = array.astype(np.float64) if array.dtype == np.longdouble else array
            little = array.dtype.newbyteorder("=")
            # A copy in C order: safetensors writes the bytes as they lie. It keeps the shape (), unlike this function.
            arrays[name] = np.ascontiguousarray(array, dtype=little).reshape(array.shape)
            return {"$array": name, "scalar": isinstance(value, np.generic)}
        if isinstance(value, tuple):
            return {"$tuple": [out(each) for each in value]}
        if isinstance(value, list):
            return [out(each) for each in value]
        if isinstance(value, dict):
            return {_whole(key): out(each) for key, each in value.items()}
        if isinstance(value, str):
            return _whole(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        raise TypeError(f"a {type(value).__name__} cannot cross the border")

    return save(arrays, metadata={"message": json.dumps(out(message), ensure_ascii=False)})


def _whole(text: str) -> str:
    """Without halves of pairs of surrogates, which no file and no page can hold."""
    return text.encode("utf-8", "replace").decode()


def unpack(data: bytes, *, trusted: bool = False) -> Any:
    """The message in bytes from `pack`. BorderError where it is none, or, unless it is `trusted`, where it holds more
    text or more arrays than an honest one.
    """
    try:
        # The header says how long it is; safetensors checks that every array lies within the data.
        length = int.from_bytes(data[:HEADER], "little")
        if length > LARGEST_TEXT and not trusted:
            raise ValueError(length)
        header = json.loads(data[HEADER : HEADER + length])
        if len(header) > MOST_ARRAYS and not trusted:
            raise ValueError(len(header))
        message, arrays = json.loads(header["__metadata__"]["message"]), load(data)

        def read(value: Any) -> Any:
            if isinstance(value, list):
                return [read(each) for each in value]
            if isinstance(value, str):
                return _whole(value)
            if not isinstance(value, dict):
                return value
            if "$array" in value:
                array = arrays[value["$array"]]
                return array[()] if value.get("scalar") else array
            if "$tuple" in value:
                return tuple(read(each) for each in value["$tuple"])
            return {_whole(key): read(each) for key, each in value.items()}

        return read(message)
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError) as error:
        raise BorderError(f"what came is no message ({type(error).__name__})") from None


def send(channel: socket.socket, message: Any) -> None:
    data = pack(message)
    channel.sendall(len(data).to_bytes(HEADER, "little") + data)


def receive(channel: socket.socket, until: float | None = None, *, trusted: bool = False) -> Any:
    """The next message; None where the other side has closed. TimeoutError where it did not come `until` then.

    `until` is a time of `time.monotonic`. BorderError where what comes is no message, or, unless it is `trusted`, a
    large one.
    """
    header = _exactly(channel, HEADER, until)
    if header is None:
        return None
    length = int.from_bytes(header, "little")
    if length > LARGEST and not trusted:
        raise BorderError(f"a message of {length:,} bytes; at most {LARGEST:,} are taken")
    data = _exactly(channel, length, until)
    return None if data is None else unpack(data, trusted=trusted)


def _exactly(channel: socket.socket, size: int, until: float | None) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
        try:
            piece = channel.recv(min(size - len(data), 2**20))
        except ConnectionError:
            return None
        if not piece:
            return None
        data += piece
    return bytes(data)


# ---- observations ---------------------------------------------------------------------------------------------------


def told(seen: Observation | None) -> dict | None:
    """An observation as a message, inside of the sandbox. What is too large is told as a failure."""
    if seen is None:
        return None
    large = [part for part in seen.parts if not _small(part)]
    if large:
        words = f"a result of shape {large[0].shape} is too large: at most {KEPT_BYTES:,} bytes, {MOST_AXES} axes"
        seen = Observation(failure=Failure("ResultTooLarge", words), changed=seen.changed)
    failure = seen.failure
    return {
        "array": seen.array,
        "returned": _text(seen.returned),
        "raw": _told_raw(seen.raw),
        "failure": [_text(part) for part in (failure.kind, failure.message, failure.line)] if failure else None,
        "changed": list(seen.changed),
        "printed": seen.printed,
        "printed_size": seen.printed_size,
        "warned": [_text(each) for each in seen.warned[:KEPT_ITEMS]],
        "carries": seen.carries.name if seen.carries is not None else None,
        "gradients": list(seen.gradients),
        "held": seen.held,
    }


def _text(text: str) -> str:
    return text[:KEPT_TEXT]


def _small(array: np.ndarray) -> bool:
    """An empty array counts as if it held something: with 10¹⁰ rows of no numbers, each row would become an object."""
    size = math.prod(max(1, length) for length in array.shape) * array.itemsize
    return array.ndim <= MOST_AXES and size <= KEPT_BYTES


def _told_raw(raw: Any) -> dict | None:
    """Of what is no array: its dtype if it is one after all, or the numbers in a list, a tuple or a range."""
    if isinstance(raw, np.ndarray):
        return {"dtype": _text(str(raw.dtype))}
    if not isinstance(raw, list | tuple | range):
        return None

    def few(given: Any) -> np.ndarray | None:
        found = numbers(given)
        return found if found is not None and _small(found) and found.dtype.kind in "fiub" else None

    values = few(raw) if len(raw) <= KEPT_ROWS else None
    return {"values": values, "items": [few(each) for each in raw[:KEPT_ITEMS]], "list": not isinstance(raw, tuple)}


def believed(data: Any, arguments: int, at_most: int | None) -> Observation | None:
    """An observation from a message, outside of the sandbox: only what an honest one could hold.

    `arguments` is the number of arguments of that call, `at_most` the bytes that it may hold. BorderError where the
    message has another form. The precision that an answer claims is float32 at most: no claim widens the tolerance.
    """
    if data is None:
        return None
    try:
        failure = None if data["failure"] is None else _failure(data["failure"])
        array = None if failure else _array(data["array"])
        if not failure and array is None and data["returned"] == "ndarray" and "dtype" not in (data["raw"] or {}):
            raise ValueError("an array that did not come")
        held = None if data["held"] is None else _count(data["held"])
        return Observation(
            array=array,
            returned=_line(data["returned"]),
            raw=None if failure or array is not None else _raw(data["raw"]),
            failure=failure,
            changed=tuple(sorted({_checked(i, int) for i in _list(data["changed"])}.intersection(range(arguments)))),
            printed=_checked(data["printed"], str)[:KEPT_OUTPUT],
            printed_size=_count(data["printed_size"]),
            warned=tuple(_line(each) for each in _list(data["warned"])),
            carries=np.dtype(np.float32) if data["carries"] == "float32" else None,
            gradients=tuple(_array(each) for each in _list(data["gradients"])),
            held=held,
            heavy=None if held is None or at_most is None else held > at_most,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BorderError(f"an observation in another form ({type(error).__name__})") from None


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(type(value).__name__)
    return value


def _list(value: Any, most: int = KEPT_ITEMS) -> list:
    if len(_checked(value, list)) > most:
        raise ValueError("too many items")
    return value


def _failure(said: Any) -> Failure:
    kind, message, line = (_line(part) for part in _list(said))
    if not kind:
        raise ValueError("an exception without a name")
    return Failure(kind, message, line)


def _count(number: Any) -> int:
    if not 0 <= _checked(number, int) < 2**50:
        raise ValueError("a count that cannot be")
    return number


def _line(text: Any) -> str:
    return _text(_checked(text, str))


def _array(value: Any) -> np.ndarray | None:
    if value is None:
        return None
    array = _checked(value, np.ndarray)
    if array.dtype.kind not in "fiub" or not _small(array):
        raise ValueError(array.dtype, array.shape)
    return array


def _raw(data: Any) -> Any:
    if data is None:
        return None
    if "dtype" in _checked(data, dict):
        return SimpleNamespace(dtype=_line(data["dtype"]))
    if data["values"] is not None:
        rows = _array(data["values"])
        if len(rows) > KEPT_ROWS:
            raise ValueError(rows.shape)
        values = list(rows)
    else:
        values = [_array(each) for each in _list(data["items"])]
    return values if _checked(data["list"], bool) else tuple(values)


# ---- implementations that a test is tried on -------------------------------------------------------------------------

LARGEST_ARGUMENT, LARGEST_CALL = 20_000, 10_000_000  # numbers in one argument, and in the largest table of a call
MOST_ARGUMENTS, CALL_SECONDS = 16, 5.0  # of a call; it takes milliseconds


def answered(implementation: Callable, arguments: Any, named: Any) -> dict:
    """What an implementation gives for arguments from the sandbox: {"result": …} or {"raised": [type, message]}.

    It runs outside, where nobody can look into it, on no more than a small test needs.
    """
    try:
        if not (isinstance(arguments, list | tuple) and isinstance(named, dict)):
            raise BorderError("a call in another form")
        for value in [*arguments, *named.values()]:
            if not isinstance(value, np.ndarray | np.generic | bool | int | float | None):
                raise TypeError(f"an implementation takes arrays and numbers, not a {type(value).__name__}")
        _modest([*arguments, *named.values()])
        given = []
        with np.errstate(all="ignore"):
            in_time = within(CALL_SECONDS, lambda: given.append(implementation(*arguments, **named)))
        if not in_time:
            raise TimeoutError(f"this call took more than {CALL_SECONDS:g} seconds; call it with less")
        (result,) = given
        return {"result": tuple(result) if isinstance(result, tuple) else result}
    except Exception as error:
        return {"raised": [type(error).__name__, _text(str(error))]}


def _modest(values: list) -> None:
    """ValueError for arguments with which an implementation would fill the memory, or run for long.

    No table that it makes has more axes than its arguments, or two: a mask of position by position. Where there are
    batches it may stack such tables. So the longest axis bounds all, and an empty array counts by its axes as well.
    """
    shapes = [[max(1, length) for length in np.shape(value)] for value in values]
    axes, longest = (max((each(shape) for shape in shapes if shape), default=1) for each in (len, max))
    large = any(math.prod(shape) > LARGEST_ARGUMENT for shape in shapes)
    # A whole number may be a length that is asked for.
    large |= any(abs(int(value)) > LARGEST_ARGUMENT for value in values if _is_whole(value))
    large |= len(values) > MOST_ARGUMENTS or axes > MOST_AXES
    large |= longest ** (2 if axes <= 2 else axes + 1) > LARGEST_CALL
    if large:
        raise ValueError("a check calls an implementation with small inputs; these have too many numbers for grading")


def _is_whole(value: Any) -> bool:
    alone = isinstance(value, np.ndarray | np.generic) and value.shape == ()
    return isinstance(value, int) or (alone and value.dtype.kind in "iu")
