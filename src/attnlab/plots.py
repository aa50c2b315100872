"""Matplotlib pictures in one look: the colours of the live figures, axes always labelled.

Blue is the first of two things and orange the second, everywhere in the course; a second cue (dashes, marker, label)
goes with each colour. The larger a number, the stronger its colour. Pictures are at most `WIDTH` inches wide, so that a
phone, which shrinks them to its screen, still shows their words. Their background is white in every notebook; the
book's stylesheet turns them over for its dark pages. A notebook shows a picture at the end of its cell; in a script,
call `plt.show()`. `plt.gca()` gives the axes that were drawn. Needs matplotlib: `pip install matplotlib`.
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

BLUE, ORANGE, GREY, INK = "#0a66b0", "#b44a00", "#5a6673", "#1c2530"
STRENGTH = "Blues"  # of heat maps: paler or stronger, so that it reads in grey and to every eye
WIDTH = 4.5  # inches
_LINES = [(BLUE, "-", "o"), (ORANGE, (0, (5, 2)), "s"), (GREY, (0, (1, 1.2)), "^")]

LOOK = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.dpi": 115,
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.color": "#dfe4ea",
    "lines.linewidth": 2,
    "savefig.facecolor": "white",
    "text.color": INK,
}


def curves(
    x: np.ndarray,
    lines: Mapping[str, np.ndarray],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    points: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Up to three curves over one axis, x (n,) and each line (n,) with its name; `points` (m,), (m,) lie under them."""
    if len(lines) > len(_LINES):
        raise ValueError(f"curves draws at most {len(_LINES)} lines that can be told apart; got {len(lines)}")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(WIDTH, 2.7))
        if points is not None:
            axes.scatter(*points, color=GREY, s=18, facecolors="none", zorder=1)
        few = len(x) <= 13  # measured at these places and no other
        for (name, y), (colour, dashes, marker) in zip(lines.items(), _LINES, strict=False):
            axes.plot(x, y, color=colour, linestyle=dashes, label=name, marker=marker if few else None, markersize=4.5)
        axes.legend(frameon=False, handlelength=2.6)
        scales = {True: "log", False: "linear"}
        axes.set(xlabel=x_label, ylabel=y_label, xscale=scales[log_x], yscale=scales[log_y])
        if log_x and len(x) <= 6:  # a few measured places: these are the numbers to read, not powers of ten
            axes.set_xticks(x, [f"{place:g}" for place in x])
            axes.xaxis.set_minor_locator(plt.NullLocator())


def shares(weights: np.ndarray, keys: Sequence[str], *, x_label: str = "Weight", y_label: str = "Keys") -> None:
    """The weights of one query as bars with their percentages. weights (n_k,), one name a key."""
    weights = np.asarray(weights)
    if weights.shape != (len(keys),):
        raise ValueError(f"weights have shape {weights.shape}, but there are {len(keys)} keys; give one weight a key")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(WIDTH, 0.7 + 0.32 * len(keys)))
        bars = axes.barh(range(len(keys)), weights, color=BLUE, height=0.65)
        axes.bar_label(bars, [f"{100 * w:.1f} %" for w in weights], padding=4)
        axes.set_yticks(range(len(keys)), keys)
        axes.invert_yaxis()
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(0, 1.3), xticks=np.linspace(0, 1, 5))
        axes.grid(axis="y", visible=False)


def heatmap(
    tables: Mapping[str, np.ndarray],
    *,
    allowed: np.ndarray | Mapping[str, np.ndarray] | None = None,
    x_label: str = "Keys",
    y_label: str = "Queries",
    x_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    y_names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    digits: int = 2,
) -> None:
    """Up to four tables, stronger in colour where larger, with their numbers while there is room for them.

    Each table (n_q, n_k), with its title; side by side, or below each other where a phone would show too little.
    `allowed` (n_q, n_k) of bool hatches what is forbidden; `x_names`, one a column, and `y_names`, one a row, stand in
    place of the numbers of keys and queries. Each of the three is for all tables, or for each by its title. Tables of
    weights and masks, between 0 and 1, share one scale of colours; any other table has its own.
    """
    if not 1 <= len(tables) <= 4:
        raise ValueError(f"heatmap draws one to four tables; got {len(tables)}")
    tables = {title: np.asarray(table, dtype=np.float64) for title, table in tables.items()}
    names = {title: [_of(each, title) for each in (y_names, x_names)] for title in tables}
    for title, table in tables.items():
        if table.ndim != 2:
            raise ValueError(f"each table has shape (n_q, n_k), but {title!r} has shape {table.shape}")
        for given, size, side in zip(names[title], table.shape, ("y_names", "x_names"), strict=True):
            if given is not None and len(given) != size:
                raise ValueError(f"{title!r} has shape {table.shape}, but {side} holds {len(given)} names")
    rows, columns = max(t.shape[0] for t in tables.values()), max(t.shape[1] for t in tables.values())
    longest_y, longest_x = (
        max((len(n) for given in names.values() for n in given[k] or ["00"]), default=2) for k in (0, 1)
    )
    left, below = 0.42 + 0.08 * longest_y, 0.75  # inches
    across, size = _arranged(len(tables), columns, left, long_names=longest_x > 2)
    steep = longest_x > 2 and 0.09 * longest_x > size  # or the names would touch
    down = -(-len(tables) // across)
    strongest = 2 if size >= ROOM else 1.25  # black numbers must be read on every cell, in both themes
    own = {"axes.grid": False, "hatch.color": GREY, "hatch.linewidth": 0.7, "figure.constrained_layout.hspace": 0.04}
    with plt.rc_context(LOOK | own):
        width, height = (
            (left + size * columns) * across,
            (below + size * rows) * down + (0.06 * longest_x if steep else 0),
        )
        _, all_axes = plt.subplots(down, across, figsize=(max(width, 1.5), height), squeeze=False)
        for axes in all_axes.flat[len(tables) :]:
            axes.remove()
        for axes, (title, table) in zip(all_axes.flat, tables.items(), strict=False):
            mask = _of(allowed, title)
            seen = np.isfinite(table) & (True if mask is None else mask)
            low, high = table.min(where=seen, initial=0), table.max(where=seen, initial=0)
            high = 1 if low == 0 and high <= 1 else high
            shown = np.where(seen, table, low)
            axes.imshow(shown, cmap=STRENGTH, vmin=low, vmax=low + strongest * (high - low), aspect="equal")
            for (i, j), number in np.ndenumerate(table):
                forbidden = mask is not None and not mask[i, j]
                if forbidden:
                    axes.add_patch(plt.Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="////", linewidth=0))
                elif size >= ROOM:
                    axes.text(j, i, _short(number, digits), ha="center", va="center", fontsize=9, color="black")
            axes.set(title=title, xlabel=x_label, ylabel=y_label)
            axes.title.set_fontsize(10)
            every = 1 if size >= 0.24 else 5 if columns > 12 else 3  # or the numbers of the keys would touch
            for set_ticks, given, n in zip((axes.set_yticks, axes.set_xticks), names[title], table.shape, strict=True):
                set_ticks(range(0, n, 1 if given else every), given)
            if steep:
                plt.setp(axes.get_xticklabels(), rotation=40, ha="right", rotation_mode="anchor")
        if steep and across == 1 and not isinstance(x_names, Mapping):  # said once, below the last
            for axes in all_axes.flat[:-1]:
                axes.set(xlabel="", xticklabels=[])


ROOM = 0.38  # inches of a cell that holds its number


def _of(given, title: str):
    """What belongs to one table: given for it by its title, or for all."""
    return given.get(title) if isinstance(given, Mapping) else given


def _arranged(n: int, columns: int, left: float, *, long_names: bool) -> tuple[int, float]:
    """How many of n tables stand side by side, and the inches of a cell, in pictures that a phone can show."""
    least = ROOM if n <= 2 and columns <= 8 else 0.2 if long_names else 0.12
    for across in (n, 2, 1):
        size = min(0.44, (WIDTH / across - left) / columns)
        if across <= n and size >= least:
            break
    return across, size


def _short(number: float, digits: int) -> str:
    if not np.isfinite(number):
        return {np.inf: "∞", -np.inf: "−∞"}.get(number, "NaN")
    return f"{round(number, digits) + 0.0:.{digits}f}".replace("-", "−")


def pair_grid(from_query: np.ndarray, from_key: np.ndarray) -> None:
    """How additive scoring meets every pair: a row of units for each query, one for each key, their sums in a grid.

    from_query (n_q, h), from_key (n_k, h): each unit is a small square, blue above zero and orange, crossed, below.
    """
    from_query, from_key = np.asarray(from_query), np.asarray(from_key)
    if from_query.ndim != 2 or from_query.shape[1:] != from_key.shape[1:]:
        raise ValueError(
            "from_query (n_q, h) and from_key (n_k, h) must agree in h, "
            f"but they have shapes {from_query.shape} and {from_key.shape}"
        )
    wide = 1.6  # a cell is so much wider than high
    (n_q, h), n_k = from_query.shape, len(from_key)
    step, largest = 1 / (h + 1), np.abs(from_query[:, None] + from_key).max()
    with plt.rc_context(LOOK | {"axes.grid": False}):
        _, axes = plt.subplots(figsize=(WIDTH, WIDTH * (n_q + 1.5) / (n_k + 1.7) / wide))

        def units(numbers: np.ndarray, x: float, y: float) -> None:
            for u, number in enumerate(numbers):
                side = step * 0.86 * np.sqrt(abs(number) / largest)
                left, middle, tall = x + (u + 1) * step - side / 2, y, side * wide
                colour = BLUE if number > 0 else ORANGE
                axes.add_patch(plt.Rectangle((left, middle - tall / 2), side, tall, color=colour))
                if number < 0:  # a second cue beside the colour
                    axes.plot([left, left + side], [middle - tall / 2, middle + tall / 2], color="white", linewidth=1)

        for i in range(n_q):
            units(from_query[i], -1.6, n_q - 1 - i)
        for j in range(n_k):
            units(from_key[j], j - 0.5, n_q - 0.1)
            for i in range(n_q):
                axes.add_patch(plt.Rectangle((j - 0.5, n_q - 1.5 - i), 1, 1, fill=False, edgecolor=GREY, linewidth=0.8))
                units(from_query[i] + from_key[j], j - 0.5, n_q - 1 - i)
        axes.text(-1.1, n_q - 0.1, "+", ha="center", va="center", fontsize=13)
        axes.set(xlim=(-1.65, n_k - 0.45), ylim=(-0.6, n_q + 0.35), title=f"One sum for each pair: ({n_q}, {n_k}, {h})")
        axes.set(xlabel=f"Keys: from_key ({n_k}, {h}), in the top row", ylabel=f"Queries: from_query ({n_q}, {h})")
        axes.title.set_fontsize(10)
        axes.set_xticks(range(n_k))
        axes.set_yticks(range(n_q), [str(n_q - 1 - i) for i in range(n_q)])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)


def images(pictures: np.ndarray, titles: Sequence[str]) -> None:
    """Square grey pictures in a row, each with its title. pictures (n, side · side) or (n, side, side), 0 = white."""
    pictures = np.asarray(pictures, dtype=np.float64)
    side = round(np.sqrt(np.prod(pictures.shape[1:])))
    if len(pictures) != len(titles) or np.prod(pictures.shape[1:]) != side * side:
        raise ValueError(
            f"images needs square pictures, one title each; got shape {pictures.shape} and {len(titles)} titles"
        )
    with plt.rc_context(LOOK | {"axes.grid": False}):
        wide = min(1.35, WIDTH / len(pictures))
        _, all_axes = plt.subplots(1, len(pictures), figsize=(wide * len(pictures), wide + 0.35), squeeze=False)
        for axes, picture, title in zip(all_axes[0], pictures, titles, strict=True):
            axes.imshow(picture.reshape(side, side), cmap="Greys", vmin=0)
            axes.set_title(title, fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])


def mixtures(values: np.ndarray, outputs: np.ndarray) -> None:
    """Values and what is mixed from them, in the plane. values (n_k, 2), outputs (n, 2)."""
    values, outputs = np.asarray(values), np.asarray(outputs)
    if values.shape[1:] != (2,) or outputs.shape[1:] != (2,):
        raise ValueError(f"mixtures draws points of the plane; got values {values.shape} and outputs {outputs.shape}")
    with plt.rc_context(LOOK):
        _, axes = plt.subplots(figsize=(4.0, 3.3))
        ring = np.vstack([values, values[:1]])
        axes.plot(*ring.T, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.scatter(*outputs.T, color=INK, s=18, marker="x", zorder=3, label="outputs")
        for i, point in enumerate(values):
            colour, _, marker = _LINES[min(i, 2)]
            axes.scatter(*point, color=colour, marker=marker, s=60, zorder=4, label=f"value $v_{i + 1}$")
            axes.annotate(f"$v_{i + 1}$", point, (7, 5), textcoords="offset points", color=colour)
        axes.set(xlabel="Component 1", ylabel="Component 2")
        axes.margins(0.08)
        axes.legend(frameon=False)
