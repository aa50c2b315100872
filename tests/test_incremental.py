"""A second build makes what has changed and everything that shows it; a message names the file and the cell."""

import io
import json
import os
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from book_fixtures import ROOT
from sphinx.cmd.build import main as sphinx_build

CONF = f"""
import sys
sys.path.append({str(ROOT / "book/_ext")!r})
exclude_patterns = ["_build"]
extensions = ["myst_nb", "sphinx_external_toc", "incremental", "messages"]
external_toc_path, external_toc_exclude_missing = "_toc.yml", True
nb_execution_mode, html_sourcelink_suffix = "off", ""
html_static_path, html_css_files = ["book/_assets"], ["house.css"]
html_theme_options = {{"globaltoc_collapse": False}}
html_sidebars = {{"**": ["globaltoc.html"]}}
"""


def notebook(*cells):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)})


def markdown(name, *lines):
    return {"id": name, "cell_type": "markdown", "metadata": {}, "source": [f"{line}\n" for line in lines]}


def code(name, *outputs, tags=()):
    metadata = {"tags": list(tags)}
    return {
        "id": name,
        "cell_type": "code",
        "metadata": metadata,
        "execution_count": 1,
        "source": ["1 / 0"],
        "outputs": list(outputs),
    }


FAILED = {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": []}


class Book:
    """A small book of four pages, built as often as one likes."""

    def __init__(self, folder: Path):
        self.folder, self.html = folder, folder / "_build/html"
        self.write("conf.py", CONF)
        self.write(
            "_toc.yml", yaml.safe_dump({"root": "welcome", "entries": [{"file": n} for n in ("one", "two", "nb")]})
        )
        self.write("welcome.md", "# Welcome\n")
        self.write("one.md", "# One\n")
        self.write("two.md", "# Two\n")
        self.write("nb.ipynb", notebook(markdown("title", "# Notebook"), code("run")))
        self.write("book/_assets/house.css", "p {}\n")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_mtime_ns if path.exists() else 0
        path.write_text(text, encoding="utf-8")
        if path.stat().st_mtime_ns <= before:
            os.utime(path, ns=(before + 10**6, before + 10**6))

    def build(self):
        """(exit status, what it said, the pages that were written)"""
        before = {path: path.stat().st_mtime_ns for path in self.html.glob("*.html")}
        said = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("ignore")  # of other packages: this runs in the process of the tests, for speed
            status = sphinx_build(["-W", "--keep-going", "--quiet", "--no-color", str(self.folder), str(self.html)])
        pages = {path.stem for path in self.html.glob("*.html") if path.stat().st_mtime_ns != before.get(path)}
        return status, said.getvalue(), pages - {"genindex", "search", "index"}

    def page(self, name):
        return (self.html / f"{name}.html").read_text(encoding="utf-8")


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


@pytest.fixture
def built(book):
    status, said, pages = book.build()
    assert status == 0, said
    assert pages == {"welcome", "one", "two", "nb"}
    return book


PAGES = {"welcome", "one", "two", "nb"}


def test_only_what_has_changed_is_made_again(built):
    assert built.build() == (0, "", set())
    built.write("one.md", "# One\n\nA word more.\n")
    status, said, pages = built.build()
    assert (status, said) == (0, "") and "one" in pages and not pages & {"two", "nb"}
    built.write("nb.ipynb", notebook(markdown("title", "# Notebook", "", "A word more."), code("run")))
    status, said, pages = built.build()
    assert (status, said) == (0, "") and "nb" in pages and not pages & {"one", "two"}


def test_a_title_of_the_table_of_contents_changes_in_every_sidebar(built):
    toc = yaml.safe_load((built.folder / "_toc.yml").read_text(encoding="utf-8"))
    toc["entries"][1]["title"] = "The second"
    built.write("_toc.yml", yaml.safe_dump(toc))
    assert built.build() == (0, "", PAGES)
    assert all("The second" in built.page(name) for name in PAGES)


def test_a_page_that_left_the_table_of_contents_is_taken_away(built):
    toc = yaml.safe_load((built.folder / "_toc.yml").read_text(encoding="utf-8"))
    del toc["entries"][1]
    built.write("_toc.yml", yaml.safe_dump(toc))
    built.write("conf.py", CONF + 'exclude_patterns += ["two.md"]\n')
    assert built.build() == (0, "", PAGES - {"two"})
    assert not (built.html / "two.html").exists() and not list(built.html.glob("_sources/two*"))
    assert all(">Two<" not in built.page(name) for name in PAGES - {"two"})


@pytest.mark.parametrize("name", ["_config.yml", "book/claims.yml", "book/_ext/new.py", "book/_templates/home.html"])
def test_what_every_page_is_made_from_makes_every_page_again(built, name):
    built.write(name, "# new\n")
    assert built.build() == (0, "", PAGES)


def test_a_style_that_changes_gets_a_new_address_on_every_page(built):
    old = {name: built.page(name) for name in PAGES}
    built.write("book/_assets/house.css", "p { color: red }\n")
    assert built.build() == (0, "", PAGES)
    assert all(built.page(name) != old[name] for name in PAGES)


def test_the_book_uses_both_extensions():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]
    assert {"incremental", "messages"} <= set(config["local_extensions"]) & set(config["config"]["extensions"])


# ---- messages


def test_a_message_on_markdown_names_file_and_line(built):
    built.write("one.md", "# One\n\n[nowhere](none.md)\n")
    status, said, _ = built.build()
    assert status == 1 and "one.md:3: WARNING: 'myst' cross-reference target not found: 'none.md'" in said


def test_a_message_on_a_notebook_names_file_and_cell_and_line(built):
    broken = markdown("with-a-link", "Some words.", "", "[nowhere](none.md)")
    built.write("nb.ipynb", notebook(markdown("title", "# Notebook"), code("run"), broken))
    status, said, _ = built.build()
    assert status == 1
    assert "nb.ipynb, cell 3 (with-a-link), line 3: WARNING: 'myst' cross-reference target not found" in said


def test_a_cell_that_failed_fails_the_build_and_is_named(built):
    built.write("nb.ipynb", notebook(markdown("title", "# Notebook"), code("divide", FAILED)))
    status, said, _ = built.build()
    assert status == 1 and "nb.ipynb: WARNING: cell 2 (divide) failed: ZeroDivisionError: division by zero" in said


def test_a_cell_that_shows_an_error_on_purpose_is_no_failure(built):
    built.write(
        "nb.ipynb", notebook(markdown("title", "# Notebook"), code("divide", FAILED, tags=["raises-exception"]))
    )
    assert built.build()[:2] == (0, "")


def test_a_file_that_is_no_notebook_is_named(built):
    built.write("nb.ipynb", notebook(markdown("title", "# Notebook"))[:-10])
    status, said, _ = built.build()
    assert status != 0 and "nb.ipynb is no notebook: JSONDecodeError" in said
