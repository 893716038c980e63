"""Heads of sources: how far each source of a table has come, where LATENESS is declared BY a column that names it.

A source, such as a device or a partition of a log, is late by its own clock: a change is compared with the latest time
of its source before the epoch. What the whole table does not retain is late whatever the source, so a source that has
fallen that far behind needs no head, and those that are kept are the ones that have come within RETAIN.

Heads are in microseconds, and stored among the positions in a fixed number of slots, by a hash of the source: a commit
writes the slots of the sources that have moved.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Partitioning
from tidemill.storage.commits.position_history import WITHOUT_HISTORY

__all__ = ["SOURCE_HEADS", "RowSources", "SourceHeads", "reset_source_heads"]

SOURCE_HEADS = f"{WITHOUT_HISTORY}source-heads:"
"""Prefix of the positions that store the heads of sources, followed by the number of the slot and the table."""

SLOTS = 256

Source = str | int | None
"""The value that names a source; rows in which it is NULL are a source of their own."""


def reset_source_heads(table: str, positions: Iterable[str]) -> dict[str, str]:
    """The positions that forget the heads of the sources of ``table``, of those that there are."""
    return {
        name: ""
        for name in positions
        if name.startswith(SOURCE_HEADS) and name.removeprefix(SOURCE_HEADS).partition(":")[2] == table
    }


@dataclass
class SourceHeads:
    """The heads of the sources of a table, as they are stored in ``positions``."""

    table: str
    positions: Mapping[str, str]

    def head_of(self, source: Source) -> int | None:
        """The latest time of a source, in microseconds since 1970; None if it has none that matters.

        >>> heads = SourceHeads("s", {})
        >>> SourceHeads("s", heads.moved({"a": 70, None: 90}, retained=None)).head_of("a")
        70
        """
        key = _key(source)
        return self._slot(_position(self.table, key)).get(key)

    def moved(self, latest: Mapping[Source, int], retained: int | None) -> dict[str, str]:
        """The positions that store these heads; those before the first instant that is retained are left out."""
        slots: dict[str, dict[str, int]] = {}
        for source, head in latest.items():
            key = _key(source)
            position = _position(self.table, key)
            slots.setdefault(position, self._slot(position))[key] = head
        return {position: _text(heads, retained) for position, heads in slots.items()}

    def _slot(self, position: str) -> dict[str, int]:
        text = self.positions.get(position, "")
        return json.loads(text) if text else {}


def _key(source: Source) -> str:
    return json.dumps(source)


def _position(table: str, key: str) -> str:
    return f"{SOURCE_HEADS}{zlib.crc32(key.encode()) % SLOTS}:{table}"


def _text(heads: Mapping[str, int], retained: int | None) -> str:
    return json.dumps({key: head for key, head in heads.items() if retained is None or head > retained})


@dataclass(frozen=True)
class RowSources:
    """The sources of the rows of a change: ``values`` has each once, ``places`` the place of each row's among them."""

    values: list[Source]
    places: pa.Array

    @classmethod
    def of(cls, change: ChangeSet, place: int) -> RowSources:
        """The sources by the column at ``place``. Of files only that column is read."""
        field = change.fields[place]
        if change.is_python_only:
            column = pa.chunked_array([pa.array([row[place] for row, _ in change.pairs()])])
        elif change.files is not None:
            column = pa.concat_tables(pq.read_table(file, columns=[field.name]) for file in change.files)[field.name]
        else:
            column = change.arrow().column(field.name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        return cls(coded.dictionary.to_pylist(), coded.indices)

    def accepted_from(self, heads: SourceHeads, cut: Partitioning, least: int) -> pa.Array:
        """For each row the first instant from which on its source is not late, but at the earliest ``least``."""
        assert cut.lateness is not None
        unit, known = cut.head_unit, (heads.head_of(source) for source in self.values)
        firsts = [least if head is None else max(head // unit * unit - cut.lateness, least) for head in known]
        return pa.array(firsts, pa.int64()).take(self.places)

    def latest(self, heads: SourceHeads, times: pa.Array, unit: int) -> Iterator[tuple[Source, int]]:
        """The sources whose heads move on by rows with these times, or none, and where they are then."""
        rows = pa.table({"source": self.places, "at": times}).group_by("source").aggregate([("at", "max")])
        for place, at in zip(rows["source"].to_pylist(), rows["at_max"].to_pylist(), strict=True):
            if at is not None:
                source, head = self.values[place], at // unit * unit
                before = heads.head_of(source)
                if before is None or head > before:
                    yield source, head


def without(times: pa.ChunkedArray | pa.Array, fits: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The times of rows that fit, and NULL for the others."""
    found = pc.if_else(fits, times, pa.scalar(None, pa.int64()))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
