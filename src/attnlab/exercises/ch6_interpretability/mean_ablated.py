"""Exercise 6.5: mean_ablated, and what people write instead."""

import numpy as np

from ..common import IN_PLACE
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.5",
    points=2,
    section="Heads of a language model",
    statement=(
        "What does one head do? Take its output away and see. Zeros take away too much: also the constant part of the\n"
        "output, on which the layers after it rely. The mean keeps that part, and takes away what the head says about\n"
        "*this* token. Replace the output of head `head`, for every text and every position, by its mean over all\n"
        "texts and positions of `reference`: one vector of d numbers. All other heads stay, and so does `heads`\n"
        "itself: return a new array. One text has two heads of one feature, which give [[1], [2]] and [[5], [6]] at\n"
        "its two positions; with head = 0 and the same text as reference they become [[1.5], [1.5]] and [[5], [6]]."
    ),
    hints=[
        "Which two axes of `reference[:, head]` count texts and positions? A mean may go over several: `axis=(0, 1)`.",
        "`heads[:, head]` has the shape (B, n, d); a vector (d,) assigned to it goes to every text and position.",
        "An assignment into `heads` changes the array of the caller: begin with a copy.",
    ],
)
def mean_ablated(heads, head, reference):
    """Outputs of heads, those of one head replaced by its mean.

    heads (B, H, n, d): text, head, position, feature; head an integer;
    reference (B_ref, H, n_ref, d): other texts, of another length
    → (B, H, n, d)
    """
    mean = reference[:, head].mean(axis=(0, 1))  # (d,)
    ablated = heads.copy()
    ablated[:, head] = mean
    return ablated


_MISFIT = (
    "The texts of `reference` are neither as many nor as long as those of `heads`. What fits both is a mean over texts "
    "*and* positions: one vector (d,) for the head."
)


@mean_ablated.probes
def _(rng):
    # B, H, n, d, B_ref, n_ref. Small whole numbers for the card; then, twice, all but the features alike, so that no
    # wrong axis raises an error; then once as many texts as in `reference`, and once as many positions.
    small = [rng.permutation(np.arange(1.0, 9)).reshape(1, 2, 2, 2) * scale for scale in (1, 10)]
    sizes = [(2, 2, 2, 1, 2, 2), (3, 3, 3, 3, 3, 3), (2, 3, 4, 2, 2, 3), (2, 4, 3, 5, 4, 3), (2, 3, 5, 4, 3, 4)]
    cases = []
    for B, H, n, d, B_ref, n_ref in sizes:
        away = rng.normal(size=(H, 1, d))  # each head has a constant part of its own
        heads, reference = (away + rng.normal(size=shape) for shape in [(B, H, n, d), (B_ref, H, n_ref, d)])
        cases.append((heads, int(rng.integers(2)), reference))
    heads, head, reference = cases.pop()
    single = heads.astype(np.float32), head, reference.astype(np.float32)
    return [Probe(case, _MISFIT) for case in [(small[0], int(rng.integers(2)), small[1]), *cases, single]]


@mean_ablated.hard_probes
def _():
    rng = np.random.default_rng(6)
    heads, reference = rng.normal(size=(2, 3, 4, 2)), rng.normal(size=(3, 3, 5, 2))
    return {
        "the last head": Probe((heads, 2, reference), "Heads are counted from 0; the last one is head H − 1."),
        "one head": Probe((heads[:, :1], 0, reference[:, :1]), "A single head is replaced like any other."),
        "one text": Probe((heads[:1], 1, reference), "A single text is a batch of one."),
        "one position": Probe(
            (heads[:, :, :1], 1, reference[:1, :, :1]),
            "A single position in `reference` is its own mean.",
        ),
        "no change where all is constant": Probe(
            (np.ones((2, 2, 3, 2)), 1, np.ones((1, 2, 4, 2))),
            "A head that always says the same is not changed by its mean.",
        ),
    }


_ONE_VECTOR = "How many numbers should the mean of a head have?"


@mean_ablated.choice_points(
    by={
        "zeros": Wrong(
            "The head's output is replaced by zeros. Its constant part is gone, too, on which the layers after it "
            "rely: what you then see is partly the damage of an input that never occurs. Its mean keeps that part.",
            hint="What would replacing change if the head always gave the same vector?",
        ),
        "mean over texts": Wrong(
            "The mean runs over the texts only, and each position keeps one of its own: what the head says about a "
            "*position* stays. It also needs texts of one length.",
            hint=_ONE_VECTOR,
        ),
        "mean over positions": Wrong(
            "The mean runs over the positions only, and each text keeps one of its own: what the head says about a "
            "*text* stays. It also needs as many texts in `reference`.",
            hint=_ONE_VECTOR,
        ),
        "mean over features too": Wrong(
            "The mean runs over the features, too: one number stands in all of them. Features mean different things, "
            "and each has a mean of its own.",
            hint=_ONE_VECTOR,
        ),
        "mean of everything": Wrong(
            "The mean runs over all four axes: one number for all heads and features. Each feature of each head has a "
            "mean of its own.",
            hint=_ONE_VECTOR,
        ),
        "mean over features only": Wrong(
            "The mean runs over the features, the last axis. It should run over texts and positions, and leave one "
            "number for each feature.",
            hint="Which axes count texts and positions?",
        ),
        "mean over heads too": Wrong(
            "The mean runs over the heads, too. Each head has features of its own: what is the mean for one means "
            "nothing for another.",
            hint="Would your result change if only *another* head of `reference` did?",
        ),
        "first text": Wrong(
            "The head's output on the first text of `reference` is put in. That is resampling, a fair question as "
            "well; but it depends on which text was drawn. Asked for is the mean.",
            hint="Would your result change if the last text of `reference` did?",
        ),
        "one position of one text": Wrong(
            "One position of one text is put in everywhere. That is one sample, which depends on the draw. Asked for "
            "is the mean.",
            hint="Would your result change if the last text of `reference` did?",
        ),
        "sum": Wrong(
            "These are sums: divide by the number of texts and positions, or the head becomes louder the more texts "
            "there are.",
            hint="What if `reference` held every text twice?",
        ),
        "what differs from the mean": Wrong(
            "The mean is subtracted from the head's output. That keeps what the head says about each token and takes "
            "its constant part away: the opposite.",
            hint="Should the head's output still differ from position to position?",
        ),
    },
    of={
        "the texts themselves": Wrong(
            "The mean is taken over `heads`, the texts that are looked at. Of few texts it still says what they are "
            "about; and the result for one text would depend on the others beside it.",
            hint="Does `reference` enter your result?",
        ),
    },
    axis={
        "position": Wrong(
            "It is the wrong axis: in (B, H, n, d) position comes third, and `[:, :, head]` takes position number "
            "`head` of *all* heads. Heads are on the second axis.",
            hint="Which axis has the length H?",
        ),
        "text": Wrong(
            "It is the wrong axis: `[head]` takes *text* number `head`, with all its heads. Heads are on the second "
            "axis.",
            hint="Which axis has the length H?",
        ),
    },
    where={
        "all heads": Wrong(
            "All heads are replaced, each by its own mean. Asked is about one head; the others stay.",
            hint="Which part of your result should be equal to `heads`?",
        ),
        "the other heads": Wrong(
            "It is the other way round: this head stays, and all others are replaced.",
            hint="Which part of your result should be equal to `heads`?",
        ),
        "last position": Wrong(
            "Only the last position is replaced. Later layers read the others, too, and through them the head still "
            "speaks.",
            hint="At which positions should the head's output be the mean?",
        ),
        "first text": Wrong(
            "Only the first text is replaced. The head is to be silenced in all of them.",
            hint="In which texts should the head's output be the mean?",
        ),
    },
)
def _(heads, head, reference, *, by="mean", of="reference", axis="head", where="this head"):
    swapped = {"position": (1, 2), "text": (0, 1)}.get(axis, (0, 0))  # the axis of heads and the one taken for it
    x = heads.swapaxes(*swapped).copy()
    source = (heads if of == "the texts themselves" else reference).swapaxes(*swapped)
    every = np.arange(x.shape[1])
    which = {"all heads": every, "the other heads": every[every != head]}.get(where, [head])
    part = {"last position": np.s_[:, -1], "first text": np.s_[:1]}.get(where, np.s_[:])
    for h in which:
        x[:, h][part] = np.broadcast_to(_instead(x[:, h], source, h, by), x[:, h].shape)[part]
    return x.swapaxes(*swapped)


def _instead(x, source, h, by):
    """What stands in place of x (B, n, d), the output of head h."""
    own = source[:, h]
    return {
        "zeros": lambda: 0.0,
        "mean over texts": lambda: own.mean(axis=0),
        "mean over positions": lambda: own.mean(axis=1, keepdims=True),
        "mean over features too": lambda: own.mean(),
        "mean of everything": lambda: source.mean(),
        "mean over features only": lambda: own.mean(axis=-1, keepdims=True),
        "mean over heads too": lambda: source.mean(axis=(0, 1, 2)),
        "first text": lambda: own[0],
        "one position of one text": lambda: own[0, 0],
        "sum": lambda: own.sum(axis=(0, 1)),
        "what differs from the mean": lambda: x - own.mean(axis=(0, 1)),
    }.get(by, lambda: own.mean(axis=(0, 1)))()


@mean_ablated.mistake(
    "mean over positions, beside the texts",
    "The mean runs over the positions only: one vector for each *text* of `reference`, (B_ref, d). Assigned to "
    "(B, n, d) its first axis meets the positions: position i gets what text i says. One vector for all is asked for.",
    hint=_ONE_VECTOR,
)
def _(heads, head, reference):
    ablated = heads.copy()
    ablated[:, head] = reference[:, head].mean(axis=1)
    return ablated


@mean_ablated.mistake(
    "this head's mean in all heads",
    "The mean of this head stands in *all* heads. The others stay as they are.",
    hint="Which part of your result should be equal to `heads`?",
)
def _(heads, head, reference):
    return np.zeros_like(heads) + reference[:, head].mean(axis=(0, 1))


@mean_ablated.mistake(
    "the head alone",
    "This is the replaced head alone. Return all heads, this one among them, as (B, H, n, d).",
    hint="How many heads should the result have?",
)
def _(heads, head, reference):
    return np.zeros_like(heads[:, head]) + reference[:, head].mean(axis=(0, 1))


@mean_ablated.mistake(
    "the mean alone",
    "This is the mean, one vector. Put it in place of the head's output, in a copy of `heads`.",
    hint="How many axes should the result have?",
)
def _(heads, head, reference):
    return reference[:, head].mean(axis=(0, 1))


@mean_ablated.mistake(
    "cut out",
    "The head is cut out: the result has one head less, and every later head meets the rows of W_O that belong to "
    "another. Its place stays, filled with the mean.",
    hint="How many heads should the result have?",
)
def _(heads, head, reference):
    return np.delete(heads, head, axis=1)


@mean_ablated.mistake(
    "unchanged",
    "You returned `heads` as it was. An assignment to a *name* (`part = mean`) changes no array; one into a slice does "
    "(`ablated[:, head] = mean`).",
    hint="Which line of yours changes the array that you return?",
)
def _(heads, head, reference):
    return heads.copy()


@mean_ablated.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(heads, head, reference):
    heads[:, head] = reference[:, head].mean(axis=(0, 1))
    return heads


@mean_ablated.variant
def text_by_text(heads, head, reference):
    total, count = np.zeros(heads.shape[-1]), 0
    for text in reference:
        for vector in text[head]:
            total = total + vector
            count += 1
    result = np.array(heads, dtype=float)
    for text in result:
        text[head] = total / count
    return result


@mean_ablated.variant
def chosen_by_a_mask(heads, head, reference):
    means = reference.mean(axis=(0, 2))  # (H, d): texts are of one length, so the order of means does not matter
    this = np.arange(heads.shape[1]) == head
    return np.where(this[:, None, None], means[:, None], heads)


@mean_ablated.variant
def joined(heads, head, reference):
    """The means of texts of equal length have the mean of all positions as their mean."""
    mean = reference[:, head].mean(1).mean(0)
    instead = np.broadcast_to(mean, heads[:, :1].shape)
    return np.concatenate([heads[:, :head], instead, heads[:, head + 1 :]], axis=1)
