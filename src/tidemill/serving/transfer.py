"""Data in from the command line: files with a progress bar, change records from a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TextIO

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from tidemill.changes.zset import Row
from tidemill.engine.objects.database import objects
from tidemill.engine.warehouse import Warehouse
from tidemill.model.coerce import row_coercer
from tidemill.model.errors import SetupError, Unsupported
from tidemill.serving.render import console
from tidemill.sources.arrivals import ASIDE
from tidemill.sources.debezium import Lookup, read_debezium
from tidemill.sources.pairs import read_pairs

__all__ = ["FORMATS", "apply_file", "load_with_progress", "take_files"]

FORMATS = ("debezium", "pairs")


def load_with_progress(
    wh: Warehouse, table: str, files: Sequence[Path], *, format: str | None, reject: Path | None
) -> str:
    """Load files and say what was done; a bar follows the bytes on a terminal."""
    if wh.has_objects(table):
        if reject is not None:
            raise Unsupported("objects are loaded all or none", hint="Leave --reject out.")
        with bar(f"loading {table}") as progress:
            epoch = objects(wh).load(table, *files, format=format, progress=progress)
        return f"loaded into {table}, epoch {epoch}"
    with bar(f"loading {table}") as progress:
        epoch = wh.load(table, *files, format=format, reject=reject, progress=progress)
    if reject is None:
        return f"loaded into {table}, epoch {epoch}"
    with reject.open(encoding="utf-8") as lines:
        bad = sum(1 for _ in lines)
    return f"loaded into {table}, epoch {epoch}; {bad} bad row{'' if bad == 1 else 's'} set aside in {reject}"


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal that follows bytes, told how many so far and in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    output = console(stderr=True)
    with Progress(*columns, console=output, transient=True, disable=not output.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def take_files(wh: Warehouse, table: str, folder: Path, format: str | None) -> str:
    """Take in what waits in a folder and say what was done; a feed is made for it, unless there is one."""
    place, before = str(folder.resolve()), wh.epoch
    known = {row[2]: row[0] for row in wh.sql("SHOW FEEDS")}
    if place not in known:
        name = _free_name(table.lower(), set(known.values()))
        options = "" if format is None else f" OPTIONS (format = '{format}')"
        wh.sql(f"CREATE FEED `{name}` INTO `{table}` FROM {_quoted(place)}{options}")
        known[place] = name
    wh.sync(known[place])
    aside = next(row[6] for row in wh.sql("SHOW FEEDS") if row[0] == known[place])
    bad = f"; {aside} set aside in {folder / ASIDE}" if aside else ""
    return f"{wh.epoch - before} taken into {table}, epoch {wh.epoch}{bad}"


def _free_name(table: str, taken: set[str]) -> str:
    return next(name for name in chain([table], (f"{table}_{n}" for n in count(2))) if name not in taken)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def apply_file(wh: Warehouse, file: Path, format: str) -> str:
    """Apply change records as one epoch and say what was done."""
    tables = {name: wh.table(name).definition for name in wh.tables()}
    with _lines(file) as lines:
        if format == "debezium":
            changes = read_debezium(lines, tables, lookup=lookup_in(wh), name=str(file))
        else:
            changes = read_pairs(lines, tables, name=str(file))
    if not changes:
        return "no changes"
    epoch = wh.apply(changes)
    counts = ", ".join(f"{len(change)} of {name}" for name, change in changes.items())
    return f"epoch {epoch}: row changes {counts}"


def lookup_in(wh: Warehouse) -> Lookup:
    """How records that do not show the row they replace find it: by primary key, in an index made when first asked."""
    indexes: dict[str, dict[Row, Row]] = {}

    def find(table: str, key: Row) -> Row | None:
        if table not in indexes:
            definition = wh.table(table).definition
            inner, positions = row_coercer(definition.fields, table), definition.key_positions()
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
