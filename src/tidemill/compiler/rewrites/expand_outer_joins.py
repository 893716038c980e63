"""Outer joins as inner joins and the rows that have no partner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.scalars import Call, Column, Exists, Literal, Named, Scalar, column, is_nullable
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Join, OuterJoin, Project, UnionAll, Values
from tidemill.algebra.relational.walk import columns_in, transform, walk_all
from tidemill.compiler.analysis.blocks import count_blocks
from tidemill.compiler.analysis.filters import filtered, without_nulls
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.rewrites.definitions import Definitions
from tidemill.compiler.rewrites.subqueries.correlation import equalities
from tidemill.compiler.rewrites.subqueries.dependent_joins import padded, part_with, source_of
from tidemill.model.types import BIGINT, BOOLEAN, Field

NameOnce = Callable[[Relation], Relation]
"""Returns a form of a relation that may be read many times (see ``Definitions``)."""


def expand_outer_joins(relation: Relation) -> Relation:
    """``relation`` without outer joins; the same rows.

    ``l LEFT JOIN r ON c`` are the pairs of ``l JOIN r ON c``, and with NULLs for ``r`` the rows of ``l`` for which NOT
    EXISTS (SELECT * FROM r WHERE c). So a row loses its NULLs when its first partner arrives, and gets them back when
    the last one leaves: both are changes of a truth value, which ``replace_quantifiers`` maintains by a count.

    Where ``c`` is a set of equalities, ``l`` is joined with the rows of ``r`` and, with NULLs, with the keys of ``l``
    that ``r`` does not have. This reads ``l`` once, so that a chain of outer joins stays one join. A side that is read
    more than once becomes a definition if it is large, so the program is linear in the length of the chain.
    """
    taken = {field.name.partition(".")[0] for node in walk_all(relation) for field in node.fields}
    definitions = Definitions(relation)

    def rewritten(node: Relation) -> Relation:
        if not isinstance(node, OuterJoin):
            return node
        alias = fresh("partner", taken)
        taken.add(alias)
        return _rewritten(node, alias, definitions.once)

    return definitions.rewritten(relation, lambda part: transform(part, rewritten))


def _rewritten(node: OuterJoin, alias: str, once: NameOnce) -> Relation:
    left, right, condition = node.left, node.right, node.condition
    if node.keeps_left != node.keeps_right:
        kept, other = (left, once(right)) if node.keeps_left else (right, once(left))
        joined = _joined_by_key(kept, other, condition, alias, once)
        if joined is not None:
            return Project(joined, tuple(Named(f.name, column(f)) for f in node.fields))
        left, right = (left, other) if node.keeps_left else (other, right)
    left, right = once(left), once(right)
    parts: list[Relation] = [Join(left, right, condition)]
    if node.keeps_left:
        parts.append(_padded(_alone(left, right, condition), node.fields))
    if node.keeps_right:
        parts.append(_padded(_alone(right, left, condition), node.fields))
    return UnionAll(tuple(parts))


def _alone(kept: Relation, other: Relation, condition: Scalar | None) -> Relation:
    """The rows of ``kept`` that have no partner in ``other``."""
    partners = filtered(other, condition)
    return Filter(kept, call("not", Exists(partners)))


def _padded(rows: Relation, fields: Sequence[Field]) -> Relation:
    """``rows`` with NULLs for those of ``fields`` that they do not have."""
    own = {f.name for f in rows.fields}
    columns = (column(f) if f.name in own else Literal(None, f.type) for f in fields)
    return Project(rows, tuple(Named(f.name, scalar) for f, scalar in zip(fields, columns, strict=True)))


# --------------------------------------------------------------------------------------------------- joined by equality


def _joined_by_key(
    kept: Relation, other: Relation, condition: Scalar | None, alias: str, once: NameOnce
) -> Relation | None:
    """``kept`` joined with its partners or with NULLs; None if the condition is no conjunction of equalities."""
    taken = None if condition is None else equalities(Filter(other, condition))
    if taken is None or not taken[1]:
        return None
    partners, found = taken
    own = [equality.outer for equality in found]
    nullable = [key for key in own if is_nullable(key)]
    # With two nullable keys one row of NULLs could not stand for all rows without a key.
    if len(nullable) > 1 or (nullable and count_blocks(other) > 1) or not _read(own) <= {f.name for f in kept.fields}:
        return None
    kept = _with_source_once(kept, _read(own), once)
    keys = tuple(Named(f"{alias}.key_{i}", equality.inner) for i, equality in enumerate(found, 1))
    groups = Aggregate(without_nulls(partners, [key.scalar for key in keys]), keys, ())
    sides = _partners(groups, _missing(kept, groups, own, alias), other.fields, f"{alias}.keyless")
    equal = [call("eq", one, column(key.field)) for one, key in zip(own, keys, strict=True)]
    if not nullable:
        return Join(kept, UnionAll(sides), conjunction(equal))
    row = _keyless(sides[0].fields)
    keyless = column(row.fields[-1])
    alone = Call("and", (keyless, Call("is_null", (nullable[0],), BOOLEAN)), BOOLEAN)
    paired = reduce(_both, equal, call("not", keyless))
    return Join(kept, UnionAll((*sides, row)), Call("or", (alone, paired), BOOLEAN))


def _partners(groups: Aggregate, missing: Relation, fields: Sequence[Field], keyless: str) -> tuple[Relation, Relation]:
    """The rows by their keys, and NULLs for the missing keys; neither has rows without a key."""
    keys = tuple(Named(key.name, column(key.field)) for key in groups.keys)
    shown = tuple(Named(f.name, column(f)) for f in fields)
    nulls = tuple(Named(f.name, Literal(None, f.type)) for f in fields)
    keyed = Named(keyless, Literal(False, BOOLEAN))
    return Project(groups.input, (*groups.keys, *shown, keyed)), Project(missing, (*keys, *nulls, keyed))


def _keyless(fields: Sequence[Field]) -> Values:
    """The row of NULLs that rows without a key are joined with, marked by its last column."""
    *others, last = fields
    nulls = (replace(f, nullable=True) for f in others)
    return Values(((*(None for _ in others), True),), (*nulls, last))


def _missing(kept: Relation, groups: Aggregate, own: Sequence[Scalar], alias: str) -> Relation:
    """Empty groups: one for each key of ``kept`` that ``groups`` does not have."""
    count = AggregateCall(f"{alias}.rows", "count", None, BIGINT)
    source = source_of(kept, _read(own))
    keys = tuple(Named(key.name, scalar) for key, scalar in zip(groups.keys, own, strict=True))
    counted = padded(replace(groups, aggregates=(count,)), Project(without_nulls(source, own), keys))
    none = Call("eq", (Column(count.name, BIGINT, nullable=False), Literal(0, BIGINT)), BOOLEAN)
    return Filter(counted, none)


def _with_source_once(kept: Relation, columns: set[str], once: NameOnce) -> Relation:
    """``kept`` with the part that has the keys, which is read again, in a form that may be read many times."""
    part = part_with(kept, columns)
    shared = once(part)
    return transform(kept, lambda node: shared if node is part else node) if shared is not part else kept


def _read(scalars: Sequence[Scalar]) -> set[str]:
    return set().union(*map(columns_in, scalars))


def _both(left: Scalar, right: Scalar) -> Scalar:
    return Call("and", (left, right), BOOLEAN)
