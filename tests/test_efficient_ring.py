"""Ring attention in real processes: equal to full attention, its bytes by formula, and what is said when one dies.

Starting a process takes seconds, so four run all the cases, in rings of one to four.  What they run is this file.
"""

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from attnlab import attention
from attnlab.efficient import _ring_here, ring
from attnlab.efficient.meter import memory

N_Q, N_K = 13, 13


def inputs(n_q=N_Q, n_k=N_K, heads=4, kv_heads=4, d_k=5, d_v=6, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = (2, heads, n_q, d_k), (2, kv_heads, n_k, d_k), (2, kv_heads, n_k, d_v)
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def full(query, key, value, **options):
    group = query.shape[-3] // key.shape[-3] if query.ndim > 2 else 1
    if group > 1:
        key, value = key.repeat_interleave(group, dim=-3), value.repeat_interleave(group, dim=-3)
    return attention(query, key, value, **options).output


def slices(x, rank, n_ranks):
    """Of lengths that differ by more than one: the first rank has what is left over."""
    n = x.shape[-2] // n_ranks
    lengths = [x.shape[-2] - (n_ranks - 1) * n] + (n_ranks - 1) * [n]
    return x.split(lengths, dim=-2)[rank]


# ------------------------------------------------------------------------------- what the processes of a group run


def check_values(rank, n_ranks, group):
    long = inputs(n_q=300, n_k=300, heads=1, kv_heads=1, d_k=3, d_v=2)  # more than one tile in a slice
    cases = {
        "heads": (inputs(), {}),
        "scale": (inputs(), {"scale": 2.0}),
        "grouped": (inputs(kv_heads=2), {}),
        "one key head": (inputs(kv_heads=1), {}),
        "no heads": ([x[0, 0] for x in inputs()], {}),
        "more keys": (inputs(n_q=7), {}),
        "fewer keys": (inputs(n_k=7), {}),
        "large scores": ([100 * x for x in inputs()], {}),
        "tiles": (long, {}),
        "float32": (inputs(dtype=torch.float32), {}),
        "bfloat16": (inputs(dtype=torch.bfloat16), {}),
    }
    for name, (whole, options) in cases.items():
        for is_causal in (False, True):
            mine = [slices(x, rank, n_ranks) for x in whole]
            before = [x.clone() for x in mine]
            output = ring.ring_attention(*mine, is_causal=is_causal, group=group, **options)
            expected = slices(full(*whole, is_causal=is_causal, **options), rank, n_ranks)
            atol = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}[output.dtype]
            assert output.dtype == whole[0].dtype and output.shape == expected.shape, name
            assert (output - expected).abs().max() <= atol, (name, is_causal)
            assert all(map(torch.equal, mine, before)), name
    # float16 is computed in float32: 2 ** 17 overflows in float16, and softmax does not.
    query, key, value = inputs(dtype=torch.float16)
    query, key = (query * 0 + 256), (key * 0 + 256)
    output = ring.ring_attention(*(slices(x, rank, n_ranks) for x in (query, key, value)), scale=1.0, group=group)
    assert (output - value.double().mean(-2, keepdim=True)).abs().max() < 1e-3


def check_bytes(rank, n_ranks, group):
    for kv_heads, n in ((4, 12), (2, 24)):
        mine = [x.tensor_split(n_ranks, dim=-2)[rank] for x in inputs(n, n, kv_heads=kv_heads, d_v=5)]
        sent = []
        ring.ring_attention(*mine, sent=sent, is_causal=True, group=group)  # what lies in the future travels too
        formula = ring.bytes_sent(n, n_ranks, n_kv_heads=kv_heads, d_head=5, dtype="float64", batch=2)
        assert sum(sent) == formula == 2 * (n_ranks - 1) * (n // n_ranks) * kv_heads * 5 * 8 * 2
        assert len(sent) == 2 * (n_ranks - 1)
    # Of unequal slices, all but that of the rank after.
    whole = inputs()
    mine, sent = [slices(x, rank, n_ranks) for x in whole], []
    ring.ring_attention(*mine, sent=sent, group=group)
    after = sum(slices(x, (rank + 1) % n_ranks, n_ranks).nbytes for x in whole[1:])
    assert sum(sent) == (sum(x.nbytes for x in whole[1:]) - after if n_ranks > 1 else 0)


def check_refusals(rank, n_ranks, group):
    """One rank differs, and all of them say so."""
    query, key, value = (slices(x, rank, n_ranks) for x in inputs())
    differs = rank == n_ranks - 1
    for name, own in {
        "d_v": (query, key, value[..., :5] if differs else value),
        "the queries' leading axes and the keys' leading axes": [x[:1] if differs else x for x in (query, key, value)],
        "dtype": [x.float() if differs else x for x in (query, key, value)],
    }.items():
        with pytest.raises(ValueError, match=f"also differ in {name}"):
            ring.ring_attention(*own, group=group)
    with pytest.raises(ValueError, match="also differ in is_causal"):
        ring.ring_attention(query, key, value, is_causal=differs, group=group)


def check_memory(rank, n_ranks, group):
    """No rank holds the scores of its slice, or of the keys and values more than its own and two others."""
    n, d = 2048, 8
    mine = [x.tensor_split(n_ranks, dim=-2)[rank] for x in inputs(n, n, 1, 1, d, d, torch.float32)]
    peak = memory(ring.ring_attention, *mine, group=group).peak
    own = n // n_ranks
    tile = 2 * own * ring.BLOCK_K * 4  # batch 2, float32
    assert tile < peak < 3 * tile + 10 * mine[0].nbytes < 2 * own * own * 4


def run_all(rank, n_ranks):
    for members in ([0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [1, 3]):
        group = dist.new_group(members)
        own, n = dist.get_rank(group), len(members)
        if own < 0:
            with pytest.raises(ValueError, match="no member of the group"):
                ring.ring_attention(*inputs(), group=group)
            continue
        group = None if n == n_ranks else group  # None is the group of all
        checks = [check_values, check_bytes] + ([check_refusals, check_memory] if members == [0, 1] else [])
        for check in checks:
            check(own, n, group)
            print(*members, check.__name__, flush=True)


def lose(rank, n_ranks):
    """Rank 1 ends in the middle of a ring, with messages on their way."""
    mine = [slices(x, rank, n_ranks) for x in inputs()]
    ring.ring_attention(*mine)
    if rank == 1:
        ring.OnlineSoftmax.update = lambda *inputs: os._exit(9)
    tell(mine)


def stall(rank, n_ranks):
    """Rank 1 stops, and does not end: only a time limit helps."""
    mine = [slices(x, rank, n_ranks) for x in inputs()]
    ring.ring_attention(*mine)
    if rank == 1:
        time.sleep(100)
    tell(mine, timeout=0.5)


def tell(mine, **options):
    start = time.monotonic()
    try:
        ring.ring_attention(*mine, **options)
    except RuntimeError as error:
        print(error)
    print("in time" if time.monotonic() - start < 30 else "late", flush=True)  # the limit of the group is 60
    os._exit(0)


def main(folder, rank, n_ranks, what):
    rank, n_ranks = int(rank), int(n_ranks)
    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder, "store")), n_ranks)
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_ranks, timeout=limit)
    globals()[what](rank, n_ranks)
    dist.barrier()
    dist.destroy_process_group()


# ----------------------------------------------------------------------------------------------------------- the tests


def start(folder, n_ranks, what, ranks=None):
    """Start a group; of these ranks (all), what each printed and its exit code.  No process outlives this."""
    processes = []
    try:
        for rank in range(n_ranks):
            command = [sys.executable, "-W", "error", __file__, str(folder), str(rank), str(n_ranks), what]
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf-8"}
            processes.append(subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, **options))
        chosen = processes if ranks is None else [processes[rank] for rank in ranks]
        return [(process.communicate(timeout=100)[0], process.returncode) for process in chosen]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_equal_to_full_attention_and_bytes_by_formula(tmp_path):
    both = ["check_values", "check_bytes"]
    expected = {
        "0": both,
        "0 1": [*both, "check_refusals", "check_memory"],
        "0 1 2": both,
        "0 1 2 3": both,
        "1 3": both,
    }
    for rank, (printed, code) in enumerate(start(tmp_path, 4, "run_all")):
        lines = [f"{members} {check}" for members, checks in expected.items() for check in checks]
        assert printed.splitlines() == [line for line in lines if str(rank) in line.split()], printed
        assert code == 0


def test_a_rank_that_ends_is_named_by_the_rank_that_receives_from_it(tmp_path):
    said = start(tmp_path, 3, "lose")
    assert [code for _, code in said] == [0, 9, 0], said
    assert said[2][0].startswith("Rank 1 did not answer rank 2: it ended, stopped, or is slower than the time limit.")
    assert "did not answer rank 0" in said[0][0]  # rank 1, or rank 2, which gave up
    assert all("Then end all processes and start them again" in said[rank][0] for rank in (0, 2))
    assert all(said[rank][0].endswith("in time\n") for rank in (0, 2))


def test_a_rank_that_stops_is_named_after_the_time_limit(tmp_path):
    ((printed, code),) = start(tmp_path, 2, "stall", ranks=[0])
    assert printed.startswith("Rank 1 did not answer rank 0") and printed.endswith("in time\n") and code == 0


def test_on_this_machine(capfd):
    whole = inputs(kv_heads=2)
    run = ring.on_this_machine(2, *whole, is_causal=True, scale=0.3)
    assert (run.output - full(*whole, is_causal=True, scale=0.3)).abs().max() < 1e-12
    sizes = [sum(x.tensor_split(2, dim=-2)[rank].nbytes for x in whole[1:]) for rank in range(2)]
    assert run.bytes_sent == sizes  # with two, each sends its own slice, once
    for rank, peak in enumerate(run.peak_bytes):
        received, output = sizes[1 - rank], run.output.tensor_split(2, dim=-2)[rank].nbytes
        assert received + output < peak < 10 * (received + output)
    assert not dist.is_initialized() and capfd.readouterr() == ("", "")


def test_on_this_machine_when_a_rank_is_lost(capfd):
    with pytest.raises(RuntimeError) as caught:
        ring.on_this_machine(3, *inputs(), lost=1)
    first, second = str(caught.value).splitlines()
    assert first == "Rank 1 ended without a result, with exit code 1."
    assert second.startswith("Rank 2 reports: Rank 1 did not answer rank 2: ")
    assert capfd.readouterr() == ("", "")


def started(monkeypatch):
    """The processes that on_this_machine starts from here on."""
    found, popen = [], subprocess.Popen

    def start(*args, **kwargs):
        found.append(popen(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(_ring_here.subprocess, "Popen", start)
    return found


def test_on_this_machine_ends_its_processes_after_the_time_limit(monkeypatch):
    processes = started(monkeypatch)
    with pytest.raises(TimeoutError, match=r"^Not done after 0.1 seconds, and ended: rank 0, 1. "):
        ring.on_this_machine(2, *inputs(), timeout=0.1)
    assert len(processes) == 2 and None not in [process.poll() for process in processes]


def test_on_this_machine_tells_why_a_process_could_not_start(monkeypatch, tmp_path):
    """As where another package of that name comes first on the path."""
    (tmp_path / "attnlab").mkdir()
    (tmp_path / "attnlab" / "__init__.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_ring_here, "GRACE", 0.1)
    processes = started(monkeypatch)
    with pytest.raises(RuntimeError, match=r"Rank 0 ended without a result, with exit code 1\.\nZeroDivisionError: "):
        ring.on_this_machine(2, *inputs())
    assert None not in [process.poll() for process in processes]


def test_the_formula():
    assert ring.bytes_sent(4096, 2, n_kv_heads=8, d_head=64) == 2 * 1 * 2048 * 8 * 64 * 4
    assert ring.bytes_sent(4096, 4, n_kv_heads=1, d_head=64, dtype="float16", batch=3) == 2 * 3 * 1024 * 64 * 2 * 3
    assert ring.bytes_sent(5, 1, n_kv_heads=8, d_head=64) == 0
    with pytest.raises(ValueError, match="n_processes must divide n"):
        ring.bytes_sent(10, 3, n_kv_heads=1, d_head=1)


def test_inputs_that_are_refused():
    """Before anything is sent: no group is needed to see it."""
    query, key, value = inputs()
    with pytest.raises(NotImplementedError, match="key requires a gradient"):
        ring.ring_attention(query, key.clone().requires_grad_(), value)
    with pytest.raises(TypeError, match="value is of type ndarray"):
        ring.ring_attention(query, key, value.numpy())
    for bad in ([query, key.float(), value], [x.int() for x in (query, key, value)]):
        with pytest.raises(TypeError, match="one floating dtype"):
            ring.ring_attention(*bad)
    for bad in (
        (query[0], key, value),
        (query[:1], key, value),
        (query, key[..., :3], value),
        (query, key, value[..., :3, :]),
        (query, key[:, :3], value[:, :3]),
        (query, key[:, :2], value),
        (query[0, 0, 0], key[0, 0, 0], value[0, 0, 0]),
    ):
        with pytest.raises(ValueError, match="must agree in all but") as caught:
            ring.ring_attention(*bad)
        assert all(str(tuple(x.shape)) in str(caught.value) for x in bad)
    for n_processes in (0, 14, 2.5):
        with pytest.raises(ValueError, match="n_processes must be a whole number from 1 to 13"):
            ring.on_this_machine(n_processes, query, key, value)


if __name__ == "__main__":
    main(*sys.argv[1:])
