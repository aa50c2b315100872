"""The still of `rankings`, and the numbers behind it: those of `rankings.js`, one for one."""

import json
from functools import cache
from html import escape
from importlib.resources import files
from math import ceil, log10

from .drawing import LIVE, Static, heading, number, sigma

RANKED = {"bilstm": "BiLSTM", "no context": "model without context"}
JUDGE = "leave-one-out"


@cache
def stored():
    """{"tokens": [[…], …], "models": {kind: [{"logit": …, "without": […], "rankings": {name: […]}}, …]}}"""
    return json.loads(files("attnlab").joinpath("data", "rankings.json").read_text(encoding="utf-8"))


def tokens(sentence):
    return stored()["tokens"][sentence]


@cache
def rankings_attribute():
    """The stored numbers as an attribute of the element."""
    return f' data-rankings="{escape(json.dumps(stored(), separators=(",", ":")))}"'


def agreement(a, b):
    """Kendall's τ of two rankings, in which no two shares are equal."""
    pairs = [(a[i] - a[j]) * (b[i] - b[j]) for i in range(len(a)) for j in range(i)]
    return sum(1 if product > 0 else -1 for product in pairs) / len(pairs)


def chance(logit):
    """p in percent, never 0 and never 100: as many digits as the smaller of p and 1 − p needs for one or two."""
    return number(100 * sigma(logit), ceil(-log10(sigma(-abs(logit)))) - 1) + "\xa0%"


def rankings(sentence, token, model):
    words, found = tokens(sentence), stored()["models"][model][sentence]
    table, logit = found["rankings"], found["logit"]
    now = found["without"][token - 1] if token else logit
    first = {name: max(range(len(words)), key=lambda i: shares[i]) for name, shares in table.items()}
    taus = {name: number(agreement(shares, table[JUDGE]), 2) for name, shares in table.items() if name != JUDGE}
    said = f"p(good) = {chance(now)}" + (f" without “{words[token - 1]}”" if token else " with all words")
    if token:
        said += f", {chance(logit)} with it"

    shapes = heading(16, f"{RANKED[model]}: “{' '.join(words)}”", said)
    columns = {name: 170 + 89 * k for k, name in enumerate(table)}
    for name, x in columns.items():
        shapes += f"<text x='{x}' y='74' class='dim e'>{name}</text>"
    shapes += "<text x='16' y='74' class='dim'>share in %</text>"
    for i, word in enumerate(words):
        y = 98 + 24 * i
        shapes += f"<text x='16' y='{y}' class='{'b' * (i + 1 == token)}'>{'✕ ' * (i + 1 == token)}{word}</text>"
        for name, x in columns.items():
            share = table[name][i]
            shapes += f"<rect x='{x - 76}' y='{y - 8}' width='{76 * share:.1f}' height='7' class='k1'/>"
            star = "★ " * (i == first[name])
            shapes += f"<text x='{x}' y='{y}' class='e {'b' * bool(star)}'>{star}{number(100 * share, 0)}</text>"
    y = 106 + 24 * len(words)
    shapes += f"<text x='16' y='{y}' class='dim'>τ with {JUDGE}</text>"
    for name, x in columns.items():
        shapes += f"<text x='{x}' y='{y}' class='b e'>{taus.get(name, '–')}</text>"

    facts = ", ".join(f"{name} “{words[i]}”" for name, i in first.items())
    agree = ", ".join(f"{name} {tau}" for name, tau in taus.items())
    caption = (
        f"“{' '.join(words)}”, read by a trained {RANKED[model]}: {said}. Share: a score divided by the sum of its "
        f"column. First in each ranking: {facts}. Kendall’s τ with {JUDGE}: {agree}. One model of each kind, four "
        f"sentences of ours: too few for a rule. {LIVE}"
    )
    text = f"attn-rankings   {RANKED[model]}: {' '.join(words)}\n  {said}\n  {'share in %':<14}"
    text += "".join(f"{name:>18}" for name in table)
    for i, word in enumerate(words):
        cells = (f"{'* ' * (i == first[name])}{number(100 * shares[i], 0)}" for name, shares in table.items())
        text += f"\n  {word:<14}" + "".join(f"{cell:>18}" for cell in cells)
    text += f"\n  {'τ':<14}" + "".join(f"{taus.get(name, '–'):>18}" for name in table)
    alt = f"A table of six rankings of the words of “{' '.join(words)}”. {said}. First: {facts}."
    return Static(shapes, y + 18, alt, caption, text)
