"""Markdown from outside, as nbconvert renders it: it reads as it was written, and nothing in it is live."""

import re

import pytest
from bs4 import BeautifulSoup
from classroom_payloads import LIVE, NAMES, PAYLOADS, PNG, TAGS
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nbconvert.filters import markdown2html, strip_files_prefix
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from attnlab.classroom.gradebook.harmless import BREAK, COMMANDS, harmless

PICTURE = {"x.png": {"image/png": PNG}}
SKIPPED = ("pre", "code")  # where MathJax looks for no formulas


def rendered(markdown: str) -> BeautifulSoup:
    """As in nbgrader's pages, of a cell with one picture."""
    html = MarkdownWithMath(renderer=IPythonRenderer(escape=False, attachments=PICTURE)).render(markdown)
    return BeautifulSoup(strip_files_prefix(html), "html.parser")


def dead(page: BeautifulSoup) -> None:
    """Nothing opens, loads or runs, and no id is a field's."""
    for tag in page.find_all(True):
        assert tag.name in {*TAGS.split(), "div", "span"}
        assert set(tag.attrs) <= {"class", "id", "href", "src", "alt", "style", "start", "type", "disabled", "checked"}
        assert "href" not in tag.attrs or (tag["class"], tag["href"][0]) == (["anchor-link"], "#")
        assert "src" not in tag.attrs or (tag.name, tag["src"]) == ("img", f"data:image/png;base64,{PNG}")
        assert "id" not in tag.attrs or "%E2%80%8B" in tag["id"]
        assert re.fullmatch("text-align:(left|right|center)", tag.get("style", "text-align:left"))
        assert tag.name != "input" or "task-list-item-checkbox" in tag["class"]
        assert not {"mermaid", "score", "comment", "tabbable"} & set(tag.get("class", ()))
    for text in page.find_all(string=True):
        if not text.find_parents(SKIPPED):
            assert set(re.findall(r"\\([A-Za-z]+)", text)) <= COMMANDS - set(LIVE.split())


@pytest.mark.parametrize("text", PAYLOADS.values(), ids=PAYLOADS)
def test_what_is_not_ours_does_nothing_in_the_teachers_name(text):
    dead(rendered(harmless(text, PICTURE)))
    dead(BeautifulSoup(markdown2html(harmless(text)), "html.parser"))  # which refuses pictures that are not there


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_picture_opens_anything(name):
    dead(rendered(harmless(f"![p](attachment:{name}) [solution](javascript:alert(1))", [name, "x.png"])))


TOKENS = r"""
<script> <a href= <!-- --> <![CDATA[ <javascript:x> <1@b.c> &lt; &#60; &#36; &dollar; &bsol; &amp [a] [a ![a ]( ]:
][ ( ) [ ] (javascript:x) attachment:x.png ![a](attachment:x.png) ![ [a]: javascript:x http://b.cd https: // :
files/ href= \href{javascript:x}{y} \hr ef \class \ce{ } $ $$ \$ \( \[ \\( \\) \\[ \\] \begin{a} \end{a} \alpha \\ \
` ``` ~~~ mermaid ```mermaid # ## == -- - * > 1. | |---| _ ** ~~ [x] a notebook " ' onerror=x
"""
SPACES = ["\n", "\n\n", " ", "    ", "\t", "\r", "\x00", "\x0b", "\x0c", "\u00a0", "\u2028", "\u200b"]


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.sampled_from(TOKENS.split()) | st.sampled_from(SPACES) | st.text(max_size=4), max_size=14).map("".join)
)
@example("[q ![a](attachment:x.png)](javascript:x)")
@example("a\n\r==")
def test_nothing_at_all_does_anything(text):
    dead(rendered(harmless(text, PICTURE)))


# ---- it reads as it was written --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, 50 % of them: (a) *emphasis*, __more__; [1], ~~gone~~ & so on - at 12:30!",
        "a < b and **c**, $x_1 < y$",
        "> quoted",
        "- one\n- two\n  - [x] three\n\n1. first\n2. second",
        "| a | b |\n|---|:-:|\n| 1 | 2 |",
        "w[i, j] = 3, `x[i] (j)`, `f(a, b)` and a & b",
        "```python\nfor i in range(3):\n    w[i] = q[i] @ k.T / np.sqrt(d)\n```",
        "one\n\n---\n\ntwo",
        r"$\operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right) V \in \mathbb{R}^{n \times d}$",
        "$$\n\\alpha_{ij} = \\frac{\\exp(s_{ij})}{\\sum_{k=1}^n \\exp(s_{ik})} \\quad \\text{for } i \\leq n\n$$",
        r"\begin{align} x &= \begin{pmatrix} a & b \\ c & d \end{pmatrix} \tag{1} \end{align}",
        r"\\(\hat{y} \approx \max_i \lVert w_i \rVert\\) and \\[\lim_{n \to \infty} \mathbf{x}_n\\]",
        "![my drawing, at 10:30](attachment:x.png) and ![](attachment:x.png)",
    ],
)
def test_plain_markdown_is_untouched(text):
    assert harmless(text, PICTURE) == text


@pytest.mark.parametrize("text", [*PAYLOADS.values(), "# A heading", "`<b>` a[i](b)", "see https://a.bc", "a &lt; b"])
def test_what_was_taken_apart_still_reads_as_it_was_written(text):
    readable = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text.replace("\r", "\n"))
    assert harmless(text, PICTURE).replace(BREAK, "") == readable != harmless(text, PICTURE)


def test_headings_pictures_and_code_are_shown():
    page = rendered(harmless("# My *answer*\n\n![mine](attachment:x.png)\n\n    <b>a & b</b>\n\n## Then", PICTURE))
    assert [tag.get_text().strip(f"{BREAK}¶") for tag in page.find_all(["h1", "h2"])] == ["My answer", "Then"]
    assert page.h1.em.get_text() == "answer"
    assert [(img["src"], img["alt"]) for img in page.find_all("img")] == [(f"data:image/png;base64,{PNG}", "mine")]
    assert page.code.get_text().replace(BREAK, "") == "<b>a & b</b>"


@pytest.mark.parametrize("piece", ["[", "![", "](", "<", "<a", "&a", "`", "-", "> ", "#", "=\n", "\\", ":/", " ", "~ "])
def test_the_longest_text_is_done_in_a_moment(piece):
    """Were it quadratic, each would take minutes."""
    assert len(harmless("a\n" + piece * 200_000 + "x")) >= 200_000
