"""A session: one user's transactions, temporary views and variables in a warehouse that others use, too."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from tidemill.engine.access.rights import rights_of
from tidemill.engine.boundary import public_class
from tidemill.engine.calls.in_session import inherited_in_session
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.engine import Engine
from tidemill.engine.relation_reads import RelationReads
from tidemill.engine.results import Result
from tidemill.engine.row_changes import RowChanges, Transaction

__all__ = ["Session"]


@public_class
@inherited_in_session
class Session(RowChanges, RelationReads):
    """A session of a warehouse: the same methods, for one user.

    Any thread may use it, one at a time; others wait. What it gives out (tables, views, prepared texts) belongs to it.
    """

    SHOWN_AS = "Session"
    FOR_EVERYBODY = frozenset(
        (
            *("prepare", "in_transaction", "apply", "upsert", "delete", "epoch"),
            *("table", "view", "tables", "views", "at", "subscribe"),
        )
    )
    FOR_OWNERS = frozenset({"load"})

    def __init__(self, engine: Engine, state: SessionState) -> None:
        super().__init__()
        self._engine = engine
        self._session: SessionState = state
        weakref.finalize(self, engine.transactions.abandon, state)

    @property
    def user(self) -> str | None:
        """The user, if there is one."""
        return self._session.user

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the user has."""
        return self._session.roles

    @property
    def is_owner(self) -> bool:
        """True if it may do everything."""
        return rights_of(self._session, self._engine.catalog).is_owner

    @property
    def reads_all(self) -> bool:
        """True if it may read all tables and views: only then may a server tell it of costs, plans and state."""
        return rights_of(self._session, self._engine.catalog).reads_all

    def conditions(self, relation: str) -> tuple[str, ...] | None:
        """The conditions of which a row of a table or view must meet one to be seen; none if all rows are seen.

        None if it may see no row. Whoever gives out rows for longer asks again: rights may have changed.
        """
        return rights_of(self._session, self._engine.catalog).conditions("SELECT", relation.lower())

    @property
    def name(self) -> str:
        """Where the session comes from."""
        return self._session.name

    @property
    def timeout(self) -> float | None:
        """The seconds that a statement may take; None for any number."""
        return self._session.timeout

    def set_timeout(self, seconds: float | None) -> None:
        """Set how many seconds a statement may take, from the next one on; None for any number."""
        self._session.timeout = seconds

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        name: str = "sql",
        each: Callable[[Result], None] | None = None,
        **parameters: Any,
    ) -> Result:
        """Run a script of statements, as ``Warehouse.sql`` does."""
        calls, told = self._engine.calls, each
        if each is not None:
            heard = each

            def told(result: Result) -> None:
                calls.outside(lambda: heard(result))

        run = super().sql
        return self._engine.run_in(self._session, lambda: run(text, args, name=name, each=told, **parameters))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Make all changes of the block one epoch, as ``Warehouse.transaction`` does; any thread may make them."""
        run, block = self._engine.run_in, super().transaction()
        transaction = run(self._session, block.__enter__)
        try:
            yield transaction
        except BaseException as error:
            failed = error
            run(self._session, lambda: block.__exit__(type(failed), failed, failed.__traceback__))
            raise
        run(self._session, lambda: block.__exit__(None, None, None))

    def cancel(self) -> bool:
        """End the statement that runs, from another thread: there it raises ``Cancelled``, and has changed nothing.

        Returns false if none runs, or if it has committed: then it ends as if it had not been cancelled.
        """
        return self._engine.calls.cancel(self._session, "the statement was cancelled")

    def close(self) -> None:
        """End the session: a statement that runs is cancelled, and an open transaction is rolled back."""
        self._engine.calls.cancel(self._session, "the session was closed")
        with self._session.lock:
            self._session.closed = True
            self._engine.transactions.abandon(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
