"""The invariants of programs, checked on every compile. A violation is a bug of the compiler, never the user's fault.

- Names are unique; a stage reads tables, views and earlier stages only.
- Each stage has one trigger for each of its inputs, and no other.
- A column is bound before it is used, with its own type; a source reads only existing columns.
- A statement adds to a map of its stage or to the stage's own output, with as many columns, of types that fit.
- An Add reads the change of its trigger's relation at least once and no other change, and so does what a Replace has
  for the part that a row touches; a load and all else of a Replace read none. Only a trigger for each row has such
  parts.
- No statement reads a map that an earlier statement of its trigger has added to: triggers see the state before them.
- Only exact sums of a map are bound. A read names every key of its map, by lookup or by range; so does a seek.
- A weight is a BIGINT. A statement has an ``otherwise`` if and only if it has guards.
- A stage with a trigger for each row has no load: firing its triggers with whole inputs fills it.
- A multiset has the keys of the map that it belongs to first, and then the arguments of aggregates; it has no sums.
- The first keys of a map of partitions are the columns of PARTITION BY.
- The last key of a map of instants is a TIMESTAMP. The map of its sessions has the same other keys and another
  TIMESTAMP, their length and the same sums, and no statement adds to it.
- The maps of a recursion have the same keys, of which the first is the iteration. Changes of the rows that count are
  read by the trigger that continues it, which adds to the found rows and to nothing else.
- The maps and queries of a relation computed by time partitions satisfy ``verify_time_partitions``.
- Join graphs, and the readers of stages whose rows are not stored, satisfy ``verify_joingraph``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.algebra.expressions.scalars import Column, Named, Scalar, is_nullable
from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import columns_in, expressions, walk
from tidemill.model import types as t
from tidemill.model.errors import InternalError
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field, Type
from tidemill.program.compatible_types import comparable, sums_up
from tidemill.program.maps import Map, RingField
from tidemill.program.reads import queries_of, reads_change, reads_old, relation_of, touched_of
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
    Touched,
    Trigger,
    TriggerStatement,
    Version,
)
from tidemill.program.text import text_of_stage, text_of_statement
from tidemill.program.verification.verify_joingraph import joingraph_problems
from tidemill.program.verification.verify_time_partitions import time_partition_problems


class BrokenInvariant(InternalError):
    """The compiler produced an invalid program. The message names the statement and shows its text."""


def verify(program: Program, tables: Mapping[str, Table]) -> None:
    """Raise ``BrokenInvariant`` unless ``program`` keeps every invariant; ``tables`` are the base relations."""
    known = {table.name: table.fields for table in tables.values()}
    _verify_names(program)
    for stage in program.stages:
        _Checker(stage, program, known).verify()
        known[stage.name] = stage.output


def _verify_names(program: Program) -> None:
    names = [name for stage in program.stages for name in (stage.name, *(map_.name for map_ in stage.maps))]
    for name in names:
        if names.count(name) > 1:
            raise BrokenInvariant(f'view "{program.view}": the name "{name}" is used twice')
    if not program.stages or program.stages[-1].name != program.view:
        raise BrokenInvariant(f'view "{program.view}": its last stage does not carry its name')


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks one stage; ``known`` has the fields of tables and of the stages before it."""

    stage: Stage
    program: Program
    known: Mapping[str, tuple[Field, ...]]

    def verify(self) -> None:
        self._verify_inputs()
        for map_ in self.stage.maps:
            self._verify_map(map_)
        for statement in self.stage.load:
            self._verify_statement(statement, None)
        for trigger in self.stage.triggers:
            self._verify_trigger(trigger)
        if self.stage.load and any(trigger.each for trigger in self.stage.triggers):
            raise self._broken("it goes row by row and has statements to load it all the same")
        match self.stage.finish:
            case PartitionEmission() as parts:
                self._verify_parts(parts)
            case SessionEmission() as sessions:
                self._verify_sessions(sessions)
            case IterationEmission() as iteration:
                self._verify_iteration(iteration)
            case TimePartitionEmission() as emission:
                self._verify_time_partitions(emission)
            case GroupEmission() as finish:
                self._verify_finish(finish)

        for problem in joingraph_problems(self.stage):
            raise self._broken(problem)
        if self.stage.reader is not None:
            replace(self, stage=self.stage.reader).verify()

    def _verify_inputs(self) -> None:
        triggered = [trigger.relation for trigger in self.stage.triggers]
        if sorted(triggered) != sorted(set(self.stage.inputs)) or len(self.stage.inputs) != len(set(self.stage.inputs)):
            raise self._broken(f"inputs are {self.stage.inputs}, but there are triggers for {tuple(triggered)}")
        stages = {stage.name for stage in self.program.stages}
        for name in self.stage.inputs:
            if name in stages and name not in self.known:
                raise self._broken(f'it reads stage "{name}", which does not come before it')

    def _verify_map(self, map_: Map) -> None:
        names = [f.name for f in map_.keys] + [value.name for value in map_.values]
        if len(names) != len(set(names)) or WEIGHT in names:
            raise self._broken(f'the columns of map "{map_.name}" are not unique')
        for value in map_.values:
            if not (value.type in (t.BIGINT, t.DOUBLE) or _is_wide(value.type)):
                raise self._broken(f'value "{value.name}" of map "{map_.name}" has type {value.type}, which is no ring')

    def _verify_trigger(self, trigger: Trigger) -> None:
        if touched_of(trigger) and not trigger.each:
            raise self._broken(f'a trigger for all rows of "{trigger.relation}" has parts that each of them touches')
        added: set[str] = set()
        for statement in trigger.statements:
            self._verify_statement(statement, trigger.relation)
            for query in queries_of(statement):
                for step in filter(reads_old, query.sources):
                    if relation_of(step) in added:
                        raise self._broken(f'it reads "{relation_of(step)}" after adding to it', statement)
            added.add(statement.target)

    def _verify_statement(self, statement: TriggerStatement, changed: str | None) -> None:
        for query in queries_of(statement):
            self._verify_query(query, statement)
            self._verify_target(query, statement)
        for query in (statement.query,) if isinstance(statement, Add) else _touched_queries(statement):
            self._verify_changes(query, statement, changed)
        if isinstance(statement, Replace):
            for query in (*statement.queries, *statement.otherwise):
                self._verify_changes(query, statement, None)
            self._verify_guards(statement, statement)
            if statement.touched is not None:
                self._verify_guards(statement.touched, statement)

    def _verify_guards(self, guarded: Replace | Touched, statement: Replace) -> None:
        if bool(guarded.guards) != bool(guarded.otherwise):
            raise self._broken("guards and what to do otherwise belong together", statement)
        for name, value in guarded.guards:
            if value != WEIGHT and value not in (known.name for known in self._map(name, statement).values):
                raise self._broken(f'"{name}" has no value "{value}" to guard', statement)

    def _verify_changes(self, query: Query, statement: TriggerStatement, changed: str | None) -> None:
        read = {step.relation for step in query.sources if reads_change(step)}
        if read != (set() if changed is None else {changed}):
            wanted = "no change" if changed is None else f'the change of "{changed}"'
            raise self._broken(f"it should read {wanted} but reads the changes of {sorted(read)}", statement)

    def _verify_query(self, query: Query, statement: TriggerStatement) -> None:
        bound: dict[str, Type] = {}
        self._verify_bound(query.filters, bound, statement)
        for step in query.sources:
            self._verify_step(step, bound, statement)
        weight = () if query.weight is None else (query.weight,)
        self._verify_bound([*weight, *(output.scalar for output in query.outputs)], bound, statement)
        if any(scalar.type != t.BIGINT for scalar in weight):
            raise self._broken("its weight is no BIGINT", statement)

    def _verify_step(self, step: Step, bound: dict[str, Type], statement: TriggerStatement) -> None:
        """Check the step and bind its columns: a lookup sees only the steps before it, a filter this one too."""
        self._verify_bound([key for _, key in step.lookup], bound, statement)
        if isinstance(step, RelationLoop) and step.range is not None:
            self._verify_range(step, step.range, bound, statement)
        match step:
            case RelationLoop():
                fresh = self._verify_source(step, statement)
            case MapRead():
                fresh = self._verify_read(step, bound, statement)
            case MapSeek():
                fresh = self._verify_seek(step, bound, statement)
            case ArrayLoop():
                fresh = self._verify_each(step, bound, statement)
        for name, of in fresh.items():
            if f"{step.alias}.{name}" in bound:
                raise self._broken(f'"{step.alias}.{name}" is bound twice', statement)
            bound[f"{step.alias}.{name}"] = of
        self._verify_bound(step.filters, bound, statement)

    def _verify_each(self, each: ArrayLoop, bound: Mapping[str, Type], statement: TriggerStatement) -> dict[str, Type]:
        self._verify_bound([each.array], bound, statement)
        own = {f.name: f.type for f in each.columns}
        if each.array.type != t.Array(each.columns[-1].type) or len(each.columns) > 2:
            raise self._broken(f'"{each.alias}" does not have the elements of its array', statement)
        return own

    def _verify_source(self, source: RelationLoop, statement: TriggerStatement) -> dict[str, Type]:
        own = {f.name: f.type for f in source.columns}
        there = self._fields_of(source.relation)
        for f in source.columns:
            if there is not None and own[f.name] != there.get(f.name):
                raise self._broken(f'"{source.relation}" has no column {f}', statement)
        self._verify_lookup(source, own, statement)
        if source.values and source.version is Version.CHANGE:
            raise self._broken(f'a change of "{source.relation}" has no sums', statement)
        if source.split is not None:
            self._verify_split(source, source.split, own, statement)
        return own | (self._verify_sums(source.relation, source.values, statement) if source.values else _WEIGHT)

    def _verify_range(
        self, source: RelationLoop, range_: Range, bound: Mapping[str, Type], statement: TriggerStatement
    ) -> None:
        keys = {f.name: f.type for f in self._map(source.relation, statement).keys}
        ends = [end.scalar for end in (range_.lower, range_.upper) if end is not None]
        self._verify_bound(ends, bound, statement)
        if source.lookup or source.version is not Version.STATE or any(map(is_nullable, ends)):
            raise self._broken(f'"{source.alias}" cannot be found by a range', statement)
        if any(end.type != keys.get(range_.column) for end in ends):
            raise self._broken(f'a range of "{source.relation}.{range_.column}" has other types', statement)

    def _verify_split(
        self, source: RelationLoop, split: Split, own: Mapping[str, Type], statement: TriggerStatement
    ) -> None:
        if source.version is not Version.CHANGE:
            raise self._broken(f'only a change is split, and "{source.alias}" is none', statement)
        if not own.keys() >= {*split.key, *split.fixed}:
            raise self._broken(f'"{source.alias}" does not read the columns that its change is split by', statement)

    def _verify_read(self, read: MapRead, bound: Mapping[str, Type], statement: TriggerStatement) -> dict[str, Type]:
        keys = {f.name: f.type for f in self._map(read.map, statement).keys}
        self._verify_lookup(read, keys, statement)
        ends = [] if read.range is None else [end.scalar for end in (read.range.lower, read.range.upper) if end]
        self._verify_bound(ends, bound, statement)
        ranged = set() if read.range is None else {read.range.column}
        self._verify_keys(read, ranged, statement)
        for end in ends:
            if not comparable(keys[next(iter(ranged))], end.type):
                raise self._broken(f'a range of "{read.map}" cannot end at a {end.type}', statement)
        return self._verify_sums(read.map, read.values, statement)

    def _verify_seek(self, seek: MapSeek, bound: Mapping[str, Type], statement: TriggerStatement) -> dict[str, Type]:
        keys = {f.name: f.type for f in self._map(seek.map, statement).keys}
        self._verify_lookup(seek, keys, statement)
        self._verify_keys(seek, {seek.column.name}, statement)
        sums = self._verify_sums(seek.map, seek.values, statement)
        running = {f"{seek.alias}.{name}": of for name, of in sums.items()}
        self._verify_bound([seek.condition], {**bound, **running}, statement)
        if seek.column.type != keys[seek.column.name]:
            raise self._broken(f'"{seek.map}" has no column {seek.column}', statement)
        return {seek.column.name: seek.column.type}

    def _verify_lookup(self, step: Step, columns: Mapping[str, Type], statement: TriggerStatement) -> None:
        for name, key in step.lookup:
            if name not in columns or not comparable(columns[name], key.type):
                raise self._broken(f'"{step.alias}.{name}" cannot be looked up by a {key.type}', statement)

    def _verify_keys(self, step: MapRead | MapSeek, ordered: set[str], statement: TriggerStatement) -> None:
        """Check that all keys but the ordered one are given, so that one entry or one ordered group is read."""
        keys = [f.name for f in self._map(step.map, statement).keys]
        if sorted([*(name for name, _ in step.lookup), *ordered]) != sorted(keys):
            raise self._broken(f'it does not say which of the keys {keys} of "{step.map}" it reads', statement)

    def _verify_sums(self, name: str, values: Iterable[RingField], statement: TriggerStatement) -> dict[str, Type]:
        there = self._map(name, statement).values
        for value in values:
            if value not in there or value.type == t.DOUBLE:
                raise self._broken(f'"{name}" has no exact sum {value.name}: {value.type}', statement)
        return _WEIGHT | {value.name: value.type for value in values}

    def _map(self, name: str, statement: TriggerStatement) -> Map:
        for map_ in self.stage.maps:
            if map_.name == name:
                return map_
        raise self._broken(f'it reads the map "{name}", which the stage does not have', statement)

    def _verify_bound(
        self, scalars: Iterable[Scalar], bound: Mapping[str, Type], statement: TriggerStatement | None
    ) -> None:
        for column in _columns(scalars):
            if column.name not in bound:
                raise self._broken(f'column "{column.name}" is used before it is bound', statement)
            of = bound[column.name]
            if of != column.of:
                raise self._broken(f'column "{column.name}" is used as {column.of}, but it is {of}', statement)

    def _verify_target(self, query: Query, statement: TriggerStatement) -> None:
        given = [output.scalar.type for output in query.outputs]
        map_ = next((map_ for map_ in self.stage.maps if map_.name == statement.target), None)
        if map_ is None and (statement.target != self.stage.name or self.stage.finish is not None):
            raise self._broken(f'it adds to "{statement.target}", which the stage does not have', statement)
        keys = [f.type for f in (self.stage.output if map_ is None else map_.keys)]
        values = [] if map_ is None else [value.type for value in map_.values]
        sums = given[len(keys) :]
        if given[: len(keys)] != keys or len(sums) != len(values) or not all(map(sums_up, sums, values)):
            wanted, got = (", ".join(map(str, types)) for types in (keys + values, given))
            raise self._broken(f'"{statement.target}" takes ({wanted}) and not ({got})', statement)

    def _verify_finish(self, finish: GroupEmission) -> None:
        map_ = next((map_ for map_ in self.stage.maps if map_.name == finish.source), None)
        if map_ is None:
            raise self._broken(f'its rows come from "{finish.source}", which it does not have')
        bound: dict[str, Type] = {f.name: f.type for f in map_.keys} | {v.name: v.type for v in map_.values}
        bound |= {value.name + LOW: value.type for value in map_.values if value.type == t.DOUBLE}
        bound[WEIGHT] = t.BIGINT
        bound |= self._verify_multiset_reads(finish, map_)
        above = [scalar for scalar in (finish.condition, finish.times) if scalar is not None]
        self._verify_bound(above, bound, None)
        self._verify_outputs(finish.outputs, bound)

    def _verify_multiset_reads(self, finish: GroupEmission, map_: Map) -> dict[str, Type]:
        for read in finish.multiset_reads:
            multiset = next((one for one in self.stage.maps if one.name == read.map), None)
            if multiset is None or multiset.keys[: len(map_.keys)] != map_.keys or multiset.values:
                raise self._broken(f'"{read.map}" is no multiset for each key of "{map_.name}"')
            self._verify_bound(read.call.scalars, {f.name: f.type for f in multiset.keys[len(map_.keys) :]}, None)
        return {read.call.name: read.call.of for read in finish.multiset_reads}

    def _verify_parts(self, parts: PartitionEmission) -> None:
        map_ = next((map_ for map_ in self.stage.maps if map_.name == parts.source), None)
        if map_ is None or map_.values or parts.rows.input != Scan(map_.name, "", map_.keys):
            raise self._broken(f'its rows come from "{parts.source}", which is no map of rows that it has')
        first = [scalar.name for scalar in parts.rows.partition if isinstance(scalar, Column)]
        if len(first) != parts.width or first != [f.name for f in map_.keys[: parts.width]]:
            raise self._broken(f'the first keys of "{map_.name}" are not what its parts are equal in')
        bound = {f.name: f.type for f in parts.rows.fields}
        self._verify_bound(expressions(parts.rows), {f.name: f.type for f in map_.keys}, None)
        if isinstance(parts.rows, Match):
            navigations = {navigation.name: navigation.of for navigation in parts.rows.navigations}
            self._verify_bound([condition for _, condition in parts.rows.conditions], navigations, None)
        self._verify_bound([] if parts.condition is None else [parts.condition], bound, None)
        self._verify_outputs(parts.outputs, bound)

    def _verify_sessions(self, sessions: SessionEmission) -> None:
        instants, kept = (
            next((m for m in self.stage.maps if m.name == n), None) for n in (sessions.source, sessions.kept)
        )
        if instants is None or kept is None or not instants.keys or not kept.values:
            raise self._broken(f'"{sessions.source}" and "{sessions.kept}" are no maps of instants and sessions')
        times = [instants.keys[-1].type, kept.keys[-1].type, kept.values[0].type]
        if instants.keys[:-1] != kept.keys[:-1] or times != [t.TIMESTAMP, t.TIMESTAMP, t.BIGINT]:
            raise self._broken(f'"{sessions.kept}" does not have the keys of sessions of "{sessions.source}"')
        if instants.values != kept.values[1:]:
            raise self._broken(f'"{sessions.kept}" does not have the sums of "{sessions.source}"')
        statements = [*self.stage.load, *(one for trigger in self.stage.triggers for one in trigger.statements)]
        if sessions.gap <= 0 or any(statement.target == sessions.kept for statement in statements):
            raise self._broken(f'"{sessions.kept}" is not made of sessions alone')
        self._verify_finish(sessions.groups)

    def _verify_iteration(self, iteration: IterationEmission) -> None:
        found, kept = (
            next((m for m in self.stage.maps if m.name == n), None) for n in (iteration.source, iteration.kept)
        )
        if found is None or kept is None or found.keys != kept.keys or found.values or kept.values:
            raise self._broken(f'"{iteration.source}" and "{iteration.kept}" are no maps of the same rows')
        if not found.keys or found.keys[0].type != t.BIGINT:
            raise self._broken(f'the first key of "{iteration.source}" is no iteration number')
        targets = {statement.target for statement in iteration.again.statements}
        if iteration.again.relation != iteration.kept or targets - {iteration.source} or iteration.again.each:
            raise self._broken(f'it does not go on from "{iteration.kept}" to "{iteration.source}"')
        self._verify_trigger(iteration.again)
        bound = {f.name: f.type for f in kept.keys[1:]}
        self._verify_bound([] if iteration.condition is None else [iteration.condition], bound, None)
        self._verify_outputs(iteration.outputs, bound)

    def _verify_time_partitions(self, emission: TimePartitionEmission) -> None:
        maps = {map_.name: map_ for map_ in self.stage.maps}
        for problem in time_partition_problems(emission, maps):
            raise self._broken(problem)
        read = {slice_.name: Table(slice_.name, maps[emission.map_of(slice_)].keys) for slice_ in emission.slices}
        for body in emission.bodies:
            verify(body, read)
        bound = {f.name: f.type for f in maps[emission.kept].keys}
        self._verify_bound([] if emission.condition is None else [emission.condition], bound, None)
        self._verify_outputs(emission.outputs, bound)

    def _verify_outputs(self, outputs: tuple[Named, ...], bound: Mapping[str, Type]) -> None:
        self._verify_bound([output.scalar for output in outputs], bound, None)
        if [(o.name, o.scalar.type) for o in outputs] != [(f.name, f.type) for f in self.stage.output]:
            raise self._broken("what it emits is not what it declares as its output")

    def _fields_of(self, relation: str) -> dict[str, Type] | None:
        """The columns of a relation or map; None for a view, which is not among the declared tables."""
        for map_ in self.stage.maps:
            if map_.name == relation:
                return {f.name: f.type for f in map_.keys}
        fields = self.known.get(relation)
        return None if fields is None else {f.name: f.type for f in fields}

    def _broken(self, problem: str, statement: TriggerStatement | None = None) -> BrokenInvariant:
        text = text_of_stage(self.stage) if statement is None else text_of_statement(statement, self.stage)
        return BrokenInvariant(f'stage "{self.stage.name}": {problem}\n{text}')


_WEIGHT: dict[str, Type] = {WEIGHT: t.BIGINT}


def _touched_queries(statement: Replace) -> tuple[Query, ...]:
    touched = statement.touched
    return () if touched is None else (*touched.queries, *touched.otherwise)


def _columns(scalars: Iterable[Scalar]) -> Iterator[Column]:
    """The columns that ``scalars`` read of their row; the parameters of a lambda are its own."""
    for scalar in scalars:
        outside = columns_in(scalar)
        yield from (node for node in walk(scalar) if isinstance(node, Column) and node.name in outside)


def _is_wide(type_: Type) -> bool:
    return isinstance(type_, t.Decimal) and type_.precision == t.MAX_PRECISION
