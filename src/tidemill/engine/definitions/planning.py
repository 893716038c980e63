"""Plans of views by what is stored: when a view is created, and again when its tables have become others.

A view is often created before its tables have rows, so strategy ``auto`` plans it by assumptions. When all its inputs
together have ``GROWTH`` times the rows of when it was planned, or when as many of their rows have changed since as they
have, it is planned again. A plan that is predicted to do a change in less than half the work takes over: its maps are
filled beside the old ones and swapped in by one commit. Otherwise twice as many rows must change before the next time.
"""

from __future__ import annotations

import warnings
from collections import deque
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
"""Rows that must have changed before plans are looked at again: with fewer every plan is fast."""

WORTH = 2.0
"""How many times less work another plan must be predicted to do."""

LOGGED = 100
"""Decisions that are remembered, of all views together."""


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
        return _looked_at(state, view)
    text, plan = equal.compiled_query, equal.plan.of_view(equal.name, name)
    if (text, plan) == (query, view.plan):
        return _looked_at(state, view)
    alike = define_view(state.catalog, name, text, options, state.store.epoch, plan=plan)
    return _looked_at(state, replace(alike, query=query, equal_query="" if text == query else text))


def _looked_at(state: EngineState, view: View, wait: int = 0) -> View:
    """The view, whose plan was looked at now; after ``wait`` more changed rows at the earliest it is again."""
    rows, changes = _inputs_now(state, view)
    return replace(view, plan=replace(view.plan, rows=rows, changes=changes, wait=wait))


def _inputs_now(state: EngineState, view: View) -> tuple[int, int]:
    """The rows that all inputs of a view have, and those that have ever changed."""
    inputs = [name for name in view.inputs if name in state.catalog]
    rows = sum(counted_rows(state.catalog, state.store, name) for name in inputs)
    return rows, sum(state.store.counts(name).changes for name in inputs)


class Planner:
    """Plans views again when their tables have become others.

    ``decisions`` are the last ones in this process, each with the name of its view.
    """

    def __init__(self, state: EngineState, definitions: RelationDefinitions) -> None:
        self._state = state
        self._definitions = definitions
        self._due = 0
        self.decisions: deque[tuple[str, str]] = deque(maxlen=LOGGED)

    def replan_due(self) -> None:
        """Look at the plans of views whose inputs have changed much; an epoch pays for a comparison of two numbers."""
        state = self._state
        if state.changed_rows < LEAST or state.changed_rows < self._due:
            return
        with state.lock:
            if state.closed:  # by another thread, after the epoch
                return
            due = [view for view in state.catalog.views.values() if self._is_due(view)]
            kept = [view for view in due if not self._replan(view)]
            if kept:
                self._keep(kept)
            self._due = state.changed_rows + LEAST

    def _is_due(self, view: View) -> bool:
        if view.options.get("strategy", AUTO) != AUTO or not self._definitions.is_refillable(view):
            return False
        rows, changes = _inputs_now(self._state, view)
        has_grown = rows >= max(GROWTH * view.plan.rows, LEAST)
        return has_grown or _changes_since(view, changes) >= max(rows, view.plan.wait, LEAST)

    def _replan(self, old: View) -> bool:
        """Plan a view again; True if another plan has taken over."""
        _, changes = _inputs_now(self._state, old)
        try:
            replanned, decision = self._decide(old)
        except TidemillError as error:  # for want of memory, maybe: the view goes on by the plan that it has
            replanned, decision = False, f"in vain, {error.what}"
        found = f"in epoch {self._state.store.epoch}, after {_changes_since(old, changes):,} changed rows"
        self.decisions.append((old.name, f"{found}: {decision}"))
        return replanned

    def _decide(self, old: View) -> tuple[bool, str]:
        """Plan a view by what is stored now, and take that plan if it is much better; the decision in words, too."""
        state = self._state
        statistics = stored_statistics(state.catalog, state.store)
        view = planned_view(state, old.name, old.query, old.options, statistics=statistics)
        if view.plan == old.plan:
            return False, "the same plan is the best"
        before, after = (predicted_work(one.full_program, state.catalog.tables, statistics) for one in (old, view))
        work = f"from {before:,.0f} predicted visits a change to {after:,.0f}"
        if after * WORTH >= before:
            return False, f"the plan is kept, another would save too little, {work}"
        self._definitions.replan_view(replace(view, created=old.created, fresh=old.fresh))
        return True, f"planned anew, {work}"

    def _keep(self, views: list[View]) -> None:
        """Store that plans were looked at and kept, so that it is not done again before twice as many changes."""
        plans = {}
        for view in views:
            _, changes = _inputs_now(self._state, view)
            wait = 2 * max(_changes_since(view, changes), view.plan.wait)
            plans[view.name] = _looked_at(self._state, view, wait).plan
        try:
            self._definitions.keep_plans(plans)
        except TidemillError as trouble:  # the epoch is committed already
            warnings.warn(f"plans that are kept could not be stored: {trouble}", RuntimeWarning, stacklevel=5)


def _changes_since(view: View, changes: int) -> int:
    """The part of the ``changes`` of a view's inputs since its plan was looked at: all if the counts began anew."""
    return changes - view.plan.changes if changes >= view.plan.changes else changes
