"""Partial aggregates of a partition, from which the windows that contain it are computed without its rows.

A group of a partition is a row: its keys, how many rows it has, and its *partials*. The groups of several partitions
are merged by grouping these rows: counts and sums are added up, the minimum is the minimum of minima. Sums can be
subtracted as well. The value of each aggregate is computed from a merged row.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field, finalize, function_of, needs_multiset, partial_sums
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, Scan, UnionAll
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BIGINT, DOUBLE, Decimal, Field, Type

SignedPartials = tuple[str, bool]
"""A slice of rows with partials, and true if they are subtracted."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of a group's row: ``call`` over the rows of a partition, merged by ``merge``.

    A sum over no rows is zero and not NULL.
    """

    call: AggregateCall
    merge: str

    @property
    def scalar(self) -> Scalar:
        """The column as an expression over the result of ``call``."""
        found = column(aggregate_field(self.call))
        return call("coalesce", found, _zero(self.call.of)) if self.merge == "sum" else found


@dataclass(frozen=True, slots=True)
class Partials:
    """The columns stored for groups: ``keys``, then the count of rows, then the other partials."""

    keys: tuple[Named, ...]
    columns: tuple[Partial, ...]
    values: tuple[tuple[str, Scalar], ...]

    @property
    def invertible(self) -> bool:
        """True if the partials of a partition can be subtracted from those of a window."""
        return all(partial.merge == "sum" for partial in self.columns)

    def of(self, rows: Relation) -> Relation:
        """The groups of plain rows."""
        return self._shown(Aggregate(rows, self.keys, tuple(partial.call for partial in self.columns)))

    def merged(self, slices: Iterable[SignedPartials]) -> Relation:
        """The merged groups of several slices; a group with count 0 is dropped."""
        scans = [self._scanned(name, negative, f"x{i}") for i, (name, negative) in enumerate(slices)]
        rows = scans[0] if len(scans) == 1 else UnionAll(tuple(scans))
        keys = tuple(Named(key.name, column(f)) for key, f in zip(self.keys, rows.fields, strict=False))
        calls = [
            AggregateCall(partial.call.name, partial.merge, column(f), partial.call.of)
            for partial, f in zip(self.columns, rows.fields[len(keys) :], strict=True)
        ]
        groups = self._shown(Aggregate(rows, keys, tuple(calls)))
        count = column(groups.fields[len(keys)])
        return Filter(groups, call("gt", count, Literal(0, BIGINT))) if self.keys else groups

    def _shown(self, groups: Relation) -> Relation:
        """The row of each group: its keys as they are, its sums without NULLs."""
        keys = [Named(f.name, column(f)) for f in groups.fields[: len(self.keys)]]
        return Project(groups, (*keys, *(Named(partial.call.name, partial.scalar) for partial in self.columns)))

    def _scanned(self, slice_: str, negative: bool, alias: str) -> Relation:
        scan = Scan(slice_, alias, self.fields)
        if not negative:
            return scan
        kept = [Named(f.name, column(f)) for f in scan.fields[: len(self.keys)]]
        taken = [Named(f.name, call("negate", column(f))) for f in scan.fields[len(self.keys) :]]
        return Project(scan, (*kept, *taken))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The stored columns."""
        keys = tuple(key.field for key in self.keys)
        return (*keys, *(Named(partial.call.name, partial.scalar).field for partial in self.columns))


def partials(groups: Aggregate) -> Partials | str:
    """The partials of ``groups``, or the reason why partials are not enough for them."""
    taken = {field.name for field in groups.fields}
    names = (fresh(f"partial_{i}", taken) for i in range(1_000_000))
    rows = AggregateCall(next(names), "count", None, BIGINT)
    found: dict[tuple[object, ...], Partial] = {}
    values: list[tuple[str, Scalar]] = []
    for one in groups.aggregates:
        if one.distinct or (needs_multiset(one) and not function_of(one).merges):
            return f"{one.function.upper()} needs all values of its window"
        calls = _calls(one, names)
        if any(partial.call.of == DOUBLE and partial.merge == "sum" for partial in calls):
            return f"sums of DOUBLE, as in {one.function.upper()}, are exact only over the rows themselves"
        kept = [found.setdefault((p.merge, p.call.argument, p.call.filter), p) for p in calls]
        values.append((one.name, _value(one, [column(Named(p.call.name, p.scalar).field) for p in kept], rows)))
    columns = (Partial(rows, "sum"), *found.values())
    return Partials(groups.keys, columns, tuple(values))


def _calls(one: AggregateCall, names: Iterator[str]) -> list[Partial]:
    if function_of(one).merges:
        return [Partial(replace(one, name=next(names)), one.function)]
    return [Partial(AggregateCall(next(names), "sum", part.argument, part.of), "sum") for part in partial_sums(one)]


def _value(one: AggregateCall, columns: Sequence[Column], rows: AggregateCall) -> Scalar:
    if function_of(one).merges:
        return columns[0]
    return finalize(one, columns, Column(rows.name, BIGINT, nullable=False))


def _zero(type_: Type) -> Literal:
    return Literal(decimal.Decimal(0).scaleb(-type_.scale) if isinstance(type_, Decimal) else 0, type_)
