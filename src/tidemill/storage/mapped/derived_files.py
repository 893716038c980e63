"""Derived files: computed from a run, kept to be mapped into memory, and made again where they are gone.

No manifest names them, so nothing is lost with one. A file has its content first, aligned for mapping, then a
description of what it was made from, and an end of fixed length: how long both are, their CRC-32, and the format. It is
written under another name and then renamed, without waiting for the disk: a torn file does not match its checksum, and
counts as absent. A process compares a file when it first maps it, by reading it: a page that was mapped counts as
memory of the process, one that was read does not.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import BinaryIO, TypeVar, cast

import pyarrow as pa

T = TypeVar("T")

_END = struct.Struct("<QII8s")
"""The end of a file: lengths of content and description, checksum of both, format."""

_FORMAT = b"tidemap1"

_CHUNK = 1 << 20

MAX_MAPPED = 1024
"""Number of files that a process keeps mapped; beyond, those that were not used for longest are released."""

LEFT_FREE = 10
"""The part of a disk that derived files leave free: one of so many."""

_mapped: OrderedDict[Path, tuple[tuple[int, int, int], object]] = OrderedDict()
"""Files that are mapped: the file status when they were compared, and their content."""

MAX_COMPARED = 1 << 16
"""Number of files remembered as compared; when exceeded, all are forgotten and compared again."""

_compared: dict[Path, tuple[int, int, int]] = {}
"""Files that were compared with their checksums, and the file status at that time."""

_lock = Lock()


def map_derived(file: Path, about: bytes, decode: Callable[[pa.Buffer], T], *, keep: bool = True) -> T | None:
    """The content of a derived file of this description; None if there is none, or not a whole one.

    With ``keep`` it stays mapped for later calls. Otherwise its pages are memory of this process only while it is used.
    """
    try:
        trace = _trace(os.lstat(file))
        with _lock:
            known = _mapped.get(file)
            if known is not None and known[0] == trace:
                _mapped.move_to_end(file)
                return cast("T", known[1])
        trace, content = _mapped_content(file, about, decode)
    except (OSError, ValueError, pa.ArrowException):  # there is none, or a link, or it is damaged
        return None
    with _lock:
        _compared[file] = trace
        if len(_compared) > MAX_COMPARED:
            _compared.clear()
        if keep:
            _mapped[file] = trace, content
        while len(_mapped) > MAX_MAPPED:
            _mapped.popitem(last=False)
    return content


def _trace(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _mapped_content(file: Path, about: bytes, decode: Callable[[pa.Buffer], T]) -> tuple[tuple[int, int, int], T]:
    """Compare a file with its checksum and map it; ``ValueError`` if it is not whole."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        length = _content_length(handle, status, about, is_compared=_compared.get(file) == _trace(status))
        content = pa.py_buffer(mmap.mmap(handle, 0, prot=mmap.PROT_READ)).slice(0, length)
        return _trace(status), decode(content)
    finally:
        os.close(handle)


def _content_length(handle: int, status: os.stat_result, about: bytes, *, is_compared: bool) -> int:
    """The length of the content, if the file is whole and has this description; else ``ValueError``.

    The checksum is compared unless it was before.
    """
    body = status.st_size - _END.size
    if not stat.S_ISREG(status.st_mode) or body < 0:
        raise ValueError
    length, described, expected, form = _END.unpack(os.pread(handle, _END.size, body))
    if form != _FORMAT or described != len(about) or length + described != body:
        raise ValueError
    if os.pread(handle, described, length) != about or not (is_compared or _checksum(handle, body) == expected):
        raise ValueError
    return int(length)


def _checksum(handle: int, length: int) -> int:
    crc, place = 0, 0
    while place < length and (chunk := os.pread(handle, min(_CHUNK, length - place), place)):
        crc, place = zlib.crc32(chunk, crc), place + len(chunk)
    return crc


def write_derived(file: Path, about: bytes, write: Callable[[BinaryIO], object]) -> bool:
    """Write a derived file of this description; False if the system refuses, which harms nothing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.parent.is_symlink() or file.parent.parent.is_symlink():
            return False
        with _draft_of(file) as (draft, stream):
            sink = _SummedFile(stream)
            write(cast("BinaryIO", sink))
            length = sink.length
            sink.write(about)
            stream.write(_END.pack(length, len(about), sink.crc, _FORMAT))
            stream.flush()
            os.replace(draft, file)
    except OSError:  # a full disk, a missing permission, or a vacuum that has deleted the draft
        return False
    return True


@contextmanager
def _draft_of(file: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file of another name in the same folder; it is deleted unless it was renamed."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.{token_hex(4)}.draft")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, 0o644), "wb") as stream:
            yield draft, stream
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


class _SummedFile:
    """A stream that is written to, with the length and the checksum of all that was."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.length = self.crc = 0

    def write(self, chunk: bytes) -> int:
        self._stream.write(chunk)
        size = memoryview(chunk).nbytes
        self.crc = zlib.crc32(chunk, self.crc)
        self.length += size
        return size

    def flush(self) -> None: ...

    def tell(self) -> int:
        return self.length


def has_room(folder: Path, bytes_: int) -> bool:
    """True if so many bytes can be written below a folder, and enough of its disk stays free."""
    disk = shutil.disk_usage(existing_parent(folder))
    return disk.free - bytes_ > disk.total // LEFT_FREE


def existing_parent(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def delete_derived(folder: Path, is_kept: Callable[[Path], bool]) -> int:
    """Delete the files two levels below ``folder`` that are not kept, and folders without files; returns the bytes."""
    freed = 0
    for inner in sorted(folder.iterdir()) if folder.is_dir() else ():
        if inner.is_symlink() or not inner.is_dir():
            continue
        with suppress(OSError):  # others may delete and make files here at the same time
            for file in [file for file in inner.iterdir() if not is_kept(file)]:
                freed += file.lstat().st_size
                file.unlink()
            if not any(inner.iterdir()):
                inner.rmdir()
    return freed


def derived_bytes(folder: Path, prefix: str = "") -> int:
    """The bytes of the files of a folder whose names begin with ``prefix``."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name.startswith(prefix))
    return 0
