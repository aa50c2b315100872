"""SmolLM2 with a cache, a window, fewer heads: writes src/attnlab/data/smollm2.json (ten minutes on one core).

Each part says in `what` what was measured.  `python book/tools/smollm2_measures.py decoding` measures that part anew
and leaves the others as they are.  The functions with which a reader computes a part again are in
`attnlab.models.smollm2_measures`.
"""

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import process_time

import torch
from records import DATA, write

from attnlab import core
from attnlab.core import Attended
from attnlab.efficient import cost, repeat_kv
from attnlab.models import smollm2, snippets
from attnlab.models.smollm2_measures import by_block, operations_of_a_step, passages, weight_on_first, windowed

RECORD = DATA / "smollm2.json"
LENGTHS = (50, 100, 200, 400)
N_NEW = 40
WINDOW, N_SINKS = 256, 4
N_PASSAGES = 4


def seconds(repeats, run):
    """The median of the processor time, so that whoever else uses the machine counts less."""
    found = []
    for _ in range(repeats):
        start = process_time()
        run()
        found.append(process_time() - start)
    return round(median(found), 4)


def decoding(model):
    ids = passages(model, 1, max(LENGTHS))
    rows = []
    for n in LENGTHS:
        cache = model.new_cache()
        model(ids[:, : n - 1], cache, last=True)
        step = model(ids[:, n - 1 : n], cache)
        held = sum(one.nbytes for one in cache)
        # Each further step makes the cache longer by one: n stands for n to n + 4.
        cached = seconds(5, lambda cache=cache, n=n: model(ids[:, n - 1 : n], cache))
        sizes = {"n_layers": smollm2.N_LAYERS, "d_head": smollm2.D_HEAD, "n_tokens": n, "dtype": "float32"}
        rows.append(
            {
                "n": n,
                "difference": float(f"{(step - model(ids[:, :n], last=True)).abs().max():.1e}"),
                "operations": {
                    "cache": operations_of_a_step(model, ids[:, :n], use_cache=True),
                    "none": operations_of_a_step(model, ids[:, :n], use_cache=False),
                },
                "seconds": {"cache": cached, "none": seconds(3, lambda n=n: model(ids[:, :n], last=True))},
                "bytes": {
                    "held": held,
                    "formula": cost.kv_cache_bytes(n_kv_heads=smollm2.N_KV_HEADS, **sizes),
                    "as_mha": cost.kv_cache_bytes(n_kv_heads=smollm2.N_HEADS, **sizes),
                },
            }
        )
        print(rows[-1], flush=True)
    first = ids[:, : LENGTHS[0]]
    with_cache, without = (model.generate(first, N_NEW, use_cache=use) for use in (True, False))
    return {
        "what": "one step: the logits of the next token after n, with the keys and values of n - 1 in a cache, and "
        "with none; the largest difference of a logit; operations of the matrix products; median processor seconds on "
        "one thread; bytes of the cache, by the formula, and of one for 9 heads",
        "steps": rows,
        "greedy": {"after": LENGTHS[0], "new": N_NEW, "same": (with_cache == without).sum().item()},
        "machine": machine(),
    }


def machine():
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        if line.startswith("model name")
    ]
    return {"processor": names[0] if names else platform.machine(), "system": platform.system(), "threads": 1}


class PositionsInCache:
    """grouped_attention as in StreamingLLM: for a query, the sinks lie right in front of its window.

    Distances within the window stay.  A query at position p > 255 has 255 keys before it, sinks included: it meets them
    as one at position 255 would, so it is turned back by p − 255.
    """

    def __call__(self, query, key, value, mask, *, is_causal):
        n, n_k = query.shape[-2], key.shape[-2]
        positions = torch.arange(n_k - n, n_k)
        cos, sin = smollm2.turns(torch.clamp(positions - (WINDOW - 1), min=0))
        near = smollm2.rotate(query, cos, -sin)
        key, value = (repeat_kv(x, smollm2.N_HEADS // smollm2.N_KV_HEADS) for x in (key, value))
        scores = core.scaled_dot(query, key)
        scores[..., :N_SINKS] = core.scaled_dot(near, key[..., :N_SINKS, :])
        return Attended(*core.attend(scores, value, mask))


def sinks(model):
    ids = passages(model, N_PASSAGES, 1536)
    n = ids.shape[1]
    ways = {
        "all": None,
        "window": windowed(n, WINDOW),
        "sinks": windowed(n, WINDOW - N_SINKS, range(N_SINKS)),
        "others": windowed(n, WINDOW - N_SINKS, range(10, 10 + N_SINKS)),
    }
    found = {name: losses_of(model, ids, mask) for name, mask in ways.items()}
    own, smollm2.grouped_attention = smollm2.grouped_attention, PositionsInCache()
    try:
        found["sinks_moved"] = losses_of(model, ids, ways["sinks"])
    finally:
        smollm2.grouped_attention = own
    return {
        "what": "mean loss of passages of 1536 tokens, each in blocks of 128 positions: all keys; a window of 256; 4 "
        "first tokens and a window of 252; tokens 10 to 13 and 252; and the 4 with positions counted inside of the "
        "cache, as StreamingLLM does",
        "window": WINDOW,
        "n_sinks": N_SINKS,
        "block": 128,
        "losses": found,
    }


def losses_of(model, ids, mask):
    rows = [by_block(model.losses(row[None], mask=mask))[0] for row in ids]
    print([[round(x, 2) for x in row.tolist()] for row in rows], flush=True)
    return [[round(x, 4) for x in row.tolist()] for row in rows]


def heads(model):
    ids = passages(model, N_PASSAGES, 384)
    others = {"mean": model.with_kv_heads(1)} | {f"head_{i}": model.with_kv_heads(1, i) for i in range(3)}
    found = {}
    for name, other in ({"as_trained": model} | others).items():
        found[name] = [round(other.losses(row[None]).mean().item(), 4) for row in ids]
        print(name, found[name], flush=True)
    return {
        "what": "mean loss of four passages of 384 tokens: with 3 key and value heads; with 1, their mean; with 1 of "
        "them for all; nothing is trained afterwards",
        "losses": found,
    }


def first(model):
    ids = passages(model, N_PASSAGES, 384)
    found = torch.stack([weight_on_first(model, row[None]) for row in ids])  # (4, 30, 9)
    above = (found > 0.5).sum(dim=(1, 2)).tolist()
    print("heads with more than half their weight on the first token:", above, flush=True)
    return {
        "what": "mean weight that the queries after the first token give to it, layer by head, over four passages of "
        "384 tokens; and how many of the 270 heads give it more than half, in each passage",
        "above_half": above,
        "weight": [[round(x, 4) for x in row] for row in found.mean(dim=0).tolist()],
    }


PARTS = {"decoding": decoding, "sinks": sinks, "heads": heads, "first": first}


def main(names):
    torch.set_num_threads(1)
    model = smollm2.load()
    record = json.loads(RECORD.read_text("utf-8")) if names else {}
    record |= {
        "model": {"name": "SmolLM2-135M-Instruct", "sha256": smollm2.SHA256},
        "texts_sha256": snippets.SHA256["amazon"],
        "versions": {name: version(name).split("+")[0] for name in ("gguf", "numpy", "tokenizers", "torch")},
    }
    for name in names or PARTS:
        record[name] = PARTS[name](model)
        write(RECORD, record)


if __name__ == "__main__":
    main(sys.argv[1:])
