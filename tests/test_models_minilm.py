"""all-MiniLM-L6-v2 in the course's own layer: as transformers runs it, and without some of its heads."""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import data
from attnlab.core import Attended
from attnlab.heads import MultiHeadAttention
from attnlab.models import minilm, snippets

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import heads_of_minilm  # noqa: E402

OUTSIDE = json.loads((ROOT / "tests/data_minilm.json").read_text("utf-8"))  # written by book/tools/minilm_outside.py
TEXTS = OUTSIDE["texts"]
RECORD = json.loads((Path(data.__file__).parent / "minilm_heads.json").read_text("utf-8"))
CLOSE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture(scope="module")
def model():
    return minilm.load()


def state(model):
    return {name: p.clone() for name, p in model.named_parameters()}


def same(model, before):
    return all(torch.equal(p, before[name]) for name, p in model.named_parameters())


# ---------------------------------------------------------------------------------------------------- against outside


def test_embeddings_and_weights_are_those_of_transformers(model):
    assert OUTSIDE["sha256"] == minilm.SHA256
    expected = torch.tensor(OUTSIDE["embeddings"]).reshape(len(TEXTS), 384)
    torch.testing.assert_close(model.encode(TEXTS), expected, **CLOSE)
    tokens, weights = model.weights(TEXTS[OUTSIDE["weights_of"]])
    expected = torch.tensor(OUTSIDE["last_weights"]).reshape(12, len(tokens), len(tokens))
    assert weights.shape == (6, *expected.shape)
    torch.testing.assert_close(weights[-1], expected, **CLOSE)


def test_a_loaded_model_is_the_layer_of_the_course_and_draws_no_random_numbers():
    before = torch.random.get_rng_state()
    model = minilm.load()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [type(block.attention) for block in model.blocks] == [MultiHeadAttention] * 6
    assert not model.training and not any(p.requires_grad or p.is_meta for p in model.parameters())
    assert not model.encode(["a"]).requires_grad


# ------------------------------------------------------------------------------------------------- texts and padding


def test_tokens_are_padded_to_the_longest_text_and_cut_at_256(model):
    ids, is_real = model.tokenize(TEXTS)
    assert ids.shape == (5, 30) and is_real.sum(dim=1).tolist() == [4, 2, 9, 20, 30]
    assert (ids[~is_real] == 0).all() and [row[real].tolist() for row, real in zip(ids, is_real, strict=True)] == (
        OUTSIDE["ids"]
    )
    long = "word " * 300
    ids, _ = model.tokenize([long])
    assert ids.shape == (1, 256) and ids[0, -1] == 102, "[SEP] stays"
    torch.testing.assert_close(model.encode([long]), model.encode(["word " * 254]), **CLOSE)


def test_a_text_has_the_same_embedding_alone_and_beside_longer_ones(model):
    together = model.encode(TEXTS)
    alone = torch.cat([model.encode([text]) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    # In the order of the texts, whatever the batches: these embeddings are far from each other.
    torch.testing.assert_close(model.encode(TEXTS, batch_size=2), together, atol=1e-6, rtol=0)
    assert (together @ together.T).fill_diagonal_(0).max() < 0.6
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(5))
    assert model.encode([]).shape == (0, 384)


def test_weights_sum_to_one_over_the_real_tokens_and_are_zero_on_padding(model):
    ids, is_real = model.tokenize(TEXTS)
    for layer, (_, weights) in enumerate(model.layers(ids, is_real)):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(5, 12, 30))
        assert (weights * ~is_real[:, None, None, :]).count_nonzero() == 0
        n = len(OUTSIDE["ids"][2])
        torch.testing.assert_close(weights[2, :, :n, :n], model.weights(TEXTS[2]).weights[layer], **CLOSE)


def test_tokens_are_given_as_the_model_sees_them(model):
    assert model.weights("Sunflowers!").tokens == ["[CLS]", "sun", "##flower", "##s", "!", "[SEP]"]


@pytest.mark.parametrize("call", ["encode", "tokenize"])
def test_a_single_text_is_not_a_list_of_its_letters(model, call):
    with pytest.raises(TypeError, match=r"a list of texts, but it is a single one: 'Eh\.'"):
        getattr(model, call)("Eh.")


def test_weights_are_those_of_one_text(model):
    with pytest.raises(TypeError, match="one text, but it is of type list"):
        model.weights(["Eh."])


# ----------------------------------------------------------------------------------------------------- without heads


def test_a_removed_head_is_one_whose_values_are_zero(model):
    """The other way to remove it: rows of W_v, not columns of W_o."""
    heads = [(0, 2), (2, 4), (2, 11)]
    with model.without(heads) as same_model:
        assert same_model is model
        removed = model.encode(TEXTS)
    other = minilm.load()
    for layer, head in heads:
        W_v = other.blocks[layer].attention.W_v
        W_v.weight[32 * head : 32 * (head + 1)] = 0
        W_v.bias[32 * head : 32 * (head + 1)] = 0
    torch.testing.assert_close(removed, other.encode(TEXTS), **CLOSE)
    assert (removed - model.encode(TEXTS)).abs().max() > 0.01


class OnlyItsBias(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.bias = bias

    def forward(self, x, mask):
        return Attended(self.bias.expand_as(x), None)


def test_without_all_heads_of_a_layer_its_attention_adds_its_bias(model, monkeypatch):
    with model.without((3, head) for head in range(12)):
        removed = model.encode(TEXTS)
    monkeypatch.setitem(model.blocks[3]._modules, "attention", OnlyItsBias(model.blocks[3].attention.W_o.bias))
    torch.testing.assert_close(removed, model.encode(TEXTS), **CLOSE)


def test_weights_can_be_read_of_a_removed_head(model):
    with model.without([(0, 2)]):
        weights = model.weights(TEXTS[2]).weights
    assert torch.equal(weights[0], model.weights(TEXTS[2]).weights[0])
    assert (weights[1] - model.weights(TEXTS[2]).weights[1]).abs().max() > 0.01, "later layers notice"


def test_heads_come_back_bit_for_bit(model):
    before = state(model)
    with pytest.raises(KeyError, match="mine"), model.without([(1, 0), (5, 11), (1, 0)]):
        changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
        assert changed == {"blocks.1.attention.W_o.weight", "blocks.5.attention.W_o.weight"}
        weight = model.blocks[5].attention.W_o.weight
        assert weight[:, 352:].count_nonzero() == 0 and torch.equal(
            weight[:, :352], before["blocks.5.attention.W_o.weight"][:, :352]
        )
        with model.without([(1, 0), (1, 1)]):
            pass
        assert model.blocks[1].attention.W_o.weight[:, :32].count_nonzero() == 0, "the outer one still holds"
        assert model.blocks[1].attention.W_o.weight[:, 32:64].count_nonzero() == 32 * 384
        raise KeyError("mine")
    assert same(model, before)
    with model.without([]):
        assert same(model, before)


@pytest.mark.parametrize("given", [(6, 0), (0, 12), (-1, 0), (0, -1), (0,), (0, 1, 2), (0.5, 1), "02"])
def test_a_head_that_does_not_exist_is_named_and_nothing_changes(model, given):
    before = state(model)
    with pytest.raises(ValueError) as caught, model.without([(0, 1), given]):
        pass
    assert str(caught.value) == f"heads are pairs (layer 0 … 5, head 0 … 11), not {given!r}."
    assert same(model, before)


def test_a_pair_alone_is_no_list_of_heads(model):
    with pytest.raises(ValueError, match="not 0"), model.without((0, 2)):
        pass


# ------------------------------------------------------------------------------------------------- what the heads do


def test_one_head_looks_at_the_token_before_and_no_other_comes_near(model):
    scores, uniform = [], []
    for text in snippets.movies().texts[:20]:
        tokens, weights = model.weights(text)
        scores.append(heads_of_minilm.previous(weights))
        uniform.append(1 / len(tokens))
    mean = torch.stack(scores).mean(dim=0)  # (6, 12)
    assert mean[0, 2] > 0.99 and np.mean(uniform) < 0.06
    mean[0, 2] = 0
    assert 0.2 < mean.max() < 0.6, "the next best"


def test_means_of_hand_made_weights():
    """Every token looks half at the one before it, half at the last; the first at itself."""
    n = 4
    weights = torch.zeros(1, 1, n, n)
    for query in range(1, n):
        weights[0, 0, query, query - 1] += 0.5
        weights[0, 0, query, n - 1] += 0.5
    weights[0, 0, 0, 0] = 1
    assert heads_of_minilm.previous(weights).item() == 0.5
    assert heads_of_minilm.ends(weights).item() == (1.0 + 0.5) / 2  # the first word's token before is [CLS]


@pytest.mark.parametrize("number", range(3))
def test_the_recorded_weights_are_those_of_the_model(model, number):
    assert RECORD["model"] == "all-MiniLM-L6-v2" and RECORD["sha256"] == minilm.SHA256
    assert [sentence["text"] for sentence in RECORD["sentences"]] == heads_of_minilm.SENTENCES
    recorded, computed = (
        RECORD["sentences"][number],
        heads_of_minilm.described(model, heads_of_minilm.SENTENCES[number]),
    )
    assert recorded.keys() == computed.keys() and recorded["tokens"] == computed["tokens"]
    n = len(recorded["tokens"])
    old, new = (np.frombuffer(base64.b64decode(x["weights"]), np.uint8).astype(int) for x in (recorded, computed))
    assert len(old) == 6 * 12 * n * n and abs(old - new).max() <= 1, "run: python book/tools/heads_of_minilm.py"
    exact = model.weights(recorded["text"]).weights.numpy()
    assert abs(old.reshape(exact.shape) / 255 - exact).max() < 1.01 / 255, "(layer, head, query, key)"
    for name in ("previous", "ends"):
        np.testing.assert_allclose(recorded[name], computed[name], atol=0.0011)


def test_the_recorded_sentences_show_what_the_figure_is_for():
    """A head that finds the same word again, one that finds whom a pronoun means, and both at rest without either."""

    def weight(number, layer, head, query, key):
        tokens = RECORD["sentences"][number]["tokens"]
        values = np.frombuffer(base64.b64decode(RECORD["sentences"][number]["weights"]), np.uint8) / 255
        return values.reshape(6, 12, len(tokens), len(tokens))[layer, head, query, key], tokens[query], tokens[key]

    assert weight(0, 2, 9, 8, 3)[1:] == ("clock", "clock") and weight(0, 2, 9, 8, 3)[0] > 0.8
    assert weight(1, 2, 4, 5, 2)[1:] == ("she", "girl") and weight(1, 2, 4, 5, 2)[0] > 0.7
    assert RECORD["sentences"][2]["ends"][2][9] > 0.85, "2.9 without a word that comes twice"
    assert (ROOT / "src/attnlab/data/minilm_heads.json").stat().st_size < 45_000
