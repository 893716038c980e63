"""When Python looks for garbage: not while rows are made."""

from __future__ import annotations

import gc


class garbage_collection_paused:
    """No garbage is looked for within.

    Rows make none that goes in circles, and a search through all of them, again and again while they become more, took
    a quarter of the time. So an epoch is followed by one search, and not interrupted by hundreds.
    """

    __slots__ = ("_collects",)

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        try:
            gc.disable()
        except BaseException:  # Ctrl-C may come even here
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._collects:
            gc.enable()
