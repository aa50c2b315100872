"""Words that the exercises on tiles share: what must be brought to a common maximum, and what comes of it if not."""

from ..engine import Wrong

HALVED = "If a new score is larger by ln 2, what happens to every exponential that was summed before?"
RESCALE = {
    "total": Wrong(
        "ℓ still counts from the old maximum. When the maximum rises, all that was summed before shrinks by "
        "exp(m_old − m_new): ℓ as well as o, or the weights no longer sum to 1.",
        hint=HALVED,
    ),
    "mixed": Wrong(
        "o still counts from the old maximum. When the maximum rises, all that was summed before shrinks by "
        "exp(m_old − m_new): o as well as ℓ, or old values weigh too much.",
        hint=HALVED,
    ),
    "neither": Wrong(
        "ℓ and o still count from the old maximum. Exponentials that were shifted by different maxima cannot be added: "
        "when the maximum rises, both first shrink by exp(m_old − m_new). (If m is overwritten before that factor is "
        "made, it is exp(m − m), always 1.)",
        seen_in="paiml/aprender#2753",
        hint=HALVED,
    ),
}
TILE_S_OWN = Wrong(
    "The exponentials of a tile are shifted by that tile's own largest score, also where an earlier one was larger. "
    "Shift them by the maximum of *all* keys so far, or they weigh too much.",
    hint="If the largest score before was 5 and in this tile it is 1, what should exp give for that 1?",
)
ENTIRELY_MASKED = (
    "When the first tile allows nothing, the largest score so far is −∞, and −∞ − (−∞) is not a number. Nothing has "
    "been seen: m stays −∞, ℓ and o stay 0."
)
