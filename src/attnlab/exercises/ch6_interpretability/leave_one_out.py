"""Exercise 6.3: leave_one_out, and what people write instead."""

import numpy as np

from attnlab import softmax

from ..common import IN_PLACE, INTEGERS
from ..engine import Probe, Wrong, exercise


@exercise(
    "6.3",
    points=3,
    section="The first token, again",
    statement=(
        "What does each key do to the output? Leave it out and see. The output is one number, `weights @ values @\n"
        "readout`. Without key i the others share the whole: their weights are divided by their sum. The states stay\n"
        "as they are: the word is not deleted from the text, only its weight is taken away (the chapter's\n"
        "*leave-one-out* ranking deletes the word). The effect of key i is the output of all keys minus the output\n"
        "without key i, with its sign. If one key has all the weight, nothing is left without it, and the output\n"
        "without it is 0. With the weights [0.5, 0.5], the values [2] and [6] and the readout [1] the output is 4;\n"
        "without key 0 it is 6, without key 1 it is 2, so the effects are [−2, 2]."
    ),
    hints=[
        "Write down the weights without key 0: which entry is 0, and by what are the others divided?",
        "All n rows of weights fit in one table (n, n), with zeros on the diagonal: `weights * (1 - np.eye(n))`. "
        "Divide each row by its sum, and `rows @ values @ readout` gives the n outputs without.",
        "A key whose value gives more than the output pushes it up: its effect is positive. Where a row sums to 0, "
        "divide by 1 instead.",
    ],
)
def leave_one_out(weights, values, readout):
    """Output of all keys minus output without key i, for each key i.

    weights (n,), sum 1; values (n, d), readout (d,) → (n,)
    """
    rows = weights * (1 - np.eye(len(weights)))  # row i: without key i
    total = rows.sum(axis=1, keepdims=True)
    shares = rows / np.where(total > 0, total, 1)
    return weights @ values @ readout - shares @ values @ readout


@leave_one_out.probes
def _(rng):
    # As many keys as features, twice: there no exchanged axis raises an error. The small ones hold round numbers.
    small = np.array([0.5, 0.3, 0.2]), rng.permutation([[-2.0, 4.0], [3.0, 1.0], [5.0, 0.0]]), np.array([1.0, -1.0])
    cases = [_drawn(rng, *each) for each in [(4, 4, 0.5), (5, 3, -0.5), (3, 3, -0.5), (6, 4, 0.5)]]
    return [small, *cases[:3], tuple(a.astype(np.float32) for a in cases[3])]


def _drawn(rng, n, d, lifted):
    """Outputs away from 0, now above and now below: there a lost sign shows when weight is missing."""
    values, readout = rng.normal(size=(n, d)), rng.normal(size=d)
    return softmax(rng.normal(size=n)), values + lifted * readout, readout


@leave_one_out.hard_probes
def _():
    values, readout = np.array([[2.0, 1.0], [6.0, 0.0], [-1.0, 3.0]]), np.array([1.0, 0.5])
    nothing_left = (
        "If one key has all the weight, or is the only one, nothing is left without it: the output is 0 then, not 0/0, "
        "and its effect is the whole output."
    )
    return {
        "one key has all the weight": Probe((np.array([0.0, 1.0, 0.0]), values, readout), nothing_left),
        "a single key": Probe((np.array([1.0]), values[:1], readout), nothing_left),
        "a weight of 0": Probe((np.array([0.5, 0.0, 0.5]), values, readout), "A key of weight 0 has no effect."),
        "values alike": Probe(
            (np.array([0.5, 0.3, 0.2]), np.tile([[2.0, -3.0]], (3, 1)), readout),
            "If all values are alike the output is the same whichever key is left out: no key has an effect, "
            "whatever its weight.",
        ),
        "two keys": Probe(
            (np.array([0.5, 0.5]), np.array([[2.0], [6.0]]), np.array([1.0])),
            "Of two keys the other one gets all the weight.",
        ),
        "integers": Probe((np.array([0, 1, 0]), np.array([[2], [6], [1]]), np.array([3])), INTEGERS, True, True),
    }


_PART = "If all values were alike, what should the effect of each key be?"
_ONE_BY_ONE = "Which keys does your last output lack?"


@leave_one_out.choice_points(
    rest={
        "not renormalised": Wrong(
            "The other weights stay as they were and no longer sum to 1: the output shrinks because weight is missing, "
            "not because of the key. What you get is the key's own part, αᵢ times what its value gives; setting the "
            "value to zero gives the same.",
            hint=_PART,
        ),
        "softmax": Wrong(
            "The other weights go through softmax, which takes them for scores and makes them nearly equal. They are "
            "shares already: divide by their sum.",
            hint="Two keys are left with the weights 0.6 and 0.2. Which are their shares?",
        ),
        "softmax of all": Wrong(
            "A weight of 0 still gets e⁰ from softmax, so the key is still there. Softmax takes scores, and these are "
            "weights: divide those of the other keys by their sum.",
            hint="Which weight has key 0 in the row without key 0?",
        ),
        "shared evenly": Wrong(
            "The weight that is free is dealt out in equal parts. A key with little weight gains as much as one with a "
            "lot. Divide the others by their sum: then each keeps its proportion.",
            hint="Two keys are left with the weights 0.6 and 0.2. Which are their shares?",
        ),
        "all alike": Wrong(
            "The other keys get equal weights. They keep their proportions: divide them by their sum.",
            hint="Two keys are left with the weights 0.6 and 0.2. Which are their shares?",
        ),
        "times": Wrong(
            "The other weights are *multiplied* by their sum, 1 − αᵢ. To make them sum to 1, divide by it.",
            hint="What do the weights sum to in your row without key 0?",
        ),
    },
    difference={
        "turned": Wrong(
            "The sign is turned round: output without minus output. A key that pushes the output up should have a "
            "positive effect.",
            hint="Without a key the output falls. Is the effect of this key positive?",
        ),
        "sign lost": Wrong(
            "The sign is lost. A key that pushes the output up and one that pushes it down then look alike.",
            hint="Do you take an absolute value, or a square root of a square?",
        ),
        "squared": Wrong(
            "The difference is squared: its sign is lost, and large effects look larger still.",
            hint="If the output falls by 2 without a key, what is its effect?",
        ),
        "the output without": Wrong(
            "These are the outputs *without* each key. The effect is the difference: output minus this.",
            hint="What should come out for a key that changes nothing?",
        ),
        "share of the output": Wrong(
            "The difference is divided by the output. Near an output of 0 that explodes, and where it is negative all "
            "signs turn round. The difference itself is asked for.",
            hint="With an output of 4 and of 6 without the key, what is the effect?",
        ),
    },
    keys={
        "only this one": Wrong(
            "It is the other way round: you *keep* key i and leave out all others.",
            hint="How many keys are left in your row i?",
        ),
        "not put back": Wrong(
            "The keys are not put back: the second output lacks two keys, the third three. Begin with all weights for "
            "each key, with a `.copy()` inside the loop.",
            hint=_ONE_BY_ONE,
        ),
    },
)
def _(weights, values, readout, *, rest="renormalised", difference="signed", keys="all others"):
    n = len(weights)
    stays = {"only this one": np.eye(n, dtype=bool), "not put back": np.tri(n, dtype=bool).T & ~np.eye(n, dtype=bool)}
    without = _rows(weights, stays.get(keys, ~np.eye(n, dtype=bool)), rest) @ values @ readout
    output = weights @ values @ readout
    return {
        "turned": lambda: without - output,
        "sign lost": lambda: np.abs(output - without),
        "squared": lambda: (output - without) ** 2,
        "the output without": lambda: without,
        "share of the output": lambda: (output - without) / output,
    }.get(difference, lambda: output - without)()


def _rows(weights, stays, rest):
    """Row i: the weights without key i."""
    rows, left = np.where(stays, weights, 0.0), stays.sum(axis=1, keepdims=True)
    total, some = rows.sum(axis=1, keepdims=True), np.maximum(left, 1)
    if rest.startswith("softmax"):
        return softmax(np.where(stays, rows, -np.inf if rest == "softmax" else 0.0))
    return {
        "not renormalised": rows,
        "shared evenly": rows + stays * (weights.sum() - total) / some,
        "all alike": stays / some,
        "times": rows * total,
    }.get(rest, rows / np.where(total > 0, total, 1))


@leave_one_out.mistake(
    "own part divided",
    "Only the key's own part αᵢ·vᵢ·u is divided by 1 − αᵢ. Divide what is *left* by it, the output less this part; "
    "then take the difference to the whole output.",
    hint=_PART,
)
def _(weights, values, readout):
    rest = weights.sum() - weights
    return weights * (values @ readout) / np.where(rest > 0, rest, 1)


@leave_one_out.mistake(
    "mean value instead",
    "The key keeps its weight and gets the mean of all values instead of its own: it is replaced, not left out. "
    "Without it the *other* weights share the whole.",
    hint="Which weight has key 0 in the row without key 0?",
)
def _(weights, values, readout):
    return weights * ((values - values.mean(axis=0)) @ readout)


@leave_one_out.mistake(
    "against its value",
    "You subtract the output from what each key's value gives. That says which keys lie above the output, whatever "
    "their weight; a key that nobody attends to has no effect.",
    hint="What is your effect of a key with weight 0?",
)
def _(weights, values, readout):
    return values @ readout - weights @ values @ readout


@leave_one_out.mistake(
    "length of the difference",
    "You measure how far the output *vector* moves. The readout makes one number of it, and the effect is the change "
    "of this number, with its sign.",
    hint="Does the readout enter your result?",
)
def _(weights, values, readout):
    shares = _rows(weights, ~np.eye(len(weights), dtype=bool), "renormalised")
    return np.linalg.norm(weights @ values - shares @ values, axis=-1)


@leave_one_out.mistake(
    "not put back, in the input",
    "The keys are not put back: the second output lacks two keys, the third three. And the weights are those of the "
    "caller, who finds zeros afterwards. Begin with a copy for each key.",
    hint=_ONE_BY_ONE,
)
def _(weights, values, readout):
    output, effects = weights @ values @ readout, []
    for i in range(len(weights)):
        weights[i] = 0
        total = weights.sum()
        effects.append(output - weights @ values @ readout / (total if total > 0 else 1))
    return np.array(effects)


@leave_one_out.mistake("overwritten", IN_PLACE.text, hint=IN_PLACE.hint)
def _(weights, values, readout):
    effects = leave_one_out.reference(weights, values, readout)
    values *= weights[:, None].astype(values.dtype)
    return effects


@leave_one_out.variant
def key_by_key(weights, values, readout):
    output, effects = weights @ values @ readout, []
    for i in range(len(weights)):
        others = weights.copy()
        others[i] = 0
        if others.sum() > 0:
            others = others / others.sum()
        effects.append(output - others @ values @ readout)
    return np.array(effects)


@leave_one_out.variant
def deleted(weights, values, readout):
    effects = np.zeros(len(weights))
    for i in range(len(weights)):
        w, v = np.delete(weights, i), np.delete(values, i, axis=0)
        without = (w / w.sum()) @ v @ readout if w.sum() else 0.0
        effects[i] = weights @ values @ readout - without
    return effects


@leave_one_out.variant
def distance_from_the_output(weights, values, readout):
    """αᵢ / (1 − αᵢ) times how far the key's value lies above the output: the same, worked out on paper."""
    gives = values @ readout
    output, rest = np.sum(weights * gives), 1 - weights
    alone = rest < 1e-12
    return np.where(alone, output, weights * (gives - output) / np.where(alone, 1, rest))


@leave_one_out.variant
def score_of_minus_infinity(weights, values, readout):
    """Softmax without one score is the same as dividing the other weights by their sum."""
    with np.errstate(divide="ignore"):
        scores = np.log(weights)
    rows = softmax(np.where(np.eye(len(weights), dtype=bool), -np.inf, scores))
    return (weights - rows) @ (values @ readout)
