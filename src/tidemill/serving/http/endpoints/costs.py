"""The refresh log, costs of views, and statistics."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from starlette.responses import Response

from tidemill.engine.telemetry.view_costs import Since
from tidemill.model.errors import BadValue
from tidemill.serving.http.conditions import epoch_number
from tidemill.serving.http.endpoint import Call, Endpoint, Parameter, json_response

__all__ = ["ENDPOINTS"]

MOST_ENTRIES = 10_000
"""Entries of the refresh log in one answer."""

SINCE = Parameter("since", str, "After an epoch, or from a time on, in UTC unless it has a zone.")
LIMIT = Parameter("limit", int, "At most so many entries.")


def _since(text: str | None) -> Since | None:
    if text is None or text.isdigit():
        return None if text is None else epoch_number(text, "parameter since")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(f"{text[:60]!r} is neither an epoch nor a time", where="parameter since") from None


def _limit(given: int | None, most: int) -> int:
    if given is not None and given < 0:
        raise BadValue("limit is a number of entries", where="parameter limit")
    return most if given is None else min(given, most)


async def refreshes(call: Call) -> Response:
    """Entries of the refresh log, the newest first."""
    return await _refreshes(call, call["view"])


async def refreshes_of_view(call: Call) -> Response:
    """Entries of the refresh log of a view."""
    return await _refreshes(call, call.path("name"))


async def _refreshes(call: Call, view: str | None) -> Response:
    since, limit = _since(call["since"]), _limit(call["limit"], MOST_ENTRIES)
    found = await call.service.observe(lambda: call.warehouse.refreshes(view, since=since, limit=limit))
    return json_response({"refreshes": [asdict(one) for one in found]})


async def costs(call: Call) -> Response:
    """The costs of all views, the greatest first."""
    since, by = _since(call["since"]), call["by"] or "time"
    found = await call.service.statements.run(lambda: call.warehouse.view_costs(since=since, by=by))
    return json_response({"costs": [asdict(one) for one in found]})


async def costs_of_view(call: Call) -> Response:
    """The costs of one view, and the sizes of its maps."""
    since = _since(call["since"])

    def found() -> dict[str, Any]:
        name = call.warehouse.view(call.path("name")).name
        (costs,) = (one for one in call.warehouse.view_costs(since=since) if one.view == name)
        return asdict(costs) | {"maps": [asdict(size) for size in call.warehouse.state_sizes(name)]}

    return json_response(await call.service.statements.run(found))


async def statistics(call: Call) -> Response:
    """The statistics of all tables and views."""
    found = await call.service.statements.run(call.warehouse.statistics)
    plain = {name: asdict(one) | {"columns": {}, "maps": {}} for name, one in found.items()}
    for name, one in found.items():
        for column, known in one.columns.items():
            values = known.statistics
            shown = {"rows": values.rows, "distinct": values.distinct, "nulls": values.nulls, "epoch": known.epoch}
            plain[name]["columns"][column] = shown
        plain[name].pop("maps")
    return json_response({"statistics": plain})


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/refreshes",
        refreshes,
        "Entries of the refresh log: rows, times, the way taken and why; the newest first.",
        query=(Parameter("view", str, "Only of this view."), SINCE, LIMIT),
    ),
    Endpoint("GET", "/v1/views/{name}/refreshes", refreshes_of_view, "The same of one view.", query=(SINCE, LIMIT)),
    Endpoint(
        "GET",
        "/v1/costs",
        costs,
        "Costs of all views, the greatest first.",
        query=(SINCE, Parameter("by", str, "What they are sorted by: time, rows, bytes or state.")),
    ),
    Endpoint(
        "GET", "/v1/views/{name}/costs", costs_of_view, "Costs of a view, and the sizes of its maps.", query=(SINCE,)
    ),
    Endpoint("GET", "/v1/statistics", statistics, "Statistics of tables and views."),
)
