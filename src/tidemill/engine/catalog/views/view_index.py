"""Index of the views of a catalog for epochs: built after DDL, so that no epoch iterates over all views."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tidemill.engine.catalog.views.view import View

__all__ = ["ViewIndex"]


class ViewIndex:
    """The views by the relations that they read and by refresh mode, in catalog order."""

    def __init__(self, views: Mapping[str, View]) -> None:
        self._views = views
        self._places = {name: place for place, name in enumerate(views)}
        self._readers: dict[str, list[View]] = {}
        for view in views.values():
            for relation in view.inputs:
                self._readers.setdefault(relation, []).append(view)
        self.deferred = [view for view in views.values() if view.refresh.deferred]
        """Views that are not refreshed in every epoch."""
        self.periodic = [view for view in self.deferred if math.isfinite(view.refresh.every or 0.0)]
        """Views that are refreshed once an interval has passed."""
        self.subscribe_only = [view for view in views.values() if view.keep is not None]
        """Views that are only subscribed to."""
        self.runtime_needs = {view.runtime_needs for view in views.values()}
        """The distinct runtime requirements of all views."""

    def deferred_readers(self, relation: str) -> list[View]:
        """The deferred views that read a relation."""
        return [view for view in self._readers.get(relation, ()) if view.refresh.deferred]

    def reached(self, relations: Iterable[str]) -> list[View]:
        """The views that are among ``relations`` or read one of them."""
        found = {view.name for name in relations for view in self._readers.get(name, ())}
        found |= self._views.keys() & set(relations)
        return [self._views[name] for name in sorted(found, key=self._places.__getitem__)]
