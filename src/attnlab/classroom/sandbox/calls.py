"""Inside of the sandbox: which calls of the system a submission may make; one that is forbidden fails as others do.

The rules are libseccomp's. What is made for another kind of processor (32 bits, say) does not get past its first.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

try:
    import pyseccomp
except (ImportError, OSError, RuntimeError):  # not Linux, or no libseccomp
    pyseccomp = None

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x2_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000
SHARED_MEMORY, HUGE_PAGES, SWAPPED_OUT = 0x21, 0x4_0000, 21
# What no answer needs, and what has let programs out of sandboxes; memory that belongs to no process is among it.
# fmt: off
FORBIDDEN = (
    "acct", "add_key", "bpf", "chroot", "clone3", "fsconfig", "fsmount", "fsopen", "fspick", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "kcmp", "kexec_load", "keyctl", "memfd_create", "memfd_secret", "mount",
    "mount_setattr", "move_mount", "mq_open", "msgget", "name_to_handle_at", "open_by_handle_at", "open_tree",
    "perf_event_open", "personality", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv",
    "process_vm_writev", "ptrace", "quotactl", "request_key", "semget", "setns", "shmget", "splice", "swapon", "syslog",
    "tee", "umount2", "unshare", "userfaultfd", "vmsplice",
)
# fmt: on
FAMILIES = (1, 2, 10)  # of sockets: of files, and of the two kinds of addresses; others reach past a network of its own


def call(name: str, *arguments: object) -> None:
    """A call of C's library that answers 0, or else OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def forbid() -> None:
    """From here on, this process and all below it are refused what no answer needs. OSError without libseccomp."""
    if pyseccomp is None:
        raise OSError(
            errno.ENOSYS, "pyseccomp or libseccomp is missing (apt install libseccomp2; pip install pyseccomp)"
        )
    calls = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in FORBIDDEN:
        # Of clone3 it is said that there is none: then C's library falls back to clone, whose flags can be looked at.
        refusal = errno.ENOSYS if name == "clone3" else errno.EPERM
        with contextlib.suppress(OSError, ValueError):  # unknown to this version or this processor
            calls.add_rule(pyseccomp.ERRNO(refusal), name)

    def refuse(name: str, refusal: int, argument: int, how: int, *values: int) -> None:
        calls.add_rule(pyseccomp.ERRNO(refusal), name, pyseccomp.Arg(argument, how, *values))

    for space in (NEW_USER, NEW_MOUNTS, NEW_PROCESSES, NEW_IPC, NEW_NETWORK):
        refuse("clone", errno.EPERM, 0, pyseccomp.MASKED_EQ, space, space)
    # Memory that is shared and of no file can be let go, and stays: it would be in nobody's account. Nor do large
    # pages, or what was swapped out, count as a process's.
    for flags in (SHARED_MEMORY, HUGE_PAGES):
        refuse("mmap", errno.EPERM, 3, pyseccomp.MASKED_EQ, flags, flags)
    refuse("madvise", errno.EINVAL, 2, pyseccomp.MASKED_EQ, 0xFFFF_FFFF, SWAPPED_OUT)  # the kernel reads 32 bits of it
    for name in ("socket", "socketpair"):
        for family in sorted(set(range(max(FAMILIES))) - set(FAMILIES)):
            refuse(name, errno.EAFNOSUPPORT, 0, pyseccomp.EQ, family)
        refuse(name, errno.EAFNOSUPPORT, 0, pyseccomp.GT, max(FAMILIES))
    calls.load()
