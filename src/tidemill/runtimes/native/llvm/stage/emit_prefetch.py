"""Prefetching for a block of rows: the memory that they will need is requested before they are taken in.

A row finds its way through maps that do not fit the cache, one miss after the other. The misses of different rows do
not wait for each other: so before a block of rows is taken in, the addresses are computed that they lead to, and the
machine is told to fetch them. Nothing depends on it: an address that has moved by the time a row comes costs time.

There are two passes. The first requests the slots of hash tables, by the hashes of what is computed from a row. Where a
slot holds only a pointer, it goes on a list, and the second pass reads those slots, which are in the cache by then, and
requests the memory that they point to. Keys that only another map gives are not prefetched; but in join graphs the
first item of a list that a row leads to gives the next step of its walk, and the items that it may revive: two more
passes request these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Scalar, column
from tidemill.algebra.relational.walk import columns_in, substitute
from tidemill.program.statements import Add, MapRead, MapSeek, Query, RelationLoop, Trigger, Version
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, count_up, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame
from tidemill.runtimes.native.llvm.codegen.layout import I8, NullableValue, at
from tidemill.runtimes.native.llvm.codegen.prefetch import Prefetcher
from tidemill.runtimes.native.llvm.io.input_rows import INPUT_TABLE, load_cell
from tidemill.runtimes.native.llvm.joingraph.liveness import Liveness
from tidemill.runtimes.native.llvm.joingraph.prefetch_paths import revival_paths, walk_paths
from tidemill.runtimes.native.llvm.maps.table_reader import TableGlobal
from tidemill.runtimes.native.llvm.queries import MapGlobal, ModuleTables
from tidemill.runtimes.native.llvm.scalars.conversions import to_stored
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions, may_fail
from tidemill.runtimes.native.llvm.stage.stage_code import StageInput

PREFETCH_ROWS = 32
"""Rows of a block: their cache lines fit the smaller caches, and each pass waits for memory once."""

KnownKeys = tuple[tuple[str, Scalar], ...]
"""Key columns of a map, each with what it will equal: a column of the row, or what is computed from some of them."""


def emit_prefetch(
    begin: Callable[[], FunctionFrame],
    inputs: Sequence[StageInput],
    maps: Mapping[str, MapGlobal],
    tables: ModuleTables,
    liveness: Liveness | None,
) -> ir.Function | None:
    """``ahead(start, stop, order, tables)``: prefetch for rows that will be taken in; None where nothing is known.

    ``begin`` begins that function. ``liveness`` knows the dead items of the stage's walks, which rows may revive.
    """
    held: Mapping[str, MapGlobal | TableGlobal] = {**maps, **tables}
    known = {input_.number: _largest(list(dict.fromkeys(_accesses(input_.trigger, held)))) for input_ in inputs}
    if not any(known.values()):
        return None
    paths = {input_.number: walk_paths(input_.trigger, maps) for input_ in inputs}
    if liveness is not None:
        for input_ in inputs:
            paths[input_.number] += revival_paths(input_.trigger, maps, liveness)
    frame = begin()
    frame.function.attributes.add("noinline")
    builder, arguments = frame.builder, frame.function.args
    most = max(sum(held[name].code.pointers for name, _ in accesses) for accesses in known.values())
    prefetcher = Prefetcher(builder, PREFETCH_ROWS * most)

    def prefetch_row(input_: StageInput, columns: IRValue, row: IRValue) -> None:
        _prefetch_row(frame, input_, known[input_.number], columns, row, held, prefetcher)

    _each_event(builder, arguments, inputs, prefetch_row)
    prefetcher.request_pointees()
    for items in (False, True) if any(paths.values()) else ():

        def go_on(input_: StageInput, columns: IRValue, row: IRValue, items: bool = items) -> None:
            for path in paths[input_.number]:
                cells = _cells(builder, input_, path.columns, columns, row)
                path.prefetch(builder, maps, cells, items=items)

        _each_event(builder, arguments, inputs, go_on)
    frame.done()
    return frame.function


def _each_event(
    builder: ir.IRBuilder,
    arguments: tuple[IRValue, ...],
    inputs: Sequence[StageInput],
    do: Callable[[StageInput, IRValue, IRValue], None],
) -> None:
    """Run what ``do`` emits for each event of a block, given its input, the columns of that and the row."""
    start, stop, order, tables = arguments
    own = {input_.number: at(builder, tables, input_.number * INPUT_TABLE.size) for input_ in inputs}
    nexts = {of: Local(builder, INPUT_TABLE.load(builder, table, "next")) for of, table in own.items()}
    with count_up(builder, start, stop) as place:
        after = builder.append_basic_block("after")
        switch = builder.switch(builder.load(at(builder, order, place), typ=I8), after)
        for input_ in inputs:
            block = builder.append_basic_block(f"input{input_.number}")
            switch.add_case(ir.Constant(I8, input_.number), block)
            builder.position_at_end(block)
            row = nexts[input_.number].get()
            nexts[input_.number].set(builder.add(row, number(1)))
            do(input_, INPUT_TABLE.load(builder, own[input_.number], "columns"), row)
            builder.branch(after)
        builder.position_at_end(after)


def _prefetch_row(
    frame: FunctionFrame,
    input_: StageInput,
    accesses: Sequence[tuple[str, KnownKeys]],
    columns: IRValue,
    row: IRValue,
    maps: Mapping[str, MapGlobal | TableGlobal],
    prefetcher: Prefetcher,
) -> None:
    builder = frame.builder
    known = [scalar for _, pairs in accesses for _, scalar in pairs]
    used = set().union(*map(columns_in, known))
    cells = {f.name: load_cell(builder, columns, i, row, f) for i, f in enumerate(input_.fields) if f.name in used}
    expressions = LlvmExpressions(frame, cells)
    found = {scalar: to_stored(builder, expressions.cell(scalar), scalar.type) for scalar in dict.fromkeys(known)}
    for name, pairs in accesses:
        held = maps[name]
        held.code.prefetch(builder, held.handle(builder), {key: found[scalar] for key, scalar in pairs}, prefetcher)


def _cells(
    builder: ir.IRBuilder, input_: StageInput, names: Sequence[str], columns: IRValue, row: IRValue
) -> dict[str, NullableValue]:
    """Some cells of a row, as maps have them."""
    places = {f.name: place for place, f in enumerate(input_.fields)}
    cells: dict[str, NullableValue] = {}
    for name in names:
        field = input_.fields[places[name]]
        cells[name] = to_stored(builder, load_cell(builder, columns, places[name], row, field), field.type)
    return cells


def _largest(accesses: Sequence[tuple[str, KnownKeys]]) -> list[tuple[str, KnownKeys]]:
    """The accesses that know most columns of a key: they prefetch for the others as well.

    >>> from tidemill.model.types import BIGINT, Field
    >>> x, y = column(Field("x", BIGINT)), column(Field("y", BIGINT))
    >>> found = _largest([("m", (("a", x),)), ("m", (("a", x), ("b", y))), ("n", (("a", x),))])
    >>> [(name, len(pairs)) for name, pairs in found]
    [('m', 2), ('n', 1)]
    """
    return [
        (name, pairs)
        for name, pairs in accesses
        if not any(name == other and set(pairs) < set(more) for other, more in accesses)
    ]


def _accesses(trigger: Trigger, maps: Mapping[str, MapGlobal | TableGlobal]) -> Iterator[tuple[str, KnownKeys]]:
    """The maps that a row of a change reaches by its own columns, and what it says of their keys."""
    for statement in trigger.statements:
        if not isinstance(statement, Add):
            continue
        changed = _columns_of_change(statement.query)
        if changed is None:
            continue
        for step in statement.query.sources:
            if isinstance(step, MapRead | MapSeek):
                yield from _access(step.map, step.lookup, changed, maps)
            elif isinstance(step, RelationLoop) and step.version is Version.STATE:
                yield from _access(step.relation, step.lookup, changed, maps)
        if statement.target not in maps:  # an output, whose end is in cache
            continue
        target = maps[statement.target].map
        outputs = [output.scalar for output in statement.query.outputs[: len(target.keys)]]
        yield from _access(
            statement.target, list(zip((f.name for f in target.keys), outputs, strict=True)), changed, maps
        )
    mirror = maps.get(trigger.relation)
    if isinstance(mirror, MapGlobal):  # the row itself is added to it
        keys = mirror.map.keys
        yield trigger.relation, tuple((f.name, column(f)) for f in keys)


def _columns_of_change(query: Query) -> dict[str, Scalar] | None:
    """The columns of the row by the names that the query has for them."""
    found: dict[str, Scalar] = {}
    for step in query.sources:
        if isinstance(step, RelationLoop) and step.version is Version.CHANGE:
            found |= {f"{step.alias}.{f.name}": column(f) for f in step.columns}
    return found or None


def _access(
    name: str,
    keys: Sequence[tuple[str, Scalar]],
    changed: Mapping[str, Scalar],
    maps: Mapping[str, MapGlobal | TableGlobal],
) -> Iterator[tuple[str, KnownKeys]]:
    types = {f.name: f.type for f in maps[name].map.keys}
    pairs = [
        (key, substitute(scalar, changed))
        for key, scalar in keys
        if columns_in(scalar) <= changed.keys() and scalar.type == types[key] and not may_fail(scalar)
    ]
    if any(columns_in(scalar) for _, scalar in pairs):
        yield name, tuple(sorted(pairs, key=itemgetter(0)))
