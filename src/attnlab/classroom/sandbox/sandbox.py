"""Outside of the sandbox: start it, say how far it protects, and hand it one submission at a time.

The sandbox is bubblewrap's: no network, no file but Python's own, nothing that can be written to beyond one submission.
Where there is none, what remains are limits (`isolation`): enough for mistakes, not for malice.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import attnlab

from . import isolation
from .isolation import Limits

ROOM = Path(attnlab.__file__).parent
ENVIRONMENT = {
    "HOME": isolation.OWN_FOLDER,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": isolation.OWN_FOLDER,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": isolation.OWN_FOLDER,
}
KEPT = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_DEBUG_CPU_TYPE",
)  # on some processors, sums need these to be right
ROOTS = [Path("/", name) for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin")]  # or links into /usr
PATIENCE = 30.0  # seconds for the sandbox to answer an order; importing torch takes the longest


class SandboxError(Exception):
    """The sandbox itself failed: it does not start, or does not answer."""


@dataclass(frozen=True)
class Protection:
    """One thing that the sandbox protects, and whether it does so here."""

    name: str
    on: bool
    words: str


# ---- what there is --------------------------------------------------------------------------------------------------


@functools.cache
def fault_of_bubblewrap() -> str:
    """Why bubblewrap cannot be used here; an empty text where it can."""
    if sys.platform != "linux":
        return f"bubblewrap runs on Linux; this is {sys.platform}. A virtual machine or WSL 2 with Linux has it."
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (on Debian and Ubuntu: apt install bubblewrap)."
    try:
        with Sandbox(modules=(), bubblewrap=True) as sandbox:
            sandbox.start(Limits()).close()
            sandbox.end(1.0)
    except SandboxError as error:
        ubuntu = "Ubuntu 24.04 and later forbid it to programs: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        hint = f" {ubuntu} allows it." if "ermission" in str(error) or "ermitted" in str(error) else ""
        return f"bubblewrap is installed and does not work here: {error}{hint}"
    return ""


def protections(bubblewrap: bool | None = None) -> list[Protection]:
    """Each protection, on or off; with `bubblewrap` as if it were there or not."""
    fault = fault_of_bubblewrap() if bubblewrap is None else "" if bubblewrap else "bubblewrap is not used."
    own, wrapped = os.name == "posix", not fault
    without = f" ({fault})" if fault else ""
    return [
        Protection("own process", own, "each submission runs in a process of its own and is ended with all it started"),
        Protection("time", own, "an exercise or a cell that does not end is stopped, in Python or in C"),
        Protection("memory, file size, open files", own, "limits of the system on the process"),
        Protection("processes", own and (wrapped or os.getuid() != 0), "a limit on how many run at once"),
        Protection("judge outside", wrapped, "numbers cross the border as arrays and are judged by another process"),
        Protection("fewer system calls", wrapped, "what no answer needs is forbidden (by libseccomp)"),
        Protection("no network", wrapped, f"no address can be reached, not even this machine{without}"),
        Protection(
            "no files",
            wrapped,
            f"none of yours can be read, only programs, libraries, Python; only an empty folder written{without}",
        ),
        Protection("no neighbours", wrapped, f"other submissions, references, grades and processes unseen{without}"),
    ]


# ---- one sandbox ----------------------------------------------------------------------------------------------------


class Sandbox:
    """A sandbox with a warm Python in it, which takes one submission after the other.

    modules      what it imports beforehand
    bubblewrap   whether it is one at all; without, only limits protect
    """

    def __init__(self, modules: Iterable[str] = (), *, bubblewrap: bool) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        inside = [sys.executable, "-I", "-m", "attnlab.classroom.sandbox.worker", str(theirs.fileno())]
        command = [*_bubblewrap(), *inside] if bubblewrap else inside
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=ENVIRONMENT
            | kept
            | ({} if bubblewrap else {"HOME": tempfile.gettempdir(), "TMPDIR": tempfile.gettempdir()}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
        )
        theirs.close()
        self._running = False
        try:
            order = {"import": [*modules], "namespaces": bubblewrap}
            self.missing = self._ask(order, patience=120)["missing"]
        except SandboxError:
            self.close()
            raise

    def start(self, limits: Limits) -> socket.socket:
        """A process for one submission, and the channel to it."""
        self.end(0)
        ours, theirs = socket.socketpair()
        try:
            reply = self._ask({"start": asdict(limits)}, theirs.fileno())
            if "failed" in reply:
                raise SandboxError(reply["failed"])
        except SandboxError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._running = True
        return ours

    def end(self, patience: float) -> int | None:
        """End it. Its exit status (negative: the signal), or None where it had to be killed after `patience`."""
        if not self._running:
            return None
        self._running = False
        return self._ask({"end": patience}, patience=PATIENCE + patience)["status"]

    def close(self) -> None:
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stderr.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, order: dict, number: int | None = None, patience: float = PATIENCE) -> dict:
        data = json.dumps(order).encode()
        self._control.settimeout(patience)
        try:
            if number is None:
                self._control.send(data)
            else:
                socket.send_fds(self._control, [data], [number])
            reply = self._control.recv(2**16)
        except OSError as error:
            raise SandboxError(self._last_words() or str(error)) from None
        if not reply:
            raise SandboxError(self._last_words() or "it ended")
        return json.loads(reply)

    def _last_words(self) -> str:
        """What it wrote to stderr, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
            return self._process.stderr.read(2000).decode("utf-8", "replace").strip()
        return ""


def pythons() -> list[Path]:
    """The folders of Python and of this package, which submissions can read."""
    found = [sys.base_prefix, sys.prefix, Path(os.path.realpath(sys.executable)).parents[1], ROOM]
    return [Path(each) for each in dict.fromkeys(map(str, found))]


def shown() -> list[Path]:
    """All that submissions can read, beside what a sandbox makes for itself: Python, programs, libraries."""
    system = [place for place in (Path("/usr"), *ROOTS) if not place.is_symlink()]
    settings = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "fonts")
    places = [*system, *pythons(), *(Path("/etc", name) for name in settings)]
    return [place for place in dict.fromkeys(places) if place.exists()]


def references() -> list[Path]:
    """What knows answers, in every copy of the package that can be seen: hidden in the sandbox."""
    libraries = [f"{within}lib*/python*/*-packages" for within in ("", "local/", "envs/*/")]  # Debian's: dist-packages
    rooms = {ROOM, *(room for place in shown() for each in libraries for room in place.glob(f"{each}/attnlab"))}
    found = {
        path
        for room in rooms
        for name in ("ch[0-9]*", "common.py", "__pycache__")
        for path in room.glob(f"exercises/{name}")
    }
    return sorted(found)


def _bubblewrap() -> list[str]:
    """The command that starts bubblewrap around a Python with this package, and nothing else to be seen."""
    said = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--unshare-cgroup-try"]
    said += [f"--unshare-{each}" for each in ("pid", "net", "ipc", "uts")]
    if os.getuid() == 0:  # to become another user for each submission, and to end what that one runs
        said += [part for each in ("SETUID", "SETGID", "KILL") for part in ("--cap-add", f"CAP_{each}")]
    for place in ROOTS:
        if place.is_symlink():
            said += ["--symlink", os.readlink(place), str(place)]
    places = shown()
    said += ["--tmpfs", "/tmp", "--tmpfs", isolation.OWN_FOLDER]  # first: Python itself may lie below /tmp
    # Folders that bubblewrap makes on the way can only be entered by root; a submission is somebody else.
    for folder in sorted({parent for place in places for parent in place.parents} | {Path("/etc")}):
        if folder not in (Path("/"), *places):
            said += ["--dir", str(folder)]
    for place in places:
        said += ["--ro-bind", str(place), str(place)]
    for path in references():
        said += ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", os.devnull, str(path)]
    said += ["--proc", "/proc", "--dev", "/dev"]
    said += ["--dev-bind", "/dev/full", "/dev/zero"]  # reads alike, and cannot be mapped: see `calls.forbid`
    said += ["--remount-ro", "/dev", "--remount-ro", "/tmp", "--remount-ro", "/"]
    return [*said, "--chdir", isolation.OWN_FOLDER]
