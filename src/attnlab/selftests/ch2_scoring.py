"""Self-tests of chapter 2."""

import numpy as np

from attnlab import attend, core, softmax
from attnlab.selftests import question, right, wrong


@question(
    "ch2-tenfold",
    section="The same question, five answers",
    text="A key E joins: [20, 10], ten times the query [2, 1]. Where does it stand among the keys A to D?",
    choices=[
        wrong(
            "First under the dot product and under the Gaussian.",
            "The Gaussian does not look at directions. It measures distance, and E is far away.",
        ),
        right(
            "First under the dot product, last under the Gaussian.",
            "The dot product grows with the length of the key. The Gaussian falls with the distance from the query.",
        ),
        wrong(
            "Last under the dot product, first under the Gaussian.",
            "It is the other way round: length helps in a dot product and leads away from the query in the Gaussian.",
        ),
        wrong(
            "Second under both, after A, which is the query itself.",
            "Under the dot product being the query is no advantage: A scores 5, the long E 50.",
        ),
    ],
)
def _():
    query = np.array([2.0, 1.0])
    keys = np.array([[2.0, 1.0], [4.0, 3.0], [0.4, 0.2], [-1.0, 2.0], [20.0, 10.0]])
    dot, near = core.dot(query, keys), core.gaussian(query, keys, 1.0)
    assert dot.argmax() == 4 and near.argmin() == 4 and near.argmax() == 0
    assert dot[0] == 5 and dot[4] == 50


@question(
    "ch2-one-number",
    section="The dot product, and a matrix in between",
    text="Queries and keys of 512 numbers are each projected to *one* number, and the two are multiplied. "
    "What can such a score compare?",
    choices=[
        wrong(
            "Any component of the query with any of the key: W is 512 × 512.",
            "The table has 512 × 512 entries, but all of its rows are multiples of one row. They are not free.",
        ),
        wrong(
            "Component 1 with component 1, 2 with 2, and so on.",
            "That is the dot product of the vectors as they are. Here they are projected first.",
        ),
        right(
            "One number made of the query with one number made of the key.",
            "W has rank 1. Two queries that give the same number are the same query for this score, however they "
            "differ.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    queries, keys = rng.normal(size=(4, 512)), rng.normal(size=(5, 512))
    W_q, W_k = rng.normal(size=(1, 512)), rng.normal(size=(1, 512))
    W = W_q.T @ W_k
    assert W.shape == (512, 512) and np.allclose(W, np.outer(W_q, W_k))  # multiples of one row
    scores = core.dot(queries @ W_q.T, keys @ W_k.T)
    elsewhere = rng.normal(size=512)
    elsewhere -= W_q[0] * (elsewhere @ W_q[0]) / (W_q[0] @ W_q[0])  # at a right angle to the one direction
    assert np.allclose(core.general(queries + elsewhere, keys, W), scores)
    assert not np.allclose(core.dot(queries, keys), scores)


@question(
    "ch2-how-many-tanh",
    section="Additive scoring: a grid of pairs",
    text="Additive scores of 10 queries and 20 keys, with h = 8 hidden units. How many numbers go through tanh?",
    choices=[
        right("1600", "Every query meets every key, and each of the 10 · 20 pairs has 8 units."),
        wrong("200", "That is the number of pairs. Each pair has h sums before v makes one score of them."),
        wrong(
            "240",
            "That is (10 + 20) · 8, what the projections give. These are added pair by pair, and tanh comes after.",
        ),
        wrong(
            "80", "That is one key for each query. Adding without the two extra axes does that, where it runs at all."
        ),
    ],
)
def _():
    from_query, from_key = np.ones((10, 8)), np.ones((20, 8))
    assert (from_query[:, None, :] + from_key[None, :, :]).size == 1600
    assert from_query.size + from_key.size == 240 and 10 * 20 == 200
    assert (from_query + from_query).size == 80  # ten keys: each query meets its own


@question(
    "ch2-far-outside",
    section="Gaussian scoring: near means similar",
    text="Kernel regression with a narrow width is asked far to the right of all known points. What does it predict?",
    choices=[
        wrong(
            "Nearly 0: there all bell curves have vanished.",
            "All of them are tiny. But they are divided by their sum, which is as tiny.",
        ),
        wrong(
            "About the mean of all known y, since all points are far.",
            "All are far, and by unequal amounts. The differences of the scores are large here.",
        ),
        wrong(
            "What the curve does if it goes on as before.",
            "Nothing is continued: the output is a mixture of known y and never leaves their range.",
        ),
        right(
            "Nearly the y of the rightmost point.",
            "Every score is far below 0, but only differences count, and the nearest point is ahead of all others.",
        ),
    ],
)
def _():
    x_known = np.linspace(0, 6, 13)
    y_known = 1 + x_known
    scores = core.gaussian(np.array([[20.0]]), x_known[:, None], 0.4)
    predicted = attend(scores, y_known[:, None]).output.item()
    assert scores.max() < -500 and np.isclose(predicted, 7)  # y at x = 6
    assert not np.isclose(predicted, y_known.mean(), atol=1) and not np.isclose(predicted, 1 + 20)


@question(
    "ch2-unit-keys",
    section="When two scores are the same",
    text="All keys have length 1, the query has length 5. Which weights are sharper: those of the dot product, not "
    "scaled, or those of the Gaussian with w = 1?",
    choices=[
        wrong(
            "Those of the dot product, because the query is long.",
            "A long query makes the weights sharp, under both: the Gaussian contains the same dot product.",
        ),
        wrong(
            "Those of the Gaussian, because it punishes distance.",
            "Most of that distance is the same for all keys, and softmax takes it out.",
        ),
        right(
            "Neither.",
            "For keys of one length the penalty is the same for all, and so is the query's own length: the weights are "
            "equal.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    keys = rng.normal(size=(6, 3))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    query = np.array([3.0, 4.0, 0.0])
    dot = softmax(core.dot(query, keys))
    assert np.allclose(dot, softmax(core.gaussian(query, keys, 1.0)))
    assert dot.max() > softmax(core.dot(query / 5, keys)).max() + 0.1


@question(
    "ch2-twice-as-many",
    section="What each score costs",
    text="Twice as many queries and twice as many keys, h and d as before. By which factor does the memory of the "
    "scores grow?",
    choices=[
        wrong(
            "Additive with its grid: 8, dot product: 4.",
            "The grid has a third axis, h, but that one does not grow.",
        ),
        right(
            "Additive with its grid: 4, dot product: 4.",
            "The pairs quadruple. What differs is the number held for each pair: 2h, the sums and their tanh, "
            "against 1.",
        ),
        wrong(
            "Additive with its grid: 4, dot product: 2.",
            "The dot product needs little beside its result. But the result has a number for every pair.",
        ),
    ],
)
def _():
    def held(n, h=8):
        a = np.ones((n, h))
        sums = a[:, None, :] + a[None, :, :]
        return sums.size + np.tanh(sums).size, core.dot(a, a).size

    (grid, table), (larger_grid, larger_table) = held(10), held(20)
    assert larger_grid == 4 * grid and larger_table == 4 * table and grid == 2 * 8 * table


@question(
    "ch2-typical",
    section="How far dot products spread",
    text="Two vectors with 100 independent components each, mean 0 and variance 1. What size does their dot product "
    "typically have, whatever its sign?",
    choices=[
        right("About 10", "100 products of variance 1 add up to the variance 100. The standard deviation is its root."),
        wrong("About 100", "That is the *variance*. The size is its root."),
        wrong("About 0", "That is its *mean*. A mean of 0 says nothing about how far single ones lie from it."),
        wrong("About 1", "That is the size after the division by √d_k."),
    ],
)
def _():
    rng = np.random.default_rng(0)
    products = np.sum(rng.normal(size=(5000, 100)) * rng.normal(size=(5000, 100)), axis=1)
    assert abs(products.std() - 10) < 0.5 and 5 < np.median(np.abs(products)) < 10
    assert abs(products.mean()) < 0.5 and abs((products / 10).std() - 1) < 0.05 and abs(products.var() / 100 - 1) < 0.1


@question(
    "ch2-which-saturated",
    section="Saturation",
    text="Three rows of weights over sixteen keys. In which of them does a small change of the scores change next to "
    "nothing?",
    choices=[
        wrong(
            "Sixteen times 1/16.",
            "Each answers with α (1 − α) = 0.06, and there are sixteen. In the third row the large one answers with "
            "0.0001.",
        ),
        wrong(
            "Two keys with ½ each, the others with 0.",
            "The entropy is low, but between these two nothing is settled: ½ · ½ is as large as a derivative gets.",
        ),
        right(
            "One key with 0.9999, the others share the rest.",
            "α (1 − α) and all products of two weights are nearly 0. That is saturation.",
        ),
    ],
)
def _():
    def size(w):
        return np.linalg.norm(np.diag(w) - np.outer(w, w))

    even, two, one = np.full(16, 1 / 16), np.zeros(16), np.full(16, 0.0001 / 15)
    two[:2], one[0] = 0.5, 0.9999
    assert round(even[0] * (1 - even[0]), 2) == 0.06 and round(one[0] * (1 - one[0]), 4) == 0.0001
    assert size(one) < 0.001 and np.isclose(size(even), 0.24, atol=0.005) and np.isclose(size(two), 0.5)


@question(
    "ch2-variance-nine",
    section="When the assumptions fail",
    text="Independent components with mean 0 and variance 9, on both sides, and d = 64. Which factor gives the dot "
    "products standard deviation 1?",
    choices=[
        wrong("1/8", "That is 1/√d. It is right for variance 1."),
        wrong("1/24", "That is 1/(3 · 8). Both sides are three times as large, not one of them."),
        right("1/72", "A product of two components has the variance 9 · 9, and the root of 64 · 81 is 8 · 9."),
        wrong("1/81", "That is the variance of one product. There are 64, and it is the root that divides."),
    ],
)
def _():
    rng = np.random.default_rng(0)
    q, k = 3 * rng.normal(size=(2, 5000, 64))
    deviation = np.sum(q * k, axis=1).std()
    assert abs(deviation / 72 - 1) < 0.03
    for divisor in (8, 24, 81):
        assert abs(deviation / divisor - 1) > 0.1


@question(
    "ch2-query-bias",
    section="What no score can see",
    text="Under a general score qᵀ W k the same vector b is added to all *queries*. Which keys gain by it on others?",
    choices=[
        wrong(
            "None: it is the same for all, so softmax takes it out.",
            "Softmax takes out what is the same for all *keys*. The part bᵀ W k differs from key to key.",
        ),
        right(
            "Those with the larger bᵀ W k, under every query.",
            "The score gets the additional part bᵀ W k. Of two keys the one with more of it gains on the other, "
            "whoever asks.",
        ),
        wrong(
            "For each query those that match it best.",
            "The additional part contains no query: it is the same whichever query asks.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    queries, keys, W, b = rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
    before, after = core.general(queries, keys, W), core.general(queries + b, keys, W)
    assert np.allclose(after - before, keys @ (b @ W))  # one number a key, the same in every row
    assert not np.allclose(softmax(after), softmax(before), atol=0.1)
    ahead = [np.log(w[:, :, None] / w[:, None, :]) for w in (softmax(before), softmax(after))]  # of key i on key j
    assert np.allclose(ahead[1] - ahead[0], np.subtract.outer(keys @ (b @ W), keys @ (b @ W)))
    assert not np.array_equal(before.argmax(axis=1), np.full(3, (after - before)[0].argmax()))


@question(
    "ch2-only-keys",
    section="The choice of score on real data",
    text="Every known image is divided by its length; the images that are asked stay as they are. What decides "
    "now which key comes first under the dot product?",
    choices=[
        right(
            "The direction alone: the order is that of the cosine.",
            "Length is the same for all keys, and the query's own length is one factor for all.",
        ),
        wrong(
            "Length as before, since only one side was divided.",
            "The length that counted was that of the *keys*, which compete. A query competes with nobody.",
        ),
        wrong(
            "The direction, and the length of the query.",
            "That is one factor for all keys. It makes weights sharper or softer and changes no order.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    queries, keys = rng.uniform(size=(50, 8)), rng.uniform(size=(20, 8))
    keys[0] *= 10  # a bold one
    unit = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    cosine = core.dot(queries / np.linalg.norm(queries, axis=1, keepdims=True), unit)
    for asked in (queries, 5 * queries):
        assert np.array_equal(core.dot(asked, unit).argsort(axis=1), cosine.argsort(axis=1))
    assert np.all(core.dot(queries, keys).argmax(axis=1) == 0) and np.mean(cosine.argmax(axis=1) == 0) < 0.2


@question(
    "ch2-factor-in-the-matrix",
    section="A score that is learned",
    text="(Derivatives.) Two models give the same scores: one divides by √d, the other has W_q drawn √d times "
    "smaller and does not divide. They are trained with the same step size. What happens?",
    choices=[
        wrong(
            "They stay the same function throughout.",
            "They begin as one. But a step is taken in the *matrix*, and the same step counts more in the smaller one.",
        ),
        wrong(
            "They differ from the beginning: without the division softmax saturates.",
            "The scores are the same, so the weights are. Where the factor stands cannot be seen in them.",
        ),
        right(
            "They begin the same and part with the first step.",
            "The function does not know where its factor stands, but gradient descent does.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    W_q, W_k = rng.normal(size=(2, 16, 4))

    def scores(W, scale):
        return core.scaled_dot(x @ W.T, y @ W_k.T, scale)

    by_score = softmax(scores(W_q, 1 / 4)) - np.eye(3, 5)  # ∂loss/∂score, the loss being −ln of weight (i, i)
    first, second = (W - 0.1 * scale * (by_score @ y @ W_k.T).T @ x for W, scale in ((W_q, 1 / 4), (W_q / 4, 1)))
    assert np.allclose(scores(W_q, 1 / 4), scores(W_q / 4, 1))
    assert not np.allclose(scores(first, 1 / 4), scores(second, 1), atol=0.1)
