"""``tidemill demo``: a shop on a warehouse. Orders stream in, six views follow, and at the end each is verified."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.engine.open_warehouse import open as open_warehouse
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.demo.arrivals import Deliver, applied, streamed
from tidemill.serving.demo.board import Board, DemoStatistics, WorkDone, board_for, work_table
from tidemill.serving.demo.recompute import NO_DUCKDB, recompute_seconds, timed
from tidemill.serving.demo.shop import SHOP_TABLES, SHOP_VIEWS, Shop, ShopChange
from tidemill.serving.demo.show_console import offer_console
from tidemill.serving.render import console

__all__ = ["run_demo"]

CHANGES_PER_EPOCH = 40
"""Orders, corrections and cancellations that one epoch takes in."""

BULK_CHANGES = 15_000
"""The same of a bulk change, as a system that was away for hours delivers it: so many rows are the work of tasks."""

EPOCH_SECONDS = 0.1
"""Minimum seconds between epochs, so that the display can be followed."""

RECOMPUTE_EVERY = 12.0
"""Seconds between two recomputations, each followed by a bulk change."""

WORKERS = 2
"""Workers of the cluster that the demo starts, with a core each."""


def run_demo(
    *, seconds: float, runtime: str, folder: Path | None, seed: int, cluster: bool = False, shop: Shop | None = None
) -> bool:
    """Run the demo; true if every view equals its recomputation."""
    output = console()
    shop = shop or Shop(seed=seed)
    board = Board(output)
    board.say(_opening(runtime, cluster))
    with _folder(folder) as path, _warehouse(path, runtime, cluster) as wh:
        figures = DemoStatistics(tuple(SHOP_VIEWS), runtime, seconds, epoch=wh.epoch)
        arriving = streamed if runtime == "spark" else applied
        with _interrupts_noted() as interrupted:
            _open_shop(wh, shop, figures)
            board.say(_loaded(figures))
            with board_for(output) as live, arriving(wh) as deliver:
                _follow(wh, shop, figures, live, deliver, interrupted)
        board.say(f"{figures.epoch} epochs, {figures.taken:,} row changes: {figures.comparison}")
        if runtime == "spark":
            board.show(work_table(figures))
        if "DuckDB" not in figures.recomputes:
            board.say(NO_DUCKDB)
        good = _verify(wh, board.say)
        offer_console(wh, shop, folder, board.say, _interrupts_noted)
        return good


def _opening(runtime: str, cluster: bool) -> str:
    if cluster:
        return f"opening a shop on a cluster of Spark: a master and {WORKERS} workers start on this machine"
    return f"opening a shop on {runtime}; Spark takes some seconds to start" if runtime == "spark" else "opening a shop"


@contextmanager
def _warehouse(path: Path, runtime: str, cluster: bool) -> Iterator[Warehouse]:
    """A warehouse on the runtime, or on a cluster that ends with the block."""
    if not cluster:
        with open_warehouse(path, runtime=runtime) as wh:
            if runtime == "spark":
                assert wh.spark  # started, so that it has set up what Ctrl-C does, before we do
            yield wh
        return
    from tidemill.runtimes.spark.sessions.standalone_cluster import cluster_session

    with (
        tempfile.TemporaryDirectory(prefix="tidemill-cluster-") as folder,
        cluster_session(Path(folder), WORKERS) as session,
        open_warehouse(path, runtime=runtime, spark=session) as wh,
    ):
        yield wh


def _open_shop(wh: Warehouse, shop: Shop, figures: DemoStatistics) -> None:
    """Tables and views, and then all rows as one epoch: the first bulk change."""
    wh.sql(SHOP_TABLES)
    for name, query in SHOP_VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    _measured(wh, figures, "load", shop.opening(), wh.apply)
    figures.rows = {name: len(wh.view(name)) for name in SHOP_VIEWS}


def _loaded(figures: DemoStatistics) -> str:
    loaded, streaming = figures.work["load"], figures.runtime == "spark"
    told = f"{loaded.rows:,} rows loaded into 3 tables and {len(SHOP_VIEWS)} views in {loaded.seconds:.1f} s"
    return f"{told}; now the changes{', by a streaming query' if streaming else ''}"


def _follow(
    wh: Warehouse,
    shop: Shop,
    figures: DemoStatistics,
    board: Board,
    deliver: Deliver,
    interrupted: threading.Event,
) -> None:
    """Epoch after epoch until the time is up, with a recomputation now and then. Ctrl-C ends it early."""
    started = time.monotonic()
    recompute_at = 0.0
    while figures.elapsed < figures.seconds and not interrupted.is_set():
        _epoch(wh, figures, "small changes", shop.step(CHANGES_PER_EPOCH), deliver)
        figures.elapsed = time.monotonic() - started
        if figures.elapsed >= recompute_at and not interrupted.is_set():
            figures.note_recompute(recompute_seconds(wh, SHOP_VIEWS, figures.runtime))
            _epoch(wh, figures, "bulk changes", shop.step(BULK_CHANGES), deliver)
            figures.elapsed = time.monotonic() - started
            recompute_at = figures.elapsed + RECOMPUTE_EVERY
        board.update(figures)
    if interrupted.is_set():
        board.say("stopped; verifying every view")


@contextmanager
def _interrupts_noted() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, in place of an exception: that would break the conversation with Spark."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _epoch(wh: Warehouse, figures: DemoStatistics, kind: str, change: ShopChange, deliver: Deliver) -> None:
    seconds = _measured(wh, figures, kind, change, deliver)
    if kind == "small changes":
        figures.refreshes.append(seconds)
    figures.taken += sum(len(pairs) for pairs in change.values())
    for name in SHOP_VIEWS:
        weights = [weight for weight, _ in wh.view(name).changes(since=figures.epoch)]
        figures.note(name, changed=len(weights), grown=sum(weights))
    figures.epoch = wh.epoch
    time.sleep(max(0.0, EPOCH_SECONDS - seconds))


def _measured(
    wh: Warehouse, figures: DemoStatistics, kind: str, change: ShopChange, deliver: Callable[[ShopChange], object]
) -> float:
    """Seconds until the views show a change, which are recorded with what this process and Spark did."""
    before = time.process_time()
    seconds = timed(lambda: deliver(change))
    rows = sum(len(pairs) for pairs in change.values())
    done = figures.work.setdefault(kind, WorkDone())
    done.note(rows, seconds, time.process_time() - before, wh.costs())
    return seconds


def _verify(wh: Warehouse, say: Callable[[str], None]) -> bool:
    say("verifying every view against its recomputation, both ways, duplicates counted")
    checks = [wh.view(name).verify() for name in SHOP_VIEWS]
    for check in checks:
        say(f"  {'ok' if check else 'DIFFERENT'}  {check}")
    good = sum(map(bool, checks))
    say(f"{good} of {len(checks)} views equal their recomputation")
    return all(checks)


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """The given folder, which must be new, or a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as path:
            yield Path(path)
    elif folder.exists() and any(folder.iterdir()):
        raise SetupError("the demo needs a new folder", where=str(folder), hint="Name one that does not exist yet.")
    else:
        yield folder
