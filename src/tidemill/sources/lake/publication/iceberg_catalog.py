"""Catalogs of Iceberg tables that views are published as, and errors of the package ``pyiceberg`` as ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.model.errors import SetupError, SourceLost, TidemillError
from tidemill.sources.lake.iceberg_package import Catalog, configured_catalog, told

try:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.snapshots import ancestors_of
except ImportError as missing:
    raise SetupError(
        "publishing as Iceberg needs the package pyiceberg, 0.11 or later",
        detail=str(missing),
        hint="pip install -U 'tidemill[iceberg]'",
    ) from missing

__all__ = ["Conflict", "Table", "create_table", "find_table", "opened_catalog", "snapshots_back", "translated"]

Conflict = (CommitFailedException, TableAlreadyExistsError)
"""Errors of a commit that came after that of somebody else."""

CODEC = "write.metadata.compression-codec"
"""The property that says how metadata files are compressed, which the package leaves to us."""

PROPERTIES = {
    "format-version": "2",
    CODEC: "gzip",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
"""Properties of published tables: metadata files that no snapshot needs do not pile up."""


class _Catalog(SqlCatalog):  # type: ignore[misc]
    """A catalog that compresses the metadata files of tables that ask for it."""

    def _update_and_stage_table(self, *given: Any, **named: Any) -> StagedTable:
        staged = super()._update_and_stage_table(*given, **named)
        if staged.properties.get(CODEC) == "gzip":
            staged.metadata_location = staged.metadata_location.removesuffix(_PLAIN) + f".gz{_PLAIN}"
        return staged


_PLAIN = ".metadata.json"


@contextmanager
def opened_catalog(path: str | None, name: str) -> Iterator[Catalog]:
    """The catalog of that name in an SQLite file, or without one in the configuration of the package."""
    with closing(configured_catalog(name) if path is None else _sqlite_catalog(path, name)) as catalog:
        yield catalog


def _sqlite_catalog(path: str, name: str) -> Catalog:
    """The SQL catalog in a file, made with its folder if there is none; tables without a place go beside it."""
    folder = path.rpartition("/")[0]
    Path(folder).mkdir(parents=True, exist_ok=True)
    return _Catalog(name, uri=f"sqlite:///{path}", warehouse=f"file://{folder}")


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Context in which errors of the package become ours, but for ``Conflict``."""
    try:
        yield
    except (TidemillError, *Conflict):
        raise
    except Exception as error:  # of the package, of its catalog and of its files: their kinds are not documented
        raise SourceLost("the Iceberg table cannot be written", where=location, detail=told(error)) from error


def find_table(catalog: Catalog, location: str) -> Table | None:
    """The table of this name, if there is one."""
    try:
        return catalog.load_table(location)
    except NoSuchTableError:
        return None


def create_table(catalog: Catalog, location: str, rows: pa.Table, properties: Mapping[str, str]) -> Table:
    """Create a table with rows, in one commit."""
    catalog.create_namespace_if_not_exists(location.rpartition(".")[0])
    with catalog.create_table_transaction(location, schema=rows.schema, properties=PROPERTIES) as transaction:
        transaction.append(rows, snapshot_properties=dict(properties))
    return catalog.load_table(location)


def snapshots_back(table: Table) -> Iterator[Mapping[str, str]]:
    """Summaries of the snapshots of a table, from the current one back."""
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        yield snapshot.summary.additional_properties if snapshot.summary else {}
