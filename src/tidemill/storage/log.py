"""The change log: where small epochs wait for their manifest.

An epoch is one record: a header with magic number, length and checksum, a line of JSON, and the Arrow stream of each
changed map. One append and one sync make it durable. The log ``<sequence>-<token>.log`` holds the epochs after manifest
``sequence``; the next manifest takes them all in, and the log is deleted.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

import pyarrow as pa

from tidemill.changes.batch import Epoch
from tidemill.model.errors import StorageError
from tidemill.storage.files import armed, damaged, fault, make_folder, sync_folder

MAGIC = b"TdMl"
SYNCED = 1
"""The flag of a record whose commit returned only after it was on the disk: it may not be lost."""

_HEADER = struct.Struct("<4sB3xQ")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"(\d{20})-(\d{8,})\.log")


@dataclass(frozen=True)
class Recovered:
    """A map's change as the log has it."""

    table: pa.Table

    def arrow(self) -> pa.Table:
        """The rows as Arrow: the fields and then the weight."""
        return self.table

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True)
class Record:
    """An epoch as the log has it."""

    epoch: int
    positions: Mapping[str, str]
    changes: Mapping[str, Recovered]
    synced: bool


def encode(epoch: Epoch, synced: bool) -> bytes:
    """The record of an epoch."""
    streams = {name: _stream_of(change.arrow()) for name, change in epoch.changes.items() if len(change)}
    lengths = {name: len(stream) for name, stream in streams.items()}
    line = json.dumps({"epoch": epoch.number, "positions": dict(epoch.positions), "maps": lengths}).encode()
    payload = b"".join([line, b"\n", *streams.values()])
    header = _HEADER.pack(MAGIC, SYNCED if synced else 0, len(payload))
    return b"".join([header, _CRC.pack(zlib.crc32(payload, zlib.crc32(header))), payload])


def _stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(content: bytes, at: int) -> tuple[Record, int] | None:
    """The record that begins at ``at`` and where it ends; None where there is no whole one."""
    begin = at + _HEADER.size + _CRC.size
    if len(content) < begin:
        return None
    header = content[at : at + _HEADER.size]
    magic, flags, length = _HEADER.unpack(header)
    payload = content[begin : begin + length]
    (crc,) = _CRC.unpack(content[at + _HEADER.size : begin])
    if magic != MAGIC or len(payload) < length or zlib.crc32(payload, zlib.crc32(header)) != crc:
        return None
    return _record_of(payload, bool(flags & SYNCED)), begin + length


def _record_of(payload: bytes, synced: bool) -> Record:
    line, _, _ = payload.partition(b"\n")
    said = json.loads(line)
    at, changes = len(line) + 1, {}
    for name, length in said["maps"].items():
        changes[name] = Recovered(pa.ipc.open_stream(payload[at : at + length]).read_all())
        at += length
    return Record(said["epoch"], said["positions"], changes, synced)


def replay(file: Path) -> tuple[list[Record], int]:
    """The records of a log, and how many of its bytes they are.

    A record that was being written when the process died is cut off: its commit never returned. But a bad record with
    synced ones after it was whole once, and leaving it out would lose an epoch in silence.
    """
    content = file.read_bytes()
    records, at = [], 0
    while (found := decode(content, at)) is not None:
        records.append(found[0])
        at = found[1]
    if any(record.synced for record in _records_after(content, at)):
        raise damaged(file, f"The record at byte {at} is damaged, and good ones follow it.")
    return records, at


def _records_after(content: bytes, at: int) -> Iterator[Record]:
    while (at := content.find(MAGIC, at + 1)) >= 0:
        found = decode(content, at)
        if found is not None:
            yield found[0]


def log_file(folder: Path, sequence: int, token: int) -> Path:
    """Where the epochs after manifest ``sequence`` are that the writer with ``token`` commits."""
    return folder / f"{sequence:020}-{token:08}.log"


def logs(folder: Path) -> list[tuple[int, int, Path]]:
    """The logs that are there, as (sequence, token, file) in order; other files are not looked at."""
    files = folder.iterdir() if folder.is_dir() else ()
    named = [(_NAME.fullmatch(file.name), file) for file in files]
    return sorted((int(name[1]), int(name[2]), file) for name, file in named if name)


class Log:
    """A log that is being written. Threads that commit together share a sync: each waits only for its own record."""

    def __init__(self, file: Path) -> None:
        make_folder(file.parent)
        self.file = file
        self.bytes = 0
        self._synced = 0
        self._busy = False
        self._change = Condition()
        self._failed: OSError | None = None
        self._handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        sync_folder(file.parent)

    def append(self, record: bytes) -> int:
        """Write a record after the others, or nothing; returns where it ends, for ``sync``."""
        self._require_sound()
        fault("before-log")
        try:
            half = len(record) // 2 if armed("torn-log") else len(record)
            _write_all(self._handle, record[:half], self.bytes)
            fault("torn-log")
            _write_all(self._handle, record[half:], self.bytes + half)
        except OSError:
            os.ftruncate(self._handle, self.bytes)
            raise
        self.bytes += len(record)
        return self.bytes

    def sync(self, end: int) -> None:
        """Wait until everything before ``end`` is on the disk.

        One thread syncs for all that have written by then; those that come meanwhile are served together by the next.
        """
        with self._change:
            while self._busy and self._synced < end:
                self._change.wait()
            if self._synced >= end:
                return
            self._require_sound()
            self._busy, target = True, self.bytes
        try:
            os.fdatasync(self._handle)
        except OSError as refused:
            self._failed = refused
            raise
        finally:
            with self._change:
                self._busy = False
                self._synced = self._synced if self._failed else max(self._synced, target)
                self._change.notify_all()

    def retire(self) -> None:
        """Delete the log, once a manifest has taken all of it in: whoever waits for a sync need not any more."""
        with self._change:
            while self._busy:
                self._change.wait()
            self._synced = self.bytes
            self._change.notify_all()
            os.close(self._handle)
        self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it there."""
        os.close(self._handle)

    def _require_sound(self) -> None:
        # After a failed sync the system may have dropped pages it could not write: only replay tells what is there.
        if self._failed is not None:
            raise StorageError(
                "the change log can no longer be written",
                where=str(self.file),
                detail=f"A sync failed: {self._failed.strerror}.",
                hint="Close the warehouse and open it again; it continues from the last durable epoch.",
            ) from self._failed


def _write_all(handle: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written
