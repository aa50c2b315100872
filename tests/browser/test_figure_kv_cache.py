"""The live figure `kv_cache` in a real browser, and its numbers in Python."""

import json
import re
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from conftest import PHONE
from figure_page import state, text, written

from attnlab import figures
from attnlab.efficient import cost

python = import_module("attnlab.figures._static.kv_cache")

EXTREMES = [
    {"heads": 128, "share": 7, "d": 256, "layers": 128, "dtype": 5, "window": 18, "context": 20, "batch": 10},
    {"heads": 120, "share": 15, "d": 16, "layers": 1, "dtype": 2, "window": 7, "context": 7, "batch": 0},
    {"heads": 71, "share": 0, "d": 64, "layers": 32, "dtype": 4, "window": 18, "context": 11, "batch": 9},
    {"heads": 64, "share": 3, "d": 128, "layers": 100, "dtype": 3, "window": 17, "context": 20, "batch": 7},
    {"heads": 1, "share": 0, "d": 16, "layers": 1, "dtype": 2, "window": 18, "context": 20, "batch": 0},
    {"heads": 128, "share": 0, "d": 256, "layers": 128, "dtype": 5, "window": 17, "context": 20, "batch": 10},
]
TAB_ORDER = ["SELECT"] + ["INPUT"] * 8
STILL = ("42,949,672,960 bytes = 40 GiB", "320 GiB as MHA", "256 Ki on 80 GB")
START = {"heads": 64, "share": 3, "d": 128, "layers": 80, "dtype": 4, "window": 18, "context": 17, "batch": 0}
DTYPES = {2: "int4", 3: "int8", 4: "float16", 5: "float32"}
ROOM = [8 * 2**30, 24564 * 2**20, 81559 * 2**20, 143771 * 2**20]


def divisors(n):
    return [m for m in range(1, n + 1) if n % m == 0]


def by_cost(s, kind, context=None):
    """Bytes of the cache of a state as attnlab.efficient.cost counts them; kind 0: as it is, 1: MHA, 2: MQA."""
    return cost.kv_cache_bytes(
        n_layers=s["layers"],
        n_kv_heads=(divisors(s["heads"])[s["share"]], s["heads"], 1)[kind],
        d_head=s["d"],
        n_tokens=context or 2 ** s["context"],
        dtype=DTYPES[s["dtype"]],
        batch=2 ** s["batch"],
        window=2 ** s["window"] if s["window"] < 18 else None,
    )


def without_cards(page):
    found = state(page, "kv_cache")
    assert found.pop("cards") == ROOM
    return found


def slider(page, name):
    return page.get_by_role("slider", name=name)


def rows(page):
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in page.locator("tbody tr").all()]


def test_the_table_of_models_is_that_of_the_formulas():
    assert list(python.MODELS) == list(cost.MODELS)
    for name, (layers, heads, kv, d, window, context) in python.MODELS.items():
        assert cost.MODELS[name][:6] == (layers, heads, kv, d, window or None, context), name


def test_kv_cache_computes_what_cost_computes(show):
    page = show(figures.kv_cache())
    grid = product((1, 9, 64, 71, 120), (0, 1, 2, 15), (16, 128), (1, 80), (2, 4, 5), (7, 12, 18), (7, 12, 20), (0, 10))
    names = ("heads", "share", "d", "layers", "dtype", "window", "context", "batch")
    states = [dict(zip(names, values, strict=True)) for values in grid if values[1] < len(divisors(values[0]))]
    results = page.evaluate(
        "([s, cards]) => s.map((one) => customElements.get('attn-kv-cache').compute({ ...one, cards }))", [states, ROOM]
    )
    assert len(states) > 2000
    for s, found in zip(states, results, strict=True):
        assert [kind["bytes"] for kind in found["kinds"]] == [by_cost(s, kind) for kind in range(3)]
        assert found["kinds"][0]["heads"] == divisors(s["heads"])[s["share"]]
        for kind, shown in enumerate(found["kinds"]):
            for room, limit in zip(ROOM, shown["limits"], strict=True):
                if limit is None:
                    assert s["window"] < 18 and by_cost(s, kind, 2**60) <= room, "the window fits, so all fit"
                else:
                    assert by_cost(s, kind, limit) > room and limit & (limit - 1) == 0
                    assert limit == 1 or by_cost(s, kind, limit // 2) <= room, "the first that does not"


@pytest.mark.parametrize("dtype", ["int4", "int8", "float16", "float32"])
@pytest.mark.parametrize("model", list(cost.MODELS))
def test_python_computes_the_same_cache(model, dtype):
    real = cost.MODELS[model]
    found = python.numbers(model, 8192, 4, dtype, real.n_kv_heads)
    for heads, (kind, (shown, token, total, limits)) in zip(
        (real.n_kv_heads, real.n_heads, 1), found.items(), strict=True
    ):
        of = {"n_layers": real.n_layers, "n_kv_heads": heads, "d_head": real.d_head, "dtype": dtype}
        assert shown == heads and kind in python.KINDS
        assert token == cost.kv_cache_bytes(**of, n_tokens=1)
        assert total == cost.kv_cache_bytes(**of, n_tokens=8192, batch=4, window=real.window)
        for room, limit in zip(ROOM, limits, strict=True):
            at = lambda n, of=of: cost.kv_cache_bytes(**of, n_tokens=n, batch=4, window=real.window)  # noqa: E731
            assert (at(2**60) <= room) if limit is None else (at(limit) > room >= at(limit // 2))


def test_the_figure_and_its_still_agree(show):
    """Bytes, the table and the formula of every model, without scripts and with them."""
    page = show(*[figures.kv_cache(model, batch=8, dtype="int8") for model in cost.MODELS])
    for which, model in enumerate(cost.MODELS):
        static = figures.kv_cache(model, batch=8, dtype="int8").static
        shown = text(page, "kv_cache", which)
        lines = [line.split() for line in static.text.split("\n")[3:]]
        for kind, line in zip(python.KINDS, lines, strict=True):
            joined = " ".join(line)
            heads, token, total, limits = re.match(rf"{kind}: (\d+) KV, (.+) a token, (\S+ \S+) (.*)", joined).groups()
            assert f"{kind}: {heads} KV · {token} a token · {total} " in shown
            assert f"{kind} {limits}" in shown
        formula = static.text.split("\n")[1].strip()
        assert formula in shown and formula in static.caption and formula in static.alt
        assert page.locator("attn-kv-cache").nth(which).locator("select").input_value() == model


def test_kv_cache_starts_with_llama_3_70b(show):
    page = show(figures.kv_cache())
    assert without_cards(page) == START
    shown = text(page, "kv_cache")
    for piece in (
        "as it is: 8 KV · 320 KiB a token · 40 GiB",
        "as MHA: 64 KV · 2.5 MiB a token · 320 GiB",
        "as MQA: 1 KV · 40 KiB a token · 5 GiB",
        "as it is 32 Ki 128 Ki 256 Ki 512 Ki as MHA 4 Ki 16 Ki 32 Ki 64 Ki as MQA 256 Ki 1 Mi 2 Mi 4 Mi",
        "2 · 80 layers · 8 KV heads · 128 dimensions · 131,072 tokens · batch 1 · 2 bytes "
        "= 42,949,672,960 bytes = 40 GiB",
        "Cards hold 8, 23.99, 79.65, 140.4 GiB, as drivers report.",
        "Query heads are no factor.",
    ):
        assert piece in shown


def test_bars_and_lines_share_one_logarithmic_axis(show):
    page = show(figures.kv_cache())
    where = """el => { const root = el.shadowRoot, chart = root.querySelector('.chart').getBoundingClientRect();
      const at = (x) => (x - chart.left) / chart.width;
      return { bars: [0, 1, 2].map((k) => at(el.ref[`bar${k}`].getBoundingClientRect().right)),
        lines: [...root.querySelectorAll('.chart i')].map((i) => at(i.getBoundingClientRect().left)),
        ticks: [...root.querySelectorAll('.xt')].map((t) => { const b = t.getBoundingClientRect();
          return [t.textContent, at((b.left + b.right) / 2)]; }) } }"""
    found = page.locator("attn-kv-cache").evaluate(where)
    place = lambda number: (np.log2(number) - 24) / 18  # noqa: E731
    np.testing.assert_allclose(found["bars"], place([40 * 2**30, 320 * 2**30, 5 * 2**30]), atol=0.003)
    np.testing.assert_allclose(found["lines"], place(ROOM), atol=0.003)
    assert [name for name, _ in found["ticks"]] == ["1 GiB", "1 TiB"]
    np.testing.assert_allclose([x for _, x in found["ticks"]], place([2**30, 2**40]), atol=0.003)


def test_a_bar_that_leaves_the_axis_says_so(show):
    page = show(figures.kv_cache(batch=512))
    bars = "el => [0, 1, 2].map((k) => [el.ref[`bar${k}`].offsetWidth / el.ref[`bar${k}`].parentNode.offsetWidth, "
    bars += "getComputedStyle(el.ref[`bar${k}`], '::after').content])"
    (own, mha, (width, mark)) = page.locator("attn-kv-cache").evaluate(bars)
    assert own == mha == [1, '"→"'] and mark == "none" and width == pytest.approx(0.9623, abs=0.003)
    assert written(page, "kv_cache", "b0") == "20 TiB"


# --- hands -----------------------------------------------------------------------------------------------------------


def test_choosing_a_model_keeps_dtype_and_batch(show):
    page = show(figures.kv_cache(), "<output></output>")
    page.evaluate("document.body.addEventListener('attn-change', (e) => { window.told = e.detail })")
    slider(page, "batch").press("ArrowRight")
    slider(page, "dtype").press("ArrowLeft")
    page.get_by_role("combobox", name="model").select_option("Mistral-7B")
    expected = {"heads": 32, "share": 3, "d": 128, "layers": 32, "dtype": 3, "window": 12, "context": 15, "batch": 1}
    assert without_cards(page) == expected
    assert page.evaluate("told.kinds[0].bytes") == by_cost(expected, 0) == 512 * 2**20
    assert rows(page)[0] == ["none"] * 4 and "· 4,096 tokens ·" in text(page, "kv_cache")
    slider(page, "window").press("End")
    assert written(page, "kv_cache", "window") == "none"
    assert written(page, "kv_cache", "b0") == "4 GiB", "eight times as much at 32,768 tokens"


def test_two_models_of_the_same_cache_keep_their_names(show):
    page = show(figures.kv_cache("Llama-2-70B"))
    model = page.get_by_role("combobox", name="model")
    assert model.input_value() == "Llama-2-70B"
    for name in ("Llama-3-70B", "Llama-2-70B"):
        model.select_option(name)
        slider(page, "context").press("ArrowLeft")
        assert model.input_value() == name
    slider(page, "layers").press("ArrowLeft")
    assert model.input_value() == "" and "of your own" in model.inner_text()
    slider(page, "layers").press("ArrowRight")
    model.select_option("")
    assert without_cards(page)["layers"] == 80, "no model changes nothing"
    assert model.input_value().endswith("70B")


def test_key_value_heads_stop_at_the_divisors(show):
    page = show(figures.kv_cache("Falcon-7B"))
    kv = slider(page, "KV heads")
    assert kv.get_attribute("max") == "1" and written(page, "kv_cache", "share") == "1"
    kv.press("ArrowRight")
    assert written(page, "kv_cache", "share") == "71", "71 is prime: one or all"
    page.get_by_role("combobox", name="model").select_option("SmolLM2-135M")
    seen = [written(page, "kv_cache", "share")]
    for _ in range(3):
        kv.press("ArrowRight")
        seen.append(written(page, "kv_cache", "share"))
    assert seen == ["3", "9", "9", "9"]
    assert kv.get_attribute("aria-valuetext") == "9"


def test_query_heads_change_no_byte_of_the_cache(show):
    """A70: the bar of MHA moves, the cache does not; the divisor nearest to the last choice comes back."""
    page = show(figures.kv_cache())
    heads = slider(page, "query heads")
    for press, expected in (("ArrowRight", "5"), ("ArrowLeft", "8"), ("End", "8")):
        heads.press(press)
        assert written(page, "kv_cache", "share") == expected
    assert (written(page, "kv_cache", "b0"), written(page, "kv_cache", "b1")) == ("40 GiB", "640 GiB")


def test_kv_cache_by_mouse(show):
    page = show(figures.kv_cache())
    box = slider(page, "KV heads").bounding_box()
    left, middle = box["x"], box["y"] + box["height"] / 2
    page.mouse.move(left + box["width"] / 2, middle)
    page.mouse.down()
    seen = []
    for x in np.linspace(left + box["width"] / 2, left + box["width"], 40):
        page.mouse.move(x, middle)
        seen.append(int(written(page, "kv_cache", "share")))
    page.mouse.up()
    assert seen == sorted(seen) and set(seen) == {8, 16, 32, 64}


@pytest.mark.parametrize("page_options", [PHONE], indirect=True)
def test_kv_cache_by_touch_and_within_a_phone(show):
    page = show(figures.kv_cache())
    box = slider(page, "context").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    assert written(page, "kv_cache", "context") == "1,048,576" and written(page, "kv_cache", "b0") == "320 GiB"
    assert page.locator("attn-kv-cache .card").bounding_box()["height"] <= 680


# --- Python ----------------------------------------------------------------------------------------------------------


def test_options_of_kv_cache():
    assert "<attn-kv-cache data-tables=" in figures.kv_cache()._repr_html_()
    html = figures.kv_cache("Mistral-7B", context=np.int64(4096), batch=4.0, dtype="int4", n_kv_heads=1)._repr_html_()
    attributes = 'heads="32.0" share="0.0" layers="32.0" window="12.0" context="12.0" batch="2.0" dtype="2.0"'
    assert f"<attn-kv-cache {attributes} data-tables=" in html
    tables = json.loads(re.search(r'data-tables="(.*?)"', html)[1].replace("&quot;", '"'))
    assert tables["models"]["SmolLM2-135M"] == [30, 9, 3, 64, 0, 8192] and len(tables["cards"]) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "GPT-4"}, "model = 'GPT-4': must be one of GPT-2 small, "),
        ({"model": 3}, "model = 3: must be one of"),
        ({"dtype": "bfloat16"}, "dtype = 'bfloat16': must be one of int4, int8, float16, float32"),
        ({"context": 100}, "context = 100: must lie between 128 and"),
        ({"context": 3000}, "context = 3000: must be a power of two"),
        ({"batch": 0}, "batch = 0: must lie between 1 and 1024"),
        ({"batch": 2.5}, r"batch = 2\.5: must be a power of two"),
        ({"n_kv_heads": 5}, "n_kv_heads = 5: must divide the 64 query heads: 1, 2, 4, 8, 16, 32, 64"),
    ],
)
def test_options_that_kv_cache_refuses(options, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        figures.kv_cache(**options)


def test_the_terminal_prints_kv_cache():
    assert repr(figures.kv_cache("Llama-3-8B", context=4096, dtype="int4")) == (
        "attn-kv-cache   Llama-3-8B, context 4,096, batch 1, int4\n"
        "  2 · 32 layers · 8 KV heads · 128 dimensions · 4,096 tokens · batch 1 · ½ bytes "
        "= 134,217,728 bytes = 128 MiB\n"
        "  first power of two that does not fit           8 GB    24 GB    80 GB   141 GB\n"
        "  as it is: 8 KV, 32 KiB a token, 128 MiB      512 Ki     1 Mi     4 Mi     8 Mi\n"
        "  as MHA: 32 KV, 128 KiB a token, 512 MiB      128 Ki   256 Ki     1 Mi     2 Mi\n"
        "  as MQA: 1 KV, 4 KiB a token, 16 MiB            4 Mi     8 Mi    32 Mi    64 Mi"
    )
