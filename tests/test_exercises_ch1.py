"""Chapter 1's exercises: answers as people type them. The proof of the checker: `test_exercises.py`."""

import numpy as np
import torch  # here: the first import takes longer than a check may

from attnlab import softmax
from attnlab.exercises import ch1_weights as ch1
from attnlab.exercises.engine import exercises_of

EXERCISES = exercises_of(ch1)


def test_what_the_chapter_must_have():
    assert sum(p.points for p in EXERCISES) == 13
    for one in EXERCISES:
        kinds = {a.dtype.char for p in [*one.ordinary(), *one.hard] for a in p.arguments if isinstance(a, np.ndarray)}
        assert {"f", "d"} <= kinds, one.name


# ---- typed by hand: (exercise, answer, turns expected; () for correct) ---------------------------------------------


def exp_over_sum(s):
    return np.exp(s) / np.sum(np.exp(s), axis=-1, keepdims=True)


def over_axis_0(s):
    e = np.exp(s - s.max())
    return e / e.sum(axis=0)


def divided_by_largest(s):
    e = np.exp(s / s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def divided_by_largest_of_all(s):
    e = np.exp(s / s.max())
    return e / e.sum(axis=-1, keepdims=True)


def divided_all_over(s):
    e = np.exp(s / np.max(s))
    return e / np.sum(e)


def keepdims_missing(s):
    e = np.exp(s)
    return e / e.sum(axis=-1)


def attention_on_keys(q, k, v):
    return softmax(k @ q / np.sqrt(len(q))) @ k


def attention_torch_style(query, keys, values):
    q, k, v = (torch.as_tensor(x, dtype=torch.float64) for x in (query, keys, values))
    return torch.nn.functional.scaled_dot_product_attention(q[None], k, v)[0]


def attention_as_jacobian_of_logsumexp(query, keys, values):
    """An unusual right one: the weights are the gradient of log Σ exp."""
    s = (keys * query).sum(axis=1) / query.size**0.5
    s = s.astype(float)
    top = s.max()
    lse = top + np.log(np.exp(s - top).sum())
    return np.einsum("k,kd", np.exp(s - lse), values)


def mask_then_renormalise(scores, allowed):
    w = softmax(scores) * allowed
    return w / w.sum()


def mask_loop(scores, allowed):
    best = max(s for s, ok in zip(scores, allowed, strict=True) if ok)
    e = [float(np.exp(s - best)) if ok else 0.0 for s, ok in zip(scores, allowed, strict=True)]
    return np.array(e) / sum(e)


def last_round_alone(w, v):
    for share, value in zip(w, v, strict=True):
        out = share * value
    return out


def returns_in_the_first_round(w, v):
    out = 0
    for share, value in zip(w, v, strict=True):
        out = out + share * value
        return out


def sum_over_all(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum()


def pythons_sum(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / sum(e)


def column_maxima(s):
    e = np.exp(s - s.max(axis=0))
    return e / e.sum(axis=-1, keepdims=True)


def derivatives_by_cases(same, other):
    def table(scores):
        w = softmax(scores)
        n = range(len(w))
        return np.array([[same(w[i]) if i == j else other(w[i], w[j]) for j in n] for i in n])

    return table


def turned_and_own_softmax(s, a):
    s = np.where(a, -np.inf, s)
    e = np.exp(s - s.max())
    return e / e.sum()


BY_HAND = [
    (ch1.weighted_average, last_round_alone, ("last one",)),
    (ch1.weighted_average, returns_in_the_first_round, ("first one",)),
    (ch1.weighted_average, lambda w, v: np.sum(w[:, None] * v), ("total: everything",)),
    (ch1.weighted_average, lambda w, v: v.mean(axis=0), ("share: equal",)),
    (ch1.weighted_average, lambda w, v: (w[:, None] * v).mean(axis=0), ("total: mean",)),
    (ch1.weighted_average, lambda w, v: w[:, None] * v, ("total: no sum",)),
    (ch1.weighted_average, lambda w, v: v[np.argmax(w)], ("share: winner",)),
    (ch1.weighted_average, lambda w, v: v.T @ w, ()),
    (ch1.weighted_average, lambda w, v: sum(a * b for a, b in zip(w, v, strict=True)), ()),
    (ch1.stable_softmax, exp_over_sum, ("shift: none",)),
    (ch1.stable_softmax, lambda s: np.exp(s) / np.exp(s).sum(), ("axis: all", "shift: none")),
    (ch1.stable_softmax, over_axis_0, ("axis: first",)),
    (ch1.stable_softmax, lambda s: np.exp(s), ("divide: not", "shift: none")),
    (ch1.stable_softmax, lambda s: s / s.sum(axis=-1, keepdims=True), ("function: no exp",)),
    (ch1.stable_softmax, lambda s: np.apply_along_axis(softmax, -1, s), ()),
    (ch1.stable_softmax, divided_by_largest, ("shift: divided",)),
    (ch1.stable_softmax, divided_by_largest_of_all, ("shift: divided by largest of all",)),
    (ch1.stable_softmax, divided_all_over, ("axis: all", "shift: divided by largest of all")),
    (ch1.stable_softmax, sum_over_all, ("sum over all",)),
    (ch1.stable_softmax, pythons_sum, ("sum over the first axis",)),
    (ch1.stable_softmax, column_maxima, ("maximum over the first axis",)),
    (ch1.stable_softmax, lambda s: torch.log_softmax(s.double(), -1), ("log, no weight rounded to 0",)),
    (ch1.scaled_scores, lambda q, k: k @ q, ("scale: none",)),
    (ch1.scaled_scores, lambda q, k: k * q / len(q) ** 0.5, ("product: not added",)),
    (ch1.scaled_scores, lambda q, k: np.sum(k * q), ("scale: none", "product: everything added")),
    (ch1.scaled_scores, lambda q, k: k @ q / len(q), ("scale: by d",)),
    (ch1.scaled_scores, lambda q, k: k @ q * np.sqrt(len(q)), ("scale: times",)),
    (ch1.scaled_scores, lambda q, k: k @ q / np.sqrt(len(k)), ("scale: by n",)),
    (ch1.scaled_scores, lambda q, k: softmax(k @ q / np.sqrt(len(q))), ("product: softmax",)),
    (ch1.scaled_scores, lambda q, k: (k / np.sqrt(k.shape[1])) @ q, ()),
    (ch1.weights_at_temperature, lambda s, T: softmax(s * T), ("use: times", "use: exponent")),
    (ch1.weights_at_temperature, lambda s, T: softmax(s) / T, ("use: after",)),
    (ch1.weights_at_temperature, lambda s, T: softmax(s) * T, ("use: times after",)),
    (ch1.weights_at_temperature, lambda s, T: softmax(s) ** (1 / T), ("powers, not divided",)),
    (ch1.weights_at_temperature, lambda s, T: softmax(softmax(s) / T), ("softmax twice",)),
    (ch1.weights_at_temperature, lambda s, T: s / T, ("no softmax",)),
    (ch1.weights_at_temperature, lambda s, T: softmax(np.array(s) * T**-1.0), ()),
    (ch1.weight_of_copies, lambda d, n: 1 / (1 + np.exp(-(d + n))), ("bonus: n",)),
    (ch1.weight_of_copies, lambda d, n: n / (1 + np.exp(-d)), ("multiplied weight",)),
    (ch1.weight_of_copies, lambda d, n: np.exp(d) / (np.exp(d) + 1) * n, ("multiplied weight",)),
    (ch1.weight_of_copies, lambda d, n: n * np.exp(d) / (n * np.exp(d) + n), ("bonus: none",)),
    (ch1.weight_of_copies, lambda d, n: n / (n + 1), ("difference unused",)),
    (ch1.weight_of_copies, lambda d, n: 1 / 1 + np.exp(-(d + np.log(n))), ("brackets missing",)),
    (ch1.weight_of_copies, lambda d, n: d + np.log(n), ("share: score",)),
    (ch1.weight_of_copies, lambda d, n: n * np.exp(d) / (n * np.exp(d) + 1), ()),
    (ch1.masked_weights, lambda s, a: softmax(s * a), ("where: score 0",)),
    (ch1.masked_weights, lambda s, a: softmax(s) * a, ("where: after softmax",)),
    (ch1.masked_weights, lambda s, a: softmax(np.where(a, -np.inf, s)), ("polarity: turned",)),
    # Nothing overflows here: where every key is allowed, these give NaN and attnlab's softmax zeros.
    (ch1.masked_weights, turned_and_own_softmax, ("turned, NaN where nothing is left",)),
    (ch1.masked_weights, lambda s, a: s.masked_fill(a, -torch.inf).softmax(-1), ("turned, NaN where nothing is left",)),
    (ch1.masked_weights, lambda s, a: s.masked_fill(~a, -torch.inf).softmax(-1), ()),
    (ch1.masked_weights, lambda s, a: (s * a).softmax(-1), ("where: score 0",)),
    (ch1.masked_weights, lambda s, a: s.softmax(-1) * a, ("where: after softmax",)),
    (ch1.masked_weights, lambda s, a: s.masked_fill_(~a, -torch.inf).softmax(-1), ("inputs: overwritten",)),
    (ch1.masked_weights, mask_then_renormalise, ()),
    (ch1.masked_weights, lambda s, a: np.exp(s) * a / (np.exp(s) * a).sum(), ("shift: none",)),
    (ch1.attend_one_query, lambda q, k, v: softmax((k @ q)[:, None])[:, 0] @ v, ("normalise: over one number",)),
    (ch1.masked_weights, mask_loop, ()),
    (ch1.weight_derivatives, lambda s: np.diag(softmax(s) * (1 - softmax(s))), ("cross: diagonal only",)),
    (ch1.weight_derivatives, lambda s: -np.outer(softmax(s), softmax(s)) + np.eye(len(s)) * softmax(s), ()),
    (ch1.weight_derivatives, lambda s: np.diag(softmax(s)) - softmax(s) @ softmax(s).T, ("cross: one number",)),
    (
        ch1.weight_derivatives,
        lambda s: np.diag(softmax(s) * (1 - softmax(s))) - np.outer(softmax(s), softmax(s)),
        ("cross: subtracted twice",),
    ),
    (
        ch1.weight_derivatives,
        derivatives_by_cases(lambda w: w * (1 - w), lambda w, v: w * v),
        ("cross: added off the diagonal",),
    ),
    (
        ch1.weight_derivatives,
        derivatives_by_cases(lambda w: 1 - w, lambda w, v: -w * v),
        ("cross: 1 − αᵢ on the diagonal",),
    ),
    (
        ch1.weight_derivatives,
        derivatives_by_cases(lambda w: w * (1 - w), lambda w, v: -w * w),
        ("cross: column in the bracket",),
    ),
    (ch1.attend_one_query, lambda q, k, v: k @ q / (k @ q).sum() @ v, ("no exponential",)),
    (ch1.attend_one_query, lambda q, k, v: softmax(k @ q / len(q) ** 0.5 @ v), ("softmax last",)),
    (ch1.attend_one_query, lambda q, k, v: softmax(k @ q) @ v, ("scale: none",)),
    (ch1.attend_one_query, attention_on_keys, ("mix: keys",)),
    (ch1.attend_one_query, lambda q, k, v: softmax(k @ q / len(q) ** 0.5), ("mix: weights only",)),
    (ch1.attend_one_query, lambda q, k, v: softmax(k @ q / v.shape[1] ** 0.5) @ v, ("scale: by d_v",)),
    (ch1.attend_one_query, lambda q, k, v: (k @ q) @ v, ("no softmax, no scale",)),
    (ch1.attend_one_query, attention_torch_style, ()),
    (ch1.attend_one_query, attention_as_jacobian_of_logsumexp, ()),
]  # fmt: skip


def test_what_a_mask_lets_through_far_off_is_said_once():
    """Masked after `exp`, a high forbidden score does harm; with a finite fill, low allowed ones. Not both at once."""
    for answer, said in [
        (mask_then_renormalise, "you divide 0 by 0"),
        (mask_loop, None),
        (lambda s, a: softmax(np.where(a, s, -1e4)), "whatever finite number"),
    ]:
        verdict = ch1.masked_weights.judge(answer)
        assert verdict.correct and verdict.title == ("Right on the inputs asked" if said else "Correct")
        assert len(verdict.words) == bool(said) and all(said in text for text in verdict.words)


def test_a_mask_put_into_whole_numbers_is_told_what_integers_cannot_hold():
    def put_in(scores, allowed):
        s = scores.copy()
        s[~allowed] = -np.inf
        return softmax(s)

    verdict = ch1.masked_weights.judge(put_in)
    assert not verdict.correct and verdict.remarks == ("integers",) and "holds neither −∞" in str(verdict)
    assert ch1.masked_weights.judge(lambda s, a: put_in(s.astype(float), a)).correct


def test_a_number_that_is_filled_in_for_a_forbidden_score_is_named():
    """Whoever fills it in, it is the score that the forbidden key's weight shows."""
    for answer, score in [
        (lambda s, a: softmax(np.where(a, s, -10)), "-10 "),
        (lambda s, a: s.masked_fill(~a, -7.5).softmax(-1), "-7.5 "),
        (lambda s, a: softmax(s - 5 * ~a), "-4.88 "),  # of the card's forbidden key, 0.12, less 5
    ]:
        verdict = ch1.masked_weights.judge(answer)
        assert f"gets what a score of {score}" in verdict.words[0] and "rounded" not in str(verdict)
    assert "still has a weight" not in str(ch1.masked_weights.judge(lambda s, a: a / a.sum()))


def test_a_small_number_below_the_fraction_bar_is_named_and_no_other_factor():
    def added(small):
        def answer(s):
            e = np.exp(s - s.max(axis=-1, keepdims=True))
            return e / (e.sum(axis=-1, keepdims=True) + small)

        return answer

    for small in (1e-6, 1e-8):
        assert "Is a small number added to the sum" in ch1.stable_softmax.judge(added(small)).words[0]
    assert "small number" not in str(ch1.stable_softmax.judge(added(1.0)))


def test_remarks_on_arrays_do_not_call_a_wrong_formula_right():
    def one_of_the_copies(difference, copies):
        return softmax(np.array([difference] * copies + [0.0]))[0]

    verdict = ch1.weight_of_copies.judge(one_of_the_copies)
    assert verdict.turns == (("share: one copy",),) and "arrays" in verdict.remarks and "right" not in str(verdict)


def test_code_for_tensors_is_told_what_torch_says_and_code_for_arrays_what_numpy_says():
    for answer, said in [
        (lambda s, a: torch.softmax(s.masked_fill(~a, -torch.inf), dim=1), "Dimension out of range"),
        (lambda s, a: torch.softmax(s - (1 - a) * 1e9, dim=-1), "with a bool tensor is not supported"),
        (lambda s, a: s.sum(axis=1), "axis 1 is out of bounds"),
        (lambda s, a: s.softmaxx(), "'numpy.ndarray' object has no attribute 'softmaxx'"),
    ]:
        verdict = ch1.masked_weights.judge(answer)
        assert not verdict.correct and said in verdict.comparison.received


def test_several_readings_are_offered_as_a_list():
    verdict = ch1.weights_at_temperature.judge(lambda s, T: softmax(s * T))
    assert verdict.title == "One of these mistakes"
    assert len(verdict.words) == len(verdict.turns) > 1 and all(text.startswith("• ") for text in verdict.words)
