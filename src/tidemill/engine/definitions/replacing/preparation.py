"""Contents of a view with another query, computed before it is swapped in, while others write.

It is as of a pinned epoch: the view and, as far as these run in this process by changes alone, the views that read it
(``pinned_view``). Under the lock only the last few epochs are added, so writers wait for these and for the commit.
Where the query differs in a filter, the view takes in the rows that pass one of the two filters; else it is filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.user_functions import is_registered
from tidemill.engine.builds.sliceable import why_not_by_changes
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.new_views.replaced_view import ReplacedView
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.replacing.prepared import Preparation
from tidemill.engine.definitions.replacing.prepared_columns import PreparedColumns
from tidemill.engine.definitions.replacing.prepared_views import PreparedFilter, PreparedRows
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.change_bounds import forgetful_views
from tidemill.program.changed_filters import ChangedFilter, changed_filter
from tidemill.program.computed_columns import computed_columns
from tidemill.program.reads import reads_state

__all__ = ["filter_step", "prepare"]

NATIVE = "native"


def prepare(
    state: EngineState, replaced: ReplacedView, settled: Settled, *, plainly: bool = False
) -> Preparation | None:
    """Work to be done for a replaced view; None if there is none, or if it is done under the lock.

    That is so for views that are refreshed later, computed as a whole, or run on Spark, and under a memory budget. Done
    ``plainly``, rows are computed anew that would stay as they are if nothing spoke against it.
    """
    old, new, catalog = replaced.old, replaced.new, state.catalog
    if any(view.refresh.deferred for view in (old, new)) or state.budget.limit is not None:
        return None
    if old.full_program == new.full_program or why_not_by_changes(catalog, new) or not _runs_here(state, [new]):
        return None
    formulas = None if plainly or replaced.keeps_columns else computed_columns(old.full_program, new.full_program)
    if formulas is not None:
        return PreparedColumns(state, replaced, formulas)
    readers, found = _programs_to_tell(state, replaced), filter_step(catalog, replaced)
    if found is None:
        return PreparedRows(state, replaced, settled, readers)
    return PreparedFilter(state, replaced, settled, readers, found)


def _runs_here(state: EngineState, views: Sequence[View]) -> bool:
    """True if views run in this process, even for changes of as many rows as they read."""
    needs = ((sum(map(state.store.rows, view.inputs)), view.runtime_needs) for view in views)
    return all(state.placement.choose(*one)[0] == NATIVE for one in needs)


def _programs_to_tell(state: EngineState, replaced: ReplacedView) -> list[PlacedProgram] | None:
    """The programs that a change of a replaced view reaches, in order; None if they have to run under the lock."""
    catalog, pipeline, name = state.catalog, state.pipeline, replaced.new.name
    left = {name, *catalog.with_readers(replaced.broken)}
    reached = [placed for placed in pipeline.reached_by([name]) if placed.program.view not in left]
    views = [catalog.view(placed.program.view) for placed in reached]
    own = {stage.name for placed in reached for stage in placed.program.stages}
    kept = {name, *(view.name for view in views)}.union(*(reads_state(placed.program) for placed in reached))
    read = {one for placed in reached for one in placed.inputs} - own
    if (
        replaced.for_growth
        or any(view.computed_on_read or why_not_by_changes(catalog, view) for view in views)
        or not all(one in catalog or pipeline.stored(one) for one in read)
        or not kept.issuperset(stage for stage in own if pipeline.stored(stage))
        or not _runs_here(state, views)
    ):
        return None
    return reached


def filter_step(catalog: Catalog, replaced: ReplacedView) -> ChangedFilter | None:
    """The filter in which a new view differs from the old one; None if more differs.

    Triggers for a relation that only grows are made for that: they keep one end of a MAX, and know that no row refers
    to one that has just come. The rows between two filters may leave, and have been there for long. So they may be
    older than what the view has not forgotten.
    """
    old, new = replaced.old, replaced.new
    if not replaced.keeps_columns or replaced.for_growth or any(map(is_registered, new.functions)):
        return None
    if old.name in forgetful_views(catalog):
        return None
    found = changed_filter(old.full_program, new.full_program)
    return None if found is None or found.relation not in catalog or catalog.only_grows(found.relation) else found
