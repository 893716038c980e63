"""Open transactions: changes that wait for their COMMIT, and what they have read.

A transaction belongs to the thread that began it. Nothing of it is in any runtime or in the store before its COMMIT,
which applies the sum of its changes as one epoch; so a ROLLBACK, an error or a killed process leaves nothing. Nobody
waits for it: what it has read must be unchanged when it reads again and when it commits, or it is refused. So its reads
are those of one epoch, and all transactions are as if one had run after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from threading import get_ident

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Conflict, TransactionState
from tidemill.model.types import Field

__all__ = ["OpenTransactions", "PendingTransaction"]


class PendingTransaction:
    """The changes of a transaction by table, in order; ``failed`` once one of its statements was refused."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.failed = False
        self.positions: dict[str, str] = {}
        self._changes: dict[str, list[ChangeSet]] = {}
        self._summed: dict[str, ZSet] = {}
        self._read: set[str] = set()
        self._committed: set[str] = set()

    def add(self, changes: Mapping[str, ChangeSet], positions: Mapping[str, str]) -> None:
        """Add the changes of one statement."""
        for name, change in changes.items():
            self._changes.setdefault(name, []).append(change)
            self._summed.pop(name, None)
        self.positions |= positions

    @property
    def tables(self) -> Iterable[str]:
        """The tables that it has changed."""
        return self._changes.keys()

    def fields_of(self, table: str) -> tuple[Field, ...]:
        """The columns of a table that it has changed."""
        return self._changes[table][0].fields

    def change_of(self, table: str) -> ZSet:
        """The sum of its changes of a table; empty if there are none."""
        if table not in self._changes:
            return ZSet()
        if table not in self._summed:
            self._summed[table] = ZSet.summed(pair for one in self._changes[table] for pair in one.pairs())
        return self._summed[table]

    def changes(self) -> dict[str, ChangeSet]:
        """The sum of all its changes, table by table; one that came alone stays in its form."""
        return {
            name: some[0] if len(some) == 1 else ChangeSet.of(self.change_of(name).items(), some[0].fields)
            for name, some in self._changes.items()
        }

    def note_read(self, names: Iterable[str]) -> None:
        """Note that it reads tables and views; refused if another transaction has changed one of them."""
        self._read.update(names)
        self.require_unchanged()

    def note_commit(self, epoch: Epoch) -> None:
        """Note what an epoch of others has changed."""
        self._committed.update(epoch.changes, epoch.dropped, epoch.altered, epoch.renamed)

    def require_unchanged(self) -> None:
        """Refuse to go on if something that was read has changed since."""
        changed = sorted(self._read & self._committed)
        if changed:
            self.failed = True
            raise Conflict(
                f'"{changed[0]}" has changed since the transaction began',
                detail="Another epoch was committed meanwhile. Nothing of the transaction is applied.",
                hint="Run the whole transaction again.",
            )

    def require_sound(self) -> None:
        """Refuse to go on after a statement that was refused."""
        if self.failed:
            raise TransactionState(
                "the transaction has failed",
                detail="One of its statements was refused, so nothing of it will be applied.",
                hint="End it with ROLLBACK, and begin again.",
            )


class OpenTransactions:
    """The open transactions of a warehouse, at most one for each thread."""

    def __init__(self) -> None:
        self.by_thread: dict[int, PendingTransaction] = {}
        """Empty most of the time, which is all that other work looks at."""

    def mine(self) -> PendingTransaction | None:
        """The transaction of this thread, if it has one."""
        found = self.by_thread.get(get_ident())
        if found is not None and found.thread is not threading.current_thread():
            del self.by_thread[get_ident()]  # of a thread that has ended, whose number this one has now
            return None
        return found

    def begin(self) -> PendingTransaction:
        """Begin a transaction of this thread."""
        if self.mine() is not None:
            raise TransactionState("a transaction is open already", hint="COMMIT or ROLLBACK it first.")
        begun = self.by_thread[get_ident()] = PendingTransaction()
        return begun

    def end(self) -> PendingTransaction:
        """End the transaction of this thread, and return it; what becomes of its changes is up to the caller."""
        found = self.mine()
        if found is None:
            raise TransactionState("no transaction is open", hint="Write BEGIN first.")
        del self.by_thread[get_ident()]
        return found

    def note_commit(self, epoch: Epoch) -> None:
        """Tell all of them what an epoch has changed."""
        for transaction in list(self.by_thread.values()):
            transaction.note_commit(epoch)
