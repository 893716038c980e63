"""Changes of an epoch checked against their tables and all constraints, before any view sees them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Table
from tidemill.program.constraints import Constraints
from tidemill.runtimes.integrity import check_append_only
from tidemill.runtimes.runtime import Runtime

__all__ = ["check_tables"]


def check_tables(
    changes: Mapping[str, ChangeSet], tables: Mapping[str, Table], constraints: Constraints, runtime: Runtime
) -> dict[str, ChangeSet]:
    """Each change summed and checked against its table, and all of them together against the constraints.

    Streams keep no rows, so only the CHECK conditions of their rows apply, and APPEND ONLY.
    """
    possible = dict(changes)
    for name, change in changes.items():
        table = tables[name]
        if table.kept:
            possible[name] = runtime.check(table, change)
        if table.append_only:
            check_append_only(table, possible[name])
    if constraints.touch(possible):
        runtime.check_constraints(possible, constraints)
    return possible
