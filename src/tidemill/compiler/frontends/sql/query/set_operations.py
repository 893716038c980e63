"""UNION, INTERSECT and EXCEPT: two queries brought to common types, column by position."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Distinct, Except, Intersect, UnionAll
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.names.projections import cast_columns
from tidemill.model.errors import TypeMismatch, Unsupported

SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")


def from_set_operation(node: exp.SetOperation, left: Relation, right: Relation, source: SqlText) -> Relation:
    """``left`` and ``right`` as ``node`` combines them; columns are called as in ``left``."""
    keyword = source.keyword(node.expression, *SET_OPERATORS)
    if node.args.get("by_name"):
        raise Unsupported(f"{node.key.upper()} BY NAME is not supported", where=keyword)
    if len(left.fields) != len(right.fields):
        what = f"{node.key.upper()} of {len(left.fields)} and {len(right.fields)} columns"
        raise TypeMismatch(what, where=keyword)
    with source.locating(node.expression):
        types = [common_type([a.type, b.type]) for a, b in zip(left.fields, right.fields, strict=True)]
    names = [f.name for f in left.fields]
    return _combined(node, cast_columns(left, types, names), cast_columns(right, types, names))


def _combined(node: exp.SetOperation, left: Relation, right: Relation) -> Relation:
    distinct = bool(node.args.get("distinct"))
    if isinstance(node, exp.Intersect):
        return Intersect(left, right, all=not distinct)
    if isinstance(node, exp.Except):
        return Except(left, right, all=not distinct)
    if distinct:  # the outermost DISTINCT is enough
        return Distinct(UnionAll((*_flat(_repeating(left)), *_flat(_repeating(right)))))
    return UnionAll((*_flat(left), *_flat(right)))


def _repeating(relation: Relation) -> Relation:
    return relation.input if isinstance(relation, Distinct) else relation


def _flat(relation: Relation) -> tuple[Relation, ...]:
    """A union within a union is one union."""
    return relation.inputs if isinstance(relation, UnionAll) else (relation,)
