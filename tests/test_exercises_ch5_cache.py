"""Chapter 5's exercises 5.4 to 5.9: against the package and the reports, and answers as people type them."""

from collections import deque

import numpy as np
import pytest
import torch  # here: the first import takes longer than a check may
from test_exercises_ch5_tiles import drawn, near, twin

from attnlab import masks, softmax
from attnlab.efficient import KVCache, grouped_attention, pool_heads
from attnlab.exercises.ch5_efficient_variants.decode_positions import decode_positions
from attnlab.exercises.ch5_efficient_variants.grouped_scores import grouped_scores
from attnlab.exercises.ch5_efficient_variants.pooled_heads import pooled_heads
from attnlab.exercises.ch5_efficient_variants.receptive_field import receptive_field
from attnlab.exercises.ch5_efficient_variants.rolling_slots import rolling_slots
from attnlab.exercises.ch5_efficient_variants.window_mask import window_mask
from attnlab.models import pooling

ONES = [decode_positions, grouped_scores, pooled_heads, window_mask, rolling_slots, receptive_field]


def ints(*numbers):
    return np.array(numbers)


# ---- against the package ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 4, 20])
def test_positions_and_slots_are_those_of_the_cache(size):
    lengths, cache, positions = ints(3, 1, 1, 2, 1, 4), KVCache(window=size), []
    for n_new in lengths:
        positions.extend(range(cache.n_seen, cache.n_seen + n_new))
        cache.append(drawn(1, n_new, 2), drawn(1, n_new, 2))
    assert np.array_equal(decode_positions.reference(lengths, size), positions)
    cache = KVCache(window=size)
    for n_seen in range(12):
        slots = rolling_slots.reference(n_seen, size)
        empty = np.full(max(0, size - n_seen), -1)
        assert np.array_equal(slots, [*cache.positions, *empty])
        cache.append(drawn(1, 1, 2), drawn(1, 1, 2))


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(4, 2), (6, 2), (6, 3), (3, 1), (3, 3)])
def test_scores_and_pooled_heads_are_those_of_the_package(n_heads, n_kv_heads):
    query, key = drawn(n_heads, 2, 4), drawn(n_kv_heads, 5, 4, seed=1)
    near(softmax(grouped_scores.reference(query, key)), grouped_attention(query, key, key).weights)
    W = drawn(n_heads * 2, 7, seed=2)
    pooled = pooled_heads.reference(W, n_heads, n_kv_heads)
    assert pooled.shape == (n_kv_heads * 2, 7)
    near(pooled, pool_heads(W, n_heads, n_kv_heads))


def test_window_masks_are_those_of_the_package():
    for n_q, n_k, size in np.ndindex(6, 6, 7):
        mine = window_mask.reference(n_q, n_k, size + 1)
        assert mine.dtype == bool and np.array_equal(mine, masks.window(n_q, size + 1, n_k))


@pytest.mark.parametrize("sizes", [[3, 2], [1, 1], [2, 5, 3], [4, 1, 1, 2], [9, 2]])
@pytest.mark.parametrize("n", [1, 4, 8, 30])
def test_the_receptive_field_is_what_a_chain_of_masks_lets_through(sizes, n):
    """And what the gradient of such a stack says: which tokens does the last output depend on?"""
    chain = np.linalg.multi_dot([masks.window(n, size).astype(float) for size in [*sizes[::-1], 1]])
    expected = np.count_nonzero(chain[-1])
    assert receptive_field.reference(np.array(sizes), n) == expected
    start = torch.ones(n, 1, dtype=torch.float64, requires_grad=True)
    tokens = start
    for size in sizes:
        tokens = torch.from_numpy(masks.window(n, size) / size) @ tokens
    tokens[-1].sum().backward()
    assert torch.count_nonzero(start.grad) == expected


# ---- numbers of the reports and of the statements --------------------------------------------------------------------


def test_the_reports_on_positions():
    """A prompt of 6, and of 9: what was printed there, before and after."""
    begins, six, nine = [0, 6, 7, 8], ints(6, 1, 1, 1), ints(9, 1, 1, 1)
    assert decode_positions.reference(six, 99)[begins].tolist() == [0, 6, 7, 8]
    assert twin(decode_positions, "offset: prompt twice")(six, 99)[begins].tolist() == [0, 6, 12, 13]
    assert twin(decode_positions, "offset: prompt again")(six, 99)[begins].tolist() == [0, 12, 13, 14]
    for name in ("twice", "for the first token", "for the first token, then calls"):  # what the chapter prints
        assert twin(decode_positions, f"offset: prompt {name}")(ints(6, 1, 1, 1, 1), 99)[6:].tolist() == [6, 12, 13, 14]
    beside = twin(decode_positions, "offset: prompt beside the first token")
    assert beside(six, 99)[begins].tolist() == [0, 6, 13, 14]
    assert twin(decode_positions, "offset: zero")(six, 99)[begins].tolist() == [0, 0, 0, 0]
    assert twin(decode_positions, "offset: one too far")(nine, 99)[[0, 9, 10, 11]].tolist() == [0, 10, 11, 12]
    assert twin(decode_positions, "offset: kept")(six, 7)[begins].tolist() == [0, 6, 7, 7]


def test_the_reports_on_heads_and_windows():
    heads = np.repeat([[[1.0]], [[10.0]]], 1, axis=2), np.ones((4, 1, 1))
    assert grouped_scores.reference(heads[1], heads[0]).ravel().tolist() == [1, 1, 10, 10]
    assert twin(grouped_scores, "share: tiled")(heads[1], heads[0]).ravel().tolist() == [1, 10, 1, 10]
    assert window_mask.reference(4, 4, 2).sum() == 7
    assert twin(window_mask, "reach: size beside its own")(4, 4, 2).sum() == 9
    # (sliding_window, sliding_window): twice the window and its own.
    both = twin(window_mask, "reach: size beside its own", "future: as far ahead")(41, 41, 8)
    assert both[20].sum() == 2 * 8 + 1
    assert twin(window_mask, "align: top-left")(1, 6, 3).tolist() == [[True] + [False] * 5]


def test_what_the_cards_say_is_so():
    W = drawn(8, 3)
    heads = W.reshape(4, 2, 3)
    near(twin(pooled_heads, "group: strided")(W, 4, 2)[:2], (heads[0] + heads[2]) / 2)
    near(twin(pooled_heads, "group: features")(W, 4, 2)[0], W[:2].mean(axis=0))
    assert len(twin(pooled_heads, "group: heads and features")(W, 4, 2)) == 2  # "a new head is left with one row"
    same = np.tile(W[:2], (4, 1))  # all heads alike: a mean leaves them so
    near(pooled_heads.reference(same, 4, 2), same[:4])
    near(twin(pooled_heads, "pool: sum")(same, 4, 2), 2 * same[:4])
    near(twin(pooled_heads, "pool: over all heads")(same, 4, 2), same[:4] / 2)
    # "now the one is better, now the other": at once and after further training, over seeds and numbers of heads
    tried = {(r["way"], r["n_kv_heads"], r["seed"], r["steps"]): r["loss"] for r in pooling.recorded()["converted"]}
    gains = [tried["mean", *rest] - loss for (way, *rest), loss in tried.items() if way == "first" and rest[0] < 8]
    assert len(gains) >= 12 and min(sum(g > 0 for g in gains), sum(g < 0 for g in gains)) > len(gains) / 4
    assert twin(rolling_slots, "slot: shifted")(6, 4).tolist() == [2, 3, 4, 5]
    assert twin(rolling_slots, "slot: last one")(6, 4).tolist() == [0, 1, 2, 5]
    assert twin(rolling_slots, "the last window")(10, 4).tolist() == [6, 7, 8, 9]
    assert twin(rolling_slots, "the last window, filled up in front")(3, 5).tolist() == [-1, -1, 0, 1, 2]
    assert rolling_slots.reference(10, 4).argmin() == 2  # "the oldest mostly lies in the middle"
    row = np.arange(6)  # what Python makes of a negative bound
    assert row[0:-1].tolist() == [0, 1, 2, 3, 4] and row[-1:1].tolist() == []
    assert twin(window_mask, "bounds: negative end")(8, 6, 2)[0].tolist() == [True] * 5 + [False]
    assert not window_mask.reference(8, 6, 2)[:2].any() and "n_q − n_k queries lie before all" in window_mask.statement
    assert twin(rolling_slots, "slot: cleared")(5, 4).tolist() == [4, -1, -1, -1]
    assert twin(rolling_slots, "empty: below zero")(3, 6).tolist() == [0, 1, 2, -3, -2, -1]
    assert receptive_field.reference(np.full(32, 4096), 131_072) == 32 * 4095 + 1 == 131_041
    assert twin(receptive_field, "reach: sum")(np.full(32, 4096), 131_072) == 131_072  # Mistral 7B's "about 131K"
    assert "32 · 4096 = 131,072." in receptive_field.wrong["reach: sum"].text
    assert receptive_field.wrong["reach: sum"].text.endswith("it is 131,041.)")


def test_the_examples_of_the_statements():
    assert decode_positions.reference(ints(3, 1, 1, 2), 4).tolist() == list(range(7))
    query, key = np.array([1.0, 2, 3, 4]).reshape(4, 1, 1), np.array([10.0, 100]).reshape(2, 1, 1)
    assert grouped_scores.reference(query, key).ravel().tolist() == [10, 20, 300, 400]
    W = np.array([[1.0, 1], [3, 5], [10, 10], [20, 0]])
    assert pooled_heads.reference(W, 4, 2).tolist() == [[2, 3], [15, 5]]
    rows = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert window_mask.reference(4, 4, 2).tolist() == rows
    assert rolling_slots.reference(3, 4).tolist() == [0, 1, 2, -1]
    assert rolling_slots.reference(6, 4).tolist() == [4, 5, 2, 3]
    assert receptive_field.reference(ints(3, 2), 10) == 4
    for one, said in (
        (decode_positions, "3, 1, 1 and 2 tokens and a room of 4, the positions are [0, 1, 2, 3, 4, 5, 6]"),
        (grouped_scores, "give the scores [10], [20], [300], [400]"),
        (pooled_heads, "[1, 1], [3, 5], [10, 10] and [20, 0] give two heads with the rows [2, 3] and [15, 5]"),
        (window_mask, f"the rows are {', '.join(map(str, rows[:3]))} and {rows[3]}, as truth values: 7 pairs"),
        (rolling_slots, "With 4 slots, after 3 tokens they hold [0, 1, 2, −1], after 6 tokens [4, 5, 2, 3]"),
        (receptive_field, "two layers and windows of 3 and 2, of 10 tokens 4 can"),
    ):
        assert said in " ".join(one.statement.split()), one.name


@pytest.mark.parametrize("one", ONES)
def test_right_answers_hear_nothing(one):
    assert one.judge(one.reference).words == []


@pytest.mark.parametrize(
    "paired",
    [
        lambda query, key: query @ key.T / np.sqrt(query.shape[-1]),
        lambda query, key: query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1]),
        lambda query, key: np.einsum("hqd,hkd->hqk", query, key) / np.sqrt(query.shape[-1]),
        lambda query, key: torch.bmm(query, key.transpose(1, 2)) / np.sqrt(query.shape[-1]),
        lambda query, key: torch.from_numpy(query) @ torch.from_numpy(key).mT / np.sqrt(query.shape[-1]),
    ],
)
def test_heads_that_do_not_pair_are_told_so(paired):
    verdict = grouped_scores.judge(paired)
    assert verdict.words[0].startswith(("It raised ValueError", "It raised RuntimeError")) and verdict.turns == ()
    assert "more query heads than key heads: which key head" in verdict.words[1] and len(verdict.words) == 2
    other = grouped_scores.judge(lambda query, key: not_there + query)  # noqa: F821
    assert other.words == [other.words[0]] and other.words[0].startswith("It raised NameError")


@pytest.mark.parametrize("kind", [list, tuple, lambda seen: range(len(seen))], ids=["list", "tuple", "range"])
def test_right_numbers_that_are_no_array_are_told_how_to_become_one(kind):
    verdict = decode_positions.judge(lambda lengths, room: kind(decode_positions.reference(lengths, room)))
    assert verdict.words[1] == "But its values would be right: return `np.array(…)` of it."
    assert verdict.comparison.received.startswith(("a list: [0 1 2", "a range: [0 1 2", "an object of type tuple"))


# ---- typed by hand: (exercise, answer, turns expected; () for correct) -----------------------------------------------


def calls(begin):
    """A loop over the calls, where `begin` says at which position a call begins."""

    def answer(lengths, room):
        n_seen, positions = 0, []
        for i, n in enumerate(lengths):
            start = begin(i=i, n_seen=n_seen, n=n, prompt=lengths[0], room=room)
            positions.extend(range(start, start + n))
            n_seen += n
        return np.array(positions)

    return answer


def tiny_llm_before_the_report(lengths, room):
    offset, tokens, positions = 0, lengths[0], []
    for token in lengths:
        positions.append(offset + np.arange(token))
        offset += tokens
        tokens = token
    return np.hstack(positions)


def doubled(then):
    """The prompt is added again at the first decoded token, and after it what `then` says."""

    def answer(lengths, room):
        positions, offset = [], 0
        for call, n in enumerate(lengths):
            positions.append(np.arange(offset, offset + n))
            offset = lengths[0] + offset if call < 2 else offset + then(n)
        return np.concatenate(positions)

    return answer


def by_a_queue(lengths, room):
    kept, positions = deque(maxlen=int(room)), []
    for n in lengths:
        positions += [len(kept) + i for i in range(n)]
        kept.extend(range(n))
    return np.array(positions)


def in_the_last_place(lengths, room):
    positions, n_seen = [], 0
    for n in lengths:
        for _ in range(n):
            positions.append(min(n_seen, room - 1))
            n_seen += 1
    return np.array(positions)


def positions_torch_style(lengths, room):
    lengths = torch.as_tensor(lengths)
    starts = torch.cumsum(lengths, 0) - lengths
    return torch.cat([torch.arange(int(s), int(s + n)) for s, n in zip(starts, lengths, strict=True)])


def copied(copies, scale=lambda q, k: q.shape[-1] ** 0.5):
    """Keys copied to as many heads as the queries have."""

    def answer(query, key):
        keys = copies(key, len(query) // len(key))
        return query @ np.swapaxes(keys, -1, -2) / scale(query, key)

    return answer


def tiled(key, group):
    return np.tile(key, (group, 1, 1))


def repeated(key, group):
    return np.repeat(key, group, axis=0)


def torch_repeat(query, key):
    query, key = torch.from_numpy(query), torch.from_numpy(key)
    key = key.repeat(query.shape[0] // key.shape[0], 1, 1)
    return query @ key.transpose(1, 2) / query.shape[-1] ** 0.5


def torch_repeat_interleave(query, key):
    key = key.repeat_interleave(query.size(0) // key.size(0), dim=0)
    return torch.bmm(query, key.transpose(-2, -1)) / query.size(-1) ** 0.5


def torch_expand(query, key):
    n, d = key.shape[1:]
    key = key[:, None].expand(-1, len(query) // len(key), -1, -1).reshape(-1, n, d)
    return torch.einsum("hqd,hkd->hqk", query, key) / d**0.5


def grouped_einsum(rule, cut=lambda q, k: q.reshape(len(k), -1, *q.shape[1:])):
    def answer(query, key):
        scores = np.einsum(rule, cut(query, key), key) / np.sqrt(key.shape[-1])
        return scores.reshape(-1, *scores.shape[2:]) if scores.ndim == 4 else scores

    return answer


def group_outside(query, key):
    return query.reshape(-1, len(key), *query.shape[1:])


def left_in_groups(query, key):
    return query.reshape(len(key), -1, *query.shape[1:]) @ key[:, None].swapaxes(2, 3) / key.shape[-1] ** 0.5


def zipped(query, key):
    return np.array([q @ k.T / np.sqrt(k.shape[1]) for q, k in zip(query, key, strict=False)])


def scaled_in_place(query, key):
    query /= np.sqrt(query.shape[-1])
    return copied(repeated, lambda q, k: 1)(query, key)


def cut(shape, axis, then=lambda pooled: pooled):
    """W reshaped, a mean over one axis, and rows again."""

    def answer(W, n_heads, n_kv_heads):
        sizes = {"H": n_heads, "kv": n_kv_heads, "g": n_heads // n_kv_heads, "f": len(W) // n_heads, "d": W.shape[1]}
        heads = W.reshape([sizes[name] for name in shape.split()])
        return then(heads.mean(axis)).reshape(-1, W.shape[1])

    return answer


def of_columns(W, n_heads, n_kv_heads):
    d_in, d_head = W.shape[0], W.shape[1] // n_heads
    return W.reshape(d_in, n_kv_heads, n_heads // n_kv_heads, d_head).mean(axis=2).reshape(d_in, -1)


def megatron_style(W, n_heads, n_kv_heads):
    return W.view(n_kv_heads, -1, W.shape[0] // n_heads, W.shape[1]).mean(dim=1).view(-1, W.shape[1])


def summed_heads(divisor):
    def answer(W, n_heads, n_kv_heads):
        heads, group = np.split(W, n_heads), n_heads // n_kv_heads
        new = [sum(heads[i * group : (i + 1) * group]) / divisor(n_heads, n_kv_heads) for i in range(n_kv_heads)]
        return np.vstack(new)

    return answer


def first_of_each(W, n_heads, n_kv_heads):
    return W.reshape(n_kv_heads, -1, len(W) // n_heads, W.shape[1])[:, 0].reshape(-1, W.shape[1])


def with_the_old_size(W, n_heads, n_kv_heads):
    d_head, group = len(W) // n_heads, n_heads // n_kv_heads
    heads = W.reshape(n_kv_heads, group, d_head, -1).mean(axis=1)
    return np.repeat(heads, group, axis=0).reshape(W.shape)


def not_joined(W, n_heads, n_kv_heads):
    return W.reshape(n_kv_heads, n_heads // n_kv_heads, len(W) // n_heads, -1).mean(1)


def windowed(rule, shift=lambda n_q, n_k: n_k - n_q):
    def answer(n_q, n_k, size):
        i, j = np.ogrid[:n_q, :n_k]
        return rule(i + shift(n_q, n_k), j, size)

    return answer


def no_shift(n_q, n_k):
    return 0


def sliced(start=lambda p, w: max(0, p - w + 1), end=lambda p: p + 1):
    def answer(n_q, n_k, size):
        mask = np.zeros((n_q, n_k), dtype=bool)
        for i in range(n_q):
            p = n_k - n_q + i
            mask[i, start(p, size) : end(p)] = True
        return mask

    return answer


def key_after_key(n_q, n_k, size):
    mask = torch.zeros(n_q, n_k, dtype=torch.bool)
    for i in range(n_q):
        for back in range(size):
            mask[i, i + n_k - n_q - back] = True
    return mask


def flash_window(q, k, w):  # window_size=(w, w), not causal
    return (k >= q - w) & (k <= q + w)


def window_torch_style(n_q, n_k, size):
    ones = torch.ones(n_q, n_k, dtype=torch.bool)
    return ones.tril(n_k - n_q) & ~ones.tril(n_k - n_q - size)


def rolled(write, empty=-1, count=lambda n: n):
    """A loop over the tokens; `write` puts a position into the slots."""

    def answer(n_seen, size):
        slots = np.full(size, empty)
        for position in range(count(n_seen)):
            write(slots, position, size)
        return slots

    return answer


def in_turn(slots, position, size):
    slots[position % size] = position


def if_there_is_room(slots, position, size):
    if position < size:
        slots[position] = position


def at_the_end(slots, position, size):
    slots[min(position, size - 1)] = position


def after_clearing(slots, position, size):
    if position % size == 0:
        slots.fill(-1)
    slots[position % size] = position


def one_further(slots, position, size):
    slots[(position + 1) % size] = position


def a_queue(n_seen, size):
    queue = list(deque(range(n_seen), maxlen=size))
    return np.array(queue + [-1] * (size - len(queue)))


def the_last_window(n_seen, size):
    slots = np.full(size, -1)
    held = np.arange(max(0, n_seen - size), n_seen)
    if len(held):
        slots[-len(held) :] = held
    return slots


def a_queue_alone(n_seen, size):
    return np.arange(n_seen)[-size:]


def formula(n_seen, size):
    slot = np.arange(size)
    return slot + (n_seen - 1 - slot) // size * size


def formula_with_minus_one(n_seen, size):
    slots = formula(n_seen, size)
    slots[slots < 0] = -1
    return torch.tensor(slots)


def slots_by_dictionary(n_seen, size):
    held = {position % size: position for position in range(n_seen)}
    return np.array([held.get(slot, -1) for slot in range(size)], dtype=np.float32)


def walked_back(sizes, n):
    reached = {n - 1}
    for size in list(sizes)[::-1]:
        reached = {p for q in reached for p in range(max(0, q - min(size, n) + 1), q + 1)}
    return len(reached)


def torch_field(sizes, n):
    return torch.clamp(torch.as_tensor(sizes).sum() - len(sizes) + 1, max=n)


def rows_of_a_window(start, end):
    """The mask whose row of the query at position p holds the slice from start(p, size) to end(p)."""

    def answer(n_q, n_k, size):
        mask = np.zeros((n_q, n_k), dtype=bool)
        for i, row in enumerate(mask):
            row[start(i + n_k - n_q, size) : end(i + n_k - n_q)] = True
        return mask

    return answer


def loop_from_the_first_key(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(i - size + 1, i + 1):
            mask[i, j] = True
    return mask


def last_keys_for_all(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    mask[:, -size:] = True
    return mask


def two_triangles_of_ones(end, start):
    def answer(n_q, n_k, size):
        ones = np.ones((n_q, n_k), dtype=bool)
        return np.tril(ones, end(n_k - n_q)) & np.triu(ones, start(n_k - n_q) - size + 1)

    return answer


def from_zero(p, size):
    return max(0, p - size + 1)


def as_it_is(offset):
    return offset


def left_out(offset):
    return 0


def head_by_head(key_head, root=lambda query: query.shape[-1]):
    def answer(query, key):
        H, H_kv = len(query), len(key)
        return np.array([query[h] @ key[key_head(h, H, H_kv)].T for h in range(H)]) / np.sqrt(root(query))

    return answer


def neighbours(h, H, H_kv):
    return h // (H // H_kv)


def slots_from_one(n_seen, size):
    slots = np.full(size, -1)
    for position in range(1, n_seen + 1):
        slots[position % size] = position
    return slots


BY_HAND = [
    (window_mask, rows_of_a_window(from_zero, lambda p: max(0, p + 1)), ()),
    (
        window_mask,
        rows_of_a_window(lambda p, size: p - size + 1, lambda p: max(0, p + 1)),
        ("negative start, no negative end",),
    ),
    (
        window_mask,
        rows_of_a_window(lambda p, size: p - size, lambda p: p),
        ("own: shifted", "bounds: negative start"),
    ),
    (
        window_mask,
        rows_of_a_window(lambda p, size: max(0, p - size), lambda p: p),
        ("own: shifted", "bounds: negative end"),
    ),
    (
        window_mask,
        rows_of_a_window(lambda p, size: from_zero(max(0, p), size), lambda p: max(0, p) + 1),
        ("bounds: position from 0",),
    ),
    (window_mask, loop_from_the_first_key, ("top-left, off the table",)),
    (window_mask, last_keys_for_all, ("the last keys for all",)),
    (window_mask, two_triangles_of_ones(as_it_is, as_it_is), ()),
    (window_mask, two_triangles_of_ones(as_it_is, left_out), ("align: start top-left",)),
    (window_mask, two_triangles_of_ones(left_out, as_it_is), ("align: end top-left",)),
    (window_mask, two_triangles_of_ones(np.negative, np.negative), ("align: turned",)),
    (grouped_scores, head_by_head(neighbours), ()),
    (grouped_scores, head_by_head(lambda h, H, H_kv: h // H_kv), ("share: h // H_kv",)),
    (grouped_scores, head_by_head(neighbours, root=len), ("scale: by H",)),
    (grouped_scores, head_by_head(neighbours, root=lambda query: query.shape[1]), ("scale: by n_q",)),
    (rolling_slots, slots_from_one, ("counted from 1",)),
    (decode_positions, calls(lambda n_seen, **_: 0), ("offset: zero",)),
    (decode_positions, lambda lengths, room: np.hstack([np.arange(n) for n in lengths]), ("offset: zero",)),
    (decode_positions, tiny_llm_before_the_report, ("offset: prompt twice",)),
    (decode_positions, doubled(lambda n: n), ("offset: prompt for the first token",)),
    (decode_positions, doubled(lambda n: 1), ("offset: prompt for the first token, then calls",)),
    (
        decode_positions,
        calls(lambda n_seen, i, prompt, **_: n_seen + prompt * (i > 1)),
        ("offset: prompt beside the first token",),
    ),
    (decode_positions, calls(lambda i, prompt, **_: prompt + i - 1 if i else 0), ("offset: one a call",)),
    (decode_positions, calls(lambda n_seen, i, prompt, **_: n_seen + prompt * (i > 0)), ("offset: prompt again",)),
    (decode_positions, calls(lambda n_seen, n, **_: n_seen + n), ("offset: own tokens counted",)),
    (decode_positions, calls(lambda n_seen, i, **_: n_seen + 1 if i else 0), ("offset: one too far",)),
    (decode_positions, calls(lambda n_seen, i, **_: n_seen - 1 if i else 0), ("offset: one too few",)),
    (decode_positions, calls(lambda i, prompt, **_: prompt if i else 0), ("offset: prompt alone",)),
    (decode_positions, calls(lambda i, **_: i), ("offset: calls",)),
    (decode_positions, by_a_queue, ("offset: kept",)),
    (decode_positions, lambda lengths, room: np.repeat(np.cumsum(lengths) - lengths, lengths), ("within: all alike",)),
    (decode_positions, lambda lengths, room: np.arange(1, lengths.sum() + 1), ("result: from one",)),
    (decode_positions, lambda lengths, room: np.arange(lengths.sum()) % room, ("result: places",)),
    (decode_positions, in_the_last_place, ("result: last place",)),
    (decode_positions, lambda lengths, room: np.arange(lengths.sum()).clip(max=room - 1), ("result: last place",)),
    (
        decode_positions,
        lambda lengths, room: np.repeat(np.cumsum(lengths), lengths),
        ("offset: own tokens counted", "within: all alike"),
    ),
    (decode_positions, calls(lambda n_seen, **_: n_seen), ()),
    (decode_positions, lambda lengths, room: np.arange(lengths.sum()), ()),
    (decode_positions, positions_torch_style, ()),
    (grouped_scores, copied(tiled), ("share: tiled",)),
    (grouped_scores, torch_repeat, ("share: tiled",)),
    (grouped_scores, grouped_einsum("ghqd,hkd->ghqk", group_outside), ("share: tiled",)),
    (grouped_scores, copied(lambda key, group: key[:1]), ("share: first for all",)),
    (grouped_scores, copied(lambda key, group: key.mean(axis=0)), ("share: mean for all",)),
    (grouped_scores, grouped_einsum("hgqd,hkd->hqk"), ("queries: summed",)),
    (
        grouped_scores,
        lambda query, key: copied(lambda k, g: k)(query.reshape(len(key), -1, *query.shape[1:]).mean(axis=1), key),
        ("queries: averaged",),
    ),
    (grouped_scores, left_in_groups, ("queries: in groups",)),
    (grouped_scores, grouped_einsum("hgqd,hkd->ghqk"), ("queries: another order",)),
    (grouped_scores, zipped, ("one for one",)),
    (grouped_scores, copied(repeated, lambda q, k: 1), ("scale: none",)),
    (grouped_scores, copied(repeated, lambda q, k: q.shape[-1]), ("scale: by d",)),
    (grouped_scores, copied(repeated, lambda q, k: (len(q) * q.shape[2]) ** 0.5), ("scale: by the whole width",)),
    (grouped_scores, lambda query, key: grouped_scores.reference(query, key).swapaxes(1, 2), ("axes: turned",)),
    (grouped_scores, copied(tiled, lambda q, k: 1), ("share: tiled", "scale: none")),
    (grouped_scores, scaled_in_place, ("overwritten",)),
    (grouped_scores, copied(repeated), ()),
    (grouped_scores, torch_repeat_interleave, ()),
    (grouped_scores, torch_expand, ()),
    (grouped_scores, grouped_einsum("hgqd,hkd->hgqk"), ()),
    (pooled_heads, summed_heads(lambda H, kv: 1), ("pool: sum",)),
    (pooled_heads, summed_heads(lambda H, kv: H), ("pool: over all heads",)),
    (pooled_heads, first_of_each, ("pool: first",)),
    (pooled_heads, cut("g kv f d", 0), ("group: strided",)),
    (
        pooled_heads,
        lambda W, H, kv: W.reshape(H // kv, len(W) // H * kv, W.shape[1]).mean(axis=0),
        ("group: strided",),
    ),
    (pooled_heads, cut("kv f g d", 2), ("group: features",)),
    (pooled_heads, lambda W, H, kv: W.reshape(kv, -1, W.shape[1]).mean(1), ("group: heads and features",)),
    (pooled_heads, cut("kv g f d", (1, 2)), ("group: heads and features",)),
    (pooled_heads, of_columns, ("group: columns",)),
    (pooled_heads, cut("g kv f d", 1), ("group: sizes exchanged",)),
    (pooled_heads, cut("H f d", 0), ("group: all",)),
    (pooled_heads, not_joined, ("result: not joined",)),
    (pooled_heads, with_the_old_size, ("result: as large as before",)),
    (pooled_heads, lambda W, H, kv: W[: kv * (len(W) // H)], ("cut off",)),
    (pooled_heads, lambda W, H, kv: cut("g kv f d", 0)(W, H, kv) * (H // kv), ("pool: sum", "group: strided")),
    (pooled_heads, cut("kv g f d", 1), ()),
    (pooled_heads, megatron_style, ()),
    (pooled_heads, summed_heads(lambda H, kv: H // kv), ()),
    (window_mask, windowed(lambda q, k, w: (k <= q) & (k >= q - w)), ("reach: size beside its own",)),
    (window_mask, windowed(lambda q, k, w: (k <= q) & (q - k < w - 1)), ("reach: one too few",)),
    (window_mask, lambda n_q, n_k, size: np.tri(n_q, n_k, n_k - n_q, dtype=bool), ("reach: all before",)),
    (window_mask, windowed(lambda q, k, w: abs(q - k) < w), ("future: as far ahead",)),
    (window_mask, windowed(lambda q, k, w: abs(k - q) <= w // 2), ("future: half",)),
    (window_mask, windowed(lambda q, k, w: k > q - w), ("future: all",)),
    (window_mask, windowed(lambda q, k, w: (q <= k) & (k < q + w)), ("future: instead of the past",)),
    (window_mask, windowed(lambda q, k, w: (k < q) & (k > q - w)), ("own: blocked",)),
    (window_mask, windowed(lambda q, k, w: (k <= q) & (k > q - w), no_shift), ("align: top-left",)),
    (window_mask, windowed(lambda q, k, w: (k > q) | (k <= q - w)), ("polarity: turned",)),
    (window_mask, windowed(lambda q, k, w: ((k <= q) & (k > q - w)) * 1.0), ("kind: numbers",)),
    (window_mask, windowed(lambda q, k, w: (k <= q) | (k > q - w)), ("either is enough",)),
    (window_mask, windowed(lambda q, k, w: ~((k > q) & (k <= q - w))), ("either is enough",)),
    (window_mask, sliced(), ("bounds: negative end",)),
    (window_mask, sliced(start=lambda p, w: p - w + 1), ("bounds: negative start",)),
    (window_mask, key_after_key, ("bounds: negative index",)),
    (
        window_mask,
        sliced(start=lambda p, w: max(0, p - w)),
        ("reach: size beside its own", "bounds: negative end"),
    ),
    (window_mask, sliced(end=lambda p: max(0, p + 1)), ()),
    (window_mask, windowed(flash_window), ("reach: size beside its own", "future: as far ahead")),
    (window_mask, windowed(lambda q, k, w: (k < q) & (k >= q - w)), ("own: shifted",)),
    (window_mask, windowed(lambda q, k, w: (k <= q) & (k > q - w)), ()),
    (window_mask, windowed(lambda q, k, w: np.isin(q - k, np.arange(w))), ()),
    (window_mask, window_torch_style, ()),
    (rolling_slots, a_queue, ("slot: shifted",)),
    (rolling_slots, lambda n, size: np.arange(n - size, n), ("the last window",)),
    (rolling_slots, the_last_window, ("the last window, filled up in front",)),
    (rolling_slots, rolled(at_the_end), ("slot: last one",)),
    (rolling_slots, rolled(if_there_is_room), ("slot: none",)),
    (rolling_slots, rolled(after_clearing), ("slot: cleared",)),
    (rolling_slots, rolled(one_further), ("slot: one too far",)),
    (rolling_slots, rolled(in_turn, empty=0), ("empty: zero",)),
    (rolling_slots, formula, ("empty: below zero",)),
    (rolling_slots, lambda n, size: formula(n, size)[formula(n, size) >= 0], ("empty: left out",)),
    (rolling_slots, rolled(in_turn, count=lambda n: n + 1), ("seen: one too many",)),
    (rolling_slots, rolled(in_turn, count=lambda n: n - 1), ("seen: one too few",)),
    (rolling_slots, lambda n, size: np.arange(n) % size, ("turned round",)),
    (rolling_slots, a_queue_alone, ("slot: shifted", "empty: left out")),
    (rolling_slots, rolled(in_turn), ()),
    (rolling_slots, formula_with_minus_one, ()),
    (rolling_slots, slots_by_dictionary, ()),
    (receptive_field, lambda sizes, n: min(n, sum(sizes)), ("reach: sum",)),
    (receptive_field, lambda sizes, n: np.minimum(n, np.prod(sizes)), ("reach: product",)),
    (receptive_field, lambda sizes, n: min(n, (sizes - 1).sum()), ("reach: without itself",)),
    (receptive_field, lambda sizes, n: min(n, 1 + sum(sizes)), ("reach: own beside",)),
    (receptive_field, lambda sizes, n: min(n, max(sizes)), ("reach: largest",)),
    (receptive_field, lambda sizes, n: min(n, sizes[0]), ("reach: first",)),
    (receptive_field, lambda sizes, n: sizes[0], ("reach: first", "text: endless")),
    (receptive_field, lambda sizes, n: min(n, sizes[-1]), ("reach: last",)),
    (receptive_field, lambda sizes, n: min(n, 2 * np.sum(sizes - 1) + 1), ("reach: both sides",)),
    (receptive_field, lambda sizes, n: 1 + np.sum(sizes - 1), ("text: endless",)),
    (receptive_field, lambda sizes, n: min(n - 1, 1 + np.sum(sizes - 1)), ("text: others alone",)),
    (receptive_field, lambda sizes, n: sum(sizes), ("reach: sum", "text: endless")),
    (receptive_field, walked_back, ()),
    (receptive_field, torch_field, ()),
    (receptive_field, lambda sizes, n: float(min(1 + sum(s - 1 for s in sizes), n)), ()),
]
