"""The triggers of a time filter: changes of rows by first-order deltas, and an advance of the clock by ranges.

The law and its cost are in ``compiler.staging.time_filters``.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Named, Scalar
from tidemill.compiler.analysis.blocks import RelationKeys
from tidemill.compiler.analysis.ring import times
from tidemill.compiler.delta.nested_loops import narrow
from tidemill.compiler.delta.triggers import first_order_stage
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.staging.time_filters import TimeFilter
from tidemill.model.clocks import NOW
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, BOOLEAN
from tidemill.program.joins import AppendedReference
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, Query, Range, RangeBound, RelationLoop, Trigger, Version

BEFORE, AFTER = (Column(f"{alias}.{NOW.name}", NOW.type, nullable=False) for alias in ("before", "after"))
"""The instants from which and to which the clock advances."""


def time_filter_stage(
    draft: StageDraft,
    state: TimeFilter,
    keys: RelationKeys,
    streams: Set[str],
    references: Sequence[AppendedReference],
) -> Stage:
    """The stage of a time filter, whatever strategy the view has."""
    stage = first_order_stage(draft, keys, streams, "delta", references, frozenset((state.clock,)))
    advance = clock_trigger(draft.name, state)
    triggers = (advance if trigger.relation == state.clock else trigger for trigger in stage.triggers)
    return replace(stage, triggers=tuple(triggers))


def clock_trigger(stage: str, state: TimeFilter) -> Trigger:
    """The statements for an advance of the clock, from ``before`` to ``after``."""
    adds = [Add(stage, query) for query in (_coming(state), _leaving(state)) if query is not None]
    forgotten = _forgotten(state)
    # Last, since the others read the map before anything is taken out of it.
    return Trigger(state.clock, (*adds, *([Add(state.waiting.name, forgotten)] if forgotten is not None else [])))


def _coming(state: TimeFilter) -> Query | None:
    if state.since is None:
        return None
    open_ = () if state.until is None else (_compared("lt", AFTER, _of_row(state, state.until)),)
    return _passed(state, state.since, state.outputs, 1, open_)


def _leaving(state: TimeFilter) -> Query | None:
    if state.until is None:
        return None
    begun = () if state.since is None else (_compared("le", _of_row(state, state.since), BEFORE),)
    return _passed(state, state.until, state.outputs, -1, begun)


def _forgotten(state: TimeFilter) -> Query | None:
    if state.until is None:
        return None
    return _passed(state, state.until, tuple(f.name for f in state.waiting.keys), -1)


def _passed(
    state: TimeFilter, instant: str, outputs: Sequence[str], sign: int, filters: tuple[Scalar, ...] = ()
) -> Query:
    """The rows whose ``instant`` the clock has passed, with their weights times ``sign``."""
    after = RelationLoop(state.clock, "after", Version.CHANGE, (NOW,))
    # Of the change of a clock, which has its old instant and its new one, this leaves the new one.
    before = RelationLoop(state.clock, "before", Version.STATE, (NOW,), filters=(_compared("lt", BEFORE, AFTER),))
    at = _of_row(state, instant)
    passed = (_compared("lt", BEFORE, at), _compared("le", at, AFTER))
    between = Range(instant, RangeBound(BEFORE, closed=False), RangeBound(AFTER, closed=True))
    rows = RelationLoop(
        state.waiting.name, "row", Version.STATE, state.waiting.keys, filters=(*passed, *filters), range=between
    )
    sources = (after, before, rows)
    weight: Scalar = Literal(sign, BIGINT)
    for source in sources:
        weight = times(weight, Column(f"{source.alias}.{WEIGHT}", BIGINT, nullable=False))
    return narrow(Query(sources, tuple(Named(of, _of_row(state, of)) for of in outputs), weight=weight))


def _of_row(state: TimeFilter, name: str) -> Column:
    found = next(f for f in state.waiting.keys if f.name == name)
    return Column(f"row.{name}", found.type, found.nullable)


def _compared(name: str, left: Scalar, right: Scalar) -> Scalar:
    return Call(name, (left, right), BOOLEAN)
