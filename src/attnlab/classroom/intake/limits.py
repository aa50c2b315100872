"""How much is read of files from outside, for one student and for a class.

One student's files never use up what others need: there is a limit for each, on what is read, and one for all
together, on what is taken.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

CHUNK = 1 << 16


class Refused(Exception):
    """Why a file is not read, in words for the teacher."""


@dataclass(frozen=True)
class Limits:
    """How much is read and taken. Past a limit files are refused; only `total` and `members` are shared by a class.

    file      bytes of one file
    sender    bytes that are read for one student, packed and unpacked, whatever comes of them
    failed    files of one student for one notebook that cannot be taken, before no other is tried
    total     bytes of all notebooks that are taken; what is refused does not count
    members   files of a source; `inner`: of a zip that a student packed
    depth     folders inside of folders
    """

    file: int = 20_000_000
    sender: int = 200_000_000
    failed: int = 10
    total: int = 8_000_000_000
    members: int = 200_000
    inner: int = 2_000
    depth: int = 12


@dataclass
class Reader:
    """Reads within `limits`, and counts: for each sender what was read, and for all together what was taken.

    `sender` is whoever's files are being read; who reads sets it.
    """

    limits: Limits = field(default_factory=Limits)
    sender: Hashable = None
    spent: Counter[Hashable] = field(default_factory=Counter)
    taken: int = 0

    def drain(self, file: BinaryIO, packed: int = 0) -> bytes:
        """All bytes of an open file. Refused past the limits, whatever its header says.

        `packed` is what is read to unpack it: there are long streams that unpack slowly, and to nothing.
        """
        data = bytearray()
        self._spend(packed)
        while chunk := file.read(CHUNK):
            data += chunk
            self._spend(len(chunk))
            if len(data) > self.limits.file:
                raise Refused(too_large(self.limits.file))
        return bytes(data)

    def _spend(self, size: int) -> None:
        self.spent[self.sender] += size
        if self.spent[self.sender] > self.limits.sender:
            raise Refused(self._most())

    def _most(self) -> str:
        most = in_words(self.limits.sender)
        return f"is not read: of one student's files, packed and unpacked, {most} are read. Hand in the notebook alone"

    def open_more(self) -> None:
        """Refused where half of a sender's share is spent: the rest is for what is in the zips opened so far."""
        if 2 * self.spent[self.sender] > self.limits.sender:
            raise Refused(self._most())

    def take(self, size: int) -> None:
        """Count a file that is to be stored. Refused where all those taken would hold too much."""
        if self.taken + size > self.limits.total:
            most = in_words(self.limits.total)
            raise Refused(
                f"is not taken: with it, the notebooks would hold more than {most}, the most that is read at once. "
                "Give the source in parts"
            )
        self.taken += size

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """What is read within is a look ahead, and counts for nothing after it."""
        sender, spent = self.sender, self.spent.copy()
        try:
            yield
        finally:
            self.sender, self.spent = sender, spent


def in_words(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size} bytes"


def too_large(limit: int) -> str:
    return (
        f"is larger than {in_words(limit)}, and was not read. A notebook of this course is far smaller: "
        "clear its outputs, and hand it in again"
    )
