"""Point reads: a SELECT of columns of one table or view by all columns of its key, from memory and without waiting.

What the query means is as ever: only equalities between columns and parameters of the same type, and plain columns, are
taken, so the row under the key is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan
from tidemill.compiler.frontends.translate import TranslatedQuery
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.reading.keyed_reads import keyed_relation
from tidemill.engine.results import Result, present_rows
from tidemill.engine.statements.prepared_statements.parameters import Parameters
from tidemill.model import types as t
from tidemill.model.types import Field, Type

__all__ = ["PARAMETER", "PointRead", "point_read"]

PARAMETER = "parameter "
"""Prefix of the names of columns that stand for parameters."""

KEY_TYPES: tuple[type[Type], ...] = (
    *(t.Boolean, t.TinyInt, t.SmallInt, t.Int, t.BigInt, t.String, t.Date, t.Time, t.Timestamp, t.TimestampNtz),
)
"""Types whose values are equal in SQL exactly if they are equal in Python."""


HOLD_AFTER = 20
"""Number of point reads of a text that have to wait before what they read is brought to memory."""


@dataclass
class PointRead:
    """The parts of a point read: whose parameters are the key, and which columns of the row are wanted."""

    relation: str
    key_positions: tuple[int, ...]
    markers: tuple[str, ...]
    outputs: tuple[int, ...]
    fields: tuple[Field, ...]
    missed: int = 0

    def note_missed(self, engine: Engine) -> None:
        """Note a read that ``now`` could not answer; after several the relation is held in memory."""
        self.missed += 1
        if self.missed % HOLD_AFTER == 0:
            with engine.settled():
                engine.placement.native.hold(self.relation, self.key_positions)

    def now(self, engine: Engine, given: Parameters) -> Result | None:
        """The answer, if the row is in memory and nobody holds the warehouse; else None, at once."""
        if engine.transactions.by_owner or engine.catalog.guarded or engine.state.read_only:
            return None
        key = tuple([given[marker].value for marker in self.markers])
        if not engine.lock.acquire(blocking=False):
            return None
        try:
            if engine.state.closed or not engine.transaction.settled:
                return None
            rows = engine.placement.native.find_in_memory(self.relation, self.key_positions, key)
        finally:
            engine.lock.release()
        if rows is None:
            return None
        engine.reads[self.relation] += 1
        outputs = self.outputs
        return Result(present_rows([tuple([row[i] for i in outputs]) for row in rows], self.fields), self.fields)


def point_read(engine: Engine, query: TranslatedQuery) -> PointRead | None:
    """A translated SELECT as a point read; None if it is none."""
    if query.order or query.limit is not None or query.offset or query.visible != len(query.relation.fields):
        return None
    if engine.placement.lookup is not engine.placement.native or not engine.rights.reads_all:
        return None
    parts = _parts(push_down_filters(query.relation))
    if parts is None:
        return None
    scan, condition, outputs = parts
    keyed = keyed_relation(engine.catalog, scan.relation)
    equal = _equalities(condition)
    if keyed is None or equal is None:
        return None
    names = [field.name for field in scan.fields]
    by_place = {names.index(column): marker for column, marker in equal.items() if column in names}
    if len(by_place) != len(equal) or by_place.keys() != set(keyed.key_positions):
        return None
    if not all(output in names for output in outputs):
        return None
    markers = tuple(by_place[place] for place in keyed.key_positions)
    places = tuple(names.index(output) for output in outputs)
    return PointRead(scan.relation, keyed.key_positions, markers, places, tuple(query.relation.fields))


def _parts(node: Relation) -> tuple[Scan, Scalar, list[str]] | None:
    """The scan, the condition, and the columns of the scan that come out, in order."""
    outputs: list[str] | None = None
    while isinstance(node, Project):
        below = {out.name: out.scalar for out in node.outputs}
        if not all(isinstance(scalar, Column) for scalar in below.values()):
            return None
        names = list(below) if outputs is None else outputs
        if not all(name in below for name in names):
            return None
        outputs = [below[name].name for name in names]  # type: ignore[attr-defined]
        node = node.input
    if not isinstance(node, Filter) or not isinstance(node.input, Scan):
        return None
    return node.input, node.condition, outputs or [field.name for field in node.input.fields]


def _equalities(condition: Scalar) -> Mapping[str, str] | None:
    """The parameter that each column must equal; None if the condition says anything else."""
    found: dict[str, str] = {}
    for part in conjuncts(condition):
        if not (isinstance(part, Call) and part.function == "eq"):
            return None
        sides: list[Any] = sorted(part.arguments, key=lambda side: _is_parameter(side))
        column, parameter = sides
        if not (isinstance(column, Column) and _is_parameter(parameter)) or _is_parameter(column):
            return None
        if column.of != parameter.of or type(column.of) not in KEY_TYPES or column.name in found:
            return None
        found[column.name] = parameter.name.removeprefix(PARAMETER)
    return found


def _is_parameter(scalar: Scalar) -> bool:
    return isinstance(scalar, Column) and scalar.name.startswith(PARAMETER)
