"""Chapter 1's exercises: answers as people type them. The proof of the checker: `test_exercises.py`."""

import numpy as np

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
    import torch

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


BY_HAND = [
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
    (ch1.scaled_scores, lambda q, k: k @ q, ("scale: none",)),
    (ch1.scaled_scores, lambda q, k: k @ q / len(q), ("scale: by d",)),
    (ch1.scaled_scores, lambda q, k: k @ q * np.sqrt(len(q)), ("scale: times",)),
    (ch1.scaled_scores, lambda q, k: k @ q / np.sqrt(len(k)), ("scale: by n",)),
    (ch1.scaled_scores, lambda q, k: softmax(k @ q / np.sqrt(len(q))), ("product: softmax",)),
    (ch1.scaled_scores, lambda q, k: (k / np.sqrt(k.shape[1])) @ q, ()),
    (ch1.weights_at_temperature, lambda s, T: softmax(s * T), ("use: times", "use: exponent")),
    (ch1.weights_at_temperature, lambda s, T: softmax(s) / T, ("use: after",)),
    (ch1.weights_at_temperature, lambda s, T: softmax(np.array(s) * T**-1.0), ()),
    (ch1.weight_of_copies, lambda d, n: 1 / (1 + np.exp(-(d + n))), ("bonus: n",)),
    (ch1.weight_of_copies, lambda d, n: n / (1 + np.exp(-d)), ("multiplied weight",)),
    (ch1.weight_of_copies, lambda d, n: np.exp(d) / (np.exp(d) + 1) * n, ("multiplied weight",)),
    (ch1.weight_of_copies, lambda d, n: n * np.exp(d) / (n * np.exp(d) + 1), ()),
    (ch1.masked_weights, lambda s, a: softmax(s * a), ("where: score 0",)),
    (ch1.masked_weights, lambda s, a: softmax(s) * a, ("where: after softmax",)),
    (ch1.masked_weights, lambda s, a: softmax(np.where(a, -np.inf, s)), ("polarity: turned",)),
    (ch1.masked_weights, mask_then_renormalise, ()),
    (ch1.masked_weights, lambda s, a: np.exp(s) * a / (np.exp(s) * a).sum(), ("shift: none",)),
    (ch1.attend_one_query, lambda q, k, v: softmax((k @ q)[:, None])[:, 0] @ v, ("normalise: over one number",)),
    (ch1.masked_weights, mask_loop, ()),
    (ch1.weight_derivatives, lambda s: np.diag(softmax(s) * (1 - softmax(s))), ("cross: diagonal only",)),
    (ch1.weight_derivatives, lambda s: -np.outer(softmax(s), softmax(s)) + np.eye(len(s)) * softmax(s), ()),
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


def test_several_readings_are_offered_as_a_list():
    verdict = ch1.weights_at_temperature.judge(lambda s, T: softmax(s * T))
    assert verdict.title == "One of these mistakes"
    assert len(verdict.words) == len(verdict.turns) > 1 and all(text.startswith("• ") for text in verdict.words)
