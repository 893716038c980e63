"""Programs that are the same but for names: the state of a view is as good as it was where its program is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.views.shared_stages import with_shared_stages
from tidemill.engine.catalog.views.view import View
from tidemill.program.renaming import renamed
from tidemill.program.text import layout_text

__all__ = ["SameProgram", "still_outdated", "with_renamed_columns", "with_renamed_relation"]

SameProgram = Callable[[View, View], bool]
"""True if the program of a view is that of an old one, but for names that have changed."""


def still_outdated(
    data: Mapping[str, Any], before: Mapping[str, View], outdated: Sequence[View], is_same: SameProgram
) -> list[View]:
    """The views whose state must be rebuilt, of those that have another program than ``before``.

    For the others the catalog in ``data`` gets to say that their state belongs to the new program.
    """
    items = {item["name"]: item for item in data["entries"] if item["kind"] == "view"}
    same = [view for view in outdated if is_same(before[view.name], view)]
    shared = {view.name for view in outdated if items[view.name].get("shares")}
    if shared and len(same) < len(outdated):
        same = []  # stages that several views share are all kept, or none is
    for view in same:
        shares = items[view.name].get("shares", {})
        items[view.name]["fingerprint"] = (with_shared_stages(view, shares) if shares else view).fingerprint
    return [view for view in outdated if view not in same]


def with_renamed_columns(altered: Sequence[AlteredTable]) -> SameProgram:
    """Compares programs in which a column of a table has another name.

    A text that has the new name already might say something else by it: then programs count as different.
    """
    names = {pair for one in altered for pair in (one.renamed or {}).items()}

    def is_same(old: View, new: View) -> bool:
        if len(names) != 1:
            return False
        ((former, present),) = names
        was, now = layout_text(old.full_program), layout_text(new.full_program)
        name = re.compile(rf"\b{re.escape(present)}\b")
        return old.fields == new.fields and not name.search(was) and name.sub(former, now) == was

    return is_same


def with_renamed_relation(names: Mapping[str, str]) -> SameProgram:
    """Compares programs in which a table or view has another name."""

    def is_same(old: View, new: View) -> bool:
        return layout_text(renamed(old.full_program, names)) == layout_text(new.full_program)

    return is_same
