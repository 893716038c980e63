"""Errors as PostgreSQL's clients read them: a SQLSTATE, and the place, the reason and the way out."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.model import errors as e
from tidemill.model.errors import TextLocation, TidemillError

__all__ = ["Cancelled", "PgError", "error_fields", "notice_fields", "sqlstate_of"]


class PgError(TidemillError):
    """A refusal of this door itself, with a SQLSTATE of its own; ``position`` is an offset in the statement."""

    def __init__(
        self,
        sqlstate: str,
        what: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(what, detail=detail, hint=hint)
        self.sqlstate = sqlstate
        self.position = position


class Cancelled(PgError):
    """A statement that its user has cancelled."""

    def __init__(self, why: str = "the statement was cancelled at its user's request") -> None:
        super().__init__("57014", why)


SQLSTATES: tuple[tuple[type[TidemillError], str], ...] = (
    (e.ParseError, "42601"),
    (e.StillBuilding, "55000"),
    (e.UnknownName, "42P01"),
    (e.NameTaken, "42P07"),
    (e.TypeMismatch, "42804"),
    (e.Unsupported, "0A000"),
    (e.TransactionState, "25P02"),
    (e.SqlError, "42000"),
    (e.BadValue, "22000"),
    (e.NullViolation, "23502"),
    (e.CheckViolation, "23514"),
    (e.DuplicateKey, "23505"),
    (e.DanglingReference, "23503"),
    (e.AppendOnlyViolation, "23000"),
    (e.MissingRow, "23000"),
    (e.Conflict, "40001"),
    (e.ArithmeticFault, "22003"),
    (e.OutOfBudget, "53200"),
    (e.DataError, "22000"),
    (e.LockHeld, "55006"),
    (e.Corrupt, "XX001"),
    (e.CommitUnknown, "08007"),
    (e.EpochGone, "55000"),
    (e.StorageError, "58030"),
    (e.SourceError, "08006"),
    (e.SetupError, "55000"),
    (e.InvalidArgument, "22023"),
    (e.InternalError, "XX000"),
)
"""The SQLSTATE of each class of errors; the first that fits counts."""

_BY_NAME = {"NotAllowed": "42501", "Busy": "53300", "Cancelled": "57014", "TimedOut": "57014"}
"""Classes that other layers add: they are known by their names."""

_WORDS = (
    ("42P01", 'column "', "42703"),
    ("42P01", "column ", "42703"),
    ("42P01", 'function "', "42883"),
    ("42P01", "function ", "42883"),
    ("42P01", "parameter", "42P02"),
    ("22003", "division by zero", "22012"),
    ("22003", "divi", "22012"),
    ("22003", "cast", "22P02"),
)
"""Finer classes, told by what an error speaks of."""


def sqlstate_of(error: BaseException) -> str:
    """The SQLSTATE of an error.

    >>> [sqlstate_of(one) for one in (e.UnknownName('there is no column "a"'), e.DuplicateKey("twice"), OSError())]
    ['42703', '23505', 'XX000']
    """
    if isinstance(error, PgError):
        return error.sqlstate
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_NAME:
            return _BY_NAME[kind.__name__]
    if not isinstance(error, TidemillError):
        return "XX000"
    state = next((state for kind, state in SQLSTATES if isinstance(error, kind)), "XX000")
    told = error.what.lower()
    return next((finer for coarse, word, finer in _WORDS if coarse == state and word in told), state)


def error_fields(error: BaseException, *, severity: str = "ERROR", position: int | None = None) -> Mapping[str, str]:
    """The fields of an error message; ``position`` counts characters of the query from 1."""
    fields = {"S": severity, "V": severity, "C": sqlstate_of(error)}
    if not isinstance(error, TidemillError):
        fields["M"] = "a fault in Tidemill"  # an exception may hold values, so its text is not told
        return fields
    fields["M"] = error.what
    where = error.where if isinstance(error.where, str) else None
    detail = "\n".join(part for part in (error.detail, where) if part)
    if detail:
        fields["D"] = detail
    if error.hint:
        fields["H"] = error.hint
    if position is not None:
        fields["P"] = str(position)
    elif isinstance(error.where, TextLocation):
        fields["W"] = str(error.where)
    return fields


def notice_fields(severity: str, sqlstate: str, what: str, hint: str | None = None) -> Mapping[str, str]:
    """The fields of a notice or a warning."""
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": what}
    return fields if hint is None else fields | {"H": hint}
