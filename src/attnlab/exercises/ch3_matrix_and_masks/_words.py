"""Words that several exercises of chapter 3 share: of which kind a mask is, and which way round."""

from ..engine import Wrong

KIND = {
    "numbers": Wrong(
        "These are numbers; a mask of truth values is asked for. The difference is not one of taste: libraries *add* a "
        "mask of floating numbers to the scores, and adding 1 or 0 forbids nothing.",
        seen_in="pytorch/pytorch#21518",
        hint="Which dtype has your result, and which dtype does a comparison give?",
    )
}
POLARITY = {
    "turned": Wrong(
        "Every entry is turned round: yours is True where attention is forbidden. Here True means *may attend*. "
        "Both conventions exist, so every mask has to say which one it follows.",
        seen_in="rasbt/LLMs-from-scratch#1061",
        hint="May the first token attend to itself? What does your mask say about that pair?",
    )
}
DIAGONAL_BLOCKED = Wrong(
    "The diagonal is blocked: a token may not attend to itself. The first one is then left with no key at all, and "
    "plain softmax gives it no number.",
    seen_in="pbloem/former#10",
    hint="Which keys does the first row allow?",
)
LOOKAHEAD = Wrong(
    "The wrong side is kept: each query sees itself and the *later* keys. Causal means that it sees the earlier ones.",
    hint="Rows are queries. Which keys does the last row allow?",
)
EITHER = Wrong(
    "The two conditions are joined by “or”. A key must pass both, so it is “and”: `&`.",
    hint="Is it enough for a key to meet one of the two conditions?",
)
