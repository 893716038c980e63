"""A view of a stage that takes the place of another: what it keeps becomes what that one keeps, under its names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.program.text import layout_text

__all__ = ["maps_after_promotion", "staged_for"]


def staged_for(catalog: Catalog, view: View) -> View | None:
    """The view of a stage that is promoted whose state is that of ``view``; None if there is none.

    It has its rows as of now: nothing that it reads has changed in this joint commit, and it is no deferred view.
    """
    staged = catalog.views.get(catalog.promoted.get(view.name, ""))
    if staged is None or staged.name in catalog.behind or staged.refresh.deferred or view.refresh.deferred:
        return None
    stage = staged.name.removesuffix(view.name)
    same = _without(stage, layout_text(staged.full_program)) == layout_text(view.full_program)
    return staged if same and staged.fields == view.fields else None


def maps_after_promotion(staged: View, view: View) -> Mapping[str, str]:
    """The names that the maps of a view of a stage have once it has taken the place of ``view``."""
    stage = staged.name.removesuffix(view.name)
    return {name: _without(stage, name) for name in staged.map_names}


def _without(stage: str, text: str) -> str:
    """A text without the prefix that names have in a stage.

    >>> _without("blue__", "blue__large/1:blue__spend")
    'large/1:spend'
    """
    return re.sub(rf"\b{re.escape(stage)}(?=\w)", "", text)
