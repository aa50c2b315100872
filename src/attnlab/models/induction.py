"""Induction: a list of different tokens, then a part of it again.  What followed when this token was here before?

Olsson et al. 2022, "In-context Learning and Induction Heads", arXiv 2209.11895, find heads in language models that look
at the token after the previous occurrence of the present one, and copy it.  Two layers do it together: a head of the
first tells each token which one stands before it, and a head of the second looks for that.  One layer has nothing to
look for: a key knows its own token and place, not its neighbour.

The models here are of attention alone, on top of token and position embeddings.  They differ in the number of layers
and in where the part begins that comes again, which is the offset from a token to its second occurrence:

"two layers", "one layer"                  each list has an offset of its own, from 12 to 24
"one layer, fixed", "two layers, fixed"    the offset is always 18

With a fixed offset one layer is enough: look 17 tokens back.  That takes positions; here they are absolute and learned,
so that each pair of places can have its score.  On lists with this offset such a head has the pattern of an induction
head, and its model makes no mistake.  `induction_score` is that pattern.  What tells the two apart is an intervention:
another offset, or the same one and another token in the place of the previous occurrence.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlab import data
from attnlab.evidence import captured, edited
from attnlab.heads import MultiHeadAttention
from attnlab.models._fit import fit
from attnlab.models._stored import restored
from attnlab.models.spelling import one_thread

__all__ = ["CHANGES", "FIXED", "KINDS", "OFFSETS", "QUERY", "AttentionOnly", "Kind", "Lists", "Trained", "accuracy",
           "change", "draw", "guessing", "heads_above", "induction_score", "load", "previous_token_score", "recorded",
           "train", "without_heads"]  # fmt: skip

N_TOKENS = 32  # of the vocabulary
N_LIST, N_AGAIN = 24, 12  # different tokens, and how many of them come again
OFFSETS = range(N_AGAIN, N_LIST + 1)
FIXED = 18
QUERY = 5  # counted from the first token that comes again: the query at which a changed list is asked
CHANGES = ("copied", "matched")

WIDTH, N_HEADS = 64, 8

BATCH = 32
LEARNING_RATE = 5e-3
WARM_UP = 0.05  # of the steps: the rate rises to the full one, then falls in a straight line to 0


class Kind(NamedTuple):
    """How many layers, the offsets of the lists that it is trained on, and for how many steps."""

    n_layers: int
    offsets: Sequence[int]
    n_steps: int


# Half the steps are enough for two seeds of five with two layers; the others miss some answers at offset 12.
KINDS = {
    "two layers": Kind(2, OFFSETS, 1600),
    "one layer": Kind(1, OFFSETS, 1600),
    "one layer, fixed": Kind(1, (FIXED,), 800),  # the loss is near 0 after a hundred
    "two layers, fixed": Kind(2, (FIXED,), 800),
}


# --------------------------------------------------------------------------------------------------------------- lists


class Lists(NamedTuple):
    """B lists of 24 tokens, no token twice, and 12 of them again, from some place on.

    tokens   (B, 36)
    places   (B, 11), where each token that comes again, but the last, has its answer: the token that stands there comes
             next.  Just before stands the previous occurrence
    unused   (B,), a token that is not in the list
    """

    tokens: Tensor
    places: Tensor
    unused: Tensor


def draw(n_lists: int, offsets: int | Sequence[int], random: torch.Generator) -> Lists:
    """Random lists, whose offsets are drawn from these.  ValueError for an offset that is not between 12 and 24."""
    offsets = torch.tensor([offsets] if isinstance(offsets, int) else list(offsets))
    if not len(offsets) or offsets.min() < N_AGAIN or offsets.max() > N_LIST:
        raise ValueError(f"offsets must be from {N_AGAIN} to {N_LIST}, but they are {offsets.tolist()}.")
    order = torch.rand(n_lists, N_TOKENS, generator=random).argsort(dim=-1)  # (B, V), no token twice
    offset = offsets[torch.randint(len(offsets), (n_lists, 1), generator=random)]  # (B, 1)
    again = N_LIST - offset + torch.arange(N_AGAIN)  # (B, 12), places in the list
    tokens = torch.cat([order[:, :N_LIST], order.gather(1, again)], dim=1)
    return Lists(tokens, again[:, 1:], order[:, -1])


def change(lists: Lists, what: str) -> Lists:
    """The same lists with one token replaced by one that is not in them, for the query with number 5.

    what   "copied", the token at its place, which an induction head copies; or "matched", the token before it, the
           previous occurrence of the query's, without which nothing says what to copy

    Raises ValueError for anything else.
    """
    if what not in CHANGES:
        raise ValueError(f"what must be one of {', '.join(CHANGES)}, but it is {what!r}.")
    at = lists.places[:, QUERY, None] - CHANGES.index(what)  # (B, 1)
    return lists._replace(tokens=lists.tokens.scatter(1, at, lists.unused[:, None]))


def guessing(*, knows_places: bool = False) -> float:
    """Right answers of who knows which tokens are in the list and which have come again, but not their order; on lists
    with all offsets.  With `knows_places`, also at which places of the list an answer can stand."""
    if not knows_places:
        left = [N_LIST - 1 - j for j in range(N_AGAIN - 1)]
    else:  # from place j + 1 on; of these, min(start, j + 1) have come again
        left = [len(OFFSETS) - min(start, j + 1) for start in range(len(OFFSETS)) for j in range(N_AGAIN - 1)]
    return sum(1 / n for n in left) / len(left)


# --------------------------------------------------------------------------------------------------------------- model


class AttentionOnly(nn.Module):
    """Scores of the next token: tokens (B, n), n at most 36 → (B, n, 32).

    Embeddings of tokens and of positions, both learned, are added; each layer adds what its eight heads of 8 features
    give; a linear map reads the sum off.  No normalisation, no feed-forward network.

    ValueError for more tokens than positions.
    """

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(N_TOKENS, WIDTH), nn.Embedding(N_LIST + N_AGAIN, WIDTH)
        self.layers = nn.ModuleList(MultiHeadAttention(WIDTH, N_HEADS, bias=False) for _ in range(n_layers))
        self.readout = nn.Linear(WIDTH, N_TOKENS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self._read(tokens)[0]

    def weights(self, tokens: Tensor) -> Tensor:
        """tokens (B, n) → (n_layers, B, n_heads, n, n)"""
        return torch.stack(self._read(tokens)[1])

    def _read(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        n, longest = tokens.shape[1], len(self.positions.weight)
        if n > longest:
            raise ValueError(f"tokens must be at most {longest} a row, but they have shape {tuple(tokens.shape)}.")
        x, weights = self.tokens(tokens) + self.positions.weight[:n], []  # (B, n, d)
        for layer in self.layers:
            output, of_layer = layer(x, is_causal=True)
            x = x + output
            weights.append(of_layer)
        return self.readout(x), weights


Head = tuple[int, int]  # (layer, head), both counted from 0


@contextmanager
def without_heads(model: AttentionOnly, heads: Iterable[Head], by: str = "zero") -> Iterator[None]:
    """While the `with` block lasts, these heads, each (layer, head), add the same to every token, whatever they read.

    by   "zero": nothing; or "mean": what they add on average over the tokens of 200 other lists, with all offsets

    The weights of a removed head can still be read.  Raises ValueError for a head that the model has not, and for
    another way.
    """
    heads = list(heads)
    if by not in ("zero", "mean"):
        raise ValueError(f"by must be 'zero' or 'mean', but it is {by!r}.")
    for layer, head in heads:
        if not (0 <= layer < len(model.layers) and 0 <= head < N_HEADS):
            raise ValueError(
                f"heads are pairs (layer 0 … {len(model.layers) - 1}, head 0 … {N_HEADS - 1}), not {(layer, head)!r}."
            )
    instead = _means(model) if by == "mean" else torch.zeros(len(model.layers), N_HEADS, WIDTH // N_HEADS)
    with ExitStack() as stack:
        for at in {layer for layer, _ in heads}:
            removed = [head for layer, head in heads if layer == at]

            def replace(x: Tensor, at: int = at, removed: list[int] = removed) -> Tensor:  # (B, n, d), head by head
                x.unflatten(-1, (N_HEADS, -1))[:, :, removed] = instead[at, removed]
                return x

            stack.enter_context(edited(model.layers[at].W_o, replace, where="input"))
        yield


@torch.no_grad()
def _means(model: AttentionOnly) -> Tensor:
    """What each head gives to W_o on average: (n_layers, n_heads, d_head)"""
    tokens = draw(200, OFFSETS, torch.Generator().manual_seed(2_000_000)).tokens
    with ExitStack() as stack:
        seen = [stack.enter_context(captured(layer.W_o)) for layer in model.layers]
        model(tokens)
    return torch.stack([layer.inputs[0].mean(dim=(0, 1)).unflatten(-1, (N_HEADS, -1)) for layer in seen])


# ------------------------------------------------------------------------------------------------------------ measures


def _asked(offset: int | Sequence[int], changed: str | None, n_lists: int, seed: int) -> tuple[Lists, Tensor]:
    """Fresh lists, and the numbers of the queries that count: all 11, or the one for which the lists are changed."""
    lists = draw(n_lists, offset, torch.Generator().manual_seed(seed))
    if changed is None:
        return lists, torch.arange(N_AGAIN - 1)
    return change(lists, changed), torch.tensor([QUERY])


@torch.no_grad()
@one_thread()
def accuracy(
    model: AttentionOnly,
    offset: int | Sequence[int],
    changed: str | None = None,
    n_lists: int = 400,
    seed: int = 1_000_000,
) -> float:
    """How often the model says what stands at the place of the answer, on fresh lists with this offset, or these.

    changed   None, "copied" or "matched", see `change`: then one query counts in each list, of which one token has been
              replaced.  Under "copied" the new token is the one to say.  Under "matched" what stands at the place is
              the same as before, but nothing in the list makes it the answer any longer

    One seed draws the same lists for all models.
    """
    lists, queries = _asked(offset, changed, n_lists, seed)
    said = model(lists.tokens)[:, N_LIST + queries].argmax(dim=-1)  # (B, Q)
    return (said == lists.tokens.gather(1, lists.places[:, queries])).float().mean().item()


@torch.no_grad()
@one_thread()
def induction_score(
    model: AttentionOnly,
    offset: int | Sequence[int],
    changed: str | None = None,
    n_lists: int = 400,
    seed: int = 1_000_000,
) -> Tensor:
    """The mean weight on the token after the previous occurrence of the query's token: (n_layers, n_heads)

    With a list that is `changed`, as in `accuracy`, the weight on the same place.
    """
    lists, queries = _asked(offset, changed, n_lists, seed)
    rows = model.weights(lists.tokens)[:, :, :, N_LIST + queries]  # (n_layers, B, n_heads, Q, n)
    places = lists.places[:, queries][None, :, None, :, None].expand(*rows.shape[:-1], 1)
    return rows.gather(-1, places).mean(dim=(1, 3, 4))


@torch.no_grad()
@one_thread()
def previous_token_score(model: AttentionOnly, n_lists: int = 400, seed: int = 1_000_000) -> Tensor:
    """The mean weight on the token just before, in the list from its second token on: (n_layers, n_heads)"""
    tokens = draw(n_lists, OFFSETS, torch.Generator().manual_seed(seed)).tokens[:, :N_LIST]
    return model.weights(tokens).diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(1, 3))


def heads_above(scores: Tensor, least: float = 0.5) -> list[Head]:
    """The heads with a score of at least so much: scores (n_layers, n_heads) → [(layer, head), …]"""
    return [tuple(found) for found in (scores >= least).nonzero().tolist()]


# ------------------------------------------------------------------------------------------------------------ training


class Trained(NamedTuple):
    """The `model`, in eval mode, and its `losses`, one a step."""

    model: AttentionOnly
    losses: list[float]


@one_thread()
def train(kind: str, seed: int = 0, steps: int | None = None) -> Trained:
    """A new model of this kind, trained on 32 fresh lists a step, each asked for 11 tokens; None are its own steps.

    The same numbers at each call, on one machine; the session's random numbers are left as they are.  Adam, its
    learning rate rising over the first twentieth of the steps, then falling in a straight line to 0; gradients are cut
    to length 1.  ValueError for another kind.
    """
    _check(kind)
    n_layers, offsets, n_steps = KINDS[kind]
    n_steps = n_steps if steps is None else steps
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, random = AttentionOnly(n_layers).train(), torch.Generator().manual_seed(seed)

        def loss(step: int) -> Tensor:
            tokens = draw(BATCH, offsets, random).tokens
            logits = model(tokens[:, :-1])[:, N_LIST:]  # (B, 11, V)
            return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, N_LIST + 1 :].flatten())

        losses = fit(
            model.parameters(),
            loss,
            n_steps,
            learning_rate=LEARNING_RATE,
            n_warm_up=WARM_UP * n_steps,
            largest_gradient=1.0,
        )
    return Trained(model.eval().requires_grad_(False), losses)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {'; '.join(KINDS)}, but it is {kind!r}.")


# ------------------------------------------------------------------------------------------------------- stored models


def file_of(kind: str) -> str:
    return f"induction_{kind.replace(', ', '_').replace(' ', '_')}.npz"


def load(kind: str) -> AttentionOnly:
    """The stored model of this kind, of seed 0, trained by book/tools/train_induction.py; in eval mode, no gradients.

    Its weights are kept in float16 and computed with in float32.  ValueError for another kind.
    """
    _check(kind)
    with as_file(files("attnlab.data") / file_of(kind)) as path:
        return restore(kind, path)


def restore(kind: str, path: Path) -> AttentionOnly:
    """A model with the weights of a file by `keep`."""
    return restored(lambda: AttentionOnly(KINDS[kind].n_layers), path)


def recorded() -> dict:
    """What `book/tools/train_induction.py` wrote; it says there what each number is."""
    return data.recorded("induction.json")
