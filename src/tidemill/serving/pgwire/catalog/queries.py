"""Statements that ask for the catalog, and their plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.serving.pgwire.catalog.functions import FUNCTIONS
from tidemill.serving.pgwire.catalog.lending import CatalogDatabases
from tidemill.serving.pgwire.catalog.shape import read_shape
from tidemill.serving.pgwire.catalog.translate import CatalogQuery, read_catalog_query
from tidemill.serving.pgwire.errors import Cancelled, PgError
from tidemill.serving.pgwire.messages import ColumnDescription
from tidemill.serving.pgwire.outcome import Description, Outcome, ResultColumn
from tidemill.serving.pgwire.scan import StatementText
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.types import oids
from tidemill.serving.pgwire.types.binary import array_bytes, binary_encoder
from tidemill.serving.pgwire.types.text import Encoder, array_text, text_encoder

__all__ = ["CatalogPlan", "catalog_plan"]

T = TypeVar("T")
Answer = tuple[tuple[ResultColumn, ...], list[tuple[Any, ...]]]

QUERIES = {"SELECT", "WITH", "VALUES", "TABLE"}
TOLD_BY = frozenset(FUNCTIONS) | {"information_schema", "set_config", "format_type", "current_catalog", "session_user"}
"""Words, beside those that begin with ``pg_``, without which a query does not ask for the catalog."""

VERSION = "PostgreSQL 15.0 (Tidemill)"


def catalog_plan(session: PgSession, statement: StatementText) -> CatalogPlan | None:
    """The plan of a query of the catalog; None for any other statement."""
    marks = statement.marks
    first = next((mark.text.upper() for mark in marks if mark.text != "("), "")
    if first not in QUERIES or not any(_tells(mark.kind, mark.text) for mark in marks):
        return None
    query = read_catalog_query(_readable(statement))
    if query is None:
        return None
    if query.mixed is not None:
        raise PgError(
            "0A000",
            f'"{query.mixed}" cannot be read together with the catalog',
            hint="Ask for one after the other.",
        )
    return CatalogPlan(session, query, statement.parameters)


ARRAYS = {"oid": "bigint", "xid": "bigint", "name": "text", "regtype": "text", "regclass": "text", '"char"': "text"}
"""Types of elements that the parser does not know, and what stands for them."""


def _readable(statement: StatementText) -> str:
    """The text as the parser knows it: types of arrays (``$1::oid[]``), and ``select`` as a label of a column."""
    parts, at, marks = [], 0, statement.marks
    for before, (one, following) in zip(("", *(mark.text for mark in marks)), pairwise(marks), strict=False):
        stand_in = ARRAYS.get(one.text.lower()) if following.text == "[" else None
        if one.text.lower() == "select" and before.lower() == "as" and following.text.lower() in (",", ")", "from"):
            stand_in = '"select"'
        if stand_in is not None:
            parts += [statement.text[at : one.start], stand_in]
            at = one.end
    return "".join(parts) + statement.text[at:]


def _tells(kind: str, text: str) -> bool:
    word = text.strip('"').lower()
    return kind in ("word", "name", "text") and (word.startswith("pg_") or word in TOLD_BY)


class CatalogPlan:
    """A query of the catalog."""

    def __init__(self, session: PgSession, query: CatalogQuery, parameters: int) -> None:
        self._session = session
        self._query = query
        self._count = parameters
        self._columns: tuple[ResultColumn, ...] | None = None

    async def describe(self, declared: Sequence[int]) -> Description:
        """Its parameters, and the columns of its answer without values."""
        places = range(1, self._count + 1)
        given = [declared[place - 1] if place <= len(declared) else 0 for place in places]
        types = tuple(
            of or self._query.parameters.get(place, oids.TEXT) for place, of in zip(places, given, strict=True)
        )
        if self._columns is None:
            self._columns, _ = await self._ask([None] * self._count)
        return Description(types, self._columns)

    async def run(self, values: Sequence[Any]) -> Outcome:
        """Its answer."""
        self._session.require_sound()
        for name, value, local in self._query.settings:
            self._session.settings.set(name, value, local=local)
        columns, rows = await self._ask(values)
        return Outcome("SELECT {rows}", self._columns or columns, rows)

    async def _ask(self, values: Sequence[Any]) -> Answer:
        """The answer, unless it is cancelled or takes too long."""
        session = self._session
        most, given = session.shared.limits.catalog_seconds, session.timeout
        answer = asyncio.ensure_future(self._answer(values))
        over = asyncio.ensure_future(session.cancelled.wait())
        try:
            await asyncio.wait({answer, over}, timeout=min(given or most, most), return_when="FIRST_COMPLETED")
        finally:
            over.cancel()
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})
        if not answer.cancelled():
            return answer.result()
        if session.cancelled.is_set():
            raise Cancelled
        if given is not None and given <= most:
            raise Cancelled(f"the statement took longer than {given:g} seconds")
        raise Cancelled(f"a query of the catalog takes at most {most:g} seconds")

    async def _answer(self, values: Sequence[Any]) -> Answer:
        session = self._session
        facts = {"database": session.database, "user": session.user, "process": session.process, "version": VERSION}
        shape = await _stoppable(session.run(read_shape, session.session), session.cancel)
        if session.shared.catalog is None:
            session.shared.catalog = CatalogDatabases()
        async with session.shared.catalog.lent(session.user) as database:
            settings = session.settings.snapshot()
            query = session.run(database.query, self._query.text, self._values(values), shape, facts, settings)
            found, rows = await _stoppable(query, database.interrupt)
        told = self._query.columns if len(self._query.columns) == len(found) else ((None, None),) * len(found)
        columns = tuple(_column(label or name, of, kind) for (name, of), (label, kind) in zip(found, told, strict=True))
        return columns, rows

    def _values(self, values: Sequence[Any]) -> dict[str, Any]:
        used = dict.fromkeys(self._query.order)
        return {str(place): values[place - 1] for place in used}


async def _stoppable(work: Coroutine[Any, Any, T], stop: Callable[[], object]) -> T:
    """The result of work in a thread. If it is cancelled, ``stop`` ends it, and it has ended when this does."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            stop()  # in vain where it has yet to begin
            await asyncio.wait({running}, timeout=0.05)
        if not running.cancelled():
            running.exception()  # of a query that was ended
        raise


_KINDS: dict[str, int] = {
    "BOOLEAN": oids.BOOL, "TINYINT": oids.INT2, "SMALLINT": oids.INT2, "INTEGER": oids.INT4, "BIGINT": oids.INT8,
    "FLOAT": oids.FLOAT4, "DOUBLE": oids.FLOAT8, "VARCHAR": oids.TEXT, "TIMESTAMP": oids.TIMESTAMP, "DATE": oids.DATE,
    "TIMESTAMP WITH TIME ZONE": oids.TIMESTAMPTZ, "HUGEINT": oids.INT8, "UBIGINT": oids.INT8, "INTERVAL": oids.INTERVAL,
}  # fmt: skip
_OURS: dict[int, Type] = {
    oids.BOOL: t.BOOLEAN, oids.INT2: t.SMALLINT, oids.INT4: t.INT, oids.INT8: t.BIGINT, oids.FLOAT4: t.FLOAT,
    oids.FLOAT8: t.DOUBLE, oids.TIMESTAMP: t.TIMESTAMP_NTZ, oids.TIMESTAMPTZ: t.TIMESTAMP, oids.DATE: t.DATE,
}  # fmt: skip
_OIDS = {oids.OID, 2205, 2206, 4089}


def _column(name: str, of: str, told: int | None) -> ResultColumn:
    """A column on the wire: of the type that the query tells, or else of DuckDB's."""
    element = of.removesuffix("[]")
    oid = _KINDS.get(element, oids.TEXT)
    if of.endswith("[]"):
        oid = oids.ARRAY_OF[oids.OID if oid == oids.INT8 else oid]
    if told is not None and (told in oids.ELEMENT_OF or told in (22, 30)) == of.endswith("[]"):
        oid = told
    known = oids.BY_OID.get(oid)
    size = -1 if known is None else known.size
    return ResultColumn(ColumnDescription(name, oid, size, -1), _text(oid), _binary(oid))


def _text(oid: int) -> Encoder:
    if oid in (22, 30):
        return lambda value: " ".join(map(str, value)).encode()
    if oid in oids.ELEMENT_OF:
        inner = _text(oids.ELEMENT_OF[oid])
        return lambda value: array_text([None if one is None else inner(one).decode() for one in value]).encode()
    if oid in _OURS:
        return text_encoder(_OURS[oid])
    return lambda value: str(value).encode()


def _binary(oid: int) -> Encoder:
    if oid in oids.ELEMENT_OF or oid in (22, 30):
        element = {22: oids.INT2, 30: oids.OID}.get(oid) or oids.ELEMENT_OF[oid]
        inner = _binary(element)
        return lambda value: array_bytes([None if one is None else inner(one) for one in value], element)
    if oid in _OIDS:
        return lambda value: int(value).to_bytes(4, "big")
    return binary_encoder(_OURS[oid]) if oid in _OURS else lambda value: str(value).encode()
