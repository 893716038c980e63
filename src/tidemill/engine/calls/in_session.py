"""Public classes that came from a session, and whose methods run in it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

__all__ = ["in_session", "inherited_in_session"]

AnyClass = TypeVar("AnyClass", bound=type)


def in_session(cls: AnyClass) -> AnyClass:
    """``cls`` with its own public methods and properties run in the session ``_session``; None is that of the thread.

    It has the attribute ``_engine``.
    """
    for name, member in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            setattr(cls, name, _entering(member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(_entering(member.fget), member.fset, member.fdel, member.__doc__))
    return cls


def inherited_in_session(cls: AnyClass) -> AnyClass:
    """``cls`` with the public methods and properties that it inherits run in the session ``_session``."""
    for base in cls.__mro__[1:]:
        for name, member in vars(base).items():
            if name.startswith("_") or name in vars(cls):
                continue
            if inspect.isfunction(member):
                setattr(cls, name, _entering(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(_entering(member.fget), None, None, member.__doc__))
    return cls


def _entering(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def entered(self: Any, *given: Any, **named: Any) -> Any:
        if self._session is None:
            return method(self, *given, **named)
        return self._engine.calls.run(self._session, partial(method, self, *given, **named))

    return entered
