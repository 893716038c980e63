"""Tables that a pipeline reads and does not make: folders by their paths, and tables of Spark's session catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tidemill.model.errors import UnknownName, Unsupported
from tidemill.model.types import Field
from tidemill.serving.pipelines.project import Name, Place, Project
from tidemill.sources.lake.columns import fields_of_schema
from tidemill.sources.lake.registry import LAKE_FORMATS, checked_place, open_lake_table

__all__ = ["ExternalTable", "file_table", "is_file_table", "session_table"]

TEXT_TYPES = {"int", "integer", "bigint", "long", "double", "string", "boolean"}
"""Types of columns of CSV and JSON files that are read as Spark reads them."""


@dataclass(frozen=True)
class ExternalTable:
    """A lake table by its format and location; ``declared`` columns in SQL if it does not tell them itself."""

    name: str
    format: str
    location: str
    declared: str = ""

    @property
    def statement(self) -> str:
        """The statement that makes it a table of a warehouse."""
        columns = f" ({self.declared})" if self.declared else ""
        return f"CREATE TABLE {self.name}{columns} USING {self.format} LOCATION '{_escaped(self.location)}'"

    def fields(self) -> tuple[Field, ...] | None:
        """Its columns, as its newest version has them; None if they are declared."""
        if self.declared:
            return None
        return fields_of_schema(open_lake_table(self.format, self.location, {}).schema(), self.location)


def is_file_table(parts: tuple[str, ...]) -> bool:
    """True for names such as ``delta.`/lake/orders` ``; with a schema it is a third part."""
    return len(parts) > 1 and parts[0].lower() in LAKE_FORMATS and bool(re.search(r"[/\\:.]", parts[1]))


def file_table(parts: tuple[str, ...], place: Place) -> ExternalTable:
    """The table of the files at a path."""
    format, declared = parts[0].lower(), parts[2] if len(parts) > 2 else ""
    if format in ("csv", "json"):
        _require_plain(declared, format, place)
    location, _ = checked_place(format, parts[1], {})
    mark = sha256(f"{format} {location} {declared}".encode()).hexdigest()[:8]
    stem = re.sub(r"\W", "_", location.rstrip("/").rsplit("/", 1)[-1]).lower()
    return ExternalTable(f"{format}_{stem}_{mark}", format, location, declared)


def _require_plain(declared: str, format: str, place: Place) -> None:
    types = {part.strip().split()[-1].strip("`").lower() for part in declared.split(",")} if declared else {""}
    if not types <= TEXT_TYPES:
        raise Unsupported(
            f"{format} files are read with a schema of {', '.join(sorted(TEXT_TYPES))} only",
            where=place,
            detail="Spark reads other types by rules of its own.",
            hint="Read them as STRING, and cast them in the query.",
        )


def session_table(project: Project, name: Name, place: Place) -> ExternalTable:
    """A table of Spark's session catalog, found by the folder that it keeps it in."""
    folder = Path(project.folder(name))
    if not folder.is_dir():
        known = ", ".join(sorted(project.shown(one) for one in project.datasets))
        raise UnknownName(
            f'there is no table "{project.shown(name)}"',
            where=place,
            detail=f"The pipeline does not define it, and there is no folder {folder}.",
            hint=f"The pipeline defines {known}. Name a table elsewhere by its path: delta.`/lake/orders`.",
        )
    format = "delta" if (folder / "_delta_log").is_dir() else "iceberg" if (folder / "metadata").is_dir() else "parquet"
    return ExternalTable(project.inner(name), format, str(folder.resolve()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
