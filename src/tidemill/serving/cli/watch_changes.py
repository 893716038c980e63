"""Following a view from another process: the folder is polled, and new changes are returned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import tidemill
from tidemill.model.errors import BadValue
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.serving.render import csv_line, json_line

if TYPE_CHECKING:
    from tidemill.engine.handles import ViewHandle
    from tidemill.engine.subscriptions.change_batches import ChangeBatch

__all__ = ["EpochChanges", "as_csv_lines", "as_json_lines", "as_text_lines", "watch_changes"]


class EpochChanges(NamedTuple):
    """The changes of a view in one epoch, with its columns."""

    batch: ChangeBatch
    columns: Sequence[str]


def watch_changes(
    folder: str,
    view: str,
    *,
    since: int | None = None,
    where: Sequence[str] = (),
    interval: float = 1.0,
    timeout: float | None = None,
    between: Callable[[], None] = lambda: None,
) -> Iterator[EpochChanges]:
    """The changes of ``view`` in each epoch after ``since`` (default: from now on).

    ``where`` are texts such as ``follower=17``; a column that is named twice may have either value. A writer in another
    process cannot notify us, so the folder is opened read-only every ``interval`` seconds: a reader needs no lock and
    sees whole epochs. Ends when nothing came for ``timeout`` seconds. ``between`` is called after each poll.
    """
    seen, quiet_from = since, time.monotonic()
    while timeout is None or time.monotonic() - quiet_from < timeout:
        with tidemill.open(folder, runtime="native", read_only=True) as wh:
            handle, epoch = wh.view(view), wh.epoch
            first, seen = seen is None, epoch if seen is None else seen
            if epoch > seen or first:
                batches = handle.batches(seen, where=_conditions(where, handle) if where else None)
                yield from (EpochChanges(batch, handle.columns) for batch in batches)
            if epoch > seen:
                seen, quiet_from = epoch, time.monotonic()
        between()
        time.sleep(interval)


def as_json_lines(batch: ChangeBatch, view: str, columns: Sequence[str]) -> Iterator[str]:
    """The changes of an epoch as JSON: a line for each row, as ``tidemill apply`` reads them."""
    for weight, row in batch:
        record = {"table": view, "weight": weight, "row": dict(zip(columns, row, strict=True)), "epoch": batch.epoch}
        yield json_line(record)


def as_csv_lines(batch: ChangeBatch, columns: Sequence[str], *, header: bool) -> Iterator[str]:
    """The changes of an epoch as CSV: the columns of the view, its weight and epoch; a header if told so."""
    if header:
        yield csv_line((*columns, WEIGHT, EPOCH))
    for weight, row in batch:
        yield csv_line((*row, weight, batch.epoch))


def as_text_lines(batch: ChangeBatch) -> Iterator[str]:
    """The changes of an epoch as text: an update is one line, with the old row and the new one."""
    for old, new in batch.updates:
        yield f"{batch.epoch:>8}      {json_line(old)} -> {json_line(new)}"
    updated = {(weight, repr(row)) for pair in batch.updates for weight, row in zip((-1, 1), pair, strict=True)}
    for weight, row in batch:
        if (weight, repr(row)) not in updated:
            yield f"{batch.epoch:>8}  {weight:+d}  {json_line(row)}"


def _conditions(texts: Sequence[str], view: ViewHandle) -> dict[str, list[Any]]:
    """The requested values by column; NULL is written as NULL."""
    from tidemill.sources.ingest.text_records import parser_of

    types = {field.name.lower(): field.type for field in view.fields}
    found: dict[str, list[Any]] = {}
    for text in texts:
        column, equals, value = text.partition("=")
        if not equals:
            raise BadValue(f'"{text}" has no value', where="--where", hint="Write --where column=value.")
        name = column.strip()
        parse = parser_of(types[name.lower()]) if name.lower() in types else str
        found.setdefault(name, []).append(None if value == "NULL" else parse(value))
    return found
