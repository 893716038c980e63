"""``tidemill demo``: a shop on a warehouse. Orders stream in, six views follow, and at the end each is verified."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.engine.warehouse import Warehouse
from tidemill.engine.warehouse import open as open_warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.demo.board import Board, DemoStatistics, board_for
from tidemill.serving.demo.recompute import NO_DUCKDB, recompute_seconds, timed
from tidemill.serving.demo.shop import SHOP_TABLES, SHOP_VIEWS, Shop
from tidemill.serving.render import console

__all__ = ["run_demo"]

CHANGES_PER_EPOCH = 40
"""Orders, corrections and cancellations that one epoch takes in."""

EPOCH_SECONDS = 0.1
"""Minimum seconds between epochs, so that the display can be followed."""

RECOMPUTE_EVERY = 12.0
"""Seconds between two recomputations."""


def run_demo(*, seconds: float, runtime: str, folder: Path | None, seed: int, shop: Shop | None = None) -> bool:
    """Run the demo; true if every view equals its recomputation."""
    output = console()
    shop = shop or Shop(seed=seed)
    with _folder(folder) as path, open_warehouse(path, runtime=runtime) as wh:
        say = Board(output).say
        say(
            f"opening a shop on {runtime}; Spark takes some seconds to start"
            if runtime == "spark"
            else "opening a shop"
        )
        seconds_taken = timed(lambda: _open_shop(wh, shop))
        figures = DemoStatistics(tuple(SHOP_VIEWS), runtime, seconds, epoch=wh.epoch)
        figures.rows = {name: len(wh.view(name)) for name in SHOP_VIEWS}
        rows = sum(len(wh.table(name)) for name in wh.tables())
        say(f"{rows:,} rows loaded and {len(SHOP_VIEWS)} views built in {seconds_taken:.1f} s; now the changes")
        with board_for(output) as board:
            _stream(wh, shop, figures, board)
        say(f"{figures.epoch} epochs, {figures.taken:,} row changes: {figures.comparison}")
        if "DuckDB" not in figures.recomputes:
            say(NO_DUCKDB)
        return _verify(wh, say)


def _open_shop(wh: Warehouse, shop: Shop) -> None:
    wh.sql(SHOP_TABLES)
    wh.apply(shop.opening())
    for name, query in SHOP_VIEWS.items():
        wh.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def _stream(wh: Warehouse, shop: Shop, figures: DemoStatistics, board: Board) -> None:
    """Epoch after epoch until the time is up, with a recomputation now and then. Ctrl-C ends it early."""
    started = time.monotonic()
    recompute_at = 0.0
    try:
        while figures.elapsed < figures.seconds:
            _epoch(wh, shop, figures)
            if figures.elapsed >= recompute_at:
                figures.note_recompute(recompute_seconds(wh, SHOP_VIEWS, figures.runtime))
                recompute_at = figures.elapsed + RECOMPUTE_EVERY
            figures.elapsed = time.monotonic() - started
            board.update(figures)
            time.sleep(max(0.0, EPOCH_SECONDS - figures.refreshes[-1]))
    except KeyboardInterrupt:
        board.say("stopped; verifying every view")


def _epoch(wh: Warehouse, shop: Shop, figures: DemoStatistics) -> None:
    change = shop.step(CHANGES_PER_EPOCH)
    figures.refreshes.append(timed(lambda: wh.apply(change)))
    figures.taken += sum(len(pairs) for pairs in change.values())
    for name in SHOP_VIEWS:
        weights = [weight for weight, _ in wh.view(name).changes(since=figures.epoch)]
        figures.note(name, changed=len(weights), grown=sum(weights))
    figures.epoch = wh.epoch


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
