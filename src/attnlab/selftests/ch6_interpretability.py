"""Self-tests of chapter 6."""

import numpy as np

from attnlab import attend, data, evidence, gaussian, softmax
from attnlab.selftests import question, right, wrong


@question(
    "ch6-all-different",
    section="Different weights, one output",
    text="All values of a head are different vectors. Does its output then fix its weights?",
    choices=[
        wrong(
            "Yes: each key adds something that no other key adds.",
            "Different is not enough. What one key adds, several others may add together: the middle one of the values "
            "1, 2 and 3 is half of the first and half of the last.",
        ),
        wrong(
            "No: weights can always move without the output moving.",
            "Not with two keys of different values. There the output says where on the segment it lies, and that is "
            "the weights.",
        ),
        right(
            "Not if there are at least two keys more than the values have dimensions.",
            "n weights have to meet d_v + 1 equations, one for each number of the output and the sum. From n = d_v + 2 "
            "on at least one direction stays free, however different the values are.",
        ),
    ],
)
def _():
    values = np.random.default_rng(0).normal(size=(9, 4))  # different vectors, d_v = 4
    assert [len(evidence.null_space(values[:n])) for n in (2, 5, 6, 9)] == [0, 0, 1, 4]
    for weights in ([0.0, 1, 0], [0.5, 0, 0.5]):
        assert weights @ np.array([1.0, 2, 3]) == 2


@question(
    "ch6-direction",
    section="What a weight carries",
    text=(
        "Key A has the weight 0.6 and a value of length 1, key B the weight 0.3 and a value of length 4. One number is "
        "read off the mixture. Which key adds more to it?"
    ),
    choices=[
        wrong(
            "A: it has twice the weight.",
            "A weight says how much of a value is taken. B's value is four times as long, so that the taken part of it "
            "is the longer one.",
        ),
        right(
            "That cannot be told from these four numbers.",
            "What is read off is the part of each value that points where the readout looks. At a right angle to it "
            "the longest value adds nothing.",
        ),
        wrong(
            "B: 0.3 · 4 is more than 0.6 · 1.",
            "This compares how long the two parts are. Whether what comes next looks in their direction it does not "
            "say.",
        ),
        wrong(
            "Both add the same, since softmax evens lengths out.",
            "Softmax sees scores, and no value. Nothing evens out the lengths of the values.",
        ),
    ],
)
def _():
    weights, readout = np.array([0.6, 0.3]), np.array([1.0, 0.0])
    for values, more in (([[1.0, 0], [0, 4]], 0), ([[0.0, 1], [4, 0]], 1)):
        assert np.allclose(np.linalg.norm(values, axis=1), [1, 4])
        assert np.argmax(weights * (np.array(values) @ readout)) == more
        assert np.argmax(evidence.value_weighted(weights, np.array(values))) == 1


@question(
    "ch6-interval",
    section="Two readers of reviews",
    text="Five seeds of a model are right in 0.807 of the texts, with the interval 0.803 to 0.811. What does it hold?",
    choices=[
        wrong(
            "The accuracy of 95 of 100 further trainings.",
            "A single training strays more than a mean of five: its range would be more than twice as wide.",
        ),
        wrong(
            "The worst and the best of the five.",
            "Those two depend on how many seeds there are: with more of them they move apart, while the interval gets "
            "narrower.",
        ),
        right(
            "With 95 % confidence, the mean of very many trainings.",
            "It says how far the mean of these five may be from the mean that many seeds would have. About a single "
            "training it does not speak.",
        ),
    ],
)
def _():
    draws = np.random.default_rng(0).normal(size=(4000, 5))  # five seeds, many times over; the true mean is 0
    half = evidence.spread(draws[0]).high - evidence.spread(draws[0]).mean
    student = half / (draws[0].std(ddof=1) / 5**0.5)
    low, high = (draws.mean(axis=1) + side * student * draws.std(axis=1, ddof=1) / 5**0.5 for side in (-1, 1))
    assert abs(np.mean((low < 0) & (high > 0)) - 0.95) < 0.02
    another = np.random.default_rng(1).normal(size=4000)  # one training more
    assert np.mean((low < another) & (another < high)) < 0.8
    assert 0.2 < np.mean(high - low > np.ptp(draws, axis=1)) < 0.8  # nor is it worst and best


@question(
    "ch6-yardstick",
    section="Six rankings",
    text=(
        "In the BiLSTM of reviews leave-one-out has a τ of 0.39 with attention, of 0.75 with the gradient, and of 0.59 "
        "with itself after a training from another seed. What do these numbers allow you to say?"
    ),
    choices=[
        wrong(
            "Attention is wrong, since leave-one-out shows what mattered.",
            "Leave-one-out asks what a gap does. That is one question among several, and its own answer changes with "
            "the seed.",
        ),
        right(
            "Attention has an order of its own, and that of leave-one-out depends partly on the training.",
            "0.39 is well below the 0.75 of two rankings that do ask for effects. And 0.59 says that the effects "
            "themselves come in another order after another training.",
        ),
        wrong(
            "Since two seeds agree to 0.59, no two rankings can agree better.",
            "Two rankings of *one* model share its training. Gradient and leave-one-out reach 0.75.",
        ),
        wrong(
            "The rankings are noise, for a good one would have a τ of 1 with itself.",
            "A random ranking has a τ near 0. What lies between 0 and 1 is partly the text and partly the training.",
        ),
    ],
)
def _():
    rankings = data.recorded("classifiers.json")["movie"]["bilstm"]["rankings"]
    of = {names: evidence.spread(row["values"]) for names, row in rankings["pairs"].items()}
    seeds = evidence.spread_of_pairs(rankings["between seeds"]["leave-one-out"]["values"])
    by_weight, by_gradient = of["attention | leave-one-out"], of["gradient × input | leave-one-out"]
    assert np.allclose([by_weight.mean, by_gradient.mean, seeds.mean], [0.39, 0.75, 0.59], atol=0.005)
    assert of["leave-one-out | random"].high < 0.05 < by_weight.low < by_weight.high < seeds.low
    assert seeds.high < by_gradient.low and seeds.high < 0.9


@question(
    "ch6-two-bands",
    section="Shuffled weights, and the worst ones",
    text=(
        "A classifier with *three* labels reads *two* numbers off the mixture, and each must stay in its band. At "
        "most how many keys have weight in the farthest weights?"
    ),
    choices=[
        wrong(
            "Two, as before.",
            "Two came from counting: the sum and one side of one band. A second band can hold exactly as well, and "
            "then one weight fewer has to be 0.",
        ),
        right(
            "Three.",
            "At a corner n conditions hold with “=”: the sum, at most one side of each band, so three that are no "
            "zeros. The other n − 3 are weights that are 0.",
        ),
        wrong(
            "Four, two for each number.",
            "The sum is one condition for both. It is 1 + 1 + 1, and not twice 1 + 1.",
        ),
        wrong(
            "All of them: the argument is for one number only.",
            "The argument is that a convex function is largest at a corner, and "
            "corners there are with any number of bands.",
        ),
    ],
)
def _():
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    weights, numbers = softmax(rng.normal(size=8)), rng.normal(size=(2, 8))
    for bands, most in ((1, 2), (2, 3)):
        read = numbers[:bands]
        sides = np.concatenate([read @ weights + 0.05, 0.05 - read @ weights])
        corners = [  # the farthest point in a direction is a corner
            linprog(c, np.concatenate([read, -read]), sides, np.ones((1, 8)), [1], method="highs-ds").x
            for c in rng.normal(size=(8, 8))
        ]
        assert max(np.count_nonzero(corner > 1e-9) for corner in corners) == most


@question(
    "ch6-guide",
    section="The reply",
    text=(
        "A model without context, trained with the weights of a trained adversary as its guide, is right in 0.550 of "
        "the reviews; with the same weights shuffled, in 0.562; with uniform ones, in 0.782. Why is the adversary a "
        "bad guide?"
    ),
    choices=[
        wrong(
            "Its weights pick worse words than chance would.",
            "Then its shuffle would be better; no difference shows.",
        ),
        wrong(
            "Its weights know nothing of the text, and no such guide is worth anything.",
            "Uniform weights know nothing of the text either, and they are right in 0.782.",
        ),
        right(
            "Mostly because its weights are so sharp.",
            "Shuffled, they are as sharp and lie elsewhere, and no difference shows. (With the weights of the *exact* "
            "adversary the words count for a little: 0.604, and shuffled 0.544.)",
        ),
    ],
)
def _():
    guide = {name: row["values"] for name, row in data.recorded("classifiers.json")["movie"]["guide"].items()}
    own, shuffled, uniform = (guide[name] for name in ("adversary", "adversary_shuffled", "uniform"))
    assert np.allclose([np.mean(x) for x in (own, shuffled, uniform)], [0.550, 0.562, 0.782], atol=0.0006)
    gap = evidence.spread(np.subtract(own, shuffled))
    assert gap.low < 0 < gap.high and gap.high < 0.1
    exact, elsewhere = guide["exact"], guide["exact_shuffled"]
    assert np.allclose([np.mean(exact), np.mean(elsewhere)], [0.604, 0.544], atol=0.0006)
    gap = evidence.spread(np.subtract(exact, elsewhere))  # the words count: little, beside what sharpness costs
    assert gap.low > 0 and gap.high < evidence.spread(np.subtract(uniform, exact)).low
    assert min(evidence.spread(np.subtract(uniform, x)).low for x in (own, shuffled)) > 0.15
    assert evidence.spread(np.subtract(guide["bilstm"], uniform)).low > 0  # and one that knows the text is better


@question(
    "ch6-even",
    section="Sharp and flat",
    text=(
        "The weights of model A are sharp, those of model B nearly even. Shuffling them moves A's output far, "
        "B's hardly. What follows?"
    ),
    choices=[
        wrong(
            "A's weights explain its output better.",
            "A's output depends on where the weight is. That the weight is on what matters would be another test.",
        ),
        right(
            "Little about B: even weights are the same in any order.",
            "Whatever B's weights are worth, a shuffle hardly changes them. An intervention has to change what is in "
            "question.",
        ),
        wrong(
            "B does not use its weights.",
            "It may: uneven weights in place of the even ones could move its output as far as A's.",
        ),
        wrong(
            "B's weights are undecided, so its output is, too.",
            "Evenness says how the mixture is shared out. An even mixture of values that all say “yes” is a clear yes.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    given, scores = rng.normal(size=12), rng.normal(size=12)
    predict, sharp, even = lambda w: w @ given, softmax(8 * scores), softmax(scores / 50)
    moved = {name: np.median(np.abs(evidence.permute(predict, w))) for name, w in (("A", sharp), ("B", even))}
    assert moved["A"] > 20 * moved["B"]
    assert abs(predict(sharp) - predict(even)) > 20 * moved["B"]  # B's model with uneven weights: its output moves
    assert np.isclose(even @ np.full(12, 5.0), 5)  # an even, clear yes


@question(
    "ch6-ablation",
    section="Heads of a language model",
    text=(
        "Four heads have an induction pattern. Without them the loss on repeats rises by 4.5 nats. “So they "
        "are for repeats.” What is missing?"
    ),
    choices=[
        wrong(
            "Their pattern scores, for the sentence is about weights.",
            "The scores were the reason to choose these four. That they are *used* is what the loss is asked for.",
        ),
        wrong(
            "More layers, until all 270 heads have been taken out.",
            "Without any head every text gets worse. That shows that heads are needed, and not which for what.",
        ),
        wrong(
            "Nothing: 4.5 nats is a factor of ninety in the probability.",
            "A large number with nothing beside it. Any head that is taken out may hurt, and these four may be needed "
            "for every text.",
        ),
        right(
            "What four random heads cost there, and what these four cost on other text.",
            "The one says whether it is *these* heads, the other whether it is *repeats*. Here both speak for the "
            "sentence: random heads cost little, and on reviews no cost of the four shows.",
        ),
    ],
)
def _():
    ablation = data.recorded("smollm2_heads.json")["ablation"]
    rows = ablation["repeat"]["words"]
    four = rows["k"].index(4)
    top, drawn = (np.array(rows[name][four]) for name in ("top", "random"))
    assert round(top.mean(), 1) == 4.5 and 85 < np.exp(top.mean()) < 95
    assert drawn.max() < 1  # other heads, the same text
    other = ablation["text"]["text"]
    cost = evidence.spread(other["top"][other["k"].index(4)])  # the same heads, other text
    assert cost.low < 0 < cost.high < 0.1


@question(
    "ch6-needed-enough",
    section="Heads of a language model",
    text=(
        "With head A replaced by its mean the answer is lost. Yet A's output from the clean run, patched into the "
        "corrupted one, brings nothing back. How can both be?"
    ),
    choices=[
        right(
            "A is needed, and alone it is not enough.",
            "Its work may be of use only together with what other heads bring. Ablation asks for the one, patching for "
            "the other.",
        ),
        wrong(
            "One of the two measurements is wrong.",
            "They ask different things. Of two heads that must work together, both results hold for each.",
        ),
        wrong(
            "A has no effect, and the ablation hurt by being unusual.",
            "With zeros that can happen. With its mean it is much less likely, though not excluded.",
        ),
    ],
)
def _():
    def measure(a, b):  # two heads of which each is of use only with the other; off, each gives its mean, 0.5
        return a * b - 0.6  # above 0: the answer wins

    def restored(patched):
        return (patched - corrupted) / (clean - corrupted)

    clean, corrupted = measure(1.0, 1.0), measure(0.0, 0.0)
    assert restored(measure(1.0, 0.0)) == 0  # head A from the clean run, alone
    assert restored(measure(1.0, 1.0)) == 1  # both
    for without in (0.5, 0.0):  # A, by its mean and by zero: the answer is lost
        assert clean > 0 > measure(without, 1.0) and restored(measure(without, 1.0)) <= 0.5


@question(
    "ch6-forbidden",
    section="The first token, again",
    text="A head gives the first token the weight 0.8. Now this token is forbidden. What happens to the other weights?",
    choices=[
        wrong(
            "They stay: only the first token's weight goes away.",
            "Then the row would sum to 0.2, and a row of softmax sums to 1. (With the *value* at 0 the row keeps its "
            "1, and what it carries is the other 0.2.)",
        ),
        wrong(
            "Each gets the same part of the 0.8.",
            "Softmax keeps the *ratios* of the others. What is parked on the sink is shared out in proportion.",
        ),
        wrong(
            "Each grows by four fifths of itself.",
            "Together they have 0.2 and must have 1. Growing by four fifths they would have 0.36.",
        ),
        right(
            "Each becomes five times as large.",
            "They are divided by their sum, 1 − 0.8 = 0.2. So the head, quiet before, speaks five times as loud, and "
            "that is a change of its own.",
        ),
    ],
)
def _():
    weights = np.array([0.8, 0.1, 0.06, 0.04])
    without = attend(np.log(weights), np.eye(4), np.arange(4) > 0).weights
    assert np.allclose(without, [0, *5 * weights[1:]])
    for other in (weights[1:], weights[1:] + 0.8 / 3, 1.8 * weights[1:]):
        assert not np.allclose(without[1:], other)
    assert np.isclose(1.8 * weights[1:].sum(), 0.36)


@question(
    "ch6-distance",
    section="Fooled by position",
    text=(
        "In all your texts the repeat begins 20 tokens on. A head looks at the token after the earlier occurrence, and "
        "without it the answer is lost. Which further test tells whether it looks for the *occurrence*?"
    ),
    choices=[
        wrong(
            "Other texts of the same format.",
            "There a head that looks 19 places back, whatever stands there, finds the same token.",
        ),
        right(
            "Texts whose repeat begins elsewhere.",
            "Now the two stories differ: who looks for the occurrence follows it, who counts places looks at the wrong "
            "token.",
        ),
        wrong(
            "Another token in the place that is looked at.",
            "Both would copy the new token. The test changes what is copied, and not how the place is found.",
        ),
        wrong(
            "The same ablation in more seeds.",
            "It shows that the head is needed, again. Both kinds of head are.",
        ),
    ],
)
def _():
    def by_occurrence(tokens):  # what comes next, for the last token
        return tokens[tokens.index(tokens[-1]) + 1]

    def by_place(tokens):
        return tokens[len(tokens) - 1 - 19]

    for shift, same in ((20, True), (15, False)):
        text = [*range(shift), *range(6)]
        copied = [99 if token == 6 else token for token in text]  # another token where the answer stands
        assert by_occurrence(text) == 6 and (by_place(text) == 6) == same
        assert by_occurrence(copied) == 99 and (by_place(copied) == 99) == same


@question(
    "ch6-by-position",
    section="Where weights inform",
    text=(
        "An aligner's largest weight finds the right letter in 94 % of the links. Somebody suspects that the model has "
        "merely learned where in a word of this length a sound tends to stand. Which baseline answers that?"
    ),
    choices=[
        wrong(
            "A letter drawn at random, as often as one likes.",
            "Whatever knows a little lies far above it, and so does a model that knows places alone.",
        ),
        wrong(
            "The same model, as it was before its training.",
            "It has learned nothing, places neither. So it cannot tell what kind of thing was learned.",
        ),
        right(
            "The model's own mean weights on other words of these lengths.",
            "They keep what depends on places and lose what depends on letters. A model of places alone would be equal "
            "to them; here they are more than ten points behind.",
        ),
    ],
)
def _():
    rng = np.random.default_rng(0)
    places = softmax(4 * rng.normal(size=(6, 9)))  # a model that knows places alone: six sounds over nine letters
    weights = np.repeat(places[None], 30, axis=0)  # (30 words, 6, 9)
    at = np.broadcast_to(places.argmax(axis=-1), (30, 6))
    found = {name: evidence.pointing(w, at) for name, w in evidence.baselines(weights).items()}
    assert (
        evidence.pointing(weights, at) == found["by position"] == 1 and max(found["uniform"], found["shuffled"]) < 0.3
    )
    of = data.recorded("spelling_alignment.json")["kinds"]["additive"]
    gap = np.subtract(of["methods"]["attention"]["found"], of["baselines"]["by position"]["found"])
    assert round(np.mean(of["methods"]["attention"]["found"]), 2) == 0.94 and evidence.spread(gap).low > 0.1


@question(
    "ch6-plausible",
    section="Where weights inform",
    text="Ten people mark the telling words of a text. A model's weights lie on these words. What has been shown?",
    choices=[
        right(
            "That the weights are plausible.",
            "They lie where people would put them. Whether the output would change with these words is another "
            "question, and nobody has asked it yet.",
        ),
        wrong(
            "That the weights are faithful.",
            "Faithful would mean that they say what the model did. People were asked what *they* find telling, and the "
            "model was not asked at all.",
        ),
        wrong(
            "That the model decides as people do.",
            "It looks where they look. What it makes of it is decided by the values and by what reads the mixture.",
        ),
        wrong(
            "Nothing, since people do not agree with each other.",
            "What they marked can be held against uniform and shuffled weights, and that shows something: about the "
            "picture.",
        ),
    ],
)
def _():
    weights, marked = np.array([0.05, 0.8, 0.15]), 1  # the weight is on the word that people mark
    values = np.array([[1.0, 0], [0, 3], [-1, 0]])

    def predict(w):  # and what reads the mixture does not look there
        return w @ values @ np.array([1.0, 0])

    assert evidence.pointing(weights[None], np.array([marked])) == 1
    assert evidence.pointing(np.full((1, 3), 1 / 3), np.array([marked])) < 1
    effects = evidence.leave_one_out(predict, weights, renormalize=False)
    assert effects[marked] == 0 and np.abs(effects).max() > 0


@question(
    "ch6-task",
    section="A checklist",
    text=(
        "“In 92 % of the letters the largest weight is on the name of the drug, with uniform weights in 8 %, by "
        "position in 11 %. Without that weight the logit falls clearly. All intervals over the five seeds lie far "
        "apart.” Which question of the checklist is open?"
    ),
    choices=[
        wrong(
            "Baseline.",
            "Uniform weights are one, 8 %, and the mean weights by position another, 11 %. Both are far behind.",
        ),
        wrong(
            "Intervention.",
            "The weight was taken away, and the logit moved. That is an intervention.",
        ),
        wrong(
            "Seeds.",
            "Five trainings show it, and their intervals lie far apart: it is not the luck of one.",
        ),
        right(
            "Task.",
            "The logit falls; does a decision change? If it is the same with uniform weights, the model does not need "
            "these weights for what it is there for.",
        ),
    ],
)
def _():
    values = np.array([9.0, 1.0, 1.0])  # the name speaks loudly for the answer, the rest a little
    weights, answers = np.array([[0.8, 0.1, 0.1]] * 4), np.ones(4, dtype=bool)

    def predict(w):
        return w @ values

    assert (
        evidence.pointing(weights, np.zeros(4, dtype=int))
        == 1
        > evidence.pointing(np.full((4, 3), 1 / 3), np.zeros(4, dtype=int))
    )
    assert evidence.leave_one_out(predict, weights[0])[0] > 5  # aim, baseline and intervention speak for it
    task = evidence.task_check(lambda w: predict(w) > 0, weights, answers)
    assert set(task.values()) == {1.0}  # and each answer stays with any weights


@question(
    "ch6-kernel",
    section="At the border",
    text=(
        "In kernel regression, moving the measurement y_i by 1 moves the estimate by α_i. And if not y_i but its place "
        "x_i, which is not the place asked for, moves a little?"
    ),
    choices=[
        wrong(
            "The same: the estimate moves by α_i times the step.",
            "The place is a *key*. It enters through the score, and not as a summand with the factor α_i.",
        ),
        wrong(
            "Nothing moves, since keys are only compared.",
            "What is compared sets the weights, and the weights set the mixture.",
        ),
        right(
            "All weights move, and α_i does not say how far the estimate goes.",
            "The weight is the influence of a *value*. The influence of a key runs through softmax, and depends on how "
            "y_i differs from the estimate.",
        ),
    ],
)
def _():
    x, y, i, step = np.array([0.1, 0.3, 0.6]), np.array([2.0, -1.0, 4.0]), 1, 1e-6

    def smooth(x, y):
        return attend(gaussian(np.array([[0.4]]), x[:, None], width=0.2), y[:, None])

    before, moved = smooth(x, y), np.eye(3)[i]
    assert np.isclose(smooth(x, y + moved).output - before.output, before.weights[0, i])
    after = smooth(x + step * moved, y)
    assert np.all(np.abs(after.weights - before.weights) > step / 100)
    at_top = smooth(np.array([0.1, 0.4 + step, 0.6]), y).weights - smooth(np.array([0.1, 0.4, 0.6]), y).weights
    assert np.all(np.abs(at_top) < step / 100)  # at the place asked for the score is flat
    slope = ((after.output - before.output) / step).item()
    assert abs(slope) > 0.1 and abs(slope - before.weights[0, i]) > 0.5
