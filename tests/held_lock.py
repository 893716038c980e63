"""Calls that a test watches: with the lock of a warehouse, for which writers wait, or without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tidemill


class Watched:
    """The calls of some methods, each with whether the lock of the warehouse was held."""

    def __init__(self, warehouse: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, bool]] = []
        self._lock: Any = warehouse._engine.state.lock
        self._monkeypatch = monkeypatch

    @property
    def held(self) -> bool:
        """True if this thread holds the lock."""
        return bool(self._lock._is_owned())

    def watch(self, kind: type, name: str, counts: Callable[[Any], bool] = lambda of: True) -> None:
        """Watch a method of those objects that count."""
        original = getattr(kind, name)

        def noted(of: Any, *given: Any, **named: Any) -> Any:
            if counts(of):
                self.calls.append((name, self.held))
            return original(of, *given, **named)

        self._monkeypatch.setattr(kind, name, noted)
