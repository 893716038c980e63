"""The rows of one batch, looked at one by one: those that their table can take, and those that it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.changes.zset import Row
from tidemill.engine.streams.options import StreamOptions
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue, DataError, MissingRow
from tidemill.model.schema import WEIGHT, Table, names_of
from tidemill.program.constraints import ForeignKey
from tidemill.runtimes.integrity import missing_parent
from tidemill.sources.ingest.files import KeyAdmission, RowCheck, reason_of
from tidemill.sources.ingest.frames import check_names, weight_of

__all__ = ["DELETED", "BadRow", "BatchRows", "KeyLookup", "Record", "set_orphans_aside"]

DELETED = "_deleted"
"""The column of a batch that is true for rows that delete the row of their key."""

KeyLookup = Callable[[str, tuple[int, ...], Collection[Row]], Mapping[Row, Sequence[Row]]]
"""The stored rows of a table that have one of some keys at these positions, by key."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that its table cannot take, as JSON, and why; its ``place`` among those that were given, if it is known."""

    reason: str
    text: str
    place: int | None = None


@dataclass
class BatchRows:
    """The changes of one table that a batch has, and its bad rows; without quarantine the first bad row is raised."""

    table: Table
    options: StreamOptions
    find: KeyLookup
    judge: RowCheck | None
    changes: list[tuple[Row, int]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    _refused: set[Row] = field(default_factory=set)
    """Keys of rows that were set aside."""
    _places: dict[Row, int] = field(default_factory=dict)
    """The places of rows among those that were given, if they are known."""

    def take(self, records: Sequence[Record]) -> None:
        """Take the rows of the batch, as dictionaries by column in lower case."""
        records = self._readable(records)
        if records:
            extra = {DELETED, (self.options.sequence_by or "").lower()} if self.options.upserts else set()
            check_names([name for name in records[0] if name not in extra], self.table)
        if self.options.upserts:
            self._upsert(records)
        else:
            self._insert(records)
        self.keep_replaced()

    def _readable(self, records: Sequence[Record]) -> Sequence[Record]:
        """Those of the records that are rows; the others have an ``error``."""
        bad = [record for record in records if getattr(record, "error", None) is not None]
        for record in bad:
            self.refuse(record, record.error)  # type: ignore[attr-defined]
        return [record for record in records if getattr(record, "error", None) is None] if bad else records

    def refuse(self, record: Any, error: DataError, key: Row = (), place: int | None = None) -> None:
        """Set a row aside, or raise its error."""
        if not self.options.sets_aside:
            raise error
        self._refused |= {key} if key else set()
        text = json.dumps(record, default=str, ensure_ascii=False)
        self.bad.append(BadRow(reason_of(error), text, getattr(record, "place", place)))

    def refuse_orphan(self, row: Row, error: DataError) -> None:
        """Set a row aside that refers to no row."""
        record = dict(zip(names_of(self.table.fields), row, strict=True))
        self.refuse(record, error, self._key(row), self._places.get(row))

    def _note_place(self, row: Row, record: Record) -> None:
        if (place := getattr(record, "place", None)) is not None:
            self._places[row] = place

    def keep_replaced(self) -> None:
        """Keep the rows that only leave because a row that was set aside was to replace them."""
        left = self._refused - {self._key(row) for row, weight in self.changes if weight > 0}
        self.changes = [one for one in self.changes if not left or self._key(one[0]) not in left]

    def _insert(self, records: Iterable[Record]) -> None:
        convert, rows = row_coercer(self.table.fields, self.table.name), []
        for record in records:
            try:
                values = dict(record)
                weight = weight_of(values.pop(WEIGHT, 1), f"{self.table.name}.{WEIGHT}")
                rows.append((convert(values), weight, record))
            except DataError as error:
                self.refuse(record, error, self._readable_key(record))
        # Rows that leave make room for those with their key, whatever their order in the batch.
        rows.sort(key=lambda one: one[1] > 0)
        stored, come = self._stored(row for row, _, _ in rows), {row for row, weight, _ in rows if weight > 0}
        admission = KeyAdmission(self.table, stored, self.judge)
        for row, weight, record in rows:
            try:
                if weight < 0 and row not in come:
                    self._require_stored(row, stored)
                admission.admit(row, weight)
                self.changes.append((row, weight))
                self._note_place(row, record)
            except DataError as error:
                self.refuse(record, error, self._key(row))

    def _require_stored(self, row: Row, stored: Mapping[Row, Sequence[Row]]) -> None:
        """Refuse to delete a row that is not there, where rows are known by a primary key."""
        if self.table.primary_key and self.table.kept and row not in stored.get(self._key(row), ()):
            raise MissingRow("the row to delete is not there", where=self.table.name)

    def _stored(self, rows: Iterable[Row]) -> Mapping[Row, Sequence[Row]]:
        keys = {self._key(row) for row in rows} if self.table.primary_key and self.table.kept else set()
        return self.find(self.table.name, self.table.key_positions, keys) if keys else {}

    def _key(self, row: Row) -> Row:
        return tuple(row[position] for position in self.table.key_positions)

    def _readable_key(self, record: Record) -> Row:
        """The key of a row that cannot be read otherwise; empty if it cannot be read either."""
        fields = tuple(self.table.fields[position] for position in self.table.key_positions)
        try:
            return row_coercer(fields, self.table.name)(tuple(record.get(one.name) for one in fields))
        except DataError:
            return ()

    def _upsert(self, records: Iterable[Record]) -> None:
        latest = self._latest(records)
        stored = self.find(self.table.name, self.table.key_positions, latest.keys()) if latest else {}
        for key, (_, row) in latest.items():
            old = list(stored.get(key, ()))
            if old != [row] and not (old and self._is_older(row, old[0])):
                self.changes += [(one, -1) for one in old] + ([] if row is None else [(row, 1)])

    def _latest(self, records: Iterable[Record]) -> dict[Row, tuple[Any, Row | None]]:
        """The last row of each key with its place in the sequence; None where the row is deleted."""
        found: dict[Row, tuple[Any, Row | None]] = {}
        for record in records:
            try:
                key, place, row = self._upserted(record)
                if key in found and self.options.sequence_by is None:
                    raise self._unordered(key)
                if key not in found or found[key][0] <= place:
                    found[key] = place, row
            except DataError as error:
                self.refuse(record, error)
        return found

    def _upserted(self, record: Record) -> tuple[Row, Any, Row | None]:
        """The key of a row, its place in the sequence, and the row itself unless it is deleted."""
        values, sequence = dict(record), self.options.sequence_by
        deleted, names = values.pop(DELETED, False), names_of(self.table.fields)
        place = values.get(sequence.lower()) if sequence else 0
        if place is None:
            raise BadValue(f'"{sequence}" is NULL', detail="The order of upserts goes by it.", where=self.table.name)
        if sequence and sequence.lower() not in names:
            del values[sequence.lower()]
        if deleted:
            key = self._readable_key(values)
            if not key:
                raise BadValue("the key of a row to delete is missing or cannot be read", where=self.table.name)
            return key, place, None
        row = row_coercer(self.table.fields, self.table.name)(values)
        if self.judge is not None:
            self.judge(row)
        self._note_place(row, record)
        return self._key(row), place, row

    def _is_older(self, row: Row | None, stored: Row) -> bool:
        """True if the stored row comes later in the sequence, where the table has its column."""
        names, sequence = names_of(self.table.fields), (self.options.sequence_by or "").lower()
        if row is None or sequence not in names:
            return False
        position = names.index(sequence)
        return stored[position] is not None and stored[position] > row[position]

    def _unordered(self, key: Row) -> BadValue:
        return BadValue(
            f"two rows of a batch have the key {key}, and nothing says which is the later",
            where=self.table.name,
            hint="Give sequence_by, a column that grows with every change of a row.",
        )


def set_orphans_aside(batch: Mapping[str, BatchRows], keys: Sequence[ForeignKey], find: KeyLookup) -> None:
    """Set rows aside whose parent is neither stored nor in the batch, and then those that refer to them."""
    while any(_without_orphans(batch, key, find) for key in keys):
        pass


def _without_orphans(batch: Mapping[str, BatchRows], key: ForeignKey, find: KeyLookup) -> bool:
    """Set aside the rows that violate ``key``; returns if there were any."""
    children = batch.get(key.child.name)
    if children is None:
        return False
    parents = batch[key.parent.name].changes if key.parent.name in batch else []
    moved = {tuple(row[place] for place in key.parent_places): weight for row, weight in _leaving_first(parents)}
    named = {_reference(key, row) for row, weight in children.changes if weight > 0}
    unknown = {one for one in named if None not in one and one not in moved}
    found = find(key.parent.name, key.parent_places, unknown) if unknown and not key.absent else {}
    held = children.changes
    children.changes = []
    for row, weight in held:
        reference = _reference(key, row)
        if weight < 0 or None in reference or reference in found or moved.get(reference, 0) > 0:
            children.changes.append((row, weight))
        else:
            children.refuse_orphan(row, missing_parent(key, row, reference))
    children.keep_replaced()
    return len(children.changes) < len(held)


def _reference(key: ForeignKey, row: Row) -> Row:
    return tuple(row[place] for place in key.child_places)


def _leaving_first(changes: Iterable[tuple[Row, int]]) -> list[tuple[Row, int]]:
    return sorted(changes, key=lambda one: one[1])
