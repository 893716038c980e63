"""The messages of PostgreSQL's logical decoding, as its plug-in ``pgoutput`` writes them in binary (protocol 1).

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.sources.postgres.change_capture import CapturedTransaction, TextRowDecoder, parse_json, texts

__all__ = ["MESSAGE_PREFIX", "LogTables", "transactions"]

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
    """A relation of the log: its number, name and columns, and those of which there are always old values."""

    relid: int
    name: str
    columns: tuple[str, ...]
    identity: frozenset[str]


@dataclass(frozen=True)
class LogTables:
    """The tables in use: how their rows are read, and the names of those that a relation has rows of, by its number.

    ``publication`` has a part of the rows of each table in ``filtered``. ``growing``: relations that are not known yet
    may turn out to be partitions of a table in use.
    """

    rows: TextRowDecoder
    names: Mapping[int, Collection[str]]
    publication: str = ""
    filtered: frozenset[str] = frozenset()
    growing: bool = False


def transactions(messages: Iterable[bytes], tables: LogTables) -> Iterator[CapturedTransaction]:
    """The transactions that are complete in ``messages``.

    A transaction's mark is the log position of its commit, and its number the lower half of the 64-bit one.
    """
    reader = _PgoutputReader(tables)
    for data in messages:
        ended = reader.take(_MessageBytes(data))
        if ended is not None:
            yield ended


class _PgoutputReader:
    """Keeps the relations that were described, and the current transaction."""

    def __init__(self, tables: LogTables) -> None:
        self._tables = tables
        self._relations: dict[int, _DescribedRelation] = {}
        self._current = CapturedTransaction(0)
        self._emptied: set[int] = set()

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
                message.letter()
                self._note(relation, self._values(relation, message, {}), 1)
            case "U":
                self._update(self._relation(message), message)
            case "D":
                relation = self._relation(message)
                message.letter()
                self._note(relation, _known(relation, self._values(relation, message, {})), -1)
            case "T":
                self._truncate(message)
            case "M":
                self._own(message)
            case "C":
                return self._current
        return None

    def _describe(self, message: _MessageBytes) -> None:
        relid, _, name = message.take("I"), message.text(), message.text()
        message.letter()
        count = message.take("H")
        columns, identity = [], set()
        for _ in range(count):
            flags = message.take("B")
            columns.append(message.text())
            message.take("I")
            message.take("i")
            if flags & 1:
                identity.add(columns[-1])
        self._relations[relid] = _DescribedRelation(relid, name, tuple(columns), frozenset(identity))

    def _relation(self, message: _MessageBytes) -> _DescribedRelation:
        return self._relations[message.take("I")]

    def _update(self, relation: _DescribedRelation, message: _MessageBytes) -> None:
        """Record both rows. Without an old row in the log, the columns of the identity are as they were."""
        old: TextValues | None = None
        if message.letter() != "N":
            old = _known(relation, self._values(relation, message, {}))
            message.letter()
        new = self._values(relation, message, old or {})
        self._note(relation, _known(relation, new) if old is None else old, -1)
        self._note(relation, new, 1)

    def _values(self, relation: _DescribedRelation, message: _MessageBytes, old: TextValues) -> TextValues:
        """The values of a row; an unchanged TOAST value of an update is in the old row alone."""
        values: TextValues = {}
        for column, _ in zip(relation.columns, range(message.take("H")), strict=True):
            kind = message.letter()
            values[column] = message.bytes().decode() if kind == "t" else old.get(column) if kind == "u" else None
        return values

    def _note(self, relation: _DescribedRelation, values: TextValues, weight: int) -> None:
        """Record a row. Without REPLICA IDENTITY FULL, some values of an old row may not be in the log."""
        into, rows = self._current, self._tables.rows
        whole = len(values) == len(relation.columns)

        def note(names: Collection[str]) -> None:
            for name in names:
                if into.trouble is None and not whole and rows.lacks(name, values):
                    into.fail(f"The log has no old rows of {relation.name}; it needs REPLICA IDENTITY FULL.")
                elif into.trouble is None:
                    into.note(rows, name, values, weight)

        self._with_names(relation.relid, note)

    def _with_names(self, relid: int, do: Callable[[Collection[str]], None]) -> None:
        """Do something for the tables that a relation has rows of, as soon as they are known."""
        if relid in self._tables.names:
            do(self._tables.names[relid])
        elif self._tables.growing:
            self._current.later.append(lambda names: do(names.get(relid, ())))

    def _own(self, message: _MessageBytes) -> None:
        """Record a row that TRUNCATE removes, as our trigger wrote it before; or that all of them were written."""
        message.take("B")
        message.take("Q")
        if message.text() != MESSAGE_PREFIX:
            return
        number, row, *parts = parse_json(message.bytes().decode())
        if not number.isdigit():  # an older trigger, which gave the name alone
            return
        relid = int(number)
        if row is None:
            self._emptied.add(relid)
        else:
            self._with_names(relid, partial(self._removed, self._current, texts(row), parts))

    def _removed(
        self, into: CapturedTransaction, values: TextValues, parts: Sequence[Collection[str]], names: Collection[str]
    ) -> None:
        """Record that TRUNCATE removes a row, of tables of which the publication has it."""
        within = self._tables.publication in (name for part in parts for name in part)
        for name in names:
            if within or name not in self._tables.filtered:
                into.note(self._tables.rows, name, values, -1)

    def _truncate(self, message: _MessageBytes) -> None:
        count, _ = message.take("I"), message.take("B")
        for _ in range(count):
            relation = self._relation(message)
            if relation.relid not in self._emptied:
                self._with_names(relation.relid, partial(_lost, self._current, relation.name))


def _known(relation: _DescribedRelation, values: TextValues) -> TextValues:
    """The values of an old row that the log has for certain."""
    return {name: value for name, value in values.items() if name in relation.identity}


def _lost(into: CapturedTransaction, relation: str, names: Collection[str]) -> None:
    if names:
        into.fail(f"{relation} was emptied by TRUNCATE, and the log does not say of which rows.")
