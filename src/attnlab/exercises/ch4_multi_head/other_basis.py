"""Exercise 4.8: other_basis, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "4.8",
    points=3,
    section="A head can change while the output stays",
    statement=(
        "One head, with queries x @ W_q and keys x @ W_k. Let its queries be x @ (W_q M), with an invertible M\n"
        "(d_head, d_head), and change W_k so that **every score stays what it was**, (x W_q)(x W_k)ᵀ, for every x.\n"
        "The text says what W_k becomes. Do not look back: find it on paper, from the scores.\n"
        "Return the new W_q and the new W_k, in this order, as one array (2, d_model, d_head). With\n"
        "W_q = [[1, 2]], W_k = [[3, 1]] and M = [[2, 0], [0, 4]] they are [[2, 8]] and [[1.5, 0.25]]: the score of\n"
        "the token [1] with itself is 1·3 + 2·1 = 5 before, and 2·1.5 + 8·0.25 = 5 after. Most M are not diagonal."
    ),
    hints=[
        "Write the scores with the new matrices: x W_q M · (what becomes of W_kᵀ) · xᵀ. What has to stand after M, so "
        "that the two together are the identity?",
        "Then transpose: you know what becomes of W_kᵀ, and W_k is asked for. What is the transpose of a product?",
        "`np.linalg.inv(M)` is the inverse; `1 / M` and `M ** -1` take the inverse of each number instead.",
    ],
)
def other_basis(W_q, W_k, M):
    """The same head with its queries multiplied by M, and the same scores.

    W_q, W_k (d_model, d_head), M (d_head, d_head), invertible
    → the new W_q and W_k as one array (2, d_model, d_head)
    """
    # x W_q M (x new)ᵀ = x W_q (x W_k)ᵀ needs M newᵀ = W_kᵀ
    new_W_k = W_k @ np.linalg.inv(M).T
    return np.stack([W_q @ M, new_W_k])


@other_basis.probes
def _(rng):
    # (d_model, d_head). Square twice: there M may stand on the left, and no shape shows it.
    sizes = [(2, 2), (4, 2), (3, 3), (6, 3)]
    cases = [(*(rng.normal(size=s) for s in [(d, h), (d, h)]), _matrix(rng, h)) for d, h in sizes]
    single = (rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), _matrix(rng, 2))
    return [*cases, tuple(a.astype(np.float32) for a in single)]


def _matrix(rng, d):
    """Neither symmetric nor a rotation, for which several wrong answers are right; and far from not invertible."""
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    return left @ np.diag(np.linspace(0.5, 2.0, d)) @ right


@other_basis.hard_probes
def _():
    W_q, W_k = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 1.0], [-1.0, 4.0]])
    return {
        "a rotation": Probe(
            (W_q, W_k, np.array([[0.6, -0.8], [0.8, 0.6]])),
            "M is a rotation, whose inverse is its transpose: queries and keys turn together.",
        ),
        "a diagonal M": Probe(
            (W_q, W_k, np.diag([2.0, 0.25])), "M is diagonal: what it stretches in the queries shrinks in the keys."
        ),
        "features change places": Probe(
            (W_q, W_k, np.array([[0.0, 1.0], [1.0, 0.0]])),
            "M makes the features of the queries change places; those of the keys follow.",
        ),
        "nearly not invertible": Probe(
            (W_q, W_k, np.array([[1.0, 1.0], [1.0, 1.01]])),
            "The rows of M are nearly parallel. It is invertible all the same, and W_k takes large numbers.",
        ),
        "one feature": Probe((W_q[:, :1], W_k[:, :1], np.array([[-4.0]])), "With d_head = 1, M is a single number."),
        "integers": Probe((W_q.astype(int), W_k.astype(int), np.array([[2, 1], [1, 3]])), INTEGERS, True, True),
    }


_STILL_SAME = "The scores are what they were, but the head is not the one asked for: "


@other_basis.choice_points(
    keys={
        "unchanged": Wrong(
            "W_k is left as it was. With the new queries M then stays in the scores, x W_q M W_kᵀ xᵀ: something must "
            "undo it.",
            hint="For M = [[2]]: what happens to the scores if only the queries are doubled?",
        ),
        "like the queries": Wrong(
            "W_k is multiplied by M, as W_q is. Then M Mᵀ stands in the scores, which is the identity for a rotation "
            "or a reflection, and for nothing else.",
            seen_in="tljxyys/Perspective-Unet#2",
            hint="For M = [[2]]: what happens to the scores if queries and keys are doubled?",
        ),
        "inverse": Wrong(
            "W_k is multiplied by M⁻¹, and the transpose is missing. In the scores W_k is transposed, so that M M⁻ᵀ "
            "stands there; that is the identity only where M is symmetric.",
            hint="What is (W_k M⁻¹)ᵀ, as a product?",
        ),
        "transposed": Wrong(
            "W_k is multiplied by Mᵀ. In the scores W_k is transposed, so that M M stands there; that is the identity "
            "only where M undoes itself.",
            hint="What is (W_k Mᵀ)ᵀ, as a product?",
        ),
        "inverse of each number": Wrong(
            "`1 / M` and `M ** -1` are no inverse of the matrix: they invert each number for itself. "
            "`np.linalg.inv(M)` is the matrix that gives the identity when multiplied with M.",
            hint="Is `M @ (1 / M)` the identity?",
        ),
        "inverse of each number, not transposed": Wrong(
            "`1 / M` and `M ** -1` are no inverse of the matrix: they invert each number for itself. "
            "`np.linalg.inv(M)` is the matrix that gives the identity when multiplied with M. And the transpose is "
            "missing.",
            hint="Is `M @ (1 / M)` the identity?",
        ),
        "divided": Wrong(
            "`W_k / M` divides number by number, and gives numbers only where d_model is d_head or 1. What undoes "
            "a matrix is its inverse, `np.linalg.inv(M)`, in a product `@`.",
            hint="Which shapes have W_k and M, and what does `/` do with them?",
        ),
        "from the left": Wrong(
            "The inverse is multiplied from the left. There it meets the features of x, whose number is d_model: "
            "only where d_head is the same does this give numbers. The features of a key are the columns of W_k.",
            hint="Of which shapes are W_k and M, and which axis of W_k counts the features of a key?",
        ),
        "from the left, transposed": Wrong(
            "The inverse is transposed and multiplied from the left. There it meets the features of x, whose number is "
            "d_model: only where d_head is the same does this give numbers. The features of a key are the columns of "
            "W_k.",
            hint="Of which shapes are W_k and M, and which axis of W_k counts the features of a key?",
        ),
    },
    queries={
        "unchanged": Wrong(
            "W_q is left as it was. The new queries are x @ (W_q M).", hint="Is your first matrix W_q multiplied by M?"
        ),
        "transposed": Wrong(
            "W_q is multiplied by Mᵀ instead of M.", hint="Write W_q M for a W_q of one row. Which numbers of M meet?"
        ),
        "inverse": Wrong(
            "W_q is multiplied by the inverse of M instead of M.", hint="For M = [[2]]: should the queries be doubled?"
        ),
        "from the left": Wrong(
            "M is multiplied from the left: M @ W_q mixes the features of x. The new queries are x @ (W_q M), and only "
            "where d_model is d_head does the other product give numbers at all.",
            seen_in="spcl/QuaRot#62",
            hint="Of which shapes are W_q and M, and which axes meet in W_q @ M?",
        ),
    },
)
def _(W_q, W_k, M, *, queries="M", keys="inverse transposed"):
    inverse = np.linalg.inv(M)
    new_W_q = {
        "unchanged": lambda: W_q,
        "transposed": lambda: W_q @ M.T,
        "inverse": lambda: W_q @ inverse,
        "from the left": lambda: M @ W_q,
    }.get(queries, lambda: W_q @ M)()
    new_W_k = {
        "unchanged": lambda: W_k,
        "like the queries": lambda: W_k @ M,
        "inverse": lambda: W_k @ inverse,
        "transposed": lambda: W_k @ M.T,
        "inverse of each number": lambda: W_k @ (1 / M).T,
        "inverse of each number, not transposed": lambda: W_k @ (1 / M),
        "divided": lambda: W_k / M,
        "from the left": lambda: inverse @ W_k,
        "from the left, transposed": lambda: inverse.T @ W_k,
    }.get(keys, lambda: W_k @ inverse.T)()
    return np.stack([new_W_q, new_W_k])


@other_basis.mistake(
    "roles exchanged",
    _STILL_SAME + "M went to the keys, and what undoes it to the queries. The queries are to be multiplied by M.",
    hint="Is your first matrix W_q M?",
)
def _(W_q, W_k, M):
    return np.stack([W_q @ np.linalg.inv(M).T, W_k @ M])


@other_basis.mistake(
    "M transposed throughout",
    _STILL_SAME + "W_q is multiplied by Mᵀ, and W_k by what undoes that, M⁻¹. The queries are to be multiplied by M.",
    hint="Is your first matrix W_q M?",
)
def _(W_q, W_k, M):
    return np.stack([W_q @ M.T, W_k @ np.linalg.inv(M)])


@other_basis.mistake(
    "M inverted throughout",
    _STILL_SAME + "W_q is multiplied by M⁻¹, and W_k by what undoes that, Mᵀ. The queries are to be multiplied by M.",
    hint="Is your first matrix W_q M?",
)
def _(W_q, W_k, M):
    return np.stack([W_q @ np.linalg.inv(M), W_k @ M.T])


@other_basis.mistake(
    "unchanged",
    "You returned both matrices as they were: the scores are what they were, and so are the queries. They are to be "
    "multiplied by M, and the keys to undo that.",
    hint="Where does M come into your matrices?",
)
def _(W_q, W_k, M):
    return np.stack([W_q, W_k])


@other_basis.mistake(
    "keys first", "The two matrices have changed places: the new W_q comes first.", hint="Which one is W_q times M?"
)
def _(W_q, W_k, M):
    return other_basis.reference(W_q, W_k, M)[::-1]


@other_basis.mistake("inputs overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(W_q, W_k, M):
    new = other_basis.reference(W_q, W_k, M)
    W_q[:], W_k[:] = new
    return new


@other_basis.variant
def solved(W_q, W_k, M):
    return np.stack([W_q @ M, np.linalg.solve(M, W_k.T).T])


@other_basis.variant
def the_transpose_inverted(W_q, W_k, M):
    return np.array([W_q @ M, W_k @ np.linalg.inv(M.T)])


@other_basis.variant
def with_einsum(W_q, W_k, M):
    return np.stack([np.einsum("di,ij->dj", W_q, M), np.einsum("dj,ij->di", W_k, np.linalg.inv(M))])


@other_basis.variant
def row_by_row(W_q, W_k, M):
    new = np.zeros((2, *W_q.shape))
    for d in range(len(W_q)):
        new[0, d] = M.T @ W_q[d]
        new[1, d] = np.linalg.pinv(M) @ W_k[d]
    return new


@other_basis.variant
def in_single_precision(W_q, W_k, M):
    W_q, W_k, M = (a.astype(np.float32) for a in (W_q, W_k, M))
    return np.stack([W_q @ M, W_k @ np.linalg.inv(M).T])
