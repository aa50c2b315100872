"""Exercise 3.1: attention_in_matrix_form, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import HUGE, IN_PLACE, INTEGERS, LIKE_INPUT, NOT_NORMALISED, OVERFLOW, SCALE, scaled
from ..engine import Probe, Wrong, exercise


@exercise(
    "3.1",
    points=2,
    section="All queries at once",
    statement=(
        "Attention for all queries at once, without a mask and without a loop: O = A V with\n"
        "A = softmax(Q Kᵀ / √d_k). You may use `softmax`, and nothing else of `attnlab`. The inputs may be whole\n"
        "numbers, and scores may go beyond 1000. With the queries [0] and [1], the keys [0] and [ln 3] and the values\n"
        "[4] and [8] the output is [[6], [7]]."
    ),
    hints=[
        "`queries @ keys.T` is the table of all dot products: one row a query, one column a key. Divide it by √d_k.",
        "Softmax runs along each row, the last axis, which is the default of `softmax`. Then `weights @ values`.",
    ],
)
def attention_in_matrix_form(queries, keys, values):
    """Attention for all queries at once.

    queries (n_q, d_k), keys (n_k, d_k), values (n_k, d_v)
    → output (n_q, d_v)
    """
    scores = queries @ keys.T / keys.shape[-1] ** 0.5  # (n_q, n_k)
    weights = softmax(scores)  # each row sums to 1
    return weights @ values


@attention_in_matrix_form.probes
def _(rng):
    # (n_q, n_k, d_k, d_v). Square twice: there a wrong axis or a wrong transpose raises no error. The smallest is
    # one of these, since the card shows the smallest that differs. Where n_q and n_k alone are equal, a wrong transpose
    # raises no error either, and the root of a wrong size shows.
    sizes = [(4, 5, 6, 7), (4, 4, 4, 6), (3, 3, 3, 2), (3, 3, 2, 5), (6, 3, 2, 5)]
    cases = [tuple(rng.normal(size=s) for s in [(q, d), (k, d), (k, v)]) for q, k, d, v in sizes]
    cases = [(1.5 * queries, keys, values) for queries, keys, values in cases]
    return [*cases[:4], tuple(a.astype(np.float32) for a in cases[4])]


@attention_in_matrix_form.hard_probes
def _():
    eye, values = np.eye(2), np.array([[2.0, 0.0, 1.0], [0.0, 4.0, 1.0]])
    return {
        "huge scores": Probe((np.array([[1500.0, 1501.0], [0.0, 1.0], [-1500.0, 0.0]]), eye, values), HUGE),
        "integers": Probe(
            (np.array([[1, 0], [0, 2], [1, 1]]), eye.astype(int), np.array([[2, 0], [0, 4]])), INTEGERS, True
        ),
        "a single query": Probe(
            (np.array([[1.0, 2.0]]), eye, values), "With one query the output is still a table, of shape (1, d_v)."
        ),
        "a single pair": Probe(
            (np.array([[1.0, 2.0], [0.0, 1.0]]), eye[:1], values[:1]),
            "With one pair every query's output is its value, whatever the score.",
        ),
        "values of one component": Probe(
            (np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0]]), eye, values[:, :1]),
            "With d_v = 1 the output is still a table, of shape (n_q, 1).",
        ),
    }


@attention_in_matrix_form.choice_points(
    shift={"none": OVERFLOW},
    normalise={
        "not": NOT_NORMALISED,
        "scaled after": Wrong(
            "The weights are divided by √d_k after softmax, so they no longer sum to 1. It is the scores that are "
            "divided, before.",
            hint="What does a row of your weights sum to?",
        ),
    },
    mix={
        "queries": Wrong(
            "The weights mix the *queries*. Queries ask; what is mixed is the values.", hint="Has `values` been used?"
        )
    },
    scale={"by 2 d": SCALE["by 2 d"]},
    storage={"like values": LIKE_INPUT},
    inputs={"overwritten": IN_PLACE},
)
@attention_in_matrix_form.choice_points(
    scale={
        **{name: SCALE[name] for name in ("none", "times", "by d", "by n")},
        "by n_q": Wrong(
            "The scores are divided by √n_q, the number of queries; d_k is the number of components of one query.",
            hint="Which axis of `queries` counts components?",
        ),
        "by d_v": Wrong(
            "The scale is taken from the values' size d_v. Scores compare queries and keys: √d_k belongs there.",
            seen_in="juho-lee/set_transformer#18",
            hint="Do the values take part in the scores?",
        ),
    },
    axis={
        "queries": Wrong(
            "Softmax runs along the queries: each *column* sums to 1, and the queries compete for the keys. Each query "
            "shares its own weight out among the keys, so that each row sums to 1.",
            seen_in="nerminnuraydogan/vision-transformer#1",
            hint="Print `weights.sum(axis=-1)`. Should every entry be 1?",
        ),
        "all": Wrong(
            "Softmax runs over the whole table, so that all rows together sum to 1 instead of each row.",
            hint="How much weight has one query to share out?",
        ),
        "keepdims forgotten": Wrong(
            "The sums have lost their axis. Where n_q is n_k, NumPy still divides, but by the sum of the *wrong row*: "
            "add `keepdims=True`.",
            hint="Which shapes do the exponentials and their sum have, and how does NumPy line them up?",
        ),
    },
    mix={
        "keys": Wrong(
            "The weights mix the *keys*. Keys are for comparing; what is mixed is the values.",
            hint="How many components should an output have, d_k or d_v?",
        ),
        "weights only": Wrong(
            "These are the weights. One step is missing: let them mix the values.", hint="Has `values` been used?"
        ),
        "transposed": Wrong(
            "The table of weights is transposed before it mixes the values. Row i holds the weights of query i. Where "
            "n_q is n_k, nothing complains: the matrix of weights is not symmetric, it only has the right shape.",
            seen_in="heykeetae/Self-Attention-GAN#11",
            hint="Do the numbers that multiply the values for one query sum to 1?",
        ),
        "scores": Wrong(
            "The raw scores mix the values; softmax is missing, so the shares are no shares.",
            hint="What do the numbers that multiply the values sum to?",
        ),
    },
)
def _(
    queries,
    keys,
    values,
    *,
    scale="root",
    axis="keys",
    mix="values",
    shift="max",
    normalise="rows",
    storage="floating",
    inputs="kept",
):
    product = queries @ keys.T
    root_of = {"by d_v": values.shape[-1], "by n_q": len(queries)}
    scores = product / np.sqrt(root_of[scale]) if scale in root_of else scaled(product, queries, keys, scale)
    if normalise == "scaled after":
        scores = product
    if shift == "none" or normalise == "not":
        exps = np.exp(scores)
        weights = exps if normalise == "not" else exps / exps.sum(axis=-1, keepdims=True)
    elif axis == "all":
        weights = softmax(scores.ravel()).reshape(scores.shape)
    elif axis == "keepdims forgotten":
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = exps / exps.sum(axis=-1)
    else:
        weights = softmax(scores, axis=0 if axis == "queries" else -1)
    if normalise == "scaled after":
        weights = weights / np.sqrt(keys.shape[-1])
    if inputs == "overwritten":
        queries /= np.sqrt(queries.shape[-1])
    if mix == "weights only":
        return weights
    weights = scores if mix == "scores" else weights.T if mix == "transposed" else weights
    output = weights @ {"keys": keys, "queries": queries}.get(mix, values)
    return output.astype(values.dtype) if storage == "like values" else output


@attention_in_matrix_form.mistake(
    "softmax last",
    "The raw scores mix the values, and softmax comes last, over the output's components. It belongs one step earlier: "
    "it makes weights of the scores, one for each key.",
    hint="Along which axis should the shares sum to 1, keys or components?",
)
def _(queries, keys, values):
    return softmax(queries @ keys.T / np.sqrt(keys.shape[-1]) @ values)


@attention_in_matrix_form.mistake(
    "roles exchanged",
    "Queries and keys have changed places: row i of your table belongs to key i. Where n_q is n_k, nothing complains. "
    "The table is `queries @ keys.T`, one row a query.",
    hint="Should the table of scores have n_q rows or n_k rows?",
)
def _(queries, keys, values):
    return softmax(keys @ queries.T / np.sqrt(keys.shape[-1])) @ values


@attention_in_matrix_form.mistake(
    "components compared",
    "`queries.T @ keys` compares components with components: a table (d_k, d_k), which sums over the positions. "
    "Transpose the keys, not the queries.",
    hint="Which axis should disappear in a dot product of a query with a key?",
)
def _(queries, keys, values):
    return softmax(queries.T @ keys / np.sqrt(keys.shape[-1])) @ values


@attention_in_matrix_form.mistake(
    "keys not transposed",
    "`queries @ keys` lets the components of a query meet the *positions* of the keys. Where n_k is d_k, nothing "
    "complains. Transpose the keys.",
    hint="Which shapes do both factors have, and which two axes meet?",
)
def _(queries, keys, values):
    return softmax(queries @ keys / np.sqrt(keys.shape[-1])) @ values


@attention_in_matrix_form.variant
def queries_scaled_first(queries, keys, values):
    return softmax((queries / np.sqrt(queries.shape[1])) @ keys.T) @ values


@attention_in_matrix_form.variant
def query_by_query(queries, keys, values):
    return np.stack([softmax(keys @ query / len(query) ** 0.5) @ values for query in queries])


@attention_in_matrix_form.variant
def with_einsum(queries, keys, values):
    scores = np.einsum("qd,kd->qk", queries, keys) * keys.shape[-1] ** -0.5
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("qk,kv->qv", exps, values) / exps.sum(axis=-1)[:, None]


@attention_in_matrix_form.variant
def keys_first(queries, keys, values):
    return softmax(keys @ queries.T / np.sqrt(keys.shape[-1]), axis=0).T @ values
