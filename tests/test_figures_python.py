"""The Python side of the live figures: what a notebook stores, and what remains of it where no script runs."""

import ast
import json
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from html_tags import Tags

import attnlab
from attnlab import figures, heads
from attnlab.figures import _static
from attnlab.figures._script import lean
from attnlab.figures._static.masking import SCORES

FIGURES = {name: getattr(figures, name) for name in figures.NAMES}
SOURCES = Path(figures.__file__).parent
HEADS = [  # of a real model: tokens (n), weights (6, 12, n, n)
    (s["tokens"], np.frombuffer(b64decode(s["weights"]), np.uint8).reshape(6, 12, -1, len(s["tokens"])) / 255)
    for s in json.loads((SOURCES.parent / "data" / "minilm_heads.json").read_text("utf-8"))["sentences"]
]

# The tags among JupyterLab's allowed ones (4.6, untrusted notebooks) that a fallback may use; SVG is not one of them.
SANITIZED = {"figure", "figcaption", "img"}


@pytest.fixture(params=figures.NAMES)
def name(request):
    return request.param


def test_every_figure_has_a_name_a_script_and_a_wrapper(name):
    figure = FIGURES[name]()
    html = figure._repr_html_()
    assert html.startswith(f"<script>{figures.script(name)}</script>\n<{figures.tag(name)} ")
    assert html.count("<script>") == html.count("</script>") == 1, "nbval's rule replaces <script>…</script>"
    assert html.endswith(f"</{figures.tag(name)}>")
    assert html == FIGURES[name]()._repr_html_() and repr(figure) == repr(FIGURES[name]())


def test_output_is_the_same_in_another_process(name):
    code = f"from attnlab import figures; print(figures.{name}()._repr_html_())"
    run = [sys.executable, "-X", "utf8", "-c", code]
    other = subprocess.run(run, capture_output=True, encoding="utf-8", check=True).stdout
    assert other.rstrip("\n") == FIGURES[name]()._repr_html_()


def test_script_is_one_guarded_function_without_imports_or_addresses(name):
    script = figures.script(name)
    assert script.startswith("(() => {") and script.rstrip().endswith("})();")
    assert f"if (customElements.get('{figures.tag(name)}')) return;" in script
    assert not re.search(r"\bimport\b|\bfetch\b|https?:|XMLHttpRequest|\beval\b|</script", script)
    assert not re.search(r"^(//|\s)", script, re.MULTILINE), "no comment lines, no indentation"


def test_a_lean_script_has_the_same_tokens():
    source = """  // a remark
const a = b - -c + +d, f = (x) => x / 2 / y; // another
  let r = /[/ ]+ \\/ /g.test(`a  ${ f({ n: 1 }) + `in ${ a }` }  // b`), s = 'it // is';
class A { static p = 1;
  #q() { return typeof r in s; }
}
"""
    expected = """const a=b- -c+ +d,f=(x)=>x/2/y;
let r=/[/ ]+ \\/ /g.test(`a  ${f({n:1})+`in ${a}`}  // b`),s='it // is';
class A{static p=1;
#q(){return typeof r in s;}}
"""
    assert lean(source) == expected and lean(expected) == expected


def test_no_comment_is_left(name):
    code = re.sub(r"`[^`]*`|'[^'\n]*'", "", figures.script(name))
    assert "//" not in code and "/*" not in figures.script(name)


def test_a_script_weighs_a_few_kilobytes(name):
    assert len(figures.script(name).encode()) < 20_000


# What is seen of linear red, green and blue without one kind of cone: Machado, Oliveira, Fernandes 2009, severity 1.
SEEN = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # of sRGB, D65


def difference(one, other, seen):
    """CIE 1976: the distance in L*a*b* of two colours, "#rrggbb", as they are seen. About 2 is just visible."""

    def lab(colour):
        part = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        xyz = TO_XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / TO_XYZ.sum(1)
        x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return np.linalg.norm(lab(one) - lab(other))


@pytest.mark.parametrize("seen", SEEN)
def test_the_two_data_colours_differ_for_every_kind_of_eye(seen):
    live = re.findall(r"--k1:(#\w{6});--k2:(#\w{6})", (SOURCES / "_base.js").read_text("utf-8"))
    assert len(live) == 2 and live == re.findall(r"--k1:(#\w{6});--k2:(#\w{6})", _static.drawing.STYLE), "light, dark"
    assert min(difference(blue, orange, SEEN[seen]) for blue, orange in live) > 40
    assert difference("#b44a00", "#5a6e00", SEEN["deuteranopia"]) < 20, "a pair that is lost"


def test_source_files_stay_short():
    for source in SOURCES.glob("*.js"):
        assert source.read_text(encoding="utf-8").count("\n") < 300, source.name


def test_unknown_figure():
    with pytest.raises(ValueError, match="mixture, sharpness"):
        figures.script("rainbow")


def test_imports_only_the_standard_library_and_itself():
    for source in SOURCES.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module]
            for module in modules:
                assert module.startswith("attnlab.figures") or module.split(".")[0] in sys.stdlib_module_names


def test_options_become_attributes():
    assert "<attn-mixture data-" in figures.mixture()._repr_html_()
    assert '<attn-mixture q1="-0.5" q2="3.0" data-' in figures.mixture(-0.5, np.float64(3))._repr_html_()
    assert "<attn-sharpness data-" in figures.sharpness()._repr_html_()
    assert "<attn-scoring data-" in figures.scoring()._repr_html_()
    assert '<attn-scoring q2="-0.5" score="gaussian" data-' in figures.scoring(1, -0.5, "gaussian")._repr_html_()
    assert "<attn-split-merge data-" in figures.split_merge()._repr_html_()
    html = figures.split_merge(np.int64(0), 7, 8, "no swap")._repr_html_()
    assert '<attn-split-merge token="0.0" feature="7.0" n_heads="8" way="no swap" data-' in html
    assert "<attn-heads data-heads=" in figures.heads()._repr_html_()
    assert '<attn-heads layer="4.0" head="5.0" sentence="2" data-heads=' in figures.heads(4, 5, 2)._repr_html_()
    assert "<attn-online-softmax data-" in figures.online_softmax()._repr_html_()
    html = figures.online_softmax("masked", tile=3, read=0, forget=True)._repr_html_()
    assert '<attn-online-softmax scores="masked" tile="3.0" read="0.0" forget data-' in html
    html = figures.sharpness(temperature=0.1, copies=3, masked=True)._repr_html_()
    assert '<attn-sharpness temperature="0.1" copies="3.0" masked data-' in html


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: figures.mixture(q1=3.1), "q1"),
        (lambda: figures.mixture(q2=float("nan")), "q2"),
        (lambda: figures.sharpness(temperature=0), "temperature"),
        (lambda: figures.sharpness(delta=-5), "delta"),
        (lambda: figures.sharpness(copies=11), "copies"),
        (lambda: figures.sharpness(copies=1.5), "copies"),
        (lambda: figures.masking("bidirectional"), "preset"),
        (lambda: figures.scoring(q2=-3.5), "q2"),
        (lambda: figures.scoring(score="cosine"), "score"),
        (lambda: figures.scoring(score=["dot"]), "score"),
        (lambda: figures.masking(np.eye(5, dtype=bool)), "preset"),
        (lambda: figures.heads(layer=6), "layer"),
        (lambda: figures.heads(head=-1), "head"),
        (lambda: figures.heads(head=1.5), "head"),
        (lambda: figures.heads(sentence=3), "sentence"),
        (lambda: figures.split_merge(token=4), "token"),
        (lambda: figures.split_merge(feature=2.5), "feature"),
        (lambda: figures.split_merge(n_heads=3), "n_heads"),
        (lambda: figures.split_merge(way="wrong"), "way"),
        (lambda: figures.online_softmax(scores="random"), "scores"),
        (lambda: figures.online_softmax(tile=0), "tile"),
        (lambda: figures.online_softmax(tile=1.5), "tile"),
        (lambda: figures.online_softmax(read=7), "read"),
    ],
)
def test_values_outside_the_range_are_refused_by_name(make, word):
    with pytest.raises(ValueError, match=f"^{word} = "):
        make()


def test_the_terminal_prints_the_numbers_of_the_example():
    assert repr(figures.mixture()) == (
        "attn-mixture   query q = [1.0, 0.0]\n"
        "  k₁ = [1, 0]   score  0.707   weight 67.0 %   v₁ = [2, 0]\n"
        "  k₂ = [0, 1]   score  0.000   weight 33.0 %   v₂ = [0, 4]\n"
        "  output O = [1.340, 1.321]"
    )
    assert repr(figures.sharpness()) == (
        "attn-sharpness   T = 1, Δ = s₁ − s₂ = 0.707, 1 copy of key 1\n"
        "  total weight of key 1 = σ(Δ/T + ln n) = σ(0.707 + 0.000) = 0.66976\n"
        "  each copy 67.0 %, key 2 33.0 %"
    )


def test_a_mask_is_a_name_an_array_or_lists():
    assert "<attn-masking data-" in figures.masking()._repr_html_()
    assert '<attn-masking preset="window" equal data-' in figures.masking("window", equal=True)._repr_html_()
    mask = np.array([[True] * 5, [False] * 5, *np.eye(5, dtype=bool)[:3]])
    for given in (mask, mask.tolist(), tuple(map(tuple, mask)), list(mask)):
        assert '<attn-masking mask="11111 00000 10000 01000 00100" data-' in figures.masking(mask=given)._repr_html_()
    for wrong, error, words in (
        (mask[:, :4], ValueError, r"\(5, 5\), queries × keys, but it has shape \(5, 4\)"),
        (mask[:1], ValueError, r"shape \(1, 5\)"),
        ("window", ValueError, "it is 'window'"),
        (mask.astype(int), TypeError, r"boolean, True = may attend, but it holds 1$"),
        (np.zeros((5, 5)), TypeError, r"holds 0\.0"),
    ):
        with pytest.raises(error, match=words):
            figures.masking(mask=wrong)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("preset", ["none", "causal", "padding", "window", "block", "off by one"])
def test_fallback_of_the_masking_agrees_with_attnlab(preset, equal):
    made = figures.masking(preset, equal=equal)
    mask = np.array([list(row) for row in _static.PRESETS[preset].split()]) == "1"
    out = attnlab.attend(np.where(equal, 0.0, SCORES), np.arange(1.0, 6)[:, None], mask)
    outputs = [f"{o:.3f}" if row.any() else "0" for o, row in zip(out.output[:, 0], mask, strict=True)]
    for text in (made.static.caption, made.static.alt):
        assert f"O = [{', '.join(outputs)}]" in text and "equal scores" * equal in text
    lines = made.static.text.split("\n")[1:]
    for line, weights, output, row in zip(lines, out.weights, outputs, mask, strict=True):
        shown = [float(w) for w in re.search(r"α = \[(.*)\]", line)[1].split(",")]
        np.testing.assert_allclose(shown, weights, rtol=0, atol=5.1e-4)
        assert re.search(rf"O = {output}\b", line) and ("0/0" in line) == (not row.any())


@pytest.mark.parametrize("query", [(1, 0), (0, 0), (0, 1), (3, -3), (-0.4, -0.04)])
def test_fallback_of_the_mixture_agrees_with_attnlab(query):
    out = attnlab.attention(np.array(query, float), np.eye(2), np.array([[2.0, 0], [0, 4]]))
    number = lambda x: f"{x:.3f}".replace("-", "−")  # noqa: E731
    static = figures.mixture(*query).static
    for text in (static.caption, static.alt, static.text):
        assert f"O = [{number(out.output[0])}, {number(out.output[1])}]" in text
        assert f"{100 * out.weights[0]:.1f} %" in text and f"{100 * out.weights[1]:.1f} %" in text
    assert "−0.0," not in static.caption, "no negative zero"


@pytest.mark.parametrize(
    ("options", "total"),
    [
        ({}, "0.66976"),
        ({"temperature": 0.1}, "0.99915"),
        ({"temperature": 10}, "0.51767"),
        ({"copies": 3}, "0.85884"),
        ({"copies": 10}, "0.95301"),
        ({"masked": True, "copies": 3}, "1"),
    ],
)
def test_fallback_of_the_sharpness(options, total):
    static = figures.sharpness(**options).static
    for text in (static.caption, static.alt, static.text):
        assert re.search(rf"total weight of key 1 = σ\(Δ/T \+ ln n\) = σ\(\S+ \+ \S+\) = {re.escape(total)}\b", text)
    t, n = options.get("temperature", 1), options.get("copies", 1)
    scores = np.array([2**-0.5 / t] * n + [-np.inf if "masked" in options else 0])
    weights = attnlab.softmax(scores)
    assert f"{100 * weights[0]:.1f} % for each copy" in static.caption
    assert float(total) == pytest.approx(weights[:n].sum(), abs=6e-6)


@pytest.mark.parametrize("query", [(1, 1), (0, 0), (0, 1), (3, -3)])
def test_fallback_of_the_scoring_agrees_with_attnlab(query):
    keys = np.array([[3.0, 2.0], [1.0, 2.0], [-2.0, 1.0], [-1.0, -2.0], [0.5, 0.0]])
    w_q, w_k = np.array([[1.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]), np.array([[-1.0, 1.0], [-1.0, -1.0], [1.0, 0.0]])
    number = lambda x: f"{x:.3f}".replace("-", "−").replace("−0.000", "0.000")  # noqa: E731
    options = {"additive": (w_q, w_k, np.array([1.0, 2.0, 3.0])), "gaussian": (2**0.25,)}
    for score in ("dot", "scaled_dot", "additive", "gaussian"):
        scores = getattr(attnlab, score)(np.array(query, float), keys, *options.get(score, ()))
        static = figures.scoring(*query, score).static
        for s, w in zip(scores, attnlab.softmax(scores), strict=True):
            assert f"has score {number(s)} and weight {100 * w:.1f} %" in static.caption
            assert re.search(rf"score +{number(s)}   weight +{100 * w:.1f} %", static.text)
        first = np.flatnonzero(scores > scores.max() - 1e-9)
        who = {1: f"k{'₁₂₃₄₅'[first[0]]} wins", 2: "k₁, k₂ tie" if query == (0, 1) else "k₁, k₄ tie", 5: "all five tie"}
        assert f"; {who[len(first)]}." in static.caption and static.alt.endswith(f"; {who[len(first)]}.")
        assert f"s₂ − s₃ = {number(scores[1] - scores[2])}" in static.caption


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("way", _static.WAYS)
def test_fallback_of_the_split_agrees_with_attnlab(n_heads, way):
    x = np.arange(32).reshape(4, 8)  # each number is its own flat position
    split = x.reshape(n_heads, 4, -1) if way in ("no swap", "no swap in split") else heads.split(x, n_heads)
    merged = split.reshape(4, 8) if way in ("no swap", "no swap in merge") else heads.merge(split)
    listed = lambda a: " | ".join(" ".join(f"{'abcd'[p // 8]}{p % 8}" for p in row) for row in a)  # noqa: E731
    for token, feature in np.ndindex(4, 8):
        static = figures.split_merge(token, feature, n_heads, way).static
        at, (row, column) = np.argwhere(split == 8 * token + feature)[0], np.argwhere(merged == 8 * token + feature)[0]
        where = f"x[{token}, {feature}] → heads[{', '.join(map(str, at))}] → merged[{row}, {column}]"
        for text in (static.caption, static.alt, static.text):
            assert where in text
            # Some features of some tokens: the words say how many of each, and no other number is there.
            head, line = re.search(rf"Head {at[0]} holds (.*)\. Row {row} of merged (.*?)[.\n]", text).groups()
            assert numbers_of(head) == set(split[at[0]].ravel())
            assert numbers_of(line) == set(merged[row])
            assert ("round trip" in line) == (way == "no swap" and n_heads > 1)
        lines = static.text.split("\n")[-3:]
        for line, (title, rows) in zip(
            lines, {"x": x, "heads": split.reshape(-1, split.shape[2]), "merged": merged}.items(), strict=True
        ):
            assert line == f"  {title:6}  {listed(rows)}"


def numbers_of(words):
    """The numbers that "features 4 to 7 of tokens a and b" or "token b again" speak of."""
    if again := re.match("is token (.) again", words):
        return {8 * "abcd".index(again[1]) + j for j in range(8)}
    found = re.search(
        r"(all|features? (\d)(?: (to|and) (\d))?).* of (every token|tokens? ([a-d])(?: and ([a-d]))?)", words
    )
    first, last = int(found[2] or 0), int(found[4] or found[2] or 7)
    features = (first, last) if found[3] == "and" else range(first, last + 1)
    tokens = [t for t in (found[6], found[7]) if t] or "abcd"
    return {8 * "abcd".index(t) + j for t in tokens for j in features}


@pytest.mark.parametrize("scores", _static.SETS)
def test_fallback_of_the_online_softmax_agrees_with_attnlab(scores):
    all_scores = np.array(_static.SETS[scores], dtype=float)
    short = lambda x: "−∞" if x == -np.inf else f"{x:.4f}" if x % 1 else f"{x:.0f}"  # noqa: E731
    for tile, read in np.ndindex(7, 7):
        if tile == 0:
            continue
        static, seen = figures.online_softmax(scores, tile, read).static, min(6, -(-read // tile) * tile)
        if seen == 0:
            assert "0 of 6 keys read: m = −∞, ℓ = 0, o = 0, o/ℓ = 0" in static.text
            continue
        part, values = all_scores[:seen], np.arange(seen)
        m, output = part.max(), attnlab.softmax(part) @ values
        powers = np.exp(part - m) if m > -np.inf else np.zeros(seen)
        line = f"{seen} of 6 keys read: m = {short(m)}, ℓ = {short(powers.sum())}, o = {short(powers @ values)}"
        for words in (static.text, static.caption, static.alt):
            assert f"{line}, o/ℓ = {short(output)}" in words
        framed = [j for j in range(6) if (seen - 1) // tile * tile <= j < seen]
        assert static.shapes.count("in fast memory</text>") == len(framed) + 1
    assert "o/ℓ = 2.3244" in figures.online_softmax("text", 2, 6, forget=True).static.text


@pytest.mark.parametrize("where", [(0, 2, 0), (2, 7, 1), (0, 3, 2), (5, 11, 2)])
def test_fallback_of_the_heads_agrees_with_numpy(where):
    layer, head, sentence = where
    tokens, weights = HEADS[sentence]
    n = len(tokens)
    static = figures.heads(layer, head, sentence).static
    measures = {
        "previous token": (lambda w: np.diagonal(w, -1, 2, 3).mean(-1), 1 / n),
        "itself": (lambda w: np.diagonal(w, 0, 2, 3).mean(-1), 1 / n),
        "next token": (lambda w: np.diagonal(w, 1, 2, 3).mean(-1), 1 / n),
        "[CLS] or [SEP]": (lambda w: w[..., [0, -1]].sum(-1).mean(-1), 2 / n),
        "entropy, nats": (lambda w: (w * np.log(1 / np.where(w, w, 1))).sum(-1).mean(-1), np.log(n)),
    }
    for name, (measure, uniform) in measures.items():
        here, mean = measure(weights)[layer, head], measure(weights).mean()
        for text in (static.caption, static.alt):
            assert f"{name} {here:.2f} ({mean:.2f}; {uniform:.2f})" in text
        assert re.search(rf"{re.escape(name)} +{here:.2f} +{mean:.2f} +{uniform:.2f}$", static.text, re.MULTILINE)
    spoken = ", ".join(f"{token} {w:.2f}" for token, w in zip(tokens, weights[layer, head, 3], strict=True))
    assert f"query {tokens[3]} looks at {spoken}" in " ".join(static.text.split())


def test_the_weights_of_the_heads_travel_in_an_attribute():
    """Not in a script: nbval's rule and the test of stored scripts see none, and each copy on a page has its own."""
    html = figures.heads()._repr_html_()
    kept = re.sub(r"(?s)<script>.*?</script>", "", html)
    (attributes,) = [attributes for tag, attributes in Tags(kept).seen if tag == "attn-heads"]
    source = json.loads((SOURCES.parent / "data" / "minilm_heads.json").read_text("utf-8"))
    assert json.loads(attributes["data-heads"]) == source["sentences"]
    assert html.count("<script") == 1 and len(html.encode()) < 70_000


def test_fallback_survives_a_sanitizer(name):
    """Scripts and unknown tags go, their contents stay: a picture, with words for those who cannot see it."""
    html = re.sub(r"(?s)<script>.*?</script>", "", FIGURES[name]()._repr_html_())
    tags = Tags(html).seen
    assert {tag for tag, _ in tags} - {figures.tag(name)} == SANITIZED
    image = dict(tags)["img"]
    assert len(image["alt"]) > 50
    assert image["src"].startswith("data:image/svg+xml,")
    assert not set(image["src"]) & set('<>"#\n')


@pytest.mark.parametrize(
    "figure",
    [
        figures.mixture(3, -3),
        figures.sharpness(),
        figures.sharpness(4 / 7, 4, 10, True),
        figures.masking("off by one"),
        figures.scoring(3, 3, "additive"),
        figures.scoring(1, 2, "gaussian"),
        figures.heads(2, 7, 2),
        figures.kv_cache("Mistral-7B", batch=1024),
        figures.split_merge(3, 7, 8, "no swap in merge"),
        figures.online_softmax("masked", 1, 2),
        figures.online_softmax("rising", 4, 6, True),
        figures.null_space("all equal", (1, 0, 0)),
        figures.null_space("sink"),
        figures.rankings(2, 5, "no context"),
    ],
)
def test_picture_is_well_formed_and_names_no_other_address(figure):
    source = Tags(figure.static.image()).seen[0][1]["src"]
    svg = unquote(source.removeprefix("data:image/svg+xml,"))
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.count("http") == 1, "the namespace alone"
    assert "prefers-color-scheme:dark" in svg and not re.search(r"\bnan\b|\binf\b", svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(text.get("x")) < width and 10 < float(text.get("y")) < height


def test_static_pictures_are_plain_data():
    assert figures.mixture() == figures.mixture() and figures.mixture(2, 1) != figures.mixture()
    assert isinstance(figures.mixture().static, _static.Static)
