"""Sessions of one warehouse: each has its own transaction and names, from any thread, and is cancelled from another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

import tidemill
from tidemill.engine.calls import running_call
from tidemill.engine.relation_reads import RelationReads
from tidemill.engine.row_changes import RowChanges
from tidemill.engine.sessions.session import Session
from tidemill.model.errors import Cancelled, Conflict, InvalidArgument, TransactionState, UnknownName

WAIT = 20
SLOW = "SELECT x.k, COUNT(*) AS n FROM big x JOIN big y ON x.a + y.a > 3 GROUP BY x.k"


@pytest.fixture(scope="module")
def shared() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("""
            CREATE TABLE t (k INT PRIMARY KEY, a INT); CREATE TABLE big (k INT, a INT);
            CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
            INSERT INTO big SELECT id, id FROM RANGE(60000);
        """)
        yield warehouse


@pytest.fixture
def wh(shared: tidemill.Warehouse) -> Iterator[tidemill.Warehouse]:
    yield shared
    shared.sql("DELETE FROM t")


def in_threads(*steps: Callable[[], object]) -> list[object]:
    """The results of ``steps``, each in a new thread, one after the other."""
    found: list[object] = []
    for step in steps:
        thread = threading.Thread(target=lambda step=step: found.append(step()))
        thread.start()
        thread.join()
    return found


def test_transactions_of_two_sessions_from_changing_threads(wh: tidemill.Warehouse) -> None:
    with wh.session(user="ann") as ann, wh.session(user="bob") as bob:
        seen = in_threads(
            lambda: ann.sql("BEGIN"),
            lambda: bob.sql("BEGIN; INSERT INTO t VALUES (2, 7)"),
            lambda: ann.sql("INSERT INTO t VALUES (1, 7)"),
            lambda: ann.sql("SELECT k FROM t").rows(),
            lambda: bob.view("v").rows(),
            lambda: (ann.in_transaction, bob.in_transaction, wh.in_transaction),
            lambda: ann.sql("COMMIT"),
        )
        assert seen[3:6] == [[(1,)], [(7, 1)], (True, True, False)]
        assert wh.table("t").rows() == [(1, 7)]
        with pytest.raises(Conflict):  # bob has read v, which ann's epoch has changed
            bob.sql("COMMIT")
        assert not bob.in_transaction


def test_a_block_of_one_session_while_others_commit(wh: tidemill.Warehouse) -> None:
    with wh.session() as one, wh.session() as other:
        with one.transaction() as transaction:
            one.apply({"t": [(+1, (1, 1))]})
            other.upsert("t", [(2, 2)])
            in_threads(lambda: one.apply({"t": [(+1, (3, 3))]}))
            assert sorted(other.table("t").rows()) == [(2, 2)]
        assert transaction.epoch == wh.epoch
        assert sorted(wh.table("t").rows()) == [(1, 1), (2, 2), (3, 3)]
        with suppress(ZeroDivisionError), one.transaction():
            one.delete("t", [1])
            raise ZeroDivisionError
        assert len(wh.table("t").rows()) == 3


def test_names_of_one_session_are_hidden_from_others(wh: tidemill.Warehouse) -> None:
    wh.upsert("t", [(1, 10), (2, 20)])
    with wh.session() as one, wh.session() as other:
        one.sql("CREATE TEMPORARY VIEW mine AS SELECT k FROM t WHERE k = 1; DECLARE VARIABLE x INT DEFAULT 1")
        other.sql("CREATE TEMPORARY VIEW mine AS SELECT k FROM t WHERE k = 2; DECLARE VARIABLE x INT DEFAULT 2")
        wh.sql("CREATE TEMPORARY FUNCTION f(i INT) RETURNS INT RETURN i + 1")
        for session, value in ((one, 1), (other, 2), (one, 1)):
            assert session.sql("SELECT k, x FROM mine").rows() == [(value, value)]
            assert session.sql("SELECT a FROM t WHERE k = :k", k=value).rows() == [(10 * value,)]
        for unknown in ("SELECT * FROM mine", "SELECT x"):
            with pytest.raises(UnknownName):
                wh.sql(unknown)
        with pytest.raises(UnknownName):
            one.sql("SELECT f(1)")
        find = one.prepare("SELECT k FROM mine WHERE k = :k")
        assert (find.run(k=1).rows(), find.run(k=2).rows()) == ([(1,)], [])
        wh.sql("DROP TEMPORARY FUNCTION f")


def test_a_closed_session_has_rolled_back(wh: tidemill.Warehouse) -> None:
    session = wh.session()
    session.sql("BEGIN; INSERT INTO t VALUES (1, 1)")
    view = session.view("v")
    session.close()
    assert wh.table("t").rows() == []
    for used in (lambda: session.sql("SELECT 1"), view.rows, lambda: session.epoch):
        with pytest.raises(InvalidArgument, match="the session is closed"):
            used()


def test_a_transaction_of_a_thread_that_has_ended_is_forgotten(wh: tidemill.Warehouse) -> None:
    in_threads(lambda: wh.sql("BEGIN; INSERT INTO t VALUES (1, 1)"))
    with pytest.raises(TransactionState):
        wh.sql("COMMIT")
    wh.sql("BEGIN; ROLLBACK")
    assert wh.table("t").rows() == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM big x JOIN big y ON x.a + y.a > 3 JOIN big z ON z.a + y.a < 7",
        f"CREATE MATERIALIZED VIEW slow AS {SLOW}",
        f"INSERT INTO t SELECT k, n FROM ({SLOW})",
    ],
    ids=["select", "create", "insert"],
)
def test_a_long_statement_is_cancelled_and_has_changed_nothing(wh: tidemill.Warehouse, text: str) -> None:
    before = wh.epoch
    with wh.session() as session, ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.sql, text)
        until_it_runs(session)
        time.sleep(0.2)
        asked = time.monotonic()
        assert session.cancel()
        with pytest.raises(Cancelled, match="Nothing was changed"):
            running.result(WAIT)
        assert time.monotonic() - asked < WAIT
        assert (wh.epoch, wh.views(), wh.table("t").rows()) == (before, ("v",), [])
        assert not session.cancel()
        session.sql("INSERT INTO t VALUES (1, 1)")  # which is not cancelled after the fact
        assert all(wh.verify())


def test_a_statement_has_its_time(wh: tidemill.Warehouse) -> None:
    with wh.session(timeout=1.5) as session:
        assert session.sql("SELECT COUNT(*) FROM big").rows() == [(60_000,)]
        with pytest.raises(Cancelled, match=r"longer than 1\.5 seconds\ndetail: Statements before it .* epoch"):
            session.sql(f"INSERT INTO t VALUES (5, 5); CREATE MATERIALIZED VIEW slow AS {SLOW}")
        assert wh.table("t").rows() == [(5, 5)]
        session.sql("BEGIN; INSERT INTO t VALUES (6, 6)")
        with pytest.raises(Cancelled):
            session.sql(SLOW)
        with pytest.raises(TransactionState, match="has failed"):
            session.sql("COMMIT")


def test_who_waits_for_the_warehouse_can_be_cancelled(wh: tidemill.Warehouse) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with wh._engine.settled():
            held.set()
            assert release.wait(WAIT)

    with wh.session() as session, ThreadPoolExecutor(2) as pool:
        pool.submit(hold)
        assert held.wait(WAIT)
        waiting: Future[object] = pool.submit(session.sql, "SELECT a FROM v")
        until_it_runs(session)
        time.sleep(0.1)
        session.cancel()
        with pytest.raises(Cancelled):
            waiting.result(WAIT)
        release.set()


def test_what_has_committed_is_not_cancelled(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = wh._engine.store, list[bool]()
    append = store.append
    with wh.session() as session:

        def cancelled_meanwhile(epoch: object) -> object:
            asked.append(in_threads(session.cancel)[0] is True)
            return append(epoch)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(store, "append", cancelled_meanwhile)
            session.sql("INSERT INTO t VALUES (1, 1)")
            with pytest.raises(Cancelled, match=f"up to epoch {wh.epoch + 1}"):
                session.sql("INSERT INTO t VALUES (2, 2); INSERT INTO t VALUES (3, 3)")
        assert asked == [False, False]
        assert sorted(wh.table("t").rows()) == [(1, 1), (2, 2)]


def test_interrupts_at_random_moments(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is there exactly if its statement has returned, wherever the interrupt comes."""
    monkeypatch.setattr(running_call, "RESEND_SECONDS", 0.05)
    kept, cancelled = [], 0
    with wh.session() as session, ThreadPoolExecutor(1) as pool:
        for key in range(120):
            running = pool.submit(session.sql, f"INSERT INTO t SELECT {key}, COUNT(*) FROM big WHERE k < {key}")
            time.sleep(key % 12 * 0.0004)
            session.cancel()
            try:
                running.result(WAIT)
                kept.append(key)
            except Cancelled:
                cancelled += 1
    assert sorted(key for key, _ in wh.table("t").rows()) == kept
    assert cancelled
    assert all(wh.verify())


def test_callbacks_run_outside_of_the_session(wh: tidemill.Warehouse) -> None:
    with wh.session() as session:
        seen: list[object] = []
        session.sql("BEGIN; INSERT INTO t VALUES (1, 1)", each=lambda _: seen.append(wh.table("t").rows()))
        assert seen == [[], []]


def test_every_inherited_method_runs_in_the_session() -> None:
    """Whatever is added to the methods of a warehouse is that of the session's user in a session."""
    for base in (RowChanges, RelationReads):
        names = {name for name in vars(base) if not name.startswith("_") and name != "SHOWN_AS"}
        assert names <= vars(Session).keys()


def until_it_runs(session: Session) -> None:
    """Wait until another thread runs a statement of the session."""
    deadline = time.monotonic() + WAIT
    calls = session._engine.calls.by_thread
    while not any(call.session is session._session for call in list(calls.values())):
        assert time.monotonic() < deadline
        time.sleep(0.001)
