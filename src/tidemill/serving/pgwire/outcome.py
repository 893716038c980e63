"""Outcome of a statement: rows with their columns, or a tag alone; a stream of rows; or a COPY."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidemill.model.types import STRING, Field
from tidemill.serving.pgwire.messages import BINARY, ColumnDescription
from tidemill.serving.pgwire.types.binary import binary_encoder
from tidemill.serving.pgwire.types.oids import column_description
from tidemill.serving.pgwire.types.text import Encoder, text_encoder

__all__ = [
    "CopyIn",
    "CopyOut",
    "Description",
    "Outcome",
    "Plan",
    "ResultColumn",
    "RowStream",
    "column_of",
    "columns_of",
]

Notice = Mapping[str, str]
Rows = Sequence[tuple[Any, ...]]


class ResultColumn(NamedTuple):
    """A column of a result: how it is announced, and its values in both formats."""

    description: ColumnDescription
    text: Encoder
    binary: Encoder

    def encoder(self, form: int) -> Encoder:
        """The encoder for a format."""
        return self.binary if form == BINARY else self.text


def column_of(field_: Field) -> ResultColumn:
    """A column of ours on the wire."""
    return ResultColumn(column_description(field_), text_encoder(field_.type), binary_encoder(field_.type))


def columns_of(fields: Sequence[Field]) -> tuple[ResultColumn, ...]:
    """Columns of ours on the wire."""
    return tuple(map(column_of, fields))


def text_columns(*names: str) -> tuple[ResultColumn, ...]:
    """Columns of texts."""
    return tuple(column_of(Field(name, STRING)) for name in names)


class Description(NamedTuple):
    """The types of the parameters of a statement, and its columns; None if it has no rows."""

    parameters: tuple[int, ...]
    columns: tuple[ResultColumn, ...] | None


@dataclass
class Outcome:
    """The end of a statement; ``tag`` may hold ``{rows}``, the number of rows that were sent."""

    tag: str
    columns: tuple[ResultColumn, ...] | None = None
    rows: Rows = ()
    notices: list[Notice] = field(default_factory=list)


@dataclass
class RowStream:
    """Rows that come as time goes by."""

    columns: tuple[ResultColumn, ...]
    batches: AsyncIterator[Rows]
    tag: str = "SUBSCRIBE {rows}"


class CopySink(Protocol):
    """Takes what a client copies in."""

    columns: int
    form: int

    def feed(self, data: bytes) -> None:
        """Take some bytes."""

    async def finish(self) -> int:
        """Apply everything as one epoch; returns the number of rows."""


@dataclass
class CopyIn:
    """A COPY from the client."""

    sink: CopySink


@dataclass
class CopyOut:
    """A COPY to the client: pieces, each with the number of rows that it holds."""

    columns: int
    form: int
    pieces: AsyncIterator[tuple[int, bytes]]


Result = Outcome | RowStream | CopyIn | CopyOut


class Plan(Protocol):
    """A statement that is ready to be described and run, any number of times."""

    async def describe(self, declared: Sequence[int]) -> Description:
        """Its parameters, of which a client has ``declared`` some types (0: unknown), and its columns."""

    async def run(self, values: Sequence[Any]) -> Result:
        """Run it with values for its parameters."""
