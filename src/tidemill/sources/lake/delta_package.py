"""The package ``deltalake``: what is used of it, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidemill.model.errors import SetupError, SourceLost, TidemillError

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
except ModuleNotFoundError as missing:
    raise SetupError(
        "Delta tables need the package deltalake", detail=str(missing), hint="pip install 'tidemill[delta]'"
    ) from missing

__all__ = [
    "CommitProperties",
    "DeltaError",
    "DeltaStorageHandler",
    "DeltaTable",
    "Transaction",
    "first_line",
    "translated",
    "write_deltalake",
]


@contextmanager
def translated(location: str, done: str = "read") -> Iterator[None]:
    """Context in which errors of the package become ours: the table at ``location`` cannot be read, or written."""
    try:
        yield
    except TidemillError:
        raise
    except TableNotFoundError as error:
        raise SetupError("there is no Delta table", where=location, detail=first_line(error)) from error
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        raise SourceLost(f"the Delta table cannot be {done}", where=location, detail=first_line(error)) from error


def first_line(error: Exception) -> str:
    """The first line of an error; the others are for those who wrote the package."""
    return str(error).partition("\n")[0]
