"""Data that comes with the course: small, real, unchanged, each with its source and licence beside it."""

import gzip
import json
from importlib.resources import as_file, files
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Digits", "Pronunciations", "digits", "pronunciations", "recorded"]


class Digits(NamedTuple):
    """Handwritten digits: `images` (1797, 64), 8 × 8 pixels a row, 0 = white … 16 = black; `labels` (1797,), 0 … 9."""

    images: np.ndarray
    labels: np.ndarray


def digits() -> Digits:
    """1797 handwritten digits of 13 people, 8 × 8 pixels each, in the order of the source.

    Alpaydin and Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository,
    doi 10.24432/C50P49, CC BY 4.0; the file is the one that scikit-learn 1.7 carries.
    """
    with as_file(files(__package__) / "digits.csv.gz") as path:
        table = np.loadtxt(path, delimiter=",")  # (1797, 65)
    return Digits(table[:, :64], table[:, 64].astype(np.int64))


class Pronunciations(NamedTuple):
    """English words, (spelling, phonemes) each: 20,000 to `train`, 1,000 to `choose` settings, 1,200 to `test`."""

    train: list[tuple[str, tuple[str, ...]]]
    choose: list[tuple[str, tuple[str, ...]]]
    test: list[tuple[str, tuple[str, ...]]]


def pronunciations() -> Pronunciations:
    """Words of 3 to 14 letters and their phonemes without stress, as in ("knight", ("N", "AY", "T")).

    The test holds 120 words of each length from 4 to 13 letters.  No word of `choose` and `test` is another form of a
    word of `train`, as "walked" is of "walk"; but compounds may share their parts, and names come in many spellings.

    The Carnegie Mellon Pronouncing Dictionary, Copyright (C) 1993-2015 Carnegie Mellon University, BSD-2-Clause, which
    stands beside the file; the slice is cut by book/tools/pronunciations.py.
    """
    packed = (files(__package__) / "pronunciations.tsv.gz").read_bytes()
    parts: dict[str, list] = {part: [] for part in Pronunciations._fields}
    for line in gzip.decompress(packed).decode().splitlines():
        part, spelling, phonemes = line.split("\t")
        parts[part].append((spelling, tuple(phonemes.split())))
    return Pronunciations(**parts)


def recorded(name: str) -> dict[str, Any]:
    """A record that a script of the course wrote, as "spelling.json"; README.md beside this file says which script."""
    return json.loads((files(__package__) / name).read_text("utf-8"))
