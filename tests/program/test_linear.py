"""Which queries may read a map in pieces, because they add the same for the pieces as for their sum."""

from __future__ import annotations

from dataclasses import replace

from tests.program.examples import col, outputs, plus, times, value, weight
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal
from tidemill.model.types import BIGINT, Field
from tidemill.program.linearity import is_linear
from tidemill.program.maps import RingField
from tidemill.program.statements import Query, RelationLoop, Version

TOTAL = RingField("total", BIGINT)
CHANGE = RelationLoop("r", "r", Version.CHANGE, (Field("k", BIGINT),))
MAP = RelationLoop("m", "m", Version.STATE, (Field("k", BIGINT),), (("k", col("r.k", BIGINT)),), values=(TOTAL,))
KEY = col("r.k", BIGINT)
COUNT = times(weight("r"), weight("m"))


def query(*amounts: object) -> Query:
    count, *values = amounts
    return Query((CHANGE, MAP), outputs(KEY, *values), weight=count)  # type: ignore[arg-type]


def test_each_amount_takes_one_number_of_every_source() -> None:
    product = query(COUNT, times(weight("r"), value("m", TOTAL)))
    assert is_linear(product, MAP, 1) and is_linear(product, CHANGE, 1)
    both = query(COUNT, times(weight("r"), plus(value("m", TOTAL), times(Literal(3, BIGINT), weight("m")))))
    assert is_linear(both, MAP, 1)
    assert is_linear(query(COUNT, Literal(0, BIGINT)), MAP, 1)


def test_a_number_that_is_missing_or_squared_or_compared() -> None:
    assert not is_linear(query(COUNT, weight("r")), MAP, 1)
    assert not is_linear(query(COUNT, times(COUNT, value("m", TOTAL))), MAP, 1)
    assert not is_linear(query(COUNT, plus(value("m", TOTAL), weight("r"))), MAP, 1)
    assert not is_linear(query(COUNT, call("abs", value("m", TOTAL))), MAP, 1)
    large = replace(MAP, filters=(call("gt", value("m", TOTAL), Literal(9, BIGINT)),))
    assert not is_linear(Query((CHANGE, large), outputs(KEY), weight=COUNT), large, 1)
    assert not is_linear(Query((CHANGE, MAP), outputs(value("m", TOTAL)), weight=COUNT), MAP, 1)


def test_without_amounts_the_weights_are_multiplied_anyway() -> None:
    assert is_linear(Query((CHANGE, MAP), outputs(KEY, col("m.k", BIGINT))), MAP, 1)
    assert not is_linear(Query((CHANGE, MAP), outputs(KEY, value("m", TOTAL))), MAP, 1)
