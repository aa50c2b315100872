"""How well a `Pronouncer` does, by length of the word, and what its attention weights point at."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.models.spelling import Pronouncer, Word

__all__ = [
    "SPELT_BY",
    "Counts",
    "Evaluation",
    "Moves",
    "alignments",
    "by_chance",
    "diagonal",
    "edit_distance",
    "evaluate",
    "moves",
    "of_another_word",
    "on_own_letters",
]

# Consonants that English writes with few letters, and these.  Vowels, and sounds of two letters (CH, NG, SH, TH), are
# left out: for them no letter is surely the right one.
SPELT_BY = {
    "B": "b", "D": "d", "F": "fp", "G": "g", "HH": "h", "K": "ckqx", "L": "l", "M": "m", "N": "n", "P": "p", "R": "r",
    "S": "scxz", "T": "t", "V": "v", "Z": "zsx",
}  # fmt: skip


class Counts(NamedTuple):
    """So many `words` of so many `phonemes`; `edits` to mend what was read, and words that are `right` as they are."""

    words: int
    phonemes: int
    edits: int
    right: int

    @property
    def phoneme_error(self) -> float:
        """Edits for each phoneme of the dictionary.  May pass 1, where far too much is read."""
        return self.edits / self.phonemes

    @property
    def words_right(self) -> float:
        """The share of words without an edit."""
        return self.right / self.words


class Evaluation(NamedTuple):
    """Counts over all words, and `by_length` over those of each number of letters, in ascending order."""

    all: Counts
    by_length: dict[int, Counts]


class Moves(NamedTuple):
    """The shares of steps that go `forward` to a later letter, `stay` at the letter, go `back` to an earlier one."""

    forward: float
    stay: float
    back: float


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest phonemes to insert, delete or replace that make one sequence the other.

    Levenshtein 1966.  Packages have it (rapidfuzz does); each learner would install one for these eight lines.
    """
    above = list(range(len(other) + 1))  # from nothing to the first j of other
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            row.append(min(row[-1] + 1, above[j] + 1, above[j - 1] + (a != b)))
        above = row
    return above[-1]


def evaluate(model: Pronouncer, words: Sequence[Word]) -> Evaluation:
    """Read the words, greedily, and compare with the dictionary, which has one pronunciation for each."""
    readings = model.read([spelling for spelling, _ in words])
    by_length = defaultdict(list)
    for (spelling, phonemes), reading in zip(words, readings, strict=True):
        edits = edit_distance(reading.phonemes, phonemes)
        by_length[len(spelling)].append((1, len(phonemes), edits, int(edits == 0)))
    sums = {length: Counts(*map(sum, zip(*rows, strict=True))) for length, rows in sorted(by_length.items())}
    return Evaluation(Counts(*map(sum, zip(*sums.values(), strict=True))), sums)


# ---------------------------------------------------------------------------------------------------------- alignments


def alignments(model: Pronouncer, words: Sequence[Word]) -> list[Tensor]:
    """For each word, the letter with the most weight at each of its phonemes, while the right ones are fed: (T,)

    So that models are compared step by step, a bad reader too.  ValueError for "fixed", which has no weights.
    """
    if model.kind == "fixed":
        raise ValueError('A model of kind "fixed" has no weights over the letters.')
    readings = model.read([spelling for spelling, _ in words], [phonemes for _, phonemes in words])
    return [reading.weights.argmax(dim=-1) for reading in readings]


def diagonal(words: Sequence[Word]) -> list[Tensor]:
    """The alignment that knows the two lengths only: from the first letter to the last in equal steps, (T,) a word."""
    return [torch.linspace(0, len(s) - 1, len(p)).round().long() for s, p in words]


def moves(aligned: Sequence[Tensor]) -> Moves:
    """Which way the alignments go from step to step, as shares of all steps from the second on.

    A share of steps "not backward" alone would say nothing: a model that always looks at one letter has it too.  By
    chance, with a letter drawn from n each time, forward and back are (n - 1) / (2 n) each, a little under one half.
    """
    steps = torch.cat([letters.diff() for letters in aligned])
    return Moves(*(way.double().mean().item() for way in (steps > 0, steps == 0, steps < 0)))


def on_own_letters(words: Sequence[Word], aligned: Sequence[Tensor]) -> float:
    """Of the consonants in SPELT_BY, the share that is aligned with a letter that may spell them.

    `aligned` may be that of other words of the same lengths, as a baseline: steps beyond its end are left out.
    """
    return _mean(words, aligned, lambda letters, own, j: letters[j] in own)


def by_chance(words: Sequence[Word]) -> float:
    """What `on_own_letters` comes to, on average, where the letter is drawn from the word at random at each step."""
    anywhere = [torch.zeros(len(phonemes), dtype=torch.long) for _, phonemes in words]
    return _mean(words, anywhere, lambda letters, own, j: sum(map(letters.count, own)) / len(letters))


def of_another_word(words: Sequence[Word], aligned: Sequence[Tensor]) -> list[Tensor]:
    """To each word the alignment of another one with as many letters: a baseline that knows the length and the habit.

    In an alphabetical list it is far away, so that the two do not begin alike.
    """
    by_length = defaultdict(list)
    for i, (spelling, _) in enumerate(words):
        by_length[len(spelling)].append(i)
    other = {i: same[(k + len(same) // 2) % len(same)] for same in by_length.values() for k, i in enumerate(same)}
    return [aligned[other[i]] for i in range(len(words))]


def _mean(words: Sequence[Word], aligned: Sequence[Tensor], of: Callable[[str, str, int], float]) -> float:
    found = [
        of(letters, SPELT_BY[phoneme], j)
        for (letters, phonemes), row in zip(words, aligned, strict=True)
        for phoneme, j in zip(phonemes, row.tolist(), strict=False)
        if phoneme in SPELT_BY
    ]
    return sum(found) / len(found)
