"""Exercise 5.8: rolling_slots, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "5.8",
    points=2,
    section="Windows",
    statement=(
        "A rolling cache for a window has `size` slots, and moves nothing: each new token takes the next slot, and\n"
        "after the last slot comes slot 0 again, where it overwrites what lay there. After `n_seen` tokens, which of\n"
        "them lies in each slot? Return an array of their positions, counted from 0, with −1 for a slot that was\n"
        "never used. With 4 slots, after 3 tokens they hold [0, 1, 2, −1], after 6 tokens [4, 5, 2, 3]."
    ),
    hints=[
        "Which slot does the token at position 4 take if there are 4 slots, and which one the token at position 5?",
        "`position % size` counts 0, 1, …, size − 1 and then from 0 again.",
        "A loop over the positions in their order overwrites what a real cache overwrites; what should the slots hold "
        "before it begins?",
    ],
)
def rolling_slots(n_seen, size):
    """The position of the token that lies in each slot of a rolling cache.

    n_seen and size are integers → (size,) of integers, −1 = empty
    """
    slots = np.full(size, -1)
    for position in range(n_seen):
        slots[position % size] = position
    return slots


@rolling_slots.probes
def _(rng):
    # Round more than once, never quite to the end of a round; with free slots twice.
    rounds = int(rng.integers(1, 4))
    return [(4 * rounds + 2, 4), (5 * rounds + 3, 5), (3, 5), (3 * rounds + 1, 3), (2, 6), (7 * rounds + 5, 7)]


@rolling_slots.hard_probes
def _():
    return {
        "no token yet": Probe((0, 3), "Before the first token every slot is empty: −1."),
        "just full": Probe((4, 4), "When the last slot has been filled, nothing has been overwritten yet."),
        "twice round": Probe((8, 4), "After two whole rounds the slots hold the second round, in order."),
        "one slot": Probe((5, 1), "A single slot holds the last token."),
    }


@rolling_slots.choice_points(
    slot={
        "shifted": Wrong(
            "This is a queue: the oldest token leaves at the front, and all others move up. A rolling cache overwrites "
            "one slot and moves nothing; a shift copies all keys and values for each token.",
            hint="In which slot of 4 does the token at position 2 lie after 6 tokens? Has it been moved?",
        ),
        "last one": Wrong(
            "Once the cache is full, every new token overwrites the *last* slot, so the tokens just before it are lost "
            "and the oldest ones stay. It should take the slot of the oldest.",
            hint="After 6 tokens with 4 slots, which tokens should be kept?",
        ),
        "none": Wrong(
            "Once the cache is full, new tokens are not kept. They should be, and the oldest ones be overwritten.",
            hint="After 6 tokens with 4 slots, which tokens should be kept?",
        ),
        "cleared": Wrong(
            "All slots are emptied when a new round begins, so the window is short just then. A token stays until "
            "another one takes its slot.",
            hint="After 5 tokens with 4 slots, how many of them should be kept?",
        ),
        "one too far": Wrong(
            "Each token lies one slot too far: position 0 in slot 1. The slot is `position % size`, and positions "
            "count from 0.",
            seen_in="huggingface/transformers#47708",
            hint="Which slot should the first token take?",
        ),
    },
    empty={
        "zero": Wrong(
            "Empty slots hold 0, as if the first token lay there. Such a slot would be attended to; −1 marks it.",
            hint="How could one tell an empty slot from that of the first token?",
        ),
        "below zero": Wrong(
            "Empty slots hold other negative numbers: what the formula for the last round gives where that round has "
            "not been. They should all hold −1.",
            hint="What do your slots hold after 3 tokens if there are 6?",
        ),
        "left out": Wrong(
            "Empty slots are left out, so the result is shorter than `size`. They are part of the cache: put −1.",
            hint="How many entries should the result have after 3 tokens, if there are 5 slots?",
        ),
    },
    seen={
        "one too many": Wrong(
            "One token too many: after `n_seen` tokens the last one has the position n_seen − 1.",
            hint="After a single token, which position lies in slot 0?",
        ),
        "one too few": Wrong(
            "The last token is missing: after `n_seen` tokens the last one has the position n_seen − 1, and it has "
            "been stored.",
            hint="After a single token, which position lies in slot 0?",
        ),
    },
)
def _(n_seen, size, *, slot="in turn", empty="minus one", seen="all"):
    slots = np.full(size, -1)
    for position in range(n_seen + {"one too many": 1, "one too few": -1}.get(seen, 0)):
        turn = position % size
        if position >= size:
            if slot == "none":
                continue
            if slot == "shifted":
                slots[:-1] = slots[1:]
            if slot in ("shifted", "last one"):
                turn = size - 1
        if slot == "cleared" and turn == 0:
            slots[:] = -1
        slots[(turn + 1) % size if slot == "one too far" else turn] = position
    if empty == "left out":
        return slots[slots >= 0]
    unused = {"zero": 0, "below zero": np.arange(size) - size}.get(empty, -1)
    return np.where(slots < 0, unused, slots)


_IN_ORDER = (
    "These are the last `size` positions in their order. The right tokens are kept, but in a rolling cache none of "
    "them moves: each lies in slot `position % size` until another one takes it. The oldest mostly lies in the middle. "
)
_WHICH_SLOT = "Which slot does the token at position 4 take if there are 4 slots? Is it the last one?"


@rolling_slots.mistake(
    "the last window",
    _IN_ORDER + "(And where fewer tokens have come, unused slots hold −1, not positions below 0.)",
    hint=_WHICH_SLOT,
)
def _(n_seen, size):
    return np.arange(n_seen - size, n_seen)


@rolling_slots.mistake(
    "the last window, filled up in front",
    _IN_ORDER + "(And where fewer tokens have come, the slots that are still unused are the last ones.)",
    hint=_WHICH_SLOT,
)
def _(n_seen, size):
    return np.maximum(np.arange(n_seen - size, n_seen), -1)


@rolling_slots.mistake(
    "counted from 1",
    "The tokens are counted from 1: the first one is given the position 1, and the slot 1. Positions are counted from "
    "0: `range(n_seen)`.",
    hint="After a single token, which position lies in slot 0?",
)
def _(n_seen, size):
    slots = np.full(size, -1)
    for position in range(1, n_seen + 1):
        slots[position % size] = position
    return slots


@rolling_slots.mistake(
    "turned round",
    "This is the slot of each token, one entry a token. Asked for is the token of each slot, one entry a slot.",
    hint="How many entries should the result have?",
)
def _(n_seen, size):
    return np.arange(n_seen) % size


@rolling_slots.variant
def the_last_round_and_the_one_before(n_seen, size):
    newest = n_seen - 1
    return np.maximum(newest - (newest - np.arange(size)) % size, -1)


@rolling_slots.variant
def the_tokens_that_are_left(n_seen, size):
    slots = np.full(size, -1)
    left = np.arange(max(0, n_seen - size), n_seen)
    slots[left % size] = left
    return slots


@rolling_slots.variant
def a_queue_rolled_back(n_seen, size):
    queue = np.concatenate([np.arange(n_seen), np.full(max(0, size - n_seen), -1)])[-size:]
    return np.roll(queue, n_seen % size if n_seen > size else 0)


@rolling_slots.variant
def slot_by_slot(n_seen, size):
    slots = []
    for slot in range(size):
        visitors = range(slot, n_seen, size)
        slots.append(float(visitors[-1]) if visitors else -1.0)
    return np.array(slots)
