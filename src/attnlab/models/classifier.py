"""A small classifier of texts whose attention weights can be changed while all else stays: is a review good or bad?

Words become states, attention mixes the states into one context, and the context is read off as one number, the logit:

    states (n, d)  →  weights (n,) = softmax(vᵀ tanh(W_q query + W_k state))  →  context (d,)  →  logit

The query is learned and the same for every text; the scores are Bahdanau's.  Two kinds differ in the states alone:

"bilstm"      a network that reads the text in both directions: the state of a word knows the words around it
"no context"  the word's own embedding through one layer: its state knows nothing of the others

So are the models of Jain and Wallace 2019, "Attention is not Explanation", arXiv 1902.10186; theirs are larger, and
start from word vectors that were trained elsewhere.  The last layer is linear.  With the states held fast, the logit is
then affine in the weights, and what other weights would give needs one product: `from_weights`.
"""

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from attnlab import masks
from attnlab.core import additive, attend
from attnlab.models._stored import restored
from attnlab.models.classifier_texts import PAD

__all__ = ["KINDS", "Classifier", "load"]

KINDS = ("bilstm", "no context")
STORED = (("movie", "bilstm"), ("movie", "no context"), ("sms", "bilstm"), ("movie", "adversary"))


class Classifier(nn.Module):
    """The classifier, with one of the two kinds of states.

    kind         "bilstm" or "no context"
    n_words      numbers of words that it knows, with PAD and UNKNOWN among them
    d_embedding  width of the embeddings;  d, width of the states, even;  d_scores, units that score
    dropout      the share of numbers set to zero in training, in the embeddings and in the context

    Ids (B, n) are padded with PAD on the right.  Each text needs a word.  Raises ValueError for an unknown kind and for
    an odd width.
    """

    def __init__(
        self, kind: str, n_words: int, d_embedding: int = 32, d: int = 64, d_scores: int = 32, dropout: float = 0.3
    ) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, but it is {kind!r}.")
        if d < 2 or d % 2:
            raise ValueError(f"d must be an even number of at least 2, but it is {d}.")
        self.kind = kind
        self.embeddings = nn.Embedding(n_words, d_embedding, padding_idx=PAD)
        with torch.no_grad():
            self.embeddings.weight.mul_(0.1)  # torch starts them at variance 1, and most words are too rare to get away
        if kind == "bilstm":
            self.encoder = nn.LSTM(d_embedding, d // 2, batch_first=True, bidirectional=True)
        else:
            self.encoder = nn.Linear(d_embedding, d)
        # The weights of attention, in the shapes that attnlab.additive takes.
        self.query, self.v = _uniform(d_scores), _uniform(d_scores)
        self.W_q, self.W_k = _uniform(d_scores, d_scores), _uniform(d_scores, d)
        self.readout = nn.Linear(d, 1)
        self.dropout = nn.Dropout(dropout)

    def states(self, ids: Tensor) -> Tensor:
        """ids (B, n) → (B, n, d)"""
        return self.read(self.embeddings(ids), self.lengths(ids))

    def read(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """The same from embeddings (B, n, d_embedding), for gradients, and the lengths (B,) of the texts."""
        embedded = self.dropout(embedded)
        if self.kind == "no context":
            return torch.tanh(self.encoder(embedded))
        # Packed, the backward reading begins at a text's own last word, and padding is never read.
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.encoder(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])[0]

    def lengths(self, ids: Tensor) -> Tensor:
        """ids (B, n) → the number of words of each text (B,).  ValueError where a text has none."""
        lengths = (ids != PAD).sum(dim=-1)
        if not (lengths > 0).all():
            raise ValueError(f"each text must have at least one word, but one of {tuple(ids.shape)} is all padding.")
        return lengths

    def scores(self, states: Tensor) -> Tensor:
        """How well each word answers the query, padding not yet left out: (B, n, d) → (B, n)"""
        return additive(self.query[None], states, self.W_q, self.W_k, self.v)[:, 0]

    def weigh(self, states: Tensor, lengths: Tensor, temperature: float = 1.0) -> Tensor:
        """The weights over the words: (B, n, d) → (B, n), 0 at padding.  The scores are divided by the temperature."""
        mask = masks.padding(lengths, states.shape[1], like=states)  # (B, 1, n)
        scores = self.scores(states)[:, None] / temperature  # (B, 1, n)
        return attend(scores, states, mask).weights[:, 0]

    def weights(self, ids: Tensor, temperature: float = 1.0) -> Tensor:
        """The same from ids (B, n)."""
        return self.weigh(self.states(ids), self.lengths(ids), temperature)

    def logits(self, states: Tensor, weights: Tensor) -> Tensor:
        """The logits of texts whose states are mixed with these weights: (B, n, d), (B, n) → (B,)"""
        context = (weights[:, None] @ states)[:, 0]  # (B, d)
        return self.readout(self.dropout(context))[:, 0]

    def forward(self, ids: Tensor, weights: Tensor | None = None) -> Tensor:
        """The logits (B,) of texts (B, n); p(label 1) is their sigmoid.  Given weights (B, n) replace the own ones."""
        states = self.states(ids)
        if weights is None:
            weights = self.weigh(states, self.lengths(ids))
        elif weights.shape != ids.shape:
            raise ValueError(
                f"weights must have the shape of ids, {tuple(ids.shape)}, but have {tuple(weights.shape)}."
            )
        return self.logits(states, weights)

    @torch.no_grad()
    def from_weights(self, ids: Tensor) -> Callable:
        """What `attnlab.evidence` asks with: for one text, ids (n,), a function from weights (r, n) to logits (r,).

        The states are computed once and held fast.  It takes NumPy arrays or tensors and returns the same; in float64,
        so that differences of logits are not those of rounding.
        """
        states = self.states(ids[None])[0]  # (n, d)
        of_word = (
            states @ self.readout.weight[0]
        ).double()  # (n,): what the logit gains where all weight is on the word
        bias = self.readout.bias.double()

        def predict(weights: np.ndarray | Tensor) -> np.ndarray | Tensor:
            if isinstance(weights, Tensor):
                return weights.double() @ of_word + bias
            return np.asarray(weights, np.float64) @ of_word.numpy() + bias.numpy()

        return predict


def load(name: str, kind: str) -> Classifier:
    """The stored model of seed 0 for ("movie", "bilstm"), ("movie", "no context"), ("sms", "bilstm"), and ("movie",
    "adversary"), a "bilstm" that was trained to weigh other words than the first one and to decide as it does.

    Written by book/tools/train_classifiers.py; its words are those of `corpus(name)`.  In eval mode, no gradients.
    ValueError where none is stored.
    """
    if (name, kind) not in STORED:
        raise ValueError(f"Stored are {', '.join(map(str, STORED))}, but not {(name, kind)!r}.")
    with as_file(files("attnlab.data") / f"classifier_{name}_{kind.replace(' ', '_')}.npz") as path:
        return restore(kind, path)


def restore(kind: str, path: Path) -> Classifier:
    """A model with the weights of a file by `keep`, to compute with in float32; no gradients."""
    with np.load(path) as stored:
        n_words = len(stored["embeddings.weight"])
    return restored(lambda: Classifier("bilstm" if kind == "adversary" else kind, n_words), path)


def _uniform(*shape: int) -> nn.Parameter:
    """As torch starts its linear layers: uniform within ±1/√(number of inputs)."""
    bound = shape[-1] ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
