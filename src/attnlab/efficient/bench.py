"""What `make bench` recorded: times side by side with bytes and operations, the machine, and the goals.

    bench.show_machine()            on what, with which versions, when
    bench.show_times(heads=8)       milliseconds by length
    bench.show_memory(heads=8)      bytes that the calls allocated
    bench.show_decode()             one new token, over caches with fewer and fewer key heads
    bench.show_goals()              what was hoped for, and what was measured

Times are of one machine: ratios carry further than milliseconds, and neither carries to a GPU.
"""

import json
import math
from importlib import resources

__all__ = ["judged", "recorded", "show_decode", "show_goals", "show_machine", "show_memory", "show_times"]


def recorded() -> dict:
    """What `book/tools/bench.py` wrote.

    rows           a dict for each call, length n and number of heads: `ms`, the quartiles of its times (None where it
                   was left out: `why_not` says why); `rounds`, how many times were taken; `peak_bytes` that it
                   allocated and held at once, its result included (None inside of a library, where the meter does not
                   see); `operations` of its two matrix products
    decode_rows    the same for a step of decoding, `decode`, by number of key heads, with `cache_bytes`
    machine, versions, date, dtype, d_head, window, tile, window_block      what to state beside a time
    goals          what `judged` makes of it
    """
    return json.loads(resources.files("attnlab.data").joinpath("bench.json").read_text("utf-8"))


def judged(record: dict) -> list[dict]:
    """The goals, each with the ratios measured, by number of heads, and whether all of them reach it.

    A goal holds for a length: of what was measured, the longest that is no longer.
    """

    def ratios(n_goal: int, slow: str, fast: str, *, of: str = "ms") -> tuple[int, dict[str, float]]:
        n = max((n for n in record["lengths"] if n <= n_goal), default=min(record["lengths"]))
        rows = {(row["heads"], row["call"]): _number(row, of) for row in record["rows"] if row["n"] == n}
        pairs = {heads: (rows[heads, slow], rows[heads, fast]) for heads in record["heads"]}
        return n, {str(heads): a / b for heads, (a, b) in pairs.items() if a is not None and b is not None}

    decode = record["decode"]
    steps = {row["kv_heads"]: _number(row, "ms") for row in record["decode_rows"] if row["call"] == "grouped"}
    most, fewer = decode["heads"], 4
    window = record["window"]
    goals = [
        ("naive needs 100 × the memory of tiled", 100, *ratios(8192, "naive", "tiled", of="peak_bytes")),
        ("naive needs the time of tiled, or more", 1, *ratios(8192, "naive", "tiled")),
        (
            f"decode: {most} key heads need 3 × the time of {fewer}",
            3,
            decode["length"],
            {str(most): steps[most] / steps[fewer]},
        ),
        (f"causal SDPA needs 4 × the time of window {window}", 4, *ratios(8192, "SDPA, causal", "window")),
        ("SDPA needs 20 × the time of linear", 20, *ratios(16384, "SDPA", "linear")),
    ]
    return [
        {
            "goal": goal,
            "n": n,
            "at_least": least,
            "measured": {heads: float(f"{ratio:.4g}") for heads, ratio in found.items()},
            "met": bool(found) and min(found.values()) >= least,
        }
        for goal, least, n, found in goals
    ]


def _number(row: dict, of: str) -> float | None:
    """The median of the times, or the bytes."""
    return row[of][1] if of == "ms" and row[of] else row[of]


# ------------------------------------------------------------------------------------------------------------- showing


def show_machine(record: dict | None = None) -> None:
    """Print what has to stand beside the times."""
    record = record or recorded()
    machine, versions = record["machine"], record["versions"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, {machine['system']}")
    print(", ".join(f"{name} {number}" for name, number in versions.items()), f"(measured {record['date']})")


def show_times(heads: int = 8, record: dict | None = None) -> None:
    """Print milliseconds by length: the median, and half the distance between the quartiles.  – was left out."""
    record = record or recorded()

    def cell(row: dict) -> str:
        return "–" if row["ms"] is None else _median(row)

    _show(f"milliseconds, {_count(heads)}, d = {record['d_head']}, {record['dtype']}", heads, record, cell)


def show_memory(heads: int = 8, record: dict | None = None) -> None:
    """Print the MiB that the calls allocated and held at once.  – was left out; ? is inside of a library, unseen."""
    record = record or recorded()

    def cell(row: dict) -> str:
        if row["why_not"]:
            return "–"
        return "?" if row["peak_bytes"] is None else _digits(row["peak_bytes"] / 2**20, 3)

    _show(f"MiB, {_count(heads)}, d = {record['d_head']}, {record['dtype']}", heads, record, cell)


def show_decode(record: dict | None = None) -> None:
    """Print what one new token costs, by number of key heads: grouped, and with the heads copied out first.

    extra MiB: the most that the call held at one time beside its inputs, and so beside the cache.
    """
    record = record or recorded()
    decode = record["decode"]
    print(f"one token, batch {decode['batch']}, {decode['heads']} query heads, {decode['length']} cached tokens")
    print(f"{'key heads':>9}{'cache MiB':>11}{'grouped: ms':>16}{'extra MiB':>11}{'repeated: ms':>16}{'extra MiB':>11}")
    for n_kv in decode["kv_heads"]:
        rows = {row["call"]: row for row in record["decode_rows"] if row["kv_heads"] == n_kv}
        line = f"{n_kv:>9}{_digits(rows['grouped']['cache_bytes'] / 2**20, 3):>11}"
        for name in ("grouped", "repeated"):
            if name not in rows:
                line += f"{'–':>16}{'–':>11}"
                continue
            line += f"{_median(rows[name]):>16}{_digits(rows[name]['peak_bytes'] / 2**20, 3):>11}"
        print(line)


def show_goals(record: dict | None = None) -> None:
    """Print each goal, what was measured, and whether it was met."""
    record = record or recorded()
    for goal in judged(record):
        found = ", ".join(f"{ratio:.4g} ({_count(heads)})" for heads, ratio in goal["measured"].items())
        print(f"{'met' if goal['met'] else 'MISSED':<7}{goal['goal']}, n = {goal['n']}")
        print(f"{'':7}measured: {found or 'nothing'}")


def _show(title: str, heads: int, record: dict, cell) -> None:
    if heads not in record["heads"]:
        raise ValueError(f"heads must be one of {record['heads']}, which were measured, but it is {heads}.")
    lengths = record["lengths"]
    print(title)
    print(f"{'n =':<15}" + "".join(f"{n:>12}" for n in lengths))
    rows = [row for row in record["rows"] if row["heads"] == heads]
    for name in dict.fromkeys(row["call"] for row in rows):
        cells = {row["n"]: cell(row) for row in rows if row["call"] == name}
        print(f"{name:<15}" + "".join(f"{cells[n]:>12}" for n in lengths))


def _count(heads: int | str) -> str:
    return f"{heads} head" if int(heads) == 1 else f"{heads} heads"


def _median(row: dict) -> str:
    """The median of the times, and half the distance between the quartiles to one digit."""
    low, median, high = row["ms"]
    return f"{_digits(median, 3)}±{_digits((high - low) / 2, 1)}"


def _digits(x: float, n: int) -> str:
    """A number with n significant digits, written without an exponent."""
    if x == 0:
        return "0"
    return f"{x:.{max(n - 1 - math.floor(math.log10(abs(x))), 0)}f}"
