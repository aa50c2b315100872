"""Write src/attnlab/data/minilm_heads.json: the weights of MiniLM's 72 heads on three sentences, for the live figure.

The figure has no model: it shows these numbers.  A weight is stored as a byte, round(255 · weight), in the order
(layer, head, query, key).  Beside the bytes stand two means for each head, from the exact weights: `previous`, on the
token before, over all tokens but [CLS]; `ends`, on [CLS] and [SEP] together, over all other tokens.

    .venv/bin/python book/tools/heads_of_minilm.py
"""

import base64

import torch
from records import DATA, rounded, write

from attnlab.models import minilm

TARGET = DATA / "minilm_heads.json"
# A word that comes twice, two pronouns, a word in three pieces.
SENTENCES = [
    "The old clock stopped when the other clock rang.",
    "The girl smiled when she heard her name.",
    "Our neighbour grows tall sunflowers.",
]


def previous(weights: torch.Tensor) -> torch.Tensor:
    """Mean weight on the token before: (6, 12, n, n) → (6, 12).  Spread evenly it would be 1/n."""
    return weights.diagonal(-1, dim1=-2, dim2=-1).mean(-1)


def ends(weights: torch.Tensor) -> torch.Tensor:
    """Mean weight of the words on [CLS] and [SEP] together: (6, 12, n, n) → (6, 12).  Spread evenly it would be 2/n."""
    return (weights[..., 1:-1, 0] + weights[..., 1:-1, -1]).mean(-1)


def described(model: minilm.MiniLM, text: str) -> dict:
    """One sentence of the file."""
    tokens, weights = model.weights(text)  # (6, 12, n, n)
    as_bytes = (255 * weights).round().to(torch.uint8).numpy().tobytes()
    means = {f.__name__: rounded(f(weights), 3) for f in (previous, ends)}
    return {"text": text, "tokens": tokens, "weights": base64.b64encode(as_bytes).decode(), **means}


def main() -> None:
    model = minilm.load()
    record = {"model": "all-MiniLM-L6-v2", "sha256": minilm.SHA256}
    record["sentences"] = [described(model, text) for text in SENTENCES]
    write(TARGET, record)


if __name__ == "__main__":
    main()
