"""Exceptions at any moment, refusals of the system, failed syncs, forks: the warehouse stays right, or says so."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.interruptions import (
    ERRORS,
    OPERATIONS,
    Alarm,
    Calls,
    Lines,
    Place,
    calls,
    interrupt,
    lines,
    points,
    spread,
    world,
)
from tidemill.model.errors import ArithmeticFault, BadValue, CommitUnknown, InvalidArgument, StorageError
from tidemill.storage.commits.manifest import manifest_sequences

SEED = int(os.environ.get("INTERRUPTIONS_SEED", "0"))
ON_DISK = ("epoch of runs", "checkpoint", "vacuum")
"""Operations that are none in memory."""

OPERATIONS_OF = {"disk": list(OPERATIONS), "memory": [name for name in OPERATIONS if name not in ON_DISK]}


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_an_exception_at_any_line_leaves_the_warehouse_right(kind: str) -> None:
    with world(kind) as made:
        for name in OPERATIONS_OF[kind]:
            for at in spread(points(made, name, lines(None)), 3, SEED + 17):
                interrupt(made, name, lines(at))
        made.check_again()


def test_an_exception_in_compiled_code_leaves_the_warehouse_right() -> None:
    with world("compiled") as made:
        for at in spread(points(made, "epoch", lines(None)), 4, SEED + 29):
            interrupt(made, "epoch", lines(at))
        made.check_again()


def test_whatever_the_system_refuses_the_warehouse_stays_right() -> None:
    with world("disk") as made:
        for name in OPERATIONS_OF["disk"]:
            for at in spread(points(made, name, calls(None)), 4, SEED):
                interrupt(made, name, calls(at))
        made.check_again()


@pytest.mark.long
@pytest.mark.parametrize("kind", OPERATIONS_OF)
def test_every_line_with_every_exception(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of what commits, with each kind of exception, in random order for as long as there is time."""
    until, counts = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600")), Counter[str]()
    with world(kind) as made:
        faults: list[tuple[str, Place, str]] = []
        for name in OPERATIONS_OF[kind]:
            counting = lines(None)
            counts["points"] += points(made, name, counting)
            new = counting.places.keys() - {place for _, place, _ in faults}
            faults += [(name, place, error) for place in sorted(new) for error in ERRORS]
        counts["lines"] = len(faults) // len(ERRORS)
        for name, place, error in random.sample(faults, len(faults)):
            if time.monotonic() > until:
                break
            counts[error] += interrupt(made, name, Lines(place, ERRORS[error]))
        made.check_again()
        counts["opened again"] = made.reopened
    with capsys.disabled():
        print(f"\nexceptions in {kind}: {dict(counts)}")


@pytest.mark.long
def test_every_call_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Every call of the system, refused as broken and as full, before and after it was made."""
    until, counts = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600")) / 2, Counter[str]()
    with world("disk") as made:
        ways = [(code, done) for code in (errno.EIO, errno.ENOSPC) for done in (True, False)]
        counted = {name: points(made, name, calls(None)) for name in OPERATIONS_OF["disk"]}
        faults = [(name, at, *way) for name, count in counted.items() for at in range(1, count + 1) for way in ways]
        counts["calls"] = sum(counted.values())
        for name, at, code, done in random.sample(faults, len(faults)):
            if time.monotonic() > until:
                break
            counts[errno.errorcode[code]] += interrupt(made, name, Calls(at, code, done=done))
        made.check_again()
        counts["opened again"] = made.reopened
    with capsys.disabled():
        print(f"\ncalls refused: {dict(counts)}")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_ctrl_c_at_random_moments(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600")) / 10
    counts: Counter[str] = Counter()
    with world(kind) as made:
        while time.monotonic() < until:
            counts["interrupted"] += interrupt(
                made, random.choice(OPERATIONS_OF[kind]), Alarm(random.uniform(1e-5, 2e-2))
            )
            counts["tried"] += 1
        made.check_again()
    with capsys.disabled():
        print(f"\nCtrl-C in {kind}: {dict(counts)}")


def test_a_second_exception_while_the_first_is_recovered_from() -> None:
    with world("disk") as made:
        for first in spread(points(made, "epoch", lines(None)), 3, 5):
            changes = made.changes()
            before, after = made.tables, made.after(changes)
            with pytest.raises(KeyboardInterrupt), Lines(first, KeyboardInterrupt):
                made.wh.apply(changes)
            for second in (30, 200, 700):
                with suppress(KeyboardInterrupt), Lines(second, KeyboardInterrupt):
                    made.wh.view("totals").rows()
            made.settle(before, after)
            made.step()
            made.check()


# -- what is refused at the door ------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "disk"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with tidemill.open(":memory:" if request.param == "memory" else tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        wh.sql("CREATE STREAM s (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT a, COUNT(*) AS n FROM s GROUP BY a")
        yield wh


@pytest.mark.parametrize("positions", ["x", {1: "a"}, {"a": 1}, [("a", "b")], 7])
def test_positions_that_are_none_are_refused(wh: tidemill.Warehouse, positions: Any) -> None:
    with pytest.raises(InvalidArgument, match='"positions" of Warehouse.apply'):
        wh.apply({"t": [(+1, (1,))]}, positions=positions)
    assert (wh.epoch, wh.view("v").rows()) == (0, [])
    wh.apply({"t": [(+1, (1,))]}, positions={"a": "1"})
    assert wh.view("v").rows() == [(1, 1)]


@pytest.mark.parametrize("weight", [1 << 63, -(1 << 64), 1 << 200])
def test_weights_have_64_bits(wh: tidemill.Warehouse, weight: int) -> None:
    for table in ("t", "s"):
        with pytest.raises(BadValue):
            wh.apply({table: [(weight, (1,))]})
        with pytest.raises(BadValue):
            wh.feed(table)(weight, 1)
    assert (wh.epoch, wh.view("v").rows()) == (0, [])


@pytest.mark.parametrize(("table", "view"), [("t", "v"), ("s", "w")])
def test_sums_of_weights_have_64_bits(wh: tidemill.Warehouse, table: str, view: str) -> None:
    half = 1 << 62
    with pytest.raises(ArithmeticFault, match="would occur 9,223,372,036,854,775,808 times"):
        wh.apply({table: [(half, (1,)), (half, (1,))]})
    wh.apply({table: [(half, (1,))]})
    with pytest.raises(ArithmeticFault, match="would occur 9,223,372,036,854,775,808 times"):
        wh.apply({table: [(half, (1,))]})
    assert wh.view(view).rows() == [(1, half)]
    wh.apply({table: [(half - 1, (1,))]})
    assert wh.view(view).rows() == [(1, 2 * half - 1)]


def test_a_product_of_weights_has_64_bits(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW pairs AS SELECT x.a FROM t x JOIN t y ON x.a = y.a")
    with pytest.raises(ArithmeticFault):
        wh.apply({"t": [(1 << 40, (1,))]})
    assert wh.table("t").rows() == [] and wh.view("v").rows() == []


# -- syncs that fail ------------------------------------------------------------------------------------------------


def _refuse(handle: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_commit_whose_sync_failed_never_says_that_nothing_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wh = tidemill.open(tmp_path / "w", runtime="native")
    wh.sql("CREATE TABLE t (a INT)")
    wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _refuse)
        with pytest.raises(CommitUnknown) as caught:
            wh.apply({"t": [(+1, (1,))]})
    assert "may or may not" in str(caught.value) and "Nothing was changed" not in str(caught.value)
    for use in (
        lambda: wh.epoch,
        wh.view("v").rows,
        wh.view("v").changes,
        lambda: wh.sql("SELECT * FROM t"),
        wh.compact,
    ):
        with pytest.raises(CommitUnknown, match="open it again"):
            use()
    wh.close()
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert (again.epoch, again.view("v").rows()) == (1, [(1,)]), "what it wrote is read back"


def test_a_log_stays_until_its_manifest_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wh = tidemill.open(tmp_path / "w", runtime="native")
    wh.sql("CREATE TABLE t (a INT)")
    wh.apply({"t": [(+1, (1,))]})
    linked: list[str] = []
    real_link, real_sync = os.link, os.fsync

    def link(source: Any, target: Any) -> None:
        real_link(source, target)
        linked.append(str(target))

    def sync(handle: int) -> None:
        if linked:
            _refuse(handle)
        real_sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        patch.setattr(os, "fsync", sync)
        with pytest.raises(CommitUnknown):
            wh.sql("CREATE TABLE u (a INT)")
    assert list((tmp_path / "w" / "log").glob("*.log")), "the epoch is on the disk there"
    wh.close()
    manifests = tmp_path / "w" / "manifests"
    newest = manifest_sequences(manifests)[-1]
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert again.table("t").rows() == [(1,)] and "u" in again.tables()
        assert manifest_sequences(manifests)[-1] > newest, "the manifest is said again before the log goes"


def test_threads_that_commit_together_do_not_undo_each_other(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        ended = threading.Event()
        done: list[int] = []

        def work() -> None:
            while not ended.is_set():
                wh.apply({"t": [(+1, (1,))]})
                done.append(1)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for at in range(40, 1200, 60):
            before = wh.epoch
            try:
                with Lines(at, KeyboardInterrupt):
                    wh.apply({"t": [(+1, (2,))]})
            except KeyboardInterrupt:
                assert wh.epoch >= before
        ended.set()
        for thread in threads:
            thread.join()
        rows = Counter(wh.table("t").rows())
        assert rows[1,] == len(done), "what has returned is there, once"
        assert wh.view("v").rows() == [(sum(rows.values()),)] and wh.epoch == sum(rows.values())
        shown = rows
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert Counter(again.table("t").rows()) == shown and again.view("v").verify().ok


# -- forks ----------------------------------------------------------------------------------------------------------


def test_a_forked_process_reads_and_does_not_write(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        wh.apply({"t": [(+1, (1,))]})
        child = os.fork()
        if not child:
            os._exit(_fork_of(wh))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(StorageError, match="another writer"):
            tidemill.open(tmp_path / "w")
        wh.apply({"t": [(+1, (2,))]})
        assert wh.view("v").rows() == [(2,)]
    with tidemill.open(tmp_path / "w", runtime="native") as again:
        assert (again.epoch, again.view("v").rows()) == (2, [(2,)])


def _fork_of(wh: tidemill.Warehouse) -> int:
    """What a child of the writer's process tries; 0 if all of it went as it must."""
    try:
        assert wh.view("v").rows() == [(1,)]
        for write in (lambda: wh.apply({"t": [(+1, (3,))]}), lambda: wh.sql("DROP VIEW v"), wh.compact, wh.vacuum):
            with pytest.raises(StorageError, match="a process that was forked cannot write"):
                write()
        assert wh.view("v").rows() == [(1,)]
        wh.close()
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


def test_a_forked_process_leaves_temporary_files_to_its_parent() -> None:
    from tidemill.storage.filesystem.durable_files import TemporaryFolder

    folder = TemporaryFolder()
    child = os.fork()
    if not child:
        folder.cleanup()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.is_dir()
    folder.cleanup()
    assert not folder.path.exists()


# -- events ---------------------------------------------------------------------------------------------------------


def test_events_in_machine_code_that_are_undone_are_told_of() -> None:
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        wh.sql("CREATE STREAM s (a INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM s GROUP BY a")
        enter = wh.feed("s")
        enter(+1, 1)
        wh.flush()
        enter(+1, 2)
        with pytest.raises(KeyboardInterrupt), Lines(40, KeyboardInterrupt):
            wh.flush()
        with pytest.raises(tidemill.TidemillError, match="events that were fed are undone"):
            wh.view("v").rows()
        assert wh.view("v").rows() == [(1, 1)]
        wh.feed("s")(+1, 2)
        assert sorted(wh.view("v").rows()) == [(1, 1), (2, 1)]
