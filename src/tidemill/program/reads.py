"""What a program reads: which relations must keep their contents, and by which columns they are looked up."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.program.statements import Add, Program, Query, Source, Stage, Statement, Version


def queries_of(statement: Statement) -> tuple[Query, ...]:
    """The queries that a statement sums."""
    return (statement.query,) if isinstance(statement, Add) else statement.queries


def sources_of(stage: Stage) -> Iterator[Source]:
    """Every loop of every trigger of ``stage``; those of its load are left out."""
    for trigger in stage.triggers:
        for statement in trigger.statements:
            for query in queries_of(statement):
                yield from query.sources


def reads_state(program: Program) -> set[str]:
    """The relations whose contents a trigger reads: they must be kept. The stages' own maps are not among them.

    A stage that is not in this set passes its changes on and forgets its rows, unless it is the view itself.
    """
    own = {map_.name for stage in program.stages for map_ in stage.maps}
    return {source.relation for source in _state_sources(program)} - own


def indexes(program: Program) -> dict[str, set[tuple[str, ...]]]:
    """For each relation and map that triggers look rows up in: the column tuples to index it by."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for source in _state_sources(program):
        if source.lookup:
            found.setdefault(source.relation, set()).add(tuple(name for name, _ in source.lookup))
    return found


def _state_sources(program: Program) -> Iterator[Source]:
    for stage in program.stages:
        yield from (source for source in sources_of(stage) if source.version is Version.STATE)
