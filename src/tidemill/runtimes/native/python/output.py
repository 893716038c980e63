"""Output operators as Python: the functions that they need are written, and bound once they are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Scalar, column
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import TopK
from tidemill.model.schema import names_of
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.stages import (
    Emission,
    GroupEmission,
    IterationEmission,
    MultisetRead,
    PartitionEmission,
    SessionEmission,
    TimePartitionEmission,
)
from tidemill.runtimes.native.operators.groups import GroupOutput, OutputOperator, StoredRowOutput
from tidemill.runtimes.native.operators.match import MatchOutput
from tidemill.runtimes.native.operators.multisets import MultisetAggregate, MultisetGroupOutput
from tidemill.runtimes.native.operators.partitions import PartitionOutput
from tidemill.runtimes.native.operators.topk import TopKOutput
from tidemill.runtimes.native.operators.windows import WindowOutput
from tidemill.runtimes.native.python.function_writer import ModuleWriter, Namespace
from tidemill.runtimes.native.python.map_entries import write_changed_rows, write_finish
from tidemill.runtimes.native.python.match import MatchWriter
from tidemill.runtimes.native.python.row_functions import (
    sort_key_width,
    total_order,
    write_output_row,
    write_sort_key,
)
from tidemill.runtimes.native.python.windows import WindowWriter
from tidemill.runtimes.native.state.indexes import values_at

BindOutput = Callable[[Namespace], OutputOperator]
"""Creates an operator from its compiled functions."""


def write_output(module: ModuleWriter, finish: Emission, maps: Mapping[str, Map]) -> BindOutput:
    """Write the functions that compute output rows from maps."""
    if isinstance(finish, PartitionEmission):
        return _write_partitions(module, finish, maps[finish.source])
    if isinstance(finish, IterationEmission | TimePartitionEmission):
        return _write_kept(module, finish, maps[finish.kept])
    if isinstance(finish, SessionEmission):
        return write_output(module, finish.groups, maps)
    name = module.known.function("finish")
    module.add(name, write_finish(name, finish, maps[finish.source], module.known))
    manner = {"always": finish.always, "repeats": finish.times is not None}
    if not finish.multiset_reads:
        changed = module.known.function("changed_rows")
        rows = write_changed_rows(changed, finish, maps[finish.source], module.known)
        if rows is not None:
            module.add(changed, rows)
        return lambda space: GroupOutput(finish.source, space[name], space.get(changed), **manner)
    width = len(maps[finish.source].keys)
    places: dict[tuple[str, tuple[SortOrder, ...]], str] = {}
    multisets = [_write_multiset(module, read, maps[read.map], width, places) for read in finish.multiset_reads]
    return lambda space: MultisetGroupOutput(
        finish.source, space[name], [multiset(space) for multiset in multisets], **manner
    )


def _write_kept(module: ModuleWriter, finish: IterationEmission | TimePartitionEmission, kept: Map) -> BindOutput:
    name = module.known.function("finish")
    shown = GroupEmission(kept.name, finish.outputs, finish.condition)
    module.add(name, write_finish(name, shown, kept, module.known))
    return lambda space: StoredRowOutput(kept.name, space[name])


def _write_multiset(
    module: ModuleWriter,
    read: MultisetRead,
    map_: Map,
    width: int,
    places: dict[tuple[str, tuple[SortOrder, ...]], str],
) -> Callable[[Namespace], MultisetAggregate]:
    """Write the functions of an aggregate; several aggregates over one multiset in one order share them."""
    first = (SortOrder(column(map_.keys[width + 1])),) if function_of(read.call).by_second else ()
    if (map_.name, first) not in places:
        places[map_.name, first] = _write_order(module, map_, total_order(map_.keys, width, first))
    place = places[map_.name, first]
    seen = values_at(_positions(read.call.scalars, map_.keys))
    single = map_.end is not None
    return lambda space: MultisetAggregate(map_.name, width, space[place], read.call, seen, single)


def _write_partitions(
    module: ModuleWriter, parts: PartitionEmission, map_: Map
) -> Callable[[Namespace], PartitionOutput]:
    rows = parts.rows
    place = _write_order(module, map_, total_order(map_.keys, parts.width, rows.order))
    shown = module.known.function("shown")
    module.add(shown, write_output_row(shown, parts, module.known))
    if isinstance(rows, TopK):
        terms = sort_key_width(rows.order)
        return lambda space: TopKOutput(map_.name, rows, space[place], space[shown], terms, parts.kept_rows)
    if isinstance(rows, Match):
        matching = MatchWriter(module, rows, map_)
        return lambda space: MatchOutput(map_.name, parts.width, space[place], space[shown], matching.bind(space))
    windowing = WindowWriter(module, rows, map_)
    return lambda space: WindowOutput(map_.name, parts.width, space[place], space[shown], *windowing.bind(space))


def _write_order(module: ModuleWriter, map_: Map, order: Sequence[SortOrder]) -> str:
    name = module.known.function(f"place_in_{map_.name}")
    module.add(name, write_sort_key(name, map_.name, map_.keys, order, module.known))
    return name


def _positions(scalars: Sequence[Scalar], fields: Sequence[Field]) -> list[int]:
    """The positions of columns in a row; in multisets and partitions all expressions are columns."""
    names = list(names_of(fields))
    return [names.index(scalar.name) for scalar in scalars if isinstance(scalar, Column)]
