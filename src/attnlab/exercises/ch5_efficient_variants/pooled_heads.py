"""Exercise 5.6: pooled_heads, and what people write instead."""

import numpy as np

from ..common import INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "5.6",
    points=2,
    section="Fewer key and value heads",
    statement=(
        "Make a projection for few key heads out of one for many: the new head is the mean of a group of neighbours.\n"
        "`W` is stored as `nn.Linear` stores it, one *row* for each feature of a key: the first rows belong to head\n"
        "0, the next to head 1. With d_head = 1, four heads with the rows [1, 1], [3, 5], [10, 10] and [20, 0] give\n"
        "two heads with the rows [2, 3] and [15, 5]."
    ),
    hints=[
        "How many rows belong to one head, and how many heads become one?",
        "Take the rows apart before you take a mean: which head of which group, which feature of it. A reshape does "
        "that, since heads and features lie in this order.",
        "With the shape (n_kv_heads, heads in a group, d_head, d_model), which axis should the mean remove?",
    ],
)
def pooled_heads(W, n_heads, n_kv_heads):
    """The weight of a projection to fewer heads: means of neighbours.

    W (n_heads · d_head, d_model), n_heads a multiple of n_kv_heads
    → (n_kv_heads · d_head, d_model)
    """
    rows, d_model = W.shape
    d_head = rows // n_heads
    group = n_heads // n_kv_heads
    heads = W.reshape(n_kv_heads, group, d_head, d_model)
    return heads.mean(axis=1).reshape(n_kv_heads * d_head, d_model)


@pooled_heads.probes
def _(rng):
    # n_heads, n_kv_heads, d_head, d_model: square three times, as in a model, and there columns can be taken for rows.
    # Groups are larger, smaller and as large as their number; d_head is now their size, now not. The small ones, which
    # the card shows, hold whole numbers.
    sizes = [(4, 2, 1, 4), (4, 2, 2, 3), (6, 3, 1, 6), (6, 2, 3, 18), (8, 2, 2, 5), (9, 3, 2, 4)]
    small = [(rng.integers(1, 20, size=(H * d_head, d)).astype(float), H, H_kv) for H, H_kv, d_head, d in sizes[:3]]
    cases = small + [(rng.normal(size=(H * d_head, d)), H, H_kv) for H, H_kv, d_head, d in sizes[3:]]
    W, *heads = cases[5]
    return [*cases[:5], (W.astype(np.float32), *heads)]


@pooled_heads.hard_probes
def _():
    W = np.random.default_rng(12).normal(size=(8, 3))
    return {
        "nothing to pool": Probe((W, 4, 4), "With as many heads as before, `W` stays as it is."),
        "one head": Probe((W, 4, 1), "With a single head left it is the mean of all: shape (d_head, d_model)."),
        "integers": Probe((np.arange(24).reshape(8, 3), 4, 2), INTEGERS, True, True),
    }


@pooled_heads.choice_points(
    pool={
        "sum": Wrong(
            "The heads of a group are added up, so the new keys are as many times too large as heads are in a group, "
            "and so are the scores. Take the mean.",
            hint="If all heads of a group were the same, what should the new head be?",
        ),
        "over all heads": Wrong(
            "The sum of a group is divided by `n_heads`. Divide it by the number of heads that were added up.",
            hint="If all heads of a group were the same, what should the new head be?",
        ),
        "first": Wrong(
            "Of each group the first head is kept, and the others are dropped. It is a way to convert a model, but "
            "another one: Ainslie et al. (2023) found the mean better, and with the small models of this chapter now "
            "the one is better, now the other. Asked for is the mean, which takes something of each head.",
            hint="Would your result change if the last head did?",
        ),
    },
    group={
        "strided": Wrong(
            "The groups are not neighbours: head 0 is pooled with head n_kv_heads, and so on. Query heads 0 and 1 ask "
            "the new head 0, so it should be made of the heads that they asked before.",
            hint="With 4 heads and 2 new ones, which heads should the first new one be made of?",
        ),
        "features": Wrong(
            "Neighbouring *rows* are pooled. Those are features of one head, which have nothing in common; pool the "
            "first feature of each head of a group, then the second.",
            hint="Which rows of `W` belong to head 0, and which of them should ever be averaged with each other?",
        ),
        "heads and features": Wrong(
            "The mean goes over all rows of a group, heads *and* features: a new head is left with one row. A row "
            "makes one feature of a key, so a head has d_head of them. Pool the first feature of each head of a group, "
            "then the second.",
            hint="With d_head = 2, how many rows should a new head have?",
        ),
        "columns": Wrong(
            "The columns are taken for the heads. In `nn.Linear` a row of the weight makes one feature of the result, "
            "so heads are rows; columns belong to the features of the *input*.",
            hint="Which of the two axes becomes shorter in the result?",
        ),
        "sizes exchanged": Wrong(
            "The numbers are exchanged: you pool n_kv_heads heads into one. There should be n_kv_heads of them, each "
            "made of n_heads / n_kv_heads. Where both are the same number, nothing shows.",
            hint="How many heads does your result have for n_heads = 6 and n_kv_heads = 2?",
        ),
        "all": Wrong(
            "All heads become one. Each group becomes a head of its own.",
            hint="How many heads should be left?",
        ),
    },
    result={
        "not joined": Wrong(
            "Heads and features are still two axes, (n_kv_heads, d_head, d_model). A weight is a matrix: join them.",
            hint="How many axes has `W`?",
        ),
        "as large as before": Wrong(
            "Each new head is there once for every head of its group: the weight is as large as before, and so would "
            "be the cache. Keep it once; the query heads share it.",
            hint="How many rows should the result have?",
        ),
    },
)
def _(W, n_heads, n_kv_heads, *, pool="mean", group="neighbours", result="joined"):
    if group == "columns":
        W = W.T
    rows, d_model = W.shape
    n_new = {"sizes exchanged": n_heads // n_kv_heads, "all": 1}.get(group, n_kv_heads)
    d_head, each = rows // n_heads, n_heads // n_new
    if group == "strided":
        heads = W.reshape(each, n_new, d_head, d_model).swapaxes(0, 1)
    elif group == "features":
        heads = W.reshape(n_new, d_head, each, d_model).swapaxes(1, 2)
    elif group == "heads and features":
        each = each * d_head
        heads = W.reshape(n_new, each, 1, d_model)
    else:
        heads = W.reshape(n_new, each, d_head, d_model)
    pooled = heads[:, 0] if pool == "first" else heads.sum(axis=1)  # (n_new, d_head, d_model)
    pooled = pooled / {"sum": 1, "first": 1, "over all heads": n_heads}.get(pool, each)
    if result == "not joined":
        return pooled.transpose(2, 0, 1) if group == "columns" else pooled
    pooled = np.repeat(pooled, each, axis=0) if result == "as large as before" else pooled
    joined = pooled.reshape(-1, d_model)
    return joined.T if group == "columns" else joined


@pooled_heads.mistake(
    "cut off",
    "The first n_kv_heads heads are kept as they are, and the others dropped. Each head should be part of a mean.",
    hint="Would your result change if the last head did?",
)
def _(W, n_heads, n_kv_heads):
    return W[: len(W) // n_heads * n_kv_heads].copy()


@pooled_heads.variant
def as_a_product(W, n_heads, n_kv_heads):
    """The mean as a matrix: 1/group where an old head belongs to a new one."""
    group = n_heads // n_kv_heads
    means = np.repeat(np.eye(n_kv_heads), group, axis=1) / group  # (n_kv_heads, n_heads)
    return np.kron(means, np.eye(len(W) // n_heads)) @ W


@pooled_heads.variant
def lists_of_heads(W, n_heads, n_kv_heads):
    heads = np.split(W, n_heads)
    group = n_heads // n_kv_heads
    return np.concatenate([sum(heads[i : i + group]) / group for i in range(0, n_heads, group)])


@pooled_heads.variant
def einsum_of_groups(W, n_heads, n_kv_heads):
    group = n_heads // n_kv_heads
    heads = W.reshape(n_kv_heads, group, -1, W.shape[1])
    return np.einsum("kgfd->kfd", heads).reshape(-1, W.shape[1]) / group


@pooled_heads.variant
def with_loops(W, n_heads, n_kv_heads):
    d_head, group = len(W) // n_heads, n_heads // n_kv_heads
    pooled = np.zeros((n_kv_heads * d_head, W.shape[1]))
    for head in range(n_heads):
        for j in range(d_head):
            pooled[head // group * d_head + j] += W[head * d_head + j] / group
    return pooled
