"""Associative recall: that the kinds differ in attention alone, that the task is what it says, and the record true."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.efficient import LinearState
from attnlab.models import recall
from attnlab.models.recall import FEATURES, KINDS, N_VALUES, Recaller, accuracy, draw, load, reading_errors, train

sys.path.append(str(Path(__file__).resolve().parents[1] / "book/tools"))

import train_recall

RECORD = recall.recorded()
LINEAR = KINDS[1:]
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
N = 500 * recall.N_ASKED  # answers of an `accuracy`
CHANCE = 1 / N_VALUES
FOUR_ERRORS = 4 * (CHANCE * (1 - CHANCE) / N) ** 0.5  # standard errors of a share at chance


@pytest.fixture(scope="module")
def models():
    return {kind: load(kind) for kind in KINDS}


def lists(n_pairs, n_lists=500, seed=7, **options):
    return draw(n_lists, n_pairs, torch.Generator().manual_seed(seed), **options)


def share_right(model, keys, values, asked, answers):
    return (model(keys, values, asked).argmax(dim=-1) == answers).float().mean().item()


# ------------------------------------------------------------------------------------------------------------ the task


@pytest.mark.parametrize("n_pairs", [1, 8, recall.N_KEYS])
def test_the_answer_stands_beside_the_asked_key_and_nowhere_else(n_pairs):
    drawn = lists(n_pairs, n_lists=20)
    for keys, values, asked, answers in zip(*(column.tolist() for column in drawn), strict=True):
        assert len(set(keys)) == n_pairs == len(values) and len(asked) == recall.N_ASKED
        beside = dict(zip(keys, values, strict=True))
        assert [beside[key] for key in asked] == answers
    if n_pairs > 1:
        assert len({tuple(row) for row in drawn.keys.tolist()}) == 20  # no list twice


def test_lists_are_drawn_evenly_and_repeat_with_the_seed():
    drawn, again, other = lists(8), lists(8), lists(8, seed=8)
    assert all(torch.equal(a, b) for a, b in zip(drawn, again, strict=True))
    assert not torch.equal(drawn.keys, other.keys) and not torch.equal(drawn.values, other.values)
    # What is asked for says nothing about the place: each of 8 gets an eighth, within four standard errors.
    places = (drawn.keys[:, :, None] == drawn.asked[:, None, :]).float().mean(dim=(0, 2))  # (8,)
    assert (places - 1 / 8).abs().max() < 4 * (7 / 64 / N) ** 0.5
    # Nor does the value of a key in one list say anything about another: 4000 pairs, about 125 of each value.
    assert (drawn.values.flatten().bincount(minlength=N_VALUES) - 125).abs().max() < 50
    for n_pairs in (0, recall.N_KEYS + 1):
        with pytest.raises(ValueError, match=rf"from 1 to 256.*is {n_pairs}"):
            lists(n_pairs)


@pytest.mark.parametrize("n_pairs", [4, 16])
def test_who_knows_the_values_alone_guesses_as_often_as_said(n_pairs):
    drawn = lists(n_pairs)
    place = torch.randint(n_pairs, drawn.answers.shape, generator=torch.Generator().manual_seed(1))
    share = (drawn.values.gather(1, place) == drawn.answers).float().mean().item()
    expected = recall.guessing(n_pairs)
    assert abs(share - expected) < 4 * (expected * (1 - expected) / N) ** 0.5


# ----------------------------------------------------------------------------------------------------------- the models


def test_the_kinds_have_the_same_weights_to_learn_and_begin_with_the_same_numbers():
    started = []
    for kind in KINDS:
        torch.manual_seed(0)
        started.append(Recaller(kind).state_dict())
    for weights in started[1:]:
        assert list(weights) == list(started[0])
        assert all(torch.equal(weights[name], started[0][name]) for name in weights)
    (n,) = {row["parameters"] for row in RECORD["kinds"].values()}
    assert n == sum(weight.numel() for weight in started[0].values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_its_formula_written_out_in_numpy(models, kind):
    model, drawn = models[kind], lists(5, n_lists=1)
    p = {name: weight.numpy().astype(np.float64) for name, weight in model.state_dict().items()}
    keys, values, asked, _ = (column[0].numpy() for column in drawn)
    pairs = p["keys.weight"][keys] + p["values.weight"][values]
    q = p["keys.weight"][asked] @ p["W_q.weight"].T
    k, v = pairs @ p["W_k.weight"].T, pairs @ p["W_v.weight"].T
    s = q @ k.T
    kernel = {
        "softmax": lambda: np.exp(s / 4),
        "elu": lambda: np.where(q > 0, q + 1, np.exp(q)) @ np.where(k > 0, k + 1, np.exp(k)).T,
        "exp": lambda: np.exp(q) @ np.exp(k).T,
        "taylor": lambda: 1 + s / 4 + s**2 / 32,
    }[kind]()
    logits = kernel / kernel.sum(axis=-1, keepdims=True) @ v @ p["readout.weight"].T + p["readout.bias"]
    np.testing.assert_allclose(model(*drawn[:3])[0].numpy(), logits, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_without_training_a_model_is_right_by_chance(kind):
    for n_pairs in (4, 64):
        shares = []
        for seed in range(4):
            torch.manual_seed(seed)
            shares.append(accuracy(Recaller(kind), n_pairs, seed=seed))
        assert abs(np.mean(shares) - CHANCE) < FOUR_ERRORS


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_values_of_another_list_a_trained_model_is_right_by_chance(models, kind):
    keys, values, asked, answers = lists(8)
    assert share_right(models[kind], keys, values, asked, answers) > 0.7
    assert abs(share_right(models[kind], keys, values.roll(1, dims=0), asked, answers) - CHANCE) < FOUR_ERRORS


@pytest.mark.parametrize("kind", KINDS)
def test_answers_follow_the_values_that_change_places(models, kind):
    keys, values, asked, answers = lists(4)
    moved = values.roll(1, dims=1)
    place = (keys[:, :, None] == asked[:, None, :]).int().argmax(dim=1)  # (B, Q)
    before = share_right(models[kind], keys, values, asked, answers)
    after = share_right(models[kind], keys, moved, asked, moved.gather(1, place))
    assert after == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_order_of_the_pairs_nor_what_else_is_asked_counts(models, kind):
    keys, values, asked, _ = lists(16, n_lists=4)
    logits = models[kind](keys, values, asked)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(models[kind](keys[:, order], values[:, order], asked), logits, **CLOSE)
    torch.testing.assert_close(models[kind](keys, values, asked[:, 3:4]), logits[:, 3:4], **CLOSE)
    other = values.clone()
    other[:, 0] = (other[:, 0] + 1) % N_VALUES
    assert (models[kind](keys, other, asked) - logits).abs().max() > 1e-2  # each pair is read


@pytest.mark.parametrize("kind", LINEAR)
def test_a_linear_model_answers_from_a_state_of_fixed_size(models, kind):
    model, (keys, values, asked, _) = models[kind], lists(32, n_lists=3)
    key, value = model.project(keys, values)
    state, sizes = LinearState(feature_map=FEATURES[kind]), []
    for i in range(32):
        state.update(key[:, i : i + 1], value[:, i : i + 1])
        sizes.append(state.nbytes)
    answers = model.readout(state.read(model.W_q(model.keys(asked))))
    torch.testing.assert_close(answers, model(keys, values, asked), **CLOSE)
    assert set(sizes) == {3 * 4 * model.numbers_kept(1)} == {3 * 4 * model.numbers_kept(32)}


def test_softmax_keeps_what_project_returns(models):
    for n_pairs in (1, 32):
        keys, values, _, _ = lists(n_pairs, n_lists=1)
        kept = models["softmax"].project(keys, values)
        assert models["softmax"].numbers_kept(n_pairs) == sum(x.numel() for x in kept)


def test_the_products_of_taylors_features_are_the_beginning_of_exp():
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, 3, n, 6, generator=random, dtype=torch.float64) for n in (4, 5))
    s = q @ k.mT / 6**0.5
    torch.testing.assert_close(recall.taylor(q) @ recall.taylor(k).mT, 1 + s + s**2 / 2)
    assert recall.taylor(q).shape == (2, 3, 4, 1 + 6 + 21)
    assert (1 + s + s**2 / 2).min() > 0.49  # its least value is ½, so that no weight is negative


def test_an_unknown_kind_is_refused():
    for make in (Recaller, load, train):
        with pytest.raises(ValueError, match=r"softmax, elu, exp, taylor.*'performer'"):
            make("performer")


# ---------------------------------------------------------------------------------------------------------- the record


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_model_recalls_what_the_record_says(models, kind):
    model = models[kind]
    for n_pairs, recorded in zip(RECORD["pairs"], RECORD["kinds"][kind]["runs"][0], strict=True):
        # The same lists; rounded in another order, a few answers that were about equally likely may change.
        assert accuracy(model, n_pairs) == pytest.approx(recorded, abs=0.002)
    # Other lists: four standard errors.  The queries of one list share its pairs; the bound is taken twice as wide.
    share = RECORD["kinds"][kind]["runs"][0][2]
    assert accuracy(model, 16, seed=3) == pytest.approx(share, abs=8 * (share * (1 - share) / N) ** 0.5 + 1e-3)


def test_the_record_is_that_of_its_script_and_follows_from_its_runs():
    assert RECORD["training"] == {
        "pairs": list(recall.PAIRS),
        "steps": recall.STEPS,
        "batch": recall.BATCH,
        "learning_rate": recall.LEARNING_RATE,
        "seeds": list(train_recall.SEEDS),
    }
    assert RECORD["pairs"] == list(train_recall.ASKED) and RECORD["chance"] == CHANCE
    assert RECORD["guessing"] == [round(recall.guessing(n), 4) for n in RECORD["pairs"]]
    assert list(RECORD["kinds"]) == list(KINDS)
    assert list(RECORD["elu_trained_otherwise"]) == list(train_recall.WAYS)
    for kind, row in RECORD["kinds"].items():
        assert row["numbers_kept"] == [Recaller(kind).numbers_kept(n) for n in RECORD["pairs"]]
    for row in (*RECORD["kinds"].values(), *RECORD["elu_trained_otherwise"].values()):
        runs = np.array(row["runs"])
        assert runs.shape == (len(train_recall.SEEDS), len(RECORD["pairs"]))
        np.testing.assert_allclose(row["mean"], runs.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(row["sd"], runs.std(axis=0, ddof=1), atol=1e-4)


def test_what_the_chapter_says_of_the_record():
    right = {kind: np.array(row["runs"]) for kind, row in RECORD["kinds"].items()}
    kept = {kind: np.array(row["numbers_kept"]) for kind, row in RECORD["kinds"].items()}
    assert (right["softmax"] > 0.999).all()
    # A state of d features: nearly all of 4 pairs, a third of 64, and still far above guessing.
    assert (right["elu"][:, 0] > 0.97).all() and (right["elu"][:, 0] < 0.99).all()
    assert (right["elu"][:, 4] < 0.4).all() and (right["elu"] > 3 * np.array(RECORD["guessing"])).all()
    assert (np.diff(right["elu"], axis=1) < 0).all() and (right["exp"] < right["elu"]).all()
    # Nine times the state: as good as softmax up to 32 pairs.  Up to 64, the cache of softmax is smaller than it.
    assert (right["taylor"][:, :4] > 0.995).all() and (right["taylor"][:, 5] < 0.9).all()
    assert (kept["softmax"][:5] < kept["taylor"][:5]).all() and kept["softmax"][5] > kept["taylor"][5]
    assert kept["softmax"][0] < kept["elu"][0] and (kept["softmax"][2:] > kept["elu"][2:]).all()
    # Other lists or three times as many steps do not change that.
    for way in RECORD["elu_trained_otherwise"].values():
        assert (np.array(way["runs"])[:, 4] < 0.4).all()


# ------------------------------------------------------------------------------------------------------------ training


@pytest.mark.parametrize("kind", KINDS)
def test_training_repeats_and_reaches_every_weight(kind):
    before = torch.random.get_rng_state()
    model, losses = train(kind, steps=4, pairs=(4, 8))
    assert torch.equal(torch.random.get_rng_state(), before) and not model.training
    again, other = train(kind, steps=4, pairs=(4, 8)), train(kind, seed=1, steps=4, pairs=(4, 8))
    assert again.losses == losses and other.losses != losses and len(losses) == 4
    torch.manual_seed(0)
    started = Recaller(kind).state_dict()
    assert not any(torch.equal(weight, started[name]) for name, weight in model.state_dict().items())


def test_softmax_learns_short_lists_in_seconds_as_the_notebook_does():
    model, _ = train("softmax", steps=300, pairs=(4,))
    assert accuracy(model, 4) > 0.9


# ---------------------------------------------------------------------------------------------------- without training


@pytest.mark.parametrize(("n_pairs", "d"), [(8, 16), (32, 16), (64, 16), (64, 32)])
def test_reading_errors_are_those_expected(n_pairs, d):
    found = [reading_errors(n_pairs, d, seed=seed) for seed in range(100)]
    assert np.mean([errors.sum for errors in found]) == pytest.approx((n_pairs - 1) / d, rel=0.08)
    assert np.mean([errors.best for errors in found]) == pytest.approx(max(0, 1 - d / n_pairs), rel=0.05, abs=1e-12)
    assert all(errors.softmax < 1e-3 for errors in found)


def test_softmax_that_is_not_sharp_reads_worse_than_the_best_state():
    blunt = reading_errors(16, 16, sharpness=1.0)
    assert blunt.best < 1e-12 and blunt.softmax > 0.5


def test_a_seed_draws_the_same_keys_and_values():
    assert reading_errors(8, 4, seed=1) == reading_errors(8, 4, seed=1) != reading_errors(8, 4, seed=2)
