"""What was recorded about MiniLM without its heads: it fits its script and its texts, and parts of it come out."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy

from attnlab.models import minilm, removal, snippets
from attnlab.models.removal import HEADS, Part, Probe

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import head_removal  # noqa: E402

RECORD = removal.recorded()


@pytest.fixture(scope="module")
def model():
    return minilm.load()


@pytest.fixture(scope="module")
def parts(model):
    return removal.parts(model, *snippets.movies())


@pytest.fixture(scope="module")
def probe():
    return Probe(**RECORD["probe"])


# ------------------------------------------------------------------------------------------------ the record, as a file


def test_the_record_is_that_of_its_script():
    assert RECORD["model"]["sha256"] == minilm.SHA256
    assert RECORD["texts_sha256"] == {"movies": snippets.SHA256["movie"], "amazon": snippets.SHA256["amazon"]}
    assert (RECORD["max_tokens"], RECORD["min_score"], RECORD["seed"], RECORD["sizes"]) == (
        removal.MAX_TOKENS,
        removal.MIN_SCORE,
        removal.SEED,
        removal.SIZES,
    )
    assert list(RECORD["strengths_tried"]) == [str(strength) for strength in head_removal.STRENGTHS]
    assert str(RECORD["probe"]["strength"]) == min(RECORD["strengths_tried"], key=RECORD["strengths_tried"].get)
    assert RECORD["removed"]["k"] == list(head_removal.STEPS)
    assert RECORD["removed"]["random_k"] == list(head_removal.RANDOM_STEPS)
    asked = [(name, k) for k, names in head_removal.REFITTED.items() for name in names]
    assert [(found["order"], found["k"]) for found in RECORD["refitted"]] == asked


def test_the_order_and_the_curves_follow_from_what_is_recorded_beside_them():
    single, removed = RECORD["single"], RECORD["removed"]
    order = [tuple(head) for head in RECORD["order"]]
    harm = dict(zip(HEADS, np.ravel(single["choosing"]["log_loss"]), strict=True))
    assert sorted(order) == HEADS and [harm[head] for head in order] == sorted(harm.values())
    for name in ("log_loss", "accuracy"):
        chosen, reverse = removed["chosen"][name], removed["reverse"][name]
        assert chosen[0] == reverse[0] == RECORD["intact"]["judging"][name]
        assert chosen[-1] == reverse[-1] != chosen[0]  # all 72 are gone, in whatever order
        assert np.shape(removed["random"][name]) == (head_removal.N_RANDOM, len(head_removal.RANDOM_STEPS))
        assert len({tuple(row) for row in removed["random"][name]}) == head_removal.N_RANDOM
    assert removed["chosen"]["standard_error"][0] == 0 < min(removed["chosen"]["standard_error"][1:])
    at_36 = removed["k"].index(36)
    numbers = {found["order"]: found["frozen"]["log_loss"] for found in RECORD["refitted"] if found["k"] == 36}
    assert numbers["chosen"] == removed["chosen"]["log_loss"][at_36]
    assert numbers["reverse"] == removed["reverse"]["log_loss"][at_36]
    column = removed["random_k"].index(36)
    assert [numbers[i] for i in range(3)] == [row[column] for row in removed["random"]["log_loss"][:3]]


def test_random_orders_hold_every_head_once_and_come_again():
    orders = [removal.random_order(number) for number in range(head_removal.N_RANDOM)]
    assert all(sorted(order) == HEADS for order in orders)
    assert len({tuple(order) for order in orders}) == head_removal.N_RANDOM
    assert removal.random_order(3) == orders[3]


# ------------------------------------------------------------------------------------------------------------ the texts


def test_the_parts_are_those_of_the_record_and_share_no_text(model, parts):
    assert {name: head_removal.digest(part) for name, part in parts.items()} == RECORD["parts_sha256"]
    assert {name: head_removal.majority(part) for name, part in parts.items()} == RECORD["majority"]
    texts = [text for part in parts.values() for text in part.texts]
    assert len(texts) == len(set(texts)) == sum(removal.SIZES.values())
    movies = dict(zip(*snippets.movies(), strict=True))
    for part in parts.values():
        assert max(sum(e.attention_mask) for e in model.tokenizer.encode_batch(part.texts)) == removal.MAX_TOKENS
        scores = np.array([movies[text] for text in part.texts])
        assert abs(scores).min() >= removal.MIN_SCORE and np.array_equal(scores > 0, part.labels)
    reviews = removal.parts(model, *snippets.products(), head_removal.PRODUCTS_SIZES)
    assert {name: head_removal.digest(part) for name, part in reviews.items()} == RECORD["transfer"]["parts_sha256"]


def test_parts_take_a_text_once_and_neither_long_nor_neutral_ones(model):
    texts = ["good", "bad", "good", "so so", "word " * 19, "word " * 18]
    scores = np.array([-2.0, -2.0, 3.0, 0.4, 3.0, -0.5])
    given = removal.parts(model, texts, scores, {"one": 2, "other": 1})
    found = [pair for part in given.values() for pair in zip(part.texts, part.labels.tolist(), strict=True)]
    assert [len(part.texts) for part in given.values()] == [2, 1]
    assert sorted(found) == [("bad", False), ("good", True), ("word " * 18, False)]
    with pytest.raises(ValueError, match="ask for 4 texts, but only 3"):
        removal.parts(model, texts, scores, {"one": 2, "other": 2})


# ------------------------------------------------------------------------------------------------------------ the probe


def test_losses_by_hand():
    probe = Probe([np.log(3) / 2, 0, 0, 0], bias=0.0, strength=1.0)  # d = 4: the logit of e₁ is ln 3, p = ¾
    embeddings = np.eye(4)[[0, 0, 1]]
    labels = np.array([True, False, True])
    assert np.allclose(probe.log_losses(embeddings, labels), -np.log([3 / 4, 1 / 4, 1 / 2]))
    assert np.allclose(probe.score(embeddings[:2], labels[:2]), [-np.log(3 / 16) / 2, 1 / 2])
    assert np.allclose(probe._replace(bias=np.log(3)).log_losses(embeddings, labels), -np.log([0.9, 0.1, 0.75]))


def test_the_gradient_of_the_fit_is_that_of_its_objective():
    rng = np.random.default_rng(0)
    embeddings, labels, at = rng.normal(size=(20, 5)), rng.random(20) < 0.4, rng.normal(size=6)
    _, gradient = head_removal.objective(at, embeddings, labels, 0.7)
    numeric = scipy.optimize.approx_fprime(at, lambda w: head_removal.objective(w, embeddings, labels, 0.7)[0], 1e-7)
    assert np.allclose(gradient, numeric, atol=1e-5)


def test_the_recorded_probe_is_the_minimum_on_the_train_part(model, parts, probe):
    embeddings = head_removal.Reader(model, parts["train"]).embed()
    at = np.append(probe.weights, probe.bias)
    loss, gradient = head_removal.objective(at, embeddings, parts["train"].labels, probe.strength)
    # Along the flattest direction the loss curves by `strength`, so that it is within |gradient|² / 2 strength.
    assert gradient @ gradient / (2 * probe.strength) < 1e-5 * loss
    found = probe.score(embeddings, parts["train"].labels)
    assert np.allclose(found, list(RECORD["intact"]["train"].values()), atol=1e-4)


# --------------------------------------------------------------------------------------------------------- the removals


def test_each_head_removed_by_the_script_is_removed_by_the_model(model):
    texts = ["a fine film", "dull", "not a dull film"]
    each = head_removal.Reader(model, Part(texts, np.ones(3, bool))).embed_without_each()
    intact = model.encode(texts).numpy()
    for head, embeddings in zip(HEADS, each, strict=True):
        with model.without([head]):
            assert np.allclose(embeddings, model.encode(texts), atol=1e-5), head
        assert np.abs(embeddings - intact).max() > 1e-4, head


@pytest.mark.parametrize("what", ["the most harmful head", "36 chosen", "36 at random"])
def test_what_is_recorded_is_measured_again(model, parts, probe, what):
    intact, removed, part = RECORD["intact"]["judging"], RECORD["removed"], parts["judging"]
    half = removed["k"].index(36)
    worst = RECORD["order"][-1]
    if what == "the most harmful head":
        heads = [worst]
        expected = [value + RECORD["single"]["judging"][name][worst[0]][worst[1]] for name, value in intact.items()]
    elif what == "36 chosen":
        heads, expected = RECORD["order"][:36], [removed["chosen"][name][half] for name in intact]
    else:
        heads, column = removal.random_order(0)[:36], removed["random_k"].index(36)
        expected = [removed["random"][name][0][column] for name in intact]
    found = removal.measure(model, probe, part, heads)
    # A text whose p is ½ to the sixth digit may change sides; the loss does not move with it.
    assert found.log_loss == pytest.approx(expected[0], abs=1e-4)
    assert found.accuracy == pytest.approx(expected[1], abs=0.0021)
