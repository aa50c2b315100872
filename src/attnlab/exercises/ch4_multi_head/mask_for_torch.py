"""Exercise 4.5: mask_for_torch, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "4.5",
    points=2,
    section="The layer, and PyTorch's",
    statement=(
        "A batch has one mask a sample, `allowed` (B, n_q, n_k), in this course's convention: True = may attend.\n"
        "Write it as the `attn_mask` of torch's `nn.MultiheadAttention`: bool, True = **forbidden**, one matrix\n"
        "for each head of each sample. All heads of sample 0 come first, then all heads of sample 1, and so on. In\n"
        "the text masks were tensors; here they are NumPy arrays, where both ways to copy have other names.\n"
        "For two heads, two samples of one query and two keys, [[1, 1]] and [[1, 0]], become [[0, 0]], [[0, 0]],\n"
        "[[0, 1]], [[0, 1]], as truth values: an array of shape (4, 1, 2)."
    ),
    hints=[
        "Two steps, in either order: say what is forbidden, and copy each sample's matrix once for every head.",
        "Which copies are neighbours in the result, those of one sample or those of one head? In NumPy `np.repeat` and "
        "`np.tile` differ in that, in torch `repeat_interleave` and `repeat`.",
    ],
)
def mask_for_torch(allowed, n_heads):
    """The masks of a batch, as torch's nn.MultiheadAttention takes them.

    allowed (B, n_q, n_k) of bool, True = may attend; n_heads is an integer
    → (B · n_heads, n_q, n_k) of bool, True = forbidden; sample 0's heads
    first, then sample 1's
    """
    return ~np.repeat(allowed, n_heads, axis=0)


@mask_for_torch.probes
def _(rng):
    # (B, n_heads, n_q, n_k). As many samples as heads, three times: there no shape shows which of the two comes first.
    # Samples allow different numbers of pairs, so that none is mistaken for another. Two batches allow everything: only
    # there is a mask of 0 and −∞ finite, and what is not finite is no evidence.
    sizes = [(2, 2, 2, 3), (3, 2, 3, 4), (2, 3, 4, 2), (3, 3, 3, 3), (2, 2, 4, 4)]
    cases = [(_masks(rng, *size), n_heads) for n_heads, size in [(h, (b, q, k)) for b, h, q, k in sizes]]
    return [*cases, (np.ones((2, 3, 4), dtype=bool), 2), (np.ones((3, 4, 2), dtype=bool), 3)]


def _masks(rng, n_samples, n_q, n_k):
    allowed = np.zeros((n_samples, n_q * n_k), dtype=bool)
    for sample, count in enumerate(rng.permutation(n_samples) + n_q * n_k // 2):
        allowed[sample, rng.permutation(n_q * n_k)[:count]] = True
    return allowed.reshape(n_samples, n_q, n_k)


@mask_for_torch.hard_probes
def _():
    causal = np.tri(3, dtype=bool)
    padded = causal & np.array([[[True, True, True]], [[True, True, False]]])
    return {
        "one head": Probe((padded, 1), "With one head nothing is copied; the meaning is still turned round."),
        "one sample": Probe(
            (causal[None], 3), "One sample is a batch of one: the result has one matrix a head, (n_heads, n_q, n_k)."
        ),
        "one query": Probe(
            (padded[:, 1:2], 2), "With one query each matrix is still a table, (1, n_k): the result has three axes."
        ),
        "an empty row": Probe(
            (padded & np.array([False, True, True]), 2),
            "A row that allows nothing forbids everything: it becomes a row of True, in each of the copies.",
        ),
        "all allowed": Probe((np.ones((2, 2, 3), dtype=bool), 2), "Where all is allowed nothing is forbidden."),
    }


_SCRAMBLED = (
    "The shape is right, but each matrix is filled with pieces of others. A reshape only cuts a row of numbers anew: "
    "the new axis of heads must stand beside that of the samples *before* it, (B, n_heads, n_q, n_k). "
)


@mask_for_torch.choice_points(
    copies={
        "whole batch": Wrong(
            "The batch is copied as a whole: [M0, M1, M0, M1]. The layer counts the heads of a sample first, so that "
            "head 1 of sample 0 now uses the mask of sample 1. The shape is the same, and for one sample so is the "
            "result, hence nothing complains.",
            seen_in="line/lighthouse#77",
            hint="For two samples and two heads, whose mask should stand at index 1 of the result?",
        ),
        "none": Wrong(
            "There is one matrix a sample, and none for each head: (B, n_q, n_k). Where B times n_heads is expected, "
            "torch says so with an error.",
            seen_in="pytorch/pytorch#64706",
            hint="How many matrices does the result have for two samples and three heads?",
        ),
        "four axes": Wrong(
            "The result has an axis of samples and one of heads, (B, n_heads, n_q, n_k). That is what torch's "
            "`scaled_dot_product_attention` takes; this layer wants the two as one axis.",
            hint="How many axes does the docstring name?",
        ),
        "four axes, heads first": Wrong(
            "The result has four axes, with the heads before the samples: (n_heads, B, n_q, n_k). This layer wants "
            "them as one axis, and samples count before heads.",
            hint="How many axes does the docstring name, and which of B and n_heads comes first?",
        ),
        "heads last": Wrong(
            "The axis of heads stands last: (B, n_q, n_k, n_heads). It belongs beside that of the samples, and becomes "
            "one axis with it.",
            hint="Of which shape is your result, and which is asked for?",
        ),
        "entries": Wrong(
            _SCRAMBLED + "Here every single *entry* was copied, as `np.repeat` does without an axis.",
            hint="Print the result for one sample and two heads. Are its two matrices equal?",
        ),
        "rows": Wrong(
            _SCRAMBLED + "Here every *row* was copied, as `np.repeat` does along the axis of the queries.",
            hint="Print the result for one sample and two heads. Are its two matrices equal?",
        ),
        "sample 0": Wrong(
            "Every matrix of the result is that of sample 0; the other samples' masks are lost.",
            hint="Does the second sample's mask occur in your result?",
        ),
    },
    polarity={
        "not turned": Wrong(
            "Every entry means the opposite. In this course True = may attend; in `nn.MultiheadAttention` True = "
            "forbidden. Unturned, each query attends to exactly what it must not see.",
            seen_in="pytorch/pytorch#170404",
            hint="A pair is allowed. What should stand in its place in the result?",
        )
    },
    kind={
        "numbers": Wrong(
            "These are numbers; truth values are asked for. The difference counts: `nn.MultiheadAttention` *adds* a "
            "mask of floating numbers to the scores, and adding 1 or 0 forbids nothing.",
            seen_in="pytorch/pytorch#21518",
            hint="Of which dtype is `1 - allowed`, and of which `~allowed`?",
        ),
        "0 and −∞": Wrong(
            "This is a mask to be *added* to the scores: 0 where a pair is allowed, −∞ where it is forbidden. "
            "`nn.MultiheadAttention` takes that form too; asked for is the one in truth values, True = forbidden.",
            hint="Which dtype does the docstring name?",
        ),
    },
)
def _(allowed, n_heads, *, copies="each sample", polarity="forbidden", kind="bool"):
    n_samples, n_q, n_k = allowed.shape
    copied = {
        "whole batch": lambda: np.tile(allowed, (n_heads, 1, 1)),
        "none": lambda: allowed,
        "four axes": lambda: np.repeat(allowed[:, None], n_heads, axis=1),
        "four axes, heads first": lambda: np.repeat(allowed[None], n_heads, axis=0),
        "heads last": lambda: np.repeat(allowed[..., None], n_heads, axis=-1),
        "entries": lambda: np.repeat(allowed, n_heads).reshape(n_samples * n_heads, n_q, n_k),
        "rows": lambda: np.repeat(allowed, n_heads, axis=1).reshape(n_samples * n_heads, n_q, n_k),
        "sample 0": lambda: np.repeat(allowed[:1], n_samples * n_heads, axis=0),
    }.get(copies, lambda: np.repeat(allowed, n_heads, axis=0))()
    mask = copied if polarity == "not turned" else ~copied
    return {"numbers": mask.astype(float), "0 and −∞": np.where(mask, -np.inf, 0.0)}.get(kind, mask)


@mask_for_torch.mistake(
    "bits turned",
    "`~` met integers and turned their bits round: 1 becomes −2 and 0 becomes −1, which both count as true, so that "
    "everything is forbidden. Turn the boolean mask, before any conversion.",
    seen_in="pytorch/pytorch#24180",
    hint="What is `~1` in Python?",
)
def _(allowed, n_heads):
    return ~np.repeat(allowed, n_heads, axis=0).astype(int)


@mask_for_torch.mistake(
    "queries and keys exchanged",
    "Rows and columns of each matrix have changed places. Rows stay queries, columns stay keys; only the meaning of "
    "True changes, and the number of copies.",
    hint="Which axes does `.T` turn round in an array with three axes?",
)
def _(allowed, n_heads):
    return ~np.repeat(allowed.swapaxes(1, 2), n_heads, axis=0)


@mask_for_torch.variant
def with_loops(allowed, n_heads):
    mask = np.zeros((len(allowed) * n_heads, *allowed.shape[1:]), dtype=bool)
    for sample, one in enumerate(allowed):
        for head in range(n_heads):
            mask[sample * n_heads + head] = np.logical_not(one)
    return mask


@mask_for_torch.variant
def an_axis_of_heads_then_one_axis(allowed, n_heads):
    n_samples, n_q, n_k = allowed.shape
    each_head = np.broadcast_to(allowed[:, None], (n_samples, n_heads, n_q, n_k))
    return each_head.reshape(-1, n_q, n_k) == 0


@mask_for_torch.variant
def rows_of_copies(allowed, n_heads):  # whole matrices side by side along the queries: [M0, M0], cut again into two
    n_samples, n_q, n_k = allowed.shape
    return ~np.tile(allowed, (1, n_heads, 1)).reshape(n_samples * n_heads, n_q, n_k)


@mask_for_torch.variant
def by_index(allowed, n_heads):
    return ~allowed[np.arange(len(allowed) * n_heads) // n_heads]
