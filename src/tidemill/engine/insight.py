"""What can be known of a view while it is kept: how it is run and why, what it holds, and what it costs."""

from __future__ import annotations

from tidemill.compiler.explain import explain
from tidemill.engine.engine import Engine, maps_of
from tidemill.engine.partitions import partition_facts
from tidemill.engine.pipeline import Placed
from tidemill.engine.predictions import compared
from tidemill.engine.results import MapSize
from tidemill.runtimes.native.runtime import NativeRuntime

__all__ = ["explanation_of", "sizes_of"]


def sizes_of(engine: Engine, name: str) -> list[MapSize]:
    """The maps behind a view; where this process does not hold them, as many entries as are stored."""
    with engine.lock:
        placed = engine.pipeline[engine.catalog.view(name).name]
        found: list[MapSize] = []
        for stage in placed.program.stages:
            if isinstance(placed.runtime, NativeRuntime):
                found += [MapSize(map_, *size) for map_, size in placed.runtime.sizes(stage).items()]
            else:
                found += [MapSize(map_.name, engine.store.rows(map_.name), None) for map_ in stage.maps]
        return found


def explanation_of(engine: Engine, name: str) -> str:
    """Strategy, runtime, program, predicted and measured cost of a view, and why."""
    over_sources = engine.followings.facts(engine.catalog.view(name))
    with engine.settled():
        view = engine.catalog.view(name)
        placed = engine.pipeline[view.name]
        option = view.options.get("runtime", "auto")
        _, reason = engine.placement.choose(placed.measured.last_work, option, row_wise=view.row_wise)
        facts = {
            "runtime": f"{placed.runtime.name} ({reason})",
            "back end": _backend(placed),
            "refresh": view.options.get("refresh", "immediate"),
            "shows epoch": str(view.fresh if view.refresh.deferred else engine.store.epoch),
            "serves": view.served,
            "stored rows": "none" if view.made_when_read else str(engine.store.rows(view.name)),
            "measured": placed.measured.summary(),
        }
        facts |= over_sources | dict(partition_facts(view))
        sizes = {map_: engine.store.rows(map_) for map_ in maps_of(view)}
        comparison = compared(view, engine.catalog, engine.store)
        return explain(view.program, facts=facts, sizes=sizes, comparison=comparison)


def _backend(placed: Placed) -> str:
    if not isinstance(placed.runtime, NativeRuntime):
        return "DataFrames"
    return "; ".join(dict.fromkeys(placed.runtime.backend(stage) for stage in placed.program.stages))
