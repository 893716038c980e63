"""Rows of a table from the events of the binary log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent

from tidemill.changes.zset import Row
from tidemill.model.errors import DataError, SourceLost
from tidemill.sources.mysql.catalog import MySqlTable, decoder
from tidemill.sources.mysql.log_texts import LoggedTexts
from tidemill.sources.mysql.log_values import read_value

__all__ = ["LoggedRows", "untold"]

_HEADER = 19
_CHECKSUM = 4
_WEIGHTS: dict[type[RowsEvent], tuple[int, ...]] = {
    WriteRowsEvent: (1,),
    DeleteRowsEvent: (-1,),
    UpdateRowsEvent: (-1, 1),
}


class LoggedRows:
    """Reads the rows of one table."""

    def __init__(self, table: MySqlTable, zero_dates: str, texts: LoggedTexts) -> None:
        self._table = table
        self._texts = texts
        places = {column.name: place for place, column in enumerate(table.logged)}
        self._wanted: list[tuple[int, Callable[[Any], Any]]] = [
            (places[column.name], decoder(column, zero_dates)) for column in table.remote.columns
        ]

    def read(self, event: Any, *, checksums: bool) -> Iterator[tuple[Row, int]]:
        """The rows that leave and come by an event, which ends with a checksum if the file has ``checksums``."""
        name = self._table.remote.name
        if type(event) not in _WEIGHTS:
            raise untold(f"The log has a row of {name} in a form that cannot be read ({type(event).__name__}).")
        if event.number_of_columns != len(self._table.logged):
            raise untold(f"{name} has other columns than when the source was opened.")
        if not self._is_whole(event):
            raise untold(
                f"The log has parts of rows of {name} only: binlog_row_image was not FULL where they were written."
            )
        # The reader's own arithmetic takes the last byte for no row: a single column that is NULL has one byte.
        end = event.packet.event_size - _HEADER - (_CHECKSUM if checksums else 0)
        while event.packet.read_bytes < end:
            for weight in _WEIGHTS[type(event)]:
                yield self._row(self._values(event)), weight

    def _is_whole(self, event: Any) -> bool:
        """True if the images of rows have all columns."""
        every = (1 << len(self._table.logged)) - 1
        images = [event.columns_present_bitmap]
        if isinstance(event, UpdateRowsEvent):
            images.append(event.columns_present_bitmap2)
        return all(int.from_bytes(image, "little") & every == every for image in images)

    def _values(self, event: Any) -> list[Any]:
        """The values of one row image, which has all columns."""
        logged, read = self._table.logged, event.packet.read
        nulls = int.from_bytes(read((len(logged) + 7) // 8), "little")
        return [
            None if nulls >> place & 1 else read_value(read, event.columns[place], column)
            for place, column in enumerate(logged)
        ]

    def _row(self, values: list[Any]) -> Row:
        row = []
        for (place, decode), column in zip(self._wanted, self._table.remote.columns, strict=True):
            value, charset = values[place], self._table.logged[place].charset
            try:
                if isinstance(value, bytes) and charset:
                    value = self._texts.decode(value, charset)
                row.append(None if value is None else decode(value))
            except DataError as error:
                error.where = f"{self._table.remote.name}.{column.name}"
                raise
        return tuple(row)


def untold(detail: str, hint: str = "Create the views over this source again.") -> SourceLost:
    """The error of a transaction whose rows the log does not tell."""
    return SourceLost("a transaction of the source cannot be told", detail=detail, hint=hint)
