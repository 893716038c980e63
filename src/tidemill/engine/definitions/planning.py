"""Plans of views by what is stored: when a view is created, and again when its tables have outgrown its plan.

A view is often created before its tables have rows, so strategy ``auto`` plans it by assumptions. When all its inputs
together have ``GROWTH`` times the rows of when it was planned, it is planned again. A plan that is predicted to do a
change in less than half the work takes over: its maps are filled beside the old ones and swapped in by one commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.compiler.choose import AUTO
from tidemill.compiler.choose_plan import predicted_work
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.define_view import ViewTree, define_view
from tidemill.engine.catalog.equal_views import equal_view
from tidemill.engine.catalog.view import RuntimeNeeds, View
from tidemill.engine.definitions.stored_statistics import counted_rows, stored_statistics
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import TidemillError

__all__ = ["Planner", "planned_view"]

GROWTH = 10
"""How many times the rows of when it was planned a view's inputs must have."""

LEAST = 10_000
"""Rows below which no plan is looked at again: there every plan is fast."""

WORTH = 2.0
"""How many times less work another plan must be predicted to do."""


def planned_view(
    state: EngineState,
    name: str,
    query: str,
    options: Mapping[str, str],
    tree: ViewTree | None = None,
    statistics: Statistics | None = None,
) -> View:
    """A view, compiled as strategy ``auto`` plans it by what is stored now, if it names no other.

    The state of an equal view that is there costs nothing, so that one's plan is the best, and so is its text.
    """
    view = define_view(
        state.catalog,
        name,
        query,
        options,
        state.store.epoch,
        tree=tree,
        statistics=statistics or stored_statistics(state.catalog, state.store),
        row_by_row=not state.placement.is_on_spark(0, RuntimeNeeds(options.get("runtime", "auto"))),
    )
    equal = equal_view(view, state.catalog.views)
    if equal is None:
        return view
    text, plan = equal.compiled_query, equal.plan.of_view(equal.name, name)
    if (text, plan) == (query, view.plan):
        return view
    alike = define_view(state.catalog, name, text, options, state.store.epoch, plan=plan)
    return replace(alike, query=query, equal_query="" if text == query else text)


class Planner:
    """Plans views again when their tables have grown. ``decisions`` says of views what came of it, the last time."""

    def __init__(self, state: EngineState, definitions: RelationDefinitions) -> None:
        self._state = state
        self._definitions = definitions
        self._due = 0
        self._looked_at: dict[str, int] = {}
        self.decisions: dict[str, str] = {}

    def replan_due(self) -> None:
        """Look at the plans of views whose inputs have grown; nothing is done unless all tables together have."""
        if self._state.placement.rows < max(self._due, LEAST):
            return
        with self._state.lock:
            for view in [view for view in self._state.catalog.views.values() if self._has_outgrown(view)]:
                self._looked_at[view.name] = self._rows_of(view)
                self._replan(view)
            self._due = 2 * self._state.placement.rows

    def _has_outgrown(self, view: View) -> bool:
        if view.options.get("strategy", AUTO) != AUTO or not self._definitions.is_refillable(view):
            return False
        planned = max(view.plan.rows, self._looked_at.get(view.name, 0))
        return self._rows_of(view) >= max(GROWTH * planned, LEAST)

    def _rows_of(self, view: View) -> int:
        catalog, store = self._state.catalog, self._state.store
        return sum(counted_rows(catalog, store, name) for name in view.inputs)

    def _replan(self, old: View) -> None:
        state = self._state
        try:
            statistics = stored_statistics(state.catalog, state.store)
            view = planned_view(state, old.name, old.query, old.options, statistics=statistics)
            if view.plan == old.plan:
                return
            before, after = (predicted_work(one.full_program, state.catalog.tables, statistics) for one in (old, view))
            if after * WORTH < before:
                self._definitions.replan_view(replace(view, created=old.created, fresh=old.fresh))
                work = f"from {before:,.0f} predicted visits a change to {after:,.0f}"
                self.decisions[old.name] = f"in epoch {state.store.epoch}, {work}"
        except TidemillError as error:  # for want of memory, maybe: the view goes on by the plan that it has
            self.decisions[old.name] = f"in epoch {state.store.epoch}, in vain: {error.what}"
