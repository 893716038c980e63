"""Statistics of tables, streams and views: what strategy ``auto`` plans by, for SHOW STATISTICS, Python and EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidemill.compiler.statistics.column_values import ColumnStatistics
from tidemill.engine.catalog.entries.analyzed_columns import AnalyzedColumn
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.stored_statistics import counted_rows, has_stored_rows, shown_relations
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.measures.map_statistics import MapStatistics, map_statistics
from tidemill.program.reads import sources_of
from tidemill.storage.change_counts import HALF_LIFE

__all__ = ["RelationStatistics", "relation_statistics", "statistics_text"]


@dataclass(frozen=True)
class RelationStatistics:
    """Statistics of a table, stream or view.

    ``rows`` and ``bytes`` are those stored, None where none are. ``inserted``, ``updated`` and ``deleted`` count rows
    since it was created, and ``epochs`` the epochs that changed it. The three rates are rows an epoch, lately.
    ``reads`` counts reads of all its rows and queries over it since the warehouse was opened, and ``subscribers`` are
    those of now. ``columns`` are those that were analyzed, and ``maps`` those that a view keeps, if it was asked for.
    """

    name: str
    kind: str
    rows: int | None = None
    bytes: int | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    epochs: int = 0
    insert_rate: float = 0.0
    update_rate: float = 0.0
    delete_rate: float = 0.0
    reads: int = 0
    subscribers: int = 0
    columns: Mapping[str, AnalyzedColumn] = field(default_factory=dict)
    maps: Mapping[str, MapStatistics] = field(default_factory=dict)

    def __str__(self) -> str:
        rates = [(self.insert_rate, "inserted"), (self.update_rate, "updated"), (self.delete_rate, "deleted")]
        lately = ", ".join(f"{rate:,.3g} {kind}" for rate, kind in rates if rate >= 0.001)
        known = [f"{name} {_column_text(one.statistics)}" for name, one in self.columns.items()]
        changes = [f"{lately} an epoch lately"] if lately else []
        rows = f"{self.name} {self.rows:,} rows" if self.rows is not None else f"{self.name}: rows are not stored"
        return "; ".join([", ".join([rows, *changes]), *known])


def _column_text(column: ColumnStatistics) -> str:
    values = f"{column.distinct:,} {'value' if column.distinct == 1 else 'values'}"
    nulls = f", {column.nulls / column.rows:.0%} NULL" if column.nulls else ""
    if not column.shares.frequent:
        return values + nulls
    value, count = column.frequent[0]
    return f"{values}{nulls}, {count / column.rows:.0%} {value}"


def relation_statistics(engine: Engine, *names: str) -> Iterator[RelationStatistics]:
    """The statistics of relations, of all if none is named; views that are named have those of their maps, too."""
    if not names:
        yield from (_statistics_of(engine, name) for name in shown_relations(engine.catalog))
    for entry in map(engine.catalog.entry, names):
        maps = map_statistics(engine.store, entry) if isinstance(entry, View) else ()
        yield replace(_statistics_of(engine, entry.name), maps={one.name: one for one in maps})


def _statistics_of(engine: Engine, name: str) -> RelationStatistics:
    catalog, store = engine.catalog, engine.store
    entry = catalog.entry(name)
    kind = "view" if isinstance(entry, View) else "stream" if catalog.is_stream(name) else "table"
    used = RelationStatistics(name, kind, reads=engine.reads[name], subscribers=engine.publisher.subscribers(name))
    if not has_stored_rows(catalog, name):
        return used
    counts = store.counts(name)
    inserts, updates, deletes = (count / _decayed_epochs(store.epoch) for count in counts.recent_at(store.epoch))
    return replace(
        used,
        rows=counted_rows(catalog, store, name),
        bytes=store.bytes(name),
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        epochs=counts.epochs,
        insert_rate=inserts,
        update_rate=updates,
        delete_rate=deletes,
        columns=catalog.analyzed.get(name, {}),
    )


def _decayed_epochs(epochs: int) -> float:
    """The number of epochs up to now, each counted as changes are that are as old.

    >>> round(_decayed_epochs(1), 3), round(_decayed_epochs(1_000_000))
    (1.0, 370)
    """
    ratio = 2 ** (-1 / HALF_LIFE)
    return (1 - ratio ** max(epochs, 1)) / (1 - ratio)


def statistics_text(engine: Engine, view: View) -> str:
    """The statistics of the inputs of a view, for EXPLAIN, with those of the columns that it looks up rows by."""
    loops = [loop for stage in view.program.stages for loop in sources_of(stage)]
    keys = {(loop.relation, column) for loop in loops for column, _ in loop.lookup}
    lines = []
    for one in (_statistics_of(engine, name) for name in view.inputs if name in engine.catalog):
        known = {name: column for name, column in one.columns.items() if (one.name, name) in keys}
        lines.append(str(replace(one, columns=known)))
    return "\n".join(lines)
