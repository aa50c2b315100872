"""Attention as an aligner of letters and phonemes: writes src/attnlab/data/spelling_alignment.json.

    python book/tools/spelling_alignment.py FOLDER

FOLDER holds KIND-SEED.npz of book/tools/train_spelling.py: seeds 0 to 4 of "additive", 0 to 2 of the other kinds with
weights (`train_spelling.py train FOLDER additive-3 …` makes what is missing).  About a minute and a half a model on one
core.  A list of numbers has one for each seed.

What was chosen (the letters of the rule, and of several gradients the signed gradient × input of the logit, the best)
was chosen on the 1,000 words for choosing; everything here is measured on the 1,200 test words.
"""

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from records import DATA, rounded, write
from torch import nn

from attnlab.data import pronunciations
from attnlab.models.spelling import KINDS, Pronouncer, load, restore
from attnlab.models.spelling_alignment import (
    METHODS,
    Change,
    aligned,
    by_position,
    chance,
    counted,
    forced_links,
    found,
    off_the_diagonal,
    scores,
)
from attnlab.models.spelling_forcing import followed, kept, read_with
from attnlab.models.spelling_measures import diagonal, edit_distance, of_another_word

RECORD = DATA / "spelling_alignment.json"
SEEDS = {"additive": range(5), "dot": range(3), "general": range(3), "local": range(3)}
SHARES = (0.25, 0.5, 0.75, 1.0)
OFFSETS = (-2, -1, 0, 1, 2)
PART = 60  # every so many test words make a part that a test measures again


def three(words: list, links: list, rows: list) -> dict:
    """The share of links found; found within one letter; and found of the links that the diagonal misses."""
    off = off_the_diagonal(words, links)
    return {"found": found(links, rows), "within_1": found(links, rows, 1), "off_diagonal": found(off, rows)}


def untrained(kind: str, seed: int) -> Pronouncer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Pronouncer(kind).eval()


def replaced_weights(words: list, rows: list) -> dict[str, Change]:
    """What `read_with` puts in place of the model's weights; `rows` (T, n) are its own, of each word."""
    n, steps = (torch.tensor([len(part) for part in column]) for column in zip(*words, strict=True))
    random = torch.Generator().manual_seed(0)

    def one_letter(places: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot(places, weights.shape[1]).to(weights.dtype)

    def straight(t, weights, encoded):
        places = ((n - 1) * t / (steps - 1).clamp_min(1)).round().long()
        return one_letter(torch.minimum(places, n - 1), weights)

    def shuffled(t, weights, encoded):
        order = torch.rand(weights.shape, generator=random).masked_fill(~encoded.mask[:, 0], 2).argsort(dim=-1)
        return weights.gather(-1, order)

    others = of_another_word(words, rows)

    def of_another(t, weights, encoded):
        row = [table[min(t, len(table) - 1)] for table in others]
        return nn.utils.rnn.pad_sequence(row, batch_first=True)

    return {
        "own": lambda t, weights, encoded: weights,
        "largest only": lambda t, weights, encoded: one_letter(weights.argmax(dim=-1), weights),
        "the diagonal": straight,
        "of another word": of_another,
        "uniform": lambda t, weights, encoded: encoded.mask[:, 0] / encoded.lengths[:, None],
        "shuffled": shuffled,
    }


def measured(model: Pronouncer, words: list, train: list) -> dict:
    """Everything about one model, unrounded."""
    links, spellings = forced_links(words), [spelling for spelling, _ in words]
    rows = scores(model, words, "attention")
    pointed = [table.argmax(dim=-1) for table in rows]
    by_method = {m: three(words, links, pointed if m == "attention" else aligned(model, words, m)) for m in METHODS}
    habits = {"by position": by_position(model, words, train), "of another word": of_another_word(words, pointed)}
    phonemes = sorted({words[link.word][1][link.step] for link in links})
    sounds = {p: [link for link in links if words[link.word][1][link.step] == p] for p in phonemes}
    readings = read_with(model, spellings, lambda t, weights, encoded: weights)
    is_right = [reading == word[1] for reading, word in zip(readings, words, strict=True)]
    right, wrong = ([link for link in links if is_right[link.word] is yes] for yes in (True, False))
    total = sum(len(sounds) for _, sounds in words)

    def error(change: Change) -> float:
        read = read_with(model, spellings, change)
        return sum(edit_distance(one, word[1]) for one, word in zip(read, words, strict=True)) / total

    return {
        "methods": by_method,
        "baselines": {name: three(words, links, habit) for name, habit in habits.items()},
        "off_by": {str(k): sum(off(pointed, link) == k for link in links) / len(links) for k in OFFSETS},
        "by_phoneme": {p: found(chosen, pointed) for p, chosen in sounds.items()},
        "followed": {str(share): followed(model, words, links, share=share)._asdict() for share in SHARES},
        "kept": {"untouched": kept(model, words, links)} | {str(k): beside(model, words, links, k) for k in OFFSETS},
        "missed": missed(model, words, [link for link in links if off(pointed, link)], rows),
        "words_read": {
            "right": {"words": sum(is_right), "links": len(right), "found": found(right, pointed)},
            "wrong": {"words": len(words) - sum(is_right), "links": len(wrong), "found": found(wrong, pointed)},
            "diagonal": {"right": found(right, diagonal(words)), "wrong": found(wrong, diagonal(words))},
        },
        "phoneme_error": {name: error(change) for name, change in replaced_weights(words, rows).items()},
    }


def beside(model: Pronouncer, words: list, links: list, k: int) -> float:
    """`kept` with all weight on the letter k places after the own one, where there is one."""
    there = [link for link in links if 0 <= link.letter + k < len(words[link.word][0])]
    return kept(model, words, there, [link.letter + k for link in there])


def missed(model: Pronouncer, words: list, links: list, rows: list) -> dict:
    """Links whose largest weight is elsewhere: both weights, and what is written with all weight on either letter."""
    largest = [int(rows[link.word][link.step].argmax()) for link in links]
    own = [link.letter for link in links]

    def mean_weight(letters: list) -> float:
        return sum(float(rows[i][step][j]) for (i, step, _), j in zip(links, letters, strict=True)) / len(links)

    return {
        "weight_at_largest": mean_weight(largest),
        "weight_at_own": mean_weight(own),
        "kept": kept(model, words, links),
        "kept_at_largest": kept(model, words, links, largest),
        "kept_at_own": kept(model, words, links, own),
    }


def off(pointed: list, link: tuple) -> int:
    return int(pointed[link.word][link.step]) - link.letter


def over_seeds(runs: list) -> dict | list:
    """Records of one form → one record, with a list of the seeds' numbers in place of each number."""
    if isinstance(runs[0], dict):
        return {name: over_seeds([run[name] for run in runs]) for name in runs[0]}
    return [round(number, 4) for number in runs]


def measure_all(folder: Path, words: list, train: list, say: Callable[[str], None]) -> dict:
    links = forced_links(words)
    off_diagonal = off_the_diagonal(words, links)
    at_random = (chance(words, links), chance(words, links, 1), chance(words, off_diagonal))
    record = {
        "about": "Attention of the models of book/tools/train_spelling.py as an aligner, on the test words; "
        "book/tools/spelling_alignment.py writes it. Lists run over the seeds.",
        "aim": "For a consonant, the letter with the largest weight is the letter that spells it.",
        "versions": {"torch": version("torch"), "numpy": version("numpy")},
        "links": {
            "words": len(words),
            "links": len(links),
            "words_with_links": len({link.word for link in links}),
            "off_diagonal": len(off_diagonal),
        },
        "baselines": {
            "a letter at random": rounded(dict(zip(("found", "within_1", "off_diagonal"), at_random, strict=True))),
            "the diagonal": rounded(three(words, links, diagonal(words))),
            "counted, no network": rounded(three(words, links, counted(train, words))),
        },
        "untrained": {
            kind: over_seeds([three(words, links, aligned(untrained(kind, seed), words)) for seed in SEEDS[kind]])
            for kind in KINDS[1:]
        },
        "kinds": {},
    }
    for kind, seeds in SEEDS.items():
        runs = []
        for seed in seeds:
            runs.append(measured(restore(kind, folder / f"{kind}-{seed}.npz"), words, train[::4]))
            say(f"{kind}-{seed}: " + " ".join(f"{m} {row['found']:.3f}" for m, row in runs[-1]["methods"].items()))
        record["kinds"][kind] = {"seeds": list(seeds)} | over_seeds(runs)
    return record


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lexicon = pronunciations()
    measured_all = measure_all(Path(sys.argv[1]), lexicon.test, lexicon.train, lambda line: print(line, flush=True))
    part = over_seeds([measured(load("additive"), lexicon.test[::PART], lexicon.train[::40])])
    write(RECORD, measured_all | {"part": part})
