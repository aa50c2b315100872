"""Costs by formula: against published totals, brute-force counts, a walk through the algorithm, and torch's counter.

"A70" names a report in the collection of public bugs that the course teaches from: bytes computed from query heads.
"""

import sys

import numpy as np
import pytest
import torch
from test_import import run
from torch.utils.flop_counter import FlopCounterMode

import attnlab
from attnlab import masks
from attnlab.efficient import cost
from attnlab.efficient.cost import MODELS, attention_flops, hbm_elements, kv_cache_bytes

KIB, MIB, GIB = 2**10, 2**20, 2**30


def cache_of(name, n_tokens=1, **changes):
    model = MODELS[name]
    shape = {"n_layers": model.n_layers, "n_kv_heads": model.n_kv_heads, "d_head": model.d_head}
    return kv_cache_bytes(**{**shape, "window": model.window, "n_tokens": n_tokens, **changes})


# ------------------------------------------------------------------------------------------------------------ the cache


@pytest.mark.parametrize(
    ("name", "a_token", "as_mha"),
    [
        ("GPT-2 small", 36, 36),
        ("SmolLM2-135M", 22.5, 67.5),
        ("Falcon-7B", 8, 568),
        ("Gemma-7B", 448, 448),
        ("Mistral-7B", 128, 512),
        ("Llama-2-7B", 512, 512),
        ("Llama-2-70B", 320, 2560),
        ("Llama-3-8B", 128, 512),
        ("Llama-3-70B", 320, 2560),
    ],
)
def test_kib_a_token_of_real_models(name, a_token, as_mha):
    """A70: query heads in place of key/value heads give the second number."""
    assert cache_of(name) == a_token * KIB
    assert cache_of(name, n_kv_heads=MODELS[name].n_heads) == as_mha * KIB


def test_totals_of_real_models():
    assert cache_of("Llama-2-7B", 4096) == 2 * GIB
    assert cache_of("Llama-3-70B", 131072) == 40 * GIB
    assert cache_of("Mistral-7B", 4096) == cache_of("Mistral-7B", 32768) == cache_of("Mistral-7B", 10**6) == 512 * MIB
    assert cache_of("Mistral-7B", 32768, window=None) == 8 * 512 * MIB
    assert cache_of("Mistral-7B", 4095) == 4095 * 128 * KIB


def test_the_cache_is_as_large_as_the_arrays_in_it():
    shape = {"n_layers": 3, "n_kv_heads": 2, "d_head": 5}
    for dtype in (np.float64, np.float32, np.dtype("float16"), np.int8):
        arrays = [np.zeros((4, 2, 7, 5), dtype) for _ in range(2 * 3)]  # (batch, n_kv_heads, n_tokens, d_head)
        found = kv_cache_bytes(**shape, n_tokens=7, batch=4, dtype=dtype)
        assert found == sum(array.nbytes for array in arrays)
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.float32):
        assert kv_cache_bytes(**shape, n_tokens=7, dtype=dtype) == 6 * torch.zeros(2, 7, 5, dtype=dtype).nbytes


@pytest.mark.parametrize(
    ("dtype", "of_float16"),
    [("float64", 4), ("float32", 2), ("float16", 1), ("bfloat16", 1), ("float8", 0.5), ("int8", 0.5), ("int4", 0.25)],
)
def test_every_dtype_by_its_name(dtype, of_float16):
    assert cache_of("GPT-2 small", 1024, dtype=dtype) == of_float16 * 36 * MIB


def test_half_bytes_come_in_pairs():
    found = kv_cache_bytes(n_layers=1, n_kv_heads=1, d_head=1, n_tokens=1, dtype="int4")
    assert found == 1 and type(found) is int
    assert kv_cache_bytes(n_layers=3, n_kv_heads=1, d_head=5, n_tokens=7, dtype="int4") == 3 * 5 * 7


def test_numpy_integers_do_not_overflow():
    huge = {"n_layers": np.int32(80), "n_kv_heads": np.int32(8), "d_head": np.int32(128), "n_tokens": np.int32(131072)}
    assert kv_cache_bytes(**huge) == 40 * GIB
    assert attention_flops(np.int32(2**20), np.int32(2**20), np.int32(128)) == 4 * 2**40 * 128
    assert hbm_elements(np.int32(2**16), np.int32(64)) == 4 * 2**16 * (64 + 2**16)


def test_an_empty_cache_is_empty():
    assert cache_of("GPT-2 small", 0) == 0


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"n_layers": 0}, ValueError, "n_layers must be at least 1, but it is 0"),
        ({"n_kv_heads": -8}, ValueError, "n_kv_heads must be at least 1, but it is -8"),
        ({"d_head": 0}, ValueError, "d_head must be at least 1"),
        ({"n_tokens": -1}, ValueError, "n_tokens must be at least 0, but it is -1"),
        ({"batch": 0}, ValueError, "batch must be at least 1"),
        ({"window": 0}, ValueError, "window must be at least 1"),
        ({"n_tokens": 4096.0}, TypeError, r"n_tokens must be a whole number, but it is 4096\.0"),
        ({"batch": True}, TypeError, "batch must be a whole number, but it is True"),
        ({"window": "4096"}, TypeError, "window must be a whole number, but it is '4096'"),
        ({"dtype": "fp16"}, ValueError, "dtype must be one of float64, .*, int4, but it is 'fp16'"),
        ({"dtype": torch.complex64}, ValueError, r"but it is torch\.complex64"),
        ({"dtype": 2}, ValueError, "but it is 2"),
    ],
)
def test_what_the_cache_refuses(changes, error, words):
    with pytest.raises(error, match=words):
        kv_cache_bytes(**{"n_layers": 2, "n_kv_heads": 2, "d_head": 4, "n_tokens": 3, **changes})


def test_models_are_whole():
    assert len({model.source for model in MODELS.values()}) >= 6
    for name, model in MODELS.items():
        assert model.n_heads % model.n_kv_heads == 0, name
        assert model.window is None or model.window <= model.context
        assert model.context & (model.context - 1) == 0, "the calculator moves in powers of two"
        assert "arXiv" in model.source or "config.json" in model.source or "model.py" in model.source
    assert MODELS["Mistral-7B"].window == 4096
    assert MODELS["Falcon-7B"].n_kv_heads == 1 and MODELS["Gemma-7B"].d_head == 256, "one MQA, one with wide heads"


# ----------------------------------------------------------------------------------------------------------- operations


@pytest.mark.parametrize("window", [None, 1, 2, 3, 5, 9])
@pytest.mark.parametrize(("n_q", "n_k"), [(4, 4), (1, 7), (3, 5), (6, 2), (0, 3), (3, 0)])
def test_operations_count_the_pairs_that_a_mask_allows(n_q, n_k, window):
    mask = masks.causal(n_q, n_k) if window is None else masks.window(n_q, window, n_k=n_k)
    expected = 2 * int(mask.sum()) * (3 + 3)
    assert attention_flops(n_q, n_k, 3, is_causal=True, window=window) == expected
    assert attention_flops(n_q, n_k, 3, is_causal=window is None, window=window) == expected, "a window is causal"


@pytest.mark.parametrize(("n_q", "n_k", "d", "d_v"), [(4, 4, 8, 8), (1, 9, 4, 4), (5, 7, 3, 2)])
def test_operations_are_what_torch_counts(n_q, n_k, d, d_v):
    query, key, value = torch.rand(2, 3, n_q, d), torch.rand(2, 3, n_k, d), torch.rand(2, 3, n_k, d_v)
    with FlopCounterMode(display=False) as counter:
        (query @ key.mT).softmax(-1) @ value
    assert attention_flops(n_q, n_k, d, d_v=d_v, n_heads=3, batch=2) == counter.get_total_flops()


def test_operations_of_long_inputs_by_hand():
    n = 131072
    assert attention_flops(n, n, 128) == 4 * n * n * 128
    assert attention_flops(n, n, 128, is_causal=True) == 2 * n * (n + 1) * 128
    assert attention_flops(1, n, 128, n_heads=32, batch=2) == attention_flops(1, n, 128, n_heads=64, is_causal=True)


def test_what_operations_refuse():
    for changes, words in (
        ({"d_head": 0}, "d_head"),
        ({"n_q": -1}, "n_q"),
        ({"d_v": 0}, "d_v"),
        ({"window": 0}, "window"),
    ):
        with pytest.raises(ValueError, match=f"{words} must be at least"):
            attention_flops(**{"n_q": 2, "n_k": 2, "d_head": 2, **changes})


# ------------------------------------------------------------------------------------------------------ numbers moved


class SlowMemory(dict):
    """Arrays of which every element read or written is counted."""

    moved = 0

    def read(self, name, rows=slice(None)):
        self.moved += self[name][rows].size
        return self[name][rows].copy()

    def write(self, name, array, rows=slice(None)):
        self.moved += array.size
        self[name][rows] = array


def slow_memory(n, d):
    rng = np.random.default_rng(n * d)
    memory = SlowMemory({name: rng.normal(size=(n, d)) for name in "QKV"})
    return memory, attnlab.attention(*(memory[name] for name in "QKV"), scale=1.0).output


@pytest.mark.parametrize(("n", "d"), [(8, 4), (5, 3), (1, 1)])
def test_the_standard_algorithm_moves_what_a_walk_through_it_counts(n, d):
    memory, expected = slow_memory(n, d)
    memory |= {"S": np.empty((n, n)), "P": np.empty((n, n)), "O": np.empty((n, d))}
    memory.write("S", memory.read("Q") @ memory.read("K").T)
    memory.write("P", attnlab.softmax(memory.read("S")))
    memory.write("O", memory.read("P") @ memory.read("V"))
    np.testing.assert_allclose(memory["O"], expected, atol=1e-12)
    assert hbm_elements(n, d) == memory.moved


@pytest.mark.parametrize(("n", "d", "held"), [(8, 4, 32), (9, 4, 35), (10, 3, 29), (7, 2, 1000), (5, 3, 12), (1, 1, 4)])
def test_the_tiled_algorithm_moves_what_a_walk_through_it_counts(n, d, held):
    """Fast memory for `held` numbers; the last tiles are ragged."""
    memory, expected = slow_memory(n, d)
    memory |= {"O": np.zeros((n, d)), "l": np.zeros((n, 1)), "m": np.full((n, 1), -np.inf)}
    block_k = int(np.ceil(held / (4 * d)))
    block_q = min(block_k, d)
    for j in range(0, n, block_k):
        keys, values = (memory.read(name, slice(j, j + block_k)) for name in "KV")
        for i in range(0, n, block_q):
            rows = slice(i, i + block_q)
            query, output, total, top = (memory.read(name, rows) for name in ("Q", "O", "l", "m"))
            scores = query @ keys.T
            new_top = np.maximum(top, scores.max(1, keepdims=True))
            weights, old = np.exp(scores - new_top), total * np.exp(top - new_top)
            new_total = old + weights.sum(1, keepdims=True)
            memory.write("O", (old * output + weights @ values) / new_total, rows)
            memory.write("l", new_total, rows)
            memory.write("m", new_top, rows)
    np.testing.assert_allclose(memory["O"], expected, atol=1e-12)
    assert hbm_elements(n, d, sram_bytes=2 * held) == memory.moved
    assert hbm_elements(n, d, sram_bytes=4 * held, dtype="float32") == memory.moved
    assert hbm_elements(n, d, sram_bytes=2 * held + 1) == memory.moved, "half a number is none"


def test_numbers_moved_at_1024_keys_of_width_64():
    millions = [hbm_elements(1024, 64, sram_bytes=size and size * KIB) / 1e6 for size in (None, 192, 100, 20)]
    assert [f"{count:.2f}" for count in millions] == ["4.46", "0.73", "1.34", "5.35"]
    assert hbm_elements(1024, 64) == 4_456_448 and hbm_elements(1024, 64, sram_bytes=192 * KIB) == 733_184


def test_a_fast_memory_must_hold_one_tile():
    assert hbm_elements(10, 64, sram_bytes=512) == 2 * 10 * 64 + 10 * (3 * 10 * 64 + 4 * 10)
    with pytest.raises(ValueError, match=r"sram_bytes = 511 holds 255 numbers, .* d = 64 are 256: give at least 512"):
        hbm_elements(10, 64, sram_bytes=511)
    for arguments, words in (((0, 4), "n must"), ((4, 0), "d must"), ((4, 4.0), "d must be a whole")):
        with pytest.raises((ValueError, TypeError), match=words):
            hbm_elements(*arguments)


# ----------------------------------------------------------------------------------------------------------- the report


def printed(capsys, **options):
    defaults = {"n_heads": 32, "n_kv_heads": 8, "d_head": 128, "n_tokens": 4096, "n_layers": 32, "kernel": "SDPA"}
    assert cost.report(**{**defaults, **options}) is None
    return capsys.readouterr().out


def test_the_report_says_what_a_speed_needs(capsys):
    out = printed(capsys, window=1024, n_tokens=32768, batch=2, dtype=torch.bfloat16)
    assert out == (
        "query heads                                     32\n"
        "key/value heads                                  8  (GQA: groups of 4)\n"
        "head dimension                                 128\n"
        "window                                       1,024\n"
        "dtype                                     bfloat16\n"
        "kernel                                        SDPA\n"
        "tokens                                      32,768  (1,024 kept)\n"
        "batch                                            2\n"
        "layers                                          32\n"
        "KV bytes a token                           131,072  128 KiB\n"
        "KV bytes in all                        268,435,456  256 MiB\n"
        "KV bytes as MHA                      1,073,741,824  1 GiB, 4 ×\n"
        "operations, decode step              1,073,741,824  1.07 · 10^9\n"
        "operations, prefill             34,635,153,145,856  3.46 · 10^13\n"
    )


def test_the_report_of_each_model_agrees_with_the_formulas(capsys):
    for model in MODELS.values():
        heads = {"n_layers": model.n_layers, "d_head": model.d_head}
        out = printed(capsys, n_heads=model.n_heads, n_kv_heads=model.n_kv_heads, window=model.window, **heads)
        shown = {line[:24].strip(): line[24:].split()[0].replace(",", "") for line in out.splitlines()}
        assert shown["window"] == str(model.window or "none")
        whole = kv_cache_bytes(n_kv_heads=model.n_kv_heads, n_tokens=4096, window=model.window, **heads)
        assert int(shown["KV bytes in all"]) == whole
        assert int(shown["KV bytes as MHA"]) * model.n_kv_heads == whole * model.n_heads
        prefill = attention_flops(4096, 4096, model.d_head, n_heads=model.n_heads, is_causal=True)
        assert int(shown["operations, prefill"]) == model.n_layers * prefill
        assert int(shown["operations, decode step"]) == 4 * 4096 * model.d_head * model.n_heads * model.n_layers


@pytest.mark.parametrize(("heads", "words"), [((12, 12), "MHA"), ((12, 1), "MQA: one for all"), ((1, 1), "MHA")])
def test_the_report_names_the_sharing(capsys, heads, words):
    out = printed(capsys, n_heads=heads[0], n_kv_heads=heads[1])
    assert f"  ({words})\n" in out
    assert ("iB, 12 ×\n" in out) == (heads == (12, 1)), "no factor where there is none"


def test_no_line_of_the_report_is_wider_than_a_page(capsys):
    words = "FlashAttention on one card, pages of 16 tokens, prefix cached, compiled with every option that we found"
    huge = {"n_heads": 2048, "n_kv_heads": 16, "n_layers": 256, "n_tokens": 2**21, "window": 2**20, "batch": 64}
    out = printed(capsys, kernel=words, **huge)
    assert max(map(len, out.splitlines())) <= 76
    assert words in " ".join(out.split()), "no word is lost"


def test_what_the_report_refuses(capsys):
    for changes, words in (
        ({"n_kv_heads": 5}, "n_kv_heads must divide n_heads.* n_heads is 32 and n_kv_heads is 5"),
        ({"kernel": " "}, "kernel must say what computes the attention, but it is ' '"),
        ({"kernel": None}, "kernel must say"),
        ({"n_tokens": 0}, "n_tokens must be at least 1"),
    ):
        with pytest.raises(ValueError, match=words):
            printed(capsys, **changes)
    assert capsys.readouterr().out == "", "nothing half printed"


def test_costs_need_no_torch():
    assert "torch" in sys.modules
    code = "import sys; from attnlab.efficient import cost; cost.kv_cache_bytes(n_layers=1, n_kv_heads=1, d_head=1, "
    assert run(code + "n_tokens=1, dtype='bfloat16'); print('torch' in sys.modules)") == "False"
