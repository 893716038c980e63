"""Arrival of changes in the demo: given to ``apply``, or as files that a streaming query takes in."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.model.errors import SourceError
from tidemill.serving.demo.shop import SHOP_COLUMNS, ShopChange

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["Deliver", "applied", "streamed"]

Deliver = Callable[[ShopChange], object]
"""Gives a change to the warehouse; returns when all views show it."""

POLL_SECONDS = 0.005
"""Seconds between two looks at the epoch."""


@contextmanager
def applied(wh: Warehouse) -> Iterator[Deliver]:
    """Changes as epochs of this thread."""
    yield wh.apply


@contextmanager
def streamed(wh: Warehouse) -> Iterator[Deliver]:
    """Changes as files in a folder that a streaming query follows: each file is a batch, and an epoch of all tables."""
    with tempfile.TemporaryDirectory(prefix="tidemill-inbox-") as folder:
        inbox = Path(folder, "inbox")
        inbox.mkdir()
        source = wh.spark.readStream.schema(_schema()).option("maxFilesPerTrigger", 1).json(inbox.as_uri())
        parts = {table: _part(table) for table in SHOP_COLUMNS}
        query = wh.stream(parts, source, name="shop", checkpoint=Path(folder, "checkpoint"))

        def deliver(change: ShopChange) -> None:
            before = wh.epoch
            _write(change, inbox, before)
            while wh.epoch == before:
                if not query.isActive:
                    raise SourceError("the streaming query has ended", detail=str(query.exception()))
                time.sleep(POLL_SECONDS)

        try:
            yield deliver
        finally:
            query.stop()


def _schema() -> str:
    """The columns of a line: a weight, and the row of one of the tables."""
    rows = (
        f"{table} STRUCT<{', '.join(f'{name}: {type_}' for name, type_ in columns.items())}>"
        for table, columns in SHOP_COLUMNS.items()
    )
    return ", ".join(["_weight BIGINT", *rows])


def _part(table: str) -> Callable[[Any], Any]:
    """The function from a batch to the changes of a table."""
    return lambda batch: batch.where(f"{table} IS NOT NULL").select(f"{table}.*", "_weight")


def _write(change: ShopChange, inbox: Path, number: int) -> None:
    """Write a change as JSON lines; the file appears whole, as Spark asks of whatever delivers files."""
    lines = (
        json.dumps({"_weight": weight, table: dict(zip(SHOP_COLUMNS[table], row, strict=True))}, default=str)
        for table, pairs in change.items()
        for weight, row in pairs
    )
    fresh = inbox.with_name(f"{number}.json")
    fresh.write_text("\n".join(lines))
    os.replace(fresh, inbox / fresh.name)
