"""An exception raised in another thread, as Ctrl-C raises one in the main thread: at its next bytecode."""

from __future__ import annotations

import ctypes

__all__ = ["Interrupt", "checkpoint", "interrupt_thread", "is_interruption"]


class Interrupt(BaseException):
    """Ends a call that was cancelled; no ``except Exception`` holds it up, and users see ``Cancelled`` instead."""


def interrupt_thread(thread: int) -> None:
    """Raise ``Interrupt`` in a thread, once it runs Python again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Interrupt))


def checkpoint() -> None:
    """Raise what was sent to this thread before: Python looks for it where a function begins."""


def is_interruption(error: BaseException) -> bool:
    """True if an error is an ``Interrupt``, DuckDB's answer to one, or has come while one was handled."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, Interrupt) or (isinstance(seen, KeyboardInterrupt) and seen.__cause__ is not None):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
