"""Invariants: tests that any attention must pass, whoever wrote it.

Each test takes a function, asks it several times, and returns a `Report`: whether the invariant holds, by how much an
output changed, and where.  Print it, or `assert` it: a report is true where the invariant holds.  `check_all` makes a
table of them.

    attention(query, key, value, mask) → output (B, H, n_q, d_v), or a tuple whose first item is the output

query (B, H, n_q, d_k), key (B, H, n_k, d_k), value (B, H, n_k, d_v); mask boolean, True = may attend, broadcasting to
(B, H, n_q, n_k).  The rest is a matter of a lambda: `lambda q, k, v, mask: mine(q, k, v, ~mask)` for another
convention, `lambda q, k, v, mask: my_causal(q, k, v)` for an attention that is causal by itself.

With a `width`, the function is a whole layer instead, layer(x, mask) → (B, n, width) for x (B, n, width).  There, the
same promise also needs that nothing mixes the tokens before the attention sees them.

Inputs are drawn anew for each `seed`, with standard deviation 1, so that a change of 1 is as large as a value.  Their
library, device and dtype are those of the array `like`; without it they are NumPy's float32, since some faults hide in
float64.  `tolerance` replaces what rounding may change in one attention of that dtype; deep layers may need more.

Exceptions of the function pass through (`check_all` makes a row of each).  Dropout must be off.
"""

from collections.abc import Callable, Iterable

import numpy as np

from attnlab._inputs import Array
from attnlab.invariants._asking import Asked
from attnlab.invariants._poison import poison_forbidden, poison_future, poison_padding
from attnlab.invariants._reports import Report, Table, raised
from attnlab.invariants._rewriting import (
    batch_independence,
    content_sensitivity,
    duplicate_keys,
    incremental_equals_full,
    permute_keys,
    shift_scores,
)

__all__ = [
    "Report",
    "Table",
    "batch_independence",
    "check_all",
    "content_sensitivity",
    "duplicate_keys",
    "incremental_equals_full",
    "permute_keys",
    "poison_forbidden",
    "poison_future",
    "poison_padding",
    "shift_scores",
]

_OF_LAYERS = [poison_future, poison_padding, batch_independence, incremental_equals_full]
_OF_ATTENTION = [
    poison_future,
    poison_padding,
    permute_keys,
    duplicate_keys,
    shift_scores,
    content_sensitivity,
    batch_independence,
    incremental_equals_full,
]


def check_all(
    attention: Callable,
    *,
    leave_out: Iterable[str] = (),
    width: int | None = None,
    like: Array | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> Table:
    """All invariants, one after the other; with a width, those that a layer can be asked for.

    leave_out names the ones that an attention does not promise:

    "permute_keys", "duplicate_keys"                              where it is causal by itself, and ignores the mask
    "poison_future", "poison_padding", "incremental_equals_full"  where it has no mask at all
    "shift_scores"                                                where its score is not linear in the key

    A function that raises an exception breaks the invariant: its row says which one.  Raises ValueError for other
    names.
    """
    tests = {test.__name__: test for test in (_OF_ATTENTION if width is None else _OF_LAYERS)}
    leave_out = [leave_out] if isinstance(leave_out, str) else list(leave_out)
    unknown = [name for name in leave_out if name not in tests]
    if unknown:
        raise ValueError(f"leave_out takes names from {', '.join(tests)}, but it holds {unknown[0]!r}.")
    asked = Asked(attention, like, width)
    asked.tolerance(tolerance, asked.draw(np.random.default_rng(seed)))  # what is wrong here is no fault of attention
    settings = {"like": like, "seed": seed, "tolerance": tolerance} | ({} if width is None else {"width": width})
    reports = []
    for name, test in tests.items():
        if name in leave_out:
            continue
        try:
            reports.append(test(attention, **settings))
        except Exception as error:
            reports.append(raised(name, error))
    return Table(reports)
