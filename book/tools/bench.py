"""What the designs of chapter 5 cost on this machine, side by side: writes src/attnlab/data/bench.json (five minutes).

`make bench` runs this on an otherwise idle machine.  All functions of one size take turns in one process, A B C A B C,
so that what else the machine does meets them alike; of the times, the quartiles are kept.  Beside each time stand the
bytes that the call allocates, counted by `attnlab.efficient.meter`, and the operations that it needs, by formula.

    bench.py --lengths 1024 2048 --rounds 3 --out quick.json        a quick look
"""

import argparse
import datetime
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from records import DATA, write
from torch import Tensor

from attnlab import masks
from attnlab.efficient import grouped_attention, linear_attention, tiled_attention, window_attention
from attnlab.efficient.bench import judged
from attnlab.efficient.cost import attention_flops, kv_cache_bytes
from attnlab.efficient.meter import memory

RECORD = DATA / "bench.json"
LENGTHS, HEADS, D, WINDOW, CHUNK = (1024, 2048, 4096, 8192, 16384), (1, 8), 64, 128, 128
TILE, WINDOW_BLOCK = 256, 64  # queries that tiled and window take at once: faster here than their default of 128
DECODE = {"batch": 4, "heads": 32, "kv_heads": (32, 8, 4, 1), "length": 8192}
LARGEST_MATRIX = 2**30  # bytes: beyond, what builds n × n numbers is left out
SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 10.0, 5, 21  # for one size


class Call(NamedTuple):
    """One thing to measure.  `why_not` says why it is left out, if it is.  Inside of a library, bytes are not seen."""

    name: str
    run: Callable[[], object]
    operations: int
    is_seen: bool = True
    why_not: str = ""


# ----------------------------------------------------------------------------------------------------------- the calls


def naive(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Full attention as the formula says it: two n_q × n_k matrices in memory, scores and weights."""
    return torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1) @ value


def compiled_calls(is_wanted: bool) -> dict[str, Callable | str]:
    """torch.compile of `naive` and of flex_attention, each tried once; a string where it fails, or is not wanted."""
    from torch.nn.attention.flex_attention import flex_attention

    calls: dict[str, Callable | str] = {}
    for name, function in {"compiled": naive, "flex": flex_attention}.items():
        if not is_wanted:
            calls[name] = "left out: --without-compile"
            continue
        try:
            calls[name] = torch.compile(function)
            calls[name](*inputs(1, 1, 32))
        except Exception as error:  # no C++ compiler, or none that torch knows
            calls[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
    return calls


def inputs(batch: int, heads: int, n: int, n_q: int | None = None, kv_heads: int | None = None) -> list[Tensor]:
    torch.manual_seed(0)
    kv = (batch, kv_heads or heads, n, D)
    return [torch.randn(batch, heads, n_q or n, D), torch.randn(kv), torch.randn(kv)]


def calls_of(n: int, heads: int, compiled: dict[str, Callable | str]) -> list[Call]:
    """Everything over one sequence of n tokens."""
    qkv = inputs(1, heads, n)
    matrix = 4 * heads * n * n  # bytes
    too_large = f"a matrix of scores holds {matrix / 2**30:g} GiB" if matrix > LARGEST_MATRIX else ""
    mask = None if too_large else masks.window(n, WINDOW, like=qkv[0])
    sdpa = F.scaled_dot_product_attention

    def count(**which: object) -> int:
        return attention_flops(n, n, D, n_heads=heads, **which)

    def compile_of(name: str) -> Call:
        made = compiled[name]
        why_not = made if isinstance(made, str) else too_large if name == "compiled" else ""
        return Call(name, lambda: made(*qkv), count(), False, why_not)

    # S = Σ φ(k) vᵀ and φ(q)ᵀ S; causal, the pairs inside of each chunk besides.
    linear, in_chunks = 4 * n * D * D * heads, 4 * n * min(CHUNK, n) * D * heads
    return [
        Call("naive", lambda: naive(*qkv), count(), True, too_large),
        Call("tiled", lambda: tiled_attention(*qkv, block_q=TILE, block_k=TILE), count()),
        Call("SDPA", lambda: sdpa(*qkv), count(), False),
        compile_of("compiled"),
        compile_of("flex"),
        Call("linear", lambda: linear_attention(*qkv), linear),
        Call("SDPA, causal", lambda: sdpa(*qkv, is_causal=True), count(is_causal=True), False),
        # The mask hides scores that are computed all the same.
        Call("window by mask", lambda: sdpa(*qkv, attn_mask=mask), count(), False, too_large),
        Call("window", lambda: window_attention(*qkv, WINDOW, block=WINDOW_BLOCK), count(window=WINDOW)),
        Call("linear, causal", lambda: linear_attention(*qkv, is_causal=True, chunk=CHUNK), linear + in_chunks),
    ]


def decode_calls(batch: int, heads: int, kv_heads: tuple[int, ...], length: int) -> dict[int, list[Call]]:
    """One new token for each of several sequences, over a cache of `length` tokens, by the number of key heads."""

    def calls(n_kv: int) -> list[Call]:
        q, k, v = inputs(batch, heads, length, n_q=1, kv_heads=n_kv)
        group = heads // n_kv
        count = attention_flops(1, length, D, n_heads=heads, batch=batch)
        grouped = Call("grouped", lambda: grouped_attention(q, k, v), count)
        if group == 1:  # multi-head attention: nothing is shared
            return [grouped]
        repeat = lambda x: x.repeat_interleave(group, dim=1)  # noqa: E731
        return [grouped, Call("repeated", lambda: naive(q, repeat(k), repeat(v)), count)]

    return {n_kv: calls(n_kv) for n_kv in kv_heads}


# ----------------------------------------------------------------------------------------------------------- measuring


def measure(calls: list[Call], rounds: int | None = None) -> list[dict]:
    """A row for each call: quartiles of its times in milliseconds, bytes, operations."""
    present = [call for call in calls if not call.why_not]
    peaks = [first_run(call) for call in present]
    times: list[list[float]] = [[] for _ in present]
    while len(times[0]) < (rounds or wanted_rounds(times)):
        for call, seen in zip(present, times, strict=True):
            start = time.perf_counter()
            call.run()
            seen.append(1e3 * (time.perf_counter() - start))
    found = zip(times, peaks, strict=True)
    return [row(call, *(([], None) if call.why_not else next(found))) for call in calls]


def wanted_rounds(times: list[list[float]]) -> int:
    """As many as fit into the seconds of one size, going by the first round."""
    if not times[0]:
        return 1
    return min(max(int(SECONDS / (sum(seen[0] for seen in times) / 1e3)), LEAST_ROUNDS), MOST_ROUNDS)


def row(call: Call, times: list[float], peak: int | None) -> dict:
    quartiles = None
    if times:
        twice = times if len(times) > 1 else 2 * times  # of one time, all quartiles are that time
        quartiles = [float(f"{x:.4g}") for x in statistics.quantiles(twice, n=4, method="inclusive")]
    found = {"call": call.name, "ms": quartiles, "rounds": len(times)}
    return found | {"peak_bytes": peak, "operations": call.operations, "why_not": call.why_not}


def first_run(call: Call) -> int | None:
    """Warm up; and count the bytes, where they can be seen."""
    if not call.is_seen:
        call.run()
        return None
    return memory(lambda _: call.run(), torch.empty(0)).peak  # a tensor, by which it knows which library to watch


def cpu() -> str:
    """The model of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")  # Linux
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@torch.no_grad()
def run(
    *,
    lengths: tuple[int, ...] = LENGTHS,
    heads: tuple[int, ...] = HEADS,
    decode_length: int = DECODE["length"],
    threads: int = 2,
    rounds: int | None = None,
    compile: bool = True,
) -> dict:
    torch.set_num_threads(threads)
    started = time.perf_counter()
    compiled = compiled_calls(compile)
    rows, decode, shape = [], [], DECODE | {"length": decode_length}
    for n_heads in heads:
        for n in lengths:
            rows += [{"n": n, "heads": n_heads} | found for found in measure(calls_of(n, n_heads, compiled), rounds)]
            print(f"heads {n_heads}, n {n}: {time.perf_counter() - started:.0f} s", flush=True)
    by_kv_heads = decode_calls(**shape)
    measured = iter(measure([call for calls in by_kv_heads.values() for call in calls], rounds))
    for n_kv, calls in by_kv_heads.items():
        size = kv_cache_bytes(
            n_layers=1, n_kv_heads=n_kv, d_head=D, n_tokens=decode_length, batch=shape["batch"], dtype="float32"
        )
        decode += [{"kv_heads": n_kv, "cache_bytes": size} | next(measured) for _ in calls]
    print(f"decode: {time.perf_counter() - started:.0f} s")
    record = {
        "machine": {
            "cpu": cpu(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version(), "torch": version("torch").split("+")[0]},
        "date": datetime.date.today().isoformat(),
        "dtype": "float32",
        "d_head": D,
        "window": WINDOW,
        "tile": TILE,
        "window_block": WINDOW_BLOCK,
        "lengths": list(lengths),
        "heads": list(heads),
        "rows": rows,
        "decode": shape,
        "decode_rows": decode,
    }
    return record | {"goals": judged(record), "seconds": round(time.perf_counter() - started)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--heads", type=int, nargs="+", default=HEADS)
    parser.add_argument("--decode-length", type=int, default=DECODE["length"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help=f"default: {LEAST_ROUNDS} to {MOST_ROUNDS}, by the time they take")
    parser.add_argument("--without-compile", dest="compile", action="store_false", help="torch.compile takes a minute")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = vars(parser.parse_args(arguments))
    out = options.pop("out")
    write(out, run(**options))
    print(f"{out.name} is written.")


if __name__ == "__main__":
    main()
