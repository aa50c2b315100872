"""Ask every address on other hosts, in the book and in the papers at the root, whether it is still there: `make links`.

    python book/tools/links.py FOLDER

Sphinx's own link check asks; FOLDER/report.md says what it found. Pages that are gone and anchors that are not there
make this fail. A host that was down, slow, or refuses programs is listed and does not: it may answer a person, or next
week. If none answered at all, the network is missing, and that fails too.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "book/tools/settings"
GONE = r"\b(404|410)\b|Anchor .* not found|Name or service not known|getaddrinfo failed|nodename nor servname"
# README, CONTRIBUTING and the others: plain Markdown, no part of the book.
PAPERS = {
    "extensions": "myst_parser",
    "include_patterns": "*.md",
    "root_doc": "README",
    "suppress_warnings": "myst.xref_missing,myst.header,toc.not_included",
    "linkcheck_retries": "3",
    "linkcheck_timeout": "20",
    "linkcheck_report_timeouts_as_broken": "0",
    "linkcheck_anchors_ignore_for_url": r"https://github\.com/",
}
PAPERS = ["--isolated", *(part for name, value in PAPERS.items() for part in ("--define", f"{name}={value}"))]


class Link(NamedTuple):
    page: str
    line: int
    status: str  # Sphinx's word: working, redirected, broken, timeout, ignored, unchecked, local
    address: str
    remark: str


def asked(source: Path, out: Path, *options: str) -> list[Link]:
    """Every address of the pages in `source`, with what its host said."""
    command = [sys.executable, "-m", "sphinx", "-b", "linkcheck", "--quiet", str(source), str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = out / "output.json"
    if not found.exists():
        raise RuntimeError(done.stdout + done.stderr)
    rows = map(json.loads, found.read_text(encoding="utf8").splitlines())
    return [
        Link(row["filename"], row["lineno"], row["status"], row["uri"], str(row["info"]).partition("\n")[0])
        for row in rows
    ]


def judged(links: list[Link]) -> dict[str, list[Link]]:
    """gone, unsure, moved, there: each link under one of them."""
    verdicts = {"gone": [], "unsure": [], "moved": [], "there": []}
    for link in links:
        if link.status in ("broken", "timeout") or (link.status == "ignored" and link.remark):  # 503 is "ignored"
            verdicts["gone" if re.search(GONE, link.remark) else "unsure"].append(link)
        elif link.status in ("working", "redirected"):
            verdicts["moved" if link.status == "redirected" else "there"].append(link)
    return verdicts


def report(verdicts: dict[str, list[Link]]) -> str:
    said = {
        "gone": "Gone: mend these",
        "unsure": "Not answered: look at these yourself",
        "moved": "Moved, and still found",
    }
    lines = [f"{len(verdicts['there'])} addresses are there."]
    if not (verdicts["there"] or verdicts["moved"]):
        lines.append("No host answered: is there a network?")
    for verdict, title in said.items():
        if verdicts[verdict]:
            lines += ["", f"## {title}", "", "| where | address | answer |", "|---|---|---|"]
            for link in verdicts[verdict]:
                remark = link.remark.replace("|", "\\|")
                lines.append(f"| {link.page}:{link.line} | {link.address} | {remark} |")
    return "\n".join(lines) + "\n"


def fails(verdicts: dict[str, list[Link]]) -> bool:
    nobody = not (verdicts["there"] or verdicts["moved"])
    return bool(verdicts["gone"]) or nobody


def main(out: Path) -> bool:
    book = asked(ROOT, out / "book", "--conf-dir", str(SETTINGS), "--doctree-dir", str(out / ".book"))
    papers = asked(ROOT, out / "papers", "--doctree-dir", str(out / ".papers"), *PAPERS)
    verdicts = judged(book + papers)
    text = report(verdicts)
    (out / "report.md").write_text(text, encoding="utf8")
    print(text)
    return fails(verdicts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
