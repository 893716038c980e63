"""Streaming tables: the new rows of a source, through the query of a flow, appended exactly once.

New rows of a source go into a table of their own, over which the query of the flow is asked; its rows, and how far the
flow is, are then one epoch. A process that ends between the two finds that table filled, and empties it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import repeat_rows
from tidemill.engine.handles import TableHandle, ViewHandle
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import EpochGone, Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.serving.pipelines.plan import RECORDS, Step, StreamFlow, columns_text
from tidemill.serving.pipelines.state import FlowPosition, State

__all__ = ["append_new_rows"]

FILES = ("parquet", "csv", "json")
"""Formats of sources whose files may be removed once they were read, as Spark allows it."""


def append_new_rows(wh: Warehouse, state: State, step: Step, steps: Mapping[str, Step]) -> None:
    """Run all flows into a streaming table."""
    for flow in step.flows:
        _run_flow(wh, state, step, flow, steps)


def _run_flow(wh: Warehouse, state: State, step: Step, flow: StreamFlow, steps: Mapping[str, Step]) -> None:
    staged: dict[str, pa.Table] = {}
    moved: list[Any] = []
    for number, (source, stage) in enumerate(flow.stages):
        key = f"{step.name}/{flow.name}/{number}"
        now = FlowPosition(source, state.made()[source].owner, wh.epoch)
        rows = _new_rows(wh, state, key, now, steps[source], step, flow)
        if rows is None:
            continue
        staged[stage] = rows
        moved += state.moved(key, now)
    if not moved:
        return
    _stage(wh, flow, staged, steps)
    appended = wh.sql(flow.query).arrow()
    emptied = {stage: _weighted(rows, -1) for stage, rows in staged.items() if rows.num_rows}
    wh.apply({step.name: appended, "_flows": moved, **emptied})


def _stage(wh: Warehouse, flow: StreamFlow, staged: Mapping[str, pa.Table], steps: Mapping[str, Step]) -> None:
    """Fill the tables of new rows with these alone."""
    changes: dict[str, pa.Table] = {}
    for source, stage in flow.stages:
        fields = steps[source].fields
        if stage in wh.tables() and [(f.name, f.type) for f in wh.table(stage).fields] != [
            (f.name, f.type) for f in fields
        ]:
            wh.sql(f"DROP TABLE {stage}")
        wh.sql(f"CREATE TABLE IF NOT EXISTS {stage} ({columns_text(fields)})")
        left, new = wh.table(stage).arrow(), staged.get(stage)
        parts = [_weighted(left, -1)] if left.num_rows else []
        parts += [_weighted(new.cast(left.schema), 1)] if new is not None and new.num_rows else []
        if parts:
            changes[stage] = pa.concat_tables(parts)
    if changes:
        wh.apply(changes)


def _new_rows(
    wh: Warehouse, state: State, key: str, now: FlowPosition, source: Step, step: Step, flow: StreamFlow
) -> pa.Table | None:
    """Rows that came to a source since a flow has read it; None if nothing has changed."""
    relation: TableHandle | ViewHandle = wh.view(source.name) if source.name in wh.views() else wh.table(source.name)
    before = state.flow(key)
    if before is None:
        return relation.arrow()
    if before.definition != now.definition or before.source != now.source:
        raise _gone(step, flow, source, "It was made anew since, so which of its rows are new is not known.")
    try:
        net = relation.net_changes(before.epoch)
    except EpochGone as error:
        raise _gone(step, flow, source, "The changes since are no longer kept.") from error
    came, left = net.filter(pc.greater(net.column(WEIGHT), 0)), net.filter(pc.less(net.column(WEIGHT), 0))
    if left.num_rows:
        files = source.external is not None and source.external.format in FILES
        if came.num_rows or not files:
            raise _gone(
                step, flow, source, f"{left.num_rows:,} of its rows have left or changed, and a stream only grows."
            )
    return repeat_rows(came) if net.num_rows else None


def _gone(step: Step, flow: StreamFlow, source: Step, detail: str) -> Unsupported:
    name = step.name.removeprefix(RECORDS)
    return Unsupported(
        f'flow "{flow.name}" cannot go on reading "{source.name}"',
        where=flow.place,
        detail=detail,
        hint=f"Make its target anew from what there is now: --full-refresh {name}",
    )


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))
