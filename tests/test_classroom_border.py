"""What crosses the sandbox's border arrives as it was, and nothing else is believed."""

import contextlib
import socket
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from attnlab.classroom.assignments import chapter
from attnlab.classroom.sandbox import border, judging
from attnlab.classroom.sandbox.border import BorderError
from attnlab.exercises.engine import exercises_of
from attnlab.exercises.engine.judging import recognise
from attnlab.exercises.engine.observing import Observations
from attnlab.exercises.engine.running import Failure, Observation

EVERY = [each for number in "123456" for each in exercises_of(chapter(number))]

plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=20)
dtypes = st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.int8, np.uint16, np.bool_])
arrays = dtypes.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0, max_side=3)))
messages = st.recursive(
    plain | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="$", exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def same(one, other) -> bool:
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and np.array_equal(one, other, one.dtype.kind == "f")
        )
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@given(messages)
def test_a_message_arrives_as_it_was(message):
    assert same(message, border.unpack(border.pack(message)))


def test_halves_of_characters_arrive_as_something_that_can_be_written():
    came = border.unpack(border.pack({"a\ud800": ["b\udfff", {"c\ud800": 1}]}))
    assert came == {"a?": ["b?", {"c?": 1}]}
    forged = save({}, metadata={"message": '{"d\\ud800": "e\\udfff"}'})
    assert border.unpack(forged) == {"d?": "e?"}


def test_arrays_in_every_layout_arrive_as_they_were():
    table = np.arange(24.0).reshape(4, 6)
    for array in (table.T, table[::2, ::-1], np.asfortranarray(table), table.astype(">f4"), table[:, :0], np.array(3)):
        came = border.unpack(border.pack([array]))[0]
        assert came.shape == array.shape and np.array_equal(came, array)
    assert border.unpack(border.pack(np.longdouble(1.5))) == 1.5
    for scalar in (np.float32(2.5), np.int64(3), np.bool_(True)):
        assert type(border.unpack(border.pack(scalar))) is type(scalar)


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.tuples(messages, st.integers(0, 60), st.binary(min_size=1, max_size=4)))
def test_any_bytes_are_a_message_or_an_error_of_the_border(data):
    if isinstance(data, tuple):  # a real message with a few bytes overwritten
        message, at, other = data
        whole = border.pack(message)
        data = whole[:at] + other + whole[at + len(other) :]
    with contextlib.suppress(BorderError):
        border.unpack(data)


@pytest.mark.parametrize("data", [object(), {1, 2}, b"bytes", np.array([object()]), np.array(["text"]), 1j], ids=type)
def test_objects_do_not_cross(data):
    with pytest.raises(TypeError, match="cannot cross"):
        border.pack([data])


def test_too_large_too_late_and_cut_off():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall((border.LARGEST + 1).to_bytes(border.HEADER, "little"))
        with pytest.raises(BorderError, match="at most"):
            border.receive(ours, time.monotonic() + 5)
        with pytest.raises(TimeoutError):
            border.receive(ours, time.monotonic() + 0.05)
        theirs.sendall((100).to_bytes(border.HEADER, "little") + b"only a part")
        theirs.shutdown(socket.SHUT_WR)
        assert border.receive(ours, time.monotonic() + 5) is None


# ---- observations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", EVERY, ids=lambda each: each.number)
def test_judged_across_the_border_a_twin_is_what_it_is_here(exercise):
    """Every single wrong turn, the reference and the variants: the same verdict, word by word."""
    functions = [twin.function for twin in exercise.twins if len(twin.turns) < 2] + [*exercise.variants.values()]
    for function in functions:
        here = exercise.judge(function, seconds=60)
        seen = Observations(exercise.asked(), function)
        assert seen.run(60)
        said = {tier: [border.told(o) for o in getattr(seen, tier)] for tier in ("ordinary", "hard")}
        there = judging.verdict_on(judging.believed(exercise, border.unpack(border.pack(said))))
        assert (here.correct, here.turns) == (there.correct, there.turns)
        # A test may draw its inputs anew in each run, and bytes are counted anew: then words may differ, or digits.
        if not exercise.tests:
            assert (here.status, here.remarks, here.words) == (there.status, there.remarks, there.words)
            if not any(probe.at_most for probe in exercise.hard):
                assert str(here) == str(there)


def told(**changes):
    seen = Observation(array=np.array([1.0, 2.0]), returned="ndarray")
    return border.unpack(border.pack(border.told(seen))) | changes


def test_what_an_honest_observation_cannot_hold_is_not_believed():
    kept = border.believed(told(), 2, None)
    assert kept.array.tolist() == [1, 2] and kept.carries is None
    # A claim to be coarse would widen the tolerance until everything passes.
    for claimed, believed in {"float32": np.float32, "float16": None, "float8": None, 3: None}.items():
        assert border.believed(told(carries=claimed), 2, None).carries == believed
    assert border.believed(told(held=5_000), 2, 90_000).heavy is False
    assert border.believed(told(held=95_000), 2, 90_000).heavy is True
    assert border.believed(told(changed=[1, 7, -1]), 2, None).changed == (1,)
    long = border.believed(told(failure=["E" * 9999, "m\ud800" * 9999, "l"], printed="p" * 9999), 2, None)
    assert len(long.failure.kind) == border.KEPT_TEXT and len(long.printed) == 2000
    str(long.failure).encode()  # no half of a character is left
    for wrong in (
        told(array="text"),
        told(array=[1, 2]),
        told(held=-1),
        told(held="few"),
        told(failure=[1, 2, 3]),
        told(printed=None),
        told(warned=[1]),
        told(gradients=None),
        told(printed_size=True),
        told(failure=["", "an exception without a name", ""]),
        told(failure=["ValueError", "words"]),
        told(failure=[]),
        told(failure=""),
        told(changed={"0": 1}),
        told(changed=["0"]),
        told(warned={}),
        told(warned=["w"] * (border.KEPT_ITEMS + 1)),
        told(array=np.zeros((1,) * (border.MOST_AXES + 1))),
        told(array=np.zeros((0, 2**40))),
        {},
        [],
        "text",
        3,
    ):
        with pytest.raises(BorderError):
            border.believed(wrong, 2, None)


ROWS = np.empty((10**5, 0))  # of such rows 10¹⁰ weigh nothing, and each that is looked at becomes an object


@pytest.mark.parametrize(
    "changes",
    [
        {"gradients": ROWS},
        {"gradients": [None] * (border.KEPT_ITEMS + 1)},
        {"gradients": [np.empty((10**6, 0))]},
        {"array": np.empty((10**6, 0))},
        {"warned": ROWS},
        {"changed": ROWS},
        {"failure": ROWS},
        {"raw": {"values": ROWS, "items": [], "list": True}},
        {"raw": {"values": np.empty((10**6, 0)), "items": [], "list": True}},
        {"raw": {"values": np.zeros(10**5, dtype=bool), "items": [], "list": True}},
        {"raw": {"values": None, "items": ROWS, "list": True}},
        {"raw": {"values": None, "items": [None] * (border.KEPT_ITEMS + 1), "list": True}},
    ],
)
def test_rows_without_numbers_are_not_looked_at(changes, monkeypatch):
    seen = told(**({"array": None, "returned": "list"} if "raw" in changes else {}))
    looked, array = [], border._array
    monkeypatch.setattr(border, "_array", lambda value: looked.append(1) or array(value))
    with pytest.raises(BorderError):
        border.believed(seen | changes, 2, None)
    assert len(looked) <= 2


def test_an_honest_result_without_numbers_is_told_and_one_of_many_rows_is_not():
    for shape in ((0,), (3, 0), (0, 4)):
        seen = Observation(array=np.empty(shape), returned="ndarray")
        assert border.believed(border.unpack(border.pack(border.told(seen))), 1, None).array.shape == shape
    for array in (np.empty((10**9, 0)), np.zeros((1,) * 60)):
        assert border.told(Observation(array=array, returned="ndarray"))["failure"][0] == "ResultTooLarge"
    long = Observation(returned="list", raw=[0.0] * (border.KEPT_ROWS + 1))
    came = border.believed(border.unpack(border.pack(border.told(long))), 1, None)
    assert came.returned == "list" and len(came.raw) == border.KEPT_ITEMS


def test_a_message_holds_no_more_arrays_than_an_honest_one():
    few, many = ({str(i): np.empty(0) for i in range(n)} for n in (border.MOST_ARRAYS - 1, border.MOST_ARRAYS))
    assert border.unpack(save(few, metadata={"message": "3"})) == 3
    with pytest.raises(BorderError):
        border.unpack(save(many, metadata={"message": "3"}))
    assert border.unpack(save(many, metadata={"message": "3"}), trusted=True) == 3


def test_a_result_that_is_too_large_is_told_as_a_failure():
    told_ = border.told(Observation(array=np.zeros(border.KEPT_BYTES // 8 + 1), returned="ndarray"))
    seen = border.believed(border.unpack(border.pack(told_)), 1, None)
    assert seen.array is None and seen.failure.kind == "ResultTooLarge" and "131073" in seen.failure.message


@pytest.mark.parametrize(
    "leave_out",
    [
        lambda said: said.update(hard=[]),  # as if no ordinary call had given a result
        lambda said: said.update(hard=said["hard"][:-1]),
        lambda said: said["hard"].__setitem__(0, None),
        lambda said: said["ordinary"].__setitem__(0, None),
        lambda said: said.update(ordinary=said["ordinary"] * 2),
        lambda said: said.pop("ordinary"),
        lambda said: said.update(ordinary=7),
    ],
)
def test_no_call_can_be_left_out(leave_out):
    exercise = next(each for each in EVERY if each.name == "stable_softmax")
    seen = Observations(exercise.asked(), exercise.reference)
    assert seen.run(60)
    said = {tier: [border.told(o) for o in getattr(seen, tier)] for tier in ("ordinary", "hard")}
    assert recognise(judging.believed(exercise, said)).correct
    leave_out(said)
    with pytest.raises((BorderError, KeyError)):
        judging.believed(exercise, said)


# ---- implementations -------------------------------------------------------------------------------------------------


def test_implementations_answer_small_calls_and_refuse_large_ones():
    def product(query, key, value, scale=1.0):
        return (query @ np.swapaxes(key, -1, -2) * scale) @ value

    few = np.ones((6, 4))
    assert np.array_equal(
        border.answered(product, [few, few, few], {"scale": 0.5})["result"], product(few, few, few, 0.5)
    )
    kind, words = border.answered(product, [few, np.ones((6, 3)), few], {})["raised"]
    assert kind == "ValueError" and "matmul" in words
    for large in (np.ones((20_001,)), np.ones((4_000, 1))):
        assert border.answered(product, [large, large, large], {})["raised"][0] == "ValueError"
    wide = [np.ones((200, 1, 2, 2)), np.ones((1, 200, 2, 2)), np.ones((200, 1, 1, 2, 2))]
    assert "small inputs" in border.answered(product, wide, {})["raised"][1]
    assert border.answered(None, [few], {})["raised"][0] == "TypeError"
    assert border.answered(product, "text", {})["raised"][0] == "BorderError"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        *(([np.empty(shape)] * 3, {}) for shape in ((300, 0, 0), (0, 300, 0), (60, 1, 1), (30, 1, 1, 0), (1,) * 60)),
        *(([np.empty(shape)] * 3, {}) for shape in ((10**8, 0), (0, 10**8), (4_000, 0), (4_000,), (200, 0, 200))),
        ([np.empty((1, 4, 1)), np.empty((60, 4, 0))], {}),
        ([np.ones((2, 2))], {"mask": np.empty((300, 0, 0))}),
        ([np.ones((2, 2)), 10**400], {}),
        ([np.ones((2, 2))], {"window": 10**9}),
        ([np.ones((2, 2))], {"window": -(10**9)}),
        ([np.ones((2, 2))], {"window": np.int64(10**9)}),
        ([np.ones((2, 2))], {"window": np.array(10**9)}),
        ([1.0] * 1_000, {}),
    ],
)
def test_no_implementation_is_called_with_what_would_grow_in_it(arguments, named):
    calls = []
    kind, words = border.answered(lambda *a, **k: calls.append(1), arguments, named)["raised"]
    assert kind == "ValueError" and "small inputs" in words and calls == []


def test_implementations_take_what_small_tests_ask():
    def given(*arguments, **named):
        return float(len(arguments) + len(named))

    for shape in ((6, 4), (64, 64), (1_000, 8), (3_000,), (0, 4), (6, 0), (2, 6, 4), (2, 3, 6, 4), ()):
        assert border.answered(given, [np.ones(shape)] * 3, {}) == {"result": 3.0}, shape
    assert border.answered(given, [0.5, np.float32(2), None, 7, True], {"window": 3}) == {"result": 6.0}


def test_an_implementation_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(border, "CALL_SECONDS", 0.1)

    def endless():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            pass

    kind, words = border.answered(endless, [], {})["raised"]
    assert kind == "TimeoutError" and "0.1 seconds" in words
    assert border.answered(lambda: 1.0, [], {}) == {"result": 1.0}


def test_an_observation_of_a_failure_keeps_its_words():
    seen = Observation(failure=Failure("ValueError", "shapes (3,) and (4,)", "return a @ b"), warned=("a warning",))
    came = border.believed(border.unpack(border.pack(border.told(seen))), 1, None)
    assert came.failure == seen.failure and came.warned == seen.warned
