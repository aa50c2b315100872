"""Induction: that the lists ask what they say, that a removed head is removed, and that the record is true."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.models import induction
from attnlab.models.induction import (
    CHANGES,
    FIXED,
    KINDS,
    N_AGAIN,
    N_HEADS,
    N_LIST,
    N_TOKENS,
    OFFSETS,
    QUERY,
    WIDTH,
    AttentionOnly,
    accuracy,
    change,
    draw,
    heads_above,
    induction_score,
    load,
    previous_token_score,
    train,
    without_heads,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "book/tools"))

import train_induction

RECORD = induction.recorded()
RUNS = {kind: list(row["runs"].values()) for kind, row in RECORD["kinds"].items()}
STORED = train_induction.STORED
AT = list(OFFSETS).index(FIXED)
FEW = {"n_lists": 60}


@pytest.fixture(scope="module")
def models():
    return {kind: load(kind) for kind in STORED}


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def fresh(n_layers=2, seed=0):
    torch.manual_seed(seed)
    return AttentionOnly(n_layers).eval().requires_grad_(False)


# ----------------------------------------------------------------------------------------------------------- the lists


@pytest.mark.parametrize("offset", [N_AGAIN, FIXED, N_LIST])
def test_a_part_of_the_list_comes_again_at_the_offset(offset):
    lists = draw(30, offset, random())
    for tokens, places, unused in zip(*(column.tolist() for column in lists), strict=True):
        assert len(tokens) == N_LIST + N_AGAIN and len(set(tokens[:N_LIST])) == N_LIST and unused not in tokens
        assert tokens[N_LIST:] == tokens[N_LIST - offset :][:N_AGAIN] and set(tokens) <= set(range(N_TOKENS))
        for j, place in enumerate(places):
            assert tokens[place - 1] == tokens[N_LIST + j] and tokens[place] == tokens[N_LIST + j + 1]
            assert N_LIST + j - (place - 1) == offset
    assert len({tuple(row) for row in lists.tokens.tolist()}) == 30


def test_offsets_and_tokens_are_drawn_evenly_and_repeat_with_the_seed():
    lists, again, other = (draw(2600, OFFSETS, random(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(lists, again, strict=True))
    assert not torch.equal(lists.tokens, other.tokens)
    # 13 offsets, about 200 lists each; 32 tokens, each at the first place of about 81 lists.  Four standard errors.
    counts = (N_LIST + 1 - lists.places[:, 0]).bincount(minlength=N_LIST + 1)[N_AGAIN:]
    assert len(counts) == 13 and (counts - 200).abs().max() < 4 * 200**0.5
    assert (lists.tokens[:, 0].bincount(minlength=N_TOKENS) - 81).abs().max() < 4 * 81**0.5
    for offsets in (N_AGAIN - 1, N_LIST + 1, (), [FIXED, 2]):
        with pytest.raises(ValueError, match="from 12 to 24"):
            draw(1, offsets, random())


def test_who_knows_what_has_come_again_but_not_the_order_guesses_as_often_as_said():
    tokens, right = draw(2000, OFFSETS, random()).tokens.tolist(), {False: [], True: []}
    rng = np.random.default_rng(0)
    for row in tokens:
        for j in range(N_AGAIN - 1):
            for knows_places, its in right.items():
                can_be = row[j + 1 : j + 1 + len(OFFSETS)] if knows_places else row[:N_LIST]
                left = [token for token in can_be if token not in row[N_LIST : N_LIST + j + 1]]
                its.append(left[rng.integers(len(left))] == row[N_LIST + j + 1])
    for (knows_places, its), recorded in zip(right.items(), RECORD["guessing"].values(), strict=True):
        p = induction.guessing(knows_places=knows_places)
        assert abs(np.mean(its) - p) < 4 * (p * (1 - p) / len(its)) ** 0.5 and recorded == round(p, 4)


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_replaces_one_token_of_the_list(what):
    lists = draw(20, OFFSETS, random())
    before = lists.tokens.clone()
    changed = change(lists, what)
    assert torch.equal(lists.tokens, before)
    rows, columns = (changed.tokens != lists.tokens).nonzero(as_tuple=True)
    place = lists.places[:, QUERY]
    assert torch.equal(rows, torch.arange(20)) and torch.equal(columns, place - CHANGES.index(what))
    assert torch.equal(changed.tokens[rows, columns], lists.unused)
    # The query's own token is as it was; under "matched" it stands nowhere in the list any longer.
    query = changed.tokens[:, N_LIST + QUERY]
    assert torch.equal(query, lists.tokens[:, N_LIST + QUERY])
    assert (changed.tokens[:, :N_LIST] == query[:, None]).any(dim=1).tolist() == [what == "copied"] * 20
    with pytest.raises(ValueError, match="copied, matched, but it is 'query'"):
        change(lists, "query")


# ---------------------------------------------------------------------------------------------------------- the models


@pytest.mark.parametrize("kind", STORED)
def test_a_model_is_its_formula_written_out_in_numpy(models, kind):
    model, tokens = models[kind], draw(1, FIXED, random()).tokens
    p = {name: weight.numpy().astype(np.float64) for name, weight in model.state_dict().items()}
    x = p["tokens.weight"][tokens[0].numpy()] + p["positions.weight"]
    for i in range(KINDS[kind].n_layers):
        q, k, v = (x @ p[f"layers.{i}.W_{name}.weight"].T for name in "qkv")
        given = np.zeros_like(x)
        for h in range(N_HEADS):
            its = slice(h * WIDTH // N_HEADS, (h + 1) * WIDTH // N_HEADS)
            scores = np.where(np.tri(len(x), dtype=bool), q[:, its] @ k[:, its].T / (WIDTH // N_HEADS) ** 0.5, -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            np.testing.assert_allclose(model.weights(tokens)[i, 0, h].numpy(), weights, atol=1e-4)
            given += weights @ v[:, its] @ p[f"layers.{i}.W_o.weight"][:, its].T
        x = x + given
    np.testing.assert_allclose(model(tokens)[0].numpy(), x @ p["readout.weight"].T, atol=1e-2)


def test_later_tokens_change_nothing_and_every_weight_learns():
    model, tokens = fresh(), draw(2, OFFSETS, random()).tokens
    torch.testing.assert_close(model(tokens[:, :20]), model(tokens)[:, :20], atol=1e-5, rtol=1e-5)
    model.requires_grad_(True)(tokens).logsumexp(dim=-1).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in model.parameters())
    with pytest.raises(ValueError, match=r"at most 36 a row.*\(1, 37\)"):
        model(torch.zeros(1, 37, dtype=torch.long))


def test_a_model_that_has_learned_nothing_is_right_by_chance():
    shares = [accuracy(fresh(seed=seed), OFFSETS, seed=seed) for seed in range(3)]
    assert abs(np.mean(shares) - 1 / N_TOKENS) < 0.02


class Looking(AttentionOnly):
    """Looks `back` tokens back with all its heads, and says what it sees."""

    def __init__(self, back):
        super().__init__(2)
        self.back = back

    def _read(self, tokens):
        n = tokens.shape[1]
        weights = torch.zeros(n, n)
        weights[torch.arange(n), (torch.arange(n) - self.back).clamp(min=0)] = 1
        said = (weights @ torch.nn.functional.one_hot(tokens, N_TOKENS).float()).float()
        return said, [weights.expand(len(tokens), N_HEADS, n, n)] * 2


def test_scores_and_accuracies_are_read_off_at_the_right_places():
    for offset in (N_AGAIN, 20):
        right, wrong = Looking(offset - 1), Looking(offset)
        assert (induction_score(right, offset, **FEW) == 1).all() and accuracy(right, offset, **FEW) == 1
        assert (induction_score(wrong, offset, **FEW) == 0).all() and accuracy(wrong, offset, **FEW) == 0
        for what in CHANGES:
            assert (induction_score(right, offset, what, **FEW) == 1).all() and accuracy(
                right, offset, what, **FEW
            ) == 1
    assert (previous_token_score(Looking(1), **FEW) == 1).all() and (previous_token_score(Looking(0), **FEW) == 0).all()
    assert induction_score(right, 20, **FEW).shape == (2, N_HEADS)


def test_heads_are_told_apart_in_scores(models):
    # One head of one layer: each axis is read as itself.
    scores = torch.tensor([[0.1, 0.5, 0.2], [0.9, 0.49, 0.0]])
    assert heads_above(scores) == [(0, 1), (1, 0)] and heads_above(scores, 0.95) == []
    model, lists = models["two layers"], draw(60, FIXED, random(1_000_000))
    weights, found = model.weights(lists.tokens), induction_score(model, FIXED, n_lists=60)
    for layer, head in [(0, 3), (1, 1)]:
        of_head = weights[layer, :, head]
        each = [of_head[b, N_LIST + j, lists.places[b, j]] for b in range(60) for j in range(N_AGAIN - 1)]
        assert found[layer, head].item() == pytest.approx(np.mean(each), abs=1e-5)


# -------------------------------------------------------------------------------------------------------- removed heads


def test_a_removed_head_adds_nothing_and_the_others_what_they_did(models):
    model, tokens = models["one layer, fixed"], draw(4, FIXED, random()).tokens
    x = model.tokens(tokens) + model.positions.weight
    layer = model.layers[0]
    weights = model.weights(tokens)[0]  # (B, n_heads, n, n)
    values = layer.W_v(x).unflatten(-1, (N_HEADS, -1)).transpose(1, 2)  # (B, n_heads, n, d_head)
    by_head = (weights @ values).transpose(1, 2)  # (B, n, n_heads, d_head)
    columns = layer.W_o.weight.unflatten(1, (N_HEADS, -1))  # (d, n_heads, d_head)
    added = torch.einsum("bnhe,dhe->hbnd", by_head, columns)
    whole = model(tokens)
    with without_heads(model, [(0, 2), (0, 5)]):
        found = model(tokens)
        assert torch.equal(model.weights(tokens)[0], weights)  # the removed head's too
    expected = model.readout(x + added.sum(dim=0) - added[2] - added[5])
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert torch.equal(model(tokens), whole) and (found - whole).abs().max() > 0.1
    # The mean of a head over tokens and lists replaces it, whatever lists are read.
    with without_heads(model, [(0, 2)], "mean"):
        apart = model(tokens) - model.readout(x + added.sum(dim=0) - added[2])
    torch.testing.assert_close(apart, apart[:1, :1].expand_as(apart), atol=1e-3, rtol=1e-3)
    mean = model.readout(added[2].mean(dim=(0, 1)))
    assert (apart[0, 0] - mean).norm() < 0.5 * mean.norm()  # four other lists have about the same


def test_heads_of_two_layers_are_removed_together_and_come_back_after_an_exception(models):
    model, tokens = models["two layers"], draw(4, FIXED, random()).tokens
    whole = model(tokens)
    heads = [(layer, head) for layer in (0, 1) for head in range(N_HEADS)]
    with pytest.raises(KeyError), without_heads(model, iter(heads)):
        alone = model.readout(model.tokens(tokens) + model.positions.weight)
        torch.testing.assert_close(model(tokens), alone, atol=1e-4, rtol=1e-4)
        raise KeyError
    assert torch.equal(model(tokens), whole)
    with without_heads(model, []):
        assert torch.equal(model(tokens), whole)
    # Each head in its own layer: one after the other comes to the same.
    with without_heads(model, [(0, 1), (1, 2)]):
        together = model(tokens)
    with without_heads(model, [(0, 1)]), without_heads(model, [(1, 2)]):
        assert torch.equal(model(tokens), together) and not torch.equal(together, whole)


@pytest.mark.parametrize("head", [(2, 0), (0, 8), (-1, 0), (0, -1)])
def test_heads_that_are_not_there_and_other_ways_are_refused(models, head):
    with (
        pytest.raises(ValueError, match=r"layer 0 … 1, head 0 … 7"),
        without_heads(models["two layers"], [(0, 0), head]),
    ):
        pass
    with pytest.raises(ValueError, match="'median'"), without_heads(models["two layers"], [(0, 0)], "median"):
        pass


# ---------------------------------------------------------------------------------------------------------- the record


@pytest.mark.parametrize("kind", STORED)
def test_a_stored_model_does_what_the_record_says(models, kind):
    model, run = models[kind], RUNS[kind][0]
    found = train_induction.measured(model, [FIXED, FIXED + 1])
    at = [AT, AT + 1]
    # The same lists; rounded in another order, answers that were about equally likely may change.
    assert found["accuracy"] == pytest.approx(np.take(run["accuracy"], at), abs=0.002)
    assert found["head"] == run["head"] and found["head_score"] == pytest.approx(
        np.take(run["head_score"], at), abs=1e-3
    )
    for name in ("score", "previous"):
        np.testing.assert_allclose(found[name], run[name], atol=1e-3)
    for what in CHANGES:
        assert found[what] == pytest.approx(run[what], abs=0.005)


def test_a_stored_model_loses_with_its_heads_what_the_record_says(models):
    model, run = models["two layers"], RUNS["two layers"][0]["removed"]
    assert [list(head) for head in heads_above(induction_score(model, FIXED))] == run["induction"]
    assert len(run["induction"]) == len(run["zero"]["induction"])
    for by in train_induction.WAYS:
        for layer, head in [(0, 0), (1, 0)]:
            one = train_induction.without(model, [(layer, head)], by)
            assert one == pytest.approx(run[by]["single"][layer][head], abs=0.005)
        all_of_them = train_induction.without(model, [tuple(head) for head in run["induction"]], by)
        assert all_of_them == pytest.approx(run[by]["induction"][-1], abs=0.005)


def test_the_worst_head_of_the_stored_model_is_as_bad_on_lists_that_did_not_choose_it(models):
    """The record picks it, of sixteen, by the same lists on which it was measured."""
    single = np.array(RUNS["two layers"][0]["removed"]["mean"]["single"])
    worst = np.unravel_index(single.argmin(), single.shape)
    with without_heads(models["two layers"], [worst], "mean"):
        fresh = accuracy(models["two layers"], OFFSETS, seed=4_000_000)
    assert fresh == pytest.approx(single[worst], abs=0.02) and fresh < RECORD["guessing"]["knows the places, too"]


def test_the_record_is_that_of_its_script_and_follows_from_its_runs():
    assert RECORD["about"] == train_induction.ABOUT and RECORD["offsets"] == list(OFFSETS)
    assert RECORD["training"] == {
        "steps": {kind: KINDS[kind].n_steps for kind in KINDS},
        "batch": induction.BATCH,
        "learning_rate": induction.LEARNING_RATE,
        "seeds": list(train_induction.SEEDS),
    }
    assert list(RECORD["kinds"]) == list(KINDS)
    for kind, row in RECORD["kinds"].items():
        assert list(row["runs"]) == [str(seed) for seed in train_induction.SEEDS]
        assert row["parameters"] == sum(p.numel() for p in AttentionOnly(KINDS[kind].n_layers).parameters())
        for name, found in train_induction.over_seeds(RUNS[kind]).items():
            assert found == pytest.approx(row["over_seeds"][name], abs=2e-4), name


def test_what_the_chapter_says_of_the_record():
    right = {kind: np.array([run["accuracy"] for run in runs]) for kind, runs in RUNS.items()}
    guess = RECORD["guessing"]["knows the places, too"]
    # Two layers find what followed, at every offset; one layer guesses.
    assert (right["two layers"].mean(axis=1) > 0.995).all() and (right["two layers"] > 0.97).all()
    assert (right["one layer"].mean(axis=1) < guess).all()
    for kind in ("one layer, fixed", "two layers, fixed"):
        assert (right[kind][:, AT] > 0.99).all() and (np.delete(right[kind], AT, axis=1) < 0.01).all()
        for run in RUNS[kind]:
            # The pattern of an induction head, and a model that copies what stands there; but no matching.
            assert run["head_score"][AT] > 0.9 and max(np.delete(run["head_score"], AT)) < 0.1
            assert run["copied"]["says"] > 0.99 and run["matched"]["says"] > 0.99 and run["matched"]["weight"] > 0.9
    for run in RUNS["two layers"]:
        assert min(run["head_score"]) > 0.9 and run["copied"]["says"] > 0.99
        assert run["matched"]["says"] < 0.2 and run["matched"]["weight"] < 0.2
        # No induction head is missed alone.  One of the others is: it tells each token which one stands before it.
        single, other = train_induction.single_removals(run["removed"], "mean")
        assert min(single) > 0.995 and min(other) < 0.95 and run["removed"]["mean"]["induction"][-1] < guess
        layer, head = np.unravel_index(np.argmin(run["removed"]["mean"]["single"]), (2, N_HEADS))
        assert layer == 0 and run["previous"][layer][head] > 0.9 and run["score"][layer][head] < 0.2


# ------------------------------------------------------------------------------------------------------------ training


@pytest.mark.parametrize("kind", KINDS)
def test_training_repeats_and_reaches_every_weight(kind, monkeypatch):
    drawn, real = [], induction.draw
    monkeypatch.setattr(induction, "draw", lambda *args: drawn.append(real(*args)) or drawn[-1])
    before = torch.random.get_rng_state()
    model, losses = train(kind, steps=3)
    assert torch.equal(torch.random.get_rng_state(), before) and not model.training
    again, other = train(kind, steps=3), train(kind, seed=1, steps=3)
    assert again.losses == losses and other.losses != losses and len(losses) == 3
    first, second = drawn[0].tokens, drawn[1].tokens
    assert torch.equal(drawn[3].tokens, first) and not torch.equal(second, first)  # each step and each seed its own
    assert not torch.equal(drawn[6].tokens, first)
    offsets = {N_LIST + 1 - place for lists in drawn for place in lists.places[:, 0].tolist()}
    assert offsets == set(KINDS[kind].offsets)
    started = fresh(KINDS[kind].n_layers).state_dict()
    assert not any(torch.equal(weight, started[name]) for name, weight in model.state_dict().items())


def test_a_fixed_offset_is_learned_in_seconds_and_no_other_with_it():
    model, losses = train("one layer, fixed", steps=200)
    assert losses[-1] < 0.1 and accuracy(model, FIXED, **FEW) > 0.95 and accuracy(model, FIXED - 1, **FEW) < 0.05


def test_unknown_kinds_are_refused():
    for make in (load, train):
        with pytest.raises(ValueError, match=r"two layers; one layer; .*'three layers'"):
            make("three layers")
