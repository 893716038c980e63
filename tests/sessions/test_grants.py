"""Rights: whatever a user asks, no row, count or name comes out that was not granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.engine.sessions.session import Session
from tidemill.model.errors import (
    BadValue,
    Conflict,
    DataError,
    NotAllowed,
    ParseError,
    TidemillError,
    UnknownName,
    Unsupported,
)

SECRETS = ("hidden", "usa", "7777", "secret_", "xyzzy")
"""Parts of every value and name that must not come out: rows of region USA, and relations that were not granted."""


@pytest.fixture(scope="module")
def made() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("""
            CREATE TABLE sales (id INT PRIMARY KEY, region STRING, amount INT, note STRING);
            CREATE TABLE hidden_sales (id INT PRIMARY KEY, region STRING);
            CREATE STREAM clicks (id INT);
            CREATE MATERIALIZED VIEW totals AS
                SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY region;
            CREATE MATERIALIZED VIEW hidden_totals AS
                SELECT region, 1000 / SUM(amount) AS part FROM sales GROUP BY region;
            CREATE VIEW hidden_plain AS SELECT * FROM sales WHERE region = 'USA';
            CREATE FUNCTION hidden_function(i INT) RETURNS INT RETURN (SELECT MAX(amount) FROM sales WHERE id = i);
            INSERT INTO sales VALUES (1, 'EU', 10, '1'), (2, 'EU', 20, '2'), (3, 'USA', 7777, 'xyzzy'),
                (4, 'USA', 77771, 'xyzzy'), (5, 'USA', 77772, 'xyzzy');
            INSERT INTO hidden_sales VALUES (1, 'EU');
            GRANT ALL ON sales TO ann WHERE region = 'EU'; GRANT SELECT ON VIEW totals TO eu WHERE region = 'EU';
        """)
        yield warehouse


@pytest.fixture
def ann(made: tidemill.Warehouse) -> Iterator[Session]:
    with made.session(user="Ann", roles=["eu"]) as session:
        yield session


STATEMENTS = [
    "SELECT * FROM sales",
    "SELECT COUNT(*), SUM(amount), MAX(note) FROM sales",
    "SELECT COUNT(*) FROM sales WHERE amount > 100",
    "SELECT * FROM sales WHERE region = 'USA' OR 1 = 1 ORDER BY amount DESC LIMIT 1",
    "SELECT * FROM sales WHERE id = 3",
    "SELECT CAST(note AS INT) FROM sales",
    "SELECT 1 / (amount - 7777) AS a FROM sales WHERE 1 / (amount - 7777) < 1",
    "WITH sales AS (SELECT * FROM sales) SELECT * FROM sales",
    "WITH s AS (SELECT * FROM sales) SELECT a.id FROM s a JOIN s b ON a.id <> b.id",
    "SELECT a.* FROM sales a FULL JOIN sales b ON a.id = b.id + 2",
    "SELECT (SELECT MAX(amount) FROM sales)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM sales WHERE amount > 7000)",
    "SELECT id FROM RANGE(9) WHERE id NOT IN (SELECT id FROM sales)",
    "SELECT * FROM totals",
    "SELECT SUM(n) AS n FROM totals",
    "SELECT t.n FROM totals t, LATERAL (SELECT * FROM sales s WHERE s.region = t.region) AS l",
    "SELECT * FROM sales VERSION AS OF 1",
    "SELECT * FROM totals VERSION AS OF 1 JOIN sales USING (region)",
    "SELECT * FROM sales UNION ALL SELECT * FROM sales",
    "SELECT *, RANK() OVER (ORDER BY amount DESC) AS r FROM sales",
    "EXECUTE IMMEDIATE 'SELECT * FROM sales'",
    "DECLARE OR REPLACE VARIABLE v INT DEFAULT 0; SET VAR v = (SELECT MAX(amount) FROM sales); SELECT v",
    "CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT * FROM sales; SELECT * FROM mine; DESCRIBE mine",
    "CREATE OR REPLACE TEMPORARY FUNCTION f(i INT) RETURNS INT RETURN (SELECT MAX(amount) FROM sales); SELECT f(1)",
    "EXPLAIN VIEW totals",
    "DESCRIBE sales",
    "DESCRIBE EXTENDED totals",
    "SHOW COLUMNS IN sales",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW CREATE VIEW totals",
    "SHOW CREATE TABLE sales",
    "SHOW STATISTICS",
    "SHOW STATISTICS FOR sales",
    "SHOW PARTITIONS sales",
    "SHOW PLANS",
    "SHOW REFRESHES",
    "SHOW COSTS",
    "SHOW STATE",
    "SHOW BUILDS",
    "SHOW SOURCES",
    "SHOW FEEDS",
    "SHOW GRANTS",
    "SHOW USER FUNCTIONS",
    "DESCRIBE FUNCTION hidden_function",
    "ANALYZE sales",
    "REFRESH VIEW totals",
    "GRANT ALL ON ALL TABLES TO ann",
    "REVOKE SELECT ON sales FROM ann",
    "DROP TABLE sales",
    "DROP VIEW totals",
    "ALTER TABLE sales ADD COLUMN c INT",
    "ALTER VIEW totals SET (refresh = 'deferred')",
    "CREATE MATERIALIZED VIEW m AS SELECT * FROM sales",
    "CREATE VIEW m AS SELECT * FROM sales",
    "CREATE TABLE m AS SELECT * FROM sales",
    "CREATE TABLE m (a INT)",
    "CREATE FUNCTION g() RETURNS INT RETURN 1",
    "OQL select s from s in sales",
    "REPLAY LATE sales",
    "CREATE FEED f INTO sales FROM '/tmp'",
    *(f"SELECT * FROM information_schema.{table}" for table in ("schemata", "tables", "columns", "views")),
    *(f"SELECT * FROM information_schema.{table}" for table in ("table_constraints", "key_column_usage")),
    "SELECT * FROM information_schema.check_constraints",
    "INSERT INTO sales VALUES (3, 'EU', 1, '')",
    "INSERT INTO sales VALUES (3, 'EU', 1, '') ON CONFLICT DO UPDATE SET note = sales.note",
    "INSERT INTO sales VALUES (8, 'USA', 1, '')",
    "INSERT INTO sales SELECT id, 'EU', 0, '' FROM RANGE(6)",
    "UPDATE sales SET amount = 1 WHERE id = 3",
    "UPDATE sales SET region = 'USA'",
    "UPDATE sales SET id = 3 WHERE id = 1",
    "UPDATE sales SET amount = -10 WHERE id = 1; UPDATE sales SET amount = -20 WHERE id = 2",
    "DELETE FROM sales WHERE region = 'USA'",
    "MERGE INTO sales USING (SELECT 3 AS id) s ON sales.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'EU', 0, '')",
    "BEGIN; SELECT * FROM totals; INSERT INTO sales VALUES (9, 'EU', 1, ''); SELECT * FROM totals; SELECT * FROM sales",
    "BEGIN; INSERT INTO sales VALUES (3, 'EU', 1, ''); COMMIT",
]

METHODS: dict[str, Callable[[Session], Any]] = {
    "rows": lambda s: [s.table("sales").rows(), s.view("totals").rows(), len(s.table("sales"))],
    "arrow": lambda s: [s.table("sales").arrow().to_pylist(), s.view("totals").arrow().to_pylist()],
    "html": lambda s: s.table("sales")._repr_html_(),
    "columns": lambda s: [s.table("sales").columns, s.table("sales").fields],
    "stream": lambda s: __import__("pyarrow").table(s.view("totals")).to_pylist(),
    "changes": lambda s: s.view("totals").changes(),
    "batches": lambda s: [list(batch) for batch in s.view("totals").batches()],
    "batch arrow": lambda s: [batch.arrow().to_pylist() for batch in s.view("totals").batches()],
    "batches where": lambda s: [list(batch) for batch in s.view("totals").batches(where={"region": "USA"})],
    "net of view": lambda s: s.view("totals").net_changes(0).to_pylist(),
    "net of table": lambda s: s.table("sales").net_changes(0).to_pylist(),
    "lineage": lambda s: s.view("totals").lineage(("EU", 2, 30)),
    "verify": lambda s: s.view("totals").verify(),
    "recompute": lambda s: s.view("totals").recompute(),
    "explain": lambda s: s.view("totals").explain(),
    "sizes": lambda s: s.view("totals").sizes(),
    "definition": lambda s: s.view("totals").definition,
    "declaration": lambda s: s.table("sales").definition,
    "refresh": lambda s: s.view("totals").refresh(),
    "staleness": lambda s: s.view("totals").staleness(),
    "partitions": lambda s: s.table("sales").partitions(),
    "at": lambda s: [s.at(1).table("sales").rows(), s.at(1).view("totals").rows(), s.at(1).sql("SELECT * FROM sales")],
    "subscribe": lambda s: [list(batch) for batch in s.subscribe("totals", since=0, timeout=0)],
    "subscribe arrow": lambda s: [
        b.arrow().to_pylist() + [e.to_pylist() for e in b.encoded()]
        for b in s.subscribe("totals", since=0, timeout=0, form="arrow")
    ],
    "prepared": lambda s: s.prepare("SELECT * FROM sales WHERE amount > :a").run(a=0),
    "prepared again": lambda s: [s.sql("SELECT * FROM totals WHERE n > :n", n=0) for _ in range(3)],
    "described": lambda s: s.prepare("SELECT * FROM hidden_sales WHERE id = :a").describe(),
    "names": lambda s: [s.tables(), s.views()],
    "statistics": lambda s: s.statistics(),
    "plans": lambda s: s.plans(),
    "verify all": lambda s: s.verify(),
    "has objects": lambda s: s.has_objects("sales"),
    "apply": lambda s: s.apply({"sales": [(-1, (3, "USA", 7777, "xyzzy"))]}),
    "apply wrong": lambda s: s.apply({"sales": [(-1, (3, "USA", 1, ""))]}),
    "apply other": lambda s: s.apply({"hidden_sales": [(1, (9, "EU"))]}),
    "apply positions": lambda s: s.apply({}, positions={"feed": "1"}),
    "upsert": lambda s: s.upsert("sales", [(3, "EU", 1, "")]),
    "delete": lambda s: s.delete("sales", [3]),
    "load": lambda s: s.load("sales", "/etc/passwd"),
}


def told(session: Session, ask: Callable[[Session], Any]) -> str:
    """All that comes out: the result, or the error as it is shown."""
    try:
        return str(ask(session)).lower()
    except TidemillError as error:
        return f"{type(error).__name__}: {error.render()}".lower()
    finally:
        if session.in_transaction:
            session.sql("ROLLBACK")


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_statement_tells_what_was_not_granted(made: tidemill.Warehouse, ann: Session, text: str) -> None:
    before = sorted(made.table("sales").rows())[2:]
    found: list[Any] = []

    def ask(session: Session) -> Any:
        return [session.sql(text, each=lambda result: found.append((result.columns, result))), found]

    for _ in range(2):  # once it was read, and once as it was kept ready
        shown = told(ann, ask)
        assert "internalerror" not in shown
        # Values that are computed from the user's own number, and a name that the user has written, are no secrets.
        without = shown.replace("hidden_function", "").replace("0.0001287", "").replace("- 7777", "")
        assert not [secret for secret in SECRETS if secret in without], shown
    made.sql("DELETE FROM sales WHERE region = 'EU' AND id > 5; DELETE FROM sales WHERE region = 'EU'")
    made.sql("INSERT INTO sales VALUES (1, 'EU', 10, '1'), (2, 'EU', 20, '2')")
    assert sorted(made.table("sales").rows())[2:] == before


@pytest.mark.parametrize("method", METHODS)
def test_no_method_tells_what_was_not_granted(made: tidemill.Warehouse, ann: Session, method: str) -> None:
    shown = told(ann, METHODS[method])
    if "hidden_sales" in shown:  # as the user has written it
        assert "there is no table or view" in shown
        shown = shown.replace("hidden_sales", "")
    assert not [secret for secret in SECRETS if secret in shown], shown
    assert len(made.table("sales").rows()) == 5


def test_counts_are_of_the_rows_that_are_seen(ann: Session) -> None:
    assert ann.sql("SELECT COUNT(*), SUM(amount) FROM sales").rows() == [(2, 30)]
    assert ann.sql("SELECT SUM(n) FROM totals").rows() == [(2,)]
    assert ann.sql("WITH sales AS (SELECT * FROM sales) SELECT COUNT(*) FROM sales").rows() == [(2,)]
    assert ann.sql("SELECT COUNT(*) FROM sales VERSION AS OF 1").rows() == [(2,)]
    assert ann.sql("SELECT 1 / (amount - 7777) < 1 AS b FROM sales").rows() == [(True,)] * 2
    assert (ann.tables(), ann.views()) == (("sales",), ("totals",))


@pytest.mark.parametrize("name", ["hidden_sales", "hidden_plain", "no_such_thing"])
def test_what_is_hidden_looks_as_if_it_were_not_there(ann: Session, name: str) -> None:
    def shown(ask: Callable[[], Any]) -> str:
        with pytest.raises(UnknownName) as refused:
            ask()
        return refused.value.render().replace(name, "NAME").replace("^" * len(name), "^")

    asks: list[Callable[[str], Any]] = [
        *(lambda n, text=text: ann.sql(text.format(n)) for text in ("SELECT * FROM {}", "DESCRIBE {}")),
        *(lambda n, text=text: ann.sql(text.format(n)) for text in ("DELETE FROM {}", "INSERT INTO {} VALUES (1)")),
        *(ann.table, ann.view, ann.at(1).view, lambda n: ann.upsert(n, [(1,)]), lambda n: ann.subscribe(n)),
        lambda n: ann.apply({n: [(1, (1,))]}),
    ]
    for ask in asks:
        unknown = "x" * len(name)
        with pytest.raises(UnknownName) as other:
            ask(unknown)
        assert shown(lambda ask=ask: ask(name)) == other.value.render().replace(unknown, "NAME").replace(
            "^" * len(name), "^"
        )


def test_a_row_that_leaves_the_filter_leaves(made: tidemill.Warehouse, ann: Session) -> None:
    made.sql("CREATE MATERIALIZED VIEW moving AS SELECT id, region FROM sales")
    made.sql("GRANT SELECT ON moving TO ann WHERE region = 'EU'")
    start = made.epoch
    with ann.subscribe("moving", timeout=0) as changes:
        made.sql("UPDATE sales SET region = 'USA' WHERE id = 1")
        made.sql("UPDATE sales SET note = 'n' WHERE id = 3")
        made.sql("UPDATE sales SET region = 'EU' WHERE id = 1")
        seen = [(batch.inserts, batch.deletes) for batch in changes]
        assert seen == [([], [(1, "EU")]), ([(1, "EU")], [])]
        assert [list(batch) for batch in ann.view("moving").batches(start)] == [[(-1, (1, "EU"))], [(1, (1, "EU"))]]
        made.sql("REVOKE SELECT ON moving FROM ann; UPDATE sales SET region = 'USA' WHERE id = 1")
        with pytest.raises(TidemillError, match="moving"):
            next(changes)
    with pytest.raises(UnknownName):
        ann.view("moving")
    made.sql("UPDATE sales SET region = 'EU' WHERE id = 1; DROP VIEW moving")


def test_changes_by_rights(made: tidemill.Warehouse) -> None:
    made.sql("""
        CREATE TABLE log (id INT PRIMARY KEY, region STRING);
        GRANT INSERT ON log TO writer_only WHERE region = 'EU';
        GRANT SELECT, UPDATE ON log TO updater WHERE region = 'EU'
    """)
    with made.session(user="writer_only", roles=[]) as writer, made.session("u", ["updater"]) as updater:
        writer.apply({"log": [(+1, (1, "EU"))]})
        for refused in ("INSERT INTO log VALUES (2, 'USA')", "DELETE FROM log", "SELECT * FROM log"):
            with pytest.raises(NotAllowed):
                writer.sql(refused)
        with pytest.raises(DataError, match="the change is refused"):
            writer.sql("INSERT INTO log VALUES (1, 'EU')")
        updater.sql("UPDATE log SET id = 5")
        for refused in ("UPDATE log SET region = 'USA'", "DELETE FROM log", "INSERT INTO log VALUES (7, 'EU')"):
            with pytest.raises(NotAllowed):
                updater.sql(refused)
        with pytest.raises(NotAllowed):
            updater.apply({"log": [(-1, (5, "EU"))]})
    assert made.table("log").rows() == [(5, "EU")]
    made.sql("DROP TABLE log; CREATE TABLE log (id INT)")
    assert not [row for row in made.sql("SHOW GRANTS") if row[2] == "log"]
    made.sql("DROP TABLE log")


def test_a_right_that_is_taken_while_somebody_looks(made: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may ask between the copy of the catalog and its change."""
    made.sql("GRANT SELECT ON hidden_sales TO eve")
    epochs = made._engine.epochs
    changing = epochs.changing_catalog
    with made.session(user="eve", roles=[]) as eve, ThreadPoolExecutor(1) as pool:

        @contextmanager
        def looked_at() -> Iterator[Any]:
            with changing() as catalog:
                assert pool.submit(eve.tables).result(10) == ("hidden_sales",)
                yield catalog

        with monkeypatch.context() as patch:
            patch.setattr(epochs, "changing_catalog", looked_at)
            made.sql("REVOKE SELECT ON hidden_sales FROM eve")
        assert eve.tables() == ()
        assert not (eve.is_owner or eve.reads_all)


def test_roles(made: tidemill.Warehouse, tmp_path: Path) -> None:
    with made.session(roles=["reader"]) as reader, made.session(roles=["writer"]) as writer:
        for session in (reader, writer):
            assert session.sql("SELECT COUNT(*) FROM sales").rows() == [(5,)]
            assert session.view("totals").verify()
            assert session.sql("SELECT COUNT(*) FROM hidden_plain").rows() == [(3,)]
            with pytest.raises(NotAllowed):
                session.sql("DROP TABLE sales")
            with pytest.raises(NotAllowed):
                session.load("sales", tmp_path / "rows.csv")
        with pytest.raises(NotAllowed):
            reader.sql("INSERT INTO hidden_sales VALUES (2, 'EU')")
        writer.sql("INSERT INTO hidden_sales VALUES (2, 'EU'); DELETE FROM hidden_sales WHERE id = 2")
    with made.session(user="nobody", roles=[]) as nobody:
        assert (nobody.tables(), nobody.views(), nobody.sql("SHOW TABLES").rows()) == ((), (), [])


def test_grants_are_definitions(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, b STRING); GRANT SELECT ON t TO ann WHERE b = 'x' AND a > 1")
        wh.sql("GRANT SELECT, INSERT ON t TO ann WHERE a = 0; GRANT ALL ON SCHEMA default TO ROLE ops")
        wh.sql("INSERT INTO t VALUES (0, 'y'), (1, 'x'), (2, 'x'), (3, 'z')")
        for wrong, error in (
            ("GRANT SELECT ON t TO ann WHERE c = 1", UnknownName),
            ("GRANT SELECT ON nothing TO ann", UnknownName),
            ("GRANT EAT ON t TO ann", ParseError),
            ("GRANT SELECT ON ALL TABLES TO ann WHERE a = 1", Unsupported),
            ("BEGIN; GRANT SELECT ON t TO ann", Unsupported),
        ):
            with pytest.raises(error):
                wh.sql(wrong)
    with tidemill.open(tmp_path / "w", runtime="native") as wh, wh.session(user="ann", roles=[]) as ann:
        assert sorted(ann.table("t").rows()) == [(0, "y"), (2, "x")]
        assert len(wh.sql("SHOW GRANTS")) == 7
        assert ann.sql("SHOW GRANTS ON t").rows() == [
            ("ann", "SELECT", "t", "b = 'x' AND a > 1"),
            ("ann", "SELECT", "t", "a = 0"),
            ("ann", "INSERT", "t", "a = 0"),
        ]
        with pytest.raises(BadValue):
            ann.apply({"t": [(1, ("x", "y"))]})
        ann.sql("BEGIN; SELECT * FROM t; INSERT INTO t VALUES (0, 'q')")
        assert sorted(ann.sql("SELECT b FROM t").rows()) == [("q",), ("x",), ("y",)]
        wh.sql("INSERT INTO t VALUES (5, '')")
        with pytest.raises(Conflict):
            ann.sql("COMMIT")
        wh.sql("ALTER TABLE t DROP COLUMN b")
        with pytest.raises(NotAllowed, match="no longer fits"):
            ann.table("t").rows()
        wh.sql("REVOKE ALL PRIVILEGES ON t FROM ann")
        assert ann.tables() == ()
