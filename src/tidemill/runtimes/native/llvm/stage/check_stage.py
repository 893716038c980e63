"""Stages that have no native form: each check refuses what machine code does not do, with the reason for EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.relational.match import Match
from tidemill.algebra.relational.relations import Window
from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.program.reads import sources_of, steps_of
from tidemill.program.stages import (
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    SessionEmission,
    Stage,
)
from tidemill.program.statements import ArrayLoop, RelationLoop, Replace
from tidemill.runtimes.native.llvm.codegen.frame import NotCompiled
from tidemill.runtimes.native.llvm.matching.emit_match import check_match
from tidemill.runtimes.native.llvm.stage.emit_top_k import check_top_k
from tidemill.runtimes.native.llvm.stage.multiset_groups import check_multisets
from tidemill.runtimes.native.llvm.windows.emit_windows import check_windows

MAX_COLUMNS = 64
"""Columns that have a bit in a record's mask of NULLs."""


def check_columns(map_: Map) -> None:
    """Refuse columns that have no native form."""
    for key in map_.keys:
        if isinstance(key.type, t.Void):
            raise NotCompiled(f"a column of type {key.type}")
    if len(map_.keys) > MAX_COLUMNS:
        raise NotCompiled(f"more than {MAX_COLUMNS} columns")


def check_finish(stage: Stage) -> None:
    """Refuse stages whose rows come out in a way that has no native form."""
    if isinstance(stage.finish, IterationEmission):
        raise NotCompiled("a recursion")
    if isinstance(stage.finish, SessionEmission):
        raise NotCompiled("sessions of rows that are not stored")
    if isinstance(stage.finish, PartitionEmission):
        check = {Window: check_windows, Match: check_match}.get(type(stage.finish.rows), check_top_k)
        check(stage, stage.finish)
    elif isinstance(stage.finish, GroupEmission):
        check_multisets(stage, stage.finish)
    if stage.graphs and any(isinstance(step, ArrayLoop) for step in steps_of(stage)):
        raise NotCompiled("the elements of an array")
    if any(source.split is not None for source in sources_of(stage)):
        raise NotCompiled("a change that is parted by keys")
    if any(isinstance(step, RelationLoop) and step.range is not None for step in steps_of(stage)):
        # Machine code takes the rows of a change one by one, and that of a clock has its old instant and its new one.
        raise NotCompiled("rows in the order of their instants")


def check_reader(reader: Stage) -> None:
    """Refuse rows that come from ordered groups: there are none of what is filled to be read."""
    finish = reader.finish
    if isinstance(finish, PartitionEmission) or (isinstance(finish, GroupEmission) and finish.multiset_reads):
        raise NotCompiled("ordered groups of rows that are not stored")


def check_replaces(stage: Stage, replaces: Sequence[Replace]) -> None:
    """Refuse targets that are recomputed from more than the maps of the stage."""
    own = {map_.name for map_ in stage.maps}
    for statement in replaces:
        if statement.target not in own:
            raise NotCompiled("its rows are recomputed from whole relations")
        for query in (*statement.queries, *statement.otherwise):
            for step in query.sources:
                if isinstance(step, RelationLoop) and step.relation not in own:
                    raise NotCompiled(f"{statement.target} is recomputed from whole relations")
