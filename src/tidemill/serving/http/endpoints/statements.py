"""Statements of SQL, run in one request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from tidemill.engine.results import Result
from tidemill.engine.sessions.session import Session
from tidemill.model.errors import BadValue, TidemillError, TransactionState
from tidemill.serving.access.limits import require_length
from tidemill.serving.http.authentication import Needs
from tidemill.serving.http.cancelling import run_while_heard
from tidemill.serving.http.content import (
    ARROW,
    JSON,
    PIECE_ROWS,
    arrow_pieces,
    columns_of,
    json_pieces,
    pieces_response,
)
from tidemill.serving.http.endpoint import Call, Endpoint
from tidemill.serving.render import json_line

__all__ = ["ENDPOINTS"]


async def sql(call: Call) -> Response:
    """The results of all statements of a text, or as Arrow the rows of the last one."""
    kind, given = call.accepted(), await call.json()
    text, parameters, limit = _asked(given)
    require_length(text, call.service.settings.statement_bytes)
    service = call.service
    session = call.principal.session(call.warehouse, "http", timeout=service.settings.statement_timeout)

    def answer() -> Response:
        found = run_text(call, session, text, parameters)
        rows = sum(len(one.result) for one in found)
        return pieces_response(_last_rows(found, limit) if kind == ARROW else _results(found, limit), kind, rows)

    return await run_while_heard(service.statements, session, answer, call.request.receive)


def _asked(given: Mapping[str, Any]) -> tuple[str, Any, int | None]:
    """The text, its parameters and the limit of rows of a request."""
    unknown = given.keys() - {"sql", "parameters", "limit"}
    text, parameters, limit = given.get("sql"), given.get("parameters"), given.get("limit")
    if unknown or not isinstance(text, str):
        raise BadValue(
            "the request is not a statement", where="body", hint='{"sql": ..., "parameters": ..., "limit": 100}'
        )
    if not isinstance(parameters, dict | list | None):
        raise BadValue("parameters are an object or a list", where="parameters")
    if limit is not None and (type(limit) is not int or limit < 0):
        raise BadValue("limit is a number of rows", where="limit")
    return text, parameters, limit


class Ran:
    """A statement that was run: its result, the epoch after it, and the seconds that it took."""

    def __init__(self, result: Result, epoch: int, seconds: float) -> None:
        self.result = result
        self.epoch = epoch
        self.seconds = seconds


def run_text(call: Call, session: Session, text: str, parameters: Any) -> list[Ran]:
    """Run a text of statements in a session of the caller, which ends with it, and so must every transaction."""
    found, warehouse = list[Ran](), call.warehouse
    begun = time.perf_counter()

    def note(result: Result) -> None:
        nonlocal begun
        now = time.perf_counter()
        found.append(Ran(result, warehouse.epoch, now - begun))
        begun = now

    failed: TidemillError | None = None
    try:
        with session:
            session.sql(text, parameters, each=note)
            if session.in_transaction:
                what = "the text has begun a transaction and not ended it"
                raise TransactionState(what, detail="It is rolled back.", hint="Add COMMIT to the same text.")
    except TidemillError as error:
        failed = error
        raise
    finally:
        _audit(call, text, found, failed)
    return found


def _audit(call: Call, text: str, found: list[Ran], error: TidemillError | None) -> None:
    audit = call.service.audit
    if audit is not None:
        seconds, rows = sum(one.seconds for one in found), sum(len(one.result) for one in found)
        audit.note(call.principal, text, door="http", address=call.address, seconds=seconds, rows=rows, error=error)


def _results(found: Sequence[Ran], limit: int | None) -> Iterator[str]:
    yield '{"results": ['
    for number, one in enumerate(found):
        yield from chain((", ",) if number else (), _shown(one, limit))
    yield "]}"


def _shown(ran: Ran, limit: int | None) -> Iterator[str]:
    result = ran.result
    head: dict[str, Any] = {"columns": columns_of(result.fields), "count": len(result), "epoch": ran.epoch}
    head |= {"seconds": round(ran.seconds, 6), "message": result.message, "notes": list(result.notes)}
    rows = result.rows() if limit is None else result.rows()[:limit]
    parts = (rows[begin : begin + PIECE_ROWS] for begin in range(0, len(rows), PIECE_ROWS))
    return json_pieces(head, parts, result.fields)


def _last_rows(found: Sequence[Ran], limit: int | None) -> Iterator[bytes]:
    """The rows of the last statement as a stream of Arrow, whose schema has the message and the types of SQL."""
    last = found[-1] if found else Ran(Result(), 0, 0.0)
    types = [str(field.type) for field in last.result.fields]
    facts = {"message": last.result.message, "epoch": str(last.epoch), "types": json_line(types)}
    facts["notes"] = json_line(list(last.result.notes))
    try:
        table = last.result.arrow() if last.result.fields else pa.table({})
    except (TidemillError, pa.ArrowException) as error:
        raise BadValue("the result has no form in Arrow", hint="Accept: application/json") from error
    return arrow_pieces(table if limit is None else table.slice(0, limit), facts)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sql",
        sql,
        "Run statements of SQL, with values for `:name` or `?`; with `limit` so many rows of each result are given.",
        needs=Needs.ANY,
        takes={JSON: '{"sql": text, "parameters": object or list, "limit": number}'},
        gives=(JSON, ARROW),
    ),
)
