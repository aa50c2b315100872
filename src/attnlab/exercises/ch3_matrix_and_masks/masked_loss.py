"""Exercise 3.8: masked_loss, and what people write instead."""

import numpy as np

from ..common import IN_PLACE, INTEGERS, OVERFLOW
from ..engine import Probe, Wrong, exercise


@exercise(
    "3.8",
    points=2,
    section="Padding, followed to the end",
    statement=(
        "The loss of a language model, without its padding: at each real position minus the logarithm of the weight\n"
        "that softmax gives to the right label, averaged over the real positions; if there are none, the loss is 0.\n"
        "Logits may be as large as 1000: there `-np.log(softmax(logits))` breaks, with the logarithm of a weight 0.\n"
        "For the logits [2, 0], [0, 2], [0, 4], the labels 0, 1, 0 and a last position that is padding, the loss is\n"
        "0.1269; with the padding counted it would be 1.4240."
    ),
    hints=[
        "The logarithm of softmax is `shifted - log(sum(exp(shifted)))`, where `shifted` is the row minus its maximum.",
        "`log_probs[is_real, labels[is_real]]` picks one number from each real row. Average these, and mind that there "
        "may be none.",
    ],
)
def masked_loss(logits, labels, is_real):
    """Mean of −ln of the right label's weight, over the real positions.

    logits (n, number of labels); labels (n,) of integers;
    is_real (n,) of bool → a number, 0 if no position is real
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)  # (n, labels)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)  # (n, 1)
    log_probs = shifted - np.log(total)
    losses = -log_probs[is_real, labels[is_real]]  # (real positions,)
    return losses.sum() / max(len(losses), 1)


@masked_loss.probes
def _(rng):
    # Padding is labelled 0, as a tokenizer does whose padding is token 0. That is a real label as well.
    cases = []  # as many positions as labels, twice: there a forgotten axis raises no error
    for n, vocab, real in [(5, 3, 3), (3, 3, 2), (6, 5, 4), (4, 4, 3)]:
        labels = np.append(0, rng.permutation(np.arange(1, vocab)))[:real]
        labels = np.append(labels, np.zeros(n - real, dtype=int))
        cases.append((rng.normal(size=(n, vocab)) * 1.5, labels, np.arange(n) < real))
    return [*cases[:3], (cases[3][0].astype(np.float32), *cases[3][1:])]


_LARGE = "For logits around 1000 the loss is wrong or infinite: subtract each row's largest before `exp`."


@masked_loss.hard_probes
def _():
    logits, labels = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 4.0]]), np.array([0, 1, 0])
    broken = logits.copy()
    broken[2] = np.nan
    first_two = np.array([True, True, False])
    return {
        "the report": Probe((logits, labels, first_two), "The example of the statement is 0.1269."),
        "large logits": Probe((np.array([[1000.0, 1001.0], [0.0, 1.0]]), np.array([0, 1]), first_two[:2]), _LARGE),
        "a label far below": Probe(
            (np.array([[1000.0, 0.0], [0.0, 1.0]]), np.array([1, 1]), first_two[:2]),
            "When the right label lies far below another, its weight is rounded to 0, and the logarithm of 0 is −∞. "
            "Subtract the logarithm of the sum from the logits; do not take the logarithm of the weights.",
        ),
        "only padding": Probe(
            (logits, labels, np.zeros(3, dtype=bool)), "Where all is padding the loss is 0; the mean of nothing is NaN."
        ),
        "padding in front": Probe(
            (logits, labels, first_two[::-1]), "Padding may stand in front: it is `is_real` that says where."
        ),
        "integers": Probe((logits.astype(int), labels, first_two), INTEGERS, True, True),
        "a label of −100": Probe(
            (logits, np.array([0, 1, -100]), first_two),
            "padding is often labelled −100, which is no index. Choose the real rows first, then look up their labels.",
            advice=True,
        ),
        "broken padding": Probe(
            (broken, labels, first_two),
            "a NaN in the padding comes through, since 0·NaN is NaN. Leaving rows out keeps it out; multiplying by the "
            "mask does not.",
            advice=True,
        ),
    }


_UNDERFLOW = Wrong(
    "You take the logarithm of the weights. A weight far below the others is rounded to 0, and log 0 is −∞. Written as "
    "logits minus the logarithm of the sum of exponentials, the number stays exact.",
    hint="What is the loss for the logits [1000, 0] and the label 1?",
)
_ADDED = Wrong(
    "A billionth is added to the weights, against log 0. That moves every loss a little, and caps it at 20.7: the more "
    "wrong the model is, the less it learns. Logits minus the logarithm of the sum of exponentials need no such help.",
    hint="What is the loss for the logits [1000, 0] and the label 1?",
)


@masked_loss.choice_points(
    shift={
        "none": OVERFLOW,
        "none, in logarithms": OVERFLOW,
        "log of softmax": _UNDERFLOW,
        "a billionth added": _ADDED,
    },
    empty={
        "0/0": Wrong(
            "Where every position is padding you divide 0 by 0. The loss is then not a number, and one step of "
            "training spreads it to all parameters. Divide by at least 1.",
            hint="What does `np.mean` give for an empty array?",
        )
    },
    inputs={"overwritten": IN_PLACE},
)
@masked_loss.choice_points(
    kept={
        "all": Wrong(
            "Padding is counted in the loss. Attention's mask keeps padding out of the *keys*; the outputs at padded "
            "positions are still there, and the loss has to leave them out itself.",
            seen_in="huggingface/transformers#2759",
            hint="Has `is_real` been used?",
        ),
        "labels that are not 0": Wrong(
            "Label 0 is taken for padding. It may be a real token: which positions are real is said by `is_real`.",
            seen_in="lucidrains/DALLE-pytorch#57",
            hint="Is a real token with the label 0 counted?",
        ),
        "padding": Wrong(
            "The mask is turned round: only the padding is counted.", hint="Is True real here, or padding?"
        ),
    },
    divide={
        "by n": Wrong(
            "The sum over the real positions is divided by n, padding included: the more padding, the smaller it "
            "gets. Divide by the number of real positions.",
            hint="How many losses did you add up?",
        ),
        "not": Wrong("This is the sum of the losses. For the mean, divide by the number of real positions."),
        "by entries": Wrong(
            "The mean runs over the whole table of real positions times labels, of which all but one number a row are "
            "0. Sum over the vocabulary first, then take the mean over the positions.",
            hint="How many numbers did you add up, and how many of them are not 0?",
        ),
    },
    measure={
        "probability": Wrong(
            "The weights themselves are averaged; the logarithm is missing.",
            hint="What should the loss be when the right label has the weight 1?",
        ),
        "base 2": Wrong("The logarithm has base 2. Cross-entropy is measured with the natural one: `np.log`."),
        "raw logits": Wrong(
            "The logits are averaged as they are: softmax is missing. Adding 5 to a row must not change the loss.",
            hint="What do you subtract from the logit of the right label?",
        ),
        "right or wrong": Wrong(
            "You count how often the largest logit is not at the label. That is the error rate: it does not say how "
            "sure the model was, and has no useful gradient.",
            hint="Does your loss change when the right label's logit grows a little?",
        ),
    },
    sign={"plus": Wrong("The sign is missing: the logarithm of a weight is negative, and the loss its opposite.")},
    axis={
        "positions": Wrong(
            "Softmax runs along the positions. At each position the labels of the vocabulary compete: the last axis.",
            hint="Over which axis do the weights of one position sum to 1?",
        ),
        "all": Wrong(
            "Softmax runs over the whole table. Each position has its own weights, which sum to 1.",
            hint="Over which axis do the weights of one position sum to 1?",
        ),
    },
)
def _(
    logits,
    labels,
    is_real,
    *,
    kept="real",
    divide="by real",
    measure="log",
    sign="minus",
    axis="vocabulary",
    shift="max",
    empty="zero",
    inputs="kept",
):
    over = {"positions": 0, "all": None}.get(axis, -1)
    top = 0 if shift.startswith("none") else logits.max(axis=over, keepdims=True)
    exps = np.exp(logits - top)
    total = exps.sum(axis=over, keepdims=True)
    probabilities = exps / total
    if shift in ("none", "log of softmax", "a billionth added"):
        log_probs = np.log(probabilities + (1e-9 if shift == "a billionth added" else 0))
    else:
        log_probs = logits - top - np.log(total)
    best = logits == logits.max(axis=-1, keepdims=True)
    value = {
        "probability": probabilities,
        "base 2": log_probs / np.log(2),
        "raw logits": logits,
        "right or wrong": best,
    }
    value = value.get(measure, log_probs)
    counted = {"all": np.ones(len(labels), dtype=bool), "labels that are not 0": labels != 0, "padding": ~is_real}
    counted = counted.get(kept, is_real)
    picked = value[counted, labels[counted]]
    if measure == "right or wrong":
        picked = picked - 1.0
    entries = len(picked) * logits.shape[-1]
    count = {"by n": len(labels), "not": 1, "by entries": entries}.get(
        divide, len(picked) if empty == "0/0" else max(len(picked), 1)
    )
    if inputs == "overwritten":
        logits -= logits.max(axis=-1, keepdims=True)
    return picked.sum() / count * (1 if sign == "plus" else -1)


@masked_loss.mistake(
    "logits of padding zeroed",
    "The logits of the padding are set to 0 and still counted: each padded position adds ln(vocab), the loss of "
    "guessing. Leave its *loss* out of sum and count.",
    hint="What is the loss at a position whose logits are all 0?",
)
def _(logits, labels, is_real):
    return masked_loss.reference(logits * is_real[:, None], labels, np.ones(len(labels), dtype=bool))


_TABLE = Wrong(
    "`log_probs[:, labels]` takes the columns of *all* labels at every position, a table. One number a position is "
    "needed: row i with label i, `log_probs[np.arange(n), labels]`.",
    hint="Which shape has what you picked from the table?",
)
_NO_MEAN = Wrong(
    "These are the losses position by position. Their mean is asked for, a single number.",
    hint="How many numbers should come back?",
)


@masked_loss.choice_points(
    picked={
        "a table": _TABLE,
        "a table with padding": _TABLE,
        "a table of all labels": _TABLE,
        "no mean": _NO_MEAN,
        "no mean, zeros": _NO_MEAN,
    }
)
def _(logits, labels, is_real, *, picked):
    kept = is_real | (picked == "a table with padding")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=-1, keepdims=True)) - shifted
    if picked.startswith("no mean"):
        losses = losses[np.arange(len(labels)), labels]
        return losses * is_real if picked == "no mean, zeros" else losses[is_real]
    table = losses[kept][:, labels if picked == "a table of all labels" else labels[kept]]
    return table.sum() / max(table.size, 1)


_KEEPDIMS = Wrong(
    "The sums have lost their axis. Where there are as many positions as labels, NumPy still subtracts, but the "
    "logarithm of the *wrong row*: add `keepdims=True`.",
    hint="Which shapes have the logits and the sums, and how does NumPy line them up?",
)


@masked_loss.choice_points(keepdims={"forgotten": _KEEPDIMS, "forgotten, no shift": _KEEPDIMS})
def _(logits, labels, is_real, *, keepdims):
    if keepdims == "forgotten":
        logits = logits - logits.max(axis=-1, keepdims=True)
    losses = (np.log(np.exp(logits).sum(axis=-1)) - logits)[is_real, labels[is_real]]
    return losses.sum() / max(len(losses), 1)


@masked_loss.mistake(
    "perplexity",
    "This is the perplexity, e to the power of the loss. The loss itself is asked for.",
    hint="What is your result when the right label always has the weight 1?",
)
def _(logits, labels, is_real):
    return np.exp(masked_loss.reference(logits, labels, is_real))


@masked_loss.variant
def log_sum_exp(logits, labels, is_real):
    logits, labels = logits[is_real], labels[is_real]
    if not len(labels):
        return 0.0
    top = logits.max(axis=1)
    return np.mean(top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(len(labels)), labels])


@masked_loss.variant
def position_by_position(logits, labels, is_real):
    total, count = 0.0, 0
    for row, label, real in zip(logits, labels, is_real, strict=True):
        if real:
            total += np.logaddexp.reduce(row) - row[label]
            count += 1
    return total / count if count else 0


@masked_loss.variant
def times_the_mask(logits, labels, is_real):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(labels)), labels]
    return (losses * is_real).sum() / np.clip(is_real.sum(), 1, None)
