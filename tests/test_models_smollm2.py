"""SmolLM2: as transformers runs it, with and without its cache, and what it does with a window and with fewer heads."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from attnlab.efficient import cost, repeat_kv
from attnlab.models import smollm2, smollm2_measures

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/tools"))

import smollm2_measures as tool  # noqa: E402

OUTSIDE = json.loads((ROOT / "tests/data_smollm2.json").read_text("utf-8"))  # written by book/tools/smollm2_outside.py
TEXTS = OUTSIDE["texts"]
RECORD = smollm2_measures.recorded()
CLOSE = {"atol": 3e-4, "rtol": 0}  # of logits up to 30, after 30 layers in float32
PER_TOKEN = 30 * (576 * (2 * 576 + 2 * 192) + 3 * 576 * 1536)  # multiplications of a token in the layers
LAST = 576 * 49152  # and for its logits


@pytest.fixture(scope="module")
def model():
    """Loaded once, which draws no random numbers.  One thread: a step is small, and other tests run beside this one."""
    threads, random = torch.get_num_threads(), torch.random.get_rng_state()
    torch.set_num_threads(1)
    model = smollm2.load()
    assert torch.equal(torch.random.get_rng_state(), random)
    yield model
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def ids(model):
    """(1, 96)"""
    return smollm2_measures.passages(model, 1, 96)


@pytest.fixture(scope="module")
def logits(model, ids):
    """Those of the whole text at once, without a cache: (1, 96, 49152)"""
    return model(ids)


# ---------------------------------------------------------------------------------------------------- against outside


def test_tokens_are_those_of_the_file_and_text_comes_back(model):
    assert OUTSIDE["sha256"] == smollm2.SHA256
    for text, ids in zip(TEXTS, OUTSIDE["ids"], strict=True):
        found = model.encode(text)
        assert found.tolist() == [ids] and model.decode(found) == text
    assert model.encode("1998").tolist()[0] == [model.encode(digit).item() for digit in "1998"]
    assert model.encode("<|im_start|>a<|im_end|>")[0, [0, -1]].tolist() == [1, 2], (
        "one token each, unlike other <|text|>"
    )
    assert model.encode("").shape == (1, 0)


@pytest.mark.parametrize("number", range(4))
def test_logits_are_those_of_transformers(model, number):
    logits = model(torch.tensor([OUTSIDE["ids"][number]]), last=True)
    assert logits.shape == (1, 1, 49152)
    torch.testing.assert_close(logits[0, 0, :: OUTSIDE["every"]], torch.tensor(OUTSIDE["logits"][number]), **CLOSE)


def test_losses_and_greedy_words_are_those_of_transformers(model):
    ids = torch.tensor([OUTSIDE["ids"][OUTSIDE["losses_of"]]])
    for block in (128, 5):
        torch.testing.assert_close(model.losses(ids, block=block), torch.tensor([OUTSIDE["losses"]]), **CLOSE)
    ids = torch.tensor([OUTSIDE["ids"][OUTSIDE["goes_on"]]])
    assert model.generate(ids, len(OUTSIDE["generated"])).tolist() == [OUTSIDE["generated"]]


def test_it_answers_in_the_form_that_it_was_trained_on(model):
    assert "Paris" in model.chat("What is the capital of France?", 12)


def test_a_loaded_model_is_for_reading_only(model):
    assert not model.training and not any(p.requires_grad or p.is_meta for p in model.parameters())
    assert sum(p.numel() for p in model.parameters()) == 30 * (PER_TOKEN // 30 + 2 * 576) + LAST + 576 == 134_515_008


# ------------------------------------------------------------------------------------------------------------- rotation


def test_what_a_turned_query_and_key_say_depends_on_their_distance_alone():
    random = torch.Generator().manual_seed(5)
    query, key = torch.randn(2, 1, 64, generator=random)

    def score(one, other):
        q = smollm2.rotate(query, *smollm2.turns(torch.tensor([one])))
        k = smollm2.rotate(key, *smollm2.turns(torch.tensor([other])))
        return (q * k).sum()

    torch.testing.assert_close(score(7, 2), score(905, 900), atol=1e-3, rtol=0)
    assert abs(score(7, 2) - score(2, 7)) > 0.1 and abs(score(7, 2) - score(7, 3)) > 0.1
    pair = torch.zeros(1, 64)
    pair[0, 2] = 1
    angle = torch.tensor(3 * 100_000 ** (-2 / 64))
    turned = smollm2.rotate(pair, *smollm2.turns(torch.tensor([3])))
    torch.testing.assert_close(turned[0, 2:4], torch.stack((angle.cos(), angle.sin())))
    assert turned.count_nonzero() == 2


# ------------------------------------------------------------------------------------------------------------ the cache


def test_with_a_cache_each_step_is_the_last_row_of_the_whole_text(model, ids, logits):
    cache = model.new_cache()
    for start, end in ((0, 50), (50, 51), (51, 52), (52, 96)):
        torch.testing.assert_close(model(ids[:, start:end], cache), logits[:, start:end], **CLOSE)
        assert {one.n_seen for one in cache} == {end}
    sizes = {"n_layers": 30, "d_head": 64, "n_tokens": 96, "dtype": "float32"}
    held = sum(one.nbytes for one in cache)
    assert held == cost.kv_cache_bytes(n_kv_heads=3, **sizes) == cost.kv_cache_bytes(n_kv_heads=9, **sizes) // 3
    assert torch.equal(model.generate(ids[:, :20], 4), model.generate(ids[:, :20], 4, use_cache=False))


def test_a_batch_reads_each_text_for_itself(model, ids):
    both = torch.cat((ids[:, :20], ids[:, 20:40]))
    cache = model.new_cache()
    model(both[:, :15], cache)
    together = model(both[:, 15:], cache)
    torch.testing.assert_close(together[1:], model(both[1:])[:, 15:], **CLOSE)
    assert model.generate(both, 2).tolist() == [model.generate(row[None], 2)[0].tolist() for row in both]


@pytest.mark.parametrize(("window", "n_sinks"), [(16, 0), (12, 4)])
def test_a_rolling_cache_computes_what_the_mask_of_its_window_does(model, ids, logits, window, n_sinks):
    """Losses: with the cache in blocks, with the mask at once."""
    cache = model.new_cache(window, n_sinks)
    rolled = model.losses(ids, cache, block=24)
    assert {len(one) for one in cache} == {16}
    masked = model.losses(ids, mask=smollm2_measures.windowed(96, window, range(n_sinks)))
    torch.testing.assert_close(rolled, masked, atol=1e-3, rtol=0)
    full = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="none")
    torch.testing.assert_close(masked[0, :12], full[:12], **CLOSE)
    assert abs(masked[0] - full).max() > 0.5


def test_the_mask_of_a_window_and_of_what_is_kept_beside_it():
    assert smollm2_measures.windowed(5, 2, [1]).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 1, 0, 1, 1],
    ]


def test_a_text_without_tokens_and_ids_without_a_batch_are_refused(model):
    for shape in ((1, 0), (4,)):
        with pytest.raises(ValueError, match=rf"ids must have shape \(B, n\).* shape {re.escape(str(shape))}"):
            model(torch.zeros(shape, dtype=torch.long))


# ---------------------------------------------------------------------------------------------------------- fewer heads


def test_one_head_for_all_is_the_mean_of_three_or_a_copy_of_one(model, ids):
    """W_k and W_v by hand; what else the two models hold is the same memory."""
    for head in (None, 2):
        fewer = model.with_kv_heads(1, head)
        for name, weight in fewer.named_parameters():
            before = model.get_parameter(name)
            if not name.endswith(("W_k.weight", "W_v.weight")):
                assert weight.data_ptr() == before.data_ptr(), name
                continue
            by_head = before.reshape(3, 64, 576)
            torch.testing.assert_close(weight, by_head.mean(dim=0) if head is None else by_head[head])
        cache = fewer.new_cache()
        fewer(ids[:, :10], cache)
        assert sum(one.nbytes for one in cache) == 2 * 30 * 1 * 64 * 10 * 4
    with pytest.raises(ValueError, match="head must be one of 0 … 2, but it is 3"):
        model.with_kv_heads(1, 3)


def test_three_copies_of_one_head_are_that_head_alone(model, ids):
    """Query heads share in the order [0, 0, 0, 1, 1, 1, 2, 2, 2]: with nine heads, each has its own."""
    x = torch.randn(1, 7, 576, generator=torch.Generator().manual_seed(6))
    turn = smollm2.turns(torch.arange(7))
    with torch.device("meta"):
        alone = smollm2.Attention(9)
    alone, grouped = alone.to_empty(device="cpu"), model.blocks[3].attention
    with torch.no_grad():
        for name, weight in grouped.named_parameters():
            if name in ("W_k.weight", "W_v.weight"):
                weight = repeat_kv(weight.reshape(3, 64, 576), 3).reshape(576, 576)
            alone.get_parameter(name).copy_(weight)
        torch.testing.assert_close(grouped(x, turn, None, None), alone(x, turn, None, None), atol=1e-5, rtol=0)


# ----------------------------------------------------------------------------------------------------------- the record


def test_the_record_is_of_this_model_and_these_texts(model):
    assert RECORD["model"]["sha256"] == smollm2.SHA256
    assert set(RECORD) == {"model", "texts_sha256", "versions", *tool.PARTS}
    assert (ROOT / "src/attnlab/data/smollm2.json").stat().st_size < 12_000


def test_recorded_operations_and_bytes_are_those_of_the_formulas_and_of_a_count(model, ids):
    for step in RECORD["decoding"]["steps"]:
        n = step["n"]
        heads = {"n_heads": 9, "d_head": 64}
        with_cache = 2 * (PER_TOKEN + LAST) + 30 * cost.attention_flops(1, n, **heads)
        # Without a cache all n² scores are computed, then masked.
        without = 2 * (n * PER_TOKEN + LAST) + 30 * cost.attention_flops(n, n, **heads)
        assert step["operations"] == {"cache": with_cache, "none": without}
        held = 2 * 30 * 3 * 64 * n * 4
        assert step["bytes"] == {"held": held, "formula": held, "as_mha": 3 * held}
        assert step["difference"] < 2e-4
    first = RECORD["decoding"]["steps"][0]
    for name, use_cache in {"cache": True, "none": False}.items():
        counted = smollm2_measures.operations_of_a_step(model, ids[:, : first["n"]], use_cache=use_cache)
        assert counted == first["operations"][name]
    assert RECORD["decoding"]["greedy"]["same"] == RECORD["decoding"]["greedy"]["new"] == 40


def test_recorded_losses_are_computed_again_in_part(model):
    """Of the first passage, the blocks up to the first one beyond the window; and all of what the fewer heads read."""
    ids = smollm2_measures.passages(model, 1, 385)
    losses = {
        "all": model.losses(ids),
        "window": model.losses(ids, mask=smollm2_measures.windowed(385, 256)),
        "sinks": model.losses(ids, mask=smollm2_measures.windowed(385, 252, range(4))),
    }
    for name, found in losses.items():
        expected = torch.tensor(RECORD["sinks"]["losses"][name][0][:3])
        torch.testing.assert_close(smollm2_measures.by_block(found)[0], expected, atol=1e-3, rtol=0)
    heads = {name: rows[0] for name, rows in RECORD["heads"]["losses"].items()}
    assert heads["as_trained"] == pytest.approx(losses["all"][0, :383].mean().item(), abs=1e-3)
    assert heads["mean"] == pytest.approx(model.with_kv_heads(1).losses(ids[:, :384]).mean().item(), abs=1e-3)


def test_the_record_says_that_the_first_tokens_are_needed_and_others_are_not():
    """For each passage, beyond two windows: the mean over the blocks from position 512 on."""
    far = {name: torch.tensor(rows)[:, 4:].mean(dim=1) for name, rows in RECORD["sinks"]["losses"].items()}
    worse = {name: rows - far["all"] for name, rows in far.items()}  # (4,) each
    assert (worse["window"] > 0.4).all() and (worse["others"] > 0.4).all()
    assert (worse["sinks"] < 0.2).all() and (worse["sinks_moved"] < 0.2).all()


def test_the_record_says_that_fewer_heads_without_training_are_no_better_than_near_a_guess():
    losses = RECORD["heads"]["losses"]
    assert set(losses) == {"as_trained", "mean", "head_0", "head_1", "head_2"}
    guess = torch.tensor(49152.0).log()
    for name in ("mean", "head_0", "head_1", "head_2"):
        for before, after in zip(losses["as_trained"], losses[name], strict=True):
            assert before < 4 and after > guess - 3, name


def test_the_recorded_weights_on_the_first_token_are_those_of_the_model(model):
    ids = smollm2_measures.passages(model, 1, 384)
    found = smollm2_measures.weight_on_first(model, ids)
    assert found.shape == (30, 9) and (found > 0.5).sum() == RECORD["first"]["above_half"][0]
    weights = model.weights(ids[:, :6])  # (30, 9, 6, 6)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(30, 9, 6))
    torch.testing.assert_close(weights[:, :, 1:, 0].mean(dim=-1), smollm2_measures.weight_on_first(model, ids[:, :6]))
