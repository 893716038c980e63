"""A SQLite file as an autonomous source. It needs no server, and its writers need not know of us.

Any connection of any process may write; the outbox is filled by triggers in the file itself. A poll is one read
transaction over outbox and tables. In WAL mode it blocks no writer; with a rollback journal a writer's commit waits
until the poll is over.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tidemill.model.errors import EpochGone, SetupError, SourceLost
from tidemill.sources.polled_source import PendingQuery, PolledSource
from tidemill.sources.remote_queries.dialects import SQLITE
from tidemill.sources.remote_queries.local_evaluation import evaluate_locally
from tidemill.sources.remote_queries.render_sql import AnswerReader
from tidemill.sources.source import Answered, Committed, Message, Position
from tidemill.sources.sqlite.catalog import decoder, read_tables
from tidemill.sources.sqlite.outbox import SqliteOutbox

__all__ = ["SqliteSource"]

_STEPS = 20_000
"""Number of virtual machine steps of SQLite between two checks of the clock: about a millisecond."""


class SqliteSource(PolledSource):
    """A SQLite file. Positions are ids of its outbox; all that is new in a poll is one notification.

    ``tables`` names those in use, or all. ``setup='create'`` allows creating outbox and triggers in the file.
    ``reader`` is our name among several warehouses that read one outbox.
    """

    def __init__(
        self,
        name: str,
        path: str | Path,
        *,
        tables: Iterable[str] | None = None,
        columns: Mapping[str, Collection[str]] | None = None,
        setup: str = "exists",
        reader: str | None = None,
        poll: float = 0.02,
        patience: float = 30.0,
        query_timeout: float | None = None,
    ) -> None:
        super().__init__(name, SQLITE, query_timeout)
        self._path = Path(path)
        self._poll = poll
        self._connection = self._connect(patience)
        try:
            in_use = self._use(read_tables(self._connection), tables, columns)
            self._outbox = SqliteOutbox(self._connection, reader or name, in_use)
            if setup == "create":
                self._outbox.create()
            self._outbox.check()
        except sqlite3.Error as error:
            self.close()
            raise self._lost(error) from error
        except BaseException:
            self.close()
            raise
        self._position = self._outbox.newest()

    def __repr__(self) -> str:
        return f"SqliteSource({self.name!r}, {str(self._path)!r})"

    def start(self, since: Position | None) -> Position:
        """Begin after ``since``, or now."""
        if since is not None and not since.isdecimal():
            raise EpochGone(f"{since!r} is no position of a SQLite source", hint="Fill the views again.")
        with self._guarded():
            self._position = self._outbox.start(None if since is None else int(since))
        self._asked.clear()
        self._messages.clear()
        return str(self._position)

    def forget(self, upto: Position) -> None:
        """Release changes up to here in the outbox, unless another reader needs them."""
        with self._guarded():
            self._outbox.forget(int(upto))

    def close(self) -> None:
        """Close the file; outbox and triggers stay."""
        self._connection.close()

    def remove(self) -> None:
        """Remove from the file what it keeps for this source, for DROP SOURCE."""
        with self._guarded():
            self._outbox.remove()
        self.close()

    def _look(self, asked: Sequence[PendingQuery]) -> list[Message]:
        messages: list[Message] = []
        with self._guarded():
            self._connection.execute("BEGIN")
            try:
                changes, last = self._outbox.read(self._position)
                position = str(last)
                messages += [Committed(changes, position)] if changes else []
                messages += [answer for one in asked if (answer := self._answer(one, position)) is not None]
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        self._position = last
        return messages

    def _answer(self, asked: PendingQuery, position: Position) -> Answered | None:
        """The answer, or None if it takes too long."""
        asking = self._plan(asked.query.view)
        columns = asking.columns
        decoders = [decoder(columns[name].field.type) for name in asking.fetched]
        incoming = AnswerReader(asking, decoders, lambda value: len(str(value).encode()))
        deadline = time.monotonic() + (asked.timeout or math.inf)
        self._connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
        try:
            for statement in asking.statements(asked.query):
                incoming.take(self._connection.execute(statement.sql, statement.parameters))
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            asked.late += 1
            return None
        finally:
            self._connection.set_progress_handler(None, 0)
        incoming.total.update_by(evaluate_locally(asked.query))
        return Answered(asked.number, incoming.total, position, incoming.received)

    def _wait(self, seconds: float) -> None:
        """Wait until the outbox has grown, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._guarded():
            while not self._asked and (left := deadline - time.monotonic()) > 0:
                if self._outbox.newest() > self._position:
                    return
                time.sleep(min(self._poll, left))

    def _connect(self, patience: float) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(self._path.absolute()))}?mode=rw",
                uri=True,
                timeout=patience,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.OperationalError as error:
            raise SetupError(
                f'source "{self.name}" cannot open its file', where=str(self._path), detail=str(error)
            ) from None
        # Bytes that are not UTF-8 become text that the type STRING refuses, with its position.
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        return connection

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._lost(error) from error

    def _lost(self, error: sqlite3.Error) -> SourceLost:
        return SourceLost(f'source "{self.name}" cannot be read', where=str(self._path), detail=str(error))
