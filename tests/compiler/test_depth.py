"""Deep and long statements: answered up to a limit, refused beyond it, by every back end."""

from __future__ import annotations

import time

import pytest

import tidemill
from tidemill.compiler.frontends.text.depth import MAX_DEPTH
from tidemill.model.errors import Unsupported

ROWS = [(+1, (1, 2, "x")), (+1, (3, None, "y"))]

DEEP = {
    "parentheses": (f"SELECT {'(' * 200}a{')' * 200} AS x FROM t", [(1,), (3,)]),
    "a sum": (f"SELECT {' + '.join(['b'] * 1000)} AS x FROM t", [(2000,), (None,)]),
    "a sum to the right": (f"SELECT {'(a + ' * 200}a{')' * 200} AS x FROM t", [(201,), (603,)]),
    "AND": (f"SELECT a FROM t WHERE {' AND '.join(f'a <> {n}' for n in range(2, 1002))}", [(1,)]),
    "OR": (f"SELECT a FROM t WHERE {' OR '.join(f'a = {n}' for n in range(1000))}", [(1,), (3,)]),
    "NOT": (f"SELECT a FROM t WHERE {'NOT ' * 200} a = 1", [(1,)]),
    "signs": (f"SELECT {'- ' * 201}a AS x FROM t", [(-1,), (-3,)]),
    "text": (f"SELECT length({' || '.join(['s'] * 300)}) AS x FROM t", [(300,), (300,)]),
    "UNION ALL": (f"SELECT COUNT(*) AS n FROM ({' UNION ALL '.join(['SELECT a FROM t'] * 500)})", [(1000,)]),
    "UNION": (" UNION ".join(["SELECT a FROM t"] * 500), [(1,), (3,)]),
    "subqueries": (f"SELECT a FROM {'(SELECT a FROM ' * 50}t{')' * 50}", [(1,), (3,)]),
    "CASE": (f"SELECT CASE {' '.join(f'WHEN a = {n} THEN {n}' for n in range(500))} END AS x FROM t", [(1,), (3,)]),
    "nested CASE": (f"SELECT {'CASE WHEN a = 1 THEN a ELSE ' * 100}0{' END' * 100} AS x FROM t", [(0,), (1,)]),
    "functions": (f"SELECT {'abs(' * 200}a{')' * 200} AS x FROM t", [(1,), (3,)]),
    "COALESCE": (f"SELECT {'coalesce(b, ' * 200}a{')' * 200} AS x FROM t", [(2,), (3,)]),
}

MANY = {
    "parentheses": f"SELECT {'(' * 6000}a{')' * 6000} AS x FROM t",
    "operands": f"SELECT {' + '.join(['a'] * 6000)} AS x FROM t",
    "queries": " UNION ALL ".join(["SELECT a FROM t"] * 6000),
    "CASE": f"SELECT {'CASE WHEN a = 1 THEN a ELSE ' * 6000}0{' END' * 6000} AS x FROM t",
    "types": f"CREATE TABLE w (x {'ARRAY<' * 6000}INT{'>' * 6000})",
    "signs": f"SELECT {'- ' * 6000}a AS x FROM t",
    "brackets that never close": f"SELECT {'f([' * 6000}",
}


COMPILED = ("a sum to the right", "nested CASE", "COALESCE", "NOT")
"""Those that are compiled in every run of the tests; the others take seconds."""


@pytest.mark.turns("backend")
@pytest.mark.parametrize(
    ("backend", "what"),
    [
        *(("python", what) for what in DEEP),
        *(pytest.param("llvm", what, marks=() if what in COMPILED else pytest.mark.long) for what in DEEP),
    ],
)
def test_deep_views_are_kept(backend: str, what: str) -> None:
    query, expected = DEEP[what]
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        wh.sql("CREATE TABLE t (a INT NOT NULL, b INT, s STRING)")
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        wh.apply({"t": ROWS})
        assert sorted(wh.view("v").rows(), key=repr) == sorted(expected, key=repr)
        assert wh.view("v").verify()
        assert wh.view("v").explain()


def test_deep_views_outlive_the_process_that_made_them(tmp_path) -> None:
    query, expected = DEEP["a sum to the right"]
    with tidemill.open(tmp_path / "deep", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT NOT NULL, b INT, s STRING)")
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        wh.apply({"t": ROWS[:1]})
    with tidemill.open(tmp_path / "deep", runtime="native") as wh:
        wh.apply({"t": ROWS[1:]})
        assert sorted(wh.view("v").rows()) == expected
        assert sorted(wh.sql(query)) == expected


@pytest.mark.parametrize("what", MANY)
def test_what_is_deeper_still_is_refused_soon(what: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        begun = time.process_time()
        with pytest.raises(Unsupported, match=f"more than {MAX_DEPTH:,} levels") as refused:
            wh.sql(MANY[what])
        assert time.process_time() - begun < 5
        assert refused.value.where is not None and len(str(refused.value)) < 1000
