"""What a stage emits, as Python: the functions that make rows of maps are written, and put to work once they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidemill.algebra.matching.match import Match
from tidemill.algebra.ordering import Order
from tidemill.algebra.relations import TopK
from tidemill.algebra.scalars import Column, Scalar, column
from tidemill.model.schema import names_of
from tidemill.model.types import Field
from tidemill.program.layers import Layers
from tidemill.program.maps import Map
from tidemill.program.statements import Emission, Finish, Parts, Peek, Rounds
from tidemill.runtimes.native.bags import BY_OTHER, Bag, BagGroups
from tidemill.runtimes.native.entries import write_finish
from tidemill.runtimes.native.finishing import Finishing, Groups, KeptRows
from tidemill.runtimes.native.matching import Matching, MatchRows
from tidemill.runtimes.native.parts import PartRows, TopRows
from tidemill.runtimes.native.placing import seen_at, total_order, width_of, write_place, write_shown
from tidemill.runtimes.native.windowing import Module, Space, Windowing
from tidemill.runtimes.native.windows import WindowRows

Bind = Callable[[Space], Finishing]
"""Puts functions to work that have been written."""


def write_emission(module: Module, finish: Emission, maps: Mapping[str, Map]) -> Bind:
    """Write the functions that make rows of maps."""
    if isinstance(finish, Parts):
        return _write_parts(module, finish, maps[finish.source])
    if isinstance(finish, Rounds | Layers):
        return _write_kept(module, finish, maps[finish.kept])
    name = module.known.function("finish")
    module.add(name, write_finish(name, finish, maps[finish.source], module.known))
    manner = {"always": finish.always, "repeats": finish.times is not None}
    if not finish.peeks:
        return lambda space: Groups(finish.source, space[name], **manner)
    width = len(maps[finish.source].keys)
    places: dict[tuple[str, tuple[Order, ...]], str] = {}
    bags = [_write_bag(module, peek, maps[peek.map], width, places) for peek in finish.peeks]
    return lambda space: BagGroups(finish.source, space[name], [bag(space) for bag in bags], **manner)


def _write_kept(module: Module, finish: Rounds | Layers, kept: Map) -> Bind:
    name = module.known.function("finish")
    shown = Finish(kept.name, finish.outputs, finish.condition)
    module.add(name, write_finish(name, shown, kept, module.known))
    return lambda space: KeptRows(kept.name, space[name])


def _write_bag(
    module: Module, peek: Peek, map_: Map, width: int, places: dict[tuple[str, tuple[Order, ...]], str]
) -> Callable[[Space], Bag]:
    """Write what an aggregate needs; of several that look at one bag in one order, the first has written it."""
    first = (Order(column(map_.keys[width + 1])),) if peek.call.function in BY_OTHER else ()
    if (map_.name, first) not in places:
        places[map_.name, first] = _write_place(module, map_, total_order(map_.keys, width, first))
    place = places[map_.name, first]
    seen = seen_at(_positions(peek.call.scalars, map_.keys))
    return lambda space: Bag(map_.name, width, space[place], peek.call, seen)


def _write_parts(module: Module, parts: Parts, map_: Map) -> Callable[[Space], PartRows]:
    rows = parts.rows
    place = _write_place(module, map_, total_order(map_.keys, parts.width, rows.order))
    shown = module.known.function("shown")
    module.add(shown, write_shown(shown, parts, module.known))
    if isinstance(rows, TopK):
        terms = width_of(rows.order)
        return lambda space: TopRows(map_.name, rows, space[place], space[shown], terms)
    if isinstance(rows, Match):
        matching = Matching(module, rows, map_)
        return lambda space: MatchRows(map_.name, parts.width, space[place], space[shown], matching.bind(space))
    windowing = Windowing(module, rows, map_)
    return lambda space: WindowRows(map_.name, parts.width, space[place], space[shown], *windowing.bind(space))


def _write_place(module: Module, map_: Map, order: Sequence[Order]) -> str:
    name = module.known.function(f"place_in_{map_.name}")
    module.add(name, write_place(name, map_.name, map_.keys, order, module.known))
    return name


def _positions(scalars: Sequence[Scalar], fields: Sequence[Field]) -> list[int]:
    """Where the columns stand in a row that expressions are; in bags and parts all of them are columns."""
    names = list(names_of(fields))
    return [names.index(scalar.name) for scalar in scalars if isinstance(scalar, Column)]
