"""ON CONFLICT DO UPDATE to algebra: a query over pairs of rows, one that is there and one that was to be inserted."""

from __future__ import annotations

from datetime import datetime

from tidemill.algebra.expressions.scalars import column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project, Scan
from tidemill.compiler.frontends.script.conflict_clause import ConflictClause
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_untranslated
from tidemill.compiler.frontends.sql.named_definitions import DefinitionScope, NamedDefinitions
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.compiler.frontends.translate import assigned_columns
from tidemill.model.errors import NameTaken
from tidemill.model.schema import RelationFields, Table, names_of
from tidemill.model.types import Field

__all__ = ["PAIRS", "pair_fields", "translate_conflict"]

PAIRS = "conflicting rows"
"""The relation of pairs, which no table can be called."""

EXCLUDED = "excluded"
"""The name of the row that was to be inserted."""


def pair_fields(table: Table) -> tuple[Field, ...]:
    """The columns of a pair: of the row that is there, and then of the row that was to be inserted."""
    sides = [("old", table.fields), (EXCLUDED, table.fields)]
    return tuple(Field(f"{side} {f.name}", f.type, f.nullable) for side, fields in sides for f in fields)


def translate_conflict(
    clause: ConflictClause, table: Table, relations: RelationFields, named: NamedDefinitions, moment: datetime
) -> Relation:
    """The rows that DO UPDATE changes, over ``PAIRS``: their old columns, followed by their new ones.

    A name without a table is a column of the row that is there. NOW() is ``moment``.
    """
    if clause.alias == EXCLUDED:
        raise NameTaken(
            f'"{EXCLUDED}" is the row to be inserted', where=clause.place, hint=f"INSERT INTO {table.name} AS t"
        )
    pairs, width = Scan(PAIRS, "pair", pair_fields(table)), len(table.fields)
    columns = [column(f) for f in pairs.fields]
    current = dict(zip(names_of(table.fields), columns[:width], strict=True))
    bound = [(clause.alias, columns[:width], False), (EXCLUDED, columns[width:], True)]
    bindings = tuple(
        Binding(alias, name, one, hidden=hidden)
        for alias, side, hidden in bound
        for name, one in zip(names_of(table.fields), side, strict=True)
    )

    def expressions(tree: ParsedText) -> ExpressionTranslator:
        scope = DefinitionScope(relations, named, NameAllocator([clause.alias, EXCLUDED, "pair"]), moment=moment)
        return scope.translator(tree.source).expressions(Scope(bindings))

    found: Relation = pairs
    if clause.where is not None:
        found = Filter(pairs, expressions(clause.where).condition(clause.where.node))
        refuse_untranslated(clause.where.node, clause.where.source)
    new = assigned_columns(
        clause.assignments,
        clause.alias,
        table,
        current,
        lambda tree: expressions(tree).scalar(tree.node),
        clause.place,
        "changed ",
    )
    return Project(found, (*all_columns(found)[:width], *new))
