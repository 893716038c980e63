"""Prefetch paths: the lists that the first item of a list leads to, requested before the event is taken in.

A walk goes on from there; and where the row is new, so does what it brings to life (see ``liveness``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.program.statements import Add, Query, RelationLoop, Trigger, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import number
from tidemill.runtimes.native.llvm.codegen.layout import NullableValue
from tidemill.runtimes.native.llvm.codegen.prefetch import prefetch
from tidemill.runtimes.native.llvm.joingraph.liveness import Liveness
from tidemill.runtimes.native.llvm.maps.map_code import IndexColumns
from tidemill.runtimes.native.llvm.queries import MapGlobal, index_of


@dataclass(frozen=True, slots=True)
class PrefetchPath:
    """From ``columns`` of a row to a list of the map ``first``, and from ``keys`` of its items to one of ``then``.

    With ``record`` the record of the item is needed, too.
    """

    first: str
    index: IndexColumns
    columns: tuple[str, ...]
    then: str
    further: IndexColumns
    keys: tuple[str, ...]
    record: bool = False

    def prefetch(
        self, builder: ir.IRBuilder, maps: Mapping[str, MapGlobal], cells: Mapping[str, NullableValue], *, items: bool
    ) -> None:
        """Ask for the slot of the second list, or once that is there for its items; the first is there by now."""
        held, other = maps[self.first], maps[self.then]
        lists, further = held.code.lists(self.index), other.code.lists(self.further)
        assert lists is not None
        assert further is not None
        sought = [cells[column].value for column in self.columns]
        handle = held.handle(builder)
        with lists.probable_list(builder, handle, sought) as found:
            names = [f.name for f in held.map.keys]
            keys = [found.key(builder, number(0), names.index(key)).value for key in self.keys]
            fetch = further.prefetch_items if items else further.prefetch_slot
            fetch(builder, other.handle(builder), keys)
            if self.record and not items:
                prefetch(builder, held.code.record(builder, handle, found.load(builder, number(0), "id")))


def walk_paths(trigger: Trigger, maps: Mapping[str, MapGlobal]) -> list[PrefetchPath]:
    """The ways of two steps that walks from a row of ``trigger`` take."""
    queries = [statement.query for statement in trigger.statements if isinstance(statement, Add)]
    return list(dict.fromkeys(path for query in queries for path in _query_paths(query, maps)))


def revival_paths(trigger: Trigger, maps: Mapping[str, MapGlobal], liveness: Liveness) -> list[PrefetchPath]:
    """The ways from a row of ``trigger`` to what may have waited for it: items of lists, which are found by records."""
    found = []
    for statement in trigger.statements:
        if isinstance(statement, Add) and statement.target in maps:
            own = _given(statement, maps[statement.target])
            for continuation, branch in liveness.waiting_for(statement.target):
                columns = [own[key] for key, _ in branch.pairs if key in own]
                if len(columns) == len(branch.pairs):
                    back = (continuation.map, branch.back, tuple(columns))
                    found.append(
                        PrefetchPath(*back, continuation.map, continuation.index, continuation.index, record=True)
                    )
    return list(dict.fromkeys(found))


def _given(statement: Add, held: MapGlobal) -> dict[str, str]:
    """The key columns of a map that are columns of the row that is added to it, as they are."""
    rows = [s for s in statement.query.sources if isinstance(s, RelationLoop) and s.version is Version.CHANGE]
    columns = {f"{row.alias}.{f.name}": f for row in rows for f in row.columns}
    given = {}
    for key, output in zip(held.map.keys, statement.query.outputs, strict=False):
        if isinstance(output.scalar, Column) and output.scalar.name in columns and output.scalar.type == key.type:
            given[key.name] = columns[output.scalar.name].name
    return given


def _query_paths(query: Query, maps: Mapping[str, MapGlobal]) -> Iterator[PrefetchPath]:
    sources = [step for step in query.sources if isinstance(step, RelationLoop)]
    rows = [source for source in sources if source.version is Version.CHANGE]
    lists = [source for source in sources if source.version is Version.STATE and _has_lists(source, maps)]
    for first in lists:
        by = _columns(first, rows, maps)
        for then in lists:
            keys = _columns(then, [first], maps)
            if by and keys:
                one, other = (index_of(source, maps[source.relation].map) for source in (first, then))
                yield PrefetchPath(first.relation, one, by, then.relation, other, keys)


def _has_lists(source: RelationLoop, maps: Mapping[str, MapGlobal]) -> bool:
    return (
        bool(source.lookup)
        and source.relation in maps
        and maps[source.relation].code.lists(index_of(source, maps[source.relation].map)) is not None
    )


def _columns(source: RelationLoop, known: list[RelationLoop], maps: Mapping[str, MapGlobal]) -> tuple[str, ...] | None:
    """The columns of one of ``known`` that ``source`` is looked up by, as they are."""
    columns = {f"{other.alias}.{f.name}": f for other in known for f in other.columns}
    types = {f.name: f.type for f in maps[source.relation].map.keys}
    sought = dict(source.lookup)
    found = []
    for name in index_of(source, maps[source.relation].map):
        scalar = sought[name]
        if not isinstance(scalar, Column) or scalar.name not in columns or scalar.type != types[name]:
            return None
        found.append(columns[scalar.name].name)
    return tuple(found)
