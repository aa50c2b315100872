"""The live figures in a real browser: what holds for every one. Its own tests and facts: `test_figure_NAME.py`."""

import importlib
import io
from math import sqrt

import pytest
from conftest import PHONE
from figure_page import figure, state, text
from matplotlib import pyplot

from attnlab import figures

FACTS = {name: importlib.import_module(f"test_figure_{name}") for name in figures.NAMES}
# What is pressed beside the controls of the base: each at least a fingertip wide.
TAPPED = {
    "masking": ".cell",
    "split_merge": "[ref=x] .cell",
    "online_softmax": ".key",
    "rankings": "tbody tr",
    "heads": ".rows div",  # a slider chooses the same
}
# The tallest that a card may be on a phone, in CSS pixels: 390 wide, 320 wide.
TALLEST = {
    "mixture": (720, 780),
    "sharpness": (870, 880),
    "saturation": (690, 740),
    "masking": (680, 740),
    "scoring": (650, 680),
    "split_merge": (844, 930),
    "heads": (960, 980),
    "kv_cache": (690, 740),
    "online_softmax": (680, 800),
    "null_space": (700, 730),
    "rankings": (760, 780),
}
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


def test_every_stop_of_the_tab_key_shows_itself_and_leaves_its_label_alone(show, name):
    page = show(figure(name))
    card = page.locator(f"{figures.tag(name)} .card")
    labels = card.locator(".slider > :not(input)")
    free, plain = [label.screenshot() for label in labels.all()], card.screenshot()
    for _ in FACTS[name].TAB_ORDER:
        page.keyboard.press("Tab")
        assert card.screenshot() != plain
        if card.locator("input[type=range]:focus").count():
            assert [label.screenshot() for label in labels.all()] == free


def test_a_slider_has_a_name_and_says_its_value(show, name):
    page = show(figure(name))
    for slider in page.locator(figures.tag(name)).get_by_role("slider").all():
        said = slider.get_attribute("aria-valuetext")
        assert slider.evaluate("el => el.ariaLabel || el.labels[0].textContent")
        assert said and len(said) < 30, "the summary is spoken by the status, once"
        before = slider.evaluate("el => el.value ?? ''")
        for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):
            slider.press(key)
            if name != "null_space" and slider.evaluate("el => el.value ?? ''") != before:
                assert slider.get_attribute("aria-valuetext") != said


def test_what_changes_is_spoken_once_and_nothing_runs_on(show, name, watched_page):
    watched_page.page.clock.install()
    page = show(figure(name))
    page.clock.pause_at(page.evaluate("Date.now()") + 5000)
    host = page.locator(figures.tag(name))
    host.evaluate(
        """(el, states) => {
      window.said = 0;
      const live = el.shadowRoot.querySelector('[role=status]');
      new MutationObserver(() => said++).observe(live, { characterData: true, subtree: true });
      for (const state of states) el.change(state);
      el.change(states[1]);
    }""",
        FACTS[name].EXTREMES,
    )
    page.clock.run_for(600)
    assert page.evaluate("said") == 0
    page.clock.run_for(200)
    assert page.evaluate("said") == 1
    page.evaluate("""() => { window.waits = 0;
      for (const f of ['setTimeout', 'setInterval', 'requestAnimationFrame', 'requestIdleCallback']) {
        const real = window[f];
        window[f] = (...all) => { waits++; return real.apply(window, all); };
      } }""")
    page.clock.run_for(5000)
    assert page.evaluate("[said, waits]") == [1, 0]


def test_only_what_changes_is_drawn(show, name):
    page = show(figure(name))
    counts = page.locator(figures.tag(name)).evaluate(
        """(el, [a, b]) => {
      let draws = 0;
      const { draw } = el;
      el.draw = (...all) => { draws++; return draw.apply(el, all); };
      const count = (act) => { draws = 0; act(); return draws; };
      el.change(a);
      const input = el.shadowRoot.querySelector('input[type=range]');
      return [count(() => el.change(b)), count(() => el.change(b)), count(() => el.change({ ...el.state })),
        input ? count(() => input.dispatchEvent(new Event('input', { bubbles: true }))) : 0];
    }""",
        [FACTS[name].EXTREMES[0], FACTS[name].EXTREMES[-1]],
    )
    assert counts == [1, 0, 0, 0]


@pytest.mark.parametrize("name", ["masking", "heads", "rankings"])
def test_a_mouse_that_stays_on_one_thing_draws_nothing(show, name):
    page = show(figure(name))
    page.locator(figures.tag(name)).evaluate("""el => {
      const { draw } = el;
      window.draws = 0;
      el.draw = (...all) => { draws++; return draw.apply(el, all); };
    }""")
    box = page.locator(f"{figures.tag(name)} {TAPPED[name]}").nth(7).bounding_box()
    for step in range(12):
        page.mouse.move(box["x"] + 4 + step * (box["width"] - 8) / 12, box["y"] + 5 + step * (box["height"] - 10) / 12)
    assert page.evaluate("draws") == 1


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


def test_a_bad_attribute_is_named_in_the_figure(show, name):
    page = show(figure(name))
    host, fault = page.locator(figures.tag(name)), page.locator(f"{figures.tag(name)} .fault")
    assert not fault.is_visible()
    for attribute in host.evaluate("el => el.constructor.observedAttributes"):
        control = host.evaluate("(el, name) => el.constructor.controls[name] ?? { max: 0 }", attribute)
        if "max" not in control and "options" not in control:
            continue  # there or not there: no value is bad
        for value in ("nonsense", "", "1e9"):
            host.evaluate("(el, [name, value]) => el.setAttribute(name, value)", [attribute, value])
            assert f'{attribute}="{value}" is not ' in fault.inner_text()
            assert "NaN" not in text(page, name) and "undefined" not in text(page, name)
        host.evaluate("(el, name) => el.removeAttribute(name)", attribute)
        assert not fault.is_visible()


@pytest.mark.parametrize("name", ["heads", "kv_cache", "rankings"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda html: (
            html.replace(" data-heads=", " data-x=")
            .replace(" data-tables=", " data-x=")
            .replace(" data-rankings=", " data-x=")
        ),
        lambda html: html.replace("='{", "='").replace('="{', '="').replace("='[", "='").replace('="[', '="'),
    ],
    ids=["missing", "damaged"],
)
def test_missing_data_leave_the_picture_and_say_so(show, name, damage):
    html = figure(name)._repr_html_()
    script, element = html.split("</script>")
    assert damage(element) != element
    page = show(script + "</script>" + damage(element))
    assert f"{figures.tag(name)} cannot start: data-" in page.get_by_role("alert").inner_text()
    assert page.locator(f"{figures.tag(name)} img").is_visible()
    page.locator(figures.tag(name)).evaluate("el => { document.body.append(el); el.remove(); }")


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


@pytest.mark.parametrize(
    "page_options",
    [{"java_script_enabled": False, "color_scheme": scheme} for scheme in ("light", "dark")],
    ids=["light", "dark"],
    indirect=True,
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_follows_a_page_that_says_its_scheme(show, name, theme):
    """And not the system behind it: where a page says nothing, no picture can know, and the system decides."""
    page = show(figure(name), head=f"<style>:root{{color-scheme:{theme}}}</style>")
    image = io.BytesIO(page.locator(f"{figures.tag(name)} img").screenshot())
    assert (sum(pyplot.imread(image)[14, 7, :3]) > 1.5) == (theme == "light")


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


@pytest.mark.parametrize("page_options", [{}, PHONE], ids=["desktop", "phone"], indirect=True)
def test_letters_twice_as_large_lose_nothing(show, name):
    """The reader's own size of letters, and not a zoom: the page stays as wide as it is."""
    page = show(figure(name), head="<style>:root{font-size:200%}</style>")
    found = page.locator(figures.tag(name)).evaluate(OVERLAPS, FACTS[name].EXTREMES[:3])
    assert [one for one in found if "cut off" in one or "wider" in one] == []
    cut = """el => { const card = el.shadowRoot.querySelector('.card').getBoundingClientRect();
      return [...el.shadowRoot.querySelectorAll('p, b, td, th, .formula span, label, button')].filter((n) => {
        const box = n.getBoundingClientRect();
        return n.checkVisibility() && !n.matches('.sr') && (box.right > card.right || box.left < card.left);
      }).map((n) => n.textContent); }"""
    assert page.locator(figures.tag(name)).evaluate(cut) == []


@pytest.mark.parametrize("page_options", [PHONE, PHONE_320], indirect=True)
def test_targets_are_large_enough_for_a_finger(show, name):
    page = show(figure(name))
    for target in page.locator(
        f"{figures.tag(name)} :is(input[type=range], button, label.chip, [tabindex]:not(.out))"
    ).all():
        box = target.bounding_box()
        assert box["height"] >= 40 and box["width"] >= 40
    others = page.locator(f"{figures.tag(name)} {TAPPED.get(name, 'none')}:visible").all() if name != "heads" else []
    assert bool(others) == (name in TAPPED and name != "heads")
    for target in others:
        box = target.bounding_box()
        assert box["height"] >= 24 and box["width"] >= 24


@pytest.mark.parametrize("page_options", [PHONE, PHONE_320], ids=["390", "320"], indirect=True)
def test_height_on_a_phone(show, name, request):
    page = show(figure(name))
    height = page.locator(f"{figures.tag(name)} .card").bounding_box()["height"]
    assert height <= TALLEST[name]["390" not in request.node.callspec.id]


@pytest.mark.parametrize("page_options", [{}, PHONE, PHONE_320], ids=["desktop", "390", "320"], indirect=True)
def test_a_card_is_as_high_in_every_state(show, name):
    """Or a slider leaves the finger that moves it."""
    page = show(figure(name))
    heights = page.locator(figures.tag(name)).evaluate(
        """(el, all) => all.map((values) => {
      el.change(values);
      return [el.shadowRoot.querySelector('.card').getBoundingClientRect().height.toFixed(1), JSON.stringify(values)];
    })""",
        FACTS[name].EXTREMES,
    )
    assert len(heights) > 5 and [found for found in heights if found[0] != heights[0][0]] == []


def test_a_title_and_what_to_do_first_in_one_line(show, name):
    page = show(figure(name))
    kind = f"customElements.get('{figures.tag(name)}')"
    title, first = page.evaluate(f"[{kind}.title, {kind}.first]")
    line = page.locator(f"{figures.tag(name)} .first")
    assert line.inner_text() == f"{title}. {first}" and line.bounding_box()["height"] < 25
    assert title[-1].isalnum() and first.endswith(".")
    assert page.get_by_role("group", name=title, exact=True).is_visible()


@pytest.mark.parametrize("page_options", [{"forced_colors": "active"}], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_are_those_of_the_system(show, name, scheme):
    page = show(figure(name), "<p style='color:CanvasText;background:Canvas'>text</p>")
    page.emulate_media(forced_colors="active", color_scheme=scheme)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    colours = "el => [getComputedStyle(el).color, getComputedStyle(el).backgroundColor]"
    expected = page.locator("body > p").evaluate(colours)
    assert expected[0] != expected[1]
    assert page.locator(f"{figures.tag(name)} .card").evaluate(colours) == expected


@pytest.mark.parametrize("page_options", [{"forced_colors": "active"}], indirect=True)
@pytest.mark.parametrize("name", figures.PLOTTED)
def test_in_forced_colours_a_grid_is_fainter_than_what_is_drawn_on_it(show, name):
    page = show(figure(name))
    far = """el => { // red, green and blue of the grid and of letters, away from the background
      const root = el.shadowRoot, pen = document.createElement('canvas').getContext('2d');
      const { color, backgroundColor } = getComputedStyle(root.querySelector('.card'));
      const bytes = (colour) => { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3); };
      const empty = bytes(backgroundColor);
      const away = (colour) => bytes(colour).reduce((sum, x, i) => sum + Math.abs(x - empty[i]), 0);
      return [away(getComputedStyle(root.querySelector('.grid')).stroke), away(color)];
    }"""
    grid, letters = page.locator(figures.tag(name)).evaluate(far)
    assert 0.3 * letters < grid < 0.7 * letters
    on_it = page.locator(f"{figures.tag(name)} :is(.halo b, i.halo)")
    assert (on_it.count() > 0) == (name != "saturation"), "there, no letter stands on a line"
    behind = on_it.evaluate_all("all => all.map((el) => getComputedStyle(el).backgroundColor)")
    assert set(behind) <= {
        page.locator(f"{figures.tag(name)} .card").evaluate("el => getComputedStyle(el).backgroundColor")
    }


@pytest.mark.parametrize("page_options", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"], indirect=True)
def test_axe_finds_nothing(show):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    style = "<title>figures</title><style>:root{color-scheme:light dark}</style>"
    page = show("<main><h1>figures</h1>", *map(figure, figures.NAMES), "</main>", head=style)
    page.evaluate("document.documentElement.lang = 'en'")
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], n["target"], n["failureSummary"]) for v in found for n in v["nodes"]] == []
