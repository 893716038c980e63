"""The functions of a join graph: the product of the projected tuples of a complete path, and filters on paths.

A complete path takes one join tuple of each member. Its rows are the product of their projected tuples, each as often
as the product of their counts: nested loops, like those of a query without any condition. Filters that cannot fail are
functions of join columns and are tried on partial paths already. One that can fail must see no row that SQL would not
show to it, so it waits until the path is complete, and for all filters before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.text import text_of
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT
from tidemill.program.joingraph import Graph
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import Query, RelationLoop, Version
from tidemill.runtimes.native.operators.joingraph.routes import CompiledGraph, PathFilter, route_from
from tidemill.runtimes.native.python.access import RowShapes
from tidemill.runtimes.native.python.expressions import PythonExpressions, tidy
from tidemill.runtimes.native.python.function_writer import FunctionWriter, ModuleWriter, Namespace
from tidemill.runtimes.native.python.nested_loops import LoopWriter
from tidemill.runtimes.native.python.scalar_properties import cannot_fail, simplified


def write_graph(module: ModuleWriter, stage: Stage, graph: Graph) -> Callable[[Namespace], CompiledGraph]:
    """Write the functions of a graph of ``stage``."""
    known = {map_.name: map_ for map_ in (*(stage.reader.maps if stage.reader else ()), *stage.maps)}
    maps = {member.map: known[member.map] for member in graph.members}
    collect = _write_collect(module, graph, maps, known.get(graph.target))
    early = [_write_filter(module, graph, maps, scalar) for scalar in graph.filters if cannot_fail(scalar)]
    columns = {member.alias: _join_columns(graph, member.alias, maps[member.map]) for member in graph.members}

    def bind(space: Namespace) -> CompiledGraph:
        filters = [PathFilter(read, space[name]) for read, name in early]
        routes = {alias: route_from(alias, graph, columns, filters) for alias in columns}
        return CompiledGraph(graph, maps, columns, space[collect], routes)

    return bind


def _join_columns(graph: Graph, alias: str, map_: Map) -> tuple[str, ...]:
    """The join columns of a member, those on which it meets others first."""
    names = [f.name for f in map_.keys]
    meets = {column for vertex in graph.around(alias) for column in vertex.of(alias)}
    read = {name for condition in graph.filters if cannot_fail(condition) for name in columns_in(condition)}
    tested = [name for name in names if f"{alias}.{name}" in read and name not in meets]
    return (*(name for name in names if name in meets), *tested)


def _write_collect(module: ModuleWriter, graph: Graph, maps: Mapping[str, Map], target: Map | None) -> str:
    # Each member is a relation of its own here, or two that share a map would be given the same projected tuples.
    shapes = RowShapes({m.alias: replace(maps[m.map], name=m.alias) for m in graph.members}, lambda alias: ())
    values = () if target is None else tuple(value.type for value in target.values)
    loops = LoopWriter(_product(graph, maps, len(values)), values, shapes, module.known)
    name = module.known.function(f"paths_of_{graph.target}")
    module.add(name, loops.write(name, f"{graph.target} += the projected tuples along a complete path, multiplied."))
    return name


def _product(graph: Graph, maps: Mapping[str, Map], values: int) -> Query:
    """All combinations of projected tuples that pass the filters which had to wait."""
    sources = [RelationLoop(m.alias, m.alias, Version.STATE, maps[m.map].keys) for m in graph.members]
    late = tuple(scalar for scalar in graph.filters if not cannot_fail(scalar))
    sources[-1] = replace(sources[-1], filters=late)
    keys = len(graph.outputs) - values
    weights = {member.alias: Column(f"{member.alias}.{WEIGHT}", BIGINT, nullable=False) for member in graph.members}
    summed = {f"{m.alias}.{sum_.name}": m.alias for m in graph.members for sum_ in m.sums}
    used = [summed.keys() & columns_in(output.scalar) for output in graph.outputs[keys:]]
    if not any(used):
        return Query(tuple(sources), graph.outputs)
    amounts = (
        Named(o.name, _times(o.scalar, (w for alias, w in weights.items() if alias not in {summed[n] for n in names})))
        for o, names in zip(graph.outputs[keys:], used, strict=True)
    )
    first, *others = weights.values()
    return Query(tuple(sources), (*graph.outputs[:keys], *amounts), weight=_times(first, others))


def _times(value: Scalar, weights: Iterable[Scalar]) -> Scalar:
    return reduce(lambda left, right: call("ring_product", left, right), weights, value)


def _write_filter(
    module: ModuleWriter, graph: Graph, maps: Mapping[str, Map], scalar: Scalar
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Write a condition over join columns as a function of these; which they are, and its name."""
    name = module.known.function(f"filter_of_{graph.target}")
    names = module.known.enter()
    owners = {
        f"{member.alias}.{f.name}": (member.alias, f.name) for member in graph.members for f in maps[member.map].keys
    }
    columns = sorted(columns_in(scalar))
    variables = {column: names.give(column.rpartition(".")[2], column) for column in columns}
    body = FunctionWriter(f"def {name}({', '.join(variables.values())}):")
    body.document(f"Whether a path passes {text_of(scalar)}.")
    condition = PythonExpressions(variables, module.known, names).condition(simplified(scalar))
    body.write(f"return {tidy(condition)}")
    module.add(name, body)
    return tuple(owners[column] for column in columns), name
