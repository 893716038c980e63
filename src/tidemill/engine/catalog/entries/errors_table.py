"""The table of the rows that a view cannot compute, ``v_errors``: it is made with the view, and goes with it."""

from __future__ import annotations

from tidemill.model.schema import Table
from tidemill.model.types import BIGINT, BINARY, STRING, Field

__all__ = ["ERRORS", "FAULT", "SKIPPED", "WAITS", "errors_table"]

ERRORS = "_errors"
"""Suffix of the name of the table of errors of a view."""

FAULT, WAITS, SKIPPED = "fault", "waits", "skipped"
"""A row that cannot be computed, a change of its group that waits for it, and a row that was given up."""

_FIELDS = (
    Field("epoch", BIGINT, nullable=False),
    Field("table_name", STRING, nullable=False),
    Field("row", STRING),
    Field("weight", BIGINT),
    Field("status", STRING, nullable=False),
    Field("reason", STRING, nullable=False),
    Field("release", STRING, nullable=False),
    Field("encoded", BINARY),
)


def errors_table(view: str) -> Table:
    """The table of errors of a view: ``row`` is JSON, ``encoded`` the same row as it is stored.

    >>> errors_table("v").name
    'v_errors'
    """
    return Table(view + ERRORS, _FIELDS)
