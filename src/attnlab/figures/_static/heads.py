"""The still of `heads`, and the numbers behind it: those of `heads.js`, one for one."""

import json
from base64 import b64decode
from functools import cache
from html import escape, unescape
from importlib.resources import files
from math import log, sqrt

from .drawing import LIVE, Static, heading, number

LAYERS, HEADS, QUERY = 6, 12, 3


@cache
def sentences():
    """[{"tokens": […], "weights": base64}, …]: the weights are bytes, round(255·w), (layer, head, query, key)."""
    source = files("attnlab").joinpath("data", "minilm_heads.json").read_text(encoding="utf-8")
    return json.loads(source)["sentences"]


@cache
def heads_attribute():
    """The sentences as an attribute of the element: neither a script nor a tag of its own."""
    return f' data-heads="{escape(json.dumps(sentences(), separators=(",", ":")))}"'


@cache
def numbers(sentence):
    """For each of the 72 heads its weights, a row for each query, and what is measured of them."""
    tokens, stored = sentences()[sentence]["tokens"], b64decode(sentences()[sentence]["weights"])
    n = len(tokens)
    rows = [[w / 255 for w in stored[start : start + n]] for start in range(0, len(stored), n)]
    heads = [rows[start : start + n] for start in range(0, len(rows), n)]
    return heads, [measure(head) for head in heads], measure([[1 / n] * n] * n)


def measure(rows):
    """Means over the queries of one head; the weights of query i are rows[i]."""
    n = len(rows)
    return {
        "previous token": sum(rows[i][i - 1] for i in range(1, n)) / (n - 1),
        "itself": sum(rows[i][i] for i in range(n)) / n,
        "next token": sum(rows[i][i + 1] for i in range(n - 1)) / (n - 1),
        "[CLS] or [SEP]": sum(row[0] + row[-1] for row in rows) / n,
        "entropy, nats": sum(-w * log(w) for row in rows for w in row if w) / n,
    }


def heads(layer, head, sentence):
    tokens, here, n = sentences()[sentence]["tokens"], HEADS * layer + head, len(sentences()[sentence]["tokens"])
    everywhere, found, uniform = numbers(sentence)
    weights, words = everywhere[here], [escape(token) for token in tokens]
    table = {
        m: [number(x, 2) for x in (found[here][m], sum(one[m] for one in found) / len(found), uniform[m])]
        for m in uniform
    }
    looks = [number(w, 2) for w in weights[QUERY]]

    size, left, top, shades = 248 / n, 84, 102, {}
    for i, row in enumerate(weights):
        for j, w in enumerate(row):
            if shade := round(20 * sqrt(w)):  # one path for each of 20 shades
                cell = f"M{left + size * j:.1f} {top + size * i:.1f}h{size:.1f}v{size:.1f}h-{size:.1f}z"
                shades[shade] = shades.get(shade, "") + cell
    shapes = "<style>.c path{fill:var(--k1);stroke:none}</style><g class='c'>"
    shapes += "".join(f"<path d='{cells}' opacity='{shade / 20:g}'/>" for shade, cells in sorted(shades.items()))
    shapes += f"</g><path class='grid' d='M{left} {top}h248v248h-248z'/>"
    shapes += heading(16, "weights of", f"layer {layer}, head {head}")
    shapes += _text(16, 82, "keys →", "dim") + _text(16, 97, "queries ↓", "dim")
    for i, word in enumerate(words):
        x, y = left + size * (i + 0.5) + 4, top + size * (i + 0.5) + 4
        shapes += _text(left - 5, y, word, "dim e" if i != QUERY else "b e")
        shapes += f"<g transform='rotate(-90 {x:.1f} {top - 5})'>{_text(x, top - 5, word, 'dim')}</g>"
    for j, name in enumerate(("this head", "mean of 72", "uniform")):
        shapes += _text(496 + 66 * j, 46, name, "dim e")
    shapes += _text(356, 46, "mean weight on", "dim")
    for i, (m, values) in enumerate(table.items()):
        shapes += _text(356, 70 + 22 * i, m)
        shapes += "".join(_text(496 + 66 * j, 70 + 22 * i, x, "e" + " b k1" * (not j)) for j, x in enumerate(values))
    shapes += _text(356, 208, f"query {words[QUERY]} looks at", "b")
    for i, (word, w) in enumerate(zip(words, looks, strict=True)):
        x, y = 356 + 140 * (i // 6), 234 + 21 * (i % 6)
        shapes += _text(x, y, word) + _text(x + 112, y, w, "e b")

    facts = "; ".join(f"{m} {a} ({b}; {c})" for m, (a, b, c) in table.items())
    where = f"Layer {layer}, head {head} of all-MiniLM-L6-v2 on “{' '.join(words[1:-1])}”"
    facts = f"Mean weight on (in brackets: mean of the 72 heads; uniform weights): {facts}."
    caption = (
        f"{where}. {facts} Previous and next: over the queries that have one. Weights of one forward pass, in steps of "
        "1/255; depth of colour is √weight. Not shown: values and W_o, so a large weight need not move anything. 72 "
        f"pictures invite picking; a name for a head is a hypothesis. {LIVE}"
    )
    text = f"attn-heads   layer {layer}, head {head} of all-MiniLM-L6-v2: {' '.join(tokens)}"
    text += f"\n  {'mean weight on':<18}{'this head':>11}{'mean of 72':>12}{'uniform':>9}"
    text += "".join(f"\n  {m:<18}{a:>11}{b:>12}{c:>9}" for m, (a, b, c) in table.items())
    pairs = [f"{token} {w}" for token, w in zip(tokens, looks, strict=True)]
    text += f"\n  query {tokens[QUERY]} looks at {', '.join(pairs[:6])},\n    {', '.join(pairs[6:])}"
    alt = f"A square of weights, queries down, keys across. {unescape(where)}. {facts}"
    return Static(shapes, 366, alt, caption, text)


def _text(x, y, text, kind=""):
    return f"<text x='{x:.5g}' y='{y:.5g}' class='{kind}'>{text}</text>"
