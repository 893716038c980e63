"""Bounded state: when the entries of each map of a view are forgotten, and what makes others stay for ever."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tidemill.algebra.relational.time_partitions import PARTITION_NUMBER
from tidemill.compiler.frontends.sql.expressions.intervals import format_duration
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.change_bounds import expiry_of, heads_at
from tidemill.model.clocks import is_clock
from tidemill.model.errors import Unsupported
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.expiry.state import MapExpiry, Obstacle
from tidemill.program.expiry.time_functions import WHOLE_NUMBERS
from tidemill.program.maps import Map
from tidemill.program.stages import GroupEmission, Program

__all__ = ["MapNote", "map_notes", "require_bounded_state"]

_SECOND = 1_000_000

_NOW = 1 << 57
"""An instant after all times that a query may compare with, in microseconds since 1970: of the year 6536."""

TIED = "Group or join by time: window(ts, '5 minutes'), or a.ts BETWEEN b.ts - INTERVAL 5 MINUTES AND b.ts."


class MapNote(NamedTuple):
    """When entries of a map are forgotten, in words, and what to declare if they never are."""

    map: str
    columns: tuple[str, ...]
    text: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.hint[0].lower()}{self.hint[1:].rstrip('.')})" if self.hint else self.text


def map_notes(catalog: Catalog, view: View) -> list[MapNote]:
    """A note for each map of a view that follows a stream, or a table with LATENESS; those of others end with these."""
    growing = {name for name in catalog.ancestors(view) if catalog.is_stream(name) or name in catalog.late}
    if not growing:
        return []
    if view.quarantines:
        words = "never forgotten: rows in quarantine may come to it at any time"
        return [_unknown(map_.name, words) for stage in view.program.stages for map_ in stage.maps]
    unit = math.lcm(*(table.partitioning.head_unit for table in catalog.late.values() if table.partitioning))
    here, there = (_at(catalog, view, now // unit * unit) for now in (_NOW, 2 * _NOW))
    late = [*sorted(growing & catalog.late.keys()), *(["the clock"] if any(map(is_clock, view.inputs)) else [])]
    moving = [_moving(one, other, _NOW // unit * unit) for one, other in zip(here, there, strict=True)]
    return [_note(catalog, view, one, late) for one in moving]


def _at(catalog: Catalog, view: View, now: int) -> list[MapExpiry]:
    """Expiry of the state of a view if all heads are at an instant."""
    found = expiry_of(catalog, {}, heads_at(catalog, now, view), new=view)
    return found.maps.get(view.name, [])


def _moving(one: MapExpiry, later: MapExpiry, now: int) -> MapExpiry:
    """Expiry of a map, with a bound that counts from the heads on. One that does not move with them is none."""
    if one.entries is None or later.entries is None:
        return one
    if one.entries.below == later.entries.below:
        return replace(one, entries=None, obstacle=Obstacle(next(iter(one.added_by), "")))
    return replace(one, entries=replace(one.entries, below=one.entries.below - now))


def require_bounded_state(catalog: Catalog, view: View) -> None:
    """Refuse a view with ``require = 'bounded'`` that keeps something for ever, with what would bound it."""
    if view.options.get("require") != "bounded":
        return
    for note in map_notes(catalog, view):
        if note.hint:
            raise Unsupported(
                f"the state of view \"{view.name}\" grows for ever, and it has require = 'bounded'",
                where=f"{note.map}[{', '.join(note.columns)}]",
                detail=f"Its entries are {note.text}.",
                hint=note.hint,
            )


def _unknown(name: str, words: str) -> MapNote:
    return MapNote(name, (), words, "Leave on_error out.")


def _note(catalog: Catalog, view: View, one: MapExpiry, late: list[str]) -> MapNote:
    columns = tuple(key.name for key in one.map.keys)
    if one.entries is not None:
        return MapNote(one.map.name, columns, f"forgotten {_when(one.map, one.entries, late)}")
    if not one.map.keys or _is_one_row(one):
        return MapNote(one.map.name, columns, "one entry")
    made_of = [one.stage.name] if one.map.name == one.stage.name else one.added_by
    if made_of and all(_leaves(view.full_program, name) for name in made_of):
        return MapNote(
            one.map.name, columns, "only of rows that count: they leave when the clock has passed their time"
        )
    if not one.added_by and one.stage.name != one.map.name:
        return MapNote(one.map.name, columns, "as it was when the view was created: no change adds to it")
    if one.obstacle is None:
        return MapNote(one.map.name, columns, "only for rows without a time")
    if one.obstacle.words:
        return MapNote(one.map.name, columns, f"never forgotten: {one.obstacle.words}", TIED)
    return _of_cause(catalog, view, one, columns)


def _is_one_row(one: MapExpiry) -> bool:
    """True of the rows of a stage that has a single group."""
    finish = one.stage.finish
    keys = {map_.name: map_.keys for map_ in one.stage.maps}
    return isinstance(finish, GroupEmission) and one.map.name == one.stage.name and not keys[finish.source]


def _leaves(program: Program, name: str) -> bool:
    """True if all rows of a stage leave by themselves: they are, or follow from, those that a clock takes."""
    stage = next((stage for stage in program.stages if stage.name == name), None)
    if stage is None:
        return False
    by_clock = [one for trigger in stage.triggers if is_clock(trigger.relation) for one in trigger.statements]
    inputs = [read for read in stage.inputs if not is_clock(read)]
    forgets = any(one.target != name for one in by_clock)  # rows that wait until they leave
    return forgets or (bool(inputs) and all(_leaves(program, read) for read in inputs))


def _of_cause(catalog: Catalog, view: View, one: MapExpiry, columns: tuple[str, ...]) -> MapNote:
    """The note for a map of which a change can reach entries of any time."""
    assert one.obstacle is not None
    added = {root for name in one.added_by for root in _roots(catalog, view.full_program, name)}
    if added and not any(catalog.is_stream(root) or root in catalog.late for root in added):
        return MapNote(one.map.name, columns, f"as many as rows of {', '.join(sorted(added))}")
    roots = sorted(_roots(catalog, view.full_program, one.obstacle.cause))
    unbounded = [root for root in roots if not _is_bounded(catalog, root)]
    if not unbounded:
        words = f"never forgotten: nothing ties them to the time of {', '.join(roots) or one.obstacle.cause}"
        return MapNote(one.map.name, columns, words, TIED)
    root = unbounded[0]
    declare = f"Declare {root} with LATENESS and RETAIN"
    static = f"{declare}, or use strategy = 'viewlet' and static = '{root}' if it never changes."
    hint = f"{declare}." if catalog.is_stream(root) else static
    return MapNote(one.map.name, columns, f"never forgotten: a change of {root} can reach any of them", hint)


def _is_bounded(catalog: Catalog, name: str) -> bool:
    table = catalog.late.get(name)
    return table is not None and table.partitioning is not None and table.partitioning.retain is not None


def _roots(catalog: Catalog, program: Program, name: str) -> set[str]:
    """The tables and streams that a relation is made from."""
    inputs = {stage.name: stage.inputs for stage in program.stages}
    if name in inputs:
        return {root for read in inputs[name] for root in _roots(catalog, program, read)}
    owner = name.partition("/")[0]
    if name not in catalog and owner in catalog.views:  # a stage that views share
        return {above for above in catalog.ancestors(catalog.views[owner]) if above not in catalog.views}
    if name in catalog.views:
        return {above for above in catalog.ancestors(catalog.views[name]) if above not in catalog.views}
    return set() if is_clock(name) else {name}


def _when(map_: Map, entries: ExpiredEntries, late: list[str]) -> str:
    """From when on entries have expired; their bound counts from the heads of tables on."""
    column = ".".join([entries.column.rpartition(".")[2], *(entries.part or ())[:1]])
    behind = " and ".join(late)
    if entries.column == PARTITION_NUMBER:
        return f"with partitions that none which can change reads, by {behind}"
    if entries.part is None and map_.keys[entries.place].type in WHOLE_NUMBERS:
        return f"when no change can have its {column}, by {behind}"
    length = format_duration(max(-(entries.below // _SECOND) * _SECOND, _SECOND))
    return f"{''.join(_which(entries, column))} more than {length} behind {behind}{''.join(_but(entries))}"


def _which(entries: ExpiredEntries, column: str) -> Iterator[str]:
    if entries.tail is not None and entries.tail.link is not None:
        yield "when their session ended"
    else:
        yield f"when {column} is"


def _but(entries: ExpiredEntries) -> Iterator[str]:
    if entries.tail is not None and entries.tail.taken is not None:
        yield ", but for those since the last that no variable of the pattern can take"
    if entries.tail is not None and entries.tail.rows:
        groups = ", ".join(key.name.rpartition(".")[2] for key in entries.tail.keys)
        some = "" if entries.tail.rows == 1 else f" {entries.tail.rows}"
        yield f", but for the first{some} and the last{some} before that" + (f" of each {groups}" if groups else "")
