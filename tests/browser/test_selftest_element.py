"""A self-test in a real browser: right, wrong, by keyboard, remembered, without storage, dark, narrow, on paper."""

import re

import pytest
from conftest import PHONE

from attnlab.selftests import Question, right, wrong

KEY = "attention-measured.selftests"
PHONE_320 = PHONE | {"viewport": {"width": 320, "height": 640}}


def example(id="ch9-example"):
    return Question(
        id,
        "Copies of a key",
        "A key with d_k numbers is stored *twice*. What happens to the share of its value?",
        (
            wrong("It doubles.", "Only its summand e^s doubles: the sum below it grows, too."),
            right(
                "It grows, but less than twofold, as long as `keys` holds another one.",
                "The sum below it grows by e^s.",
            ),
            wrong("It stays.", "Softmax runs over rows, and there are two of them now."),
        ),
        lambda: None,
    )


def button(page, words, which=0):
    return page.locator("attn-selftest").nth(which).get_by_role("button", name=re.compile(words))


def shown(page, which=0):
    """What can be read of it, spaces evened out."""
    return " ".join(page.locator("attn-selftest").nth(which).locator(".card").inner_text().split())


def stored(page):
    return page.evaluate(f"JSON.parse(localStorage.getItem('{KEY}'))")


def test_before_an_answer_nothing_is_given_away(show):
    page = show(example())
    assert shown(page) == (
        "Check yourself A key with dk numbers is stored twice. What happens to the share of its value? "
        "It doubles. It grows, but less than twofold, as long as keys holds another one. It stays."
    )
    assert page.locator("attn-selftest [aria-pressed=false]").count() == 3
    assert not page.locator("attn-selftest summary").first.is_visible(), "the folded form is hidden"


def test_a_wrong_choice_gets_its_reason_and_another_may_be_tried(show):
    page = show(example())
    button(page, "It doubles").click()
    assert "✗ Not right. Only its summand es doubles" in shown(page) and "The sum below" not in shown(page)
    first = button(page, "It doubles")
    assert first.get_attribute("aria-pressed") == "true" and first.get_attribute("class") == "wrong"
    button(page, "less than twofold").click()
    assert "✗ Not right. Only" in shown(page) and "✓ Right. The sum below it grows by es." in shown(page)
    assert button(page, "less than twofold").get_attribute("class") == "right"
    assert button(page, "It stays").get_attribute("aria-pressed") == "false"
    assert stored(page)["ch9-example"]["right"] is True


def test_one_region_speaks_the_reason_of_each_press_once(show):
    page = show(example())
    page.locator("attn-selftest").evaluate(
        """el => { window.spoken = []; window.regions = el.shadowRoot.querySelectorAll('[role=status], [aria-live]');
           for (const region of regions)
             new MutationObserver(() => region.textContent && spoken.push(region.textContent))
               .observe(region, { childList: true }); }"""
    )
    for words in ("It stays", "It doubles", "It doubles", "less than", "It stays"):
        button(page, words).click()
    softmax = "✗ Not right. Softmax runs over rows, and there are two of them now."
    summand = "✗ Not right. Only its summand es doubles: the sum below it grows, too."
    assert page.evaluate("spoken") == [softmax, summand, "✓ Right. The sum below it grows by es.", softmax]
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("[regions.length, regions[0].textContent]") == [1, ""], "who reads on meets no reason twice"


def test_a_verdict_belongs_to_its_button_and_the_group_is_called_by_its_question(show):
    page = show(example())
    button(page, "It stays").click()
    button(page, "It doubles").click()
    name = "Check yourself A key with dk numbers is stored twice. What happens to the share of its value?"
    assert page.get_by_role("group", name=name, exact=True).count() == 1
    described = page.locator("attn-selftest").evaluate(
        """el => [...el.shadowRoot.querySelectorAll('.choice button')].map(b => b.getAttribute('aria-describedby'))
           .map(id => id && el.shadowRoot.getElementById(id).textContent)"""
    )
    assert described == ["✗ Not right.", None, "✗ Not right."]


def test_by_keyboard(show):
    page = show('<div class="jp-Cell" tabindex="-1">', example(), "</div>")
    focused = "document.querySelector('attn-selftest').shadowRoot.activeElement?.textContent"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "✗ Not right. Only" in shown(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert "✓ Right." in shown(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Forget my answer"
    page.keyboard.press("Enter")
    assert "Right." not in shown(page) and "It doubles." in page.evaluate(focused)
    assert stored(page) == {}
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "jp-Cell"


def test_answers_are_remembered_and_forgotten_one_by_one(show, serve, tmp_path):
    page = show(example("ch9-one"), example("ch9-two"))
    page.goto(f"{serve(tmp_path)}/page.html")  # of a file, Chromium now and then forgets at a reload
    button(page, "It doubles", 0).click()
    button(page, "less than", 1).click()
    page.reload()
    assert "✗ Not right. Only" in shown(page, 0) and "✓ Right." not in shown(page, 0)
    assert "✓ Right." in shown(page, 1)
    assert "1 of 2 self-tests right" in shown(page, 0) and "1 of 2 self-tests right" in shown(page, 1)
    button(page, "Forget", 1).click()
    assert "0 of 2 self-tests right" in shown(page, 0)
    page.reload()
    assert "✗" in shown(page, 0) and "✓" not in shown(page, 1)


def test_another_tab_and_the_page_itself_may_change_what_is_remembered(show):
    page = show(example())
    told = "dispatchEvent(new StorageEvent('storage'))"
    page.evaluate(f"localStorage['{KEY}'] = JSON.stringify({{'ch9-example': {{tried: ['It stays.']}}}}); {told}")
    assert "✗ Not right. Softmax runs over rows" in shown(page)
    page.evaluate(f"localStorage.removeItem('{KEY}'); {told}")
    assert "Not right" not in shown(page)


def test_an_answer_is_told_to_the_page(show):
    page = show(example())
    page.evaluate("document.addEventListener('attn-answer', (e) => { window.told = e.detail })")
    button(page, "less than").click()
    assert page.evaluate("told.question") == "ch9-example" and page.evaluate("told.right") is True
    button(page, "Forget").click()
    assert page.evaluate("[told.choice, told.right]") == [None, False]


NONSENSE = [
    "{not json",
    "7",
    "null",
    "[1]",
    '{"ch9-one": 7}',
    '{"ch9-one": null, "ch9-two": {"tried": 3}}',
    '{"ch9-one": {"tried": ["a choice that was reworded"], "right": "yes"}}',
]


@pytest.mark.parametrize(
    "broken",
    [
        "Object.defineProperty(window, 'localStorage', {configurable: true, get() { throw new DOMException('no'); }})",
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
        *(f"localStorage.setItem('{KEY}', '{text}')" for text in NONSENSE),
    ],
)
def test_without_storage_or_with_nonsense_in_it_one_can_answer(watched_page, show, broken):
    watched_page.page.add_init_script(broken)
    page = show(example("ch9-one"), example("ch9-two"))
    assert "right" not in shown(page, 0).lower()
    button(page, "It stays", 0).click()
    button(page, "less than", 0).click()
    button(page, "less than", 1).click()
    assert "✗ Not right. Softmax" in shown(page, 0) and "✓ Right." in shown(page, 0)
    assert "2 of 2 self-tests right" in shown(page, 0)
    button(page, "Forget", 0).click()
    assert "✗" not in shown(page, 0) and "1 of 2 self-tests right" in shown(page, 1)


def test_moved_removed_and_put_back(show):
    page = show(example(), "<main></main>")
    button(page, "It stays").click()
    page.locator("attn-selftest").evaluate(
        "el => { document.querySelector('main').append(el); el.remove(); document.body.append(el); }"
    )
    button(page, "less than").click()
    assert shown(page).count("✓ Right.") == shown(page).count("✗ Not right.") == 1


@pytest.mark.parametrize("page_options", [{"java_script_enabled": False}], indirect=True)
@pytest.mark.parametrize("kept", ["all", "what a sanitizer keeps"])
def test_without_scripts_each_choice_unfolds_its_verdict(show, kept):
    html = example()._repr_html_()
    if kept != "all":
        html = re.sub(r"(?s)<script>.*?</script>|</?attn-selftest[^>]*>", "", html)
    page = show(html)
    assert page.get_by_text("What happens to the share of its value?").is_visible()
    assert not page.get_by_text("Only its summand").is_visible()
    page.get_by_text("It doubles.").click()
    assert page.get_by_text("✗ Not right. Only its summand").is_visible()
    page.get_by_text("less than twofold").click()
    assert page.get_by_text("✓ Right.").is_visible()


GROUNDS = {"light": ("#fff", "#1c2530"), "dark": ("#14181e", "#e8edf3"), "JupyterLab's dark": ("#111111", "#ffffffde")}


@pytest.mark.parametrize("ground", GROUNDS)
def test_axe_finds_nothing_on_any_ground_and_ink_follows_the_page(show, ground):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    paper, ink = GROUNDS[ground]
    style = f"<title>self-tests</title><style>body{{background:{paper};color:{ink}}}</style>"
    page = show("<main><h1>self-tests</h1>", example(), "</main>", head=style)
    page.evaluate("document.documentElement.lang = 'en'")
    button(page, "It doubles").click()
    button(page, "less than").click()
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], n["target"], n["failureSummary"]) for v in found for n in v["nodes"]] == []
    colour = "el => getComputedStyle(el).color"
    assert button(page, "It stays").evaluate(colour) == page.locator("body").evaluate(colour)


@pytest.mark.parametrize(
    "page_options", [PHONE_320, {"viewport": {"width": 640, "height": 450}}], ids=["phone320", "zoom200"], indirect=True
)
def test_narrow_it_keeps_to_its_column_and_fingers_find_it(show, page_options):
    page = show(example("ch9-one"), example("ch9-two"))
    button(page, "It doubles", 0).click()
    button(page, "less than", 0).click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    card = page.locator("attn-selftest .card").first
    assert card.evaluate("el => el.scrollWidth <= el.clientWidth")
    for target in page.locator("attn-selftest button:visible").all():
        box = target.bounding_box()
        assert box["height"] >= 44 and box["width"] >= 44


def test_paper_asks_first_and_answers_in_one_line_at_the_end(show):
    page = show(example())
    page.emulate_media(media="print")
    asked = page.locator("attn-selftest").screenshot()
    assert shown(page) == (
        "Check yourself A key with dk numbers is stored twice. What happens to the share of its value? "
        "A. It doubles. B. It grows, but less than twofold, as long as keys holds another one. C. It stays. "
        "Right: B. The sum below it grows by es."
    )
    page.emulate_media(media="screen")
    button(page, "It doubles").click()
    button(page, "less than").click()
    page.mouse.move(0, 0)
    page.locator("attn-selftest").evaluate("el => el.shadowRoot.activeElement.blur()")
    page.emulate_media(media="print")
    assert page.locator("attn-selftest").screenshot() == asked, "paper shows no mark of what was pressed"
    assert button(page, "It stays").evaluate("el => getComputedStyle(el).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_the_page_lends_its_colours_and_a_grey_stands_in_elsewhere(show):
    page = show(example("ch9-one"), "<div style='--line:#dfe4ea;--soft:#f3f5f8'>", example("ch9-two"), "</div>")
    look = """el => [getComputedStyle(el.shadowRoot.querySelector('.card')).borderTopColor,
                     getComputedStyle(el.shadowRoot.querySelector('button')).backgroundColor]"""
    tests = page.locator("attn-selftest")
    assert tests.nth(1).evaluate(look) == ["rgb(223, 228, 234)", "rgb(243, 245, 248)"]
    assert tests.nth(0).evaluate(look) == ["rgba(128, 128, 128, 0.5)", "rgba(128, 128, 128, 0.1)"]


def test_nothing_moves(show):
    page = show(example())
    moving = page.locator("attn-selftest").evaluate(
        "el => [...el.shadowRoot.querySelectorAll('*')].filter(e => parseFloat(getComputedStyle(e).transitionDuration) "
        "|| getComputedStyle(e).animationName !== 'none').length"
    )
    assert moving == 0
