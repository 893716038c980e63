"""Files of rows: CSV, JSON lines, Parquet, compressed or not. Read in batches; a bad row is refused or set aside.

Columns go by name as in ``sources.ingest.frames``, a column ``_weight`` included; some may be in the names of folders
(``sources.ingest.file_listing``). In CSV a nested value is written as JSON; ``csv_options`` has the rest. Text is read
record by record, so that a bad row is reported with its line, its reason and its text; Parquet is converted batch by
batch, and row by row only if a batch has a bad row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.coerce import coerce, row_coercer
from tidemill.model.errors import BadValue, DuplicateKey, SetupError, TidemillError
from tidemill.model.paths import Progress
from tidemill.model.schema import WEIGHT, Table
from tidemill.model.types import Field
from tidemill.sources.ingest.csv_options import DEFAULT_CSV, CsvOptions
from tidemill.sources.ingest.file_formats import FORMATS, format_of, opened, plain_suffix
from tidemill.sources.ingest.file_listing import list_files
from tidemill.sources.ingest.frames import changes_of, check_names, weight_of
from tidemill.sources.ingest.text_records import TextRecord, parser_of, read_csv, read_json

__all__ = [
    "FORMATS",
    "FileBatch",
    "IngestedFiles",
    "KeyAdmission",
    "Reject",
    "RowCheck",
    "file_batches",
    "format_of",
    "read_file",
    "read_files",
    "reason_of",
]

_BATCH = 20_000

PartitionValues = Mapping[str, Any]
"""Partition columns: all rows of a file share them, because they are in the names of its folders."""

_NONE: PartitionValues = {}

RowCheck = Callable[[Row], None]
"""Refuses a row that its table cannot take, independently of other rows."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that was set aside: its position (rows of Parquet count from 1), the reason, and the original row."""

    file: str
    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Some rows of a file: their change, the line of the first, the rejected rows, and bytes read so far."""

    changes: ChangeSet
    first_line: int
    rejects: tuple[Reject, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class IngestedFiles:
    """The result of reading files: the change, the number of files, the skipped files, and the number of bad rows."""

    change: ChangeSet
    files: int
    skipped: tuple[Path, ...]
    rejected: int


class KeyAdmission:
    """The primary keys that are in use, so that a duplicate key can be set aside like any other bad row.

    So can a row that ``judge`` refuses: one that violates a CHECK.
    """

    def __init__(self, table: Table, taken: Iterable[Row] = (), judge: RowCheck | None = None) -> None:
        self._positions = table.key_positions
        self._table = table
        self._taken = set(taken)
        self._judge = judge

    def admit(self, row: Row, weight: int) -> None:
        """Note that ``row`` is inserted or deleted; a second row of its key is refused."""
        if self._judge is not None and weight > 0:
            self._judge(row)
        key = tuple([row[position] for position in self._positions])
        if weight < 0:
            self._taken.discard(key)
        elif key and (weight > 1 or key in self._taken):
            raise DuplicateKey(f"the primary key {key} is taken", where=self._table.name)
        else:
            self._taken.add(key)


class BytesRead(int):
    """A number of bytes read, with the ``rows`` that were in them."""

    rows: int

    @classmethod
    def with_rows(cls, count: int, rows: int) -> BytesRead:
        """A number of bytes with a number of rows."""
        read = cls(count)
        read.rows = rows
        return read


def read_files(
    table: Table,
    paths: Sequence[str | Path],
    *,
    format: str | None = None,
    reject: str | Path | None = None,
    rejects: list[Reject] | None = None,
    taken: Iterable[Row] = (),
    judge: RowCheck | None = None,
    progress: Progress | None = None,
    csv: CsvOptions = DEFAULT_CSV,
) -> IngestedFiles:
    """The rows of all ``paths`` (files, or folders of files) as one change of ``table``.

    Without ``reject`` the first bad row refuses everything. With it, bad rows go to that file as JSON lines with file,
    line, reason and text, or to the list ``rejects``; a duplicate primary key is bad as well, and ``taken`` are the
    existing keys; so is a row that ``judge`` refuses. ``progress`` is called with the bytes read so far,
    which have the ``rows`` in them, and in all.
    """
    found = list_files(paths, table)
    kinds = {format_of(one.file, format) for one in found.files}
    total = sum(one.file.stat().st_size for one in found.files)
    keys = None if reject is None and rejects is None else KeyAdmission(table, taken, judge)
    parts, done, rows, rejected = [], 0, 0, 0
    with ExitStack() as stack:
        listing = None if reject is None else stack.enter_context(Path(reject).open("w", encoding="utf-8"))
        for one in found.files:
            for batch in read_file(one.file, table, format, keys=keys, values=_parsed(one.values, table), csv=csv):
                parts.append(batch.changes)
                rejected += len(batch.rejects)
                if rejects is not None:
                    rejects += batch.rejects
                if listing is not None:
                    listing.writelines(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in batch.rejects)
                rows += len(batch.changes)
                if progress is not None:
                    progress(BytesRead.with_rows(done + batch.bytes, rows), total)
            done += one.file.stat().st_size
    change = _together(parts, table, columnar=kinds == {"parquet"})
    return IngestedFiles(change, len(found.files), found.skipped, rejected)


def file_batches(table: Table, path: Path, format: str) -> Iterator[FileBatch]:
    """The rows of one file, with the columns in the names of its folders, batch by batch."""
    (one,) = list_files([path], table).files
    return read_file(one.file, table, format, values=_parsed(one.values, table))


def _parsed(texts: Mapping[str, str | None], table: Table) -> PartitionValues:
    """The partition columns, parsed like cells of CSV."""
    types = _types(table)
    return {name: None if text is None else parser_of(types[name])(text) for name, text in texts.items()}


def _types(table: Table) -> dict[str, t.Type]:
    return {field.name: field.type for field in table.fields} | {WEIGHT: t.BIGINT}


def read_file(
    path: str | Path,
    table: Table,
    format: str | None = None,
    *,
    keys: KeyAdmission | None = None,
    values: PartitionValues = _NONE,
    csv: CsvOptions = DEFAULT_CSV,
) -> Iterator[FileBatch]:
    """The rows of a file, batch by batch.

    With ``keys`` bad rows are set aside in the batch's ``rejects``; without, the first one raises an error that names
    file, line, column, value and reason. ``values`` are the partition columns.
    """
    path = Path(path)
    kind = format_of(path, format)
    try:
        if kind == "parquet":
            yield from _read_parquet(path, table, keys, values)
        else:
            yield from _read_text(path, table, kind, keys, csv, values)
    except OSError as error:
        raise SetupError("the file cannot be read", where=str(path), detail=error.strerror or str(error)) from error


def _read_text(
    path: Path, table: Table, kind: str, keys: KeyAdmission | None, csv: CsvOptions, values: PartitionValues
) -> Iterator[FileBatch]:
    # Bytes that are not UTF-8 become lone surrogates, which no STRING accepts: so they are reported with their line.
    with opened(path) as (binary, plain), TextIOWrapper(plain, "utf-8-sig", "surrogateescape", newline="") as file:
        if kind == "json":
            records = read_json(file, table)
        else:
            records = read_csv(file, table, csv, suffix=plain_suffix(path), without=values)
        records = (_with_values(record, values) for record in _in_file(records, path))
        while chunk := list(islice(records, _BATCH)):
            yield _convert(chunk, path, table, keys, binary.tell())


def _in_file(records: Iterator[TextRecord], path: Path) -> Iterator[TextRecord]:
    """The same records; an error that concerns the whole file, such as an unknown column, names it."""
    try:
        yield from records
    except TidemillError as error:
        error.where = f"{path}, {error.where}"
        raise


def _with_values(record: TextRecord, values: PartitionValues) -> TextRecord:
    """A record with the partition columns; a record that has them itself is bad."""
    if not values or isinstance(record.values, TidemillError):
        return record
    twice = next((name for name in values if name in record.values), None)
    return replace(record, values={**record.values, **values} if twice is None else _twice(twice))


def _twice(column: str) -> BadValue:
    return BadValue(
        f'column "{column}" is in the file and in the name of its folder',
        hint="Rename the folder, or leave the column out of the file.",
    )


def _convert(
    records: Sequence[TextRecord], path: Path, table: Table, keys: KeyAdmission | None, position: int
) -> FileBatch:
    convert = row_coercer(table.fields, table.name)
    pairs: list[tuple[Row, int]] = []
    rejects = []
    for record in records:
        try:
            pairs.append(_pair(record, convert, table, keys))
        except TidemillError as error:
            if keys is None:
                error.where = f"{path}:{record.line}, {error.where or table.name}"
                raise
            rejects.append(Reject(str(path), record.line, reason_of(error), record.text))
    return FileBatch(ChangeSet.of(pairs, table.fields), records[0].line, tuple(rejects), position)


def _pair(
    record: TextRecord, convert: Callable[[Any], Row], table: Table, keys: KeyAdmission | None
) -> tuple[Row, int]:
    if isinstance(record.values, TidemillError):
        raise record.values
    weight = 1
    if WEIGHT in record.values:
        values = dict(record.values)
        weight = weight_of(values.pop(WEIGHT), f"{table.name}.{WEIGHT}")
        record = replace(record, values=values)
    row = convert(record.values)
    if keys is not None:
        keys.admit(row, weight)
    return row, weight


def reason_of(error: TidemillError) -> str:
    """The reason why a row is refused, by the error: its text, its place and its detail."""
    place = f" ({error.where})" if error.where else ""
    return f"{error.what}{place}" + (f": {error.detail}" if error.detail else "")


def _read_parquet(path: Path, table: Table, keys: KeyAdmission | None, values: PartitionValues) -> Iterator[FileBatch]:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise BadValue("the file is not Parquet", where=str(path), detail=str(error)) from None
    with file:
        check_names(file.schema_arrow.names, table)
        size, rows = path.stat().st_size, max(file.metadata.num_rows, 1)
        first = 1
        for part in file.iter_batches(_BATCH):
            position = size * (first - 1 + part.num_rows) // rows
            yield _read_part(pa.Table.from_batches([part]), first, path, table, keys, position, values)
            first += part.num_rows


def _read_part(
    part: pa.Table,
    first: int,
    path: Path,
    table: Table,
    keys: KeyAdmission | None,
    position: int,
    values: PartitionValues,
) -> FileBatch:
    if keys is None:
        try:
            return FileBatch(changes_of(_with_columns(part, values, table), table), first, (), position)
        except TidemillError:
            pass  # then row by row, which finds the bad row and counts it from the file's beginning
    rows = part.rename_columns([name.lower() for name in part.column_names]).to_pylist()
    records = [TextRecord(line, json.dumps(row, default=str), row) for line, row in enumerate(rows, start=first)]
    return _convert([_with_values(record, values) for record in records], path, table, keys, position)


def _with_columns(part: pa.Table, values: PartitionValues, table: Table) -> pa.Table:
    """Columns together with the partition columns, each a constant column."""
    types = _types(table)
    for name, value in values.items():
        field = Field(name, types[name])
        row = (None if value is None else coerce(value, field.type, where=f"{table.name}.{name}"),)
        one = ChangeSet.of([(row, 1)], (field,)).arrow().column(0)
        part = part.append_column(name, one.take(pa.array([0] * part.num_rows, pa.int64())))
    return part


def _together(parts: Sequence[ChangeSet], table: Table, columnar: bool) -> ChangeSet:
    """One change of all parts. Text was read into pairs and stays pairs; Parquet stays Arrow."""
    if columnar:
        empty = arrow_schema(table.fields).empty_table()
        return ChangeSet.of_arrow(pa.concat_tables([empty, *(part.arrow() for part in parts)]), table.fields)
    return ChangeSet.of(chain.from_iterable(part.pairs() for part in parts), table.fields)
