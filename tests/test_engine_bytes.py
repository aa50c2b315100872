"""Hard probes that count bytes: what is counted, what is judged and said, and the session kept."""

import tracemalloc

import numpy as np
import pytest
import torch

from attnlab.exercises.engine import Probe, Wrong, exercise, prove
from attnlab.exercises.engine.comparing import agree
from attnlab.exercises.engine.counting import held_by
from attnlab.exercises.engine.describing import ONLY_BYTES, UNCOUNTED
from attnlab.exercises.engine.judging import Answer
from attnlab.exercises.engine.running import Observation, observe

N, SLACK = 20_000, 3_000  # numbers of 8 bytes; what Python itself needs for a call
ALLOWED = 4 * N  # half of what one copy of the numbers takes


def piecewise(x, power=2):
    return np.array(sum(float((np.abs(x[i : i + 100]) ** power).sum()) for i in range(0, len(x), 100)))


def toy(twin=True):
    """The sum of squares, a piece at a time; made anew for each test."""

    @exercise("9.4", points=1, section="Toys", statement="", hints=["Piece by piece."])
    def squares(x):
        """x (n,) → ()"""
        return piecewise(x)

    squares.probes(lambda rng: [(rng.normal(size=n),) for n in (3, 150)])
    squares.hard_probes(
        lambda: {
            "many numbers": Probe((np.linspace(-1, 1, N),), "It holds all squares.", at_most=ALLOWED),
            "none": Probe((np.zeros(0),), "Nothing to add."),
        }
    )
    wrong = {"bytes": {"all": Wrong("All squares are held.", hint="How long is your array?")}} if twin else {}

    @squares.choice_points(power={"one": Wrong("Not squared.", hint="Which power?")}, **wrong)
    def _(x, *, power="two", bytes="few"):
        return piecewise(np.abs(x) if bytes == "all" else x, 1 if power == "one" else 2)

    return squares


# ---- what is counted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "copies"),
    [
        (lambda x: x[5:].reshape(-1, 1), 0),  # a view
        (lambda x: x.sum(), 0),
        (lambda x: x + 1, 1),  # the result
        (lambda x: (x + 1).sum(), 1),  # what is gone at the end
        (lambda x: ((x + 1) * x + 2)[0], 2),  # NumPy reuses the product's memory for the sum
        (lambda x: [(x + i).sum() for i in range(5)], 1),  # one after the other
        (lambda x: [x + i for i in range(5)], 5),  # all at once
        (lambda x: x.astype(np.float32), 0.5),
        (lambda x: x.tolist(), 4),  # a Python number takes 24 bytes, and 8 in the list
    ],
)
def test_the_most_that_is_held_at_once_is_counted_beside_the_arguments(call, copies):
    x = np.linspace(0, 1, N)
    held_by(call, (x,))  # once before: what is imported or compiled at the first call
    result, held = held_by(call, (x,))
    assert np.array_equal(np.asarray(result), np.asarray(call(x)))
    assert abs(held - 8 * N * copies) <= SLACK


def test_bytes_are_counted_where_they_are_asked_for():
    x = np.linspace(0, 1, N)
    seen = observe(lambda x: x + 1, (x,))
    assert seen.held is None and seen.heavy is None
    seen = observe(lambda x: x + 1, (x,), at_most=10**6)
    assert 8 * N <= seen.held <= 8 * N + SLACK and seen.heavy is False
    assert observe(lambda x: x + 1, (x,), at_most=seen.held - SLACK).heavy is True
    assert observe(lambda x: 1 / 0, (x,), at_most=1).heavy is None


def test_what_tensors_hold_is_not_judged():
    x = np.linspace(0, 1, N)
    for answer in (lambda x: torch.from_numpy(x) + 1, lambda x: torch.tensor(x)):
        seen = observe(answer, (x,), at_most=1)
        assert seen.held is None and seen.heavy is None and seen.array.shape == (N,)


def test_bytes_agree_unless_one_is_too_heavy_and_the_other_is_not():
    light, heavy, uncounted = (Observation(array=np.ones(2), heavy=heavy) for heavy in (False, True, None))
    assert (
        agree(light, light, 0) and agree(heavy, heavy, 0) and not agree(light, heavy, 1) and not agree(heavy, light, 1)
    )
    assert agree(light, uncounted, 0) and agree(uncounted, heavy, 0)


# ---- verdicts --------------------------------------------------------------------------------------------------------


def test_the_wrong_turns_are_recognised_and_the_reference_is_accepted():
    proof = prove(toy(), range(10))
    assert proof.failures == [] and proof.mistakes == 2 and proof.pairs == 1


@pytest.mark.parametrize(
    "light",
    [
        piecewise,
        lambda x: np.float64(sum(v * v for v in x)),
        lambda x: np.dot(x, x),
        lambda x: np.einsum("i,i->", x, x),
        lambda x: sum([np.square(part).sum() for part in np.array_split(x, 50)], 0.0),
    ],
)
def test_an_answer_that_holds_little_is_right_in_any_form(light):
    verdict = toy().judge(light)
    assert verdict.correct and verdict.words == [], str(verdict)


@pytest.mark.parametrize("heavy", [lambda x: (x**2).sum(), lambda x: x.copy() @ x, lambda x: sum(list(x * x))])
def test_right_values_that_hold_too_much_are_said_to_be_that_with_the_count(heavy):
    verdict = toy().judge(heavy)
    assert verdict.turns == (("bytes: all",),) and verdict.remarks == ()
    assert verdict.words == [ONLY_BYTES, "All squares are held."] and verdict.hint == "How long is your array?"
    shown = verdict.comparison
    assert shown.labels == ("Called with", "May hold at once", "Your function held at once")
    assert shown.call.startswith("x = [-1.") and f"shape ({N},)" in shown.call
    allowed, solution = shown.expected.split("; the solution holds about ")
    assert allowed == f"{ALLOWED:,} bytes" and 0 < _number(solution) <= 10_000
    assert _number(shown.received.removeprefix("about ")) >= 8 * N
    for part in (*shown.labels, shown.received):
        assert part in str(verdict) and part in verdict._repr_html_()


def _number(text):
    return int(text.removesuffix(" bytes").replace(",", ""))


def test_beside_wrong_values_the_count_is_told_in_words():
    verdict = toy().judge(lambda x: np.abs(x).sum())
    assert verdict.turns == (("power: one", "bytes: all"),) and verdict.words[:2] == [
        "Not squared.",
        "And: All squares are held.",
    ]
    assert verdict.words[2].startswith("Called with *many numbers* it held about 16")
    assert verdict.words[2].endswith(f"bytes at once; {ALLOWED:,} are enough.") and verdict.hint == "Which power?"
    assert "Your function gave" in verdict.comparison.labels
    verdict = toy().judge(lambda x: 3 * (x**2).sum())  # wrong in a way that nobody knows
    assert verdict.status == "unrecognised" and any("it held about" in text for text in verdict.words)


def test_too_many_bytes_that_no_twin_explains_are_told_by_the_probe_s_remark():
    verdict = toy(twin=False).judge(lambda x: (x**2).sum())
    assert verdict.turns == () and verdict.remarks == ("many numbers",) and verdict.status == "recognised"
    assert verdict.words == [ONLY_BYTES, "It holds all squares."]


def test_an_answer_that_makes_tensors_is_right_and_told_that_nobody_counted():
    for answer in (lambda x: (torch.as_tensor(x) ** 2).sum(), lambda x: x.pow(2).sum()):
        verdict = toy().judge(answer)
        assert verdict.correct and verdict.words == [f"One thing more: {UNCOUNTED}"]


def test_tensors_inside_are_seen_too_and_what_is_for_arrays_alone_is_no_longer_asked():
    squares = toy()
    whole = Probe((np.arange(3),), "For whole numbers it fails.", True, True)
    squares.hard_probes(lambda many=squares._hard: {**many(), "integers": whole})
    inside = [
        lambda x: (torch.from_numpy(x) ** 2).sum().numpy(),
        lambda x: float(torch.dot(*[torch.from_numpy(x)] * 2)),
    ]
    for answer in inside:  # an array comes back, and a number
        verdict = squares.judge(lambda x, answer=answer: answer(x) if x.dtype.kind == "f" else answer("no"))
        assert verdict.correct and verdict.words == [f"One thing more: {UNCOUNTED}"]
    verdict = squares.judge(lambda x: piecewise(x) if x.dtype.kind == "f" else 1 / 0)
    assert verdict.correct and verdict.words == ["One thing more: For whole numbers it fails."]


def test_too_much_beside_tensors_is_too_much():
    verdict = toy().judge(lambda x: float(torch.from_numpy(x**2).sum()))
    assert verdict.turns == (("bytes: all",),) and verdict.words[0] == ONLY_BYTES


# ---- the session -----------------------------------------------------------------------------------------------------


def test_memory_is_traced_no_longer_than_the_call():
    during = []

    def answer(x):
        during.append(tracemalloc.is_tracing())
        if len(x) == N and fails:
            raise KeyError
        return piecewise(x)

    for fails in (False, True):
        assert toy().judge(answer).correct is not fails
        assert not tracemalloc.is_tracing()
    assert set(during) == {False, True} and during.count(True) == 2


def test_tracing_that_the_session_has_begun_goes_on():
    tracemalloc.start()
    try:
        mine, _ = np.ones(N), np.ones(10 * N).sum()  # an earlier peak is none of ours
        assert not toy().judge(lambda x: (x**2).sum()).correct
        assert toy().judge(piecewise).correct
        assert tracemalloc.is_tracing() and tracemalloc.get_traced_memory()[0] >= mine.nbytes
    finally:
        tracemalloc.stop()


def test_a_call_that_is_stopped_or_traces_by_itself_leaves_nothing_behind():
    def endless(x):
        while len(x) == N:
            pass
        return piecewise(x)

    assert toy().judge(endless, seconds=0.3).title == "It did not finish"
    assert not tracemalloc.is_tracing()

    def traces(x):
        tracemalloc.start()
        return piecewise(x)

    answer = Answer(toy(), traces, seed=1)
    assert answer.run(5) and not tracemalloc.is_tracing()
