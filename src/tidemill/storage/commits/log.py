"""The write-ahead log, which holds small epochs until the next manifest.

An epoch is one record: a header, a line of JSON, and the rows of each changed map as messages of an Arrow stream, whose
schema comes with the first change of the map in the log only. A few rows that were never Arrow are in the line itself.
One append and one sync make it durable. The log ``<sequence>-<token>.log`` holds the epochs after manifest
``sequence``; the next manifest includes all of them, and the log is deleted.

Records are a chain. Each has the checksum of its predecessor (the first that of its manifest), its own offset in the
file, and the length of the log that was durable when it was written. So a torn record, whose commit never returned, is
told from one that was whole once.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import Row
from tidemill.model.array_tree import ArrayTree
from tidemill.model.types import Field
from tidemill.storage.commits.group_sync import GroupSync
from tidemill.storage.commits.logged_arrays import LoggedArrays, ReadArrays
from tidemill.storage.commits.logged_rows import encode_value, table_of
from tidemill.storage.filesystem.durable_files import armed, fault
from tidemill.storage.filesystem.file_system import FilePath, system_of

MAGIC, _ROW_MAGIC, _STREAM_MAGIC = b"TdM4", b"TdM3", b"TdM2"
"""Magic number of records, that of format 3, which has all arrays whole, and that of format 2, where each change of a
map is a whole Arrow stream."""

_HEADER = struct.Struct("<4sIQQQ")
"""Magic number, checksum of the previous record, length of the payload, offset in the file, durable length."""

_PLAIN_MAGIC, _PLAIN_HEADER, _PLAIN_SYNCED = b"TdMl", struct.Struct("<4sB3xQ"), 1
"""Records of format 1 are not chained, but have a flag that says that the log was synced after each."""

FEW_ROWS = 64
"""Number of rows up to which a change that is held as Python rows is written as JSON."""

COMPRESSED_BYTES = 64 << 10
"""Bytes of a change from which it is compressed: about a hundred bytes take a microsecond, and a sync takes longer."""

_COMPRESSION = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
"""Streams say themselves how their buffers are compressed, so any reader of Arrow reads them."""

REFERENCED_BYTES = 2
"""Bytes of an element that is in the log as part of an earlier array: a checkpoint writes it all the same."""

_NO_BYTES = (0, 0)
_CRC = struct.Struct("<I")
_NAME = re.compile(r"(\d{20})-(\d{8,})\.log")

P = TypeVar("P", bound=FilePath)


class LoggedChange:
    """A map's change as stored in the log, decoded when it is first read: Arrow messages, or rows out of JSON."""

    def __init__(self, schema: bytes, messages: bytes, rows: Sequence[tuple[Sequence[Any], int]] | None = None) -> None:
        self._schema = schema
        self._messages = messages
        self._rows = rows

    @cached_property
    def _table(self) -> pa.Table:
        if self._rows is None:
            return pa.ipc.open_stream(self._schema + self._messages).read_all()
        return table_of(self._rows, pa.ipc.read_schema(pa.py_buffer(self._schema)))

    def arrow(self) -> pa.Table:
        """The rows as Arrow: the fields followed by the weight."""
        return self._table

    @property
    def rows(self) -> int:
        """The number of rows, unsummed."""
        return int(self._table.num_rows)

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True)
class LogRecord:
    """An epoch as stored in the log, with its byte range.

    ``previous`` is the checksum of the previous record, None if the log is not chained; the log up to byte ``durable``
    was synced when the record was written.
    """

    epoch: int
    positions: Mapping[str, str]
    changes: Mapping[str, LoggedChange]
    begin: int
    end: int
    crc: int
    previous: int | None
    durable: int


class LoggedSchemas:
    """The schemas that a log has by map, the fields of those maps whose schema follows from them, and its arrays."""

    def __init__(self) -> None:
        self.arrays = LoggedArrays()
        self.encode_line = json.JSONEncoder(default=self._encoded, check_circular=False).encode
        self._schemas: dict[str, pa.Schema] = {}
        self._fields: dict[str, tuple[Field, ...]] = {}

    def of_rows(self, name: str, fields: tuple[Field, ...]) -> bytes:
        """The schema of rows with these fields as the log must have it before them; nothing if it has it."""
        if self._fields.get(name) == fields:
            return b""
        before = self.of_table(name, arrow_schema(fields))
        self._fields[name] = fields
        return before

    def of_table(self, name: str, schema: pa.Schema) -> bytes:
        """The schema of a table as the log must have it before it; nothing if it has it."""
        if self._schemas.get(name) == schema:
            return b""
        self._fields.pop(name, None)
        self._schemas[name] = schema
        return bytes(schema.serialize())

    def _encoded(self, value: object) -> object:
        return self.arrays.encode(value) if isinstance(value, ArrayTree) else encode_value(value)

    def clear(self) -> None:
        """Have none: all are written again."""
        self.arrays.clear()
        self._schemas.clear()
        self._fields.clear()


def encode_epoch(epoch: Epoch, schemas: LoggedSchemas) -> bytes:
    """The payload of an epoch's record. ``schemas`` are those that the log has; new ones are added to it."""
    lengths: dict[str, tuple[int, int]] = {}
    rows: dict[str, list[tuple[Row, int]]] = {}
    messages: list[bytes] = []
    for name, change in epoch.changes.items():
        if not change.rows:
            continue
        pairs = change.python_pairs
        if pairs is not None and change.rows <= FEW_ROWS:
            rows[name] = pairs
            before, stream = schemas.of_rows(name, change.fields), b""
        else:
            table = change.arrow()
            before = schemas.of_table(name, table.schema)
            stream = _messages(table)
        lengths[name] = _NO_BYTES
        if before or stream:
            lengths[name] = len(before), len(stream)
            messages += (before, stream)
    line = {"epoch": epoch.number, "positions": dict(epoch.positions), "maps": lengths, "rows": rows}
    return b"".join([schemas.encode_line(line).encode(), b"\n", *messages])


def _messages(table: pa.Table) -> bytes:
    """The rows of a table as messages of an Arrow stream, whose buffers are compressed if they are large."""
    if table.nbytes < COMPRESSED_BYTES:
        return b"".join([batch.serialize() for batch in table.to_batches()])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSION) as stream:
        stream.write_table(table)
    # It begins with the schema, which the log has once.
    return bytes(memoryview(sink.getvalue())[len(table.schema.serialize()) :])


def encode_record(payload: bytes, at: int, previous: int, durable: int) -> tuple[bytes, int]:
    """The record with this payload at byte ``at`` of a log, and its checksum."""
    header = _HEADER.pack(MAGIC, previous, len(payload), at, durable)
    crc = zlib.crc32(payload, zlib.crc32(header))
    return b"".join([header, _CRC.pack(crc), payload]), crc


def decode_record(
    content: bytes, at: int, schemas: dict[str, bytes], arrays: ReadArrays | None = None
) -> LogRecord | None:
    """The record that begins at ``at``; None if there is no whole record that was written at that offset.

    ``schemas`` are those of the records before it, by map, and ``arrays`` theirs; those that it has are added.
    """
    plain = content[at : at + 4] == _PLAIN_MAGIC
    header = _PLAIN_HEADER if plain else _HEADER
    begin = at + header.size + _CRC.size
    if len(content) < begin:
        return None
    said = header.unpack_from(content, at)
    payload = content[begin : begin + said[2]]
    (crc,) = _CRC.unpack_from(content, at + header.size)
    if len(payload) < said[2] or zlib.crc32(payload, zlib.crc32(content[at : at + header.size])) != crc:
        return None
    if plain:
        previous, durable = None, at if said[1] & _PLAIN_SYNCED else 0
    elif said[0] in (MAGIC, _ROW_MAGIC, _STREAM_MAGIC) and said[3] == at:
        previous, durable = said[1], said[4]
    else:
        return None
    number, positions, changes = _decode_epoch(payload, schemas, arrays or ReadArrays())
    return LogRecord(number, positions, changes, at, begin + len(payload), crc, previous, durable)


def _decode_epoch(
    payload: bytes, schemas: dict[str, bytes], arrays: ReadArrays
) -> tuple[int, Mapping[str, str], Mapping[str, LoggedChange]]:
    """The number, positions and changes that ``encode_epoch`` was given; before format 3 each change has its schema."""
    line, _, _ = payload.partition(b"\n")
    said = json.loads(line, object_hook=arrays.decode)
    place, changes, rows = len(line) + 1, {}, said.get("rows", {})
    for name, lengths in said["maps"].items():
        whole = isinstance(lengths, int)
        schema, stream = (0, lengths) if whole else lengths
        if schema:
            schemas[name] = payload[place : place + schema]
        before = b"" if whole else schemas.get(name, b"")
        changes[name] = LoggedChange(before, payload[place + schema : place + schema + stream], rows.get(name))
        place += schema + stream
    return said["epoch"], said["positions"], changes


@dataclass(frozen=True)
class ReplayedLog:
    """The records of a log up to its end or to the first damaged one; and the whole ones after that.

    Records after a damaged one are not read as data, because an epoch before them is missing. They tell whether that
    epoch had been acknowledged.
    """

    file: FilePath
    records: tuple[LogRecord, ...]
    later: tuple[LogRecord, ...] = ()
    broken: bool = False

    @property
    def token(self) -> int:
        """The token of the log's writer, from the file name."""
        name = _NAME.fullmatch(self.file.name)
        return int(name[2]) if name else 0

    @property
    def length(self) -> int:
        """Length of the log's valid records in bytes."""
        return self.records[-1].end if self.records else 0

    @property
    def end(self) -> LogEnd | None:
        """The end of the valid records; None if there are none."""
        last = self.records[-1] if self.records else None
        return LogEnd(last.end, last.epoch, last.crc) if last else None

    @property
    def lost(self) -> bool:
        """True if a durable record is missing. A record that was being written when the process died was not durable,
        nor was one that waited for its sync together with those after it."""
        return self.broken or any(record.durable > self.length for record in self.later)


def replay(file: FilePath, after: int | None = None) -> ReplayedLog:
    """Read the records of a log. ``after`` is the checksum of the manifest that it follows, if known."""
    content = system_of(file).read(file)
    records: list[LogRecord] = []
    at, previous, schemas, arrays = 0, after, dict[str, bytes](), ReadArrays()
    while (found := decode_record(content, at, schemas, arrays)) is not None:
        if found.previous is not None and previous is not None and found.previous != previous:
            return ReplayedLog(file, tuple(records), (found,), broken=True)
        records.append(found)
        at, previous = found.end, found.crc
    return ReplayedLog(file, tuple(records), tuple(_records_after(content, at)))


def _records_after(content: bytes, at: int) -> Iterator[LogRecord]:
    """The whole records after a damaged one. Their rows cannot be read: the damaged one may have had their schemas."""
    places = (found.start() for found in re.finditer(b"TdM[234l]", content[at + 1 :]))
    found = (decode_record(content, at + 1 + place, {}) for place in places)
    return (record for record in found if record is not None)


def log_file(folder: P, sequence: int, token: int) -> P:
    """The log file of the writer with ``token`` for the epochs after manifest ``sequence``."""
    return folder / f"{sequence:020}-{token:08}.log"


def log_files(folder: P) -> list[tuple[int, int, P]]:
    """The existing logs as (sequence, token, file), sorted; other files are ignored."""
    named = [(_NAME.fullmatch(file.name), file) for file in system_of(folder).entries(folder)]
    return sorted((int(name[1]), int(name[2]), file) for name, file in named if name)


class LogEnd(NamedTuple):
    """The end of a log: its length, the last epoch, and the checksum of its record."""

    length: int = 0
    epoch: int = 0
    crc: int = 0


def _unmarked(end: LogEnd) -> None:
    """Default callback of a log, which ignores how far it is durable."""


class Log:
    """A log that is being written. Threads that commit together share a sync: each waits only for its own record.

    It follows the manifest whose checksum is ``after``. ``durable`` is called with the synced end of the log after each
    sync. ``resumed`` is the end of the whole records that the file already has: what comes after them is cut off.
    """

    def __init__(
        self,
        file: FilePath,
        after: int = 0,
        durable: Callable[[LogEnd], None] = _unmarked,
        resumed: LogEnd | None = None,
    ) -> None:
        self.file = file
        self.end = LogEnd(crc=after)
        self._durable = durable
        self._group = GroupSync(self._sync)
        self._schemas = LoggedSchemas()
        self._opened = system_of(file).open_log(file, new=resumed is None)
        if resumed is not None:
            self.cut(resumed)

    def append(self, epoch: Epoch) -> LogEnd:
        """Append the record of an epoch; returns its end, for ``sync``. An error may leave a torn record to ``cut``."""
        fault("before-log")
        at = self.end.length
        record, crc = encode_record(encode_epoch(epoch, self._schemas), at, self.end.crc, self._group.durable)
        if armed("torn-log"):
            self._opened.write(record[: len(record) // 2], at)
            fault("torn-log")
        self._opened.write(record, at)
        self.end = LogEnd(at + len(record), epoch.number, crc)
        return self.end

    @property
    def size(self) -> int:
        """Bytes of the log, and of what a checkpoint makes of the arrays that it has as edits."""
        return self.end.length + REFERENCED_BYTES * self._schemas.arrays.referenced

    def cut(self, end: LogEnd) -> None:
        """Truncate the log to ``end``, which is the end of a whole record."""
        self._opened.truncate(end.length)
        self.end = end
        self._schemas.clear()  # the log may have lost some, and has not told which of them it had when it was opened

    def sync(self, end: int) -> None:
        """Wait until everything before ``end`` is durable."""
        self._group.wait(end)

    def _sync(self) -> int:
        target = self.end
        self._opened.sync()
        self._durable(target)
        return target.length

    @property
    def awaits_sync(self) -> bool:
        """True if a record was appended that is not known to be durable."""
        return self.end.length > self._group.durable

    def acknowledge(self, end: LogEnd) -> None:
        """Report how far the log is written in a store that does not sync."""
        self._durable(end)

    def retire(self) -> None:
        """Delete the log once a manifest includes all of it; threads that wait for a sync are released."""
        self._group.finish(sys.maxsize)
        self.close()
        with suppress(OSError):  # it is ignored from now on, and deleted later
            self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file without deleting it."""
        with suppress(OSError):
            self._opened.close()
