"""The data of the course: the very files of their sources, read as they are described."""

import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attnlab import data

sys.path.append(str(Path(__file__).resolve().parents[1] / "book/tools"))

import pronunciations as tool
import records

FOLDER = Path(data.__file__).parent
DIGESTS = {
    "digits.csv.gz": "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22",
    "pronunciations.tsv.gz": "43cc6dae129ed583a0a8151984ee5ed01f2b5f5256fc01c8216d97ed7ce050c8",
    "pronunciations.LICENSE.txt": "bd4ce8e44170a5f9f481310ca85c51de3c4f851a65e679b40e603b143bd3542a",
    "spelling_fixed.npz": "a02f95109fe1fd8796590d3e7cc346d4fd2e4f0169a2170c19176807d8347f1b",
    "spelling_additive.npz": "7b8d596d3662547c6f3c9e0636ab47419596dc1d3ee49b43340071e25eedeb71",
    "spelling_dot.npz": "f394ccdd8679f4733c4e4231e90dc3948fe40b78faceb962fc924843c994d4f7",
    "spelling_general.npz": "c90c7da878ebb5e401c0f9f66d2329f92f2c2aef4d8ae44d8dd5b94a0ad948c3",
    "spelling_local.npz": "203cf79732610353f9a086522ee40ae1c219725096826798f397098f66708a94",
    "classifier_movie_adversary.npz": "d881859e3aca5995f374acd96bb5a49a9c50b52cb33800769ed1116024df1401",
    "classifier_movie_bilstm.npz": "054dd2f221cf7bde59779f42aaa4eca4666af237063ca6210a0e1aa2d11e13ac",
    "classifier_movie_no_context.npz": "4fe6a663eda2669f71857a55fdd03c46a0f4afc096a5ec8f48edcbb079fd8e6a",
    "classifier_sms_bilstm.npz": "237b6172bee66f30bfd3b4f070c3facfa23ab0574415250a995f12a610f24426",
    "induction_one_layer.npz": "a556804ff1de19f469a60e5396e73e503822d1258da029e85fe5de5b5ab39423",
    "induction_one_layer_fixed.npz": "bb4b625b73f640cf42e87ad316efa3c80542b02a5a1ef1eb33e320812ecee4dc",
    "induction_two_layers.npz": "fcd5c915265bb0005495a2e3e2de779e1759d08a008e273612be78d8719763e9",
}


def test_files_are_unchanged_and_listed():
    for name, digest in DIGESTS.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    listed = (FOLDER / "README.md").read_text("utf-8")
    files = {path.name for path in FOLDER.iterdir() if path.suffix in {".gz", ".json", ".npz", ".txt"}}
    assert {name for name in files if f"`{name}`" not in listed} == set()


RECORDS = sorted([*FOLDER.glob("*.json"), *Path(__file__).parent.glob("data_*.json")])


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_a_record_is_laid_out_as_its_tool_writes_it(file):
    """An edit by hand, or a tool that writes otherwise, would show."""
    text = file.read_text("utf-8")
    assert records.as_text(json.loads(text)) == text
    assert file.stat().st_size < 60_000


def test_a_record_is_a_line_for_each_part_that_does_not_fit_on_one():
    row = {"words": ["é"] * 3, "number": 0.5}
    assert records.as_text(row) == '{"words": ["é", "é", "é"], "number": 0.5}\n'
    plain, nested = list(range(60)), [row, {"words": ["x" * 60, "y" * 60], "none": None}]
    lines = records.as_text({"plain": plain, "nested": nested}).splitlines()
    assert lines[1] == f' "plain": {plain},'
    assert lines[2:5] == [' "nested": [', '  {"words": ["é", "é", "é"], "number": 0.5},', "  {"]
    assert lines[5:] == [f'   "words": ["{"x" * 60}", "{"y" * 60}"],', '   "none": null', "  }", " ]", "}"]
    assert json.loads("\n".join(lines)) == {"plain": plain, "nested": nested}


def test_a_record_is_rounded_at_every_depth():
    found = {"a": 1 / 3, "b": [np.float32(0.12347), 2, True, None, "0.12345"], "c": (np.array([[0.12347]]), [2 / 3])}
    assert records.rounded(found) == {"a": 0.3333, "b": [0.1235, 2, True, None, "0.12345"], "c": [[[0.1235]], [0.6667]]}
    assert records.rounded(2 / 3, 2) == 0.67


def test_digits_are_images_from_0_to_16_with_their_labels():
    images, labels = data.digits()
    assert images.shape == (1797, 64) and images.dtype == np.float64
    assert (images.min(), images.max()) == (0, 16) and np.array_equal(images, images.round())
    # The counts that the source states for its test set.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # The first image is a nought: a ring of ink around an empty middle.
    first = images[0].reshape(8, 8)
    assert labels[0] == 0 and first[3:5, 3].sum() == 0 and first[:, 2:6].sum() > 0.8 * first.sum()


def test_pronunciations_are_parts_without_a_word_in_common():
    parts = data.pronunciations()
    assert [len(part) for part in parts] == [20_000, 1_000, 1_200]
    spellings = [spelling for part in parts for spelling, _ in part]
    assert len(set(spellings)) == len(spellings)
    assert all(re.fullmatch("[a-z]{3,14}", spelling) for spelling in spellings)
    assert Counter(len(spelling) for spelling, _ in parts.test) == dict.fromkeys(range(4, 14), 120)
    # The dictionary has 39 phonemes; its digits of stress are gone.
    phonemes = {phoneme for part in parts for _, phonemes in part for phoneme in phonemes}
    assert len(phonemes) == 39 and all(phoneme.isalpha() for phoneme in phonemes)
    assert dict(parts.train)["knights"] == ("N", "AY", "T", "S")


def test_the_slice_is_what_its_tool_makes_of_a_dictionary():
    lines = ["dog's D AO1 G Z", "read R EH1 D # past", "read(2) R IY1 D", "walk W AO1 K # step", "ox AA1 K S"]
    assert tool.words_of("\n".join(lines)) == [("walk", ("W", "AO", "K"))]
    assert tool.stems("walked") == {"walked", "walke", "walk"} and tool.stems("bed") == {"bed"}
    parts = data.pronunciations()
    again = tool.packed({name: list(words) for name, words in parts._asdict().items()})
    assert gzip.decompress(again) == gzip.decompress((FOLDER / "pronunciations.tsv.gz").read_bytes())
    assert again[4:8] == bytes(4)  # no time of day: the same bytes at each call


def test_no_word_to_test_is_a_form_of_a_word_to_train():
    parts = data.pronunciations()
    known = set().union(*(tool.stems(spelling) for spelling, _ in parts.train))
    assert not [spelling for spelling, _ in parts.choose + parts.test if tool.stems(spelling) & known]
