"""A change set: weighted rows of one relation, as Python pairs, Arrow or files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.alterations import Alteration
from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.run_end_encoding import decoded
from tidemill.changes.zset import Row, ZSet
from tidemill.model.clocks import is_clock
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field


class ChangeSet:
    """Weighted rows with fixed fields, held as Python pairs, as Arrow or as Parquet files, and converted on demand.

    Arrow may be run-end encoded: repeated columns are then decoded when plain ones are requested. A row may occur
    several times; its weight is the sum. The native runtime works on pairs, Spark on Arrow and files.

    >>> from tidemill.model import types as t
    >>> change = ChangeSet.of([(("ann",), 1), (("ann",), 1)], (Field("name", t.STRING),))
    >>> change.zset(), change.arrow().column_names
    (ZSet({('ann',): 2}), ['name', '_weight'])
    """

    # An epoch makes one for each map of each view: what it does not have is not set.
    _pairs: list[tuple[Row, int]] | None = None
    _table: pa.Table | None = None
    _encoded: Sequence[pa.Table] | None = None
    files: tuple[os.PathLike[str], ...] | None = None

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        pairs: list[tuple[Row, int]] | None = None,
        table: pa.Table | None = None,
        files: Sequence[os.PathLike[str]] | None = None,
        encoded: Sequence[pa.Table] | None = None,
        rows: int | None = None,
    ) -> None:
        self.fields = tuple(fields)
        if pairs is not None:
            self._pairs = pairs
            rows = len(pairs)
        elif table is not None:
            rows = table.num_rows
        if table is not None:
            self._table = table
        if files is not None:
            self.files = tuple(files)
        if encoded is not None:
            self._encoded = encoded
        self.rows: int = rows or 0
        """The number of rows, unsummed; zero means that nothing changed."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[Row, int]], fields: Sequence[Field]) -> ChangeSet:
        """From ``(row, weight)`` pairs; a Z-set's ``items()`` are such pairs."""
        return cls(fields, pairs=list(pairs))

    @classmethod
    def of_arrow(cls, table: pa.Table, fields: Sequence[Field]) -> ChangeSet:
        """From an Arrow table with exactly the columns of ``arrow_schema(fields)``."""
        return cls(fields, table=table)

    @classmethod
    def of_files(cls, files: Sequence[os.PathLike[str]], fields: Sequence[Field], rows: int) -> ChangeSet:
        """From Parquet files that a store has staged; they hold ``rows`` rows in all. Without any it is empty."""
        return cls(fields, files=files, rows=rows) if files else cls.of((), fields)

    @classmethod
    def of_encoded(cls, tables: Sequence[pa.Table], fields: Sequence[Field]) -> ChangeSet:
        """From Arrow tables, in each of which some columns may be run-end encoded (see ``run_end_encoding``)."""
        return cls(fields, encoded=tables, rows=sum(table.num_rows for table in tables))

    @property
    def is_python_only(self) -> bool:
        """True if the rows are held as Python tuples only: they were never converted to Arrow."""
        return self._pairs is not None and self._table is None

    @property
    def python_pairs(self) -> list[tuple[Row, int]] | None:
        """The rows with their weights, if they are held as Python tuples only."""
        return self._pairs if self._table is None else None

    def pairs(self) -> list[tuple[Row, int]]:
        """The rows with their weights, as they came: equal rows are not summed."""
        if self._pairs is None:
            self._pairs = from_arrow(self.arrow(), self.fields)
        return self._pairs

    def only_comes(self, most: int) -> bool:
        """True if no weight is negative, and none is greater than ``most``."""
        if self._pairs is not None:
            return all(0 < weight <= most for _, weight in self._pairs)
        bounds = [pc.min_max(weights) for weights in self._weights() if len(weights)]
        return all(one["min"].as_py() > 0 and one["max"].as_py() <= most for one in bounds)

    def has_deletions(self) -> bool:
        """True if a weight is negative; of files only the weights are read."""
        if self._pairs is not None:
            return any(weight < 0 for _, weight in self._pairs)
        return any(len(column) and pc.min(column).as_py() < 0 for column in self._weights())

    def _weights(self) -> list[pa.ChunkedArray]:
        """The weights; of files nothing else is read."""
        if self._table is None and self.files is not None:
            return [pq.read_table(file, columns=[WEIGHT]).column(WEIGHT) for file in self.files]
        return [self.arrow().column(WEIGHT)]

    def zset(self) -> ZSet:
        """The rows with their weights, summed."""
        return ZSet.summed(self.pairs())

    def arrow(self) -> pa.Table:
        """The rows as Arrow: the fields and then the weight."""
        encoded = self._encoded  # read first: another thread may be decoding
        if self._table is None:
            if self._pairs is not None:
                self._table = to_arrow(self._pairs, self.fields)
            elif encoded is not None:
                self._table = pa.concat_tables(map(decoded, encoded))
                self._encoded = None
            else:
                schema = arrow_schema(self.fields)
                parts = [pq.read_table(f, columns=schema.names).cast(schema) for f in self.files or ()]
                self._table = pa.concat_tables(parts) if parts else schema.empty_table()
        return self._table

    def encoded(self) -> Sequence[pa.Table]:
        """The rows as Arrow in their current form, which may be several tables with run-end encoded columns."""
        encoded = self._encoded
        return [self.arrow()] if encoded is None else encoded

    def negated(self) -> ChangeSet:
        """The change that undoes this one, in columns if this one is."""
        if self._pairs is None:
            table = self.arrow()
            place = table.schema.get_field_index(WEIGHT)
            return ChangeSet.of_arrow(
                table.set_column(place, table.schema.field(place), pc.negate(table.column(place))), self.fields
            )
        return ChangeSet.of(((row, -weight) for row, weight in self.pairs()), self.fields)

    def signed(self) -> tuple[ChangeSet, ChangeSet]:
        """The deleted rows, and the inserted rows."""
        leave = ChangeSet.of((pair for pair in self.pairs() if pair[1] < 0), self.fields)
        return leave, ChangeSet.of((pair for pair in self.pairs() if pair[1] > 0), self.fields)

    def __len__(self) -> int:
        return self.rows


def merge_changes(changes: Mapping[str, ChangeSet], more: Mapping[str, ChangeSet]) -> dict[str, ChangeSet]:
    """The sum of two sets of changes by name, in order."""
    found = {**changes, **more}
    for name in changes.keys() & more.keys():
        both = changes[name], more[name]
        found[name] = ChangeSet.of_arrow(pa.concat_tables([change.arrow() for change in both]), both[0].fields)
    return found


def deletes_before_inserts(changes: Mapping[str, ChangeSet]) -> list[tuple[str, ChangeSet]]:
    """The deletes of each relation, then the inserts of each. In between clocks advance, which stand at all times."""
    signed = {relation: change.signed() for relation, change in changes.items() if not is_clock(relation)}
    clocks = [(relation, change) for relation, change in changes.items() if is_clock(relation)]
    deletes, inserts = ([(relation, parts[turn]) for relation, parts in signed.items()] for turn in (0, 1))
    return [*deletes, *clocks, *inserts]


@dataclass(slots=True)
class Epoch:
    """All that one epoch commits atomically.

    ``changes`` go by the name of the map they add to (tables, views, stages and their maps alike). ``catalog`` is the
    new catalog if it changed, ``positions`` are the source positions after it, ``dropped`` the maps that end here and
    ``replaced`` those whose former content the change replaces (a view that was rebuilt). ``altered`` are changes of
    the columns of maps, whose rows stay as they are stored, and ``renamed`` are the new names of maps.
    """

    number: int
    changes: Mapping[str, ChangeSet] = field(default_factory=dict)
    positions: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, object] | None = None
    dropped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    altered: Mapping[str, tuple[Alteration, ...]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
