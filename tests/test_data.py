"""The data of the course: the very files of their sources, read as they are described."""

import hashlib
from pathlib import Path

import numpy as np

from attnlab import data

FOLDER = Path(data.__file__).parent
DIGESTS = {"digits.csv.gz": "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"}


def test_files_are_unchanged_and_listed():
    for name, digest in DIGESTS.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
        assert f"`{name}`" in (FOLDER / "README.md").read_text("utf-8"), name


def test_digits_are_images_from_0_to_16_with_their_labels():
    images, labels = data.digits()
    assert images.shape == (1797, 64) and images.dtype == np.float64
    assert (images.min(), images.max()) == (0, 16) and np.array_equal(images, images.round())
    # The counts that the source states for its test set.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # The first image is a nought: a ring of ink around an empty middle.
    first = images[0].reshape(8, 8)
    assert labels[0] == 0 and first[3:5, 3].sum() == 0 and first[:, 2:6].sum() > 0.8 * first.sum()
