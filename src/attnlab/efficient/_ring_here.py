"""Ring attention on one machine: starts the processes, waits for them, and ends them all.  Imports torch.

Each process is a fresh Python that runs `work`, so that it starts alike from a notebook, a script and a test, on every
operating system.  They share a folder: their slices, what they return, and the file by which they find each other.
"""

import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attnlab._inputs import shape_of

__all__ = ["RingRun", "on_this_machine"]

GRACE = 60  # seconds that the others get to report, once one has failed


class RingRun(NamedTuple):
    """The output of all ranks together, and of each rank what it sent and what memory it took, in bytes.

    peak_bytes counts what ring_attention allocated and held at once, its slice of the output included, by
    `attnlab.efficient.meter`.
    """

    output: Tensor
    bytes_sent: list[int]
    peak_bytes: list[int]


def on_this_machine(
    n_processes: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    timeout: float = 120.0,
    lost: int | None = None,
) -> RingRun:
    """ring_attention by so many processes on this machine, over gloo: each gets its slice, and nothing else.

    query (..., n_q, d_k), key (..., n_k, d_k), value (..., n_k, d_v) on the CPU
    → RingRun(output (..., n_q, d_v), bytes_sent, peak_bytes)

    Where n_processes does not divide the length, slices differ by one.  Each process takes a second or two to start;
    they are ended in any case, and after `timeout` seconds at the latest.  lost=1 lets rank 1 end itself as soon as all
    have found each other, as a machine that fails would: see what is raised.

    Raises RuntimeError, with the words of a rank that noticed, where a process fails; TimeoutError where they take too
    long; ValueError for more processes than queries or keys, and for what ring_attention refuses.
    """
    from attnlab.efficient.ring import check

    check(query, key, value)
    n_least = min(query.shape[-2], key.shape[-2])
    if n_processes not in range(1, n_least + 1):
        raise ValueError(
            f"n_processes must be a whole number from 1 to {n_least}, so that each has a query and a key, but it is "
            f"{n_processes!r}: query has shape {shape_of(query)} and key has shape {shape_of(key)}."
        )
    options = {"is_causal": is_causal, "scale": scale}
    # On Windows a file cannot be removed while a process that was just ended still holds it.
    with tempfile.TemporaryDirectory(prefix="attnlab-ring-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        slices = zip(*(x.detach().tensor_split(n_processes, dim=-2) for x in (query, key, value)), strict=True)
        for rank, inputs in enumerate(slices):
            # A slice is a view, and saved as one it would bring the whole sequence along.
            job = {"inputs": [x.clone() for x in inputs], "options": options, "timeout": timeout}
            job["n_threads"] = max(1, torch.get_num_threads() // n_processes)
            torch.save(job | {"is_lost": rank == lost}, folder / f"{rank}.job")
        found = _run(folder, n_processes, timeout)
    outputs, bytes_sent, peak_bytes = zip(*found, strict=True)
    return RingRun(torch.cat(outputs, dim=-2), list(bytes_sent), list(peak_bytes))


def _run(folder: Path, n_processes: int, timeout: float) -> list[tuple[Tensor, int, int]]:
    """What the processes return, by rank.  When this ends, so have they."""
    processes: list[subprocess.Popen] = []
    deadline, has_failed = time.monotonic() + timeout, False
    try:
        for rank in range(n_processes):
            processes.append(_start(folder, rank, n_processes))
        while None in (codes := [process.poll() for process in processes]) and time.monotonic() < deadline:
            if any(codes) and not has_failed:
                # The ranks beside the one that failed notice at once, then those beside them: let them say so.
                deadline, has_failed = min(deadline, time.monotonic() + GRACE), True
            time.sleep(0.01)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        raise RuntimeError(_failure(folder, codes))
    if None in codes:
        late = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
        raise TimeoutError(f"Not done after {timeout:g} seconds, and ended: rank {late}. Give a larger timeout.")
    return [torch.load(folder / f"{rank}.out") for rank in range(n_processes)]


def _start(folder: Path, rank: int, n_processes: int) -> subprocess.Popen:
    command = f"from attnlab.efficient._ring_here import work; work({str(folder)!r}, {rank}, {n_processes})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # the attnlab of this process
    loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    if loopback:  # else gloo looks up the name of this machine, which not every network knows
        environment.setdefault("GLOO_SOCKET_IFNAME", loopback)
    with open(folder / f"{rank}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # on Windows, no console pops up
        )


def _failure(folder: Path, codes: list[int | None]) -> str:
    """What happened, by the ranks that ended without a word and those beside them, else by all that said something."""
    said = {rank: _text(folder / f"{rank}.failure") for rank in range(len(codes))}
    silent = [rank for rank, code in enumerate(codes) if code and not said[rank]]
    lines = []
    for rank in silent:
        last = _text(folder / f"{rank}.log").splitlines()[-1:]
        lines += [f"Rank {rank} ended without a result, with exit code {codes[rank]}.", *last]
    # The rank after receives from a silent one, and names it for certain.
    witnesses = [(rank + 1) % len(codes) for rank in silent] or list(said)
    return "\n".join(lines + [f"Rank {rank} reports: {said[rank]}" for rank in witnesses if said[rank]])


def _text(file: Path) -> str:
    return file.read_text("utf-8", errors="replace").strip() if file.exists() else ""


def work(folder: str, rank: int, n_processes: int) -> None:
    """What each process does."""
    from attnlab.efficient.meter import memory
    from attnlab.efficient.ring import ring_attention

    job = torch.load(Path(folder, f"{rank}.job"))
    torch.set_num_threads(job["n_threads"])
    try:
        store = dist.FileStore(str(Path(folder, "store")), n_processes)
        limit = timedelta(seconds=job["timeout"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n_processes, timeout=limit)
        dist.barrier()
        if job["is_lost"]:
            os._exit(1)
        sent: list[int] = []
        measured = memory(ring_attention, *job["inputs"], **job["options"], sent=sent)
        torch.save((measured.result, sum(sent), measured.peak), Path(folder, f"{rank}.out"))
        dist.barrier()  # nobody hangs up while others still talk
        dist.destroy_process_group()
    except RuntimeError as error:
        Path(folder, f"{rank}.failure").write_text(str(error), encoding="utf-8")
        sys.exit(2)
