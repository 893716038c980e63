"""The examples of the DBToaster paper: the same maps, the same statements, the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dbtoaster.queries import QUERIES, declarations
from tests.program.interpret import Interpreter
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.program.reads import queries_of, relation_of
from tidemill.program.stages import Program
from tidemill.program.text import text_of_program

PROGRAMS = Path(__file__).parent / "programs"


def tables_of(ddl: str) -> dict[str, Table]:
    return {s.table.name: s.table for s in parse(ddl) if isinstance(s, CreateTable)}


def program_of(ddl: str, sql: str, name: str = "q", depth: str = "full", static: str = "") -> Program:
    tables = tables_of(ddl)
    relation = translate(sql, {n: table.fields for n, table in tables.items()}, name=name).relation
    return compile_view(name, relation, tables, "viewlet", depth=depth, static=frozenset(static.split()))


def expected(name: str) -> str:
    return (PROGRAMS / f"{name}.txt").read_text().rstrip("\n")


# ------------------------------------------------------------------------------------------------------------ example 1

EXAMPLE_1 = "CREATE STREAM r (a INT); CREATE STREAM s (b INT);"

TABLE = [("", 6, 3, 2), ("s", 8, 4, 2), ("r", 12, 4, 3), ("s", 15, 5, 3), ("s", 18, 6, 3)]
"""What is inserted into, then Q, the delta of Q by R, and the delta of Q by S."""


@pytest.mark.parametrize("depth", ["naive", "full"])
def test_example_1_goes_through_the_states_of_its_table(depth: str) -> None:
    running = Interpreter(
        program_of(EXAMPLE_1, "SELECT COUNT(*) AS n FROM r, s", depth=depth), tables_of(EXAMPLE_1), {}
    )
    running.load()
    running.run({"r": ZSet.of([(1,), (2,)]), "s": ZSet.of([(1,), (2,), (3,)])})
    for step, (relation, *numbers) in enumerate(TABLE):
        if relation:
            running.run({relation: ZSet({(10 + step,): 1})})
        assert [running.maps[name].entries[()][0] for name in ("q/groups", "q:s", "q:r")] == numbers


# ------------------------------------------------------------------------------------------------------------ example 2

EXAMPLE_2 = """
CREATE STREAM o (ordk BIGINT NOT NULL, custk BIGINT NOT NULL, xch DECIMAL(10,4) NOT NULL);
CREATE STREAM li (ordk BIGINT NOT NULL, partk BIGINT NOT NULL, price DECIMAL(12,2) NOT NULL);
"""


def test_example_2_is_the_program_of_the_paper() -> None:
    """``Q += xch * Q_O[ordk]; Q_LI[ordk] += xch``, and the same the other way round."""
    sql = "SELECT SUM(li.price * o.xch) AS total FROM o, li WHERE o.ordk = li.ordk"
    assert text_of_program(program_of(EXAMPLE_2, sql)) == expected("example_2")


# ------------------------------------------------------------------------------------------------------------- figure 4

FIGURE_4 = """
CREATE STREAM c (ck BIGINT NOT NULL);
CREATE STREAM o (ck BIGINT NOT NULL, ok BIGINT NOT NULL);
CREATE STREAM li (ok BIGINT NOT NULL, qty BIGINT NOT NULL);
"""

Q18 = """
SELECT c.ck, SUM(l1.qty) AS total FROM c, o, li l1
WHERE 1 <= (SELECT SUM(1) WHERE 100 < (SELECT SUM(l2.qty) FROM li l2 WHERE l1.ok = l2.ok))
  AND c.ck = o.ck AND o.ok = l1.ok
GROUP BY c.ck
"""

NAMES = {"Q": "q/groups", "Q_C": "q:li_o", "Q_LI": "q:c_o", "Q_LI,C": "q:o", "Q_O1": "q:c", "Q_O2": "q:li"}
"""What the maps of the figure are called here."""

STATEMENTS = [
    ("c", "Q", {"Q_C"}),
    ("c", "Q_LI", {"Q_LI,C"}),
    ("c", "Q_O1", set()),
    ("o", "Q", {"Q_O1", "Q_O2"}),
    ("o", "Q_LI", {"Q_O1"}),
    ("o", "Q_LI,C", set()),
    ("o", "Q_C", {"Q_O2"}),
    ("li", "Q", {"Q_LI", "Q_O2"}),
    ("li", "Q_C", {"Q_LI,C", "Q_O2"}),
    ("li", "Q_O2", set()),
]
"""Lines 01 to 10: which relation changes, what is added to, what is read."""


def test_figure_4_has_the_same_maps_and_statements() -> None:
    (stage,) = program_of(FIGURE_4, Q18).stages
    assert {map_.name for map_ in stage.maps} == set(NAMES.values())
    found = []
    for trigger in stage.triggers:
        for statement in trigger.statements:
            read = {relation_of(step) for query in queries_of(statement) for step in query.sources}
            found.append((trigger.relation, statement.target, read - {trigger.relation}))
    lines = [(relation, NAMES[target], {NAMES[name] for name in read}) for relation, target, read in STATEMENTS]
    assert sorted(found, key=str) == sorted(lines, key=str)


def test_figure_4_in_text() -> None:
    assert text_of_program(program_of(FIGURE_4, Q18)) == expected("figure_4")


# ----------------------------------------------------------------------------------------------------------- appendix a


def test_vwap_of_each_broker_is_what_a_bid_touches_before_and_after_it() -> None:
    sql = """SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1
        WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3 WHERE b3.broker_id = b1.broker_id)
        > (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.broker_id = b1.broker_id AND b2.price > b1.price)"""
    assert text_of_program(program_of(declarations("vwap"), sql, "vwap")) == expected("vwap_of_brokers")


@pytest.mark.parametrize("query", QUERIES)
def test_program_of_appendix_a(query: str) -> None:
    program = program_of(declarations(query), QUERIES[query], query, static="nation")
    assert text_of_program(program) == expected(query)
