"""Input from the command line: files with a progress bar, change records from a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import tidemill
from tidemill.model.errors import SetupError, Unsupported
from tidemill.model.paths import local_path
from tidemill.serving.cli.terminal.progress import bytes_progress

if TYPE_CHECKING:
    from tidemill.changes.zset import Row
    from tidemill.engine.warehouse import Warehouse
    from tidemill.sources.ingest.debezium import RowLookup

__all__ = ["FORMATS", "apply_file", "load_with_progress", "take_files"]

FORMATS = ("debezium", "pairs")


def load_with_progress(
    wh: Warehouse,
    table: str,
    files: Sequence[str],
    *,
    format: str | None,
    reject: Path | None,
    quiet: bool = False,
    mode: str = "append",
    options: Mapping[str, str] | None = None,
) -> str:
    """Load files, with a progress bar on a terminal; returns a summary."""
    from tidemill.engine.intake_counts import with_noun

    if wh.has_objects(table):
        if reject is not None:
            raise Unsupported("--reject is not supported for objects", hint="Leave --reject out.")
        if mode != "append" or options:
            raise Unsupported("objects are loaded from nested records, and added", hint="Leave --mode and CSV out.")
        with bytes_progress(f"loading {table}", quiet) as progress:
            taken = tidemill.objects(wh).load(table, *files, format=format, progress=progress)
        return f"epoch {taken}: {with_noun(taken.counts.rows, 'object')} loaded for {table}"
    with bytes_progress(f"loading {table}", quiet) as progress:
        taken = wh.load(table, *files, format=format, reject=reject, progress=progress, mode=mode, options=options)
    told = f"epoch {taken}: loaded into {table} {taken.counts}"
    return f"{told}: {reject}" if taken.counts.rejected else told


def take_files(wh: Warehouse, table: str, folder: str, format: str | None) -> str:
    """Ingest the files in a folder by its feed, which is created if there is none; returns a summary."""
    from tidemill.sources.ingest.inbox import ASIDE

    place = str(local_path(folder, "folder of a feed").resolve())
    known = {row[2]: row[0] for row in wh.sql("SHOW FEEDS")}
    if place not in known:
        name = _free_name(table.lower(), set(known.values()))
        options = "" if format is None else f" OPTIONS (format = '{format}')"
        wh.sql(f"CREATE FEED `{name}` INTO `{table}` FROM {_quoted(place)}{options}")
        known[place] = name
    taken = wh.sync(known[place])
    bad = f": {Path(place) / ASIDE}" if taken.counts.aside else ""
    return f"epoch {taken}: taken into {table} {taken.counts}{bad}"


def _free_name(table: str, taken: set[str]) -> str:
    return next(name for name in chain([table], (f"{table}_{n}" for n in count(2))) if name not in taken)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def apply_file(wh: Warehouse, file: Path, format: str, *, upsert: bool = False) -> str:
    """Apply change records as one epoch; returns a summary."""
    from tidemill.sources.ingest.debezium import read_debezium
    from tidemill.sources.ingest.pairs import read_pairs

    tables = {name: wh.table(name).definition for name in wh.tables()}
    with _lines(file) as lines:
        if format == "debezium":
            changes = read_debezium(lines, tables, lookup=lookup_in(wh), name=str(file))
        else:
            changes = read_pairs(lines, tables, name=str(file))
    if not changes:
        return "no changes"
    epoch = wh.apply(changes, mode="upsert" if upsert else "changes")
    counts = ", ".join(f"{len(change):,} of {name}" for name, change in changes.items())
    late = sum(_late(wh, name, epoch) for name in changes)
    return f"epoch {epoch}: row changes {counts}" + (f"; {late:,} of them late" if late else "")


def _late(wh: Warehouse, table: str, epoch: int) -> int:
    """Number of changes of a table that were late in an epoch."""
    from tidemill.model.schema import WHEN, late_table

    late = late_table(wh.table(table).definition)
    if late is None:
        return 0
    ((count,),) = wh.sql(f"SELECT COUNT(*) FROM `{late.name}` WHERE `{WHEN}` = {epoch}")
    return int(count)


def lookup_in(wh: Warehouse) -> RowLookup:
    """Lookup by primary key, for records without the row they replace; its index is built on first use."""
    from tidemill.model.coerce import row_coercer

    indexes: dict[str, dict[Row, Row]] = {}

    def find(table: str, key: Row) -> Row | None:
        if table not in indexes:
            definition = wh.table(table).definition
            inner, positions = row_coercer(definition.fields, table), definition.key_positions
            rows = map(inner, wh.table(table).rows())
            indexes[table] = {tuple([row[position] for position in positions]): row for row in rows}
        return indexes[table].get(key)

    return find


@contextmanager
def _lines(file: Path) -> Iterator[TextIO]:
    if str(file) == "-":
        yield sys.stdin
    elif not file.is_file():
        raise SetupError("there is no such file", where=str(file))
    else:
        with file.open(encoding="utf-8-sig") as lines:
            yield lines
