"""Public classes that came from a session, and whose methods run in it with its rights."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["in_session", "inherited_in_session"]

AnyClass = TypeVar("AnyClass", bound=type)


def in_session(cls: AnyClass) -> AnyClass:
    """``cls`` with its own public methods and properties run in the session ``_session``; None is that of the thread.

    It has ``_engine``, the names of methods that are ``FOR_EVERYBODY``, and of those ``FOR_OWNERS``: all others are for
    who may read all tables.
    """
    for name, member in list(vars(cls).items()):
        _enter(cls, name, member)
    return cls


def inherited_in_session(cls: AnyClass) -> AnyClass:
    """``cls`` with the public methods and properties that it inherits run likewise."""
    for base in cls.__mro__[1:]:
        for name, member in vars(base).items():
            if name not in vars(cls):
                _enter(cls, name, member)
    return cls


def _enter(cls: type, name: str, member: object) -> None:
    if name.startswith("_"):
        return
    if inspect.isfunction(member):
        setattr(cls, name, _entering(member, name))
    elif isinstance(member, property) and member.fget is not None:
        setattr(cls, name, property(_entering(member.fget, name), member.fset, member.fdel, member.__doc__))


def _entering(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def entered(self: Any, *given: Any, **named: Any) -> Any:
        if self._session is None:
            return method(self, *given, **named)

        def allowed() -> Any:
            self._engine.rights.require_call(name, type(self).FOR_EVERYBODY, type(self).FOR_OWNERS)
            return method(self, *given, **named)

        return self._engine.run_in(self._session, allowed)

    return entered
