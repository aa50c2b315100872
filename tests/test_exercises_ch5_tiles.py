"""Chapter 5's exercises 5.1 and 5.2: numbers of the reports, bytes, and answers as people type them."""

import math
from functools import reduce

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may
from torch.nn import functional as F

from attnlab import attention, softmax
from attnlab.exercises.ch5_efficient_variants.online_update import online_update
from attnlab.exercises.ch5_efficient_variants.tiled_attention_of_one_query import (
    AT_MOST,
    BLOCK,
    MANY,
    tiled_attention_of_one_query,
)
from attnlab.exercises.engine.describing import UNCOUNTED
from attnlab.exercises.engine.running import observe

INF = np.inf
ONES = [online_update, tiled_attention_of_one_query]


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def near(one, other, atol=1e-12):
    assert np.allclose(one, other, rtol=0, atol=atol, equal_nan=True), (one, other)


def twin(one, *turns):
    return next(each.function for each in one.twins if each.turns == turns)


# ---- the references, and the numbers of the reports ------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 100])
def test_tile_by_tile_gives_what_attention_gives(block):
    query, keys, values = drawn(4), 3 * drawn(7, 4, seed=1), drawn(7, 2, seed=2)
    expected = attention(query, keys, values).output
    near(tiled_attention_of_one_query.reference(query, keys, values, block), expected)
    scores = keys @ query / 2
    start = np.array([-INF, 0.0, 0.0, 0.0])
    m, total, *mixed = reduce(
        lambda state, s: online_update.reference(state[0], state[1], state[2:], scores[s], values[s]),
        [slice(i, i + block) for i in range(0, 7, block)],
        start,
    )
    near(np.array(mixed) / total, expected)
    near([m, np.log(total) + m], [scores.max(), np.log(np.exp(scores).sum())])


def test_a_first_tile_that_is_masked_from_end_to_end():
    """Tiles [−∞, −∞] and [0, ln 3] with the values 7, 7, 4, 8: the output is 7; without care it is NaN."""
    nothing, some = (np.array([-INF, -INF]), np.array([[7.0], [7.0]])), (np.log([1.0, 3.0]), np.array([[4.0], [8.0]]))

    def output(update):
        state = np.array([-INF, 0.0, 0.0])
        for scores, values in (nothing, some, nothing):
            state = update(state[0], state[1], state[2:], scores, values)
        return state[2] / state[1]

    assert output(online_update.reference) == pytest.approx(7.0, abs=1e-12)
    with np.errstate(invalid="ignore"):
        assert np.isnan(output(twin(online_update, "empty: NaN")))
    assert output(twin(online_update, "empty: m becomes 0")) == pytest.approx(7.0, abs=1e-12)
    some = (some[0] - 1000, some[1])  # what its words say: with scores near −1000 nothing is left
    with np.errstate(invalid="ignore"):
        assert np.isnan(output(twin(online_update, "empty: m becomes 0")))
    assert output(online_update.reference) == pytest.approx(7.0, abs=1e-9)


def test_what_the_cards_on_tiles_say_is_so():
    """Other tiles than one change a wrong merge; the right one and a single tile do not care."""
    query, keys, values = drawn(2), drawn(6, 2, seed=1), np.ones((6, 1))
    keys = keys[np.argsort(keys @ query)]

    def weight(name, block=2):
        return twin(tiled_attention_of_one_query, name)(query, keys, values, block)[0]

    assert weight("merge: added") == pytest.approx(3, abs=1e-12)  # the weights sum to the number of tiles
    assert weight("merge: averaged") == weight("merge: neither") == pytest.approx(1, abs=1e-12)
    assert weight("merge: total") < 0.99 and weight("merge: mixed") > 1.01  # their words: no longer 1, too much
    assert weight("merge: total", 6) == weight("merge: mixed", 6) == pytest.approx(1, abs=1e-12)
    assert weight("tiles: last one filled up", 4) < 0.99 and weight("tiles: last one filled up", 3) == 1.0


def test_the_examples_of_the_statements():
    near(
        online_update.reference(0.0, 2.0, np.array([6.0]), np.log([2.0, 1.0]), np.array([[3.0], [9.0]]))[1:],
        [2.5, 10.5],
    )
    assert "[0.6931, 2.5, 10.5]" in online_update.statement and round(math.log(2), 4) == 0.6931
    keys, values = np.array([[0.0], [0.0], [math.log(2)]]), np.array([[0.0], [4.0], [8.0]])
    near(tiled_attention_of_one_query.reference(np.ones(1), keys, values, 2), [5])
    for text in ("the output is [5]", f"{MANY:,} keys", f"at most {AT_MOST:,} bytes", f"take {8 * MANY:,}"):
        assert text in " ".join(tiled_attention_of_one_query.statement.split())


# ---- bytes -----------------------------------------------------------------------------------------------------------


def all_at_once(query, keys, values, block):
    return softmax(keys @ query / np.sqrt(len(query))) @ values


def all_at_once_in_place(query, keys, values, block):
    """The least that can be held with all scores at once: the scores alone."""
    scores = keys @ query
    scores /= np.sqrt(len(query))
    scores -= scores.max()
    np.exp(scores, out=scores)
    return scores @ values / scores.sum()


def tiles(block, *arrays):
    return [tuple(a[i : i + block] for a in arrays) for i in range(0, len(arrays[0]), block)]


def scores_first(query, keys, values, block):
    m, total, mixed = -INF, 0.0, 0.0
    for scores, V in tiles(block, keys @ query / len(query) ** 0.5, values):
        m, total, mixed = merged(m, total, mixed, scores, V)
    return mixed / total


def merged(m, total, mixed, scores, V):
    new = max(m, scores.max())
    p = np.exp(scores - new)
    return new, total * np.exp(m - new) + p.sum(), mixed * np.exp(m - new) + p @ V


def by_the_first_exercise(query, keys, values, block):
    state = np.array([-INF, 0.0, *np.zeros(values.shape[1])])
    for K, V in tiles(block, keys, values):
        state = online_update.reference(state[0], state[1], state[2:], K @ query / np.sqrt(query.shape[0]), V)
    return state[2:] / state[1]


def in_two_passes(query, keys, values, block):
    """The maximum first; no running one is needed then, but the keys are read twice."""
    pieces, root = tiles(block, keys, values), np.sqrt(len(query))
    largest = max(float(np.max(K @ query)) for K, _ in pieces)
    total, mixed = 0.0, np.zeros(values.shape[1])
    for K, V in pieces:
        exps = np.exp((K @ query - largest) / root)
        total, mixed = total + exps.sum(), mixed + exps @ V
    return mixed / total


def copies_of_a_tile(query, keys, values, block):
    m, total, mixed = -INF, 0.0, 0.0
    for i in range(0, len(keys), block):
        rows = np.arange(i, min(i + block, len(keys)))
        K, V = keys[rows].copy(), values[rows].copy()
        scores = (K * query).sum(axis=1) / np.sqrt(K.shape[1])
        higher = max(m, scores.max())
        exps = np.exp(scores - higher)
        total = total * np.exp(m - higher) + exps.sum()
        mixed = mixed * np.exp(m - higher) + (exps[:, None] * V).sum(axis=0)
        m = higher
    return mixed / total


def key_by_key(query, keys, values, block):
    m, total, mixed = -INF, 0.0, 0.0
    for key, value in zip(keys, values, strict=True):
        score = key @ query / len(query) ** 0.5
        if score > m:
            m, old = score, np.exp(m - score)
            total, mixed = total * old, mixed * old
        e = np.exp(score - m)
        total, mixed = total + e, mixed + e * value
    return mixed / total


def the_last_one_filled_up_rightly(query, keys, values, block):
    state = -INF, 0.0, 0.0
    for start in range(0, len(keys), block):
        K, V = np.zeros((block, keys.shape[1])), np.zeros((block, values.shape[1]))
        n = len(keys[start : start + block])
        K[:n], V[:n] = keys[start : start + block], values[start : start + block]
        scores = np.where(np.arange(block) < n, K @ query / np.sqrt(len(query)), -INF)
        state = merged(*state, scores, V)
    return state[2] / state[1]


def lists_of_tiles(query, keys, values, block):
    return tiled_attention_of_one_query.variants["lists_of_tiles"](query, keys, values, block)


LIGHT = [
    tiled_attention_of_one_query.reference,
    by_the_first_exercise,
    in_two_passes,
    copies_of_a_tile,
    the_last_one_filled_up_rightly,
    lists_of_tiles,
    key_by_key,
]


def all_filled_up(query, keys, values, block):
    n, lacking = len(keys), -len(keys) % block
    K, V = (np.pad(a, ((0, lacking), (0, 0))) for a in (keys, values))
    state = -INF, 0.0, 0.0
    for i in range(0, n, block):
        scores = np.where(np.arange(i, i + block) < n, K[i : i + block] @ query / len(query) ** 0.5, -INF)
        state = merged(*state, scores, V[i : i + block])
    return state[2] / state[1]


def weights_of_all(query, keys, values, block):
    """Tiles of scores, kept until the end."""
    scores = [K @ query / np.sqrt(len(query)) for (K,) in tiles(block, keys)]
    m = max(s.max() for s in scores)
    total = sum(np.exp(s - m).sum() for s in scores)
    return sum(np.exp(s - m) @ V for s, (V,) in zip(scores, tiles(block, values), strict=True)) / total


HEAVY = [all_at_once, all_at_once_in_place, scores_first, all_filled_up, weights_of_all]


@pytest.mark.parametrize("answer", LIGHT + HEAVY, ids=lambda f: f.__name__)
def test_the_limit_lies_far_from_right_and_wrong_answers(answer):
    (probe,) = (p for p in tiled_attention_of_one_query.hard if p.at_most)
    assert probe.at_most == AT_MOST and len(probe.arguments[1]) == MANY and probe.arguments[3] == BLOCK
    seen = observe(answer, probe.arguments, watched=False, at_most=AT_MOST)
    near(seen.array, all_at_once(*probe.arguments))
    if answer in LIGHT:
        assert seen.held < AT_MOST / (6 if answer is LIGHT[0] else 2)
    else:
        assert seen.held > 2 * AT_MOST


def test_the_card_shows_how_many_bytes_were_held():
    verdict = tiled_attention_of_one_query.judge(all_at_once_in_place)
    assert verdict.words[0].startswith("All values are right") and verdict.turns == (("tiles: all at once",),)
    assert verdict.comparison.expected.startswith(f"{AT_MOST:,} bytes; the solution holds about 1")
    held = int(verdict.comparison.received.removeprefix("about ").removesuffix(" bytes").replace(",", ""))
    assert 8 * MANY <= held <= 8 * MANY + 20_000


def test_wrong_values_and_too_many_bytes_are_both_named():
    verdict = tiled_attention_of_one_query.judge(lambda q, K, V, block: softmax(K @ q) @ V)
    assert verdict.turns == (("tiles: all at once", "scale: none"),) and verdict.remarks == ()
    assert any("it held about" in text for text in verdict.words)


def test_an_answer_in_torch_is_right_and_told_that_its_bytes_were_not_counted():
    def answer(query, keys, values, block):
        query, keys, values = (torch.as_tensor(a, dtype=torch.float64) for a in (query, keys, values))
        return F.scaled_dot_product_attention(query[None], keys, values)[0]

    def from_numpy(query, keys, values, block):  # whole numbers it cannot take, and nobody asks that of tensors
        query, keys, values = map(torch.from_numpy, (query, keys, values))
        return torch.softmax(keys @ query / len(query) ** 0.5, dim=0) @ values

    for one in (answer, from_numpy, lambda *given: from_numpy(*given).numpy()):
        verdict = tiled_attention_of_one_query.judge(one)
        assert verdict.correct and verdict.words == [f"One thing more: {UNCOUNTED}"]


# ---- what probes must be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ONES)
def test_right_answers_hear_nothing_and_both_dtypes_are_probed(one):
    assert one.judge(one.reference).words == []
    arrays = [a for p in one.ordinary() for a in p.arguments if isinstance(a, np.ndarray)]
    assert {a.dtype.char for a in arrays} == set("fd")


def test_tiles_are_ragged_and_not_and_the_maximum_rises_and_does_not():
    cases = [p.arguments for p in tiled_attention_of_one_query.ordinary()]
    assert {len(keys) % block == 0 for _, keys, _, block in cases} == {True, False}
    assert any(len(query) != values.shape[1] for query, _, values, _ in cases)

    def rises(query, keys, values, block):
        tops = [(K @ query).max() for (K,) in tiles(block, keys)]
        return any(b > max(tops[:i]) for i, b in enumerate(tops) if i)

    assert {rises(*case) for case in cases} == {True, False}
    states = [p.arguments for p in online_update.ordinary()]
    assert {np.sign(scores.max() - m) for m, _, _, scores, _ in states} == {1.0, -1.0}
    assert sum(np.isneginf(m) for m, *_ in states) == 1


# ---- typed by hand: (exercise, answer, turns expected; () for correct) -----------------------------------------------


def updated(max_of=lambda m, s: max(m, s.max()), total=None, mixed=None, exps=None, shown=None):
    """An answer with one line of its own: r is the factor, e the tile's exponentials."""

    def answer(m, t, o, s, v):
        new = max_of(m, s)
        shift = 0.0 if np.isneginf(new) else new
        r = np.exp(m - shift)
        e = exps(s, shift) if exps else np.exp(s - shift)
        a = total(t, r, e) if total else t * r + e.sum()
        b = mixed(o, r, e, v, t, a) if mixed else o * r + e @ v
        return np.array([new if shown is None else shown(new, shift), a, *b])

    return answer


def naive_update(m, total, mixed, scores, values):
    m_new = max(m, scores.max())
    factor, exps = np.exp(m - m_new), np.exp(scores - m_new)
    return np.array([m_new, total * factor + exps.sum(), *(mixed * factor + exps @ values)])


def unless_all_is_masked(update):
    """A tile that allows nothing is left out, so what happens there is right, whatever else is not."""
    return lambda m, t, o, s, v: np.array([m, t, *o]) if np.all(np.isneginf(s)) else update(m, t, o, s, v)


def overwritten_maximum(m, total, mixed, scores, values):
    m = np.maximum(m, scores.max())
    if m == -INF:
        return np.array([m, total, *mixed])
    factor, exps = np.exp(m - m), np.exp(scores - m)  # the old maximum is gone
    return np.array([m, total * factor + exps.sum(), *(mixed * factor + exps @ values)])


def in_place(m, total, mixed, scores, values):
    new = max(m, scores.max())
    if new > -INF:
        mixed *= np.exp(m - new)
        mixed += np.exp(scores - new) @ values
        total = total * np.exp(m - new) + np.exp(scores - new).sum()
    return np.array([new, total, *mixed])


def without_a_shift(m, total, mixed, scores, values):
    return np.concatenate([[max(m, max(scores)), total + np.exp(scores).sum()], mixed + np.exp(scores) @ values])


def update_torch_style(m, total, mixed, scores, values):
    scores, values, mixed = (torch.as_tensor(a) for a in (scores, values, mixed))
    new = torch.maximum(torch.as_tensor(m, dtype=scores.dtype), scores.max())
    shift = new.masked_fill(new == -INF, 0.0)
    factor, exps = torch.exp(m - shift), torch.exp(scores - shift)
    return torch.cat([new[None], (total * factor + exps.sum())[None], mixed * factor + exps @ values])


def update_with_logaddexp(m, total, mixed, scores, values):
    new = max(m, scores.max())
    if new == -INF:
        return np.r_[m, total, mixed]
    lse = np.logaddexp(m + np.log(total) if total else -INF, np.logaddexp.reduce(scores))
    return np.r_[new, np.exp(lse - new), np.exp(m - new) * mixed + np.exp(scores - new) @ values]


def tiled(update=merged, last=lambda m, total, mixed: mixed / total, start=-INF, root=np.sqrt, end=len):
    """An answer with one line of its own."""

    def answer(query, keys, values, block):
        state = start, 0.0, np.zeros(values.shape[1])
        for K, V in tiles(block, keys[: end(keys)], values[: end(keys)]):
            state = update(*state, K @ query / root(len(query)), V)
        return last(*state)

    return answer


def full_tiles_only(query, keys, values, block):
    state = -INF, 0.0, np.zeros(values.shape[1])
    for i in range(len(keys) // block):
        tile = slice(i * block, (i + 1) * block)
        state = merged(*state, keys[tile] @ query / np.sqrt(len(query)), values[tile])
    return state[2] / state[1]


def filled_up_with_zeros(query, keys, values, block):
    state = -INF, 0.0, np.zeros(values.shape[1])
    for K, V in tiles(block, keys, values):
        K, V = (np.vstack([a, np.zeros((block - len(a), a.shape[1]))]) for a in (K, V))
        state = merged(*state, K @ query / np.sqrt(len(query)), V)
    return state[2] / state[1]


def outputs_of_tiles(join):
    return lambda q, K, V, block: join([attention(q, k, v).output for k, v in tiles(block, K, V)])


def not_rescaled(total=True, mixed=True):
    def update(m, t, o, s, v):
        new = max(m, s.max())
        p, r = np.exp(s - new), np.exp(m - new)
        return new, t * (r if total else 1) + p.sum(), o * (r if mixed else 1) + p @ v

    return update


def by_the_tile_s_own(m, total, mixed, scores, V):
    top = scores.max()
    new = max(m, top)
    p = np.exp(scores - top)
    return new, total * np.exp(m - new) + p.sum(), mixed * np.exp(m - new) + p @ V


def a_mean_at_each_tile(m, total, mixed, scores, V):
    new, total, mixed = merged(m, total, mixed, scores, V)
    return new, total, mixed / total


def flash_style(m, total, mixed, scores, V):
    """o stays a mean, as in the first FlashAttention: multiplied by the old ℓ before, divided by the new one after."""
    new, total_new, mixed = merged(m, total, mixed * total, scores, V)
    return new, total_new, mixed / total_new


def no_maximum(m, total, mixed, scores, V):
    return m, total + np.exp(scores).sum(), mixed + np.exp(scores) @ V


def naive_and_whole(query, keys, values, block):
    exps = np.exp(keys @ query / np.sqrt(len(query)))
    return exps @ values / exps.sum()


def shifted_by_the_first(m, total, mixed, scores, V):
    m = scores.max() if m == -INF else m
    return m, total + np.exp(scores - m).sum(), mixed + np.exp(scores - m) @ V


def updated_guarded(join):
    """The update with a shift that is safe where all keys are masked; `join` makes total and mixed."""

    def answer(m, total, mixed, scores, values):
        m_new = max(m, scores.max())
        shift = m_new if m_new > -INF else 0.0
        total, mixed = join(total, mixed, np.exp(m - shift), np.exp(scores - shift), values)
        return np.array([m_new, total, *mixed])

    return answer


def in_tiles(root=lambda query, tile: len(query), step=lambda block: block, stop=lambda block: block, first=False):
    def answer(query, keys, values, block):
        m, total, mixed = -INF, 0.0, np.zeros(values.shape[1])
        for i in range(0, len(keys), step(block)):
            K, V = keys[i : i + stop(block)], values[i : i + stop(block)]
            m, total, *mixed = online_update.reference(
                m, total, np.array(mixed), K @ query / np.sqrt(root(query, K)), V
            )
            if first:
                return np.array(mixed) / total
        return np.array(mixed) / total

    return answer


BY_HAND = [
    (online_update, updated_guarded(lambda t, o, old, e, v: (t * old + e.sum(), o * old + e @ v)), ()),
    (
        online_update,
        updated_guarded(lambda t, o, old, e, v: ((t + e.sum()) * old, (o + e @ v) * old)),
        ("tile shrunk too",),
    ),
    (
        online_update,
        updated_guarded(lambda t, o, old, e, v: (t * old + e.sum(), o * old + e / e.sum() @ v)),
        ("tile normalised, 0/0",),
    ),
    (
        online_update,
        updated_guarded(lambda t, o, old, e, v: (t * old + e.sum(), (o * old + e @ v) / (t * old + e.sum()))),
        ("normalised, 0/0",),
    ),
    (tiled_attention_of_one_query, in_tiles(), ()),
    (tiled_attention_of_one_query, in_tiles(first=True), ("first tile alone",)),
    (tiled_attention_of_one_query, in_tiles(root=lambda query, tile: len(tile)), ("scale: by the tile",)),
    (tiled_attention_of_one_query, in_tiles(step=lambda block: 1), ("one key at a time",)),
    (tiled_attention_of_one_query, in_tiles(stop=lambda block: block - 1), ("one key too few in a tile",)),
    (online_update, naive_update, ("empty: NaN",)),
    (online_update, overwritten_maximum, ("rescale: neither",)),
    (online_update, updated(shown=lambda new, shift: shift), ("empty: m becomes 0",)),
    (online_update, updated(total=lambda t, r, e: t + e.sum()), ("rescale: total",)),
    (online_update, updated(mixed=lambda o, r, e, v, t, a: o + e @ v), ("rescale: mixed",)),
    (
        online_update,
        lambda m, t, o, s, v: updated(
            total=lambda t, r, e: t / r + e.sum(), mixed=lambda o, r, e, v, *_: o / r + e @ v
        )(m, t, o, s, v),
        ("rescale: inverted",),
    ),
    (online_update, updated(max_of=lambda m, s: s.max()), ("maximum: of the tile",)),
    (online_update, updated(max_of=lambda m, s: m), ("maximum: kept",)),
    (online_update, updated(exps=lambda s, shift: np.exp(s - max(s.max(), -1e300))), ("maximum: tile's own",)),
    (online_update, without_a_shift, ("maximum: not subtracted",)),
    (
        online_update,
        updated(total=lambda t, r, e: e.sum(), mixed=lambda o, r, e, v, *_: e @ v),
        ("join: old lost",),
    ),
    (online_update, updated(mixed=lambda o, r, e, v, t, a: (o * r + e @ v) / (a or 1)), ("join: normalised",)),
    (online_update, updated(mixed=lambda o, r, e, v, t, a: (o * r * t + e @ v) / (a or 1)), ("join: kept normalised",)),
    (online_update, updated(mixed=lambda o, r, e, v, *_: o * r + softmax(np.log(e)) @ v), ("join: tile normalised",)),
    (online_update, unless_all_is_masked(updated(max_of=lambda m, s: s.max())), ("maximum: of the tile",)),
    (
        online_update,
        unless_all_is_masked(updated(total=lambda t, r, e: e.sum(), mixed=lambda o, r, e, v, *_: e @ v)),
        ("join: old lost",),
    ),
    (online_update, in_place, ("overwritten",)),
    (
        online_update,
        lambda *given: np.delete(updated(mixed=lambda o, r, e, v, t, a: (o * r + e @ v) / (a or 1))(*given), 1),
        ("normalised, without ℓ",),
    ),
    (
        online_update,
        updated(max_of=lambda m, s: s.max(), total=lambda t, r, e: t + e.sum()),
        ("maximum: of the tile", "rescale: total"),
    ),
    (online_update, updated(), ()),
    (online_update, update_torch_style, ()),
    (online_update, update_with_logaddexp, ()),
    (tiled_attention_of_one_query, all_at_once, ("tiles: all at once",)),
    (tiled_attention_of_one_query, scores_first, ("tiles: all at once",)),
    (tiled_attention_of_one_query, all_filled_up, ("tiles: all at once",)),
    (tiled_attention_of_one_query, weights_of_all, ("tiles: all at once",)),
    (tiled_attention_of_one_query, lambda q, K, V, b: attention(q, K, V).output, ("tiles: all at once",)),
    (tiled_attention_of_one_query, naive_and_whole, ("tiles: all at once", "shift: none")),
    (tiled_attention_of_one_query, full_tiles_only, ("tiles: last one lost",)),
    (tiled_attention_of_one_query, filled_up_with_zeros, ("tiles: last one filled up",)),
    (tiled_attention_of_one_query, outputs_of_tiles(lambda a: np.mean(a, axis=0)), ("merge: averaged",)),
    (tiled_attention_of_one_query, outputs_of_tiles(sum), ("merge: added",)),
    (tiled_attention_of_one_query, outputs_of_tiles(lambda a: a[-1]), ("merge: last tile alone",)),
    (tiled_attention_of_one_query, tiled(not_rescaled(total=False)), ("merge: total",)),
    (tiled_attention_of_one_query, tiled(not_rescaled(mixed=False)), ("merge: mixed",)),
    (tiled_attention_of_one_query, tiled(not_rescaled(False, False)), ("merge: neither",)),
    (tiled_attention_of_one_query, tiled(by_the_tile_s_own), ("merge: tile's own",)),
    (tiled_attention_of_one_query, tiled(a_mean_at_each_tile, lambda m, t, o: o), ("merge: divided at each tile",)),
    (tiled_attention_of_one_query, tiled(last=lambda m, total, mixed: mixed), ("merge: not divided",)),
    (tiled_attention_of_one_query, tiled(root=lambda d: 1), ("scale: none",)),
    (tiled_attention_of_one_query, tiled(root=lambda d: d), ("scale: by d",)),
    (tiled_attention_of_one_query, tiled(start=0.0), ("shift: from zero",)),
    (tiled_attention_of_one_query, tiled(no_maximum), ("shift: none",)),
    (tiled_attention_of_one_query, tiled(shifted_by_the_first), ("shift: the first tile's",)),
    (tiled_attention_of_one_query, tiled(not_rescaled(total=False), root=lambda d: 1), ("merge: total", "scale: none")),
    (tiled_attention_of_one_query, tiled(flash_style, lambda m, total, mixed: mixed), ()),
    *((tiled_attention_of_one_query, answer, ()) for answer in LIGHT),
]
