"""Queries that read tables and views by their keys: rows are found by lookup, the query is computed over these alone.

The lookup only replaces the contents of a table by those of its rows that can contribute. What the query means is
defined elsewhere, so conditions are tested again on the rows that were found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.analysis.key_bounds import BoundedScan, Values, key_bounds
from tidemill.compiler.passes import compile_view
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.epochs.state import EngineState
from tidemill.model.types import Field
from tidemill.runtimes.runtime import KeyLookup

__all__ = ["KeyedRelation", "answer_by_keys", "keyed_reads", "keyed_relation"]

FEW_ROWS = 200
"""Number of rows up to which the evaluator answers sooner than a query can be compiled."""


def answer_by_keys(
    state: EngineState,
    relation: Relation,
    read: Set[str],
    lookup: KeyLookup | None = None,
    changed: Set[str] = frozenset(),
) -> ChangeSet | None:
    """The rows of a query that reads all large tables by key; None if it must scan what this process should not.

    ``read`` are the relations that it reads. The cost is that of the rows found, and of the relations scanned beside.
    ``lookup`` finds rows, by default those that are stored; relations in ``changed`` differ from what is stored.
    """
    catalog, pushed = state.catalog, push_down_filters(relation)
    tables = keyed_reads(state, pushed, read, stored=lookup is None, changed=changed)
    if not tables:
        return None
    scanned = read - tables.keys()
    found = _find(lookup or state.placement.lookup, pushed, tables)
    if found is None:
        return None
    if not scanned and sum(map(len, found.values())) <= FEW_ROWS:
        rows = evaluate(pushed, {name: ZSet(dict.fromkeys(rows, 1)) for name, rows in found.items()})
        return ChangeSet.of(rows.items(), relation.fields)
    program = compile_view("query", relation, catalog.tables, strategy="recompute")
    given = {name: ChangeSet.of([(row, 1) for row in rows], tables[name].fields) for name, rows in found.items()}
    return state.placement.native.answer(program, given)


def keyed_reads(
    state: EngineState, pushed: Relation, read: Set[str], *, stored: bool = True, changed: Set[str] = frozenset()
) -> dict[str, KeyedRelation]:
    """The relations of which a query, with its filters ``pushed`` down, reads rows by key alone; empty if others of
    those that it ``read``s should not be scanned by this process. Rows of views are found if those ``stored`` are."""
    catalog = state.catalog
    keyed = {name: one for name in read if (one := keyed_relation(catalog, name)) is not None}
    if not stored or state.placement.lookup is not state.placement.native:
        keyed = {name: one for name, one in keyed.items() if name in catalog.tables}
    tables = bounded_tables(pushed, keyed)
    scanned = read - tables.keys()
    computed = any(name in catalog.views and catalog.views[name].computed_on_read for name in scanned)
    if computed or not scanned.isdisjoint(changed):
        return {}
    on_spark = bool(scanned) and state.placement.is_on_spark(sum(map(state.store.rows, scanned)))
    return {} if on_spark else tables


class KeyedRelation(NamedTuple):
    """A table or view whose rows are known by a key."""

    primary_key: tuple[str, ...]
    key_positions: tuple[int, ...]
    fields: tuple[Field, ...]


_KNOWN: WeakKeyDictionary[Catalog, dict[str, KeyedRelation | None]] = WeakKeyDictionary()
"""Keys by the catalog that they were found in: a catalog does not change."""


def keyed_relation(catalog: Catalog, name: str) -> KeyedRelation | None:
    """The key of a table, or of a view that is stored; None if it has none."""
    known = _KNOWN.setdefault(catalog, {})
    if name not in known:
        known[name] = _keyed(catalog, name)
    return known[name]


def _keyed(catalog: Catalog, name: str) -> KeyedRelation | None:
    table, view = catalog.tables.get(name), catalog.views.get(name)
    if table is not None and table.kept and table.primary_key:
        return KeyedRelation(tuple(table.primary_key), table.key_positions, table.fields)
    if view is None or view.computed_on_read or catalog.is_in_lake(name):
        return None
    places = key_of_view(view, catalog)
    if not places:
        return None
    return KeyedRelation(tuple(view.fields[place].name for place in places), places, view.fields)


def bounded_tables(relation: Relation, tables: Mapping[str, KeyedRelation]) -> dict[str, KeyedRelation]:
    """Those of ``tables`` that ``relation`` reads by primary key alone, wherever it reads them.

    A row found by key bounds those that it is joined with, whatever its values are: here they are left open.
    """
    keys = {name: table.primary_key for name, table in tables.items()}
    while True:
        scans = _followed(relation, keys, lambda one: [])
        free = {scan.relation for scan, rows in scans if rows is None}
        if not free:
            return {name: tables[name] for name in keys}
        keys = {name: key for name, key in keys.items() if name not in free}


def _find(lookup: KeyLookup, relation: Relation, tables: Mapping[str, KeyedRelation]) -> dict[str, list[Row]] | None:
    """The rows of ``tables`` that can contribute to ``relation``, each once; None if there are too many keys."""

    def find(one: BoundedScan) -> list[Row]:
        name = one.scan.relation
        by_key = lookup.find(name, tables[name].key_positions, one.keys) if one.keys else {}
        return [row for key in sorted(by_key) for row in by_key[key]]

    found: dict[str, dict[Row, None]] = {name: {} for name in tables}
    for scan, rows in _followed(relation, {name: table.primary_key for name, table in tables.items()}, find):
        if rows is None:
            return None
        found[scan.relation].update(dict.fromkeys(rows))
    return {name: list(rows) for name, rows in found.items()}


def _followed(
    relation: Relation, keys: Mapping[str, Sequence[str]], find: Callable[[BoundedScan], list[Row]]
) -> list[tuple[Scan, list[Row] | None]]:
    """Each scan with its rows, from those that constants bound to those that rows found before do; None if nothing."""
    found: dict[int, list[Row]] = {}
    known: dict[str, Values] = {}
    while True:
        scans = key_bounds(relation, keys, known)
        new = [place for place, one in enumerate(scans) if one.keys is not None and place not in found]
        for place in new:
            rows = found[place] = find(scans[place])
            known.update(_column_values(scans[place].scan, rows))
        if not new:
            return [(one.scan, found.get(place)) for place, one in enumerate(scans)]


def _column_values(scan: Scan, rows: Sequence[Row]) -> dict[str, Values]:
    """The values that each column of a scan can have."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(scan.fields)
    return {field.name: frozenset(values) for field, values in zip(scan.fields, columns, strict=True)}
