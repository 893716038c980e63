"""Change logs: stored changes that are never summed, of subscribe-only views and of streams.

Those of a view are kept for subscribers, for a number of epochs; those of a stream until all deferred views have read
them.
"""

from __future__ import annotations

from collections.abc import Collection

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.storage.store import Store

LOG_ROWS = 1_000_000
"""Approximate number of rows of a log that are held in memory if its view has no option ``keep``."""


class ChangeLogs:
    """The stored range of changes of each view."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forgotten: dict[str, int] = {}

    def reach(self, view: View) -> int:
        """The epoch after which the changes of a view are kept."""
        return max(view.reach(self._store.oldest, self._store.epoch), self._forgotten.get(view.name, 0))

    def trim(self, catalog: Catalog, oldest: int = 0) -> None:
        """Release the changes that logs need not keep any longer; ``oldest`` is the first epoch that stays.

        Changes that a deferred view has not read yet are kept.
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
        """Remove a dropped view."""
        self._forgotten.pop(view, None)

    def keep(self, views: Collection[str]) -> None:
        """Remove all views but these."""
        for name in self._forgotten.keys() - set(views):
            self.forget(name)
