"""Messages of the build name a place to go to: the file, and in a notebook the cell, its id and the line in it.

What is wrong with a notebook as such is found here too: a file that is no notebook, and an error among its outputs.
"""

import json
import logging
import re
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util.logging import NAMESPACE, WarningStreamHandler, getLogger

logger = getLogger(__name__)


def cell_name(number: int, cell: dict) -> str:
    return f"cell {number}" + (f" ({cell['id']})" if "id" in cell else "")


def in_words(location: str) -> str:
    """MyST-NB counts line 7 of cell 10 as 100008; a person looks for the cell."""
    found = re.fullmatch(r"(?s)(.*\.ipynb):(\d{5,})", location or "")
    if not found:
        return location
    number, line = divmod(int(found[2]), 10_000)
    try:
        cell = json.loads(Path(found[1]).read_text(encoding="utf8"))["cells"][number - 1]
    except (OSError, ValueError, LookupError):
        cell = {}
    return f"{found[1]}, {cell_name(number, cell)}, line {max(line - 1, 1)}"


class NameTheCell(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(getattr(record, "location", None), str):
            record.location = in_words(record.location)
        return True


def check_notebooks(app, env, docnames):
    """Before anything else reads them: what fails in the middle of a page does not say which notebook it was."""
    for docname in sorted(docnames):
        path = Path(env.doc2path(docname))
        if path.suffix == ".ipynb":
            check_notebook(path, docname)


def check_notebook(path: Path, docname: str) -> None:
    try:
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    except (ValueError, LookupError, TypeError) as error:
        raise ExtensionError(f"{path} is no notebook: {error!r}") from error
    for number, cell in enumerate(cells, 1):
        for output in cell.get("outputs", []):
            if output["output_type"] == "error" and "raises-exception" not in cell["metadata"].get("tags", []):
                what = f"{cell_name(number, cell)} failed: {output['ename']}: {output['evalue']}"
                logger.warning("%s", what, location=docname, type="notebook")


def setup(app):
    for handler in logging.getLogger(NAMESPACE).handlers:
        if isinstance(handler, WarningStreamHandler):
            handler.addFilter(NameTheCell())
    app.connect("env-before-read-docs", check_notebooks, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
