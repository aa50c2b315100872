"""Publish what was built to the branch gh-pages: the pages, the wheel, the Colab copies.

    python book/tools/publish.py site OWNER/NAME     the address where GitHub Pages serves this repository
    python book/tools/publish.py push [REMOTE]       commit _build/html and dist/, push; REMOTE is origin unless given
    python book/tools/publish.py release TAG FOLDER  check that the papers name this version; write FOLDER/notes.md

`make site REPOSITORY=… SITE=…` comes first. Each push replaces the branch's files, except `wheels/`, where
earlier wheels stay (a Colab copy in somebody's Drive must still find its own), and `CNAME`, a domain of one's own.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BRANCH = "gh-pages"
KEPT = {".git", "wheels", "CNAME"}


def site(repository: str) -> str:
    """https://owner.github.io/NAME; a repository called OWNER.github.io is served from the top."""
    owner, name = repository.split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}" + ("" if name.lower() == host else f"/{name}")


def gather(root: Path, folder: Path) -> None:
    """Put what was built into `folder`. ValueError that says what is missing."""
    html, wheels, copies = (
        root / "_build/html",
        sorted(root.glob("dist/*.whl")),
        sorted(root.glob("dist/colab/*.ipynb")),
    )
    for found, what in [((html / "index.html").exists(), "the book"), (wheels, "the wheel"), (copies, "Colab copies")]:
        if not found:
            raise ValueError(f"{what}: not built. First: make site REPOSITORY=… SITE=…")
    shutil.copytree(html, folder, dirs_exist_ok=True)
    for name, files in (("wheels", wheels), ("colab", copies)):
        (folder / name).mkdir(exist_ok=True)
        for file in files:
            shutil.copy(file, folder / name)
    (folder / ".nojekyll").touch()  # or GitHub leaves out the folders that begin with an underscore
    for copy in copies:
        for wheel in re.findall(r"wheels/([\w.-]+\.whl)", copy.read_text(encoding="utf-8")):
            if not (folder / "wheels" / wheel).exists():
                raise ValueError(f"{copy.name} installs {wheel}, which is not in dist/")


def notes(tag: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of the version that the tag names. ValueError where the papers do not agree on it."""
    version = tag.removeprefix("v")
    package = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"(?m)^version: *[\"']?([^\s\"']+)", (root / "CITATION.cff").read_text(encoding="utf-8"))
    for paper, named in [("pyproject.toml", package), ("CITATION.cff", citation and citation[1])]:
        if tag != f"v{named}":
            raise ValueError(f"the tag is {tag}, and {paper} names version {named}")
    entries = re.split(r"(?m)^## ", (root / "CHANGELOG.md").read_text(encoding="utf-8"))[1:]
    for title, _, text in (entry.partition("\n") for entry in entries):
        if re.fullmatch(rf"\[?{re.escape(version)}\]?( .*)?", title.strip()):
            return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no entry '## {version} · date'")


def git(*arguments: str, at: Path, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=at, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def push(remote: str = "origin", root: Path = ROOT) -> bool:
    """Commit and push; False where nothing has changed. The clone's own files and branches are not touched."""
    if git("ls-remote", remote, f"refs/heads/{BRANCH}", at=root):
        git("fetch", "--depth=1", remote, BRANCH, at=root)
        start = git("rev-parse", "FETCH_HEAD", at=root)
    else:
        empty = git("hash-object", "-w", "-t", "tree", "--stdin", at=root)
        start = git("commit-tree", empty, "-m", f"Begin {BRANCH}", at=root)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / BRANCH
        git("worktree", "add", "--detach", str(folder), start, at=root)
        try:
            for old in folder.iterdir():
                if old.name not in KEPT:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            gather(root, folder)
            git("add", "--all", "--force", at=folder)
            if not git("status", "--porcelain", at=folder):
                return False
            git("commit", "--quiet", "-m", f"Publish {git('rev-parse', '--short', 'HEAD', at=root)}", at=folder)
            git("push", remote, f"HEAD:refs/heads/{BRANCH}", at=folder)
        finally:
            git("worktree", "remove", "--force", str(folder), at=root)
    return True


def main(arguments: list[str]) -> None:
    match arguments:
        case ["site", repository] if re.fullmatch(r"[^/\s]+/[^/\s]+", repository):
            print(site(repository))
        case ["release", tag, folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "notes.md").write_text(notes(tag), encoding="utf-8")
        case ["push", *remote] if len(remote) < 2:
            print(f"pushed to {BRANCH}" if push(*remote) else f"{BRANCH} is up to date")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))
