"""Exercise 5.7: window_mask, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "5.7",
    points=1,
    section="Windows",
    statement=(
        "The mask of a sliding window, True where a query may attend: each query sees the last `size` keys up to its\n"
        "own position, *its own included*, and none after it. As in `causal_mask`, the last query belongs to the last\n"
        "key; if there are more queries than keys, the first n_q − n_k queries lie before all keys and see nothing.\n"
        "For 4 queries, 4 keys and a size of 2 the rows are [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0] and\n"
        "[0, 0, 1, 1], as truth values: 7 pairs are allowed. `attnlab.masks.window` does this; write it yourself."
    ),
    hints=[
        "Each row has a first and a last key that it may see. The last one is the query's own; which is it for query "
        "i, if there are more keys than queries?",
        "With a size of 1, how far back does a query see? So how far with `size`?",
        "Two conditions, joined by `&`: the key is not after the query, and the query is less than `size` after the "
        "key. Both are a comparison of positions.",
    ],
)
def window_mask(n_q, n_k, size):
    """Causal window: the last `size` keys, the query's own included.

    n_q, n_k and size are integers → (n_q, n_k) of bool, True = may attend;
    the last query's own key is the last key
    """
    own = np.arange(n_q)[:, None] + n_k - n_q  # (n_q, 1)
    key = np.arange(n_k)  # (n_k,)
    return (key <= own) & (own - key < size)


@window_mask.probes
def _(rng):
    n = int(rng.integers(5, 8))
    # Square, wide, tall; every window is narrower than the keys by two at least, so that a longer one shows.
    return [(n, n, 2), (n, n, 3), (n - 2, n + 2, 4), (2, n + 1, 3), (n + 2, n, 2)]


@window_mask.hard_probes
def _():
    return {
        "one key": Probe((4, 4, 1), "With a size of 1 each query sees its own key and nothing else."),
        "a wide window": Probe((3, 5, 9), "A window that is wider than all keys is a causal mask."),
        "just as wide": Probe((4, 4, 4), "A window of n_k keys is a causal mask."),
        "one query": Probe((1, 6, 3), "A single query with cached keys sees the last `size` of them."),
        "far more queries": Probe((6, 2, 2), "Queries that lie before all keys may attend to nothing."),
    }


_NEGATIVE_START = Wrong(
    "The first queries have fewer than `size` keys behind them, and your slice starts at a negative number. "
    "Python counts that from the *right*: `row[-1:1]` is empty. Let no bound fall below 0: `max(0, …)`.",
    hint="With a size of 2, where does the slice of the first query start, and what does it hold?",
)


@window_mask.choice_points(
    reach={
        "size beside its own": Wrong(
            "The window is one key too long: it holds `size` keys *beside* the query's own. Some libraries count that "
            "way; here its own is one of `size`. In the example 9 pairs would be allowed instead of 7.",
            seen_in="huggingface/transformers#39408",
            hint="With a size of 1, how many keys does your last query see?",
        ),
        "one too few": Wrong(
            "The window is one key too short. The query's own key is one of `size`, so size − 1 lie before it.",
            seen_in="lightseekorg/tokenspeed#578",
            hint="With a size of 1, how many keys does your last query see?",
        ),
        "all before": Wrong(
            "This is the causal mask: `size` limits nothing. A query may look back over size − 1 keys at most.",
            hint="Would your result change with `size`?",
        ),
    },
    future={
        "as far ahead": Wrong(
            "The window reaches as far ahead as back. This is a decoder: no query may see a key after its own.",
            seen_in="google/gemma_pytorch#73",
            hint="Which keys does the first query see?",
        ),
        "half": Wrong(
            "The window lies around the query, half before it and half after it, as in an encoder (Longformer). This "
            "is a decoder: all of it lies before, and no query may see a key after its own.",
            hint="Which keys does the first query see?",
        ),
        "all": Wrong(
            "The past is limited, the future is not: every later key is allowed.",
            seen_in="jax-ml/jax#39576",
            hint="Which keys does the first query see?",
        ),
        "instead of the past": Wrong(
            "The wrong side is kept: each query sees its own key and later ones. Rows are queries, columns are keys.",
            hint="Which keys does the last query see?",
        ),
    },
    own={
        "blocked": Wrong(
            "The query's own key is blocked. It is the last one of its window.",
            hint="Which key should the first query see?",
        ),
        "shifted": Wrong(
            "The window ends one key too early: it holds the `size` keys *before* the query's own, which is the last "
            "one of its window. (A slice stops before its second bound: `row[own - size + 1 : own + 1]`. In a "
            "comparison it is `key <= own`.)",
            hint="Which key should the first query see?",
        ),
    },
    align={
        "top-left": Wrong(
            "The *first* query is lined up with the first key. With a cache the window lies at the end: positions of "
            "queries begin at n_k − n_q. Square masks do not show the difference.",
            seen_in="trymirai/lalamo#200",
            hint="One new query and 6 keys: which of them does a window of 3 hold?",
        ),
        "start top-left": Wrong(
            "The end of the window is lined up with the last key, its start with the first one: for more keys than "
            "queries the window is too long, for fewer too short. *Both* conditions need n_k − n_q. Square masks do "
            "not show the difference.",
            hint="One new query and 6 keys: which of them does your window of 3 hold?",
        ),
        "end top-left": Wrong(
            "The start of the window is lined up with the last key, its end with the first one: for more keys than "
            "queries the window is too short, for fewer too long. *Both* conditions need n_k − n_q. Square masks do "
            "not show the difference.",
            hint="One new query and 6 keys: which of them does your window of 3 hold?",
        ),
        "turned": Wrong(
            "The difference of the lengths is turned round: positions of queries begin at n_k − n_q, not at n_q − n_k. "
            "With more keys than queries, some came before the first query. Square masks do not show the difference.",
            hint="With 6 keys and one query, which position has the query?",
        ),
    },
    bounds={
        "negative end": Wrong(
            "A query that lies before all keys has a negative position, and so your slice may end at a negative "
            "number. Python counts that from the *right*: `row[0:-1]` is all but the last key. Such a query sees "
            "nothing, so the end needs a `max(0, …)`, too.",
            hint="With 8 queries and 6 keys, which position has the first query, and what is `row[0:-1]`?",
        ),
        "negative start": _NEGATIVE_START,
        "position from 0": Wrong(
            "A query that lies before all keys is given the position 0, as if key 0 were its own. Its position is "
            "negative, and it sees nothing. It is the *bounds* of its window that must not fall below 0.",
            hint="With 8 queries and 6 keys, how many keys does the first query see?",
        ),
        "negative index": Wrong(
            "The first queries have fewer than `size` keys behind them, and your loop runs on below key 0. Python "
            "takes the index −1 for the *last* key: the first queries see the end of the text. Begin at `max(0, …)`.",
            hint="With a size of 2, which keys does the loop of the first query visit?",
        ),
    },
    polarity={
        "turned": Wrong(
            "Every entry is turned round: yours is True where attention is forbidden. Here True means *may attend*.",
            seen_in="rasbt/LLMs-from-scratch#1061",
            hint="May the first query attend to the first key? What does your mask say about that pair?",
        ),
    },
    kind={
        "numbers": Wrong(
            "These are numbers; a mask of truth values is asked for. Libraries *add* a mask of floating numbers to the "
            "scores, and adding 1 or 0 forbids nothing.",
            seen_in="pytorch/pytorch#21518",
            hint="Which dtype has your result, and which dtype does a comparison give?",
        ),
    },
)
def _(
    n_q,
    n_k,
    size,
    *,
    reach="size",
    future="none",
    own="seen",
    align="bottom-right",
    bounds="from zero",
    polarity="allowed",
    kind="bool",
):
    first = {"top-left": 0, "turned": n_q - n_k}.get(align, n_k - n_q)
    place = np.arange(n_q) + first - (own == "shifted")  # (n_q,), of each query among the keys
    place = np.maximum(place, 0) if bounds == "position from 0" else place
    length = {"size beside its own": size + 1, "one too few": size - 1, "all before": 2 * (n_q + n_k)}.get(reach, size)
    length = length // 2 + 1 if future == "half" else length
    starts = place if future == "instead of the past" else place - length + 1
    ends = {"none": place + 1, "all": np.full(n_q, n_k)}.get(future, place + length)
    starts = starts - first if align == "start top-left" else starts
    ends = ends - first if align == "end top-left" else ends
    mask = np.zeros((n_q, n_k), dtype=bool)
    for row, start, end in zip(mask, starts, ends, strict=True):
        if bounds == "negative index":
            for key in range(start, min(end, n_k)):
                row[key] = True
            continue
        start = start if bounds == "negative start" else max(0, start)
        row[start : end if bounds in ("negative start", "negative end") else max(0, end)] = True
    if own == "blocked":
        mask &= place[:, None] != np.arange(n_k)
    mask = ~mask if polarity == "turned" else mask
    return mask.astype(int) if kind == "numbers" else mask


@window_mask.mistake(
    "either is enough",
    "The two conditions are joined by “or”, so every pair passes one of them. A key must pass both: `&`. (What is "
    "*forbidden* is the other way round: there either is enough.)",
    seen_in="lucidrains/local-attention#5",
    hint="Is it enough for a key to meet one of the two conditions?",
)
def _(n_q, n_k, size):
    return np.ones((n_q, n_k), dtype=bool)


@window_mask.mistake("negative start, no negative end", _NEGATIVE_START.text, hint=_NEGATIVE_START.hint)
def _(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for row, end in zip(mask, np.arange(n_q) + n_k - n_q + 1, strict=True):
        row[end - size : max(0, end)] = True
    return mask


@window_mask.mistake(
    "the last keys for all",
    "Every query sees the same keys, the last `size` of all. The window moves along: it ends at each query's own key.",
    hint="Are two rows of your mask different?",
)
def _(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    mask[:, -size:] = True
    return mask


@window_mask.mistake(
    "top-left, off the table",
    "Two things in your loop. The *first* query is lined up with the first key, so that with more queries than keys it "
    "runs off the table; queries' positions begin at n_k − n_q. And it begins below key 0, where Python takes the "
    "index −1 for the *last* key: begin at `max(0, …)`.",
    hint="Which keys does your loop visit for the first query, and which for the last of 8 when there are 6 keys?",
)
def _(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for key in range(i - size + 1, i + 1):
            mask[i, key] = True
    return mask


@window_mask.variant
def two_triangles(n_q, n_k, size):
    everything = np.ones((n_q, n_k), dtype=bool)
    return np.tril(everything, n_k - n_q) & np.triu(everything, n_k - n_q - size + 1)


@window_mask.variant
def one_triangle_less_another(n_q, n_k, size):
    return np.tri(n_q, n_k, n_k - n_q) - np.tri(n_q, n_k, n_k - n_q - size) == 1


@window_mask.variant
def with_loops(n_q, n_k, size):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        last = i + n_k - n_q
        for j in range(max(0, last - size + 1), last + 1):
            mask[i, j] = True
    return mask


@window_mask.variant
def slices_of_rows(n_q, n_k, size):
    mask = np.full((n_q, n_k), False)
    for i, row in enumerate(mask):
        end = i + 1 + n_k - n_q
        row[max(end - size, 0) : max(end, 0)] = True
    return mask


@window_mask.variant
def steps_along_diagonals(n_q, n_k, size):
    return sum(np.eye(n_q, n_k, n_k - n_q - back) for back in range(size)) > 0
