"""The self-tests: every question is proved, asked once, at the end of its section; and what a notebook stores of it."""

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from html_tags import Tags

from attnlab import selftests
from attnlab.selftests import Question, question, right, wrong

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "book/_ext"))

import course  # noqa: E402

CHAPTERS = {int(Path(docname).name[:2]): ROOT / f"{docname}.ipynb" for docname in course.chapters(ROOT)}
QUESTIONS = [found for number in CHAPTERS for found in selftests.questions(number)]
by_chapter = pytest.mark.parametrize("chapter", CHAPTERS)
each = pytest.mark.parametrize("asked", QUESTIONS, ids=lambda found: found.id)

# The tags among JupyterLab's allowed ones (4.6, untrusted notebooks) that may remain.
SANITIZED = {"p", "strong", "details", "summary", "em", "code", "sub", "sup"}
ASIDE = {"What people get wrong", "Summary", "Exercises", "Further reading"}

EXAMPLE = Question(
    "ch9-example",
    "Copies",
    "Where does `α[1] < 1` leave *all* of d_k and e^s?",
    (wrong("Here.", "No: √d_k."), right("There.", "Yes: e^(q·k) & e^−s."), wrong("Nowhere.", "It is somewhere.")),
    lambda: None,
)


# ---- the questions of the book


@by_chapter
def test_every_chapter_has_its_own_self_tests(chapter):
    found = selftests.questions(chapter)
    module = f"attnlab.selftests.ch{CHAPTERS[chapter].stem[1:]}"
    assert found, f"chapter {chapter} has no self-tests: write {module}"
    assert {asked.proof.__module__ for asked in found} == {module}


def sections(cells):
    """(heading, the cells below it up to the next heading of any level), in order."""
    found = []
    for cell in cells:
        headings = []
        if cell["cell_type"] == "markdown":
            text = re.sub(r"(?ms)^```.*?^```", "", "".join(cell["source"]))
            headings = re.findall(r"(?m)^#{1,6} (.+?)\s*$", text)
        found += [(heading, []) for heading in headings]
        if not headings and found:
            found[-1][1].append(cell)
    return found


@by_chapter
def test_every_question_is_asked_once_at_the_end_of_the_section_to_reread(chapter):
    cells = json.loads(CHAPTERS[chapter].read_text("utf-8"))["cells"]
    expected = {asked.id: asked.section for asked in selftests.questions(chapter)}
    headings = [heading for heading, _ in sections(cells)]
    assert {section for section in expected.values() if headings.count(section) != 1} == set(), "not one such heading"
    assert ASIDE.isdisjoint(expected.values())
    placed = {}
    for heading, below in sections(cells):
        if below and below[-1]["id"] == "stop":  # "A good place to stop" comes after the question
            below.pop()
        while below and "selftest" in below[-1]["metadata"]:
            cell = below.pop()
            id = cell["metadata"]["selftest"]
            assert id not in placed, f"{id} is asked twice"
            assert "".join(cell["source"]) == f'selftests.ask("{id}")'
            assert cell["metadata"] == {"tags": ["remove-input"], "selftest": id}
            assert cell["id"] == f"ask-{id}"
            placed[id] = heading
        assert not [cell["id"] for cell in below if "selftests.ask" in "".join(cell["source"])], "not at the end"
    assert placed == expected


@each
def test_choices_differ_and_each_has_its_reason(asked):
    for texts in ([choice.text for choice in asked.choices], [choice.reason for choice in asked.choices]):
        assert all(texts) and len(set(texts)) == len(texts)
    assert all(choice.reason.endswith((".", "?", "`", ")")) for choice in asked.choices)
    assert asked.text.endswith(("?", ":", "."))


@each
def test_texts_use_the_allowed_marks_alone(asked):
    """`code`, *emphasis*, d_k and e^s; what no rule takes would stand on the page as it is typed."""
    for text in [asked.text, *(part for choice in asked.choices for part in (choice.text, choice.reason))]:
        assert text.count("`") % 2 == 0 and text == " ".join(text.split())
        assert not re.search(r"\$|\\|https?:|\]\(|&\w+;", text)
        assert not re.search(r"</?[a-zA-Z]", text.replace("`", ""))
        shown = re.sub(r"<code>.*?</code>|<[^>]*>", "", selftests._inline(text))
        assert not re.search(r"[*_^]", shown), shown


@each
def test_the_proof_asserts_and_holds(asked):
    tree = ast.parse(textwrap.dedent(inspect.getsource(asked.proof)))
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), "a proof asserts"
    asked.proof()


@by_chapter
def test_neither_place_nor_length_gives_the_right_choice_away(chapter):
    found = selftests.questions(chapter)
    places = [[choice.right for choice in asked.choices].index(True) for asked in found]
    longest = [max(asked.choices, key=lambda choice: len(choice.text)).right for asked in found]
    assert max(map(places.count, places)) <= len(found) / 2, places
    assert sum(longest) <= len(found) / 2


# ---- the engine


def test_an_unknown_id_names_the_near_ones():
    near = QUESTIONS[0].id
    with pytest.raises(ValueError, match=f"no self-test '{near}x': did you mean '{near}'"):
        selftests.ask(f"{near}x")
    with pytest.raises(ValueError, match=r"no self-test 'ch7-qqqqqqq'$"):
        selftests.ask("ch7-qqqqqqq")
    with pytest.raises(ValueError, match="no self-test 7"):
        selftests.ask(7)


def test_ask_gives_the_question_or_the_worth_of_a_choice():
    asked = QUESTIONS[0]
    assert selftests.ask(asked.id) is asked
    for number, choice in enumerate(asked.choices, 1):
        told = repr(selftests.ask(asked.id, number))
        assert told.startswith("✓ Right. " if choice.right else "✗ Not right. ")
    with pytest.raises(ValueError, match=f"{asked.id} has choices 1 to {len(asked.choices)}"):
        selftests.ask(asked.id, 0)


@pytest.mark.parametrize(
    ("id", "choices", "message"),
    [
        ("copies", EXAMPLE.choices, "must be ch, the chapter's number"),
        ("ch1-Copies", EXAMPLE.choices, "must be ch"),
        ("ch1-copies-", EXAMPLE.choices, "must be ch"),
        ("ch9-two", EXAMPLE.choices[:2], "3 or 4 choices"),
        ("ch9-five", EXAMPLE.choices + EXAMPLE.choices[::2], "3 or 4 choices"),
        ("ch9-none", EXAMPLE.choices[:1] * 3, "exactly one of them right"),
        ("ch9-both", EXAMPLE.choices[1:2] * 3, "exactly one of them right"),
        (QUESTIONS[0].id, EXAMPLE.choices, "is taken"),
    ],
)
def test_a_question_that_is_not_one_is_refused(id, choices, message):
    with pytest.raises(ValueError, match=message):
        question(id, section="Copies", text="Where?", choices=choices)(lambda: None)


def test_a_question_is_registered_with_its_proof(monkeypatch):
    monkeypatch.setattr(selftests, "_registered", {})

    @question("ch9-new", section="Copies", text="Where?", choices=list(EXAMPLE.choices))
    def proof():
        raise AssertionError("false")

    assert selftests.ask("ch9-new").chapter == 9
    with pytest.raises(AssertionError, match="false"):
        selftests.ask("ch9-new").proof()


def test_marks_become_tags_and_everything_else_is_escaped():
    html = EXAMPLE._repr_html_()
    assert "<p>Where does <code>α[1] &lt; 1</code> leave <em>all</em> of d<sub>k</sub> and e<sup>s</sup>?</p>" in html
    assert "√d<sub>k</sub>." in html and "e<sup>q·k</sup> &amp; e<sup>−s</sup>." in html
    for plain in ("block_q", "2 * 3 * 4", "to_torch_mha"):
        assert selftests._inline(plain) == plain


def test_apostrophes_are_those_of_print_outside_of_code_alone():
    marked = "the key's, the keys', it doesn't, `x`'s, d_k's; `a['s']`, 'quoted'"
    assert selftests._inline(marked) == (
        "the key’s, the keys’, it doesn’t, <code>x</code>’s, d<sub>k</sub>’s; <code>a['s']</code>, 'quoted'"
    )
    for asked in QUESTIONS:
        words = re.sub(r"(?s)<script>.*?</script>|<code>.*?</code>", "", asked._repr_html_())
        assert "'" not in words, asked.id


def test_a_terminal_reads_question_and_choices_and_is_told_nothing_beforehand():
    assert repr(EXAMPLE) == (
        "Check yourself\nWhere does `α[1] < 1` leave all of d_k and e^s?\n  1. Here.\n  2. There.\n  3. Nowhere.\n"
        "Your answer: selftests.ask('ch9-example', NUMBER)"
    )


def test_the_html_carries_its_script_once_and_reads_without():
    html = EXAMPLE._repr_html_()
    assert html.startswith(f"<script>{selftests.script()}</script>\n<attn-selftest ")
    assert html.count("<script") == html.count("</script>") == 1, "nbval's rule replaces <script>…</script>"
    kept = re.sub(r"(?s)<script>.*?</script>", "", html)
    tags = Tags(kept).seen
    assert {tag for tag, _ in tags} - {"attn-selftest"} == SANITIZED
    assert dict(tags)["attn-selftest"] == {
        "question": "ch9-example",
        "right": "2",
        "data-lm-suppress-shortcuts": "true",
    }
    assert [attributes for tag, attributes in tags if tag != "attn-selftest" and attributes] == []
    assert kept.count("✗ Not right.") == 2 and kept.count("✓ Right.") == 1


def test_output_is_the_same_in_another_process():
    id = QUESTIONS[-1].id
    code = f"from attnlab import selftests; print(selftests.ask({id!r})._repr_html_())"
    run = [sys.executable, "-X", "utf8", "-c", code]
    other = subprocess.run(run, capture_output=True, encoding="utf-8", check=True).stdout
    assert other == selftests.ask(id)._repr_html_() + "\n"


def test_script_is_one_small_guarded_function_without_imports_or_addresses():
    script = selftests.script()
    assert script.startswith("(() => {") and script.rstrip().endswith("})();")
    assert "if (customElements.get('attn-selftest')) return;" in script
    assert not re.search(r"\bimport\b|\bfetch\b|https?:|XMLHttpRequest|\beval\b|</script", script)
    assert not re.search(r"^(//|\s)", script, re.MULTILINE), "no comment lines, no indentation"
    assert len(script.encode()) < 7_000


def test_asking_loads_one_chapter_and_no_heavy_module():
    code = """
import sys
sys.modules["torch"] = None  # from here on, `import torch` raises ImportError
from attnlab import selftests
loaded = lambda: sorted(n.rpartition(".")[2] for n in sys.modules if n.startswith("attnlab.selftests.ch"))
print(loaded())
selftests.ask(ID)
print(loaded(), [n for n in ("torch", "matplotlib", "IPython", "scipy") if sys.modules.get(n)])
print(len(selftests.questions()))
""".replace("ID", repr(QUESTIONS[0].id))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    module = QUESTIONS[0].proof.__module__.rpartition(".")[2]
    assert done.stdout.splitlines() == ["[]", f"['{module}'] []", str(len(QUESTIONS))]
