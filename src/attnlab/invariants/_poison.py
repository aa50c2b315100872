"""Poison: what a mask forbids is replaced, and the outputs that may not see it must stay."""

import math
from collections.abc import Callable

import numpy as np

from attnlab import masks
from attnlab._inputs import Array, namespace_of, shape_of
from attnlab.invariants._asking import BATCH, Asked, N, apart, largest, worst
from attnlab.invariants._reports import Found, Report, equality

LENGTHS = [3, 4]  # of the padded sequences, one for each item of the batch

# Trained models reach scores of -1e4 (karpathy/minGPT#75, where one learned to look around its mask) and beyond -1e5
# (TransformerLensOrg/TransformerLens#318).  float32 holds the products of such numbers; float16 ends at 65504.
HUGE = 1e6


def poison_future(
    attention: Callable,
    *,
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """No token changes an output before it: `poison_forbidden` with the causal mask, (n, n)."""
    asked = Asked(attention, like, width)
    return _poison("poison_future", asked, masks.causal(N), np.ones((BATCH, N), dtype=bool), seed, tolerance)


def poison_padding(
    attention: Callable,
    *,
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """No padded token changes the output of a real one; the mask is (B, 1, 1, n), for a layer (B, 1, n).

    What a padded *query* gets is not looked at: no key-padding mask promises anything about it.
    """
    asked = Asked(attention, like, width)
    mask = masks.padding(LENGTHS, N)  # (B, 1, n)
    return _poison("poison_padding", asked, mask, mask[:, 0], seed, tolerance)


def poison_forbidden(
    attention: Callable,
    mask: Array,
    *,
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Report:
    """What a mask forbids changes nothing: mask bool (n_q, n_k), of your choice; for a layer, it is square.

    One token after the other is replaced, by another of ordinary size and by a huge one, and the outputs that may not
    see it must stay; and so once more where all queries are huge, so that all scores are.  Where n_q = n_k, token j is
    query, key and value j, otherwise key and value j.  NaN and ∞ are tried too, and only reported: a weight of 0 times
    NaN is NaN, in nearly every library.
    """
    mask = own_mask(mask)
    asked = Asked(attention, like, width)
    if asked.is_layer and mask.shape[0] != mask.shape[1]:
        raise ValueError(f"The mask of a layer must have shape (n, n), but it has shape {mask.shape}.")
    return _poison("poison_forbidden", asked, mask, np.ones((BATCH, mask.shape[0]), dtype=bool), seed, tolerance)


def own_mask(mask: Array) -> np.ndarray:
    """A mask that the user chose, from either library, as NumPy's."""
    if not namespace_of(mask=mask).isdtype(mask.dtype, "bool") or mask.ndim != 2:
        raise TypeError(
            f"mask must be boolean, True = may attend, of shape (n_q, n_k), but it is {mask.dtype} of shape "
            f"{shape_of(mask)}."
        )
    return np.asarray(mask.tolist(), dtype=bool).reshape(shape_of(mask))


def _poison(
    name: str, asked: Asked, mask: np.ndarray, looked_at: np.ndarray, seed: int, tolerance: float | None
) -> Report:
    """mask (n_q, n_k) or (B, 1, n_k); looked_at (B, n_q) are the queries whose output must stay."""
    rng = np.random.default_rng(seed)
    n_q, n_k = looked_at.shape[1], mask.shape[-1]
    inputs, others = asked.draw(rng, n_q, n_k), asked.draw(rng, n_q, n_k)
    tolerance = asked.tolerance(tolerance, inputs)
    start = asked.twice(inputs, mask, tolerance)  # (B, H, n_q, d_v) or (B, n, width)
    forbidden = ~np.broadcast_to(mask, (BATCH, n_q, n_k)) & looked_at[..., None]  # (B, n_q, n_k)
    if asked.is_layer:
        forbidden &= ~np.eye(n_k, dtype=bool)  # the output of token j follows token j, whatever the mask
    if not forbidden.any():
        raise ValueError("The mask forbids nothing, so that there is nothing to poison.")

    def change_by(
        poison: list[np.ndarray],
        inputs: list[np.ndarray] = inputs,
        before: np.ndarray = start,
        compared: np.ndarray = forbidden,
    ) -> Found:
        found = [Found()]
        for j in range(n_k):
            stay = forbidden[:, :, j]  # (B, n_q)
            here = stay.any(axis=-1)  # (B,): where some output may not see token j
            # The query goes with its token, unless the output of this very query must stay.
            of_query = here & ~stay[:, j] if n_q == n_k else np.zeros(BATCH, dtype=bool)
            where = [here] if asked.is_layer else [of_query, here, here]
            poisoned = [_replace(*pair, j, at) for *pair, at in zip(inputs, poison, where, strict=True)]
            found.append(largest(np.where(compared[:, :, j], apart(before, asked(poisoned, mask)), 0.0), key=j))
        return worst(found)

    def effect_of(number: float) -> str:
        try:
            found = change_by([np.full_like(x, number) for x in inputs])
        except Exception as error:  # what decides nothing must not end the test
            return f"makes the function raise {type(error).__name__}"
        return f"spoils {'outputs' if math.isnan(found.change) else 'no output'} that may not see it"

    huge = min(HUGE, float(asked.finfo.max) / 64)
    trials = {"": change_by(others), f", once that token is huge ({huge:.0e})": change_by([huge * x for x in others])}
    if not asked.is_layer:
        strong = [huge * inputs[0], *inputs[1:]]
        before = asked(strong, mask)
        # Where exp overflows, there is nothing to compare: that is no leak.
        compared = forbidden & ~np.isnan(apart(before, before))[..., None]
        trials[f", once all queries are huge ({huge:.0e})"] = change_by(others, strong, before, compared)
    # The first that breaks it: the change by an ordinary token is measured in the size of a value.
    broken = (trial for trial in trials.items() if not trial[1].change <= tolerance)
    once, found = next(broken, ("", worst([*trials.values()])))
    claim = "No output changes with a token that it may not see"
    bad = f"The output of {asked.row} {{query}} {{changes}} with token {{key}}, which it may not see{once}."
    nan, inf = effect_of(math.nan), effect_of(math.inf)
    effects = f"NaN or ∞ in a token {nan}" if nan == inf else f"NaN in a token {nan}, ∞ {inf}"
    remark = f"{effects}: reported, not decided."
    return equality(name, found, tolerance, asked.finite, claim, bad, remark)


def _replace(x: np.ndarray, new: np.ndarray, position: int, items: np.ndarray) -> np.ndarray:
    """x with the token at `position` taken from `new`, in those items (B,) of the batch."""
    at = (np.arange(x.shape[-2]) == position)[:, None]  # (n, 1)
    return np.where(at & items.reshape(-1, *[1] * (x.ndim - 1)), new, x)
