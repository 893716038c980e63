"""The messages of PostgreSQL's logical decoding, as its plug-in ``pgoutput`` writes them in binary (protocol 1).

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidemill.sources.postgres.change_capture import CapturedTransaction, TextRowDecoder, parse_json, texts

__all__ = ["MESSAGE_PREFIX", "transactions"]

MESSAGE_PREFIX = "tidemill"
"""The prefix of the messages that our TRUNCATE trigger writes to the log."""

TextValues = dict[str, str | None]


class _MessageBytes:
    """A message, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, format_: str) -> Any:
        """The next value of a ``struct`` format."""
        (value,) = struct.unpack_from(f">{format_}", self._data, self._at)
        self._at += struct.calcsize(f">{format_}")
        return value

    def letter(self) -> str:
        """The next byte as a letter."""
        return chr(self.take("B"))

    def text(self) -> str:
        """The text up to the next zero byte."""
        end = self._data.index(b"\0", self._at)
        value = self._data[self._at : end].decode()
        self._at = end + 1
        return value

    def bytes(self) -> bytes:
        """The next bytes, as many as the number in front of them says."""
        length = self.take("I")
        self._at += length
        return self._data[self._at - length : self._at]


@dataclass(frozen=True)
class _DescribedRelation:
    name: str
    columns: tuple[str, ...]


def transactions(messages: Iterable[bytes], rows: TextRowDecoder) -> Iterator[CapturedTransaction]:
    """The transactions that are complete in ``messages``.

    A transaction's mark is the log position of its commit, and its number the lower half of the 64-bit one.
    """
    reader = _PgoutputReader(rows)
    for data in messages:
        ended = reader.take(_MessageBytes(data))
        if ended is not None:
            yield ended


class _PgoutputReader:
    """Keeps the relations that were described, and the current transaction."""

    def __init__(self, rows: TextRowDecoder) -> None:
        self._rows = rows
        self._relations: dict[int, _DescribedRelation] = {}
        self._current = CapturedTransaction(0)
        self._emptied: set[str] = set()

    def take(self, message: _MessageBytes) -> CapturedTransaction | None:
        """Read one message; returns the transaction if it ends one."""
        match message.letter():
            case "B":
                mark, _, xid = message.take("Q"), message.take("q"), message.take("I")
                self._current, self._emptied = CapturedTransaction(xid, mark), set()
            case "R":
                self._describe(message)
            case "I":
                relation = self._relation(message)
                self._new(relation, message, {})
            case "U":
                relation = self._relation(message)
                self._new(relation, message, self._old(relation, message))
            case "D":
                relation = self._relation(message)
                self._old(relation, message)
            case "T":
                self._truncate(message)
            case "M":
                self._own(message)
            case "C":
                return self._current
        return None

    def _describe(self, message: _MessageBytes) -> None:
        oid, _, name = message.take("I"), message.text(), message.text()
        message.letter()
        count = message.take("H")
        columns = []
        for _ in range(count):
            message.take("B")
            columns.append(message.text())
            message.take("I")
            message.take("i")
        self._relations[oid] = _DescribedRelation(name, tuple(columns))

    def _relation(self, message: _MessageBytes) -> _DescribedRelation:
        return self._relations[message.take("I")]

    def _old(self, relation: _DescribedRelation, message: _MessageBytes) -> TextValues:
        """Record the deleted row. Without REPLICA IDENTITY FULL its values are not in the log."""
        kind = message.letter()
        if kind != "O":
            self._current.fail(f"The log has no old rows of {relation.name}; it needs REPLICA IDENTITY FULL.")
            return {} if kind == "N" else dict.fromkeys(relation.columns)
        values = self._values(relation, message, {})
        self._note(relation, values, -1)
        return values

    def _new(self, relation: _DescribedRelation, message: _MessageBytes, old: TextValues) -> None:
        if self._current.trouble:
            return
        if message.letter() == "N":
            self._note(relation, self._values(relation, message, old), 1)

    def _values(self, relation: _DescribedRelation, message: _MessageBytes, old: TextValues) -> TextValues:
        """The values of a row; an unchanged TOAST value of an update is in the old row alone."""
        values: TextValues = {}
        for column, _ in zip(relation.columns, range(message.take("H")), strict=True):
            kind = message.letter()
            values[column] = message.bytes().decode() if kind == "t" else old.get(column) if kind == "u" else None
        return values

    def _note(self, relation: _DescribedRelation, values: TextValues, weight: int) -> None:
        self._current.note(self._rows, relation.name.lower(), values, weight)

    def _own(self, message: _MessageBytes) -> None:
        """Record a row that TRUNCATE removes, as our trigger wrote it before; or that all of them were written."""
        message.take("B")
        message.take("Q")
        if message.text() != MESSAGE_PREFIX:
            return
        table, row = parse_json(message.bytes().decode())
        if row is None:
            self._emptied.add(table)
        else:
            self._current.note(self._rows, table.lower(), texts(row), -1)

    def _truncate(self, message: _MessageBytes) -> None:
        count, _ = message.take("I"), message.take("B")
        for _ in range(count):
            relation = self._relation(message)
            if relation.name.lower() in self._rows and relation.name not in self._emptied:
                self._current.fail(f"{relation.name} was emptied by TRUNCATE, and the log does not say of which rows.")
