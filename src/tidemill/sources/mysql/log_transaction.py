"""A transaction of the binary log while it is read."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.changes.zset import Row, ZSet
from tidemill.model.errors import TidemillError
from tidemill.sources.mysql.position import LogPlace

__all__ = ["LogTransaction"]


class LogTransaction:
    """The rows so far, and the first thing about them that cannot be told. It begins at ``start``, and is a ``single``
    statement, or what comes up to a commit.

    >>> one = LogTransaction(("log.000001", 4))
    >>> one.note("orders", [((1,), 1)])
    >>> one.save("s")
    >>> one.note("orders", [((2,), 1)])
    >>> one.return_to("s")
    >>> one.changes()
    {'orders': ZSet({(1,): 1})}
    """

    def __init__(self, start: LogPlace, gtid: str = "", *, begun: bool = False, single: bool = True) -> None:
        self.start = start
        self.gtid = gtid
        self.begun = begun
        self.single = single
        self.trouble: TidemillError | None = None
        self._rows: list[tuple[str, Row, int]] = []
        self._savepoints: dict[str, int] = {}

    def note(self, table: str, rows: Iterable[tuple[Row, int]]) -> None:
        """Add the rows of an event. An unreadable row fails its own transaction, not those before."""
        if self.trouble is None:
            try:
                self._rows.extend((table.lower(), row, weight) for row, weight in rows)
            except TidemillError as error:
                self.trouble = error

    def save(self, name: str) -> None:
        """Set a savepoint."""
        self._savepoints[name.lower()] = len(self._rows)

    def return_to(self, name: str) -> None:
        """Take back the rows since a savepoint. The log has them where a table without transactions was written too."""
        del self._rows[self._savepoints.get(name.lower(), 0) :]

    def changes(self) -> dict[str, ZSet]:
        """The sum of the rows of each table that changes."""
        found: dict[str, ZSet] = {}
        for table, row, weight in self._rows:
            found.setdefault(table, ZSet()).add(row, weight)
        return {table: rows for table, rows in found.items() if rows}
