"""Inspection of a view: base rows of a row, its certificate, its plans, the rows that it cannot compute."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from tidemill.model.coerce import row_coercer
from tidemill.model.errors import BadValue
from tidemill.model.types import Binary, Field
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.content import JSON, columns_of
from tidemill.serving.http.endpoint import Call, Endpoint, Parameter, json_response

__all__ = ["ENDPOINTS"]

MOST_STATES = 50
"""Number of states that a view has shown of which its certificate tells."""


async def lineage(call: Call) -> Response:
    """The base rows that a row of a view comes from, by table."""
    row = (await call.json()).get("row")
    if not isinstance(row, dict | list):
        raise BadValue("the request has no row", where="body", hint='{"row": [...]}, or {"row": {"column": value}}')

    def found() -> dict[str, Any]:
        handle = call.warehouse.view(call.path("name"))
        rows = handle.lineage(row_coercer(handle.fields, handle.name)(_with_bytes(row, handle.fields)))
        columns = {table: columns_of(call.warehouse.table(table).fields) for table in rows}
        return {"tables": {t: {"columns": columns[t], "rows": [list(one) for one in rows[t]]} for t in rows}}

    return json_response(await call.service.statements.run(found))


def _with_bytes(row: Any, fields: Sequence[Field]) -> Any:
    """A row as JSON has it with its bytes, which are Base64 there."""
    values = row if isinstance(row, dict) else dict(enumerate(row))
    named = [field.name if isinstance(row, dict) else at for at, field in enumerate(fields)]
    try:
        for key, field in zip(named, fields, strict=True):
            if isinstance(field.type, Binary) and isinstance(values.get(key), str):
                values[key] = b64decode(values[key], validate=True)
    except ValueError:
        raise BadValue("bytes are given as Base64", where="row") from None
    return row if isinstance(row, dict) else list(values.values())


async def certificate(call: Call) -> Response:
    """Consistency of the rows of a view over sources, and the state of each source that they show."""

    def found() -> dict[str, Any]:
        handle = call.warehouse.view(call.path("name"))
        shown, before = handle.certificate(), handle.certified()
        certified = [{"epoch": epoch, "positions": dict(at)} for epoch, at in sorted(before.items(), reverse=True)]
        return {
            "level": shown.level.name.lower(),
            "positions": dict(shown.positions),
            "certified": certified[:MOST_STATES],
        }

    return json_response(await call.service.statements.run(found))


async def plans(call: Call) -> Response:
    """The decisions about the plan of a view."""

    def found() -> list[dict[str, Any]]:
        (decisions,) = call.warehouse.plans(call.path("name")).values()
        return [asdict(one) for one in decisions]

    return json_response({"plans": await call.service.statements.run(found)})


async def errors(call: Call) -> Response:
    """The rows that a view with on_error = 'quarantine' does not show, with the reasons."""

    def found() -> dict[str, Any]:
        name = call.warehouse.view(call.path("name")).name
        result = call.warehouse.sql(f"SELECT * FROM `{name}_errors`")
        return {"columns": columns_of(result.fields), "rows": [list(row) for row in result]}

    return json_response(await call.service.statements.run(found))


async def release(call: Call) -> Response:
    """Try the rows again that a view does not show, or go on without those at fault."""

    skip = bool(call["skip"])
    result = await call.run_noted(lambda: call.warehouse.release(call.path("name"), skip=skip))
    return json_response(asdict(result))


async def refresh(call: Call) -> Response:
    """Bring a deferred view up to date."""
    epoch = await call.run_noted(lambda: call.warehouse.view(call.path("name")).refresh())
    return json_response({"epoch": epoch})


async def table_definition(call: Call) -> Response:
    """The statement that creates a table."""

    def found() -> str:
        name = call.reader.table(call.path("name")).name
        return str(call.reader.sql(f"SHOW CREATE TABLE `{name}`").rows()[0][0])

    return json_response({"definition": await call.service.statements.run(found)})


async def forecast(call: Call) -> Response:
    """Expected cost of the next minute of maintenance."""
    found = await call.service.observe(call.warehouse.forecast)
    return json_response({"forecast": [asdict(one) for one in found]})


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/views/{name}/lineage",
        lineage,
        "The base rows that a row of a view comes from, by table, also through other views.",
        takes={JSON: '{"row": array or object}'},
        needs=Needs.READ,
    ),
    Endpoint("GET", "/v1/views/{name}/certificate", certificate, "Of a view over sources: how right its rows are."),
    Endpoint("GET", "/v1/views/{name}/plans", plans, "Decisions about the plan of a view, the oldest first."),
    Endpoint("GET", "/v1/views/{name}/errors", errors, "Rows that a view with on_error = 'quarantine' cannot compute."),
    Endpoint(
        "POST",
        "/v1/views/{name}/errors/release",
        release,
        "Try these rows again; with `skip` go on without those at fault.",
        query=(Parameter("skip", bool, "Go on without the rows at fault."),),
    ),
    Endpoint("POST", "/v1/views/{name}/refresh", refresh, "Bring a deferred view up to date."),
    Endpoint(
        "GET",
        "/v1/tables/{name}/definition",
        table_definition,
        "The statement that creates a table.",
        needs=Needs.ANY,
    ),
    Endpoint("GET", "/v1/forecast", forecast, "What the next minute of maintenance is expected to cost, by view."),
)
