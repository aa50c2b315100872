"""Exercises that observe a gradient beside the value: what is told apart, what is said, and the session kept."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax
from attnlab.exercises.engine import Probe, Wrong, exercise, prove
from attnlab.exercises.engine.comparing import agree, tolerance
from attnlab.exercises.engine.judging import Answer
from attnlab.exercises.engine.running import Observation, observe, session_kept
from attnlab.exercises.engine.tensors import differentiated

INF = float("inf")


def toy():
    """x · y², differentiated by x and by y; made anew for each test."""

    @exercise("9.2", points=1, section="Toys", statement="", hints=["Square y."], gradient_of=["y", "x"])
    def product(x, y):
        """x (n,), y (n,) → (n,)"""
        return x * y**2

    product.probes(lambda rng: [(rng.normal(size=n), rng.normal(size=n)) for n in (3, 4)])
    product.hard_probes(lambda: {"zero": Probe((np.ones(2), np.zeros(2)), "At zero the gradient of y² is 0.")})

    @product.choice_points(
        value={"minus": Wrong("Sign.")},
        root={"detour": Wrong("√(y⁴) is y², and its derivative at 0 is 0/0.")},
        graph={"cut x": Wrong("x is detached."), "cut both": Wrong("All is detached.")},
    )
    def _(x, y, *, value="plus", root="none", graph="kept"):
        x, y = (x if graph == "kept" else x.detach()), (y.detach() if graph == "cut both" else y)
        return x * ((y**4).sqrt() if root == "detour" else y**2) * (-1 if value == "minus" else 1)

    product.variant(lambda x, y: x * y * y)
    return product


# ---- what is observed ----------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_an_unequal_weighting():
    """The gradient of Σ w·softmax(x) is p∘(w − p·w): with equal weights w it would be zero, and say nothing."""
    x = np.array([[0.3, -1.0, 2.0], [0.0, 0.5, 0.1]])
    seen = observe(differentiated(lambda s: s.softmax(-1), [0]), (x,))
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    w = np.cos(np.arange(1.0, 7.0)).reshape(x.shape)
    assert np.allclose(seen.array, p, atol=1e-15)
    assert np.allclose(seen.gradients[0], p * (w - (p * w).sum(-1, keepdims=True)), atol=1e-15)
    assert np.abs(seen.gradients[0]).max() > 0.01 and seen.gradients[0].dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tensors_come_in_the_dtype_of_the_probe_and_numbers_stay_numbers(dtype):
    kinds = []

    def look(x, mask, width):
        kinds.extend([x.dtype, mask.dtype, type(width), x.requires_grad, mask.requires_grad])
        return x * width

    observe(differentiated(look, [0]), (np.ones(2, dtype), np.array([True, False]), 2.5))
    assert kinds == [getattr(torch, np.dtype(dtype).name), torch.bool, float, True, False]


def test_gradients_are_asked_for_in_the_order_of_the_declaration():
    observed = toy().observed(lambda x, y: x + 0 * y)
    by_y, by_x = observe(observed, (np.ones(1), np.ones(1))).gradients
    assert by_y == [0.0] and by_x == [np.cos(1.0)]


@pytest.mark.parametrize(
    "cut",
    [
        lambda s: s.detach() * 2,
        lambda s: s.data * 2,
        lambda s: (s.detach() * 2).numpy(),
        lambda s: torch.zeros(3),
        lambda s: s.argmax(),
        lambda s: 1.5,
    ],
)
def test_a_result_that_is_cut_off_has_no_gradient(cut):
    seen = observe(differentiated(cut, [0]), (np.ones(3),))
    assert seen.gradients == (None,) and seen.failure is None and seen.finite


def test_a_change_of_the_input_behind_torch_s_back_is_seen():
    seen = observe(differentiated(lambda s: s.data.mul_(2) + s, [0]), (np.ones(3),))
    assert seen.changed == (0,) and seen.failure is None


def test_a_nan_in_the_gradient_alone_is_no_finite_number():
    seen = observe(differentiated(lambda s: (s + torch.tensor([-INF])).softmax(-1).nan_to_num(), [0]), (np.ones(1),))
    assert seen.array.tolist() == [0.0] and np.isnan(seen.gradients[0]).all() and not seen.finite


# ---- agreement -----------------------------------------------------------------------------------------------------


def seen(gradient, value=1.0):
    return Observation(array=np.array([value]), gradients=(gradient,))


def test_gradients_agree_like_values_and_none_counts_as_zero():
    one, near, nan = np.array([1.0]), np.array([1.0 + 1e-9]), np.array([np.nan])
    assert agree(seen(one), seen(near), 1e-8) and not agree(seen(one), seen(near), 1e-10)
    assert agree(seen(nan), seen(nan), 0) and not agree(seen(one), seen(nan), 1e9)
    assert agree(seen(np.zeros(1)), seen(None), 0) and agree(seen(None), seen(np.zeros(1)), 0)
    assert not agree(seen(one), seen(None), 1e-3) and agree(seen(None), seen(None), 0)
    assert not agree(seen(one), seen(one, value=2.0), 1e-3)


def test_the_tolerance_knows_what_the_gradient_loses():
    """Near 1, √(1 − x²) keeps its digits much better than its gradient does."""
    x = (np.array([1 - 1e-5]),)
    value = tolerance(lambda x: np.sqrt(1 - x**2), x, np.dtype(np.float32))
    both = tolerance(differentiated(lambda x: (1 - x**2).sqrt(), [0]), x, np.dtype(np.float32))
    assert both > 2 * value


# ---- verdicts ------------------------------------------------------------------------------------------------------


def test_every_wrong_turn_is_recognised_also_where_values_are_right():
    proof = prove(toy(), range(20))
    assert proof.failures == [] and proof.mistakes == 4 and proof.variants == 1


def test_right_values_with_a_wrong_gradient_are_said_to_be_that():
    verdict = toy().judge(lambda x, y: x.detach() * y**2)
    assert verdict.turns == (("graph: cut x",),)
    assert verdict.words == ["The forward result is right; the gradient is not.", "x is detached."]
    shown = verdict.comparison
    assert shown.labels[1:] == ("Expected gradient of the loss with respect to x", "Gradient through your function")
    assert shown.received == "no gradient arrives" and shown.expected.endswith("shape (3,)")
    assert "loss = (result * cos(" in shown.call
    for part in shown.labels:
        assert part in str(verdict) and part in verdict._repr_html_()


def test_nan_in_the_gradient_of_a_hard_probe_only():
    verdict = toy().judge(lambda x, y: x * torch.sqrt(y**2) ** 2)
    assert verdict.turns == (("root: detour",),) and verdict.words[0].startswith("The forward result is right")
    assert verdict.comparison.expected.startswith("[0. 0.]") and verdict.comparison.received.startswith("[nan nan]")


def test_wrong_values_are_shown_before_gradients():
    verdict = toy().judge(lambda x, y: -x.detach() * y**2)
    assert verdict.turns == (("value: minus", "graph: cut x"),)
    assert "forward" not in " ".join(verdict.words) and verdict.comparison.labels[1] == "Expected"


def test_a_wrong_gradient_does_not_make_values_right_that_are_wrong_elsewhere():
    verdict = toy().judge(lambda x, y: torch.where(y == 0, 5.0, x.detach() * y**2))
    assert verdict.turns == (("graph: cut x",),) and verdict.remarks == ("zero",)
    assert verdict.words == ["x is detached.", "And beyond that: At zero the gradient of y² is 0."]


def test_a_constant_added_has_the_right_gradient_and_wrong_values():
    verdict = toy().judge(lambda x, y: x * y**2 + 1)
    assert verdict.status == "unrecognised" and verdict.comparison.labels[1] == "Expected"
    assert verdict.words == ["On this input, every number is +1 off."]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, y: x * y.detach() ** 2, "No gradient arrives at `y`"),
        (lambda x, y: 2 * x * y**2 - (x * y**2).detach(), "every number is 2 times the expected one"),
        (lambda x, y: x * y**2 + 0 * (x - x).sqrt(), "3 of 3 numbers are nan"),
        (lambda x, y: x * y**2 + (x**3 - (x**3).detach()), "compare them below"),
    ],
)
def test_what_a_gradient_says_that_no_mistake_explains(answer, words):
    verdict = toy().judge(answer)
    assert verdict.status == "unrecognised" and verdict.words[0] == "The forward result is right; the gradient is not."
    assert words in " ".join(verdict.words), verdict.words


def test_right_on_ordinary_inputs_names_the_forward_result_too():
    verdict = toy().judge(lambda x, y: x * y**2 + 0 * y.abs().pow(0.5))  # the gradient at 0 is 0 · ∞
    assert verdict.turns == (("root: detour",),)


def overwritten(s):
    e = s.exp()
    result = e * e
    e += 1
    return result


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, y: x.mul_(2), "It changes an argument in place, and torch refuses that"),
        (lambda x, y: x.__setitem__(0, 0.0), "It changes an argument in place, and torch refuses that"),
        (lambda x, y: overwritten(x), "A tensor that the gradient needs was overwritten."),
        (lambda x, y: np.exp(x), "NumPy carries no gradient."),
        (lambda x, y: np.asarray(x), "NumPy carries no gradient."),
    ],
)
def test_what_torch_says_is_said_in_words(answer, words):
    verdict = toy().judge(answer)
    assert verdict.status == "unrecognised" and "It raised RuntimeError" in verdict.words[0]
    assert words in verdict.words[1] and verdict.comparison.received.startswith("RuntimeError: ")


def test_a_tuple_is_told_which_item_is_right():
    assert "But its item 0 would be right" in toy().judge(lambda x, y: (x * y**2, x)).words[1]
    assert toy().judge(lambda x, y: [x, y]).comparison.received == "an object of type list"


# ---- the session ---------------------------------------------------------------------------------------------------


def test_a_gradient_is_seen_whatever_the_session_has_set_and_settings_are_put_back():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)

    def careless(x, y):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float16)
        return x * y**2

    with torch.no_grad():
        assert toy().judge(lambda x, y: x * y**2).correct
        assert toy().judge(lambda x, y: x.detach() * y**2).turns == (("graph: cut x",),)
        assert not torch.is_grad_enabled()
    assert toy().judge(careless).words[0] == "The forward result is right; the gradient is not."
    assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    assert torch.get_num_threads() == 2
    torch.set_num_threads(threads)


def test_a_deadline_in_the_midst_of_a_backward_pass_leaves_gradients_on():
    with torch.no_grad():
        for _ in range(10):
            answer = Answer(toy(), lambda x, y: x * y**2, 1)
            many = [answer.exercise.ordinary(1)[0]] * 20_000
            answer.exercise.ordinary = lambda seed, many=many: many
            answer.run(0.01)
            assert not torch.is_grad_enabled()
    with session_kept():
        torch.set_grad_enabled(False)
    assert torch.is_grad_enabled()


def test_an_endless_loop_is_stopped():
    def endless(x, y):
        while True:
            x = x + 0

    assert toy().judge(endless, seconds=0.3).title == "It did not finish"


def in_a_session(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_is_imported_when_such_an_exercise_is_checked_and_not_before():
    said = in_a_session("""
        import sys
        from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax as one
        def stub(scores, mask): ...
        one.hint(), one.solution(), one.check(), one.check(stub)
        print("torch" in sys.modules)
        one.check(lambda scores, mask: scores)
        print("torch" in sys.modules)
    """)
    assert said.count("False\n") == 1 and said.endswith("True\n") and "Not attempted yet" in said


def test_the_first_check_imports_nothing_within_its_time():
    """Asked for the gradient of several numbers, torch imports sympy first: seconds on a slow machine."""
    said = in_a_session("""
        import sys, torch
        from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax as one
        torch.ones(1)
        loaded = set(sys.modules)
        print(one.judge(one.reference).correct, sorted(n for n in set(sys.modules) - loaded if "." not in n))
    """)
    assert said == "True []\n"


def test_without_torch_the_card_says_what_to_install_and_blames_nobody():
    said = in_a_session("""
        import os, sys
        sys.modules["torch"] = None  # from here on, `import torch` raises ImportError
        from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax as one
        one.check(lambda scores, mask: scores)
        os.environ["NBGRADER_EXECUTION"] = "autograde"
        try:
            one.check(lambda scores, mask: scores)
        except AssertionError as error:
            print("graded:", error)
    """)
    assert said.startswith("○ This exercise needs PyTorch  (Exercise 3.5 · masked_softmax)")
    assert "`pip install torch`" in said and "✗" not in said and "graded: ○ This exercise needs PyTorch" in said


ABSENT = ["sys.modules['torch'] = None", "sys.meta_path.insert(0, NotThere())"]


@pytest.mark.parametrize("torch", ["import torch", *ABSENT])
def test_the_gap_itself_says_so_too_since_a_cell_that_imports_torch_leaves_it(torch):
    said = in_a_session(f"""
        import sys
        class NotThere:
            def find_spec(self, name, *_):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(name)
        {torch}
        from attnlab.exercises.ch3_matrix_and_masks.masked_softmax import masked_softmax as one
        def untouched(scores, M):
            ...
        one.check(untouched)
    """)
    assert said.startswith("○ This exercise needs PyTorch" if torch in ABSENT else "○ Not attempted yet")


def test_nbgrader_gets_an_error_for_a_wrong_gradient_and_none_for_a_right_one(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="the gradient is not"):
        masked_softmax.check(lambda scores, mask: (scores + mask).softmax(-1).nan_to_num())
    masked_softmax.check(masked_softmax.reference)
    assert "✓ Correct" in capsys.readouterr().out


def test_the_solution_runs_as_it_is_shown():
    scope = {}
    exec(masked_softmax.solution_source, scope)
    assert masked_softmax.judge(scope["masked_softmax"]).correct
