"""Debezium change records, one JSON value per line, as changes of the tables that they name.

A record has an operation (``op``: c create, r read in a snapshot, u update, d delete) and the row ``before`` and
``after``. It may be bare, in a ``payload`` beside its ``schema``, or the value of a message with a ``topic``. A
tombstone (null after a delete, for Kafka's log compaction) changes nothing.

Databases often leave ``before`` out, or fill in its key alone. If the table has a primary key and the caller can look
rows up, the deleted row is therefore the stored one, not the one in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import Table
from tidemill.sources.ingest.kafka_connect import columns_of, decode
from tidemill.sources.ingest.text_records import parse_json

__all__ = ["DebeziumReader", "KafkaRecord", "RowLookup", "read_debezium"]

RowLookup = Callable[[str, Row], Row | None]
"""The stored row of a table with this primary key; None if there is none."""


def read_debezium(
    lines: Iterable[str], tables: Mapping[str, Table], *, lookup: RowLookup | None = None, name: str = "debezium"
) -> dict[str, ChangeSet]:
    """The changes of all ``lines``, by table; ``name`` is what errors call the input.

    >>> from tidemill.model.types import DATE, Field
    >>> days = Table("days", (Field("day", DATE),))
    >>> record = '{"op": "u", "before": {"day": 0}, "after": {"day": "2024-01-01"}, "source": {"table": "days"}}'
    >>> read_debezium([record], {"days": days})["days"].zset()
    ZSet({(datetime.date(1970, 1, 1),): -1, (datetime.date(2024, 1, 1),): 1})
    """
    reader = DebeziumReader(tables, lookup)
    for number, line in enumerate(lines, start=1):
        try:
            reader.take(parse_json(line) if line.strip() else None)
        except TidemillError as error:
            error.where = f"{name}:{number}" + (f", {error.where}" if error.where else "")
            raise
    return reader.changes()


@dataclass(frozen=True)
class KafkaRecord:
    """A record of a topic: its key and value, parsed, and where it is, for errors."""

    topic: str
    key: Any
    value: Any
    where: str


class DebeziumReader:
    """Collects changes, and keeps the rows of this input by key: a later record may update a row of an earlier one.

    With ``replaces`` records may come again: a row of a table with a primary key replaces the one that is there, and
    one that is not there cannot leave. ``lookup`` finds stored rows.
    """

    def __init__(self, tables: Mapping[str, Table], lookup: RowLookup | None, *, replaces: bool = False) -> None:
        self._tables = {name.lower(): table for name, table in tables.items()}
        self.lookup = lookup
        self._replaces = replaces
        self._pairs: dict[str, list[tuple[Row, int]]] = {}
        self._latest: dict[tuple[str, Row], Row | None] = {}

    def changes(self) -> dict[str, ChangeSet]:
        """The changes of all records so far."""
        return {name: ChangeSet.of(pairs, self._tables[name].fields) for name, pairs in self._pairs.items()}

    def take_record(self, record: KafkaRecord) -> None:
        """Add the change of a record of a topic; its errors say where it is."""
        try:
            self.take({"topic": record.topic, "value": record.value}, key=_payload(record.key))
        except TidemillError as error:
            error.where = f"{record.where}, {error.where}" if error.where else record.where
            raise

    def keys_of(self, records: Iterable[KafkaRecord]) -> dict[str, set[Row]]:
        """The primary keys that records name, by table: those whose stored rows may be replaced or leave."""
        found: dict[str, set[Row]] = {}
        for one in records:
            try:
                record, schema, topic = _open({"topic": one.topic, "value": one.value})
                table = None if record is None or record.get("op") == "m" else self._table_of(record, topic)
                if record is None or table is None or not table.primary_key:
                    continue
                for side in (record.get("before"), record.get("after"), _payload(one.key)):
                    if isinstance(side, Mapping):
                        key = self._key_of(table, side, schema, None)
                        found.setdefault(table.name, set()).add(key or ())
            except TidemillError as error:
                error.where = f"{one.where}, {error.where}" if error.where else one.where
                raise
        return found

    def take(self, message: Any, *, key: Any = None) -> None:
        """Add one record's change; ``key`` is that of its row, where the message has it apart."""
        record, schema, topic = _open(message)
        if record is None:
            return
        table = self._table_of(record, topic)
        if record.get("before") is None and isinstance(key, Mapping) and record.get("op") in ("u", "d"):
            record = {**record, "before": key}
        match record.get("op"):
            case "c" | "r":
                after = self._row(table, record, "after", schema)
                if self._replaces and table.primary_key:
                    self._remove_known(table, _key(table, after))
                self._add(table, after)
            case "u":
                after = self._row(table, record, "after", schema)
                if self._replaces and table.primary_key:
                    self._remove_known(table, self._key_of(table, record.get("before"), schema, after))
                    self._remove_known(table, _key(table, after))
                else:
                    self._remove(table, self._leaving(table, record, schema, after))
                self._add(table, after)
            case "d" if self._replaces and table.primary_key:
                self._remove_known(table, self._key_of(table, record.get("before"), schema, None))
            case "d":
                self._remove(table, self._leaving(table, record, schema, None))
            case "m":  # a message that the database's users wrote to its log: no row of any table
                return
            case op:
                raise Unsupported(
                    f"a record with op {op!r} cannot be applied", where=table.name, hint="Known: c, r, u, d and m."
                )

    def _table_of(self, record: Mapping[str, Any], topic: str | None) -> Table:
        source = record.get("source") or {}
        name = str(source.get("table") or (topic or "").rpartition(".")[2]).lower()
        if not name:
            raise BadValue(
                "the record does not say which table it belongs to", hint="It needs source.table or a topic."
            )
        if name not in self._tables:
            raise UnknownName(f'there is no table "{name}"', hint=f"Tables: {', '.join(self._tables) or 'none yet'}.")
        return self._tables[name]

    def _row(self, table: Table, record: Mapping[str, Any], side: str, schema: Mapping[str, Any]) -> Row:
        values = record.get(side)
        if not isinstance(values, Mapping):
            raise BadValue(f'the record has no "{side}" row', where=table.name)
        types = {field.name: field.type for field in table.fields}
        named = {column.lower(): value for column, value in values.items()}
        decoded = {
            column: decode(value, types[column], schema.get(column, {})) if column in types else value
            for column, value in named.items()
        }
        return row_coercer(table.fields, table.name)(decoded)

    def _leaving(self, table: Table, record: Mapping[str, Any], schema: Mapping[str, Any], after: Row | None) -> Row:
        """The row that an update or delete removes."""
        before = record.get("before")
        if table.primary_key:
            known = self._held(table, self._key_of(table, before, schema, after))
            if known is not None:
                return known
        if before is None:
            raise BadValue(
                'the record has no "before" row',
                where=table.name,
                detail="Without it, or a primary key by which the row is known, it is unknown which row leaves.",
                hint="Declare a PRIMARY KEY, or have the database log whole rows (PostgreSQL: REPLICA IDENTITY FULL).",
            )
        return self._row(table, record, "before", schema)

    def _key_of(self, table: Table, before: Any, schema: Mapping[str, Any], after: Row | None) -> Row | None:
        if not isinstance(before, Mapping):
            return None if after is None else _key(table, after)
        fields = tuple(table.fields[position] for position in table.key_positions)
        named = {column.lower(): value for column, value in before.items()}
        values = {f.name: decode(named.get(f.name), f.type, schema.get(f.name, {})) for f in fields}
        return row_coercer(fields, table.name)(values)

    def _remove_known(self, table: Table, key: Row | None) -> None:
        """Remove the row with this key, if there is one."""
        if key is None:
            raise BadValue("the record does not say which row leaves", where=table.name, hint="It needs a key.")
        known = self._held(table, key)
        if known is not None:
            self._remove(table, known)

    def _held(self, table: Table, key: Row | None) -> Row | None:
        if key is None:
            return None
        if (table.name, key) in self._latest:
            return self._latest[table.name, key]
        return self.lookup(table.name, key) if self.lookup is not None else None

    def _add(self, table: Table, row: Row) -> None:
        self._pairs.setdefault(table.name, []).append((row, 1))
        if table.primary_key:
            self._latest[table.name, _key(table, row)] = row

    def _remove(self, table: Table, row: Row) -> None:
        self._pairs.setdefault(table.name, []).append((row, -1))
        if table.primary_key:
            self._latest[table.name, _key(table, row)] = None


def _payload(key: Any) -> Any:
    """The columns of a record's key, which may lie beside their schema."""
    return key.get("payload", key) if isinstance(key, Mapping) and "schema" in key else key


def _key(table: Table, row: Row) -> Row:
    return tuple([row[position] for position in table.key_positions])


def _open(message: Any) -> tuple[Mapping[str, Any] | None, Mapping[str, Any], str | None]:
    """The record in a message, the schema of its columns if it has one, and the topic."""
    topic, schema = None, None
    while isinstance(message, Mapping) and "op" not in message:
        topic = message.get("topic", topic)
        schema = message.get("schema", schema)
        inner = next((message[part] for part in ("payload", "value") if part in message), message)
        if inner is message:
            raise BadValue("the line is not a change record", hint='It needs "op", "before" and "after".')
        message = parse_json(inner) if isinstance(inner, str) else inner
    if message is not None and not isinstance(message, Mapping):
        raise BadValue("the line is not a change record", hint='It needs "op", "before" and "after".')
    return message, columns_of(schema), topic
