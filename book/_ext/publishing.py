"""Links to the repository and to Colab, for whoever publishes: the sources name no address.

`make book REPOSITORY=https://github.com/OWNER/NAME SITE=https://…` gives every page a link to its source, and every
chapter a button that opens its Colab copy on the branch gh-pages (book/tools/colab.py writes it; it needs SITE, where
the wheel lies). Without these variables the links are left out.
"""

import os
import re

from course import chapters

COLAB = "https://colab.research.google.com/github"


def read_addresses(app, config):
    repository = os.environ.get("REPOSITORY", "").rstrip("/").removesuffix(".git")
    config.course_site = os.environ.get("SITE", "").rstrip("/")
    config.course_repository = repository
    if config.course_site:
        config.html_baseurl = config.course_site + "/"
    if repository:
        config.html_theme_options |= {
            "repository_url": repository,
            "repository_branch": os.environ.get("BRANCH") or "main",
            "path_to_docs": "",
            "use_repository_button": True,
            "use_edit_page_button": True,
            "use_source_button": False,
        }


def colab_address(repository: str, docname: str) -> str:
    owner_and_name = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)", repository)
    return f"{COLAB}/{owner_and_name[1]}/blob/gh-pages/colab/{docname.split('/')[-1]}.ipynb" if owner_and_name else ""


def add_colab_button(app, pagename, templatename, context, doctree):
    address = colab_address(app.config.course_repository, pagename)
    if pagename in chapters(app.srcdir) and address and app.config.course_site:
        button = {"type": "link", "url": address, "text": "Colab", "tooltip": "Open this chapter in Colab"}
        context["header_buttons"].append(button | {"icon": "fa-solid fa-rocket", "label": "colab-button"})


def setup(app):
    app.add_config_value("course_repository", "", "html")
    app.add_config_value("course_site", "", "html")
    app.connect("config-inited", read_addresses)
    app.connect("html-page-context", add_colab_button, priority=502)  # after the theme made its list of buttons
    return {"parallel_read_safe": True, "parallel_write_safe": True}
