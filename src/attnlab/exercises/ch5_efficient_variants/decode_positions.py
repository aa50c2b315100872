"""Exercise 5.4: decode_positions, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "5.4",
    points=1,
    section="The cache",
    statement=(
        "A model with a cache is called again and again. `lengths` tells how many new tokens it gets each time: the\n"
        "prompt first, then mostly one, the token that it has just produced. Which position does each of them have,\n"
        "counted from 0, in the order in which they come? The cache keeps `room` tokens at most. When it is full, the\n"
        "oldest ones make way; no other token changes its position. Return one array: for calls with 3, 1, 1 and 2\n"
        "tokens and a room of 4, the positions are [0, 1, 2, 3, 4, 5, 6]."
    ),
    hints=[
        "Would the tokens have other positions if the same text came in a single call?",
        "The first token of a call has as its position the number of tokens that came before: not the number of "
        "calls, and not the number of tokens that are still kept.",
        "Keep a count, `n_seen`. A call with `n_new` tokens has the positions `np.arange(n_seen, n_seen + n_new)`; "
        "when is it time to add `n_new` to the count?",
    ],
)
def decode_positions(lengths, room):
    """Positions of the tokens of all calls, one call after the other.

    lengths (n_calls,) of integers, the new tokens of each call;
    room, an integer: tokens that the cache keeps at most
    → (sum of lengths,) of integers
    """
    n_seen, positions = 0, []
    for n_new in lengths:
        positions.append(np.arange(n_seen, n_seen + n_new))
        n_seen += n_new  # whatever the cache still keeps
    return np.concatenate(positions)


@decode_positions.probes
def _(rng):
    # Single tokens and longer chunks, in rooms that get full. The second call is never as long as the first.
    n = int(rng.integers(5, 9))
    cases = [([n, 1, 1, 1, 1], n + 1), ([4, 2, 3, 1, n], 6), ([3, 1, n, 1, 1, 2], 8), ([2, 1, 1, 4, 1], 4)]
    return [(np.array(lengths), room) for lengths, room in cases]


@decode_positions.hard_probes
def _():
    return {
        "the prompt alone": Probe((np.array([5]), 8), "With a single call the positions are 0, 1, 2, …"),
        "a prompt longer than the room": Probe(
            (np.array([6, 1, 1]), 2), "A prompt may be longer than the cache: its positions count on all the same."
        ),
        "no prompt": Probe((np.array([1, 1, 1, 1]), 9), "Where the tokens come one at a time, they are 0, 1, 2, …"),
        "an empty call": Probe((np.array([3, 0, 2]), 9), "A call without a new token adds no position."),
    }


_TWICE_TOO = Wrong(
    "The prompt is counted twice: when it comes, and once more for the first decoded token. With a prompt of 6 the "
    "calls begin at 0, 6, 12, 13 instead of 0, 6, 7, 8.",
    seen_in="skyzh/tiny-llm#46",
    hint="After the first decoded token, by how much should the count grow?",
)


@decode_positions.choice_points(
    offset={
        "zero": Wrong(
            "Each call begins at position 0 again. A decoded token comes alone, but it is not the first of its text: "
            "keys in the cache carry their positions, and a query at 0 would seem to come before all of them.",
            seen_in="Blaizzy/mlx-vlm#1983",
            hint="How many tokens have come before the second call?",
        ),
        "prompt twice": Wrong(
            "The count is one call late: each time it grows by the tokens of the call *before*. So the prompt is added "
            "twice. With a prompt of 6 the calls begin at 0, 6, 12, 13 instead of 0, 6, 7, 8.",
            seen_in="skyzh/tiny-llm#46",
            hint="After the first decoded token, by how much should the count grow?",
        ),
        "prompt for the first token": _TWICE_TOO,
        "prompt for the first token, then calls": _TWICE_TOO,
        "prompt beside the first token": Wrong(
            "From the third call on the prompt is counted once more: with a prompt of 6 the calls begin at 0, 6, 13, "
            "14 instead of 0, 6, 7, 8.",
            hint="After the first decoded token, by how much should the count grow?",
        ),
        "prompt again": Wrong(
            "The length of the prompt is added to a count that holds it already: with a prompt of 6 the first decoded "
            "token gets 12.",
            hint="What does your count say before the second call, and what do you add to it?",
        ),
        "own tokens counted": Wrong(
            "The new tokens are counted before their positions are made: the prompt itself begins at its own length, "
            "and a decoded token is one too far. This happens when a cache is asked for its length after the append.",
            seen_in="fla-org/flash-linear-attention#766",
            hint="How many tokens come before the first one?",
        ),
        "one too far": Wrong(
            "After the prompt every position is one too large. A prompt of 9 tokens has the positions 0 to 8, and 9 is "
            "the next one: nothing lies between.",
            seen_in="microsoft/onnxruntime-genai#2354",
            hint="Which position has the last token of a prompt of 9, and which the next token?",
        ),
        "one too few": Wrong(
            "After the prompt every position is one too small: the first decoded token shares the position of the "
            "prompt's last one.",
            seen_in="flashrt-project/FlashRT#75",
            hint="Which position has the last token of a prompt of 9, and which the next token?",
        ),
        "prompt alone": Wrong(
            "All later calls begin where the prompt ends. The count should grow with every call.",
            hint="How many tokens have come before the third call?",
        ),
        "one a call": Wrong(
            "After the prompt you count calls, one token for each. A call may bring several tokens, later too.",
            hint="If the second call brings 2 tokens, where does the third one begin?",
        ),
        "calls": Wrong(
            "You count calls. A call may bring several tokens, the first one the whole prompt.",
            hint="How many tokens have come before the second call?",
        ),
        "kept": Wrong(
            "You count the tokens that the cache *keeps*. Once it is full that number stays, and every new token gets "
            "the same position, though the text goes on. Keep a count of your own.",
            seen_in="rajveer43/VeloxQuant-MLX#389",
            hint="When the oldest token makes way, do the others move in the text?",
        ),
    },
    within={
        "all alike": Wrong(
            "All tokens of a call get the position of its first one. The others follow it, one by one.",
            hint="Are the tokens of the prompt at different places of the text?",
        ),
    },
    result={
        "from one": Wrong(
            "The counting starts at 1. The first token has position 0.", hint="How many tokens come before the first?"
        ),
        "places": Wrong(
            "These are places in the cache, which are used again and again. A position belongs to the text, and no two "
            "tokens have the same.",
            hint="Should two tokens of one text ever have the same position?",
        ),
        "last place": Wrong(
            "The positions stop at `room` − 1: all tokens that come when the cache is full get that one, the last "
            "*place* of the cache. A position belongs to the text, and the text goes on.",
            hint="Should two tokens of one text ever have the same position?",
        ),
    },
)
def _(lengths, room, *, offset="seen", within="one by one", result="positions"):
    prompt, calls = lengths[0], np.arange(len(lengths))
    later, before, late = calls > 0, np.cumsum(lengths) - lengths, np.append(prompt, lengths[:-1])
    begins = {
        "zero": 0 * calls,
        "prompt twice": np.cumsum(late) - late,
        "prompt for the first token": np.where(calls > 1, before + prompt - lengths[1:2].sum(), before),
        "prompt for the first token, then calls": np.where(calls > 1, 2 * prompt + calls - 2, before),
        "prompt beside the first token": before + prompt * (calls > 1),
        "prompt again": before + prompt * later,
        "own tokens counted": before + lengths,
        "one too far": before + later,
        "one too few": before - later,
        "prompt alone": prompt * later,
        "one a call": np.where(later, prompt + calls - 1, 0),
        "calls": calls,
        "kept": np.minimum(before, room),
    }.get(offset, before)
    positions = np.repeat(begins, lengths)
    if within == "one by one":
        positions = positions + np.arange(len(positions)) - np.repeat(before, lengths)
    if result == "places":
        return positions % room
    if result == "last place":
        return np.minimum(positions, room - 1)
    return positions + (result == "from one")


@decode_positions.variant
def the_text_in_one_piece(lengths, room):
    return np.arange(sum(lengths))


@decode_positions.variant
def repeated_offsets(lengths, room):
    offsets = np.cumsum(lengths) - lengths
    return np.concatenate([offset + np.arange(n, dtype=float) for offset, n in zip(offsets, lengths, strict=True)])


@decode_positions.variant
def token_by_token(lengths, room):
    positions, kept, dropped = [], [], 0
    for n in lengths:
        for _ in range(n):
            positions.append(dropped + len(kept))
            kept.append(positions[-1])
            if len(kept) > room:
                kept.pop(0)
                dropped += 1
    return np.array(positions)
