"""Plans of views by what is stored: when a view is created, and again when its tables have become others.

A view is often created before its tables have rows, so strategy ``auto`` plans it by assumptions. When all its inputs
together have ``GROWTH`` times the rows of when it was planned, or when as many of their rows have changed since as they
have, it is planned again. A plan that is predicted to do a change in less than half the work takes over, or one that
makes its sliding windows by a much cheaper method: its maps are filled beside the old ones and swapped in by one
commit. Otherwise twice as many rows must change before the next time.

Each decision is stored with the view, the last ones of each: SHOW PLANS has them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from tidemill.compiler.choose import AUTO
from tidemill.compiler.choose_plan import predicted_work
from tidemill.compiler.plan import ALTERED, CREATED, DEFAULT_PLAN, Decision
from tidemill.compiler.rewrites.sliding_windows.rewrite import rewrite_sliding_windows
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.new_views.define_view import ViewTree, define_view
from tidemill.engine.catalog.new_views.staged_view import staged_for
from tidemill.engine.catalog.views.equal_views import equal_view
from tidemill.engine.catalog.views.joined_rows import requested_strategy
from tidemill.engine.catalog.views.remote_subplans import ASKED, require_copies_allowed
from tidemill.engine.catalog.views.seen_columns import EVERYTHING, SeenColumns
from tidemill.engine.catalog.views.view import RuntimeNeeds, View
from tidemill.engine.definitions.stored_statistics import counted_rows, stored_statistics
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import TidemillError

__all__ = ["Planner", "plan_decisions", "planned_view"]

GROWTH = 10
"""Factor by which the inputs of a view must have grown since it was planned."""

LEAST = 10_000
"""Rows that must have changed before plans are looked at again: with fewer every plan is fast."""

WORTH = 2.0
"""Factor by which another plan must be predicted to do less work."""


def planned_view(
    state: EngineState,
    name: str,
    query: str,
    options: Mapping[str, str],
    tree: ViewTree | None = None,
    statistics: Statistics | None = None,
    cause: str = CREATED,
    columns: SeenColumns = EVERYTHING,
) -> View:
    """A view, compiled as strategy ``auto`` plans it by what is stored now, if it names no other.

    The state of an equal view that is there costs nothing, so that one's plan is the best, and so is its text. The log
    of its plan ends with this decision and its ``cause``; what a view of this name has decided before precedes it. Of
    altered tables it sees ``columns``. A view that comes from a stage has the plan that it has there.
    """
    if (staged := _planned_in_stage(state, name, query, options, tree)) is not None:
        return staged
    if cause == CREATED:
        options = {**options, ASKED: "yes"}
    view = define_view(
        state.catalog,
        name,
        query,
        options,
        state.store.epoch,
        tree=tree,
        plan=DEFAULT_PLAN if cause in (CREATED, ALTERED) else state.catalog.view(name).plan,
        statistics=statistics or stored_statistics(state.catalog, state.store),
        on_spark=state.placement.is_on_spark(0, RuntimeNeeds(options.get("runtime", "auto"))),
        columns=columns,
    )
    if cause == CREATED:
        require_copies_allowed(name, view.remote_subplans, options)
    equal = equal_view(view, {one.name: one for one in state.catalog.running()})
    if equal is None:
        return _looked_at(state, _logged(state, view, cause))
    text, plan = equal.compiled_query, equal.plan.of_view(equal.name, name)
    if (text, plan) == (query, view.plan):
        return _looked_at(state, _logged(state, view, cause))
    alike = define_view(state.catalog, name, text, options, state.store.epoch, plan=plan, columns=columns)
    alike = replace(alike, query=query, equal_query="" if text == query else text)
    decision = Decision(chosen=plan.choice, reason=f"the plan of {equal.name}, whose query is the same")
    return _looked_at(state, _logged(state, replace(alike, plan=plan.decided(decision)), cause))


def _planned_in_stage(
    state: EngineState, name: str, query: str, options: Mapping[str, str], tree: ViewTree | None
) -> View | None:
    """A view by the plan that it has in a stage that is promoted, if its state is the same by it."""
    staged = state.catalog.views.get(state.catalog.promoted.get(name, ""))
    if staged is None:
        return None
    plan = staged.plan.of_view(staged.name, name)
    view = define_view(state.catalog, name, query, options, state.store.epoch, tree, replace(plan, log=staged.plan.log))
    return view if staged_for(state.catalog, view) is not None else None


def _logged(state: EngineState, view: View, cause: str) -> View:
    """The view, whose log has what was decided before, with measured costs, and the last decision with its cause."""
    asked = requested_strategy(view.relation, view.options, view.name)
    named = Decision(
        chosen=asked, reason=KEEPS if asked != view.options.get("strategy", AUTO) else "its options say so"
    )
    (*_, made) = view.plan.log or (named,)
    before = _decisions_about(state, view.name) if cause != CREATED else ()
    return replace(view, plan=view.plan.decided(replace(made, epoch=state.store.epoch, cause=cause), before))


def plan_decisions(state: EngineState, *names: str) -> dict[str, tuple[Decision, ...]]:
    """The decisions about the plans of views, of all if none is named, the oldest first."""
    views = [state.catalog.view(name).name for name in names] or [view.name for view in state.catalog.shown_views()]
    return {name: _decisions_about(state, name) for name in views}


def _decisions_about(state: EngineState, name: str) -> tuple[Decision, ...]:
    """The decisions about a view that is there, the last one with what changes have cost by it in this process."""
    log = state.catalog.view(name).plan.log
    measured = state.pipeline[name].measured.microseconds_per_row
    if not log or measured is None:
        return log
    return (*log[:-1], replace(log[-1], measured=measured))


def _looked_at(state: EngineState, view: View, wait: int = 0) -> View:
    """The view, whose plan was looked at now; after ``wait`` more changed rows at the earliest it is again."""
    rows, changes = _inputs_now(state, view)
    return replace(view, plan=replace(view.plan, rows=rows, changes=changes, wait=wait))


def _inputs_now(state: EngineState, view: View) -> tuple[int, int]:
    """The rows that all inputs of a view have, and those that have ever changed."""
    inputs = [name for name in view.inputs if name in state.catalog]
    rows = sum(counted_rows(state.catalog, state.store, name) for name in inputs)
    return rows, sum(state.store.counts(name).changes for name in inputs)


KEEPS = "it keeps the rows that it joins, so that some of them can be held back"


class Planner:
    """Plans views again when their tables have become others."""

    def __init__(self, state: EngineState, definitions: RelationDefinitions) -> None:
        self._state = state
        self._definitions = definitions
        self._due = 0

    def replan_due(self) -> None:
        """Look at the plans of views whose inputs have changed much; an epoch pays for a comparison of two numbers."""
        state = self._state
        if state.changed_rows < LEAST or state.changed_rows < self._due:
            return
        with state.lock:
            if state.closed:  # by another thread, after the epoch
                return
            due = [view for view in state.catalog.views.values() if self._is_due(view)]
            decided = {view.name: self._replan(view) for view in due}
            kept = {name: decision for name, decision in decided.items() if decision is not None}
            if kept:
                self._keep(kept)
            self._due = state.changed_rows + LEAST

    def _is_due(self, view: View) -> bool:
        if requested_strategy(view.relation, view.options, view.name) != AUTO:
            return False
        if not self._definitions.is_refillable(view):
            return False
        rows, changes = _inputs_now(self._state, view)
        has_grown = rows >= max(GROWTH * view.plan.rows, LEAST)
        return has_grown or _changes_since(view, changes) >= max(rows, view.plan.wait, LEAST)

    def _replan(self, old: View) -> Decision | None:
        """Plan a view again: the decision for the plan that it has, or None if another one has taken over."""
        _, changes = _inputs_now(self._state, old)
        cause = f"after {_changes_since(old, changes):,} changed rows"
        try:
            return self._decide(old, cause)
        except TidemillError as error:  # for want of memory, maybe: the view goes on by the plan that it has
            kept = Decision(chosen=old.plan.choice, reason=f"in vain, {error.what}")
            return replace(kept, epoch=self._state.store.epoch, cause=cause)

    def _decide(self, old: View, cause: str) -> Decision | None:
        """Plan a view by what is stored now, and take that plan if it is much better; else the decision to keep it."""
        state = self._state
        statistics = stored_statistics(state.catalog, state.store)
        view = planned_view(
            state, old.name, old.query, old.options, statistics=statistics, cause=cause, columns=old.columns
        )
        decision = view.plan.log[-1]
        if view.plan == old.plan:
            return replace(decision, reason="the same plan is the best")
        before, after = (predicted_work(one.full_program, state.catalog.tables, statistics) for one in (old, view))
        work = f"from {before:,.0f} predicted visits a change to {after:,.0f}"
        moved = view.plan.windows != old.plan.windows
        if moved:
            work = f"its windows by another method: {_windows_of(view)}"
        elif after * WORTH >= before:
            reason = f"the plan is kept, another would save too little, {work}"
            return replace(decision, chosen=old.plan.choice, reason=reason, visits=before, bytes=None)
        plan = view.plan.decided(replace(decision, reason=f"planned anew, {work}"), view.plan.log[:-1])
        self._definitions.replan_view(
            replace(view, plan=plan, created=old.created, fresh=old.fresh, former=old.former, stopped=old.stopped)
        )
        return None

    def _keep(self, decisions: Mapping[str, Decision]) -> None:
        """Store that plans were looked at and kept, so that it is not done again before twice as many changes."""
        plans = {}
        for name, decision in decisions.items():
            view = self._state.catalog.view(name)
            _, changes = _inputs_now(self._state, view)
            wait = 2 * max(_changes_since(view, changes), view.plan.wait)
            plan = _looked_at(self._state, view, wait).plan
            plans[name] = plan.decided(decision, _decisions_about(self._state, name))
        try:
            self._definitions.keep_plans(plans)
        except TidemillError as trouble:  # the epoch is committed already
            warnings.warn(f"plans that are kept could not be stored: {trouble}", RuntimeWarning, stacklevel=5)


def _windows_of(view: View) -> str:
    """The methods of the windows of a view."""
    method = view.options.get("method", "auto")
    choices = rewrite_sliding_windows(view.name, view.relation, method, view.plan.windows)[1]
    return ", ".join(choice.method for choice in choices.values())


def _changes_since(view: View, changes: int) -> int:
    """The part of the ``changes`` of a view's inputs since its plan was looked at: all if the counts began anew."""
    return changes - view.plan.changes if changes >= view.plan.changes else changes
