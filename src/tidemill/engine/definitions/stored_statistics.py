"""Statistics of what is stored: rows and changes as the store counts them, and columns as they were analyzed.

A column is analyzed when a plan or ``ANALYZE`` asks for it, and again when much has changed since. The catalog keeps
the result, and stores it whenever it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TypeVar

from tidemill.compiler.statistics.column_values import NO_SHARES, ColumnStatistics, ValueShares
from tidemill.compiler.statistics.sizes import TOGETHER, Statistics
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.analyzed_columns import AnalyzedColumn
from tidemill.engine.definitions.count_values import count_values
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT, Table, names_of
from tidemill.model.types import Array, Field, Map, Struct, Void
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN
from tidemill.storage.store import Store

__all__ = [
    "MAX_COUNTED_ROWS",
    "analyze_relations",
    "counted_rows",
    "has_plain_values",
    "has_stored_rows",
    "shown_relations",
    "stored_statistics",
]

MAX_COUNTED_ROWS = 1_000_000
"""Largest relation, in rows, that is analyzed because a plan asks: a column takes some hundredths of a second."""


def stored_statistics(catalog: Catalog, store: Store) -> Statistics:
    """The statistics of all relations whose rows are kept."""
    kept = [name for name in (*catalog.tables, *catalog.views) if has_stored_rows(catalog, name)]
    return Statistics(
        _WhenAsked(kept, partial(counted_rows, catalog, store)),
        partial(_distinct, catalog, store),
        partial(_shares, catalog, store),
        _WhenAsked(kept, partial(_recent_changes, store)),
        partial(_span, catalog, store),
    )


Figure = TypeVar("Figure")


class _WhenAsked(Mapping[str, Figure]):
    """A figure of each relation, computed when it is asked for: a plan asks for few of them."""

    def __init__(self, names: Collection[str], figure: Callable[[str], Figure]) -> None:
        self._names = frozenset(names)
        self._figure = cache(figure)

    def __getitem__(self, name: str) -> Figure:
        if name not in self._names:
            raise KeyError(name)
        return self._figure(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def has_stored_rows(catalog: Catalog, name: str) -> bool:
    """True if the rows of a table or view are stored: not those of a stream, nor of a view that is computed on read."""
    table = catalog.tables.get(name)
    return not catalog.view(name).computed_on_read if table is None else table.kept


def shown_relations(catalog: Catalog) -> list[str]:
    """The tables, streams and views that users have created."""
    names = (*catalog.tables, *(view.name for view in catalog.shown_views()))
    return [name for name in names if SUBPLAN_SIGN not in name]


def counted_rows(catalog: Catalog, store: Store, name: str) -> int:
    """The rows of a relation. Those that it forgets are no changes, so that its stored rows are an upper bound then."""
    return store.rows(name) if catalog.entry(name).forgets else max(store.counts(name).rows, 0)


def _recent_changes(store: Store, name: str) -> float:
    """The rows of a relation that have changed lately, both of an updated one; one at least, for it may change."""
    inserted, updated, deleted = store.counts(name).recent_at(store.epoch)
    return max(inserted + 2 * updated + deleted, 1.0)


def _distinct(catalog: Catalog, store: Store, relation: str, column: str) -> int | None:
    found = _column(catalog, store, relation, column)
    return None if found is None else found.distinct


def _shares(catalog: Catalog, store: Store, relation: str, column: str) -> ValueShares:
    found = _column(catalog, store, relation, column)
    return NO_SHARES if found is None else found.shares


def _span(catalog: Catalog, store: Store, relation: str, column: str) -> float | None:
    """The microseconds between the first and the last instant of a column of times."""
    found = _column(catalog, store, relation, column)
    if found is None or found.least is None or found.greatest is None:
        return None
    least, greatest = (datetime.fromisoformat(bound) for bound in (found.least, found.greatest))
    return (greatest - least) / timedelta(microseconds=1)


def _column(catalog: Catalog, store: Store, relation: str, column: str) -> ColumnStatistics | None:
    """The statistics of a column: analyzed now if they are stale and the relation is not large, else as they were."""
    known = catalog.analyzed.get(relation, {}).get(column)
    if known is not None and not known.is_stale(store.counts(relation).changes):
        return known.statistics
    if store.rows(relation) > MAX_COUNTED_ROWS:
        return None if known is None else known.statistics
    entry = catalog.find(relation)  # one that a plan makes is not there yet
    fields = {} if entry is None else {field.name: field for field in entry.fields if has_plain_values(field)}
    names = (column,) if column in fields else tuple(column.split(TOGETHER))
    if not fields.keys() >= set(names):
        return None
    return _analyze(catalog, store, relation, [fields[name] for name in names]).statistics


def _analyze(catalog: Catalog, store: Store, relation: str, fields: Sequence[Field]) -> AnalyzedColumn:
    names = names_of(fields)
    found = count_values(store.read(relation, fields).select([*names, WEIGHT]))
    analyzed = AnalyzedColumn(found, store.epoch, store.counts(relation).changes)
    columns = {**catalog.analyzed.get(relation, {}), TOGETHER.join(names): analyzed}
    catalog.analyzed = {**catalog.analyzed, relation: columns}
    return analyzed


def has_plain_values(field: Field) -> bool:
    """True if the values of a column can be counted."""
    return not isinstance(field.type, Array | Map | Struct | Void)


def analyze_relations(
    state: EngineState, epochs: EpochCommitter, settled: Settled, names: Iterable[str]
) -> dict[str, int]:
    """Analyze all columns of relations, of all if none is named, and commit the result; returns their numbers by name.

    Each column is read whole, one at a time.
    """
    with settled():
        state.require_writable()
        relations = list(_analyzable(state.catalog, names))
        with epochs.changing_catalog() as catalog:
            analyzed = {}
            for name in relations:
                fields = [field for field in catalog.entry(name).fields if has_plain_values(field)]
                for field in fields:
                    _analyze(catalog, state.store, name, [field])
                analyzed[name] = len(fields)
            epochs.commit_catalog()
        return analyzed


def _analyzable(catalog: Catalog, names: Iterable[str]) -> Iterator[str]:
    """The relations to analyze, by their own names; one whose rows are not stored is refused if it is named."""
    asked = [catalog.entry(name) for name in names]
    for entry in asked:
        if not has_stored_rows(catalog, entry.name):
            kind = "The rows of a stream" if isinstance(entry, Table) else "The rows of this view"
            raise Unsupported(
                f'"{entry.name}" cannot be analyzed',
                detail=f"{kind} are not stored, so there is nothing to count.",
                hint="SHOW STATISTICS has what is known of it.",
            )
    found = (entry.name for entry in asked) if asked else iter(shown_relations(catalog))
    return (name for name in dict.fromkeys(found) if has_stored_rows(catalog, name))
