"""The columns of tables that a view sees: those of when it was created, under the names that they had then.

A view is compiled from its text whenever a warehouse is opened. Columns that a table gets later must not come into its
``SELECT *``, nor make a name ambiguous, and a column that was renamed has its former name in the text. So a view over a
table whose columns were altered after it was created has the columns that it sees, with their names today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Scan
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.frontends.sql.table_references import quoted, replace_tables
from tidemill.model.schema import Partitioning, RelationFields, Table
from tidemill.model.types import Field

__all__ = [
    "EVERYTHING",
    "SeenColumns",
    "as_seen",
    "over_present_columns",
    "partitioning_as_seen",
    "spelled_out",
    "table_as_seen",
]

SeenColumns = Mapping[str, Mapping[str, str]]
"""For tables that were altered: the present names of the columns that a view sees, by the names that it knows."""

EVERYTHING: SeenColumns = {}
"""All columns, as they are."""


def as_seen(fields: tuple[Field, ...], names: Mapping[str, str] | None) -> tuple[Field, ...]:
    """The columns of a table that a view sees, as it knows them.

    >>> from tidemill.model.types import INT
    >>> [f.name for f in as_seen((Field("id", INT), Field("b", INT), Field("c", INT)), {"id": "id", "a": "b"})]
    ['id', 'a']
    """
    if names is None:
        return fields
    present = {f.name: f for f in fields}
    return tuple(replace(present[now], name=known) for known, now in names.items())


def partitioning_as_seen(cut: Partitioning, names: Mapping[str, str] | None) -> Partitioning:
    """The partitioning of a table, by the column as a view knows it."""
    known = {now: known for known, now in (names or {}).items()}
    return replace(cut, column=known.get(cut.column, cut.column))


def table_as_seen(table: Table | None, names: Mapping[str, str] | None) -> Table | None:
    """The declaration of a table, by the columns as a view knows them."""
    if table is None or names is None:
        return table
    known = {now: known for known, now in names.items()}
    cut = table.partitioning
    return replace(
        table,
        fields=as_seen(table.fields, names),
        primary_key=tuple(known.get(column, column) for column in table.primary_key),
        partitioning=None if cut is None else partitioning_as_seen(cut, names),
    )


def over_present_columns(relation: Relation, seen: SeenColumns, present: RelationFields) -> Relation:
    """A query over the columns that it sees as one over the tables as they are."""

    def widened(node: Relation) -> Relation:
        if not isinstance(node, Scan) or node.relation not in seen:
            return node
        whole = Scan(node.relation, node.alias, present[node.relation])
        by_name = {f.name: inner for f, inner in zip(whole.columns, whole.fields, strict=True)}
        names = seen[node.relation]
        pairs = zip(node.columns, node.fields, strict=True)
        return Project(whole, tuple(Named(shown.name, column(by_name[names[f.name]])) for f, shown in pairs))

    return transform(relation, widened) if seen else relation


def spelled_out(query: str, seen: SeenColumns) -> str:
    """The text of a query that names the columns that it sees, so that it means the same over the tables as they are.

    >>> spelled_out("SELECT * FROM t", {"t": {"id": "id", "a": "b"}})
    'SELECT * FROM (SELECT `id`, `b` AS `a` FROM `t`) AS `t`'
    """
    return replace_tables(query, {table: _selection(table, names) for table, names in seen.items()}) if seen else query


def _selection(table: str, names: Mapping[str, str]) -> str:
    columns = (quoted(now) if known == now else f"{quoted(now)} AS {quoted(known)}" for known, now in names.items())
    return f"(SELECT {', '.join(columns)} FROM {quoted(table)})"
