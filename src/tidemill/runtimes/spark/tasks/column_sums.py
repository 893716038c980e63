"""Triggers in a task as queries over columns: DuckDB joins a part of the change with the rows that it looks up.

Rows stay columns from the mapped files to the sums, which are few as a rule. A statement that has no translation, and
one that fails, is left to generated Python, which also says which row has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, integer_array
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.hashing import Hashes
from tidemill.changes.sorted_hashes import find_positions, index_rows, sought_hashes
from tidemill.model.types import Field
from tidemill.program.reads import read_maps
from tidemill.program.sharding import needs_whole_change
from tidemill.program.stages import Stage
from tidemill.program.statements import Add
from tidemill.runtimes.duckdb.answer import connected
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.duckdb.trigger_sums import Names, StatementSums, lower_statement, with_signs
from tidemill.runtimes.runtime import NotAnswered
from tidemill.runtimes.spark.tasks.partial_sums import TargetSums, add_sums
from tidemill.runtimes.spark.tasks.run_files import RunFiles

UsedFields = Callable[[str], tuple[Field, ...]]
"""Gives the columns of a relation that some stage of the job reads."""


class ColumnLookups:
    """Rows of relations by key, as columns: those in files, and those that were absorbed in this epoch.

    All stages look rows of a relation up with the columns that any of them reads. So most lookups are those that
    another stage has made, by the same columns of the same rows.
    """

    def __init__(self, files: RunFiles, fields_of: UsedFields) -> None:
        self._files = files
        self._fields_of = fields_of
        self._absorbed: dict[str, list[AbsorbedRows]] = {}
        self._found: dict[tuple[str, Names, int, Names], tuple[pa.Table, pa.Table]] = {}

    def absorb(self, relation: str, change: pa.Table) -> None:
        """Add a change to the rows that later lookups find."""
        self._absorbed.setdefault(relation, []).append(AbsorbedRows(change))
        self._found = {key: found for key, found in self._found.items() if key[0] != relation}

    def find(self, relation: str, by: Names, source: pa.Table, columns: Names) -> pa.Table:
        """The rows with the keys that are in ``columns`` of a table, and perhaps others (``trigger_sums.FindRows``)."""
        asked = (relation, by, id(source), columns)
        if asked not in self._found:
            # With the source, which keeps its number as long as it is here.
            self._found[asked] = source, with_signs(self._look_up(relation, by, source.select(columns)))
        return self._found[asked][1]

    def _look_up(self, relation: str, by: Names, keys: pa.Table) -> pa.Table:
        schema = arrow_schema(self._fields_of(relation))
        sought = pa.table(keys.columns, names=by).cast(pa.schema([schema.field(name) for name in by])) if by else None
        found = [absorbed.find(schema, sought) for absorbed in self._absorbed.get(relation, ())]
        return pa.concat_tables([self._files.find(relation, schema, sought), *found])


class AbsorbedRows:
    """A change that a relation has absorbed, with an index for each set of columns by which rows are looked up."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._entries: dict[Names, Hashes] = {}

    def find(self, schema: pa.Schema, keys: pa.Table | None) -> pa.Table:
        """Columns of the rows with one of ``keys``, and rarely of others; without keys of all rows."""
        rows = self._table.select(schema.names)
        if keys is None:
            return rows
        by = tuple(keys.column_names)
        if by not in self._entries:
            self._entries[by] = index_rows([rows.column(name) for name in by])
        return rows.take(integer_array(find_positions(self._entries[by], len(rows), sought_hashes(keys.columns))))


class ColumnSums:
    """The sums of triggers over columns, in one task."""

    def __init__(self, lookups: ColumnLookups, connection: Any | None) -> None:
        self.lookups = lookups
        self._connection = connection
        self._unknown: set[str] = set()
        """Maps to which this epoch has added what no query tells."""

    def with_signs(self, change: ChangeSet) -> pa.Table | None:
        """The rows of a change as queries read them; None if some occur so often that they cannot be listed, or if
        there is no DuckDB."""
        try:
            return None if self._connection is None else with_signs(change.arrow())
        except NotAnswered:
            return None

    def add(self, stage: Stage, relation: str, change: pa.Table | None, sums: TargetSums) -> set[str]:
        """Add the sums of a trigger for rows with signs, if any are given as such; returns the targets that generated
        Python has to add to."""
        left = set()
        for target, statements in _queries(stage, relation).items():
            try:
                if isinstance(statements, str) or change is None or self._reads_unknown(statements):
                    raise NotAnswered(target)
                found = [one.found(change, self.lookups.find, self._connection) for one in statements]
            except NotAnswered:
                left.add(target)
            else:
                for added in found:
                    add_sums(sums, {target: added})
        return left

    def _reads_unknown(self, statements: Iterable[StatementSums]) -> bool:
        return any(not self._unknown.isdisjoint(statement.relations) for statement in statements)

    def add_to_read_maps(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Add to the maps that triggers of a stage read what they add for all of a change."""
        signed = self.with_signs(change)
        for target in read_maps(stage) & _queries(stage, relation).keys():
            statements = _queries(stage, relation)[target]
            try:
                if isinstance(statements, str) or signed is None:
                    raise NotAnswered(target)
                for statement in statements:
                    self.lookups.absorb(target, statement.table(signed, self.lookups.find, self._connection))
            except NotAnswered:
                self._unknown.add(target)


@contextmanager
def column_sums(files: RunFiles, fields_of: UsedFields) -> Iterator[ColumnSums]:
    """The sums of a task, which has one core. Without DuckDB all of them are left to generated Python."""
    lookups = ColumnLookups(files, fields_of)
    if find_spec("duckdb") is None:
        yield ColumnSums(lookups, None)
        return
    with connected(threads=1) as connection:
        yield ColumnSums(lookups, connection)


def why_not_in_columns(stage: Stage) -> str:
    """The reason why some trigger of a stage is generated Python, for EXPLAIN; empty if all are queries."""
    if any(map(needs_whole_change, stage.triggers)):
        return "a change is joined with itself"
    statements = [found for trigger in stage.triggers for found in _queries(stage, trigger.relation).values()]
    reason = next((found for found in statements if isinstance(found, str)), "")
    return f"DuckDB is not asked for {reason}" if reason else ""


@lru_cache(maxsize=1024)
def _queries(stage: Stage, relation: str) -> dict[str, list[StatementSums] | str]:
    """The statements of a trigger as queries, by target; or what of them has no translation."""
    adds = [
        statement
        for trigger in stage.triggers
        if trigger.relation == relation
        for statement in trigger.statements
        if isinstance(statement, Add)
    ]
    found: dict[str, list[StatementSums] | str] = {}
    for target, statements in groupby(sorted(adds, key=attrgetter("target")), attrgetter("target")):
        try:
            found[target] = [lower_statement(stage, statement) for statement in statements]
        except NotLowered as reason:
            found[target] = str(reason)
    return found
