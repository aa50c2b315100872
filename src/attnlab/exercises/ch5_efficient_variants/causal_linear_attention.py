"""Exercise 5.10: causal_linear_attention, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "5.10",
    points=3,
    section="Linear attention",
    statement=(
        "Causal linear attention, from features: queries and keys have been through a feature map already, and all\n"
        "their numbers are positive. The weight of key j for query i, if j ≤ i, is φ(q_i)·φ(k_j), divided by the sum\n"
        "of these products over the keys up to i; there is no exponential. The output is the mean of the values under\n"
        "these weights. The text's `running` does this with two sums that go from token to token: write it from\n"
        "memory, without the feature map. A table of n × n numbers is not needed, but allowed. The sum below the\n"
        "fraction bar is never 0: add nothing to it. With the query features [1, 1], [1, 2], the key features [1, 0],\n"
        "[0, 1] and the values [10], [20] the output is [10], [16.6667]."
    ),
    hints=[
        "Σ_j (q·k_j) v_j is q·(Σ_j k_j v_jᵀ): the bracket does not depend on the query. What is the bracket's shape, "
        "and how does it change when one more token comes?",
        "`np.cumsum(a, axis=0)` adds up along the tokens. `np.einsum('nr,nv->nrv', K, V)` holds an outer product for "
        "each token.",
        "Two sums are carried: S, the outer products of keys and values (r, d_v), and z, the keys (r,). The output is "
        "q·S, divided by the *number* q·z. If your first output is not a number, it is 0/0: what must be added to S "
        "and z before the first query reads them?",
    ],
)
def causal_linear_attention(query_features, key_features, values):
    """Linear attention in which no token sees a later one.

    query_features (n, r), key_features (n, r), values (n, d_v)
    → output (n, d_v)
    """
    S = np.zeros((key_features.shape[1], values.shape[1]))  # (r, d_v)
    z = np.zeros(key_features.shape[1])
    output = []
    for i in range(len(values)):
        S = S + np.outer(key_features[i], values[i])
        z = z + key_features[i]
        output.append(query_features[i] @ S / (query_features[i] @ z))
    return np.array(output)


@causal_linear_attention.probes
def _(rng):
    sizes = [(5, 3, 2), (4, 6, 3), (6, 2, 4), (4, 4, 4), (3, 5, 1)]  # n, r, d_v: tall, wide, all the same
    cases = [(_positive(rng, n, r), _positive(rng, n, r), rng.normal(size=(n, d_v))) for n, r, d_v in sizes]
    return [*cases[:4], tuple(a.astype(np.float32) for a in cases[4])]


def _positive(rng, *shape):
    x = rng.normal(size=shape)
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


@causal_linear_attention.hard_probes
def _():
    rng = np.random.default_rng(8)
    Q, K, V = _positive(rng, 4, 3), _positive(rng, 4, 3), rng.normal(size=(4, 2))
    whole = np.array([[1, 2], [3, 1], [1, 1]])
    last = V.copy()
    last[-1] = 1e200
    return {
        "one token": Probe((Q[:1], K[:1], V[:1]), "A single token sees only itself: the output is its value."),
        "small features": Probe(
            (1e-6 * Q, 1e-6 * K, V),
            "For small features the answer is wrong: what stands below the fraction bar is small, but not 0, and "
            "nothing may be added to it.",
        ),
        "large features": Probe(
            (1e3 * Q, K, V), "A common factor in all queries changes nothing: it cancels. Is there an exponential?"
        ),
        "a huge last value": Probe((Q, K, last), "The last value reaches tokens before it."),
        "integers": Probe((whole, whole[::-1].copy(), np.array([[10], [20], [3]])), INTEGERS, True, True),
    }


_COUNTED = "What stands below the fraction bar for query i is the number Σ_j φ(q_i)·φ(k_j), over the keys up to i."
_MORE = Wrong(
    "A little is added below the fraction bar (1e-6, say). These features are positive and their sum is never 0, so "
    "nothing needs it; and for small features it is not little.",
    hint="What is your output if all features are 0.0001?",
)


@causal_linear_attention.choice_points(
    normaliser={
        "none": Wrong(
            "Nothing is divided: the weights of a query do not sum to 1, and outputs grow with the number of tokens.",
            hint="What is the output when all values are 1?",
        ),
        "per feature": Wrong(
            "S is divided by z, feature by feature, before the query reads it. The query must read both, and one "
            "*number* be divided by another: q·S / q·z.",
            seen_in="lucidrains/performer-pytorch#21",
            hint="In the example, what do your weights of the second query, 1 and 2, sum to after the division?",
        ),
        "without the query": Wrong(
            "You divide by the sum of the keys' features. The query is missing there: its features weigh those of the "
            "keys, above the fraction bar and below.",
            hint="What is the output when all values are 1?",
        ),
        "all keys": Wrong(
            "The sum below the fraction bar runs over all keys, later ones too, though above it only earlier ones "
            "count. So the weights of the first tokens sum to less than 1, and what comes later is seen.",
            hint="Does your first output change when the last key does?",
        ),
        "own key": Wrong(
            f"You divide by φ(q_i)·φ(k_i), of the token itself. {_COUNTED}",
            hint="What is the output when all values are 1?",
        ),
        "number of keys": Wrong(
            "You divide by the number of keys so far: the products are averaged. The weights should sum to 1, so "
            "divide by the sum of the products.",
            hint="What is the output when all values are 1?",
        ),
        "times": Wrong(
            "The sum of the products multiplies. It should divide.",
            seen_in="lucidrains/performer-pytorch#40",
            hint="What is the output when all values are 1?",
        ),
        "along the features": Wrong(
            "z is summed along the features instead of the tokens: the wrong axis of `cumsum`.",
            seen_in="fla-org/flash-linear-attention#594",
            hint="Which axis of `key_features` counts tokens?",
        ),
        "1e-6 more": _MORE,
        "1e-8 more": _MORE,
    },
    sees={
        "all": Wrong(
            "Every token sees all others: this is linear attention without causality. The sums should grow from token "
            "to token, and each query read them when its own has been added.",
            hint="Does your first output change when the last value does?",
        ),
        "later ones": Wrong(
            "Each token sees itself and the *later* ones: the triangle, or the running sum, is turned round.",
            hint="Which value should the first output be?",
        ),
        "earlier ones": Wrong(
            "Each query reads the sums before its own key and value are added. A token sees itself as well: add first, "
            "then read.",
            hint="Which value should the first output be?",
        ),
    },
    weights={
        "softmax": Wrong(
            "The products go through an exponential: this is softmax over them. In linear attention the products "
            "themselves are the weights, which is what lets the sums be carried along.",
            hint="Can exp(q·k) be taken apart into a factor with q and one with k?",
        ),
        "mapped again": Wrong(
            "The features go through a feature map once more (elu + 1 adds 1 to a positive number). They come from one "
            "already.",
            hint="What are your weights in the example, where the features of the keys are 1 and 0?",
        ),
    },
)
def _(
    query_features,
    key_features,
    values,
    *,
    normaliser="products",
    sees="up to itself",
    weights="products",
):
    Q, K, n = query_features, key_features, len(values)
    if weights == "mapped again":
        Q, K = Q + 1, K + 1
    seen = {"all": np.ones((n, n)), "later ones": np.tri(n).T, "earlier ones": np.tri(n, k=-1)}.get(sees, np.tri(n))
    products = Q @ K.T
    if weights == "softmax":
        products = np.exp(products - products.max(axis=-1, keepdims=True))
    over = {"all keys": np.ones((n, n)), "own key": np.eye(n)}.get(normaliser, seen)
    z = over @ K
    below = {
        "number of keys": over.sum(axis=1),
        "without the query": z.sum(axis=1),
        "along the features": (Q * np.cumsum(K, axis=1)).sum(axis=1),
    }.get(normaliser, (over * products).sum(axis=1))
    if normaliser == "per feature":
        K_of_each = K[None] / np.where(z > 0, z, 1.0)[:, None]  # (n, n, r): key j as query i finds it
        products, below = np.einsum("ir,ijr->ij", Q, K_of_each), np.ones(n)
    if normaliser == "times":
        below = 1 / np.where(below == 0, 1.0, below)
    below = np.where(below == 0, 1.0, below)  # the first of "earlier ones" sees nothing
    below = below + {"1e-6 more": 1e-6, "1e-8 more": 1e-8}.get(normaliser, 0.0)
    if normaliser == "none":
        below = np.ones(n)
    return (seen * products) @ values / below[:, None]


@causal_linear_attention.mistake(
    "read before the first is added",
    "Each query reads the sums before its own key and value are added. The first one finds them empty, and 0/0 is not "
    "a number. A token sees itself as well: add first, then read.",
    hint="What do S and z hold when the first query reads them, and what should they hold?",
)
def _(query_features, key_features, values):
    earlier = np.tri(len(values), k=-1) * (query_features @ key_features.T)
    return earlier @ values / earlier.sum(axis=1, keepdims=True)


@causal_linear_attention.mistake(
    "roles exchanged",
    "Queries and keys have changed places: a token's *key* asks, and meets the queries of earlier tokens. The query of "
    "a token asks, and meets their keys.",
    hint="Would your first outputs change if a later query did, or a later key?",
)
def _(query_features, key_features, values):
    return causal_linear_attention.reference(key_features, query_features, values)


@causal_linear_attention.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(query_features, key_features, values):
    output = causal_linear_attention.reference(query_features, key_features, values)
    key_features[:] = np.cumsum(key_features, axis=0)
    return output


@causal_linear_attention.variant
def as_running_sums(query_features, key_features, values):
    S = np.cumsum(key_features[:, :, None] * values[:, None, :], axis=0)  # (n, r, d_v)
    z = np.cumsum(key_features, axis=0)
    numerator = np.einsum("nr,nrv->nv", query_features, S)
    return numerator / np.einsum("nr,nr->n", query_features, z)[:, None]


@causal_linear_attention.variant
def as_a_table(query_features, key_features, values):
    weights = np.tril(query_features @ key_features.T / np.sqrt(key_features.shape[1]))  # a common factor cancels
    return weights / weights.sum(axis=-1, keepdims=True) @ values


@causal_linear_attention.variant
def a_column_of_ones(query_features, key_features, values):
    """The normaliser as one more value, 1 for each token: its output is what divides the others."""
    V = np.hstack([values, np.ones((len(values), 1))])
    S, rows = 0.0, []
    for i in range(len(V)):
        S = S + key_features[i][:, None] * V[i]
        rows.append(query_features[i] @ S)
    both = np.stack(rows)
    return both[:, :-1] / both[:, -1:]


@causal_linear_attention.variant
def query_by_query(query_features, key_features, values):
    output = np.zeros(values.shape)
    for i, q in enumerate(query_features):
        total = 0.0
        for k, v in zip(key_features[: i + 1], values, strict=False):
            product = sum(a * b for a, b in zip(q, k, strict=True))
            output[i] += product * v
            total += product
        output[i] /= total
    return output
