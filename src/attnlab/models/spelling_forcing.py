"""Is the weight the route from letter to phoneme?  Weights of attention put elsewhere, and what is written then.

    followed(model, words, links)           the weights of one step on the letter of another: which phoneme?
    kept(model, words, links, letters)      on letters of your choice, the one beside it, say: does the phoneme stay?
    read_with(model, words, change)         whole words read with other weights at every step

`links` are those of `spelling_alignment.forced_links`, so that letters and phonemes are known.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.models.spelling import END, PHONEMES, Encoded, Pronouncer, Word, one_thread
from attnlab.models.spelling_alignment import Change, Link, run

__all__ = ["Followed", "followed", "forced", "kept", "read_with"]


class Followed(NamedTuple):
    """Of steps whose weights are put elsewhere, the shares that write …

    `at_letter`      the phoneme of another letter, the weights on that letter
    `at_random`      the same phoneme, the weights on a letter drawn from the rest of the word
    `untouched`      the same phoneme, the weights as the model has them
    """

    at_letter: float
    at_random: float
    untouched: float


@one_thread()
def forced(model: Pronouncer, word: Word, step: int, letter: int, share: float = 1.0) -> str:
    """What the model writes at a step with that `share` of all weight moved to a letter; "" for the END.

    The right phonemes are fed before it, with the model's own weights.  IndexError for a step or letter that the word
    does not have.
    """
    spelling, phonemes = word
    for name, at, n in (("step", step, len(phonemes)), ("letter", letter, len(spelling))):
        if not 0 <= at < n:
            raise IndexError(f"{name} must lie between 0 and {n - 1}, but it is {at}.")
    return _name(int(_written(model, [word], [Link(0, step, letter)], [letter], share)))


@one_thread()
def followed(
    model: Pronouncer, words: Sequence[Word], links: Sequence[Link], seed: int = 0, share: float = 1.0
) -> Followed:
    """Put the weights of one step on the letter of another, and see whether the phoneme goes with them.

    For each link in a word of several: another link of the word is drawn at random.  Is its phoneme written at this
    step, with the weights on its letter?  `share` below 1 moves so much of all weight there, and leaves the rest.
    """
    random = np.random.default_rng(seed)
    of_word = defaultdict(list)
    for link in links:
        of_word[link.word].append(link)
    steps, drawn_links, drawn_letters = [], [], []
    for link in links:
        others = [other for other in of_word[link.word] if other.letter != link.letter]
        rest = [j for j in range(len(words[link.word][0])) if j != link.letter]
        if others and len(rest) > 1:
            other = others[random.integers(len(others))]
            rest.remove(other.letter)
            steps.append(link)
            drawn_links.append(other)
            drawn_letters.append(rest[random.integers(len(rest))])
    wanted = _phonemes(words, drawn_links)
    at_letter = _written(model, words, steps, [other.letter for other in drawn_links], share)
    at_random = _written(model, words, steps, drawn_letters, share)
    untouched = _written(model, words, steps)
    return Followed(*(_share(written == wanted) for written in (at_letter, at_random, untouched)))


@one_thread()
def kept(
    model: Pronouncer, words: Sequence[Word], links: Sequence[Link], letters: Sequence[int] | None = None
) -> float:
    """The share of links that write their own phoneme with all weight on one letter, one of `letters` for each link.

    None leaves the weights as the model has them.
    """
    return _share(_written(model, words, links, letters) == _phonemes(words, links))


@torch.no_grad()
@one_thread()
def read_with(model: Pronouncer, words: Sequence[str], change: Change) -> list[tuple[str, ...]]:
    """Pronounce words, at each step the likeliest phoneme, with `change` made to the weights of every step."""
    read = []
    for ids in run(model, words, change=change).ids.tolist():
        n = ids.index(END) if END in ids else len(ids)
        read.append(tuple(map(_name, ids[:n])))
    return read


@torch.no_grad()
def _written(
    model: Pronouncer,
    words: Sequence[Word],
    links: Sequence[Link],
    letters: Sequence[int] | None = None,
    share: float = 1.0,
) -> Tensor:
    """The likeliest phoneme's id at the step of each link, its weights moved to a letter, (L,); None: not moved."""
    steps = torch.tensor([link.step for link in links])
    place = None if letters is None else torch.tensor(letters)

    def move(t: int, weights: Tensor, encoded: Encoded) -> Tensor:
        moved = (1 - share) * weights + share * nn.functional.one_hot(place, weights.shape[1])
        return torch.where((steps == t)[:, None], moved, weights)

    spellings, phonemes = zip(*(words[link.word] for link in links), strict=True)
    logits = run(model, spellings, phonemes, None if place is None else move).logits
    return logits[torch.arange(len(links)), steps, END:].argmax(dim=-1) + END  # never padding


def _phonemes(words: Sequence[Word], links: Sequence[Link]) -> Tensor:
    return torch.tensor([PHONEMES.index(words[link.word][1][link.step]) + 2 for link in links])


def _share(these: Tensor) -> float:
    return these.double().mean().item()


def _name(i: int) -> str:
    return PHONEMES[i - 2] if i > END else ""
