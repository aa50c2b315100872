"""Matplotlib pictures in one look: the colours of the live figures, axes always labelled.

Blue is the first of two things and orange the second, everywhere in the course; a second cue (dashes, marker, label)
goes with each colour. A notebook shows a picture at the end of its cell; in a script, call `plt.show()`. `plt.gca()`
gives the axes that were drawn. Needs matplotlib: `pip install matplotlib`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

try:
    import matplotlib
    import matplotlib.pyplot as plt
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("attnlab.plots needs matplotlib. Install it with: pip install matplotlib") from error

# Load the backend now. Loaded inside rc_context, it would turn interactive mode on only until that context ends, and a
# notebook would show the first picture and no other.
plt.switch_backend(matplotlib.get_backend())

BLUE, ORANGE, GREY = "#0a66b0", "#b44a00", "#5a6673"
_LINES = [(BLUE, "-"), (ORANGE, (0, (5, 2))), (GREY, (0, (1, 1.2)))]

LOOK = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "font.size": 10,
    "grid.color": "#dfe4ea",
    "lines.linewidth": 2,
}


def curves(x: np.ndarray, lines: Mapping[str, np.ndarray], *, x_label: str, y_label: str, log_x: bool = False) -> None:
    """Up to three curves over one axis. x (n,), each line (n,), with its name."""
    if len(lines) > len(_LINES):
        raise ValueError(f"curves draws at most {len(_LINES)} lines that can be told apart; got {len(lines)}")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(6.2, 2.9))
        for (name, y), (colour, dashes) in zip(lines.items(), _LINES, strict=False):
            axes.plot(x, y, color=colour, linestyle=dashes, label=name)
        axes.legend(frameon=False)
        axes.set(xlabel=x_label, ylabel=y_label, xscale="log" if log_x else "linear")


def shares(weights: np.ndarray, keys: Sequence[str], *, x_label: str = "Weight", y_label: str = "Keys") -> None:
    """The weights of one query as bars with their percentages. weights (n_k,), one name a key."""
    weights = np.asarray(weights)
    if weights.shape != (len(keys),):
        raise ValueError(f"weights have shape {weights.shape}, but there are {len(keys)} keys; give one weight a key")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(6.2, 0.7 + 0.32 * len(keys)))
        bars = axes.barh(range(len(keys)), weights, color=BLUE, height=0.65)
        axes.bar_label(bars, [f"{100 * w:.1f} %" for w in weights], padding=4)
        axes.set_yticks(range(len(keys)), keys)
        axes.invert_yaxis()
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(0, 1.12))
        axes.grid(axis="y", visible=False)


def mixtures(values: np.ndarray, outputs: np.ndarray) -> None:
    """Values and what is mixed from them, in the plane. values (n_k, 2), outputs (n, 2)."""
    values, outputs = np.asarray(values), np.asarray(outputs)
    if values.shape[1:] != (2,) or outputs.shape[1:] != (2,):
        raise ValueError(f"mixtures draws points of the plane; got values {values.shape} and outputs {outputs.shape}")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(4.2, 3.4))
        ring = np.vstack([values, values[:1]])
        axes.plot(*ring.T, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.scatter(*outputs.T, color=ORANGE, s=16, marker="x", zorder=3, label="outputs")
        axes.scatter(*values.T, color=BLUE, s=60, zorder=4, label="values")
        for i, point in enumerate(values, start=1):
            axes.annotate(f"$v_{i}$", point, (7, 5), textcoords="offset points", color=BLUE)
        axes.set(xlabel="component 1", ylabel="component 2")
        axes.legend(frameon=False)
