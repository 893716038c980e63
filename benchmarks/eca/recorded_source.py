"""A source that does what it is told, when it is told: for tests, in which every order of events must be tried.

``commit`` is the event S_up of the ECA paper and ``answer`` is S_qu. What the warehouse receives, and when, is up to
who calls ``receive``, so that a test can put S_up, S_qu, W_up and W_ans into any order that section 3 allows: messages
go in order in each direction. It counts what the paper counts: messages, bytes of answers, and pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import count

from benchmarks.eca.page_model import PageModel, ProbedRelations
from tidemill.changes.zset import ZSet
from tidemill.model.errors import EpochGone
from tidemill.model.schema import Table
from tidemill.sources.remote_queries.signed_query import SignedQuery
from tidemill.sources.source import Answered, Committed, Message, Position, Traffic


class RecordedSource:
    """Relations in memory. Positions count transactions, from ``"0"``.

    ``prompt``: queries are answered as soon as ``receive`` finds nothing else to tell. ``row_bytes`` is the paper's S,
    what one row of an answer weighs, term by term; ``pages`` is how terms are read, and ``pages_read`` what they took.
    """

    def __init__(
        self,
        name: str,
        tables: Mapping[str, Table],
        rows: Mapping[str, ZSet] | None = None,
        *,
        prompt: bool = False,
        row_bytes: int = 4,
        pages: PageModel | None = None,
    ) -> None:
        self.name = name
        self.traffic = Traffic()
        self.pages_read = 0
        self.contents = ProbedRelations({table: (rows or {}).get(table, ZSet()) for table in tables})
        self._tables = dict(tables)
        self._prompt = prompt
        self._row_bytes = row_bytes
        self._pages = pages
        self._log: list[Committed] = []
        self._forgotten = 0
        self._numbers = count(1)
        self._asked: deque[tuple[int, SignedQuery]] = deque()
        self._sent: deque[Message] = deque()

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables, by name."""
        return self._tables

    @property
    def position(self) -> Position:
        """The state that it is in."""
        return str(len(self._log))

    @property
    def unanswered(self) -> int:
        """How many queries have come and wait for ``answer``."""
        return len(self._asked)

    @property
    def unread(self) -> int:
        """How many messages are under way to the warehouse."""
        return len(self._sent)

    def commit(self, changes: Mapping[str, ZSet]) -> Position:
        """S_up: carry out a transaction and tell of it; the state that it leads to."""
        self.contents.apply(changes)
        self._log.append(Committed(changes, str(len(self._log) + 1)))
        self._sent.append(self._log[-1])
        return self.position

    def answer(self) -> None:
        """S_qu: answer the query that has waited longest, in the present state."""
        number, query = self._asked.popleft()
        rows, received = ZSet(), 0
        for term in query.terms:
            self.contents.probes.clear()
            part = self.contents.rows(query.view, term)
            rows.update_by(part)
            received += self._row_bytes * sum(map(abs, part.values()))
            self.pages_read += self._pages.read(self.contents.probes) if self._pages else 0
        self.traffic.answers += 1
        self.traffic.bytes += received
        self._sent.append(Answered(number, rows, self.position, received))

    def start(self, since: Position | None) -> Position:
        """Tell again all that was committed after ``since``, or what comes from now on; nothing stays asked."""
        after = len(self._log) if since is None else int(since)
        if after < self._forgotten:
            raise EpochGone(
                f'source "{self.name}" no longer knows what came after position {after}',
                detail=f"It was told to forget everything up to {self._forgotten}.",
                hint="Load the view again.",
            )
        self._asked.clear()
        self._sent = deque(self._log[after:])
        return str(after)

    def ask(self, query: SignedQuery, timeout: float | None = None) -> int:
        """Take a query; it is answered when ``answer`` says so."""
        number = next(self._numbers)
        self._asked.append((number, query))
        self.traffic.queries += 1
        return number

    def describe(self, query: SignedQuery) -> str:
        """The query as the paper writes it: all of it is evaluated here."""
        return f"asked of {self.name}: {query}"

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message that is under way, if there is one."""
        if self._prompt and self._asked and not self._sent:
            self.answer()
        if not self._sent:
            return None
        message = self._sent.popleft()
        self.traffic.notifications += isinstance(message, Committed)
        return message

    def forget(self, upto: Position) -> None:
        """Nobody will ask for what came before ``upto``."""
        self._forgotten = max(self._forgotten, int(upto))

    def close(self) -> None:
        """Nothing to let go of."""
