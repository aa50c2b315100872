"""What heads of SmolLM2 do, by their weights and by interventions: recorded by `book/tools/smollm2_heads.py`.

An induction head looks, at a token that occurred before, at the token after its first occurrence, and so brings what
came next (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; Olsson et al. 2022, "In-context
Learning and Induction Heads", arXiv 2209.11895).  That is a statement about weights.  Whether the model needs the head
is another one, and is asked by an intervention.

    record = smollm2_heads.recorded()                                 what was measured
    ids = smollm2_heads.repeated(model, 4, 25)                        25 random words, twice, (4, 50)
    scores = smollm2_heads.pattern(model, ids).mean(dim=0)            (30, 9)
    means = smollm2_heads.mean_outputs(model, smollm2_heads.repeated(model, 8, 50, times=1))
    with smollm2_heads.without(model, [(17, 3)], means):
        smollm2_heads.losses(model, ids, 26)                          of the repeat, without this head
    last = smollm2_heads.Last(model, ids[:1])                         one query, to be changed and run on
    predict = last.head(17, 3, wanted=ids[0, 26], other=7)            weights (r, n) → (r,): the protocol of evidence

A head reaches the rest of the model through its 64 columns of the input of W_o, and nowhere else: there it is replaced.
Losses are in nats for each token.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnlab import data
from attnlab.evidence.patching import captured, edited
from attnlab.heads import split
from attnlab.models.smollm2 import D_HEAD, D_MODEL, N_HEADS, N_LAYERS, turns

if TYPE_CHECKING:
    from attnlab.models.smollm2 import SmolLM2

__all__ = [
    "HEADS",
    "Last",
    "Prompt",
    "losses",
    "mean_outputs",
    "pattern",
    "prompts",
    "random_heads",
    "recorded",
    "repeated",
    "top",
    "without",
    "words",
]

Head = tuple[int, int]  # (layer, head), both counted from 0

HEADS: list[Head] = [(layer, head) for layer in range(N_LAYERS) for head in range(N_HEADS)]


def recorded() -> dict:
    """What `book/tools/smollm2_heads.py` wrote; each measurement says there what it is."""
    return data.recorded("smollm2_heads.json")


# ---------------------------------------------------------------------------------------------------------- the texts


def words(model: "SmolLM2") -> Tensor:
    """Ids (number,), in rising order, of the tokens that are a space and at least three small letters a … z."""
    letters = set("abcdefghijklmnopqrstuvwxyz")
    found = [
        i
        for word, i in model.tokenizer.get_vocab().items()
        if word[0] == "Ġ" and len(word) > 3 and letters.issuperset(word[1:])
    ]
    return torch.tensor(sorted(found))


def repeated(model: "SmolLM2", number: int, n: int, times: int = 2, seed: int = 0) -> Tensor:
    """Ids (number, times · n): n different words at random, and the same n again; with times=1 nothing is repeated."""
    rng, known = np.random.default_rng([seed, n]), words(model).numpy()
    rows = np.stack([rng.choice(known, n, replace=False) for _ in range(number)])
    return torch.from_numpy(np.tile(rows, times))


class Prompt(NamedTuple):
    """Two texts, ids (1, n), that differ in one word: `wanted` follows in one what `other` follows in the other."""

    clean: Tensor
    corrupted: Tensor
    wanted: int
    other: int


def prompts(model: "SmolLM2", number: int, n: int = 24, seed: int = 0) -> list[Prompt]:
    """n different words at random and then their beginning again, of 9 words or more: … A B …  … A, B wanted.

    Where the text is corrupted, another word C stands in the place of B.  How far B lies back is n − 1 in all of them,
    where in the text it lies differs.
    """
    rng, known, found = np.random.default_rng([3, seed]), words(model).numpy(), []
    for _ in range(number):
        *drawn, other = rng.choice(known, n + 1, replace=False).tolist()
        end = int(rng.integers(8, n - 1))  # the place of A
        clean = torch.tensor([drawn + drawn[: end + 1]])
        corrupted = clean.clone()
        corrupted[0, end + 1] = other
        found.append(Prompt(clean, corrupted, drawn[end + 1], other))
    return found


# ------------------------------------------------------------------------------------------------------- by the weights


@torch.no_grad()
def pattern(model: "SmolLM2", ids: Tensor) -> Tensor:
    """The mean weight from each token of the repeat on the one after its first occurrence: ids (B, 2n) → (B, 30, 9)

    From position n + i it is the key i + 1.  On a text without a repeat this is what the distance n − 1 gets by itself.
    """
    n = ids.shape[1] // 2
    rows = [weights[:, :, n:, 1 : n + 1].diagonal(dim1=-2, dim2=-1).mean(dim=-1) for _, weights in model.layers(ids)]
    return torch.stack(rows, dim=1)


def top(scores: Tensor, k: int) -> list[Head]:
    """The k heads with the highest scores (30, 9), the highest first."""
    return [HEADS[i] for i in scores.flatten().argsort(descending=True)[:k].tolist()]


def random_heads(k: int, number: int, *, among: Iterable[int] | None = None, but: Iterable[Head] = ()) -> list[Head]:
    """k heads at random, those of draw `number`, none of `but`; with `among`, one in each layer of this list of k."""
    rng, left = np.random.default_rng([7, number]), [head for head in HEADS if head not in set(but)]
    if among is None:
        return [left[i] for i in rng.permutation(len(left))[:k]]
    drawn: list[Head] = []
    for layer in among:
        same = [head for head in left if head[0] == layer and head not in drawn]
        drawn.append(same[rng.integers(len(same))])
    return drawn


# ----------------------------------------------------------------------------------------------------------- ablation


@torch.no_grad()
def mean_outputs(model: "SmolLM2", ids: Tensor) -> Tensor:
    """What each head gives on average, over texts and positions after the first: ids (B, n) → (30, 576)

    The input of W_o: head h has the columns 64h … 64h + 63.
    """
    with ExitStack() as stack:
        seen = [stack.enter_context(captured(block.attention.W_o)) for block in model.blocks]
        for _ in model.layers(ids):
            pass
    return torch.stack([one.inputs[0][:, 1:].mean(dim=(0, 1)) for one in seen])


def _columns(heads: Iterable[Head]) -> Tensor:
    """Which of the 576 features that enter W_o belong to these heads: bool (30, 576)"""
    heads = list(heads)
    columns = torch.zeros(N_LAYERS, N_HEADS, D_HEAD, dtype=torch.bool)
    for given in heads:
        if given not in HEADS:
            raise ValueError(f"heads are pairs (layer 0 … {N_LAYERS - 1}, head 0 … {N_HEADS - 1}), not {given!r}.")
        columns[given] = True
    return columns.flatten(1)


@contextmanager
def without(model: "SmolLM2", heads: Iterable[Head], means: Tensor | None = None) -> Iterator["SmolLM2"]:
    """While the block lasts, heads give the same at every position after the first: a row of `means` (30, 576), or 0.

    The first position is left as it is: it has only itself to look at, whatever the head does.  So texts must be read
    as a whole, not through a cache.
    """
    means = torch.zeros(N_LAYERS, D_MODEL) if means is None else means
    columns = _columns(heads)
    with ExitStack() as stack:
        for layer in columns.any(dim=1).nonzero().flatten().tolist():

            def constant(x: Tensor, chosen: Tensor = columns[layer], mean: Tensor = means[layer]) -> Tensor:
                x[:, 1:] = torch.where(chosen, mean, x[:, 1:])
                return x

            stack.enter_context(edited(model.blocks[layer].attention.W_o, constant, where="input"))
        yield model


@torch.no_grad()
def losses(model: "SmolLM2", ids: Tensor, first: int = 1, states: Tensor | None = None, layer: int = 0) -> Tensor:
    """−ln p of each token from position `first` on: ids (B, n) → (B, n − first)

    In a repeat of n words, first = n + 1: nothing announces its beginning.  Where the states (B, n, 576) that enter a
    layer are given, the layers below are not run.
    """
    states = model.words(ids) if states is None else states
    turn = turns(torch.arange(ids.shape[1]))
    for block in model.blocks[layer:]:
        states, _ = block(states, turn, None, None)
    logits = nn.functional.linear(model.norm(states[:, first - 1 : -1]), model.words.weight)  # (B, n − first, 49152)
    return nn.functional.cross_entropy(logits.mT, ids[:, first:], reduction="none")


# ------------------------------------------------------------------------------------- one query, changed and run on


class Last:
    """One text, ids (1, n), as the model read it; then the output of heads at its last position is changed.

    What comes before the last position does not depend on it, so its keys and values are kept, and the layers below the
    change are not run again: a hundred alternatives are a hundred tokens more.

    weights  (30, 9, n) of the last query      mixed  (30, 576) what enters W_o at the last position
    """

    @torch.no_grad()
    def __init__(self, model: "SmolLM2", ids: Tensor) -> None:
        if ids.ndim != 2 or ids.shape[0] != 1 or ids.shape[1] < 2:
            raise ValueError(
                f"ids must have shape (1, n) with n of at least 2, but they have shape {tuple(ids.shape)}."
            )
        self.model, self.n, self._cache = model, ids.shape[1], model.new_cache()
        with ExitStack() as stack:
            mixed = [stack.enter_context(captured(block.attention.W_o)) for block in model.blocks]
            values = [stack.enter_context(captured(block.attention.W_v)) for block in model.blocks]
            layers = list(model.layers(ids, self._cache))
        self.weights = torch.cat([weights[:, :, -1] for _, weights in layers])  # (30, 9, n)
        self.mixed = torch.cat([one.inputs[0][:, -1] for one in mixed])  # (30, 576)
        self._values = torch.cat([split(one.outputs[0], model.n_kv_heads) for one in values])  # (30, 3, n, 64)
        below = [model.words(ids), *(states for states, _ in layers)]
        self._states = torch.cat([states[:, -1] for states in below])  # (31, 576), those that enter each layer

    def values(self, layer: int, head: int) -> Tensor:
        """Those that this head mixes, (n, 64)."""
        return self._values[layer, head * self.model.n_kv_heads // N_HEADS]

    @torch.no_grad()
    def logits(self, tokens: Tensor, layer: int = 0, mixed: Tensor | None = None) -> Tensor:
        """Of these tokens (t,) as the next, with `mixed` (m, 576) entering W_o of the layer: (m, t); None, as it was"""
        return self._run_on(tokens, {layer: self.mixed[layer, None] if mixed is None else mixed})

    @torch.no_grad()
    def patched(self, other: "Last", tokens: Tensor) -> Tensor:
        """The logits of these tokens with the output of one head taken from the other text: (30, 9, t)"""
        own = torch.eye(N_HEADS, dtype=torch.bool).repeat_interleave(D_HEAD, dim=1)  # (9, 576)
        begin = {i: torch.where(own, other.mixed[i], self.mixed[i]) for i in range(N_LAYERS)}
        return self._run_on(tokens, begin).unflatten(0, (N_LAYERS, N_HEADS))

    def _run_on(self, tokens: Tensor, begin: dict[int, Tensor]) -> Tensor:
        """Rows (m, 576) begin at their layer, as what enters W_o there, and go through the rest: (all rows, t)"""
        states, first = torch.empty(0, D_MODEL), min(begin)
        for layer, block in enumerate(self.model.blocks[first:], first):
            mixed = begin.get(layer, torch.empty(0, D_MODEL))
            states = torch.cat((states, self._states[layer].expand(len(mixed), -1)))
            m, n_old = len(states), len(states) - len(mixed)
            # m tokens, each at the last position: each sees those before it and itself, not the one it stands for.
            others = (torch.arange(self.n) < self.n - 1).expand(m, -1)
            mask = torch.cat((others, torch.eye(m, dtype=torch.bool)), dim=1)  # (m, n + m)
            turn = turns(torch.full((m,), self.n - 1))

            def begun(x: Tensor, n_old: int = n_old, mixed: Tensor = mixed) -> Tensor:
                return torch.cat((x[:, :n_old], mixed[None]), dim=1)

            with edited(block.attention.W_o, begun, where="input"):
                (states,), _ = block(states[None], turn, mask, copy.deepcopy(self._cache[layer]))
        return nn.functional.linear(self.model.norm(states), self.model.words.weight[tokens])

    @contextmanager
    def given(self, heads: Iterable[Head]) -> Iterator[None]:
        """While the block lasts, these heads give at the last position of any text what they gave here."""
        columns = _columns(heads)
        with ExitStack() as stack:
            for layer in columns.any(dim=1).nonzero().flatten().tolist():

                def own(x: Tensor, chosen: Tensor = columns[layer], mixed: Tensor = self.mixed[layer]) -> Tensor:
                    x[:, -1] = torch.where(chosen, mixed, x[:, -1])
                    return x

                stack.enter_context(edited(self.model.blocks[layer].attention.W_o, own, where="input"))
            yield

    def head(self, layer: int, head: int, wanted: int, other: int) -> Callable[[Any], Any]:
        """`predict` for attnlab.evidence: weights (r, n) of this head → logit of `wanted` minus that of `other`, (r,)

        NumPy for NumPy.  The model goes on from the mixture of the head's values; the values themselves stay.
        """
        columns = slice(head * D_HEAD, (head + 1) * D_HEAD)
        tokens = torch.tensor([int(wanted), int(other)])

        def predict(weights: Any) -> Any:
            rows = torch.as_tensor(weights, dtype=torch.float32)
            if rows.ndim != 2 or rows.shape[1] != self.n:
                raise ValueError(f"weights must have shape (m, {self.n}), but they have shape {tuple(rows.shape)}.")
            mixed = self.mixed[layer].repeat(len(rows), 1)  # (m, 576)
            mixed[:, columns] = rows @ self.values(layer, head)
            logits = self.logits(tokens, layer, mixed)  # (m, 2)
            found = logits[:, 0] - logits[:, 1]
            return found.numpy() if isinstance(weights, np.ndarray) else found

        return predict
