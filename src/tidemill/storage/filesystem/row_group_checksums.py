"""Checksums of the row groups of a Parquet file: they tell which rows of a damaged file are intact."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow.parquet as pq


def row_group_checksums(file: Path, footer: pq.FileMetaData) -> tuple[int, ...]:
    """The checksum of each row group of a file, followed by one of all bytes outside of them."""
    rest, at, sums = 0, 0, list[int]()
    with file.open("rb") as stream:
        for begin, end in _places(footer):
            rest = zlib.crc32(stream.read(max(begin - at, 0)), rest)
            stream.seek(begin)
            sums.append(zlib.crc32(stream.read(max(end - begin, 0))))
            at = end
        rest = zlib.crc32(stream.read(), rest)
    return (*sums, rest)


def _places(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    """The byte range of each row group; they are contiguous."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [[group.column(number) for number in range(group.num_columns)] for group in groups]
    starts = [[_start(chunk) for chunk in group] for group in chunks]
    ends = [
        [start + chunk.total_compressed_size for start, chunk in zip(begin, group, strict=True)]
        for begin, group in zip(starts, chunks, strict=True)
    ]
    return [(min(begin), max(end)) for begin, end in zip(starts, ends, strict=True)]


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    first = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if first is None else min(first, chunk.data_page_offset))
