"""The catalog entry of a folder feed: its folder, its table, and its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.engine.catalog.refresh_mode import MANUAL, sync_interval
from tidemill.model.choices import nearest_choice
from tidemill.model.errors import Unsupported
from tidemill.sources.ingest.csv_options import CSV_OPTIONS, CsvOptions
from tidemill.sources.ingest.file_formats import FORMATS
from tidemill.sources.ingest.inbox import InboxFolder

__all__ = ["FeedEntry"]

ON_ERROR = ("refuse", "quarantine")

FEED_OPTIONS = {
    "sync": "continuous, manual or every N seconds, minutes, hours",
    "on_error": "refuse or quarantine: bad rows go to the table <table>_errors, and the rest of the file is taken",
    "format": f"{', '.join(sorted(set(FORMATS.values())))}; else the ending of a file tells",
    **CSV_OPTIONS,
}


@dataclass(frozen=True)
class FeedEntry:
    """Catalog entry of a feed: files that arrive in ``folder`` become changes of ``table``."""

    name: str
    table: str
    folder: str
    options: Mapping[str, str]

    def __post_init__(self) -> None:
        for option in self.options.keys() - FEED_OPTIONS.keys():
            known = "; ".join(f"{key}: {values}" for key, values in FEED_OPTIONS.items())
            raise Unsupported(f'feed "{self.name}" has an unknown option "{option}"', hint=f"Options are {known}.")
        if self.options.get("format", "csv") not in FORMATS.values():
            raise Unsupported(f'there is no reader for "{self.options["format"]}" files', hint=FEED_OPTIONS["format"])
        if self.on_error not in ON_ERROR:
            hint = nearest_choice(self.on_error, ON_ERROR)
            raise Unsupported(f'feed "{self.name}" has no on_error = "{self.on_error}"', hint=hint)
        sync_interval(self.options)
        self.csv  # noqa: B018  refuses values that it cannot have

    @property
    def csv(self) -> CsvOptions:
        """The options of CSV files."""
        return CsvOptions.of({name: text for name, text in self.options.items() if name in CSV_OPTIONS})

    @property
    def on_error(self) -> str:
        """The option ``on_error``: what becomes of bad rows."""
        return self.options.get("on_error", "refuse")

    @property
    def sync(self) -> str:
        """The option ``sync``: when files are ingested."""
        return self.options.get("sync", MANUAL)

    @property
    def position(self) -> str:
        """The name of the position that stores the last ingested file."""
        return f"feed:{self.name}"

    @property
    def arrivals(self) -> InboxFolder:
        """The folder in which new files wait."""
        return InboxFolder(Path(self.folder), self.options.get("format"))

    def to_json(self) -> dict[str, Any]:
        """The feed in the form that the catalog stores."""
        return {"name": self.name, "table": self.table, "folder": self.folder, "options": dict(self.options)}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> FeedEntry:
        """The feed from its stored form."""
        return cls(item["name"], item["table"], item["folder"], item["options"])
