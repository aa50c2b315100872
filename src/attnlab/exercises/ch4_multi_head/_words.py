"""Words that several exercises of chapter 4 share: where tokens become heads, by what scores are divided."""

import numpy as np

from ..engine import Wrong

SCALE = {
    "none": Wrong(
        "The scores are not divided by √d_head, so they spread too far and the weights are too sharp.",
        seen_in="mlc-ai/mlc-llm#3426",
        hint="What stands below the fraction bar in the formula for a score?",
    ),
    "by the whole width": Wrong(
        "The scores are divided by the root of d_model, the tokens' width before they are projected. A score adds "
        "d_head products, so it spreads like √d_head: with the larger root the weights are too flat.",
        seen_in="lucidrains/vit-pytorch#65",
        hint="How many products are added up in one score?",
    ),
    "by d_head": Wrong(
        "The scores are divided by d_head instead of √d_head, so the weights are too flat.",
        hint="Is there a root in the formula for a score?",
    ),
}
RESHAPE = (
    "The array is reshaped straight away. A reshape keeps the order in which the numbers are read, row after row, "
    "whatever the axes mean, and a fitting shape does not show it."
)
INTERLEAVED_HINT = "Which features should stand side by side in head 0: 0 and 1, or 0 and n_heads?"
W_TRANSPOSED = (
    "multiplied as its transpose. `nn.Linear` stores its weight that way round, and computes x @ weight.T; here it is "
    "x @ W. A square matrix fits both ways, and nothing complains."
)


def divisor(scale, d, d_head):
    """What the scores are divided by, after one wrong turn or none."""
    return {"none": 1.0, "by the whole width": d**0.5, "by d_head": d_head}.get(scale, d_head**0.5)


def normalised(scores, axis=-1, shift="max"):
    """Softmax along any axes, without the checks of attnlab's: twins are run very often."""
    exps = np.exp(scores - scores.max(axis=axis, keepdims=True) if shift == "max" else scores)
    return exps / exps.sum(axis=axis, keepdims=True)


def numbered(rng, *shape):
    """Distinct whole numbers in order, so that the card shows where each went; they begin anywhere."""
    start = int(rng.integers(1, 50))
    return np.arange(start, start + np.prod(shape), dtype=float).reshape(shape)
