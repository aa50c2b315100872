"""Exercise 5.3: kv_cache_bytes, and what people write instead."""

import math

from ..engine import Probe, Wrong, exercise


@exercise(
    "5.3",
    points=1,
    section="The cache",
    statement=(
        "How many bytes does a cache of keys and values take? Each layer keeps, for each of its key/value heads and\n"
        "for each token so far, one key and one value of `d_head` numbers. Llama-3-8B has 32 layers, 32 query heads,\n"
        "8 key/value heads, d_head = 128; with 4096 tokens in float16 (2 bytes a number) its cache takes 536,870,912\n"
        "bytes, which is 512 MiB. Numbers of 4 bits take ½ a byte. Return bytes, for one sequence."
    ),
    hints=[
        "Count the numbers that one token leaves in one layer. How many keys, how many values, how long is each?",
        "The queries are needed once and thrown away. Which of the arguments does the size not depend on?",
        "One product: two arrays, layers, heads *that have a key and a value of their own*, tokens, numbers in each, "
        "bytes in a number.",
    ],
)
def kv_cache_bytes(n_layers, n_heads, n_kv_heads, d_head, n, itemsize):
    """Bytes that the keys and values of one sequence take.

    All arguments are numbers; n_heads counts query heads → a number
    """
    numbers = 2 * n_layers * n_kv_heads * n * d_head  # keys and values
    return numbers * itemsize


@kv_cache_bytes.probes
def _(rng):
    # Sizes of real models beside small ones. Nowhere is n_kv_heads the size of a group of queries, nor 1, 2, 3 or 8.
    shapes = [(30, 20, 5, 64), (12, 24, 6, 128), (5, 28, 4, 96), (61, 60, 10, 80), (2, 44, 11, 16)]
    widths = [2, 4, 1, 2, 4]
    return [(*shape, int(rng.integers(20, 5000)), width) for shape, width in zip(shapes, widths, strict=True)]


@kv_cache_bytes.hard_probes
def _():
    return {
        "one head for all": Probe(
            (8, 32, 1, 64, 100, 2), "With one key and value head for all queries (MQA), it is 1."
        ),
        "a head for each": Probe((8, 32, 32, 64, 100, 2), "With a key and value head for each query head, both agree."),
        "no token yet": Probe((8, 32, 8, 64, 0, 2), "Before the first token the cache is empty."),
        "half a byte": Probe(
            (8, 32, 8, 64, 101, 0.5),
            "Numbers of 4 bits take half a byte each: do not round `itemsize` to a whole number.",
        ),
        "a long context": Probe(
            (80, 64, 8, 128, 100_000, 2), "Many tokens make a large number, and Python's integers hold it."
        ),
    }


_QUERIES_TOO = Wrong(
    "You count queries, too. They are not kept: once a token is done, nobody asks for its query again.",
    hint="When token 10 comes, what is still needed of token 3?",
)


@kv_cache_bytes.choice_points(
    heads={
        "of the queries": Wrong(
            "You count query heads, or take d_model numbers for a key, which is the same. Several query heads share "
            "one key and one value head, and only these are kept. (In the example that is four times too much.)",
            seen_in="meta-pytorch/torchtune#38",
            hint="Which heads have keys and values of their own?",
        ),
        "queries in a group": Wrong(
            "You count n_heads / n_kv_heads: how many query heads *share* one key and value head. Kept are n_kv_heads. "
            "(In the example these are 4 and 8.)",
            seen_in="rasbt/LLMs-from-scratch#922",
            hint="If all query heads share one key and value head, how many of these are there?",
        ),
        "one": Wrong(
            "This is one key and value head. Each layer has n_kv_heads of them, each with keys and values of its own.",
            seen_in="rohitg00/ai-engineering-from-scratch#57",
            hint="How many keys does a layer keep for one token?",
        ),
    },
    arrays={
        "one": Wrong(
            "Keys *or* values are counted, not both: the factor 2 is missing.",
            hint="What does a query need of an earlier token: its key, its value, or both?",
        ),
        "three": Wrong(
            "You count three arrays. Queries are not kept: once a token is done, nobody asks for its query again.",
            hint=_QUERIES_TOO.hint,
        ),
    },
    layers={
        "one": Wrong(
            "This is one layer. Each layer has keys and values of its own.",
            hint="Are the keys of layer 5 those of layer 4?",
        ),
    },
    width={
        "of the model": Wrong(
            "A key is counted as wide as all query heads together, n_heads · d_head, and then multiplied by the heads "
            "again. One key of one head has d_head numbers.",
            seen_in="jranaraki/vllm-fit#2",
            hint="How many numbers has the key of one head?",
        ),
    },
    tokens={
        "one": Wrong(
            "This is what one token adds. The cache holds all tokens so far.",
            hint="Would your result change with `n`?",
        ),
        "squared": Wrong(
            "The number of tokens enters squared, as in the table of scores. The cache holds no scores: one key and "
            "one value a token, and so it grows with n.",
            hint="By how much does the cache grow when one token is added?",
        ),
    },
    unit={
        "bits": Wrong(
            "These are bits. A byte has 8 of them, and bytes are asked for.", hint="How many bits has a byte?"
        ),
        "numbers": Wrong(
            "These are numbers, not bytes: each takes `itemsize`.",
            hint="How many bytes has a number in float16?",
        ),
        "MiB": Wrong("These are MiB. Bytes are asked for.", hint="Is your result divided by 1024 at the end?"),
        "GiB": Wrong("These are GiB. Bytes are asked for.", hint="Is your result divided by 1024 at the end?"),
    },
)
def _(
    n_layers,
    n_heads,
    n_kv_heads,
    d_head,
    n,
    itemsize,
    *,
    heads="of keys and values",
    arrays="two",
    layers="all",
    width="of a head",
    tokens="all",
    unit="bytes",
):
    counted = {"of the queries": n_heads, "queries in a group": n_heads // n_kv_heads, "one": 1}
    numbers = {"one": 1, "three": 3}.get(arrays, 2) * counted.get(heads, n_kv_heads)
    numbers *= 1 if layers == "one" else n_layers
    numbers *= d_head if width == "of a head" else n_heads * d_head
    numbers *= {"one": 1, "squared": n**2}.get(tokens, n)
    size = {"bits": 8, "MiB": 1 / 1024**2, "GiB": 1 / 1024**3}.get(unit, 1)
    return numbers * (1 if unit == "numbers" else itemsize) * size


@kv_cache_bytes.mistake("queries too", _QUERIES_TOO.text, hint=_QUERIES_TOO.hint)
def _(n_layers, n_heads, n_kv_heads, d_head, n, itemsize):
    return n_layers * (n_heads + 2 * n_kv_heads) * d_head * n * itemsize


@kv_cache_bytes.variant
def a_layer_and_a_token_at_a_time(n_layers, n_heads, n_kv_heads, d_head, n, itemsize):
    of_a_head = 2 * d_head * itemsize
    of_a_token = n_layers * of_a_head * n_kv_heads
    return int(of_a_token * n)


@kv_cache_bytes.variant
def from_the_width_of_the_model(n_layers, n_heads, n_kv_heads, d_head, n, itemsize):
    d_model, group = n_heads * d_head, n_heads / n_kv_heads
    return 2 * n_layers * d_model / group * n * itemsize


@kv_cache_bytes.variant
def as_a_shape(n_layers, n_heads, n_kv_heads, d_head, n, itemsize):
    return math.prod((n_layers, 2, n_kv_heads, n, d_head)) * itemsize
