"""What the door bears: clients that do not log in, guess, send too much, read nothing, or stay for ever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

import tidemill
from tests.serving.pgwire import raw
from tests.serving.pgwire.door import SHOP, Door
from tests.serving.pgwire.guarded import GuardedDoor, eventually, guarded_door
from tidemill.serving.access.failed_logins import FailedLogins
from tidemill.serving.pgwire.limits import PgLimits


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedDoor]:
    with guarded_door(
        tmp_path_factory.mktemp("guarded"), limits=PgLimits(connections=2, waiting=3, failure_seconds=0.2)
    ) as door:
        yield door


@pytest.fixture
def failed(guarded: GuardedDoor, monkeypatch: pytest.MonkeyPatch) -> FailedLogins:
    """Failed logins of ann, who may try once more while the clock stands still."""
    found = FailedLogins(clock=lambda: 0.0)
    for _ in range(19):
        found.note("ann", "127.0.0.1")
    monkeypatch.setattr(guarded.server, "failed_logins", found)
    return found


# ---------------------------------------------------------------------------------------------------------- logging in


def test_guessing_is_slow_and_comes_to_an_end(guarded: GuardedDoor, failed: FailedLogins) -> None:
    began = time.monotonic()
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        guarded.connect(password="wrong")
    assert time.monotonic() - began >= 0.2
    with pytest.raises(psycopg.OperationalError, match="too many failed logins"):
        guarded.connect()
    with guarded.connect("bob") as other:
        assert other.execute("SELECT 1").fetchone() == (1,)
    failed._pairs._clock = lambda: 2.0  # one in two seconds
    guarded.connect().close()


def test_guesses_from_elsewhere_lock_nobody_out() -> None:
    failed = FailedLogins(clock=lambda: 0.0)
    failed.came_in("ann", "10.0.0.1")
    for number in range(200):
        failed.note("ANN", f"10.0.1.{number}")
        failed.note(f"user{number}", "2001:db8::1")
    assert failed.wait("ann", "10.0.0.1") == 0
    assert failed.wait("ann", "10.0.0.2") == failed.wait("eve", "2001:db8::2") == 0.5
    assert failed.wait("eve", "2001:db8:1::1") == 0


@pytest.mark.usefixtures("failed")
def test_many_guesses_at_once_are_no_more(guarded: GuardedDoor) -> None:
    """Each has sent all but its proof when the first proof is looked at."""
    with ExitStack() as stack:
        clients = [stack.enter_context(raw.dialled(guarded.port, raw.startup())) for _ in range(3)]
        sides = [raw.scram(client, "wrong") for client in clients]
        for client, side in zip(clients, sides, strict=True):
            client.sendall(raw.message(b"p", side.get_client_final().encode()))
        answers = [raw.said(client) for client in clients]
    assert [b"28P01" in one for one in answers].count(True) == 1
    assert [b"too many failed logins" in one for one in answers].count(True) == 2


def test_who_does_not_log_in_has_to_go(tmp_path: Path) -> None:
    sent = [[], [b"\0\0"], [raw.startup()], [raw.startup(), raw.sasl_start("n,,n=,r=abc")]]
    with guarded_door(tmp_path, limits=PgLimits(login_seconds=0.2)) as door:
        clients = [raw.dialled(door.port, *messages) for messages in sent]
        for client in clients:
            with client:
                assert b"the login took too long" in raw.said(client)
        eventually(lambda: len(door.server.clients) == 0)


def test_those_who_wait_take_the_place_of_nobody(guarded: GuardedDoor) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(raw.dialled(guarded.port)) for _ in range(4)]
        assert b"53300" in raw.said(silent[0])
        clients = [stack.enter_context(closing(guarded.connect())) for _ in range(2)]
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            guarded.connect()
        assert clients[0].execute("SELECT 1").fetchone() == (1,)


def test_little_is_taken_from_somebody_who_is_unknown(guarded: GuardedDoor) -> None:
    with raw.dialled(guarded.port, raw.startup(), raw.message(b"p", bytes(20_000))) as client:
        assert b"08P01" in raw.said(client)


# ---------------------------------------------------------------------------------------------------------- statements


def test_statements_have_a_length() -> None:
    with (
        tidemill.open(":memory:", runtime="native") as wh,
        closing(Door(wh, limits=PgLimits(statement_bytes=1000))) as door,
        door.connect() as client,
    ):
        long = f"SELECT '{'x' * 1000}'"
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="at most 1,000 bytes"):
            client.execute(long)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            client.execute(long + " WHERE 1 = %s", [1])
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            client.execute(f"SELECT '{'ü' * 500}'")
        text = ";".join(f"SELECT {number}" for number in range(200))
        assert client.execute(text).fetchone() == (0,)
        assert client.execute("SELECT length(%s)", ["x" * 5000]).fetchone() == (5000,)


ENDLESS = "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.id + b.id = 7"


def test_a_door_has_a_limit_for_the_time_of_a_statement() -> None:
    with (
        tidemill.open(":memory:", runtime="native") as wh,
        closing(Door(wh, limits=PgLimits(statement_timeout=0.2))) as door,
        door.connect() as client,
    ):
        for wanted in ("0", "1h", "50ms"):
            client.execute(f"SET statement_timeout = '{wanted}'")
            with pytest.raises(
                psycopg.errors.QueryCanceled, match=r"longer than 0\.05" if wanted == "50ms" else r"0\.2"
            ):
                client.execute(ENDLESS)
        client.execute("RESET ALL; BEGIN; SET LOCAL statement_timeout = '50ms'")
        client.execute("ROLLBACK")
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"longer than 0\.2"):
            client.execute(ENDLESS)


@pytest.mark.parametrize(
    ("setting", "statements", "state"),
    [
        ("idle_session_timeout", "", b"57P05"),
        ("idle_in_transaction_session_timeout", "; BEGIN; SELECT * FROM orders", b"25P03"),
    ],
)
def test_idle_sessions_end(door: Door, setting: str, statements: str, state: bytes) -> None:
    first = [raw.startup(), raw.query(f"SET {setting} = '50ms'{statements}")]
    second = [raw.startup(options=f"-c {setting}=50ms"), raw.query(f"SELECT 1{statements}")]
    clients = [raw.dialled(door.port, b"".join(sent)) for sent in (first, second)]
    for client in clients:
        with client:
            assert state in raw.said(client)


def test_a_session_that_listens_is_not_idle(door: Door) -> None:
    since = door.warehouse.epoch
    text = f"SET idle_session_timeout = '50ms'; SUBSCRIBE TO spend SINCE {since} UNTIL {since + 2}"
    with raw.dialled(door.port, raw.startup(), raw.query(text)) as client:
        change = "INSERT INTO orders (id) VALUES (900); DELETE FROM orders WHERE id = 900"
        threading.Timer(0.6, lambda: door.warehouse.sql(change)).start()
        told = raw.said(client)
    assert told.index(b"SUBSCRIBE 2") < told.index(b"57P05")


# ---------------------------------------------------------------------------------------------------------- the end


def closable(warehouse: tidemill.Warehouse, patience: float) -> Door:
    warehouse.sql(SHOP)
    return Door(warehouse, limits=PgLimits(patience=patience))


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native") as wh:
        yield wh


def test_a_client_that_reads_nothing_holds_up_nobody(warehouse: tidemill.Warehouse) -> None:
    door = closable(warehouse, patience=0.3)
    warehouse.apply({"orders": [(1, {"id": n, "customer": str(n) * 5000}) for n in range(100, 1000)]})
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", door.port))
        client.sendall(raw.startup() + raw.query("SELECT * FROM orders"))
        connections = door.server.clients
        eventually(lambda: any(one.transport.get_write_buffer_size() for one in connections._inside.values()))
        door.close()
        assert len(connections) == 0
        assert b"57P01" not in raw.said(client)
    with pytest.raises(RuntimeError, match="shutdown"):
        door.pool._executor.submit(print)


def test_what_runs_is_finished_and_the_others_end(warehouse: tidemill.Warehouse) -> None:
    door = closable(warehouse, patience=60)
    entered, free = threading.Event(), threading.Event()

    def wait(n: int) -> int:
        entered.set()
        assert free.wait(60)
        return n

    warehouse.register_function("wait", wait, arguments=["int"], returns="int")
    with closing(door.connect()) as busy, closing(door.connect()) as listener, ThreadPoolExecutor() as threads:
        changes = listener.cursor().stream("SUBSCRIBE TO spend SINCE 0")
        assert next(changes)
        answer = threads.submit(busy.execute, "SELECT wait(CAST(id AS INT)) FROM orders WHERE id = 2")
        assert entered.wait(60)
        ending = threads.submit(door.close)
        with pytest.raises(psycopg.errors.AdminShutdown):
            list(changes)
        assert not answer.done()
        free.set()
        assert answer.result(60).fetchone() == (2,)
        ending.result(60)
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")


# ------------------------------------------------------------------------------------------------------- huge numbers


def test_a_parameter_has_a_number_that_a_message_can_count(door: Door) -> None:
    with door.connect() as client:
        for number in (65_536, 2_000_000_000, "9" * 5_000):
            refused = client.pgconn.exec_params(f"SELECT ${number}".encode(), [b"1"])
            assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"54023"


@pytest.mark.parametrize("words", ["SUBSCRIBE TO spend SINCE {}", "FETCH {} c", "SELECT {}", "SELECT 1 LIMIT {}"])
def test_digits_without_end_are_no_fault(door: Door, words: str) -> None:
    with door.connect(autocommit=True) as client:
        with pytest.raises(psycopg.ProgrammingError):
            client.execute(words.format("9" * 5_000))  # type: ignore[arg-type]
        client.execute(f"SET statement_timeout = {'9' * 5_000}")  # type: ignore[arg-type]
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_the_report_of_a_fault_is_in_the_log_alone(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the code")

    monkeypatch.setattr("tidemill.engine.statements.script.execute", fail)
    with door.connect(autocommit=True) as client, pytest.raises(psycopg.InternalError) as told:
        client.execute("ALTER TABLE orders ADD COLUMN more INT")
    detail = told.value.diag.message_detail or ""
    assert told.value.sqlstate == "XX000"
    assert "secret" not in str(told.value)
    assert "tidemill." not in detail
    assert detail.removeprefix("The report is in the log of the server, under ").rstrip(".") in caplog.text
