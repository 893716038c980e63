"""Lookups of a walk: lists and single entries, as early as possible, and each once for a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.program.stages import Stage
from tidemill.program.statements import Query, RelationLoop, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import NULL_POINTER, NullableValue
from tidemill.runtimes.native.llvm.containers.slices import ListSlice
from tidemill.runtimes.native.llvm.queries import ChangeRow, MapGlobal, ModuleMaps, QueryCode, index_of
from tidemill.runtimes.native.llvm.scalars.conversions import to_stored

LookupResult: TypeAlias = ListSlice | ir.Value
"""A list, or the entry of a whole key (null where there is none)."""

LookupColumns = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A map, columns of it, and the columns of the row that they are looked up by."""


class LookupCode(QueryCode):
    """A query that looks up by columns. ``known`` has what queries of the same row have looked up before it."""

    def __init__(
        self,
        frame: FunctionFrame,
        stage: Stage,
        maps: ModuleMaps,
        query: Query,
        row: ChangeRow | None,
        known: dict[LookupColumns, LookupResult],
    ) -> None:
        super().__init__(frame, stage, maps, query, row)
        self._known_lookups = known
        self._found: dict[str, LookupResult] = {}

    def _look_up_by_row(self) -> None:
        """Look up what the row itself leads to, unless a walk before has done so."""
        for step in self._query.sources:
            lookup = self._by_row(step)
            if lookup is not None and lookup not in self._known_lookups and self._row is not None:
                name, index, columns = lookup
                types = {f.name: f.type for f in self._maps[name].map.keys}
                pairs = zip(index, columns, strict=True)
                keys = [to_stored(self._builder, self._row.cells[column], types[key]) for key, column in pairs]
                self._known_lookups[lookup] = self._look_up(self._maps[name], index, keys)

    def _by_row(self, step: object) -> LookupColumns | None:
        """The lookup of a plain source by columns of the row alone."""
        if not isinstance(step, RelationLoop) or step.version is not Version.STATE or not self._is_plain(step):
            return None
        rows = [s for s in self._query.sources if isinstance(s, RelationLoop) and s.version is Version.CHANGE]
        columns = {f"{row.alias}.{f.name}": f.name for row in rows for f in row.columns}
        index, sought = index_of(step, self._maps[step.relation].map), dict(step.lookup)
        scalars = [sought[name] for name in index]
        names = [columns[s.name] for s in scalars if isinstance(s, Column) and s.name in columns]
        return (step.relation, index, tuple(names)) if len(names) == len(index) else None

    def _is_plain(self, source: RelationLoop) -> bool:
        """True if a source is looked up by columns as they are, of which nothing must be computed."""
        held = self._maps[source.relation]
        types = {f.name: f.type for f in held.map.keys}
        index = index_of(source, held.map)
        plain = all(isinstance(scalar, Column) and scalar.type == types[name] for name, scalar in source.lookup)
        return plain and bool(index) and (len(index) == len(types) or held.code.lists(index) is not None)

    def _find(self, source: RelationLoop) -> LookupResult:
        """The list, or the one entry, that a plain source is about; looked up now, unless it was before."""
        lookup = self._by_row(source)
        if source.alias in self._found:
            return self._found[source.alias]
        if lookup is not None and lookup in self._known_lookups:
            return self._known_lookups[lookup]
        builder, held = self._builder, self._maps[source.relation]
        index, types = index_of(source, held.map), {f.name: f.type for f in held.map.keys}
        cells = {
            name: to_stored(builder, self._expressions.cell(scalar), types[name]) for name, scalar in source.lookup
        }
        return self._look_up(held, index, [cells[name] for name in index])

    def _look_up(self, held: MapGlobal, index: tuple[str, ...], keys: Sequence[NullableValue]) -> LookupResult:
        builder, lists = self._builder, held.code.lists(index)
        handle = held.handle(builder)
        return held.code.find(builder, handle, keys) if lists is None else held.code.slice(builder, handle, lists, keys)

    def _is_there(self, found: LookupResult) -> ir.Value:
        if isinstance(found, ListSlice):
            return self._builder.icmp_unsigned("!=", found.rows, number(0))
        return self._builder.icmp_unsigned("!=", found, NULL_POINTER)
