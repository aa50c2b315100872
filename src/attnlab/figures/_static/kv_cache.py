"""The still of `kv_cache`, and the tables behind it: real models and real cards."""

import json
from functools import cache
from html import escape
from math import log2

from .drawing import LIVE, Static, heading

# Layers, query heads, key/value heads, head dimension, window (0: none), context.  These are the numbers of
# attnlab.efficient.cost.MODELS, where their sources stand: figures import nothing of the other rooms, so a test
# compares the two.
MODELS = {
    "GPT-2 small": (12, 12, 12, 64, 0, 1024),
    "SmolLM2-135M": (30, 9, 3, 64, 0, 8192),
    "Falcon-7B": (32, 71, 1, 64, 0, 2048),
    "Gemma-7B": (28, 16, 16, 256, 0, 8192),
    "Mistral-7B": (32, 32, 8, 128, 4096, 32768),
    "Llama-2-7B": (32, 32, 32, 128, 0, 4096),
    "Llama-2-70B": (80, 64, 8, 128, 0, 4096),
    "Llama-3-8B": (32, 32, 8, 128, 0, 131072),
    "Llama-3-70B": (80, 64, 8, 128, 0, 131072),
}
# What a card is sold as, who has it, and the MiB that its driver reports (nvidia-smi).  An A100 of 80 GB reports 81920:
# the smaller of the two stands for both.  The laptop or phone has 8 GiB, of which its system takes a part.
CARDS = (
    ("8 GB", "laptop", 8192),
    ("24 GB", "RTX 4090", 24564),
    ("80 GB", "A100, H100", 81559),
    ("141 GB", "H200", 143771),
)
BITS = {"int4": 4, "int8": 8, "float16": 16, "float32": 32}
KINDS = ("as it is", "as MHA", "as MQA")
FROM, TO = 24, 42  # the axis, 2^24 to 2^42 bytes


@cache
def tables_attribute():
    """The tables as an attribute of the element."""
    tables = json.dumps({"models": MODELS, "cards": CARDS}, separators=(",", ":"))
    return f' data-tables="{escape(tables)}"'


def numbers(model, context, batch, dtype, n_kv_heads):
    """{kind: (heads, bytes a token, bytes in all, first power-of-two context that fits no more, by card)}."""
    layers, n_heads, _, d, window, _ = MODELS[model]
    found = {}
    for kind, heads in zip(KINDS, (n_kv_heads, n_heads, 1), strict=True):
        token = 2 * layers * heads * d * BITS[dtype] // 8
        limits = [_first_too_long(token * batch, window, mib * 2**20) for _, _, mib in CARDS]
        found[kind] = heads, token, token * batch * min(context, window or context), limits
    return found


def _first_too_long(bytes_a_token, window, room):
    if window and bytes_a_token * window <= room:
        return None
    context = 1
    while bytes_a_token * context <= room:
        context *= 2
    return context


def kv_cache(model, context, batch, dtype, n_kv_heads):
    layers, n_heads, _, d, window, _ = MODELS[model]
    found = numbers(model, context, batch, dtype, n_kv_heads)
    _, token, whole, limits = found["as it is"]
    kept = min(context, window or context)
    width = "½" if dtype == "int4" else BITS[dtype] // 8
    product = f"2 · {layers} layers · {n_kv_heads} KV heads · {d} dimensions · {kept:,} tokens · batch {batch:,} · "
    product += f"{width} bytes = {whole:,} bytes = {size(whole)}"

    def place(number):
        return 150 + 450 * min(max((log2(number) - FROM) / (TO - FROM), 0), 1)

    shapes = heading(16, f"{model}, {n_heads} query heads, {dtype}, context {context:,}, batch {batch:,}", "")
    for number in (30, 40):
        shapes += f"<text x='{place(2**number):.1f}' y='206' class='dim m'>{size(2**number)}</text>"
    for row, (kind, (heads, _, total, _)) in enumerate(found.items()):
        y, end = 74 + 40 * row, place(total)
        shapes += f"<text x='16' y='{y + 7}' class='dim'>{kind}: {heads} KV</text>"
        shapes += f"<text x='16' y='{y + 24}' class='b'>{size(total)}</text>"
        shapes += f"<path class='grid' d='M150 {y + 22}H600'/>"
        if row < 2:
            fill = ("k1", "hatch")[row]
            shapes += f"<rect x='150' y='{y + 4}' width='{end - 150:.1f}' height='18' class='{fill}'/>"
        shapes += f"<path d='M150 {y + 4}H{end:.1f}v18H150z'/>" * (row > 0)
    for card, (sold, _, mib) in enumerate(CARDS):
        x = place(mib * 2**20)
        anchor, dx = ("dim e", -3) if card < 2 else ("dim", 3)
        shapes += f"<path class='dots' d='M{x:.1f} 64V192'/>"
        shapes += f"<text x='{x + dx:.1f}' y='{50 + 14 * (card % 2)}' class='{anchor}'>{sold}</text>"
    for card, (sold, names, _) in enumerate(CARDS):
        x = 300 + 100 * card
        shapes += f"<text x='{x}' y='234' class='b e'>{sold}</text><text x='{x}' y='248' class='dim e'>{names}</text>"
        for row, (*_, firsts) in enumerate(found.values()):
            shapes += f"<text x='{x}' y='{268 + 18 * row}' class='e'>{tokens(firsts[card])}</text>"
    for y, words in ((234, "first power of two"), (248, "that does not fit")):
        shapes += f"<text x='16' y='{y}' class='dim'>{words}</text>"
    shapes += "".join(f"<text x='16' y='{268 + 18 * row}'>{kind}</text>" for row, kind in enumerate(KINDS))

    others = " and ".join(f"{size(found[kind][2])} {kind} ({found[kind][0]} KV heads)" for kind in KINDS[1:])
    firsts = ", ".join(f"{tokens(first)} on {card[0]} ({card[1]})" for first, card in zip(limits, CARDS, strict=True))
    facts = (
        f"{product}; {others}. A token of one sequence: {size(token)}. First power of two that does not fit: {firsts}."
    )
    where = f"The cache of {model}" + f", of which a window keeps the last {window:,} tokens" * bool(window)
    caption = (
        f"{where}: {facts} The {n_heads} query heads are no factor. Logarithmic axis; 1 KiB is 1024 bytes, 1 Ki 1024 "
        f"tokens. Cards hold {', '.join(f'{mib / 1024:.4g}' for _, _, mib in CARDS)} GiB, as drivers report. Not "
        "counted: weights, activations, the system. What fewer KV heads or a window cost in quality, no byte tells. "
        f"{LIVE}"
    )
    text = f"attn-kv-cache   {model}, context {context:,}, batch {batch:,}, {dtype}\n  {product}"
    text += f"\n  {'first power of two that does not fit':<42}" + "".join(f"{card[0]:>9}" for card in CARDS)
    for kind, (heads, token, total, firsts) in found.items():
        row = f"{kind}: {heads} KV, {size(token)} a token, {size(total)}"
        text += f"\n  {row:<42}" + "".join(f"{tokens(first):>9}" for first in firsts)
    alt = f"Three bars on a logarithmic axis of bytes, against the memory of four cards. {where}: {facts}"
    return Static(shapes, 318, alt, caption, text)


def _binary(number, units, digits):
    k = min(int(log2(max(number, 1)) // 10), len(units) - 1)
    return f"{number / 1024**k:.{digits}g}{units[k]}"


def size(number):
    """Bytes in binary units."""
    return _binary(number, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"), 4)


def tokens(number):
    return "none" if number is None else _binary(number, ("", " Ki", " Mi", " Gi", " Ti"), 9)
