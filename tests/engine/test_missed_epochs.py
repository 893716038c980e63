"""State that has missed epochs catches up: whatever happens in between, views are what the evaluator says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.moving import Change, History, moving
from tidemill.changes.arrow import from_arrow
from tidemill.engine.epochs import memory_budget
from tidemill.model.errors import ArithmeticFault, DuplicateKey
from tidemill.runtimes.native import backends, runtime_state
from tidemill.runtimes.native.llvm.codegen import jit

SCRIPT = """
  CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
  CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(8,2), share DOUBLE);
  CREATE MATERIALIZED VIEW by_city AS
    SELECT c.city, SUM(o.amount) AS total, AVG(o.share) AS mean, COUNT(*) AS n
    FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
  CREATE MATERIALIZED VIEW most AS
    SELECT customer, MAX(amount) AS most, MIN(share) AS least FROM orders GROUP BY customer;
  CREATE MATERIALIZED VIEW top AS SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 5;
  CREATE MATERIALIZED VIEW cities AS SELECT DISTINCT city FROM by_city WHERE n > 2;
  CREATE MATERIALIZED VIEW ranks AS
    SELECT id, customer, RANK() OVER (PARTITION BY customer ORDER BY amount) AS place FROM orders;
  CREATE MATERIALIZED VIEW shares AS SELECT id, 1 / (amount - 13) AS share FROM orders;
"""

Warehouse = tidemill.Warehouse


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "LEVEL", 0)


@pytest.fixture(params=["held", "columns"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """State in dictionaries, or left in columns as that of large relations is."""
    if request.param == "columns":
        monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 0)


def require_right(wh: Warehouse) -> None:
    wrong = [found for found in wh.verify(against="evaluator") if not found]
    assert not wrong, wrong


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("seed", range(3))
def test_epochs_by_turns(seed: int, tmp_path: Path) -> None:
    history = History(seed)
    with moving(), tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(history.change(60))
        for step in range(30):
            wh.apply(history.change(1 + 7 * (step % 5 == 0)))
            if step % 6 == 5:
                require_right(wh)
        require_right(wh)


@pytest.mark.usefixtures("kept")
def test_an_epoch_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    """Refused by the runtime that has caught up for it, by the other one, and at the end when a row is emitted."""
    history = History(7)
    with moving((0, 1, 0, 0, 1)), tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(history.change(60))
        for number in range(12):
            before = wh.epoch
            with pytest.raises(DuplicateKey):
                wh.apply({"customers": [(1, (10_000, "a")), (1, (10_000, "b"))]})
            with pytest.raises(ArithmeticFault):
                wh.apply({"orders": [(1, (20_000 + number, 1, "13.00", 1.0))]})
            assert wh.epoch == before
            wh.apply(history.change(3))
        require_right(wh)


def test_opened_again(tmp_path: Path) -> None:
    history = History(3)
    for _ in range(4):
        with moving(), tidemill.open(tmp_path / "w") as wh:
            if not wh.epoch:
                wh.sql(SCRIPT)
            for _ in range(5):
                wh.apply(history.change(6))
            require_right(wh)


@pytest.mark.usefixtures("kept")
def test_what_the_store_cannot_tell_is_read_again(tmp_path: Path) -> None:
    """After a vacuum the epochs that were missed are no longer there one by one."""
    history = History(5)
    with moving((0, 0, 0, 1, 1, 1)), tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(history.change(50))
        for step in range(18):
            wh.apply(history.change(2))
            if step % 3 == 1:
                wh.vacuum(keep=1)
        require_right(wh)


def test_views_are_dropped_and_made_again(tmp_path: Path) -> None:
    """A view of the same name is another one, also to the runtime that has not run it for a while."""
    history = History(9)
    with moving((0, 1)), tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(history.change(40))
        for function in ("MIN", "MAX", "SUM", "COUNT", "MIN"):
            wh.apply(history.change(2))
            wh.sql(f"""
              DROP VIEW most;
              CREATE MATERIALIZED VIEW most AS SELECT customer, {function}(amount) AS x FROM orders GROUP BY customer;
            """)
            wh.apply(history.change(2))
            wh.sql(f"""
              DROP VIEW cities; DROP VIEW by_city;
              CREATE MATERIALIZED VIEW by_city AS SELECT customer AS city, {function}(id) AS n FROM orders GROUP BY 1;
              CREATE MATERIALIZED VIEW cities AS
                SELECT o.city, o.n + b.n AS n FROM by_city o JOIN by_city b ON o.city = b.n;
            """)
            wh.apply(history.change(2))
            wh.apply(history.change(2))
            require_right(wh)


def test_deferred_views_show_an_epoch_of_their_own(tmp_path: Path) -> None:
    history = History(11)
    with moving(), tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.sql("""
          CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS
            SELECT c.city, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
          CREATE MATERIALIZED VIEW later AS
            SELECT l.n, COUNT(*) AS m FROM late l JOIN orders o ON o.id = l.n GROUP BY l.n;
        """)
        for step in range(24):
            wh.apply(history.change(3))
            if step % 5 == 4:
                wh.view("late").refresh()
                require_right(wh)


def test_rows_that_are_forgotten(tmp_path: Path) -> None:
    """What a table lets go of is gone from state that has missed epochs as well."""
    with moving((0, 1, 1)), tidemill.open(tmp_path / "w") as wh:
        wh.sql("""
          CREATE TABLE seen (ts TIMESTAMP, a INT) PARTITION BY ts EVERY 1 MINUTE LATENESS 2 MINUTES RETAIN 4 MINUTES;
          CREATE TABLE names (a INT PRIMARY KEY, name STRING);
          CREATE MATERIALIZED VIEW named AS
            SELECT n.name, COUNT(*) AS n FROM seen s JOIN names n ON s.a = n.a GROUP BY n.name;
        """)
        wh.apply({"names": [(1, (a, f"n{a % 3}")) for a in range(9)]})
        counted: dict[str, int] = {}
        for minute in range(40):
            rows = [(1, (f"2026-01-01 00:{minute:02}:0{a}", a)) for a in range(minute % 9)]
            for _, (_, a) in rows:
                counted[f"n{a % 3}"] = counted.get(f"n{a % 3}", 0) + 1
            wh.apply({"seen": rows})
            if minute % 3 == 0:
                wh.compact()
            assert dict(wh.view("named").rows()) == counted
        assert len(wh.table("seen").rows()) < 40


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many stored rows have become tuples, time after time."""
    found: list[int] = []

    def counted(read: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def convert(*given: Any) -> list[Any]:
            rows = read(*given)
            found.append(len(rows))
            return rows

        return convert

    monkeypatch.setattr(runtime_state, "from_arrow", counted(from_arrow))
    return found


def _orders(first: int, count: int) -> dict[str, Change]:
    return {"orders": [(1, (first + i, i % 30, "20.00", 1.0)) for i in range(count)]}


def test_catching_up_costs_what_was_missed(tmp_path: Path, converted: list[int]) -> None:
    """Not what is held: 2,000 rows and their groups are read once, and then the changes alone."""
    with moving((0,), ("python", "python")) as turns, tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(_orders(0, 2_000))
        wh.apply(_orders(2_000, 1))
        turns.stay = 1
        wh.apply(_orders(3_000, 100))
        converted.clear()
        turns.stay = 0
        wh.apply(_orders(4_000, 1))
        # The orders that were missed, the rows of views that are looked up, and the entries of maps that have moved.
        assert 100 <= sum(converted) < 1_000
        require_right(wh)


def test_more_than_there_was_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    read = runtime_state.RuntimeState._read

    def noted(self: runtime_state.RuntimeState, name: str, *, whole: bool) -> Any:
        loaded.append(name)
        return read(self, name, whole=whole)

    monkeypatch.setattr(runtime_state.RuntimeState, "_read", noted)
    with moving((0,), ("python", "python")) as turns, tidemill.open(tmp_path / "w") as wh:
        wh.sql(SCRIPT)
        wh.apply(_orders(0, 100))
        wh.apply(_orders(100, 1))
        turns.stay = 1
        wh.apply(_orders(1_000, 20))
        loaded.clear()
        turns.stay = 0
        wh.apply(_orders(2_000, 1))
        assert "orders" not in loaded
        turns.stay = 1
        wh.apply(_orders(3_000, 200))
        loaded.clear()
        turns.stay = 0
        wh.apply(_orders(4_000, 1))
        assert "orders" in loaded
        require_right(wh)


def _compiled(wh: Warehouse) -> list[Any]:
    native = wh._engine.placement.native
    return [runner for runner in native._backends._runners.values() if runner.ready]


def test_machine_code_keeps_its_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[int] = []
    missed = backends.StoredState.missed

    def told(self: backends.StoredState, *given: Any) -> Any:
        found = missed(self, *given)
        restored.append(-1 if found is None else sum(table.num_rows for table in found.values()))
        return found

    monkeypatch.setattr(backends.StoredState, "missed", told)
    with moving((0,)) as turns, tidemill.open(tmp_path / "w") as wh:
        wh.sql("CREATE TABLE t (a INT, b BIGINT); CREATE TABLE u (a INT PRIMARY KEY, c INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT c, SUM(b) AS s FROM t JOIN u ON t.a = u.a GROUP BY c")
        wh.apply({"u": [(1, (a, a % 7)) for a in range(50)], "t": [(1, (a % 50, a)) for a in range(500)]})
        wh.apply({"t": [(1, (1, 1))]})
        (stage,) = _compiled(wh)
        turns.stay = 1
        wh.apply({"t": [(1, (2, 5)), (-1, (3, 3))]})
        assert stage.is_paused and not restored
        turns.stay = 0
        wh.apply({"u": [(-1, (1, 1)), (1, (1, 6))]})
        assert not stage.is_paused and restored == [4]  # two rows of t, and the two groups that they are in
        require_right(wh)


def test_memory_that_is_scarce_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State that waits goes before an epoch is refused."""
    history = History(13)
    with moving((0,)) as turns, tidemill.open(tmp_path / "w", memory="1000GB") as wh:
        wh.sql(SCRIPT)
        wh.apply(history.change(50))
        wh.apply(history.change(5))
        turns.stay = 1
        wh.apply(history.change(5))
        native = wh._engine.placement.native
        assert native._state._contents and _compiled(wh)
        held = native._state._contents
        monkeypatch.setattr(memory_budget, "resident_bytes", lambda: (2000 if held else 1) << 30)
        wh.apply(history.change(5))
        assert not native._state._contents and not _compiled(wh)
        require_right(wh)


def test_a_feed_goes_on_after_an_epoch_elsewhere(tmp_path: Path) -> None:
    with moving((0,)) as turns, tidemill.open(tmp_path / "w") as wh:
        wh.sql("CREATE STREAM s (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS n FROM s GROUP BY a")
        feed = wh.feed("s")
        for _ in range(3):
            feed(1, 2, 5)
        turns.stay = 1
        wh.apply({"s": [(1, (2, 5))]})
        turns.stay = 0
        wh.apply({"s": [(1, (1, 1))]})
        feed(1, 2, 5)
        assert sorted(wh.view("v").rows()) == [(1, 1), (2, 25)]
