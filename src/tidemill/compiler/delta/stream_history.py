"""Stream history: maps of the rows of a stream that the triggers of a stage still need.

A stream keeps no rows. Where a trigger needs earlier rows, a map of the stage stores them, reduced to the columns
and rows that its loops use. A view that only sums a stream stores no rows of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.scalars import Column, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, substitute, walk
from tidemill.compiler.delta.nested_loops import narrow
from tidemill.compiler.delta.sum_pushdown import NO_SUMS, MemberSum, MemberSums
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.statements import Add, Query, RelationLoop, Step, Version


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """The rows of a stream that ``map`` holds: those that pass ``filters``, and the columns in use.

    Values that are not read row by row are held as ``sums``.
    """

    scan: Scan
    map: Map
    filters: tuple[Scalar, ...]
    sums: tuple[MemberSum, ...] = ()

    def growth(self) -> Add:
        """The statement that adds a change of the stream to the map."""
        fields = dict(zip((f.name for f in self.scan.columns), self.scan.fields, strict=True))
        keys = (Named(f.name, column(fields[f.name])) for f in self.map.keys)
        outputs = (*keys, *(Named(sum_.value.name, sum_.scalar) for sum_ in self.sums))
        source = RelationLoop(
            self.scan.relation, self.scan.alias, Version.CHANGE, self.scan.columns, filters=self.filters
        )
        return Add(self.map.name, narrow(Query((source,), outputs)))

    def equals(self, other: StreamHistory) -> bool:
        """True if both hold the same rows of the same stream, as the two sides of a self join often do."""
        return self._bare() == other._bare()

    def _bare(self) -> tuple[object, ...]:
        """The held rows and columns, without the alias."""
        bare = {f"{self.scan.alias}.{f.name}": Column(f.name, f.type, f.nullable) for f in self.scan.columns}
        filters = [substitute(condition, bare) for condition in self.filters]
        return self.scan.relation, self.map.keys, filters, [(s.value, substitute(s.scalar, bare)) for s in self.sums]


def find_histories(
    stage: str, body: Relation, queries: Sequence[Query], streams: Set[str], sums: MemberSums = NO_SUMS
) -> dict[str, StreamHistory]:
    """The history for each alias under which ``queries`` read the state of a stream, or only ``sums`` of it.

    Equal histories share one map. Its keys begin with the columns by which most loops look rows up: files are sorted by
    key, so the rows that such a lookup finds are adjacent.
    """
    histories: dict[str, StreamHistory] = {}
    for scan in walk(body):
        if isinstance(scan, Scan) and scan.relation in streams:
            readers = [query for query in queries if _loops([query], scan)]
            if readers:
                history = _history(stage, scan, readers, sums.get(scan.alias, ()))
                same = next((known for known in histories.values() if known.equals(history)), history)
                histories[scan.alias] = replace(history, map=same.map)
    sorted_ = {
        history.map.name: _entered_first(history.map, histories, queries) for history in histories_by_map(histories)
    }
    return {alias: replace(history, map=sorted_[history.map.name]) for alias, history in histories.items()}


def _entered_first(map_: Map, histories: Mapping[str, StreamHistory], queries: Sequence[Query]) -> Map:
    """The map with its keys ordered by the number of loops that look them up, unused ones last."""
    scans = [history.scan for history in histories.values() if history.map.name == map_.name]
    entries = Counter(tuple(n for n, _ in loop.lookup) for scan in scans for loop in _loops(queries, scan))
    ranked = [name for columns, _ in entries.most_common() for name in columns]
    return replace(map_, keys=tuple(sorted(map_.keys, key=lambda f: (*ranked, f.name).index(f.name))))


def histories_by_map(histories: Mapping[str, StreamHistory]) -> list[StreamHistory]:
    """For each map one history that it stores."""
    first: dict[str, StreamHistory] = {}
    for history in histories.values():
        first.setdefault(history.map.name, history)
    return list(first.values())


def read_from_history(query: Query, histories: Mapping[str, StreamHistory]) -> Query:
    """The query with each state of a stream read from its map, without the filters that the map has applied."""

    def moved(source: Step) -> Step:
        history = histories.get(source.alias)
        if history is None or not isinstance(source, RelationLoop) or source.version is Version.CHANGE:
            return source
        filters = tuple(f for f in source.filters if f not in history.filters)
        return replace(source, relation=history.map.name, filters=filters)

    return narrow(replace(query, sources=tuple(map(moved, query.sources))))


def _history(stage: str, scan: Scan, readers: Sequence[Query], sums: tuple[MemberSum, ...]) -> StreamHistory:
    """The history of one scan: filtered by the conditions of all readers, with the columns that any of them reads."""
    own = {f.name for f in scan.fields}
    first, *others = [[f for f in source.filters if columns_in(f) <= own] for source in _loops(readers, scan)]
    filters = tuple(f for f in first if all(f in other for other in others))
    whole = StreamHistory(
        scan, Map(f"{stage}:{scan.alias}", scan.columns, tuple(sum_.value for sum_ in sums)), filters, sums
    )
    rest = [read_from_history(query, {scan.alias: whole}) for query in readers]
    # A row needs at least one column to carry its weight through files and frames: one that is read, since an earlier
    # stage outputs no others.
    keys = _columns_read(rest, scan) or _columns_read(readers, scan)[:1] or _columns_summed(scan, sums)[:1]
    return replace(whole, map=replace(whole.map, keys=keys or scan.columns[:1]))


def _columns_summed(scan: Scan, sums: tuple[MemberSum, ...]) -> tuple[Field, ...]:
    """The columns of an earlier stage that are read for sums alone; a table has all of its columns anyway."""
    read = {name for sum_ in sums for name in columns_in(sum_.scalar)} if "/" in scan.relation else ()
    return tuple(f for f, own in zip(scan.columns, scan.fields, strict=True) if own.name in read)


def _columns_read(queries: Sequence[Query], scan: Scan) -> tuple[Field, ...]:
    read = {f.name for source in _loops(queries, scan) for f in source.columns}
    return tuple(f for f in scan.columns if f.name in read)


def _loops(queries: Sequence[Query], scan: Scan) -> list[RelationLoop]:
    """The loops over the state of ``scan``."""
    sources = (s for query in queries for s in query.sources if isinstance(s, RelationLoop) and s.alias == scan.alias)
    return [source for source in sources if source.version is Version.STATE]
