"""The format and the compression of a file, by its name or else by its first bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

import pyarrow as pa

from tidemill.model.errors import Unsupported

__all__ = ["FORMATS", "format_of", "opened", "plain_suffix"]

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
"""File format by extension."""

COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd", ".bz2": "bz2"}
"""Compression by extension."""

_FIRST_BYTES = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}


def plain_suffix(path: Path) -> str:
    """The extension of a file without that of its compression.

    >>> plain_suffix(Path("orders.CSV.gz")), plain_suffix(Path("orders.txt"))
    ('.csv', '.txt')
    """
    name = Path(path.stem) if path.suffix.lower() in COMPRESSIONS else path
    return name.suffix.lower()


def format_of(path: Path, format: str | None) -> str:
    """The format of a file: as given, or by its extension, or by what it begins with."""
    suffix = plain_suffix(path)
    kind = format or FORMATS.get(suffix) or (_guessed(path) if suffix in ("", ".txt", ".dat", ".data") else suffix)
    if kind not in FORMATS.values():
        known = ", ".join(sorted(set(FORMATS.values())))
        raise Unsupported(f'there is no reader for "{kind}" files', where=str(path), hint=f"Formats: {known}.")
    return kind


def _guessed(path: Path) -> str:
    with opened(path) as (_, file):
        start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    return "parquet" if start[:4] == b"PAR1" else "json" if start[:1] == b"{" else "csv"


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, IO[bytes]]]:
    """A file as it is stored, whose position tells how much was read, and its bytes as they were compressed."""
    with ExitStack() as stack:
        stored = stack.enter_context(path.open("rb"))
        start = stored.read(4)
        stored.seek(0)
        kind = next((one for begin, one in _FIRST_BYTES.items() if start.startswith(begin)), None)
        if kind is None:
            yield stored, stored
            return
        stream = stack.enter_context(pa.CompressedInputStream(pa.PythonFile(stored, "r"), kind))
        yield stored, io.BufferedReader(cast(io.RawIOBase, stream))
