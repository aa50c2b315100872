"""Beyond one machine: the same work on a Dask cluster, `attnlab grade … --scheduler ADDRESS`.

A worker that ends in the middle loses nothing: the scheduler gives its work to another, and a result has one key,
however often it was computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from .grading import BREAKS, ByHand, Task, Work, arguments, grade_one
from .results import Result
from .sandbox.sandbox import SandboxError, fault_of_bubblewrap

AHEAD = 4  # pieces of work that are sent for each thread of the cluster


class Cluster:
    """Runs work on the Dask cluster whose scheduler is at `address`; used in a `with` statement.

    ImportError without `distributed`; OSError where nobody answers; SandboxError where a worker has another version of
    the course, or no sandbox.
    """

    def __init__(self, address: str) -> None:
        from distributed import Client

        self.client = Client(address, timeout=20)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def __call__(self, work: list[Work]) -> Iterator[tuple[Work, Result | Exception]]:
        """Each piece of work with its result, or with what went wrong on our side, as they come.

        What was with workers that ended, again and again, is sent once more in the end, one at a time: then it is known
        which of them ends its worker.
        """
        from distributed import KilledWorker, as_completed

        for task in {task for task, _ in work}:
            _alike(self.client, task)
        queue, running, results, suspects, alone = deque(work), {}, as_completed(), deque(), False
        while queue or running or suspects:
            if not (queue or running):
                queue, suspects, alone = suspects, deque(), True
            most = 1 if alone else AHEAD * max(1, sum(self.client.nthreads().values()))
            while queue and len(running) < most:
                each = queue.popleft()
                *given, key = arguments(*each)
                # The key names the content: sent twice, it is done once.
                name = f"attnlab-{key}{'-alone' if alone else ''}"
                future = self.client.submit(grade_one, *given, key, key=name, pure=True)
                running[future.key] = each, future
                results.add(future)
            future = next(results)
            each, _ = running.pop(future.key)
            error = future.exception()
            if not isinstance(error, KilledWorker):
                yield each, error or future.result()
            elif alone:
                yield each, ByHand(BREAKS)
            else:
                suspects.append(each)


def _alike(client: object, task: Task) -> None:
    """SandboxError unless every worker has this version of the course, and the protection that is asked for."""
    for worker, (digest, fault) in client.run(_state, task).items():
        if digest != task.digest:
            raise SandboxError(
                f"the worker {worker} has another version of attnlab, of NumPy or of torch; install this one."
            )
        if fault and task.bubblewrap:
            raise SandboxError(f"the worker {worker} has no sandbox: {fault}")


def _state(task: Task) -> tuple[str, str]:
    fresh = replace(task)  # its digest is of the files that lie here
    return fresh.digest, fault_of_bubblewrap() if task.bubblewrap else ""
