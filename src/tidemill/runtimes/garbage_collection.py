"""When Python's cyclic garbage collector runs, and what it visits."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping


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


class loaded_code_passed_over:
    """Context in which the garbage collector passes over the code that is loaded, for a process that serves.

    A full collection visits each object. Nine in ten were functions, classes and constants of modules, so clients
    waited for 90 ms instead of 10. After the first full collection, and after each one before which more modules were
    loaded, what is there is left out of later ones.
    """

    __slots__ = ("_modules",)

    def __enter__(self) -> None:
        self._modules = 0
        gc.callbacks.append(self._collected)
        gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and self._modules != len(sys.modules):
            self._modules = len(sys.modules)
            gc.freeze()

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._collected)
        gc.unfreeze()
