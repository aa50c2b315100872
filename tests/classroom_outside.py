"""What lies outside of the sandbox while a hostile class is graded: files, sockets, processes that nobody may touch."""

import os
import secrets
import selectors
import socket
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from classroom_class import SECRET


@dataclass
class Outside:
    """What an answer might reach: files, sockets, processes; and the names that the answers know them by."""

    course: Path
    home: Path
    secret: str = field(default_factory=lambda: SECRET + secrets.token_hex(16))
    mark: bytes = field(default_factory=lambda: b"hx" + secrets.token_hex(6).encode())
    calls: list = field(default_factory=list)
    port: int = 0

    @property
    def where(self) -> dict[str, object]:
        return {
            "COURSE": str(self.course),
            "CANARY": str(self.course / "canary.txt"),
            "HOME": str(self.home),
            "PORT": self.port,
            "ABSTRACT": f"\0{self.mark.decode()}",
            "MARK": self.mark,
            "PIDS": os.readlink("/proc/self/ns/pid"),
        }

    def files(self) -> dict[str, bytes]:
        """What nobody may change."""
        kept = [self.course / "canary.txt", *self.home.iterdir()]
        kept += [path for part in ("source", "release", "submitted") for path in (self.course / part).rglob("*.ipynb")]
        return {str(path): path.read_bytes() for path in kept if path.is_file() and not path.is_symlink()}

    def left(self) -> list[str]:
        """Processes of an answer that are still there, and sandboxes of ours."""
        mine = {each.pid for each in psutil.Process().children(recursive=True)}
        found = []
        for each in psutil.process_iter(["name", "cmdline"]):
            line = " ".join(each.info["cmdline"] or ())
            if each.info["name"] == self.mark.decode() or (each.pid in mine and "sandbox.worker" in line):
                found.append(f"{each.pid} {each.info['name']} {line[:200]}")
        return found

    @contextmanager
    def listening(self):
        """Servers of every kind on this machine, which tell the secret to whoever calls."""
        kinds = {
            (socket.AF_INET, socket.SOCK_STREAM): ("127.0.0.1", 0),
            (socket.AF_INET, socket.SOCK_DGRAM): None,
            (socket.AF_UNIX, socket.SOCK_STREAM): f"\0{self.mark.decode()}",
        }
        with ExitStack() as opened, selectors.DefaultSelector() as chosen:
            for kind, address in kinds.items():
                server = opened.enter_context(socket.socket(*kind))
                server.bind(address or ("127.0.0.1", self.port))
                if kind[1] == socket.SOCK_STREAM:
                    server.listen()
                self.port = self.port or server.getsockname()[1]
                chosen.register(server, selectors.EVENT_READ)
            beside = opened.enter_context(socket.socket(socket.AF_UNIX))
            beside.bind(str(self.home / "socket"))
            beside.listen()
            chosen.register(beside, selectors.EVENT_READ)
            ours, theirs = socket.socketpair()
            opened.enter_context(ours), opened.enter_context(theirs)
            chosen.register(theirs, selectors.EVENT_READ)
            thread = threading.Thread(target=self._answer, args=(chosen, theirs))
            thread.start()
            try:
                yield
            finally:
                ours.send(b"x")
                thread.join()

    def _answer(self, chosen: selectors.BaseSelector, end: socket.socket) -> None:
        while True:
            for key, _ in chosen.select():
                if key.fileobj is end:
                    return
                self.calls.append(key.fileobj.getsockname())
                if key.fileobj.type == socket.SOCK_DGRAM:
                    _, sender = key.fileobj.recvfrom(99)
                    key.fileobj.sendto(self.secret.encode(), sender)
                else:
                    with key.fileobj.accept()[0] as caller:
                        caller.send(self.secret.encode())
