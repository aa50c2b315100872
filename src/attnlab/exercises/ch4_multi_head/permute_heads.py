"""Exercise 4.7: permute_heads, and what people write instead."""

import numpy as np

from ..common import IN_PLACE
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.7",
    points=3,
    section="A head can change while the output stays",
    statement=(
        "The heads of a layer have no order of their own. Give the four matrices of the layer whose heads come in\n"
        "another order, and whose output is the same: new head i is the old head `order[i]`, complete with its\n"
        "queries, keys, values and its part of the output. In the text all heads were turned round; there it makes no\n"
        "difference whether a head *comes from* place `order[i]` or *goes to* it, and here it does. As in this\n"
        "chapter, projections multiply from the right, x @ W_q: head h owns block h of the columns of W_q, W_k and\n"
        "W_v, and block h of the rows of W_o, each of d_model / n_heads features. With three heads of one feature and\n"
        "the order [2, 0, 1], a row [1, 2, 3] of W_q becomes [3, 1, 2]. Return the four as one array: the new W_q,\n"
        "W_k, W_v and W_o, in this order."
    ),
    hints=[
        "Write `order` for features: with two features a head, the order [2, 0, 1] of heads is [4, 5, 0, 1, 2, 3].",
        "A matrix (d_model, d_model) can be cut: in `W.reshape(d_model, n_heads, d_head)` axis 1 counts the heads of "
        "its columns. Which reshape makes an axis count the heads of its rows?",
        "`np.stack` makes one array of four. To see whether you are right, compare the outputs of the two layers, and "
        "the weights of new head 0 with those of old head `order[0]`.",
    ],
)
def permute_heads(W_q, W_k, W_v, W_o, order):
    """The layer with its heads in another order and the same output.

    W_q, W_k, W_v (d_model, d_model), head h in block h of the columns;
    W_o (d_model, d_model), head h in block h of the rows;
    order (n_heads,) of integers: new head i is the old head order[i]
    → the new W_q, W_k, W_v, W_o as one array (4, d_model, d_model)
    """
    features = np.arange(len(W_o)).reshape(len(order), -1)
    moved = features[order].ravel()  # the old place of each
    projections = [W[:, moved] for W in (W_q, W_k, W_v)]
    return np.stack([*projections, W_o[moved]])


@permute_heads.probes
def _(rng):
    # (n_heads, d_head). Every order differs from its own inverse, or "which head goes where" and "which head comes
    # here" could not be told apart. Heads of one feature, twice: there features may be taken for heads. As many heads
    # as features in a head, once: there no reshape fails.
    sizes = [(3, 1), (3, 2), (4, 1), (3, 3)]
    cases = [(*_matrices(rng, n_heads * d_head), _cycle(rng, n_heads)) for n_heads, d_head in sizes]
    a, b, c, fixed = rng.permutation(4)  # one head stays, three change places
    order = np.empty(4, dtype=np.int64)
    order[[a, b, c, fixed]] = [b, c, a, fixed]
    single = [W.astype(np.float32) for W in _matrices(rng, 8)]
    return [*cases, (*single, order)]


def _matrices(rng, d_model):
    return [rng.normal(size=(d_model, d_model)) for _ in range(4)]


def _cycle(rng, n):
    heads, order = rng.permutation(n), np.empty(n, dtype=np.int64)
    order[heads] = np.roll(heads, 1)
    return order


@permute_heads.hard_probes
def _():
    W = np.arange(16.0).reshape(4, 4)
    four = (W, -W, W + 100, W - 100)
    return {
        "two heads": Probe((*four, np.array([1, 0])), "Two heads change places, each with all of its features."),
        "one head": Probe((*four, np.array([0])), "With one head there is one order, and nothing moves."),
        "the order they have": Probe((*four, np.arange(4)), "In the order that the heads have already, nothing moves."),
        "backwards": Probe(
            (*four, np.arange(4)[::-1].copy()), "Heads of one feature each, in reversed order: single features move."
        ),
    }


_ONE_LEFT = (
    " is left as it was, so that each new head has this part of one old head and the others of another. All four parts "
    "of a head move together."
)

_LEFT = {
    "left alone": ("W_q", "W_k", "W_v"),
    "W_q left alone": ("W_q",),
    "W_k left alone": ("W_k",),
    "W_v left alone": ("W_v",),
    "W_k and W_v left alone": ("W_k", "W_v"),
}


@permute_heads.choice_points(
    output={
        "left alone": Wrong(
            "W_o is left as it was. A head that comes at another place than before meets there the rows that were "
            "learned for another head.",
            hint="Which rows of W_o does new head 0 meet in the product?",
        ),
        "columns": Wrong(
            "The columns of W_o are moved. Columns are the features of the output, which must stay where they are; the "
            "heads come in along the rows. (torch's `nn.Linear` stores the transpose, and there it is the columns.)",
            seen_in="microsoft/nni#5187",
            hint="Which axis of W_o is summed over in `heads @ W_o`?",
        ),
        "rows and columns": Wrong(
            "Rows and columns of W_o are moved. The rows are right: there the heads come in. The columns are the "
            "features of the output, which must stay where they are.",
            hint="Would you like feature 0 of the output to become another feature?",
        ),
        "inverse": Wrong(
            "The rows of W_o are moved back where the heads were moved forth. Row block i must be that of the head "
            "which now comes as number i, hence `order` again, not its inverse. For two heads both are the same.",
            hint="Which old head is new head 0, and which rows of the old W_o belong to it?",
        ),
    },
    projections={
        "rows": Wrong(
            "The rows of W_q, W_k and W_v are moved. Rows are the features of x, which must stay where they are; the "
            "heads are side by side in the columns. (torch's `nn.Linear` stores the transpose, and there it is the "
            "rows.)",
            hint="Which axis of W_q is summed over in `x @ W_q`, and which one is left?",
        ),
        "rows and columns": Wrong(
            "Rows and columns of W_q, W_k and W_v are moved. The columns are right: there the heads are side by side. "
            "The rows are the features of x, which must stay where they are.",
            hint="Which axis of W_q is summed over in `x @ W_q`?",
        ),
        "left alone": Wrong(
            "W_q, W_k and W_v are left as they were: the heads are still in their old order.",
            hint="Which columns of the new W_q belong to new head 0?",
        ),
        "W_q left alone": Wrong("W_q" + _ONE_LEFT, hint="With whose keys do the queries of new head 0 meet?"),
        "W_k left alone": Wrong("W_k" + _ONE_LEFT, hint="With whose keys do the queries of new head 0 meet?"),
        "W_v left alone": Wrong("W_v" + _ONE_LEFT, hint="Whose values do the weights of new head 0 mix?"),
        "W_k and W_v left alone": Wrong(
            "W_k and W_v are left as they were: only the queries have moved, and each head now asks with the queries "
            "of another. All four parts of a head move together.",
            seen_in="cisco-ai-defense/model-provenance-kit#9",
            hint="With whose keys do the queries of new head 0 meet?",
        ),
    },
    direction={
        "inverse": Wrong(
            "`order` is read the other way round: you put old head i at place `order[i]`. Asked for is that new head i "
            "*is* old head `order[i]`. The output is the same for either, so it does not show this; the weights of "
            "each head do.",
            hint="For the order [2, 0, 1]: which old head is new head 0?",
        )
    },
    blocks={
        "every n_heads-th feature": Wrong(
            "A head is taken to be every n_heads-th feature. Here its features are neighbours, a block of d_head: "
            "reshape to (n_heads, d_head), not to (d_head, n_heads). What you move are pieces of several heads.",
            hint="With two heads and d_model = 6, which three columns of W_q belong to head 0?",
        ),
        "single features": Wrong(
            "`order` is used for features, but it counts heads: each head has d_head features, which move together. "
            "Only heads of one feature come out right; otherwise all but n_heads features are lost.",
            seen_in="VainF/Torch-Pruning#196",
            hint="With three heads of two features: which features does the order [2, 0, 1] of heads put first?",
        ),
    },
)
def _(W_q, W_k, W_v, W_o, order, *, output="rows", projections="columns", direction="order", blocks="blocks"):
    order = np.argsort(order) if direction == "inverse" else order
    there, back = (_features(one, len(W_o), blocks) for one in (order, np.argsort(order)))
    side = projections if projections in ("rows", "rows and columns") else "columns"
    left = _LEFT.get(projections, ())
    named = {"W_q": W_q, "W_k": W_k, "W_v": W_v}
    new = [W if name in left else _moved(W, there, side) for name, W in named.items()]
    return np.stack([*new, _moved(W_o, back, "rows") if output == "inverse" else _moved(W_o, there, output)])


def _features(order, d_model, blocks):
    """The old feature at each new place."""
    if blocks == "single features":
        return order
    if blocks == "every n_heads-th feature":
        return np.arange(d_model).reshape(-1, len(order))[:, order].ravel()
    return np.arange(d_model).reshape(len(order), -1)[order].ravel()


def _moved(W, features, side):
    W = W[features] if side in ("rows", "rows and columns") else W
    return W[:, features] if side in ("columns", "rows and columns") else W


def _one_block_after_the_other(W_q, W_k, W_v, W_o, order):
    d_head = len(W_o) // len(order)
    for i, head in enumerate(order):
        new, old = (slice(h * d_head, (h + 1) * d_head) for h in (i, head))
        for W in (W_q, W_k, W_v):
            W[:, new] = W[:, old]
        W_o[new] = W_o[old]
    return np.stack([W_q, W_k, W_v, W_o])


_LOST = (
    "Blocks are read after they have been overwritten: you write into the array that you read from, so a head is lost "
    "and another one is there twice. Read from the old matrix, write into a new one."
)


@permute_heads.mistake(
    "read after writing", _LOST, hint="The order is [1, 2, 0]. When block 2 is written, what stands in block 0?"
)
def _(W_q, W_k, W_v, W_o, order):
    return _one_block_after_the_other(W_q.copy(), W_k.copy(), W_v.copy(), W_o.copy(), order)


@permute_heads.mistake(
    "read after writing, into the inputs",
    _LOST + " Here the old matrix is an argument, which must not be changed either.",
    hint="The order is [1, 2, 0]. When block 2 is written, what stands in block 0?",
)
def _(W_q, W_k, W_v, W_o, order):
    return _one_block_after_the_other(W_q, W_k, W_v, W_o, order)


@permute_heads.mistake(
    "unchanged",
    "You returned the layer as it was: the output is the same, and so is the order of the heads.",
    hint="Which old head should new head 0 be, and which is it?",
)
def _(W_q, W_k, W_v, W_o, order):
    return np.stack([W_q, W_k, W_v, W_o])


@permute_heads.mistake("inputs overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(W_q, W_k, W_v, W_o, order):
    new = permute_heads.reference(W_q, W_k, W_v, W_o, order)
    for W, one in zip((W_q, W_k, W_v, W_o), new, strict=True):
        W[:] = one
    return new


@permute_heads.variant
def block_by_block(W_q, W_k, W_v, W_o, order):
    d_head = W_o.shape[0] // len(order)
    new = np.zeros((4, *W_o.shape))
    for i, head in enumerate(order):
        for j in range(d_head):
            here, there = i * d_head + j, head * d_head + j
            for W, one in zip((W_q, W_k, W_v), new, strict=False):
                one[:, here] = W[:, there]
            new[3, here] = W_o[there]
    return new


@permute_heads.variant
def by_reshape(W_q, W_k, W_v, W_o, order):
    d_model, n_heads = len(W_o), len(order)
    three = np.stack([W_q, W_k, W_v]).reshape(3, d_model, n_heads, -1)[:, :, order].reshape(3, d_model, d_model)
    last = W_o.reshape(n_heads, -1, d_model)[order].reshape(d_model, d_model)
    return np.concatenate([three, last[None]])


@permute_heads.variant
def by_a_permutation_matrix(W_q, W_k, W_v, W_o, order):
    P = np.kron(np.eye(len(order))[order], np.eye(len(W_o) // len(order)))  # P @ a: the features of a in the new order
    return np.array([W_q @ P.T, W_k @ P.T, W_v @ P.T, P @ W_o])


@permute_heads.variant
def cut_and_joined(W_q, W_k, W_v, W_o, order):
    def columns(W):
        blocks = np.split(W, len(order), axis=1)
        return np.concatenate([blocks[head] for head in order], axis=1)

    return np.stack([columns(W_q), columns(W_k), columns(W_v), columns(W_o.T).T])
