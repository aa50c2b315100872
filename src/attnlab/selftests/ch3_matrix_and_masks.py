"""Self-tests of chapter 3."""

import numpy as np

from attnlab import attend, attention, invariants, masks, softmax
from attnlab.selftests import question, right, wrong


def drawn(*shape):
    """Numbers of a generator that is new in every call."""
    return np.random.default_rng(0).normal(size=shape)


@question(
    "ch3-one-row",
    section="All queries at once",
    text="Row 2 of Q changes; K and V stay. Which rows of the output AV can change?",
    choices=[
        wrong(
            "All: softmax divides by a sum.",
            "It divides each row by the sum of *that row*. Queries do not share anything.",
        ),
        right(
            "Row 2 alone.", "Row 2 of the scores, of the weights and of the output belong to this query and no other."
        ),
        wrong("None: the output is made of values.", "It is, and how much of each is taken, the query decides."),
        wrong("Those whose query is like it.", "Queries are compared with keys, never with each other."),
    ],
)
def _():
    Q, K, V = drawn(4, 3), drawn(5, 3), drawn(5, 2)
    other = Q.copy()
    other[2] += 1
    moved = np.abs(attention(other, K, V).output - attention(Q, K, V).output).max(axis=1)
    assert moved[2] > 0.01 and np.all(moved[[0, 1, 3]] < 1e-12)


@question(
    "ch3-matches-nothing",
    section="Softmax runs along the keys",
    text="One key matches no query: its scores are far below all others. Softmax runs along the *queries* by mistake. "
    "How much weight does this key get, from all queries together?",
    choices=[
        right(
            "A whole, like every other key.",
            "Along the queries each column is divided by its own sum. It no longer matters how low a column lies.",
        ),
        wrong(
            "Next to none, since its scores are low.",
            "Low compared with *other keys*. Along the queries a key is compared with itself only.",
        ),
        wrong(
            "A fair part: one whole, divided by the number of keys.",
            "That would be an even division among the keys. Here nothing is divided among keys.",
        ),
    ],
)
def _():
    scores = drawn(3, 5)
    scores[:, 4] -= 50
    wrong_axis, along_keys = softmax(scores, axis=0), softmax(scores)
    assert np.allclose(wrong_axis.sum(axis=0), 1) and along_keys[:, 4].sum() < 1e-12


@question(
    "ch3-mask-late",
    section="A mask acts before softmax",
    text="The weights of a row are 0.5, 0.3 and 0.2. The third key is forbidden, and its weight is set to 0 *after* "
    "softmax. What comes out?",
    choices=[
        wrong(
            "What comes out with the mask before softmax.",
            "Before softmax the two others would share the whole: 0.625 and 0.375.",
        ),
        wrong(
            "An output in which a part of the third value is left.",
            "Its weight is 0, so nothing of its value is. What is left of it is its part in the sum below the bar.",
        ),
        right(
            "0.8 times the right output.",
            "The third key has taken its 0.2 before it was removed. The others have the right proportions, and too "
            "little.",
        ),
    ],
)
def _():
    scores, values, allowed = np.log([[0.5, 0.3, 0.2]]), drawn(3, 2), np.array([[True, True, False]])
    good, weights = attend(scores, values, allowed)
    assert np.allclose(weights, [[0.625, 0.375, 0]])
    assert np.allclose((softmax(scores) * allowed) @ values, 0.8 * good) and np.abs(good).max() > 0.1


@question(
    "ch3-who-notices",
    section="Causal masks",
    text="Five tokens under a causal mask. The token at position 3, counted from 0, becomes another one. Which outputs "
    "can change?",
    choices=[
        wrong(
            "Those of positions 0 to 3.",
            "These are the positions that position 3 *sees*. Asked for are those that see position 3.",
        ),
        wrong("That of position 3 alone.", "Position 4 is later, so it may look back at 3."),
        right("Those of positions 3 and 4.", "A token is seen by itself and by all later ones."),
        wrong("Those of all positions but 3.", "A token sees itself too: the diagonal is allowed."),
    ],
)
def _():
    x = drawn(5, 4)
    other = x.copy()
    other[3] += 1
    before, after = (attention(t, t, t, is_causal=True).output for t in (x, other))
    assert np.array_equal(np.abs(after - before).max(axis=1) > 1e-9, [False, False, False, True, True])


@question(
    "ch3-new-queries",
    section="More keys than queries",
    text="A cache holds seven keys, and three new tokens come. How many of the ten keys may the *first* of the three "
    "queries see?",
    choices=[
        wrong("1", "That is the top left: there the first query is taken for the first token of the text."),
        wrong("7", "Those are the old ones. Its own key is there as well, and it may see that."),
        right("8", "Seven old keys and its own. The last of the three sees all ten."),
        wrong("10", "Then it would see the two tokens that come after it."),
    ],
)
def _():
    assert masks.causal(3, 10).sum(axis=1).tolist() == [8, 9, 10]
    assert masks.causal(3, 10, align="top-left").sum(axis=1)[0] == 1


@question(
    "ch3-padded-left",
    section="A small algebra of masks",
    text="Sentences are filled up on the *left*. The mask is causal and nothing else. What goes wrong?",
    choices=[
        wrong(
            "Nothing: a causal mask hides placeholders.",
            "It hides what comes later. Placeholders at the end come later; on the left they are the past of all.",
        ),
        right(
            "The real tokens see placeholders.",
            "They stand before every real token, so a causal mask allows them. A padding mask has to forbid them.",
        ),
        wrong(
            "The placeholders see real tokens.",
            "They cannot: the real tokens are their future. And it would do no harm to the real ones.",
        ),
    ],
)
def _():
    is_real = np.array([False, False, True, True])
    allowed = masks.causal(4)
    assert allowed[is_real][:, ~is_real].all() and not allowed[~is_real][:, is_real].any()
    assert not (allowed & is_real)[:, ~is_real].any()
    assert not allowed[:2][:, [2, 3]].any()  # filled up on the right, the first two see no placeholder


@question(
    "ch3-two-additive",
    section="Masks as numbers",
    text="Two masks are numbers already, 0 and −∞. Which combination forbids what *either* of them forbids?",
    choices=[
        right("Their sum.", "−∞ plus anything that is not +∞ stays −∞, and 0 + 0 is 0."),
        wrong("Their product.", "0 · (−∞) is not a number: it destroys what one allows and the other forbids."),
        wrong("The larger of the two, place by place.", "0 is larger than −∞. So one mask that allows is enough."),
    ],
)
def _():
    one, other = np.array([0.0, -np.inf, 0.0, -np.inf]), np.array([0.0, 0.0, -np.inf, -np.inf])
    allowed = (one == 0) & (other == 0)
    assert np.array_equal(one + other == 0, allowed) and np.array_equal(one + other == -np.inf, ~allowed)
    with np.errstate(invalid="ignore"):
        assert np.isnan(one * other).tolist() == [False, True, True, False]
    assert np.array_equal(np.maximum(one, other) == 0, (one == 0) | (other == 0))


@question(
    "ch3-nothing-added",
    section="A row with nothing to attend to",
    text="A model *adds* the output of attention to each token's own vector. Under this course's policy, what becomes "
    "of a token that may attend to nothing?",
    choices=[
        wrong("It becomes NaN.", "By the plain formula it would: 0/0. The policy is that such a row has zero weights."),
        wrong(
            "It gets the mean of all values.",
            "That is what a large finite number *filled in* for −∞ does: a mean of values that were forbidden.",
        ),
        wrong("It becomes zero.", "The *output of attention* is zero. It is added, so the vector remains."),
        right("It stays as it is.", "Zero is added. That says what is true: nothing came from here."),
    ],
)
def _():
    x, allowed = drawn(2, 3), np.array([[True, True], [False, False]])
    assert np.array_equal((x + attention(x, x, x, allowed).output)[1], x[1])
    filled = np.where(allowed, x @ x.T, -1e9)
    assert np.allclose((softmax(filled) @ x)[1], x.mean(axis=0))


@question(
    "ch3-selected-away",
    section="NaN in the gradient",
    text="(Derivatives.) The mask −∞ was added, and one row of weights is NaN. `torch.where` replaces it by zeros "
    "before the loss is computed. Is the gradient of the scores safe?",
    choices=[
        right(
            "No: in that row it is NaN.",
            "The 0 from behind meets NaN in softmax, and 0 · NaN is NaN. The accident must be prevented *before* "
            "softmax.",
        ),
        wrong(
            "Yes: the loss no longer contains a NaN.",
            "The loss is right. The gradient also goes through the step that made the NaN, softmax.",
        ),
        wrong(
            "Yes: `torch.where` passes the derivative 0 to that row.",
            "It does, and softmax multiplies that 0 by its own weights, which are NaN.",
        ),
    ],
)
def _():
    import torch

    scores = torch.tensor([[0.2, -0.4], [1.0, 0.5]], requires_grad=True)
    M = torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]])
    weights = torch.softmax(scores + M, dim=-1)
    loss = torch.where(weights.isnan(), 0.0, weights)[:, 0].sum()
    loss.backward()
    assert loss.isfinite() and scores.grad[0].isfinite().all() and scores.grad[1].isnan().all()


@question(
    "ch3-other-placeholders",
    section="Padding, followed to the end",
    text="Attention has the padding mask, and the loss uses real tokens only. Now the placeholders get other vectors, "
    "finite ones. What changes?",
    choices=[
        wrong(
            "The outputs of the real tokens, a little.",
            "A masked key has the weight 0 exactly, so nothing of its value arrives.",
        ),
        wrong(
            "The loss: placeholders are queries, too.",
            "They are, and they have other outputs now. The loss does not use them.",
        ),
        wrong(
            "The gradient of the last matrix: it is summed over all tokens.",
            "Summed over all, with a slope of 0 at the placeholders.",
        ),
        right(
            "Only the placeholders' own outputs.",
            "They ask with another vector, and nobody reads the answer: mask and loss have each done their part.",
        ),
    ],
)
def _():
    x, W, is_real = drawn(4, 3), drawn(3, 2), np.array([True, True, False, False])
    other = np.where(is_real[:, None], x, 7.0)
    found = []
    for tokens in (x, other):
        output = attention(tokens, tokens, tokens, is_real).output
        slope = (softmax(output @ W) - [1, 0]) * is_real[:, None] / 2
        found.append((output, -np.log(softmax(output @ W))[is_real, 0].mean(), output.T @ slope))
    (before, *rest), (after, *others) = found
    assert np.array_equal(before[:2], after[:2]) and not np.allclose(before[2:], after[2:], atol=0.01)
    assert all(np.allclose(a, b) for a, b in zip(rest, others, strict=True))


@question(
    "ch3-counted-from-the-edge",
    section="Left padding, and positions",
    text="Sentences are filled up on the left, with the right mask, and positions are counted from the left edge. "
    "When does that do no harm?",
    choices=[
        wrong(
            "When the mask forbids all placeholders.",
            "It keeps their content out. The real tokens stand at the wrong positions nevertheless.",
        ),
        right(
            "When the model uses *distances* between positions only.",
            "All positions of a sentence are larger by the same number, and a difference of two does not see that.",
        ),
        wrong(
            "When the next token is read off at the last place.",
            "That place is right. But its vector was made with the position of a longer sentence.",
        ),
    ],
)
def _():
    tokens, place = drawn(3, 4), np.random.default_rng(1).normal(size=(5, 4))
    padded, is_real = np.vstack([np.zeros((2, 4)), tokens]), np.array([False, False, True, True, True])
    near = -np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))  # added to the scores, as a float mask
    alone, batch = tokens + place[:3], padded + place
    by_place = attention(alone, alone, alone).output[-1], attention(batch, batch, batch, is_real).output[-1]
    assert not np.allclose(*by_place, atol=0.1)
    bias = np.where(is_real, near, -np.inf)
    by_distance = attention(tokens, tokens, tokens, near[:3, :3]), attention(padded, padded, padded, bias)
    assert np.allclose(*(result.output[-1] for result in by_distance))


@question(
    "ch3-turned-padding",
    section="What libraries do with a mask",
    text="A sentence of three tokens and one placeholder. Its padding mask, True = real, is handed to a function for "
    "which True means *forbidden*. What do you see?",
    choices=[
        wrong(
            "An error: the mask is of the wrong kind.", "Both are tables of True and False. Nothing tells them apart."
        ),
        wrong("NaN in every row.", "That would need rows without any key. Here one key is left."),
        right(
            "The same output for every query.",
            "The placeholder is the only key that is left, so everybody gets its value, whole.",
        ),
        wrong("Uniform weights.", "The mask is obeyed, but turned round: three keys get nothing, and one gets all."),
    ],
)
def _():
    x, is_real = drawn(4, 3), np.array([True, True, True, False])
    output, weights = attention(x, x, x, ~is_real)
    assert np.array_equal(output, np.tile(x[3], (4, 1))) and np.array_equal(weights, np.tile([0, 0, 0, 1], (4, 1)))


@question(
    "ch3-what-is-proved",
    section="Tests that any attention must pass",
    text="A function passes `poison_future`: no later token changes an earlier output. What is known about it?",
    choices=[
        wrong(
            "That it computes causal attention.",
            "A function that returns zeros passes as well. The test asks for one promise only.",
        ),
        wrong(
            "That each output uses all tokens up to its own.",
            "About allowed tokens it says nothing. `content_sensitivity` asks that.",
        ),
        right(
            "That earlier outputs do not depend on later tokens, as far as tried.",
            "That is the promise, and it is a half. The other half is that allowed tokens *do* count.",
        ),
    ],
)
def _():
    def zeros(query, key, value, mask):
        return np.zeros((*query.shape[:-1], value.shape[-1]))

    def leaks(query, key, value, mask):
        return attention(query, key, value).output

    def causal(query, key, value, mask):
        return attention(query, key, value, mask).output

    assert invariants.poison_future(zeros) and not invariants.content_sensitivity(zeros)
    assert not invariants.poison_future(leaks) and invariants.content_sensitivity(leaks)
    assert invariants.poison_future(causal) and invariants.content_sensitivity(causal)


@question(
    "ch3-step-before",
    section="What a mask cannot undo",
    text="Each layer is a step on the tokens and then causal attention with the right mask. Which step lets the future "
    "through?",
    choices=[
        wrong("Each token is divided by its own length.", "The length of a token is a matter of that token alone."),
        right(
            "The mean over the *sequence* is subtracted from each token.",
            "That mean contains the later tokens. After it, the earlier ones carry something of them.",
        ),
        wrong(
            "A fixed vector for each position is added.", "It depends on the place, not on what stands at later places."
        ),
        wrong("Each token is replaced by the mean of itself and the one before.", "That looks back, which is allowed."),
    ],
)
def _():
    def before(token):
        return np.concatenate([token[..., :1, :], token[..., :-1, :]], axis=-2)

    steps = {
        "length": lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
        "mean": lambda x: x - x.mean(axis=-2, keepdims=True),
        "place": lambda x: x + np.arange(x.shape[-2])[:, None].astype(x.dtype),
        "back": lambda x: (x + before(x)) / 2,
    }
    for name, step in steps.items():

        def layer(x, mask, step=step):
            return attention(step(x), step(x), step(x), mask).output

        assert bool(invariants.poison_future(layer, width=4)) == (name != "mean")
