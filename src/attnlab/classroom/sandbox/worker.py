"""The process inside of the sandbox that stays warm: `python -I -m attnlab.classroom.sandbox.worker NUMBER`.

It imports what submissions import, once, and runs none of them itself.  Each submission gets a process of its own,
split off from this one, and this one ends it.  NUMBER is the open file of a socket on which the orders come.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import select
import socket
import sys

from . import answering, isolation

ORDER = 4096  # bytes at most


def main(number: int) -> None:
    """Serve orders until the other side closes: {"import": […]}, {"start": limits} with a socket, {"end": seconds}."""
    control, running = socket.socket(fileno=number), None
    isolation.adopt_orphans()
    own_namespaces, memory = False, math.inf
    while True:
        watched = running is not None and own_namespaces
        if watched and not select.select([control], [], [], isolation.LOOK)[0]:
            isolation.watch(running, memory)
            continue
        order, sockets, _, _ = socket.recv_fds(control, ORDER, 1)
        if not order:
            break
        asked, reply = json.loads(order), {}
        if "import" in asked:
            own_namespaces = asked["namespaces"]
            missing = [name for name in asked["import"] if not _imported(name)]
            reply = {"missing": missing}
        elif "start" in asked:
            try:
                running = _start(control, sockets[0], asked["start"], own_namespaces)
                memory = asked["start"]["memory"] if own_namespaces else math.inf
            except OSError as error:
                reply = {"failed": str(error)}
            os.close(sockets[0])
        elif running is not None:
            reply, running = {"status": isolation.end(running, asked["end"], memory)}, None
        control.send(json.dumps(reply).encode())
    if running is not None:
        isolation.end(running, 0)


def _imported(name: str) -> bool:
    """Whether a module could be imported; a submission that needs one that is missing says so itself."""
    try:
        importlib.import_module(name)
    except Exception:
        return False
    return True


def _start(control: socket.socket, number: int, limits: dict, own_namespaces: bool) -> int:
    def work() -> None:
        control.close()
        channel = socket.socket(fileno=os.dup(number))
        keep = channel.fileno()
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        os.closerange(3, keep)
        os.closerange(keep + 1, 1024)
        with contextlib.suppress(BrokenPipeError, ConnectionError):  # nobody listens any more
            answering.answer(channel)

    return isolation.start(work, isolation.Limits(**limits), own_namespaces)


if __name__ == "__main__":
    main(int(sys.argv[1]))
