"""BEGIN ... COMMIT as one epoch: its own changes are read, others do not see them, a failure leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill
from tidemill.model.errors import (
    ArithmeticFault,
    BadValue,
    Conflict,
    DuplicateKey,
    InvalidArgument,
    MissingRow,
    StorageError,
    TidemillError,
    TransactionState,
    UnknownName,
    Unsupported,
)

SETUP = """
CREATE TABLE t (k INT PRIMARY KEY, a INT); CREATE TABLE s (k INT, a INT); CREATE STREAM c (k INT);
CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
CREATE MATERIALIZED VIEW w AS SELECT v.n, COUNT(*) AS m FROM v JOIN s ON v.a = s.a GROUP BY v.n;
CREATE MATERIALIZED VIEW top AS SELECT k, a FROM t ORDER BY a DESC LIMIT 2;
CREATE MATERIALIZED VIEW clicked AS SELECT t.k FROM t JOIN c ON t.k = c.k;
CREATE MATERIALIZED VIEW later WITH (refresh = 'deferred') AS SELECT COUNT(*) AS n FROM t;
INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO s VALUES (1, 1), (1, 1), (2, 2);
"""


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql(SETUP)
        yield warehouse


def in_thread(work: Any) -> Any:
    """The result of ``work`` in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def seen(wh: tidemill.Warehouse) -> dict[str, Any]:
    queries = ("SELECT * FROM t", "SELECT * FROM v", "SELECT * FROM w", "SELECT * FROM top", "SELECT n FROM later")
    return {query: Counter(wh.sql(query).rows()) for query in queries}


STATEMENTS = st.sampled_from(
    [
        "INSERT INTO t SELECT MAX(k) + 1, MIN(a) FROM t HAVING COUNT(*) > 0",
        "INSERT INTO t VALUES (1, 7), (5, 5) ON CONFLICT DO UPDATE SET a = t.a + excluded.a",
        "UPDATE t SET a = a + 1 WHERE k = 1",
        "UPDATE t SET a = (SELECT SUM(n) FROM v)",
        "DELETE FROM t WHERE a = (SELECT MAX(a) FROM t)",
        "DELETE FROM t WHERE k IN (SELECT k FROM top)",
        "MERGE INTO t USING (SELECT k, MIN(a) AS a FROM s GROUP BY k) AS s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET a = s.a + 1 WHEN NOT MATCHED THEN INSERT (k, a) VALUES (s.k, 0)",
        "INSERT INTO s SELECT k, a FROM t",
        "INSERT OVERWRITE s SELECT a, k FROM s WHERE k < 3",
        "INSERT OVERWRITE t SELECT k, a FROM t WHERE k % 2 = 1",
    ]
)


@settings(max_examples=15, deadline=None)
@given(statements=st.lists(STATEMENTS, min_size=1, max_size=4))
def test_every_step_sees_what_one_epoch_after_the_other_would_show(statements: list[str]) -> None:
    compare_steps(statements)


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(statements=st.lists(STATEMENTS, min_size=2, max_size=9))
def test_longer_transactions_see_what_epochs_would_show(statements: list[str]) -> None:
    compare_steps(statements)


def compare_steps(statements: list[str]) -> None:
    """In one transaction, and as many epochs: after each statement all tables and views are the same."""
    with (
        tidemill.open(":memory:", runtime="native", backend="python") as one,
        tidemill.open(":memory:", runtime="native", backend="python") as many,
    ):
        for wh in (one, many):
            wh.sql(SETUP)
        before, epoch = seen(one), one.epoch
        one.sql("BEGIN")
        for statement in statements:
            one.sql(statement)
            many.sql(statement)
            assert seen(one) == seen(many), statement
            assert sorted(one.view("v").rows()) == sorted(many.view("v").rows())
            assert sorted(one.table("t").rows()) == sorted(many.table("t").rows())
            assert in_thread(lambda: seen(one)) == before
        assert one.epoch == epoch
        one.sql("COMMIT")
        assert seen(one) == seen(many) and one.epoch <= epoch + 1
        assert all(one.verify("v", "w", "top"))


def test_it_is_one_epoch(wh: tidemill.Warehouse) -> None:
    since = wh.epoch
    changes = wh.subscribe("v", timeout=0.01)
    told: list[str] = []
    wh.sql(
        "BEGIN; INSERT INTO t VALUES (3, 1); UPDATE t SET a = 9 WHERE k = 3; COMMIT",
        each=lambda r: told.append(r.message),
    )
    assert told[-1] == f"committed: 1 row change in epoch {since + 1}"
    assert [batch.epoch for batch in changes] == [since + 1]
    assert wh.sql("BEGIN TRANSACTION; INSERT INTO t VALUES (4, 1); DELETE FROM t WHERE k = 4; COMMIT WORK").message
    assert wh.sql("START TRANSACTION; ROLLBACK").message == "rolled back"
    assert wh.sql("BEGIN; SELECT 1; COMMIT").message == "committed: nothing was changed"


def test_in_python(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("k,a\n20,20\n")
    since = wh.epoch
    with wh.transaction() as transaction:
        wh.apply({"t": [(+1, (10, 10))], "c": [(+1, (10,))]}, positions={"me": "1"})
        wh.upsert("t", [(1, 100)])
        wh.delete("t", [2])
        wh.load("t", file)
        assert wh.sql("SELECT * FROM t WHERE k IN (1, 2, 10, 20)").rows() == [(1, 100), (10, 10), (20, 20)]
        assert wh.epoch == since and transaction.epoch is None
    assert transaction.epoch == wh.epoch == since + 1 and wh.positions == {"me": "1"}
    assert sorted(wh.table("t").rows()) == [(1, 100), (10, 10), (20, 20)]
    with pytest.raises(ArithmeticFault), wh.transaction():  # noqa: PT012  what is before the error is the point
        wh.sql("DELETE FROM t")
        wh.sql("SELECT 1 / 0")
    with pytest.raises(InvalidArgument, match="ended by a statement"), wh.transaction():
        wh.sql("ROLLBACK")
    assert wh.epoch == since + 1 and all(wh.verify("v", "w", "top"))


@pytest.mark.parametrize(
    ("statements", "error", "what"),
    [
        ("COMMIT", TransactionState, "no transaction is open"),
        ("ROLLBACK", TransactionState, "no transaction is open"),
        ("BEGIN; BEGIN", TransactionState, "open already"),
        ("BEGIN; DELETE FROM t; CREATE TABLE x (a INT)", Unsupported, "CREATE TABLE cannot be in a transaction"),
        ("BEGIN; DROP TABLE s", Unsupported, "DROP cannot be in a transaction"),
        ("BEGIN; REFRESH VIEW later", Unsupported, "REFRESH VIEW cannot be in a transaction"),
        ("BEGIN; DELETE FROM t; SELECT * FROM nothing", UnknownName, "nothing"),
        ("BEGIN; DELETE FROM t; SELECT 1 / 0", ArithmeticFault, ""),
        ("BEGIN; DELETE FROM t; SELECT * FROM clicked", Unsupported, "clicked"),
        ("BEGIN; INSERT INTO t VALUES (1, 1); SELECT * FROM t; COMMIT", DuplicateKey, "key"),
        ("BEGIN; INSERT INTO t VALUES (1, NULL), (NULL, 1)", TidemillError, "NULL"),
    ],
)
def test_a_failure_leaves_nothing(
    wh: tidemill.Warehouse, statements: str, error: type[TidemillError], what: str
) -> None:
    before, epoch = seen(wh), wh.epoch
    with pytest.raises(error, match=what or None):
        wh.sql(statements)
    assert seen(wh) == before and wh.epoch == epoch
    assert wh.sql("INSERT INTO t VALUES (77, 7)").message == f"1 row change in epoch {epoch + 1}"


def test_a_failed_transaction_waits_for_its_end(wh: tidemill.Warehouse) -> None:
    epoch = wh.epoch
    for end in ("COMMIT", "ROLLBACK"):
        wh.sql("BEGIN")
        wh.sql("DELETE FROM t")
        with pytest.raises(UnknownName):
            wh.sql("SELECT * FROM nothing")
        for _ in range(3):
            with pytest.raises(TransactionState, match="has failed"):
                wh.sql("INSERT INTO t VALUES (9, 9)")
        with pytest.raises(TransactionState, match="has failed"):
            wh.apply({"t": [(+1, (9, 9))]})
        if end == "COMMIT":
            with pytest.raises(TransactionState, match="has failed"):
                wh.sql(end)
        else:
            wh.sql(end)
        assert wh.epoch == epoch and len(wh.table("t").rows()) == 2
    with pytest.raises(MissingRow), wh.transaction():
        wh.apply({"t": [(-1, (55, 5))], "s": [(+1, (5, 5))]})
    with pytest.raises(BadValue), wh.transaction():  # noqa: PT012
        wh.apply({"s": [(+1, (5, 5))]})
        wh.apply({"s": [(+1, ("x", 5))]})
    assert wh.epoch == epoch


def test_what_it_has_read_must_not_change(wh: tidemill.Warehouse) -> None:
    wh.sql("BEGIN; SELECT COUNT(*) FROM v")
    in_thread(lambda: wh.sql("INSERT INTO t VALUES (30, 1)"))
    with pytest.raises(Conflict, match='"t" has changed|"v" has changed'):
        wh.sql("SELECT COUNT(*) FROM t")
    wh.sql("ROLLBACK")
    wh.sql("BEGIN; UPDATE t SET a = a + 1 WHERE k = 1")
    in_thread(lambda: wh.sql("UPDATE t SET a = a + 1 WHERE k = 1"))
    with pytest.raises(Conflict, match="has changed since"):
        wh.sql("COMMIT")
    assert wh.sql("SELECT a FROM t WHERE k = 1").rows() == [(2,)]
    wh.sql("BEGIN; INSERT INTO s VALUES (8, 8)")
    in_thread(lambda: wh.sql("INSERT INTO s VALUES (9, 9)"))
    wh.sql("COMMIT")  # rows that are only inserted are in nobody's way
    assert {(8, 8), (9, 9)} <= set(wh.table("s").rows())


def test_counters_of_two_threads_add_up(wh: tidemill.Warehouse) -> None:
    def count() -> None:
        done = 0
        while done < 10:
            try:
                with wh.transaction():
                    ((old,),) = wh.sql("SELECT a FROM t WHERE k = 1").rows()
                    wh.sql("UPDATE t SET a = :new WHERE k = 1", new=old + 1)
                    wh.sql("INSERT INTO s VALUES (:k, :a)", k=1, a=old)
                done += 1
            except Conflict:
                continue

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wh.sql("SELECT a FROM t WHERE k = 1").rows() == [(21,)]
    assert Counter(row[1] for row in wh.table("s").rows() if row[0] == 1) == Counter([1, 1, *range(1, 21)])
    assert all(wh.verify("v", "w", "top"))


def test_a_thread_that_ends_takes_its_transaction_along(wh: tidemill.Warehouse) -> None:
    in_thread(lambda: wh.sql("BEGIN; DELETE FROM t"))
    for _ in range(5):
        assert in_thread(lambda: len(wh.sql("SELECT * FROM t").rows())) == 2
        in_thread(lambda: wh.sql("UPDATE t SET a = a + 1 WHERE k = 2"))
    assert wh.sql("SELECT a FROM t WHERE k = 2").rows() == [(7,)]


def test_a_reader_has_none(tmp_path: Path) -> None:
    tidemill.open(tmp_path / "w").close()
    with tidemill.open(tmp_path / "w", read_only=True) as reader, pytest.raises(StorageError):
        reader.sql("BEGIN")


KILLED = """
import os, signal, sys, tidemill
wh = tidemill.open(sys.argv[1], runtime="native", backend="python")
wh.sql("BEGIN; INSERT INTO t VALUES (3, 3); DELETE FROM t WHERE k = 1; INSERT INTO s VALUES (3, 3)")
if sys.argv[2] == "committed":
    wh.sql("COMMIT")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["open", "committed"])
def test_a_killed_process_leaves_all_or_nothing(tmp_path: Path, when: str) -> None:
    folder = tmp_path / "w"
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT); CREATE TABLE s (k INT, a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(a) AS a FROM t; INSERT INTO t VALUES (1, 1)")
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), when]
    ended = subprocess.run(script, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
    assert ended.returncode == -signal.SIGKILL
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        wanted = [(3, 3)] if when == "committed" else [(1, 1)]
        assert wh.table("t").rows() == wanted and wh.table("s").rows() == wanted * (when == "committed")
        assert all(wh.verify())
