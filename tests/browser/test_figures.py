"""The live figures in a real browser: what holds for every one. Its own tests and facts: `test_figure_NAME.py`."""

import importlib
from math import sqrt

import pytest
from conftest import PHONE
from figure_page import figure, state, text

from attnlab import figures

FACTS = {name: importlib.import_module(f"test_figure_{name}") for name in figures.NAMES}
DARK, LIGHT = "rgb(20, 24, 30)", "rgb(255, 255, 255)"
PHONE_320 = PHONE | {"viewport": {"width": 320, "height": 640}}


@pytest.fixture(params=figures.NAMES)
def name(request):
    return request.param


# --- hands -----------------------------------------------------------------------------------------------------------


def test_escape_gives_the_keys_back_to_the_notebook(show, name):
    page = show('<div class="jp-Cell" tabindex="-1">', figure(name), "</div>")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName.toLowerCase()") == figures.tag(name)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "jp-Cell"


def test_everything_is_reached_by_tab(show, name):
    page = show(figure(name))
    reached = []
    for _ in range(len(FACTS[name].TAB_ORDER) + 1):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("n => document.querySelector(n).shadowRoot.activeElement?.tagName", figures.tag(name))
        )
    expected = FACTS[name].TAB_ORDER
    assert reached[: len(expected)] == expected and reached[len(expected)] is None


# --- the page around it ----------------------------------------------------------------------------------------------


def test_a_change_is_told_to_the_page(show):
    page = show(figures.sharpness(), "<output></output>")
    page.evaluate("document.body.addEventListener('attn-change', (e) => { window.told = e.detail })")
    page.locator("attn-sharpness").evaluate("el => el.setAttribute('copies', 2)")
    assert page.evaluate("window.told") is None, "the page knows what it did itself"
    page.get_by_role("slider", name="copies").press("ArrowRight")
    told = page.evaluate("told")
    assert told["copies"] == 3 and told["total"] == pytest.approx(0.85884, abs=1e-5) and len(told["weights"]) == 4


def test_attributes_from_outside(show):
    page = show(figures.mixture(q1=0.5, q2=-2), figures.sharpness(temperature=10, masked=True))
    assert state(page, "mixture") == {"q1": 0.5, "q2": -2}
    assert state(page, "sharpness") == {"temperature": 10, "delta": sqrt(0.5), "copies": 1, "masked": True}
    host = page.locator("attn-mixture")
    for name, value, expected in (
        ("q1", "2", {"q1": 2, "q2": -2}),
        ("q2", "77", {"q1": 2, "q2": 3}),
        ("q1", "nonsense", {"q1": 1, "q2": 3}),
        ("preset", "[0, 1]", {"q1": 0, "q2": 1}),
        ("preset", "no such", {"q1": 0, "q2": 1}),
    ):
        host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [name, value])
        assert state(page, "mixture") == expected
    host.evaluate("el => el.removeAttribute('q1')")
    assert state(page, "mixture") == {"q1": 1, "q2": 1}
    assert page.get_by_role("slider", name="query q₁").input_value() == "1"
    other = page.locator("attn-sharpness")
    other.evaluate(
        "el => { el.removeAttribute('masked'); el.setAttribute('temperature', '0'); el.setAttribute('copies', '2.6') }"
    )
    assert state(page, "sharpness") == {"temperature": 0.1, "delta": sqrt(0.5), "copies": 3, "masked": False}


def test_updates_write_text_and_attributes_and_create_no_node(show, name):
    page = show(figure(name))
    code = """async (el, states) => {
      let nodes = 0, texts = 0;
      const observer = new MutationObserver((all) => all.forEach((m) => m.type === 'childList' ? nodes++ : texts++));
      observer.observe(el.shadowRoot, { childList: true, characterData: true, subtree: true });
      const sliders = [...el.shadowRoot.querySelectorAll('input[type=range]')];
      for (let i = 0; i < 100; i++) {
        const s = sliders[i % sliders.length];
        if (!s) { el.change(states[i % states.length]); continue; }
        s.value = +s.min + (s.max - s.min) * ((i * 37) % 100) / 100;
        s.dispatchEvent(new Event('input', { bubbles: true }));
      }
      await Promise.resolve();
      return [nodes, texts];
    }"""
    counts = page.locator(figures.tag(name)).evaluate(code, FACTS[name].EXTREMES)
    assert counts[0] == 0 and counts[1] > 300


def test_several_on_a_page_each_with_its_own_script(show):
    page = show(figures.mixture(), figures.mixture(0, 1), figures.sharpness(), figures.mixture()._repr_html_())
    page.get_by_role("slider", name="query q₁").nth(1).press("Home")
    assert [page.locator("attn-mixture").nth(i).evaluate("el => el.state.q1") for i in range(3)] == [1, -3, 1]
    assert "0.66976" in text(page, "sharpness")
    created = page.evaluate("Object.assign(document.createElement('attn-mixture'), {}).state")
    assert created == {"q1": 1, "q2": 0}


def test_moved_removed_and_put_back(show, name):
    page = show(figure(name), "<main></main>")
    result = page.locator(figures.tag(name)).evaluate("""(el) => {
      const root = el.shadowRoot, card = root.querySelector('.card'), nodes = root.querySelectorAll('*').length;
      el.change(name = Object.fromEntries([Object.entries(el.state)[0].map((v, i) => i ? 2 : v)]));
      document.querySelector('main').append(el);
      el.remove();
      document.documentElement.dataset.theme = 'dark';
      return new Promise((done) => setTimeout(() => {
        const off = card.classList.contains('dark');
        document.body.append(el);
        const on = card.classList.contains('dark');
        const same = root === el.shadowRoot && root.querySelectorAll('*').length === nodes;
        done([off, on, same, Object.values(el.state)[0]]);
      }, 30));
    }""")
    assert result == [False, True, True, 2]


THEMES = [
    ("document.documentElement.dataset.theme = %r", "dark", "light"),  # pydata-sphinx-theme
    ("document.body.dataset.jpThemeLight = %r", "false", "true"),  # JupyterLab
    ("document.documentElement.setAttribute('theme', %r)", "dark", "light"),  # Colab
    ("document.body.dataset.vscodeThemeKind = %r", "vscode-dark", "vscode-light"),
    ("document.body.dataset.vscodeThemeKind = %r", "vscode-high-contrast", "vscode-high-contrast-light"),
]


def has_background(locator, colour):
    """Waits for it: the browser tells of a new scheme with its next frame."""
    from playwright.sync_api import expect  # here, so that a machine without Playwright skips these tests

    expect(locator).to_have_css("background-color", colour)


@pytest.mark.parametrize("page_options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_follows_the_theme_of_the_page_and_its_changes(show):
    page = show("<body>", figures.mixture())
    card = page.locator("attn-mixture .card")
    clear = "for (const el of [document.documentElement, document.body]) el.removeAttribute(el.getAttributeNames()[0])"
    for code, dark, light in THEMES:
        for value, colour in ((dark, DARK), (light, LIGHT), (dark, DARK)):
            page.evaluate(code % value)
            has_background(card, colour)
        page.evaluate(clear)


def test_otherwise_follows_the_system(show, name):
    page = show(figure(name))
    card = page.locator(f"{figures.tag(name)} .card")
    for scheme, colour in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=scheme)
        has_background(card, colour)
    page.evaluate("document.documentElement.dataset.theme = 'auto'")
    page.emulate_media(color_scheme="dark")
    has_background(card, DARK)


def test_print_has_dark_ink_on_white_and_no_controls(show, name):
    page = show(figure(name), head="<script>document.documentElement.dataset.theme = 'dark'</script>")
    page.emulate_media(media="print")
    card = page.locator(f"{figures.tag(name)} .card")
    assert card.evaluate("el => getComputedStyle(el).backgroundColor") == LIGHT
    assert not page.locator(f"{figures.tag(name)} .controls").is_visible()
    assert page.locator(f"{figures.tag(name)} .formula").is_visible()


@pytest.mark.parametrize("page_options", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_the_picture_and_the_numbers_stay(show, name):
    page = show(figure(name))
    image = page.locator(f"{figures.tag(name)} img")
    assert image.is_visible() and image.bounding_box()["width"] > 500
    caption = page.locator(f"{figures.tag(name)} figcaption").inner_text()
    assert [words for words in FACTS[name].STILL if words not in caption] == []


def test_with_scripts_the_fallback_is_hidden(show, name):
    page = show(figure(name))
    assert not page.locator(f"{figures.tag(name)} img").is_visible()


def test_the_watch_sees_what_leaves_this_machine(watched_page, serve, tmp_path):
    (tmp_path / "index.html").write_text(
        "<img src='/here.svg'><img src='data:,'><img src='https://example.org/a.png'>"
        "<script>console.error('oh'); no()</script>"
    )
    (tmp_path / "here.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    watched_page.page.goto(serve(tmp_path))
    watched_page.page.wait_for_timeout(100)
    assert watched_page.requests == ["https://example.org/a.png"]
    assert "oh" in watched_page.errors and any("no is not defined" in error for error in watched_page.errors)


# --- the look --------------------------------------------------------------------------------------------------------

OVERLAPS = """(el, all) => {
  const root = el.shadowRoot, card = root.querySelector('.card'), edge = card.getBoundingClientRect();
  const labels = [...root.querySelectorAll('.mark, .disk, .xl, .yl, .slider label, .slider b, .h + *, .h, .key p > *, '
    + '.cell *, .badge')];
  return all.flatMap((values) => {
    el.change(values);
    const seen = labels.filter((n) => n.textContent.trim() && n.checkVisibility({ visibilityProperty: true }));
    const boxes = seen.map((n) => {
      const range = document.createRange();
      range.selectNodeContents(n);
      const { left, right, top, bottom } = (n.matches('.disk') ? n : range).getBoundingClientRect();
      return { what: n.textContent.trim(), left, right: right - 1, top: top + 2, bottom: bottom - 2 };
    });
    const bad = boxes.filter((a) => a.left < edge.left || a.right > edge.right || a.top < edge.top)
      .map((a) => `${a.what} is cut off`);
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      const apart = a.left >= b.right || b.left >= a.right || a.top >= b.bottom || b.top >= a.bottom;
      if (!apart) bad.push(`${a.what} | ${b.what}`);
    }));
    if (card.scrollWidth > Math.ceil(edge.width)) bad.push('wider than the card');
    return bad.map((what) => `${JSON.stringify(values)}: ${what}`);
  });
}"""


@pytest.mark.parametrize(
    "page_options",
    [{"viewport": {"width": 1280, "height": 900}}, {"viewport": {"width": 640, "height": 900}}, PHONE, PHONE_320],
    ids=["desktop", "zoom200", "phone390", "phone320"],
    indirect=True,
)
def test_no_label_covers_another_at_any_value(show, name):
    page = show(figure(name))
    assert page.locator(figures.tag(name)).evaluate(OVERLAPS, FACTS[name].EXTREMES) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page does not scroll sideways"


@pytest.mark.parametrize("page_options", [PHONE, PHONE_320], indirect=True)
def test_targets_are_large_enough_for_a_finger(show, name):
    page = show(figure(name))
    for target in page.locator(
        f"{figures.tag(name)} :is(input[type=range], button, label.chip, [tabindex]:not(.out))"
    ).all():
        box = target.bounding_box()
        assert box["height"] >= 40 and box["width"] >= 40


@pytest.mark.parametrize("page_options", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"], indirect=True)
def test_axe_finds_nothing(show):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    style = "<title>figures</title><style>:root{color-scheme:light dark}</style>"
    page = show("<main><h1>figures</h1>", *map(figure, figures.NAMES), "</main>", head=style)
    page.evaluate("document.documentElement.lang = 'en'")
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], n["target"], n["failureSummary"]) for v in found for n in v["nodes"]] == []
