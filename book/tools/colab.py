"""Write the Colab copies of the chapters: `SITE=https://… python book/tools/colab.py dist/colab`.

A copy is the notebook with one line more in its setup cell, which installs the wheel of attnlab by its address, from
the site where the copy was published; never by name, since that name on a package index may one day be somebody else's.
Links to other pages of the book become links to the site, since in Colab the notebook lies alone.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

from attnlab.classroom.handout import links
from attnlab.classroom.handout.links import lines

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book/_ext"))

from course import chapters  # noqa: E402


def wheel_address(site: str, root: Path = ROOT) -> str:
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf8"))["project"]["version"]
    return links.wheel_address(site, version)


def to_site(text: str, docname: str, site: str, root: Path = ROOT) -> str:
    """Relative links of a Markdown cell, as addresses on the site."""
    return links.to_site(text, docname, site, root.joinpath)


def colab_copy(notebook: dict, docname: str, site: str) -> dict:
    setup = [cell for cell in notebook["cells"] if cell["metadata"].get("role") == "setup"]
    if len(setup) != 1:
        raise ValueError(f'{docname}: one cell must carry "role": "setup" in its metadata, {len(setup)} do')
    source = links.installing(lines(setup[0]["source"]), wheel_address(site))
    setup[0].update(source=source, outputs=[], execution_count=None)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = to_site(lines(cell["source"]), docname, site)
    return notebook


def write(out: Path, site: str, root: Path = ROOT) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for docname in chapters(root):
        notebook = json.loads((root / f"{docname}.ipynb").read_text(encoding="utf8"))
        path = out / f"{Path(docname).name}.ipynb"
        text = json.dumps(colab_copy(notebook, docname, site.rstrip("/")), ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf8")
        written.append(path)
    return written


if __name__ == "__main__":
    address = os.environ.get("SITE", "")
    if len(sys.argv) != 2 or not address.startswith("https://"):
        sys.exit("usage: SITE=https://where.the/book/is/published python book/tools/colab.py FOLDER")
    for path in write(Path(sys.argv[1]), address):
        print(path)
