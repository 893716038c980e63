"""Clocks that views read, and for EXPLAIN the instants at which their rows come and go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.text import text_of
from tidemill.compiler.analysis.validity import without_limits
from tidemill.compiler.frontends.sql.expressions.intervals import format_duration
from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.model.clocks import Clock, is_clock
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import Add, RelationLoop

__all__ = ["ClockState", "clock_facts", "clocks_of"]


class ClockState(NamedTuple):
    """A clock, where it stands, the ``views`` that read it, and the number of their rows that wait for it."""

    clock: str
    now: datetime
    views: str
    waiting: int


def clocks_of(engine: Engine) -> list[ClockState]:
    """The clocks of a warehouse."""
    with engine.settled():
        found = []
        for follows, now in engine.clocks.instants.items():
            relation = Clock(follows).relation
            views = [view for view in engine.catalog.views.values() if relation in view.inputs]
            waiting = sum(_entries(engine, view, stage) for view in views for stage in view.program.stages)
            found.append(ClockState(follows, now, ", ".join(view.name for view in views), waiting))
        return found


def clock_facts(engine: Engine, view: View) -> Iterator[tuple[str, str]]:
    """The facts of EXPLAIN about a view that compares rows with a clock."""
    instants = engine.clocks.instants
    for stage in view.program.stages:
        for name in filter(is_clock, stage.inputs):
            clock = Clock.of_relation(name).follows
            yield "clock", f"{clock}, at {instants.get(clock)}"
            yield f"time filter {stage.name}", _time_filter(engine, view, stage, name)


def _time_filter(engine: Engine, view: View, stage: Stage, clock: str) -> str:
    maps = list(_waiting(stage))
    if not maps:
        return "all rows are compared again whenever the clock advances"
    (waiting,) = maps
    ordered = {
        step.range.column
        for trigger in stage.triggers
        if trigger.relation == clock
        for add in trigger.statements
        if isinstance(add, Add)
        for step in add.query.sources
        if isinstance(step, RelationLoop) and step.range is not None
    }
    written = next(
        add.query
        for trigger in stage.triggers
        if trigger.relation != clock
        for add in trigger.statements
        if isinstance(add, Add) and add.target == waiting.name
    )
    instants = {key.name: output.scalar for key, output in zip(waiting.keys, written.outputs, strict=False)}
    told = [f"{name} {_instant(instants[name])}" for name in instants if name in ordered]
    return f"rows count {', '.join(told)}; {_entries(engine, view, stage):,} wait"


def _instant(bound: Scalar) -> str:
    inner, micros = without_limits(bound)
    if not micros:
        return text_of(inner)
    return f"{text_of(inner)} {'+' if micros > 0 else '-'} INTERVAL {format_duration(abs(micros))}"


def _entries(engine: Engine, view: View, stage: Stage) -> int:
    """The number of rows of a stage that wait."""
    names = [map_.name for map_ in _waiting(stage)]
    if not names:
        return 0
    sizes = engine.pipeline[view.name].runtime.sizes(stage)
    return sum(sizes[name][0] for name in names)


def _waiting(stage: Stage) -> Iterator[Map]:
    """The map of the rows of a stage that wait for a clock."""
    return (map_ for map_ in stage.maps if map_.name == f"{stage.name}/waiting")
