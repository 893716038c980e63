"""Equal views: queries that differ in nothing but the names inside, over the same relations."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from tidemill.engine.catalog.views.view import View

__all__ = ["equal_view"]


def equal_view(view: View, views: Mapping[str, View]) -> View | None:
    """The first view before ``view`` with the same columns, rows and options; None if there is none.

    Both must be immediate. Views by partitions name themselves in their text, so they are equal to no other.
    """
    if view.refresh.deferred or view.is_made_by_partitions or view.remote_subplans or view.order:
        return None
    form = view.canonical_form
    for other in takewhile(lambda other: other.name != view.name, views.values()):
        alike = (
            other.options == view.options and other.fields == view.fields and other.partitioning == view.partitioning
        )
        alike = alike and other.columns == view.columns  # their texts are compiled over the same columns
        if form is not None and alike and not other.order and other.canonical_form is form:
            return other
    return None
