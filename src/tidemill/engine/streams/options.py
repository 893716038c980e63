"""Options of a stream: what its rows mean, and what becomes of bad ones."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.model.choices import require_choice
from tidemill.model.errors import InvalidArgument, Unsupported
from tidemill.model.schema import Table, names_of
from tidemill.model.types import BIGINT, STRING, Field

__all__ = ["ERROR_FIELDS", "StreamOptions", "errors_table"]

MODES = ("append", "upsert", "debezium")
ON_ERROR = ("refuse", "quarantine")

ERROR_FIELDS = (
    Field("stream", STRING),
    Field("batch", BIGINT),
    Field("reason", STRING),
    Field("row", STRING),
)
"""The columns of a table of bad rows; ``row`` is JSON."""


@dataclass(frozen=True)
class StreamOptions:
    """The rows of a stream are inserted (``append``), or replace the rows with their primary key (``upsert``).

    With ``debezium`` they are records of Kafka, which are decoded here.

    Of several upserts of a key the one with the greatest ``sequence_by`` counts. Rows for which the SQL condition
    ``delete_where`` is true delete the row of their key.
    """

    mode: str = "append"
    on_error: str = "refuse"
    sequence_by: str | None = None
    delete_where: str | None = None

    def __post_init__(self) -> None:
        for option, value, known in (("mode", self.mode, MODES), ("on_error", self.on_error, ON_ERROR)):
            require_choice(option, value, known)
        if self.mode == "debezium" and self.sets_aside:
            raise Unsupported(
                "records of Debezium cannot be set aside",
                detail="Each builds on those before it: without one, rows would differ from those of the database.",
                hint="Leave on_error out.",
            )
        if not self.upserts and (self.sequence_by or self.delete_where):
            raise InvalidArgument("sequence_by and delete_where are for upserts", hint="Give mode='upsert', too.")

    @property
    def upserts(self) -> bool:
        """True if rows replace those with their key."""
        return self.mode == "upsert"

    @property
    def sets_aside(self) -> bool:
        """True if a bad row does not stop the stream."""
        return self.on_error == "quarantine"

    def require_fit(self, table: Table) -> None:
        """Refuse upserts of a table whose rows cannot be replaced by key."""
        if self.upserts and (not table.primary_key or not table.kept or table.append_only):
            raise Unsupported(
                f'rows of "{table.name}" cannot be replaced by key',
                detail="Upserts are for tables with a PRIMARY KEY that are not APPEND ONLY.",
                hint="Declare the table so, or leave mode='upsert' out.",
            )


def errors_table(table: Table, existing: Table | None) -> Table:
    """The table of bad rows of ``table``: ``existing``, or one to be made."""
    wanted = Table(f"{table.name}_errors", ERROR_FIELDS)
    if existing is not None and names_of(existing.fields) != names_of(ERROR_FIELDS):
        raise InvalidArgument(
            f'bad rows of "{table.name}" would go to the table "{wanted.name}", which has other columns',
            detail=f"It needs the columns {', '.join(names_of(ERROR_FIELDS))}.",
            hint="Rename that table, or leave on_error='quarantine' out.",
        )
    return existing or wanted
