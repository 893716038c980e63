"""Change capture: whole transactions, in an order that respects conflicts, from a slot or an outbox."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.changes.zset import ZSet
from tidemill.model.errors import DataError, SourceLost, TidemillError
from tidemill.sources.postgres.catalog import decoder
from tidemill.sources.postgres.connection import Connection, execute
from tidemill.sources.postgres.snapshot_position import PgSnapshot, SnapshotPosition
from tidemill.sources.remote_queries.remote_tables import RemoteTable

__all__ = ["CapturedTransaction", "ChangeCapture", "TextRowDecoder", "flushed", "parse_json", "texts"]

_PAUSE = 0.01


@dataclass
class CapturedTransaction:
    """One committed transaction. ``mark`` orders it among others; ``trouble`` says why it cannot be delivered."""

    xid: int
    mark: int = 0
    changes: dict[str, ZSet] = field(default_factory=dict)
    trouble: TidemillError | None = None
    later: list[Callable[[Mapping[int, Collection[str]]], None]] = field(default_factory=list)
    """Rows of relations that are not known yet, to be noted once it is known of which tables they are partitions."""

    def note(self, rows: TextRowDecoder, table: str, values: Mapping[str, str | None], weight: int) -> None:
        """Add an inserted or deleted row. An unreadable row fails its own transaction, not those before."""
        if table in rows:
            try:
                self.changes.setdefault(table, ZSet()).add(rows.row(table, values), weight)
            except TidemillError as error:
                self.trouble = error

    def settle(self, tables: Mapping[int, Collection[str]]) -> None:
        """Note what is left, now that all relations are known that have rows of tables in use."""
        for note in self.later:
            note(tables)
        self.later.clear()

    def fail(self, detail: str) -> None:
        """Note that the source does not report all that this transaction changed."""
        self.trouble = SourceLost(
            "a transaction of the source cannot be told",
            detail=detail,
            hint="Put that right, start again, and fill the views over this source.",
        )


class TextRowDecoder:
    """Converts the values of rows, as text by column name, into our rows."""

    def __init__(self, tables: Iterable[RemoteTable]) -> None:
        self._columns: dict[str, list[tuple[str, Callable[[str], Any]]]] = {
            table.name.lower(): [(column.name, decoder(column)) for column in table.columns] for table in tables
        }

    def __contains__(self, table: str) -> bool:
        return table in self._columns

    def lacks(self, table: str, values: Collection[str]) -> bool:
        """True if some column of ``table`` is not among ``values``."""
        return any(name not in values for name, _ in self._columns[table])

    def row(self, table: str, values: Mapping[str, str | None]) -> tuple[Any, ...]:
        """The row of ``table`` with these values."""
        result = []
        for name, decode in self._columns[table]:
            try:
                text = values[name]
                result.append(None if text is None else decode(text))
            except KeyError:
                raise SourceLost(
                    f'column "{name}" of table "{table}" is gone',
                    detail="A change came without it.",
                    hint="Create the source again, and the views over it.",
                ) from None
            except DataError as error:
                error.where = f"{table}.{name}"
                raise
        return tuple(result)


class ChangeCapture(ABC):
    """A way to capture committed changes. One that is ``FROM_LOG`` runs outside of the snapshot's transaction."""

    FROM_LOG: bool

    @property
    def structure(self) -> str:
        """Digest of the definitions under which the state that is being delivered is read, for its position."""
        return ""

    @abstractmethod
    def create(self, connection: Connection) -> None:
        """Create in the source what change capture needs there."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Refuse a source that lacks what change capture needs."""

    @abstractmethod
    def prepare(self, connection: Connection) -> None:
        """Prepare a new connection."""

    def after_error(self) -> None:  # noqa: B027, for most there is nothing to do
        """Handle a failed statement on the connection: state of its session may be gone."""

    @abstractmethod
    def start(self, connection: Connection, since: SnapshotPosition | None) -> SnapshotPosition:
        """The position at which delivery begins; ``EpochGone`` if the changes after ``since`` are no longer
        available."""

    def snapshot(self, connection: Connection, seen: SnapshotPosition) -> PgSnapshot:
        """The snapshot of the transaction that the connection has begun, in which all after ``seen`` is delivered."""
        return PgSnapshot.parse(execute(connection, "SELECT pg_current_snapshot()::text")[0][0])

    def answered_in(self, connection: Connection) -> bool:
        """True if all queries of the transaction so far have read the tables as its snapshot has them."""
        return True

    @abstractmethod
    def fresh(
        self, connection: Connection, seen: SnapshotPosition, target: PgSnapshot, most: int, wanted: bool
    ) -> tuple[list[CapturedTransaction], SnapshotPosition | None]:
        """Transactions of ``target`` that ``seen`` does not include, about ``most`` of them at a time.

        With the last of them comes the position at which all of ``target`` was delivered; None while there are more, or
        if nothing is new and that position is not ``wanted``.
        """

    @abstractmethod
    def forget(self, connection: Connection, upto: SnapshotPosition) -> None:
        """Release changes up to here, which are not needed any more."""

    @abstractmethod
    def wait(self, connection: Connection, seconds: float) -> None:
        """Return when there may be something new, or after ``seconds``."""

    @abstractmethod
    def remove(self, connection: Connection) -> None:
        """Remove from the source what it keeps for us."""


def flushed(connection: Connection) -> str:
    """The end of the log, once all of it is on disk; for a connection that is in no transaction.

    With ``synchronous_commit = off`` a transaction is visible before that. A crash may then undo it, and reuse its
    number: it must not be delivered yet. Other commits flush the log, or else an empty message does.
    """
    place = str(execute(connection, "SELECT pg_current_wal_insert_lsn()::text")[0][0])
    deadline = time.monotonic() + _PAUSE
    while not execute(connection, "SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn", place)[0][0]:
        if time.monotonic() > deadline:
            execute(connection, "SELECT pg_logical_emit_message(true, 'tidemill flush', '')")
        time.sleep(_PAUSE / 4)
    return place


def parse_json(text: str) -> Any:
    """JSON with numbers as their original text: no digit is lost."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


def texts(row: Mapping[str, Any]) -> dict[str, str | None]:
    """The columns of a row that was parsed from JSON, each value as the text that PostgreSQL would write.

    >>> texts(parse_json('{"id": 9007199254740993, "x": 1.50, "yes": true, "note": null}'))
    {'id': '9007199254740993', 'x': '1.50', 'yes': 't', 'note': None}
    """
    return {name: _text(value) for name, value in row.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "t" if value else "f"
    return value if value is None or isinstance(value, str) else json.dumps(value)
