"""Feeds, sources and published tables, with their positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from tidemill.engine.inspect.status import WarehouseStatus
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.http.endpoint import Call, Endpoint, json_response

__all__ = ["ENDPOINTS"]


async def sources(call: Call) -> Response:
    """Feeds, sources and published tables, with their positions."""
    found = await call.service.observe(lambda: list(all_sources(call.warehouse)))
    return json_response({"sources": found})


def all_sources(warehouse: Warehouse) -> Iterator[dict[str, Any]]:
    """Sources, feeds, lake tables and published tables, each with its position as of the last commit."""
    status, positions = warehouse.status(), dict(warehouse.positions)
    troubles = {name: str(trouble) for name, trouble in status.troubles.items()}
    for source in status.sources:
        at = {key.partition("/")[2]: value for key, value in positions.items() if key.startswith(f"{source.name}/")}
        views = _readers(status, [f"{source.name}.{table}" for table in source.tables])
        yield _entry(source.name, source.kind, ", ".join(source.tables), at, source.sync, views, troubles)
    for feed in status.feeds:
        yield _entry(feed.name, "feed", feed.folder, positions.get(feed.name), feed.sync, [feed.table], troubles)
    for table in status.tables:
        if table.kind == "lake table":
            at = {key: value for key, value in positions.items() if table.name in key}
            yield _entry(table.name, "lake table", "", at, "", _readers(status, [table.name]), troubles)
    for view, place in status.published.items():
        yield _entry(view, "published", place, None, "", [view], troubles)


def _entry(
    name: str, kind: str, location: str, position: Any, sync: str, views: list[str], troubles: dict[str, str]
) -> dict[str, Any]:
    found = {"name": name, "kind": kind, "location": location, "position": position or None, "sync": sync}
    return found | {"views": views, "trouble": troubles.get(name, "")}


def _readers(status: WarehouseStatus, names: Any) -> list[str]:
    return [view.name for view in status.views if set(view.reads) & set(names)]


ENDPOINTS = (
    Endpoint("GET", "/v1/sources", sources, "Sources, feeds, lake tables and published tables with their positions."),
)
