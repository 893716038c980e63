"""``orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON r.currency = o.currency``: the version at the time of a row.

A table of versions has a row for each version, with the time from which on it holds: the last column of its primary
key, or the column by which it is partitioned. A version holds until the next one of the same key. So each row is joined
with rows of the table as of its own time, and later versions change nothing for it: this is what Flink calls an
event-time temporal join. A version that comes late corrects the rows that it holds for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Column, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.compiler.frontends.sql.grammar.table_grammar import AS_OF
from tidemill.compiler.frontends.sql.query.context import FromItem, QueryContext
from tidemill.compiler.frontends.sql.query.joins.asof_join import AsofCondition, closest_join
from tidemill.compiler.frontends.sql.query.joins.join import JOIN_KINDS, is_true
from tidemill.model.errors import TextLocation, TypeMismatch, Unsupported
from tidemill.model.schema import Table
from tidemill.model.types import DATE, TIMESTAMP, TIMESTAMP_NTZ

TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


class Versions(NamedTuple):
    """The time of a version, and the columns in which versions of one key are equal."""

    time: Column
    key: tuple[Scalar, ...]


def from_temporal_join(context: QueryContext, left: FromItem, right: FromItem, node: exp.Join) -> FromItem:
    """``left`` joined with the versions of ``right`` that hold at a time of its rows."""
    place = context.source.place(node)
    if node.side not in ("", "LEFT") or node.kind not in JOIN_KINDS or node.args.get("using") or node.method:
        raise Unsupported(
            "this kind of join takes no FOR SYSTEM_TIME AS OF",
            where=place,
            detail="What the table holds depends on the row to the left.",
            hint="Use JOIN or LEFT JOIN with ON.",
        )
    moment = _moment(context, left, node.args[AS_OF])
    on = node.args.get("on")
    parts = [] if on is None or is_true(on) else conjuncts(context.expressions(left[1] + right[1]).condition(on))
    time, key = _versions(context, right[0], parts, place)
    return closest_join(
        context, left, right, AsofCondition(tuple(parts), key, "ge", moment, time), node.side, node.kind
    )


def _moment(context: QueryContext, left: FromItem, node: exp.Expr) -> Scalar:
    """The time of a row to the left."""
    place = context.source.place(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "proctime":
        raise Unsupported(
            "a temporal join at processing time",
            where=place,
            detail="Its rows would depend on when they are computed, and not on the data.",
            hint="Join the present rows, without FOR SYSTEM_TIME; or name the time of a row, as in AS OF o.ts.",
        )
    moment = context.expressions(left[1]).scalar(node)
    if moment.type not in TIMES or subqueries(moment):
        raise TypeMismatch(f"FOR SYSTEM_TIME AS OF takes a time of the row to the left, not {moment.type}", where=place)
    return moment


def _versions(context: QueryContext, relation: Relation, parts: Sequence[Scalar], place: TextLocation) -> Versions:
    """The versions that a relation has, by the declaration of its table and the equalities of ON."""
    table, columns = _table(context, relation)
    if table is None:
        raise Unsupported(
            "FOR SYSTEM_TIME AS OF is for a table of versions",
            where=place,
            detail="The time of a version is declared for a table.",
            hint="Write ASOF JOIN, with the time in its condition: a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts.",
        )
    time = _time_of(table, place)
    equal = _equal_columns(parts, {found.name: name for name, found in columns.items()})
    key = tuple(name for name in table.primary_key if name != time)
    if len(key) == len(table.primary_key):
        if key and equal.issuperset(key):
            raise _no_versions(table, f"It has one row for each ({', '.join(key)}), which is the present one.", place)
        if not equal:
            raise TypeMismatch(
                f'the versions of "{table.name}" are joined by no equality',
                where=place,
                detail="What is equal in the columns of ON is taken for versions of one thing.",
                hint="Write ON r.k = o.k; or declare PRIMARY KEY (k, ts).",
            )
        key = tuple(name for name in columns if name in equal)
    if not {time, *key} <= columns.keys():
        raise _no_versions(table, "The time of a version or its key is not among the columns that are read.", place)
    return Versions(columns[time], tuple(columns[name] for name in key))


def _time_of(table: Table, place: TextLocation) -> str:
    """The column that has the time from which on a version holds."""
    types = {f.name: f.type for f in table.fields}
    cut = table.partitioning
    found = [] if cut is None or cut.added else [cut.column]
    if table.primary_key and types.get(table.primary_key[-1]) in TIMES and table.primary_key[-1] not in found:
        found.append(table.primary_key[-1])
    if not found:
        raise _no_versions(table, "No column is declared as the time from which on a version holds.", place)
    if len(found) > 1:
        raise _no_versions(table, f"Its versions may be ordered by {found[0]} or by {found[1]}.", place)
    return found[0]


def _no_versions(table: Table, detail: str, place: TextLocation) -> Unsupported:
    return Unsupported(
        f'"{table.name}" is no table of versions',
        where=place,
        detail=detail,
        hint="Declare PRIMARY KEY (k, ts), or PARTITION BY ts EVERY ...; or write ASOF JOIN ... ON a.k = b.k AND "
        "a.ts >= b.ts.",
    )


def _table(context: QueryContext, relation: Relation) -> tuple[Table | None, dict[str, Column]]:
    """The table whose rows a relation has, and its columns there by their names in the table; None for other rows."""
    match relation:
        case Scan():
            names = (f.name for f in relation.columns)
            return context.table_of(relation.relation), dict(zip(names, map(column, relation.fields), strict=True))
        case Project():
            table, columns = _table(context, relation.input)
            shown = {
                output.scalar.name: output.field for output in relation.outputs if isinstance(output.scalar, Column)
            }
            return table, {name: column(shown[one.name]) for name, one in columns.items() if one.name in shown}
    return None, {}


def _equal_columns(parts: Sequence[Scalar], names: Mapping[str, str]) -> set[str]:
    """The columns of the table, by ``names`` for those of the relation, that equal something to the left."""
    found = set()
    for part in parts:
        match part:
            case Call("eq" | "null_safe_eq", (one, other)):
                for own, beside in ((one, other), (other, one)):
                    if isinstance(own, Column) and own.name in names and columns_in(beside).isdisjoint(names):
                        found.add(names[own.name])
    return found
