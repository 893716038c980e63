"""Subscriptions: the changes of a view, epoch by epoch, as they happen."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from tidemill.engine.boundary import public_class
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.catalog.views.view import View, unpublished_error
from tidemill.engine.quarantine.notes import tell_reader
from tidemill.engine.subscriptions.change_batches import ChangeBatch, ChangeSource, require_reach, stored_batches
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.engine.subscriptions.row_filter import Where, parse_where
from tidemill.model.errors import EpochGone, SetupError
from tidemill.program.joingraph import Serve

DEFAULT_BUFFER_ROWS = 1_000_000
"""Number of changed rows queued in memory for the slowest subscriber of a view; older ones it reads from the store."""

BATCH_FORMS = ("rows", "arrow")
"""Forms in which subscribers read batches. With ``arrow`` columns are passed on unchanged, and no rows are built."""

MAX_EPOCHS_PER_READ = 1024
"""Largest number of epochs read from the store at once."""


class Subscribable(ChangeSource, Protocol):
    """The interface of a warehouse for subscriptions."""

    publisher: Publisher

    @property
    def poll_seconds(self) -> float | None:
        """Seconds between two checks for commits of another process; None if there can be none."""

    def settled(self) -> AbstractContextManager[None]:
        """Hold the warehouse exclusively, at its last commit."""

    def flush(self) -> None:
        """Commit the open epoch of events."""

    def poll(self) -> bool:
        """Read commits of another process; True if there was one."""


@public_class
class Subscription:
    """Iterator over one ``ChangeBatch`` for each epoch that changes the view, in order.

    Ends when the warehouse is closed, when the view is dropped, or when nothing came for ``timeout`` seconds; after a
    timeout, ``next`` waits again. ``epoch`` is where to resume: everything up to it has been delivered.

    >>> import tidemill
    >>> with tidemill.open(":memory:") as wh:
    ...     _ = wh.sql("CREATE TABLE t (a INT)")
    ...     _ = wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    ...     sevens = wh.subscribe("v", where={"a": 7})
    ...     _ = wh.apply({"t": [(+1, (7,)), (+1, (8,))]})
    ...     _ = wh.apply({"t": [(+1, (7,))]})
    ...     next(sevens).inserts, next(sevens).updates, sevens.epoch
    ([(7, 1)], [((7, 1), (7, 2))], 2)
    """

    def __init__(
        self,
        source: Subscribable,
        view: str,
        *,
        since: int | None = None,
        timeout: float | None = None,
        where: Where | None = None,
        buffer: int = DEFAULT_BUFFER_ROWS,
        form: str = "rows",
        visible: Callable[[ChangeBatch], ChangeBatch] | None = None,
        notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        if form not in BATCH_FORMS:
            raise SetupError(f'there is no form "{form}"', hint=f"Use one of {', '.join(BATCH_FORMS)}.")
        with source.settled():
            self._view = source.catalog.view(view)
            if self._view.serve is Serve.READ:
                raise unpublished_error(self._view.name, f'view "{self._view.name}" cannot be subscribed to')
            self._where = None if not where else parse_where(where, self._view.fields, self._view.name)
            now = source.store.epoch
            self._seen = now if since is None else since
            require_reach(source, self._view, self._seen)
            if self._seen > now:
                raise EpochGone(f"epoch {since} is still to come", detail=f"The last one is {now}.")
            self._key = key_of_view(self._view, source.catalog)
            fields, name = self._view.fields, self._view.name
            self._inbox = source.publisher.join(name, fields, self._seen, now, self._where, max(buffer, 1))
        self._source = source
        self._visible = visible
        self._publications = source.publisher
        self._timeout = timeout
        self._buffer = max(buffer, 1)
        self._arrow = form == "arrow"
        self._found: deque[ChangeBatch] = deque()
        self._read = self._seen
        self._step = 1
        self._look_for_notes, self.notes = notes, tuple[str, ...]()
        """Notes about the view: one that is in quarantine does not show all changes of its tables."""
        self._note()
        # A subscription that is garbage collected without being closed must be removed.
        weakref.finalize(self, self._publications.abandon, self._inbox)

    @property
    def epoch(self) -> int:
        """The epoch to resume from: changes up to it have been delivered."""
        if self._found:
            return self._seen
        return self._publications.position(self._inbox, max(self._seen, self._read))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChangeBatch:
        deadline = None
        while not self._inbox.ended:
            batch = self._next_batch()
            self._note()
            if batch is not None:
                self._seen, batch.notes = batch.epoch, self.notes
                if self._visible is not None:
                    batch = self._visible(batch)
                    if not batch.changes:
                        continue
                # Inserts and deletes of the same row cancel; with columns they are not summed.
                if self._arrow or batch.changes:
                    return batch
                continue
            if self._publications.closed:
                break
            if self._inbox.behind:
                self._catch_up()
                continue
            if deadline is None and self._timeout is not None:
                deadline = time.monotonic() + self._timeout
            if self._timeout == 0 or not self._wait(deadline):
                break
        raise StopIteration

    def _note(self) -> None:
        """Tell the subscriber what the view does not show, once until that changes."""
        notes = self._look_for_notes()
        if notes != self.notes:
            self.notes = notes
            tell_reader(notes)

    @property
    def ended(self) -> bool:
        """True once nothing comes any more: it or the warehouse is closed, or its view is dropped or replaced."""
        return self._inbox.ended or self._publications.closed

    def on_ready(self, call: Callable[[], object]) -> None:
        """Have ``call`` called now, and whenever there may be a batch or the subscription has ended.

        Other threads call it while they hold a lock: it must only take note, and what it raises is lost. With
        ``timeout=0`` the subscription can then be iterated without a wait, so that one thread follows any number of
        them.
        """
        with self._inbox.wake:
            self._inbox.on_ready = call
        self._inbox.call()

    def close(self) -> None:
        """End the subscription, and wake a thread that waits for its next batch."""
        self._publications.leave(self._inbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _next_batch(self) -> ChangeBatch | None:
        if self._found:
            return self._found.popleft()
        if not self._inbox.waiting:
            if not self._inbox.behind:
                # Events fed one by one are committed when they are read.
                self._source.flush()
            if not self._inbox.waiting:
                return None
        taken = self._publications.take(self._inbox)
        return None if taken is None else ChangeBatch(*taken, self._key)

    def _catch_up(self) -> None:
        """Read a few epochs from the store; more at once as long as they are small."""
        if not self._is_current():
            self.close()
            return
        read = max(self._read, self._seen, self._inbox.since)
        until = min(read + self._step, self._publications.published)
        if until <= read:
            self._publications.caught_up(self._inbox, read)
            return
        self._found.extend(stored_batches(self._source, self._view, read, until, self._where))
        self._read = until
        rows = sum(batch.rows for batch in self._found)
        self._step = min(2 * self._step, MAX_EPOCHS_PER_READ) if 4 * rows < self._buffer else max(self._step // 2, 1)

    def _is_current(self) -> bool:
        """True if the view still exists, with the columns that were subscribed to."""
        view = self._source.catalog.find(self._view.name)
        if not isinstance(view, View) or view.fields != self._view.fields:
            return False
        self._view = view
        return True

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a new epoch, or until the deadline; true if the deadline has not passed."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        pause = self._source.poll_seconds
        if pause is not None:
            left = pause if left is None else min(left, pause)
        with self._inbox.wake:
            if not (self._inbox.waiting or self._inbox.behind or self._inbox.ended or self._publications.closed):
                self._inbox.awaited = True
                self._inbox.wake.wait(left)
        if pause is not None:
            self._source.poll()
        return True
