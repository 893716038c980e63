"""The readable form of a program, as EXPLAIN shows it and golden tests compare it.

``target[keys] += values`` is done for every combination of rows that the ``for`` lines below it find. ``by`` is an
index lookup, ``where`` a condition, ``change of`` the rows that an epoch inserts and deletes. A key that only has a
weight gets ``+= 1``. ``emit`` turns the touched entries of the map into rows.

Values in parentheses are multiplied by the weights of the rows that were found. Amounts in braces are not: they are
added as they are, the weight among them. ``let`` reads sums at one key or over a range of keys and multiplies nothing,
``seek`` finds the key at which a condition on a running sum changes. ``-+=`` takes out what was there before the
other statements of the trigger, and adds what is there after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Column, Named, Scalar
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Scan, TopK, Window
from tidemill.algebra.text import text_of, text_of_call
from tidemill.model.partition_lengths import is_calendar
from tidemill.model.schema import WEIGHT
from tidemill.program.joingraph import Graph
from tidemill.program.maps import Map
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import (
    Add,
    ArrayLoop,
    MapRead,
    MapSeek,
    Query,
    Range,
    RelationLoop,
    Replace,
    Split,
    Step,
    Trigger,
    TriggerStatement,
    Version,
)

WIDTH = 110
"""Line length above which lists are broken, one item to a line."""

STEP = "  "

REWORDED = {
    "iterating to a fixpoint, ": "round after round, ",
    "in the first iteration that finds it": "in the first round in which it is found",
    "in every iteration that finds it": "in every round in which it is found",
}
"""Phrases of this text, and what stood in their place in warehouses that were written before."""


def text_of_program(program: Program) -> str:
    """All stages of ``program``, one after the other.

    >>> print(text_of_program(Program("v", (Stage("v", (), (), (), (), (), None, "delta"),))))
    stage v()
    """
    return "\n\n".join(text_of_stage(stage) for stage in program.stages)


def layout_text(program: Program) -> str:
    """``text_of_program`` in its first wording: its hash, stored with a view, must outlive a rewording of the text."""
    text = text_of_program(program)
    for new, first in REWORDED.items():
        text = text.replace(new, first)
    return text


def text_of_stage(stage: Stage) -> str:
    """One stage: its columns and maps, its triggers, how it is filled, and how its rows are emitted."""
    parts = [_map_text(map_) for map_ in stage.maps]
    parts += [_trigger_text(trigger, stage) for trigger in stage.triggers]
    if stage.load:
        parts.append(_headed("to load:", [text_of_statement(statement, stage) for statement in stage.load]))
    match stage.finish:
        case PartitionEmission() as rows:
            parts.append(_parts_text(rows))
        case SessionEmission() as sessions:
            parts += _session_texts(sessions)
        case IterationEmission() as iteration:
            parts += _iteration_texts(iteration, stage)
        case TimePartitionEmission() as slices:
            parts += _time_partition_texts(slices)
        case GroupEmission() as finish:
            parts.append(_finish_text(finish))
    parts += [_graph_text(graph) for graph in stage.graphs]
    if stage.reader is not None:
        loads = [text_of_statement(statement, stage.reader) for statement in stage.reader.load]
        parts.append(_headed(f"served to {stage.serve.value}, its rows made when read:", loads))
    return _headed(_listed(f"stage {stage.name}(", [str(f) for f in stage.output], ")"), parts)


def text_of_statement(statement: TriggerStatement, stage: Stage) -> str:
    """One statement with its loops; a replacement starts with ``:=``, and its further queries with ``+=``."""
    target = next((m for m in stage.maps if m.name == statement.target), Map(statement.target, stage.output))
    if isinstance(statement, Add):
        return _query_text(target, "+=", statement.query)
    return _replace_text(statement, target)


def _replace_text(statement: Replace, target: Map) -> str:
    whole = _guarded_texts(
        statement.guards, _sum_text(target, statement.queries), _sum_text(target, statement.otherwise)
    )
    if statement.touched is None:
        return "\n".join(whole)
    usual, otherwise = (
        [_query_text(target, "-+=", query) for query in queries]
        for queries in (statement.touched.queries, statement.touched.otherwise)
    )
    touched = _guarded_texts(statement.touched.guards, usual, otherwise)
    return "\n".join([_headed("few rows, one by one:", touched), _headed("many rows:", whole)])


def _guarded_texts(guards: Sequence[tuple[str, str]], usual: list[str], otherwise: list[str]) -> list[str]:
    if not guards:
        return usual
    head = f"unless negative {' or '.join(f'{name}.{value}' for name, value in guards)}:"
    return [_headed(head, usual), _headed("otherwise:", otherwise)]


def _sum_text(target: Map, queries: Sequence[Query]) -> list[str]:
    return [_query_text(target, "+=" if i else ":=", query) for i, query in enumerate(queries)]


def _map_text(map_: Map) -> str:
    head = _listed(f"map {map_.name}[", [str(f) for f in map_.keys], "]")
    sums = ", ".join([WEIGHT, *(f"{value.name}: {value.type}" for value in map_.values)])
    sums = sums if map_.end is None else f"{sums}, {map_.end.value} {map_.keys[-1].name} only"
    return f"{head} -> {sums}" if len(head) + len(sums) < WIDTH else f"{head}\n{STEP}-> {sums}"


def _trigger_text(trigger: Trigger, stage: Stage) -> str:
    statements = [text_of_statement(statement, stage) for statement in trigger.statements]
    change = "each change" if trigger.each else "change"
    return _headed(f"on {change} of {trigger.relation}:", statements)


def _query_text(target: Map, sign: str, query: Query) -> str:
    outputs = [text_of(output.scalar) for output in query.outputs]
    keys, values = outputs[: len(target.keys)], outputs[len(target.keys) :]
    head = _listed(f"{target.name}[", keys, f"] {sign} ")
    if query.weight is None:
        head += _values_text(values)
    else:
        names = (WEIGHT, *(value.name for value in target.values))
        amounts = (text_of(query.weight), *values)
        head = _listed(head + "{", [f"{name}: {amount}" for name, amount in zip(names, amounts, strict=True)], "}")
    filters = [f"if {_all(query.filters)}"] if query.filters else []
    return _headed(head, filters + [_step_text(step) for step in query.sources])


def _values_text(values: Sequence[str]) -> str:
    if len(values) > 1:
        return _listed("(", values, ")")
    return values[0] if values else "1"


def _step_text(step: Step) -> str:
    match step:
        case RelationLoop():
            return _filtered(_source_text(step), step.filters)
        case MapRead():
            return _filtered(_read_text(step), step.filters)
        case MapSeek():
            return _filtered(_seek_text(step), step.filters)
        case ArrayLoop():
            return _filtered(_each_text(step), step.filters)


def _source_text(source: RelationLoop) -> str:
    rows = f"change of {source.relation}" if source.version is Version.CHANGE else source.relation
    if source.split is not None:
        rows = f"{_split_text(source.split)} in {rows}"
    text = f"for {source.alias} in {rows}"
    if source.lookup:
        text += " by " + " AND ".join(f"{source.alias}.{name} = {text_of(key)}" for name, key in source.lookup)
    if source.range is not None:
        text += f" in order of {source.range.column}"
    return text


def _split_text(split: Split) -> str:
    same = ", ".join(split.fixed)
    return f"rows {split.part.value} by {', '.join(split.key)}{f' with the same {same}' if same else ''}"


def _each_text(each: ArrayLoop) -> str:
    names = ", ".join(f"{each.alias}.{f.name}" for f in each.columns)
    return f"for {names} in {'outer ' if each.outer else ''}{text_of(each.array)}"


def _read_text(read: MapRead) -> str:
    if read.range is None:
        return f"let {read.alias} = {read.map}[{_found_text(read)}]"
    return f"let {read.alias} = sum of {read.map}[{_found_text(read, *_range_texts(read.range))}]"


def _seek_text(seek: MapSeek) -> str:
    which, side = ("first", "after") if seek.after else ("last", "before")
    under = f"[{_found_text(seek)}]" if seek.lookup else ""
    column = seek.column.name
    head = f"seek {seek.alias} in {seek.map}{under}: {which} {column}"
    condition = f"where {text_of(seek.condition)}, {seek.alias} being the sum {side} that {column}"
    return _continued(head, condition)


def _found_text(step: MapRead | MapSeek, *ranges: str) -> str:
    return ", ".join([*(f"{name} = {text_of(key)}" for name, key in step.lookup), *ranges])


def _range_texts(range_: Range) -> list[str]:
    lower, upper = range_.lower, range_.upper
    above = [] if lower is None else [f"{'>=' if lower.closed else '>'} {text_of(lower.scalar)}"]
    below = [] if upper is None else [f"{'<=' if upper.closed else '<'} {text_of(upper.scalar)}"]
    return [f"{range_.column} {bound}" for bound in above + below]


def _filtered(text: str, filters: Sequence[Scalar]) -> str:
    return _continued(text, f"where {_all(filters)}") if filters else text


def _continued(head: str, rest: str) -> str:
    """Both on one line, or below each other if that would be too long."""
    return f"{head} {rest}" if len(head) + len(rest) < WIDTH else f"{head}\n{indent(rest, 2 * STEP)}"


def _graph_text(graph: Graph) -> str:
    members = [f"{m.alias} in {m.map}" for m in graph.members]
    meetings = [
        " and ".join(f"{a}.{x} = {b}.{y}" for x, y in v.columns) for v in graph.vertices for a, b in [v.members]
    ]
    filters = [f"if {_all(graph.filters)}"] if graph.filters else []
    head = f"join graph to {graph.target}, look-ahead {graph.lookahead.value}:"
    return _headed(head, [", ".join(members), *(meeting or "everything" for meeting in meetings), *filters])


def _finish_text(finish: GroupEmission) -> str:
    text = _listed("emit always (" if finish.always else "emit (", [_named_text(o) for o in finish.outputs], ")")
    notes = [f"with {read.call.name} = {text_of_call(read.call)} over {read.map}" for read in finish.multiset_reads]
    notes += [] if finish.condition is None else [f"where {text_of(finish.condition)}"]
    notes += [] if finish.times is None else [f"times {text_of(finish.times)}"]
    return _headed(text, notes)


def _parts_text(parts: PartitionEmission) -> str:
    """The output rows of each touched partition."""
    text = _listed("emit (", [_named_text(o) for o in parts.outputs], ")")
    notes = [f"from {_rows_text(parts.rows)}"]
    notes += [] if parts.condition is None else [f"where {text_of(parts.condition)}"]
    return _headed(text, notes)


def _session_texts(sessions: SessionEmission) -> list[str]:
    """The sessions, and their output rows."""
    kept = f"{sessions.kept} has the sessions of {sessions.source}, with gaps of up to {sessions.gap} microseconds"
    return [kept, _finish_text(sessions.groups)]


def _iteration_texts(iteration: IterationEmission, stage: Stage) -> list[str]:
    """The iterations of a recursion, and their output rows."""
    statements = [text_of_statement(statement, stage) for statement in iteration.again.statements]
    how = "in the first iteration that finds it" if iteration.distinct else "in every iteration that finds it"
    settled = _headed(f"iterating to a fixpoint, {iteration.kept} has a row {how}:", statements)
    return [settled, _kept_text(iteration)]


def _time_partition_texts(emission: TimePartitionEmission) -> list[str]:
    """Time partitions computed from others, and their output rows."""
    read = [f"with {slice_.name} from {emission.map_of(slice_)}" for slice_ in emission.slices]
    if len(emission.bodies) == 1:
        made = [text_of_program(emission.update)]
    else:
        made = [
            _headed("the first:", [text_of_program(emission.initialize)]),
            _headed("all others:", [text_of_program(emission.update)]),
        ]
    every = emission.every
    length = f"{-every} months" if is_calendar(every) else f"{every / 1_000_000:g} s"
    head = f"partition by partition of {emission.numbers}, each {length} long, {emission.kept} has:"
    return [_headed(head, [*read, *made]), _kept_text(emission)]


def _kept_text(finish: IterationEmission | TimePartitionEmission) -> str:
    text = _listed("emit (", [_named_text(o) for o in finish.outputs], ")")
    notes = [f"from {finish.kept}"]
    notes += [] if finish.condition is None else [f"where {text_of(finish.condition)}"]
    return _headed(text, notes)


def _rows_text(rows: TopK | Window | Match) -> str:
    source = rows.input.relation if isinstance(rows.input, Scan) else "rows"
    place = _place_text(rows)
    if isinstance(rows, TopK):
        limit = "all" if rows.limit is None else f"the first {rows.limit}"
        after = f" after {rows.offset}" if rows.offset else ""
        return f"{limit}{after} of {source}{' with ties' if rows.ties else ''}{place}"
    if isinstance(rows, Match):
        return f"{source} matching {rows.pattern}{place}"
    calls = [f"{call.name} = {call.function}({', '.join(map(text_of, call.arguments))})" for call in rows.calls]
    return f"{source} with {', '.join(calls)}{place}"


def _place_text(rows: TopK | Window | Match) -> str:
    by = ", ".join(map(text_of, rows.partition))
    order = ", ".join(f"{text_of(term.scalar)}{' desc' if term.descending else ''}" for term in rows.order)
    return (f" for each {by}" if by else "") + (f" in the order of {order}" if order else "")


def _named_text(output: Named) -> str:
    if isinstance(output.scalar, Column) and output.scalar.name == output.name:
        return output.name
    return f"{text_of(output.scalar)} as {output.name}"


def _all(conditions: Sequence[Scalar]) -> str:
    condition = conjunction(conditions)
    return "TRUE" if condition is None else text_of(condition)


def _listed(opening: str, items: Sequence[str], closing: str) -> str:
    """The items on one line, or one to a line if that would be too long."""
    line = f"{opening}{', '.join(items)}{closing}"
    if len(line) <= WIDTH:
        return line
    below = indent(",\n".join(items), 2 * STEP)
    return f"{opening}\n{below}\n{STEP}{closing}"


def _headed(head: str, parts: Sequence[str]) -> str:
    """``head`` with ``parts`` indented below it."""
    return "\n".join([head, *(indent(part, STEP) for part in parts)])
