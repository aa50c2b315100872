"""Write the picture of the README, book/figure.svg: the still of the live figure `mixture`, as attnlab draws it."""

import re
from pathlib import Path
from urllib.parse import unquote

from attnlab import figures

PICTURE = Path(__file__).resolve().parents[1] / "figure.svg"


def svg() -> str:
    """The SVG that the static fallback carries as a data address."""
    image = figures.mixture().static.image()
    return unquote(re.search(r'src="data:image/svg\+xml,([^"]*)"', image)[1]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8", newline="\n")
    print(PICTURE)
