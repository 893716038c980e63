"""Preparation of a view with another query, and how long it holds."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.state import EngineState

__all__ = ["Preparation"]


class Preparation(ABC):
    """Preparation of a replaced view; ``run`` computes it without the lock."""

    def __init__(self, state: EngineState, replaced: ReplacedView) -> None:
        self.replaced = replaced
        self._state = state
        self._entries = _entries(state.catalog, replaced.new)

    @property
    def holds(self) -> bool:
        """True if nobody has changed what the view reads, itself or its readers meanwhile; the caller has the lock."""
        now = _entries(self._state.catalog, self.replaced.new)
        return len(now) == len(self._entries) and all(a is b for a, b in zip(now, self._entries, strict=True))

    @abstractmethod
    def run(self) -> None:
        """Compute what takes long; raises ``NotAnswered`` if it has to be prepared in another way."""

    @abstractmethod
    def close(self) -> None:
        """Release snapshots, and what was written."""


def _entries(catalog: Catalog, new: View) -> list[object]:
    """Catalog entries that the replacement of a view depends on: it, its readers, and what all of these read."""
    views = [new, *(catalog.view(name) for name in catalog.with_readers([new.name]))]
    names = dict.fromkeys(name for view in views for name in (view.name, *view.inputs))
    return [catalog.entry(name) if name in catalog else None for name in names]
