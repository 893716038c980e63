"""Rows of tables and views, and of a view its changes, definition and explanation."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tidemill.engine.html_output import Explanation
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.content import ARROW, CSV, JSON, NDJSON, ROW_FORMS, rows_response
from tidemill.serving.http.endpoint import Call, Endpoint, Parameter, json_response
from tidemill.serving.http.errors import HttpError
from tidemill.serving.http.event_stream import EVENT_STREAM
from tidemill.serving.http.streams.reader import ChangeReader, last_seen
from tidemill.serving.http.streams.server_sent import ServerSentChanges
from tidemill.serving.http.view_rows import RowsAsked, read_changes, read_rows

__all__ = ["ENDPOINTS"]

SVG, TEXT = "image/svg+xml", "text/plain"

WHERE = Parameter("where", str, "Only rows with this value, as in `customer:ann`; `customer` alone is NULL.", many=True)
READ = (
    Parameter("epoch", int, "Rows as of this epoch; default: the last one."),
    WHERE,
    Parameter("order", str, "Columns to sort by, as in `total desc,customer`."),
    Parameter("limit", int, "At most so many rows."),
)


async def rows(call: Call) -> Response:
    """The rows of a view, of now or of an epoch."""
    return await _rows(call, of_table=False)


async def table_rows(call: Call) -> Response:
    """The rows of a table, of now or of an epoch."""
    return await _rows(call, of_table=True)


async def _rows(call: Call, *, of_table: bool) -> Response:
    kind, values = call.accepted(), call.values
    if values["limit"] is not None and values["limit"] < 0:
        raise HttpError(400, "limit is a number of rows", where="parameter limit")
    asked = RowsAsked(call.path("name"), values["epoch"], values["where"], values["order"], values["limit"], of_table)

    def answer() -> Response:
        found = read_rows(call.reader, asked)
        return rows_response(kind, found.table, found.fields, found.facts)

    return await call.service.reads.run(answer)


async def changes(call: Call) -> Response:
    """The changes of a view after an epoch, each row with its weight and epoch; or as events, also those to come."""
    kind = call.accepted()
    if kind == EVENT_STREAM:
        seen = last_seen(call["since"], call.request.headers.get("last-event-id"))
        return ServerSentChanges(ChangeReader(call.service, call.caller, call.path("name"), call["where"], seen))

    def answer() -> Response:
        found = read_changes(call.reader, call.path("name"), call["since"] or 0, call["where"])
        return rows_response(kind, found.table, found.fields, found.facts)

    return await call.service.reads.run(answer)


async def definition(call: Call) -> Response:
    """The statement that creates a view."""
    text = await call.service.observe(lambda: call.reader.view(call.path("name")).definition)
    return json_response({"definition": text})


async def explain(call: Call) -> Response:
    """Maintenance of a view, with reasons: as parts, as text or as a picture."""
    kind = call.accepted()

    def explained() -> tuple[Explanation, dict[str, Any], str]:
        found = call.warehouse.view(call.path("name")).explain()
        assert isinstance(found, Explanation)
        return found, found.parts() if kind == JSON else {}, found.picture() if kind == SVG else ""

    text, parts, picture = await call.service.statements.run(explained)
    if kind == JSON:
        return json_response({"text": text, **parts})
    if kind == SVG and not picture:
        raise HttpError(404, "the view has too many stages and maps for a picture", hint=f"Accept: {JSON}")
    return Response(picture if kind == SVG else str(text), media_type=kind)


ENDPOINTS = (
    Endpoint("GET", "/v1/views/{name}", rows, "Rows of a view.", query=READ, gives=ROW_FORMS, needs=Needs.ANY),
    Endpoint("GET", "/v1/tables/{name}", table_rows, "Rows of a table.", query=READ, gives=ROW_FORMS, needs=Needs.ANY),
    Endpoint(
        "GET",
        "/v1/views/{name}/changes",
        changes,
        "Changes of a view after an epoch, each row with its `_weight` and `_epoch`; as events also those to come.",
        query=(Parameter("since", int, "The last epoch that is known; default: 0, of events the last one."), WHERE),
        gives=(JSON, NDJSON, CSV, ARROW, EVENT_STREAM),
        needs=Needs.ANY,
        headers={"Last-Event-ID": "Of events: the last epoch that was received, in the place of `since`."},
    ),
    Endpoint("GET", "/v1/views/{name}/definition", definition, "The statement that creates a view.", needs=Needs.ANY),
    Endpoint(
        "GET",
        "/v1/views/{name}/explain",
        explain,
        "How a view is kept fresh, and why: its stages, maps and triggers, what was chosen from what, and a graph.",
        gives=(JSON, SVG, TEXT),
    ),
)
