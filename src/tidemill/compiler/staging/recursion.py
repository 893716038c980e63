"""A recursion as a stage: the rows found in each iteration, and those of them that count.

The base is found in iteration 0. Rows that a step finds from one that counts in iteration i are found in iteration
i + 1. The step reads the rows that count from a map of the stage, with their iterations, so its changes are derived
like those of any join: a change of a table meets the rows that count, and a change of the rows that count meets the
tables. The latter is the trigger that computes an iteration from the one before (see
``program.statements.IterationEmission``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Recursive, Scan, UnionAll
from tidemill.algebra.relational.walk import children, walk, with_children
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BIGINT, Field
from tidemill.program.maps import Map
from tidemill.program.stages import Emission, IterationEmission
from tidemill.program.statements import Trigger

LAST_ITERATION = "round of the last row"
"""The column in which a step carries the iteration of the row that it reads; not a name that a query can use."""

LAST = Column(LAST_ITERATION, BIGINT, nullable=False)


@dataclass(frozen=True, slots=True)
class Recursion:
    """The state of a recursive query, and what is summed into ``found``.

    ``columns`` maps the columns of the query to those of the maps.
    """

    found: Map
    kept: Map
    body: Relation
    columns: Mapping[str, Scalar]


def recursion(name: str, node: Recursive) -> Recursion:
    """Maps and body of stage ``name`` for a recursive query."""
    own = _columns(node)
    keys = (Field(fresh("round", {f.name for f in own}), BIGINT, nullable=False), *own)
    kept = Map(f"{name}/rows", keys)
    first = _found(node.base, Literal(0, BIGINT), keys)
    then = _found(_carrying(node.step, node.name, kept), call("add", LAST, Literal(1, BIGINT)), keys)
    columns = {f.name: column(to) for f, to in zip(node.fields, own, strict=True)}
    return Recursion(Map(f"{name}/found", keys), kept, UnionAll((first, then)), columns)


def with_iteration_trigger(finish: Emission | None, triggers: Mapping[str, Trigger]) -> Emission | None:
    """``finish`` with the trigger from one iteration to the next, if it has iterations."""
    return replace(finish, again=triggers[finish.kept]) if isinstance(finish, IterationEmission) else finish


def _columns(node: Recursive) -> tuple[Field, ...]:
    """The columns of the rows last found, as the step names them."""
    return next(leaf.columns for leaf in walk(node.step) if isinstance(leaf, Scan) and leaf.relation == node.name)


def _found(rows: Relation, round_: Scalar, keys: Sequence[Field]) -> Relation:
    """``rows`` as they are found in an iteration."""
    named = zip(keys[1:], rows.fields, strict=False)  # a step has the carried iteration as one more column
    return Project(rows, (Named(keys[0].name, round_), *(Named(key.name, column(f)) for key, f in named)))


def _carrying(node: Relation, name: str, kept: Map) -> Relation:
    """``node`` with the rows that count in place of relation ``name``, and ``LAST_ITERATION`` as its last column."""
    if isinstance(node, Scan) and node.relation == name:
        scan = Scan(kept.name, node.alias, kept.keys)
        return _with_round(scan, [Named(f.name, column(f)) for f in node.fields], column(scan.fields[0]))
    carrying = with_children(node, [_carrying(c, name, kept) if reads(c, name) else c for c in children(node)])
    match carrying:
        case UnionAll():
            return carrying
        case Project(input=input_, outputs=outputs):
            return _with_round(input_, outputs, LAST)
    return _with_round(carrying, [Named(f.name, column(f)) for f in node.fields], LAST)


def _with_round(input_: Relation, outputs: Sequence[Named], round_: Scalar) -> Relation:
    return Project(input_, (*outputs, Named(LAST_ITERATION, round_)))


def reads(node: Relation, name: str) -> bool:
    """True if ``node`` scans relation ``name``."""
    return any(isinstance(leaf, Scan) and leaf.relation == name for leaf in walk(node))
