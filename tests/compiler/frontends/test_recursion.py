"""WITH RECURSIVE: what is read, what the columns are, and what is refused."""

from __future__ import annotations

import pytest

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.relations import Recursive
from tidemill.algebra.relational.walk import scans, walk
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.model.errors import ParseError, TidemillError, TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, INT, STRING, Field

RELATIONS = {"edges": (Field("a", INT), Field("b", INT)), "r": (Field("x", STRING),)}
ROWS = {"edges": ZSet.of([(1, 2), (2, 3), (3, 1), (3, 4)]), "r": ZSet.of([("outside",)])}


def answer(query: str) -> dict[Row, int]:
    return dict(evaluate(translate(query, RELATIONS).relation, ROWS))


def refused(query: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        translate(query, RELATIONS)
    return raised.value


def test_union_all_counts_and_union_does_not() -> None:
    step = "SELECT e.b FROM t JOIN edges e ON e.a = t.n"
    assert answer(f"WITH RECURSIVE t (n) AS (SELECT 1 UNION {step}) SELECT n FROM t") == {
        (1,): 1,
        (2,): 1,
        (3,): 1,
        (4,): 1,
    }
    twice = f"WITH RECURSIVE t (n) AS (SELECT 3 UNION ALL SELECT 3 UNION ALL {step} AND e.b = 4) SELECT n FROM t"
    assert answer(twice) == {(3,): 2, (4,): 2}


def test_a_name_may_be_that_of_a_table() -> None:
    query = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r"
    assert answer(query) == {(1,): 1, (2,): 1, (3,): 1}
    assert scans(translate(query, RELATIONS).relation) == set()


def test_what_does_not_read_itself_is_no_recursion() -> None:
    relation = translate("WITH RECURSIVE t AS (SELECT a FROM edges) SELECT a FROM t", RELATIONS).relation
    assert not any(isinstance(node, Recursive) for node in walk(relation))


def test_each_expression_sees_those_before_it() -> None:
    query = """
      WITH RECURSIVE one AS (SELECT 1 AS n), t AS (SELECT n FROM one UNION ALL SELECT n + 1 FROM t WHERE n < 3),
        u AS (SELECT n * 10 AS n FROM t WHERE n > 1 UNION SELECT n + 5 FROM u WHERE n < 30)
      SELECT n FROM u"""
    assert answer(query) == {(20,): 1, (25,): 1, (30,): 1}


def test_columns_are_those_of_the_first_part() -> None:
    query = "WITH RECURSIVE t AS (SELECT CAST(1 AS BIGINT) AS n UNION ALL SELECT 7 FROM t WHERE n < 3) SELECT * FROM t"
    (field,) = translate(query, RELATIONS).relation.fields
    assert (field.name, field.type) == ("n", BIGINT)


def test_terms_of_the_recursive_part_may_be_several() -> None:
    query = """
      WITH RECURSIVE t (n) AS (
        SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3 UNION ALL SELECT n + 2 FROM t WHERE n < 2)
      SELECT n FROM t"""
    assert answer(query) == {(1,): 1, (2,): 1, (3,): 2}


STEPS = [
    ("SELECT SUM(n) FROM t", "under GROUP BY or an aggregate"),
    ("SELECT n FROM t GROUP BY n", "under GROUP BY or an aggregate"),
    ("SELECT DISTINCT n FROM t", "under DISTINCT"),
    ("SELECT x.n FROM t x JOIN t y ON x.n < y.n", "twice"),
    ("SELECT a FROM edges WHERE a < (SELECT COUNT(*) FROM t)", "in a subquery"),
    ("SELECT n FROM t WHERE n < (SELECT COUNT(*) FROM t)", "in a subquery"),
    ("(SELECT n FROM t UNION ALL SELECT a FROM edges)", "by some parts"),
]


@pytest.mark.parametrize(("step", "words"), STEPS)
def test_what_is_not_linear_is_refused(step: str, words: str) -> None:
    error = refused(f"WITH RECURSIVE t (n) AS (SELECT CAST(1 AS BIGINT) UNION ALL {step}) SELECT n FROM t")
    assert isinstance(error, Unsupported)
    assert f'"t" cannot read itself {words}' in str(error)
    assert error.where is not None
    assert error.detail is not None
    assert error.hint is not None


def test_an_outer_join_with_the_last_rows_is_refused() -> None:
    error = refused(
        "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT e.b FROM edges e LEFT JOIN t ON t.n = e.a) SELECT n FROM t"
    )
    assert isinstance(error, Unsupported)


@pytest.mark.parametrize(
    "expression",
    ["SELECT n FROM t", "SELECT n FROM t UNION ALL SELECT 1", "SELECT 1 UNION SELECT n FROM t UNION ALL t"],
)
def test_a_recursion_must_start_somewhere(expression: str) -> None:
    assert isinstance(refused(f"WITH RECURSIVE t (n) AS ({expression}) SELECT n FROM t"), ParseError)


@pytest.mark.parametrize("step", ["SELECT n + 0.5 FROM t", "SELECT 'x' FROM t", "SELECT n, n FROM t"])
def test_types_and_columns_must_fit(step: str) -> None:
    assert isinstance(refused(f"WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL {step}) SELECT n FROM t"), TypeMismatch)


def test_clauses_of_the_whole_union_are_refused() -> None:
    error = refused("WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n FROM t LIMIT 5) SELECT n FROM t")
    assert isinstance(error, Unsupported)


def test_columns_around_a_recursion_are_refused() -> None:
    inner = "WITH RECURSIVE t (n) AS (SELECT e.a UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT SUM(n) FROM t"
    assert isinstance(refused(f"SELECT ({inner}) FROM edges e"), Unsupported)
