"""The live figures: one JavaScript file each, and this thin wrapper.

>>> from attnlab import figures
>>> figures.mixture()            # in a notebook the last line of a cell draws it; a terminal prints its numbers

A figure's HTML carries its whole script (each Colab output is a frame of its own) and, inside the element, a picture
and a caption with the same numbers: what a page without scripts, an untrusted notebook and GitHub show instead.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from attnlab.figures import _static
from attnlab.figures._script import lean

__all__ = [
    "NAMES",
    "Figure",
    "heads",
    "kv_cache",
    "masking",
    "mixture",
    "null_space",
    "online_softmax",
    "rankings",
    "saturation",
    "scoring",
    "script",
    "sharpness",
    "split_merge",
]

NAMES = (
    "mixture",
    "sharpness",
    "saturation",
    "masking",
    "scoring",
    "split_merge",
    "heads",
    "kv_cache",
    "online_softmax",
    "null_space",
    "rankings",
)
PLOTTED = ("mixture", "sharpness", "saturation", "scoring")  # those with axes
DRAGGED = ("mixture", "scoring")  # those with a query that is dragged over a plane


def tag(name):
    """The name of a figure as an element: `attn-` and the name, with hyphens."""
    return f"attn-{name.replace('_', '-')}"


@cache
def script(name):
    """The JavaScript of a figure: one IIFE that defines its element, at most once a page."""
    if name not in NAMES:
        raise ValueError(f"no figure {name!r}: there are {', '.join(NAMES)}")
    parts = ["_base.js", *["_plot.js"] * (name in PLOTTED), *["_query.js"] * (name in DRAGGED), f"{name}.js"]
    source = "".join(files(__package__).joinpath(part).read_text(encoding="utf-8") for part in parts)
    return f"(() => {{\n'use strict';\nif (customElements.get('{tag(name)}')) return;\n{lean(source)}}})();\n"


@dataclass(frozen=True, repr=False)
class Figure:
    """A live figure. Notebooks show it by `_repr_html_`; `print` gives its numbers."""

    name: str
    attributes: str
    static: _static.Static

    def _repr_html_(self):
        name = tag(self.name)
        # Sanitizers drop the script, the unknown tag and any inline SVG; an <img> and a caption pass them.
        return (
            f"<script>{script(self.name)}</script>\n"
            f'<{name}{self.attributes} data-lm-suppress-shortcuts="true"><figure style="margin:0">{self.static.image()}'
            f"<figcaption>{self.static.caption}</figcaption></figure></{name}>"
        )

    def __repr__(self):
        return self.static.text


def heads(layer=0, head=2, sentence=0):
    """The 6 × 12 heads of a real model, all-MiniLM-L6-v2, on three sentences: one forward pass each, stored.

    Weights on the previous, the same and the next token and on [CLS] and [SEP], beside the mean of all heads and
    uniform weights.  The default is the head that looks at the previous token.
    layer: 0 to 5.  head: 0 to 11.  sentence: 0 to 2.
    """
    for name, value, most in (("layer", layer, 5), ("head", head, 11), ("sentence", sentence, 2)):
        _check(name, value, 0, most)
        if value != int(value):
            raise ValueError(f"{name} = {value}: must be a whole number")
    layer, head, sentence = int(layer), int(head), int(sentence)
    attributes = _attributes(layer=(layer, 0), head=(head, 2)) + f' sentence="{sentence}"' * (sentence != 0)
    return Figure("heads", attributes + _static.heads_attribute(), _static.heads(layer, head, sentence))


def kv_cache(model="Llama-3-70B", context=None, batch=1, dtype="float16", n_kv_heads=None):
    """Bytes of a key-value cache, as it is, as MHA and as MQA, against the memory of real cards.

    model: a name of the list in the figure: "GPT-2 small", "SmolLM2-135M", "Falcon-7B", "Gemma-7B", "Mistral-7B",
    "Llama-2-7B", "Llama-2-70B", "Llama-3-8B", "Llama-3-70B".
    context: tokens, a power of two from 128 to 1048576; default: the model's.  batch: a power of two, 1 to 1024.
    dtype: "float32", "float16" (bfloat16 has the same bytes), "int8" (so has float8) or "int4".
    n_kv_heads: a divisor of the model's query heads; default: the model's.
    """
    if not isinstance(model, str) or model not in _static.MODELS:
        raise ValueError(f"model = {model!r}: must be one of {', '.join(_static.MODELS)}")
    if not isinstance(dtype, str) or dtype not in _static.BITS:
        raise ValueError(f"dtype = {dtype!r}: must be one of {', '.join(_static.BITS)}")
    layers, heads, kv, d, window, longest = _static.MODELS[model]
    context, kv = longest if context is None else context, kv if n_kv_heads is None else n_kv_heads
    _check("context", context, 128, 2**20)
    _check("batch", batch, 1, 1024)
    for name, value in (("context", context), ("batch", batch)):
        if value not in [2**power for power in range(21)]:
            raise ValueError(f"{name} = {value}: must be a power of two")
    if kv not in (divisors := [n for n in range(1, heads + 1) if heads % n == 0]):
        raise ValueError(f"n_kv_heads = {kv}: must divide the {heads} query heads: {', '.join(map(str, divisors))}")
    context, batch, kv = int(context), int(batch), int(kv)
    power = {
        "window": (window.bit_length() - 1 if window else 18, 18),  # 18: none
        "context": (context.bit_length() - 1, 17),
        "batch": (batch.bit_length() - 1, 0),
        "dtype": (_static.BITS[dtype].bit_length() - 1, 4),
    }
    attributes = _attributes(heads=(heads, 64), share=(divisors.index(kv), 3), d=(d, 128), layers=(layers, 80), **power)
    still = _static.kv_cache(model, context, batch, dtype, kv)
    return Figure("kv_cache", attributes + _static.tables_attribute(), still)


def masking(preset="causal", mask=None, equal=False):
    """A mask painted on a grid of five queries and five keys: weights and outputs follow.

    preset: "none", "causal", "padding" (of the last two keys), "window" (2 keys, the query's own included), "block"
    (2 and 3 positions), or "off by one" (causal with the diagonal blocked: a bug, and an empty row).
    mask: (5, 5), boolean, True = may attend; an array, a tensor or nested lists, in place of the preset.
    equal: whether all scores are equal.
    """
    if not isinstance(preset, str) or preset not in _static.PRESETS:
        raise ValueError(f"preset = {preset!r}: must be one of {', '.join(_static.PRESETS)}; an array goes to mask=")
    attributes = f' preset="{preset}"' * (preset != "causal")
    digits = _static.PRESETS[preset]
    if mask is not None:
        digits = _digits(mask)
        attributes = f' mask="{digits}"'
    return Figure("masking", attributes + " equal" * bool(equal), _static.masking(digits, bool(equal)))


def mixture(q1=1, q2=0):
    """One query, two keys, two values: drag the query, and the output slides between the values.

    The example of chapter 1: k₁ = [1, 0], k₂ = [0, 1], v₁ = [2, 0], v₂ = [0, 4], scores divided by √2.
    q1, q2: components of the query at the start, from −3 to 3.
    """
    _check("q1", q1, -3, 3)
    _check("q2", q2, -3, 3)
    return Figure("mixture", _attributes(q1=(q1, 1), q2=(q2, 0)), _static.mixture(q1, q2))


def null_space(values="different", weights=(0.2, 0.6, 0.2)):
    """One query, three keys whose values are numbers: in the triangle of all weights, the line of equal output.

    Along it the weights move far and the output stays; across it the output moves.
    values: "different" (1, 2, 4), "two equal" (1, 4, 4), "all equal" (3, 3, 3) or "sink" (−2, 0, 2).
    weights: three, from 0 to 1, of sum 1: where the dot starts, and what it is compared with.
    """
    if not isinstance(values, str) or values not in _static.VALUES:
        raise ValueError(f"values = {values!r}: must be one of {', '.join(_static.VALUES)}")
    weights = tuple(float(w) for w in weights)
    if len(weights) != 3 or not all(0 <= w <= 1 for w in weights) or abs(sum(weights) - 1) > 1e-6:
        raise ValueError(f"weights = {weights}: must be three numbers from 0 to 1 whose sum is 1")
    attributes = f' values="{values}"' * (values != "different")
    if weights != (0.2, 0.6, 0.2):
        attributes += f' data-weights="{" ".join(map(repr, weights))}"'
    return Figure("null_space", attributes, _static.null_space(values, weights))


def online_softmax(scores="text", tile=2, read=2, forget=False):
    """Softmax over six keys that are read in tiles: m, ℓ and o after each, beside softmax over all that was read.

    scores: "text" (1, 3, 2, 0, 5, 1), "rising", "falling" or "masked" (as in the text, the first two masked).
    The value of key j is j.  tile: keys in a tile, 1 to 6.  read: the tiles up to that of this key are read, 0 to 6.
    forget: whether the factor that rescales the old sums is left out.
    """
    if not isinstance(scores, str) or scores not in _static.SETS:
        raise ValueError(f"scores = {scores!r}: must be one of {', '.join(_static.SETS)}")
    for name, value, low in (("tile", tile, 1), ("read", read, 0)):
        _check(name, value, low, 6)
        if value != int(value):
            raise ValueError(f"{name} = {value}: must be a whole number")
    tile, read, forget = int(tile), int(read), bool(forget)
    attributes = f' scores="{scores}"' * (scores != "text") + _attributes(tile=(tile, 2), read=(read, 2))
    return Figure("online_softmax", attributes + " forget" * forget, _static.online_softmax(scores, tile, read, forget))


def rankings(sentence=0, token=0, model="bilstm"):
    """Six rankings of the words of a review, side by side, and what a trained model says without one of the words.

    The sentences are the course's own; the scores of the models are stored.  Below each ranking stands its Kendall τ
    with leave-one-out.
    sentence: 0 to 3.  token: the word that is removed, counted from 1; 0 removes none.
    model: "bilstm", whose states know their neighbours, or "no context".
    """
    if not isinstance(model, str) or model not in _static.RANKED:
        raise ValueError(f"model = {model!r}: must be one of {', '.join(_static.RANKED)}")
    _check("sentence", sentence, 0, 3)
    for name, value in (("sentence", sentence), ("token", token)):
        if value != int(value):
            raise ValueError(f"{name} = {value}: must be a whole number")
    sentence, token = int(sentence), int(token)
    _check("token", token, 0, len(_static.tokens(sentence)))
    attributes = _attributes(token=(token, 0)) + f' sentence="{sentence}"' * (sentence != 0)
    attributes += f' model="{model}"' * (model != "bilstm") + _static.rankings_attribute()
    return Figure("rankings", attributes, _static.rankings(sentence, token, model))


def saturation(d=64, draw=7):
    """Why scores are divided by √d: the weights of one query over 16 keys, unscaled beside scaled, as d grows.

    The coordinates are independent, uniform on ±√3 (mean 0, variance 1), and the same on every machine.
    d: number of coordinates, a power of two from 1 to 1024.  draw: which vectors, 1 to 64.
    """
    _check("d", d, 1, 1024)
    _check("draw", draw, 1, 64)
    if d not in (powers := [2**power for power in range(11)]):
        raise ValueError(f"d = {d}: must be a power of two")
    if draw != int(draw):
        raise ValueError(f"draw = {draw}: must be a whole number")
    d, draw = int(d), int(draw)
    attributes = _attributes(power=(powers.index(d), 6), draw=(draw, 7))
    return Figure("saturation", attributes, _static.saturation(d, draw))


def scoring(q1=1, q2=1, score="dot"):
    """Five keys of unequal norms and one query in a plane: the score decides which key wins.

    The keys are [3, 2], three of norm √5, and [0.5, 0]. The Gaussian has width² = √2, so that the keys of equal norm
    keep the ratios that they have under the scaled dot product.
    q1, q2: components of the query at the start, from −3 to 3.
    score: "dot", "scaled_dot", "additive" (its W_q, W_k and v are in the caption) or "gaussian".
    """
    _check("q1", q1, -3, 3)
    _check("q2", q2, -3, 3)
    if not isinstance(score, str) or score not in _static.SCORES:
        raise ValueError(f"score = {score!r}: must be one of {', '.join(_static.SCORES)}")
    attributes = _attributes(q1=(q1, 1), q2=(q2, 1)) + f' score="{score}"' * (score != "dot")
    return Figure("scoring", attributes, _static.scoring(q1, q2, score))


def sharpness(temperature=1, delta=2**-0.5, copies=1, masked=False):
    """What changes a mixture without touching the query: temperature, score difference, repeated keys, a mask.

    The total weight of key 1, present `copies` times, beside key 2 is σ(delta/temperature + ln copies).
    temperature: from 0.1 to 10.  delta: score of key 1 minus score of key 2, from −4 to 4.  copies: 1 to 10.
    masked: whether key 2 is masked.
    """
    _check("temperature", temperature, 0.1, 10)
    _check("delta", delta, -4, 4)
    _check("copies", copies, 1, 10)
    if copies != int(copies):
        raise ValueError(f"copies = {copies}: must be a whole number")
    copies, masked = int(copies), bool(masked)
    temperature = float(f"{temperature:.3g}")  # as many digits as the figure shows
    attributes = _attributes(temperature=(temperature, 1), delta=(delta, 2**-0.5), copies=(copies, 1))
    return Figure("sharpness", attributes + " masked" * masked, _static.sharpness(temperature, delta, copies, masked))


def split_merge(token=1, feature=5, n_heads=2, way="right"):
    """One number followed from x (4, 8) into the heads (H, 4, 8 / H) and back: what the swap of axes is for.

    token, feature: the number at the start, x[token, feature]; 0 to 3, 0 to 7.
    n_heads: 1, 2, 4 or 8.
    way: "right", "no swap in split", "no swap in merge" or "no swap" (in neither): there, a reshape alone.
    """
    for name, value, high in (("token", token, 3), ("feature", feature, 7)):
        _check(name, value, 0, high)
        if value != int(value):
            raise ValueError(f"{name} = {value}: must be a whole number")
    if n_heads not in (1, 2, 4, 8):
        raise ValueError(f"n_heads = {n_heads!r}: must be 1, 2, 4 or 8")
    if not isinstance(way, str) or way not in _static.WAYS:
        raise ValueError(f"way = {way!r}: must be one of {', '.join(_static.WAYS)}")
    token, feature, n_heads = int(token), int(feature), int(n_heads)
    attributes = _attributes(token=(token, 1), feature=(feature, 5))
    attributes += f' n_heads="{n_heads}"' * (n_heads != 2) + f' way="{way}"' * (way != "right")
    return Figure("split_merge", attributes, _static.split_merge(token, feature, n_heads, way))


def _check(name, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"{name} = {value}: must lie between {low} and {high}")


def _digits(mask):
    """A boolean mask (5, 5) as the text of the attribute: 1 where it allows."""

    def listed(x):
        x = x.tolist() if hasattr(x, "tolist") else x
        return [listed(y) for y in x] if isinstance(x, (list, tuple)) else x

    rows = listed(mask)
    if not (isinstance(rows, list) and [isinstance(row, list) and len(row) for row in rows] == [5] * 5):
        found = f"it has shape {tuple(mask.shape)}" if hasattr(mask, "shape") else f"it is {mask!r}"
        raise ValueError(f"mask must have shape (5, 5), queries × keys, but {found}")
    if strange := [x for row in rows for x in row if not isinstance(x, bool)]:
        raise TypeError(f"mask must be boolean, True = may attend, but it holds {strange[0]!r}")
    return " ".join("".join("01"[x] for x in row) for row in rows)


def _attributes(**options):
    return "".join(f' {name}="{float(value)!r}"' for name, (value, default) in options.items() if value != default)
