"""Logs: changes that are stored and that nobody sums, of views that are only subscribed to and of streams.

Those of a view are kept for subscribers, for so many epochs; those of a stream until all late views have seen them.
"""

from __future__ import annotations

from collections.abc import Collection

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View
from tidemill.storage.store import Store

LOG_ROWS = 1_000_000
"""About so many rows of a log are held in memory, where its view has no option ``keep``."""


class ChangeLogs:
    """How far back the changes of each view go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forgotten: dict[str, int] = {}

    def reach(self, view: View) -> int:
        """The epoch after which the changes of a view are kept."""
        return max(view.reach(self._store.oldest, self._store.epoch), self._forgotten.get(view.name, 0))

    def trim(self, catalog: Catalog, oldest: int = 0) -> None:
        """Let go of the changes that logs need not keep any longer; ``oldest`` is the first epoch that stays.

        A late view that has not seen the changes of one keeps them there.
        """
        oldest = max(oldest, self._store.oldest)
        for log in catalog.view_index.subscribe_only:
            behind = catalog.unread_epochs(log.name)
            until = min([log.reach(oldest, self._store.epoch), *behind])
            most = None if behind or "keep" in log.options else LOG_ROWS
            self._forgotten[log.name] = self._store.trim(log.name, until, most)
        for table in catalog.tables.values():
            if not table.kept and self._store.rows(table.name):
                self._store.trim(table.name, min(catalog.unread_epochs(table.name), default=self._store.epoch))

    def forget(self, view: str) -> None:
        """A view is gone."""
        self._forgotten.pop(view, None)

    def keep(self, views: Collection[str]) -> None:
        """All views are gone but these."""
        for name in self._forgotten.keys() - set(views):
            self.forget(name)
