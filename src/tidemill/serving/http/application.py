"""The application: the declared endpoints behind the guard, over one service."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tidemill.model.errors import TidemillError
from tidemill.serving.http.endpoint import route_of
from tidemill.serving.http.endpoints import ENDPOINTS
from tidemill.serving.http.errors import HttpError, error_response
from tidemill.serving.http.guard import Guard
from tidemill.serving.http.ingest.door import TableDoor
from tidemill.serving.http.service.service import Service
from tidemill.serving.http.streams.web_socket import SOCKETS

__all__ = ["application"]


def application(service: Service) -> ASGIApp:
    """The application that serves a warehouse."""
    app = Starlette(
        routes=[*(route_of(one, one.answer) for one in ENDPOINTS if one.answer is not None), *SOCKETS],
        exception_handlers={HTTPException: _refused, TidemillError: _refused},
    )
    app.state.service = service
    return Guard(TableDoor(app, service), service)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, TidemillError):
        return error_response(error)
    assert isinstance(error, HTTPException)
    what = {404: "there is nothing at this path", 405: "the path does not take this method"}
    hint = "GET /v1/openapi.json lists all paths."
    told = HttpError(
        error.status_code, what.get(error.status_code, error.detail), where=request.url.path[:200], hint=hint
    )
    response = error_response(told)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
