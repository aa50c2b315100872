"""Exercise 6.7: held_out_score, and what people write instead."""

import numpy as np

from ..engine import Probe, Wrong, exercise


@exercise(
    "6.7",
    points=1,
    section="What people get wrong",
    statement=(
        "Of many heads, one is best on any set of texts, if only by luck. Choose it on some texts and report it on\n"
        "others: take the head with the largest mean score on the *first* n // 2 texts, and return *its* mean score\n"
        "on the rest. Scores may be negative. Two heads score 0.9 and 0.5 on the first text, 0.7 and 0.8 on the\n"
        "second, 0.1 and 0.6 on the third. One text chooses (3 // 2 is 1), the first head wins, and its score is\n"
        "(0.7 + 0.1) / 2 = 0.4."
    ),
    hints=[
        "Two steps, on two halves. Which of them may see the texts that you report on?",
        "`scores[:half].mean(axis=0)` is one mean for each head. Which function says *where* the largest one stands?",
        "With `best` as that place, the scores to average are `scores[half:, best]`.",
    ],
)
def held_out_score(scores):
    """Choose a head on the first half of the texts, report it on the rest.

    scores (n_texts, n_heads), larger is better; n_texts is at least 2
    → a number
    """
    half = len(scores) // 2
    best = np.argmax(scores[:half].mean(axis=0))
    return scores[half:, best].mean()


def _scores(rng, n, n_heads, sunk):
    """Scores in which every way to choose takes another head: six of them play a part, in random places.

    With `sunk` the worst head is far below zero: by size it is the largest.
    """
    half, texts = n // 2, np.arange(n)
    early = texts < half
    # A text of the first half. Whoever lets the first one alone choose takes the head with the largest number where it
    # is that one, and the head that is ahead in most texts where it is another.
    odd = rng.integers(1, half) if sunk else 0
    odd_one = texts == odd
    heads = [
        np.where(early, 0.6, 0.3),  # the best of the first half
        np.where(early, 0.4, 0.72),  # of the rest
        np.where(early, 0.54, 0.64),  # of all
        np.where(odd_one, 1.4, np.where(early, 0.02, 0.2)),  # has the largest number of the first half
        np.where(odd_one, 0.0, np.where(early, 0.68, 0.4)),  # is ahead in most of its texts
        np.where(texts == n - 1, 1.3, np.where(early, -0.9 if sunk else -0.2, 0.1)),  # is behind; a large last number
    ]
    more = [np.where(early, 0.3, 0.5)] * (n_heads - 6)
    # Where there are more heads, one of them is the first, and one has the place that the best text has among texts.
    # The best head's place is that of a text of the rest, too.
    for_more = sorted({0, odd}) if more else []
    free = rng.permutation([place for place in range(n_heads) if place not in for_more])
    best = next(place for place in free if 0 < place < n - half)
    places = [best, *(place for place in free if place != best), *for_more]
    columns = np.array([*heads, *more])[np.argsort(places)].T
    return columns + 0.02 * rng.uniform(-1, 1, size=columns.shape)


@held_out_score.probes
def _(rng):
    # As many texts as heads, tall, wide, an odd number of texts.
    sizes = [(6, 6), (8, 6), (7, 9), (9, 8)]
    cases = [_scores(rng, *size, sunk) for size, sunk in zip(sizes, [True, False, True, False], strict=True)]
    return [Probe((scores,), _TOO_LARGE) for scores in [*cases, cases[1].astype(np.float32)]]


_TOO_LARGE = (
    "Is a place too large? `argmax` of a whole table counts through all of its numbers. One mean for each head comes "
    "first, `mean(axis=0)`."
)


@held_out_score.hard_probes
def _():
    losses = np.array([[-5.0, -3.0], [-4.0, -3.5], [-1.0, -6.0], [-1.5, -2.0]])
    return {
        "two texts": Probe((np.array([[0.2, 0.7, 0.4], [0.9, 0.1, 0.5]]),), "Of two texts one chooses, one reports."),
        "one head": Probe((np.array([[0.2], [0.4], [0.9]]),), "With a single head there is nothing to choose."),
        "all below zero": Probe(
            (losses,), "Scores may all be negative: a search for the largest must not begin with a best of 0."
        ),
        "whole numbers": Probe(
            (np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]),),
            "Scores may be whole numbers, right or wrong as 1 and 0; their mean is none.",
            arrays_only=True,
            advice=True,
        ),
    }


@held_out_score.choice_points(
    choose={
        "on the rest": Wrong(
            "The head is chosen on the texts that it is reported on: this is the largest of all means there. Some head "
            "is lucky on any texts. Its luck then counts as skill, and the more heads, the more of it.",
            hint="If all heads scored at random, would your number be their common mean?",
        ),
        "on all": Wrong(
            "The head is chosen on all texts, those of the report included. What it is reported on then has had a say.",
            hint="Would your choice change if a text of the second half changed?",
        ),
        "by its largest": Wrong(
            "Chosen is the head with the largest single score. One text can have that by chance: compare *means*.",
            hint="How many texts decide your choice?",
        ),
        "by most texts": Wrong(
            "Chosen is the head that is ahead in most texts. That is another rule: the largest *mean* is asked for.",
            hint="Does it matter to your choice by how much a head is ahead?",
        ),
        "by the first text": Wrong(
            "The first text alone chooses. Of three texts one chooses, since 3 // 2 is 1; of n it is the first n // 2, "
            "by each head's mean over them.",
            hint="Of 8 texts, how many choose?",
        ),
        "worst": Wrong(
            "The head with the *smallest* mean is chosen. Larger is better here.",
            hint="Which way does `argsort` sort, and which way does your comparison point?",
        ),
        "by size": Wrong(
            "The scores are compared by their *size*, without their signs. Larger is better here: −4 is not larger "
            "than −3, though its size is.",
            hint="Which head is better, one that scores −4 or one that scores −3?",
        ),
        "by its place": Wrong(
            "No head is chosen: a fixed one is reported, the first. Let the first half of the texts decide.",
            hint="Would your result change if the columns were exchanged?",
        ),
    },
    report={
        "on the same half": Wrong(
            "The head is reported on the texts that chose it. It is the best there by construction, skill or luck. "
            "Report it on texts that had no say.",
            hint="If all heads scored at random, would your number be their common mean?",
        ),
        "on all": Wrong(
            "The head is reported on all texts. Half of them have chosen it; report it on the others alone.",
            hint="How many texts enter your last mean?",
        ),
        "its largest": Wrong(
            "The chosen head's *largest* score is reported, not its mean.",
            hint="Which operation joins the texts of the report?",
        ),
        "its sum": Wrong(
            "The chosen head's scores are added up. For the mean, divide by the number of texts that are left.",
            hint="Would your number grow with the number of texts?",
        ),
    },
    halves={
        "exchanged": Wrong(
            "The halves are exchanged: the second one chooses and the first one reports. That is as fair, but the task "
            "says which is which, so that two people get one number.",
            hint="Which texts decide your choice?",
        ),
        "the larger one first": Wrong(
            "With an odd number of texts, the one in the middle helps to choose. By n // 2 it belongs to the report.",
            hint="Of 7 texts, how many choose?",
        ),
    },
)
def _(scores, *, choose="by mean", report="on the rest", halves="first texts"):
    half = len(scores) // 2
    half = len(scores) - half if halves == "the larger one first" else half
    first, rest = scores[:half], scores[half:]
    first, rest = (rest, first) if halves == "exchanged" else (first, rest)
    rated = {
        "on the rest": rest.mean(axis=0),
        "on all": scores.mean(axis=0),
        "by its largest": first.max(axis=0),
        "by most texts": np.bincount(first.argmax(axis=1), minlength=first.shape[1]),
        "worst": -first.mean(axis=0),
        "by size": np.abs(first.mean(axis=0)),
        "by the first text": first[0],
        "by its place": np.zeros(1),
    }.get(choose, first.mean(axis=0))
    shown = {"on the same half": first, "on all": scores}.get(report, rest)[:, np.argmax(rated)]
    return {"its largest": shown.max(), "its sum": shown.sum()}.get(report, shown.mean())


@held_out_score.mistake(
    "the middle one in none",
    "With an odd number of texts, the one in the middle neither chooses nor reports. All that have not chosen report: "
    "`scores[n // 2 :]` are n − n // 2 texts, while `scores[-(n // 2) :]` are only n // 2.",
    hint="Of 7 texts, how many choose and how many report?",
)
def _(scores):
    half = len(scores) // 2
    return scores[len(scores) - half :, np.argmax(scores[:half].mean(axis=0))].mean()


@held_out_score.mistake(
    "the last one in none",
    "With an odd number of texts, the last one neither chooses nor reports: your second half ends at 2 · (n // 2). "
    "All that have not chosen report: `scores[n // 2 :]`.",
    hint="Of 7 texts, how many choose and how many report?",
)
def _(scores):
    half = len(scores) // 2
    return scores[half : 2 * half, np.argmax(scores[:half].mean(axis=0))].mean()


@held_out_score.mistake(
    "the middle one in both",
    "With an odd number of texts, the one in the middle chooses *and* reports. What is reported on may have no say: by "
    "n // 2 it belongs to the report alone.",
    hint="Of 7 texts, how many choose and how many report?",
)
def _(scores):
    half = len(scores) // 2
    return scores[half:, np.argmax(scores[: len(scores) - half].mean(axis=0))].mean()


@held_out_score.mistake(
    "one text",
    "One text chooses, and all others report. Of three texts that is right, since 3 // 2 is 1; of n the first n // 2 "
    "choose.",
    hint="Of 8 texts, how many choose?",
)
def _(scores):
    return scores[1:, np.argmax(scores[0])].mean()


@held_out_score.mistake(
    "every other text",
    "The texts are dealt out in turn, one to choose and one to report. That is as fair, but the task says which texts "
    "choose: the first n // 2.",
    hint="Does your slice have a step?",
)
def _(scores):
    return scores[1::2, np.argmax(scores[::2].mean(axis=0))].mean()


@held_out_score.mistake(
    "half of the heads",
    "Half of the *heads* are left out, instead of half of the texts. The first axis counts texts.",
    hint="Which axis does your slice cut?",
)
def _(scores):
    return scores[:, np.argmax(scores[:, : scores.shape[1] // 2].mean(axis=0))].mean()


@held_out_score.mistake(
    "mean of each text",
    "Your means run over the heads, one for each *text*, and the place of the best text then serves as the place of a "
    "head. The first axis counts texts: `mean(axis=0)` leaves one mean for each head.",
    hint="How many means do you compare: as many as there are heads?",
)
def _(scores):
    half = len(scores) // 2
    return scores[half:, np.argmax(scores[:half].mean(axis=1))].mean()


@held_out_score.mistake(
    "a row for a column",
    "The place of the head picks a *row*: `rest[best]` is a text, averaged over all heads. A head is a column, "
    "`rest[:, best]`.",
    hint="How many heads enter your last mean?",
)
def _(scores):
    half = len(scores) // 2
    return scores[half:][np.argmax(scores[:half].mean(axis=0))].mean()


@held_out_score.mistake(
    "the head",
    "You return *which* head is chosen. Its mean score on the remaining texts is asked for.",
    hint="What does `argmax` give, a number from the array or its place?",
)
def _(scores):
    return np.argmax(scores[: len(scores) // 2].mean(axis=0))


@held_out_score.mistake(
    "all heads averaged",
    "This is the mean of *all* heads on the remaining texts: the score of a head that is chosen at random. It is the "
    "baseline of the chosen head's score, not that score.",
    hint="Has the first half of the texts had any influence on your result?",
)
def _(scores):
    return scores[len(scores) // 2 :].mean()


@held_out_score.mistake(
    "every head",
    "You return the mean of every head on the remaining texts. One number is asked for, that of the chosen head.",
    hint="How many numbers should come out?",
)
def _(scores):
    return scores[len(scores) // 2 :].mean(axis=0)


@held_out_score.mistake(
    "every text",
    "These are the chosen head's scores, one for each remaining text. Return their mean.",
    hint="How many numbers should come out?",
)
def _(scores):
    half = len(scores) // 2
    return scores[half:, np.argmax(scores[:half].mean(axis=0))]


@held_out_score.mistake(
    "best of each text",
    "For each remaining text the largest score of *any* head is taken. No head does that well: choose one for all.",
    hint="How many different heads enter your mean?",
)
def _(scores):
    return scores[len(scores) // 2 :].max(axis=1).mean()


@held_out_score.mistake(
    "text instead of head",
    "Heads and texts are exchanged: one *text* is chosen by half of the heads, and reported on the others. The first "
    "axis counts texts, the second heads.",
    hint="What does the first axis of `scores` count?",
)
def _(scores):
    return held_out_score.reference(scores.T)


@held_out_score.variant
def two_tables(scores):
    chooses, reports = scores[: scores.shape[0] // 2], scores[scores.shape[0] // 2 :]
    return reports.mean(axis=0)[chooses.sum(axis=0).argmax()]


@held_out_score.variant
def head_after_head(scores):
    n, best, kept = scores.shape[0], float("-inf"), None
    for head in range(scores.shape[1]):
        mean = sum(scores[t, head] for t in range(n // 2)) / (n // 2)
        if mean > best:
            best, kept = mean, head
    return sum(scores[t, kept] for t in range(n // 2, n)) / (n - n // 2)


@held_out_score.variant
def sorted_heads(scores):
    first, rest = np.split(scores, [len(scores) // 2])
    order = np.argsort(first.mean(axis=0))
    return np.float64(rest[:, order[-1]].mean())
