"""Exercise 5.9: receptive_field, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "5.9",
    points=1,
    section="Windows",
    statement=(
        "In a stack of layers with causal windows, what lies outside of a window can still arrive: over a token in\n"
        "between, one layer later. Layer i has a window of `sizes[i]` keys, the query's own included. Of the `n`\n"
        "tokens of a text, how many can reach what the last layer computes for the *last* token, that token included?\n"
        "With two layers and windows of 3 and 2, of 10 tokens 4 can: the token itself, and three before it."
    ),
    hints=[
        "How many steps back does information go in one layer with a window of 1, of 2, of 3?",
        "Steps back add up from layer to layer. The token itself is counted once, whatever the number of layers.",
        "No text has more tokens than `n`: what if the windows reach further back than its beginning?",
    ],
)
def receptive_field(sizes, n):
    """How many of n tokens reach the last one through all layers.

    sizes (n_layers,) of integers, the window of each layer;
    n, an integer: tokens of the text → a number
    """
    steps_back = np.sum(sizes - 1)  # a window of 1 goes no step back
    return min(n, 1 + steps_back)


@receptive_field.probes
def _(rng):
    # Unequal windows; twice the text is too short for them. No text is long: some build masks of n × n, layer by layer.
    a, b = (int(size) for size in rng.integers(4, 9, size=2))
    cases = [([a, 3], 40), ([3, b, 5], 60), ([5, 2, a, 4], 70), ([a, b + 9, 6, 2], 12), ([b, 4, 7], 9)]
    return [(np.array(sizes), n) for sizes, n in cases]


@receptive_field.hard_probes
def _():
    return {
        "one layer": Probe((np.array([5]), 20), "One layer reaches what its window holds."),
        "windows of one": Probe((np.array([1, 1, 1]), 20), "With windows of 1 no token hears of another."),
        "a layer without a window": Probe(
            (np.array([4, 1000, 4]), 30), "A window wider than the text is none: everything arrives."
        ),
        "just enough": Probe((np.array([3, 3]), 5), "Where the windows reach exactly the first token, all n arrive."),
        "one token": Probe((np.array([4, 4]), 1), "A single token can hear of itself alone."),
        "many layers": Probe((np.full(32, 4), 120), "32 layers with windows of 4 reach back 32 times 3 tokens."),
    }


@receptive_field.choice_points(
    reach={
        "sum": Wrong(
            "The windows are added up as they are. Each holds the query's own key, which is no step back: a window of "
            "w goes w − 1 steps. (For the 32 windows of 4096 of Mistral 7B, Jiang et al. (2023) give about 131K "
            "tokens, 32 · 4096 = 131,072. Counted with the query's own key in each window it is 131,041.)",
            seen_in="mistralai/mistral-inference#40",
            hint="With three windows of 1, how many tokens can arrive?",
        ),
        "product": Wrong(
            "The windows are multiplied. Every token that one layer reaches leads to others in the layer below, but "
            "for the most part to the *same* ones: neighbours' windows overlap. Steps back add up.",
            hint="Two windows of 3: from positions 8, 9 and 10, which positions are reached, and how many?",
        ),
        "without itself": Wrong(
            "These are the steps back. The token itself can reach its output, too: one more.",
            hint="With one layer and a window of 1, how many tokens arrive?",
        ),
        "own beside": Wrong(
            "You count `size` keys *beside* the query's own in each window. Its own is one of them: a window of w goes "
            "w − 1 steps back.",
            seen_in="apple/axlearn#1009",
            hint="With one layer and a window of 1, how many tokens arrive?",
        ),
        "largest": Wrong(
            "This is the widest window. A token in it has in its turn heard of others, one layer before.",
            hint="What had the oldest token of the last window heard of, in the layer before?",
        ),
        "first": Wrong(
            "This is the window of the first layer. Each later layer reaches further back, over tokens that have heard "
            "of others.",
            hint="Would your result change if the second window were larger?",
        ),
        "last": Wrong(
            "This is the window of the last layer. A token in it has in its turn heard of others, one layer before.",
            hint="What had the oldest token of the last window heard of, in the layer before?",
        ),
        "both sides": Wrong(
            "You count steps in both directions. The windows are causal: nothing comes from later tokens.",
            hint="Can a token hear of one that comes after it?",
        ),
    },
    text={
        "endless": Wrong(
            "Windows that reach further back than the first token find nothing there: the number is at most n.",
            hint="Can 12 tokens reach the last one if the text has 9?",
        ),
        "others alone": Wrong(
            "The limit is one too low: n − 1 tokens lie before the last one, and it counts itself.",
            hint="If one window holds the whole text, how many tokens arrive?",
        ),
    },
)
def _(sizes, n, *, reach="steps", text="n"):
    steps = np.sum(sizes - 1)
    reached = {
        "sum": np.sum(sizes),
        "product": np.prod(sizes),
        "without itself": steps,
        "own beside": 1 + np.sum(sizes),
        "largest": np.max(sizes),
        "first": sizes[0],
        "last": sizes[-1],
        "both sides": 1 + 2 * steps,
    }.get(reach, 1 + steps)
    return reached if text == "endless" else min(n - (text == "others alone"), reached)


@receptive_field.variant
def sum_less_layers(sizes, n):
    return np.minimum(sum(sizes) - len(sizes) + 1, n)


@receptive_field.variant
def layer_by_layer(sizes, n):
    oldest = n - 1
    for size in reversed(sizes):
        oldest = max(0, oldest - size + 1)
    return float(n - oldest)


@receptive_field.variant
def doors_of_each_layer(sizes, n):
    """What each token has heard of, as truth values: a layer joins what the tokens of its window have heard of."""
    heard = np.zeros(n, dtype=bool)
    heard[-1] = True
    for size in sizes[::-1]:
        reached = np.flatnonzero(heard)
        heard[max(0, reached[0] - size + 1) : reached[0]] = True
    return np.count_nonzero(heard)
