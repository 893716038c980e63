"""Rows that are given to ``apply`` or posted, one by one: the good ones are changes, bad ones go to a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.engine import Engine
from tidemill.engine.intake_counts import IntakeCounts
from tidemill.engine.streams.batch_rows import DELETED
from tidemill.engine.streams.intake import StreamIntake
from tidemill.engine.streams.options import ON_ERROR, StreamOptions
from tidemill.model.choices import require_choice
from tidemill.model.coerce import in_order
from tidemill.model.errors import BadValue, InvalidArgument, NotAllowed, TidemillError
from tidemill.model.schema import WEIGHT, Table, names_of
from tidemill.sources.ingest.frames import check_names, is_frame

__all__ = ["GivenRow", "GivenRows", "given_row", "listed_changes", "records_of", "require_alone"]

MODES = ("changes", "upsert")
"""Meanings of rows of which bad ones can be told from good ones."""


class GivenRow(dict[str, Any]):
    """A row by column, with its ``place`` among those that were given, counted from 1, and its ``error`` if it is no
    row at all."""

    def __init__(self, place: int, values: Mapping[str, Any], error: BadValue | None = None) -> None:
        super().__init__(values)
        self.place = place
        self.error = error


class GivenRows:
    """Rows that are given for tables, of which bad ones are set aside; ``source`` names where they come from."""

    def __init__(self, engine: Engine, source: str, given: Mapping[Table, Any], mode: str, on_error: str) -> None:
        require_choice("on_error", on_error, ON_ERROR)
        require_choice("mode", mode, MODES)
        engine.committed.require_own_rows(table.name for table in given)
        options = StreamOptions("upsert" if mode == "upsert" else "append", on_error)
        names = [table.name for table in given]
        self._engine, self._given, self._options = engine, given, options
        self._intake = StreamIntake(engine, source, dict.fromkeys(names, _itself), options, dict)
        self.is_taken = False
        """False until the rows were looked at: a key that comes again is not looked at."""
        self.counts = IntakeCounts()

    def prepare(self) -> None:
        """Make the tables of bad rows, if they are not there; owners do."""
        engine = self._engine
        for table in self._given:
            if not engine.rights.is_owner and f"{table.name}_errors" not in engine.committed:
                hint = "The first bad rows of an owner make it."
                raise NotAllowed(f'there is no table "{table.name}_errors" for bad rows yet', hint=hint)
        self._intake.prepare()

    def changes(self) -> dict[str, ChangeSet]:
        """The changes of the tables and of those of their bad rows; the caller holds the lock of the warehouse."""
        given = {table: records_of(data, table) for table, data in self._given.items()}
        records = {table.name: [self._row(row, table) for row in rows] for table, rows in given.items()}
        changes, self.counts = self._intake.judged(records, 0)
        self.is_taken = True
        return {name: change for name, change in changes.items() if change.rows}

    def _row(self, row: GivenRow, table: Table) -> GivenRow:
        unknown = row.keys() - {*names_of(table.fields), WEIGHT} if row.error is None else ()
        if unknown:
            return GivenRow(row.place, row, BadValue(f'there is no column "{min(unknown)}"', where=table.name))
        return _deleting(row) if self._options.upserts else row


def _itself(rows: Any) -> Any:
    return rows


def require_alone(engine: Engine) -> None:
    """Refuse to set rows aside in a transaction."""
    if engine.transactions.mine() is not None:
        raise InvalidArgument(
            "bad rows cannot be set aside in a transaction",
            detail="The transaction may still change the rows by which they are told from good ones.",
            hint="Apply them by themselves, or leave on_error out.",
        )


def listed_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes that can be read twice: what an iterator gives is kept."""
    return {name: list(data) if isinstance(data, Iterator) else data for name, data in changes.items()}


def records_of(data: Any, table: Table) -> list[GivenRow]:
    """The rows of pairs, or of a frame, one by one; those that are so already stay as they are.

    >>> from tidemill.model import types as t
    >>> from tidemill.model.types import Field
    >>> people = Table("people", (Field("id", t.BIGINT), Field("name", t.STRING)))
    >>> records_of([(1, (7, "ann")), (-1, {"id": "x"})], people)
    [{'id': 7, 'name': 'ann'}, {'id': 'x', 'name': None, '_weight': -1}]
    """
    if isinstance(data, list) and data and isinstance(data[0], GivenRow):
        return data
    if is_frame(data):
        check_names(_columns(data), table)
        return [GivenRow(place, row) for place, row in enumerate(_rows_of_frame(data), start=1)]
    return [given_row(place, pair, table) for place, pair in enumerate(data, start=1)]


def _columns(frame: Any) -> Iterable[str]:
    if isinstance(frame, ChangeSet):
        return ()
    return map(str, getattr(frame, "columns", ()) if not hasattr(frame, "column_names") else frame.column_names)


def _rows_of_frame(frame: Any) -> Iterable[Mapping[str, Any]]:
    module = type(frame).__module__.partition(".")[0]
    if module == "pandas":
        columns = frame.astype(object).where(frame.notna(), None)
        names = [str(name).lower() for name in columns.columns]
        return (dict(zip(names, values, strict=True)) for values in columns.itertuples(index=False, name=None))
    if module == "pyspark":
        from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow

        frame = rows_as_arrow(frame)
    table = frame.arrow() if isinstance(frame, ChangeSet) else pa.table(frame)
    rows: list[dict[str, Any]] = table.rename_columns([name.lower() for name in table.column_names]).to_pylist()
    return rows


def given_row(place: int, pair: Any, table: Table) -> GivenRow:
    """One of the pairs ``(weight, row)`` that were given."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        what = BadValue(f"{pair!r} is not a (weight, row) pair", where=table.name)
        return GivenRow(place, {"row": pair}, what)
    weight, row = pair
    try:
        values = dict(zip(names_of(table.fields), in_order(row, table.fields, table.name), strict=True))
    except TidemillError as error:
        return GivenRow(place, {"row": row}, BadValue(error.what, where=table.name, detail=error.detail))
    return GivenRow(place, values if weight == 1 else values | {WEIGHT: weight})


def _deleting(row: GivenRow) -> GivenRow:
    """An upsert, which deletes where its weight is negative."""
    weight = row.pop(WEIGHT, 1)
    if type(weight) is not int:
        return GivenRow(row.place, row, row.error or BadValue(f"{weight!r} is not a weight"))
    return GivenRow(row.place, {**row, DELETED: weight < 0}, row.error)
