"""Declarations of endpoints, and calls of them: parameters are read as declared, and nothing else is taken."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tidemill.engine.sessions.session import Session
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import BadValue, TidemillError
from tidemill.serving.access.principal import Principal
from tidemill.serving.http.authentication import Caller, Needs, address_of, require
from tidemill.serving.http.errors import HttpError, error_response, fault_in
from tidemill.serving.http.service.service import Service
from tidemill.serving.render import json_line

__all__ = ["JSON", "Call", "Endpoint", "Parameter", "json_response", "route_of"]

JSON = "application/json"

T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query: its name, its kind (int, float, bool or str), and what it means; if it may come again."""

    name: str
    kind: type
    about: str
    many: bool = False


@dataclass(frozen=True)
class Endpoint:
    """An endpoint: a method and path, what it is about, what it takes and gives, and the function that answers.

    ``takes`` has the types of bodies with what they hold. Without ``answer`` it is answered before all routes.
    """

    method: str
    path: str
    answer: Callable[[Call], Awaitable[Response]] | None
    about: str
    query: tuple[Parameter, ...] = ()
    takes: Mapping[str, str] | None = None
    gives: tuple[str, ...] = (JSON,)
    headers: Mapping[str, str] | None = None
    needs: Needs | None = None

    @property
    def level(self) -> Needs:
        """Right that a user needs: to read, or to own what is changed, unless it is declared."""
        return self.needs if self.needs is not None else Needs.READ if self.method == "GET" else Needs.OWN


class Call:
    """A call of an endpoint, with the values of its parameters by name."""

    def __init__(self, request: Request, endpoint: Endpoint) -> None:
        self.request = request
        self.service: Service = request.app.state.service
        self.caller: Caller = request.scope["caller"]
        self.values = _values(request, endpoint.query)
        self._session: Session | None = None
        self._gives = endpoint.gives

    @property
    def principal(self) -> Principal:
        """The caller."""
        return self.caller.principal

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse, as this caller may use it."""
        return self.service.warehouse

    @property
    def reader(self) -> Warehouse | Session:
        """The caller's view of the warehouse: all of it for an owner, a session with their rights for other users."""
        if self.principal.is_owner:
            return self.service.warehouse
        if self._session is None:
            self._session = self.principal.session(self.service.warehouse, "http")
        return self._session

    async def run_noted(self, work: Callable[[], T]) -> T:
        """The result of work that changes something, in a thread; it is noted."""
        told = self.service.noting(self.caller, f"{self.request.method} {self.request.url.path}", self.address)

        def run() -> T:
            try:
                result = work()
            except TidemillError as error:
                told(error=error)
                raise
            told()
            return result

        return await self.service.statements.run(run)

    @property
    def address(self) -> str:
        """Where the call comes from."""
        return address_of(self.request.scope)

    def close(self) -> None:
        """End the session of the call, if it has one."""
        if self._session is not None:
            self._session.close()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def accepted(self) -> str:
        """The type of the response: the first that the endpoint gives among those that the client accepts most."""
        wanted = self.request.headers.get("accept", "*/*")
        for kind in _by_preference(wanted):
            for given in self._gives:
                if kind in ("*/*", given) or kind == f"{given.partition('/')[0]}/*":
                    return given
        raise HttpError(406, f"there is no such form: {wanted[:100]}", hint=f"Accept: {', '.join(self._gives)}")

    async def body(self) -> bytes:
        """The whole body; how long it may be is seen to before."""
        try:
            return await self.request.body()
        except ClientDisconnect:
            raise HttpError(400, "the connection was closed before the whole request came") from None

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        from tidemill.sources.ingest.text_records import parse_json

        try:
            found = parse_json((await self.body()).decode("utf-8"))
        except UnicodeDecodeError:
            raise BadValue("the body is not UTF-8", where="the request") from None
        except BadValue as error:
            raise BadValue("the body is not JSON", where="the request", detail=error.detail) from None
        if not isinstance(found, dict):
            raise BadValue("the body is not a JSON object", where="the request")
        return found


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(json_line(value), status, media_type=JSON)


def route_of(endpoint: Endpoint, answer: Callable[[Call], Awaitable[Response]]) -> Route:
    """The route of an endpoint; every error of ours becomes its response."""

    async def answered(request: Request) -> Response:
        call: Call | None = None
        try:
            require(request.scope["caller"].principal, endpoint.level)
            call = Call(request, endpoint)
            return await answer(call)
        except TidemillError as error:
            return error_response(error)
        except Exception as error:
            return error_response(fault_in(f"{request.method} {endpoint.path}", error))
        finally:
            if call is not None:
                call.close()

    return Route(endpoint.path, answered, methods=[endpoint.method], name=f"{endpoint.method} {endpoint.path}")


def _values(request: Request, query: tuple[Parameter, ...]) -> dict[str, Any]:
    given = request.query_params
    known = {one.name for one in query}
    for name in given:
        if name not in known:
            hint = f"Parameters: {', '.join(sorted(known)) or 'none'}."
            raise BadValue(f'there is no parameter "{name[:100]}"', where=request.url.path[:200], hint=hint)
    found: dict[str, Any] = {}
    for one in query:
        values = [_read(one, text) for text in given.getlist(one.name)]
        if len(values) > 1 and not one.many:
            raise BadValue("the parameter is given more than once", where=f"parameter {one.name}")
        found[one.name] = values if one.many else values[-1] if values else None
    return found


_BOOLEANS = {"true": True, "1": True, "": True, "false": False, "0": False}


def _read(parameter: Parameter, text: str) -> Any:
    try:
        found = _BOOLEANS[text.lower()] if parameter.kind is bool else parameter.kind(text)
        if isinstance(found, float) and math.isnan(found):
            raise ValueError
        return found
    except (ValueError, KeyError):
        kind = {int: "a whole number", float: "a number", bool: "true or false"}[parameter.kind]
        raise BadValue(f"{text[:60]!r} is not {kind}", where=f"parameter {parameter.name}") from None


def _by_preference(accept: str) -> list[str]:
    """The types of an Accept header, those that are wanted most first.

    >>> _by_preference("text/csv;q=0.5, application/json, */*;q=0.1")
    ['application/json', 'text/csv', '*/*']
    """
    found = []
    for one in accept.split(","):
        kind, _, rest = one.partition(";")
        quality = rest.strip().removeprefix("q=")
        try:
            share = float(quality) if quality and rest.strip().startswith("q=") else 1.0
        except ValueError:
            share = 1.0
        if share > 0:
            found.append((share, kind.strip().lower()))
    return [kind for _, kind in sorted(found, key=lambda pair: -pair[0])]
