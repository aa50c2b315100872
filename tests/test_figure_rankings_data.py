"""The numbers of the figure `rankings`: they are those of the stored models, computed again, and ready to be shown."""

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.models.classifier import KINDS, load
from attnlab.models.classifier_texts import corpus, words

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import rankings_of_reviews as tool  # noqa: E402

FILE = ROOT / "src/attnlab/data/rankings.json"
STORED = json.loads(FILE.read_text("utf-8"))
PLACES = [(kind, i) for kind in KINDS for i in range(len(tool.SENTENCES))]
NAMES = ["attention", "gradient × input", "leave-one-out", "value-weighted", "replacement", "random"]


@pytest.fixture(scope="module")
def models():
    return {kind: load("movie", kind) for kind in KINDS}


@pytest.fixture(scope="module")
def again(models):
    return tool.described(models)


def test_the_file_is_that_of_its_script_and_small(again):
    assert FILE.stat().st_size < 20_000
    assert STORED["tokens"] == again["tokens"] == [words(text) for text in tool.SENTENCES]
    assert list(STORED["models"]) == list(KINDS)


@pytest.mark.parametrize(("kind", "i"), PLACES)
def test_the_numbers_come_out_again(again, kind, i):
    stored, computed = STORED["models"][kind][i], again["models"][kind][i]
    for name in ("logit", "without"):
        np.testing.assert_allclose(stored[name], computed[name], rtol=0, atol=2e-4, err_msg=name)
    assert list(stored["rankings"]) == list(computed["rankings"]) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(
            stored["rankings"][name], computed["rankings"][name], rtol=0, atol=2e-4, err_msg=name
        )


@pytest.mark.parametrize(("kind", "i"), PLACES)
def test_a_word_that_is_removed_is_deleted_from_the_text(models, kind, i):
    """Without the measures of the package: the text is written without the word, and read."""
    model, stored, tokens = models[kind], STORED["models"][kind][i], STORED["tokens"][i]
    texts = [tokens, *(tokens[:k] + tokens[k + 1 :] for k in range(len(tokens)))]
    with torch.no_grad():
        logits = np.array([model(corpus("movie").encode(" ".join(text))[None]).item() for text in texts])
    np.testing.assert_allclose([stored["logit"], *stored["without"]], logits, rtol=0, atol=2e-4)
    changes = np.abs(logits[0] - logits[1:])
    np.testing.assert_allclose(stored["rankings"]["leave-one-out"], changes / changes.sum(), rtol=0, atol=2e-4)


@pytest.mark.parametrize(("kind", "i"), PLACES)
def test_attention_and_values_are_those_of_the_model(models, kind, i):
    model, stored = models[kind], STORED["models"][kind][i]["rankings"]
    with torch.no_grad():
        states = model.states(corpus("movie").encode(tool.SENTENCES[i])[None])[0]
        units = torch.tanh(model.W_q @ model.query + states @ model.W_k.T)  # (n, units)
        weights = torch.softmax(units @ model.v, dim=0)
    np.testing.assert_allclose(stored["attention"], weights, rtol=0, atol=2e-4)
    carried = weights * (states**2).sum(-1).sqrt()
    np.testing.assert_allclose(stored["value-weighted"], carried / carried.sum(), rtol=0, atol=2e-4)


def test_the_figure_can_show_them():
    """No two equal shares, or a first place and τ need more words; every logit lies on the line; short words."""
    for found in itertools.chain(*STORED["models"].values()):
        for name, row in found["rankings"].items():
            assert len(set(row)) == len(row), name
            assert min(row) >= 0 and sum(row) == pytest.approx(1, abs=1e-3)
        source = (ROOT / "src/attnlab/figures/rankings.js").read_text("utf-8")
        assert max(map(abs, [found["logit"], *found["without"]])) < int(re.search(r"MOST = (\d+)", source)[1])
    for tokens in STORED["tokens"]:
        assert len(set(tokens)) == len(tokens) <= 9 and max(map(len, tokens)) <= 12
        assert set(tokens) <= set(corpus("movie").vocabulary), "the models know every word"
