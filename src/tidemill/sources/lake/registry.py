"""Lake tables by format, as ``CREATE TABLE orders USING delta LOCATION '...'`` names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemill.model.errors import Unsupported
from tidemill.model.paths import local_path
from tidemill.sources.lake.lake_table import LakeTable
from tidemill.sources.lake.location import checked_location
from tidemill.sources.lake.publication.epochs_table import EpochsTable
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.lake_publication import LakePublication, Place

__all__ = [
    "CATALOG_OPTIONS",
    "LAKE_FORMATS",
    "LakeFormat",
    "checked_place",
    "open_epochs",
    "open_lake_table",
    "open_publication",
]


Options = Mapping[str, str]


def open_lake_table(format: str, location: str, options: Options) -> LakeTable:
    """The lake table at ``location``, at its newest version."""
    return _known(format).open(location, options)


def checked_place(format: str, location: str, options: Options) -> tuple[str, dict[str, str]]:
    """Location and options of a table in full, as they are stored; wrong ones are refused."""
    return _known(format).check(location, dict(options))


def open_publication(place: Place, name: str, owner: str, write: str, derived: Path | None = None) -> LakePublication:
    """The lake table that the view ``name`` is published as.

    To be merged it needs a folder of this machine, for what is ``derived`` from its files.
    """
    keys = None if derived is None else KeyIndex(derived)
    if place.catalog is not None:
        from tidemill.sources.lake.publication.iceberg_publication import IcebergPublication

        return IcebergPublication(place, place.catalog, name, owner, keys, write)
    from tidemill.sources.lake.publication.delta_publication import DeltaPublication

    return DeltaPublication(place, name, owner, keys, write)


def open_epochs(place: Place) -> EpochsTable:
    """The table that says which versions of published tables show the same epoch."""
    if place.catalog is not None:
        from tidemill.sources.lake.publication.iceberg_epochs import IcebergEpochs

        return IcebergEpochs(place.location, place.catalog)
    from tidemill.sources.lake.publication.delta_epochs import DeltaEpochs

    return DeltaEpochs(place.location)


@dataclass(frozen=True)
class LakeFormat:
    """A format of lake tables: how a table is opened, and how its place is checked."""

    open: Callable[[str, Options], LakeTable]
    check: Callable[[str, dict[str, str]], tuple[str, dict[str, str]]]


def _known(format: str) -> LakeFormat:
    if format not in LAKE_FORMATS:
        raise Unsupported(
            f'tables of format "{format}" cannot be read', hint=f"Formats: {', '.join(sorted(LAKE_FORMATS))}."
        )
    return LAKE_FORMATS[format]


def _open_delta(location: str, options: Options) -> LakeTable:
    from tidemill.sources.lake.delta_table import DeltaTable

    return DeltaTable(location)


def _open_iceberg(location: str, options: Options) -> LakeTable:
    from tidemill.sources.lake.iceberg_table import IcebergTable

    return IcebergTable(location, options)


def _open_folder(format: str, location: str, options: Options) -> LakeTable:
    from tidemill.sources.lake.folder_table import FolderTable

    return FolderTable(location, format)


def _check_path(location: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    for name in CATALOG_OPTIONS:
        if name in options:
            raise Unsupported(f'the option "{name}" is for Iceberg tables', hint="Leave it out.")
    return checked_location(location), options


def _check_iceberg(location: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """A name in a catalog, which is a file, stored with its full path, or known by its name; or a location."""
    if not any(name in options for name in CATALOG_OPTIONS):
        return _check_path(location, options)
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)+", location):
        raise Unsupported(
            "a table in a catalog is called by its namespace and name",
            where=location,
            hint="LOCATION 'sales.orders'",
        )
    if "catalog" not in options:
        return location, options
    catalog = str(local_path(options["catalog"], "catalog").resolve())
    if "?" in catalog:
        raise Unsupported("the path of a catalog cannot have a question mark", where=catalog)
    return location, options | {"catalog": catalog}


CATALOG_OPTIONS = ("catalog", "catalog_name")
"""Options that say in which catalog an Iceberg table is."""

_FILES = {one: LakeFormat(partial(_open_folder, one), _check_path) for one in ("csv", "json", "parquet")}

LAKE_FORMATS: dict[str, LakeFormat] = _FILES | {
    "delta": LakeFormat(_open_delta, _check_path),
    "iceberg": LakeFormat(_open_iceberg, _check_iceberg),
}
"""Formats by name."""
