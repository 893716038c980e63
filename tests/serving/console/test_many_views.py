"""Five hundred views that all change, on a page of a real server: it keeps up, and goes on to be drawn."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tidemill
from tests.serving.console.browser import Shown
from tests.serving.console.conftest import new_page
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.server.server import Server
from tidemill.serving.server.settings import Settings

VIEWS, EPOCHS_A_SECOND = 500, 10

MEASURE = """
    async () => {
        const tasks = [], frames = [];
        new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
            .observe({entryTypes: ['longtask']});
        const end = performance.now() + 1500;
        for (let last = performance.now(); last < end;) {
            const now = await new Promise(requestAnimationFrame);
            frames.push(now - last);
            last = now;
        }
        frames.sort((one, other) => one - other);
        return {frames: frames.length, median: frames[frames.length >> 1], longest: Math.max(0, ...tasks)};
    }
"""


@pytest.fixture
def many(browser: Any) -> Iterator[tuple[Shown, Warehouse]]:
    """A page of a warehouse in which each row that comes changes a row of each view."""
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE ticks (id INT)")
        text = "CREATE MATERIALIZED VIEW v{} WITH (strategy = 'delta') AS SELECT id, {} AS n FROM ticks"
        wh.sql("; ".join(text.format(number, number) for number in range(VIEWS)))
        server = Server(wh, "many", Settings(port=0))
        server.start()
        with new_page(browser, server) as shown:
            yield shown, wh
        server.stop()
        server.wait()


@contextmanager
def changing(wh: Warehouse) -> Iterator[None]:
    """Rows come one by one for the time of the block: so many a second, if the machine is not too busy for that."""
    ended, begun = threading.Event(), time.monotonic()

    def change() -> None:
        for number in itertools.count(1):
            wh.apply({"ticks": [(+1, (number,))]})
            if ended.wait(max(0.0, begun + number / EPOCHS_A_SECOND - time.monotonic())):
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_five_hundred_views_are_fluent(many: tuple[Shown, Warehouse]) -> None:
    shown, wh = many
    page = shown.open("#/")
    page.get_by_text("v7", exact=True).wait_for()
    begun = time.monotonic()
    with changing(wh):
        page.get_by_test_id("epoch").filter(has_text=re.compile("[1-9]")).wait_for()
        measured = page.evaluate(MEASURE)
    page.get_by_test_id("epoch").get_by_text(str(wh.epoch), exact=True).wait_for()
    assert VIEWS * wh.epoch / (time.monotonic() - begun) > 2500
    assert page.get_by_role("listitem").count() < 80
    assert measured["median"] < 150
    assert measured["longest"] < 800
