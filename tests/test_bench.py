"""The recorded benchmark is whole, its bytes and operations come out again, and the tool runs.  Never a time."""

import importlib.util
import json
import sys
from importlib import resources
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlab.efficient import bench

TOOL = Path(__file__).resolve().parents[1] / "book/tools/bench.py"
sys.path.append(str(TOOL.parent))
RECORD = json.loads((resources.files("attnlab.data") / "bench.json").read_text("utf-8"))
NOT_COMPILED = {"compiled": "not here", "flex": "not here"}
SMALL = 1024  # the shortest length that is recorded
UNSEEN = {"SDPA", "compiled", "flex", "SDPA, causal", "window by mask"}  # they allocate inside of torch
MATRICES = {"naive", "compiled", "window by mask"}  # they make n × n numbers, or may


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("bench_tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def tiny(tool, tmp_path_factory):
    """A run of the whole tool, at sizes that take no time."""
    file, threads = tmp_path_factory.mktemp("bench") / "tiny.json", torch.get_num_threads()
    sizes = ["--lengths", "32", "160", "--heads", "1", "2", "--decode-length", "16", "--rounds", "2"]
    try:
        tool.main([*sizes, "--threads", "1", "--without-compile", "--out", str(file)])
    finally:
        torch.set_num_threads(threads)
    return json.loads(file.read_text("utf-8"))


# ------------------------------------------------------------------------------------------------ the record, as a file


def test_the_record_is_whole_and_that_of_the_tool(tool):
    assert (RECORD["lengths"], RECORD["heads"]) == (list(tool.LENGTHS), list(tool.HEADS))
    settings = [RECORD[name] for name in ("d_head", "window", "tile", "window_block", "dtype")]
    assert settings == [tool.D, tool.WINDOW, tool.TILE, tool.WINDOW_BLOCK, "float32"]
    assert RECORD["decode"] == tool.DECODE | {"kv_heads": list(tool.DECODE["kv_heads"])}
    names = [call.name for call in tool.calls_of(32, 1, NOT_COMPILED)]
    wanted = [(n, heads, name) for heads in tool.HEADS for n in tool.LENGTHS for name in names]
    assert [(row["n"], row["heads"], row["call"]) for row in RECORD["rows"]] == wanted
    for row in RECORD["rows"]:
        is_too_large = 4 * row["heads"] * row["n"] ** 2 > tool.LARGEST_MATRIX and row["call"] in MATRICES
        assert bool(row["why_not"]) == is_too_large, row  # all else was measured, also what has to be compiled
        assert (row["peak_bytes"] is None) == (row["call"] in UNSEEN or is_too_large), row
        check_times(row, tool.LEAST_ROUNDS)
    for row in RECORD["decode_rows"]:
        check_times(row, tool.LEAST_ROUNDS)
        assert row["why_not"] == "" and row["peak_bytes"] > 0
    assert all(RECORD["machine"].values()) and all(RECORD["versions"].values())


def check_times(row, least_rounds):
    if row["why_not"]:
        assert (row["ms"], row["rounds"]) == (None, 0)
    else:
        low, median, high = row["ms"]
        assert 0 < low <= median <= high and row["rounds"] >= least_rounds


def test_the_goals_follow_from_the_rows():
    assert RECORD["goals"] == bench.judged(RECORD)
    assert [(goal["n"], goal["at_least"]) for goal in RECORD["goals"]] == [
        (8192, 100),
        (8192, 1),
        (8192, 3),
        (8192, 4),
        (16384, 20),
    ]
    assert all(goal["measured"] for goal in RECORD["goals"])


# ---------------------------------------------------------------------------------------- bytes and operations, again


@pytest.mark.parametrize("heads", [1, 8])
def test_bytes_and_operations_come_out_again(tool, heads):
    recorded = {row["call"]: row for row in RECORD["rows"] if (row["n"], row["heads"]) == (SMALL, heads)}
    with torch.no_grad():
        for call in tool.calls_of(SMALL, heads, NOT_COMPILED):
            row = recorded[call.name]
            assert call.operations == row["operations"], call.name
            if call.is_seen:
                assert tool.first_run(call) == row["peak_bytes"], call.name


def test_bytes_of_decoding_come_out_again(tool):
    recorded = {(row["kv_heads"], row["call"]): row for row in RECORD["decode_rows"]}
    shape = tool.DECODE | {"kv_heads": (4, 1)}  # the largest caches take their time to fill
    with torch.no_grad():
        for n_kv, calls in tool.decode_calls(**shape).items():
            row = recorded[n_kv, "grouped"]
            assert tool.first_run(calls[0]) == row["peak_bytes"] < row["cache_bytes"]  # the cache is not copied
            assert row["cache_bytes"] == 2 * 4 * n_kv * 8192 * 64 * 4
            assert recorded[n_kv, "repeated"]["peak_bytes"] > 2 * 4 * 32 * 8192 * 64 * 4  # as if it were MHA's
            assert {call.operations for call in calls} == {row["operations"]} == {4 * 4 * 32 * 8192 * 64}


@pytest.mark.parametrize(("n", "heads"), [(256, 1), (200, 2), (96, 3)])
def test_operations_are_those_of_the_matrix_products(tool, n, heads):
    """Counted by torch, where the products are our own."""
    normaliser = 2 * n * 64 * heads  # of linear attention: φ(q) · z
    whole = ("linear", "linear, causal") if n % tool.CHUNK == 0 else ("linear",)  # causal, the last chunk is filled up
    with torch.no_grad():
        for call in tool.calls_of(n, heads, NOT_COMPILED):
            if not call.is_seen:
                continue
            with FlopCounterMode(display=False) as counter:
                call.run()
            counted = counter.get_total_flops()
            if call.name in ("naive", "tiled"):
                assert counted == call.operations == 4 * n * n * 64 * heads
            elif call.name in whole:
                assert counted == call.operations + normaliser
            else:  # blocks are computed whole, forbidden pairs included
                assert counted > call.operations, call.name


# ------------------------------------------------------------------------------------------------------------ the tool


def test_the_tool_runs_and_records_the_same_things(tiny):
    assert list(tiny) == list(RECORD)
    assert [goal["goal"] for goal in tiny["goals"]] == [goal["goal"] for goal in RECORD["goals"]]
    assert {row["call"] for row in tiny["rows"]} == {row["call"] for row in RECORD["rows"]}
    assert len(tiny["rows"]) == 2 * 2 * 10 and len(tiny["decode_rows"]) == len(RECORD["decode_rows"]) == 7
    for name in ("rows", "decode_rows"):
        assert {tuple(row) for row in tiny[name]} == {tuple(row) for row in RECORD[name]}
        for row in tiny[name]:
            check_times(row, 2)
            assert bool(row["why_not"]) == (row.get("call") in ("compiled", "flex"))
    assert tiny["machine"]["threads"] == 1
    cache = {row["kv_heads"]: row["cache_bytes"] for row in tiny["decode_rows"]}
    assert cache == {n_kv: 2 * 4 * n_kv * 16 * 64 * 4 for n_kv in (32, 8, 4, 1)}


def test_calls_take_turns(tool):
    turns = []
    calls = [
        tool.Call("a", lambda: turns.append("a"), 1),
        tool.Call("left out", lambda: turns.append("left out"), 2, True, "too large"),
        tool.Call("b", lambda: turns.append("b"), 3, False),
    ]
    a, left_out, b = tool.measure(calls, rounds=3)
    assert "".join(turns) == "ab" + 3 * "ab"  # one round to warm up
    assert (a["peak_bytes"], b["peak_bytes"]) == (0, None) and a["rounds"] == b["rounds"] == 3
    assert (left_out["ms"], left_out["rounds"], left_out["why_not"]) == (None, 0, "too large")
    assert [x["operations"] for x in (a, left_out, b)] == [1, 2, 3]


def test_quartiles_and_rounds(tool):
    call = tool.Call("a", None, 0)
    assert tool.row(call, [5.0, 1.0, 2.0, 40.0, 3.0], None)["ms"] == [2, 3, 5]
    assert tool.row(call, [7.0], None)["ms"] == [7, 7, 7]
    assert tool.wanted_rounds([[], []]) == 1  # the first tells how long one takes
    assert tool.wanted_rounds([[1000.0 * tool.SECONDS / 15], [1000.0 * tool.SECONDS / 15]]) == 7
    assert tool.wanted_rounds([[1.0], [1.0]]) == tool.MOST_ROUNDS
    assert tool.wanted_rounds([[20_000.0], [1.0]]) == tool.LEAST_ROUNDS


def test_what_cannot_be_compiled_is_recorded_with_the_reason(tool, monkeypatch):
    def refuse(function):
        raise RuntimeError("No working C++ compiler found.\nAnd more.")

    monkeypatch.setattr(torch, "compile", refuse)
    compiled = tool.compiled_calls(True)
    assert compiled == dict.fromkeys(("compiled", "flex"), "RuntimeError: No working C++ compiler found.")
    rows = {row["call"]: row for row in tool.measure(tool.calls_of(32, 1, compiled), rounds=1)}
    assert rows["flex"]["why_not"] == compiled["flex"] and rows["flex"]["ms"] is None


# ------------------------------------------------------------------------------------------- judging and showing it


def made(**times):
    """A record of one length and one head, in which everything is at its goal, or has these times."""
    ms = {"naive": 7.0, "tiled": 7.0, "SDPA, causal": 8.0, "window": 2.0, "SDPA": 60.0, "linear": 3.0} | times
    peaks = {"naive": 500, "tiled": 5}
    rows = [
        {"n": 50, "heads": 1, "call": call, "ms": time and [time - 1, time, time + 1], "peak_bytes": peaks.get(call)}
        for call, time in ms.items()
        if call not in ("most", "few")
    ]
    steps = [(32, times.get("most", 6.0)), (8, 9.0), (4, times.get("few", 2.0))]
    decode = [{"kv_heads": n, "call": "grouped", "ms": [0.0, time, 99.0]} for n, time in steps]
    decode.append({"kv_heads": 4, "call": "repeated", "ms": [1.0, 50.0, 99.0]})
    shape = {"heads": 32, "length": 70}
    return {"lengths": [40, 50], "heads": [1], "window": 3, "rows": rows, "decode": shape, "decode_rows": decode}


def test_goals_are_judged_by_the_numbers():
    assert [goal["met"] for goal in bench.judged(made())] == 5 * [True]
    assert [goal["measured"] for goal in bench.judged(made())] == [
        {"1": 100.0},
        {"1": 1.0},
        {"32": 3.0},
        {"1": 4.0},
        {"1": 20.0},
    ]
    for i, times in enumerate([{"tiled": 7.1}, {"few": 2.01}, {"window": 2.01}, {"linear": 3.01}], start=1):
        assert [goal["met"] for goal in bench.judged(made(**times))] == [j != i for j in range(5)]
    without = bench.judged(made(linear=None))[-1]
    assert (without["met"], without["measured"]) == (False, {})  # nothing measured is nothing met


def test_the_record_is_shown_in_76_columns(tiny, capsys):
    for record in (RECORD, tiny):
        bench.show_machine(record)
        for heads in record["heads"]:
            bench.show_times(heads, record)
            bench.show_memory(heads, record)
        bench.show_decode(record)
        bench.show_goals(record)
        shown = capsys.readouterr().out.splitlines()
        assert max(map(len, shown)) <= 76
        assert sum(line.startswith(("met ", "MISSED ")) for line in shown) == 5
        assert record["machine"]["cpu"] in shown[0] and record["date"] in shown[1]
    with pytest.raises(ValueError, match="heads must be one of"):
        bench.show_times(3, RECORD)


def test_shown_numbers(capsys):
    rows = [
        {"n": n, "heads": 8, "call": call, "ms": ms, "peak_bytes": peak, "why_not": "" if ms else "too large"}
        for n, call, ms, peak in [
            (10, "naive", [1.0, 1.234, 1.6], 2**20),
            (20, "naive", None, None),
            (10, "SDPA", [0.01, 0.0123, 0.0124], None),
            (20, "SDPA", [900.0, 1234.0, 1301.0], None),
        ]
    ]
    record = {"lengths": [10, 20], "heads": [8], "d_head": 64, "dtype": "float32", "rows": rows}
    bench.show_times(8, record)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["milliseconds,", "8", "heads,", "d", "=", "64,", "float32"],
        ["n", "=", "10", "20"],
        ["naive", "1.23±0.3", "–"],
        ["SDPA", "0.0123±0.001", "1234±200"],
    ]
    bench.show_memory(8, record)
    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["naive", "1.00", "–"],
        ["SDPA", "?", "?"],
    ]
