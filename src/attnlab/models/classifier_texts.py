"""The texts that a `Classifier` reads: film reviews, good or bad, and SMS messages, spam or not.

    films = corpus("movie")                        train, validation and test; each text once, in one of the three
    films.test.texts[0], films.test.labels[0]      "…", 1.0
    ids = films.encode("a quiet , honest film")    the words as numbers (n,), by the vocabulary of the training texts

The course does not ship the texts.  The vocabulary is made anew from them at each start: the words that occur four
times or more in the training texts, the most frequent first, ties by the alphabet.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.models import snippets
from attnlab.models.removal import MIN_SCORE

__all__ = ["NAMES", "PAD", "UNKNOWN", "Corpus", "Part", "corpus", "padded", "words"]

NAMES = ("movie", "sms")
PAD, UNKNOWN = 0, 1
MIN_COUNT = 4  # a word that the training texts have less often is UNKNOWN
SHORTEST, LONGEST = 4, 60  # words; a shorter text is left out, of a longer one the rest is
N_HELD_OUT = {"movie": (1000, 1500), "sms": (600, 1000)}  # texts to choose settings with, texts to test
SEED = 6

WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[!?£$]")


class Part(NamedTuple):
    """N texts as they were written, as `ids`, a tensor (n,) each, and their `labels` (N,): 1.0 is good, or spam."""

    texts: list[str]
    ids: list[Tensor]
    labels: Tensor

    def first(self, n: int) -> "Part":
        """The first n texts, which are as good as drawn: their order is random."""
        return Part(self.texts[:n], self.ids[:n], self.labels[:n])


class Corpus(NamedTuple):
    """The `vocabulary`, word → id, and three parts that share no text."""

    vocabulary: dict[str, int]
    train: Part
    validation: Part
    test: Part

    def encode(self, text: str) -> Tensor:
        """The words of a text as ids: (n,).  ValueError where it has no word."""
        found = words(text)
        if not found:
            raise ValueError(f"a text must have at least one word, but this one is {text!r}.")
        return _encode(self.vocabulary, found)


def words(text: str) -> list[str]:
    """Words in small letters, numbers with each digit written 0, and the signs ! ? £ $; all else separates them."""
    return WORD.findall(re.sub(r"\d", "0", text.lower().replace("’", "'")))[:LONGEST]


@cache
def corpus(name: str) -> Corpus:
    """The texts of "movie" or "sms", divided by a fixed draw.

    movie   snippets of film reviews; label 1.0 where people's mean score is above 0.  A score between -½ and ½ is
            neither good nor bad, and left out, as in chapter 4
    sms     messages; label 1.0 for spam, about one in eight.  Spam is sent again with a few words changed: of the spam
            to be tested, about one in five shares four fifths of its words or more with a message of the training

    Texts with the same `words` count as one, the last; those of fewer than four words are left out.

    Raises ValueError for another name, and what `snippets` raises where the package of the texts is missing.
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, but it is {name!r}.")
    texts, scores = snippets.movies() if name == "movie" else snippets.messages()
    least = MIN_SCORE if name == "movie" else 0
    rows = [tuple(words(text)) for text in texts]
    once = {row: i for i, row in enumerate(rows) if abs(scores[i]) >= least}
    taken = [i for row, i in once.items() if len(row) >= SHORTEST]
    drawn = np.random.default_rng(SEED).permutation(taken).tolist()
    ends = np.cumsum(N_HELD_OUT[name])
    validation, test, train = drawn[: ends[0]], drawn[ends[0] : ends[1]], drawn[ends[1] :]
    counts = Counter(word for i in train for word in rows[i])
    known = sorted((word for word, count in counts.items() if count >= MIN_COUNT), key=lambda w: (-counts[w], w))
    vocabulary = {word: i for i, word in enumerate(known, start=UNKNOWN + 1)}

    def part(chosen: list[int]) -> Part:
        labels = torch.from_numpy(scores[chosen] > 0).float()
        return Part([texts[i] for i in chosen], [_encode(vocabulary, rows[i]) for i in chosen], labels)

    return Corpus(vocabulary, part(train), part(validation), part(test))


def padded(rows: list[Tensor]) -> Tensor:
    """Rows of ids or of weights, (n,) each, as one tensor (B, n): zeros, that is PAD, behind the shorter ones."""
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def _encode(vocabulary: dict[str, int], row: Sequence[str]) -> Tensor:
    return torch.tensor([vocabulary.get(word, UNKNOWN) for word in row])
