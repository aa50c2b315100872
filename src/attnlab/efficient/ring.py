"""Attention across machines: a sequence too long for one memory, cut into slices that several processes hold.

Each of P ranks keeps the queries, keys and values of its own slice.  Keys and values travel round the ring in P - 1
steps, from each rank to the next, and while one pair is used the next is on its way.  Every query meets every key, tile
by tile, and an online softmax merges what it meets: the result is that of full attention.  Imports torch.

    ring_attention        called by every rank of a torch.distributed group (gloo on CPUs, nccl on GPUs)
    bytes_sent            what one rank sends, by formula
    on_this_machine       starts the processes, here, and puts their outputs together

Liu, Zaharia, Abbeel 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context", arXiv 2310.01889.
"""

import datetime
import math
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attnlab._inputs import shape_of
from attnlab.core import causal_rule
from attnlab.efficient._ring_here import RingRun, on_this_machine
from attnlab.efficient.cost import kv_cache_bytes
from attnlab.efficient.tiled import OnlineSoftmax

__all__ = ["RingRun", "bytes_sent", "on_this_machine", "ring_attention"]

BLOCK_K = 128  # keys of a slice that are used at once: of the scores, memory holds (n_q / P) × 128
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    group: dist.ProcessGroup | None = None,
    timeout: float | None = None,
    sent: list[int] | None = None,
) -> Tensor:
    """This rank's slice of the output of `attnlab.attention` over all slices.  Every rank of the group calls it.

    query (..., n_q, d_k), key (..., n_k, d_k), value (..., n_k, d_v), this rank's slices → output (..., n_q, d_v)

    The sequence is the slices in the order of the ranks, which may differ in length.  Leading axes are equal, except
    that key and value may have fewer heads (axis -3) than the query: neighbouring query heads share, [0, 0, 1, 1].

    is_causal  forbids the keys after the query, with the last query of the whole at the last key of the whole.  Slices
               that lie in the future still travel, but are not used: the first rank has the least to do
    group      None means all ranks
    timeout    seconds to wait for a neighbour; None means the limit of the group
    sent       a list, to which the bytes of each message of keys or values are added.  (Shapes travel first, P - 1
               messages of 64 bytes that are not in it.)

    Keys and values travel in their own dtype; float16 and bfloat16 are computed in float32.  Forward only.

    Raises RuntimeError, naming the rank, where a neighbour does not answer (with nccl, torch's own watchdog may end the
    process first); NotImplementedError for inputs that require a gradient; ValueError for shapes that do not fit, on
    this rank or between ranks; TypeError for what is no tensor of floating-point numbers.
    """
    check(query, key, value)
    ring = _Ring(group, timeout)
    n_qs, n_ks = ring.lengths(query, key, value, is_causal)  # of every rank

    state = OnlineSoftmax()
    rows, n_group = _rows_by_kv_head(query, key)  # (..., H_kv, G · n_q, d_k)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] > 0 else 1.0
    rows = rows * scale
    held = [key.contiguous(), value.contiguous()]
    for step in range(ring.n_ranks):
        owner = (ring.rank - step) % ring.n_ranks  # whose keys and values are held
        is_last = step == ring.n_ranks - 1
        if not is_last:
            n_next = n_ks[(owner - 1) % ring.n_ranks]
            coming = [x.new_empty((*x.shape[:-2], n_next, x.shape[-1])) for x in held]
            under_way = ring.start(held, coming)
            if sent is not None:
                sent.extend(x.nbytes for x in held)
        # Query i of this rank and key j of the owner, both counted from 0: allowed where j <= i + offset.
        offset = sum(n_qs[: ring.rank]) - sum(n_ks[:owner]) + sum(n_ks) - sum(n_qs)
        _use(state, rows, *held, offset=offset if is_causal else None, n_group=n_group)
        if not is_last:
            ring.finish(under_way)
            held = coming
    shape = (*query.shape[:-1], value.shape[-1])
    if state.m is None:  # causal, with fewer keys than queries: none of these queries sees a key
        return query.new_zeros(shape)
    return state.output().reshape(shape).to(query.dtype)


def bytes_sent(
    n: int, n_processes: int, *, n_kv_heads: int, d_head: int, dtype: Any = "float32", batch: int = 1
) -> int:
    """Bytes of keys and values that one rank sends: 2 · (P - 1) · n / P · n_kv_heads · d_head · batch · bytes a number.

    n tokens over P = n_processes ranks, in equal slices: (P - 1) times what the cache of one slice holds.  Of unequal
    slices, a rank sends all but that of the rank after it.  dtype: a name, or a dtype of torch.

    Raises ValueError where n_processes does not divide n, TypeError for what is no whole number.
    """
    slice_bytes = kv_cache_bytes(
        n_layers=1, n_kv_heads=n_kv_heads, d_head=d_head, n_tokens=n // n_processes, dtype=dtype, batch=batch
    )
    if n % n_processes:
        raise ValueError(f"n_processes must divide n, so that slices are equal, but n is {n} and it is {n_processes}.")
    return (n_processes - 1) * slice_bytes


def _use(state: OnlineSoftmax, rows: Tensor, key: Tensor, value: Tensor, *, offset: int | None, n_group: int) -> None:
    """Take in the keys and values of one slice, tile by tile; rows (..., G · n_q, d_k) are the queries.

    None of a tile is computed that no query may see: the last one sees key n_q - 1 + offset.
    """
    n_q, n_seen = rows.shape[-2] // n_group, key.shape[-2]
    if offset is not None:
        n_seen = min(n_seen, n_q + offset)
    for start in range(0, n_seen, BLOCK_K):
        columns = slice(start, min(start + BLOCK_K, n_seen))
        scores = rows @ key[..., columns, :].to(rows.dtype).mT  # (..., G · n_q, b)
        n_columns = scores.shape[-1]
        if offset is not None and offset - start < n_columns - 1:  # else the first query sees the whole tile
            allowed = causal_rule(torch, n_q, n_columns, offset - start, scores.device).repeat(n_group, 1)
            scores = scores.masked_fill(~allowed, -math.inf)
        state.update(scores, value[..., columns, :].to(rows.dtype))


def _rows_by_kv_head(query: Tensor, key: Tensor) -> tuple[Tensor, int]:
    """The queries of the G heads of one key head, as rows one after the other, in the dtype to compute in; and G."""
    query = query.to(torch.promote_types(query.dtype, torch.float32))
    if query.ndim < 3:
        return query, 1
    n_group = query.shape[-3] // key.shape[-3]
    return query.reshape(*key.shape[:-2], n_group * query.shape[-2], query.shape[-1]), n_group


# ------------------------------------------------------------------------------------------------------------ the ring


class Message(NamedTuple):
    """What is on its way, and the rank that it comes from or goes to (one of two, where the backend joins them)."""

    peers: tuple[int, ...]
    work: Any


class _Ring:
    """This rank of the group, with the rank before, from which it receives, and the rank after, to which it sends."""

    def __init__(self, group: dist.ProcessGroup | None, timeout: float | None) -> None:
        self.group = group
        self.rank, self.n_ranks = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("This process is no member of the group, so it holds no slice.")
        members = dist.get_process_group_ranks(group or dist.group.WORLD)  # their numbers among all ranks
        self.name, self.before, self.after = (members[(self.rank + i) % self.n_ranks] for i in (0, -1, 1))
        self.limit = {} if timeout is None else {"timeout": datetime.timedelta(seconds=timeout)}

    def start(self, out: list[Tensor], into: list[Tensor]) -> list[Message]:
        """Begin to send `out` to the rank after, and to receive `into` from the rank before."""
        # What is received comes first, and is waited for first: whoever receives from a dead rank names that rank.
        calls = [(dist.irecv, x, self.before) for x in into] + [(dist.isend, x, self.after) for x in out]
        if dist.get_backend(self.group) == "gloo":
            messages: list[Message] = []
            for run, x, peer in calls:
                try:
                    messages.append(Message((peer,), run(x, peer, self.group)))
                except RuntimeError as error:
                    self.finish(messages)
                    raise self._no_answer((peer,)) from error
            return messages
        # With nccl, what was not started together waits in line: here, all ranks would receive and none send.
        operations = [dist.P2POp(run, x, peer, self.group) for run, x, peer in calls]
        both = tuple(sorted({self.before, self.after}))
        return [Message(both, work) for work in dist.batch_isend_irecv(operations)]

    def finish(self, messages: list[Message]) -> None:
        for peers, work in messages:
            try:
                work.wait(**self.limit)
            except RuntimeError as error:
                raise self._no_answer(peers) from error

    def _no_answer(self, peers: tuple[int, ...]) -> RuntimeError:
        who = " or ".join(f"rank {peer}" for peer in peers)
        return RuntimeError(
            f"{who.capitalize()} did not answer rank {self.name}: it ended, stopped, or is slower than the time limit. "
            f"What {who} wrote last says why; where it names another rank, read on there. Then end all processes and "
            "start them again, with a larger timeout if the rank was only slow: this group is of no more use."
        )

    def lengths(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[list[int], list[int]]:
        """n_q and n_k of every rank, once all agree in everything else: a wrong length would hang or end a process."""
        own = [query.shape[-2], key.shape[-2], math.prod(query.shape[:-2]), math.prod(key.shape[:-2])]
        own += [query.shape[-1], value.shape[-1], DTYPES.index(query.dtype), is_causal]
        held = torch.tensor(own, device=query.device)  # int64
        found = {self.rank: own}
        for step in range(1, self.n_ranks):
            coming = torch.empty_like(held)
            self.finish(self.start([held], [coming]))
            held = coming
            found[(self.rank - step) % self.n_ranks] = held.tolist()
        for rank, other in found.items():
            if other[2:] != own[2:]:
                names = ("the queries' leading axes", "the keys' leading axes", "d_k", "d_v", "dtype", "is_causal")
                apart = [name for name, a, b in zip(names, own[2:], other[2:], strict=True) if a != b]
                raise ValueError(
                    f"Slices may differ in length only, but ranks {self.rank} and {rank} of the group also differ in "
                    f"{' and '.join(apart)}. This rank has query {shape_of(query)} and key {shape_of(key)}."
                )
        return [found[rank][0] for rank in range(self.n_ranks)], [found[rank][1] for rank in range(self.n_ranks)]


def check(query: Tensor, key: Tensor, value: Tensor) -> None:
    inputs = {"query": query, "key": key, "value": value}
    for name, x in inputs.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is of type {type(x).__name__}, but this function takes tensors: torch.as_tensor.")
        if torch.is_grad_enabled() and x.requires_grad:
            raise NotImplementedError(
                f"{name} requires a gradient, but ring_attention computes the output only: call it under "
                f"torch.no_grad(), or pass {name}.detach()."
            )
    if query.dtype not in DTYPES or not query.dtype == key.dtype == value.dtype:
        dtypes = ", ".join(f"{name} is {x.dtype}" for name, x in inputs.items())
        raise TypeError(f"query, key and value must have one floating dtype of 16, 32 or 64 bits, but {dtypes}.")
    is_fit = min(x.ndim for x in inputs.values()) >= 2 and (
        key.shape[:-1] == value.shape[:-1]
        and (query.ndim, query.shape[:-3], query.shape[-1]) == (key.ndim, key.shape[:-3], key.shape[-1])
        and (query.ndim == 2 or query.shape[-3] % max(key.shape[-3], 1) == 0)
    )
    if not is_fit:
        shapes = ", ".join(f"{name} has shape {shape_of(x)}" for name, x in inputs.items())
        raise ValueError(
            "query (..., H, n_q, d_k), key (..., H_kv, n_k, d_k) and value (..., H_kv, n_k, d_v) must agree in all but "
            f"n_q, d_v and the heads, and H must be a multiple of H_kv, but {shapes}."
        )
