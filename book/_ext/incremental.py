"""A second build makes only the pages whose sources have changed; this says what else a page is made from.

The list of chapters, the settings, styles, templates, these extensions and the lists in book/*.yml are part of every
page: when one of them changes, every page is made again. A page that left _toc.yml is taken away.
"""

import hashlib
from pathlib import Path

SHARED = ("_toc.yml", "_config.yml", "book/*.yml", "book/_ext/*.py", "book/_templates/*.html", "book/_assets/*")


def shared_state(root: Path) -> str:
    """One hash of every file that all pages share."""
    state = hashlib.sha256()
    for path in sorted(path for pattern in SHARED for path in Path(root).glob(pattern)):
        state.update(f"{path.relative_to(root).as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def outdated(app, env, added, changed, removed):
    if app.builder.format == "html":
        for docname in removed:
            for left in (f"{docname}.html", *(f"_sources/{docname}{suffix}" for suffix in app.config.source_suffix)):
                (Path(app.outdir) / left).unlink(missing_ok=True)
    state = shared_state(app.srcdir)
    before, env.course_shared_state = getattr(env, "course_shared_state", state), state
    return [] if before == state else sorted(env.found_docs)


def setup(app):
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
