"""The files of a source, read as files from outside: a folder, a zip, a zip that one student packed.

Nothing is ever unpacked to a path that a name gives: a `Found` is a name to look at and a way to read the bytes.  Links
are not followed, and only ordinary files are opened.  Sizes are counted while bytes are read; what a header says of
them may lie.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .limits import Limits, Reader, Refused, too_large

LONGEST = 1_000  # characters of a member's path
JUNK = {"__MACOSX", ".DS_Store", ".ipynb_checkpoints", "__pycache__", ".git", "Thumbs.db", "desktop.ini"}
PACKED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # zipfile bounds what one step of these unpacks, and no other's
ENCRYPTED, UTF8 = 0x1, 0x800  # flags of a zip's member


@dataclass(frozen=True)
class Found:
    """One file of a source.

    parts     its path, in pieces: ("Ada", "01_weights.ipynb"), NFC; empty where its name is no path inside the source
    label     how messages call it
    read      gives its bytes, or raises Refused
    refused   why it is not to be read; "" where nothing stands against it
    place     its position in the archive: of two members of one name the later counts
    """

    parts: tuple[str, ...]
    label: str
    read: Callable[[], bytes]
    refused: str = ""
    place: int = 0

    def refusing(self, message: str) -> Found:
        """The same file, not to be read."""
        return replace(self, read=_refuse(message), refused=message)


def shown(name: str) -> str:
    """A name from outside for a message or a table: on one line, printable, at most 200 characters."""
    text = "".join(c if c.isprintable() else _escaped(c) for c in name)
    return text if len(text) <= 200 else f"{text[:120]}…{text[-79:]}"


def printable(name: str) -> str:
    """A name from outside, whole and on one line. No two names become one."""
    return "".join(c if c.isprintable() and c != "\\" else _escaped(c) for c in name)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def is_junk(parts: tuple[str, ...]) -> bool:
    """What operating systems and Jupyter add by themselves."""
    return any(part in JUNK or part.startswith("._") for part in parts)


# ---- folders -------------------------------------------------------------------------------------------------------


def read_file(path: Path, reader: Reader | None = None) -> bytes:
    """The bytes of an ordinary file. Refused for a link, a folder, a pipe, a device, and past the limit."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # some systems lack some of them
        flags |= getattr(os, name, 0)
    if path.is_symlink():  # where O_NOFOLLOW is missing
        raise Refused("is a link, and links are not followed. Hand in the file itself")
    try:
        with open(os.open(path, flags), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused("is no ordinary file. Hand in a notebook")
            return (reader or Reader()).drain(file)
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror or error}") from None


def in_folder(root: Path, reader: Reader) -> list[Found]:
    """The files below `root`, in the order of their names. A link is one file, and refused."""
    found: list[Found] = []
    _walk(root, (), reader, found)
    if len(found) > reader.limits.members:
        del found[reader.limits.members :]
        found.append(_refused((), str(root), _too_many(reader.limits.members)))
    return found


def _walk(folder: Path, above: tuple[str, ...], reader: Reader, found: list[Found]) -> None:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        found.append(_no_folder(above, f"cannot be read: {error.strerror or error}"))
        return
    for entry in entries:
        parts = (*above, _decoded(entry.name))
        if is_junk(parts) or len(found) > reader.limits.members:
            continue
        label, path = "/".join(parts), Path(entry.path)
        if entry.is_symlink() and entry.is_dir():
            found.append(_no_folder(parts, "is a link, and links are not followed. Hand in the files themselves"))
        elif entry.is_symlink():
            found.append(_refused(parts, label, "is a link, and links are not followed. Hand in the file itself"))
        elif entry.is_dir(follow_symlinks=False):
            if len(parts) > reader.limits.depth:
                found.append(_no_folder(parts, f"lies deeper than {reader.limits.depth} folders. Move it up"))
            else:
                _walk(path, parts, reader, found)
        elif not entry.is_file(follow_symlinks=False):
            found.append(_refused(parts, label, "is no ordinary file, but a pipe or a device. Hand in a notebook"))
        else:
            found.append(Found(parts, label, lambda path=path: read_file(path, reader)))


def _decoded(name: str) -> str:
    """A file name in NFC; bytes that are no UTF-8 become �."""
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))


# ---- zips ----------------------------------------------------------------------------------------------------------


def open_zip(file: Path | bytes) -> zipfile.ZipFile:
    """Open a zip for reading. Refused for anything else, and for a damaged one."""
    try:
        return zipfile.ZipFile(io.BytesIO(file) if isinstance(file, bytes) else file)
    except UnicodeDecodeError:
        raise Refused("holds a file name that is no UTF-8. Unpack it by hand, and give the folder") from None
    except Exception as error:  # zipfile raises many kinds for what is damaged
        raise Refused(f"is no zip that can be opened ({error}). Pack it again as an ordinary zip") from None


def in_zip(archive: zipfile.ZipFile, reader: Reader, within: str = "") -> list[Found]:
    """The files of a zip in its order. `within`: the label of the zip, where it is itself one of the files."""
    most = reader.limits.inner if within else reader.limits.members
    found: list[Found] = []
    for place, info in enumerate(archive.infolist()):
        parts, refused = path_of(_name(info))
        label = f"{within} → {_name(info)}" if within else _name(info)
        if is_junk(parts) or (_name(info).endswith("/") and not refused):
            continue
        if len(found) >= most:
            found.append(_refused((), within or label, _too_many(most)))
            break
        refused = refused or _against(info, reader.limits)
        read = _refuse(refused) if refused else (lambda info=info: _read_member(archive, info, reader))
        found.append(Found(parts, label, read, refused, place))
    return found


def _name(info: zipfile.ZipInfo) -> str:
    """A member's name. Without the flag for UTF-8 it counts as cp437; macOS writes UTF-8 and sets no flag."""
    name = info.orig_filename  # `filename` ends at a null character
    if not info.flag_bits & UTF8:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name


def path_of(name: str) -> tuple[tuple[str, ...], str]:
    """The pieces of a member's path, and what stands against it. Backslashes part as slashes do.

    Of a path that leads out, the pieces before it does so and its last one remain, to tell whose it is; of an absolute
    path nothing.
    """
    if len(name) > LONGEST:
        return (), f"has a name of more than {LONGEST} characters. Rename it"
    name = unicodedata.normalize("NFC", name.replace("\\", "/"))
    pieces = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return (), "has an absolute path for its name. Pack the folder again"
    if ".." in pieces:
        inside = [piece for piece in pieces[: pieces.index("..")] if piece not in {"", "."}]
        last = [piece for piece in pieces[-1:] if piece not in {"", ".", ".."}]
        return tuple(inside + last) if inside else (), "has a path that leads out of the archive. Pack the folder again"
    parts = tuple(piece for piece in pieces if piece not in {"", "."})
    if "\0" in name:
        return tuple(part.replace("\0", "") for part in parts), "has a null character in its name. Rename it"
    return parts, "" if parts else "has no name. Pack the folder again"


def _against(info: zipfile.ZipInfo, limits: Limits) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a link, and links are not followed. Hand in the file itself"
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is no ordinary file, but a pipe or a device. Hand in a notebook"
    if info.flag_bits & ENCRYPTED:
        return "is encrypted. Pack it again without a password"
    if info.file_size > limits.file:
        return too_large(limits.file)
    if info.compress_type not in PACKED:
        return f"is packed by an unusual method (number {info.compress_type}). Pack it again as an ordinary zip"
    return ""


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, reader: Reader) -> bytes:
    try:
        with archive.open(info) as file:
            return reader.drain(file, info.compress_size)
    except Refused:
        raise
    except Exception as error:  # zipfile raises many kinds for what is damaged
        raise Refused(f"is damaged ({shown(str(error))}). Hand it in again") from None


def _refuse(message: str) -> Callable[[], bytes]:
    def read() -> bytes:
        raise Refused(message)

    return read


def _refused(parts: tuple[str, ...], label: str, message: str) -> Found:
    return Found(parts, label, _refuse(message), message)


def _no_folder(parts: tuple[str, ...], message: str) -> Found:
    """For a folder that is not entered: like one file in it, so that it counts as somebody's."""
    return _refused((*parts, *parts[-1:]), "/".join(parts) or "The folder", message)


def _too_many(most: int) -> str:
    return f"holds more than {most} files; those past that number are not read. Take out what is no submission"
