"""All views over sources of a warehouse: opened when first asked for, filled, caught up and let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.engine.following import Certificate, Following, position_of
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.engine.catalog import View
    from tidemill.engine.engine import Engine

FILL_SECONDS = 600.0
"""How long a source may take to give a view its first rows."""


class Followings:
    """The views over sources, by name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: dict[str, Following] = {}

    def begin(self, view: View) -> None:
        """Fetch the first rows of a new view, and follow its sources from there on."""
        following = self._opened(view)
        try:
            following.fill(FILL_SECONDS)
        except BaseException:
            following.remove()
            raise
        self._open[view.name] = following

    def of(self, view: View) -> Following:
        """The view at work, where need be from where it was left."""
        if view.name not in self._open:
            engine = self._engine
            engine.require_writable()
            following = self._opened(view)
            rows = {kept.core.name: engine.contents(kept.core.name).zset() for kept in view.cores}
            try:
                following.resume(self._positions(view), rows)
            except BaseException:
                following.close()
                raise
            self._open[view.name] = following
        return self._open[view.name]

    def _opened(self, view: View) -> Following:
        names = sorted({name for kept in view.cores for name in kept.homes})
        origins = self._engine.catalog.origins
        return Following(view, {name: origins[name].open(view.name) for name in names}, self._engine.apply)

    def sync(self, name: str | None, timeout: float | None) -> int:
        """Bring one view, or all, up to what their sources have committed; returns how many messages came."""
        catalog = self._engine.catalog
        views = [catalog.view(name)] if name is not None else list(catalog.views.values())
        if name is not None and not views[0].cores:
            raise Unsupported(f'view "{views[0].name}" reads no source', hint="It follows its tables by itself.")
        return sum(self._catch_up(view, timeout) for view in views if view.cores)

    def _catch_up(self, view: View, timeout: float | None) -> int:
        try:
            return self.of(view).catch_up(timeout)
        except BaseException:
            # Its protocols may be ahead of what was committed: the next time it goes on from there.
            following = self._open.pop(view.name, None)
            if following is not None:
                following.close()
            raise

    def certificate(self, view: View) -> Certificate:
        """What the rows of a view over sources show."""
        if not view.cores:
            raise Unsupported(f'view "{view.name}" reads no source', hint="It shows the tables as they are.")
        return Certificate(min(kept.level for kept in view.cores), self._positions(view))

    def _positions(self, view: View) -> dict[str, str]:
        stored = self._engine.store.positions
        names = sorted({name for kept in view.cores for name in kept.homes})
        return {name: stored[position_of(view.name, name)] for name in names}

    def facts(self, view: View) -> dict[str, str]:
        """What EXPLAIN says of a view over sources."""
        if not view.cores:
            return {}
        certificate = self.certificate(view)
        kept = "; ".join(f"{one.core.name} by {one.protocol}" for one in view.cores)
        shown = ", ".join(f"{name} at {position}" for name, position in certificate.positions.items())
        return {"sources": f"{kept}; consistency {certificate.level.name.lower()}", "shows": shown}

    def drop(self, view: View) -> None:
        """Let the sources forget a view."""
        if view.cores:
            following = self._open.pop(view.name, None) or self._opened(view)
            following.remove()

    def close(self) -> None:
        """Let go of all sources; what they keep for the views stays."""
        for following in self._open.values():
            following.close()
        self._open.clear()
