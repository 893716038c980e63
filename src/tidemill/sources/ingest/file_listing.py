"""The files below a path, and the partition columns in the names of their folders.

A folder stands for all files below it, at any depth, except those that Spark would skip too: names that begin with
``.`` or ``_``. Folders named ``column=value`` are partitions, as Spark and Hive write them: the value is a column of
every row of the files in them. Skipped files are reported, and a folder with nothing to read is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from tidemill.model.errors import BadValue, SetupError, TidemillError, Unsupported
from tidemill.model.paths import local_path
from tidemill.model.schema import Table, names_of
from tidemill.sources.ingest.frames import check_names

__all__ = ["NULL_PARTITION", "FileListing", "ListedFile", "files_below", "is_hidden", "list_files"]

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value in a folder's name that stands for NULL."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file to be read, and the columns in the names of its folders, as text."""

    file: Path
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FileListing:
    """The files of some paths, and the files and folders among them that are not read."""

    files: tuple[ListedFile, ...]
    skipped: tuple[Path, ...]


def list_files(paths: Sequence[str | Path], table: Table | None) -> FileListing:
    """The files of ``paths``, in order. Without a ``table`` there are no columns, and partitions are refused."""
    files: list[ListedFile] = []
    skipped: list[Path] = []
    for path in chain.from_iterable(map(_expanded, map(local_path, paths))):
        found = sorted(_walk(path, skipped)) if path.is_dir() else [path]
        if not found:
            raise _empty(path, [item for item in skipped if item.is_relative_to(path)])
        files += _partitioned(path, found, table)
    return FileListing(tuple(files), tuple(skipped))


def _expanded(path: Path) -> list[Path]:
    """The path itself, or the files and folders that fit a pattern with ``*``, ``?``, ``[...]`` or ``**``, in order."""
    if path.exists():
        return [path]
    found = sorted(map(Path, glob(str(path), recursive=True))) if has_magic(str(path)) else []
    visible = [one for one in found if not is_hidden(one.name)]
    if not visible:
        fits = "no file fits the pattern" if has_magic(str(path)) else "there is no such file"
        raise SetupError(fits, where=str(path))
    return [one for one in visible if not any(above in visible for above in one.parents)]


def files_below(folder: Path) -> list[Path]:
    """The files below a folder that Spark would read, in order; there may be none."""
    return sorted(_walk(folder, []))


def is_hidden(name: str) -> bool:
    """True if Spark would also skip a file or folder of this name.

    >>> [is_hidden(name) for name in ("_SUCCESS", ".part-0.crc", "_day=1", "part-0.csv")]
    [True, True, False, False]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _walk(folder: Path, skipped: list[Path]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if is_hidden(entry.name):
                skipped.append(path)
            elif entry.is_dir(follow_symlinks=False):
                yield from _walk(path, skipped)
            elif entry.is_file():
                yield path
            else:
                kind = "a link to a folder" if entry.is_symlink() and entry.is_dir() else "neither a file nor a folder"
                raise SetupError("not all of a folder can be read", where=str(path), detail=f"This is {kind}.")


def _empty(path: Path, skipped: Sequence[Path]) -> SetupError:
    names = ", ".join(sorted(item.name for item in skipped)[:5])
    return SetupError(
        "there is nothing to read in the folder",
        where=str(path),
        detail=f"Skipped, as Spark does: {names}." if skipped else "It is empty.",
        hint="Names that begin with a dot or an underscore are skipped; name such a file itself to read it."
        if skipped
        else None,
    )


def _partitioned(path: Path, files: Iterable[Path], table: Table | None) -> list[ListedFile]:
    """The files with their partition columns; all files of one path must have the same ones."""
    above = _naming_columns(path.parts, table)
    listed = [ListedFile(file, _values([*above, *file.parts[len(path.parts) : -1]], file, table)) for file in files]
    for one in listed:
        if one.values.keys() != listed[0].values.keys():
            raise BadValue(
                "files of one folder are partitioned in different ways",
                where=str(path),
                detail=f"{_said(listed[0], path)}, and {_said(one, path)}.",
                hint="Load them one after the other.",
            )
    return listed


def _said(listed: ListedFile, path: Path) -> str:
    by = f"by {', '.join(listed.values)}" if listed.values else "not at all"
    return f'"{listed.file.relative_to(path)}" {by}'


def _naming_columns(parts: Iterable[str], table: Table | None) -> list[str]:
    """The folders in a path that name columns of the table; others are plain folders."""
    names = names_of(table.fields) if table is not None else ()
    return [part for part in parts if part.partition("=")[0].lower() in names]


def _values(parts: Iterable[str], file: Path, table: Table | None) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for part in parts:
        name, equals, text = part.partition("=")
        if not equals:
            continue
        if table is None:
            raise Unsupported("nested records cannot be read from a partitioned folder", where=str(file))
        if not name or not text:
            raise BadValue(f'"{part}" is no partition', where=str(file), hint="Partitions are column=value.")
        column = _decoded(name, file).lower()
        if column in values:
            raise BadValue(f'column "{column}" comes twice among the folders of a file', where=str(file))
        values[column] = None if text == NULL_PARTITION else _decoded(text, file)
    if table is not None:
        _require_columns(values, file, table)
    return values


def _require_columns(values: Mapping[str, str | None], file: Path, table: Table) -> None:
    try:
        check_names(values, table)
    except TidemillError as error:
        error.where = str(file)
        raise


def _decoded(text: str, file: Path) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise BadValue(f'"{text}" is not UTF-8', where=str(file), detail=str(error)) from None
