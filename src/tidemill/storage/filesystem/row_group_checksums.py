"""Checksums of the row groups of a Parquet file: they tell which rows of a damaged file are intact, and let a lookup
verify no more than it reads."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow.parquet as pq


def row_group_checksums(file: Path, footer: pq.FileMetaData) -> tuple[int, ...]:
    """The checksum of each row group of a file, followed by one of all bytes outside of them."""
    groups = range(footer.num_row_groups)
    return (*(row_group_checksum(file, footer, group) for group in groups), outside_checksum(file, footer))


def row_group_checksum(file: Path, footer: pq.FileMetaData, group: int) -> int:
    """The checksum of one row group."""
    begin, end = _place(footer.row_group(group))
    with file.open("rb") as stream:
        stream.seek(begin)
        return zlib.crc32(stream.read(max(end - begin, 0)))


def outside_checksum(file: Path, footer: pq.FileMetaData) -> int:
    """The checksum of all bytes outside of row groups: the footer, and the indexes of pages."""
    rest, at = 0, 0
    with file.open("rb") as stream:
        for begin, end in _places(footer):
            stream.seek(at)
            rest = zlib.crc32(stream.read(max(begin - at, 0)), rest)
            at = end
        stream.seek(at)
        return zlib.crc32(stream.read(), rest)


def _places(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    """The byte range of each row group; they are contiguous."""
    return [_place(footer.row_group(number)) for number in range(footer.num_row_groups)]


def _place(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """The byte range of a row group."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    return min(map(_start, chunks)), max(_start(chunk) + chunk.total_compressed_size for chunk in chunks)


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    first = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if first is None else min(first, chunk.data_page_offset))
