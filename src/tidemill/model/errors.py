"""All errors, as one tree. Every error says what, where, why and what next.

TidemillError
├── SqlError                the text of a statement is at fault
│   ├── ParseError            it is not SQL that we read
│   ├── UnknownName           a table, view, column or function that is not there
│   ├── NameTaken             a table or view of that name exists already
│   ├── TypeMismatch          an expression whose types do not fit together
│   └── Unsupported           it is SQL, but cannot be maintained (or not by this strategy)
├── DataError               a change is refused; its epoch leaves everything as it was
│   ├── BadValue              a value that does not fit its column
│   ├── NullViolation         NULL in a NOT NULL column
│   ├── CheckViolation        a row of which a CHECK of its table is false
│   ├── DuplicateKey          a second row with the same primary key or UNIQUE values
│   ├── MissingRow            a row that leaves without ever having arrived
│   ├── DanglingReference     a reference to a row or object that is not there, or would no longer be
│   ├── ArithmeticFault       overflow, division by zero, an impossible cast
│   └── OutOfBudget           an epoch that needs more memory than the warehouse may use
├── StorageError            the warehouse folder
│   ├── LockHeld              another writer has it
│   ├── Corrupt               a file is missing or its checksum differs
│   ├── FormatMismatch        written by a newer Tidemill
│   ├── CommitUnknown         a commit that the disk may or may not have: opening again tells
│   └── EpochGone             that epoch was vacuumed, or is still to come
│       └── FellBehind          a subscriber asks for changes that are no longer kept
├── SourceError             a database or lake table that somebody else runs
│   ├── SourceLost            it cannot be reached, or no longer does what was agreed
│   ├── HistoryGone           a lake table that no longer has its history from the version taken on
│   └── SourceSlow            it did not answer a query in the time allowed
├── Cancelled               a statement that was ended before it committed, by somebody or by its time limit
├── NotAllowed              a user has no right to what was asked for
├── SetupError              Java, Spark or an optional package is not available
├── InvalidArgument         a call from Python with an argument of the wrong kind
├── Busy                    a server that has too much to do: ask again later
└── InternalError           a fault of Tidemill itself, with a report to send
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "AppendOnlyViolation",
    "ArithmeticFault",
    "BadValue",
    "Busy",
    "Cancelled",
    "CheckViolation",
    "CommitUnknown",
    "Conflict",
    "Corrupt",
    "DanglingReference",
    "DataError",
    "DuplicateKey",
    "EpochGone",
    "FellBehind",
    "FormatMismatch",
    "HistoryGone",
    "InternalError",
    "InvalidArgument",
    "LockHeld",
    "MissingRow",
    "NameTaken",
    "NotAllowed",
    "NullViolation",
    "OutOfBudget",
    "ParseError",
    "SetupError",
    "SourceError",
    "SourceLost",
    "SourceSlow",
    "SqlError",
    "StillBuilding",
    "StorageError",
    "TextLocation",
    "TidemillError",
    "TransactionState",
    "TypeMismatch",
    "UnknownName",
    "Unsupported",
]


EXCERPT = 160
"""As many characters of a line are shown at most."""


@dataclass(frozen=True, slots=True)
class TextLocation:
    """A place in a text: file or statement name, line and column from 1, the line itself, how much to underline."""

    name: str
    line: int
    column: int
    text: str = ""
    length: int = 1

    def __str__(self) -> str:
        spot = f"{self.name}:{self.line}:{self.column}"
        if not self.text:
            return spot
        excerpt = self.text[self.column - 1 :].rstrip()
        excerpt = excerpt if len(excerpt) <= EXCERPT else f"{excerpt[:EXCERPT]}..."
        underline = "^" * max(1, min(self.length, len(excerpt)))
        return f"{spot}   {excerpt}\n{' ' * (len(spot) + 3)}{underline}"


class TidemillError(Exception):
    """The root: four fields that the command line, HTTP and the console render alike.

    >>> print(MissingRow("a row leaves that never arrived", where="orders (1, 'ann')").render())
    error: a row leaves that never arrived
      orders (1, 'ann')
    """

    def __init__(
        self, what: str, *, where: TextLocation | str | None = None, detail: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.detail = detail
        self.hint = hint

    def render(self) -> str:
        """The error as people read it: what, where, why, what next."""
        lines = [f"error: {self.what}"]
        if self.where is not None:
            lines += [f"  {line}" for line in str(self.where).splitlines()]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render().removeprefix("error: ")


class SqlError(TidemillError):
    """The text of a statement is at fault."""


class ParseError(SqlError):
    """The text is not SQL that we read."""


class UnknownName(SqlError):
    """A table, view, column or function that is not there."""


class StillBuilding(UnknownName):
    """A view that is being built in the background: nothing of it is shown before all of it is there."""


class NameTaken(SqlError):
    """A table or view of that name exists already."""


class TypeMismatch(SqlError):
    """An expression whose types do not fit together."""


class Unsupported(SqlError):
    """SQL that cannot be maintained, or not by the strategy that was asked for."""


class TransactionState(SqlError):
    """BEGIN, COMMIT or ROLLBACK where it has no meaning, or a statement of a transaction that has failed."""


class DataError(TidemillError):
    """A change is refused; its epoch leaves everything as it was."""


class BadValue(DataError):
    """A value that does not fit its column."""


class NullViolation(DataError):
    """NULL in a NOT NULL column."""


class CheckViolation(DataError):
    """A row of which a CHECK of its table is false."""


class DuplicateKey(DataError):
    """A second row with the same primary key, or with the same values of columns that are UNIQUE."""


class AppendOnlyViolation(DataError):
    """A row that is deleted from a table or stream that is APPEND ONLY, or updated there."""


class MissingRow(DataError):
    """A row that leaves without ever having arrived."""


class DanglingReference(DataError):
    """A reference to a row or an object that is not there, or that would no longer be there."""


class Conflict(DataError):
    """A transaction or query has read what was changed since."""


class ArithmeticFault(DataError):
    """Overflow, division by zero, or a cast that cannot be done."""


class OutOfBudget(DataError):
    """The epoch would need more memory than the warehouse may use."""


class StorageError(TidemillError):
    """The warehouse folder cannot be used as asked."""


class LockHeld(StorageError):
    """Another writer has the warehouse."""


class Corrupt(StorageError):
    """A file is missing or its checksum differs."""


class FormatMismatch(StorageError):
    """The folder was written by a newer Tidemill."""


class CommitUnknown(StorageError):
    """The disk may or may not have a commit, so the warehouse is closed; opening it again reads what is there."""


class EpochGone(StorageError):
    """That epoch was vacuumed, or is still to come."""


class FellBehind(EpochGone):
    """A subscriber asks for changes that are no longer kept: it saw ``seen``, and can go on from ``resume``."""

    def __init__(self, view: str, seen: int, resume: int, epoch: int) -> None:
        super().__init__(
            f'the changes of "{view}" after epoch {seen} are no longer kept',
            where=f"{view}, after epoch {seen}",
            detail=f"Epoch {seen} is the last that was seen. Those after {resume} are kept, those between are gone.",
            hint=f'Take a fresh copy, wh.at({epoch}).view("{view}"), and subscribe with since={epoch}.',
        )
        self.seen = seen
        self.resume = resume


class SourceError(TidemillError):
    """A database that somebody else runs does not do its part."""


class SourceLost(SourceError):
    """The source cannot be reached for too long, or no longer does what was agreed."""


class HistoryGone(SourceError):
    """A lake table no longer has what is between the version that was taken and the newest one."""


class SourceSlow(SourceError):
    """The source did not answer a query in the time allowed, however often it was asked."""


class Cancelled(TidemillError):
    """A statement that was ended before it committed, by another thread or because it took too long."""


class NotAllowed(TidemillError):
    """A user has no right to what was asked for."""


class SetupError(TidemillError):
    """Java, Spark or an optional package is not available."""


class InvalidArgument(TidemillError):
    """A function or method was called with an argument of the wrong kind."""


class Busy(TidemillError):
    """A server has too much to do, or too much waits already: nothing was begun, and it may be asked again."""


class InternalError(TidemillError):
    """A fault of Tidemill itself; ``report`` is what helps to find it, and holds no rows and no passwords."""

    report: str = ""

    def reported(self, report: str) -> None:
        """Take in a report, as the detail that users see and send."""
        self.report = report
        self.detail = report
        self.hint = "This is a fault in Tidemill. Please send the report to the project's issue tracker."
