"""An interpreter of programs: every loop visits every row, every stage compares its rows before and after.

It shares nothing with the runtimes but the program, so it checks the compiler alone, and is an oracle for the runtimes.
Reading what a program does not keep is a KeyError here, which checks ``reads_state`` as well. What the contract
promises of maps is asserted: a count is never negative, over no rows all sums are zero, and what stands by for a seek
gives the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tidemill.algebra.aggregates.partial_sums import LOW
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.functions.comparison import compare
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row, ZSet
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import DOUBLE
from tidemill.program.maps import Map, RingField
from tidemill.program.reads import reads_state, touched_of
from tidemill.program.stages import GroupEmission, Program, Stage
from tidemill.program.statements import (
    ArrayLoop,
    MapRead,
    MapSeek,
    Query,
    Range,
    RelationLoop,
    Replace,
    Step,
    Touched,
    Trigger,
    TriggerStatement,
    Version,
)

Environment = dict[str, Any]
Changes = Mapping[str, ZSet]
Amounts = list[Any]
"""The weight, then each value, as they are to be added."""


@dataclass
class Sums:
    """A map: for each key its weight and its exact sums."""

    map: Map
    entries: dict[Row, Amounts] = field(default_factory=dict)

    def zero(self) -> Amounts:
        return [0, *(Decimal(0) if isinstance(value.type, t.Decimal) else 0 for value in self.map.values)]

    def add(self, key: Row, amounts: Sequence[Any]) -> None:
        self.entries[key] = _sum(self.entries.get(key) or self.zero(), amounts)

    def settle(self) -> None:
        """An entry without rows leaves; it must not have left anything behind."""
        for key, (weight, *values) in list(self.entries.items()):
            assert weight >= 0, f"{self.map.name}{key} has a count of {weight}"
            if weight == 0:
                assert not any(values), f"{self.map.name}{key} sums up {values} over no rows"
                del self.entries[key]


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
        self.replacing: dict[str, Replace] = {}
        self.compared: dict[str, Replace] = {}
        self.loading = False

    @property
    def rows(self) -> ZSet:
        return self.emitted[self.program.view]

    def load(self) -> None:
        """Fill every stage; while that lasts, each stage's rows can be read even where they are not kept."""
        self.loading = True
        for stage in self.program.stages:
            for statement in stage.load:
                self._run(statement, {})
            for trigger in stage.triggers:
                if trigger.each:
                    self._fire(trigger, self.contents.get(trigger.relation, ZSet()))
            self._settle()
            self.contents[stage.name] = self._emit(stage)
        self.contents = {name: rows for name, rows in self.contents.items() if name in self.kept}
        self.loading = False

    def run(self, changes: Changes) -> ZSet:
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
                    self._fire(trigger, change)
        if relation in self.kept:
            self.contents[relation] += change
            assert all(weight > 0 for weight in self.contents[relation].values()), f"{relation} went below zero"

    def _fire(self, trigger: Trigger, change: ZSet) -> None:
        parts = [ZSet({row: weight}) for row, weight in change.items()] if trigger.each else [change]
        touched = [] if self.loading else touched_of(trigger)
        for part in parts:
            changes = {trigger.relation: part}
            before = [self._guarded(of, target, changes) for target, of in touched]
            for statement in trigger.statements:
                if not (touched and isinstance(statement, Replace)):
                    self._run(statement, changes)
            for (target, of), taken in zip(touched, before, strict=True):
                for row, amounts in self._guarded(of, target, changes).items():
                    self._add(target, row, amounts)
                for row, amounts in taken.items():
                    self._add(target, row, [-amount for amount in amounts])
            self._settle()
        self.compared |= {s.target: s for s in trigger.statements if touched and isinstance(s, Replace)}

    def _settle(self) -> None:
        for name, sums in self.maps.items():
            if name not in self.replacing:  # what is added to a map that will be replaced means nothing
                sums.settle()

    def _run(self, statement: TriggerStatement, changes: Changes) -> None:
        if isinstance(statement, Replace):
            self.replacing[statement.target] = statement
            return
        # All rows are found before any is added: a statement never sees its own effect.
        for row, amounts in list(self._rows(statement.query, statement.target, changes)):
            self._add(statement.target, row, amounts)

    def _add(self, target: str, row: Row, amounts: Amounts) -> None:
        if target in self.maps:
            self.maps[target].add(row, amounts)
        else:
            self.pending[target].add(row, amounts[0])

    # ------------------------------------------------------------------------------------------------------ emitting

    def _emit(self, stage: Stage) -> ZSet:
        for target in [target for target in self.replacing if self._belongs(target, stage)]:
            self._replace(self.replacing.pop(target))
        self._settle()
        for target in [target for target in self.compared if self._belongs(target, stage)]:
            self._compare(self.compared.pop(target))
        if stage.finish is None:
            change = self.pending.pop(stage.name, ZSet())
        else:
            change = self._finished(stage.finish) - self.emitted[stage.name]
        self.emitted[stage.name] += change
        return change

    def _belongs(self, target: str, stage: Stage) -> bool:
        return target == stage.name or target in {map_.name for map_ in stage.maps}

    def _compare(self, statement: Replace) -> None:
        """Check that what rows have touched one by one is what the whole gives."""
        rows, target = self._guarded(statement, statement.target, {}), statement.target
        if target in self.maps:
            assert self.maps[target].entries == rows, f"{target} differs from its recomputation"
        else:
            emitted = self.emitted[target] + self.pending[target]
            assert emitted == ZSet({row: weight for row, (weight, *_) in rows.items()}), f"{target} differs"

    def _guarded(self, statement: Replace | Touched, target: str, changes: Changes) -> dict[Row, Amounts]:
        rows = self._summed(statement.queries, target, changes)
        if statement.guards:
            otherwise = self._summed(statement.otherwise, target, changes)
            negative = any(self._is_negative(name, value) for name, value in statement.guards)
            assert negative or rows == otherwise, f"{target} differs with and without seeks"
            rows = otherwise if negative else rows
        return rows

    def _replace(self, statement: Replace) -> None:
        rows = self._guarded(statement, statement.target, {})
        if statement.target in self.maps:
            self.maps[statement.target].entries.clear()
        else:
            self.pending[statement.target] = -self.emitted[statement.target]
        for row, amounts in rows.items():
            self._add(statement.target, row, amounts)

    def _summed(self, queries: Sequence[Query], target: str, changes: Changes) -> dict[Row, Amounts]:
        sums: dict[Row, Amounts] = {}
        for query in queries:
            for row, amounts in self._rows(query, target, changes):
                sums[row] = _sum(sums[row], amounts) if row in sums else amounts
        return {row: amounts for row, amounts in sums.items() if any(amounts)}

    def _is_negative(self, name: str, value: str) -> bool:
        sums = self.maps[name]
        place = [WEIGHT, *(v.name for v in sums.map.values)].index(value)
        return any(entry[place] < 0 for entry in sums.entries.values())

    def _finished(self, finish: GroupEmission) -> ZSet:
        sums = self.maps[finish.source]
        names = [f.name for f in sums.map.keys] + [WEIGHT] + [value.name for value in sums.map.values]
        entries = sums.entries
        if finish.always:
            entries = {(): sums.zero()} | entries
        result = ZSet()
        for key, entry in entries.items():
            seen = map(_seen, entry[1:], sums.map.values)
            row = dict(zip(names, (*key, entry[0], *seen), strict=True)) | _low_halves(entry[1:], sums.map.values)
            if (entry[0] > 0 or finish.always) and _all([finish.condition] if finish.condition else [], row):
                result.add(tuple(evaluate_scalar(output.scalar, row) for output in finish.outputs), 1)
        return result

    # ------------------------------------------------------------------------------------------------------- queries

    def _rows(self, query: Query, target: str, changes: Changes) -> Iterator[tuple[Row, Amounts]]:
        """The keys that a query finds, with what it adds to each."""
        arity = len(self.maps[target].map.keys) if target in self.maps else len(query.outputs)
        if not _all(query.filters, {}):
            return
        for bound, times in self._loop(query.sources, {}, changes):
            found = [evaluate_scalar(output.scalar, bound) for output in query.outputs]
            if query.weight is None:
                amounts = [times, *(_times(value, times) for value in found[arity:])]
            else:
                amounts = [evaluate_scalar(query.weight, bound), *found[arity:]]
            yield tuple(found[:arity]), [0 if amount is None else amount for amount in amounts]

    def _loop(self, steps: tuple[Step, ...], bound: Environment, changes: Changes) -> Iterator[tuple[Environment, int]]:
        if not steps:
            yield bound, 1
            return
        step, *rest = steps
        for found, weight in self._found(step, bound, changes):
            here = bound | {f"{step.alias}.{name}": value for name, value in found.items()}
            if _all(step.filters, here):
                for inner, times in self._loop(tuple(rest), here, changes):
                    yield inner, weight * times

    def _found(self, step: Step, bound: Environment, changes: Changes) -> Iterator[tuple[Environment, int]]:
        """What a step binds, and how often."""
        if isinstance(step, RelationLoop):
            for row, weight, values in self._entries(step, changes):
                named = dict(zip(self._names(step.relation), row, strict=True))
                if _matches(step.lookup, named, bound):
                    columns = {f.name: named[f.name] for f in step.columns}
                    sums = {value.name: values[value.name] for value in step.values}
                    yield {**columns, **sums, WEIGHT: weight}, weight
            return
        if isinstance(step, ArrayLoop):
            yield from ((place, 1) for place in _elements(step, bound))
            return
        entries = self._under(step, bound)
        yield (self._read(step, entries, bound) if isinstance(step, MapRead) else self._sought(step, entries, bound)), 1

    def _entries(self, source: RelationLoop, changes: Changes) -> Iterator[tuple[Row, int, Environment]]:
        if source.version is Version.CHANGE:
            yield from ((row, weight, {}) for row, weight in changes[source.relation].items())
        elif source.relation in self.maps:
            sums = self.maps[source.relation]
            for key, (weight, *values) in sums.entries.items():
                yield key, weight, dict(zip((value.name for value in sums.map.values), values, strict=True))
        else:
            yield from ((row, weight, {}) for row, weight in self.contents[source.relation].items())

    def _under(self, step: MapRead | MapSeek, bound: Environment) -> list[tuple[Environment, Amounts]]:
        """The entries that a lookup finds, by key."""
        sums, names = self.maps[step.map], self._names(step.map)
        named = [(dict(zip(names, key, strict=True)), entry) for key, entry in sums.entries.items()]
        return [(key, entry) for key, entry in named if _matches(step.lookup, key, bound)]

    def _read(self, read: MapRead, entries: list[tuple[Environment, Amounts]], bound: Environment) -> Environment:
        total = self.maps[read.map].zero()
        for key, entry in entries:
            if read.range is None or _within(key[read.range.column], read.range, bound):
                total = _sum(total, entry)
        return self._numbers(read.map, total)

    def _sought(self, seek: MapSeek, entries: list[tuple[Environment, Amounts]], bound: Environment) -> Environment:
        """The entry nearest to the end of large sums at which the condition holds."""
        name = seek.column.name
        known = [(key[name], entry) for key, entry in entries if key[name] is not None]
        ordered = sorted(known, key=lambda pair: pair[0], reverse=seek.after)
        running, held = self.maps[seek.map].zero(), []
        for key, entry in ordered:
            sums = {f"{seek.alias}.{n}": value for n, value in self._numbers(seek.map, running).items()}
            held.append((key, evaluate_scalar(seek.condition, bound | sums) is True))
            running = _sum(running, entry)
        return {name: next((key for key, holds in reversed(held) if holds), None)}

    def _numbers(self, name: str, entry: Amounts) -> Environment:
        return dict(zip([WEIGHT, *(value.name for value in self.maps[name].map.values)], entry, strict=True))

    def _names(self, relation: str) -> list[str]:
        return [f.name for f in self.maps[relation].map.keys] if relation in self.maps else self.fields[relation]


def _elements(each: ArrayLoop, bound: Environment) -> list[Environment]:
    """What an array binds, element by element."""
    names = [f.name for f in each.columns]
    elements = evaluate_scalar(each.array, bound) or ()
    places = [dict(zip(names, place[-len(names) :], strict=True)) for place in enumerate(elements)]
    return places or ([dict.fromkeys(names)] if each.outer else [])


def _matches(lookup: tuple[tuple[str, Any], ...], values: Environment, bound: Environment) -> bool:
    keys = [(values[name], evaluate_scalar(key, bound)) for name, key in lookup]
    return all(own is not None and key is not None and compare(own, key) == 0 for own, key in keys)


def _within(key: Any, range_: Range, bound: Environment) -> bool:
    if key is None:
        return False
    for end, side in ((range_.lower, 1), (range_.upper, -1)):
        if end is not None:
            limit = evaluate_scalar(end.scalar, bound)
            order = None if limit is None else compare(key, limit) * side
            if order is None or not (order > 0 or (order == 0 and end.closed)):
                return False
    return True


def _sum(one: Sequence[Any], other: Sequence[Any]) -> Amounts:
    return [_plus(a, b) for a, b in zip(one, other, strict=True)]


def _plus(one: Any, other: Any) -> Any:
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        return EXACT.add(Decimal(one), Decimal(other))
    return one + (Fraction(other) if isinstance(other, float) else other)


def _times(value: Any, weight: int) -> Any:
    if value is None:
        return 0
    if isinstance(value, Decimal):
        return EXACT.multiply(value, Decimal(weight))
    return weight * (Fraction(value) if isinstance(value, float) else value)


def _seen(total: Any, value: RingField) -> Any:
    return float(total) if value.type == DOUBLE else total


def _low_halves(totals: Sequence[Any], values: Sequence[RingField]) -> dict[str, float]:
    pairs = [(total, value) for total, value in zip(totals, values, strict=True) if value.type == DOUBLE]
    return {value.name + LOW: float(total - Fraction(float(total))) for total, value in pairs}


def _all(conditions: Any, row: Environment) -> bool:
    return all(evaluate_scalar(condition, row) is True for condition in conditions)
