"""An aggregate is one declaration: evaluation, compilation and SQL text all read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tests.ways import NATIVE, opened
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments, double_type
from tidemill.algebra.aggregates.parameters import number
from tidemill.algebra.aggregates.partial_sums import PartialSum, SumRule, where_seen
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.call import call as apply
from tidemill.algebra.expressions.conversions import convert
from tidemill.model.types import BIGINT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = Path(tidemill.__file__).parent


def _width(call: AggregateCall, members: WeightedArguments) -> float:
    values = [float(row[0]) for row, _ in members]
    return max(values) - min(values)


def _squares(call: AggregateCall, members: WeightedArguments) -> int:
    return sum(row[0] * row[0] * weight for row, weight in members)


def _square(call: AggregateCall) -> tuple[PartialSum, ...]:
    assert call.argument is not None
    wide = convert(call.argument, BIGINT)
    return (PartialSum(where_seen(call, apply("multiply", wide, wide)), BIGINT),)


WIDTH = AggregateFunction("width", double_type, _width, parameters=(number,), synonyms=("extent",))
SQUARES = AggregateFunction(
    "squares",
    lambda argument: BIGINT,
    _squares,
    parameters=(number,),
    sums=SumRule(_square, lambda call, sums, count: sums[0]),
)


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (WIDTH, SQUARES):
        monkeypatch.setitem(AGGREGATE_FUNCTIONS, function.name, function)


VIEW = """
    CREATE MATERIALIZED VIEW v AS
    SELECT g, width(x) AS w, extent(x) FILTER (WHERE id > 1) AS e, squares(x) AS s FROM t GROUP BY g
"""


def conversation(warehouse: tidemill.Warehouse) -> Iterator[list[Any]]:
    warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT)")
    warehouse.sql(VIEW)
    warehouse.apply({"t": [(1, (1, "a", 2)), (1, (2, "a", 5)), (1, (3, "a", 7)), (1, (4, "b", None))]})
    yield sorted(warehouse.view("v").rows())
    warehouse.apply({"t": [(-1, (3, "a", 7)), (1, (5, "b", 3))]})
    yield sorted(warehouse.view("v").rows())


ANSWERS = [
    [("a", 5.0, 2.0, 78), ("b", None, None, None)],
    [("a", 3.0, 0.0, 29), ("b", 0.0, 0.0, 9)],
]


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("way", NATIVE)
def test_a_declaration_is_enough(way: str) -> None:
    with opened(way) as warehouse:
        assert list(conversation(warehouse)) == ANSWERS


@pytest.mark.turns("way")
@pytest.mark.spark
@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("way", ["frames", "driver"])
def test_a_declaration_is_enough_on_spark(way: str, spark: SparkSession) -> None:
    with opened(way, spark) as warehouse:
        assert list(conversation(warehouse)) == ANSWERS


@pytest.mark.usefixtures("declared")
def test_windows_take_it_as_well() -> None:
    query = "SELECT id, width(x) OVER (ORDER BY id) AS w, squares(x) OVER (ORDER BY id) AS s FROM t"
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        warehouse.apply({"t": [(1, (1, 2)), (1, (2, None)), (1, (3, -1))]})
        assert sorted(warehouse.view("v").rows()) == [(1, 0.0, 4), (2, 0.0, 4), (3, 3.0, 5)]


def test_names_of_aggregates_are_compared_nowhere_else() -> None:
    """What sets one aggregate apart from others is a field of its declaration."""
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and _is_of_function(node.left) and _names(node) & AGGREGATE_FUNCTIONS.keys()
    ]
    assert found == []


def _is_of_function(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "function"


def _names(node: ast.Compare) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
