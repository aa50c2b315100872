"""Classifiers of reviews and messages: the model, its texts, its training, and what the record says of its weights."""

import json
import math
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import data
from attnlab.evidence import agreement_table, jensen_shannon, spread, spread_of_pairs
from attnlab.models import classifier_measures as measures
from attnlab.models import snippets
from attnlab.models.classifier import KINDS, STORED, Classifier, load
from attnlab.models.classifier_measures import RANKINGS
from attnlab.models.classifier_texts import MIN_COUNT, NAMES, PAD, SHORTEST, UNKNOWN, Corpus, corpus, padded, words
from attnlab.models.classifier_training import own_weights, predictions, train, train_adversary, uniform_weights

FOLDER = Path(data.__file__).parent
RECORD = json.loads((FOLDER / "classifiers.json").read_text("utf-8"))
CLOSE = {"atol": 1e-5, "rtol": 0}
TEXT = "A quiet, honest film that never quite comes together."


@pytest.fixture(scope="module")
def models():
    return {key: load(*key) for key in STORED}


@pytest.fixture(scope="module")
def few():
    """256 film reviews of two to a dozen words, to train on in no time."""
    texts = corpus("movie")
    short = [i for i, ids in enumerate(texts.train.ids) if len(ids) <= 12][:256]
    train = texts.train
    part = type(train)([train.texts[i] for i in short], [train.ids[i] for i in short], train.labels[short])
    return Corpus(texts.vocabulary, part, part, part)


def fresh(kind, **options):
    torch.manual_seed(0)
    return Classifier(kind, 40, **options).eval()


# -------------------------------------------------------------------------------------------------------------- texts


def test_words_are_small_and_numbers_lose_their_digits():
    assert words("It's GREAT!! Win £1,000 b4 10pm?") == [
        *("it's", "great", "!", "!", "win", "£", "0", "000", "b", "0", "00", "pm", "?")
    ]
    assert words("Don’t — ''Conan''") == ["don't", "conan"]  # either apostrophe, and no quotation marks
    assert len(words("so " * 100)) == 60


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_in_two_parts_and_words_come_from_the_training(name):
    texts = corpus(name)
    parts = (texts.train, texts.validation, texts.test)
    keys = [tuple(words(text)) for part in parts for text in part.texts]
    assert len(set(keys)) == len(keys) and min(map(len, keys)) >= SHORTEST
    assert [len(part.ids) for part in parts] == [RECORD["texts"][name][p] for p in ("train", "validation", "test")]
    assert abs(texts.test.labels.mean() - texts.train.labels.mean()) < 0.03
    counts = np.unique([word for text in texts.train.texts for word in words(text)], return_counts=True)
    counts = dict(zip(counts[0].tolist(), counts[1].tolist(), strict=True))
    assert set(texts.vocabulary) == {word for word, count in counts.items() if count >= MIN_COUNT}
    assert sorted(texts.vocabulary.values()) == list(range(UNKNOWN + 1, len(texts.vocabulary) + 2))
    ranks = list(texts.vocabulary)
    assert all((-counts[a], a) < (-counts[b], b) for a, b in pairwise(ranks))
    part = texts.test.first(3)
    assert all(torch.equal(texts.encode(text), ids) for text, ids in zip(part.texts, part.ids, strict=True))


def test_what_is_encoded_needs_a_word_and_a_name():
    texts = corpus("movie")
    assert texts.encode("Film Zyzzyva film").tolist() == [texts.vocabulary["film"], UNKNOWN, texts.vocabulary["film"]]
    with pytest.raises(ValueError, match="at least one word, but this one is '…'"):
        texts.encode("…")
    with pytest.raises(ValueError, match="movie, sms, but it is 'imdb'"):
        corpus("imdb")


def test_labels_are_those_of_the_files():
    texts, scores = snippets.movies()
    score = dict(zip(texts, scores, strict=True))
    part = corpus("movie").test
    assert all((score[text] >= 0.5) == bool(label) for text, label in zip(part.texts, part.labels, strict=True))
    assert all(abs(score[text]) >= 0.5 for text in part.texts)


def test_all_messages_are_there_again_and_rated_words_have_their_scores():
    texts, scores = snippets.messages()
    # The collection holds 4827 messages and 747 of spam; the table of the package has only 4837 rows.
    assert len(texts) == 5574 and np.unique(scores, return_counts=True)[1].tolist() == [4827, 747]
    assert not any("\nham\t" in text or "\nspam\t" in text for text in texts)
    label = dict(zip(texts, scores, strict=True))
    assert label["how are you? I miss you!"] == -1  # the second line of such a row
    assert label["Rofl. Its true to its name"] == -1
    known = snippets.lexicon()
    assert (known["okay"], known["good"], known["great"], known["horrible"]) == (0.9, 1.9, 3.1, -2.5)
    assert len(known) == 7502 and known["lol"] == 1.8  # of a word that is listed twice, the last


# -------------------------------------------------------------------------------------------------------------- model


@pytest.mark.parametrize("kind", KINDS)
def test_the_logit_is_written_out_in_numpy(kind):
    model, ids = fresh(kind), torch.tensor([[3, 9, 4, 4]])
    p = {name: weight.detach().numpy().astype(np.float64) for name, weight in model.state_dict().items()}
    states = model.states(ids)[0].detach().numpy().astype(np.float64)
    if kind == "no context":
        embedded = p["embeddings.weight"][ids[0]]
        np.testing.assert_allclose(states, np.tanh(embedded @ p["encoder.weight"].T + p["encoder.bias"]), atol=1e-6)
    scores = np.array([p["v"] @ np.tanh(p["W_q"] @ p["query"] + p["W_k"] @ state) for state in states])
    weights = np.exp(scores) / np.exp(scores).sum()
    logit = weights @ states @ p["readout.weight"][0] + p["readout.bias"][0]
    np.testing.assert_allclose(model.weights(ids)[0].detach(), weights, atol=1e-6)
    assert model(ids).item() == pytest.approx(logit, abs=1e-6)
    cooler = np.exp(scores / 0.1) / np.exp(scores / 0.1).sum()
    np.testing.assert_allclose(model.weights(ids, 0.1)[0].detach(), cooler, atol=1e-5)


@pytest.mark.parametrize("key", STORED)
def test_a_text_is_read_alone_as_it_is_among_longer_ones(models, key):
    model, rows = models[key], corpus(key[0]).test.ids[:6]
    together, weights = model(padded(rows)), model.weights(padded(rows))
    for i, ids in enumerate(rows):
        assert model(ids[None]).item() == pytest.approx(together[i].item(), abs=1e-4)
        torch.testing.assert_close(model.weights(ids[None])[0], weights[i, : len(ids)], **CLOSE)
        assert (weights[i, len(ids) :] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_states_of_a_bilstm_know_the_other_words(kind):
    model, ids = fresh(kind), torch.tensor([[3, 9, 4, 7, 5]])
    for changed in (0, 4):
        other = ids.clone()
        other[0, changed] = 30
        moved = (model.states(other) - model.states(ids))[0].abs().amax(dim=-1)  # (n,)
        assert moved[changed] > 1e-3
        rest = torch.cat([moved[:changed], moved[changed + 1 :]])
        assert (rest > 0).all() if kind == "bilstm" else (rest == 0).all()


@pytest.mark.parametrize("key", STORED)
def test_from_weights_is_the_model_with_other_weights(models, key):
    model, ids = models[key], corpus(key[0]).test.ids[0]
    predict = model.from_weights(ids)
    rows = np.random.default_rng(0).dirichlet(np.ones(len(ids)), size=4)  # (4, n)
    whole = model(ids.expand(4, -1), torch.from_numpy(rows).float())
    np.testing.assert_allclose(predict(rows), whole, atol=1e-4)
    as_tensors = predict(torch.from_numpy(rows).float())
    assert as_tensors.dtype == torch.float64
    np.testing.assert_allclose(as_tensors, predict(rows), atol=1e-5)
    assert predict(rows[:1] / 2 + rows[1:2] / 2)[0] == pytest.approx(predict(rows)[:2].mean(), abs=1e-12)
    assert predict(model.weights(ids[None]).numpy())[0] == pytest.approx(model(ids[None]).item(), abs=1e-4)


def test_wrong_kinds_shapes_and_empty_texts_are_refused():
    with pytest.raises(ValueError, match="bilstm, no context, but it is 'cnn'"):
        Classifier("cnn", 40)
    with pytest.raises(ValueError, match="even number"):
        Classifier("bilstm", 40, d=7)
    with pytest.raises(ValueError, match=r"shape of ids, \(1, 2\), but have \(1, 3\)"):
        fresh("no context")(torch.tensor([[3, 4]]), torch.ones(1, 3) / 3)
    with pytest.raises(ValueError, match=r"one of \(2, 2\) is all padding"):
        fresh("bilstm")(torch.tensor([[3, 4], [PAD, PAD]]))
    with pytest.raises(ValueError, match=r"not \('sms', 'no context'\)"):
        load("sms", "no context")


def test_a_loaded_model_needs_no_gradient_and_files_are_small(models):
    before = torch.random.get_rng_state()
    model = load("movie", "no context")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not model.training and not any(p.requires_grad or p.is_meta for p in model.parameters())
    assert sum(path.stat().st_size for path in FOLDER.glob("classifier_*.npz")) < 1.2e6
    assert len(list(FOLDER.glob("classifier_*.npz"))) == len(STORED) == len(models)


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss_and_repeats(kind, few):
    before = torch.random.get_rng_state()
    model, losses = train(kind, few, steps=12)
    assert torch.equal(torch.random.get_rng_state(), before) and not model.training
    assert len(losses) == 12 and np.mean(losses[-3:]) < losses[0] - 0.02
    again, other = train(kind, few, steps=12), train(kind, few, seed=1, steps=12)
    assert again.losses == losses and other.losses != losses
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.model.parameters(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns_and_padding_does_not_count(kind):
    model, rows = fresh(kind), [torch.tensor([3, 9]), torch.tensor([4, 8, 8, 11, 5, 7])]
    sum(model(ids[None]).sum() for ids in rows).backward()
    apart = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model(padded(rows)).sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.abs().max() > 0, name
        torch.testing.assert_close(p.grad, apart[name], **CLOSE)
    assert (model.embeddings.weight.grad[PAD] == 0).all()


def test_given_weights_stay_and_are_those_of_their_texts(few):
    first = [torch.nn.functional.one_hot(torch.tensor(0), len(ids)).float() for ids in few.train.ids]
    model, losses = train("no context", few, steps=40, weights=first)
    untrained = train("no context", few, steps=0).model
    assert all(torch.equal(getattr(model, name), getattr(untrained, name)) for name in ("query", "v", "W_q", "W_k"))
    # All weight on the first word: nothing else was ever read, and it alone decides.
    p, ids = predictions(model, few.train, first), padded([row[:1] for row in few.train.ids])
    torch.testing.assert_close(p, torch.sigmoid(model(ids)), **CLOSE)
    read = {row[0].item() for row in few.train.ids}
    unread = torch.tensor([i for i in range(2, 500) if i not in read])
    assert torch.equal(model.embeddings.weight[unread], untrained.embeddings.weight[unread])
    assert losses[-1] < losses[0]
    assert predictions(model, few.train, uniform_weights(few.train)).sub(p).abs().max() > 0.05


def test_an_adversary_goes_as_far_as_it_is_told_and_never_sees_a_label(few, models):
    base = models["movie", "no context"]
    near, far = (train_adversary(base, few, strength, steps=25).model for strength in (0.0, 1.0))
    of = own_weights(base, few.train)
    divergences = [measures.apart(of, own_weights(model, few.train)).mean() for model in (near, far)]
    assert divergences[1] > divergences[0] + 0.05
    change = [(predictions(model, few.train) - predictions(base, few.train)).abs().mean() for model in (near, far)]
    assert change[0] < change[1]
    blind = few._replace(train=few.train._replace(labels=1 - few.train.labels))
    assert train_adversary(base, blind, 1.0, steps=3).losses == train_adversary(base, few, 1.0, steps=3).losses


# ----------------------------------------------------------------------------------------------------------- measures


def test_rankings_are_what_their_names_say(models):
    model, texts = models["movie", "bilstm"], corpus("movie")
    ids, others = texts.encode(TEXT), [5, 17]
    found = measures.rankings(model, ids, others)
    logit = model(ids[None]).item()
    assert tuple(found) == RANKINGS and all(row.shape == ids.shape and (row >= 0).all() for row in found.values())
    for i in range(len(ids)):
        without = torch.cat([ids[:i], ids[i + 1 :]])
        assert found["leave-one-out"][i] == pytest.approx(abs(logit - model(without[None]).item()), abs=1e-4)
        instead = ids.repeat(2, 1)
        instead[:, i] = torch.tensor(others)
        assert found["replacement"][i] == pytest.approx(abs(logit - model(instead).mean().item()), abs=1e-4)
        # The slope at 1 of a factor on the word's embedding, by a difference.
        embedded, step = model.embeddings(ids)[None].repeat(2, 1, 1), 1e-2
        embedded[:, i] *= torch.tensor([1 + step, 1 - step])[:, None]
        lengths = torch.tensor([len(ids)] * 2)
        states = model.read(embedded, lengths)
        up, down = model.logits(states, model.weigh(states, lengths)).tolist()
        assert found["gradient × input"][i] == pytest.approx(abs(up - down) / (2 * step), abs=2e-3)
    weights, lengths = model.weights(ids[None])[0], model.states(ids[None])[0].norm(dim=-1)
    np.testing.assert_allclose(found["attention"], weights, atol=1e-5)
    np.testing.assert_allclose(found["value-weighted"], weights * lengths / (weights @ lengths), atol=1e-5)
    assert not np.allclose(found["random"], measures.rankings(model, ids, others, seed=1)["random"])
    np.testing.assert_allclose(np.abs(measures.deletions(model, ids)), found["leave-one-out"], atol=1e-5)


def test_words_that_are_equal_to_a_model_without_context_are_ranked_as_equal(models):
    ids = corpus("movie").encode("a film , a film , and a dull film")
    found = measures.rankings(models["movie", "no context"], ids, [5, 17])
    for name in RANKINGS[:-1]:
        scores = (found[name] * 1e5).round().astype(int)
        np.testing.assert_allclose(scores / 1e5, found[name], atol=1e-12)  # what is left of rounding would decide
        for word in set(ids.tolist()):
            assert np.ptp(scores[(ids == word).numpy()]) <= 1, name
        assert len({a // 10 for a in scores.tolist()}) >= 3


def test_replacements_are_drawn_as_often_as_words_are_written():
    texts = corpus("sms")
    drawn = measures.draw_replacements(texts, 20_000)
    assert drawn[:10] == measures.draw_replacements(texts) and UNKNOWN not in drawn
    known = torch.cat(texts.train.ids)
    for word in ("i", "to", "you", "call"):
        i = texts.vocabulary[word]
        assert drawn.count(i) / 20_000 == pytest.approx(
            (known == i).sum().item() / (known != UNKNOWN).sum().item(), abs=0.004
        )


def test_shuffled_weights_move_p_as_the_model_says(models):
    model, ids = models["sms", "bilstm"], corpus("sms").test.ids[1]
    moved = measures.permuted(model, ids, n_draws=5)
    order = np.random.default_rng(0).permuted(np.tile(np.arange(len(ids)), (5, 1)), axis=1)
    weights = model.weights(ids[None])[0]
    p = torch.sigmoid(model(ids.expand(5, -1), weights[torch.from_numpy(order)]))
    np.testing.assert_allclose(moved, p - torch.sigmoid(model(ids[None])), atol=1e-5)
    rows = own_weights(model, corpus("sms").test.first(20))
    mixed = measures.shuffled(rows)
    assert all(torch.equal(a.sort().values, b.sort().values) for a, b in zip(rows, mixed, strict=True))
    assert sum(torch.equal(a, b) for a, b in zip(rows, mixed, strict=True)) < 3


def test_the_exact_adversary_is_as_far_as_any_that_keeps_p(models):
    model, rng = models["movie", "bilstm"], np.random.default_rng(0)
    for ids in corpus("movie").test.ids[:5]:
        found, predict = measures.exact_adversary(model, ids), model.from_weights(ids)
        weights = model.weights(ids[None])[0].double().numpy()
        p = 1 / (1 + math.exp(-predict(weights[None])[0]))
        assert (found.weights > 0).sum() <= 2 and found.weights.sum() == pytest.approx(1)
        assert abs(1 / (1 + math.exp(-found.output)) - p) <= 0.01 + 1e-6
        others = rng.dirichlet(np.full(len(ids), 0.05), size=20_000)  # most of the weight on a few words
        kept = others[np.abs(1 / (1 + np.exp(-predict(others))) - p) <= 0.01]
        assert len(kept) > 20 and jensen_shannon(kept, weights[None] / weights.sum()).max() <= found.divergence + 1e-7


def test_a_high_temperature_evens_the_weights_out(models):
    model, part = models["movie", "bilstm"], corpus("movie").test.first(12)
    found = measures.sharpness(model, part, [0.1, 1.0, 1e4], 12)
    assert found["entropy"][0] < found["entropy"][1] < found["entropy"][2] == pytest.approx(1, abs=1e-3)
    assert found["change"][1] == 0 and found["deletions"][1] == 1 and min(found["change"][::2]) > 0
    flat = predictions(model, part, uniform_weights(part)) - predictions(model, part)
    assert found["change"][2] == pytest.approx(flat.abs().mean().item(), abs=1e-3)


def test_plausibility_counts_the_rated_words():
    right = [np.array([True, False, False, False]), np.array([False, False]), np.array([True, True])]
    scores = [np.array([0.2, 0.1, 0.1, 0.6]), np.ones(2), np.ones(2)]  # only the first text has both kinds of words
    assert measures.plausibility(scores, right) == pytest.approx({"share": 0.2, "uniform": 0.25, "first": 0.0})
    part = corpus("movie").test.first(50)
    marked = {
        w
        for text, at in zip(part.texts, measures.rated(part), strict=True)
        for w, a in zip(words(text), at, strict=True)
        if a
    }
    assert {"good", "best"} & marked and not {"the", "film", "a"} & marked
    assert measures.same_top([np.array([0.1, 0.9]), np.ones(2)], [np.array([2.0, 3.0]), np.array([1.0, 0.0])]) == 0.75


# --------------------------------------------------------------------------------------------------------- the record


def intervals(record, of_pairs=False):
    """Each row of the record that has one number a seed, and whether a number belongs to two of them."""
    if isinstance(record, dict) and "values" in record:
        yield record, of_pairs
    elif isinstance(record, dict):
        for name, inner in record.items():
            yield from intervals(inner, of_pairs or name == "between seeds" or "of another seed" in name)
    elif isinstance(record, list):
        for inner in record:
            yield from intervals(inner, of_pairs)


def test_intervals_of_the_record_are_those_of_its_seeds():
    found = list(intervals(RECORD))
    assert len(found) > 200 and measures.recorded() == RECORD
    assert sum(of_pairs for _, of_pairs in found) == 4 * (6 + 3 + 3)
    for row, of_pairs in found:
        again = (spread_of_pairs if of_pairs else spread)(np.array(row["values"]))
        assert again.n >= 3
        assert [row["mean"], row["low"], row["high"]] == pytest.approx([again.mean, again.low, again.high], abs=5e-4)


@pytest.mark.parametrize(("name", "kind"), STORED)
def test_stored_models_decide_as_the_record_says(models, name, kind):
    test = corpus(name).test
    if kind == "adversary":
        (row,) = [row for row in RECORD[name]["trained adversary"] if row["strength"] == RECORD["stored"]["strength"]]
        expected = row["accuracy"]["values"][0]
    else:
        expected = RECORD[name][kind]["accuracy"]["own weights"]["values"][0]
    # On another processor, one text may change sides.
    assert measures.accuracy(models[name, kind], test) == pytest.approx(expected, abs=1.1 / len(test.ids) + 1e-4)
    if kind != "adversary":
        put_in = measures.accuracy(models[name, kind], test, uniform_weights(test))
        expected = RECORD[name][kind]["accuracy"]["uniform weights put in"]["values"][0]
        assert put_in == pytest.approx(expected, abs=1.1 / len(test.ids) + 1e-4)


@pytest.mark.parametrize(("name", "kind"), STORED)
def test_stored_models_weigh_as_the_record_says(models, name, kind):
    model, row = models[name, kind], RECORD["stored"][f"{name} {kind}"]
    part, replacements = corpus(name).test.first(RECORD["stored"]["texts"]), measures.draw_replacements(corpus(name))
    found = [measures.rankings(model, ids, replacements) for ids in part.ids]
    _, table = agreement_table({ranking: [one[ranking] for one in found] for ranking in RANKINGS})
    taus = [table[i, j] for i, j in combinations(range(len(RANKINGS)), 2)]
    assert taus == pytest.approx(row["agreement"], abs=5e-3)
    medians = [np.median(np.abs(measures.permuted(model, ids))) for ids in part.ids]
    assert np.median(medians) == pytest.approx(row["shuffled"], abs=1e-3)
    divergence = np.mean([measures.exact_adversary(model, ids).divergence for ids in part.ids])
    assert divergence == pytest.approx(row["adversary"], abs=2e-3)
    if kind == "adversary":
        base = models["movie", "bilstm"]
        assert measures.apart(own_weights(base, part), own_weights(model, part)).mean() == pytest.approx(
            row["from the base"], abs=1e-3
        )
