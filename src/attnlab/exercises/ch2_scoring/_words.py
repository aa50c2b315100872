"""Wrong turns that several scores share, and what their twins do."""

import numpy as np

from ..engine import Wrong

PAIRS = {
    "matching only": Wrong(
        "Query i meets key i only, so there is one score for each query. When there are as many queries as keys no "
        "error says so. Every query meets every key: the result is a table with a row for each query.",
        hint="How many scores do 3 queries and 4 keys have?",
    ),
    "keys first": Wrong(
        "The table lies on its side: it has a row for each key. Each row belongs to a query, each column to a key.",
        hint="Where should the score of query 0 and key 2 stand: at [0, 2] or at [2, 0]?",
    ),
}
WEIGHTS_ALREADY = Wrong(
    "These are the weights already. The scores are asked for: leave softmax to the next step.",
    hint="Do scores have to sum to one?",
)
ONE_QUERY = "With one query the answer is still a table, with one row."
ONE_OF_EACH = "With one query and one key the answer is still a table, of shape (1, 1)."


def paired(grid, pairs):
    """What a wrong arrangement leaves of the first two axes, (n_q, n_k), of a grid of pairs.

    Without an axis of their own for queries and keys, NumPy lines them up: it fails for different numbers, unless one
    of them is 1.
    """
    n_q, n_k = grid.shape[:2]
    if pairs == "keys first":
        return np.swapaxes(grid, 0, 1)
    if pairs != "matching only":
        return grid
    if n_q != n_k and 1 not in (n_q, n_k):
        raise ValueError(f"operands could not be broadcast together with {n_q} queries and {n_k} keys")
    each = np.arange(max(n_q, n_k))
    return grid[each % n_q, each % n_k]
