"""Finding out by calls what a function does with masks."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from attnlab.conventions.displaying import Convention
from attnlab.core import attention
from attnlab.masks import causal as causal_mask

Run = Callable[..., Any]
N_BATCH, N, WIDTH = 2, 4, 4  # the shape of query, key and value: two sequences, four tokens, four features
TOLERANCE = 1e-5  # in float32; what is told apart differs by 1e-2 at least


def measure(
    call: str,
    run: Run,
    *,
    causal: Run | None = None,
    library: str = "torch",
    padding: bool = False,
    self_attention: bool = False,
    n_heads: int = 1,
    fill: float | None = None,
) -> Convention:
    """Find out by calls what a function does with masks.

    run(query, key, value, mask) → output; query, key and value (2, 4, 4): two sequences, four tokens, four features;
    float32 arrays of the library "numpy", "torch" or "jax".  The mask comes as bool and as float, (n_q, n_k) for both
    sequences alike or, with padding=True, (2, n_k), one row a sequence.  run hands it on as it is.

    causal(query, key, value) → output   the same with the function's own causal flag, if it has one
    self_attention                       one and the same array is passed as query, key and value
    n_heads                              heads of the function, for which a module's projections are the identity
    fill                                 forbid by adding this number, whatever True means: -∞, -1e9 …

    An error that run raises is a result: its column says "error", the notes say which.
    """
    api = _Api(run, library, padding, self_attention, n_heads)
    notes: list[str] = []

    def ask(column: str, measurement: Callable, *arguments: Any) -> str:
        try:
            return measurement(*arguments)
        except Exception as error:  # whatever a foreign library raises is what is measured
            notes.append(f"{column}: {type(error).__name__}: {_first_sentence(error)}")
            return "error"

    with _all_warnings(library) as caught:
        true_means = ask("True means", api.meaning, bool)
        one_means = ask("1.0 means", api.meaning, np.float32)
        forbid = _forbidding(true_means, one_means, fill)
        found = Convention(
            call=call,
            true_means=true_means,
            one_means=one_means,
            empty_row=ask("empty row", api.empty_row, forbid) if forbid else "–",
            gradient=ask("gradient", api.gradient, forbid) if forbid and library != "numpy" else "–",
            causal=ask("causal", api.alignment, causal) if causal else "–",
            nan_in_masked=ask("NaN", api.nan_in_masked, forbid) if forbid else "–",
        )
    notes += [f"{warning.category.__name__}: {_first_sentence(warning.message)}" for warning in caught]
    return replace(found, notes=tuple(dict.fromkeys(notes)))


def _forbidding(true_means: str, one_means: str, fill: float | None) -> Callable | None:
    """A function from what is allowed, bool, to the mask by which this API forbids the rest; None if none is known."""
    if fill is None and true_means in ("allowed", "forbidden"):
        return lambda allowed: allowed == (true_means == "allowed")
    if fill is None and one_means in ("allowed", "forbidden"):
        return lambda allowed: (allowed == (one_means == "allowed")).astype(np.float32)
    if fill is not None or "added" in (true_means, one_means):
        return lambda allowed: np.where(allowed, 0, -np.inf if fill is None else fill).astype(np.float32)
    return None


@dataclass(frozen=True)
class _Api:
    """One function, and the questions put to it."""

    run: Run
    library: str
    padding: bool
    self_attention: bool
    n_heads: int

    def meaning(self, dtype: type) -> str:
        """Which keys still weigh where the mask is 1 for two of them and 0 for two."""
        inputs, mask = _inputs(), self._for_all([1, 1, 0, 0]).astype(dtype)
        output = self._call(*inputs, mask)
        weighs = tuple(self._moves(output, [token], inputs, mask) for token in (0, N - 1))  # marked 1, marked 0
        if weighs != (True, True):
            return {(True, False): "allowed", (False, True): "forbidden"}.get(weighs, "other")
        if _close(output, self._call(*inputs, np.zeros_like(mask))):
            return "ignored"
        # What is added to scores may be shifted by a constant: softmax does not see it.
        as_number = mask.astype(np.float32)
        is_added = all(_close(output, self._call(*inputs, as_number + shift)) for shift in np.float32([0, 1]))
        return "added" if is_added else "other"

    def empty_row(self, forbid: Callable) -> str:
        inputs, (allowed, is_empty) = _inputs(), self._one_empty()
        mask = forbid(allowed)
        output = self._call(*inputs, mask)
        if np.isnan(output[is_empty]).all():
            return "NaN, in all" if np.isnan(output).all() else "NaN"
        mean = np.broadcast_to(inputs[2].mean(axis=1, keepdims=True), output.shape)
        for word, expected in (("0", 0 * mean), ("mean(V)", mean), ("as unmasked", self._expected(inputs))):
            if _close(output[is_empty], expected[is_empty]):
                return word
        if not self._moves(output, range(1, N), inputs, mask, sequence=0):
            return "own token"
        return "other: " + " ".join(f"{number:.2f}" for number in output[0, 0])

    def gradient(self, forbid: Callable) -> str:
        inputs, mask = _inputs(), forbid(self._one_empty()[0])
        usable = np.isfinite(self._call(*inputs, mask)).all(axis=-1)  # (B, n_q)
        gradients = {"torch": self._torch_gradients, "jax": self._jax_gradients}[self.library](inputs, mask, usable)
        if gradients is None:
            return "none"
        names = ["x"] if self.self_attention else ["q", "k", "v"]
        bad = [name for name, gradient in zip(names, gradients, strict=True) if not np.isfinite(gradient).all()]
        return f"NaN: {' '.join(bad)}" if bad else "finite"

    def alignment(self, run: Run) -> str:
        query, key, value = _inputs()
        query = query[:, : N // 2]
        output = self._from(run(*(self._to(x) for x in (query, key, value))))
        for align in ("top-left", "bottom-right"):
            if _close(output, self._expected((query, key, value), causal_mask(N // 2, N, align=align))):
                return align
        return "ignored" if _close(output, self._expected((query, key, value))) else "other"

    def nan_in_masked(self, forbid: Callable) -> str:
        query, key, value = _inputs()
        value[:, -1] = np.nan
        output = self._call(query, key, value, forbid(self._for_all([1, 1, 1, 0])))
        return "spoils" if np.isnan(output[:, :-1]).any() else "harmless"  # the token's own row is left out

    # ---- calls

    def _call(self, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray) -> np.ndarray:
        inputs = [self._to(value)] * 3 if self.self_attention else [self._to(x) for x in (query, key, value)]
        return self._from(self.run(*inputs, self._to(mask)))

    def _to(self, array: np.ndarray) -> Any:
        if self.library == "numpy":
            return array.copy()
        return import_module("torch").tensor(array) if self.library == "torch" else _jax().numpy.asarray(array)

    def _from(self, output: Any) -> np.ndarray:
        return np.asarray(output.detach() if self.library == "torch" else output, dtype=float)

    def _moves(self, output: np.ndarray, tokens: Iterable[int], inputs: list, mask: np.ndarray, **where: int) -> bool:
        """Whether the outputs of the other tokens change when key and value of these do."""
        tokens, sequence = list(tokens), where.get("sequence", slice(None))
        query, key, value = inputs
        change = np.zeros_like(value)
        change[:, tokens] = np.arange(WIDTH)  # not the same for all features, which a layer that normalises ignores
        moved = np.abs(self._call(query, key + change, value + change, mask) - output)
        return bool(np.delete(moved, tokens, axis=1)[sequence].max() > TOLERANCE)

    def _for_all(self, row: list[int]) -> np.ndarray:
        return np.broadcast_to(np.array(row, dtype=bool), (N_BATCH if self.padding else N, N))

    def _one_empty(self) -> tuple[np.ndarray, np.ndarray]:
        """A mask that forbids all keys to one row, or to one sequence; and which outputs that concerns, (B, n_q)."""
        allowed = self._for_all([1, 1, 1, 1]).copy()
        allowed[0] = False
        is_empty = np.zeros((N_BATCH, N), dtype=bool)
        is_empty[(0, slice(None)) if self.padding else (slice(None), 0)] = True
        return allowed, is_empty

    def _expected(self, inputs: Iterable[np.ndarray], mask: np.ndarray | None = None) -> np.ndarray:
        """Attention as this course defines it, with this API's heads, in float64."""
        query, key, value = inputs
        query, key = (value, value) if self.self_attention else (query, key)
        split = [x.reshape(*x.shape[:2], self.n_heads, -1).swapaxes(1, 2).astype(float) for x in (query, key, value)]
        output = attention(*split, mask).output  # (B, H, n_q, d)
        return output.swapaxes(1, 2).reshape(*query.shape[:2], -1)

    # ---- gradients of a loss over some rows

    def _torch_gradients(self, inputs: list, mask: np.ndarray, rows: np.ndarray) -> list[np.ndarray] | None:
        torch = import_module("torch")
        leaves = [torch.tensor(x, requires_grad=True) for x in (inputs[2:] if self.self_attention else inputs)]
        output = self.run(*(leaves * 3 if self.self_attention else leaves), torch.tensor(mask))
        if not output.requires_grad:
            return None
        return [gradient.numpy() for gradient in torch.autograd.grad(_loss(output[torch.tensor(rows)]), leaves)]

    def _jax_gradients(self, inputs: list, mask: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        def loss(*leaves: Any) -> Any:
            return _loss(self.run(*leaves, self._to(mask))[rows])

        return [np.asarray(gradient) for gradient in _jax().grad(loss, argnums=(0, 1, 2))(*map(self._to, inputs))]


def _inputs() -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(3, N_BATCH, N, WIDTH)).astype(np.float32))


def _jax() -> Any:
    import_module("jax.numpy")
    return import_module("jax")


def _loss(output: Any) -> Any:
    return ((output + 1) ** 2).sum()  # its gradient at an output of zeros is not zero


def _close(output: np.ndarray, expected: np.ndarray) -> bool:
    return output.shape == expected.shape and bool(np.allclose(output, expected, rtol=0, atol=TOLERANCE))


def _first_sentence(message: object) -> str:
    words = " ".join(str(message).split())
    return re.split(r"(?<=[.!?])\s", words)[0]


@contextmanager
def _all_warnings(library: str) -> Iterator[list]:
    """Collect the warnings, also those that torch gives once a process only."""
    torch = import_module("torch") if library == "torch" else None
    before = torch is not None and torch.is_warn_always_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if torch is not None:
                torch.set_warn_always(True)
            yield caught
        finally:
            if torch is not None:
                torch.set_warn_always(before)
