"""The package ``pyiceberg``: what is used of it, how tables are opened, and its errors as ours.

Keys and passwords come from the environment and from the package's own configuration. They are neither stored nor told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tidemill.model.errors import HistoryGone, SetupError, SourceLost, TidemillError, Unsupported
from tidemill.model.redaction import redacted

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
    from pyiceberg.table import FileScanTask, StaticTable, Table
    from pyiceberg.utils.config import Config
except ModuleNotFoundError as missing:
    raise SetupError(
        "Iceberg tables need the package pyiceberg", detail=str(missing), hint="pip install 'tidemill[iceberg]'"
    ) from missing

__all__ = [
    "AlwaysTrue",
    "ArrowScan",
    "Catalog",
    "FileScanTask",
    "Table",
    "configured_catalog",
    "open_table",
    "schema_to_pyarrow",
    "told",
    "translated",
]

_PROPERTIES = {
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "adls.account-name": ("AZURE_STORAGE_ACCOUNT_NAME",),
    "adls.account-key": ("AZURE_STORAGE_ACCOUNT_KEY",),
}
"""Settings of object stores that the package does not look for in the environment by itself."""


VERSION_HINT = "version-hint.text"
"""The file that says which metadata file of a folder is the current one."""

_UNTOUCHED = {"init_catalog_tables": "false"}
"""A database that is no catalog stays as it is: the package would make its tables there."""


def open_table(location: str, options: Mapping[str, str]) -> Table:
    """The table that a catalog has at ``location``; without a catalog that of a metadata file or a folder."""
    file, name = options.get("catalog"), options.get("catalog_name")
    if file is None and name is None:
        return _static_table(location)
    found = _sqlite_catalog(file, name or "default") if file else configured_catalog(str(name), _UNTOUCHED)
    with closing(found) as catalog:
        return catalog.load_table(location)


def _static_table(location: str) -> Table:
    """The table of a metadata file, or of a folder with a version hint.

    Without a hint nobody knows the current metadata file: that with the highest number may be of a commit that failed.
    """
    try:
        return StaticTable.from_metadata(location, _settings())
    except FileNotFoundError as error:
        if VERSION_HINT not in str(error):
            raise
        raise SetupError(
            f"the folder has no {VERSION_HINT}",
            where=location,
            detail="It says which metadata file is the current one, and only tables without a catalog have it.",
            hint="Name the catalog: OPTIONS (catalog = '...') or (catalog_name = '...'), or give a metadata file.",
        ) from error


def _sqlite_catalog(file: str, name: str) -> Catalog:
    if not Path(file).is_file():
        raise SetupError("there is no such catalog", where=file, hint="It is the SQLite file of a SQL catalog.")
    return SqlCatalog(name, uri=f"sqlite:///{file}", **_settings(), **_UNTOUCHED)


def configured_catalog(name: str, settings: Mapping[str, str] | None = None) -> Catalog:
    """The catalog of that name in the package's configuration, with ``settings`` for what that does not say.

    The configuration is read anew: the environment may have changed.
    """
    configured = Config()
    found = configured.get_catalog_config(name)
    if found is None:
        known = ", ".join(sorted(configured.get_known_catalogs()))
        raise SetupError(
            f'no Iceberg catalog is called "{name}"',
            detail=f"Configured are: {known}." if known else "None is configured.",
            hint=f"Add it to .pyiceberg.yaml, or set PYICEBERG_CATALOG__{name.upper()}__URI in the environment.",
        )
    return load_catalog(name, **(_settings() | dict(settings or {}) | found))


def _settings() -> dict[str, str]:
    """Settings of object stores in the environment."""
    found = {name: _first(variables) for name, variables in _PROPERTIES.items()}
    if found["s3.endpoint"] and not found["s3.region"]:
        found["s3.region"] = "us-east-1"  # or else AWS is asked, which does not know buckets of others
    return {name: value for name, value in found.items() if value is not None}


def _first(variables: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Context in which errors of the package become ours."""
    try:
        yield
    except TidemillError:
        raise
    except NoSuchTableError as error:
        raise SetupError("there is no Iceberg table", where=location, detail=told(error)) from error
    except FileNotFoundError as error:
        raise HistoryGone("a file of the Iceberg table is gone", where=location, detail=told(error)) from error
    except Exception as error:  # of the package, of its catalog and of its files: their kinds are not documented
        if "equality deletes" in str(error):
            raise Unsupported(
                "the Iceberg table has equality deletes, which are not supported",
                where=location,
                hint="Rewrite its data files without them (CALL system.rewrite_data_files).",
            ) from error
        raise SourceLost("the Iceberg table cannot be read", where=location, detail=told(error)) from error


def told(error: Exception) -> str:
    """The text of an error, without what the environment and the configuration keep secret."""
    return redacted(str(error), {**os.environ, **dict(_leaves(Config().config))})


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield name, str(value)
