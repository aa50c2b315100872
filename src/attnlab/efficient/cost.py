"""What attention costs, by formula: bytes of the cache, operations, numbers moved; and the report a speed needs.

Everything is exact arithmetic on whole numbers.  Nothing is measured here: `meter` counts what a call really allocates.

The numbers that decide a cache are layers, *key and value* heads, head dimension, tokens and dtype.  The number of
query heads is not among them.
"""

from collections.abc import Callable
from numbers import Integral
from textwrap import wrap
from typing import Any, NamedTuple

# The bits of one number.  Scales and zero points that quantised formats carry beside the numbers are not counted.
BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8": 8, "int8": 8, "int4": 4}


class Model(NamedTuple):
    """The attention of a real model: all that its key-value cache depends on, and where the numbers stand."""

    n_layers: int
    n_heads: int  # query heads
    n_kv_heads: int
    d_head: int
    window: int | None
    context: int  # the longest input that its makers name, in tokens
    source: str


LLAMA_2 = "Touvron et al. 2023, arXiv 2307.09288; config.json of meta-llama/Llama-2-"
LLAMA_3 = "Llama Team 2024, arXiv 2407.21783, Table 3; context from release 3.1 on, 8192 before"

MODELS = {
    "GPT-2 small": Model(12, 12, 12, 64, None, 1024, "src/model.py of openai/gpt-2 (Radford et al. 2019)"),
    "SmolLM2-135M": Model(30, 9, 3, 64, None, 8192, "config.json of HuggingFaceTB/SmolLM2-135M"),
    "Falcon-7B": Model(32, 71, 1, 64, None, 2048, "model card and config.json of tiiuae/falcon-7b"),
    "Gemma-7B": Model(28, 16, 16, 256, None, 8192, "Gemma Team 2024, arXiv 2403.08295, Table 1"),
    "Mistral-7B": Model(
        32, 32, 8, 128, 4096, 32768, "Jiang et al. 2023, arXiv 2310.06825; config.json of mistralai/Mistral-7B-v0.1"
    ),
    "Llama-2-7B": Model(32, 32, 32, 128, None, 4096, f"{LLAMA_2}7b-hf"),
    "Llama-2-70B": Model(80, 64, 8, 128, None, 4096, f"{LLAMA_2}70b-hf"),
    "Llama-3-8B": Model(32, 32, 8, 128, None, 131072, LLAMA_3),
    "Llama-3-70B": Model(80, 64, 8, 128, None, 131072, LLAMA_3),
}


def kv_cache_bytes(
    *,
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    dtype: Any = "float16",
    batch: int = 1,
    window: int | None = None,
) -> int:
    """Bytes of a key-value cache: 2 · n_layers · n_kv_heads · d_head · min(n_tokens, window) · batch · bytes a number.

    n_kv_heads: key and value heads, however many query heads share them.  n_tokens: seen so far, 0 or more; of these a
    window keeps the last `window`.  dtype: float64, float32, float16, bfloat16, float8, int8 or int4, as a name or as a
    dtype of NumPy or torch.

    int4 is half a byte; the result is a whole number all the same, since every number of a key has its partner in the
    value.  Not counted: scales of a quantised cache, room that an implementation keeps in reserve, the weights.

    Raises ValueError for a number that is too small or an unknown dtype, TypeError for what is no whole number.
    """
    numbers = 2 * _count("n_layers", n_layers) * _count("n_kv_heads", n_kv_heads) * _count("d_head", d_head)
    kept = _kept(_count("n_tokens", n_tokens, least=0), window)
    return numbers * kept * _count("batch", batch) * _bits(dtype) // 8


def attention_flops(
    n_q: int,
    n_k: int,
    d_head: int,
    *,
    d_v: int | None = None,
    n_heads: int = 1,
    batch: int = 1,
    is_causal: bool = False,
    window: int | None = None,
) -> int:
    """Operations of the two matrix products, scores and mixture: 2 · pairs · (d_head + d_v) · n_heads · batch.

    A multiplication with its addition counts as 2.  Pairs are the allowed ones: n_q · n_k, or fewer with is_causal
    (aligned bottom-right) or a window (each query sees its last `window` keys, its own included: causal by itself).
    They are what has to be computed: code that computes all scores and masks some of them does the work of all.
    Softmax and projections are not counted.  n_heads: query heads; sharing keys and values saves no operation.

    Raises ValueError for a number that is too small, TypeError for what is no whole number.
    """
    n_q, n_k = _count("n_q", n_q, least=0), _count("n_k", n_k, least=0)
    d_head = _count("d_head", d_head)
    widths = d_head + (d_head if d_v is None else _count("d_v", d_v))
    if is_causal or window is not None:
        most = n_k if window is None else _count("window", window)
        pairs = _sum_of_rows(n_k, most) - _sum_of_rows(max(n_k - n_q, 0), most)
    else:
        pairs = n_q * n_k
    return 2 * pairs * widths * _count("n_heads", n_heads) * _count("batch", batch)


def hbm_elements(n: int, d: int, *, sram_bytes: int | None = None, dtype: Any = "float16") -> int:
    """Numbers that one head moves between slow and fast memory, n queries and n keys of width d, forward, unmasked.

    sram_bytes=None: the standard algorithm, 4 · n · d + 4 · n².  It reads Q and K, writes S, reads S, writes P, reads P
    and V, writes O.  Else Algorithm 1 of FlashAttention with a fast memory of that many bytes, M numbers: tiles of
    ⌈M/4d⌉ keys.  Each key and value is read once; for each tile all of Q is read, all of O, m and ℓ read and written:
    2 · n · d + ⌈n / ⌈M/4d⌉⌉ · (3 · n · d + 4 · n).  The traffic shrinks as M grows; below some M it exceeds that of the
    standard algorithm.  This is the paper's accounting: the standard algorithm reads each operand once, whatever M is,
    and the scores of a tile are not among the M numbers.  O, m and ℓ are taken to be in slow memory at the start.

    Dao et al. 2022, arXiv 2205.14135, Algorithms 0 and 1.  Raises ValueError for a memory that holds no tile of one
    key.
    """
    n, d = _count("n", n), _count("d", d)
    bits = _bits(dtype)
    if sram_bytes is None:
        return 4 * n * d + 4 * n * n
    held = _count("sram_bytes", sram_bytes) * 8 // bits
    if held < 4 * d:
        raise ValueError(
            f"sram_bytes = {sram_bytes} holds {held} numbers, but one query, key, value and output of width d = {d} "
            f"are {4 * d}: give at least {(4 * d * bits + 7) // 8}."
        )
    n_tiles = -(-n // -(-held // (4 * d)))  # ⌈n / ⌈M/4d⌉⌉
    return 2 * n * d + n_tiles * (3 * n * d + 4 * n)


def report(
    *,
    n_heads: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    n_layers: int = 1,
    batch: int = 1,
    window: int | None = None,
    dtype: Any = "float16",
    kernel: str,
) -> None:
    """Print what has to stand beside a speed, and what follows from it: bytes of the cache, operations.

    kernel: what computes the attention, in your words ("SDPA, CPU", "attnlab.tiled_attention, 128 × 128").  A decode
    step is one query that sees n_tokens keys, its own included; a prefill is n_tokens causal queries.

    Raises ValueError where n_kv_heads does not divide n_heads, or kernel is empty.
    """
    n_heads, n_kv_heads = _count("n_heads", n_heads), _count("n_kv_heads", n_kv_heads)
    if n_heads % n_kv_heads:
        raise ValueError(
            f"n_kv_heads must divide n_heads, so that groups are of one size, but n_heads is {n_heads} and n_kv_heads "
            f"is {n_kv_heads}."
        )
    if not isinstance(kernel, str) or not kernel.strip():
        raise ValueError(f"kernel must say what computes the attention, but it is {kernel!r}.")
    n_tokens, n_layers, batch = _count("n_tokens", n_tokens), _count("n_layers", n_layers), _count("batch", batch)

    def cache(heads: int, tokens: int, sequences: int = batch) -> int:
        return kv_cache_bytes(
            n_layers=n_layers,
            n_kv_heads=heads,
            d_head=d_head,
            n_tokens=tokens,
            dtype=dtype,
            batch=sequences,
            window=window,
        )

    def operations(n_q: int) -> int:
        one_layer = attention_flops(n_q, n_tokens, d_head, n_heads=n_heads, batch=batch, is_causal=True, window=window)
        return n_layers * one_layer

    group = n_heads // n_kv_heads
    sharing = {n_heads: "MQA: one for all", 1: "MHA"}.get(group, f"GQA: groups of {group}")
    whole, full = cache(n_kv_heads, n_tokens), cache(n_heads, n_tokens)
    kept = "" if _kept(n_tokens, window) == n_tokens else f"({window:,} kept)"
    lines = [
        ("query heads", n_heads, ""),
        ("key/value heads", n_kv_heads, f"({sharing})"),
        ("head dimension", d_head, ""),
        ("window", "none" if window is None else window, ""),
        ("dtype", _name(dtype), ""),
        ("kernel", kernel, ""),
        ("tokens", n_tokens, kept),
        ("batch", batch, ""),
        ("layers", n_layers, ""),
        ("KV bytes a token", cache(n_kv_heads, 1, 1), _size),
        ("KV bytes in all", whole, _size),
        ("KV bytes as MHA", full, lambda number: f"{_size(number)}, {group} ×" if group > 1 else _size(number)),
        ("operations, decode step", operations(1), _scaled),
        ("operations, prefill", operations(n_tokens), _scaled),
    ]
    print("\n".join(_line(*line) for line in lines))


LABEL, VALUE, WIDTH = 24, 26, 76  # of the report, in characters


def _line(label: str, value: int | str, remark: str | Callable[[int], str]) -> str:
    text = f"{value:,}" if isinstance(value, Integral) else value
    if len(text) > VALUE:  # a kernel in many words
        return "\n".join(wrap(text, WIDTH, initial_indent=f"{label:<{LABEL}}", subsequent_indent=" " * LABEL))
    return f"{label:<{LABEL}}{text:>{VALUE}}  {remark if isinstance(remark, str) else remark(value)}".rstrip()


def _size(number: int) -> str:
    """Bytes in binary units: 1 KiB is 1024 bytes."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"


def _scaled(number: int) -> str:
    """A count in powers of ten."""
    return f"{number:.2e}".replace("e+0", "e+").replace("e+", " · 10^") if number >= 10**6 else ""


def _kept(n_tokens: int, window: int | None) -> int:
    return n_tokens if window is None else min(n_tokens, _count("window", window))


def _sum_of_rows(n: int, most: int) -> int:
    """1 + 2 + … + n, where no summand exceeds `most`: the allowed keys of n causal queries."""
    short = min(n, most)
    return short * (short + 1) // 2 + (n - short) * most


def _count(name: str, number: Any, least: int = 1) -> int:
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise TypeError(f"{name} must be a whole number, but it is {number!r}.")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, but it is {number}.")
    return int(number)  # a NumPy integer would overflow


def _name(dtype: Any) -> str:
    """The name of a dtype of NumPy or torch, or the name itself: torch.float8_e4m3fn is a float8."""
    name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    return "float8" if name.startswith("float8_") else name


def _bits(dtype: Any) -> int:
    name = _name(dtype)
    if name not in BITS:
        raise ValueError(f"dtype must be one of {', '.join(BITS)}, but it is {dtype!r}.")
    return BITS[name]
