"""Write src/attnlab/data/rankings.json: how six rankings order the words of four reviews, for the live figure.

The figure has no model: it shows these numbers.  The sentences are the course's own; two stored classifiers of film
reviews read them.  For each classifier and sentence the file has `logit`, the log-odds that the review is good;
`without`, the same with one word deleted, for each word; and `rankings`, those of `attnlab.models.classifier_measures`,
each divided by its sum.

    .venv/bin/python book/tools/rankings_of_reviews.py
"""

import torch
from records import DATA, rounded, write

from attnlab.models.classifier import KINDS, Classifier, load
from attnlab.models.classifier_measures import deletions, draw_replacements, rankings
from attnlab.models.classifier_texts import corpus, words
from attnlab.models.spelling import one_thread

TARGET = DATA / "rankings.json"
# Written before a model read them, four of five drafts, chosen without it: a negation, a contrast, praise, irony.
SENTENCES = [
    "This film is not bad, just far too long.",
    "The story never works, but her performance saves it.",
    "Charming, clever and surprisingly moving.",
    "The best thing about this movie is its title.",
]
DIGITS = 4


@one_thread()
def ranked(model: Classifier, text: str) -> dict:
    """What the file says of one sentence, not yet rounded."""
    texts = corpus("movie")
    ids = texts.encode(text)  # (n,)
    with torch.no_grad():
        logit = model(ids[None]).item()
    scores = rankings(model, ids, draw_replacements(texts))
    return {
        "logit": logit,
        "without": (logit - deletions(model, ids)).tolist(),
        "rankings": {name: (row / row.sum()).tolist() for name, row in scores.items()},
    }


def described(models: dict[str, Classifier]) -> dict:
    """The file, not yet rounded; models: kind → model."""
    return {
        "tokens": [words(text) for text in SENTENCES],
        "models": {kind: [ranked(model, text) for text in SENTENCES] for kind, model in models.items()},
    }


def main() -> None:
    models = {kind: load("movie", kind) for kind in KINDS}
    write(TARGET, rounded(described(models), DIGITS))


if __name__ == "__main__":
    main()
