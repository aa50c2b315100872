"""The same question asked in another way must get the same answer; another question, another answer."""

import math
from collections.abc import Callable

import numpy as np

from attnlab import masks
from attnlab._inputs import Array
from attnlab.invariants._asking import BATCH, Asked, N, apart, largest, worst
from attnlab.invariants._poison import LENGTHS, own_mask
from attnlab.invariants._reports import Found, Report, describe, equality, number

ORDER = [2, 4, 1, 0, 3]  # of the permuted keys: none stays where it was, and not all move by the same distance


def permute_keys(
    attention: Callable, *, like: Array | None = None, seed: int = 0, tolerance: float | None = None
) -> Report:
    """Keys, values and the columns of the mask, put into another order together, change nothing."""
    asked = Asked(attention, like)
    query, key, value = inputs = asked.draw(np.random.default_rng(seed), N - 1, N)
    tolerance = asked.tolerance(tolerance, inputs)
    mask = masks.causal(N - 1, N)  # (n_q, n_k): the last query sees the last key
    before = asked.twice(inputs, mask, tolerance)
    permuted = asked([query, key[..., ORDER, :], value[..., ORDER, :]], mask[:, ORDER])
    return equality(
        "permute_keys",
        largest(apart(before, permuted)),
        tolerance,
        asked.finite,
        "The order of the keys does not matter",
        "The output of query {query} {changes} when keys, values and columns of the mask are permuted.",
    )


def duplicate_keys(
    attention: Callable, *, like: Array | None = None, seed: int = 0, tolerance: float | None = None
) -> Report:
    """All keys, with their values and columns of the mask, given twice: each weight is halved, no output changes."""
    asked = Asked(attention, like)
    query, key, value = inputs = asked.draw(np.random.default_rng(seed), N - 1, N)
    twice = [query, np.concatenate([key, key], axis=-2), np.concatenate([value, value], axis=-2)]
    tolerance = asked.tolerance(tolerance, inputs, twice)
    mask = masks.causal(N - 1, N)  # (n_q, n_k)
    before = asked.twice(inputs, mask, tolerance)
    return equality(
        "duplicate_keys",
        largest(apart(before, asked(twice, np.concatenate([mask, mask], axis=-1)))),
        tolerance,
        asked.finite,
        "Giving every key twice changes nothing",
        "The output of query {query} {changes} when every key is given twice.",
    )


def shift_scores(
    attention: Callable, *, like: Array | None = None, seed: int = 0, tolerance: float | None = None
) -> Report:
    """The same vector c added to every key adds q · c to all scores of a query: softmax takes no notice.

    This is true of scores that are linear in the key, as **dot-product** scores are, followed by softmax.  Gaussian and
    additive scores and linear attention do not promise it.
    """
    asked = Asked(attention, like)
    rng = np.random.default_rng(seed)
    query, key, value = inputs = asked.draw(rng)
    shifted = [query, key + 2 * rng.normal(size=key[..., :1, :].shape), value]
    tolerance = asked.tolerance(tolerance, inputs, shifted)
    mask = masks.causal(N)  # (n, n)
    before = asked.twice(inputs, mask, tolerance)
    return equality(
        "shift_scores",
        largest(apart(before, asked(shifted, mask))),
        tolerance,
        asked.finite,
        "A constant added to all scores of a query changes nothing",
        "The output of query {query} {changes} when a constant is added to all its scores.",
    )


def content_sensitivity(
    attention: Callable,
    mask: Array | None = None,
    *,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """An output changes with each key and value that its query may see, and with the query: it is not blind.

    mask bool (n_q, n_k) says what a query may see; without it, it is causal, (n, n).  This catches a mask that forbids
    too much, and scores that do not reach the weights.  The change that counts is the smallest, in every head.  With
    one key to see, the weight is 1: there, only the value matters.
    """
    asked = Asked(attention, like)
    mask = masks.causal(N) if mask is None else own_mask(mask)
    if not mask.any():
        raise ValueError("The mask allows nothing, so that there is no content to see.")
    rng = np.random.default_rng(seed)
    # Half as large as elsewhere: with weights that are nearly equal, no key is out of sight because it is far away.
    inputs, others = ([x / 2 for x in asked.draw(rng, *mask.shape)] for _ in range(2))
    tolerance = asked.tolerance(tolerance, inputs)
    before = asked.twice(inputs, mask, tolerance)  # (B, H, n_q, d_v)
    has_choice = mask.sum(axis=-1) > 1  # (n_q,)

    def change_by(part: int, position: int, factor: float) -> np.ndarray:
        changed = list(inputs)
        changed[part] = inputs[part].copy()
        changed[part][..., position, :] = factor * others[part][..., position, :]
        with np.errstate(invalid="ignore"):  # ∞ - ∞
            return np.abs(asked(changed, mask) - before).max(axis=-1)  # (B, H, n_q)

    found = []
    sees = {"value": (2, mask.T), "key": (1, mask.T & has_choice), "query": (0, np.diag(has_choice))}
    for name, (part, rows) in sees.items():
        for position, must_change in enumerate(rows):  # (n_q,)
            if must_change.any():
                # Large, and of both signs: one of them raises the score of the key, so that its weight rises too.
                change = np.maximum(change_by(part, position, 8.0), change_by(part, position, -8.0)).min((0, 1))
                change = np.where(np.isfinite(change), change, math.nan)[must_change]
                i = int(change.argmin())  # NaN counts as smaller than any number
                query = int(np.flatnonzero(must_change)[i])
                found.append((name, Found(float(change[i]), query, None if name == "query" else position)))
    name, least = min(found, key=lambda one: -math.inf if math.isnan(one[1].change) else one[1].change)
    holds = bool(least.change > tolerance)  # False for NaN
    if holds:
        sentence = (
            f"Each output feels its query and what it may see (smallest change {number(least.change)}, "
            f"tolerance {number(tolerance)})."
        )
    elif math.isnan(least.change):
        sentence = describe(least, asked.finite, f"The output of query {{query}} {{changes}} with another {name}.")
    else:
        seen = "itself" if name == "query" else f"{name} {least.key}, which it may see"
        sentence = (
            f"Query {least.query} is blind to {seen}: another {name} changes its output by {number(least.change)}."
        )
    return Report(
        "content_sensitivity", holds, least.change, tolerance, least.query, least.key, sentence, must_change=True
    )


def batch_independence(
    attention: Callable,
    *,
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """Each item of a batch gets what it gets alone.  The mask is causal and padded: (B, 1, n, n), a layer's (B, n, n).

    The outputs of padded queries are looked at too: they need not mean anything, but they must not come from others.
    """
    asked = Asked(attention, like, width)
    inputs = asked.draw(np.random.default_rng(seed))
    tolerance = asked.tolerance(tolerance, inputs)
    mask = masks.padding(LENGTHS, N) & masks.causal(N)  # (B, n, n)
    together = asked.twice(inputs, mask, tolerance)
    items = [slice(item, item + 1) for item in range(BATCH)]
    found = [largest(apart(together[one], asked([x[one] for x in inputs], mask[one]))) for one in items]
    last = worst(found)
    return equality(
        "batch_independence",
        last,
        tolerance,
        asked.finite,
        "Each item of a batch gets what it gets alone",
        f"In item {found.index(last)} of the batch, the output of {asked.row} {{query}} {{changes}} "
        "when the item is alone.",
    )


def incremental_equals_full(
    attention: Callable,
    *,
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """Row t of the causal whole is what query t gets from keys 0 … t, as with a cache: one query at a time, and two.

    A layer has no cache: there, the outputs of each beginning of the sequence are those of the whole.
    """
    asked = Asked(attention, like, width)
    inputs = asked.draw(np.random.default_rng(seed))
    tolerance = asked.tolerance(tolerance, inputs)
    full = asked.twice(inputs, masks.causal(N), tolerance)
    sizes, found = [], []
    for end in range(1, N + 1):
        for n_q in [end] if asked.is_layer else [1, 2][:end]:
            rows = slice(end - n_q, end)
            part = asked([inputs[0][..., rows, :], *(x[..., :end, :] for x in inputs[1:])], masks.causal(n_q, end))
            one = largest(apart(full[..., rows, :], part))
            sizes.append((n_q, end))
            found.append(Found(one.change, None if one.query is None else one.query + end - n_q))
    last = worst(found)
    n_q, end = sizes[found.index(last)]
    beginning = " 0" if end == 1 else f"s 0 to {end - 1}"
    queries = f"query {end - 1} alone" if n_q == 1 else f"queries {end - 2} and {end - 1}"
    asked_for = f"only token{beginning}" if asked.is_layer else f"{queries}, on key{beginning}"
    return equality(
        "incremental_equals_full",
        last,
        tolerance,
        asked.finite,
        "Step by step, each query gets what it gets in the whole",
        f"With {asked_for}, the output of {asked.row} {{query}} {{changes}}, compared with the whole.",
    )
