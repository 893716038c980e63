"""Views that are refused while others are published: their errors wait until these are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tidemill.engine.catalog.views.view import View
from tidemill.model.errors import TidemillError

__all__ = ["RefusedViews"]

Found = TypeVar("Found")


class RefusedViews:
    """The errors of views by name, in the order in which they came."""

    def __init__(self) -> None:
        self._errors: dict[str, TidemillError] = {}

    def without(self, views: Sequence[View], work: Callable[[View], Found]) -> dict[str, Found]:
        """The result of some work for each view; one for which it is refused is left out from now on."""
        found: dict[str, Found] = {}
        for view in views:
            try:
                found[view.name] = work(view)
            except TidemillError as error:
                self._errors[view.name] = error
        return found

    def left(self, views: Sequence[View]) -> list[View]:
        """The views that were not refused."""
        return [view for view in views if view.name not in self._errors]

    def raise_any(self, others: Collection[str]) -> None:
        """Raise the error of the first view that was refused, if there is one, which says what became of ``others``."""
        if not self._errors:
            return
        (name, first), *rest = self._errors.items()
        if others or rest:
            told = [f'View "{name}" is not published.', *(f'Nor is "{view}": {error}' for view, error in rest)]
            told += [f"Published are: {', '.join(others)}."] if others else []
            first.detail = " ".join([*([first.detail] if first.detail else []), *told])
        raise first
