"""Links to the repository and to Colab, for whoever publishes: the sources name no address.

`make book REPOSITORY=https://github.com/OWNER/NAME SITE=https://…` gives every page a link to its source, and every
chapter a button that opens its Colab copy on the branch gh-pages (book/tools/colab.py writes it; it needs SITE, where
the wheel lies). Without these variables the links are left out. BRANCH is where the sources are, main unless given.
"""

import os
import re

from course import chapters
from sphinx.errors import ConfigError

COLAB = "https://colab.research.google.com/github"
SOLUTIONS = "notebooks/solutions/"
DOWNLOADS = {".ipynb": "Notebook (.ipynb)", ".md": "Source (.md)", ".pdf": "Print or save as PDF"}


def read_addresses(app, config):
    repository = address("REPOSITORY", r"https://[^/\s]+/[^/\s]+/[^/\s]+", "https://github.com/OWNER/NAME")
    config.course_repository = repository = repository.removesuffix(".git")
    config.course_branch = os.environ.get("BRANCH") or "main"
    config.course_site = address("SITE", r"https?://[^/\s]+(/[^/\s]+)*", "https://where.the/book/is/published")
    if config.course_site:
        config.html_baseurl = config.course_site + "/"
    if repository:
        config.html_theme_options |= {
            "repository_url": repository,
            "repository_branch": config.course_branch,
            "path_to_docs": "",
            "use_repository_button": True,
            "use_edit_page_button": True,
            "use_source_button": False,
        }


def address(name: str, form: str, example: str) -> str:
    value = os.environ.get(name, "").rstrip("/")
    if value and not re.fullmatch(form, value):
        raise ConfigError(f"{name}={value} is no address like {example}")
    return value


def colab_address(repository: str, docname: str) -> str:
    owner_and_name = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)", repository)
    return f"{COLAB}/{owner_and_name[1]}/blob/gh-pages/colab/{docname.split('/')[-1]}.ipynb" if owner_and_name else ""


def add_colab_button(app, pagename, templatename, context, doctree):
    address = colab_address(app.config.course_repository, pagename)
    if pagename in chapters(app.srcdir) and address and app.config.course_site:
        button = {"type": "link", "url": address, "text": "Colab", "tooltip": "Open this chapter in Colab"}
        context["header_buttons"].append(button | {"icon": "fa-solid fa-rocket", "label": "colab-button"})


def say_what_is_downloaded(app, pagename, templatename, context, doctree):
    """The theme says “.ipynb” and “.pdf”, and calls the second what opens the dialogue for printing."""
    for group in context["header_buttons"]:
        for button in group.get("buttons", []):
            button["text"] = DOWNLOADS.get(button["text"], button["text"])


def exercises_of(docname: str) -> str:
    """notebooks/solutions/01_weights → src/attnlab/exercises/ch1_weights, from which that page is generated."""
    number, name = docname.removeprefix(SOLUTIONS).split("_", 1)
    return f"src/attnlab/exercises/ch{int(number)}_{name}"


def edit_what_solutions_are_made_from(app, pagename, templatename, context, doctree):
    """An edit of a generated notebook would be lost with the next `make notebooks`."""
    if not pagename.startswith(SOLUTIONS):
        return
    repository, branch = app.config.course_repository, app.config.course_branch
    for group in context["header_buttons"]:
        for button in group.get("buttons", []):
            if button["label"] == "source-edit-button":
                button["url"] = f"{repository}/tree/{branch}/{exercises_of(pagename)}"


def setup(app):
    for name in ("course_repository", "course_site", "course_branch"):
        app.add_config_value(name, "", "html")
    app.connect("config-inited", read_addresses)
    # After the theme made its list of buttons.
    app.connect("html-page-context", add_colab_button, priority=502)
    app.connect("html-page-context", say_what_is_downloaded, priority=502)
    app.connect("html-page-context", edit_what_solutions_are_made_from, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
