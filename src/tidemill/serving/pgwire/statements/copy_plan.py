"""COPY at work: rows out of a table, view or query; rows into a table, as one epoch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from tidemill.model.types import Field
from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.outcome import CopyIn, CopyOut, Description, Outcome, ResultColumn, RowStream
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.statements import copy_formats as formats
from tidemill.serving.pgwire.statements.copy_statement import CopyOptions, CopyStatement
from tidemill.serving.pgwire.types.oids import pg_type
from tidemill.serving.pgwire.types.parameters import value_of

__all__ = ["CopyPlan"]

LARGEST_COPY = 1 << 30
"""Bytes of a COPY at most: it is one epoch, which is in memory as a whole."""

CHUNK = 500

RunQuery = Callable[[str], Awaitable[Any]]


class CopyPlan:
    """A COPY. ``query`` runs a query for its rows."""

    def __init__(self, session: PgSession, copy: CopyStatement, query: RunQuery) -> None:
        self._session = session
        self._copy = copy
        self._query = query

    async def describe(self, declared: Sequence[int]) -> Description:
        """COPY has neither parameters nor columns."""
        return Description((), None)

    async def run(self, values: Sequence[Any]) -> CopyIn | CopyOut:
        """Begin to copy."""
        self._session.require_sound()
        if self._copy.is_in:
            return CopyIn(await self._sink())
        if self._copy.query is not None:
            found = await self._query(self._copy.query)
        else:
            found = await self._query(self._relation())
        if not isinstance(found, Outcome | RowStream) or found.columns is None:
            raise PgError("42601", "COPY takes a query that has rows")
        is_binary = self._copy.options.format == "binary"
        columns = found.columns
        pieces = _pieces(found, columns, self._copy.options)
        return CopyOut(len(columns), m.BINARY if is_binary else m.TEXT, pieces)

    def _relation(self) -> str:
        """The query of a table or view, in the dialect of the session."""
        quote = '"' if self._session.postgres else "`"

        def quoted(name: str) -> str:
            return f"{quote}{name.replace(quote, quote * 2)}{quote}"

        columns = ", ".join(map(quoted, self._copy.columns)) or "*"
        return f"SELECT {columns} FROM {quoted(self._copy.table or '')}"

    async def _sink(self) -> TableSink:
        name = self._copy.table
        assert name is not None
        session = self._session.session
        fields = tuple(await self._session.run(lambda: session.table(name).fields))
        by_name = {field.name: field for field in fields}
        unknown = [column for column in self._copy.columns if column.lower() not in by_name]
        if unknown:
            raise PgError("42703", f'there is no column "{unknown[0]}" in "{name}"')
        chosen = tuple(by_name[column.lower()] for column in self._copy.columns) or fields
        return TableSink(self._session, name, chosen, self._copy.options)


async def _pieces(
    found: Outcome | RowStream, columns: Sequence[ResultColumn], options: CopyOptions
) -> AsyncIterator[tuple[int, bytes]]:
    names = [one.description.name for one in columns]
    encoders = [one.binary if options.format == "binary" else one.text for one in columns]
    head = formats.BINARY_HEAD if options.format == "binary" else b""
    if options.header and not head:
        yield 0, m.copy_data([formats.header(names, options)])
    async for rows in _batches(found):
        # As from PostgreSQL, a message has one row, and the first one of a binary COPY its head as well.
        lines = [
            _encoded(
                [None if value is None else cell(value) for value, cell in zip(row, encoders, strict=True)],
                options,
                names,
            )
            for row in rows
        ]
        if lines and head:
            lines[0], head = head + lines[0], b""
        yield len(rows), m.copy_data(lines)
    if head:
        yield 0, m.copy_data([head])
    if options.format == "binary":
        yield 0, m.copy_data([formats.BINARY_END])


async def _batches(found: Outcome | RowStream) -> AsyncIterator[Sequence[tuple[Any, ...]]]:
    if isinstance(found, RowStream):
        try:
            async for rows in found.batches:
                yield rows
        finally:
            await found.batches.aclose()  # type: ignore[attr-defined]
        return
    for start in range(0, len(found.rows), CHUNK):
        yield found.rows[start : start + CHUNK]


def _encoded(cells: Sequence[bytes | None], options: CopyOptions, names: Sequence[str]) -> bytes:
    if options.format == "binary":
        return formats.encode_binary(cells)
    return formats.encode_csv(cells, options, names) if options.format == "csv" else formats.encode_text(cells, options)


class TableSink:
    """Takes what a client copies into a table."""

    def __init__(self, session: PgSession, table: str, fields: Sequence[Field], options: CopyOptions) -> None:
        self._session = session
        self._table = table
        self._fields = fields
        self._options = options
        self._data = bytearray()
        self.columns = len(fields)
        self.form = m.BINARY if options.format == "binary" else m.TEXT

    def feed(self, data: bytes) -> None:
        """Take some bytes."""
        if len(self._data) + len(data) > LARGEST_COPY:
            raise PgError("54000", f"COPY takes at most {LARGEST_COPY >> 20} MB at once", hint="Copy in several parts.")
        self._data += data

    async def finish(self) -> int:
        """Apply everything as one epoch; returns the number of rows."""
        return await self._session.run_copy(self._apply)

    def _apply(self) -> int:
        rows = [(1, row) for row in self._rows()]
        self._data = bytearray()
        if rows:
            self._session.session.apply({self._table: rows})
        return len(rows)

    def _rows(self) -> list[dict[str, Any]]:
        oids = [pg_type(field.type) for field in self._fields]
        names = [field.name for field in self._fields]
        found = []
        for number, cells in enumerate(self._cells(), start=1):
            if len(cells) != len(names):
                raise PgError(
                    "22P04", f"row {number} of COPY has {len(cells)} values for {len(names)} columns of {self._table}"
                )
            found.append(
                {
                    name: value_of(cell, oid, self.form, f"row {number} of COPY, column {name}")
                    for name, cell, oid in zip(names, cells, oids, strict=True)
                }
            )
        return found

    def _cells(self) -> Any:
        if self.form == m.BINARY:
            return formats.binary_rows(bytes(self._data))
        try:
            text = self._data.decode()
        except UnicodeDecodeError:
            raise PgError("22021", "the data of COPY is not UTF-8") from None
        if self._options.format == "csv":
            rows = formats.csv_rows(text, self._options, [field.name for field in self._fields])
        else:
            rows = formats.text_rows(text, self._options)
        return ([None if cell is None else cell.encode() for cell in row] for row in rows)
