"""Results for readers: multisets of rows as tuples, Arrow, pandas, polars, DuckDB or Spark frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.changes.arrow import from_arrow, repeat_rows
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.engine.boundary import public_class
from tidemill.engine.html_output import SHOWN_ROWS, Explanation, html_table, html_text
from tidemill.model.coerce import presenter
from tidemill.model.errors import SetupError
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import Field

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from tidemill.runtimes.spark.execution.spark_types import DataFrame

ToSparkFrame = Callable[[pa.Table], "DataFrame"]


def present_rows(rows: Iterable[tuple[Any, ...]], fields: Sequence[Field]) -> list[tuple[Any, ...]]:
    """Stored rows in their public form: lists for arrays, dicts for structs."""
    converters = [presenter(f.type) for f in fields]
    if all(c is None for c in converters):
        return list(rows)
    return [tuple(v if c is None or v is None else c(v) for v, c in zip(row, converters, strict=True)) for row in rows]


def expand_arrow(change: ChangeSet) -> pa.Table:
    """A multiset as Arrow: each row repeated by its weight, without the weight column."""
    table = change.arrow()
    if (table.column(WEIGHT).to_numpy() < 0).any():
        return expand_arrow(ChangeSet.of(change.zset().items(), change.fields))
    return repeat_rows(table)


@public_class
class ArrowRows(ABC):
    """Rows that have a form in Arrow, and from it all others.

    They have Arrow's C stream interface, so whatever reads that takes them as they are: ``polars.DataFrame(view)``,
    ``duckdb.from_arrow(view)``, ``pyarrow.table(view)``.
    """

    @abstractmethod
    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""

    def pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        return self.arrow().to_pandas()

    def polars(self) -> pl.DataFrame:
        """The rows as a polars frame, which shares their memory."""
        return polars_frame(self.arrow())

    def duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of a DuckDB connection, of DuckDB's default one if none is given."""
        from tidemill.runtimes.duckdb.arrow_relation import relation_of

        return relation_of(self.arrow(), connection)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """An Arrow table as a polars frame."""
    try:
        import polars
    except ModuleNotFoundError as error:
        raise SetupError(
            "polars is not installed",
            detail="It is an extra: nothing else needs it.",
            hint="Run: python -m pip install 'tidemill[polars]'",
        ) from error
    return polars.DataFrame(table)


@public_class
class LazyRows(ArrowRows):
    """A multiset of rows that is read on access, in the requested form."""

    def __init__(self, fields: Sequence[Field], read: Callable[[], ChangeSet], frame: ToSparkFrame) -> None:
        self.fields = tuple(fields)
        self._read = read
        self._frame = frame

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names."""
        return names_of(self.fields)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples, with duplicates, in no particular order."""
        change = self._present()
        return present_rows(change.zset().expand(), change.fields)

    def _present(self) -> ChangeSet:
        """The rows, with the columns that they have now: a table may have been altered since."""
        change = self._read()
        self.fields = tuple(change.fields)
        return change

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return expand_arrow(self._present())

    def df(self) -> DataFrame:
        """The rows as a Spark frame, in the warehouse's session."""
        return self._frame(self.arrow())

    def __len__(self) -> int:
        return sum(self._read().zset().values())

    def _repr_html_(self) -> str:
        table = self.arrow()
        first = table.slice(0, SHOWN_ROWS)
        rows = from_arrow(first.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), first.num_rows)), self.fields)
        shown = present_rows((row for row, _ in rows), self.fields)
        return html_table(self.columns, shown, table.num_rows, getattr(self, "name", ""))


@public_class
class Result(list[tuple[Any, ...]], ArrowRows):
    """The result of a statement: a list of tuples with the column names and a message."""

    def __init__(
        self,
        rows: Iterable[tuple[Any, ...]] = (),
        fields: Sequence[Field] = (),
        *,
        message: str = "",
        frame: ToSparkFrame | None = None,
        notes: Sequence[str] = (),
        changed: int | None = None,
    ) -> None:
        super().__init__(rows)
        self.changed = changed
        """Number of rows that a statement inserted, updated or deleted; None for other statements."""
        self.notes = tuple(notes)
        """Warnings about the rows: a view in quarantine does not show everything."""
        self.fields = tuple(fields)
        self.message = message
        self._frame = frame

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names."""
        return names_of(self.fields)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as a plain list."""
        return list(self)

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        from tidemill.model.coerce import coercer

        inward = [coercer(f.type) for f in self.fields]
        pairs = [(tuple(None if v is None else c(v) for v, c in zip(row, inward, strict=True)), 1) for row in self]
        return ChangeSet.of(pairs, self.fields).arrow().drop_columns([WEIGHT])

    def df(self) -> DataFrame:
        """The rows as a Spark frame, in the warehouse's session."""
        assert self._frame is not None
        return self._frame(self.arrow())

    def _repr_html_(self) -> str:
        if self.columns == ("explanation",) and isinstance(self[0][0], Explanation):
            return self[0][0]._repr_html_()
        if not self.columns or self.columns == ("explanation",):
            return html_text(str(self))
        return html_table(self.columns, self, len(self))

    def __str__(self) -> str:
        if self.message and not self:
            return self.message
        if len(self.fields) == 1 and len(self) == 1 and isinstance(self[0][0], str):
            return self[0][0]
        return "\n".join([" | ".join(self.columns), *(" | ".join(map(str, row)) for row in self)])


@dataclass(frozen=True, slots=True)
class EpochCosts:
    """Costs of an epoch: what Spark did of it, and the bytes that were written by Spark or by this process.

    ``task_seconds`` is the sum over Spark's tasks, several of which may run at the same time.
    """

    jobs: int
    bytes_read: int
    bytes_written: int
    tasks: int = 0
    task_seconds: float = 0.0
    exchanges: int = 0
    bytes_exchanged: int = 0

    def on_spark(self) -> str:
        """The part of Spark, in words; empty if it had none.

        >>> EpochCosts(2, 0, 0, tasks=4, task_seconds=1.25, exchanges=1, bytes_exchanged=2_500).on_spark()
        '2 jobs, 4 tasks for 1.25 s, 1 exchanges of 2,500 bytes'
        """
        if not self.jobs:
            return ""
        told = f"{self.jobs} jobs, {self.tasks} tasks for {self.task_seconds:.2f} s"
        return told + (f", {self.exchanges} exchanges of {self.bytes_exchanged:,} bytes" if self.exchanges else "")


@dataclass(frozen=True, slots=True)
class MapSize:
    """Size of a map of a view: its entries, and their bytes in this process, if known."""

    map: str
    entries: int
    bytes: int | None


@dataclass(frozen=True)
class Verification:
    """Comparison of a view with its recomputation. True if they agree, duplicates counted.

    ``missing`` are rows that the view lacks or has too few times; ``extra`` those that it should not have. ``oracle``
    names the method of recomputation, and ``columns`` the columns that have another type there. A view in quarantine is
    compared with what it can show, and ``notes`` say so.
    """

    view: str
    rows: int
    missing: ZSet
    extra: ZSet
    oracle: str = ""
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if view and recomputation are the same multiset, of the same types."""
        return not self.missing and not self.extra and not self.columns

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return "\n".join([f"{self.view}: {self.rows} rows, equal to recomputation{self._by}", *self._noted])
        lines = [f"{self.view}: {len(self.missing)} rows missing, {len(self.extra)} rows too many{self._by}"]
        lines += [f"  column {column}" for column in self.columns]
        lines += [f"  missing {row} x{weight}" for row, weight in list(self.missing.items())[:5]]
        lines += [f"  extra   {row} x{weight}" for row, weight in list(self.extra.items())[:5]]
        return "\n".join([*lines, *self._noted])

    @property
    def _noted(self) -> list[str]:
        return [f"  note: {note}" for note in self.notes]

    @property
    def _by(self) -> str:
        return f" by {self.oracle}" if self.oracle else ""
