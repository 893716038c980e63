"""Classes of objects on the command line: declared and listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tidemill
from tidemill.model.errors import SetupError

if TYPE_CHECKING:
    from tidemill.engine.objects.database import Objects
    from tidemill.engine.warehouse import Warehouse

__all__ = ["CLASS_COLUMNS", "declare_classes", "list_classes"]

CLASS_COLUMNS: Sequence[str] = ("class", "extends", "extent", "keys", "objects")


def declare_classes(wh: Warehouse, file: Path | None) -> Objects:
    """The objects of a warehouse, with the classes that a file declares."""
    if file is not None and not file.is_file():
        raise SetupError("there is no such file", where=str(file))
    return tidemill.objects(wh, file)


def list_classes(db: Objects) -> Iterator[tuple[str, str | None, str | None, str | None, int | None]]:
    """The classes, each with its parent, extent, keys and number of objects."""
    for found in db.schema.classes.values():
        keys = ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in found.keys)
        count = len(db.extent(found.extent)) if found.extent is not None else None
        yield found.name, found.parent, found.extent, keys or None, count
