"""The book as files: it builds without a warning, its links resolve, it asks no other host, its claims are run."""

import base64
import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from book_fixtures import ROOT, build, copy_sources
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from pygments.formatters import HtmlFormatter

sys.path += [str(ROOT / "book/_ext"), str(ROOT / "book/tools")]

import claims
import colab
import course
import lean_pages
import live_figures
import publishing
from sphinx.errors import ConfigError

from attnlab import figures, selftests

# A fork as awkward as its names may be: capitals, a dot, a site in a folder of a folder, a branch with a slash.
REPOSITORY, BRANCH = "https://github.com/Some-One/Their.Fork", "next/edition"
SITE = "https://someone.example/courses/Their.Fork"
COLAB = "https://colab.research.google.com/github/Some-One/Their.Fork/blob/gh-pages/colab/"


LOADS = [("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("link", "href")]
ELSEWHERE = r"url\(['\"]?(https?:)?//|@import\s+['\"](https?:)?//"


@pytest.fixture(scope="module")
def pages(built_book):
    return {path: BeautifulSoup(path.read_text(encoding="utf8"), "html.parser") for path in built_book.rglob("*.html")}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The book as somebody publishes it, with the addresses of a fork."""
    out = tmp_path_factory.mktemp("published")
    result = build(ROOT, out, REPOSITORY=REPOSITORY + "/", SITE=SITE + "/", BRANCH=BRANCH)
    assert result.returncode == 0, result.stdout + result.stderr
    html = out / "_build/html"
    found = {path: BeautifulSoup(path.read_text(encoding="utf8"), "html.parser") for path in html.rglob("*.html")}
    return {path.relative_to(html).as_posix(): page for path, page in found.items()}


@pytest.fixture
def sources(tmp_path):
    return copy_sources(tmp_path)


# ---- the pages


def test_no_page_loads_anything_from_another_host(pages, built_book):
    for path, page in pages.items():
        for tag, attribute in LOADS:
            for element in page.find_all(tag, **{attribute: True}):
                assert not re.match(r"(https?:)?//", element[attribute]), f"{path}: {element}"
        for style in [*page.find_all("style"), *page.find_all(style=True)]:
            assert not re.search(ELSEWHERE, str(style)), f"{path}: {style}"
    for path in [*built_book.rglob("*.css")]:
        assert not re.search(ELSEWHERE, path.read_text(encoding="utf8")), path


def test_every_internal_link_and_anchor_resolves(pages, built_book):
    anchors = {path: {e["id"] for e in page.find_all(id=True)} for path, page in pages.items()}
    for path, page in pages.items():
        for element in page.find_all(["a", "link", "script", "img"]):
            link = element.get("href") or element.get("src") or ""
            if not link or re.match(r"\w+:|//", link):
                continue
            file, anchor = urldefrag(link)
            target = (path.parent / unquote(file.split("?")[0])).resolve() if file else path
            assert target.exists(), f"{path.relative_to(built_book)} links to {link}"
            if anchor and target in anchors and element.get("class") != ["headerlink"]:
                assert unquote(anchor) in anchors[target], f"{path.relative_to(built_book)} links to {link}"


def test_what_is_not_used_is_not_shipped(built_book):
    shipped = {path.name for path in built_book.rglob("*")}
    unwanted = r"fontawesome|thebe|togglebutton|design-tabs|fa-solid|mathjax|require|html-manager|\.map$"
    assert not [name for name in shipped if re.search(unwanted, name, flags=re.I)]


def test_code_on_a_page_is_the_code_of_the_notebook_with_tags_only_where_there_is_a_colour(pages, built_book):
    page = pages[built_book / "notebooks/04_multi_head.html"]
    shown = [pre.get_text().rstrip("\n") for pre in page.select("div.cell_input pre")]
    notebook = json.loads((ROOT / "notebooks/04_multi_head.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    hidden = [cell for cell in code if "remove-input" in cell["metadata"].get("tags", [])]
    assert all("selftest" in cell["metadata"] for cell in hidden), "a page leaves out no line but the self-tests'"
    assert shown == ["".join(cell["source"]) for cell in code if cell not in hidden]
    classes = {name for span in page.select("div.cell_input pre span[class]") for name in span["class"]}
    assert classes.isdisjoint({"n", "nn", "p", "w"}) and {"k", "c1", "o"} <= classes


def test_no_page_carries_the_script_of_a_figure_and_each_says_where_it_lies(pages, built_book):
    now = {f"figures/{name}.js": figures.script(name) for name in figures.NAMES} | {"selftest.js": selftests.script()}
    lying = {str(p.relative_to(built_book / "_static")): p.read_text("utf-8") for p in built_book.rglob("figures/*.js")}
    assert lying | {"selftest.js": (built_book / "_static/selftest.js").read_text("utf-8")} == now
    named = set()
    for path, page in pages.items():
        assert not [script for script in page.find_all("script") if "customElements" in script.get_text()], path
        for element in page.select("[data-lm-suppress-shortcuts]"):
            file = (path.parent / element["data-script"].partition("?")[0]).resolve()
            assert file.is_file(), f"{path}: {element['data-script']}"
            named.add((element.name, element["data-script"]))
        if page.select("[data-lm-suppress-shortcuts]"):
            assert page.select("script[src*='live.js'][defer]"), path
    assert {name for name, _ in named} == {*map(figures.tag, figures.NAMES), "attn-selftest"}
    files = {name: {address.rpartition("_static/")[2] for n, address in named if n == name} for name, _ in named}
    assert all(len(addresses) == 1 for addresses in files.values()), "one address each, for the whole book"


def test_only_the_script_in_front_of_its_own_element_goes():
    figure, other = figures.mixture()._repr_html_(), "<script>let x = 1;</script>"
    kept = live_figures.without_scripts(f"{other}{figure}{other}<attn-mixture></attn-mixture>", "../_static/")
    address = re.search(r'<attn-mixture data-script="(\.\./_static/figures/mixture\.js\?v=[0-9a-f]{8})"', kept)[1]
    assert kept.count(other) == 2 and kept.count("<script>") == 2 and kept.count(address) == 1
    rest = re.sub(r"(?s)<script>.*?</script>\n", "", figure)
    assert kept.replace(f' data-script="{address}"', "") == f"{other}{rest}{other}<attn-mixture></attn-mixture>"


def test_no_page_names_the_machine_it_was_built_on(pages):
    for path, page in pages.items():
        assert str(ROOT) not in str(page), path


# ---- formulas


def test_formulas_are_mathml_and_nothing_is_left_to_a_script(pages):
    formulas = [(path, math) for path, page in pages.items() for math in page.find_all("math")]
    assert len(formulas) > 50
    for path, math in formulas:
        assert math.find(["mi", "mn", "mo", "mtext"]), f"{path}: an empty formula, {math}"
    for path in pages:
        page = BeautifulSoup(path.read_text(encoding="utf8"), "html.parser")
        for element in page.find_all(["code", "pre", "script", "style", "math"]):
            element.extract()
        assert not re.search(r"\$[^$]+\$|\\frac|\\mathbf|\\\(", page.get_text()), f"{path} shows raw LaTeX"


def shown_by(css, family):
    """The code points in the font that a stylesheet carries under that name."""
    data = re.search(rf'"{family}".*?base64,([^)]*)\)', css)[1]
    return set(TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap())


def test_the_font_has_every_character_that_a_formula_shows(pages, built_book):
    css = (built_book / "_static/fonts.css").read_text(encoding="utf8")
    has = shown_by(css, "STIX Two Math")
    needed = {ord("√")} if any(page.find("msqrt") for page in pages.values()) else set()
    for page in pages.values():
        needed |= {ord(character) for math in page.find_all("math") for character in math.get_text()}
    assert {chr(code) for code in needed - has - {0x200B, 0x2061, 0x2062, 0x2063, 0xA0, 10}} == set()
    assert {ord("𝑥") - ord("x") + ord(letter) for letter in "qd"} <= has  # a lone letter is set in italic


def test_icons_that_the_pages_show_are_in_the_font(pages, built_book):
    css = (built_book / "_static/styles/pydata-sphinx-theme.css").read_text(encoding="utf8")
    has = shown_by((built_book / "_static/fonts.css").read_text(encoding="utf8"), "Font Awesome 6 Free")
    seen = set()
    for path, page in pages.items():
        for icon in page.find_all(["i", "span"], class_=re.compile(r"^fa[srb]?$|^fa-(solid|brands|regular)$")):
            names = [n for n in icon["class"] if n.startswith("fa-") and n not in {"fa-solid", "fa-brands", "fa-lg"}]
            rules = [re.search(rf'\.{name}:before\{{content:"(.)"', css) for name in names]
            assert any(rule and ord(rule[1]) in has for rule in rules), f"{path}: {icon} would show nothing"
            seen.update(names)
    assert {"fa-bars", "fa-magnifying-glass", "fa-download"} <= seen


def test_cutting_a_font_is_repeatable():
    font = lean_pages.math_font()
    assert lean_pages.cut(font, set(map(ord, "x√∑")), ["ssty"]) == lean_pages.cut(font, set(map(ord, "∑√x")), ["ssty"])


# ---- what must fail


def test_code_loses_tags_and_neither_words_nor_colours():
    code = '<span class="s2">"a </span><span class="si">{</span><span class="n">x</span><span class="si">}</span>'
    code += '<span class="s2"> b"</span><span class="o">-</span><span class="o">-</span>'
    lean = '<span class="s2">"a {</span>x<span class="s2">} b"</span><span class="o">--</span>'
    assert lean_pages.with_fewer_tags(code) == lean
    options = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"]["config"]["html_theme_options"]
    for theme in ("light", "dark"):
        css = HtmlFormatter(style=options[f"pygments_{theme}_style"]).get_style_defs(".highlight")
        rules = dict(re.findall(r"\.highlight \.(\w+) {([^}]*)}", css))
        assert rules["si"] == rules["s2"] != rules["o"]


def test_a_broken_link_and_a_broken_formula_fail_the_build_and_are_named(sources, tmp_path):
    page = sources / "book/checker.md"
    text = page.read_text(encoding="utf8")
    page.write_text(text + "\n\nA formula, $\\frac{1}{2$, and $\\nosuchcommand x$.\n", encoding="utf8")
    other = sources / "book/references.md"
    other.write_text(other.read_text(encoding="utf8") + "\n\n[nowhere](no_such_page.md)\n", encoding="utf8")
    result = build(sources, tmp_path / "out")
    output = result.stdout + result.stderr
    assert result.returncode != 0
    assert re.search(r"references\.md.*no_such_page\.md", output)
    assert re.search(r"checker\.md:\d+: WARNING: this formula cannot be shown: \\frac\{1\}\{2", output)
    assert re.search(r"checker\.md:\d+: WARNING: this formula cannot be shown: \\nosuchcommand x", output)


# ---- claims


def edit(sources, change):
    path = sources / "notebooks/01_weights.ipynb"
    notebook = json.loads(path.read_text(encoding="utf8"))
    cells = [cell for cell in notebook["cells"] if "claim" in cell["metadata"]]
    change(cells, notebook)
    path.write_text(json.dumps(notebook), encoding="utf8")
    return [text for _, text in claims.problems(sources)]


def test_every_claim_of_a_chapter_in_the_book_has_its_one_cell():
    assert claims.problems(ROOT) == []


def test_claims_are_all_there_in_our_words():
    stated = [claim for section in claims.stated(ROOT).values() for claim in section]
    assert sorted(claim["id"] for claim in stated) == [f"S{n:02d}" for n in range(1, 53)]
    assert all(("chapter" in claim and claim["chapter"] in course.CHAPTERS) != ("test" in claim) for claim in stated)
    assert all((ROOT / claim["test"]).exists() for claim in stated if "test" in claim)


def test_a_claim_without_a_cell_is_reported(sources):
    told = edit(sources, lambda cells, _: cells[0]["metadata"].pop("claim"))
    assert any("no cell carries claim S" in text for text in told)


def test_an_unknown_claim_is_reported(sources):
    def change(cells, _):
        cells[0]["metadata"]["claim"] += " S99"

    assert any("carries S99, which book/claims.yml does not know" in text for text in edit(sources, change))


def test_a_claim_that_a_split_cell_has_copied_is_reported(sources):
    told = edit(sources, lambda cells, notebook: notebook["cells"].append(cells[0] | {"id": "copied"}))
    assert any("a split cell may have copied it" in text for text in told)


def test_a_claim_of_another_chapter_or_on_a_cell_that_runs_nothing_is_reported(sources):
    def change(cells, _):
        cells[0]["metadata"]["claim"] += " S10"
        cells[0]["cell_type"] = "markdown"

    told = edit(sources, change)
    assert any("carries S10, which belongs elsewhere" in text for text in told)
    assert any("runs nothing" in text for text in told)


def test_the_page_leads_to_the_very_cell_and_back(pages, built_book):
    page = pages[built_book / "book/claims.html"]
    stated = [claim for section in claims.stated(ROOT).values() for claim in section]
    assert [item["id"] for item in page.select("ul.claims > li")] == [claim["id"] for claim in stated]
    run = {claim: cell for cell in claims.claiming_cells(ROOT) for claim in cell.claims}
    for claim in stated:
        link = page.select_one(f"#{claim['id']} a.claim-run")
        assert bool(link) == (claim["id"] in run)
        if link:
            docname = run[claim["id"]].docname
            assert link["href"] == f"../{docname}.html#claim-{claim['id']}"
            tag = pages[built_book / f"{docname}.html"].find(id=f"claim-{claim['id']}")
            assert tag["href"] == f"../book/claims.html#{claim['id']}"
            cell = tag.find_parent("p").find_next_sibling("div", class_="cell")
            source = cell.select_one(".cell_input").get_text()
            notebook = json.loads((ROOT / f"{docname}.ipynb").read_text(encoding="utf8"))
            stored = notebook["cells"][run[claim["id"]].number - 1]["source"]
            squeeze = "".join
            assert squeeze(source.split()) == squeeze(colab.lines(stored).split())


# ---- publishing


def links(page):
    return [a["href"] for a in page.find_all("a", href=True)]


def test_without_addresses_no_page_names_a_repository_or_colab(pages):
    for path, page in pages.items():
        for link in links(page):
            assert "colab" not in link and "/edit/" not in link and "/blob/" not in link, f"{path}: {link}"


def test_every_button_of_a_fork_leads_to_something_that_exists(published, built_book, tmp_path):
    """Each address of the fork, its site or Colab, on each page, is one that is known here, and its file is there."""
    copies = {path.name for path in colab.write(tmp_path / "colab", SITE)}
    opened, edited, downloaded = {}, {}, {}
    for name, page in published.items():
        docname = name.removesuffix(".html")
        for element in page.find_all(["a", "link"], href=True):
            link = element["href"]
            if link == REPOSITORY:
                continue
            elif link.startswith("https://colab."):
                opened[docname] = link.removeprefix(COLAB)
            elif link.startswith(f"{REPOSITORY}/"):
                kind, path = link.removeprefix(f"{REPOSITORY}/").split(f"/{BRANCH}/")
                edited[docname] = path
                assert (ROOT / path).is_file() if kind == "edit" else kind == "tree" and (ROOT / path).is_dir(), link
            elif link.startswith(SITE):
                assert element["rel"] == ["canonical"] and link == f"{SITE}/{name}"
            elif "_sources/" in link:
                file = os.path.normpath(os.path.join(os.path.dirname(name), link))
                downloaded[docname] = file
                source = (ROOT / file.removeprefix("_sources/")).read_bytes()
                assert (built_book / file).read_bytes() == source, f"{name} offers {link} for download"
            else:
                words = ("github.com/Some-One", "someone.example", "Their.Fork")
                assert not any(word in link for word in words), f"{name}: {link} is no address that is known"
    sources = toc_files()
    assert opened == {docname: f"{docname.split('/')[-1]}.ipynb" for docname in course.chapters(ROOT)}
    assert set(opened.values()) == copies
    assert set(edited) == set(downloaded) == sources
    for docname in sources:
        assert downloaded[docname].startswith(f"_sources/{docname}.")
        if docname.startswith("notebooks/solutions/"):  # generated: an edit belongs to what they are made from
            number, rest = docname.removeprefix("notebooks/solutions/").split("_", 1)
            assert edited[docname] == f"src/attnlab/exercises/ch{int(number)}_{rest}"
        else:
            assert edited[docname].startswith(f"{docname}.")


def toc_files():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    return {toc["root"], *(entry["file"] for part in toc["parts"] for entry in part["chapters"])}


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("https://github.com/a/b", "https://colab.research.google.com/github/a/b/blob/gh-pages/colab/01_weights.ipynb"),
        (
            "https://github.com/A-b/a-b.github.io",
            "https://colab.research.google.com/github/A-b/a-b.github.io/blob/gh-pages/colab/01_weights.ipynb",
        ),
        ("https://gitlab.com/a/b", ""),  # Colab opens notebooks of GitHub
        ("", ""),
    ],
)
def test_the_address_in_colab(repository, address):
    assert publishing.colab_address(repository, "notebooks/01_weights") == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REPOSITORY", "someone/their-fork"),
        ("REPOSITORY", "git@github.com:someone/their-fork"),
        ("REPOSITORY", "https://github.com/someone"),
        ("SITE", "someone.github.io/their-fork"),
        ("SITE", "https://someone.github.io/their fork"),
    ],
)
def test_what_is_no_address_is_refused_with_an_example(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}={re.escape(value)} is no address like https://"):
        publishing.read_addresses(None, SimpleNamespace(html_theme_options={}))


def test_a_colab_copy_installs_the_wheel_by_its_address_and_changes_nothing_else():
    for docname in course.chapters(ROOT):
        original = json.loads((ROOT / f"{docname}.ipynb").read_text(encoding="utf8"))
        copy = colab.colab_copy(json.loads(json.dumps(original)), docname, SITE)
        changed = []
        for before, after in zip(original["cells"], copy["cells"], strict=True):
            if before["cell_type"] == "code" and colab.lines(before["source"]) != colab.lines(after["source"]):
                changed.append((colab.lines(before["source"]), colab.lines(after["source"])))
        assert len(changed) == 1
        before, after = changed[0]
        assert after == f"%pip install --quiet {SITE}/wheels/attnlab-{version()}-py3-none-any.whl\n" + before
        for cell in copy["cells"]:
            assert not re.search(r"pip install( \S+)* attnlab", colab.lines(cell["source"]))


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(encoding="utf8"), flags=re.M)[1]


@pytest.mark.parametrize(
    "link, address",
    [
        ("../book/claims.md", f"{SITE}/book/claims.html"),
        ("../book/claims.md#S07", f"{SITE}/book/claims.html#S07"),
        ("02_scoring.ipynb", f"{SITE}/notebooks/02_scoring.html"),
        ("solutions/01_weights.ipynb", f"{SITE}/notebooks/solutions/01_weights.html"),
        ("04_multi_head.ipynb#the-layer-and-pytorchs", f"{SITE}/notebooks/04_multi_head.html#the-layer-and-pytorch-s"),
        ("#the-weights", "#the-weights"),
        ("https://arxiv.org/abs/1409.0473", "https://arxiv.org/abs/1409.0473"),
        ("https://github.com/a/b/blob/main/c.md", "https://github.com/a/b/blob/main/c.md"),
    ],
)
def test_links_of_a_colab_copy_lead_to_the_site(link, address):
    assert colab.to_site(f"see [there]({link}).", "notebooks/01_weights", SITE) == f"see [there]({address})."


def test_every_anchor_in_a_colab_copy_is_on_the_page_that_it_leads_to(built_book):
    asked = set()
    for docname in course.chapters(ROOT):
        copy = colab.colab_copy(json.loads((ROOT / f"{docname}.ipynb").read_text(encoding="utf8")), docname, SITE)
        words = "\n".join(cell["source"] for cell in copy["cells"] if cell["cell_type"] == "markdown")
        asked |= set(re.findall(rf"\]\({SITE}/([^)#]+)#([^)]+)\)", words))
    assert len(asked) > 50
    lost = [f"{page}#{id}" for page, id in asked if f'id="{id}"' not in (built_book / page).read_text(encoding="utf8")]
    assert lost == []


# ---- what `make watch` shows


def test_make_watch_builds_the_pages_that_make_book_builds(built_book, tmp_path):
    settings, html = ROOT / "book/tools/settings", tmp_path / "html"
    flags = ["-W", "--keep-going", "--quiet", "--conf-dir", str(settings), "--doctree-dir", str(tmp_path / "trees")]
    environment = {name: value for name, value in os.environ.items() if name not in ("REPOSITORY", "SITE", "BRANCH")}
    command = [sys.executable, "-m", "sphinx", "build", str(ROOT), str(html), *flags]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = f"--conf-dir {settings.relative_to(ROOT).as_posix()} "
    assert named in (ROOT / "Makefile").read_text(encoding="utf8")
    theirs = {path.relative_to(built_book): path.read_bytes() for path in built_book.rglob("*.html")}
    assert {path.relative_to(html): path.read_bytes() for path in html.rglob("*.html")} == theirs


# ---- the shape of the book


def test_every_chapter_in_the_book_is_announced_and_no_welcome_line_is_left_behind():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    assert toc["root"] == "book/welcome"
    welcome = (ROOT / "book/welcome.md").read_text(encoding="utf8")
    here = course.chapters(ROOT)
    assert here == sorted(here)
    assert all(f"(../{docname}.ipynb)" in welcome for docname in here)
    assert welcome.count("*to come*") == len(course.CHAPTERS) - len(here)


def test_no_static_folder_at_the_root():
    assert not (ROOT / "_static").exists(), "Jupyter Book 1 would load every script in it on every page"
