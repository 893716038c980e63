"""Exceptions at every line of what commits, and refusals of every call of the system on the way.

A ``World`` is a small warehouse with a view of each kind, in memory or on disk, and a model of its tables. An operation
is run again and again, interrupted at another line each time. After each interruption the warehouse must go on by
itself, or say that it is to be opened again. Its tables must be those from before the operation or from after it, and
every view must equal its recomputation and what its subscribers were told.
"""

from __future__ import annotations

import ast
import errno
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq
import pytest

import tidemill
from tidemill.engine.engine import Engine
from tidemill.engine.objects.database import LAST_OID
from tidemill.model.errors import CommitUnknown, DataError, StorageError, TidemillError
from tidemill.storage.filesystem import disk
from tidemill.storage.folder_store import FolderStore

PACKAGE = Path(tidemill.__file__).parent
TRACED = tuple(str(PACKAGE / name) for name in ("engine", "storage", "runtimes", "changes"))

ERRORS: dict[str, Callable[[], BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "io": lambda: OSError(errno.EIO, "Input/output error"),
    "memory": MemoryError,
}

VIEWS = {
    "totals": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    "cities": "SELECT p.city, MAX(o.amount) AS m, COUNT(*) AS n FROM orders o JOIN people p ON o.customer = p.name "
    "GROUP BY p.city",
    "large": "SELECT city, n FROM cities WHERE n > 1",
    "customers": "SELECT DISTINCT customer FROM orders WHERE amount > 2",
    "best": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3",
}
LAZY = "SELECT city, COUNT(*) AS n FROM people GROUP BY city"
FRESH = "SELECT p.city, MIN(o.amount) AS m FROM orders o JOIN people p ON o.customer = p.name GROUP BY p.city"
QUICK = Path("/dev/shm")
"""A disk in memory, where there is one: whether calls fail is up to the tests, so none need wait for a real one."""

ODL = "module m { class thing (extent Things key id) { attribute long id; attribute string name; }; };"

Rows = Counter[tuple[Any, ...]]


# -- where exceptions come -----------------------------------------------------------------------------------------


@cache
def _unreachable(file: str) -> tuple[frozenset[int], frozenset[int]]:
    """Lines of ``with``, and those of ``try`` and ``finally`` that call nothing. Leaving a ``with`` is one step of the
    interpreter, and it looks for signals when something is called: no exception comes at either. (One that a tracer
    raises at the word ``try`` is not even seen by the ``with`` around it, which then keeps its lock.)"""
    tree = ast.parse(Path(file).read_text())
    withs = {item.lineno for item in ast.walk(tree) if isinstance(item, ast.With)}
    finals = (statement for item in ast.walk(tree) if isinstance(item, ast.Try) for statement in item.finalbody)
    quiet = {s.lineno for s in finals if not any(isinstance(n, ast.Call) for n in ast.walk(s))}
    quiet |= {item.lineno for item in ast.walk(tree) if isinstance(item, ast.Try)}
    return frozenset(withs), frozenset(quiet)


Place = tuple[str, int]
"""A line of a file."""


class Lines:
    """Raises an exception at the ``at``th line of Tidemill that is run within, or when a place is first reached.

    Counts the lines, and notes their places.
    """

    def __init__(self, at: int | Place | None, error: Callable[[], BaseException]) -> None:
        self.at, self.count, self.place = at, 0, ""
        self.places: dict[Place, None] = {}
        self._error = error
        self._entered: set[tuple[FrameType, int]] = set()

    @property
    def fired(self) -> bool:
        return bool(self.place)

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._entered.clear()

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(TRACED) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line" and not self._is_left(frame):
            self.count += 1
            place = frame.f_code.co_filename, frame.f_lineno
            self.places[place] = None
            if self.at in (self.count, place) and not self.fired:
                self.place = f"{Path(place[0]).relative_to(PACKAGE)}:{place[1]}"
                raise self._error()
        return self._line

    def _is_left(self, frame: FrameType) -> bool:
        withs, quiet = _unreachable(frame.f_code.co_filename)
        if frame.f_lineno in quiet:
            return True
        if frame.f_lineno not in withs:
            return False
        entered = (frame, frame.f_lineno) in self._entered
        self._entered.add((frame, frame.f_lineno))
        return entered


CALLS = ("open", "close", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "link", "replace", "mkdir", "unlink")
"""The calls of the system that a commit makes; Parquet files are written by Arrow, as one call."""


class Calls:
    """Lets the system refuse the ``at``th call that is made within: before it does anything, or once it has done it."""

    def __init__(self, at: int | None, error: int, *, done: bool) -> None:
        self.at, self.count, self.place = at, 0, ""
        self._error, self._done = error, done
        self._patch = pytest.MonkeyPatch()

    @property
    def fired(self) -> bool:
        return bool(self.place)

    def __enter__(self) -> Calls:
        for name in CALLS:
            self._patch.setattr(os, name, self._refusing(name, getattr(os, name)))
        self._patch.setattr(disk, "pwrite", self._refusing("pwrite", disk.pwrite))
        self._patch.setattr(pq, "write_table", self._refusing("write_table", pq.write_table))
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _refusing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name == "open" and str(args[0]).startswith("/proc/"):
                return real(*args, **options)
            self.count += 1
            if self.count != self.at:
                return real(*args, **options)
            self.place = name
            # A file that is closed is closed, whatever the system says.
            if name == "close" or (self._done and name != "open"):
                real(*args, **options)
            raise OSError(self._error, os.strerror(self._error))

        return call


# -- the world -----------------------------------------------------------------------------------------------------


class World:
    """A warehouse, a model of its tables, and what subscribers were told of its views."""

    def __init__(self, folder: Path | None, backend: str = "python") -> None:
        self._folder, self._backend = folder, backend
        self.tables: dict[str, Rows] = {"orders": Counter(), "people": Counter(), "things": Counter()}
        self.number = 0
        self.reopened = 0
        self.open()
        self.wh.sql("CREATE TABLE orders (id INT PRIMARY KEY, customer STRING NOT NULL, amount INT)")
        self.wh.sql("CREATE TABLE people (name STRING PRIMARY KEY, city STRING)")
        tidemill.objects(self.wh, ODL)
        for name, query in VIEWS.items():
            self.wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.wh.sql(f"CREATE MATERIALIZED VIEW lazy WITH (refresh = 'deferred') AS {LAZY}")
        self.listen()
        for _ in range(4):
            self.step()

    @property
    def engine(self) -> Engine:
        return self.wh._engine

    def open(self) -> None:
        path = ":memory:" if self._folder is None else self._folder
        self.wh = tidemill.open(path, runtime="native", backend=self._backend)

    def listen(self) -> None:
        """Subscribe to all views, from what they are now."""
        self.told = {name: Counter(self.wh.view(name).rows()) for name in VIEWS}
        self.heard = {name: self.wh.subscribe(name, timeout=0) for name in VIEWS}

    def reopen(self) -> None:
        """Open the folder again; the warehouse may be closed already, or beyond closing."""
        assert self._folder is not None, "what is in memory alone cannot be opened again"
        with suppress(TidemillError):
            self.wh.close()
        self.open()
        self.reopened += 1
        self.listen()

    def changes(self) -> dict[str, list[tuple[int, tuple[Any, ...]]]]:
        """The next epoch: an order comes, an older one goes, and somebody comes or moves."""
        self.number = n = self.number + 1
        old = [row for row in self.tables["orders"] if row[0] <= n - 6]
        orders = [(+1, (n, f"c{n % 4}", n * 7 % 11)), *((-1, row) for row in old)]
        moved = [row for row in self.tables["people"] if row[0] == f"c{n % 4}"]
        return {"orders": orders, "people": [*((-1, row) for row in moved), (+1, (f"c{n % 4}", f"city {n // 4 % 3}"))]}

    def after(self, changes: Mapping[str, list[tuple[int, tuple[Any, ...]]]]) -> dict[str, Rows]:
        """The tables as they are after ``changes``."""
        tables = {name: Counter(rows) for name, rows in self.tables.items()}
        for name, pairs in changes.items():
            for weight, row in pairs:
                tables[name][row] += weight
        return {name: +rows for name, rows in tables.items()}

    def step(self) -> None:
        """One epoch that nothing interrupts."""
        changes = self.changes()
        self.wh.apply(changes)
        self.tables = self.after(changes)

    def shown(self) -> dict[str, Rows]:
        return {name: Counter(self.wh.table(name).rows()) for name in self.tables}

    def settle(self, *possible: Mapping[str, Rows]) -> None:
        """See that the tables are as one of ``possible``, and go on from there; open again where we are told to."""
        try:
            shown = self.shown()
        except CommitUnknown:
            with pytest.raises(CommitUnknown):
                self.wh.apply({})
            with pytest.raises(CommitUnknown):
                self.wh.view("totals").rows()
            self.reopen()
            shown = self.shown()
        assert shown in possible, f"the tables show {shown}"
        self.tables = shown

    def check(self) -> None:
        """See that everything agrees: views with tables, subscribers with views."""
        assert self.shown() == self.tables
        for name in VIEWS:
            assert self.wh.view(name).verify().ok, f"{name} is wrong"
            for batch in self.heard[name]:
                for weight, row in batch.changes:
                    self.told[name][row] += weight
            assert +self.told[name] == Counter(self.wh.view(name).rows()), f"subscribers of {name} were told otherwise"
        for name in self.wh.views():
            if name not in VIEWS and name != "lazy":
                assert self.wh.view(name).verify().ok, f"{name} is wrong"
        self.wh.sql("REFRESH MATERIALIZED VIEW lazy")
        assert self.wh.view("lazy").verify().ok, "lazy is wrong"

    def check_again(self) -> None:
        """The same once more from what the folder has."""
        self.check()
        if self._folder is not None:
            self.reopen()
            assert self.shown() == self.tables
            self.check()

    def close(self) -> None:
        self.wh.close()


@contextmanager
def world(kind: str) -> Iterator[World]:
    """A world in memory or on disk, with or without compiled code: ``memory``, ``disk``, ``compiled``."""
    with tempfile.TemporaryDirectory(dir=QUICK if QUICK.is_dir() else None) as folder:
        made = World(Path(folder) / "warehouse" if kind == "disk" else None, "llvm" if kind == "compiled" else "python")
        try:
            yield made
        finally:
            with suppress(TidemillError):
                made.close()


# -- operations ----------------------------------------------------------------------------------------------------

Operation = Callable[[World], tuple[Callable[[], object], list[dict[str, Rows]]]]
"""Gets ready; what is to be interrupted, and the tables that it may leave beside those from before."""


def epoch(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    changes = world.changes()
    return lambda: world.wh.apply(changes, positions={"s": str(world.number)}), [world.after(changes)]


def epoch_of_runs(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    """An epoch that is committed by a manifest, with what waits in the log."""
    changes = world.changes()

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidemill.storage.folder_writer.LOG_ROWS", 0)
            world.wh.apply(changes)

    return run, [world.after(changes)]


def refused(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    changes = world.changes()
    changes["people"].append((-1, ("nobody", "nowhere")))

    def run() -> None:
        with pytest.raises(DataError):
            world.wh.apply(changes)

    return run, []


def dml(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    rows = [(+1, (i, c, a + 1)) for i, c, a in world.tables["orders"]]
    changed = world.after({"orders": [*rows, *((-1, row) for row in world.tables["orders"])]})
    return lambda: world.wh.sql("UPDATE orders SET amount = amount + 1"), [changed]


def create_view(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    world.wh.sql("DROP VIEW IF EXISTS fresh")
    return lambda: world.wh.sql(f"CREATE MATERIALIZED VIEW fresh AS {FRESH}"), []


def drop_view(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    world.wh.sql("DROP VIEW IF EXISTS fresh")
    world.wh.sql(f"CREATE MATERIALIZED VIEW fresh AS {FRESH}")
    return lambda: world.wh.sql("DROP VIEW fresh"), []


def share_view(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    """A view comes that has the rows of another."""
    world.wh.sql("DROP VIEW IF EXISTS shared")
    return lambda: world.wh.sql(f"CREATE MATERIALIZED VIEW shared AS {VIEWS['cities']}"), []


def drop_owner(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    """A view goes, and another that shares what it keeps takes it over."""
    world.wh.sql("DROP VIEW IF EXISTS fresh; DROP VIEW IF EXISTS shared")
    for name in ("fresh", "shared"):
        world.wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {FRESH}")
    return lambda: world.wh.sql("DROP VIEW fresh"), []


def refresh(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    world.step()
    return lambda: world.wh.sql("REFRESH MATERIALIZED VIEW lazy"), []


def compact(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    return lambda: world.wh.compact(), []


def vacuum(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    return lambda: world.wh.vacuum(50), []


def checkpoint(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    store = world.engine.store
    if not isinstance(store, FolderStore):
        return lambda: None, []
    while not store._now.tail.epochs:  # now and then what waits is taken into files by itself
        world.step()
    return store.checkpoint, []


def feed(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    """Two events one by one, and a look: the first alone may be taken, or both."""
    world.number += 2
    rows = [(world.number - 1, "c1", 3), (world.number, "c2", 9)]
    enter = world.wh.feed("orders")

    def run() -> None:
        for row in rows:
            enter(+1, *row)
        world.wh.flush()

    return run, [world.after({"orders": [(1, row) for row in rows[:count]]}) for count in (1, 2)]


def objects(world: World) -> tuple[Callable[[], object], list[dict[str, Rows]]]:
    """Objects go and one comes, with the identity after the last one that a committed epoch has given."""
    world.number += 1
    db, number, gone = tidemill.objects(world.wh), world.number, list(world.tables["things"])
    comes = int(world.engine.store.positions.get(LAST_OID, 0)) + 1, number, f"n{number}"

    def run() -> None:
        with db.epoch():
            for row in gone:
                db.delete(row[0])
            db.create("thing", id=number, name=f"n{number}")

    return run, [world.after({"things": [*((-1, row) for row in gone), (1, comes)]})]


OPERATIONS: dict[str, Operation] = {
    "epoch": epoch,
    "epoch of runs": epoch_of_runs,
    "refused": refused,
    "dml": dml,
    "create view": create_view,
    "drop view": drop_view,
    "share view": share_view,
    "drop owner": drop_owner,
    "refresh": refresh,
    "compact": compact,
    "vacuum": vacuum,
    "checkpoint": checkpoint,
    "feed": feed,
    "objects": objects,
}


# -- campaigns -----------------------------------------------------------------------------------------------------

Fault = Lines | Calls


class Alarm:
    """Raises KeyboardInterrupt after some seconds, as Ctrl-C would: wherever the interpreter looks for signals."""

    def __init__(self, seconds: float) -> None:
        self.at, self.place = seconds, ""
        self._armed = False

    @property
    def fired(self) -> bool:
        return bool(self.place)

    def __enter__(self) -> Alarm:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, self.at)
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._armed and frame is not None:
            self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            raise KeyboardInterrupt


def interrupt(world: World, name: str, fault: Fault | Alarm) -> bool:
    """Run an operation with a fault in it, and see that the warehouse is right after it; whether the fault came."""
    run, possible = OPERATIONS[name](world)
    before, finished = world.tables, False
    try:
        with fault:
            run()
            finished = True
    except (KeyboardInterrupt, OSError, MemoryError, StorageError, DataError, RuntimeWarning):
        if not fault.fired:
            raise
    try:
        # What has returned is done.
        world.settle(*(possible[-1:] if finished and possible else [before, *possible]))
        world.step()
        world.check()
    except BaseException as error:
        error.add_note(f"{name}, after fault {fault.at} at {fault.place}")
        raise
    return fault.fired


def points(world: World, name: str, fault: Fault) -> int:
    """How many points an operation has at which a fault can come: ``fault`` counts them, and comes at none."""
    run, possible = OPERATIONS[name](world)
    with fault:
        run()
    world.settle(*(possible[-1:] or [world.tables]))
    return fault.count


def lines(at: int | None) -> Lines:
    """An exception at a line, of one kind after the other."""
    return Lines(at, list(ERRORS.values())[(at or 0) % len(ERRORS)])


def calls(at: int | None) -> Calls:
    """A refusal of a call: the disk is broken or full, and the call was made all the same or not."""
    turn = at or 0
    return Calls(at, (errno.EIO, errno.ENOSPC)[turn % 2], done=turn // 2 % 2 == 0)


def spread(count: int, chosen: int, seed: int) -> list[int]:
    """So many of the points from 1 to ``count``, evenly spread.

    >>> spread(100, 4, seed=3)
    [4, 29, 54, 79]
    """
    stride = max(count // chosen, 1)
    return list(range(1 + seed % stride, count + 1, stride))[:chosen]
