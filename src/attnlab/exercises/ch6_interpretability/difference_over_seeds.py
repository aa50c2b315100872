"""Exercise 6.8: difference_over_seeds, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "6.8",
    points=2,
    section="Two readers of reviews",
    statement=(
        "Is a model better with its attention than with uniform weights? Both were trained with several seeds and\n"
        "tested on the same texts: 1 where the answer was right, 0 where it was wrong. Row s of both tables belongs\n"
        "to the same seed. Return the difference of the accuracies, with attention minus uniform, averaged over the\n"
        "seeds, and its standard error *over seeds*: the standard deviation of the seeds' differences, with n − 1 in\n"
        "the denominator, divided by the root of the number of seeds. If three seeds differ by 0.1, 0.3 and 0.2, the\n"
        "standard deviation is 0.1, and the result [0.2, 0.0577]."
    ),
    hints=[
        "What is drawn anew when somebody trains once more: the texts or the seed? So of how many numbers do you need "
        "the spread?",
        "First one number for each seed: its accuracy with attention minus its accuracy without.",
        "`std` divides by n if it is not told otherwise; `ddof=1` makes it n − 1.",
    ],
)
def difference_over_seeds(with_attention, uniform):
    """Mean difference of accuracy, and its standard error over seeds.

    with_attention, uniform (n_seeds, n_texts): 1 right, 0 wrong;
    n_seeds is at least 2 → (2,): mean, standard error
    """
    differences = with_attention.mean(axis=1) - uniform.mean(axis=1)
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    return np.array([differences.mean(), error])


def _answers(rng, n_texts, more_right):
    """Two tables; `more_right` says by how many texts the first is ahead at each seed, in some order."""
    more_right = rng.permutation(more_right)
    # Seeds with which both are good, and seeds with which both are bad: that is what a paired difference removes.
    by_luck = rng.permutation(np.linspace(0.35, 0.6, len(more_right)) * n_texts).astype(int)
    tables = []
    for right in (by_luck + more_right, by_luck):
        tables.append(np.array([rng.permutation(n_texts) < each for each in right]).astype(float))
    return tuple(tables)


@difference_over_seeds.probes
def _(rng):
    # As many seeds as texts, more texts, few seeds. The mean difference is that of no seed, and one seed is behind.
    sizes = [(6, [2, -1, 2, 1, 0, 1]), (20, [5, 2, -2, 1]), (12, [4, 3, -1]), (9, [3, 1, -2, 2, 0])]
    cases = [_answers(rng, n_texts, more) for n_texts, more in sizes]
    single = tuple(table.astype(np.float32) for table in cases[1])
    return [Probe(case, says=_an_interval) for case in [*cases, single]]


def _an_interval(with_attention, uniform, found):
    """What two numbers are that lie as far below the mean difference as above it."""
    mean, _ = difference_over_seeds.reference(with_attention, uniform)
    if found[0] == found[1] or abs(found.mean() - mean) > 1e-6:
        return ""
    return (
        "Your two numbers are the ends of an interval around the mean difference. Asked for are the mean difference "
        "itself and its standard error: [mean, error], not [mean − …, mean + …]."
    )


@difference_over_seeds.hard_probes
def _():
    one = np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    other = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    never = "NumPy refuses to subtract truth values; take the means first, which are numbers."
    return {
        "two seeds": Probe((one[:2], other[:2]), "Two seeds have a spread, too: n − 1 is 1."),
        "no difference": Probe((one, one.copy()), "Where both give the same answers, difference and error are 0."),
        "the same each time": Probe(
            (one, one * [[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0]]),
            "Where every seed differs by as much, the error is 0, though the texts differ.",
        ),
        "one text": Probe((one[:, :1], 1 - one[:, :1]), "A single text gives accuracies of 0 and 1."),
        "whole numbers": Probe(
            (one.astype(int), other.astype(int)), "The zeros and ones may be integers.", arrays_only=True, advice=True
        ),
        "truth values": Probe((one == 1, other == 1), f"Right and wrong may be truth values. {never}", True, True),
    }


_SAME_SEED = "If a seed is a lucky one for both models, does its luck belong to the difference?"
_WHAT_VARIES = "If you train once more with another seed, what changes: the texts, or the answers to them?"
_ONE_MODEL = Wrong(
    "Your error is the spread of *one* model's accuracies, not that of the differences. Subtract first, seed by seed, "
    "then take the spread.",
    hint=_SAME_SEED,
)


@difference_over_seeds.choice_points(
    sample={
        "texts": Wrong(
            "Your error is a spread over *texts*, of answers that were averaged over the seeds. It says how the "
            "difference would vary with other texts. Whether it would come again with another seed is what a spread "
            "over seeds tells.",
            hint=_WHAT_VARIES,
        ),
        "answers": Wrong(
            "All answers are thrown together, as if each were a training run of its own. Answers of one seed hang "
            "together, and with many texts the error becomes as small as you like: it has to come from the seeds, one "
            "number for each.",
            hint=_WHAT_VARIES,
        ),
        "first seed": Wrong(
            "Only the first seed is used. With another seed the difference may be twice as large, or turned round: "
            "one run cannot tell.",
            hint="Would your result change if the last row changed?",
        ),
    },
    paired={
        "not": Wrong(
            "The two spreads are combined as if the models had nothing to do with each other. Their rows are pairs: a "
            "seed that is lucky for both cancels in the difference. Subtract first, then take the spread.",
            hint=_SAME_SEED,
        ),
        "attention alone": _ONE_MODEL,
        "uniform alone": _ONE_MODEL,
    },
    below={
        "n": Wrong(
            "The standard deviation divides by n; for a sample it is n − 1, `ddof=1`. With three seeds that makes the "
            "error too small by a fifth.",
            hint="What is the default of `ddof` in NumPy, and of `std` in torch or pandas?",
        ),
    },
    root={
        "not divided": Wrong(
            "This is the standard deviation of one seed's difference. That of the *mean* is smaller, by the root of "
            "the number of seeds.",
            hint="Should your error shrink as more seeds are added?",
        ),
        "of the other axis": Wrong(
            "It is divided by the root of the wrong number. Count what the spread runs over: seeds, the first axis.",
            hint="How many numbers did you take the standard deviation of?",
        ),
        "forgotten": Wrong(
            "The standard deviation is divided by the number of seeds; it should be the *root* of that number.",
            hint="Four times as many seeds make the error how much smaller?",
        ),
        "of n − 1": Wrong(
            "The standard deviation is divided by the root of n − 1. The n − 1 belongs *into* the standard deviation; "
            "the root is that of n, the number of seeds. (With n in the former and n − 1 in the latter, each once, the "
            "error would be right again.)",
            hint="How many times does n − 1 enter your error?",
        ),
        "of n, not of the variance": Wrong(
            "The *variance* is divided by the root of the number of seeds: its own root is missing. Divide "
            "the standard deviation by √n, or take the root of variance / n.",
            hint="Is it `var` or `std` that has the unit of an accuracy?",
        ),
        "of the error": Wrong(
            "This is the variance of the mean, the square of the standard error: a root is missing.",
            hint="Is it `var` or `std` that has the unit of an accuracy?",
        ),
    },
    sign={
        "exchanged": Wrong(
            "The sign is turned round: with attention minus uniform is asked for, positive where attention helps.",
            hint="Which of the two do you subtract?",
        ),
        "lost": Wrong(
            "You average the *size* of the differences. Seeds that are ahead and seeds that are behind then no longer "
            "cancel, and noise alone gives a difference above 0.",
            hint="What would your mean be if the two models differed by chance alone?",
        ),
    },
)
def _(with_attention, uniform, *, sample="seeds", paired="yes", below="n − 1", root="of seeds", sign="kept"):
    one, other = (
        {"texts": a.mean(axis=0), "answers": a.ravel(), "first seed": a[0]}.get(sample, a.mean(axis=1))
        for a in (with_attention, uniform)
    )
    gains = {"exchanged": other - one, "lost": abs(one - other)}.get(sign, one - other)
    ddof = 0 if below == "n" else 1
    each = [np.var(a, ddof=ddof) for a in (gains, one, other)]
    spread = {"not": each[1] + each[2], "attention alone": each[1], "uniform alone": each[2]}.get(paired, each[0])
    counts = {
        "not divided": 1,
        "of n − 1": len(gains) - 1,
        "of the other axis": with_attention.size / with_attention.shape[0],
    }
    if sample in ("texts", "first seed"):
        counts["of the other axis"] = len(with_attention)
    error = np.sqrt(spread / counts.get(root, len(gains)))
    if root == "forgotten":
        error = np.sqrt(spread) / len(gains)
    elif root == "of n, not of the variance":
        error = spread / np.sqrt(len(gains))
    return np.array([gains.mean(), error**2 if root == "of the error" else error])


@difference_over_seeds.choice_points(
    unit={
        "texts": Wrong(
            "Right answers are counted, not divided by the number of texts: an accuracy is a share.",
            hint="Would your difference grow with the number of texts?",
        ),
        "percent": Wrong("This is in percent. An accuracy of 1 is all right.", hint="Where does the 100 come from?"),
    },
)
def _(with_attention, uniform, *, unit):
    factor = {"texts": with_attention.shape[1], "percent": 100}[unit]
    return factor * difference_over_seeds.reference(with_attention, uniform)


_OF_AN_INTERVAL = "Where does the factor in your second number come from?"
_STUDENT = "For an interval over few seeds the factor is Student's t: 4.30 for three seeds, 2.78 for five."


@difference_over_seeds.choice_points(
    half_an_interval={
        "1.96": Wrong(
            "The second number is 1.96 standard errors, half of a 95% interval for many seeds. The standard error "
            f"itself is asked for. ({_STUDENT})",
            hint=_OF_AN_INTERVAL,
        ),
        "2": Wrong(
            "The second number is two standard errors, about half of a 95% interval for many seeds. The standard error "
            f"itself is asked for. ({_STUDENT})",
            hint=_OF_AN_INTERVAL,
        ),
        "2.78": Wrong(
            "The second number is 2.78 standard errors, half of a 95% interval over *five* seeds. The standard error "
            "itself is asked for, not the interval.",
            hint=_OF_AN_INTERVAL,
        ),
        "t": Wrong(
            "The second number is half of a 95% interval: Student's t times the standard error. The standard error "
            "itself is asked for, not the interval.",
            hint=_OF_AN_INTERVAL,
        ),
    },
)
def _(with_attention, uniform, *, half_an_interval):
    # Student's t at 97.5% for 2 to 6 seeds; the test holds them to SciPy's.
    t = [12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146]
    factor = t[len(uniform) - 2] if half_an_interval == "t" else float(half_an_interval)
    return difference_over_seeds.reference(with_attention, uniform) * [1, factor]


@difference_over_seeds.mistake(
    "as coin tosses",
    "The error is that of independent coin tosses, √(p(1 − p)/n), for each model, and these are added. It knows no "
    "seeds and no pairs: the seeds' differences themselves say how much they vary.",
    hint="Where does your error use how much one seed differs from the next?",
)
def _(with_attention, uniform):
    one, other = with_attention.mean(), uniform.mean()
    variance = (one * (1 - one) + other * (1 - other)) / uniform.size
    return np.array([one - other, np.sqrt(variance)])


@difference_over_seeds.mistake(
    "every seed",
    "You return the difference of every seed. Two numbers are asked for, their mean and its standard error.",
    hint="How many numbers should come out?",
)
def _(with_attention, uniform):
    return with_attention.mean(axis=1) - uniform.mean(axis=1)


@difference_over_seeds.mistake(
    "no error",
    "You return the mean difference alone. Without its standard error nobody can tell it from noise.",
    hint="How many numbers should come out?",
)
def _(with_attention, uniform):
    return with_attention.mean() - uniform.mean()


@difference_over_seeds.variant
def differences_of_answers(with_attention, uniform):
    gains = (1.0 * with_attention - uniform).mean(axis=-1)
    return np.hstack([gains.mean(), gains.std(ddof=1) / len(gains) ** 0.5])


@difference_over_seeds.variant
def seed_after_seed(with_attention, uniform):
    gains, n = [], len(uniform)
    for one, other in zip(with_attention, uniform, strict=True):
        gains.append(sum(float(a) for a in one) / len(one) - sum(float(a) for a in other) / len(other))
    mean = sum(gains) / n
    return np.array([mean, (sum((g - mean) ** 2 for g in gains) / (n - 1) / n) ** 0.5])


@difference_over_seeds.variant
def by_covariances(with_attention, uniform):
    one, other = with_attention.mean(axis=1), uniform.mean(axis=1)
    (a, both), (_, b) = np.cov(one, other)
    return np.array([one.mean() - other.mean(), np.sqrt(max(0.0, a + b - 2 * both) / len(one))])
