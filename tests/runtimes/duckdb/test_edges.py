"""Functions and casts at the edges of every type: DuckDB's value is the evaluator's, or it reports an error."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from tests.algebra.grids import EDGES, GROUPS, Group
from tests.runtimes.duckdb.asked import asked
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Cast, Column, Literal, Named, Scalar
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.values.casts import can_cast
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TidemillError
from tidemill.model.types import Field, Type
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import NotAnswered

Row = tuple[Any, ...]

FAULT = object()
"""In place of a value: the evaluator refuses the row."""


def _fields(types: Sequence[Type]) -> tuple[Field, ...]:
    return (Field("row", t.INT), *(Field(f"a{i}", type_) for i, type_ in enumerate(types)))


def _differences(scalar: Scalar, types: Sequence[Type], rows: Sequence[Row], counts: Counter[str]) -> Iterator[str]:
    """The rows for which the evaluator and DuckDB have different values."""
    expected = {number: _value(scalar, row) for number, row in enumerate(rows)}
    fine = [number for number, value in expected.items() if value is not FAULT]
    try:
        found = _asked(scalar, types, [(number, rows[number]) for number in fine])
    except NotAnswered as error:
        if isinstance(error, NotLowered):
            return
        found = {}
        for number in fine:  # one of them is an error for DuckDB, and what that is may be asked of a runtime
            try:
                found |= _asked(scalar, types, [(number, rows[number])])
            except NotAnswered:
                counts["errors of DuckDB alone"] += 1
    for number, value in found.items():
        counts["values"] += 1
        if not _same(value, expected[number]):
            yield f"{scalar} of {rows[number]}: {value!r}, not {expected[number]!r}"
    for number in expected.keys() - set(fine):
        try:
            value = _asked(scalar, types, [(number, rows[number])])[number]
        except NotAnswered:
            counts["faults"] += 1
        else:
            yield f"{scalar} of {rows[number]}: {value!r}, not an error"


def _value(scalar: Scalar, row: Row) -> Any:
    try:
        return evaluate_scalar(scalar, {f"a{i}": value for i, value in enumerate(row)})
    except ArithmeticFault:
        return FAULT


def _asked(scalar: Scalar, types: Sequence[Type], rows: Sequence[tuple[int, Row]]) -> dict[int, Any]:
    fields = _fields(types)
    project = Project(Scan("g", "", fields), (Named("row", Column("row", t.INT)), Named("x", scalar)))
    table = ZSet.of((number, *row) for number, row in rows)
    return dict(asked(project, {"g": table}, {"g": fields}).zset().keys())


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def _calls(group: Group) -> Iterator[tuple[Scalar, Sequence[Row]]]:
    """Each function of a group over columns; and, as some arguments must be constants, over these row by row."""
    columns = [Column(f"a{i}", type_) for i, type_ in enumerate(group.types)]
    for name in group.names:
        try:
            scalar = call(name, *columns, *group.constants)
        except TidemillError:
            continue
        yield scalar, group.grid()
        if t.STRING in group.types and len(columns) > 1:
            for row in group.grid()[:40]:
                constants = [Literal(value, type_) for value, type_ in zip(row[1:], group.types[1:], strict=True)]
                with suppress(TidemillError):
                    yield call(name, columns[0], *constants, *group.constants), [row]


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_functions(number: int) -> None:
    group, counts = GROUPS[number], Counter[str]()
    wrong = [fault for scalar, rows in _calls(group) for fault in _differences(scalar, group.types, rows, counts)]
    assert not wrong, "\n".join(wrong)


MORE_EDGES: dict[Type, list[Any]] = {
    **EDGES,
    t.Decimal(5, 2): [*EDGES[t.Decimal(5, 2)], Decimal("-0.05"), Decimal("0.50"), Decimal("-0.50"), Decimal("-999.99")],
    t.Decimal(15, 4): [None, Decimal("99999999999.9999"), Decimal("0.0001"), Decimal("-1.4500"), Decimal("2.5000")],
    t.DATE: [*EDGES[t.DATE], datetime.date(9999, 12, 31)],
    t.TIMESTAMP: [*EDGES[t.TIMESTAMP], datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)],
}
SIMPLE = [type_ for type_ in MORE_EDGES if not isinstance(type_, t.Array | t.Struct)]
TARGETS = [*SIMPLE, t.Decimal(3, 1), t.Decimal(10, 0), t.Decimal(38, 18)]


@pytest.mark.parametrize("source", SIMPLE, ids=str)
@pytest.mark.parametrize("lenient", [False, True])
def test_casts(source: Type, lenient: bool) -> None:
    rows, counts = [(value,) for value in MORE_EDGES[source]], Counter[str]()
    casts = [Cast(Column("a0", source), target, lenient) for target in TARGETS if can_cast(source, target)]
    wrong = [fault for cast in casts for fault in _differences(cast, [source], rows, counts)]
    assert not wrong, "\n".join(wrong)
