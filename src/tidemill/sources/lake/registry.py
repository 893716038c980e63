"""Lake tables by format, as ``CREATE TABLE orders USING delta LOCATION '...'`` names it."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.model.errors import Unsupported
from tidemill.sources.lake.lake_table import LakeTable

__all__ = ["FILE_FORMATS", "LAKE_FORMATS", "open_lake_table"]


def open_lake_table(format: str, location: str) -> LakeTable:
    """The lake table at ``location``, at its newest version."""
    if format not in LAKE_FORMATS:
        known = ", ".join(LAKE_FORMATS)
        raise Unsupported(f'tables of format "{format}" cannot be read', where=location, hint=f"Formats: {known}.")
    return LAKE_FORMATS[format](location)


def _delta(location: str) -> LakeTable:
    from tidemill.sources.lake.delta_table import DeltaTable

    return DeltaTable(location)


def _folder(format: str) -> Callable[[str], LakeTable]:
    def open_folder(location: str) -> LakeTable:
        from tidemill.sources.lake.folder_table import FolderTable

        return FolderTable(location, format)

    return open_folder


FILE_FORMATS = ("csv", "json", "parquet")
"""The formats of plain folders of files."""

LAKE_FORMATS: dict[str, Callable[[str], LakeTable]] = {"delta": _delta} | {one: _folder(one) for one in FILE_FORMATS}
"""The function that opens a table of each format."""
