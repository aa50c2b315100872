"""Data that comes with the course: small, real, unchanged, each with its source and licence beside it."""

from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

__all__ = ["Digits", "digits"]


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
