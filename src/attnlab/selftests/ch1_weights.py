"""Self-tests of chapter 1."""

import numpy as np

from attnlab import attention, softmax
from attnlab.selftests import question, right, wrong

KEYS, VALUES = np.eye(2), np.array([[2.0, 0.0], [0.0, 4.0]])  # the chapter's example


@question(
    "ch1-both",
    section="Two values and their shares",
    text="The values are [2, 0] and [0, 4]. With which shares does the mixture become [2, 4]?",
    choices=[
        wrong(
            "With all of both, 1 and 1.",
            "Then the shares sum to 2. There is one whole to share out: what one value gets, the other cannot get.",
        ),
        wrong(
            "With two shares that have to be tried out.",
            "Two shares with the sum 1 are *one* free number. It moves the mixture along a line, and [2, 4] does not "
            "lie on it.",
        ),
        right(
            "No shares do that.",
            "The 2 needs all of the first value, and then nothing is left for the 4. Mixtures lie on the line between "
            "the two values; [2, 4] is their sum.",
        ),
    ],
)
def _():
    needed = np.linalg.solve(VALUES.T, [2.0, 4.0])  # the only shares that give [2, 4]
    assert np.allclose(needed, [1, 1]) and needed.sum() == 2
    for share in np.linspace(0, 1, 101):
        assert np.abs(share * VALUES[0] + (1 - share) * VALUES[1] - [2, 4]).max() >= 1


@question(
    "ch1-larger-value",
    section="Query, key and value",
    text="The second value is multiplied by 100; query and keys stay. What happens to its share?",
    choices=[
        wrong(
            "It grows, since the value is larger.",
            "Shares come from comparing the query with the keys. Values take no part in that.",
        ),
        right(
            "It stays.",
            "The shares come from query and keys alone. The *output* moves, since the same share of a larger value is "
            "more.",
        ),
        wrong(
            "It shrinks, so that the output stays in range.",
            "Nothing watches the size of the output. The shares are settled before any value is looked at.",
        ),
    ],
)
def _():
    before = attention(np.array([1.0, 0.0]), KEYS, VALUES)
    after = attention(np.array([1.0, 0.0]), KEYS, VALUES * [[1], [100]])
    assert np.array_equal(after.weights, before.weights)
    assert np.allclose(after.output, before.output * [1, 100])


@question(
    "ch1-which-root",
    section="From query and keys to scores",
    text="A query meets 100 keys. Each vector has 4 components, and the dot product with the first key is 6. "
    "What is that key's score?",
    choices=[
        right("3", "The score is the dot product divided by √d_k, and d_k is the number of components: 6 / √4."),
        wrong("1.5", "That is 6 / 4. It is the *root* of the number of components that divides."),
        wrong("0.6", "That is 6 / √100. The number of keys does not enter: a score belongs to one query and one key."),
        wrong("6", "That is the dot product. In this chapter it is still divided by the root of 4."),
    ],
)
def _():
    keys = np.vstack([[6.0, 0.0, 0.0, 0.0], np.ones((99, 4))])
    query = np.array([1.0, 0.0, 0.0, 0.0])
    weights = attention(query, keys, np.eye(100)).weights
    assert keys[0] @ query == 6
    assert np.allclose(weights, softmax(keys @ query / 2)) and (keys @ query / 2)[0] == 3
    for divisor in (4, 10, 1):
        assert not np.allclose(weights, softmax(keys @ query / divisor))


@question(
    "ch1-same-weights",
    section="From scores to weights",
    text="Three keys have the scores 5, 5 and 7. Which scores give the same weights?",
    choices=[
        wrong(
            "10, 10 and 14", "The *ratios* are the same, but the differences have doubled: the third key takes more."
        ),
        wrong("1, 1 and 1.4", "Divided by 5, the differences shrink too, and the weights become more alike."),
        right("0, 0 and 2", "All three are lower by 5. Only differences between scores count."),
        wrong("0.29, 0.29 and 0.41", "These are the scores divided by their sum. Softmax divides the *exponentials*."),
    ],
)
def _():
    scores = np.array([5.0, 5.0, 7.0])
    weights = softmax(scores)
    assert np.allclose(softmax(scores - 5), weights)
    assert softmax(scores * 2).max() > weights.max() + 0.1
    assert softmax(scores / 5).max() < weights.max() - 0.1
    assert np.allclose(scores / scores.sum(), [0.29, 0.29, 0.41], atol=0.005)
    assert not np.allclose(softmax(scores / scores.sum()), weights, atol=0.1)


@question(
    "ch1-sum-of-all",
    section="From scores to weights",
    text="The scores of three queries over five keys become weights. What do all numbers of the table sum to?",
    choices=[
        wrong("1", "Each *query* shares out one whole. There are three of them."),
        right("3", "Every row, one for each query, sums to 1. What a column sums to depends on the scores."),
        wrong("5", "That would be one whole for each key. But the keys do not share: they are shared among."),
        wrong(
            "It depends on the scores.",
            "How a row is divided depends on them. Its sum does not: it is divided by itself.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    for _ in range(3):
        weights = softmax(rng.normal(size=(3, 5)) * 3)
        assert np.isclose(weights.sum(), 3) and not np.allclose(weights.sum(axis=0), 3 / 5, atol=0.01)


@question(
    "ch1-read-off",
    section="The mixture",
    text="The values are [2, 0] and [0, 4], and the output is [1.6, 0.8]. What was the weight of the second value?",
    choices=[
        wrong("0.8", "That is the weight of the *first* value: 1.6 is 0.8 of 2."),
        wrong("0.33", "That is 0.8 / (1.6 + 0.8). The components of the output are amounts, not shares."),
        right("0.2", "0.8 is a fifth of 4, and 1.6 is four fifths of 2; the two shares sum to 1."),
        wrong("That cannot be said without the scores.", "Scores lead to weights, and here the output leads back."),
    ],
)
def _():
    assert np.allclose(np.array([0.8, 0.2]) @ VALUES, [1.6, 0.8])
    assert np.allclose(np.linalg.solve(VALUES.T, [1.6, 0.8]), [0.8, 0.2])  # one solution only
    assert np.isclose(0.8 / 2.4, 0.33, atol=0.005)


@question(
    "ch1-far-query",
    section="Move the query",
    text="The query is moved very far along the first key, to [1000, 0]. Where does the output go?",
    choices=[
        right("Close to v_1, and no further.", "The first weight approaches 1. A mixture never leaves the segment."),
        wrong(
            "Past v_1, out along the line.",
            "That would need a share above 1 for the first value, and a negative one for the second.",
        ),
        wrong("To [1000, 0], where the query is.", "The query is only compared. What comes out is made of values."),
        wrong(
            "Nowhere: it depends on the values only.",
            "What is mixed are the values. How much of each, the query decides.",
        ),
    ],
)
def _():
    near, far = (attention(np.array([size, 0.0]), KEYS, VALUES).output for size in (1.0, 1000.0))
    assert np.allclose(far, VALUES[0]) and not np.allclose(near, far, atol=0.5)
    assert far[0] <= 2 and far[1] >= 0


@question(
    "ch1-two-best",
    section="Temperature",
    text="Three keys have the scores 1, 3 and 3. The temperature falls towards 0. What do the weights approach?",
    choices=[
        wrong("0, 0 and 1", "There is no single best key here. Equal scores have equal weights at every temperature."),
        right("0, ½ and ½", "The first falls behind. The two best differ by 0, and 0 divided by any T stays 0."),
        wrong("⅓, ⅓ and ⅓", "That is the other end, where T grows and all differences vanish."),
        wrong(
            "1/7, 3/7 and 3/7",
            "Those are the scores divided by their sum. One temperature happens to give that, about 1.82, but it is "
            "not near 0.",
        ),
    ],
)
def _():
    scores = np.array([1.0, 3.0, 3.0])
    assert np.allclose(softmax(scores / 0.01), [0, 0.5, 0.5])
    assert np.allclose(softmax(scores / 1e6), 1 / 3, atol=1e-5)
    for T in np.logspace(-2, 6, 50):
        _, second, third = softmax(scores / T)
        assert second == third
    assert np.allclose(softmax(scores / (2 / np.log(3))), scores / 7) and round(2 / np.log(3), 2) == 1.82
    assert not np.allclose(softmax(scores / 0.1), scores / 7, atol=0.1)


@question(
    "ch1-third-key",
    section="Score differences",
    text="The score of key 1 is 2 higher than that of key 2. A third key joins, with a score far above both. "
    "What happens to the ratio α_1 / α_2?",
    choices=[
        right(
            "It stays e^2.", "The ratio depends on the difference of these two scores alone, 2, whoever else is there."
        ),
        wrong("It approaches 1.", "Both weights become small, but by the same factor: the larger sum below the bar."),
        wrong("It shrinks: key 1 has more to lose.", "It loses more in absolute size, and the same percentage."),
    ],
)
def _():
    two, three = softmax(np.array([3.0, 1.0])), softmax(np.array([3.0, 1.0, 9.0]))
    assert np.isclose(two[0] / two[1], np.exp(2)) and np.isclose(three[0] / three[1], np.exp(2))
    assert three[:2].max() < 0.01 and two[0] - three[0] > two[1] - three[1]
    assert np.isclose(three[0] / two[0], three[1] / two[1])


@question(
    "ch1-all-twice",
    section="Copies of a key",
    text="*Every* key is stored twice, each time with its value. What happens to the output?",
    choices=[
        right(
            "It stays.",
            "Every key's total has the same factor 2, above and below the fraction bar. (ln 2 more for all scores is "
            "no difference.)",
        ),
        wrong(
            "It doubles: every value is added twice.",
            "It is added twice with half the weight. The weights still sum to 1.",
        ),
        wrong(
            "It moves towards the best match, which now has two votes.",
            "So have all the others. Copies raise a key only against keys that have fewer.",
        ),
    ],
)
def _():
    query = np.array([1.0, 0.0])
    once = attention(query, KEYS, VALUES).output
    twice = attention(query, np.repeat(KEYS, 2, axis=0), np.repeat(VALUES, 2, axis=0))
    assert np.allclose(twice.output, once) and np.isclose(twice.weights.sum(), 1)
    assert not np.allclose(attention(query, KEYS[[0, 0, 1]], VALUES[[0, 0, 1]]).output, once, atol=0.1)


@question(
    "ch1-masked",
    section="A first look at masks",
    text="Four keys have the weights 0.4, 0.3, 0.2 and 0.1. Then the first is masked. What is the second's weight now?",
    choices=[
        right("0.5", "The three others share the whole in their old proportions: 0.3 / (0.3 + 0.2 + 0.1)."),
        wrong("0.3", "Then the weights would sum to 0.6. The mask acts on the scores, *before* the sum is taken."),
        wrong(
            "0.43", "That hands out the 0.4 in three equal parts. But what grows is the factor that all have in common."
        ),
        wrong(
            "0.7",
            "That hands the 0.4 on to the next key. But all three that are left gain, each by the same factor.",
        ),
    ],
)
def _():
    scores = np.log([0.4, 0.3, 0.2, 0.1])
    assert np.allclose(softmax(scores), [0.4, 0.3, 0.2, 0.1])
    masked = softmax(np.where([False, True, True, True], scores, -np.inf))
    assert np.isclose(masked[1], 0.5) and np.allclose(masked / softmax(scores), [0, 5 / 3, 5 / 3, 5 / 3])
    assert np.isclose(0.3 + 0.4 / 3, 0.43, atol=0.005)


@question(
    "ch1-projection-doubled",
    section="Any number of pairs",
    text="In a model, the matrix W_q is doubled; W_k and W_v stay. What happens?",
    choices=[
        wrong("The output doubles.", "The output is made of values, and these come from W_v."),
        right(
            "All score differences double.",
            "All scores do, and with them their differences, as at temperature ½. So uneven weights get sharper.",
        ),
        wrong(
            "Nothing: the factor stands above and below the fraction bar.",
            "It would, if it multiplied the *exponentials*. It multiplies the scores, in the exponent.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    X, (W_q, W_k, W_v) = rng.normal(size=(5, 4)), rng.normal(size=(3, 4, 3))
    before, after = (attention(X[0] @ W, X @ W_k, X @ W_v) for W in (W_q, 2 * W_q))
    gaps = [np.subtract.outer(np.log(w), np.log(w)) for w in (before.weights, after.weights)]  # of the scores
    assert np.allclose(gaps[1], 2 * gaps[0]) and np.abs(gaps[0]).max() > 0.5
    assert after.weights.max() > before.weights.max() + 0.05
    assert not np.allclose(after.output, 2 * before.output, atol=0.1)


@question(
    "ch1-which-answers",
    section="Content addressing, and its gradient",
    text="(Derivatives.) In one row a key has the weight 0.999, in another row a key has 0.6. Each of the two scores "
    "rises by the same small amount, at T = 1. Which weight moves more?",
    choices=[
        wrong("The 0.999: large weights react most.", "Its factor α is larger, but 1 − α is only 0.001."),
        wrong("Both alike.", "Softmax is no straight line: how fast a weight answers depends on where it is."),
        right("The 0.6.", "It answers with α (1 − α) = 0.24, the other with 0.001: that one is saturated."),
    ],
)
def _():
    moved = {}
    for weight in (0.999, 0.6):
        scores = np.log([weight, 1 - weight])
        moved[weight] = softmax(scores + np.array([0.001, 0]))[0] - softmax(scores)[0]
    assert np.isclose(moved[0.6], 0.24e-3, rtol=0.01) and np.isclose(moved[0.999], 0.001e-3, rtol=0.01)
