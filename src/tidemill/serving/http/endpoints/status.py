"""The status of the warehouse, its activity as a stream, and the catalog for completion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from tidemill import __version__
from tidemill.engine.inspect.status import Activity, RelationStatus, WarehouseStatus
from tidemill.engine.sessions.session import Session
from tidemill.engine.telemetry.totals import RefreshTotals
from tidemill.engine.warehouse import Warehouse
from tidemill.model.types import Field
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.content import columns_of
from tidemill.serving.http.endpoint import Call, Endpoint, json_response
from tidemill.serving.http.event_stream import EVENT_STREAM, event, event_stream

__all__ = ["ENDPOINTS"]

INTERVAL = 0.25
"""Seconds between two events of the stream of activity."""

NOTHING = RefreshTotals()


async def status(call: Call) -> Response:
    """The status, with the bytes of relations as they were a few seconds ago at most."""
    service = call.service
    found = await service.observe(service.status)
    return json_response(status_json(found, service.name, service.sizes))


def status_json(found: WarehouseStatus, name: str, sizes: Mapping[str, int | None]) -> dict[str, Any]:
    """The status of a warehouse as JSON; ``sizes`` are bytes by relation."""
    return {
        "warehouse": name,
        "version": __version__,
        "epoch": found.epoch,
        "oldest": found.oldest,
        "committed_at": found.committed_at,
        "tables": [_node(one, sizes) for one in found.tables],
        "views": [_node(one, sizes) for one in found.views],
        "sources": [asdict(one) for one in found.sources],
        "feeds": [asdict(one) for one in found.feeds],
        "published": dict(found.published),
        "builds": [asdict(one) | {"share": one.share} for one in found.builds],
        "troubles": {view: str(trouble) for view, trouble in found.troubles.items()},
    }


def _node(one: RelationStatus, sizes: Mapping[str, int | None]) -> dict[str, Any]:
    fields = asdict(one)
    staleness = {"epochs": fields.pop("epochs_behind"), "seconds": fields.pop("seconds_behind")}
    return {**fields, "staleness": staleness, "bytes": sizes.get(one.name)}


async def stream(call: Call) -> Response:
    """Activity since the last event, at most four times a second, and no event while nothing is done."""
    return event_stream(_activity(call), call.service, call.caller)


async def _activity(call: Call) -> AsyncIterator[bytes]:
    service = call.service
    seen = await service.observe(call.warehouse.activity)
    yield event({"epoch": seen.epoch, "nodes": {}}, number=seen.epoch)
    while True:
        await asyncio.sleep(INTERVAL)
        now = await service.observe(call.warehouse.activity)
        nodes = changed_nodes(seen, now)
        if nodes or now.epoch != seen.epoch:
            yield event({"epoch": now.epoch, "nodes": nodes}, number=now.epoch)
        seen = now


def changed_nodes(before: Activity, after: Activity) -> dict[str, Any]:
    """Rows that each relation has taken in and given out between two moments."""
    nodes: dict[str, Any] = {}
    for name, rows in after.tables.items():
        if rows != before.tables.get(name, 0):
            more = rows - before.tables.get(name, 0)
            nodes[name] = {"rows_in": 0, "rows_out": more, "refreshes": 0, "epoch": after.epoch, "ms": 0.0}
    for name, now in after.views.items():
        then = before.views.get(name, NOTHING)
        if now.epochs != then.epochs:
            nodes[name] = {
                "rows_in": now.rows_in - then.rows_in,
                "rows_out": now.rows_out - then.rows_out,
                "refreshes": now.epochs - then.epochs,
                "epoch": now.epoch,
                "ms": round(1e3 * (now.seconds - then.seconds), 3),
            }
    return nodes


async def catalog(call: Call) -> Response:
    """The relations that the caller sees with their columns, functions and keywords."""
    known = await call.service.observe(relations, call.warehouse, call.reader)
    return json_response({"relations": known, **await call.service.words("SYSTEM" if call.caller.limited else "ALL")})


def relations(warehouse: Warehouse, reader: Warehouse | Session) -> list[dict[str, Any]]:
    """The tables and views that a reader sees, with their columns."""
    tables = [warehouse.table(name).definition for name in reader.tables()]
    views = [reader.view(name) for name in reader.views()]
    return [
        *(_relation("table", table.name, table.fields, table.primary_key) for table in tables),
        *(_relation("view", view.name, view.fields) for view in views),
    ]


def _relation(kind: str, name: str, fields: Sequence[Field], key: Sequence[str] = ()) -> dict[str, Any]:
    return {"name": name, "kind": kind, "columns": columns_of(fields), "key": list(key)}


ENDPOINTS = (
    Endpoint("GET", "/v1/status", status, "Tables, views, sources, feeds and builds, as of the last commit."),
    Endpoint(
        "GET",
        "/v1/status/stream",
        stream,
        "Rows and milliseconds of each table and view since the last event, at most four times a second.",
        gives=(EVENT_STREAM,),
    ),
    Endpoint(
        "GET",
        "/v1/catalog",
        catalog,
        "Relations with their columns and types, functions and keywords.",
        needs=Needs.ANY,
    ),
)
