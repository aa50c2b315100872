"""Self-tests of chapter 4."""

import numpy as np

from attnlab import attention, data, heads, masks, softmax
from attnlab.selftests import question, right, wrong


@question(
    "ch4-one-more-token",
    section="Who asks, and who is looked up",
    text="A decoder with 2 tokens asks an encoder with 5. One more token is added to the encoder. What becomes of the "
    "output?",
    choices=[
        wrong(
            "It gets a third row, that of the new token.",
            "A row belongs to a token that asks, and two ask as before. The new token is one more that is looked up.",
        ),
        wrong(
            "Nothing: the five old tokens keep their weights.",
            "Each row shares out one whole. A sixth key takes a part of it, and the other weights shrink.",
        ),
        right(
            "Both of its rows change.",
            "Each row of weights gets a sixth column and is shared out anew. The number of rows is that of the askers.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    decoder, encoder = rng.normal(size=(2, 4)), rng.normal(size=(6, 4))
    before = attention(decoder, encoder[:5], encoder[:5])
    after = attention(decoder, encoder, encoder)
    assert after.output.shape == before.output.shape == (2, 4)  # no third row
    assert np.all(np.abs(after.output - before.output).max(axis=1) > 1e-3)  # both change
    assert np.all(after.weights[:, :5] < before.weights)  # the old weights shrink


@question(
    "ch4-what-a-head-sees",
    section="Several heads, one after the other",
    text="A token has 64 features, and each of 8 heads has the width 8. From which features are the scores of head 0 "
    "made?",
    choices=[
        right(
            "From all 64, boiled down to 8 numbers a token.",
            "Its `W_q` and `W_k` have 64 rows and 8 columns, so each of the 8 numbers is a mixture of all features.",
        ),
        wrong(
            "From features 0 to 7; head 1 has the next eight.",
            "That would cut the *tokens*. Each head projects the whole token first, and what is cut is the projection.",
        ),
        wrong(
            "From all 64, compared as freely as in one wide head.",
            "Every feature can count, but `W_q @ W_k.T` has the rank 8 at most. One wide head could have 64.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    x, W_q, W_k = rng.normal(size=(3, 64)), *rng.normal(size=(2, 64, 8))
    scores = x @ W_q @ (x @ W_k).T
    for feature in range(64):  # each one counts, not the first eight alone
        other = x.copy()
        other[:, feature] += 1
        assert not np.allclose(other @ W_q @ (other @ W_k).T, scores)
    assert np.linalg.matrix_rank(W_q @ W_k.T) == 8  # and not 64


@question(
    "ch4-reshape-alone",
    section="All heads at once",
    text="6 tokens of 12 features are reshaped from (6, 12) straight to (3, 6, 4), and no axes are exchanged. What "
    "does head 0 hold?",
    choices=[
        wrong(
            "The features 0 to 3 of all six tokens.",
            "That is what the *shape* promises: 6 tokens of 4 features. But a reshape reads on row after row.",
        ),
        right(
            "All features of the tokens 0 and 1.",
            "Head 0 gets the 24 numbers that are read first, and these are two whole tokens. Nothing else reaches it.",
        ),
        wrong(
            "The features 0, 3, 6 and 9 of all six tokens.",
            "So it would be if features were dealt out like cards. A reshape takes neighbours, not every third number.",
        ),
        wrong(
            "The features 0 to 3 of every other token.",
            "Nothing skips a token here: the numbers are taken as they are read, one token after the other.",
        ),
    ],
)
def _():
    x = np.arange(72).reshape(6, 12)  # 12 · token + feature
    head = x.reshape(3, 6, 4)[0]
    assert np.array_equal(head.ravel(), x[:2].ravel())
    for others in (x[:, :4], x[:, ::3], x[::2, :4]):
        assert set(head.ravel()) != set(others.ravel())
    assert np.array_equal(heads.split(x, 3)[0], x[:, :4])  # what was wanted


@question(
    "ch4-silent-head",
    section="Concatenate and project is a sum",
    text="In a layer of 4 heads the values of head 2 are set to 0. What happens to the output?",
    choices=[
        wrong(
            "The other heads take over the weight of head 2.",
            "Each head shares out a whole of its own. What one of them does with it changes no weight of another.",
        ),
        wrong(
            "It shrinks to three quarters.",
            "The output is a sum of four contributions, not their mean, and they need not be equally large.",
        ),
        wrong(
            "Only the features of block 2 become 0.",
            "So it is *before* the last projection. Through `W_o` each block reaches all features of the output.",
        ),
        right(
            "It loses one summand, and the other three stay.",
            "Head 2 adds nothing through its rows of `W_o`. That is what it means to remove a head.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    x, (W_q, W_k, W_v, W_o) = rng.normal(size=(5, 8)), rng.normal(size=(4, 8, 8)) / 3
    q, k, v = (heads.split(x @ W, 4) for W in (W_q, W_k, W_v))
    whole, silent = attention(q, k, v), attention(q, k, v * (np.arange(4) != 2)[:, None, None])
    lost = whole.output[2] @ W_o[4:6]
    output, left = (heads.merge(a.output) @ W_o for a in (whole, silent))
    assert np.allclose(left, output - lost) and np.array_equal(silent.weights, whole.weights)
    assert not np.allclose(left, 0.75 * output) and np.abs(left[:, 4:6]).min() > 1e-3


@question(
    "ch4-mean-of-heads",
    section="The layer, and PyTorch's",
    text="A layer of PyTorch with two heads, in evaluation mode, returns the weights [0.5, 0.5, 0] for a query, as it "
    "does by default. What do we know about its heads?",
    choices=[
        wrong(
            "Each shares its weight between the first two keys.",
            "The mean of [1, 0, 0] and [0, 1, 0] is the same. No head need have done what the mean shows.",
        ),
        right(
            "Neither looks at the third key.",
            "Weights are never negative, so a mean of 0 needs two zeros. Who looks at which of the others stays open.",
        ),
        wrong(
            "One looks at the first key, the other at the second.",
            "That is one possibility. Two heads that both have [0.5, 0.5, 0] give the same mean.",
        ),
        wrong(
            "Nothing at all.",
            "A mean hides how its parts differ. But a mean of 0 hides nothing, where no part can be negative.",
        ),
    ],
)
def _():
    import torch

    mean = torch.tensor([0.5, 0.5, 0.0])
    apart, alike = torch.tensor([[1.0, 0, 0], [0, 1, 0]]), mean.expand(2, 3)
    assert torch.equal(apart.mean(dim=0), mean) and torch.equal(alike.mean(dim=0), mean)
    for third in (1e-3, 0.1):  # any weight on the third key shows
        assert torch.tensor([[1 - third, 0, third], [0, 1, 0]]).mean(dim=0)[2] > 0
    torch.manual_seed(0)
    layer, x = torch.nn.MultiheadAttention(4, 2, dropout=0.9, batch_first=True), torch.randn(1, 3, 4)
    assert (layer(x, x, x)[1] == 0).any()  # in training dropout makes zeros
    layer.eval()
    each = layer(x, x, x, average_attn_weights=False)[1]
    assert torch.allclose(layer(x, x, x)[1], each.mean(dim=1)) and (each > 0).all()  # "by default"


@question(
    "ch4-same-output",
    section="A head can change while the output stays",
    text="Two layers give the same output for every input. In the first, one head puts all its weight on the first "
    "token. What follows for the second?",
    choices=[
        wrong(
            "It has such a head, too, perhaps under another number.",
            "Reordering heads is only one of the things that the output does not show. Idle heads are another.",
        ),
        wrong(
            "It has such a head, perhaps with other queries and keys.",
            "A change of basis keeps the weights. But other changes that nobody hears do not keep them.",
        ),
        right(
            "Nothing: it need not have such a head.",
            "The head of the first layer may be idle: values of 0, any weights. The output is the sum, and it adds 0.",
        ),
        wrong(
            "The mean of its heads looks at the first token as much.",
            "The output fixes the sum of what the heads *bring*. It does not fix where they look, not even on average.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(4, 6)), rng.normal(size=(4, 3))
    heard = attention(x / 3, x / 3, v)
    idle = np.zeros((4, 4))
    idle[:, 0] = 1.0  # all weight on the first token, values of 0
    output = heard.output + idle @ np.zeros((4, 3))
    assert np.array_equal(output, heard.output)
    assert heard.weights[:, 0].max() < 0.9  # the layer without the idle head
    mean = (heard.weights + idle) / 2
    assert np.all(mean[:, 0] > heard.weights[:, 0] + 0.05)


@question(
    "ch4-by-content",
    section="A job that can be checked",
    text="The words of a text are shuffled. The uneven table of a head comes out shuffled in the same way: each word "
    "looks at the same words as before, wherever they have gone. By what does this head look?",
    choices=[
        right(
            "By content: positions play no part in its scores.",
            "A weight that moves along with the two words depends on them. A head that goes by place keeps its table.",
        ),
        wrong(
            "By position: it looks at certain places.",
            "Then it would look at the same *places* as before, whatever words stand there, as head 0.2 does.",
        ),
        wrong(
            "By grammar: it finds the words that belong together.",
            "In a heap of shuffled words there is no grammar left to find, and the head does what it did before.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    words, places, order = rng.normal(size=(6, 4)), 4 * np.eye(6), rng.permutation(6)
    moved = np.ix_(order, order)

    def table(words, places):
        """Scores of the content of both, and of the place before."""
        return softmax(words @ words.T + places @ np.roll(places, 1, axis=1).T)

    by_content, by_place = table(words, 0 * places), table(0 * words, places)
    assert np.allclose(table(words[order], 0 * places), by_content[moved])
    assert np.allclose(table(0 * words[order], places), by_place)  # stays
    assert by_content.max() > 3 / 6  # uneven: even weights would look the same, shuffled or not
    assert not np.allclose(by_place, by_place[moved])


@question(
    "ch4-best-of-many",
    section="A head for reference?",
    text="72 heads answer by tossing coins. On 100 sentences the best of them is picked, and then it is asked 100 new "
    "ones. How often is it right, on the first and on the new ones?",
    choices=[
        wrong(
            "Half the time on both: no coin is better than another.",
            "On the first hundred one of 72 *was* luckier than the others, and that one was picked for its luck.",
        ),
        wrong(
            "In about six of ten on both: the best stays the best.",
            "What made it the best was luck, and luck does not carry over. That is why new texts judge.",
        ),
        wrong(
            "In nearly all of the first: with 72 there is a perfect one.",
            "One coin in 2¹⁰⁰ is right a hundred times. 72 coins reach about six of ten.",
        ),
        right(
            "In about six of ten of the first, in half of the new ones.",
            "Picking the best of many is itself a source of good numbers. On sentences that had no say it is gone.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    first, new = rng.random((2, 300, 72, 100)) < 0.5  # 300 repetitions
    shares, again = first.mean(axis=2), new.mean(axis=2)
    best = shares.argmax(axis=1)
    assert 0.58 < shares.max(axis=1).mean() < 0.66 and shares.max() < 0.8
    assert abs(again[np.arange(300), best].mean() - 0.5) < 0.02


@question(
    "ch4-two-removals",
    section="Which heads can go",
    text="Without head A a model decides all texts as before. Without head B, too. What does it do without both?",
    choices=[
        wrong(
            "It decides as before: the contributions of heads are added.",
            "The contributions add up, but what reads the sum need not: a threshold may be passed with either of them.",
        ),
        right(
            "These two measurements do not tell.",
            "Each may stand in for the other. Then one removal shows nothing, and both together show a lot.",
        ),
        wrong(
            "It must fail: together they would be the missing part.",
            "They may as well be idle, both of them. Heads that nobody hears can all go.",
        ),
    ],
)
def _():
    def decides(*contributions):
        """Yes or no, read off the sum of what the heads bring."""
        return sum(contributions) > 0.5

    outcomes = []
    for a, b in [(1.0, 1.0), (0.0, 0.0)]:  # both bring the answer; neither brings anything
        assert decides(a) == decides(b) == decides(a, b)  # without one of them: as before
        outcomes.append(decides() == decides(a, b))
    assert outcomes == [False, True]


@question(
    "ch4-one-vector",
    section="Before the Transformer",
    text="The error of the fixed context climbs on to the words of 13 letters, that of attention only up to nine. "
    "Which explanation agrees with the numbers of the section?",
    choices=[
        wrong(
            "The model with the fixed context is the smallest.",
            "It has the most learned numbers of all five. It was made a little wider for just this reason.",
        ),
        wrong(
            "It was trained too little: more steps close the gap.",
            "After three times as many steps the gap is smaller and still wide.",
        ),
        right(
            "One vector has to hold the whole word, however long it is.",
            "With attention there is a state for each letter, and each sound gets a mixture of its own. (A word of the "
            "training can be known by heart: there the fixed context does far better.)",
        ),
        wrong(
            "Long words have sounds that it never learned.",
            "Both models meet the same words. With attention the error stays where it is from nine letters on.",
        ),
    ],
)
def _():
    import json
    from importlib.resources import files

    found = json.loads((files("attnlab.data") / "spelling.json").read_text())
    kinds, longer = found["kinds"], found["longer"]
    learned = {kind: row["parameters"] for kind, row in kinds.items()}
    assert max(learned, key=learned.get) == "fixed"
    assert longer["fixed"]["phoneme_error"] > 1.5 * longer["additive"]["phoneme_error"]
    by_heart = {
        k: longer[k]["phoneme_error"] - longer[k]["phoneme_error_on_training_words"] for k in longer if k in kinds
    }
    assert by_heart["fixed"] > 2 * by_heart["additive"] and by_heart["fixed"] > longer["fixed"]["phoneme_error"] / 3
    edits = {k: np.mean([r["edits"] for r in kinds[k]["runs"]], axis=0) / found["phonemes"] for k in learned}
    assert found["lengths"][5] == 9 and found["lengths"][-1] == 13
    assert edits["fixed"][-1] > 1.2 * edits["fixed"][5]  # from nine letters on
    assert np.ptp(edits["additive"][5:]) < 0.03 and edits["additive"][5] > 1.5 * edits["additive"][0]
    long_words = {p for word, sounds in data.pronunciations().test if len(word) > 9 for p in sounds}
    assert long_words <= {p for _, sounds in data.pronunciations().train for p in sounds}


@question(
    "ch4-one-voice-of-many",
    section="What the Transformer changed",
    text="An untrained layer of self-attention reads 40 tokens, and then a text of 400. How strongly does one token "
    "act on the last one in the longer text?",
    choices=[
        right(
            "About a tenth as strongly, wherever it stands.",
            "The weights are nearly even, so each token is one voice among n. Distance plays no part, the number does.",
        ),
        wrong(
            "As strongly as before, since distance makes no difference.",
            "Distance makes none. But the last token has one whole to share out, and now among ten times as many.",
        ),
        wrong(
            "The near ones as before, those far away hardly at all.",
            "That is a recurrent layer, where everything passes through the states between.",
        ),
    ],
)
def _():
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(10)]  # drawn as PyTorch does

    def reach(n, place):
        """How far the last output moves when one token does, a little; and the largest of its weights, times n."""
        moved, largest = [], []
        for layer in layers:
            x = torch.randn(1, n, 16, requires_grad=True)
            output, weights = layer(x[:, -1:], x, x)
            (slope,) = torch.autograd.grad(output.square().sum().sqrt(), x)
            moved.append(slope[0, place].norm().item())
            largest.append(n * weights.max().item())
        return np.mean(moved), np.mean(largest)

    short = np.mean([reach(40, place)[0] for place in (38, 0)])
    for place in (398, 0):  # near and far are alike
        moved, largest = reach(400, place)
        assert 0.05 < moved / short < 0.2 and 1.5 < largest < 20  # weights that are not even, and nearly so


@question(
    "ch4-causal-exchange",
    section="Attention does not know the order",
    text="One layer of self-attention, no positions. A text begins with the tokens A and B, and they change places. "
    "Does A get the same vector as before, only elsewhere?",
    choices=[
        wrong(
            "Yes, with a causal mask and without one.",
            "The mask belongs to places, and stays where it is. At the second place A may see B, which it could not "
            "before.",
        ),
        right(
            "Without a mask yes, with a causal one no.",
            "Without a mask A asks the same set of tokens, wherever they stand. Under the mask it saw only itself "
            "before, and sees B as well now.",
        ),
        wrong(
            "No, neither with a causal mask nor without one.",
            "Without a mask nothing changes for A: the same keys, and the same values in a sum that has no order.",
        ),
        wrong(
            "With a causal mask yes, without one no.",
            "It is the other way round: the mask is the only thing in this layer that knows places.",
        ),
    ],
)
def _():
    x = np.random.default_rng(0).normal(size=(5, 4))
    exchanged = x[[1, 0, 2, 3, 4]]
    for is_causal in (False, True):
        before, after = (attention(t, t, t, is_causal=is_causal).output for t in (x, exchanged))
        assert (np.abs(after[1] - before[0]).max() > 0.1) == is_causal  # A, at the second place now


@question(
    "ch4-moved-text",
    section="Positions, turned",
    text="Ten placeholders are put in front of a text. They are masked, but positions are counted from the left edge. "
    "With rotary positions, what happens to the scores between the text's own tokens?",
    choices=[
        wrong(
            "All of them change, since all tokens are turned further.",
            "Queries and keys are turned further by the same angle. In a dot product of the two that cancels.",
        ),
        wrong(
            "Those of neighbours stay, those of distant tokens change.",
            "A pair far apart is as far apart after the move. The difference of its positions is the same.",
        ),
        right(
            "None changes: only differences of positions count.",
            "Positions that are *added*, as in chapter 3, would have to be counted over the real tokens.",
        ),
    ],
)
def _():
    def turn(x, positions):
        angles = np.outer(positions, 10000.0 ** (-np.arange(0, 8, 2) / 8))
        return (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)  # pairs, as points

    rng = np.random.default_rng(0)
    q, k, added = rng.normal(size=(3, 6, 8))
    here, there = (np.real(turn(q, p) @ turn(k, p).conj().T) for p in (np.arange(6), np.arange(6) + 10))
    assert np.allclose(here, there)  # near and far pairs alike
    assert not np.allclose(turn(q, np.arange(6)), turn(q, np.arange(6) + 10))
    assert not np.allclose(q @ k.T, (q + added) @ (k + added).T)  # added ones count


@question(
    "ch4-norm-over-tokens",
    section="What stands around attention",
    text="In a causal block somebody computes the norm's mean and size over *all tokens* of the text, and not for each "
    "token by itself. What breaks?",
    choices=[
        wrong(
            "Nothing, as long as the mask of the attention is right.",
            "The mask guards the attention alone. What the norm has mixed before, no mask can take out again.",
        ),
        wrong(
            "The size of the numbers: they grow from layer to layer.",
            "Over all tokens together the numbers are brought to one size as well. Something else is lost.",
        ),
        right(
            "An early token's output now depends on later tokens.",
            "A block is causal because only attention mixes tokens, and it is masked. Now the norm mixes them, too.",
        ),
    ],
)
def _():
    x = np.random.default_rng(0).normal(size=(5, 4))
    other = x.copy()
    other[-1] += [3.0, 0.0, -1.0, 0.0]  # only the last token

    def moves(axis):
        def normed(x):
            return (x - x.mean(axis=axis, keepdims=True)) / x.std(axis=axis, keepdims=True)

        a, b = (attention(*[normed(t)] * 3, masks.causal(5)).output for t in (x, other))
        assert abs(normed(100 * x).std() - 1) < 1e-9  # the size is kept either way
        return np.abs(a - b).max(axis=1)[:4]

    assert np.all(moves(axis=1) < 1e-12)  # each token by itself
    assert np.all(moves(axis=(0, 1)) > 1e-3)


@question(
    "ch4-shuffled-patches",
    section="Pieces of a picture are tokens",
    text="All pictures are cut into patches, and the patches of each are shuffled in *one and the same* way, in "
    "training and in the test. Which of the two models gets worse: with learned positions, or without?",
    choices=[
        wrong(
            "With positions: its places are wrong now.",
            "Positions that are learned are names for places. Any order will do, if it is always the same.",
        ),
        wrong(
            "Without positions: it has nothing to undo the shuffle.",
            "It need not undo it. It sees a bag of patches, and a shuffled bag is the same bag.",
        ),
        wrong(
            "Both: the picture is destroyed.",
            "To our eyes, which expect neighbours. Nothing in these models knows which patches are neighbours.",
        ),
        right(
            "Neither of them.",
            "Without positions a bag stays a bag. With them, a vector is learned for each place as it now is.",
        ),
    ],
)
def _():
    import torch

    torch.manual_seed(0)
    pictures = torch.randn(300, 9, 4, dtype=torch.float64)  # 200 to train, 100 to test; what counts stands at one place
    answers, order = (pictures[:, 2, 0] > 0).double(), torch.randperm(9)

    def read(x, q, u, places):
        return attention(q, x + places, x + places).output @ u

    def right_in_test(x, learns_places):
        q, u, places = (torch.full(size, start, dtype=torch.float64, requires_grad=True)
                        for size, start in (((4,), 1.0), ((4,), 1.0), ((9, 4), 0.0)))  # fmt: skip
        learned = [q, u] + [places] * learns_places
        for i in range(40):  # steps downhill, ever shorter
            logits = read(x[:200], q, u, places)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, answers[:200])
            for part, slope in zip(learned, torch.autograd.grad(loss, learned), strict=True):
                part.data -= 0.3 * 0.95**i * slope / slope.norm()
        return ((read(x[200:], q, u, places) > 0) == (answers[200:] > 0)).double().mean().item()

    for learns_places, low, high in ((True, 0.9, 1), (False, 0.4, 0.75)):
        found = [right_in_test(x, learns_places) for x in (pictures, pictures[:, order])]
        assert abs(found[0] - found[1]) < 0.02 and low < found[0] <= high  # neither gets worse
