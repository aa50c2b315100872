"""Ways to say how much each key matters to an output, right and wrong ones, for a test that learners write.

Each takes weights (n,), values (n, d) and a readout (d,) and gives (n,). Plain and quick: each twin meets each of them.
"""

import itertools

import numpy as np

from ..engine import Implementation

SMALL = 1e-9  # what is below it counts as zero


def effects(weights, values, readout):
    """The output minus the output without key i, the other weights divided by their sum, (n,)."""
    each = values @ readout  # what a key gives that has all the weight
    output, rest = weights @ each, weights.sum() - weights
    return output - (output - weights * each) / np.where(rest > SMALL, rest, np.inf)


def _ahead(weights, values, readout):
    """By how much a key that had all the weight would be above the output, (n,)."""
    each = values @ readout
    return each - weights @ each


def implementations(rng):
    """{name: Implementation}, the most telling first. The seed sets the units of some."""
    unit, calls = rng.uniform(2, 5), itertools.count(1)

    def shares(weights, values, readout):
        sizes = np.abs(effects(weights, values, readout))
        return sizes / sizes.sum() if sizes.sum() > SMALL else np.zeros_like(sizes)

    def last_digits_vary(weights, values, readout):
        """As where many threads add: a sum comes out a little different from call to call, and never quite zero."""
        found = effects(weights, values, readout)
        return found + 1e-14 * np.cos(next(calls) + np.arange(len(found)))

    def single_precision(weights, values, readout):
        return effects(*(np.float32(a) for a in (weights, values, readout)))

    def values_alone(weights, values, readout):
        return weights * np.linalg.norm(values - weights @ values, axis=-1)

    def kept_above_zero(weights, values, readout):
        return np.maximum(effects(weights, values, readout), 0) * unit

    def softmaxed(weights, values, readout):
        exps = np.exp(np.abs(effects(weights, values, readout)))
        return exps / exps.sum()

    def places(weights, values, readout):
        return np.argsort(np.argsort(np.abs(effects(weights, values, readout)))) / len(weights)

    def the_largest_alone(weights, values, readout):
        found = effects(weights, values, readout)
        return np.where(np.arange(len(found)) == np.argmax(np.abs(found)), found, 0)

    def at_random(weights, values, readout):
        return np.random.default_rng(next(calls)).uniform(0.1, 1, size=len(weights))

    return {
        "the weights": Implementation(
            lambda weights, values, readout: 1.0 * weights,
            "the weights themselves. A key with much weight may give just what the others give together; without it, "
            "the output is the same.",
        ),
        "weight times length of the value": Implementation(
            lambda weights, values, readout: weights * np.linalg.norm(values, axis=-1),
            "weight × ‖value‖. A long value, too, may give just what the others give, or point where the readout does "
            "not look.",
        ),
        "all zeros": Implementation(
            lambda weights, values, readout: np.zeros(len(weights)),
            "it calls every key unimportant. A key whose removal changes the output must not get 0.",
        ),
        "not renormalised": Implementation(
            lambda weights, values, readout: weights * (values @ readout),
            "weight × (value · readout): what is missing when a key's term is struck out and the other weights stay. "
            "They no longer sum to one then. A value orthogonal to the readout gets 0, though it dilutes the others; "
            "a key that gives what the others give does not.",
        ),
        "without the weight": Implementation(
            _ahead,
            "the value's part in the readout minus the output, without the weight. A key with weight 0 changes "
            "nothing, whatever its value.",
        ),
        "gradient by the weight": Implementation(
            lambda weights, values, readout: values @ readout,
            "the derivative of the output by each weight, value · readout. It knows no weight, and no sum of one.",
        ),
        "values alone": Implementation(
            values_alone,
            "how far the value is from the mixture, times the weight. A value can differ where the readout does not "
            "look: the output stays.",
        ),
        "kept above zero": Implementation(
            kept_above_zero,
            "keys that push the output *down* get 0. Their removal changes it as much.",
        ),
        "at random": Implementation(at_random, "random numbers.", hard=True),
        "softmax of the effects": Implementation(
            softmaxed,
            "softmax of the sizes of the changes: the key without influence gets the least, and not 0.",
        ),
        "places in the ranking": Implementation(
            places,
            "it accepts places in the ranking, 0, 1, 2, …, for importance. The last place is a 0 also where each "
            "removal changes the output: have inputs in which all keys matter.",
            hard=True,
            advice=True,
        ),
        "the largest alone": Implementation(
            the_largest_alone,
            "all keys but one are set to 0, though their removal changes the output.",
            hard=True,
        ),
        "leave one out": Implementation(
            effects,
            "the output minus the output without the key, with its sign, where the other weights are divided by their "
            "sum.",
            correct=True,
        ),
        "size of the change": Implementation(
            lambda weights, values, readout: np.abs(effects(weights, values, readout)),
            "leave one out, without the sign.",
            correct=True,
        ),
        "shares": Implementation(shares, "the sizes of the changes, divided by their sum.", correct=True, hard=True),
        "in another unit": Implementation(
            lambda weights, values, readout: -unit * effects(weights, values, readout),
            "the output without the key minus the output, in another unit. Nobody asked for a sign or a unit.",
            correct=True,
        ),
        "gradient by the score": Implementation(
            lambda weights, values, readout: weights * _ahead(weights, values, readout),
            "the derivative of the output by each score, through softmax: weight × (value · readout − output). It is 0 "
            "where leaving out changes nothing, and nowhere else. (A key with the whole weight is not asked "
            "about: nothing is left without it.)",
            correct=True,
        ),
        "last digits vary": Implementation(
            last_digits_vary,
            "its sums are added in another order each time, so a zero comes out as 10⁻¹⁴, say. Compare with "
            "`np.isclose` or a small bound, not with `==`.",
            correct=True,
        ),
        "single precision": Implementation(
            single_precision,
            "it refuses one that computes in float32, where a zero comes out as 10⁻⁸ or 10⁻⁷: a bound of 10⁻⁶ lets it "
            "pass.",
            correct=True,
            hard=True,
            advice=True,
        ),
    }
