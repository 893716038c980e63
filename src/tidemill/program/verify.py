"""The invariants of programs, checked on every compile. What breaks one is a bug of ours and never the user's fault.

- Names are unique; a stage reads tables, views and earlier stages only.
- Each stage has one trigger for each of its inputs, and no other.
- A column is bound before it is used, with the type that it has; a source reads only columns that are there.
- A statement adds to a map of its stage or to the stage's own output, with as many columns, of types that fit.
- An Add reads the change of its trigger's relation at least once and no other change; a load and a Replace read none.
- No statement reads a map that an earlier statement of its trigger has added to: triggers see the state before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidemill.algebra.scalars import Column, Scalar
from tidemill.algebra.walk import walk
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field, Type
from tidemill.program.maps import Map
from tidemill.program.reads import queries_of
from tidemill.program.statements import Add, Finish, Program, Query, Source, Stage, Statement, Trigger, Version
from tidemill.program.text import text_of_stage, text_of_statement


class BrokenInvariant(Exception):
    """The compiler made a program that no runtime should run. The message names the statement and shows its text."""


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
        if self.stage.finish is not None:
            self._verify_finish(self.stage.finish)

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
        added: set[str] = set()
        for statement in trigger.statements:
            self._verify_statement(statement, trigger.relation)
            for query in queries_of(statement):
                for source in query.sources:
                    if source.version is Version.STATE and source.relation in added:
                        raise self._broken(f'it reads "{source.relation}" after adding to it', statement)
            added.add(statement.target)

    def _verify_statement(self, statement: Statement, changed: str | None) -> None:
        for query in queries_of(statement):
            self._verify_query(query, statement)
            self._verify_target(query, statement)
            self._verify_changes(query, statement, changed if isinstance(statement, Add) else None)

    def _verify_changes(self, query: Query, statement: Statement, changed: str | None) -> None:
        read = {source.relation for source in query.sources if source.version is Version.CHANGE}
        if read != (set() if changed is None else {changed}):
            wanted = "no change" if changed is None else f'the change of "{changed}"'
            raise self._broken(f"it should read {wanted} but reads the changes of {sorted(read)}", statement)

    def _verify_query(self, query: Query, statement: Statement) -> None:
        bound: dict[str, Type] = {}
        self._verify_bound(query.filters, bound, statement)
        for source in query.sources:
            self._verify_source(source, bound, statement)
        self._verify_bound([output.scalar for output in query.outputs], bound, statement)

    def _verify_source(self, source: Source, bound: dict[str, Type], statement: Statement) -> None:
        """Check the source and bind its columns: a lookup sees only the sources before it, a filter this one too."""
        self._verify_bound([key for _, key in source.lookup], bound, statement)
        own = {f.name: f.type for f in source.columns}
        there = self._fields_of(source.relation)
        for f in source.columns:
            if there is not None and own[f.name] != there.get(f.name):
                raise self._broken(f'"{source.relation}" has no column {f}', statement)
        for name, key in source.lookup:
            if name not in own or not _comparable(own[name], key.type):
                raise self._broken(f'"{source.alias}.{name}" cannot be looked up by a {key.type}', statement)
        for f in source.columns:
            if f"{source.alias}.{f.name}" in bound:
                raise self._broken(f'"{source.alias}.{f.name}" is bound twice', statement)
            bound[f"{source.alias}.{f.name}"] = f.type
        self._verify_bound(source.filters, bound, statement)

    def _verify_bound(self, scalars: Iterable[Scalar], bound: Mapping[str, Type], statement: Statement | None) -> None:
        for column in _columns(scalars):
            if column.name not in bound:
                raise self._broken(f'column "{column.name}" is used before it is bound', statement)
            of = bound[column.name]
            if of != column.of:
                raise self._broken(f'column "{column.name}" is used as {column.of}, but it is {of}', statement)

    def _verify_target(self, query: Query, statement: Statement) -> None:
        given = [output.scalar.type for output in query.outputs]
        map_ = next((map_ for map_ in self.stage.maps if map_.name == statement.target), None)
        if map_ is None and (statement.target != self.stage.name or self.stage.finish is not None):
            raise self._broken(f'it adds to "{statement.target}", which the stage does not have', statement)
        keys = [f.type for f in (self.stage.output if map_ is None else map_.keys)]
        values = [] if map_ is None else [value.type for value in map_.values]
        sums = given[len(keys) :]
        if given[: len(keys)] != keys or len(sums) != len(values) or not all(map(_sums_up, sums, values)):
            wanted, got = (", ".join(map(str, types)) for types in (keys + values, given))
            raise self._broken(f'"{statement.target}" takes ({wanted}) and not ({got})', statement)

    def _verify_finish(self, finish: Finish) -> None:
        map_ = next((map_ for map_ in self.stage.maps if map_.name == finish.source), None)
        if map_ is None:
            raise self._broken(f'its rows come from "{finish.source}", which it does not have')
        bound: dict[str, Type] = {f.name: f.type for f in map_.keys} | {v.name: v.type for v in map_.values}
        bound[WEIGHT] = t.BIGINT
        condition = [] if finish.condition is None else [finish.condition]
        self._verify_bound([*condition, *(output.scalar for output in finish.outputs)], bound, None)
        if [(o.name, o.scalar.type) for o in finish.outputs] != [(f.name, f.type) for f in self.stage.output]:
            raise self._broken("what it emits is not what it declares as its output")

    def _fields_of(self, relation: str) -> dict[str, Type] | None:
        """The columns of a relation or map; None for a view, which is not among the declared tables."""
        for map_ in self.stage.maps:
            if map_.name == relation:
                return {f.name: f.type for f in map_.keys}
        fields = self.known.get(relation)
        return None if fields is None else {f.name: f.type for f in fields}

    def _broken(self, problem: str, statement: Statement | None = None) -> BrokenInvariant:
        text = text_of_stage(self.stage) if statement is None else text_of_statement(statement, self.stage)
        return BrokenInvariant(f'stage "{self.stage.name}": {problem}\n{text}')


def _columns(scalars: Iterable[Scalar]) -> Iterator[Column]:
    for scalar in scalars:
        yield from (node for node in walk(scalar) if isinstance(node, Column))


def _comparable(column: Type, key: Type) -> bool:
    """Exact numbers of any width are equal as numbers; everything else must be of one type."""
    exact = (t.Int, t.BigInt, t.Decimal)
    return column == key or (isinstance(column, exact) and isinstance(key, exact))


def _sums_up(argument: Type, ring: Type) -> bool:
    """Whether values of type ``argument`` can be summed in ``ring`` without loss."""
    if isinstance(argument, t.Decimal) and isinstance(ring, t.Decimal):
        return argument.scale == ring.scale
    return argument == ring or (ring == t.BIGINT and isinstance(argument, t.INTEGRAL))


def _is_wide(type_: Type) -> bool:
    return isinstance(type_, t.Decimal) and type_.precision == t.MAX_PRECISION
