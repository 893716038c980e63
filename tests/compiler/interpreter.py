"""Programs run by the plainest means: every loop visits every row, every stage compares its rows before and after.

It shares nothing with the runtimes but the program, so it checks the compiler alone. Reading what a program does not
keep is a KeyError here, which checks ``reads_state`` as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.changes.zset import Row, ZSet
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import DOUBLE
from tidemill.program.maps import Map, Value
from tidemill.program.reads import queries_of, reads_state
from tidemill.program.statements import Add, Finish, Program, Query, Source, Stage, Statement, Version

Environment = dict[str, Any]


@dataclass
class Sums:
    """A map: for each key its weight and its exact sums."""

    map: Map
    entries: dict[Row, list[Any]] = field(default_factory=dict)

    def add(self, row: Row, weight: int) -> None:
        key, values = row[: len(self.map.keys)], row[len(self.map.keys) :]
        entry = self.entries.setdefault(key, [0] * (1 + len(values)))
        entry[0] += weight
        for i, value in enumerate(values, 1):
            if value is not None:
                entry[i] += weight * (Fraction(value) if isinstance(value, float) else value)

    def keys(self) -> ZSet:
        return ZSet({key: entry[0] for key, entry in self.entries.items() if entry[0]})


class Interpreter:
    """One view over tables: ``load`` it, then ``run`` epochs; ``rows`` is the sum of what it emitted."""

    def __init__(self, program: Program, tables: Mapping[str, Table], contents: Mapping[str, ZSet]) -> None:
        self.program = program
        self.fields = {name: [f.name for f in table.fields] for name, table in tables.items()}
        self.fields |= {stage.name: [f.name for f in stage.output] for stage in program.stages}
        self.kept = {name for name, table in tables.items() if table.kept} | reads_state(program) | {program.view}
        self.contents = {name: ZSet(contents.get(name, {})) for name in self.kept}
        self.maps = {map_.name: Sums(map_) for stage in program.stages for map_ in stage.maps}
        self.pending: dict[str, ZSet] = defaultdict(ZSet)
        self.emitted: dict[str, ZSet] = defaultdict(ZSet)
        self.replacing: dict[str, Statement] = {}

    @property
    def rows(self) -> ZSet:
        return self.emitted[self.program.view]

    def load(self) -> None:
        """Fill every stage; while that lasts, each stage's rows can be read even where they are not kept."""
        for stage in self.program.stages:
            for statement in stage.load:
                self._run(statement, {})
            self.contents[stage.name] = self._emit(stage)
        self.contents = {name: rows for name, rows in self.contents.items() if name in self.kept}

    def run(self, changes: Mapping[str, ZSet]) -> ZSet:
        """One epoch; the net change of the view."""
        for relation, change in changes.items():
            self._handle(relation, change)
        emitted = ZSet()
        for stage in self.program.stages:
            emitted = self._emit(stage)
            self._handle(stage.name, emitted)
        return emitted

    def _handle(self, relation: str, change: ZSet) -> None:
        if not change:
            return
        for stage in self.program.stages:
            for trigger in stage.triggers:
                if trigger.relation == relation:
                    for statement in trigger.statements:
                        self._run(statement, {relation: change})
        if relation in self.kept:
            self.contents[relation] += change
            assert all(weight > 0 for weight in self.contents[relation].values()), f"{relation} went below zero"

    def _run(self, statement: Statement, changes: Mapping[str, ZSet]) -> None:
        if not isinstance(statement, Add):
            self.replacing[statement.target] = statement
            return
        # All rows are found before any is added: a statement never sees its own effect.
        for row, weight in list(self._rows(statement.query, changes)):
            self._add(statement.target, row, weight)

    def _add(self, target: str, row: Row, weight: int) -> None:
        if target in self.maps:
            self.maps[target].add(row, weight)
        else:
            self.pending[target].add(row, weight)

    def _emit(self, stage: Stage) -> ZSet:
        for target in [target for target in self.replacing if self._belongs(target, stage)]:
            self._replace(self.replacing.pop(target))
        if stage.finish is None:
            change = self.pending.pop(stage.name, ZSet())
        else:
            change = self._finished(stage.finish) - self.emitted[stage.name]
        self.emitted[stage.name] += change
        return change

    def _belongs(self, target: str, stage: Stage) -> bool:
        return target == stage.name or target in {map_.name for map_ in stage.maps}

    def _replace(self, statement: Statement) -> None:
        rows = [pair for query in queries_of(statement) for pair in self._rows(query, {})]
        if statement.target in self.maps:
            self.maps[statement.target].entries.clear()
        else:
            self.pending[statement.target] = -self.emitted[statement.target]
        for row, weight in rows:
            self._add(statement.target, row, weight)

    def _finished(self, finish: Finish) -> ZSet:
        sums = self.maps[finish.source]
        names = [f.name for f in sums.map.keys] + [WEIGHT] + [value.name for value in sums.map.values]
        entries = sums.entries
        if finish.always:
            entries = {(): [0] * (1 + len(sums.map.values))} | entries
        result = ZSet()
        for key, entry in entries.items():
            seen = map(_seen, entry[1:], sums.map.values)
            row = dict(zip(names, (*key, entry[0], *seen), strict=True))
            if (entry[0] > 0 or finish.always) and _all([finish.condition] if finish.condition else [], row):
                result.add(tuple(evaluate_scalar(output.scalar, row) for output in finish.outputs), 1)
        return result

    def _rows(self, query: Query, changes: Mapping[str, ZSet]) -> Iterator[tuple[Row, int]]:
        if _all(query.filters, {}):
            for bound, weight in self._loop(query.sources, {}, changes):
                yield tuple(evaluate_scalar(output.scalar, bound) for output in query.outputs), weight

    def _loop(
        self, sources: tuple[Source, ...], bound: Environment, changes: Mapping[str, ZSet]
    ) -> Iterator[tuple[Environment, int]]:
        if not sources:
            yield bound, 1
            return
        source, *rest = sources
        rows = changes[source.relation] if source.version is Version.CHANGE else self._state(source.relation)
        names = self._names(source.relation)
        for row, weight in rows.items():
            values = dict(zip(names, row, strict=True))
            here = bound | {f"{source.alias}.{f.name}": values[f.name] for f in source.columns}
            if _found(source, values, bound) and _all(source.filters, here):
                for inner, times in self._loop(tuple(rest), here, changes):
                    yield inner, weight * times

    def _state(self, relation: str) -> ZSet:
        return self.maps[relation].keys() if relation in self.maps else self.contents[relation]

    def _names(self, relation: str) -> list[str]:
        return [f.name for f in self.maps[relation].map.keys] if relation in self.maps else self.fields[relation]


def _found(source: Source, values: Environment, bound: Environment) -> bool:
    keys = [(values[name], evaluate_scalar(key, bound)) for name, key in source.lookup]
    return all(own is not None and own == key for own, key in keys)


def _seen(total: Any, value: Value) -> Any:
    return float(total) if value.type == DOUBLE else total


def _all(conditions: Any, row: Environment) -> bool:
    return all(evaluate_scalar(condition, row) is True for condition in conditions)
