"""Heads of SmolLM2: what is read off their weights, what replaces them, and that the record says what they do."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import evidence
from attnlab.models import smollm2, smollm2_heads, smollm2_sinks
from attnlab.models.smollm2_heads import HEADS, Last, losses, prompts, repeated, top, without

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import smollm2_heads as tool  # noqa: E402

RECORD = smollm2_heads.recorded()
CLOSE = {"atol": 3e-4, "rtol": 0}  # of logits up to 30, after 30 layers in float32
AGAIN = {"atol": 2e-3, "rtol": 0}  # of what is recorded to four digits


@pytest.fixture(scope="module")
def model():
    """One thread: a step is small, and other tests run beside this one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield smollm2.load()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def ids(model):
    """Two sequences of 5 words, twice: (2, 10)"""
    return repeated(model, 2, 5)


@pytest.fixture(scope="module")
def prompt(model):
    return prompts(model, 1)[0]


@pytest.fixture(scope="module")
def last(model, prompt):
    return Last(model, prompt.clean)


# ---------------------------------------------------------------------------------------------------------- the texts


def test_sequences_are_of_different_plain_words_and_come_again(model):
    ids = repeated(model, 3, 30, seed=4)
    assert ids.shape == (3, 60) and torch.equal(ids[:, :30], ids[:, 30:])
    assert all(len(set(row.tolist())) == 30 for row in ids)
    assert not torch.equal(ids[0], ids[1]) and not torch.equal(ids, repeated(model, 3, 30, seed=5))
    assert torch.equal(ids[:2], repeated(model, 2, 30, seed=4)), "the first ones of more"
    assert torch.equal(repeated(model, 3, 30, times=1, seed=4), ids[:, :30])
    for word in model.decode(ids[0]).split(" ")[1:]:
        assert word.isascii() and word.isalpha() and word.islower() and len(word) >= 3
        assert model.encode(" " + word).shape == (1, 1)


def test_prompts_end_at_the_word_before_the_one_that_was_changed(model):
    found = prompts(model, 6)
    for clean, corrupted, wanted, other in found:
        one, changed = clean[0].tolist(), corrupted[0].tolist()
        place = one.index(one[-1])
        assert one[:24].count(one[-1]) == 1 and one[24:] == one[: place + 1]
        assert one[place + 1] == wanted and changed[place + 1] == other and other not in one
        assert [i for i in range(len(one)) if one[i] != changed[i]] == [place + 1]
    assert len({clean.shape[1] for clean, *_ in found}) > 2, "the place in the text must not give the word away"


# ------------------------------------------------------------------------------------------------------- by the weights


def test_the_pattern_is_the_weight_on_the_word_after_the_first_occurrence(model, ids):
    found = smollm2_heads.pattern(model, ids)
    assert found.shape == (2, 30, 9)
    for row, text in zip(found, ids, strict=True):
        weights, words = model.weights(text[None]), text.tolist()
        on_next = [weights[:, :, query, words.index(words[query]) + 1] for query in range(5, 10)]
        torch.testing.assert_close(row, torch.stack(on_next).mean(dim=0))


def test_heads_are_drawn_without_those_to_be_left_out():
    scores = torch.zeros(30, 9)
    scores[4, 8], scores[29, 0] = 2, 1
    assert top(scores, 2) == [(4, 8), (29, 0)]
    but = [(0, i) for i in range(9)] + [(1, 1)]
    drawn = smollm2_heads.random_heads(260, 3, but=but)
    assert sorted([*drawn, *but]) == HEADS and drawn != sorted(drawn)
    assert smollm2_heads.random_heads(5, 3, but=but) == drawn[:5] != smollm2_heads.random_heads(5, 4, but=but)
    same = smollm2_heads.random_heads(9, 0, among=[1, 2, 2] + [1] * 6, but=but)
    assert [layer for layer, _ in same] == [1, 2, 2] + [1] * 6 and (1, 1) not in same
    assert len({*same[:3], *same[3:]}) == 9


# ----------------------------------------------------------------------------------------------------------- ablation


def test_losses_are_those_of_the_model_from_whatever_layer_they_start(model, ids):
    expected = model.losses(ids)
    torch.testing.assert_close(losses(model, ids), expected, **CLOSE)
    torch.testing.assert_close(losses(model, ids, 6), expected[:, 5:], **CLOSE)
    with torch.no_grad():
        states = [x for x, _ in model.layers(ids)]
    torch.testing.assert_close(losses(model, ids, 6, states[11], 12), expected[:, 5:], **CLOSE)


def test_a_head_gives_its_mean_and_only_this_head_and_not_at_the_first_position(model, ids):
    means = smollm2_heads.mean_outputs(model, ids)
    W_o = model.blocks[3].attention.W_o
    with evidence.captured(W_o) as before:
        whole = losses(model, ids)
    own = before.inputs[0]  # (2, 10, 576)
    torch.testing.assert_close(means[3], own[:, 1:].mean(dim=(0, 1)))
    for given, constant in ((means, means[3, 64:128]), (None, torch.zeros(64))):
        with evidence.captured(model.blocks[3].attention) as seen, without(model, [(3, 1), (20, 0)], given):
            changed = losses(model, ids)
        x = own.clone()
        x[:, 1:, 64:128] = constant
        torch.testing.assert_close(seen.outputs[0], torch.nn.functional.linear(x, W_o.weight))
        assert (changed - whole).abs().max() > 1e-3
    assert torch.equal(losses(model, ids), whole), "nothing stays"
    with pytest.raises(ValueError, match=r"not \(30, 0\)"), without(model, [(30, 0)]):
        pass


# ------------------------------------------------------------------------------------------------------------ one query


def test_the_last_query_goes_on_as_the_model_does(model, prompt, last):
    tokens = torch.tensor([prompt.wanted, prompt.other, 5])
    expected = model(prompt.clean, last=True)[0, :, tokens]  # (1, 3)
    for layer in (0, 17, 29):
        torch.testing.assert_close(last.logits(tokens, layer), expected, **CLOSE)
        torch.testing.assert_close(last.weights[layer], model.weights(prompt.clean)[layer, :, -1])
    with pytest.raises(ValueError, match=r"\(1, 1\)"):
        Last(model, prompt.clean[:, :1])


@pytest.mark.parametrize("layer, head", [(0, 4), (18, 6), (29, 8)])
def test_predict_is_the_whole_model_with_other_weights_in_one_place(model, prompt, last, layer, head):
    predict = last.head(layer, head, prompt.wanted, prompt.other)
    own = last.weights[layer, head]
    rows = torch.stack([own, own.flip(0), torch.eye(len(own))[2]])  # (3, n)
    found = predict(rows)
    group = slice(head // 3 * 64, head // 3 * 64 + 64)  # the key and value head of this query head
    for row, output in zip(rows, found, strict=True):

        def mixed(x, row=row):
            x[:, -1, head * 64 : head * 64 + 64] = row @ seen.outputs[0][0, :, group]
            return x

        attention = model.blocks[layer].attention
        with evidence.captured(attention.W_v) as seen, evidence.edited(attention.W_o, mixed, where="input"):
            logits = model(prompt.clean, last=True)[0, 0]
        torch.testing.assert_close(output, logits[prompt.wanted] - logits[prompt.other], **CLOSE)
    assert (found - found[0]).abs().max() > 0.01
    in_numpy = predict(rows.numpy().astype(np.float64))
    assert isinstance(in_numpy, np.ndarray) and np.allclose(in_numpy, found, **CLOSE)
    with pytest.raises(ValueError, match=rf"\(m, {len(own)}\)"):
        predict(own)


def test_one_head_patched_in_a_row_is_that_head_patched_in_the_model(model, prompt, last):
    other = Last(model, prompt.corrupted)
    tokens = torch.tensor([prompt.wanted, prompt.other])
    found = other.patched(last, tokens)  # (30, 9, 2)
    for head in [(0, 2), (18, 6), (29, 8)]:
        with last.given([head]):
            expected = model(prompt.corrupted, last=True)[0, 0, tokens]
        torch.testing.assert_close(found[head], expected, **CLOSE)
    assert (found[18, 6] - other.logits(tokens)).abs().max() > 0.1
    with last.given(HEADS):  # all of them: only the layers' own way of the last word remains, which is the same word
        torch.testing.assert_close(model(prompt.corrupted, last=True)[:, 0, tokens], last.logits(tokens), **CLOSE)


def test_the_protocol_is_that_of_evidence_and_the_adversary_refuses_what_is_not_affine(prompt, last):
    predict, weights = last.head(18, 6, prompt.wanted, prompt.other), last.weights[18, 6]
    lost = evidence.leave_one_out(predict, weights)
    assert lost.argmax() == prompt.clean[0].tolist().index(prompt.wanted) and lost.max() > 0.1
    moved = evidence.permute(predict, weights, 20)
    assert moved.shape == (20,) and moved.median() < -0.1
    own = predict(weights[None]).item()
    with pytest.raises(ValueError, match="linear, but for a constant"):
        evidence.adversary(predict, weights, own - 0.1, own + 0.1)


# -------------------------------------------------------------------------------------------------------------- sinks


ALL = torch.ones(30, 9, dtype=torch.bool)


def test_a_forbidden_key_is_one_that_a_mask_forbids(model, ids):
    for place in (0, 3):
        mask = torch.ones(10, 10, dtype=torch.bool)
        mask[place + 1 :, place] = False
        with smollm2_sinks.without_keys(model, ALL, smollm2_sinks.key(place), forbid=True):
            found = losses(model, ids)
        torch.testing.assert_close(found, model.losses(ids, mask=mask), **CLOSE)


def test_a_value_of_zero_is_zero_in_the_chosen_heads_alone(model, ids, monkeypatch):
    heads = torch.zeros(30, 9, dtype=torch.bool)
    heads[:, 4:] = True
    with smollm2_sinks.without_keys(model, heads, smollm2_sinks.key(0)):
        found = losses(model, ids)
    whole, grouped = losses(model, ids), smollm2.grouped_attention

    def first_is_zero(query, key, value, mask, *, is_causal):
        own = grouped(query, key, value, mask, is_causal=is_causal)
        other = value.clone()
        other[:, :, 0] = 0
        changed = grouped(query, key, other, mask, is_causal=is_causal)
        own.output[:, 4:, 1:] = changed.output[:, 4:, 1:]
        return own

    monkeypatch.setattr(smollm2, "grouped_attention", first_is_zero)
    torch.testing.assert_close(found, losses(model, ids), **CLOSE)
    assert (found - whole).abs().max() > 0.1


@pytest.mark.parametrize("forbid", [False, True])
def test_without_any_key_a_head_gives_zero_but_at_the_first_position(model, ids, forbid):
    heads = torch.zeros(30, 9, dtype=torch.bool)
    heads[20:, 2] = True
    with without(model, [(layer, 2) for layer in range(20, 30)]):
        expected = losses(model, ids)
    every = torch.ones(2, 9, 10, 10, dtype=torch.bool)
    with smollm2_sinks.without_keys(model, heads, lambda weights: every, forbid=forbid):
        torch.testing.assert_close(losses(model, ids), expected, **CLOSE)


def test_the_own_value_and_the_own_mean_change_nothing(model, ids):
    two = ids[:1, :2]  # one query after the first: what is added to it is the mean
    first, whole = smollm2_sinks.first_key(model, two), model(two, last=True)

    def changed(**given):
        with smollm2_sinks.without_keys(model, ALL, smollm2_sinks.key(0), **given):
            return (model(two, last=True) - whole).abs().max()

    assert changed(value=first.values[0]) < 3e-4 and changed(added=first.added) < 3e-4
    assert changed() > 0.1 and changed(value=2 * first.values[0]) > 0.1 and changed(added=2 * first.added) > 0.1
    with pytest.raises(ValueError, match="both"):
        changed(value=first.values[0], forbid=True)


def test_what_the_first_key_is_to_a_head_by_hand(model, ids):
    found = smollm2_sinks.first_key(model, ids)
    block, head = model.blocks[12], 7
    with evidence.captured(block.attention.W_v) as seen:
        weights = torch.stack([weights[:, head] for _, weights in model.layers(ids)])[12]  # (2, 10, 10)
    value = seen.outputs[0][..., 128:192]  # (2, 10, 64), the last of three
    after = value @ block.attention.W_o.weight[:, 448:512].T  # (2, 10, 576)
    share = weights * after.norm(dim=-1)[:, None]
    share = (share / share.sum(dim=-1, keepdim=True))[:, 1:, 0].mean()
    ratio = [(x.norm(dim=-1)[:, 0] / x.norm(dim=-1)[:, 1:].mean(dim=1)).mean() for x in (value, after)]
    expected = (weights[:, 1:, 0].mean(), *ratio, share)
    torch.testing.assert_close(torch.stack([table[12, 7] for table in found[:4]]), torch.stack(expected))
    torch.testing.assert_close(found.values[:, 12, 7], value[:, 0])
    torch.testing.assert_close(found.added[12, 7], (weights[:, 1:, :1] * value[:, :1]).mean(dim=(0, 1)))


def test_the_heaviest_other_key_is_never_the_first(model):
    weights = torch.tensor([[1.0, 0, 0], [0.9, 0.1, 0], [0.5, 0.2, 0.3]])
    assert smollm2_sinks.heaviest(weights)[1:].tolist() == [[False, True, False], [False, False, True]]


def test_a_turned_value_keeps_its_length_and_nothing_else():
    value = torch.randn(30, 9, 64, generator=torch.Generator().manual_seed(8)) * torch.linspace(0.1, 9, 9)[:, None]
    found = [tool.turned(value, number) for number in (0, 1)]
    for one, other in ((found[0], value), (found[1], value), found):
        torch.testing.assert_close(one.norm(dim=-1), value.norm(dim=-1))
        cosines = torch.nn.functional.cosine_similarity(one, other, dim=-1)  # (30, 9)
        # Of two directions in 64 dimensions drawn at random: 0 on average, 1/8 the standard deviation.
        assert abs(cosines.mean()) < 0.03 and 0.1 < cosines.std() < 0.15
    assert torch.equal(tool.turned(value, 0), found[0])


# ----------------------------------------------------------------------------------------------------------- the record


def test_the_record_is_that_of_its_script():
    path = ROOT / "src/attnlab/data/smollm2_heads.json"
    text = path.read_text("utf-8")
    assert RECORD["model"]["sha256"] == smollm2.SHA256
    assert list(RECORD) == ["model", "texts", "versions", *tool.PARTS]
    assert len(text) < 60_000


def again(found, recorded):
    torch.testing.assert_close(torch.as_tensor(found), torch.tensor(recorded), **AGAIN)


def test_recorded_patterns_are_computed_again_in_part(model):
    part = RECORD["pattern"]
    found = smollm2_heads.pattern(model, repeated(model, 2, tool.N, seed=tool.JUDGING))  # (2, 30, 9)
    for head, runs in zip(part["top"], part["runs"], strict=True):
        again(found[:, head[0], head[1]], runs[:2])
    assert part["top"] == [list(head) for head in top(torch.tensor(part["choosing"]), 16)]
    assert part["uniform"] == pytest.approx(sum(1 / (26 + i) for i in range(25)) / 25, abs=1e-4)


@pytest.fixture(scope="module")
def reader(model):
    """The first two sequences that were read without heads."""
    return tool.Reader(model, repeated(model, 2, tool.N, seed=tool.JUDGING), tool.N + 1)


def test_recorded_ablations_are_computed_again_in_part(model, reader):
    part, means = RECORD["ablation"], smollm2_heads.mean_outputs(model, tool.unrepeated(model))
    heads = [tuple(head) for head in part["heads"]]
    assert [list(head) for head in heads] == RECORD["pattern"]["top"][:8]
    again(reader.whole, part["repeat"]["loss"][:2])
    again(reader.change(heads[:4], means), part["repeat"]["words"]["top"][2][:2])
    again(reader.change(heads[:1], None), part["repeat"]["zero"]["top"][0][:2])
    alone = RECORD["single"]
    again(reader.change([tuple(alone["top"][1])], means), alone["runs"][1][:2])
    fresh = tool.Reader(model, repeated(model, 2, tool.N, seed=tool.FRESH), tool.N + 1)
    for i in (0, 9):
        again(fresh.change([tuple(alone["top"][i])], means), alone["judged"][i][:2])
    gain = torch.tensor(alone["gain"])
    assert [list(head) for head in top(gain, 10)] == alone["top"]
    again(gain[tuple(zip(*alone["top"], strict=True))], torch.tensor(alone["runs"]).mean(dim=1).tolist())
    scores = torch.tensor(RECORD["pattern"]["choosing"])
    assert evidence.rank_agreement(scores.flatten(), gain.flatten()) == pytest.approx(alone["tau"], abs=5e-3)


def test_no_sequence_on_which_heads_are_judged_had_a_part_in_their_choice(model):
    """By pattern they are chosen on one seed and judged on the next; one by one, chosen on that one, and judged on
    another."""
    seeds = (tool.CHOOSING, tool.JUDGING, tool.FRESH)
    texts = [repeated(model, tool.N_SEQUENCES, tool.N, seed=seed).tolist() for seed in seeds]
    rows = {tuple(row) for text in texts for row in text}
    assert len(rows) == 3 * tool.N_SEQUENCES
    single = RECORD["single"]
    assert np.shape(single["runs"]) == (10, tool.N_ABLATED) and np.shape(single["judged"]) == (10, tool.N_SEQUENCES)


def test_recorded_patches_are_computed_again_in_part(model, prompt):
    part, pair = RECORD["patching"], tool.Pair(model, prompt)
    for one, name in zip(pair.out, ("clean", "corrupted"), strict=True):
        again(one, part["difference"][name][:1])
    shares = pair.at_last()
    for name, order in part["orders"].items():
        again(shares[tuple(zip(*order, strict=True))], [runs[0] for runs in part["runs"][name]])
    layer = 18
    here = {tuple(head): runs for head, runs in zip(part["orders"]["pattern"], part["runs_everywhere"], strict=True)}
    found = pair.everywhere([layer])[0]  # (9,)
    for head in (6, 7):
        again(found[head], here[layer, head][0])


def test_what_is_recorded_of_the_first_key_is_computed_again_in_part(model):
    part, (judged, reference) = RECORD["sinks"], tool.texts(model)
    ids = judged[:1]
    heads = torch.zeros(30, 9, dtype=torch.bool)
    heads[tuple(zip(*part["sinks"], strict=True))] = True
    whole = losses(model, ids).mean()
    again(whole, part["loss"][0])
    for name, options in {"first, value 0": {}, "first, forbidden": {"forbid": True}}.items():
        with smollm2_sinks.without_keys(model, heads, smollm2_sinks.key(0), **options):
            again(losses(model, ids).mean() - whole, part["gain"][name][0])
    other = smollm2_sinks.first_key(model, reference[4:]).values[0]
    for number in (0, 9):
        value = tool.turned(other, number)
        with smollm2_sinks.without_keys(model, heads, smollm2_sinks.key(0), value=value):
            again(losses(model, ids).mean() - whole, part["gain_by_direction"][number][0])
    assert np.shape(part["gain_by_direction"]) == (tool.N_DIRECTIONS, 5)
    mean = np.mean(part["gain_by_direction"], axis=0)
    assert part["gain"]["first, value of that length in another direction"] == pytest.approx(mean, abs=2e-4)
    weight = torch.tensor(part["weight"])
    again(weight[heads].quantile(0.5), part["quartiles"]["weight"][1])
    assert len(set(judged[:, 0].tolist())) > 3, "the first words differ"


def test_what_is_recorded_of_the_protocol_is_computed_again_in_part(prompt, last):
    for name in ("induction", "sink"):
        part = RECORD["protocol"][name]
        head = tuple(part["head"])
        predict, weights = last.head(*head, prompt.wanted, prompt.other), last.weights[head]
        place = prompt.clean[0].tolist().index(prompt.wanted) if name == "induction" else 0
        again(weights[place], part["weight"][0])
        again(evidence.permute(predict, weights, 100).abs().median(), part["moved"][0])
        again(evidence.leave_one_out(predict, weights)[place], part["lost"][0])


def test_the_record_says_what_a_pattern_is_good_for_and_where_it_misleads():
    """The statements that the chapter makes of it, each against its baseline."""
    scores = torch.tensor(RECORD["pattern"]["choosing"])
    by_chance = max(torch.tensor(table).max().item() for table in RECORD["pattern"]["unrepeated"].values())
    by_chance = max(by_chance, RECORD["pattern"]["uniform"])
    assert all(evidence.spread(runs).low > 5 * by_chance for runs in RECORD["pattern"]["runs"][:8])
    repeat, text = RECORD["ablation"]["repeat"], RECORD["ablation"]["text"]
    for i in range(4):  # 1, 2, 4 and 8 heads, each text by itself against the worst of twenty draws
        assert min(repeat["words"]["top"][i]) > max(repeat["words"]["same_layers"][i])
        assert evidence.spread(repeat["words"]["top"][i]).low > max(repeat["words"]["random"][i])
    assert max(repeat["zero"]["random"][0]) > max(repeat["zero"]["top"][0]) > 3 * max(repeat["words"]["random"][0]), (
        "with 0 in its place, some head that has nothing to do with the repeat costs more than the highest"
    )
    assert all(abs(evidence.spread(text["text"]["top"][i]).mean) < 0.1 for i in range(2))
    single = RECORD["single"]
    assert single["top"][0] == [16, 0] and single["pattern"][0] < 1e-3 and single["token_before"][0] > 0.8, (
        "the head that the repeat needs most looks at the token before"
    )
    judged = np.array(single["judged"])
    assert evidence.spread(judged[0]).low > 3 and (judged[0] > judged[1:]).all(), "on each fresh sequence, too"
    assert single["in_common"] < 5 and single["tau"] < 0.2 < single["tau_above"]
    restored = torch.tensor(RECORD["patching"]["last"])
    assert scores[29, 1] < 0.01 and restored[29, 1] > 0.1, "no pattern, and the answer comes through it"
    assert scores[24, 4] > 0.3 and restored[24, 4] < -0.05, "the pattern, and it speaks against the answer"


def test_the_record_says_that_a_sink_carries_a_constant():
    gain = {name: evidence.spread(runs) for name, runs in RECORD["sinks"]["gain"].items()}
    assert gain["first, value 0"].low > 0.1 and gain["heaviest other, value 0"].low > 0.1
    assert abs(gain["first, value of another text"].mean) < 0.01
    assert abs(gain["first, the same for all queries"].mean) < 0.05
    assert gain["first, forbidden"].low > 2 * gain["first, value 0"].high
    assert gain["token 10, forbidden"].high < 0.05
    turned, none = np.array(RECORD["sinks"]["gain_by_direction"]), np.array(RECORD["sinks"]["gain"]["first, value 0"])
    more = turned - none  # (10, 5)
    assert evidence.spread(more.mean(axis=0)).low > 0.05, "over passages, the mean of ten directions"
    assert evidence.spread(more.mean(axis=1)).low > 0.05, "over directions, the mean of five passages"
    assert (more > 0).sum() == 49, "all but one direction in one passage"
