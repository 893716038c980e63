"""Every epoch of a view over a real PostgreSQL shows the state that it is certified for, whatever breaks meanwhile.

The shop keeps a history of its own: triggers write down each row that a transaction adds or removes, with the number of
the transaction. A certificate names a snapshot, so the state that it means can be made from the history afterwards.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.sources.notary import noted, notes
from tests.sources.shop import Shop, kill, scribble
from tidemill.sources.postgres.snapshot_position import SnapshotPosition

HISTORY = """
CREATE TABLE history (xid xid8, name text, weight int, a int8, b text, c int8);
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP <> 'INSERT' THEN EXECUTE TG_ARGV[0] USING TG_TABLE_NAME, -1, OLD; END IF;
  IF TG_OP <> 'DELETE' THEN EXECUTE TG_ARGV[0] USING TG_TABLE_NAME, 1, NEW; END IF;
  RETURN NULL;
END $$;
"""
REMEMBERED = {"customers": "$3.id, $3.name, NULL", "orders": "$3.id, $3.customer, $3.amount"}
VIEWS = {
    "spend": """SELECT c.name, COUNT(*) AS n, SUM(o.amount) AS total FROM shop.orders o
        JOIN shop.customers c ON c.id = o.customer WHERE o.amount > 5 GROUP BY c.name""",
    "pairs": """SELECT o.id, c.id AS customer, c.name, o.amount
        FROM shop.orders o JOIN shop.customers c ON c.id = o.customer""",
}
BOOK = "certificates"

State = dict[str, Counter[tuple[Any, ...]]]
Open = Callable[[Path], AbstractContextManager[object]]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """An empty one that remembers its own history."""
    shop.connection.execute("TRUNCATE orders, customers")
    shop.connection.execute(HISTORY)
    for table, values in REMEMBERED.items():
        statement = f"INSERT INTO history SELECT pg_current_xact_id(), $1, $2, {values}"
        shop.connection.execute(
            f"CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION remember('{statement}')"
        )
    return shop


@dataclass
class Fire:
    """What went on while the views were kept."""

    transactions: int
    kills: int = 0
    restarts: int = 0


def create(folder: Path, shop: Shop, changes: str) -> None:
    options = {**shop.server.options, "changes": changes, "setup": "create", "reader": shop.name}
    options |= {"tables": "orders, customers", "sync": "continuous"}
    with tidemill.open(folder, runtime="native") as warehouse:
        given = ", ".join(f"{key} = '{value}'" for key, value in options.items())
        warehouse.sql(f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})")
        for name, query in VIEWS.items():
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


@contextmanager
def opened_here(folder: Path) -> Iterator[None]:
    """The warehouse in this process; it is closed in the end."""
    with noted(folder.parent / BOOK), tidemill.open(folder, runtime="native", follow=True):
        yield


@contextmanager
def opened_there(folder: Path) -> Iterator[None]:
    """The warehouse in a process of its own, which is killed in the end."""
    command = [sys.executable, "-m", "tests.sources.notary", str(folder), str(folder.parent / BOOK)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as warehouse:
        assert warehouse.stdout is not None
        assert warehouse.stdout.readline() == "ready\n"
        yield
        assert warehouse.poll() is None, "it has ended by itself"
        warehouse.kill()


def under_fire(folder: Path, shop: Shop, fire: Fire, opened: Open, pause: float, every: int) -> None:
    """Others write, our connections are ended, and after ``every`` of these kills the warehouse itself."""
    chance = random.Random(3)
    share = fire.transactions // 2
    writers = [threading.Thread(target=scribble, args=(shop, seed, share)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        with opened(folder):
            for _ in range(every):
                time.sleep(chance.uniform(0, 2 * pause))
                kill(shop)
                fire.kills += 1
            time.sleep(chance.uniform(0, pause))
        fire.restarts += 1


def states(shop: Shop, positions: list[str]) -> Iterator[State]:
    """The tables in each of the states that the snapshots name, which come in order."""
    with shop.connect() as connection:
        rows = connection.execute("SELECT xid::text::int8, name, weight, a, b, c FROM history").fetchall()
    waiting: dict[int, list[Any]] = {}
    for xid, *change in rows:
        waiting.setdefault(xid, []).append(change)
    state: State = {name: Counter() for name in REMEMBERED}
    for position in positions:
        seen = SnapshotPosition.parse(position).base
        for xid in [xid for xid in waiting if seen.sees(xid)]:
            for name, weight, *row in waiting.pop(xid):
                state[name][tuple(row)] += weight
        yield {name: +rows for name, rows in state.items()}
        assert all(weight >= 0 for rows in state.values() for weight in rows.values())


def expected(view: str, state: State) -> Counter[tuple[Any, ...]]:
    names = {key: name for key, name, _ in state["customers"]}
    joined = [(o, int(c), names[int(c)], a) for o, c, a in state["orders"] if c is not None and int(c) in names]
    if view == "pairs":
        return Counter(joined)
    amounts: dict[Any, list[int]] = {}
    for _, _, name, amount in joined:
        if amount > 5:
            amounts.setdefault(name, []).append(amount)
    return Counter((name, len(some), sum(some)) for name, some in amounts.items())


def check(folder: Path, shop: Shop) -> int:
    """Hold every epoch against the state that it names, and the last against the source's own; how many there were."""
    with noted(folder.parent / BOOK), tidemill.open(folder, runtime="native", follow=True) as warehouse:
        warehouse.sync()
        book = notes(folder.parent / BOOK)
        checked = sum(check_view(warehouse, name, book, shop) for name in VIEWS)
        warehouse.sql("DROP VIEW spend; DROP VIEW pairs; DROP SOURCE shop")
    return checked


def check_view(warehouse: tidemill.Warehouse, name: str, book: Mapping[int, Mapping[str, str]], shop: Shop) -> int:
    view = warehouse.view(name)
    certified = {epoch: note["shop/" + name] for epoch, note in book.items() if "shop/" + name in note}
    # In the middle of a backlog a position says how far it was told, in terms that the history does not know.
    certified = {
        epoch: position for epoch, position in certified.items() if SnapshotPosition.parse(position).target is None
    }
    changes = deque(view.batches(0))
    shown: Counter[tuple[Any, ...]] = Counter()
    for epoch, state in zip(certified, states(shop, list(certified.values())), strict=True):
        while changes and changes[0].epoch <= epoch:
            for row, weight in changes.popleft().net.items():
                shown[row] += weight
        assert +shown == expected(name, state), f"{name} at epoch {epoch}: {certified[epoch]}"
    assert not changes
    with shop.connect() as connection:
        own = connection.execute(VIEWS[name].replace("shop.", "")).fetchall()
    assert Counter(view.rows()) == Counter(own)
    assert view.verify().ok
    return len(certified)


@pytest.mark.parametrize("changes", ["slot", "outbox"])
def test_every_epoch_is_the_state_that_it_names(shop: Shop, tmp_path: Path, changes: str) -> None:
    fire = Fire(transactions=1_000)
    create(tmp_path / "warehouse", shop, changes)
    under_fire(tmp_path / "warehouse", shop, fire, opened_here, pause=0.2, every=4)
    assert check(tmp_path / "warehouse", shop) > 10


@pytest.mark.long
@pytest.mark.parametrize("changes", ["slot", "outbox"])
def test_fifty_thousand_transactions(shop: Shop, tmp_path: Path, changes: str) -> None:
    fire, began = Fire(transactions=50_000), time.monotonic()
    create(tmp_path / "warehouse", shop, changes)
    under_fire(tmp_path / "warehouse", shop, fire, opened_there, pause=1.5, every=8)
    epochs = check(tmp_path / "warehouse", shop)
    print(f"\n{changes}: {fire}, {epochs} epochs, {(time.monotonic() - began) / 60:.1f} minutes")
    assert epochs > 100
