"""What is asked about one view when somebody looks closer: where a row comes from, its errors, its certificate."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from tidemill.model import types as t
from tidemill.model.errors import BadValue
from tidemill.model.types import Field
from tidemill.serving.http.content import JSON, ROW_FORMS, columns_of, json_rows, rows_response
from tidemill.serving.http.endpoint import Call, Endpoint, Parameter, json_response
from tidemill.serving.http.view_rows import RowsAsked, read_rows
from tidemill.serving.render import json_line

__all__ = ["ENDPOINTS"]

MOST_STATES = 50
"""Number of states that a view has shown of which a certificate tells."""


async def lineage(call: Call) -> Response:
    """The base rows that a row of a view comes from."""
    given = (await call.json()).get("row")

    def answer() -> str:
        view = call.warehouse.view(call.path("name"))
        found = view.lineage(_row_of(given, view.fields))
        tables = [(name, call.warehouse.table(name).fields, rows) for name, rows in found.items()]
        return ", ".join(f"{json_line(name)}: {_table(fields, rows)}" for name, fields, rows in tables)

    return Response(f'{{"tables": {{{await call.service.statements.run(answer)}}}}}', media_type=JSON)


def _table(fields: Sequence[Field], rows: Sequence[Sequence[Any]]) -> str:
    return f'{{"columns": {json_line(columns_of(fields))}, "rows": {json_rows(rows, fields)}}}'


def _row_of(given: Any, fields: Sequence[Field]) -> list[Any]:
    """A row as JSON has it, as the view takes it: bytes are Base64 in JSON."""
    if not isinstance(given, list) or len(given) != len(fields):
        raise BadValue("the row is not a list of the values of the view", where="row", hint='{"row": [1, "ann"]}')
    try:
        return [
            b64decode(value, validate=True) if isinstance(field.type, t.Binary) and value is not None else value
            for value, field in zip(given, fields, strict=True)
        ]
    except (NotBase64, TypeError, ValueError):
        raise BadValue("bytes are given as Base64", where="row") from None


async def errors(call: Call) -> Response:
    """The rows that a view with on_error = 'quarantine' holds back, with the reasons."""
    kind = call.accepted()

    def answer() -> Response:
        name = call.warehouse.view(call.path("name")).name
        found = read_rows(call.warehouse, RowsAsked(f"{name}_errors", limit=call["limit"], of_table=True))
        return rows_response(kind, found.table, found.fields, {"epoch": found.epoch})

    return await call.service.reads.run(answer)


async def release(call: Call) -> Response:
    """Try the rows again that a view holds back."""
    skip = (await call.json()).get("skip", False)
    if not isinstance(skip, bool):
        raise BadValue("skip is true or false", where="skip")
    done = await call.service.statements.run(lambda: call.warehouse.release(call.path("name"), skip=skip))
    return json_response({"epoch": done.epoch, "taken": done.taken, "left": done.left})


async def refresh(call: Call) -> Response:
    """Bring a view up to date."""
    epoch = await call.service.statements.run(lambda: call.warehouse.view(call.path("name")).refresh())
    return json_response({"epoch": epoch})


async def certificate(call: Call) -> Response:
    """How right a view over sources is, and the states of them that it shows and has shown."""

    def answer() -> dict[str, Any]:
        view = call.warehouse.view(call.path("name"))
        now, shown = view.certificate(), view.certified()
        certified = [{"epoch": epoch, "positions": dict(found)} for epoch, found in sorted(shown.items(), reverse=True)]
        return {
            "level": now.level.name.lower().replace("_", " "),
            "positions": {source: str(position) for source, position in now.positions.items()},
            "certified": certified[:MOST_STATES],
        }

    return json_response(await call.service.statements.run(answer))


async def table_definition(call: Call) -> Response:
    """The statement that creates a table."""

    def answer() -> str:
        name = call.warehouse.table(call.path("name")).name
        return str(call.warehouse.sql(f"SHOW CREATE TABLE `{name}`").rows()[0][0])

    return json_response({"definition": await call.service.statements.run(answer)})


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/views/{name}/lineage",
        lineage,
        "The base rows that a row of a view comes from, by table.",
        takes={JSON: '{"row": [values as rows have them]}'},
    ),
    Endpoint(
        "GET",
        "/v1/views/{name}/errors",
        errors,
        "The rows that a view holds back because it cannot compute them.",
        query=(Parameter("limit", int, "At most so many rows."),),
        gives=ROW_FORMS,
    ),
    Endpoint(
        "POST",
        "/v1/views/{name}/errors/release",
        release,
        "Try held-back rows again; with `skip` go on without those at fault.",
        takes={JSON: '{"skip": true or false}'},
    ),
    Endpoint("POST", "/v1/views/{name}/refresh", refresh, "Bring a deferred view up to date."),
    Endpoint("GET", "/v1/views/{name}/certificate", certificate, "How right a view over sources is, and of what."),
    Endpoint("GET", "/v1/tables/{name}/definition", table_definition, "The statement that creates a table."),
)
