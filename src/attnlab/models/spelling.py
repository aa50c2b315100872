"""Spelling to phonemes, "knight" → N AY T: small enough to run the history of attention before the Transformer.

An encoder reads the letters, a decoder writes the phonemes one after the other.  All kinds of model share both; they
differ in the context alone, in what the decoder sees of the letters at a step:

"fixed"     the same vector at every step, the encoder's last states.  Cho et al. 2014, arXiv 1406.1078
"additive"  a mixture of all letters' states, new at each step, by additive scores.  Bahdanau, Cho, Bengio 2015,
            arXiv 1409.0473
"dot"       the same with dot products.  Luong, Pham, Manning 2015, arXiv 1508.04025
"general"   the same with a matrix between query and key.  Luong et al. 2015
"local"     "general" in a window of letters around a centre that the state predicts.  Luong et al. 2015, "local-p"

Where the papers differ, all kinds follow Bahdanau, so that a difference in the results belongs to the context: the
query is the state *before* the step, and the context goes into the new state and into the output.  (Luong asks with the
new state, and his context enters after it.)  Simpler than Bahdanau: a linear output without maxout, no beam.  Luong
multiplies the weights by a Gaussian after softmax, and they no longer sum to one; here its logarithm is added to the
scores, as a float mask, and they do.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab import masks
from attnlab.core import Attended, additive, attend, dot, general
from attnlab.models._stored import restored

__all__ = ["KINDS", "PHONEMES", "Encoded", "Pronouncer", "Reading", "Step", "load"]

KINDS = ("fixed", "additive", "dot", "general", "local")
PHONEMES = (
    "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY",
    "F", "G", "HH", "IH", "IY", "JH", "K", "L", "M", "N", "NG", "OW", "OY",
    "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
PAD, END = 0, 1  # END also stands before the first phoneme; phoneme i has the id i + 2
LONGEST = 20  # the decoder is stopped here; no pronunciation of the course's words has more than 15 phonemes
RADIUS = 2.0  # of the window of "local", in letters

Word = tuple[str, tuple[str, ...]]  # a spelling and its phonemes


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread meanwhile: matrices as small as these wait for a second one longer than it saves.

    So sums are also rounded in one order, whatever number of threads the session has.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Encoded(NamedTuple):
    """B words read by the encoder: `keys` (B, n, d), one a letter; `last` (B, d); `mask` (B, 1, n); `lengths` (B,)."""

    keys: Tensor
    last: Tensor
    mask: Tensor
    lengths: Tensor


class Step(NamedTuple):
    """A step of the decoder: `state` (B, d), `context` (B, d), and `weights` (B, n), None for "fixed"."""

    state: Tensor
    context: Tensor
    weights: Tensor | None


class Reading(NamedTuple):
    """The `phonemes` of a word, and a row of `weights` over its letters for each of them; None for "fixed"."""

    phonemes: tuple[str, ...]
    weights: Tensor | None


class Pronouncer(nn.Module):
    """The encoder–decoder, with one of the five contexts.

    kind      "fixed", "additive", "dot", "general" or "local"
    width     d, the width of states, keys and contexts: an even number, half of it for each direction of the encoder.
              None means 96, and 104 for "fixed", which without attention's own weights would otherwise be the smallest
    dropout   the share of numbers set to zero in training: of both embeddings, of the keys, and before the output

    Raises ValueError for an unknown kind and for an odd width.
    """

    def __init__(self, kind: str, width: int | None = None, dropout: float = 0.2) -> None:
        super().__init__()
        _check(kind)
        d = width if width is not None else 104 if kind == "fixed" else 96
        if d < 2 or d % 2:
            raise ValueError(f"width must be an even number of at least 2, but it is {width}.")
        d_embedding, h = 32, d // 2
        self.kind = kind
        self.letters = nn.Embedding(27, d_embedding, padding_idx=PAD)  # a = 1 … z = 26
        self.encoder = nn.GRU(d_embedding, h, batch_first=True, bidirectional=True)
        self.first_state = nn.Linear(d, d)
        self.phonemes = nn.Embedding(len(PHONEMES) + 2, d_embedding)
        self.cell = nn.GRUCell(d_embedding + d, d)
        self.readout = nn.Linear(2 * d, len(PHONEMES) + 2)
        self.dropout = nn.Dropout(dropout)
        # The weights of attention, in the shapes that attnlab.additive and attnlab.general take.
        if kind == "additive":
            self.W_q, self.W_k, self.v = _uniform(h, d), _uniform(h, d), _uniform(h)
        if kind in ("general", "local"):
            self.W = _uniform(d, d)
        if kind == "local":
            self.W_p, self.v_p = _uniform(h, d), _uniform(h)

    # -------------------------------------------------------------------------------------------------- the two parts

    def encode(self, words: Sequence[str]) -> Encoded:
        """Read the letters in both directions: the key of a letter knows what stands before it and after it.

        Raises ValueError for an empty word, for no word at all and for letters other than a to z.
        """
        ids, lengths = _letters(words)  # (B, n), (B,)
        embedded = self.dropout(self.letters(ids))  # (B, n, d_embedding)
        # Packed, the backward reading begins at a word's own last letter, and padding is never read.
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        keys, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)  # (B, n, d)
        keys, last = self.dropout(keys), torch.cat([last[0], last[1]], dim=-1)  # last (B, d)
        return Encoded(keys, last, masks.padding(lengths, keys.shape[1], like=keys), lengths)

    def begin(self, encoded: Encoded) -> Tensor:
        """The state before the first step: (B, d)"""
        return torch.tanh(self.first_state(encoded.last))

    def context(self, state: Tensor, encoded: Encoded) -> Attended:
        """What the decoder sees at this step: state (B, d) → output (B, d), weights (B, n), None for "fixed"."""
        if self.kind == "fixed":
            return Attended(encoded.last, None)
        mask = self._window(state, encoded) if self.kind == "local" else encoded.mask
        output, weights = attend(self.scores(state, encoded), encoded.keys, mask)  # (B, 1, d), (B, 1, n)
        return Attended(output[:, 0], weights[:, 0])

    def scores(self, state: Tensor, encoded: Encoded) -> Tensor:
        """How well each letter answers the state, padding not yet left out: state (B, d) → (B, 1, n)

        ValueError for "fixed", which has no scores.
        """
        query, keys = state[:, None], encoded.keys  # (B, 1, d), (B, n, d)
        match self.kind:
            case "fixed":
                raise ValueError('A model of kind "fixed" has no scores of the letters.')
            case "additive":
                return additive(query, keys, self.W_q, self.W_k, self.v)
            case "dot":
                return dot(query, keys)
            case _:
                return general(query, keys, self.W)

    def centre(self, state: Tensor, encoded: Encoded) -> Tensor:
        """Where "local" looks, a position from 0 to n - 1, not a whole number: (B,)"""
        share = torch.sigmoid(torch.tanh(state @ self.W_p.T) @ self.v_p)
        return (encoded.lengths - 1) * share

    def _window(self, state: Tensor, encoded: Encoded) -> Tensor:
        """-(j - centre)² / (2 (RADIUS / 2)²) for letter j, -∞ beyond RADIUS and at padding: (B, 1, n)"""
        away = torch.arange(encoded.keys.shape[1]) - self.centre(state, encoded)[:, None]  # (B, n)
        near = (away.abs() <= RADIUS)[:, None] & encoded.mask
        return torch.where(near, -2 * (away[:, None] / RADIUS) ** 2, -math.inf)

    def step(self, state: Tensor, previous: Tensor, encoded: Encoded) -> Step:
        """One step: state (B, d), previous (B, d_embedding), the embedding of the phoneme before → Step"""
        context, weights = self.context(state, encoded)
        state = self.cell(torch.cat([previous, context], dim=-1), state)
        return Step(state, context, weights)

    def logits(self, states: Tensor, contexts: Tensor) -> Tensor:
        """Scores of the next phoneme: (..., d), (..., d) → (..., 41)"""
        return self.readout(self.dropout(torch.cat([states, contexts], dim=-1)))

    # -------------------------------------------------------------------------------------------- training and reading

    def loss(self, words: Sequence[Word]) -> Tensor:
        """Mean cross-entropy of the phonemes and the END, each predicted after the right ones before it."""
        encoded = self.encode([spelling for spelling, _ in words])
        targets = phoneme_ids([phonemes for _, phonemes in words])  # (B, T)
        before = torch.cat([torch.full((len(words), 1), END), targets[:, :-1]], dim=1)
        state, steps = self.begin(encoded), []
        for previous in self.dropout(self.phonemes(before)).unbind(dim=1):
            steps.append(self.step(state, previous, encoded))
            state = steps[-1].state
        states, contexts = (torch.stack(column, dim=1) for column in list(zip(*steps, strict=True))[:2])  # (B, T, d)
        logits = self.logits(states, contexts)  # (B, T, 41)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)

    @torch.no_grad()
    @one_thread()
    def read(self, words: Sequence[str], phonemes: Sequence[Sequence[str]] | None = None) -> list[Reading]:
        """Pronounce words: at each step the likeliest phoneme, until END.

        With `phonemes`, one sequence a word, these are fed and returned in place of the likeliest: so the weights of
        several models can be compared step by step.  Dropout is off meanwhile.
        """
        was_training = self.training
        self.eval()
        encoded = self.encode(words)
        given = None if phonemes is None else phoneme_ids(phonemes)  # (B, T)
        if given is not None and len(given) != len(words):
            raise ValueError(f"phonemes must hold one sequence a word, but there are {len(words)} and {len(given)}.")
        state, id_before = self.begin(encoded), torch.full((len(words),), END)
        written, weights, ended = [], [], torch.zeros(len(words), dtype=torch.bool)
        while not ended.all() and len(written) < LONGEST:
            step = self.step(state, self.phonemes(id_before), encoded)
            logits = self.logits(step.state, step.context)
            logits[:, PAD] = -math.inf
            id_before = logits.argmax(dim=-1) if given is None else given[:, len(written)]
            state = step.state
            ended = ended | (id_before == END)
            written.append(id_before)
            weights.append(step.weights)
        self.train(was_training)
        rows = None if self.kind == "fixed" else torch.stack(weights, dim=1)  # (B, T, n)
        return [
            _reading(ids, None if rows is None else rows[i, :, : len(words[i])])
            for i, ids in enumerate(torch.stack(written, dim=1).tolist())
        ]


def _reading(ids: list[int], weights: Tensor | None) -> Reading:
    n = ids.index(END) if END in ids else len(ids)
    return Reading(tuple(PHONEMES[i - 2] for i in ids[:n]), None if weights is None else weights[:n])


def load(kind: str) -> Pronouncer:
    """The stored model of this kind, of seed 0, trained by book/tools/train_spelling.py; in eval mode, no gradients.

    Its weights are kept in float16 and computed with in float32.  ValueError for an unknown kind.
    """
    _check(kind)
    with as_file(files("attnlab.data") / f"spelling_{kind}.npz") as path:
        return restore(kind, path)


def restore(kind: str, path: Path) -> Pronouncer:
    """A model with the weights of a file by `keep`."""
    return restored(lambda: Pronouncer(kind), path)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, but it is {kind!r}.")


# ------------------------------------------------------------------------------------------------------ text to numbers


def _letters(words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Spellings → ids (B, n), padded with PAD, and lengths (B,)"""
    if isinstance(words, str):
        raise TypeError(f"words must be a list of spellings, but it is one: pass [{words!r}].")
    if not words:
        raise ValueError("words must hold at least one spelling, but it is empty.")
    for word in words:
        if not word or not (word.isascii() and word.isalpha() and word.islower()):
            raise ValueError(f"a spelling has one letter or more, each of a to z, but this one is {word!r}.")
    return _padded([[ord(letter) - 96 for letter in word] for word in words])


def phoneme_ids(pronunciations: Sequence[Sequence[str]]) -> Tensor:
    """Phonemes → ids (B, T), END after each, padded with PAD.  ValueError for what is no phoneme."""
    for phoneme in (phoneme for phonemes in pronunciations for phoneme in phonemes):
        if phoneme not in PHONEMES:
            raise ValueError(f"{phoneme!r} is no phoneme; there are {' '.join(PHONEMES)}.")
    return _padded([[PHONEMES.index(phoneme) + 2 for phoneme in phonemes] + [END] for phonemes in pronunciations])[0]


def _padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensors = [torch.tensor(row) for row in rows]
    ids = nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
    return ids, torch.tensor([len(row) for row in rows])


def _uniform(*shape: int) -> nn.Parameter:
    """As torch starts its linear layers: uniform within ±1/√(number of inputs)."""
    bound = 1 / math.sqrt(shape[-1])
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
