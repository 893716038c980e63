"""Every function and cast on a grid of edge values, value and type, against Spark itself.

Spark gets each call twice: as a user writes it, so that Spark resolves the types itself, and as our runtime spells what
``call`` made of it. Where we say that a row is an error, Spark must say so too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.algebra.grids import EDGES, GROUPS, READABLE, Group, spark_errs
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import aggregate_type, finalize, partial_sums
from tidemill.algebra.evaluate import aggregate_value, evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.derived_functions import DERIVED_FUNCTIONS
from tidemill.algebra.expressions.scalars import Cast, Column, Literal, Scalar
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.values.casts import can_cast
from tidemill.changes.arrow import from_arrow
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field, Type
from tidemill.runtimes.spark.lowering.sql_text import expression_sql, literal_sql, type_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INEXACT = {
    "exp", "ln", "log", "log10", "log2", "log1p", "power", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "degrees", "radians",
}  # fmt: skip
"""Java and C may differ in the last digit here."""

FAULT = object()

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Trial:
    """One expression over the columns of a grid: ours, and as a user would write it in Spark."""

    name: str
    label: str
    scalar: Scalar
    written: str


def trials_of(group: Group) -> Iterator[Trial]:
    columns = [Column(f"a{i}", type_) for i, type_ in enumerate(group.types)]
    texts = [f"`{column.name}`" for column in columns] + [_written(literal) for literal in group.constants]
    for name in group.names:
        scalar = call(name, *columns, *group.constants)
        label = f"{name}({', '.join(map(str, (*group.types, *texts[len(columns) :])))})"
        yield Trial(name, label, scalar, _spelled(name, texts, scalar.type))


def _spelled(name: str, texts: Sequence[str], of: Type) -> str:
    """How a user writes a call. A form has no spelling of its own, but Spark knows it by its name."""
    if name in WRITTEN and len(texts) > 1:
        return WRITTEN[name].format(*texts)
    return f"{name}({', '.join(texts)})" if name in DERIVED_FUNCTIONS else FUNCTIONS[name].spell(texts, of)


WRITTEN = {
    "between": "{0} BETWEEN {1} AND {2}",
    "ilike": "{0} ILIKE {1}",
    "get_field": "{0}.name",
    "trim": "trim(BOTH {1} FROM {0})",
    "ltrim": "trim(LEADING {1} FROM {0})",
    "rtrim": "trim(TRAILING {1} FROM {0})",
}


def _written(literal: Literal) -> str:
    match literal.of:
        case t.BigInt():
            return f"{literal.value}L"
        case t.String():
            return f"'{literal.value}'"
    return str(literal.value).lower()


def test_functions(interpreted_spark: SparkSession) -> None:
    problems = []
    for group in GROUPS:
        problems += differences(interpreted_spark, group.types, group.grid(), list(trials_of(group)))
    assert problems == []


@pytest.mark.parametrize("source", list(EDGES), ids=str)
def test_casts(interpreted_spark: SparkSession, source: Type) -> None:
    values = READABLE if source == t.STRING else EDGES[source]
    targets = [target for target in (*EDGES, t.Decimal(10, 0)) if can_cast(source, target)]
    timeless = [target for target in targets if target != t.TIMESTAMP]
    problems = differences(interpreted_spark, (source,), [(value,) for value in values], _casts(source, timeless))
    if t.TIMESTAMP in targets:
        # Spark's years go further than Python's.
        near = [(value,) for value in values if not isinstance(value, int | float | Decimal) or -1e9 < value < 1e9]
        problems += differences(interpreted_spark, (source,), near, _casts(source, [t.TIMESTAMP]))
    assert problems == []


def _casts(source: Type, targets: list[Type]) -> list[Trial]:
    casts = [Cast(Column("a0", source), target, lenient) for target in targets for lenient in (False, True)]
    return [
        Trial("cast", f"{expression_sql(scalar)} from {source}", scalar, expression_sql(scalar)) for scalar in casts
    ]


def test_casts_that_do_not_exist(interpreted_spark: SparkSession) -> None:
    for source in EDGES:
        for target in EDGES:
            # Spark takes today's date for a time; such a view would change although no row does.
            if not can_cast(source, target) and (source, target) != (t.Time(6), t.TIMESTAMP):
                with pytest.raises(Exception, match="DATATYPE_MISMATCH"):
                    interpreted_spark.sql(f"SELECT CAST(CAST(NULL AS {type_sql(source)}) AS {type_sql(target)})").schema  # noqa: B018


def test_records(interpreted_spark: SparkSession) -> None:
    one, two = Column("a0", t.INT), Column("a1", t.STRING)
    record = call("named_struct", Literal("id", t.STRING), one, Literal("name", t.STRING), two)
    field = call("get_field", record, Literal("ID", t.STRING))
    written = "named_struct('id', a0, 'name', a1)"
    trials = [Trial("named_struct", "record", record, written), Trial("get_field", "field", field, f"{written}.id")]
    assert differences(interpreted_spark, (t.INT, t.STRING), [(1, "ann"), (None, None), (2, None)], trials) == []


SUMMED: dict[Type, list[Any]] = {
    t.INT: [7, None, 2**31 - 1, 2**31 - 1],
    t.BIGINT: [2**62, 5, None],
    t.DOUBLE: [0.5, None, 0.25, 1e10],
    t.Decimal(12, 2): [Decimal("0.10"), Decimal("9999999999.99"), Decimal("0.01")],
    t.Decimal(24, 10): [Decimal("0.1234567891"), None, Decimal("-77777777777777.0000000001"), Decimal("1E-10")],
}


@pytest.mark.parametrize("type_", list(SUMMED), ids=str)
@pytest.mark.parametrize("empty", [False, True])
def test_aggregates(interpreted_spark: SparkSession, type_: Type, empty: bool) -> None:
    """SUM, AVG and COUNT as Spark computes them, and as our runtime has Spark finish them from summed parts."""
    argument, values = Column("a0", type_), [] if empty else SUMMED[type_]
    show_grid(interpreted_spark, (type_,), [(value,) for value in values])
    for function in ("sum", "avg", "count"):
        subject = AggregateCall("v", function, argument, aggregate_type(function, type_))
        mine = aggregate_value(subject, [({"a0": value}, 1) for value in values])
        totals = [Literal(summed(part, values), part.of) for part in partial_sums(subject)]
        finished = expression_sql(finalize(subject, totals, Literal(len(values), t.BIGINT)))
        frame = interpreted_spark.sql(f"SELECT {function}(a0) AS v, {finished} AS w FROM grid")
        assert [f.dataType.simpleString().upper() for f in frame.schema] == [str(subject.of)] * 2
        assert [_inner(column, subject.of) for column in frame.toArrow().columns] == [[mine], [mine]], function


def summed(part: PartialSum, values: list[Any]) -> Any:
    terms = [evaluate_scalar(part.argument, {"a0": value}) for value in values]
    zero: Any = Decimal(0) if isinstance(part.of, t.Decimal) else 0.0 if part.of == t.DOUBLE else 0
    return sum((term for term in terms if term is not None), zero)


def show_grid(spark: SparkSession, types: tuple[Type, ...], rows: list[Any]) -> None:
    """Let Spark see ``rows`` as the view ``grid``, with columns ``id``, ``a0``, ``a1`` ...

    Of constants in VALUES Spark computes columns while it plans, and needs no job. They have one row at least.
    """
    names = ", ".join(["id", *(f"a{i}" for i in range(len(types)))])
    numbered = [(-1, [None] * len(types)), *enumerate(rows)]
    listed = ((str(i), *map(literal_sql, values, types)) for i, values in numbered)
    values = ", ".join(f"({', '.join(row)})" for row in listed)
    spark.sql(f"SELECT * FROM VALUES {values} AS grid({names}) WHERE id >= 0").createOrReplaceTempView("grid")


def differences(spark: SparkSession, types: tuple[Type, ...], rows: list[Any], trials: list[Trial]) -> list[str]:
    """What Spark answers otherwise, in words."""
    show_grid(spark, types, rows)
    ours = [[_ours(trial.scalar, values) for values in rows] for trial in trials]
    columns = [
        (trial, text, answers)
        for trial, answers in zip(trials, ours, strict=True)
        for text in sorted({trial.written, expression_sql(trial.scalar)})
    ]
    selected = ", ".join(f"CASE WHEN id IN ({_known(answers)}) THEN {text} END" for _, text, answers in columns)
    frame = spark.sql(f"SELECT {selected} FROM grid")
    problems = _wrong_types(frame, columns)
    if not problems:
        for (trial, text, answers), theirs in zip(columns, frame.toArrow().columns, strict=True):
            problems += _wrong_values(trial, text, rows, answers, _inner(theirs, trial.scalar.type))
    return problems + list(_missing_faults(spark, rows, trials, ours))


def _ours(scalar: Scalar, values: tuple[Any, ...]) -> Any:
    try:
        return evaluate_scalar(scalar, {f"a{i}": value for i, value in enumerate(values)})
    except ArithmeticFault:
        return FAULT


def _known(answers: list[Any]) -> str:
    return ", ".join(str(i) for i, answer in enumerate(answers) if answer is not FAULT) or "-1"


def _inner(column: pa.ChunkedArray, type_: Type) -> list[Any]:
    table = pa.table({"v": column})
    return [row[0] for row, _ in from_arrow(table, (Field("v", type_),))]


def _wrong_types(answers: DataFrame, columns: list[tuple[Trial, str, list[Any]]]) -> list[str]:
    problems = []
    for (trial, text, _), field in zip(columns, answers.schema, strict=True):
        wanted = type_sql(trial.scalar.type).lower().replace("`", "").replace(" ", "")
        if field.dataType.simpleString() != wanted:
            problems.append(f"{text} for {trial.label}: {wanted} but Spark {field.dataType.simpleString()}")
    return problems


def _wrong_values(trial: Trial, text: str, rows: list[Any], ours: list[Any], theirs: list[Any]) -> list[str]:
    inexact = trial.name in INEXACT
    return [
        f"{text} for {trial.label} of {values}: {mine!r} but Spark {other!r}"
        for values, mine, other in zip(rows, ours, theirs, strict=True)
        if mine is not FAULT and not _same(mine, other, inexact) and not spark_errs(trial.name, values)
    ]


def _same(mine: Any, other: Any, inexact: bool) -> bool:
    if isinstance(mine, float) and isinstance(other, float):
        return (
            mine == other or (mine != mine and other != other) or (inexact and math.isclose(mine, other, rel_tol=1e-14))
        )
    if isinstance(mine, tuple) and isinstance(other, tuple):
        return len(mine) == len(other) and all(_same(a, b, inexact) for a, b in zip(mine, other, strict=True))
    return type(mine) is type(other) and mine == other


def _missing_faults(spark: SparkSession, rows: list[Any], trials: list[Trial], ours: list[Any]) -> Iterator[str]:
    """Rows that we refuse and Spark does not. One row of each trial stands for all, because each costs a query."""
    for trial, answers in zip(trials, ours, strict=True):
        if FAULT not in answers:
            continue
        i = answers.index(FAULT)
        try:
            answer = spark.sql(f"SELECT {trial.written} FROM grid WHERE id = {i}").collect()[0][0]
        except Exception:
            continue
        yield f"{trial.label} of {rows[i]}: a fault but Spark {answer!r}"
