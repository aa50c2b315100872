"""Attention as an aligner of letters and phonemes: a stated aim, judges that have not seen the model, rivals.

The aim, stated before the model is asked: for a consonant, the letter with the largest weight is the letter that spells
it.

    links = forced_links(words)                              the judge: where the spelling leaves one letter only
    found(links, aligned(model, words, "attention"))         the share of links that a method finds

All methods are asked about the same steps of the same model while the right phonemes are fed.  The judge is a rule of
spelling; `counted` is a second one, by counting which letters go with which phonemes in other words.  Whether the
phoneme follows the weights is asked in `spelling_forcing`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnlab.models.spelling import END, LONGEST, PHONEMES, Encoded, Pronouncer, Word, one_thread, phoneme_ids
from attnlab.models.spelling_measures import SPELT_BY, diagonal

__all__ = [
    "MAY_SPELL",
    "METHODS",
    "Change",
    "Link",
    "Run",
    "aligned",
    "by_position",
    "chance",
    "counted",
    "forced_links",
    "found",
    "off_the_diagonal",
    "run",
    "scores",
]

# The letters with which English writes each consonant, digraphs (ph, gh, ch, wh) with both of theirs: Brooks 2015,
# Dictionary of the British English Spelling System, chapter 3, doi 10.11647/OBP.0053; and those of names that came from
# elsewhere (T as in pizza, HH in jose, F and V in names in -owski and w-).  Wider than SPELT_BY on purpose: a letter
# that might spell the phoneme too leaves the link open.
MAY_SPELL = SPELT_BY | {
    "F": "fghpvw", "G": "ghx", "HH": "hgjwx", "K": "chkqx", "T": "tdz", "V": "vfhpw",
}  # fmt: skip

METHODS = ("attention", "gradient", "blocked", "deleted", "replaced")
N_REPLACEMENTS = 5
BATCH = 100  # words that are run together

Change = Callable[[int, Tensor, Encoded], Tensor]  # (step, weights (B, n), encoded) → weights (B, n)


class Link(NamedTuple):
    """In word number `word`, the phoneme number `step` is spelt by letter number `letter`; all counted from 0."""

    word: int
    step: int
    letter: int


class Run(NamedTuple):
    """`logits` (B, T, 41) and `weights` (B, T, n) of all steps, and the phonemes written or fed, `ids` (B, T)."""

    logits: Tensor
    weights: Tensor
    ids: Tensor


# -------------------------------------------------------------------------------------------------------------- judges


def forced_links(words: Sequence[Word]) -> list[Link]:
    """The links that the spelling leaves no choice about: the phoneme is there once, and one letter may spell it.

    "knight" N AY T: n–N and t–T.  In "rabbit" two letters may spell B, and no link is made.
    """
    links = []
    for i, (spelling, phonemes) in enumerate(words):
        for step, phoneme in enumerate(phonemes):
            if phoneme in MAY_SPELL and phonemes.count(phoneme) == 1:
                letters = [j for j, letter in enumerate(spelling) if letter in MAY_SPELL[phoneme]]
                if len(letters) == 1:
                    links.append(Link(i, step, letters[0]))
    return links


def off_the_diagonal(words: Sequence[Word], links: Sequence[Link]) -> list[Link]:
    """The links that the straight diagonal misses.  For the rest it is enough to know the two lengths."""
    straight = diagonal(words)
    return [link for link in links if straight[link.word][link.step] != link.letter]


def counted(train: Sequence[Word], words: Sequence[Word], rounds: int = 5) -> list[Tensor]:
    """The likeliest letter of each phoneme, (T,) a word, by a table p(phoneme | letter) counted in `train`: no network.

    Each phoneme has a letter, and letters never go back; that is all that is assumed.  Which letter is not known, so
    each round counts every way, weighted by how likely the last table makes it (expectation–maximisation: Dempster,
    Laird, Rubin 1977; for aligned words Brown et al. 1993, and in order Vogel, Ney, Tillmann 1996).
    """
    table = np.ones((27, len(PHONEMES) + 2))
    table[0] = 0  # padding
    for _ in range(rounds):
        letters, phonemes, shares = _expected(table, train)
        table = np.zeros_like(table)
        np.add.at(table, (letters[None], phonemes[:, None]), shares)
        table /= np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    best = _expected(table, words)[2].argmax(axis=1)  # (T, B)
    return [torch.from_numpy(best[: len(phonemes), i]) for i, (_, phonemes) in enumerate(words)]


def _expected(table: np.ndarray, words: Sequence[Word]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Letters (n, B), phonemes (T, B), and for each phoneme the probability of each letter, (T, n, B)."""
    n, steps = (max(map(len, column)) for column in zip(*words, strict=True))
    letters, phonemes = np.zeros((n, len(words)), int), np.zeros((steps, len(words)), int)
    for i, (spelling, sounds) in enumerate(words):
        letters[: len(spelling), i] = [ord(letter) - 96 for letter in spelling]
        phonemes[: len(sounds), i] = [PHONEMES.index(sound) + 2 for sound in sounds]
    fit = table[letters[None], phonemes[:, None]]  # (T, n, B)
    before, after = fit.copy(), np.ones_like(fit)
    for t in range(1, steps):
        before[t] *= before[t - 1].cumsum(axis=0)
    for t in reversed(range(steps - 1)):
        following = (fit[t + 1] * after[t + 1])[::-1].cumsum(axis=0)[::-1]
        after[t] = np.where(phonemes[t + 1] > 0, following, 1)
    shares = before * after * (phonemes > 0)[:, None]
    return letters, phonemes, shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)


# ------------------------------------------------------------------------------------------------------------- methods


def run(
    model: Pronouncer,
    words: Sequence[str],
    phonemes: Sequence[Sequence[str]] | None = None,
    change: Change | None = None,
) -> Run:
    """All steps, with the right phonemes fed, or without them with the likeliest; `change` may replace the weights.

    As `Pronouncer.read`, but with logits, gradients and a place to intervene.  Rows of `change` must be 0 at padding.
    ValueError for a model without weights.
    """
    if model.kind == "fixed":
        raise ValueError('A model of kind "fixed" has no weights over the letters.')
    was_training = model.training
    model.eval()
    encoded = model.encode(words)
    given = None if phonemes is None else phoneme_ids(phonemes)  # (B, T)
    state, id_before = model.begin(encoded), torch.full((len(words),), END)
    logits, rows, ids = [], [], []
    for t in range(LONGEST if given is None else given.shape[1]):
        context, weights = model.context(state, encoded)
        if change is not None:
            weights = change(t, weights, encoded)
            context = (weights[:, None] @ encoded.keys)[:, 0]
        state = model.cell(torch.cat([model.phonemes(id_before), context], dim=-1), state)
        logits.append(model.logits(state, context))
        rows.append(weights)
        likeliest = logits[-1][:, END:].argmax(dim=-1) + END  # never padding
        id_before = likeliest if given is None else given[:, t]
        ids.append(id_before)
    model.train(was_training)
    return Run(*(torch.stack(column, dim=1) for column in (logits, rows, ids)))


@one_thread()
def scores(model: Pronouncer, words: Sequence[Word], method: str, seed: int = 0) -> list[Tensor]:
    """How much each letter matters to each phoneme, (T, n) a word, the right phonemes fed; larger is more.

    "attention"   the weight of the letter
    "gradient"    gradient × input, signed: of the phoneme's logit, by the letter's embedding, summed over features
    "blocked"     what the logit loses where the letter gets no weight at any step (the others are divided by their sum)
    "deleted"     what the logit loses where the word is spelt without the letter: leave-one-out
    "replaced"    what it loses where another letter stands there, the mean of five drawn at random

    ValueError for another name, and for a model without weights.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, but it is {method!r}.")
    random = np.random.default_rng(seed)
    tables = []
    for start in range(0, len(words), BATCH):
        batch = words[start : start + BATCH]
        if method == "attention":
            tables += _cut(run(model, *zip(*batch, strict=True)).weights, batch)
        elif method == "gradient":
            tables += _cut(_gradients(model, batch), batch)
        else:
            tables += _losses(model, batch, method, random)
    return tables


def aligned(model: Pronouncer, words: Sequence[Word], method: str = "attention", seed: int = 0) -> list[Tensor]:
    """The letter with the largest score at each phoneme, (T,) a word."""
    return [table.argmax(dim=-1) for table in scores(model, words, method, seed)]


def _cut(table: Tensor, words: Sequence[Word]) -> list[Tensor]:
    """(B, T, n) → (T, n) a word, without END and padding."""
    rows = table.detach()
    return [rows[i, : len(phonemes), : len(spelling)] for i, (spelling, phonemes) in enumerate(words)]


def _gradients(model: Pronouncer, words: Sequence[Word]) -> Tensor:
    """(B, T, n): all words at once, since no word's logit depends on another word's letters."""
    seen = []
    hook = model.letters.register_forward_hook(lambda module, ids, out: seen.append(out.requires_grad_()) or out)
    try:
        with torch.enable_grad():
            logits, _, ids = run(model, *zip(*words, strict=True))
    finally:
        hook.remove()
    right = logits.gather(-1, ids[..., None])[..., 0].sum(dim=0)  # (T,)
    gradients = [torch.autograd.grad(logit, seen[0], retain_graph=True)[0] for logit in right]  # each (B, n, d)
    return torch.stack([(gradient * seen[0]).sum(dim=-1) for gradient in gradients], dim=1)


@torch.no_grad()
def _losses(model: Pronouncer, words: Sequence[Word], method: str, random: np.random.Generator) -> list[Tensor]:
    """The phonemes' logits, less those of the same words with one letter changed: (T, n) a word"""
    places = [(i, j) for i, (spelling, _) in enumerate(words) for j in range(len(spelling))]
    at = torch.tensor([j for _, j in places])
    changes: list[tuple[list[str], Change | None]] = []
    if method == "blocked":

        def block(t: int, weights: Tensor, encoded: Encoded) -> Tensor:
            rest = weights.scatter(-1, at[:, None], 0)
            return rest / rest.sum(dim=-1, keepdim=True).clamp_min(1e-30)

        changes = [([words[i][0] for i, _ in places], block)]
    elif method == "deleted":
        changes = [([words[i][0][:j] + words[i][0][j + 1 :] for i, j in places], None)]
    else:
        for _ in range(N_REPLACEMENTS):
            others = (chr(97 + (ord(words[i][0][j]) - 97 + random.integers(1, 26)) % 26) for i, j in places)
            pairs = zip(places, others, strict=True)
            changes.append(([words[i][0][:j] + other + words[i][0][j + 1 :] for (i, j), other in pairs], None))
    whole = _right_logits(run(model, *zip(*words, strict=True)))  # (B, T)
    phonemes = [words[i][1] for i, _ in places]
    without = torch.stack([_right_logits(run(model, spelt, phonemes, change)) for spelt, change in changes]).mean(dim=0)
    lost = whole[[i for i, _ in places]] - without  # (places, T)
    ends = np.cumsum([len(spelling) for spelling, _ in words])[:-1].tolist()
    tables = lost.tensor_split(ends)
    return [table[:, : len(phonemes)].T for table, (_, phonemes) in zip(tables, words, strict=True)]


def _right_logits(done: Run) -> Tensor:
    return done.logits.gather(-1, done.ids[..., None])[..., 0]  # (B, T)


# ------------------------------------------------------------------------------------------------- shares and baselines


def found(links: Sequence[Link], aligned: Sequence[Tensor], within: int = 0) -> float:
    """The share of links whose letter is the one aligned, or one `within` so many places of it.

    `aligned` may be that of another word, as a baseline: a step beyond its end is a miss.  Within one letter nearly
    anything passes, the diagonal too: that share says how far the misses go, and not how good a method is.
    """
    return sum(
        step < len(aligned[i]) and abs(int(aligned[i][step]) - letter) <= within for i, step, letter in links
    ) / len(links)


def chance(words: Sequence[Word], links: Sequence[Link], within: int = 0) -> float:
    """What `found` comes to, on average, where each letter is drawn from the word at random."""
    shares = []
    for i, _, letter in links:
        n = len(words[i][0])
        shares.append(sum(abs(j - letter) <= within for j in range(n)) / n)
    return sum(shares) / len(shares)


def by_position(model: Pronouncer, words: Sequence[Word], others: Sequence[Word]) -> list[Tensor]:
    """Aligned by position alone, (T,): the largest mean weight in `others` with as many letters, at the same step.

    And with as many phonemes, or the nearest numbers there are.  It knows the model's habit, and nothing of the word.
    """
    tables = defaultdict(list)
    for (spelling, phonemes), weights in zip(others, scores(model, others, "attention"), strict=True):
        tables[len(spelling), len(phonemes)].append(weights)
    means = {sizes: torch.stack(same).mean(dim=0) for sizes, same in tables.items()}
    rows = []
    for spelling, phonemes in words:
        n, steps = len(spelling), len(phonemes)
        nearest = min(means, key=lambda sizes: (abs(sizes[0] - n), abs(sizes[1] - steps)))
        mean = means[nearest]
        rows.append(mean[torch.arange(steps).clamp_max(len(mean) - 1)].argmax(dim=-1).clamp_max(n - 1))
    return rows
