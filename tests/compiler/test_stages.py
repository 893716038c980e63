"""How views are cut: what is one stage, what is shared, and what is left out."""

from __future__ import annotations

from tests.compiler.shop import program_of
from tidemill.program.stages import Program


def names(program: Program) -> list[str]:
    return [stage.name for stage in program.stages]


def test_select_list_and_having_belong_to_the_stage_of_their_grouping() -> None:
    program = program_of("SELECT customer + 1 AS k FROM orders GROUP BY customer HAVING COUNT(*) > 2")
    assert names(program) == ["v"]


def test_grouping_inside_a_join_is_its_own_stage() -> None:
    program = program_of(
        """SELECT c.name FROM customers c JOIN (SELECT customer FROM orders GROUP BY customer) t ON t.customer = c.id"""
    )
    assert names(program) == ["v/1", "v"]
    assert program.stages[1].inputs == ("customers", "v/1")


def test_groupings_nest_from_the_inside() -> None:
    program = program_of(
        """SELECT COUNT(*) AS n FROM (SELECT DISTINCT m FROM
           (SELECT customer, COUNT(*) AS m FROM orders GROUP BY customer) x) y"""
    )
    assert names(program) == ["v/1", "v/2", "v"]
    assert [stage.inputs for stage in program.stages] == [("orders",), ("v/1",), ("v/2",)]


def test_equal_subqueries_are_one_stage() -> None:
    program = program_of(
        """SELECT x.n, y.n AS m FROM (SELECT a, COUNT(*) AS n FROM edges GROUP BY a) x
           JOIN (SELECT e.a AS k, COUNT(*) AS n FROM edges e GROUP BY e.a) y ON x.a = y.k"""
    )
    assert names(program) == ["v/1", "v"]


def test_a_filter_above_one_use_does_not_split_the_shared_stage() -> None:
    program = program_of(
        """WITH t AS (SELECT a, COUNT(*) AS n FROM edges GROUP BY a HAVING COUNT(*) > 1)
           SELECT x.a FROM t x JOIN t y ON x.a = y.n WHERE x.n > 5 AND y.a = 3"""
    )
    assert names(program) == ["v/1", "v"]


def test_different_subqueries_are_different_stages() -> None:
    program = program_of(
        """SELECT x.n FROM (SELECT a, COUNT(*) AS n FROM edges GROUP BY a) x
           JOIN (SELECT b, COUNT(*) AS n FROM edges GROUP BY b) y ON x.a = y.b"""
    )
    assert names(program) == ["v/1", "v/2", "v"]


def test_equal_sums_are_kept_once() -> None:
    program = program_of("SELECT SUM(price) AS s, AVG(price) AS m, SUM(price) + 1 AS t, COUNT(price) AS n FROM items")
    (map_,) = program.stages[0].maps
    assert [str(value.type) for value in map_.values] == ["DECIMAL(38,2)", "BIGINT"]


def test_unread_columns_are_neither_summed_nor_emitted() -> None:
    program = program_of(
        """SELECT t.customer FROM (SELECT customer, SUM(amount) AS s, AVG(day) AS d FROM orders GROUP BY customer) t
           JOIN customers c ON c.id = t.customer"""
    )
    first = program.stages[0]
    assert first.maps[0].values == ()
    assert [f.name for f in first.output] == ["customer"]


def test_a_stage_keeps_one_column_to_carry_its_weights() -> None:
    program = program_of(
        "SELECT COUNT(*) AS n FROM (SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer) t"
    )
    assert len(program.stages[0].output) == 1


def test_the_past_of_a_stream_keeps_one_column_too() -> None:
    (map_,) = program_of("SELECT c.id FROM customers c CROSS JOIN clicks k").stages[0].maps
    assert [f.name for f in map_.keys] == ["customer"]


def test_a_sum_does_not_take_the_name_of_a_grouping_column() -> None:
    program = program_of("SELECT sum_0, SUM(b) AS s FROM (SELECT a AS sum_0, b FROM edges) sum_1 GROUP BY sum_0")
    (map_,) = program.stages[0].maps
    columns = [f.name for f in map_.keys] + [value.name for value in map_.values]
    assert len(set(columns)) == len(columns)
