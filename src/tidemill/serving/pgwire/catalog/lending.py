"""Lends the databases of the catalog: a user has one at a time, so that nobody waits for the queries of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidemill.serving.pgwire.catalog.database import CatalogDatabase

__all__ = ["CatalogDatabases"]

MOST_DATABASES = 4
"""Databases of a door at most; each takes some 10 MB."""


class CatalogDatabases:
    """The databases of a door. Each is kept for the user who had it last, as long as there are enough."""

    def __init__(self) -> None:
        self._idle: dict[str, CatalogDatabase] = {}
        self._lent: dict[str, CatalogDatabase] = {}
        self._returned = asyncio.Condition()

    @asynccontextmanager
    async def lent(self, user: str) -> AsyncIterator[CatalogDatabase]:
        """A database for a block, once the user has none, and one is there."""
        async with self._returned:
            await self._returned.wait_for(lambda: user not in self._lent and len(self._lent) < MOST_DATABASES)
            database = self._lent[user] = self._chosen(user)
        try:
            yield database
        finally:
            del self._lent[user]
            self._idle[user] = database
            async with self._returned:
                self._returned.notify_all()

    def _chosen(self, user: str) -> CatalogDatabase:
        """The one that this user had, a new one, or that of whoever has not asked for longest."""
        if user in self._idle:
            return self._idle.pop(user)
        if len(self._idle) + len(self._lent) < MOST_DATABASES:
            return CatalogDatabase()
        return self._idle.pop(next(iter(self._idle)))
