"""What the table of contents says: which chapters are in the book, and what they are called before they exist."""

from pathlib import Path

import yaml

# The six chapters as they are announced; the ones in _toc.yml are there, the others to come.
CHAPTERS = {
    "01_weights": "1 · Weights",
    "02_scoring": "2 · Scoring",
    "03_matrix_and_masks": "3 · Matrix form and masks",
    "04_multi_head": "4 · Many heads",
    "05_efficient_variants": "5 · Efficient variants",
    "06_interpretability": "6 · What weights can explain",
}


def chapters(root: Path) -> list[str]:
    """Docnames of the chapters in _toc.yml, in order: ["notebooks/01_weights", …]."""
    toc = yaml.safe_load((Path(root) / "_toc.yml").read_text(encoding="utf8"))
    entries = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [file for file in entries if file.removeprefix("notebooks/") in CHAPTERS]
