"""Which joins are kept in heavy and light parts, and what their programs look like."""

from __future__ import annotations

import pytest

from tests.runtimes.native.joingraph.test_random_joins import FIELDS, TABLES
from tidemill.compiler.choose_plan import Choice, choose_plan
from tidemill.compiler.explain import explain
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import Compilation, compile_from, compile_view
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.program.joins import DegreeRole
from tidemill.program.stages import Program

CYCLE = "FROM r, s, t WHERE r.b = s.a AND s.b = t.a AND t.b = r.a"


def program_of(sql: str, serve: str = "both") -> Program:
    return compile_view("v", translate(sql, FIELDS, name="v").relation, TABLES, "joingraph", serve=serve)


def roles(program: Program) -> list[DegreeRole | None]:
    return [stage.degrees for stage in program.stages]


PARTS = [DegreeRole.THRESHOLD, *[DegreeRole.PARTITION] * 3, DegreeRole.TRIANGLE]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) AS c {CYCLE}",
        f"SELECT AVG(r.n) AS m, SUM(s.n * t.n) AS x {CYCLE} AND r.n > 3",
        "SELECT COUNT(*) AS c FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
        "SELECT COUNT(*) AS c FROM r x, r y, r z WHERE x.a = y.a AND y.b = z.a AND z.b = x.b",
        f"SELECT COUNT(*) + 1 AS c {CYCLE} HAVING COUNT(*) > 2",
    ],
)
def test_sums_over_a_cycle_are_kept_in_parts(sql: str) -> None:
    assert roles(program_of(sql)) == PARTS


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT r.a, COUNT(*) AS c {CYCLE} GROUP BY r.a",
        f"SELECT r.a {CYCLE}",
        f"SELECT MAX(r.n) AS m {CYCLE}",
        f"SELECT COUNT(*) AS c {CYCLE} AND r.n < s.n",
        f"SELECT SUM(CAST(r.n AS DOUBLE)) AS x {CYCLE}",
        "SELECT COUNT(*) AS c FROM r, s, t WHERE r.b = s.a AND s.b = t.a",
        "SELECT COUNT(*) AS c FROM r, s, t WHERE r.a = s.a AND s.a = t.a AND t.a = r.a",
        "SELECT COUNT(*) AS c FROM r, s, t WHERE r.b = s.a AND s.b = t.a AND t.n = r.a",
        "SELECT COUNT(*) AS c FROM e, s, t WHERE e.b = s.a AND s.b = t.a AND t.b = e.a",
        "SELECT COUNT(*) AS c FROM r, s, t, r x WHERE r.b = s.a AND s.b = t.a AND t.b = x.a AND x.b = r.a",
    ],
)
def test_other_joins_are_walked(sql: str) -> None:
    program = program_of(sql)
    assert set(roles(program)) == {None}
    assert "HEAVY_LIGHT" not in explain(program)


@pytest.mark.parametrize("serve", ["read", "subscribe"])
def test_rows_that_are_not_stored_are_walked_to(serve: str) -> None:
    assert set(roles(program_of(f"SELECT COUNT(*) AS c {CYCLE}", serve=serve))) == {None}


def test_a_triangle_below_other_stages() -> None:
    """The stages that it reads stand before it, under names of their own."""
    program = program_of(f"SELECT r.a FROM r JOIN (SELECT COUNT(*) AS c {CYCLE}) x ON x.c < r.n")
    names = [stage.name for stage in program.stages]
    assert names == ["v/1/threshold", "v/1/parts_r_2", "v/1/parts_s", "v/1/parts_t", "v/1", "v"]


@pytest.mark.parametrize("row_by_row", [True, False])
def test_the_stages_before_count_for_the_choice_of_auto(row_by_row: bool) -> None:
    """They are estimated with the join, and all of it is left out where rows must not go one by one."""
    relation = translate(f"SELECT COUNT(*) AS c {CYCLE}", FIELDS, name="v").relation
    found = choose_plan(Compilation("v", relation, TABLES), Statistics(), Choice("latency", row_by_row=row_by_row))
    again = compile_from(Compilation("v", relation, TABLES, plan=found.plan))
    assert again == found.program
    assert row_by_row or set(roles(found.program)) == {None}
