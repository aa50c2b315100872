"""Exercise 5.5: grouped_scores, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS, SCALE
from ..engine import Probe, Wrong, exercise


@exercise(
    "5.5",
    points=2,
    section="Fewer key and value heads",
    statement=(
        "The scores of attention in which several query heads share one key head. Neighbours share: with 4 query\n"
        "heads and 2 key heads, query heads 0 and 1 ask key head 0, query heads 2 and 3 ask key head 1. Each query\n"
        "head keeps scores of its own, divided by √d_k. With one token and d_k = 1, the queries [1], [2], [3], [4]\n"
        "and the keys [10], [100] give the scores [10], [20], [300], [400]."
    ),
    hints=[
        "How many query heads are in a group? Which key head does query head h ask, in terms of h and that number?",
        "`np.repeat(key, group, axis=0)` copies each key head as often as it is asked, copies side by side. That is "
        "one way; it makes the keys as large again as those of all heads.",
        "The axis of query heads can be cut in two, (H_kv, group). A key head with an axis of length 1 for the group "
        "then meets all queries of its group in one `@`.",
    ],
)
def grouped_scores(query, key):
    """Scaled scores; H / H_kv neighbouring query heads share a key head.

    query (H, n_q, d_k), key (H_kv, n_k, d_k), H a multiple of H_kv
    → (H, n_q, n_k)
    """
    H, n_q, d_k = query.shape
    H_kv, n_k, _ = key.shape
    by_group = query.reshape(H_kv, H // H_kv, n_q, d_k)
    turned = key.swapaxes(1, 2)[:, None]  # (H_kv, 1, d_k, n_k)
    scores = by_group @ turned / np.sqrt(d_k)
    return scores.reshape(H, n_q, n_k)


_PAIRED = (
    "Here are more query heads than key heads: which key head does each query head ask? (`@`, `*` and `einsum` pair "
    "heads one by one, and `.T` turns all three axes round; of a head only the last two change places.)"
)


@grouped_scores.probes
def _(rng):
    # H, H_kv, n_q, n_k, d_k: groups larger, smaller and as large as their number; n_q = n_k once, for what is turned.
    sizes = [(6, 2, 3, 2, 3), (6, 3, 4, 4, 6), (8, 4, 1, 5, 3), (9, 3, 2, 4, 3)]
    cases = [(rng.normal(size=(H, n_q, d_k)), rng.normal(size=(H_kv, n_k, d_k))) for H, H_kv, n_q, n_k, d_k in sizes]
    small = tuple(rng.integers(1, 10, size=shape).astype(float) for shape in [(4, 1, 2), (2, 3, 2)])  # for the card
    cases = [small, *cases[:3], tuple(a.astype(np.float32) for a in cases[3])]
    return [Probe(case, _PAIRED) for case in cases]


@grouped_scores.hard_probes
def _():
    rng = np.random.default_rng(11)
    query, key = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 5, 3))
    whole = np.arange(24).reshape(4, 3, 2)
    return {
        "a key head for each": Probe(
            (query, key), "With as many key heads as query heads each has its own: plain multi-head attention."
        ),
        "one key head": Probe((query, key[:1]), "With one key head all query heads share it: multi-query attention."),
        "one query head": Probe((query[:1], key[:1]), "With a single head the result is still of shape (1, n_q, n_k)."),
        "integers": Probe((whole, whole[::2, :, ::-1].copy()), INTEGERS, True, True),
    }


_SHARED = "How many score tables should come out, if there are 4 query heads?"


@grouped_scores.choice_points(
    share={
        "tiled": Wrong(
            "The key heads are gone through again and again, [0, 1, 0, 1], as `np.tile` and torch's `.repeat` copy "
            "them. Neighbours share: [0, 0, 1, 1], as `np.repeat` and `repeat_interleave` do. Shapes are the same, and "
            "the first and last head are right.",
            seen_in="onnx/onnx#7274",
            hint="With 4 query heads and 2 key heads, which key head does query head 1 ask?",
        ),
        "first for all": Wrong(
            "All query heads ask key head 0: the other key heads are computed, kept, and never read.",
            hint="Would your result change if the last key head did?",
        ),
        "mean for all": Wrong(
            "The key heads are averaged, and all query heads ask the mean. Each group has a key head of its own.",
            hint="Which key heads should the scores of query head 0 depend on?",
        ),
        "h // H_kv": Wrong(
            "The number of a query head is divided by how many key heads there are. It is divided by how many query "
            "heads are in a *group*, H // H_kv. In the example both are 2.",
            hint="With 6 query heads and 2 key heads, how many query heads ask key head 0?",
        ),
    },
    queries={
        "summed": Wrong(
            "The query heads of a group are added up: one score table is left for each *key* head. Shared are keys; "
            "each query head keeps its own question.",
            seen_in="fkodom/grouped-query-attention-pytorch#5",
            hint=_SHARED,
        ),
        "averaged": Wrong(
            "The query heads of a group are averaged: one score table is left for each *key* head. Shared are keys; "
            "each query head keeps its own question.",
            hint=_SHARED,
        ),
        "in groups": Wrong(
            "The axis of heads is still cut in two, (H_kv, group, n_q, n_k). Join these two: (H, n_q, n_k).",
            hint="How many axes should the result have?",
        ),
        "another order": Wrong(
            "The scores are right, but their heads have changed places: first comes the first query head of every "
            "group, then the second of every group. The order should be that of `query`.",
            hint="Which query head do the scores at `result[1]` belong to?",
        ),
    },
    scale={
        "none": SCALE["none"],
        "by d": SCALE["by d"],
        "by the whole width": Wrong(
            "The scores are divided by √(H·d_k), the root of the width of all query heads. A score adds d_k products, "
            "so it spreads like √d_k, however many heads there are.",
            seen_in="lucidrains/vit-pytorch#65",
            hint="How many products are added up in one score?",
        ),
        "by H": Wrong(
            "The scores are divided by √H, the root of how many query heads there are: of a table `len` counts the "
            "first axis. d_k is the number of components of one query, `shape[-1]`.",
            hint="Which axis of `query` counts components?",
        ),
        "by n_q": Wrong(
            "The scores are divided by √n_q, the root of how many queries there are. d_k is the number of components "
            "of one query, `shape[-1]`.",
            hint="Which axis of `query` counts components?",
        ),
    },
    axes={
        "turned": Wrong(
            "Keys are the rows of your tables, queries the columns. Softmax goes over the last axis, so keys must be "
            "the columns.",
            hint="Which shape does `queries @ keys.T` have?",
        ),
    },
)
def _(query, key, *, share="neighbours", queries="each", scale="root", axes="queries, keys"):
    (H, n_q, d_k), (H_kv, n_k, _) = query.shape, key.shape
    heads = np.arange(H)
    asked = {"tiled": heads % H_kv, "first for all": 0 * heads, "h // H_kv": heads // H_kv}
    keys = key.mean(axis=0) if share == "mean for all" else key[asked.get(share, heads // (H // H_kv))]
    root_of = {"by the whole width": H * d_k, "by H": H, "by n_q": n_q}.get(scale, d_k)
    divisor = {"none": 1.0, "by d": d_k}.get(scale, root_of**0.5)
    scores = query @ keys.swapaxes(-1, -2) / divisor
    in_groups = scores.reshape(H_kv, -1, n_q, n_k)
    if queries == "another order":
        scores = in_groups.swapaxes(0, 1).reshape(H, n_q, n_k)
    elif queries != "each":
        scores = {"summed": in_groups.sum(axis=1), "averaged": in_groups.mean(axis=1)}.get(queries, in_groups)
    return scores.swapaxes(-1, -2) if axes == "turned" else scores


@grouped_scores.mistake(
    "one for one",
    "Query head 0 asks key head 0, query head 1 key head 1, and then there are no key heads left: `zip` stops at the "
    "shorter of the two, and the other query heads are lost.",
    hint=_SHARED,
)
def _(query, key):
    return query[: len(key)] @ key.swapaxes(1, 2) / np.sqrt(key.shape[-1])


@grouped_scores.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(query, key):
    scores = grouped_scores.reference(query, key)
    query /= np.sqrt(query.shape[-1])
    return scores


@grouped_scores.variant
def repeated_keys(query, key):
    keys = np.repeat(key, len(query) // len(key), axis=0)
    return np.einsum("hqd,hkd->hqk", query, keys) / query.shape[-1] ** 0.5


@grouped_scores.variant
def rows_of_a_group(query, key):
    """The queries of a group one below the other, as rows of one matrix: no copy, and one product a key head."""
    H, n_q, d_k = query.shape
    rows = query.reshape(len(key), -1, d_k) / np.sqrt(d_k)
    return (rows @ np.transpose(key, (0, 2, 1))).reshape(H, n_q, -1)


@grouped_scores.variant
def head_by_head(query, key):
    group = len(query) // len(key)
    return np.stack([q @ key[h // group].T for h, q in enumerate(query)]) * query.shape[2] ** -0.5


@grouped_scores.variant
def with_loops(query, key):
    scores = np.empty((len(query), query.shape[1], key.shape[1]))
    group = len(query) // len(key)
    for shared, keys in enumerate(key):
        for h in range(shared * group, (shared + 1) * group):
            for i, q in enumerate(query[h]):
                scores[h, i] = [np.dot(q, k) / np.sqrt(len(q)) for k in keys]
    return scores
