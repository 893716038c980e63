"""Translation of SQL to the calculus, and what viewlets refuse."""

from __future__ import annotations

import pytest

from tests.compiler.viewlets.blocks import TABLES, relation_of
from tests.program.interpret import Interpreter
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.text import text_of
from tidemill.changes.zset import ZSet
from tidemill.compiler.passes import compile_body, compile_view
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.compiler.staging.stages import draft_stages
from tidemill.compiler.viewlets.ring_calculus.queries import CalculusQuery
from tidemill.compiler.viewlets.ring_calculus.translate import translate
from tidemill.model.errors import Unsupported


def query_of(sql: str) -> CalculusQuery:
    (query,) = translate(draft_stages("v", push_down_filters(relation_of(sql)), compile_body)[-1])
    return query


def test_equal_columns_are_one_variable() -> None:
    query = query_of("SELECT COUNT(*) n FROM r x, r y, u z WHERE x.a = y.b AND y.b = z.a")
    assert [atom.variables for atom in query.atoms] == [("x.a",), ("x.a",), ("x.a",)]
    assert not query.conditions


def test_columns_of_one_row_stay_two() -> None:
    query = query_of("SELECT COUNT(*) n FROM r x WHERE x.a = x.b")
    assert query.atoms[0].variables == ("x.a", "x.b")
    assert list(map(text_of, query.conditions)) == ["x.a = x.b"]


def test_unlike_types_stay_two() -> None:
    query = query_of("SELECT COUNT(*) n FROM r x, s y WHERE x.a = y.v")
    assert not set(query.atoms[0].variables) & set(query.atoms[1].variables)


def test_a_subquery_is_cut_where_it_is_correlated() -> None:
    query = query_of(
        "SELECT COUNT(*) n FROM r x WHERE x.b < (SELECT SUM(m.v) FROM s m WHERE m.a = x.a AND m.b > x.b AND m.v > 0)"
    )
    (lift,) = query.lifts
    assert [text_of(key) for key in lift.query.keys] == ["m.a", "m.b"]
    assert [text_of(key) for key in lift.lookup] == ["x.a"]
    assert lift.lower is not None
    assert text_of(lift.lower.scalar) == "x.b"
    assert [text_of(condition) for condition in lift.query.conditions] == ["m.v > 0"]


@pytest.mark.parametrize(
    ("sql", "note"),
    [
        ("SELECT x.a FROM r x WHERE 1 > (SELECT COUNT(*) FROM s m WHERE m.a <> x.a)", "correlated by m.a <> x.a"),
        ("SELECT x.a FROM r x WHERE 1 > (SELECT SUM(m.v * x.a) FROM s m)", "more than comparisons"),
        ("SELECT SUM(CAST(x.v AS DOUBLE)) t FROM r x WHERE x.b > (SELECT COUNT(*) FROM s m)", "sums up DOUBLEs"),
        ("SELECT (SELECT COUNT(*) FROM r m) AS n", "a constant row"),
        (
            "SELECT x.a, COUNT(*) n FROM r x GROUP BY x.a HAVING COUNT(*) > (SELECT COUNT(*) FROM s m)",
            "beside aggregates",
        ),
        (f"SELECT COUNT(*) n FROM {', '.join(f'r x{i}' for i in range(6))}", "6 times with itself"),
    ],
)
def test_what_is_refused_is_kept_otherwise_and_says_why(sql: str, note: str) -> None:
    relation = relation_of(sql)
    program = compile_view("v", relation, TABLES, "viewlet")
    assert any(note in stage.note for stage in program.stages)
    running = Interpreter(program, TABLES, {})
    running.load()
    assert running.rows == evaluate(relation, {name: ZSet() for name in TABLES})


def test_the_name_of_a_lift_is_unique() -> None:
    """A sum over nothing is NULL, and less than nothing: a row whose alias looks like a lift's must not be taken in."""
    relation = relation_of("SELECT n1.v FROM r n1 WHERE n1.v < (SELECT SUM(m.v) FROM s m WHERE m.a = n1.a)")
    running = Interpreter(compile_view("v", relation, TABLES, "viewlet"), TABLES, {})
    running.load()
    assert running.run({"r": ZSet({(1, 1, -5): 1})}) == ZSet()


def test_options_that_make_no_sense() -> None:
    with pytest.raises(Unsupported, match="unknown depth"):
        compile_view("v", relation_of("SELECT x.a FROM r x"), TABLES, "viewlet", depth="deep")
