"""Open transactions: changes that wait for their COMMIT, and what they have read.

A transaction belongs to the session that began it, and in the default session to the thread. Nothing of it is in any
runtime or in the store before its COMMIT, which applies the sum of its changes as one epoch; so a ROLLBACK, an error
or a killed process leaves nothing. Nobody waits for it: what it has read must be unchanged when it reads again and
when it commits, or it is refused. So its reads are those of one epoch, and all transactions are as if one had run
after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.engine.calls.running_calls import RunningCalls
from tidemill.model.errors import Conflict, TransactionState
from tidemill.model.types import Field

__all__ = ["OpenTransactions", "PendingTransaction"]


class PendingTransaction:
    """The changes of a transaction by table, in order; ``failed`` once one of its statements was refused."""

    def __init__(self) -> None:
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

    def require_sound(self, *, ended: bool = False) -> None:
        """Refuse to go on after a statement that was refused; a COMMIT has ended the transaction."""
        if self.failed:
            raise TransactionState(
                "the transaction has failed",
                detail="One of its statements was refused, so nothing of it will be applied.",
                hint="It has ended with this: BEGIN again." if ended else "End it with ROLLBACK, and begin again.",
            )


class OpenTransactions:
    """The open transactions of a warehouse, at most one for each session, or for each thread of the default one."""

    def __init__(self, calls: RunningCalls) -> None:
        self.by_owner: dict[object, PendingTransaction] = {}
        """Empty most of the time, which is all that other work looks at."""
        self._calls = calls

    def mine(self) -> PendingTransaction | None:
        """The transaction of this session or thread, if it has one."""
        return self.by_owner.get(self._calls.owner)

    def begin(self) -> PendingTransaction:
        """Begin a transaction of this session or thread."""
        if self.mine() is not None:
            raise TransactionState("a transaction is open already", hint="COMMIT or ROLLBACK it first.")
        for owner in list(self.by_owner):
            if isinstance(owner, threading.Thread) and not owner.is_alive():
                self.abandon(owner)
        begun = self.by_owner[self._calls.owner] = PendingTransaction()
        return begun

    def end(self) -> PendingTransaction:
        """End the transaction of this session or thread, and return it; its changes are up to the caller."""
        found = self.mine()
        if found is None:
            raise TransactionState("no transaction is open", hint="Write BEGIN first.")
        del self.by_owner[self._calls.owner]
        return found

    def abandon(self, owner: object) -> None:
        """Forget the transaction of a session or thread that has ended, if it has one."""
        self.by_owner.pop(owner, None)

    def note_commit(self, epoch: Epoch) -> None:
        """Tell all of them what an epoch has changed."""
        for transaction in list(self.by_owner.values()):
            transaction.note_commit(epoch)
