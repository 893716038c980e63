"""User-defined functions: called in views and queries on every runtime, and reported if missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests.ways import NATIVE, SPARK, opened
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.model.errors import ArithmeticFault, NameTaken, ParseError, SetupError, TypeMismatch, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [(1, "a", 2), (2, "a", 5), (3, "a", 5), (4, "b", None)]


def register(warehouse: tidemill.Warehouse) -> None:
    warehouse.register_function("twice", lambda x: -1 if x is None else 2 * x, arguments=["INT"], returns="BIGINT")
    warehouse.register_function("inverse", lambda x: 1 / x, arguments=["DOUBLE"], returns="DOUBLE", strict=True)
    warehouse.register_aggregate(
        "product",
        zero=1,
        add=lambda state, x: state * x,
        result=lambda state: state,
        arguments=["INT"],
        returns="BIGINT",
        strict=True,
    )
    warehouse.register_aggregate(
        "nulls",
        zero=list,
        add=lambda state, x: [*state, x] if x is None else state,
        result=len,
        arguments=["INT"],
        returns="INT",
    )


def made(warehouse: tidemill.Warehouse, query: str) -> tidemill.Warehouse:
    """The warehouse with functions, a table and the view ``v``."""
    register(warehouse)
    warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT)")
    warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    warehouse.apply({"t": [(1, row) for row in ROWS]})
    return warehouse


QUERIES = {
    "SELECT id, twice(x) AS y FROM t WHERE twice(id) < 8": [(1, 4), (2, 10), (3, 10)],
    "SELECT id, inverse(x) AS y FROM t": [(1, 0.5), (2, 0.2), (3, 0.2), (4, None)],
    "SELECT g, product(x) AS p, nulls(x) AS n FROM t GROUP BY g": [("a", 50, 0), ("b", 1, 1)],
    "SELECT g FROM t GROUP BY g HAVING product(DISTINCT x) = 10": [("a",)],
    "SELECT g, product(x) FILTER (WHERE id < 3) AS p FROM t GROUP BY ROLLUP (g)": [("a", 10), ("b", 1), (None, 10)],
    "SELECT id, product(x) OVER (PARTITION BY g ORDER BY id) AS p FROM t": [(1, 2), (2, 10), (3, 50), (4, 1)],
    "SELECT id FROM t ORDER BY twice(id) DESC LIMIT 1": [(4,)],
    "SELECT twice(x) AS y, COUNT(*) AS n FROM t GROUP BY twice(x)": [(4, 1), (10, 2), (-1, 1)],
    "SELECT a.id FROM t a JOIN t b ON twice(a.id) = b.id": [(1,), (2,)],
}


@pytest.mark.turns("way")
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("way", NATIVE)
def test_views_call_functions(way: str, query: str) -> None:
    with opened(way) as warehouse:
        made(warehouse, query)
        assert sorted(warehouse.view("v").rows(), key=repr) == sorted(QUERIES[query], key=repr)
        warehouse.apply({"t": [(-1, ROWS[1]), (-1, ROWS[3]), (1, (5, "b", 3))]})
        assert warehouse.view("v").verify()


@pytest.mark.spark
@pytest.mark.parametrize("way", SPARK)
def test_views_on_spark_call_functions_in_this_process(way: str, spark: SparkSession) -> None:
    with opened(way, spark) as warehouse:
        made(warehouse, "SELECT g, product(x) AS p, SUM(twice(id)) AS s FROM t GROUP BY g")
        assert sorted(warehouse.view("v").rows()) == [("a", 50, 12), ("b", 1, 8)]
        warehouse.sql("DELETE FROM t WHERE twice(id) = 4")
        assert sorted(warehouse.sql("SELECT g, product(x) AS p FROM t GROUP BY g")) == [("a", 10), ("b", 1)]
        assert warehouse.view("v").verify()


def test_queries_and_statements_call_functions() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        made(warehouse, "SELECT id FROM t")
        warehouse.sql("UPDATE t SET x = twice(x) WHERE twice(id) = 2")
        warehouse.sql("INSERT INTO t SELECT twice(id), g, x FROM t WHERE id = 3")
        assert sorted(warehouse.sql("SELECT id, twice(x) FROM t WHERE g = 'a'")) == [(1, 8), (2, 10), (3, 10), (6, 10)]


def test_a_column_is_called_as_the_call() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        made(warehouse, "SELECT Twice(id), product(x) FROM t GROUP BY id")
        assert [f.name for f in warehouse.sql("SELECT * FROM v").fields] == ["twice(id)", "product(x)"]
        assert "#" not in warehouse.view("v").explain()


def test_a_function_that_fails_refuses_the_epoch() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        made(warehouse, "SELECT id, inverse(x) AS y FROM t")
        with pytest.raises(ArithmeticFault, match="inverse.*ZeroDivisionError") as raised:
            warehouse.apply({"t": [(1, (7, "c", 0))]})
        assert "(7, 'c', 0)" in str(raised.value)
        assert 'view "v"' in str(raised.value)
        assert len(warehouse.view("v").rows()) == 4


def test_a_result_must_have_its_type() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.register_function("wrong", lambda x: "many", arguments=["INT"], returns="INT")
        with pytest.raises(ArithmeticFault, match="'many' is not a value of type INT"):
            warehouse.sql("SELECT wrong(x) FROM (VALUES (1)) AS v (x)")


def test_arrays_and_structs_are_lists_and_dictionaries() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        warehouse.register_function(
            "span", lambda xs: {"low": min(xs), "all": sorted(xs)}, arguments=["ARRAY<INT>"],
            returns="STRUCT<low: INT, all: ARRAY<INT>>",
        )  # fmt: skip
        assert warehouse.sql("SELECT span(array(3, 1)) AS s") == [({"low": 1, "all": [1, 3]},)]


def test_arguments_are_checked() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        made(warehouse, "SELECT id FROM t")
        for call in ("twice(id, id)", "twice(array(id))", "product(id, id)", "product()", "product(array(id))"):
            with pytest.raises(TypeMismatch):
                warehouse.sql(f"SELECT {call} FROM t GROUP BY id")


@pytest.mark.parametrize("name", ["sum", "upper", "if", "date", "now", "explode"])
def test_names_of_sql_are_taken(name: str) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse, pytest.raises(NameTaken):
        warehouse.register_function(name, lambda x: x, arguments=["INT"], returns="INT")


def test_names_and_types_are_checked() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        with pytest.raises(ParseError):
            warehouse.register_function("two words", lambda x: x, arguments=["INT"], returns="INT")
        with pytest.raises(Unsupported):
            warehouse.register_function("f", lambda x: x, arguments=["INT"], returns="GEOMETRY")
        with pytest.raises(TypeMismatch):
            warehouse.register_aggregate("a", zero=0, add=max, result=int, arguments=[], returns="INT")


def test_two_warehouses_have_functions_of_one_name() -> None:
    with tidemill.open(":memory:", runtime="native") as one, tidemill.open(":memory:", runtime="native") as other:
        one.register_function("f", lambda x: x + 1, arguments=["INT"], returns="INT")
        other.register_function("f", lambda x: x + "!", arguments=["STRING"], returns="STRING")
        assert one.sql("SELECT f(1) AS x") == [(2,)]
        assert other.sql("SELECT f('a') AS x") == [("a!",)]


def test_a_closed_warehouse_leaves_nothing_behind() -> None:
    before = set(FUNCTIONS), set(AGGREGATE_FUNCTIONS)
    with tidemill.open(":memory:", runtime="native") as warehouse:
        register(warehouse)
        assert (set(FUNCTIONS), set(AGGREGATE_FUNCTIONS)) != before
    assert (set(FUNCTIONS), set(AGGREGATE_FUNCTIONS)) == before


def test_a_warehouse_that_is_opened_again_misses_its_functions(tmp_path: Path) -> None:
    """Views can be read, other epochs go on, and what needs the function waits until it is there."""
    with tidemill.open(tmp_path, runtime="native") as warehouse:
        made(warehouse, "SELECT g, product(twice(id)) AS p FROM t GROUP BY g")
        warehouse.sql("CREATE TABLE u (a INT)")
    with tidemill.open(tmp_path, runtime="native") as warehouse:
        assert sorted(warehouse.view("v").rows()) == [("a", 48), ("b", 8)]
        warehouse.apply({"u": [(1, (1,))]})
        with pytest.raises(SetupError, match='"twice" is not registered'):
            warehouse.apply({"t": [(1, (5, "b", 1))]})
        with pytest.raises(NameTaken, match="other types"):
            warehouse.register_function("twice", lambda x: x, arguments=["STRING"], returns="STRING")
        register(warehouse)
        warehouse.apply({"t": [(1, (5, "b", 1))]})
        assert sorted(warehouse.view("v").rows()) == [("a", 48), ("b", 80)]
        assert warehouse.view("v").verify()


def test_types_may_change_when_no_view_knows_them() -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        made(warehouse, "SELECT twice(id) AS y FROM t")
        warehouse.sql("DROP VIEW v")
        warehouse.register_function("twice", lambda x: x + x, arguments=["STRING"], returns="STRING")
        assert warehouse.sql("SELECT twice('ha') AS x") == [("haha",)]


class Counted:
    """An aggregate that counts how often it is called: the sum of squares, with a state that changes in place."""

    def __init__(self) -> None:
        self.calls = 0

    def add(self, state: list[int], x: int) -> list[int]:
        self.calls += 1
        if x == 13:
            raise ValueError("13 is not liked")
        state[0] += x * x
        return state

    def remove(self, state: list[int], x: int) -> list[int]:
        self.calls += 1
        state[0] -= x * x
        return state

    def register(self, warehouse: tidemill.Warehouse, *, takes_back: bool) -> None:
        remove = self.remove if takes_back else None
        warehouse.register_aggregate(
            "squares", zero=[0], add=self.add, result=lambda state: state[0], remove=remove, arguments=["INT"],
            returns="BIGINT",
        )  # fmt: skip


def squares(counted: Counted, warehouse: tidemill.Warehouse, *, takes_back: bool) -> None:
    counted.register(warehouse, takes_back=takes_back)
    warehouse.sql("CREATE TABLE t (g STRING, x INT)")
    warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT g, squares(x) AS s, COUNT(*) AS n FROM t GROUP BY g")
    warehouse.apply({"t": [(1, ("a", n % 10)) for n in range(1000)]})


def test_with_an_inverse_a_change_costs_the_rows_that_come_and_go() -> None:
    counted = Counted()
    with tidemill.open(":memory:", runtime="native") as warehouse:
        squares(counted, warehouse, takes_back=True)
        warehouse.apply({"t": [(1, ("a", 20))]})
        counted.calls = 0
        warehouse.apply({"t": [(1, ("a", 30)), (-1, ("a", 20)), (2, ("b", 2))]})
        assert counted.calls < 20
        assert sorted(warehouse.view("v").rows()) == [("a", 28_500 + 900, 1001), ("b", 8, 2)]
        assert warehouse.view("v").verify()


def test_without_an_inverse_the_touched_group_is_computed_again() -> None:
    counted = Counted()
    with tidemill.open(":memory:", runtime="native") as warehouse:
        squares(counted, warehouse, takes_back=False)
        counted.calls = 0
        warehouse.apply({"t": [(2, ("b", 2))]})
        assert counted.calls < 20
        warehouse.apply({"t": [(1, ("a", 20))]})
        assert counted.calls > 1000
        assert warehouse.view("v").verify()


@pytest.mark.parametrize("takes_back", [True, False])
def test_a_refused_epoch_leaves_the_states_as_they_were(takes_back: bool) -> None:
    with tidemill.open(":memory:", runtime="native") as warehouse:
        squares(Counted(), warehouse, takes_back=takes_back)
        warehouse.apply({"t": [(1, ("a", 1)), (1, ("c", 1))]})
        with pytest.raises(ArithmeticFault, match="13 is not liked"):
            warehouse.apply({"t": [(1, ("a", 7)), (1, ("c", 13)), (1, ("a", 13))]})
        warehouse.apply({"t": [(-1, ("a", 1)), (-1, ("c", 1)), (1, ("a", 3))]})
        assert warehouse.view("v").rows() == [("a", 28_509, 1001)]
        warehouse.apply({"t": [(-1, ("a", 3))]})
        warehouse.apply({"t": [(1, ("c", 2))]})
        assert sorted(warehouse.view("v").rows()) == [("a", 28_500, 1000), ("c", 4, 1)]
        assert warehouse.view("v").verify()


def test_functions_of_batches() -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (a INT, s STRING); INSERT INTO t VALUES (1, 'x'), (NULL, 'y'), (3, NULL)")
        wh.register_function("up", lambda s: s.str.upper(), arguments=["STRING"], returns="STRING", form="pandas")
        wh.register_function("twice", lambda a: a * 2, arguments=["INT"], returns="BIGINT", form="pandas")
        wh.register_function("more", lambda a, b: pc.add(a, b), arguments=["INT", "INT"], returns="INT", form="arrow")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT up(s) AS u, twice(a) AS t, more(a, 1) AS m FROM t")
        wh.sql("INSERT INTO t VALUES (5, 'z')")
        assert sorted(wh.sql("SELECT * FROM v"), key=repr) == [
            ("X", 2, 2),
            ("Y", None, None),
            ("Z", 10, 6),
            (None, 6, 4),
        ]
        wh.register_function("two", lambda a: pa.array([1, 2]), arguments=["INT"], returns="INT", form="arrow")
        with pytest.raises(tidemill.TidemillError, match="a batch of 1 row"):
            wh.sql("SELECT two(1)")
        with pytest.raises(tidemill.TidemillError, match="form"):
            wh.register_function("other", abs, arguments=["INT"], returns="INT", form="numpy")


@pytest.mark.spark
def test_functions_of_a_spark_session(spark: SparkSession) -> None:
    import pandas as pd
    from pyspark.sql.functions import pandas_udf, udf

    session = spark.newSession()
    session.udf.register("shouted", lambda text: None if text is None else text + "!", "string")
    session.udf.register("halved", pandas_udf(lambda v: v / 2, "double"))
    session.udf.register("thrown", udf(lambda: 4, "int").asNondeterministic())
    assert isinstance(pd.Series([1]), pd.Series)
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        with pytest.warns(RuntimeWarning, match="thrown"):
            assert sorted(wh.use_functions_of(session)) == ["halved", "shouted"]
        wh.sql("CREATE TABLE t (a DOUBLE, s STRING); INSERT INTO t VALUES (1, 'x'), (NULL, NULL)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT shouted(s) AS s, halved(a) AS h FROM t")
        assert sorted(wh.sql("SELECT * FROM v"), key=repr) == [("x!", 0.5), (None, None)]
