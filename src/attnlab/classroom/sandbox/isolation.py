"""Inside of the sandbox: a process of its own for one submission, with limits, that leaves nothing behind.

The sandbox (bubblewrap's) has no network and sees no file but Python.  A submission gets its own namespaces within it:
it sees neither the processes nor the files of the one before.  Only system calls of Linux are used; elsewhere, and
where namespaces are not to be had, the limits remain.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

try:
    import resource
except ImportError:  # Windows, where nothing is graded, but a report can be written
    resource = None

from . import calls
from .calls import NEW_IPC, NEW_MOUNTS, NEW_NETWORK, NEW_PROCESSES, NEW_USER, call

PRIVATE, READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, BIND, RECURSIVE = 0x40000, 1, 2, 4, 8, 0x1000, 0x4000
END_WITH_PARENT, SET_DUMPABLE, DROP_BOUNDING, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 24, 36, 38
CAPABILITIES_3 = 0x2008_0522
OWN_FOLDER = "/scratch"  # the one that a submission may write to
OWN_USER = 61_001  # who a submission is, where the sandbox was started by root
LOOK = 0.05  # seconds between two looks at the memory that a submission uses
MARGIN = 2**25  # bytes that all processes may use beyond the limit of one, which is to meet its own first


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    seconds    for one exercise, and for the cell of its answer; other cells get six times as many
    memory     bytes beyond what Python itself has, of one process, and of all together
    processes, files   how many at once (threads are processes)
    disk       bytes in the one folder that it may write to, and in one file
    """

    seconds: float = 10.0
    memory: int = 2 * 2**30
    processes: int = 32
    files: int = 64
    disk: int = 16 * 2**20


_folders: dict[int, str] = {}  # of processes without a file system of their own, to be removed after them


def adopt_orphans() -> None:
    """Make this process the parent of every process below it whose own parent ends."""
    with contextlib.suppress(OSError, AttributeError):
        call("prctl", SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """End this process when the one that started it ends, in whatever way."""
    call("prctl", END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def start(work: Callable[[], None], limits: Limits, own_namespaces: bool) -> int:
    """Do `work` in a new process with those limits; its process id.  OSError where a namespace cannot be had."""
    folder = None if own_namespaces else tempfile.mkdtemp(prefix="attnlab-")
    reader, writer = os.pipe()
    first = os.fork()
    if first == 0:
        try:
            os.close(reader)
            _split(work, limits, folder, writer)
        except OSError as error:
            os.write(writer, f"{error.errno} {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(first, 0)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read().decode()
    number, _, words = said.partition(" ")
    if words or not number:
        raise OSError(int(number or 0), words or "the process for a submission ended before it began")
    if folder:
        _folders[int(number)] = folder
    return int(number)


def _split(work: Callable[[], None], limits: Limits, folder: str | None, writer: int) -> None:
    """In the middle process: leave what is shared, then start the one that works, and tell its number.

    Without namespaces of its own it works in `folder`.
    """
    own_namespaces = folder is None
    if own_namespaces:
        if os.getuid() == 0:  # limits on processes do not hold for root
            os.setgroups([])
            os.setgid(OWN_USER)
            os.setuid(OWN_USER)
        call("prctl", SET_DUMPABLE, 1, 0, 0, 0)  # or the files below would belong to root
        user, group = os.getuid(), os.getgid()
        call("unshare", NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_IPC | NEW_NETWORK)
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as target:
                target.write(text)
    told, tell = os.pipe()
    last = os.fork()
    if last == 0:
        try:
            os.close(told)
            os.setsid()
            size = _size()  # while there is a /proc
            if own_namespaces:
                _own_files(limits)
                _drop_capabilities()
                calls.forbid()
            else:
                os.chdir(folder)
            _limit(limits, size, 0 if own_namespaces else _threads_of_this_user())
            os.close(tell)  # ready; until here, a fault is one of the sandbox
            os.close(writer)
            work()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(tell, f"{error.errno} {error}".encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told, "rb") as answer:
        fault = answer.read()
    os.write(writer, fault or str(last).encode())


def _own_files(limits: Limits) -> None:
    """An empty folder of its own; no view of processes; nothing else that can be written to."""
    quiet = NO_SUID | NO_DEVICES
    call("mount", b"none", b"/", None, PRIVATE | RECURSIVE, None)
    size = f"size={limits.disk},nr_inodes=1000,mode=0700".encode()
    own = OWN_FOLDER.encode()
    call("mount", b"tmpfs", own, b"tmpfs", quiet, size)
    # People write to the first; but Python itself may lie below it. Pools of processes need the second.
    for place in ("/tmp", "/dev/shm"):
        if not os.listdir(place):
            call("mount", own, place.encode(), None, BIND, None)
    call("mount", b"tmpfs", b"/proc", b"tmpfs", quiet | NO_EXEC | READ_ONLY, b"size=4k")
    os.chdir(OWN_FOLDER)


def _drop_capabilities() -> None:
    """Give up what the new namespace brought: nothing can be mounted, unmounted or traced any more."""
    for capability in range(64):
        with contextlib.suppress(OSError):  # the kernel knows fewer of them
            call("prctl", DROP_BOUNDING, capability, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    call("capset", header, none)
    call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("prctl", SET_DUMPABLE, 0, 0, 0, 0)


def memory_in_use() -> int:
    """Bytes that all processes below this one use, beyond what they share with it. It must see their /proc."""
    own, total = _resident("self"), 0
    for folder in os.listdir("/proc"):
        if folder.isdigit() and int(folder) not in (1, os.getpid()):  # the first one is bubblewrap's
            beyond = [theirs - ours for theirs, ours in zip(_resident(folder), own, strict=True)]
            total += max(0, *beyond)
    return total


def _resident(process: str) -> tuple[int, int]:
    """Bytes in memory, and of those the ones of no file: a process that was split off begins with few of the others."""
    try:
        with open(f"/proc/{process}/statm") as file:
            _, pages, of_files = (int(number) for number in file.read().split()[:3])
            return pages * resource.getpagesize(), (pages - of_files) * resource.getpagesize()
    except (OSError, ValueError):  # it has just ended
        return 0, 0


def peak() -> int:
    """Bytes that this process has had in memory, at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _size() -> int:
    """Bytes of address space that this process has."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        return 2**33


def _threads_of_this_user() -> int:
    """How many the limit on processes counts already: without a namespace, all that the user has."""
    count = 0
    for folder in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with contextlib.suppress(OSError):
            if folder.isdigit() and os.stat(f"/proc/{folder}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{folder}/task"))
    return count


def _limit(limits: Limits, size: int, others: int) -> None:
    for name, most in (
        ("RLIMIT_AS", size + limits.memory),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", limits.disk),
        ("RLIMIT_MSGQUEUE", 0),
        ("RLIMIT_NOFILE", limits.files),
        ("RLIMIT_NPROC", limits.processes + others),
    ):
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        _, hard = resource.getrlimit(kind)
        most = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses some
            resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that is too large is an OSError, as a full disk


def end(process: int, patience: float, memory: float = math.inf) -> int | None:
    """End a process from `start` with everything below it. Its exit status, or None where it had to be killed.

    It gets `patience` seconds to end by itself, in which all of it may not use more than `memory`, see `watch`.
    """
    now = time.monotonic()
    until, look, status = now + patience, now, None
    while status is None:
        found, seen = os.waitpid(process, os.WNOHANG)
        now = time.monotonic()
        if found:
            status = os.waitstatus_to_exitcode(seen)
        elif now >= until:
            break
        elif now >= look and memory < math.inf:
            watch(process, memory)
            look = now + LOOK
        else:
            time.sleep(0.005)
    if status is None:
        kill(process)
        os.waitpid(process, 0)
    _end_orphans(process)
    if folder := _folders.pop(process, None):
        shutil.rmtree(folder, ignore_errors=True)
    return status


def watch(process: int, memory: float) -> None:
    """Kill a process from `start` once all processes below this one use more: the limit of a process is one process's.

    With it ends its namespace.
    """
    if memory_in_use() > memory + MARGIN:
        kill(process)


def kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def _end_orphans(session: int) -> None:
    """Without namespaces of its own, what a submission started may outlive it: end that too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    for _ in range(1000):  # a fork bomb goes on for a moment
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(number) for number in file.read().split()]
        except OSError:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if not children:
            return
