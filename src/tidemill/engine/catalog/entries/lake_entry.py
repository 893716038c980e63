"""The catalog entry of a lake table: its format, its location, and when its changes are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.engine.catalog.refresh_mode import MANUAL, sync_interval
from tidemill.model.errors import DataError, Unsupported

__all__ = ["ADD", "REBUILD", "REFUSE", "LakeEntry"]

REFUSE, ADD, REBUILD = "refuse", "add", "rebuild"
ROWS, NONE = "rows", "none"

WITH_SCHEMA = ("delta", "iceberg")
"""The formats in which a version has one set of columns."""

LAKE_OPTIONS = {
    "sync": "continuous, manual or every N seconds, minutes, hours",
    "on_history_gone": f"{REFUSE} or {REBUILD}: what to do if the history from the version taken on is gone",
    "on_schema_change": f"{REFUSE}, {ADD} or {REBUILD}: what to do if the columns have changed",
    "keep": f"{ROWS} or {NONE}: what the warehouse keeps of the table, beside what views need",
    "catalog": "the SQLite file of an Iceberg catalog",
    "catalog_name": "the name of that catalog, or of one that pyiceberg's configuration has",
}


@dataclass(frozen=True)
class LakeEntry:
    """Catalog entry of a lake table: the rows of table ``name`` are those of the newest version that was taken.

    With ``declared`` columns, columns that the lake table gets later are left out.
    """

    name: str
    format: str
    location: str
    options: Mapping[str, str]
    declared: bool = False

    def __post_init__(self) -> None:
        known = "; ".join(f"{key}: {values}" for key, values in LAKE_OPTIONS.items())
        for option in self.options.keys() - LAKE_OPTIONS.keys():
            raise Unsupported(
                f'lake table "{self.name}" has an unknown option "{option}"', hint=f"Options are {known}."
            )
        if self.options.get("on_history_gone", REFUSE) not in (REFUSE, REBUILD):
            raise Unsupported(
                f'"{self.options["on_history_gone"]}" is no value of the option on_history_gone',
                hint=f"'{REFUSE}' or '{REBUILD}'",
            )
        self._require_keep()
        self._require_schema_change()
        sync_interval(self.options)

    def _require_schema_change(self) -> None:
        """Refuse a value of on_schema_change that there is not, or not for this table."""
        wanted = self.on_schema_change
        if wanted not in (REFUSE, ADD, REBUILD):
            raise Unsupported(
                f'"{wanted}" is no value of the option on_schema_change', hint=f"'{REFUSE}', '{ADD}' or '{REBUILD}'"
            )
        reason = ""
        if self.declared:
            reason = "Its columns are named: those that are added later are left out."
        elif not self.keeps_rows:
            reason = "Its rows are not kept, so there are none to give other columns to."
        elif self.format not in WITH_SCHEMA:
            reason = "The columns of a folder are those of its first file, or declared."
        if wanted != REFUSE and reason:
            raise Unsupported(f"lake table \"{self.name}\" cannot have on_schema_change = '{wanted}'", detail=reason)

    @property
    def on_schema_change(self) -> str:
        """The option ``on_schema_change``: the reaction to changed columns of the lake table."""
        return self.options.get("on_schema_change", REFUSE)

    def _require_keep(self) -> None:
        if self.options.get("keep", ROWS) not in (ROWS, NONE):
            raise Unsupported(f'"{self.options["keep"]}" is no value of the option keep', hint=f"'{ROWS}' or '{NONE}'")
        if self.rebuilds and not self.keeps_rows:
            raise Unsupported(
                f'lake table "{self.name}" cannot be rebuilt, since its rows are not kept',
                detail="What differs from the newest version is found by comparing it with the rows that are kept.",
                hint=f"Leave out on_history_gone, or keep = '{NONE}'.",
            )

    @property
    def keeps_rows(self) -> bool:
        """True if the rows are stored; else they are read from the lake where they are needed."""
        return self.options.get("keep", ROWS) == ROWS

    @property
    def sync(self) -> str:
        """The option ``sync``: when changes are taken."""
        return self.options.get("sync", MANUAL)

    @property
    def rebuilds(self) -> bool:
        """True if a table whose history is gone is compared with its newest version as a whole."""
        return self.options.get("on_history_gone") == REBUILD

    @property
    def position(self) -> str:
        """The name of the position that stores the last version taken."""
        return f"lake:{self.name}"

    @property
    def clause(self) -> str:
        """The clauses of CREATE TABLE that make a table a lake table."""
        given = "".join(f", {key} = {_literal(text)}" for key, text in self.options.items())
        options = f" OPTIONS ({given[2:]})" if given else ""
        return f" USING {self.format}{options} LOCATION {_literal(self.location)}"

    def not_changed_here(self) -> DataError:
        """The error for a change of its rows that does not come from the lake table."""
        return DataError(
            f'table "{self.name}" cannot be changed here',
            where=self.location,
            detail=f"Its rows are those of a {self.format} table.",
            hint=f"Change that one, and REFRESH TABLE {self.name}.",
        )

    def not_altered_here(self) -> Unsupported:
        """The error for a change of its columns that does not come from the lake table."""
        return Unsupported(
            f'table "{self.name}" cannot be altered here',
            where=self.location,
            detail=f"Its columns are those of a {self.format} table.",
            hint="Change that one; the option on_schema_change says what happens then.",
        )

    def to_json(self) -> dict[str, Any]:
        """The entry in the form that the catalog stores."""
        item = {"name": self.name, "format": self.format, "location": self.location, "options": dict(self.options)}
        return item | ({"declared": True} if self.declared else {})

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> LakeEntry:
        """The entry from its stored form."""
        return cls(item["name"], item["format"], item["location"], item["options"], item.get("declared", False))


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
