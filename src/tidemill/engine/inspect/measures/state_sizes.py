"""Sizes of what views keep: each of their maps, in the memory of this process and on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.engine.catalog.views.view import View
from tidemill.engine.engine import Engine
from tidemill.engine.epochs.pipeline import PlacedProgram

__all__ = ["StateSize", "state_sizes"]


@dataclass(frozen=True, slots=True)
class StateSize:
    """A map that a view keeps, or its rows, by their ``map`` name.

    ``entries`` are those in memory, or else the stored changes. ``memory_bytes`` is 0 if this process does not hold the
    map, estimated from some entries if it is a dictionary; ``disk_bytes`` has the files, with the indexes that lookups
    have made for them, and changes that wait in the log.
    """

    view: str
    map: str
    entries: int
    memory_bytes: int
    disk_bytes: int


def state_sizes(engine: Engine, *views: str) -> list[StateSize]:
    """The sizes of the maps of views, of all if none is named. Nothing is loaded to be measured."""
    with engine.settled():
        catalog = engine.catalog
        found = [catalog.view(name) for name in views] if views else list(catalog.views.values())
        return [size for view in found for size in _sizes_of(engine, view)]


def _sizes_of(engine: Engine, view: View) -> Iterator[StateSize]:
    placed = engine.pipeline[view.name]
    held = _held(placed)
    in_memory = engine.placement.in_memory
    for name in view.map_names:
        entries, memory = held.get(name, (engine.store.rows(name), 0))
        stored = engine.store.bytes(name)
        yield StateSize(view.name, name, entries, memory + (stored if in_memory else 0), 0 if in_memory else stored)


def _held(placed: PlacedProgram) -> dict[str, tuple[int, int]]:
    """The entries and bytes of the maps that the runtime of a view holds in memory."""
    return {name: size for stage in placed.program.stages for name, size in placed.runtime.held_sizes(stage).items()}
