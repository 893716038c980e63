"""Pausing Python's cyclic garbage collector while many rows are created."""

from __future__ import annotations

import gc


class garbage_collection_paused:
    """Context in which the garbage collector does not run.

    Rows form no cycles, and repeated collections over a growing number of rows took a quarter of the time. So an epoch
    is followed by one collection instead of being interrupted by hundreds.
    """

    __slots__ = ("_collects",)

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        if self._collects:
            try:
                gc.disable()
            except BaseException:  # Ctrl-C may come even here
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        if self._collects:
            gc.enable()
