"""Emitted expressions against the oracle: the same value, or an error where the oracle has one."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtimes.native.llvm.scalars import compiled
from tests.runtimes.native.test_expressions import CORNERS, DOMAINS, EXPRESSIONS, FIELDS, ROWS, meaning
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Cast, Column, Literal, Scalar, Subquery
from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.algebra.relational.relations import Values
from tidemill.algebra.values.decimals import EXACT
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.python_calls import SLOTS

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
    compute = compiled(scalars, COLUMNS)
    for row in rows:
        expected = outcome(lambda row=row: [meaning(scalar, row) for scalar in scalars])
        assert same(outcome(lambda row=row: compute(row)), expected), (scalars, row)


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    scalar, values = CORNERS[name]
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


LIKE_PATTERNS = ["%o%e", "%", "", "o%", "%e", "o%e", "%o%o%", "none", "%ß%", "o_e", "%_", "50\\%", "ßtra%ße", "%1%2%"]


def test_functions_without_a_native_form_are_called_and_remembered() -> None:
    """Python computes them, once for equal arguments; what it computes next to a failure stays right."""
    text, pattern = Column("a", t.STRING), Column("b", t.STRING, False)
    scalars: list[Scalar] = [
        *(call("like", text, Literal(pattern_, t.STRING)) for pattern_ in LIKE_PATTERNS),
        *(call(name, text, pattern) for name in ("le", "gt", "ge", "startswith", "endswith", "contains")),
        call("lt", text, Literal("none", t.STRING)),
        call("like", text, pattern),
        call("upper", call("concat", text, pattern)),
        call("coalesce", call("length", text), Literal(-1, t.INT)),
        Cast(text, t.DATE, True),
        call("lt", text, pattern),
        Cast(call("round", Cast(call("length", text), t.Decimal(30, 5)), Literal(2, t.INT)), t.STRING),
    ]
    compute = compiled(scalars, [text, pattern])
    words = [None, "", "one", "%", "o_e", "none", "2024-02-29", "ßtraße", *(f"word {n}" for n in range(40))]
    for _ in range(2):
        for row in product(words, words[1:]):
            expected = [evaluate_scalar(scalar, {"a": row[0], "b": row[1]}) for scalar in scalars]
            assert same(compute(row), expected), row


def test_more_values_than_are_remembered() -> None:
    """Values whose hashes collide take each other's places, and results stay right."""
    one, other = Column("a", t.BIGINT), Column("b", t.DOUBLE, False)
    scalars: list[Scalar] = [Cast(one, t.STRING), call("atan2", Cast(one, t.DOUBLE), other)]
    compute = compiled(scalars, [one, other])
    rows = [(None if n % 7 == 0 else n * 2**40, n / 3) for n in range(2 * SLOTS)]
    for row in [*rows[::5], *rows[::9], *rows[:50]]:
        assert same(compute(row), [evaluate_scalar(scalar, {"a": row[0], "b": row[1]}) for scalar in scalars]), row


def test_an_interruption_passes_through_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    text = Column("a", t.STRING, False)
    compute = compiled([call("upper", text)], [text])
    assert compute(["a"]) == ["A"]
    monkeypatch.setattr(StringDictionary, "value", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute(["b"])
    monkeypatch.undo()
    assert compute(["b"]) == ["B"]


def test_a_subquery_stays_with_the_python_back_end() -> None:
    row = Values(((1,),), (Field("n", t.INT),))
    with pytest.raises(NotCompiled, match="an expression of kind Subquery"):
        compiled([Cast(Subquery(row), t.STRING)], [])


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
