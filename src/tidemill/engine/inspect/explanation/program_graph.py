"""The program of a view as a graph: tables, maps and views, and how changes go from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidemill.program.maps import Map
from tidemill.program.reads import queries_of, reads_old, relation_of, triggers_of
from tidemill.program.stages import (
    Emission,
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)

__all__ = ["Arrow", "Box", "ProgramGraph", "graph_of"]


@dataclass(frozen=True)
class Box:
    """A table, view, stage or map, by its name, with what is said of it below that."""

    name: str
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Arrow:
    """A trigger: a change of ``source`` changes ``target``. If it is ``looked_up``, changes of others read it."""

    source: str
    target: str
    looked_up: bool = False


@dataclass(frozen=True)
class ProgramGraph:
    """Boxes, each before those that it is made into as a rule, and arrows between them."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def graph_of(program: Program, kind_of: Callable[[str], str]) -> ProgramGraph:
    """The graph of a program; ``kind_of`` says of its inputs if they are tables or views."""
    boxes: dict[str, Box] = {}
    arrows: dict[Arrow, None] = {}
    for stage in program.stages:
        for name in stage.inputs:
            boxes.setdefault(name, Box(name, kind_of(name)))
        boxes |= {map_.name: Box(map_.name, "map", _columns(map_)) for map_ in stage.maps}
        kind = "view" if stage.name == program.view else "stage"
        boxes[stage.name] = Box(stage.name, kind, stage.strategy)
        arrows |= dict.fromkeys(_arrows(stage))
    return ProgramGraph(tuple(boxes.values()), tuple(a for a in arrows if a.source in boxes and a.target in boxes))


def _columns(map_: Map) -> str:
    keys = ", ".join(f.name.rpartition(".")[2] for f in map_.keys)
    values = ", ".join(value.name for value in map_.values)
    return f"[{keys}]" + (f" → {values}" if values else "")


def _arrows(stage: Stage) -> Iterator[Arrow]:
    for trigger in triggers_of(stage):
        for statement in trigger.statements:
            yield Arrow(trigger.relation, statement.target)
            steps = (step for query in queries_of(statement) for step in query.sources)
            read = {relation_of(step) for step in steps if reads_old(step)} - {trigger.relation, statement.target}
            yield from (Arrow(name, statement.target, looked_up=True) for name in sorted(read))
    yield from (Arrow(name, stage.name) for name in _emitted(stage.finish))


def _emitted(finish: Emission | None) -> Iterator[str]:
    """The maps that rows of a stage are made of."""
    match finish:
        case GroupEmission(source=source, multiset_reads=multisets):
            yield from (source, *(read.map for read in multisets))
        case PartitionEmission(source=source):
            yield source
        case SessionEmission(source=source, kept=kept) | IterationEmission(source=source, kept=kept):
            yield from (source, kept)
        case TimePartitionEmission(feeds=feeds, numbers=numbers, kept=kept):
            yield from (*(feed.map for feed in feeds), numbers, kept)
