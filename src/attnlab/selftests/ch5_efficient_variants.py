"""Self-tests of chapter 5."""

import numpy as np

from attnlab import attention, masks, softmax
from attnlab.efficient import cost
from attnlab.selftests import question, right, wrong


@question(
    "ch5-longer-and-narrower",
    section="What n² costs",
    text="A head gets twice as many tokens and becomes half as wide. What happens to the operations of its two "
    "products, and to the size of its table of weights?",
    choices=[
        wrong(
            "Both stay about as they were: the two changes cancel.",
            "The number of tokens counts squared. And the width does not occur in the size of the table.",
        ),
        right(
            "The operations double, the table becomes four times as large.",
            "Operations are 4 n² d: four times n², half of d. The table has n² numbers, whatever the width.",
        ),
        wrong(
            "Both become four times as large.",
            "So it is at the same width. In each of the n² dot products there are now half as many terms.",
        ),
        wrong(
            "Both double.",
            "The table has no width in it that could take a factor of two back: it holds one number for each pair.",
        ),
    ],
)
def _():
    before, after = cost.attention_flops(512, 512, 64), cost.attention_flops(1024, 1024, 32)
    tables = [attention(*np.ones((3, n, d))).weights.size for n, d in ((64, 8), (128, 4))]
    assert after == 2 * before and tables[1] == 4 * tables[0]


@question(
    "ch5-order-of-tiles",
    section="Softmax, one tile at a time",
    text="The same tiles of keys are read in the opposite order. Which of the three things carried along are the same "
    "after the last tile, up to rounding?",
    choices=[
        wrong(
            "Only m: the two sums were rescaled at other times.",
            "Each rescaling only repairs the m that was used before. In the end all summands stand against the last m.",
        ),
        wrong(
            "None; only the quotient o/ℓ is the same.",
            "The quotient is. But ℓ and o are the same sums by themselves, over the same keys and with the same m.",
        ),
        right(
            "All three: m, ℓ and o.",
            "m is the largest of all scores, and ℓ and o are sums over all keys with this m. No order is left in them.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    scores, values = 3 * rng.normal(size=12), rng.normal(size=(12, 2))

    def carried(tiles):
        m, total, mixed, seen = -np.inf, 0.0, 0.0, []
        for tile in tiles:
            new = max(m, scores[tile].max())
            exps = np.exp(scores[tile] - new)
            total, mixed = total * np.exp(m - new) + exps.sum(), mixed * np.exp(m - new) + exps @ values[tile]
            m = new
            seen.append(m)
        return seen, np.array([m, total, *mixed])

    tiles = [slice(0, 4), slice(4, 8), slice(8, 12)]
    (seen, state), (seen_back, state_back) = carried(tiles), carried(tiles[::-1])
    assert seen != seen_back and np.allclose(state, state_back)
    assert np.allclose(state[2:] / state[1], softmax(scores) @ values)


@question(
    "ch5-less-fast-memory",
    section="What tiling saves, and when it loses",
    text="The tiled form runs on a processor with half the fast memory, so its tiles are half as long. What changes?",
    choices=[
        right(
            "More numbers travel; products and result stay.",
            "Smaller tiles mean more passes over the slow memory. The dot products are the same ones, cut otherwise.",
        ),
        wrong(
            "The result is less exact: it is put together from more pieces.",
            "Each piece is rescaled exactly, up to rounding. The result is that of softmax with tiles of any length.",
        ),
        wrong(
            "More operations in the products: each tile begins anew.",
            "Each query meets each key once, in whatever tile it stands. Only the little rescaling happens more often.",
        ),
        wrong(
            "Nothing: the formula is the same.",
            "The formula is. The traffic depends on how much fits at one time, and can exceed that of the naive form.",
        ),
    ],
)
def _():
    from attnlab.efficient import tiled_attention

    assert cost.hbm_elements(1024, 64, sram_bytes=40 * 1024) > 1.5 * cost.hbm_elements(1024, 64, sram_bytes=80 * 1024)
    query, key, value = np.random.default_rng(0).normal(size=(3, 60, 8))
    for block in (16, 8):
        output = tiled_attention(query, key, value, block_q=block, block_k=block)
        assert np.allclose(output, attention(query, key, value).output, rtol=0, atol=1e-12)
        tiles = [np.ones((len(q), 8)) @ k.T for q in np.split(query, range(block, 60, block))
                 for k in np.split(key, range(block, 60, block))]  # fmt: skip
        assert sum(tile.size for tile in tiles) == 60 * 60  # each query meets each key once


@question(
    "ch5-cache-without-mask",
    section="The cache",
    text="A model with two layers of self-attention and *no* causal mask gets one more token at the end. Which of the "
    "old tokens' keys in the second layer can be kept?",
    choices=[
        wrong(
            "All: a key is made from its own token only.",
            "True in the first layer. In the second, the token's vector has come out of an attention over all tokens.",
        ),
        wrong(
            "All but those near the new token.",
            "Attention has no notion of near. The new token is a key for every query of the first layer.",
        ),
        right(
            "None of them.",
            "In the first layer every old token sees the new one, so what enters the second layer has changed for all.",
        ),
        wrong(
            "All, if positions are counted rightly.",
            "Positions are another condition. Even without any, the old tokens have now seen a token more.",
        ),
    ],
)
def _():
    x = np.random.default_rng(0).normal(size=(6, 4))  # five tokens, and the new one

    def entering_second(n, is_causal):
        return attention(x[:n], x[:n], x[:n], is_causal=is_causal).output[:5]

    moved = np.abs(entering_second(6, False) - entering_second(5, False)).max(axis=1)
    assert np.all(moved > 1e-3)  # every one, near or far, and there are no positions here
    assert np.allclose(entering_second(6, True), entering_second(5, True))  # the mask is what allows a cache


@question(
    "ch5-half-the-query-heads",
    section="The cache",
    text="Of two models with 8 key/value heads of width 128, one has 32 query heads and the other 16. How do their "
    "caches compare, at equal layers, tokens and dtype?",
    choices=[
        right(
            "They are equally large.",
            "Only keys and values are kept. A query is used in its own step and thrown away.",
        ),
        wrong(
            "The second is half as large.",
            "So it would be if each query head had a key head of its own. Here the number of key/value heads is given.",
        ),
        wrong(
            "The second is twice as large.",
            "The groups are smaller, 2 query heads to a key/value head in place of 4. But groups are not what is kept.",
        ),
    ],
)
def _():
    from attnlab.efficient import KVCache, grouped_attention

    sizes = []
    for n_heads in (32, 16):
        kept = KVCache()
        keys, values = kept.append(np.ones((8, 10, 128), np.float16), np.ones((8, 10, 128), np.float16))
        grouped_attention(np.ones((n_heads, 1, 128), np.float16), keys, values)  # the queries leave nothing
        sizes.append(kept.nbytes)
    assert sizes[0] == sizes[1] == cost.kv_cache_bytes(n_layers=1, n_kv_heads=8, d_head=128, n_tokens=10)


@question(
    "ch5-shared-keys",
    section="Fewer key and value heads",
    text="In multi-query attention all query heads ask the same keys. Do they all look at the same tokens?",
    choices=[
        wrong(
            "Yes: the same keys give the same weights.",
            "A score belongs to a query *and* a key. The keys are shared, the queries are not.",
        ),
        wrong(
            "Yes, but each head takes other values from them.",
            "It is the other way round. The values are shared as well, and what differs are the weights.",
        ),
        wrong(
            "No: each head sees the part of a key that belongs to it.",
            "Every query head meets the whole key, all of its numbers. Nothing is divided among the heads.",
        ),
        right(
            "No: each asks with a query of its own.",
            "So each has a table of weights of its own. One set of keys can answer many different questions.",
        ),
    ],
)
def _():
    from attnlab.efficient import grouped_attention

    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(4, 3, 8)), rng.normal(size=(1, 5, 8)), rng.normal(size=(1, 5, 8))
    found = grouped_attention(query, key, value)
    for h in range(4):  # whole keys, shared values, weights of its own
        alone = attention(query[h], key[0], value[0])
        assert np.allclose(found.weights[h], alone.weights) and np.allclose(found.output[h], alone.output)
        assert all(np.abs(found.weights[h] - found.weights[g]).max() > 0.1 for g in range(h))


@question(
    "ch5-twice-the-text",
    section="A real model's cache",
    text="A model writes 1000 tokens, and then 2000, each time from a prompt of one token. The projections cost the "
    "same for each token that they are computed for. How much more do they cost for the longer text?",
    choices=[
        wrong(
            "Twice as much, with a cache and without.",
            "Without a cache each step projects the whole text again, and the later steps have longer texts.",
        ),
        right(
            "Twice as much with a cache, four times as much without.",
            "With a cache each token is projected once. Without, the costs are 1 + 2 + … + n, about n²/2.",
        ),
        wrong(
            "Twice as much without a cache, as much as before with one.",
            "A cache keeps old keys and values. Each new token still has to be projected once.",
        ),
        wrong(
            "Four times as much, with a cache and without.",
            "So it is for the comparisons of attention with a cache; without one they grow about eightfold. The "
            "question is about the projections.",
        ),
    ],
)
def _():
    def projected(n, cached):
        """Tokens that go through the projections while n are written, after one."""
        return sum(1 if cached else seen for seen in range(1, n + 1))

    ratios = [projected(2000, cached) / projected(1000, cached) for cached in (True, False)]
    assert ratios[0] == 2 and abs(ratios[1] - 4) < 0.01

    def compared(n, cached):
        return sum(seen if cached else seen * seen for seen in range(1, n + 1))

    ratios = [compared(2000, cached) / compared(1000, cached) for cached in (True, False)]
    assert abs(ratios[0] - 4) < 0.01 and abs(ratios[1] - 8) < 0.02


@question(
    "ch5-out-of-the-window",
    section="Windows",
    text="A model of many layers has a window of 100 tokens. Token 0 has long been overwritten in the rolling cache. "
    "Can it still matter for token 150?",
    choices=[
        wrong(
            "No: its key and its value are gone.",
            "They are. But what others took from it, layer by layer, stands in keys and values that are still there.",
        ),
        wrong(
            "Yes: a query of token 150 can still find its key.",
            "The window forbids that pair in every layer, and the slot holds another token by now.",
        ),
        right(
            "Yes, through tokens in between that saw it.",
            "Token 90 saw it in the first layer, and token 150 sees token 90 in the second. How much arrives is open.",
        ),
    ],
)
def _():
    x = np.random.default_rng(0).normal(size=(151, 4)) / 2
    other = x.copy()
    other[0] += 5.0
    window = masks.window(151, 100)
    assert not window[150, 0] and window[90, 0] and window[150, 90]

    def last(x, n_layers):
        for _ in range(n_layers):
            x = x + attention(x, x, x, window).output
        return x[150]

    assert np.array_equal(last(x, 1), last(other, 1))  # not directly
    assert np.abs(last(x, 2) - last(other, 2)).max() > 1e-6


@question(
    "ch5-sink-falls-out",
    section="Windows",
    text="A head gives 0.8 of its weight to the first token, whose value is 0. The window moves on, and that token "
    "falls out. What becomes of the head's output, if the other scores stay?",
    choices=[
        right(
            "It becomes five times as large.",
            "The others shared 0.2 and now share the whole. The sink held the head quiet, by its weight alone.",
        ),
        wrong(
            "It stays, since a value of 0 adds nothing.",
            "The value added nothing. But its weight was taken from the others, and now it falls back to them.",
        ),
        wrong(
            "It shrinks to a fifth, since most of the weight is gone.",
            "Weights always sum to 1. What the first token had goes to the others, which grow.",
        ),
        wrong(
            "It becomes 0: the head has lost what it looked for.",
            "A head cannot look nowhere. Softmax shares out the whole among the keys that are left.",
        ),
    ],
)
def _():
    scores, values = np.array([np.log(16.0), 0.0, 0.0, np.log(2.0)]), np.array([[0.0], [1.0], [5.0], [-2.0]])
    weights = softmax(scores)
    assert np.isclose(weights[0], 0.8)
    before, after = weights @ values, softmax(scores[1:]) @ values[1:]
    assert np.abs(before) > 0.05 and np.allclose(after, 5 * before)


@question(
    "ch5-brackets",
    section="Linear attention",
    text="Linear attention adds up φ(k) vᵀ over the keys before any query is known. Why can the weights of softmax not "
    "be taken apart in this way?",
    choices=[
        wrong(
            "Because softmax divides by a sum.",
            "Linear attention divides by one, too: φ(q)·z, and z is added up beforehand as well.",
        ),
        right(
            "Because e^(q·k) is no dot product of a few features of q and k.",
            "A table of such numbers has a higher rank than any few features can give it. Random features only come "
            "near.",
        ),
        wrong(
            "Because the brackets of matrix products must not be moved.",
            "They may always be moved, up to rounding. What is missing is a part with q alone and a part with k alone.",
        ),
        wrong(
            "Because its weights are positive.",
            "Those of linear attention are as well, with positive features. Only without them it leaves the range of "
            "the values.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 12, 2))
    assert np.linalg.matrix_rank(np.exp(q @ k.T), tol=1e-9) > 5  # from 2 numbers a token
    a, b = np.exp(q), np.exp(k)  # two positive features each
    assert np.linalg.matrix_rank(a @ b.T) == 2 and (a @ b.T).min() > 0
    z, S = b.sum(axis=0), b.T @ v  # before any query: the divisor, too
    weights = a @ b.T / (a @ b.T).sum(axis=1, keepdims=True)
    assert np.allclose(a @ S / (a @ z)[:, None], weights @ v)


@question(
    "ch5-room-in-a-state",
    section="Linear attention",
    text="64 random keys, each with a random value, are kept in a table of 32 rows, filled as well as possible. "
    "How large is the mean squared error when all are read, if answering 0 always would have 1?",
    choices=[
        wrong(
            "0: the best filling loses nothing.",
            "It loses nothing up to 32 pairs. Whatever is read is a mixture of 32 rows.",
        ),
        wrong(
            "About 2, as many times too many as there are rows.",
            "That is the plain sum of k vᵀ, in which all others disturb. The best table is never worse than 0 always.",
        ),
        wrong(
            "About 1: too full, it gives back nothing.",
            "Towards 1 it goes with many more pairs. A table that is twice too small still holds a part.",
        ),
        right(
            "About one half.",
            "32 numbers can be chosen for 64 wishes. For 128 pairs it is three quarters: the error is 1 − 32/n.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    errors = {}
    for n in (32, 64, 128):
        keys, values = rng.normal(size=(n, 32)) / np.sqrt(32), rng.choice([-1.0, 1.0], size=(n, 200))
        table = np.linalg.lstsq(keys, values, rcond=None)[0]
        errors[n] = np.mean((keys @ table - values) ** 2)
    assert errors[32] < 1e-9
    assert abs(errors[64] - 1 / 2) < 0.02 and abs(errors[128] - 3 / 4) < 0.02


@question(
    "ch5-one-bit-flips",
    section="When attention is the wrong default",
    text="Of 512 bits in a stream one is flipped. Why does that make parity harder than majority for a layer that "
    "averages?",
    choices=[
        wrong(
            "Parity depends on the order of the bits.",
            "In any order the number of ones is the same, and both answers depend on that number alone.",
        ),
        right(
            "Parity turns over, while the average moves by 1/512.",
            "The answer has to change with *every* bit, not only where it is close. The average hardly moves; a state "
            "of one bit can turn over.",
        ),
        wrong(
            "For parity all bits have to be seen, for majority only half.",
            "Each bit can decide the majority as well, where it is close. An average sees all bits in any case.",
        ),
        wrong(
            "Parity needs a larger state than attention can keep.",
            "One bit is enough for it. The cache of attention is larger, and grows.",
        ),
    ],
)
def _():
    bits = np.random.default_rng(0).integers(0, 2, size=512)
    for flipped in range(512):
        other = bits.copy()
        other[flipped] ^= 1
        assert other.sum() % 2 != bits.sum() % 2
        assert abs(other.mean() - bits.mean()) == 1 / 512
        assert (other.mean() > 0.5) == (bits.mean() > 0.5)  # majority stays, where it is not close
    order = np.random.default_rng(1).permutation(512)
    assert bits[order].sum() % 2 == bits.sum() % 2  # the order does not matter
    state = 0
    for bit in bits:  # and one bit is enough
        state ^= bit
    assert state == bits.sum() % 2


@question(
    "ch5-operations-for-a-byte",
    section="How to report a speed",
    text="With as many key/value heads as query heads, a decode step in float16 makes one operation for each byte of "
    "cache that it reads. How many does it make with groups of 4 query heads?",
    choices=[
        wrong(
            "A quarter: four heads share the work.",
            "They share keys and values. Each query head still makes a dot product of its own with every key.",
        ),
        wrong(
            "One, as before: both become a quarter.",
            "The bytes do. The operations follow the query heads, and there are as many as before.",
        ),
        right(
            "Four.",
            "As many operations, a quarter of the bytes. So a step that waits for the memory waits less.",
        ),
    ],
)
def _():
    for group in (1, 4):
        read = cost.kv_cache_bytes(n_layers=1, n_kv_heads=32 // group, d_head=128, n_tokens=4096)
        assert cost.attention_flops(1, 4096, 128, n_heads=32) == group * read


@question(
    "ch5-more-machines",
    section="Across machines",
    text="A sequence goes round in a ring of 8 machines and not of 2. How much does each machine send?",
    choices=[
        right(
            "More: seven eighths of all keys and values, not half.",
            "A machine sends P − 1 slices of n/P tokens each: all but one slice. With many machines, nearly all.",
        ),
        wrong(
            "A quarter of it: its own slice is a quarter as long.",
            "It sends on the slices of the others as well. There are more of them, and together they make nearly all.",
        ),
        wrong(
            "The same: every slice goes round once.",
            "Nearly. But one slice less than all is sent, and that slice is smaller with more machines.",
        ),
    ],
)
def _():
    from attnlab.efficient import ring

    n, shape = 512, {"n_kv_heads": 4, "d_head": 32}
    everything = 2 * n * 4 * 32 * 4  # keys and values, float32
    assert ring.bytes_sent(n, 2, **shape) == everything / 2
    assert ring.bytes_sent(n, 8, **shape) == everything * 7 / 8


@question(
    "ch5-two-savings",
    section="No design is free",
    text="A model has groups of 4 query heads to a key/value head, and a window of 4096. How large is its cache after "
    "32,768 tokens, against one with a key/value head for each query head and no window?",
    choices=[
        wrong(
            "1/8: the larger of the two savings counts.",
            "The two do not stand in each other's way: one makes fewer heads, the other fewer tokens.",
        ),
        wrong(
            "1/12: the savings 4 and 8 are added.",
            "Heads and tokens are factors of one product. What divides a factor divides the whole.",
        ),
        wrong(
            "1/4: the window limits who may look, not what is kept.",
            "What nobody may look at any more need not be kept, and the cache rolls.",
        ),
        right(
            "1/32: the savings are multiplied.",
            "A quarter of the heads, each with an eighth of the tokens. Different designs combine.",
        ),
    ],
)
def _():
    shape = {"n_layers": 32, "d_head": 128, "n_tokens": 32_768}
    full = cost.kv_cache_bytes(n_kv_heads=32, **shape)
    assert full == 32 * cost.kv_cache_bytes(n_kv_heads=8, window=4096, **shape)
