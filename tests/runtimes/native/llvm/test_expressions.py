"""Emitted expressions against the oracle: the same value, or an error where the oracle has one."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.runtimes.native.llvm.scalars import compiled
from tests.runtimes.native.test_expressions import CORNERS, DOMAINS, EXPRESSIONS, FIELDS, ROWS, meaning
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar
from tidemill.algebra.functions.time_windows import WINDOW
from tidemill.algebra.values.decimals import EXACT
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled

COLUMNS = [Column(f"x.{f.name}", f.type, f.nullable) for f in FIELDS]


def outcome(compute: Any) -> Any:
    try:
        return compute()
    except ArithmeticFault:
        return ArithmeticFault


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return repr(found) == repr(expected)  # tells NaN, and 0.0 from -0.0
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and str(found) == str(expected)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), st.lists(ROWS, min_size=1, max_size=12))
def test_generated_expressions_mean_what_the_oracle_says(scalars: list[Scalar], rows: list[tuple[Any, ...]]) -> None:
    able = [scalar for scalar in scalars if compiles(scalar)]
    assume(able)
    compute = compiled(able, COLUMNS)
    for row in rows:
        expected = outcome(lambda row=row: [meaning(scalar, row) for scalar in able])
        assert same(outcome(lambda row=row: compute(row)), expected), (able, row)


def compiles(scalar: Scalar) -> bool:
    try:
        compiled([scalar], COLUMNS)
    except NotCompiled:
        return False
    return True


GAPS = {
    "zero before a function": "the function atan2",
    "impossible cast": "a cast from STRING to INT",
    "lenient cast": "a cast from STRING to INT",
}
"""Corners that stay with the Python back end, and why."""


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    scalar, values = CORNERS[name]
    if name in GAPS:
        with pytest.raises(NotCompiled, match=GAPS[name]):
            compiled([scalar], COLUMNS)
        return
    by_name = {column.name: value for column, value in values.items()}
    row = tuple(by_name.get(c.name, None if c.nullable else DOMAINS[c.type][0]) for c in COLUMNS)
    expected = outcome(lambda: meaning(scalar, row))
    found = outcome(lambda: compiled([scalar], COLUMNS)(row))
    assert same(found, expected if expected is ArithmeticFault else [expected])


@st.composite
def decimals(draw: st.DrawFn) -> tuple[t.Decimal, Decimal]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    number = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return t.Decimal(precision, scale), EXACT.scaleb(Decimal(number), -scale)


@settings(deadline=None, max_examples=80)
@given(decimals(), decimals(), st.sampled_from(["add", "subtract", "multiply", "divide", "remainder", "lt", "eq"]))
def test_decimals_of_any_width(one: Any, other: Any, name: str) -> None:
    columns = [Column("a", one[0], False), Column("b", other[0], True)]
    scalars = [call(name, *columns), Cast(columns[0], other[0], True), Cast(columns[0], t.DOUBLE)]
    values = {"a": one[1], "b": other[1]}
    expected = [outcome(lambda s=s: evaluate_scalar(s, values)) for s in scalars]
    found = [outcome(lambda s=s: compiled([s], columns)(list(values.values()))[0]) for s in scalars]
    assert same(found, expected)


@pytest.mark.parametrize("name", ["ring_product", "ring_sum"])
@given(one=st.integers(-(2**63), 2**63 - 1), other=decimals())
@settings(deadline=None, max_examples=30)
def test_ring_arithmetic_is_exact(name: str, one: int, other: tuple[t.Decimal, Decimal]) -> None:
    columns = [Column("a", t.BIGINT, False), Column("b", other[0], True)]
    scalar = call(name, *columns)
    expected = outcome(lambda: evaluate_scalar(scalar, {"a": one, "b": other[1]}))
    assert same(outcome(lambda: compiled([scalar], columns)([one, other[1]])[0]), expected)


def test_what_has_no_native_form_is_named() -> None:
    with pytest.raises(NotCompiled, match="length"):
        compiled([Call("length", (Literal("a", t.STRING),), t.INT)], [])


def test_dates() -> None:
    column = Column("d", t.DATE, False)
    names = ["year", "month", "day", "quarter", "weekday", "dayofweek", "dayofweek_iso", "unix_date"]
    scalars = [call(name, column) for name in names]
    compute = compiled(scalars, [column])
    days = [datetime.date(1, 1, 1) + datetime.timedelta(n) for n in range(0, 3_652_058, 997)]
    for day in [*days, datetime.date.max, datetime.date(2000, 2, 29), datetime.date(1900, 2, 28)]:
        assert compute([day]) == [evaluate_scalar(scalar, {"d": day}) for scalar in scalars], day


def test_partitions_of_time() -> None:
    column, every = Column("at", t.TIMESTAMP, False), Literal(90_000_000, t.BIGINT)
    number = call("partition_number", column, every)
    scalars = [number, call("partition_start", number, every)]
    compute = compiled(scalars, [column])
    for moment in (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime(2024, 1, 1, 9, 1, 29)):
        assert compute([moment]) == [evaluate_scalar(scalar, {"at": moment}) for scalar in scalars], moment
    far = call("partition_start", Column("n", t.BIGINT, False), every)
    found = outcome(lambda: compiled([far], [Column("n", t.BIGINT, False)])([2**62]))
    assert found == outcome(lambda: evaluate_scalar(far, {"n": 2**62}))


SECOND = 1_000_000
MOMENTS = (
    datetime.datetime.min,
    datetime.datetime(1, 1, 1, 0, 0, 7),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 1, 1, 9, 1, 29, 1),
    datetime.datetime.max,
)


@pytest.mark.parametrize("offset", [0, 3 * SECOND, -3 * SECOND, 25 * SECOND])
def test_windows_of_time(offset: int) -> None:
    column = Column("at", t.TIMESTAMP, True)
    window = call("time_window", column, Literal(10 * SECOND, t.BIGINT), Literal(offset, t.BIGINT))
    ends = [call("get_field", window, Literal(name, t.STRING)) for name in ("start", "end")]
    compute = compiled(ends, [column])
    for moment in (None, *MOMENTS):
        expected = outcome(lambda moment=moment: [evaluate_scalar(scalar, {"at": moment}) for scalar in ends])
        assert outcome(lambda moment=moment: compute([moment])) == expected, moment


def test_windows_of_tables_may_lack_an_end() -> None:
    column = Column("w", WINDOW, True)
    scalars = [
        *(call("get_field", column, Literal(name, t.STRING)) for name in ("start", "end")),
        call("null_safe_eq", column, Literal((MOMENTS[0], MOMENTS[-1]), WINDOW)),
    ]
    compute = compiled(scalars, [column])
    pairs = [(one, other) for one in (None, *MOMENTS) for other in (None, *MOMENTS)]
    for value in (None, *pairs):
        assert compute([value]) == [evaluate_scalar(scalar, {"w": value}) for scalar in scalars], value


def test_infinity_and_nan_as_constants() -> None:
    column = Column("x", t.DOUBLE, False)
    scalars = [call("add", column, Literal(value, t.DOUBLE)) for value in (math.inf, -math.inf, math.nan)]
    assert same(compiled(scalars, [column])([1.0]), [math.inf, -math.inf, math.nan])
