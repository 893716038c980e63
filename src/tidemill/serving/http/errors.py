"""Errors as responses: the four fields of every Tidemill error as JSON, with the status that HTTP has for its kind."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from starlette.responses import Response

from tidemill.engine.fault_reports import fault_report
from tidemill.model import errors as e
from tidemill.model.errors import TextLocation, TidemillError
from tidemill.serving.render import json_line

__all__ = ["HttpError", "TooOften", "error_body", "error_response", "fault_in", "status_of_error"]

LOGGER = logging.getLogger("tidemill.server")

_STATUS: tuple[tuple[type[TidemillError], int], ...] = (
    (e.UnknownName, 404),
    (e.NameTaken, 409),
    (e.Conflict, 409),
    (e.SqlError, 400),
    (e.InvalidArgument, 400),
    (e.OutOfBudget, 507),
    (e.DataError, 422),
    (e.EpochGone, 410),
    (e.SourceError, 502),
    (e.Busy, 429),
    (e.NotAllowed, 403),
    (e.Cancelled, 408),
    (e.InternalError, 500),
)
"""The first kind that fits decides; all others mean that the warehouse cannot be used now."""

UNAVAILABLE = 503


class HttpError(TidemillError):
    """A request that HTTP itself has a status for, such as one for a path that is not there."""

    def __init__(self, status: int, what: str, **fields: Any) -> None:
        super().__init__(what, **fields)
        self.status = status


class TooOften(e.Busy):
    """Somebody asks too often, and may ask again after ``wait`` seconds."""

    def __init__(self, what: str, *, wait: int) -> None:
        super().__init__(what, hint=f"Ask again after {wait} s.")
        self.wait = wait


def status_of_error(error: TidemillError) -> int:
    """The status of HTTP for an error.

    >>> status_of_error(e.UnknownName("there is no table")), status_of_error(e.LockHeld("another writer"))
    (404, 503)
    """
    if isinstance(error, HttpError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), UNAVAILABLE)


def error_body(error: TidemillError) -> dict[str, Any]:
    """An error as JSON: its kind and four fields, and the place in the text of a statement.

    The report of an ``InternalError`` is for whoever runs the server: it goes to the log, under a number that is told.
    """
    detail = error.detail
    if isinstance(error, e.InternalError):
        number = secrets.token_hex(4)
        LOGGER.error("fault %s: %s\n%s", number, error.what, error.report or error.detail or "")
        detail = f"The report is in the log of the server, under {number}."
    fields: dict[str, Any] = {
        "kind": kind_of(error),
        "what": error.what,
        "where": None,
        "detail": detail,
        "hint": error.hint,
    }
    if error.where is not None:
        fields["where"] = str(error.where)
    if isinstance(error.where, TextLocation):
        fields["at"] = {"line": error.where.line, "column": error.where.column, "length": error.where.length}
    if isinstance(error, e.FellBehind):
        fields |= {"seen": error.seen, "resume": error.resume}
    return {"error": fields}


def kind_of(error: TidemillError) -> str:
    """The name of the class of an error, as users know it."""
    if isinstance(error, TooOften):
        return "Busy"
    return "RequestError" if isinstance(error, HttpError) else type(error).__name__


def fault_in(call: str, error: Exception) -> e.InternalError:
    """The error for a fault of ours in a call; its report has the lines of code that led to it."""
    fault = e.InternalError("the request failed because of a fault in Tidemill")
    fault.reported(fault_report(error, call, {}, None))
    return fault


def error_response(error: TidemillError) -> Response:
    """The response for an error."""
    status = status_of_error(error)
    headers = {}
    if status in (429, UNAVAILABLE):
        headers["retry-after"] = str(error.wait if isinstance(error, TooOften) else 1)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 408 and isinstance(error, HttpError):  # what is left of the body is not waited for
        headers["connection"] = "close"
    return Response(json_line(error_body(error)), status, headers, "application/json")
