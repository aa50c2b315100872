"""Causal attentions and leaking ones, for tests that learners write. Plain and quick: each twin meets each of them."""

import itertools

import numpy as np

from attnlab import attention as attnlab_attention

from ..engine import Implementation


def _softmax(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


def _masked(scores, allowed):
    """Softmax over what is allowed, at any size of the numbers; a row that allows nothing gets zeros."""
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    exps = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = exps.sum(axis=-1, keepdims=True)
    return exps / np.where(total > 0, total, 1)


def _with_mask(allow, scale, when=lambda n: True):
    """Attention in which query i may see key j where `allow(i, j, n)`."""

    def attention(query, key, value):
        n = len(query)
        i, j = np.arange(n)[:, None], np.arange(n)
        allowed = allow(i, j, n) if when(n) else j <= i
        return _masked(query @ key.T * scale, allowed) @ value

    return attention


def _causal(i, j, n):
    return j <= i


def implementations(rng):
    """{name: Implementation}, the most telling first. The seed sets how sharp their weights are."""
    scale = rng.uniform(0.4, 0.8)
    causal = _with_mask(_causal, scale)
    calls = itertools.count(1)

    def own(query, key, value):
        return attnlab_attention(query, key, value, is_causal=True).output

    def row_by_row(query, key, value):
        rows = [_softmax(key[: i + 1] @ query[i] * scale) @ value[: i + 1] for i in range(len(query))]
        return np.array(rows, dtype=np.float32)

    def in_any_order(query, key, value):
        """As where many threads add: the order of a sum, and with it the last digits, change from call to call."""
        return causal(query, key, value) * (1 + 1e-12 * np.cos(next(calls)))

    def running_mean(query, key, value):
        return np.cumsum(value, axis=0) / np.arange(1, len(value) + 1)[:, None]

    def linear(query, key, value):
        scores = np.maximum(query, 0.1) @ np.maximum(key, 0.1).T * np.tri(len(query))
        return scores / scores.sum(axis=-1, keepdims=True) @ value

    def added(query, key, value):
        return _softmax(query @ key.T * scale + np.tri(len(query))) @ value

    def multiplied(query, key, value):
        return _softmax(query @ key.T * scale * np.tri(len(query))) @ value

    def sum_over_all(query, key, value):
        return _softmax(query @ key.T * scale) * np.tri(len(query)) @ value

    def keys_standardised(query, key, value):
        return causal(query, key / (key.std(axis=0) + 1e-6), value)

    def values_standardised(query, key, value):
        return causal(query, key, value / (value.std(axis=0) + 1e-6))

    def queries_centred(query, key, value):
        return causal(query - query.mean(axis=0), key, value)

    return {
        "mask turned round": Implementation(
            _with_mask(lambda i, j, n: j > i, scale),
            "each query sees the later keys and nothing else. A mask with True for *forbidden* was handed to a "
            "function that takes True for *allowed*.",
            seen_in="rasbt/LLMs-from-scratch#1061",
        ),
        "no mask": Implementation(_with_mask(lambda i, j, n: True, scale), "every query sees every key."),
        "mask of 0 and 1 added": Implementation(
            added,
            "a mask of ones and zeros is added to the scores, which prefers the past and forbids nothing.",
            seen_in="pytorch/pytorch#21518",
            hard=True,
        ),
        "scores times mask": Implementation(
            multiplied,
            "the scores of later keys are 0, and e^0 = 1 is a share.",
            seen_in="tebesu/CollaborativeMemoryNetwork#8",
            hard=True,
        ),
        "one ahead": Implementation(
            _with_mask(lambda i, j, n: j <= i + 1, scale),
            "each query sees one key too many, the next. That is the very token which a language model should predict.",
            hard=True,
        ),
        "masked after softmax": Implementation(
            sum_over_all,
            "later values are left out, but the sum below the fraction bar runs over all keys: the future sets the "
            "size of the output.",
            seen_in="huggingface/pytorch-image-models#2236",
        ),
        "first two together": Implementation(
            _with_mask(lambda i, j, n: (j <= i) | (j < 2), scale),
            "the first two positions see each other (a prefix), all others only the past.",
        ),
        "open in the second half": Implementation(
            _with_mask(lambda i, j, n: (j <= i) | (i >= n // 2), scale),
            "queries of the first half are causal, those of the second half see everything.",
        ),
        "keys standardised": Implementation(
            keys_standardised,
            "keys are divided by their spread over the whole sequence, so the future leaks through keys.",
        ),
        "values standardised": Implementation(
            values_standardised,
            "values are divided by their spread over the whole sequence, so the future leaks through values.",
        ),
        "open where long": Implementation(
            _with_mask(lambda i, j, n: True, scale, when=lambda n: n > 4),
            "the mask is missing for sequences of more than four positions, as with a buffer that is too small.",
            hard=True,
        ),
        "last key open": Implementation(
            _with_mask(lambda i, j, n: (j <= i) | (j == n - 1), scale),
            "every query sees the last key, where a summary token may stand.",
            hard=True,
        ),
        "queries centred": Implementation(
            queries_centred,
            "it accepts an implementation that takes the mean over the sequence off the queries. There the future "
            "leaks through queries alone: change later queries, too.",
            hard=True,
            advice=True,
        ),
        "causal": Implementation(causal, "scaled dot products, −∞ above the diagonal, softmax.", correct=True),
        "attnlab's own": Implementation(own, "`attnlab.attention` with `is_causal=True`.", correct=True, hard=True),
        "row by row": Implementation(
            row_by_row, "a loop over the queries, each with the keys so far; its result is float32.", correct=True
        ),
        "last digits vary": Implementation(
            in_any_order,
            "its sums are added in another order each time, so the last digits differ from call to call, as on a GPU. "
            "Compare with `np.allclose`, not with `==`.",
            correct=True,
        ),
        "running mean": Implementation(
            running_mean,
            "the mean of the values so far, whatever query and key say. Nothing comes from the future.",
            correct=True,
            hard=True,
        ),
        "window of two": Implementation(
            _with_mask(lambda i, j, n: (j <= i) & (j > i - 2), scale),
            "each query sees its own key and the one before.",
            correct=True,
            hard=True,
        ),
        "linear attention": Implementation(
            linear, "weights without an exponential, over the keys so far.", correct=True, hard=True
        ),
    }
