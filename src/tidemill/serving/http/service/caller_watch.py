"""Callers who are still listening: whoever is removed, or gets other roles or rights, hears no more within a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakValueDictionary

from tidemill.model.errors import NotAllowed
from tidemill.serving.http.authentication import Authentication, Caller

__all__ = ["CallerWatch", "changed_rights"]

LOGGER = logging.getLogger("tidemill.server")

LOOK_SECONDS = 0.5
"""Seconds between two looks; the file of users is looked at once a second."""


class CallerWatch:
    """Looks after all callers at once, as long as there are any; ``also`` is called each time. For the event loop."""

    def __init__(self, authentication: Authentication, also: Callable[[], None]) -> None:
        self._authentication = authentication
        self._also = also
        self._events: WeakValueDictionary[Caller, asyncio.Event] = WeakValueDictionary()
        self._looking: asyncio.Task[None] | None = None

    def changed(self, caller: Caller) -> asyncio.Event:
        """An event that is set once the caller is no longer who he was; it is looked after while somebody has it."""
        found = self._events.get(caller)
        if found is None or found.is_set():
            found = self._events[caller] = asyncio.Event()
        if self._authentication.users is not None and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())
        return found

    async def _look(self) -> None:
        while self._events:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._look_once()
            except Exception as error:  # whoever comes next is looked after all the same
                LOGGER.error("callers could not be looked at: %s", type(error).__name__)

    def _look_once(self) -> None:
        for caller, event in list(self._events.items()):
            if self._authentication.now(caller) != caller.principal:
                event.set()
        self._also()


def changed_rights() -> NotAllowed:
    """The error by which a stream ends whose caller may no longer read it as before."""
    return NotAllowed("the rights of the user have changed", hint="Read the view again, and go on from its epoch.")
