"""The door for rows: ``POST /v1/tables/{name}`` is answered before all routes, with as few steps as there can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.intake_counts import IntakeEpoch
from tidemill.engine.row_changes import KeyedChanges, key_table
from tidemill.engine.sessions.session import Session
from tidemill.engine.streams.given_rows import GivenRow
from tidemill.model.errors import BadValue, TidemillError
from tidemill.serving.access.principal import Principal
from tidemill.serving.http.authentication import Caller, Needs, address_of, level_of
from tidemill.serving.http.content import ARROW
from tidemill.serving.http.errors import HttpError, error_response, fault_in
from tidemill.serving.http.ingest.bodies import DEBEZIUM, changes_in, rows_in
from tidemill.serving.http.ingest.decoded_bytes import DecodedBytes
from tidemill.serving.http.ingest.given_rows import given_changes_in, given_rows_in
from tidemill.serving.http.service.service import Service

__all__ = ["PREFIX", "TableDoor"]

PREFIX = "/v1/tables/"

SEVERAL = "/v1/changes"
"""The path for changes of several tables in one epoch."""

SMALL_BODY = 16 << 10
"""Bytes of a body up to which it is read by the event loop: a thread would take longer."""

LONGEST_KEY = 256

Headers = dict[bytes, bytes]
Changes = ChangeSet | list[GivenRow]


class TableDoor:
    """Takes posts of rows, and leaves all other requests to ``app``."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or scope["method"] != "POST" or not (path.startswith(PREFIX) or path == SEVERAL):
            await self._app(scope, receive, send)
            return
        told = self._service.noting(scope["caller"], f"POST {path}", address_of(scope))
        try:
            body = await _body(receive)
            answer = await self._taken(scope, body, told)
        except TidemillError as refused:
            await error_response(refused)(scope, receive, send)
        except Exception as error:
            await error_response(fault_in(f"POST {PREFIX}", error))(scope, receive, send)
        else:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": answer})

    async def _taken(self, scope: Scope, body: bytes, told: Callable[..., None]) -> bytes:
        headers: Headers = dict(scope["headers"])
        caller: Caller = scope["caller"]
        sender = _sender(self._service, caller.principal)
        path, query = scope["path"], scope["query_string"]
        mode, on_error = _options(query) if query else ("changes", "refuse")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        key, content = _key(headers, body, scope["raw_path"] + b"?" + query, caller.principal)
        limit = DecodedBytes(self._service.settings.decoded_bytes)
        take = self._several if path == SEVERAL else self._one
        read = partial(take, sender, path, body, kind, mode, on_error, limit)
        try:
            found, mode = read() if len(body) <= SMALL_BODY and kind != ARROW else await self._service.reads.run(read)
        except TidemillError as error:
            await self._service.observe(partial(told, error=error))
            raise
        rows = sum([len(change) for change in found.values()])
        changes = KeyedChanges(found, key, content, mode, session=sender, on_error=on_error)
        epoch = await self._service.posts.apply(changes, rows, max(len(body), limit.taken), partial(_end, told, rows))
        if isinstance(epoch, IntakeEpoch):
            return b'{"epoch": %d, "rows": %d, "rejected": %d}' % (epoch, rows, epoch.counts.rejected)
        return b'{"epoch": %d, "rows": %d}' % (epoch, rows)

    def _one(
        self, sender: Session | None, path: str, body: bytes, kind: str, mode: str, on_error: str, limit: DecodedBytes
    ) -> tuple[Mapping[str, Changes], str]:
        """The changes of one table, and their mode: records of Debezium go by key where there is one."""
        name = path.removeprefix(PREFIX)
        if sender is not None:
            name = sender.table(name).name
        table = self._service.warehouse.table(name).definition
        if on_error != "refuse":
            return {table.name: given_rows_in(body, kind, table, limit)}, mode
        if kind == DEBEZIUM and table.primary_key:
            mode = "upsert"
        found = rows_in(body, kind, key_table(table) if mode == "delete" else table, limit)
        return {table.name: found}, mode

    def _several(
        self, sender: Session | None, path: str, body: bytes, kind: str, mode: str, on_error: str, limit: DecodedBytes
    ) -> tuple[Mapping[str, Changes], str]:
        """The changes of several tables, and their mode."""
        warehouse = self._service.warehouse
        tables = {name: warehouse.table(name).definition for name in (sender or warehouse).tables()}
        if on_error != "refuse":
            return given_changes_in(body, kind, tables, limit), mode
        if mode == "delete":
            tables = {name: key_table(table) for name, table in tables.items()}
        return changes_in(body, kind, tables, limit), mode


def _end(told: Callable[..., None], rows: int, error: TidemillError | None) -> None:
    told(rows=rows, error=error)


def _sender(service: Service, principal: Principal) -> Session | None:
    """The session with whose rights rows are sent; None for who may change all rows."""
    return None if level_of(principal) >= Needs.WRITE else principal.session(service.warehouse, "http rows")


async def _body(receive: Receive) -> bytes:
    message: Any = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return bytes(message["body"])
    parts = []
    while message["type"] == "http.request":
        parts.append(message["body"])
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise HttpError(400, "the connection was closed before the whole request came")


def _options(query: bytes) -> tuple[str, str]:
    """The mode of the rows, and what becomes of bad ones."""
    given = dict(parse_qsl(unquote(query.decode("latin-1")), keep_blank_values=True))
    unknown = given.keys() - {"mode", "on_error"}
    if unknown:
        hint = "Parameters: mode, on_error."
        raise BadValue(f'there is no parameter "{min(unknown)[:100]}"', where=PREFIX, hint=hint)
    return given.get("mode", "changes"), given.get("on_error", "refuse")


def _key(headers: Headers, body: bytes, path: bytes, principal: Principal) -> tuple[str, str]:
    """The key of a request, which is its user's own, and a digest of what was sent with it."""
    key = headers.get(b"idempotency-key")
    if key is None:
        return "", ""
    if not 0 < len(key) <= LONGEST_KEY:
        raise BadValue("a key has 1 to 256 characters", where="Idempotency-Key")
    own = f"{principal.name}: " if principal.name else ""
    return own + key.decode("latin-1"), blake2b(path + b"\n" + body, digest_size=8).hexdigest()
