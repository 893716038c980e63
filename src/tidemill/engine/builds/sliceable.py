"""Views that can be built in slices, and the tables that their builds feed them from.

A build is a warehouse of its own, whose tables begin empty and whose view is maintained as they grow. So the view must
be maintained by changes alone, and all rows that it reads must be stored.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.compiler.choose import strategy_options
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.catalog.views.view import View
from tidemill.model.errors import Unsupported
from tidemill.model.schema import ReferentialConstraint, Table
from tidemill.program.joingraph import Serve

__all__ = ["build_tables", "build_view", "require_sliceable", "why_not_by_changes", "why_not_over"]

NEVER = 1 << 62
"""Changed rows after which the plan of a view is looked at again while it is built: the plan was made for all rows."""

RECOMPUTE = "recompute"


def require_sliceable(catalog: Catalog, view: View) -> None:
    """Refuse a view that cannot be filled in slices, with the reason."""
    reason = _why_not(catalog, view)
    if reason:
        raise Unsupported(
            f'view "{view.name}" cannot be built in the background',
            detail=reason,
            hint="Leave the option build out: the view is then filled before the statement ends.",
        )


def _why_not(catalog: Catalog, view: View) -> str:
    """The reason why a view cannot be filled in slices; empty if it can."""
    if Publication.of(view.options) is not None:
        return "It is published, and the first version of the published table has all rows."
    return why_not_by_changes(catalog, view)


def why_not_by_changes(catalog: Catalog, view: View) -> str:
    """The reason why a view cannot follow changes of stored rows from some epoch on; empty if it can."""
    if view.serve is Serve.SUBSCRIBE:
        return "It has serve = 'subscribe', and its log of changes would begin with those of the build."
    if view.query[:6].lower() == "define":
        return "It is written in OQL, and objects are read from their classes."
    if view.is_made_by_partitions:
        return "It is made by partitions."
    if view.quarantines:
        return "It has on_error = 'quarantine', and a build that meets a bad row stops."
    if "static" in view.options:
        return "It has the option static, and tables fed in slices do change."
    if any(stage.strategy == RECOMPUTE for stage in view.full_program.stages):
        return "It is computed again as a whole with every change, so a slice would take as long as all of them."
    unstored = catalog.unfillable(replace(view, program=view.full_program)) if not view.computed_on_read else ""
    return unstored or next(filter(None, (why_not_over(catalog, name) for name in view.inputs)), "")


def why_not_over(catalog: Catalog, name: str) -> str:
    """The reason why no view over a table or view can be built from its stored rows; empty if it can."""
    entry = catalog.entry(name)
    if isinstance(entry, View):
        if entry.is_made_by_partitions or entry.forgets:
            return f'It reads "{name}", which {"forgets rows" if entry.forgets else "is made by partitions"}.'
        return f'It reads "{name}", whose rows are not stored.' if entry.computed_on_read else ""
    if entry.partitioning is not None and entry.partitioning.lateness is not None:
        return f'It reads "{name}", which has LATENESS.'
    if not entry.kept or entry.forgets:
        return f'It reads "{name}", whose rows are not all kept.'
    if entry.append_only and any(reference.table == name for reference in entry.references):
        return (
            f'It reads "{name}", which is APPEND ONLY and refers to itself, so its rows cannot be taken in any order.'
        )
    return ""


def build_tables(catalog: Catalog, view: View) -> list[Table]:
    """The tables of a build: the inputs of the view, in the order of their creation.

    Rows of a view that it reads are those of a table there. Constraints hold for the rows already; foreign keys to
    tables that are APPEND ONLY stay, since programs rely on them.
    """
    ordered = catalog.in_order({name: catalog.entry(name) for name in view.inputs})
    created: set[str] = set()
    found = []
    for entry in ordered.values():
        if isinstance(entry, View):
            found.append(Table(entry.name, entry.fields))
            continue
        parents = {name for name in created if name in catalog.tables and catalog.tables[name].append_only}
        kept = tuple(filter(lambda reference: _relied_on(reference, parents), entry.references))
        found.append(replace(entry, references=kept, checks=(), defaults=()))
        created.add(entry.name)
    return found


def _relied_on(reference: ReferentialConstraint, parents: set[str]) -> bool:
    """True for a foreign key that programs may rely on: see ``compiler.analysis.foreign_keys``."""
    return reference.enforced and reference.table in parents


def build_view(view: View) -> View:
    """The view as it is maintained in its build: by the same program, at once, in this process."""
    kept = {"strategy", "method", "optimize", *strategy_options()}
    options = {name: value for name, value in view.options.items() if name in kept}
    return replace(view, options=options, created=0, fresh=0, plan=replace(view.plan, wait=NEVER))
